"""How far released targets are from the true ones, and how sure that is.

Symbols as in the paper's section on metrics: y is a patient's true target, y^ the target computed
from noised roots, c(.) the risk class counted from 0, C the number of classes. Arrays of releases
have the shape (cells, repeats, patients): cells are measured together because that is quicker, and
each repeat is an independent draw of all the noise.

Standard errors are bootstrapped over patients, on the mean over repeats; so they hold both kinds of
chance, which patients were asked and which noise was drawn. The Monte Carlo error is the second
kind alone, from the spread between repeats.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import nan

import numpy as np

from rootguard.advice.utility import class_numbers
from rootguard.mechanisms.base import Floats
from rootguard.template import RiskClass

RESAMPLES = 1000  # a standard error is then itself known to about 2 %
# The matrix of resamples is kept: 1,000 rows of this many take 400 MB.
MAX_PATIENTS = 50_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A metric in percent. `monte_carlo` is None for a single repeat, which shows no spread."""

    value: float
    se: float
    monte_carlo: float | None


class Bootstrap:
    """Resamples of one cohort's patients, drawn once and shared by all figures about it.

    `counts` says how often each resample holds each patient: (resamples, patients), and every row
    sums to the number of patients. A resample that happens to hold only patients whose target is
    zero has no relative error and is left out.
    """

    def __init__(
        self, truth: Floats, generator: np.random.Generator, *, count: int = RESAMPLES
    ) -> None:
        patients = len(truth)
        if not 1 <= patients <= MAX_PATIENTS:
            raise ValueError(f"a cohort has between 1 and {MAX_PATIENTS} patients")
        self.counts = _counts(patients, count, generator)
        self.truth = truth
        self._sizes = np.abs(truth)
        self._resampled: Floats = self.counts @ self._sizes
        usable = self._resampled > 0
        self.counts, self._resampled = self.counts[usable], self._resampled[usable]

    def measure(
        self, released: Floats, classes: Sequence[RiskClass]
    ) -> list[tuple[Estimate, Estimate | None]]:
        """The weighted mean absolute percentage error and the risk class error of each cell.

        wMAPE is 100 * sum |y^ - y| / sum |y|: undefined (a ValueError) where every true target is
        zero. The risk class error is the mean of 100 * |c(y^) - c(y)| / (C - 1): None without two
        classes to confuse. `released` is (cells, repeats, patients).
        """
        whole, patients = float(self._sizes.sum()), float(len(self.truth))
        if not whole > 0:
            raise ValueError("every true target is zero, so no error can be relative to them")
        off = np.abs(released - self.truth)
        apart = class_numbers(classes, released)
        apart -= class_numbers(classes, self.truth)
        np.abs(apart, out=apart)
        apart /= max(len(classes) - 1, 1)
        means = np.stack((off.mean(axis=1), apart.mean(axis=1)), axis=2)
        # A product per cell: how wide a product is decides its last bits, and those of a cell must
        # not depend on which other cells run beside it.
        sums = np.stack([self.counts @ pair for pair in means])
        errors = _figures(off, whole, sums[:, :, 0] / self._resampled)
        if len(classes) < 2:
            return [(error, None) for error in errors]
        risks = _figures(apart, patients, sums[:, :, 1] / patients)
        return list(zip(errors, risks, strict=True))

    def sensitivity(self, released: Floats, classes: Sequence[RiskClass]) -> list[Estimate | None]:
        """The recall of the last class."""
        return self.recall(released, classes, len(classes) - 1)

    def recall(
        self, released: Floats, classes: Sequence[RiskClass], number: int
    ) -> list[Estimate | None]:
        """Of the patients truly in a class, how many percent are released in it, by cell.

        None without two classes, and where no patient is in this one. A resample without such a
        patient is left out.
        """
        inside = class_numbers(classes, self.truth) == number
        if len(classes) < 2 or not inside.any() or not len(released):
            return [None] * len(released)
        found = (class_numbers(classes, released[:, :, inside]) == number).astype(float)
        held = self.counts[:, inside]
        sizes = held.sum(axis=1)
        held, sizes = held[sizes > 0], sizes[sizes > 0]
        redone = np.stack([held @ each for each in found.mean(axis=1)])
        return list(_figures(found, float(inside.sum()), redone / sizes))


def _counts(patients: int, count: int, generator: np.random.Generator) -> Floats:
    counts = np.empty((count, patients))
    rows = max(1, (1 << 20) // patients)
    for first in range(0, count, rows):
        part = counts[first : first + rows]
        chosen = generator.integers(patients, size=part.shape)
        chosen += patients * np.arange(len(part))[:, None]
        part[:] = np.bincount(chosen.ravel(), minlength=part.size).reshape(part.shape)
    return counts


def _figures(errors: Floats, whole: float, redone: Floats) -> list[Estimate]:
    """Sums of errors over `whole`; `redone` is the same ratio by cell and resample."""
    totals = errors.sum(axis=2)
    repeats = totals.shape[1]
    ses = redone.std(axis=1, ddof=1) if redone.shape[1] > 1 else np.full(len(totals), nan)
    spreads = totals.std(axis=1, ddof=1) / math.sqrt(repeats) if repeats > 1 else None
    values = totals.mean(axis=1)
    return [
        Estimate(
            value=100 * float(values[i]) / whole,
            se=100 * float(ses[i]),
            monte_carlo=None if spreads is None else 100 * float(spreads[i]) / whole,
        )
        for i in range(len(values))
    ]


def mean_se(errors: Iterable[float]) -> float:
    """The paper's propagation for a mean of k independent figures: sqrt(sum SE**2) / k."""
    squares = [error**2 for error in errors]
    return math.sqrt(math.fsum(squares)) / len(squares)


def mean_estimate(
    estimates: Sequence[Estimate], *, total: Callable[[Iterable[float]], float] = sum
) -> Estimate:
    """The mean of independent figures; its Monte Carlo error is known if all of theirs are.

    Means of eight figures with six decimals often lie half-way between two such, so how they are
    summed shows in what is printed: each study keeps to its own way.
    """
    spreads = [each.monte_carlo for each in estimates if each.monte_carlo is not None]
    return Estimate(
        value=total(each.value for each in estimates) / len(estimates),
        se=mean_se(each.se for each in estimates),
        monte_carlo=mean_se(spreads) if len(spreads) == len(estimates) else None,
    )


def wins(pairs: Iterable[tuple[float, float]]) -> int:
    """In how many pairs (challenger, baseline) the challenger has the lower error."""
    return sum(challenger < baseline for challenger, baseline in pairs)
