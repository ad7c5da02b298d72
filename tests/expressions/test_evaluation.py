"""What a formula is worth at a point and in many rows, and what its errors keep to themselves."""

import math
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from rootguard.errors import (
    FormulaError,
    FormulaLimitError,
    FormulaNameError,
    FormulaUndefinedError,
)
from rootguard.expressions import (
    Node,
    columns,
    evaluate,
    evaluate_many,
    gradient,
    parse,
)

FIB_4 = "age * ast / (plt * sqrt(alt))"


def at(text: str, **values: float) -> float:
    return evaluate(parse(text), values)


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        ("1 / (x - x)", "division by zero"),
        ("log(x - 2)", "logarithm of a number that is not positive"),
        ("ln(0)", "logarithm of a number that is not positive"),
        ("log10(-x)", "logarithm of a number that is not positive"),
        ("sqrt(-x)", "square root of a negative number"),
        ("0 ** -x", "power"),
        ("(-x) ** 0.5", "power"),
        ("exp(800 * x)", "overflow"),
        ("1e100 / (1e-300 * x)", "overflow"),
    ],
)
def test_where_there_is_no_value_the_operation_is_named(text: str, operation: str) -> None:
    with pytest.raises(FormulaUndefinedError) as caught:
        at(text, x=1.0)
    assert caught.value.operation == operation


@pytest.mark.parametrize(
    "text",
    ["1e60 * x * 1e60 / 1e60", "exp(50*x)", "x**64 * x**64 * x**64 * 0", "2**(26*x)", "0**(26*x)"],
)
def test_results_over_the_limit_are_refused_even_in_the_middle(text: str) -> None:
    with pytest.raises(FormulaLimitError):
        at(text, x=5.0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e101, 10**400])
def test_an_input_that_is_not_a_usable_number_has_no_value(value: float) -> None:
    with pytest.raises(FormulaError):
        at("x * 0", x=value)


def test_a_missing_name_is_refused_even_where_it_would_not_be_reached() -> None:
    with pytest.raises(FormulaNameError) as caught:
        at("1 if a else b", a=1.0)
    assert caught.value.name == "b"
    assert caught.value.known == ("a",)


def test_what_is_not_reached_need_not_be_defined() -> None:
    assert at("0 and 1/0") == 0.0
    assert at("1 or 1/0") == 1.0
    assert at("2 if 1 else 1/0") == 2.0
    assert at("1/0 if 0 else 3") == 3.0
    for text in ("1 and 1/0", "0 or 1/0", "1/0 and 0", "1/0 if 1 else 2", "1 if 1/0 else 1"):
        with pytest.raises(FormulaUndefinedError):
            at(text)


def test_a_constant_cannot_be_overruled_by_a_value() -> None:
    assert at("pi", pi=3.0) == math.pi


CANARY = 186.753091


def holds_canary(thing: object, depth: int = 0) -> bool:
    if isinstance(thing, float | int):
        return abs(thing) == CANARY
    if isinstance(thing, str):
        return str(CANARY) in thing
    if isinstance(thing, np.ndarray):
        return bool(np.any(np.abs(thing) == CANARY))
    if isinstance(thing, Mapping) and depth < 4:
        return any(holds_canary(value, depth + 1) for value in thing.values())
    if isinstance(thing, list | tuple | set) and depth < 4:
        return any(holds_canary(value, depth + 1) for value in thing)
    return False


def frames_of(error: BaseException) -> list[types.FrameType]:
    found, trace = [], error.__traceback__
    while trace is not None:
        found.append(trace.tb_frame)
        trace = trace.tb_next
    return [frame for frame in found if frame.f_code.co_filename != __file__]


OPERATIONS: Mapping[str, Callable[[Node, Any], object]] = {
    "evaluate": evaluate,
    "gradient": gradient,
    "evaluate_many": evaluate_many,
}


@pytest.mark.parametrize(
    ("operation", "text", "given"),
    [
        *(
            (operation, text, {"x": CANARY})
            for operation in ("evaluate", "gradient")
            for text in ("1/(x-x)", "log(-x)", "sqrt(-x)", "(-x)**0.5", "exp(x*100)", "2**x", "y")
        ),
        ("gradient", "sqrt(x - x)", {"x": CANARY}),
        ("evaluate", "x", {"x": f"{CANARY}?"}),
        ("gradient", "x", {"x": f"{CANARY}?"}),
        ("evaluate_many", "x", {"x": [f"{CANARY}?"]}),
        ("evaluate_many", "x", {"x": np.array([CANARY]), "y": np.zeros(2)}),
        ("evaluate_many", "y", {"x": np.array([CANARY])}),
    ],
)
def test_an_error_holds_no_value_in_message_context_or_frames(
    operation: str, text: str, given: object
) -> None:
    node = parse(text)
    with pytest.raises((FormulaError, ValueError)) as caught:
        OPERATIONS[operation](node, given)
    error = caught.value
    assert str(CANARY) not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None
    frames = frames_of(error)
    assert frames
    assert not any(holds_canary(dict(frame.f_locals)) for frame in frames)


def test_the_search_for_values_in_frames_finds_one_that_is_there() -> None:
    assert holds_canary({"values": {"x": CANARY}})
    assert holds_canary({"columns": [np.array([1.0, CANARY])]})


# Many rows


def table(rows: int) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    draw = np.random.default_rng(7)
    return {name: draw.uniform(10.0, 200.0, rows) for name in ("age", "ast", "plt", "alt")}


def test_many_rows_equal_handwritten_numpy_to_the_last_bit() -> None:
    t = table(100_000)
    expected = t["age"] * t["ast"] / (t["plt"] * np.sqrt(t["alt"]))
    assert np.array_equal(evaluate_many(parse(FIB_4), t), expected)


@pytest.mark.parametrize(
    "text",
    [
        "(x + y) * (x + y) - (x + y) / (x * y)",
        "ln(x) * 2 + ln(x) * 3 - ln(x)",
        "-(x * y) + (x * y) ** 2 - -(x * y)",
        "2 * 3 * x + (2 * 3) / x - 2 * 3",
        "(x - 2) / (x - 2) + 1 / (x - 2)",
        "(x + y) ** 1 * 2 + (x + y)",
        "min(x + y, 1e9) * 2 + (x + y)",
    ],
)
def test_parts_that_stand_in_several_places_keep_their_value(text: str) -> None:
    given = {"x": np.array([1.5, 2.0, 7.25]), "y": np.array([3.0, 0.5, 11.0])}
    formula = parse(text)
    found = evaluate_many(formula, given)
    for row in range(3):
        values = {name: float(column[row]) for name, column in given.items()}
        try:
            assert found[row] == evaluate(formula, values)
        except FormulaError:
            assert math.isnan(found[row])


def test_the_columns_are_left_as_they_were() -> None:
    t = table(100)
    before = {name: column.copy() for name, column in t.items()}
    evaluate_many(parse("-(age + 1)**1 * sqrt(ast) - min(plt, alt)**2 / age"), t)
    evaluate_many(parse("age**1"), t)[:] = 0.0
    assert all(np.array_equal(t[name], before[name]) for name in t)


def test_one_bad_row_spoils_no_other_row_of_its_block_or_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(columns, "_ROWS", 4)
    t = table(11)
    good = evaluate_many(parse(FIB_4), t)
    t["alt"][5] = -1.0
    t["plt"][9] = 0.0
    found = evaluate_many(parse(FIB_4), t)
    assert np.flatnonzero(np.isnan(found)).tolist() == [5, 9]
    rest = ~np.isnan(found)
    assert np.array_equal(found[rest], good[rest])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", [1.0, 0.0, math.nan, math.nan, -2.0]),
        ("x < 5", [1.0, 1.0, math.nan, math.nan, 1.0]),
        ("x != x", [0.0, 0.0, math.nan, math.nan, 0.0]),
        ("not x", [0.0, 1.0, math.nan, math.nan, 0.0]),
        ("7 if x > 0 else 8", [7.0, 8.0, math.nan, math.nan, 8.0]),
        ("max(x, 3)", [3.0, 3.0, math.nan, math.nan, 3.0]),
        ("clip(x, 0, 1)", [1.0, 0.0, math.nan, math.nan, 0.0]),
        ("1 / x if x != 0 else 9", [1.0, 9.0, math.nan, math.nan, -0.5]),
        ("x > 0 and log(x) > -1", [1.0, 0.0, math.nan, math.nan, 0.0]),
        ("x <= 0 or log(x) > -1", [1.0, 1.0, math.nan, math.nan, 1.0]),
        ("sqrt(x) >= 0", [1.0, 1.0, math.nan, math.nan, math.nan]),
        ("0 * exp(400 * x)", [math.nan, 0.0, math.nan, math.nan, 0.0]),
        ("x**0", [1.0, 1.0, math.nan, math.nan, 1.0]),
        ("(x * 1e99) * 10 * 1.5 / 1e100", [math.nan, 0.0, math.nan, math.nan, math.nan]),
        ("1 / 0 if x == 1 else 2", [math.nan, 2.0, math.nan, math.nan, 2.0]),
    ],
)
def test_rows_without_a_value_are_nan_and_never_turn_into_a_number(
    text: str, expected: list[float]
) -> None:
    column = np.array([1.0, 0.0, math.nan, math.inf, -2.0])
    found = evaluate_many(parse(text), {"x": column})
    np.testing.assert_array_equal(found, expected)


def test_a_formula_without_names_is_repeated_to_the_length_of_the_columns() -> None:
    some = {"x": np.zeros(3)}
    assert evaluate_many(parse("1 + 1"), some).tolist() == [2.0, 2.0, 2.0]
    assert np.isnan(evaluate_many(parse("1 / 0"), some)).tolist() == [True] * 3
    assert evaluate_many(parse("x"), {"x": np.zeros(0)}).shape == (0,)


def test_columns_that_do_not_fit_are_refused() -> None:
    x, node = np.zeros(3), parse("x")
    for bad in ({"x": x, "y": np.zeros(2)}, {"x": np.zeros((3, 1))}, {"x": np.array(["a"])}):
        with pytest.raises(ValueError, match="one length"):
            evaluate_many(node, bad)
    with pytest.raises(ValueError, match="one length"):
        evaluate_many(parse("1"), {})
    with pytest.raises(FormulaNameError):
        evaluate_many(node, {"y": x})


def test_the_callers_numpy_error_settings_change_nothing() -> None:
    with np.errstate(all="raise"):
        assert at("exp(-1000 * x)", x=1.0) == 0.0
        assert evaluate_many(parse("1 / x + exp(-1000)"), {"x": np.array([2.0])})[0] == 0.5
        assert np.isnan(evaluate_many(parse("1 / x"), {"x": np.zeros(1)})[0])


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("x" + " + x" * 11, [1.0, 9e98], [12.0, math.nan]),
        ("-x" + " - x" * 11, [1.0, 9e98], [-12.0, math.nan]),
        ("x * x", [1.0, 1e51], [1.0, math.nan]),
        ("x**2", [1.0, 1e51], [1.0, math.nan]),
        ("x**-0.5", [4.0, 1e-300, 1e98], [0.5, math.nan, 1e-49]),
        ("exp(x)", [0.0, 231.0], [1.0, math.nan]),
        ("1 / x", [2.0, 1e-101], [0.5, math.nan]),
        ("ceil(x / 1e90) * x * x", [1.0, 1e60], [1.0, math.nan]),
        ("2**x", [1.0, 2.0], [2.0, 4.0]),
        ("1**x", [129.0], [math.nan]),
        ("2**x", [1.0, 128.0, 129.0], [2.0, 2.0**128, math.nan]),
    ],
)
def test_a_row_over_the_limit_is_refused_though_its_inputs_are_far_below(
    text: str, column: list[float], expected: list[float]
) -> None:
    found = evaluate_many(parse(text), {"x": np.array(column)})
    np.testing.assert_allclose(found, expected, rtol=1e-15)


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("x", 5.0),
        ("-x", 5.0),
        ("x + y", 18.0),
        ("x - y", 18.0),
        ("x * y", 65.0),
        ("x / y", math.hypot(3 / 5, 4 / 12)),
        ("x ** 2", 25.0),
        ("x ** 0.5", math.sqrt(5.0)),
        ("x ** 1", 5.0),
        ("x ** 3", math.hypot(27.0, 64.0)),
        ("x < y", 1.0),
        ("not x", 1.0),
        ("x > 3 and y", 1.0),
        ("x > 3 or y", 1.0),
        ("x if x > 3 else y", 13.0),
        ("y if x > 3 else x", 13.0),
        ("sqrt(y)", math.sqrt(13.0)),
        ("exp(x)", math.hypot(math.exp(3), math.exp(4))),
        ("ln(x)", math.hypot(math.log(3), math.log(4))),
        ("log2(x)", math.hypot(math.log2(3), 2.0)),
        ("floor(x)", 6.0),
        ("ceil(x)", 6.0),
        ("round(x)", 6.0),
        ("abs(x)", 5.0),
        ("min(x, y)", 13.0),
        ("max(y, x, 20)", 20.0),
        ("clip(x, 0, 3)", 5.0),
        ("-(2 + 3) * x", 25.0),
    ],
)
def test_the_bound_of_a_block_follows_from_those_of_its_parts(text: str, bound: float) -> None:
    """x has a magnitude of at most 5, y of 13: the roots of the sums of their squares."""
    given = {"x": np.array([3.0, 4.0]), "y": np.array([5.0, 12.0])}
    values, size = columns._plain(parse(text), given, np.empty(2))
    assert size == pytest.approx(bound, rel=1e-12)
    np.testing.assert_array_equal(values, evaluate_many(parse(text), given))


@pytest.mark.parametrize("text", ["x * y", "x / y + y", "y if x > 3 else x", "ln(x) - y", "x"])
def test_magnitudes_that_are_known_change_no_value(text: str) -> None:
    here = {"x": np.array([0.5, 4.0, -2.0]), "y": np.array([12.0, 0.0, 5.0])}
    known = evaluate_many(parse(text), here, sizes={"x": 4.0, "y": 12.0})
    assert known.tobytes() == evaluate_many(parse(text), here).tobytes()


def test_a_formula_is_taken_into_steps_once() -> None:
    assert columns._program(parse("x + 1 / y")) is columns._program(parse("x + 1 / y"))


def test_what_is_far_below_the_limit_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The careful way takes several times as long, so that no ordinary formula may need it."""
    monkeypatch.delattr(columns, "_careful")
    given = {"x": np.array([3.0, 4.0]), "y": np.array([5.0, 12.0])}
    for text in (FIB_4.replace("age", "x").replace("ast", "y"), "2 * 3 * x + 7 / 2 - (1 < 2)"):
        names = dict.fromkeys(parse(text).free, given["x"])
        assert np.isfinite(evaluate_many(parse(text), names)).all()
    # A tenth of the limit is where care begins, for a column as for a constant.
    assert evaluate_many(parse("x"), {"x": np.array([1e99])}).tolist() == [1e99]
    assert evaluate_many(parse("min(x, 1e99)"), {"x": np.zeros(1)}).tolist() == [0.0]
    most = {"x": np.ones(2), "y": np.array([128.0, -128.0])}  # their bound is above the limit
    assert evaluate_many(parse("x ** y"), most).tolist() == [1.0, 1.0]
    for text in ("x * 1.1e99", "x + 1.1e99"):
        with pytest.raises(NameError):
            evaluate_many(parse(text), {"x": np.ones(1)})


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0])
@pytest.mark.parametrize("form", ["x ** {}", "x ** y", "x ** {} / (0 * y + 1) + 0 / (y + 9)"])
def test_a_power_is_that_of_one_row_to_the_last_bit_where_it_is_taken_apart(
    exponent: float, form: str
) -> None:
    """Roots, squares and the number itself: a library's power may be off in the last place."""
    text = form.format(exponent)
    x = np.random.default_rng(5).uniform(0.01, 1000.0, 400)
    given = {"x": x, "y": np.full(400, exponent)}
    found = evaluate_many(parse(text), given)
    alone = [at(text, x=float(each), y=exponent) for each in x]
    assert alone == pytest.approx((x**exponent).tolist(), rel=1e-14)
    if exponent in (0.5, 1.0, 2.0):
        assert found.tolist() == alone
    np.testing.assert_allclose(found, alone, rtol=1e-14)


@pytest.mark.parametrize("row", [0, 1023, 1024, 1499])
def test_a_row_without_a_value_is_seen_wherever_it_stands(row: int) -> None:
    column = np.zeros(1500)
    column[row] = math.nan
    found = evaluate_many(parse("x < 5"), {"x": column})
    assert np.flatnonzero(np.isnan(found)).tolist() == [row]


@pytest.mark.parametrize(
    ("text", "x", "slope"),
    [("x**1", 0.0, 1.0), ("x**2", 0.0, 0.0), ("x**0", 0.0, 0.0), ("x**3", -2.0, 12.0)],
)
def test_a_power_has_its_slope_at_zero_and_below(text: str, x: float, slope: float) -> None:
    assert gradient(parse(text), {"x": x})[1] == {"x": slope}
