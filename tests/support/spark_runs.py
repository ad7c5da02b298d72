"""What the Spark tests look at, made in a process of its own: `python spark_runs.py KIND FOLDER`.

A JVM, its sockets and Spark's warnings stay out of the tests' process that way. `local` runs in
threads of one JVM; `cluster` is a master, two workers and an executor on each, with encrypted
traffic and speculation on. The workers are two loopback addresses, because Spark gives no task a
second attempt on a host that has one. The folder holds `in.parquet` and gets a file for each run.
"""

import contextlib
import hashlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession, functions

from rootguard import Guard, load_template, open_store
from rootguard.batch import sanitize, sanitize_spark
from rootguard.calibration import make_plan
from rootguard.errors import RootGuardError
from rootguard.values import Principal

pq: Any = import_module("pyarrow.parquet")
FIB4 = load_template("fib4")
PLAN = make_plan(FIB4, Fraction("0.9"))
KEY = bytes(range(32))
OPTIONS: dict[str, Any] = {"template": FIB4, "id_column": "mrn", "on_conflict": "charge"}
PATIENCE = 240
PARTS = 4

Batches = Iterator[Any]
_TEXTS = {"number": pa.int64(), "mrn": pa.string(), "site": pa.string(), "risk": pa.string()}
_NAMES = ("number", "mrn", "age", "ast", "site", "alt", "plt", "fib4", "risk")
SEEN = pa.schema([(name, _TEXTS.get(name, pa.float64())) for name in _NAMES])


def session(master: str, **settings: str) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master)
    usual = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.log.level": "ERROR",
        # A short run is over before the second compiler pays, and one thread collects its garbage.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in {**usual, **settings}.items():
        builder = builder.config(name, value)
    made: SparkSession = builder.getOrCreate()
    return made


def conflicts(people: DataFrame, folder: Path) -> dict[str, str]:
    """What is said of the table as it is, with and without a store, and of its first rows."""
    options = {**OPTIONS, "on_conflict": "refuse"}
    store = open_store(f"sqlite:///{folder / 'refusing.sqlite3'}")
    values = {"age": 50.0, "ast": 30.0, "alt": 25.0, "plt": 210.0}
    Guard.open(FIB4, values=values, budget="0.9", store=store, principal="P000040")
    spent = len(store.events(Principal("P000040")))
    told = {}
    for name, more in (
        ("conflict", {"key": KEY, "row_column": "number"}),
        ("conflict, rows without numbers", {"key": KEY}),
        ("conflict, store", {"store": store, "row_column": "number"}),
    ):
        try:
            sanitize_spark(people.repartition(5), PLAN, **{**options, **more})
        except RootGuardError as problem:
            told[name] = str(problem)
    assert not store.tables()
    assert len(store.events(Principal("P000040"))) == spent
    store.close()
    whole = people.where("number < 20")
    made = sanitize_spark(whole.unionByName(whole), PLAN, key=KEY, **options)
    keep(folder, "no-conflict", made.table.dropDuplicates())
    return told


def changes(people: DataFrame, folder: Path) -> dict[str, Any]:
    """A table, the same with one value changed, and that again."""
    store = open_store(f"sqlite:///{folder / 'changing.sqlite3'}")
    some = people.where("number between 100 and 400")
    moved = some.withColumn("age", functions.expr("if(number = 150, age + 5, age)"))
    told = []
    for turn, table in enumerate((some, moved, moved)):
        made = sanitize_spark(table, PLAN, store=store, fresh="changed", **OPTIONS)
        keep(folder, f"changing-{turn}", made.table)
        told.append([made.version, made.fresh])
    store.close()
    return {"changes": told}


def keep(folder: Path, name: str, frame: DataFrame) -> None:
    pq.write_table(frame.toArrow(), folder / f"{name}.parquet")


def local(folder: Path) -> None:
    """The same rows on every cut of the table, the options of one machine, and refusals."""
    spark = session("local[2]")
    people = spark.read.parquet(str(folder / "in.parquet"))
    for cuts in (1, 5):
        made = sanitize_spark(
            people.repartition(cuts), PLAN, key=KEY, row_column="number", **OPTIONS
        )
        keep(folder, f"rows-{cuts}", made.table)
        keep(folder, f"rejects-{cuts}", made.rejects)
    template = load_template(folder / "typed.toml")
    typed = sanitize_spark(
        spark.read.parquet(str(folder / "typed-in.parquet")).repartition(3),
        make_plan(template, Fraction(6), allocation="uniform"),
        template=template,
        id_column="mrn",
        key=KEY,
        row_column="number",
    )
    keep(folder, "typed", typed.table)
    keep(folder, "rejects-typed", typed.rejects)
    (folder / "key").write_text(KEY.hex())
    (folder / "key").chmod(0o600)
    options = {**OPTIONS, "identifiers": {"mrn": "code"}, "calibrate": True}
    made = sanitize_spark(people, PLAN, key_file=str(folder / "key"), **options)
    keep(folder, "tokens", made.table)
    keep(folder, "unnumbered", made.rejects)
    url = f"sqlite:///{folder / 'vault.sqlite3'}"
    store = open_store(url)
    opened = {"age": 50.0, "ast": 30.0, "alt": 25.0, "plt": 210.0}
    Guard.open(FIB4, values=opened, budget="0.9", store=store, principal="P000040")
    for turn in "ab":
        made = sanitize_spark(people, PLAN, store=store, row_column="number", **OPTIONS)
        keep(folder, f"kept-{turn}", made.table)
    keep(folder, "rejects-kept", made.rejects)
    store.close()
    keep(folder, "empty", sanitize_spark(people.limit(0), PLAN, key=KEY, **OPTIONS).table)
    fresh = [sanitize_spark(people, PLAN, **OPTIONS).table for _ in "ab"]
    for number, table in enumerate([fresh[0], fresh[0], fresh[1]]):
        keep(folder, f"fresh-{number}", table)
    bad = people.withColumn("ast", people.ast.cast("boolean"))
    (folder / "key-of-others").write_text(bytes(32).hex())
    (folder / "key-of-others").chmod(0o600)
    swapped = sanitize_spark(people, PLAN, key_file=str(folder / "key-of-others"), **OPTIONS)
    (folder / "key-of-others").write_text(KEY.hex())
    told = {**conflicts(people, folder), **changes(people, folder)}
    for name, table in (
        ("column", sanitize_spark(bad, PLAN, key=KEY, **OPTIONS).table),
        ("key", swapped.table),
    ):
        try:
            table.collect()
        except Exception as problem:  # noqa: BLE001 - what Spark makes of it is looked at
            told[name] = str(problem)
    (folder / "told.json").write_text(json.dumps(told))
    spark.stop()


def cluster(folder: Path) -> None:
    """Two executors on two hosts."""
    settings = {
        "spark.authenticate": "true",
        "spark.authenticate.secret": secrets.token_hex(16),
        "spark.network.crypto.enabled": "true",
    }
    with daemons(folder, settings) as master:
        spark = session(
            master,
            **settings,
            **{
                "spark.cores.max": "2",
                "spark.executor.memory": "512m",
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",
                "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{PATIENCE}s",
                "spark.speculation": "true",
                "spark.speculation.interval": "100ms",
                "spark.speculation.quantile": "0.5",
                "spark.speculation.multiplier": "1.1",
                "spark.sql.files.openCostInBytes": str(1 << 30),
            },
        )
        accidents(spark, folder)
        spark.stop()


@contextlib.contextmanager
def daemons(folder: Path, settings: dict[str, str]) -> Iterator[str]:
    """A master and two workers, each a process and a host of its own."""
    properties = folder / "spark.conf"
    properties.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    home = Path(pyspark.__file__).parent
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    deploy, usual = "org.apache.spark.deploy", ["--webui-port", "0"]
    usual += ["--properties-file", str(properties)]
    commands = [[f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), *usual]]
    for host in ("127.0.0.1", "127.0.0.2"):
        place = ["--host", host, "--cores", "1", "--memory", "1g", "--work-dir", str(folder / host)]
        url = f"spark://127.0.0.1:{port}"
        commands.append([f"{deploy}.worker.Worker", *place, *usual, url])
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"}
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((folder / "daemons.log").open("w"))
        for command in commands:
            process = stack.enter_context(
                subprocess.Popen(
                    [str(home / "bin" / "spark-class"), *command],
                    env=environment,
                    stdout=log,
                    stderr=log,
                )
            )
            stack.callback(process.terminate)
        yield f"spark://127.0.0.1:{port}"


def accidents(spark: SparkSession, folder: Path) -> None:
    """All rows, tasks that run twice at once, and an executor that is killed."""
    # One file for each task and no shuffle: what a lost executor had done is not asked for again.
    whole = pq.read_table(folder / "in.parquet")
    (folder / "in").mkdir()
    for part in range(PARTS):
        rows = whole.filter(pc.equal(pc.bit_wise_and(whole["number"], 3), part))
        pq.write_table(rows, folder / "in" / f"{part}.parquet")
    people = spark.read.parquet(str(folder / "in"))
    made = sanitize_spark(people, PLAN, key=KEY, row_column="number", **OPTIONS)
    keep(folder, "rejects", made.rejects)
    independent = people.mapInArrow(drawn_anew, made.table.schema)
    for accident in ("nothing", "slow", "killed"):
        for name, table in (("released", made.table), ("control", independent)):
            watched = table.mapInArrow(
                watch(str(folder / "seen"), f"{name}-{accident}", accident), table.schema
            )
            keep(folder, f"{name}-{accident}", watched)


def drawn_anew(batches: Batches) -> Batches:
    """The control: what a task would release that drew its noise by itself."""
    for batch in batches:
        table = sanitize(pa.Table.from_batches([batch]), PLAN, **OPTIONS).table
        place = table.schema.get_field_index("risk")
        table = table.set_column(place, "risk", table["risk"].cast(pa.string()))
        yield from table.to_batches()


def watch(folder: str, run: str, accident: str) -> Callable[[Batches], Batches]:
    """Write down what each attempt of each task made; then have an accident, once."""

    def watched(batches: Batches) -> Batches:
        context: Any = TaskContext.get()
        partition, attempt = context.partitionId(), context.taskAttemptId()
        rows = [row for batch in batches for row in batch.to_pylist()]
        executor = parent(os.getppid())
        note = {
            "partition": partition,
            "attempt": attempt,
            "executor": executor,
            "command": Path(f"/proc/{executor}/cmdline").read_text().replace("\0", " "),
            "failed_before": context.attemptNumber(),
            "made": hashlib.sha256(repr(rows).encode()).hexdigest(),
        }
        seen = Path(folder) / run / str(partition)
        seen.mkdir(parents=True, exist_ok=True)
        first = not any(seen.iterdir())
        draft = seen / f".{attempt}"
        draft.write_text(json.dumps(note))
        draft.replace(seen / f"{attempt:06d}.json")
        if partition == 0 and first and accident == "killed":
            os.kill(executor, signal.SIGKILL)
        if partition == 0 and first and accident != "nothing":
            end = time.monotonic() + PATIENCE
            while len(list(seen.glob("*.json"))) < 2:
                if time.monotonic() > end:
                    (seen / "gave up").touch()
                    raise TimeoutError("no second attempt came")
                time.sleep(0.05)
        yield from pa.Table.from_pylist(rows, schema=SEEN).to_batches()

    return watched


def parent(process: int) -> int:
    """The process that started another one."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


if __name__ == "__main__":
    {"local": local, "cluster": cluster}[sys.argv[1]](Path(sys.argv[2]))
