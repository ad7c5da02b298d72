"""The population plan: epsilons that make calibrated targets accurate over a whole population.

The optimal plan of `allocation` weighs roots by the target's slope at one typical person, and
forgets that calibration knows the population. Here the error of a calibrated target is

    mean over people x of sqrt(g' (C^-1 + A)^-1 g),

with C the latent correlations, g the target's slopes at x times the roots' deviations there, and A
the information of the noise, diagonal: a deviation's square over the noise's variance. That is the
posterior deviation of the target where everything is normal and the target a plane. Its gradient is
at hand, so shares follow in milliseconds. Where the target bends or the noise is as wide as the
bounds it can mislead; so the plan, the optimal plan and two between them are then tried on people
and noise that fill their distributions evenly (quasi-Monte-Carlo), and the best is taken. Public
figures in, a public plan out: never random, kept in memory and on disk (`plan_cache`).
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from rootguard.allocation import Objective, Plan, fitted, with_epsilons
from rootguard.allocation import make_plan as first_order_plan
from rootguard.calibration import plan_cache
from rootguard.calibration.priors import (
    Marginal,
    has_figures,
    latent_correlation,
    marginal,
    people,
    spread_points,
)
from rootguard.calibration.release import Calibration, Level
from rootguard.expressions import evaluate_many
from rootguard.graph import Graph
from rootguard.mechanisms import MECHANISMS
from rootguard.mechanisms.base import MAX_EPSILON, Floats, Indices
from rootguard.template import Root, Template, load_template
from rootguard.values import MICRO, AllocationName, Amount, Domain, MechanismName, parse_epsilon

PEOPLE = 512
"""On whom the candidates are tried."""
_SLOPES = 256
"""At how many people the target's slopes are taken."""
# A quarter of what a release takes: candidates are compared with each other, by the same points.
_POINTS = 64
_TRIED = (0.0, 0.33, 0.67)
"""How far from the optimal plan towards the surrogate's, in the logarithms of epsilons."""
_BETTER = 0.99
"""A candidate must be better than the surrogate's by this factor: less is the sample's own luck."""
_ROUNDS = 100  # at the most; it stops when a step gains less than a millionth of the error
_FINE = 0.3
"""A grid may be made coarser while its epsilon per step stays below this."""
_LEAST_POINTS = 100
"""And never below so many points, for the shape of the prior."""
_CLEAR = 20.0
"""Where every root varies by this many times 1 / epsilon, calibration changes next to nothing."""
_UNBOUNDED = 1 << 16
"""Points of a grid whose ends noise does not meet, even at the least epsilon."""


def make_plan(
    template: Template | str,
    budget: Amount,
    *,
    mechanism_name: MechanismName = "geometric",
    allocation: AllocationName = "optimal",
    objective: Objective | None = None,
) -> Plan:
    """Split a budget over a template's roots, by default to make its target accurate.

    `population` plans for the calibrated target; with another objective, or without population
    figures, it is the optimal plan. A template may go by its name.
    """
    template = load_template(template) if isinstance(template, str) else template
    budget = parse_epsilon(budget)
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
    # Of answers it knows yes or no alone so far, and it does not know what is public.
    unlike = any(s.public or not (s.type.on_a_line or s.domain.size == 2) for s in start.shares)
    if objective is not None or not figures or unlike or len(start.shares) == 1:
        return replace(start, allocation="population")
    return _population_plan(template, start)


@lru_cache(maxsize=4096)
def _population_plan(template: Template, start: Plan) -> Plan:
    key = plan_cache.key(template.digest, start.mechanism, start.budget)
    kept = plan_cache.read(key, start.budget, len(start.shares))
    if kept is None:
        found = with_epsilons(start, _Search(template, start).best(), "population")
        plan_cache.write(key, [share.epsilon for share in found.shares])
        return found
    return with_epsilons(start, [float(epsilon) for epsilon in kept], "population")


class _Search:
    """Candidates beside the optimal plan, each priced by its expected error."""

    def __init__(self, template: Template, start: Plan) -> None:
        self._template = template
        self._name = start.mechanism
        self._budget = float(start.budget)
        self._roots = tuple(share.root for share in start.shares)
        self._start = [float(share.epsilon) for share in start.shares]
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
        """The surrogate's plan, or one that lies towards the optimal plan if it is clearly better.

        Where noise is small everywhere the candidates are one and the same, but for a yes or no.
        """
        found = self._surrogate()
        logs = [(math.log(f), math.log(s)) for f, s in zip(found, self._start, strict=True)]
        best, least = found, _BETTER * self.loss(found)
        for share in _TRIED:
            between = [math.exp(share * one + (1 - share) * other) for one, other in logs]
            candidate = fitted(between, self._budget)
            if (loss := self.loss(candidate)) < least:
                best, least = candidate, loss
        return best

    def _surrogate(self) -> list[float]:
        """Shares at which every root gains the same from a little more budget.

        Each epsilon is multiplied by a power of its gain over the mean gain, as far as that helps.
        """
        slopes, scales = self._local()
        tied = np.linalg.inv(latent_correlation(self._template, self._roots))
        steps = np.arange(len(self._roots))

        def priced(epsilons: list[float]) -> tuple[float, Floats]:
            """The error, and what each root gains by a little more epsilon."""
            information, rise = np.transpose(
                [
                    _information(self._name, d, e)
                    for d, e in zip(self._domains, epsilons, strict=True)
                ]
            )
            matrix = np.tile(tied, (len(slopes), 1, 1))
            matrix[:, steps, steps] += information * scales**2
            pull = np.linalg.solve(matrix, slopes[:, :, None])[:, :, 0]
            error = np.sqrt(np.maximum((slopes * pull).sum(axis=1), 1e-300))
            gains = ((pull * scales) ** 2 / (2 * error[:, None])).mean(axis=0) * rise
            return float(error.mean()), np.maximum(gains, 1e-300)

        epsilons = self._start
        error, gains = priced(epsilons)
        # Half of the way to where all gains are equal: the whole way overshoots, since moving one
        # epsilon changes the others' gains. Longer while it helps, shorter when it does not.
        stride = 0.5
        for _ in range(_ROUNDS):
            level = math.log(float(gains @ epsilons) / self._budget)
            power = np.clip(stride * (np.log(gains) - level), -2, 2).tolist()
            moved = fitted(
                [e * math.exp(p) for e, p in zip(epsilons, power, strict=True)], self._budget
            )
            found, after = priced(moved)
            if found < error:
                close = error - found < 1e-6 * error  # no digit that anybody is shown
                epsilons, error, gains = moved, found, after
                stride = min(1.2 * stride, 0.9)
                if close:
                    break
            else:
                stride /= 2
                if stride < 1e-3:  # epsilons would move by less than a thousandth of themselves
                    break
        return epsilons

    def _local(self) -> tuple[Floats, Floats]:
        """The target's slopes per deviation, and the deviations: (people, roots) each.

        Of a yes or no the slope is the whole difference. A lognormal root deviates by a share of
        its value; a root without figures fills its bounds.
        """
        values = [p.points[i[:_SLOPES]] for p, i in zip(self._priors, self._people, strict=True)]
        here = self._truth[:_SLOPES]
        slopes, scales = [], []
        for i, (root, domain) in enumerate(zip(self._roots, self._domains, strict=True)):
            step = domain.width if domain.size == 2 else domain.step / 100
            inside = np.where(values[i] - domain.lower > domain.width / 2, -step, step)
            moved = [value + inside if j == i else value for j, value in enumerate(values)]
            slope = np.nan_to_num((self._at(moved) - here) / inside)
            scale = _deviation(self._template.roots[root], domain, values[i])
            slopes.append(slope * scale)
            scales.append(scale)
        return np.transpose(slopes), np.transpose(scales)

    def _at(self, values: Sequence[Floats]) -> Floats:
        columns = {str(root): value for root, value in zip(self._roots, values, strict=True)}
        return evaluate_many(self._formula, columns)

    def _targets(self, indices: Sequence[Indices]) -> Floats:
        return self._at([p.points[i] for p, i in zip(self._priors, indices, strict=True)])

    def _plain_loss(self, epsilons: list[float]) -> float:
        noised = [
            _noised(_level(domain, self._name, epsilon), true, self._shares[:, i])
            for i, (domain, epsilon, true) in enumerate(
                zip(self._domains, epsilons, self._people, strict=True)
            )
        ]
        return float(np.nanmean(np.abs(self._targets(noised) - self._truth)))

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


def _deviation(root: Root, domain: Domain, values: Floats) -> Floats:
    """How far a root varies about each value, in its own unit."""
    if root.shape == "uniform" or root.mean is None or root.sd is None:
        return np.full(values.shape, domain.width / (2 if domain.size == 2 else math.sqrt(12)))
    if root.shape == "lognormal":
        moments = math.sqrt(math.log1p((root.sd / root.mean) ** 2))
        return values * (moments if root.log_sd is None else root.log_sd)
    return np.full(values.shape, root.sd)


def _information(name: MechanismName, domain: Domain, epsilon: float) -> tuple[float, float]:
    """One over the noise's variance, in the root's unit, and its derivative in epsilon.

    The variance is that of Laplace noise with the mechanism's mean error e: 2 e^2. A yes or no that
    is flipped with probability p has the variance p (1 - p) left of 1/4 before: the information is
    the difference of their inverses.
    """
    curve = MECHANISMS[name].error_curve
    if domain.size == 2:
        wrong, slope, _ = curve(epsilon, 2)
        wrong = min(max(wrong, 1e-12), 0.5)
        left = wrong * (1 - wrong)
        return (1 / left - 4) / domain.width**2, -slope * (
            1 - 2 * wrong
        ) / left**2 / domain.width**2
    error, slope, _ = curve(epsilon, _UNBOUNDED)
    error, slope = error * domain.step, slope * domain.step
    return 1 / (2 * error**2), -slope / error**3


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
    noise = level.noise()
    below = np.cumsum(np.exp(noise.log_pmf(noise.centre, np.arange(noise.size))))
    moved = true + np.searchsorted(below, shares * below[-1]) - noise.centre
    noised: Indices = np.clip(moved, 0, noise.size - 1)
    return noised
