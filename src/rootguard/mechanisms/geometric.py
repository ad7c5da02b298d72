"""The clamped two-sided geometric mechanism: RootGuard's default.

P(Z = z) = (1-b)/(1+b) * b**|z| with b = exp(-epsilon), so c = P(Z != 0) = 2b/(1+b). On a line it is
optimal for every prior and every monotone loss after post-processing (Ghosh, Roughgarden and
Sundararajan 2009), and a lower level can be produced from a higher one (Gupte and Sundararajan
2010).
"""

import math
from decimal import Decimal

from rootguard.mechanisms.base import Additive


class Geometric(Additive):
    """Two-sided geometric noise, clamped to the grid."""

    name = "geometric"

    @staticmethod
    def tail(root: Decimal) -> Decimal:
        """The share that is noised at all: c = 2b / (1 + b)."""
        ratio = root * root
        return 2 * ratio / (1 + ratio)

    @staticmethod
    def log_tail(eps: float) -> tuple[float, float]:
        """The rest, 1 - c, is tanh(eps / 2)."""
        return math.log(2) - eps - math.log1p(math.exp(-eps)), math.log(math.tanh(eps / 2))

    @staticmethod
    def spread_curve(eps: float) -> tuple[float, float, float]:
        """A = 1 / sinh(eps)."""
        sinh, cosh = math.sinh(eps), math.cosh(eps)
        return 1 / sinh, -cosh / sinh**2, (1 + cosh**2) / sinh**3
