"""A store that lasts as long as the process: for tests, demonstrations and single runs."""

import os
import threading
from collections.abc import Sequence

from rootguard.events import RootNoised
from rootguard.store.base import Record
from rootguard.values import Principal, RootName


class MemoryStore:
    """Keeps everything in a dictionary under a lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[tuple[Principal, RootName], dict[int, Record]] = {}
        self._events: dict[Principal, list[RootNoised]] = {}
        self._fingerprint_key = os.urandom(32)

    @property
    def fingerprint_key(self) -> bytes:
        """The secret under which raw values are fingerprinted in this store."""
        return self._fingerprint_key

    def latest(self, principal: Principal, root: RootName) -> Record | None:
        """The newest version of a root, if it was ever noised."""
        with self._lock:
            versions = self._records.get((principal, root))
            return versions[max(versions)] if versions else None

    def commit(self, principal: Principal, draws: Sequence[Record]) -> tuple[Record, ...]:
        """Keep draws and their events, all or none, first writer wins."""
        keyed = [(draw.sanitized.root, draw.sanitized.version, draw.event, draw) for draw in draws]
        with self._lock:  # nothing below can fail half-way
            kept = []
            for root, version, event, draw in keyed:
                versions = self._records.setdefault((principal, root), {})
                if version not in versions:
                    versions[version] = draw
                    self._events.setdefault(principal, []).append(event)
                kept.append(versions[version])
            return tuple(kept)

    def events(self, principal: Principal) -> tuple[RootNoised, ...]:
        """Everything a principal was ever charged for, in order."""
        with self._lock:
            return tuple(self._events.get(principal, ()))
