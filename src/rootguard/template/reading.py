"""From TOML text to a checked template. Whatever is wrong is a `TemplateError` with a remedy."""

import contextlib
import difflib
import graphlib
import math
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import TypedDict

from rootguard.errors import DomainError, FormulaError, FormulaLimitError, TemplateError
from rootguard.expressions import Node, check_unfolded, names, parse, spelled_out
from rootguard.language import units
from rootguard.template.model import (
    GENERAL,
    MAX_DECIMALS,
    Derived,
    KeptFormula,
    OtherPopulation,
    Population,
    RiskClass,
    Root,
    RootFigures,
    Shape,
    Target,
    Template,
    TemplateForm,
    formulas_of,
    in_order,
)
from rootguard.values import (
    MAX_ANSWERS,
    MAX_GRID,
    MAX_TABLE,
    Domain,
    RootName,
    RootType,
    RootTypeName,
    days_of,
    normalised,
)

# A template may come from anybody: each limit is several times what the largest of the catalog has
# (5 KiB, 11 roots, 4 derived values), and keeps reading, planning and the graph quick.
MAX_BYTES = 256 * 1024
MAX_ROOTS = 64
MAX_DERIVED = 256
MAX_POPULATIONS = 16
MAX_TEXT = 4000
_SHAPES: dict[str, Shape] = {"normal": "normal", "lognormal": "lognormal", "uniform": "uniform"}
_DERIVED_KEYS = ("formula", "unit", "description", "type")
_ROOT_KEYS = (
    "lower", "upper", "grid", "unit", "decimals", "aliases", "mean", "sd", "median", "log_sd",
    "shape", "formula", "kept", "title", "hide", "hide_because",
    "type", "values", "order", "distance", "shares", "public",
    "series", "moved",
)  # fmt: skip
_FIGURES = ("mean", "sd", "shape", "median", "log_sd")
_ANSWERS = ("values", "order", "distance")
_TYPES: dict[str, tuple[RootTypeName, tuple[str, ...]]] = {
    "number": ("number", (*_ANSWERS, "shares")),
    "count": ("count", (*_ANSWERS, "shares", "grid", "decimals")),
    "boolean": ("boolean", ("lower", "upper", "grid", "decimals", "unit", *_ANSWERS, *_FIGURES)),
    "category": ("category", ("lower", "upper", "grid", "decimals", "unit", *_FIGURES)),
    "date": ("date", ("decimals", "unit", "shares", *_ANSWERS, *_FIGURES)),
}
"""The types of a root, and the keys that one of this type does not have."""
_COMPUTED_TYPES = ("number", "count", "boolean", "date")
_RISK_KEYS = ("label", "below", "at_most", "worrying")
_TOP_KEYS = tuple(f.name for f in fields(Template))
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_KINDS = {str: "text", bool: "true or false", dict: "a table", list: "a list"}


class TomlTable:
    """One TOML table being read: knows its file and its key, and refuses what it does not know."""

    def __init__(self, file: str, path: str, content: object, known: Iterable[str] = ()) -> None:
        self.file, self.path = file, path
        if not isinstance(content, dict):
            raise self.error("", f"this is {_kind(content)}, not a table", f"write [{path}]")
        self.entries: dict[str, object] = content
        for key in [key for key in content if known and key not in known]:
            likely = near(key, known)
            remedy = (
                f"did you mean {likely[0]!r}?" if likely else f"write one of {', '.join(known)}"
            )
            raise self.error(key, "this key is not known here", remedy)

    def error(self, key: str, problem: str, remedy: str) -> TemplateError:
        """What is wrong with a key of this table, to be raised."""
        path = ".".join(part[:80] for part in (self.path, key) if part)
        return TemplateError(self.file, path, problem, remedy)

    def refuse(self, wrong: object, key: str, problem: str, remedy: str) -> None:
        """Raise the error if something is wrong."""
        if wrong:
            raise self.error(key, problem, remedy)

    def need(self, key: str) -> object:
        """The entry of a key that must be there."""
        self.refuse(key not in self.entries, key, "this key is missing", f"add {key}")
        return self.entries[key]

    def text(self, key: str, default: str | None = None, *, limit: int = 400) -> str:
        """One line of text (any number above the usual limit); needed if there is no default."""
        value = self.need(key) if default is None else self.entries.get(key, default)
        if not isinstance(value, str):
            raise self.error(key, f"this is {_kind(value)}, not text", "put it in quotes")
        self.refuse(len(value) > limit, key, f"it is over {limit} characters", "shorten it")
        self.refuse(default is None and not value.strip(), key, "it is empty", "write something")
        plain = value.isprintable() or limit == MAX_TEXT
        self.refuse(not plain, key, "it is not one plain line", "write it as one")
        return value.strip()

    def name(self, key: str, name: str) -> str:
        """The name itself, if a formula can use it."""
        remedy = "use up to 64 letters, digits and _, starting with a letter"
        self.refuse(not _NAME.fullmatch(name), key, "this is not a name", remedy)
        taken = f"{name!r} is a word of the formula language"
        self.refuse(_is_word(name), key, taken, "choose another name")
        return name

    def number(self, key: str) -> float:
        """A finite number that must be there."""
        value = self.need(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, f"this is {_kind(value)}, not a number", "write a plain number")
        finite = abs(value) <= sys.float_info.max  # false for nan as well
        self.refuse(not finite, key, "this number is not finite", "write a finite number")
        return float(value)

    def flag(self, key: str) -> bool:
        """True or false; false if it is not there."""
        value = self.entries.get(key, False)
        if not isinstance(value, bool):
            raise self.error(key, f"this is {_kind(value)}, not a flag", "write true or false")
        return value

    def formula(self, words: Mapping[str, Sequence[str]] = MappingProxyType({})) -> Node:
        """The formula that must be there, parsed; `words` are the answers of categories."""
        text = self.text("formula", limit=MAX_TEXT)
        try:
            return parse(spelled_out(text, words))
        except FormulaError as error:
            remedy = "write it in the formula language (docs/templates.md)"
            raise self.error("formula", str(error), remedy) from None

    def list_of(self, key: str) -> "TomlTable":
        """A list, as a table whose keys count from 1; empty if it is not there."""
        value = self.entries.get(key, [])
        if not isinstance(value, list):
            raise self.error(key, f"this is {_kind(value)}, not a list", "put it in [ ]")
        path = f"{self.path}.{key}".lstrip(".")
        return TomlTable(self.file, path, {str(i): entry for i, entry in enumerate(value, 1)})

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of lines of text; empty if it is not there."""
        numbered = self.list_of(key)
        return tuple(numbered.text(index) for index in numbered.entries)

    def tables(self, key: str, known: Iterable[str], limit: int) -> dict[str, "TomlTable"]:
        """The tables under a key by their names, in the order of the file."""
        parent = TomlTable(self.file, key, self.entries.get(key, {}))
        self.refuse(len(parent.entries) > limit, key, f"it has over {limit}", "split the template")
        return {
            parent.name(name, name): TomlTable(self.file, f"{key}.{name}", entry, known)
            for name, entry in parent.entries.items()
        }


def near(word: str, known: Iterable[str]) -> tuple[str, ...]:
    """Known words that look like this one."""
    return tuple(difflib.get_close_matches(word, list(known)))


def _kind(value: object) -> str:
    return _KINDS.get(
        type(value), "a number" if isinstance(value, int | float) else "a date or time"
    )


def _is_word(name: str) -> bool:
    """Whether the formula language has its own use for a name."""
    try:
        return names(parse(name)) != {name}
    except FormulaError:
        return True


def read_template(path: Path) -> Template:
    """Read and check a template file."""
    name = str(path)
    return _template(TomlTable(name, "", _decode(_read(path), name), _TOP_KEYS))


def parse_template(text: str, *, file: str) -> Template:
    """Read and check a template's TOML text; `file` is the name that errors give."""
    content = _decode(text.encode(errors="surrogatepass"), file)
    return _template(TomlTable(file, "", content, _TOP_KEYS))


def build_template(content: Mapping[str, object]) -> Template:
    """Check a template that was put together in Python, as TOML would give it."""
    return _template(TomlTable("Template.build", "", _plain(content), _TOP_KEYS))


def _plain(value: object) -> object:
    """Mappings and sequences as TOML has them: dicts and lists."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return value


def _template(top: TomlTable) -> Template:
    tables = top.tables("roots", _ROOT_KEYS, MAX_ROOTS)
    top.refuse(not tables, "roots", "there is no root", "add a table such as [roots.age]")
    roots = {RootName(name): _root(RootName(name), table) for name, table in tables.items()}
    words = {str(name): root.type.answers for name, root in roots.items()}
    derived = {
        name: Derived(
            name=name,
            formula=table.formula(words),
            unit=table.text("unit", ""),
            description=table.text("description", "", limit=MAX_TEXT),
            type=_computed_type(table),
        )
        for name, table in top.tables("derived", _DERIVED_KEYS, MAX_DERIVED).items()
    }
    table = TomlTable(top.file, "target", top.need("target"), ("name", "formula", "unit", "type"))
    name = table.name("name", table.text("name"))
    target = Target(
        name=name,
        formula=table.formula(words),
        unit=table.text("unit", ""),
        type=_computed_type(table),
    )
    _check_names(top, roots, derived, target)
    _check_formulas(top, roots, derived, target)
    return Template(
        name=top.name("name", top.text("name")),
        title=top.text("title"),
        field=top.text("field", "general"),
        description=top.text("description", "", limit=MAX_TEXT),
        roots=roots,
        derived=derived,
        target=target,
        risk=_risk(top.list_of("risk")),
        population=_population(top, roots) if "population" in top.entries else None,
        sources=top.texts("sources"),
        populations=_populations(top, roots) if "populations" in top.entries else None,
        forms=_forms(top, roots, derived, target, words) if "forms" in top.entries else None,
    )


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "not a usable path"
    problem = f"it cannot be read ({reason})"
    raise TemplateError(str(path), "file", problem, "check the path and its permissions")


def _decode(content: bytes, file: str) -> dict[str, object]:
    key, remedy = "file", "correct it and load it again"
    if len(content) > MAX_BYTES:
        problem = f"it is over {MAX_BYTES // 1024} KiB"
        raise TemplateError(file, key, problem, "keep to what docs/templates.md describes")
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        problem, remedy = f"byte {error.start + 1} is not UTF-8", "save it as UTF-8"
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        key = f"line {found[1] if found else content.count(10) + 1}"
        problem = f"this is not TOML ({error})"
    except (RecursionError, ValueError):  # ValueError: an integer of thousands of digits
        problem = "it is nested too deeply, or a number in it has too many digits"
    raise TemplateError(file, key, problem, remedy)


def _root(name: RootName, table: TomlTable) -> Root:
    kind = _type(table)
    public = table.flag("public")
    unhidden = public and ("formula" in table.entries or "kept" in table.entries)
    table.refuse(unhidden, "public", "a computed root is as public as its roots", "drop public")
    if kind.name in ("boolean", "category"):
        return _answers(name, table, kind, public=public)
    lower, upper = _bound(table, "lower", kind), _bound(table, "upper", kind)
    table.refuse(lower >= upper, "lower", "it is not below upper", "exchange or widen the bounds")
    grid = table.entries.get("grid", 1000)
    if not kind.plain or (public and "grid" not in table.entries):
        grid = _whole_grid(table, kind, lower, upper)
    if isinstance(grid, bool) or not isinstance(grid, int) or not 2 <= grid <= MAX_GRID:
        remedy = f"write a whole number from 2 to {MAX_GRID}"
        raise table.error("grid", "this is not a number of grid points", remedy)
    try:
        domain = Domain(lower=lower, upper=upper, size=grid)
    except DomainError as error:
        raise table.error("lower", str(error), "change the bounds or the grid") from None
    mean = table.number("mean") if "mean" in table.entries else None
    sd = table.number("sd") if "sd" in table.entries else None
    outside = mean is not None and not lower <= mean <= upper
    table.refuse(outside, "mean", "it is outside the bounds", "correct the mean or a bound")
    table.refuse(sd is not None and sd <= 0, "sd", "it is not above zero", "correct or drop it")
    table.refuse(sd is not None and mean is None, "mean", "there is an sd but no mean", "add mean")
    shape = _SHAPES.get(table.text("shape", "uniform" if sd is None else "normal"))
    if shape is None:
        raise table.error("shape", "no shape is called that", f"use one of {', '.join(_SHAPES)}")
    flat = shape != "uniform" and sd is None
    table.refuse(flat, "shape", f"a {shape} shape needs mean and sd", "add them or drop shape")
    negative = shape == "lognormal" and (lower < 0 or not mean)
    table.refuse(negative, "shape", "a lognormal value is never zero or below zero", "raise lower")
    median, log_sd = _log_figures(table, domain, shape)
    return Root(
        name=name,
        domain=domain,
        unit=table.text("unit", ""),
        aliases=table.texts("aliases"),
        mean=mean,
        sd=sd,
        shape=shape,
        formula=table.formula() if "formula" in table.entries else None,
        kept=_kept(table) if "kept" in table.entries else None,
        median=median,
        log_sd=log_sd,
        decimals=_decimals(table, domain) if "decimals" in table.entries else None,
        **_said(table, domain),
        type=kind,
        public=public,
    )


class _Said(TypedDict):
    series: bool
    moved: float | None
    title: str | None
    hide: float | None
    hide_because: str | None


def _said(table: TomlTable, domain: Domain) -> _Said:
    """What a root is called, and how far it should be hidden."""
    moved = table.number("moved") if "moved" in table.entries else None
    far = moved is not None and not 0 < moved <= domain.width
    remedy = f"write a distance above 0 and up to {domain.width:g}"
    table.refuse(far, "moved", "no value moves so far within its bounds", remedy)
    return {
        "series": table.flag("series"),
        "moved": moved,
        "title": table.text("title", limit=60) if "title" in table.entries else None,
        "hide": _hide(table, domain) if "hide" in table.entries else None,
        "hide_because": table.text("hide_because") if "hide_because" in table.entries else None,
    }


def _computed_type(table: TomlTable) -> RootType:
    """The form of a computed value: a number unless it says otherwise."""
    name = table.text("type", "number")
    remedy = f"write one of {', '.join(_COMPUTED_TYPES)}"
    table.refuse(name not in _COMPUTED_TYPES, "type", "nothing computed has that type", remedy)
    return RootType(name=_TYPES[name][0])


def _type(table: TomlTable) -> RootType:
    """The type of a root; keys that it does not have are refused."""
    name = table.text("type", "number")
    if name not in _TYPES:
        raise table.error("type", "there is no such type", f"write one of {', '.join(_TYPES)}")
    known, not_here = _TYPES[name]
    for key in not_here:
        extra = f"a {name} root has no {key}"
        table.refuse(key in table.entries, key, extra, "drop it, or change the type")
    if name != "category":
        return RootType(name=known)
    table.need("values")
    answers = table.texts("values")
    few = not 2 <= len(answers) <= MAX_ANSWERS
    remedy = f"write between 2 and {MAX_ANSWERS} answers"
    table.refuse(few, "values", "it has too few or too many answers", remedy)
    odd = next((a for a in answers if not a or '"' in a), None)
    table.refuse(odd is not None, "values", "an answer is empty or has a quote", "write words")
    alike = len({normalised(answer) for answer in answers}) < len(answers)
    table.refuse(alike, "values", "two answers are the same word", "write each once")
    order = table.flag("order")
    both = order and "distance" in table.entries
    table.refuse(both, "distance", "there is order as well", "keep one of the two")
    distances = _distances(table, len(answers)) if "distance" in table.entries else None
    return RootType(name=known, answers=answers, ordered=order, distances=distances)


def _distances(table: TomlTable, size: int) -> tuple[tuple[float, ...], ...]:
    """How far apart answers are: symmetric, above zero, and no way round is shorter."""
    rows = [table.list_of("distance").list_of(i) for i in table.list_of("distance").entries]
    found = tuple(tuple(row.number(j) for j in row.entries) for row in rows)
    square = len(found) == size <= MAX_TABLE and all(len(row) == size for row in found)
    remedy = f"write a row of {size} numbers for each of {size} answers, {MAX_TABLE} at the most"
    table.refuse(not square, "distance", "the table is not square", remedy)
    every = range(size)
    own = any(found[i][i] != 0 for i in every)
    table.refuse(own, "distance", "an answer is away from itself", "write 0 on the diagonal")
    near = any(found[i][j] <= 0 for i in every for j in every if i != j)
    table.refuse(near, "distance", "two answers are not apart", "write numbers above zero")
    turned = any(found[i][j] != found[j][i] for i in every for j in every)
    table.refuse(turned, "distance", "it is not symmetric", "make there and back the same")
    # The guarantee rests on it: a shorter way round would make the mechanism cost more.
    round_about = any(
        found[i][k] + found[k][j] < found[i][j] - 1e-9 for i in every for j in every for k in every
    )
    remedy = "make no distance longer than the way over a third answer"
    table.refuse(round_about, "distance", "a way round is shorter", remedy)
    return found


def _bound(table: TomlTable, key: str, kind: RootType) -> float:
    if kind.name != "date":
        return table.number(key)
    value = table.need(key)
    with contextlib.suppress(ValueError):
        value = date.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(value, date) or isinstance(value, datetime):
        raise table.error(key, "this is not a date", "write it as 1990-01-31")
    return float(days_of(value))


def _whole_grid(table: TomlTable, kind: RootType, lower: float, upper: float) -> int:
    """The points of a grid on which every whole number is one, or every day, or every decimal."""
    scale = 1
    if kind.plain:  # a public number is kept to its decimals
        decimals = table.entries.get("decimals", 2)
        scale = 10**decimals if isinstance(decimals, int) and 0 <= decimals <= MAX_DECIMALS else 1
    elif not (lower.is_integer() and upper.is_integer()):
        raise table.error("lower", "a count has whole bounds", "write whole numbers")
    span = round((upper - lower) * scale)
    if "grid" in table.entries:
        grid = table.entries["grid"]
        whole = isinstance(grid, int) and grid > 1 and span % (grid - 1) == 0
        remedy = f"write a divisor of {span}, plus 1, or leave it out"
        table.refuse(not whole, "grid", "its points are not whole days", remedy)
        return int(str(grid))
    if kind.plain:
        return min(max(span + 1, 2), MAX_GRID)
    table.refuse(span >= MAX_GRID, "upper", f"it is over {MAX_GRID} steps", "narrow the bounds")
    return span + 1


def _answers(name: RootName, table: TomlTable, kind: RootType, *, public: bool) -> Root:
    """A yes or no, or a category: its points are its answers."""
    size = len(kind.answers) or 2
    shares = None
    if "shares" in table.entries:
        given = table.entries["shares"]
        listed = {
            "shares": given if isinstance(given, list) else [1 - table.number("shares"), given]
        }
        row = TomlTable(table.file, table.path, listed).list_of("shares")
        shares = tuple(row.number(i) for i in row.entries)
        # Published shares are percentages, each rounded: a handful of them is off by half a point.
        right = len(shares) == size and min(shares) >= 0 and abs(sum(shares) - 1) <= 0.005
        remedy = f"write {size} shares of the population that sum to 1, in the order of the answers"
        if size == 2 and not kind.answers:
            remedy = "write the share of yes, such as 0.12"
        table.refuse(not right, "shares", "these are no shares", remedy)
        shares = tuple(share / sum(shares) for share in shares)
    return Root(
        name=name,
        domain=Domain(lower=0, upper=size - 1, size=size),
        unit="",
        aliases=table.texts("aliases"),
        mean=None,
        sd=None,
        shape="uniform",
        formula=table.formula() if "formula" in table.entries else None,
        kept=_kept(table) if "kept" in table.entries else None,
        decimals=0,
        type=kind,
        public=public,
        shares=shares,
        **_said(table, Domain(lower=0, upper=size - 1, size=size)),
    )


def _hide(table: TomlTable, domain: Domain) -> float:
    """How far apart two values may be that should not be told apart, and the reason for it."""
    distance = table.number("hide")
    remedy = f"write a distance above 0 and up to {domain.width:g}"
    table.refuse(not 0 < distance <= domain.width, "hide", "no two values are so far apart", remedy)
    table.need("hide_because")
    return distance


def _log_figures(
    table: TomlTable, domain: Domain, shape: Shape
) -> tuple[float, float] | tuple[None, None]:
    """The median and the deviation of the logarithm; both are there, or neither."""
    given = [key for key in ("median", "log_sd") if key in table.entries]
    if not given:
        return None, None
    other = "they are the figures of a lognormal root"
    table.refuse(shape != "lognormal", given[0], other, 'write shape = "lognormal" or drop them')
    median, log_sd = table.number("median"), table.number("log_sd")
    outside = not domain.lower <= median <= domain.upper
    table.refuse(outside, "median", "it is outside the bounds", "correct the median or a bound")
    table.refuse(log_sd <= 0, "log_sd", "it is not above zero", "correct or drop it")
    return median, log_sd


def _decimals(table: TomlTable, domain: Domain) -> int:
    """How many decimals people give the value; two numbers written so must be within its bounds."""
    value = table.entries["decimals"]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_DECIMALS:
        remedy = f"write a whole number from 0 to {MAX_DECIMALS}"
        raise table.error("decimals", "this is not a number of decimals", remedy)
    ends = Decimal(repr(domain.lower)), Decimal(repr(domain.upper))
    first, last = math.ceil(ends[0].scaleb(value)), math.floor(ends[1].scaleb(value))
    problem = "with so few decimals hardly a number is within the bounds"
    table.refuse(first >= last, "decimals", problem, "raise it or widen the bounds")
    return value


def _kept(root: TomlTable) -> KeptFormula:
    """A formula of other templates' roots, with the unit in which it wants each of them."""
    twice = "formula" in root.entries
    root.refuse(twice, "kept", "there is formula as well", "keep one of the two")
    path = f"{root.path}.kept"
    table = TomlTable(root.file, path, root.entries["kept"], ("formula", "units"))
    formula = table.formula()
    used = sorted(names(formula))
    remedy = "name at least one root of another template in it"
    table.refuse(not used, "formula", "it uses no root", remedy)
    given = TomlTable(root.file, f"{path}.units", table.need("units"), used)
    for name in used:
        missing = f"the unit of {name} is missing"
        table.refuse(name not in given.entries, "units", missing, f'add {name} = "..."')
        unit = given.text(name, "")
        unknown = unit and units.canonical(unit) is None
        remedy = 'use a unit of language/units.toml, such as "kg", or "" for a plain number'
        given.refuse(unknown, name, "this unit is not known", remedy)
    return KeptFormula(formula=formula, units=tuple((name, given.text(name, "")) for name in used))


def _risk(rows: TomlTable) -> tuple[RiskClass, ...]:
    classes: list[RiskClass] = []
    for index, content in rows.entries.items():
        row = TomlTable(rows.file, f"risk.{index}", content, _RISK_KEYS)
        given = [key for key in ("below", "at_most") if key in row.entries]
        row.refuse(len(given) > 1, "at_most", "there is below as well", "keep one of the two")
        last, key = int(index) == len(rows.entries), given[0] if given else "below"
        row.refuse(last and given, key, "the last class has a limit", "drop it: it takes the rest")
        row.refuse(not (last or given), key, "only the last class has no limit", "add below")
        limit = row.number(key) if given else None
        before = classes[-1].limit if classes else None
        falls = limit is not None and before is not None and limit <= before
        row.refuse(falls, key, "the limits do not increase", "order the classes upwards")
        classes.append(
            RiskClass(
                label=row.text("label"),
                limit=limit,
                inclusive=key == "at_most",
                worrying=row.flag("worrying"),
            )
        )
    return tuple(classes)


def _population(top: TomlTable, roots: Mapping[RootName, Root]) -> Population:
    content = top.entries["population"]
    known = ("roots", "covariance", "rank_correlation", "source")
    table = TomlTable(top.file, "population", content, known)
    table.need("roots")
    listed = tuple(RootName(name) for name in table.texts("roots"))
    for name in listed:
        unknown, remedy = name not in roots, f"name some of {', '.join(roots)}"
        table.refuse(unknown, "roots", f"{name[:40]!r} is not a root", remedy)
        table.refuse(roots[name].mean is None, "roots", f"{name} has no mean", "give it one")
    size = len(listed)
    once = 0 < size == len(set(listed))
    table.refuse(not once, "roots", "it names a root twice, or none", "name each root once")
    covariance = _matrix(table, "covariance", size)
    ranks = None
    if "rank_correlation" in table.entries:
        ranks = _matrix(table, "rank_correlation", size)
        own = all(abs(ranks[i][i] - 1) <= 1e-9 for i in range(size))
        remedy = "write 1.0 on the diagonal"
        table.refuse(not own, "rank_correlation", "a root's own correlation is not 1", remedy)
    return Population(
        roots=listed, covariance=covariance, source=table.text("source"), rank_correlation=ranks
    )


def _forms(
    top: TomlTable,
    roots: Mapping[RootName, Root],
    derived: Mapping[str, Derived],
    target: Target,
    words: Mapping[str, tuple[str, ...]],
) -> tuple[TemplateForm, ...]:
    """Other forms of the target, by name."""
    found = []
    keys = ("title", "description", "formula", "upper", "sources")
    for name, table in top.tables("forms", keys, MAX_POPULATIONS).items():
        formula = table.formula(words)
        _check_formulas(top, roots, derived, replace(target, formula=formula))
        bounds = TomlTable(top.file, f"{table.path}.upper", table.entries.get("upper", {}))
        upper = []
        for root in bounds.entries:
            known = roots.get(RootName(root))
            remedy = f"name some of {', '.join(roots)}"
            bounds.refuse(known is None or not known.type.plain, root, "not such a root", remedy)
            limit = bounds.number(root)
            low = known is not None and limit <= known.domain.upper
            bounds.refuse(low, root, "it is not above the template's", "leave it out")
            upper.append((RootName(root), limit))
        found.append(
            TemplateForm(
                name=name,
                title=table.text("title"),
                description=table.text("description", "", limit=MAX_TEXT),
                formula=formula,
                upper=tuple(upper),
                sources=table.texts("sources"),
            )
        )
    return tuple(found)


def _populations(top: TomlTable, roots: Mapping[RootName, Root]) -> tuple[OtherPopulation, ...]:
    """Figures of other people than the general population, by name."""
    found = []
    keys = ("roots", "rank_correlation", "source")
    for name, table in top.tables("populations", keys, MAX_POPULATIONS).items():
        general = f"{GENERAL!r} is what the roots themselves say"
        table.refuse(name == GENERAL, "", general, "choose another name")
        listed = TomlTable(top.file, f"{table.path}.roots", table.need("roots"))
        table.refuse(not listed.entries, "roots", "it has no figures", "add mean and sd of a root")
        figures = []
        for root, content in listed.entries.items():
            known = roots.get(RootName(root))
            problem, remedy = "this is not a root", f"name some of {', '.join(roots)}"
            listed.refuse(known is None or known.formula is not None, root, problem, remedy)
            row = TomlTable(top.file, f"{listed.path}.{root}", content, ("mean", "sd", "shape"))
            mean, sd = row.number("mean"), row.number("sd")
            inside = known is not None and known.domain.lower <= mean <= known.domain.upper
            row.refuse(not inside, "mean", "it is outside the bounds", "correct the mean")
            row.refuse(sd <= 0, "sd", "it is not above zero", "correct it")
            usual = "normal" if known is None or known.shape == "uniform" else known.shape
            shape = _SHAPES.get(row.text("shape", usual))
            if shape is None or (shape == "lognormal" and mean <= 0):
                remedy = "write normal, uniform, or lognormal for what is above zero"
                raise row.error("shape", "no root of this mean has that shape", remedy)
            figures.append(RootFigures(root=RootName(root), mean=mean, sd=sd, shape=shape))
        ranks = None
        if "rank_correlation" in table.entries:
            ranks = _matrix(table, "rank_correlation", len(figures))
        found.append(
            OtherPopulation(
                name=name,
                figures=tuple(figures),
                source=table.text("source"),
                rank_correlation=ranks,
            )
        )
    return tuple(found)


def _matrix(table: TomlTable, key: str, size: int) -> tuple[tuple[float, ...], ...]:
    """A symmetric, positive semi-definite matrix with a row for each listed root."""
    rows = [table.list_of(key).list_of(i) for i in table.list_of(key).entries]
    matrix = tuple(tuple(row.number(j) for j in row.entries) for row in rows)
    square = len(matrix) == size and all(len(row) == size for row in matrix)
    remedy = f"write {size} rows of {size} numbers, in the order of population.roots"
    table.refuse(not square, key, "the matrix is not square", remedy)
    fault = _covariance_fault(matrix)
    table.refuse(fault, key, f"the matrix is not {fault}", "copy it again from its source")
    return matrix


def _covariance_fault(matrix: tuple[tuple[float, ...], ...]) -> str:
    """What the matrix is not; empty if it is symmetric and positive semi-definite.

    Scaled to correlations, then eliminated as Cholesky does: no pivot may be below zero, and a
    pivot of zero must leave nothing beside it. Rounding in a published matrix passes, to 1e-9.
    """
    size = range(len(matrix))
    if any(matrix[i][i] < 0 for i in size):
        return "positive semi-definite"
    # In correlations, so that one rounding error of 1e-9 is the same for every root.
    scale = [math.sqrt(matrix[i][i]) or 1.0 for i in size]
    rest = [[matrix[i][j] / scale[i] / scale[j] for j in size] for i in size]
    if any(abs(rest[i][j] - rest[j][i]) > 1e-9 for i in size for j in size):
        return "symmetric"
    for k in size:
        pivot = rest[k][k]
        column = [rest[i][k] for i in size]
        # In a semi-definite matrix what stands beside a pivot is at most its root: 3e-5 for 1e-9.
        if pivot < -1e-9 or (pivot < 1e-9 and any(abs(c) > 1e-4 for c in column[k + 1 :])):
            return "positive semi-definite"
        for i in size[k + 1 :] if pivot >= 1e-9 else ():
            for j in size[k + 1 :]:
                rest[i][j] -= column[i] * column[j] / pivot
    return ""


def _check_names(
    top: TomlTable, roots: Mapping[RootName, Root], derived: Mapping[str, Derived], target: Target
) -> None:
    """Every name and alias means one thing, whatever its case."""
    meaning: dict[str, str] = {}
    named: list[tuple[str, str]] = [(f"roots.{name}", name) for name in roots]
    named += [(f"derived.{name}", name) for name in derived] + [("target.name", target.name)]
    named += [(f"roots.{n}.aliases", alias) for n, root in roots.items() for alias in root.aliases]
    named += [(f"roots.{n}.title", root.title) for n, root in roots.items() if root.title]
    for key, word in named:
        owner = key.removesuffix(".aliases").removesuffix(".title")
        before = meaning.setdefault(word.casefold(), owner)
        top.refuse(before != owner, key, f"{word!r} already means {before}", "choose another name")


def _check_formulas(
    top: TomlTable, roots: Mapping[RootName, Root], derived: Mapping[str, Derived], target: Target
) -> None:
    """Formulas name only roots and derived values, in no ring, and in the end rest on a root."""
    formulas = formulas_of(roots, derived)
    known = (*roots, *derived)
    for root in roots.values():
        own = sorted(names(root.kept.formula) & {*known, target.name}) if root.kept else []
        problem = f"it names {', '.join(own)[:80]}, which is a value of this template"
        remedy = "name roots of other templates, or write formula in place of kept"
        top.refuse(own, f"roots.{root.name}.kept.formula", problem, remedy)
    place = {name: f"{'roots' if name in roots else 'derived'}.{name}.formula" for name in known}
    place[target.name] = "target.formula"
    for name, node in (formulas | {target.name: target.formula}).items():
        unknown = sorted(names(node) - set(known))
        likely = near(unknown[0], known) or known if unknown else known
        problem = f"it names {', '.join(unknown)[:80]}, which is not a root or derived"
        top.refuse(unknown, place[name], problem, f"use one of {', '.join(likely)}, or declare it")
    try:
        order = in_order(formulas)
    except graphlib.CycleError as error:
        ring: list[str] = error.args[1][::-1]
        problem = f"it depends on itself: {' -> '.join(ring)}"
        raise top.error(place[ring[0]], problem, "break the ring: one must be a root") from None
    try:
        ordered = {name: formulas[name] for name in order if name in formulas}
        check_unfolded(ordered | {target.name: target.formula})
    except FormulaLimitError as error:
        problem = f"formulas of formulas: {error}"
        raise top.error(
            "derived", problem, "use each value fewer times, or a shorter chain"
        ) from None
    grounded = {str(name) for name in roots if name not in formulas}
    for name in [*order, target.name]:
        if names(formulas.get(name, target.formula)) & grounded:
            grounded.add(name)
        elif name not in derived:  # a derived constant is allowed
            raise top.error(place[name], "it uses no root", "name at least one root in it")
