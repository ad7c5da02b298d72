"""What a store promises: of all draws ever made for a root's version, exactly one is kept.

Values are keyed by principal and root, never by a conversation: tomorrow's chat must meet today's
noise. A root has versions (a new lab result is a new one), and a version has levels: the first
draw, later refinements of it, and coarser levels derived from it. Levels are kept in the order in
which they were made, and none is ever changed. A store holds sanitized values, ledger events, keyed
fingerprints and sealed identifiers; it has no column for anything else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rootguard.errors import BudgetError
from rootguard.events import Charge
from rootguard.identifiers import IssuedTokens
from rootguard.values import MICRO, Principal, RootName, Sanitized


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One kept draw: a level of one version of a root.

    `position` counts the levels of a version from 0. The fingerprint tells whether a value
    declared later is the same one.
    """

    sanitized: Sanitized
    position: int = 0
    fingerprint: bytes
    event: Charge


@dataclass(frozen=True, kw_only=True, slots=True)
class Disclosure:
    """That a service was given a level of a root. Written down once, however often it was given."""

    service: str
    tier: str
    root: str
    version: int
    position: int


class Store(Protocol):
    """Keeps draws and the ledger together. Every method is safe to call from any thread."""

    @property
    def fingerprint_key(self) -> bytes:
        """The secret under which raw values are fingerprinted in this store."""
        ...

    @property
    def identifier_key(self) -> bytes:
        """The secret under which identifiers are encrypted in this store."""
        ...

    def levels(self, principal: Principal, root: RootName) -> tuple[Record, ...]:
        """All levels of the newest version of a root, by position; none if it has none."""
        ...

    def version(self, principal: Principal, root: RootName) -> int:
        """The highest version of a root that was ever charged for, erased ones included; or 0."""
        ...

    def commit(self, principal: Principal, draws: Sequence[Record]) -> tuple[Record, ...]:
        """Keep draws and their events in one transaction, first writer wins.

        Where a (principal, root, version, position) is taken, the record that is there stays and
        is returned instead of the new one, which is not charged for. If what is new would pass a
        cap, nothing is kept and BudgetError is raised.
        """
        ...

    def events(self, principal: Principal) -> tuple[Charge, ...]:
        """Everything that was ever charged to a principal, in order. Erasing keeps it."""
        ...

    def caps(self, principal: Principal) -> dict[str, int]:
        """Caps in micro-epsilon: per root, and under "" for the principal's total."""
        ...

    def set_cap(self, principal: Principal, root: str, micro: int | None) -> None:
        """Set or (with None) lift a cap; "" means the total."""
        ...

    def disclose(self, principal: Principal, disclosures: Sequence[Disclosure]) -> None:
        """Write down who was given what; what is there already is left alone."""
        ...

    def disclosures(self, principal: Principal) -> tuple[Disclosure, ...]:
        """Who was given what, in order."""
        ...

    def tokens(self, principal: Principal) -> IssuedTokens:
        """The principal's issued identifier tokens."""
        ...

    def principals(self) -> tuple[Principal, ...]:
        """Everyone this store knows, sorted; erased profiles included."""
        ...

    def erase(self, principal: Principal) -> None:
        """Delete a profile's values, fingerprints, tokens and disclosures. What was spent stays."""
        ...

    def verify(self) -> tuple[str, ...]:
        """Every invariant checked from what is stored; sentences naming the damage, or none."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


def check_caps(spent: dict[str, int], cost: dict[str, int], caps: dict[str, int]) -> None:
    """Refuse a cost per root that would pass a cap; all in micro-epsilon."""
    for root, micro in cost.items():
        if micro and root in caps and spent.get(root, 0) + micro > caps[root]:
            raise BudgetError(
                f"this would bring {root} to epsilon {(spent.get(root, 0) + micro) / MICRO:g}, "
                f"over its cap of {caps[root] / MICRO:g}; nothing was drawn"
            )
    total = sum(spent.values()) + sum(cost.values())
    if any(cost.values()) and "" in caps and total > caps[""]:
        raise BudgetError(
            f"this would bring the total to epsilon {total / MICRO:g}, over its cap of "
            f"{caps[''] / MICRO:g}; nothing was drawn"
        )
