"""From a total budget to an epsilon per root: the plan. Public knowledge in, public plan out.

Level 2 of the paper: the target's error is about sum |h_i| * eta_i(eps_i), with h_i the target's
sensitivity to root i at the population mean and eta_i the mechanism's expected error, so budget is
worth most where |h_i| times a grid step is large. Epsilons are whole micro-epsilon, the ledger's
own unit, and sum to the budget exactly.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from numbers import Real
from typing import Literal

from rootguard.errors import BudgetError, PlanError, UnknownNameError
from rootguard.expressions import Node, gradient, parse
from rootguard.graph import Graph
from rootguard.mechanisms import MECHANISMS, mechanism
from rootguard.mechanisms.base import MAX_EPSILON
from rootguard.template import Template
from rootguard.values import (
    MICRO,
    AllocationName,
    Amount,
    Domain,
    MechanismName,
    RootName,
    parse_epsilon,
)

EPSILON_MIN = Fraction(1, 1000)
"""No root that is noised at all gets less, unless the budget is spread evenly."""

_FIRST_ORDER: tuple[AllocationName, ...] = ("uniform", "closed-form", "optimal")
"""What is planned here. `calibration` makes the population plan, which looks beyond one point."""

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
    allocation: AllocationName | Literal["goals"]
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
    total: Amount | None = None,
    epsilon: Amount | None = None,
    turns: int | None = None,
) -> Fraction:
    """A budget given as a total, or as the paper's B = turns * epsilon."""
    if total is not None and epsilon is None and turns is None:
        return parse_epsilon(total)
    if total is None and epsilon is not None and turns is not None:
        if isinstance(turns, bool) or not isinstance(turns, Real) or not turns >= 1 or turns % 1:
            raise BudgetError("turns must be a whole number, 1 or more")
        return parse_epsilon(epsilon) * int(turns)
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
    if objective is None:
        return _plan_for_target(template, budget, mechanism_name, allocation)
    return _plan(template, budget, mechanism_name, allocation, objective)


@lru_cache(maxsize=1024)  # public, and the same for everybody who chose this template and budget
def _plan_for_target(
    template: Template,
    budget: Fraction,
    mechanism_name: MechanismName,
    allocation: AllocationName,
) -> Plan:
    return _plan(template, budget, mechanism_name, allocation, None)


def _plan(
    template: Template,
    budget: Fraction,
    mechanism_name: MechanismName,
    allocation: AllocationName,
    objective: Objective | None,
) -> Plan:
    if allocation not in _FIRST_ORDER:
        raise UnknownNameError("allocation", allocation, _FIRST_ORDER)
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
    largest = max(weights.values())
    if allocation == "uniform" or largest == 0:
        ideal = [float(budget) / len(roots)] * len(roots)
    else:  # only proportions matter; no weight is too large or too small
        products = [weights[r] / largest * d.step for r, d in zip(roots, domains, strict=True)]
        ideal = closed_form(products, float(budget))
        if allocation == "optimal":
            sizes = [domain.size for domain in domains]
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


def plan_at(
    template: Template,
    epsilons: Mapping[RootName, Fraction],
    *,
    mechanism_name: MechanismName = "geometric",
    objective: Objective | None = None,
) -> Plan:
    """The plan in which each root has the epsilon given: what goals come to (`goals`)."""
    graph = Graph.of(template)
    weights = sensitivities(template, graph, objective)
    shares = tuple(
        Share(
            root=root,
            domain=template.roots[root].domain,
            epsilon=epsilons[root],
            sensitivity=weights[root],
            expected_error=_error(mechanism_name, epsilons[root], template.roots[root].domain),
        )
        for root in graph.roots
    )
    return Plan(
        template=template.name,
        digest=template.digest,
        mechanism=mechanism_name,
        allocation="goals",
        budget=sum((share.epsilon for share in shares), Fraction(0)),
        shares=shares,
    )


def scaled(plan: Plan, budget: Fraction | None) -> Plan:
    """The plan in the same proportions within a smaller budget, or as it is if that is enough."""
    if budget is None or budget >= plan.budget:
        return plan
    shares = []
    for share in plan.shares:
        units = max(1, math.floor(share.epsilon * budget / plan.budget * MICRO))
        epsilon = Fraction(units, MICRO)
        error = _error(plan.mechanism, epsilon, share.domain)
        shares.append(replace(share, epsilon=epsilon, expected_error=error))
    return replace(
        plan,
        budget=sum((share.epsilon for share in shares), Fraction(0)),
        shares=tuple(shares),
    )


def with_epsilons(plan: Plan, ideal: Sequence[float], allocation: AllocationName) -> Plan:
    """The plan with its budget split as nearly as this as whole micro-epsilon can be."""
    epsilons = _whole_micro(ideal, plan.budget, EPSILON_MIN)
    shares = tuple(
        replace(
            share,
            epsilon=epsilon,
            expected_error=_error(plan.mechanism, epsilon, share.domain),
        )
        for share, epsilon in zip(plan.shares, epsilons, strict=True)
    )
    return replace(plan, allocation=allocation, shares=shares)


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


def closed_form(products: Sequence[float], budget: float) -> list[float]:
    """The paper's Laplace limit: eps_i proportional to sqrt(|h_i| delta_i), with saturation.

    Roots that would get less than EPSILON_MIN are clamped there and the rest is shared again, at
    most once per root. `products` are |h_i| * delta_i.
    """
    least, top = float(EPSILON_MIN), max(products)
    scale = [math.sqrt(product / top) for product in products]
    epsilons = [least] * len(products)
    active = set(range(len(products)))
    while active:
        left = budget - least * (len(products) - len(active))
        unit = left / sum(scale[i] for i in active)
        low = {i for i in active if scale[i] * unit < least}
        if not low:
            for i in active:
                epsilons[i] = scale[i] * unit
            return epsilons
        active -= low
    return epsilons  # the budget is the minimum, up to rounding


def optimum(
    name: MechanismName,
    products: Sequence[float],
    sizes: Sequence[int],
    budget: float,
    *,
    start: Sequence[float],
    curve: "ErrorCurve | None" = None,
) -> list[float]:
    """Minimise sum of w_i * E(eps_i) over eps_i >= EPSILON_MIN with sum eps_i = budget.

    E is the mechanism's own expected error: decreasing and, but for exponential noise on a handful
    of points, convex. So the optimum is where all roots above the minimum gain the same from a
    little more budget, w_i * -E'(eps_i) = lambda, and those at the minimum gain less. Where E is
    not convex the result is the best point met, never worse than the start. Another `curve` may
    stand for E.
    """
    least = float(EPSILON_MIN)
    matters = [i for i, product in enumerate(products) if product > 0]
    found = _equalise(
        curve or MECHANISMS[name].error_curve,
        [products[i] for i in matters],
        [sizes[i] for i in matters],
        budget - least * (len(products) - len(matters)),
        [start[i] for i in matters],
    )
    epsilons = [least] * len(products)
    for i, epsilon in zip(matters, found, strict=True):
        epsilons[i] = epsilon
    return epsilons


# A few are enough; where rounding keeps the steps from shrinking, the best round counts.
_MAX_ROUNDS = 100
_CLOSE = 1e-7
"""Steps that move no epsilon by more than this share of the budget end the search. Newton's steps
shrink quadratically, so what is left is far below the micro-epsilon that plans are rounded to."""

ErrorCurve = Callable[[float, int], tuple[float, float, float]]
"""From an epsilon and a grid's size to the expected error and its first two derivatives."""


def _equalise(
    curve: ErrorCurve,
    products: list[float],
    sizes: list[int],
    budget: float,
    start: list[float],
) -> list[float]:
    """Newton steps on u_i = log eps_i with a common log lambda, chosen each time for the budget.

    On a log-log scale -E' is close to a line, so a few steps are enough.
    """
    top = max(products)
    weights = [math.log(product / top) for product in products]
    epsilons = fitted(start if max(start) <= MAX_EPSILON else [1.0] * len(start), budget)
    best, least_loss = epsilons, math.inf
    for _ in range(_MAX_ROUNDS):
        loss, gains, steepnesses = 0.0, [], []
        for epsilon, size, product, weight in zip(epsilons, sizes, products, weights, strict=True):
            error, slope, curvature = curve(epsilon, size)
            loss += product * error
            gains.append(weight + math.log(-slope))
            # d log(-E') / d log eps: about -2, near 0 where E is almost straight (tiny grids).
            steepnesses.append(min(epsilon * curvature / slope, -0.01))
        if loss < least_loss:
            best, least_loss = epsilons, loss
        moved = fitted(_newton(epsilons, gains, steepnesses, budget), budget)
        change = max(abs(new - old) for new, old in zip(moved, epsilons, strict=True))
        if change <= _CLOSE * budget:
            return moved
        epsilons = moved
    return best


def _newton(
    epsilons: list[float], gains: list[float], steepnesses: list[float], budget: float
) -> list[float]:
    """One step along the lines gain + steepness * (u' - u) = log lambda, not below the minimum."""
    least = float(EPSILON_MIN)
    moved = [least] * len(epsilons)
    free = list(range(len(epsilons)))
    while True:
        left = budget - least * (len(epsilons) - len(free))
        reach = weighted = 0.0
        for i in free:
            reached = epsilons[i] / steepnesses[i]
            reach += reached
            weighted += reached * gains[i] - epsilons[i]
        common = (left + weighted) / reach
        for i in free:
            step = (common - gains[i]) / steepnesses[i]
            moved[i] = epsilons[i] * math.exp(min(max(step, -1.0), 1.0))
        low = [i for i in free if moved[i] < least]
        for i in low:
            moved[i] = least
        if not low or len(low) == len(free):
            return moved
        # Taking these to the minimum leaves less for the others, so none of them would return.
        free = [i for i in free if i not in low]


def fitted(epsilons: Sequence[float], budget: float) -> list[float]:
    """What lies above the minimum, scaled so that all sums to the budget."""
    least = float(EPSILON_MIN)
    above = [max(epsilon - least, 0.0) for epsilon in epsilons]
    if not any(above):
        above = [1.0] * len(above)
    spare = max(budget - least * len(above), 0.0) / sum(above)
    return [least + part * spare for part in above]


def _whole_micro(ideal: Sequence[float], budget: Fraction, floor: Fraction) -> list[Fraction]:
    """Whole micro-epsilon that sum to the budget's whole micro-epsilon, nearest to the ideal."""
    total = math.floor(budget * MICRO)
    least = math.ceil(floor * MICRO)
    exact = [max(value * MICRO, least) for value in ideal]
    units = [max(math.floor(value), least) for value in exact]
    short = total - sum(units)
    order = sorted(range(len(units)), key=lambda i: exact[i] - units[i], reverse=True)
    for position in range(abs(short)):
        if short > 0:
            units[order[position % len(order)]] += 1
        else:  # rounding pushed the sum up: take back from the largest
            units[max(range(len(units)), key=units.__getitem__)] -= 1
    return [Fraction(unit, MICRO) for unit in units]
