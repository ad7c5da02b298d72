"""The reconstruction study, against a loop that builds each person's likelihood over the grid.

Ours is all cells of a template and a mechanism at one epsilon, with the draws, the plan and the
bootstrap. The loop gets its draws for nothing and stops at the estimates; it scores 1,000 points
per person, root and cell, one log-pmf per observation, a replayed value once. It is timed on a few
of the people, and both are read per person.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np

from benchmarks.measure import Case, Contender
from rootguard import load_template
from rootguard.advice.people import synthetic_cohort
from rootguard.advice.utility import PAPER_CONFIGURATIONS
from rootguard.attacks.belief import prior
from rootguard.attacks.map import Observation, map_estimate, map_estimates
from rootguard.evaluation.rq2_reconstruction.study import AttackCell, AttackSweep, Victims
from rootguard.mechanisms import MECHANISMS, mechanism
from rootguard.mechanisms.base import Floats, Indices
from rootguard.values import MechanismName, RootName

_EPSILON = Fraction(1, 10)
_PEOPLE = 200
_FEW = 2


def reconstruction() -> Iterator[Case]:
    template = load_template("fib4")
    cohort = synthetic_cohort(template, size=_PEOPLE)
    for name in MECHANISMS:
        for repeats in (1, 20):
            sweep = AttackSweep(repeats=repeats, configurations=PAPER_CONFIGURATIONS)
            victims = Victims(template, cohort, sweep)
            cells = list(sweep.cells(template.name, name, _EPSILON))
            yield Case(
                ours=Contender(
                    name=f"{len(cells)} cells of RQ2, {name}, repeats {repeats}",
                    call=partial(victims.run, name, _EPSILON),
                    units=_PEOPLE * repeats,
                ),
                theirs=Contender(
                    name="a likelihood per person", call=_loop(victims, name, cells), units=_FEW
                ),
                aim=100,
            )
    yield from _alone()


def _alone() -> Iterator[Case]:
    """The estimates alone, of 4,000 people with nine observations each."""
    generator = np.random.default_rng(3)
    for name in MECHANISMS:
        noise = mechanism(name, _EPSILON, 1000)
        truth = generator.integers(0, 1000, size=4000)
        seen = np.column_stack([noise.draw_many(truth, generator) for _ in range(9)])
        few = [_observed(name, _EPSILON, row) for row in seen[:20]]
        yield Case(
            ours=Contender(
                name=f"4,000 estimates, q = 8, {name}",
                call=partial(map_estimates, noise, seen),
                units=len(seen),
            ),
            theirs=Contender(
                name="a likelihood per person", call=partial(_solve, few), units=len(few)
            ),
        )


def _loop(victims: Victims, name: MechanismName, cells: list[AttackCell]) -> partial[None]:
    plan = victims.plan(name, _EPSILON)
    target = max(plan.shares, key=lambda share: share.epsilon).root
    drawn: dict[tuple[RootName, bool], Indices] = {}
    for root in victims.roots:
        for own in (False, True):
            epsilon = plan[root].epsilon if own else _EPSILON
            drawn[root, own] = victims.draws(name, _EPSILON, root, epsilon, turns=17)
    work: list[tuple[list[Observation], Floats | None]] = []
    for cell in cells:
        own = cell.config == "opt"
        for root in victims.roots:
            count = victims.observations(cell, root, target)
            belief = prior(cell.prior, victims.template.roots[root]).log_density
            epsilon = plan[root].epsilon if own else _EPSILON
            people = drawn[root, own][: _FEW if count else 0, :count]
            work += [(_observed(name, epsilon, row), belief) for row in people]
    return partial(_solve_all, work)


def _observed(name: MechanismName, epsilon: Fraction, row: Indices) -> list[Observation]:
    noise, points = mechanism(name, epsilon, 1000), np.arange(1000)
    return [Observation(received=int(index), expected=points, noise=noise) for index in row]


def _solve(people: list[list[Observation]]) -> None:
    for observations in people:
        map_estimate(observations)


def _solve_all(work: list[tuple[list[Observation], Floats | None]]) -> None:
    for observations, belief in work:
        map_estimate(observations, belief)
