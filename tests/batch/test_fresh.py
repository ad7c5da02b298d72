"""What a later table shows of change, and how `fresh="changed"` hides whose value it was."""

import json
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from rootguard import Guard, load_template, open_store
from rootguard.accounting import advantage_bound
from rootguard.calibration import make_plan
from rootguard.cli.batch import command
from rootguard.errors import BudgetError, StoreError, StoreKeyError, UnknownNameError
from rootguard.mechanisms import mechanism
from rootguard.store import Store, tables
from rootguard.store.summary import LIFETIME
from rootguard.values import MICRO, Principal, RootName, to_micro

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from rootguard.batch import TableRelease, sanitize  # noqa: E402
from rootguard.batch import register as registers  # noqa: E402
from rootguard.batch.columns import Table  # noqa: E402

FIB4 = load_template("fib4")
PLAN = make_plan(FIB4, Fraction("0.9"))
AGE = RootName("age")
DOMAIN = FIB4.roots[AGE].domain
MIDDLE = DOMAIN.size // 2
ROOTS = tuple(sorted(FIB4.roots))


def people(rows: int = 40, *, moved: int = 0, first: int = 0) -> Table:
    """People of one age, the first of whom moved by a grid step."""
    ages = np.full(rows, DOMAIN.value(MIDDLE))
    ages[:moved] = DOMAIN.value(MIDDLE + 1)
    usual = {"ast": 30.0, "alt": 25.0, "plt": 210.0}
    return pa.table(
        {
            "mrn": [f"P{number:06d}" for number in range(first, first + rows)],
            "age": ages,
            **{root: np.full(rows, value) for root, value in usual.items()},
        }
    )


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    path = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'vault.sqlite3'}"
    made = open_store(path)
    yield made
    made.close()


def run(table: Table, store: Store, **options: Any) -> TableRelease:  # noqa: ANN401
    options = {"plan": PLAN, "fresh": "changed", **options}
    plan = options.pop("plan")
    return sanitize(table, plan, template=FIB4, id_column="mrn", store=store, **options)


def drawn(store: Store, name: str) -> dict[RootName, list[tuple[int, int]]]:
    prf = tables.table_prf(store.fingerprint_key)
    return tables.drawn_for(store.tables(), store.fingerprints, prf, name)


def shows(before: TableRelease, after: TableRelease, moved: int) -> tuple[float, float]:
    """The share of released ages that are another than before: of who moved, and of the others."""
    differ = before.table["age"].to_numpy() != after.table["age"].to_numpy()
    return differ[:moved].mean(), differ[moved:].mean()


MANY, HALF = 20_000, 10_000
TOLERANCE = 5 * math.sqrt(0.25 / HALF)  # five standard deviations: fewer than one in a million


def expected() -> float:
    """How often two independent draws differ whose values are one step apart, exactly."""
    chosen = mechanism(PLAN.mechanism, PLAN[AGE].epsilon, DOMAIN.size)
    points = np.arange(DOMAIN.size)
    at, beside = (np.exp(chosen.log_pmf(MIDDLE + step, points)) for step in (0, 1))
    return float(1 - at @ beside)


def test_a_later_table_shows_who_moved_by_a_step_unless_everybody_is_drawn_anew() -> None:
    """The figures of docs/batch.md, beside what the guarantee says of one step within one draw."""
    store = open_store("memory:")
    first = run(people(MANY), store)
    again = run(people(MANY, moved=HALF), store, fresh="never")
    moved, others = shows(first, again, HALF)
    assert others == 0
    assert moved == pytest.approx(expected(), abs=TOLERANCE)
    assert round(expected(), 2) == 0.97
    bound = advantage_bound({AGE: 1}, {AGE: PLAN[AGE].epsilon})
    assert round(bound, 3) == 0.062
    store = open_store("memory:")
    first = run(people(MANY), store)
    again = run(people(MANY, moved=HALF), store)
    moved, others = shows(first, again, HALF)
    assert moved == pytest.approx(expected(), abs=TOLERANCE)
    assert others == pytest.approx(moved, abs=2 * TOLERANCE)


def test_a_table_without_a_change_repeats_and_costs_nothing(store: Store) -> None:
    first = run(people(), store)
    assert (first.version, first.fresh) == (1, False)
    again = run(people(), store)
    assert (again.version, again.fresh) == (1, False)
    assert again.table == first.table
    assert first.table == run(people(), store, fresh="never").table
    assert [entry.drawn for entry in store.tables() if entry.root == AGE] == [40, 0, 0]


def test_one_change_draws_everybody_anew_and_each_pays_again(store: Store) -> None:
    first = run(people(), store)
    again = run(people(moved=1), store)
    assert (again.version, again.fresh) == (2, True)
    for root in ROOTS:
        assert not again.table[root].equals(first.table[root])
    price = {root: to_micro(PLAN[root].epsilon) for root in ROOTS}
    for name in ("P000000", "P000007"):  # who changed and who did not: the same
        assert drawn(store, name) == {root: [(price[root], 1), (price[root], 1)] for root in ROOTS}
        assert store.ledger(Principal(name)).total == 2 * PLAN.budget
        assert store.ledger(Principal(name)).draws == dict.fromkeys(ROOTS, 2)
    repeated = run(people(moved=1), store)
    assert (repeated.version, repeated.fresh) == (2, False)
    assert repeated.table == again.table


def test_a_value_that_comes_back_is_drawn_anew_with_everybody(store: Store) -> None:
    """An earlier release that came back would show whose value did."""
    first = run(people(), store)
    run(people(moved=1), store)
    back = run(people(), store)
    assert back.version == 3
    assert shows(first, back, 1)[1] > 0.5


def test_people_who_come_go_or_have_no_value_have_not_changed(store: Store) -> None:
    first = run(people(), store)
    part = run(people().slice(10, 5), store)
    assert part.table == first.table.slice(10, 5)
    more = run(pa.concat_tables([people(), people(5, moved=5, first=40)]), store)
    assert (more.version, more.fresh) == (1, False)
    assert more.table.slice(0, 40) == first.table
    ages = [None, *people()["age"].to_pylist()[1:]]
    gone = run(people().set_column(1, "age", pa.array(ages, pa.float64())), store)
    assert (gone.version, gone.fresh) == (1, False)


def test_a_change_within_one_table_that_charges_is_none_until_it_differs(store: Store) -> None:
    both = pa.concat_tables([people(), people(moved=3).slice(0, 3)])
    run(both, store, on_conflict="charge")
    assert run(both, store, on_conflict="charge").version == 1
    assert run(people(), store).version == 2  # which of the two values was the last is not known


def test_a_fresh_draw_is_one_that_no_table_of_the_store_has_shown(store: Store) -> None:
    other = make_plan(FIB4, Fraction("0.5"))
    run(people(), store)
    run(people(), store, plan=other, version=5)
    assert run(people(moved=1), store).version == 6
    assert run(people(moved=2), store, plan=other, version=5).version == 7


def test_people_whom_the_store_knows_by_name_are_drawn_anew_with_everybody(store: Store) -> None:
    table = people(200)
    for row in range(100):
        values = {str(root): table[root][row].as_py() for root in ROOTS}
        Guard.open(FIB4, values=values, budget="0.9", store=store, principal=f"P{row:06d}")
    first = run(table, store)
    again = run(people(200, moved=1), store)
    assert again.version == 2
    moved, others = shows(first, again, 100)
    # By chance a draw comes again in one of thirty; a third of a hundred do not.
    assert min(moved, others) > 0.67
    assert run(people(200, moved=1), store).table == again.table
    assert len(drawn(store, "P000001")[AGE]) == 2


def test_a_cap_of_somebody_known_by_name_refuses_a_fresh_draw_too(store: Store) -> None:
    run(people(), store)
    store.set_cap(Principal("P000003"), "", int(PLAN.budget * MICRO) // 2)
    runs = store.tables()
    with pytest.raises(BudgetError, match=r"age \(1\).*row 3 \(from 0\)"):
        run(people(moved=1), store)
    assert store.tables() == runs
    assert run(people(), store).version == 1


def test_a_cap_of_their_own_may_be_higher_than_the_lifetime_cap(store: Store) -> None:
    for name in people(10)["mrn"].to_pylist():
        for root in ROOTS:
            store.set_cap(Principal(name), root, 20 * to_micro(PLAN[root].epsilon))
    for step in range(LIFETIME + 1):
        assert run(people(10, moved=step), store).version == step + 1


def test_nobody_is_charged_by_name_for_a_fresh_draw_that_a_cap_refuses(store: Store) -> None:
    run(people(), store)
    store.erase(Principal("P000008"))
    store.set_cap(Principal("P000003"), "age", 2 * to_micro(PLAN[AGE].epsilon) - 1)
    events = store.events(Principal("P000008"))
    with pytest.raises(BudgetError):
        run(people(moved=1), store)
    assert store.events(Principal("P000008")) == events


def test_a_cap_that_is_set_while_the_table_is_drawn_holds(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.set_cap(Principal("P000003"), "age", MICRO)
    run(people(), store)
    check = registers.Register.check_lifetime

    def meanwhile(self: registers.Register, version: int) -> None:
        check(self, version)
        store.set_cap(Principal("P000003"), "age", 1)

    monkeypatch.setattr(registers.Register, "check_lifetime", meanwhile)
    runs = store.tables()
    with pytest.raises(BudgetError):
        run(people(moved=1), store)
    assert store.tables() == runs


def test_an_erased_person_is_not_given_the_old_noise_again(store: Store) -> None:
    first = run(people(), store)
    for row in range(20):
        store.erase(Principal(f"P{row:06d}"))
    again = run(people(), store)
    assert again.version == 1
    gone, others = shows(first, again, 20)
    assert others == 0
    assert gone > 0.5


def test_fresh_draws_stop_at_the_lifetime_cap_and_nothing_is_charged(store: Store) -> None:
    for step in range(LIFETIME):
        assert run(people(10, moved=step), store).version == step + 1
    runs = store.tables()
    with pytest.raises(BudgetError, match=r"age \(10\)"):
        run(people(10), store)
    assert store.tables() == runs


def test_a_table_that_was_released_meanwhile_is_noticed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(people(), store)
    check = registers.Register.check_lifetime

    def meanwhile(self: registers.Register, version: int) -> None:
        check(self, version)
        monkeypatch.setattr(registers.Register, "check_lifetime", check)
        run(people(moved=2), store)  # draw 2, which the other one has chosen for itself

    monkeypatch.setattr(registers.Register, "check_lifetime", meanwhile)
    with pytest.raises(StoreError, match="run it again"):
        run(people(moved=1), store)
    assert run(people(moved=1), store).version == 3


def test_without_a_store_nobody_knows_what_changed() -> None:
    for key in (None, bytes(32)):
        with pytest.raises(StoreKeyError, match="give one for fresh"):
            sanitize(people(), PLAN, template=FIB4, id_column="mrn", key=key, fresh="changed")
    with pytest.raises(UnknownNameError, match=r"choice of fresh.*never, changed"):
        run(people(), open_store("memory:"), fresh="always")


def test_the_command_says_the_price_before_and_the_draw_after(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'vault.sqlite3'}"
    words = ["fib4", "--budget", "0.9", "--id", "mrn", "--store", url, "--fresh", "changed"]
    told = []
    for turn, table in enumerate((people(), people(moved=1), people(moved=1))):
        source, target = tmp_path / f"in{turn}.parquet", tmp_path / f"out{turn}.parquet"
        pq.write_table(table, source)
        result = CliRunner().invoke(
            command, [*words, "--in", str(source), "--out", str(target), "--json"]
        )
        assert result.exit_code == 0, result.output
        made = json.loads(result.stdout)
        told.append((made["draw"], made["fresh"], result.stderr))
    assert [line[:2] for line in told] == [(1, False), (2, True), (2, False)]
    assert "drawn anew (draw 2), at epsilon 0.9 each" in told[1][2]
    assert told[0][2] == told[2][2] == ""
    store = open_store(url)
    again = run(people(moved=1), store)
    assert again.table.equals(pq.read_table(tmp_path / "out2.parquet"))
    store.close()
    keyed = [*words[:5], "--key-file", str(tmp_path / "key"), "--fresh", "changed"]
    source, target = tmp_path / "in0.parquet", tmp_path / "out.parquet"
    refused = CliRunner().invoke(command, [*keyed, "--in", str(source), "--out", str(target)])
    assert isinstance(refused.exception, StoreKeyError)
