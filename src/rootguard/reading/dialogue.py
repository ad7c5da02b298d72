"""What one text of a conversation leads a reader to expect of the next.

A question asks for quantities and the owner's next number answers it; a name without a number, or
the header of a table, waits for what follows; a tool's result is about what its call names. A
`Dialogue` goes along with one conversation, text by text in order, and keeps names only.
"""

from collections.abc import Sequence
from typing import Final

from rootguard.reading.claims import Expectation, Heard, Source
from rootguard.values import RootName

_PATIENCE: Final = 3  # texts of the owner without a number before a question counts as dropped
_TOPICS: Final = 8  # quantities that are spoken of: more than one formula has, fewer than a chart


class Dialogue:
    """One conversation as far as it was read."""

    __slots__ = ("_asked", "_calls", "_dangling", "_header", "_mentioned", "_patience", "_topic")

    def __init__(self) -> None:
        self._asked: tuple[RootName, ...] = ()
        self._mentioned: tuple[RootName, ...] = ()
        self._patience: int = 0
        self._dangling: tuple[RootName, ...] = ()
        self._header: str = ""
        self._topic: tuple[RootName, ...] = ()
        self._calls: dict[str, tuple[RootName, ...]] = {}

    def expectation(self, source: Source, call: str = "") -> Expectation:
        """What is expected of the next text of a source; `call` is the id of a tool's call."""
        if source in ("tool", "trusted"):
            return Expectation(asked=self._calls.get(call, ()))
        if source != "owner":
            return Expectation(topic=self._topic)
        asked = self._dangling or self._asked
        return Expectation(
            asked=asked, mentioned=self._mentioned, topic=self._topic, header=self._header
        )

    def called(self, call: str, roots: Sequence[RootName]) -> None:
        """A tool was called whose name or arguments name these quantities."""
        self._calls[call] = tuple(dict.fromkeys(roots))

    def heard(self, source: Source, heard: Heard) -> None:
        """Take up what a text said."""
        if source == "owner":
            self._hear_owner(heard)
        elif source == "model":
            self._mentioned = heard.named
            asked = heard.asked
            if not asked and heard.asks and len(self._topic) == 1:
                asked = self._topic  # "What does the report show for it?"
            if asked:
                self._asked, self._patience = asked, _PATIENCE
                self._dangling, self._header = (), ""

    def _hear_owner(self, heard: Heard) -> None:
        if heard.numbers:
            left = [root for root in self._asked if root not in heard.answered]
            # One question may be answered by and by: "54", then "and 23".
            self._asked = tuple(left) if heard.answered and len(left) < len(self._asked) else ()
            self._dangling, self._header = (), ""
        elif self._asked:
            self._patience -= 1
            if self._patience <= 0:
                self._asked = ()
        if heard.header:
            self._header = heard.header
        elif heard.dangling:
            self._dangling = heard.dangling
        if heard.spoken_of or heard.answered:
            spoken = (*self._topic, *heard.answered, *heard.spoken_of)
            self._topic = tuple(dict.fromkeys(reversed(spoken)))[:_TOPICS][::-1]
