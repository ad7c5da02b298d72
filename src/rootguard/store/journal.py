"""The writer of the audit log: what happened is written down off the caller's path, in batches.

Entries wait in memory, at most as many of each principal as the audit log keeps, and a thread of
its own writes them a moment later; it ends when there is nothing to do for a while. A store that
fails delays them and is reported once in the log; it never delays or fails a release. When the
process is killed, what waited is lost, and nothing else; in a power cut, the last moments as well.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from rootguard.store.base import LOG_SIZE, UnnumberedEntry
from rootguard.values import Principal

LOG: Final = logging.getLogger("rootguard.journal")
# A page that follows the log seems to follow at once, and a turn's events go in one transaction.
FLUSH_SECONDS: Final = 0.15
_PATIENCE: Final = 1.0  # after a failure, and for the thread when the store is closed
# The writer rests this many times as long as it worked: in a flood it takes a fifth of a store that
# has one writer at a time, and releases go on.
_SHARE: Final = 4
_LINGER: Final = 2.0  # idle seconds before the thread, and its connection, are given back


@dataclass(frozen=True, slots=True)
class Author:
    """Whose entries these are: a person by key and by name, and of which epoch, if it is known."""

    key: str
    principal: Principal
    epoch: int | None


Write = Callable[[Author, Sequence[UnnumberedEntry], int], None]
"""Keeps entries of a person; the last argument is how many before them were given up."""


class _Waiting:
    """One principal's entries that are not written yet, and how many had to make room."""

    __slots__ = ("entries", "given_up")

    def __init__(self) -> None:
        self.entries: deque[UnnumberedEntry] = deque(maxlen=LOG_SIZE)
        self.given_up = 0


class LogWriter:
    """Collects entries and writes them in batches."""

    def __init__(self, write: Write) -> None:
        self._write: Write | None = write
        # Two locks, always taken in the order writing, then waiting: `note` needs the second alone
        # and so never waits for a database. Both are re-entrant, because a store that is collected
        # may close this from within.
        self._writing = threading.RLock()
        self._lock = threading.RLock()
        self._waiting: dict[Author, _Waiting] = {}
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._told = False

    def note(self, author: Author, entry: UnnumberedEntry) -> None:
        """Take an entry; a thread will write it soon."""
        with self._lock:
            waiting = self._waiting.get(author)
            if waiting is None:
                waiting = self._waiting[author] = _Waiting()
            if len(waiting.entries) == LOG_SIZE:
                waiting.given_up += 1
            waiting.entries.append(entry)
            if self._thread is None and not self._ending.is_set():
                self._start()
        if not self._wake.is_set():
            self._wake.set()

    def flush(self) -> bool:
        """Write everything that waits; says whether it could be written."""
        with self._writing:
            write = self._write
            if write is None:
                return True
            with self._lock:
                taken, self._waiting = self._waiting, {}
            failed: dict[Author, _Waiting] = {}
            for author, waiting in taken.items():
                try:
                    write(author, tuple(waiting.entries), waiting.given_up)
                except Exception as problem:  # noqa: BLE001 - a journal never fails a release
                    failed[author] = waiting
                    self._tell(problem)
            self._put_back(failed)
            return not failed

    def forget(self, key: str, epoch: int) -> None:
        """Drop what waits of a person whose profile was erased, from before this epoch."""
        # Not `_writing`: the writer may be busy with others, and whoever erases would wait for it.
        # What it has taken already is dropped when it finds that the epoch is another one.
        with self._lock:
            for author in [each for each in self._waiting if each.key == key]:
                if author.epoch is None or author.epoch < epoch:
                    del self._waiting[author]

    def close(self) -> None:
        """Write what waits, and write nothing more. The thread and its connection are gone then."""
        with self._lock:
            self._ending.set()
            thread = self._thread
        self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_PATIENCE)
        self.flush()  # after the thread: it may have taken entries that it puts back
        self._write = None

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="rootguard-journal", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread to be had, or the interpreter is ending
            return
        self._thread = thread

    def _run(self) -> None:
        rest = FLUSH_SECONDS
        while not self._ending.wait(rest):
            self._wake.clear()
            began = time.monotonic()
            done = self.flush()
            rest = max(FLUSH_SECONDS, _SHARE * (time.monotonic() - began))
            if not done:
                rest = max(rest, _PATIENCE)
                continue
            if not self._wake.wait(_LINGER):
                with self._lock:  # as in `note`: nobody can leave an entry between look and end
                    if not self._waiting:
                        self._thread = None
                        return

    def _put_back(self, failed: dict[Author, _Waiting]) -> None:
        """What could not be written waits again, before what came meanwhile."""
        with self._lock:
            for author, old in failed.items():
                new = self._waiting.get(author, _Waiting())
                together = [*old.entries, *new.entries]
                old.given_up += new.given_up + max(0, len(together) - LOG_SIZE)
                old.entries = deque(together, maxlen=LOG_SIZE)
                self._waiting[author] = old

    def _tell(self, problem: Exception) -> None:
        if not self._told:
            self._told = True
            LOG.warning(
                "the audit log could not be written (%s); releases go on, and so do attempts",
                type(problem).__name__,
            )
