"""Goals: what a person wants to hide becomes the plan of least error that hides it."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest

from rootguard import Guard, MemoryStore, hiding_plan, load_template, make_plan
from rootguard.errors import BudgetError, PrivateValueError, UnknownNameError
from rootguard.goals import Distance, joint_advantage, public_error, read_goals
from rootguard.session import parse_profile
from rootguard.session.guard import promise
from rootguard.template import catalog, parse_template
from rootguard.values import MICRO, Amount, RootName
from tests.support.liver_template import BASE

ME = {"age": 54, "ast": 23, "alt": 30, "plt": 220}
FIB4 = load_template("fib4")


@pytest.mark.parametrize("advantage", ["0.1", "0.5", "0.9"])
@pytest.mark.parametrize("years", [0.05, 1, 5, 7.3, 20, 62])
def test_age_gets_the_largest_epsilon_that_keeps_its_goal(years: float, advantage: str) -> None:
    plan = hiding_plan(FIB4, {"age": years}, advantage=advantage)
    age = plan["age"]
    steps = max(1, math.ceil(years / age.domain.step - 1e-9))
    most = 2 * math.atanh(float(advantage)) / steps
    assert math.tanh(float(age.epsilon) * steps / 2) <= float(advantage)
    assert 0.99 * most <= float(age.epsilon) <= most
    # One micro-epsilon more would break it.
    assert math.tanh(float(age.epsilon + Fraction(1, MICRO)) * steps / 2) > float(advantage)
    assert promise(FIB4, plan).advantage({"age": years}) <= float(advantage)


def test_every_template_keeps_what_it_advises() -> None:
    for name in catalog():
        template = load_template(name)
        goals = read_goals(template, {})
        plan = hiding_plan(template, {})
        promised = promise(template, plan)
        for goal in goals:
            assert goal.source == "template"
            assert goal.because == template.roots[goal.root].hide_because
            assert promised.advantage({goal.root: goal.distance}) == goal.bound <= 0.5
            assert goal.bound > 0.49
        assert plan.budget == sum(share.epsilon for share in plan.shares)
        together = promised.advantage({goal.root: goal.distance for goal in goals})
        assert joint_advantage(goals) == pytest.approx(together)
        assert (joint_advantage(goals) > 0.5) == (len(goals) > 1)


def test_no_plan_that_keeps_the_goals_has_less_error() -> None:
    plan = hiding_plan(FIB4, {"age": 5, "ast": 10})
    for share in plan.shares:
        finer = Fraction(2 * share.epsilon)
        goals = {goal.root: goal for goal in read_goals(FIB4, {"age": 5, "ast": 10})}
        assert math.tanh(float(finer) * goals[share.root].steps / 2) > 0.5
        coarser = hiding_plan(FIB4, {"age": 5, "ast": 10}, advantage="0.4")
        assert coarser[share.root].expected_error > share.expected_error


def test_a_session_a_profile_and_the_function_make_the_same_plan(tmp_path: object) -> None:
    hide: dict[str, Distance] = {"age": 5, "Platelets": "10%"}
    plan = hiding_plan("fib4", hide)
    session = Guard.open("fib4", values=ME, hide=hide)
    spent = {root.root: root.epsilon for root in session.guarantee().roots}
    assert spent == {share.root: share.epsilon for share in plan.shares}
    text = 'templates = ["fib4"]\n[hide]\nage = 5\nplatelets = "10%"\n'
    assert list(parse_profile(text, file=f"{tmp_path}/me.toml").plans()) == [plan]
    assert plan["plt"].epsilon == hiding_plan(FIB4, {"plt": 22.676850663243474})["plt"].epsilon


def test_a_root_of_which_nothing_is_said_is_hidden_within_a_twentieth_of_its_bounds() -> None:
    template = parse_template(BASE, file="liver.toml")
    (age, ast) = read_goals(template, {"ast": 10})
    assert age.source == "usual"
    assert age.distance == pytest.approx(62 / 20)
    assert "twentieth" in age.because
    assert (ast.source, ast.distance) == ("owner", 10)


@pytest.mark.parametrize(
    ("hide", "words"),
    [
        ({"age": 0}, "above 0"),
        ({"age": "five"}, "above 0"),
        ({"age": True}, "above 0"),
        ({"age": float("nan")}, "above 0"),
        ({"age": -3}, "above 0"),
        ({"age": 63}, "at most 62 years"),
        ({"age": 5, "years old": 5}, "two goals"),
    ],
)
def test_a_goal_that_cannot_be_is_refused_with_what_to_do(
    hide: dict[str, float], words: str
) -> None:
    with pytest.raises(BudgetError, match=words):
        hiding_plan(FIB4, hide)


def test_goals_of_computed_and_unknown_values_are_refused() -> None:
    with pytest.raises(BudgetError, match="computed from others"):
        hiding_plan("nafld", {"bmi": 2})
    with pytest.raises(UnknownNameError):
        hiding_plan(FIB4, {"heart": 2})
    for advantage in ("0", "1", "half", 1.5):
        with pytest.raises(BudgetError, match="between 0 and 1"):
            hiding_plan(FIB4, {}, advantage=advantage)
    with pytest.raises(BudgetError, match="not both"):
        Guard.open("fib4", values=ME, hide={}, budget="0.9")
    # So far and so well that not even a micro-epsilon is left.
    with pytest.raises(BudgetError, match="larger advantage"):
        hiding_plan(FIB4, {"age": 62}, advantage="0.0000001")


def test_the_guess_from_public_figures_is_as_far_off_as_a_population_is_wide() -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    age, ast, plt = (FIB4.roots[RootName(name)] for name in ("age", "ast", "plt"))
    assert ast.log_sd is not None
    assert ast.median is not None
    drawn = rng.lognormal(math.log(ast.median), ast.log_sd, 400_000)
    # 400,000 draws: the mean deviation is within 1 % but once in far more than 10^6 runs.
    assert public_error(ast) == pytest.approx(np.abs(drawn - ast.median).mean(), rel=0.01)
    drawn = rng.normal(0, plt.sd or 0, 400_000)
    assert public_error(plt) == pytest.approx(np.abs(drawn).mean(), rel=0.01)
    assert public_error(age) == pytest.approx(16.4, abs=0.1)
    flag = load_template("egfr").roots[RootName("female")]
    assert public_error(flag) == 0.5


def test_profiles_refuse_goals_that_cannot_be_with_the_place(tmp_path: object) -> None:
    for text, words in {
        'budget = "1"\n[hide]\n': "hide",
        "advantage = 0.5\n": "nothing is to be hidden",
        "[hide]\nheart = 5\n": "no root",
        "[hide]\nage = [5]\n": "no distance",
        "[hide]\nage = 99\n": "62 years",
        "advantage = 2\n[hide]\n": "between 0 and 1",
    }.items():
        head, _, rest = text.partition("[")
        whole = f'{head}templates = ["fib4"]\n[{rest}' if rest else f'{text}templates = ["fib4"]\n'
        with pytest.raises(Exception, match=words):
            parse_profile(whole, file=f"{tmp_path}/me.toml")


def test_a_tier_of_a_profile_with_goals_gets_no_more_than_they_allow(tmp_path: object) -> None:
    text = 'templates = ["fib4"]\n[hide]\nage = 5\n'
    profile = parse_profile(text, file=f"{tmp_path}/me.toml")
    (plan,) = profile.plans()
    assert profile.plan(FIB4, Fraction(100)) == plan
    half = profile.plan(FIB4, plan.budget / 2)
    assert half.budget <= plan.budget / 2
    for share in half.shares:
        assert share.epsilon <= plan[share.root].epsilon / 2
        assert share.epsilon >= plan[share.root].epsilon / 2 - Fraction(1, MICRO)


def test_names_aliases_and_every_kind_of_number_are_taken() -> None:
    amounts: list[Amount] = ["0.9", 0.9, Decimal("0.9"), Fraction(9, 10)]
    plans = {make_plan("fib4", amount) for amount in amounts}
    assert len(plans) == 1
    assert make_plan(FIB4, 1) == make_plan("fib4", "1")
    store = MemoryStore()
    values = {"Age": 54, "SGOT": 23, "alanine transaminase": 30, "platelets": 220}
    session = Guard.open("fib4", values=values, budget=Decimal("0.9"), store=store)
    assert Guard.resume("fib4", store=store).release("ast") == session.release("ast")
    with pytest.raises(PrivateValueError, match="two values"):
        Guard.open("fib4", values=values | {"ast": 23}, budget=1)
    with pytest.raises(UnknownNameError):
        Guard.open("fib4", values=values | {"heart": 23}, budget=1)
