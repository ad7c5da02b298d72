"""The paper's structural analysis (RQ3): where a budget goes, and why it pays.

All of it is public: sensitivities, plans and amplification need no patient. Only the two regimes
(`Regime`) and what each step gains (`Gain`) rest on measured rows, because the paper sorts
templates by what was measured.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from rootguard.accounting import slopes
from rootguard.allocation import EPSILON_MIN, sensitivities
from rootguard.calibration import make_plan
from rootguard.errors import BudgetError, FormulaError
from rootguard.evaluation.rq1_utility.study import CONFIGURATIONS, TURNS, Configuration, Row, Turns
from rootguard.expressions import to_text
from rootguard.graph import Graph
from rootguard.template import Template
from rootguard.values import AllocationName, MechanismName, RootName

FOCUS = Fraction(1, 10)
"""The epsilon that the paper's per-template figures are given at."""
FOCUS_BUDGET: Turns = "2k+1"
GAP = 7.5
"""Percentage points between the regimes: the paper's gaps are 14 and more, or 4 and less."""

RegimeName = Literal["compressing", "amplifying"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RootShare:
    """A root's part of a plan, the optimal one unless `allocation` says otherwise.

    `sensitivity` is |h_i|, `product` is |h_i| * D_i in the target's unit. A clamped root stands at
    the least epsilon; one of zero sensitivity always does.
    """

    template: str
    mechanism: MechanismName
    epsilon: Fraction
    budget: Turns
    root: RootName
    unit: str
    sensitivity: float
    product: float
    share: float
    clamped: bool
    allocation: AllocationName = "optimal"


def root_shares(
    template: Template,
    mechanism_name: MechanismName,
    epsilon: Fraction,
    budget: Turns,
    allocation: AllocationName = "optimal",
) -> tuple[RootShare, ...]:
    """How a plan splits B = (q k + 1) * epsilon; empty where B is too small to split."""
    graph = Graph.of(template)
    weights = sensitivities(template, graph)
    total = (TURNS[budget] * len(graph.roots) + 1) * epsilon
    try:
        plan = make_plan(template, total, mechanism_name=mechanism_name, allocation=allocation)
    except BudgetError:
        return ()
    return tuple(
        RootShare(
            template=template.name,
            mechanism=mechanism_name,
            epsilon=epsilon,
            budget=budget,
            root=share.root,
            unit=template.roots[share.root].unit,
            sensitivity=weights[share.root],
            product=weights[share.root] * share.domain.width,
            share=float(share.epsilon / plan.budget),
            clamped=share.epsilon <= EPSILON_MIN,
            allocation=allocation,
        )
        for share in plan.shares
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class PowerLaw:
    """share_i = a(template) * (|h_i| D_i) ** slope, fitted over the roots that are not clamped.

    `points` roots took part and `clamped` were left out. The standard error is that of the least
    squares; None with fewer points than unknowns.
    """

    mechanism: MechanismName
    epsilon: Fraction
    budget: Turns
    slope: float
    se: float | None
    points: int
    clamped: int


def power_law(shares: Sequence[RootShare]) -> PowerLaw | None:
    """The log-log slope with an intercept per template; None where nothing varies.

    Within a template the intercept drops out when both logs are taken from their means.
    """
    free = [s for s in shares if not s.clamped and s.product > 0]
    xs: list[float] = []
    ys: list[float] = []
    groups = {s.template: [o for o in free if o.template == s.template] for s in free}
    for members in groups.values():
        x = [math.log(s.product) for s in members]
        y = [math.log(s.share) for s in members]
        xs += [value - math.fsum(x) / len(x) for value in x]
        ys += [value - math.fsum(y) / len(y) for value in y]
    spread = math.fsum(x * x for x in xs)
    if not spread > 0:
        return None
    slope = math.fsum(x * y for x, y in zip(xs, ys, strict=True)) / spread
    left = len(xs) - len(groups) - 1
    residual = math.fsum((y - slope * x) ** 2 for x, y in zip(xs, ys, strict=True))
    return PowerLaw(
        mechanism=shares[0].mechanism,
        epsilon=shares[0].epsilon,
        budget=shares[0].budget,
        slope=slope,
        se=math.sqrt(residual / left / spread) if left > 0 else None,
        points=len(xs),
        clamped=len(shares) - len(free),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Regime:
    """How a template's formula treats root noise, as the paper sorts them: by the absolute gap.

    A compressing formula has a wide target domain and a large gap between `all` and `opt`; an
    amplifying one has a narrow domain, small errors and a small gap. `ratio` is None where opt has
    no error at all.
    """

    template: str
    formula: str
    all: float
    opt: float
    ratio: float | None
    regime: RegimeName

    @property
    def gap(self) -> float:
        """Percentage points between all and opt."""
        return self.all - self.opt


def regimes(templates: Iterable[Template], rows: Iterable[Row]) -> tuple[Regime, ...]:
    """One per template with both figures at the paper's focus, largest gap first."""
    known = {template.name: template for template in templates}
    figures = {
        (row.cell.template, row.cell.config): row.wmape
        for row in rows
        if row.cell.mechanism == "exponential"
        and row.cell.epsilon == FOCUS
        and row.cell.budget == FOCUS_BUDGET
        and row.cell.template in known
    }
    found = []
    for name, template in known.items():
        every, best = figures.get((name, "all")), figures.get((name, "opt"))
        if every is None or best is None:
            continue
        found.append(
            Regime(
                template=name,
                formula=to_text(template.target.formula),
                all=every,
                opt=best,
                ratio=every / best if best > 0 else None,
                regime="compressing" if every - best >= GAP else "amplifying",
            )
        )
    return tuple(sorted(found, key=lambda regime: -regime.gap))


@dataclass(frozen=True, kw_only=True, slots=True)
class Gain:
    """A template's wMAPE at the paper's focus under each configuration that ran, in their order.

    `median` is the error of the population's median target, which needs no release.
    """

    template: str
    mechanism: MechanismName
    figures: Mapping[Configuration, float]
    median: float | None


def gains(rows: Iterable[Row], mechanism_name: MechanismName) -> tuple[Gain, ...]:
    """What each step from `all` to `population` does to each template, in the order of the rows."""
    figures: dict[str, dict[Configuration, float]] = {}
    medians: dict[str, float | None] = {}
    for row in rows:
        cell = row.cell
        place = (cell.mechanism, cell.epsilon, cell.budget)
        if row.wmape is not None and place == (mechanism_name, FOCUS, FOCUS_BUDGET):
            figures.setdefault(cell.template, {})[cell.config] = row.wmape
            medians[cell.template] = row.median_wmape
    return tuple(
        Gain(
            template=template,
            mechanism=mechanism_name,
            figures={config: found[config] for config in CONFIGURATIONS if config in found},
            median=medians[template],
        )
        for template, found in figures.items()
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Amplification:
    """Theorem 2 for one computed value and one root: L_idx = L * D_x / D_y, infinite if unbounded.

    Noising the value on its own at epsilon tells the root apart at up to L_idx * epsilon.
    """

    template: str
    value: str
    root: str
    factor: float


def amplifications(template: Template) -> tuple[Amplification, ...]:
    """Every computed value, the target included, against every root it rests on."""
    graph = Graph.of(template)
    domains = {str(root): template.roots[root].domain for root in graph.roots}
    found = []
    for node in graph.order:
        if node.formula is None:
            continue
        try:
            steep = slopes(graph.in_roots(node.formula), domains)
        except FormulaError:  # nowhere defined over the bounds: nothing to amplify
            continue
        found += [
            Amplification(
                template=template.name, value=node.name, root=slope.root, factor=slope.amplification
            )
            for slope in steep
        ]
    return tuple(found)
