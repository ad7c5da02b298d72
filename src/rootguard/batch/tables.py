"""`sanitize`: a pandas, Polars or Arrow table in, a table of the same kind out.

Only the columns that are read go through Arrow; every other column stays the object it was, so its
type, its missing values and its categories do too.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rootguard.allocation import Plan
from rootguard.batch.columns import Array, Mask, Table, foreign_errors_as, lay_out
from rootguard.batch.job import Job, OnConflict
from rootguard.batch.kernel import REJECTS
from rootguard.batch.keys import Secret
from rootguard.batch.register import Fresh
from rootguard.errors import NoiseError, PrivateValueError, shielded
from rootguard.identifiers import Kind
from rootguard.store import Store
from rootguard.template import Template
from rootguard.values import Raw

ROWS = 1 << 15
"""Rows that are worked on together: few enough for the processor's cache."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableRelease:
    """A table that may be shown, and the side table of the rows that are not in it."""

    table: Table
    rejects: Table
    rows: int
    """How many rows were released."""
    version: int
    """Which draw of the table this is."""
    fresh: bool
    """Whether everybody in it was drawn anew, because a value had changed."""

    def __repr__(self) -> str:
        return f"<{self.rows} rows released>"


@shielded
def sanitize(
    table: Table,
    plan: Plan,
    *,
    template: Template,
    id_column: str,
    key: bytes | None = None,
    store: Store | None = None,
    identifiers: Mapping[str, Kind] | None = None,
    columns: Mapping[str, str] | None = None,
    calibrate: bool = False,
    version: int = 1,
    on_conflict: OnConflict = "refuse",
    fresh: Fresh = "never",
) -> TableRelease:
    """Noise every person's roots once and compute everything else from the noised roots.

    The noise is a function of the key, the id, the root and its value: the same row gives the same
    release, in any table, under the same key. `key` is 32 secret random bytes, as good as the raw
    table to whoever has it; with a `store`, its own secret is used, people whom it knows by their
    id are served from it, and the run is written into its ledger. With neither, a fresh key is
    made and forgotten.

    `columns` names the columns of roots that are called otherwise; `identifiers` gives columns to
    be replaced by tokens, with their kind. Missing values stay missing. Rows without an id, or
    with something else than a finite number, are listed in the second table and left out.

    Different values of a root under one id are refused, and nothing is released or charged. With
    `on_conflict="charge"` each value is noised by itself and its person pays for each.

    Equal values give equal releases, so a later table shows whose value has changed. With
    `fresh="changed"`, which needs a store, a table in which a value changed since its last release
    is drawn anew for everybody in it, as the next version, and each of them pays again.
    """
    with foreign_errors_as(NoiseError("the table could not be worked on; nothing was released")):
        secret = Secret.of(key, store)
        form = _form_of(table)
        layout = lay_out(
            template,
            form.names(table),
            id_column=id_column,
            columns=columns,
            identifiers=identifiers,
        )
        read = form.arrow(table, layout.needed)
        job = Job(
            secret,
            template,
            plan,
            layout,
            lambda: _batches(read),
            calibrate=calibrate,
            version=version,
            on_conflict=on_conflict,
            fresh=fresh,
        )
        released = _run(form, table, read, job)
        job.keep()  # before anybody sees the table: a release is never unaccounted for
        return released


def _run(form: "_Form", table: Table, read: Table, job: Job) -> TableRelease:
    kernel = job.kernel
    made: dict[str, list[Array]] = {}
    keeps: list[Mask] = []
    rejects = []
    first = 0
    for batch in _batches(read):
        part = kernel.make(batch, first)
        for name, array in part.columns.items():
            made.setdefault(name, []).append(array)
        keeps.append(np.ones(len(batch), np.bool_) if part.keep is None else part.keep)
        rejects.append(part.rejects)
        first += len(batch)
    keep = np.concatenate(keeps)
    types = kernel.schema(read.schema)
    whole = {
        name: pa.chunked_array(chunks, types.field(name).type) for name, chunks in made.items()
    }
    out = form.put(table, whole, keep)
    if isinstance(out, pa.Table):
        out = out.replace_schema_metadata(kernel.schema(out.schema).metadata)
    return TableRelease(
        table=out,
        rejects=form.made(pa.Table.from_batches(rejects, REJECTS)),
        rows=int(keep.sum()),
        version=job.version,
        fresh=job.fresh,
    )


def _batches(table: Table) -> Iterator[Any]:
    """Record batches that all columns share; one, empty, of an empty table."""
    batches = table.to_batches(max_chunksize=ROWS)
    return iter(batches or [pa.RecordBatch.from_pylist([], schema=table.schema)])


class _Form:
    """How one kind of table is read and put together again. This one: Arrow."""

    def names(self, table: Table) -> list[str]:
        return list(table.schema.names)

    def arrow(self, table: Table, needed: tuple[str, ...]) -> Table:
        return pa.table(table).select(needed)

    def put(self, table: Table, made: Mapping[str, Array], keep: Mask) -> Table:
        """The rows that are kept, with the new columns in place of the old."""
        table = pa.table(table)
        out = table if keep.all() else table.filter(pa.array(keep))
        for name, column in made.items():
            field = pa.field(name, column.type)
            place = out.schema.get_field_index(name)
            out = (
                out.append_column(field, column)
                if place < 0
                else out.set_column(place, field, column)
            )
        return out

    def made(self, rejects: Table) -> Table:
        return rejects


class _Pandas(_Form):
    def names(self, table: Table) -> list[str]:
        return [str(name) for name in table.columns]

    def arrow(self, table: Table, needed: tuple[str, ...]) -> Table:
        return pa.table({name: _series(table[name]) for name in needed})

    def put(self, table: Table, made: Mapping[str, Array], keep: Mask) -> Table:
        out = table.copy(deep=False) if keep.all() else table.loc[keep].copy()
        for name, column in made.items():
            series = column.to_pandas()
            series.index = out.index
            out[name] = series
        return out

    def made(self, rejects: Table) -> Table:
        return rejects.to_pandas()


class _Polars(_Form):
    def names(self, table: Table) -> list[str]:
        return list(table.columns)

    def arrow(self, table: Table, needed: tuple[str, ...]) -> Table:
        return table.select(needed).to_arrow()

    def put(self, table: Table, made: Mapping[str, Array], keep: Mask) -> Table:
        import polars

        out = table if keep.all() else table.filter(polars.Series(keep))
        return out.with_columns(
            **{name: polars.from_arrow(column) for name, column in made.items()}
        )

    def made(self, rejects: Table) -> Table:
        import polars

        return polars.from_arrow(rejects)


def _series(series: Any) -> Array:  # noqa: ANN401 - pandas has no types
    """A pandas column as Arrow has it; objects of all kinds as the numbers they are."""
    # Arrow reads a truth value among floats as the number 1.
    mixed = series.dtype == object and any(isinstance(cell, bool) for cell in series)
    with suppress(pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        column = pa.Array.from_pandas(series)
        if not mixed or pa.types.is_boolean(column.type):
            return column
    import pandas

    cells = [
        None if cell is None or cell is pandas.NA else repr(float(cell)) if Raw.accepts(cell) else
        ("" if isinstance(cell, float) and cell != cell else str(cell) if isinstance(cell, str)
         else "?")
        for cell in series
    ]  # fmt: skip
    return pa.array(cells, pa.string())


def frame_to_arrow(frame: Table) -> Table:
    """A whole pandas data frame as Arrow, its columns read as `sanitize` reads them."""
    return pa.table({str(name): _series(frame[name]) for name in frame.columns})


def _form_of(table: Table) -> _Form:
    package = type(table).__module__.partition(".")[0]
    if package == "pandas" and hasattr(table, "columns"):
        return _Pandas()
    if package == "polars" and hasattr(table, "to_arrow"):
        return _Polars()
    if isinstance(table, pa.Table | pa.RecordBatch):
        return _Form()
    raise PrivateValueError("give a pandas, Polars or Arrow table as", ("table",))
