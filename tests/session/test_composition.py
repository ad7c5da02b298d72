"""What identity and composition say at their edges, as docs/guarantees.md tells it."""

import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from rootguard import Guard, MemoryStore, Session, load_template
from rootguard.errors import BudgetError
from rootguard.events import RootNoised
from rootguard.store import Record, Store
from rootguard.template import Template, parse_template
from rootguard.values import MICRO, Principal, Raw, RootName, Sanitized
from rootguard.vault import open_store

FIB4 = load_template("fib4")
OWNER, AST = Principal("owner"), RootName("ast")
GRID = FIB4.roots[AST].domain
VALUES = {"age": 54.3, "ast": 23.1, "alt": 30.7, "plt": 220.4}


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = MemoryStore() if request.param == "memory" else open_store(f"sqlite:///{tmp_path}/v.db")
    yield made
    made.close()


def opened(store: Store, budget: str = "0.9", **values: float) -> Session:
    given = {**VALUES, **values}
    return Guard.open(FIB4, values=given, budget=budget, store=store, on_clamp=lambda _: None)


def one_root(lower: float, upper: float, grid: int = 1001) -> Template:
    text = f"""
name = "one"
title = "One root"
field = "test"
description = "A root."
[roots.age]
unit = "years"
lower = {lower}
upper = {upper}
grid = {grid}
[target]
name = "doubled"
formula = "2 * age"
"""
    return parse_template(text, file="one.toml")


def test_numbers_on_both_sides_of_the_middle_between_two_points_are_two_values(
    store: Store,
) -> None:
    """Half-way goes up, so the float below is another point, as it is in every template."""
    middle = GRID.lower + 100.5 * GRID.step
    while GRID.nearest(middle) == 101:
        middle = math.nextafter(middle, -math.inf)
    above = math.nextafter(middle, math.inf)
    assert (GRID.nearest(middle), GRID.nearest(above)) == (100, 101)
    opened(store, ast=middle)
    assert opened(store, ast=above).guarantee().draws_of("ast") == 2
    assert opened(store, ast=middle).guarantee().draws_of("ast") == 2


def test_numbers_beyond_a_bound_are_one_value(store: Store) -> None:
    first = opened(store, ast=5_000)
    again = opened(store, ast=6_000)
    assert again.release("ast") == first.release("ast")
    assert again.spent() == first.spent() == opened(store, ast=GRID.upper).spent()


def test_a_value_of_an_early_store_is_known_by_its_number_alone(store: Store) -> None:
    number = Raw(VALUES["ast"]).number_fingerprint(store.fingerprint_key, f"{OWNER}\x00{AST}")
    value = Sanitized(
        root=AST, index=70, domain=GRID, epsilon=Fraction(1, 10), mechanism="geometric"
    )
    event = RootNoised(
        principal=OWNER, root=AST, version=1, micro_epsilon=100_000, mechanism="geometric"
    )
    store.commit(OWNER, [Record(sanitized=value, fingerprint=number, event=event)])
    session = opened(store)
    assert session.release("ast") == value.value
    assert session.guarantee().draws_of("ast") == 1
    beside = opened(store, ast=math.nextafter(VALUES["ast"], math.inf))
    assert beside.guarantee().draws_of("ast") == 2


def test_the_figures_of_a_root_that_was_noised_three_times_are_those_of_the_sum(
    store: Store,
) -> None:
    first = opened(store).guarantee()
    opened(store, ast=61.4)
    promised = opened(store, ast=99.9).guarantee()
    once, thrice = first.roots[1], promised.roots[1]
    assert thrice.epsilon == promised.epsilon_of("ast") == 3 * once.epsilon
    assert (first.draws_of("ast"), promised.draws_of("ast")) == (1, 3)
    assert promised.total == first.total + 2 * once.epsilon
    assert promised.advantage({"ast": 3 * GRID.step}) == pytest.approx(
        math.tanh(9 * float(once.epsilon) / 2)
    )
    assert thrice.hidden_within == pytest.approx(once.hidden_within / 3, abs=GRID.step)
    assert "ast 3 times" in str(promised)
    assert "What the draws of a root tell adds up" in str(promised)
    assert "noised" not in str(once)


def test_the_printed_guarantee_says_that_the_pattern_of_changes_shows_and_what_hides_it(
    store: Store,
) -> None:
    for promised in (opened(store).guarantee(), opened(store, ast=61.4).guarantee()):
        not_covered = str(promised).partition("Not covered:")[2]
        assert "it shows that a value changed, or came back to an earlier one" in not_covered
        assert 'on_change="keep" hides that' in not_covered


def test_a_refinement_is_no_other_draw_and_counts_at_its_highest_level(store: Store) -> None:
    opened(store)
    refined = Guard.refine(FIB4, values=VALUES, budget="1.5", store=store).guarantee()
    assert refined.total == Fraction(3, 2)
    assert refined.draws_of("ast") == 1
    finest = max(record.sanitized.epsilon for record in store.levels(OWNER, AST))
    assert refined.epsilon_of("ast") == finest


def test_a_refinement_stops_at_the_lifetime_cap_as_well(store: Store) -> None:
    opened(store, budget="0.5")
    with pytest.raises(BudgetError, match="10 times what its first draw cost"):
        Guard.refine(FIB4, values=VALUES, budget="50", store=store)
    assert store.ledger(OWNER).total == Fraction(1, 2)


def test_a_template_with_other_bounds_is_served_within_its_own(store: Store) -> None:
    Guard.open(one_root(0, 100), values={"age": 90}, budget="50", store=store)
    narrow = Guard.resume(one_root(20, 50, 301), store=store)
    assert narrow.release("age") == 50
    told: list[tuple[str, ...]] = []
    wide = one_root(0, 200, 2001)
    beyond = Guard.open(wide, values={"age": 150}, budget="50", store=store, on_clamp=told.append)
    assert told == [("age",)]  # the store's bounds clamp it, though not the template's
    assert beyond.number("age") <= 100


def test_a_part_of_a_budget_that_is_none_on_the_stores_grid_is_refused(store: Store) -> None:
    Guard.open(one_root(0, 100), values={"age": 42}, budget="0.9", store=store)
    coarse = one_root(0, 100, 2)  # its step is a thousand of the store's
    with pytest.raises(BudgetError, match=r"0 to 100 years, 1001 points.*nothing was drawn"):
        Guard.open(coarse, values={"age": 77}, budget="0.0005", allocation="uniform", store=store)
    assert store.ledger(OWNER).total == Fraction(9, 10)
    Guard.open(coarse, values={"age": 77}, budget="0.002", store=store)
    assert store.ledger(OWNER).total == Fraction(9, 10) + Fraction(2, MICRO)
