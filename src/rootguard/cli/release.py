"""`rootguard release`: noise values once and answer from them.

Private values come from a file, from standard input or from a hidden prompt, never from the command
line: arguments are visible to other users of the machine and stay in the shell's history.
"""

import json
import sys
import tomllib
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import click

from rootguard.cli.options import json_option, plan_options, template_argument
from rootguard.cli.output import EXIT_CODES, console, number, table, write_json
from rootguard.errors import PrivateValueError
from rootguard.events import to_record
from rootguard.graph import Graph
from rootguard.session import Guard, Session
from rootguard.template import Template, load_template
from rootguard.values import AllocationName, RootName


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
@json_option
def command(
    template: str,
    *,
    values: str | None,
    formulas: tuple[str, ...],
    budget: Fraction | None,
    epsilon: Fraction | None,
    turns: int | None,
    mechanism: str,
    allocation: AllocationName,
    objective: str | None,
    as_json: bool,
) -> None:
    """Noise a person's values once and print what a service would receive.

    Each call of this command draws afresh: do not send the results of two calls for the same
    person to anyone who must not learn more than one of them tells.

    \b
    Examples:
      rootguard release fib4 --budget 0.9 --values me.toml
      echo '{"wt": 80, "ht": 1.8}' | rootguard release bmi --budget 0.5 --values - --json
      rootguard release fib4 --budget 0.9 --values me.toml --formula 'ast / alt'
    """
    loaded = load_template(template)
    session = Guard.open(
        loaded,
        values=_ask(loaded) if values is None else _read(values),
        budget=budget,
        epsilon=epsilon,
        turns=turns,
        mechanism=mechanism,
        allocation=allocation,
        objective=objective,
        on_clamp=_tell_owner,
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
            "guarantee": session.guarantee().to_dict(),
        }
        write_json(body)
    else:
        _print(loaded, session, formulas)


def _print(template: Template, session: Session, formulas: tuple[str, ...]) -> None:
    out = console()
    units = {node.name: node.unit for node in session.graph.order}
    rows: list[tuple[str, ...]] = [
        (node.name, number(float(session.release(node.name))), units[node.name], node.kind)
        for node in session.graph.order
        if node.kind != "request"
    ]
    rows += [(formula, number(session.derive(formula)), "", "formula") for formula in formulas]
    out.print(table(f"{template.name}, noised once", ("value", ">released", "unit", "kind"), rows))
    risk = session.risk()
    if risk is not None:
        out.print(f"risk: {risk}")
    out.print(str(session.guarantee()), markup=False)


def _tell_owner(roots: tuple[RootName, ...]) -> None:
    click.echo(
        f"note, for you alone: outside the public bounds, taken as the bound: {', '.join(roots)}",
        err=True,
    )


def _ask(template: Template) -> dict[str, float]:
    """Ask for each root on the terminal, without echo."""
    if not sys.stdin.isatty():
        raise PrivateValueError("give --values FILE, or --values - to read", ("standard input",))
    roots = Graph.of(template).roots
    return {
        root: click.prompt(f"{root} [{template.roots[root].unit}]", type=float, hide_input=True)
        for root in roots
    }


def _read(source: str) -> dict[str, float]:
    """A flat table of numbers from TOML or JSON. What is wrong is said without quoting it.

    Errors are raised after their handlers have ended: a decoder's own error holds the document.
    """
    text, content = None, None
    with suppress(OSError, UnicodeDecodeError):
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    if text is None:
        raise PrivateValueError("cannot be read", (source,))
    try:
        content = json.loads(text)
    except ValueError:
        with suppress(ValueError):
            content = tomllib.loads(text)
    del text
    if not isinstance(content, dict):
        del content
        raise PrivateValueError("not a TOML or JSON table of root = number", (source,))
    return content
