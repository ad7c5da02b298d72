"""`rootguard plan`: what hides values so far, or splits a budget, what it promises and costs.

No private value is needed.
"""

import math
from typing import TYPE_CHECKING

import click

from rootguard.cli.options import (
    PlanChoice,
    json_option,
    plan_options,
    population_option,
    print_warnings,
    shared_warnings,
    template_argument,
)
from rootguard.cli.output import EXIT_CODES, console, number, table, write_json

if TYPE_CHECKING:
    from rootguard.advice.costs import PlanCost
    from rootguard.allocation import Plan, Share
    from rootguard.goals import Goal
    from rootguard.template import Template


@click.command("plan", epilog=EXIT_CODES)
@template_argument
@plan_options
@click.option(
    "--amplification",
    is_flag=True,
    help="Also say what independent noising of the computed values would leak (Theorem 2).",
)
@click.option(
    "--profile",
    type=click.Path(dir_okay=False),
    help="Also compare the template's roots with those of this profile's templates.",
)
@population_option
@json_option
def command(
    template: str,
    *,
    choice: PlanChoice,
    people: str,
    amplification: bool,
    profile: str | None,
    as_json: bool,
) -> None:
    """Find the noise that hides your values as far as you say, and what that costs.

    --hide age=5 promises: of two people who differ in age alone, by 5 years, nobody picks the right
    one with an advantage over chance of more than 0.5, however much they ask. Or give a budget: a
    total, or the paper's epsilon times turns.

    \b
    Examples:
      rootguard plan fib4 --hide age=5
      rootguard plan fib4 --hide age=5 --hide ast=10% --advantage 0.3
      rootguard plan fib4 --budget 0.9
      rootguard plan fib4 --epsilon 0.1 --turns 9 --mechanism exponential --json
      rootguard plan ./mine.toml --budget 1 --allocation uniform --amplification
      rootguard plan ./mine.toml --budget 1 --profile me.toml
    """
    from rootguard.graph import recognise
    from rootguard.session import load_profile
    from rootguard.template import load_template

    loaded = load_template(template).of_population(people)
    plan = choice.plan(loaded)
    goals = choice.goals(loaded)
    # Only for goals: their cost is simulated, and a plan for a budget is printed at once.
    cost = _cost(loaded, plan) if goals else None
    leaks = _amplifications(loaded, plan) if amplification else None
    hints = [str(hint) for hint in recognise(loaded)]
    beside = () if profile is None else load_profile(profile).templates
    warnings = shared_warnings((loaded, *beside))
    if as_json:
        body = _as_json(loaded, plan, leaks, hints) | {"warnings": warnings}
        if cost is not None:
            body |= {"goals": _goals_json(loaded, plan, goals), "cost": cost.record()}
        write_json(body)
    else:
        if cost is not None:
            print_goals(loaded, plan, goals, cost)
        _print(loaded, plan, leaks, hints, brief=cost is not None)
        print_warnings(warnings)


def _cost(template: "Template", plan: "Plan") -> "PlanCost":
    from rootguard.advice.costs import plan_cost

    return plan_cost(template, plan)


def _goals_json(template: "Template", plan: "Plan", goals: "tuple[Goal, ...]") -> dict[str, object]:
    from rootguard.goals import joint_advantage, public_error

    return {
        "advantage": goals[0].advantage,
        "joint_advantage": joint_advantage(goals),
        "roots": {
            goal.root: {
                "hide": goal.distance,
                "unit": template.roots[goal.root].unit,
                "steps": goal.steps,
                "epsilon": float(goal.epsilon),
                "advantage": goal.bound,
                "chosen_by": goal.source,
                "because": goal.because,
                "expected_error": plan[goal.root].expected_error,
                "public_error": public_error(template.roots[goal.root]),
                "useless": _useless(template, plan, goal.root),
            }
            for goal in goals
        },
    }


def _useless(template: "Template", plan: "Plan", root: str) -> bool:
    """Whether a guess from public figures would be as near as what is released."""
    from rootguard.goals import public_error

    return plan[root].expected_error >= public_error(template.root(root))


def print_goals(
    template: "Template", plan: "Plan", goals: "tuple[Goal, ...]", cost: "PlanCost"
) -> None:
    """What is hidden how far, what that costs, and which goals make a value useless."""
    from rootguard.goals import joint_advantage

    out = console()
    rows = []
    for goal in goals:
        root = template.roots[goal.root]
        rows.append(
            (
                f"{root.label} ({goal.root})",
                f"{number(goal.distance)} {root.unit}".strip(),
                {"owner": "you", "template": "template", "usual": "default"}[goal.source],
                f"± {number(plan[goal.root].expected_error)} {root.unit}".strip(),
                f"± {number(cost.adversary[goal.root])} {root.unit}".strip(),
            )
        )
    columns = ("value", ">hidden within", "chosen by", ">average error", ">best guess is off")
    out.print(table(f"{template.title}: what you hide", columns, rows))
    right = 50 + 50 * goals[0].advantage  # chance is right half of the time
    several = len(goals) > 1
    out.print(
        f"Of two people who differ in one value alone, by that much, nobody picks the right one "
        f"more than {right:.3g} % of the time, however much they ask (advantage "
        f"{goals[0].advantage:.3g})."
        + (
            f" If they differ by that much in all {len(goals)} at once: "
            f"{50 + 50 * joint_advantage(goals):.3g} % (advantage {joint_advantage(goals):.3g})."
            if several
            else ""
        ),
        markup=False,
    )
    for sentence in cost_sentences(template, plan, goals, cost):
        out.print(sentence, markup=False)
    out.print()


def cost_sentences(
    template: "Template", plan: "Plan", goals: "tuple[Goal, ...]", cost: "PlanCost"
) -> list[str]:
    """What the goals cost in accuracy and class errors, and which make a value useless."""
    said = [_cost_sentence(template, cost)]
    said += [
        f"{template.roots[goal.root].label} is of no use to the service like this: a guess from "
        f"public figures is as near. Hide it less far, or do not send it."
        for goal in goals
        if _useless(template, plan, goal.root)
    ]
    if cost.target_error >= cost.median_error:
        said.append(
            f"{template.target.name} is of no use like this: answering everybody with the "
            f"population's median is {cost.median_error:.3g} % off and costs no privacy."
        )
    return said


def _cost_sentence(template: "Template", cost: "PlanCost") -> str:
    said = f"The cost, on synthetic people: {template.target.name} is {cost.target_error:.3g} % off"
    if cost.wrong_class_rate is not None:
        said += (
            f", and {cost.wrong_class_rate:.3g} % of people are put in another risk class "
            f"(RCE {cost.class_error:.3g} %)"
        )
    for risk in template.risk:
        share = cost.found.get(risk.label)
        if risk.worrying and share is not None:
            said += f"; of those in {risk.label!r}, {share:.3g} % are found"
    return said + "."


def _as_json(
    template: "Template", plan: "Plan", leaks: list[dict[str, object]] | None, hints: list[str]
) -> dict[str, object]:
    from rootguard.allocation import remarks
    from rootguard.session import promise

    body: dict[str, object] = {
        "template": plan.template,
        "mechanism": plan.mechanism,
        "allocation": plan.allocation,
        "budget": float(plan.budget),
        "roots": {
            share.root: {
                "epsilon": float(share.epsilon),
                "share": float(share.epsilon / plan.budget),
                "sensitivity": share.sensitivity,
                "expected_error": share.expected_error,
                "unit": template.roots[share.root].unit,
            }
            for share in plan.shares
        },
        "guarantee": promise(template, plan).to_dict(),
        "hints": hints,
        "remarks": list(remarks(plan)),
        "hash": plan.hash,
    }
    if leaks is not None:
        body["amplification"] = leaks
    return body


def _print(
    template: "Template",
    plan: "Plan",
    leaks: list[dict[str, object]] | None,
    hints: list[str],
    *,
    brief: bool,
) -> None:
    from rootguard.allocation import remarks
    from rootguard.session import promise

    out = console()
    rows = [
        (
            f"{template.roots[share.root].label} ({share.root})",
            f"{float(share.epsilon):.3g}",
            f"{100 * float(share.epsilon / plan.budget):.3g} %",
            number(share.sensitivity),
            error_text(share, template.roots[share.root].unit),
        )
        for share in plan.shares
    ]
    title = f"{plan.template}: budget {float(plan.budget):.3g}, {plan.mechanism}, {plan.allocation}"
    columns = ("value", ">epsilon", ">share", ">sensitivity", ">expected error")
    out.print(table(title, columns, rows))
    if not brief:  # what is promised was said in the goals' own words
        out.print(str(promise(template, plan)), markup=False)
    if leaks is not None:
        cells = [
            (
                str(leak["value"]),
                str(leak["root"]),
                _cell(leak["amplification"]) + (f" ({leak['remark']})" if leak["remark"] else ""),
                _cell(leak["accumulated_level"]),
                _cell(leak["implied_epsilon"]),
            )
            for leak in leaks
        ]
        out.print(
            table(
                "what independent noising of a computed value, once, would do to a root's epsilon",
                ("value", "root", ">amplification", ">level beside one release", ">implied here"),
                cells,
            )
        )
    for remark in remarks(plan):
        out.print(f"note: {remark}", markup=False)
    for hint in hints:
        out.print(f"hint: {hint}", markup=False)


def error_text(share: "Share", unit: str) -> str:
    """The expected error of a root, in words that fit its type."""
    if share.public:
        return "none (public)"
    if not share.type.on_a_line and share.type.distances is None:
        return f"wrong in {100 * share.expected_error:.0f} %"
    return f"{number(share.expected_error)} {unit}".strip()


def _cell(value: object) -> str:
    if value is None:
        return "unbounded"
    return number(value) if isinstance(value, float) else str(value)


def _amplifications(template: "Template", plan: "Plan") -> list[dict[str, object]]:
    """Theorems 2 and 3 for every computed value; null where a bound is infinite."""
    from rootguard.accounting import accumulated_level, implied_epsilon, slopes
    from rootguard.graph import Graph

    graph = Graph.of(template)
    domains = {str(share.root): share.domain for share in plan.shares}
    return [
        {
            "value": node.name,
            "root": slope.root,
            "amplification": _finite(slope.amplification),
            "attained": _finite(slope.attained),
            "remark": slope.remark,
            "accumulated_level": _finite(
                accumulated_level(
                    plan[slope.root].epsilon, repeats=1, amplifications=[slope.amplification]
                )
            ),
            "implied_epsilon": _finite(implied_epsilon(plan[slope.root].epsilon, slope)),
        }
        for node in graph.order
        if node.formula is not None
        for slope in slopes(graph.in_roots(node.formula), domains)
    ]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
