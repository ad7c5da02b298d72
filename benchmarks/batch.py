"""A table of FIB-4 people from Parquet to Parquet, against copying it and against `apply`.

Every run has a process of its own, so that its peak memory is its own; what is timed starts after
the imports. ROOTGUARD_BENCH_ROWS makes the table smaller.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.measure import Case, Check, Contender, Row, Skipped
from rootguard import Guard, load_template, open_store
from rootguard.calibration import make_plan
from rootguard.expressions import evaluate
from rootguard.graph import Graph
from rootguard.sanitizer import sanitize
from rootguard.store import Store
from rootguard.values import Raw

ROWS = int(float(os.environ.get("ROOTGUARD_BENCH_ROWS", "1e7")))
ROUNDS = 3
BUDGET = "0.9"
_PIECE = 1 << 20
_SAMPLE = 300
_GIB = 1 << 20  # in the KiB that the system counts
_KEY = bytes(range(32))


def batch() -> Iterator[Row | Skipped]:
    if find_spec("pyarrow") is None:
        yield Skipped(name="a table through Parquet", reason="pyarrow is not installed")
        return
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "in.parquet"
        make(source, ROWS)
        names = ("ours", "copy", "kept", "apply", "ready")
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in names}
        for _ in range(ROUNDS):
            for name in names:
                runs[name].append(_child(name, source, Path(directory) / f"{name}.parquet"))
    peak = max(run["peak"] for run in runs["ours"]) / _GIB
    check = Check(name="peak GiB", value=peak, limit=1.0)
    shape = f"{ROWS:.0e} rows of 4 roots, Parquet to Parquet"
    aims = {"copy": 0.25, "apply": 500.0, "ready": None}
    against = {
        "copy": "pyarrow: read, write unchanged",
        "apply": "pandas apply, Guard.open per row",
        "ready": "pandas apply, sanitizer alone, plan ready",
    }
    for name, limit in aims.items():
        yield _row(shape, against[name], runs["ours"], runs[name], limit, check)
    peak = max(run["peak"] for run in runs["kept"]) / _GIB
    check = Check(name="peak GiB", value=peak, limit=1.0)
    yield _row(
        f"{shape}, kept in a vault", against["copy"], runs["kept"], runs["copy"], 0.25, check
    )


def _row(
    ours: str,
    theirs: str,
    our_runs: list[dict[str, float]],
    their_runs: list[dict[str, float]],
    aim: float | None,
    check: Check,
) -> Row:
    pairs = zip(our_runs, their_runs, strict=True)
    return Row(
        case=Case(
            ours=Contender(name=ours, call=_nothing, units=ROWS),
            theirs=Contender(name=theirs, call=_nothing),
            aim=aim,
            check=check,
            rate=True,
        ),
        ours_seconds=median(run["seconds"] for run in our_runs),
        theirs_seconds=median(run["seconds"] for run in their_runs),
        ratios=tuple(their["seconds"] / our["seconds"] for our, their in pairs),
    )


def _nothing() -> None:
    """The runs are timed elsewhere."""


def _child(name: str, source: Path, target: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.batch", name, str(source), str(target)]
    done = subprocess.run(command, check=True, capture_output=True, timeout=1800)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def make(path: Path, rows: int) -> None:
    """People of an ordinary laboratory, seeded."""
    pa, parquet, pc = (
        import_module(f"pyarrow{part}") for part in ("", ".parquet", ".compute")
    )  # fmt: skip
    generator = np.random.default_rng(1)
    writer: Any = None
    for start in range(0, rows, _PIECE):
        size = min(_PIECE, rows - start)
        numbers = pa.array(np.arange(start, start + size)).cast(pa.string())
        table = pa.table(
            {
                "mrn": pc.binary_join_element_wise("P", pc.utf8_lpad(numbers, 9, "0"), ""),
                "age": generator.integers(18, 90, size),
                "ast": np.round(generator.lognormal(3.1, 0.5, size), 1),
                "alt": np.round(generator.lognormal(3.1, 0.6, size), 1),
                "plt": np.round(generator.normal(227, 58, size)),
            }
        )
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def _ours(source: Path, target: Path) -> float:
    return _sanitized(source, target, None)


def _kept(source: Path, target: Path) -> float:
    """With a new vault each time: every value is marked in it and counted."""
    with tempfile.TemporaryDirectory() as directory:
        store = open_store(f"sqlite:///{directory}/vault.sqlite3", key=_KEY, create=True)
        took = _sanitized(source, target, store)
        store.close()
    return took


def _sanitized(source: Path, target: Path, store: Store | None) -> float:
    files, keys = (import_module(f"rootguard.batch.{part}") for part in ("files", "keys"))
    begin = time.process_time()
    template = load_template("fib4")
    files.sanitize_file(
        source,
        target,
        template,
        make_plan(template, Fraction(BUDGET)),
        keys.Secret.of(None if store else _KEY, store),
        files.Columns(id_column="mrn", identifiers={}, roots={}),
    )
    return (time.process_time() - begin) / ROWS


def _copy(source: Path, target: Path) -> float:
    parquet: Any = import_module("pyarrow.parquet")
    begin = time.process_time()
    parquet.write_table(parquet.read_table(source), target)
    return (time.process_time() - begin) / ROWS


def _apply(source: Path, _: Path) -> float:
    """Per row of a sample, without the reading and writing. `Guard.open` plans for each row."""
    template = load_template("fib4")
    roots = Graph.of(template).roots

    def release(row: Any) -> tuple[float, ...]:  # noqa: ANN401 - pandas has no types
        session = Guard.open(
            template,
            values={root: float(row[root]) for root in roots},
            budget=BUDGET,
            on_clamp=lambda _: None,
        )
        return (*(session.number(root) for root in roots), session.target())

    return _per_row(source, release)


def _ready(source: Path, _: Path) -> float:
    """The same without store, ledger and session: one plan, then draws and the target."""
    template = load_template("fib4")
    roots = Graph.of(template).roots
    plan = make_plan(template, Fraction(BUDGET))

    def release(row: Any) -> tuple[float, ...]:  # noqa: ANN401 - pandas has no types
        drawn = sanitize(plan, {root: Raw(row[root]) for root in roots}, {})
        values = {str(root): drawn[root].value for root in roots}
        return (*values.values(), evaluate(template.target.formula, values))

    return _per_row(source, release)


def _per_row(source: Path, release: Callable[[Any], tuple[float, ...]]) -> float:
    parquet: Any = import_module("pyarrow.parquet")
    frame = next(parquet.ParquetFile(source).iter_batches(_SAMPLE)).to_pandas()
    frame.head(5).apply(release, axis=1)
    begin = time.process_time()
    frame.apply(release, axis=1)
    return (time.process_time() - begin) / len(frame)


def main() -> None:
    """One run, told as JSON on standard output."""
    name, source, target = sys.argv[1:]
    way = {"ours": _ours, "kept": _kept, "copy": _copy, "apply": _apply, "ready": _ready}[name]
    seconds = way(Path(source), Path(target))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": seconds, "peak": peak}))


if __name__ == "__main__":
    main()
