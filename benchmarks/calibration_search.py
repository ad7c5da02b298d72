"""The constants and estimators of calibrated release, chosen and judged on different patients.

`python -m benchmarks.calibration_search COHORT` takes each candidate's error for every patient,
with geometric noise and B = (2k+1) epsilon, and cross-validates the choice: of five folds of
patients four choose, and the fifth, which had no part in it, judges. Chosen is the candidate with
the least error among those that keep the limits on worrying classes: of the choosing patients in a
class, calibration finds at most ten in a hundred fewer than noise alone at epsilon 0.02, whatever
the mechanism. The figures that people are calibrated with come from the templates, so no patient
of the cohort is in them either. What is printed is the judged error with its standard error over
patients, the judged fall of each class, what was chosen in each fold, and every candidate.
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
from rootguard.advice.utility import Trial, Turns, UtilityCell, class_numbers
from rootguard.calibration import Calibration, Level, priors, release
from rootguard.evaluation.cohorts import load_cohort
from rootguard.mechanisms.base import Floats, Indices
from rootguard.template import Template, load_template
from rootguard.values import MechanismName, RootName

EPSILONS = tuple(Fraction(text) for text in ("0.1", "0.05", "0.02", "0.01", "0.005"))
FOLDS, REPEATS, SEED = 5, 5, 0
ALARM_CELLS: tuple[tuple[MechanismName, Turns], ...] = (
    ("exponential", "k+1"),
    ("laplace", "k+1"),
    ("geometric", "k+1"),
)
"""Where the falls of worrying classes are measured, the strongest noise first."""
ALARM_EPSILON, ALARM_REPEATS, MOST_FALL = Fraction("0.02"), 10, 0.1
Columns = dict[RootName, Indices]


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """One way to calibrate. `figures`: log-scale and rank, or moments and covariance."""

    figures: str = "log"
    estimate: str = "median"
    flat: float = priors.FLAT
    untied: float = priors.UNTIED
    price: float = release.ALARM_PRICE
    evidence: float = release.ALARM_EVIDENCE

    def __str__(self) -> str:
        return (
            f"{self.figures:7} {self.estimate:11} flat {self.flat:g} "
            f"untied {self.untied:g} price {self.price:g} evidence {self.evidence:g}"
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
    for estimate in ("median", "median 1024", "mean", "single"):
        yield Candidate(estimate=estimate)
    yield Candidate(figures="moments")
    for flat, untied in product((0.01, 0.02, 0.05), (0.05, 0.1, 0.2)):
        yield Candidate(flat=flat, untied=untied)
    for price, evidence in product((1.5, 2.5, 4.0, 8.0), (0.0, 0.5, 0.9)):
        yield Candidate(price=price, evidence=evidence)


@contextmanager
def constants(candidate: Candidate) -> Iterator[None]:
    """The candidate's constants in place of those in use."""
    kept = (
        priors.FLAT,
        release.UNTIED,
        release.ALARM_PRICE,
        release.ALARM_EVIDENCE,
    )
    _set(candidate.flat, candidate.untied, candidate.price, candidate.evidence)
    try:
        yield
    finally:
        _set(*kept)


def _set(flat: float, untied: float, price: float, evidence: float) -> None:
    priors.FLAT, release.UNTIED = flat, untied
    release.ALARM_PRICE, release.ALARM_EVIDENCE = price, evidence
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


def calibrated(
    candidate: Candidate, trial: Trial, name: MechanismName, budget: Turns, epsilon: Fraction
) -> tuple[Floats, Floats]:
    """Targets from the noise alone and as the candidate makes them: (repeats, patients) each."""
    template = told(trial.template, candidate)
    cell = UtilityCell(
        budget=budget, epsilon=epsilon, template=template.name, mechanism=name, config="opt"
    )
    plan = trial.plan(cell)
    levels = {
        s.root: Level(domain=s.domain, mechanism=plan.mechanism, epsilon=s.epsilon)
        for s in plan.shares
    }
    noised = trial._noised(plan, cell, "opt")
    plain = trial.targets([trial.received(cell)])[0]
    return plain, released(template, levels, noised, candidate.estimate).reshape(plain.shape)


def errors(candidate: Candidate, trials: Sequence[Trial]) -> Floats:
    """Errors in percent of the template's mean target: (templates, epsilons, patients)."""
    table = []
    for trial in trials:
        line = []
        for epsilon in EPSILONS:
            _, target = calibrated(candidate, trial, "geometric", "2k+1", epsilon)
            off = np.abs(target - trial.truth).mean(axis=0)
            line.append(100 * off / np.abs(trial.truth).mean())
        table.append(line)
    return np.array(table)


def falls(candidate: Candidate, trials: Sequence[Trial]) -> dict[str, Floats]:
    """How much less often each patient of a worrying class is found than by the noise alone.

    By template, class and cell; NaN for patients who are not in the class.
    """
    found = {}
    for trial in trials:
        classes = trial.template.risk
        truth = class_numbers(classes, trial.truth)
        for name, budget in ALARM_CELLS:
            plain, target = calibrated(candidate, trial, name, budget, ALARM_EPSILON)
            for number, risk in enumerate(classes):
                if risk.worrying and (truth == number).any():
                    hits = [class_numbers(classes, t) == number for t in (plain, target)]
                    fall = hits[0].mean(axis=0) - hits[1].mean(axis=0)
                    key = f"{trial.template.name}, {risk.label}, {name}, {budget}"
                    found[key] = np.where(truth == number, fall, np.nan)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """A candidate's errors, and its falls where alarms are kept at all."""

    errors: Floats
    falls: dict[str, Floats]

    def worst_fall(self, patients: Indices) -> float:
        """The largest mean fall among these patients; of classes that none of them is in, none."""
        means = [
            float(np.nanmean(fall[patients]))
            for fall in self.falls.values()
            if np.isfinite(fall[patients]).any()
        ]
        return max(means, default=1.0)


def choice(measured: dict[Candidate, Measured], patients: Indices) -> Candidate:
    """The least error, relative at each epsilon to the best, among those within the limit.

    If none is, the one that is nearest to it.
    """
    worst = {c: m.worst_fall(patients) for c, m in measured.items()}
    limit = max(MOST_FALL, min(worst.values()))
    means = {
        c: m.errors[:, :, patients].mean(axis=(0, 2))
        for c, m in measured.items()
        if worst[c] <= limit
    }
    best = np.min(list(means.values()), axis=0)
    return min(means, key=lambda c: float((means[c] / best).mean()))


def nested(measured: dict[Candidate, Measured]) -> tuple[Measured, list[Candidate]]:
    """Errors and falls of patients under what the other folds chose, and the choices."""
    first = next(iter(measured.values()))
    order = np.random.default_rng(SEED).permutation(first.errors.shape[2])
    judged = np.empty_like(first.errors)
    found = {key: np.full(len(order), np.nan) for key in first.falls}
    chosen = []
    for fold in np.array_split(order, FOLDS):
        best = choice(measured, np.setdiff1d(order, fold))
        chosen.append(best)
        judged[:, :, fold] = measured[best].errors[:, :, fold]
        for key, fall in measured[best].falls.items():
            found[key][fold] = fall[fold]
    return Measured(errors=judged, falls=found), chosen


def summary(errors: Floats) -> str:
    """The mean over templates at each epsilon, and its standard error over patients."""
    means = errors.mean(axis=(0, 2))
    ses = np.sqrt((errors.var(axis=2, ddof=1) / errors.shape[2]).sum(axis=0)) / errors.shape[0]
    return " ".join(f"{m:6.2f} ±{s:.2f}" for m, s in zip(means, ses, strict=True))


def main(cohort: Path, say: Callable[[str], object]) -> None:
    templates = list(map(load_template, PAPER_TEMPLATES))
    trials, many = (
        [Trial(t, load_cohort(t, cohort), seed=SEED, repeats=repeats) for t in templates]
        for repeats in (REPEATS, ALARM_REPEATS)
    )
    measured: dict[Candidate, Measured] = {}
    for candidate in dict.fromkeys(candidates()):
        with constants(candidate):
            alarmed = candidate.estimate.startswith("median")
            measured[candidate] = Measured(
                errors=errors(candidate, trials),
                falls=falls(candidate, many) if alarmed else {},
            )
        worst = measured[candidate].worst_fall(np.arange(len(trials[0].truth)))
        say(f"{candidate}  {summary(measured[candidate].errors)}  worst fall {100 * worst:.1f}")
    judged, chosen = nested({c: m for c, m in measured.items() if m.falls})
    say(f"nested, judged on patients who did not choose: {summary(judged.errors)}")
    for one in chosen:
        say(f"  chosen: {one}")
    for key, fall in judged.falls.items():
        inside = fall[np.isfinite(fall)]
        if inside.mean() > 0.02:
            se = inside.std(ddof=1) / np.sqrt(inside.size)
            say(f"  fall, {key}: {100 * inside.mean():.1f} ± {100 * se:.1f}")
    say(f"in use: {summary(measured[Candidate()].errors)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), print)
