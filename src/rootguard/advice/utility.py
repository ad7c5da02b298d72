"""How wrong a target gets, for one cohort, under each way of spending a budget and releasing.

A cell is one template, mechanism, epsilon, turn budget and configuration. The turn budget t is
k+1, 2k+1 or 3k+1 turns for k noised roots, and B = t * epsilon is spent as the configuration says:

- `all`: every release gets fresh noise at epsilon and the target is computed from the last noised
  value of each root; the earlier ones change nothing, so one draw per root at epsilon is enough;
- `roots`: each root is noised once at B / k;
- `opt`: each root is noised once under the optimal plan for B;
- `calibrated`: the very draws of `opt`, released through the population's figures (`calibration`),
  so that the two differ by calibration alone;
- `population`: noised under the plan that is best over the population, then calibrated.

Values are snapped to the grid and clamped to the bounds as in a real release; the truth they are
compared with is not. Sensitivities come from the template's population figures, never from the
cohort.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from typing import Literal, assert_never

import numpy as np

from rootguard.advice.people import Cohort
from rootguard.advice.seeds import generator
from rootguard.allocation import Plan
from rootguard.attacks.oracle import grid, snap
from rootguard.calibration import Calibration, Level, make_plan
from rootguard.calibration.priors import has_figures, people
from rootguard.expressions import evaluate_many
from rootguard.graph import Graph
from rootguard.mechanisms.base import Floats, Indices
from rootguard.template import RiskClass, Template
from rootguard.values import AllocationName, MechanismName, RootName

Configuration = Literal["all", "roots", "opt", "calibrated", "population"]
Turns = Literal["k+1", "2k+1", "3k+1"]

PAPER_CONFIGURATIONS: tuple[Configuration, ...] = ("all", "roots", "opt")
CALIBRATED: tuple[Configuration, ...] = ("calibrated", "population")
"""Those that release calibrated roots."""
CONFIGURATIONS: tuple[Configuration, ...] = (*PAPER_CONFIGURATIONS, *CALIBRATED)
TURNS: Mapping[Turns, int] = {"k+1": 1, "2k+1": 2, "3k+1": 3}
"""Adversarial queries per root before the final turn."""
SEARCHED: tuple[MechanismName, ...] = ("geometric",)
"""Whose population plans are searched for unless others are asked for: the default mechanism."""
# People over whom the population's median target is taken. They are spread evenly over it and not
# drawn, so that as many are plenty for a median.
CENSUS = 4096
_PLANS = 512  # more than the cells of one template have, so that none is searched for twice


def has_plan(
    config: str, name: MechanismName, searched: Sequence[MechanismName] = SEARCHED
) -> bool:
    """Whether a configuration is measured with a mechanism: all are, but `population`."""
    return config != "population" or name in searched


@dataclass(frozen=True, kw_only=True, slots=True)
class UtilityCell:
    """What one figure is about."""

    budget: Turns
    epsilon: Fraction
    template: str
    mechanism: MechanismName
    config: Configuration

    @classmethod
    def of(cls, row: object) -> "UtilityCell":
        """The cell of whatever has its fields, among others."""
        return cls(**{each.name: getattr(row, each.name) for each in fields(cls)})


class Trial:
    """A cohort made ready: true targets and snapped roots. Every repeat draws all the noise anew.

    `fault` says why no cell can be measured on this cohort; it is empty if all can.
    """

    def __init__(self, template: Template, cohort: Cohort, *, seed: int, repeats: int) -> None:
        if repeats < 1:
            raise ValueError("at least one repeat is needed")
        self.template = template
        self.cohort = cohort
        self.seed = seed
        self.repeats = repeats
        graph = Graph.of(template)
        self.roots = graph.roots
        self._formula = graph.in_roots(template.target.formula)
        self._domains = {root: template.roots[root].domain for root in self.roots}
        self._points = {root: grid(domain) for root, domain in self._domains.items()}
        self._columns = {root: np.asarray(cohort.columns[root], float) for root in self.roots}
        self._indices = {  # once per repeat, so that one call draws them all
            root: np.tile(snap(self._domains[root], column), repeats)
            for root, column in self._columns.items()
        }
        self.patients = len(next(iter(self._columns.values())))
        self.truth = evaluate_many(self._formula, _by_name(self._columns))
        self._plan = lru_cache(maxsize=_PLANS)(self._make_plan)
        self.fault = self._find_fault()

    def _find_fault(self) -> str:
        unusable = [root for root, column in self._columns.items() if not np.isfinite(column).all()]
        if unusable:
            return f"some values of {', '.join(unusable)} are not numbers"
        if missing := int(np.isnan(self.truth).sum()):
            return f"the true target has no value for {missing} patients"
        return "" if self.truth.any() else "every true target is zero: no error relates to that"

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

    def plan(self, cell: UtilityCell) -> Plan:
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

    def received(self, cell: UtilityCell) -> dict[str, Floats]:
        """Each root as the service receives it, repeats and patients in one row."""
        plan = self.plan(cell)
        noised = self._noised(plan, cell, self._stream(cell))
        if cell.config not in CALIBRATED:
            return _by_name({root: self._points[root][i] for root, i in noised.items()})
        return _by_name(calibration_of(self.template, plan).release_many(noised))

    def released_targets(self, cell: UtilityCell) -> Floats:
        """What a service computes from what it receives, (repeats, patients).

        Calibrated roots are those at which the target is its posterior median, so the target is
        had without finding them, but for the last rounding; where there is none, from the roots.
        """
        if cell.config not in CALIBRATED:
            found: Floats = self.targets([self.received(cell)])[0]
            return found
        plan = self.plan(cell)
        noised = self._noised(plan, cell, self._stream(cell))
        calibration = calibration_of(self.template, plan)
        wanted = calibration.targets_many(noised)
        if np.isnan(wanted).any():
            medians = _by_name(calibration.medians_many(noised))
            wanted = np.where(np.isnan(wanted), evaluate_many(self._formula, medians), wanted)
        return wanted.reshape(self.repeats, self.patients)

    def noised_values(self, plan: Plan, source: np.random.Generator) -> dict[str, Floats]:
        """Each root as it is noised under any plan, repeats and patients in one row."""
        noised = self._drawn(plan, source)
        return _by_name({root: self._points[root][i] for root, i in noised.items()})

    @staticmethod
    def _stream(cell: UtilityCell) -> Configuration:
        return "opt" if cell.config == "calibrated" else cell.config

    def _noised(
        self, plan: Plan, cell: UtilityCell, stream: Configuration
    ) -> dict[RootName, Indices]:
        source = generator(
            self.seed, cell.template, cell.mechanism, cell.epsilon, cell.budget, stream
        )
        return self._drawn(plan, source)

    def _drawn(self, plan: Plan, source: np.random.Generator) -> dict[RootName, Indices]:
        noised = {}
        for share in plan.shares:
            noise = plan.noise(share.root)
            noised[share.root] = noise.draw_many(self._indices[share.root], source)
        return noised

    def targets(self, received: Sequence[Mapping[str, Floats]]) -> Floats:
        """What a service computes, (cells, repeats, patients); NaN where there is no value."""
        columns = {root: np.concatenate([one[root] for one in received]) for root in received[0]}
        released = evaluate_many(self._formula, columns)
        return released.reshape(len(received), self.repeats, self.patients)


def _by_name(columns: Mapping[RootName, Floats]) -> dict[str, Floats]:
    return {str(root): column for root, column in columns.items()}


def calibration_of(template: Template, plan: Plan) -> Calibration:
    """How releases under a plan are calibrated."""
    return Calibration(template, Level.of_plan(plan))


def target_error(released: Floats, truth: Floats) -> float:
    """The weighted mean absolute percentage error, 100 * sum |y^ - y| / sum |y|, over repeats."""
    totals = np.abs(released - truth).sum(axis=-1)
    return 100 * float(totals.mean()) / float(np.abs(truth).sum())


def class_error(released: Floats, truth: Floats, classes: Sequence[RiskClass]) -> float | None:
    """The mean of 100 * |c(y^) - c(y)| / (C - 1); None without two classes to confuse."""
    if len(classes) < 2:
        return None
    apart = np.abs(class_numbers(classes, released) - class_numbers(classes, truth))
    totals = (apart / (len(classes) - 1)).sum(axis=-1)
    return 100 * float(totals.mean()) / len(truth)


def wrong_class_rate(released: Floats, truth: Floats, classes: Sequence[RiskClass]) -> float | None:
    """Of all people, how many percent are released in another class than their own.

    A plain count: `class_error` (RCE) weighs each by how far off it is, so that with three classes
    a neighbouring one counts half.
    """
    if len(classes) < 2:
        return None
    return 100 * float((class_numbers(classes, released) != class_numbers(classes, truth)).mean())


def class_recalls(
    released: Floats, truth: Floats, classes: Sequence[RiskClass]
) -> dict[str, float | None]:
    """By label: of the people truly in a class, how many percent are released in it.

    None where nobody is in it. Empty without two classes.
    """
    if len(classes) < 2:
        return {}
    inside, found = class_numbers(classes, truth), class_numbers(classes, released)
    recalls: dict[str, float | None] = {}
    for number, risk in enumerate(classes):
        chosen = inside == number
        same = found[..., chosen] == number
        recalls[risk.label] = 100 * float(same.mean()) if chosen.any() else None
    return recalls


def class_numbers(classes: Sequence[RiskClass], values: Floats) -> Floats:
    """The number of each value's class, from 0: how many limits it lies past."""
    numbers = np.zeros(values.shape)
    for risk in classes:
        if risk.limit is not None:
            numbers += values > risk.limit if risk.inclusive else values >= risk.limit
    return numbers
