"""How to choose epsilon: what a budget buys a person, and what it leaves an adversary.

For one template and each epsilon: the expected error of the target, of its risk class, and of an
adversary who knows the mechanism and the population and has asked in every turn. Everything is
computed on synthetic people drawn from the template's public figures, with the same code as the
studies; nobody's own values are needed, and none could be given.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import log2

import numpy as np

from rootguard.accounting import advantage_bound, bound_with_misses
from rootguard.advice.people import Cohort, synthetic_cohort
from rootguard.advice.seeds import generator
from rootguard.allocation import Plan
from rootguard.attacks.belief import informed_prior
from rootguard.attacks.map import map_path
from rootguard.attacks.oracle import grid
from rootguard.evaluation.rq1_utility.study import (
    CONFIGURATIONS,
    TURNS,
    Cell,
    Configuration,
    Row,
    Subject,
    Sweep,
    Turns,
    snap,
)
from rootguard.graph import Graph
from rootguard.mechanisms import mechanism
from rootguard.mechanisms.base import Floats
from rootguard.template import Template
from rootguard.values import MechanismName

PEOPLE = 400
REPEATS = 5
EPSILONS = tuple(
    Fraction(text) for text in ("0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1")
)
WORTH = 1.0
"""More budget is worth having while doubling it improves the target by this many points."""
NEAR = 10
"""Grid steps between two people whom an adversary tries to tell apart: 1 % of a root's range."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlook:
    """What one configuration gives at one epsilon. Errors in percent."""

    config: Configuration
    epsilon: Fraction
    budget: Fraction
    target_error: float
    risk_error: float | None
    adversary_error: float
    """How far an adversary's best guesses are from the roots, on average over roots."""
    advantage: float
    """The most any adversary can gain in telling apart two people who differ by 1 % in each root;
    for independent noise, after all turns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """Everything that is said about a template."""

    template: Template
    mechanism: MechanismName
    turns: int
    outlooks: tuple[Outlook, ...]
    median_error: float
    """The target's error when everybody is answered with the population's median: no privacy."""

    def of(self, config: Configuration) -> tuple[Outlook, ...]:
        """One configuration, by rising epsilon."""
        found = [outlook for outlook in self.outlooks if outlook.config == config]
        return tuple(sorted(found, key=lambda outlook: outlook.epsilon))

    @property
    def configurations(self) -> tuple[Configuration, ...]:
        """Which there are, in the usual order."""
        present = {outlook.config for outlook in self.outlooks}
        return tuple(config for config in CONFIGURATIONS if config in present)

    def enough(self, config: Configuration) -> Outlook | None:
        """From here on, twice the budget improves the target by less than a point."""
        path = self.of(config)
        for here, there in pairwise(path):
            gain = (here.target_error - there.target_error) / log2(there.epsilon / here.epsilon)
            if gain < WORTH:
                return here
        return None


def explain(
    template: Template,
    *,
    mechanism_name: MechanismName = "geometric",
    turns: Turns = "2k+1",
    epsilons: Sequence[Fraction] = EPSILONS,
    configurations: Sequence[Configuration] = CONFIGURATIONS,
    people: int = PEOPLE,
    repeats: int = REPEATS,
    seed: int = 0,
    progress: Callable[[], None] = lambda: None,
) -> Explanation:
    """Measure every configuration at every epsilon on synthetic people."""
    cohort = synthetic_cohort(template, size=people, seed=seed)
    sweep = Sweep(
        seed=seed,
        repeats=repeats,
        mechanisms=(mechanism_name,),
        epsilons=tuple(epsilons),
        budgets=(turns,),
        configurations=tuple(configurations),
    )
    subject = Subject(template, cohort, seed=seed, repeats=repeats)
    watched = _Watched(template, cohort, seed)
    outlooks = []
    for row in sweep.run([template], lambda _: cohort):
        progress()
        if row.wmape is not None:
            outlooks.append(_outlook(row, subject.plan(row.cell), watched))
    return Explanation(
        template=template,
        mechanism=mechanism_name,
        turns=TURNS[turns] * len(subject.roots) + 1,
        outlooks=tuple(outlooks),
        median_error=_median_error(subject.truth),
    )


def _median_error(truth: Floats) -> float:
    return 100 * float(np.abs(truth - np.median(truth)).sum() / np.abs(truth).sum())


def _outlook(row: Row, plan: Plan, watched: "_Watched") -> Outlook:
    cell = row.cell
    turns = TURNS[cell.budget] * len(plan.shares) + 1
    seen = TURNS[cell.budget] + 1 if cell.config == "all" else 1
    epsilons = {str(share.root): share.epsilon * seen for share in plan.shares}
    return Outlook(
        config=cell.config,
        epsilon=cell.epsilon,
        budget=cell.epsilon * turns,
        target_error=row.wmape or 0.0,
        risk_error=row.rce,
        adversary_error=watched.error(cell, plan, seen),
        advantage=advantage_bound(dict.fromkeys(epsilons, NEAR), epsilons),
    )


class _Watched:
    """Synthetic people and the adversary who watches them: the paper's MAP with its prior."""

    def __init__(self, template: Template, cohort: Cohort, seed: int) -> None:
        self._template = template
        self._seed = seed
        self._truth = {r: np.asarray(cohort.columns[r], float) for r in Graph.of(template).roots}

    def error(self, cell: Cell, plan: Plan, seen: int) -> float:
        """The mean error over roots, in percent, after so many answers about each root."""
        errors = []
        for share in plan.shares:
            root = self._template.roots[share.root]
            truth = self._truth[share.root]
            # Who inverts the calibration has the noised roots back: no more, so the same draws.
            drawn = "opt" if cell.config == "calibrated" else cell.config
            source = generator(self._seed, "explain", cell.epsilon, drawn, share.root)
            noise = mechanism(plan.mechanism, share.epsilon, share.domain.size)
            snapped = snap(share.domain, truth)
            answers = np.column_stack([noise.draw_many(snapped, source) for _ in range(seen)])
            belief = [informed_prior(root).log_density]
            guessed = grid(share.domain)[map_path(noise, answers, (seen,), belief)[0, 0]]
            errors.append(100 * float(np.abs(guessed - truth).sum() / np.abs(truth).sum()))
        return sum(errors) / len(errors)


def with_misses(
    outlooks: Iterable[Outlook], *, miss_rate: float, mentions: int
) -> Mapping[Fraction, float]:
    """The advantage bound by epsilon when a detector misses mentions at this rate."""
    return {
        outlook.epsilon: bound_with_misses(outlook.advantage, miss_rate, mentions)
        for outlook in outlooks
    }
