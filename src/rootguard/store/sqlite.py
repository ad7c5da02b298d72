"""SQLite: one file on the person's own machine.

Write-ahead log, full synchronisation, one writer at a time, one connection per thread. A new store
is made in a file beside its place and linked there when it is whole, so that a file in that place
is a store or it is damage; it is never quietly replaced. Back it up closed, or with its `-wal`.
"""

import os
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from rootguard.errors import StoreDamagedError, StoreError, StoreUnavailableError
from rootguard.store.base import Cell, Row, Transaction, unstorable_name
from rootguard.store.keys import KeyPlace, given_key
from rootguard.store.migrations import MIGRATIONS
from rootguard.store.sql import SqlStore, create, unlock

APPLICATION_ID = 0x52475631  # "RGV1": a file that says otherwise is not ours
BUSY_SECONDS = 20  # SQLite has one writer: a commit takes milliseconds, a large table seconds
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
_REFUSED = (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG)

T = TypeVar("T")


def open_sqlite(path: Path, key: bytes | None = None) -> SqlStore:
    """Open the store in a file; make a new one only where there has never been one."""
    place = KeyPlace.beside(path)
    given = given_key(key)
    if not path.exists():
        _refuse_remains(path, place)
        _make(path, given or place.reserve())
    database = SqliteDatabase(path)
    try:
        return unlock(database, given, place)
    except BaseException:
        database.close()
        raise


def _refuse_remains(path: Path, place: KeyPlace) -> None:
    """Refuse to start afresh where a store has been.

    A key is put in its place after the store is in its own, so where there is a key there was a
    store. Another process may be making one just now: the last look at the file decides.
    """
    log = path.with_name(path.name + "-wal")
    remains = log.exists() or place.occupied()
    if remains and not path.exists():
        raise StoreDamagedError(
            f"the store {path} is missing, but its key or its log is there; restore the file from a"
            f" backup, or, to begin anew, remove {place.file} (or its keyring entry) and {log}"
        )


def _make(path: Path, master: bytes) -> None:
    """Make a store beside its place and link it there; if another was faster, theirs stands."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    problem = ""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        database = SqliteDatabase(draft, new=True)
        try:
            with database.exclusive() as db:
                create(db, master, MIGRATIONS)
        finally:
            database.close()
        with suppress(FileExistsError):
            path.hardlink_to(draft)
        _sync(path.parent)
    except OSError as error:
        problem = error.strerror or "the system refused"
    finally:
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):
                draft.with_name(draft.name + suffix).unlink(missing_ok=True)
    if problem:
        raise StoreUnavailableError(f"the store {path} cannot be made: {problem}")


def _sync(directory: Path) -> None:
    """Make a new name in a directory last through a power cut, where the system can."""
    if os.name == "posix":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class _Connection:
    """A thread's connection, closed with the thread."""

    def __init__(self, path: Path) -> None:
        self.raw = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        # Altered bytes must reach the check of the row's seal, not fail on the way.
        self.raw.text_factory = lambda text: text.decode(errors="surrogateescape")

    def __del__(self) -> None:
        with suppress(AttributeError):
            self.raw.close()


class SqliteDatabase:
    """A SQLite file behind the `Database` protocol."""

    def __init__(self, path: Path, *, new: bool = False) -> None:
        self._path = path
        self._local = threading.local()
        self._open: weakref.WeakSet[_Connection] = weakref.WeakSet()
        self._lock = threading.Lock()  # over `_open`, which threads add to and `close` empties
        self._closed = False
        self._process = os.getpid()
        # Never read the file by other means: closing it would drop SQLite's locks on it.
        if not new and path.exists() and path.stat().st_size == 0:
            raise StoreDamagedError(f"the store {path} is an empty file; restore its backup")
        connection = self._connection()
        if new:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        elif connection.execute("PRAGMA application_id") != [(APPLICATION_ID,)]:
            self.close()
            raise StoreDamagedError(f"the file {path} is not a RootGuard store; it is left alone")
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            sound = connection.execute("PRAGMA quick_check(1)") == [("ok",)]
        except StoreError:
            self.close()
            raise
        if not sound:
            self.close()
            raise StoreDamagedError(f"the store {path} is damaged; restore its backup")

    def reading(self) -> AbstractContextManager[Transaction]:
        return self._transaction("BEGIN")

    def writing(self, principal: str) -> AbstractContextManager[Transaction]:  # noqa: ARG002
        """A transaction that no other writer runs beside: SQLite has one writer at a time."""
        return self._transaction("BEGIN IMMEDIATE")

    @contextmanager
    def noting(self, principal: str) -> Iterator[Transaction]:
        """The same without waiting for the disk; whoever writes next and waits makes it last."""
        connection = self._connection()
        connection.execute("PRAGMA synchronous = NORMAL")
        try:
            with self.writing(principal) as db:
                yield db
        finally:
            connection.execute("PRAGMA synchronous = FULL")

    def exclusive(self) -> AbstractContextManager[Transaction]:
        return self._transaction("BEGIN IMMEDIATE")

    def check(self) -> tuple[str, ...]:
        """What SQLite finds wrong with its file, indexes included."""
        found = self._connection().execute("PRAGMA integrity_check(1)")
        return () if found == [("ok",)] else ("the database file is damaged",)

    def scrub(self) -> None:
        """Empty the log, where deleted rows still stand; rows themselves are overwritten."""
        with suppress(StoreUnavailableError):  # a reader is in the way: the next one does it
            self._connection().execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for connection in self._open:
                connection.raw.close()
            self._open.clear()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Transaction]:
        db = self._connection()
        db.execute(begin)
        try:
            yield db
            db.execute("COMMIT")
        except BaseException:
            with suppress(StoreError):
                db.execute("ROLLBACK")
            raise

    def _connection(self) -> "_SqliteTransaction":
        if os.getpid() != self._process:
            raise StoreError("a store does not outlive a fork; open it again in the new process")
        if self._closed:
            raise StoreUnavailableError("the store is closed; open it again")
        connection: _Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = _at_the_border(lambda: _Connection(self._path))
            db = _SqliteTransaction(connection.raw)
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA foreign_keys = ON")
            db.execute("PRAGMA secure_delete = ON")
            db.execute("PRAGMA trusted_schema = OFF")
            with self._lock:
                self._open.add(connection)
            self._local.connection = connection
        return _SqliteTransaction(connection.raw)


class _SqliteTransaction:
    """Statements on one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, *cells: Cell) -> list[Row]:
        """Run one statement; its rows, if it gives any."""
        return _at_the_border(lambda: self._connection.execute(sql, cells).fetchall())

    def execute_all(self, sql: str, rows: Sequence[tuple[Cell, ...]]) -> None:
        """Run one statement that gives no rows, once for each of these."""
        _at_the_border(lambda: self._connection.executemany(sql, rows))

    def tables(self) -> set[str]:
        """The names of the tables there are."""
        return {
            row[0] for row in self.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }


def _at_the_border(work: Callable[[], T]) -> T:
    """Run something of SQLite's; its errors become ours here and nowhere else.

    Ours is raised after the handler has ended, so that it carries no trace of the statement.
    """
    try:
        return work()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        fault = _fault(error)
    except UnicodeEncodeError:
        fault = unstorable_name()
    raise fault


def _fault(error: sqlite3.Error | UnicodeDecodeError) -> StoreError:
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    # SQLite quotes what is malformed, and the driver fails to decode the quotation.
    if primary in _DAMAGE or isinstance(error, UnicodeDecodeError):
        return StoreDamagedError("the database file is damaged or not a store; restore its backup")
    if primary in _REFUSED:
        return StoreError("the database refused a row; nothing was stored")
    return StoreUnavailableError("the database file is busy or cannot be used just now; try again")
