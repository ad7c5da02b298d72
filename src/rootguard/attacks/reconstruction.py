"""Maximum a posteriori reconstruction of a root from noised observations of it.

The adversary knows the mechanism, its epsilon and, if it likes, the population. Observations must
be independent draws: a cached value that is replayed is one observation, however often it is seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rootguard.mechanisms import Mechanism
from rootguard.mechanisms.base import Floats, Indices

TIE = 1e-9
"""Log-posteriors this close are equal: they differ by rounding alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """One noised answer: the grid index received, and the index each candidate would have had."""

    received: int
    expected: Indices
    noise: Mechanism


def map_estimate(observations: Sequence[Observation], log_prior: Floats | None = None) -> int:
    """The position of the candidate with the largest posterior, exactly: every one is tried.

    Without a prior all candidates are equally likely. Of candidates that tie, the middle one.
    """
    score = np.zeros(observations[0].expected.size)
    if log_prior is not None:
        score += log_prior
    for observation in observations:
        score += observation.noise.log_pmf(observation.expected, observation.received)
    best = np.flatnonzero(score >= score.max() - TIE)
    return int(best[(len(best) - 1) // 2])
