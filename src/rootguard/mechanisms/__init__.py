"""The four noise mechanisms. Each class holds sampler, pmf, price and error together."""

from fractions import Fraction
from functools import lru_cache
from typing import get_args

from rootguard.errors import UnknownNameError
from rootguard.mechanisms.additive import Geometric, Laplace, Staircase
from rootguard.mechanisms.base import Certificate, Mechanism, certify
from rootguard.mechanisms.exponential import Exponential
from rootguard.values import MechanismName

MECHANISMS: dict[MechanismName, type[Mechanism]] = {
    "exponential": Exponential,
    "laplace": Laplace,
    "staircase": Staircase,
    "geometric": Geometric,
}


def mechanism_named(name: str) -> MechanismName:
    """The name, checked; an unknown one is refused."""
    for known in MECHANISMS:
        if name == known:
            return known
    raise UnknownNameError("mechanism", name, get_args(MechanismName))


@lru_cache(maxsize=4096)
def mechanism(name: MechanismName, epsilon: Fraction, size: int) -> Mechanism:
    """A mechanism at one epsilon on one grid. Kept, because all of this is public."""
    return MECHANISMS[name](epsilon, size)


__all__ = ["MECHANISMS", "Certificate", "Mechanism", "certify", "mechanism", "mechanism_named"]
