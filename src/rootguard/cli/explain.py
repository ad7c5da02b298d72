"""`rootguard explain`: how to choose what to hide, or epsilon, for a template."""

from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from rootguard.cli.options import (
    HideType,
    json_option,
    mechanism_option,
    population_option,
    preset_option,
    repeated_option,
    template_argument,
)
from rootguard.cli.output import EXIT_CODES, console, need, number, progress_bar, table, write_json

if TYPE_CHECKING:
    from rootguard.advice.costs import FairComparison, HidingChoice
    from rootguard.advice.epsilon import Explanation, Tradeoff

# Said here a second time: the module that has them loads numpy, which --help need not wait for.
_TURNS = ("k+1", "2k+1", "3k+1")
_SCALES = {0.25: "a quarter as far", 0.5: "half as far", 1.0: "as chosen", 2.0: "twice as far"}
_NAMES = {
    "all": "every answer noised",
    "roots": "once, even",
    "opt": "once, weighted",
    "calibrated": "once, calibrated",
    "population": "once, for population",
}
_MEANINGS = {
    "all": "independent noising, the budget split over the turns",
    "roots": "RootGuard: roots noised once, the budget split evenly",
    "opt": "RootGuard, more budget where the target is more sensitive",
    "calibrated": "the same, adjusted by public figures after the noise",
    "population": "calibrated, and planned for the public population",
}


@click.command("explain", epilog=EXIT_CODES)
@template_argument
@mechanism_option
@preset_option(
    "--turns",
    click.Choice(_TURNS),
    "2k+1",
    "How long the conversation is, for k values: the budget is turns times epsilon.",
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
@repeated_option(
    "--hide",
    "hide",
    HideType(),
    "ROOT=DISTANCE",
    "Start from this in place of what the template advises; repeatable.",
)
@population_option
@json_option
def command(
    template: str,
    *,
    hide: tuple[tuple[str, str], ...],
    people: str,
    mechanism: str,
    turns: str,
    population: bool,
    plot: Path | None,
    miss_rate: float | None,
    mentions: int,
    as_json: bool,
) -> None:
    """Show what hiding costs you, what it leaves an adversary, and what each epsilon means.

    Measured on synthetic people drawn from the template's public figures; no private value is
    needed.

    \b
    Examples:
      rootguard explain fib4
      rootguard explain fib4 --hide age=10
      rootguard explain homa --turns 3k+1 --plot homa.png
      rootguard explain fib4 --miss-rate 0.05 --mentions 20 --json
    """
    if plot is not None:  # before seconds of work, not after
        need("eval", "matplotlib", what="a plot")
    from rootguard.advice.costs import choices, compare, per_root, recommended
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

        draw(found, plot)
    ways = choices(loaded, dict(hide), mechanism_name=mechanism_named(mechanism))
    best = recommended(ways)
    beside = compare(loaded, per_root(loaded, best.plan), mechanism_name=mechanism_named(mechanism))
    if as_json:
        body = _as_json(found, miss_rate, mentions)
        body["goals"] = [way.record() for way in ways]
        body["recommended"] = best.record()
        body["comparison"] = beside.record()
        write_json(body)
    else:
        _print_choices(found, ways, best)
        _print(found, miss_rate, mentions)
        _print_comparison(beside)


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


def _print_choices(
    found: "Explanation", ways: "tuple[HidingChoice, ...]", best: "HidingChoice"
) -> None:
    """What hiding costs on one side and leaves on the other, and which is advised."""
    template = found.template
    out = console()
    rows = []
    centre = template.centre()
    for way in ways:
        guess = [100 * off / abs(centre[root] or 1) for root, off in way.cost.adversary.items()]
        wrong = way.cost.wrong_class_rate
        rows.append(
            (
                _SCALES.get(float(way.scale), f"{float(way.scale):g} times as far"),
                f"{way.cost.target_error:.3g} %",
                "-" if wrong is None else f"{wrong:.3g} %",
                f"{sum(guess) / len(guess):.3g} %",
                "<- advised" if way is best else "",
            )
        )
    off = f">{template.target.name} is off"
    columns = ("values are hidden", off, ">wrong class", ">best guess is off", "")
    out.print(table(f"{template.title}: what hiding costs, on synthetic people", columns, rows))
    chosen = next(way for way in ways if way.scale == 1)
    shown = ", ".join(
        f"{template.root(name).label} within {number(far)} {template.root(name).unit}".strip()
        for name, far in chosen.hide.items()
    )
    out.print(f"As chosen: {shown}.", markup=False)
    median = f"the public median ({best.cost.median_error:.3g} % off), which costs no privacy"
    worth = (
        f"the furthest at which {template.target.name} is at least twice as near as {median}"
        if best.worth_having
        else f"the nearest, but even there {template.target.name} is not twice as near as {median}"
    )
    out.print(
        f"Advised is {worth}. The best guess is that of an adversary with every answer, who knows "
        f"the population (MAP), in % of a typical value.\n",
        markup=False,
    )


def _print_comparison(beside: "FairComparison") -> None:
    """RootGuard and independent noising at the same noise and at the same budget."""
    from rootguard.advice.costs import ADVERSARIES

    answers = beside.answer_error
    sides = {"RootGuard": (beside.rootguard, answers["rootguard"])}
    for how, errors in beside.independent.items():
        sides[f"independent, {how}"] = (errors, answers[how])
    lines = [
        (name, f"{answer:.3g} %", *(_small(errors[each]) for each in beside.rootguard))
        for name, (errors, answer) in sides.items()
    ]
    out = console()
    out.print(
        table(
            f"The same people after {beside.questions} questions about each value, epsilon "
            f"{number(float(beside.epsilon))}: how far off",
            ("", ">an answer", *(f">{each}" for each in beside.rootguard)),
            lines,
        )
    )
    for name in beside.rootguard:
        out.print(f"  {name}: {ADVERSARIES[name]}", markup=False)
    out.print(
        "With the same budget over all answers each has so little of it that the service cannot "
        "use them; with the same noise on each, more questions come closer. RootGuard's figures "
        "do not depend on how many questions are asked.",
        markup=False,
    )


def _print(found: "Explanation", miss_rate: float | None, mentions: int) -> None:
    out = console()
    title = (
        f"{found.template.name}: {found.mechanism}, {found.turns} turns (budget {found.turns} × "
        f"epsilon), synthetic people"
    )
    names = found.configurations
    for heading, pick in _PARTS:
        if heading in _OF_CLASSES and not found.template.risk:
            continue
        rows = []
        for place, first in enumerate(found.of(names[0])):
            line = [f"{float(first.epsilon):g}"]
            line += [pick(found.of(name)[place]) for name in names]
            rows.append(line)
        columns = (">epsilon", *(f">{_NAMES[name]}" for name in names))
        out.print(table(f"{title}\n{heading}: in %", columns, rows))
        title = found.template.name
    for name in names:
        out.print(f"  {_NAMES[name]}: {_MEANINGS[name]}", markup=False)
    if len(found.template.risk) > 1:
        _print_found(found)
    out.print(
        f"Answering everybody with the population's median target costs no privacy and is "
        f"{number(found.median_error)} % off.",
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
            texts = ["-" if share is None else number(share) for share in shares]
            rows.append([f"{float(first.epsilon):g}", label, *texts])
    heading = "found: of the people in each class, the % released in it"
    columns = (">epsilon", "class", *(f">{_NAMES[name]}" for name in names))
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
    """From where on more budget hardly helps the service, and what it leaves of privacy there."""
    from rootguard.allocation import remarks
    from rootguard.calibration import make_plan

    config = next(name for name in ("calibrated", "opt") if name in found.configurations)
    at = found.enough(config)
    last = found.of(config)[-1]
    said = f"More budget still helps at epsilon {float(last.epsilon):g}."
    if at is not None:
        said = (
            f"Accuracy alone: from epsilon {float(at.epsilon):g} (budget "
            f"{number(float(at.budget))}) on, twice the budget improves the target by less than a "
            f"point; it is {at.target_error:.3g} % off there. Privacy alone: an adversary's "
            f"guesses of the roots are then {at.adversary_error:.3g} % off (MAP, {at.answers} "
            f"answer about each). If that is too near, hide further and accept the cost in the "
            f"first table."
        )
    budget = last.budget if at is None else at.budget
    noted = remarks(make_plan(found.template, budget))
    return [said, *(f"At that budget {each}." for each in noted)]


def _small(percent: float) -> str:
    # Independent noise averages out: after so many questions too little is left to tell apart.
    return "< 0.01 %" if percent < 0.01 else f"{percent:.3g} %"


def _risk(each: "Tradeoff") -> str:
    return "" if each.risk_error is None else number(each.risk_error)


def _wrong(each: "Tradeoff") -> str:
    return "" if each.wrong_class_rate is None else number(each.wrong_class_rate)


_OF_CLASSES = ("people in another class (wrong-class rate)", "wrong classes by how far (RCE)")
_PARTS = (
    ("error of the target", lambda each: number(each.target_error)),
    (_OF_CLASSES[0], _wrong),
    (_OF_CLASSES[1], _risk),
    (
        "error of an adversary's guess (MAP, answers about each value in brackets)",
        lambda each: f"{number(each.adversary_error)} ({each.answers})",
    ),
)
