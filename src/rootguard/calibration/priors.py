"""What is public about a root before its noised value is seen: a distribution on its grid.

Each root has the shape and the figures that its template gives (the median and the deviation of
the logarithm where they are stated, else mean and deviation), cut at the bounds, mixed with a flat
part, so that an unusual person is not dragged to the average. Flat means flat in the shape's own
scale: in the logarithm for a lognormal root. Roots that vary together are tied by a Gaussian copula
(Sklar 1959), with latent correlations that give the published rank correlations or covariance.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from rootguard.mechanisms.base import Floats, Indices
from rootguard.template import Root, Template
from rootguard.values import Domain, RootName

# Found by trying constants on synthetic people and on the development cohort; docs/calibration.md
# says what choices that see no judging patient give.
FLAT = 0.02
"""The flat part's share."""
UNTIED = 0.05
"""The share of people whose roots are not tied to each other. Who is unlike the population is
seldom unlike it in the same way: where the noised roots contradict the ties by more than this, the
ties are not believed and each root is judged by itself."""
_STANDARD = NormalDist()
_MOST_TIED = 0.99
"""Published covariances are rounded; roots that they make one and the same are still two."""
_LEAST_SPREAD = 1e-3
"""Latent correlations are pulled back until the smallest eigenvalue is this large."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Marginal:
    """One root's prior: grid points, the probability of each, and its normal score."""

    points: Floats
    mass: Floats
    scores: Floats
    """The standard normal quantile of the probability below a point and half its own."""


def has_figures(root: Root) -> bool:
    """Whether a template says anything about a root's distribution."""
    known = root.mean is not None and root.sd is not None and root.sd > 0
    return known or root.shares is not None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class JointPrior:
    """What is known of several roots together: each by itself, and how their scores are tied."""

    marginals: Sequence[Marginal]
    latent: Floats


@lru_cache(maxsize=512)
def marginal(root: Root, domain: Domain) -> Marginal:
    """A root's prior on a grid, which need not be the root's own; flat without figures."""
    points = domain.lower + np.arange(domain.size, dtype=np.float64) * domain.step
    points[-1] = domain.upper
    edges = domain.lower + (np.arange(domain.size + 1, dtype=np.float64) - 0.5) * domain.step
    mass: Floats = np.full(domain.size, 1 / domain.size)
    if root.shape == "lognormal" and domain.lower > 0:
        mass = _cells(np.log(np.maximum(edges, domain.lower / 2)), mass)
    if root.shares is not None and len(root.shares) == domain.size:
        mass = (1 - FLAT) * np.array(root.shares) + FLAT * mass
    if root.mean is not None and root.sd is not None and root.sd > 0:
        law, logarithmic = _law(root, points, mass)
        shaped = _cells(_below(law, edges, logarithmic=logarithmic), mass)
        mass = (1 - FLAT) * shaped + FLAT * mass
    share = np.cumsum(mass) - mass / 2
    return Marginal(points=points, mass=mass, scores=normal_quantiles(share))


def _core(mean: float, sd: float, points: Floats, flat: Floats) -> tuple[float, float]:
    """Mean and deviation of the shaped part, such that the whole mixture has the figures.

    Published deviations of skewed roots rest largely on a few extreme people, and those are what
    the flat part is for. It may explain no more than half of the variance, and move the mean by no
    more than half a deviation.
    """
    flat_mean, flat_square = float(points @ flat), float(points**2 @ flat)
    centre = (mean - FLAT * flat_mean) / (1 - FLAT)
    centre = min(max(centre, mean - sd / 2), mean + sd / 2)
    variance = (sd**2 + mean**2 - FLAT * flat_square) / (1 - FLAT) - centre**2
    return centre, math.sqrt(min(max(variance, sd**2 / 2), sd**2))


def _law(root: Root, points: Floats, flat: Floats) -> tuple[NormalDist | None, bool]:
    """The normal law of a root or of its logarithm, and which; None for a uniform root."""
    mean, sd = root.mean or 0.0, root.sd or 0.0
    if root.shape == "uniform":
        return None, False
    if root.median is not None and root.log_sd is not None:
        return NormalDist(math.log(root.median), root.log_sd), True
    mean, sd = _core(mean, sd, points, flat)
    if root.shape == "lognormal" and mean > 0:
        variance = math.log1p((sd / mean) ** 2)
        return NormalDist(math.log(mean) - variance / 2, math.sqrt(variance)), True
    return NormalDist(mean, sd), False


def _below(law: NormalDist | None, edges: Floats, *, logarithmic: bool) -> Floats:
    """The share below each edge, before it is cut at the bounds."""
    if law is None:
        return edges
    if logarithmic:
        return np.array([law.cdf(math.log(e)) if e > 0 else 0.0 for e in edges.tolist()])
    return np.array([law.cdf(e) for e in edges.tolist()])


def _cells(cumulative: Floats, otherwise: Floats) -> Floats:
    """The probability of each cell; the other one where nothing lies within the bounds."""
    mass = np.diff(cumulative)
    total = mass.sum()
    return np.divide(mass, total) if total > 0 else otherwise


def latent_correlation(template: Template, roots: Sequence[RootName]) -> Floats:
    """Correlations of the normal scores that give the population's, by rank or else by covariance.

    A rank correlation r is that of normal scores with the correlation 2 sin(pi r / 6) (Pearson
    1907). Without one: for two lognormal roots with coefficients of variation a and b and
    correlation r the latent one is log(1 + r a b) / sqrt(log(1 + a^2) log(1 + b^2)); for one of
    them, r a / sqrt(log(1 + a^2)).
    Roots that the population does not list are independent of the rest.
    """
    latent = np.eye(len(roots))
    figures = template.population
    if figures is None:
        return latent
    listed = {root: i for i, root in enumerate(figures.roots)}
    for i, first in enumerate(roots):
        for j, second in enumerate(roots[:i]):
            if first in listed and second in listed:
                pair = (listed[first], listed[second])
                if figures.rank_correlation is not None:
                    ranks = figures.rank_correlation[pair[0]][pair[1]]
                    tied = min(max(2 * math.sin(math.pi * ranks / 6), -_MOST_TIED), _MOST_TIED)
                else:
                    tied = _tied(template.roots, first, second, figures.covariance, pair)
                latent[i, j] = latent[j, i] = tied
    return _correlation(latent)


@lru_cache(maxsize=128)
def prior_given(
    template: Template,
    grids: tuple[tuple[RootName, Domain], ...],
    points: tuple[tuple[RootName, int], ...],
) -> JointPrior:
    """The prior of the roots that are not given, among people who have the given grid points.

    A given point says that a normal score lies between two bounds. The mean and the covariance of
    the others' scores then follow from those of that score within its bounds (Pearson and Lawley's
    selection formulas), and they are taken for normal again. The share of people whose roots are
    not tied has the prior that it had. Roots that the population does not tie to a given one keep
    theirs, to the object.
    """
    domains, given = dict(grids), dict(points)
    marginals = {root: marginal(template.roots[root], d) for root, d in grids}
    spread = latent_correlation(template, list(domains))
    if not given:
        return JointPrior(marginals=list(marginals.values()), latent=spread)
    places = {root: i for i, root in enumerate(domains)}
    mean = np.zeros(len(domains))
    for root, index in given.items():
        at, mass = places[root], marginals[root].mass
        below = float(mass[:index].sum())
        low, high = normal_quantiles(np.array([below, below + mass[index]])).tolist()
        inside, left = _within(low, high, float(mean[at]), math.sqrt(spread[at, at]))
        pull = spread[:, at] / spread[at, at]
        mean = mean + pull * (inside - mean[at])
        spread = spread - np.outer(pull, spread[at]) * (1 - left / spread[at, at])
    hidden = [places[root] for root in domains if root not in given]
    deviations = np.sqrt(np.maximum(np.diag(spread), _LEAST_SPREAD))
    return JointPrior(
        marginals=[
            _moved(marginals[root], float(mean[i]), float(deviations[i]))
            for root, i in places.items()
            if root not in given
        ],
        latent=_correlation(spread[np.ix_(hidden, hidden)]),
    )


def _within(low: float, high: float, mean: float, deviation: float) -> tuple[float, float]:
    """Mean and variance of a normal score that lies between two bounds."""
    start, stop = (low - mean) / deviation, (high - mean) / deviation
    held = _STANDARD.cdf(stop) - _STANDARD.cdf(start)
    if held < 1e-6:  # too thin, or too far out, for differences: the point in the middle
        return (low + high) / 2, 0.0
    first, last = _STANDARD.pdf(start), _STANDARD.pdf(stop)
    moved = (first - last) / held
    left = 1 + (start * first - stop * last) / held - moved**2
    return mean + deviation * moved, deviation**2 * min(max(left, 0.0), 1.0)


@lru_cache(maxsize=512)
def _edges(prior: Marginal) -> Floats:
    """The normal scores between neighbouring points."""
    return normal_quantiles(np.cumsum(prior.mass)[:-1])


def _moved(prior: Marginal, mean: float, deviation: float) -> Marginal:
    """A prior whose normal score has this mean and deviation, for those whom the ties hold."""
    if abs(mean) < 1e-9 and abs(deviation - 1) < 1e-9:  # not tied, up to rounding
        return prior
    edges = _edges(prior)
    below = np.concatenate([[0.0], normal_shares((edges - mean) / deviation), [1.0]])
    mass = (1 - UNTIED) * np.diff(below) + UNTIED * prior.mass
    share = np.cumsum(mass) - mass / 2
    return Marginal(points=prior.points, mass=mass, scores=normal_quantiles(share))


def _correlation(spread: Floats) -> Floats:
    """The correlations of a covariance, pulled back until it can be inverted."""
    values, vectors = np.linalg.eigh(spread)
    mended = vectors @ np.diag(np.maximum(values, _LEAST_SPREAD)) @ vectors.T
    scale = np.sqrt(np.diag(mended))
    correlation: Floats = mended / np.outer(scale, scale)
    return correlation


def _tied(
    roots: Mapping[RootName, Root],
    first: RootName,
    second: RootName,
    covariance: Sequence[Sequence[float]],
    pair: tuple[int, int],
) -> float:
    i, j = pair
    spread = covariance[i][i] * covariance[j][j]
    if spread <= 0:
        return 0.0
    correlation = covariance[i][j] / math.sqrt(spread)
    logs, product = [], correlation
    for root, place in ((roots[first], i), (roots[second], j)):
        if root.shape == "lognormal" and root.mean is not None and root.mean > 0:
            relative = math.sqrt(covariance[place][place]) / root.mean
            product *= relative
            logs.append(math.sqrt(math.log1p(relative**2)))
    if len(logs) == 2:
        product = math.log(max(1 + product, 1e-6))
    latent = product / math.prod(logs)
    return min(max(latent, -_MOST_TIED), _MOST_TIED)


def spread_points(count: int, dimensions: int, *, start: int = 0) -> Floats:
    """Points that fill the unit cube evenly: the additive recurrence on powers of 1/g.

    g is the root of g^(d+1) = g + 1 (the golden ratio for d = 1), after Roberts 2018.
    """
    ratio = 2.0
    for _ in range(64):
        ratio = (1 + ratio) ** (1 / (dimensions + 1))
    steps = ratio ** -np.arange(1, dimensions + 1, dtype=np.float64)
    index = np.arange(start + 1, start + count + 1, dtype=np.float64)
    points: Floats = (0.5 + index[:, None] * steps) % 1.0
    return points


@lru_cache(maxsize=32)
def spread_scores(count: int, dimensions: int) -> Floats:
    """The normal scores of points that fill the unit cube evenly."""
    scores = normal_quantiles(spread_points(count, dimensions))
    scores.flags.writeable = False
    return scores


def normal_quantiles(shares: Floats) -> Floats:
    """The standard normal quantile of each share."""
    inside = np.clip(shares, 1e-12, 1 - 1e-12).ravel().tolist()
    return np.array([*map(_STANDARD.inv_cdf, inside)]).reshape(shares.shape)


def normal_shares(scores: Floats) -> Floats:
    """The standard normal probability below each score."""
    halves = (scores * -math.sqrt(0.5)).ravel().tolist()
    return np.array([math.erfc(z) / 2 for z in halves]).reshape(scores.shape)


def people(template: Template, roots: Sequence[RootName], count: int) -> list[Indices]:
    """Grid indices of people who fill the prior evenly, one array per root."""
    return joint_indices(
        [marginal(template.roots[root], template.roots[root].domain) for root in roots],
        latent_correlation(template, roots),
        spread_points(count, len(roots)),
    )


def joint_indices(
    marginals: Sequence[Marginal], latent: Floats, shares: Floats, *, untied: float = 0.0
) -> list[Indices]:
    """Points of the unit cube carried to the joint prior: one array of indices per root.

    The last points, `untied` of them all, are carried without the ties.
    """
    return scored_indices(marginals, latent, normal_quantiles(shares), untied=untied)


def scored_indices(
    marginals: Sequence[Marginal], latent: Floats, spread: Floats, *, untied: float = 0.0
) -> list[Indices]:
    """The same from the points' normal scores."""
    uniform = _tied_shares(latent.tobytes(), spread.tobytes(), len(latent), untied)
    found = []
    for i, prior in enumerate(marginals):
        index = np.searchsorted(np.cumsum(prior.mass), uniform[:, i])
        found.append(np.minimum(index, prior.mass.size - 1))
    return found


@lru_cache(maxsize=16)  # a search for a plan asks for the same points on many grids
def _tied_shares(latent: bytes, spread: bytes, count: int, untied: float) -> Floats:
    """The points in the unit cube, tied as the roots are."""
    scores = np.frombuffer(spread).reshape(-1, count).copy()
    tied = len(scores) - round(untied * len(scores))
    scores[:tied] = scores[:tied] @ np.linalg.cholesky(np.frombuffer(latent).reshape(-1, count)).T
    return normal_shares(scores)
