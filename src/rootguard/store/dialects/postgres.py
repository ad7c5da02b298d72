"""PostgreSQL: one store for several machines.

Writers of one principal queue behind an advisory lock that ends with their transaction; writers of
different principals run beside each other. The primary key decides, the lock only keeps losers from
working for nothing and the ledger's numbers in order. What `erase` deletes, the server removes from
its files when it vacuums.

Everything a transaction needs is said in the message that begins it and ends with it: a pooler such
as PgBouncer may give each transaction another connection, with whatever settings that one has. And
nothing is waited for without end: each wait has a limit, and a sentence for whoever reaches it.
"""

import hashlib
import json
import os
import re
import selectors
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, TypeVar
from urllib.parse import unquote
from weakref import WeakValueDictionary

import psycopg
from psycopg import errors
from psycopg.abc import Params, Query
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from rootguard.errors import (
    StoreDamagedError,
    StoreError,
    StoreMissingError,
    StoreUnavailableError,
)
from rootguard.store.base import Cell, Row, Statement, Transaction, unstorable_name
from rootguard.store.keys import KeyPlace, fresh_id, given_key
from rootguard.store.sql import SqlStore, check_vault_id, create, unlock

WAIT_SECONDS = 8.0  # for locks and a connection together, and for one statement of a writer
_LONG_SECONDS = 600.0  # for one statement that may go through the whole store, as `verify` does
_PAUSE_SECONDS = 60  # of a client within its transaction; then the server frees its locks
# A lock's time is up before the statement's that waits for it, and the server says so before we
# take it for silent: whoever reads the error is told the right reason.
_GRACE_SECONDS = 0.5
_SHORTEST_SECONDS = 0.05  # a limit of 0 would be none
_IDLE_SECONDS = 600.0  # before a connection that nobody needs is given back to the server
_CONNECTIONS = 8  # of one process; ten replicas stay below the hundred that a server allows
_RESERVED = 2  # of these are never a writer's, so that readers go on while writers wait
_SETTINGS: dict[str, int] = {  # of a connection, unless the URL says otherwise
    "connect_timeout": 4,  # seconds, for each address of the host
    # A peer that is gone without a word is noticed within nine seconds, waiting or sending.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "tcp_user_timeout": 8000,
}
_TYPES = {"BLOB": "BYTEA", "INTEGER": "BIGINT"}
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
# Whatever the server's default: a snapshot from before the lock would not show the last winner.
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
_LIMITS = (
    "SELECT set_config('lock_timeout', '{:.0f}', true),"
    " set_config('statement_timeout', '{:.0f}', true)"
)
# `on` whatever the server's default, but no less than an operator asks of the standbys.
_DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', true)"
    " WHERE current_setting('synchronous_commit') IN ('off', 'local')"
)
_UNHURRIED = "SET LOCAL synchronous_commit = off"
_PAUSE = f"SET LOCAL idle_in_transaction_session_timeout = '{_PAUSE_SECONDS}s'"
_SHARE = "SELECT pg_advisory_xact_lock_shared({})"
_LOCK = "SELECT pg_advisory_xact_lock({})"
_CLOSING = {"080", "57P"}  # what codes begin with where the server ends a connection
_LOCKED = (
    "somebody else has been writing for the same person, or changing the whole store, for {:g}"
    " seconds; try again, and if it stays so, end the process that hangs (see pg_stat_activity)"
)
_CROWDED = (
    "all connections to the database have been in use for {:g} seconds; try again, or let fewer"
    " threads write at once"
)
_CONNECTION_FAULTS: tuple[tuple[type[StoreError], str, str], ...] = (
    (
        StoreError,
        r"no password supplied",
        "the database asks for a password; put it in the URL, in PGPASSWORD or in ~/.pgpass",
    ),
    (
        StoreError,
        r"(password|SASL) authentication failed|role .* does not exist|no such user",
        "the database refused the user or the password; correct them in the URL or in ~/.pgpass",
    ),
    (
        StoreError,
        r"database .* does not exist|no such database",
        "the server has no database of that name; create it, or correct the name in the URL",
    ),
    (
        StoreError,
        r"pg_hba\.conf|permission denied for database|not permitted to log in|login rejected",
        "the server does not let this user in from here; see its pg_hba.conf and the user's rights",
    ),
    (
        StoreError,
        r"unsupported startup parameter",
        "the connection pooler refuses a parameter of the URL or of PGOPTIONS; leave out `options`",
    ),
    (
        StoreError,
        r"does not support SSL|SSL error|certificate|sslmode",
        "no encrypted connection to the database was made; see sslmode and sslrootcert in the URL",
    ),
    (
        StoreUnavailableError,
        r"too many clients|too many connections|remaining connection slots|no more connections",
        "the database server has no connection left; try again, or raise its max_connections",
    ),
    (
        StoreUnavailableError,
        r"starting up|shutting down|recovery mode|not yet accepting",
        "the database server is starting or stopping; try again in a moment",
    ),
    (
        StoreUnavailableError,
        r"session is (not )?read-only|server is (not )?in hot standby",
        "no server that the URL names takes changes; name the primary server",
    ),
    (
        StoreUnavailableError,
        r"resolve host|translate host name",
        "the database's host is not known; correct its name in the URL",
    ),
    (
        StoreUnavailableError,
        r"connection refused|no such file|no route to host|network is unreachable",
        "no database server answers there; start it, or correct host and port in the URL",
    ),
    (
        StoreUnavailableError,
        r"connection timeout expired|timed out",
        "the database server did not answer in time; see host, port and firewall, then try again",
    ),
)
# Where a schema holds a store, by the table that wraps its secrets; ours by name and column.
_SCHEMAS = (
    "SELECT current_schema(), ARRAY(SELECT n.nspname::text FROM pg_attribute a"
    " JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relname = 'secrets' AND a.attname = 'wrapped'"
    " AND has_schema_privilege(n.oid, 'USAGE') ORDER BY 1),"
    " ARRAY(SELECT nspname::text FROM pg_namespace)"
)

T = TypeVar("T")


def open_postgres(
    url: str,
    key: bytes | None = None,
    *,
    asked: bool = False,
    objection: str = "",
    vault_id: str | None = None,
) -> SqlStore:
    """Open the store in a database; make a new one if there has never been one, unless one objects.

    Unless a new one was `asked` for, one in another schema counts: the server's settings say
    which schema is ours, and they may have changed.
    """
    given = given_key(key)
    database = PostgresDatabase(url)
    try:
        place = KeyPlace.of_server(database.where)
        with database.reading() as db:
            new = "meta" not in db.tables()
            if new:
                _refuse_elsewhere(database, asked=asked)
            else:
                check_vault_id(db, vault_id)
        if new:
            # What is left of a vault at this address is of the one in the other schema.
            occupied = given is None and not database.elsewhere and place.occupied()
            _make(database, given, place, objection, occupied=occupied)
        return unlock(database, given, place, new=new)
    except BaseException:
        database.close()
        raise


def _refuse_elsewhere(database: "PostgresDatabase", *, asked: bool) -> None:
    if database.elsewhere and not asked:
        raise StoreMissingError(
            f"there is no vault in the schema {database.schema}, but there is one in the schema"
            f" {database.elsewhere[0]}: the search_path was changed; set it back or add"
            f" schema={database.elsewhere[0]} to the URL, or, to make a second vault here, run"
            " `rootguard vault init` with this --store, or open it with create=True"
        )


def _make(
    database: "PostgresDatabase",
    given: bytes | None,
    place: KeyPlace,
    objection: str,
    *,
    occupied: bool,
) -> None:
    if objection and not occupied:
        raise StoreMissingError(f"the database holds no vault: {objection}")
    store_id = fresh_id()
    place_of_key = place.of(store_id)
    master = given or (b"" if occupied else place_of_key.reserve())
    with database.exclusive() as db:
        if "meta" in db.tables():  # another process was faster: theirs stands
            place_of_key.withdraw()
            return
        if occupied or "draws" in db.tables():
            raise StoreDamagedError(
                "the database holds no store, but there was one: its key is there; restore the"
                f" database from a backup, or, to begin anew, remove {place.trace()}"
            )
        create(db, master, store_id=store_id)


class NewSchema:
    """A schema in which there is no store yet, for a copy of one."""

    def __init__(self, url: str) -> None:
        self._database = PostgresDatabase(url)
        self.place = KeyPlace.of_server(self._database.where)

    def fill(self, fill: Callable[[Transaction], T]) -> T:
        """Write a store in one transaction, so that all of it is there or nothing."""
        with self._database.exclusive() as db:
            return fill(db)

    def close(self) -> None:
        self._database.close()


class PostgresDatabase:
    """A PostgreSQL database behind the `Database` protocol."""

    def __init__(self, url: str) -> None:
        self._process = os.getpid()
        self._url, named = _split_schema(url)
        options = _at_the_border(lambda: conninfo_to_dict(self._url))
        self.where = json.dumps(
            {k: v for k, v in options.items() if k != "password"}, sort_keys=True
        )
        settings = {k: v for k, v in _SETTINGS.items() if k not in options}
        self._url = make_conninfo(self._url, **settings)
        # A writer's turn and place are taken before a connection's: see `_turn`.
        self._connections = threading.BoundedSemaphore(_CONNECTIONS)
        self._writers = threading.BoundedSemaphore(_CONNECTIONS - _RESERVED)
        self._turns: WeakValueDictionary[str, threading.Semaphore] = WeakValueDictionary()
        self._taking = threading.Lock()  # a turn is looked up and made by one thread at a time
        self._idle: list[_Connection] = []  # the one used last is the last
        self._closed = False
        weakref.finalize(self, _close, self._idle, self._process)
        connection = self._connect()
        self._idle.append(connection)
        [(current, holding, there)] = _at_the_border(
            lambda: connection.execute(_SCHEMAS).fetchall()
        )
        self.schema: str = _check_schema(current if named is None else named, there)
        self.elsewhere = [schema for schema in holding if schema != self.schema]
        """Other schemas with a store in them."""
        name = self.schema.replace('"', '""')
        # `pg_temp` last, or a temporary table could hide one of ours.
        self._path = f'SET LOCAL search_path = "{name}", pg_temp'
        # Within a statement that has cells the driver reads %.
        self._named = '"' + name.replace("%", "%%") + '"'

    def reading(self, *, whole: bool = False) -> AbstractContextManager[Transaction]:
        # A server that sorts all of a large table says nothing for a while.
        silence = _LONG_SECONDS if whole else None
        return self._transaction(_SNAPSHOT, seconds=_LONG_SECONDS, silence=silence)

    def look(self, sql: str, *cells: Cell) -> list[Row]:
        # By itself, so that it is one message and one answer: the statement names the schema, and
        # our own patience is its limit.
        with self._connected(_deadline()) as connection:
            connection.patience = WAIT_SECONDS + 2 * _GRACE_SECONDS
            query = _translate(sql).replace(" main.", f" {self._named}.")
            return _PostgresTransaction(connection).run(query, cells)

    def writing(self, principal: str) -> AbstractContextManager[Transaction]:
        return self._writing(principal, _DURABLE)

    def noting(self, principal: str) -> AbstractContextManager[Transaction]:
        """The same without waiting for the server's disk."""
        return self._writing(principal, _UNHURRIED)

    @contextmanager
    def exclusive(self) -> Iterator[Transaction]:
        deadline = _deadline()
        opening = (_WRITE, _DURABLE, _LOCK.format(_number("store")))
        with (
            self._turn("store", deadline),
            self._transaction(
                *opening, seconds=_LONG_SECONDS, silence=_LONG_SECONDS, deadline=deadline
            ) as db,
        ):
            yield db

    def check(self) -> tuple[str, ...]:
        """The server looks after its own files."""
        return ()

    def scrub(self) -> bool:
        """What dead rows and the server's log hold is encrypted, and its key is overwritten."""
        return True

    def close(self) -> None:
        self._closed = True
        _close(self._idle, self._process)

    @contextmanager
    def _writing(self, principal: str, commit: str) -> Iterator[Transaction]:
        deadline = _deadline()
        name = "of " + principal
        opening = (
            _WRITE,
            commit,
            _PAUSE,
            # The store's lock first, shared: whoever takes it alone (a migration, a change of key)
            # waits for writers and keeps new ones out. In this order everywhere, so none can
            # deadlock.
            _SHARE.format(_number("store")),
            _LOCK.format(_number(name)),
        )
        with (
            self._turn(name, deadline),
            self._transaction(*opening, seconds=WAIT_SECONDS, deadline=deadline) as db,
        ):
            yield db

    @contextmanager
    def _turn(self, name: str, deadline: float) -> Iterator[None]:
        """Queue in this process before taking a connection to queue at the server.

        So those who wait for one stalled writer hold one connection, not all of them.
        """
        with self._taking:
            turn = self._turns.setdefault(name, threading.Semaphore())
        with _permit(turn, deadline, _LOCKED), _permit(self._writers, deadline, _CROWDED):
            yield

    @contextmanager
    def _transaction(
        self,
        *opening: str,
        seconds: float,
        silence: float | None = None,
        deadline: float | None = None,
    ) -> Iterator[Transaction]:
        """A transaction whose statements may take so long and wait so long for a word.

        It begins, and takes its locks, with the first statement.
        """
        deadline = deadline or _deadline()
        with self._connected(deadline) as connection:
            left = max(deadline - time.monotonic(), _SHORTEST_SECONDS)
            connection.opening = (
                opening[0],
                self._path,
                _LIMITS.format(left * 1000, (seconds + _GRACE_SECONDS) * 1000),
                *opening[1:],
            )
            connection.first_patience = left + 2 * _GRACE_SECONDS
            connection.patience = (silence or WAIT_SECONDS) + 2 * _GRACE_SECONDS
            yield _PostgresTransaction(connection)
            _at_the_border(connection.end)

    @contextmanager
    def _connected(self, deadline: float) -> Iterator["_Connection"]:
        """A connection for a while."""
        if os.getpid() != self._process:
            raise StoreError("a store does not outlive a fork; open it again in the new process")
        with _permit(self._connections, deadline, _CROWDED):
            if self._closed:
                raise StoreUnavailableError("the store was closed; open it again")
            connection = self._take()
            try:
                yield connection
            finally:
                self._put_back(connection)

    def _take(self) -> "_Connection":
        """A connection. The caller may have one."""
        with suppress(IndexError):
            while True:
                connection = self._idle.pop()
                if connection.quiet():
                    return connection
                connection.close()
        return self._connect()

    def _connect(self) -> "_Connection":
        return _at_the_border(
            lambda: _Connection.connect(
                self._url,
                autocommit=True,  # a transaction begins with a statement of ours
                prepare_threshold=None,  # a pooler's next connection would not know them
            )
        )

    def _put_back(self, connection: "_Connection") -> None:
        connection.reset()
        if not connection.closed:
            connection.since = time.monotonic()
            self._idle.append(connection)
        if self._closed:
            _close(self._idle, self._process)
        with suppress(IndexError):  # another thread may take it first
            while self._idle[0].since < time.monotonic() - _IDLE_SECONDS:
                self._idle.pop(0).close()


class _Connection(psycopg.Connection[Any]):
    """A connection that does not wait for ever."""

    patience = first_patience = WAIT_SECONDS
    """Seconds without a word from the server, and while a transaction begins."""
    since = 0.0
    """When it was last used."""
    opening: tuple[str, ...] = ()
    """What begins its transaction and has not been sent yet."""
    _beginning = False

    def wait(
        self, gen: Generator[Any, Any, T], interval: float = 0.1, timeout: float | None = None
    ) -> T:
        del timeout  # which older drivers do not know, and which only notifications use
        patience = self.first_patience if self._beginning else self.patience
        try:
            return super().wait(_with_patience(gen, patience), interval)
        except _SilenceError:
            self.close()  # or whoever asks in several messages would wait for each of them
            raise

    def quiet(self) -> bool:
        """Whether the server has said nothing since; what it says to somebody idle is goodbye."""
        with selectors.DefaultSelector() as ready:
            ready.register(self, selectors.EVENT_READ)
            return not ready.select(0)

    def execute(
        self,
        query: Query,
        params: Params | None = None,
        *,
        prepare: bool | None = None,
        binary: bool = False,
    ) -> psycopg.Cursor[Any]:
        """Run a statement, with what begins its transaction before it in the same message."""
        opening, self.opening = self.opening, ()
        alone = not opening or self.pgconn.pipeline_status
        self._beginning = bool(opening)
        try:
            with nullcontext() if alone else self.pipeline():
                for statement in opening:
                    super().execute(statement.encode())
                # Not a template string, which drivers from 3.3 on take as well: we send none.
                return super().execute(query, params, prepare=prepare, binary=binary)  # type: ignore[arg-type]
        finally:
            self._beginning = False

    def end(self) -> None:
        """Commit."""
        if self.opening:  # nothing was asked
            return
        try:
            done = self.execute("COMMIT").statusmessage
        except psycopg.OperationalError as error:
            if (error.sqlstate or "080")[:3] in _CLOSING:
                raise _UnconfirmedError from None
            raise
        if done != "COMMIT":  # so the server answers where a statement failed before
            raise psycopg.errors.InFailedSqlTransaction

    def reset(self) -> None:
        """Leave nothing open: roll back, or where that cannot be done close the connection."""
        self.opening = ()
        status = self.info.transaction_status
        if status in {TransactionStatus.INTRANS, TransactionStatus.INERROR}:
            with suppress(psycopg.Error):
                self.rollback()
        if self.info.transaction_status != TransactionStatus.IDLE:
            self.close()


class _SilenceError(psycopg.OperationalError):
    """The server takes what we send and says nothing."""


class _UnconfirmedError(psycopg.OperationalError):
    """A commit went unanswered. It stands or not: whoever comes again is given what stands."""


def _with_patience(gen: Generator[Any, Any, T], seconds: float) -> Generator[Any, Any, T]:
    """The same, with an end to waiting.

    The driver resumes a generator several times a second with what the socket is ready for, which
    is nothing (0) where nothing has come.
    """
    heard = time.monotonic()
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if ready:
                heard = time.monotonic()
            elif time.monotonic() - heard > seconds:
                with suppress(Exception):  # it would rather go on
                    gen.close()
                raise _SilenceError
            wanted = gen.send(ready)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


def _close(idle: list[_Connection], process: int) -> None:
    """Close connections, unless they are those of the process that we were forked from."""
    while idle and os.getpid() == process:
        idle.pop().close()


def _deadline() -> float:
    return time.monotonic() + WAIT_SECONDS


@contextmanager
def _permit(lock: threading.Semaphore, deadline: float, otherwise: str) -> Iterator[None]:
    if not lock.acquire(timeout=max(deadline - time.monotonic(), 0)):
        raise StoreUnavailableError(otherwise.format(WAIT_SECONDS))
    try:
        yield
    finally:
        lock.release()


def _split_schema(url: str) -> tuple[str, str | None]:
    """The URL without our own parameter `schema`, which the driver does not know; and its value."""
    found = re.search(r"(?<=[?&])schema=([^&]*)&?", url)
    if found is None:
        return url, None
    return (url[: found.start()] + url[found.end() :]).rstrip("?&"), unquote(found[1])


def _check_schema(schema: str | None, there: list[str]) -> str:
    if schema is None:
        raise StoreError(
            "no schema of the user's search_path is there; name one in the URL (?schema=public)"
        )
    if schema not in there:
        raise StoreError(
            "the database has no schema of the name that follows `schema=` in the URL; correct it,"
            " or create the schema"
        )
    return schema


class _PostgresTransaction:
    """Statements on one connection."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, *cells: Cell) -> list[Row]:
        """Run one statement; its rows, if it gives any."""
        return self.run(_translate(sql), cells)

    def run(self, sql: str, cells: tuple[Cell, ...]) -> list[Row]:
        """The same of what is in PostgreSQL's words already."""
        return _at_the_border(lambda: self._run(sql, cells))

    def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run statements in one exchange with the server; the rows of each."""
        return _at_the_border(lambda: self._pipelined(statements))

    def _pipelined(self, statements: Sequence[Statement]) -> list[list[Row]]:
        with self._connection.pipeline():
            cursors = [
                self._connection.execute(_translate(sql).encode(), cells)
                for sql, cells in statements
            ]
        return [cursor.fetchall() if cursor.description else [] for cursor in cursors]

    def tables(self) -> set[str]:
        """The names of the tables there are."""
        found = self.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        return {row[0] for row in found}

    def _run(self, sql: str, cells: tuple[Cell, ...]) -> list[Row]:
        cursor = self._connection.execute(sql.encode(), cells)
        return cursor.fetchall() if cursor.description else []


def _translate(sql: str) -> str:
    """Our SQL in PostgreSQL's words."""
    if sql.startswith("CREATE"):
        for ours, theirs in _TYPES.items():
            sql = sql.replace(ours, theirs)
    return sql.replace("?", "%s")


def _number(name: str) -> int:
    """The number of an advisory lock: 64 bits of a hash, so that a clash only makes one wait."""
    digest = hashlib.sha256(b"rootguard " + name.encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _fault(error: psycopg.Error) -> StoreError:
    """What to say of an error, without a word of the server's: it may quote a row or the URL."""
    match error:
        case errors.DataCorrupted() | errors.IndexCorrupted() | errors.UndefinedTable():
            return StoreDamagedError("the database is damaged or lost tables; restore its backup")
        case errors.UndefinedColumn() | errors.UndefinedObject() | errors.DuplicateTable():
            return StoreDamagedError("the database's tables were altered; restore its backup")
        case errors.LockNotAvailable():
            return StoreUnavailableError(_LOCKED.format(WAIT_SECONDS))
        case errors.QueryCanceled():
            return StoreUnavailableError(
                "the database took too long over a statement, or an operator cancelled it; nothing"
                " was stored: try again"
            )
        case errors.IdleInTransactionSessionTimeout():
            return StoreUnavailableError(
                f"this process was held up for {_PAUSE_SECONDS} seconds, and the database ended its"
                " transaction; nothing was stored: try again"
            )
        case errors.DeadlockDetected() | errors.SerializationFailure():
            return StoreUnavailableError(
                "writers were in each other's way in the database; nothing was stored: try again"
            )
        case errors.ReadOnlySqlTransaction():
            return StoreUnavailableError(
                "the database takes no changes: it is a standby, or was made read-only; name the"
                " primary server in the URL, or let the database be written again"
            )
        case errors.DiskFull():
            return StoreUnavailableError(
                "the database server's disk is full; make room there, then try again"
            )
        case errors.InsufficientPrivilege():
            return StoreError(
                "the database user may not do this; let the user make tables in the schema (GRANT"
                " USAGE, CREATE ON SCHEMA …), or own those of the store"
            )
        case _UnconfirmedError():
            return StoreUnavailableError(
                "the database did not confirm in time; nothing was released: try again"
            )
        case _SilenceError():
            return StoreUnavailableError("the database has not answered in time; try again")
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return _fault_of_connection(str(error))
        case psycopg.ProgrammingError():
            return StoreError(
                "the database refused; write postgresql://user@host/name, and let the user make"
                " tables"
            )
        case _:
            return StoreError("the database refused a row; nothing was stored")


def _fault_of_connection(said: str) -> StoreError:
    """Why there is no connection, from what the driver says; it gives no code for this.

    A server that speaks another language than English is only known to have refused.
    """
    for kind, pattern, sentence in _CONNECTION_FAULTS:
        if re.search(pattern, said, re.IGNORECASE):
            return kind(sentence)
    return StoreUnavailableError("the database cannot be reached just now; try again")


def _at_the_border(work: Callable[[], T]) -> T:
    """Run something of the driver's; its errors become ours here and nowhere else.

    Ours is raised after the handler has ended, so that it carries no trace of the statement.
    """
    try:
        return work()
    except psycopg.Error as error:
        fault = _fault(error)
    except UnicodeEncodeError:
        fault = unstorable_name()
    except UnicodeError:  # a host that is no host name
        fault = StoreError("the database's address is not one; write postgresql://user@host/name")
    raise fault
