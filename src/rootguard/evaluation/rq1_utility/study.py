"""The paper's utility study (RQ1): how wrong the target gets under each way of spending a budget.

A cell is one template, mechanism, epsilon, turn budget and configuration. The turn budget t is
k+1, 2k+1 or 3k+1 turns for k noised roots, and B = t * epsilon is spent as the configuration says:

- `all`: every release gets fresh noise at epsilon and the target is computed from the last noised
  value of each root; the earlier ones change nothing, so one draw per root at epsilon is enough;
- `roots`: each root is noised once at B / k;
- `opt`: each root is noised once under the optimal plan for B;
- `calibrated`: the very draws of `opt`, released through the population's figures (`calibration`),
  so that the two differ by calibration alone;
- `population`: noised under the plan that is best over the population, then calibrated. The search
  for such a plan takes seconds, so a sweep makes it for the default mechanism only, geometric,
  unless `Sweep.searched` says otherwise.

The paper has the first three. Beside them stands what costs no privacy at all: answering everybody
with the population's median target.

Values are snapped to the grid and clamped to the bounds as in a real release; the truth they are
compared with is not. Sensitivities come from the template's population figures, never from the
cohort. What fails is a row with an `error` and no figures. One case is a choice: where any noised
patient's target has no value (a division by zero, say), the whole cell has none, because leaving
such patients out would make the configuration that produces them look better.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from types import MappingProxyType
from typing import Literal, assert_never

import numpy as np
from numpy.typing import NDArray

from rootguard import __version__
from rootguard.advice.people import Cohort
from rootguard.advice.seeds import generator
from rootguard.allocation import Plan
from rootguard.calibration import Calibration, Level, make_plan
from rootguard.calibration.priors import has_figures, people
from rootguard.errors import RootGuardError
from rootguard.evaluation.metrics import Bootstrap, Floats
from rootguard.evaluation.study.rows import named
from rootguard.expressions import evaluate_many
from rootguard.graph import Graph
from rootguard.mechanisms import mechanism
from rootguard.mechanisms.base import Indices
from rootguard.template import Template
from rootguard.values import AllocationName, Domain, MechanismName, RootName

Configuration = Literal["all", "roots", "opt", "calibrated", "population"]
Turns = Literal["k+1", "2k+1", "3k+1"]

PAPER_CONFIGURATIONS: tuple[Configuration, ...] = ("all", "roots", "opt")
CALIBRATED: tuple[Configuration, ...] = ("calibrated", "population")
"""Those that release calibrated roots."""
CONFIGURATIONS: tuple[Configuration, ...] = (*PAPER_CONFIGURATIONS, *CALIBRATED)
TURNS: Mapping[Turns, int] = {"k+1": 1, "2k+1": 2, "3k+1": 3}
"""Adversarial queries per root before the final turn."""

EPSILONS = tuple(
    Fraction(text) for text in ("0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5")
)
PAPER_MECHANISMS: tuple[MechanismName, ...] = ("exponential", "laplace", "staircase")
STUDY_MECHANISMS: tuple[MechanismName, ...] = (*PAPER_MECHANISMS, "geometric")
SEARCHED: tuple[MechanismName, ...] = ("geometric",)
"""Whose population plans are searched for unless others are asked for."""
CENSUS = 4096
"""People over whom the population's median target is taken."""

MEDIAN = "population median"
"""What the figure is called that needs no release: see `Row.median_wmape`."""
DIGITS = 6
"""Decimals that figures are kept to, so that a row read back equals the row that was written."""
_DRAWS = 1 << 18
"""Cells are run together while they draw fewer values than this per root, to bound the memory."""
_SEARCHES = 5
"""And while they ask for fewer searches for a plan, so that progress is seen and kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One figure of the study."""

    budget: Turns
    epsilon: Fraction
    template: str
    mechanism: MechanismName
    config: Configuration


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """What became of a cell, and everything that decided it. No figures where there is an error.

    Figures are in percent. `sensitivity` is the share of the patients truly in the highest risk
    class whose released target is in it: a good average must not hide the sick. `rce` is None for a
    template without risk classes, `sensitivity` also where no patient is in the highest, the `_mc`
    fields (the Monte Carlo errors) for a single repeat. `median_wmape` is the error of the
    population's median target in place of any release: the same for all cells of a template, and
    None without population figures.
    """

    cell: Cell
    wmape: float | None = None
    wmape_se: float | None = None
    rce: float | None = None
    rce_se: float | None = None
    sensitivity: float | None = None
    sensitivity_se: float | None = None
    wmape_mc: float | None = field(default=None, metadata=named("wmape_mc_se"))
    rce_mc: float | None = field(default=None, metadata=named("rce_mc_se"))
    sensitivity_mc: float | None = field(default=None, metadata=named("sensitivity_mc_se"))
    median_wmape: float | None = None
    roots: int = field(metadata=named("k"))
    patients: int
    template_hash: str
    plan_hash: str = ""
    cohort: str = field(metadata=named("cohort_digest"))
    synthetic: bool
    seed: int
    repeats: int
    version: str = __version__
    error: str = ""

    @property
    def provenance(self) -> tuple[object, ...]:
        """Two rows that agree in this come from the same computation."""
        return (
            self.cell,
            self.template_hash,
            self.plan_hash,
            self.cohort,
            self.synthetic,
            self.seed,
            self.repeats,
            self.version,
        )


class Subject:
    """A cohort made ready: true targets, snapped roots and one bootstrap for all of its cells."""

    def __init__(self, template: Template, cohort: Cohort, *, seed: int, repeats: int) -> None:
        if repeats < 1:
            raise ValueError("at least one repeat is needed")
        self.template = template
        self.graph = Graph.of(template)
        self.roots = self.graph.roots
        self._formula = self.graph.in_roots(template.target.formula)
        self._domains = {root: template.roots[root].domain for root in self.roots}
        self._points = {root: _points(domain) for root, domain in self._domains.items()}
        self._columns = {root: np.asarray(cohort.columns[root], float) for root in self.roots}
        self._indices = {  # once per repeat, so that one call draws them all
            root: np.tile(snap(self._domains[root], np.nan_to_num(column)), repeats)
            for root, column in self._columns.items()
        }
        self.patients = len(next(iter(self._columns.values())))
        self._digest = template.digest
        self._cohort = cohort
        self._seed = seed
        self._repeats = repeats
        self._truth = evaluate_many(self._formula, self._by_name(self._columns))
        self._bootstrap = Bootstrap(self._truth, generator(seed, "bootstrap", template.name))
        self._plan = lru_cache(maxsize=512)(self._make_plan)
        self._fault = self._find_fault()
        self._median_wmape = None if self._fault else self._find_median_wmape()

    def _find_fault(self) -> str:
        """Why no cell can be measured on this cohort; empty if all can."""
        unusable = [root for root, column in self._columns.items() if not np.isfinite(column).all()]
        if unusable:
            return f"some values of {', '.join(unusable)} are not numbers"
        if missing := int(np.isnan(self._truth).sum()):
            return f"the true target has no value for {missing} patients"
        return "" if self._truth.any() else "every true target is zero: no error relates to that"

    def _find_median_wmape(self) -> float | None:
        median = self.population_median()
        if median is None:
            return None
        off = np.abs(median - self._truth).sum()
        return _rounded(100 * float(off / np.abs(self._truth).sum()))

    def population_median(self) -> float | None:
        """The target of the median person of the template's population; None without figures."""
        if not any(has_figures(self.template.roots[root]) for root in self.roots):
            return None
        found = people(self.template, self.roots, CENSUS)
        columns = {
            str(root): self._points[root][index]
            for root, index in zip(self.roots, found, strict=True)
        }
        return float(np.nanmedian(evaluate_many(self._formula, columns)))

    @staticmethod
    def _by_name(columns: Mapping[RootName, Floats]) -> dict[str, Floats]:
        return {str(root): column for root, column in columns.items()}

    @property
    def truth(self) -> Floats:
        """Each patient's true target."""
        return self._truth

    def plan(self, cell: Cell) -> Plan:
        """Who gets which epsilon. `all` noises each root at the cell's own epsilon."""
        turns = TURNS[cell.budget] * len(self.roots) + 1
        match cell.config:
            case "all":
                return self._plan(cell.mechanism, cell.epsilon * len(self.roots), "uniform")
            case "roots":
                return self._plan(cell.mechanism, cell.epsilon * turns, "uniform")
            case "opt" | "calibrated":
                return self._plan(cell.mechanism, cell.epsilon * turns, "optimal")
            case "population":
                return self._plan(cell.mechanism, cell.epsilon * turns, "population")
            case _:
                assert_never(cell.config)

    def _make_plan(self, name: MechanismName, budget: Fraction, allocation: AllocationName) -> Plan:
        return make_plan(self.template, budget, mechanism_name=name, allocation=allocation)

    def outline(self, cell: Cell) -> Row:
        """The row of a cell before anything is drawn: its provenance, or why it cannot be run."""
        row = Row(
            cell=cell,
            median_wmape=self._median_wmape,
            roots=len(self.roots),
            patients=self.patients,
            template_hash=self._digest,
            cohort=self._cohort.digest,
            synthetic=self._cohort.synthetic,
            seed=self._seed,
            repeats=self._repeats,
        )
        try:
            return replace(row, plan_hash=self.plan(cell).hash)
        except RootGuardError as refusal:
            return replace(row, error=str(refusal))

    def run(self, outlines: Iterable[Row]) -> list[Row]:
        """Draw and measure outlined cells: the same figures each, whatever runs beside them."""
        finished: list[Row] = []
        ready: list[Row] = []
        drawn: list[dict[str, Floats]] = []
        for row in outlines:
            if row.error or self._fault:
                finished.append(replace(row, error=row.error or self._fault))
                continue
            try:
                drawn.append(self._received(row.cell))
                ready.append(row)
            except (RootGuardError, ArithmeticError, ValueError) as refusal:
                finished.append(replace(row, error=str(refusal)))
        if ready:
            columns = {root: np.concatenate([one[root] for one in drawn]) for root in drawn[0]}
            shape = (len(ready), self._repeats, self.patients)
            finished += self._measure(ready, evaluate_many(self._formula, columns).reshape(shape))
        return finished

    def _measure(self, rows: Sequence[Row], released: Floats) -> list[Row]:
        missing = np.isnan(released).sum(axis=(1, 2))
        whole = released[missing == 0]
        risks = self.template.risk
        figures = iter(self._bootstrap.measure(whole, risks) if len(whole) else ())
        alarms = iter(self._bootstrap.sensitivity(whole, risks))
        finished = []
        for row, count in zip(rows, missing.tolist(), strict=True):
            if count:
                share = f"{count} of {released[0].size}"
                text = f"the noised target has no value in {share} draws"
                finished.append(replace(row, error=text))
                continue
            (error, risk), alarm = next(figures), next(alarms)
            finished.append(
                replace(
                    row,
                    wmape=_rounded(error.value),
                    wmape_se=_rounded(error.se),
                    wmape_mc=_rounded(error.monte_carlo),
                    rce=_rounded(risk.value if risk else None),
                    rce_se=_rounded(risk.se if risk else None),
                    rce_mc=_rounded(risk.monte_carlo if risk else None),
                    sensitivity=_rounded(alarm.value if alarm else None),
                    sensitivity_se=_rounded(alarm.se if alarm else None),
                    sensitivity_mc=_rounded(alarm.monte_carlo if alarm else None),
                )
            )
        return finished

    def _received(self, cell: Cell) -> dict[str, Floats]:
        """Each root as the service receives it, repeats and patients in one row."""
        plan = self.plan(cell)
        stream = "opt" if cell.config == "calibrated" else cell.config
        noised = self._noised(plan, cell, stream)
        if cell.config not in CALIBRATED:
            return self._by_name({root: self._points[root][i] for root, i in noised.items()})
        return self._by_name(calibration_of(self.template, plan).release_many(noised))

    def _noised(self, plan: Plan, cell: Cell, stream: Configuration) -> dict[RootName, Indices]:
        source = generator(
            self._seed, cell.template, cell.mechanism, cell.epsilon, cell.budget, stream
        )
        noised = {}
        for share in plan.shares:
            noise = mechanism(plan.mechanism, share.epsilon, share.domain.size)
            noised[share.root] = noise.draw_many(self._indices[share.root], source)
        return noised


def calibration_of(template: Template, plan: Plan) -> Calibration:
    """How releases under a plan are calibrated."""
    levels = {
        share.root: Level(domain=share.domain, mechanism=plan.mechanism, epsilon=share.epsilon)
        for share in plan.shares
    }
    return Calibration(template, levels)


def snap(domain: Domain, column: Floats) -> NDArray[np.int64]:
    """`Domain.nearest` for a column: clamped to the bounds, half-way goes up."""
    steps = (np.clip(column, domain.lower, domain.upper) - domain.lower) / domain.step
    return np.minimum(np.floor(steps + 0.5), domain.size - 1).astype(np.int64)


def _points(domain: Domain) -> Floats:
    """Every grid point; the last is the upper bound itself."""
    points = domain.lower + np.arange(domain.size, dtype=np.float64) * domain.step
    points[-1] = domain.upper
    return points


def _rounded(value: float | None) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return round(value, DIGITS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """Which cells to run, and how. `searched` are the mechanisms that have `population` cells."""

    seed: int = 0
    repeats: int = 1
    mechanisms: tuple[MechanismName, ...] = STUDY_MECHANISMS
    epsilons: tuple[Fraction, ...] = EPSILONS
    budgets: tuple[Turns, ...] = tuple(TURNS)
    configurations: tuple[Configuration, ...] = CONFIGURATIONS
    searched: tuple[MechanismName, ...] = SEARCHED

    def cells(self, template: str) -> Iterator[Cell]:
        """Every cell of a template, in the order in which rows are written."""
        for name, budget, epsilon, config in product(
            self.mechanisms, self.budgets, self.epsilons, self.configurations
        ):
            if config == "population" and name not in self.searched:
                continue
            yield Cell(
                budget=budget, epsilon=epsilon, template=template, mechanism=name, config=config
            )

    def __len__(self) -> int:
        """Cells per template."""
        return sum(1 for _ in self.cells(""))

    def run(
        self,
        templates: Iterable[Template],
        load: Callable[[Template], Cohort],
        *,
        done: Mapping[Cell, Row] = MappingProxyType({}),
    ) -> Iterator[Row]:
        """A row per cell. A row in `done` is taken over if it came from the same computation."""
        for template in templates:
            try:
                subject = Subject(template, load(template), seed=self.seed, repeats=self.repeats)
            except (RootGuardError, ValueError, KeyError, OSError) as refusal:
                yield from self._refused(template, refusal)
                continue
            at_once = max(1, _DRAWS // (self.repeats * subject.patients))
            for batch in _batches(self.cells(template.name), at_once):
                outlines = [subject.outline(cell) for cell in batch]
                known = {o.cell: done[o.cell] for o in outlines if _same(done.get(o.cell), o)}
                found = subject.run(outline for outline in outlines if outline.cell not in known)
                known |= {row.cell: row for row in found}
                yield from (known[cell] for cell in batch)

    def _refused(self, template: Template, refusal: Exception) -> Iterator[Row]:
        for cell in self.cells(template.name):
            yield Row(
                cell=cell,
                roots=len(Graph.of(template).roots),
                patients=0,
                template_hash=template.digest,
                cohort="",
                synthetic=False,
                seed=self.seed,
                repeats=self.repeats,
                error=f"no cohort: {refusal}",
            )


def _batches(cells: Iterable[Cell], most: int) -> Iterator[list[Cell]]:
    batch: list[Cell] = []
    for cell in cells:
        batch.append(cell)
        searches = sum(each.config == "population" for each in batch)
        if len(batch) == most or searches == _SEARCHES:
            yield batch
            batch = []
    if batch:
        yield batch


def _same(found: Row | None, outline: Row) -> bool:
    """Whether a row that was found is the finished form of this outline."""
    return found is not None and not found.error and found.provenance == outline.provenance
