"""`rootguard attack`: how close an adversary comes, query by query, with and without RootGuard."""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rootguard.cli.options import (
    EpsilonType,
    json_option,
    mechanism_option,
    preset_option,
    template_argument,
)
from rootguard.cli.output import EXIT_CODES, Cell, console, table, write_json
from rootguard.values import MechanismName

if TYPE_CHECKING:
    from rootguard.advice.crowds import Curve, Guarding, Strategy
    from rootguard.advice.people import Cohort
    from rootguard.template import Template

# As `rootguard.advice.crowds` has them; a test holds the two together.
STRATEGY_NAMES = ("repeat", "derived", "zoom", "joint", "collusion", "posterior")
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
@preset_option("--strategy", click.Choice(STRATEGY_NAMES), "zoom", "What the adversary does.")
@preset_option(
    "--queries", click.IntRange(1, 64), 8, "Queries about each root (joint: rounds of queries)."
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
    strategy: "Strategy",
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
    at the same epsilon, and computes every answer from that.

    \b
    Examples:
      rootguard attack fib4 --epsilon 0.1 --strategy zoom --mechanism exponential
      rootguard attack homa --budget 0.2 --strategy collusion --plot homa.svg
    """
    from rootguard.advice.crowds import attack
    from rootguard.evaluation.cohorts import load_cohort
    from rootguard.graph import Graph
    from rootguard.template import load_template

    loaded = load_template(template)
    if (budget is None) == (epsilon is None):
        raise click.UsageError("give one of --budget and --epsilon")
    if plot is not None and plot.suffix.lower() not in _FORMATS:
        raise click.BadParameter("end the file name in .png, .svg or .pdf", param_hint="--plot")
    roots = len(Graph.of(loaded).roots)
    each = epsilon if epsilon is not None else (budget or Fraction(0)) / roots
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


def _meaning(curves: "Mapping[Guarding, Curve]", strategy: "Strategy") -> str:
    fresh, vault = curves["independent"], curves["rootguard"]
    first, last = float(fresh.overall[0]), float(fresh.overall[-1])
    stays = all((vault.estimates[r] == vault.estimates[r][0]).all() for r in vault.estimates)
    moved = f"from {_percent(first)} to {_percent(last)}"
    kept = (
        f"RootGuard's stays at {_percent(float(vault.overall[0]))} to the last digit, because "
        "every answer is computed from the value noised once"
        if stays
        else "RootGuard's estimate moved, which it must never do: please report this"
    )
    return (
        f"An adversary that {_ABOUT[strategy]} gets the median person's error under independent "
        f"noising {moved} (mean over the roots); {kept}."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


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
    title = f"{template.title}: relative error of the guesses, epsilon {float(epsilon):g} ({who})"
    columns = (">queries", *(f">{root}" for root in fresh.estimates), ">RootGuard")
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
                *(Text(_percent(float(m[i])), style="red") for m in medians.values()),
                Text("changed" if changed else "unchanged", style="green"),
            )
        )
    out.print(table(title, columns, rows))
    kept: list[tuple[Cell, ...]] = [
        (root, _percent(float(vault.medians(root)[0])), str(vault.factors[root]),
         str(fresh.factors[root]))
        for root in medians
    ]  # fmt: skip
    sides = ("root", ">error with RootGuard", ">answers with RootGuard", ">with independent noise")
    title = "How many independent answers the adversary holds about each root"
    out.print(table(title, sides, kept))
    out.print(meaning)


def _plot(
    path: Path,
    template: "Template",
    cohort: "Cohort",
    curves: "Mapping[Guarding, Curve]",
    epsilon: Fraction,
) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        problem = "plots need matplotlib; run: pip install 'rootguard[eval]'"
        raise click.ClickException(problem) from None
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
