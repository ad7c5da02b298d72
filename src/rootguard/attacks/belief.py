"""What an adversary believes about a root, before it has seen anything and afterwards.

A `Prior` is public knowledge only: a template's bounds and population figures, never a cohort. It
gives a log-density on the root's grid and a best guess for a root that was never observed.

A `Belief` is a posterior on a mesh of candidates, one row per person. Every candidate is tried, so
mode, mean and quantiles are those of the posterior up to the mesh. `PopulationPrior` is public
knowledge of how roots move together: a multivariate normal with the template's means and
covariance, used one root at a time given the others (`joint` samples with it).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, assert_never, get_args

import numpy as np

from rootguard.attacks.oracle import QueryLog, grid
from rootguard.errors import UnknownNameError
from rootguard.mechanisms.base import Floats
from rootguard.template import Root, Template
from rootguard.values import Domain, RootName

PriorName = Literal["uniform", "informed"]
PRIORS: tuple[PriorName, ...] = get_args(PriorName)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Prior:
    """A belief about one root. The density sums to one over the grid; None means a flat one."""

    log_density: Floats | None
    guess: float
    """What the adversary says of a root that it has not observed, in the root's own unit."""


def uniform_prior(domain: Domain) -> Prior:
    """Every grid point alike: the estimate is then the likeliest one. Guesses the middle."""
    return Prior(log_density=None, guess=domain.lower + domain.width / 2)


def gaussian_prior(domain: Domain, mean: float, sd: float) -> Prior:
    """The normal density N(mean, sd**2) at the grid points, scaled to sum to one there."""
    points = grid(domain)
    log_density = -((points - mean) ** 2) / (2 * sd**2)
    log_density -= log_density.max()  # so that a far mean does not underflow to a sum of zero
    log_density -= np.log(np.exp(log_density).sum())
    return Prior(log_density=log_density, guess=mean)


def informed_prior(root: Root) -> Prior:
    """The population's independent Gaussian, as the paper's informed adversary has it.

    Where a template gives no spread the density is flat; where it gives no mean, so is the guess.
    """
    if root.mean is None:
        return uniform_prior(root.domain)
    if root.sd is None:
        return Prior(log_density=None, guess=root.mean)
    return gaussian_prior(root.domain, root.mean, root.sd)


def prior(name: PriorName, root: Root) -> Prior:
    """The prior of that name for a root."""
    match name:
        case "uniform":
            return uniform_prior(root.domain)
        case "informed":
            return informed_prior(root)
        case _:
            assert_never(name)


FINENESS = 4
"""Candidates per grid step for fresh answers, whose ranges can be finer than the root's grid."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Belief:
    """A posterior per person: candidates in rising order, and the probability of each."""

    mesh: Floats
    weights: Floats

    @classmethod
    def from_scores(cls, mesh: Floats, scores: Floats) -> "Belief":
        """Normalise log-densities; a candidate stands for the stretch half-way to the next ones."""
        spacing = np.gradient(mesh, axis=1)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True)) * spacing
        weights /= weights.sum(axis=1, keepdims=True)
        return cls(mesh=mesh, weights=weights)

    @property
    def mode(self) -> Floats:
        """The most probable candidate; the first of several."""
        spacing = np.gradient(self.mesh, axis=1)
        density = np.divide(self.weights, spacing, out=np.zeros_like(spacing), where=spacing > 0)
        best: Floats = np.take_along_axis(self.mesh, density.argmax(axis=1)[:, None], 1)[:, 0]
        return best

    @property
    def mean(self) -> Floats:
        """The posterior mean: least squared error."""
        mean: Floats = (self.mesh * self.weights).sum(axis=1)
        return mean

    @property
    def median(self) -> Floats:
        """The posterior median: least absolute error."""
        return self.quantile(0.5)

    def quantile(self, share: float) -> Floats:
        """Where the cumulative probability crosses a share, straight between candidates."""
        middle = np.cumsum(self.weights, axis=1) - self.weights / 2
        above = np.clip((middle < share).sum(axis=1), 1, middle.shape[1] - 1)[:, None]
        low, high = (np.take_along_axis(middle, above - i, 1) for i in (1, 0))
        left, right = (np.take_along_axis(self.mesh, above - i, 1) for i in (1, 0))
        part = np.clip((share - low) / np.maximum(high - low, 1e-300), 0, 1)
        found: Floats = (left + part * (right - left))[:, 0]
        return found


def candidates(log: QueryLog, root: RootName) -> Floats:
    """Where a root may lie. Cached answers say nothing between grid points, fresh ones do.

    Between two answers to a question, or two days, there is nothing.
    """
    domain = log.terms.domain(root)
    if log.terms.cached or not log.terms.template.roots[root].type.plain:
        points = grid(domain)
    else:
        points = np.linspace(domain.lower, domain.upper, FINENESS * (domain.size - 1) + 1)
    return np.broadcast_to(points, (log.people, points.size))


def believe(
    log: QueryLog, root: RootName, log_prior: Callable[[Floats], Floats] | None = None
) -> Belief:
    """The posterior of one root from all that was said about it alone."""
    mesh = candidates(log, root)
    scores = log.log_likelihood({root: mesh})
    return Belief.from_scores(mesh, scores if log_prior is None else scores + log_prior(mesh))


class PopulationPrior:
    """A multivariate normal of the roots from a template's public figures."""

    def __init__(self, template: Template, roots: tuple[RootName, ...]) -> None:
        figures = template.population
        if figures is None:
            raise UnknownNameError("population", template.name, ())
        listed = [figures.roots.index(root) for root in roots]
        covariance = np.array(figures.covariance)[np.ix_(listed, listed)]
        centre = template.centre()
        self._mean = {root: centre[root] for root in roots}
        self._precision = np.linalg.inv(covariance)
        self._position = {root: i for i, root in enumerate(roots)}

    def log_density(
        self, root: RootName, values: Floats, others: Mapping[RootName, Floats]
    ) -> Floats:
        """The log-density of one root (people by candidates) given the others (one per person).

        With precision matrix Q, x_i given the rest is normal with precision Q_ii and mean
        mu_i - sum over j of Q_ij (x_j - mu_j) / Q_ii.
        """
        i = self._position[root]
        pull = np.zeros(len(values))
        for name, at in others.items():
            if name != root:
                pull += self._precision[i, self._position[name]] * (at - self._mean[name])
        centre = self._mean[root] - pull / self._precision[i, i]
        density: Floats = -0.5 * self._precision[i, i] * (values - centre[:, None]) ** 2
        return density
