"""What a store promises: of all draws ever made for a root's version, exactly one is kept.

Values are keyed by principal and root, never by a conversation: tomorrow's chat must meet today's
noise. A root has versions (a new lab result is a new one), and a version has levels: the first
draw, later refinements of it, and coarser levels derived from it. Levels are kept in the order in
which they were made, and none is ever changed. A store holds sanitized values, ledger events, keyed
fingerprints and sealed identifiers; it has no column for anything else.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Protocol

from rootguard.errors import BudgetError
from rootguard.events import Charge, Event
from rootguard.identifiers import IssuedTokens
from rootguard.values import MICRO, Domain, MechanismName, Principal, RootName, Sanitized


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Tabled:
    """One root of one released table: what a draw cost each person, and how many were made.

    `table` names the plan and version; runs of one table share its people. `drawn` counts values
    that this run was the first to noise: each cost its person `micro_epsilon`. Nobody has had more
    than `most` values of this root so far.
    """

    table: str
    root: RootName
    version: int
    micro_epsilon: int
    mechanism: MechanismName
    domain: Domain
    rows: int
    drawn: int
    most: int


def table_number(runs: Iterable[Tabled], table: str) -> int:
    """Tables are numbered as they first come; a new one is next."""
    names = list(dict.fromkeys(run.table for run in runs))
    return names.index(table) if table in names else len(names)


KEPT_CROSSINGS: Final = 10_000
"""How many crossings are kept of a principal: the latest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Crossing:
    """What crossed the boundary, was refused or was charged, when, and towards whom.

    `sequence` counts a principal's crossings from 1, those that are gone included. The time is in
    microseconds since 1970, in UTC.
    """

    sequence: int
    micros: int
    service: str
    route: str
    event: Event


@dataclass(frozen=True, kw_only=True, slots=True)
class Toward:
    """Whom an answer goes to, where no policy says it, and by which way."""

    service: str = ""
    route: str = ""


_NOBODY: Final = Toward()
TOWARD: Final[ContextVar[Toward]] = ContextVar("rootguard_toward", default=_NOBODY)
"""Set by a channel for the time of a request; worker threads inherit it."""

Noted = tuple[int, Toward, Event]
"""A crossing without its number: when, towards whom, what. A plain tuple, for it must be quick."""


def noted(event: Event, toward: Toward | None = None) -> Noted:
    """An event of just now, towards whoever is being answered unless it is said."""
    return time.time_ns() // 1000, TOWARD.get() if toward is None else toward, event


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

    def note(self, principal: Principal, event: Event, toward: Toward | None = None) -> None:
        """Write down, soon, what crossed. Never waits for a database and never fails.

        Without `toward` it went to whoever is being answered here. Charges are noted by `commit`
        and `erase` themselves.
        """
        ...

    def crossings(
        self,
        principal: Principal,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = KEPT_CROSSINGS,
    ) -> tuple[Crossing, ...]:
        """What crossed, oldest first: the first ones after a sequence, or the last ones before."""
        ...

    def crossed(self, principal: Principal) -> tuple[int, int]:
        """How many crossings are kept, and the sequence of the latest there ever was."""
        ...

    def tokens(self, principal: Principal) -> IssuedTokens:
        """The principal's issued identifier tokens."""
        ...

    def tables(self) -> tuple[Tabled, ...]:
        """Every root of every table that was released, in order."""
        ...

    def marks(self, place: int) -> bytes:
        """The marks of people in tables that are kept at a place; see `marks`."""
        ...

    def keep_table(
        self,
        table: str,
        merge: Callable[[int, bytes], bytes | None],
        told: Callable[[], Sequence[Tabled]],
    ) -> None:
        """Keep a run in one transaction: each shelf's marks through `merge`, then what `told` says.

        `merge` is given a shelf's number and what is there, and gives what is to be there, or None
        for no change.
        """
        ...

    def principals(self) -> tuple[Principal, ...]:
        """Everyone this store knows, sorted; erased profiles included."""
        ...

    def erase(self, principal: Principal) -> None:
        """Delete a profile's values, fingerprints, tokens, disclosures and crossings.

        What was spent stays, and that it was erased.
        """
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
