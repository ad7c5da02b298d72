"""What crossed the boundary, in order. A long-lived one keeps the latest events only.

The store's ledger is the lasting record of what was spent and to whom it was disclosed; this is for
looking at a conversation. What is appended may be noted in the store's journal, too.
"""

from collections import deque
from collections.abc import Callable, Iterator

from rootguard.events import Event

KEPT = 10_000
"""Events that a person's transcript keeps; a session's own keeps all."""


class Transcript:
    """Events with their turns, counted from 1 also when early ones are gone."""

    __slots__ = ("_count", "_events", "_note")

    def __init__(
        self, limit: int | None = None, *, note: Callable[[Event], None] | None = None
    ) -> None:
        self._events: deque[Event] = deque(maxlen=limit)
        self._note = note
        self._count = 0

    @property
    def next_turn(self) -> int:
        """The turn of the event that comes next."""
        return self._count + 1

    def append(self, event: Event) -> None:
        """Write down what happened."""
        self._events.append(event)
        self._count += 1
        if self._note is not None:
            self._note(event)

    def __iter__(self) -> Iterator[Event]:
        return iter(tuple(self._events))

    def __len__(self) -> int:
        return len(self._events)
