"""What is left of an erased person: in no file a byte that tells of them, and totals that count."""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from rootguard import Guard, load_template
from rootguard.errors import ErasedError, StoreDamagedError, StoreUnavailableError
from rootguard.store import rows
from rootguard.store.dialects import sqlite
from rootguard.store.sql import SqlStore
from rootguard.values import Principal
from tests.support.postgres import own_server
from tests.support.store_contents import OTHER_KEY, at, sql

FIB4 = load_template("fib4")
VALUES = {"age": 52.0, "ast": 61.0, "alt": 40.0, "plt": 180.0}
WHO = Principal("Wilhelmina Harker")
OWN_ROWS = (
    "SELECT person_key FROM people",
    "SELECT name FROM people",
    "SELECT summary FROM people",
    "SELECT content FROM draws",
    "SELECT place FROM draws",
    "SELECT content FROM events",
    "SELECT content FROM log",
    "SELECT content FROM tokens",
)
IN_CLEAR = (b"Wilhelmina", b"wilhelmina", b"Harker", b"4415-8820", b"clinic")


def keep(store: SqlStore) -> list[bytes]:
    """Open a person; every cell of theirs that is kept."""
    session = Guard.open(
        FIB4,
        values=VALUES,
        budget="0.9",
        store=store,
        principal=WHO,
        identifiers={"mrn": "4415-8820"},
    )
    session.target()
    store._journal.flush()
    with store._database.reading() as db:
        return [bytes(row[0]) for each in OWN_ROWS for row in db.execute(each)]


def found_in(directory: Path, needles: list[bytes]) -> int:
    """How many of the byte strings occur in any file of a directory."""
    files = [file.read_bytes() for file in directory.rglob("*") if file.is_file()]
    return sum(any(needle in held for held in files) for needle in needles)


def test_an_erased_person_is_in_no_file_of_the_vault(tmp_path: Path) -> None:
    with closing(sql(at(tmp_path / "vault.db"))) as store:
        kept = keep(store)
        assert len(kept) >= 20
        assert found_in(tmp_path, kept) == len(kept)  # the search can find
        assert found_in(tmp_path, list(IN_CLEAR)) == 0
        store.erase(WHO)
        assert found_in(tmp_path, kept) == 0
        assert store.verify() == ()
    assert found_in(tmp_path, kept) == 0


def test_an_erasure_that_a_reader_holds_up_is_not_told_as_done(tmp_path: Path) -> None:
    file = tmp_path / "vault.db"
    with closing(sql(at(file))) as store:
        kept = keep(store)
        with closing(sqlite3.connect(file)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM people").fetchall()
            with pytest.raises(StoreUnavailableError, match="a reader holds the log"):
                store.erase(WHO)
            assert found_in(tmp_path, kept) > 0
            assert store.epoch(WHO) == 1  # for us it is erased
        store.erase(WHO)
        assert found_in(tmp_path, kept) == 0
        assert store.verify() == ()


@pytest.mark.parametrize("erasures", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_writers_who_move_the_log_do_not_hold_up_an_erasure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, erasures: int
) -> None:
    """SQLite refuses at once, as if a reader held the log, while another moves it."""
    monkeypatch.setattr(sqlite, "_SCRUB_SECONDS", 60)
    done = threading.Event()

    def write(name: str) -> int:
        written = 0
        with closing(sql(at(tmp_path / "vault.db"))) as store:
            while not done.is_set():
                written += 1
                store.set_cap(Principal(name), "age", written)
        return written

    with closing(sql(at(tmp_path / "vault.db"))) as store, ThreadPoolExecutor(3) as threads:
        writers = [threads.submit(write, f"writer {number}") for number in range(3)]
        try:
            for _ in range(erasures):
                store.erase(WHO)
        finally:
            done.set()
        assert all(writer.result() for writer in writers)
        assert store.verify() == ()


def test_what_a_server_still_holds_of_an_erased_person_says_nothing() -> None:
    """Dead rows and the log stay for a while: without a key, and for good after a change of key."""
    with own_server() as server:
        url = server.url("postgres")
        with closing(sql(url)) as store:
            kept = keep(store)
            [(wrapped,)] = _cells(url, "SELECT person_key FROM people")
            [(key,)] = _cells(url, "SELECT principal FROM people")
            [(place, content)] = _cells(url, "SELECT place, content FROM draws LIMIT 1")
            assert found_in(server.directory, kept) > 0
            assert found_in(server.directory, list(IN_CLEAR)) == 0
            secrets = store._secrets
            store.erase(WHO)
            assert found_in(server.directory, list(IN_CLEAR)) == 0
            # Under the person's present key, none of the old rows opens.
            with store._database.reading() as db:
                [person] = store._everyone(db)
            with pytest.raises(StoreDamagedError):
                rows.DRAWS.open(person, place, content)
            # Who has the master key and the server's old files could unwrap the old one still.
            assert secrets.people.decrypt(wrapped, "key", key, 0)
            store.rotate_key(OTHER_KEY)
            with pytest.raises(StoreDamagedError):
                store._secrets.people.decrypt(wrapped, "key", key, 0)


def _cells(url: str, query: str) -> list[tuple[bytes, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(query.encode()).fetchall()


def test_after_an_erasure_hash_epoch_and_totals_remain(url: str) -> None:
    with closing(sql(url)) as store:
        keep(store)
        session = Guard.resume(FIB4, store=store, principal=WHO)
        before = store.ledger(WHO)
        store.erase(WHO)
        assert store.principals() == ()
        assert len(store.tags()) == 1
        assert store.epoch(WHO) == 1
        assert store.records(WHO) == ()
        assert len(store.tokens(WHO)) == 0
        assert {event.principal for event in store.events(WHO)} == {""}
        assert [entry.event for entry in store.log(WHO)] == [store.events(WHO)[-1]]
        assert store.ledger(WHO).micro == before.micro
        with pytest.raises(ErasedError, match="erased meanwhile"):
            session.release("ast")
        again = Guard.open(FIB4, values=VALUES, budget="0.9", store=store, principal=WHO)
        assert again.guarantee().total == 2 * before.total
        assert store.principals() == (WHO,)
        assert store.verify() == ()
