"""One service, its tier and time: what it was given stays, and all that it gets is counted."""

import functools
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from rootguard import Guard, MemoryStore, load_template
from rootguard.calibration import make_plan
from rootguard.errors import BudgetError, PrivateValueError, StoreError
from rootguard.session.draws import levels_at
from rootguard.session.guard import promise, tier_of
from rootguard.session.policy import Policy, parse_policy
from rootguard.store import Disclosure, Store
from rootguard.template import Template, parse_template
from rootguard.values import MICRO, Principal, RootName, to_micro
from rootguard.vault import open_store

OWNER = Principal("owner")


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = MemoryStore() if request.param == "memory" else open_store(f"sqlite:///{tmp_path}/v.db")
    yield made
    made.close()


def policy(tier: str = "public", public: str = "0.1") -> Policy:
    text = f"""
[tiers.poor]
budget = "0.01"
[tiers.public]
budget = "{public}"
[tiers.rich]
budget = "1.0"
[services.app]
tier = "{tier}"
roots = "*"
formulas = "*"
"""
    return parse_policy(text, file="policy.toml")


def masses(name: str, *roots: str, upper: int = 100) -> Template:
    bounds = f'unit = "kg"\nlower = 0\nupper = {upper}'
    listed = "\n".join(f"[roots.{root}]\n{bounds}" for root in roots)
    text = f"""
name = "{name}"
title = "Masses"
field = "test"
description = "A sum."
{listed}
[target]
name = "sum_{name}"
formula = "{" + ".join(roots)}"
"""
    return parse_template(text, file=f"{name}.toml")


FOUR, ONE = masses("four", "a", "b", "c", "d"), masses("one", "a")
MORE, WIDE = masses("more", "g", "h"), masses("wide", "a", "b", upper=200)


@pytest.fixture
def filled(store: Store) -> Store:
    Guard.open(FOUR, values=dict.fromkeys("abcd", 40), budget="4", store=store)
    return store


def given(store: Store, template: Template, rules: Policy, root: str = "a") -> float:
    return Guard.serve(template, store=store, policy=rules, service="app").number(root)


def test_another_template_or_a_raised_budget_changes_no_value_that_was_given(filled: Store) -> None:
    first = given(filled, FOUR, policy())
    held = filled.held(OWNER, "app")
    assert given(filled, ONE, policy()) == first  # alone its share would be four times as much
    assert given(filled, FOUR, policy(public="3.9")) == first
    assert given(filled, FOUR, policy()) == first
    assert filled.held(OWNER, "app") == held
    Guard.refine(FOUR, values=dict.fromkeys("abcd", 40), budget="8", store=filled)
    assert given(filled, FOUR, policy()) == first
    assert filled.verify() == ()


def test_a_richer_tier_gives_more_and_a_poorer_one_takes_nothing_back(filled: Store) -> None:
    given(filled, FOUR, policy())
    level = filled.held(OWNER, "app")["a", 1]
    richer = given(filled, FOUR, policy("rich"))
    assert filled.held(OWNER, "app")["a", 1] > level
    assert given(filled, ONE, policy("poor")) == richer
    assert given(filled, ONE, policy("public")) == richer
    with pytest.raises(BudgetError, match="given all that its tier"):
        given(filled, FOUR, policy("poor"))
    assert filled.verify() == ()


def test_nothing_is_given_from_before_an_erasure_to_anybody(filled: Store) -> None:
    service = Guard.serve(FOUR, store=filled, policy=policy(), service="app")
    owner = Guard.resume(FOUR, store=filled)
    filled.erase(OWNER)
    for session in (service, owner):
        with pytest.raises(StoreError, match="erased meanwhile; nothing was released"):
            session.target()
    assert filled.disclosures(OWNER) == ()
    assert filled.held(OWNER, "app") == {}
    assert filled.verify() == ()


BMI = """
name = "weighed"
title = "BMI beside height and weight"
field = "test"
description = "A root that is a formula of others, and one that is not."
[roots.bmi]
unit = "kg/m^2"
lower = 10
upper = 60
mean = 25
sd = 4
kept = { formula = "wt / ht ** 2", units = { wt = "kg", ht = "m" } }
[roots.waist]
unit = "cm"
lower = 40
upper = 200
[target]
name = "shape"
formula = "bmi + waist"
"""


def test_a_computed_root_stands_beside_a_drawn_one_wherever_sessions_come_from(
    store: Store,
) -> None:
    weighed, bsa = parse_template(BMI, file="bmi.toml"), load_template("bsa")
    Guard.open(bsa, values={"wt": 80, "ht": 1.8}, budget="0.9", store=store)
    first = Guard.open(
        weighed, values={"waist": 90}, budget="0.9", store=store, calibrate=True, lifetime=20
    )
    assert not first.calibrated
    Guard.refine(weighed, values={"waist": 90}, budget="1.9", store=store, calibrate=True)
    resumed = Guard.resume(weighed, store=store, calibrate=True)
    assert resumed.release("bmi") == first.release("bmi")
    assert resumed.guarantee().total == store.ledger(OWNER).total
    served = Guard.serve(weighed, store=store, policy=policy(), service="app", calibrate=True)
    served.target()
    assert {root for root, _ in store.held(OWNER, "app")} == {"wt", "ht", "waist"}
    assert sum(store.held(OWNER, "app").values()) <= 100_000
    assert "bmi" not in store.ledger(OWNER).micro
    assert store.verify() == ()


def test_a_root_is_computed_from_the_persons_own_values_and_nobody_elses(store: Store) -> None:
    weighed, bsa = parse_template(BMI, file="bmi.toml"), load_template("bsa")
    Guard.open(bsa, values={"wt": 80, "ht": 1.8}, budget="0.9", store=store, principal="ana")
    with pytest.raises(PrivateValueError, match="bmi"):
        Guard.open(weighed, values={"waist": 90}, budget="0.9", store=store)
    drawn = Guard.open(weighed, values={"waist": 90, "bmi": 30}, budget="0.9", store=store)
    assert "bmi" in drawn.spent()
    assert "bmi" not in drawn.guarantee().computed


@pytest.mark.parametrize("lifetime", [0, -1, True, 1.5, "2"])
def test_a_lifetime_that_is_no_whole_number_is_refused(store: Store, lifetime: object) -> None:
    with pytest.raises(BudgetError, match="whole number"):
        Guard.open(ONE, values={"a": 4}, budget=1, store=store, lifetime=lifetime)  # type: ignore[arg-type]
    assert store.caps(OWNER) == {}
    assert store.events(OWNER) == ()


def test_what_a_service_had_before_each_erasure_is_added_up(store: Store) -> None:
    held = []
    for _ in range(3):
        Guard.open(FOUR, values=dict.fromkeys("abcd", 40), budget="4", store=store)
        given(store, FOUR, policy())
        held.append(sum(store.held(OWNER, "app").values()))
        store.erase(OWNER)
        assert store.held(OWNER, "app") == {("a", 0): held[-1]}
    assert 0 < held[0] < held[1] < held[2] <= 100_000


def test_of_several_levels_that_a_service_was_given_the_finest_counts(filled: Store) -> None:
    for tier in ("rich", "poor"):  # two sessions that were open at once gave these, in this order
        Guard.serve(FOUR, store=filled, policy=policy(tier), service="app")
    levels = filled.levels(OWNER, RootName("a"))
    rich, poor = levels[1:]
    for tier, record in (("rich", rich), ("poor", poor)):
        filled.disclose(
            OWNER,
            [Disclosure(service="app", tier=tier, root="a", version=1, position=record.position)],
        )
    assert filled.held(OWNER, "app") == {("a", 1): to_micro(rich.sanitized.epsilon)}
    assert rich.sanitized.epsilon > poor.sanitized.epsilon


def test_roots_that_would_gain_most_give_up_what_another_holds_beyond_its_share(
    store: Store,
) -> None:
    values = dict.fromkeys("abcd", 40)
    Guard.open(ONE, values={"a": 40}, budget="3", store=store)
    Guard.open(FOUR, values=values, budget="1", allocation="uniform", store=store)
    raised = Guard.refine(FOUR, values=values, budget="4", allocation="uniform", store=store)
    assert raised.guarantee().total == 4
    assert sorted(map(float, raised.spent().values())) == [0.25, 0.25, 0.5, 3]
    assert store.verify() == ()


def left(store: Store, rules: Policy, *templates: Template) -> dict[str, int]:
    """What a tier gives of each root, in micro-epsilon."""
    even = functools.partial(make_plan, allocation="uniform")
    tier = tier_of(rules, "app", templates, store.snapshot(OWNER), even)
    return {str(root): to_micro(epsilon) for root, epsilon in tier.epsilons.items()}


def test_templates_share_a_tier_in_proportion_until_it_is_given(filled: Store) -> None:
    assert left(filled, policy()) == {}
    assert left(filled, policy(), FOUR) == dict.fromkeys("abcd", 25_000)
    shared = {**dict.fromkeys("abcd", 12_500), **dict.fromkeys("gh", 25_000)}
    assert left(filled, policy(), FOUR, MORE) == shared
    level = filled.levels(OWNER, RootName("a"))[0]
    wanted = {RootName("a"): Fraction(25_000, MICRO)}
    quarter = levels_at(filled, filled.snapshot(OWNER), wanted)[RootName("a")]
    assert quarter != level
    filled.disclose(
        OWNER,
        [Disclosure(service="app", tier="public", root="a", version=1, position=quarter.position)],
    )
    assert left(filled, policy(), MORE) == dict.fromkeys("gh", 37_500)
    rest = {**dict.fromkeys("bcd", 10_714), **dict.fromkeys("gh", 21_428)}
    assert left(filled, policy(), FOUR, MORE) == {"a": 25_000, **rest}
    assert left(filled, policy(), ONE) == {"a": 25_000}
    assert left(filled, policy("rich"), FOUR) == dict.fromkeys("abcd", 250_000)
    assert left(filled, policy("rich"), FOUR, MORE)["a"] == 125_000
    assert left(filled, policy("poor"), FOUR) == {"a": 25_000}
    assert tier_of(policy("rich"), "app", (FOUR,), filled.snapshot(OWNER)).budget == MICRO


def test_a_lifetime_is_a_multiple_of_the_first_price_of_each_root_without_a_cap(
    store: Store,
) -> None:
    Guard.open(ONE, values={"a": 4}, budget=1, store=store)
    Guard.open(ONE, values={"a": 4}, budget=2, store=store, lifetime=3)
    assert store.caps(OWNER) == {"a": 3 * MICRO}
    values = dict.fromkeys("abcd", 4)
    Guard.open(FOUR, values=values, budget=2, allocation="uniform", store=store, lifetime=1)
    assert store.caps(OWNER) == {"a": 3 * MICRO, **dict.fromkeys("bcd", MICRO // 2)}


@pytest.mark.parametrize(("first", "then"), [(ONE, WIDE), (WIDE, ONE)])
def test_the_owner_is_told_of_values_outside_the_template_or_what_is_kept(
    store: Store, first: Template, then: Template
) -> None:
    told: list[tuple[str, ...]] = []
    inside = {"a": 50, "b": 150}
    for template, values in ((first, inside), (then, inside), (then, {**inside, "a": 150})):
        given = {str(root): values[root] for root in template.roots}
        Guard.open(template, values=given, budget=1, store=store, on_clamp=told.append)
    assert told == [("a",)]


def test_the_share_of_a_computed_root_is_divided_among_what_it_rests_on(store: Store) -> None:
    weighed, bsa = parse_template(BMI, file="bmi.toml"), load_template("bsa")
    Guard.open(bsa, values={"wt": 80, "ht": 1.8}, budget="0.9", store=store)
    assert left(store, policy(), weighed) == {"wt": 25_000, "ht": 25_000, "waist": 50_000}


def test_a_plan_promises_its_roots_and_names_what_is_computed() -> None:
    plan = make_plan(FOUR, Fraction(2), allocation="uniform")
    promised = promise(FOUR, plan)
    assert promised.computed == ("sum_four",)
    assert promised.identifiers == 0
    assert promised.total == 2
