"""What it costs not to know a formula, measured where it is known.

For each template, people are drawn from its population figures, their targets are computed, and the
formula is forgotten: it is learned from these rows with the template's bounds. Then other people's
roots are noised under three plans of one budget (uniform, learned, exact) and the true formula
computes on them, as the service would. The three share their random numbers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from rootguard.advice.learning.fit import Learned, learn, wmape
from rootguard.advice.learning.forms import FormName
from rootguard.advice.learning.rows import PublicRows, checked_rows
from rootguard.advice.learning.template import bounds_of, learned_template, template_text
from rootguard.advice.people import Column, synthetic_cohort
from rootguard.advice.seeds import generator
from rootguard.allocation import Plan, make_plan
from rootguard.attacks.oracle import snap
from rootguard.expressions import evaluate_many
from rootguard.graph import Graph
from rootguard.template import Template

PEOPLE = 200
"""As many as in each of the paper's cohorts."""
REPEATS = 100
"""Draws of the noise: the mean's error is then a tenth of the spread of one draw."""
EPSILON = Fraction(1, 10)
"""Per turn, for 2k + 1 turns over k roots: the paper's middle budget."""
MATTERS = Fraction(1, 20)
"""Shares of the budget below this are left out where shares are compared."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """How much of the formula the rows show: their number, and the error in their targets."""

    name: Literal["many exact rows", "few rough rows"]
    rows: int
    error: float


SETTINGS = (
    Setting(name="many exact rows", rows=1000, error=0.0),
    Setting(name="few rough rows", rows=60, error=0.1),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """Errors in percent; `shift` is the largest relative change of a root's share that matters."""

    template: str
    setting: str
    form: FormName
    wmape: float
    r2: float
    shift: float
    uniform: float
    learned: float
    exact: float


def study(
    templates: Iterable[Template], *, seed: int = 0, folds: int = 5, repeats: int = REPEATS
) -> Iterator[Cost]:
    """The cost for each template and setting, one after the other."""
    for template in templates:
        for setting in SETTINGS:
            rows = rows_of(template, setting, seed=seed)
            bounds = bounds_of(rows, base=template)
            learned = learn(rows, bounds=bounds, folds=folds, seed=seed)
            text = template_text(rows, learned, bounds, base=template)
            yield cost(template, learned_template(text), learned, setting, seed, repeats)


def rows_of(template: Template, setting: Setting, *, seed: int = 0) -> PublicRows:
    """Synthetic people with their targets, each off by a factor of exp(error * normal)."""
    cohort = synthetic_cohort(template, size=setting.rows, seed=seed)
    columns = {str(root): column for root, column in cohort.columns.items()}
    rough = generator(seed, "learned study", template.name, setting.rows).standard_normal
    target = _targets(template, columns) * np.exp(setting.error * rough(setting.rows))
    return checked_rows(f"{template.name}.csv", template.target.name, columns, target)


def cost(
    template: Template,
    approximate: Template,
    learned: Learned,
    setting: Setting,
    seed: int,
    repeats: int,
) -> Cost:
    """Noise other people under three plans of one budget and see how wrong their targets get."""
    budget = EPSILON * (2 * len(Graph.of(template).roots) + 1)
    exact, found = make_plan(template, budget), make_plan(approximate, budget)
    uniform = make_plan(template, budget, allocation="uniform")
    errors = [release_error(template, plan, seed, repeats) for plan in (uniform, found, exact)]
    return Cost(
        template=template.name,
        setting=setting.name,
        form=learned.form,
        wmape=learned.wmape,
        r2=learned.r2,
        shift=shift(exact, found),
        uniform=errors[0],
        learned=errors[1],
        exact=errors[2],
    )


def shift(exact: Plan, other: Plan) -> float:
    """The largest relative difference of two plans' epsilons among the roots that matter."""
    return max(
        abs(float(other[share.root].epsilon / share.epsilon) - 1)
        for share in exact.shares
        if share.epsilon >= MATTERS * exact.budget
    )


def release_error(template: Template, plan: Plan, seed: int, repeats: int) -> float:
    """The true formula's wMAPE on noised roots of people that nothing was learned from."""
    cohort = synthetic_cohort(template, size=PEOPLE, seed=seed + 1)
    columns = {str(root): np.tile(column, repeats) for root, column in cohort.columns.items()}
    noised: dict[str, Column] = {}
    for share in plan.shares:
        domain = share.domain
        source = generator(seed, "learned study", template.name, share.root)
        noise = plan.noise(share.root)
        drawn = noise.draw_many(snap(domain, columns[share.root]), source)
        noised[share.root] = np.minimum(domain.lower + drawn * domain.step, domain.upper)
    return wmape(_targets(template, columns), _targets(template, noised))


def _targets(template: Template, columns: dict[str, Column]) -> Column:
    return evaluate_many(Graph.of(template).in_roots(template.target.formula), columns)
