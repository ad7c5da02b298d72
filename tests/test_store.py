"""What every store promises, tested on each store there is: of all draws, exactly one is kept."""

import dataclasses
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from rootguard.accounting import Ledger
from rootguard.events import RootNoised
from rootguard.store import MemoryStore, Record, Store
from rootguard.values import Domain, Principal, RootName, Sanitized

ANA, EVE = Principal("ana"), Principal("eve")
AGE, AST = RootName("age"), RootName("ast")
DOMAIN = Domain(lower=0, upper=999)

STORES: dict[str, Callable[[], Store]] = {"memory": MemoryStore}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Store:
    return STORES[request.param]()


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


def test_a_new_store_holds_nothing(store: Store) -> None:
    assert store.latest(ANA, AGE) is None
    assert store.events(ANA) == ()
    assert store.commit(ANA, []) == ()
    assert store.events(ANA) == ()


def test_what_was_committed_is_what_is_read(store: Store) -> None:
    records = (draw(AGE, 3), draw(AST, 7, micro=8))
    assert store.commit(ANA, records) == records
    assert store.latest(ANA, AGE) == records[0]
    assert store.latest(ANA, AST) == records[1]
    assert store.events(ANA) == (records[0].event, records[1].event)
    assert Ledger(store.events(ANA)).total == Fraction(13, 10**6)


def test_the_first_writer_wins_and_the_second_gets_what_is_there(store: Store) -> None:
    first, second = draw(AGE, 3), draw(AGE, 900, micro=77)
    store.commit(ANA, [first])
    assert store.commit(ANA, [second]) == (first,)
    assert store.latest(ANA, AGE) == first


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


def test_the_latest_is_the_newest_version_in_whatever_order_they_came(store: Store) -> None:
    store.commit(ANA, [draw(AGE, 2, version=2)])
    store.commit(ANA, [draw(AGE, 1, version=1)])
    assert store.latest(ANA, AGE) == draw(AGE, 2, version=2)
    assert store.commit(ANA, [draw(AGE, 9, version=1)]) == (draw(AGE, 1, version=1),)
    store.commit(ANA, [draw(AGE, 5, version=5)])
    assert store.latest(ANA, AGE) == draw(AGE, 5, version=5)
    assert store.commit(ANA, [draw(AGE, 9, version=2)]) == (draw(AGE, 2, version=2),)
    assert store.commit(ANA, [draw(AGE, 3, version=3)]) == (draw(AGE, 3, version=3),)
    assert store.latest(ANA, AGE) == draw(AGE, 5, version=5)
    assert [event.version for event in store.events(ANA)] == [2, 1, 5, 3]


def test_principals_do_not_see_each_other(store: Store) -> None:
    mine, theirs = draw(AGE, 3), draw(AGE, 8, principal=EVE)
    store.commit(ANA, [mine])
    assert store.latest(EVE, AGE) is None
    assert store.events(EVE) == ()
    assert store.commit(EVE, [theirs]) == (theirs,)
    assert store.latest(ANA, AGE) == mine
    assert store.events(ANA) == (mine.event,)
    assert store.events(EVE) == (theirs.event,)


def test_names_that_run_together_are_still_different(store: Store) -> None:
    ab, c = Principal("ab"), RootName("c")
    a, bc = Principal("a"), RootName("bc")
    store.commit(ab, [draw(c, 1, principal=ab)])
    assert store.latest(a, bc) is None


def test_a_commit_that_fails_keeps_nothing(store: Store) -> None:
    broken = dataclasses.replace(draw(AST, 4), sanitized=None)  # type: ignore[arg-type]
    with pytest.raises(Exception):  # noqa: B017, PT011 - each store has its own way to fail here
        store.commit(ANA, [draw(AGE, 3), broken])
    assert store.latest(ANA, AGE) is None
    assert store.events(ANA) == ()
    kept = store.commit(ANA, [draw(AGE, 6)])  # and it still works
    assert kept == (draw(AGE, 6),)


def test_what_a_caller_does_to_its_list_does_not_reach_the_store(store: Store) -> None:
    draws = [draw(AGE, 3)]
    store.commit(ANA, draws)
    draws[0] = draw(AGE, 9)
    draws.append(draw(AST, 1))
    assert store.latest(ANA, AGE) == draw(AGE, 3)
    assert store.latest(ANA, AST) is None


def test_each_store_has_its_own_lasting_fingerprint_key(store: Store) -> None:
    assert len(store.fingerprint_key) >= 32
    assert store.fingerprint_key == store.fingerprint_key
    assert store.fingerprint_key.hex() not in repr(store)


@pytest.mark.parametrize("make", STORES.values(), ids=STORES)
def test_two_stores_share_no_fingerprint_key(make: Callable[[], Store]) -> None:
    assert make().fingerprint_key != make().fingerprint_key


@pytest.fixture
def hurried() -> Iterator[None]:
    """Threads take turns after a microsecond, so that a missing lock shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hurried")
def test_of_racing_writers_exactly_one_is_kept_and_all_are_told_which(store: Store) -> None:
    writers, rounds = 8, 150
    roots = [RootName(f"r{number}") for number in range(20)]
    start = threading.Barrier(writers)
    answers: list[list[tuple[Record, ...]]] = [[] for _ in range(writers)]

    def write(writer: int) -> None:
        for version in range(1, rounds + 1):
            mine = [draw(root, writer, version=version, micro=1 + writer) for root in roots]
            start.wait(timeout=60)
            answers[writer].append(store.commit(ANA, mine))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    for version, told in enumerate(zip(*answers, strict=True), start=1):
        assert len(set(told)) == 1  # every writer got the same records
        assert (
            len({record.sanitized.index for record in told[0]}) == 1
        )  # of one writer, all of them
        assert {record.sanitized.version for record in told[0]} == {version}
    kept = [record.event for records in answers[0] for record in records]
    assert store.events(ANA) == tuple(kept)
    assert len(kept) == len(roots) * rounds


RUNS = settings(
    max_examples=60,
    stateful_step_count=20,
    deadline=None,
    database=None,
    report_multiple_bugs=False,
)


class CommitOnce(RuleBasedStateMachine):
    """Any sequence of commits, against a dictionary that is written once per key."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.model: dict[tuple[Principal, RootName, int], Record] = {}
        self.charged: dict[Principal, list[RootNoised]] = {ANA: [], EVE: []}
        self.number = 0

    @rule(
        principal=st.sampled_from([ANA, EVE]),
        keys=st.lists(st.tuples(st.sampled_from([AGE, AST]), st.integers(1, 4)), max_size=4),
    )
    def commit(self, principal: Principal, keys: list[tuple[RootName, int]]) -> None:
        draws = []
        for root, version in keys:
            self.number += 1  # every draw differs, so a wrong one would show
            index, micro = self.number % 1000, self.number
            draws.append(draw(root, index, version=version, micro=micro, principal=principal))
        expected = []
        for record in draws:
            key = (principal, record.sanitized.root, record.sanitized.version)
            if key not in self.model:
                self.model[key] = record
                self.charged[principal].append(record.event)
            expected.append(self.model[key])
        assert self.store.commit(principal, draws) == tuple(expected)

    @invariant()
    def the_store_is_the_model(self) -> None:
        for principal in (ANA, EVE):
            assert self.store.events(principal) == tuple(self.charged[principal])
            for root in (AGE, AST):
                versions = [v for p, r, v in self.model if (p, r) == (principal, root)]
                newest = self.model[principal, root, max(versions)] if versions else None
                assert self.store.latest(principal, root) == newest


def machine(make: Callable[[], Store]) -> type[CommitOnce]:
    class Machine(CommitOnce):
        def __init__(self) -> None:
            super().__init__(make())

    return Machine


@pytest.mark.parametrize("make", STORES.values(), ids=STORES)
def test_any_sequence_of_commits_keeps_each_version_once(make: Callable[[], Store]) -> None:
    run_state_machine_as_test(machine(make), settings=RUNS)


def test_the_model_would_catch_a_store_where_the_last_writer_wins() -> None:
    class LastWins(MemoryStore):
        def commit(self, principal: Principal, draws: Sequence[Record]) -> tuple[Record, ...]:
            for record in draws:
                self._records[principal, record.sanitized.root] = {1: record}
                self._events.setdefault(principal, []).append(record.event)
            return tuple(draws)

    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            machine(LastWins), settings=settings(RUNS, phases=(Phase.generate,))
        )
