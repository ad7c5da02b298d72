"""What an adversary may do: ask for formulas of the roots, and keep what it is told.

An oracle answers a question with a grid index, for as many people at once as it stands for. Which
of two kinds it is is public, like the mechanism and every epsilon:

- *fresh*: each answer is computed from the true values and noised on its own range. Each is one
  more factor of the likelihood, whatever was asked before;
- *cached*: each answer is a function of one noised root vector. Once a root was asked for directly
  its noised index is known, every other answer follows from it, and there is one factor per root.

A `QueryLog` holds both to that: it checks each answer of a cached oracle against the noised roots
it knows, and multiplies only what is independent.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np

from rootguard.errors import RedrawnError
from rootguard.expressions import Node, evaluate_many, names, parse, substitute, to_text
from rootguard.graph import Graph
from rootguard.mechanisms import Mechanism, mechanism
from rootguard.mechanisms.base import Floats, Indices
from rootguard.template import Root, Template
from rootguard.values import Domain, MechanismName, RootName


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Query:
    """A formula of the roots and the public range that its answer is noised on.

    `parameters` are numbers that differ from person to person: names in the formula, one number
    each. What a person's guard is sent is `text`, with the numbers written out.
    """

    formula: str
    domain: Domain
    parameters: Mapping[str, Floats] = field(default_factory=dict)

    def text(self, person: int) -> str:
        """The formula as one person's guard receives it."""
        numbers = {name: parse(repr(float(v[person]))) for name, v in self.parameters.items()}
        return to_text(substitute(parsed(self.formula), numbers)) if numbers else self.formula

    @property
    def roots(self) -> frozenset[str]:
        return names(parsed(self.formula)) - self.parameters.keys()

    def expected(self, candidates: Mapping[str, Floats]) -> Indices:
        """The index that each candidate (people by candidates) would have without noise."""
        shape = next(iter(candidates.values())).shape
        columns = {name: candidates[name].ravel() for name in sorted(self.roots)}
        for name, numbers in self.parameters.items():
            columns[name] = np.repeat(numbers, shape[1])
        return snap(self.domain, evaluate_many(parsed(self.formula), columns)).reshape(shape)


@lru_cache(maxsize=1024)
def parsed(formula: str) -> Node:
    """The formula as a tree; parsing again for every person would take most of the time."""
    return parse(formula)


def snap(domain: Domain, values: Floats) -> Indices:
    """`Domain.nearest` for many values; where there is no value (NaN), the lower end."""
    steps = (np.clip(values, domain.lower, domain.upper) - domain.lower) / domain.step
    nearest = np.minimum(np.floor(np.nan_to_num(steps) + 0.5), domain.size - 1)
    return nearest.astype(np.int64)


def direct(root: RootName, domain: Domain) -> Query:
    """Ask for the root itself."""
    return Query(formula=root, domain=domain)


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """What is public about how answers are made: the template, the noise and its price.

    Fresh answers cost `epsilon` each; a cached oracle noised each root once at `epsilon`, or at
    what `epsilons` says.
    """

    template: Template
    mechanism: MechanismName
    epsilon: Fraction
    cached: bool
    epsilons: Mapping[RootName, Fraction] = field(default_factory=dict)

    @property
    def roots(self) -> tuple[RootName, ...]:
        """What is noised, or computed from."""
        return Graph.of(self.template).roots

    def domain(self, root: RootName) -> Domain:
        """A root's public bounds and grid."""
        return self.template.roots[root].domain

    def noise(self, domain: Domain) -> Mechanism:
        """The noise of a fresh answer on its own range."""
        return mechanism(self.mechanism, self.epsilon, domain.size)

    def noise_of(self, question: Query) -> Mechanism:
        """The noise of a fresh answer: of one on a line, or of an answer to yes or no."""
        root = self.template.roots.get(RootName(question.formula))
        if root is None or (root.type.on_a_line and not root.public):
            return self.noise(question.domain)
        return self._own_noise(root, self.epsilon)

    def root_noise(self, root: RootName) -> Mechanism:
        """The noise of a root's one draw."""
        epsilon = self.epsilons.get(root, self.epsilon)
        return self._own_noise(self.template.roots[root], epsilon)

    def _own_noise(self, root: Root, epsilon: Fraction) -> Mechanism:
        return mechanism(self.mechanism_of(root), epsilon, root.domain.size, root.type.distances)

    def mechanism_of(self, root: Root) -> MechanismName:
        """How a root is noised, by its name; "public" if it is not."""
        return "public" if root.public else root.type.mechanism(self.mechanism)


class Oracle(Protocol):
    """Whatever answers for a number of people."""

    @property
    def terms(self) -> Terms:
        """What is public about it."""
        ...

    @property
    def people(self) -> int:
        """How many people it answers for."""
        ...

    def ask(self, question: Query) -> Indices:
        """One grid index per person, on the question's range."""
        ...


class OnePerson:
    """An oracle from a plain function of formula text and domain: a guard as it is deployed."""

    def __init__(self, terms: Terms, answer: Callable[[str, Domain], int]) -> None:
        self.terms = terms
        self.people = 1
        self._answer = answer

    def ask(self, question: Query) -> Indices:
        return np.array([self._answer(question.text(0), question.domain)], np.int64)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Exchange:
    """One question and what each person's guard answered."""

    question: Query
    received: Indices


class QueryLog:
    """Everything an adversary was told, and what of it counts."""

    def __init__(self, oracle: Oracle, exchanges: Sequence[Exchange] = ()) -> None:
        self.oracle = oracle
        self.terms = oracle.terms
        self.people = oracle.people
        self.exchanges: list[Exchange] = []
        self._noised: dict[str, Indices] = {}
        for exchange in exchanges:
            self.add(exchange)

    def ask(self, question: Query) -> Exchange:
        exchange = Exchange(question=question, received=self.oracle.ask(question))
        self.add(exchange)
        return exchange

    def add(self, exchange: Exchange) -> None:
        """Keep what was told, perhaps to somebody else."""
        question = exchange.question
        if self.terms.cached:
            if question.formula in self.terms.template.roots and question.formula in question.roots:
                self._noised.setdefault(question.formula, exchange.received)
            self._check(exchange)
        self.exchanges.append(exchange)

    def _check(self, exchange: Exchange) -> None:
        """An answer that does not follow from the noised roots means that something was redrawn."""
        question = exchange.question
        if not question.roots <= self._noised.keys():
            raise RedrawnError("ask for the roots themselves first: all else follows from them")
        follows = question.expected(self._as_columns(question))[:, 0]
        if not np.array_equal(follows, exchange.received):
            raise RedrawnError("an answer does not follow from the noised roots: it was redrawn")

    def _as_columns(self, question: Query) -> dict[str, Floats]:
        return {
            name: grid(self.terms.domain(RootName(name)))[self._noised[name]][:, None]
            for name in question.roots
        } or {"": np.zeros((self.people, 1))}

    def factors(self, root: RootName) -> int:
        """How many independent likelihood factors bear on a root."""
        if self.terms.cached:
            return int(root in self._noised)
        return sum(root in exchange.question.roots for exchange in self.exchanges)

    def log_likelihood(self, candidates: Mapping[str, Floats]) -> Floats:
        """The log-probability of all answers about these roots and no others, per candidate.

        `candidates` gives each root an array of people by candidates.
        """
        score = np.zeros(next(iter(candidates.values())).shape)
        if self.terms.cached:
            for name, values in candidates.items():
                if name in self._noised:
                    root = RootName(name)
                    score += self.terms.root_noise(root).log_pmf(
                        snap(self.terms.domain(root), values), self._noised[name][:, None]
                    )
            return score
        expected: dict[int, Indices] = {}  # a question that is repeated is evaluated once
        for exchange in self.exchanges:
            question = exchange.question
            if not question.roots <= candidates.keys():
                continue
            if id(question) not in expected:
                expected[id(question)] = question.expected(candidates)
            noise = self.terms.noise_of(question)
            score += noise.log_pmf(expected[id(question)], exchange.received[:, None])
        return score


def grid(domain: Domain) -> Floats:
    """Every grid point, as `Domain.value` gives them; the last is the upper bound itself."""
    points: Floats = domain.lower + np.arange(domain.size, dtype=np.float64) * domain.step
    points[-1] = domain.upper
    return points
