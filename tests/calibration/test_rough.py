"""A first look by rough weights changes nothing but the time: its bound holds, and so do releases.

The control is the same calibration without the first look, which weighs everybody in double
precision.
"""

from fractions import Fraction

import numpy as np
import pytest

from rootguard.calibration import Calibration, Level, make_plan
from rootguard.calibration.rough import BLOCK, RoughRows, RoughWeights
from rootguard.graph import Graph
from rootguard.mechanisms.base import Floats, Indices
from rootguard.template import Template, load_template
from rootguard.values import RootName
from tests.support.calibrated import (
    LOGNORMAL,
    NORMAL,
    Noised,
    drawn,
    levels_at,
    levels_of,
    synthetic,
    toy,
)

PEOPLE = 2 * BLOCK + 37
"""Several blocks, the last of them not full."""


class Careful(Calibration):
    """Weighs everybody in double precision."""

    def _first_look(self, _rows: object, plain: Floats, *_: object) -> Indices:
        return np.arange(plain.size)


class Counting(Calibration):
    """Counts whom the first look leaves."""

    left = 0

    def _first_look(self, *given: object) -> Indices:
        left = super()._first_look(*given)  # type: ignore[arg-type]
        self.left += left.size
        return left


def levels_under(template: Template, epsilon: str) -> dict[RootName, Level]:
    budget = Fraction(epsilon) * (2 * len(Graph.of(template).roots) + 1)
    return levels_of(make_plan(template, budget))


def noised(levels: dict[RootName, Level], template: Template, kind: str) -> Noised:
    if kind == "drawn":
        return drawn(levels, synthetic(template, PEOPLE, 3), template.name, kind)
    generator = np.random.default_rng(len(kind))
    sizes = {root: level.domain.size for root, level in levels.items()}
    if kind == "anywhere":
        return {root: generator.integers(0, size, PEOPLE) for root, size in sizes.items()}
    ends = {root: np.array([0, 1, size // 2, size - 2, size - 1]) for root, size in sizes.items()}
    return {root: generator.choice(each, PEOPLE) for root, each in ends.items()}


def assert_the_same(template: Template, levels: dict[RootName, Level], people: Noised) -> int:
    counting = Counting(template, levels)
    found, expected = (each.release_many(people) for each in (counting, Careful(template, levels)))
    for root, column in expected.items():
        assert found[root].tobytes() == column.tobytes()
    targets = [each(template, levels).targets_many(people) for each in (Calibration, Careful)]
    assert targets[0].tobytes() == targets[1].tobytes()
    return counting.left


@pytest.mark.parametrize("kind", ["drawn", "anywhere", "ends"])
@pytest.mark.parametrize("epsilon", ["0.01", "0.2", "3"])
@pytest.mark.parametrize("name", ["fib4", "homa", "nafld", "egfr", "ascvd"])
def test_a_first_look_changes_no_release(name: str, epsilon: str, kind: str) -> None:
    template = load_template(name)
    levels = levels_under(template, epsilon)
    assert_the_same(template, levels, noised(levels, template, kind))


@pytest.mark.parametrize(
    "formula", ["ln(a - b)", "a - b", "a / b", "a * 0 + 3", "1 if a > b else 2", "ln(a - b - 100)"]
)
def test_nor_where_targets_are_equal_or_have_no_value(formula: str) -> None:
    template = toy({"a": NORMAL, "b": LOGNORMAL}, formula, grid=300, limit=1.0)
    levels = levels_at(template, "geometric", "0.3")
    for kind in ("drawn", "anywhere", "ends"):
        assert_the_same(template, levels, noised(levels, template, kind))


def test_the_first_look_settles_nearly_everybody() -> None:
    """Else the tests above would compare a calibration with itself."""
    template = load_template("fib4")
    levels = levels_under(template, "0.1")
    assert assert_the_same(template, levels, noised(levels, template, "drawn")) < PEOPLE / 10


@pytest.mark.parametrize("kind", ["drawn", "anywhere", "ends"])
@pytest.mark.parametrize("epsilon", ["0.01", "0.2", "3"])
@pytest.mark.parametrize("name", ["fib4", "nafld", "ascvd"])
def test_no_rough_weight_is_farther_off_than_is_said(name: str, epsilon: str, kind: str) -> None:
    template = load_template(name)
    levels = levels_under(template, epsilon)
    if any(level.mechanism == "public" for level in levels.values()):
        pytest.skip("people are told apart by public values first")
    people = {root: column[:BLOCK] for root, column in noised(levels, template, kind).items()}
    calibration = Calibration(template, levels)
    rows = [p.rows(people[r]) for p, r in zip(calibration._posteriors, people, strict=True)]
    rough = calibration._rough
    assert rough is not None
    exact = calibration._weights(rows)
    with np.errstate(all="ignore"):
        weights = rough._weights(rows, BLOCK)
    lost = 1 / (np.finfo(np.float32).max * rough._least)
    off = np.abs(weights - exact) - lost
    assert (off <= rough.error(rows)[:, None] * exact).all()


def looked(weights: list[float], least: float = 1.0) -> tuple[int, bool]:
    """Where these weights come to their half, and whether that is sure."""
    rows = RoughRows(
        scores=np.zeros((1, 32), np.float32),
        doubt=np.ones((1, 64), np.float32),
        reach=np.zeros(1),
        least=least,
    )
    rough = RoughWeights([rows], np.zeros((1, 1)), 0.0, 0.1, np.zeros(32), np.zeros(32))
    error = rough.error([np.zeros(1, dtype=np.int64)])
    place, sure = rough._middle(np.array([weights], np.float32), error)
    return int(place[0]), bool(sure[0])


def test_a_half_that_falls_between_two_points_is_not_sure() -> None:
    assert not looked([1.0] * 64)[1]
    assert not looked([1.0] * 31 + [1 + 1e-6] + [1.0] * 32)[1]
    assert not looked([1.0] * 32 + [1 + 1e-6] + [1.0] * 31)[1]
    assert looked([1.0] * 31 + [1.01] + [1.0] * 32) == (31, True)
    assert looked([1.0] * 32 + [1.01] + [1.0] * 31) == (32, True)
    assert looked([100.0] + [1.0] * 63) == (0, True)
    assert looked([1.0] * 63 + [100.0]) == (63, True)


def test_weights_too_small_or_large_for_single_precision_are_not_sure() -> None:
    with np.errstate(all="ignore"):
        assert not looked([0.0] * 64)[1]
        assert not looked([np.inf] + [1.0] * 63)[1]
        assert not looked([np.nan] + [1.0] * 63)[1]
    assert not looked([1e-38] * 63 + [7e-37])[1]
    assert not looked([1.0] * 31 + [1.01] + [1.0] * 32, least=1e-37)[1]
