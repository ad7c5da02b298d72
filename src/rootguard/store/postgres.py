"""PostgreSQL: one store for several machines.

Writers of one principal queue behind an advisory lock that ends with their transaction; writers of
different principals run beside each other. The primary key decides, the lock only keeps losers from
working for nothing and the ledger's numbers in order. What `erase` deletes, the server removes from
its files when it vacuums.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool

from rootguard.errors import StoreDamagedError, StoreError, StoreUnavailableError
from rootguard.store.base import Cell, Row, Transaction, unstorable_name
from rootguard.store.keys import KeyPlace, given_key
from rootguard.store.sql import SqlStore, create, unlock

WAIT_SECONDS = 10.0  # for a connection, from the server or the pool; then the caller may try again
_CONNECTIONS = 8  # of one process; ten replicas stay below the hundred that a server allows
_TYPES = {"BLOB": "BYTEA", "INTEGER": "BIGINT"}
_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_SHARE = "SELECT pg_advisory_xact_lock_shared(?)"
_UNHURRIED = "SET LOCAL synchronous_commit = off"
_LOCK = "SELECT pg_advisory_xact_lock(?)"

T = TypeVar("T")


def open_postgres(url: str, key: bytes | None = None) -> SqlStore:
    """Open the store in a database; make a new one only where there has never been one."""
    given = given_key(key)
    database = PostgresDatabase(url)
    try:
        place = KeyPlace.of_server(database.where)
        with database.reading() as db:
            new = "meta" not in db.tables()
        if new:
            _make(database, given, place)
        return unlock(database, given, place)
    except BaseException:
        database.close()
        raise


def _make(database: "PostgresDatabase", given: bytes | None, place: KeyPlace) -> None:
    occupied = given is None and place.occupied()
    master = given or (b"" if occupied else place.reserve())
    with database.exclusive() as db:
        if "meta" in db.tables():
            return  # another process was faster: theirs stands
        if occupied or "draws" in db.tables():
            raise StoreDamagedError(
                "the database holds no store, but there was one: its key is there; restore the"
                f" database from a backup, or, to begin anew, remove {place.file}"
            )
        create(db, master)


class PostgresDatabase:
    """A PostgreSQL database behind the `Database` protocol."""

    def __init__(self, url: str) -> None:
        self._process = os.getpid()
        options = _at_the_border(lambda: conninfo_to_dict(url))
        self.where = json.dumps(
            {k: v for k, v in options.items() if k != "password"}, sort_keys=True
        )
        seconds = int(WAIT_SECONDS)
        # A pool would retry a refused connection until its time is over; one of our own tells now.
        _at_the_border(lambda: psycopg.connect(url, connect_timeout=seconds).close())
        self._pool: ConnectionPool[psycopg.Connection[Any]] = ConnectionPool(
            url,
            min_size=1,
            max_size=_CONNECTIONS,
            timeout=WAIT_SECONDS,
            kwargs={"connect_timeout": seconds},
            check=ConnectionPool.check_connection,
            open=True,
        )

    def reading(self) -> AbstractContextManager[Transaction]:
        return self._transaction((_SNAPSHOT,))

    def writing(self, principal: str) -> AbstractContextManager[Transaction]:
        # The store's lock first, shared: whoever takes it alone (a migration, a change of key)
        # waits for writers and keeps new ones out. In this order everywhere, so none can deadlock.
        return self._transaction((_SHARE, _number("store")), (_LOCK, _number("of " + principal)))

    def noting(self, principal: str) -> AbstractContextManager[Transaction]:
        """The same without waiting for the server's disk."""
        return self._transaction(
            (_UNHURRIED,), (_SHARE, _number("store")), (_LOCK, _number("of " + principal))
        )

    def exclusive(self) -> AbstractContextManager[Transaction]:
        return self._transaction((_LOCK, _number("store")))

    def check(self) -> tuple[str, ...]:
        """The server looks after its own files."""
        return ()

    def scrub(self) -> None:
        """Left to the server's vacuum, which a client cannot hurry safely."""

    def close(self) -> None:
        if os.getpid() == self._process:
            self._pool.close()

    @contextmanager
    def _transaction(self, *opening: tuple[Any, ...]) -> Iterator[Transaction]:
        if os.getpid() != self._process:
            raise StoreError("a store does not outlive a fork; open it again in the new process")
        connection = _at_the_border(self._pool.getconn)
        try:
            db = _PostgresTransaction(connection)
            for statement in opening:
                db.execute(*statement)
            yield db
            _at_the_border(connection.commit)
        except BaseException:
            with suppress(psycopg.Error):
                connection.rollback()
            raise
        finally:
            self._pool.putconn(connection)


class _PostgresTransaction:
    """Statements on one connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, sql: str, *cells: Cell) -> list[Row]:
        """Run one statement; its rows, if it gives any."""
        return _at_the_border(lambda: self._run(_translate(sql), cells))

    def execute_all(self, sql: str, rows: Sequence[tuple[Cell, ...]]) -> None:
        """Run one statement that gives no rows, once for each of these."""
        cursor = self._connection.cursor()
        _at_the_border(lambda: cursor.executemany(_translate(sql).encode(), rows))

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


def _fault(error: psycopg.Error) -> StoreError:
    match error:
        case errors.DataCorrupted() | errors.IndexCorrupted() | errors.UndefinedTable():
            return StoreDamagedError("the database is damaged or lost tables; restore its backup")
        case errors.UndefinedColumn() | errors.UndefinedObject() | errors.DuplicateTable():
            return StoreDamagedError("the database's tables were altered; restore its backup")
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return StoreUnavailableError("the database cannot be reached just now; try again")
        case psycopg.ProgrammingError():
            return StoreError(
                "the database refused; write postgresql://user@host/name, and let the user make"
                " tables"
            )
        case _:
            return StoreError("the database refused a row; nothing was stored")
