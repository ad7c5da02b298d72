"""Releases from a vault, against a bare SELECT of the same row by the same driver.

Warm: a session is open, as it is for all but the first question of a conversation. Cold: the store
is opened, the session resumed and one value released, against connecting and selecting once.
"""

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.answers import PATIENT
from benchmarks.measure import Case, Contender, Skipped
from rootguard import Guard, Store, load_template, open_store
from rootguard.values import Principal, RootName

_SELECT = (
    "SELECT grid_index, lower_bound, upper_bound, size FROM draws"
    " WHERE principal = {0} AND root = {0} AND version = {0} AND position = {0}"
)
_KEY = ("owner", "ast", 1, 0)
_MASTER = bytes(32)
_AIM = 1 / 1.5


def vault() -> Iterator[Case | Skipped]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = f"sqlite:///{folder / 'vault.sqlite3'}"
        open_store(url, key=_MASTER).close()
        connection = sqlite3.connect(folder / "vault.sqlite3")
        yield from _cases(
            "SQLite",
            url,
            lambda: connection.execute(_SELECT.format("?"), _KEY).fetchone(),
            lambda: _sqlite_once(folder / "vault.sqlite3"),
        )
        connection.close()
        yield from _postgres(stack)


def _sqlite_once(file: Path) -> object:
    connection = sqlite3.connect(file)
    row = connection.execute(_SELECT.format("?"), _KEY).fetchone()
    connection.close()
    return row


def _postgres(stack: ExitStack) -> Iterator[Case | Skipped]:
    from tests.support.postgres import own_server

    try:
        server = stack.enter_context(own_server())
    except pytest.skip.Exception as reason:
        yield Skipped(name="PostgreSQL vault", reason=str(reason))
        return
    import psycopg

    def once() -> object:
        with psycopg.connect(url) as fresh:
            return fresh.execute(_SELECT.format("%s").encode(), _KEY).fetchone()

    url = server.url("postgres")
    connection = stack.enter_context(psycopg.connect(url, autocommit=True))
    yield from _cases(
        "PostgreSQL",
        url,
        lambda: connection.execute(_SELECT.format("%s").encode(), _KEY).fetchone(),
        once,
    )


def _cases(
    name: str, url: str, select: Callable[[], object], select_once: Callable[[], object]
) -> Iterator[Case]:
    template = load_template("fib4")
    store = open_store(url, key=_MASTER)
    session = Guard.open(template, values=PATIENT, budget="0.9", store=store)

    def cold() -> object:
        opened: Store = open_store(url, key=_MASTER)
        value = Guard.resume(template, store=opened).release("ast")
        opened.close()
        return value

    bare = Contender(name=f"bare SELECT, {name}", call=select)
    for label, call, aim in (
        ("release, warm", lambda: session.release("ast"), _AIM),
        ("levels, checked", lambda: store.levels(Principal("owner"), RootName("ast")), None),
    ):
        yield Case(
            ours=Contender(name=f"{label}, {name}", call=call), theirs=bare, aim=aim, rate=True
        )
    yield Case(
        ours=Contender(name=f"open, resume, release, {name}", call=cold),
        theirs=Contender(name=f"connect and SELECT, {name}", call=select_once),
        rate=True,
    )
    store.close()
