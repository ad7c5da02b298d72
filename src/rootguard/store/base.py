"""What a store promises: of all draws ever made for a root's version, exactly one is kept.

Values are keyed by principal and root, never by a conversation: tomorrow's chat must meet today's
noise. A store holds sanitized values, ledger events and keyed fingerprints; it has no column for
anything else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rootguard.events import RootNoised
from rootguard.values import Principal, RootName, Sanitized


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One kept draw. The fingerprint tells whether the value declared later is the same one."""

    sanitized: Sanitized
    fingerprint: bytes
    event: RootNoised


class Store(Protocol):
    """Keeps records and the ledger together."""

    @property
    def fingerprint_key(self) -> bytes:
        """The secret under which raw values are fingerprinted in this store."""
        ...

    def latest(self, principal: Principal, root: RootName) -> Record | None:
        """The newest version of a root, if it was ever noised."""
        ...

    def commit(self, principal: Principal, draws: Sequence[Record]) -> tuple[Record, ...]:
        """Keep draws and their events, all or none, first writer wins.

        Where a (principal, root, version) is taken, the record that is there stays and is
        returned instead of the new one.
        """
        ...

    def events(self, principal: Principal) -> tuple[RootNoised, ...]:
        """Everything a principal was ever charged for, in order."""
        ...
