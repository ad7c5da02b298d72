"""Options that several commands share, and how private values come in.

Values come from a file, standard input or a hidden prompt, never from the command line: arguments
are visible to other users of the machine and stay in the shell's history.
"""

import json
import os
import sys
import tomllib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

import click
from click.shell_completion import CompletionItem

from rootguard.errors import BudgetError, PrivateValueError
from rootguard.values import LINE_MECHANISMS, AllocationName, Form, RootName, parse_epsilon

if TYPE_CHECKING:
    from rootguard.allocation import Plan
    from rootguard.goals import Goal
    from rootguard.template import Template

_Command = TypeVar("_Command", bound=Callable[..., Any])


class EpsilonType(click.ParamType[Fraction]):
    """An exact privacy parameter: 0.1 is one tenth."""

    name = "number"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Fraction:
        """Read it exactly, or fail as a usage error."""
        if isinstance(value, Fraction):  # click converts what it has converted again
            return value
        try:
            return parse_epsilon(str(value))
        except BudgetError as problem:
            self.fail(str(problem), param, ctx)


class HideType(click.ParamType[tuple[str, str]]):
    """What to hide, and how far: age=5, or ast=10% of a typical value."""

    name = "root=distance"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """The two sides; what they say is checked with the template."""
        if isinstance(value, tuple):
            return value
        root, equals, distance = (part.strip() for part in str(value).partition("="))
        if not (root and equals and distance):
            self.fail("write a value's name and how far to hide it, such as age=5", param, ctx)
        return root, distance


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


template_argument = click.argument("template", type=TemplateType(), metavar="TEMPLATE")
population_option = click.option(
    "--population",
    "people",
    default="general",
    show_default=True,
    metavar="NAME",
    help="Whose published figures to go by, where the template has others than the general ones. "
    "The same as TEMPLATE@NAME, which a profile may say as well.",
)


def chosen_templates(names: Iterable[str]) -> "tuple[Template, ...]":
    """The templates that a study is asked for, else the paper's eight; no two of one name."""
    from rootguard.advice.people import PAPER_TEMPLATES
    from rootguard.template import load_template

    templates = tuple(load_template(name) for name in tuple(names) or PAPER_TEMPLATES)
    called = [template.name.lower() for template in templates]
    twice = next((name for name in called if called.count(name) > 1), None)
    if twice is not None:
        raise click.UsageError(f"two templates are called {twice}; rows could not be told apart")
    return templates


def shared_warnings(templates: "Iterable[Template]") -> list[str]:
    """A sentence for each quantity that these templates noise under two names."""
    from rootguard.graph import shared_quantities

    return [str(shared) for shared in shared_quantities(templates)]


def print_warnings(warnings: Iterable[str]) -> None:
    """On standard error, a line each."""
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)


def preset_option(
    name: str,
    kind: click.ParamType[Any],
    default: object,
    says: str,
) -> Callable[[_Command], _Command]:
    """An option that has a default, which its help shows."""
    return click.option(name, type=kind, default=default, show_default=True, help=says)


def repeated_option(
    name: str, parameter: str, kind: click.ParamType[Any], metavar: str | None, says: str
) -> Callable[[_Command], _Command]:
    """An option that may be given several times."""
    return click.option(name, parameter, type=kind, multiple=True, metavar=metavar, help=says)


def file_option(name: str, parameter: str, says: str) -> Callable[[_Command], _Command]:
    """An option that names a file."""
    return click.option(name, parameter, type=click.Path(dir_okay=False), help=says)


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
mechanism_option = preset_option(
    "--mechanism", click.Choice(LINE_MECHANISMS), "geometric", "Noise distribution."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanChoice:
    """What was chosen about a plan on the command line."""

    budget: Fraction | None
    epsilon: Fraction | None
    turns: int | None
    mechanism: str
    allocation: AllocationName
    objective: str | None
    hide: tuple[tuple[str, str], ...]
    advantage: Fraction | None

    def check(self) -> None:
        """Refuse two ways at once, or none, as misuse of the command."""
        hidden = bool(self.hide) or self.advantage is not None
        amounts = [each for each in (self.budget, self.epsilon, self.turns) if each is not None]
        if hidden and amounts:
            raise click.UsageError("give --hide or a budget, not both")
        if not hidden and not (
            (self.budget is not None and len(amounts) == 1)
            or (self.budget is None and len(amounts) == 2)
        ):
            raise click.UsageError(
                "say what to hide (--hide age=5), or give --budget, or --epsilon with --turns"
            )
        names = [name for name, _ in self.hide]
        if len(set(names)) < len(names):
            raise click.UsageError("--hide names a value twice; keep one")

    @property
    def hidden(self) -> dict[str, str] | None:
        """What is to be hidden, and how far; None where a budget was given."""
        return dict(self.hide) if self.hide or self.advantage is not None else None

    def terms(self) -> dict[str, Any]:
        """The choices by the names that `Guard.open` has for them."""
        from rootguard.goals import ADVANTAGE

        self.check()
        same = ("budget", "epsilon", "turns", "mechanism", "allocation", "objective")
        chosen = {name: getattr(self, name) for name in same}
        return {**chosen, "hide": self.hidden, "advantage": self.advantage or ADVANTAGE}

    def goals(self, template: "Template") -> "tuple[Goal, ...]":
        """The goal of each root; empty where a budget was given."""
        from rootguard.goals import ADVANTAGE, read_goals

        if self.hidden is None:
            return ()
        return read_goals(template, self.hidden, advantage=self.advantage or ADVANTAGE)

    def plan(self, template: "Template") -> "Plan":
        """The plan that these choices make for a template."""
        from rootguard.allocation import read_budget
        from rootguard.calibration import make_plan
        from rootguard.goals import ADVANTAGE, hiding_plan
        from rootguard.mechanisms import mechanism_named

        self.check()
        if self.hidden is not None:
            return hiding_plan(
                template,
                self.hidden,
                advantage=self.advantage or ADVANTAGE,
                mechanism_name=mechanism_named(self.mechanism),
                objective=self.objective,
            )
        return make_plan(
            template,
            read_budget(total=self.budget, epsilon=self.epsilon, turns=self.turns),
            mechanism_name=mechanism_named(self.mechanism),
            allocation=self.allocation,
            objective=self.objective,
        )


def plan_options(command: _Command) -> _Command:
    """Everything that decides a plan: budget, mechanism, allocation; given as one `choice`."""

    @wraps(command)
    def gathered(*args: Any, **given: Any) -> Any:  # noqa: ANN401 - click's options
        choice = PlanChoice(**{each.name: given.pop(each.name) for each in fields(PlanChoice)})
        return command(*args, choice=choice, **given)

    made = cast("_Command", gathered)
    # The last that is put on is the first in --help: budgets stand before what refines them.
    for option in (
        click.option(
            "--objective",
            metavar="FORMULA",
            help="Be accurate about this formula instead of the template's target.",
        ),
        preset_option(
            "--allocation",
            click.Choice(get_args(AllocationName)),
            "optimal",
            "How the budget is split over the roots.",
        ),
        mechanism_option,
        click.option(
            "--advantage",
            type=EpsilonType(),
            help="With --hide: how much better than chance anybody may tell two people apart who "
            "differ that far, 0 to 1. 0.5 unless given: right three times in four.",
        ),
        click.option(
            "--hide",
            type=HideType(),
            multiple=True,
            metavar="ROOT=DISTANCE",
            help="Hide a value this far, in its unit or in % of a typical value; repeatable. "
            "Values that are not named are hidden as the template advises.",
        ),
        click.option("--turns", type=click.IntRange(min=1), help="Turns, with --epsilon."),
        click.option("--epsilon", type=EpsilonType(), help="Epsilon per turn, with --turns."),
        click.option("--budget", type=EpsilonType(), help="Total epsilon over all roots."),
    ):
        made = option(made)
    return made


calibrate_option = click.option(
    "--calibrate",
    is_flag=True,
    help="Move the answers towards what the template's population makes likely. Costs no privacy; "
    "can cost accuracy for a person unlike the population.",
)


def _default_url() -> str:
    from rootguard.vault import default_url

    return default_url()


def vault_url(given: str | None, profile: str | None) -> str:
    """Where a profile's values are kept: as said on the command line, else as the profile says.

    The environment comes after the profile: a person whose values were kept in one vault must not
    be drawn anew in another because of where a service was started.
    """
    return given or profile or os.environ.get("ROOTGUARD_STORE") or _default_url()


store_option = click.option(
    "--store",
    "url",
    envvar="ROOTGUARD_STORE",
    default=_default_url,
    show_default="a SQLite file in your data directory",
    help="sqlite:///FILE, postgresql://… or memory:",
)
principal_option = click.option(
    "--principal", default="owner", show_default=True, help="Whose values are meant."
)


def read_values(source: str | None, template: "Template") -> dict[str, Form]:
    """A person's values, as the option --values says."""
    return _ask(template) if source is None else read_table(source)


def tell_owner(roots: tuple[RootName, ...]) -> None:
    """Say that values were clamped, on standard error."""
    click.echo(
        f"note, for you alone: outside the public bounds, taken as the bound: {', '.join(roots)}",
        err=True,
    )


def _ask(template: "Template") -> dict[str, Form]:
    """Ask for each root on the terminal, without echo."""
    from rootguard.graph import Graph

    if not sys.stdin.isatty():
        raise PrivateValueError(
            "no values; give --values FILE (- is standard input) for", (template.name,)
        )
    found: dict[str, Form] = {}
    for root in (template.roots[name] for name in Graph.of(template).roots):
        wanted = root.unit if root.type.plain else root.type.wanted.rstrip(",")
        asked = f"{root.label} [{wanted}]"
        if root.type.name in ("number", "count"):
            found[root.name] = click.prompt(asked, type=float, hide_input=True)
        else:
            found[root.name] = click.prompt(asked, type=str, hide_input=True)
    return found


def root_titles() -> dict[str, str]:
    """What people call each root of the catalog, with its name: Platelets (plt).

    For what is shown without a template at hand; a root of one's own template has its name alone.
    """
    from rootguard.template import catalog, load_template

    return {
        name: f"{root.label} ({name})"
        for each in catalog()
        for name, root in load_template(each).roots.items()
    }


def read_table(source: str) -> dict[str, Form]:
    """A flat table of values from TOML or JSON; a profile is told from one."""
    content = read_private(source)
    if "templates" in content:
        del content
        problem = "this is a profile, not a table of root = number; its values are in its vault"
        raise PrivateValueError(problem, (source,))
    return content


def read_private(source: str) -> dict[str, Any]:
    """A table from TOML or JSON. What is wrong is said without quoting it.

    Errors are raised after their handlers have ended: a decoder's own error holds the document.
    """
    text, content = None, None  # so that a handler that ends early leaves nothing undefined
    with suppress(OSError, UnicodeDecodeError):
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    if text is None:
        raise PrivateValueError("cannot be read", (source,))
    try:  # either first: no JSON object is TOML as well
        content = json.loads(text)
    except ValueError:
        with suppress(ValueError):
            content = tomllib.loads(text)
    del text
    if not isinstance(content, dict):
        del content
        raise PrivateValueError("not a TOML or JSON table of root = number", (source,))
    return content
