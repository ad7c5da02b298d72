"""Spark on one machine: two executors of one core each against one, Parquet to Parquet.

An executor is a JVM and its Python workers, which would use two cores between them; each is pinned
to one core of its own, so that what is compared is one core and two. Every run is a process of its
own on a local cluster: start, a part of the table to warm up, then the runs that count. The median
of its runs is what a process says. ROOTGUARD_BENCH_SPARK_ROWS makes the table larger or smaller.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.batch import make
from benchmarks.measure import Case, Contender, Row, Skipped
from rootguard import load_template
from rootguard.calibration import make_plan

ROWS = int(float(os.environ.get("ROOTGUARD_BENCH_SPARK_ROWS", "1.2e7")))
ROUNDS = 2
TIMED = 2
FILES = 8
_KEY = bytes(range(32))


def spark() -> Iterator[Row | Skipped]:
    reason = ""
    if find_spec("pyspark") is None or shutil.which("java") is None:
        reason = "pyspark and a Java runtime are needed"
    elif len(os.sched_getaffinity(0)) < 2:
        reason = "two cores are needed"
    if reason:
        yield Skipped(name="two executors and one", reason=reason)
        return
    runs: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as directory:
        for part in range(FILES):
            (Path(directory) / "in").mkdir(exist_ok=True)
            make(Path(directory) / "in" / f"{part}.parquet", ROWS // FILES)
        for turn in range(ROUNDS):
            for executors in (1, 2) if turn % 2 else (2, 1):
                runs[executors].append(_child(executors, directory))
    case = Case(
        ours=Contender(name=f"{ROWS:.2g} rows, two executors", call=_nothing, units=ROWS),
        theirs=Contender(name="one executor", call=_nothing),
        aim=1.6,
        rate=True,
    )
    yield Row(
        case=case,
        ours_seconds=median(runs[2]),
        theirs_seconds=median(runs[1]),
        ratios=tuple(one / two for one, two in zip(runs[1], runs[2], strict=True)),
    )


def _nothing() -> None:
    """The runs are timed elsewhere."""


def _child(executors: int, directory: str) -> float:
    command = [sys.executable, "-m", "benchmarks.spark", str(executors), directory]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_WORKER_DIR": directory}
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=900,
        env=environment,
    )  # fmt: skip
    return float(json.loads(done.stdout.splitlines()[-1])["seconds"])


def main() -> None:
    """One process's runs, told as JSON on standard output."""
    executors, directory = int(sys.argv[1]), sys.argv[2]
    sql, batch = (import_module(name) for name in ("pyspark.sql", "rootguard.batch"))
    builder = sql.SparkSession.builder.master(f"local-cluster[{executors},1,1024]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.sql.files.openCostInBytes": str(1 << 30),
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    _pin(session, executors)
    template = load_template("fib4")
    plan = make_plan(template, Fraction("0.9"))
    seconds = []
    for turn in range(1 + TIMED):
        # One file for each executor is enough to start its workers and to load what they need.
        some = [f"{directory}/in/{part}.parquet" for part in range(FILES if turn else executors)]
        people = session.read.parquet(*some)
        begin = time.perf_counter()
        made = batch.sanitize_spark(people, plan, template=template, id_column="mrn", key=_KEY)
        made.table.write.mode("overwrite").parquet(f"{directory}/out")
        if turn:
            seconds.append((time.perf_counter() - begin) / ROWS)
    session.stop()
    print(json.dumps({"seconds": median(seconds)}))


def _pin(session: Any, executors: int) -> None:  # noqa: ANN401 - Spark is optional
    """Give each executor, with the Python workers it has and will have, one core."""
    pa: Any = import_module("pyarrow")

    def whose(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            daemon = os.getppid()
            above = Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1]
            family = [[int(above), daemon, os.getpid()]]
            yield pa.RecordBatch.from_arrays([pa.array(family)], names=["processes"])
            time.sleep(0.5)  # so that every executor is given some of these tasks

    found = session.range(0, 64, 1, 8 * executors).mapInArrow(whose, "processes array<long>")
    families: dict[int, set[int]] = {}
    for row in found.collect():
        families.setdefault(row.processes[0], set()).update(row.processes)
    if len(families) != executors:
        raise RuntimeError("not every executor took part")
    cores = sorted(os.sched_getaffinity(0))
    for core, family in zip(cores, families.values(), strict=False):
        for process in family:
            for thread in Path(f"/proc/{process}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {core})


if __name__ == "__main__":
    main()
