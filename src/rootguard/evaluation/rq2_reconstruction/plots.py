"""The reconstruction study's figures: the adversary's error against the number of queries."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from rootguard.attacks.belief import PRIORS, PriorName
from rootguard.evaluation.rq1_utility.study import PAPER_CONFIGURATIONS
from rootguard.evaluation.rq2_reconstruction.claims import (
    FOCUS,
    FOCUS_PRIOR,
    Found,
    Key,
    focus_mechanism,
    means,
    published_attacks,
    singles,
)
from rootguard.evaluation.rq2_reconstruction.errors import ATTACK_CONFIGURATIONS
from rootguard.evaluation.rq2_reconstruction.study import STRATEGIES, AttackRow, Strategy
from rootguard.evaluation.study.aggregates import epsilon_text
from rootguard.evaluation.study.plots import (
    BLACK,
    COLOURS,
    COLUMN,
    GREY,
    LABELS,
    MARKERS,
    PAGE,
    Drawing,
    legend_above,
    new_figure,
)
from rootguard.values import MechanismName

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS: Mapping[str, str] = {**COLOURS, "naive": GREY, "median": BLACK}
_MARKERS: Mapping[str, str] = {**MARKERS, "naive": "P", "median": "X"}
_LABELS: Mapping[str, str] = {
    **LABELS,
    "calibrated": "calibrated, inverted",
    "population": "population, inverted",
    "naive": "calibrated, read as noised",
    "median": "calibrated, posterior median",
}
_Panel = tuple[str, dict[Key, Found]]
"""A title, and the figures that are drawn under it."""


def attack_figures(rows: Sequence[AttackRow], *, focus: Fraction = FOCUS) -> dict[str, Drawing]:
    """Strategies by priors, the mechanisms, the levels of privacy, and a panel per template."""
    synthetic = any(row.synthetic for row in rows)
    printed = not synthetic and len({row.cell.template for row in rows}) == 8
    main = focus_mechanism(rows)
    over_templates, each = means(rows), singles(rows)
    mechanisms = dict.fromkeys(row.cell.mechanism for row in rows)
    epsilons = sorted({row.cell.epsilon for row in rows})
    templates = dict.fromkeys(row.cell.template for row in rows)
    whose = {"A": "one root (A)", "B": "all roots (B)"}

    def panel(
        *,
        mechanism: MechanismName = main,
        strategy: Strategy = "B",
        prior: PriorName = FOCUS_PRIOR,
        epsilon: Fraction = focus,
        template: str = "",
    ) -> dict[Key, Found]:
        wanted = (mechanism, strategy, prior, epsilon, template)
        return {
            k: found
            for k, found in (each if template else over_templates).items()
            if (k.mechanism, k.strategy, k.prior, k.epsilon, k.template) == wanted
        }

    def drawing(panels: Iterable[_Panel], across: int, *, shared: bool) -> Drawing:
        chosen = [(title, members) for title, members in panels if members]
        return lambda: _draw(chosen, across, shared=shared, synthetic=synthetic, printed=printed)

    return {
        "reconstruction": drawing(
            (
                (f"{whose[strategy]}, {prior} prior", panel(strategy=strategy, prior=prior))
                for prior in PRIORS
                for strategy in STRATEGIES
            ),
            2,
            shared=True,
        ),
        "reconstruction_mechanisms": drawing(
            ((name, panel(mechanism=name)) for name in mechanisms), 4, shared=True
        ),
        "reconstruction_epsilons": drawing(
            ((f"ε = {epsilon_text(e)}", panel(epsilon=e)) for e in epsilons), 5, shared=False
        ),
        "reconstruction_templates": drawing(
            ((name.upper(), panel(template=name)) for name in templates), 4, shared=False
        ),
    }


def _draw(
    panels: Sequence[_Panel], across: int, *, shared: bool, synthetic: bool, printed: bool
) -> "Figure | None":
    if not panels:
        return None
    across = min(across, len(panels))
    down = -(-len(panels) // across)
    width = PAGE if across > 1 else COLUMN
    height = 0.75 + (1.75 if across < 4 else 1.5) * down
    figure, places = new_figure(
        width, height, (down, across), synthetic=synthetic, x=True, y=shared
    )
    for axes in places[len(panels) :]:
        axes.set_visible(False)
    for axes, (title, members) in zip(places, panels, strict=False):
        _fill(axes, members, printed=printed)
        axes.set_title(title)
    for axes in places:
        axes.set_ylim(bottom=0)  # after all are drawn: it stops the scale from growing
    for axes in places[len(panels) - across : len(panels)]:
        axes.set_xlabel("queries q")
    for axes in places[: len(panels) : across]:
        axes.set_ylabel("wMAPE of roots (%)")
    legend_above(figure, places[: len(panels)], 4)
    return figure


def _fill(axes: "Axes", members: dict[Key, Found], *, printed: bool) -> None:
    queries = sorted({key.queries for key in members})
    for config in ATTACK_CONFIGURATIONS:
        line = sorted(
            ((key.queries, figure) for key, figure in members.items() if key.config == config),
            key=lambda point: point[0],
        )
        if not line:
            continue
        axes.errorbar(
            [queries.index(q) for q, _ in line],
            [figure.value for _, figure in line],
            yerr=[figure.se for _, figure in line],
            color=_COLOURS[config],
            marker=_MARKERS[config],
            linestyle="-" if config in PAPER_CONFIGURATIONS else ":",
            capsize=1.5,
            label=_LABELS[config],
        )
    crosses = [(key, value) for key, value in published_attacks() if key in members]
    for key, value in crosses if printed else ():
        axes.plot(
            queries.index(key.queries) + 0.16, value, linestyle="none", marker="X", markersize=3.6,
            markerfacecolor=_COLOURS[key.config], markeredgecolor=BLACK, markeredgewidth=0.5,
            zorder=4,
        )  # fmt: skip
    if printed:
        axes.plot(
            [], [], linestyle="none", marker="X", markersize=3.6, markerfacecolor="white",
            markeredgecolor=BLACK, markeredgewidth=0.5, label="published",
        )  # fmt: skip
    axes.set_xticks(range(len(queries)), [str(q) for q in queries])
    axes.set_xlim(-0.3, len(queries) - 0.6)
