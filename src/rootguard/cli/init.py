"""`rootguard init`: a first profile, in a minute.

Values that are typed here are noised at once and kept in the vault; the file that is written holds
none of them. It does hold identifiers, which have to be found in texts again, so only its owner may
read it.
"""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rootguard.cli.options import (
    EpsilonType,
    TemplateType,
    json_option,
    print_warnings,
    read_table,
    shared_warnings,
    store_option,
    tell_owner,
)
from rootguard.cli.output import EXIT_CODES, console, table, write_json
from rootguard.errors import BudgetError, ProfileError, shielded

if TYPE_CHECKING:
    from rootguard.session import Person
    from rootguard.template import Template

_PER_ROOT = Fraction(1, 4)
"""The budget that is offered, for each root of the largest template: in a FIB-4, one in all."""


@click.command("init", epilog=EXIT_CODES)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("me.toml"),
    show_default=True,
    help="Where the profile is written.",
)
@click.option(
    "--template",
    "templates",
    type=TemplateType(),
    multiple=True,
    metavar="NAME_OR_FILE",
    help="What is calculated from your values; repeatable. Asked for when left out.",
)
@click.option("--budget", type=EpsilonType(), help="Total epsilon of each template.")
@click.option("--principal", default="owner", show_default=True, help="Whose values they are.")
@click.option(
    "--values",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="TOML or JSON file of root = number, - for standard input; noised into the vault now.",
)
@click.option(
    "--identifiers",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="TOML or JSON file of name = text; written into the profile.",
)
@click.option("--force", is_flag=True, help="Replace a profile that is there.")
@store_option
@json_option
def command(
    *,
    out: Path,
    templates: tuple[str, ...],
    budget: Fraction | None,
    principal: str,
    values: str | None,
    identifiers: str | None,
    force: bool,
    url: str,
    as_json: bool,
) -> None:
    """Write a first profile, noise its values into the vault, and say how to use it.

    Asks for what is not given, on a terminal. Values are never taken from the command line.

    \b
    Examples:
      rootguard init
      rootguard init --template fib4 --budget 0.9 --values me-values.toml
      rootguard init --template fib4 --template homa --out agent.toml --json
    """
    if out.exists() and not force:
        raise ProfileError(str(out), "", "is there already", "use --force or another --out")
    if not out.parent.is_dir():
        raise ProfileError(str(out), "", "its folder is not there", "make it, or use another --out")
    asking = sys.stdin.isatty() and not as_json
    chosen = _templates(templates, asking=asking)
    warnings = shared_warnings(chosen)
    if not as_json:
        print_warnings(warnings)  # before values are asked for: afterwards both are noised
    total = budget if budget is not None else _budget(chosen, asking=asking)
    names = _entries(templates, out) or [template.name for template in chosen]
    head = _head(names, total, principal, _store(url, out))
    person = _begin(head, chosen, values, identifiers, asking=asking, out=out)
    noised = tuple(root for root in person.roots if person.known(root))
    if as_json:
        write_json(
            {
                "profile": str(out),
                "templates": [template.name for template in chosen],
                "budget": float(total),
                "store": _without_password(url),
                "noised": list(noised),
                "warnings": warnings,
                "mcp": _mcp(out),
                "gateway": _gateway(out),
            }
        )
        return
    _print(out, chosen, total, noised)


@shielded
def _begin(
    head: str,
    templates: "list[Template]",
    values: str | None,
    identifiers: str | None,
    *,
    asking: bool,
    out: Path,
) -> "Person":
    """Read or ask for what is private, noise the values into the vault, then write the profile.

    In this order: a profile is there only once its values were taken. The vault is opened at the
    address that the profile names, so that it is the one that is opened with the profile later.
    """
    from rootguard.session import Person, parse_profile
    from rootguard.vault import open_store

    known = read_table(values) if values else _ask_values(templates) if asking else {}
    named = read_table(identifiers) if identifiers else _ask_identifiers() if asking else {}
    private = _section("identifiers", named)
    profile = parse_profile(head + private + _section("values", known), file=str(out))
    store = open_store(profile.store or "", create=True)
    person = Person.open(profile, store=store, on_clamp=tell_owner)
    vault = store.vault_id
    _write(out, head + (f"vault = {_quoted(vault)}\n" if vault else "") + private)
    return person


def _store(url: str, out: Path) -> str:
    """A store's address as the profile names it: a relative file by its path from the profile.

    So the profile finds its vault wherever it is started, and if both are moved together.
    """
    path = url.removeprefix("sqlite:///")
    if path in {url, ""} or Path(path).is_absolute():
        return url
    path = str(Path(path).parent.resolve() / Path(path).name)
    with suppress(ValueError):  # on Windows: there is no way from one drive to another
        return f"sqlite:///{Path(os.path.relpath(path, out.resolve().parent)).as_posix()}"
    return f"sqlite:///{path}"


def _entries(given: tuple[str, ...], out: Path) -> list[str]:
    """Templates as the profile names them: files by their path from the profile's folder."""
    folder = out.resolve().parent
    return [
        Path(os.path.relpath(name, folder)).as_posix() if Path(name).suffix == ".toml" else name
        for name in dict.fromkeys(given)
    ]


def _templates(given: tuple[str, ...], *, asking: bool) -> "list[Template]":
    from rootguard.template import catalog, load_template

    if given:
        return [load_template(name) for name in dict.fromkeys(given)]
    if not asking:
        raise click.UsageError(
            "say what is calculated: --template NAME (see `rootguard templates`)"
        )
    listed = catalog()
    console().print(
        table("templates", ("name", "title"), [(n, load_template(n).title) for n in listed])
    )
    answer = click.prompt("Which of them? Names, separated by spaces")
    return [load_template(name) for name in dict.fromkeys(answer.replace(",", " ").split())]


def _budget(templates: "list[Template]", *, asking: bool) -> Fraction:
    from rootguard.graph import Graph

    most = max(len(Graph.of(template).roots) for template in templates)
    offered = _PER_ROOT * most
    if not asking:
        return offered
    console().print(
        "The budget limits how much can ever become known of your values. A tenth of it makes "
        "everything about ten times as noisy; `rootguard explain TEMPLATE` shows what that means."
    )
    for template in templates:
        console().print(_expected(template, offered))
    typed: Fraction | float = click.prompt(
        "Budget", default=str(float(offered)), type=EpsilonType()
    )
    return Fraction(typed)


def _expected(template: "Template", budget: Fraction) -> str:
    """What a plan under this budget means for one template, in a sentence."""
    from rootguard.allocation import remarks
    from rootguard.calibration import make_plan
    from rootguard.cli.plan import error_text

    try:
        plan = make_plan(template, budget)
    except BudgetError as refusal:
        return f"{template.name}: {refusal}"
    parts = [
        f"{share.root} {'' if not share.type.on_a_line or share.public else '± '}"
        f"{error_text(share, template.roots[share.root].unit)}"
        for share in plan.shares
    ]
    said = f"{template.name} with a budget of {float(budget):g}: average error {', '.join(parts)}."
    return " ".join([said, *(f"{remark}." for remark in remarks(plan))])


def _ask_values(templates: "list[Template]") -> dict[str, object]:
    """Ask for each root, unseen; an empty answer leaves it for its first mention in a text."""
    from rootguard.graph import Graph

    console().print(
        "Enter your values (they are not shown). Press Enter to skip one: it is noised when it is "
        "first mentioned."
    )
    answers: dict[str, object] = {}
    for template in templates:
        for root in Graph.of(template).roots:
            if root in answers:
                continue
            unit = template.roots[root].unit
            typed = click.prompt(
                f"{root} [{unit}]", default="", hide_input=True, show_default=False
            )
            number_typed = None
            with suppress(ValueError):
                number_typed = float(typed)
            if number_typed is not None:
                answers[str(root)] = number_typed
            elif typed:
                console().print(f"{root} is not a number and is left out")
    return answers


def _ask_identifiers() -> dict[str, object]:
    console().print("Enter identifiers that must not leave. Press Enter to skip one.")
    answers: dict[str, object] = {}
    for name in ("name", "email", "phone", "record"):
        typed = click.prompt(name, default="", show_default=False)
        if typed:
            answers[name] = typed
    return answers


def _head(templates: list[str], budget: Fraction, principal: str, url: str) -> str:
    """A profile's choices, which are public."""
    lines = [
        f"principal = {_quoted(principal)}",
        f"templates = {_quoted(templates)}",
        f'budget = "{float(budget)!r}"',
        f"store = {_quoted(url)}",
    ]
    return "\n".join(lines) + "\n"


def _section(name: str, content: Mapping[str, object]) -> str:
    """A TOML table; JSON's texts and numbers are TOML's too."""
    if not content:
        return ""
    lines = [f"{_quoted(key)} = {_quoted(value)}" for key, value in content.items()]
    return f"\n[{name}]\n" + "\n".join(lines) + "\n"


def _quoted(value: object) -> str:
    # JSON may hold a bare DEL, TOML may not.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _write(path: Path, text: str) -> None:
    """Readable by its owner alone, and whole or not at all."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    # Made with its mode, so that nobody else can read it even for a moment, and O_EXCL, so that a
    # link that somebody put there is not followed.
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    draft.replace(path)


def _mcp(path: Path) -> dict[str, object]:
    arguments = ["mcp", "serve", "--profile", str(path.resolve())]
    return {"mcpServers": {"me": {"command": "rootguard", "args": arguments}}}


def _gateway(path: Path) -> list[str]:
    return [
        f"rootguard gateway --profile {path} --upstream https://api.openai.com/v1",
        "export OPENAI_BASE_URL=http://127.0.0.1:8791/v1",
    ]


def _without_password(url: str) -> str:
    return url if url.startswith(("sqlite:", "memory:")) else url.split(":", 1)[0] + "://…"


def _print(
    out: Path, templates: "list[Template]", budget: Fraction, noised: tuple[str, ...]
) -> None:
    screen = console()
    screen.print(f"Wrote {out}, readable by you alone.", markup=False)
    if noised:
        screen.print(f"Noised once and kept in the vault: {', '.join(noised)}.", markup=False)
    for template in templates:
        screen.print(_expected(template, budget), markup=False)
    screen.print("\nFor an MCP client:")
    click.echo(json.dumps(_mcp(out), indent=2))
    screen.print("\nFor a chat API:")
    for line in _gateway(out):
        click.echo(line)
