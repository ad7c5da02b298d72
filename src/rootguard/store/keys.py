"""Where a store's master key comes from: an argument, ROOTGUARD_KEY, the keyring, or a key file.

A key is set aside in `<file>.new` before the store knows it, and put in its place after. So a crash
at any point leaves a key that opens the store, and a key in its place proves that there was a
store: if the store is gone then, that is damage, and no fresh one is made over it.
"""

import base64
import binascii
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import platformdirs

from rootguard.errors import StoreKeyError, StoreUnavailableError
from rootguard.store.envelope import KEY_BYTES

VARIABLE = "ROOTGUARD_KEY"
NEXT_VARIABLE = "ROOTGUARD_NEW_KEY"
_SERVICE = "rootguard"
_TRIES = 100  # each failure means that another process has just opened a store here


class _Keyring(Protocol):
    def get_password(self, service: str, username: str) -> str | None: ...
    def set_password(self, service: str, username: str, password: str) -> None: ...


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


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyPlace:
    """Where one store's key is kept: an account in the keyring, or a file for its owner alone."""

    file: Path
    account: str

    @classmethod
    def beside(cls, path: Path) -> "KeyPlace":
        """The place of the key of a database file."""
        path = path.absolute()
        return cls(file=path.with_name(path.name + ".key"), account=str(path))

    @classmethod
    def of_server(cls, where: str) -> "KeyPlace":
        """The place of the key of a database on a server; `where` holds no password."""
        digest = hashlib.sha256(where.encode()).hexdigest()[:32]
        return cls(file=data_directory() / "keys" / f"{digest}.key", account=f"server {digest}")

    @property
    def reserved(self) -> Path:
        """Where a key waits until the store knows it."""
        return self.file.with_name(self.file.name + ".new")

    def occupied(self) -> bool:
        """Whether a key is in its place, which means that there was a store."""
        return self.file.exists() or self._from_keyring() is not None

    def candidates(self) -> Iterator[bytes]:
        """The keys that may open the store, likeliest first."""
        key = self._from_keyring()
        if key is not None:
            yield key
        for file in (self.file, self.reserved):
            if (key := _look(file)) is not None:
                yield key

    def reserve(self, key: bytes | None = None) -> bytes:
        """Set a key aside, for a new store or a change of key; of racing processes, one's key."""
        if key is not None:
            _write(self.reserved, key, replace=True)
            return key
        for _ in range(_TRIES):
            _write(self.reserved, secrets.token_bytes(KEY_BYTES), replace=False)
            found = _look(self.reserved)
            if found is not None:
                return found
            # Another process has just put the key in its place. Whatever is reserved now opens
            # nothing, and is cleared away when the store is opened.
        raise StoreUnavailableError(f"the key file {self.reserved} keeps vanishing; try again")

    def settle(self, key: bytes) -> None:
        """Put the key that opens the store in its place."""
        if self.file.exists() or not self._to_keyring(key):
            _write(self.file, key, replace=True)
        self.reserved.unlink(missing_ok=True)

    def _from_keyring(self) -> bytes | None:
        ring = _usable_keyring()
        text: str | None = None
        if ring is not None:
            with suppress(Exception):  # a locked or broken keyring is one without our key
                text = ring.get_password(_SERVICE, self.account)
        return None if text is None else _decode(text, "the key in the system's keyring")

    def _to_keyring(self, key: bytes) -> bool:
        ring = _usable_keyring()
        if ring is not None:
            with suppress(Exception):  # whatever a backend raises, the file is there instead
                ring.set_password(_SERVICE, self.account, key.hex())
                return ring.get_password(_SERVICE, self.account) == key.hex()
        return False


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


def _look(file: Path) -> bytes | None:
    """The key in a file; None if there is no file, also if it vanished just now."""
    mode, text = 0, None
    try:
        mode, text = file.stat().st_mode, file.read_text(errors="replace")
    except FileNotFoundError:
        return None
    except OSError:
        pass
    if text is None:
        raise StoreKeyError(
            f"the key file {file} cannot be read; give it to the user who runs this"
        )
    if os.name == "posix" and mode & 0o077:
        raise StoreKeyError(f"others can read the key file {file}; run: chmod 600 {file}")
    return _decode(text, f"the key file {file}")


def _write(file: Path, key: bytes, *, replace: bool) -> None:
    """Write a key file in one step; without `replace`, a file that is there stays."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    problem = ""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as out:
            out.write(key.hex() + "\n")
            out.flush()
            os.fsync(out.fileno())
        if replace:
            draft.replace(file)
        else:
            with suppress(FileExistsError):
                file.hardlink_to(draft)
    except OSError as error:
        problem = error.strerror or "the system refused"
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    if problem:
        raise StoreUnavailableError(f"the key file {file} cannot be written: {problem}")


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
