"""What was sanitized before, so that a chat that sends its earlier messages again costs little.

An original is known by a keyed hash, under a key that lives as long as the channel. Kept are the
sanitized text and what it rests on: how far the registry of issued tokens went, and the released
values. Whoever recalls an entry checks these again, so that one that has become old is not used.
"""

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from rootguard.values import RootName

LEAST_CHARACTERS = 512
"""A shorter text is sanitized again as quickly as it is recalled."""
MOST_CHARACTERS = 1_000_000
"""Of all texts that one channel keeps."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Remembered:
    """A sanitized text, how it came about, and what must still hold. Public."""

    text: str
    replaced: Mapping[str, int]
    mark: tuple[int, int]
    released: Mapping[RootName, float]


class Memory:
    """A bounded number of sanitized texts; the one that was not asked for longest goes first."""

    __slots__ = ("_entries", "_key", "_lock", "_size")

    def __init__(self) -> None:
        self._key = os.urandom(hashlib.blake2b.MAX_KEY_SIZE)
        self._entries: OrderedDict[bytes, Remembered] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<memory of {len(self._entries)} texts>"

    def digest(self, context: str, text: str) -> bytes:
        """What an original is known by."""
        made = hashlib.blake2b(f"{len(context)} ".encode(), key=self._key)
        made.update((context + text).encode("utf-8", "surrogatepass"))
        return made.digest()

    def recall(self, digest: bytes) -> Remembered | None:
        """What was kept under a digest, if it still is."""
        with self._lock:
            if digest not in self._entries:
                return None
            self._entries.move_to_end(digest)
            return self._entries[digest]

    def keep(self, digest: bytes, entry: Remembered) -> None:
        """Keep an entry, and forget others while there are too many."""
        with self._lock:
            old = self._entries.pop(digest, None)
            self._size += len(entry.text) - (0 if old is None else len(old.text))
            self._entries[digest] = entry
            while self._size > MOST_CHARACTERS:
                _, dropped = self._entries.popitem(last=False)
                self._size -= len(dropped.text)
