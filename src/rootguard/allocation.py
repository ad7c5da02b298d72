"""From a total budget to an epsilon per root: the plan. Public knowledge in, public plan out.

Level 2 of the paper: the target's error is about sum |h_i| * eta_i(eps_i), with h_i the target's
sensitivity to root i at the population mean and eta_i the mechanism's expected error, so budget is
worth most where |h_i| times a grid step is large. Epsilons are whole micro-epsilon, the ledger's
own unit, and sum to the budget exactly.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import get_args

import numpy as np

from rootguard.errors import BudgetError, PlanError, UnknownNameError
from rootguard.expressions import Node, gradient, parse
from rootguard.graph import Graph
from rootguard.mechanisms import MECHANISMS, mechanism
from rootguard.mechanisms.base import MAX_EPSILON, Floats, Indices
from rootguard.template import Template
from rootguard.values import MICRO, AllocationName, Domain, MechanismName, RootName, parse_epsilon

EPSILON_MIN = Fraction(1, 1000)
"""No root that is noised at all gets less, unless the budget is spread evenly."""

Objective = str | Node | Mapping[str, float]
"""What to be accurate about: a formula (exact or approximate), or plain weights per root."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """One root's part of a plan. `expected_error` is in the root's unit, at the grid centre."""

    root: RootName
    domain: Domain
    epsilon: Fraction
    sensitivity: float
    expected_error: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How a budget is spent over roots: public, fixed before any private value is seen."""

    template: str
    digest: str
    mechanism: MechanismName
    allocation: AllocationName
    budget: Fraction
    shares: tuple[Share, ...]

    def __getitem__(self, root: str) -> Share:
        for share in self.shares:
            if share.root == root:
                return share
        raise UnknownNameError("root", root, tuple(share.root for share in self.shares))

    def check(self) -> None:
        """Price the plan again from its parts; refuse it if it does not come to its budget."""
        spent = sum((share.epsilon for share in self.shares), Fraction(0))
        if spent > self.budget:
            raise PlanError("the plan's shares exceed its budget; nothing was drawn")
        for share in self.shares:
            claimed = float(share.epsilon)
            tight = mechanism(self.mechanism, share.epsilon, share.domain.size).tight_epsilon()
            if tight > claimed * (1 + 1e-9):
                raise PlanError(f"{self.mechanism} does not hold at the plan's epsilon")

    @property
    def hash(self) -> str:
        """SHA-256 of everything that decides a draw's distribution, for provenance."""
        content = [
            self.digest,
            self.mechanism,
            [
                [s.root, s.domain.lower, s.domain.upper, s.domain.size, str(s.epsilon)]
                for s in self.shares
            ],
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def read_budget(
    *,
    total: str | float | Fraction | None = None,
    epsilon: str | float | Fraction | None = None,
    turns: int | None = None,
) -> Fraction:
    """A budget given as a total, or as the paper's B = turns * epsilon."""
    if total is not None and epsilon is None and turns is None:
        return parse_epsilon(total)
    if total is None and epsilon is not None and turns is not None:
        if turns < 1:
            raise BudgetError("turns must be 1 or more")
        return parse_epsilon(epsilon) * turns
    raise BudgetError("give a budget either as a total, or as epsilon and turns together")


def make_plan(
    template: Template,
    budget: Fraction,
    *,
    mechanism_name: MechanismName = "geometric",
    allocation: AllocationName = "optimal",
    objective: Objective | None = None,
) -> Plan:
    """Split a budget over a template's roots, by default to make its target accurate."""
    if allocation not in get_args(AllocationName):
        raise UnknownNameError("allocation", allocation, get_args(AllocationName))
    graph = Graph.of(template)
    roots = graph.roots
    domains = [template.roots[root].domain for root in roots]
    weights = sensitivities(template, graph, objective)
    floor = Fraction(1, MICRO) if allocation == "uniform" else EPSILON_MIN
    if budget < floor * len(roots):
        raise BudgetError(
            f"{len(roots)} roots need a budget of at least {float(floor * len(roots)):g}"
            + ("" if allocation == "uniform" else "; raise it or use the uniform allocation")
        )
    if budget > MAX_EPSILON * len(roots):
        raise BudgetError(
            f"{len(roots)} roots can use a budget of at most {MAX_EPSILON * len(roots)}"
        )
    steps = np.array([domain.step for domain in domains])
    sizes = np.array([domain.size for domain in domains], dtype=np.int64)
    h = np.array([weights[root] for root in roots])
    if allocation == "uniform" or not h.any():
        ideal = np.full(len(roots), float(budget) / len(roots))
    else:
        products = h / h.max() * steps  # only proportions matter; no weight is too large or small
        ideal = closed_form(products, float(budget))
        if allocation == "optimal":
            ideal = optimum(mechanism_name, products, sizes, float(budget), start=ideal)
    epsilons = _whole_micro(ideal, budget, floor)
    shares = tuple(
        Share(
            root=root,
            domain=domain,
            epsilon=epsilon,
            sensitivity=weights[root],
            expected_error=_error(mechanism_name, epsilon, domain),
        )
        for root, domain, epsilon in zip(roots, domains, epsilons, strict=True)
    )
    return Plan(
        template=template.name,
        digest=template.digest,
        mechanism=mechanism_name,
        allocation=allocation,
        budget=budget,
        shares=shares,
    )


def _error(name: MechanismName, epsilon: Fraction, domain: Domain) -> float:
    noise = mechanism(name, epsilon, domain.size)
    return noise.error(noise.centre) * domain.step


def sensitivities(
    template: Template, graph: Graph, objective: Objective | None = None
) -> dict[RootName, float]:
    """|h_i|: the objective's partial derivatives at the population mean, or the weights given.

    The gradient is carried through the whole graph, so an objective may name derived values.
    """
    if objective is None:
        objective = template.target.formula
    if isinstance(objective, Mapping):
        for root, weight in objective.items():
            if root not in graph.roots:
                raise UnknownNameError("root", root, graph.roots)
            if not (math.isfinite(weight) and weight >= 0):
                raise BudgetError(f"the weight of {root} must be a finite number of 0 or more")
        return {root: float(objective.get(root, 0)) for root in graph.roots}
    formula = parse(objective) if isinstance(objective, str) else objective
    centre = template.centre()
    point = {str(root): centre[root] for root in graph.roots}
    _, partials = gradient(graph.in_roots(formula), point)
    return {root: abs(partials.get(root, 0.0)) for root in graph.roots}


def closed_form(products: Floats, budget: float) -> Floats:
    """The paper's Laplace limit: eps_i proportional to sqrt(|h_i| delta_i), with saturation.

    Roots that would get less than EPSILON_MIN are clamped there and the rest is shared again, at
    most once per root. `products` are |h_i| * delta_i.
    """
    least = float(EPSILON_MIN)
    scale = np.sqrt(products / products.max())
    active = np.ones(len(products), dtype=bool)
    while True:
        left = budget - least * np.count_nonzero(~active)
        epsilons = np.where(active, scale * left / scale[active].sum(), least)
        low = active & (epsilons < least)
        if not low.any():
            return epsilons
        active &= ~low
        if not active.any():  # the budget is the minimum, up to rounding
            return np.full(len(products), least)


def optimum(
    name: MechanismName, products: Floats, sizes: Indices, budget: float, *, start: Floats
) -> Floats:
    """Minimise sum of w_i * E(eps_i) over eps_i >= EPSILON_MIN with sum eps_i = budget.

    E is the mechanism's own expected error: decreasing and, but for exponential noise on a handful
    of points, convex. So the optimum is where all roots above the minimum gain the same from a
    little more budget, w_i * -E'(eps_i) = lambda, and those at the minimum gain less. Where E is
    not convex the result is the best point met, never worse than the start.
    """
    least = float(EPSILON_MIN)
    matters = products > 0
    left = budget - least * np.count_nonzero(~matters)
    epsilons = np.full(len(products), least)
    epsilons[matters] = _equalise(
        MECHANISMS[name].error_curve, products[matters], sizes[matters], left, start[matters]
    )
    return epsilons


_MAX_ROUNDS = 100
_Curve = Callable[[Floats, Indices], tuple[Floats, Floats, Floats]]


def _equalise(
    curve: _Curve, products: Floats, sizes: Indices, budget: float, start: Floats
) -> Floats:
    """Newton steps on u_i = log eps_i with a common log lambda, chosen each time for the budget.

    On a log-log scale -E' is close to a line, so a few steps are enough.
    """
    weights = np.log(products / products.max())
    epsilons = _fit(start if start.max() <= MAX_EPSILON else np.ones_like(start), budget)
    best, least_loss = epsilons, math.inf
    for _ in range(_MAX_ROUNDS):
        error, slope, curvature = curve(epsilons, sizes)
        if (loss := float(products @ error)) < least_loss:
            best, least_loss = epsilons, loss
        gain = weights + np.log(-slope)
        # d log(-E') / d log eps: about -2, near 0 where E is almost straight (tiny grids).
        steepness = np.minimum(epsilons * curvature / slope, -0.01)
        moved = _fit(_newton(epsilons, gain, steepness, budget), budget)
        if float(np.abs(moved - epsilons).max()) <= 1e-10 * budget:
            return moved
        epsilons = moved
    return best


def _newton(epsilons: Floats, gain: Floats, steepness: Floats, budget: float) -> Floats:
    """One step along the lines gain + steepness * (u' - u) = log lambda, not below the minimum."""
    least = float(EPSILON_MIN)
    free = np.ones(len(epsilons), dtype=bool)
    reach = epsilons / steepness
    while True:
        left = budget - least * np.count_nonzero(~free)
        common = (left - epsilons[free].sum() + reach[free] @ gain[free]) / reach[free].sum()
        moved: Floats = epsilons * np.exp(np.clip((common - gain) / steepness, -1.0, 1.0))
        low = free & (moved < least)
        if not low.any() or (low == free).all():
            return np.where(free, np.maximum(moved, least), least)
        # Taking these to the minimum leaves less for the others, so none of them would return.
        free &= ~low


def _fit(epsilons: Floats, budget: float) -> Floats:
    """What lies above the minimum, scaled so that all sums to the budget."""
    least = float(EPSILON_MIN)
    above = np.maximum(epsilons - least, 0.0)
    if not above.any():
        above = np.ones_like(epsilons)
    spare = max(budget - least * len(epsilons), 0.0)
    fitted: Floats = least + above * (spare / above.sum())
    return fitted


def _whole_micro(ideal: Floats, budget: Fraction, floor: Fraction) -> list[Fraction]:
    """Whole micro-epsilon that sum to the budget's whole micro-epsilon, nearest to the ideal."""
    total = math.floor(budget * MICRO)
    least = math.ceil(floor * MICRO)
    exact = [max(float(value) * MICRO, least) for value in ideal]
    units = [max(math.floor(value), least) for value in exact]
    short = total - sum(units)
    order = sorted(range(len(units)), key=lambda i: exact[i] - units[i], reverse=True)
    for position in range(abs(short)):
        if short > 0:
            units[order[position % len(order)]] += 1
        else:  # rounding pushed the sum up: take back from the largest
            units[max(range(len(units)), key=units.__getitem__)] -= 1
    return [Fraction(unit, MICRO) for unit in units]
