"""What a plan costs its owner, and what it leaves an adversary: on synthetic people, seeded.

`plan_cost` is for one plan, whatever it was made from: goals, a budget, a slider. `compare` sets
RootGuard beside independent noising in the two ways that are fair: with the same noise on each
answer, and with the same budget over all answers. Which adversary asked, and how often, is part of
every figure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

import numpy as np

from rootguard.advice.crowds import Guarding, Strategy, attack
from rootguard.advice.people import synthetic_cohort
from rootguard.advice.seeds import generator
from rootguard.advice.utility import (
    Trial,
    class_error,
    class_recalls,
    target_error,
    wrong_class_rate,
)
from rootguard.allocation import Plan
from rootguard.attacks.belief import informed_prior
from rootguard.attacks.map import map_path
from rootguard.attacks.oracle import grid, snap
from rootguard.goals import ADVANTAGE, Distance, hiding_plan, read_goals
from rootguard.graph import Graph
from rootguard.mechanisms import mechanism
from rootguard.template import Template
from rootguard.values import MechanismName, RootName

# A rate near 15 % of so many people, each noised so often, deviates by 0.05 points: less than the
# digits that are shown.
PEOPLE = 20_000
DRAWS = 20
# Whom an adversary is set on: its error is an average, so fewer are enough.
WATCHED = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanCost:
    """Errors in percent. The class figures are None without two classes."""

    target_error: float
    """How far the target is off (wMAPE)."""
    median_error: float
    """The same when everybody is answered with the population's median, which costs no privacy."""
    wrong_class_rate: float | None
    """Of all people, how many are put in another class."""
    class_error: float | None
    """RCE: the same, but each weighted by how many classes it is off, over the most possible."""
    found: Mapping[str, float | None]
    """By class: of the people in it, how many are released in it."""
    adversary: Mapping[RootName, float]
    """How far an adversary's best guess stays from each root, in its unit, on average: it has every
    answer, knows the population and the mechanism, and takes the likeliest value (MAP)."""

    def record(self) -> dict[str, object]:
        """For a program."""
        return asdict(self)


def plan_cost(template: Template, plan: Plan, *, people: int = PEOPLE, seed: int = 0) -> PlanCost:
    """Noise synthetic people under a plan, and look at both sides."""
    trial = _trial(template, people, seed)
    source = generator(seed, "plan", plan.hash)
    drawn = [trial.noised_values(plan, source) for _ in range(DRAWS)]
    released, truth = np.concatenate(trial.targets(drawn)), trial.truth
    classes = template.risk
    return PlanCost(
        target_error=target_error(released, truth),
        median_error=median_error(trial),
        wrong_class_rate=wrong_class_rate(released, truth, classes),
        class_error=class_error(released, truth, classes),
        found=class_recalls(released, truth, classes),
        adversary={
            share.root: _left(trial, plan, share.root, min(people, WATCHED), seed)
            for share in plan.shares
        },
    )


def median_error(trial: Trial) -> float:
    """The target's error in percent when everybody is answered with the median target."""
    truth = trial.truth
    return 100 * float(np.abs(truth - np.median(truth)).sum() / np.abs(truth).sum())


@lru_cache(maxsize=4)  # a slider asks about the same people again and again
def _trial(template: Template, people: int, seed: int) -> Trial:
    cohort = synthetic_cohort(template, size=people, seed=seed)
    return Trial(template, cohort, seed=seed, repeats=1)


def _left(trial: Trial, plan: Plan, name: RootName, people: int, seed: int) -> float:
    share = plan[name]
    truth = np.asarray(trial.cohort.columns[name], float)[:people]
    noise = mechanism(plan.mechanism, share.epsilon, share.domain.size)
    source = generator(seed, "watched", plan.hash, name)
    answers = noise.draw_many(snap(share.domain, truth), source)[:, None]
    belief = [informed_prior(trial.template.roots[name]).log_density]
    guessed = grid(share.domain)[map_path(noise, answers, (1,), belief)[0, 0]]
    return float(np.abs(guessed - truth).mean())


Fairness = Literal["equal noise per answer", "equal total budget"]
COMPARED: tuple[Strategy, ...] = ("repeat", "zoom", "derived")
ADVERSARIES: Mapping[str, str] = {
    "repeat": "MAP, asks for each value again and again",
    "zoom": "MAP, asks where each value lies in ever smaller windows",
    "derived": "MAP, asks for steep functions of each value",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class FairComparison:
    """Independent noising beside RootGuard after so many questions about each root.

    Errors are the median person's, in percent, averaged over the roots: larger is safer.
    """

    template: str
    epsilon: Fraction
    questions: int
    rootguard: Mapping[str, float]
    independent: Mapping[Fairness, Mapping[str, float]]
    answer_error: Mapping[str, float]
    """How far the first answer about a root is off: what the owner pays, in percent."""

    def record(self) -> dict[str, object]:
        """For a program: every figure with its adversary and the number of questions."""
        return {
            "questions_per_value": self.questions,
            "epsilon_per_value": float(self.epsilon),
            "adversaries": {name: ADVERSARIES[name] for name in self.rootguard},
            "adversary_error": {"rootguard": dict(self.rootguard)}
            | {str(how): dict(errors) for how, errors in self.independent.items()},
            "answer_error": dict(self.answer_error),
        }


def compare(
    template: Template,
    epsilon: Fraction,
    *,
    questions: int = 8,
    strategies: Sequence[Strategy] = COMPARED,
    mechanism_name: MechanismName = "geometric",
    people: int = 10,
    seed: int = 0,
) -> FairComparison:
    """Attack the same synthetic people three ways: at the same noise, the same budget, RootGuard.

    With the same budget an answer may have only a `questions`-th of epsilon.
    """
    cohort = synthetic_cohort(template, size=people, seed=seed)

    def run(guarding: Guarding, each: Fraction) -> tuple[dict[str, float], float]:
        first, last = 0.0, {}
        for strategy in strategies:
            curve = attack(
                strategy, guarding, template, cohort,
                mechanism=mechanism_name, epsilon=each, queries=questions, seed=seed,
            )  # fmt: skip
            last[str(strategy)] = 100 * float(curve.overall[-1])
            first = first or 100 * float(curve.overall[0])
        return last, first

    once, answer = run("rootguard", epsilon)
    same_noise, noisy = run("independent", epsilon)
    same_budget, noisier = run("independent", epsilon / questions)
    return FairComparison(
        template=template.name,
        epsilon=epsilon,
        questions=questions,
        rootguard=once,
        independent={"equal noise per answer": same_noise, "equal total budget": same_budget},
        answer_error={
            "rootguard": answer,
            "equal noise per answer": noisy,
            "equal total budget": noisier,
        },
    )


SCALES = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
"""How far to hide, as multiples of what was asked for or advised."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HidingChoice:
    """One way to hide values: how far, under which plan, at which cost."""

    scale: Fraction
    hide: Mapping[str, float]
    plan: Plan
    cost: PlanCost

    @property
    def worth_having(self) -> bool:
        """Whether the target is at least twice as near as the public median, which is free."""
        return self.cost.target_error <= self.cost.median_error / 2

    def record(self) -> dict[str, object]:
        """For a program."""
        return {
            "scale": float(self.scale),
            "hide": dict(self.hide),
            "budget": float(self.plan.budget),
            "cost": self.cost.record(),
            "worth_having": self.worth_having,
        }


def choices(
    template: Template,
    hide: Mapping[str, Distance] = MappingProxyType({}),
    *,
    advantage: Fraction = ADVANTAGE,
    mechanism_name: MechanismName = "geometric",
    people: int = PEOPLE,
) -> tuple[HidingChoice, ...]:
    """Nearer and further than the goals, in the same proportions; no root beyond its bounds."""
    found = []
    goals = read_goals(template, hide, advantage=advantage)
    for scale in SCALES:
        far = {
            str(goal.root): min(
                float(goal.distance * scale), template.roots[goal.root].domain.width
            )
            for goal in goals
        }
        plan = hiding_plan(template, far, advantage=advantage, mechanism_name=mechanism_name)
        cost = plan_cost(template, plan, people=people)
        found.append(HidingChoice(scale=scale, hide=far, plan=plan, cost=cost))
    return tuple(found)


def recommended(found: Sequence[HidingChoice]) -> HidingChoice:
    """The furthest that leaves a target worth having; the nearest if none does.

    Both sides count: what is hidden as far as possible, and what is still of use.
    """
    worth = [each for each in found if each.worth_having]
    return max(worth, key=lambda each: each.scale, default=found[0])


def per_root(template: Template, plan: Plan) -> Fraction:
    """A plan's budget spread evenly: what a comparison with one epsilon for all roots goes by."""
    return plan.budget / len(Graph.of(template).roots)
