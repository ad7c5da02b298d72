"""The structural analysis (RQ3) drawn: the power law of the plans, and where budgets go."""

from collections.abc import Sequence
from fractions import Fraction
from statistics import geometric_mean
from typing import TYPE_CHECKING

from rootguard.evaluation.rq3_structure import FOCUS, FOCUS_BUDGET, PowerLaw, RootShare
from rootguard.evaluation.study.aggregates import epsilon_text
from rootguard.evaluation.study.plots import (
    BLACK,
    BLUE,
    COLUMN,
    GREEN,
    PAGE,
    PALETTE,
    RED,
    Drawing,
    legend_above,
    new_figure,
    plain_log,
)
from rootguard.evaluation.study.tables import plan_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")


def rq3_figures(
    shares: Sequence[RootShare], laws: Sequence[PowerLaw], *, focus: Fraction = FOCUS
) -> dict[str, Drawing]:
    """The power law of the allocation and the shares themselves."""
    return {
        "power_law": lambda: _power_law(shares, laws, focus=focus),
        "budget_bars": lambda: _budget_bars(shares, focus=focus),
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
                marker=_MARKS[i % len(_MARKS)],
                color=PALETTE[i % len(PALETTE)],
                markeredgecolor=BLACK,
                markeredgewidth=0.3,
                label=template.upper(),
            )
        ends = [min(reach) / 1.3, max(reach) * 1.3]
        axes.plot(
            ends, [end**0.5 for end in ends], color="#777777", linestyle="--", linewidth=0.9,
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
    across = min(2, len(kinds))
    down = -(-len(kinds) // across)
    width = PAGE if across > 1 else COLUMN
    height = 0.25 + down * (0.35 + 0.3 * len(templates))
    figure, panels = new_figure(width, height, (down, across), synthetic=False, x=True, y=True)
    for axes in panels[len(kinds) :]:
        axes.set_visible(False)
    for axes, name in zip(panels, kinds, strict=False):
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
                if part >= 9:
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
    for axes in panels[max(0, len(kinds) - across) : len(kinds)]:
        axes.tick_params(labelbottom=True)
    figure.supxlabel(f"share of B = ({FOCUS_BUDGET})ε (%), ε = {epsilon_text(focus)}", fontsize=7.5)
    panels[0].invert_yaxis()
    return figure


def _bar_label(shares: Sequence[RootShare], template: str) -> str:
    """The template, with the roots whose bars are too thin to see because they get the least."""
    least = dict.fromkeys(s.root for s in shares if s.template == template and s.clamped)
    return f"{template.upper()}\n({', '.join(least)}: least ε)" if least else template.upper()
