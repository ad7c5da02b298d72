"""The study's figures, as PDF, SVG and PNG, sized for one (3.3 in) or two (6.9 in) columns.

Colours are Okabe and Ito's, which stay apart for colour-blind readers, and every series has a
marker of its own. Legends stand beside the data, never on it. The same figures give the same bytes:
no date is written and ids are salted with a constant. Matplotlib is imported when a figure is
drawn, so that the tables work without it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Literal

from rootguard.evaluation.aggregates import aggregates, epsilon_text
from rootguard.evaluation.cohorts import PAPER_TEMPLATES
from rootguard.evaluation.experiment import CONFIGURATIONS, TURNS, Configuration, Row
from rootguard.evaluation.published import published_cells
from rootguard.evaluation.structure import FOCUS, FOCUS_BUDGET, PowerLaw, RootShare
from rootguard.values import MechanismName

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN, PAGE = 3.3, 6.9
"""Widths in inches: one column of a two-column page, and both."""
FORMATS = ("pdf", "svg", "png")
_ORANGE, _SKY, _GREEN, _YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
_BLUE, _RED, _PURPLE, BLACK = "#0072B2", "#D55E00", "#CC79A7", "#000000"
COLOURS: Mapping[Configuration, str] = {"all": _RED, "roots": _BLUE, "opt": _GREEN}
MARKERS: Mapping[Configuration, str] = {"all": "s", "roots": "o", "opt": "^"}
LABELS: Mapping[Configuration, str] = {
    "all": "all (independent noise)",
    "roots": "roots (even split)",
    "opt": "opt (weighted split)",
}
_PALETTE = (_BLUE, _ORANGE, _GREEN, _PURPLE, _SKY, _RED, _YELLOW, BLACK)
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
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


def save(figures: Mapping[str, Drawing], folder: Path) -> dict[str, Path]:
    """Draw and write each figure in every format; the paths of the SVGs by name.

    A figure without data is left out.
    """
    import matplotlib as mpl

    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
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
        figure.supxlabel(_SYNTHETIC.upper(), fontsize=6.5, color=_RED, fontweight="bold")
    return figure, list(grid.flat)


def legend_above(figure: "Figure", axes: "Axes", columns: int) -> None:
    """The legend over the panels, where it hides no data."""
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: labels[i] == "published")  # comes last
    handles, labels = [handles[i] for i in order], [labels[i] for i in order]
    figure.legend(
        handles, labels, loc="outside upper center", ncols=columns, columnspacing=1.2,
        handletextpad=0.5,
    )  # fmt: skip


def _plain_log(
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
    """Double asymmetry, privacy against utility, and a curve per template."""
    synthetic = any(row.synthetic for row in rows)
    measured = {row.cell.template for row in rows if row.wmape is not None}
    printed = not synthetic and measured == set(PAPER_TEMPLATES)
    return {
        "double_asymmetry": lambda: _double_asymmetry(
            rows, focus=focus, synthetic=synthetic, printed=printed
        ),
        "privacy_utility": lambda: _privacy_utility(rows, synthetic=synthetic, printed=printed),
        "per_template": lambda: _per_template(rows, synthetic=synthetic),
    }


def rq3_figures(
    shares: Sequence[RootShare], laws: Sequence[PowerLaw], *, focus: Fraction = FOCUS
) -> dict[str, Drawing]:
    """The power law of the allocation and the shares themselves."""
    return {
        "power_law": lambda: _power_law(shares, laws, focus=focus),
        "budget_bars": lambda: _budget_bars(shares, focus=focus),
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
        _plain_log(axes, "both")
        axes.set_title(name)
        axes.set_xlabel("ε per grid step")
    panels[0].set_ylabel(f"wMAPE (%), B = ({FOCUS_BUDGET})ε")
    legend_above(figure, panels[0], 4)
    return figure


def _per_template(rows: Sequence[Row], *, synthetic: bool) -> "Figure | None":
    """Each template's error against epsilon; largest errors first."""
    name: MechanismName = _first([row.cell.mechanism for row in rows])
    chosen = [
        row
        for row in rows
        if row.cell.mechanism == name and row.cell.budget == FOCUS_BUDGET and row.wmape is not None
    ]
    templates = list(dict.fromkeys(row.cell.template for row in chosen))
    if not templates:
        return None
    templates.sort(key=lambda t: -max(row.wmape or 0 for row in chosen if row.cell.template == t))
    across = min(4, len(templates))
    down = -(-len(templates) // across)
    width = PAGE if across > 1 else COLUMN
    figure, panels = new_figure(
        width, 0.7 + 1.55 * down, (down, across), synthetic=synthetic, x=True
    )
    for axes, template in zip(panels, templates, strict=False):
        for config in CONFIGURATIONS:
            found = [
                (float(row.cell.epsilon), row.wmape or 0.0, row.wmape_se or 0.0)
                for row in chosen
                if row.cell.template == template and row.cell.config == config
            ]
            axes.errorbar(
                [f[0] for f in found],
                [f[1] for f in found],
                yerr=[f[2] for f in found],
                color=COLOURS[config],
                marker=MARKERS[config],
                markersize=2.8,
                label=LABELS[config],
            )
        _plain_log(axes, "both", (0.01, 0.1, 1))
        axes.set_title(template.upper())
    for axes in panels[len(templates) :]:
        axes.set_visible(False)
    for axes in panels[len(templates) - across : len(templates)]:
        axes.set_xlabel("ε per grid step")
        axes.tick_params(labelbottom=True)
    figure.supylabel(f"wMAPE (%), {name}, B = ({FOCUS_BUDGET})ε", fontsize=7.5)
    legend_above(figure, panels[0], 3)
    return figure


def _power_law(
    shares: Sequence[RootShare], laws: Sequence[PowerLaw], *, focus: Fraction
) -> "Figure | None":
    """Shares against |h| D on log-log axes, both over the template's geometric mean, as fitted."""
    chosen = [share for share in shares if share.epsilon == focus]
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
                marker=_MARKS[i % len(_MARKS)],
                color=_PALETTE[i % len(_PALETTE)],
                markeredgecolor=BLACK,
                markeredgewidth=0.3,
                label=template.upper(),
            )
        ends = [min(reach) / 1.3, max(reach) * 1.3]
        axes.plot(
            ends, [end**0.5 for end in ends], color="#777777", linestyle="--", linewidth=0.9,
            zorder=1, label="slope 0.50",
        )  # fmt: skip
        _plain_log(axes, "both", steps=(1.0, 2.0, 5.0))
        axes.set_title(f"{name}: slope {law.slope:.2f}")
        axes.set_xlabel("|h|·D over the\ntemplate's mean")
    panels[0].set_ylabel("budget share over\nthe template's mean")
    legend_above(figure, panels[0], min(5, len(templates) + 1) if len(mechanisms) > 1 else 3)
    return figure


def _budget_bars(shares: Sequence[RootShare], *, focus: Fraction) -> "Figure | None":
    """Who gets how much: one bar per template, one panel per mechanism."""
    chosen = [share for share in shares if share.epsilon == focus]
    mechanisms = list(dict.fromkeys(share.mechanism for share in chosen))
    templates = list(dict.fromkeys(share.template for share in chosen))
    if not chosen:
        return None
    across = min(2, len(mechanisms))
    down = -(-len(mechanisms) // across)
    width = PAGE if across > 1 else COLUMN
    height = 0.25 + down * (0.35 + 0.3 * len(templates))
    figure, panels = new_figure(width, height, (down, across), synthetic=False, x=True, y=True)
    for axes in panels[len(mechanisms) :]:
        axes.set_visible(False)
    for axes, name in zip(panels, mechanisms, strict=False):
        for line, template in enumerate(templates):
            left = 0.0
            for i, share in enumerate(
                s for s in chosen if s.mechanism == name and s.template == template
            ):
                colour = _PALETTE[i % len(_PALETTE)] if not share.clamped else "#BBBBBB"
                part = 100 * share.share
                axes.barh(
                    line, part, left=left, height=0.72, color=colour, edgecolor="white",
                    linewidth=0.6,
                )  # fmt: skip
                if part >= 9:
                    axes.text(
                        left + part / 2, line, f"{share.root} {part:.0f}", ha="center",
                        va="center", fontsize=5.8,
                        color="white" if colour in (_BLUE, _GREEN, _RED, BLACK) else "black",
                    )  # fmt: skip
                left += part
        axes.set_yticks(range(len(templates)), [_bar_label(chosen, name) for name in templates])
        axes.set_xlim(0, 100)
        axes.grid(visible=False)
        axes.set_title(name)
        axes.tick_params(axis="y", length=0)
    figure.supxlabel(f"share of B = ({FOCUS_BUDGET})ε (%), ε = {epsilon_text(focus)}", fontsize=7.5)
    panels[0].invert_yaxis()
    return figure


def _bar_label(shares: Sequence[RootShare], template: str) -> str:
    """The template, with the roots whose bars are too thin to see because they get the least."""
    least = dict.fromkeys(s.root for s in shares if s.template == template and s.clamped)
    return f"{template.upper()}\n({', '.join(least)}: least ε)" if least else template.upper()


def _first(mechanisms: Sequence[MechanismName]) -> MechanismName:
    """The paper's mechanism of choice if it ran, else the first that did."""
    return "exponential" if "exponential" in mechanisms or not mechanisms else mechanisms[0]
