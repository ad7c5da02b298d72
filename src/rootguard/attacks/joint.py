"""Joint reconstruction: formulas of several roots, combined over all roots at once.

Besides the roots the adversary asks for the target and for every derived value, each on its own
range. Their likelihood does not fall apart into roots, so it samples: one root at a time from its
exact conditional distribution over the grid, given the others (Gibbs). The estimate of a root is
the median, or the mean, of the average of those conditionals, which is smoother than the samples
themselves. A coordinate search for the mode would stick: the likelihood has ridges along which no
single root can move.

With a `PopulationPrior` the roots' covariance joins in. Against cached answers the likelihood holds
one factor per root whatever else was asked, so the same chance gives the same estimate to the
last bit.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from rootguard.attacks.belief import Belief, PopulationPrior
from rootguard.attacks.oracle import Query, QueryLog, direct, grid, parsed
from rootguard.errors import DomainError
from rootguard.expressions import Interval, bounds, names, to_text
from rootguard.graph import Graph
from rootguard.mechanisms.base import Floats, Indices
from rootguard.template import Template
from rootguard.values import Domain, RootName

Chance = Callable[[], np.random.Generator]
"""Gives the sampler's own randomness, the same from its start each time it is called."""

# Conditional distributions are averaged, not samples, so that few sweeps give a smooth estimate;
# the walk starts at each root's own mode, so that little of it is thrown away.
SWEEPS = 40
BURN_IN = 10


def formulas(template: Template) -> list[Query]:
    """The target and the derived values in terms of roots, on ranges from their bounds."""
    graph = Graph.of(template)
    box = {
        str(root): Interval(template.roots[root].domain.lower, template.roots[root].domain.upper)
        for root in graph.roots
    }
    size = max(template.roots[root].domain.size for root in graph.roots)
    found = []
    for node in graph.order:
        if node.formula is None:
            continue
        formula = graph.in_roots(node.formula)
        reach = bounds(formula, {name: box[name] for name in names(formula)})
        try:
            domain = Domain(lower=reach.lower, upper=reach.upper, size=size)
        except DomainError:
            continue  # a formula without a finite range cannot be noised on it
        found.append(Query(formula=to_text(formula), domain=domain))
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Reconstruction:
    """What the adversary believes of each root."""

    beliefs: Mapping[RootName, Belief]

    @property
    def median(self) -> dict[RootName, Floats]:
        return {root: belief.median for root, belief in self.beliefs.items()}

    @property
    def mean(self) -> dict[RootName, Floats]:
        return {root: belief.mean for root, belief in self.beliefs.items()}


def reconstruct(
    log: QueryLog,
    generator: np.random.Generator,
    *,
    prior: PopulationPrior | None = None,
    sweeps: int = SWEEPS,
    burn_in: int = BURN_IN,
) -> Reconstruction:
    """Sample all roots from their joint posterior and average the conditionals."""
    roots = log.terms.roots
    people = np.arange(log.people)
    points = {root: grid(log.terms.domain(root)) for root in roots}
    meshes = {root: np.broadcast_to(p, (log.people, p.size)) for root, p in points.items()}
    alone = {root: log.log_likelihood({root: meshes[root]}) for root in roots}
    shared = _SharedLikelihood(log)
    state = {
        root: np.take_along_axis(meshes[root], alone[root].argmax(axis=1)[:, None], 1)[:, 0]
        for root in roots
    }
    totals = {root: np.zeros(meshes[root].shape) for root in roots}
    for sweep in range(sweeps):
        for root in roots:
            score = alone[root] + shared.given(root, meshes[root], state)
            if prior is not None:
                score += prior.log_density(root, meshes[root], state)
            weights = Belief.from_scores(meshes[root], score).weights
            chance = generator.random(log.people)[:, None]
            drawn = (np.cumsum(weights, axis=1) < chance).sum(axis=1)
            state[root] = meshes[root][people, np.minimum(drawn, weights.shape[1] - 1)]
            if sweep >= burn_in:
                totals[root] += weights
    return Reconstruction(
        beliefs={
            root: Belief(mesh=meshes[root], weights=totals[root] / (sweeps - burn_in))
            for root in roots
        }
    )


def joint(
    log: QueryLog,
    rounds: int,
    chance: Chance,
    *,
    prior: PopulationPrior | None = None,
) -> Iterator[Reconstruction]:
    """The reconstruction after each round: every root, the target and every derived value.

    The first round asks for the roots alone.
    """
    roots = log.terms.roots
    plain = [direct(root, log.terms.domain(root)) for root in roots]
    everything = [*plain, *formulas(log.terms.template)]
    for number in range(rounds):
        for question in everything if number else plain:
            log.ask(question)
        yield reconstruct(log, chance(), prior=prior)


def population_repeat(log: QueryLog, rounds: int, chance: Chance) -> Iterator[Reconstruction]:
    """Every root, again and again, read with the population's covariance where there is one."""
    roots = log.terms.roots
    template = log.terms.template
    prior = None if template.population is None else PopulationPrior(template, roots)
    for _ in range(rounds):
        for root in roots:
            log.ask(direct(root, log.terms.domain(root)))
        yield reconstruct(log, chance(), prior=prior)


class _SharedLikelihood:
    """The likelihood of questions about several roots: repeated ones are evaluated once."""

    def __init__(self, log: QueryLog) -> None:
        self._terms = log.terms
        self._questions: dict[str, tuple[Query, list[Indices]]] = {}
        if log.terms.cached:
            return  # they follow from the noised roots and add nothing
        for exchange in log.exchanges:
            question = exchange.question
            if len(names(parsed(question.formula))) > 1:
                entry = self._questions.setdefault(question.formula, (question, []))
                entry[1].append(exchange.received)

    def given(self, root: RootName, mesh: Floats, state: Mapping[RootName, Floats]) -> Floats:
        """The log-likelihood of each candidate for one root while the others stay."""
        score = np.zeros(mesh.shape)
        for question, answers in self._questions.values():
            if root not in question.roots:
                continue
            columns = {
                name: mesh
                if name == root
                else np.broadcast_to(state[RootName(name)][:, None], mesh.shape)
                for name in question.roots
            }
            expected = question.expected(columns)
            noise = self._terms.noise(question.domain)
            for received in answers:
                score += noise.log_pmf(expected, received[:, None])
        return score
