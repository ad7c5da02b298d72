"""`rootguard plan`: how a budget would be split, what it promises. No private value needed."""

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
    from rootguard.allocation import Plan
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
    """Split a budget over a template's roots and say what it promises.

    The budget is a total, or the paper's epsilon times turns.

    \b
    Examples:
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
    leaks = _amplifications(loaded, plan) if amplification else None
    hints = [str(hint) for hint in recognise(loaded)]
    beside = () if profile is None else load_profile(profile).templates
    warnings = shared_warnings((loaded, *beside))
    if as_json:
        write_json(_as_json(loaded, plan, leaks, hints) | {"warnings": warnings})
    else:
        _print(loaded, plan, leaks, hints)
        print_warnings(warnings)


def _as_json(
    template: "Template", plan: "Plan", leaks: list[dict[str, object]] | None, hints: list[str]
) -> dict[str, object]:
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
        "hash": plan.hash,
    }
    if leaks is not None:
        body["amplification"] = leaks
    return body


def _print(
    template: "Template", plan: "Plan", leaks: list[dict[str, object]] | None, hints: list[str]
) -> None:
    from rootguard.session import promise

    out = console()
    rows = [
        (
            share.root,
            f"{float(share.epsilon):.6f}",
            f"{float(share.epsilon / plan.budget):.1%}",
            number(share.sensitivity),
            f"{number(share.expected_error)} {template.roots[share.root].unit}",
        )
        for share in plan.shares
    ]
    title = f"{plan.template}: budget {float(plan.budget):g}, {plan.mechanism}, {plan.allocation}"
    columns = ("root", ">epsilon", ">share", ">sensitivity", ">expected error")
    out.print(table(title, columns, rows))
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
    for hint in hints:
        out.print(f"hint: {hint}", markup=False)


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
