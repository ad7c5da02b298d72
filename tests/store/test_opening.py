"""Which URL opens which store, and when one is no longer used."""

import os
import re
import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from rootguard.errors import StoreDamagedError, StoreError, StoreUnavailableError
from rootguard.store.dialects import sqlite
from rootguard.store.dialects.sqlite import SqliteDatabase
from rootguard.vault import default_url, open_store
from tests.support.store_contents import ANA, KEY, at, database_of, fill, sql


def test_urls_name_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_store("sqlite:///here.db", key=KEY, create=True).close()
    open_store(f"sqlite:///{tmp_path}/there.db", key=KEY, create=True).close()
    assert (tmp_path / "here.db").exists()
    assert (tmp_path / "there.db").exists()
    assert default_url() == f"sqlite:///{tmp_path}/data/rootguard/vault.sqlite3"
    with closing(open_store(default_url())) as store:
        fill(store)


@pytest.mark.parametrize(
    "url", ["", "mysql://x", "/a/path", "sqlite:", "sqlite:x.db", "sqlite:///"]
)
def test_an_unknown_url_is_refused_with_a_remedy(url: str) -> None:
    with pytest.raises(StoreError, match="write"):
        open_store(url)


@pytest.mark.parametrize("path", ["a\x00b", "\ud800", "x" * 5000])
def test_a_path_that_no_file_can_have_is_refused(path: str) -> None:
    with pytest.raises(StoreError, match="path cannot be used"):
        open_store(f"sqlite:///{path}", key=KEY)


@pytest.mark.parametrize("host", [".", "x" * 300])
def test_a_host_that_is_no_name_is_refused(host: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StoreError, match="write postgresql://user@host/name"):
        open_store(f"postgresql://{host}", key=KEY)


def test_a_missing_driver_is_named_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "rootguard.store.dialects.postgres", raising=False)
    with pytest.raises(StoreError, match=re.escape("pip install 'rootguard[postgres]'")):
        open_store("postgresql://localhost/x")


def test_a_store_is_not_used_after_a_fork_or_after_closing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = sql(url)
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: 0)
        with pytest.raises(StoreError, match="fork"):
            store.events(ANA)
    store.close()
    with pytest.raises(StoreUnavailableError):
        store.events(ANA)


def test_a_connection_that_is_made_while_the_store_closes_is_closed_with_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = sql(at(file))
    database = database_of(store)
    assert isinstance(database, SqliteDatabase)
    made: list[sqlite._Connection] = []

    class Slow(sqlite._Connection):
        def __init__(self, path: Path) -> None:
            super().__init__(path)
            made.append(self)
            database.close()

    monkeypatch.setattr(sqlite, "_Connection", Slow)
    database._local = threading.local()  # as another thread has it
    with pytest.raises(StoreUnavailableError, match="closed"):
        store.events(ANA)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        made[0].raw.execute("SELECT 1")
    assert not database._open


def test_a_threads_connection_ends_with_it(file: Path) -> None:
    with closing(sql(at(file))) as store:
        for _ in range(20):
            reader = threading.Thread(target=store.events, args=(ANA,))
            reader.start()
            reader.join()
        database = database_of(store)
        assert isinstance(database, SqliteDatabase)
        assert len(database._open) <= 2


def test_a_file_says_in_its_header_that_it_is_ours(file: Path) -> None:
    sql(at(file)).close()
    assert file.read_bytes()[68:72] == b"RGV1"  # where SQLite keeps an application's own number


def test_an_empty_file_and_a_place_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    with pytest.raises(StoreDamagedError, match="is an empty file"):
        sql(at(tmp_path / "empty.db"))
    with pytest.raises(StoreUnavailableError, match=r"cannot be made: \S+empty\.db is a file"):
        sql(at(tmp_path / "empty.db" / "vault.db"))


def test_all_versions_queue_behind_the_same_lock_of_a_server() -> None:
    from rootguard.store.dialects.postgres import _number

    assert _number("store") == 5771152696104231773
    assert _number("of ana") == -4099947633432132439
