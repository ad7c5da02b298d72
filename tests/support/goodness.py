"""How well draws fit a distribution, with the false-alarm rate stated where it is used."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

FALSE_ALARM = 1e-6


def fit(draws: NDArray[np.int64], pmf: NDArray[np.float64]) -> float:
    """Chi-square p-value of draws against a pmf, cells merged up to 20 expected draws."""
    expected = pmf * (len(draws) / pmf.sum())
    counts = np.bincount(draws, minlength=len(pmf)).astype(np.float64)
    groups = np.floor(np.cumsum(expected) / 20).astype(np.int64)
    _, groups = np.unique(groups, return_inverse=True)
    merged = np.bincount(groups, weights=expected)
    seen = np.bincount(groups, weights=counts)
    if len(merged) > 1 and merged[-1] < 20:
        merged[-2] += merged[-1]
        seen[-2] += seen[-1]
        merged, seen = merged[:-1], seen[:-1]
    # Not `scipy.stats`, which takes half a second to import: every worker collects all tests.
    return float(chdtrc(len(merged) - 1, ((seen - merged) ** 2 / merged).sum()))
