"""What a database keeps of released tables: a line for each root of a run, and the marks of people.

Every row is sealed, and one row says how many there are of the others, so that a deleted one is
missed. Runs and marks are written in one transaction.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from rootguard.errors import RootGuardError, StoreDamagedError
from rootguard.store import marks
from rootguard.store.base import Tabled, table_number
from rootguard.store.database import Row, Transaction
from rootguard.store.envelope import Integrity
from rootguard.values import Domain

LOCK = "(tables)"
"""The name under which writers of tables wait for each other."""
_HEAD = 0
_RUNS = "SELECT sequence, content, mac FROM table_runs ORDER BY sequence"
_ADD_RUN = "INSERT INTO table_runs (sequence, content, mac) VALUES (?, ?, ?)"
_DROP_HEAD = "DELETE FROM table_runs WHERE sequence = 0"
_SHELF = "SELECT place, entries, mac FROM table_marks WHERE place = ?"
_SHELVES = "SELECT place, entries, mac FROM table_marks"
_COUNT = "SELECT COUNT(*) FROM table_marks"
_ADD_SHELF = "INSERT INTO table_marks (place, entries, mac) VALUES (?, ?, ?)"
_SET_SHELF = "UPDATE table_marks SET entries = ?, mac = ? WHERE place = ?"


def runs(db: Transaction, integrity: Integrity) -> tuple[Tabled, ...]:
    """Every root of every run, in order."""
    found, _ = _read(db, integrity)
    return tuple(found)


def shelf(db: Transaction, integrity: Integrity, place: int) -> bytes:
    """The entries at a place; none if there is no such place."""
    return _find(db, integrity, place) or b""


def _find(db: Transaction, integrity: Integrity, place: int) -> bytes | None:
    for row in db.execute(_SHELF, place):
        integrity.check("table_marks", *row)
        return bytes(row[1])
    if place < db.execute(_COUNT)[0][0]:  # a table has all its shelves, and some may be empty
        raise StoreDamagedError("a shelf of a table is missing; restore the backup")
    return None


def keep(
    db: Transaction,
    integrity: Integrity,
    table: str,
    merge: Callable[[int, bytes], bytes | None],
    told: Callable[[], Sequence[Tabled]],
) -> None:
    """Put a run's marks on their shelves, then write down what `told` says of it."""
    there, shelves = _read(db, integrity)
    first = table_number(there, table) * marks.SHELVES
    for number in range(marks.SHELVES):
        old = _find(db, integrity, first + number)
        new = merge(number, old or b"")
        if new is not None or old is None:
            _put(db, integrity, first + number, new or b"", there=old is not None)
            shelves += old is None
    new_runs = told()
    for sequence, run in enumerate(new_runs, start=len(there) + 1):
        content = _written(run)
        db.execute(_ADD_RUN, sequence, content, integrity.seal("table_runs", sequence, content))
    _count(db, integrity, len(there) + len(new_runs), shelves)


def forget(db: Transaction, integrity: Integrity, tag: int) -> None:
    """Take a person's marks off every shelf."""
    there, _ = _read(db, integrity)
    for number, table in enumerate(dict.fromkeys(run.table for run in there)):
        place = number * marks.SHELVES + marks.shelf_of(tag)
        roots = len({run.root for run in there if run.table == table})
        left = marks.without_person(shelf(db, integrity, place), roots, tag)
        if left is not None:
            _put(db, integrity, place, left, there=True)


def audit(db: Transaction, integrity: Integrity) -> Iterator[str]:
    """Sentences naming what is wrong with tables; none if nothing is."""
    try:
        runs(db, integrity)
        for row in db.execute(_SHELVES):
            integrity.check("table_marks", *row)
    except StoreDamagedError as damage:
        yield f"tables: {damage}"


def _put(db: Transaction, integrity: Integrity, place: int, entries: bytes, *, there: bool) -> None:
    seal = integrity.seal("table_marks", place, entries)
    if there:
        db.execute(_SET_SHELF, entries, seal, place)
    else:
        db.execute(_ADD_SHELF, place, entries, seal)


def _read(db: Transaction, integrity: Integrity) -> tuple[list[Tabled], int]:
    """Runs and how many shelves there are; refuses a store that lost one of them."""
    found = db.execute(_RUNS)
    for row in found:
        integrity.check("table_runs", *row)
    counted, shelves = [0, 0], db.execute(_COUNT)[0][0]
    if found and found[0][0] == _HEAD:
        counted = json.loads(found.pop(0)[1])
    if [row[0] for row in found] != list(range(1, counted[0] + 1)) or shelves != counted[1]:
        raise StoreDamagedError("rows of tables are missing or added; restore the backup")
    return [_run(row) for row in found], shelves


def _count(db: Transaction, integrity: Integrity, runs: int, shelves: int) -> None:
    content = json.dumps([runs, shelves])
    db.execute(_DROP_HEAD)
    db.execute(_ADD_RUN, _HEAD, content, integrity.seal("table_runs", _HEAD, content))


def _written(run: Tabled) -> str:
    domain = run.domain
    grid = [domain.lower.hex(), domain.upper.hex(), domain.size]
    content = [run.table, run.root, run.version, run.micro_epsilon, run.mechanism, grid]
    return json.dumps([*content, run.rows, run.drawn, run.most])


def _run(row: Row) -> Tabled:
    run = None
    with suppress(ValueError, TypeError, RootGuardError):
        table, root, version, micro, mechanism, grid, rows, drawn, most = json.loads(row[1])
        lower, upper, size = grid
        run = Tabled(
            table=table,
            root=root,
            version=version,
            micro_epsilon=micro,
            mechanism=mechanism,
            domain=Domain(lower=float.fromhex(lower), upper=float.fromhex(upper), size=size),
            rows=rows,
            drawn=drawn,
            most=most,
        )
    if run is None:
        raise StoreDamagedError("a stored table is not one this version of RootGuard knows")
    return run
