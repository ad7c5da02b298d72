"""What a template is: roots, derived values, a target, risk classes, a population. No reading."""

import contextlib
import functools
import graphlib
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields, is_dataclass, replace
from dataclasses import field as dataclass_field
from types import MappingProxyType
from typing import Literal

from rootguard.errors import FormulaError, UnknownNameError
from rootguard.expressions import Node, evaluate, names, to_text
from rootguard.notebook import html_table
from rootguard.values import NUMBER, Domain, Form, RootName, RootType

Shape = Literal["normal", "lognormal", "uniform"]
MAX_DECIMALS = 6  # of a released value, that a template may ask for
_USUAL_DECIMALS = 2  # more say nothing: noise moves a value by many steps of its grid
_LEAST_STEPS = 10  # in the bounds, between numbers with as many decimals as a root has by default


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptFormula:
    """A root as a formula of values that other templates keep: BMI beside height and weight.

    `units` gives, by name, the unit in which the formula wants each value ("" for a plain number).
    """

    formula: Node
    units: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Root:
    """One private value: its public bounds, its names, and what is known of it in a population.

    `formula` is Level 1 of the paper: a declared root that is a formula of others. `kept` is the
    same over the roots of other templates, where a store holds them. `median` and `log_sd` (the
    deviation of the logarithm) describe most of a skewed population; its mean and sd rest on the
    few extreme people too. `decimals` is how many people give it in its own unit, where the
    template says so: how it is written, not what it is, so the digest leaves it out. So it does
    `title`, what people call the value, and `hide`: two values this far apart should not be told
    apart, in the root's unit, and why that far. It is where a person's choice begins.

    `type` is the form that the value has outside (docs/types.md). A `public` root need not be
    hidden: it is kept and released as it is given, at no cost. `shares` says how common each answer
    of a yes or no or of a category is. A `series` gets new values now and then, and `moved` says
    how far it has to move before it is drawn anew, in its unit (docs/changing-values.md).
    """

    name: RootName
    domain: Domain
    unit: str
    aliases: tuple[str, ...]
    mean: float | None
    sd: float | None
    shape: Shape
    formula: Node | None
    kept: KeptFormula | None = None
    median: float | None = None
    log_sd: float | None = None
    decimals: int | None = dataclass_field(default=None, metadata={"digest": False})
    title: str | None = dataclass_field(default=None, metadata={"digest": False})
    hide: float | None = dataclass_field(default=None, metadata={"digest": False})
    hide_because: str | None = dataclass_field(default=None, metadata={"digest": False})
    type: RootType = NUMBER
    public: bool = False
    shares: tuple[float, ...] | None = None
    series: bool = dataclass_field(default=False, metadata={"digest": False})
    moved: float | None = dataclass_field(default=None, metadata={"digest": False})

    @property
    def wanted(self) -> str:
        """What a form asks for, in words: on a terminal, on a page, in a refusal."""
        match self.type.name:
            case "number":
                return f"{self.domain.lower:g} to {self.domain.upper:g} {self.unit}".rstrip()
            case "count":
                return f"a whole number, {self.domain.lower:g} to {self.domain.upper:g}"
            case "date":
                first, last = map(self.type.written, (self.domain.lower, self.domain.upper))
                return f"a date from {first} to {last}, written year-month-day"
            case "boolean" | "category":
                return self.type.wanted

    @property
    def label(self) -> str:
        """What people call it: its title, else its name in words."""
        return self.title or self.name.replace("_", " ")

    @property
    def places(self) -> int:
        """How many decimals a text gives it: as declared, else by its grid.

        By the grid: as many as tell two of its steps apart, but two at the most, unless fewer than
        ten numbers would be left between the bounds.
        """
        if self.decimals is not None:
            return self.decimals
        if not self.type.plain:
            return 0
        by_grid = min(_finer(self.domain.step), _USUAL_DECIMALS)
        steps = min(_LEAST_STEPS, self.domain.size - 1)
        return min(max(by_grid, _finer(self.domain.width / steps), 0), MAX_DECIMALS)


def _finer(step: float) -> int:
    """The decimals of the largest power of ten that is at most a step."""
    return math.ceil(-math.log10(step))


@dataclass(frozen=True, kw_only=True, slots=True)
class Derived:
    """A value computed from roots and other derived values; a date, if its type says so."""

    name: str
    formula: Node
    unit: str
    description: str
    type: RootType = NUMBER


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """The value that the service decides on."""

    name: str
    formula: Node
    unit: str
    type: RootType = NUMBER


@dataclass(frozen=True, kw_only=True, slots=True)
class RiskClass:
    """A class of target values: up to `limit`, which belongs to it if `inclusive`.

    The last class has no limit and takes the rest. `worrying` marks a class whose people must not
    be missed, wherever it stands: a calibrated release keeps an alarm on it.
    """

    label: str
    limit: float | None
    inclusive: bool
    worrying: bool = False

    def holds(self, value: float) -> bool:
        """Whether a value lies at or under this class's limit; classes are asked in order."""
        if self.limit is None:
            return True
        return value <= self.limit if self.inclusive else value < self.limit


@dataclass(frozen=True, kw_only=True, slots=True)
class Population:
    """How roots vary together in a public population.

    `rank_correlation` is Spearman's: no extreme person can spoil it, as one can a covariance.
    """

    roots: tuple[RootName, ...]
    covariance: tuple[tuple[float, ...], ...]
    source: str
    rank_correlation: tuple[tuple[float, ...], ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RootFigures:
    """What another population's source says of one root."""

    root: RootName
    mean: float
    sd: float
    shape: Shape


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherPopulation:
    """Published figures of people unlike the general population, such as a clinic's patients.

    Roots that it does not list are as in the general population, and so is how roots vary together
    unless `rank_correlation` says it of those that are listed, in their order.
    """

    name: str
    figures: tuple[RootFigures, ...]
    source: str
    rank_correlation: tuple[tuple[float, ...], ...] | None = None

    def ties(self) -> Population | None:
        """How the listed roots vary together, if that is said.

        The covariance is the one that normal scores with these rank correlations give: with latent
        correlation rho = 2 sin(pi r / 6), and s^2 = ln(1 + w^2), w = sd / mean of a lognormal root,
        Pearson's is (exp(rho s1 s2) - 1) / (w1 w2) for two, rho s / w for one, and rho for none.
        """
        if self.rank_correlation is None:
            return None
        rows = []
        for i, one in enumerate(self.figures):
            row = []
            for j, other in enumerate(self.figures):
                latent = 2 * math.sin(math.pi * self.rank_correlation[i][j] / 6)
                logs = [f.sd / f.mean for f in (one, other) if f.shape == "lognormal"]
                spreads = math.prod(math.sqrt(math.log1p(w * w)) for w in logs)
                grown = math.expm1(latent * spreads) if len(logs) == 2 else latent * spreads
                # Exactly 1 on the diagonal, which rounding would miss: it has to be a covariance.
                pearson = 1.0 if i == j else grown / math.prod(logs)
                row.append(pearson * one.sd * other.sd)
            rows.append(tuple(row))
        return Population(
            roots=tuple(each.root for each in self.figures),
            covariance=tuple(rows),
            source=self.source,
            rank_correlation=self.rank_correlation,
        )


GENERAL = "general"
"""What the population is called whose figures stand with the roots themselves."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplateForm:
    """Another form of a template's target: in other units, by another rule, for other bounds.

    It stands beside the template, which stays as it is; `TEMPLATE@FORM` is a template of its own.
    """

    name: str
    title: str
    description: str
    formula: Node
    upper: tuple[tuple[RootName, float], ...]
    sources: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    """Public knowledge about one calculation. Mappings keep the order of the file."""

    name: str
    title: str
    field: str
    description: str
    roots: Mapping[RootName, Root]
    derived: Mapping[str, Derived]
    target: Target
    risk: tuple[RiskClass, ...]
    population: Population | None
    sources: tuple[str, ...]
    populations: tuple[OtherPopulation, ...] | None = None
    forms: tuple[TemplateForm, ...] | None = dataclass_field(
        default=None, metadata={"digest": False}
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "roots", MappingProxyType(dict(self.roots)))
        object.__setattr__(self, "derived", MappingProxyType(dict(self.derived)))

    def __hash__(self) -> int:  # a mapping proxy has none; of equal templates these parts are equal
        return hash((self.name, tuple(self.roots.values()), self.target))

    def __reduce__(self) -> tuple[object, ...]:  # a mapping proxy cannot be pickled
        content = {f.name: getattr(self, f.name) for f in fields(self)}
        content |= {"roots": dict(self.roots), "derived": dict(self.derived)}
        return functools.partial(Template, **content), ()

    @staticmethod
    def build(
        name: str,
        *,
        roots: Mapping[str, Mapping[str, object]],
        target: Mapping[str, object] | str,
        **rest: object,
    ) -> "Template":
        """A template in Python: what its file would hold, key for key, and checked in the same way.

        `title` is the name if it is left out, and a target that is a formula alone has the name
        too: Template.build("half", roots={"wt": {"lower": 30, "upper": 200}}, target="wt / 2").
        """
        from rootguard.template.reading import build_template

        if isinstance(target, str):
            target = {"name": name, "formula": target}
        content = {"name": name, "title": name, "roots": roots, "target": target, **rest}
        return build_template(content)

    def _repr_html_(self) -> str:
        rows = [
            (root.label, root.name, root.unit, f"{root.domain.lower:g}", f"{root.domain.upper:g}")
            for root in self.roots.values()
        ]
        title = f"{self.title}: {self.target.name} = {to_text(self.target.formula)}"
        return html_table(title, ("value", "name", "unit", "from", "to"), rows)

    def classify(self, value: float) -> RiskClass | None:
        """The first class that holds a target value; None for not-a-number or without classes."""
        if math.isnan(value):
            return None
        return next((risk for risk in self.risk if risk.holds(value)), None)

    def root(self, called: str) -> Root:
        """The root of this name, title or alias, in any capitals; anything else is refused."""
        wanted = called.strip().casefold()
        for root in self.roots.values():
            if wanted in {word.casefold() for word in (root.name, root.label, *root.aliases)}:
                return root
        raise UnknownNameError("root", called, tuple(self.roots))

    def root_called(self, called: str) -> Root | None:
        """The same, or None."""
        with contextlib.suppress(UnknownNameError):
            return self.roots.get(RootName(called)) or self.root(called)
        return None

    def centre(self) -> dict[RootName, float]:
        """A typical point: population means, else the middle of each domain, within the bounds.

        Of answers without an order the commonest, else the first. A root with a formula takes the
        formula's value at that point, so that they agree.
        """
        values: dict[str, float] = {
            name: root.domain.lower + root.domain.width / 2 if root.mean is None else root.mean
            for name, root in self.roots.items()
        }
        for root in self.roots.values():  # an answer, a day or a count that there is
            if not root.type.on_a_line:
                shares = root.shares or (1.0,)
                values[root.name] = float(shares.index(max(shares)))
            elif not root.type.plain:
                values[root.name] = root.domain.value(root.domain.nearest(values[root.name]))
        # After the rounding above, which formulas have to see, and each after what it rests on.
        formulas = formulas_of(self.roots, self.derived)
        for name in in_order(formulas):
            with contextlib.suppress(FormulaError):  # no value here: a root keeps its middle
                values[name] = evaluate(formulas[name], values)
        return {name: root.domain.clamp(values[name]) for name, root in self.roots.items()}

    def type_of(self, name: str) -> RootType:
        """The form of a named value outside: a root's, a derived value's or the target's."""
        if name == self.target.name:
            return self.target.type
        named = self.roots.get(RootName(name)) or self.derived.get(name)
        return NUMBER if named is None else named.type

    def shown(self, name: str, number: float) -> Form:
        """A released number in the form that people know the value by."""
        return self.type_of(name).outside(number)

    @property
    def words(self) -> Mapping[str, tuple[str, ...]]:
        """The answers of each category, for formulas that compare with one in quotes."""
        return {str(name): root.type.answers for name, root in self.roots.items()}

    def with_public(self, *names: str) -> "Template":
        """The template with these roots public; it is another template, and its digest says so."""
        for name in names:
            if name not in self.roots or self.roots[RootName(name)].formula is not None:
                known = tuple(n for n, root in self.roots.items() if root.formula is None)
                raise UnknownNameError("root", name, known)
        roots = {
            name: replace(root, public=True) if name in names else root
            for name, root in self.roots.items()
        }
        return replace(self, roots=roots)

    def of_form(self, name: str) -> "Template":
        """The template in another of its forms, by the name TEMPLATE_FORM."""
        known = {form.name: form for form in self.forms or ()}
        if name not in known:
            raise UnknownNameError("form", name, tuple(known))
        form = known[name]
        roots = dict(self.roots)
        for root, upper in form.upper:
            domain = replace(roots[root].domain, upper=upper)
            roots[root] = replace(roots[root], domain=domain)
        return replace(
            self,
            name=f"{self.name}_{form.name}",
            title=form.title,
            description=form.description,
            roots=roots,
            target=replace(self.target, name=f"{self.target.name}_{name}", formula=form.formula),
            sources=(*self.sources, *form.sources),
            forms=None,
        )

    @property
    def population_names(self) -> tuple[str, ...]:
        """The populations whose figures the template has."""
        return (GENERAL, *(other.name for other in self.populations or ()))

    def of_population(self, name: str) -> "Template":
        """The template with another population's figures; it is another template, and says so."""
        if name not in self.population_names:
            raise UnknownNameError("population", name, self.population_names)
        if name == GENERAL:
            return self
        other = next(each for each in self.populations or () if each.name == name)
        roots = dict(self.roots)
        for each in other.figures:
            roots[each.root] = replace(
                roots[each.root],
                mean=each.mean,
                sd=each.sd,
                shape=each.shape,
                median=None,  # these two are of the general population
                log_sd=None,
            )
        return replace(
            self,
            roots=roots,
            population=other.ties() or self.population,
            populations=None,
            sources=(*self.sources, other.source),
        )

    @property
    def digest(self) -> str:
        """SHA-256 of the content in canonical form: the same on every machine.

        How values are written and called, and how far a template advises to hide them, is no part
        of it: no release depends on that alone.
        """
        return _digest(self)


def formulas_of(roots: Mapping[RootName, Root], derived: Mapping[str, Derived]) -> dict[str, Node]:
    """Every formula but the target's, by the name of what it computes."""
    level_1 = {str(name): root.formula for name, root in roots.items() if root.formula is not None}
    return level_1 | {name: entry.formula for name, entry in derived.items()}


def in_order(formulas: Mapping[str, Node]) -> list[str]:
    """Names such that each comes after what its formula rests on."""
    rests_on = {name: sorted(names(node) & formulas.keys()) for name, node in formulas.items()}
    return list(graphlib.TopologicalSorter(rests_on).static_order())


# More than the catalogue has with all its forms and populations.
@functools.lru_cache(maxsize=256)
def _digest(template: Template) -> str:
    content = json.dumps(_canonical(template), separators=(",", ":"))
    # Stores hold digests: another canonical form would need another number here.
    return hashlib.sha256(f"rootguard-template-1\n{content}".encode()).hexdigest()


def _canonical(value: object) -> object:
    """Content as lists, texts and numbers, for the digest; order counts, formulas are rewritten."""
    if isinstance(value, Node):
        return to_text(value)
    if is_dataclass(value):
        return [
            [f.name, _canonical(getattr(value, f.name))] for f in fields(value) if _said(value, f)
        ]
    if isinstance(value, Mapping):
        return [_canonical(entry) for entry in value.values()]
    if isinstance(value, tuple):
        return [_canonical(entry) for entry in value]
    return value


def _said(value: object, part: Field[object]) -> bool:
    """Not an optional part that is absent: digests from before there was such a part stay valid.

    Nor one that says how a value is written or called, or is advice, and not what it is.
    """
    if not part.metadata.get("digest", True):
        return False
    absent = part.default is None or part.default is False or part.default is NUMBER
    return not (absent and getattr(value, part.name) == part.default)
