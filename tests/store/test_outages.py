"""A server that goes away, a server that is not there, a busy file: unavailable, nothing lost."""

import random
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from rootguard.errors import StoreUnavailableError
from rootguard.store import Store
from rootguard.values import RootName
from rootguard.vault import open_store
from tests.support.patience import PATIENCE
from tests.support.postgres import own_server
from tests.support.store_contents import ANA, KEY, at, draw, fill, sql


def test_a_server_that_goes_away_and_comes_back_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rootguard.store.dialects import postgres

    monkeypatch.setattr(postgres, "WAIT_SECONDS", 1.0)
    half_way, refused = threading.Event(), threading.Event()
    told: list[int] = []
    chained: list[object] = []

    def write(store: Store) -> None:
        for number in range(60):
            while True:
                try:
                    mine = draw(f"r{number}", random.SystemRandom().randrange(1000))
                    told.append(store.commit(ANA, [mine])[0].sanitized.index)
                    break
                except StoreUnavailableError as error:
                    chained.append(error.__context__)
                    refused.set()
            if number == 20:
                half_way.set()

    with own_server() as server:
        store = sql(server.url("postgres"))
        writer = threading.Thread(target=write, args=(store,))
        writer.start()
        assert half_way.wait(timeout=PATIENCE)
        server.stop()
        assert refused.wait(timeout=PATIENCE)
        server.start()
        writer.join(timeout=PATIENCE)
        kept = [store.levels(ANA, RootName(f"r{number}")) for number in range(60)]
        assert [[level.sanitized.index for level in levels] for levels in kept] == [
            [index] for index in told
        ]
        assert len(store.events(ANA)) == 60
        assert set(chained) == {None}
        assert store.verify() == ()
        store.close()


def test_a_server_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError) as caught:
        open_store(f"postgresql://me:hunter2@/x?host={tmp_path}", key=KEY)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_busy_file_is_unavailable_and_nothing_of_the_statement_travels(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rootguard.store.dialects.sqlite.BUSY_SECONDS", 0.01)
    with closing(sql(at(file))) as store, closing(sqlite3.connect(file)) as other:
        fill(store)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="try again") as caught:
            store.commit(ANA, [draw("new", 1)])
        assert caught.value.__context__ is None
        assert caught.value.__cause__ is None
        other.rollback()
        assert store.commit(ANA, [draw("new", 1)])
        assert store.verify() == ()
