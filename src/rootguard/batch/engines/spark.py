"""`sanitize_spark`: the same kernel in the tasks of a Spark cluster.

A task may run twice at once (speculation), again (a lost executor) or on any cut of the table. That
changes nothing: the noise is a function of the key, the id and the value, so every run of a task
makes the same rows, and there is no draw to protect from being made twice. Executors therefore
write nothing down; the driver alone speaks to the store, before it hands the table over.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rootguard.allocation import Plan
from rootguard.batch.columns import Array, Layout, RecordBatch, Schema, foreign_errors_as, lay_out
from rootguard.batch.engines.tasks import ReleaseTask, made_of, ready_kernel
from rootguard.batch.job import (
    OnConflict,
    check_choice,
    check_fresh,
    conflict_counts,
    differing,
)
from rootguard.batch.kernel import Kernel
from rootguard.batch.keys import Secret, read_key
from rootguard.batch.register import (
    Fresh,
    Register,
    check_levels,
    next_version,
    standing_version,
)
from rootguard.batch.tables import ROWS
from rootguard.errors import (
    ConflictError,
    NoiseError,
    PrivateValueError,
    StoreKeyError,
    UnknownNameError,
    shielded,
)
from rootguard.identifiers import Kind
from rootguard.store import Store
from rootguard.store.tables import entry_type
from rootguard.template import Template
from rootguard.values import RootName

DataFrame = Any
"""A `pyspark.sql.DataFrame`."""

# Either keeps a task's bytes, and the key among them, from being read on the way to an executor.
_ENCRYPTING = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")


@dataclass(frozen=True, kw_only=True, slots=True)
class SparkRelease:
    """Two data frames that Spark computes when they are asked for."""

    table: DataFrame
    """The rows that may be shown."""
    rejects: DataFrame
    """Row, column and reason of what is not among them."""
    version: int
    """Which draw of the table this is."""
    fresh: bool
    """Whether everybody in it was drawn anew, because a value had changed."""


@shielded
def sanitize_spark(
    df: DataFrame,
    plan: Plan,
    *,
    template: Template,
    id_column: str,
    key: bytes | None = None,
    key_file: str | None = None,
    store: Store | None = None,
    identifiers: Mapping[str, Kind] | None = None,
    columns: Mapping[str, str] | None = None,
    row_column: str | None = None,
    calibrate: bool = False,
    version: int = 1,
    on_conflict: OnConflict = "refuse",
    fresh: Fresh = "never",
) -> SparkRelease:
    """`sanitize` for a Spark data frame: row for row what one machine makes under the same key.

    `key` travels inside the tasks, so it is refused where Spark's own traffic is in clear;
    `key_file` names a file that every executor and the driver has at that place. With a `store` its
    secret travels instead, people whom it knows are served by the driver, and the run is in its
    ledger before this returns, which takes a pass over the data.

    Rows have no order here, so the side table names them by `row_column`, a column of whole
    numbers, if there is one. The data frame is computed once for each of the two results and again
    for a lost task: it must give the same rows each time. Conflicts are looked for before this
    returns, in one more pass; `on_conflict="charge"` spares it.
    """
    check_choice("on_conflict", on_conflict, OnConflict)
    check_fresh(store, fresh)
    layout = lay_out(
        template, df.columns, id_column=id_column, columns=columns, identifiers=identifiers
    )
    _check_row_column(df, layout, row_column)
    if key_file is not None and (key is not None or store is not None):
        raise StoreKeyError("give a batch key, a key file or a store, not two of them")
    secret = Secret.of(key if key_file is None else read_key(Path(key_file)), store)
    if key_file is None:
        _check_encrypted(df)
    if store is not None and fresh == "changed":
        version = standing_version(store, plan, version)
    task = ReleaseTask.of(
        template,
        plan,
        layout,
        secret,
        key_file=key_file,
        row_column=row_column,
        calibrate=calibrate,
        version=version,
    )
    if secret.store is not None:
        check_levels(secret.store, plan, version)
    if on_conflict == "refuse":
        _check_conflicts(df, task)
    if secret.store is not None:
        return _with_store(df, task, secret, fresh)
    table, rejects = _planned(df, task)
    return SparkRelease(table=table, rejects=rejects, version=version, fresh=False)


def _planned(df: DataFrame, task: ReleaseTask) -> tuple[DataFrame, DataFrame]:
    return (
        df.mapInArrow(_rows(task), _schema(df, task.layout, task.template)),
        df.mapInArrow(_told(task), _SIDE),
    )


def _with_store(df: DataFrame, task: ReleaseTask, secret: Secret, fresh: Fresh) -> SparkRelease:
    """What only the driver can do: serve the people whom the store knows, and keep the run."""
    store = secret.store
    if store is None:
        raise StoreKeyError("there is no store to keep this table in")
    by_name, steady, anew = secret.by_name(fresh), fresh == "changed", False
    named, rest = _split(df, task, by_name)
    register = secret.register(task.plan, task.version, by_name, steady=steady)
    _register(rest, task, register)
    if steady and register.changed():
        version, anew = next_version(store, task.plan), True
        task = replace(task, run=secrets.token_hex(8), version=version)
        register = secret.register(task.plan, version, by_name, steady=steady)
        _register(rest, task, register)
    register.check_lifetime(task.version)  # before anybody is charged by name
    kernel = secret.kernel(
        task.template,
        task.plan,
        task.layout,
        calibrate=task.calibrate,
        version=task.version,
        register=register,
        by_name=by_name,
    )
    served = _served(named, task, kernel)
    register.keep()
    made = _planned(rest, task)
    return SparkRelease(
        table=made[0].unionByName(served[0]),
        rejects=made[1].unionByName(served[1]),
        version=task.version,
        fresh=anew,
    )


def _register(df: DataFrame, task: ReleaseTask, register: Register) -> None:
    """Fetch the fingerprints of all rows."""
    found = df.mapInArrow(_fingerprints(task), _FINGERPRINTS).persist()
    found.count()  # in all executors at once; what follows only fetches
    kind = entry_type(len(task.plan.shares))
    for row in found.toLocalIterator():
        register.add(np.frombuffer(row.entries, kind), np.empty(0, kind), row.rows)
    found.unpersist()


def _split(df: DataFrame, task: ReleaseTask, people: frozenset[int]) -> tuple[DataFrame, DataFrame]:
    """The rows of people with these tags, and all others."""
    if not people:
        return df.limit(0), df
    ours, others = _of_people(task, people, theirs=True), _of_people(task, people, theirs=False)
    return df.mapInArrow(ours, df.schema), df.mapInArrow(others, df.schema)


def _of_people(
    task: ReleaseTask, people: frozenset[int], *, theirs: bool
) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    def rows(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        return task.of_people(batches, people, theirs=theirs)

    return rows


def _check_conflicts(df: DataFrame, task: ReleaseTask) -> None:
    """Refuse different values under one id, by grouping fingerprints in the cluster."""
    from pyspark.sql import functions

    roots = sorted(share.root for share in task.plan.shares)
    places = range(len(roots))
    marks = df.mapInArrow(_marks(task), ", ".join(f"{name} long" for name in _mark_names(roots)))
    ends = [end(f"m{place}").alias(name + str(place)) for place in places
            for name, end in (("least", functions.min), ("most", functions.max))]  # fmt: skip
    people = marks.groupBy("tag").agg(functions.min("row").alias("row"), *ends)
    apart = [functions.col(f"least{place}") < functions.col(f"most{place}") for place in places]
    counted = people.agg(
        *(functions.count_if(each).alias(root) for each, root in zip(apart, roots, strict=True))
    ).first()
    ids = {root: counted[root] for root in roots if counted[root]}
    if not ids:
        return
    rows: tuple[int, ...] = ()
    if task.row_column is not None:
        first = people.where(reduce(or_, apart)).orderBy("row").first()
        theirs = marks.where(functions.col("tag") == first.tag).orderBy("row").collect()
        rows = differing(
            (line.row, np.array([line[f"m{place}"] or 0 for place in places], np.uint32))
            for line in theirs
        )
    raise ConflictError(conflict_counts(task.layout, ids), rows)


def _mark_names(roots: Sequence[RootName]) -> list[str]:
    return ["tag", "row", *(f"m{place}" for place in range(len(roots)))]


def _served(df: DataFrame, task: ReleaseTask, kernel: Kernel) -> tuple[DataFrame, DataFrame]:
    """Rows that the driver works on itself. They are few: people opened one by one."""
    released, told = [], []
    schema = _schema(df, task.layout, task.template)
    for batch in df.toArrow().to_batches(max_chunksize=ROWS):
        made, rejects = made_of(kernel, task.row_column, batch)
        released.append(made)
        told.append(rejects)
    session = df.sparkSession
    return (
        session.createDataFrame(pa.Table.from_batches(released) if released else [], schema),
        session.createDataFrame(pa.Table.from_batches(told) if told else [], _SIDE),
    )


_SIDE = "row long, column string, reason string"
_FINGERPRINTS = "entries binary, rows long"


def _rows(task: ReleaseTask) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    def rows(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        return (released for released, _ in task(batches))

    return rows


def _told(task: ReleaseTask) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    def told(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        return (rejects for _, rejects in task(batches))

    return told


def _marks(task: ReleaseTask) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    def marks(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        return map(partial(_marked, ready_kernel(task), task.row_column), batches)

    return marks


def _fingerprints(task: ReleaseTask) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
    def fingerprints(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        return task.fingerprints(batches)

    return fingerprints


@shielded
def _marked(kernel: Kernel, row_column: str | None, batch: RecordBatch) -> RecordBatch:
    """The fingerprints of a batch's people and values; a value that is missing has none."""
    with foreign_errors_as(
        NoiseError("a part of the table could not be worked on; nothing was released")
    ):
        entries, there = kernel.entries(batch)
        rows: Array = pa.nulls(len(batch), pa.int64())
        if row_column is not None:
            rows = batch.column(row_column).cast(pa.int64())
        columns = [pa.array(entries["tag"].view(np.int64)), rows]
        columns += [
            pa.array(marks.astype(np.int64), mask=marks == 0) for marks in entries["marks"].T
        ]
        names = _mark_names(list(kernel.layout.columns))
        return pa.RecordBatch.from_arrays(columns, names=names).filter(pa.array(there))


def _schema(df: DataFrame, layout: Layout, template: Template) -> Schema:
    """Spark's schema of what comes out: the table's own, where nothing is computed.

    As `arrow_type`, but Spark has no categories: their answers are texts.
    """
    from pyspark.sql import types

    spark_types = {
        "boolean": types.BooleanType(),
        "category": types.StringType(),
        "date": types.DateType(),
        "count": types.LongType(),
        "number": types.DoubleType(),
    }
    names = {column: str(root) for root, column in layout.columns.items()}
    names |= {name: name for name in layout.computed}
    made = {column: spark_types[template.type_of(name).name] for column, name in names.items()}
    made |= dict.fromkeys(layout.identifiers, types.StringType())
    if layout.risk is not None:
        made[layout.risk] = types.StringType()
    fields = [
        types.StructField(field.name, made.pop(field.name)) if field.name in made else field
        for field in df.schema.fields
    ]
    return types.StructType(fields + [types.StructField(*entry) for entry in made.items()])


def _check_row_column(df: DataFrame, layout: Layout, row_column: str | None) -> None:
    if row_column is None:
        return
    if row_column not in df.columns:
        raise UnknownNameError("column", row_column, tuple(df.columns))
    whole = df.schema[row_column].dataType.typeName() in {"byte", "short", "integer", "long"}
    if not whole or row_column in {*layout.columns.values(), *layout.identifiers}:
        raise PrivateValueError(
            "rows are named by a column of whole numbers that passes, not by", (row_column[:64],)
        )


def _check_encrypted(df: DataFrame) -> None:
    """Refuse to send a key in clear from one machine to another."""
    settings = df.sparkSession.conf
    if settings.get("spark.master", "").startswith("local"):
        return
    if not any(settings.get(name, "false") == "true" for name in _ENCRYPTING):
        raise StoreKeyError(
            "Spark's traffic is in clear, and the key would travel in it; set "
            "spark.network.crypto.enabled, or give every executor the key in a key_file"
        )
