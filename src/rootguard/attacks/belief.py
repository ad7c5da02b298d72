"""What an adversary believes of a root before it has seen anything.

Public knowledge only: a template's bounds and population figures, never a cohort. A prior gives a
log-density on the root's grid and a best guess for a root that was never observed.
"""

from dataclasses import dataclass
from typing import Literal, assert_never, get_args

import numpy as np

from rootguard.mechanisms.base import Floats
from rootguard.template import Root
from rootguard.values import Domain

PriorName = Literal["uniform", "informed"]
PRIORS: tuple[PriorName, ...] = get_args(PriorName)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Prior:
    """A belief about one root. The density sums to one over the grid; None means a flat one."""

    log_density: Floats | None
    guess: float
    """What the adversary says of a root that it has not observed, in the root's own unit."""


def grid(domain: Domain) -> Floats:
    """Every grid point, as `Domain.value` gives them; the last is the upper bound itself."""
    points = domain.lower + np.arange(domain.size, dtype=np.float64) * domain.step
    points[-1] = domain.upper
    return points


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
