"""How the command line speaks: tables for people on a terminal, JSON for programs."""

import json
from collections.abc import Iterable, Sequence

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

EXIT_OK = 0
EXIT_CHECK_FAILED = 1
EXIT_USAGE = 2
EXIT_REFUSED = 3

EXIT_CODES = (
    "Exit codes: 0 done; 1 a check did not hold; 2 the command was misused; "
    "3 RootGuard refused, with the reason on standard error."
)


def console(*, stderr: bool = False) -> Console:
    """A console that honours NO_COLOR and plain pipes."""
    return Console(stderr=stderr, highlight=False)


def write_json(content: object) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


Cell = str | Text


def table(title: str | None, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Table:
    """A table; columns whose name starts with > are aligned to the right.

    A cell's text is shown as it is: square brackets in a unit are not markup.
    """
    made = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for column in columns:
        made.add_column(column.removeprefix(">"), justify="right" if column[:1] == ">" else "left")
    for row in rows:
        made.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return made


def number(value: float) -> str:
    """Four significant digits, without an exponent where people would not write one."""
    return f"{value:.4g}"
