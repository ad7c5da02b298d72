"""The utility study drawn: error of the target over budgets, epsilons and templates."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from rootguard.advice.drawing import BLACK, COLUMN, GREY, PAGE, legend_above, new_figure
from rootguard.advice.people import PAPER_TEMPLATES
from rootguard.advice.utility import CALIBRATED, CONFIGURATIONS, TURNS, Configuration
from rootguard.evaluation.published import PublishedCell, published_cells
from rootguard.evaluation.rq1_utility.means import (
    Measure,
    aggregates,
    estimate,
    mean_population_median,
    population_medians,
)
from rootguard.evaluation.rq1_utility.study import MEDIAN, UtilityRow
from rootguard.evaluation.rq3_structure import FOCUS, FOCUS_BUDGET
from rootguard.evaluation.study.plots import Drawing, draw_line, panel_grid, plain_log
from rootguard.evaluation.study.rows import epsilon_text
from rootguard.values import MechanismName

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

UTILITY_CAPTIONS: Mapping[str, str] = {
    "double_asymmetry": "Double asymmetry: with more turns the guarded releases get better, while "
    "independent noising stays where it was. Bars: one standard error.",
    "privacy_utility": "Privacy against utility: error of the target over epsilon, per mechanism.",
    "per_template": "Each template's error over epsilon, largest first. Each panel has its own "
    "vertical scale.",
    "calibrated": "Calibration: the error of the target with and without it. Dashed: everybody is "
    "answered with the population's median, which needs no release.",
    "sensitivity": "Who is found: of the patients truly in the highest risk class, those whose "
    "released target is in it.",
}


def rq1_figures(rows: Sequence[UtilityRow], *, focus: Fraction = FOCUS) -> dict[str, Drawing]:
    """Double asymmetry, privacy against utility, curves per template, and what calibration does.

    The last are of the default mechanism, which alone has population plans, or the first that ran.
    """
    synthetic = any(row.synthetic for row in rows)
    measured = {row.cell.template for row in rows if row.wmape is not None}
    printed = not synthetic and measured == set(PAPER_TEMPLATES)
    ran = [row.cell.mechanism for row in rows]
    own: MechanismName = "geometric" if "geometric" in ran or not ran else ran[0]
    calibrated = any(row.cell.config in CALIBRATED for row in rows)
    beside: tuple[Configuration, ...] = ("opt", *CALIBRATED) if calibrated else ()
    return {
        "double_asymmetry": lambda: _double_asymmetry(
            rows, focus=focus, synthetic=synthetic, printed=printed
        ),
        "privacy_utility": lambda: _privacy_utility(rows, synthetic=synthetic, printed=printed),
        "per_template": lambda: _per_template(
            rows, "wmape", _first(ran), CONFIGURATIONS, synthetic=synthetic
        ),
        "calibrated": lambda: _per_template(rows, "wmape", own, beside, synthetic=synthetic),
        "sensitivity": lambda: _per_template(rows, "sensitivity", own, beside, synthetic=synthetic),
    }


def _double_asymmetry(
    rows: Sequence[UtilityRow], *, focus: Fraction, synthetic: bool, printed: bool
) -> "Figure | None":
    """More turns help the guard and leave independent noising where it was."""
    means = aggregates(rows, "wmape")
    name: MechanismName = _first([row.cell.mechanism for row in rows])
    if not any(key[1] == focus and key[2] == name for key in means):
        return None
    figure, (axes,) = new_figure(COLUMN, 2.5, (1, 1), synthetic=synthetic)
    for config in CONFIGURATIONS:
        found = [
            (i, means[budget, focus, name, config])
            for i, budget in enumerate(TURNS)
            if (budget, focus, name, config) in means
        ]
        if not found:
            continue
        draw_line(axes, [i for i, _ in found], [mean for _, mean in found], config, capsize=2)
    cells = [c for c in _published(name, printed=printed) if c.epsilon == float(focus)]
    if cells:
        budgets = [next(i for i, t in enumerate(TURNS) if t == cell.budget) for cell in cells]
        axes.plot(
            [i + 0.08 for i in budgets], [cell.value for cell in cells],
            linestyle="none", marker="x", color=BLACK, label="published",
        )  # fmt: skip
    axes.set_xticks(range(len(TURNS)), [f"({budget})ε" for budget in TURNS])
    axes.set_xlim(-0.25, len(TURNS) - 0.75)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"total budget B  ({name}, ε = {epsilon_text(focus)} per grid step)")
    axes.set_ylabel("wMAPE of the target (%)")
    legend_above(figure, axes, 2)
    return figure


def _published(mechanism: str, *, printed: bool) -> list[PublishedCell]:
    """The printed means of a mechanism, where they may be shown beside ours."""
    return [
        cell
        for cell in published_cells()
        if printed and cell.metric == "wmape" and cell.template is None
        if cell.mechanism == mechanism
    ]


def _privacy_utility(
    rows: Sequence[UtilityRow], *, synthetic: bool, printed: bool
) -> "Figure | None":
    """The error of the target against epsilon, one panel per mechanism."""
    means = aggregates(rows, "wmape")
    mechanisms = list(dict.fromkeys(key[2] for key in means))
    if not mechanisms:
        return None
    shape = (1, len(mechanisms))
    width = PAGE if len(mechanisms) > 1 else COLUMN
    figure, panels = new_figure(width, 2.3, shape, synthetic=synthetic, x=True, y=True)
    for axes, name in zip(panels, mechanisms, strict=True):
        for config in CONFIGURATIONS:
            found = sorted(
                (epsilon, mean)
                for (budget, epsilon, own, ran), mean in means.items()
                if (budget, own, ran) == (FOCUS_BUDGET, name, config)
            )
            if found:
                draw_line(axes, [float(e) for e, _ in found], [mean for _, mean in found], config)
        cells = [c for c in _published(name, printed=printed) if c.budget == FOCUS_BUDGET]
        if cells:
            axes.plot(
                [c.epsilon for c in cells], [c.value for c in cells],
                linestyle="none", marker="x", markersize=3, color=BLACK, label="published",
                zorder=4,
            )  # fmt: skip
        _add_median(axes, mean_population_median(rows))
        plain_log(axes, "both")
        axes.set_title(name)
        axes.set_xlabel("ε per grid step")
    panels[0].set_ylabel(f"wMAPE (%), B = ({FOCUS_BUDGET})ε")
    legend_above(figure, panels, 3)
    return figure


def _add_median(axes: "Axes", value: float | None) -> None:
    """The error of saying the same to everybody: it needs no release."""
    if value is not None:
        axes.axhline(value, color=GREY, linestyle="--", linewidth=0.9, zorder=1, label=MEDIAN)


def _per_template(
    rows: Sequence[UtilityRow],
    measure: Measure,
    name: MechanismName,
    configs: Sequence[Configuration],
    *,
    synthetic: bool,
) -> "Figure | None":
    """Each template's figure against epsilon; the largest errors first."""
    chosen = [
        (row.cell, found)
        for row in rows
        if row.cell.mechanism == name and row.cell.budget == FOCUS_BUDGET
        if row.cell.config in configs and (found := estimate(row, measure)) is not None
    ]
    largest: dict[str, float] = {}
    for cell, found in chosen:
        largest[cell.template] = max(found.value, largest.get(cell.template, 0.0))
    templates = sorted(largest, key=lambda template: -largest[template])
    if not templates:
        return None
    medians = population_medians(rows) if measure == "wmape" else {}
    figure, panels, lowest = panel_grid(len(templates), 4, (0.7, 1.55), synthetic=synthetic, x=True)
    for axes, template in zip(panels, templates, strict=True):
        for config in configs:
            line = [
                (float(cell.epsilon), found)
                for cell, found in chosen
                if (cell.template, cell.config) == (template, config)
            ]
            if line:
                draw_line(axes, [e for e, _ in line], [f for _, f in line], config, markersize=2.8)
        _add_median(axes, medians.get(template))
        plain_log(axes, "both" if measure == "wmape" else "x", (0.01, 0.1, 1))
        axes.set_title(template.upper())
    for axes in lowest:
        axes.set_xlabel("ε per grid step")
        axes.tick_params(labelbottom=True)
    text = {"wmape": "wMAPE", "rce": "RCE", "sensitivity": "sensitivity"}[measure]
    figure.supylabel(f"{text} (%), {name}, B = ({FOCUS_BUDGET})ε", fontsize=7.5)
    legend_above(figure, panels, 3)
    return figure


def _first(mechanisms: Sequence[MechanismName]) -> MechanismName:
    """The paper's mechanism of choice if it ran, else the first that did."""
    return "exponential" if "exponential" in mechanisms or not mechanisms else mechanisms[0]
