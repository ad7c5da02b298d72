"""`rootguard release`: noise values once and answer from them."""

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rootguard.cli.options import (
    PlanChoice,
    calibrate_option,
    json_option,
    plan_options,
    principal_option,
    read_values,
    store_option,
    tell_owner,
    template_argument,
)
from rootguard.cli.output import EXIT_CODES, console, number, table, write_json
from rootguard.errors import shielded

if TYPE_CHECKING:
    from datetime import datetime

    from rootguard.graph import GraphNode
    from rootguard.session import Session
    from rootguard.session.profile import OnChange
    from rootguard.template import Template
    from rootguard.values import Form


@click.command("release", epilog=EXIT_CODES)
@template_argument
@click.option(
    "--values",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="TOML or JSON file of root = number; - for standard input. Asked for when left out.",
)
@click.option(
    "--formula", "formulas", multiple=True, metavar="FORMULA", help="Answer this too; repeatable."
)
@plan_options
@click.option(
    "--on-change",
    type=click.Choice(["draw", "keep", "ask", "drift", "daily"]),
    help="Noise a value that changed anew, at its own cost; keep what was noised; ask first, with "
    "the price (the usual for a series); or follow it by --when.",
)
@click.option(
    "--when", type=click.DateTime(["%Y-%m-%d"]), help="The date of these values, for a series."
)
@click.option(
    "--lifetime",
    type=click.IntRange(min=1),
    help="What a root may cost in all, as a multiple of its first price; 10 unless it is given.",
)
@calibrate_option
@principal_option
@store_option
@json_option
def command(
    template: str,
    *,
    values: str | None,
    formulas: tuple[str, ...],
    choice: PlanChoice,
    on_change: "OnChange | None",
    when: "datetime | None",
    lifetime: int | None,
    calibrate: bool,
    principal: str,
    url: str,
    as_json: bool,
) -> None:
    """Noise a person's values once and print what a service would receive.

    The noised values are kept in a store: called again for the same principal and values, this
    prints the same and spends nothing. A value that comes back to an earlier one costs nothing
    either. Any other value is noised anew, at its own cost, until a root has cost ten times its
    first price.

    \b
    Examples:
      rootguard release fib4 --hide age=5 --values values.toml
      echo '{"wt": 80, "ht": 1.8}' | rootguard release bmi --budget 0.5 \\
        --values - --json
      rootguard release fib4 --budget 0.9 --values values.toml \\
        --formula 'ast / alt'
      rootguard release fib4 --budget 0.09 --values values.toml \\
        --allocation population --calibrate
    """
    from rootguard.events import to_record
    from rootguard.template import load_template
    from rootguard.vault import open_store

    loaded = load_template(template)
    session = _noised(
        values,
        loaded,
        confirm=not as_json and sys.stdin.isatty(),
        on_change=on_change,
        **choice.terms(),
        when=None if when is None else when.date(),
        lifetime=lifetime,
        calibrate=calibrate,
        on_clamp=tell_owner,
        store=open_store(url),
        principal=principal,
    )
    for node in session.graph.order:
        session.release(node.name)
    for formula in formulas:
        session.derive(formula)
    if as_json:
        body = {
            "template": loaded.name,
            "released": [to_record(event) for event in session.transcript()],
            "risk": session.risk(),
            "calibrated": session.calibrated,
            "guarantee": session.guarantee().to_dict(),
        }
        write_json(body)
    else:
        _print(loaded, session, formulas)


def _kind(template: "Template", node: "GraphNode") -> str:
    public = any(root.public for name, root in template.roots.items() if name == node.name)
    return "public" if public else node.kind


def _shown(value: "Form") -> str:
    from rootguard.values import written

    return number(value) if type(value) is float else written(value)


def _print(template: "Template", session: "Session", formulas: tuple[str, ...]) -> None:
    out = console()
    units = {node.name: node.unit for node in session.graph.order}
    titles = {str(name): f"{root.label} ({name})" for name, root in template.roots.items()}
    rows: list[tuple[str, ...]] = [
        (
            titles.get(node.name, node.name),
            _shown(session.release(node.name)),
            units[node.name],
            _kind(template, node),
        )
        for node in session.graph.order
        if node.kind != "request"
    ]
    rows += [(formula, number(session.derive(formula)), "", "formula") for formula in formulas]
    how = "noised once, calibrated" if session.calibrated else "noised once"
    out.print(table(f"{template.name}, {how}", ("value", ">released", "unit", "kind"), rows))
    risk = session.risk()
    if risk is not None:
        out.print(f"risk: {risk}")
    out.print(str(session.guarantee()), markup=False)


@shielded
def _noised(
    source: str | None,
    template: "Template",
    *,
    confirm: bool,
    on_change: "OnChange | None",
    **options: Any,  # noqa: ANN401 - those of Guard.open, as they are
) -> "Session":
    """Read the private values and noise them. A refusal leaves without the frame that has them."""
    from rootguard.errors import ChangedValueError
    from rootguard.session import Guard

    open_session = partial(Guard.open, template, values=read_values(source, template), **options)
    try:
        return open_session(on_change=on_change)
    except ChangedValueError as changed:
        # The owner is at the terminal, is told the price, and says yes or no.
        if not confirm or not click.confirm(f"{changed}\nPay that now?"):
            raise
    return open_session(on_change="draw")
