"""What stores promise when things go wrong: races, crashes, lost servers, altered files, lost keys.

Writers run in processes of their own and are killed for real. A check that could not fail proves
nothing, so the race, the crash and the leak have controls in which it must.
"""

import base64
import importlib
import multiprocessing
import os
import random
import re
import signal
import sqlite3
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import keyring
import keyring.backend
import pytest

from rootguard.accounting import Ledger
from rootguard.errors import (
    RootGuardError,
    StoreDamagedError,
    StoreError,
    StoreKeyError,
    StoreUnavailableError,
)
from rootguard.events import RootNoised
from rootguard.identifiers import Identifiers, IssuedToken
from rootguard.store import (
    Disclosure,
    Record,
    Store,
    Tabled,
    default_url,
    migrations,
    open_store,
    rows,
)
from rootguard.store.database import Database, Transaction
from rootguard.store.envelope import Secrets
from rootguard.store.marks import SHELVES
from rootguard.store.migrations import MIGRATIONS, migrate
from rootguard.store.shelves import Shelves
from rootguard.store.sql import SqlStore, create
from rootguard.store.sqlite import SqliteDatabase
from rootguard.values import Domain, Principal, Raw, RootName, Sanitized
from tests.support.postgres import own_server

ANA, EVE = Principal("ana"), Principal("eve")
AGE, AST = RootName("age"), RootName("ast")
KEY, OTHER_KEY = b"k" * 32, b"o" * 32
SEED = 20261115

pytestmark = pytest.mark.usefixtures("own_data_directory")

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["tests.store.test_faults"])


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store that is not there yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/vault.db"
    return str(request.getfixturevalue("new_postgres")())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "vault.db"


def at(file: Path) -> str:
    return f"sqlite:///{file}"


def draw(
    root: str,
    index: int,
    *,
    version: int = 1,
    principal: str = ANA,
    micro: int = 5,
    fingerprint: bytes = b"f" * 32,
) -> Record:
    return Record(
        sanitized=Sanitized(
            root=RootName(root),
            index=index,
            domain=Domain(lower=0, upper=999),
            epsilon=Fraction(micro, 10**6),
            mechanism="geometric",
            version=version,
        ),
        fingerprint=fingerprint,
        event=RootNoised(
            principal=principal,
            root=root,
            version=version,
            micro_epsilon=micro,
            mechanism="geometric",
        ),
    )


def sql(url: str, key: bytes | None = KEY) -> SqlStore:
    store = open_store(url, key=key)
    assert isinstance(store, SqlStore)
    return store


def database_of(store: SqlStore) -> Database:
    return store._database


def fill(store: Store) -> None:
    store.commit(ANA, [draw("age", 3), draw("ast", 7)])
    store.commit(ANA, [draw("age", 5, version=2)])
    store.commit(EVE, [draw("age", 4, principal=EVE)])
    store.set_cap(ANA, "age", 500)
    store.disclose(ANA, [Disclosure(service="lab", tier="t", root="ast", version=1, position=0)])
    for name in ("Bob Ray", "Al Oz"):
        store.tokens(ANA).add(IssuedToken(kind="person", token=name, sealed=name.encode()))
    entry = (3 << 56 | 1).to_bytes(8, "little") + bytes(range(4))
    run = Tabled(
        table="all",
        root=AGE,
        version=1,
        micro_epsilon=7,
        mechanism="geometric",
        domain=Domain(lower=0.0, upper=999.0, size=1000),
        rows=1,
        drawn=1,
        most=1,
    )
    store.keep_table("all", lambda shelf, _: entry if shelf == 3 else None, lambda: [run])


def content(store: Store) -> list[object]:
    """All that can be read from a store."""
    return [
        store.principals(),
        *(
            (store.levels(who, root), store.version(who, root))
            for who in (ANA, EVE)
            for root in (AGE, AST)
        ),
        *((store.events(who), store.caps(who), store.disclosures(who)) for who in (ANA, EVE)),
        *(list(store.tokens(who)) for who in (ANA, EVE)),
        *((store.crossed(who), store.crossings(who)) for who in (ANA, EVE)),
        (store.tables(), [store.marks(place) for place in range(SHELVES)]),
        store.fingerprint_key,
        store.identifier_key,
    ]


# Races.


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
    start.wait(timeout=60)
    kept = [store.commit(ANA, [draw(f"r{n}", writer, micro=1 + writer)])[0] for n in range(roots)]
    report.send([record.sanitized.index for record in kept])
    report.close()
    store.close()


def run_race(url: str, *, writers: int, roots: int, blind: bool = False) -> None:
    start = processes.Barrier(writers)
    pipes = [processes.Pipe(duplex=False) for _ in range(writers)]
    running = [
        processes.Process(target=race, args=(url, blind, roots, writer, start, pipes[writer][1]))
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
        process.join(timeout=60)
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


def test_of_eight_racing_processes_each_root_is_drawn_once(url: str) -> None:
    sql(url).close()
    run_race(url, writers=8, roots=200)


def test_the_unique_key_alone_wins_the_race(url: str) -> None:
    sql(url).close()
    run_race(url, writers=4, roots=20, blind=True)


def test_without_the_unique_key_the_race_is_lost(url: str) -> None:
    store = sql(url)
    with database_of(store).exclusive() as db:
        db.execute("ALTER TABLE draws RENAME TO keyed")
        db.execute("CREATE TABLE draws AS SELECT * FROM keyed")
    store.close()
    with pytest.raises(AssertionError, match="told different values"):
        run_race(url, writers=4, roots=20, blind=True)


def come_first(
    url: str, start: Barrier, report: "Connection[Any, Any]"
) -> None:  # pragma: no cover
    start.wait(timeout=60)
    with closing(open_store(url)) as store:
        report.send((store.fingerprint_key, store.verify()))
    report.close()


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
        process.join(timeout=60)
    assert len(told) == 1
    with closing(open_store(url)) as store:
        assert told == {(store.fingerprint_key, ())}


def come_with_environment(
    environment: dict[str, str], url: str, start: Barrier, report: "Connection[Any, Any]"
) -> None:  # pragma: no cover
    os.environ.update(environment)  # the fork server was started with another test's
    come_first(url, start, report)


# Crashes.


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
    writer.join(timeout=60)
    check_released(url, released.read_text().splitlines()[-60:])
    return writer.exitcode == -signal.SIGKILL


def check_released(url: str, lines: list[str]) -> None:
    """What was released is kept, what is kept was charged once, and nothing else is wrong."""
    shown = dict(line.split() for line in lines)
    with closing(open_store(url)) as store:
        assert store.verify() == ()
        for root, index in shown.items():
            levels = store.levels(ANA, RootName(root))
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


@pytest.mark.parametrize("kills", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_a_writer_killed_anywhere_loses_nothing_it_released(
    url: str, tmp_path: Path, kills: int
) -> None:
    kill_writers(url, tmp_path / "released", kills)


def test_a_writer_killed_while_it_makes_the_store_leaves_nothing_in_the_way(
    tmp_path: Path,
) -> None:
    for statement in range(1, 45):
        url = f"sqlite:///{tmp_path}/{statement}/vault.db"
        released = tmp_path / f"released {statement}"
        assert kill_a_writer(url, released, statement=statement, after=statement % 2 == 0)


def test_a_writer_killed_while_it_makes_a_servers_store_leaves_nothing_in_the_way(
    new_postgres: Callable[[], str], tmp_path: Path
) -> None:
    for statement in range(1, 40, 4):
        released = tmp_path / f"released {statement}"
        assert kill_a_writer(new_postgres(), released, statement=statement, after=True)


def test_a_writer_that_releases_before_it_commits_is_caught(url: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        kill_writers(url, tmp_path / "released", 30, hasty=True)


def rotate_until_killed(
    environment: dict[str, str], url: str, statement: int, after: bool
) -> None:  # pragma: no cover - runs in a process of its own
    os.environ.update(environment)
    store = sql(url, None)
    die_at(url, statement, after=after)
    store.rotate_key(os.urandom(32))


def test_a_change_of_key_killed_anywhere_leaves_a_store_that_opens(url: str) -> None:
    with closing(sql(url, None)) as store:
        fill(store)
        before = content(store)
    for statement in range(1, 18):
        for after in (False, True):
            process = processes.Process(
                target=rotate_until_killed, args=(dict(os.environ), url, statement, after)
            )
            process.start()
            process.join(timeout=60)
            with closing(sql(url, None)) as store:
                assert content(store) == before
                assert store.verify() == ()


def test_a_server_that_goes_away_and_comes_back_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rootguard.store import postgres

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
        assert half_way.wait(timeout=60)
        server.stop()
        assert refused.wait(timeout=60)
        server.start()
        writer.join(timeout=60)
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
    monkeypatch.setattr("rootguard.store.sqlite.BUSY_SECONDS", 0.01)
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


# Leaks.

SECRET = 8675309.4242
FORMS = (
    str(SECRET).encode(),
    b"8675309",
    SECRET.hex().encode(),
    struct.pack("<d", SECRET),
    struct.pack(">d", SECRET),
)


def found_in(directory: Path, *needles: bytes) -> set[bytes]:
    """Which of the byte strings occur in any file of a directory."""
    files = [file.read_bytes() for file in directory.rglob("*") if file.is_file()]
    return {needle for needle in needles if any(needle in held for held in files)}


def keep_private_things(store: Store) -> tuple[bytes, ...]:
    """Fingerprint a private value, protect an identifier; the texts that may be nowhere."""
    mark = Raw(SECRET).fingerprint(store.fingerprint_key, "age")
    store.commit(ANA, [draw("age", 3, fingerprint=mark)])
    identifiers = Identifiers(store.identifier_key, store.tokens(ANA))
    token = identifiers.protect("person", "Zebulon Quixote")
    assert Identifiers(store.identifier_key, store.tokens(ANA)).restore("person", token)
    words = (b"Zebulon", b"Quixote", *token.encode().split())
    keys = (KEY, store.fingerprint_key, store.identifier_key)
    return (*FORMS, *words, *keys, *(key.hex().encode() for key in keys))


def test_no_byte_of_file_log_or_export_holds_anything_private(file: Path, tmp_path: Path) -> None:
    store = sql(at(file))
    private = keep_private_things(store)
    assert file.with_name("vault.db-wal").stat().st_size > 0
    assert found_in(tmp_path, *private, b"geometric") == {b"geometric"}  # it does look inside
    store.close()
    with closing(sqlite3.connect(file)) as raw:
        (tmp_path / "export.sql").write_text("\n".join(raw.iterdump()))
    assert found_in(tmp_path, *private, b"geometric") == {b"geometric"}
    (tmp_path / "leak").write_bytes(b"..." + FORMS[3] + b"...")
    assert found_in(tmp_path, *private) == {FORMS[3]}


def test_no_byte_of_a_server_holds_anything_private() -> None:
    with own_server() as server:
        with closing(sql(server.url("postgres"))) as store:
            private = keep_private_things(store)
        assert found_in(server.directory, *private, b"geometric") == {b"geometric"}
        server.stop()
        server.start()
        assert found_in(server.directory, *private, b"geometric") == {b"geometric"}


def test_erased_values_are_gone_from_the_file(file: Path, tmp_path: Path) -> None:
    with closing(sql(at(file))) as store:
        store.commit(ANA, [draw("age", 3, fingerprint=b"the fingerprint of an erased value")])
        assert found_in(tmp_path, b"the fingerprint of an erased value")
        store.erase(ANA)
        assert not found_in(tmp_path, b"the fingerprint of an erased value")


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/new/vault.db")) as store:
        fill(store)
        assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
        modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "new").iterdir()}
    assert set(modes) == {"vault.db", "vault.db-wal", "vault.db-shm", "vault.db.key"}
    assert set(modes.values()) == {0o600}


# Damage.


@pytest.mark.parametrize("flips", [150, pytest.param(1500, marks=pytest.mark.slow)])
def test_a_flipped_bit_is_noticed_or_changes_nothing(file: Path, flips: int) -> None:
    with closing(sql(at(file))) as store:
        fill(store)
        before = content(store)
    intact = file.read_bytes()
    rng = random.Random(SEED)
    refused = 0
    used = [offset for offset in range(len(intact)) if intact[offset]]  # where something is
    for _ in range(flips):
        altered = bytearray(intact)
        altered[rng.choice(used)] ^= 1 << rng.randrange(8)
        refused += not reads_as(file, bytes(altered), before)
    assert refused > flips // 10


@pytest.mark.parametrize("part", [0, 1, 15, 16, 99, 100, 101, 4095, 4096, 8192, 0.3, 0.7, -1])
def test_a_truncated_file_is_refused(file: Path, part: float) -> None:
    with closing(sql(at(file))) as store:
        fill(store)
        before = content(store)
    intact = file.read_bytes()
    length = int(part * len(intact)) if 0 < part < 1 else int(part) % len(intact)
    assert not reads_as(file, intact[:length], before)


def reads_as(file: Path, held: bytes, before: list[object]) -> bool:
    """Whether a file gives its whole content; if not it must say so, and stay as it is."""
    for suffix in ("-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
    file.write_bytes(held)
    try:
        with closing(sql(at(file))) as store:
            found = store.verify()  # says what is wrong, and does not raise it
            try:
                assert content(store) == before
            except StoreDamagedError:
                assert found
                raise
    except (StoreDamagedError, StoreKeyError):
        return False
    return True


@pytest.mark.parametrize("held", [b"", b"hello, this is a text file\n" * 200, b"\x00" * 8192])
def test_a_file_that_is_no_store_is_refused_and_left_alone(file: Path, held: bytes) -> None:
    file.write_bytes(held)
    with pytest.raises(StoreDamagedError):
        open_store(at(file), key=KEY)
    assert file.read_bytes() == held


def test_another_programs_database_is_refused_and_left_alone(file: Path) -> None:
    with closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE draws (a)")
    held = file.read_bytes()
    with pytest.raises(StoreDamagedError, match="not a RootGuard store"):
        open_store(at(file), key=KEY)
    assert file.read_bytes() == held


@pytest.mark.parametrize("remains", [".key", "-wal"])
def test_a_store_whose_file_is_gone_is_not_begun_anew(file: Path, remains: str) -> None:
    with closing(open_store(at(file))) as store:
        fill(store)
    file.with_name(file.name + remains).touch()
    file.unlink()
    if remains == "-wal":
        file.with_name(file.name + ".key").unlink()
    with pytest.raises(StoreDamagedError, match="restore the file from a backup"):
        open_store(at(file))
    assert not file.exists()


def test_a_server_whose_tables_are_gone_is_not_begun_anew(
    new_postgres: Callable[[], str],
) -> None:
    url = new_postgres()
    store = sql(url, None)
    fill(store)
    with database_of(store).exclusive() as db:
        for table in sorted(db.tables()):
            db.execute(f"DROP TABLE {table}")
    store.close()
    with pytest.raises(StoreDamagedError, match="restore the database from a backup"):
        open_store(url)


TAMPERED = {
    "a value": "UPDATE draws SET grid_index = 9 WHERE principal = 'ana'",
    "a fingerprint": "UPDATE draws SET fingerprint = mac WHERE principal = 'ana'",
    "a price": "UPDATE draws SET micro_epsilon = 1 WHERE principal = 'ana'",
    "a draw's root": "UPDATE draws SET root = 'agf' WHERE root = 'age' AND version = 2",
    "a draw's owner": "UPDATE draws SET principal = 'bob' WHERE version = 2",
    "a deleted draw": "DELETE FROM draws WHERE version = 2",
    "an event": "UPDATE events SET event = REPLACE(event, ':5', ':1')",
    "the first event": "DELETE FROM events WHERE principal = 'ana' AND sequence = 1",
    "the last event": "DELETE FROM events WHERE principal = 'ana' AND sequence = 3",
    "the order of events": "UPDATE events SET sequence = 5 - sequence + 1 WHERE principal = 'ana'",
    "a cap": "UPDATE caps SET micro_epsilon = 10000",
    "a lifted cap": "DELETE FROM caps",
    "a disclosure": "UPDATE disclosures SET service = 'nobody'",
    "a deleted disclosure": "DELETE FROM disclosures",
    "a token": "UPDATE tokens SET entry = token_key WHERE sequence = 1",
    "a deleted token": "DELETE FROM tokens WHERE sequence = 2",
    "a crossing": "UPDATE crossings SET service = 'nobody'",
    "the first crossing": "DELETE FROM crossings WHERE principal = 'ana' AND sequence = 1",
    "the last crossing": "DELETE FROM crossings WHERE principal = 'ana' AND sequence = 3",
    "a count": "UPDATE heads SET length = length - 1 WHERE principal = 'ana'",
    "deleted counts": "DELETE FROM heads WHERE principal = 'ana'",
    "the count of all": "DELETE FROM heads WHERE principal = ''",
    "a lost table": "DROP TABLE disclosures",
}


@pytest.mark.parametrize("statement", TAMPERED.values(), ids=TAMPERED)
def test_an_altered_or_deleted_row_is_refused_and_reported(url: str, statement: str) -> None:
    with closing(sql(url)) as store:
        fill(store)
        before = content(store)
        assert store.verify() == ()
        assert content(store) == before
        with database_of(store).exclusive() as db:
            db.execute(statement)
        with pytest.raises(StoreDamagedError):
            content(store)
        assert store.verify()


def test_a_missing_draw_is_not_drawn_again(url: str) -> None:
    with closing(sql(url)) as store:
        fill(store)
        with database_of(store).exclusive() as db:
            db.execute("UPDATE draws SET root = 'agf' WHERE root = 'age' AND version = 2")
        with pytest.raises(StoreDamagedError, match="ledger and the draws do not match"):
            store.commit(ANA, [draw("age", 900, version=2)])


def test_rows_of_nobody_are_reported(url: str) -> None:
    with closing(sql(url)) as store:
        fill(store)
        ghost = rows.draw_row(store._secrets.integrity, "ghost", draw("age", 1))
        with database_of(store).exclusive() as db:
            marks = ", ".join("?" * len(ghost))
            db.execute(f"INSERT INTO draws ({rows.DRAW}) VALUES ({marks})", *ghost)
        told = store.verify()
        assert any("belong to nobody" in sentence for sentence in told)
        assert any("a draw without an event" in sentence for sentence in told)


@pytest.mark.parametrize(
    "record",
    [
        draw("a\x00b", 1),
        draw("a\ud800b", 1),
        draw("age", 2**63),
        Record(
            sanitized=Sanitized(
                root=AGE,
                index=1,
                domain=Domain(lower=0, upper=1),
                epsilon=Fraction(1, 3),
                mechanism="geometric",
            ),
            fingerprint=b"",
            event=draw("age", 1).event,
        ),
    ],
    ids=["nul", "surrogate", "too large", "third of an epsilon"],
)
def test_what_cannot_be_kept_exactly_is_refused(url: str, record: Record) -> None:
    with closing(sql(url)) as store:
        with pytest.raises(StoreError):
            store.commit(ANA, [record])
        assert store.principals() == ()


# Keys.


def test_the_wrong_key_does_not_open_a_store(url: str) -> None:
    sql(url).close()
    with pytest.raises(StoreKeyError, match="the key does not open this store"):
        open_store(url, key=OTHER_KEY)
    with pytest.raises(StoreKeyError, match="there is no key"):
        open_store(url)
    with pytest.raises(StoreKeyError, match="32 bytes"):
        open_store(url, key=b"short")


def test_a_change_of_key_keeps_everything_and_shuts_the_old_key_out(url: str) -> None:
    store, other = sql(url), sql(url)
    fill(store)
    before = content(store)
    with database_of(store).reading() as db:
        old_rows = set(db.execute("SELECT token_key FROM tokens"))
    store.rotate_key(OTHER_KEY)
    assert content(store) == before
    assert store.verify() == ()
    with database_of(store).reading() as db:
        assert not old_rows & set(db.execute("SELECT token_key FROM tokens"))
    with pytest.raises(StoreKeyError, match="open the store again"):
        other.tokens(ANA).add(IssuedToken(kind="person", token="New", sealed=b""))
    with pytest.raises(StoreKeyError, match="open the store again"):
        other.rotate_key(KEY)
    store.close()
    other.close()
    with pytest.raises(StoreKeyError):
        open_store(url, key=KEY)
    with closing(sql(url, OTHER_KEY)) as store:
        assert content(store) == before


@pytest.mark.parametrize(
    "text",
    [KEY.hex(), base64.b64encode(KEY).decode(), base64.urlsafe_b64encode(b"\xff" * 32).decode()],
)
def test_the_key_may_come_from_the_environment(
    file: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOTGUARD_KEY", text)
    with closing(open_store(at(file))) as store:
        fill(store)
        before = content(store)
    assert not file.with_name("vault.db.key").exists()
    with closing(open_store(at(file))) as store:
        assert content(store) == before
    monkeypatch.setenv("ROOTGUARD_KEY", OTHER_KEY.hex())
    with pytest.raises(StoreKeyError, match="does not open"):
        open_store(at(file))
    with pytest.raises(StoreKeyError):  # an argument goes before the environment
        open_store(at(file), key=b"a" * 32)


@pytest.mark.parametrize("text", ["", "abc", "zz" * 32, KEY.hex() + "00"])
def test_a_malformed_key_is_refused_without_being_shown(
    file: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOTGUARD_KEY", text)
    with pytest.raises(StoreKeyError, match="ROOTGUARD_KEY is not 32 bytes") as caught:
        open_store(at(file))
    assert text == "" or text not in str(caught.value)
    assert not file.exists()


def test_a_key_file_that_others_can_read_is_refused(file: Path) -> None:
    open_store(at(file)).close()
    key_file = file.with_name("vault.db.key")
    key_file.chmod(0o640)
    with pytest.raises(StoreKeyError, match=re.escape(f"chmod 600 {key_file}")):
        open_store(at(file))
    key_file.chmod(0o600)
    open_store(at(file)).close()
    key_file.unlink()
    with pytest.raises(StoreKeyError, match=re.escape(str(key_file))):
        open_store(at(file))


def test_a_servers_key_file_is_in_the_users_data_directory(
    new_postgres: Callable[[], str], tmp_path: Path
) -> None:
    open_store(url := new_postgres()).close()
    [key_file] = (tmp_path / "data" / "rootguard" / "keys").iterdir()
    assert key_file.stat().st_mode & 0o777 == 0o600
    open_store(url).close()


class MemoryKeyring(keyring.backend.KeyringBackend):
    """A keyring in a dictionary."""

    priority = 1.0

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.held.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.held[service, username] = password


@pytest.fixture
def ring() -> Iterator[MemoryKeyring]:
    before, ring = keyring.get_keyring(), MemoryKeyring()
    keyring.set_keyring(ring)
    yield ring
    keyring.set_keyring(before)


def test_a_new_key_goes_to_the_keyring_where_there_is_one(
    url: str, ring: MemoryKeyring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sql(url, None)) as store:
        fill(store)
        before = content(store)
        assert len(ring.held) == 1
        store.rotate_key(OTHER_KEY)
    assert list(ring.held.values()) == [OTHER_KEY.hex()]
    assert not list(tmp_path.rglob("*.key*"))
    with closing(open_store(url)) as store:
        assert content(store) == before
    monkeypatch.setenv("ROOTGUARD_KEY", KEY.hex())  # goes before the keyring
    with pytest.raises(StoreKeyError, match="does not open"):
        open_store(url)


def test_a_keyring_that_holds_the_key_of_a_lost_file_stops_a_fresh_start(
    file: Path, ring: MemoryKeyring
) -> None:
    open_store(at(file)).close()
    file.unlink()
    with pytest.raises(StoreDamagedError, match="keyring"):
        open_store(at(file))


def test_a_keyring_that_fails_is_passed_over(
    file: Path, ring: MemoryKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: str) -> None:
        raise RuntimeError("locked")

    monkeypatch.setattr(ring, "set_password", fail)
    open_store(at(file)).close()
    assert file.with_name("vault.db.key").exists()
    open_store(at(file)).close()


# Migrations.


def first_schema(db: Transaction) -> None:
    """A store as the first version left it, with a draw in it."""
    create(db, KEY, MIGRATIONS[:1])
    integrity = Secrets.read(db, KEY).integrity
    row = rows.draw_row(integrity, ANA, draw("age", 3))
    db.execute(f"INSERT INTO draws ({rows.DRAW}) VALUES ({', '.join('?' * len(row))})", *row)
    event = rows.event_row(integrity, ANA, 1, draw("age", 3).event)
    db.execute(f"INSERT INTO events ({rows.EVENT}) VALUES (?, ?, ?, ?)", *event)
    Shelves(db, integrity).add(ANA, "draws", 1)
    Shelves(db, integrity).add(ANA, "events", 1)


def blank(url: str) -> Database:
    """A database without any table of ours."""
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite:///"))
        path.touch()
        return SqliteDatabase(path, new=True)
    from rootguard.store.postgres import PostgresDatabase

    return PostgresDatabase(url)


def applied(db: Transaction) -> list[str]:
    return sorted(row[0] for row in db.execute("SELECT name FROM migrations"))


NAMES = [step.__name__ for step in MIGRATIONS]


def test_migrations_are_numbered_in_order() -> None:
    assert [name[:4] for name in NAMES] == [f"m{n:03}" for n in range(1, len(NAMES) + 1)]


def test_a_blank_database_gets_every_migration_once(url: str) -> None:
    with closing(blank(url)) as database:
        for _ in range(2):
            with database.exclusive() as db:
                migrate(db)
                assert applied(db) == NAMES
                shelves = {"draws", "events", "tokens", "disclosures", "crossings"}
                assert shelves <= db.tables()


def test_a_store_of_the_first_schema_is_brought_up_to_date(url: str) -> None:
    with closing(blank(url)) as database, database.exclusive() as db:
        first_schema(db)
        assert applied(db) == NAMES[:1]
        assert "tokens" not in db.tables()
    with pytest.raises(StoreKeyError):  # the wrong key changes nothing
        open_store(url, key=OTHER_KEY)
    with closing(sql(url)) as store:
        with database_of(store).reading() as db:
            assert applied(db) == NAMES
        assert store.levels(ANA, AGE) == (draw("age", 3),)
        fill(store)
        assert store.verify() == ()


def test_a_store_of_a_newer_rootguard_is_refused(url: str) -> None:
    with closing(sql(url)) as store, database_of(store).exclusive() as db:
        db.execute("INSERT INTO migrations (name) VALUES (?)", "m999_from_the_future")
    with pytest.raises(StoreError, match="upgrade rootguard"):
        open_store(url, key=KEY)


@pytest.mark.parametrize(
    "statement", ["DELETE FROM migrations", "UPDATE migrations SET name = 'x' WHERE name < 'm002'"]
)
def test_an_altered_list_of_migrations_is_damage(url: str, statement: str) -> None:
    with closing(sql(url)) as store, database_of(store).exclusive() as db:
        db.execute(statement)
    with pytest.raises(StoreDamagedError):
        open_store(url, key=KEY)


def test_a_migration_that_fails_leaves_the_store_as_it_was(url: str) -> None:
    def m003_fails(db: Transaction) -> None:
        db.execute("CREATE TABLE half (a TEXT)")
        raise RootGuardError("no")

    with closing(sql(url)) as store:
        with pytest.raises(RootGuardError), database_of(store).exclusive() as db:
            migrate(db, (*migrations.MIGRATIONS, m003_fails))
        with database_of(store).reading() as db:
            assert "half" not in db.tables()
            assert applied(db) == NAMES


# Opening.


def test_urls_name_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_store("sqlite:///here.db", key=KEY).close()
    open_store(f"sqlite:///{tmp_path}/there.db", key=KEY).close()
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


def test_a_missing_driver_is_named_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "rootguard.store.postgres", raising=False)
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


def test_a_threads_connection_ends_with_it(file: Path) -> None:
    with closing(sql(at(file))) as store:
        for _ in range(20):
            reader = threading.Thread(target=store.events, args=(ANA,))
            reader.start()
            reader.join()
        database = database_of(store)
        assert isinstance(database, SqliteDatabase)
        assert len(database._open) <= 2
