"""One value, one draw: what counts as the same value, on every store there is."""

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rootguard import Guard, MemoryStore, Session, load_template
from rootguard.accounting import Ledger
from rootguard.batch import sanitize
from rootguard.calibration import make_plan
from rootguard.errors import BudgetError, DomainError, PrivateValueError, UnknownNameError
from rootguard.events import RootNoised, RootReturned
from rootguard.session.person import Person
from rootguard.session.policy import parse_policy
from rootguard.session.profile import parse_profile
from rootguard.store import Store
from rootguard.template import Template, parse_template
from rootguard.values import MICRO, Principal, RootName
from rootguard.vault import open_store

FIB4 = load_template("fib4")
OWNER, AST, AGE = Principal("owner"), RootName("ast"), RootName("age")
VALUES = {"age": 54.3, "ast": 23.1, "alt": 30.7, "plt": 220.4}


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = MemoryStore() if request.param == "memory" else open_store(f"sqlite:///{tmp_path}/v.db")
    yield made
    made.close()


def opened(store: Store, template: Template = FIB4, **values: object) -> Session:
    given = {**VALUES, **values} if template is FIB4 else values
    return Guard.open(template, values=given, budget="0.9", store=store)  # type: ignore[arg-type]


def drawn(store: Store, root: str = "ast") -> list[RootNoised]:
    return [e for e in store.events(OWNER) if isinstance(e, RootNoised) and e.root == root]


def one_root(name: str, unit: str, lower: float, upper: float, grid: int = 1000) -> Template:
    text = f"""
name = "{name}"
title = "One root"
field = "test"
description = "A root in {unit}."
[roots.age]
unit = "{unit}"
lower = {lower}
upper = {upper}
grid = {grid}
[target]
name = "doubled_{name}"
formula = "2 * age"
"""
    return parse_template(text, file=f"{name}.toml")


@pytest.mark.parametrize(
    "kind",
    [
        np.float32,
        np.float64,
        Decimal,
        lambda value: Fraction(str(value)),
        lambda value: math.nextafter(value, math.inf),
        lambda value: math.nextafter(value, -math.inf),
        lambda value: value + 0.001,  # well within a grid step
    ],
)
def test_the_same_number_of_another_type_costs_nothing(store: Store, kind: object) -> None:
    first = opened(store)
    again = opened(store, **{root: kind(value) for root, value in VALUES.items()})  # type: ignore[operator]
    assert again.spent() == first.spent()
    assert {root: again.release(root) for root in VALUES} == {
        root: first.release(root) for root in VALUES
    }
    assert len(store.events(OWNER)) == len(VALUES)


def test_a_value_that_comes_back_is_the_draw_it_was(store: Store) -> None:
    first = opened(store).release("ast")
    other = opened(store, ast=61.4).release("ast")
    spent = store.ledger(OWNER).micro
    for _ in range(5):
        assert opened(store).release("ast") == first
        assert Guard.resume(FIB4, store=store).release("ast") == first
        assert opened(store, ast=61.4).release("ast") == other
        assert Guard.resume(FIB4, store=store).release("ast") == other
    assert store.ledger(OWNER).micro == spent
    assert len(drawn(store)) == 2
    assert opened(store).guarantee().draws_of("ast") == 2
    assert {event.version for event in drawn(store)} == {1, 2}
    returned = [event for event in store.events(OWNER) if isinstance(event, RootReturned)]
    assert {event.version for event in returned} == {1, 2}
    assert store.verify() == ()


def test_an_earlier_value_is_refined_and_served_as_the_current_one(store: Store) -> None:
    opened(store)
    opened(store, ast=61.4)
    opened(store)
    refined = Guard.refine(FIB4, values=VALUES, budget="1.5", store=store)
    assert store.levels(OWNER, AST)[0].sanitized.version == 1
    assert Guard.resume(FIB4, store=store).release("ast") == refined.release("ast")
    assert store.verify() == ()


def test_after_an_erasure_a_value_is_another_draw_and_what_was_spent_is_composed(
    store: Store,
) -> None:
    opened(store)
    price = store.ledger(OWNER).micro["ast"]
    for times in range(2, 11):
        store.erase(OWNER)
        session = opened(store)
        assert session.guarantee().draws_of("ast") == times
        assert session.guarantee().epsilon_of("ast") == Fraction(times * price, MICRO)
    store.erase(OWNER)
    with pytest.raises(BudgetError, match=r"10 times what its first draw cost"):
        opened(store)  # the eleventh draw passes the lifetime cap
    assert store.ledger(OWNER).micro["ast"] == 10 * price


def test_monthly_values_are_composed_and_then_refused_with_the_choice(store: Store) -> None:
    months = [23.0 + 0.27 * month for month in range(24)]
    price = Fraction(0)
    for month, ast in enumerate(months, start=1):
        if month <= 10:
            promised = opened(store, ast=ast).guarantee()
            price = price or promised.epsilon_of("ast")
            assert promised.epsilon_of("ast") == month * price
            assert promised.total == store.ledger(OWNER).total
            continue
        with pytest.raises(BudgetError, match=r'on_change="keep".*--cap ast=EPSILON'):
            opened(store, ast=ast)
    text = str(Guard.resume(FIB4, store=store).guarantee())
    assert "ast 10 times" in text
    assert "the pattern of changes" in text
    kept = Guard.open(
        FIB4, values={**VALUES, "ast": 99}, budget="0.9", store=store, on_change="keep"
    )
    assert kept.release("ast") == Guard.resume(FIB4, store=store).release("ast")
    assert len(drawn(store)) == 10
    store.set_cap(OWNER, "ast", 20 * int(price * MICRO))
    opened(store, ast=77)
    assert len(drawn(store)) == 11


def test_keep_hides_that_a_value_changed(store: Store) -> None:
    first = opened(store)
    again = Guard.open(
        FIB4, values={**VALUES, "ast": 88.0}, budget="0.9", store=store, on_change="keep"
    )
    assert again.release("ast") == first.release("ast")
    assert again.spent() == first.spent()
    with pytest.raises(UnknownNameError, match="on_change"):
        Guard.open(FIB4, values=VALUES, budget=1, store=store, on_change="x")  # type: ignore[arg-type]


def test_a_lifetime_is_a_cap_that_the_owner_chose(store: Store) -> None:
    def change(ast: float) -> Session:
        values = {**VALUES, "ast": ast}
        return Guard.open(FIB4, values=values, budget="0.9", store=store, lifetime=2)

    change(23.1)
    change(60)
    with pytest.raises(BudgetError, match="over its cap"):
        change(90)
    assert store.caps(OWNER)["ast"] == 2 * drawn(store)[0].micro_epsilon
    store.set_cap(OWNER, "ast", 3 * drawn(store)[0].micro_epsilon)  # what the refusal says to do
    change(90)
    with pytest.raises(BudgetError, match="over its cap"):
        change(120)
    with pytest.raises(BudgetError, match="whole number"):
        Guard.open(FIB4, values=VALUES, budget="0.9", store=store, lifetime=0)


def test_a_profile_says_what_becomes_of_changes(store: Store) -> None:
    text = (
        'templates = ["fib4"]\nbudget = "0.9"\non_change = "keep"\nlifetime = 3\n[values]\nast = {}'
    )
    first = Person.open(parse_profile(text.format(23), file="me.toml"), store=store)
    again = Person.open(parse_profile(text.format(90), file="me.toml"), store=store)
    assert again.release("ast") == first.release("ast")
    assert store.caps(OWNER)["ast"] == 3 * drawn(store)[0].micro_epsilon


def test_another_unit_of_a_root_is_the_same_value(store: Store) -> None:
    years, months = one_root("y", "years", 18, 80), one_root("m", "months", 216, 960)
    first = opened(store, years, age=42)
    assert first.release("age") == pytest.approx(Guard.resume(years, store=store).release("age"))
    resumed = Guard.resume(months, store=store)
    assert resumed.release("age") == pytest.approx(12 * first.number("age"))
    assert resumed.guarantee().epsilon_of("age") == first.guarantee().epsilon_of("age")
    assert resumed.guarantee().roots[0].step == pytest.approx(12 * first.guarantee().roots[0].step)
    assert resumed.guarantee().roots[0].unit == "months"
    again = opened(store, months, age=42 * 12)
    assert again.spent() == first.spent()
    assert len(drawn(store, "age")) == 1


def test_a_unit_that_cannot_be_converted_is_refused_with_both_named(store: Store) -> None:
    opened(store, one_root("y", "years", 18, 80), age=42)
    spent = store.ledger(OWNER).micro
    for other in (one_root("k", "kg", 18, 80), one_root("far", "years", 81, 90)):
        with pytest.raises(DomainError, match=r"18 to 80 years.*(18 to 80 kg|81 to 90 years)"):
            opened(store, other, age=42)
        with pytest.raises(DomainError):
            Guard.resume(other, store=store)
    assert store.ledger(OWNER).micro == spent


def test_another_grid_is_served_from_the_stores_at_the_same_noise_per_unit(store: Store) -> None:
    fine, coarse = one_root("fine", "years", 0, 100), one_root("coarse", "years", 0, 100, grid=11)
    first = opened(store, fine, age=42)
    again = opened(store, coarse, age=42)
    assert again.spent() == first.spent()
    assert again.release("age") == first.release("age")
    other = MemoryStore()
    opened(other, fine, age=42)
    opened(other, coarse, age=77)  # 0.9 per step of 10 years, on steps of a tenth of a year
    step = Fraction(100, 999)
    assert [event.micro_epsilon for event in drawn(other, "age")] == [
        900_000,
        math.floor(Fraction(9, 10) * step / 10 * MICRO),
    ]


POLICY = """
[tiers.public]
budget = "0.1"
[services.app]
tier = "public"
roots = "*"
formulas = "*"
"""


def test_a_tier_bounds_what_one_service_gets_over_forty_templates(store: Store) -> None:
    policy = parse_policy(POLICY, file="policy.toml")
    for number in range(40):
        text = f"""
name = "t{number}"
title = "T"
field = "test"
description = "Two roots."
[roots.shared]
unit = "kg"
lower = 0
upper = 100
[roots.own_{number}]
unit = "kg"
lower = 0
upper = 100
[target]
name = "sum_{number}"
formula = "shared + own_{number}"
"""
        template = parse_template(text, file="t.toml")
        values = {"shared": 40, f"own_{number}": 60}
        Guard.open(template, values=values, budget="2.0", store=store)
        if number == 0:  # it takes the whole budget of the tier
            Guard.serve(template, store=store, policy=policy, service="app").target()
        else:
            with pytest.raises(BudgetError, match="app was given all that its tier"):
                Guard.serve(template, store=store, policy=policy, service="app")
        assert sum(store.held(OWNER, "app").values()) <= 100_000
    store.erase(OWNER)
    assert sum(store.held(OWNER, "app").values()) == 100_000
    assert store.verify() == ()


def test_a_changed_value_is_part_of_the_tiers_budget_as_well(store: Store) -> None:
    policy = parse_policy(POLICY, file="policy.toml")
    opened(store)
    before = Guard.serve(FIB4, store=store, policy=policy, service="app")
    before.release("ast")
    level = store.held(OWNER, "app")["ast", 1]
    assert 0 < level < 100_000
    opened(store, ast=99)
    after = Guard.serve(FIB4, store=store, policy=policy, service="app")
    after.target()
    held = store.held(OWNER, "app")
    assert held["ast", 1] == level
    assert sum(held.values()) <= 100_000
    assert Guard.serve(FIB4, store=store, policy=policy, service="app").release("ast") == (
        after.release("ast")
    )


def test_two_sessions_opened_at_once_cannot_take_a_tier_twice(store: Store) -> None:
    policy = parse_policy(POLICY, file="policy.toml")
    first, second = one_root("one", "years", 0, 100), load_template("map")
    opened(store, first, age=42)
    opened(store, second, sbp=120, dbp=80)
    one = Guard.serve(first, store=store, policy=policy, service="app")
    other = Guard.serve(second, store=store, policy=policy, service="app")
    one.target()
    with pytest.raises(BudgetError, match="was given all"):
        other.target()
    assert sum(store.held(OWNER, "app").values()) <= 100_000


BMI = """
name = "weighed"
title = "BMI beside height and weight"
field = "test"
description = "A root that is a formula of others."
[roots.bmi]
unit = "kg/m^2"
lower = 10
upper = 60
kept = { formula = "wt / ht ** 2", units = { wt = "kg", ht = "m" } }
[target]
name = "over"
formula = "bmi - 25"
"""


def test_a_root_that_follows_from_kept_ones_is_computed_and_not_drawn(store: Store) -> None:
    weighed = parse_template(BMI, file="bmi.toml")
    bsa = load_template("bsa")
    body = Guard.open(bsa, values={"wt": 80, "ht": 1.8}, budget="0.9", store=store)
    spent = store.ledger(OWNER).micro
    session = Guard.open(weighed, values={"bmi": 24.7}, budget="0.9", store=store)
    expected = body.number("wt") / body.number("ht") ** 2
    assert session.release("bmi") == pytest.approx(min(max(expected, 10), 60))
    assert session.target() == pytest.approx(session.number("bmi") - 25)
    assert store.ledger(OWNER).micro == spent
    assert session.guarantee().total == body.guarantee().total
    assert "bmi" in session.guarantee().computed
    assert Guard.resume(weighed, store=store).release("bmi") == session.release("bmi")
    without = Guard.open(weighed, values={}, budget="0.9", store=store)
    assert without.release("bmi") == session.release("bmi")


def test_a_profile_may_name_a_computed_root_before_what_it_follows_from(
    store: Store, tmp_path: Path
) -> None:
    (tmp_path / "weighed.toml").write_text(BMI)
    text = 'templates = ["weighed.toml", "bsa"]\nbudget = "0.9"\n'
    text += "[values]\nbmi = 24\nwt = 80\nht = 1.8"
    person = Person.open(parse_profile(text, file=str(tmp_path / "me.toml")), store=store)
    assert person.roots[RootName("wt")].unit == "kg"
    expected = person.number("wt") / person.number("ht") ** 2
    assert person.release("bmi") == pytest.approx(min(max(expected, 10), 60))
    assert set(store.ledger(OWNER).draws) == {"wt", "ht"}


def test_a_table_computes_what_a_session_computes(store: Store) -> None:
    weighed = parse_template(BMI, file="bmi.toml")
    values = {"wt": 80, "ht": 1.8}
    Guard.open(load_template("bsa"), values=values, budget="0.9", store=store)
    spent = store.ledger(OWNER).micro
    table = pa.table({"id": ["owner", "other"], "bmi": [24.7, 31.0]})
    plan = make_plan(weighed, Fraction("0.9"))
    made = sanitize(table, plan, template=weighed, id_column="id", store=store)
    shown = Guard.resume(weighed, store=store)
    assert made.table["bmi"][0].as_py() == shown.release("bmi")
    assert made.table["over"][0].as_py() == shown.target()
    assert store.ledger(OWNER).micro == spent
    assert store.ledger(Principal("other")).draws == {"bmi": 1}


def test_a_root_is_drawn_where_what_it_follows_from_is_not_kept(store: Store) -> None:
    weighed = parse_template(BMI, file="bmi.toml")
    with pytest.raises(PrivateValueError):
        Guard.open(weighed, values={}, budget="0.9", store=store)
    first = Guard.open(weighed, values={"bmi": 24.7}, budget="0.9", store=store)
    Guard.open(load_template("bsa"), values={"wt": 80, "ht": 1.8}, budget="0.9", store=store)
    assert Guard.resume(weighed, store=store).release("bmi") == first.release("bmi")
    assert len(drawn(store, "bmi")) == 1


def test_the_promise_lists_what_other_templates_noised(store: Store) -> None:
    opened(store)
    other = Guard.open(
        load_template("map"), values={"sbp": 120, "dbp": 80}, budget="0.5", store=store
    )
    promised = other.guarantee()
    assert {root.root for root in promised.others} == set(VALUES)
    assert promised.total == Ledger(store.events(OWNER)).total == sum(other.spent().values())
    assert promised.epsilon_of("ast") == other.spent()["ast"]
    assert "under other templates" in str(promised)


def test_the_promise_about_other_roots_is_in_their_own_unit_if_that_is_known() -> None:
    store = MemoryStore()
    opened(store)
    values = {"sbp": 120, "dbp": 80}
    other = Guard.open(load_template("map"), values=values, budget="0.5", store=store)
    ast = next(root for root in other.guarantee().others if root.root == "ast")
    assert (ast.unit, ast.step) == ("U/L", FIB4.roots[AST].domain.step)
    assert (ast.mechanism, ast.draws) == ("geometric", 1)
    store._quantities.pop(AST)  # as of a root that was erased in a store of version 0.1.0
    ast = next(root for root in other.guarantee().others if root.root == "ast")
    assert (ast.unit, ast.step) == ("grid steps", 1.0)
    assert other.guarantee().advantage({"ast": 1}) == math.tanh(float(ast.epsilon) / 2)
