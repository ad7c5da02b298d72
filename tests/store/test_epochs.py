"""Whatever began before an erasure ends there: nothing of it is kept, charged or released after."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from rootguard import Guard, Session, load_template
from rootguard.errors import ErasedError
from rootguard.events import LevelDerived, ProfileErased, RequestRefused, ValueReleased
from rootguard.identifiers import IssuedToken
from rootguard.session import parse_policy
from rootguard.store import Disclosure, Store
from rootguard.store.sql import SqlStore
from rootguard.values import Principal
from rootguard.vault import open_store
from tests.support.store_contents import AGE, ANA, AST, EVE, draw

FIB4 = load_template("fib4")
VALUES = {"age": 52.0, "ast": 61.0, "alt": 40.0, "plt": 180.0}
POLICY = parse_policy(
    """
[tiers.low]
budget = "0.2"
[services.lab]
tier = "low"
roots = "*"
formulas = "*"
""",
    file="policy.toml",
)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    match request.param:
        case "memory":
            url = "memory:"
        case "sqlite":
            url = f"sqlite:///{tmp_path}/vault.db"
        case _:
            url = request.getfixturevalue("new_postgres")()
    with closing(open_store(url)) as opened:
        yield opened


def flush(store: Store) -> None:
    if isinstance(store, SqlStore):
        assert store._journal.flush()


def opened(store: Store, who: Principal = ANA, **options: object) -> Session:
    options = {"values": VALUES, "budget": "0.9"} | options
    return Guard.open(FIB4, store=store, principal=who, **options)  # type: ignore[arg-type]


def whole(store: Store, who: Principal) -> list[object]:
    """All that is kept of a person."""
    flush(store)
    return [
        store.epoch(who),
        store.records(who),
        store.events(who),
        store.disclosures(who),
        store.caps(who),
        list(store.tokens(who)),
        store.log(who),
        store.ledger(who).totals,
        store.principals(),
    ]


def test_an_epoch_counts_the_erasures_of_one_person(store: Store) -> None:
    assert store.epoch(ANA) == store.snapshot(ANA).epoch == 0
    store.commit(ANA, [draw("age", 1)])
    store.set_cap(ANA, "", 99)
    assert store.epoch(ANA) == 0
    for erasures in (1, 2, 3):
        store.erase(ANA)
        assert store.epoch(ANA) == store.snapshot(ANA).epoch == erasures
    assert store.epoch(EVE) == 0
    assert store.verify() == ()


@pytest.mark.parametrize("came_back", [False, True])
def test_work_of_an_earlier_epoch_is_refused_and_leaves_no_trace(
    store: Store, came_back: bool
) -> None:
    store.commit(ANA, [draw("age", 1), draw("ast", 1)])
    store.commit(ANA, [draw("age", 2, version=2)])
    epoch = store.snapshot(ANA).epoch
    tokens = store.tokens(ANA, epoch=epoch)
    tokens.add(IssuedToken(kind="person", token="Bob Ray", sealed=b"s"))
    store.erase(ANA)
    if came_back:  # to the very places that the work is about
        store.commit(ANA, [draw("age", 3, version=3), draw("ast", 2, version=2)], epoch=1)
        store.commit(ANA, [draw("age", 4, version=4)], epoch=1)
    before = whole(store, ANA)
    newest = {root: store.version(ANA, root) for root in (AGE, AST)}
    shown = Disclosure(service="lab", tier="t", root="ast", version=newest[AST], position=0)
    level = replace(
        draw("age", 1, version=newest[AGE]),
        position=1,
        event=LevelDerived(principal=ANA, root="age", version=newest[AGE], level=2),
    )
    for work in (
        lambda: store.commit(ANA, [draw("age", 7, version=newest[AGE] + 1)], epoch=epoch),
        lambda: store.commit(ANA, [draw("alt", 7)], epoch=epoch),
        lambda: store.commit(ANA, [draw("age", 1)], epoch=epoch),
        lambda: store.commit(ANA, [level], epoch=epoch),
        lambda: store.disclose(ANA, [shown], epoch=epoch),
        lambda: store.disclose(ANA, [], epoch=epoch),
        lambda: store.return_to(ANA, {AGE: newest[AGE] - 1}, epoch=epoch),
        lambda: store.set_cap(ANA, "age", 77, epoch=epoch),
        lambda: tokens.add(IssuedToken(kind="person", token="Al Oz", sealed=b"s")),
        lambda: store.tokens(ANA, epoch=epoch).add(
            IssuedToken(kind="person", token="Bob Ray", sealed=b"t")
        ),
    ):
        with pytest.raises(ErasedError, match="Open it again with its values"):
            work()
    store.note(ANA, RequestRefused(turn=1, reason="AccessError"), epoch=epoch)
    store.note(ANA, RequestRefused(turn=1, reason="AccessError"), epoch=2)  # nor of a later one
    assert whole(store, ANA) == before
    assert list(tokens) == []
    assert store.verify() == ()


def test_work_of_the_present_epoch_is_done(store: Store) -> None:
    """The control: with the right epoch, each of these is kept."""
    store.erase(ANA)
    store.commit(ANA, [draw("age", 1)], epoch=1)
    store.commit(ANA, [draw("age", 2, version=2)], epoch=1)
    shown = Disclosure(service="lab", tier="t", root="age", version=1, position=0)
    store.disclose(ANA, [shown], epoch=1)
    assert len(store.return_to(ANA, {AGE: 1}, epoch=1)) == 1
    store.tokens(ANA, epoch=1).add(IssuedToken(kind="person", token="Al Oz", sealed=b"s"))
    store.note(ANA, RequestRefused(turn=1, reason="AccessError"), epoch=1)
    flush(store)
    assert store.disclosures(ANA) == (shown,)
    assert len(store.tokens(ANA)) == 1
    assert isinstance(store.log(ANA)[-1].event, RequestRefused)
    assert store.verify() == ()


def test_a_cap_gives_an_erased_person_no_name(store: Store) -> None:
    store.commit(ANA, [draw("age", 1)])
    store.erase(ANA)
    store.set_cap(ANA, "age", 99)
    assert store.caps(ANA) == {"age": 99}
    assert store.principals() == ()
    store.commit(ANA, [draw("age", 1, version=2)])  # the control: who comes back has one
    assert store.principals() == (ANA,)
    assert store.verify() == ()


def test_whoever_is_erased_while_a_lifetime_is_set_stays_erased(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(store)
    snapshot = store.snapshot

    def erased_then(who: Principal) -> object:
        found = snapshot(who)
        monkeypatch.undo()
        store.erase(ANA)
        return found

    monkeypatch.setattr(store, "snapshot", erased_then)
    with pytest.raises(ErasedError):
        opened(store, lifetime=3)
    assert store.principals() == ()
    assert store.caps(ANA) == {}


def test_others_go_on(store: Store) -> None:
    session = opened(store, EVE)
    opened(store)
    store.erase(ANA)
    assert isinstance(session.release("ast"), float)
    assert store.verify() == ()


@pytest.mark.parametrize("kind", ["opened", "resumed", "served", "refined"])
def test_a_running_session_releases_nothing_after_an_erasure(store: Store, kind: str) -> None:
    opened(store)
    match kind:
        case "opened":
            session = opened(store, identifiers={"mrn": "4415-8820"})
        case "resumed":
            session = Guard.resume(FIB4, store=store, principal=ANA)
        case "served":
            session = Guard.serve(FIB4, store=store, policy=POLICY, service="lab", principal=ANA)
        case _:
            session = Guard.refine(FIB4, values=VALUES, budget="1.2", store=store, principal=ANA)
    session.release("ast")  # known to the session, and shown before
    session.derive("ast / alt")
    if kind == "opened":
        session.release("mrn")
    store.erase(ANA)
    before = whole(store, ANA)
    asked: tuple[Callable[[], object], ...] = (
        lambda: session.release("ast"),
        lambda: session.release("age"),
        lambda: session.release("mrn") if kind == "opened" else session.release("ast"),
        lambda: session.derive("ast / alt"),
        lambda: session.derive("age + 1", name="older"),
        session.target,
    )
    for ask in asked:
        with pytest.raises(ErasedError, match="nothing was released"):
            ask()
    assert whole(store, ANA) == before
    assert not [entry for entry in store.log(ANA) if isinstance(entry.event, ValueReleased)]
    assert store.verify() == ()


def test_a_person_who_comes_back_gets_new_noise_and_the_old_session_none_of_it(
    store: Store,
) -> None:
    old = opened(store)
    old.release("ast")
    store.erase(ANA)
    new = opened(store)
    with pytest.raises(ErasedError):
        old.release("ast")
    assert isinstance(new.release("ast"), float)
    ledger = store.ledger(ANA)
    assert ledger.micro == {root: 2 * micro for root, micro in ledger.first_prices.items()}
    assert set(ledger.draws.values()) == {2}
    assert store.verify() == ()


def refined(store: Store) -> Session:
    return Guard.refine(FIB4, values=VALUES, budget="1.2", store=store, principal=ANA)


def served(store: Store) -> Session:
    return Guard.serve(FIB4, store=store, policy=POLICY, service="lab", principal=ANA)


Work = Callable[[Store], object]
OVERTAKEN: dict[str, tuple[str, Work]] = {
    "a first draw": ("commit", lambda store: opened(store, values=VALUES | {"ast": 75.0})),
    "a value of before": ("return_to", lambda store: opened(store, values=VALUES | {"ast": 90.0})),
    "a refinement": ("commit", refined),
    "a coarser level": ("commit", served),
    "a token": ("tokens", lambda store: opened(store, identifiers={"mrn": "4415-8820"})),
    "a release": ("disclose", lambda store: opened(store).release("age")),
    "a service's release": ("disclose", lambda store: served(store).target()),
}


@pytest.mark.parametrize(("step", "work"), OVERTAKEN.values(), ids=OVERTAKEN)
def test_an_erasure_between_reading_and_writing_is_seen(
    store: Store, step: str, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(store, values=VALUES | {"ast": 90.0})
    opened(store)
    real = getattr(store, step)
    overtaken: list[str] = []

    def overtake(*args: object, **options: object) -> object:
        if not overtaken:
            overtaken.append(step)
            store.erase(ANA)
        return real(*args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(store, step, overtake)
        with pytest.raises(ErasedError):
            work(store)
    assert overtaken == [step]
    assert store.records(ANA) == ()
    assert list(store.tokens(ANA)) == []
    assert store.disclosures(ANA) == ()
    assert store.principals() == ()
    flush(store)
    assert [type(entry.event) for entry in store.log(ANA)] == [ProfileErased]
    assert store.verify() == ()
