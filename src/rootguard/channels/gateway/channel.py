"""One person's side of the gateway: text out, text in, and who else's tokens came along.

The gateway speaks to a `Channel`. `guarded.Guarded` is the real one, on a person's text channel;
`Unguarded` changes nothing and is the control that shows what the guard does.
"""

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol

from rootguard.channels.replies import Restorer

_NOTED: Final = 64 * 1024


class Channel(Protocol):
    """What the gateway needs of one person."""

    def sanitize(self, text: str) -> tuple[str, Mapping[str, int]]:
        """The text as it may leave, and how often what was replaced."""
        ...

    def sanitize_json(self, value: object) -> tuple[object, Mapping[str, int]]:
        """The JSON value as it may leave, and how often what was replaced."""
        ...

    def private(self, label: str) -> bool:
        """Whether a declared identifier stands in an id."""
        ...

    def restore(self, text: str) -> str:
        """Issued tokens put back; everything else stays."""
        ...

    def restorer(self) -> Restorer:
        """The same, in pieces."""
        ...

    def strangers(self, text: str) -> Mapping[str, int]:
        """Identifiers in a reply that were never issued to this person, by kind."""
        ...

    def refusing(self) -> AbstractContextManager[None]:
        """While a request is inspected: an error that ends it is written down for the owner."""
        ...


class _Through:
    def feed(self, chunk: str) -> str:
        return chunk

    def close(self) -> str:
        return ""


class Unguarded:
    """Changes nothing: the same gateway with sanitizing off, to measure and to test against."""

    def sanitize(self, text: str) -> tuple[str, Mapping[str, int]]:
        """The text itself."""
        return text, {}

    def sanitize_json(self, value: object) -> tuple[object, Mapping[str, int]]:
        """The value itself."""
        return value, {}

    def private(self, label: str) -> bool:  # noqa: ARG002
        """Never."""
        return False

    def restore(self, text: str) -> str:
        """The text itself."""
        return text

    def restorer(self) -> Restorer:
        """One that restores nothing."""
        return _Through()

    def strangers(self, text: str) -> Mapping[str, int]:  # noqa: ARG002
        """None that it knows of."""
        return {}

    def refusing(self) -> AbstractContextManager[None]:
        """Nobody is told."""
        return nullcontext()


class Noted:
    """A channel that notes what came in, up to a bound, to look for strangers at the end."""

    __slots__ = ("_channel", "_left", "_texts")

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._texts: list[list[str]] = []
        self._left = _NOTED

    def restore(self, text: str) -> str:
        """Issued tokens put back; everything else stays."""
        self.note(self.open(), text)
        return self._channel.restore(text)

    def restorer(self) -> Restorer:
        """The same, in pieces."""
        return _NotedRestorer(self, self._channel.restorer())

    def open(self) -> list[str]:
        """A new text to note pieces of."""
        pieces: list[str] = []
        self._texts.append(pieces)
        return pieces

    def note(self, pieces: list[str], piece: str) -> None:
        """Keep a piece while there is room."""
        if piece and self._left > 0:
            pieces.append(piece[: self._left])
            self._left -= len(piece)

    def strangers(self) -> Mapping[str, int]:
        """Identifiers that were never issued, in all that was noted; forgets it."""
        found: Counter[str] = Counter()
        for pieces in self._texts:
            if pieces:
                found.update(self._channel.strangers("".join(pieces)))
        self._texts.clear()
        return found


class _NotedRestorer:
    __slots__ = ("_inner", "_noted", "_pieces")

    def __init__(self, noted: Noted, inner: Restorer) -> None:
        self._noted = noted
        self._inner = inner
        self._pieces = noted.open()

    def feed(self, chunk: str) -> str:
        self._noted.note(self._pieces, chunk)
        return self._inner.feed(chunk)

    def close(self) -> str:
        return self._inner.close()


class Channels:
    """The channels of those who called lately; the one unused longest makes room."""

    def __init__(self, open_channel: Callable[[str], Channel], *, most: int) -> None:
        self._open = open_channel
        self._most = most
        self._kept: OrderedDict[str, Channel] = OrderedDict()
        self._lock = threading.Lock()
        self._opening: dict[str, threading.Lock] = {}

    def of(self, profile: str) -> Channel:
        """The channel of a profile, opened now if it is not open. May wait for a store."""
        with self._lock:
            if profile in self._kept:
                self._kept.move_to_end(profile)
                return self._kept[profile]
            opening = self._opening.setdefault(profile, threading.Lock())
        with opening:
            with self._lock:
                if profile in self._kept:
                    return self._kept[profile]
            channel = self._open(profile)
            with self._lock:
                self._kept[profile] = channel
                self._opening.pop(profile, None)
                while len(self._kept) > self._most:
                    self._kept.popitem(last=False)
            return channel
