"""The geometric family: three mechanisms that add whole noise with a geometric tail, and clamp.

From a whole t, P(|Z| >= 1) = c and P(|Z| >= k) = c * b**(k-1), with b = exp(-epsilon). The members
differ in c alone, that is, in how often they add nothing.
"""

import math
from abc import abstractmethod
from decimal import Decimal, localcontext
from functools import cached_property

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from rootguard.mechanisms.base import Floats, Indices, Mechanism, blocks
from rootguard.mechanisms.exact import (
    ExactSampler,
    GuideTableSampler,
    Rows,
    Streams,
    digits_for,
    exponential_of,
    geometric_rows,
    wide_context,
)
from rootguard.rng import Randomness


def signs(size: int, generator: np.random.Generator) -> NDArray[np.int8]:
    """Fair signs, -1 or +1, one random bit each."""
    bits = np.frombuffer(generator.bytes((size + 7) // 8), dtype=np.uint8)
    fair = np.unpackbits(bits, count=size).view(np.int8)
    fair *= 2
    fair -= 1
    return fair


class Additive(Mechanism):
    """t + Z clamped to the grid, Z a symmetric integer with a geometric tail.

    Clamping happens at whole numbers, so it commutes with rounding: a continuous noise that is
    clamped and then rounded is a member too.
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
        """How many binary digits of the distance are drawn first, and how many then."""
        digits = digits_for(self._eps, self.size)
        low = digits // 2 if digits > 4 else 0
        return low, digits - low

    @cached_property
    def _sampler(self) -> ExactSampler:
        low, high = self._digits

        def rows(precision: int) -> Rows:
            with localcontext(wide_context(precision)):
                root = exponential_of(self.epsilon / 2)
                ratio = int(root * root * (1 << precision))
                up = int(self.tail(root) * (1 << precision)) // 2
            return [[2 * up, up], *geometric_rows(ratio, precision, low, high, carry=True)]

        return ExactSampler(rows)

    def draw(self, index: int, source: Randomness) -> int:
        """One secure draw: no noise, down or up, and how far."""
        drawn = self._sampler.draw(source)
        direction = drawn[0]
        if not direction:
            return index
        low, high = self._digits
        distance = 1 + (drawn[-1] << low)
        if low:
            distance += drawn[1]
        if drawn[-1] == 1 << high:  # a carry: more of the distance follows, while it matters
            while distance < self.size:
                more = self._sampler.draw_last(source)
                distance += more << low
                if more < 1 << high:
                    break
        if direction == 1:
            return max(index - distance, 0)
        return min(index + distance, self.size - 1)

    @cached_property
    def _row_sampler(self) -> GuideTableSampler:
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

        return GuideTableSampler(rows)

    def draw_rows(self, indices: Indices, streams: Streams) -> Indices:
        """A row's first word says how far, its second up or down: Z is symmetric."""
        far, side = streams.words(0)
        noise = self._row_sampler.draw(far, lambda row: streams.source(row, 0))
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

    def likelihoods(self, outputs: Indices) -> Floats:
        """The same from two tables: it depends on the gap, and on whether the output is an end."""
        if self._by_gap is None:
            return super().likelihoods(outputs)
        inside, at_end = self._by_gap
        last = self.size - 1
        rows: Floats = sliding_window_view(inside, self.size)[last - outputs]
        rows[outputs == 0] = at_end
        rows[outputs == last] = at_end[::-1]
        return rows

    @cached_property
    def _by_gap(self) -> tuple[Floats, Floats] | None:
        """Likelihoods by gap: of an output inside, falling to either side; of one at an end.

        None if a gap is likelier than no noise: a row's likeliest input would be another.
        """
        inside = self.log_pmf(np.arange(1, self.size), 1)
        at_end = self.log_pmf(np.arange(self.size), 0)
        if inside.max() > inside[0]:  # at an end c / 2 is never more than 1 - c / 2
            return None
        falling = np.append(np.exp(inside - inside[0]), 0)  # no inner point is so far from an end
        return np.concatenate([falling[:0:-1], falling]), np.exp(at_end - at_end[0])

    def error(self, index: int) -> float:
        """E|s - t| = sum over k of P(|s - t| >= k), a geometric sum on either side."""
        log_c, _ = self.log_tail(self._eps)
        below = -math.expm1(-self._eps * index)
        above = -math.expm1(-self._eps * (self.size - 1 - index))
        return math.exp(log_c) / 2 * (below + above) / -math.expm1(-self._eps)

    def tight_epsilon(self) -> float:
        """By enumeration on at most six points.

        The pmf depends only on the gap and on whether the output is an end point, and changes by
        exactly epsilon from one gap to the next beyond the first: six points show every case.
        """
        return self._tight

    @cached_property
    def _tight(self) -> float:
        # Once for a mechanism, which never changes: every draw under a plan asks for it.
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


class Geometric(Additive):
    """The clamped two-sided geometric mechanism: RootGuard's default.

    P(Z = z) = (1-b)/(1+b) * b**|z|, so c = P(Z != 0) = 2b/(1+b). On a line it is optimal for every
    prior and every monotone loss after post-processing (Ghosh, Roughgarden and Sundararajan 2009),
    and a lower level can be produced from a higher one (Gupte and Sundararajan 2010).
    """

    name = "geometric"

    @staticmethod
    def tail(root: Decimal) -> Decimal:
        """The share that is noised at all: c = 2b / (1 + b)."""
        ratio = root * root
        return 2 * ratio / (1 + ratio)

    @staticmethod
    def log_tail(eps: float) -> tuple[float, float]:
        """The rest, 1 - c, is tanh(eps / 2)."""
        return math.log(2) - eps - math.log1p(math.exp(-eps)), math.log(math.tanh(eps / 2))

    @staticmethod
    def spread_curve(eps: float) -> tuple[float, float, float]:
        """A = 1 / sinh(eps)."""
        sinh, cosh = math.sinh(eps), math.cosh(eps)
        return 1 / sinh, -cosh / sinh**2, (1 + cosh**2) / sinh**3


class Laplace(Additive):
    """The paper's bounded Laplace: t + Lap(1/epsilon), clamped to the grid, rounded to it.

    From a whole t the rounded noise has P(|Z| >= k) = P(|Lap| >= k - 1/2) =
    exp(-epsilon (k - 1/2)), so c = exp(-epsilon / 2).
    """

    name = "laplace"

    @staticmethod
    def tail(root: Decimal) -> Decimal:
        """The share that is noised at all: c = exp(-eps / 2)."""
        return root

    @staticmethod
    def log_tail(eps: float) -> tuple[float, float]:
        """The rest, 1 - c, is the Laplace mass within half a step."""
        return -eps / 2, math.log(-math.expm1(-eps / 2))

    @staticmethod
    def spread_curve(eps: float) -> tuple[float, float, float]:
        """A = 1 / (2 sinh(eps / 2))."""
        sinh, cosh = math.sinh(eps / 2), math.cosh(eps / 2)
        return 1 / (2 * sinh), -cosh / (4 * sinh**2), (1 + cosh**2) / (8 * sinh**3)


class Staircase(Additive):
    """The staircase mechanism (Geng and Viswanath 2015) for sensitivity 1, clamped and rounded.

    With gamma = 1/(1 + exp(eps/2)) the size of the noise has density a(g) on [g, g + gamma) and
    b * a(g) on [g + gamma, g + 1), where a(g) falls by b from step to step. Write r = exp(-eps/2),
    so b = r**2 and gamma = r/(1+r). The share of a step's mass that lies within half a step of its
    inner edge is then 1 - r/2, and the rounded noise from a whole t has

        c = P(|Z| >= 1) = 1 - (1 - b)(1 - r/2) = r/2 + r**2 - r**3/2.

    It is not epsilon-private on inputs between grid points; inputs are snapped before they reach
    it.
    """

    name = "staircase"

    @staticmethod
    def tail(root: Decimal) -> Decimal:
        """The share that is noised at all: c = r/2 + r**2 - r**3/2."""
        return root * (1 + root * (2 - root)) / 2

    @staticmethod
    def log_tail(eps: float) -> tuple[float, float]:
        """The rest, 1 - c, is (1 - b)(1 - r/2)."""
        root = math.exp(-eps / 2)
        log_c = -eps / 2 + math.log((1 + root * (2 - root)) / 2)
        return log_c, math.log(-math.expm1(-eps)) + math.log1p(-root / 2)

    @staticmethod
    def spread_curve(eps: float) -> tuple[float, float, float]:
        """A = b/(1-b) + r/2."""
        grown, half = math.expm1(eps), math.exp(-eps / 2) / 2
        full = grown + 1
        return (
            1 / grown + half,
            -full / grown**2 - half / 2,
            full * (full + 1) / grown**3 + half / 4,
        )
