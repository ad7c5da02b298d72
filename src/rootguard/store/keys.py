"""Where a store's master key comes from: an argument, ROOTGUARD_KEY, the keyring, or a key file.

The place of a key holds a ring: one key a line, the newest last, mostly a single one. Whoever
changes the key writes the ring of both before the store is under the new one, and takes the old
one out when no row needs it, each while no other writer can run. So the ring has the store's key at
any moment, whoever is cut off where. Who opens a store only reads a ring.

The key of a new store is set aside in `<file>.new` and put in its place when the store is there; if
its maker is cut off, by whoever opens it first. So a key in its place proves that there was a
store: if it is gone then, that is damage, and no fresh one is made over it. A key that is only set
aside proves that nobody has opened one.
"""

import base64
import binascii
import errno
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, Self

import platformdirs

from rootguard.errors import StoreKeyError, StoreUnavailableError
from rootguard.store.envelope import KEY_BYTES

VARIABLE = "ROOTGUARD_KEY"
NEXT_VARIABLE = "ROOTGUARD_NEW_KEY"
_SERVICE = "rootguard"
_TRIES = 100  # each failure means that another process has just opened a store here
# What tells databases of servers apart. A user, a timeout or an application's name does not.
_ADDRESS = ("dbname", "host", "hostaddr", "port", "service")


class _Keyring(Protocol):
    def get_password(self, service: str, username: str) -> str | None: ...
    def set_password(self, service: str, username: str, password: str) -> None: ...
    def delete_password(self, service: str, username: str) -> None: ...


def data_directory() -> Path:
    """Where stores and keys are kept unless somebody says otherwise."""
    return Path(platformdirs.user_data_dir("rootguard"))


def given_key(key: bytes | None) -> bytes | None:
    """The key from the argument or the environment, if there is one there."""
    if key is not None:
        if len(key) != KEY_BYTES:
            raise StoreKeyError(f"a store key is {KEY_BYTES} bytes; this one has {len(key)}")
        return key
    text = os.environ.get(VARIABLE)
    return None if text is None else _decode(text, f"the variable {VARIABLE}")


class GivenKeys:
    """A key that somebody gave and keeps, and the one in ROOTGUARD_NEW_KEY that is to follow it."""

    def __init__(self, key: bytes) -> None:
        self._keys: tuple[bytes, ...] = (key,)

    def of(self, store_id: bytes) -> Self:  # noqa: ARG002
        return self

    def candidates(self) -> tuple[bytes, ...]:
        text = os.environ.get(NEXT_VARIABLE)
        if text is None:
            return self._keys
        return (*self._keys, _decode(text, f"the variable {NEXT_VARIABLE}"))

    def unsettled(self) -> bool:
        return False

    def locked(self) -> AbstractContextManager[None]:
        return nullcontext()

    def write(self, *keys: bytes) -> None:
        self._keys = keys

    def settle(self, key: bytes) -> None:
        self._keys = (key,)

    def refusal(self) -> StoreKeyError:
        return StoreKeyError("the key does not open this store")

    def outdated(self) -> StoreKeyError:
        return StoreKeyError(
            "the store's key was changed, and the new one is not known here; open the store again"
            f" with it (a process that has it in {NEXT_VARIABLE} goes on by itself)"
        )

    def __repr__(self) -> str:
        return "<given keys>"


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyPlace:
    """Where one store's ring is kept: an account in the keyring, or a file for its owner alone."""

    file: Path
    account: str
    pointer: Path | None = None
    """Of an address: the file that says which vault is there. Its id then names the key's place."""
    former: tuple["KeyPlace", ...] = ()
    """Where the key may be as well: where it waits for its store, or where 0.1 kept it."""

    @classmethod
    def beside(cls, path: Path) -> "KeyPlace":
        """The place of the key of a database file."""
        path = path.absolute()
        return cls(file=path.with_name(path.name + ".key"), account=str(path))

    @classmethod
    def of_server(cls, where: str) -> "KeyPlace":
        """The place of a database on a server; `where` is JSON and holds no password."""
        options = json.loads(where)
        address = {name: options[name] for name in _ADDRESS if name in options}
        place, whole = (cls._digested(text) for text in (json.dumps(address), where))
        return replace(
            place,
            pointer=data_directory() / "vaults" / place.file.stem,
            former=() if whole == place else (whole,),
        )

    @classmethod
    def _digested(cls, where: str) -> "KeyPlace":
        digest = hashlib.sha256(where.encode()).hexdigest()[:32]
        return cls(file=data_directory() / "keys" / f"{digest}.key", account=f"server {digest}")

    def of(self, store_id: bytes) -> "KeyPlace":
        """The place of a store's own key, once its id is known."""
        if self.pointer is None:
            return self
        name = store_id.hex()
        return KeyPlace(
            file=self.file.with_name(f"{name}.key"),
            account=f"vault {name}",
            former=(replace(self, former=()), *self.former),
        )

    @property
    def reserved(self) -> Path:
        """Where a key waits until the store knows it."""
        return self.file.with_name(self.file.name + ".new")

    def occupied(self) -> bool:
        """Whether a key is in its place, which means that there was a store."""
        return (
            os.path.lexists(self.trace())  # also a link to a disk that is not mounted
            or bool(self._from_keyring())
            or any(place.occupied() for place in self.former)
        )

    def trace(self) -> Path:
        """The file that shows that there was a store."""
        if self.pointer is not None and self.pointer.exists():
            return self.pointer
        return next((p.file for p in self.former if p.file.exists()), self.file)

    def unsettled(self) -> bool:
        """Whether a key waits and none is in its place: a new store's maker was cut off."""
        there = os.path.lexists(self.file) or bool(self._from_keyring())
        return self.reserved.exists() and not there

    def candidates(self) -> tuple[bytes, ...]:
        """The keys that may open the store."""
        found = [*self._from_keyring(), *_look(self.file), *_look(self.reserved)]
        for place in self.former:
            found += place.candidates()
        return tuple(dict.fromkeys(found))

    def reserve(self) -> bytes:
        """Set a key aside for a new store; of racing processes, one's key."""
        for _ in range(_TRIES):
            _write(self.reserved, _ring(secrets.token_bytes(KEY_BYTES)), replace=False)
            for found in _look(self.reserved):
                return found
            # Another process has just put the key in its place. Whatever is reserved now opens
            # nothing, and is cleared away when its maker finds that another was faster.
        raise StoreUnavailableError(f"the key file {self.reserved} keeps vanishing; try again")

    @contextmanager
    def kept(self, key: bytes) -> Iterator[None]:
        """Keep the key of a store that is put here meanwhile; refuse to beside another's key."""
        there = {*self._from_keyring(), *_look(self.file), *_look(self.reserved)}
        if there and key not in there:
            raise StoreKeyError(
                f"the key of another vault is kept for this place ({self.where()}); nothing was"
                " written: restore the backup of that vault, or move its key away"
            )
        if not there:
            _write(self.reserved, _ring(key), replace=False)
        try:
            yield
        except BaseException:
            if not there:
                self.withdraw()
            raise
        self._point()
        if there <= {key}:  # other keys may be those of later backups
            self.settle(key)

    def where(self) -> str:
        """Where the key is, in words."""
        files = [place.file for place in (self, *self.former) if place.file.exists()]
        return str(files[0]) if files else "the system's keyring"

    def withdraw(self) -> None:
        """Drop the key that was set aside, because no store is under it."""
        _clear(self.reserved)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep others on this machine from writing the ring.

        The database's own lock does it, unless its server drops our connection and the lock with it
        after we have looked. Whoever looks at the database and writes within this cannot be passed.
        """
        if os.name != "posix":
            yield
            return
        import fcntl

        with write_refusals(self.file):
            _make_directory(self.file.parent)
            descriptor = os.open(self.file.parent, os.O_RDONLY)
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def write(self, *keys: bytes) -> None:
        """Put a ring in its place; the newest key comes last.

        What is there goes, unless a copy of the vault has its key in this place as well.
        """
        earlier = (*self._from_keyring(), *_look(self.file)) if self.shared() else ()
        ring = _ring(*(each for each in earlier if each not in keys), *keys)
        if self.file.exists() or not self._to_keyring(ring):
            # Where a link leads, as to a disk of keys: the link stays.
            _write(Path(os.path.realpath(self.file)), ring, replace=True)
        for place in self.former:
            # A key elsewhere may be of another vault at this address: those in the ring are ours.
            if set(place.candidates()) & set(keys):
                _clear(place.file, place.reserved)
                place._leave_keyring()

    def settle(self, key: bytes) -> None:
        """Leave the one key that opens the store, and no other unless a copy may be under it."""
        self.write(key)
        if not self.addresses():
            self._point()
        self.withdraw()
        _clear(*_drafts(Path(os.path.realpath(self.file))), *_drafts(self.reserved))
        if self.file.exists():
            self._leave_keyring()

    def addresses(self) -> list[Path]:
        """Of a server's vault: a file for each address where it was made or copied to from here."""
        found: list[Path] = []
        for folder in {each.pointer.parent for each in self.former if each.pointer is not None}:
            with suppress(OSError):
                for file in sorted(folder.iterdir()):
                    with suppress(OSError):
                        if file.read_text(errors="replace").strip() == self.file.stem:
                            found.append(file)
        return found

    def shared(self) -> bool:
        """Whether a copy may need a key that the vault itself needs no more."""
        return len(self.addresses()) > 1

    def _point(self) -> None:
        """Write down that the vault is at this address."""
        for place in self.former:
            if place.pointer is not None:
                _write(place.pointer, f"{self.file.stem}\n", replace=True)

    def refusal(self) -> StoreKeyError:
        """What to say where nothing here opens the store."""
        if self.candidates():
            return StoreKeyError("the key does not open this store")
        return StoreKeyError(
            "there is no key for this store; set ROOTGUARD_KEY or put its key file back at"
            f" {self.file}"
        )

    def outdated(self) -> StoreKeyError:
        """What to say where somebody changed the key, and the new one is not here."""
        return StoreKeyError(
            f"the store's key was changed elsewhere, and the new one is not at {self.file}; put it"
            " there, or open the store again with it in ROOTGUARD_KEY"
        )

    def _from_keyring(self) -> tuple[bytes, ...]:
        ring = _usable_keyring()
        text: str | None = None
        if ring is not None:
            with suppress(Exception):  # a locked or broken keyring is one without our key
                text = ring.get_password(_SERVICE, self.account)
        return () if text is None else _read_ring(text, "the key in the system's keyring")

    def _to_keyring(self, text: str) -> bool:
        ring = _usable_keyring()
        if ring is not None:
            with suppress(Exception):  # whatever a backend raises, the file is there instead
                ring.set_password(_SERVICE, self.account, text.strip())
                return ring.get_password(_SERVICE, self.account) == text.strip()
        return False

    def _leave_keyring(self) -> None:
        ring = _usable_keyring()
        if ring is not None:
            with suppress(Exception):  # mostly because there is nothing of ours
                ring.delete_password(_SERVICE, self.account)


def _usable_keyring() -> _Keyring | None:
    """The system's keyring, unless it is one of the package's stand-ins that keep nothing."""
    try:
        import keyring
        from keyring.backends import chainer, fail, null
    except ImportError:
        return None
    ring = keyring.get_keyring()
    if isinstance(ring, fail.Keyring | null.Keyring):
        return None
    if isinstance(ring, chainer.ChainerBackend) and not ring.backends:
        return None
    return ring


def _decode(text: str, source: str) -> bytes:
    text = text.strip()
    key = b""
    with suppress(ValueError):
        key = bytes.fromhex(text)
    if len(key) != KEY_BYTES:
        with suppress(ValueError, binascii.Error):
            key = base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    if len(key) != KEY_BYTES:
        raise StoreKeyError(f"{source} is not {KEY_BYTES} bytes in hexadecimal or base64")
    return key


def _ring(*keys: bytes) -> str:
    return "".join(f"{key.hex()}\n" for key in dict.fromkeys(keys))


def _read_ring(text: str, source: str) -> tuple[bytes, ...]:
    return tuple(_decode(line, source) for line in text.strip().splitlines() or [""])


def _look(file: Path) -> tuple[bytes, ...]:
    """The ring in a file; empty if there is no file, also if it vanished just now."""
    mode, text, problem = 0, "", ""
    try:
        mode, text = file.stat().st_mode, file.read_text(errors="replace")
    except FileNotFoundError:
        if not file.is_symlink():
            return ()
        problem = "it is a link to a file that is not there; restore that file"
    except IsADirectoryError:
        problem = "it is a folder; remove it, and put the key file there"
    except PermissionError:
        problem = "this user may not; give it to the user who runs this (chown, chmod 600)"
    except OSError as error:
        problem = f"{error.strerror or 'the system refused'}; restore it from its backup"
    if problem:
        raise StoreKeyError(f"the key file {file} cannot be read: {problem}")
    if os.name == "posix" and mode & 0o077:
        raise StoreKeyError(f"others can read the key file {file}; run: chmod 600 {file}")
    return _read_ring(text, f"the key file {file}")


def _drafts(file: Path) -> list[Path]:
    """What those who were killed while they wrote a file left beside it."""
    name = re.compile(rf"\.{re.escape(file.name)}\.[0-9a-f]{{16}}")
    with suppress(OSError):
        return [each for each in file.parent.iterdir() if name.fullmatch(each.name)]
    return []


def _write(file: Path, text: str, *, replace: bool) -> None:
    """Write a file in one step that lasts; without `replace`, one that is there stays."""
    # Whoever settles a key clears away what killed writers left beside it, and cannot tell the
    # draft of a living one from those: it is then written once more, and each time by one fewer.
    for last in (*(False,) * _TRIES, True):
        draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
        try:
            with write_refusals(file), nullcontext() if last else suppress(FileNotFoundError):
                _make_directory(file.parent)
                opened = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
                with os.fdopen(opened, "w") as out:
                    out.write(text)
                    out.flush()
                    os.fsync(out.fileno())
                if replace:
                    draft.replace(file)
                else:
                    with suppress(FileExistsError):
                        file.hardlink_to(draft)
                sync_directory(file.parent)
                return
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)


def refusal_of(error: OSError, folder: Path) -> str:
    """Why the system refused to write in a folder, and what to do."""
    match error.errno:
        case errno.ENOSPC:
            return "the disk is full; make room on it"
        case errno.EDQUOT:
            return "the disk quota of this user is used up; make room, or have it raised"
        case errno.EFBIG:
            return "a limit of file size is reached; raise it (ulimit -f)"
        case errno.EROFS:
            return "the file system is read-only; mount it writable, or choose another place"
        case errno.EACCES | errno.EPERM:
            return (
                f"this user may not write in {folder}; change its owner or mode (chown, chmod u+w),"
                " or choose another place"
            )
        case errno.ENOTDIR | errno.EEXIST:
            found = next((each for each in (folder, *folder.parents) if each.is_file()), folder)
            return f"{found} is a file, not a folder; choose another path"
        case errno.EMFILE | errno.ENFILE:
            return "too many files are open; close some, or raise the limit (ulimit -n)"
        case _:
            return f"{error.strerror or 'the system refused'}; choose another place"


@contextmanager
def write_refusals(
    file: Path, said: str = "the key file {} cannot be written: {}"
) -> Iterator[None]:
    """Say which file the system refused, and why."""
    problem = ""
    try:
        yield
    except OSError as error:
        problem = refusal_of(error, file.parent)
    if problem:
        raise StoreUnavailableError(said.format(file, problem))


def _clear(*files: Path) -> None:
    for file in files:
        with write_refusals(file):
            file.unlink(missing_ok=True)


def _make_directory(directory: Path) -> None:
    """A directory for its owner alone, with every name on the way to it on the disk."""
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in missing:
        sync_directory(each.parent)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory last through a power cut, where the system can."""
    if os.name == "posix":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def fresh_id() -> bytes:
    """The id of a new store."""
    return secrets.token_bytes(16)


def fresh_key() -> bytes:
    """A new master key: from ROOTGUARD_NEW_KEY, else made here.

    A key that came from ROOTGUARD_KEY is kept by whoever set it, and so must the new one be.
    """
    text = os.environ.get(NEXT_VARIABLE)
    if text is not None:
        return _decode(text, f"the variable {NEXT_VARIABLE}")
    if VARIABLE in os.environ:
        raise StoreKeyError(f"the key comes from {VARIABLE}: give the new one in {NEXT_VARIABLE}")
    return secrets.token_bytes(KEY_BYTES)
