"""A draw that nobody was given can be thrown away at no cost; one that somebody has cannot."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rootguard import Guard, MemoryStore, open_store
from rootguard.store import Store
from rootguard.values import Principal

ANA = Principal("ana")
BODY = {"wt": 80.0, "ht": 1.8}


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = MemoryStore() if request.param == "memory" else open_store(f"sqlite:///{tmp_path}/v.db")
    yield made
    made.close()


def test_unseen_draws_leave_no_cost_and_the_next_one_is_the_first(store: Store) -> None:
    Guard.open("bmi", values=BODY, budget=1, store=store, principal=ANA)
    assert store.ledger(ANA).total == 1
    store.erase(ANA, forget_unseen=True)
    assert store.ledger(ANA).total == 0
    assert store.records(ANA) == ()
    Guard.open("bmi", values=BODY | {"wt": 90}, budget=1, store=store, principal=ANA)
    assert store.ledger(ANA).total == 1
    assert store.ledger(ANA).draws == {"wt": 1, "ht": 1}
    assert store.verify() == ()


def test_what_was_given_to_anybody_stays_charged(store: Store) -> None:
    session = Guard.open("bmi", values=BODY, budget=1, store=store, principal=ANA)
    session.release("wt")
    paid = store.ledger(ANA).spent["wt"]
    store.erase(ANA, forget_unseen=True)
    assert store.ledger(ANA).spent == {"wt": paid}
    # After an erasure it is not known which versions were seen: all of that root counts on.
    Guard.open("bmi", values=BODY, budget=1, store=store, principal=ANA)
    store.erase(ANA, forget_unseen=True)
    assert store.ledger(ANA).spent == {"wt": 2 * paid}
    assert store.verify() == ()


def test_an_erasure_leaves_all_costs_unless_it_is_asked_not_to(store: Store) -> None:
    Guard.open("bmi", values=BODY, budget=1, store=store, principal=ANA)
    store.erase(ANA)
    assert store.ledger(ANA).total == 1
