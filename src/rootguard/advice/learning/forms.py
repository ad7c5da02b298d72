"""The forms a learned formula may take: how each is fitted, evaluated and written down.

With t(x) = x or ln x of every root and u(y) = y or ln y of the target, a form is

    u(y) = b + sum of b_i t_i              (degree 1)
         + sum of b_ij t_i t_j, i <= j     (degree 2)

which makes eight; ln on both sides at degree 1 is a product of powers. Roots are centred at a short
number near their mean and divided by their deviation before they are multiplied, so that terms are
comparable and few digits cancel. The centres stay in the written formula, the deviations go into
its coefficients. A form with ln y predicts the median of a skewed error, which is what an absolute
error asks for, so nothing is added to its exponential.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations_with_replacement
from typing import Any, Literal

import numpy as np

from rootguard.advice.people import Column
from rootguard.errors import FormulaLimitError, RootGuardError
from rootguard.expressions import (
    MAX_LENGTH,
    Arithmetic,
    FunctionCall,
    Negate,
    Node,
    NumberLiteral,
    Variable,
    to_text,
)
from rootguard.values import RootName

FormName = Literal[
    "linear",
    "log-linear",
    "linear-in-logs",
    "exponential",
    "polynomial",
    "polynomial-in-logs",
    "log-polynomial",
    "log-polynomial-in-logs",
]
Term = tuple[int, ...]
"""The roots that a term multiplies, by their place: (1,) or (0, 2)."""

_MOST_TERMS = 40
"""What a person can still read, and what the formula language has room for in most cases."""
# The Lasso's penalties: from the one that drops every term down to a hundred-thousandth of it, 18 %
# apart. The ridge's: two in each decade, from nothing to speak of to one that flattens everything.
_PATH = 60
_PATH_END = 1e-5
_RIDGES = np.logspace(-8, 3, 23)
_NOTHING = 1e-8
"""A term this much weaker than the strongest is dropped: it is rounding."""
_INNER = 5
"""Folds within the rows of a fit, to choose the Lasso's penalty."""
_LONG_SUM = 30
"""Parts; each part of a sum makes its tree one deeper, and the language limits depth."""
_OFF_CENTRE = 1000.0
"""Deviations between zero and a root's mean from which three digits or more would cancel."""
_MISSING = "learning a formula needs scikit-learn; run: pip install 'rootguard[learn]'"


@dataclass(frozen=True, kw_only=True, slots=True)
class FunctionalForm:
    """One way to write the target in the roots."""

    name: FormName
    log_target: bool = False
    log_roots: bool = False
    degree: Literal[1, 2] = 1


FORMS = (
    FunctionalForm(name="linear"),
    FunctionalForm(name="log-linear", log_target=True, log_roots=True),
    FunctionalForm(name="linear-in-logs", log_roots=True),
    FunctionalForm(name="exponential", log_target=True),
    FunctionalForm(name="polynomial", degree=2),
    FunctionalForm(name="polynomial-in-logs", log_roots=True, degree=2),
    FunctionalForm(name="log-polynomial", log_target=True, degree=2),
    FunctionalForm(name="log-polynomial-in-logs", log_target=True, log_roots=True, degree=2),
)
"""From simple to less simple; between equals the first is chosen."""


def linear_models() -> Any:  # noqa: ANN401 - scikit-learn has no types
    """scikit-learn's linear models, or a refusal that says how to get them."""
    try:
        import sklearn.linear_model
    except ImportError:
        raise RootGuardError(_MISSING) from None
    return sklearn.linear_model


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Fit:
    """A form with its numbers: u(y) = intercept + sum weight * product of (t(x) - centre)/scale."""

    form: FunctionalForm
    roots: tuple[RootName, ...]
    centres: tuple[float, ...]
    scales: tuple[float, ...]
    terms: tuple[Term, ...]
    weights: tuple[float, ...]
    intercept: float

    def predict(self, inputs: Column) -> Column:
        """The target for each row of root values; infinite where it is over any number."""
        with np.errstate(all="ignore"):
            scaled = (_through(self.form, inputs) - self.centres) / self.scales
            said = _design(scaled, self.terms) @ np.array(self.weights) + self.intercept
            return np.asarray(np.exp(said) if self.form.log_target else said)

    def formula(self) -> Node:
        """The same in the formula language; a `FormulaLimitError` if that has no room for it."""
        constant, slopes = self._plain()
        if self.form.degree == 1 and self.form.log_target and self.form.log_roots:
            powers = [_power(self.roots[i], slope) for (i,), slope in slopes.items()]
            return _within(reduce(_times, powers, _literal(_exp(constant))))
        parts: list[Node] = [_literal(constant)] if constant else []
        for first in dict.fromkeys(term[0] for term in slopes):
            group = {term[1:]: slope for term, slope in slopes.items() if term[0] == first}
            inner = [
                reduce(_times, [self._part(i) for i in rest], _literal(slope))
                for rest, slope in group.items()
            ]
            own = self._part(first)
            parts.append(
                _times(inner[0], own) if len(inner) == 1 else Arithmetic("*", own, _sum(inner))
            )
        total = _sum(parts)
        return _within(FunctionCall("exp", (total,)) if self.form.log_target else total)

    def coefficients(self) -> dict[str, float]:
        """Each number of the formula by what it multiplies (or raises, for a product of powers)."""
        constant, slopes = self._plain()
        if self.form.degree == 1 and self.form.log_target and self.form.log_roots:
            return {"constant": _exp(constant)} | {self.roots[i]: s for (i,), s in slopes.items()}
        named = {to_text(reduce(_times, map(self._part, t))): s for t, s in slopes.items()}
        return {"constant": constant} | named

    def _plain(self) -> tuple[float, dict[Term, float]]:
        """The constant and each term's coefficient once deviations are divided out."""
        constant = self.intercept
        slopes: dict[Term, float] = {}
        for term, weight in zip(self.terms, self.weights, strict=True):
            slopes[term] = weight / math.prod(self.scales[i] for i in term)
            if self.form.degree == 1 and not self._centred(term[0]):
                constant -= slopes[term] * self.centres[term[0]]
        return constant, slopes

    def _centred(self, place: int) -> bool:
        """Whether the formula subtracts a centre: always in products, else where digits cancel."""
        centre, scale = self.centres[place], self.scales[place]
        power = self.form.log_target and self.form.log_roots
        far = abs(centre) > _OFF_CENTRE * scale
        return centre != 0 and (self.form.degree == 2 or (far and not power))

    def _part(self, place: int) -> Node:
        name: Node = Variable(self.roots[place])
        through = FunctionCall("ln", (name,)) if self.form.log_roots else name
        if not self._centred(place):
            return through
        centre = self.centres[place]
        return Arithmetic("-" if centre > 0 else "+", through, NumberLiteral(abs(centre)))


def fit_form(
    form: FunctionalForm, roots: Sequence[RootName], inputs: Column, target: Column, *, seed: int
) -> Fit:
    """Choose terms by Lasso and weigh them by ridge regression, both cross-validated inside.

    Fewer terms are tried until the formula fits the language's limits.
    """
    values = _through(form, inputs)
    aim = np.log(target) if form.log_target else target
    deviations = values.std(axis=0)
    scales = np.where(deviations > 0, deviations, 1.0)
    centres = np.array([_centre(m, s) for m, s in zip(values.mean(axis=0), scales, strict=True)])
    everything: list[Term] = [(i,) for i in range(len(roots))]
    if form.degree == 2:
        everything += combinations_with_replacement(range(len(roots)), 2)
    design = _design((values - centres) / scales, everything)
    strengths = _lasso(design, aim, seed)
    order = [int(i) for i in np.argsort(-np.abs(strengths), kind="stable") if strengths[i]]
    room = min(len(order), _MOST_TERMS)
    while True:
        kept = sorted(order[:room])
        kept, weights, intercept = _ridge(design, aim, kept)
        fit = Fit(
            form=form,
            roots=tuple(roots),
            centres=tuple(centres.tolist()),
            scales=tuple(scales.tolist()),
            terms=tuple(everything[i] for i in kept),
            weights=weights,
            intercept=intercept,
        )
        try:
            if kept:
                fit.formula()
        except FormulaLimitError:
            if room <= 1:
                raise
            room = room * 3 // 4
        else:
            return fit


def _through(form: FunctionalForm, inputs: Column) -> Column:
    return np.asarray(np.log(inputs) if form.log_roots else inputs)


def _design(scaled: Column, terms: Sequence[Term]) -> Column:
    columns = [np.prod(scaled[:, list(term)], axis=1) for term in terms]
    return np.column_stack(columns) if columns else np.zeros((len(scaled), 0))


def _centre(mean: float, deviation: float) -> float:
    """A short number within a tenth of a deviation of the mean."""
    return round(mean, -math.floor(math.log10(deviation / 5))) + 0.0


def _lasso(design: Column, aim: Column, seed: int) -> Column:
    """Standardised coefficients at the penalty of least cross-validated error."""
    spread = design.std(axis=0)
    standard = (design - design.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    scale = aim.std()
    if scale == 0:
        return np.zeros(design.shape[1])
    scaled = (aim - aim.mean()) / scale
    strongest = float(np.abs(standard.T @ scaled).max()) / len(aim)
    if strongest == 0:
        return np.zeros(design.shape[1])
    from sklearn.model_selection import KFold

    folds = KFold(n_splits=_INNER, shuffle=True, random_state=seed % 2**32)
    model = linear_models().LassoCV(
        alphas=np.geomspace(strongest, strongest * _PATH_END, _PATH),
        cv=folds,
        max_iter=2000,
        precompute=False,  # with a Gram matrix scikit-learn checks it again at every penalty
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a path that has not quite converged still ranks terms
        model.fit(standard, scaled)
    return np.asarray(model.coef_, dtype=np.float64)


def _ridge(
    design: Column, aim: Column, kept: list[int]
) -> tuple[list[int], tuple[float, ...], float]:
    """Weights of the terms kept, without those that turn out to be nothing."""
    while kept:
        chosen = design[:, kept]
        middle, spread = chosen.mean(axis=0), chosen.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        strengths = _left_out((chosen - middle) / spread, aim - aim.mean())
        real = np.abs(strengths) > _NOTHING * np.abs(strengths).max()
        if real.all():
            weights = strengths / spread
            return kept, tuple(weights.tolist()), float(aim.mean() - weights @ middle)
        kept = [place for place, good in zip(kept, real.tolist(), strict=True) if good]
    return [], (), float(aim.mean())


def _left_out(standard: Column, aim: Column) -> Column:
    """Ridge coefficients at the penalty of least leave-one-out error, on centred columns.

    With X = U S Vᵀ and shrinkage d = s² / (s² + penalty), the fit is U d Uᵀ y, the leverage h of a
    row is the sum of u² d (and 1/n for the mean), and its error when left out is its residual
    over 1 - h. Written out because scikit-learn's shortcut loses its digits at the smallest
    penalties, which are the ones an exact formula needs.
    """
    left, sizes, right = np.linalg.svd(standard, full_matrices=False)
    reach = left.T @ aim
    real = sizes > sizes[0] * np.finfo(float).eps * max(standard.shape)
    best, coefficients = math.inf, np.zeros(standard.shape[1])
    for penalty in (0.0, *_RIDGES.tolist()):
        kept = np.where(real, sizes**2 / np.where(real, sizes**2 + penalty, 1.0), 0.0)
        free = 1 - 1 / len(aim) - (left**2) @ kept
        # A row that alone decides a term has nothing free; its error is then huge, not infinite.
        residuals = (aim - left @ (kept * reach)) / np.maximum(free, 1e-9)
        error = float(residuals @ residuals)
        if error < best:
            best = error
            coefficients = right.T @ (kept * reach / np.where(real, sizes, 1.0))
    return np.asarray(coefficients)


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _literal(value: float) -> Node:
    return NumberLiteral(value) if value >= 0 else Negate(NumberLiteral(-value))


def _times(left: Node, right: Node) -> Node:
    return Arithmetic("*", left, right)


def _power(root: RootName, exponent: float) -> Node:
    name = Variable(root)
    return name if exponent == 1 else Arithmetic("**", name, _literal(exponent))


def _sum(parts: Sequence[Node]) -> Node:
    """Added up from the left; a long sum in halves, so that it does not grow deep."""
    if len(parts) > _LONG_SUM:
        half = len(parts) // 2
        return Arithmetic("+", _sum(parts[:half]), _sum(parts[half:]))
    return reduce(_plus, parts)


def _plus(left: Node, right: Node) -> Node:
    """Adding a negative coefficient is written as subtracting it."""
    positive = _negated(right)
    return Arithmetic("+", left, right) if positive is None else Arithmetic("-", left, positive)


def _negated(node: Node) -> Node | None:
    """Minus a product whose first factor is a negative number; None for anything else."""
    match node:
        case Negate(NumberLiteral() as number):
            return number
        case Arithmetic("*", left, right):
            inner = _negated(left)
            return None if inner is None else Arithmetic("*", inner, right)
        case _:
            return None


def _within(node: Node) -> Node:
    if len(to_text(node)) > MAX_LENGTH:
        raise FormulaLimitError("text length", MAX_LENGTH)
    return node
