"""Allocation: every micro-epsilon is placed, and placed where it does the most good."""

import dataclasses
import hashlib
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize

from rootguard import allocation as allocating
from rootguard.allocation import (
    EPSILON_MIN,
    Plan,
    make_plan,
    plan_at,
    read_budget,
    remarks,
    scaled,
    sensitivities,
)
from rootguard.errors import (
    BudgetError,
    FormulaNameError,
    FormulaUndefinedError,
    PlanError,
    UnknownNameError,
)
from rootguard.expressions import gradient, parse
from rootguard.graph import Graph
from rootguard.mechanisms import KINDS, MECHANISMS, mechanism
from rootguard.mechanisms.base import Floats, Indices
from rootguard.template import Template, catalog, load_template, parse_template
from rootguard.values import AllocationName, MechanismName, RootName

NAMES: list[MechanismName] = list(MECHANISMS)
ALLOCATIONS: list[AllocationName] = ["uniform", "closed-form", "optimal"]
PAPER = ("anemia", "fib4", "aip", "conicity", "vascular", "tyg", "homa", "nlr")
LEAST = float(EPSILON_MIN)


def small_grids(*sizes: int) -> Template:
    text = 'name = "small"\ntitle = "Small grids"\n'
    for number, size in enumerate(sizes):
        text += f"[roots.x{number}]\nlower = 0\nupper = 1\ngrid = {size}\n"
    total = " + ".join(f"{number + 1} * x{number}" for number in range(len(sizes)))
    return parse_template(f'{text}[target]\nname = "sum"\nformula = "{total}"\n', file="small.toml")


def epsilons(plan: Plan) -> Floats:
    return np.array([float(share.epsilon) for share in plan.shares])


def problem(template: Template) -> tuple[Floats, Indices]:
    """What a plan for the template's own target weighs: |h| * step, and the grid sizes."""
    graph = Graph.of(template)
    h = sensitivities(template, graph)
    roots = [template.roots[root] for root in graph.roots]
    products = np.array([h[root.name] * root.domain.step for root in roots])
    return products, np.array([root.domain.size for root in roots], dtype=np.int64)


def closed_form(products: Floats, budget: float) -> Floats:
    return np.array(allocating.closed_form(products.tolist(), budget))


def optimum(
    name: MechanismName | list[MechanismName],
    products: Floats,
    sizes: Indices,
    budget: float,
    *,
    start: Floats,
) -> Floats:
    found = allocating.optimum(
        name, products.tolist(), sizes.tolist(), budget, start=start.tolist()
    )
    return np.array(found)


def curves(name: MechanismName, at: Floats, sizes: Indices) -> tuple[Floats, Floats]:
    """Expected error and its slope for each root."""
    curve = MECHANISMS[name].error_curve
    found = [curve(float(e), int(m)) for e, m in zip(at, sizes, strict=True)]
    return np.array([error for error, _, _ in found]), np.array([slope for _, slope, _ in found])


def objective(name: MechanismName, products: Floats, sizes: Indices, at: Floats) -> float:
    return float(products @ curves(name, at, sizes)[0])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_shares_sum_to_the_whole_micro_epsilon_of_the_budget_exactly(data: st.DataObject) -> None:
    template = load_template(data.draw(st.sampled_from(catalog())))
    roots = len(Graph.of(template).roots)
    above = data.draw(st.fractions(0, 40, max_denominator=10**9))
    budget = EPSILON_MIN * roots + above
    plan = make_plan(
        template,
        budget,
        mechanism_name=data.draw(st.sampled_from(NAMES)),
        allocation=data.draw(st.sampled_from(ALLOCATIONS)),
    )
    spent = sum((share.epsilon for share in plan.shares), Fraction(0))
    assert spent == Fraction(math.floor(budget * 10**6), 10**6)
    assert spent <= plan.budget == budget
    assert all((share.epsilon * 10**6).denominator == 1 for share in plan.shares)
    assert all(
        share.epsilon >= EPSILON_MIN or plan.allocation == "uniform" for share in plan.shares
    )
    plan.check()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=8),
    st.lists(st.sampled_from([2, 3, 4, 7, 30, 1000]), min_size=8, max_size=8),
    st.fractions(0, 20, max_denominator=10**7),
    st.sampled_from(NAMES),
)
def test_any_weights_on_any_grids_get_a_plan_that_sums(
    weights: list[float], sizes: list[int], above: Fraction, name: MechanismName
) -> None:
    template = small_grids(*sizes[: len(weights)])
    given_weights = {f"x{number}": weight for number, weight in enumerate(weights)}
    budget = EPSILON_MIN * len(weights) + above
    plan = make_plan(template, budget, mechanism_name=name, objective=given_weights)
    spent = sum((share.epsilon for share in plan.shares), Fraction(0))
    assert spent == Fraction(math.floor(budget * 10**6), 10**6)
    assert all(share.epsilon >= EPSILON_MIN for share in plan.shares)


def test_the_uniform_allocation_is_even_and_needs_no_minimum() -> None:
    fib4 = load_template("fib4")
    plan = make_plan(fib4, Fraction("0.9"), allocation="uniform")
    assert [share.epsilon for share in plan.shares] == [Fraction("0.225")] * 4
    odd = make_plan(fib4, Fraction("0.000007"), allocation="uniform")
    assert sorted(share.epsilon * 10**6 for share in odd.shares) == [1, 2, 2, 2]


def test_the_closed_form_is_the_papers_formula() -> None:
    fib4 = load_template("fib4")
    products, _ = problem(fib4)
    plan = make_plan(fib4, Fraction("0.9"), allocation="closed-form")
    expected = 0.9 * np.sqrt(products) / np.sqrt(products).sum()
    np.testing.assert_allclose(epsilons(plan), expected, atol=1.001e-6)
    np.testing.assert_allclose(closed_form(products, 0.9), expected, rtol=1e-12)
    by_width = np.array([s.sensitivity * s.domain.width for s in plan.shares])
    ratio = np.sqrt(by_width) / np.sqrt(by_width).sum()
    np.testing.assert_allclose(epsilons(plan) / 0.9, ratio, atol=2e-6)


def test_roots_below_the_minimum_are_lifted_to_it_and_the_others_pay() -> None:
    # Shares 1 : 0.1 : 0.05 of 0.012 are 0.0104, 0.00104, 0.00052. Lifting the last leaves 0.011
    # for the first two, which is exactly enough: 0.01 and 0.001.
    products = np.array([1.0, 0.01, 0.0025])
    np.testing.assert_allclose(closed_form(products, 0.012), [0.01, 0.001, 0.001], rtol=1e-9)
    # With 0.0116 the second falls below the minimum only after the third was lifted.
    first = 0.0116 * np.sqrt(products) / np.sqrt(products).sum()
    assert first[1] >= 0.001 > first[2]
    np.testing.assert_allclose(closed_form(products, 0.0116), [0.0096, 0.001, 0.001], rtol=1e-9)


@settings(deadline=None)
@given(
    st.lists(st.floats(0, 1e12), min_size=1, max_size=10).filter(any),
    st.floats(0, 30, allow_subnormal=False),
)
def test_the_closed_form_is_proportional_above_the_minimum_and_sums(
    values: list[float], above: float
) -> None:
    products = np.array(values)
    budget = LEAST * len(values) + above
    found = closed_form(products, budget)
    assert found.sum() == pytest.approx(budget, rel=1e-9)
    assert (found >= LEAST * (1 - 1e-9)).all()
    free = found > LEAST * (1 + 1e-6)
    if free.any():
        level = found[free] / np.sqrt(products[free])
        np.testing.assert_allclose(level, level[0], rtol=1e-6)
        assert (level[0] * np.sqrt(products[~free]) <= LEAST * (1 + 1e-5)).all()


@pytest.mark.parametrize("allocation", ["closed-form", "optimal"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("template", "idle"), [("anemia", "rbc"), ("aip", "tc")])
def test_a_root_the_target_ignores_gets_exactly_the_minimum(
    template: str, idle: str, name: MechanismName, allocation: AllocationName
) -> None:
    loaded = load_template(template)
    plan = make_plan(loaded, Fraction("0.7"), mechanism_name=name, allocation=allocation)
    assert plan[idle].sensitivity == 0
    assert plan[idle].epsilon == Fraction(1, 1000)
    others = [share for share in plan.shares if share.root != idle]
    assert sum(share.epsilon for share in others) == Fraction("0.699")
    assert all(share.epsilon > Fraction("0.01") for share in others)


def test_for_fib4_the_optimum_is_close_to_the_closed_form() -> None:
    budget = read_budget(epsilon="0.1", turns=9)
    fib4 = load_template("fib4")
    best = make_plan(fib4, budget, mechanism_name="exponential")
    closed = make_plan(fib4, budget, mechanism_name="exponential", allocation="closed-form")
    even = make_plan(fib4, budget, mechanism_name="exponential", allocation="uniform")
    assert np.abs(epsilons(best) - epsilons(closed)).max() / 0.9 < 0.02
    assert np.abs(epsilons(best) - epsilons(even)).max() / 0.9 > 0.02  # the test can tell


def share_slope(name: MechanismName, allocation: AllocationName) -> float:
    """Log share on log |h| D over the paper's templates, with one intercept per template."""
    x, y = [], []
    for template in PAPER:
        loaded = load_template(template)
        budget = Fraction(2 * len(loaded.roots) + 1, 10)
        plan = make_plan(loaded, budget, mechanism_name=name, allocation=allocation)
        kept = [share for share in plan.shares if share.sensitivity > 0]
        reach = np.log([share.sensitivity * share.domain.width for share in kept])
        share = np.log([float(share.epsilon / budget) for share in kept])
        x.append(reach - reach.mean())
        y.append(share - share.mean())
    reaches, shares = np.concatenate(x), np.concatenate(y)
    assert len(reaches) == 19
    return float(reaches @ shares / (reaches @ reaches))


@pytest.mark.parametrize("name", ["exponential", "laplace", "staircase"])
def test_shares_grow_with_the_square_root_of_sensitivity_times_range(name: MechanismName) -> None:
    assert share_slope(name, "optimal") == pytest.approx(0.5, abs=0.02)
    assert share_slope(name, "uniform") == pytest.approx(0.0, abs=0.02)  # the control


@pytest.mark.parametrize("budget", ["0.01", "0.3", "2.1", "20"])
@pytest.mark.parametrize("template", ["fib4", "conicity", "nafld", "egfr", "meld"])
@pytest.mark.parametrize("name", NAMES)
def test_the_optimum_is_no_worse_than_a_general_solvers(
    name: MechanismName, template: str, budget: str
) -> None:
    products, sizes = problem(load_template(template))
    total = float(budget)
    start = closed_form(products, total)
    ours = optimum(name, products, sizes, total, start=start)
    scale = objective(name, products, sizes, start)

    def loss(at: Floats) -> float:
        return objective(name, products, sizes, at) / scale

    def slope(at: Floats) -> Floats:
        gains: Floats = products * curves(name, at, sizes)[1] / scale
        return gains

    theirs = minimize(
        loss,
        np.full(len(products), total / len(products)),
        jac=slope,
        method="SLSQP",
        bounds=[(LEAST, total)] * len(products),
        constraints=LinearConstraint(np.ones((1, len(products))), total, total),
        options={"maxiter": 500, "ftol": 1e-14},
    )
    feasible = np.maximum(theirs.x, LEAST)
    feasible *= total / feasible.sum()
    assert loss(ours) <= loss(feasible) * (1 + 1e-9)
    assert ours.sum() == pytest.approx(total, rel=1e-12)
    if total < 20:
        assert loss(start) > loss(ours) * (1 + 1e-9)  # there was something to gain


def kkt_gap(name: MechanismName, products: Floats, sizes: Indices, at: Floats) -> float:
    """How unequal the gains of roots above the minimum are, or by how much one below wants more."""
    gains = -products * curves(name, at, sizes)[1]
    free = at > LEAST * (1 + 1e-6)
    if not free.any():
        return 0.0
    spread = gains[free].max() / gains[free].min() - 1
    wanting = gains[~free].max() / gains[free].max() - 1 if (~free).any() else 0.0
    return max(float(spread), float(wanting))


@pytest.mark.parametrize("name", NAMES)
def test_at_the_optimum_all_roots_above_the_minimum_gain_the_same(name: MechanismName) -> None:
    generator = np.random.default_rng(7)
    seen_at_minimum = seen_free = 0
    for _ in range(150):
        count = int(generator.integers(2, 9))
        sizes = generator.choice([2, 3, 5, 50, 999, 1000, 5000], count)
        products = np.exp(generator.normal(0, generator.choice([0.1, 1, 5]), count))
        total = LEAST * count * float(np.exp(generator.uniform(0, 10)))
        start = closed_form(products, total)
        found = optimum(name, products, sizes, total, start=start)
        assert found.sum() == pytest.approx(total, rel=1e-9)
        assert (found >= LEAST * (1 - 1e-12)).all()
        assert kkt_gap(name, products, sizes, found) < 1e-6
        seen_at_minimum += int((found <= LEAST * (1 + 1e-6)).sum())
        seen_free += int((found > LEAST * (1 + 1e-6)).sum())
    assert min(seen_at_minimum, seen_free) > 50
    products, sizes = problem(load_template("fib4"))
    assert kkt_gap(name, products, sizes, np.full(4, 0.225)) > 0.1  # the control


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("template", catalog())
def test_every_catalog_template_has_a_plan_at_every_budget(
    template: str, name: MechanismName
) -> None:
    loaded = load_template(template)
    roots = len(Graph.of(loaded).roots)
    products, sizes = problem(loaded)
    least = Fraction(roots, 1000)
    budgets = [least, least * 10, *map(Fraction, ("0.1", "1", "10", "50"))]
    # Just above the minimum, where rounding could push a share below it.
    # A yes or no brings its own mechanism, which is geometric noise on two points.
    names = [loaded.roots[root].type.mechanism(name) for root in Graph.of(loaded).roots]
    for budget in [*budgets, least + Fraction(1, 10**6), least + Fraction(1, 3 * 10**6)]:
        plan = make_plan(loaded, budget, mechanism_name=name)
        plan.check()
        start = closed_form(products, float(budget))
        found = optimum(names, products, sizes, float(budget), start=start)
        if set(names) == {name}:
            matters = products > 0
            assert kkt_gap(name, products[matters], sizes[matters], found[matters]) < 1e-5
        np.testing.assert_allclose(epsilons(plan), found, atol=2e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_optimal_plan_expects_a_smaller_error_than_the_others(name: MechanismName) -> None:
    def expected(allocation: AllocationName) -> float:
        plan = make_plan(
            load_template("fib4"), Fraction("0.9"), mechanism_name=name, allocation=allocation
        )
        return sum(share.sensitivity * share.expected_error for share in plan.shares)

    assert expected("optimal") < expected("closed-form") < expected("uniform")


@pytest.mark.parametrize("name", NAMES)
def test_the_expected_error_is_the_mechanisms_in_the_roots_unit(name: MechanismName) -> None:
    plan = make_plan(load_template("fib4"), Fraction("0.9"), mechanism_name=name)
    for share in plan.shares:
        noise = mechanism(name, share.epsilon, share.domain.size)
        outputs = np.arange(noise.size)
        pmf = np.exp(noise.log_pmf(noise.centre, outputs))
        error = float(np.abs(outputs - noise.centre) @ pmf) * share.domain.step
        assert share.expected_error == pytest.approx(error, rel=1e-9)


def test_an_objective_may_be_text_a_node_or_derived_values() -> None:
    fib4, aip = load_template("fib4"), load_template("aip")
    own = make_plan(fib4, Fraction(1))
    text = "age * ast / (plt * sqrt(alt))"
    assert make_plan(fib4, Fraction(1), objective=text) == own
    assert make_plan(fib4, Fraction(1), objective=parse(text)) == own
    assert make_plan(fib4, Fraction(1), objective="fib4") == own
    ldl = make_plan(aip, Fraction(1), objective="ldl")
    assert {share.root: share.sensitivity for share in ldl.shares} == pytest.approx(
        {"tc": 1.0, "hdl": 1.0, "tg": 0.2}
    )
    assert make_plan(aip, Fraction(1), objective="tc - hdl - tg / 5") == ldl


def test_an_approximate_objective_moves_the_budget_to_its_own_roots() -> None:
    fib4 = load_template("fib4")
    rough = make_plan(fib4, Fraction(1), objective="ast / plt")
    assert rough["age"].epsilon == rough["alt"].epsilon == EPSILON_MIN
    assert rough["ast"].epsilon + rough["plt"].epsilon == Fraction("0.998")


def test_an_objective_may_be_weights() -> None:
    fib4 = load_template("fib4")
    own = make_plan(fib4, Fraction(1))
    weights = {str(share.root): share.sensitivity for share in own.shares}
    assert make_plan(fib4, Fraction(1), objective=weights) == own
    single = make_plan(fib4, Fraction(1), objective={"ast": 3})
    assert single["ast"].epsilon == Fraction("0.997")
    none = make_plan(fib4, Fraction(1), objective={})
    assert [share.epsilon for share in none.shares] == [Fraction(1, 4)] * 4


@pytest.mark.parametrize("allocation", ["closed-form", "optimal"])
@pytest.mark.parametrize("power", [-12, -6, 3, 12, -323, 300])
def test_only_the_proportions_of_weights_matter(power: int, allocation: AllocationName) -> None:
    nafld = load_template("nafld")
    weights = {str(root): float(number + 1) for number, root in enumerate(Graph.of(nafld).roots)}
    scaled = {root: weight * 10.0**power for root, weight in weights.items()}
    base = make_plan(nafld, Fraction(1), objective=weights, allocation=allocation)
    plan = make_plan(nafld, Fraction(1), objective=scaled, allocation=allocation)
    # A last-bit difference may move one micro-epsilon from one root to another.
    np.testing.assert_allclose(epsilons(plan), epsilons(base), atol=1.5e-6)


@pytest.mark.parametrize("weight", [-1.0, -1e-300, math.nan, math.inf])
def test_a_weight_that_is_no_weight_is_refused(weight: float) -> None:
    with pytest.raises(BudgetError, match="ast"):
        make_plan(load_template("fib4"), Fraction(1), objective={"ast": weight})


def test_weights_and_formulas_of_unknown_roots_are_refused() -> None:
    fib4, nafld = load_template("fib4"), load_template("nafld")
    with pytest.raises(UnknownNameError, match="ghost"):
        make_plan(fib4, Fraction(1), objective={"ghost": 1.0})
    with pytest.raises(UnknownNameError, match="bmi"):  # computed, so it cannot be noised
        make_plan(nafld, Fraction(1), objective={"bmi": 1.0})
    with pytest.raises(FormulaNameError, match="ghost"):
        make_plan(fib4, Fraction(1), objective="age + ghost")
    with pytest.raises(FormulaUndefinedError):
        make_plan(fib4, Fraction(1), objective="1 / (age - age)")
    with pytest.raises(UnknownNameError, match="greedy"):
        make_plan(fib4, Fraction(1), allocation="greedy")  # type: ignore[arg-type]


@pytest.mark.parametrize("allocation", ["closed-form", "optimal"])
def test_a_budget_below_the_minimum_is_refused_with_a_remedy(allocation: AllocationName) -> None:
    fib4 = load_template("fib4")
    with pytest.raises(BudgetError, match=r"4 roots need a budget of at least 0\.004.*uniform"):
        make_plan(fib4, Fraction("0.0039999"), allocation=allocation)
    plan = make_plan(fib4, Fraction("0.004"), allocation=allocation)
    assert [share.epsilon for share in plan.shares] == [EPSILON_MIN] * 4
    with pytest.raises(BudgetError, match="4e-06"):
        make_plan(fib4, Fraction("0.0000039"), allocation="uniform")


@pytest.mark.parametrize("name", NAMES)
def test_a_budget_that_no_mechanism_can_use_is_refused(name: MechanismName) -> None:
    fib4 = load_template("fib4")
    with pytest.raises(BudgetError, match="at most 400"):
        make_plan(fib4, Fraction(401), mechanism_name=name)
    with pytest.raises(BudgetError, match="and 100"):  # one root would take more than 100
        make_plan(fib4, Fraction(150), mechanism_name=name, objective={"ast": 1.0})
    large = make_plan(load_template("nafld"), Fraction(700), mechanism_name=name)
    assert sum(share.epsilon for share in large.shares) == 700


def test_a_budget_is_a_total_or_epsilon_times_turns() -> None:
    assert read_budget(total="0.9") == Fraction(9, 10)
    assert read_budget(total=0.9) == read_budget(epsilon=0.1, turns=9) == Fraction(9, 10)
    assert read_budget(total=Fraction(1, 3)) == Fraction(1, 3)
    assert read_budget(epsilon="1/3", turns=3) == 1


def test_half_a_budget_or_two_budgets_are_refused() -> None:
    with pytest.raises(BudgetError, match="one budget"):
        read_budget()
    with pytest.raises(BudgetError, match="one budget"):
        read_budget(epsilon="0.1")
    with pytest.raises(BudgetError, match="one budget"):
        read_budget(turns=9)
    with pytest.raises(BudgetError, match="one budget"):
        read_budget(total="0.9", epsilon="0.1", turns=9)
    with pytest.raises(BudgetError, match="one budget"):
        read_budget(total="0.9", turns=9)
    for turns in (0, -3, 1.5, math.nan, math.inf, True, "3", 1j):
        with pytest.raises(BudgetError, match="turns"):
            read_budget(epsilon="0.1", turns=turns)  # type: ignore[arg-type]
    for whole in (3, 3.0, np.int64(3)):
        assert read_budget(epsilon="0.1", turns=whole) == Fraction(3, 10)  # type: ignore[arg-type]
    with pytest.raises(BudgetError):
        read_budget(total="-1")


def test_a_plan_that_spends_more_than_its_budget_is_refused() -> None:
    plan = make_plan(load_template("fib4"), Fraction("0.9"))
    plan.check()
    first, *rest = plan.shares
    more = dataclasses.replace(first, epsilon=first.epsilon + Fraction(1, 10**6))
    with pytest.raises(PlanError, match="exceed"):
        dataclasses.replace(plan, shares=(more, *rest)).check()
    with pytest.raises(PlanError, match="exceed"):
        dataclasses.replace(plan, budget=Fraction("0.899999")).check()
    with pytest.raises(PlanError, match="exceed"):
        dataclasses.replace(plan, shares=(*plan.shares, first)).check()


def test_a_plan_whose_mechanism_costs_more_than_it_says_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = make_plan(load_template("fib4"), Fraction("0.9"))
    monkeypatch.setattr(
        MECHANISMS["geometric"], "tight_epsilon", lambda self: float(self.epsilon) * 1.001
    )
    with pytest.raises(PlanError, match="does not hold"):
        plan.check()


def test_a_root_without_a_share_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="ghost"):
        make_plan(load_template("fib4"), Fraction(1))["ghost"]


def test_the_hash_of_a_plan_depends_on_all_that_decides_a_draw_and_nothing_else() -> None:
    fib4 = load_template("fib4")
    plan = make_plan(fib4, Fraction("0.9"))
    assert plan.hash == make_plan(fib4, Fraction("0.9")).hash
    assert len(plan.hash) == 64
    first, *rest = plan.shares
    wider = dataclasses.replace(first.domain, upper=first.domain.upper + 1)
    finer = dataclasses.replace(first.domain, size=1001)
    changed = [
        dataclasses.replace(plan, mechanism="laplace"),
        dataclasses.replace(plan, digest="0" * 64),
        dataclasses.replace(plan, shares=tuple(rest)),
        dataclasses.replace(plan, shares=(dataclasses.replace(first, domain=wider), *rest)),
        dataclasses.replace(plan, shares=(dataclasses.replace(first, domain=finer), *rest)),
        dataclasses.replace(
            plan, shares=(dataclasses.replace(first, epsilon=first.epsilon / 2), *rest)
        ),
        make_plan(fib4, Fraction("0.900001")),
        make_plan(load_template("homa"), Fraction("0.9")),
    ]
    assert len({plan.hash, *(other.hash for other in changed)}) == len(changed) + 1
    told_otherwise = dataclasses.replace(first, expected_error=0.0)
    assert dataclasses.replace(plan, shares=(told_otherwise, *rest)).hash == plan.hash


def test_the_hash_of_a_known_plan_is_the_same_on_every_machine() -> None:
    plan = make_plan(small_grids(11, 21), Fraction(1), allocation="uniform")
    plan = dataclasses.replace(plan, digest="d")
    assert plan.hash == "c99ec2ef0074a6d7f31bf653d534d89637257844d5e4f3a4dfa846617570b0ac"


def test_plans_are_for_noised_roots_in_declared_order() -> None:
    nafld = load_template("nafld")
    plan = make_plan(nafld, Fraction(1))
    assert tuple(share.root for share in plan.shares) == Graph.of(nafld).roots
    assert [share.root for share in plan.shares] == [r for r in nafld.roots if r != "bmi"]
    assert plan.digest == nafld.digest


def test_a_budget_at_the_most_that_roots_can_use_is_spent() -> None:
    plan = make_plan(load_template("fib4"), Fraction(400), allocation="uniform")
    assert {share.epsilon for share in plan.shares} == {Fraction(100)}
    with pytest.raises(BudgetError, match="at most 400"):
        make_plan(load_template("fib4"), Fraction("400.000001"), allocation="uniform")


def test_the_least_budget_of_the_uniform_allocation_is_a_millionth_for_each_root() -> None:
    plan = make_plan(load_template("fib4"), Fraction("0.000004"), allocation="uniform")
    assert {share.epsilon for share in plan.shares} == {Fraction(1, 10**6)}


def test_one_turn_is_a_budget_and_a_part_of_one_is_none() -> None:
    assert read_budget(epsilon="0.1", turns=1) == Fraction(1, 10)
    with pytest.raises(BudgetError, match="turns"):
        read_budget(epsilon="0.1", turns=1.5)  # type: ignore[arg-type]


def test_a_plan_for_the_target_is_made_once() -> None:
    fib4 = load_template("fib4")
    assert make_plan(fib4, Fraction("0.77")) is make_plan(fib4, Fraction("0.77"))


def test_a_plan_may_cost_more_than_it_says_by_rounding_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = make_plan(load_template("fib4"), Fraction("0.9"))
    over = 1 + 5e-10
    monkeypatch.setattr(
        MECHANISMS["geometric"], "tight_epsilon", lambda self: float(self.epsilon) * over
    )
    plan.check()
    over = 1 + 1e-9
    plan.check()
    over = 1 + 2e-9
    with pytest.raises(PlanError, match="does not hold"):
        plan.check()


def test_the_optimum_is_found_in_a_few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every round asks for the curve of each root; a plan is made when a session is opened."""
    asked = 0
    curve = MECHANISMS["geometric"].error_curve

    def counted(epsilon: float, size: int) -> tuple[float, float, float]:
        nonlocal asked
        asked += 1
        return curve(epsilon, size)

    monkeypatch.setattr(MECHANISMS["geometric"], "error_curve", staticmethod(counted))
    products, sizes = [1.0, 20.0, 3.0], [1000, 1000, 50]
    allocating.optimum("geometric", products, sizes, 0.9, start=[0.3] * 3)
    assert 3 <= asked <= 3 * 12


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_the_optimum_is_the_same_whatever_unit_the_objective_has(scale: float) -> None:
    sizes, start = np.array([1000, 1000, 50]), np.full(3, 0.3)
    expected = optimum("geometric", np.array([1.0, 20.0, 3.0]), sizes, 0.9, start=start)
    found = optimum("geometric", scale * np.array([1.0, 20.0, 3.0]), sizes, 0.9, start=start)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    limit = closed_form(np.array([1.0, 20.0, 3.0]), 0.9)
    scaled_up = closed_form(scale * np.array([1.0, 20.0, 3.0]), 0.9)
    np.testing.assert_allclose(scaled_up, limit, rtol=1e-12)


def test_plans_and_shares_cannot_change() -> None:
    plan = make_plan(load_template("fib4"), Fraction("0.9"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.budget = Fraction(9)  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.shares[0].epsilon = Fraction(9)  # type: ignore[misc]


def test_a_step_of_the_search_goes_by_a_factor_of_e_at_most() -> None:
    """Where an error curve bends sharply its tangent points far beyond the budget, or below 0."""
    moved = allocating._newton([10.0, 10.0], [0.0, 50.0], [-2.0, -2.0], 20.0)
    assert moved == pytest.approx([10 / math.e, 10 * math.e])


def test_where_the_search_never_rests_the_best_round_counts() -> None:
    rounds: list[list[float]] = []

    def restless(epsilon: float, size: int) -> tuple[float, float, float]:
        if size == 2:
            rounds.append([])
        rounds[-1].append(epsilon)
        error = 1.0 if len(rounds) == 8 else 2.0
        steep = math.e if (size == 2) == bool(len(rounds) % 2) else 1.0
        return error, -steep, steep

    found = allocating._equalise([restless] * 2, [1.0, 1.0], [2, 3], 2.0, [1.0, 1.0])
    assert len(rounds) == allocating._MAX_ROUNDS
    assert found == rounds[7]
    assert found != rounds[-1]


def test_a_budget_that_is_the_minimum_up_to_rounding_gives_every_root_the_minimum() -> None:
    for budget in (2 * LEAST, 2 * LEAST * (1 - 1e-12)):
        assert allocating.fitted([1.0, 2.0], budget) == [LEAST, LEAST]


def test_what_the_minimum_takes_too_much_is_taken_back_from_the_largest() -> None:
    units = allocating._whole_micro([LEAST, 1e-7, 0.6, 0.4], Fraction(1), EPSILON_MIN)
    assert units == [EPSILON_MIN, EPSILON_MIN, Fraction("0.598"), Fraction("0.4")]


ANSWERS = """
name = "t"
title = "T"
[roots.region]
type = "category"
values = ["a", "b", "c"]
[roots.smoker]
type = "boolean"
[roots.female]
type = "boolean"
public = true
[roots.age]
lower = 0
upper = 100
grid = 101
[target]
name = "s"
formula = '(6 if region == "a" else 0) + 4 * smoker + 2 * female + age'
"""


@pytest.fixture(scope="module")
def answers() -> Template:
    return parse_template(ANSWERS, file="t.toml")


def test_a_plan_at_given_epsilons_costs_their_sum(answers: Template) -> None:
    given = {
        answers.roots[RootName(n)].name: Fraction(1, d) for n, d in (("region", 2), ("smoker", 4))
    }
    plan = plan_at(answers, given | {answers.roots[RootName("age")].name: Fraction(1)})
    found = {str(share.root): share.epsilon for share in plan.shares}
    assert found == {
        "region": Fraction(1, 2),
        "smoker": Fraction(1, 4),
        "female": Fraction(0),
        "age": Fraction(1),
    }
    assert plan.budget == Fraction(7, 4)
    assert plan.allocation == "goals"
    assert plan["smoker"].expected_error == pytest.approx(1 / (1 + math.exp(0.25)))
    assert plan["female"].expected_error == 0
    assert {str(share.root): share.sensitivity for share in plan.shares} == pytest.approx(
        {"region": 4, "smoker": 4, "female": 2, "age": 1}
    )


def test_a_plan_is_scaled_to_a_smaller_budget_and_to_no_other(answers: Template) -> None:
    plan = make_plan(answers, Fraction(3), allocation="uniform")
    assert scaled(plan, None) is plan
    assert scaled(plan, Fraction(3)) is plan
    assert scaled(plan, Fraction(4)) is plan
    half = scaled(plan, Fraction(3, 2))
    assert {str(s.root): s.epsilon for s in half.shares} == {
        "region": Fraction(1, 2),
        "smoker": Fraction(1, 2),
        "female": Fraction(0),
        "age": Fraction(1, 2),
    }
    assert half.budget == Fraction(3, 2)
    assert half["smoker"].expected_error == pytest.approx(1 / (1 + math.exp(0.5)))
    # No root is left with nothing, which would be no noise at all.
    least = scaled(plan, Fraction(1, 10**7))
    assert [s.epsilon * 10**6 for s in least.shares] == [1, 1, 0, 1]
    assert least.budget == Fraction(3, 10**6)
    # A part of a micro-epsilon is not spent.
    odd = scaled(plan, Fraction("1.0000019"))
    assert odd["age"].epsilon == Fraction("0.333333")


def test_an_answer_is_near_chance_up_to_a_fifth_of_the_way_to_certainty(answers: Template) -> None:
    """Of two answers that is six right ones of ten, at ln 1.5; of three 7 of 15, at ln 1.75."""

    def said(region: float, smoker: float) -> tuple[str, ...]:
        roots = {"region": region, "smoker": smoker, "age": 0.001}
        given = {
            answers.roots[RootName(name)].name: Fraction(epsilon) for name, epsilon in roots.items()
        }
        return remarks(plan_at(answers, given))

    assert said(math.log(1.75) + 1e-6, math.log(1.5) + 1e-6) == ()
    assert len(said(math.log(1.75) + 1e-6, math.log(1.5) - 1e-6)) == 1
    region, smoker = said(math.log(1.75) - 1e-6, math.log(1.5) - 1e-6)
    assert region == (
        "region would be near chance at this budget (right in 47% of cases): make it public, drop "
        "it, or spend 1.2 more on it (right in 75%)"
    )
    assert smoker == (
        "smoker would be a coin toss at this budget (right in 60% of cases): make it public, drop "
        "it, or spend 0.7 more on it (right in 75%)"
    )


def test_every_answer_is_remarked_on_whatever_stands_before_it(answers: Template) -> None:
    names = ("region", "smoker", "age")
    given = {answers.roots[RootName(name)].name: Fraction(1, 1000) for name in names}
    plan = plan_at(answers, given)
    found = remarks(plan)
    assert [remark.split()[0] for remark in found] == ["region", "smoker"]
    turned = dataclasses.replace(plan, shares=plan.shares[::-1])
    assert remarks(turned) == found[::-1]
    # Answers that are a distance apart are not right or wrong.
    table = tuple(tuple(float(abs(i - j)) for j in range(3)) for i in range(3))
    kind = dataclasses.replace(plan["region"].type, distances=table)
    apart = dataclasses.replace(plan["region"], type=kind)
    assert remarks(dataclasses.replace(plan, shares=(apart, *plan.shares[1:]))) == found[1:]


def test_what_stands_behind_a_public_root_is_priced_as_well(
    answers: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(answers, Fraction(3))
    plan.check()
    monkeypatch.setattr(MECHANISMS["geometric"], "tight_epsilon", lambda self: 100.0)
    with pytest.raises(PlanError, match="geometric does not hold"):
        plan.check()


def test_primes_are_counted_from_two() -> None:
    assert [allocating._prime(place) for place in range(1, 10)] == [2, 3, 5, 7, 11, 13, 17, 19, 23]


def test_a_slope_is_taken_a_hundredth_of_a_step_wide_and_within_the_bounds() -> None:
    domain = small_grids(11).roots[RootName("x0")].domain
    around = {0.5: [0.4995, 0.5005], 0.0: [0.0, 0.001], 1.0: [0.999, 1.0], 0.9996: [0.999, 1.0]}
    for value, points in around.items():
        assert allocating._around(value, domain) == pytest.approx(points)


def test_a_mean_difference_is_per_unit_of_distance_where_there_is_a_value(
    answers: Template,
) -> None:
    def difference(root: str, *rows: list[float]) -> float:
        values = [np.array(row) for row in rows]
        along = [0.0, 1.0, 3.0][: len(rows)] if root == "age" else [0.0, 1.0, 2.0][: len(rows)]
        return allocating._difference(answers.roots[RootName(root)], along, values)

    # On a line between neighbours, which are 1 and 2 apart; all answers are 1 apart.
    assert difference("age", [0.0, 1.0], [1.0, 3.0], [5.0, 3.0]) == pytest.approx((1 + 2 + 2) / 4)
    assert difference("region", [0.0], [1.0], [5.0]) == pytest.approx((1 + 5 + 4) / 3)
    assert difference("age", [0.0, math.nan], [1.0, 3.0]) == 1.0
    assert difference("age", [math.nan], [math.nan]) == 0.0
    table = ((0.0, 2.0, 4.0), (2.0, 0.0, 8.0), (4.0, 8.0, 0.0))
    root = answers.roots[RootName("region")]
    apart = dataclasses.replace(root, type=dataclasses.replace(root.type, distances=table))
    values = [np.array([0.0]), np.array([1.0]), np.array([5.0])]
    found = allocating._difference(apart, [0.0, 1.0, 2.0], values)
    assert found == pytest.approx((1 / 2 + 5 / 4 + 4 / 8) / 3)


def test_people_give_an_answer_as_often_as_the_population_does(answers: Template) -> None:
    """What smokers of one region pay counts by their share; of what no one says there is none."""
    shared = ANSWERS.replace('values = ["a", "b", "c"]', 'values = ["a", "b", "c"]\n{}')
    shared = shared.split("formula")[0] + "formula = '8 * smoker * (region == \"a\") + age'\n"
    for shares, part in (("", 1 / 3), ("shares = [0.5, 0.25, 0.25]", 1 / 2)):
        template = parse_template(shared.format(shares), file="t.toml")
        found = sensitivities(template, Graph.of(template))
        assert found[template.roots[RootName("smoker")].name] == pytest.approx(8 * part, abs=0.3)
        assert found[template.roots[RootName("age")].name] == pytest.approx(1.0)
        assert found[template.roots[RootName("female")].name] == 0


def test_what_is_above_the_minimum_is_stretched_to_the_budget() -> None:
    assert allocating.fitted([1.001, 3.001], 2.002) == pytest.approx([0.501, 1.501])
    assert allocating.fitted([0.0, 0.001], 2.002) == pytest.approx([1.001, 1.001])
    assert allocating.fitted([0.0, 5.0], 2.002) == pytest.approx([0.001, 2.001])


def test_a_step_that_takes_a_root_below_the_minimum_leaves_the_others_the_rest() -> None:
    moved = allocating._newton([1.0, 1.0, 0.0011], [0.0, 0.0, -9.0], [-2.0, -2.0, -2.0], 2.001)
    assert moved == pytest.approx([1.0, 1.0, LEAST])
    # All below it: whatever the lines say, nobody has more to give.
    assert allocating._newton([0.0011] * 2, [0.0, 0.0], [-2.0, -2.0], 0.0001) == [LEAST, LEAST]


def test_a_micro_epsilon_that_is_left_goes_where_rounding_took_most() -> None:
    units = allocating._whole_micro([0.2000003, 0.3000008, 0.4999999], Fraction(1), EPSILON_MIN)
    assert units == [Fraction("0.2"), Fraction("0.3"), Fraction("0.5")]
    units = allocating._whole_micro([0.2000009, 0.7999995], Fraction(1), EPSILON_MIN)
    assert units == [Fraction("0.200001"), Fraction("0.799999")]
    units = allocating._whole_micro([0.2, 0.3000008, 0.3000001], Fraction("0.800002"), EPSILON_MIN)
    assert units == [Fraction("0.2"), Fraction("0.300001"), Fraction("0.300001")]


@pytest.mark.parametrize(("budget", "told"), [(10.0, (math.log(9), math.log(12))), (2.0, (1, 1))])
def test_an_answer_that_is_told_outright_is_tried_where_that_loses_less(
    monkeypatch: pytest.MonkeyPatch, budget: float, told: tuple[float, float]
) -> None:
    """Of more than two answers, from the one that matters most on, each beside the best so far."""
    names: list[MechanismName] = [
        *("randomised-response", "geometric", "randomised-response", "distances"),
    ]
    products, sizes = [1.0, 2.0, 3.0, 4.0], [5, 100, 2, 4]
    found = [budget / 4] * 4
    better, worse = [1.1 * found[0], 1.2 * found[1], 1.3 * found[2], 1.4 * found[3]], [LEAST] * 4
    asked: list[list[float]] = []

    def next_split(*_: object, start: list[float]) -> list[float]:
        asked.append(start)
        return [better, worse][len(asked) - 1]

    def loss(epsilons: list[float]) -> float:

        curves = [
            KINDS[n].error_curve(e, m) for n, e, m in zip(names, epsilons, sizes, strict=True)
        ]
        return sum(p * curve[0] for p, curve in zip(products, curves, strict=True))

    assert loss(better) < loss(found) < loss(worse)
    monkeypatch.setattr(allocating, "optimum", next_split)
    assert allocating._or_answers(names, products, sizes, budget, found) == better
    first = allocating.fitted([*found[:3], told[0]], budget)
    second = allocating.fitted([told[1], *better[1:]], budget)
    assert asked == [pytest.approx(first), pytest.approx(second)]


def test_a_plan_is_split_otherwise_and_what_is_public_stays_so(answers: Template) -> None:
    plan = make_plan(answers, Fraction(3))
    split = allocating.with_epsilons(plan, [0.5, 1.0, 1.5], "population")
    assert [share.epsilon for share in split.shares] == [Fraction(1, 2), 1, 0, Fraction(3, 2)]
    assert split.allocation == "population"
    assert split["smoker"].expected_error == pytest.approx(1 / (1 + math.e))


def test_of_numbers_alone_sensitivities_are_slopes_to_the_last_bit() -> None:
    template = load_template("fib4")
    graph = Graph.of(template)
    centre = {str(root): value for root, value in template.centre().items()}
    _, slopes = gradient(graph.in_roots(template.target.formula), centre)
    assert sensitivities(template, graph) == {root: abs(slopes[root]) for root in graph.roots}


def test_the_hash_of_a_plan_says_which_answers_are_noised_and_which_are_public(
    answers: Template,
) -> None:
    plan = dataclasses.replace(make_plan(answers, Fraction(3), allocation="uniform"), digest="d")
    content = [
        *("d", "geometric"),
        [
            ["region", 0.0, 2.0, 3, "1", "randomised-response"],
            ["smoker", 0.0, 1.0, 2, "1", "randomised-response"],
            ["female", 0.0, 1.0, 2, "0", "public"],
            ["age", 0.0, 100.0, 101, "1"],
        ],
    ]
    assert plan.hash == hashlib.sha256(json.dumps(content).encode()).hexdigest()


@pytest.mark.parametrize("size", [3, 64, 65, 66, 1001])
def test_a_threshold_is_as_steep_as_its_step_over_the_whole_range(size: int) -> None:
    """Flat wherever one looks at a point; what it changes by is shared by all steps."""
    template = small_grids(size, 11)
    graph = Graph.of(template)
    for text, slope in (("3 * (x0 > 0.8) + x1", 3.0), ("0 * x0 + x1", 0.0)):
        found = sensitivities(template, graph, text)
        assert found[RootName("x0")] == pytest.approx(slope, rel=0.05)  # 64 steps may be uneven
        assert found[RootName("x1")] == 1.0


def test_where_errors_fall_in_a_straight_line_the_steepest_root_gets_all() -> None:
    def straight(epsilon: float, size: int) -> tuple[float, float, float]:
        return 10 - epsilon, -1.0, 0.0

    found = allocating.optimum(
        "geometric", [1.0, 2.0], [10, 10], 1.0, start=[0.5, 0.5], curve=straight
    )
    assert found == pytest.approx([LEAST, 1 - LEAST])


def test_a_search_may_start_from_more_than_any_mechanism_can_use() -> None:
    products, sizes = [1.0, 20.0], [1000, 1000]
    near = allocating.optimum("geometric", products, sizes, 0.9, start=[0.45, 0.45])
    far = allocating.optimum("geometric", products, sizes, 0.9, start=[1000.0, 1.0])
    assert far == pytest.approx(near, rel=1e-7)
