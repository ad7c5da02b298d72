"""What every mechanism offers, and the family that three of the four belong to.

Index space: inputs and outputs are whole numbers 0 .. m-1, the points of a root's grid. Epsilon is
per grid step: neighbouring inputs t and t+1 may change the log-probability of any output by at most
epsilon, and inputs d steps apart by at most d * epsilon.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rootguard.errors import BudgetError
from rootguard.mechanisms.dials import Dial, Streams
from rootguard.mechanisms.exact import (
    Rows,
    Wheels,
    digits_for,
    exponential_of,
    geometric_rows,
    wide_context,
)
from rootguard.rng import Randomness
from rootguard.values import MICRO, MechanismName

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

MIN_EPSILON = Fraction(1, MICRO)
MAX_EPSILON = 100


class Mechanism(ABC):
    """A noise distribution at one epsilon on one grid: sampler, pmf, price and error together."""

    name: ClassVar[MechanismName]

    def __init__(self, epsilon: Fraction, size: int) -> None:
        if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
            raise BudgetError(f"a root's epsilon must lie between a millionth and {MAX_EPSILON}")
        self.epsilon = epsilon
        self.size = size
        self._eps = float(epsilon)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(epsilon={self._eps:g}, size={self.size})"

    @property
    def centre(self) -> int:
        """The grid's middle point (the lower of two)."""
        return (self.size - 1) // 2

    @abstractmethod
    def draw(self, index: int, source: Randomness) -> int:
        """One secure draw for a true index: exact, in whole numbers."""

    @abstractmethod
    def draw_many(self, indices: Indices, generator: np.random.Generator) -> Indices:
        """One draw per index from a seeded generator: for experiments, never for a release."""

    @abstractmethod
    def draw_rows(self, indices: Indices, streams: Streams) -> Indices:
        """One secure draw per index, each from its own row's stream: exact, in whole numbers."""

    @abstractmethod
    def log_pmf(self, inputs: ArrayLike, outputs: ArrayLike) -> Floats:
        """The log of P(output | input), exact up to float rounding; the arguments broadcast."""

    @abstractmethod
    def error(self, index: int) -> float:
        """Expected absolute error, in grid steps, when the true index is `index`."""

    @abstractmethod
    def worst_error(self) -> float:
        """Expected absolute error, in grid steps, at the position where it is largest."""

    @abstractmethod
    def tight_epsilon(self) -> float:
        """The largest log-ratio between neighbouring inputs: the epsilon that really holds."""

    @staticmethod
    @abstractmethod
    def error_curve(epsilon: float, size: int) -> tuple[float, float, float]:
        """Expected error at the grid centre, with its first and second derivative in epsilon."""


_BLOCK = 1 << 14
"""Vectorised draws work on this many at a time, so that each pass stays in the CPU's cache."""


def blocks(size: int) -> Iterator[slice]:
    """Slices that cover 0 .. size in order."""
    return (slice(start, min(start + _BLOCK, size)) for start in range(0, size, _BLOCK))


def signs(size: int, generator: np.random.Generator) -> NDArray[np.int8]:
    """Fair signs, -1 or +1, one random bit each."""
    bits = np.frombuffer(generator.bytes((size + 7) // 8), dtype=np.uint8)
    fair = np.unpackbits(bits, count=size).view(np.int8)
    fair *= 2
    fair -= 1
    return fair


class Additive(Mechanism):
    """t + Z clamped to the grid, Z a symmetric integer with a geometric tail.

    P(|Z| >= k) = c * b**(k-1) for k >= 1, with b = exp(-epsilon). The members differ in c alone,
    that is, in how often they add nothing. Clamping happens at whole numbers, so it commutes with
    rounding: a continuous noise that is clamped and then rounded is a member too.
    """

    @staticmethod
    @abstractmethod
    def tail(root: Decimal) -> Decimal:
        """The constant c, from root = exp(-epsilon / 2)."""

    @staticmethod
    @abstractmethod
    def log_tail(eps: float) -> tuple[float, float]:
        """The logs of c and 1 - c, without cancellation at small or large epsilon."""

    @cached_property
    def _digits(self) -> tuple[int, int]:
        """How many digits of the distance the first and the second wheel spin."""
        digits = digits_for(self._eps, self.size)
        low = digits // 2 if digits > 4 else 0
        return low, digits - low

    @cached_property
    def _wheels(self) -> Wheels:
        low, high = self._digits

        def rows(precision: int) -> Rows:
            with localcontext(wide_context(precision)):
                root = exponential_of(self.epsilon / 2)
                ratio = int(root * root * (1 << precision))
                up = int(self.tail(root) * (1 << precision)) // 2
            return [[2 * up, up], *geometric_rows(ratio, precision, low, high, carry=True)]

        return Wheels(rows)

    def draw(self, index: int, source: Randomness) -> int:
        """One secure draw. The wheels say: no noise, down or up, and how far."""
        faces = self._wheels.spin(source)
        direction = faces[0]
        if not direction:
            return index
        low, high = self._digits
        distance = 1 + (faces[-1] << low)
        if low:
            distance += faces[1]
        if faces[-1] == 1 << high:  # a carry: more of the distance follows, while it matters
            while distance < self.size:
                more = self._wheels.spin_last(source)
                distance += more << low
                if more < 1 << high:
                    break
        if direction == 1:
            return max(index - distance, 0)
        return min(index + distance, self.size - 1)

    @cached_property
    def _dial(self) -> Dial:
        """P(|Z| >= k) for every k that matters: no distance beyond the grid's length does."""

        def rows(precision: int) -> Rows:
            with localcontext(wide_context(precision)):
                root = exponential_of(self.epsilon / 2)
                ratio = int(root * root * (1 << precision))
                power = int(self.tail(root) * (1 << precision))
            powers = []
            for _ in range(self.size - 1):
                powers.append(power)
                power = power * ratio >> precision
            return [powers]

        return Dial(rows)

    def draw_rows(self, indices: Indices, streams: Streams) -> Indices:
        """A row's first word says how far, its second up or down: Z is symmetric."""
        far, side = streams.words(0)
        noise = self._dial.read(far, lambda row: streams.source(row, 0))
        down = (side & np.uint64(1)).view(np.int64)
        noise ^= -down  # minus one is all ones: together with the next line, a change of sign
        noise += down
        noise += indices
        return np.clip(noise, 0, self.size - 1, out=noise)

    def draw_many(self, indices: Indices, generator: np.random.Generator) -> Indices:
        """Vectorised: with E ~ Exp(1), |Z| >= k exactly when E >= -log c + (k-1) * epsilon."""
        log_c, _ = self.log_tail(self._eps)
        flat = indices.ravel()
        drawn = np.empty_like(flat)
        for block in blocks(flat.size):
            part = flat[block]
            noise = generator.standard_exponential(part.size)
            noise += log_c + self._eps
            noise *= 1 / self._eps
            np.floor(noise, out=noise)
            np.maximum(noise, 0, out=noise)
            noise *= signs(part.size, generator)
            noise += part
            np.clip(noise, 0, self.size - 1, out=noise)
            drawn[block] = noise
        return drawn.reshape(indices.shape)

    def log_pmf(self, inputs: ArrayLike, outputs: ArrayLike) -> Floats:
        """Geometric tails inside; each end point gathers the whole tail beyond it."""
        inputs, outputs = np.asarray(inputs, np.int64), np.asarray(outputs, np.int64)
        log_c, log_rest = self.log_tail(self._eps)
        gap = np.abs(outputs - inputs)
        decay = log_c - math.log(2) - self._eps * (gap - 1.0)
        inside = np.where(gap == 0, log_rest, decay + math.log(-math.expm1(-self._eps)))
        at_end = np.where(gap == 0, math.log1p(-math.exp(log_c) / 2), decay)
        return np.where((outputs == 0) | (outputs == self.size - 1), at_end, inside)

    def error(self, index: int) -> float:
        """E|s - t| = sum over k of P(|s - t| >= k), a geometric sum on either side."""
        log_c, _ = self.log_tail(self._eps)
        below = -math.expm1(-self._eps * index)
        above = -math.expm1(-self._eps * (self.size - 1 - index))
        return math.exp(log_c) / 2 * (below + above) / -math.expm1(-self._eps)

    def worst_error(self) -> float:
        """Clamping only helps, most near the ends: the worst position is the centre."""
        return self.error(self.centre)

    def tight_epsilon(self) -> float:
        """By enumeration on at most six points.

        The pmf depends only on the gap and on whether the output is an end point, and changes by
        exactly epsilon from one gap to the next beyond the first: six points show every case.
        """
        small = type(self)(self.epsilon, min(self.size, 6))
        points = np.arange(small.size)
        table = small.log_pmf(points[:, None], points[None, :])
        return float(np.abs(np.diff(table, axis=0)).max())

    @staticmethod
    @abstractmethod
    def spread_curve(eps: float) -> tuple[float, float, float]:
        """A(eps) = c / (1 - b), the expected |Z| without clamping, with two derivatives."""

    @classmethod
    def error_curve(cls, epsilon: float, size: int) -> tuple[float, float, float]:
        """E = A * (2 - b**below - b**above) / 2 by the product rule."""
        below = (size - 1) // 2
        above = size - 1 - below
        low, high = math.exp(-epsilon * below) / 2, math.exp(-epsilon * above) / 2
        kept = 1 - low - high
        kept_1 = below * low + above * high
        kept_2 = -below * below * low - above * above * high
        spread, spread_1, spread_2 = cls.spread_curve(epsilon)
        return (
            spread * kept,
            spread_1 * kept + spread * kept_1,
            spread_2 * kept + 2 * spread_1 * kept_1 + spread * kept_2,
        )
