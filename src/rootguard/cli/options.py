"""Options that several commands share."""

import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar, get_args

import click
from click.shell_completion import CompletionItem

from rootguard.errors import BudgetError
from rootguard.values import AllocationName, MechanismName, parse_epsilon

_Command = TypeVar("_Command", bound=Callable[..., Any])


class EpsilonType(click.ParamType[Fraction]):
    """An exact privacy parameter: 0.1 is one tenth."""

    name = "number"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Fraction:
        """Read it exactly, or fail as a usage error."""
        if isinstance(value, Fraction):
            return value
        try:
            return parse_epsilon(str(value))
        except BudgetError as problem:
            self.fail(str(problem), param, ctx)


class TemplateType(click.ParamType[str]):
    """A catalog name, completed by the shell, or the path of a TOML file."""

    name = "template"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Catalog names that start as typed; paths by the shell itself."""
        from rootguard.template import catalog

        names = [CompletionItem(name) for name in catalog() if name.startswith(incomplete)]
        return names or [CompletionItem(incomplete, type="file")]


def template_argument(command: _Command) -> _Command:
    """The template a command works on."""
    return click.argument("template", type=TemplateType(), metavar="TEMPLATE")(command)


def json_option(command: _Command) -> _Command:
    """Machine-readable output."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def mechanism_option(command: _Command) -> _Command:
    """Which noise."""
    return click.option(
        "--mechanism",
        type=click.Choice(get_args(MechanismName)),
        default="geometric",
        show_default=True,
        help="Noise distribution.",
    )(command)


def plan_options(command: _Command) -> _Command:
    """Everything that decides a plan: budget, mechanism, allocation."""
    for option in (
        click.option(
            "--objective",
            metavar="FORMULA",
            help="Be accurate about this formula instead of the template's target.",
        ),
        click.option(
            "--allocation",
            type=click.Choice(get_args(AllocationName)),
            default="optimal",
            show_default=True,
            help="How the budget is split over the roots.",
        ),
        mechanism_option,
        click.option("--turns", type=click.IntRange(min=1), help="Turns, with --epsilon."),
        click.option("--epsilon", type=EpsilonType(), help="Epsilon per turn, with --turns."),
        click.option("--budget", type=EpsilonType(), help="Total epsilon over all roots."),
    ):
        command = option(command)
    return command


def _default_url() -> str:
    from rootguard.store import default_url

    return default_url()


def vault_url(given: str | None, profile: str | None) -> str:
    """Where a profile's values are kept: as said on the command line, else as the profile says.

    The environment comes after the profile: a person whose values were kept in one vault must not
    be drawn anew in another because of where a service was started.
    """
    return given or profile or os.environ.get("ROOTGUARD_STORE") or _default_url()


def store_option(command: _Command) -> _Command:
    """Which store."""
    return click.option(
        "--store",
        "url",
        envvar="ROOTGUARD_STORE",
        default=_default_url,
        show_default="a SQLite file in your data directory",
        help="sqlite:///FILE, postgresql://… or memory:",
    )(command)


def principal_option(command: _Command) -> _Command:
    """Whose values."""
    return click.option(
        "--principal", default="owner", show_default=True, help="Whose values are meant."
    )(command)
