"""Processes that race for a draw or for a new store: one wins, and all are told the same."""

import os
from contextlib import closing

import pytest

from rootguard.accounting import Ledger
from rootguard.values import RootName
from rootguard.vault import open_store
from tests.support.patience import PATIENCE
from tests.support.store_contents import ANA, database_of, sql
from tests.support.store_writers import Lock, come_with_environment, processes, race


def run_race(url: str, *, writers: int, roots: int, lock: Lock = "held") -> None:
    start = processes.Barrier(writers)
    pipes = [processes.Pipe(duplex=False) for _ in range(writers)]
    running = [
        processes.Process(target=race, args=(url, lock, roots, writer, start, pipes[writer][1]))
        for writer in range(writers)
    ]
    for process in running:
        process.start()
    answers = []
    for receive, send in pipes:
        send.close()
        answers.append(receive.recv())
        receive.close()
    for process in running:
        process.join(timeout=PATIENCE)
        assert process.exitcode == 0
    with closing(sql(url)) as store:
        assert len({tuple(answer) for answer in answers}) == 1, "writers were told different values"
        kept = [store.levels(ANA, RootName(f"r{n}")) for n in range(roots)]
        assert [[level.sanitized.index for level in levels] for levels in kept] == [
            [index] for index in answers[0]
        ]
        assert len(store.events(ANA)) == roots
        assert Ledger(store.events(ANA)).micro == {
            f"r{n}": 1 + index for n, index in enumerate(answers[0])
        }
        assert store.verify() == ()


@pytest.mark.parametrize("roots", [50, pytest.param(200, marks=pytest.mark.slow)])
def test_of_eight_racing_processes_each_root_is_drawn_once(url: str, roots: int) -> None:
    sql(url).close()
    run_race(url, writers=8, roots=roots)


def test_without_the_persons_lock_the_unique_keys_win_the_race(url: str) -> None:
    with closing(sql(url)) as store:
        store.set_cap(ANA, "", None)  # newcomers would race with a key of their own each
    run_race(url, writers=4, roots=20, lock="left")


def test_without_lock_and_unique_keys_the_race_is_lost(url: str) -> None:
    with closing(sql(url)) as store:
        store.set_cap(ANA, "", None)
        with database_of(store).exclusive() as db:
            for table in ("draws", "events", "log"):
                db.execute(f"ALTER TABLE {table} RENAME TO keyed_{table}")
                db.execute(f"CREATE TABLE {table} AS SELECT * FROM keyed_{table}")
    with pytest.raises(AssertionError, match="told different values"):
        run_race(url, writers=4, roots=20, lock="nothing")


def test_processes_that_open_a_new_store_at_once_open_the_same_one(url: str) -> None:
    start = processes.Barrier(6)
    pipes = [processes.Pipe(duplex=False) for _ in range(6)]
    running = [
        processes.Process(
            target=come_with_environment, args=(dict(os.environ), url, start, pipe[1])
        )
        for pipe in pipes
    ]
    for process in running:
        process.start()
    told = set()
    for receive, send in pipes:
        send.close()
        told.add(receive.recv())
        receive.close()
    for process in running:
        process.join(timeout=PATIENCE)
    assert len(told) == 1
    with closing(open_store(url)) as store:
        assert told == {(store.fingerprint_key, ())}
