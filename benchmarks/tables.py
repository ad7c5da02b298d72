"""Tables of people: CSV and Parquet beside a copy, and what calibration, tokens and names cost.

All in this process, whose processor time counts all its threads. ROOTGUARD_BENCH_TABLE sets how
many rows; `batch` has the long tables, in processes of their own, with their peak memory.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.batch import BUDGET, make
from benchmarks.measure import Case, Contender, Figure, Skipped, figure
from rootguard import Guard, Store, load_template, make_plan, open_store

ROWS = int(float(os.environ.get("ROOTGUARD_BENCH_TABLE", "1e6")))
_CALIBRATED = ROWS // 4
_PEOPLE = 2_000
_KEY = bytes(range(32))


def tables() -> Iterator[Case | Figure | Skipped]:
    if find_spec("pyarrow") is None:
        yield Skipped(name="tables", reason="pyarrow is not installed")
        return
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        yield from _copies(folder)
        yield from _columns(folder)
        yield from _known_by_name(folder)


def _copies(folder: Path) -> Iterator[Case]:
    csv, parquet = (import_module(f"pyarrow.{part}") for part in ("csv", "parquet"))
    make(folder / "in.parquet", ROWS)
    csv.write_csv(parquet.read_table(folder / "in.parquet"), folder / "in.csv")

    def copy_csv() -> None:
        csv.write_csv(csv.read_csv(folder / "in.csv"), folder / "copy.csv")

    def copy_parquet() -> None:
        parquet.write_table(parquet.read_table(folder / "in.parquet"), folder / "copy.parquet")

    for ending, copy, aim in (("csv", copy_csv, 1 / 2), ("parquet", copy_parquet, None)):
        source, target = folder / f"in.{ending}", folder / f"out.{ending}"
        yield Case(
            ours=Contender(
                name=f"a table of {ROWS:,} people, {ending}",
                call=_run(source, target),
                units=ROWS,
            ),
            theirs=Contender(
                name=f"pyarrow: read, write unchanged, {ending}", call=copy, units=ROWS
            ),
            aim=aim,
            rounds=7,
        )
    if find_spec("polars") is not None:
        polars: Any = import_module("polars")

        def copy_polars() -> None:
            polars.read_csv(folder / "in.csv").write_csv(folder / "copy.csv")

        yield Case(
            ours=Contender(
                name=f"a table of {ROWS:,} people, csv",
                call=_run(folder / "in.csv", folder / "out.csv"),
                units=ROWS,
            ),
            theirs=Contender(
                name="Polars: read, write unchanged, csv", call=copy_polars, units=ROWS
            ),
            rounds=5,
        )


def _run(
    source: Path, target: Path, *, store: Store | None = None, **options: object
) -> Callable[[], object]:
    files, keys = (import_module(f"rootguard.batch.{part}") for part in ("files", "keys"))
    template = load_template("fib4")
    plan = make_plan(template, Fraction(BUDGET))
    identifiers = options.pop("identifiers", {})

    def run() -> object:
        secret = keys.Secret.of(None if store else _KEY, store)
        columns = files.Columns(id_column="mrn", identifiers=identifiers, roots={})
        return files.sanitize_file(source, target, template, plan, secret, columns, **options)

    return run


def _columns(folder: Path) -> Iterator[Figure]:
    make(folder / "some.parquet", _CALIBRATED)
    source, target = folder / "some.parquet", folder / "some-out.parquet"
    for name, aim, options in (
        ("calibrated rows", 8e-6, {"calibrate": True}),
        ("rows with a token for the id", 20e-6, {"identifiers": {"mrn": "code"}}),
    ):
        ours = Contender(name=name, call=_run(source, target, **options), units=_CALIBRATED)
        yield figure(ours, unit="row", aim=aim, rounds=5)


def _known_by_name(folder: Path) -> Iterator[Figure]:
    """People whom a vault knows: with the values that it keeps, and with new ones."""
    parquet: Any = import_module("pyarrow.parquet")
    pa: Any = import_module("pyarrow")
    make(folder / "named.parquet", _PEOPLE)
    table = parquet.read_table(folder / "named.parquet")
    template = load_template("fib4")
    url = f"sqlite:///{folder / 'named.sqlite3'}"
    store = open_store(url, key=_KEY, create=True)
    for row in table.to_pylist():
        name = row.pop("mrn")
        Guard.open(
            template,
            values={key: float(value) for key, value in row.items()},
            budget=BUDGET,
            store=store,
            principal=name,
            on_clamp=lambda _: None,
        )
    source, target = folder / "named.parquet", folder / "named-out.parquet"
    same = Contender(
        name="people known by name, values as kept",
        call=_run(source, target, store=store),
        units=_PEOPLE,
    )
    yield figure(same, unit="person", aim=1 / 20_000, rate=True, rounds=5)
    changes = count(1)

    def another() -> object:
        moved = pa.array([value + next(changes) % 7 + 1 for value in table["ast"].to_pylist()])
        changed = table.set_column(table.schema.get_field_index("ast"), "ast", moved)
        parquet.write_table(changed, folder / "changed.parquet")
        return _run(folder / "changed.parquet", target, store=store)()

    new = Contender(name="people known by name, one value new", call=another, units=_PEOPLE)
    yield figure(new, unit="person", rate=True, rounds=3)
    store.close()
