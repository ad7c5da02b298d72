"""Names of people: written another way, the same person; one that cannot be seen is refused."""

import unicodedata
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootguard import Guard, load_template
from rootguard.errors import StoreError
from rootguard.identifiers import IssuedToken
from rootguard.store import Store
from rootguard.store.tables import table_prf
from rootguard.values import Principal, normalised
from rootguard.vault import open_store
from tests.support.store_contents import AGE, draw, sql

FIB4 = load_template("fib4")
VALUES = {"age": 52.0, "ast": 61.0, "alt": 40.0, "plt": 180.0}
FIRST = Principal("Zoë Straße")
SPELLINGS = (
    "zoë straße",
    "ZOË STRASSE",
    "  Zoë Straße\t\n",
    "\u00a0Zoë Straße\u3000",
    unicodedata.normalize("NFD", FIRST),
    unicodedata.normalize("NFD", FIRST.upper()),
    "Z\u200bo\u200dë\u2060 Stra\ufeffße",
    "Zoë\u00a0Straße",
    "Ｚｏë Ｓｔｒａße",
    "\u202eZoë Straße",
    "Zo\u034fë Straße\ufe0f",
    "Z\U000e0101o\u180bë\u17b4 Str\u3164aß\u115fe\u2065\uffa0",
    "Z\x01oë\x7f Stra\u2800ße",
)
OTHERS = ("zoe straße", "zoëstraße", "zoë  straße", "zoë-straße", "zоë straße")
INVISIBLE = (
    "\U000e0100",
    "\u3164",
    "\x01",
    "",
    " ",
    "\t\n",
    "\u200b",
    "\u200b \u2060",
    "\ufe0f",
    "\u00ad",
    "\u3000",
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


def test_however_a_name_is_written_it_is_the_same_person(store: Store) -> None:
    first = Guard.open(FIB4, values=VALUES, budget="0.9", store=store, principal=FIRST)
    told, spent = [first.release(root) for root in VALUES], store.ledger(FIRST).micro
    store.set_cap(FIRST, "", 5_000_000)
    store.tokens(FIRST).add(IssuedToken(kind="person", token="Bob Ray", sealed=b"s"))
    events = store.events(FIRST)
    for spelling in map(Principal, SPELLINGS):
        assert spelling != FIRST
        again = Guard.open(FIB4, values=VALUES, budget="0.9", store=store, principal=spelling)
        assert [again.release(root) for root in VALUES] == told
        resumed = Guard.resume(FIB4, store=store, principal=spelling)
        assert [resumed.release(root) for root in VALUES] == told
        assert store.ledger(spelling).micro == spent
        assert store.events(spelling) == events
        assert store.caps(spelling) == {"": 5_000_000}
        assert store.tokens(spelling).find("Bob Ray") is not None
        assert store.snapshot(spelling).name == FIRST  # as it was first written
    assert store.principals() == (FIRST,)
    assert store.verify() == ()


def test_what_is_committed_under_another_spelling_is_counted_for_the_same_person(
    store: Store,
) -> None:
    for version, spelling in enumerate((FIRST, *SPELLINGS[:3]), start=1):
        who = Principal(spelling)
        store.commit(who, [draw("age", version, version=version, principal=who)], epoch=0)
    assert store.version(FIRST, AGE) == 4
    assert store.ledger(FIRST).micro == {"age": 20}
    assert store.verify() == ()


def test_an_erasure_by_any_spelling_erases_the_person(store: Store) -> None:
    for erasures, spelling in enumerate(map(Principal, SPELLINGS), start=1):
        session = Guard.open(FIB4, values=VALUES, budget="0.2", store=store, principal=FIRST)
        for root in VALUES:
            store.set_cap(FIRST, root, 10**9)
        store.erase(spelling)
        with pytest.raises(StoreError, match="erased meanwhile"):
            session.release("age")
        assert store.epoch(FIRST) == store.epoch(spelling) == erasures
        assert store.records(FIRST) == ()
        assert store.principals() == ()
    assert store.verify() == ()


def test_names_that_differ_to_the_eye_or_in_their_letters_are_other_people(store: Store) -> None:
    store.commit(FIRST, [draw("age", 3, principal=FIRST)])
    for other in map(Principal, OTHERS):
        assert store.levels(other, AGE) == ()
        assert store.epoch(other) == 0
        store.commit(other, [draw("age", 4, principal=other)])
    assert set(store.principals()) == {FIRST, *OTHERS}
    assert store.verify() == ()


@pytest.mark.parametrize("name", INVISIBLE, ids=ascii)
def test_a_name_that_cannot_be_seen_is_refused(store: Store, name: str) -> None:
    who = Principal(name)
    for use in (
        lambda: store.commit(who, [draw("age", 3, principal=who)]),
        lambda: store.snapshot(who),
        lambda: store.erase(who),
        lambda: store.set_cap(who, "", 1),
        lambda: store.tokens(who).find("Bob"),
        lambda: store.epoch(who),
        lambda: Guard.open(FIB4, values=VALUES, budget="0.9", store=store, principal=who),
    ):
        with pytest.raises(StoreError, match="needs a name that can be seen; give another one"):
            use()
    assert store.principals() == ()
    assert store.verify() == ()


@given(st.text())
def test_normalising_is_done_once_and_for_all(name: str) -> None:
    once = normalised(name)
    assert normalised(once) == once
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert normalised(unicodedata.normalize(form, name)) == once
    assert normalised(f" {name}\u200b ") == once
    assert normalised(name.casefold()) == once


def test_somebody_erased_under_two_spellings_stays_known_to_tables_by_both(url: str) -> None:
    with closing(sql(url)) as store:
        for name in ("ann", "Ann", "ann"):
            store.set_cap(Principal(name), "age", 5)
            store.erase(Principal(name))
        prf = table_prf(store.fingerprint_key)
        tags = {int(prf.tags(prf.person(name))[0]) for name in ("ann", "Ann")}
        assert store.tags() == dict.fromkeys(tags, True)
        assert store.epoch(Principal("ANN")) == 3
