"""The noise mechanisms. Each class holds sampler, pmf, price and error together.

Four are for values on a line and may be chosen; those of `answers` come with a root's type.
"""

from fractions import Fraction
from functools import lru_cache

from rootguard.errors import DomainError
from rootguard.mechanisms.additive import Geometric, Laplace, Staircase
from rootguard.mechanisms.answers import DistanceMechanism, PublicValue, RandomisedResponse
from rootguard.mechanisms.base import Certificate, Mechanism, certify
from rootguard.mechanisms.exponential import Exponential
from rootguard.values import Distances, MechanismName, mechanism_named

MECHANISMS: dict[MechanismName, type[Mechanism]] = {
    "exponential": Exponential,
    "laplace": Laplace,
    "staircase": Staircase,
    "geometric": Geometric,
}
"""Those for values on a line."""

KINDS: dict[MechanismName, type[Mechanism]] = {
    **MECHANISMS,
    "randomised-response": RandomisedResponse,
    "distances": DistanceMechanism,
    "public": PublicValue,
}
"""All of them."""


@lru_cache(maxsize=4096)
def mechanism(
    name: MechanismName, epsilon: Fraction, size: int, distances: Distances | None = None
) -> Mechanism:
    """A mechanism at one epsilon on one grid. Kept, because all of this is public."""
    if name == "public":
        return PublicValue(size)
    if name == "distances":
        if distances is None:
            raise DomainError("without the table of distances their mechanism is not known")
        return DistanceMechanism(epsilon, size, distances)
    return KINDS[name](epsilon, size)


__all__ = [
    "KINDS",
    "MECHANISMS",
    "Certificate",
    "Mechanism",
    "certify",
    "mechanism",
    "mechanism_named",
]
