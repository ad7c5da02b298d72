"""Tables and a store: one draw of a value, whoever meets it first, and a ledger that counts."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootguard import Guard, MemoryStore, Session, load_template, open_store
from rootguard.calibration import make_plan
from rootguard.errors import (
    BudgetError,
    IdentifierError,
    PlanError,
    RootGuardError,
    StoreDamagedError,
    StoreError,
)
from rootguard.store import Store
from rootguard.values import MICRO, Principal, RootName, normalised
from tests.support.canary import SENTINELS, leaks

pa = pytest.importorskip("pyarrow")

from rootguard.batch import TableRelease, restore_ids, sanitize  # noqa: E402
from rootguard.batch import register as registers  # noqa: E402
from rootguard.batch.columns import Table, comparable  # noqa: E402

FIB4 = load_template("fib4")
PLAN = make_plan(FIB4, Fraction("0.9"))
ROOTS = tuple(sorted(FIB4.roots))
ROWS = 400
FEW = 100
MANY = 40  # sessions: chance alone would agree in one root in thirty


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "postgres":
        url = request.getfixturevalue("new_postgres")()
    else:
        url = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'vault.sqlite3'}"
    made = open_store(url, key=bytes(range(32)), create=True)
    yield made
    made.close()


def people(rows: int = ROWS, *, seed: int = 1) -> Table:
    generator = np.random.default_rng(seed)
    return pa.table(
        {
            "mrn": [f"P{number:05d}" for number in range(rows)],
            "age": generator.integers(18, 80, rows).astype(float),
            "ast": generator.lognormal(3, 0.5, rows),
            "alt": generator.lognormal(3, 0.5, rows),
            "plt": generator.normal(230, 50, rows),
        }
    )


def run(table: Table, store: Store, **options: Any) -> TableRelease:  # noqa: ANN401
    plan = options.pop("plan", PLAN)
    return sanitize(table, plan, template=FIB4, id_column="mrn", store=store, **options)


def opened(table: Table, row: int, store: Store, budget: str = "0.9") -> Session:
    values = table.slice(row, 1).to_pylist()[0]
    name = values.pop("mrn")
    return Guard.open(FIB4, values=values, budget=budget, store=store, principal=name)


def changed(table: Table, rows: slice) -> Table:
    """Another AST for some rows."""
    values = table["ast"].to_numpy().copy()
    values[rows] += 20
    return table.set_column(table.schema.get_field_index("ast"), "ast", pa.array(values))


def drawn(store: Store, root: str) -> list[int]:
    return [entry.drawn for entry in store.tables() if entry.root == root]


def test_somebody_from_a_table_who_opens_a_session_gets_the_tables_draw(store: Store) -> None:
    table = people()
    made = run(table, store).table.to_pylist()
    for row in range(MANY):
        session = opened(table, row, store, budget="2")  # another plan changes nothing
        assert {root: session.release(root) for root in ROOTS} == {
            root: made[row][root] for root in ROOTS
        }
        assert store.ledger(Principal(f"P{row:05d}")).total == PLAN.budget
    assert run(table, store).table.to_pylist() == made
    assert not store.verify()


def test_somebody_who_was_in_no_table_is_drawn_under_the_sessions_own_plan(store: Store) -> None:
    """The control: without a mark there is nothing to find again."""
    run(people(), store)
    stranger = people(2 * ROWS)
    session = opened(stranger, ROWS + 1, store, budget="2")
    assert session.guarantee().total == 2
    other = MemoryStore()
    table = people()
    made = run(table, other).table.to_pylist()
    same = sum(
        opened(table, row, MemoryStore()).release("ast") == made[row]["ast"] for row in range(MANY)
    )
    assert same < MANY / 2


def test_another_value_in_the_session_is_a_draw_of_its_own_and_both_are_found_again(
    store: Store,
) -> None:
    table = people()
    made = run(table, store).table.to_pylist()
    later = changed(table, slice(0, MANY))
    moved = [opened(later, row, store).release("ast") for row in range(MANY)]
    assert sum(moved[row] == made[row]["ast"] for row in range(MANY)) < MANY / 2
    assert run(later, store).table["ast"].to_pylist()[:MANY] == moved
    assert [opened(table, row, store).release("ast") for row in range(MANY)] == [
        made[row]["ast"] for row in range(MANY)
    ]


def test_an_erased_persons_marks_are_gone_and_the_noise_is_fresh(store: Store) -> None:
    table = people()
    made = run(table, store).table.to_pylist()
    before = sum(len(store.fingerprints(place)) for place in range(256))
    for row in range(MANY):
        store.erase(Principal(f"P{row:05d}"))
    after = sum(len(store.fingerprints(place)) for place in range(256))
    entry = 8 + 4 * len(ROOTS)
    assert before - after == MANY * entry
    fresh = [opened(table, row, store).release("ast") for row in range(MANY)]
    # Two draws of one value are equal with probability 0.1: half of forty would be no chance.
    assert sum(fresh[row] == made[row]["ast"] for row in range(MANY)) < MANY / 2
    assert run(table, store).table["ast"].to_pylist()[:MANY] == fresh
    assert not store.verify()


def test_the_ledger_counts_new_values_and_the_most_of_one_person(store: Store) -> None:
    table = people()
    run(table, store)
    run(table.slice(100, 50), store)
    run(changed(table, slice(0, 30)), store)
    run(changed(table, slice(0, 30)), store)
    run(people(ROWS + 5), store)  # other people's values under the first ones' names, and five more
    assert drawn(store, "ast")[:4] == [ROWS, 0, 30, 0]
    assert drawn(store, "age")[:4] == [ROWS, 0, 0, 0]
    assert [entry.most for entry in store.tables() if entry.root == "ast"][:4] == [1, 1, 2, 2]
    assert {entry.micro_epsilon for entry in store.tables() if entry.root == "ast"} == {
        int(PLAN["ast"].epsilon * MICRO)
    }


def test_changed_values_in_one_file_are_counted_like_those_of_two(store: Store) -> None:
    table = people()
    both = pa.concat_tables([table, changed(table, slice(0, 30)), table.slice(7, 9)])
    run(both, store, on_conflict="charge")
    assert drawn(store, "ast") == [ROWS + 30]
    assert drawn(store, "plt") == [ROWS]
    assert [entry.most for entry in store.tables() if entry.root == "ast"] == [2]


def test_missing_values_are_not_charged_and_rows_left_out_neither(store: Store) -> None:
    table = people(10)
    ast = table["ast"].to_pylist()
    ast[3], ast[4] = None, float("inf")
    run(table.set_column(2, "ast", pa.array(ast, pa.float64())), store)
    assert drawn(store, "ast") == [8]
    assert drawn(store, "age") == [9]
    assert {entry.rows for entry in store.tables()} == {9}


def test_marks_do_not_depend_on_how_they_are_gathered(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = people()
    run(table, store)
    whole = [store.fingerprints(place) for place in range(256)]
    monkeypatch.setattr(registers, "PIECE", 7)
    monkeypatch.setattr("rootguard.batch.tables.ROWS", 11)
    run(table, store)
    assert [store.fingerprints(place) for place in range(256)] == whole
    assert drawn(store, "ast") == [ROWS, 0]


def test_another_level_of_the_same_root_is_refused_unless_it_is_asked_for(store: Store) -> None:
    table = people()
    first = run(table, store).table
    other = make_plan(FIB4, Fraction("0.5"))
    with pytest.raises(PlanError, match="draw 2, which costs again"):
        run(table, store, plan=other)
    assert len(store.tables()) == len(ROOTS)
    second = run(table, store, plan=other, version=2).table
    assert not second["ast"].equals(first["ast"])
    assert drawn(store, "ast") == [ROWS, ROWS]
    # A session is given the finest draw that there is.
    assert opened(table, 3, store).release("ast") == first["ast"][3].as_py()


def test_a_table_with_somebody_who_was_opened_meanwhile_is_not_released(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = people()
    write = registers.EntryFile._write
    for row, refused in ((7, True), (ROWS + 1, False)):

        def meanwhile(self: registers.EntryFile, row: int = row) -> None:
            write(self)
            opened(people(2 * ROWS), row, store)

        monkeypatch.setattr(registers.EntryFile, "_write", meanwhile)
        if refused:
            with pytest.raises(StoreError, match="meanwhile"):
                run(table, store)
        else:
            run(table, store)


def test_a_cap_holds_for_what_a_table_has_shown(store: Store) -> None:
    table = people()
    run(table, store)
    shown = store.ledger(Principal("P00003"))
    store.set_cap(Principal("P00003"), "", int(shown.total * MICRO))
    opened(table, 3, store)  # the table paid for it
    assert store.ledger(Principal("P00003")).micro == shown.micro
    changed = table.set_column(1, table.schema.names[1], [[77.0] * len(table)])
    with pytest.raises(BudgetError):
        opened(changed, 3, store)


def test_a_root_that_was_only_seen_gets_the_tables_draw_too(store: Store) -> None:
    from rootguard.session.draws import sight_once
    from rootguard.values import Raw

    table = people()
    made = run(table, store).table.to_pylist()
    for row in range(20):
        raw = Raw(table["ast"][row].as_py())
        person, ast = Principal(f"P{row:05d}"), RootName("ast")
        kept = sight_once(store, person, 0, PLAN, FIB4.roots, ast, raw)
        assert kept.sanitized.value == made[row]["ast"]


def test_what_is_kept_of_a_table_holds_no_value_and_no_name(tmp_path: Path) -> None:
    path = tmp_path / "vault.sqlite3"
    store = open_store(f"sqlite:///{path}")
    run(pa.Table.from_pylist([{"mrn": "Zebulon Quackenbush", **SENTINELS}] * 3), store)
    store.close()
    content = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"Quackenbush" not in content
    assert not leaks(content.decode("latin-1"))


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM table_marks WHERE place = (SELECT MIN(place) FROM table_marks)",
        "UPDATE table_marks SET entries = x'00' WHERE place = (SELECT MIN(place) FROM table_marks)",
        "DELETE FROM table_runs WHERE sequence = 4",
        "UPDATE table_runs SET content = '[]' WHERE sequence = 1",
        "DELETE FROM table_runs WHERE sequence = 0",
    ],
)
def test_tables_that_were_tampered_with_are_found_out(damage: str, tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "vault.sqlite3"
    store = open_store(f"sqlite:///{path}")
    run(people(), store)
    assert not store.verify()
    store.close()
    with sqlite3.connect(path) as db:
        db.execute(damage)
    db.close()
    store = open_store(f"sqlite:///{path}")
    assert store.verify()
    if "entries" not in damage:
        with pytest.raises(StoreDamagedError):
            store.tables()
    store.close()


def test_a_shelf_that_was_moved_is_missed(tmp_path: Path) -> None:
    """Else those on it would be strangers, and drawn again."""
    import sqlite3

    path = tmp_path / "vault.sqlite3"
    store = open_store(f"sqlite:///{path}")
    run(people(), store)
    place = next(place for place in range(256) if store.fingerprints(place))
    store.close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE table_marks SET place = 1000 WHERE place = ?", (place,))
    db.close()
    store = open_store(f"sqlite:///{path}")
    with pytest.raises(StoreDamagedError):
        store.fingerprints(place)
    assert store.verify()
    store.close()


def test_ids_are_restored_from_tokens_and_only_those_that_a_table_has_shown(store: Store) -> None:
    def named(letter: str) -> Table:
        """People with ids so long that chance makes no token one of them."""
        ids = pa.array([f"{letter}{number:015d}" for number in range(FEW)])
        return people(FEW).set_column(0, "mrn", ids)

    table = named("P")
    opened(table, 5, store)  # known by name, so in no register
    tokens = run(table, store, identifiers={"mrn": "code"}).table["mrn"].to_pylist()
    assert not set(tokens) & set(table["mrn"].to_pylist())
    assert restore_ids(tokens, "code", store=store) == table["mrn"].to_pylist()
    elsewhere = run(named("Q"), MemoryStore(), identifiers={"mrn": "code"})
    strangers = elsewhere.table["mrn"].to_pylist()
    assert restore_ids([*strangers, None, "no token"], "code", store=store) == [None] * (FEW + 2)
    with pytest.raises(IdentifierError, match="names in a table"):
        restore_ids(tokens, "person", store=store)


def test_a_guarantee_composes_what_tables_drew_before_and_after_an_erasure(store: Store) -> None:
    table, price = people(30), PLAN[RootName("ast")].epsilon
    run(table, store)
    run(changed(table, slice(30)), store)
    session = opened(changed(changed(table, slice(30)), slice(30)), 3, store)
    promised = session.guarantee()
    assert promised.draws_of("ast") == 3
    assert promised.epsilon_of("ast") == session.spent()["ast"] == 3 * price
    assert promised.total == store.ledger(Principal("P00003")).total
    store.erase(Principal("P00003"))
    assert store.ledger(Principal("P00003")).spent["ast"] == 3 * price
    again = opened(table, 3, store).guarantee()
    assert again.draws_of("ast") == 4
    assert again.epsilon_of("ast") == 4 * price


def test_tables_and_sessions_share_the_lifetime_cap(store: Store) -> None:
    table = people(3)
    for _ in range(10):
        run(table, store)
        table = changed(table, slice(1))
    with pytest.raises(BudgetError, match="10 times what its first draw cost"):
        opened(table, 0, store)
    assert opened(table, 1, store).guarantee().draws_of("ast") == 1


@pytest.mark.parametrize("other", ["unit", "grid"])
def test_a_table_in_another_unit_or_on_another_grid_than_the_stores_is_refused(
    other: str, store: Store
) -> None:
    opened(people(1), 0, store)
    ast = FIB4.roots[RootName("ast")]
    unlike = (
        replace(ast, unit="mU/mL")
        if other == "unit"
        else replace(ast, domain=replace(ast.domain, size=101))
    )
    template = replace(FIB4, roots={**FIB4.roots, RootName("ast"): unlike})
    plan = make_plan(template, Fraction("0.9"))
    with pytest.raises(PlanError, match=r"keeps ast as 7 to 272 U/L, 1000 points"):
        sanitize(people(3), plan, template=template, id_column="mrn", store=store)
    assert store.tables() == ()


def test_an_id_in_another_spelling_is_the_same_person(store: Store) -> None:
    table = people(3).set_column(0, "mrn", pa.array(["ann", "Zoë", "p3"]))
    other = table.set_column(0, "mrn", pa.array(["ANN ", "zoe\u0308", "P3"]))
    first, again = run(table, store), run(other, store)
    for column in FIB4.roots:
        assert again.table[column].to_pylist() == first.table[column].to_pylist()
    spent = store.ledger(Principal("Ann")).micro
    assert spent == store.ledger(Principal("ann")).micro != {}
    values: dict[str, float] = {root: table[root][0].as_py() for root in FIB4.roots}
    session = Guard.open(FIB4, values=values, budget="0.9", store=store, principal="aNN")
    assert [session.release(root) for root in FIB4.roots] == [
        first.table[root][0].as_py() for root in FIB4.roots
    ]
    assert store.ledger(Principal("ann")).micro == spent
    store.erase(Principal(" Ann"))
    assert store.ledger(Principal("ann")).micro == spent


def test_ids_in_other_spellings_with_other_values_are_a_conflict(store: Store) -> None:
    table = people(2).set_column(0, "mrn", pa.array(["ann", "ANN"]))
    with pytest.raises(RootGuardError, match="different values"):
        run(table, store)


def test_a_batch_key_takes_ids_as_they_are_written() -> None:
    table = people(3).set_column(0, "mrn", pa.array(["ann", "bob", "p3"]))
    other = table.set_column(0, "mrn", pa.array(["Ann", "BOB", "P3"]))
    key, plan = bytes(range(32)), make_plan(FIB4, Fraction("0.01"))
    first, again = (
        sanitize(each, plan, template=FIB4, id_column="mrn", key=key) for each in (table, other)
    )
    columns = list(FIB4.roots)
    assert first.table.select(columns) != again.table.select(columns)


@given(
    st.lists(st.text(max_size=12) | st.text("Az09-", max_size=12) | st.none(), max_size=6),
    st.integers(0, 3),
)
def test_ids_are_compared_as_names_are(ids: list[str | None], first: int) -> None:
    given_ids = pa.array(ids, pa.large_string()).slice(min(first, len(ids)))
    begins, content = comparable(given_ids)
    made = [bytes(content[a:b]).decode() for a, b in itertools.pairwise(begins.tolist())]
    assert made == [normalised(each or "") for each in given_ids.to_pylist()]
