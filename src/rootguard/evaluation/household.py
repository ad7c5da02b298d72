"""What the releases of one person say about another: members of a household.

Each member has a vault and a ledger of their own, and each root is drawn once per person. Where two
members share a value (rent, household income, an address) there are then two independent draws of
one value, and their budgets add up, as in any composition. Where their values move together
(heights of siblings, a genetic risk) the draws of one are evidence about the other, even if the
other never releases anything. Both are measured with the joint attack on synthetic households.

Nothing here is a mechanism: RootGuard keeps no ledger over several people (docs/guarantees.md says
why, and what to do instead).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from rootguard.advice.seeds import generator
from rootguard.attacks.belief import Belief, PopulationPrior, informed_prior
from rootguard.attacks.joint import reconstruct
from rootguard.attacks.oracle import Query, QueryLog, Terms, direct, grid, snap
from rootguard.expressions import parse
from rootguard.mechanisms import Mechanism, mechanism
from rootguard.mechanisms.base import Floats, Indices
from rootguard.template import Population, Root, Target, Template
from rootguard.values import MechanismName, RootName

PEOPLE = 400
"""Households per figure: its error is about 4 % of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HouseholdFigure:
    """How far an adversary's best guess of one member's value stays from it, in the root's unit.

    `alone` has the member's own release, `together` that of the others as well, `others` only
    theirs, and `nothing` the population's figures.
    """

    correlation: float
    members: int
    epsilon: Fraction
    nothing: float
    others: float
    alone: float
    together: float


@dataclass(frozen=True, kw_only=True, slots=True)
class _Released:
    """What the members released: one cached index per household and member."""

    terms: Terms
    indices: dict[RootName, Indices]

    @property
    def people(self) -> int:
        return len(next(iter(self.indices.values())))

    def ask(self, question: Query) -> Indices:
        return self.indices[RootName(question.formula)]


def household_figure(
    root: Root,
    *,
    correlation: float,
    members: int = 2,
    epsilon: Fraction = Fraction(1, 100),
    mechanism_name: MechanismName = "geometric",
    people: int = PEOPLE,
    seed: int = 0,
) -> HouseholdFigure:
    """Measure one root with a normal law, whose members' values correlate pairwise by so much.

    A correlation of 1 is one value that all members share.
    """
    if root.mean is None or root.sd is None or not 0 <= correlation <= 1 or members < 2:
        raise ValueError("a household needs a root with mean and sd, two members and 0 <= r <= 1")
    source = generator(seed, "household", root.name, str(correlation), members, epsilon)
    own = source.standard_normal((people, members))
    common = source.standard_normal((people, 1))
    scores = math.sqrt(correlation) * common + math.sqrt(1 - correlation) * own
    values = np.clip(root.mean + root.sd * scores, root.domain.lower, root.domain.upper)
    noise = mechanism(mechanism_name, epsilon, root.domain.size)
    drawn = np.column_stack(
        [noise.draw_many(snap(root.domain, values[:, i]), source) for i in range(members)]
    )
    truth = values[:, 0]

    def error(guess: Floats) -> float:
        return float(np.abs(guess - truth).mean())

    def guess(seen: Sequence[int]) -> Floats:
        if correlation == 1:
            return _shared(root, noise, drawn[:, list(seen)])
        return _correlated(root, correlation, mechanism_name, epsilon, drawn, seen, seed)

    return HouseholdFigure(
        correlation=correlation,
        members=members,
        epsilon=epsilon,
        nothing=error(np.full(people, root.mean)),
        others=error(guess(range(1, members))),
        alone=error(guess((0,))),
        together=error(guess(range(members))),
    )


def _shared(root: Root, noise: Mechanism, drawn: Indices) -> Floats:
    """The posterior median of one value from independent draws of it."""
    points = grid(root.domain)
    scores = np.zeros((len(drawn), points.size))
    prior = informed_prior(replace(root, shape="normal")).log_density
    scores += 0.0 if prior is None else prior
    for column in drawn.T:
        scores += noise.log_pmf(np.arange(points.size)[None, :], column[:, None])
    return Belief.from_scores(np.broadcast_to(points, scores.shape), scores).median


def _correlated(
    root: Root,
    correlation: float,
    mechanism_name: MechanismName,
    epsilon: Fraction,
    drawn: Indices,
    seen: Sequence[int],
    seed: int,
) -> Floats:
    """The joint attack on all members, of whom only some have released anything."""
    names = [RootName(f"member_{i}") for i in range(drawn.shape[1])]
    sd = root.sd or 1.0
    rows = tuple(
        tuple(sd**2 * (1.0 if i == j else correlation) for j in range(len(names)))
        for i in range(len(names))
    )
    template = _template(root, names, rows)
    terms = Terms(template=template, mechanism=mechanism_name, epsilon=epsilon, cached=True)
    indices = {name: drawn[:, i] for i, name in enumerate(names)}
    log = QueryLog(_Released(terms=terms, indices=indices))
    for i in seen:
        log.ask(direct(names[i], root.domain))
    found = reconstruct(log, generator(seed, "attack"), prior=PopulationPrior(template, (*names,)))
    return found.median[names[0]]


def _template(
    root: Root, names: Sequence[RootName], covariance: tuple[tuple[float, ...], ...]
) -> Template:
    members = {name: replace(root, name=name, aliases=(), shape="normal") for name in names}
    return Template(
        name="household",
        title="A household",
        field="general",
        description="",
        roots=members,
        derived={},
        target=Target(name="sum", formula=parse(" + ".join(names)), unit=root.unit),
        risk=(),
        population=Population(roots=(*names,), covariance=covariance, source="synthetic"),
        sources=(),
    )
