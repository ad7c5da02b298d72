"""What is wrong with a vault's file, folder or disk: the error says which it is and what to do."""

import errno
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from rootguard.errors import StoreKeyError, StoreUnavailableError
from rootguard.store.dialects import sqlite
from rootguard.values import Principal
from rootguard.vault import backup_store, open_store
from tests.support.patience import PATIENCE
from tests.support.store_contents import ANA, EVE, KEY, OTHER_KEY, at, content, draw, fill, sql

NOBODY = 65534
ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not ROOT, reason="only root can act as another user")


@contextmanager
def without_rights() -> Iterator[None]:
    """Be a user whom permissions bind, and who owns nothing that root made."""
    if not ROOT:
        yield
        return
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of the user without rights. Those of pytest's, only their owner can reach."""
    with tempfile.TemporaryDirectory() as name:
        if ROOT:
            os.chown(name, NOBODY, NOBODY)
        Path(name).chmod(0o755)
        yield Path(name)
        Path(name).chmod(0o755)


@pytest.fixture
def file(folder: Path) -> Path:
    """A vault of the user without rights, with something in it."""
    with without_rights(), closing(sql(at(folder / "vault.db"))) as store:
        fill(store)
    return folder / "vault.db"


def refused(url: str, *, create: bool | None = None) -> str:
    with without_rights(), pytest.raises(StoreUnavailableError) as caught:
        open_store(url, key=KEY, create=create)
    return str(caught.value)


def test_a_file_that_is_read_only_is_named(file: Path) -> None:
    file.chmod(0o444)
    assert f"{file} is read-only; run: chmod u+rw {file}" in refused(at(file))
    file.chmod(0o600)
    with without_rights(), closing(open_store(at(file), key=KEY)) as store:
        assert store.verify() == ()


def test_a_folder_that_is_read_only_is_named(file: Path, folder: Path) -> None:
    folder.chmod(0o555)
    assert f"{folder} is read-only; run: chmod u+rwx {folder}" in refused(at(file))
    told = refused(at(folder / "new.db"), create=True)
    assert f"cannot be made: this user may not write in {folder}" in told
    assert sorted(path.name for path in folder.iterdir()) == ["vault.db"]


def test_a_folder_that_nobody_may_enter_is_named(file: Path, folder: Path) -> None:
    folder.chmod(0o000)
    assert f"may not enter the folder of {file}" in refused(at(file))


@as_root
@pytest.mark.parametrize("part", ["", "-wal", "-shm"])
def test_another_users_file_is_named(file: Path, part: str) -> None:
    theirs = file.with_name(file.name + part)
    theirs.touch()
    os.chown(theirs, 0, 0)
    theirs.chmod(0o600)
    told = refused(at(file))
    assert f"{theirs} belongs to another user" in told
    assert "chown" in told


@as_root
def test_another_users_folder_is_named(file: Path, folder: Path) -> None:
    os.chown(folder, 0, 0)
    assert f"{folder} belongs to another user" in refused(at(file))
    assert "this user may not write in" in refused(at(folder / "new.db"), create=True)


@pytest.mark.parametrize("create", [True, False])
def test_a_link_to_nothing_is_named_and_left_alone(tmp_path: Path, create: bool) -> None:
    link, target = tmp_path / "vault.db", tmp_path / "gone" / "real.db"
    link.symlink_to(target)
    with pytest.raises(StoreUnavailableError, match=f"is a link to {re.escape(str(target))}"):
        open_store(at(link), key=KEY, create=create)
    assert list(tmp_path.iterdir()) == [link]
    target.parent.mkdir()
    sql(at(target)).close()
    open_store(at(link), key=KEY).close()  # a link to a vault opens it


def test_a_folder_or_a_pipe_in_the_place_of_the_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="is a folder; write the path of its file"):
        open_store(at(tmp_path), key=KEY, create=True)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreUnavailableError, match="is not a file"):
        open_store(at(tmp_path / "pipe"), key=KEY, create=True)


@pytest.mark.parametrize("below", ["vault.db", "a/b/vault.db"])
def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path, below: str) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(StoreUnavailableError, match="taken is a file, not a folder"):
        open_store(at(tmp_path / "taken" / below), key=KEY, create=True)


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, "the disk is full; make room"),
        (errno.EDQUOT, "disk quota"),
        (errno.EFBIG, "ulimit -f"),
        (errno.EROFS, "the file system is read-only; mount it writable"),
        (errno.EACCES, "may not write in"),
        (errno.EPERM, "may not write in"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EIO, "Input/output error; choose another place"),
    ],
)
def test_a_vault_that_cannot_be_made_says_why_and_leaves_nothing(
    tmp_path: Path, number: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as broken:
        broken.setattr(os, "open", fail)
        with pytest.raises(StoreUnavailableError, match=told) as caught:
            open_store(at(tmp_path / "vault.db"), key=KEY, create=True)
    assert caught.value.__context__ is None
    assert list(tmp_path.iterdir()) == []
    sql(at(tmp_path / "vault.db")).close()


def test_a_read_only_file_system_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated: a test cannot mount one."""
    file = tmp_path / "vault.db"
    sql(at(file)).close()

    class ReadOnly:
        f_flag = os.ST_RDONLY

    monkeypatch.setattr(os, "access", refuse := lambda *_, **__: False)
    monkeypatch.setattr(os, "supports_effective_ids", {refuse})
    monkeypatch.setattr(os, "statvfs", lambda _: ReadOnly)
    with pytest.raises(StoreUnavailableError, match=r"vault\.db is on a read-only file system"):
        open_store(at(file), key=KEY)


def test_a_full_disk_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    with closing(sql(at(tmp_path / "vault.db"))) as store:
        fill(store)
        before = content(store)
        with store._database.reading() as db:
            [(pages,)] = db.execute("PRAGMA page_count")
            db.execute(f"PRAGMA max_page_count = {pages}")  # as on a full disk
        many = [draw(f"r{number}", number) for number in range(1000)]
        with pytest.raises(StoreUnavailableError, match="the disk is full and nothing was stored"):
            store.commit(ANA, many)
        with store._database.reading() as db:
            db.execute("PRAGMA max_page_count = 1000000")
        assert store.verify() == ()
        assert content(store) == before
        store.commit(ANA, many)


def test_only_what_a_killed_maker_left_is_cleared_away(tmp_path: Path) -> None:
    """Not what one who lives is writing, a folder of other things, or where a link leads."""
    file, mine = tmp_path / "vault.db", tmp_path / "mine"
    left, alive, other, link = (tmp_path / f".vault.db.{digit * 16}" for digit in "0123")
    for folder in (left, alive, other, mine):
        folder.mkdir()
        (folder / "vault.db").touch()
    (left / "vault.db-wal").touch()
    (other / "letter").touch()
    link.symlink_to(mine)
    held = sqlite._locked(alive, wait=True)
    assert held is not None
    sql(at(file)).close()
    os.close(held)
    assert not left.exists()
    assert [each.name for each in other.iterdir()] == ["letter"]
    assert (mine / "vault.db").exists()
    assert (alive / "vault.db").exists()
    with closing(sql(at(file))) as store:
        store.erase(ANA)
    assert not alive.exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real disk of two megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        pytest.skip("this user may not mount a disk in memory")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)  # and so nobody holds a file there


def test_a_disk_that_fills_up_takes_nothing_that_was_there(small_disk: Path) -> None:
    url, ballast = at(small_disk / "vault.db"), small_disk / "ballast"
    with closing(sql(url, None)) as store:
        fill(store)
        store.flush()
        with suppress(OSError), ballast.open("wb", buffering=0) as out:
            while out.write(bytes(4096)) == 4096:
                pass

        def go_on() -> None:
            for name in (Principal(f"person {number}") for number in range(1000)):
                store.commit(name, [draw("age", 3, principal=name)])

        with pytest.raises(StoreUnavailableError, match="the disk is full"):
            go_on()
        before = content(store)
        for work in (
            lambda: store.rotate_key(OTHER_KEY),
            lambda: backup_store(store, small_disk / "backup"),
            lambda: sql(at(small_disk / "second.db")),
        ):
            with pytest.raises(StoreUnavailableError, match="the disk is full"):
                work()
        assert content(store) == before
        assert store.verify() == ()
    with closing(sql(url, None)) as store:  # on the full disk
        assert content(store) == before
    ballast.unlink()
    with closing(sql(url, None)) as store:
        store.commit(EVE, [draw("alt", 5, principal=EVE)])
        assert store.rotate_key(OTHER_KEY)
        assert store.verify() == ()
    left = {each.name for each in small_disk.iterdir()}
    assert left - {"second.db.key.new"} == {"vault.db", "vault.db.key"}


def test_a_key_file_that_cannot_be_read_or_written_says_why(file: Path, folder: Path) -> None:
    with without_rights():
        open_store(at(folder / "own.db")).close()
    key, target = folder / "own.db.key", folder / "away"
    text = key.read_text()

    def told() -> str:
        with without_rights(), pytest.raises(StoreKeyError) as caught:
            open_store(at(folder / "own.db"))
        return str(caught.value)

    key.chmod(0o000)
    assert f"the key file {key} cannot be read: this user may not" in told()
    key.unlink()
    key.mkdir()
    assert "it is a folder" in told()
    key.rmdir()
    key.symlink_to(target)
    assert "it is a link to a file that is not there" in told()
    with without_rights():
        target.write_text(text)
        target.chmod(0o600)
        open_store(at(folder / "own.db")).close()


@pytest.mark.parametrize(
    ("number", "told"),
    [(errno.ENOSPC, "the disk is full; make room"), (errno.EROFS, "the file system is read-only")],
)
def test_a_key_file_that_cannot_be_made_says_why(
    tmp_path: Path, number: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as broken:
        broken.setattr(os, "open", fail)
        with pytest.raises(StoreUnavailableError, match=f"the key file .* {told}"):
            open_store(at(tmp_path / "vault.db"))
    assert list(tmp_path.iterdir()) == []


_LIMITED = """
import resource, signal, sys
from rootguard.errors import StoreUnavailableError
from tests.support.store_contents import ANA, draw, sql
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = sql(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    for number in range(1000):
        store.commit(ANA, [draw(f"r{number}", number)])
except StoreUnavailableError as error:
    print(number, error)
"""


def test_a_limit_of_file_size_is_named_and_what_was_stored_stays(tmp_path: Path) -> None:
    url = at(tmp_path / "vault.db")
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, url],
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    number, _, told = done.stdout.partition(" ")
    assert "ulimit -f" in told
    assert int(number) > 0
    with closing(open_store(url, key=KEY)) as store:
        assert store.verify() == ()
        assert len(store.events(ANA)) == int(number)


CODES = {
    sqlite3.SQLITE_FULL: "disk is full",
    sqlite3.SQLITE_READONLY: "read-only",
    sqlite3.SQLITE_READONLY_DBMOVED: "moved while it was open",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened",
    sqlite3.SQLITE_PERM: "no right to the database file",
    sqlite3.SQLITE_IOERR: "refused to read or write",
    sqlite3.SQLITE_IOERR_WRITE: "refused to read or write",
    sqlite3.SQLITE_BUSY: "another process is writing; try again",
    sqlite3.SQLITE_LOCKED: "another session is writing; try again",
    sqlite3.SQLITE_NOMEM: "not enough memory",
    sqlite3.SQLITE_PROTOCOL: "cannot be used just now; try again",
}


@pytest.mark.parametrize("code", CODES)
def test_what_the_driver_says_is_told_in_words(code: int) -> None:
    error = sqlite3.OperationalError("SECRET of a statement")
    error.sqlite_errorcode = code
    told = sqlite._fault(error)
    assert isinstance(told, StoreUnavailableError)
    assert CODES[code] in str(told)
    assert "SECRET" not in str(told)
