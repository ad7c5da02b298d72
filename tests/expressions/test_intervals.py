"""The arithmetic of intervals: outward by a float where rounding can be, else exact."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootguard.expressions.intervals import Interval, add, divide, multiply, negate

NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-6)


def point(x: float) -> Interval:
    return Interval(x, x)


def close(found: Interval | None, exact: Fraction) -> bool:
    """Whether an interval holds a number and nothing two floats beside it."""
    assert found is not None
    near = float(exact)
    low, high = (math.nextafter(math.nextafter(near, end), end) for end in (-math.inf, math.inf))
    return low <= found.lower <= exact <= found.upper <= high


@given(NUMBERS, NUMBERS)
def test_sums_and_products_hold_the_exact_result_and_little_else(a: float, b: float) -> None:
    assert close(add(point(a), point(b)), Fraction(a) + Fraction(b))
    assert close(multiply(point(a), point(b)), Fraction(a) * Fraction(b))


@given(NUMBERS, NUMBERS.filter(bool))
def test_quotients_hold_the_exact_result_and_little_else(a: float, b: float) -> None:
    assert close(divide(point(a), point(b)), Fraction(a) / Fraction(b))


@pytest.mark.parametrize("x", [0.1, -0.3, 1e300, 7.0])
def test_what_needs_no_rounding_gets_none(x: float) -> None:
    assert multiply(point(x), point(1.0)) == point(x)
    assert multiply(point(-1.0), point(x)) == point(-x) == negate(point(x))
    assert multiply(point(x), point(0.0)) == point(0.0)
    assert add(point(x), point(0.0)) == add(point(0.0), point(x)) == point(x)
    assert divide(point(0.0), point(x)) == point(0.0)


def test_whole_numbers_are_computed_exactly_as_long_as_floats_can() -> None:
    assert add(point(3.0), point(-5.0)) == point(-2.0)
    assert multiply(point(3.0), point(-5.0)) == point(-15.0)
    assert divide(point(15.0), point(-5.0)) == point(-3.0)
    third = divide(point(1.0), point(3.0))
    assert third is not None
    assert third.lower < third.upper
    beyond = add(point(2.0**53), point(1.0))
    assert beyond.lower <= 2**53 + 1 <= beyond.upper
