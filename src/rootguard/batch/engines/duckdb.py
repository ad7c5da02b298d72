"""`sanitize_duckdb`: the rows of a DuckDB query, released into a table of the same database.

The rows pass as a stream of Arrow batches, so neither table needs to fit into memory. The new table
is written in a transaction of its own, and the run is in the store's ledger before it ends: nobody
sees a table that is not accounted for.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Unpack

import pyarrow as pa

from rootguard.allocation import Plan
from rootguard.batch.columns import RecordBatch, Table, foreign_errors_as
from rootguard.batch.engines.tasks import plain
from rootguard.batch.job import Job, TableOptions
from rootguard.batch.kernel import REJECTS
from rootguard.batch.tables import ROWS
from rootguard.errors import FileError, NoiseError, shielded

_NAME = re.compile(r"[A-Za-z_]\w{0,63}")


@dataclass(frozen=True, kw_only=True, slots=True)
class DuckRelease:
    """What was written, and the side table of the rows that are not in it."""

    rejects: Table
    """Row, column and reason, as an Arrow table."""
    rows: int
    """How many rows were released."""
    version: int
    """Which draw of the table this is."""
    fresh: bool
    """Whether everybody in it was drawn anew, because a value had changed."""


@shielded
def sanitize_duckdb(
    connection: Any,  # noqa: ANN401 - a DuckDBPyConnection
    relation: Any,  # noqa: ANN401 - a DuckDBPyRelation
    plan: Plan,
    *,
    into: str,
    **options: Unpack[TableOptions],
) -> DuckRelease:
    """`sanitize` for a relation such as `connection.sql("SELECT …")`, into a new table.

    Row for row what `sanitize` makes of the same rows under the same key, with the same options.
    The query is run once for each pass, and must give the same rows each time.
    """
    if not _NAME.fullmatch(into):
        raise FileError(into[:64], "", "is no plain name for a table", "use letters, digits and _")
    with foreign_errors_as(NoiseError("the query could not be worked on; nothing was released")):
        job = Job.of(plan, list(relation.columns), lambda: _batches(relation), **options)
        return _written(connection, relation, into, job)


def _batches(relation: Any) -> Iterator[RecordBatch]:  # noqa: ANN401
    return iter(relation.to_arrow_reader(ROWS))


def _written(connection: Any, relation: Any, into: str, job: Job) -> DuckRelease:  # noqa: ANN401
    schema = relation.limit(0).to_arrow_table().schema
    empty = pa.RecordBatch.from_pylist([], schema=schema)
    rejects, counted = [], [0]

    def released() -> Iterator[RecordBatch]:
        first = 0
        for batch in _batches(relation):
            made, told = job.kernel.apply(batch, first)
            rejects.append(told)
            counted[0] += len(made)
            first += len(batch)
            yield plain(made)

    form = plain(job.kernel.apply(empty)[0]).schema
    # Of its own: the connection itself is reading. What it writes is seen when it commits.
    writer = connection.cursor()
    try:
        writer.begin()
        writer.register("rootguard_rows", pa.RecordBatchReader.from_batches(form, released()))
        writer.execute(f'CREATE TABLE "{into}" AS SELECT * FROM rootguard_rows')  # noqa: S608
        job.keep()  # before anybody sees the table: a release is never unaccounted for
        writer.commit()
    finally:
        writer.close()  # a transaction that did not commit is gone with it
    return DuckRelease(
        rejects=pa.Table.from_batches(rejects, REJECTS),
        rows=counted[0],
        version=job.version,
        fresh=job.fresh,
    )
