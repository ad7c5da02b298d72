"""How the constants of calibrated release are chosen: from public figures, before any patient.

`python -m benchmarks.calibration_choice` draws people from eight worlds. Two are as the templates'
public figures say (on the log scale with rank correlations, or by moments and covariances), six are
not: heavier tails, looser ties, wider, narrower, a fifth of the people sick, and everybody shifted
towards illness. It chooses in two steps, by rules that no patient has part in:

1. The prior's flat and untied shares: the least error in the right worlds, without alarms. The
   error is that of the target with geometric noise and B = (2k+1) epsilon, over the best
   candidate's at each epsilon, averaged over epsilons and both worlds. Shifted people may have at
   most 1.15 times the uncalibrated error at epsilon 0.1 and 0.05: each template whose roots are
   tied, and the eight templates on average.
2. The alarms' rule, among several forms: the least such error among rules that keep the limits of
   the study in the right worlds. No worrying class is found less often than by the noise alone by
   more than 2 points at epsilon 0.05 and 10 points at 0.02, with B = (k+1) epsilon, under the
   optimal plan with exponential, Laplace and geometric noise, and under the population plan.
   Shifted people as before.

The other wrong worlds have no vote; what a choice costs there is printed. If nothing keeps the
limits, the nearest to them is taken. Ties go to the candidate that stands first.
docs/calibration.md says what was tried before.

`python -m benchmarks.calibration_choice COHORT` does the same with patients in place of worlds, to
judge what choosing is worth: half of them choose, by the study's own limits, and the other half,
which had no part in it, judges; then the other way round, over five random halvings.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rootguard.advice.people import PAPER_TEMPLATES
from rootguard.advice.seeds import generator
from rootguard.advice.utility import TURNS, Turns, class_numbers
from rootguard.allocation import Plan
from rootguard.attacks.oracle import grid, snap
from rootguard.calibration import Calibration, Level, make_plan, planning, priors, release
from rootguard.evaluation.cohorts import load_cohort
from rootguard.expressions import evaluate_many, gradient
from rootguard.graph import Graph
from rootguard.mechanisms.base import Floats, Indices
from rootguard.template import Root, Template, load_template
from rootguard.values import AllocationName, MechanismName, RootName

Columns = dict[RootName, Indices]
Mask = NDArray[np.bool_]
_C = TypeVar("_C")

EPSILONS = tuple(Fraction(text) for text in ("0.1", "0.05", "0.02", "0.01", "0.005"))
FLATS = (0.01, 0.02, 0.04, 0.08)
UNTIEDS = (0.025, 0.05, 0.1, 0.2)
PRICES = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
EVIDENCE = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)
CLOSE_CALLS = (0.0, 0.02, 0.05)
RAREST = (0.001, 0.003, 0.01)
WORTHS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
PROBABILITIES = (0.05, 0.1, 0.2, 0.3, 0.4)

RIGHT = ("figures", "moments")
WRONG = ("heavy", "loose", "wide", "narrow", "clinic", "shifted")
WORLDS = (*RIGHT, *WRONG)
SHIFTED = WORLDS.index("shifted")
MOST_SHIFTED = 1.15
TIED = ("fib4", "conicity", "anemia")
"""Templates whose roots move together: the hardest to shift."""
LIMITS = {Fraction(1, 50): 0.1, Fraction(1, 20): 0.02}
"""By how much less often a worrying class may be found."""
FALL_CELLS: tuple[tuple[MechanismName, AllocationName], ...] = (
    ("exponential", "optimal"),
    ("laplace", "optimal"),
    ("geometric", "optimal"),
    ("geometric", "population"),
)
PEOPLE, SHIFTED_PEOPLE = 2000, 8000
"""Of each world. A shifted person's FIB-4 can be a hundred: of fewer the ratio says little."""
CROWD, SICK, SEED = 60_000, {True: 3000, False: 800}, 22
REPEATS, HALVINGS = 5, 5


# --- worlds


def variant(template: Template, change: Callable[[Root], Root], ties: float = 1.0) -> Template:
    """A template with other figures for its roots and its rank correlations weakened."""
    roots = {name: change(root) for name, root in template.roots.items()}
    population = template.population
    if population is not None and population.rank_correlation is not None and ties != 1:
        ranks = np.array(population.rank_correlation) * ties
        np.fill_diagonal(ranks, 1.0)
        rows = tuple(tuple(row) for row in ranks.tolist())
        population = replace(population, rank_correlation=rows)
    return replace(template, roots=roots, population=population)


def by_moments(template: Template) -> Template:
    """The template with mean, deviation and covariance alone."""
    found = variant(template, lambda root: replace(root, median=None, log_sd=None))
    if found.population is None:
        return found
    return replace(found, population=replace(found.population, rank_correlation=None))


def spread(template: Template, factor: float) -> Template:
    """Everybody's deviations so many times as large; a uniform root is its bounds."""

    def changed(root: Root) -> Root:
        if root.sd is None or root.shape == "uniform":
            return root
        log_sd = None if root.log_sd is None else root.log_sd * factor
        return replace(root, sd=root.sd * factor, log_sd=log_sd)

    return variant(template, changed)


def towards_illness(template: Template, factor: float) -> Template:
    """Every mean one deviation towards a worrying class, every deviation `factor` times as large.

    Illness is where the target moves into a worrying class, whatever that does to the ties.
    """
    graph = Graph.of(template)
    centre = template.centre()
    point = {str(root): centre[root] for root in graph.roots}
    _, slopes = gradient(graph.in_roots(template.target.formula), point)
    upwards = template.risk[-1].worrying and not template.risk[0].worrying

    def changed(root: Root) -> Root:
        if root.mean is None or root.sd is None:
            return root
        towards = 1 if (slopes.get(root.name, 0.0) >= 0) == upwards else -1
        return replace(
            root,
            mean=root.domain.clamp(root.mean + towards * root.sd),
            sd=factor * root.sd,
            shape="normal" if root.shape == "uniform" else root.shape,
            median=None,
            log_sd=None,
        )

    return variant(template, changed)


def inhabitants(template: Template, world: str, count: int, rng: np.random.Generator) -> Columns:
    """Grid indices of people of a world."""
    match world:
        case "clinic":
            sick = inhabitants(towards_illness(template, 1), "figures", count // 5, rng)
            well = inhabitants(template, "figures", count - count // 5, rng)
            order = rng.permutation(count)
            return {root: np.concatenate([sick[root], well[root]])[order] for root in sick}
        case "moments":
            told = by_moments(template)
        case "loose":
            told = variant(template, lambda root: root, ties=0.5)
        case "wide":
            told = spread(template, 1.5)
        case "narrow":
            told = spread(template, 1 / 1.5)
        case "shifted":
            told = towards_illness(template, 2)
        case _:
            told = template
    roots = Graph.of(template).roots
    latent = priors.latent_correlation(told, roots)
    scores = rng.standard_normal((count, len(roots))) @ np.linalg.cholesky(latent).T
    if world == "heavy":  # Student's t with four degrees, in the normal scores
        scores *= np.sqrt(4 / rng.chisquare(4, size=(count, 1)))
    shares = priors.normal_shares(scores)
    with constants(Prior(flat=0.0, untied=0.0)):
        masses = [priors.marginal(told.roots[r], template.roots[r].domain).mass for r in roots]
    return {
        root: np.minimum(np.searchsorted(np.cumsum(mass), shares[:, i]), mass.size - 1)
        for i, (root, mass) in enumerate(zip(roots, masses, strict=True))
    }


# --- candidates


@dataclass(frozen=True, kw_only=True, slots=True)
class Prior:
    """Shares of the prior."""

    flat: float
    untied: float

    def __str__(self) -> str:
        return f"flat {self.flat:g}, untied {self.untied:g}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """When an alarm is kept, given p, the class's share P of the population, and the cost.

    `share`: p/P - evidence >= price * cost; `worth`: p * price >= cost; `probability`: p >= price;
    `always` and `never`. A cost of at most `close` is borne in any case but the last.
    """

    form: str
    price: float = 0.0
    evidence: float = 0.0
    rarest: float = 0.01
    close: float = 0.0

    def keeps(self, asked: "Asked") -> Mask:
        """Which alarms are kept."""
        match self.form:
            case "share":
                found = asked.likely / np.maximum(asked.share, self.rarest)
                worth = found - self.evidence >= self.price * asked.cost
            case "worth":
                worth = asked.likely * self.price >= asked.cost
            case "probability":
                worth = asked.likely >= self.price
            case "always":
                worth = np.isfinite(asked.cost)
            case _:
                return np.zeros(asked.cost.size, dtype=bool)
        possible = np.isfinite(asked.cost)
        return possible & (worth | ((asked.cost <= self.close) & (self.close > 0)))

    def __str__(self) -> str:
        return (
            f"{self.form} {self.price:g}, evidence {self.evidence:g}, rarest {self.rarest:g}, "
            f"close {self.close:g}"
        )


BY_WORLDS = Rule(form="share", price=2.0, rarest=0.003)
"""What the worlds chose, with the shares 0.02 and 0.025."""
IN_USE = Rule(
    form="share",
    price=release.ALARM_PRICE,
    evidence=release.ALARM_EVIDENCE,
    rarest=release._RAREST,
    close=release._CLOSE_CALL,
)
PRIOR_IN_USE = Prior(flat=priors.FLAT, untied=priors.UNTIED)


def prior_candidates() -> list[Prior]:
    return [Prior(flat=f, untied=u) for f, u in product(FLATS, UNTIEDS)]


def rule_candidates() -> list[Rule]:
    found = [Rule(form="never"), Rule(form="always")]
    for close in CLOSE_CALLS:
        found += [Rule(form="probability", price=p, close=close) for p in PROBABILITIES]
        found += [Rule(form="worth", price=p, close=close) for p in WORTHS]
        for price, evidence, rarest in product(PRICES, EVIDENCE, RAREST):
            rule = Rule(form="share", price=price, evidence=evidence, rarest=rarest, close=close)
            found.append(rule)
    return found


@contextmanager
def constants(prior: Prior) -> Iterator[None]:
    """A candidate's shares in place of those in use."""
    kept = priors.FLAT, release.UNTIED, release._RAREST
    _set(prior.flat, prior.untied, 1e-6)  # the floor is a rule's own
    try:
        yield
    finally:
        _set(*kept)


def _set(flat: float, untied: float, rarest: float) -> None:
    priors.FLAT, release.UNTIED, release._RAREST = flat, untied, rarest
    priors.marginal.cache_clear()
    release._alarms_of.cache_clear()
    planning._population_plan.cache_clear()


# --- measuring


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Asked:
    """Alarms that were raised: whose, and what keeping each would find, cost and release."""

    person: Indices
    target: Floats
    likely: Floats
    cost: Floats
    share: Floats


class Listening(Calibration):
    """A calibration that notes every alarm and keeps none."""

    def noted(self, noised: Columns) -> tuple[Floats, Asked]:
        """Median targets, and the alarms."""
        self._notes: list[tuple[Indices, release.Weighed]] = []
        self._seen = 0
        medians = self.targets_many(noised)
        weighed = [found for _, found in self._notes]
        shares = [np.full(found.people.size, found.alarm.share) for found in weighed]
        return medians, Asked(
            person=_joined([person for person, _ in self._notes]).astype(np.int64),
            target=_joined([w.target for w in weighed]),
            likely=_joined([w.likely for w in weighed]),
            cost=_joined([w.cost for w in weighed]),
            share=_joined(shares),
        )

    def _first_look(self, _rows: object, plain: Floats, *_: object) -> Indices:
        return np.arange(plain.size)  # nobody is settled before alarms are weighed

    def _middle(self, targets: Floats, weights: Floats, plain: Floats) -> Indices:
        found = super()._middle(targets, weights, plain)
        self._seen += len(targets)
        return found

    def _keeps(self, weighed: release.Weighed) -> Mask:
        self._notes.append((weighed.people + self._seen, weighed))
        return np.zeros(weighed.people.size, dtype=bool)


def _joined(parts: Sequence[NDArray[np.generic]]) -> Floats:
    return np.concatenate([np.empty(0), *parts])


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Cell:
    """People of one template, noised in one way: what every rule makes of them.

    `group` says which world, or patient, each belongs to.
    """

    template: Template
    plan: Plan
    true: Columns
    group: Indices
    truth: Floats
    address: tuple[str, ...]

    def noised(self) -> Columns:
        """One seeded draw of everybody's roots."""
        return {
            root: level.noise().draw_many(self.true[root], generator(SEED, root, *self.address))
            for root, level in Level.of_plan(self.plan).items()
        }

    def released(self) -> tuple[Floats, Floats, Asked]:
        """Targets by the noise alone, by the median, and the alarms."""
        noised = self.noised()
        medians, asked = Listening(self.template, Level.of_plan(self.plan)).noted(noised)
        return targets_of(self.template, noised), medians, asked


def targets_of(template: Template, indices: Columns) -> Floats:
    return targets_at(
        template, {root: grid(template.roots[root].domain)[i] for root, i in indices.items()}
    )


def targets_at(template: Template, columns: Mapping[RootName, Floats]) -> Floats:
    values = {str(root): column for root, column in columns.items()}
    return evaluate_many(Graph.of(template).in_roots(template.target.formula), values)


def without_alarms(template: Template) -> Template:
    """The template with no class marked."""
    risk = tuple(replace(one, worrying=False) for one in template.risk)
    return replace(template, risk=risk)


def plan_of(
    template: Template,
    epsilon: Fraction,
    budget: Turns,
    name: MechanismName = "geometric",
    allocation: AllocationName = "optimal",
) -> Plan:
    turns = TURNS[budget] * len(Graph.of(template).roots) + 1
    deaf = without_alarms(template)  # their rule is still to be chosen
    return make_plan(deaf, epsilon * turns, mechanism_name=name, allocation=allocation)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Errors:
    """Mean absolute errors by group over the mean target, by the noise alone and by any rule."""

    groups: int
    plain: Floats
    median: Floats
    asked: Asked
    _group: Indices = field(repr=False)
    _more: Floats = field(repr=False)

    @classmethod
    def of(cls, cell: Cell, groups: int) -> "Errors":
        plain, medians, asked = cell.released()
        sizes = np.bincount(cell.group, minlength=groups)
        pooled = groups != len(WORLDS)  # of patients, relative to all of them
        total = np.bincount(cell.group, np.abs(cell.truth), groups)
        scale = np.full(groups, np.abs(cell.truth).mean()) if pooled else total / sizes
        off = np.abs(medians - cell.truth)
        more = np.abs(asked.target - cell.truth[asked.person]) - off[asked.person]
        group = cell.group[asked.person]
        each = 100 / (sizes * scale)
        return cls(
            groups=groups,
            plain=np.bincount(cell.group, np.abs(plain - cell.truth), groups) * each,
            median=np.bincount(cell.group, off, groups) * each,
            asked=asked,
            _group=group,
            _more=more * each[group],
        )

    def under(self, rule: Rule) -> Floats:
        kept = rule.keeps(self.asked)
        return self.median + np.bincount(self._group[kept], self._more[kept], self.groups)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Falls:
    """How much less often the people of one worrying class are found than by the noise alone."""

    epsilon: Fraction
    name: str
    groups: int
    median: Floats
    asked: Asked
    _group: Indices = field(repr=False)
    _more: Floats = field(repr=False)

    @classmethod
    def of(cls, cell: Cell, number: int, epsilon: Fraction, groups: int) -> "Falls":
        """Of the people of a cell, all of whom are in the class."""
        plain, medians, asked = cell.released()
        classes = cell.template.risk
        hit = [(class_numbers(classes, t) == number).astype(float) for t in (plain, medians)]
        sizes = np.bincount(cell.group, minlength=groups).astype(float)
        each = np.divide(1, sizes, out=np.full(groups, np.nan), where=sizes > 0)
        saved = (class_numbers(classes, asked.target) == number) - hit[1][asked.person]
        group = cell.group[asked.person]
        return cls(
            epsilon=epsilon,
            name=", ".join((cell.template.name, classes[number].label, *cell.address[1:])),
            groups=groups,
            median=np.bincount(cell.group, hit[0] - hit[1], groups) * each,
            asked=asked,
            _group=group,
            _more=saved * each[group],
        )

    def under(self, rule: Rule) -> Floats:
        kept = rule.keeps(self.asked)
        found: Floats = self.median - np.bincount(self._group[kept], self._more[kept], self.groups)
        return found


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Crowd:
    """Whom a choice is made on: everybody, and for each worrying class the people in it."""

    template: Template
    everybody: Columns
    group: Indices
    truth: Floats
    sick: dict[int, tuple[Columns, Indices, Floats]]
    groups: int

    def cell(self, epsilon: Fraction) -> Cell:
        """Everybody, noised under the optimal plan."""
        return Cell(
            template=self.template,
            plan=plan_of(self.template, epsilon, "2k+1"),
            true=self.everybody,
            group=self.group,
            truth=self.truth,
            address=("errors", self.template.name, str(epsilon)),
        )

    def errors(self, epsilon: Fraction) -> Errors:
        return Errors.of(self.cell(epsilon), self.groups)

    def falls(self) -> Iterator[Falls]:
        for (name, allocation), epsilon in product(FALL_CELLS, LIMITS):
            plan = plan_of(self.template, epsilon, "k+1", name, allocation)
            for number, (true, group, truth) in self.sick.items():
                cell = Cell(
                    template=self.template,
                    plan=plan,
                    true=true,
                    group=group,
                    truth=truth,
                    address=("falls", name, allocation, str(float(epsilon))),
                )
                yield Falls.of(cell, number, epsilon, self.groups)


def made_up(template: Template) -> Crowd:
    """People of all worlds."""
    everybody, group = [], []
    sick: dict[int, list[tuple[Columns, Indices]]] = {}
    for number, world in enumerate(WORLDS):
        rng = generator(SEED, template.name, world)
        found = inhabitants(template, world, CROWD, rng)
        classes = class_numbers(template.risk, targets_of(template, found))
        count = SHIFTED_PEOPLE if number == SHIFTED else PEOPLE
        everybody.append({root: column[:count] for root, column in found.items()})
        group.append(np.full(count, number))
        for place, risk in enumerate(template.risk):
            inside = np.flatnonzero(classes == place)[: SICK[world in RIGHT]]
            # Of fewer the fall says nothing; shifted people are limited by their error.
            if risk.worrying and inside.size >= 50 and number != SHIFTED:
                chosen = {root: column[inside] for root, column in found.items()}
                sick.setdefault(place, []).append((chosen, np.full(inside.size, number)))
    people = _stacked(everybody)
    return Crowd(
        template=template,
        everybody=people,
        group=np.concatenate(group),
        truth=targets_of(template, people),
        sick={
            place: (
                _stacked([columns for columns, _ in parts]),
                np.concatenate([number for _, number in parts]),
                np.empty(0),
            )
            for place, parts in sick.items()
        },
        groups=len(WORLDS),
    )


def _stacked(parts: Sequence[Columns]) -> Columns:
    return {root: np.concatenate([part[root] for part in parts]) for root in parts[0]}


def patients(template: Template, folder: Path) -> Crowd:
    """The patients of a cohort, each noised several times."""
    cohort = load_cohort(template, folder)
    roots = Graph.of(template).roots
    columns = {str(root): np.asarray(cohort.columns[root], float) for root in roots}
    truth = evaluate_many(Graph.of(template).in_roots(template.target.formula), columns)
    true = {root: snap(template.roots[root].domain, columns[str(root)]) for root in roots}
    classes = class_numbers(template.risk, truth)
    sick = {}
    for place, risk in enumerate(template.risk):
        inside = np.flatnonzero(classes == place)
        if risk.worrying and inside.size:
            many = np.tile(inside, 2 * REPEATS)
            sick[place] = ({r: column[many] for r, column in true.items()}, many, truth[many])
    everyone = np.tile(np.arange(truth.size), REPEATS)
    return Crowd(
        template=template,
        everybody={root: column[everyone] for root, column in true.items()},
        group=everyone,
        truth=truth[everyone],
        sick=sick,
        groups=truth.size,
    )


# --- other estimators, without alarms


class MeanCalibration(Calibration):
    """The posterior mean of the target in place of its median."""

    def targets_many(self, noised: Columns) -> Floats:  # type: ignore[override]
        """Means over the same points, block by block."""
        found = []
        count = len(noised[self.roots[0]])
        for start in range(0, count, 256):
            part = [noised[root][start : start + 256] for root in self.roots]
            rows = [p.rows(i) for p, i in zip(self._posteriors, part, strict=True)]
            own = self._target([p.values[r] for p, r in zip(self._posteriors, rows, strict=True)])
            shared = np.broadcast_to(self._shared[1], (len(own), self._shared[1].size))
            targets = np.hstack([own, shared])
            weights = np.where(np.isnan(targets), 0, self._weights(rows))
            found.append((np.nan_to_num(targets) * weights).sum(axis=1) / weights.sum(axis=1))
        return np.concatenate(found)


def _by_single_medians(calibration: Calibration, noised: Columns) -> Floats:
    return targets_at(calibration.template, calibration.medians_many(noised))


Estimator = Callable[[Template, dict[RootName, Level], Columns], Floats]
ESTIMATORS: dict[str, Estimator] = {
    "median": lambda t, levels, noised: _deaf(t, levels).targets_many(noised),
    "median, 1024 points": lambda t, levels, noised: _deaf(t, levels, 1024).targets_many(noised),
    "mean": lambda t, levels, noised: MeanCalibration(t, levels).targets_many(noised),
    "medians of single roots": lambda t, levels, noised: _by_single_medians(
        _deaf(t, levels), noised
    ),
    "median, moments and covariance": lambda t, levels, noised: _deaf(
        by_moments(t), levels
    ).targets_many(noised),
}


def _deaf(
    template: Template, levels: dict[RootName, Level], points: int = release.POINTS
) -> Calibration:
    return Calibration(without_alarms(template), levels, points=points)


def say_estimators(crowds: Sequence[Crowd], say: Callable[[str], object]) -> None:
    """Mean errors in percent over the templates and everybody, at each epsilon."""
    for name, estimate in ESTIMATORS.items():
        means = []
        for epsilon in EPSILONS:
            each = []
            for crowd in crowds:
                cell = crowd.cell(epsilon)
                levels = Level.of_plan(cell.plan)
                off = np.abs(estimate(crowd.template, levels, cell.noised()) - cell.truth)
                right = slice(None) if crowd.groups != len(WORLDS) else cell.group < len(RIGHT)
                each.append(100 * off[right].mean() / np.abs(cell.truth[right]).mean())
            means.append(float(np.mean(each)))
        say(f"{name}, no alarms: " + " ".join(f"{mean:.2f}" for mean in means))


# --- choosing


Table = list[list[Errors]]
"""By template and epsilon."""


def errors_of(crowds: Sequence[Crowd]) -> Table:
    return [[crowd.errors(epsilon) for epsilon in EPSILONS] for crowd in crowds]


def by_rule(table: Table, rule: Rule) -> Floats:
    """Errors in percent: (epsilons, groups), means over the templates."""
    found: Floats = np.mean([[cell.under(rule) for cell in line] for line in table], axis=0)
    return found


def shift_excess(table: Table, rule: Rule) -> float:
    """By how much shifted people's error passes what it may be; negative if it does not."""
    tied = [PAPER_TEMPLATES.index(name) for name in TIED]
    worst = -np.inf
    for at in (EPSILONS.index(Fraction(1, 10)), EPSILONS.index(Fraction(1, 20))):
        ratios = [line[at].under(rule)[SHIFTED] / line[at].plain[SHIFTED] for line in table]
        worst = max(worst, float(np.mean(ratios)), *(float(ratios[i]) for i in tied))
    return worst - MOST_SHIFTED


def relative(errors: Floats, best: Floats, worlds: Sequence[str] = RIGHT) -> float:
    """The mean over epsilons and worlds of the errors over the best ones."""
    return float((errors / best)[:, [WORLDS.index(world) for world in worlds]].mean())


def fall_excess(falls: Sequence[Falls], rule: Rule) -> tuple[float, str]:
    """By how much the worst class of a right world passes its limit, and which it is."""
    worst = -np.inf, ""
    for one in falls:
        for world, fall in zip(WORLDS, one.under(rule).tolist(), strict=True):
            over = fall - LIMITS[one.epsilon]
            if world in RIGHT and np.isfinite(fall) and over > worst[0]:
                worst = over, f"{100 * fall:.1f} {one.name}, {world}"
    return worst


def choose_on_worlds(say: Callable[[str], object]) -> None:
    crowds = [made_up(load_template(name)) for name in PAPER_TEMPLATES]
    never = Rule(form="never")
    tables = {}
    for prior in prior_candidates():
        with constants(prior):
            tables[prior] = errors_of(crowds)
    found = {prior: by_rule(table, never) for prior, table in tables.items()}
    best = np.min(list(found.values()), axis=0)
    shifts = {prior: shift_excess(table, never) for prior, table in tables.items()}
    for prior, errors in found.items():
        say(
            f"{prior}: {relative(errors, best):.4f}, wrong worlds "
            f"{relative(errors, best, WRONG):.4f}, shifted {MOST_SHIFTED + shifts[prior]:.3f}"
        )
    limit = max(0.0, min(shifts.values()))
    prior = min((p for p in found if shifts[p] <= limit), key=lambda p: relative(found[p], best))
    say(f"chosen: {prior}")
    table = tables[prior]
    with constants(prior):
        falls = [fall for crowd in crowds for fall in crowd.falls()]
        say_estimators(crowds, say)
    rules = rule_candidates()
    errors_by = {rule: by_rule(table, rule) for rule in rules}
    best = np.min(list(errors_by.values()), axis=0)
    excess = {rule: fall_excess(falls, rule) for rule in rules}
    shifts_by = {rule: shift_excess(table, rule) for rule in rules}
    allowed = {rule: max(excess[rule][0], shifts_by[rule]) for rule in rules}
    limit = max(0.0, min(allowed.values()))
    kept = [rule for rule in rules if allowed[rule] <= limit]
    for rule in sorted(rules, key=lambda r: relative(errors_by[r], best)):
        say(
            f"{'*' if rule in kept else ' '} {rule}: {relative(errors_by[rule], best):.4f}, "
            f"wrong worlds {relative(errors_by[rule], best, WRONG):.4f}, "
            f"shifted {MOST_SHIFTED + shifts_by[rule]:.3f}, over a limit by "
            f"{100 * excess[rule][0]:.1f} ({excess[rule][1]})"
        )
    with constants(PRIOR_IN_USE):
        own = [fall for crowd in crowds for fall in crowd.falls()]
    over, where = fall_excess(own, IN_USE)
    say(
        f"in use: {PRIOR_IN_USE}; {IN_USE}: "
        f"{relative(by_rule(tables[PRIOR_IN_USE], IN_USE), best):.4f}, over a limit by "
        f"{100 * over:.1f} ({where})"
    )
    say(f"{len(kept)} of {len(rules)} rules keep the limits")
    say(f"chosen: {min(kept, key=lambda r: relative(errors_by[r], best))}")


# --- judging the choosing


def choose_on_patients(folder: Path, say: Callable[[str], object]) -> None:
    crowds = [patients(load_template(name), folder) for name in PAPER_TEMPLATES]
    never = Rule(form="never")
    rules = rule_candidates()
    measured = {}
    for prior in prior_candidates():
        with constants(prior):
            measured[prior] = errors_of(crowds)
    without = {prior: by_rule(table, never) for prior, table in measured.items()}
    falls: dict[Prior, list[Falls]] = {}
    rng = np.random.default_rng(SEED)
    count = crowds[0].groups
    judged: list[Floats] = []
    worst: list[dict[str, float]] = []
    for _ in range(HALVINGS):
        order = rng.permutation(count)
        outer = np.full((len(EPSILONS), count), np.nan)
        seen: dict[str, float] = {}
        for chooses, judges in ((order[::2], order[1::2]), (order[1::2], order[::2])):
            means = {p: e[:, chooses].mean(axis=1) for p, e in without.items()}
            prior = _least(means)
            if prior not in falls:
                with constants(prior):
                    falls[prior] = [fall for crowd in crowds for fall in crowd.falls()]
            rule = _chosen_rule(measured[prior], falls[prior], rules, chooses)
            say(f"chosen: {prior}; {rule}")
            outer[:, judges] = by_rule(measured[prior], rule)[:, judges]
            for fall in falls[prior]:
                found = fall.under(rule)[judges]
                if fall.epsilon == Fraction(1, 50) and np.isfinite(found).any():
                    # Each patient judges once in a halving; the two halves weigh alike.
                    seen[fall.name] = seen.get(fall.name, 0.0) + float(np.nanmean(found)) / 2
        judged.append(outer)
        worst.append(seen)
    ses = np.mean(judged, axis=0).std(axis=1, ddof=1) / np.sqrt(count)
    means = np.mean(judged, axis=(0, 2))
    say(
        "judged by patients who did not choose: "
        + " ".join(f"{m:.2f} ± {s:.2f}" for m, s in zip(means, ses, strict=True))
    )
    for name in worst[0]:
        each = [seen[name] for seen in worst if name in seen]
        say(f"  fall, {name}: {100 * np.mean(each):.1f}")
    everybody = np.arange(count)
    prior = _least({p: e.mean(axis=1) for p, e in without.items()})
    if prior not in falls:
        with constants(prior):
            falls[prior] = [fall for crowd in crowds for fall in crowd.falls()]
    rule = _chosen_rule(measured[prior], falls[prior], rules, everybody)
    for label, shares, one in (
        ("chosen by all patients", prior, rule),
        ("chosen by the worlds", Prior(flat=0.02, untied=0.025), BY_WORLDS),
        ("in use", PRIOR_IN_USE, IN_USE),
    ):
        if shares not in falls:
            with constants(shares):
                falls[shares] = [fall for crowd in crowds for fall in crowd.falls()]
        found = by_rule(measured[shares], one)
        strong = [fall for fall in falls[shares] if fall.epsilon == Fraction(1, 50)]
        over = {fall.name: float(np.nanmean(fall.under(one))) for fall in strong}
        dearest = max(over, key=lambda name: over[name])
        say(
            f"{label}: {shares}; {one}: "
            + " ".join(f"{mean:.2f}" for mean in found.mean(axis=1))
            + f"; largest fall {100 * over[dearest]:.1f} ({dearest})"
        )
    say_estimators(crowds, say)


def _least(means: dict[_C, Floats]) -> _C:
    best = np.min(list(means.values()), axis=0)
    return min(means, key=lambda c: float((means[c] / best).mean()))


def _chosen_rule(
    table: Table, falls: Sequence[Falls], rules: Sequence[Rule], chooses: Indices
) -> Rule:
    excess = {}
    for rule in rules:
        over = [-1.0]
        for fall in falls:
            found = fall.under(rule)[chooses]
            if (inside := found[np.isfinite(found)]).size:
                slack = 2 * inside.std() / np.sqrt(inside.size) if fall.epsilon > 0.02 else 0.0
                over.append(float(inside.mean()) - LIMITS[fall.epsilon] - slack)
        excess[rule] = max(over)
    limit = max(0.0, min(excess.values()))
    kept = [rule for rule in rules if excess[rule] <= limit]
    return _least({rule: by_rule(table, rule)[:, chooses].mean(axis=1) for rule in kept})


if __name__ == "__main__":
    os.environ["ROOTGUARD_CACHE"] = ""  # plans of constants that are not in use
    if len(sys.argv) > 1:
        choose_on_patients(Path(sys.argv[1]), print)
    else:
        choose_on_worlds(print)
