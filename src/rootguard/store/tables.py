"""Released tables: what each run cost, and who was in it with which values.

A table keeps no draw. It keeps an entry for each person and set of values: a tag of the person and
a fingerprint of each value, 64 and 32 bits of a keyed function (see `mechanisms.keyed`), 0 for a
value that was missing. By them a draw is known again; without the store's secret they say nothing.

Entries stand in the order of their tags in 256 partitions, by the first byte of the tag, so that
one person is found in one partition and a large table is written one partition at a time. In a
database every row is sealed, and one row says how many there are of the others, so that a deleted
one is missed. Runs and entries are written in one transaction.
"""

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rootguard.errors import RootGuardError, StoreDamagedError
from rootguard.mechanisms.exact import Words
from rootguard.mechanisms.keyed import Prf
from rootguard.store.base import (
    Merge,
    Row,
    RunReport,
    Statement,
    TableRun,
    TableView,
    Transaction,
    table_number,
)
from rootguard.store.envelope import Integrity
from rootguard.store.summary import LIFETIME
from rootguard.values import Domain, RootName, normalised

PARTITIONS: Final = 256  # one for each value of a tag's first byte
_SHIFT = np.uint64(56)  # leaves that byte of a tag's 64 bits

Entries = NDArray[Any]
"""Structured: `tag`, and `marks`, the fingerprints, with one column for each root."""


def table_prf(fingerprint_key: bytes, *, exact: bool = False) -> Prf:
    """The keyed functions of a store's tables; see `Store.exact_ids`."""
    return Prf(Prf(fingerprint_key).key_for("store"), exact=exact)


def tags_of(prf: Prf, names: Sequence[str]) -> list[int]:
    """The tags of many names, as tables know people."""
    texts = [
        (name if prf.exact else normalised(name)).encode(errors="surrogatepass") for name in names
    ]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    people = prf.people(ends, np.frombuffer(b"".join(texts), dtype=np.uint8))
    tags: list[int] = prf.tags(people).tolist()
    return tags


def entry_type(roots: int) -> np.dtype[Any]:
    """How an entry is written."""
    return np.dtype([("tag", "<u8"), ("marks", "<u4", (roots,))])


def partition_of(tag: int) -> int:
    """The partition of a person's entries."""
    return int(tag) >> 56


def places_of(runs: Iterable[TableRun], tag: int) -> Iterator[tuple[int, int]]:
    """Where a person's entries of each table are, and how many roots that table has."""
    roots: dict[str, set[str]] = {}
    for run in runs:
        roots.setdefault(run.table, set()).add(run.root)
    for number, each in enumerate(roots.values()):
        yield _place(number, tag), len(each)


def drawn_for(
    runs: Iterable[TableRun],
    fingerprints: Callable[[int], bytes],
    prf: Prf,
    principal: str,
) -> dict[RootName, list[tuple[int, int]]]:
    """What tables have drawn for a person: for each root, the price of a draw and how many.

    A pair for each level at which tables show the root, in the order of the tables. A draw is one
    value of the root at one level, however many tables and rows showed it. Roots that were always
    missing are left out. `fingerprints` reads a partition, and only the person's own is asked for.
    An erased person has no entries: what tables cost before must be written down when they are
    deleted.
    """
    tag = int(prf.tags(prf.person(principal))[0])
    drawn: dict[RootName, dict[_Level, set[int]]] = {}
    for number, columns in enumerate(_columns(runs).values()):
        marks = of_person(fingerprints(_place(number, tag)), len(columns), tag)
        for column, root in enumerate(sorted(columns)):
            if given := set(marks[:, column].tolist()) - {0}:
                drawn.setdefault(root, {}).setdefault(_level(columns[root]), set()).update(given)
    return {
        root: [(level[0], len(marks)) for level, marks in levels.items()]
        for root, levels in drawn.items()
    }


_Level = tuple[int, int, str, Domain]


def _level(run: TableRun) -> _Level:
    """What decides a draw beside person and value: tables that agree in it show the same one."""
    return run.micro_epsilon, run.version, run.mechanism, run.domain


def _columns(runs: Iterable[TableRun]) -> dict[str, dict[RootName, TableRun]]:
    """Of each table, in their order, a run for each root, with the most values of one person."""
    found: dict[str, dict[RootName, TableRun]] = {}
    for run in runs:
        there = found.setdefault(run.table, {})
        most = max(run.most, there[run.root].most if run.root in there else 0)
        there[run.root] = replace(run, most=most)
    return found


def _place(number: int, tag: int) -> int:
    """Where a person's entries of a table are, which is the number-th of the store."""
    return number * PARTITIONS + partition_of(tag)


def by_partition(entries: Entries) -> tuple[Entries, NDArray[np.int64]]:
    """Entries in the order of their partitions, and where each begins and the last one ends."""
    partitions = (entries["tag"] >> _SHIFT).astype(np.uint8)
    sizes = np.bincount(partitions, minlength=PARTITIONS)
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return entries.take(np.argsort(partitions, kind="stable")), bounds


def read(partition: bytes, roots: int) -> Entries:
    """The entries of a partition."""
    return np.frombuffer(partition, dtype=entry_type(roots))


def of_person(partition: bytes, roots: int, tag: int) -> NDArray[np.uint32]:
    """The fingerprints of one person: a row for each set of values, a column for each root."""
    entries = read(partition, roots)
    begin, end = _span(entries, tag)
    found: NDArray[np.uint32] = entries["marks"][begin:end]
    return found


def without_person(partition: bytes, roots: int, tag: int) -> bytes | None:
    """The partition without a person's entries; None if there are none."""
    entries = read(partition, roots)
    begin, end = _span(entries, tag)
    return None if begin == end else np.delete(entries, slice(begin, end)).tobytes()


def _span(entries: Entries, tag: int) -> tuple[int, int]:
    sought = np.uint64(tag)
    tags = entries["tag"]
    return int(np.searchsorted(tags, sought)), int(np.searchsorted(tags, sought, side="right"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Count:
    """Of each root: how many values of how many people there are, and the most of one person."""

    values: NDArray[np.int64]
    most: NDArray[np.int64]


def count(entries: Entries) -> Count:
    """Count different values of each root; entries are in order and all different."""
    tags, marks = entries["tag"], entries["marks"]
    lone = _lone(tags)
    single = (marks if lone.all() else marks[lone]) != 0
    values = single.sum(axis=0, dtype=np.int64)
    most = single.any(axis=0).astype(np.int64) if len(single) else np.zeros_like(values)
    several = ~lone
    if several.any():
        for root in range(marks.shape[1]):
            _, each = _counted(*_distinct(tags[several], marks[several, root]))
            values[root] += each.sum()
            most[root] = max(most[root], each.max(initial=0))
    return Count(values=values, most=most)


def conflicts(entries: Entries) -> list[Words]:
    """Of each root the people who have different values of it; entries in any order."""
    tags, marks = entries["tag"], entries["marks"]
    order = np.sort(tags)
    repeated = order[1:][order[1:] == order[:-1]]
    if not len(repeated):  # the usual case
        return [repeated] * marks.shape[1]
    several = np.isin(tags, repeated)
    found = []
    for root in range(marks.shape[1]):
        people, each = _counted(*_distinct(tags[several], marks[several, root]))
        found.append(people[each > 1])
    return found


def over_lifetime(
    view: TableView,
    number: int,
    new: Entries,
    levels: Sequence[TableRun],
    most: NDArray[np.int64] | None = None,
) -> list[Words]:
    """Of each root the people for whom new values in a partition pass the lifetime cap.

    `levels` has a run for each root, in the order of the columns: at which level it is drawn. All
    tables of the store count. Whoever is over already and has no new value is not refused. `most`
    is the most values of one person, if it is known: then a bound spares the usual case.
    """
    held = _held(view, number)
    none = new["tag"][:0]
    return [
        none
        if most is not None and _within(view, level, int(most[column]))
        else _over(held, level, new["tag"], new["marks"][:, column])
        for column, level in enumerate(levels)
    ]


def _within(view: TableView, level: TableRun, most: int) -> bool:
    """Whether nobody can be over: each had at most the most values of every table."""
    runs = [
        columns[level.root]
        for table, columns in _columns(view.runs).items()
        if level.root in columns and table != level.table
    ]
    spent = most * level.micro_epsilon + sum(run.most * run.micro_epsilon for run in runs)
    return spent <= LIFETIME * min(run.micro_epsilon for run in (level, *runs))


_Values = tuple[Words, NDArray[np.uint32]]
"""People and, beside each, a value's fingerprint."""


def _over(
    held: Sequence[Mapping[RootName, tuple[_Level, _Values]]],
    level: TableRun,
    tags: Words,
    marks: NDArray[np.uint32],
) -> Words:
    shown: dict[_Level, list[_Values]] = {}
    for columns in held:
        if level.root in columns:
            at, values = columns[level.root]
            shown.setdefault(at, []).append(values)
    before = _counted(*_distinct(*_joined(shown.get(_level(level), []))))
    shown.setdefault(_level(level), []).append((tags, marks))
    counts = {at: _counted(*_distinct(*_joined(values))) for at, values in shown.items()}
    people, each = counts[_level(level)]
    gained = people[each > _of(people, *before)]
    spent = [(people, each * at[0], at[0]) for at, (people, each) in counts.items()]
    everybody = np.concatenate([people for people, _, _ in spent])
    prices = np.concatenate([np.full(len(people), price) for people, _, price in spent])
    people, first, place = np.unique(everybody, return_index=True, return_inverse=True)
    total = np.zeros(len(people), dtype=np.int64)
    np.add.at(total, place, np.concatenate([cost for _, cost, _ in spent]))
    over: Words = people[total > LIFETIME * prices[first]]
    return over[np.isin(over, gained)]


def changed(view: TableView, number: int, new: Entries, levels: Sequence[TableRun]) -> bool:
    """Whether entries of a partition give anybody other values than tables have at these levels.

    Who was in no table, or without a value there, has nothing that could have changed. Whoever had
    several values must have the same ones again: which of them was the last is not known.
    """
    held = _held(view, number)
    for column, level in enumerate(levels):
        parts = [
            columns[level.root][1]
            for columns in held
            if level.root in columns and columns[level.root][0] == _level(level)
        ]
        before = _distinct(*_joined(parts))
        now = _distinct(new["tag"], new["marks"][:, column])
        people, each = _counted(*now)
        had = _of(people, *_counted(*before))
        both = _of(people, *_counted(*_distinct(*_joined([before, now]))))
        if ((had > 0) & ((had < both) | (each < both))).any():
            return True
    return False


def prices(
    view: TableView, number: int, new: Entries, levels: Sequence[TableRun]
) -> dict[str, int]:
    """What one person's entries cost, in micro-epsilon for each root that has new values."""
    if not len(new):
        return {}
    held, tag, cost = _held(view, number), new["tag"][0], {}
    for column, level in enumerate(levels):
        values = set(new["marks"][:, column].tolist()) - {0}
        for columns in held:
            at, (tags, marks) = columns.get(level.root, (None, _joined([])))
            if at == _level(level):
                values -= set(marks[tags == tag].tolist())
        if values:
            cost[str(level.root)] = len(values) * level.micro_epsilon
    return cost


def _held(view: TableView, number: int) -> list[dict[RootName, tuple[_Level, _Values]]]:
    """Of each table, root by root: its level, and who has which values in a partition."""
    found = []
    for table, columns in enumerate(_columns(view.runs).values()):
        entries = read(view.fingerprints(table * PARTITIONS + number), len(columns))
        tags, marks = entries["tag"], entries["marks"]
        found.append(
            {
                root: (_level(columns[root]), (tags, marks[:, column]))
                for column, root in enumerate(sorted(columns))
            }
        )
    return found


def _joined(parts: Sequence[_Values]) -> _Values:
    none: _Values = np.empty(0, np.uint64), np.empty(0, np.uint32)
    return (
        np.concatenate([none[0], *(tags for tags, _ in parts)]),
        np.concatenate([none[1], *(marks for _, marks in parts)]),
    )


def _of(people: Words, there: Words, each: NDArray[np.int64]) -> NDArray[np.int64]:
    """What each of these people has in a list that is in order; 0 for who is not in it."""
    if not len(there):
        return np.zeros(len(people), dtype=np.int64)
    place = np.minimum(np.searchsorted(there, people), len(there) - 1)
    return np.where(there[place] == people, each[place], 0)


def _distinct(tags: Words, marks: NDArray[np.uint32]) -> _Values:
    """Values with their people, each once, in order; a value that is missing is none."""
    given = marks != 0
    tags, marks = tags[given], marks[given]
    order = np.lexsort((marks, tags))
    tags, marks = tags[order], marks[order]
    first = np.ones(len(tags), dtype=np.bool_)
    first[1:] = (tags[1:] != tags[:-1]) | (marks[1:] != marks[:-1])
    return tags[first], marks[first]


def _counted(tags: Words, _: NDArray[np.uint32]) -> tuple[Words, NDArray[np.int64]]:
    """People in order, and how many of these values each has."""
    people, each = np.unique(tags, return_counts=True)
    return people, each.astype(np.int64)


def merge(partition: bytes, new: Entries) -> Entries:
    """The entries of a partition and new ones in order, each once."""
    old = np.frombuffer(partition, dtype=new.dtype)
    entries: Entries = np.concatenate([old, new])
    entries = entries.take(np.argsort(entries["tag"]))  # much faster than an index
    lone = _lone(entries["tag"])
    if lone.all():
        return entries
    same = entries[1:] == entries[:-1]  # most repeats stand side by side
    entries = entries[np.concatenate([[True], ~same])]
    lone = _lone(entries["tag"])
    if lone.all():
        return entries
    rest = np.unique(entries[~lone])
    entries = np.concatenate([entries[lone], rest])
    return entries.take(np.argsort(entries["tag"], kind="stable"))


def _lone(tags: Words) -> NDArray[np.bool_]:
    """Where a tag differs from both its neighbours."""
    apart = np.ones(len(tags) + 1, dtype=np.bool_)
    apart[1:-1] = tags[1:] != tags[:-1]
    found: NDArray[np.bool_] = apart[1:] & apart[:-1]
    return found


LOCK = "(tables)"
"""The name under which writers of tables wait for each other."""
_PAGE = 8  # partitions in one exchange: one of a table of millions has a megabyte
_HEAD = 0  # the sequence of the row that counts the others
_RUNS = "SELECT sequence, content, mac FROM table_runs ORDER BY sequence"
_ADD_RUN = "INSERT INTO table_runs (sequence, content, mac) VALUES (?, ?, ?)"
_DROP_HEAD = "DELETE FROM table_runs WHERE sequence = 0"
_READ_PARTITION = "SELECT place, entries, mac FROM table_marks WHERE place = ?"
_READ_PAGE = "SELECT place, entries, mac FROM table_marks WHERE place >= ? AND place < ?"
_READ_PARTITIONS = "SELECT place, entries, mac FROM table_marks"
_COUNT = "SELECT COUNT(*) FROM table_marks"
_ADD_PARTITION = "INSERT INTO table_marks (place, entries, mac) VALUES (?, ?, ?)"
_SET_PARTITION = "UPDATE table_marks SET entries = ?, mac = ? WHERE place = ?"


RUN_QUERIES: Final[tuple[Statement, ...]] = ((_RUNS, ()), (_COUNT, ()))
"""What reads the runs."""


def runs(db: Transaction, integrity: Integrity) -> tuple[TableRun, ...]:
    """Every root of every run, in order."""
    return read_runs(integrity, *db.batch(RUN_QUERIES))


def read_runs(integrity: Integrity, found: list[Row], counted: list[Row]) -> tuple[TableRun, ...]:
    """The same, of what `RUN_QUERIES` gave; refuses a store that lost one of them."""
    for row in found:
        integrity.check("table_runs", *row)
    runs, partitions = [0, 0], counted[0][0]
    if found and found[0][0] == _HEAD:
        runs = json.loads(found[0][1])
        found = found[1:]
    if [row[0] for row in found] != list(range(1, runs[0] + 1)) or partitions != runs[1]:
        raise StoreDamagedError("rows of tables are missing or added; restore the backup")
    return tuple(_run(row[1]) for row in found)


def partition(db: Transaction, integrity: Integrity, place: int) -> bytes:
    """The entries at a place; none if there is no such place."""
    return _find(db, integrity, place) or b""


def _find(db: Transaction, integrity: Integrity, place: int) -> bytes | None:
    for row in db.execute(_READ_PARTITION, place):
        integrity.check("table_marks", *row)
        return bytes(row[1])
    if place < db.execute(_COUNT)[0][0]:  # a table has all its partitions, and some may be empty
        raise _lost_partition()
    return None


def keep(
    db: Transaction,
    integrity: Integrity,
    table: str,
    merge: Merge | None,
    report: RunReport,
) -> None:
    """Put a run's entries, if any, into their partitions, then write down what `report` says."""
    there = runs(db, integrity)
    partitions = db.execute(_COUNT)[0][0]
    first = table_number(there, table) * PARTITIONS
    known = first < partitions  # a table has all its partitions, and some may be empty
    view = TableView(runs=there, fingerprints=lambda place: partition(db, integrity, place))
    changing = PARTITIONS if merge or not known else 0
    for page in range(first, first + changing, _PAGE):
        places = range(page, page + _PAGE)
        found = _page(db, integrity, places) if known else dict.fromkeys(places, b"")
        merged = (
            (place, merge(place - first, found[place], view) if merge else None) for place in places
        )
        # Together, because each would be a round trip to a server. A merge looks at partitions of
        # its own number only, so none misses what waits here.
        db.batch(
            [
                _put(integrity, place, new or b"", there=known)
                for place, new in merged
                if new is not None or not known
            ]
        )
    new_runs = report()
    for sequence, run in enumerate(new_runs, start=len(there) + 1):
        content = _written(run)
        db.execute(_ADD_RUN, sequence, content, integrity.seal("table_runs", sequence, content))
    partitions += 0 if known else PARTITIONS
    _count(db, integrity, len(there) + len(new_runs), partitions)


def _page(db: Transaction, integrity: Integrity, places: range) -> dict[int, bytes]:
    """Partitions that stand side by side."""
    found: dict[int, bytes] = {}
    for row in db.execute(_READ_PAGE, places.start, places.stop):
        integrity.check("table_marks", *row)
        found[row[0]] = bytes(row[1])
    if len(found) < len(places):
        raise _lost_partition()
    return found


def _lost_partition() -> StoreDamagedError:
    return StoreDamagedError("a partition of a table is missing; restore the backup")


def forget(db: Transaction, integrity: Integrity, tag: int) -> None:
    """Take a person's entries out of every table."""
    there = runs(db, integrity)
    for place, roots in places_of(there, tag):
        left = without_person(partition(db, integrity, place), roots, tag)
        if left is not None:
            db.batch([_put(integrity, place, left, there=True)])


def audit(db: Transaction, integrity: Integrity) -> Iterator[str]:
    """Sentences naming what is wrong with tables; none if nothing is."""
    try:
        runs(db, integrity)
        for row in db.execute(_READ_PARTITIONS):
            integrity.check("table_marks", *row)
    except StoreDamagedError as damage:
        yield f"tables: {damage}"


def _put(integrity: Integrity, place: int, entries: bytes, *, there: bool) -> Statement:
    seal = integrity.seal("table_marks", place, entries)
    if there:
        return _SET_PARTITION, (entries, seal, place)
    return _ADD_PARTITION, (place, entries, seal)


def _count(db: Transaction, integrity: Integrity, runs: int, partitions: int) -> None:
    content = json.dumps([runs, partitions])
    db.execute(_DROP_HEAD)
    db.execute(_ADD_RUN, _HEAD, content, integrity.seal("table_runs", _HEAD, content))


def _written(run: TableRun) -> str:
    domain = run.domain
    grid = [domain.lower.hex(), domain.upper.hex(), domain.size]
    content = [run.table, run.root, run.version, run.micro_epsilon, run.mechanism, grid]
    return json.dumps([*content, run.rows, run.drawn, run.most])


@functools.lru_cache(maxsize=1024)  # every run of a table and every session reads all of them
def _run(content: str) -> TableRun:
    run = None
    with suppress(ValueError, TypeError, RootGuardError):
        table, root, version, micro, mechanism, grid, rows, drawn, most = json.loads(content)
        lower, upper, size = grid
        run = TableRun(
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
