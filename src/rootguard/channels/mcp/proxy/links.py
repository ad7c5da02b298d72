"""Lines over pipes: the proxy's own standard streams, and the process of a server behind it.

Plain threads and blocking reads: a call crosses the proxy without an event loop, which keeps it
nearly as quick as without the proxy. Lines are bounded. What a process does not read is held for it
up to a limit, so that one that hangs holds nobody else up.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, Protocol, Self

from rootguard.channels.faults import Code, RequestRefusedError
from rootguard.channels.mcp.jsonrpc import Limits, Message, write

_GRACE: Final = 2.0
"""Seconds that a server has to end by itself once its input is closed, as the protocol asks it to,
and then to be gone once it is killed. The client waits for both."""
_PIPE: Final = 64 * 1024
"""Bytes read or written at once: what a pipe holds on Linux."""
_LOOK: Final = 0.5
"""Seconds after which a writer that waits for a full pipe looks whether it was closed."""
_OWN: Final = ("ROOTGUARD_", "PGPASS", "PGUSER", "PGHOST", "PGSERVICE")
"""Variables that are for the vault, and not for a server behind the proxy."""


class Link(Protocol):
    """A way to a server. What it says goes to the two functions that the link was made with."""

    def send(self, message: Message) -> None:
        """Send a message. Raises OSError if the way is gone and ValueError if it is no JSON."""
        ...

    def close(self, *, at_once: bool = False) -> None:
        """End it: politely, or at once."""
        ...


Hear = Callable[[bytes], None]
Lost = Callable[[Code], None]
Connect = Callable[[Hear, Lost, Limits], Link]


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ServerCommand:
    """A server to be started. Its arguments and environment may hold secrets."""

    words: Sequence[str]
    variables: dict[str, str] = field(default_factory=dict)
    folder: str | None = None

    def __call__(self, hear: Hear, lost: Lost, limits: Limits) -> "ServerProcess":
        return ServerProcess(self, hear, lost, limits)


class ServerProcess:
    """A server in a process of its own, spoken to over its standard streams."""

    def __init__(self, command: ServerCommand, hear: Hear, lost: Lost, limits: Limits) -> None:
        self._process = _started(command)
        if self._process.stdin is None or self._process.stdout is None:
            raise RequestRefusedError("internal")
        self._pipe = self._process.stdin
        self._limits = limits
        self._waiting = bytearray()
        # Guards `_waiting`, `_closed` and the order of lines. Whoever sends writes to the pipe
        # itself, since waking another thread costs more than the write; `_flush` has a thread for
        # what a pipe does not take, so that a server that does not read holds nobody up.
        self._lock = threading.Condition()
        self._closed = False
        self._eager = os.name == "posix"  # elsewhere a pipe cannot be written without waiting
        if self._eager:
            os.set_blocking(self._pipe.fileno(), False)
        # The reader has a descriptor of its own: closing the process's from another thread while
        # this one reads would let it read from whatever gets the number next.
        reader = os.fdopen(os.dup(self._process.stdout.fileno()), "rb", buffering=_PIPE)
        self._process.stdout.close()
        threading.Thread(target=self._read, args=(reader, hear, lost), daemon=True).start()
        threading.Thread(target=self._flush, daemon=True).start()

    def send(self, message: Message) -> None:
        """Write a line at once, as far as the process reads; the rest is held for it."""
        line = write(message)
        with self._lock:
            if self._closed:
                raise BrokenPipeError
            done = 0
            if self._eager and not self._waiting:
                with suppress(BlockingIOError):
                    done = os.write(self._pipe.fileno(), line)
            if done < len(line):
                if len(self._waiting) + len(line) > self._limits.waiting:
                    raise BrokenPipeError
                self._waiting += line[done:]
                self._lock.notify()

    def close(self, *, at_once: bool = False) -> None:
        """Close its input, wait, and end what is left of it and of its children."""
        with self._lock:
            first, self._closed = not self._closed, True
            self._lock.notify()
            if first:
                with suppress(OSError):
                    self._pipe.close()
        if not at_once:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE)
        self._kill()

    def _kill(self) -> None:
        if os.name == "posix":
            import signal

            with suppress(OSError):  # the whole group: a shell's children too
                os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(OSError):
            self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)

    def _read(self, source: BinaryIO, hear: Hear, lost: Lost) -> None:
        code: Code = "upstream_unreachable"
        with source:
            while True:
                try:
                    line = source.readline(self._limits.from_server + 1)
                except OSError:
                    break
                if not line:
                    break
                if len(line) > self._limits.from_server:
                    code = "unreadable_reply"
                    break
                hear(line)
        lost(code)

    def _flush(self) -> None:
        """Write what is held, when the process reads again."""
        while True:
            with self._lock:
                while not self._waiting and not self._closed:
                    self._lock.wait()
                if self._closed:
                    return
                part = bytes(self._waiting[:_PIPE])
            # Without the lock, which `send` needs. Nobody else writes meanwhile: what is held has
            # to go first, so `send` adds to it as long as there is any.
            try:
                done = self._write_some(part)
            except (OSError, ValueError):
                return
            with self._lock:
                del self._waiting[:done]

    def _write_some(self, part: bytes) -> int:
        if not self._eager:
            return os.write(self._pipe.fileno(), part)
        import select

        _, ready, _ = select.select([], [self._pipe.fileno()], [], _LOOK)
        if not ready:
            return 0
        with suppress(BlockingIOError):
            return os.write(self._pipe.fileno(), part)
        return 0


def _started(command: ServerCommand) -> subprocess.Popen[bytes]:
    kept = {n: v for n, v in os.environ.items() if not n.upper().startswith(_OWN)}
    with suppress(OSError, ValueError):
        return subprocess.Popen(  # noqa: S603 - the owner's own command
            list(command.words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=kept | command.variables,
            cwd=command.folder,
            bufsize=0,
            start_new_session=os.name == "posix",
        )
    raise RequestRefusedError("upstream_unreachable")


class StandardStreams:
    """The proxy's own standard streams.

    They are taken over: meanwhile descriptor 0 reads nothing and descriptor 1 is standard error, so
    that nothing that prints, here or in a child, can break a message.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()  # answers come from many threads, and a line must stay whole
        self._source = os.fdopen(os.dup(0), "rb", buffering=_PIPE)
        self._sink = os.dup(1)

    def __enter__(self) -> Self:
        sys.stdout.flush()
        os.dup2(2, 1)
        with Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        return self

    def __exit__(self, *_: object) -> None:
        os.dup2(self._source.fileno(), 0)
        os.dup2(self._sink, 1)
        self._source.close()
        with self._lock:
            os.close(self._sink)
            self._sink = -1

    def lines(self, hear: Callable[[bytes | None], None]) -> None:
        """Hear every line until the input ends; None is one that is too long."""
        most = self._limits.from_client
        while line := self._source.readline(most + 1):
            if len(line) <= most:
                hear(line)
                continue
            while line and not line.endswith(b"\n"):  # it may have ended with its last byte
                line = self._source.readline(most)
            hear(None)

    def send(self, message: Message) -> None:
        """Write a message to the client; nobody may be reading any more."""
        line = write(message)
        with self._lock, suppress(OSError):
            at = 0
            while at < len(line):
                at += os.write(self._sink, line[at:])
