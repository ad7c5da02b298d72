"""Extremes over a box: bounds hold every point, and come near what is met."""

import math
import random
from collections.abc import Mapping
from dataclasses import FrozenInstanceError

import pytest

from rootguard.errors import FormulaError
from rootguard.expressions import Extremes, Interval, Node, derivative_bounds, gradient, parse
from rootguard.expressions import extremes as module
from rootguard.graph import Graph
from rootguard.template import catalog, load_template


def box(**sides: tuple[float, float]) -> dict[str, Interval]:
    return {name: Interval(*ends) for name, ends in sides.items()}


@pytest.mark.parametrize(
    ("text", "name", "rise", "fall"),
    [
        # Each with names that cancel, so that plain interval arithmetic is 25 % to 500 times off.
        ("log10(a / b)", "b", -1 / 150 / math.log(10), 1 / 20 / math.log(10)),
        ("a / b**2", "b", -2 * 20 / 150**3, 2 * 100 / 20**3),
        ("1 - exp(-a * ln(1 + b / 1200))", "a", None, None),
        ("100 / (1 + exp(60 - a - b))", "a", 25.0, None),
        ("b * a / (a + b)", "a", (150 / 170) ** 2, None),
        ("sqrt(a * b)", "a", 0.5 * math.sqrt(150 / 20), -0.5 * math.sqrt(20 / 100)),
    ],
)
def test_slopes_are_bounded_near_what_calculus_says(
    text: str, name: str, rise: float | None, fall: float | None
) -> None:
    sides = box(a=(20.0, 100.0), b=(20.0, 150.0))
    search = Extremes(parse(text), sides)
    for (met, bound), exact in zip(search.slope(name), (rise, fall), strict=True):
        assert met <= bound
        if exact is not None:
            assert met == pytest.approx(exact, rel=1e-3)
            assert exact - 1e-12 <= bound <= exact + 0.051 * abs(exact)


def test_interest_at_a_low_rate_is_no_quotient_of_nothings() -> None:
    """Both sides of the division vanish with the rate; its slope is about one half there."""
    sides = box(q=(1e-6, 1e-3), n=(12.0, 480.0))
    (met, bound), _ = Extremes(parse("q / (1 - exp(-n * ln(1 + q)))"), sides).slope("q")
    natural = derivative_bounds(parse("q / (1 - exp(-n * ln(1 + q)))"), sides)[1]["q"]
    assert 0.5 < met < 0.6
    assert met <= bound < natural.upper / 1e4


def test_the_width_is_that_of_a_formula_that_only_rises_or_falls() -> None:
    met, bound = Extremes(parse("(a - b) / (a + b)"), box(a=(1.0, 9.0), b=(1.0, 9.0))).width()
    assert met == pytest.approx(1.6)
    assert met <= bound <= 1.6 * 1.021


def test_a_spike_between_the_points_that_are_met_is_within_the_bound() -> None:
    formula = parse("5 / (1 + 1e14 * (a - 37.123456789) ** 2)")
    search = Extremes(formula, box(a=(1.0, 100.0)))
    met, bound = search.width()
    assert met < 0.1 or met == pytest.approx(5.0, rel=0.02)
    assert bound >= 5.0 * (1 - 1e-9)


def test_all_corners_of_eight_names_are_visited_and_no_more_of_nine() -> None:
    for many, corners in ((7, 128), (8, 256), (9, 256)):
        sides = {f"x{number}": Interval(1.0, 2.0) for number in range(many)}
        assert len(Extremes(parse(" + ".join(sides)), sides).points()) == corners


def test_a_search_that_is_near_at_once_cuts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    enclosed = module._enclosed

    def counted(node: Node, cell: module.Box, *, repeats: bool) -> module.Enclosure | None:
        nonlocal asked
        asked += 1
        return enclosed(node, cell, repeats=repeats)

    monkeypatch.setattr(module, "_enclosed", counted)
    search = Extremes(parse("7 - 3 * x"), box(x=(1.0, 100.0)))
    assert search.width() == (297.0, 297.0)
    assert search.slope("x") == ((-3.0, -3.0), (3.0, 3.0))
    assert asked == 1


def test_the_work_on_many_names_is_bounded_and_the_bounds_are_still_some() -> None:
    sides = {f"x{number}": Interval(1.0, 10.0) for number in range(12)}
    squares = " + ".join(f"x{i} * x{(i + 1) % 12}" for i in range(12))
    search = Extremes(parse(f"({' + '.join(sides)}) / ({squares})"), sides)
    met, bound = search.width()
    assert met <= bound
    (rise, above), _ = search.slope("x0")
    assert rise <= above
    assert len(search._cells) < 6 * (search._allowance + len(sides) + 2)


def test_a_cell_that_cannot_be_cut_keeps_its_bound() -> None:
    side = box(x=(1.0, math.nextafter(1.0, 2.0)))
    (_, bound), _ = Extremes(parse("round(x / 2)"), box(x=(1.0, 100.0))).slope("x")
    assert bound == math.inf
    assert Extremes(parse("x"), side).width()[1] >= 2.0**-52


@pytest.mark.parametrize("name", catalog())
def test_enclosures_of_random_cells_hold_the_value_and_every_slope(name: str) -> None:
    template = load_template(name)
    graph = Graph.of(template)
    for formula in [graph.in_roots(node.formula) for node in graph.order if node.formula]:
        domains = [template.roots[root].domain for root in graph.rests_on(formula)]
        whole = [Interval(domain.lower, domain.upper) for domain in domains]
        assert cells_hold(formula, dict(zip(graph.rests_on(formula), whole, strict=True))) >= 80


@pytest.mark.parametrize(
    "text",
    [
        "a ** (b / 20)",
        "1 - a ** -b",
        "exp(b) - 1",
        "ln(a + 1) / b",
        "abs(a - 9) * b",
        "min(a, b) / a",
    ],
)
def test_enclosures_of_random_cells_hold_what_the_catalog_has_not(text: str) -> None:
    assert cells_hold(parse(text), box(a=(0.5, 20.0), b=(0.1, 3.0))) >= 80


def cells_hold(formula: Node, whole: Mapping[str, Interval]) -> int:
    """Value, slopes and elasticities at points lie in the bounds; at how many was looked."""
    rng = random.Random(7)
    seen = 0
    for _ in range(20):
        cell = {}
        for name, side in whole.items():
            shares = sorted(rng.random() ** 3 for _ in "ab")
            ends = (side.lower + share * (side.upper - side.lower) for share in shares)
            cell[name] = Interval(*ends)
        found = module._enclosed(formula, cell, repeats=True)
        for _ in range(5):
            point = {
                name: min(side.lower + rng.random() * (side.upper - side.lower), side.upper)
                for name, side in cell.items()
            }
            try:
                value, partials = gradient(formula, point)
            except FormulaError:
                continue
            assert found is not None
            assert holds(found.value, value)
            elastic = found.elasticities or {}
            for name, slope in partials.items():
                assert holds(found.slopes.get(name, Interval(0.0, 0.0)), slope)
                assert name not in elastic or holds(elastic[name], point[name] * slope / value)
            seen += 1
    return seen


def holds(bounds: Interval, number: float) -> bool:
    """To the rounding of `gradient`, which is not that of the bounds."""
    room = 1e-9 * abs(number) + 1e-15
    return bounds.lower - room <= number <= bounds.upper + room


def climbed(search: Extremes) -> float:
    """How high the climb along one name at a time comes, from the corners of the box."""
    return search._climb(lambda each: each.value.upper)


def test_a_climb_ends_at_the_top_that_no_corner_shows() -> None:
    """Up along a and down along b from the best corner, in steps that shrink to a millionth."""
    hill = parse("5 - (a - 0.3137) ** 2 - (b - 0.6271) ** 2")
    search = Extremes(hill, box(a=(0.0, 1.0), b=(0.0, 1.0)))
    assert max(each.value.upper for each in search.points()) < 4.8
    assert climbed(search) == pytest.approx(5.0, abs=1e-11)
    assert len(search._points) < 100


def test_a_climb_begins_at_the_best_point_that_has_a_value() -> None:
    search = Extremes(parse("sqrt(a - 0.5) - (a - 0.9) ** 2"), box(a=(0.0, 1.0)))
    assert len(search.points()) == 1
    top = max(math.sqrt(x - 0.5) - (x - 0.9) ** 2 for x in (0.9 + i / 1e5 for i in range(10_001)))
    assert climbed(search) == pytest.approx(top, abs=1e-9)
    nowhere = Extremes(parse("sqrt(a - 2)"), box(a=(0.0, 1.0)))
    assert climbed(nowhere) == -math.inf


def test_a_climb_on_a_plain_gives_up_and_a_long_one_is_cut_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = Extremes(parse("0 * a + 7"), box(a=(0.0, 1.0)))
    assert climbed(plain) == 7.0
    # Ten steps from a quarter to below a millionth; to the other side of the corner there is none.
    assert len(plain._points) == 2 + 10
    monkeypatch.setattr(module, "_MAX_STEPS", 12)
    hill = parse("5 - (a - 0.3137) ** 2 - (b - 0.6271) ** 2")
    search = Extremes(hill, box(a=(0.0, 1.0), b=(0.0, 1.0)))
    assert climbed(search) < 4.9999
    # Three rounds of four steps each, half of which lead out of the box or back.
    assert len(search._points) == 4 + 6


def test_a_jump_is_as_steep_as_the_cell_in_which_it_was_cornered() -> None:
    """Along the name that jumps, from one end of the cell to the other; the rest stays put."""
    search = Extremes(parse("round(x / 2) + y / 1000"), box(x=(1.0, 100.0), y=(1.0, 2.0)))
    (steep, bound), _ = search.slope("x")
    assert bound == math.inf
    assert steep > 1e6


LN_2, LN_3, LN_4, LN_5, LN_10 = (math.log(number) for number in (2, 3, 4, 5, 10))
E_2, E_4 = math.exp(2), math.exp(4)
SIDES = box(
    a=(2.0, 4.0), b=(-4.0, -2.0), c=(-1.0, 2.0), d=(1.0, 3.0), f=(0.25, 0.5), g=(-3.0, -1.0)
)
Ends = tuple[float, float]


@pytest.mark.parametrize(
    ("text", "value", "slopes", "elasticities"),
    [
        ("a", (2, 4), {"a": (1, 1)}, {"a": (1, 1)}),
        ("c", (-1, 2), {"c": (1, 1)}, None),
        ("0", (0, 0), {}, None),
        ("1", (1, 1), {}, {}),
        ("g / (g * g)", (-3, -1 / 9), {"g": (-3, -1 / 27)}, {"g": (-1, -1)}),
        ("-a", (-4, -2), {"a": (-1, -1)}, {"a": (1, 1)}),
        ("a * d", (2, 12), {"a": (1, 3), "d": (2, 4)}, {"a": (1, 1), "d": (1, 1)}),
        ("a / d", (2 / 3, 4), {"a": (1 / 3, 1), "d": (-4, -2 / 9)}, {"a": (1, 1), "d": (-1, -1)}),
        ("a ** 3", (8, 64), {"a": (12, 48)}, {"a": (3, 3)}),
        (
            *("a ** d", (2, 64), {"a": (1, 48), "d": (2 * LN_2, 64 * LN_4)}),
            {"a": (1, 3), "d": (LN_2, 3 * LN_4)},
        ),
        ("a + d", (3, 7), {"a": (1, 1), "d": (1, 1)}, {"a": (0.4, 0.8), "d": (0.2, 0.6)}),
        ("a - g", (3, 7), {"a": (1, 1), "g": (-1, -1)}, {"a": (0.4, 0.8), "g": (0.2, 0.6)}),
        ("b + g", (-7, -3), {"b": (1, 1), "g": (1, 1)}, {"b": (0.4, 0.8), "g": (0.2, 0.6)}),
        # However small a side is, and whichever sign both have.
        (
            *("f + a", (2.25, 4.5), {"f": (1, 1), "a": (1, 1)}),
            {"f": (1 / 17, 1 / 5), "a": (4 / 5, 16 / 17)},
        ),
        (
            *("a + f", (2.25, 4.5), {"f": (1, 1), "a": (1, 1)}),
            {"f": (1 / 17, 1 / 5), "a": (4 / 5, 16 / 17)},
        ),
        (
            *("g / 4 + b", (-4.75, -2.25), {"g": (0.25, 0.25), "b": (1, 1)}),
            {"g": (1 / 17, 3 / 11), "b": (8 / 11, 16 / 17)},
        ),
        (
            *("b + g / 4", (-4.75, -2.25), {"g": (0.25, 0.25), "b": (1, 1)}),
            {"g": (1 / 17, 3 / 11), "b": (8 / 11, 16 / 17)},
        ),
        # Of a difference that does not vanish only the definition says it.
        (
            *("a - f", (1.5, 3.75), {"a": (1, 1), "f": (-1, -1)}),
            {"a": (2 / 3.75, 4 / 1.5), "f": (-0.5 / 1.5, -0.25 / 3.75)},
        ),
        ("a - d", (-1, 3), {"a": (1, 1), "d": (-1, -1)}, None),
        ("sqrt(a)", (2**0.5, 2), {"a": (0.25, 0.5**1.5)}, {"a": (0.5, 0.5)}),
        ("abs(g)", (1, 3), {"g": (-1, -1)}, {"g": (1, 1)}),
        ("exp(a)", (E_2, E_4), {"a": (E_2, E_4)}, {"a": (2, 4)}),
        ("ln(a)", (LN_2, LN_4), {"a": (0.25, 0.5)}, {"a": (0.5 / LN_4, 2 / LN_2)}),
        (
            *("ln(a / f)", (2 * LN_2, 4 * LN_2), {"a": (0.25, 0.5), "f": (-4, -2)}),
            {"a": (0.125 / LN_2, 1 / LN_2), "f": (-1 / LN_2, -0.125 / LN_2)},
        ),
        (
            *("log(a / f)", (2 * LN_2, 4 * LN_2), {"a": (0.25, 0.5), "f": (-4, -2)}),
            {"a": (0.125 / LN_2, 1 / LN_2), "f": (-1 / LN_2, -0.125 / LN_2)},
        ),
        (
            *("log2(a / f)", (2, 4), {"a": (0.25 / LN_2, 0.5 / LN_2), "f": (-4 / LN_2, -2 / LN_2)}),
            {"a": (0.125 / LN_2, 1 / LN_2), "f": (-1 / LN_2, -0.125 / LN_2)},
        ),
        (
            *("log10(a / d)", (math.log10(2 / 3), math.log10(4))),
            *({"a": (0.25 / LN_10, 0.5 / LN_10), "d": (-1 / LN_10, -1 / 3 / LN_10)}, None),
        ),
        ("ln(c * c)", (-math.inf, LN_4), {"c": (-math.inf, math.inf)}, None),
        ("min(a, d)", (1, 3), {"a": (0, 1), "d": (0, 1)}, {"a": (0, 1), "d": (0, 1)}),
        ("max(a, g)", (2, 4), {"a": (1, 1)}, {"a": (1, 1)}),
        ("min(a, g)", (-3, -1), {"g": (1, 1)}, {"g": (1, 1)}),
        ("max(a, 2 * a)", (4, 8), {"a": (1, 2)}, {"a": (1, 1)}),
        # c alone has no elasticity, as it may be 0, so that of the greater one is by definition.
        ("max(a, c)", (2, 4), {"a": (0, 1), "c": (0, 1)}, {"a": (0, 2), "c": (-0.5, 1)}),
        ("clip(a, d, 3)", (2, 3), {"a": (0, 1), "d": (0, 1)}, {"a": (0, 1), "d": (0, 1)}),
        (
            *("exp(a) - 1", (E_2 - 1, E_4 - 1), {"a": (E_2, E_4)}),
            {"a": (2 / (1 - 1 / E_2), 4 / (1 - 1 / E_4))},
        ),
        (
            *("1 - exp(a)", (1 - E_4, 1 - E_2), {"a": (-E_4, -E_2)}),
            {"a": (2 / (1 - 1 / E_2), 4 / (1 - 1 / E_4))},
        ),
        ("exp(c) - 1", (1 / math.e - 1, E_2 - 1), {"c": (1 / math.e, E_2)}, None),
        ("ln(1 + a)", (LN_3, LN_5), {"a": (0.2, 1 / 3)}, {"a": (0.8 / LN_5, 2 / 3 / LN_3)}),
        ("log(a + 1)", (LN_3, LN_5), {"a": (0.2, 1 / 3)}, {"a": (0.8 / LN_5, 2 / 3 / LN_3)}),
        # 1 + c comes to 0, where the logarithm has no end.
        ("ln(1 + c)", (-math.inf, LN_3), {"c": (1 / 3, math.inf)}, None),
    ],
)
def test_enclosures_are_those_that_calculus_gives(
    text: str, value: Ends, slopes: dict[str, Ends], elasticities: dict[str, Ends] | None
) -> None:
    found = module._enclose(parse(text), SIDES)
    assert found is not None
    assert ends_of({"": found.value}) == {"": pytest.approx(value, rel=1e-9)}
    for bounds, known in ((found.slopes, slopes), (found.elasticities, elasticities)):
        assert (bounds is None) == (known is None)
        ends = ends_of(bounds or {})
        assert ends.keys() == (known or {}).keys()
        for name, pair in (known or {}).items():
            assert ends[name] == pytest.approx(pair, rel=1e-9)


def test_a_formula_that_has_no_value_anywhere_is_not_enclosed() -> None:
    for text in ("sqrt(b)", "-sqrt(b)", "1 + sqrt(b)", "1 if sqrt(b) > 1 else 2"):
        assert module._enclose(parse(text), SIDES) is None


def test_what_grows_past_every_number_has_no_upper_end() -> None:
    growth = module._enclose(parse("exp(1000 * a) - 1"), SIDES)
    assert growth is not None
    assert growth.value.upper == math.inf
    decline = module._enclose(parse("1 - exp(1000 * a)"), SIDES)
    assert decline is not None
    assert decline.value.lower == -math.inf
    shrinking = module._enclose(parse("exp(1000 * b) - 1"), SIDES)
    assert shrinking is not None
    assert ends_of({"": shrinking.value}) == {"": pytest.approx((-1, -1), rel=1e-9)}


def ends_of(bounds: Mapping[str, Interval]) -> dict[str, Ends]:
    return {name: (each.lower, each.upper) for name, each in bounds.items()}


def test_a_formula_is_taken_apart_where_two_operations_lie_between() -> None:
    def inner(text: str) -> Node | None:
        parts = module._outer_and_inner(parse(text))
        return parts and parts[1]

    assert inner("exp(-(a * b))") == parse("a * b")
    assert inner("3 / (1 + exp(a - b))") == parse("a - b")
    assert inner("exp(a * b)") is None
    assert inner("a * b") is None
    assert inner("exp(-(2 * a))") is None
    parts = module._outer_and_inner(parse("3 / (1 + exp(a - b))"))
    assert parts is not None
    assert parts[0] == parse("3 / (1 + exp(inner))")


def test_a_side_is_cut_by_ratio_where_it_has_a_sign_and_else_in_half() -> None:
    cuts = {(1, 4): 2, (-4, -1): -2, (0, 4): 2, (-4, 0): -2, (-2, 4): 1, (3, 3): 3, (0, 0): 0}
    for ends, cut in cuts.items():
        assert module._middle(Interval(*map(float, ends))) == pytest.approx(cut)
    last = Interval(math.nextafter(3.0, 0.0), 3.0)
    assert last.lower <= module._middle(last) <= last.upper
    widths = {(1, 8): math.log(8), (0, 8): 8, (-1, 8): 9, (-8, -1): 7}
    for ends, width in widths.items():
        assert module._width(Interval(*map(float, ends))) == pytest.approx(width)


def test_a_slope_has_a_sign_where_it_is_bounded_and_never_of_the_other_one() -> None:
    signs: dict[Ends, int] = {
        (0, 1): 1,
        (1, 2): 1,
        (0, 0): 1,
        (-1, 0): -1,
        (-2, -1): -1,
        (-1, 1): 0,
    }
    signs |= {(0, math.inf): 0, (1, math.inf): 0, (-math.inf, 0): 0, (-math.inf, -1): 0}
    assert {ends: module._sign(Interval(*map(float, ends))) for ends in signs} == signs


def test_a_step_ends_at_the_side_of_the_box() -> None:
    side = Interval(2.0, 6.0)
    moved = [module._moved((9.0, 3.0), 1, side, step) for step in (0.25, -0.25, 1.0, -1.0)]
    assert moved == [(9.0, 4.0), (9.0, 2.0), (9.0, 6.0), (9.0, 2.0)]


def test_what_lies_in_both_may_be_one_point_and_is_the_first_where_nothing_does() -> None:
    one = Interval(1.0, 3.0)
    others = [Interval(2.0, 4.0), Interval(3.0, 4.0), Interval(4.0, 5.0), Interval(0.0, 2.0), None]
    met = [module._meet(one, other) for other in others]
    assert met == [Interval(2.0, 3.0), Interval(3.0, 3.0), one, Interval(1.0, 2.0), one]


def test_the_allowance_is_the_work_shared_by_all_cells_and_measures() -> None:
    small = Extremes(parse("a * b"), box(a=(1.0, 2.0), b=(1.0, 2.0)))
    assert small._allowance == 400_000 // (3 * 2 * 6)
    assert Extremes(parse("----x"), box(x=(1.0, 2.0)))._allowance == 20_000
    many = {f"x{number}": Interval(1.0, 1.0) for number in range(150)}
    assert Extremes(parse(" + ".join(many)), many)._allowance == 2


def test_only_a_formula_with_a_name_twice_is_asked_at_the_ends_of_its_sides() -> None:
    sides = box(a=(1.0, 2.0), b=(1.0, 2.0))
    assert not Extremes(parse("a - b"), sides)._repeats
    assert Extremes(parse("a - b / a"), sides)._repeats
    single = module._enclosed(parse("a - a / 2"), sides, repeats=False)
    twice = module._enclosed(parse("a - a / 2"), sides, repeats=True)
    assert single is not None
    assert twice is not None
    assert ends_of({"": single.value}) == {"": pytest.approx((0.0, 1.5))}
    assert ends_of({"": twice.value}) == {"": pytest.approx((0.5, 1.0))}


def test_the_spread_is_that_of_the_points_that_have_a_value() -> None:
    assert Extremes(parse("7 - 3 * x"), box(x=(1.0, 100.0)))._spread() == 297.0
    assert Extremes(parse("sqrt(x)"), box(x=(-1.0, 4.0)))._spread() == 0.0
    assert Extremes(parse("sqrt(x)"), box(x=(-4.0, -1.0)))._spread() == 0.0


def test_a_cell_is_cut_across_the_side_that_widens_its_bound_most() -> None:
    """The bound is of the value, which b changes by 9 and a by 1; ties go to the widest side."""
    wide = box(a=(1.0, 2.0), b=(1.0, 10.0))
    search = Extremes(parse("a + b"), wide)
    first, second = search._halves(tuple(wide.values()), lambda each: each.value.upper)
    assert (first[0], second[0]) == (wide["a"], wide["a"])
    assert (first[1].lower, second[1].upper) == (1.0, 10.0)
    assert first[1].upper == second[1].lower == pytest.approx(math.sqrt(10))
    equal = box(a=(1.0, 2.0), b=(1.0, 10.0))
    cell = (Interval(1.0, 2.0), Interval(1.0, 2.0))
    first, second = Extremes(parse("a * b"), equal)._halves(cell, lambda each: each.value.upper)
    assert first[0].upper == second[0].lower == pytest.approx(math.sqrt(2))
    half = box(a=(1.0, 9.0), b=(1.0, 100.0))  # in its middle the root has no value
    first, second = Extremes(parse("sqrt(a - 4) + b"), half)._halves(
        tuple(half.values()), lambda each: each.value.upper
    )
    assert (first[0].upper, second[0].lower) == (3.0, 3.0)
    point = (Interval(2.0, 2.0), Interval(3.0, 3.0))
    assert not list(search._halves(point, lambda each: each.value.upper))


def hump(**options: float) -> tuple[float, float, int]:
    """What is met of a hump of 25, its bound, and how many cells were looked at."""
    search = Extremes(parse("a * (10 - a)"), box(a=(1.0, 9.0)))
    search._allowance = int(options.pop("allowance", search._allowance))
    met, bound = search.supremum(lambda each: each.value.upper, **options)  # type: ignore[arg-type]
    return met, bound, len(search._cells)


def test_a_search_ends_within_two_percent_or_later_within_five(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    met, bound, cells = hump()
    assert met == pytest.approx(25.0)
    assert 1.0 <= bound / met <= 1.02
    assert cells == 15
    monkeypatch.setattr(module, "_FEW_CUTS", 6)
    met, bound, cells = hump()
    assert 1.02 < bound / met <= 1.05
    assert cells == 13
    monkeypatch.setattr(module, "_FEW_CUTS", 0)
    met, bound, _ = hump()
    assert 1.02 < bound / met <= 1.05
    # The cut after the few is the first that may be coarser.
    monkeypatch.setattr(module, "_FEW_CUTS", 7)
    assert hump()[2] == 15


def test_a_search_ends_with_its_cuts_its_cells_or_what_is_known() -> None:
    assert [hump(cuts=cuts)[2] for cuts in (0, 1, 2)] == [1, 3, 5]
    # Two cells more than the allowance at most: a cut is not made by half.
    assert [hump(allowance=allowed)[2] for allowed in (1, 2, 3, 4)] == [3, 5, 5, 7]
    assert hump(known=25.1)[1:] == (25.1, 1)
    assert hump(scale=10_000.0)[2] == 1
    assert hump(scale=25.0)[2] == 15


def test_of_a_formula_without_values_nothing_is_met() -> None:
    search = Extremes(parse("sqrt(a)"), box(a=(-4.0, -1.0)))
    assert search.supremum(lambda each: each.value.upper) == (-math.inf, -math.inf)


def test_a_search_that_comes_to_no_end_makes_a_hundred_cuts_or_twenty_for_the_gentler_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nothing = parse("(a - 1) * (a - 1) - a * a + 2 * a")  # one, however wide its bounds are
    search = Extremes(nothing, box(a=(1.0, 100.0)))
    search.supremum(lambda each: each.value.upper)
    assert len(search._cells) == 1 + 2 * 100
    allowed: list[int] = []

    def asked(self: Extremes, measure: module.Measure, *, known: float, cuts: int) -> Ends:
        allowed.append(cuts)
        return 0.0, 0.0

    monkeypatch.setattr(Extremes, "supremum", asked)
    for text in ("a * a", "-a * a", "3 * a"):
        Extremes(parse(text), box(a=(1.0, 9.0))).slope("a")
    assert allowed == [100, 20, 20, 100, 100, 20]


def test_a_peak_at_the_middle_of_a_half_ends_the_search() -> None:
    peak = parse(f"max(0, 1 - 1000 * abs(x - {math.sqrt(10.0)!r}))")
    search = Extremes(peak, box(x=(1.0, 100.0)))
    assert search.supremum(lambda each: each.value.upper) == pytest.approx((1.0, 1.0))
    assert len(search._cells) == 3


def test_the_width_is_from_the_top_to_the_bottom_each_within_one_percent_of_it() -> None:
    """Each end may be off by 2 % of half of what was met, below as above."""
    formula, sides = parse("a * (10 - a) * (a - 4)"), box(a=(1.0, 9.0))
    ends = Extremes(formula, sides)
    half = ends._spread() / 2
    top, above = ends.supremum(lambda each: each.value.upper, scale=half)
    bottom, below = ends.supremum(lambda each: -each.value.lower, scale=half)
    assert 0.0 < above - top <= 0.02 * half
    assert 0.0 < below - bottom <= 0.02 * half
    assert Extremes(formula, sides).width() == (top + bottom, above + below)
    # Half the allowed error would take more cells, and twice as much fewer.
    assert len(ends._cells) == 39


def test_between_the_ends_of_a_cell_a_formula_is_as_steep_as_its_change_says() -> None:
    line = Extremes(parse("b - 3 * a"), box(a=(1.0, 9.0), b=(1.0, 2.0)))
    assert line._jump("a") == 0.0  # no cell is left over
    line._highest = (Interval(2.0, 4.0), Interval(1.0, 2.0))
    assert line._jump("a") == pytest.approx(3.0)
    assert line._jump("b") == pytest.approx(1.0)
    line._highest = (Interval(2.0, 2.0), Interval(1.0, 2.0))
    assert line._jump("a") == 0.0
    for text, sides in (("sqrt(a)", (-1.0, 4.0)), ("sqrt(-a)", (-4.0, 1.0))):
        cut = Extremes(parse(text), box(a=sides))
        cut._highest = (Interval(*sides),)
        assert cut._jump("a") == 0.0  # one end has no value


def test_a_function_of_one_part_is_as_steep_as_the_two_together() -> None:
    def composed(text: str, **sides: Ends) -> dict[str, Ends]:
        return ends_of(Extremes(parse(text), box(**sides))._composed())

    a, b = (1.0, 2.0), (3.0, 5.0)
    assert composed("-(2 * (a * b))", a=a, b=b) == {
        "a": pytest.approx((-10, -6)),
        "b": pytest.approx((-4, -2)),
    }
    slopes = pytest.approx((-math.exp(4), -math.exp(1)))
    assert composed("exp(-(a - b))", a=a, b=b)["a"] == slopes
    # The part is from 2/3 to 8/5, though each of its two sides alone would allow more.
    twice = composed("exp(-(a - a / b))", a=a, b=b)["a"]
    assert twice == pytest.approx((-0.8 * math.exp(-2 / 3), -math.exp(-1.6) * 2 / 3))
    assert composed("a * b", a=a, b=b) == {}
    assert composed("exp(-(sqrt(a) * b))", a=(-4.0, -1.0), b=b) == {}  # nowhere defined
    assert composed("exp(-(b / a))", a=(-1.0, 1.0), b=b) == {}  # without end


def test_a_search_climbs_before_its_cuts_and_after_them_where_it_is_not_at_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    climbs: list[float] = []
    climb = Extremes._climb

    def counted(search: Extremes, measure: module.Measure) -> float:
        climbs.append(climb(search, measure))
        return climbs[-1]

    monkeypatch.setattr(Extremes, "_climb", counted)
    times = []
    for options in ({}, {"cuts": 2}, {"scale": 10_000.0}):
        hump(**options)
        times.append(len(climbs))
        climbs.clear()
    assert times == [1, 2, 0]


def test_an_enclosure_cannot_change() -> None:
    found = module._enclose(parse("a"), SIDES)
    assert found is not None
    with pytest.raises(FrozenInstanceError):
        found.elasticities = None  # type: ignore[misc]
