"""Arrow columns as NumPy sees them, and which column of a table is what.

Numbers come with what is missing and wrong, ids as bytes. Nothing here raises for what a cell
holds: Arrow's own errors quote the cell.

A `Layout` is settled once from a table's names and types, before any row is read. Columns that
carry a root or something computed are replaced where they stand, under their own names; what is
computed and not there yet is appended. Every other column passes as it is, so a column that is
named like a root but not declared as one is refused, not passed.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rootguard.errors import (
    IdentifierError,
    NameTakenError,
    PrivateValueError,
    RootGuardError,
    UnknownNameError,
)
from rootguard.graph import Graph
from rootguard.identifiers import Kind
from rootguard.mechanisms.base import Floats
from rootguard.template import Root, Template
from rootguard.values import RootName, RootType, normalised

Array = Any
"""A `pyarrow.Array`."""
RecordBatch = Any
"""A `pyarrow.RecordBatch`."""
Schema = Any
"""A `pyarrow.Schema`."""
Table = Any
"""A `pyarrow.Table`, a pandas or a Polars data frame."""


Mask = NDArray[np.bool_]


@contextmanager
def foreign_errors_as(refusal: RootGuardError) -> Iterator[None]:
    """Whatever else than a refusal is raised inside becomes this one: its text may quote cells."""
    try:
        yield
    except RootGuardError:
        raise
    except Exception:  # noqa: BLE001 - Arrow, pandas and Spark raise all sorts
        raise refusal from None


MISSING_TEXTS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
"""Texts that stand for no value in a column of numbers that was written as text."""
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_INFINITE = r"^[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?$"


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Numbers:
    """A column of private numbers. What is missing or wrong holds a harmless 0."""

    values: Floats
    missing: Mask
    endless: Mask
    """Where the number is not finite."""
    other: Mask
    """Where there is something else than a number."""

    @property
    def refused(self) -> Mask:
        """Where nothing can be drawn, and there is something."""
        return self.endless | self.other


def numbers(column: Array) -> Numbers | None:
    """A column's numbers; None if its type is none for numbers. A boolean is no number."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    none = np.zeros(len(column), dtype=np.bool_)
    if pa.types.is_null(kind):
        return Numbers(values=np.zeros(len(column)), missing=~none, endless=none, other=none)
    if is_text(kind):
        return _read(column.cast(pa.string()))
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return None
    missing = _mask(column.is_null()) if column.null_count else none
    values = _floats(column.cast(pa.float64(), safe=False))
    finite = np.isfinite(values)
    if finite.all():
        return Numbers(values=values, missing=missing, endless=none, other=none)
    values = np.where(finite, values, 0.0)
    return Numbers(values=values, missing=missing, endless=~finite, other=none)


def typed(column: Array, root: Root) -> Numbers | None:
    """The column of a root, in the root's own form: yes or no, words, dates, whole numbers.

    Each different cell is read once. Dates may be Arrow's dates or ISO text, answers a dictionary.
    """
    if root.type.plain:
        return numbers(column)
    none = np.zeros(len(column), dtype=np.bool_)
    if pa.types.is_null(column.type):
        return Numbers(values=np.zeros(len(column)), missing=~none, endless=none, other=none)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.date32(), safe=False)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    read = [root.type.inside(_whole(cell), root.domain) for cell in column.dictionary.to_pylist()]
    blank = [
        found is None and (cell is None or cell in MISSING_TEXTS)
        for found, cell in zip(read, column.dictionary.to_pylist(), strict=True)
    ]
    places = column.indices.fill_null(len(read)).to_numpy(zero_copy_only=False)
    values = np.array([*(0.0 if found is None else found for found in read), 0.0])
    missing = np.array([*blank, True])[places]
    other = np.array([*(found is None for found in read), False])[places] & ~missing
    return Numbers(values=values[places], missing=missing, endless=none, other=other)


def _whole(cell: object) -> object:
    """A cell of text that is a whole number as one: counts are written so in a file of text."""
    return int(cell) if isinstance(cell, str) and cell.strip().isdecimal() else cell


def arrow_type(kind: RootType) -> object:
    """The type of a released column."""
    match kind.name:
        case "boolean":
            return pa.bool_()
        case "category":
            return pa.dictionary(pa.int16(), pa.string())
        case "date":
            return pa.date32()
        case "count":
            return pa.int64()
        case "number":
            return pa.float64()


def released_array(values: Floats, kind: RootType, gone: Mask) -> Array:
    """Released numbers in their own form; nothing where a mask says so."""
    mask = gone if gone.any() else None
    if kind.plain:
        return pa.array(values, mask=mask)
    whole = np.rint(np.where(gone | ~np.isfinite(values), 0.0, values)).astype(np.int64)
    match kind.name:
        case "boolean":
            return pa.array(whole >= 1, mask=mask)
        case "category":
            places = np.clip(whole, 0, len(kind.answers) - 1).astype(np.int16)
            answers = pa.array(kind.answers, pa.string())
            return pa.DictionaryArray.from_arrays(pa.array(places, mask=mask), answers)
        case "date":
            return pa.array(whole.astype(np.int32), mask=mask).cast(pa.date32())
        case _:
            return pa.array(whole, mask=mask)


def _read(column: Array) -> Numbers:
    """Numbers that are written as text, in the one way that a column of numbers is written."""
    return _plain(column) or _searched(column)


def _plain(column: Array) -> Numbers | None:
    """A column in which every cell is a finite number or missing; None if it is another.

    What Arrow reads as a finite number is written as `_NUMBER` says, so this finds what
    `_searched` would find, without looking at each cell three times.
    """
    read = _as_floats(column)
    if read is None:
        read = _as_floats(_without_missing(column))
    if read is None:
        return None
    values = _floats(read)
    if not np.isfinite(values).all():
        return None
    none = np.zeros(len(column), dtype=np.bool_)
    missing = _mask(read.is_null()) if read.null_count else none
    return Numbers(values=values, missing=missing, endless=none, other=none)


def _as_floats(text: Array) -> Array | None:
    with suppress(pa.ArrowInvalid):
        return text.cast(pa.float64())
    return None


def _without_missing(column: Array) -> Array:
    absent = pc.is_in(column, pa.array(MISSING_TEXTS))
    return pc.if_else(absent, pa.scalar(None, pa.string()), column)


def _searched(column: Array) -> Numbers:
    """The same of any column, by what each cell looks like."""
    text = pc.utf8_trim_whitespace(column)
    missing = pc.or_kleene(text.is_null(), pc.is_in(text, pa.array(MISSING_TEXTS)))
    written = pc.fill_null(pc.match_substring_regex(text, _NUMBER), fill_value=False)
    infinite = pc.fill_null(pc.match_substring_regex(text, _INFINITE), fill_value=False)
    plain = pc.utf8_ltrim(pc.if_else(written, text, None), characters="+")
    values = _floats(plain.cast(pa.float64()))
    finite = np.isfinite(values)
    absent, there = _mask(missing), _mask(written)
    endless = (_mask(infinite) & ~absent) | ~finite
    return Numbers(
        values=np.where(finite, values, 0.0),
        missing=absent,
        endless=endless,
        other=~(absent | there | endless),
    )


def is_text(kind: object) -> bool:
    """Whether a type is one of Arrow's text types."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def texts(column: Array) -> Array | None:
    """A column of ids or identifiers as text; whole numbers as they are written, else None."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_integer(column.type) or pa.types.is_null(column.type) or is_text(column.type):
        return column.cast(pa.large_string())
    return None


def absent(texts: Array) -> Mask:
    """Where a text is missing or empty."""
    begins, _ = text_bytes(texts)
    empty: Mask = np.diff(begins) == 0
    if texts.null_count:
        empty |= _mask(texts.is_null())
    return empty


def text_bytes(texts: Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Where each text begins, and one place more; and all of them together in UTF-8."""
    _, places, content = texts.buffers()
    if len(texts) == 0 or content is None:
        return np.zeros(len(texts) + 1, dtype=np.int64), np.empty(0, dtype=np.uint8)
    begins = np.frombuffer(places, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return begins - begins[0], np.frombuffer(content, dtype=np.uint8)[begins[0] : begins[-1]]


def comparable(texts: Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The same of ids as names are compared: of what `values.normalised` makes of each."""
    begins, content = text_bytes(texts)
    if ((content > _BLANK) & (content < _LAST)).all():  # what a column of ids is mostly made of
        capital = (content >= ord("A")) & (content <= ord("Z"))
        return begins, np.where(capital, content | _SMALL, content)
    made = [None if text is None else normalised(text) for text in texts.to_pylist()]
    return text_bytes(pa.array(made, pa.large_string()))


# In ASCII: below the first sign that can be seen, above the last, and what makes a letter small.
_BLANK, _LAST, _SMALL = np.uint8(32), np.uint8(127), np.uint8(32)


def _mask(array: Array) -> Mask:
    found: Mask = array.to_numpy(zero_copy_only=False).astype(np.bool_)
    return found


def _floats(array: Array) -> Floats:
    filled = array.fill_null(0.0) if array.null_count else array
    values: Floats = filled.to_numpy(zero_copy_only=False)
    return values


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """The columns of a table. `columns` names each root's, `computed` what is added."""

    id_column: str
    columns: Mapping[RootName, str]
    identifiers: Mapping[str, Kind]
    computed: tuple[str, ...]
    risk: str | None
    types: Mapping[str, RootType] = field(default_factory=dict)
    """Of columns that are not plain numbers."""

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns that are read; the others are only passed on."""
        return tuple(dict.fromkeys([self.id_column, *self.columns.values(), *self.identifiers]))

    def output(self, schema: Schema) -> Schema:
        """The schema of the table that comes out."""
        types = dict.fromkeys([*self.columns.values(), *self.computed], pa.float64())
        types |= {name: arrow_type(kind) for name, kind in self.types.items()}
        types |= dict.fromkeys(self.identifiers, pa.large_string())
        if self.risk is not None:
            types[self.risk] = pa.dictionary(pa.int8(), pa.string())
        fields = [
            pa.field(field.name, types.pop(field.name)) if field.name in types else field
            for field in schema
        ]
        fields += [pa.field(name, kind) for name, kind in types.items()]
        made = {*self.columns.values(), *self.computed, *self.identifiers, self.risk}
        return pa.schema(fields, metadata=_metadata(schema.metadata, made))


def lay_out(
    template: Template,
    names: Iterable[str],
    *,
    id_column: str,
    columns: Mapping[str, str] | None = None,
    identifiers: Mapping[str, Kind] | None = None,
) -> Layout:
    """The layout of a table with these columns, checked against the template."""
    there = list(names)
    if len(set(there)) < len(there):
        raise NameTakenError(next(name for name in there if there.count(name) > 1))
    graph = Graph.of(template)
    for root in columns or {}:
        if root not in graph.roots:
            raise UnknownNameError("root", root, graph.roots)
    chosen = {root: (columns or {}).get(root, str(root)) for root in graph.roots}
    missing = tuple(root for root, column in chosen.items() if column not in there)
    if missing:
        raise PrivateValueError("the table has no column for", missing)
    for column in (id_column, *(identifiers or {})):
        if column not in there:
            raise UnknownNameError("column", column, tuple(there))
        if column in chosen.values() or column in graph:
            raise NameTakenError(column)
    for kind in (identifiers or {}).values():
        if kind not in get_args(Kind):
            known = ", ".join(get_args(Kind))
            raise IdentifierError(f"there is no such kind of identifier; there is {known}")
    computed = tuple(node.name for node in graph.order if node.formula is not None)
    risk = f"{template.target.name}_risk" if "risk" in graph else "risk"
    layout = Layout(
        id_column=id_column,
        columns=chosen,
        identifiers=dict(identifiers or {}),
        computed=computed,
        risk=risk if template.risk else None,
        types={
            name: kind
            for name, kind in (
                *((column, template.roots[root].type) for root, column in chosen.items()),
                *((name, template.type_of(name)) for name in computed),
            )
            if not kind.plain
        },
    )
    _check_undeclared(template, layout, there)
    return layout


def _check_undeclared(template: Template, layout: Layout, there: Iterable[str]) -> None:
    """Refuse a column that passes unread and is called like a root."""
    placed = {*layout.needed, *layout.computed, layout.risk}
    called = {
        alias.casefold(): root.name
        for root in template.roots.values()
        for alias in (root.name, *root.aliases)
    }
    for name in there:
        root = called.get(name.strip().casefold())
        if name not in placed and root is not None:
            raise PrivateValueError(
                f"column {name[:64]!r} would pass as it is, but is called like a root; drop it or "
                "declare it as the column of",
                (root,),
            )


def _metadata(
    metadata: dict[bytes, bytes] | None, made: set[str | None]
) -> dict[bytes, bytes] | None:
    """What pandas wrote about its columns, without those that are not what they were."""
    if not metadata or b"pandas" not in metadata:
        return metadata
    content = json.loads(metadata[b"pandas"])
    kept = [entry for entry in content.get("columns", []) if entry.get("field_name") not in made]
    content["columns"] = kept
    return cast("dict[bytes, bytes]", {**metadata, b"pandas": json.dumps(content).encode()})
