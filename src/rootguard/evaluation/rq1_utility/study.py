"""The paper's utility study (RQ1): how wrong the target gets under each way of spending a budget.

The ways are `rootguard.advice.utility`'s. The paper has the first three of them. Beside them stands
what costs no privacy at all: answering everybody with the population's median target. A sweep has
population plans for the default mechanism only, geometric, unless `Sweep.searched` says otherwise.

What fails is a row with an `error` and no figures. One case is a choice: where any noised patient's
target has no value (a division by zero, say), the whole cell has none, because leaving such
patients out would make the configuration that produces them look better.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from types import MappingProxyType

import numpy as np

from rootguard.advice.people import Cohort
from rootguard.advice.seeds import generator
from rootguard.advice.utility import (
    CONFIGURATIONS,
    SEARCHED,
    TURNS,
    Configuration,
    Trial,
    Turns,
    UtilityCell,
    class_numbers,
    has_plan,
)
from rootguard.errors import RootGuardError
from rootguard.evaluation.metrics import Bootstrap
from rootguard.evaluation.study.rows import SweepRow, named
from rootguard.evaluation.study.runner import missing_cohort
from rootguard.graph import Graph
from rootguard.mechanisms.base import Floats
from rootguard.template import Template
from rootguard.values import MechanismName

# The paper's grid, as its tables print it.
EPSILONS = tuple(
    Fraction(text) for text in ("0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5")
)
PAPER_MECHANISMS: tuple[MechanismName, ...] = ("exponential", "laplace", "staircase")
STUDY_MECHANISMS: tuple[MechanismName, ...] = (*PAPER_MECHANISMS, "geometric")
MEDIAN = "population median"
"""What the figure is called that needs no release: see `UtilityRow.median_wmape`."""
DIGITS = 6
"""Decimals that figures are kept to, so that a row read back equals the row that was written."""
# Cells are run together, which is quicker, while they draw fewer values than this per root: 2 MB a
# root and array.
_DRAWS = 1 << 18
# And while they ask for fewer searches for a plan, so that progress is seen and
# kept.
_SEARCHES = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassFigure:
    """One risk class of a cell: the patients truly in it, and the percent of them released in it.

    None where nobody is in the class.
    """

    label: str
    patients: int
    recall: float | None
    recall_se: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class UtilityRow(SweepRow):
    """What became of a cell, and everything that decided it. No figures where there is an error.

    Figures are in percent. `sensitivity` is the share of the patients truly in the highest risk
    class whose released target is in it: a good average must not hide the sick. `by_class` has the
    same for every class, and stands in a file of its own (`classes`). `rce` is None for a
    template without risk classes, `sensitivity` also where no patient is in the highest, the `_mc`
    fields (the Monte Carlo errors) for a single repeat. `median_wmape` is the error of the
    population's median target in place of any release: the same for all cells of a template, and
    None without population figures.
    """

    cell: UtilityCell
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
    by_class: tuple[ClassFigure, ...] = field(default=(), metadata=named(None))
    roots: int = field(metadata=named("k"))


class Subject(Trial):
    """A trial with one bootstrap for all of its cells."""

    def __init__(self, template: Template, cohort: Cohort, *, seed: int, repeats: int) -> None:
        super().__init__(template, cohort, seed=seed, repeats=repeats)
        self._digest = template.digest
        self._bootstrap = Bootstrap(self.truth, generator(seed, "bootstrap", template.name))
        self._median_wmape = None if self.fault else self._find_median_wmape()

    def _find_median_wmape(self) -> float | None:
        median = self.population_median()
        if median is None:
            return None
        off = np.abs(median - self.truth).sum()
        return _rounded(100 * float(off / np.abs(self.truth).sum()))

    def outline(self, cell: UtilityCell) -> UtilityRow:
        """The row of a cell before anything is drawn: its provenance, or why it cannot be run."""
        row = UtilityRow(
            cell=cell,
            median_wmape=self._median_wmape,
            roots=len(self.roots),
            patients=self.patients,
            template_hash=self._digest,
            cohort=self.cohort.digest,
            synthetic=self.cohort.synthetic,
            seed=self.seed,
            repeats=self.repeats,
        )
        try:
            return replace(row, plan_hash=self.plan(cell).hash)
        except RootGuardError as refusal:
            return replace(row, error=str(refusal))

    def run(self, outlines: Iterable[UtilityRow]) -> list[UtilityRow]:
        """Draw and measure outlined cells: the same figures each, whatever runs beside them."""
        finished: list[UtilityRow] = []
        ready: list[UtilityRow] = []
        drawn: list[dict[str, Floats]] = []
        for row in outlines:
            if row.error or self.fault:
                finished.append(replace(row, error=row.error or self.fault))
                continue
            try:
                drawn.append(self.received(row.cell))
                ready.append(row)
            except (RootGuardError, ArithmeticError, ValueError) as refusal:
                finished.append(replace(row, error=str(refusal)))
        if ready:
            finished += self._measure(ready, self.targets(drawn))
        return finished

    def _measure(self, rows: Sequence[UtilityRow], released: Floats) -> list[UtilityRow]:
        missing = np.isnan(released).sum(axis=(1, 2))
        whole = released[missing == 0]
        risks = self.template.risk
        figures = iter(self._bootstrap.measure(whole, risks) if len(whole) else ())
        alarms = iter(self._bootstrap.sensitivity(whole, risks))
        recalls = iter(self._by_class(whole))
        finished = []
        for row, count in zip(rows, missing.tolist(), strict=True):
            if count:
                share = f"{count} of {released[0].size}"
                text = f"the noised target has no value in {share} draws"
                finished.append(replace(row, error=text))
                continue
            (error, risk), alarm, by_class = next(figures), next(alarms), next(recalls)
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
                    by_class=by_class,
                )
            )
        return finished

    def _by_class(self, released: Floats) -> list[tuple[ClassFigure, ...]]:
        """How many of each class are found, by cell; nothing without two classes."""
        risks = self.template.risk
        if len(risks) < 2:
            return [()] * len(released)
        inside = class_numbers(risks, self.truth)
        columns = [
            [
                ClassFigure(
                    label=risk.label,
                    patients=int((inside == number).sum()),
                    recall=_rounded(one.value if one else None),
                    recall_se=_rounded(one.se if one else None),
                )
                for one in self._bootstrap.recall(released, risks, number)
            ]
            for number, risk in enumerate(risks)
        ]
        return list(zip(*columns, strict=True))


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

    def cells(self, template: str) -> Iterator[UtilityCell]:
        """Every cell of a template, in the order in which rows are written."""
        for name, budget, epsilon, config in product(
            self.mechanisms, self.budgets, self.epsilons, self.configurations
        ):
            if not has_plan(config, name, self.searched):
                continue
            yield UtilityCell(
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
        done: Mapping[UtilityCell, UtilityRow] = MappingProxyType({}),
    ) -> Iterator[UtilityRow]:
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
                known = {o.cell: done[o.cell] for o in outlines if o.done_by(done.get(o.cell))}
                found = subject.run(outline for outline in outlines if outline.cell not in known)
                known |= {row.cell: row for row in found}
                yield from (known[cell] for cell in batch)

    def _refused(self, template: Template, refusal: Exception) -> Iterator[UtilityRow]:
        roots, origin = len(Graph.of(template).roots), missing_cohort(template, self, refusal)
        for cell in self.cells(template.name):
            yield UtilityRow(cell=cell, roots=roots, **origin)


def _batches(cells: Iterable[UtilityCell], most: int) -> Iterator[list[UtilityCell]]:
    batch: list[UtilityCell] = []
    for cell in cells:
        batch.append(cell)
        searches = sum(each.config == "population" for each in batch)
        if len(batch) == most or searches == _SEARCHES:
            yield batch
            batch = []
    if batch:
        yield batch
