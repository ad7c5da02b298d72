"""Attempts to have one value drawn twice, or to have a promise, a cap or a tier miss a draw."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rootguard import Guard, MemoryStore, Session, load_template
from rootguard.events import RootNoised
from rootguard.store import Record, Store
from rootguard.values import Principal, RootName
from rootguard.vault import open_store

FIB4 = load_template("fib4")
OWNER, AST = Principal("owner"), RootName("ast")
VALUES = {"age": 54.3, "ast": 23.1, "alt": 30.7, "plt": 220.4}


def drawn(store: Store, root: str = "ast") -> list[RootNoised]:
    return [e for e in store.events(OWNER) if isinstance(e, RootNoised) and e.root == root]


def opened(store: Store, **values: float) -> Session:
    return Guard.open(FIB4, values={**VALUES, **values}, budget="0.9", store=store)


class Rival(MemoryStore):
    """Somebody else opens another value just after each return to an earlier one."""

    rival: Callable[[], object] | None = None

    def return_to(self, principal: Principal, root: RootName, version: int) -> tuple[Record, ...]:
        found = super().return_to(principal, root, version)
        rival, self.rival = self.rival, None
        if rival is not None:
            rival()
        return found


def test_a_value_that_comes_back_is_not_drawn_again_when_a_rival_returns_to_another() -> None:
    store = Rival()
    first = opened(store).release("ast")
    opened(store, ast=61.4)
    store.rival = lambda: opened(store, ast=61.4)
    assert opened(store).release("ast") == first
    assert len(drawn(store)) == 2
    assert store.verify() == ()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        made: Store = MemoryStore()
    elif request.param == "sqlite":
        made = open_store(f"sqlite:///{tmp_path}/v.db")
    else:
        made = open_store(request.getfixturevalue("new_postgres")())
    yield made
    made.close()


def test_threads_that_change_a_value_to_and_fro_draw_each_value_once(store: Store) -> None:
    released: dict[float, set[object]] = {23.1: set(), 61.4: set(), 90.2: set()}
    start = threading.Barrier(6)

    def change(offset: int) -> None:
        start.wait()
        for turn in range(12):
            ast = list(released)[(turn + offset) % 3]
            released[ast].add(opened(store, ast=ast).release("ast"))

    threads = [threading.Thread(target=change, args=(offset,)) for offset in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawn(store)) == 3
    assert [len(values) for values in released.values()] == [1, 1, 1]
    assert store.verify() == ()
