"""Rows and what they mean: sealed when written, checked when read, and counted.

A row's seal shows that it was altered, but a row that is gone has no seal. So each principal has a
count for each table, sealed as well, and one count says how many principals there are. Counts are
written in the transaction that writes the rows.

The names of tables and columns, and what is sealed in which order, are a format: a store that was
written by an earlier version opens unchanged.
"""

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Final, Generic, Literal, TypeVar

from rootguard.errors import RootGuardError, StoreDamagedError, StoreError
from rootguard.events import (
    Charge,
    Event,
    ProfileErased,
    RequestRefused,
    TokenRefused,
    ValueReleased,
    from_record,
    to_record,
)
from rootguard.identifiers import IssuedToken
from rootguard.store.base import (
    LOG_SIZE,
    Cell,
    Database,
    Disclosure,
    LogEntry,
    Record,
    Row,
    Transaction,
    UnnumberedEntry,
    unstorable_name,
)
from rootguard.store.envelope import Integrity, Secrets
from rootguard.values import MICRO, UNKNOWN_UNIT, Domain, RootName, RootQuantity, Sanitized

W = TypeVar("W")
R = TypeVar("R")

TableName = Literal["draws", "events", "caps", "disclosures", "tokens", "crossings"]

# PostgreSQL's BIGINT and SQLite's INTEGER have 64 bits with a sign.
_LARGEST: Final = 2**63 - 1


def storable(*cells: Cell) -> None:
    """Refuse names and numbers that no database keeps exactly."""
    for cell in cells:
        if isinstance(cell, int) and abs(cell) > _LARGEST:
            raise StoreError("a number is too large to be stored")
        if isinstance(cell, str) and (
            "\x00" in cell or any("\ud800" <= c <= "\udfff" for c in cell)
        ):
            raise unstorable_name()


class SealedTable(Generic[W, R]):
    """A table of things of one kind: key cells, the thing's own cells, and the seal of all.

    What is written and what is read are mostly of one type; a log entry gets its number between.
    """

    def __init__(
        self,
        name: TableName,
        columns: str,
        *,
        cells: Callable[[W], tuple[Cell, ...]],
        read: Callable[[Row], R],
    ) -> None:
        self.name: TableName = name
        self._cells = cells
        self._read = read
        places = ", ".join("?" * (columns.count(",") + 1))
        # Put together from constants of this module.
        self.insert = f"INSERT INTO {name} ({columns}) VALUES ({places})"  # noqa: S608
        self.select = f"SELECT {columns} FROM {name}"  # noqa: S608

    def row(self, integrity: Integrity, *key: Cell, thing: W) -> tuple[Cell, ...]:
        """A thing as it is stored under its key, which begins with the principal."""
        cells = (*key, *self._cells(thing))
        storable(*cells)
        return *cells, integrity.seal(self.name, *cells)

    def read(self, integrity: Integrity, row: Row) -> R:
        """The thing that a row holds, if it is as it was written."""
        integrity.check(self.name, *row)
        return self._read(row)


def _draw_cells(draw: Record) -> tuple[Cell, ...]:
    sanitized = draw.sanitized
    micro = sanitized.epsilon * MICRO
    if micro.denominator != 1:
        raise StoreError(f"the epsilon of {sanitized.root} is not whole in micro-epsilon")
    return (
        sanitized.root,
        sanitized.version,
        draw.position,
        sanitized.index,
        sanitized.domain.lower.hex(),
        sanitized.domain.upper.hex(),
        sanitized.domain.size,
        micro.numerator,
        sanitized.mechanism,
        draw.fingerprint,
        _event_text(draw.event),
    )


def _read_draw(row: Row) -> Record:
    _, root, version, position, index, lower, upper, size, micro, mechanism, mark, event, _ = row
    domain = Domain(lower=float.fromhex(lower), upper=float.fromhex(upper), size=size)
    return Record(
        sanitized=Sanitized(
            root=root,
            index=index,
            domain=domain,
            epsilon=Fraction(micro, MICRO),
            mechanism=mechanism,
            version=version,
        ),
        position=position,
        fingerprint=mark,
        event=_charge(event),
    )


def _read_disclosure(row: Row) -> Disclosure:
    _, _, service, tier, root, version, position, _ = row
    return Disclosure(service=service, tier=tier, root=root, version=version, position=position)


def _entry_cells(entry: UnnumberedEntry) -> tuple[Cell, ...]:
    micros, recipient, event = entry
    return micros, recipient.service, recipient.route, _event_text(event)


def _read_entry(row: Row) -> LogEntry:
    _, sequence, micros, service, route, text, _ = row
    event = _event(text)
    return LogEntry(sequence=sequence, micros=micros, service=service, route=route, event=event)


def _event_text(event: Event) -> str:
    """An event as JSON, always the same for the same event."""
    return json.dumps(to_record(event), sort_keys=True, separators=(",", ":"))


def _event(text: str) -> Event:
    event = None
    with suppress(ValueError, RootGuardError):
        event = from_record(json.loads(text))
    if event is None:
        raise StoreDamagedError("a stored event is not one this version of RootGuard knows")
    return event


@functools.lru_cache(maxsize=4096)  # the whole ledger is read on every commit; its events stay
def _charge(text: str) -> Charge:
    event = _event(text)
    if isinstance(event, ValueReleased | RequestRefused | TokenRefused):
        raise StoreDamagedError("a stored event is not one this version of RootGuard knows")
    return event


DRAWS: Final = SealedTable[Record, Record](
    "draws",
    "principal, root, version, position, grid_index, lower_bound, upper_bound, size,"
    " micro_epsilon, mechanism, fingerprint, event, mac",
    cells=_draw_cells,
    read=_read_draw,
)
EVENTS: Final = SealedTable[Charge, Charge](
    "events",
    "principal, sequence, event, mac",
    cells=lambda event: (_event_text(event),),
    read=lambda row: _charge(row[2]),
)
CAPS: Final = SealedTable[int, int](
    "caps",
    "principal, root, micro_epsilon, mac",
    cells=lambda micro: (micro,),
    read=lambda row: int(row[2]),
)
DISCLOSURES: Final = SealedTable[Disclosure, Disclosure](
    "disclosures",
    "principal, sequence, service, tier, root, version, position, mac",
    cells=lambda each: (each.service, each.tier, each.root, each.version, each.position),
    read=_read_disclosure,
)

LOG: Final = SealedTable[UnnumberedEntry, LogEntry](
    "crossings",
    "principal, sequence, micros, service, route, event, mac",
    cells=_entry_cells,
    read=_read_entry,
)

_COUNT: Final[dict[TableName, str]] = {
    "draws": "SELECT COUNT(*) FROM draws WHERE principal = ?",
    "events": "SELECT COUNT(*) FROM events WHERE principal = ?",
    "caps": "SELECT COUNT(*) FROM caps WHERE principal = ?",
    "disclosures": "SELECT COUNT(*) FROM disclosures WHERE principal = ?",
    "tokens": "SELECT COUNT(*) FROM tokens WHERE principal = ?",
    "crossings": "SELECT COUNT(*) FROM crossings WHERE principal = ?",
}
_DELETE: Final[dict[TableName, str]] = {
    "draws": "DELETE FROM draws WHERE principal = ?",
    "disclosures": "DELETE FROM disclosures WHERE principal = ?",
    "tokens": "DELETE FROM tokens WHERE principal = ?",
    "crossings": "DELETE FROM crossings WHERE principal = ?",
}
# The keys of the two counts that are nobody's: how many principals there are, and quantities.
_EVERYONE: Final = ("", "principals")
_QUANTITIES: Final = ("", "quantities")
QUANTITIES_LOCK: Final = "(quantities)"
"""The name under which writers of quantities wait for each other."""
_READ_QUANTITIES: Final = "SELECT root, unit, lower_bound, upper_bound, size, mac FROM quantities"
_DROP_QUANTITY: Final = "DELETE FROM quantities WHERE root = ?"
_ADD_QUANTITY: Final = (
    "INSERT INTO quantities (root, unit, lower_bound, upper_bound, size, mac)"
    " VALUES (?, ?, ?, ?, ?, ?)"
)
# Counts a principal's log entries with those that are gone: not how many rows there are.
_LATEST: Final = "crossed"
_READ_COUNT = "SELECT principal, shelf, length, mac FROM heads WHERE principal = ? AND shelf = ?"
_READ_COUNTS = "SELECT principal, shelf, length, mac FROM heads"
_SET_COUNT = "UPDATE heads SET length = ?, mac = ? WHERE principal = ? AND shelf = ?"
_ADD_COUNT = "INSERT INTO heads (principal, shelf, length, mac) VALUES (?, ?, ?, ?)"
_LOCK_COUNT = "UPDATE heads SET length = length WHERE principal = ? AND shelf = ?"


class Rows:
    """A store's sealed rows and their counts, inside one transaction."""

    def __init__(self, db: Transaction, integrity: Integrity) -> None:
        self._db = db
        self._integrity = integrity

    def open(self) -> None:
        """Write the first count of a new store: nobody is in it."""
        self._write_count(*_EVERYONE, 0, new=True)

    def read(self, table: SealedTable[W, R], clause: str, *cells: Cell) -> list[tuple[Row, R]]:
        """The rows that a clause selects, each with what it holds."""
        found = self._db.execute(f"{table.select} {clause}", *cells)
        return [(row, table.read(self._integrity, row)) for row in found]

    def write(self, table: SealedTable[W, R], *key: Cell, thing: W) -> None:
        """Add one row. Whoever writes counts it."""
        self._db.execute(table.insert, *table.row(self._integrity, *key, thing=thing))

    def remove(self, principal: str, table: TableName) -> None:
        """Delete all rows of a principal, and count."""
        there = self.count(principal, table)
        self._db.execute(_DELETE[table], principal)
        self.add(principal, table, -there)

    def count(self, principal: str, table: TableName) -> int:
        """How many rows a principal has; refuses a table that has more or fewer."""
        expected = self._counted(principal, table) or 0
        if self._db.execute(_COUNT[table], principal) != [(expected,)]:
            raise StoreDamagedError(f"rows of {table} are missing or added; restore the backup")
        return expected

    def add(self, principal: str, table: TableName, rows: int) -> None:
        """Count rows that were added, or (below zero) removed."""
        if self._counted(principal, "events") is None:
            self._add_principal(principal)
        there = self._counted(principal, table)
        self._write_count(principal, table, (there or 0) + rows, new=there is None)

    def quantities(self) -> list[RootQuantity]:
        """The unit and grid of each root; refuses a store that lost one."""
        found = self._db.execute(f"{_READ_QUANTITIES} ORDER BY root")
        for row in found:
            self._integrity.check("quantities", *row)
        if (self._counted(*_QUANTITIES) or 0) != len(found):
            raise StoreDamagedError("quantities are missing or added; restore the backup")
        return [
            RootQuantity(
                name=RootName(root),
                unit=unit,
                domain=Domain(lower=float.fromhex(lower), upper=float.fromhex(upper), size=size),
            )
            for root, unit, lower, upper, size, _ in found
        ]

    def define(self, quantities: Sequence[RootQuantity]) -> None:
        """Add quantities that are not there yet, and count; fix units that were not known."""
        there = {each.name: each for each in self.quantities()}
        new = {
            each.name: each
            for each in reversed(quantities)
            if each.name not in there or there[each.name] == replace(each, unit=UNKNOWN_UNIT)
        }
        for name, each in new.items():
            if name in there:
                self._db.execute(_DROP_QUANTITY, name)
            grid = (each.domain.lower.hex(), each.domain.upper.hex(), each.domain.size)
            cells: tuple[Cell, ...] = (name, each.unit, *grid)
            self._db.execute(_ADD_QUANTITY, *cells, self._integrity.seal("quantities", *cells))
        if new:
            self._write_count(*_QUANTITIES, len({*there, *new}), new=not there)

    def define_from_draws(self) -> None:
        """What an early store tells of its roots: the grid that most draws of each are on."""
        grids: dict[RootName, Counter[Domain]] = {}
        for row in self._db.execute(DRAWS.select):
            with suppress(RootGuardError, ValueError, TypeError):  # `verify` names what was altered
                value = DRAWS.read(self._integrity, row).sanitized
                grids.setdefault(value.root, Counter())[value.domain] += 1
        self.define(
            [
                RootQuantity(name=root, unit=UNKNOWN_UNIT, domain=found.most_common(1)[0][0])
                for root, found in grids.items()
            ]
        )

    def latest_entry(self, principal: str) -> int:
        """The sequence of a principal's latest log entry, whether it is still kept or not."""
        latest = self._counted(principal, _LATEST) or 0
        # A count that is lost reads as none at all; the rows that are there give it away.
        if latest < self.count(principal, LOG.name):
            raise StoreDamagedError("the count of the log is missing; restore the backup")
        return latest

    def set_latest_entry(self, principal: str, sequence: int) -> None:
        """Count log entries; to be called after `add`, which makes a principal known."""
        new = self._counted(principal, _LATEST) is None
        self._write_count(principal, _LATEST, sequence, new=new)

    def principals(self) -> list[str]:
        """Everyone there is; refuses a store that lost somebody."""
        found: list[str] = []
        for row in self._db.execute(f"{_READ_COUNTS} WHERE shelf = ?", "events"):
            self._integrity.check("heads", *row)
            found.append(row[0])
        if self._counted(*_EVERYONE) != len(found):
            raise StoreDamagedError("profiles are missing or added; restore the backup")
        return sorted(found)

    def problems(self, found: dict[tuple[str, str], int]) -> Iterator[str]:
        """What is wrong with the counts, given how many rows were found for whom."""
        counts: dict[tuple[str, str], int] = {}
        for row in self._db.execute(_READ_COUNTS):
            if not self._integrity.holds("heads", *row):
                yield f"{row[0]}: the count of {row[1]} was altered"
            counts[str(row[0]), str(row[1])] = row[2]
        known = {principal for principal, table in counts if table == "events"}
        if counts.pop(_EVERYONE, None) != len(known):
            yield "profiles are missing or added"
        counts.pop(_QUANTITIES, None)
        try:
            self.quantities()
        except (StoreDamagedError, ValueError):
            yield "quantities were altered, or are missing or added"
        for principal, table in sorted(set(counts) | set(found)):
            if principal not in known:
                yield f"{principal}: rows of {table} belong to nobody this store knows"
            elif table != _LATEST and (
                counts.get((principal, table), 0) != found.get((principal, table), 0)
            ):
                yield f"{principal}: rows of {table} are missing or added"

    def _add_principal(self, principal: str) -> None:
        # The idle update takes the row's lock where locks are per row: two newcomers who read the
        # count at once would both write it one higher. Everybody takes it after a principal's own
        # lock (`Database.writing`), never before, so that no two wait for each other.
        self._db.execute(_LOCK_COUNT, *_EVERYONE)
        everyone = self._counted(*_EVERYONE)
        if everyone is None:
            raise StoreDamagedError("the count of profiles is missing; restore the backup")
        self._write_count(*_EVERYONE, everyone + 1, new=False)
        self._write_count(principal, "events", 0, new=True)

    def _counted(self, principal: str, table: str) -> int | None:
        for row in self._db.execute(_READ_COUNT, principal, table):
            self._integrity.check("heads", *row)
            return int(row[2])
        return None

    def _write_count(self, principal: str, table: str, length: int, *, new: bool) -> None:
        seal = self._integrity.seal("heads", principal, table, length)
        if new:
            self._db.execute(_ADD_COUNT, principal, table, length, seal)
        else:
            self._db.execute(_SET_COUNT, length, seal, principal, table)


_AFTER = "WHERE principal = ? AND sequence > ? ORDER BY sequence LIMIT ?"
_BEFORE = "WHERE principal = ? AND sequence < ? ORDER BY sequence DESC LIMIT ?"
_TRIM = "DELETE FROM crossings WHERE principal = ? AND sequence <= ?"


class AuditLog:
    """The latest entries of each principal's audit log, numbered without gaps.

    Two counts are kept: how many rows there are, and the sequence of the latest one ever. So
    neither taking rows away nor putting back old ones goes unseen. After an erasure the first
    entry says so, and what happened before it but arrives later (another process wrote it down)
    is dropped.
    """

    def __init__(self, db: Transaction, integrity: Integrity) -> None:
        self._db = db
        self._integrity = integrity
        self._rows = Rows(db, integrity)

    def append(self, principal: str, entries: Sequence[UnnumberedEntry], given_up: int = 0) -> None:
        """Number entries after those that are there, and let the oldest go.

        `given_up` more came before them and are counted only. What cannot be stored is left out.
        """
        there = self._rows.count(principal, LOG.name)
        latest = self._rows.latest_entry(principal)
        first = latest - there + 1
        since = self._erased_at(principal) if there else None
        sealed: list[tuple[Cell, ...]] = []
        start = latest + given_up + 1
        for entry in entries:
            if since is not None and entry[0] <= since:
                continue
            with suppress(StoreError):
                number = start + len(sealed)
                sealed.append(LOG.row(self._integrity, principal, number, thing=entry))
        if not sealed:
            return
        sealed = sealed[-LOG_SIZE:]
        self._db.execute_all(LOG.insert, sealed)
        last = int(sealed[-1][1])
        # Whatever was given up makes a gap, and the rows before a gap go.
        gone = max(last - LOG_SIZE, int(sealed[0][1]) - 1 if given_up else 0)
        if gone >= first:
            self._db.execute(_TRIM, principal, gone)
        removed = min(max(gone - first + 1, 0), there)
        self._rows.add(principal, LOG.name, len(sealed) - removed)
        self._rows.set_latest_entry(principal, last)

    def after(self, principal: str, sequence: int, limit: int) -> tuple[LogEntry, ...]:
        """The first entries after a sequence."""
        return self._without_gaps(self._rows.read(LOG, _AFTER, principal, sequence, limit))

    def before(self, principal: str, sequence: int, limit: int) -> tuple[LogEntry, ...]:
        """The last entries before a sequence, oldest first."""
        return self._without_gaps(self._rows.read(LOG, _BEFORE, principal, sequence, limit)[::-1])

    def _without_gaps(self, found: Sequence[tuple[Row, LogEntry]]) -> tuple[LogEntry, ...]:
        numbers = [entry.sequence for _, entry in found]
        if numbers and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            raise StoreDamagedError("rows of the log are missing or added; restore the backup")
        return tuple(entry for _, entry in found)

    def _erased_at(self, principal: str) -> int | None:
        """When the profile was last erased, as far as the log still says so."""
        for _, first in self._rows.read(LOG, _AFTER, principal, -1, 1):
            if isinstance(first.event, ProfileErased):
                return first.micros
        return None


_FIND_TOKEN = "SELECT token_key, sequence, entry FROM tokens WHERE principal = ? AND token_key = ?"  # noqa: S105
_TOKENS_SINCE = (
    "SELECT token_key, sequence, entry FROM tokens"
    " WHERE principal = ? AND sequence >= ? ORDER BY sequence"
)
_KEEP_ENTRY = (
    "INSERT INTO tokens (principal, token_key, sequence, entry) VALUES (?, ?, ?, ?)"
    " ON CONFLICT DO NOTHING"
)


class SqlTokens:
    """One principal's issued tokens, encrypted: no token and no entry can be read in the database.

    Not a `SealedTable`: the cipher authenticates each row, and the key that finds it is a digest.
    """

    def __init__(self, database: Database, secrets: Callable[[], Secrets], principal: str) -> None:
        self._database = database
        self._secrets = secrets
        self._principal = principal

    def add(self, entry: IssuedToken) -> IssuedToken:
        """Keep an entry unless its token is taken; give back the one that now stands."""
        with self._database.writing(self._principal) as db:
            secrets = self._secrets()
            cipher = secrets.current_registry(db)
            rows = Rows(db, secrets.integrity)
            length = rows.count(self._principal, "tokens")
            key = cipher.row_key(self._principal, entry.token)
            for row in db.execute(_FIND_TOKEN, self._principal, key):
                return cipher.decrypt(self._principal, *row)
            sealed = cipher.encrypt(self._principal, length + 1, entry)
            db.execute(_KEEP_ENTRY, self._principal, key, length + 1, sealed)
            rows.add(self._principal, "tokens", 1)
            return entry

    def find(self, token: str) -> IssuedToken | None:
        """The entry of a token, if there is one."""
        with self._database.reading() as db:
            key = self._secrets().current_registry(db).row_key(self._principal, token)
            return next(iter(self._read(db, _FIND_TOKEN, key)), None)

    def __iter__(self) -> Iterator[IssuedToken]:
        return self.since(0)

    def since(self, count: int) -> Iterator[IssuedToken]:
        """The entries from the one with this number on, counted from 1, in order of issue."""
        with self._database.reading() as db:
            return iter(self._read(db, _TOKENS_SINCE, count))

    def __len__(self) -> int:
        with self._database.reading() as db:
            return Rows(db, self._secrets().integrity).count(self._principal, "tokens")

    def __repr__(self) -> str:
        return "<issued tokens in a database>"

    def _read(self, db: Transaction, statement: str, cell: Cell) -> list[IssuedToken]:
        secrets = self._secrets()
        cipher = secrets.current_registry(db)
        Rows(db, secrets.integrity).count(self._principal, "tokens")
        found = db.execute(statement, self._principal, cell)
        return [cipher.decrypt(self._principal, *row) for row in found]
