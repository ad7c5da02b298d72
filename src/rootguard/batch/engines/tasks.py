"""What travels to the workers of a cluster, and what a worker makes of a piece of the table.

The kernel is built in each Python worker from public knowledge and either the key itself or the
name of a file on the workers that holds it. A worker writes nothing down.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from rootguard.allocation import Plan
from rootguard.batch.columns import Array, Layout, RecordBatch, foreign_errors_as
from rootguard.batch.kernel import REJECTS, EntrySink, Kernel
from rootguard.batch.keys import Secret, read_key
from rootguard.errors import NoiseError, StoreKeyError, shielded
from rootguard.mechanisms.exact import Words
from rootguard.mechanisms.keyed import Prf
from rootguard.template import Template

_KERNELS = 4
"""Kernels that a worker keeps ready: a worker serves many tasks, of few runs at a time."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ReleaseTask:
    """What travels to the workers. Holds the key, unless the workers have it in a file."""

    run: str
    template: Template
    plan: Plan
    layout: Layout
    calibrate: bool
    version: int
    row_column: str | None
    key: bytes | None
    key_file: str | None
    check: bytes
    """Made from the key: a worker whose file holds another one stops."""
    identifier_key: bytes | None
    exact: bool
    """Whether ids are people exactly as written."""

    @classmethod
    def of(
        cls,
        template: Template,
        plan: Plan,
        layout: Layout,
        secret: Secret,
        *,
        key_file: str | None,
        row_column: str | None = None,
        calibrate: bool,
        version: int,
    ) -> "ReleaseTask":
        """The task of one release; what is wrong with a plan is found here, not in the workers."""
        keys = secret.keys()
        task = cls(
            run=secrets.token_hex(8),
            template=template,
            plan=plan,
            layout=layout,
            calibrate=calibrate,
            version=version,
            row_column=row_column,
            key=None if key_file is not None else keys[0],
            key_file=key_file,
            check=Prf(keys[0]).key_for("check"),
            identifier_key=keys[1] if layout.identifiers else None,
            exact=secret.store is None or secret.store.exact_ids,
        )
        task.kernel()
        return task

    def __call__(self, batches: Iterator[RecordBatch]) -> Iterator[tuple[RecordBatch, RecordBatch]]:
        """Each batch as it is released, and its side table."""
        # By `map`, not in a loop: a generator's frame would hold the batch when an error leaves.
        return map(partial(made_of, ready_kernel(self), self.row_column), batches)

    def fingerprints(self, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """The fingerprints of each batch's people, for the driver to keep."""
        found: list[tuple[bytes, int]] = []
        kernel = self.kernel(lambda drawn, _, rows: found.append((drawn.tobytes(), rows)))
        for _ in map(partial(made_of, kernel, None), batches):
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([entries for entries, _ in found], pa.binary()),
                    pa.array([rows for _, rows in found], pa.int64()),
                ],
                names=["entries", "rows"],
            )
            found.clear()

    def of_people(
        self, batches: Iterator[RecordBatch], people: frozenset[int], *, theirs: bool
    ) -> Iterator[RecordBatch]:
        """Those rows of each batch that are of these people, or all but those."""
        kernel, sought = self.kernel(), np.array(sorted(people), np.uint64)
        return map(partial(_filtered, kernel, sought, theirs), batches)

    @shielded
    def kernel(self, sink: EntrySink | None = None) -> Kernel:
        key = self.key
        if key is None and self.key_file is not None:
            key = read_key(Path(self.key_file))
        prf = None if key is None else Prf(key, exact=self.exact)
        if prf is None or not secrets.compare_digest(prf.key_for("check"), self.check):
            raise StoreKeyError("a key file on an executor holds another key than the driver's")
        return Kernel(
            self.template,
            self.plan,
            prf,
            self.layout,
            identifier_key=self.identifier_key,
            calibrate=self.calibrate,
            version=self.version,
            sink=sink,
        )

    def __repr__(self) -> str:
        return "<task>"


_ready_kernels: dict[str, Kernel] = {}


def ready_kernel(task: ReleaseTask) -> Kernel:
    """The run's kernel, built once in each worker."""
    if task.run not in _ready_kernels:
        while len(_ready_kernels) >= _KERNELS:
            del _ready_kernels[next(iter(_ready_kernels))]
        _ready_kernels[task.run] = task.kernel()
    return _ready_kernels[task.run]


@shielded
def made_of(
    kernel: Kernel, row_column: str | None, batch: RecordBatch
) -> tuple[RecordBatch, RecordBatch]:
    """One batch in Spark's types."""
    with foreign_errors_as(
        NoiseError("a part of the table could not be worked on; nothing was released")
    ):
        released, rejects = kernel.apply(batch)
        return plain(released), _numbered(rejects, batch, row_column)


def plain(batch: RecordBatch) -> RecordBatch:
    """Spark knows no categories."""
    arrays = [
        array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        for array in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _numbered(rejects: RecordBatch, batch: RecordBatch, row_column: str | None) -> RecordBatch:
    """The side table with the table's own row numbers; a place in a batch means nothing."""
    rows: Array = pa.nulls(len(rejects), pa.int64())
    if row_column is not None:
        rows = batch.column(row_column).take(rejects.column("row")).cast(pa.int64())
    arrays = [rows, rejects.column("column"), rejects.column("reason")]
    return pa.RecordBatch.from_arrays(arrays, schema=REJECTS)


def _filtered(kernel: Kernel, people: Words, theirs: bool, batch: RecordBatch) -> RecordBatch:
    entries, there = kernel.entries(batch)
    found = there & np.isin(entries["tag"], people)
    return batch.filter(pa.array(found if theirs else ~found))
