"""Does a mechanism keep its promise? The largest log-ratio between neighbours, from its own pmf."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rootguard.mechanisms.base import Mechanism

ENUMERATION_LIMIT = 4096
"""Grids up to this size are enumerated in full, every input against every output."""

TOLERANCE = 1e-9
"""Relative rounding error allowed to a tight epsilon and to the total mass of a pmf."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Certificate:
    """What a mechanism claims per grid step, and what its pmf shows."""

    mechanism: str
    size: int
    epsilon_claimed: float
    epsilon_tight: float
    mass_error: float
    method: Literal["enumeration", "closed form"]

    @property
    def holds(self) -> bool:
        """Whether no neighbouring pair exceeds the claim and every row is a distribution."""
        return (
            self.epsilon_tight <= self.epsilon_claimed * (1 + TOLERANCE)
            and self.mass_error <= TOLERANCE
        )


def certify(mechanism: Mechanism) -> Certificate:
    """Check a mechanism's claim, by enumeration unless the grid is too large for it."""
    size = mechanism.size
    whole = size <= ENUMERATION_LIMIT
    outputs = np.arange(size)
    inputs = outputs if whole else np.array([0, 1, size // 2, size - 2, size - 1])
    tight, mass_error = 0.0, 0.0
    rows = max(2, (1 << 20) // size)
    for start in range(0, len(inputs), rows):
        # One row of overlap, so that no neighbouring pair falls between two blocks.
        table = mechanism.log_pmf(inputs[start : start + rows + 1, None], outputs[None, :])
        mass_error = max(mass_error, float(np.abs(np.exp(table).sum(axis=1) - 1).max()))
        if whole and len(table) > 1:
            tight = max(tight, float(np.abs(np.diff(table, axis=0)).max()))
    return Certificate(
        mechanism=mechanism.name,
        size=size,
        epsilon_claimed=float(mechanism.epsilon),
        epsilon_tight=tight if whole else mechanism.tight_epsilon(),
        mass_error=mass_error,
        method="enumeration" if whole else "closed form",
    )
