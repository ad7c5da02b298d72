"""A formula for a target that nobody wrote down, fitted to public rows.

A service's formula may be unknown while public rows show what it computed. Sensitivities need only
its shape near the population mean, so an approximation serves: every form below is fitted with a
Lasso that picks terms and a ridge regression that prices them (scikit-learn, `rootguard[learn]`),
scored on rows it was not fitted to, and the simplest within one standard error of the best wins.
It is written in the formula language, number for number.

What is learned decides where budget goes, so how accurate a release is; never how private it is.
That holds only while the rows are public, because bounds, means and coefficients come from them.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import numpy as np

from rootguard.advice.learning.forms import (
    FORMS,
    Fit,
    FormName,
    FunctionalForm,
    fit_form,
    linear_models,
)
from rootguard.advice.learning.rows import PublicRows
from rootguard.advice.people import Column
from rootguard.advice.seeds import generator
from rootguard.errors import CohortError, FormulaError, RootGuardError
from rootguard.expressions import Node, evaluate, evaluate_many, parse, to_text
from rootguard.values import RootName

FIT_ROWS = 10_000
"""Rows that forms are fitted to; of more, a seeded sample. Population figures use them all.

A coefficient is then off by about a hundredth of what the rows scatter. More rows would only make
eight forms in six fits each take longer."""
MAX_QUADRATIC_ROOTS = 16
"""They have 152 terms of first and second degree, of which at most 40 are kept anyway."""
AGREEMENT = 1e-9
"""How closely the written formula must follow the fitted model, relative to its largest value.

A sum of forty terms that nearly cancel may lose some of a float's sixteen digits; with seven lost
it is another formula."""
_EXACT = 1e-7
"""Percent of error that is rounding: forms this close are equally good."""
_FEW = 100
"""Rows: in five folds, twenty judge a form, and one of them moves its error by a twentieth."""
_ROWS_PER_TERM = 10
"""The usual rule of thumb for a regression."""
_FAR = 0.1
"""Of a column's range: twice what bounds made from the rows are padded by."""

Bounds = Mapping[RootName, tuple[float, float]]
Report = Callable[[int, int], None]
WarningKind = Literal["rows", "constant", "dropped", "range", "fit", "sample", "unused"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """How one form does on rows it has not seen, in percent; without figures, `reason` says why."""

    form: FormName
    wmape: float | None = None
    wmape_se: float | None = None
    r2: float | None = None
    terms: int = 0
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Caution:
    """Something to know before relying on the result."""

    kind: WarningKind
    text: str


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Learned:
    """The chosen formula and everything that chose it."""

    chosen: Score
    fit: Fit
    baseline: float
    """The error, in percent, of saying the median of the other rows."""
    scores: tuple[Score, ...]
    cautions: tuple[Caution, ...] = ()
    rows: int
    folds: int
    seed: int

    @property
    def form(self) -> FormName:
        """The name of the form that was chosen."""
        return self.chosen.form

    @property
    def wmape(self) -> float:
        """Its cross-validated error, in percent."""
        return self.chosen.wmape or 0.0

    @property
    def r2(self) -> float:
        """The part of the target's variance that it explains, cross-validated."""
        return self.chosen.r2 or 0.0

    @property
    def formula(self) -> Node:
        """The form with its numbers."""
        return self.fit.formula()

    @property
    def coefficients(self) -> Mapping[str, float]:
        """Its numbers, by what they are multiplied with."""
        return MappingProxyType(self.fit.coefficients())


def learn(
    rows: PublicRows,
    *,
    bounds: Bounds = MappingProxyType({}),
    folds: int = 5,
    seed: int = 0,
    report: Report | None = None,
) -> Learned:
    """Fit every form, score each by cross-validation, and choose.

    `bounds` are the public bounds of the template to be: a form that has no value at one of them
    is not used. The baseline says the median of the other rows for every row.
    """
    linear_models()  # refuse before any work if it is not installed
    if not 2 <= folds <= 20 or seed < 0:
        raise RootGuardError("folds must be from 2 to 20 and the seed 0 or more; correct them")
    # Shuffled before it is cut and dealt out: files are often sorted, by the target even.
    order = generator(seed, "learning", "rows").permutation(len(rows))[:FIT_ROWS]
    inputs = np.column_stack([column[order] for column in rows.columns.values()])
    names = tuple(rows.columns)
    target = rows.target[order]
    part = np.arange(len(target)) % folds
    steps = len(FORMS) * (folds + 1)
    fits: dict[FormName, Fit] = {}
    scores: list[Score] = []
    for number, form in enumerate(FORMS):
        # `first` is bound now: the loop goes on to another number.
        def tick(done: int, first: int = number * (folds + 1)) -> None:
            if report is not None:
                report(first + done, steps)

        score, fit = _score(form, names, inputs, target, part, bounds, seed, tick)
        tick(folds + 1)
        scores.append(score)
        if fit is not None:
            fits[form.name] = fit
    chosen = choose(scores)
    if chosen is None:
        problem = "no form of these columns says anything about the target"
        remedy = "name other roots with --roots, or plan with the uniform allocation"
        raise CohortError(rows.file, f"column {rows.target_name}", problem, remedy)
    learned = Learned(
        chosen=chosen,
        fit=fits[chosen.form],
        baseline=_baseline(target, part),
        scores=tuple(scores),
        rows=len(rows),
        folds=folds,
        seed=seed,
    )
    return replace(learned, cautions=tuple(_cautions(rows, learned, bounds)))


def _score(
    form: FunctionalForm,
    names: tuple[RootName, ...],
    inputs: Column,
    target: Column,
    part: np.ndarray[tuple[int], np.dtype[np.int64]],
    bounds: Bounds,
    seed: int,
    tick: Callable[[int], None],
) -> tuple[Score, Fit | None]:
    """A form's figures and its fit to all rows; only a reason where it cannot be used."""
    reason = _unfit(form, names, inputs, target, bounds)
    if reason:
        return Score(form=form.name, reason=reason), None
    predicted = np.empty(len(target))
    folds = int(part.max()) + 1
    try:
        # First on all rows: what cannot be written down is not worth its folds.
        fit = fit_form(form, names, inputs, target, seed=seed)
        if reason := _unwritable(fit, inputs, bounds):
            return Score(form=form.name, reason=reason), None
        for fold in range(folds):
            tick(fold + 1)
            held = part == fold
            model = fit_form(form, names, inputs[~held], target[~held], seed=seed)
            predicted[held] = model.predict(inputs[held])
    except FormulaError as refusal:
        return Score(form=form.name, reason=str(refusal)), None
    if not np.isfinite(predicted).all():
        return Score(form=form.name, reason="its values grow beyond any number"), None
    errors = np.array([wmape(target[part == f], predicted[part == f]) for f in range(folds)])
    errors = errors[np.isfinite(errors)]  # a fold of zeros alone has no error in percent
    score = Score(
        form=form.name,
        wmape=wmape(target, predicted),
        wmape_se=float(errors.std(ddof=1)) / math.sqrt(len(errors)) if len(errors) > 1 else 0.0,
        r2=1 - float(np.sum((target - predicted) ** 2) / np.sum((target - target.mean()) ** 2)),
        terms=len(fit.terms),
    )
    return score, fit


def wmape(truth: Column, said: Column) -> float:
    """100 * sum |said - truth| / sum |truth|; not a number where every truth is zero."""
    whole = float(np.abs(truth).sum())
    return 100 * float(np.abs(said - truth).sum()) / whole if whole > 0 else math.nan


def _baseline(target: Column, part: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
    said = np.empty(len(target))
    for fold in range(int(part.max()) + 1):
        said[part == fold] = np.median(target[part != fold])
    return wmape(target, said)


def _unfit(
    form: FunctionalForm,
    names: tuple[RootName, ...],
    inputs: Column,
    target: Column,
    bounds: Bounds,
) -> str:
    """Why a form cannot be tried on these rows; empty if it can."""
    if form.log_target and target.min() <= 0:
        return "the target is not always above zero"
    if form.log_roots:
        for name, column in zip(names, inputs.T, strict=True):
            if column.min() <= 0 or bounds.get(name, (1.0, 1.0))[0] <= 0:
                return f"{name} or its lower bound is not above zero"
    if form.degree == 2 and len(names) > MAX_QUADRATIC_ROOTS:
        return f"over {MAX_QUADRATIC_ROOTS} roots have too many products"
    return ""


def _unwritable(fit: Fit, inputs: Column, bounds: Bounds) -> str:
    """Why a fit cannot stand in a template; empty if its formula says what the model says."""
    if not fit.terms:
        return "no root is worth a term"
    formula = parse(to_text(fit.formula()))  # through its text, as the template will have it
    model = fit.predict(inputs)
    columns = {str(name): column for name, column in zip(fit.roots, inputs.T, strict=True)}
    written = evaluate_many(formula, columns)
    if not np.isfinite(model).all() or np.isnan(written).any():
        return "it has no value for some rows"
    if np.abs(written - model).max() > AGREEMENT * np.abs(model).max():
        return "its formula loses digits"
    # One bound at a time, the others at their mean, where sensitivities are taken: all corners
    # would be two to the number of roots.
    middle = {str(n): float(c.mean()) for n, c in zip(fit.roots, inputs.T, strict=True)}
    for name, ends in bounds.items():
        for end in ends:
            try:
                evaluate(formula, middle | {str(name): end})
            except FormulaError:
                return f"it has no value at a bound of {name}"
    return ""


def choose(scores: list[Score]) -> Score | None:
    """The one-standard-error rule: of forms about as good as the best, the one of fewest terms."""
    rated = [(score.wmape, score) for score in scores if score.wmape is not None]
    if not rated:
        return None
    least, best = min(rated, key=lambda pair: pair[0])
    near = [score for error, score in rated if error <= least + (best.wmape_se or 0.0) + _EXACT]
    return min(near, key=lambda score: score.terms)  # ties: the order of FORMS


def _cautions(rows: PublicRows, learned: Learned, bounds: Bounds) -> list[Caution]:
    fit = learned.fit
    found: list[Caution] = []

    def warn(kind: WarningKind, text: str) -> None:
        found.append(Caution(kind=kind, text=text))

    if rows.dropped:
        warn("dropped", f"{rows.dropped} rows with a missing or infinite value were left out")
    for name in rows.constant:
        warn("constant", f"{name} is the same in every row and was left out of the template")
    if len(rows) < max(_FEW, _ROWS_PER_TERM * (len(fit.terms) + 1)):
        warn("rows", f"{len(rows)} rows are few for {len(fit.terms)} terms; add rows")
    if len(rows) > FIT_ROWS:
        warn("sample", f"the formula was fitted to {FIT_ROWS:,} of {len(rows):,} rows")
    if learned.wmape > learned.baseline / 2:  # as for a release: worth having if twice as near
        rough = "no better than" if learned.wmape >= learned.baseline else "not far below"
        warn("fit", f"the error is {rough} the median's; a uniform allocation may do as well")
    used = {fit.roots[place] for term in fit.terms for place in term}
    for name, column in rows.columns.items():
        if name not in used:
            warn("unused", f"{name} has no part in the formula and will get the least budget")
        lower, upper = bounds.get(name, (-math.inf, math.inf))
        least, greatest = float(column.min()), float(column.max())
        slack = _FAR * (greatest - least)
        if math.isfinite(lower + upper) and (lower < least - slack or upper > greatest + slack):
            warn("range", f"the bounds of {name} are wider than its rows: there it extrapolates")
        if lower > least or upper < greatest:
            warn("range", f"some rows of {name} lie outside its bounds")
    return found
