"""What an adversary learns of a history: whether a value changed, from a release on every day.

Half of the people keep their value, the other half's moves once by a known distance, on a day that
the adversary does not know. It sees a release a day and says whether there was a change. Compared
are fresh noise every day, which is what `daily` gives as well, and the other policies for values
that change (docs/changing-values.md).
The adversary is as good as a statistic and a threshold can be: the statistic is the largest log
likelihood ratio over all days of change, the threshold is chosen on one half of the people and its
guesses are counted on the other half. Seeded; on made-up people alone.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, get_args

import numpy as np

from rootguard.advice.seeds import generator
from rootguard.mechanisms import Mechanism, mechanism
from rootguard.mechanisms.base import Floats, Indices
from rootguard.session.series import DriftTest
from rootguard.template import Root
from rootguard.values import MechanismName

HistoryPolicy = Literal["fresh", "draw", "drift", "keep"]
POLICIES: Final[tuple[HistoryPolicy, ...]] = get_args(HistoryPolicy)
# Noise on a line has no ends; on so many points with the truth in the middle none is met.
_NOISE_POINTS: Final = (1 << 16) + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeDetection:
    """How often a change was told from none, and what the history cost, in readings."""

    policy: HistoryPolicy
    right: float
    cost: float


def moved_steps(root: Root, paid: Fraction) -> int:
    """How far a value has to move before `drift` is meant to follow, in grid steps."""
    return DriftTest.of(root, root.domain, DriftTest.price(paid)).steps


def detect_changes(
    root: Root,
    *,
    epsilon: Fraction,
    days: int = 30,
    people: int = 2000,
    steps: int | None = None,
    chosen: MechanismName = "geometric",
    seed: int = 0,
) -> dict[HistoryPolicy, ChangeDetection]:
    """The share of people of whom it is told right whether they changed; a half is chance."""
    size = root.domain.size
    apart = moved_steps(root, epsilon) if steps is None else steps
    apart = min(apart, size // 2)
    stream = generator(seed, root.name, epsilon, days)
    start = stream.integers(size // 4, size - size // 4 - apart + 1, people)
    changed = np.arange(people) % 2 == 1
    when = np.where(changed, stream.integers(1, days, people), days)
    truth = start[:, None] + apart * (np.arange(days) >= when[:, None])
    noise = mechanism(chosen, epsilon, size)
    made: dict[HistoryPolicy, tuple[Indices, float]] = {
        "fresh": (noise.draw_many(truth, stream), float(days)),
        "draw": _drawn(noise, truth, stream),
        "drift": _drifted(root, noise, truth, stream),
        "keep": (np.repeat(noise.draw_many(truth[:, :1], stream), days, axis=1), 1.0),
    }
    found: dict[HistoryPolicy, ChangeDetection] = {}
    for policy in POLICIES:
        seen, cost = made[policy]
        once = policy in ("draw", "drift", "keep")
        told = _redraws(seen) if once else _likelihood_ratio(noise, seen, apart)
        right = _guessed(told, changed)
        found[policy] = ChangeDetection(policy=policy, right=right, cost=cost)
    return found


def _drawn(noise: Mechanism, truth: Indices, stream: np.random.Generator) -> tuple[Indices, float]:
    """One draw for each value: a changed reading is drawn anew, whatever the noise."""
    first, last = (noise.draw_many(truth[:, [day]], stream) for day in (0, -1))
    moved = truth != truth[:, :1]
    return np.where(moved, last, first), 1 + float(moved.any(axis=1).mean())


def _drifted(
    root: Root, noise: Mechanism, truth: Indices, stream: np.random.Generator
) -> tuple[Indices, float]:
    """A draw whenever the noisy test says that the reading moved away from what was released."""
    paid = DriftTest.price(noise.epsilon)
    test = DriftTest.of(root, root.domain, paid)
    people, days = truth.shape
    centre = _NOISE_POINTS // 2

    def noises(epsilon: Fraction, count: int) -> Indices:
        law = mechanism("geometric", epsilon, _NOISE_POINTS)
        return law.draw_many(np.full(count, centre), stream) - centre

    seen = np.empty_like(truth)
    stands = noise.draw_many(truth[:, 0], stream)
    rho = noises(test.threshold_epsilon, people)
    draws = np.ones(people)
    seen[:, 0] = stands
    for day in range(1, days):
        nu = noises(test.reading_epsilon / 2, people)
        moved = np.abs(truth[:, day] - stands) + nu >= test.steps + rho
        stands = np.where(moved, noise.draw_many(truth[:, day], stream), stands)
        rho = np.where(moved, noises(test.threshold_epsilon, people), rho)
        draws += moved
        seen[:, day] = stands
    return seen, float(draws.mean()) * (1 + float(paid / noise.epsilon))


def _redraws(seen: Indices) -> Floats:
    """How far apart what was shown first and last is: 0 where nothing was drawn anew."""
    found: Floats = np.abs(seen[:, -1] - seen[:, 0]).astype(np.float64)
    found += (np.diff(seen, axis=1) != 0).any(axis=1)
    return found


def _likelihood_ratio(noise: Mechanism, seen: Indices, apart: int) -> Floats:
    """The largest log likelihood ratio of a change, over its days and the values before it.

    The value before is tried around the median of what was seen, and of its first and last part.
    """
    people, days = seen.shape
    best = np.full(people, -np.inf)
    still = np.full(people, -np.inf)
    tried = [np.median(seen, axis=1), seen[:, 0], np.median(seen[:, -5:], axis=1) - apart]
    tried += [np.median(seen[:, :part], axis=1) for part in (5, days // 2)]
    tried += [np.median(seen, axis=1) - apart // 2, np.median(seen, axis=1) - apart]
    for centre in tried:
        value = np.clip(np.rint(centre), 0, noise.size - 1).astype(np.int64)
        shifted = np.clip(value + apart, 0, noise.size - 1)
        before = noise.log_pmf(value[:, None], seen)
        after = noise.log_pmf(shifted[:, None], seen)
        still = np.maximum(still, before.sum(axis=1))
        gained = np.cumsum(before, axis=1)[:, :-1]
        lost = np.cumsum(after[:, ::-1], axis=1)[:, ::-1][:, 1:]
        best = np.maximum(best, (gained + lost).max(axis=1))
    ratio: Floats = best - still
    return ratio


def _guessed(told: Floats, changed: np.ndarray) -> float:
    """The share that the best threshold of every second pair gets right among the others."""
    train = (np.arange(len(told)) // 2) % 2 == 0
    limits = np.unique(np.quantile(told[train], np.linspace(0, 1, 201)))
    limits = np.append(limits, np.inf)
    right = [((told[train] >= limit) == changed[train]).mean() for limit in limits]
    limit = limits[int(np.argmax(right))]
    return float(((told[~train] >= limit) == changed[~train]).mean())
