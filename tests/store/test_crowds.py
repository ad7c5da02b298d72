"""Many people of a store at once: what one person is told alone, with few transactions."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from rootguard import Guard, MemoryStore, Store, load_template, make_plan, open_store
from rootguard.errors import BudgetError, ErasedError
from rootguard.session.crowds import Declared, GridPoints, kept_each, noise_each
from rootguard.store import Commit, tables
from rootguard.values import Principal, Raw, RootName, to_micro

FIB4 = load_template("fib4")
PLAN = make_plan(FIB4, Fraction("0.9"))
VALUES = {"age": 54.0, "ast": 23.0, "alt": 30.0, "plt": 220.0}
NAMES = [Principal(f"person {number}") for number in range(7)]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    url = f"sqlite:///{tmp_path / 'vault.sqlite3'}"
    if request.param == "postgres":
        url = str(request.getfixturevalue("new_postgres")())
    opened = open_store(url, key=bytes(32), create=True)
    yield opened
    assert opened.verify() == ()
    opened.close()


def opened(store: Store, name: str, **other: float) -> None:
    Guard.open(FIB4, values=VALUES | other, budget="0.9", store=store, principal=name)


def declared(store: Store, names: list[Principal], **other: float) -> list[Declared]:
    raws = {RootName(root): Raw(value) for root, value in (VALUES | other).items()}
    return [Declared(person=each, raws=raws) for each in store.snapshots(names)]


def test_snapshots_and_records_are_those_of_each(store: Store) -> None:
    for name in NAMES[:4]:
        opened(store, name)
    opened(store, NAMES[1], ast=60.0)  # a second version
    store.set_cap(NAMES[2], "ast", 5_000_000)
    store.erase(NAMES[3])
    alone = [store.snapshot(name) for name in NAMES]
    for one, other in zip(store.snapshots(NAMES), alone, strict=True):
        assert (one.name, one.epoch, one.levels) == (other.name, other.epoch, other.levels)
        assert (one.newest, one.caps, one.runs) == (other.newest, other.caps, other.runs)
        assert one.ledger.totals == other.ledger.totals
        assert one.quantities == other.quantities
    assert store.records_of(NAMES) == [store.records(name) for name in NAMES]
    assert store.population() == len(store.tags())


def test_the_finest_values_are_those_of_each_snapshot(store: Store) -> None:
    for name in NAMES[:4]:
        opened(store, name)
    opened(store, NAMES[1], ast=60.0)  # a second version
    opened(store, NAMES[1])  # and back to the first
    Guard.refine(FIB4, values=VALUES, budget="1.5", store=store, principal=NAMES[2])
    store.erase(NAMES[3])
    odd = Principal('a "name", {"principal":"person 0"}')
    opened(store, odd)
    asked = [*NAMES, Principal(" PERSON 0"), odd]
    for (name, values), person in zip(store.finest(asked), store.snapshots(asked), strict=True):
        assert name == person.name
        finest = {
            root: max(levels, key=lambda each: each.sanitized.epsilon)
            for root, levels in person.levels.items()
        }
        kept = {root: (each.fingerprint, each.sanitized) for root, each in finest.items()}
        assert values == kept


def test_whose_values_are_kept_is_known_by_their_grid_points(store: Store) -> None:
    """As `noise_each` knows it by the numbers; nobody else is served without it."""
    for name in NAMES[:3]:
        opened(store, name)
    opened(store, NAMES[1], ast=60.0)
    noised = noise_each(store, PLAN, FIB4.roots, declared(store, NAMES[:1]))
    domains = {root: FIB4.roots[root].domain for root in FIB4.roots}
    points: dict[RootName, GridPoints] = {
        root: (domain, [domain.nearest(VALUES[root])] * 4) for root, domain in domains.items()
    }
    first, changed, same, unknown = kept_each(store, NAMES[:4], points)
    assert isinstance(noised[0], dict)
    assert first == {root: record.sanitized for root, record in noised[0].items()}
    assert same is not None
    assert (changed, unknown) == (None, None)
    absent = {root: (domain, [None] * 4) for root, (domain, _) in points.items()}
    assert kept_each(store, NAMES[:4], points | {RootName("ast"): absent[RootName("ast")]})[1] == {
        root: record.sanitized
        for root, (record,) in store.snapshot(NAMES[1]).levels.items()
        if root != "ast"
    }
    assert kept_each(store, NAMES[:4], absent) == [{}] * 4


def test_everybody_is_noised_once(store: Store) -> None:
    for name in NAMES[:3]:
        opened(store, name)
    before = [store.records(name) for name in NAMES[:3]]
    first = noise_each(store, PLAN, FIB4.roots, declared(store, NAMES))
    again = noise_each(store, PLAN, FIB4.roots, declared(store, NAMES))
    assert first == again
    assert [store.records(name) for name in NAMES[:3]] == before
    for name, found in zip(NAMES, first, strict=True):
        assert isinstance(found, dict)
        assert {record.sanitized.root for record in store.records(name)} == set(found)
        spent = {share.root: to_micro(share.epsilon) for share in PLAN.shares}
        assert store.ledger(name).micro == spent


def test_a_value_that_changes_is_a_new_version_and_one_that_comes_back_is_not(
    store: Store,
) -> None:
    first = noise_each(store, PLAN, FIB4.roots, declared(store, NAMES))
    changed = noise_each(store, PLAN, FIB4.roots, declared(store, NAMES, ast=60.0))
    back = noise_each(store, PLAN, FIB4.roots, declared(store, NAMES))
    assert back == first
    for found in changed:
        assert isinstance(found, dict)
        assert found[RootName("ast")].sanitized.version == 2
        assert found[RootName("alt")].sanitized.version == 1


def test_whom_a_cap_refuses_is_refused_alone(store: Store) -> None:
    noise_each(store, PLAN, FIB4.roots, declared(store, NAMES))
    store.set_cap(NAMES[3], "ast", 1)
    found = noise_each(store, PLAN, FIB4.roots, declared(store, NAMES, ast=60.0))
    assert [isinstance(each, BudgetError) for each in found] == [name == NAMES[3] for name in NAMES]
    assert len(store.records(NAMES[3])) == 4


def test_a_commit_of_an_erased_epoch_is_refused_and_the_others_stand(store: Store) -> None:
    people = declared(store, NAMES[:2])
    other = MemoryStore()
    made = noise_each(other, PLAN, FIB4.roots, declared(other, NAMES[:2]))
    opened(store, NAMES[0])
    store.erase(NAMES[0])
    commits = [
        Commit(principal=name, draws=list(found.values()), epoch=each.person.epoch)
        for name, found, each in zip(NAMES, made, people, strict=False)
        if isinstance(found, dict)
    ]
    erased, kept = store.commit_each(commits)
    assert isinstance(erased, ErasedError)
    assert kept == tuple(commits[1].draws)
    rival = MemoryStore()
    [late] = noise_each(rival, PLAN, FIB4.roots, declared(rival, NAMES[1:2]))
    assert isinstance(late, dict)
    second = Commit(principal=NAMES[1], draws=list(late.values()), epoch=0)
    assert store.commit_each([second]) == [()]
    assert store.records(NAMES[1]) == tuple(commits[1].draws)


def test_the_tags_of_many_are_those_of_each(store: Store) -> None:
    prf = tables.table_prf(store.fingerprint_key, exact=store.exact_ids)
    names = ["Jane Roe", "", " jane  roe", "Ünal", "x" * 300]
    assert tables.tags_of(prf, names) == [int(prf.tags(prf.person(name))[0]) for name in names]
