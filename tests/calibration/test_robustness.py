"""When the population is wrong about somebody, or about everybody; and no alarm is averaged away.

People are synthetic, drawn by `evaluation.cohorts` from the template's own figures. The calibration
is then told other figures: means two deviations off, variances off by a factor of four.
`python -m tests.calibration.test_robustness` prints the tables of docs/calibration.md.
"""

from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from rootguard.calibration import Calibration, make_plan, priors, release
from rootguard.graph import Graph
from rootguard.template import Root, Template, load_template
from rootguard.values import RootName
from tests.support.calibrated import (
    Noised,
    drawn,
    error,
    grid_points,
    levels_at,
    levels_of,
    synthetic,
    targets,
    toy,
    values_of,
)

TEMPLATES = ("fib4", "homa", "vascular")
EPSILONS = ("0.01", "0.05", "0.1")
PEOPLE = 4000
CHANGES = ("right", "mean + 2 sd", "mean - 2 sd", "variance x 4", "variance / 4")
MOST_LOSS = 2.3
"""How many times the uncalibrated error a wrong population costs at most at epsilon >= 0.05.
Measured: 2.0 (homa, whose insulin is then told a mean at its lower bound), else 1.2."""
MOST_LOSS_STRONG = 3.0
"""The same at epsilon 0.01, where the population decides most of the release. Measured: 2.70
(homa, a mean two deviations too high: the noise cannot contradict it), else 1.23."""
MOST_FALL = 0.02


def told(template: Template, change: str) -> Template:
    """The template with wrong figures for every root; correlations are kept."""
    roots = {name: wrong(root, change) for name, root in template.roots.items()}
    population = template.population
    if population is not None:
        spread = np.array(
            [(roots[r].sd or 0) / (template.roots[r].sd or 1) for r in population.roots]
        )
        scaled = np.array(population.covariance) * np.outer(spread, spread)
        rows = tuple(tuple(row) for row in scaled.tolist())
        population = replace(population, covariance=rows)
    return replace(template, roots=roots, population=population)


def wrong(root: Root, change: str) -> Root:
    """A root with wrong figures. A uniform root is its bounds; told a mean, it is normal."""
    if root.mean is None or root.sd is None or change == "right":
        return root
    mean, sd = root.mean, root.sd
    if change.startswith("variance"):
        return replace(root, sd=sd * (2 if change == "variance x 4" else 0.5))
    sign = 1 if change == "mean + 2 sd" else -1
    shape = "normal" if root.shape == "uniform" else root.shape
    return replace(root, mean=root.domain.clamp(mean + sign * 2 * sd), shape=shape)


@cache
def errors(name: str, epsilon: str) -> dict[str, float]:
    """The mean absolute error of the target: uncalibrated, and by what the calibration is told."""
    template = load_template(name)
    budget = Fraction(epsilon) * (2 * len(Graph.of(template).roots) + 1)
    levels = levels_of(make_plan(template, budget))
    true = synthetic(template, PEOPLE, 11)
    noised = drawn(levels, true, "robust", name, epsilon)
    truth = targets(template, values_of(levels, true))
    found = {"uncalibrated": error(targets(template, values_of(levels, noised)), truth)}
    for change in CHANGES:
        calibration = Calibration(told(template, change), levels)
        found[change] = error(calibration.targets_many(noised), truth)
    return found


by_template = pytest.mark.parametrize("name", TEMPLATES)
by_epsilon = pytest.mark.parametrize("epsilon", EPSILONS)


@by_template
@by_epsilon
def test_the_right_population_helps(name: str, epsilon: str) -> None:
    found = errors(name, epsilon)
    assert found["right"] <= found["uncalibrated"] * 1.005
    if epsilon == "0.01":
        assert found["right"] < found["uncalibrated"] * 0.9


@by_template
@by_epsilon
@pytest.mark.parametrize("change", CHANGES[1:])
def test_a_wrong_population_degrades_gracefully(name: str, epsilon: str, change: str) -> None:
    found = errors(name, epsilon)
    most = MOST_LOSS_STRONG if epsilon == "0.01" else MOST_LOSS
    assert found[change] <= found["uncalibrated"] * most
    assert found[change] >= found["right"] * 0.999  # and is no better than the right one


def test_more_epsilon_makes_a_wrong_population_matter_less() -> None:
    for name in TEMPLATES:
        excess = [
            max(errors(name, e)[c] / errors(name, e)["right"] for c in CHANGES) for e in EPSILONS
        ]
        assert excess[0] > excess[2]
        assert excess[2] < 2.3


def test_figures_that_contradict_the_draw_are_not_believed_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors.cache_clear()
    believed = errors("fib4", "0.1")["mean - 2 sd"]
    monkeypatch.setattr(release, "_LONELY", 1e9)  # no weight is that large
    errors.cache_clear()
    stubborn = errors("fib4", "0.1")["mean - 2 sd"]
    errors.cache_clear()
    assert stubborn > 4 * believed


A = RootName("a")


def unusual(*, flat: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[float, float]:
    """Errors of noised and calibrated values of a person six deviations above the mean."""
    template = toy({"a": "mean = 30.0\nsd = 3.0"}, "a", grid=1000, bounds=(0.0, 100.0))
    if not flat:
        monkeypatch.setattr(priors, "FLAT", 0.0)
    priors.marginal.cache_clear()
    levels = levels_at(template, "geometric", "0.1")
    true = {A: np.full(2000, template.roots[A].domain.nearest(48.0))}
    noised = drawn(levels, true, "unusual")
    released = Calibration(template, levels).release_many(noised)[A]
    monkeypatch.undo()
    priors.marginal.cache_clear()
    truth = grid_points(levels[A].domain)[true[A]]
    return error(values_of(levels, noised)[A], truth), error(released, truth)


def test_an_unusual_person_is_not_dragged_to_the_average(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, calibrated = unusual(flat=True, monkeypatch=monkeypatch)
    assert calibrated <= plain * 1.1
    assert plain < 1.1  # about ten steps of a tenth


def test_without_its_flat_part_the_prior_would_drag(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    plain, calibrated = unusual(flat=False, monkeypatch=monkeypatch)
    assert calibrated > plain * 4


def sensitivities(name: str, epsilon: str, people: int) -> tuple[float, float, float]:
    """The share of people of the highest class who are told so: noised, calibrated, no rule."""
    template = load_template(name)
    budget = Fraction(epsilon) * (2 * len(Graph.of(template).roots) + 1)
    levels = levels_of(make_plan(template, budget))
    true = synthetic(template, people, 5)
    noised = drawn(levels, true, "alarm", name)
    highest = template.risk[-1].label
    truth = targets(template, values_of(levels, true))
    sick = np.array([is_highest(template, t, highest) for t in truth.tolist()])
    chosen: Noised = {root: column[sick] for root, column in noised.items()}
    ruled = Calibration(template, levels).targets_many(chosen)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Calibration, "_alarm_limit", None)
        free = Calibration(template, levels).targets_many(chosen)
    plain = targets(template, values_of(levels, chosen))
    shares = [
        float(np.mean([is_highest(template, t, highest) for t in found.tolist()]))
        for found in (plain, ruled, free)
    ]
    return shares[0], shares[1], shares[2]


def is_highest(template: Template, target: float, label: str) -> bool:
    found = template.classify(target)
    return found is not None and found.label == label


RARE = ("fib4", "vascular", "apri", "tg_hdl")
"""Templates whose highest class few people are in: 5 %, 3 %, 0.3 % and 27 %."""


@pytest.mark.parametrize("name", RARE)
def test_alarms_are_not_averaged_away(name: str) -> None:
    noised, calibrated, _ = sensitivities(name, "0.05", 20_000)
    assert calibrated >= noised - MOST_FALL


@pytest.mark.parametrize("name", ["fib4", "vascular"])
def test_without_the_rule_alarms_would_be_lost(name: str) -> None:
    """The control: the plain posterior median misses more than the rule allows."""
    noised, calibrated, free = sensitivities(name, "0.05", 20_000)
    assert free < noised - MOST_FALL
    assert free < calibrated - MOST_FALL


def table() -> str:
    lines = ["| template | ε | uncalibrated | " + " | ".join(CHANGES) + " |", "|---" * 8 + "|"]
    for name in TEMPLATES:
        for epsilon in EPSILONS:
            found = errors(name, epsilon)
            cells = [f"{found[c] / found['uncalibrated']:.2f}" for c in CHANGES]
            lines.append(
                f"| {name} | {epsilon} | {found['uncalibrated']:.4g} | {' | '.join(cells)} |"
            )
    return "\n".join(lines)


def alarms() -> str:
    lines = ["| template | noised | calibrated | without the rule |", "|---|---|---|---|"]
    for name in (*RARE, "nlr", "homa", "anemia"):
        shares = sensitivities(name, "0.05", 20_000)
        lines.append(f"| {name} | " + " | ".join(f"{100 * s:.1f}" for s in shares) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())  # noqa: T201
    print(alarms())  # noqa: T201
