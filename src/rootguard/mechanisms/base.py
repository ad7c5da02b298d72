"""What every mechanism offers, and whether it keeps its promise.

Index space: inputs and outputs are whole numbers 0 .. m-1, the points of a root's grid. Epsilon is
per grid step: neighbouring inputs t and t+1 may change the log-probability of any output by at most
epsilon, and inputs d steps apart by at most d * epsilon. Of answers without an order any two are
one step apart, or as far as a table says (see `answers`). `certify` checks that from the pmf.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rootguard.errors import BudgetError
from rootguard.mechanisms.exact import Streams
from rootguard.rng import Randomness
from rootguard.values import MICRO, MechanismName

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# The ledger counts in millionths. At 100 a draw differs from the truth with probability e**-100, so
# that more hides nothing less. The slack of `exact` and the spare digits of `nesting` rest on both.
MIN_EPSILON = Fraction(1, MICRO)
MAX_EPSILON = 100


class Mechanism(ABC):
    """A noise distribution at one epsilon on one grid: sampler, pmf, price and error together."""

    name: ClassVar[MechanismName]

    def __init__(self, epsilon: Fraction, size: int) -> None:
        if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
            raise BudgetError(f"a root's epsilon must lie between a millionth and {MAX_EPSILON}")
        self.epsilon = epsilon
        self.size = size
        self._eps = float(epsilon)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(epsilon={self._eps:g}, size={self.size})"

    @property
    def centre(self) -> int:
        """The grid's middle point (the lower of two)."""
        return (self.size - 1) // 2

    @abstractmethod
    def draw(self, index: int, source: Randomness) -> int:
        """One secure draw for a true index: exact, in whole numbers."""

    @abstractmethod
    def draw_many(self, indices: Indices, generator: np.random.Generator) -> Indices:
        """One draw per index from a seeded generator: for experiments, never for a release."""

    @abstractmethod
    def draw_rows(self, indices: Indices, streams: Streams) -> Indices:
        """One secure draw per index, each from its own row's stream: exact, in whole numbers."""

    @abstractmethod
    def log_pmf(self, inputs: ArrayLike, outputs: ArrayLike) -> Floats:
        """The log of P(output | input), exact up to float rounding; the arguments broadcast."""

    def likelihoods(self, outputs: Indices) -> Floats:
        """How likely every input makes each output, a row each, over the likeliest of the row."""
        logs = self.log_pmf(np.arange(self.size)[None, :], outputs[:, None])
        shares: Floats = np.exp(logs - logs.max(axis=1, keepdims=True))
        return shares

    @abstractmethod
    def error(self, index: int) -> float:
        """Expected absolute error, in grid steps, when the true index is `index`."""

    @abstractmethod
    def tight_epsilon(self) -> float:
        """The largest log-ratio between neighbouring inputs: the epsilon that really holds."""

    def largest_ratio(self, table: Floats) -> float:
        """The largest log-ratio in rows of the pmf, per unit of distance: here of neighbours."""
        return float(np.abs(np.diff(table, axis=0)).max()) if len(table) > 1 else 0.0

    @staticmethod
    @abstractmethod
    def error_curve(epsilon: float, size: int) -> tuple[float, float, float]:
        """Expected error at the grid centre, with its first and second derivative in epsilon."""


_BLOCK = 1 << 14
"""Vectorised draws work on this many at a time, so that each pass stays in the CPU's cache."""


def blocks(size: int) -> Iterator[slice]:
    """Slices that cover 0 .. size in order."""
    return (slice(start, min(start + _BLOCK, size)) for start in range(0, size, _BLOCK))


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
    # In blocks; answers without an order are compared each with each: all fit into one.
    rows = max(2, (1 << 20) // size)
    for start in range(0, len(inputs), rows):
        # One row of overlap, so that no neighbouring pair falls between two blocks.
        table = mechanism.log_pmf(inputs[start : start + rows + 1, None], outputs[None, :])
        mass_error = max(mass_error, float(np.abs(np.exp(table).sum(axis=1) - 1).max()))
        if whole:
            tight = max(tight, mechanism.largest_ratio(table))
    return Certificate(
        mechanism=mechanism.name,
        size=size,
        epsilon_claimed=float(mechanism.epsilon),
        epsilon_tight=tight if whole else mechanism.tight_epsilon(),
        mass_error=mass_error,
        method="enumeration" if whole else "closed form",
    )
