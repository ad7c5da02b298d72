"""One root against the optimum: no epsilon-private mechanism at all has a smaller expected error.

For one root on 30 points the best mechanism for a prior and absolute loss is a linear programme:
choose P(s | t) >= 0 with rows that sum to one and P(s | t) <= e^eps P(s | t +- 1), such that
sum prior(t) P(s | t) |s - t| is least. The geometric mechanism reaches it after post-processing,
whatever the prior (Ghosh, Roughgarden & Sundararajan 2009); the others show what they give away.

`python -m tests.calibration.test_optimum` prints the table of docs/calibration.md.
"""

from functools import cache

import numpy as np
import pytest
from scipy.optimize import linprog

from rootguard.calibration import Calibration
from rootguard.calibration.priors import marginal
from rootguard.mechanisms.base import Floats
from rootguard.template import Template
from rootguard.values import MechanismName, RootName
from tests.support.calibrated import (
    LOGNORMAL,
    NAMES,
    NORMAL,
    UNIFORM,
    every_output,
    grid_points,
    joint_noise,
    levels_at,
    toy,
)

SIZE = 30
EPSILONS = ("0.1", "0.3", "1")
SHAPES = {"normal": NORMAL, "lognormal": LOGNORMAL, "uniform": UNIFORM}
A = RootName("a")

by_shape = pytest.mark.parametrize("shape", SHAPES)
by_epsilon = pytest.mark.parametrize("epsilon", EPSILONS)


def one_root(shape: str) -> Template:
    return toy({"a": SHAPES[shape]}, "a", grid=SIZE)


def prior_of(template: Template) -> Floats:
    return marginal(template.roots[A], template.roots[A].domain).mass


@cache
def least_possible(shape: str, epsilon: str) -> float:
    """The optimum over all mechanisms, in grid steps."""
    prior = prior_of(one_root(shape))
    true, said = np.indices((SIZE, SIZE)).reshape(2, -1)
    cost = prior[true] * np.abs(true - said)
    inner = np.flatnonzero(true < SIZE - 1)
    below, above = inner, inner + SIZE  # the same output, inputs t and t + 1
    count = inner.size
    limits = np.zeros((2 * count, SIZE**2))
    for rows, one, other in ((slice(count), below, above), (slice(count, None), above, below)):
        part, each = limits[rows], np.arange(count)
        part[each, one], part[each, other] = 1.0, -np.exp(float(epsilon))
    sums = np.zeros((SIZE, SIZE**2))
    sums[true, np.arange(SIZE**2)] = 1.0
    found = linprog(
        cost,
        A_ub=limits,
        b_ub=np.zeros(2 * count),
        A_eq=sums,
        b_eq=np.ones(SIZE),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert found.status == 0
    assert found.fun is not None
    return float(found.fun)


def reached(shape: str, epsilon: str, name: MechanismName, *, calibrated: bool = True) -> float:
    """The expected absolute error of the release, in grid steps, exactly."""
    template = one_root(shape)
    levels = levels_at(template, name, epsilon)
    points = grid_points(template.roots[A].domain)
    released = points
    if calibrated:
        released = Calibration(template, levels).release_many(every_output(template))[A]
    gap = np.abs(released[None, :] - points[:, None]) / template.roots[A].domain.step
    return float((prior_of(template)[:, None] * joint_noise(levels) * gap).sum())


@by_shape
@by_epsilon
def test_the_calibrated_geometric_mechanism_is_the_best_there_is(shape: str, epsilon: str) -> None:
    ratio = reached(shape, epsilon, "geometric") / least_possible(shape, epsilon)
    assert ratio == pytest.approx(1, abs=1e-6)


@by_shape
@by_epsilon
@pytest.mark.parametrize("name", NAMES)
def test_no_mechanism_is_better_than_the_optimum(
    shape: str, epsilon: str, name: MechanismName
) -> None:
    assert reached(shape, epsilon, name) >= least_possible(shape, epsilon) * (1 - 1e-6)


@by_shape
@by_epsilon
@pytest.mark.parametrize("name", NAMES)
def test_calibration_never_makes_one_root_worse(
    shape: str, epsilon: str, name: MechanismName
) -> None:
    noised = reached(shape, epsilon, name, calibrated=False)
    assert reached(shape, epsilon, name) <= noised * (1 + 1e-12)


@by_epsilon
def test_the_check_tells_the_optimum_from_what_is_not(epsilon: str) -> None:
    """The controls: uncalibrated, and with half the epsilon, the same noise misses by far."""
    best = least_possible("normal", epsilon)
    half = str(float(epsilon) / 2)
    assert reached("normal", epsilon, "exponential") > best * 1.05
    assert reached("normal", half, "geometric") > best * 1.05
    if epsilon != "1":  # there calibration has little left to do
        assert reached("normal", epsilon, "geometric", calibrated=False) > best * 1.05


def table() -> str:
    """Ratios of expected error to the optimum, as rows of Markdown."""
    lines = ["| prior | ε | least error | " + " | ".join(NAMES) + " |", "|---" * 7 + "|"]
    for shape in SHAPES:
        for epsilon in EPSILONS:
            best = least_possible(shape, epsilon)
            ratios = " | ".join(f"{reached(shape, epsilon, name) / best:.6f}" for name in NAMES)
            lines.append(f"| {shape} | {epsilon} | {best:.4f} | {ratios} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())  # noqa: T201
