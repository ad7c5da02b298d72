"""What every store promises, tested on each store there is: of all draws, exactly one is kept."""

import dataclasses
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from rootguard.accounting import Ledger
from rootguard.errors import BudgetError, ErasedError
from rootguard.events import (
    Charge,
    LevelDerived,
    ProfileErased,
    RootCharged,
    RootNoised,
    RootRefined,
    RootReturned,
    ServiceCharged,
)
from rootguard.identifiers import IssuedToken
from rootguard.store import Disclosure, MemoryStore, Record, Store, check_caps
from rootguard.store.audit import problems
from rootguard.store.summary import PersonSummary
from rootguard.values import MICRO, Domain, Principal, RootName, RootQuantity, Sanitized
from rootguard.vault import open_store
from tests.support.patience import PATIENCE

ANA, EVE = Principal("ana"), Principal("eve")
AGE, AST = RootName("age"), RootName("ast")
DOMAIN = Domain(lower=0, upper=999)

Make = Callable[[], Store]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Makes fresh stores of one kind."""
    made: list[Store] = []

    def build() -> Store:
        match request.param:
            case "memory":
                url = "memory:"
            case "sqlite":
                url = f"sqlite:///{tmp_path / uuid.uuid4().hex}.db"
            case _:
                url = request.getfixturevalue("new_postgres")()
        made.append(open_store(url))
        return made[-1]

    yield build
    for store in made:
        store.close()


@pytest.fixture
def store(make: Make) -> Store:
    return make()


def draw(
    root: RootName, index: int, *, version: int = 1, micro: int = 5, principal: Principal = ANA
) -> Record:
    return Record(
        sanitized=Sanitized(
            root=root,
            index=index,
            domain=DOMAIN,
            epsilon=Fraction(micro, 10**6),
            mechanism="geometric",
            version=version,
        ),
        fingerprint=bytes([index % 256]) * 32,
        event=RootNoised(
            principal=principal,
            root=root,
            version=version,
            micro_epsilon=micro,
            mechanism="geometric",
        ),
    )


def refined(first: Record, index: int, level: int, *, position: int, paid: int) -> Record:
    """A finer level of a draw, or (for nothing) a coarser one."""
    root, version, who = first.sanitized.root, first.sanitized.version, first.event.principal
    event: Charge = LevelDerived(principal=who, root=root, version=version, level=level)
    if paid:
        event = RootRefined(
            principal=who, root=root, version=version, micro_epsilon=paid, level=level
        )
    epsilon = Fraction(level, 10**6)
    return dataclasses.replace(
        first,
        sanitized=dataclasses.replace(first.sanitized, index=index, epsilon=epsilon),
        position=position,
        event=event,
    )


def disclosure(root: RootName, *, service: str = "lab", version: int = 1) -> Disclosure:
    return Disclosure(service=service, tier="open", root=root, version=version, position=0)


def token(text: str, *, sealed: bytes = b"\x00sealed\xff") -> IssuedToken:
    return IssuedToken(kind="person", token=text, sealed=sealed)


def test_a_log_begins_with_its_first_entry(store: Store) -> None:
    store.commit(ANA, [draw(AGE, 3)])
    store.commit(ANA, [draw(AST, 4)])
    assert [entry.sequence for entry in store.log(ANA)] == [1, 2]
    assert [entry.sequence for entry in store.log(ANA, limit=1)] == [1]


def test_a_new_store_holds_nothing(store: Store) -> None:
    assert store.levels(ANA, AGE) == ()
    assert store.version(ANA, AGE) == 0
    assert store.events(ANA) == ()
    assert store.commit(ANA, []) == ()
    assert store.events(ANA) == ()
    assert store.caps(ANA) == {}
    assert store.disclosures(ANA) == ()
    assert store.verify() == ()


def test_what_was_committed_is_what_is_read(store: Store) -> None:
    records = (draw(AGE, 3), draw(AST, 7, micro=8))
    assert store.commit(ANA, records) == records
    assert store.levels(ANA, AGE) == records[:1]
    assert store.levels(ANA, AST) == records[1:]
    assert store.events(ANA) == (records[0].event, records[1].event)
    assert Ledger(store.events(ANA)).total == Fraction(13, 10**6)
    assert store.verify() == ()


@pytest.mark.parametrize(
    "domain",
    [
        Domain(lower=-0.0, upper=0.1, size=2),
        Domain(lower=-1e300, upper=1e-300, size=7),
        Domain(lower=0.1, upper=0.30000000000000004, size=100_000),
    ],
    ids=str,
)
def test_bounds_come_back_to_the_last_bit(store: Store, domain: Domain) -> None:
    first = draw(AGE, 1)
    kept = dataclasses.replace(first, sanitized=dataclasses.replace(first.sanitized, domain=domain))
    store.commit(ANA, [kept])
    [level] = store.levels(ANA, AGE)
    assert repr(level) == repr(kept)  # -0.0 equals 0.0, but does not print like it


def test_the_first_writer_wins_and_the_second_gets_what_is_there(store: Store) -> None:
    first, second = draw(AGE, 3), draw(AGE, 900, micro=77)
    store.commit(ANA, [first])
    assert store.commit(ANA, [second]) == (first,)
    assert store.levels(ANA, AGE) == (first,)


def test_only_kept_draws_are_charged(store: Store) -> None:
    store.commit(ANA, [draw(AGE, 3)])
    late, new = draw(AGE, 4, micro=100), draw(AST, 5, micro=20)
    assert store.commit(ANA, [late, new]) == (draw(AGE, 3), new)
    assert store.events(ANA) == (draw(AGE, 3).event, new.event)


def test_answers_come_in_the_order_of_the_draws(store: Store) -> None:
    store.commit(ANA, [draw(AST, 1)])
    kept = store.commit(ANA, [draw(AST, 2), draw(AGE, 3), draw(AST, 4, version=2)])
    assert kept == (draw(AST, 1), draw(AGE, 3), draw(AST, 4, version=2))


def test_a_root_twice_in_one_commit_is_kept_once(store: Store) -> None:
    first, second = draw(AGE, 3), draw(AGE, 4)
    assert store.commit(ANA, [first, second]) == (first, first)
    assert store.events(ANA) == (first.event,)


def test_levels_are_those_of_the_newest_version_and_versions_come_in_order(store: Store) -> None:
    store.commit(ANA, [draw(AGE, 1, version=1)])
    store.commit(ANA, [draw(AGE, 2, version=2)])
    assert store.levels(ANA, AGE) == (draw(AGE, 2, version=2),)
    assert store.commit(ANA, [draw(AGE, 9, version=1)]) == (draw(AGE, 1, version=1),)
    assert store.levels(ANA, AGE) == (draw(AGE, 2, version=2),)
    for early in (4, 5):  # whoever saw a third version saw one that is not there
        with pytest.raises(ErasedError):
            store.commit(ANA, [draw(AGE, 5, version=early)])
    store.commit(ANA, [draw(AGE, 3, version=3)])
    assert store.version(ANA, AGE) == 3
    assert [getattr(event, "version", 0) for event in store.events(ANA)] == [1, 2, 3]


def test_levels_of_a_version_are_kept_side_by_side_and_none_is_changed(store: Store) -> None:
    first = draw(AGE, 3, micro=10)
    finer = refined(first, 4, 25, position=1, paid=15)
    coarser = refined(first, 9, 5, position=2, paid=0)
    store.commit(ANA, [first])
    assert store.commit(ANA, [finer]) == (finer,)
    assert store.commit(ANA, [refined(first, 8, 30, position=1, paid=20)]) == (finer,)
    store.commit(ANA, [coarser])
    assert store.levels(ANA, AGE) == (first, finer, coarser)
    assert Ledger(store.events(ANA)).micro == {"age": 25}
    assert store.verify() == ()


def test_no_level_behind_a_gap_is_given_out(store: Store) -> None:
    first = draw(AGE, 3, micro=10)
    store.commit(ANA, [first])
    with pytest.raises(ErasedError, match="erased meanwhile; nothing was released"):
        store.commit(ANA, [refined(first, 9, 5, position=2, paid=0)])
    assert store.levels(ANA, AGE) == (first,)
    assert store.events(ANA) == (first.event,)


def test_a_level_of_a_version_that_was_erased_meanwhile_is_not_kept(store: Store) -> None:
    first = draw(AGE, 3, micro=10)
    store.commit(ANA, [first])
    store.erase(ANA)
    with pytest.raises(ErasedError, match="erased meanwhile"):
        store.commit(ANA, [refined(first, 9, 15, position=1, paid=5)])
    assert not store.return_to(ANA, {AGE: 1})
    assert store.records(ANA) == ()
    assert Ledger(store.events(ANA)).micro == {"age": 10}
    assert store.verify() == ()


def test_a_version_can_be_returned_to_and_is_then_the_current_one(store: Store) -> None:
    first, second = draw(AGE, 3), draw(AGE, 8, version=2)
    store.commit(ANA, [first])
    store.commit(ANA, [second])
    assert store.records(ANA) == (first, second)
    assert store.find(ANA, {AGE: [b"?", first.fingerprint]}) == {AGE: first}
    assert store.find(ANA, {AGE: [second.fingerprint]}) == {AGE: second}
    assert store.find(ANA, {AST: [first.fingerprint]}) == {}
    assert store.find(EVE, {AGE: [first.fingerprint]}) == {}
    assert store.find(ANA, {AGE: []}) == store.find(ANA, {}) == {}
    assert store.return_to(ANA, {AGE: 1})
    assert store.levels(ANA, AGE) == (first,)
    assert store.version(ANA, AGE) == 2
    assert store.return_to(ANA, {AGE: 1})  # already there: nothing is written
    assert not store.return_to(ANA, {AGE: 3})
    assert not store.return_to(EVE, {AGE: 1})
    assert store.events(ANA)[2:] == (RootReturned(principal=ANA, root=AGE, version=1),)
    third = draw(AGE, 5, version=3)
    store.commit(ANA, [third])
    assert store.levels(ANA, AGE) == (third,)
    assert store.verify() == ()


def test_several_roots_are_found_and_returned_to_together(store: Store) -> None:
    old, alt = {AGE: draw(AGE, 3), AST: draw(AST, 4)}, RootName("alt")
    store.commit(ANA, list(old.values()))
    store.commit(ANA, [draw(AGE, 8, version=2), draw(AST, 9, version=2)])
    marks = {root: record.fingerprint for root, record in old.items()}
    wanted = {AGE: [marks[AGE]], AST: [b"?", marks[AST]], alt: [marks[AGE]]}
    assert store.find(ANA, wanted) == old
    assert store.find(ANA, {AGE: [marks[AST]], AST: [marks[AGE]]}) == {}  # the other root's
    back = store.return_to(ANA, {AGE: 1, AST: 1, alt: 1})
    assert back == {root: (record,) for root, record in old.items()}
    assert [event.root for event in store.events(ANA)[4:]] == [AGE, AST]  # type: ignore[union-attr]
    assert store.levels(ANA, AST) == (old[AST],)
    assert store.verify() == ()


def test_caps_are_set_together_or_not_at_all(store: Store) -> None:
    store.set_caps(ANA, {"age": 5, "": 9})
    store.set_caps(ANA, {"age": None, "ast": 7})
    assert store.caps(ANA) == {"": 9, "ast": 7}
    store.set_caps(ANA, {})
    assert store.caps(ANA) == {"": 9, "ast": 7}
    assert store.verify() == ()


def test_units_and_grids_are_fixed_by_whoever_comes_first(store: Store) -> None:
    years = RootQuantity(name=AGE, unit="years", domain=Domain(lower=18, upper=80, size=11))
    months = RootQuantity(name=AGE, unit="months", domain=Domain(lower=216, upper=960, size=5))
    liver = RootQuantity(name=AST, unit="U/L", domain=Domain(lower=7, upper=272, size=1000))
    assert store.quantities() == {}
    store.define([years])
    store.define([months, liver])
    store.define([])
    assert store.quantities() == {AGE: years, AST: liver}
    assert store.verify() == ()


def test_a_service_is_given_no_more_than_its_limit_in_all(store: Store) -> None:
    store.commit(ANA, [draw(AGE, 3, micro=10), draw(AST, 4, micro=6)])
    store.disclose(ANA, [disclosure(AGE)], 15)
    store.disclose(ANA, [disclosure(AGE)], 1)  # what it has is not counted again
    with pytest.raises(BudgetError, match="all that its tier"):
        store.disclose(ANA, [disclosure(AST)], 15)
    service = disclosure(AGE).service
    assert store.held(ANA, service) == {(AGE, 1): 10}
    store.disclose(ANA, [disclosure(AST)], 16)
    assert store.held(ANA, service) == {(AGE, 1): 10, (AST, 1): 6}
    assert store.held(ANA, "stranger") == {}
    store.erase(ANA)
    assert store.held(ANA, service) == {(AGE, 0): 10, (AST, 0): 6}
    store.commit(ANA, [draw(AGE, 3, version=2, micro=10)])
    with pytest.raises(BudgetError, match="all that its tier"):
        store.disclose(ANA, [dataclasses.replace(disclosure(AGE), version=2)], 25)
    store.erase(ANA)
    assert sum(store.held(ANA, service).values()) == 16
    assert store.verify() == ()


def test_principals_do_not_see_each_other(store: Store) -> None:
    mine, theirs = draw(AGE, 3), draw(AGE, 8, principal=EVE)
    store.commit(ANA, [mine])
    assert store.levels(EVE, AGE) == ()
    assert store.events(EVE) == ()
    assert store.commit(EVE, [theirs]) == (theirs,)
    assert store.levels(ANA, AGE) == (mine,)
    assert store.events(ANA) == (mine.event,)
    assert store.events(EVE) == (theirs.event,)
    assert store.principals() == (ANA, EVE)


def test_names_that_run_together_are_still_different(store: Store) -> None:
    ab, c = Principal("ab"), RootName("c")
    a, bc = Principal("a"), RootName("bc")
    store.commit(ab, [draw(c, 1, principal=ab)])
    assert store.levels(a, bc) == ()


def test_names_that_look_different_are_kept_letter_by_letter(store: Store) -> None:
    names = [Principal(name) for name in ("ana", "Añа", "a na", "'; --", "%s ?", "ana.", "阿娜")]
    for number, name in enumerate(names):
        store.commit(name, [draw(AGE, number, principal=name)])
    assert store.principals() == tuple(sorted(names))
    assert [store.levels(name, AGE)[0].sanitized.index for name in names] == list(range(len(names)))
    assert store.verify() == ()


def test_a_commit_that_fails_keeps_nothing(store: Store) -> None:
    broken = dataclasses.replace(draw(AST, 4), sanitized=None)  # type: ignore[arg-type]
    with pytest.raises(Exception):  # noqa: B017, PT011 - each store has its own way to fail here
        store.commit(ANA, [draw(AGE, 3), broken])
    assert store.levels(ANA, AGE) == ()
    assert store.events(ANA) == ()
    kept = store.commit(ANA, [draw(AGE, 6)])  # and it still works
    assert kept == (draw(AGE, 6),)


def test_a_commit_over_a_cap_keeps_nothing(store: Store) -> None:
    store.set_cap(ANA, "age", 9)
    store.set_cap(ANA, "", 20)
    assert store.caps(ANA) == {"age": 9, "": 20}
    store.commit(ANA, [draw(AGE, 3)])
    with pytest.raises(BudgetError, match="age"):
        store.commit(ANA, [draw(AST, 1), draw(AGE, 4, version=2)])
    with pytest.raises(BudgetError, match="total"):
        store.commit(ANA, [draw(AST, 1, micro=16)])
    assert store.levels(ANA, AST) == ()
    assert store.events(ANA) == (draw(AGE, 3).event,)
    assert store.commit(ANA, [draw(AGE, 9, micro=900)]) == (draw(AGE, 3),)  # costs nothing
    assert store.commit(ANA, [draw(AST, 1, micro=15)])  # up to the cap and no further
    assert store.verify() == ()


def spent(**roots: int) -> Ledger:
    """A ledger with these micro-epsilon spent, each in one draw."""
    return Ledger(draw(RootName(root), 1, micro=micro).event for root, micro in roots.items())


def test_a_cap_of_a_root_may_be_reached_and_not_passed() -> None:
    check_caps(spent(age=5), {"age": 4}, {"age": 9})
    check_caps(spent(age=10), {"age": 0, "ast": 1}, {"age": 9})  # for nothing, even over it
    check_caps(spent(), {"age": 9}, {"age": 9, "": 9})
    check_caps(spent(age=9), {"age": 0}, {"": 1})
    with pytest.raises(BudgetError, match=r"age to epsilon 1e-05, over its cap of 9e-06;"):
        check_caps(spent(age=5), {"age": 5}, {"age": 9})
    with pytest.raises(BudgetError, match=r"age to epsilon 1e-05, over"):
        check_caps(spent(), {"age": 10}, {"age": 9})
    with pytest.raises(BudgetError, match=r"the total to epsilon 1.1e-05, over its cap of 1e-05"):
        check_caps(spent(age=5, ast=1), {"alt": 3, "age": 2}, {"": 10})


def test_a_root_without_a_cap_may_cost_ten_times_its_first_price() -> None:
    check_caps(spent(age=5), {"age": 45}, {})
    with pytest.raises(BudgetError, match=r"cap of 5e-05, 10 times what its first draw cost") as e:
        check_caps(spent(age=5), {"age": 46}, {})
    assert 'on_change="keep"' in str(e.value)
    assert "--cap age=EPSILON" in str(e.value)
    check_caps(spent(age=5), {"age": 46, "ast": 7}, {"age": 51})  # a cap of its own goes first


def test_a_cap_can_be_changed_and_lifted(store: Store) -> None:
    store.set_cap(ANA, "age", 1)
    store.set_cap(ANA, "age", 7)
    assert store.caps(ANA) == {"age": 7}
    assert store.caps(EVE) == {}
    store.set_cap(ANA, "age", None)
    store.set_cap(ANA, "ast", None)
    assert store.caps(ANA) == {}
    assert store.verify() == ()


def test_a_disclosure_is_written_down_once_and_in_order(store: Store) -> None:
    store.commit(ANA, [draw(AGE, 3), draw(AST, 4)])
    store.disclose(ANA, [disclosure(AST), disclosure(AGE), disclosure(AST)])
    store.disclose(ANA, [disclosure(AGE), disclosure(AGE, service="shop")])
    expected = (disclosure(AST), disclosure(AGE), disclosure(AGE, service="shop"))
    assert store.disclosures(ANA) == expected
    assert store.disclosures(EVE) == ()
    assert store.verify() == ()


def test_a_token_is_kept_once_in_order_and_for_its_principal_alone(store: Store) -> None:
    tokens = store.tokens(ANA)
    assert tokens.find("Bob Ray") is None
    assert tokens.add(token("Bob Ray")) == token("Bob Ray")
    assert tokens.add(token("Bob Ray", sealed=b"other")) == token("Bob Ray")
    assert tokens.add(token("Al Ödön")) == token("Al Ödön")
    assert store.tokens(ANA).find("Bob Ray") == token("Bob Ray")
    assert list(store.tokens(ANA)) == [token("Bob Ray"), token("Al Ödön")]
    assert len(tokens) == 2
    assert list(tokens.since(2)) == [token("Al Ödön")]
    assert list(tokens.since(3)) == []
    assert store.tokens(EVE).find("Bob Ray") is None
    assert store.verify() == ()
    assert "Bob" not in repr(tokens)


def test_erasing_deletes_everything_but_what_was_spent(store: Store) -> None:
    store.commit(ANA, [draw(AGE, 3)])
    store.commit(EVE, [draw(AGE, 4, principal=EVE)])
    store.disclose(ANA, [disclosure(AGE)])
    store.set_cap(ANA, "", 50)
    store.tokens(ANA).add(token("Bob"))
    store.tokens(EVE).add(token("Bob"))
    store.erase(ANA)
    assert store.levels(ANA, AGE) == ()
    assert store.disclosures(ANA) == ()
    assert len(store.tokens(ANA)) == 0
    given = disclosure(AGE)
    assert store.events(ANA) == (
        RootCharged(
            principal="",
            root=AGE,
            version=1,
            draws=1,
            micro_epsilon=5,
            first=5,
            mechanism="geometric",
        ),
        ServiceCharged(principal="", root=AGE, service=given.service, level=5),
        ProfileErased(principal=""),
    )
    assert store.records(ANA) == ()
    assert store.find(ANA, {AGE: [draw(AGE, 3).fingerprint]}) == {}
    assert store.epoch(ANA) == 1
    assert store.epoch(EVE) == 0
    assert store.version(ANA, AGE) == 1
    assert store.caps(ANA) == {"": 50}
    assert store.principals() == (EVE,)
    assert store.levels(EVE, AGE) == (draw(AGE, 4, principal=EVE),)
    assert len(store.tokens(EVE)) == 1
    assert store.verify() == ()
    second = draw(AGE, 5, version=2)
    assert store.commit(ANA, [second]) == (second,)
    assert store.levels(ANA, AGE) == (second,)
    assert Ledger(store.events(ANA)).micro == {"age": 10}
    assert store.principals() == (ANA, EVE)
    assert store.verify() == ()


def test_only_what_is_written_makes_somebody_known(store: Store) -> None:
    def ask_and_be_refused() -> None:
        assert store.tokens(ANA).find("Bob") is None
        assert store.snapshot(ANA).levels == {}
        assert store.return_to(ANA, {AGE: 1}) == {}
        with pytest.raises(ErasedError):
            store.commit(ANA, [draw(AGE, 3, version=9)])
        with pytest.raises(ErasedError):
            store.disclose(ANA, [disclosure(AGE)])
        assert store.principals() == ()

    ask_and_be_refused()
    store.commit(ANA, [draw(AGE, 3)])
    store.erase(ANA)
    ask_and_be_refused()
    store.tokens(ANA).add(token("Bob"))
    assert store.principals() == (ANA,)
    assert store.verify() == ()


def test_a_ledger_that_does_not_add_up_is_reported(store: Store) -> None:
    first = draw(AGE, 3)
    store.commit(ANA, [dataclasses.replace(first, event=draw(AGE, 3, micro=1).event)])
    store.commit(EVE, [draw(AST, 1)])  # charged to ana
    told = " / ".join(store.verify())
    assert "at another price" in told
    assert "belongs to somebody else" in told


def test_a_draw_that_is_not_there_is_not_disclosed(store: Store) -> None:
    kept = draw(AGE, 3)
    store.commit(ANA, [kept])
    for absent in (disclosure(AST), dataclasses.replace(disclosure(AGE), position=1)):
        with pytest.raises(ErasedError, match="erased meanwhile; nothing was released"):
            store.disclose(ANA, [disclosure(AGE), absent])
        assert store.disclosures(ANA) == ()
        summary = PersonSummary.of([kept.event])
        summary.given = {disclosure(AGE): 5, absent: 5}
        (told,) = problems(ANA, [kept], [kept.event], summary)
        assert "disclosed from a draw that is not there" in told


def test_what_a_caller_does_to_its_list_does_not_reach_the_store(store: Store) -> None:
    draws = [draw(AGE, 3)]
    store.commit(ANA, draws)
    draws[0] = draw(AGE, 9)
    draws.append(draw(AST, 1))
    caps = store.caps(ANA)
    caps["age"] = 1
    assert store.caps(ANA) == {}
    assert store.levels(ANA, AGE) == (draw(AGE, 3),)
    assert store.levels(ANA, AST) == ()


def test_each_store_has_its_own_lasting_keys(store: Store) -> None:
    for key in (store.fingerprint_key, store.identifier_key):
        assert len(key) == 32
        assert key.hex() not in repr(store)
    assert store.fingerprint_key == store.fingerprint_key
    assert store.fingerprint_key != store.identifier_key


def test_two_stores_share_no_key(make: Make) -> None:
    one, other = make(), make()
    assert one.fingerprint_key != other.fingerprint_key
    assert one.identifier_key != other.identifier_key


@pytest.fixture
def hurried() -> Iterator[None]:
    """Threads take turns after a microsecond, so that a missing lock shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hurried")
def test_of_racing_writers_exactly_one_is_kept_and_all_are_told_which(store: Store) -> None:
    in_memory = isinstance(store, MemoryStore)
    writers, rounds = (8, 150) if in_memory else (6, 8)
    roots = [RootName(f"r{number}") for number in range(20 if in_memory else 5)]
    for root in roots:  # more than a lifetime's draws
        store.set_cap(ANA, root, MICRO)
    start = threading.Barrier(writers)
    answers: list[list[tuple[Record, ...]]] = [[] for _ in range(writers)]

    def write(writer: int) -> None:
        for version in range(1, rounds + 1):
            mine = [draw(root, writer, version=version, micro=1 + writer) for root in roots]
            start.wait(timeout=PATIENCE)
            answers[writer].append(store.commit(ANA, mine))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=PATIENCE)
    for version, told in enumerate(zip(*answers, strict=True), start=1):
        assert len(set(told)) == 1  # every writer got the same records
        assert (
            len({record.sanitized.index for record in told[0]}) == 1
        )  # of one writer, all of them
        assert {record.sanitized.version for record in told[0]} == {version}
    kept = [record.event for records in answers[0] for record in records]
    assert store.events(ANA) == tuple(kept)
    assert len(kept) == len(roots) * rounds


@pytest.mark.usefixtures("hurried")
def test_new_principals_and_tokens_may_arrive_all_at_once(store: Store) -> None:
    people = [Principal(f"p{number}") for number in range(6)]
    start = threading.Barrier(len(people))
    told: list[IssuedToken] = []

    def arrive(person: Principal) -> None:
        start.wait(timeout=PATIENCE)
        store.commit(person, [draw(AGE, 1, principal=person)])
        told.append(store.tokens(ANA).add(token("Bob", sealed=person.encode())))

    threads = [threading.Thread(target=arrive, args=(person,)) for person in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=PATIENCE)
    assert store.principals() == (ANA, *people)
    assert len(told) == len(people)
    assert set(told) == {store.tokens(ANA).find("Bob")}
    assert store.verify() == ()


RUNS = settings(
    max_examples=60,
    stateful_step_count=20,
    deadline=None,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


class CommitOnce(RuleBasedStateMachine):
    """Any sequence of commits and erasures, against a dictionary that is written once per key."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.model: dict[tuple[Principal, RootName, int], Record] = {}
        self.charged: dict[Principal, list[Charge]] = {ANA: [], EVE: []}
        self.newest: dict[tuple[Principal, RootName], int] = {}
        self.number = 0
        for principal in (ANA, EVE):
            for root in (AGE, AST):  # what a lifetime may cost has tests of its own
                store.set_cap(principal, root, MICRO)

    @rule(
        principal=st.sampled_from([ANA, EVE]),
        keys=st.lists(st.tuples(st.sampled_from([AGE, AST]), st.integers(-2, 1)), max_size=4),
    )
    def commit(self, principal: Principal, keys: list[tuple[RootName, int]]) -> None:
        """Versions from two before the newest up to the next, which alone is free."""
        draws: list[Record] = []
        new: dict[tuple[Principal, RootName, int], Record] = {}
        erased = False
        for root, step in keys:
            self.number += 1  # every draw differs, so a wrong one would show
            version = max(1, self.newest.get((principal, root), 0) + step)
            index, micro = self.number % 1000, self.number
            record = draw(root, index, version=version, micro=micro, principal=principal)
            draws.append(record)
            key = (principal, root, version)
            if key in self.model or key in new:
                continue
            erased |= version <= self.newest.get((principal, root), 0)
            new[key] = record
        if erased:
            with pytest.raises(ErasedError):
                self.store.commit(principal, draws)
            return
        self.model |= new
        for (_, root, version), record in new.items():
            self.newest[principal, root] = version
            self.charged[principal].append(record.event)
        expected = tuple(
            self.model[principal, each.sanitized.root, each.sanitized.version] for each in draws
        )
        assert self.store.commit(principal, draws) == expected

    @rule(principal=st.sampled_from([ANA, EVE]))
    def erase(self, principal: Principal) -> None:
        self.store.erase(principal)
        self.model = {key: record for key, record in self.model.items() if key[0] != principal}
        self.charged[principal] = PersonSummary.of(self.charged[principal]).erasure({})

    @invariant()
    def the_store_is_the_model(self) -> None:
        for principal in (ANA, EVE):
            assert self.store.events(principal) == tuple(self.charged[principal])
            for root in (AGE, AST):
                newest = self.newest.get((principal, root), 0)
                assert self.store.version(principal, root) == newest
                kept = self.model.get((principal, root, newest))
                assert self.store.levels(principal, root) == (() if kept is None else (kept,))
            mine = {record for key, record in self.model.items() if key[0] == principal}
            assert set(self.store.records(principal)) == mine
        assert self.store.verify() == ()

    def teardown(self) -> None:
        self.store.close()


def machine(make: Make) -> type[CommitOnce]:
    class Machine(CommitOnce):
        def __init__(self) -> None:
            super().__init__(make())

    return Machine


def test_any_sequence_of_commits_keeps_each_version_once(
    make: Make, request: pytest.FixtureRequest
) -> None:
    runs = RUNS
    if not isinstance(make(), MemoryStore):
        runs = settings(RUNS, max_examples=6, stateful_step_count=12)
    run_state_machine_as_test(machine(make), settings=runs)


def test_the_model_would_catch_a_store_where_the_last_writer_wins() -> None:
    class LastWins(MemoryStore):
        def commit(
            self, principal: Principal, draws: Sequence[Record], *, epoch: int | None = None
        ) -> tuple[Record, ...]:
            super().commit(principal, draws, epoch=epoch)
            records = self._people[principal].records
            for record in draws:
                sanitized = record.sanitized
                records[sanitized.root, sanitized.version, record.position] = record
            return tuple(draws)

    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            machine(LastWins), settings=settings(RUNS, phases=(Phase.generate,))
        )


def test_what_tables_cost_is_the_price_of_every_draw_at_every_level() -> None:
    (charge, _) = PersonSummary().erasure({AGE: [(5, 2), (3, 1)]})
    assert charge == RootCharged(
        principal="", root=AGE, version=0, draws=3, micro_epsilon=13, first=5, mechanism=""
    )
