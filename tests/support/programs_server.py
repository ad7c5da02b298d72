"""The server of programs: `programs_server.py FOLDER RUN READY`.

Imports what commands import, listens in FOLDER, and says so by closing READY. For each connection
of `programs_start.py` it forks a process. It ends when the process RUN has ended.
"""

import gc
import importlib
import io
import marshal
import os
import selectors
import shutil
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

# What commands import where they need it.
_IMPORTED = (
    *("httpx2", "mcp", "mcp.client.sse", "mcp.client.stdio", "mcp.client.streamable_http"),
    *("mcp.server.lowlevel", "mcp.server.stdio", "mcp.server.streamable_http_manager"),
    *("numpy", "rich.console", "sqlite3", "starlette.routing", "uvicorn", "uvicorn.lifespan.on"),
    *("uvicorn.loops.auto", "uvicorn.protocols.http.auto"),
    *("rootguard.channels.gateway.app", "rootguard.channels.http_server", "rootguard.console"),
    *("rootguard.channels.mcp.inspection", "rootguard.channels.mcp.proxy.servers"),
    *("rootguard.channels.mcp.server", "rootguard.session", "rootguard.vault"),
    *(f"rootguard.cli.{each}" for each in ("batch", "console", "gateway", "init", "main", "mcp")),
)
_HEAD = 4


def _streams() -> None:
    """Standard streams as an interpreter makes them."""
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream: io.TextIOWrapper | None = None
        with suppress(OSError):  # it was closed
            raw = io.FileIO(number, "w" if number else "r", closefd=False)
            kept: Any = raw
            if not (number and at_once):
                kept = io.BufferedWriter(raw) if number else io.BufferedReader(raw)
            stream = io.TextIOWrapper(
                kept,
                "utf-8",
                "backslashreplace" if name == "stderr" else "strict",
                line_buffering=name == "stderr" or (number > 0 and raw.isatty()),
                write_through=bool(number) and at_once,
            )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


class Child:
    """What a forked process is to do."""

    def __init__(self, told: bytes, streams: list[int]) -> None:
        self._arguments, self._folder, self._environment = marshal.loads(told)
        self.given = streams

    def run(self) -> None:
        """Be an interpreter with these arguments."""
        os.setsid()
        for number, stream in enumerate(self.given):
            os.dup2(stream, number)
        os.closerange(3, max(self.given) + 1)
        os.chdir(self._folder)
        os.environb.clear()
        os.environb.update(self._environment)
        _streams()
        gc.enable()
        main = ModuleType("__main__")
        sys.modules["__main__"] = main
        place, *rest = self._arguments
        if place == "-c":
            code, *rest = rest
            sys.path[0] = ""
            sys.argv = ["-c", *rest]
            exec(compile(code, "<string>", "exec"), main.__dict__)
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(place))  # noqa: PTH100, PTH120
            sys.argv = [place, *rest]
            main.__file__ = place
            exec(compile(Path(place).read_bytes(), place, "exec"), main.__dict__)


def _received(wire: socket.socket) -> Child | None:
    """What a connection asks for, or nothing where it ends before it has asked."""
    head, streams, _, _ = socket.recv_fds(wire, _HEAD, 3)
    told = b""
    while len(head) == _HEAD and len(told) < int.from_bytes(head, "big"):
        more = wire.recv(1 << 20)
        if not more:
            break
        told += more
    if len(streams) == 3 and told:
        return Child(told, streams)
    for stream in streams:
        os.close(stream)
    return None


class Server:
    """Forks a process for each connection, tells of its end, and ends it with its connection."""

    def __init__(self, folder: Path, run: int) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "socket"))
        self._listener.listen(64)
        self._watched = selectors.DefaultSelector()
        self._watched.register(self._listener, selectors.EVENT_READ, self._begin)
        self._run = os.pidfd_open(run)
        self._watched.register(self._run, selectors.EVENT_READ, None)
        self._running: dict[int, tuple[int, socket.socket]] = {}

    def serve(self) -> Child | None:
        """Returns in each child with what it is to do, and in the server when the run has ended."""
        while True:
            for key, _ in self._watched.select():
                if key.data is None:
                    self._end()
                    return None
                child: Child | None = key.data(key.fd)
                if child is not None:
                    return child

    def _begin(self, _: int) -> Child | None:
        wire, _ = self._listener.accept()
        asked = _received(wire)
        if asked is None:
            wire.close()
            return None
        process = os.fork()
        if not process:
            self._leave()
            wire.close()
            return asked
        for stream in asked.given:
            os.close(stream)
        watch = os.pidfd_open(process)
        self._running[watch] = (process, wire)
        self._watched.register(watch, selectors.EVENT_READ, self._ended)
        self._watched.register(wire, selectors.EVENT_READ, lambda _: self._abandoned(watch))
        with suppress(OSError):
            wire.sendall(process.to_bytes(_HEAD, "big", signed=True))
        return None

    def _ended(self, watch: int) -> None:
        process, wire = self._running.pop(watch)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        with suppress(OSError):
            wire.sendall(code.to_bytes(_HEAD, "big", signed=True))
        with suppress(KeyError):  # it was abandoned
            self._watched.unregister(wire)
        self._watched.unregister(watch)
        os.close(watch)
        wire.close()

    def _abandoned(self, watch: int) -> None:
        """Who asked was killed."""
        if watch in self._running:
            process, wire = self._running[watch]
            self._watched.unregister(wire)
            os.kill(process, signal.SIGKILL)

    def _leave(self) -> None:
        """A child keeps nothing of the server's."""
        self._watched.close()
        self._listener.close()
        os.close(self._run)
        for watch, (_, wire) in self._running.items():
            os.close(watch)
            wire.close()

    def _end(self) -> None:
        for process, _ in self._running.values():
            os.kill(process, signal.SIGKILL)


def _begin() -> Child | None:
    folder, run, ready = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a process that forks has one thread
    for name in _IMPORTED:
        with suppress(ImportError):  # an extra that is not there
            importlib.import_module(name)
    assert threading.active_count() == 1
    (folder / "socket").unlink(missing_ok=True)
    server = Server(folder, run)
    gc.collect()
    gc.freeze()
    gc.disable()
    os.close(ready)
    child = server.serve()
    if child is None:
        shutil.rmtree(folder, ignore_errors=True)
    return child


if __name__ == "__main__":
    asked = _begin()
    if asked is not None:
        asked.run()
