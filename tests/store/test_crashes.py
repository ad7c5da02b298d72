"""Writers killed for real lose nothing that they released. A writer that could must be caught."""

import os
import random
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from rootguard.accounting import Ledger
from rootguard.values import RootName
from rootguard.vault import open_store
from tests.support.patience import PATIENCE
from tests.support.store_contents import ANA, SEED, content, fill, sql
from tests.support.store_writers import processes, rotate_until_killed, write_until_killed


def kill_a_writer(
    url: str, released: Path, *, statement: int, after: bool, first: int = 0, hasty: bool = False
) -> bool:
    """Run a writer that is killed at a statement, and check what it leaves; whether it died."""
    released.touch()
    writer = processes.Process(
        target=write_until_killed,
        args=(dict(os.environ), url, first, statement, after, hasty, str(released)),
    )
    writer.start()
    writer.join(timeout=PATIENCE)
    check_released(url, released.read_text().splitlines()[-60:])
    return writer.exitcode == -signal.SIGKILL


def check_released(url: str, lines: list[str]) -> None:
    """What was released is kept, what is kept was charged once, and nothing else is wrong."""
    shown = dict(line.split() for line in lines)
    with closing(open_store(url)) as store:
        assert store.verify() == ()
        kept = store.snapshot(ANA).levels  # once: each reads all roots
        for root, index in shown.items():
            levels = kept.get(RootName(root), ())
            assert [level.sanitized.index for level in levels] == [int(index)]
        ledger = Ledger(store.events(ANA)).micro
        assert set(ledger.values()) <= {5}, "a draw was charged twice"
        assert len(ledger) == len(store.events(ANA))
        assert set(shown) <= set(ledger)


def kill_writers(url: str, released: Path, kills: int, *, hasty: bool = False) -> None:
    """Kill writers of one store at random points; some begin with roots that are there."""
    rng = random.Random(SEED)
    reached, killed = 0, 0
    for _ in range(kills):
        killed += kill_a_writer(
            url,
            released,
            statement=rng.randrange(1, rng.choice([25, 250])),
            after=rng.random() < 0.5,
            first=rng.randrange(max(0, reached - 2), reached + 1),
            hasty=hasty,
        )
        reached = len(set(released.read_text().splitlines()))
    check_released(url, released.read_text().splitlines())
    assert killed > kills * 0.8
    assert reached > kills


# A hundred writers are started and killed one by one, which a busy machine may draw out.
LONG = (pytest.mark.slow, pytest.mark.timeout(1800))


@pytest.mark.parametrize("kills", [10, pytest.param(100, marks=LONG)])
def test_a_writer_killed_anywhere_loses_nothing_it_released(
    url: str, tmp_path: Path, kills: int
) -> None:
    kill_writers(url, tmp_path / "released", kills)


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_a_writer_killed_while_it_makes_the_store_leaves_nothing_in_the_way(
    tmp_path: Path, every: int
) -> None:
    for statement in range(1, 45, every):
        url = f"sqlite:///{tmp_path}/{statement}/vault.db"
        released = tmp_path / f"released {statement}"
        assert kill_a_writer(url, released, statement=statement, after=statement % 2 == 0)


@pytest.mark.parametrize("every", [8, pytest.param(4, marks=pytest.mark.slow)])
def test_a_writer_killed_while_it_makes_a_servers_store_leaves_nothing_in_the_way(
    new_postgres: Callable[[], str], tmp_path: Path, every: int
) -> None:
    for statement in range(1, 40, every):
        released = tmp_path / f"released {statement}"
        assert kill_a_writer(new_postgres(), released, statement=statement, after=True)


def test_a_writer_that_releases_before_it_commits_is_caught(url: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        kill_writers(url, tmp_path / "released", 30, hasty=True)


# Of every third moment, one of two is before its statement and one after it.
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_a_change_of_key_killed_anywhere_leaves_a_store_that_opens(url: str, every: int) -> None:
    with closing(sql(url, None)) as store:
        fill(store)
        before = content(store)
    moments = [(statement, after) for statement in range(1, 18) for after in (False, True)]
    for statement, after in moments[::every]:
        process = processes.Process(
            target=rotate_until_killed, args=(dict(os.environ), url, statement, after)
        )
        process.start()
        process.join(timeout=PATIENCE)
        with closing(sql(url, None)) as store:
            assert content(store) == before
            assert store.verify() == ()
