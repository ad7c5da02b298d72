"""A person's text channel as the gateway uses it, with a memory for texts that come again.

An agent sends its whole conversation with every turn, so most texts were sanitized before. What
they became is kept, by a keyed digest of the text; neither the text nor anything private is. It
stays right because released values and tokens never change.
"""

import hashlib
import secrets
import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

from rootguard.channels.detection import Detector, merge
from rootguard.channels.replies import Restorer
from rootguard.channels.text import NumberPolicy, TextChannel
from rootguard.session.person import Person

_REMEMBERED: Final = 512 * 1024
_LABELS: Final = 4096


class Guarded:
    """A person's text channel. `remembered` bounds the characters that are kept; 0 keeps none."""

    __slots__ = ("_detectors", "_memory", "_person", "_public", "_text")

    def __init__(
        self,
        person: Person,
        *,
        detectors: Sequence[Detector] = (),
        near_private: NumberPolicy = "block",
        elsewhere: NumberPolicy = "pass",
        remembered: int = _REMEMBERED,
    ) -> None:
        self._person = person
        self._detectors = tuple(detectors)
        self._memory = _Memory(remembered)
        self._public: set[str] = set()
        self._text = TextChannel(
            person, detectors=detectors, near_private=near_private, elsewhere=elsewhere
        )

    def sanitize(self, text: str) -> tuple[str, Mapping[str, int]]:
        """The text as it may leave, and how often what was replaced."""
        key = self._memory.key(text)
        known = self._memory.find(key)
        if known is None:
            made = self._text.sanitize(text)
            known = (made.text, made.replaced)
            self._memory.keep(key, known)
        return known

    def sanitize_json(self, value: object) -> tuple[object, Mapping[str, int]]:
        """The JSON value as it may leave, and how often what was replaced."""
        made = self._text.sanitize_json(value)
        return made.value, made.replaced

    def private(self, label: str) -> bool:
        """Whether a declared identifier stands in an id."""
        if label in self._public:
            return False
        found = bool(self._person.declared(label))
        if not found and len(self._public) < _LABELS:
            self._public.add(label)
        return found

    def restore(self, text: str) -> str:
        """Issued tokens put back; everything else stays."""
        return self._text.restore(text)

    def restorer(self) -> Restorer:
        """The same, in pieces."""
        return self._text.restorer()

    def strangers(self, text: str) -> Mapping[str, int]:
        """Identifiers in a reply that were never issued to this person, by kind."""
        issued = self._person.issued(text)
        found = merge(each for detector in self._detectors for each in detector.find(text))
        return Counter(
            each.kind
            for each in found
            if not any(start < each.end and each.start < end for start, end in issued)
        )


_Sanitized = tuple[str, Mapping[str, int]]


class _Memory:
    """Sanitized texts by a digest of what they were; the one unused longest is forgotten first."""

    __slots__ = ("_kept", "_key", "_left", "_lock", "_most")

    def __init__(self, most: int) -> None:
        self._key = secrets.token_bytes(32)
        self._kept: OrderedDict[bytes, _Sanitized] = OrderedDict()
        self._left = self._most = most
        self._lock = threading.Lock()

    def key(self, text: str) -> bytes:
        """A digest that tells nothing of the text without this process's key."""
        content = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(content, key=self._key, digest_size=32).digest()

    def find(self, key: bytes) -> _Sanitized | None:
        """What a text became, if it is still known."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def keep(self, key: bytes, made: _Sanitized) -> None:
        """Remember, and forget what there is no room for."""
        with self._lock:
            if len(made[0]) > self._most or key in self._kept:
                return
            self._kept[key] = made
            self._left -= len(made[0]) + 100
            while self._left < 0 and self._kept:
                _, (text, _) = self._kept.popitem(last=False)
                self._left += len(text) + 100
