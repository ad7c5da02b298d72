"""Who was in a table, and with which values: keyed marks by which a draw is known again.

An entry is a person's tag and one mark for each root: 64 and 32 bits of a keyed function (see
`mechanisms.streams`), 0 for a value that was missing. Without the store's secret it says nothing.
Entries stand in the order of their tags on 256 shelves, by the first byte of the tag, so that one
person is found on one shelf and a large table is put there one shelf at a time.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rootguard.mechanisms.exact import Words
from rootguard.mechanisms.keyed import Prf

SHELVES = 256
_SHIFT = np.uint64(56)

Entries = NDArray[Any]
"""Structured: `tag`, and `marks` with one column for each root."""


def table_prf(fingerprint_key: bytes) -> Prf:
    """The keyed functions of a store's tables."""
    return Prf(Prf(fingerprint_key).key_for("store"))


def entry_type(roots: int) -> np.dtype[Any]:
    """How an entry is written."""
    return np.dtype([("tag", "<u8"), ("marks", "<u4", (roots,))])


def shelf_of(tag: int) -> int:
    """The shelf of a person's entries."""
    return int(tag) >> 56


def by_shelf(entries: Entries) -> tuple[Entries, NDArray[np.int64]]:
    """Entries in the order of their shelves, and where each shelf begins and the last one ends."""
    shelves = (entries["tag"] >> _SHIFT).astype(np.uint8)
    sizes = np.bincount(shelves, minlength=SHELVES)
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return entries.take(np.argsort(shelves, kind="stable")), bounds


def read(shelf: bytes, roots: int) -> Entries:
    """The entries of a shelf."""
    return np.frombuffer(shelf, dtype=entry_type(roots))


def of_person(shelf: bytes, roots: int, tag: int) -> NDArray[np.uint32]:
    """The marks of one person: a row for each set of values, a column for each root."""
    entries = read(shelf, roots)
    begin, end = _span(entries, tag)
    found: NDArray[np.uint32] = entries["marks"][begin:end]
    return found


def without_person(shelf: bytes, roots: int, tag: int) -> bytes | None:
    """The shelf without a person's entries; None if there are none."""
    entries = read(shelf, roots)
    begin, end = _span(entries, tag)
    return None if begin == end else np.delete(entries, slice(begin, end)).tobytes()


def _span(entries: Entries, tag: int) -> tuple[int, int]:
    sought = np.uint64(tag)
    tags = entries["tag"]
    return int(np.searchsorted(tags, sought)), int(np.searchsorted(tags, sought, side="right"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Count:
    """Of each root: how many values of how many people there are, and the most of one person."""

    values: NDArray[np.int64]
    most: NDArray[np.int64]


def count(entries: Entries) -> Count:
    """Count different values of each root; entries are in order and all different."""
    tags, marks = entries["tag"], entries["marks"]
    lone = _lone(tags)
    single = (marks if lone.all() else marks[lone]) != 0
    values = single.sum(axis=0, dtype=np.int64)
    most = single.any(axis=0).astype(np.int64) if len(single) else np.zeros_like(values)
    for root in range(marks.shape[1]):
        given = ~lone & (marks[:, root] != 0)
        if given.any():
            pairs = np.empty(int(given.sum()), dtype=[("tag", "<u8"), ("mark", "<u4")])
            pairs["tag"], pairs["mark"] = tags[given], marks[given, root]
            _, each = np.unique(np.unique(pairs)["tag"], return_counts=True)
            values[root] += each.sum()
            most[root] = max(most[root], each.max())
    return Count(values=values, most=most)


def merge(shelf: bytes, new: Entries) -> Entries:
    """The entries of a shelf and new ones in order, each once."""
    old = np.frombuffer(shelf, dtype=new.dtype)
    entries: Entries = np.concatenate([old, new])
    entries = entries.take(np.argsort(entries["tag"]))  # much faster than an index
    lone = _lone(entries["tag"])
    if lone.all():
        return entries
    same = entries[1:] == entries[:-1]  # most repeats stand side by side
    entries = entries[np.concatenate([[True], ~same])]
    lone = _lone(entries["tag"])
    if lone.all():
        return entries
    rest = np.unique(entries[~lone])
    entries = np.concatenate([entries[lone], rest])
    return entries.take(np.argsort(entries["tag"], kind="stable"))


def _lone(tags: Words) -> NDArray[np.bool_]:
    """Where a tag differs from both its neighbours."""
    apart = np.ones(len(tags) + 1, dtype=np.bool_)
    apart[1:-1] = tags[1:] != tags[:-1]
    found: NDArray[np.bool_] = apart[1:] & apart[:-1]
    return found
