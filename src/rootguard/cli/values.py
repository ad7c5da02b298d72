"""How private values come in: from a file, standard input or a hidden prompt.

Never from the command line: arguments are visible to other users of the machine and stay in the
shell's history.
"""

import json
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

import click

from rootguard.errors import PrivateValueError
from rootguard.graph import Graph
from rootguard.template import Template
from rootguard.values import RootName


def read_values(source: str | None, template: Template) -> dict[str, float]:
    """A person's values, as the option --values says."""
    return _ask(template) if source is None else read_table(source)


def tell_owner(roots: tuple[RootName, ...]) -> None:
    """Say that values were clamped, on standard error."""
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


def read_table(source: str) -> dict[str, float]:
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
