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
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Protocol

from rootguard.accounting import Ledger
from rootguard.errors import BudgetError, ErasedError, StoreError
from rootguard.events import Charge, Event
from rootguard.identifiers import IssuedTokens
from rootguard.values import Domain, MechanismName, Principal, RootName, RootQuantity, Sanitized


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

    @property
    def place(self) -> tuple[str, int, int]:
        """Root, version and level: of all draws with one place exactly one is kept."""
        return self.sanitized.root, self.sanitized.version, self.position


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


Epoch = int | None
"""How often a profile had been erased when work on it began; None if that does not matter."""
Disclosures = Sequence[Disclosure]
Fingerprints = Mapping[RootName, Sequence[bytes]]
"""By what a value of each root may be known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """What a store keeps of a person, and of roots in general, at one moment.

    `name` is the person's name as it was first written: what is keyed by it stays the same, however
    it is written later. `epoch` counts the person's erasures; whatever rests on a snapshot is
    refused once there was another.
    """

    name: Principal
    epoch: int
    quantities: Mapping[RootName, RootQuantity]
    levels: Mapping[RootName, tuple[Record, ...]]
    """All levels of the current version of each root that is kept."""
    newest: Mapping[str, int]
    """The highest version of each root that was ever noised, erased ones included."""
    ledger: Ledger
    caps: Mapping[str, int]
    given: Mapping[Disclosure, int]
    """Who was given what since the last erasure, and at which level, in micro-epsilon."""
    before: Mapping[tuple[str, str], int]
    """What a service had been given of a root until then."""
    runs: tuple[TableRun, ...]


FinestValues = tuple[Principal, Mapping[RootName, tuple[bytes, Sanitized]]]
"""A person's name as it was first written; of each root that is kept a fingerprint and a value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """Draws of one person that are to be kept, and the epoch in which they were made."""

    principal: Principal
    draws: Sequence[Record]
    epoch: int


class Store(Protocol):
    """Keeps draws and the ledger together. Every method is safe to call from any thread.

    A principal is known by its normalised name (`values.normalised`): one that is written with
    other capitals, blanks or forms of its letters is the same person. Where an `epoch` is given,
    work that began before the profile was erased is refused with ErasedError.
    """

    @property
    def vault_id(self) -> str | None:
        """The id that the store was given when it was made; profiles name it. None in memory."""
        ...

    @property
    def fingerprint_key(self) -> bytes:
        """The secret under which raw values are fingerprinted in this store."""
        ...

    @property
    def identifier_key(self) -> bytes:
        """The secret under which identifiers are encrypted in this store."""
        ...

    @property
    def exact_ids(self) -> bool:
        """Whether ids in tables are people exactly as written: where an early store has tables.

        Everywhere else they are compared as names are. What a table showed would be drawn again if
        the rule were changed.
        """
        ...

    def quantities(self) -> dict[RootName, RootQuantity]:
        """The unit and grid under which this store keeps each root it has met."""
        ...

    def define(self, quantities: Sequence[RootQuantity]) -> dict[RootName, RootQuantity]:
        """Fix the unit and grid of roots that have none yet; all of them as they stand then.

        Of a root in an early store the grid stands, and the unit is fixed.
        """
        ...

    def snapshot(self, principal: Principal) -> Snapshot:
        """All that is kept of a person's current values, as of one moment."""
        ...

    def epoch(self, principal: Principal) -> int:
        """How often the profile was erased. Quick: it is asked before every release."""
        ...

    def levels(self, principal: Principal, root: RootName) -> tuple[Record, ...]:
        """All levels of the current version of a root, by position; none if it has none.

        The current version is the one that was noised or returned to last.
        """
        ...

    def records(self, principal: Principal) -> tuple[Record, ...]:
        """Every draw that is kept of a person: all versions of all roots, at all levels."""
        ...

    def find(self, principal: Principal, wanted: Fingerprints) -> dict[RootName, Record]:
        """Of each root the first draw of a version that has one of its fingerprints, if any has."""
        ...

    def return_to(
        self, principal: Principal, versions: Mapping[RootName, int], *, epoch: int | None = None
    ) -> dict[RootName, tuple[Record, ...]]:
        """Make earlier versions of roots the current ones; the levels of those that are kept."""
        ...

    def version(self, principal: Principal, root: RootName) -> int:
        """The highest version of a root that was ever charged for, erased ones included; or 0."""
        ...

    def commit(
        self, principal: Principal, draws: Sequence[Record], *, epoch: int | None = None
    ) -> tuple[Record, ...]:
        """Keep draws and their events in one transaction, first writer wins.

        Where a (principal, root, version, position) is taken, the record that is there stays and
        is returned instead of the new one, which is not charged for. If what is new would pass a
        cap, nothing is kept and BudgetError is raised.
        """
        ...

    def events(self, principal: Principal) -> tuple[Charge, ...]:
        """Everything that was charged to a principal, in order; of erased profiles the totals."""
        ...

    def ledger(self, principal: Principal) -> Ledger:
        """What a principal has spent: the events, and what tables drew for this person."""
        ...

    def caps(self, principal: Principal) -> dict[str, int]:
        """Caps in micro-epsilon: per root, and under "" for the principal's total."""
        ...

    def set_caps(
        self, principal: Principal, caps: Mapping[str, int | None], *, epoch: int | None = None
    ) -> None:
        """Set or (with None) lift caps; "" means the total. It gives an erased person no name."""
        ...

    def set_cap(
        self, principal: Principal, root: str, micro: int | None, *, epoch: int | None = None
    ) -> None:
        """The same of one cap."""
        ...

    def disclose(
        self, principal: Principal, new: Disclosures, limit: int | None = None, epoch: Epoch = None
    ) -> None:
        """Write down who was given what; what is there already is left alone.

        A draw that was erased meanwhile is refused with ErasedError. If a service would come to
        hold more than `limit` micro-epsilon in all, nothing is written and BudgetError is raised.
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

    def note(
        self, principal: Principal, event: Event, to: Recipient | None = None, epoch: Epoch = None
    ) -> None:
        """Write an event into the audit log, soon. Never waits for a database and never fails.

        An event of an erased epoch is dropped. Without `to` it went to whoever is being
        answered here. Charges are noted by `commit` and `erase` themselves.
        """
        ...

    def log(
        self, principal: Principal, after: int = 0, before: int | None = None, limit: int = LOG_SIZE
    ) -> tuple[LogEntry, ...]:
        """The audit log, oldest first: the first entries after a sequence, or the last before."""
        ...

    def log_size(self, principal: Principal) -> tuple[int, int]:
        """How many entries of the log are kept, and the sequence of the latest there ever was."""
        ...

    def tokens(self, principal: Principal, *, epoch: int | None = None) -> IssuedTokens:
        """The principal's issued identifier tokens."""
        ...

    def tables(self) -> tuple[TableRun, ...]:
        """Every root of every table that was released, in order."""
        ...

    def fingerprints(self, place: int) -> bytes:
        """The fingerprints of people in tables, one partition of them; see `tables`."""
        ...

    def keep_table(self, table: str, merge: Merge | None, report: RunReport) -> None:
        """Keep a run in one transaction: partitions through `merge`, then what `report` says.

        Without `merge` the partitions stay as they are, and none of them is read.
        """
        ...

    def principals(self) -> tuple[Principal, ...]:
        """Everyone this store knows by name, sorted. An erasure deletes the name as well."""
        ...

    def tags(self) -> dict[int, bool]:
        """Everyone this store ever knew, as tables know people; and whether they were erased."""
        ...

    def erase(self, principal: Principal, *, forget_unseen: bool = False) -> None:
        """Delete a profile: its name, values, fingerprints, ledger, tokens and audit log.

        What stays is a keyed hash of the name, how often it was erased, and totals: what each root
        had cost, and what each service had been given. With `forget_unseen` a root that was never
        disclosed to anybody leaves no cost: whoever looks on later sees the next draw alone. The
        caller answers for it that nobody, not even the owner, looked at the draw before asking.
        """
        ...

    def population(self) -> int:
        """How many people this store ever knew, erased ones included. Quick."""
        ...

    def snapshots(self, principals: Sequence[Principal]) -> list[Snapshot]:
        """`snapshot` of many people, with few questions to the database."""
        ...

    def finest(self, principals: Sequence[Principal]) -> list[FinestValues]:
        """The finest level of each root's current version, of many people; the quickest to ask."""
        ...

    def records_of(self, principals: Sequence[Principal]) -> list[tuple[Record, ...]]:
        """`records` of many people."""
        ...

    def commit_each(
        self, commits: Sequence[Commit]
    ) -> list[tuple[Record, ...] | BudgetError | ErasedError]:
        """`commit` for many people, each of whom comes once; the refusal of whom is refused.

        Where another writer was first, nothing of that person is kept, and nothing is returned.
        """
        ...

    def verify(self) -> tuple[str, ...]:
        """Every invariant checked from what is stored; sentences naming the damage, or none."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


def unstorable_name() -> StoreError:
    """What is raised for a name that no database can keep or look up, without the name."""
    return StoreError("a name holds a character that cannot be stored; choose another name")


Cell = str | int | bytes
Row = tuple[Any, ...]
Statement = tuple[str, Sequence[Cell]]
"""SQL with `?` for each cell, and the cells."""


class Transaction(Protocol):
    """One open transaction. An error inside undoes all of it."""

    def execute(self, sql: str, *cells: Cell) -> list[Row]:
        """Run one statement with `?` placeholders; its rows, if it gives any."""
        ...

    def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run statements that do not need each other's rows, in one exchange; the rows of each."""
        ...

    def tables(self) -> set[str]:
        """The names of the tables there are."""
        ...


class Database(Protocol):
    """Where a store's tables are. Safe to use from any thread, not across a fork."""

    def reading(self, *, whole: bool = False) -> AbstractContextManager[Transaction]:
        """A transaction that sees one moment of the store; `whole`, if it reads all of it."""
        ...

    def look(self, sql: str, *cells: Cell) -> list[Row]:
        """The rows of one statement that reads, by itself: the quickest way to a row.

        It names a table with its schema, which is written `main` here.
        """
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

    def scrub(self) -> bool:
        """Remove what deleted rows left behind; False if that is not possible yet."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...
