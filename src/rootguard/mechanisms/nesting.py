"""Levels of one value that nest: each lower level is its higher neighbour, noised further.

Two independent draws at epsilons low and high cost low + high. Levels of the geometric mechanism
need not be independent: with b = exp(-epsilon) its pmf is the matrix G = K D, where K(i,j) is
b**|i-j| and D holds 1/(1+b) at the two ends of the grid, (1-b)/(1+b) inside. K has a tridiagonal
inverse (Kac, Murdock and Szegő 1953), so that for low < high

    G_low = G_high T,   T = D_high^-1 M D_low,   M = K_high^-1 K_low

in closed form, and T is a stochastic matrix (Gupte and Sundararajan 2010). Write h and l for the
two b's, p = 1 - h/l and q = 1 - h l. Up to the factor 1 - h**2, M(i,j) off the diagonal is
l**|i-j| p q in an inner row and l**|i-j| p in an end row; on it, (1-h)**2 + 2 h (1-l) and q.

Drawn along T, in either direction, a set of levels costs its highest epsilon, whoever pools it.
Randomised response nests too (`answers` says why). With k answers its T is randomised response
again: 1 off the diagonal and, on it, 1 + (1 - l)(1 + (k - 1) h) / (l - h), up to a factor.
Not for the other mechanisms, and not for levels that were drawn independently.

Draws are exact, as in `exact`: whole random words against decimal sums of certified precision.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from itertools import accumulate, pairwise, repeat
from operator import mul

import numpy as np
from numpy.typing import ArrayLike

from rootguard.errors import BudgetError, DomainError
from rootguard.mechanisms.base import MAX_EPSILON, Floats
from rootguard.mechanisms.exact import exponential_of
from rootguard.rng import WORD_BITS, Randomness
from rootguard.values import MechanismName

NESTING: tuple[MechanismName, ...] = ("geometric", "randomised-response")
"""The mechanisms whose levels nest."""

Weights = Callable[[], list[Decimal]]
"""Computes the weight of every grid point in the decimal context of the caller."""

_SPARE_DIGITS = 4
"""Digits not relied on, beside those that count the grid's points. A weight is a product of two
powers and a few constants. Per grid step a power takes in the rounding of its exponent, up to
MAX_EPSILON times half a unit of the last digit, and that of a multiplication; so the end of a cell
is off by fewer than 1100 * size parts in 10**digits, and the total it is compared with likewise."""


def degrade(
    index: int,
    *,
    high: Fraction,
    low: Fraction,
    size: int,
    source: Randomness,
    law: MechanismName = "geometric",
) -> int:
    """A lower level from the lowest one there is: one draw of T(index, .).

    Post-processing: it needs no private value and costs nothing. A level between two existing ones
    comes from `between`: degraded as if the lower one were not there, it would still cost nothing
    to holders of the higher level, but holders of the two below could pool them.
    """
    _check(low, high, size=size, indices=(index,))

    def weights() -> list[Decimal]:
        if law != "geometric":
            return _again(index, high, low, size)
        row = _row(index, high, low, size)
        _weigh_ends(row, 1 / _one_minus_exponential(low))
        return row

    return _draw(weights, size, source)


def refine(
    truth: int,
    index: int,
    *,
    low: Fraction,
    high: Fraction,
    size: int,
    source: Randomness,
    law: MechanismName = "geometric",
) -> int:
    """A higher level over the highest one there is, which then is a degraded form of it.

    P(z | truth, index) is proportional to G_high(truth, z) T(z, index), in which D_high cancels:
    the levels together cost high. Levels below `index` were made from it or it from them along T,
    so that given `index` they say nothing more, and the law of z is the same with them.
    """
    _check(low, high, size=size, indices=(truth, index))

    def weights() -> list[Decimal]:
        if law != "geometric":
            answered = [exponential_of(high)] * size
            answered[truth] = Decimal(1)
            return list(map(mul, answered, _again(index, high, low, size)))
        likelihood = _decay(truth, high, size)
        return list(map(mul, likelihood, _column(index, high, low, size)))

    return _draw(weights, size, source)


def between(
    upper_index: int,
    lower_index: int,
    *,
    high: Fraction,
    middle: Fraction,
    low: Fraction,
    size: int,
    source: Randomness,
    law: MechanismName = "geometric",
) -> int:
    """A level between two neighbouring ones, from these alone: no private value, no cost.

    P(z | upper, lower) is proportional to T_high,middle(upper, z) T_middle,low(z, lower), in which
    D_middle cancels.
    """
    _check(low, middle, high, size=size, indices=(upper_index, lower_index))

    def weights() -> list[Decimal]:
        if law != "geometric":
            above = _again(upper_index, high, middle, size)
            return list(map(mul, above, _again(lower_index, middle, low, size)))
        row = _row(upper_index, high, middle, size)
        return list(map(mul, row, _column(lower_index, middle, low, size)))

    return _draw(weights, size, source)


def kernel(high: Fraction, low: Fraction, size: int) -> Floats:
    """The stochastic matrix T in floats: for tests, audits and adversaries, never for a release."""
    points = np.arange(size)
    matrix: Floats = np.exp(
        log_kernel(points[:, None], points[None, :], high=high, low=low, size=size)
    )
    return matrix


def log_kernel(
    inputs: ArrayLike, outputs: ArrayLike, *, high: Fraction, low: Fraction, size: int
) -> Floats:
    """The log of T(input, output), exact up to float rounding; the arguments broadcast."""
    _check(low, high, size=size)
    inputs, outputs = np.asarray(inputs, np.int64), np.asarray(outputs, np.int64)
    gap = np.abs(outputs - inputs)
    ends = 0, size - 1
    log_p, log_q, log_h, log_l = (
        math.log(-math.expm1(-float(rate))) for rate in (high - low, high + low, high, low)
    )
    ratio = math.exp(-float(high))
    # The normaliser D_high^-1 / (1 - h**2) is 1/(1-h) in an end row, 1/(1-h)**2 inside.
    inner_stay = math.log1p(2 * ratio * math.exp(log_l - 2 * log_h))
    at_end = np.where(gap == 0, log_q, log_p - float(low) * gap) - log_h
    inside = np.where(gap == 0, inner_stay, log_p + log_q - 2 * log_h - float(low) * gap)
    rows = np.where(np.isin(inputs, ends), at_end, inside)
    return rows + np.where(np.isin(outputs, ends), 0, log_l) - math.log1p(math.exp(-float(low)))


def answer_kernel(high: Fraction, low: Fraction, size: int) -> Floats:
    """`kernel` for randomised response."""
    _check(low, high, size=size)
    matrix = np.array([[float(w) for w in _again(i, high, low, size)] for i in range(size)])
    rows: Floats = matrix / matrix.sum(axis=1, keepdims=True)
    return rows


def _check(*rising: Fraction, size: int, indices: tuple[int, ...] = ()) -> None:
    if not 0 < min(rising) <= max(rising) <= MAX_EPSILON:
        raise BudgetError(f"a level's epsilon must lie above 0 and at most {MAX_EPSILON}")
    if not all(lower < upper for lower, upper in pairwise(rising)):
        raise BudgetError("levels nest only when each lower one has a smaller epsilon")
    if size < 2 or not all(0 <= index < size for index in indices):
        raise DomainError("a level's index must lie on a grid of at least two points")


def _draw(weights: Weights, size: int, source: Randomness) -> int:
    """A grid point with probability exactly proportional to its weight.

    The points own consecutive cells of [0, 1). The words drawn so far place a uniform number in an
    interval; more are drawn, and the cells computed to more digits, until one cell must hold it.
    """
    drawn = words = 0
    while True:
        words += 1
        drawn = drawn << WORD_BITS | source.words(1)[0]
        lost = _SPARE_DIGITS + len(str(size))
        digits = 10 * words + 2 + lost
        with localcontext(Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)):
            ends = list(accumulate(weights()))
            unit = ends.pop() / (1 << WORD_BITS * words)
            slack = Decimal(10) ** (lost - digits)
            first = bisect_right(ends, drawn * unit * (1 - slack))
            last = bisect_left(ends, (drawn + 1) * unit * (1 + slack))
        if first == last:
            return first


def _row(index: int, high: Fraction, low: Fraction, size: int) -> list[Decimal]:
    """M(index, .) up to a factor: powers of l, and more at the index itself."""
    p, q = _one_minus_exponential(high - low), _one_minus_exponential(high + low)
    weights = _decay(index, low, size)
    if index in (0, size - 1):
        weights[index] = q / p
    else:
        stay = _one_minus_exponential(high) ** 2
        stay += 2 * exponential_of(high) * _one_minus_exponential(low)
        weights[index] = stay / (p * q)
    return weights


def _again(index: int, high: Fraction, low: Fraction, size: int) -> list[Decimal]:
    """T(index, .) of randomised response up to a factor; T is symmetric."""
    # l - h, without cancellation.
    apart = exponential_of(low) * _one_minus_exponential(high - low)
    weights = [Decimal(1)] * size
    others = 1 + (size - 1) * exponential_of(high)
    weights[index] += _one_minus_exponential(low) * others / apart
    return weights


def _column(index: int, high: Fraction, low: Fraction, size: int) -> list[Decimal]:
    """M(., index) up to a factor: the row of the same index, but end rows lack the factor q."""
    weights = _row(index, high, low, size)
    _weigh_ends(weights, 1 / _one_minus_exponential(high + low))
    return weights


def _decay(index: int, epsilon: Fraction, size: int) -> list[Decimal]:
    """K(index, .): powers of b, as running products, which no exponent is too large for."""
    steps = repeat(exponential_of(epsilon), size - 1)
    powers = list(accumulate(steps, mul, initial=Decimal(1)))
    return powers[index:0:-1] + powers[: size - index]


def _weigh_ends(weights: list[Decimal], factor: Decimal) -> None:
    weights[0] *= factor
    weights[-1] *= factor


def _one_minus_exponential(rate: Fraction) -> Decimal:
    """1 - exp(-rate), with as many digits added as a small rate cancels."""
    with localcontext() as context:
        context.prec += 2 + max(0, len(str(rate.denominator)) - len(str(rate.numerator)))
        difference = 1 - exponential_of(rate)
    return +difference
