"""`rootguard attack`: how close an adversary comes, query by query, with and without RootGuard."""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from rootguard.cli.options import (
    EpsilonType,
    json_option,
    mechanism_option,
    preset_option,
    template_argument,
)
from rootguard.cli.output import EXIT_CODES, Cell, console, need, table, write_json
from rootguard.values import MechanismName

if TYPE_CHECKING:
    from rootguard.advice.crowds import Curve, Guarding, Strategy
    from rootguard.advice.histories import ChangeDetection, HistoryPolicy
    from rootguard.advice.people import Cohort
    from rootguard.template import Root, Template
    from rootguard.values import RootName

# As `rootguard.advice.crowds` has them; a test holds the two together.
STRATEGY_NAMES = ("repeat", "derived", "zoom", "joint", "collusion", "posterior")
CHANGES = "changes"
"""Not about one answer: whether a history of them shows that a value changed."""
_SHOWN = 12  # lines of the table, so that 64 queries fit a screen
_FORMATS = (".png", ".svg", ".pdf")
_ABOUT: "Mapping[Strategy, str]" = {
    "repeat": "asks for each root again and again",
    "derived": "asks for steep functions of each root, each noised on its own range",
    "zoom": "asks where each root lies in an ever smaller window around its best guess",
    "joint": "asks for the roots, the target and every derived value, and solves for all at once",
    "collusion": "pools what several services received on several days",
    "posterior": "asks for the roots again and again and knows how they vary in the population",
}


@click.command("attack", epilog=EXIT_CODES)
@template_argument
@click.option("--budget", type=EpsilonType(), help="Total epsilon; each root gets an even share.")
@click.option("--epsilon", type=EpsilonType(), help="Epsilon of each root, and of each answer.")
@preset_option(
    "--strategy", click.Choice((*STRATEGY_NAMES, CHANGES)), "zoom", "What the adversary does."
)
@preset_option(
    "--queries",
    click.IntRange(1, 64),
    8,
    "Queries about each root (joint: rounds of queries; changes: days).",
)
@preset_option(
    "--people",
    click.IntRange(1, 10_000),
    20,
    "Synthetic people attacked; the table shows the median one.",
)
@click.option(
    "--cohort",
    "directory",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Attack the published people in this directory instead (see `rootguard cohort`).",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of people.")
@mechanism_option
@click.option(
    "--plot", type=click.Path(path_type=Path, dir_okay=False), help="Write a PNG, SVG or PDF."
)
@json_option
def command(
    template: str,
    budget: Fraction | None,
    epsilon: Fraction | None,
    strategy: str,
    queries: int,
    people: int,
    directory: Path | None,
    seed: int,
    mechanism: MechanismName,
    plot: Path | None,
    *,
    as_json: bool,
) -> None:
    """Attack synthetic people, with independent noise and with RootGuard, and compare the guesses.

    Independent noising gives every answer fresh noise at epsilon. RootGuard noises each root once,
    at the same epsilon, and computes every answer from that. With --strategy changes: whether a
    release on each of so many days shows that a value changed, under each policy for such values.

    \b
    Examples:
      rootguard attack fib4 --epsilon 0.1 --strategy zoom --mechanism exponential
      rootguard attack homa --budget 0.2 --strategy collusion --plot homa.svg
      rootguard attack homa --epsilon 0.2 --strategy changes \\
        --queries 30 --people 2000
    """
    from rootguard.advice.crowds import attack
    from rootguard.evaluation.cohorts import load_cohort
    from rootguard.graph import Graph
    from rootguard.template import load_template

    loaded = load_template(template)
    if (budget is None) == (epsilon is None):
        raise click.UsageError("give one of --epsilon, such as --epsilon 0.1, and --budget")
    if plot is not None and plot.suffix.lower() not in _FORMATS:
        raise click.BadParameter("end the file name in .png, .svg or .pdf", param_hint="--plot")
    if plot is not None:
        need("eval", "matplotlib", what="a plot")
    roots = len(Graph.of(loaded).roots)
    each = epsilon if epsilon is not None else (budget or Fraction(0)) / roots
    if strategy == CHANGES:
        if directory is not None or plot is not None or queries < _LEAST_DAYS:
            problem = f"--strategy changes takes no --cohort and no --plot, and {_LEAST_DAYS} days"
            raise click.UsageError(f"{problem} or more")
        _changes(loaded, each, queries, max(people, _LEAST_PEOPLE), seed, mechanism, as_json)
        return
    strategy = cast("Strategy", strategy)
    cohort = load_cohort(loaded, directory, size=people, seed=seed)

    def run(guarding: "Guarding") -> "Curve":
        return attack(
            strategy, guarding, loaded, cohort,
            mechanism=mechanism, epsilon=each, queries=queries, seed=seed,
        )  # fmt: skip

    curves: dict[Guarding, Curve] = {g: run(g) for g in ("independent", "rootguard")}
    meaning = _meaning(curves, strategy)
    if plot is not None:
        _plot(plot, loaded, cohort, curves, each)
    if as_json:
        write_json(_as_json(loaded, cohort, curves, each, meaning))
    else:
        _print(loaded, cohort, curves, each, meaning)
        if plot is not None:
            console().print(f"Plot written to {plot}.")


_LEAST_DAYS = 4  # so that a day of change has days on both sides of it
_LEAST_PEOPLE = 400  # half of them choose the adversary's threshold


def _changes(
    template: "Template",
    epsilon: Fraction,
    days: int,
    people: int,
    seed: int,
    mechanism: MechanismName,
    as_json: bool,
) -> None:
    """How often a change is told from none, by policy, for a far and a near move of each root."""
    from rootguard.advice.histories import POLICIES, detect_changes, moved_steps
    from rootguard.graph import Graph

    own = [template.roots[root] for root in Graph.of(template).roots]
    on_a_line = [root for root in own if root.type.on_a_line and not root.public]
    listed = [root for root in on_a_line if root.series] or on_a_line
    rows: list[tuple[Root, float, dict[HistoryPolicy, ChangeDetection]]] = []
    for root in listed:
        far = moved_steps(root, epsilon)
        for steps in (far, max(1, far // 8)):
            found = detect_changes(
                root, epsilon=epsilon, days=days, people=people, steps=steps, chosen=mechanism,
                seed=seed,
            )  # fmt: skip
            rows.append((root, steps * root.domain.step, found))
    if as_json:
        body = {"template": template.name, "strategy": CHANGES, "epsilon": float(epsilon)}
        told = [
            {
                "root": root.name,
                "moved": moved,
                "unit": root.unit,
                "told_right": {policy: each.right for policy, each in found.items()},
                "cost_in_readings": {policy: each.cost for policy, each in found.items()},
            }
            for root, moved, found in rows
        ]
        write_json({**body, "days": days, "people": people, "rows": told})
        return
    cells: list[tuple[Cell, ...]] = [
        (
            root.name,
            f"{moved:.3g} {root.unit}".rstrip(),
            *(f"{100 * found[p].right:.0f} % ({found[p].cost:.3g})" for p in POLICIES),
        )
        for root, moved, found in rows
    ]
    title = (
        f"{template.title}: told right whether a value changed in {days} days, epsilon "
        f"{float(epsilon):g} a reading ({people} synthetic people, half of whom changed; chance is "
        "50 %; in brackets the cost in readings)"
    )
    columns = ("root", ">moved by", ">fresh noise, daily", ">draw", ">drift", ">keep")
    console().print(table(title, columns, cells))
    console().print(
        "With fresh noise every day a change shows in the average; with `draw` it shows at once, "
        "because equal values are released alike. `drift` shows what its accounted test says, and "
        "`keep` nothing."
    )


def _meaning(curves: "Mapping[Guarding, Curve]", strategy: "Strategy") -> str:
    fresh, vault = curves["independent"], curves["rootguard"]
    first, last = float(fresh.overall[0]), float(fresh.overall[-1])
    shown = _days if fresh.in_days else _percent
    stays = all((vault.estimates[r] == vault.estimates[r][0]).all() for r in vault.estimates)
    moved = f"from {shown(first)} to {shown(last)}"
    kept = (
        f"RootGuard's stays at {shown(float(vault.overall[0]))} to the last digit, because "
        "every answer is computed from the value noised once"
        if stays
        else "RootGuard's estimate moved, which it must never do: please report this"
    )
    return (
        f"An adversary that {_ABOUT[strategy]} gets the median person's error under independent "
        f"noising {moved} (mean over the roots); {kept}."
    )


def _percent(share: float) -> str:
    return "< 0.001 %" if 0 < share < 1e-5 else f"{100 * share:.3g} %"


def _days(days: float) -> str:
    return f"{days:.3g} days"


def _error(curve: "Curve", root: "RootName", error: float) -> str:
    """The error of a guess: of a day in days, of answers how many are wrong, else its share."""
    kind = curve.types.get(root, "number")
    wrong = " wrong" if kind in ("boolean", "category") else ""
    return _days(error) if kind == "date" else _percent(error) + wrong


def _as_json(
    template: "Template",
    cohort: "Cohort",
    curves: "Mapping[Guarding, Curve]",
    epsilon: Fraction,
    meaning: str,
) -> dict[str, object]:
    fresh = curves["independent"]
    return {
        "template": template.name,
        "strategy": fresh.strategy,
        "epsilon": float(epsilon),
        "people": len(cohort),
        "synthetic": cohort.synthetic,
        "queries": list(fresh.queries),
        "median_relative_error": {
            guarding: {root: curve.medians(root).tolist() for root in curve.estimates}
            for guarding, curve in curves.items()
        },
        "likelihood_factors": {guarding: dict(curve.factors) for guarding, curve in curves.items()},
        "meaning": meaning,
    }


def _print(
    template: "Template",
    cohort: "Cohort",
    curves: "Mapping[Guarding, Curve]",
    epsilon: Fraction,
    meaning: str,
) -> None:
    from rich.text import Text

    fresh, vault = curves["independent"], curves["rootguard"]
    out = console()
    kind = "synthetic" if cohort.synthetic else "published"
    who = f"{len(cohort)} {kind} people, the median one" if len(cohort) > 1 else f"a {kind} person"
    title = f"{template.title}: error of the guesses, epsilon {float(epsilon):g} ({who})"
    titles = {
        root: f"{template.root(root).label}{' (public)' if template.root(root).public else ''}"
        for root in fresh.estimates
    }
    columns = (">queries", *(f">{title}" for title in titles.values()), ">RootGuard")
    medians = {root: fresh.medians(root) for root in fresh.estimates}
    steps = range(len(fresh.queries))
    if len(steps) > _SHOWN:
        steps = range(0, len(steps), -(-len(steps) // _SHOWN))
    rows: list[tuple[Cell, ...]] = []
    for i in steps:
        changed = any((vault.estimates[r][i] != vault.estimates[r][0]).any() for r in medians)
        rows.append(
            (
                str(fresh.queries[i]),
                *(Text(_error(fresh, r, float(m[i])), style="red") for r, m in medians.items()),
                Text("changed" if changed else "unchanged", style="green"),
            )
        )
    out.print(table(title, columns, rows))
    kept: list[tuple[Cell, ...]] = [
        (titles[root], _error(vault, root, float(vault.medians(root)[0])),
         str(vault.factors[root]),
         str(fresh.factors[root]))
        for root in medians
    ]  # fmt: skip
    sides = ("value", ">error with RootGuard", ">answers with RootGuard", ">with independent noise")
    title = "How many independent answers the adversary holds about each value"
    out.print(table(title, sides, kept))
    out.print(meaning)


def _plot(
    path: Path,
    template: "Template",
    cohort: "Cohort",
    curves: "Mapping[Guarding, Curve]",
    epsilon: Fraction,
) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    fresh, vault = curves["independent"], curves["rootguard"]
    palette = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
    for number, root in enumerate(fresh.estimates):
        colour = palette[number % len(palette)]
        for curve, style, mark in ((fresh, "-", "o"), (vault, "--", "")):
            label = f"{root}, {'independent' if curve is fresh else 'RootGuard'}"
            axes.plot(
                curve.queries, 100 * curve.medians(root), style, marker=mark, color=colour,
                label=label, markersize=3.5, linewidth=1.2,
            )  # fmt: skip
    axes.set_yscale("log")
    axes.set_xlabel("queries" if fresh.strategy == "joint" else "queries about each root")
    axes.set_ylabel("median relative error, %")
    axes.set_title(
        f"{template.title}, {fresh.strategy}, epsilon {float(epsilon):g} "
        f"({'synthetic' if cohort.synthetic else 'published'} people)"
    )
    axes.grid(visible=True, color="#DDDDDD", linewidth=0.4)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.legend(loc="outside right center", fontsize=7, frameon=False)
    try:
        figure.savefig(path, dpi=200)
    except OSError as error:
        problem = error.strerror or "no reason given"
        raise click.ClickException(f"{path} cannot be written ({problem})") from None
