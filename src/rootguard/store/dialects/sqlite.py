"""SQLite: one file on the person's own machine.

Write-ahead log, full synchronisation, one writer at a time, one connection per thread. A new store
is made in a file beside its place and linked there when it is whole, so that a file in that place
is a store or it is damage; it is never quietly replaced. What was committed last may be in its
`-wal` only, so a copy of the file alone may be an older store (see `backup`).
"""

import errno
import os
import re
import secrets
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from rootguard.errors import (
    StoreDamagedError,
    StoreError,
    StoreKeyError,
    StoreMissingError,
    StoreUnavailableError,
)
from rootguard.store.base import Cell, Row, Statement, Transaction, unstorable_name
from rootguard.store.envelope import Envelope
from rootguard.store.keys import KeyPlace, given_key, refusal_of, sync_directory
from rootguard.store.schema.migrations import MIGRATIONS
from rootguard.store.sql import SqlStore, check_vault_id, create, unlock

APPLICATION_ID = 0x52475631  # "RGV1": a file that says otherwise is not ours
_SCRUB_SECONDS = 2  # for readers to let go of the log; who erases is told if they do not
_SCRUB_PAUSE = 0.01  # seconds; moving the log takes about as long
_CACHE_KIB = 8192  # pages of a connection, sealed as in the file: the rows of some thousand people
BUSY_SECONDS = 20  # SQLite has one writer: a commit takes milliseconds, a large table seconds
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
_REFUSED = (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG)
# As on a memory stick, or where links do not go from one folder to another.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV)
_UNAVAILABLE = {
    0: "the database file cannot be used just now; try again",
    sqlite3.SQLITE_BUSY: "the database file is busy: another process is writing; try again",
    sqlite3.SQLITE_LOCKED: "the database file is busy: another session is writing; try again",
    sqlite3.SQLITE_FULL: (
        "the disk is full and nothing was stored; make room where the database file is, then try"
        " again"
    ),
    sqlite3.SQLITE_READONLY: (
        "the database file is read-only, or was moved while it was open, and nothing was stored;"
        " put it back or let this user write it and its folder, then open the store again"
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "the database file cannot be opened: it was removed, it or its folder belongs to another"
        " user, or too many files are open (ulimit -n); mend that, then open the store again"
    ),
    sqlite3.SQLITE_PERM: (
        "this user has no right to the database file; have it given to you (chown, chmod u+rw)"
    ),
    sqlite3.SQLITE_IOERR: (
        "the disk refused to read or write the database file, and nothing was stored; check the"
        " disk, its quota and the limit of file size (ulimit -f), then try again"
    ),
    sqlite3.SQLITE_NOMEM: "there is not enough memory for the database; free some, then try again",
}

T = TypeVar("T")


def open_sqlite(
    path: Path, key: bytes | None = None, *, objection: str = "", vault_id: str | None = None
) -> SqlStore:
    """Open the store in a file; make a new one if there has never been one, unless one objects."""
    place = KeyPlace.beside(path)
    given = given_key(key)
    _refuse_unusable(path)
    new = not path.exists()
    if new:
        _refuse_remains(path, place)
        if objection and not path.exists():
            raise StoreMissingError(f"there is no vault at {path}: {objection}")
        _make(path, given or place.reserve())
    database = SqliteDatabase(path)
    try:
        if vault_id is not None:
            with database.reading() as db:
                check_vault_id(db, vault_id)
        return unlock(database, given, place, new=new)
    except BaseException:
        database.close()
        raise


def open_backup(
    path: Path, given: bytes | None, places: Sequence[KeyPlace]
) -> tuple[SqlStore, bytes]:
    """Open a file with the key that was given, else with one that is kept in these places."""
    _refuse_unusable(path)
    database = SqliteDatabase(path)
    with closing(database), database.reading() as db:
        envelope = Envelope.read(db)
    ring = [key for place in places for key in place.of(envelope.store_id).candidates()]
    opened = envelope.open(ring if given is None else [given])
    if opened is not None:
        return open_sqlite(path, opened[0]), opened[0]
    raise StoreKeyError(
        f"no key that is kept here opens {path}; set ROOTGUARD_KEY, or put the key file of the"
        f" vault at {' or '.join(str(place.file) for place in places)}"
        if given is None
        else "the key does not open this backup"
    )


def _refuse_unusable(path: Path) -> None:
    """Say what is wrong with a file, where SQLite would say that it cannot be opened, or wait."""
    if not path.exists():
        if path.is_symlink():
            raise StoreUnavailableError(
                f"the store {path} is a link to {path.readlink()}, where no file is; restore that"
                " file, or remove the link"
            )
        return
    if not path.is_file():
        what = "a folder" if path.is_dir() else "not a file"
        raise StoreUnavailableError(f"the store {path} is {what}; write the path of its file")
    problem = next(filter(None, map(_unwritable, (path, *_logs(path), path.parent))), "")
    if problem:
        raise StoreUnavailableError(f"the store {path} cannot be used: {problem}")


def _unwritable(path: Path) -> str:
    """Why this user cannot write a file or folder, and what to do; empty if it can."""
    effective = os.access in os.supports_effective_ids
    if not path.exists() or os.access(path, os.R_OK | os.W_OK, effective_ids=effective):
        return ""
    if os.name == "posix":
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            return f"{path} is on a read-only file system; mount it writable, or copy the vault"
        if path.stat().st_uid != os.geteuid():
            return (
                f"{path} belongs to another user; run this as that user, or have the file given to"
                " you (chown)"
            )
    return f"{path} is read-only; run: chmod u+rw{'x' * path.is_dir()} {path}"


def _logs(path: Path) -> tuple[Path, Path]:
    """SQLite's own files beside a database."""
    return path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")


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
    """Make a new store; if another was faster, theirs stands."""
    _write(path, lambda db: create(db, master, MIGRATIONS))


class NewFile:
    """A file in which there is no store yet. A copy takes its place there when it is whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.place = KeyPlace.beside(path)

    def fill(self, fill: Callable[[Transaction], T]) -> T:
        """Write a store, and put it in its place; refuse to if anything is there."""
        for path in (self._path, *_logs(self._path)):
            if os.path.lexists(path):
                raise self._taken(path)
        linked, filled = _write(self._path, fill)
        if not linked:
            raise self._taken(self._path)
        return filled

    def close(self) -> None:
        """Nothing is held."""

    def _taken(self, path: Path) -> StoreError:
        return StoreError(
            f"there is a file {path} already; nothing was written: choose another path, or move the"
            " file away"
        )


def _write(path: Path, fill: Callable[[Transaction], T]) -> tuple[bool, T]:
    """Write a database beside its place and link it there, unless there is a file by then.

    Whether it was linked, and what the writer returned.
    """
    problem = ""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _draft(path) as draft:
            database = SqliteDatabase(draft, new=True)
            try:
                with database.exclusive() as db:
                    filled = fill(db)
                if database.check() or not database.scrub():
                    raise StoreUnavailableError(
                        f"the store {path} was not written whole; nothing was kept of it: check the"
                        " disk, and try again"
                    )
            finally:
                database.close()
            return _link(draft, path), filled
    except OSError as error:
        problem = refusal_of(error, path.parent)
    raise StoreUnavailableError(f"the store {path} cannot be made: {problem}")


@contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """An empty file beside a place, in a folder of its own that is gone afterwards.

    The folder is locked for as long as its maker lives, so that others can tell what somebody who
    was killed has left, and clear it away. Not the file: another lock on it would disturb SQLite's.
    """
    _clear_drafts(path)
    while True:
        folder = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        folder.mkdir(mode=0o700)
        held = _locked(folder, wait=True)
        if folder.exists():
            break
        if held is not None:  # another took it for left, before it was locked
            os.close(held)
    try:
        draft = folder / path.name
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        yield draft
    finally:
        _remove_draft(folder, path.name)
        if held is not None:
            os.close(held)


def _clear_drafts(path: Path) -> None:
    """Remove what those who were killed while they wrote a store have left beside its place.

    It may hold rows of somebody who was erased since.
    """
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{16}}")
    with suppress(OSError):
        for folder in [each for each in path.parent.iterdir() if name.fullmatch(each.name)]:
            held = _locked(folder, wait=False)
            if held is not None:
                _remove_draft(folder, path.name)
                os.close(held)


def _remove_draft(folder: Path, name: str) -> None:
    """Without opening anything, for too many files may be open; and nothing that is not ours."""
    with suppress(OSError):
        for suffix in ("", "-wal", "-shm", "-journal"):
            (folder / f"{name}{suffix}").unlink(missing_ok=True)
        folder.rmdir()


def _locked(folder: Path, *, wait: bool) -> int | None:
    """A descriptor that holds the lock of a folder; None if another has it or there are none."""
    if os.name != "posix":
        return None
    import fcntl

    with suppress(OSError):
        # Not where a link leads: in a folder that others can write, it may lead to anything.
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            os.close(descriptor)
        else:
            return descriptor
    return None


def _link(draft: Path, path: Path) -> bool:
    """Give a file its name, unless another has it; in a way that lasts."""
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # The name is taken first, so that nobody else's file is replaced.
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            return False
        draft.replace(path)
    sync_directory(path.parent)
    return True


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
        self.raw.text_factory = lambda text: text.decode("utf-8", "surrogateescape")

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
        try:
            self._prepare(new=new)
        except BaseException:  # whoever keeps the error would keep the file open
            self.close()
            raise

    def _prepare(self, *, new: bool) -> None:
        """Refuse a file that is not ours or not sound."""
        connection = self._connection()
        if new:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        elif connection.execute("PRAGMA application_id") != [(APPLICATION_ID,)]:
            raise StoreDamagedError(
                f"the file {self._path} is not a RootGuard store; it is left alone"
            )
        connection.execute("PRAGMA journal_mode = WAL")
        if connection.execute("PRAGMA quick_check(1)") != [("ok",)]:
            raise StoreDamagedError(f"the store {self._path} is damaged; restore its backup")

    def reading(self, *, whole: bool = False) -> AbstractContextManager[Transaction]:  # noqa: ARG002
        return self._transaction("BEGIN")

    def look(self, sql: str, *cells: Cell) -> list[Row]:
        return self._connection().execute(sql, *cells)

    @contextmanager
    def writing(self, principal: str) -> Iterator[Transaction]:  # noqa: ARG002
        """A transaction that no other writer runs beside: SQLite has one writer at a time."""
        with self.exclusive() as db:
            yield db
        # What was committed goes from the log into the file as well. Nobody should copy an open
        # file, but somebody will, without its log: such a copy must not be of before the draws.
        # It lasts in the log already, so a disk that refuses this takes nothing back.
        with suppress(StoreError):
            db.execute("PRAGMA wal_checkpoint(PASSIVE)")

    @contextmanager
    def noting(self, principal: str) -> Iterator[Transaction]:  # noqa: ARG002
        """The same without waiting for the disk; whoever writes next and waits makes it last."""
        connection = self._connection()
        connection.execute("PRAGMA synchronous = NORMAL")
        try:
            with self.exclusive() as db:
                yield db
        finally:
            connection.execute("PRAGMA synchronous = FULL")

    def exclusive(self) -> AbstractContextManager[Transaction]:
        return self._transaction("BEGIN IMMEDIATE")

    def check(self) -> tuple[str, ...]:
        """What SQLite finds wrong with its file, indexes included."""
        found = self._connection().execute("PRAGMA integrity_check(1)")
        return () if found == [("ok",)] else ("the database file is damaged",)

    def scrub(self) -> bool:
        """Empty the log, where deleted rows still stand; rows themselves are overwritten."""
        _clear_drafts(self._path)
        connection = self._connection()
        connection.execute(f"PRAGMA busy_timeout = {_SCRUB_SECONDS * 1000}")
        end = time.monotonic() + _SCRUB_SECONDS
        try:
            # For readers SQLite waits itself. While another moves the log into the file, it does
            # not wait, and that is no reader.
            while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]:
                if time.monotonic() > end:
                    return False
                time.sleep(_SCRUB_PAUSE)
        except StoreUnavailableError:
            return False
        finally:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
        return True

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
            raise _closed()
        connection: _Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = _at_the_border(lambda: _Connection(self._path))
            db = _SqliteTransaction(connection.raw)
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA foreign_keys = ON")
            db.execute("PRAGMA secure_delete = ON")
            db.execute("PRAGMA trusted_schema = OFF")
            db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            with self._lock:
                if self._closed:  # while this thread connected: nobody would close it later
                    connection.raw.close()
                    raise _closed()
                self._open.add(connection)
            self._local.connection = connection
        return _SqliteTransaction(connection.raw)


def _closed() -> StoreUnavailableError:
    return StoreUnavailableError("the store is closed; open it again")


class _SqliteTransaction:
    """Statements on one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, *cells: Cell) -> list[Row]:
        """Run one statement; its rows, if it gives any."""
        return _at_the_border(lambda: self._connection.execute(sql, cells).fetchall())

    def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run statements one after the other; the rows of each."""
        return [self.execute(sql, *cells) for sql, cells in statements]

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
    primary = None if code is None else code & 0xFF  # the rest of an extended code is its detail
    # SQLite quotes what is malformed, and the driver fails to decode the quotation.
    if primary in _DAMAGE or isinstance(error, UnicodeDecodeError):
        return StoreDamagedError("the database file is damaged or not a store; restore its backup")
    if primary in _REFUSED:
        return StoreError("the database refused a row; nothing was stored")
    return StoreUnavailableError(_UNAVAILABLE.get(primary or 0, _UNAVAILABLE[0]))
