"""Many people at a time get what each alone would get, and whom a cap refuses is refused alone."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import pytest

from rootguard import MemoryStore, load_template
from rootguard.calibration import make_plan
from rootguard.errors import BudgetError, ErasedError
from rootguard.sanitizer import seal
from rootguard.session.crowds import Declared, Outcome, kept_each, noise_each
from rootguard.store import Commit, Record, Store
from rootguard.values import Principal, RootName, to_micro

FIB4 = load_template("fib4")
PLAN = make_plan(FIB4, Fraction(9, 10))
AST, AGE = RootName("ast"), RootName("age")
VALUES = {"age": 54, "ast": 23, "alt": 30, "plt": 220}


def declared(store: Store, name: str, **values: float) -> Declared:
    """A person as the store knows this person now, with these values and no others."""
    found = seal(values, FIB4.root_called) or {}
    raws = {RootName(root): raw for root, raw in found.items() if raw is not None}
    assert len(raws) == len(values)
    return Declared(person=store.snapshot(Principal(name)), raws=raws)


def noise(store: Store, people: Sequence[Declared]) -> list[Outcome]:
    return noise_each(store, PLAN, FIB4.roots, people)


def drawn(outcome: Outcome) -> Mapping[RootName, Record]:
    assert not isinstance(outcome, BudgetError)
    return outcome


def test_of_nobody_nothing_is_drawn() -> None:
    assert noise(MemoryStore(), []) == []


def test_each_person_is_drawn_once_at_the_plans_prices_in_the_order_of_the_values() -> None:
    store = MemoryStore()
    first = noise(store, [declared(store, name, **VALUES) for name in ("a", "b")])
    for name, outcome in zip("ab", first, strict=True):
        assert list(drawn(outcome)) == list(VALUES)
        assert store.ledger(Principal(name)).micro == {
            share.root: to_micro(share.epsilon) for share in PLAN.shares
        }
        assert {record.sanitized.version for record in drawn(outcome).values()} == {1}
    again = noise(store, [declared(store, name, **VALUES) for name in ("b", "a", "c")])
    assert again[:2] == first[::-1]
    assert store.ledger(Principal("c")).micro == store.ledger(Principal("a")).micro


def test_a_value_that_is_added_is_drawn_beside_those_that_are_kept() -> None:
    store = MemoryStore()
    (few,) = noise(store, [declared(store, "a", age=54)])
    (all_of_them,) = noise(store, [declared(store, "a", **VALUES)])
    assert drawn(all_of_them)[AGE] == drawn(few)[AGE]
    assert list(drawn(all_of_them)) == list(VALUES)
    (less,) = noise(store, [declared(store, "a", ast=23)])
    assert drawn(less) == {AST: drawn(all_of_them)[AST]}


def test_a_changed_value_is_a_new_version_and_one_that_comes_back_is_its_own_draw() -> None:
    store = MemoryStore()
    (first,) = noise(store, [declared(store, "a", **VALUES)])
    (second,) = noise(store, [declared(store, "a", **{**VALUES, "ast": 90})])
    assert drawn(second)[AST].sanitized.version == 2
    assert drawn(second)[AGE] == drawn(first)[AGE]
    spent = store.ledger(Principal("a")).micro
    assert spent[AST] == 2 * to_micro(PLAN[AST].epsilon)
    (back,) = noise(store, [declared(store, "a", **VALUES)])
    assert drawn(back)[AST].sanitized.index == drawn(first)[AST].sanitized.index
    assert store.ledger(Principal("a")).micro == spent


def test_whom_a_cap_refuses_is_refused_alone() -> None:
    store, price = MemoryStore(), to_micro(PLAN[AST].epsilon)
    store.set_caps(Principal("poor"), {"ast": price - 1})
    store.set_caps(Principal("just"), {"ast": price})
    poor, just = noise(store, [declared(store, name, **VALUES) for name in ("poor", "just")])
    assert isinstance(poor, BudgetError)
    assert not store.records(Principal("poor"))
    assert list(drawn(just)) == list(VALUES)


def test_a_value_that_comes_back_with_one_that_a_cap_forbids_is_refused_as_a_whole() -> None:
    store, price = MemoryStore(), to_micro(PLAN[AST].epsilon)
    noise(store, [declared(store, "a", ast=23)])
    noise(store, [declared(store, "a", ast=90)])
    store.set_caps(Principal("a"), {"ast": 2 * price, "age": 1})
    (refused,) = noise(store, [declared(store, "a", ast=23, age=54)])
    assert isinstance(refused, BudgetError)
    assert AGE not in store.ledger(Principal("a")).micro


class Refusing(MemoryStore):
    """A store that finds something wrong with every commit, as it does when it lost a race."""

    refusal: tuple[Record, ...] | BudgetError | ErasedError = ()

    def commit_each(
        self, commits: Sequence[Commit]
    ) -> list[tuple[Record, ...] | BudgetError | ErasedError]:
        return [self.refusal for _ in commits]


def test_what_the_store_refuses_at_the_end_is_refused_and_an_erasure_ends_all() -> None:
    store = Refusing()
    store.refusal = BudgetError("a cap, meanwhile")
    assert noise(store, [declared(store, "a", **VALUES)]) == [store.refusal]
    store.refusal = ErasedError("erased, meanwhile")
    with pytest.raises(ErasedError):
        noise(store, [declared(store, "a", **VALUES)])
    store.refusal = ()  # another writer was first, so this person is asked about alone
    (outcome,) = noise(store, [declared(store, "a", **VALUES)])
    assert drawn(outcome) == {
        record.sanitized.root: record for record in store.records(Principal("a"))
    }


def test_who_declares_what_is_kept_is_served_without_a_draw() -> None:
    store = MemoryStore()
    people = [declared(store, name, **VALUES) for name in ("a", "b")]
    first = noise(store, people)
    domain = FIB4.roots[AST].domain
    point = domain.nearest(23)
    names = [Principal(name) for name in ("a", "b", "c")]
    other = domain.nearest(90)
    assert kept_each(store, names, {AST: (domain, [point, other, point])}) == [
        {AST: drawn(first[0])[AST].sanitized},
        None,
        None,
    ]
    assert kept_each(store, names, {AST: (domain, [None, point, None])}) == [
        {},
        {AST: drawn(first[1])[AST].sanitized},
        {},
    ]
