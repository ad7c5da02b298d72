"""Whole tables: the single value's answers, whatever kind of table they come in."""

import warnings
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from rootguard import Guard, MemoryStore, load_template
from rootguard.calibration import Calibration, Level, make_plan
from rootguard.errors import (
    NameTakenError,
    PlanError,
    PrivateValueError,
    RootGuardError,
    StoreKeyError,
    UnknownNameError,
)
from rootguard.expressions import evaluate
from rootguard.graph import Graph
from rootguard.template import catalog
from rootguard.values import Domain, Principal, RootName, Sanitized
from tests.support.canary import SENTINELS, everything, leaks

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

from rootguard.batch import TableRelease, sanitize  # noqa: E402
from rootguard.batch.columns import Table  # noqa: E402
from rootguard.batch.kernel import nearest  # noqa: E402

FIB4 = load_template("fib4")
PLAN = make_plan(FIB4, Fraction("0.9"))
KEY = bytes(range(32))
ROWS = 2000


def people(rows: int = ROWS, seed: int = 1) -> Table:
    generator = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "site": pd.Categorical(generator.choice(["north", "south"], rows)),
            "mrn": [f"P{number:06d}" for number in range(rows)],
            "age": generator.integers(18, 80, rows),
            "ast": generator.lognormal(3, 0.5, rows),
            "seen": pd.date_range("2024-01-01", periods=rows, freq="h"),
            "alt": generator.lognormal(3, 0.5, rows),
            "plt": generator.normal(230, 50, rows),
            "note": pd.array([None, 3] * (rows // 2), dtype="Int64"),
        }
    )


def run(table: Table, **options: object) -> TableRelease:
    usual: dict[str, Any] = {"template": FIB4, "id_column": "mrn"}
    if "store" not in options:
        usual["key"] = KEY
    plan: Any = options.pop("plan", PLAN)
    return sanitize(table, plan, **{**usual, **options})


def test_derived_columns_are_the_formulas_of_the_released_roots_to_the_last_bit() -> None:
    for name in catalog():
        template = load_template(name)
        roots = Graph.of(template).roots
        generator = np.random.default_rng(3)
        table = pd.DataFrame({"id": np.arange(200)})
        for root in roots:
            domain = template.roots[root].domain
            table[root] = generator.uniform(domain.lower, domain.upper, 200)
        plan = make_plan(template, Fraction(len(roots)))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            out = sanitize(table, plan, template=template, id_column="id", key=KEY).table
        for row in out.to_dict("records"):
            values: dict[str, float] = {root: row[root] for root in roots}
            for node in Graph.of(template).order:
                if node.formula is None:
                    continue
                try:
                    values[node.name] = evaluate(node.formula, values)
                except RootGuardError:
                    values[node.name] = float("nan")
                same = row[node.name] == values[node.name]
                assert same or np.isnan([row[node.name], values[node.name]]).all()
            risk = template.classify(values[template.target.name])
            if template.risk:
                assert row["risk"] == risk.label if risk else pd.isna(row["risk"])


def test_a_session_derives_what_the_table_says() -> None:
    """Through a store that knows the person, table and session give one answer."""
    store = MemoryStore()
    table = people(20)
    me = {root: float(table[root][7]) for root in ("age", "ast", "alt", "plt")}
    session = Guard.open(FIB4, values=me, budget="0.9", store=store, principal="P000007")
    row = run(table, store=store).table.iloc[7]
    assert row["fib4"] == session.target()
    assert row["risk"] == session.risk()
    assert row["ast"] == session.release("ast")


def test_released_roots_lie_on_their_grids_and_are_noised() -> None:
    table, out = people(), run(people()).table
    for name, root in FIB4.roots.items():
        points = [root.domain.value(index) for index in range(root.domain.size)]
        assert set(out[name]) <= set(points)
        assert (np.abs(out[name] - table[name]) > root.domain.step).mean() > 0.3


def test_snapping_is_that_of_a_single_value() -> None:
    generator = np.random.default_rng(4)
    for domain in (
        Domain(lower=7, upper=272),
        Domain(lower=-1.5, upper=0.1, size=3),
        Domain(lower=0, upper=1, size=100_000),
    ):
        values = generator.uniform(domain.lower - 1, domain.upper + 1, 2000)
        half = [domain.lower + (index + 0.5) * domain.step for index in range(domain.size - 1)]
        values = np.concatenate([values, half[:2000], [domain.lower, domain.upper, 1e300]])
        assert nearest(domain, values).tolist() == [domain.nearest(float(v)) for v in values]


def test_pandas_polars_and_arrow_tables_give_identical_results() -> None:
    table = people()
    table.loc[5, "ast"] = None
    table.loc[11, "mrn"] = None
    table.loc[12, "alt"] = np.inf
    arrow = pa.Table.from_pandas(table)
    results = [run(table), run(pl.from_arrow(arrow)), run(arrow), run(arrow.to_batches()[0])]
    frames = [results[0].table, *(made.table.to_pandas() for made in results[1:])]
    for frame, made in zip(frames, results, strict=True):
        for column in ("age", "ast", "alt", "plt", "fib4"):
            assert np.array_equal(frame[column], frames[0][column], equal_nan=True)
        for column in ("mrn", "risk", "site"):
            assert frame[column].astype(object).tolist()[:5] == frames[0][column].tolist()[:5]
        assert made.rows == ROWS - 2
        rejects = made.rejects if made is results[0] else made.rejects.to_pandas()
        assert rejects["row"].tolist() == [11, 12]
        assert rejects["column"].tolist() == ["mrn", "alt"]


def test_types_categories_order_index_and_extra_columns_survive() -> None:
    table = people()
    table.index = pd.Index(range(100, 100 + ROWS), name="number")
    before = table.copy(deep=True)
    out = run(table).table
    pd.testing.assert_frame_equal(table, before)  # the input is left alone
    assert list(out.columns) == [*table.columns, "fib4", "risk"]
    for column in ("site", "mrn", "seen", "note"):
        pd.testing.assert_series_equal(out[column], table[column])
    polars = pl.DataFrame(
        {
            "mrn": ["a", "b"],
            "age": [30, 40],
            "ast": [20.0, 30.0],
            "alt": [20.0, None],
            "plt": [200, 300],
            "grade": pl.Series(["x", "y"], dtype=pl.Enum(["x", "y", "z"])),
            "tags": [["p"], []],
        }
    )
    made = run(polars).table
    assert made.columns == [*polars.columns, "fib4", "risk"]
    assert made.select("grade", "tags", "mrn").equals(polars.select("grade", "tags", "mrn"))
    assert made["alt"].null_count() == made["fib4"].null_count() == made["risk"].null_count() == 1
    again = run(pa.Table.from_pandas(table)).table.to_pandas()
    for column in ("site", "seen", "note"):
        pd.testing.assert_series_equal(again[column], table[column], check_freq=False)


def test_missing_values_stay_missing_and_take_with_them_what_rests_on_them() -> None:
    template = load_template("nafld") if "nafld" in catalog() else FIB4
    roots = Graph.of(template).roots
    table = pd.DataFrame({"id": ["a", "b", "c"]})
    for root in roots:
        table[root] = float(template.centre()[root])
    table.loc[1, roots[0]] = None
    out = sanitize(
        table, make_plan(template, Fraction(3)), template=template, id_column="id", key=KEY
    ).table
    assert np.isnan(out[roots[0]][1])
    assert out[roots[1]].notna().all()
    for node in Graph.of(template).order:
        if node.formula is not None:
            rests = roots[0] in Graph.of(template).rests_on(node.formula)
            assert pd.isna(out[node.name][1]) == rests


@pytest.mark.parametrize(
    ("cells", "reasons"),
    [
        (["1", " 2.5 ", "+3e1"], {}),
        (["1", "", "NA"], {}),
        (["1", "forty", "2"], {1: "not a number"}),
        (["inf", "-Infinity", "1e999"], dict.fromkeys(range(3), "not a finite number")),
        ([1.5, "2", True], {2: "not a number"}),
        ([1.5, 2.5, True], {2: "not a number"}),
        ([Decimal("1.5"), False, 2.5], {1: "not a number"}),
        ([Fraction(3, 2), np.float16(2.5), np.longdouble(2.5)], {}),
        ([np.bool_(True), np.array(2.5), 2.5j], dict.fromkeys(range(3), "not a number")),
        ([1.5, 10**400, np.timedelta64(2, "ns")], dict.fromkeys((1, 2), "not a number")),
        ([Decimal("1.5"), 2, object()], {2: "not a number"}),
        ([1.5, float("inf"), None], {1: "not a finite number"}),
    ],
)
def test_a_cell_is_a_number_missing_or_told_in_the_side_table(
    cells: list[object], reasons: dict[int, str]
) -> None:
    table = people(len(cells) + len(cells) % 2).iloc[: len(cells)].copy()
    table["ast"] = pd.Series(cells, dtype=object)
    made = run(table)
    assert dict(zip(made.rejects["row"], made.rejects["reason"], strict=True)) == reasons
    assert len(made.table) == len(cells) - len(reasons)


def test_numbers_as_text_give_what_numbers_give() -> None:
    table = people()
    written = table.assign(ast=table["ast"].map(repr), age=table["age"].astype(str))
    assert run(written).table["fib4"].equals(run(table).table["fib4"])


def test_the_same_id_gets_the_same_roots_twice_and_in_a_later_table() -> None:
    table = people(10)
    twice = pd.concat([table, table.iloc[[3]]], ignore_index=True)
    out = run(twice).table
    assert out.iloc[10].equals(out.iloc[3])
    later = run(people(10).iloc[::-1].reset_index(drop=True)).table
    roots = ["age", "ast", "alt", "plt"]
    assert np.array_equal(later[roots].iloc[::-1], out[roots].iloc[:10])
    other = run(table.assign(mrn=[f"Q{row}" for row in range(10)])).table
    assert not np.array_equal(other[roots], out[roots].iloc[:10])  # the control


def test_an_id_is_the_same_as_text_number_or_category() -> None:
    table = people(10)
    numbers = run(table.assign(mrn=range(10))).table["fib4"]
    assert run(table.assign(mrn=[str(row) for row in range(10)])).table["fib4"].equals(numbers)
    coded = pd.Categorical([str(row) for row in range(10)])
    assert run(table.assign(mrn=coded)).table["fib4"].equals(numbers)


def test_a_changed_value_shows_no_difference_of_the_two() -> None:
    """Noise that depended on the person alone would give the difference away."""
    table = people()
    moved = table.assign(ast=table["ast"] + 10 * FIB4.roots[RootName("ast")].domain.step)
    gaps = np.round(
        (run(moved).table["ast"] - run(table).table["ast"])
        / FIB4.roots[RootName("ast")].domain.step
    )
    assert (gaps == 10).mean() < 0.3


def test_calibrated_tables_are_the_calibrated_sessions() -> None:
    table = people(30)
    plain, moved = run(table).table, run(table, calibrate=True).table
    levels = {
        s.root: Level(domain=s.domain, mechanism="geometric", epsilon=s.epsilon)
        for s in PLAN.shares
    }
    calibration = Calibration(FIB4, levels)
    for row in range(30):
        noised = {
            s.root: Sanitized(
                root=s.root,
                index=s.domain.nearest(float(plain[s.root][row])),
                domain=s.domain,
                epsilon=s.epsilon,
                mechanism="geometric",
            )
            for s in PLAN.shares
        }
        for root, value in calibration.release(noised).items():
            assert moved[root][row] == FIB4.roots[root].domain.clamp(value)


def test_identifiers_become_tokens_and_what_is_none_is_told() -> None:
    table = people(6).assign(
        phone=["+1 415 555 0134", "none", None, "+1 415 555 0134"] + [None] * 2
    )
    made = run(table, identifiers={"mrn": "code", "phone": "phone"})
    out = made.table
    assert made.rejects["row"].tolist() == [1]
    assert made.rejects["column"].tolist() == ["phone"]
    assert not set(out["mrn"]) & set(table["mrn"])
    assert out["phone"].tolist()[0] == out["phone"].tolist()[2] != "+1 415 555 0134"
    assert out["phone"].isna().sum() == 3
    plain = run(table).table
    assert np.array_equal(out["fib4"], plain["fib4"].drop(1))  # the noise rests on the id itself


def test_a_column_that_holds_what_is_computed_is_replaced_not_passed() -> None:
    table = people(10).assign(fib4=1.0, risk="told by hand")
    out = run(table).table
    assert list(out.columns) == list(table.columns)
    assert (out["fib4"] != 1.0).all()
    assert set(out["risk"]) <= {entry.label for entry in FIB4.risk}


def test_a_column_that_is_called_like_a_root_is_not_passed_unread() -> None:
    table = people(4).assign(SGOT=1.0)
    with pytest.raises(PrivateValueError, match=r"called like a root.*ast"):
        run(table)
    renamed = people(4).rename(columns={"ast": "SGOT"})
    out = run(renamed, columns={"ast": "SGOT"}).table
    assert list(out.columns) == [*renamed.columns, "fib4", "risk"]
    assert np.array_equal(out["SGOT"], run(people(4)).table["ast"])


def test_what_makes_no_sense_is_refused_before_anything_is_drawn() -> None:
    table = people(4)
    with pytest.raises(PrivateValueError, match="no column for: ast"):
        run(table.drop(columns="ast"))
    with pytest.raises(UnknownNameError, match="column"):
        run(table, id_column="nobody")
    with pytest.raises(NameTakenError):
        run(table, id_column="ast")
    with pytest.raises(PrivateValueError, match="a column of numbers"):
        run(table.assign(ast=pd.date_range("2024-01-01", periods=4)))
    with pytest.raises(PrivateValueError, match="ids are texts"):
        run(table.assign(mrn=[1.5, 2.5, 3.5, 4.5]))
    with pytest.raises(PlanError, match="another template"):
        run(table, plan=make_plan(load_template("homa"), Fraction(1)))
    with pytest.raises(StoreKeyError, match="not both"):
        sanitize(table, PLAN, template=FIB4, id_column="mrn", key=KEY, store=MemoryStore())
    with pytest.raises(PrivateValueError, match="pandas, Polars or Arrow"):
        run([1, 2])


def test_an_empty_table_stays_one() -> None:
    made = run(people(4).iloc[:0])
    assert made.rows == len(made.table) == len(made.rejects) == 0
    assert list(made.table.columns)[-2:] == ["fib4", "risk"]


def test_without_a_key_every_run_is_another_draw() -> None:
    table = people(50)
    first, second = (sanitize(table, PLAN, template=FIB4, id_column="mrn").table for _ in "ab")
    assert not first["fib4"].equals(second["fib4"])


class TestStore:
    def test_a_run_is_in_the_ledger_at_each_persons_price(self) -> None:
        store = MemoryStore()
        first = run(people(10), store=store).table
        assert first.equals(run(people(10), store=store).table)
        assert store.principals() == ()  # nobody by name
        spent = {share.root: int(share.epsilon * 10**6) for share in PLAN.shares}
        runs = store.tables()
        assert {entry.root: entry.micro_epsilon for entry in runs} == spent
        assert [entry.drawn for entry in runs] == [10] * len(spent) + [0] * len(spent)
        assert not store.verify()

    def test_an_erased_person_gets_fresh_noise_and_nobody_else_does(self) -> None:
        store, table = MemoryStore(), people(200)
        before = run(table, store=store).table
        gone = [f"P{number:06d}" for number in range(20)]
        for name in gone:
            store.erase(Principal(name))
        after = run(table, store=store).table
        same = (after["fib4"] == before["fib4"]).to_numpy()
        assert same[20:].all()
        assert same[:20].sum() <= 2
        assert run(table, store=store).table.equals(after)  # and keeps it

    def test_a_person_over_a_cap_is_left_out(self) -> None:
        store = MemoryStore()
        store.set_cap(Principal("P000003"), "", 1)
        made = run(people(6), store=store)
        assert made.rejects["row"].tolist() == [3]
        assert made.rejects["reason"].tolist() == ["over a cap of this person"]


def _broken(kind: str) -> Table:
    table = pd.DataFrame([{"mrn": "Zebulon Quackenbush", **SENTINELS}] * 3)
    match kind:
        case "dates":
            return table.assign(ast=pd.date_range("2024-01-01", periods=3))
        case "names":
            return table.rename(columns={"ast": "somewhere"})
        case "arrow":
            return pa.Table.from_pandas(table).drop_columns("plt")
        case "polars":
            return pl.from_pandas(table).with_columns(pl.lit(value=True).alias("ast"))
        case _:
            return table.assign(mrn=[1.5, 2.5, 3.5])


@pytest.mark.parametrize("kind", ["dates", "names", "arrow", "polars", "ids"])
def test_no_failed_table_carries_a_sentinel(kind: str) -> None:
    with pytest.raises(RootGuardError) as caught:
        run(_broken(kind))
    assert not leaks(everything(caught.value))


def test_a_bad_key_carries_neither_itself_nor_a_sentinel() -> None:
    table = pd.DataFrame([{"mrn": "Zebulon Quackenbush", **SENTINELS}] * 3)
    with pytest.raises(StoreKeyError) as caught:
        run(table, key=b"zebulon")
    assert not leaks(everything(caught.value))


def test_a_failure_within_carries_no_sentinel(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError(str(SENTINELS))

    monkeypatch.setattr("rootguard.batch.kernel.evaluate_many", broken)
    table = pd.DataFrame([{"mrn": "Zebulon Quackenbush", **SENTINELS}] * 3)
    with pytest.raises(RootGuardError) as caught:
        run(table)
    assert not leaks(everything(caught.value))


def test_neither_side_table_nor_release_nor_reprs_hold_a_sentinel() -> None:
    row = {"mrn": "Zebulon Quackenbush", **SENTINELS}
    bad = [{**row, "ast": float("inf")}, {**row, "mrn": None}]
    table = pd.DataFrame([row, *bad])
    made = run(table, identifiers={"mrn": "person"})
    assert len(made.rejects) == 2
    assert not leaks(made.rejects.to_csv() + made.table.to_csv() + repr(made))
    assert leaks(table.to_csv())  # the control
