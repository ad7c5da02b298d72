"""The paper's reconstruction study (RQ2): how near an adversary gets to the roots by asking.

The adversary asks q times and once more at the end, and takes each root's maximum a posteriori grid
point with full knowledge of the mechanism. Per-root epsilon e is matched:

- `all`: every answer is a fresh draw at e;
- `roots`: each root is drawn once at e and replayed;
- `opt`: each root is drawn once under the optimal plan for B = k * e and replayed;
- `calibrated`: as `opt`, and what is replayed is calibrated;
- `population`: as `calibrated`, under the population plan for B.

A replayed value is one likelihood factor, however often it is seen. Streams are addressed by root
and turn, not by configuration, so the first draw of `all` is the cached one of `roots`.

Who sees a calibrated release sees a function of the noised roots. One who inverts it gets back the
noised roots at best, so under `calibrated` and `population` the adversary is *given* them: no
inverter can do better, and `calibrated` is `opt` to the last bit. Two lines more: `naive` takes
what `calibrated` releases for noised values, `median` is given the noised roots of `opt` and
guesses the posterior's median. `naive` profits from public figures that the paper's priors lack
(shapes, covariance). That is no loss: with the noised roots one can calibrate and read the same.

Strategy A spends every turn on r*, the root with the most budget under `opt`, and is measured on
it; the other roots stay at the prior's guess. Strategy B observes every root q + 1 times, which is
what the published tables hold, and is measured by the mean over roots. The paper's text shares the
q queries among the k roots instead (q/k + 1 each): `Spread`.

`Reading` says what the adversary takes for the likelihood; a real one knows the mechanism, and the
published one did not.

A root's error is 100 * sum |x^ - x| / sum |x| over people, with x as it was before snapping. Priors
come from the template's population figures, never from the cohort.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import Literal, assert_never

import numpy as np

from rootguard.advice.people import Cohort
from rootguard.advice.seeds import generator
from rootguard.advice.utility import (
    CONFIGURATIONS,
    SEARCHED,
    Configuration,
    calibration_of,
    has_plan,
)
from rootguard.allocation import Plan
from rootguard.attacks.belief import PRIORS, Prior, PriorName, prior
from rootguard.attacks.map import Shape, map_paths, shape_of, truncated_shape
from rootguard.attacks.oracle import grid, snap
from rootguard.calibration import make_plan
from rootguard.errors import RootGuardError
from rootguard.evaluation.metrics import Bootstrap
from rootguard.evaluation.rq1_utility.study import DIGITS, STUDY_MECHANISMS
from rootguard.evaluation.study.rows import SweepRow, named
from rootguard.evaluation.study.runner import missing_cohort
from rootguard.graph import Graph
from rootguard.mechanisms import Mechanism, mechanism
from rootguard.mechanisms.base import Floats, Indices
from rootguard.template import Template
from rootguard.values import AllocationName, MechanismName, RootName

Strategy = Literal["A", "B"]
Reader = Literal["naive", "median"]
"""Lines beside the configurations: other ways to read the releases of `calibrated`."""
AttackConfiguration = Configuration | Reader
ATTACK_CONFIGURATIONS: tuple[AttackConfiguration, ...] = (*CONFIGURATIONS, "naive", "median")
Spread = Literal["each", "shared"]
"""Under strategy B: q queries for each root, or q queries shared among the roots in turn."""

Reading = Literal["exact", "published"]
"""What the adversary takes for the likelihood. `exact` is the mechanism's own. `published` is what
fits the published tables: bounded Laplace and staircase noise, which are clamped to the grid, are
taken for noise that is drawn again until it lies on it; and a value that is replayed counts twice
(once for the query and once for the last turn, as with q = 1), whatever q is."""

STRATEGIES: tuple[Strategy, ...] = ("A", "B")
# The paper's grid.
QUERIES = (1, 4, 8, 16)
EPSILONS = tuple(Fraction(text) for text in ("0.01", "0.05", "0.1", "0.5", "1"))
# Repeats are drawn in batches of about this many values per root and turn, to bound the memory.
_DRAWS = 1 << 18
_UNDER_OPT: tuple[AttackConfiguration, ...] = ("opt", "calibrated", "naive", "median")


@dataclass(frozen=True, kw_only=True, slots=True)
class AttackCell:
    """One figure of the study; without a template, a mean over them."""

    mechanism: MechanismName
    strategy: Strategy
    prior: PriorName
    epsilon: Fraction
    queries: int = field(metadata=named("q"))
    config: AttackConfiguration
    template: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RootFigure:
    """What a strategy makes of one root, in percent, from that many independent draws of it."""

    root: RootName
    observations: int
    wmape: float
    wmape_se: float


@dataclass(frozen=True, kw_only=True, slots=True)
class AttackRow(SweepRow):
    """What became of a cell, and everything that decided it. No figures where there is an error.

    Figures are in percent; `wmape_mc`, the Monte Carlo error, is None for a single repeat. `target`
    is r* under strategy A and empty under B. `by_root` has the roots that are not measured as well.
    """

    cell: AttackCell
    wmape: float | None = None
    wmape_se: float | None = None
    wmape_mc: float | None = field(default=None, metadata=named("wmape_mc_se"))
    target: str = ""
    by_root: tuple[RootFigure, ...] = field(default=(), metadata=named(None))
    roots: int = field(metadata=named("k"))
    spread: Spread = "each"
    reading: Reading = "exact"

    @property
    def provenance(self) -> tuple[object, ...]:
        """The same, and how the adversary asks and reads."""
        common: tuple[object, ...] = super(AttackRow, self).provenance
        return (*common, self.spread, self.reading)


@dataclass(frozen=True, kw_only=True, slots=True)
class AttackSweep:
    """Which cells to run, and how. `searched` are the mechanisms that have `population` cells."""

    seed: int = 0
    repeats: int = 1
    spread: Spread = "each"
    reading: Reading = "exact"
    mechanisms: tuple[MechanismName, ...] = STUDY_MECHANISMS
    strategies: tuple[Strategy, ...] = STRATEGIES
    priors: tuple[PriorName, ...] = PRIORS
    epsilons: tuple[Fraction, ...] = EPSILONS
    queries: tuple[int, ...] = QUERIES
    configurations: tuple[AttackConfiguration, ...] = ATTACK_CONFIGURATIONS
    searched: tuple[MechanismName, ...] = SEARCHED

    def __post_init__(self) -> None:
        if self.repeats < 1 or not all(q >= 0 for q in self.queries):
            raise ValueError("at least one repeat is needed, and no count of queries below zero")

    def __len__(self) -> int:
        """Cells per template."""
        return len(self.epsilons) * sum(
            sum(1 for _ in self.cells("", name, self.epsilons[0])) for name in self.mechanisms
        )

    def cells(self, template: str, name: MechanismName, epsilon: Fraction) -> Iterator[AttackCell]:
        """The cells that share a plan, in the order in which rows are written."""
        shared = partial(AttackCell, mechanism=name, epsilon=epsilon, template=template)
        for strategy, belief, queries, config in product(
            self.strategies, self.priors, self.queries, self.configurations
        ):
            if not has_plan(config, name, self.searched):
                continue
            yield shared(strategy=strategy, prior=belief, queries=queries, config=config)

    def run(
        self,
        templates: Iterable[Template],
        load: Callable[[Template], Cohort],
        *,
        done: Mapping[AttackCell, AttackRow] = MappingProxyType({}),
    ) -> Iterator[AttackRow]:
        """A row per cell; where a template or a cell cannot be run, rows with the reason.

        Rows in `done` are taken over if all that share their plan came from the same computation.
        """
        for template in templates:
            try:
                victims = Victims(template, load(template), self)
            except (RootGuardError, ValueError, KeyError, OSError) as refusal:
                yield from self._refused(template, refusal)
                continue
            for name, epsilon in product(self.mechanisms, self.epsilons):
                yield from victims.run(name, epsilon, done)

    def _refused(self, template: Template, refusal: Exception) -> Iterator[AttackRow]:
        roots, origin = len(Graph.of(template).roots), missing_cohort(template, self, refusal)
        for name, epsilon in product(self.mechanisms, self.epsilons):
            for cell in self.cells(template.name, name, epsilon):
                yield AttackRow(
                    cell=cell, roots=roots, spread=self.spread, reading=self.reading, **origin
                )


@dataclass(kw_only=True, slots=True)
class Tally:
    """Absolute errors of one estimator of one root, summed as batches of repeats come in."""

    by_patient: Floats
    by_repeat: list[float] = field(default_factory=list)

    def add(self, errors: Floats) -> None:
        """Take in a batch of shape (repeats, patients)."""
        self.by_patient += errors.sum(axis=0)
        self.by_repeat += errors.sum(axis=1).tolist()


EstimatorKey = tuple[RootName, PriorName, AttackConfiguration, int]
"""A root, a prior, a configuration and the number of independent draws the estimate rests on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """An estimator's error: in percent, in each bootstrap resample, and in each repeat."""

    value: float
    se: float
    resampled: Floats
    repeated: Floats


class Figures:
    """Means over estimators, each worked out once: cells that differ in q may share one."""

    def __init__(self, measured: Mapping[EstimatorKey, Measured]) -> None:
        self._measured = measured
        self._means: dict[tuple[EstimatorKey, ...], tuple[float, float, float | None]] = {}
        self._roots: dict[EstimatorKey, RootFigure] = {}

    def mean(self, keys: tuple[EstimatorKey, ...]) -> tuple[float, float, float | None]:
        """The mean error, its bootstrap standard error, and its Monte Carlo error if known."""
        if keys not in self._means:
            chosen = [self._measured[key] for key in keys]
            value, se, repeated = chosen[0].value, chosen[0].se, chosen[0].repeated
            if len(chosen) > 1:
                value = math.fsum(each.value for each in chosen) / len(chosen)
                se = float(np.mean([each.resampled for each in chosen], axis=0).std(ddof=1))
                repeated = np.mean([each.repeated for each in chosen], axis=0)
            many = len(repeated) > 1
            spread = float(repeated.std(ddof=1)) / math.sqrt(len(repeated)) if many else None
            self._means[keys] = (
                round(value, DIGITS),
                round(se, DIGITS),
                None if spread is None else round(spread, DIGITS),
            )
        return self._means[keys]

    def root(self, key: EstimatorKey) -> RootFigure:
        if key not in self._roots:
            value, se, _ = self.mean((key,))
            made = RootFigure(root=key[0], observations=key[3], wmape=value, wmape_se=se)
            self._roots[key] = made
        return self._roots[key]


def posterior_medians(noise: Mechanism, noised: Indices, log_prior: Floats | None) -> Indices:
    """The median of each noised index's posterior: the least point that half of it lies up to."""
    met, back = np.unique(noised, return_inverse=True)
    points = np.arange(noise.size)
    weights = noise.log_pmf(points[None, :], met[:, None])
    if log_prior is not None:
        weights = weights + log_prior
    below = np.cumsum(np.exp(weights - weights.max(axis=1, keepdims=True)), axis=1)
    medians: Indices = (below < below[:, -1:] / 2).sum(axis=1)
    return medians[back]


class Victims:
    """A cohort made ready: snapped roots, priors and one bootstrap for all of its cells."""

    def __init__(self, template: Template, cohort: Cohort, sweep: AttackSweep) -> None:
        self.template = template
        self.roots = Graph.of(template).roots
        self._sweep = sweep
        self._domains = {root: template.roots[root].domain for root in self.roots}
        self._points = {root: grid(domain) for root, domain in self._domains.items()}
        self._truth = {root: np.asarray(cohort.columns[root], float) for root in self.roots}
        for root, column in self._truth.items():
            if not np.isfinite(column).all():
                raise ValueError(f"some values of {root} are not numbers")
            if not np.abs(column).sum() > 0:
                raise ValueError(f"every {root} is zero, so no error can be relative to it")
        self._indices = {root: snap(self._domains[root], self._truth[root]) for root in self.roots}
        self._priors: Mapping[tuple[RootName, PriorName], Prior] = {
            (root, name): prior(name, template.roots[root])
            for root in self.roots
            for name in sweep.priors
        }
        self.patients = len(self._truth[self.roots[0]])
        self._digest = template.digest
        self._cohort = cohort
        source = generator(sweep.seed, "bootstrap", template.name)
        self._counts = Bootstrap(np.ones(self.patients), source).counts
        sizes = {root: np.abs(column) for root, column in self._truth.items()}
        self._sizes = {root: float(size.sum()) for root, size in sizes.items()}
        # A resample that happens to hold only zeros of a root has no relative error: left out.
        usable = np.all([self._counts @ size > 0 for size in sizes.values()], axis=0)
        self._counts = self._counts[usable]
        self._wholes = {root: self._counts @ size for root, size in sizes.items()}

    def plan(
        self, name: MechanismName, epsilon: Fraction, allocation: AllocationName = "optimal"
    ) -> Plan:
        """The plan for B = k * epsilon."""
        return make_plan(
            self.template, epsilon * len(self.roots), mechanism_name=name, allocation=allocation
        )

    def _plans(
        self, name: MechanismName, epsilon: Fraction, wanted: Iterable[AttackConfiguration]
    ) -> dict[AttackConfiguration, Plan]:
        """The optimal plan for all that are drawn under it, and a population plan if wanted."""
        plans = dict.fromkeys(_UNDER_OPT, self.plan(name, epsilon))
        if "population" in wanted:
            plans["population"] = self.plan(name, epsilon, "population")
        return plans

    def run(
        self,
        name: MechanismName,
        epsilon: Fraction,
        done: Mapping[AttackCell, AttackRow] = MappingProxyType({}),
    ) -> list[AttackRow]:
        """Every cell of a mechanism at an epsilon: the same figures, whatever ran before."""
        rows = [
            AttackRow(
                cell=cell,
                roots=len(self.roots),
                spread=self._sweep.spread,
                reading=self._sweep.reading,
                patients=self.patients,
                template_hash=self._digest,
                cohort=self._cohort.digest,
                synthetic=self._cohort.synthetic,
                seed=self._sweep.seed,
                repeats=self._sweep.repeats,
            )
            for cell in self._sweep.cells(self.template.name, name, epsilon)
        ]
        try:
            plans = self._plans(name, epsilon, {row.cell.config for row in rows})
            hashes = {str(config): plan.hash for config, plan in plans.items()}
            rows = [replace(row, plan_hash=hashes.get(row.cell.config, "")) for row in rows]
            known = [done[row.cell] for row in rows if row.done_by(done.get(row.cell))]
            if len(known) == len(rows):
                return known
            figures = Figures(self._measure(plans, epsilon))
        except (RootGuardError, ArithmeticError, ValueError, MemoryError) as refusal:
            error = f"{type(refusal).__name__}: {refusal}"
            return [replace(row, error=error) for row in rows]
        target = _most_budgeted(plans["opt"])
        return [self._filled(row, target, figures) for row in rows]

    def observations(self, cell: AttackCell, root: RootName, target: RootName) -> int:
        """How many independent draws of a root the adversary holds at the end of a cell."""
        match cell.strategy:
            case "A":
                seen = cell.queries + 1 if root == target else 0
            case "B" if self._sweep.spread == "each":
                seen = cell.queries + 1
            case "B":
                turns, more = divmod(cell.queries, len(self.roots))
                seen = turns + (self.roots.index(root) < more) + 1
            case _:
                assert_never(cell.strategy)
        return seen if cell.config == "all" else min(seen, 1)

    def draws(
        self, name: MechanismName, epsilon: Fraction, root: RootName, own: Fraction, *, turns: int,
        first: int = 0, rows: int | None = None,
    ) -> Indices:  # fmt: skip
        """Answers for a root, turn by turn, (repeats * patients, turns): noise at `own`.

        `all` and `roots` draw at the cell's own epsilon, the others at their plan's. The stream is
        the same and begins with the first turn, which is the same draw however many turns follow.
        """
        rows = self._sweep.repeats if rows is None else rows
        source = generator(
            self._sweep.seed, "rq2", self.template.name, name, epsilon, str(root), first
        )
        noise = mechanism(name, own, self._domains[root].size)
        truth = np.tile(self._indices[root], rows)
        return np.column_stack([noise.draw_many(truth, source) for _ in range(turns)])

    def _measure(
        self, plans: Mapping[AttackConfiguration, Plan], epsilon: Fraction
    ) -> dict[EstimatorKey, Measured]:
        best = plans["opt"]
        target = _most_budgeted(best)
        cells = list(self._sweep.cells(self.template.name, best.mechanism, epsilon))
        tallies = {
            (root, cell.prior, cell.config, self.observations(cell, root, target)): Tally(
                by_patient=np.zeros(self.patients)
            )
            for cell in cells
            for root in self.roots
        }
        batch = max(1, _DRAWS // self.patients)
        for first in range(0, self._sweep.repeats, batch):
            rows = min(batch, self._sweep.repeats - first)
            seen = self._seen(plans, epsilon, {c.config for c in cells}, first, rows)
            for alike, roots in self._alike(tallies).items():
                fresh = self._fresh(best.mechanism, epsilon, roots, alike, first, rows)
                for key, indices in (*fresh, *self._cached(plans, roots, seen)):
                    if key in tallies:
                        guessed = self._points[key[0]][indices].reshape(rows, self.patients)
                        tallies[key].add(np.abs(guessed - self._truth[key[0]]))
        for (root, belief, _, count), tally in tallies.items():
            if count == 0:
                errors = np.abs(self._priors[root, belief].guess - self._truth[root])
                tally.add(np.tile(errors, (self._sweep.repeats, 1)))
        return self._summed(tallies)

    def _seen(
        self, plans: Mapping[AttackConfiguration, Plan], epsilon: Fraction,
        wanted: Iterable[AttackConfiguration], first: int, rows: int,
    ) -> dict[AttackConfiguration, dict[RootName, Indices]]:  # fmt: skip
        """What the adversary reads under a plan: the noised roots, or for `naive` the released."""

        def noised(plan: Plan) -> dict[RootName, Indices]:
            return {
                s.root: self.draws(
                    plan.mechanism, epsilon, s.root, s.epsilon, turns=1, first=first, rows=rows
                )
                for s in plan.shares
            }

        best = plans["opt"]
        drawn = noised(best)
        seen: dict[AttackConfiguration, dict[RootName, Indices]] = {"opt": drawn}
        if "population" in wanted:
            seen["population"] = noised(plans["population"])
        if "median" in wanted:
            seen["median"] = drawn
        if "naive" in wanted:
            columns = {root: index[:, 0] for root, index in drawn.items()}
            released = calibration_of(self.template, best).release_many(columns)
            seen["naive"] = {
                root: snap(self._domains[root], column)[:, None]
                for root, column in released.items()
            }
        return seen

    def _alike(self, keys: Iterable[EstimatorKey]) -> dict[tuple[int, ...], list[RootName]]:
        """Roots by the size of their grid and, after it, how many observations are asked for."""
        wanted: dict[RootName, set[int]] = {}
        for root, _, _, count in keys:
            wanted.setdefault(root, {1}).add(max(count, 1))
        found: dict[tuple[int, ...], list[RootName]] = {}
        for root, counts in wanted.items():
            found.setdefault((self._domains[root].size, *sorted(counts)), []).append(root)
        return found

    def _fresh(
        self, name: MechanismName, epsilon: Fraction, roots: Sequence[RootName],
        alike: Sequence[int], first: int, rows: int,
    ) -> Iterator[tuple[EstimatorKey, Indices]]:  # fmt: skip
        """Estimates of roots that are `alike` from fresh draws, (repeats * patients), by estimator.

        The first observation alone is what `roots` has.
        """
        (size, *counts), beliefs = alike, self._sweep.priors
        densities = [[self._priors[root, b].log_density for b in beliefs] for root in roots]
        seen = [
            self.draws(name, epsilon, root, epsilon, turns=counts[-1], first=first, rows=rows)
            for root in roots
        ]
        noise, drawn = mechanism(name, epsilon, size), np.stack(seen)
        paths = map_paths(noise, drawn, counts, densities, shape=self._shape(noise))
        once = paths[:, :, 0]
        if self._sweep.reading == "published":
            once = self._replayed(noise, drawn[:, :, :1], densities)
        for root, path, alone in zip(roots, paths, once, strict=True):
            for belief, by_count, first_alone in zip(beliefs, path, alone, strict=True):
                yield (root, belief, "roots", 1), first_alone
                for count, indices in zip(counts, by_count, strict=True):
                    yield (root, belief, "all", count), indices

    def _shape(self, noise: Mechanism) -> Shape:
        """What the adversary takes for the mechanism."""
        return shape_of(noise) if self._sweep.reading == "exact" else truncated_shape(noise)

    def _replayed(
        self, noise: Mechanism, seen: Indices, densities: Sequence[Sequence[Floats | None]]
    ) -> Indices:
        """Estimates from one observation of each root, (roots, people, 1): (roots, priors, people).

        It is one factor of the likelihood, but two in the published reading.
        """
        times = 1 if self._sweep.reading == "exact" else 2
        again = np.repeat(seen, times, axis=2)
        found: Indices = map_paths(noise, again, (times,), densities, shape=self._shape(noise))
        return found[:, :, 0]

    def _cached(
        self,
        plans: Mapping[AttackConfiguration, Plan],
        roots: Sequence[RootName],
        seen: Mapping[AttackConfiguration, Mapping[RootName, Indices]],
    ) -> Iterator[tuple[EstimatorKey, Indices]]:
        """Estimates from what is drawn once under a plan."""
        beliefs = self._sweep.priors
        for (config, columns), root in product(seen.items(), roots):
            plan = plans[config]
            noise = plan.noise(root)
            known = [self._priors[root, belief].log_density for belief in beliefs]
            if config == "median":
                found = [posterior_medians(noise, columns[root][:, 0], each) for each in known]
            else:
                found = list(self._replayed(noise, columns[root][None], [known])[0])
            for belief, indices in zip(beliefs, found, strict=True):
                yield (root, belief, config, 1), indices
                if config == "opt":  # given the noised roots, as the best inverter would be
                    yield (root, belief, "calibrated", 1), indices

    def _summed(self, tallies: Mapping[EstimatorKey, Tally]) -> dict[EstimatorKey, Measured]:
        repeats = self._sweep.repeats
        means = np.column_stack([tally.by_patient / repeats for tally in tallies.values()])
        wholes = np.column_stack([self._wholes[root] for root, *_ in tallies])
        # Rows are estimators, so that what is said of one lies together.
        redone = np.ascontiguousarray((100 * (self._counts @ means) / wholes).T)
        errors = redone.std(axis=1, ddof=1)
        measured = {}
        for i, (key, tally) in enumerate(tallies.items()):
            whole = self._sizes[key[0]]
            measured[key] = Measured(
                value=100 * float(tally.by_patient.sum()) / repeats / whole,
                se=float(errors[i]),
                resampled=redone[i],
                repeated=100 * np.array(tally.by_repeat) / whole,
            )
        return measured

    def _filled(self, row: AttackRow, target: RootName, figures: Figures) -> AttackRow:
        cell = row.cell
        keys = tuple(
            (root, cell.prior, cell.config, self.observations(cell, root, target))
            for root in self.roots
        )
        chosen = tuple(key for key in keys if cell.strategy == "B" or key[0] == target)
        wmape, se, spread = figures.mean(chosen)
        return replace(
            row,
            wmape=wmape,
            wmape_se=se,
            wmape_mc=spread,
            target=str(target) if cell.strategy == "A" else "",
            by_root=tuple(figures.root(key) for key in keys),
        )


def _most_budgeted(plan: Plan) -> RootName:
    """r*: of roots that tie, the first."""
    return max(plan.shares, key=lambda share: share.epsilon).root
