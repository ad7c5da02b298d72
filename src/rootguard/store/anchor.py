"""The anchor: how far a store had come, in a file outside of it.

Whoever can write a database can put back an older copy of it, or of one person's rows, and every
seal in it holds. The anchor tells: for each person the epoch and the revision that were committed
last, which only grow, and how many runs of tables and quantities there were. It is advanced after a
commit and read before a transaction, so it is never ahead of what the transaction must see. A crash
in between leaves it behind, which hides nothing that was anchored before.

The file has a line of JSON for the vault and one for each advance. Each ends with a keyed digest of
itself and of all lines before, under a secret of the store that is never changed. It is as safe as
the place it is kept in: who can put back both the store and its anchor is not seen.
"""

import hashlib
import hmac
import json
import os
import secrets
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rootguard.errors import (
    StoreDamagedError,
    StoreError,
    StoreRolledBackError,
)
from rootguard.store.base import Cell, Database, Transaction
from rootguard.store.envelope import Begin, WrappedDatabase, anchor_key, canonical
from rootguard.store.keys import sync_directory, write_refusals

TABLES: Final = "tables"
QUANTITIES: Final = "quantities"
"""Under these names stand counts; everything else is a person's key."""
_FORMAT: Final = 1  # in the file's first line, under the seal of all that follow
_DIGEST: Final = 16  # bytes
_SLACK: Final = 1000  # lines more than needed before the file is written anew
_OPEN: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class _Mark:
    """How far something had come, and when this process learnt of it."""

    epoch: int
    revision: int
    learnt: int


class Anchor:
    """One anchor file, as this process knows it. Safe to use from any thread and process."""

    def __init__(self, path: Path, fingerprint: bytes, vault: str) -> None:
        self.path = path
        self._key = anchor_key(fingerprint)
        self._vault = vault
        self._lock = threading.Lock()  # over everything below
        self._marks: dict[str, _Mark] = {}
        self._learnt = 0
        self._file: tuple[int, int] | None = None
        self._seen: tuple[int, ...] = ()
        self._end = 0
        self._lines = 0
        self._digest = b""

    @classmethod
    def open(cls, path: Path, fingerprint: bytes, vault: str) -> "Anchor":
        """The anchor of a store; refuses one that is missing, altered or another store's."""
        anchor = cls(path, fingerprint, vault)
        anchor.moment()
        return anchor

    @classmethod
    def create(cls, path: Path, fingerprint: bytes, vault: str) -> "Anchor":
        """The same, made if there is none."""
        anchor = cls(path, fingerprint, vault)
        with anchor._lock, anchor._exclusive():
            if not path.exists():
                anchor._write_anew()
            anchor._refresh()
        return anchor

    def moment(self) -> int:
        """What is asked for before a transaction begins, and given to `check` within it."""
        with self._lock:
            self._refresh()
            return self._learnt

    def check(self, moment: int, name: str, epoch: int, revision: int) -> None:
        """Refuse somebody, or a count, that was further at that moment."""
        if self.behind(moment, name, epoch, revision):
            raise rolled_back(self.path)

    def behind(self, moment: int, name: str, epoch: int, revision: int) -> bool:
        mark = self._marks.get(name)
        # What was learnt later may have been committed later than the transaction began.
        return (
            mark is not None
            and mark.learnt <= moment
            and (epoch < mark.epoch or revision < mark.revision)
        )

    def people(self, moment: int) -> frozenset[str]:
        """Everybody who was anchored at that moment."""
        with self._lock:
            return frozenset(
                name
                for name, mark in self._marks.items()
                if mark.learnt <= moment and name not in {TABLES, QUANTITIES}
            )

    def advance(self, *reached: tuple[str, int, int]) -> None:
        """Write down how far something has come: its name, epoch and revision, as committed."""
        if not any(self._new(*each) for each in reached):
            return
        with self._lock, self._exclusive():
            self._refresh()
            new = [each for each in reached if self._new(*each)]
            if self._lines > 4 * len(self._marks) + _SLACK:
                self._write_anew()
                self._refresh()
            if new:
                self._append(new)
                self._refresh()

    def _new(self, name: str, epoch: int, revision: int) -> bool:
        mark = self._marks.get(name)
        if mark is None:
            return bool(epoch or revision)
        return epoch > mark.epoch or revision > mark.revision

    def _append(self, reached: Iterable[tuple[str, int, int]]) -> None:
        digest, lines = self._digest, b""
        for each in reached:
            digest, line = self._line(digest, *each)
            lines += line
        with _told(self.path), self.path.open("r+b") as file:
            file.truncate(self._end)  # of a line that a crash cut off
            file.seek(self._end)
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())

    def _write_anew(self) -> None:
        """Write the file in one step, without the lines that later ones have overtaken."""
        digest, lines = self._line(b"", _FORMAT, self._vault)
        for name, mark in self._marks.items():
            digest, line = self._line(digest, name, mark.epoch, mark.revision)
            lines += line
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        try:
            with _told(self.path):
                descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(lines)
                    file.flush()
                    os.fsync(file.fileno())
                draft.replace(self.path)
                sync_directory(self.path.parent)
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)

    def _line(self, before: bytes, *cells: Cell) -> tuple[bytes, bytes]:
        digest = self._seal(before, *cells)
        return digest, json.dumps([*cells, digest.hex()]).encode() + b"\n"

    def _seal(self, before: bytes, *cells: Cell) -> bytes:
        return hmac.digest(self._key, canonical(before, *cells), hashlib.sha256)[:_DIGEST]

    def _refresh(self) -> None:
        """Read what was added since; all of it if the file is another one."""
        added, begun = b"", 0
        there: os.stat_result | None = None
        with _told(self.path):
            try:
                if self._seen == _state(self.path.stat()):
                    return  # the usual case
                with self.path.open("rb") as file:
                    there = os.fstat(file.fileno())
                    if self._file != (there.st_ino, there.st_dev) or there.st_size <= self._end:
                        self._file = (there.st_ino, there.st_dev)
                        self._end, self._lines, self._digest = 0, 0, b""
                    begun = self._lines
                    file.seek(self._end)
                    added = file.read()
            except FileNotFoundError:
                pass
        if there is None:
            raise StoreError(
                f"there is no anchor at {self.path}; put it back, or, if there never was one, make"
                f" it with `rootguard vault verify --anchor {self.path}`"
            )
        try:
            self._read(added[: added.rfind(b"\n") + 1])
        except StoreDamagedError:
            if not begun:
                raise
            # It may be another file, which was given the number of one that is gone.
            self._refresh()
        else:
            self._seen = _state(there)

    def _read(self, added: bytes) -> None:
        for line in added.splitlines(keepends=True):
            cells: list[Cell] = []
            with suppress(ValueError, TypeError, IndexError):
                *cells, seal = json.loads(line)
                digest = self._seal(self._digest, *cells)
                if not hmac.compare_digest(digest.hex(), seal):
                    cells = []
            if not self._lines and cells[1:] != [self._vault]:
                self._file = None
                raise StoreDamagedError(
                    f"the anchor {self.path} was altered, or is another vault's; give the one of"
                    " this vault"
                )
            if not cells:
                self._file = None
                raise StoreDamagedError(f"the anchor {self.path} was altered; restore its backup")
            if self._lines:
                self._learn(*cells)
            self._digest = digest
            self._end += len(line)
            self._lines += 1
        if not self._lines:
            self._file = None
            raise StoreDamagedError(f"the anchor {self.path} is cut off; restore its backup")

    def _learn(self, name: Cell, epoch: Cell, revision: Cell) -> None:
        name, epoch, revision = str(name), int(epoch), int(revision)
        if self._new(name, epoch, revision):
            self._learnt += 1
            there = self._marks.get(name, _Mark(0, 0, 0))
            mark = _Mark(max(epoch, there.epoch), max(revision, there.revision), self._learnt)
            self._marks[name] = mark

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Keep other processes from writing the file."""
        lock = self.path.with_name(f"{self.path.name}.lock")
        with _told(self.path):
            descriptor = os.open(lock, _OPEN, 0o600)
        try:
            if os.name == "posix":
                import fcntl

                with suppress(OSError):  # a file system without locks
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def __repr__(self) -> str:
        return "<anchor>"


def _state(file: os.stat_result) -> tuple[int, ...]:
    """What is another if the file is another, or has changed."""
    return file.st_ino, file.st_dev, file.st_size, file.st_mtime_ns


class _Thread(threading.local):
    moment = 0


class AnchoredDatabase(WrappedDatabase):
    """A database that looks at the anchor before each transaction, for what is read in it."""

    def __init__(self, database: Database, anchor: Anchor) -> None:
        super().__init__(database)
        self._thread = _Thread()
        self.anchor = anchor

    @property
    def moment(self) -> int:
        """When this thread's transaction began, for the anchor."""
        return self._thread.moment

    @contextmanager
    def _transaction(self, begin: Begin) -> Iterator[Transaction]:
        before, self._thread.moment = self._thread.moment, self.anchor.moment()
        try:
            with begin() as db:
                yield db
        finally:
            self._thread.moment = before

    def __repr__(self) -> str:
        return "<anchored database>"


def rolled_back(path: Path) -> StoreRolledBackError:
    """The refusal of a store that is behind its anchor."""
    return StoreRolledBackError(
        f"the store was put back to an earlier state than the anchor {path} knows: a profile, a"
        " cap, an erasure or a table is older or gone. Restore the latest backup. Should an older"
        " state be used on purpose, remove the anchor and make it again (rootguard vault verify"
        " --anchor); what was noised since will then be noised a second time"
    )


def _told(path: Path) -> AbstractContextManager[None]:
    return write_refusals(path, "the anchor {} cannot be used: {}; nothing was released")
