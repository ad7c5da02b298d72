"""Arrow columns as NumPy sees them: numbers with what is missing and wrong, and ids as bytes.

Nothing here raises for what a cell holds: Arrow's own errors quote the cell.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rootguard.batch.arrow import Array, pa, pc
from rootguard.mechanisms.base import Floats

Mask = NDArray[np.bool_]

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


def _read(column: Array) -> Numbers:
    """Numbers that are written as text, in the one way that a column of numbers is written."""
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


def _mask(array: Array) -> Mask:
    found: Mask = array.to_numpy(zero_copy_only=False).astype(np.bool_)
    return found


def _floats(array: Array) -> Floats:
    filled = array.fill_null(0.0) if array.null_count else array
    values: Floats = filled.to_numpy(zero_copy_only=False)
    return values
