"""The arithmetic of intervals: outward by a float where rounding can be, else exact."""

import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootguard.errors import FormulaUndefinedError
from rootguard.expressions import bounds, derivative_bounds, parse
from rootguard.expressions.intervals import (
    Interval,
    add,
    divide,
    exponential,
    fixed_power,
    logarithm,
    magnitude,
    multiply,
    negate,
    square_root,
    step,
    varied_power,
)

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
    assert add(point(2.0**53 - 2), point(1.0)) == point(2.0**53 - 1)


INF = math.inf


def span(lower: float, upper: float) -> Interval:
    return Interval(float(lower), float(upper))


@pytest.mark.parametrize(
    ("operation", "given", "low", "high"),
    [
        (add, (span(-INF, -INF), span(INF, INF)), -INF, INF),
        (multiply, (span(0, 2), span(-INF, 3)), -INF, 6),
        (divide, (span(1, 2), span(0, 4)), 0.25, INF),
        (divide, (span(1, 2), span(0, 0.5)), 2, INF),
        (divide, (span(1, 2), span(-4, 0)), -INF, -0.25),
        (divide, (span(-2, -1), span(0, 4)), -INF, -0.25),
        (divide, (span(-2, -1), span(-4, 0)), 0.25, INF),
        (divide, (span(1, 2), span(-4, 4)), -INF, INF),
        (divide, (span(1, INF), span(1, INF)), 0, INF),
        (divide, (span(-INF, -1), span(-INF, -1)), 0, INF),
        (divide, (span(-1, 0), span(0, 4)), -INF, 0),
        (divide, (span(1, 1), span(0, 0)), None, None),
        (square_root, (span(-2, -1),), None, None),
        (square_root, (span(-1, 0),), 0, 0),
        (square_root, (span(-1, 4),), 0, 2),
        (square_root, (span(4, 9),), 2, 3),
        (logarithm, (span(-1, 0), math.log), None, None),
        (logarithm, (span(0, 1), math.log), -INF, 0),
        (logarithm, (span(-1, 1), math.log2), -INF, 0),
        (logarithm, (span(1, 8), math.log2), 0, 3),
        (exponential, (span(-1000, 0),), 0, 1),
        (exponential, (span(0, 1000),), 1, INF),
        (magnitude, (span(-3, 2),), 0, 3),
        (magnitude, (span(-3, -2),), 2, 3),
        (magnitude, (span(2, 3),), 2, 3),
        (step, (span(-INF, 2.5), math.floor), -INF, 2),
        (step, (span(1.5, INF), math.ceil), 2, INF),
        (fixed_power, (span(-3, 2), 0.0), 1, 1),
        (fixed_power, (span(-3, 2), 1.0), -3, 2),
        (fixed_power, (span(-3, 2), 2.0), 0, 9),
        (fixed_power, (span(-3, 2), 3.0), -27, 8),
        (fixed_power, (span(-3, 2), 4.0), 0, 81),
        (fixed_power, (span(2, 4), -1.0), 0.25, 0.5),
        (fixed_power, (span(-2, -1), -2.0), 0.25, 1),
        (fixed_power, (span(0, 0), -1.0), None, None),
        (fixed_power, (span(-4, -1), 0.5), None, None),
        (fixed_power, (span(-4, 0), 0.5), 0, 0),
        (fixed_power, (span(-4, 0), -0.5), None, None),
        (fixed_power, (span(-4, 4), 1.5), 0, 8),
        (fixed_power, (span(0, 4), -0.5), 0.5, INF),
        (fixed_power, (span(1, 1e300), 3.0), 1, INF),
        (fixed_power, (span(-1e300, 1), 3.0), -INF, 1),
        (varied_power, (span(0, 2), span(1, 2)), 0, 4),
        (varied_power, (span(2, 3), span(-1, 2)), 1 / 3, 9),
        (varied_power, (span(0, 2), span(-1, 1)), 0, INF),
        (varied_power, (span(0, 0.5), span(0, 1)), 0, 1),
        (varied_power, (span(-2, -1), span(0.2, 0.8)), None, None),
        (varied_power, (span(-2, -1), span(1, 1.5)), -(2**1.5), 2**1.5),
        (varied_power, (span(-2, 0), span(0.2, 0.8)), 0, 0),
        (varied_power, (span(-2, 1), span(2, 2.5)), -(2**2.5), 2**2.5),
        (varied_power, (span(-0.5, 5), span(1, 2)), -0.5, 25),
        (varied_power, (span(-2, 1), span(-1, 1)), -INF, INF),
        (varied_power, (span(0, 0), span(0, 1)), 0, 1),
        (fixed_power, (span(-1e300, 1), 4.0), 0, INF),
    ],
)
def test_intervals_end_where_calculus_says(
    operation: Callable[..., Interval | None],
    given: tuple[object, ...],
    low: float | None,
    high: float | None,
) -> None:
    assert_ends(operation(*given), low, high)


def assert_ends(found: Interval | None, low: float | None, high: float | None) -> None:
    """The ends, to within some last bits, on the outer side."""
    if low is None or high is None:
        assert found is None
        return
    assert found is not None
    assert found.lower <= low
    assert found.upper >= high
    assert math.isclose(found.lower, low, rel_tol=1e-14, abs_tol=1e-300)
    assert math.isclose(found.upper, high, rel_tol=1e-14, abs_tol=1e-300)


@pytest.mark.parametrize(
    ("text", "lower", "upper", "low", "high"),
    [
        ("x < 1", 1, 2, 0, 0),
        ("x < 1", 0, 1, 0, 1),
        ("x <= 1", 0, 1, 1, 1),
        ("x <= 1", 1, 2, 0, 1),
        ("x > 1", 0, 1, 0, 0),
        ("x >= 1", 1, 2, 1, 1),
        ("x == 1", 1, 1, 1, 1),
        ("x == 1", 0, 1, 0, 1),
        ("x == 1", 1, 2, 0, 1),
        ("x == 1", 2, 3, 0, 0),
        ("x == 1", -1, 0, 0, 0),
        ("x != 1", 2, 3, 1, 1),
        ("not x", 1, 2, 0, 0),
        ("not x", 0, 0, 1, 1),
        ("x and x", 1, 2, 1, 1),
        ("x and 1 / 0", 0, 1, 0, 0),
        ("x and 1 / 0", 0, 0, 0, 0),
        ("-x", 1, 2, -2, -1),
        ("x or 1 / 0", 1, 2, 1, 1),
        ("not x", 0, 1, 0, 1),
        ("1 == x", 0, 2, 0, 1),
        ("x == x", 0, 1, 0, 1),
        ("x or 0", -1, 1, 0, 1),
        ("5 if x else 7", 0, 0, 7, 7),
        ("5 if x else 7", 1, 2, 5, 5),
        ("5 if x else 7", 0, 1, 5, 7),
        ("5 if x else 1 / 0", 0, 1, 5, 5),
        ("clip(x, 1, 3)", 0, 2, 1, 2),
        ("clip(x, 1, 3)", 2, 9, 2, 3),
    ],
)
def test_a_box_that_ends_at_the_decision_is_decided_as_its_end_is(
    text: str, lower: float, upper: float, low: float, high: float
) -> None:
    assert bounds(parse(text), {"x": span(lower, upper)}) == Interval(low, high)


def test_what_is_never_negative_has_no_end_below_zero() -> None:
    assert square_root(span(-1, 4)) == span(0, 2)
    assert exponential(span(-1000, 0)).lower == 0
    assert fixed_power(span(-1, 1e-200), 2.0) == Interval(0.0, 1.0)
    tiny = span(1e-300, 1)  # whose powers are rounded to 0
    for power in (fixed_power(tiny, 2.0), fixed_power(tiny, 1.5), varied_power(tiny, span(2, 3))):
        assert power is not None
        assert power.lower == 0


def test_both_of_two_conditions_have_no_truth_where_the_second_has_no_value() -> None:
    with pytest.raises(FormulaUndefinedError):
        bounds(parse("x and 1 / 0"), {"x": span(1, 2)})


def test_exponents_at_the_limit_have_a_power() -> None:
    for box in (span(128, 200), span(-200, -128)):
        assert_ends(bounds(parse("1 ** x"), {"x": box}), 1, 1)


@pytest.mark.parametrize(("lower", "upper"), [(128.5, 200), (-200, -128.5)])
def test_exponents_beyond_the_limit_have_no_power(lower: float, upper: float) -> None:
    with pytest.raises(FormulaUndefinedError):
        bounds(parse("1 ** x"), {"x": span(lower, upper)})


@pytest.mark.parametrize(
    ("text", "lower", "upper", "low", "high"),
    [
        ("max(x, 5)", 0, 5, 0, 1),
        ("max(x, 5)", 5, 9, 0, 1),
        ("max(x, 5)", 0, 4, 0, 0),
        ("min(x, 5)", 5, 9, 0, 1),
        ("min(x, 5)", 0, 5, 0, 1),
        ("min(x, 5)", 6, 9, 0, 0),
        ("abs(x)", 0, 1, 0, 1),
        ("abs(x)", -1, 0, -1, 0),
        ("abs(x)", -2, -1, -1, -1),
        ("sqrt(x)", 0, 4, 0.25, INF),
        ("log(x)", -1, 4, 0.25, INF),
        ("log2(x)", 1, 4, 0.25 / math.log(2), 1 / math.log(2)),
        ("log10(x)", 1, 4, 0.25 / math.log(10), 1 / math.log(10)),
        ("x**0", -1, 4, 0, 0),
        ("x**1", -1, 4, 1, 1),
        ("x**3", -1, 2, 0, 12),
        ("x**-1", 1, 2, -1, -0.25),
        ("1 / x", 1, 2, -1, -0.25),
        ("2**x", 0, 1, math.log(2), 2 * math.log(2)),
        ("(-2)**x", 0, 1, -INF, INF),
        ("0**x", 1, 2, -INF, INF),
        ("floor(x)", 0.25, 0.75, 0, 0),
        ("floor(x)", 0.25, 1, -INF, INF),
        ("x < 3", 0, 2, 0, 0),
        ("x < 3", 0, 4, -INF, INF),
        ("-x", 0, 4, -1, -1),
        ("2 - x", 0, 4, -1, -1),
        ("x / 2", 0, 4, 0.5, 0.5),
    ],
)
def test_slopes_end_where_calculus_says(
    text: str, lower: float, upper: float, low: float, high: float
) -> None:
    _, partials = derivative_bounds(parse(text), {"x": span(lower, upper)})
    assert_ends(partials["x"], low, high)


def test_a_power_of_two_names_is_as_steep_as_its_corners() -> None:
    box = {"x": span(1, 2), "y": span(1, 2)}
    _, partials = derivative_bounds(parse("x**y"), box)
    assert_ends(partials["x"], 1, 4)  # y * x**(y - 1)
    assert_ends(partials["y"], 0, 4 * math.log(2))  # x**y * log(x)
    at_zero = {"x": span(0, 2), "y": span(1, 2)}
    assert_ends(derivative_bounds(parse("x**y"), at_zero)[1]["x"], 0, 4)
    partly = {"x": span(-1, 2), "y": span(1, 2)}  # below zero it has whole exponents only
    assert derivative_bounds(parse("x**y"), partly)[1]["x"] == span(-INF, INF)


def test_functions_of_the_c_library_are_trusted_to_eight_units_of_the_last_place() -> None:
    unit = 2.0**-52
    assert exponential(span(0, 0)) == Interval(1 - 8.5 * unit, 1 + 9 * unit)


def test_an_interval_cannot_change() -> None:
    with pytest.raises(FrozenInstanceError):
        point(1.0).lower = 0.0  # type: ignore[misc]


def test_only_the_root_of_a_whole_square_is_exact() -> None:
    assert square_root(span(4, 9)) == span(2, 3)
    for x in (0.25, 2.0, math.nextafter(4.0, 5.0)):
        found = square_root(point(x))
        assert found is not None
        assert found.lower < math.sqrt(x) < found.upper


def test_a_power_of_one_is_the_number_itself() -> None:
    assert fixed_power(span(0.1, 0.3), 1.0) == span(0.1, 0.3)
    assert fixed_power(span(-0.3, 0.1), 1.0) == span(-0.3, 0.1)
