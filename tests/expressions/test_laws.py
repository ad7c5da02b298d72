"""Laws of the formula language, over random trees on the names a, b, c, d.

Each law holds for trees that are grown from seeds, which is quick, and for others that Hypothesis
makes, which it shrinks when a law fails. `make test-all` has thousands of both.
"""

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rootguard.errors import FormulaError, FormulaUndefinedError
from rootguard.expressions import (
    CONSTANTS,
    FUNCTIONS,
    MAX_EXPONENT,
    Arithmetic,
    Choose,
    Compare,
    Extremes,
    FunctionCall,
    Interval,
    Logic,
    Negate,
    Node,
    Not,
    NumberLiteral,
    Variable,
    bounds,
    derivative_bounds,
    evaluate,
    evaluate_many,
    gradient,
    names,
    parse,
    substitute,
    to_text,
)
from rootguard.expressions.extremes import _enclosed
from rootguard.expressions.nodes import ArithmeticOperator, CompareOperator, parts

NAMES = ("a", "b", "c", "d")
PLAIN = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 7.0, 10.0, 100.0)
OPERATORS: tuple[ArithmeticOperator, ...] = get_args(ArithmeticOperator)
COMPARISONS: tuple[CompareOperator, ...] = get_args(CompareOperator)
TRANSCENDENTAL = {"exp", "ln", "log", "log10", "log2"}


def laws(examples: int) -> settings:
    exploring = not settings().derandomize
    return settings(
        max_examples=examples if exploring else examples // 10,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def literals(*, any_size: bool) -> st.SearchStrategy[NumberLiteral]:
    plain = st.sampled_from(PLAIN)
    wide = st.floats(min_value=0.0, max_value=1e100).map(abs)
    return (st.one_of(plain, wide) if any_size else plain).map(NumberLiteral)


def arithmetic(operator: ArithmeticOperator, left: Node, right: Node) -> Node:
    if operator == "**" and not right.free:
        right = NumberLiteral(2.0) if right.size > 1 else right
        if isinstance(right, NumberLiteral) and right.value > MAX_EXPONENT:
            right = NumberLiteral(3.0)
    return Arithmetic(operator, left, right)


def call(function: str, arguments: list[Node]) -> Node:
    fewest, most = FUNCTIONS[function]
    wanted = min(max(len(arguments), fewest), most)
    return FunctionCall(function, tuple((arguments * fewest)[:wanted]))


def trees(*, any_size: bool = False, leaves: int = 10) -> st.SearchStrategy[Node]:
    name = st.sampled_from(NAMES).map(Variable)
    leaf: st.SearchStrategy[Node] = st.one_of(
        name, name, literals(any_size=any_size), st.sampled_from(sorted(CONSTANTS)).map(Variable)
    )

    def grow(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        return st.one_of(
            st.builds(arithmetic, st.sampled_from(OPERATORS), inner, inner),
            st.builds(arithmetic, st.sampled_from(["+", "-", "*", "/"]), inner, inner),
            st.builds(
                call,
                st.sampled_from(sorted(FUNCTIONS)),
                st.lists(inner, min_size=1, max_size=4),
            ),
            st.builds(Negate, inner),
            st.builds(Compare, st.sampled_from(COMPARISONS), inner, inner),
            st.builds(Logic, st.sampled_from(["and", "or"]), inner, inner),
            st.builds(Not, inner),
            st.builds(Choose, inner, inner, inner),
        )

    return st.recursive(leaf, grow, max_leaves=leaves)


def grown(rng: random.Random, leaves: int, *, any_size: bool = False) -> Node:
    """A tree of about as many leaves, with every kind of node that `trees` has."""
    if leaves <= 1:
        if rng.random() < 0.6:
            return Variable(rng.choice((*NAMES, *NAMES, *sorted(CONSTANTS))))
        if any_size and rng.random() < 0.5:
            return NumberLiteral(10.0 ** rng.uniform(-20.0, 100.0))
        return NumberLiteral(rng.choice(PLAIN))
    kind = rng.choice(("arithmetic", "arithmetic", "call", "negate", "compare", "logic", "choose"))
    if kind == "negate":
        inner = grown(rng, leaves - 1, any_size=any_size)
        return Negate(inner) if rng.random() < 0.5 else Not(inner)
    if kind == "call":
        function = rng.choice(sorted(FUNCTIONS))
        given = [
            grown(rng, rng.randint(1, leaves // 2), any_size=any_size)
            for _ in range(rng.randint(1, 4))
        ]
        return call(function, given)
    left, right = (grown(rng, n, any_size=any_size) for n in (leaves - leaves // 2, leaves // 2))
    if kind == "compare":
        return Compare(rng.choice(COMPARISONS), left, right)
    if kind == "logic":
        return Logic(rng.choice(("and", "or")), left, right)
    if kind == "choose":
        return Choose(grown(rng, leaves // 3, any_size=any_size), left, right)
    return arithmetic(rng.choice(OPERATORS), left, right)


def reading_gives_the_same(node: Node) -> None:
    text = to_text(node)
    again = parse(text)
    assert again == node
    assert to_text(again) == text


@given(trees(any_size=True, leaves=8))
@laws(10_000)
def test_reading_the_canonical_text_gives_the_same_formula(node: Node) -> None:
    reading_gives_the_same(node)


@pytest.mark.parametrize("count", [2_500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_reading_gives_the_same_for_thousands_of_formulas(count: int) -> None:
    seen: Counter[str] = Counter()
    texts = set()
    for seed in range(count):
        rng = random.Random(seed)
        node = grown(rng, rng.randint(1, 12), any_size=True)
        reading_gives_the_same(node)
        seen.update(kinds(node))
        texts.add(to_text(node))
    assert len(texts) > 0.8 * count
    assert len(seen) == 9
    assert min(seen.values()) > count / 20


def kinds(node: Node) -> set[str]:
    return {type(node).__name__}.union(*(kinds(part) for part in parts(node)))


@given(trees(any_size=True), st.sets(st.sampled_from(NAMES)))
@laws(3_000)
def test_substituting_every_name_by_itself_or_another_is_a_renaming(
    node: Node, renamed: set[str]
) -> None:
    assert substitute(node, {name: Variable(name) for name in NAMES}) == node
    there = substitute(node, {name: Variable(f"{name}_") for name in renamed})
    assert names(there) == {f"{n}_" if n in renamed else n for n in names(node)}
    assert substitute(there, {f"{name}_": Variable(name) for name in renamed}) == node


CORNERS = (-5.0, -2.0, -1.0, -0.5, 0.0, 0.25, 1.0, 1.5, 2.0, 4.0)
WIDTHS = (0.0, 0.1, 0.5, 1.0, 3.0, 6.0)
boxes = st.fixed_dictionaries(
    {
        name: st.builds(
            lambda low, width: Interval(low, low + width),
            st.sampled_from(CORNERS),
            st.sampled_from(WIDTHS),
        )
        for name in NAMES
    }
)
shares = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0.0, 1.0))
points = st.lists(
    st.fixed_dictionaries(dict.fromkeys(NAMES, shares)),
    min_size=3,
    max_size=3,
)


def inside(box: Mapping[str, Interval], share: Mapping[str, float]) -> dict[str, float]:
    return {
        name: min(
            box[name].upper, box[name].lower + share[name] * (box[name].upper - box[name].lower)
        )
        for name in NAMES
    }


def value_or_none(node: Node, point: Mapping[str, float]) -> float | None:
    try:
        return evaluate(node, point)
    except FormulaError:
        return None


def bounds_hold(
    node: Node, box: Mapping[str, Interval], shares: Sequence[Mapping[str, float]]
) -> int:
    """How many values were looked at."""
    values = [value_or_none(node, inside(box, share)) for share in shares]
    try:
        enclosure = bounds(node, box)
    except FormulaUndefinedError:
        assert values == [None] * len(values)
        return 0
    again, slopes = derivative_bounds(node, box)
    assert again == enclosure
    assert slopes.keys() == names(node)
    for share, value in zip(shares, values, strict=True):
        if value is None:
            continue
        assert value in enclosure
        try:
            _, partials = gradient(node, inside(box, share))
        except FormulaError:
            continue
        for name, partial in partials.items():
            assert partial in slopes[name]
    return len(values) - values.count(None)


@given(trees(), boxes, points)
@laws(3_000)
def test_the_bounds_hold_every_value_and_every_slope_in_the_box(
    node: Node, box: dict[str, Interval], shares: list[dict[str, float]]
) -> None:
    bounds_hold(node, box, shares)


@pytest.mark.parametrize("count", [750, pytest.param(3_000, marks=pytest.mark.slow)])
def test_the_bounds_hold_for_many_formulas(count: int) -> None:
    seen = 0
    for seed in range(count):
        rng = random.Random(seed)
        node = grown(rng, rng.randint(1, 14))
        lows = {name: rng.choice(CORNERS) for name in NAMES}
        box = {name: Interval(low, low + rng.choice(WIDTHS)) for name, low in lows.items()}
        shares = [
            {name: rng.choice((0.0, 0.5, 1.0, rng.random(), rng.random())) for name in NAMES}
            for _ in range(3)
        ]
        seen += bounds_hold(node, box, shares)
    assert seen > 5 / 3 * count


def largest_part(node: Node, point: Mapping[str, float]) -> float:
    """The largest intermediate result, which sets how many digits a difference loses."""
    below = max((largest_part(part, point) for part in parts(node)), default=0.0)
    return max(below, abs(value_or_none(node, point) or 0.0))


def difference(node: Node, point: Mapping[str, float], name: str) -> float | None:
    """A central difference; None where it is no witness.

    It is none where the function is undefined beside the point, or where the slopes to the left,
    to the right, and over a seventh of the distance do not agree: a kink, a jump, or a bend too
    tight for the distance.
    """
    slopes = []
    for step in (1e-5, 1e-5 / 7.0):
        here = evaluate(node, point)
        right = value_or_none(node, {**point, name: point[name] + step})
        left = value_or_none(node, {**point, name: point[name] - step})
        if right is None or left is None:
            return None
        slopes += [(right - here) / step, (here - left) / step]
    middle = (slopes[0] + slopes[1]) / 2.0
    if max(slopes) - min(slopes) > 1e-3 * (1.0 + abs(middle)):
        return None
    return middle


def agrees(partial: float, witness: float) -> bool:
    return abs(partial - witness) <= 2e-3 * (1.0 + abs(partial))


def gradient_agrees(node: Node, point: Mapping[str, float], seen: Counter[str]) -> None:
    try:
        value, partials = gradient(node, point)
    except FormulaError:
        seen["undefined"] += 1
        return
    assert value == evaluate(node, point)
    assert partials.keys() == names(node)
    for name, partial in partials.items():
        witness = difference(node, point, name)
        if witness is None or largest_part(node, point) > 1e4:
            seen["no witness"] += 1
            continue
        seen["compared"] += 1
        seen["compared, not flat"] += abs(witness) > 0.01
        assert agrees(partial, witness)


odd = st.floats(0.13, 3.9).map(lambda x: round(x, 3) + 0.0001237)
spread = st.fixed_dictionaries(dict.fromkeys(NAMES, st.one_of(odd, odd, odd.map(lambda x: -x))))


@given(trees(leaves=8).filter(lambda node: bool(node.free)), spread)
@laws(3_000)
def test_gradients_agree_with_central_differences_wherever_those_are_witnesses(
    node: Node, point: dict[str, float]
) -> None:
    gradient_agrees(node, point, Counter())


@pytest.mark.parametrize("count", [750, pytest.param(3_000, marks=pytest.mark.slow)])
def test_gradients_agree_for_many_formulas(count: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(count):
        rng = random.Random(seed)
        node = grown(rng, rng.randint(1, 10))
        point = {
            name: rng.choice((1, 1, -1)) * (round(rng.uniform(0.13, 3.9), 3) + 0.0001237)
            for name in NAMES
        }
        gradient_agrees(node, point, seen)
    assert seen["compared"] > 4 * seen["no witness"]
    assert seen["compared"] > count / 2
    assert seen["compared, not flat"] > count / 6


def test_the_comparison_with_differences_would_notice_a_wrong_gradient() -> None:
    node = parse("a**2 / b + sqrt(c)")
    point = {"a": 1.3, "b": 0.7, "c": 2.1}
    _, partials = gradient(node, point)
    for name, partial in partials.items():
        witness = difference(node, point, name)
        assert witness is not None
        assert agrees(partial, witness)
        assert not agrees(partial * 1.01, witness)
        assert not agrees(-partial, witness)


TAME = (0.3, 0.5, 1.0, 1.7, 2.0, 3.25)
WILD = (0.0, -0.0, -1.0, -2.5, 1e60, -1e99, 1e100, 1e101, 5e-324, 1e-200)
STRANGE = (math.nan, math.inf, -math.inf)
tame = st.sampled_from(TAME)
wild = st.one_of(
    tame,
    st.sampled_from(WILD),
    st.sampled_from(STRANGE),
    st.floats(-100.0, 100.0),
)
rows = st.one_of(*(
    st.lists(st.fixed_dictionaries(dict.fromkeys(NAMES, cell)), min_size=1, max_size=5)
    for cell in (tame, wild)
))  # fmt: skip


def functions(node: Node) -> set[str]:
    here = {node.function} if isinstance(node, FunctionCall) else set()
    return here.union(*(functions(part) for part in parts(node)))


def rows_have_their_values(node: Node, table: Sequence[Mapping[str, float]]) -> Counter[str]:
    """How many rows were refused, and how many not."""
    seen: Counter[str] = Counter()
    together = evaluate_many(node, {n: np.array([row[n] for row in table]) for n in NAMES})
    exact = not functions(node) & TRANSCENDENTAL
    for row, found in zip(table, together.tolist(), strict=True):
        alone = value_or_none(node, row)
        seen["refused" if alone is None else "exact" if exact else "close"] += 1
        if alone is None:
            assert math.isnan(found)
        elif exact:
            assert found == alone
        else:
            assert math.isclose(found, alone, rel_tol=1e-12, abs_tol=1e-300)
    return seen


@given(trees(), rows)
@laws(2_500)
def test_many_rows_have_the_value_of_each_row_and_nan_where_a_row_is_refused(
    node: Node, table: list[dict[str, float]]
) -> None:
    rows_have_their_values(node, table)


@pytest.mark.parametrize("count", [625, pytest.param(2_500, marks=pytest.mark.slow)])
def test_many_rows_have_their_values_for_many_formulas(count: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(count):
        rng = random.Random(seed)
        node = grown(rng, rng.randint(1, 14))
        cells = (TAME, (*TAME, *WILD, *STRANGE, rng.uniform(-100.0, 100.0)))[seed % 2]
        table = [{name: rng.choice(cells) for name in NAMES} for _ in range(rng.randint(1, 5))]
        seen += rows_have_their_values(node, table)
    assert min(seen["refused"], seen["exact"], seen["close"]) > count / 5


@pytest.mark.parametrize("count", [500, pytest.param(2_000, marks=pytest.mark.slow)])
def test_sharper_bounds_hold_for_many_formulas(count: int) -> None:
    """Beside the plain bounds stand those by elasticities and by parts, from `extremes`."""
    seen = 0
    for seed in range(count):
        rng = random.Random(seed)
        node = grown(rng, rng.randint(1, 14))
        lows = {name: rng.choice(CORNERS) for name in sorted(names(node))}
        box = {name: Interval(low, low + rng.choice(WIDTHS)) for name, low in lows.items()}
        found = _enclosed(node, box, repeats=True)
        by_part = Extremes(node, box)._composed() if box else {}
        for _ in range(3):
            share = {name: rng.choice((0.0, 0.5, 1.0, rng.random())) for name in NAMES}
            point = inside(box | {n: Interval(0, 0) for n in NAMES if n not in box}, share)
            try:
                value, partials = gradient(node, point)
            except FormulaError:
                continue
            assert found is not None
            assert nearly(value, found.value)
            for name, partial in partials.items():
                assert nearly(partial, found.slopes.get(name, Interval(0.0, 0.0)))
                assert name not in by_part or nearly(partial, by_part[name])
            seen += 1
    assert seen > 1.5 * count


def nearly(number: float, bounds: Interval) -> bool:
    """These bounds hold the real function; `gradient` rounds on its own way."""
    room = 1e-9 * abs(number)
    return bounds.lower - room <= number <= bounds.upper + room
