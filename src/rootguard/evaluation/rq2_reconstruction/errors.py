"""Errors of estimators, summed over batches of repeats, and the figures that are made of them.

Part of the reconstruction study: an estimator is a root, a prior, a configuration and the number of
independent draws that it rests on, and cells share estimators.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from rootguard.attacks.belief import PriorName
from rootguard.evaluation.metrics import Floats
from rootguard.evaluation.rq1_utility.study import CONFIGURATIONS, DIGITS, Configuration
from rootguard.mechanisms import Mechanism
from rootguard.mechanisms.base import Indices
from rootguard.values import RootName

Reader = Literal["naive", "median"]
"""Lines beside the configurations: other ways to read the releases of `calibrated`."""
AttackConfiguration = Configuration | Reader
ATTACK_CONFIGURATIONS: tuple[AttackConfiguration, ...] = (*CONFIGURATIONS, "naive", "median")


@dataclass(frozen=True, kw_only=True, slots=True)
class RootFigure:
    """What a strategy makes of one root, in percent, from that many independent draws of it."""

    root: RootName
    observations: int
    wmape: float
    wmape_se: float


@dataclass(kw_only=True, slots=True)
class Tally:
    """Absolute errors of one estimator of one root, summed as batches of repeats come in."""

    by_patient: Floats
    by_repeat: list[float] = field(default_factory=list)

    def add(self, errors: Floats) -> None:
        """Take in a batch of shape (repeats, patients)."""
        self.by_patient += errors.sum(axis=0)
        self.by_repeat += errors.sum(axis=1).tolist()


EstimatorKey = tuple[RootName, PriorName, AttackConfiguration, int]
"""A root, a prior, a configuration and the number of independent draws the estimate rests on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """An estimator's error: in percent, in each bootstrap resample, and in each repeat."""

    value: float
    se: float
    resampled: Floats
    repeated: Floats


class Figures:
    """Means over estimators, each worked out once: cells that differ in q may share one."""

    def __init__(self, measured: Mapping[EstimatorKey, Measured]) -> None:
        self._measured = measured
        self._means: dict[tuple[EstimatorKey, ...], tuple[float, float, float | None]] = {}
        self._roots: dict[EstimatorKey, RootFigure] = {}

    def mean(self, keys: tuple[EstimatorKey, ...]) -> tuple[float, float, float | None]:
        """The mean error, its bootstrap standard error, and its Monte Carlo error if known."""
        if keys not in self._means:
            chosen = [self._measured[key] for key in keys]
            value, se, repeated = chosen[0].value, chosen[0].se, chosen[0].repeated
            if len(chosen) > 1:
                value = math.fsum(each.value for each in chosen) / len(chosen)
                se = float(np.mean([each.resampled for each in chosen], axis=0).std(ddof=1))
                repeated = np.mean([each.repeated for each in chosen], axis=0)
            many = len(repeated) > 1
            spread = float(repeated.std(ddof=1)) / math.sqrt(len(repeated)) if many else None
            self._means[keys] = (
                _rounded(value),
                _rounded(se),
                None if spread is None else _rounded(spread),
            )
        return self._means[keys]

    def root(self, key: EstimatorKey) -> RootFigure:
        """One root's figure."""
        if key not in self._roots:
            value, se, _ = self.mean((key,))
            made = RootFigure(root=key[0], observations=key[3], wmape=value, wmape_se=se)
            self._roots[key] = made
        return self._roots[key]


def posterior_medians(noise: Mechanism, noised: Indices, log_prior: Floats | None) -> Indices:
    """The median of each noised index's posterior: the least point that half of it lies up to."""
    met, back = np.unique(noised, return_inverse=True)
    points = np.arange(noise.size)
    weights = noise.log_pmf(points[None, :], met[:, None])
    if log_prior is not None:
        weights = weights + log_prior
    below = np.cumsum(np.exp(weights - weights.max(axis=1, keepdims=True)), axis=1)
    medians: Indices = (below < below[:, -1:] / 2).sum(axis=1)
    return medians[back]


def _rounded(value: float) -> float:
    return round(value, DIGITS)
