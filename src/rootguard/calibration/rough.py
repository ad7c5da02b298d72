"""Where a weighted median surely is, by weights in single precision.

The points of a person are weighed in order to find one of them, and nearly always that one is found
by rougher weights as well. They take half the memory, which is what weighing many people waits for.
A bound of their error is carried along: whoever's median might be another point if every weight
were wrong by that much is left, to be weighed in double precision. So the result is the same to the
bit, and only the time is another.

This module knows no template and no release: it is given rows of numbers and gives places.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rootguard.mechanisms.base import Floats, Indices

Rough = NDArray[np.float32]
_Number = TypeVar("_Number", np.float32, np.int64)

BLOCK = 192
"""People who are weighed together: few enough for the CPU's cache."""
STRETCH = 32
"""Weights that are summed together on the way to the median."""
_PRODUCTS = 1 << 16
"""Products of scores and ties in one matrix product: few enough that no library makes threads for
it, which would wait for each other longer than the product takes."""
_ROUNDING = 2.0**-24
"""What one operation in single precision may be off by, relatively."""
_LARGEST = float(np.finfo(np.float32).max)
_SMALLEST = 1e-30
"""Far above the smallest number in single precision: no product of doubts is rounded to zero."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RoughRows:
    """One root's rows of points, one row for each noised index that was met."""

    scores: Rough
    doubt: Rough
    """Of the own points, then of the shared ones; infinite where it is too large."""
    reach: Floats
    """The largest magnitude of each row's scores."""
    least: float
    """No doubt is smaller."""


class RoughWeights:
    """Weighs the points of many people.

    A weight is one over the sum of rarity and the product of the roots' doubts; rarity is one over
    (1 - `untied`) exp(-q) + `untied`, with q = `constant` + s' `ties` s / 2 for a point's scores s.
    What works on one block after the other works in the same memory: new memory costs more than
    what is done in it. So an instance serves one thread, and one call.
    """

    def __init__(
        self,
        tables: Sequence[RoughRows],
        ties: Floats,
        constant: float,
        untied: float,
        shared_rarity: Floats,
        shared_targets: Floats,
    ) -> None:
        self._tables, self._constant, self._untied = tables, float(constant), untied
        roots, own = len(tables), tables[0].scores.shape[1]
        points = own + shared_targets.size
        # Below the diagonal the two halves of a tie together, on it half of one.
        self._ties = np.tril(ties, -1) + np.diag(np.diag(ties) / 2)
        self._pulls = (-self._ties).astype(np.float32)
        self._least = float(np.prod([min(1.0, table.least) for table in tables]))
        self._shared_rarity = shared_rarity.astype(np.float32)
        self._own, self._points = own, points
        self._bits = (1 << (points - 1).bit_length()) - 1
        self._places = np.arange(points)
        self._shared_keys = (shared_targets.view(np.int64) & ~self._bits) | self._places[own:]
        self._starts = np.arange(0, points, STRETCH)
        self._scores = np.empty((roots, BLOCK * own), dtype=np.float32)
        self._rarity = np.empty(BLOCK * own, dtype=np.float32)
        self._at_once = max(1, _PRODUCTS // roots**2)
        self._pull = np.empty((roots, self._at_once), dtype=np.float32)
        self._doubt, self._factor = np.empty((2, BLOCK * points), dtype=np.float32)
        self._keys = np.empty(BLOCK * points, dtype=np.int64)

    def error(self, rows: Sequence[Indices]) -> Floats:
        """How far, relatively, a sum of each person's weights may be off.

        Every number may be off by one rounding when it is written in single precision, and by one
        more for each operation that it goes through; what q is off by, its exponential is off by
        relatively. The sum takes as many as a stretch is long.
        """
        roots = len(self._tables)
        reach = np.array([t.reach.take(row) for t, row in zip(self._tables, rows, strict=True)])
        largest = abs(self._constant) + (np.abs(self._ties) @ reach * reach).sum(axis=0)
        # A product of doubts goes through 2 k - 1 of them, a term of q through 2 k + 6 at the most;
        # NumPy's exponential is right to 3, and 6 more operations make a weight of it.
        error: Floats = _ROUNDING * ((2 * roots + 6) * largest + 2 * roots + 9 + STRETCH + 8)
        return error

    def places(self, rows: Sequence[Indices], targets: Floats, error: Floats) -> Indices:
        """Where each person's weighted median is, given the own points' targets; -1 if unsure.

        `rows` says which row of each root's table is whose, and `error` is what `error` says of
        them. Of at most `BLOCK` people, and no target may be NaN.
        """
        people = len(targets)
        person = np.arange(people)
        first = person * self._points
        with np.errstate(all="ignore"):  # what is infinite or no number is not sure
            weights = self._weights(rows, people)
            order = self._order(targets)
            order += first[:, None]
            sorted_weights = _part(self._factor, people, self._points)
            weights.ravel().take(order, out=sorted_weights, mode="clip")
            middle, sure = self._middle(sorted_weights, error)
        return np.where(sure, order[person, middle] - first, -1)

    def _weights(self, rows: Sequence[Indices], people: int) -> Rough:
        doubt, factor = (_part(each, people, self._points) for each in (self._doubt, self._factor))
        self._tables[0].doubt.take(rows[0], axis=0, out=doubt, mode="clip")
        for table, row in zip(self._tables[1:], rows[1:], strict=True):
            doubt *= table.doubt.take(row, axis=0, out=factor, mode="clip")
        doubt[:, : self._own] += self._own_rarity(rows, people)
        doubt[:, self._own :] += self._shared_rarity
        np.divide(1, doubt, out=doubt)
        return doubt

    def _own_rarity(self, rows: Sequence[Indices], people: int) -> Rough:
        count = people * self._own
        for table, row, scores in zip(self._tables, rows, self._scores, strict=True):
            part = _part(scores, people, self._own)
            table.scores.take(row, axis=0, out=part, mode="clip")
        for start in range(0, count, self._at_once):
            some = slice(start, min(start + self._at_once, count))
            scores = self._scores[:, some]
            pull = np.matmul(self._pulls, scores, out=self._pull[:, : scores.shape[1]])
            np.einsum("ij,ij->j", pull, scores, out=self._rarity[some])
        rarity = _part(self._rarity, people, self._own)
        rarity -= self._constant
        np.exp(rarity, out=rarity)
        rarity *= 1 - self._untied
        rarity += self._untied
        np.divide(1, rarity, out=rarity)
        return rarity

    def _order(self, targets: Floats) -> Indices:
        """The places of each person's points by their targets: `release._order` of all of them."""
        keys = _part(self._keys, len(targets), self._points)
        own = keys[:, : self._own]
        np.bitwise_and(targets.view(np.int64), ~self._bits, out=own)
        own |= self._places[: self._own]
        keys[:, self._own :] = self._shared_keys
        keys.view(np.float64).sort(axis=1)
        keys &= self._bits
        return keys

    def _middle(self, weights: Rough, error: Floats) -> tuple[Indices, NDArray[np.bool_]]:
        """Which weight comes to half of all, and whether it does so for any weights this near."""
        person = np.arange(len(weights))
        sums = np.zeros((len(weights), self._starts.size + 1))
        np.cumsum(np.add.reduceat(weights, self._starts, axis=1), axis=1, out=sums[:, 1:])
        total = sums[:, -1]
        half = total / 2
        stretch = (sums[:, 1:-1] < half[:, None]).sum(axis=1)
        passed = np.empty((len(weights), STRETCH + 1))
        passed[:, 0] = sums[person, stretch]
        passed[:, 1:] = weights.reshape(len(weights), -1, STRETCH)[person, stretch]
        np.cumsum(passed, axis=1, out=passed)
        inside = (passed[:, 1:-1] < half[:, None]).sum(axis=1)
        # Twice: the half may be off, and what comes before it. A weight that is too small for
        # single precision counts as nothing, and so may one whose product of doubts was too large
        # on the way; that is what all points together may lack.
        margin = 2 * (error * total + self._points / (_LARGEST * self._least))
        below, up_to = passed[person, inside], passed[person, inside + 1]
        sure = (below <= half - margin) & (up_to >= half + margin) & (self._least > _SMALLEST)
        return stretch * STRETCH + inside, sure


def _part(array: NDArray[_Number], people: int, points: int) -> NDArray[_Number]:
    """The first rows of a block's memory."""
    return array[: people * points].reshape(people, points)
