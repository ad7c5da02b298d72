"""Releases from a vault, against a bare SELECT of the same row by the same driver.

Warm: a session is open, as it is for all but the first question of a conversation. Cold: the store
is opened, the session resumed and one value released, against connecting and selecting once.

What a session costs must not grow: resumed with thousands of events in the ledger against a
handful, with many roots against two, in a store of many people against one of few. By processor
time, SQLite.
"""

import itertools
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.answers import PATIENT
from benchmarks.measure import Case, Contender, Skipped
from rootguard import Guard, Store, load_template, open_store
from rootguard.store import rows
from rootguard.store.base import Statement
from rootguard.store.sql import SqlStore
from rootguard.template import Template, parse_template
from rootguard.values import Principal, RootName

_SELECT = "SELECT content FROM draws WHERE principal = {0} AND place = {0}"
_ANY = "SELECT principal, place FROM draws"
_MASTER = bytes(32)
# A release asks for the person's epoch before anything is shown: it holds a SELECT by primary key
# itself, and computes, checks and notes besides, so it cannot come near a bare one. On a server its
# statement is not prepared, as the bare one is: a pooler's next connection would not know it.
_AIMS = {"SQLite": 0.3, "PostgreSQL": 0.2}
_MANY_EVENTS = 10_000
_MANY_ROOTS = 50
_FEW_PEOPLE, _MANY_PEOPLE = 10, 100_000
_AT_ONCE = 1_000  # people in one transaction


def vault() -> Iterator[Case | Skipped]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = f"sqlite:///{folder / 'vault.sqlite3'}"
        open_store(url, key=_MASTER, create=True).close()
        _fill(url)
        connection = sqlite3.connect(folder / "vault.sqlite3")
        row = connection.execute(_ANY).fetchone()
        yield from _cases(
            "SQLite",
            url,
            lambda: connection.execute(_SELECT.format("?"), row).fetchone(),
            lambda: _sqlite_once(folder / "vault.sqlite3", row),
        )
        connection.close()
        yield from _postgres(stack)
        yield from _growth(folder)


def _fill(url: str) -> None:
    with closing(open_store(url, key=_MASTER, create=True)) as store:
        Guard.open(load_template("fib4"), values=PATIENT, budget="0.9", store=store)


def _sqlite_once(file: Path, row: tuple[object, ...]) -> object:
    connection = sqlite3.connect(file)
    found = connection.execute(_SELECT.format("?"), row).fetchone()
    connection.close()
    return found


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
            return fresh.execute(_SELECT.format("%s").encode(), row).fetchone()

    url = server.url("postgres")
    _fill(url)
    connection = stack.enter_context(psycopg.connect(url, autocommit=True))
    row = connection.execute(_ANY.encode()).fetchone()
    yield from _cases(
        "PostgreSQL",
        url,
        lambda: connection.execute(_SELECT.format("%s").encode(), row).fetchone(),
        once,
    )


def _cases(
    name: str, url: str, select: Callable[[], object], select_once: Callable[[], object]
) -> Iterator[Case]:
    template = load_template("fib4")
    store = open_store(url, key=_MASTER, create=True)
    session = Guard.open(template, values=PATIENT, budget="0.9", store=store)

    def cold() -> object:
        opened: Store = open_store(url, key=_MASTER)
        value = Guard.resume(template, store=opened).release("ast")
        opened.close()
        return value

    bare = Contender(name=f"bare SELECT, {name}", call=select)
    for label, call, aim in (
        ("release, warm", lambda: session.release("ast"), _AIMS[name]),
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


def _masses(roots: int) -> Template:
    """A template with so many roots."""
    listed = "\n".join(
        f'[roots.m{number}]\nunit = "kg"\nlower = 0\nupper = 999' for number in range(roots)
    )
    total = " + ".join(f"m{number}" for number in range(roots))
    return parse_template(
        f'name = "masses{roots}"\ntitle = "Masses"\nfield = "test"\ndescription = "A sum."\n'
        f'{listed}\n[target]\nname = "total"\nunit = "kg"\nformula = "{total}"\n',
        file="masses.toml",
    )


def _growth(folder: Path) -> Iterator[Case]:
    """One session against another, where only what should not matter differs."""
    store = open_store(f"sqlite:///{folder / 'growth.sqlite3'}", key=_MASTER, create=True)
    fib4, few, many = load_template("fib4"), _masses(2), _masses(_MANY_ROOTS)
    changed = PATIENT | {"ast": PATIENT["ast"] + 9}
    assert isinstance(store, SqlStore)
    connection = store._database._database._connection()  # type: ignore[attr-defined]
    connection.execute("PRAGMA synchronous = OFF")  # the disk is not what is measured
    for place in range(_MANY_EVENTS):  # from one value to the other and back: an event each time
        values = changed if place % 2 else PATIENT
        Guard.open(fib4, values=values, budget="0.9", store=store, principal="long")
    for template in (few, many):
        values = dict.fromkeys(template.roots, 70.0)
        Guard.open(template, values=values, budget="2", store=store, principal=template.name)
    Guard.open(fib4, values=PATIENT, budget="0.9", store=store, principal="short")

    def resume(principal: str, template: Template = fib4) -> Contender:
        events = len(store.events(Principal(principal)))
        return Contender(
            name=f"resume, {events} events, {len(template.roots)} roots",
            call=lambda: Guard.resume(template, store=store, principal=principal),
        )

    yield Case(ours=resume("long"), theirs=resume("short"), aim=1 / 2)
    yield Case(ours=resume(many.name, many), theirs=resume(few.name, few), aim=1 / 15)

    def reopen(principal: str) -> Contender:
        events = len(store.events(Principal(principal)))
        return Contender(
            name=f"open again, {events} events",
            call=lambda: Guard.open(
                fib4, values=PATIENT, budget="0.9", store=store, principal=principal
            ),
        )

    yield Case(ours=reopen("long"), theirs=reopen("short"), aim=1 / 2)
    store.close()
    yield from _crowds(folder)


def _crowds(folder: Path) -> Iterator[Case]:
    """The same work in a store of few people and in one of many."""
    crowds = []
    for people in (_FEW_PEOPLE, _MANY_PEOPLE):
        store = open_store(f"sqlite:///{folder / f'{people}.sqlite3'}", key=_MASTER, create=True)
        assert isinstance(store, SqlStore)
        _crowd(store, people)
        crowds.append(_among(store, people))
    for few, many in zip(*crowds, strict=True):
        yield Case(ours=many, theirs=few, aim=1 / 2)


def _among(store: Store, people: int) -> list[Contender]:
    fib4, numbers = load_template("fib4"), itertools.count()
    session = Guard.resume(fib4, store=store, principal="first")

    def arrive() -> None:
        who = f"newcomer {next(numbers)}"
        Guard.open(fib4, values=PATIENT, budget="0.9", store=store, principal=who)
        Guard.refine(fib4, values=PATIENT, budget="1.5", store=store, principal=who)

    work: dict[str, Callable[[], object]] = {
        "release": lambda: session.release("ast"),
        "resume": lambda: Guard.resume(fib4, store=store, principal="first"),
        "open and refine": arrive,
    }
    return [
        Contender(name=f"{name} among {people:,} people", call=call) for name, call in work.items()
    ]


def _crowd(store: SqlStore, people: int) -> None:
    """Fill a store with people, as a session would one by one, but many in a transaction."""
    Guard.open(load_template("fib4"), values=PATIENT, budget="0.9", store=store, principal="first")
    draws = store.records(Principal("first"))
    for begin in range(1, people, _AT_ONCE):
        end = min(begin + _AT_ONCE, people)
        with store._database.exclusive() as db:
            statements: list[Statement] = []
            for number in range(begin, end):
                name = f"person {number}"
                person = rows.PersonRow.new(store._key(name), name)
                own = [replace(each, event=replace(each.event, principal=name)) for each in draws]
                person.summary.take(own, {})
                statements += rows.add_draws(person, own)
                statements += rows.add_events(person, [each.event for each in own])
                statements.append(rows.put_person(store._secrets, person))
            integrity = store._secrets.integrity
            statements.append(rows.put_count(integrity, rows.NOBODY, "people", end))
            db.batch(statements)
