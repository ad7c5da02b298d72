"""Mechanisms for answers that do not lie on a line: yes or no, and words.

`RandomisedResponse` (Warner 1965; for k answers Kairouz, Oh and Viswanath 2016) keeps an answer
with the odds e**epsilon against each of the others. Any two answers differ alike, so epsilon is the
price between any two of them. `DistanceMechanism` is the exponential mechanism for a given table of
distances: epsilon is per unit of that distance. `PublicValue` is no noise, for what its owner does
not hide; it has no epsilon, and nothing is promised about it.

Levels of randomised response nest as those of geometric noise do (see `nesting`): its matrix is
lam * I + (1 - lam) * J / k with lam = (1 - b) / (1 + (k - 1) b), b = exp(-epsilon), and the product
of two such matrices is the one with the product of their lams. So a lower level is a higher one
answered at random once more. Levels of a table of distances do not nest.
"""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike

from rootguard.errors import DomainError
from rootguard.mechanisms.base import Floats, Indices, Mechanism
from rootguard.mechanisms.exact import (
    ExactSampler,
    GuideTableSampler,
    Rows,
    Streams,
    exponential_of,
    wide_context,
)
from rootguard.rng import Randomness
from rootguard.values import MAX_TABLE, Distances


class RandomisedResponse(Mechanism):
    """The true answer with probability 1 / (1 + (k-1) b), each other one with b times that."""

    name = "randomised-response"

    def _thresholds(self, precision: int) -> Rows:
        """Of "how many answers further on": P(j or more) = (k - j) b / (1 + (k - 1) b)."""
        with localcontext(wide_context(precision)):
            ratio = exponential_of(self.epsilon)
            one = ratio / (1 + (self.size - 1) * ratio) * (1 << precision)
            return [[int(one * (self.size - j)) for j in range(1, self.size)]]

    @cached_property
    def _sampler(self) -> ExactSampler:
        return ExactSampler(self._thresholds)

    @cached_property
    def _row_sampler(self) -> GuideTableSampler:
        return GuideTableSampler(self._thresholds)

    def draw(self, index: int, source: Randomness) -> int:
        """One secure draw: how many answers further on, in a circle."""
        return (index + self._sampler.draw(source)[0]) % self.size

    def draw_rows(self, indices: Indices, streams: Streams) -> Indices:
        """The same for many rows, by the first word of each."""
        far, _ = streams.words(0)
        moved = self._row_sampler.draw(far, lambda row: streams.source(row, 0))
        return (indices + moved) % self.size

    def draw_many(self, indices: Indices, generator: np.random.Generator) -> Indices:
        """Vectorised: whether it moves, then where to."""
        moves = generator.random(indices.shape) < self.error(0)
        where = generator.integers(1, self.size, indices.shape)
        drawn: Indices = (indices + moves * where) % self.size
        return drawn

    def log_pmf(self, inputs: ArrayLike, outputs: ArrayLike) -> Floats:
        """Two values: on the diagonal, and everywhere else."""
        same = np.equal(np.asarray(inputs, np.int64), np.asarray(outputs, np.int64))
        stay = -math.log1p((self.size - 1) * math.exp(-self._eps))
        return np.where(same, stay, stay - self._eps)

    def error(self, index: int) -> float:  # noqa: ARG002 - the same for every answer
        """The probability of another answer than the true one, which is the same for all."""
        return self.error_curve(self._eps, self.size)[0]

    def tight_epsilon(self) -> float:
        """The log of the ratio of the two values."""
        row = self.log_pmf(0, np.arange(2))
        return float(row[0] - row[1])

    def largest_ratio(self, table: Floats) -> float:
        """Between any two answers, not neighbours alone."""
        return float((table.max(axis=0) - table.min(axis=0)).max())

    @staticmethod
    def error_curve(epsilon: float, size: int) -> tuple[float, float, float]:
        """(k-1) / (e**epsilon + k - 1); bent the other way while e**epsilon is below k - 1."""
        others = size - 1
        small = math.exp(-epsilon)  # never overflows
        total = 1 + others * small
        error = others * small / total
        return error, -error / total, error / total * (1 - others * small) / total


class DistanceMechanism(Mechanism):
    """P(s) proportional to exp(-epsilon d(t, s) / 2): private for any distance that is a metric.

    The factor 2 pays for normalisers that differ between answers.
    """

    name = "distances"

    def __init__(self, epsilon: Fraction, size: int, distances: Distances) -> None:
        super().__init__(epsilon, size)
        if len(distances) != size or size > MAX_TABLE:
            raise DomainError(
                f"a table of distances has a row for each of up to {MAX_TABLE} answers"
            )
        self.distances = distances
        self._gaps = np.array(distances, np.float64)

    @cached_property
    def _samplers(self) -> tuple[ExactSampler, ...]:
        return tuple(ExactSampler(partial(self._thresholds, t)) for t in range(self.size))

    @cached_property
    def _row_samplers(self) -> tuple[GuideTableSampler, ...]:
        return tuple(GuideTableSampler(partial(self._thresholds, t)) for t in range(self.size))

    def _thresholds(self, index: int, precision: int) -> Rows:
        """P(outcome j or later) for each answer but the first."""
        with localcontext(wide_context(precision)):
            weights = [
                exponential_of(self.epsilon * Fraction(str(gap)) / 2)
                for gap in self.distances[index]
            ]
            total = sum(weights, Decimal(0))
            after: list[int] = []
            running = Decimal(0)
            for weight in reversed(weights[1:]):
                running += weight
                after.append(int(running / total * (1 << precision)))
        return [after[::-1]]

    def draw(self, index: int, source: Randomness) -> int:
        """One secure draw from the row of the true answer."""
        return self._samplers[index].draw(source)[0]

    def draw_rows(self, indices: Indices, streams: Streams) -> Indices:
        """The rows of each answer together."""
        far, _ = streams.words(0)
        drawn = np.empty_like(indices)
        for answer in range(self.size):
            rows = np.flatnonzero(indices == answer)
            if rows.size:
                source = self._more(streams, rows)
                drawn[rows] = self._row_samplers[answer].draw(far[rows], source)
        return drawn

    @staticmethod
    def _more(streams: Streams, rows: Indices) -> Callable[[int], Randomness]:
        return lambda place: streams.source(int(rows[place]), 0)

    def draw_many(self, indices: Indices, generator: np.random.Generator) -> Indices:
        """Vectorised, by the sums of each row."""
        below = np.cumsum(np.exp(self._table), axis=1)
        shares = generator.random(indices.shape) * below[:, -1][indices]
        drawn: Indices = (shares[..., None] >= below[indices]).sum(axis=-1)
        return drawn

    @cached_property
    def _table(self) -> Floats:
        scores = -self._eps / 2 * self._gaps
        table: Floats = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        return table

    def log_pmf(self, inputs: ArrayLike, outputs: ArrayLike) -> Floats:
        """Half the distance times epsilon, less the log of the normaliser."""
        table: Floats = self._table[np.asarray(inputs, np.int64), np.asarray(outputs, np.int64)]
        return table

    def error(self, index: int) -> float:
        """The mean distance from the true answer."""
        return float(np.exp(self._table[index]) @ self._gaps[index])

    def tight_epsilon(self) -> float:
        """By enumeration: the table is small."""
        return self.largest_ratio(self._table)

    def largest_ratio(self, table: Floats) -> float:
        """Between any two answers, per unit of their distance."""
        apart = np.abs(table[:, None, :] - table[None, :, :]).max(axis=2)
        off = ~np.eye(self.size, dtype=np.bool_)
        return float((apart[off] / self._gaps[off]).max())

    @staticmethod
    def error_curve(epsilon: float, size: int) -> tuple[float, float, float]:
        """That of answers which all lie 1 apart, at half the epsilon: it knows no table."""
        error, slope, bend = RandomisedResponse.error_curve(epsilon / 2, size)
        return error, slope / 2, bend / 4


class PublicValue(Mechanism):  # it takes what mechanisms take, and needs none of it
    """The value itself."""

    name = "public"

    def __init__(self, size: int) -> None:
        self.epsilon = Fraction(0)
        self.size = size
        self._eps = 0.0

    def draw(self, index: int, source: Randomness) -> int:  # noqa: ARG002
        return index

    def draw_rows(self, indices: Indices, streams: Streams) -> Indices:  # noqa: ARG002
        return indices

    def draw_many(
        self,
        indices: Indices,
        generator: np.random.Generator,  # noqa: ARG002
    ) -> Indices:
        return indices

    def log_pmf(self, inputs: ArrayLike, outputs: ArrayLike) -> Floats:
        """0 on the diagonal; elsewhere it cannot be."""
        same = np.equal(np.asarray(inputs, np.int64), np.asarray(outputs, np.int64))
        return np.where(same, 0.0, -np.inf)

    def error(self, index: int) -> float:  # noqa: ARG002
        return 0.0

    def tight_epsilon(self) -> float:
        return math.inf

    @staticmethod
    def error_curve(epsilon: float, size: int) -> tuple[float, float, float]:  # noqa: ARG004
        return 0.0, 0.0, 0.0
