"""The constants and estimators of calibrated release, chosen and judged on different patients.

`python -m benchmarks.calibration_search COHORT` takes each candidate's error for every patient,
with geometric noise and B = (2k+1) epsilon, and cross-validates the choice: of five folds of
patients four choose the candidate with the least error, and the fifth, which had no part in it,
judges it. The figures that people are calibrated with come from the templates, so no patient of the
cohort is in them either. What is printed is the judged error with its standard error over patients,
what was chosen in each fold, and every candidate beside it.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np

from rootguard.advice.people import PAPER_TEMPLATES
from rootguard.advice.utility import Trial, UtilityCell
from rootguard.calibration import Calibration, Level, priors, release
from rootguard.evaluation.cohorts import load_cohort
from rootguard.mechanisms.base import Floats, Indices
from rootguard.template import Template, load_template
from rootguard.values import RootName

EPSILONS = tuple(Fraction(text) for text in ("0.1", "0.05", "0.02", "0.01", "0.005"))
FOLDS, REPEATS, SEED = 5, 5, 0
Columns = dict[RootName, Indices]


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """One way to calibrate. `figures`: log-scale and rank, or moments and covariance."""

    figures: str = "log"
    estimate: str = "median"
    flat: float = priors.FLAT
    wide: float = priors.WIDE
    untied: float = priors.UNTIED
    price: float = release.ALARM_PRICE

    def __str__(self) -> str:
        return (
            f"{self.figures:7} {self.estimate:11} flat {self.flat:g} wide {self.wide:g} "
            f"untied {self.untied:g} price {self.price:g}"
        )


class MeanCalibration(Calibration):
    """The posterior mean of the target in place of its median; without alarms."""

    def targets_many(self, noised: "Columns") -> Floats:  # type: ignore[override]
        indices = [noised[root] for root in self.roots]
        found = []
        for start in range(0, len(indices[0]), 256):
            part = [column[start : start + 256] for column in indices]
            rows = [p.rows(i) for p, i in zip(self._posteriors, part, strict=True)]
            own = self._target([p.values[r] for p, r in zip(self._posteriors, rows, strict=True)])
            shared = np.broadcast_to(self._shared[1], (len(own), self._shared[1].size))
            targets = np.hstack([own, shared])
            weights = np.where(np.isnan(targets), 0, self._weights(rows))
            found.append((np.nan_to_num(targets) * weights).sum(axis=1) / weights.sum(axis=1))
        return np.concatenate(found)


def candidates() -> Iterator[Candidate]:
    """The estimators, then the constants around those in use."""
    for figures, estimate in product(
        ("log", "moments"), ("median", "median 1024", "mean", "single")
    ):
        yield Candidate(figures=figures, estimate=estimate)
    for flat, wide, untied in product((0.01, 0.02, 0.05), (0.0, 0.05, 0.1), (0.05, 0.1, 0.2)):
        yield Candidate(flat=flat, wide=wide, untied=untied)
    for price in (4.0, 16.0):
        yield Candidate(price=price)


@contextmanager
def constants(candidate: Candidate) -> Iterator[None]:
    """The candidate's constants in place of those in use."""
    kept = priors.FLAT, priors.WIDE, release.UNTIED, release.ALARM_PRICE
    _set(candidate.flat, candidate.wide, candidate.untied, candidate.price)
    try:
        yield
    finally:
        _set(*kept)


def _set(flat: float, wide: float, untied: float, price: float) -> None:
    priors.FLAT, priors.WIDE, release.UNTIED, release.ALARM_PRICE = flat, wide, untied, price
    priors.marginal.cache_clear()
    release._alarms_of.cache_clear()


def told(template: Template, candidate: Candidate) -> Template:
    if candidate.figures == "log" or template.population is None:
        return template
    roots = {n: replace(root, median=None, log_sd=None) for n, root in template.roots.items()}
    population = replace(template.population, rank_correlation=None)
    return replace(template, roots=roots, population=population)


def released(
    template: Template, levels: dict[RootName, Level], noised: Columns, how: str
) -> Floats:
    if how == "mean":
        return MeanCalibration(template, levels).targets_many(noised)
    if how == "single":
        calibration = Calibration(template, levels)
        found = calibration.medians_many(noised)
        return calibration._target([found[root] for root in calibration.roots])
    points = 1024 if how == "median 1024" else release.POINTS
    return Calibration(template, levels, points=points).targets_many(noised)


def errors(candidate: Candidate, trials: Sequence[Trial]) -> Floats:
    """Errors in percent of the template's mean target: (templates, epsilons, patients)."""
    table = []
    for trial in trials:
        template = told(trial.template, candidate)
        line = []
        for epsilon in EPSILONS:
            cell = UtilityCell(
                budget="2k+1",
                epsilon=epsilon,
                template=template.name,
                mechanism="geometric",
                config="opt",
            )
            plan = trial.plan(cell)
            levels = {
                s.root: Level(domain=s.domain, mechanism=plan.mechanism, epsilon=s.epsilon)
                for s in plan.shares
            }
            noised = trial._noised(plan, cell, "opt")
            target = released(template, levels, noised, candidate.estimate)
            off = np.abs(target.reshape(trial.repeats, -1) - trial.truth).mean(axis=0)
            line.append(100 * off / np.abs(trial.truth).mean())
        table.append(line)
    return np.array(table)


def choice(measured: dict[Candidate, Floats], patients: Indices) -> Candidate:
    """The least error over templates, relative at each epsilon to the best candidate's."""
    means = {c: e[:, :, patients].mean(axis=(0, 2)) for c, e in measured.items()}
    best = np.min(list(means.values()), axis=0)
    return min(means, key=lambda c: float((means[c] / best).mean()))


def nested(measured: dict[Candidate, Floats]) -> tuple[Floats, list[Candidate]]:
    """Errors of patients under what the other folds chose, and the choices."""
    patients = next(iter(measured.values())).shape[2]
    order = np.random.default_rng(SEED).permutation(patients)
    judged = np.empty_like(next(iter(measured.values())))
    chosen = []
    for fold in np.array_split(order, FOLDS):
        best = choice(measured, np.setdiff1d(order, fold))
        chosen.append(best)
        judged[:, :, fold] = measured[best][:, :, fold]
    return judged, chosen


def summary(errors: Floats) -> str:
    """The mean over templates at each epsilon, and its standard error over patients."""
    means = errors.mean(axis=(0, 2))
    ses = np.sqrt((errors.var(axis=2, ddof=1) / errors.shape[2]).sum(axis=0)) / errors.shape[0]
    return " ".join(f"{m:6.2f} ±{s:.2f}" for m, s in zip(means, ses, strict=True))


def main(cohort: Path, say: Callable[[str], object]) -> None:
    trials = [
        Trial(template, load_cohort(template, cohort), seed=SEED, repeats=REPEATS)
        for template in map(load_template, PAPER_TEMPLATES)
    ]
    measured: dict[Candidate, Floats] = {}
    for candidate in dict.fromkeys(candidates()):
        with constants(candidate):
            measured[candidate] = errors(candidate, trials)
        say(f"{candidate}  {summary(measured[candidate])}")
    judged, chosen = nested(measured)
    say(f"nested, judged on patients who did not choose: {summary(judged)}")
    for one in chosen:
        say(f"  chosen: {one}")
    say(f"in use: {summary(measured[Candidate()])}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), print)
