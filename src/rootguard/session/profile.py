"""A person's profile: which templates, at which budget, and the private values and identifiers.

A profile is a TOML file that its owner writes and nobody else reads. What is private in it is
sealed as soon as it is read. A mistake is reported with file, key and remedy, and never with what
is written there.

    templates = ["fib4", "homa"]        # catalog names, or paths of template files
    advantage = 0.5                     # with [hide]: what anybody may gain in telling two apart
    budget = "0.9"                      # in place of [hide]; [budgets] fib4 = "0.9" for one of them
    principal = "owner"                 # and, if need be: mechanism, allocation, calibrate, store
    on_change = "draw"                  # a changed value is noised anew, or "keep" what was noised
    lifetime = 10                       # a root may cost so many times its first price in all
    vault = "…"                         # the id of the store: another one is refused, none is made
    anchor = "vault.anchor"             # a file that shows whether the store was put back
    on_doubt = "redact"                 # a doubtful number in a text becomes [number]; or "refuse"
    unknown_fields = "refuse"           # of a request to the gateway; or "drop", or "pass"
    policy = "policy.toml"              # without [hide] its richest tier is the budget

    [hide]                              # two people so far apart shall not be told apart
    age = 5                             # in the root's unit, or "10%" of a typical value; a root
                                        # left out is hidden as far as its template advises

    public = ["female"]                 # roots that need not be hidden: released as they are

    [values]                            # a root left out is noised when you first write it
    age = 50

    [identifiers]
    name = "Jane Roe"

    [detection]                         # identifiers that nobody declared
    detectors = ["rules", "presidio"]   # or "spacy"; with a pipeline: "spacy:en_core_web_lg"
    kinds = ["person", "email"]         # in place of all
    allow = ["Ada Lovelace"]            # never taken for an identifier

Paths, that of an SQLite store too, are relative to the folder of the profile.
"""

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeVar, get_args

from rootguard.allocation import Plan, scaled
from rootguard.calibration import make_plan
from rootguard.errors import BudgetError, ProfileError, UnknownNameError, shielded
from rootguard.expressions import to_text
from rootguard.goals import Distance, hiding_plan
from rootguard.graph import Graph
from rootguard.sanitizer import seal
from rootguard.session.policy import Policy, load_policy
from rootguard.template import Root, Template, catalog, load_template
from rootguard.values import (
    LINE_MECHANISMS,
    AllocationName,
    MechanismName,
    Principal,
    Raw,
    RootName,
    Unserializable,
    parse_epsilon,
)

MAX_BYTES = 1024 * 1024  # a profile is written by hand; a larger file is the wrong one
_KEYS = (
    *("allocation", "budget", "budgets", "calibrate", "identifiers", "lifetime", "mechanism"),
    *("on_change", "policy", "principal", "store", "templates", "values", "vault", "anchor"),
    *("on_doubt", "unknown_fields", "detection", "hide", "advantage", "public"),
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_TABLE = re.compile(r"\s*\[+\s*([\w.-]+)\s*\]")
_REPLACED = re.compile(r"\s*(budget|allocation)\s*=")
_VAULT = re.compile(r"[0-9a-f]{32}")
_PLACE = re.compile(r"at (line \d+, column \d+|end of document)\)\Z")


OnChange = Literal["draw", "keep", "ask", "drift", "daily"]
"""What becomes of a value that is not the one that was noised: another draw; or it is ignored; or
it is refused with its price; or it is followed (`session.series`)."""

OnDoubt = Literal["refuse", "redact"]
"""What becomes of a text with a number in doubt: it is not sent, or the number is taken out."""

UnknownFields = Literal["refuse", "drop", "pass"]
"""What becomes of a field that the gateway does not know: the request is refused, or goes without
it, or with it as far as it could be read."""

_Name = TypeVar("_Name", MechanismName, AllocationName, OnChange, OnDoubt, UnknownFields)


@dataclass(frozen=True, kw_only=True, slots=True)
class DetectionChoice:
    """What is looked for in texts: which detectors and kinds (None: the usual), what is let go."""

    detectors: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    allow: tuple[str, ...] = field(default=(), repr=False)


class Texts(Unserializable):
    """Declared identifiers by name, sealed: the texts sit in a closure and have no other form."""

    __slots__ = ("_open", "names")

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.names = tuple(texts)
        self._open = _seal(dict(texts))

    def open(self) -> dict[str, str]:
        """The texts, for the one who issues tokens for them. Keep them in no variable."""
        return dict(self._open())

    def __repr__(self) -> str:
        return "<identifiers>"


def _seal(texts: dict[str, str]) -> Callable[[], dict[str, str]]:
    return lambda: texts


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """One person's choices (public) and declarations (sealed). `store` may hold a password."""

    principal: Principal
    templates: tuple[Template, ...] = field(repr=False)
    budgets: Mapping[str, Fraction]
    mechanism: MechanismName
    allocation: AllocationName
    calibrate: bool
    store: str | None = field(repr=False)
    policy: Policy | None = field(repr=False)
    values: Mapping[RootName, Raw]
    identifiers: Texts
    on_change: OnChange | None = None
    lifetime: int | None = None
    vault: str | None = None
    anchor: Path | None = None
    detection: DetectionChoice = field(default_factory=DetectionChoice)
    on_doubt: OnDoubt | None = None
    unknown_fields: UnknownFields | None = None
    goals: Mapping[str, Plan] = field(default_factory=dict, repr=False)
    """By template: the plan that keeps the owner's goals; empty if budgets were given instead."""
    hide: Mapping[str, Distance] = field(default_factory=dict)
    """How far the owner asked to hide roots, by name; a root left out has its template's goal."""
    advantage: str = "0.5"

    def plans(self) -> Iterator[Plan]:
        """The plan of each template, in order; a root is noised under the first that has it."""
        for template in self.templates:
            yield self.plan(template)

    def plan(self, template: Template, budget: Fraction | None = None) -> Plan:
        """A template's plan, at its own budget or another.

        Under goals a smaller budget has coarser values in the same proportions, and a larger one
        is no finer than the goals allow.
        """
        if template.name in self.goals:
            return scaled(self.goals[template.name], budget)
        return make_plan(
            template,
            self.budgets[template.name] if budget is None else budget,
            mechanism_name=self.mechanism,
            allocation=self.allocation,
        )


def load_profile(path: str | os.PathLike[str]) -> Profile:
    """Read a profile file; every mistake is reported with file, key and remedy."""
    return parse_profile(_text_of(path), file=os.fspath(path))


@shielded
def parse_profile(text: str, *, file: str) -> Profile:
    """A profile from TOML text; paths in it are relative to the folder of `file`."""
    return _Reader(text, file).profile()


@shielded
def save_goals(path: str | os.PathLike[str], hide: Mapping[str, float]) -> None:
    """Write these goals into a profile in place of its own goals or budgets, and nothing else.

    A profile that would mean anything else afterwards is left as it is, and its owner told.
    """
    file = os.fspath(path)
    text = _text_of(path)
    changed = _with_goals(text, hide)
    kept = ("hide", "budget", "budgets", "allocation")
    try:
        before, after = tomllib.loads(text), tomllib.loads(changed)
        same = {k: v for k, v in before.items() if k not in kept} == {
            k: v for k, v in after.items() if k not in kept
        }
    except (ValueError, RecursionError):
        same = False
    if not same:
        remedy = "write the goals under [hide] by hand"
        raise ProfileError(file, "hide", "its lines cannot be replaced safely", remedy)
    parse_profile(changed, file=file)  # refuses a goal that cannot be met, before anything changes
    write_private(Path(path), changed)


def _with_goals(text: str, hide: Mapping[str, float]) -> str:
    """The lines of a profile with another [hide], which stands last among the plain tables."""
    lines: list[str] = []
    table = ""
    for line in text.splitlines():
        if found := _TABLE.match(line):
            table = found[1]
        dropped = table in ("hide", "budgets") or (not table and _REPLACED.match(line))
        if not dropped:
            lines.append(line)
    goals = [f"{name} = {distance:.6g}" for name, distance in hide.items()]
    return "\n".join([*lines, "", "[hide]", *goals, ""])


def write_private(path: Path, text: str) -> None:
    """A file that its owner alone can read, whole or not at all."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    # Made with its mode, so that nobody else can read it even for a moment, and O_EXCL, so that a
    # link that somebody put there is not followed.
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    draft.replace(path)


def _text_of(path: str | os.PathLike[str]) -> str:
    """The file's text. What reading raises is dropped: a decoder's error holds the content."""
    content: str | None = None
    try:
        if Path(path).stat().st_size <= MAX_BYTES:
            content = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError):
        content = None
    if content is None:
        if not os.path.exists(path):  # noqa: PTH110 - Path.exists raises where a folder is closed
            remedy = "check the path, or write a first profile with `rootguard init`"
            raise ProfileError(os.fspath(path), "", "there is no such file", remedy)
        remedy = f"check the path and that it is text of up to {MAX_BYTES // 1024} KiB"
        raise ProfileError(os.fspath(path), "", "cannot be read", remedy)
    return content


class _Reader:
    """One profile being read. Its frames hold private things; `parse_profile` is shielded."""

    def __init__(self, text: str, file: str) -> None:
        self._file = file
        self._folder = Path(file).parent
        try:
            self._content = tomllib.loads(text)
        except (ValueError, RecursionError) as problem:
            place = _PLACE.search(str(problem))  # the rest of the message may quote the file
            where = f" at {place[1]}" if place else ""
            raise self._error("", f"not TOML{where}", "correct that place") from None
        self._refuse_unknown("", self._content, _KEYS)

    def profile(self) -> Profile:
        """Everything, in an order in which later parts may rest on earlier ones."""
        templates = self._templates()
        policy = self._policy()
        mechanism = self._choice("mechanism", "geometric", LINE_MECHANISMS)
        if policy is not None and mechanism != "geometric":
            raise self._error("mechanism", "tiers need geometric noise", "leave it out")
        wanted = self._wanted(templates)
        goals = self._goals(templates, mechanism, wanted)
        calibrate = self._content.get("calibrate", False)
        if not isinstance(calibrate, bool):
            raise self._error("calibrate", "neither true nor false", "write true or false")
        return Profile(
            principal=Principal(self._line("principal", "owner")),
            templates=templates,
            budgets=MappingProxyType(
                {name: plan.budget for name, plan in goals.items()}
                or self._budgets(templates, policy)
            ),
            goals=MappingProxyType(goals),
            hide=MappingProxyType(wanted),
            advantage=str(self._content.get("advantage", "0.5")),
            mechanism=mechanism,
            allocation=self._choice("allocation", "optimal", get_args(AllocationName)),
            calibrate=calibrate,
            store=self._store(),
            policy=policy,
            values=MappingProxyType(self._values(templates)),
            identifiers=self._identifiers(templates),
            on_change=self._option("on_change", get_args(OnChange)),
            lifetime=self._lifetime(),
            vault=self._vault(),
            anchor=self._folder / self._line("anchor") if "anchor" in self._content else None,
            on_doubt=self._option("on_doubt", get_args(OnDoubt)),
            unknown_fields=self._option("unknown_fields", get_args(UnknownFields)),
            detection=self._detection(),
        )

    def _detection(self) -> DetectionChoice:
        table = self._table("detection")
        self._refuse_unknown("detection", table, ("detectors", "kinds", "allow"))
        listed = {key: self._words(f"detection.{key}", words) for key, words in table.items()}
        return DetectionChoice(
            detectors=listed.get("detectors"),
            kinds=listed.get("kinds"),
            allow=listed.get("allow", ()),
        )

    def _words(self, key: str, words: object) -> tuple[str, ...]:
        if not isinstance(words, list) or not all(isinstance(each, str) for each in words):
            raise self._error(key, "not a list of texts", f'write {key.partition(".")[2]} = ["…"]')
        return tuple(words)

    def _option(self, key: str, choices: tuple[_Name, ...]) -> _Name | None:
        """A choice that may be left to whoever starts a service."""
        return self._choice(key, choices[0], choices) if key in self._content else None

    def _lifetime(self) -> int | None:
        lifetime = self._content.get("lifetime")
        if lifetime is not None and (type(lifetime) is not int or lifetime < 1):
            problem = "not a whole number, 1 or more"
            raise self._error("lifetime", problem, "write how many first prices a root may cost")
        return lifetime

    def _templates(self) -> tuple[Template, ...]:
        listed = self._content.get("templates")
        if not isinstance(listed, list) or not listed:
            raise self._error("templates", "there is no template", 'write templates = ["fib4"]')
        templates: list[Template] = []
        for number, entry in enumerate(listed, 1):
            key = f"templates.{number}"
            if not isinstance(entry, str):
                raise self._error(key, "not text", "put a name or a path in quotes")
            template = self._template(key, entry)
            if template.name in {other.name for other in templates}:
                raise self._error(key, f"{template.name} is listed twice", "list it once")
            templates.append(template)
        templates = self._with_public(templates)
        self._check_names(templates)
        return tuple(templates)

    def _with_public(self, templates: list[Template]) -> list[Template]:
        """The templates with the roots public that the profile lists so."""
        public = self._words("public", self._content.get("public", []))
        known = {root for each in templates for root in Graph.of(each).roots}
        self._refuse_unknown("public", dict.fromkeys(public), sorted(known))
        return [each.with_public(*(n for n in public if n in each.roots)) for each in templates]

    def _template(self, key: str, entry: str) -> Template:
        if entry.endswith(".toml") or "/" in entry or os.sep in entry:
            path = self._folder / entry
            if not path.is_file():
                raise self._error(key, "there is no such file", "check the path")
            return load_template(path)
        try:
            return load_template(entry)
        except UnknownNameError:
            remedy = f"use one of {', '.join(catalog())}, or the path of a file"
            raise self._error(key, "no template of the catalog is called so", remedy) from None

    def _check_names(self, templates: Iterable[Template]) -> None:
        """A name means one thing: a root in one unit, or one formula of roots."""
        meanings: dict[str, tuple[str, str]] = {}
        for template in templates:
            graph = Graph.of(template)
            for node in graph.order:
                formula = "" if node.formula is None else to_text(graph.in_roots(node.formula))
                if meanings.setdefault(node.name, (formula, node.unit)) != (formula, node.unit):
                    problem = f"{template.name} means something else by {node.name} than an earlier"
                    raise self._error("templates", f"{problem} template", "use one of the two")

    def _policy(self) -> Policy | None:
        if "policy" not in self._content:
            return None
        if "budget" in self._content or "budgets" in self._content:
            problem = "with a policy, its richest tier is the budget"
            raise self._error("budget", problem, "leave out either budget or policy")
        path = self._folder / self._line("policy")
        if not path.is_file():
            raise self._error("policy", "there is no such file", "check the path")
        return load_policy(path)

    def _budgets(self, templates: Iterable[Template], policy: Policy | None) -> dict[str, Fraction]:
        if policy is not None:
            return {template.name: policy.budget for template in templates}
        names = [template.name for template in templates]
        own = self._table("budgets")
        self._refuse_unknown("budgets", own, names)
        found = {name: self._amount(f"budgets.{name}", amount) for name, amount in own.items()}
        if "budget" in self._content:
            shared = self._amount("budget", self._content["budget"])
            found = {name: found.get(name, shared) for name in names}
        for name in names:
            if name not in found:
                raise self._error("budget", f"{name} has no budget", 'write budget = "0.9"')
        return found

    def _wanted(self, templates: tuple[Template, ...]) -> dict[str, Distance]:
        """How far [hide] asks to hide roots, by their names; nothing if it is not there."""
        wanted: dict[str, Distance] = {}
        for called, distance in self._table("hide").items():
            found = [each for template in templates if (each := self._called(template, called))]
            if not found or not isinstance(distance, str | int | float):
                shown = f"hide.{called}" if _NAME.fullmatch(called) else "hide"
                problem = "no distance" if found else "no root of these templates is called so"
                raise self._error(shown, problem, 'write age = 5, or "10%"')
            wanted[found[0]] = distance
        return wanted

    def _goals(
        self,
        templates: tuple[Template, ...],
        mechanism: MechanismName,
        wanted: Mapping[str, Distance],
    ) -> dict[str, Plan]:
        """The plan of each template under [hide]; nothing if it is not there."""
        if "hide" not in self._content:
            remedy = "add [hide], or leave advantage out"
            if "advantage" in self._content:
                raise self._error("advantage", "nothing is to be hidden", remedy)
            return {}
        for key in ("budget", "budgets", "allocation"):
            if key in self._content:
                raise self._error(key, "there is [hide] as well", "keep one of the two")
        advantage = self._content.get("advantage", "0.5")
        try:
            return {
                template.name: hiding_plan(
                    template,
                    {root: far for root, far in wanted.items() if root in template.roots},
                    advantage=str(advantage),
                    mechanism_name=mechanism,
                )
                for template in templates
            }
        except BudgetError as problem:  # of a goal, which is public
            key = "advantage" if "advantage" in str(problem) else "hide"
            raise self._error(key, str(problem), "correct it") from None

    def _called(self, template: Template, called: str) -> str | None:
        try:
            return template.root(called).name
        except UnknownNameError:
            return None

    def _amount(self, key: str, amount: object) -> Fraction:
        if isinstance(amount, str | int | float):
            try:
                return parse_epsilon(amount)
            except BudgetError:  # its text quotes the amount
                pass
        raise self._error(key, "not a number above zero", 'write "0.9"')

    def _store(self) -> str | None:
        if "store" not in self._content:
            return None
        url = self._line("store")
        relative = url.removeprefix("sqlite:///")
        if relative == url:
            return url
        path = self._folder / relative
        # A keyring knows a vault's key by its path, so one file must not have two.
        return f"sqlite:///{path.resolve() if '..' in path.parts else path}"

    def _vault(self) -> str | None:
        vault = self._content.get("vault")
        if vault is not None and not (isinstance(vault, str) and _VAULT.fullmatch(vault)):
            remedy = "write what `rootguard vault verify --json` shows, or leave it out"
            raise self._error("vault", "not the id of a vault", remedy)
        return vault

    def _values(self, templates: Iterable[Template]) -> dict[RootName, Raw]:
        table = self._table("values")
        self._refuse_unknown("values", table, [root for each in templates for root in each.roots])
        declared: dict[RootName, Root] = {}
        for template in templates:
            declared = {**template.roots, **declared}
        raws = seal(table, lambda name: declared.get(RootName(name))) or {}
        for name, raw in raws.items():
            if raw is None:
                wanted = declared[RootName(name)].type.wanted.rstrip(",")
                remedy = "write a plain number" if "number" in wanted else f"write {wanted}"
                raise self._error(f"values.{name}", f"not {wanted}", remedy)
        # A root with a formula is computed, so it needs no value.
        roots = {root for template in templates for root in Graph.of(template).roots}
        return {RootName(name): raw for name, raw in raws.items() if name in roots and raw}

    def _identifiers(self, templates: Iterable[Template]) -> Texts:
        table = self._table("identifiers")
        taken = {node.name for template in templates for node in Graph.of(template).order}
        for name, text in table.items():
            if not _NAME.fullmatch(name):
                remedy = "use up to 64 letters, digits, - and _, starting with a letter"
                raise self._error("identifiers", "a key of it is not a name", remedy)
            if name in taken:
                problem = f"{name} is the name of a value of a template"
                raise self._error(f"identifiers.{name}", problem, "choose another name")
            if not isinstance(text, str) or not text.strip():
                raise self._error(f"identifiers.{name}", "not text", "put it in quotes")
        return Texts({name: str(text) for name, text in table.items()})

    def _line(self, key: str, default: str | None = None) -> str:
        """One printable line of text."""
        value = self._content.get(key, default)
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self._error(key, "not one line of text", "write it in quotes")
        return value

    def _choice(self, key: str, default: _Name, choices: tuple[_Name, ...]) -> _Name:
        value = self._content.get(key, default)
        for choice in choices:
            if value == choice:
                return choice
        raise self._error(key, "there is no such choice", f"use one of {', '.join(choices)}")

    def _table(self, key: str) -> dict[str, object]:
        table = self._content.get(key, {})
        if not isinstance(table, dict):
            raise self._error(key, "not a table", f"write [{key}]")
        return table

    def _refuse_unknown(self, key: str, table: Mapping[str, object], known: Iterable[str]) -> None:
        """By name, if it is one: what is no name may be a private value in the wrong place."""
        known = tuple(dict.fromkeys(known))
        for name in table:
            if name not in known:
                remedy = f"use {', '.join(known)}"
                shown = name if _NAME.fullmatch(name) else ""
                where = ".".join(part for part in (key, shown) if part)
                raise self._error(where, "a key that is not known here", remedy)

    def _error(self, key: str, problem: str, remedy: str) -> ProfileError:
        return ProfileError(self._file, key, problem, remedy)
