"""What it costs to noise a value anew, as its owner is told."""

from dataclasses import replace
from fractions import Fraction

import pytest

from rootguard.errors import BudgetError, PrivateValueError, UnknownNameError
from rootguard.session.changes import change, forget_unseen, offers, unseen
from rootguard.session.person import Person
from rootguard.session.profile import Profile, parse_profile
from rootguard.session.series import DriftTest
from rootguard.store import MemoryStore
from rootguard.values import MICRO, RootName, to_micro

PROFILE = """
templates = ["fib4"]
budget = "2"
[values]
age = 54
ast = 40
alt = 35
plt = 220
"""


def test_what_a_change_costs_is_told_in_epsilon() -> None:
    store, profile = MemoryStore(), parse_profile(PROFILE, file="profile.toml")
    person = Person.open(profile, store=store, on_clamp=lambda _roots: None)
    assert person.number("ast") > 0  # seen, so that nothing is thrown away
    before = store.ledger(profile.principal).micro
    spent = change(profile, store, {"ast": 90})
    after = store.ledger(profile.principal).micro
    assert spent == {"ast": (after["ast"] - before["ast"]) / MICRO}
    assert 0 < spent["ast"] < 2


def opened(store: MemoryStore, text: str = PROFILE) -> tuple[Profile, Person]:
    profile = parse_profile(text, file="profile.toml")
    return profile, Person.open(profile, store=store, on_clamp=lambda _roots: None)


def test_every_root_is_offered_at_its_price_with_what_was_spent_and_may_be() -> None:
    store, profile = MemoryStore(), parse_profile(PROFILE, file="profile.toml")
    (plan,) = profile.plans()
    prices = {share.root: to_micro(share.epsilon) for share in plan.shares}
    before = offers(profile, store)
    assert {o.root.name: o.price for o in before} == prices
    assert [(o.noised, o.spent, o.cap, o.affordable) for o in before] == [
        (False, 0, None, True)
    ] * len(prices)
    opened(store)
    after = offers(profile, store)
    assert {o.root.name: (o.price, o.spent, o.cap) for o in after} == {
        root: (price, price, 10 * price) for root, price in prices.items()
    }
    assert all(o.noised and o.in_profile and o.affordable for o in after)


def test_a_change_is_affordable_up_to_the_cap_and_not_past_it() -> None:
    store = MemoryStore()
    profile, _ = opened(store)
    offer = offers(profile, store)[0]
    assert replace(offer, spent=3, price=2, cap=5).affordable
    assert not replace(offer, spent=3, price=2, cap=4).affordable
    assert not replace(offer, spent=4, price=2, cap=5).affordable
    assert replace(offer, spent=3, price=2, cap=None).affordable


def test_a_root_without_a_value_in_the_profile_is_offered_as_such() -> None:
    store = MemoryStore()
    profile, person = opened(store, PROFILE.replace("ast = 40\n", ""))
    offer = {o.root.name: o for o in offers(profile, store)}
    assert (offer[RootName("ast")].in_profile, offer[RootName("ast")].noised) == (False, False)
    assert (offer[RootName("age")].in_profile, offer[RootName("age")].noised) == (True, True)
    person.sight("ast", 40)
    (ast,) = (o for o in offers(profile, store) if o.root.name == "ast")
    assert (ast.in_profile, ast.noised) == (False, True)


def test_only_a_series_that_drifts_costs_its_test_as_well() -> None:
    for how, series in (("drift", True), ("drift", False), ("daily", True)):
        profile = parse_profile(f'on_change = "{how}"\n{PROFILE}', file="profile.toml")
        (template,) = profile.templates
        ast = template.roots[RootName("ast")]
        roots = {**template.roots, ast.name: replace(ast, series=series)}
        profile = replace(profile, templates=(replace(template, roots=roots),))
        (plan,) = profile.plans()
        (offer,) = (o for o in offers(profile, MemoryStore()) if o.root.name == "ast")
        epsilon = plan[ast.name].epsilon
        test = DriftTest.price(epsilon) if how == "drift" and series else Fraction(0)
        assert offer.price == to_micro(epsilon) + to_micro(test)


def test_a_public_root_changes_for_nothing() -> None:
    text = PROFILE.replace('budget = "2"', 'budget = "2"\npublic = ["age"]')
    profile = parse_profile(text, file="profile.toml")
    prices = {o.root.name: o.price for o in offers(profile, MemoryStore())}
    assert prices[RootName("age")] == 0
    assert min(price for root, price in prices.items() if root != "age") > 0


def test_draws_that_nobody_saw_are_forgotten_and_those_that_were_seen_are_not() -> None:
    store = MemoryStore()
    profile = parse_profile(PROFILE, file="profile.toml")
    assert not unseen(store, profile.principal)  # there is nothing to forget
    assert not forget_unseen(store, profile.principal)
    _, person = opened(store)
    assert unseen(store, profile.principal)
    assert forget_unseen(store, profile.principal)
    assert not store.records(profile.principal)
    _, person = opened(store)
    person.number("ast")
    assert not unseen(store, profile.principal)
    assert not forget_unseen(store, profile.principal)
    assert store.records(profile.principal)


def test_before_a_release_the_changed_value_is_drawn_at_its_first_price() -> None:
    store = MemoryStore()
    profile, _ = opened(store)
    (plan,) = profile.plans()
    spent = change(profile, store, {"ast": "90"})
    assert spent == {root: float(plan[root].epsilon) for root in profile.values}
    ledger = store.ledger(profile.principal).micro
    assert ledger == {share.root: to_micro(share.epsilon) for share in plan.shares}


def test_before_a_release_values_that_only_were_sighted_are_to_be_given_again() -> None:
    store = MemoryStore()
    profile, person = opened(store, PROFILE.replace("ast = 40\n", "").replace("alt = 35\n", ""))
    person.sight("ast", 40)
    records = store.records(profile.principal)
    with pytest.raises(PrivateValueError, match=r"nothing was released yet.*: ast$"):
        change(profile, store, {"age": 60})
    assert store.records(profile.principal) == records
    assert set(change(profile, store, {"age": 60, "ast": 41})) == {"age", "ast", "plt"}


def test_nothing_is_thrown_away_for_a_change_that_a_cap_forbids() -> None:
    store = MemoryStore()
    profile, _ = opened(store)
    records = store.records(profile.principal)
    price = {o.root.name: o.price for o in offers(profile, store)}[RootName("ast")]
    store.set_caps(profile.principal, {"ast": price - 1})
    with pytest.raises(BudgetError):
        change(profile, store, {"ast": 90})
    assert store.records(profile.principal) == records
    store.set_caps(profile.principal, {"ast": price})
    change(profile, store, {"ast": 90})
    assert store.records(profile.principal) != records


@pytest.mark.parametrize("typed", [" 41,5 ", "41.5", 41.5])
def test_a_number_is_typed_with_a_point_or_a_comma(typed: object) -> None:
    store = MemoryStore()
    profile, person = opened(store)
    person.number("ast")
    change(profile, store, {"ast": typed})
    spent = store.ledger(profile.principal).micro
    assert change(profile, store, {"ast": 41.5}) == {"ast": 0.0}  # the same point of the grid
    assert store.ledger(profile.principal).micro == spent


def test_what_cannot_be_a_value_of_a_root_is_refused_and_nothing_is_drawn() -> None:
    store = MemoryStore()
    profile, person = opened(store)
    person.number("ast")
    spent = store.ledger(profile.principal).micro
    bounds = profile.templates[0].roots[RootName("ast")].domain
    for value in ("many", "", None, "1,000.5"):
        with pytest.raises(PrivateValueError, match=r"needed for: ast$"):
            change(profile, store, {"ast": value, "age": 60})
    for far in (bounds.lower - 1, bounds.upper + 1):
        with pytest.raises(PrivateValueError, match=r"public bounds is needed for: ast$"):
            change(profile, store, {"ast": far, "age": 60})
    with pytest.raises(UnknownNameError) as refusal:
        change(profile, store, {"Jane Roe": 5})
    assert "Jane" not in str(refusal.value)
    assert store.ledger(profile.principal).micro == spent
