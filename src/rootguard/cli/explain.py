"""`rootguard explain`: how to choose epsilon for a template."""

from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from rootguard.cli.options import (
    json_option,
    mechanism_option,
    population_option,
    preset_option,
    template_argument,
)
from rootguard.cli.output import EXIT_CODES, console, number, progress_bar, table, write_json

if TYPE_CHECKING:
    from rootguard.advice.epsilon import Explanation, Tradeoff

_TURNS = ("k+1", "2k+1", "3k+1")
_ADVICE = "calibrated"


@click.command("explain", epilog=EXIT_CODES)
@template_argument
@mechanism_option
@preset_option(
    "--turns",
    click.Choice(_TURNS),
    "2k+1",
    "How long the conversation is, for k roots: the budget is turns times epsilon.",
)
@click.option(
    "--plan-for-population/--no-plan-for-population",
    "population",
    default=True,
    show_default=True,
    help="Also the population plan.",
)
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="PNG, SVG or PDF.")
@click.option(
    "--miss-rate",
    type=click.FloatRange(0, 1),
    help="How often a detector of identifiers in text misses one (docs/detection.md).",
)
@preset_option(
    "--mentions",
    click.IntRange(min=1),
    10,
    "How many mentions a conversation has, with --miss-rate.",
)
@population_option
@json_option
def command(
    template: str,
    *,
    people: str,
    mechanism: str,
    turns: str,
    population: bool,
    plot: Path | None,
    miss_rate: float | None,
    mentions: int,
    as_json: bool,
) -> None:
    """Show what each epsilon gives you, what an adversary can guess, and where more hardly helps.

    Measured on synthetic people drawn from the template's public figures; no private value is
    needed.

    \b
    Examples:
      rootguard explain fib4
      rootguard explain homa --turns 3k+1 --plot homa.png
      rootguard explain fib4 --miss-rate 0.05 --mentions 20 --json
    """
    from rootguard.advice.epsilon import EPSILONS, explained
    from rootguard.advice.utility import CONFIGURATIONS, Turns
    from rootguard.mechanisms import mechanism_named
    from rootguard.template import load_template

    loaded = load_template(template).of_population(people)
    configurations = tuple(c for c in CONFIGURATIONS if population or c != "population")
    chosen = next(t for t in get_args(Turns) if t == turns)
    what = "epsilons and configurations"
    with progress_bar(what, len(EPSILONS) * len(configurations)) as step:
        found = explained(
            loaded,
            mechanism_name=mechanism_named(mechanism),
            turns=chosen,
            configurations=configurations,
            progress=lambda: step(what),
        )
    if plot is not None:
        from rootguard.advice.epsilon import draw

        try:
            draw(found, plot)
        except ImportError:
            problem = "plots need matplotlib; run: pip install 'rootguard[eval]'"
            raise click.ClickException(problem) from None
    if as_json:
        write_json(_as_json(found, miss_rate, mentions))
    else:
        _print(found, miss_rate, mentions)


def _as_json(found: "Explanation", miss_rate: float | None, mentions: int) -> dict[str, object]:
    from rootguard.advice.epsilon import with_misses

    enough = {config: found.enough(config) for config in found.configurations}
    body: dict[str, object] = {
        "template": found.template.name,
        "mechanism": found.mechanism,
        "turns": found.turns,
        "synthetic": True,
        "population_median_error": found.median_error,
        "enough": {name: None if at is None else float(at.epsilon) for name, at in enough.items()},
        "outlooks": [each.record() for each in found.tradeoffs],
    }
    if miss_rate is not None:
        bounds = with_misses(found.of("opt"), miss_rate=miss_rate, mentions=mentions)
        body["with_misses"] = {
            "miss_rate": miss_rate,
            "mentions": mentions,
            "advantage": {str(float(epsilon)): bound for epsilon, bound in bounds.items()},
        }
    return body


def _print(found: "Explanation", miss_rate: float | None, mentions: int) -> None:
    out = console()
    title = f"{found.template.name}: {found.mechanism}, {found.turns} turns, on synthetic people"
    names = found.configurations
    for heading, pick in _PARTS:
        if heading == "risk class" and not found.template.risk:
            continue
        rows = []
        for place, first in enumerate(found.of(names[0])):
            line = [f"{float(first.epsilon):g}", number(float(first.budget))]
            line += [pick(found.of(name)[place]) for name in names]
            rows.append(line)
        columns = (">epsilon", ">budget", *(f">{name}" for name in names))
        out.print(table(f"{title}\n{heading}: error in %", columns, rows))
        title = found.template.name
    if len(found.template.risk) > 1:
        _print_found(found)
    out.print(
        f"Answering everybody with the population's median target costs no privacy and is "
        f"{found.median_error:.1f} % off.",
        markup=False,
    )
    for sentence in _advice(found):
        out.print(sentence, markup=False)
    if miss_rate is not None:
        _print_misses(found, miss_rate, mentions)


def _print_found(found: "Explanation") -> None:
    """Class by class, as the noise alone has it and as calibration does."""
    names = [name for name in ("opt", "calibrated", "population") if name in found.configurations]
    rows = []
    for place, first in enumerate(found.of(found.configurations[0])):
        for risk in found.template.risk:
            shares = [found.of(name)[place].found.get(risk.label) for name in names]
            label = f"{risk.label} (worrying)" if risk.worrying else risk.label
            texts = ["-" if share is None else f"{share:.1f}" for share in shares]
            rows.append([f"{float(first.epsilon):g}", label, *texts])
    heading = (
        "found: of the people in each class, the % released in it (opt: noised, not calibrated)"
    )
    columns = (">epsilon", "class", *(f">{name}" for name in names))
    console().print(table(f"{found.template.name}\n{heading}", columns, rows))


def _print_misses(found: "Explanation", miss_rate: float, mentions: int) -> None:
    from rootguard.advice.epsilon import with_misses

    tradeoffs = found.of("opt")
    bounds = with_misses(tradeoffs, miss_rate=miss_rate, mentions=mentions)
    rows = [
        (f"{float(each.epsilon):g}", f"{each.advantage:.3f}", f"{bounds[each.epsilon]:.3f}")
        for each in tradeoffs
    ]
    out = console()
    out.print(
        f"The most anyone gains in telling apart two people who differ by 1 % in each root, and "
        f"the same when a detector misses {100 * miss_rate:g} % of {mentions} mentions and a miss "
        f"gives everything away:",
        markup=False,
    )
    out.print(table(None, (">epsilon", ">bound", ">with misses"), rows))


def _advice(found: "Explanation") -> list[str]:
    from rootguard.allocation import remarks
    from rootguard.calibration import make_plan

    lines = []
    config = next(name for name in (_ADVICE, "opt") if name in found.configurations)
    at = found.enough(config)
    if at is None:
        last = found.of(config)[-1]
        lines.append(f"More budget still helps at epsilon {float(last.epsilon):g}.")
    else:
        lines.append(
            f"From epsilon {float(at.epsilon):g} (budget {number(float(at.budget))}) on, twice the "
            f"budget improves the {config} target by less than a point: it is "
            f"{at.target_error:.1f} % off there, and an adversary's guesses of the roots are "
            f"{at.adversary_error:.1f} % off."
        )
        if "all" in found.configurations:
            same = next(each for each in found.of("all") if each.epsilon == at.epsilon)
            lines.append(
                f"Independent noise at the same budget: target {same.target_error:.1f} % off, "
                f"adversary {same.adversary_error:.1f} % off, and nearer with every turn."
            )
    budget = found.of(config)[-1].budget if at is None else at.budget
    return lines + [
        f"At that budget {each}." for each in remarks(make_plan(found.template, budget))
    ]


def _risk(each: "Tradeoff") -> str:
    return "" if each.risk_error is None else f"{each.risk_error:.1f}"


_PARTS = (
    ("target", lambda each: f"{each.target_error:.1f}"),
    ("risk class", _risk),
    ("adversary's guess of the roots (MAP)", lambda each: f"{each.adversary_error:.1f}"),
)
