"""How the command line speaks: tables for people on a terminal, JSON for programs."""

import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

# Stated in the help of every command, so that scripts can rely on them.
EXIT_CHECK_FAILED = 1
EXIT_USAGE = 2
EXIT_REFUSED = 3
EXIT_STOPPED = 130  # as shells have it for a program that Ctrl-C ended
EXIT_UNREAD = 141  # and for one that SIGPIPE ended: what it printed is read no more

EXIT_CODES = (
    "Exit codes: 0 done; 1 a check did not hold; 2 the command was misused, or an extra is "
    "missing; 3 RootGuard refused, with the reason on standard error; 130 stopped with Ctrl-C."
)


class OutputClosedError(Exception):
    """Whoever read the output has gone, as `head` does. No OSError: click would exit with 1."""


def console(*, stderr: bool = False) -> "Console":
    """A console that honours NO_COLOR and plain pipes."""
    from rich.console import Console

    class Pipe(Console):
        def on_broken_pipe(self) -> None:
            raise OutputClosedError

    return Pipe(stderr=stderr, highlight=False)


class MissingExtraError(click.ClickException):
    """A package that this command needs is not installed."""

    exit_code = EXIT_USAGE


def need(extra: str, *modules: str, what: str = "this") -> None:
    """Refuse before any work where an optional package is missing, with the line that brings it."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise MissingExtraError(
            f"{what} needs {', '.join(missing)}; run: pip install 'rootguard[{extra}]'"
        )


def notice(text: str) -> None:
    """A sentence on standard error, for whoever watches."""
    click.echo(f"rootguard: {text}", err=True)


def write_json(content: object) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


Cell: TypeAlias = "str | Text"
Part: TypeAlias = "Table | Text | str"
"""Of what people read. A `str` stands on one line, however long; a `Text` is wrapped."""


def table(
    title: str | None,
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    labels: int | None = None,
) -> "Table":
    """A table; columns whose name starts with > are aligned to the right, or all behind `labels`.

    A cell's text is shown as it is: square brackets in a unit are not markup.
    """
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for place, column in enumerate(columns):
        right = column[:1] == ">" if labels is None else place >= labels
        made.add_column(
            column.removeprefix(">"), justify="right" if right else "left", overflow="fold"
        )
    for row in rows:
        made.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return made


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What a command found: one document for programs, and the parts of it that people read."""

    document: object
    parts: Iterable[Part]
    failed: bool = False
    """Whether a check did not hold."""


def show(result: Result, *, as_json: bool) -> None:
    """Print a result as one JSON document or for people; exit with 1 if a check failed."""
    if as_json:
        write_json(result.document)
    else:
        out = console()
        for part in result.parts:
            out.print(part, markup=False, soft_wrap=isinstance(part, str))
    if result.failed:
        click.get_current_context().exit(EXIT_CHECK_FAILED)


def number(value: float) -> str:
    """Three significant digits, all digits of a larger whole part, and no exponent."""
    if 1000 <= abs(value) < 1e15:
        return f"{value:,.0f}".replace(",", " ") if abs(value) >= 1e4 else f"{value:.0f}"
    return f"{value:.3g}"


@contextmanager
def progress_of_rows(what: str = "rows") -> Iterator[Callable[[str, int, int], None]]:
    """Progress on standard error: what is done, how much, of how much; in a log now and then."""
    err = console(stderr=True)
    if not err.is_terminal:
        yield _Lines(what).tell
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=err, transient=True) as shown:
        task = shown.add_task("reading", total=None)
        yield lambda now, done, total: shown.update(
            task, completed=done, total=total, description=now
        )


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[str], None]]:
    """Progress on standard error; each step says what has been done.

    On a terminal a bar that is gone when it is over, in a log a line now and then.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    out = console(stderr=True)
    if not out.is_terminal:
        lines, done = _Lines(what), itertools.count(1)
        yield lambda just_done: lines.tell(just_done, next(done), total)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=out, transient=True) as shown:
        task = shown.add_task(what, total=total)
        yield lambda done: shown.update(task, advance=1, description=done)


PATIENCE = 5.0
"""Seconds between two lines of progress where there is no terminal."""


class _Lines:
    """Progress as lines on standard error, far apart."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._said = time.monotonic()

    def tell(self, now: str, done: int, total: int) -> None:
        if time.monotonic() - self._said >= PATIENCE:
            at = "" if now == self._what else f": {now}"
            notice(f"{done} of {total} {self._what}{at}")
            self._said = time.monotonic()
