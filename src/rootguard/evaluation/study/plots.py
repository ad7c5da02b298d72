"""The study's figures, as PDF, SVG and PNG, sized for one (3.3 in) or two (6.9 in) columns.

Colours are Okabe and Ito's, which stay apart for colour-blind readers, and every series has a
marker of its own. Legends stand beside the data, never on it. The same figures give the same bytes:
no date is written and ids are salted with a constant. Matplotlib is imported when a figure is
drawn, so that the tables work without it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rootguard.advice.people import PAPER_TEMPLATES
from rootguard.evaluation.published import published_cells
from rootguard.evaluation.rq1_utility.study import (
    CALIBRATED,
    CONFIGURATIONS,
    TURNS,
    Configuration,
    Row,
)
from rootguard.evaluation.rq3_structure import FOCUS, FOCUS_BUDGET
from rootguard.evaluation.study.aggregates import (
    MEDIAN,
    Measure,
    aggregates,
    epsilon_text,
    mean_population_median,
    population_medians,
)
from rootguard.evaluation.study.aggregates import (
    figure as figure_of,
)
from rootguard.values import MechanismName

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN, PAGE = 3.3, 6.9
"""Widths in inches: one column of a two-column page, and both."""
FORMATS = ("pdf", "svg", "png")
_ORANGE, _SKY, GREEN, _YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, RED, _PURPLE, BLACK = "#0072B2", "#D55E00", "#CC79A7", "#000000"
GREY = "#777777"
COLOURS: Mapping[str, str] = {
    "all": RED,
    "roots": BLUE,
    "opt": GREEN,
    "calibrated": _PURPLE,
    "population": _ORANGE,
}
MARKERS: Mapping[str, str] = {
    "all": "s",
    "roots": "o",
    "opt": "^",
    "calibrated": "D",
    "population": "v",
}
LABELS: Mapping[str, str] = {
    "all": "all (independent noise)",
    "roots": "roots (even split)",
    "opt": "opt (weighted split)",
    "calibrated": "calibrated (opt, then calibrated)",
    "population": "population (own plan, calibrated)",
}
PALETTE = (BLUE, _ORANGE, GREEN, _PURPLE, _SKY, RED, _YELLOW, BLACK)
_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 7.0,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.4,
    "legend.fontsize": 7.0,
    "legend.frameon": False,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.6,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "pdf.fonttype": 42,
    "svg.hashsalt": "rootguard",
    "svg.fonttype": "path",
    "figure.constrained_layout.use": True,
}
_SYNTHETIC = "synthetic cohort"

Drawing = Callable[[], "Figure | None"]


@contextmanager
def style() -> Iterator[None]:
    """The look of all figures, for one that is drawn elsewhere."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
        yield


def save(figures: Mapping[str, Drawing], folder: Path) -> dict[str, Path]:
    """Draw and write each figure in every format; the paths of the SVGs by name.

    A figure without data is left out.
    """
    written = {}
    with style():
        folder.mkdir(parents=True, exist_ok=True)
        for name, draw in figures.items():
            figure = draw()
            if figure is None:
                continue
            figure.draw_without_rendering()
            figure.set_layout_engine("none")  # laid out once, for all formats
            for kind in FORMATS:
                path = folder / f"{name}.{kind}"
                part = folder / f".{name}.part.{kind}"
                figure.savefig(part, format=kind, dpi=300, metadata=_undated(kind))
                part.replace(path)
            written[name] = folder / f"{name}.svg"
    return written


def _undated(kind: str) -> dict[str, None]:
    keys = {"pdf": ("CreationDate", "ModDate", "Producer"), "svg": ("Date",), "png": ("Software",)}
    return dict.fromkeys(keys[kind])


def new_figure(
    width: float, height: float, shape: tuple[int, int], *, synthetic: bool, **sharing: bool
) -> "tuple[Figure, list[Axes]]":
    """An empty figure of so many inches and panels; a synthetic cohort is written on it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    grid = figure.subplots(
        *shape, squeeze=False, sharex=sharing.get("x", False), sharey=sharing.get("y", False)
    )
    if synthetic:
        figure.supxlabel(_SYNTHETIC.upper(), fontsize=6.5, color=RED, fontweight="bold")
    return figure, list(grid.flat)


def legend_above(figure: "Figure", panels: "Axes | Sequence[Axes]", columns: int) -> None:
    """One legend for a panel or several, over them, where it hides no data."""
    found: dict[str, Artist] = {}
    for axes in panels if isinstance(panels, Sequence) else (panels,):
        handles, names = axes.get_legend_handles_labels()
        found |= dict(zip(names, handles, strict=True))
    known = list(LABELS.values())
    order = {label: known.index(label) if label in known else len(known) for label in found}
    labels = sorted(found, key=lambda label: (label == "published", order[label]))
    figure.legend(
        [found[label] for label in labels], labels, loc="outside upper center", ncols=columns,
        columnspacing=1.2, handletextpad=0.5,
    )  # fmt: skip


def plain_log(
    axes: "Axes",
    which: Literal["x", "y", "both"],
    ticks: Iterable[float] = (),
    steps: tuple[float, ...] = (1.0,),
) -> None:
    """Logarithmic axes whose ticks read 0.01, 1, 100, at the given steps of each decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    plain = FuncFormatter(lambda value, _: f"{value:g}")
    chosen = list(ticks)
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        if which not in (name, "both"):
            continue
        axes.set_xscale("log") if name == "x" else axes.set_yscale("log")
        axis.set_major_locator(LogLocator(base=10, subs=steps, numticks=12))
        axis.set_major_formatter(plain)
        axis.set_minor_formatter(NullFormatter())
        if chosen and name == "x":
            axes.set_xticks(chosen)
            axis.set_minor_locator(NullLocator())


def rq1_figures(rows: Sequence[Row], *, focus: Fraction = FOCUS) -> dict[str, Drawing]:
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
    rows: Sequence[Row], *, focus: Fraction, synthetic: bool, printed: bool
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
        axes.errorbar(
            [i for i, _ in found],
            [mean.value for _, mean in found],
            yerr=[mean.se for _, mean in found],
            color=COLOURS[config],
            marker=MARKERS[config],
            capsize=2,
            label=LABELS[config],
        )
    if printed:
        _add_published(axes, focus=focus, mechanism=name)
    axes.set_xticks(range(len(TURNS)), [f"({budget})ε" for budget in TURNS])
    axes.set_xlim(-0.25, len(TURNS) - 0.75)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"total budget B  ({name}, ε = {epsilon_text(focus)} per grid step)")
    axes.set_ylabel("wMAPE of the target (%)")
    legend_above(figure, axes, 2)
    return figure


def _add_published(axes: "Axes", *, focus: Fraction, mechanism: str) -> None:
    budgets = list(TURNS)
    cells = [
        cell
        for cell in published_cells()
        if cell.metric == "wmape" and cell.template is None
        if cell.epsilon == float(focus) and cell.mechanism == mechanism
    ]
    if cells:
        axes.plot(
            [budgets.index(cell.budget) + 0.08 for cell in cells],  # type: ignore[arg-type]
            [cell.value for cell in cells],
            linestyle="none", marker="x", color=BLACK, label="published",
        )  # fmt: skip


def _privacy_utility(rows: Sequence[Row], *, synthetic: bool, printed: bool) -> "Figure | None":
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
                (m for key, m in means.items() if key[0] == FOCUS_BUDGET and m.mechanism == name
                 and m.config == config),
                key=lambda m: m.epsilon,
            )  # fmt: skip
            if not found:
                continue
            axes.errorbar(
                [float(m.epsilon) for m in found],
                [m.value for m in found],
                yerr=[m.se for m in found],
                color=COLOURS[config],
                marker=MARKERS[config],
                label=LABELS[config],
            )
        cells = [
            c for c in published_cells()
            if c.metric == "wmape" and c.template is None and c.budget == FOCUS_BUDGET
            if c.mechanism == name and printed
        ]  # fmt: skip
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
    rows: Sequence[Row],
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
        if row.cell.config in configs and (found := figure_of(row, measure)) is not None
    ]
    largest: dict[str, float] = {}
    for cell, found in chosen:
        largest[cell.template] = max(found[0], largest.get(cell.template, 0.0))
    templates = sorted(largest, key=lambda template: -largest[template])
    if not templates:
        return None
    medians = population_medians(rows) if measure == "wmape" else {}
    across = min(4, len(templates))
    down = -(-len(templates) // across)
    width = PAGE if across > 1 else COLUMN
    figure, panels = new_figure(
        width, 0.7 + 1.55 * down, (down, across), synthetic=synthetic, x=True
    )
    for axes, template in zip(panels, templates, strict=False):
        for config in configs:
            line = [
                (float(cell.epsilon), value, se)
                for cell, (value, se, _) in chosen
                if (cell.template, cell.config) == (template, config)
            ]
            if not line:
                continue
            axes.errorbar(
                [point[0] for point in line],
                [point[1] for point in line],
                yerr=[point[2] for point in line],
                color=COLOURS[config],
                marker=MARKERS[config],
                markersize=2.8,
                label=LABELS[config],
            )
        _add_median(axes, medians.get(template))
        plain_log(axes, "both" if measure == "wmape" else "x", (0.01, 0.1, 1))
        axes.set_title(template.upper())
    for axes in panels[len(templates) :]:
        axes.set_visible(False)
    for axes in panels[len(templates) - across : len(templates)]:
        axes.set_xlabel("ε per grid step")
        axes.tick_params(labelbottom=True)
    text = {"wmape": "wMAPE", "rce": "RCE", "sensitivity": "sensitivity"}[measure]
    figure.supylabel(f"{text} (%), {name}, B = ({FOCUS_BUDGET})ε", fontsize=7.5)
    legend_above(figure, panels[: len(templates)], 3)
    return figure


def _first(mechanisms: Sequence[MechanismName]) -> MechanismName:
    """The paper's mechanism of choice if it ran, else the first that did."""
    return "exponential" if "exponential" in mechanisms or not mechanisms else mechanisms[0]
