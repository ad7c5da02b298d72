"""How steep a formula is at a point, and what it can be over a box."""

import math

import pytest

from rootguard.errors import (
    FormulaLimitError,
    FormulaNameError,
    FormulaUndefinedError,
)
from rootguard.expressions import (
    Interval,
    bounds,
    derivative_bounds,
    evaluate,
    gradient,
    parse,
)


def at(text: str, **values: float) -> float:
    return evaluate(parse(text), values)


@pytest.mark.parametrize(
    ("text", "x", "slope"),
    [
        ("x**3", -2.0, 12.0),
        ("x**1", 0.0, 1.0),
        ("x**0", 0.0, 0.0),
        ("x**2", 0.0, 0.0),
        ("x**-1", 2.0, -0.25),
        ("x**-1", -1.0, -1.0),
        ("x**0.5", 1.0, 0.5),
        ("x**1.5", 0.0, 0.0),
        ("x**64", 1.0, 64.0),
        ("2**x", 3.0, 8.0 * math.log(2.0)),
        ("x**x", 1.0, 1.0),
        ("x / (x + 1)", 1.0, 0.25),
        ("sqrt(x)", 4.0, 0.25),
        ("log(x) + log10(x) + log2(x)", 1.0, 1.0 + 1.0 / math.log(10) + 1.0 / math.log(2)),
        ("exp(2*x)", 0.0, 2.0),
        ("abs(x)", 0.0, 0.0),
        ("abs(x)", -3.0, -1.0),
        ("min(2*x, 3*x)", 0.0, 2.0),
        ("max(x, 5, 2*x)", 5.0, 2.0),
        ("clip(x, 0, 1)", 1.0, 1.0),
        ("clip(x, 0, 1)", 0.0, 1.0),
        ("clip(x, 0, 1)", 2.0, 0.0),
        ("clip(5, 0, 3*x)", 1.0, 3.0),
        ("clip(-5, 2*x, 9)", 1.0, 2.0),
        ("round(x) + floor(x) + ceil(x)", 1.0, 0.0),
        ("x**2 if x > 1 else 7*x", 1.0, 7.0),
        ("x > 1", 1.0, 0.0),
        ("sqrt(0) + x", 1.0, 1.0),
        ("--x - -x", 1.0, 2.0),
    ],
)
def test_the_slope_at_a_point_is_the_local_one(text: str, x: float, slope: float) -> None:
    value, partials = gradient(parse(text), {"x": x})
    assert value == at(text, x=x)
    assert partials["x"] == pytest.approx(slope, abs=1e-15)


@pytest.mark.parametrize(
    ("x", "slopes"),
    [(1.0, (0.0, 2.0, 0.0)), (5.0, (1.0, 0.0, 0.0)), (9.5, (0.0, 0.0, 3.0))],
)
def test_a_clipped_value_follows_one_of_the_three(x: float, slopes: tuple[float, ...]) -> None:
    _, partials = gradient(parse("clip(x, 2 * y, 3 * z)"), {"x": x, "y": 1.0, "z": 3.0})
    assert (partials["x"], partials["y"], partials["z"]) == slopes


@pytest.mark.parametrize(
    ("text", "x", "y"),
    [("x**0.5", 0.0, 1.0), ("x**0.25", 0.0, 1.0), ("x**y", 0.0, 2.0), ("x**y", -0.5, 2.0)],
)
def test_a_power_has_no_slope_where_its_base_is_not_positive_enough(
    text: str, x: float, y: float
) -> None:
    """At zero a root is infinitely steep; along its exponent a power needs a positive base."""
    assert math.isfinite(at(text, x=x, y=y))
    with pytest.raises(FormulaUndefinedError) as refused:
        gradient(parse(text), {"x": x, "y": y})
    assert refused.value.operation == "power"
    assert gradient(parse("x**y"), {"x": 0.5, "y": 2.0})[1]["x"] == pytest.approx(1.0)


def test_a_slope_over_the_limit_is_refused_though_the_value_is_below() -> None:
    formula = parse("x / 1e-60 / 1e-39")
    value, partials = gradient(formula, {"x": 1e-60})
    assert (value, partials["x"]) == pytest.approx((1e39, 1e99))
    with pytest.raises(FormulaLimitError):
        gradient(parse("x / 1e-60 / 1e-41"), {"x": 1e-60})


def test_there_is_a_partial_for_every_free_name() -> None:
    _, partials = gradient(parse("a * b if a > 0 else c"), {"a": 2.0, "b": 3.0, "c": 1.0})
    assert partials == {"a": 3.0, "b": 2.0, "c": 0.0}


@pytest.mark.parametrize(
    ("text", "x"), [("sqrt(x)", 0.0), ("x**0.5", 0.0), ("(-2)**x", 2.0), ("1/x", 0.0)]
)
def test_where_there_is_no_slope_it_is_refused(text: str, x: float) -> None:
    with pytest.raises(FormulaUndefinedError):
        gradient(parse(text), {"x": x})


# Boxes

INF = math.inf


@pytest.mark.parametrize(
    ("text", "lower", "upper", "low", "high"),
    [
        ("x**2", -1.0, 2.0, 0.0, 4.0),
        ("x**3", -2.0, 2.0, -8.0, 8.0),
        ("x**4", -2.0, -1.0, 1.0, 16.0),
        ("x**-1", 1.0, 4.0, 0.25, 1.0),
        ("x**-2", -1.0, 2.0, 0.25, INF),
        ("x**0.5", -4.0, 9.0, 0.0, 3.0),
        ("x**-0.5", -1.0, 4.0, 0.5, INF),
        ("2**x", -1.0, 3.0, 0.5, 8.0),
        ("x**x", 1.0, 2.0, 1.0, 4.0),
        ("log(x)", -1.0, 5.0, -INF, math.log(5.0)),
        ("sqrt(x)", -1.0, 16.0, 0.0, 4.0),
        ("1 / x", 2.0, 4.0, 0.25, 0.5),
        ("1 / x", -1.0, 2.0, -INF, INF),
        ("1 / x", 0.0, 2.0, 0.5, INF),
        ("-1 / x", 0.0, 2.0, -INF, -0.5),
        ("1 / x", -2.0, 0.0, -INF, -0.5),
        ("0 / x", -1.0, 1.0, 0.0, 0.0),
        ("abs(x)", -3.0, 2.0, 0.0, 3.0),
        ("exp(x)", 0.0, 1.0, 1.0, math.e),
        ("exp(x)", 0.0, INF, 1.0, INF),
        ("round(x)", 0.5, 2.4, 0.0, 2.0),
        ("clip(x, 0, 10)", -5.0, 4.0, 0.0, 4.0),
        ("min(x, 1) + max(x, 1)", 0.0, 3.0, 1.0, 4.0),
        ("x < 3", 0.0, 2.0, 1.0, 1.0),
        ("x < 3", 0.0, 3.0, 0.0, 1.0),
        ("x >= 3", 0.0, 2.0, 0.0, 0.0),
        ("x == 3", 3.0, 3.0, 1.0, 1.0),
        ("x != 3", 4.0, 5.0, 1.0, 1.0),
        ("not x", 1.0, 2.0, 0.0, 0.0),
        ("x < 0 or x < 9", 1.0, 2.0, 1.0, 1.0),
        ("x > 0 and 1 / 0", -1.0, 2.0, 0.0, 0.0),
        ("x > 0 or 1 / 0", -1.0, 2.0, 1.0, 1.0),
        ("5 if x > 0 else 6", 1.0, 2.0, 5.0, 5.0),
        ("5 if x > 0 else 6", -1.0, 2.0, 5.0, 6.0),
        ("log(-1) if x > 0 else 6", -1.0, 2.0, 6.0, 6.0),
        ("x * 0", -INF, INF, 0.0, 0.0),
        ("x + pi", 0.0, 0.0, math.pi, math.pi),
    ],
)
def test_bounds_are_safe_and_where_they_can_be_tight(
    text: str, lower: float, upper: float, low: float, high: float
) -> None:
    found = bounds(parse(text), {"x": Interval(lower, upper)})
    assert found.lower <= low <= high <= found.upper
    assert found.lower == pytest.approx(low, abs=1e-12)
    assert found.upper == pytest.approx(high, abs=1e-12)


def test_bounds_of_whole_numbers_are_exact() -> None:
    box = {"x": Interval(-1.0, 2.0)}
    assert bounds(parse("x**2"), box) == Interval(0.0, 4.0)
    assert bounds(parse("3 * x + 1"), box) == Interval(-2.0, 7.0)


def test_inexact_bounds_are_rounded_outwards() -> None:
    found = bounds(parse("x + 0.1"), {"x": Interval(0.2, 0.2)})
    assert found.lower < 0.2 + 0.1 < found.upper


@pytest.mark.parametrize(
    "text",
    [
        *("log(-x)", "sqrt(-x)", "1 / (x * 0)", "(-x)**0.5", "x**(x+199)", "-log(-x)"),
        *("x + log(-x)", "log(-x) + x", "x < log(-x)", "log(-x) < x", "max(x, log(-x))"),
    ],
)
def test_a_formula_defined_nowhere_in_the_box_is_refused(text: str) -> None:
    box = {"x": Interval(1.0, 2.0)}
    with pytest.raises(FormulaUndefinedError):
        bounds(parse(text), box)
    with pytest.raises(FormulaUndefinedError):
        derivative_bounds(parse(text), box)


def test_a_box_without_a_name_is_refused() -> None:
    with pytest.raises(FormulaNameError):
        bounds(parse("x"), {})
    with pytest.raises(FormulaNameError):
        derivative_bounds(parse("x"), {})


@pytest.mark.parametrize(("lower", "upper"), [(1.0, 0.0), (math.nan, 1.0), (0.0, math.nan)])
def test_an_interval_is_not_reversed_nor_nan(lower: float, upper: float) -> None:
    with pytest.raises(ValueError, match="interval"):
        Interval(lower, upper)


@pytest.mark.parametrize(
    ("text", "lower", "upper", "low", "high"),
    [
        ("x**2", -1.0, 2.0, -2.0, 4.0),
        ("3 * x - 1", 0.0, 1.0, 3.0, 3.0),
        ("1 / x", 1.0, 2.0, -1.0, -0.25),
        ("1 / x", -1.0, 1.0, -INF, INF),
        ("sqrt(x)", 0.0, 4.0, 0.25, INF),
        ("sqrt(x)", -1.0, 4.0, 0.25, INF),
        ("log(x)", -1.0, 5.0, 0.2, INF),
        ("exp(x)", 0.0, 1.0, 1.0, math.e),
        ("x**0.5", 1.0, 4.0, 0.25, 0.5),
        ("x**0", -1.0, 1.0, 0.0, 0.0),
        ("2**x", 0.0, 1.0, math.log(2), 2 * math.log(2)),
        ("abs(x)", -1.0, 2.0, -1.0, 1.0),
        ("abs(x)", 1.0, 2.0, 1.0, 1.0),
        ("abs(x)", -2.0, -1.0, -1.0, -1.0),
        ("max(x, 1)", 0.0, 2.0, 0.0, 1.0),
        ("max(x, 1)", 2.0, 3.0, 1.0, 1.0),
        ("min(x, 2 * x)", 1.0, 1.5, 1.0, 1.0),
        ("clip(x, 0, 1)", 0.25, 0.5, 1.0, 1.0),
        ("clip(x, 0, 1)", 0.5, 2.0, 0.0, 1.0),
        ("clip(x, 0, 1)", 2.0, 3.0, 0.0, 0.0),
        ("floor(x)", 1.25, 1.5, 0.0, 0.0),
        ("floor(x)", 0.5, 1.0, -INF, INF),
        ("round(x)", 0.75, 1.25, 0.0, 0.0),
        ("ceil(x)", 0.5, 1.5, -INF, INF),
        ("x > 1", 2.0, 3.0, 0.0, 0.0),
        ("x > 1", 0.0, 3.0, -INF, INF),
        ("x if x > 0 else 3 * x", 1.0, 2.0, 1.0, 1.0),
        ("x if x > 0 else 3 * x", -1.0, 2.0, -INF, INF),
    ],
)
def test_slopes_over_a_box_hold_both_sides_of_kinks_and_are_unbounded_at_jumps(
    text: str, lower: float, upper: float, low: float, high: float
) -> None:
    _, slopes = derivative_bounds(parse(text), {"x": Interval(lower, upper)})
    assert slopes["x"].lower <= low <= high <= slopes["x"].upper
    assert slopes["x"].lower == pytest.approx(low, abs=1e-12)
    assert slopes["x"].upper == pytest.approx(high, abs=1e-12)


def test_an_undecided_condition_is_a_jump_only_along_the_names_it_reads() -> None:
    box = {"a": Interval(0.0, 2.0), "b": Interval(0.0, 1.0)}
    _, slopes = derivative_bounds(parse("b if a > 1 else 3 * b"), box)
    assert slopes == {"a": Interval(-INF, INF), "b": Interval(1.0, 3.0)}


def test_a_clip_without_room_follows_its_upper_end() -> None:
    value, partials = gradient(parse("clip(b, a, a)"), {"a": 1.5, "b": 1.5})
    assert value == 1.5
    assert partials == {"a": 1.0, "b": 0.0}
