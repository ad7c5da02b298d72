"""`rootguard init`: a first profile, in a minute, that forgives a slip.

What is out of bounds, no number or no name is asked for again, and nothing is drawn until the
summary is confirmed. Values are then noised and kept in the vault; the profile that is written
holds none of them. It does hold identifiers, which have to be found in texts again, so only its
owner may read it.

A value that was mistyped and confirmed can be entered again with `--force`. As long as nothing was
released, that costs nothing: the first draw was shown to nobody and is thrown away unread, so all
that anybody will ever see is the second one, and its price is the whole price. It would not be so
if the owner looked at the noised value and then decided; nothing here shows it.
"""

import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rootguard.cli.options import (
    EpsilonType,
    HideType,
    TemplateType,
    json_option,
    print_warnings,
    read_private,
    repeated_option,
    shared_warnings,
    store_option,
    tell_owner,
)
from rootguard.cli.output import EXIT_CODES, console, table, write_json
from rootguard.errors import BudgetError, PrivateValueError, ProfileError, RootGuardError, shielded

if TYPE_CHECKING:
    from rootguard.allocation import Plan
    from rootguard.session import Person
    from rootguard.template import Root, Template
    from rootguard.values import RootName

_IDENTIFIERS: Mapping[str, tuple[str, Callable[[str], bool]]] = {
    # What each is, and what passes for one. A slip is asked for again: a number is no name.
    "name": (
        "a name has letters and no digits, such as Jane Roe",
        lambda text: sum(map(str.isalpha, text)) >= 2 and not any(map(str.isdigit, text)),
    ),
    "email": (
        "an e-mail address has an @ and a dot, such as jane@example.org",
        lambda text: "." in text.partition("@")[2] and " " not in text and text[:1] != "@",
    ),
    "phone": (
        "a telephone number has at least six digits",
        lambda text: (
            sum(map(str.isdigit, text)) >= 6 and all(c.isdigit() or c in " +-/().x" for c in text)
        ),
    ),
    "record": (
        "a record number has at least four letters or digits, and a digit",
        lambda text: sum(map(str.isalnum, text)) >= 4 and any(map(str.isdigit, text)),
    ),
}
_FROM_KEYS = ("templates", "hide", "advantage", "values", "identifiers")
_STOP = "stop"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entered:
    """What the owner gave so far. Who holds it holds private things; `_begin` is shielded."""

    values: dict[str, object] = field(default_factory=dict, repr=False)
    identifiers: dict[str, object] = field(default_factory=dict, repr=False)


@click.command("init", epilog=EXIT_CODES)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("me.toml"),
    show_default=True,
    help="Where the profile is written; its policy goes beside it.",
)
@repeated_option(
    "--template",
    "templates",
    TemplateType(),
    "NAME_OR_FILE",
    "What is calculated from your values; repeatable. Asked for when left out.",
)
@repeated_option(
    "--hide",
    "hide",
    HideType(),
    "ROOT=DISTANCE",
    "Hide a value this far, in its unit or in %; repeatable. Asked for when left out.",
)
@click.option("--advantage", type=EpsilonType(), help="As in `rootguard plan`; 0.5 unless given.")
@click.option(
    "--budget", type=EpsilonType(), help="Total epsilon of each template, in place of --hide."
)
@click.option(
    "--service",
    "services",
    multiple=True,
    metavar="NAME",
    help="A service that may ask for everything; written into the policy; repeatable.",
)
@click.option("--principal", default="owner", show_default=True, help="Whose values they are.")
@click.option(
    "--from",
    "source",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="TOML or JSON file with templates, [hide], [values] and [identifiers]; nothing is asked.",
)
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
@click.option(
    "--clamp",
    is_flag=True,
    help="Replace a value outside its public bounds by the nearest bound; else it is refused.",
)
@click.option("--force", is_flag=True, help="Replace a profile that is there.")
@store_option
@json_option
def command(
    *,
    out: Path,
    templates: tuple[str, ...],
    hide: tuple[tuple[str, str], ...],
    advantage: Fraction | None,
    budget: Fraction | None,
    services: tuple[str, ...],
    principal: str,
    source: str | None,
    values: str | None,
    identifiers: str | None,
    clamp: bool,
    force: bool,
    url: str,
    as_json: bool,
) -> None:
    """Write a first profile and its policy, noise your values into the vault, and say how to go on.

    Asks for what is not given, on a terminal, and asks again where something cannot be right.
    Nothing is noised until you confirm. Values are never taken from the command line. Until
    something was released, --force replaces a mistyped value at no cost.

    \b
    Examples:
      rootguard init
      rootguard init --template fib4 --hide age=5 --values values.toml
      rootguard init --from mine.toml --service clinic --json
    """
    if budget is not None and (hide or advantage is not None):
        raise click.UsageError("give --hide or --budget, not both")
    if source and (values or identifiers):
        raise click.UsageError("give --from, or --values and --identifiers")
    policy = out.with_name(f"{out.stem}-policy.toml")
    for path in (out, policy):
        if path.exists() and not force:
            raise ProfileError(str(path), "", "is there already", "use --force or another --out")
    if not out.parent.is_dir():
        raise ProfileError(str(out), "", "its folder is not there", "make it, or use another --out")
    given = _read_from(source) if source else {}
    templates = templates or tuple(given.get("templates", ()))
    asking = sys.stdin.isatty() and not as_json and not source
    chosen = _templates(templates, asking=asking)
    warnings = shared_warnings(chosen)
    if not as_json:
        print_warnings(warnings)  # before values are asked for: afterwards both are noised
    wanted = {**given.get("hide", {}), **dict(hide)}
    goals = None if budget is not None else _goals(chosen, wanted, asking=asking and not hide)
    most = advantage if advantage is not None else given.get("advantage")
    setup = _Setup(
        out=out,
        policy=policy,
        chosen=chosen,
        names=_entries(templates, out) or [template.name for template in chosen],
        principal=principal,
        store=_store(url, out),
        budget=budget,
        goals=goals,
        advantage=most,
        services=services,
    )
    setup.plans()  # refuse what cannot be planned before anything private is asked for
    if not as_json:
        _print_costs(setup)  # while the goals can still be chosen otherwise
    person, replaced = _begin(setup, given, values, identifiers, asking=asking, clamp=clamp)
    noised = tuple(root for root in person.roots if person.known(root))
    plans = setup.plans()
    if as_json:
        write_json(
            {
                "profile": str(out),
                "policy": None if setup.policy_text() is None else str(policy),
                "templates": [template.name for template in chosen],
                "hide": setup.distances() or None,
                "budget": float(sum((plan.budget for plan in plans), Fraction(0))),
                "store": _without_password(url),
                "noised": list(noised),
                "replaced_unseen": replaced,
                "warnings": warnings,
                "mcp": _mcp(setup),
                "gateway": _gateway(out),
            }
        )
        return
    _print(setup, noised, replaced=replaced)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Setup:
    """Everything public that was chosen."""

    out: Path
    policy: Path
    chosen: "list[Template]"
    names: list[str]
    principal: str
    store: str
    budget: Fraction | None
    goals: dict[str, str] | None
    advantage: object
    services: tuple[str, ...]

    def plans(self) -> "list[Plan]":
        """The plan of each template."""
        from rootguard.calibration import make_plan
        from rootguard.goals import ADVANTAGE, hiding_plan

        if self.budget is not None:
            return [make_plan(template, self.budget) for template in self.chosen]
        most = ADVANTAGE if self.advantage is None else str(self.advantage)
        return [
            hiding_plan(template, _own(template, self.goals or {}), advantage=most)
            for template in self.chosen
        ]

    def distances(self) -> dict[str, str]:
        """How far each root is hidden, as written into the profile; empty under a budget."""
        return dict(self.goals or {})

    def head(self, vault: str | None = None) -> str:
        """A profile's choices, which are public."""
        lines = [
            f"principal = {_quoted(self.principal)}",
            f"templates = {_quoted(self.names)}",
            f"store = {_quoted(self.store)}",
        ]
        if self.policy_text() is not None:
            lines.append(f"policy = {_quoted(self.policy.name)}")
        elif self.budget is not None:
            lines.append(f'budget = "{float(self.budget)!r}"')
        if vault:
            lines.append(f"vault = {_quoted(vault)}")
        if self.goals is not None and self.advantage is not None:
            lines.append(f"advantage = {float(Fraction(str(self.advantage)))!r}")
        return "\n".join(lines) + "\n" + self._hide_table()

    def _hide_table(self) -> str:
        if self.goals is None:
            return ""
        lines = ["", "[hide]  # two people this far apart are not told apart; see docs/epsilon.md"]
        roots = {root: each for template in self.chosen for root, each in template.roots.items()}
        for name, distance in self.goals.items():
            root = next(each for key, each in roots.items() if key == name)
            unit = f", {root.unit}" if root.unit and not distance.endswith("%") else ""
            shown = _quoted(distance) if distance.endswith("%") else distance
            lines.append(f"{name} = {shown}  # {root.label}{unit}")
        return "\n".join(lines) + "\n"

    def policy_text(self) -> str | None:
        """Who may ask what; None where a budget stands in the profile and no service is named."""
        if self.budget is not None and not self.services:
            return None
        total = self.budget or self._total()
        lines = [
            "# Who may ask for your noised values. A service that is not listed gets nothing.",
            "# A poorer tier gets the same values with more noise.",
            "",
            "[tiers.trusted]",
            f'budget = "{_exact(total)}"  # all that your goals allow',
            "",
            "[tiers.careful]",
            f'budget = "{_exact(total / 4)}"  # a quarter of it: about four times the noise',
            "",
        ]
        for service in self.services:
            lines += [
                f"[services.{_quoted(service)}]",
                'tier = "trusted"',
                'roots = "*"  # or a list such as ["age"]',
                'formulas = "*"  # any formula of these, or a list',
                "",
            ]
        if not self.services:
            lines += [
                "# To let a service ask, take away the # signs and name it:",
                "# [services.clinic]",
                '# tier = "trusted"',
                '# roots = "*"',
                '# formulas = "*"',
                "",
            ]
        return "\n".join(lines)

    def _total(self) -> Fraction:
        """What all goals come to; a root of several templates is drawn once."""
        drawn: dict[RootName, Fraction] = {}
        for plan in self.plans():
            for share in plan.shares:
                drawn.setdefault(share.root, share.epsilon)
        return sum(drawn.values(), Fraction(0))


def _exact(amount: Fraction) -> str:
    """Whole micro-epsilon, rounded down, as a decimal number."""
    return f"{math.floor(amount * 1_000_000) / 1_000_000:f}".rstrip("0")


def _own(template: "Template", goals: Mapping[str, str]) -> dict[str, str]:
    return {root: distance for root, distance in goals.items() if root in template.roots}


@shielded
def _begin(
    setup: _Setup,
    given: Mapping[str, Any],
    values: str | None,
    identifiers: str | None,
    *,
    asking: bool,
    clamp: bool,
) -> "tuple[Person, bool]":
    """Read or ask for what is private, noise the values into the vault, then write the profile.

    In this order: a profile is there only once its values were taken. The vault is opened at the
    address that the profile names, so that it is the one that is opened with the profile later.
    """
    from rootguard.session import Person, parse_profile
    from rootguard.session.changes import forget_unseen
    from rootguard.session.profile import write_private
    from rootguard.values import Principal
    from rootguard.vault import open_store

    known = read_private(values) if values else given.get("values", {})
    named = read_private(identifiers) if identifiers else given.get("identifiers", {})
    entered = _Entered(values=dict(known), identifiers=dict(named))
    if asking:
        _fill_in(setup.chosen, entered, ask_values=not values, ask_names=not identifiers)
    elif not clamp:
        _refuse_outside(setup.chosen, entered.values)
    private = _section("identifiers", entered.identifiers)
    text = setup.policy_text()
    if text is not None:
        write_private(setup.policy, text)
    profile = parse_profile(
        setup.head() + private + _section("values", entered.values), file=str(setup.out)
    )
    store = open_store(profile.store or "", create=True)
    replaced = bool(entered.values) and forget_unseen(store, Principal(setup.principal))
    person = Person.open(profile, store=store, on_clamp=tell_owner)
    write_private(setup.out, setup.head(store.vault_id) + private)
    return person, replaced


def _fill_in(
    templates: "list[Template]", entered: _Entered, *, ask_values: bool, ask_names: bool
) -> None:
    """Ask for what is private until the owner confirms it; nothing is drawn before."""
    roots = _noised(templates)
    if ask_values:
        console().print(
            "\nEnter your values (they are not shown). Press Enter to skip a value: it is noised "
            "when it is first mentioned."
        )
        for root in roots.values():
            _ask_value(root, entered.values)
    if ask_names:
        console().print("\nEnter identifiers that must not leave. Press Enter to skip one.")
        for name in _IDENTIFIERS:
            _ask_identifier(name, entered.identifiers)
    while True:
        _summary(roots, entered)
        answer = click.prompt(
            "Press Enter to noise these values now, or type a name from the table to correct it "
            f"({_STOP!r} ends without noising anything)",
            default="",
            show_default=False,
        ).strip()
        if not answer:
            return
        if answer == _STOP:
            raise click.Abort
        called = _called(answer, roots)
        if called in roots:
            _ask_value(roots[called], entered.values)
        elif answer in _IDENTIFIERS:
            _ask_identifier(answer, entered.identifiers)
        else:
            click.echo("Nothing in the table is called that.")


def _called(answer: str, roots: "Mapping[str, Root]") -> str:
    wanted = answer.casefold()
    for name, root in roots.items():
        if wanted in {name.casefold(), root.label.casefold()}:
            return name
    return ""


def _noised(templates: "list[Template]") -> "dict[str, Root]":
    from rootguard.graph import Graph

    found: dict[str, Root] = {}
    for template in templates:
        for root in Graph.of(template).roots:
            found.setdefault(str(root), template.roots[root])
    return found


def _ask_value(root: "Root", answers: dict[str, object]) -> None:
    """One value, unseen, until it is a number within its bounds, or left out.

    A value that is truly outside, such as an age above the upper bound, is typed twice: it is then
    taken for the bound.
    """
    unit = f" in {root.unit}" if root.unit else ""
    asked = root.label + (unit if root.type.plain else f" ({root.wanted})")
    if root.public:
        asked += " (public: kept as it is)"
    before: float | None = None
    while True:
        typed = click.prompt(asked, default="", hide_input=True, show_default=False).strip()
        if not typed:
            answers.pop(str(root.name), None)
            return
        numeric = root.type.name in ("number", "count")
        value = _number(typed) if numeric else root.type.inside(typed, root.domain)
        if value is not None and numeric:
            value = root.type.inside(value, root.domain)
        if value is None:
            what = "is not a number" if root.type.plain else "cannot be read"
            how = " with digits and a point" if root.type.plain else ""
            click.echo(f"That {what}. Write {root.wanted}{how}.")
        elif root.domain.lower <= value <= root.domain.upper or value == before:
            answers[str(root.name)] = value if numeric else typed
            return
        else:
            console().print(
                f"{root.label} is usually {root.wanted}. Check the unit and type it again; if it "
                "is right, type the same once more and the nearest bound is taken.",
                markup=False,
            )
            before = value


def _number(typed: str) -> float | None:
    with suppress(ValueError):
        value = float(typed)
        return value if math.isfinite(value) else None
    return None


def _ask_identifier(name: str, answers: dict[str, object]) -> None:
    remedy, passes = _IDENTIFIERS[name]
    while True:
        typed = click.prompt(name, default="", show_default=False).strip()
        if not typed:
            answers.pop(name, None)
            return
        if passes(typed):
            answers[name] = typed
            return
        click.echo(f"That cannot be right: {remedy}.")


def _summary(roots: "Mapping[str, Root]", entered: _Entered) -> None:
    """What was entered, without the values: whether each is there, and how usual it is."""
    rows = [
        (f"{root.label} ({name})", _plausibility(root, entered.values.get(name)))
        for name, root in roots.items()
    ]
    rows += [
        (name, "given" if name in entered.identifiers else "left out") for name in _IDENTIFIERS
    ]
    console().print()
    console().print(table("Please check", ("value", "what was entered"), rows))


def _plausibility(root: "Root", value: object) -> str:
    if isinstance(value, str):
        return "given"
    if not isinstance(value, int | float):
        return "left out"
    domain = root.domain
    if not domain.lower <= value <= domain.upper:
        return "given; outside the bounds, so the nearest bound is taken"
    if root.mean is None or root.sd is None:
        return "given; within the bounds"
    if root.median is not None and root.log_sd is not None and value > 0:
        away = abs(math.log(value / root.median)) / root.log_sd
    else:
        away = abs(value - root.mean) / root.sd
    return "given; in the usual range" if away <= 2 else "given; unusual, please check it"


def _refuse_outside(templates: "list[Template]", values: Mapping[str, object]) -> None:
    """Refuse what a person at a terminal would be asked for again. Says names, no values."""
    outside = tuple(
        f"{name} ({root.domain.lower:g} to {root.domain.upper:g})"
        for name, root in _noised(templates).items()
        if type(values.get(name)) in (int, float) and _beyond(root, values[name])
    )
    if outside:
        problem = "outside the public bounds; nothing was noised. Check the unit, or use --clamp"
        raise PrivateValueError(problem, outside)


def _beyond(root: "Root", value: object) -> bool:
    return isinstance(value, int | float) and not root.domain.lower <= value <= root.domain.upper


def _read_from(source: str) -> dict[str, Any]:
    """A file with everything. What is wrong is said without quoting it."""
    content = read_private(source)
    unknown = [key for key in content if key not in _FROM_KEYS]
    sound = (
        not unknown
        and isinstance(content.get("templates", []), list)
        and all(isinstance(each, str) for each in content.get("templates", []))
        and all(isinstance(content.get(key, {}), dict) for key in ("hide", "values", "identifiers"))
    )
    if not sound:
        del content, unknown
        problem = f"keep to {', '.join(_FROM_KEYS)}; values stand under [values]"
        raise ProfileError(source, "", "something else stands in it", problem)
    content["hide"] = {str(root): str(far) for root, far in content.get("hide", {}).items()}
    return content


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
        table(
            "Available templates", ("name", "title"), [(n, load_template(n).title) for n in listed]
        )
    )
    while True:
        answer = click.prompt("Which of them? Names, separated by spaces")
        names = list(dict.fromkeys(answer.replace(",", " ").split()))
        try:
            return [load_template(name) for name in names]
        except RootGuardError as problem:
            click.echo(str(problem))


def _goals(
    templates: "list[Template]", wanted: Mapping[str, str], *, asking: bool
) -> dict[str, str]:
    """How far each root is hidden: as said, else as the template advises, which may be changed."""
    from rootguard.goals import read_goals

    found: dict[str, str] = {}
    for template in templates:
        said = {name: far for name, far in wanted.items() if _names(template, name)}
        for goal in read_goals(template, said):
            text = next(
                (far for name, far in said.items() if template.root(name).name == goal.root),
                f"{goal.distance:.6g}",
            )
            found.setdefault(str(goal.root), text)
    strangers = [name for name in wanted if not any(_names(each, name) for each in templates)]
    if strangers:
        templates[0].root(strangers[0])  # refuses it, and says which there are
    if asking:
        console().print(
            "\nHow far shall each value be hidden? Of two people that far apart nobody picks the "
            "right one more than three times in four, however much they ask. Press Enter to accept."
        )
        for name, root in _noised(templates).items():
            if name in found and root.type.on_a_line:  # public ones are not hidden
                found[name] = _ask_distance(templates, name, root, found[name])
    return found


def _names(template: "Template", name: str) -> bool:
    with suppress(RootGuardError):
        return template.root(name) is not None
    return False


def _ask_distance(templates: "list[Template]", name: str, root: "Root", offered: str) -> str:
    from rootguard.goals import read_goals

    why = f" ({root.hide_because})" if root.hide_because else ""
    unit = f" {root.unit}" if root.unit else ""
    template = next(each for each in templates if name in each.roots)
    while True:
        typed = str(
            click.prompt(f"Hide {root.label} within{unit or ''}{why}", default=offered)
        ).strip()
        try:
            read_goals(template, {name: typed})
        except BudgetError as problem:
            click.echo(f"{problem}.")
        else:
            return typed


def _section(name: str, content: Mapping[str, object]) -> str:
    """A TOML table; JSON's texts and numbers are TOML's too."""
    if not content:
        return ""
    lines = [f"{_quoted(key)} = {_quoted(value)}" for key, value in content.items()]
    return f"\n[{name}]\n" + "\n".join(lines) + "\n"


def _quoted(value: object) -> str:
    # JSON may hold a bare DEL, TOML may not.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _mcp(setup: _Setup) -> dict[str, object]:
    profile = str(setup.out.resolve())
    servers: dict[str, object] = {
        "me": {"command": "rootguard", "args": ["mcp", "serve", "--profile", profile]}
    }
    for service in setup.services:
        guarded = ["mcp", "proxy", "--profile", profile, "--service", service, "--"]
        servers[service] = {"command": "rootguard", "args": [*guarded, f"{service}-mcp-server"]}
    return {"mcpServers": servers}


def _gateway(path: Path) -> list[str]:
    return [
        f"rootguard gateway --profile {path} --upstream https://api.openai.com/v1",
        "export OPENAI_BASE_URL=http://127.0.0.1:8791/v1",
    ]


def _without_password(url: str) -> str:
    return url if url.startswith(("sqlite:", "memory:")) else url.split(":", 1)[0] + "://…"


def _print_costs(setup: _Setup) -> None:
    """What the goals cost in accuracy and class errors, and which make a value useless."""
    from rootguard.advice.costs import plan_cost
    from rootguard.cli.plan import cost_sentences
    from rootguard.goals import ADVANTAGE, read_goals

    if setup.goals is None:
        return
    most = ADVANTAGE if setup.advantage is None else Fraction(str(setup.advantage))
    for template, plan in zip(setup.chosen, setup.plans(), strict=True):
        goals = read_goals(template, _own(template, setup.goals), advantage=most)
        sentences = cost_sentences(template, plan, goals, plan_cost(template, plan))
        console().print(f"\n{template.title}. {' '.join(sentences)}", markup=False)


def _print(setup: _Setup, noised: tuple[str, ...], *, replaced: bool) -> None:
    from rootguard.allocation import remarks
    from rootguard.cli.plan import error_text

    screen = console()
    screen.print(f"\nWrote {setup.out}, readable by you alone.", markup=False)
    if setup.policy_text() is not None:
        said = ", ".join(setup.services) or "nobody yet"
        screen.print(f"Wrote {setup.policy}: who may ask ({said}).", markup=False)
    if replaced:
        screen.print("Nothing had been released, so the earlier draw was replaced at no cost.")
    if noised:
        titles = {root: each.label for t in setup.chosen for root, each in t.roots.items()}
        said = ", ".join(label for root, label in titles.items() if root in noised)
        screen.print(f"Noised once and stored in the vault: {said}.", markup=False)
    for template, plan in zip(setup.chosen, setup.plans(), strict=True):
        parts = [
            f"{template.roots[share.root].label} "
            f"{'' if not share.type.on_a_line or share.public else '± '}"
            f"{error_text(share, template.roots[share.root].unit)}"
            for share in plan.shares
        ]
        screen.print(f"{template.title}: average error {', '.join(parts)}.", markup=False)
        for remark in remarks(plan):
            screen.print(f"{remark}.", markup=False)
    screen.print("\nFor an MCP client:")
    click.echo(json.dumps(_mcp(setup), indent=2))
    screen.print("\nFor a chat API:")
    for line in _gateway(setup.out):
        click.echo(line)
