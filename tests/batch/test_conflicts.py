"""Different values under one id: refused before anything is shown, written or charged."""

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from rootguard import Guard, load_template, open_store
from rootguard.calibration import make_plan
from rootguard.cli.batch import command
from rootguard.errors import BudgetError, ConflictError, UnknownNameError
from rootguard.store import Store, tables
from rootguard.store.summary import LIFETIME
from rootguard.values import Principal, RootName
from tests.support.canary import SENTINELS, everything, leaks

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from rootguard.batch import TableRelease, sanitize  # noqa: E402
from rootguard.batch import register as registers  # noqa: E402
from rootguard.batch.columns import Table  # noqa: E402

FIB4 = load_template("fib4")
PLAN = make_plan(FIB4, Fraction("0.9"))
KEY = bytes(range(32))
DOMAIN = FIB4.roots[RootName("ast")].domain
USUAL = {"age": 50.0, "ast": 30.0, "alt": 25.0, "plt": 210.0}

Row = dict[str, Any]


def person(name: str | None, **values: float | str | None) -> Row:
    return {"mrn": name, **USUAL, **values}


def table(*rows: Row) -> Table:
    return pa.Table.from_pylist(list(rows))


def run(rows: Table, **options: Any) -> TableRelease:  # noqa: ANN401 - options of every type
    if "store" not in options:
        options = {"key": KEY, **options}
    return sanitize(rows, PLAN, template=FIB4, id_column="mrn", **options)


def refused(rows: Table, **options: Any) -> ConflictError:  # noqa: ANN401
    with pytest.raises(ConflictError) as caught:
        run(rows, **options)
    return caught.value


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "postgres":
        url = request.getfixturevalue("new_postgres")()
    else:
        url = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'vault.sqlite3'}"
    made = open_store(url, key=bytes(range(32)), create=True)
    yield made
    made.close()


CONFLICT = table(
    person("b"), person("a"), person("c", ast=40), person("a", ast=31.0), person("c", ast=41),
    person("c", ast=42, plt=99),
)  # fmt: skip


def test_a_conflict_is_told_by_column_count_and_rows_and_by_nothing_else() -> None:
    told = refused(CONFLICT)
    assert told.ids == {"ast": 2, "plt": 1}
    assert told.rows == (1, 3)
    assert "ast (2 ids), plt (1 id); rows 1 and 3 (from 0)" in str(told)
    assert 'on_conflict="charge"' in str(told)
    assert "Nothing was released or charged" in str(told)
    moved = CONFLICT.rename_columns(["mrn", "age", "SGOT", "alt", "plt"])
    assert refused(moved, columns={"ast": "SGOT"}).ids == {"SGOT (ast)": 2, "plt": 1}


def test_the_rows_that_are_told_are_two_that_differ() -> None:
    rows = [person("a", ast=None), person("a"), person("a", ast=None), person("a", ast=31.0)]
    assert refused(table(*rows)).rows == (1, 3)


def test_a_fresh_key_refuses_as_one_that_was_given() -> None:
    assert refused(CONFLICT, key=None).rows == (1, 3)


@pytest.mark.parametrize(
    "other",
    [
        person("a"),
        person("a", ast=None),
        person("a", ast=30.0 + 0.4 * DOMAIN.step),  # the same grid point
        person("a", ast="not a number"),
        person(None, ast=40.0),
        person("b", ast=40.0),
    ],
)
def test_no_value_and_the_same_grid_point_are_no_conflict(other: Row) -> None:
    first = person("a", ast=DOMAIN.value(DOMAIN.nearest(30.0)))
    text = [
        {**row, "ast": None if row["ast"] is None else str(row["ast"])} for row in (first, other)
    ]
    out = run(table(*text)).table
    assert out["ast"][0].as_py() == run(table(first)).table["ast"][0].as_py()


def test_rows_without_an_id_do_not_conflict_with_each_other() -> None:
    released = run(table(person(None), person(None, ast=99.0), person("a")))
    assert released.rows == 1


def test_a_row_that_is_left_out_for_another_column_conflicts_all_the_same() -> None:
    """Whether it is left out may depend on a column that is read only when the table is drawn."""
    rows = [person("a", phone="030 123456"), person("a", ast=99.0, phone="none")]
    for options in ({}, {"identifiers": {"phone": "phone"}}):
        assert refused(table(*rows), **options).rows == (0, 1)


def test_charged_values_are_those_that_were_drawn_before_there_was_a_choice() -> None:
    """Each value by itself, and tables without conflicts alike under either choice."""
    charged = run(CONFLICT, on_conflict="charge").table
    for row in range(len(CONFLICT)):
        assert charged.slice(row, 1).to_pylist() == run(CONFLICT.slice(row, 1)).table.to_pylist()
    whole = table(*(person(f"P{row}", ast=20.0 + row) for row in range(50)))
    assert run(whole).table == run(whole, on_conflict="charge").table


def test_an_unknown_choice_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownNameError, match=r"choice of on_conflict.*refuse, charge"):
        run(CONFLICT, on_conflict="first")


def test_conflicts_are_found_however_far_apart_and_however_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [person(f"P{row:04d}", ast=20.0 + row % 100) for row in range(3000)]
    rows[2999] = person("P0007", ast=99.0)
    monkeypatch.setattr(registers, "PIECE", 64)
    monkeypatch.setattr("rootguard.batch.tables.ROWS", 100)
    told = refused(table(*rows))
    assert (told.ids, told.rows) == ({"ast": 1}, (7, 2999))


def opened(store: Store, name: str) -> None:
    Guard.open(FIB4, values=USUAL, budget="0.9", store=store, principal=name)


@pytest.mark.parametrize("named", ["nobody", "a", "b"])
def test_a_conflict_writes_and_charges_nothing_in_a_store(store: Store, named: str) -> None:
    """Whether the person who conflicts, or another one of the table, is known by name, or none."""
    if named != "nobody":
        opened(store, named)
    spent = store.events(Principal(named))
    rows = [person("b", ast=77.0), person("a"), person("a", ast=31.0), person("c")]
    assert refused(table(*rows), store=store).rows == (1, 2)
    assert store.tables() == ()
    assert store.events(Principal(named)) == spent
    assert run(table(*rows[:2], rows[3]), store=store).rows == 3
    assert run(table(*rows), store=store, on_conflict="charge").rows == 4


def test_files_are_refused_alike_and_nothing_is_left(tmp_path: Path) -> None:
    pq.write_table(CONFLICT, tmp_path / "in.parquet")
    lines = [CONFLICT.column_names, *(row.values() for row in CONFLICT.to_pylist())]
    (tmp_path / "in.csv").write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
    (tmp_path / "key").write_text(KEY.hex())
    (tmp_path / "key").chmod(0o600)
    before = sorted(tmp_path.iterdir())
    for ending in ("parquet", "csv"):
        words = ["fib4", "--in", str(tmp_path / f"in.{ending}"), "--budget", "0.9", "--id", "mrn"]
        words += ["--out", str(tmp_path / f"out.{ending}"), "--rejects", str(tmp_path / "side.csv")]
        words += ["--key-file", str(tmp_path / "key")]
        result = CliRunner().invoke(command, words)
        assert isinstance(result.exception, ConflictError)
        assert str(result.exception) == str(refused(CONFLICT))
        assert sorted(tmp_path.iterdir()) == before
        result = CliRunner().invoke(command, [*words, "--on-conflict", "charge", "--json"])
        assert json.loads(result.output)["released"] == len(CONFLICT)
        for made in ("side.csv", f"out.{ending}"):
            (tmp_path / made).unlink()


def test_a_refusal_holds_neither_id_nor_value() -> None:
    rows = [{"mrn": "Zebulon Quackenbush", **SENTINELS} for _ in range(2)]
    rows[1]["ast"] = 33.0
    problem = refused(table(*rows))
    assert not leaks(everything(problem))
    assert "Quackenbush" not in everything(problem)


def attack(**options: Any) -> list[int]:  # noqa: ANN401
    """Rows of every grid point under each victim's id: how many points are left for the value.

    The points whose release is the victim's own, one of which is the true one.
    """
    points = [DOMAIN.value(index) for index in range(DOMAIN.size)]
    left = []
    for victim in range(200):
        truth = person(f"V{victim}", ast=points[victim * 4 + 100])
        added = [person(f"V{victim}", ast=point) for point in points]
        released = run(table(truth, *added), **options).table["ast"].to_pylist()
        fits = [index for index in range(DOMAIN.size) if released[index + 1] == released[0]]
        assert victim * 4 + 100 in fits
        left.append(len(fits))
    return left


def test_rows_added_under_a_victims_id_are_refused() -> None:
    with pytest.raises(ConflictError):
        attack()


def test_charged_rows_that_are_added_under_a_victims_id_find_the_value_so_it_must_be_chosen() -> (
    None
):
    """The figure of docs/batch.md: with rows that others may add, this choice gives values away."""
    left = attack(on_conflict="charge")
    assert np.median(left) == 2  # of 1,000: the true one, and one that chance made equal


def test_rows_added_to_a_stores_tables_stop_at_the_lifetime_cap(store: Store) -> None:
    points = [DOMAIN.value(index) for index in range(LIFETIME + 1)]
    for point in points[:LIFETIME]:
        run(table(person("victim", ast=point), person("other")), store=store)
    runs = store.tables()
    with pytest.raises(BudgetError, match=r"ast \(1\); row 1 \(from 0\)") as caught:
        run(table(person("other"), person("victim", ast=points[-1])), store=store)
    assert f"{LIFETIME} times its first price" in str(caught.value)
    assert "Nothing was released or charged" in str(caught.value)
    assert store.tables() == runs
    assert run(table(person("other"), person("victim", ast=points[3])), store=store).rows == 2


def test_the_lifetime_cap_holds_in_one_table_and_over_draws(store: Store) -> None:
    values = [person("a", ast=20.0 + number) for number in range(LIFETIME + 1)]
    with pytest.raises(BudgetError):
        run(table(*values), store=store, on_conflict="charge")
    assert store.tables() == ()
    half = table(*values[: LIFETIME // 2])
    for version in (1, 2):
        run(half, store=store, on_conflict="charge", version=version)
    with pytest.raises(BudgetError):
        run(table(values[0]), store=store, version=3)
    assert run(table(values[0]), store=store, version=1).rows == 1


def test_a_cap_by_name_leaves_rows_out_and_refuses_no_table(store: Store) -> None:
    opened(store, "a")
    values = [person("a", ast=60.0 + number) for number in range(LIFETIME + 1)]
    released = run(table(person("b"), *values), store=store, on_conflict="charge")
    assert released.rows + len(released.rejects) == LIFETIME + 2


def test_nobody_is_charged_by_name_for_a_table_that_the_lifetime_cap_refuses(store: Store) -> None:
    opened(store, "b")
    spent = store.events(Principal("b"))
    values = [person("a", ast=20.0 + number) for number in range(LIFETIME + 1)]
    with pytest.raises(BudgetError, match=r"row 1 "):
        run(table(person("b", ast=99.0), *values), store=store, on_conflict="charge")
    assert store.events(Principal("b")) == spent
    assert store.tables() == ()


@pytest.mark.parametrize("together", [1, 700, 1 << 20])
def test_people_who_come_twice_are_found_however_many_are_looked_at_together(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registers, "TOGETHER", together)
    monkeypatch.setattr(registers, "PIECE", 300)
    generator = np.random.default_rng(5)
    tags = np.unique(generator.integers(0, 2**64, 2000, dtype=np.uint64))
    twice = generator.choice(tags, 40, replace=False)
    several = [*np.array_split(generator.permutation(tags), 7), twice[:25]]
    register = registers.Register(PLAN, 1, None, marked=False)
    none = np.empty(0, tables.entry_type(0))
    for some in several:
        entries: Any = np.empty(len(some), none.dtype)
        entries["tag"] = some
        register.add(entries, none, len(some))
    served: Any = np.empty(15, none.dtype)
    served["tag"] = twice[25:]
    register.add(none, served, 15)
    assert sorted(register.repeated().tolist()) == sorted(twice.tolist())
