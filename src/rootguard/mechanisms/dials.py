"""A wheel with a face for every grid step, read for many people at once and still exactly.

The probabilities are those of `wheels`, to the last bit. Each person brings 64 bits of U where a
wheel takes 32. The upper 16 of them name a cell of a guide; unless a threshold lies in that cell
the face is read off there, else the 64 bits are searched for among the thresholds. Where they are
equal to one, which happens once in 2**64 draws per threshold, more of that person's bits decide.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rootguard.mechanisms.exact import Rows, certain_floors
from rootguard.rng import WORD_BITS, Randomness

Words = NDArray[np.uint64]
Faces = NDArray[np.int64]

_CELL_BITS = 16
_SHIFT = np.uint64(64 - _CELL_BITS)


class Streams(Protocol):
    """A stream of uniform bits for each of many rows. Asked twice, it says the same twice."""

    def words(self, block: int, rows: Faces | None = None) -> tuple[Words, Words]:
        """Two 64-bit words for each row (of those given): its block of that number."""
        ...

    def source(self, row: int, block: int) -> Randomness:
        """More bits of one row, beside all its blocks: what a tie in that block needs."""
        ...


class Dial:
    """One wheel, given by the probabilities of showing face k or more."""

    __slots__ = ("_compute", "_guide", "_rising")

    def __init__(self, compute: Callable[[int], Rows]) -> None:
        """`compute(precision)` gives one row, within the slack that `wheels` states."""
        self._compute = compute
        self._rising = np.array(certain_floors(compute, words=2)[0], dtype=np.uint64)
        edges = np.arange(1 << _CELL_BITS, dtype=np.uint64) << _SHIFT
        below = np.searchsorted(self._rising, edges)
        after = np.append(below[1:], len(self._rising))
        self._guide = np.where(below == after, below, -1)

    def read(self, words: Words, source: Callable[[int], Randomness]) -> Faces:
        """The face that each row's word shows; `source` gives the rest of a row's bits."""
        faces: Faces = self._guide[(words >> _SHIFT).view(np.int64)]
        unread = np.flatnonzero(faces < 0)
        if unread.size:
            sought = words[unread]
            places = np.searchsorted(self._rising, sought)
            faces[unread] = places
            last = len(self._rising) - 1
            tied = self._rising[np.minimum(places, last)] == sought
            for row in unread[tied].tolist():
                faces[row] = self._settle(int(words[row]), source(row))
        return faces

    def _settle(self, word: int, source: Randomness) -> int:
        row, words = [int(edge) for edge in self._rising], 2
        while word in row:
            words += 1
            word = word << WORD_BITS | source.words(1)[0]
            row = list(certain_floors(self._compute, words=words)[0])
        return bisect_left(row, word)
