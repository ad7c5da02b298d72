"""Released tables in a store: entries of people, by partition, in order, each once."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rootguard.errors import StoreDamagedError
from rootguard.store import MemoryStore, Store, TableRun, tables
from rootguard.store.base import TableView
from rootguard.store.sql import SqlStore
from rootguard.store.summary import LIFETIME
from rootguard.store.tables import PARTITIONS, Entries
from rootguard.values import Domain, Principal, RootName
from tests.support.store_contents import ANA, EVE, at, database_of, sql

Given = tuple[int, tuple[int, ...]]


def entries(given: Iterable[Given], roots: int = 2) -> Entries:
    return np.array(list(given), dtype=tables.entry_type(roots))


def listed(found: Entries) -> list[Given]:
    return [(int(tag), tuple(map(int, marks))) for tag, marks in found]


def test_entries_are_parted_by_the_first_byte_of_their_tags() -> None:
    first, third, last = 5, 3 << 56, 255 << 56 | 9
    given = [(last, (1, 1)), (third, (2, 2)), (first, (3, 3)), (third, (4, 4))]
    parted, bounds = tables.by_partition(entries(given))
    assert listed(parted) == [given[2], given[1], given[3], given[0]]
    assert len(bounds) == PARTITIONS + 1
    assert bounds.tolist() == [0, 1, 1, 1, *[3] * 252, 4]
    assert [tables.partition_of(tag) for tag in (first, third, last)] == [0, 3, 255]


def test_a_person_is_found_between_others_and_taken_out() -> None:
    given = [(1, (1, 2)), (4, (3, 4)), (4, (3, 5)), (9, (6, 7))]
    held = entries(given).tobytes()
    assert tables.of_person(held, 2, 4).tolist() == [[3, 4], [3, 5]]
    assert tables.of_person(held, 2, 9).tolist() == [[6, 7]]
    assert tables.of_person(held, 2, 5).tolist() == []
    left = tables.without_person(held, 2, 4)
    assert left is not None
    assert listed(tables.read(left, 2)) == [given[0], given[3]]
    assert tables.without_person(held, 2, 5) is None


MARKS = (0, 7, 8)
FEW: list[list[Given]] = [
    list(zip(tags, marks, strict=True))
    for tags in ((1, 2, 3), (1, 1, 2), (1, 2, 2), (1, 1, 1))
    for marks in itertools.combinations(itertools.product(MARKS, repeat=2), 3)
]


def test_values_of_each_root_are_counted_as_one_would_by_hand() -> None:
    mixed: list[Given] = [(1, (7, 7)), (2, (7, 0)), (2, (8, 0)), (5, (9, 9))]
    for given in (*FEW, [], mixed[:1], mixed):
        counted = tables.count(entries(given))
        for root in (0, 1):
            values: defaultdict[int, set[int]] = defaultdict(set)
            for tag, marks in given:
                if marks[root]:
                    values[tag].add(marks[root])
            sizes = [len(each) for each in values.values()]
            assert counted.values[root] == sum(sizes)
            assert counted.most[root] == max(sizes, default=0)
        assert counted.values.shape == counted.most.shape == (2,)


def test_merging_keeps_each_entry_once_in_the_order_of_tags() -> None:
    turned: list[Given] = [(2, (7, 7)), (1, (7, 7))]
    for old, new in itertools.product(([], *FEW[::17]), (*FEW[::13], turned)):
        found = listed(tables.merge(entries(old).tobytes(), entries(new)))
        assert sorted(found) == sorted({*old, *new})
        assert [tag for tag, _ in found] == sorted(tag for tag, _ in {*old, *new})


def test_people_with_different_values_of_a_root_conflict_in_that_root() -> None:
    mixed: list[Given] = [(5, (9, 9)), (2, (8, 0)), (1, (7, 7)), (2, (7, 0)), (5, (9, 0))]
    for given in (*FEW, [], mixed[:1], mixed, mixed * 2):
        found = tables.conflicts(entries(given))
        for root in (0, 1):
            values: defaultdict[int, set[int]] = defaultdict(set)
            for tag, marks in given:
                values[tag] |= {marks[root]} - {0}
            expected = sorted(tag for tag, each in values.items() if len(each) > 1)
            assert found[root].tolist() == expected


def view(*held: tuple[TableRun, list[Given]]) -> TableView:
    """Tables of one root each, all their entries in the first partition."""
    parts = {
        number * PARTITIONS: entries(sorted(given), 1).tobytes()
        for number, (_, given) in enumerate(held)
    }
    return TableView(
        runs=[each for each, _ in held], fingerprints=lambda place: parts.get(place, b"")
    )


def many(tag: int, values: int, first: int = 1) -> list[Given]:
    return [(tag, (mark,)) for mark in range(first, first + values)]


def over(held: TableView, new: list[Given], level: TableRun, **most: int) -> list[int]:
    known = np.array([most["most"]]) if most else None
    [found] = tables.over_lifetime(held, 0, entries(new, 1), [level], known)
    return [int(tag) for tag in found]


def test_somebody_is_over_the_lifetime_cap_by_the_sum_over_all_tables() -> None:
    now = run("now", "x")  # version 2 at a price of 7
    assert over(view(), many(1, LIFETIME), now) == []
    assert over(view(), many(1, LIFETIME + 1), now) == [1]
    older = replace(run("older", "x"), version=1)
    held = view((older, many(1, LIFETIME - 1) + many(2, LIFETIME - 2)), (now, []))
    assert over(held, many(1, 2) + many(2, 2) + many(3, 1), now) == [1]
    assert over(held, [(1, (0,)), (1, (7,))], now) == []  # what is missing costs nothing
    dear = view((replace(older, micro_epsilon=70), many(1, 1)))
    assert over(dear, many(1, LIFETIME), now) == []  # the first price is what counts
    cheap = view((replace(older, micro_epsilon=1), many(1, 1)))
    assert over(cheap, many(1, 1) + many(2, 1), now) == []
    assert over(cheap, many(1, 2) + many(2, 2), now) == [1]


def test_tables_that_show_the_same_draws_are_counted_once_for_the_lifetime_cap() -> None:
    now, twin = run("now", "x"), run("twin", "x")
    held = view((twin, many(1, LIFETIME)))
    assert over(held, many(1, LIFETIME), now) == []
    assert over(held, many(1, 1, first=LIFETIME + 1), now) == [1]
    other = view((replace(twin, mechanism="laplace"), many(1, LIFETIME)))
    assert over(other, many(1, 1), now) == [1]


def test_somebody_who_is_over_the_cap_already_may_be_shown_again() -> None:
    now = run("now", "x")
    held = view((now, many(1, LIFETIME + 3)))
    assert over(held, many(1, LIFETIME), now) == []
    assert over(held, many(1, 1, first=LIFETIME + 4), now) == [1]


def test_the_bound_by_the_most_values_of_one_person_spares_nobody_who_is_over() -> None:
    now = run("now", "x")
    few = view((replace(run("older", "x"), version=1, most=4), many(1, 4)))
    assert over(few, many(1, LIFETIME - 4), now, most=LIFETIME - 4) == []
    assert over(few, many(1, LIFETIME - 3), now, most=LIFETIME - 3) == [1]
    dear = view((replace(run("older", "x"), micro_epsilon=70, most=1), many(1, 1)))
    assert over(dear, many(2, LIFETIME + 1), now, most=LIFETIME + 1) == [2]
    twice = view((now, many(1, LIFETIME)), (run("now", "x"), []))
    assert over(twice, many(1, 1, first=50), now, most=LIFETIME + 1) == [1]


def test_a_change_is_another_value_of_somebody_who_had_one_at_that_level() -> None:
    now = run("now", "x")

    def moved(new: list[Given], *held: tuple[TableRun, list[Given]]) -> bool:
        return tables.changed(view(*held), 0, entries(new, 1), [now])

    shown: list[Given] = [(1, (7,)), (2, (8,)), (3, (0,)), (4, (5,)), (4, (6,))]
    assert not moved(shown)
    assert not moved(shown, (now, shown))
    assert not moved([(9, (7,)), (3, (4,)), (1, (0,))], (now, shown))  # new, first, missing
    assert moved([(1, (7,)), (2, (9,))], (now, shown))
    assert moved([(1, (7,)), (1, (8,))], (now, shown))
    assert moved([(4, (6,))], (now, shown))  # which of the two was the last is not known
    twin, other = run("twin", "x"), replace(run("other", "x"), version=1)
    assert moved([(1, (9,))], (twin, shown))  # the same draws in another table
    assert not moved([(1, (9,))], (other, shown))


def run(table: str, root: str, drawn: int = 1) -> TableRun:
    return TableRun(
        table=table,
        root=RootName(root),
        version=2,
        micro_epsilon=7,
        mechanism="geometric",
        domain=Domain(lower=-0.5, upper=0.1, size=1000),
        rows=3,
        drawn=drawn,
        most=1,
    )


def test_a_persons_entries_are_looked_for_in_every_table_by_its_own_width() -> None:
    runs = [run("a", "x"), run("b", "x"), run("a", "y"), run("a", "x")]
    assert list(tables.places_of(runs, 3 << 56 | 1)) == [(3, 2), (PARTITIONS + 3, 1)]


def tag_of(store: Store, principal: Principal) -> int:
    prf = tables.table_prf(store.fingerprint_key)
    return int(prf.tags(prf.person(principal))[0])


def keep(store: Store, table: str, people: Iterable[Principal], *roots: str) -> None:
    """Keep a run in which these people stand, each with one value for each root."""
    tags = [tag_of(store, principal) for principal in people]

    def merge(number: int, stored: bytes, _: TableView) -> bytes | None:
        mine = [(tag, (7,) * len(roots)) for tag in tags if tag >> 56 == number]
        if not mine:
            return None
        return tables.merge(stored, entries(mine, len(roots))).tobytes()

    store.keep_table(table, merge, lambda: [run(table, root, len(tags)) for root in roots])


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, file: Path) -> Iterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else sql(at(file))
    with closing(made):
        yield made


def held(store: Store, table: int, principal: Principal) -> bytes:
    return store.fingerprints(table * PARTITIONS + tables.partition_of(tag_of(store, principal)))


def test_runs_and_entries_of_several_tables_come_back(store: Store) -> None:
    keep(store, "first", [ANA], "x", "y")
    keep(store, "second", [ANA, EVE], "x")
    keep(store, "first", [EVE], "x", "y")
    assert store.tables() == (
        *(run("first", root) for root in ("x", "y")),
        run("second", "x", 2),
        *(run("first", root) for root in ("x", "y")),
    )
    for table, roots in ((0, 2), (1, 1)):
        for who in (ANA, EVE):
            found = tables.of_person(held(store, table, who), roots, tag_of(store, who))
            assert found.tolist() == [[7] * roots]
    assert store.fingerprints(2 * PARTITIONS) == b""  # a table that is not there
    assert store.verify() == ()


def test_a_run_without_entries_is_written_down_and_leaves_the_partitions(store: Store) -> None:
    keep(store, "first", [ANA], "x")
    store.keep_table("first", None, lambda: [run("first", "x", 0)])
    store.keep_table("second", None, lambda: [run("second", "x", 0)])  # a table that is new
    keep(store, "second", [EVE], "x")
    assert [each.table for each in store.tables()] == ["first", "first", "second", "second"]
    for table, who in ((0, ANA), (1, EVE)):
        found = tables.of_person(held(store, table, who), 1, tag_of(store, who))
        assert found.tolist() == [[7]]
    assert store.verify() == ()


def shown(
    store: Store, table: str, who: Principal, rows: Iterable[tuple[int, ...]], **prices: int
) -> None:
    """Keep a run that shows these fingerprints of a person, one for each root, at these prices."""
    tag = tag_of(store, who)

    def merge(number: int, stored: bytes, _: TableView) -> bytes | None:
        if number != tag >> 56:
            return None
        mine = entries([(tag, marks) for marks in rows], len(prices))
        return tables.merge(stored, mine).tobytes()

    told = [replace(run(table, root), micro_epsilon=micro) for root, micro in prices.items()]
    store.keep_table(table, merge, lambda: told)


def drawn(store: Store, who: Principal) -> dict[RootName, list[tuple[int, int]]]:
    prf = tables.table_prf(store.fingerprint_key)
    return tables.drawn_for(store.tables(), store.fingerprints, prf, who)


def test_what_tables_drew_for_a_person_is_counted_by_root_table_and_different_value(
    store: Store,
) -> None:
    assert drawn(store, ANA) == {}
    shown(store, "first", ANA, [(3, 4), (3, 5), (0, 5)], y=20, x=10)  # columns are by name: x, y
    shown(store, "first", ANA, [(6, 4)], y=20, x=10)  # another run of the same table
    shown(store, "second", EVE, [(3,)], x=7)
    shown(store, "third", ANA, [(0, 9)], x=30, z=40)
    assert drawn(store, ANA) == {"x": [(10, 2)], "y": [(20, 2)], "z": [(40, 1)]}
    assert drawn(store, EVE) == {"x": [(7, 1)]}
    shown(store, "second", ANA, [(3,)], x=7)  # the same mark in another table is another draw
    assert drawn(store, ANA)[RootName("x")] == [(10, 2), (7, 1)]
    store.erase(ANA)
    assert drawn(store, ANA) == {}
    assert drawn(store, EVE) == {"x": [(7, 1)]}


def test_only_the_partition_of_the_person_is_read_of_each_table() -> None:
    store = MemoryStore()
    shown(store, "first", ANA, [(3, 4)], x=1, y=1)
    shown(store, "second", EVE, [(3,)], x=1)
    asked: list[int] = []

    def fingerprints(place: int) -> bytes:
        asked.append(place)
        return store.fingerprints(place)

    tables.drawn_for(
        store.tables(), fingerprints, tables.table_prf(store.fingerprint_key), str(ANA)
    )
    partition = tag_of(store, ANA) >> 56
    assert asked == [partition, PARTITIONS + partition]


def test_an_erased_person_is_taken_out_of_every_table_and_nobody_else_is(store: Store) -> None:
    keep(store, "first", [ANA, EVE], "x", "y")
    keep(store, "second", [ANA, EVE], "x")
    keep(store, "third", [EVE], "x")
    store.erase(ANA)
    for table, roots in ((0, 2), (1, 1), (2, 1)):
        assert not len(tables.of_person(held(store, table, ANA), roots, tag_of(store, ANA)))
        assert len(tables.of_person(held(store, table, EVE), roots, tag_of(store, EVE))) == 1
    assert len(store.tables()) == 4
    assert store.verify() == ()


TAMPERED = {
    "a run": "UPDATE table_runs SET content = REPLACE(content, '7', '8') WHERE sequence = 1",
    "the first run": "DELETE FROM table_runs WHERE sequence = 1",
    "the last run": "DELETE FROM table_runs WHERE sequence = 2",
    "the count of runs": "DELETE FROM table_runs WHERE sequence = 0",
    "a partition": "UPDATE table_marks SET entries = mac WHERE place = 4",
    "the first partition": "DELETE FROM table_marks WHERE place = 0",
    "the last partition": "DELETE FROM table_marks WHERE place = 255",
    "another partition": "INSERT INTO table_marks SELECT 256, entries, mac FROM table_marks"
    " WHERE place = 0",
}


@pytest.mark.parametrize("statement", TAMPERED.values(), ids=TAMPERED)
def test_an_altered_or_deleted_row_of_a_table_is_refused_and_reported(
    file: Path, statement: str
) -> None:
    with closing(sql(at(file))) as store:
        keep(store, "first", [ANA], "x", "y")
        assert store.verify() == ()
        with database_of(store).exclusive() as db:
            db.execute(statement)
        with pytest.raises(StoreDamagedError):
            keep(store, "first", [EVE], "x", "y")
        [told] = store.verify()
        assert told.startswith("tables: ")


@pytest.mark.parametrize("place", [0, 254])
def test_a_partition_that_is_gone_is_not_an_empty_one(file: Path, place: int) -> None:
    with closing(sql(at(file))) as store:
        keep(store, "first", [ANA], "x", "y")
        assert store.fingerprints(PARTITIONS) == b""
        with database_of(store).exclusive() as db:
            db.execute("DELETE FROM table_marks WHERE place = ?", place)
        with pytest.raises(StoreDamagedError, match="a partition of a table is missing"):
            store.fingerprints(place)


@pytest.mark.parametrize("content", ["[]", "{", '["t", "x", 1, 7, "geometric", 3, 1, 1, 1]'])
def test_a_run_that_is_not_known_here_is_damage(file: Path, content: str) -> None:
    with closing(sql(at(file))) as store:
        assert isinstance(store, SqlStore)
        keep(store, "first", [ANA], "x")
        seal = store._secrets.integrity.seal("table_runs", 1, content)
        with database_of(store).exclusive() as db:
            change = "UPDATE table_runs SET content = ?, mac = ? WHERE sequence = 1"
            db.execute(change, content, seal)
        with pytest.raises(StoreDamagedError, match="not one this version of RootGuard knows"):
            store.tables()
