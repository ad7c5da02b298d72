"""Extremes over a box: bounds hold every point, and come near what is met."""

import math
import random
from collections.abc import Mapping

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
