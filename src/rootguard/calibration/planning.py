"""The population plan: epsilons that make calibrated targets accurate over a whole population.

The optimal plan of `allocation` weighs roots by the target's slope at one typical person. Here the
expected absolute error of the calibrated target is computed over people who fill the template's
prior evenly, with noise that fills its distribution evenly (quasi-Monte-Carlo), and the shares are
searched for that make it small. People and noise are the same for every candidate, so candidates
differ by their epsilons alone. Public figures in, a public plan out: cached, never random.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from rootguard.allocation import Objective, Plan, fitted, with_epsilons
from rootguard.allocation import make_plan as first_order_plan
from rootguard.calibration.priors import (
    Marginal,
    has_figures,
    marginal,
    people,
    spread_points,
)
from rootguard.calibration.release import Calibration, Level
from rootguard.expressions import evaluate_many
from rootguard.graph import Graph
from rootguard.mechanisms import mechanism
from rootguard.mechanisms.base import MAX_EPSILON, Floats, Indices
from rootguard.template import Template
from rootguard.values import MICRO, AllocationName, Domain, MechanismName

# On one synthetic cohort at epsilon 0.01, 512 people made nlr 2.9 % worse, and 2,048 took twice as
# long for nothing (docs/calibration.md).
PEOPLE = 1024
# Half of what a release takes: candidates are compared with each other, by the same points.
_POINTS = 128
_STRIDES = (0.6, 0.3, 0.15)
"""Steps of the search, in the logarithm of a root's epsilon."""
_FINE = 0.3
"""A grid may be made coarser while its epsilon per step stays below this."""
_LEAST_POINTS = 100
"""And never below so many points, for the shape of the prior."""
_CLEAR = 20.0
"""Where every root varies by this many times 1 / epsilon, calibration changes next to nothing."""


def make_plan(
    template: Template,
    budget: Fraction,
    *,
    mechanism_name: MechanismName = "geometric",
    allocation: AllocationName = "optimal",
    objective: Objective | None = None,
) -> Plan:
    """Split a budget over a template's roots, by default to make its target accurate.

    `population` plans for the calibrated target; with another objective, or without population
    figures, it is the optimal plan.
    """
    if allocation != "population":
        return first_order_plan(
            template,
            budget,
            mechanism_name=mechanism_name,
            allocation=allocation,
            objective=objective,
        )
    start = first_order_plan(template, budget, mechanism_name=mechanism_name, objective=objective)
    figures = any(has_figures(template.roots[share.root]) for share in start.shares)
    if objective is not None or not figures or len(start.shares) == 1:
        return replace(start, allocation="population")
    return _population_plan(template, start)


@lru_cache(maxsize=4096)
def _population_plan(template: Template, start: Plan) -> Plan:
    search = _Search(template, start)
    return with_epsilons(start, search.best(), "population")


class _Search:
    """Candidates around the optimal plan, each priced by its expected error."""

    def __init__(self, template: Template, start: Plan) -> None:
        self._template = template
        self._name = start.mechanism
        self._budget = float(start.budget)
        self._roots = tuple(share.root for share in start.shares)
        self._start = [math.log(float(share.epsilon)) for share in start.shares]
        self._people = people(template, self._roots, PEOPLE)
        self._shares = spread_points(PEOPLE, 2 * len(self._roots))[:, len(self._roots) :]
        self._formula = Graph.of(template).in_roots(template.target.formula)
        self._domains = [template.roots[root].domain for root in self._roots]
        self._priors = [
            marginal(template.roots[root], domain)
            for root, domain in zip(self._roots, self._domains, strict=True)
        ]
        self._spreads = [_spread(d, p) for d, p in zip(self._domains, self._priors, strict=True)]
        self._truth = self._targets(self._people)

    def best(self) -> list[float]:
        """The best shares met: each root's epsilon is raised and lowered while that helps."""
        at, loss = self._start, self.loss(self._fitted(self._start))
        for stride in _STRIDES:
            improved = True
            while improved:
                improved = False
                for i in range(len(at)):
                    for step in (stride, -stride):
                        moved = [a + step if j == i else a for j, a in enumerate(at)]
                        found = self.loss(self._fitted(moved))
                        # By a thousandth at least, so that rounding cannot make it walk for ever.
                        if found < loss * (1 - 1e-3):
                            at, loss, improved = moved, found, True
                            break
        return self._fitted(at)

    def _targets(self, indices: Sequence[Indices]) -> Floats:
        points = {
            str(root): prior.points[index]
            for root, prior, index in zip(self._roots, self._priors, indices, strict=True)
        }
        return evaluate_many(self._formula, points)

    def _plain_loss(self, epsilons: list[float]) -> float:
        noised = [
            _noised(_level(domain, self._name, epsilon), true, self._shares[:, i])
            for i, (domain, epsilon, true) in enumerate(
                zip(self._domains, epsilons, self._people, strict=True)
            )
        ]
        return float(np.nanmean(np.abs(self._targets(noised) - self._truth)))

    def _fitted(self, logs: list[float]) -> list[float]:
        """Epsilons in these proportions that sum to the budget, none below the minimum."""
        return fitted([math.exp(log) for log in logs], self._budget)

    def loss(self, epsilons: list[float]) -> float:
        """The mean absolute error of the target over the people, calibrated where that matters."""
        if all(e * s >= _CLEAR for e, s in zip(epsilons, self._spreads, strict=True)):
            return self._plain_loss(epsilons)
        noised, levels = {}, {}
        for i, (root, epsilon) in enumerate(zip(self._roots, epsilons, strict=True)):
            level, factor = _coarser(self._template.roots[root].domain, self._name, epsilon)
            levels[root] = level
            true = np.rint(self._people[i] / factor).astype(np.int64)
            noised[root] = _noised(level, true, self._shares[:, i])
        calibration = Calibration(self._template, levels, points=_POINTS)
        found = calibration.targets_many(noised)
        return float(np.nanmean(np.abs(found - self._truth)))


def _spread(domain: Domain, prior: Marginal) -> float:
    """The standard deviation of a prior, in grid steps."""
    mean = prior.points @ prior.mass
    return float(math.sqrt((prior.points - mean) ** 2 @ prior.mass) / domain.step)


def _coarser(domain: Domain, name: MechanismName, epsilon: float) -> tuple[Level, float]:
    """The same noise on a grid with fewer points, and how many old steps a new one has."""
    size = domain.size
    while size >= 2 * _LEAST_POINTS and epsilon * (domain.size - 1) / (size - 1) < _FINE:
        size = (size + 1) // 2
    factor = (domain.size - 1) / (size - 1)
    coarse = Domain(lower=domain.lower, upper=domain.upper, size=size)
    return _level(coarse, name, epsilon * factor), factor


def _level(domain: Domain, name: MechanismName, epsilon: float) -> Level:
    exact = Fraction(max(round(epsilon * MICRO), 1), MICRO)
    return Level(domain=domain, mechanism=name, epsilon=min(exact, Fraction(MAX_EPSILON)))


def _noised(level: Level, true: Indices, shares: Floats) -> Indices:
    """What each true index becomes under the noise that has each share below it.

    The noise of the grid's centre is used for all: exponential noise differs a little elsewhere.
    """
    noise = mechanism(level.mechanism, level.epsilon, level.domain.size)
    below = np.cumsum(np.exp(noise.log_pmf(noise.centre, np.arange(noise.size))))
    moved = true + np.searchsorted(below, shares * below[-1]) - noise.centre
    noised: Indices = np.clip(moved, 0, noise.size - 1)
    return noised
