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

from rootguard.advice.people import PAPER_TEMPLATES
from rootguard.advice.utility import class_numbers
from rootguard.calibration import Calibration, make_plan, priors, release
from rootguard.expressions import gradient
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
Measured: 1.19 (homa, told a quarter of its variance)."""
MOST_LOSS_STRONG = 3.0
"""The same at epsilon 0.01, where the population decides most of the release. Measured: 2.60
(homa, a mean two deviations too high: the noise cannot contradict it), else 1.22."""
MOST_FALL = 0.02
"""And two standard errors of the share that is found, as for patients (docs/evaluation.md)."""
TIED = ("fib4", "conicity", "anemia")
"""Templates whose roots move together."""


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
    root = replace(root, median=None, log_sd=None)
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


def shifted(template: Template) -> Template:
    """A clinic: every mean one deviation towards illness, every deviation doubled.

    Illness is where the target moves into a worrying class, whatever that does to the ties.
    """
    graph = Graph.of(template)
    centre = template.centre()
    point = {str(root): centre[root] for root in graph.roots}
    _, slopes = gradient(graph.in_roots(template.target.formula), point)
    upwards = template.risk[-1].worrying and not template.risk[0].worrying
    roots = {}
    for name, root in template.roots.items():
        if root.mean is None or root.sd is None:
            roots[name] = root
            continue
        towards = 1 if (slopes.get(name, 0.0) >= 0) == upwards else -1
        roots[name] = replace(
            root,
            mean=root.domain.clamp(root.mean + towards * root.sd),
            sd=2 * root.sd,
            shape="normal" if root.shape == "uniform" else root.shape,
            median=None,
            log_sd=None,
        )
    population = template.population
    if population is not None:
        rows = tuple(tuple(4 * entry for entry in row) for row in population.covariance)
        population = replace(population, covariance=rows)
    return replace(template, roots=roots, population=population)


@cache
def shift_ratio(name: str, epsilon: str) -> float:
    """The calibrated error over the uncalibrated one among people of a shifted population."""
    template = load_template(name)
    budget = Fraction(epsilon) * (2 * len(Graph.of(template).roots) + 1)
    levels = levels_of(make_plan(template, budget))
    true = synthetic(shifted(template), PEOPLE, 17)
    noised = drawn(levels, true, "shifted", name, epsilon)
    truth = targets(template, values_of(levels, true))
    calibrated = Calibration(template, levels).targets_many(noised)
    return error(calibrated, truth) / error(targets(template, values_of(levels, noised)), truth)


@pytest.mark.parametrize("name", TIED)
@pytest.mark.parametrize("epsilon", ["0.05", "0.1"])
def test_a_shifted_population_pays_little(name: str, epsilon: str) -> None:
    assert shift_ratio(name, epsilon) <= 1.15


def test_ties_that_nobody_doubts_would_cost_a_shifted_population_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control."""
    monkeypatch.setattr(release, "UNTIED", 1e-12)
    shift_ratio.cache_clear()
    stubborn = shift_ratio("conicity", "0.1")
    shift_ratio.cache_clear()
    assert stubborn > 1.5


A = RootName("a")


def forget_priors() -> None:
    priors.marginal.cache_clear()
    priors.prior_given.cache_clear()


def unusual(*, flat: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[float, float]:
    """Errors of noised and calibrated values of a person six deviations above the mean."""
    template = toy({"a": "mean = 30.0\nsd = 3.0"}, "a", grid=1000, bounds=(0.0, 100.0))
    if not flat:
        monkeypatch.setattr(priors, "FLAT", 0.0)
    forget_priors()
    levels = levels_at(template, "geometric", "0.1")
    true = {A: np.full(2000, template.roots[A].domain.nearest(48.0))}
    noised = drawn(levels, true, "unusual")
    released = Calibration(template, levels).release_many(noised)[A]
    monkeypatch.undo()
    forget_priors()
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


def recalls(name: str, epsilon: str, people: int) -> dict[str, tuple[float, float, float, int]]:
    """For each worrying class the share of its people who are told so: noised, calibrated, and
    calibrated without alarms; and how many they are."""
    template = load_template(name)
    budget = Fraction(epsilon) * (2 * len(Graph.of(template).roots) + 1)
    levels = levels_of(make_plan(template, budget))
    true = synthetic(template, people, 5)
    noised = drawn(levels, true, "alarm", name)
    truth = class_numbers(template.risk, targets(template, values_of(levels, true)))
    deaf = replace(template, risk=tuple(replace(risk, worrying=False) for risk in template.risk))
    found = {}
    for number, risk in enumerate(template.risk):
        sick = truth == number
        if not risk.worrying or not sick.any():
            continue
        chosen: Noised = {root: column[sick] for root, column in noised.items()}
        released = (
            targets(template, values_of(levels, chosen)),
            Calibration(template, levels).targets_many(chosen),
            Calibration(deaf, levels).targets_many(chosen),
        )
        shares = [float(np.mean(class_numbers(template.risk, t) == number)) for t in released]
        found[risk.label] = (shares[0], shares[1], shares[2], int(sick.sum()))
    return found


ALARMED = ("fib4", "vascular", "apri", "anemia", "mentzer", "quicki", "nlr")
"""Worrying classes that are first, last or both; common and rare."""


@pytest.mark.parametrize("name", ALARMED)
def test_alarms_are_not_averaged_away_wherever_the_worrying_class_stands(name: str) -> None:
    for label, (noised, calibrated, _, sick) in recalls(name, "0.05", 20_000).items():
        error = (calibrated * (1 - calibrated) / sick) ** 0.5
        assert calibrated >= noised - MOST_FALL - 2 * error, label


@pytest.mark.parametrize(
    ("name", "label"), [("fib4", "high"), ("anemia", "hypochromic"), ("vascular", "high stiffness")]
)
def test_without_alarms_the_sick_would_be_hidden(name: str, label: str) -> None:
    """The control: the plain posterior median misses more than is allowed."""
    noised, calibrated, free, _ = recalls(name, "0.05", 20_000)[label]
    assert free < noised - MOST_FALL
    assert free < calibrated - MOST_FALL


def test_a_middle_class_that_worries_is_kept_too() -> None:
    template = load_template("fib4")
    middle = tuple(replace(risk, worrying=risk.label == "indeterminate") for risk in template.risk)
    marked = replace(template, risk=middle)
    levels = levels_of(make_plan(template, Fraction("0.09")))
    noised = drawn(levels, synthetic(template, 4000, 5), "middle")
    plain = class_numbers(template.risk, targets(template, values_of(levels, noised))) == 1

    def stayed(of: Template) -> float:
        released = Calibration(of, levels).targets_many(noised)
        return float(np.mean(class_numbers(template.risk, released)[plain] == 1))

    assert stayed(marked) > stayed(template) + 0.1


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


def shifts() -> str:
    lines = ["| template | ε = 0.1 | ε = 0.05 | ε = 0.01 |", "|---|---|---|---|"]
    ratios = {
        name: [shift_ratio(name, epsilon) for epsilon in ("0.1", "0.05", "0.01")]
        for name in PAPER_TEMPLATES
    }
    for name, found in ratios.items():
        lines.append(f"| {name} | " + " | ".join(f"{ratio:.2f}" for ratio in found) + " |")
    means = np.mean(list(ratios.values()), axis=0).tolist()
    lines.append("| mean | " + " | ".join(f"{mean:.2f}" for mean in means) + " |")
    return "\n".join(lines)


def alarms() -> str:
    lines = ["| template | class | noised | calibrated | without alarms |", "|---|---|---|---|---|"]
    for name in (*ALARMED, "tg_hdl", "homa"):
        for label, shares in recalls(name, "0.05", 20_000).items():
            cells = " | ".join(f"{100 * share:.1f}" for share in shares[:3])
            lines.append(f"| {name} | {label} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())  # noqa: T201
    print(shifts())  # noqa: T201
    print(alarms())  # noqa: T201
