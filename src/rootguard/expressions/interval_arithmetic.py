"""Arithmetic on intervals, rounded outwards.

Each operation takes intervals and returns one that holds every result of the same operation in
floating point on numbers of those intervals, wherever that has a value; None if it has one
nowhere. An end point is moved one float outwards (several for logarithms, exponentials and
powers, which are not correctly rounded), except where the result is known to be exact. An end of
0 times an unbounded end is 0: every member of an interval is a real number.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

_EXACT_BELOW: Final = 2.0**53
# SVML, which NumPy may use, promises 4 units in the last place; the C library about 1.
_LOOSE: Final = 8.0 * 2.0**-52


@dataclass(frozen=True, slots=True)
class Interval:
    """All numbers from `lower` to `upper`, either of which may be infinite."""

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise ValueError("an interval's lower end must not be above its upper end, nor NaN")

    def __contains__(self, number: float) -> bool:
        return self.lower <= number <= self.upper

    @property
    def single(self) -> bool:
        """Whether there is one number in it."""
        return self.lower == self.upper


ZERO: Final = Interval(0.0, 0.0)
ONE: Final = Interval(1.0, 1.0)
UNSURE: Final = Interval(0.0, 1.0)
WHOLE: Final = Interval(-math.inf, math.inf)


def hull(intervals: Iterable[Interval]) -> Interval:
    """The smallest interval around some intervals."""
    several = tuple(intervals)
    return Interval(min(i.lower for i in several), max(i.upper for i in several))


def negate(x: Interval) -> Interval:
    """-x, exactly."""
    return Interval(-x.upper, -x.lower)


def add(x: Interval, y: Interval) -> Interval:
    """The sum x + y."""
    return Interval(_sum(x.lower, y.lower, -math.inf), _sum(x.upper, y.upper, math.inf))


def multiply(x: Interval, y: Interval) -> Interval:
    """The product x * y, treating the two as unrelated."""
    corners = [(a, b) for a in (x.lower, x.upper) for b in (y.lower, y.upper)]
    return Interval(
        min(_product(a, b, -math.inf) for a, b in corners),
        max(_product(a, b, math.inf) for a, b in corners),
    )


def divide(x: Interval, y: Interval) -> Interval | None:
    """The quotient x / y where y is not 0; unbounded if y comes near 0, None if y is 0 only."""
    if y == ZERO:
        return None
    if x == ZERO:
        return ZERO
    if y.lower < 0.0 < y.upper:
        return WHOLE
    corners = [(a, b) for a in (x.lower, x.upper) for b in (y.lower, y.upper)]
    side = 1.0 if y.upper > 0.0 else -1.0
    return Interval(
        min(_quotient(a, b, side, -math.inf) for a, b in corners),
        max(_quotient(a, b, side, math.inf) for a, b in corners),
    )


def square_root(x: Interval) -> Interval | None:
    """The square root of the part of x that is not negative."""
    if x.upper < 0.0:
        return None
    lower, upper = math.sqrt(max(x.lower, 0.0)), math.sqrt(x.upper)
    if not (lower.is_integer() and lower * lower == x.lower):
        lower = max(0.0, math.nextafter(lower, -math.inf))
    if not (upper.is_integer() and upper * upper == x.upper):
        upper = math.nextafter(upper, math.inf)
    return Interval(lower, upper)


def logarithm(x: Interval, function: Callable[[float], float]) -> Interval | None:
    """The logarithm of the positive part of x; minus infinity is its end if x reaches 0."""
    if x.upper <= 0.0:
        return None
    lower = _down(function(x.lower)) if x.lower > 0.0 else -math.inf
    return Interval(lower, _up(function(x.upper)))


def exponential(x: Interval) -> Interval:
    """The exponential e ** x."""
    return Interval(max(0.0, _down(_exp(x.lower))), _up(_exp(x.upper)))


def magnitude(x: Interval) -> Interval:
    """|x|, exactly."""
    lowest = max(x.lower, -x.upper, 0.0)
    return Interval(lowest, max(-x.lower, x.upper))


def step(x: Interval, function: Callable[[float], int]) -> Interval:
    """floor, ceil or round of x: rising, so the ends decide."""
    lower, upper = (
        float(function(end)) if math.isfinite(end) else end for end in (x.lower, x.upper)
    )
    return Interval(lower, upper)


def fixed_power(x: Interval, exponent: float) -> Interval | None:
    """The power x ** exponent for one exponent, tight for even and odd whole exponents."""
    if exponent == 0.0:
        return ONE
    if exponent == 1.0:
        return x
    if exponent.is_integer():
        if exponent < 0.0:
            raised = fixed_power(x, -exponent)
            return None if raised is None else _loosen(divide(ONE, raised))
        base = magnitude(x) if exponent % 2.0 == 0.0 else x
        if exponent == 2.0:
            return _square(base)
        return Interval(_end(base.lower, exponent, _down), _end(base.upper, exponent, _up))
    if x.upper < 0.0 or (exponent < 0.0 and x.upper == 0.0):
        return None
    ends = max(x.lower, 0.0), x.upper
    lower, upper = ends if exponent > 0.0 else ends[::-1]
    return Interval(max(0.0, _end(lower, exponent, _down)), _end(upper, exponent, _up))


def varied_power(x: Interval, exponents: Interval) -> Interval | None:
    """The power x ** y for y in an interval: any y where x > 0, whole y where x < 0.

    x ** y is monotone in each of x > 0 and y, so its extremes are at the corners.
    """
    pieces: list[Interval] = []
    if x.upper >= 0.0:
        pieces.append(_corners(Interval(max(x.lower, 0.0), x.upper), exponents))
    if x.lower < 0.0 and math.floor(exponents.upper) >= exponents.lower:
        largest = _corners(magnitude(Interval(x.lower, min(x.upper, 0.0))), exponents)
        pieces += [largest, negate(largest)]
    return hull(pieces) if pieces else None


def _corners(x: Interval, exponents: Interval) -> Interval:
    corners = [(a, b) for a in (x.lower, x.upper) for b in (exponents.lower, exponents.upper)]
    return Interval(
        max(0.0, min(_end(a, b, _down) for a, b in corners)),
        max(_end(a, b, _up) for a, b in corners),
    )


def _square(x: Interval) -> Interval:
    return Interval(
        max(0.0, _product(x.lower, x.lower, -math.inf)), _product(x.upper, x.upper, math.inf)
    )


def _end(base: float, exponent: float, away: Callable[[float], float]) -> float:
    if base == 0.0:
        return 0.0 if exponent > 0.0 else 1.0 if exponent == 0.0 else math.inf
    try:
        return away(math.pow(base, exponent))
    except OverflowError:
        return away(math.inf if base > 0.0 or exponent % 2.0 == 0.0 else -math.inf)


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _sum(a: float, b: float, towards: float) -> float:
    if a == 0.0 or b == 0.0:
        return a + b
    total = a + b
    if math.isnan(total):  # opposite infinities: nothing is known at this end
        return towards
    return total if _whole(a, b, total) else math.nextafter(total, towards)


def _product(a: float, b: float, towards: float) -> float:
    if a == 0.0 or b == 0.0:
        return 0.0
    product = a * b
    if _whole(a, b, product) or 1.0 in (a, b) or -1.0 in (a, b):
        return product
    return math.nextafter(product, towards)


def _quotient(a: float, b: float, side: float, towards: float) -> float:
    """The quotient a / b, where b = 0 stands for the numbers beside 0 on the given side."""
    if a == 0.0 or (math.isinf(a) and math.isinf(b)):
        return 0.0
    if b == 0.0:
        return math.copysign(math.inf, a * side)
    quotient = a / b
    if _whole(a, b, quotient) and quotient * b == a:
        return quotient
    return math.nextafter(quotient, towards)


def _whole(*numbers: float) -> bool:
    return all(n.is_integer() and abs(n) < _EXACT_BELOW for n in numbers)


def _loosen(x: Interval | None) -> Interval | None:
    return None if x is None else Interval(_down(x.lower), _up(x.upper))


def _down(x: float) -> float:
    return math.nextafter(x - abs(x) * _LOOSE if math.isfinite(x) else x, -math.inf)


def _up(x: float) -> float:
    return math.nextafter(x + abs(x) * _LOOSE if math.isfinite(x) else x, math.inf)
