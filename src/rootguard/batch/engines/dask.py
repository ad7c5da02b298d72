"""`sanitize_dask`: the same kernel in the tasks of Dask, one for each partition.

As with Spark, a task may run again or anywhere: the noise is a function of the key, the id and the
value. There is no store here: a key or a key file makes the noise, and whoever holds it keeps the
account. For a table that a store accounts for, use `sanitize`, files, DuckDB or Spark.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rootguard.allocation import Plan
from rootguard.batch.columns import Table, foreign_errors_as, lay_out
from rootguard.batch.engines.tasks import ReleaseTask, made_of, ready_kernel
from rootguard.batch.job import OnConflict, check_choice, conflict_counts
from rootguard.batch.keys import Secret, read_key
from rootguard.batch.register import Register
from rootguard.batch.tables import frame_to_arrow
from rootguard.errors import ConflictError, NoiseError, StoreKeyError, shielded
from rootguard.identifiers import Kind
from rootguard.store.tables import Entries, entry_type
from rootguard.template import Template

_SAFE = ("inproc://", "tls://", "tcp://127.0.0.1:", "tcp://localhost:")
"""Addresses of a scheduler to which a key may travel: encrypted, or on this machine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DaskRelease:
    """Two Dask data frames, computed when they are asked for."""

    table: Any
    """The rows that may be shown."""
    rejects: Any
    """Row, column and reason of what is not among them; rows are counted within a partition."""


@shielded
def sanitize_dask(
    df: Any,  # noqa: ANN401 - a dask.dataframe.DataFrame
    plan: Plan,
    *,
    template: Template,
    id_column: str,
    key: bytes | None = None,
    key_file: str | None = None,
    identifiers: Mapping[str, Kind] | None = None,
    columns: Mapping[str, str] | None = None,
    calibrate: bool = False,
    version: int = 1,
    on_conflict: OnConflict = "refuse",
) -> DaskRelease:
    """`sanitize` for a Dask data frame: row for row what one machine makes under the same key.

    `key` travels inside the tasks, so it is refused where a distributed scheduler's traffic is in
    clear; `key_file` names a file that every worker has at that place. Conflicts are looked for
    before this returns, in a pass over the data; `on_conflict="charge"` spares it.
    """
    check_choice("on_conflict", on_conflict, OnConflict)
    if (key is None) == (key_file is None):
        raise StoreKeyError("give Dask a batch key or a key file, and not both")
    if key_file is None:
        _check_encrypted()
    layout = lay_out(
        template, list(df.columns), id_column=id_column, columns=columns, identifiers=identifiers
    )
    secret = Secret.of(key if key_file is None else read_key(Path(key_file)), None)
    task = ReleaseTask.of(
        template, plan, layout, secret, key_file=key_file, calibrate=calibrate, version=version
    )
    if on_conflict == "refuse":
        _check_conflicts(df, task)
    empty = df._meta
    return DaskRelease(
        table=df.map_partitions(partial(_rows, task), meta=_rows(task, empty)),
        rejects=df.map_partitions(partial(_told, task), meta=_told(task, empty)),
    )


def _rows(task: ReleaseTask, part: Table) -> Table:
    return _worked(task, part)[0]


def _told(task: ReleaseTask, part: Table) -> Table:
    return _worked(task, part)[1]


@shielded
def _worked(task: ReleaseTask, part: Table) -> tuple[Table, Table]:
    """One partition, as pandas has it."""
    made, rejects = made_of(ready_kernel(task), None, _batch(part))
    return made.to_pandas(), rejects.drop_columns(["row"]).to_pandas()


def _batch(part: Table) -> Any:  # noqa: ANN401 - pyarrow has no types
    table = frame_to_arrow(part)
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


@shielded
def _fingerprints(task: ReleaseTask, part: Table) -> bytes:
    with foreign_errors_as(
        NoiseError("a part of the table could not be worked on; nothing was released")
    ):
        entries, there = ready_kernel(task).entries(_batch(part))
        found: Entries = entries[there]
        return found.tobytes()


def _check_conflicts(df: Any, task: ReleaseTask) -> None:  # noqa: ANN401
    """Refuse different values under one id; the register keeps fingerprints on disk."""
    from dask import delayed

    register = Register(task.plan, task.version, None)
    kind = entry_type(len(task.plan.shares))
    for part in df.to_delayed():  # one after another: all of them might not fit here
        found = np.frombuffer(delayed(partial(_fingerprints, task))(part).compute(), kind)
        register.add(found, np.empty(0, kind), len(found))
    if conflicts := register.conflicts():
        ids = {root: len(each) for root, each in conflicts.items()}
        raise ConflictError(conflict_counts(task.layout, ids), ())


def _check_encrypted() -> None:
    """Refuse to send a key in clear from one machine to another."""
    try:
        from distributed import default_client
    except ImportError:
        return
    try:
        address = str(default_client().scheduler.address)
    except ValueError:  # there is none: threads or processes of this machine
        return
    if not address.startswith(_SAFE):
        raise StoreKeyError(
            "Dask's traffic is in clear, and the key would travel in it; use a scheduler with TLS, "
            "or give every worker the key in a key_file"
        )
