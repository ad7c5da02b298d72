"""Writers in processes of their own: racing, opening, writing and changing the key until killed."""

import importlib
import multiprocessing
import os
import random
import signal
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any

from rootguard.store.sql import SqlStore
from rootguard.vault import open_store
from tests.support.patience import PATIENCE
from tests.support.store_contents import ANA, draw, sql

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["tests.support.store_writers"])


class Blind(SqlStore):
    """A store that trusts the database's key alone: it does not look whether a row is missing."""

    def _match(self, charged: int, found: int) -> None:
        """Look away."""


def race(
    url: str, blind: bool, roots: int, writer: int, start: Barrier, report: "Connection[Any, Any]"
) -> None:  # pragma: no cover - runs in a process of its own
    store = sql(url)
    if blind:
        store.__class__ = Blind
    start.wait(timeout=PATIENCE)
    kept = [store.commit(ANA, [draw(f"r{n}", writer, micro=1 + writer)])[0] for n in range(roots)]
    report.send([record.sanitized.index for record in kept])
    report.close()
    store.close()


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
    border = importlib.import_module(f"rootguard.store.{dialect}")
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
