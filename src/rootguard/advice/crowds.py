"""Every adversary against independent noising and against RootGuard, for whole cohorts, seeded.

`CrowdNoising` answers each question afresh for everybody in a cohort, `CrowdVault` from one noised
root vector per person, and `CrowdCalibrated` from what calibration makes of that vector: there the
adversaries take released values for noised ones. (One who inverts the calibration has at best the
noised roots, and so is an adversary of `CrowdVault`.) Streams are addressed by template, question
and how often it was asked, so the first answer about a root is the same draw in all three, before
any calibration: they part with the second.

Reconstruction error is relative, |estimate - truth| / |truth|, and the truth is the person's own
value, not its grid point.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, get_args

import numpy as np

from rootguard.advice.people import Cohort
from rootguard.advice.seeds import generator
from rootguard.attacks.derived import average, collude, derived, repeat, zoom
from rootguard.attacks.joint import formulas, joint, population_repeat
from rootguard.attacks.oracle import (
    OnePerson,
    Query,
    QueryLog,
    Terms,
    direct,
    grid,
    parsed,
    snap,
)
from rootguard.calibration import Calibration, Level
from rootguard.expressions import evaluate, evaluate_many, parse
from rootguard.mechanisms import Mechanism
from rootguard.mechanisms import mechanism as mechanism_of
from rootguard.mechanisms.base import Floats, Indices
from rootguard.rng import SECURE, Randomness
from rootguard.session import Session
from rootguard.template import Template
from rootguard.values import Domain, MechanismName, RootName, RootTypeName

Strategy = Literal["repeat", "derived", "zoom", "joint", "collusion", "posterior"]
Guarding = Literal["independent", "rootguard", "calibrated"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)

_SINGLE: Mapping[str, Callable[[QueryLog, RootName, int], Iterator[Floats]]] = {
    "repeat": repeat,
    "derived": derived,
    "zoom": zoom,
    "collusion": collude,
}


class IndependentNoising:
    """A stateless sanitizer: computes every answer from the true values and noises it afresh.

    It is what RootGuard is compared with. It needs the true values for as long as it answers, which
    RootGuard does without: use it on published or synthetic people only.
    """

    def __init__(
        self,
        values: Mapping[str, float],
        epsilon: Fraction,
        *,
        mechanism_name: MechanismName = "geometric",
        source: Randomness = SECURE,
    ) -> None:
        self._values = dict(values)
        self._mechanism_name = mechanism_name
        self._source = source
        self._asked: dict[tuple[str, Domain], tuple[int, Mechanism]] = {}
        self.epsilon = epsilon

    def release(self, formula: str, domain: Domain) -> int:
        """The grid index of a noised answer, on the answer's own public domain."""
        asked = (formula, domain)
        if asked not in self._asked:
            truth = domain.nearest(evaluate(parse(formula), self._values))
            noise = mechanism_of(self._mechanism_name, self.epsilon, domain.size)
            self._asked[asked] = truth, noise
        truth, noise = self._asked[asked]
        return noise.draw(truth, self._source)


class CrowdNoising:
    """Independent noising of a cohort: fresh noise on every answer."""

    def __init__(
        self,
        template: Template,
        cohort: Cohort,
        *,
        mechanism: MechanismName,
        epsilon: Fraction,
        seed: int,
    ) -> None:
        self.terms = Terms(template=template, mechanism=mechanism, epsilon=epsilon, cached=False)
        self.people = len(cohort)
        self._columns = cohort.columns
        self._seed = seed
        self._asked: Counter[str] = Counter()
        self._begin()

    def _begin(self) -> None:
        """What has to happen before the first question: nothing, since nothing is remembered."""

    def ask(self, question: Query) -> Indices:
        """Computed from the truth, noised on the question's range."""
        columns = {n: np.asarray(c) for n, c in self._columns.items() if n in question.roots}
        truth = _answers(question, {str(name): column for name, column in columns.items()})
        address = (self.terms.template.name, self.terms.mechanism, self.terms.epsilon)
        stream = generator(self._seed, *address, question.formula, self._asked[question.formula])
        self._asked[question.formula] += 1
        return self.terms.noise_of(question).draw_many(truth, stream)


class CrowdVault(CrowdNoising):
    """RootGuard over a cohort: each root is noised once, and every answer is computed from that."""

    def _begin(self) -> None:
        # The first answer about a root is the same draw as under independent noising, so that the
        # two differ by what follows and not by luck.
        roots = {root: direct(root, self.terms.domain(root)) for root in self.terms.roots}
        noised = {root: super(CrowdVault, self).ask(query) for root, query in roots.items()}
        self.terms = replace(self.terms, cached=True)
        self._shown = self._values(noised)

    def _values(self, noised: Mapping[RootName, Indices]) -> dict[str, Floats]:
        """What answers are computed from, given the noised roots."""
        return {root: grid(self.terms.domain(root))[index] for root, index in noised.items()}

    def ask(self, question: Query) -> Indices:
        """A function of the noised roots: no draw is made."""
        return _answers(question, self._shown)


class CrowdCalibrated(CrowdVault):
    """RootGuard over a cohort, with calibrated releases, read on the roots' own grids."""

    def _values(self, noised: Mapping[RootName, Indices]) -> dict[str, Floats]:
        terms = self.terms
        levels = {
            root: Level(
                domain=terms.domain(root),
                mechanism=terms.mechanism_of(terms.template.roots[root]),
                epsilon=terms.epsilon,
                distances=terms.template.roots[root].type.distances,
            )
            for root in noised
        }
        released = Calibration(terms.template, levels).release_many(noised)
        return super()._values(
            {root: snap(terms.domain(root), column) for root, column in released.items()}
        )


_GUARDS: Mapping[Guarding, type[CrowdNoising]] = {
    "independent": CrowdNoising,
    "rootguard": CrowdVault,
    "calibrated": CrowdCalibrated,
}


def _answers(question: Query, columns: Mapping[str, Floats]) -> Indices:
    values = {name: column for name, column in columns.items() if name in question.roots}
    return snap(
        question.domain, evaluate_many(parsed(question.formula), {**values, **question.parameters})
    )


def session_oracle(session: Session, template: Template) -> OnePerson:
    """A real session as an oracle: the adversary sees what a service would."""
    promised = session.guarantee().roots
    epsilons = {RootName(root.root): root.epsilon for root in promised}
    # Those of answers follow from their types; what is on a line has one mechanism.
    (mechanism,) = {root.mechanism for root in promised if root.type.on_a_line} or {"geometric"}

    def answer(formula: str, domain: Domain) -> int:
        released = session.number(formula) if formula in epsilons else session.derive(formula)
        return domain.nearest(released)

    terms = Terms(
        template=template,
        mechanism=mechanism,  # type: ignore[arg-type]  # a guarantee prints it as text
        epsilon=max(epsilons.values()),
        cached=True,
        epsilons=epsilons,
    )
    return OnePerson(terms, answer)


def noising_oracle(
    noising: IndependentNoising, template: Template, mechanism: MechanismName
) -> OnePerson:
    """A stateless sanitizer as an oracle."""
    terms = Terms(template=template, mechanism=mechanism, epsilon=noising.epsilon, cached=False)
    return OnePerson(terms, noising.release)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Curve:
    """Estimates after each number of queries: per root an array of queries by people.

    `queries` counts the questions about each root (for `joint`, about all of them together) and
    `factors` the independent likelihood factors that bear on each in the end.
    """

    strategy: Strategy
    queries: tuple[int, ...]
    estimates: Mapping[RootName, Floats]
    truth: Mapping[RootName, Floats]
    factors: Mapping[RootName, int]
    types: Mapping[RootName, RootTypeName] = field(default_factory=dict)

    def errors(self, root: RootName) -> Floats:
        """Relative errors, queries by people; of a day the days, of an answer 1 if it is wrong."""
        truth = self.truth[root]
        away: Floats = np.abs(self.estimates[root] - truth)
        match self.types.get(root, "number"):
            case "date":
                return away
            case "boolean" | "category":
                return (away >= 0.5).astype(np.float64)  # answers are counted 0, 1, 2, ...
            case "count":
                return away / np.maximum(np.abs(truth), 1)
            case "number":
                found: Floats = away / np.abs(truth)
                return found

    def medians(self, root: RootName) -> Floats:
        """The median person's error after each number of queries; of answers the share wrong."""
        errors = self.errors(root)
        answers = self.types.get(root) in ("boolean", "category")
        found: Floats = errors.mean(axis=1) if answers else np.median(errors, axis=1)
        return found

    def wmape(self, root: RootName) -> Floats:
        """Sum of absolute errors over sum of absolute values, after each number of queries."""
        truth = self.truth[root]
        found: Floats = np.abs(self.estimates[root] - truth).sum(axis=1) / np.abs(truth).sum()
        return found

    @property
    def overall(self) -> Floats:
        """The mean over roots of the median person's error, after each number of queries.

        Over days alone where there are only days: they are no shares.
        """
        shares = [root for root in self.estimates if self.types.get(root) != "date"]
        found: Floats = np.mean([self.medians(r) for r in shares or self.estimates], axis=0)
        return found

    @property
    def in_days(self) -> bool:
        """Whether all that was guessed are days."""
        return all(self.types.get(root) == "date" for root in self.estimates)


def attack(
    strategy: Strategy,
    guarding: Guarding,
    template: Template,
    cohort: Cohort,
    *,
    mechanism: MechanismName = "exponential",
    epsilon: Fraction = Fraction(1, 10),
    queries: int = 8,
    seed: int = 0,
) -> Curve:
    """Run one adversary against one way of guarding a cohort."""
    oracle = _GUARDS[guarding](template, cohort, mechanism=mechanism, epsilon=epsilon, seed=seed)
    roots = oracle.terms.roots
    truth = {root: np.asarray(cohort.columns[root], np.float64) for root in roots}
    estimates: dict[RootName, Floats] = {}
    factors: dict[RootName, int] = {}
    asked = tuple(range(1, queries + 1))
    if strategy in ("joint", "posterior"):
        key = int(generator(seed, template.name, "gibbs").integers(2**63))
        transcript = QueryLog(oracle)
        run = joint if strategy == "joint" else population_repeat
        found = list(run(transcript, queries, lambda: np.random.default_rng(key)))
        for root in roots:
            estimates[root] = np.array([each.median[root] for each in found])
            factors[root] = transcript.factors(root)
        if strategy == "joint":
            each_round = len(roots) + len(formulas(template))
            asked = tuple(len(roots) + each_round * number for number in range(queries))
    else:
        for root in roots:
            transcript = QueryLog(oracle)
            ask = _SINGLE[strategy] if template.roots[root].type.on_a_line else average
            estimates[root] = np.array(list(ask(transcript, root, queries)))
            factors[root] = transcript.factors(root)
    return Curve(
        strategy=strategy,
        queries=asked,
        estimates=estimates,
        truth=truth,
        factors=factors,
        types={root: template.roots[root].type.name for root in roots},
    )
