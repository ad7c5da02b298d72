"""Several processes that answer on one socket, because one interpreter uses one processor.

Each is a replica of its own: it opens the vault itself and shares nothing but the socket. Whoever
is free takes the next connection. They start one after the other, so that what is wrong is told
once. One that dies is replaced, unless it dies at once. All end with who started them.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Final

Work = Callable[[Callable[[], None]], None]
"""Prepares everything, says that it is ready, and serves until it is told to stop."""

_AT_ONCE: Final = 2.0
"""Seconds: a worker that dies sooner than this is not replaced."""


def run_workers(
    work: Work, count: int, *, ready: Callable[[], None], died: Callable[[int], None]
) -> int:
    """Serve with so many processes until told to stop; an exit code, 0 if nothing went wrong.

    `ready` is called once all are, `died` with the number of each process that has ended. Call it
    before a store is opened or a thread is started: processes are forked.
    """
    return _Crew(work, died).serve(count, ready)


class _Crew:
    def __init__(self, work: Work, died: Callable[[int], None]) -> None:
        self._work = work
        self._died = died
        self._fork = multiprocessing.get_context("fork")
        self._alive, self._held = os.pipe()  # its other end closes when this process is gone
        self._workers: dict[int, tuple[BaseProcess, float]] = {}
        self._stopping = threading.Event()

    def serve(self, count: int, ready: Callable[[], None]) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        if not all(self._start() for _ in range(count)):
            return self._fail()
        ready()
        while not self._stopping.is_set():
            wait(list(self._workers), timeout=1.0)
            for sentinel, (process, since) in list(self._workers.items()):
                if process.exitcode is None or self._stopping.is_set():
                    continue
                del self._workers[sentinel]
                self._died(process.pid or 0)
                if time.monotonic() - since < _AT_ONCE or not self._start():
                    return self._fail()
        return self._end()

    def _fail(self) -> int:
        """End because of a worker, unless all were told to end while it started."""
        told = self._stopping.is_set()
        self._stop()
        return self._end() or int(not told)

    def _start(self) -> bool:
        """Start a worker; whether it says that it is ready."""
        said, says = self._fork.Pipe(duplex=False)
        process = self._fork.Process(target=self._begin, args=(says,))
        process.start()
        says.close()
        self._workers[process.sentinel] = (process, time.monotonic())
        try:
            said.recv_bytes()
        except EOFError:
            process.join()
            return False
        return True

    def _begin(self, says: Connection) -> None:
        """In a worker."""
        os.close(self._held)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)

        def outlived() -> None:
            os.read(self._alive, 1)
            os.kill(os.getpid(), signal.SIGTERM)

        def ready() -> None:
            threading.Thread(target=outlived, daemon=True).start()
            says.send_bytes(b".")
            says.close()

        self._work(ready)

    def _stop(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        self._stopping.set()
        for process, _ in self._workers.values():
            if process.pid is not None and process.exitcode is None:
                os.kill(process.pid, signal.SIGTERM)

    def _end(self) -> int:
        """Wait for all; the first exit code that is a failure. Being told to stop is none."""
        codes = []
        for process, _ in self._workers.values():
            process.join()
            codes.append(process.exitcode or 0)
        return next((abs(code) for code in codes if code not in {0, -signal.SIGTERM}), 0)
