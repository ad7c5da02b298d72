"""A store copied into a new one, whatever the two databases are: backup, restore and move.

All rows are read from one snapshot of the source, however many write to it meanwhile, and go page
by page into a target that nobody sees yet. They are read back and compared, every invariant of the
target is checked, and only then it takes its place. Rows stay as they are, encrypted and under the
same master key, which is not among them.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final, Protocol

from rootguard.errors import StoreDamagedError, StoreError, StoreUnavailableError
from rootguard.store import tables
from rootguard.store.audit import audit
from rootguard.store.base import Cell, Row, Transaction
from rootguard.store.envelope import KEY_BYTES, Envelope, Secrets, canonical
from rootguard.store.keys import KeyPlace
from rootguard.store.sql import SqlStore, create

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is to do."""


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table's columns: those of its primary key, then the others. And rows read at once."""

    key: tuple[str, ...]
    others: tuple[str, ...] = ()
    page: int = 500
    """Fewer where rows are large: a page of them is held in memory."""

    @property
    def columns(self) -> tuple[str, ...]:
        return self.key + self.others


TABLES: Final = {
    "meta": TableShape(("name",), ("value",)),
    "secrets": TableShape(("name",), ("wrapped",)),
    "migrations": TableShape(("name",)),
    "people": TableShape(
        ("principal",), ("epoch", "revision", "person_key", "name", "summary"), page=200
    ),
    "draws": TableShape(("principal", "place"), ("mark", "content")),
    "events": TableShape(("principal", "sequence"), ("content",)),
    "log": TableShape(("principal", "sequence"), ("content",)),
    "tokens": TableShape(("principal", "token_key"), ("sequence", "content")),
    "heads": TableShape(("principal", "shelf"), ("length", "mac")),
    "quantities": TableShape(("root",), ("unit", "lower_bound", "upper_bound", "size", "mac")),
    "table_runs": TableShape(("sequence",), ("content", "mac")),
    # A partition of a table of millions has a megabyte.
    "table_marks": TableShape(("place",), ("entries", "mac"), page=8),
}
"""Every table of a store."""


class NewPlace(Protocol):
    """Where a copy is to be, and where its key is."""

    @property
    def place(self) -> KeyPlace: ...

    def fill(self, fill: Callable[[Transaction], int]) -> int: ...

    def close(self) -> None: ...


def copy_into(
    source: SqlStore, target: NewPlace, key: bytes | None, progress: Progress | None = None
) -> int:
    """Copy a store into a place that is empty; how many rows it has.

    A key that is given here is put into the target's own place.
    """

    def fill(db: Transaction) -> int:
        rows = copy_rows(source, db, progress)
        if key is not None and Envelope.read(db).open([key]) is None:
            raise StoreUnavailableError(
                "the store's key was changed meanwhile; nothing was written: try again"
            )
        return rows

    place = target.place.of(bytes.fromhex(source.vault_id))
    with nullcontext() if key is None else place.kept(key):
        return target.fill(fill)


def copy_rows(source: SqlStore, target: Transaction, progress: Progress | None = None) -> int:
    """Fill an empty database with all that a store holds, and check it; how many rows there are.

    The caller's transaction keeps all of it, or nothing.
    """
    if taken := sorted(TABLES.keys() & target.tables()):
        raise StoreError(
            f"there is a table {taken[0]} in the target already; nothing was written: give an empty"
            " database or another schema"
        )
    source.flush()
    with source.snapshot_of_all() as (there, secrets):
        _copy(there, target, progress or _quiet)
        rows = _compare(there, target, progress or _quiet)
        _check(target, secrets)
    return rows


def _quiet(what: str, done: int, total: int) -> None:
    """Tell nobody."""


def _copy(source: Transaction, target: Transaction, progress: Progress) -> None:
    # A store like any other, so that its tables are as they are everywhere; then its rows go.
    create(target, os.urandom(KEY_BYTES))
    for table in TABLES:
        target.execute(f"DELETE FROM {table}")  # noqa: S608 - a name of our own, as all below
    total, done = sum(_count(source, table) for table in TABLES), 0
    for table, shape in TABLES.items():
        places = ", ".join("?" * len(shape.columns))
        put = f"INSERT INTO {table} ({', '.join(shape.columns)}) VALUES ({places})"  # noqa: S608
        for page in _pages(source, table):
            target.batch([(put, row) for row in page])
            done += len(page)
            progress("copying", done, total)


def _compare(source: Transaction, target: Transaction, progress: Progress) -> int:
    """Read all rows back and refuse a copy that is not the same; how many there are."""
    total, done = sum(_count(source, table) for table in TABLES), 0
    for table in TABLES:
        sums = []
        for db in (source, target):
            found = 0
            for page in _pages(db, table):
                # A sum, for databases disagree about the order of texts.
                found += sum(_digest(row) for row in page)
                if db is target:
                    done += len(page)
                    progress("comparing", done, total)
            sums.append(found)
        if sums[0] != sums[1] or _count(source, table) != _count(target, table):
            raise StoreDamagedError(
                f"the copy of {table} is not the same as the original; nothing was written: check"
                " the disk, and try again"
            )
    return total


def _check(target: Transaction, secrets: Secrets) -> None:
    problems = [*audit(target, secrets), *tables.audit(target, secrets.integrity)]
    if problems:
        raise StoreDamagedError(
            f"the store that was to be copied is damaged ({len(problems)} problems, the first is:"
            f" {problems[0]}); nothing was written: see rootguard vault verify"
        )


def _digest(row: Row) -> int:
    return int.from_bytes(hashlib.sha256(canonical(*map(_cell, row))).digest(), "big")


def _cell(value: object) -> Cell:
    """A cell as it is; one that was altered into something else is not a store's."""
    if not isinstance(value, str | int | bytes):
        raise StoreDamagedError("a row holds what no store has written; restore the store's backup")
    return value


def _count(db: Transaction, table: str) -> int:
    return int(db.execute(f"SELECT COUNT(*) FROM {table}")[0][0])  # noqa: S608


def _pages(db: Transaction, table: str) -> Iterator[list[Row]]:
    """All rows of a table in the order of its key, some at a time."""
    shape = TABLES[table]
    key = ", ".join(shape.key)
    all_rows = f"SELECT {', '.join(shape.columns)} FROM {table}"  # noqa: S608
    rest = f"ORDER BY {key} LIMIT {shape.page}"
    after = f"WHERE ({key}) > ({', '.join('?' * len(shape.key))})"
    page = db.execute(f"{all_rows} {rest}")
    while page:
        yield page
        if len(page) < shape.page:
            return
        page = db.execute(f"{all_rows} {after} {rest}", *page[-1][: len(shape.key)])
