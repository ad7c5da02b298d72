"""The staircase mechanism (Geng and Viswanath 2015) for sensitivity 1, clamped and rounded.

With gamma = 1/(1 + exp(eps/2)) and b = exp(-eps), the size of the noise has density a(g) on
[g, g + gamma) and b * a(g) on [g + gamma, g + 1), where a(g) falls by b from step to step. Write
r = exp(-eps/2), so b = r**2 and gamma = r/(1+r). The share of a step's mass that lies within half a
step of its inner edge is then 1 - r/2, and the rounded noise from a whole t has

    c = P(|Z| >= 1) = 1 - (1 - b)(1 - r/2) = r/2 + r**2 - r**3/2,    P(|Z| >= k) = c * b**(k-1):

the additive family once more. It is not epsilon-private on inputs between grid points; inputs are
snapped before they reach it.
"""

import math
from decimal import Decimal

from rootguard.mechanisms.base import Additive


class Staircase(Additive):
    """Staircase noise, clamped and rounded."""

    name = "staircase"

    @staticmethod
    def tail(root: Decimal) -> Decimal:
        """The share that is noised at all: c = r/2 + r**2 - r**3/2."""
        return root * (1 + root * (2 - root)) / 2

    @staticmethod
    def log_tail(eps: float) -> tuple[float, float]:
        """The rest, 1 - c, is (1 - b)(1 - r/2)."""
        root = math.exp(-eps / 2)
        log_c = -eps / 2 + math.log((1 + root * (2 - root)) / 2)
        return log_c, math.log(-math.expm1(-eps)) + math.log1p(-root / 2)

    @staticmethod
    def spread_curve(eps: float) -> tuple[float, float, float]:
        """A = b/(1-b) + r/2."""
        grown, half = math.expm1(eps), math.exp(-eps / 2) / 2
        full = grown + 1
        return (
            1 / grown + half,
            -full / grown**2 - half / 2,
            full * (full + 1) / grown**3 + half / 4,
        )
