"""The four noise mechanisms. Each class holds sampler, pmf, price and error together."""

from fractions import Fraction
from functools import lru_cache

from rootguard.mechanisms.additive import Geometric, Laplace, Staircase
from rootguard.mechanisms.base import Certificate, Mechanism, certify
from rootguard.mechanisms.exponential import Exponential
from rootguard.values import MechanismName, mechanism_named

MECHANISMS: dict[MechanismName, type[Mechanism]] = {
    "exponential": Exponential,
    "laplace": Laplace,
    "staircase": Staircase,
    "geometric": Geometric,
}


@lru_cache(maxsize=4096)
def mechanism(name: MechanismName, epsilon: Fraction, size: int) -> Mechanism:
    """A mechanism at one epsilon on one grid. Kept, because all of this is public."""
    return MECHANISMS[name](epsilon, size)


__all__ = ["MECHANISMS", "Certificate", "Mechanism", "certify", "mechanism", "mechanism_named"]
