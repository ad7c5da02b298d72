"""The paper's structural analysis (RQ3): where a budget goes, and why it pays.

All of it is public: sensitivities, plans and amplification need no patient. Only the two regimes
(`Regime`) and what each step gains (`Gain`) rest on measured rows, because the paper sorts
templates by what was measured.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from statistics import geometric_mean
from typing import TYPE_CHECKING, Literal

import numpy as np

from rootguard.accounting import slopes
from rootguard.advice.drawing import (
    BLACK,
    BLUE,
    COLUMN,
    GREEN,
    GREY,
    PAGE,
    PALETTE,
    RED,
    legend_above,
    new_figure,
)
from rootguard.advice.utility import CONFIGURATIONS, SEARCHED, TURNS, Configuration, Turns
from rootguard.allocation import EPSILON_MIN, Plan, optimum, sensitivities, with_epsilons
from rootguard.calibration import make_plan
from rootguard.errors import BudgetError, FormulaError
from rootguard.evaluation.rq1_utility.study import DIGITS, MEDIAN, Sweep, UtilityRow
from rootguard.evaluation.study.plots import Drawing, panel_grid, plain_log
from rootguard.evaluation.study.rows import CsvTable, epsilon_text, named, table
from rootguard.evaluation.study.tables import Sheet, filled, number
from rootguard.expressions import to_text
from rootguard.graph import Graph
from rootguard.template import Template
from rootguard.values import AllocationName, MechanismName, RootName

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOCUS = Fraction(1, 10)
"""The epsilon that the paper's per-template figures are given at."""
FOCUS_BUDGET: Turns = "2k+1"
GAP = 7.5
"""Percentage points between the regimes: the paper's gaps are 14 and more, or 4 and less."""

LAW_EPSILONS = (FOCUS, Fraction(1, 2), Fraction(1))
"""Where the power law is fitted: the paper gives slopes at 0.1 and 0.5 and plots at 0.1 and 1."""
STRUCTURE_CAPTIONS: Mapping[str, str] = {
    "power_law": "Power law: a root's share of the budget grows with the square root of |h|·D. "
    "Both are over the template's geometric mean; roots at the least epsilon are left out.",
    "budget_bars": "Where the budget goes under the optimal plan: root and percent. Parts under "
    "9 % are not labelled.",
}
_LABELLED = 9.0
"""Percent of a bar that has room for a root's name."""

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

RegimeName = Literal["compressing", "amplifying"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RootShare:
    """A root's part of a plan, the optimal one unless `allocation` says otherwise.

    `sensitivity` is |h_i|, `product` is |h_i| * D_i in the target's unit. A clamped root stands at
    the least epsilon; one of zero sensitivity always does.
    """

    budget: Turns
    epsilon: Fraction
    template: str
    mechanism: MechanismName
    root: RootName
    unit: str
    sensitivity: float
    product: float
    share: float
    clamped: bool
    allocation: AllocationName = "optimal"


Centre = Literal["point", "half"]
"""Where the optimiser takes the error of exponential noise: at the grid point next to the centre,
or between two points, at t = (m - 1) / 2, as the paper writes it."""


def half_curve(epsilon: float, size: int) -> tuple[float, float, float]:
    """E|s - t| of exponential noise at t = (m - 1) / 2 for even m, and its derivatives in epsilon.

    No output lies nearer than half a step, so the error does not fall below that. With weights
    w_d = exp(-epsilon d / 2) over the distances d = 1/2, 3/2, ... on one side, E is the mean of d,
    its derivative -Var(d) / 2, and the next a quarter of the third central moment.
    """
    distances = np.arange(size // 2) + 0.5
    weights = np.exp(-epsilon * (distances - 0.5) / 2)
    weights /= weights.sum()
    mean = float(distances @ weights)
    off = distances - mean
    return mean, -float(off**2 @ weights) / 2, float(off**3 @ weights) / 4


def root_shares(
    template: Template,
    mechanism_name: MechanismName,
    epsilon: Fraction,
    budget: Turns,
    allocation: AllocationName = "optimal",
    *,
    centre: Centre = "point",
) -> tuple[RootShare, ...]:
    """How a plan splits B = (q k + 1) * epsilon; empty where B is too small to split."""
    graph = Graph.of(template)
    weights = sensitivities(template, graph)
    total = (TURNS[budget] * len(graph.roots) + 1) * epsilon
    try:
        plan = make_plan(template, total, mechanism_name=mechanism_name, allocation=allocation)
    except BudgetError:
        return ()
    if centre == "half" and mechanism_name == "exponential" and allocation == "optimal":
        plan = _at_half(plan)
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


def _at_half(plan: Plan) -> Plan:
    """The optimal plan for errors between two grid points; of an odd grid, the plan as it is."""
    if any(share.domain.size % 2 for share in plan.shares):
        return plan
    products = [share.sensitivity * share.domain.step for share in plan.shares]
    sizes = [share.domain.size for share in plan.shares]
    start = [float(share.epsilon) for share in plan.shares]
    found = optimum(
        plan.mechanism, products, sizes, float(plan.budget), start=start, curve=half_curve
    )
    return with_epsilons(plan, found, "optimal")


@dataclass(frozen=True, kw_only=True, slots=True)
class PowerLaw:
    """share_i = a(template) * (|h_i| D_i) ** slope, fitted over the roots that are not clamped.

    `points` roots took part and `clamped` were left out. The standard error is that of the least
    squares; None with fewer points than unknowns.
    """

    budget: Turns
    epsilon: Fraction
    mechanism: MechanismName
    slope: float
    se: float | None
    points: int = field(metadata=named("roots"))
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
    amplifying one has a narrow domain, small errors and a small gap. The gap is in percentage
    points; `ratio` is None where opt has no error at all.
    """

    template: str
    formula: str
    regime: RegimeName
    all: float
    opt: float
    gap: float
    ratio: float | None


def regimes(templates: Iterable[Template], rows: Iterable[UtilityRow]) -> tuple[Regime, ...]:
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
                gap=round(every - best, DIGITS),
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


def gains(rows: Iterable[UtilityRow], mechanism_name: MechanismName) -> tuple[Gain, ...]:
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
    attained: float
    remark: str


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
                template=template.name,
                value=node.name,
                root=slope.root,
                factor=slope.amplification,
                attained=slope.attained,
                remark=slope.remark,
            )
            for slope in steep
        ]
    return tuple(found)


@dataclass(frozen=True, kw_only=True, slots=True)
class Structure:
    """What RQ3 found. `measured` are the rows that the regimes and gains rest on."""

    shares: tuple[RootShare, ...]
    laws: tuple[PowerLaw, ...]
    regimes: tuple[Regime, ...]
    amplified: tuple[Amplification, ...]
    gains: tuple[Gain, ...]
    measured: tuple[UtilityRow, ...]

    @property
    def files(self) -> dict[str, CsvTable]:
        """What is written down of it."""
        lines = [
            (gain.template, gain.mechanism, config, value)
            for gain in self.gains
            for config, value in (*gain.figures.items(), (MEDIAN, gain.median))
        ]
        return {
            "rq3_roots.csv": table(RootShare, self.shares),
            "rq3_power_law.csv": table(PowerLaw, self.laws),
            "rq3_regimes.csv": table(Regime, self.regimes),
            "rq3_gains.csv": (("template", "mechanism", "config", "wmape"), lines),
            "rq3_amplification.csv": table(Amplification, self.amplified),
        }


def focus_sweep(sweep: Sweep) -> Sweep:
    """The cells that the paper sorts templates by."""
    return Sweep(
        seed=sweep.seed,
        repeats=sweep.repeats,
        mechanisms=("exponential",),
        epsilons=(FOCUS,),
        budgets=(FOCUS_BUDGET,),
        configurations=("all", "opt"),
    )


def gain_sweep(sweep: Sweep) -> Sweep:
    """The cells that tell what each step gains: every configuration of one mechanism."""
    return replace(
        sweep,
        mechanisms=(gain_mechanism(sweep.mechanisms),),
        epsilons=(FOCUS,),
        budgets=(FOCUS_BUDGET,),
    )


def gain_mechanism(mechanisms: Sequence[MechanismName]) -> MechanismName:
    """The default mechanism, whose population plans are searched for, or the first that runs."""
    return next((name for name in SEARCHED if name in mechanisms), mechanisms[0])


def analyse(
    templates: Sequence[Template],
    sweep: Sweep,
    measured: Iterable[UtilityRow],
    *,
    centre: Centre = "point",
) -> Structure:
    """RQ3. `measured` must hold the cells of `focus_sweep` for the regimes to be known.

    Those of `gain_sweep` tell the gains. Shares of population plans are shown at the focus alone.
    `centre` is where shares and the power law take the error of exponential noise.
    """
    rows, mechanisms = tuple(measured), sweep.mechanisms
    shares = {
        (epsilon, name): tuple(
            share
            for template in templates
            for share in root_shares(template, name, epsilon, FOCUS_BUDGET, centre=centre)
        )
        for epsilon in LAW_EPSILONS
        for name in mechanisms
    }
    searched = [m for m in mechanisms if m in sweep.searched]
    population = [
        share
        for name in (searched if "population" in sweep.configurations else ())
        for template in templates
        for share in root_shares(template, name, FOCUS, FOCUS_BUDGET, "population")
    ]
    laws = (power_law(members) for members in shares.values())
    return Structure(
        shares=(*(share for members in shares.values() for share in members), *population),
        laws=tuple(law for law in laws if law is not None),
        regimes=regimes(templates, rows),
        amplified=tuple(a for template in templates for a in amplifications(template)),
        gains=gains(rows, gain_mechanism(mechanisms)),
        measured=rows,
    )


def rq3_sheets(found: Structure, *, focus: Fraction = FOCUS) -> tuple[Sheet, ...]:
    """Regimes, what each step gains, the power law, where the budget goes, and amplification."""
    at_focus = [share for share in found.shares if share.epsilon == focus]
    kinds = tuple(dict.fromkeys(map(plan_name, at_focus)))
    by_root: dict[tuple[str, str], dict[str, RootShare]] = {}
    for share in at_focus:
        by_root.setdefault((share.template, share.root), {})[plan_name(share)] = share
    sheets = (
        *_gain_sheets(found.gains, focus),
        Sheet(
            title=f"Regimes: wMAPE (%) at ε = {epsilon_text(focus)}, B = (2k+1)ε, exponential",
            header=("template", "formula", "regime", "all", "opt", "gap", "ratio"),
            lines=tuple(
                (
                    r.template.upper(),
                    r.formula,
                    r.regime,
                    f"{r.all:.1f}",
                    f"{r.opt:.1f}",
                    f"{r.gap:.1f}",
                    "–" if r.ratio is None else f"{r.ratio:.1f}×",
                )
                for r in found.regimes
            ),
            note="Sorted as in the paper, by the gap in percentage points; see structure.GAP.",
            labels=3,
        ),
        Sheet(
            title="Power law: share of the budget as a power of |h|·D, B = (2k+1)ε",
            header=("mechanism", "ε", "slope", "SE", "roots", "clamped"),
            lines=tuple(
                (
                    law.mechanism,
                    epsilon_text(law.epsilon),
                    f"{law.slope:.3f}",
                    "–" if law.se is None else f"{law.se:.3f}",
                    str(law.points),
                    str(law.clamped),
                )
                for law in found.laws
            ),
            note="One intercept per template; roots at the least epsilon are left out.",
        ),
        Sheet(
            title=f"Share of the budget (%) per root, ε = {epsilon_text(focus)}, B = (2k+1)ε",
            header=("template", "root", "|h|", "|h|·D", *kinds),
            lines=tuple(
                (template.upper(), root, *_share_cells(by_kind, kinds))
                for (template, root), by_kind in by_root.items()
            ),
            note="A root with |h| = 0 does not move the target and gets the least epsilon.",
            labels=2,
        ),
        Sheet(
            title="Amplification: what noising a computed value on its own does to a root's ε",
            header=("template", "value", "root", "factor"),
            lines=tuple(
                (
                    a.template.upper(),
                    a.value,
                    a.root,
                    f"{number(a.factor)} ({a.remark})" if a.remark else number(a.factor),
                )
                for a in found.amplified
            ),
            note="Theorem 2: L·D_x/D_y over the bounds, at most 10 % above what is attained.",
            labels=3,
        ),
    )
    return filled(sheets)


def _gain_sheets(gained: Sequence[Gain], focus: Fraction) -> Iterator[Sheet]:
    if not gained:
        return
    configs = [c for c in CONFIGURATIONS if any(c in gain.figures for gain in gained)]
    name, at = gained[0].mechanism, epsilon_text(focus)
    yield Sheet(
        title=f"What each step gains: wMAPE (%) at ε = {at}, B = (2k+1)ε, {name}",
        header=("template", *configs, MEDIAN),
        lines=tuple(
            (
                gain.template.upper(),
                *(f"{gain.figures[c]:.2f}" if c in gain.figures else "–" for c in configs),
                "–" if gain.median is None else f"{gain.median:.2f}",
            )
            for gain in gained
        ),
        note="calibrated has the draws of opt. The population median needs no release.",
    )


def plan_name(share: RootShare) -> str:
    """What a plan is called beside others: its mechanism, and what it is made for if not usual."""
    usual = share.allocation == "optimal"
    return share.mechanism if usual else f"{share.mechanism}, {share.allocation} plan"


def _share_cells(by_kind: Mapping[str, RootShare], kinds: Sequence[str]) -> tuple[str, ...]:
    one = next(iter(by_kind.values()))
    shares = (by_kind.get(kind) for kind in kinds)
    percent = ("–" if s is None else f"{100 * s.share:.1f}" for s in shares)
    return (number(one.sensitivity), number(one.product), *percent)


def rq3_figures(found: Structure, *, focus: Fraction = FOCUS) -> dict[str, Drawing]:
    """The power law of the allocation and the shares themselves."""
    return {
        "power_law": lambda: _power_law(found.shares, found.laws, focus=focus),
        "budget_bars": lambda: _budget_bars(found.shares, focus=focus),
    }


def _power_law(
    shares: Sequence[RootShare], laws: Sequence[PowerLaw], *, focus: Fraction
) -> "Figure | None":
    """Shares against |h| D on log-log axes, both over the template's geometric mean, as fitted."""
    chosen = [s for s in shares if s.epsilon == focus and s.allocation == "optimal"]
    mechanisms = [law.mechanism for law in laws if law.epsilon == focus]
    if not mechanisms:
        return None
    width = PAGE if len(mechanisms) > 1 else COLUMN
    figure, panels = new_figure(width, 2.5, (1, len(mechanisms)), synthetic=False, x=True, y=True)
    templates = list(dict.fromkeys(share.template for share in chosen))
    for axes, name in zip(panels, mechanisms, strict=True):
        law = next(law for law in laws if law.epsilon == focus and law.mechanism == name)
        reach: list[float] = []
        for i, template in enumerate(templates):
            members = [
                s
                for s in chosen
                if (s.mechanism, s.template) == (name, template) and s.product > 0 and not s.clamped
            ]
            if not members:
                continue
            products = [s.product for s in members]
            parts = [s.share for s in members]
            middle, level = geometric_mean(products), geometric_mean(parts)
            reach += [product / middle for product in products]
            axes.plot(
                [product / middle for product in products],
                [part / level for part in parts],
                linestyle="none",
                marker=_MARKERS[i % len(_MARKERS)],
                color=PALETTE[i % len(PALETTE)],
                markeredgecolor=BLACK,
                markeredgewidth=0.3,
                label=template.upper(),
            )
        ends = [min(reach) / 1.3, max(reach) * 1.3]
        axes.plot(
            ends, [end**0.5 for end in ends], color=GREY, linestyle="--", linewidth=0.9,
            zorder=1, label="slope 0.50",
        )  # fmt: skip
        plain_log(axes, "both", steps=(1.0, 2.0, 5.0))
        axes.set_title(f"{name}: slope {law.slope:.2f}")
        axes.set_xlabel("|h|·D over the\ntemplate's mean")
    panels[0].set_ylabel("budget share over\nthe template's mean")
    legend_above(figure, panels, min(5, len(templates) + 1) if len(mechanisms) > 1 else 3)
    return figure


def _budget_bars(shares: Sequence[RootShare], *, focus: Fraction) -> "Figure | None":
    """Who gets how much: one bar per template, one panel per mechanism and kind of plan."""
    chosen = [share for share in shares if share.epsilon == focus]
    kinds = list(dict.fromkeys(map(plan_name, chosen)))
    templates = list(dict.fromkeys(share.template for share in chosen))
    if not chosen:
        return None
    figure, panels, lowest = panel_grid(
        len(kinds), 2, (0.25, 0.35 + 0.3 * len(templates)), synthetic=False, x=True, y=True
    )
    for axes, name in zip(panels, kinds, strict=True):
        for line, template in enumerate(templates):
            left = 0.0
            for i, share in enumerate(
                s for s in chosen if plan_name(s) == name and s.template == template
            ):
                colour = PALETTE[i % len(PALETTE)] if not share.clamped else "#BBBBBB"
                part = 100 * share.share
                axes.barh(
                    line, part, left=left, height=0.72, color=colour, edgecolor="white",
                    linewidth=0.6,
                )  # fmt: skip
                if part >= _LABELLED:
                    axes.text(
                        left + part / 2, line, f"{share.root} {part:.0f}", ha="center",
                        va="center", fontsize=5.8,
                        color="white" if colour in (BLUE, GREEN, RED, BLACK) else "black",
                    )  # fmt: skip
                left += part
        axes.set_yticks(range(len(templates)), [_bar_label(chosen, name) for name in templates])
        axes.set_xlim(0, 100)
        axes.grid(visible=False)
        axes.set_title(name)
        axes.tick_params(axis="y", length=0)
    for axes in lowest:
        axes.tick_params(labelbottom=True)
    figure.supxlabel(f"share of B = ({FOCUS_BUDGET})ε (%), ε = {epsilon_text(focus)}", fontsize=7.5)
    panels[0].invert_yaxis()
    return figure


def _bar_label(shares: Sequence[RootShare], template: str) -> str:
    """The template, with the roots whose bars are too thin to see because they get the least."""
    least = dict.fromkeys(s.root for s in shares if s.template == template and s.clamped)
    return f"{template.upper()}\n({', '.join(least)}: least ε)" if least else template.upper()
