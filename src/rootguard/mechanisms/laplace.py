"""The paper's bounded Laplace: t + Lap(1/epsilon), clamped to the grid, rounded to it.

From a whole t the rounded noise has P(|Z| >= k) = P(|Lap| >= k - 1/2) = exp(-epsilon (k - 1/2)):
the additive family with c = exp(-epsilon / 2).
"""

import math
from decimal import Decimal

from rootguard.mechanisms.base import Additive


class Laplace(Additive):
    """Laplace noise, clamped and rounded."""

    name = "laplace"

    @staticmethod
    def tail(root: Decimal) -> Decimal:
        """The share that is noised at all: c = exp(-eps / 2)."""
        return root

    @staticmethod
    def log_tail(eps: float) -> tuple[float, float]:
        """The rest, 1 - c, is the Laplace mass within half a step."""
        return -eps / 2, math.log(-math.expm1(-eps / 2))

    @staticmethod
    def spread_curve(eps: float) -> tuple[float, float, float]:
        """A = 1 / (2 sinh(eps / 2))."""
        sinh, cosh = math.sinh(eps / 2), math.cosh(eps / 2)
        return 1 / (2 * sinh), -cosh / (4 * sinh**2), (1 + cosh**2) / (8 * sinh**3)
