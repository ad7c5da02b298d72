"""Writers in processes of their own: racing, opening, writing and changing the key until killed."""

import importlib
import multiprocessing
import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from typing import Any, Literal

from rootguard.errors import StoreError, StoreUnavailableError
from rootguard.session import Guard, Session
from rootguard.store import Record
from rootguard.store.base import Transaction
from rootguard.store.dialects.sqlite import SqliteDatabase
from rootguard.store.envelope import UnlockedDatabase
from rootguard.store.sql import SqlStore
from rootguard.template import load_template
from rootguard.vault import open_store, restore_store
from tests.support.patience import PATIENCE
from tests.support.store_contents import ANA, draw, sql

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["tests.support.store_writers"])


Lock = Literal["held", "left", "nothing"]
"""What a racing writer does about a person's lock: it is held, or left; or left with all else."""


def leave_lock(store: SqlStore, lock: Lock) -> None:
    """Have a store write without the person's lock, or even without a transaction."""
    unlocked = store._database
    assert isinstance(unlocked, UnlockedDatabase)
    database = unlocked._database
    write: Callable[[str], AbstractContextManager[Transaction]]
    if not isinstance(database, SqliteDatabase):
        real = database.writing  # as somebody whom nobody else waits for

        def write(_: str) -> AbstractContextManager[Transaction]:
            return real(os.urandom(8).hex())
    elif lock == "left":

        def write(_: str) -> AbstractContextManager[Transaction]:
            return database._transaction("BEGIN")
    else:  # SQLite refuses to write what another has written since it was read

        def write(_: str) -> AbstractContextManager[Transaction]:
            return nullcontext(database._connection())

    vars(database)["writing"] = write


def race(
    url: str, lock: Lock, roots: int, writer: int, start: Barrier, report: "Connection[Any, Any]"
) -> None:  # pragma: no cover - runs in a process of its own
    store = sql(url)
    if lock != "held":
        leave_lock(store, lock)
    start.wait(timeout=PATIENCE)
    told = [
        _until_kept(
            store, draw(f"r{n}", writer, micro=1 + writer), tries=1 if lock == "held" else 400
        )
        for n in range(roots)
    ]
    report.send(told)
    report.close()
    store.close()


def _until_kept(store: SqlStore, mine: Record, *, tries: int) -> int:
    """Commit, again if the database refuses a row; which draw is kept."""
    for left in reversed(range(tries)):
        try:
            return store.commit(ANA, [mine])[0].sanitized.index
        except StoreError:
            if not left:
                raise
    raise AssertionError


def come_first(
    url: str, start: Barrier, report: "Connection[Any, Any]"
) -> None:  # pragma: no cover
    start.wait(timeout=PATIENCE)
    with closing(open_store(url)) as store:
        report.send((store.fingerprint_key, store.verify()))
    report.close()


def come_with_environment(
    environment: dict[str, str], url: str, start: Barrier, report: "Connection[Any, Any]"
) -> None:  # pragma: no cover
    os.environ.update(environment)  # the fork server was started with another test's
    come_first(url, start, report)


def die_at(url: str, statement: int, *, after: bool) -> None:
    """Have this process killed at its n-th call of the driver, before it or after it."""
    dialect = "postgres" if url.startswith("postgresql") else "sqlite"
    border = importlib.import_module(f"rootguard.store.dialects.{dialect}")
    real: Callable[[Callable[[], object]], object] = vars(border)["_at_the_border"]
    calls = 0

    def counting(work: Callable[[], object]) -> object:
        nonlocal calls
        calls += 1
        if calls == statement and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(work)
        if calls == statement:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    vars(border)["_at_the_border"] = counting


@contextmanager
def counted_steps(url: str, step: Callable[[int, str, str], None]) -> Iterator[None]:
    """Have `step` called before and after each call of the driver and each step of a file.

    It is given the step's number, the moment and what is called.
    """
    dialect = "postgres" if url.startswith("postgresql") else "sqlite"
    border = importlib.import_module(f"rootguard.store.dialects.{dialect}")
    places: list[tuple[Any, str]] = [
        (border, "_at_the_border"),
        (os, "fsync"),
        (Path, "replace"),
        (Path, "unlink"),
    ]
    before = [(owner, name, vars(owner)[name]) for owner, name in places]
    calls = 0

    def counting(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            nonlocal calls
            calls += 1
            number = calls
            step(number, "before", name)
            result = real(*arguments, **options)
            step(number, "after", name)
            return result

        return call

    for owner, name, real in before:
        setattr(owner, name, counting(name, real))
    try:
        yield
    finally:
        for owner, name, real in before:
            setattr(owner, name, real)


def write_until_killed(
    environment: dict[str, str],
    url: str,
    first: int,
    statement: int,
    after: bool,
    hasty: bool,
    released: str,
) -> None:  # pragma: no cover - runs in a process of its own
    os.environ.update(environment)
    die_at(url, statement, after=after)
    out = os.open(released, os.O_WRONLY | os.O_APPEND)
    with closing(open_store(url)) as store:
        for number in range(first, first + 40):
            mine = draw(f"r{number}", random.SystemRandom().randrange(1000))
            if hasty:
                os.write(out, f"r{number} {mine.sanitized.index}\n".encode())
            [kept] = store.commit(ANA, [mine])
            if not hasty:
                os.write(out, f"r{number} {kept.sanitized.index}\n".encode())


def rotate_until_killed(
    environment: dict[str, str], url: str, statement: int, after: bool
) -> None:  # pragma: no cover - runs in a process of its own
    os.environ.update(environment)
    store = sql(url, None)
    die_at(url, statement, after=after)
    store.rotate_key(os.urandom(32))


def rotate(
    environment: dict[str, str], url: str, rotations: int, report: "Connection[Any, Any]"
) -> None:  # pragma: no cover - runs in a process of its own
    os.environ.update(environment)
    with closing(sql(url, None)) as store:
        for _ in range(rotations):
            store.rotate_key(os.urandom(32))
    report.send(rotations)
    report.close()


def rotate_until_killed_anywhere(
    environment: dict[str, str], url: str, step: int, moment: str
) -> None:  # pragma: no cover - runs in a process of its own
    os.environ.update(environment)
    store = sql(url, None)

    def die(number: int, when: str, _: str) -> None:
        if (number, when) == (step, moment):
            os.kill(os.getpid(), signal.SIGKILL)

    with counted_steps(url, die):
        while True:
            store.rotate_key(os.urandom(32))


def restore_until_killed(
    environment: dict[str, str], backup: str, url: str, step: int, moment: str
) -> None:  # pragma: no cover - runs in a process of its own
    os.environ.update(environment)

    def die(number: int, when: str, _: str) -> None:
        if (number, when) == (step, moment):
            os.kill(os.getpid(), signal.SIGKILL)

    with counted_steps(url, die):
        restore_store(Path(backup), url)


def open_and_go_on(
    environment: dict[str, str], url: str, stop: Event, report: "Connection[Any, Any]"
) -> None:  # pragma: no cover - runs in a process of its own
    """Open a store again and again, and read on in one that stays open; say how often."""
    os.environ.update(environment)
    opened = 0
    with closing(sql(url, None)) as running:
        there = running.events(ANA)
        report.send("ready")
        while not stop.is_set():
            with closing(sql(url, None)) as store:
                assert store.events(ANA) == there
            assert running.events(ANA) == there
            assert len(running.tokens(ANA)) == len(list(running.tokens(ANA)))
            opened += 1
    report.send(opened)
    report.close()


def values_of(session: Session) -> dict[str, object]:
    """What a session of FIB-4 releases of each root."""
    return {root: session.release(root) for root in ("age", "alt", "ast", "plt")}


def release_until_told(
    url: str, writer: int, released: str, stop: Event
) -> None:  # pragma: no cover - runs in a process of its own
    """Open session after session, and write down what each released once it was released."""
    fib4 = load_template("fib4")
    out = os.open(released, os.O_WRONLY | os.O_APPEND)
    with closing(sql(url)) as store:
        number = 0
        while not stop.is_set():
            name, age = f"p{writer}x{number // 2}", 30 + number % 2
            values = {"age": age, "ast": 23, "alt": 30, "plt": 220}
            try:
                session = Guard.open(fib4, values=values, budget="0.9", store=store, principal=name)
            except StoreUnavailableError:
                continue  # the machine is busy: whoever is told to try again does
            os.write(out, f"{name} {age} {values_of(session)!r}\n".encode())
            number += 1
