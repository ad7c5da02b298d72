"""What a store promises: of all draws ever made for a root's version, exactly one is kept.

Values are keyed by principal and root, never by a conversation: tomorrow's chat must meet today's
noise. A root has versions (a new lab result is a new one), and a version has levels: the first
draw, later refinements of it, and coarser levels derived from it. Levels are kept in the order in
which they were made, and none is ever changed. A store holds sanitized values, ledger events, keyed
fingerprints and sealed identifiers; it has no column for anything else.

Below the promise stands what a store in a database asks of that database, so that one store serves
every dialect. SQL is written once, with `?` for a cell, in the part of the language that SQLite and
PostgreSQL share; a dialect brings transactions, locks and the border where its driver's errors
become ours.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Protocol

from rootguard.accounting import Ledger, TableDraws
from rootguard.errors import BudgetError, StoreError
from rootguard.events import (
    Charge,
    Event,
    LevelDerived,
    ProfileErased,
    RootNoised,
    RootRefined,
    RootReturned,
    ServiceCharged,
    TableCharged,
    TableDrawKept,
)
from rootguard.identifiers import IssuedTokens
from rootguard.values import (
    MICRO,
    Domain,
    MechanismName,
    Principal,
    RootName,
    RootQuantity,
    Sanitized,
    to_micro,
)

# Enough for a value that is measured again every month of a year but two; the hidden distance is
# then a tenth of what it was, which the owner should be asked about.
LIFETIME: Final = 10
"""What a root may cost a person in all, as a multiple of its first price, unless a cap is set."""


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
class TableRun:
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


def table_number(runs: Iterable[TableRun], table: str) -> int:
    """Tables are numbered as they first come; a new one is next."""
    names = list(dict.fromkeys(run.table for run in runs))
    return names.index(table) if table in names else len(names)


# A few megabytes for each principal; what was spent is in the ledger for ever.
LOG_SIZE: Final = 10_000
"""How many entries of a principal's audit log are kept: the latest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogEntry:
    """An entry of the audit log: what was released, refused or charged, when, and to whom.

    `sequence` counts a principal's entries from 1, those that are gone included. The time is in
    microseconds since 1970, in UTC.
    """

    sequence: int
    micros: int
    service: str
    route: str
    event: Event


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipient:
    """Whom an answer goes to, where no policy says it, and by which way."""

    service: str = ""
    route: str = ""


_NOBODY: Final = Recipient()
RECIPIENT: Final[ContextVar[Recipient]] = ContextVar("rootguard_recipient", default=_NOBODY)
"""Set by a channel for the time of a request; worker threads inherit it."""

UnnumberedEntry = tuple[int, Recipient, Event]
"""A log entry before it has a number: when, to whom, what. A plain tuple, for it must be quick."""


def entry_now(event: Event, recipient: Recipient | None = None) -> UnnumberedEntry:
    """An event of just now, to whoever is being answered unless it is said."""
    return time.time_ns() // 1000, RECIPIENT.get() if recipient is None else recipient, event


@dataclass(frozen=True, kw_only=True, slots=True)
class TableView:
    """What the tables of a store hold, as one transaction sees it."""

    runs: Sequence[TableRun]
    fingerprints: Callable[[int], bytes]


Merge = Callable[[int, bytes, TableView], bytes | None]
"""Given a partition's number and what is there: what is to be there, or None for no change."""
RunReport = Callable[[], Sequence[TableRun]]
"""What is to be written down of a run, asked for once its partitions are merged."""


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

    def quantities(self) -> dict[RootName, RootQuantity]:
        """The unit and grid under which this store keeps each root it has met."""
        ...

    def define(self, quantities: Sequence[RootQuantity]) -> None:
        """Fix the unit and grid of roots that have none yet; what stands is left alone.

        Of a root in an early store the grid stands, and the unit is fixed.
        """
        ...

    def levels(self, principal: Principal, root: RootName) -> tuple[Record, ...]:
        """All levels of the current version of a root, by position; none if it has none.

        The current version is the one that was noised or returned to last.
        """
        ...

    def history(self, principal: Principal, root: RootName) -> tuple[Record, ...]:
        """The first draw of every version of a root that is kept, oldest first."""
        ...

    def return_to(self, principal: Principal, root: RootName, version: int) -> tuple[Record, ...]:
        """Make an earlier version the current one; its levels, or none if it is not kept."""
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

    def ledger(self, principal: Principal) -> Ledger:
        """What a principal has spent: the events, and what tables drew for this person."""
        ...

    def caps(self, principal: Principal) -> dict[str, int]:
        """Caps in micro-epsilon: per root, and under "" for the principal's total."""
        ...

    def set_cap(self, principal: Principal, root: str, micro: int | None) -> None:
        """Set or (with None) lift a cap; "" means the total."""
        ...

    def disclose(
        self, principal: Principal, disclosures: Sequence[Disclosure], limit: int | None = None
    ) -> None:
        """Write down who was given what; what is there already is left alone.

        A draw that was erased meanwhile is refused with StoreError. If a service would come to hold
        more than `limit` micro-epsilon in all, nothing is written and BudgetError is raised.
        """
        ...

    def held(self, principal: Principal, service: str) -> dict[tuple[str, int], int]:
        """The finest level that a service was given of each version of a root.

        Under version 0 stands what it was given before an erasure.
        """
        ...

    def disclosures(self, principal: Principal) -> tuple[Disclosure, ...]:
        """Who was given what, in order."""
        ...

    def note(self, principal: Principal, event: Event, recipient: Recipient | None = None) -> None:
        """Write an event into the audit log, soon. Never waits for a database and never fails.

        Without `recipient` it went to whoever is being answered here. Charges are noted by `commit`
        and `erase` themselves.
        """
        ...

    def log(
        self,
        principal: Principal,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = LOG_SIZE,
    ) -> tuple[LogEntry, ...]:
        """The audit log, oldest first: the first entries after a sequence, or the last before."""
        ...

    def log_size(self, principal: Principal) -> tuple[int, int]:
        """How many entries of the log are kept, and the sequence of the latest there ever was."""
        ...

    def tokens(self, principal: Principal) -> IssuedTokens:
        """The principal's issued identifier tokens."""
        ...

    def tables(self) -> tuple[TableRun, ...]:
        """Every root of every table that was released, in order."""
        ...

    def fingerprints(self, place: int) -> bytes:
        """The fingerprints of people in tables, one partition of them; see `tables`."""
        ...

    def keep_table(self, table: str, merge: Merge, report: RunReport) -> None:
        """Keep a run in one transaction: partitions through `merge`, then what `report` says."""
        ...

    def principals(self) -> tuple[Principal, ...]:
        """Everyone this store knows, sorted; erased profiles included."""
        ...

    def erase(self, principal: Principal) -> None:
        """Delete a profile's values, fingerprints, tokens, disclosures and audit log.

        What was spent stays, and that it was erased.
        """
        ...

    def verify(self) -> tuple[str, ...]:
        """Every invariant checked from what is stored; sentences naming the damage, or none."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


def lifetime_cap(ledger: Ledger, caps: Mapping[str, int], root: str) -> int | None:
    """What a root may cost in all: its own cap, else `LIFETIME` times its first price, if any."""
    first = ledger.first_prices.get(root)
    return caps.get(root, None if first is None else LIFETIME * first)


def check_caps(ledger: Ledger, cost: Mapping[str, int], caps: Mapping[str, int]) -> None:
    """Refuse a cost per root, in micro-epsilon, that would pass a cap."""
    spent = ledger.micro
    for root, micro in cost.items():
        cap = lifetime_cap(ledger, caps, root)
        after = spent.get(root, 0) + micro
        if micro and cap is not None and after > cap:
            basis = "" if root in caps else f", {LIFETIME} times what its first draw cost"
            raise BudgetError(
                f"this would bring {root} to epsilon {after / MICRO:g}, over its cap of "
                f"{cap / MICRO:g}{basis}; nothing was drawn. Keep the value that was noised before "
                '(on_change="keep"), or raise the cap (rootguard vault spend --cap '
                f"{root}=EPSILON)"
            )
    total = sum(spent.values()) + sum(cost.values())
    if any(cost.values()) and "" in caps and total > caps[""]:
        raise BudgetError(
            f"this would bring the total to epsilon {total / MICRO:g}, over its cap of "
            f"{caps[''] / MICRO:g}; nothing was drawn"
        )


def unstorable_name() -> StoreError:
    """What is raised for a name that no database can keep or look up, without the name."""
    return StoreError("a name holds a character that cannot be stored; choose another name")


def newest_version(events: Iterable[Charge], root: str) -> int:
    """The highest version of a root that was ever noised, erased ones included; or 0."""
    drawn = (e for e in events if isinstance(e, RootNoised | TableDrawKept) and e.root == root)
    return max((event.version for event in drawn), default=0)


def current_version(events: Iterable[Charge], root: str) -> int:
    """The version that was noised or returned to last, erased or not; or 0."""
    current = newest = 0
    for event in events:
        if isinstance(event, RootNoised | TableDrawKept) and event.root == root:
            if event.version > newest:  # of racing writers the later version counts
                current = newest = event.version
        elif isinstance(event, RootReturned) and event.root == root:
            current = event.version
    return current


def draws_charged(events: Iterable[Charge]) -> Counter[tuple[str, int]]:
    """How many draws of each version there must be: those since the last erasure."""
    counts: Counter[tuple[str, int]] = Counter()
    for event in events:
        if isinstance(event, ProfileErased):
            counts.clear()
        elif isinstance(event, RootNoised | TableDrawKept | RootRefined | LevelDerived):
            counts[event.root, event.version] += 1
    return counts


def held_levels(
    service: str,
    events: Iterable[Charge],
    disclosures: Iterable[Disclosure],
    records: Iterable[Record],
) -> dict[tuple[str, int], int]:
    """What a service was given: see `Store.held`."""
    held: dict[tuple[str, int], int] = {}
    for event in events:
        if isinstance(event, ServiceCharged) and event.service == service:
            held[event.root, 0] = held.get((event.root, 0), 0) + event.level
    levels = {
        (each.sanitized.root, each.sanitized.version, each.position): each.sanitized.epsilon
        for each in records
    }
    for given in disclosures:
        level = levels.get((RootName(given.root), given.version, given.position))
        if given.service == service and level is not None:
            where = (given.root, given.version)
            held[where] = max(held.get(where, 0), to_micro(level))
    return held


def check_disclosures(
    limit: int | None,
    new: Sequence[Disclosure],
    events: Sequence[Charge],
    disclosures: Sequence[Disclosure],
    records: Sequence[Record],
) -> None:
    """Refuse disclosures of draws that are gone, and those by which a service would get too much.

    What it holds already may be disclosed again, though its tier is a poorer one by now.
    """
    kept = {(each.sanitized.root, each.sanitized.version, each.position) for each in records}
    if any((each.root, each.version, each.position) not in kept for each in new):
        raise StoreError("the profile was erased meanwhile; nothing was released")
    for service in dict.fromkeys(each.service for each in new):
        before, after = (
            sum(held_levels(service, events, given, records).values())
            for given in (disclosures, (*disclosures, *new))
        )
        if limit is not None and after > max(limit, before):
            raise tier_exhausted(service)


def tier_exhausted(service: str) -> BudgetError:
    """The refusal of a service that was given all that its tier allows."""
    return BudgetError(
        f"{service} was given all that its tier's budget allows; nothing more was given. Put it "
        "into a richer tier to give it more"
    )


def table_charges(principal: Principal, drawn: TableDraws) -> list[TableCharged]:
    """What is to stay of tables when a person's entries are deleted: how much they cost."""
    return [
        TableCharged(
            principal=principal,
            root=root,
            draws=sum(draws for _, draws in each),
            micro_epsilon=sum(micro * draws for micro, draws in each),
        )
        for root, each in drawn.items()
    ]


def service_charges(
    principal: Principal,
    events: Sequence[Charge],
    disclosures: Sequence[Disclosure],
    records: Sequence[Record],
) -> list[ServiceCharged]:
    """What is to stay of disclosures when a profile is erased: how much each service was given."""
    charges = []
    for service in dict.fromkeys(each.service for each in disclosures if each.service):
        given: Counter[str] = Counter()
        for (root, version), level in held_levels(service, events, disclosures, records).items():
            if version:  # what was given before an earlier erasure has its charge
                given[root] += level
        charges += [
            ServiceCharged(principal=principal, root=root, service=service, level=level)
            for root, level in given.items()
        ]
    return charges


Cell = str | int | bytes
Row = tuple[Any, ...]


class Transaction(Protocol):
    """One open transaction. An error inside undoes all of it."""

    def execute(self, sql: str, *cells: Cell) -> list[Row]:
        """Run one statement with `?` placeholders; its rows, if it gives any."""
        ...

    def execute_all(self, sql: str, rows: Sequence[tuple[Cell, ...]]) -> None:
        """Run one statement that gives no rows, once for each of these."""
        ...

    def tables(self) -> set[str]:
        """The names of the tables there are."""
        ...


class Database(Protocol):
    """Where a store's tables are. Safe to use from any thread, not across a fork."""

    def reading(self) -> AbstractContextManager[Transaction]:
        """A transaction that sees one moment of the store."""
        ...

    def writing(self, principal: str) -> AbstractContextManager[Transaction]:
        """A transaction that nobody else writing for this principal runs beside."""
        ...

    def noting(self, principal: str) -> AbstractContextManager[Transaction]:
        """The same for what may be lost in a power cut, and so need not wait for the disk."""
        ...

    def exclusive(self) -> AbstractContextManager[Transaction]:
        """A transaction that no other writer runs beside."""
        ...

    def check(self) -> tuple[str, ...]:
        """The database's own opinion of its files: sentences naming damage, or none."""
        ...

    def scrub(self) -> None:
        """Remove what deleted rows left behind, as far as the database lets us."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...
