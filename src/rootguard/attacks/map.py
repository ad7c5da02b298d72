"""Maximum a posteriori reconstruction of one root from noised observations of it, exactly.

The adversary knows the mechanism, its epsilon and, if it likes, the population. It maximises
log prior(x) + sum over i of log P(y_i | x) over every grid point x. Observations y_1 .. y_n must be
independent draws: a cached value that is replayed is one observation, however often it is seen.
`map_estimate` tries every candidate for one person; `map_estimates` finds the same, ties included,
for many people whose observations come from one mechanism.

What makes it fast is the shape that the log-pmfs share,

    log P(y | x) = level[x] - rate * |x - y| + spike[y] * [x = y] + (a term in y alone).

with rate 0 for randomised response. Between two neighbouring observations sum |x - y_i| is a
straight line, whose slope is one of the n + 1 numbers -n, -n + 2 .. n. So the score there is one of
n + 1 curves over the grid, the same for everybody, and its largest value lies at an end of the gap
or at a peak of the curve. A person costs a few look-ups per observation. Where the best may be a
tie, every grid point is scored.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from rootguard.mechanisms import Mechanism
from rootguard.mechanisms.additive import Additive
from rootguard.mechanisms.answers import DistanceMechanism, PublicValue, RandomisedResponse
from rootguard.mechanisms.base import Floats, Indices
from rootguard.mechanisms.exponential import Exponential

TIE = 1e-9
"""Log-posteriors this close are equal: they differ by rounding alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """One noised answer: the grid index received, and the index each candidate would have had."""

    received: int
    expected: Indices
    noise: Mechanism


def map_estimate(observations: Sequence[Observation], log_prior: Floats | None = None) -> int:
    """The position of the candidate with the largest posterior, exactly: every one is tried.

    Without a prior all candidates are equally likely. Of candidates that tie, the middle one.
    """
    score = np.zeros(observations[0].expected.size)
    if log_prior is not None:
        score += log_prior
    for observation in observations:
        score += observation.noise.log_pmf(observation.expected, observation.received)
    best = np.flatnonzero(score >= score.max() - TIE)
    return int(best[(len(best) - 1) // 2])


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Shape:
    """A log-pmf up to terms in the output alone, which no estimate depends on."""

    rate: float
    level: Floats
    spike: Floats


@lru_cache(maxsize=64)
def shape_of(noise: Mechanism) -> Shape:
    """The shape of a mechanism's own log-pmf. An unknown mechanism is refused."""
    points = np.arange(noise.size)
    itself = noise.log_pmf(points, points)
    match noise:
        case Exponential():
            # Normalised over the grid: the level is minus the log of the normaliser.
            rate = float(noise.epsilon) / 2
            return Shape(rate=rate, level=itself, spike=np.zeros(noise.size))
        case Additive():
            # Clamped to the grid: geometric but for the output that equals the input.
            rate = float(noise.epsilon)
            beside = noise.log_pmf(np.where(points > 0, points - 1, 1), points)
            return Shape(rate=rate, level=np.zeros(noise.size), spike=itself - beside - rate)
        case RandomisedResponse():
            # No distance: an answer speaks for itself alone.
            spike = np.full(noise.size, float(noise.epsilon))
            return Shape(rate=0.0, level=np.zeros(noise.size), spike=spike)
        case _:
            raise TypeError(f"no reconstruction is known for {noise!r}")


@lru_cache(maxsize=64)
def truncated_shape(noise: Mechanism) -> Shape:
    """The shape of noise that is drawn again until it lies on the grid, at a mechanism's own rate.

    An adversary who takes clamped noise for it normalises over the grid, and so thinks every output
    likelier the nearer the input is to an end.
    """
    points = np.arange(noise.size)
    rate = shape_of(noise).rate
    gaps = np.abs(points[:, None] - points[None, :])
    level = -np.log(np.exp(-rate * gaps).sum(axis=1))
    return Shape(rate=rate, level=level, spike=np.zeros(noise.size))


def map_estimates(
    noise: Mechanism, observations: Indices, log_prior: Floats | None = None
) -> Indices:
    """Each person's likeliest grid index, from `observations` of shape (people, n).

    Without a prior all points are equally likely. Of points that tie, the middle one. Without an
    observation the prior alone decides.
    """
    estimates = map_path(noise, observations, (observations.shape[1],), (log_prior,))
    only: Indices = estimates[0, 0]
    return only


def map_path(
    noise: Mechanism,
    observations: Indices,
    counts: Sequence[int],
    log_priors: Sequence[Floats | None],
) -> Indices:
    """Estimates as observations come in: (priors, counts, people).

    Entry [p, c] rests on the first `counts[c]` observations and on prior p.
    """
    paths = map_paths(noise, observations[None], counts, (log_priors,))
    only: Indices = paths[0]
    return only


def map_paths(
    noise: Mechanism,
    observations: Indices,
    counts: Sequence[int],
    log_priors: Sequence[Sequence[Floats | None]],
    *,
    shape: Shape | None = None,
) -> Indices:
    """`map_path` for several roots on grids of one size: (roots, priors, counts, people).

    `observations` is (roots, people, n); each root has priors of its own, equally many. Another
    `shape` is what an adversary takes for the mechanism's.
    """
    roots, people, most = observations.shape
    if not all(0 <= count <= most for count in counts):
        raise ValueError("a count lies between zero and the number of observations")
    beliefs = np.zeros((roots, len(log_priors[0]), noise.size))
    for r, own in enumerate(log_priors):
        for p, log_prior in enumerate(own):
            if log_prior is not None:
                beliefs[r, p] = log_prior
    if shape is None and isinstance(noise, DistanceMechanism | PublicValue):
        return _by_trying(noise, observations, counts, beliefs)
    shape = shape_of(noise) if shape is None else shape
    groups = beliefs.reshape(-1, noise.size)
    who = np.repeat(np.arange(len(groups)), people)
    estimates = np.empty((*beliefs.shape[:2], len(counts), people), dtype=np.int64)
    for c, count in enumerate(counts):
        ordered = np.sort(observations[:, :, :count], axis=2)
        ordered = np.repeat(ordered, beliefs.shape[1], axis=0).reshape(len(who), count)
        curves = _Curves(shape, groups + count * shape.level, count)
        estimates[:, :, c] = curves.best(ordered, who).reshape(*beliefs.shape[:2], people)
    return estimates


def _by_trying(
    noise: Mechanism, observations: Indices, counts: Sequence[int], beliefs: Floats
) -> Indices:
    """`map_paths` for a mechanism of no shape: every candidate is tried, as grids are small."""
    points = np.arange(noise.size)
    roots, people, _ = observations.shape
    estimates = np.empty((roots, beliefs.shape[1], len(counts), people), dtype=np.int64)
    for r, own in enumerate(beliefs):
        for c, count in enumerate(counts):
            seen = observations[r, :, :count, None]
            told = noise.log_pmf(points[None, None, :], seen).sum(axis=1)
            for p, log_prior in enumerate(own):
                score = told + log_prior
                best = score >= score.max(axis=1, keepdims=True) - TIE
                middle = (best.sum(axis=1) - 1) // 2
                estimates[r, p, c] = (np.cumsum(best, axis=1) > middle[:, None]).argmax(axis=1)
    return estimates


class _Curves:
    """The n + 1 curves that a score follows, by how many observations lie at or below x.

    One set of curves per group: people whose log-prior and n are the same, `base` being the score
    without the distances.
    """

    def __init__(self, shape: Shape, base: Floats, count: int) -> None:
        self._shape = shape
        self._base = base
        self._gaps = count + 1
        self._size = base.shape[1]
        slopes = shape.rate * (2.0 * np.arange(self._gaps) - count)
        curves = base[:, None, :] - slopes[:, None] * np.arange(self._size)
        self._heights: Floats = curves.ravel()
        rise = np.diff(curves.reshape(-1, self._size), axis=1)
        peaks, few = _peaks(rise)
        self._peaks = peaks.reshape(len(base), self._gaps, -1)
        self._ragged = np.any(~few.reshape(len(base), self._gaps), axis=1)
        """Groups that are not looked up at all."""
        self._level = np.ptp(base, axis=1) == 0
        """Groups to whom all points are alike but for the distances."""
        flat = np.abs(rise) <= TIE
        self._any_flat = bool(flat.any())
        """Whether any two neighbours tie, so that more than the looked-up points may."""
        if self._any_flat:
            beside = np.zeros((len(flat), self._size), dtype=bool)
            beside[:, :-1] |= flat
            beside[:, 1:] |= flat
            self._flat = beside.ravel()

    def best(self, ordered: Indices, group: Indices) -> Indices:
        """Each person's best point, given their observations in order, (people, n)."""
        best = np.empty(len(ordered), dtype=np.int64)
        doubtful = np.empty(len(ordered), dtype=bool)
        for part in _parts(len(ordered), 4 * self._gaps):
            best[part], doubtful[part] = self._by_look_up(ordered[part], group[part])
        again = np.flatnonzero(doubtful | self._ragged[group])
        for part in _parts(again.size, self._size):
            chosen = again[part]
            best[chosen] = self._by_scoring(ordered[chosen], group[chosen])
        return best

    def _by_look_up(self, ordered: Indices, group: Indices) -> tuple[Indices, NDArray[np.bool_]]:
        """The best of the points that can be, and whether another point may tie with it."""
        people, count = ordered.shape
        gaps, columns = self._gaps, 2 + self._peaks.shape[2]
        where = np.empty((people, columns * gaps + count), dtype=np.int64)
        score = np.empty(where.shape)
        blocks = [slice(i * gaps, (i + 1) * gaps) for i in range(columns)]
        lower, upper = where[:, blocks[0]], where[:, blocks[1]]
        lower[:, 0], upper[:, -1] = 0, self._size - 1
        np.add(ordered, 1, out=lower[:, 1:])
        np.subtract(ordered, 1, out=upper[:, :-1])
        # On gap j: sum |x - y_i| = (2j - n) x + the sum above less the sum below.
        below = np.zeros((people, gaps), dtype=np.int64)
        np.cumsum(ordered, axis=1, out=below[:, 1:])
        offset = self._shape.rate * (below[:, -1:] - 2 * below)
        rows = (group[:, None] * gaps + np.arange(gaps)) * self._size
        heights = self._heights
        empty = lower > upper
        for block in blocks[:2]:  # an empty gap may end outside its curve: wrapped, then left out
            found = heights.take(rows + where[:, block], mode="wrap") - offset
            score[:, block] = np.where(empty, -np.inf, found)
        for block, column in zip(blocks[2:], np.moveaxis(self._peaks, 2, 0), strict=True):
            peak = where[:, block] = column[group]
            inside = (peak >= lower) & (peak <= upper)
            score[:, block] = np.where(
                inside, heights.take(rows + peak, mode="wrap") - offset, -np.inf
            )
        if count:
            where[:, columns * gaps :] = ordered
            found = heights.take(rows[:, :-1] + ordered) - offset[:, :-1]
            if self._shape.spike.any():
                found += self._shape.spike.take(ordered) * _multiplicity(ordered)
            score[:, columns * gaps :] = found
        chosen = score.argmax(axis=1)
        everyone = np.arange(people)
        best = where[everyone, chosen]
        near = score >= score[everyone, chosen][:, None] - TIE
        doubtful = (near & (where != best[:, None])).any(axis=1)
        if self._any_flat:
            for block in blocks:
                level = self._flat.take(rows + where[:, block], mode="wrap")
                doubtful |= (near[:, block] & level).any(axis=1)
        if count and count % 2 == 0 and self._level.any():
            middle = count // 2
            elsewhere = near[:, : columns * gaps].reshape(people, columns, gaps).any(axis=1)
            here = elsewhere[:, middle].copy()
            elsewhere[:, middle] = False
            known = doubtful & self._level[group] & ~elsewhere.any(axis=1)
            length = np.where(here, upper[:, middle] - lower[:, middle] + 1, 0)
            tied = near[:, columns * gaps :]
            resolved = _middle_of_plateau(ordered, tied, lower[:, middle], length)
            best = np.where(known, resolved, best)
            doubtful &= ~known
        return best, doubtful

    def _by_scoring(self, ordered: Indices, group: Indices) -> Indices:
        """The best of all points, by the score of each; of those that tie, the middle one."""
        scores = self._base[group]
        everyone = np.arange(len(ordered))
        for received in ordered.T:
            scores += self._falling[self._size - 1 - received]
            scores[everyone, received] += self._shape.spike[received]
        return _middle_of_best(scores)

    @cached_property
    def _falling(self) -> Floats:
        """Row m-1-y is -rate * |x - y| over all x: windows of one line, no copies."""
        gaps = np.abs(np.arange(1 - self._size, self._size))
        return sliding_window_view(-self._shape.rate * gaps, self._size)


_BLOCK = 1 << 14
"""Numbers per intermediate array, so that they stay in the CPU's cache."""


def _parts(people: int, each: int) -> Iterator[slice]:
    """Slices over people for whom intermediate arrays hold `each` numbers."""
    step = max(1, _BLOCK // each)
    return (slice(first, first + step) for first in range(0, people, step))


_PEAKS = 6
"""Curves with more peaks than this are rounding noise on a plateau, or not worth looking up."""


def _peaks(rise: Floats) -> tuple[Indices, NDArray[np.bool_]]:
    """Where each curve stops rising: (curves, most), -1 for none; and which curves have few."""
    edge = np.ones((len(rise), 1), dtype=bool)
    peak = np.hstack((edge, rise > 0)) & np.hstack((rise <= 0, edge))
    curve, place = np.nonzero(peak)
    counts = np.bincount(curve, minlength=len(rise))
    few = counts <= _PEAKS
    rank = np.arange(curve.size) - (np.cumsum(counts) - counts)[curve]
    kept = few[curve]
    most = int(counts[few].max(initial=0))
    found = np.full((len(rise), most), -1, dtype=np.int64)
    found[curve[kept], rank[kept]] = place[kept]
    return found, few


def _middle_of_plateau(
    ordered: Indices, tied: NDArray[np.bool_], first: Indices, length: Indices
) -> Indices:
    """The middle of the points that tie, if they are some observations and the gap amid them.

    Of an even number of observations the middle gap is level, wherever nothing else is known.
    """
    tied = tied.copy()
    tied[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]  # equal observations are one point
    rank = tied.cumsum(axis=1)
    below = rank[:, ordered.shape[1] // 2 - 1]
    nth = (rank[:, -1] + length - 1) // 2
    beyond = np.where(nth < below, nth, nth - length)
    place = (rank > beyond[:, None]).argmax(axis=1)
    amid = (nth >= below) & (nth < below + length)
    middle: Indices = np.where(amid, first + nth - below, ordered[np.arange(len(ordered)), place])
    return middle


def _multiplicity(ordered: Indices) -> Indices:
    """How many observations of the same person equal each one."""
    same = np.ones(ordered.shape, dtype=np.int64)
    for apart in range(1, ordered.shape[1]):
        equal = ordered[:, apart:] == ordered[:, :-apart]
        if not equal.any():
            break
        same[:, apart:] += equal
        same[:, :-apart] += equal
    return same


def _middle_of_best(scores: Floats) -> Indices:
    """In each row the position of the largest score, of several that tie the middle one."""
    tied = scores >= scores.max(axis=1, keepdims=True) - TIE
    places = np.flatnonzero(tied)
    counts = np.bincount(places // scores.shape[1], minlength=len(scores))
    middle: Indices = places[np.cumsum(counts) - counts + (counts - 1) // 2]
    middle %= scores.shape[1]
    return middle
