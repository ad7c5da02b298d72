"""The paper's discrete exponential mechanism: P(s) proportional to exp(-eps |t - s| / 2).

Unlike the additive family it is normalised over the grid, not clamped to it. The factor 2 pays for
normalisers that differ between neighbours, which they do near the ends only: there the nominal
epsilon is nearly used up, in the middle half of it is paid for nothing.
"""

import math
from collections.abc import Callable
from decimal import localcontext
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike

from rootguard.mechanisms.base import Floats, Indices, Mechanism, blocks
from rootguard.mechanisms.exact import (
    ExactSampler,
    GuideTableSampler,
    Rows,
    Streams,
    exponential_of,
    geometric_rows,
    wide_context,
)
from rootguard.rng import Randomness


class Exponential(Mechanism):
    """The exponential mechanism with distance as its score, over the whole grid."""

    name = "exponential"

    @property
    def _rate(self) -> float:
        """Decay per grid step, theta = epsilon / 2."""
        return self._eps / 2

    @cached_property
    def _sampler(self) -> ExactSampler:
        return ExactSampler(lambda precision: self._rows(precision, self._digits // 2))

    @cached_property
    def _row_sampler(self) -> GuideTableSampler:
        return GuideTableSampler(lambda precision: self._rows(precision, 0))

    @property
    def _digits(self) -> int:
        return (self.size - 1).bit_length()

    def _rows(self, precision: int, low: int) -> Rows:
        """A distance modulo the power of two above the size, its low digits by themselves."""
        with localcontext(wide_context(precision)):
            ratio = int(exponential_of(self.epsilon / 2) * (1 << precision))
        return geometric_rows(ratio, precision, low, self._digits - low, carry=False)

    def draw(self, index: int, source: Randomness) -> int:
        """Draw a distance and a side until the point lies on the grid.

        The distance is geometric modulo the power of two above the grid's size, which keeps the
        proportions exp(-theta d) and makes at least one try in four succeed, however flat the
        distribution. Distance zero counts on one side only. Neither
        distribution depends on the true index.
        """
        last = self.size - 1
        low = last.bit_length() // 2
        while True:
            drawn = self._sampler.draw(source)
            distance = (drawn[-1] << low) + (drawn[0] if low else 0)
            if source.words(1)[0] & 1:
                if index + distance <= last:
                    return index + distance
            elif 0 < distance <= index:
                return index - distance

    def draw_rows(self, indices: Indices, streams: Streams) -> Indices:
        """As `draw`, a block of the row's stream for every try, for the rows not settled yet."""
        last = self.size - 1
        drawn = np.empty_like(indices)
        open_rows, attempt = np.arange(indices.size), 0
        while open_rows.size:
            far, side = streams.words(attempt, open_rows if attempt else None)
            source = self._more(streams, open_rows, attempt)
            distance = self._row_sampler.draw(far, source)
            up = (side & np.uint64(1)).astype(np.bool_)
            start = indices[open_rows]
            point = start + np.where(up, distance, -distance)
            settled = np.where(up, point <= last, (distance > 0) & (point >= 0))
            drawn[open_rows[settled]] = point[settled]
            open_rows = open_rows[~settled]
            attempt += 1
        return drawn

    @staticmethod
    def _more(streams: Streams, rows: Indices, attempt: int) -> Callable[[int], Randomness]:
        return lambda place: streams.source(int(rows[place]), attempt)

    def draw_many(self, indices: Indices, generator: np.random.Generator) -> Indices:
        """Vectorised: choose the side by its mass, then a geometric distance modulo its length.

        The remainder of a geometric variable modulo n is a geometric variable cut off at n.
        """
        flat = indices.ravel()
        drawn = np.empty_like(flat)
        points = np.arange(self.size)
        below = self._mass(points) * math.exp(-self._rate)
        odds_below = below / (below + self._mass(self.size - points))
        for block in blocks(flat.size):
            part = flat[block]
            distance = generator.standard_exponential(part.size)
            distance *= 1 / self._rate
            left = generator.random(part.size) < odds_below[part]
            length = np.where(left, part, self.size - part)
            steps = distance.astype(np.int64) % length
            drawn[block] = part + np.where(left, -1 - steps, steps)
        return drawn.reshape(indices.shape)

    def _mass(self, count: ArrayLike) -> Floats:
        """Sum of exp(-theta d) over d = 0 .. count-1."""
        mass: Floats = np.expm1(-self._rate * np.asarray(count, np.float64))
        return mass / math.expm1(-self._rate)

    def _log_total(self, inputs: ArrayLike) -> Floats:
        """The log of the normaliser at each input: everything at or above it, and below it."""
        inputs = np.asarray(inputs, np.int64)
        above, below = self._mass(self.size - inputs), self._mass(inputs)
        total: Floats = np.log(above + below * math.exp(-self._rate))
        return total

    def log_pmf(self, inputs: ArrayLike, outputs: ArrayLike) -> Floats:
        """Distance times rate, less the log of the normaliser."""
        inputs, outputs = np.asarray(inputs, np.int64), np.asarray(outputs, np.int64)
        scores: Floats = -self._rate * np.abs(outputs - inputs)
        return scores - self._log_total(inputs)

    def error(self, index: int) -> float:
        """Mean distance under the pmf."""
        gaps = np.abs(np.arange(self.size) - index)
        return float(gaps @ np.exp(self.log_pmf(index, np.arange(self.size))))

    def tight_epsilon(self) -> float:
        """Rate plus the largest change of the log-normaliser between neighbours."""
        return self._tight

    @cached_property
    def _tight(self) -> float:
        totals = self._log_total(np.arange(self.size))
        return self._rate + float(np.abs(np.diff(totals)).max())

    @staticmethod
    def error_curve(epsilon: float, size: int) -> tuple[float, float, float]:
        """Cumulants of the distance at the centre.

        The distance has weights proportional to exp(-theta d), so its mean changes with theta by
        minus its variance, and its variance by minus its third cumulant.
        """
        gaps, powers = _centre_gaps(size)
        zeroth, first, second, third = (powers @ np.exp(gaps * (-epsilon / 2))).tolist()
        mean, square, cube = first / zeroth, second / zeroth, third / zeroth
        variance = square - mean**2
        skew = cube - 3 * mean * square + 2 * mean**3
        return mean, -variance / 2, skew / 4


@lru_cache(maxsize=16)
def _centre_gaps(size: int) -> tuple[Floats, Floats]:
    """Distances from the centre, and their powers 0 to 3 times how often each occurs."""
    below = (size - 1) // 2
    above = size - 1 - below
    gaps = np.arange(above + 1.0)
    often = 1.0 + ((gaps > 0) & (gaps <= below))
    return gaps, np.ascontiguousarray((np.vander(gaps, 4, increasing=True) * often[:, None]).T)
