"""What types of roots and policies for changing values buy, on synthetic people.

`python -m benchmarks.typed` prints three tables: the error of eGFR's and NAFLD's target at a budget
of 0.9 under several plans, what averaging makes of answers that are noised each time, and the cost
and error of following thirty slow readings.
"""

import argparse
from datetime import date, timedelta
from fractions import Fraction

import numpy as np

from rootguard import Guard
from rootguard.allocation import Plan, plan_at
from rootguard.attacks.map import map_estimates
from rootguard.calibration import Calibration, Level, make_plan
from rootguard.calibration.priors import people
from rootguard.expressions import evaluate_many
from rootguard.graph import Graph
from rootguard.mechanisms import mechanism
from rootguard.mechanisms.base import Floats
from rootguard.store import MemoryStore
from rootguard.template import Template, load_template, parse_template
from rootguard.values import MICRO, Principal, RootName

BUDGET = Fraction(9, 10)
TODAY: dict[str, dict[str, str]] = {
    "egfr": {"age": "0.075508", "scr": "0.334665", "female": "0.489827"},
    "nafld": {
        "age": "0.089018",
        "wt": "0.129247",
        "ht": "0.07403",
        "diabetes": "0.001",
        "ast": "0.187456",
        "alt": "0.158413",
        "plt": "0.154037",
        "alb": "0.106799",
    },
}
"""The optimal plans from before answers were planned by their differences."""


class Cohort:
    """Synthetic people of a template, and the error of its target under a plan."""

    def __init__(self, template: Template, count: int) -> None:
        self.template = template
        self.graph = Graph.of(template)
        self.indices = dict(
            zip(self.graph.roots, people(template, self.graph.roots, count), strict=True)
        )
        self.formula = self.graph.in_roots(template.target.formula)
        self.truth = self._targets(
            {
                root: np.array([template.roots[root].domain.value(int(i)) for i in indices])
                for root, indices in self.indices.items()
            }
        )

    def _targets(self, columns: dict[RootName, Floats]) -> Floats:
        return evaluate_many(self.formula, {str(root): each for root, each in columns.items()})

    def error(self, plan: Plan, *, calibrated: bool, seed: int = 1) -> float:
        """The mean absolute error of the target, over the people and one draw each."""
        generator = np.random.default_rng(seed)
        noised = {
            root: plan.noise(root).draw_many(indices, generator)
            for root, indices in self.indices.items()
        }
        if calibrated:
            calibration = Calibration(self.template, Level.of_plan(plan))
            found = calibration.targets_many(noised)
        else:
            found = self._targets(
                {
                    root: np.array([self.template.roots[root].domain.value(int(i)) for i in each])
                    for root, each in noised.items()
                }
            )
        return float(np.nanmean(np.abs(found - self.truth)))


def best_share(cohort: Cohort, flag: str) -> tuple[float, float]:
    """The flag's share of the budget that gives the least error, and that error.

    The other roots have the rest in the optimal plan's proportions. Nineteen shares are tried.
    """
    start = make_plan(cohort.template, BUDGET)
    rest = sum(share.epsilon for share in start.shares if share.root != flag)
    found = []
    for twentieths in range(1, 20):
        own = BUDGET * Fraction(twentieths, 20)
        epsilons = {
            share.root: own if share.root == flag else share.epsilon * (BUDGET - own) / rest
            for share in start.shares
        }
        rounded = {root: Fraction(int(e * MICRO), MICRO) for root, e in epsilons.items()}
        plan = plan_at(cohort.template, rounded)
        found.append((cohort.error(plan, calibrated=False), twentieths / 20))
    error, share = min(found)
    return share, error


def plans(count: int) -> list[tuple[str, str, float, float]]:
    """Template, plan, the target's error, and its ratio to the plan from before."""
    rows = []
    for name, public in (("egfr", "female"), ("nafld", "diabetes")):
        template = load_template(name)
        cohort = Cohort(template, count)
        epsilons = {RootName(root): Fraction(e) for root, e in TODAY[name].items()}
        before = cohort.error(plan_at(template, epsilons), calibrated=False)
        share, best = best_share(cohort, public)
        shown = template.with_public(public)
        public_cohort = Cohort(shown, count)
        found = {
            "before": before,
            "optimal": cohort.error(make_plan(template, BUDGET), calibrated=False),
            "optimal, calibrated": cohort.error(make_plan(template, BUDGET), calibrated=True),
            "population, calibrated": cohort.error(
                make_plan(template, BUDGET, allocation="population"), calibrated=True
            ),
            f"best of 19 splits ({share:.0%})": best,
            f"public {public}": public_cohort.error(make_plan(shown, BUDGET), calibrated=False),
            f"public {public}, calibrated": public_cohort.error(
                make_plan(shown, BUDGET), calibrated=True
            ),
        }
        rows += [(name, plan, error, error / before) for plan, error in found.items()]
    return rows


SERIES = """
name = "sugar"
title = "Sugar"
[roots.glu]
lower = 40
upper = 400
unit = "mg/dL"
series = true
moved = {moved}
[target]
name = "high"
formula = "glu"
"""
_PRICE = Fraction(1, 5)


def series(count: int, readings: int = 30) -> list[tuple[str, float, float, int]]:
    """Policy, cost in readings, mean error in mg/dL, and the most draws that anybody needed.

    A slow series: it begins at 90 to 180 mg/dL, goes up or down by 1.2 a day on average, and varies
    by 6 from day to day.
    """
    generator = np.random.default_rng(11)
    rows = []
    begin = date(2024, 1, 1)
    starts = generator.uniform(90, 180, count)
    slopes = generator.normal(0, 1.2, count)
    days = np.arange(readings)
    values = starts[:, None] + slopes[:, None] * days + generator.normal(0, 6, (count, readings))
    values = np.clip(values, 41, 399)
    for policy in ("draw", "keep", "drift", "daily"):
        template = parse_template(SERIES.format(moved=80), file="sugar.toml")
        costs, errors, most = [], [], 0
        for own in values:
            store = MemoryStore()
            for day, value in enumerate(own):
                session = Guard.open(
                    template,
                    values={"glu": float(value)},
                    budget=_PRICE,
                    store=store,
                    on_change=policy,
                    when=begin + timedelta(days=day),
                    lifetime=1000,
                )
                errors.append(abs(session.number("glu") - float(value)))
            resumed = Guard.resume(template, store=store)
            costs.append(float(resumed.guarantee().total / _PRICE))
            most = max(most, store.ledger(Principal("owner")).draws["glu"])
        rows.append((policy, float(np.mean(costs)), float(np.mean(errors)), most))
    return rows


def averaging(people_count: int = 4000) -> list[tuple[int, int, float]]:
    """Answers, how often each was asked, and the share that the likeliest answer is right of.

    Under independent noising at epsilon 0.5; RootGuard's stays at that of one answer.
    """
    generator = np.random.default_rng(3)
    rows = []
    for answers in (2, 3, 10):
        noise = mechanism("randomised-response", Fraction(1, 2), answers)
        truth = generator.integers(0, answers, (people_count, 1))
        for asked in (1, 5, 20, 100):
            seen = noise.draw_many(truth.repeat(asked, axis=1), generator)
            guessed = map_estimates(noise, seen)
            rows.append((answers, asked, float((guessed == truth[:, 0]).mean())))
    return rows


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=2048)
    parser.add_argument("--histories", type=int, default=400)
    chosen = parser.parse_args()
    print(f"{'template':9}{'plan':30}{'error':>9}{'ratio':>7}")
    for name, plan, error, ratio in plans(chosen.people):
        print(f"{name:9}{plan:30}{error:9.3f}{ratio:7.2f}")
    print(f"\n{'answers':8}{'asked':>6}{'guessed right':>15}")
    for answers, asked, right in averaging():
        print(f"{answers:<8}{asked:6d}{right:15.0%}")
    print(f"\n{'policy':8}{'cost, readings':>15}{'error, mg/dL':>14}{'most draws':>12}")
    for policy, cost, error, most in series(chosen.histories):
        print(f"{policy:8}{cost:15.1f}{error:14.2g}{most:12d}")


if __name__ == "__main__":
    main()
