"""What operators of PostgreSQL expect: durable, never hanging, pooled, few round trips."""

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path

import pytest

from rootguard import Guard, load_template
from rootguard.errors import StoreError, StoreMissingError, StoreUnavailableError
from rootguard.session import parse_policy
from rootguard.store import Store
from rootguard.store.base import Transaction
from rootguard.store.tables import PARTITIONS
from rootguard.values import Principal
from rootguard.vault import backup_store, open_store
from tests.support.patience import PATIENCE
from tests.support.postgres import PostgresServer, own_server
from tests.support.store_contents import ANA, EVE, KEY, OTHER_KEY, draw, fill, sql

psycopg = pytest.importorskip("psycopg")

from rootguard.store.dialects import postgres  # noqa: E402 - needs the driver
from rootguard.store.dialects.postgres import PostgresDatabase  # noqa: E402
from tests.support.relay import CountingRelay, counting, pgbouncer, pooled  # noqa: E402

FIB4 = load_template("fib4")
VALUES = {"age": 58, "ast": 61, "alt": 44, "plt": 220}
POLICY = parse_policy(
    '[tiers.clinic]\nbudget = "0.5"\n[services.app]\ntier = "clinic"\nroots = "*"\nformulas = "*"',
    file="policy.toml",
)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """One that may be hurt: its processes are ours to stop."""
    with own_server() as running:
        yield running


@pytest.fixture
def url(new_postgres: Callable[[], str]) -> str:
    return new_postgres()


def run(url: str, *statements: str) -> list[tuple[object, ...]]:
    """Somebody else's statements; the rows of the last."""
    with psycopg.connect(url, autocommit=True) as connection:
        done = [connection.execute(statement.encode()) for statement in statements][-1]
        return done.fetchall() if done.description else []


def setting(database: PostgresDatabase, name: str, how: str) -> str:
    with getattr(database, how)(*(() if how in {"reading", "exclusive"} else ("ana",))) as db:
        return str(db.execute(f"SELECT current_setting('{name}')")[0][0])


# Durability


@pytest.mark.parametrize(
    ("asked", "got"),
    [
        ("off", "on"),
        ("local", "on"),
        ("on", "on"),
        ("remote_write", "remote_write"),
        ("remote_apply", "remote_apply"),
    ],
)
def test_a_draw_waits_for_the_disk_whatever_the_default_and_for_standbys_if_asked(
    url: str, asked: str, got: str
) -> None:
    run(url, f"ALTER DATABASE {url_database(url)} SET synchronous_commit = {asked}")
    with closing(PostgresDatabase(url)) as database:
        assert setting(database, "synchronous_commit", "writing") == got
        assert setting(database, "synchronous_commit", "exclusive") == got
        assert setting(database, "synchronous_commit", "noting") == "off"


def url_database(url: str) -> str:
    return str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])


def test_nobody_released_is_lost_in_a_crash_though_the_server_commits_lazily() -> None:
    lazy = ("synchronous_commit=off", "wal_writer_delay=10s")
    with own_server(*lazy) as server:
        url = server.url("postgres")
        store = sql(url)
        run(url, "CREATE TABLE control (number BIGINT)")
        # Nobody but a commit that waits brings the log to the disk from here on.
        [(writer,)] = run(url, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'")
        assert isinstance(writer, int)
        os.kill(writer, signal.SIGSTOP)
        released = {}
        for number in range(20):
            who = f"person {number}"
            session = Guard.open(FIB4, values=VALUES, budget="0.9", store=store, principal=who)
            released[who] = [session.release(root) for root in VALUES]
        store._journal.flush()
        run(url, "INSERT INTO control VALUES (1)")
        server.stop()
        server.start(*lazy)
        store.close()
        with closing(sql(url)) as store:
            for who, before in released.items():
                session = Guard.resume(FIB4, store=store, principal=who)
                assert [session.release(root) for root in VALUES] == before
            assert store.verify() == ()
        assert run(url, "SELECT * FROM control") == []  # the control: the crash does lose commits


def test_an_opening_that_is_refused_leaves_no_connection(url: str) -> None:
    sql(url).close()
    with pytest.raises(StoreError) as refused:
        open_store(url, key=OTHER_KEY)
    others = (
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    # By one connection, for each that asks is seen by the next for a while.
    with psycopg.connect(url, autocommit=True) as watcher:
        end = time.monotonic() + PATIENCE
        while there := watcher.execute(others.encode()).fetchall():
            assert time.monotonic() < end, there
            time.sleep(0.05)
    del refused  # whoever keeps the error keeps no connection by it


def test_a_text_that_cannot_be_sent_is_refused_without_a_trace_of_it(url: str) -> None:
    with (
        closing(PostgresDatabase(url)) as database,
        pytest.raises(StoreError, match="cannot be stored") as refused,
    ):
        database.look("SELECT CAST(? AS TEXT)", "a\ud800b")
    assert refused.value.__context__ is None


# Waiting


def test_a_stalled_writer_of_one_person_leaves_everybody_else_served(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "WAIT_SECONDS", PATIENCE)
    came = threading.Semaphore(0)

    def write(database: PostgresDatabase) -> int:
        came.release()
        with database.writing("ana") as db:
            return int(str(db.execute("SELECT 1")[0][0]))

    with (
        closing(PostgresDatabase(url)) as one,
        closing(PostgresDatabase(url)) as other,
        ThreadPoolExecutor(30) as threads,
    ):
        with other.writing("ana") as db:
            db.execute("SELECT 1")
            waiting = [threads.submit(write, one) for _ in range(30)]
            for _ in waiting:
                came.acquire()
            until_locked_out(url, 1)
            for _ in range(3):
                with one.writing("eve") as db:
                    assert db.execute("SELECT 1") == [(1,)]
                with one.reading() as db:
                    assert db.execute("SELECT 1") == [(1,)]
            assert not any(each.done() for each in waiting)
        assert [each.result(PATIENCE) for each in waiting] == [1] * 30


def until_locked_out(url: str, number: int) -> None:
    """Wait until so many wait for a lock at the server."""
    end = time.monotonic() + PATIENCE
    while (
        run(url, f"SELECT 1 FROM pg_locks WHERE NOT granted AND {OURS} OFFSET {number - 1}") == []
    ):
        assert time.monotonic() < end, "nobody waits"


OURS = "database = (SELECT oid FROM pg_database WHERE datname = current_database())"


def test_readers_are_served_while_writers_wait_for_a_change_of_the_whole_store(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "WAIT_SECONDS", PATIENCE)

    def write(database: PostgresDatabase, number: int) -> None:
        with database.writing(f"person {number}") as db:
            db.execute("SELECT 1")

    with (
        closing(PostgresDatabase(url)) as one,
        closing(PostgresDatabase(url)) as other,
        ThreadPoolExecutor(12) as threads,
    ):
        with other.exclusive() as db:
            db.execute("SELECT 1")
            waiting = [threads.submit(write, one, number) for number in range(12)]
            until_locked_out(url, postgres._CONNECTIONS - postgres._RESERVED)
            with one.reading() as db:
                assert db.execute("SELECT 1") == [(1,)]
        for each in waiting:
            each.result(PATIENCE)


@pytest.mark.parametrize("stopped", [False, True])
def test_a_lock_that_a_stalled_peer_holds_is_given_up_with_a_sentence(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch, stopped: bool
) -> None:
    url = server.url("postgres")
    with (
        closing(PostgresDatabase(url)) as one,
        closing(PostgresDatabase(url)) as other,
        other.writing("ana") as db,
    ):
        peer = backend(db)
        if stopped:
            os.kill(peer, signal.SIGSTOP)
        try:
            monkeypatch.setattr(postgres, "WAIT_SECONDS", 0.5)
            with (
                pytest.raises(StoreUnavailableError, match="somebody else has been writing"),
                one.writing("ana") as held,
            ):
                held.execute("SELECT 1")
            with one.writing("eve") as served:
                assert served.execute("SELECT 1") == [(1,)]
        finally:
            monkeypatch.undo()
            os.kill(peer, signal.SIGCONT)


def backend(db: Transaction) -> int:
    """The server's process that works for this transaction."""
    [(process,)] = db.execute("SELECT pg_backend_pid()")
    return int(process)


def test_a_server_that_falls_silent_is_given_up(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "WAIT_SECONDS", 0.5)
    monkeypatch.setattr(postgres, "_GRACE_SECONDS", 0.1)
    peers: list[int] = []

    def stop_the_server() -> None:
        with database.writing("ana") as db:
            peers.append(backend(db))
            os.kill(peers[0], signal.SIGSTOP)
            db.execute("SELECT 1")

    with closing(PostgresDatabase(server.url("postgres"))) as database:
        try:
            with pytest.raises(StoreUnavailableError, match="has not answered") as caught:
                stop_the_server()
            assert caught.value.__context__ is None
            with database.reading() as db:  # on another connection
                assert backend(db) not in peers
        finally:
            os.kill(peers[0], signal.SIGCONT)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_server_that_falls_silent_while_nobody_asks_is_given_up(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    monkeypatch.setattr(postgres, "WAIT_SECONDS", 0.5)
    monkeypatch.setattr(postgres, "_GRACE_SECONDS", 0.1)

    def ask() -> None:
        with database.reading() as db:
            db.batch([("SELECT 1", ())] * 3) if at_once else db.execute("SELECT 1")

    with closing(PostgresDatabase(server.url("postgres"))) as database:
        with database.reading() as db:
            peer = backend(db)
        os.kill(peer, signal.SIGSTOP)
        try:
            with pytest.raises(StoreUnavailableError, match="has not answered") as caught:
                ask()
            assert caught.value.__context__ is None
            ask()
        finally:
            os.kill(peer, signal.SIGCONT)


def test_a_statement_that_takes_too_long_is_ended(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "WAIT_SECONDS", 0.3)
    with closing(PostgresDatabase(url)) as database:
        with (
            pytest.raises(StoreUnavailableError, match="took too long"),
            database.writing("ana") as db,
        ):
            db.execute("SELECT pg_sleep(?)", PATIENCE)  # type: ignore[arg-type]
        with database.writing("ana") as db:
            assert db.execute("SELECT 1") == [(1,)]


def test_only_who_reads_everything_is_patient_with_a_silent_server(url: str) -> None:
    """A server that sorts all of a large table says nothing for a while: that is no stall."""
    with closing(PostgresDatabase(url)) as database:
        for how, long in (({}, False), ({"whole": True}, True), ({}, False)):
            with database.reading(**how) as db:
                assert isinstance(db, postgres._PostgresTransaction)
                assert (db._connection.patience >= 60) == long
                assert db._connection.first_patience < 10
                db.execute("SELECT 1")


def test_who_verifies_or_copies_reads_everything(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    real = PostgresDatabase.reading

    def reading(
        self: PostgresDatabase, *, whole: bool = False
    ) -> AbstractContextManager[Transaction]:
        asked.append(whole)
        return real(self, whole=whole)

    with closing(sql(url)) as store:
        store.commit(ANA, [draw("age", 1)])
        monkeypatch.setattr(PostgresDatabase, "reading", reading)
        works: list[Callable[[], object]] = [
            store.verify,
            store.principals,
            partial(backup_store, store, tmp_path / "backup"),
        ]
        for work in works:
            asked.clear()
            work()
            assert any(asked)
        asked.clear()
        store.snapshot(ANA)
        assert asked == [False]


def test_limits_of_waiting_are_below_ten_seconds_and_the_urls_own_stand(url: str) -> None:
    with closing(PostgresDatabase(url)) as database:
        limit = (postgres.WAIT_SECONDS + postgres._GRACE_SECONDS) * 1000
        assert setting(database, "statement_timeout", "writing") == f"{limit:.0f}ms"
        assert postgres.WAIT_SECONDS + 2 * postgres._GRACE_SECONDS < 10
        for how in ("reading", "writing", "noting", "exclusive"):
            assert setting(database, "lock_timeout", how) not in {"0", "10s"}
        [connection] = database._idle
        told = connection.info.get_parameters()
        assert int(told["tcp_user_timeout"]) < 10_000
        idle, often, times = (
            int(told[f"keepalives_{name}"]) for name in ("idle", "interval", "count")
        )
        assert idle + often * times < 10
    with closing(PostgresDatabase(f"{url}&keepalives_idle=77")) as database:
        [connection] = database._idle
        assert connection.info.get_parameters()["keepalives_idle"] == "77"


def test_connections_that_the_server_closed_meanwhile_are_no_failure(url: str) -> None:
    with closing(PostgresDatabase(url)) as database:
        ways: list[Callable[[], AbstractContextManager[Transaction]]] = [
            database.reading,
            lambda: database.writing("ana"),
        ]
        for how in ways:
            with database.reading(), database.reading(), database.reading() as db:
                db.execute("SELECT 1")
            assert len(database._idle) == 3
            run(
                url,
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()",
            )
            with how() as db:
                assert db.execute("SELECT 1") == [(1,)]
            assert len(database._idle) == 1


def test_a_transaction_in_which_a_statement_failed_is_not_reported_as_stored(url: str) -> None:
    with closing(PostgresDatabase(url)) as database:

        def go_on_after_a_failure() -> None:
            with database.writing("ana") as db:
                db.execute("CREATE TABLE t (n INTEGER)")
                with pytest.raises(StoreError):
                    db.execute("SELECT 1/0")

        with pytest.raises(StoreError, match="nothing was stored"):
            go_on_after_a_failure()
        with database.reading() as db:
            assert "t" not in db.tables()


def test_a_commit_that_nobody_confirms_releases_nothing(url: str) -> None:
    with closing(PostgresDatabase(url)) as database:

        def lose_the_connection_before_the_end() -> None:
            with database.writing("ana") as db:
                run(url, f"SELECT pg_terminate_backend({backend(db)}, 60000)")

        with pytest.raises(StoreUnavailableError, match="did not confirm"):
            lose_the_connection_before_the_end()
        with database.writing("ana") as db:
            assert db.execute("SELECT 1") == [(1,)]


def test_a_transaction_sees_what_it_must_whatever_the_servers_defaults(url: str) -> None:
    name = url_database(url)
    run(url, f"ALTER DATABASE {name} SET default_transaction_isolation = serializable")
    with closing(PostgresDatabase(url)) as database:
        for how in ("writing", "noting", "exclusive"):
            assert setting(database, "transaction_isolation", how) == "read committed"
        assert setting(database, "transaction_isolation", "reading") == "repeatable read"
        assert setting(database, "transaction_read_only", "reading") == "on"


def test_the_server_frees_the_locks_of_a_writer_that_stops(url: str) -> None:
    with closing(PostgresDatabase(url)) as database:
        for how in ("writing", "noting"):
            assert setting(database, "idle_in_transaction_session_timeout", how) == "1min"


def test_connections_are_given_back(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    database = PostgresDatabase(url)
    with database.reading() as db:
        db.execute("SELECT 1")
    [idle] = database._idle
    monkeypatch.setattr(postgres, "_IDLE_SECONDS", -1.0)
    with database.reading() as db:
        db.execute("SELECT 1")
    assert idle.closed
    assert database._idle == []
    monkeypatch.undo()
    with database.reading() as db:
        db.execute("SELECT 1")
        database.close()
    assert database._idle == []
    forgotten = PostgresDatabase(url)
    [idle] = forgotten._idle
    del forgotten
    gc.collect()
    assert idle.closed


# Through a pooler


def mixed(store: Store, number: int) -> None:
    """One of several kinds of use, each by a person of its own."""
    who = Principal(f"person {number}")
    session = Guard.open(FIB4, values=VALUES, budget="0.9", store=store, principal=who)
    before = [session.release(root) for root in VALUES]
    match number % 6:
        case 0:
            session = Guard.resume(FIB4, store=store, principal=who)
            assert [session.release(root) for root in VALUES] == before
        case 1:
            Guard.refine(FIB4, values=VALUES, budget="1.8", store=store, principal=who)
        case 2:
            Guard.serve(FIB4, store=store, policy=POLICY, service="app", principal=who).target()
        case 3:
            store.erase(who)
        case 4:
            store.set_cap(who, "age", 10**9)
        case _:
            Guard.open(
                FIB4,
                values=VALUES,
                budget="0.9",
                store=store,
                principal=who,
                identifiers={"person": "Ann Lee"},
            )


@pytest.mark.parametrize("pooler", [pooled, pgbouncer])
def test_twenty_four_uses_through_a_pooler_that_changes_connections(
    url: str, pooler: Callable[[str], AbstractContextManager[str]]
) -> None:
    with (
        pooler(url) as through,
        closing(sql(through)) as store,
        ThreadPoolExecutor(4) as threads,
    ):
        list(threads.map(lambda number: mixed(store, number), range(24)))
        assert store.verify() == ()
    with closing(sql(url)) as store:
        known = {int(name.split()[1]) for name in store.principals()}
        assert known == {number for number in range(24) if number % 6 != 3}  # those were erased
        assert len(store.tags()) == 24


@pytest.mark.parametrize("pooler", [pooled, pgbouncer])
def test_a_pooler_that_refuses_a_parameter_is_told_apart(
    url: str, pooler: Callable[[str], AbstractContextManager[str]]
) -> None:
    with (
        pooler(url) as through,
        pytest.raises(StoreError, match="pooler refuses a parameter"),
    ):
        PostgresDatabase(f"{through}&options=-csearch_path%3Dpublic")


# Schemas


def test_the_urls_schema_stands_whatever_the_search_path(url: str) -> None:
    with closing(sql(url)) as store:
        fill(store)
    name = url_database(url)
    run(url, "CREATE SCHEMA other", f"ALTER DATABASE {name} SET search_path = other")
    for address in (url, f"{url}&schema=other"):
        with pytest.raises(StoreMissingError, match=r"other.*schema=public"):
            open_store(address, key=KEY)
    assert run(url, "SELECT 1 FROM pg_tables WHERE schemaname = 'other'") == []
    with closing(open_store(f"{url}&schema=public", key=KEY)) as store:
        assert len(store.events(ANA)) == 3
    with closing(sql(f"{url}&schema=other")) as store:  # asked for: a second one
        assert store.events(ANA) == ()
    with closing(open_store(f"{url}&schema=public", key=KEY)) as store:
        assert len(store.events(ANA)) == 3


def test_a_temporary_table_hides_none_of_ours(url: str) -> None:
    with closing(sql(url)) as store:
        fill(store)
    left = "CREATE TEMPORARY TABLE secrets (name TEXT); SET search_path = pg_temp, public"
    with (
        pooled(url, left) as through,
        closing(open_store(f"{through}&schema=public", key=KEY)) as store,
    ):
        assert store.verify() == ()


def test_a_schema_that_is_not_there_is_refused(url: str) -> None:
    with pytest.raises(StoreError, match="no schema of the name"):
        sql(f"{url}&schema=nowhere")
    run(url, f"ALTER DATABASE {url_database(url)} SET search_path = nowhere")
    with pytest.raises(StoreError, match=r"\?schema=public"):
        sql(url)


def test_a_schemas_name_may_be_any(url: str) -> None:
    run(url, 'CREATE SCHEMA "An ""odd"" näme, 50%s?"')
    with closing(sql(f"{url}&schema=An%20%22odd%22%20n%C3%A4me,%2050%25s%3F")) as store:
        fill(store)
        store.erase(EVE)
        assert [store.epoch(ANA), store.epoch(EVE)] == [0, 1]
        assert store.verify() == ()


# What is said


@pytest.fixture(scope="module")
def guarded(server: PostgresServer) -> Callable[[str], str]:
    """URLs of users on a server that asks some of them for a password."""
    rules = server.directory / "rules.conf"
    rules.write_text(
        "local all keyed scram-sha-256\nlocal all barred reject\nlocal all all trust\n"
    )
    rules.chmod(0o644)
    run(
        server.url("postgres"),
        "CREATE ROLE keyed LOGIN PASSWORD 'right'",
        "CREATE ROLE barred LOGIN",
        "CREATE ROLE crowded LOGIN CONNECTION LIMIT 0",
        "CREATE ROLE plain LOGIN",
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
        "CREATE DATABASE sealed",
        "ALTER DATABASE sealed SET default_transaction_read_only = on",
    )
    server.stop()
    server.start(f"hba_file={rules}")
    return lambda user: server.url("postgres").replace("postgres@", f"{user}@", 1)


def test_a_refusal_says_what_was_wrong_and_nothing_of_the_url(
    guarded: Callable[[str], str], tmp_path: Path
) -> None:
    asked = {
        guarded("keyed:hunter2"): "refused the user or the password",
        guarded("keyed"): "asks for a password",
        guarded("nobody"): "refused the user or the password",
        guarded("barred"): "does not let this user in",
        guarded("crowded"): "no connection left",
        guarded("plain"): "may not do this",
        guarded("plain").replace("/postgres?", "/hunter2?"): "no database of that name",
        guarded("postgres").replace("/postgres?", "/sealed?"): "takes no changes",
        f"postgresql://me:hunter2@/x?host={tmp_path}": "no database server answers",
        "postgresql://me:hunter2@127.0.0.1:1/x": "no database server answers",
    }
    for url, sentence in asked.items():
        with pytest.raises(StoreError, match=sentence) as caught:
            sql(url)
        assert "hunter2" not in str(caught.value)
        assert caught.value.__context__ is None
        assert caught.value.__cause__ is None


def test_a_standby_is_read_and_says_that_it_takes_no_changes() -> None:
    with own_server() as server:
        url = server.url("postgres")
        with closing(sql(url)) as store:
            session = Guard.open(FIB4, values=VALUES, budget="0.9", store=store, principal=ANA)
            before = [session.release(root) for root in VALUES]
        server.become_standby()
        with closing(sql(url)) as store:
            session = Guard.resume(FIB4, store=store, principal=ANA)
            assert [session.release(root) for root in VALUES] == before
            assert store.verify() == ()
            with pytest.raises(StoreUnavailableError, match="takes no changes: it is a standby"):
                Guard.open(FIB4, values=VALUES, budget="0.9", store=store, principal=EVE)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("failed to resolve host 'db': [Errno -2] Name or service not known", "host is not known"),
        ("connection timeout expired", "did not answer in time"),
        ("FATAL:  sorry, too many clients already", "no connection left"),
        ("FATAL:  the database system is starting up", "starting or stopping"),
        ("FATAL:  no such database: hunter2", "no database of that name"),
        ("FATAL:  no more connections allowed (max_client_conn)", "no connection left"),
        ("connection failed: session is read-only", "takes changes"),
        ("server does not support SSL, but SSL was required", "encrypted"),
        ("FATAL:  irgendetwas", "cannot be reached"),
    ],
)
def test_what_a_server_or_pooler_says_is_understood(said: str, sentence: str) -> None:
    assert sentence in str(postgres._fault_of_connection(said))


# Round trips


def test_a_transaction_of_n_statements_takes_n_plus_1_round_trips(url: str) -> None:
    with counting(url) as relay, closing(PostgresDatabase(relay.url)) as database:
        assert relay.trips == 1  # to find the schema
        with database.exclusive() as db:
            db.execute("CREATE TABLE t (n INTEGER)")
        for how in (database.writing, database.noting):
            before = relay.trips
            with how("ana") as db:
                for number in range(5):
                    db.execute("INSERT INTO t (n) VALUES (?)", number)
            assert relay.trips - before == 5 + 1
        before = relay.trips
        with database.reading() as db:
            for _ in range(5):
                assert db.execute("SELECT n FROM t WHERE n = ?", 3) == [(3,), (3,)]
        assert relay.trips - before == 5 + 1
        with database.reading():
            pass
        assert relay.trips - before == 5 + 1
        before = relay.trips
        with database.writing("ana") as db:
            db.batch([("INSERT INTO t (n) VALUES (?)", (number,)) for number in range(100)])
        assert relay.trips - before == 1 + 1


def test_an_epoch_is_asked_for_in_one_round_trip_and_waited_for_a_while(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with counting(url) as relay, closing(sql(relay.url)) as store:
        store.commit(ANA, [draw("age", 1)])
        store.erase(ANA)
        assert trips(relay, lambda: store.epoch(ANA)) == 1
        monkeypatch.setattr(postgres, "WAIT_SECONDS", 0.2)
        with psycopg.connect(url) as other:
            other.execute("LOCK TABLE people IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(StoreUnavailableError, match="not answered in time"):
                store.epoch(ANA)
        monkeypatch.undo()
        assert store.epoch(ANA) == 1


def trips(relay: CountingRelay, work: Callable[[], object]) -> int:
    before = relay.trips
    work()
    return relay.trips - before


LIMITS = {"open": 20, "resume": 5, "serve": 25}
OTHERS = {"age": 70, "ast": 90, "alt": 80, "plt": 300}


def test_sessions_take_few_round_trips(url: str) -> None:
    with counting(url) as relay, closing(sql(relay.url)) as store:
        first = Guard.open(FIB4, values=VALUES, budget="0.9", store=store, principal=ANA)
        first.target()
        store._journal.close()  # the audit log is no part of it
        opened = trips(
            relay,
            lambda: Guard.open(FIB4, values=VALUES, budget="0.9", store=store, principal=EVE),
        )
        resumed = trips(relay, lambda: Guard.resume(FIB4, store=store, principal=EVE))
        served = trips(
            relay,
            lambda: Guard.serve(
                FIB4, store=store, policy=POLICY, service="app", principal=EVE
            ).target(),
        )
        taken = {"open": opened, "resume": resumed, "serve": served}
        # Whatever is given: the same values, others for all roots, the first again, with a cap.
        for values, lifetime in ((VALUES, None), (OTHERS, None), (VALUES, None), (VALUES, 12)):
            again = partial(
                Guard.open, FIB4, values=values, budget="0.9", store=store, lifetime=lifetime
            )
            taken["open"] = max(taken["open"], trips(relay, partial(again, principal=EVE)))
        assert {name: count for name, count in taken.items() if count > LIMITS[name]} == {}


def test_a_table_takes_a_round_trip_for_eight_partitions_and_not_for_each(url: str) -> None:
    """Each partition by itself was a round trip to read and one to write: 512 and more."""

    def keep() -> None:
        store.keep_table("t", lambda *_: b"x" * 16, tuple)

    with counting(url) as relay, closing(sql(relay.url)) as store:
        pages = PARTITIONS // 8
        assert pages <= trips(relay, keep) <= pages + 10
        assert 2 * pages <= trips(relay, keep) <= 2 * pages + 10
