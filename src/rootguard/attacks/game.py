"""The privacy game of the paper's section 4.1, played.

An adversary names two people by their root vectors. A fair coin picks one, the adversary is given
answers about that one, as many as it likes, and guesses which. The best guess follows the
likelihood ratio (Neyman and Pearson); under RootGuard every answer is a function of the noised
roots, so the noised roots themselves are the most that any set of answers can tell. The advantage
is 2 P(right) - 1, at best the total variation distance, and at most tanh(sum eps_i d_i / 2).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rootguard.accounting import advantage_bound
from rootguard.attacks.audit import lower_limit, upper_limit
from rootguard.mechanisms import Mechanism


@dataclass(frozen=True, kw_only=True, slots=True)
class GameResult:
    """The measured advantage with its 95 % limits, and the bound it has to keep."""

    trials: int
    right: int
    bound: float

    @property
    def advantage(self) -> float:
        """2 P(right) - 1, as measured."""
        return 2 * self.right / self.trials - 1

    @property
    def lower(self) -> float:
        """The advantage is at least this (97.5 %)."""
        return 2 * lower_limit(self.right, self.trials, 0.025) - 1

    @property
    def upper(self) -> float:
        """The advantage is at most this (97.5 %)."""
        return 2 * upper_limit(self.right, self.trials, 0.025) - 1


def play(
    noises: Mapping[str, Mechanism],
    left: Mapping[str, int],
    right: Mapping[str, int],
    *,
    trials: int,
    generator: np.random.Generator,
    draws: int = 1,
) -> GameResult:
    """Play many times. `draws` is 1 for RootGuard; independent noising draws for every answer."""
    picked = generator.integers(2, size=trials)
    ratio = np.zeros(trials)
    for root, noise in noises.items():
        truth = np.where(picked == 1, right[root], left[root])
        for _ in range(draws):
            seen = noise.draw_many(truth, generator)
            ratio += noise.log_pmf(right[root], seen) - noise.log_pmf(left[root], seen)
    # Rounding leaves a ratio of one a hair beside it: those are ties, settled by a coin.
    guess = np.where(np.abs(ratio) < 1e-9, generator.integers(2, size=trials), ratio > 0)
    apart = {root: float(abs(left[root] - right[root])) for root in noises}
    return GameResult(
        trials=trials,
        right=int((guess == picked).sum()),
        bound=advantage_bound(apart, {root: noise.epsilon for root, noise in noises.items()}),
    )


def best_advantage(noise: Mechanism, left: int, right: int) -> float:
    """The exact advantage for one root by enumeration: half the sum of |p - q|."""
    outputs = np.arange(noise.size)
    one, other = (np.exp(noise.log_pmf(index, outputs)) for index in (left, right))
    return float(np.abs(one - other).sum() / 2)
