"""Columns of every type: in as Arrow has them, out in the same form, by the same law."""

from datetime import date, datetime
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from rootguard.allocation import make_plan
from rootguard.batch.columns import lay_out
from rootguard.batch.kernel import Kernel
from rootguard.calibration import Calibration, Level
from rootguard.mechanisms.keyed import Prf
from rootguard.template import load_template, parse_template
from rootguard.values import RootName
from tests.support.typed_templates import typed_template

NAMES = ("diabetes", "region", "kids", "born", "female")
TEMPLATE = parse_template(
    typed_template(
        """
[derived.party]
formula = "born + 10"
type = "date"
[target]
name = "s"
formula = 'diabetes + (1 if region == "far west" else 0) + kids + born / 1000 + female'
""",
        NAMES,
    ),
    file="t.toml",
)
ROWS = 400


def table() -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "id": [f"p{n}" for n in range(ROWS)],
            "diabetes": pa.array([n % 2 == 0 for n in range(ROWS)]),
            "region": pa.array(
                [("north", "south", "far west")[n % 3] for n in range(ROWS)]
            ).dictionary_encode(),
            "kids": pa.array([n % 5 for n in range(ROWS)], pa.int32()),
            "born": pa.array([date(1980, 1, 1 + n % 28) for n in range(ROWS)], pa.date32()),
            "female": pa.array([n % 3 == 0 for n in range(ROWS)]),
        }
    )


def kernel(budget: str, allocation: str = "uniform") -> Kernel:
    plan = make_plan(TEMPLATE, Fraction(budget), allocation=allocation)  # type: ignore[arg-type]
    layout = lay_out(TEMPLATE, table().schema.names, id_column="id")
    return Kernel(TEMPLATE, plan, Prf(bytes(range(32))), layout)


def test_each_column_comes_out_in_its_own_type() -> None:
    made, rejects = kernel("400").apply(table())
    assert rejects.num_rows == 0
    kinds = {name: made.schema.field(name).type for name in made.schema.names}
    assert kinds["diabetes"] == kinds["female"] == pa.bool_()
    assert kinds["region"] == pa.dictionary(pa.int16(), pa.string())
    assert kinds["kids"] == pa.int64()
    assert kinds["born"] == kinds["party"] == pa.date32()
    assert kinds["s"] == pa.float64()
    for name in ("diabetes", "region", "kids", "born", "female"):  # at 100 each nothing differs
        assert made.column(name).to_pylist() == table().column(name).to_pylist(), name
    assert made.column("party").to_pylist()[0] == date(1980, 1, 11)


def test_answers_in_a_table_follow_the_law_and_public_ones_stay() -> None:
    made, _ = kernel("4").apply(table())
    assert made.column("female").to_pylist() == table().column("female").to_pylist()
    wrong = np.mean(
        [
            one != other
            for one, other in zip(
                made.column("diabetes").to_pylist(),
                table().column("diabetes").to_pylist(),
                strict=True,
            )
        ]
    )
    # 400 draws at epsilon 1; the key is fixed, so this is the same in every run.
    assert wrong == pytest.approx(1 / (1 + np.e), abs=5 * np.sqrt(0.2 / ROWS))
    again, _ = kernel("4").apply(table())
    assert again.equals(made)


def test_other_forms_of_the_same_values_are_the_same_rows() -> None:
    spelt = pa.RecordBatch.from_pydict(
        {
            "id": table().column("id"),
            "diabetes": pa.array(["Yes" if n % 2 == 0 else "no" for n in range(ROWS)]),
            "region": pa.array([("North", "south", "FAR WEST")[n % 3] for n in range(ROWS)]),
            "kids": pa.array([str(n % 5) for n in range(ROWS)]),
            "born": pa.array([datetime(1980, 1, 1 + n % 28, 9) for n in range(ROWS)]),
            "female": pa.array([1 if n % 3 == 0 else 0 for n in range(ROWS)]),
        }
    )
    one, _ = kernel("4").apply(table())
    other, _ = kernel("4").apply(spelt)
    assert other.select(one.schema.names).to_pylist() == one.to_pylist()


def test_a_wrong_cell_is_told_by_its_row_and_a_missing_one_stays_missing() -> None:
    few = table().slice(0, 4)
    columns = {name: few.column(name) for name in few.schema.names}
    columns["diabetes"] = pa.array(["maybe", "yes", None, "NA"])
    columns["born"] = pa.array([date(1980, 1, 1), date(1780, 1, 1), date(1980, 1, 1), None])
    made, rejects = kernel("4").apply(pa.RecordBatch.from_pydict(columns))
    assert sorted(rejects.column("row").to_pylist()) == [0, 1]
    assert "maybe" not in str(rejects.to_pylist())
    assert "1780" not in str(rejects.to_pylist())
    assert made.column("diabetes").null_count == 2
    assert made.column("party").null_count == 1


def test_a_wrong_cell_is_told_with_what_its_column_wants() -> None:
    few = table().slice(0, 4)
    columns = {name: few.column(name) for name in few.schema.names}
    columns["diabetes"] = pa.array(["maybe", "yes", "no", "yes"])
    columns["born"] = pa.array([date(1980, 1, 1), date(1780, 1, 1), date(1980, 1, 1), None])
    columns["kids"] = pa.array([1.0, 2.0, 0.5, 3.0])
    columns["region"] = pa.array(["north", "south", "far west", "mars"])
    _, rejects = kernel("4").apply(pa.RecordBatch.from_pydict(columns))
    assert [tuple(row.values()) for row in rejects.to_pylist()] == [
        (0, "diabetes", "not yes or no"),
        (1, "born", "not a date within its bounds, such as 2024-05-31"),
        (2, "kids", "not a whole number"),
        (3, "region", "not one of north, south, far west"),
    ]


def test_a_table_is_calibrated_beside_a_public_column_as_a_session_would_be() -> None:
    template = load_template("egfr").with_public("female")
    plan = make_plan(template, Fraction(1, 2))
    rows = pa.RecordBatch.from_pydict(
        {
            "id": ["a", "b", "c"],
            "age": [61.0, 30.0, 45.0],
            "scr": [1.4, 0.8, 1.0],
            "female": [True, False, True],
        }
    )
    layout = lay_out(template, rows.schema.names, id_column="id")
    plain, calibrated = (
        Kernel(template, plan, Prf(bytes(range(32))), layout, calibrate=calibrate)
        for calibrate in (False, True)
    )
    assert calibrated.settle() is False  # people are told apart by what is public
    noised = plain.apply(rows)[0]
    made = calibrated.apply(rows)[0]
    assert made.column("female").to_pylist() == [True, False, True]
    indices = {
        root: np.array(
            [template.roots[root].domain.nearest(v) for v in noised.column(root).to_pylist()]
        )
        for root in template.roots
    }
    expected = Calibration(template, Level.of_plan(plan)).release_many(indices)
    for root in ("age", "scr"):
        assert made.column(root).to_pylist() == pytest.approx(expected[RootName(root)].tolist())
        assert made.column(root) != noised.column(root)
