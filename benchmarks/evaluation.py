"""The RQ1 sweep, against the plain loop over patients that one would write first.

A unit is one patient in one cell. Ours is a template's whole sweep as in the paper, everything
included: plans, draws, targets, both metrics and 1,000 bootstrap resamples. The loop is timed on a
sample (one cell per configuration, some of the patients): it draws each root with one
`Generator.choice` over 1,000 weights and solves the allocation with SLSQP once per patient, whose
objective is the expected error as the paper writes it, a sum over the grid. It is spared the
bootstrap and the risk classes.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np
from scipy.optimize import minimize

from benchmarks.measure import Case, Contender
from rootguard import Template, load_template
from rootguard.advice.people import Cohort
from rootguard.advice.utility import PAPER_CONFIGURATIONS
from rootguard.allocation import EPSILON_MIN, sensitivities
from rootguard.evaluation.cohorts import load_cohort
from rootguard.evaluation.rq1_utility.study import PAPER_MECHANISMS, Sweep
from rootguard.expressions import evaluate
from rootguard.graph import Graph
from rootguard.mechanisms.base import Floats

_TEMPLATES = ("homa", "fib4")
_SAMPLE = 25
_EPSILON = 0.1
_AIM = 300.0


def evaluation() -> Iterator[Case]:
    sweep = Sweep(mechanisms=PAPER_MECHANISMS, configurations=PAPER_CONFIGURATIONS)
    for name in _TEMPLATES:
        template = load_template(name)
        cohort = load_cohort(template, None)
        ours, theirs = partial(_sweep, sweep, template, cohort), partial(_loop, template, cohort)
        assert abs(ours() / theirs() - 1) < 0.5  # the two compute the same thing, up to the noise
        yield Case(
            ours=Contender(
                name=f"bench rq1, {name}, 270 cells",
                call=ours,
                units=len(sweep) * len(cohort.ids),
            ),
            theirs=Contender(name="a loop over patients", call=theirs, units=3 * _SAMPLE),
            aim=_AIM,
        )


def _sweep(sweep: Sweep, template: Template, cohort: Cohort) -> float:
    """The mean wMAPE of the cells that the loop samples."""
    rows = list(sweep.run([template], lambda _: cohort))
    epsilon = Fraction(str(_EPSILON))
    sampled = [
        row
        for row in rows
        if row.cell.epsilon == epsilon
        and row.cell.budget == "2k+1"
        and row.cell.mechanism == "exponential"
    ]
    return sum(row.wmape or 0.0 for row in sampled) / len(sampled)


def _loop(template: Template, cohort: Cohort) -> float:
    generator = np.random.default_rng(4)
    graph = Graph.of(template)
    formula = graph.in_roots(template.target.formula)
    budget = (2 * len(graph.roots) + 1) * _EPSILON
    found = []
    for config in ("all", "roots", "opt"):
        wrong = size = 0.0
        for patient in range(_SAMPLE):
            truth = {str(root): float(cohort.columns[root][patient]) for root in graph.roots}
            if config == "opt":
                epsilons = _slsqp(template, graph, budget)
            else:
                each = _EPSILON if config == "all" else budget / len(graph.roots)
                epsilons = np.full(len(graph.roots), each)
            noised = {}
            for root, epsilon in zip(graph.roots, epsilons, strict=True):
                domain = template.roots[root].domain
                points = np.arange(domain.size)
                weights = np.exp(-epsilon / 2 * np.abs(points - domain.nearest(truth[root])))
                index = generator.choice(domain.size, p=weights / weights.sum())
                noised[str(root)] = domain.value(int(index))
            target = evaluate(formula, truth)
            wrong += abs(evaluate(formula, noised) - target)
            size += abs(target)
        found.append(100 * wrong / size)
    return sum(found) / len(found)


def _slsqp(template: Template, graph: Graph, budget: float) -> Floats:
    weights = sensitivities(template, graph)
    domains = [template.roots[root].domain for root in graph.roots]
    products = [weights[r] * d.step for r, d in zip(graph.roots, domains, strict=True)]

    gaps = [np.abs(np.arange(d.size) - (d.size - 1) // 2) for d in domains]

    def error(epsilons: Floats) -> float:
        total = 0.0
        for weight, epsilon, gap in zip(products, epsilons, gaps, strict=True):
            odds = np.exp(-epsilon / 2 * gap)
            total += weight * float(gap @ odds / odds.sum())
        return total

    def excess(epsilons: Floats) -> float:
        return float(epsilons.sum()) - budget

    solved = minimize(
        error,
        np.full(len(products), budget / len(products)),
        method="SLSQP",
        bounds=[(float(EPSILON_MIN), budget)] * len(products),
        constraints=[{"type": "eq", "fun": excess}],
    )
    return np.asarray(solved.x, dtype=np.float64)
