"""Several processes that answer on one socket, because one interpreter uses one processor.

Each is a replica of its own: it opens the vault itself and shares nothing. Who started them takes
the connections and hands each to the worker that has fewest. They start one after the other, so
that what is wrong is told once. One that dies is replaced, unless it dies at once. All end with who
started them.
"""

import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Final

Work = Callable[[Callable[[], None], socket.socket], None]
"""Prepares everything, says that it is ready, and serves what comes through the socket."""

_Watched = socket.socket | Connection | int

_AT_ONCE: Final = 2.0
"""Seconds: a worker that dies sooner than this is not replaced, since the next would die too."""
_PAUSE: Final = 0.05
"""Seconds after the system refused a connection, for some other connection to end."""
_LOOK: Final = 1.0
"""Seconds after which the supervisor looks whether it was told to stop, if nothing wakes it."""
DRAIN_MARGIN: Final = 2 * _LOOK
"""Seconds that a worker waits longer than the supervisor, which may hand it a last connection."""
_ENDED: Final = 4096
"""Ended connections read at once, a byte for each: more than a worker may have."""


def run_workers(
    work: Work,
    count: int,
    listening: socket.socket,
    *,
    ready: Callable[[], None],
    died: Callable[[int], None],
    drain: float = 0.0,
) -> int:
    """Serve with so many processes until told to stop; an exit code, 0 if nothing went wrong.

    `ready` is called once all are, `died` with the number of each process that has ended. Told to
    stop, it lets connections in for `drain` seconds more; workers must serve for `DRAIN_MARGIN`
    longer than that. Call it before a store is opened or a thread is started: processes are forked.
    """
    return _Supervisor(work, listening, died, drain).serve(count, ready)


class _Worker:
    """One process, the socket that leads to it, and how many connections it has."""

    def __init__(self, process: BaseProcess, handover: socket.socket, said: Connection) -> None:
        self.process = process
        self.handover = handover
        self.said = said
        self.since = time.monotonic()
        self.ready = False
        self.speaks = True
        self.connections = 0

    def is_ready(self) -> bool:
        """Wait until it says that it is; whether it does."""
        try:
            self.said.recv_bytes()
        except EOFError:
            self.process.join()
            return False
        self.ready = True
        return True

    def hear(self) -> None:
        """Count the connections that have ended."""
        ended = b""
        with suppress(OSError):
            ended = self.handover.recv(_ENDED)
        self.connections -= len(ended)
        self.speaks = bool(ended)

    def take(self, connection: socket.socket) -> bool:
        """Hand a connection over; whether it could be."""
        try:
            socket.send_fds(self.handover, [b"."], [connection.fileno()])
        except OSError:
            return False
        self.connections += 1
        return True


class _Supervisor:
    def __init__(
        self,
        work: Work,
        listening: socket.socket,
        died: Callable[[int], None],
        drain: float = 0.0,
    ) -> None:
        self._work = work
        self._drain = drain
        self._until: float | None = None
        self._listening = listening
        self._died = died
        self._fork = multiprocessing.get_context("fork")
        self._alive, self._held = os.pipe()  # its other end closes when this process is gone
        self._workers: dict[int, _Worker] = {}
        self._stopping = threading.Event()

    def serve(self, count: int, ready: Callable[[], None]) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        if not all(self._start().is_ready() for _ in range(count)):
            return self._fail()
        self._listening.setblocking(False)
        ready()
        while not self._stopping.is_set():
            if not all(self._heed(found) for found in wait(self._watched(), timeout=_LOOK)):
                return self._fail()
            if self._until is not None and time.monotonic() >= self._until:
                self._stopping.set()
        return self._end()

    def _watched(self) -> list[_Watched]:
        """The socket, the ends of processes, and what workers may say."""
        watched: list[_Watched] = [self._listening, *self._workers]
        for worker in self._workers.values():
            watched += [worker.handover] if worker.ready and worker.speaks else []
            watched += [] if worker.ready else [worker.said]
        return watched

    def _heed(self, found: object) -> bool:
        """Deal with one of them that has something; whether all is well."""
        if isinstance(found, int):
            return self._replaced(found)
        if found is self._listening:
            self._let_in()
        for worker in self._workers.values():
            if found is worker.said:
                return worker.is_ready()
            if found is worker.handover:
                worker.hear()
        return True

    def _let_in(self) -> None:
        """Hand the next connection to the worker that has fewest."""
        try:
            connection, _ = self._listening.accept()
        except BlockingIOError:
            return
        except OSError:  # too many files are open, say
            self._stopping.wait(_PAUSE)
            return
        with connection:
            those = (each for each in self._workers.values() if each.ready)
            for each in sorted(those, key=lambda each: each.connections):
                if each.take(connection):
                    return

    def _replaced(self, sentinel: int) -> bool:
        """Put another in the place of a worker that has ended, unless it died at once."""
        ended = self._workers[sentinel]
        if ended.process.exitcode is None or self._stopping.is_set():
            return True
        del self._workers[sentinel]
        ended.handover.close()
        self._died(ended.process.pid or 0)
        if time.monotonic() - ended.since < _AT_ONCE:
            return False
        self._start()
        return True

    def _fail(self) -> int:
        """End because of a worker, unless all were told to end while it started."""
        told = self._stopping.is_set()
        self._stop()
        return self._end() or int(not told)

    def _start(self) -> _Worker:
        said, says = self._fork.Pipe(duplex=False)
        ours, theirs = socket.socketpair()
        process = self._fork.Process(target=self._begin, args=(says, theirs))
        process.start()
        says.close()
        theirs.close()
        ours.setblocking(False)
        worker = _Worker(process, ours, said)
        self._workers[process.sentinel] = worker
        return worker

    def _begin(self, says: Connection, handover: socket.socket) -> None:
        os.close(self._held)
        self._listening.close()
        for other in self._workers.values():
            other.handover.close()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)

        def outlived() -> None:
            os.read(self._alive, 1)
            os.kill(os.getpid(), signal.SIGTERM)

        def ready() -> None:
            threading.Thread(target=outlived, daemon=True).start()
            says.send_bytes(b".")
            says.close()

        self._work(ready, handover)

    def _stop(self, number: int = 0, _frame: FrameType | None = None) -> None:
        if number == signal.SIGTERM and self._drain > 0 and self._until is None:
            self._until = time.monotonic() + self._drain
        else:
            self._stopping.set()
        for process in (each.process for each in self._workers.values()):
            if process.pid is not None and process.exitcode is None:
                os.kill(process.pid, signal.SIGTERM)

    def _end(self) -> int:
        """Wait for all; the first exit code that is a failure. Being told to stop is none."""
        self._listening.close()
        codes = []
        for process in (each.process for each in self._workers.values()):
            process.join()
            codes.append(process.exitcode or 0)
        return next((abs(code) for code in codes if code not in {0, -signal.SIGTERM}), 0)
