"""A vault that version 0.1 wrote is brought up to date, whole, or refused and left as it was.

`fixtures/vault-0.1.sqlite3.gz` was made by that version under the key 00 01 ... 1f, and
`vault-0.1.json` is what it told of it. A table of four people, `ann` among them, was released at
epsilon 0.4. Then these were opened at 0.4, with values A, or B where only ast differs:

- `ann` with A (kept from the table), with B, with A again; refined to 0.6, served to two services,
  given a token and two caps;
- `bob` with B, served, erased, and with A; `gone` with A, and erased;
- `Mia` with A and `mia` with B, whom that version took for two people.
"""

import gzip
import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from rootguard import Guard, Session, load_template, open_store
from rootguard.errors import RootGuardError, StoreDamagedError, StoreError, StoreKeyError
from rootguard.events import ProfileErased, RootReturned
from rootguard.store.rows import PersonRow
from rootguard.store.schema import early
from rootguard.store.schema.migrations import MIGRATIONS, pending
from rootguard.store.sql import SqlStore
from rootguard.values import UNKNOWN_UNIT, Principal, RootName
from tests.support.store_contents import OTHER_KEY, database_of, draw, sql

HERE: Final = Path(__file__).parent / "fixtures"
FACTS: Final[dict[str, Any]] = json.loads((HERE / "vault-0.1.json").read_text())
KEY: Final = bytes(range(32))
FIB4: Final = load_template("fib4")
A: Final = {"age": 52.0, "ast": 61.0, "alt": 40.0, "plt": 180.0}
B: Final = A | {"ast": 75.0}
AST: Final = RootName("ast")
PRESENT: Final = {"ann": A, "bob": A, "Mia": A, "mia": B}
# What that version wrote of people; the rest is kept as it was.
OLD: Final = ("caps", "disclosures", "crossings")

KNOWN_TO_0_1: Final = MIGRATIONS[:5]

Change = Callable[[sqlite3.Connection], object]


def nothing(_: sqlite3.Connection) -> None:
    """Leave the file as it was made."""


def unpacked(tmp_path: Path, change: Change = nothing) -> Path:
    file = tmp_path / "vault-0.1.sqlite3"
    file.write_bytes(gzip.decompress((HERE / "vault-0.1.sqlite3.gz").read_bytes()))
    with closing(sqlite3.connect(file)) as raw, raw:
        change(raw)
    return file


def on_server(url: str, file: Path) -> str:
    """The same rows in a database on a server, as that version would have written them there."""
    import psycopg

    with closing(sqlite3.connect(file)) as raw, psycopg.connect(url) as server:
        tables = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        for name, made in tables:
            typed = made.replace("BLOB", "BYTEA").replace("INTEGER", "BIGINT")
            server.execute(typed.encode())
            for row in raw.execute(f"SELECT * FROM {name}"):
                marks = ", ".join(["%s"] * len(row))
                server.execute(f"INSERT INTO {name} VALUES ({marks})".encode(), row)
    return url


Place = Callable[..., str]


@pytest.fixture(params=["sqlite", "postgres"])
def early_vault(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Puts the early vault, changed if need be, into a place of its own; its URL."""

    def place(change: Change = nothing) -> str:
        file = unpacked(tmp_path, change)
        if request.param == "sqlite":
            return f"sqlite:///{file}"
        return on_server(request.getfixturevalue("new_postgres")(), file)

    return place


def opened(url: str) -> SqlStore:
    store = open_store(url, key=KEY)
    assert isinstance(store, SqlStore)
    return store


def resumed(store: SqlStore, who: str) -> Session:
    return Guard.resume(FIB4, store=store, principal=who)


def told(session: Session) -> dict[str, object]:
    return {name: session.release(name) for name in (*A, "fib4")}


def spent(store: SqlStore, who: str) -> dict[str, int]:
    return store.ledger(Principal(who)).micro


def test_everybody_keeps_values_ledger_caps_and_what_services_hold(early_vault: Place) -> None:
    url = early_vault()
    for _ in range(2):  # brought up to date, and opened again as it is now
        with closing(opened(url)) as store:
            assert store.verify() == ()
            assert store.principals() == ("Mia", "ann", "bob", "mia")
            for who in PRESENT:
                facts = FACTS[who]
                assert told(resumed(store, who)) == facts["values"]
                assert spent(store, who) == facts["spent"]
                assert store.ledger(Principal(who)).draws == facts["draws"]
                assert store.caps(Principal(who)) == facts["caps"]
            for whom, level in FACTS["held"].items():
                who, service = whom.split()
                assert sum(store.held(Principal(who), service).values()) == level
            with database_of(store).reading() as db:
                left = {name for name in db.tables() if name.startswith("early_")}
                assert not left | (db.tables() & set(OLD))


def test_the_same_values_are_found_again_and_cost_nothing(early_vault: Place) -> None:
    with closing(opened(early_vault())) as store:
        for who, values in PRESENT.items():
            before = store.events(Principal(who))
            again = Guard.open(FIB4, values=values, budget="0.4", store=store, principal=who)
            assert told(again) == FACTS[who]["values"]
            assert spent(store, who) == FACTS[who]["spent"]
            assert store.events(Principal(who)) == before
        assert store.verify() == ()


def test_a_value_of_before_finds_its_draw_and_a_new_one_is_charged(early_vault: Place) -> None:
    ann = Principal("ann")
    with closing(opened(early_vault())) as store:
        versions = {(r.sanitized.root, r.sanitized.version): r for r in store.records(ann)[::-1]}
        second = versions[AST, 2].sanitized
        back = Guard.open(FIB4, values=B, budget="0.4", store=store, principal=ann)
        assert back.release("ast") == second.value
        assert spent(store, "ann") == FACTS["ann"]["spent"]
        assert store.events(ann)[-1] == RootReturned(principal="ann", root="ast", version=2)
        Guard.open(FIB4, values=A, budget="0.4", store=store, principal=ann)
        assert told(resumed(store, "ann")) == FACTS["ann"]["values"]
        Guard.open(FIB4, values=A | {"ast": 90.0}, budget="0.4", store=store, principal=ann)
        assert store.version(ann, AST) == 3
        assert spent(store, "ann")["ast"] == FACTS["ann"]["spent"]["ast"] + 167_896
        assert store.verify() == ()


def test_tokens_log_and_tables_are_kept(early_vault: Place) -> None:
    with closing(opened(early_vault())) as store:
        [entry] = store.tokens(Principal("ann"))
        again = Guard.open(
            FIB4,
            values=A,
            budget="0.4",
            store=store,
            principal="ann",
            identifiers={"mrn": "4415-8820"},
        )
        assert again.release("mrn") == entry.token
        assert len(store.tokens(Principal("ann"))) == 1
        store._journal.flush()
        # Entries and the number of the latest, as that version counted them; ann has one more.
        sizes = {"ann": (31, 31), "bob": (11, 19), "gone": (1, 5), "Mia": (10, 10), "mia": (10, 10)}
        for who, (entries, latest) in sizes.items():
            assert store.log_size(Principal(who)) == (entries, latest)
            numbers = [entry.sequence for entry in store.log(Principal(who))]
            assert numbers == list(range(latest - entries + 1, latest + 1))
        assert [run.root for run in store.tables()] == ["age", "alt", "ast", "plt"]
        assert store.verify() == ()


def test_the_erased_are_known_by_no_name_and_their_totals_count(early_vault: Place) -> None:
    gone, bob = Principal("gone"), Principal("bob")
    with closing(opened(early_vault())) as store:
        assert spent(store, "gone") == FACTS["gone"]["spent"]
        assert store.epoch(gone) == store.epoch(bob) == 1
        assert store.records(gone) == ()
        for who in (gone, bob):
            erased = [e for e in store.events(who) if isinstance(e, ProfileErased)]
            noted = [e.event for e in store.log(who) if isinstance(e.event, ProfileErased)]
            assert erased == noted == [ProfileErased(principal="")]
        assert {event.principal for event in store.events(gone)} == {""}
        # Tables must know them still: from the key alone, they would be given their old noise.
        erased_tags = [tag for tag, erased in store.tags().items() if erased]
        assert len(store.tags()) == 5
        assert len(erased_tags) == 2
        again = Guard.open(FIB4, values=A, budget="0.4", store=store, principal=gone)
        assert again.guarantee().total * 10**6 == 2 * sum(FACTS["gone"]["spent"].values())
        assert store.version(gone, AST) == 2
        assert store.tags().keys() >= set(erased_tags)
        assert store.verify() == ()


def test_two_people_whose_names_are_one_now_keep_their_own(early_vault: Place) -> None:
    with closing(opened(early_vault())) as store:
        assert told(resumed(store, "Mia")) != told(resumed(store, "mia"))
        for third in ("MIA", "mia ", " Mia", "m\u200bia", "ｍｉａ"):
            for use in (
                lambda who=third: store.snapshot(Principal(who)),
                lambda who=third: store.erase(Principal(who)),
                lambda who=third: store.set_cap(Principal(who), "", 1),
                lambda who=third: Guard.open(
                    FIB4, values=A, budget="0.4", store=store, principal=who
                ),
            ):
                with pytest.raises(StoreError, match="exactly as it was first written"):
                    use()
        assert told(resumed(store, "ANN ")) == FACTS["ann"]["values"]  # who is one person
        store.erase(Principal("Mia"))
        assert told(resumed(store, "mia")) == FACTS["mia"]["values"]
        with pytest.raises(StoreError, match="exactly as it was first written"):
            store.snapshot(Principal("MIA"))
        assert store.verify() == ()


@pytest.mark.parametrize(
    "lost", ["heads WHERE shelf = 'exact_ids'", "heads WHERE shelf = 'ambiguous'", "meta"]
)
def test_how_names_are_compared_is_missed_when_it_is_lost(early_vault: Place, lost: str) -> None:
    url = early_vault()
    where = " WHERE name = 'ambiguous'" if lost == "meta" else ""
    with closing(opened(url)) as store:
        with store._database.exclusive() as db:
            db.execute(f"DELETE FROM {lost}{where}")
        assert store.verify() == ("how names are compared is missing; restore the store's backup",)
    with pytest.raises(StoreDamagedError, match="how names are compared is missing"):
        opened(url)


def test_no_name_or_value_is_left_in_clear(tmp_path: Path) -> None:
    """The control finds them in the file as it was made."""
    file = unpacked(tmp_path)
    clear = (b"root-noised", b"table-draw-kept", b"clinic", b"gone")
    with closing(sqlite3.connect(file)) as raw:
        marks = tuple(mark for (mark,) in raw.execute("SELECT DISTINCT fingerprint FROM draws"))
    needles = (*clear, *marks)
    assert not [each for each in needles if each not in file.read_bytes()]
    with closing(opened(f"sqlite:///{file}")):
        held = b"".join(
            each.read_bytes() for each in tmp_path.iterdir() if each.name.startswith("vault")
        )
        assert not [each for each in needles if each in held]
    assert not [each for each in needles if each in file.read_bytes()]


def test_version_0_1_refuses_a_vault_that_was_brought_up_to_date(early_vault: Place) -> None:
    """Its rule was the one of today, with the steps that it knew."""
    url = early_vault()
    with closing(opened(url)) as store, database_of(store).reading() as db:
        with pytest.raises(StoreError, match="a newer RootGuard made this store; upgrade"):
            pending(db, KNOWN_TO_0_1)
        assert pending(db) == []


def test_the_early_vault_has_the_steps_that_version_0_1_knew(tmp_path: Path) -> None:
    with closing(sqlite3.connect(unpacked(tmp_path))) as raw:
        done = [name for (name,) in raw.execute("SELECT name FROM migrations ORDER BY name")]
    assert done == [step.__name__ for step in KNOWN_TO_0_1]


def test_the_wrong_key_changes_nothing(tmp_path: Path) -> None:
    file = unpacked(tmp_path)
    before = digest(file)
    with pytest.raises(StoreKeyError):
        open_store(f"sqlite:///{file}", key=OTHER_KEY)
    assert digest(file) == before
    opened(f"sqlite:///{file}").close()


def digest(file: Path) -> dict[str, str]:
    """What every table holds; what SQLite writes about itself is no matter."""
    with closing(sqlite3.connect(file)) as raw:
        tables = raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {
            name: hashlib.sha256(
                repr(raw.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall()).encode()
            ).hexdigest()
            if name != "migrations"
            else repr(sorted(raw.execute("SELECT name FROM migrations")))
            for (name,) in tables
        }


DAMAGE: Final = {
    "a value": "UPDATE draws SET grid_index = grid_index + 1 WHERE principal = 'mia'",
    "a fingerprint": "UPDATE draws SET fingerprint = mac WHERE principal = 'mia'",
    "a lost draw": "DELETE FROM draws WHERE principal = 'ann' AND root = 'ast' AND version = 2",
    "a lost person": "DELETE FROM draws WHERE principal = 'mia'",
    "an event": "UPDATE events SET event = replace(event, '55592', '55593')",
    "a lost event": "DELETE FROM events WHERE principal = 'gone' AND sequence = 5",
    "all events of a person": "DELETE FROM events WHERE principal = 'gone'",
    "a person with all counts": (
        "DELETE FROM events WHERE principal = 'gone'; DELETE FROM heads WHERE principal = 'gone';"
        " DELETE FROM crossings WHERE principal = 'gone'"
    ),
    "a cap": "UPDATE caps SET micro_epsilon = micro_epsilon + 1",
    "a lost cap": "DELETE FROM caps WHERE root = ''",
    "a disclosure": "UPDATE disclosures SET service = 'lob' WHERE service = 'lab'",
    "a lost disclosure": "DELETE FROM disclosures WHERE service = 'lab' AND root = 'ast'",
    "a token": "UPDATE tokens SET entry = token_key",
    "a lost token": "DELETE FROM tokens",
    "an entry of the log": "UPDATE crossings SET service = 'x' WHERE principal = 'bob'",
    "a lost entry of the log": "DELETE FROM crossings WHERE principal = 'bob' AND sequence = 19",
    "a count": "UPDATE heads SET length = length - 1 WHERE principal = 'ann'",
    "lost counts": "DELETE FROM heads WHERE principal = 'ann'",
    "the count of all": "DELETE FROM heads WHERE principal = '' AND shelf = 'principals'",
    "all rows of people": "DELETE FROM heads; DELETE FROM events; DELETE FROM draws",
    "a quantity": "UPDATE quantities SET unit = 'x' WHERE root = 'ast'",
    "a lost quantity": "DELETE FROM quantities WHERE root = 'ast'",
}


@pytest.mark.parametrize("statements", DAMAGE.values(), ids=DAMAGE)
def test_an_altered_or_lost_row_is_refused_and_the_file_left_as_it_was(
    tmp_path: Path, statements: str
) -> None:
    file = unpacked(tmp_path, lambda raw: raw.executescript(statements))
    before = digest(file)
    for _ in range(2):
        with pytest.raises(StoreDamagedError):
            opened(f"sqlite:///{file}")
        assert digest(file) == before


def test_where_no_grids_are_written_down_they_are_those_of_the_draws(tmp_path: Path) -> None:
    def before_grids(raw: sqlite3.Connection) -> None:
        raw.execute("DELETE FROM quantities")
        raw.execute("DELETE FROM heads WHERE principal = '' AND shelf = 'quantities'")

    with closing(open_store(f"sqlite:///{unpacked(tmp_path)}", key=KEY)) as store:
        known = store.quantities()
    with closing(open_store(f"sqlite:///{unpacked(tmp_path, before_grids)}", key=KEY)) as store:
        found = store.quantities()
    assert {each.unit for each in found.values()} == {UNKNOWN_UNIT}
    assert {root: each.domain for root, each in found.items()} == {
        root: each.domain for root, each in known.items()
    }


def test_as_many_draws_as_the_ledger_says_but_others_are_refused(file: Path) -> None:
    kept = early._EarlyPerson()
    kept.events = [draw("age", 3, version=1).event]
    kept.draws = [draw("age", 3, version=2)]
    with closing(sql(f"sqlite:///{file}")) as store:
        with pytest.raises(StoreDamagedError, match="draws"):
            list(kept.rows(store._secrets, PersonRow.new("key", Principal("ana"))))
        kept.draws = [draw("age", 3, version=1)]
        assert list(kept.rows(store._secrets, PersonRow.new("key", Principal("ana"))))


def test_a_conversion_that_fails_leaves_the_database_as_it_was(
    early_vault: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = early_vault()

    def fails(*_: object) -> None:
        raise RootGuardError("no")

    with monkeypatch.context() as patched:
        patched.setattr(early, "_grids", fails)  # the last step before it is written
        with pytest.raises(RootGuardError, match=r"^no$"):
            opened(url)
    with closing(opened(url)) as store:
        assert told(resumed(store, "ann")) == FACTS["ann"]["values"]
        assert store.verify() == ()
