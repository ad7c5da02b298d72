"""The table that Spark's runs are compared by, and how those runs are made."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from datetime import date
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rootguard import load_template
from rootguard.calibration import make_plan

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from rootguard.batch import sanitize  # noqa: E402
from rootguard.batch.columns import Table  # noqa: E402
from tests.support.patience import PATIENCE  # noqa: E402
from tests.support.typed_templates import typed_template  # noqa: E402

FIB4 = load_template("fib4")
PLAN = make_plan(FIB4, Fraction("0.9"))
KEY = bytes(range(32))
ROWS = 3000
TYPED_ROWS = 600
SENTINEL = 91.827364519
RUNS = Path(__file__).with_name("spark_runs.py")
needs_spark = pytest.mark.skipif(
    find_spec("pyspark") is None or shutil.which("java") is None,
    reason="pyspark and a Java runtime are needed",
)


def people() -> Table:
    """Rows in order, some to be left out, one value missing, one person twice.

    The two rows of that person differ, so a run has to choose `on_conflict="charge"`.
    """
    generator = np.random.default_rng(5)
    ids: list[str | None] = [f"P{number:06d}" for number in range(ROWS)]
    ast: list[float | None] = generator.lognormal(3, 0.5, ROWS).tolist()
    ids[11], ids[20] = None, ids[21]
    ast[5], ast[7], ast[9] = None, float("inf"), SENTINEL
    return pa.table(
        {
            "number": pa.array(range(ROWS)),
            "mrn": ids,
            "age": generator.integers(18, 80, ROWS),
            "ast": ast,
            "site": ["north", "south"] * (ROWS // 2),
            "alt": generator.lognormal(3, 0.5, ROWS),
            "plt": generator.normal(230, 50, ROWS),
        }
    )


TYPED = typed_template(
    """
[derived.grown]
formula = "born + 6574"
type = "date"
[target]
name = "points"
formula = 'diabetes + (1 if region == "north" else 0) + kids + born / 1000 + female'
""",
    ("diabetes", "region", "kids", "born", "female"),
)


def typed_people() -> Table:
    """A column of each type; two cells that are of none."""
    days = [date(1950 + row % 60, 1 + row % 12, 1 + row % 28) for row in range(TYPED_ROWS)]
    regions = [("north", "south", "far west")[row % 3] for row in range(TYPED_ROWS)]
    regions[13] = "east"
    sick: list[bool | None] = [row % 2 == 0 for row in range(TYPED_ROWS)]
    sick[17] = None
    return pa.table(
        {
            "number": pa.array(range(TYPED_ROWS)),
            "mrn": [f"T{row:05d}" for row in range(TYPED_ROWS)],
            "diabetes": pa.array(sick),
            "region": pa.array(regions),
            "kids": pa.array([row % 5 for row in range(TYPED_ROWS)], pa.int32()),
            "born": pa.array(days, pa.date32()),
            "female": pa.array([row % 3 == 0 for row in range(TYPED_ROWS)]),
        }
    )


def runs(kind: str, folder: Path) -> Path:
    """Have the runs made in a process of their own."""
    pq.write_table(people(), folder / "in.parquet")
    pq.write_table(typed_people(), folder / "typed-in.parquet")
    (folder / "typed.toml").write_text(TYPED)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, str(RUNS), kind, str(folder)],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            process.wait(timeout=2 * PATIENCE)  # a JVM, or several
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with every JVM it may have left
            process.wait()
    told = (folder / "log").read_text()
    assert process.returncode == 0, told[-3000:]
    assert str(SENTINEL) not in told
    return folder


def one_machine(**options: Any) -> Any:  # noqa: ANN401 - options of every type
    usual = {"template": FIB4, "id_column": "mrn", "key": KEY, "on_conflict": "charge"}
    return sanitize(people(), PLAN, **{**usual, **options})


def same(made: Table, expected: Table) -> bool:
    """Equal row for row, once both are in the order of their numbers; Spark has no categories."""
    for place, field in enumerate(expected.schema):
        if pa.types.is_dictionary(field.type):
            texts = expected[field.name].cast(pa.string())
            expected = expected.set_column(place, field.name, texts)
    assert made.column_names == expected.column_names
    made, expected = made.sort_by("number"), expected.sort_by("number")
    return all(
        made[name].cast(expected[name].type).combine_chunks() == expected[name].combine_chunks()
        for name in expected.column_names
    )
