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
from types import MappingProxyType
from typing import Literal

import numpy as np

from rootguard.errors import BudgetError, PlanError, UnknownNameError
from rootguard.expressions import Node, evaluate_many, gradient, names, parse, spelled_out
from rootguard.graph import Graph
from rootguard.mechanisms import KINDS, Mechanism, mechanism
from rootguard.mechanisms.base import MAX_EPSILON, Floats
from rootguard.notebook import html_table
from rootguard.template import Root, Template
from rootguard.values import (
    MICRO,
    NUMBER,
    AllocationName,
    Amount,
    Domain,
    MechanismName,
    RootName,
    RootType,
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
    """One root's part of a plan. `expected_error` is in the root's unit, at the grid centre.

    Of an answer that is not on a line it is the probability of a wrong one, or the mean of a
    declared distance. A public root costs nothing: its epsilon is 0, which stands for no noise.
    """

    root: RootName
    domain: Domain
    epsilon: Fraction
    sensitivity: float
    expected_error: float
    type: RootType = NUMBER
    public: bool = False


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

    def noise(self, root: str) -> Mechanism:
        """What hides a root: the plan's mechanism, or the one that its type needs."""
        share = self[root]
        name = mechanism_of(share.type, self.mechanism, public=share.public)
        return mechanism(name, share.epsilon, share.domain.size, share.type.distances)

    def _repr_html_(self) -> str:
        rows = [
            (share.root, f"{float(share.epsilon):.3g}", f"{share.expected_error:.3g}")
            for share in self.shares
        ]
        title = f"{self.template}: epsilon {float(self.budget):.3g} in all, {self.mechanism}"
        return html_table(title, ("root", "epsilon per step", "average error"), rows)

    def check(self) -> None:
        """Price the plan again from its parts; refuse it if it does not come to its budget."""
        spent = sum((share.epsilon for share in self.shares), Fraction(0))
        if spent > self.budget:
            raise PlanError("the plan's shares exceed its budget; nothing was drawn")
        for share in self.shares:
            if share.public:
                continue
            claimed, noise = float(share.epsilon), self.noise(share.root)
            # Both are floats; a sampler at fault is off by far more than rounding.
            if noise.tight_epsilon() > claimed * (1 + 1e-9):
                raise PlanError(f"{noise.name} does not hold at the plan's epsilon")

    @property
    def hash(self) -> str:
        """SHA-256 of everything that decides a draw's distribution, for provenance."""
        content = [
            self.digest,
            self.mechanism,
            [
                [
                    *(s.root, s.domain.lower, s.domain.upper, s.domain.size, str(s.epsilon)),
                    *(() if s.type.on_a_line and not s.public else (self.noise(s.root).name,)),
                ]
                for s in self.shares
            ],
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


_NEAR_CHANCE = 0.2
"""How much of the way from a guess to certainty a release must go: less is said to be chance. Of
yes or no it is a right answer in six of ten cases."""
_USEFUL = 0.75
"""How often an answer should be right that is worth its budget: three times in four."""


def remarks(plan: Plan) -> tuple[str, ...]:
    """What an owner should know of answers that this plan leaves to chance, a sentence each."""
    said = []
    for share in plan.shares:
        if share.type.on_a_line or share.public or share.type.distances is not None:
            continue
        answers = share.domain.size
        right = 1 - plan.noise(share.root).error(0)
        gained = (right - 1 / answers) / (1 - 1 / answers)
        if gained >= _NEAR_CHANCE:
            continue
        enough = math.log(_USEFUL * (answers - 1) / (1 - _USEFUL))
        chance = "a coin toss" if answers == 2 else "near chance"
        said.append(
            f"{share.root} would be {chance} at this budget (right in {right:.0%} of cases): make "
            f"it public, drop it, or spend {enough - float(share.epsilon):.1f} more on it "
            f"(right in {_USEFUL:.0%})"
        )
    return tuple(said)


def mechanism_of(kind: RootType, chosen: MechanismName, *, public: bool) -> MechanismName:
    """The mechanism of a root, where one was chosen for values on a line."""
    return "public" if public else kind.mechanism(chosen)


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
    raise BudgetError(
        "say what to hide, or give one budget: a total, or epsilon and turns together"
    )


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
    declared = [template.roots[root] for root in graph.roots]
    roots = [root.name for root in declared if not root.public]
    if not roots:
        raise BudgetError(f"every root of {template.name} is public; there is nothing to hide")
    domains = [template.roots[root].domain for root in roots]
    kinds = [template.roots[root].type for root in roots]
    weights = _weights(template, graph, objective)
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
    largest = max(weights[root] for root in roots)
    if allocation == "uniform" or largest == 0:
        ideal = [float(budget) / len(roots)] * len(roots)
    else:  # only proportions matter; no weight is too large or too small
        products = [weights[r] / largest * d.step for r, d in zip(roots, domains, strict=True)]
        ideal = closed_form(products, float(budget))
        if allocation == "optimal":
            sizes = [domain.size for domain in domains]
            names = [kind.mechanism(mechanism_name) for kind in kinds]
            ideal = optimum(names, products, sizes, float(budget), start=ideal)
            ideal = _or_answers(names, products, sizes, float(budget), ideal)
    epsilons = dict(zip(roots, _whole_micro(ideal, budget, floor), strict=True))
    shares = tuple(
        _share(root, epsilons.get(root.name, Fraction(0)), weights[root.name]) for root in declared
    )
    plan = Plan(
        template=template.name,
        digest=template.digest,
        mechanism=mechanism_name,
        allocation=allocation,
        budget=budget,
        shares=shares,
    )
    return _with_errors(plan)


def plan_at(
    template: Template,
    epsilons: Mapping[RootName, Fraction],
    *,
    mechanism_name: MechanismName = "geometric",
    objective: Objective | None = None,
) -> Plan:
    """The plan in which each root has the epsilon given: what goals come to (`goals`).

    A public root needs none.
    """
    graph = Graph.of(template)
    weights = _weights(template, graph, objective)
    shares = tuple(
        _share(template.roots[root], epsilons.get(root, Fraction(0)), weights[root])
        for root in graph.roots
    )
    plan = Plan(
        template=template.name,
        digest=template.digest,
        mechanism=mechanism_name,
        allocation="goals",
        budget=sum((share.epsilon for share in shares), Fraction(0)),
        shares=shares,
    )
    return _with_errors(plan)


def scaled(plan: Plan, budget: Fraction | None) -> Plan:
    """The plan in the same proportions within a smaller budget, or as it is if that is enough."""
    if budget is None or budget >= plan.budget:
        return plan
    shares = []
    for share in plan.shares:
        units = max(1, math.floor(share.epsilon * budget / plan.budget * MICRO))
        shares.append(share if share.public else replace(share, epsilon=Fraction(units, MICRO)))
    spent = sum((share.epsilon for share in shares), Fraction(0))
    return _with_errors(replace(plan, budget=spent, shares=tuple(shares)))


def _or_answers(
    names: Sequence[MechanismName],
    products: Sequence[float],
    sizes: Sequence[int],
    budget: float,
    found: list[float],
) -> list[float]:
    """The split, or one that gives an answer enough to be told, where that loses less.

    The error of more than two answers first falls ever faster as epsilon rises, so that the search,
    which looks at what a little more is worth, gives such an answer all too little.
    """

    def loss(epsilons: Sequence[float]) -> float:
        return sum(
            product * KINDS[name].error_curve(epsilon, size)[0]
            for name, product, epsilon, size in zip(names, products, epsilons, sizes, strict=True)
        )

    for i in sorted(range(len(names)), key=lambda i: -products[i]):
        if names[i] not in ("randomised-response", "distances") or sizes[i] == 2:
            continue
        # At log(3 (m - 1)) randomised response of m answers is right three times in four.
        told = min(math.log(3 * (sizes[i] - 1)), budget / 2)
        start = [told if j == i else epsilon for j, epsilon in enumerate(found)]
        other = optimum(names, products, sizes, budget, start=fitted(start, budget))
        if loss(other) < loss(found):
            found = other
    return found


def with_epsilons(plan: Plan, ideal: Sequence[float], allocation: AllocationName) -> Plan:
    """The plan with its budget split as nearly as this as whole micro-epsilon can be.

    `ideal` has a figure for each root that is not public.
    """
    epsilons = iter(_whole_micro(ideal, plan.budget, EPSILON_MIN))
    shares = tuple(
        share if share.public else replace(share, epsilon=next(epsilons)) for share in plan.shares
    )
    return _with_errors(replace(plan, allocation=allocation, shares=shares))


def _share(root: Root, epsilon: Fraction, sensitivity: float) -> Share:
    return Share(
        root=root.name,
        domain=root.domain,
        epsilon=epsilon,
        sensitivity=sensitivity,
        expected_error=0.0,
        type=root.type,
        public=root.public,
    )


def _with_errors(plan: Plan) -> Plan:
    """The plan with the expected error of each share."""
    noises = [plan.noise(share.root) for share in plan.shares]
    shares = tuple(
        replace(share, expected_error=noise.error(noise.centre) * share.domain.step)
        for share, noise in zip(plan.shares, noises, strict=True)
    )
    return replace(plan, shares=shares)


def _weights(
    template: Template, graph: Graph, objective: Objective | None
) -> Mapping[RootName, float]:
    if objective is None:
        return _target_weights(template)
    return sensitivities(template, graph, objective)


@lru_cache(maxsize=256)  # whatever the budget is
def _target_weights(template: Template) -> Mapping[RootName, float]:
    return MappingProxyType(sensitivities(template, Graph.of(template)))


def sensitivities(
    template: Template, graph: Graph, objective: Objective | None = None
) -> dict[RootName, float]:
    """|h_i|: the objective's partial derivatives at the population mean, or the weights given.

    Of answers they are differences. They are carried through the whole graph, so an objective may
    name derived values. Zero means that the objective does not rest on the root, as far as a look
    all over the bounds can tell.
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
    formula = objective
    if isinstance(formula, str):
        formula = parse(spelled_out(formula, template.words))
    formula = graph.in_roots(formula)
    roots = {root: template.roots[root] for root in graph.roots}
    flagged = any(not root.type.on_a_line for root in roots.values())
    centre = template.centre()
    weights = dict.fromkeys(roots, 0.0)
    if not flagged:
        _, partials = gradient(formula, {str(root): centre[root] for root in roots})
        weights = {root: abs(partials.get(root, 0.0)) for root in roots}
    # Flat at one point is not flat: a threshold, or an answer that counts for others only.
    flat = [root for root in roots if not weights[root] and root in names(formula)]
    return weights | _mean_differences(formula, roots, centre, flat, wander=not flagged)


_PLACES = 64
"""At how many people a formula is looked at, and along how many steps of a root."""


def _mean_differences(
    formula: Node,
    roots: Mapping[RootName, Root],
    centre: Mapping[RootName, float],
    wanted: Sequence[RootName],
    *,
    wander: bool,
) -> dict[RootName, float]:
    """How much the objective changes with each of these roots, per unit of its own distance.

    Of an answer, the mean difference between it and another one; of a value on a line, the mean
    slope. At people who give the answers as often as the population does and are typical in
    everything else; where that shows nothing, at people all over the bounds.
    """
    if not wanted:
        return {}
    people = np.arange(1, _PLACES + 1, dtype=np.float64)
    columns: dict[str, Floats] = {}
    for place, (name, root) in enumerate(roots.items(), 1):
        # Steps of an irrational length fill the unit interval evenly, each root's own way.
        spread: Floats = (people * math.sqrt(_prime(place))) % 1.0
        if not root.type.on_a_line:
            shares = np.array(root.shares or (1.0,) * root.domain.size)
            answers = np.searchsorted(np.cumsum(shares / shares.sum()), spread)
            columns[name] = np.minimum(answers, len(shares) - 1).astype(np.float64)
        elif wander:
            columns[name] = root.domain.lower + spread * root.domain.width
        else:
            columns[name] = np.full(_PLACES, centre[name])
    found: dict[RootName, float] = {}
    for name in wanted:
        root = roots[name]
        size = root.domain.size
        points = [
            root.domain.value(i * (size - 1) // min(_PLACES, size - 1))
            for i in range(min(_PLACES, size - 1) + 1)
        ]
        if root.type.on_a_line:
            along = points if wander else _around(centre[name], root.domain)
        else:
            along = points
        values = [evaluate_many(formula, columns | {str(name): np.full(_PLACES, p)}) for p in along]
        found[name] = _difference(root, along, values)
    flat = [name for name in wanted if not found[name]]
    if flat and not wander:
        found |= _mean_differences(formula, roots, centre, flat, wander=True)
    return found


def _around(value: float, domain: Domain) -> list[float]:
    """Two points next to a value, within the bounds."""
    step = domain.step / 100
    low = min(max(value - step / 2, domain.lower), domain.upper - step)
    return [low, low + step]


def _difference(root: Root, along: Sequence[float], values: Sequence[Floats]) -> float:
    """The mean change of the values per unit of distance; none where they have no value."""
    if root.type.on_a_line:
        pairs = [(i, i + 1) for i in range(len(along) - 1)]
        apart = [along[j] - along[i] for i, j in pairs]
    else:
        pairs = [(i, j) for i in range(len(along)) for j in range(i)]
        pairs = pairs[:: max(1, len(pairs) // (_PLACES * _PLACES))]  # enough of very many answers
        table = root.type.distances
        apart = [1.0 if table is None else table[int(along[i])][int(along[j])] for i, j in pairs]
    changes = [np.abs(values[j] - values[i]) / d for (i, j), d in zip(pairs, apart, strict=True)]
    known = np.concatenate(changes)
    known = known[np.isfinite(known)]
    return float(known.mean()) if known.size else 0.0


@lru_cache(maxsize=256)
def _prime(place: int) -> int:
    """The prime number of this place, from 2 on."""
    found, number = 0, 1
    while found < place:
        number += 1
        found += all(number % d for d in range(2, math.isqrt(number) + 1))
    return number


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
    names: MechanismName | Sequence[MechanismName],
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
    each = [names] * len(products) if isinstance(names, str) else names
    found = _equalise(
        [curve or KINDS[each[i]].error_curve for i in matters],
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
    curves: list[ErrorCurve],
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
        for curve, epsilon, size, product, weight in zip(
            curves, epsilons, sizes, products, weights, strict=True
        ):
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
