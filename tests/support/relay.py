"""Between a client and a PostgreSQL server, on loopback: a relay that counts, and a pooler.

The relay counts the messages after which a client waits for the server. The pooler is a small
stand-in for PgBouncer in transaction mode: each transaction gets whichever connection is free, with
whatever its session was left with, and startup parameters that it does not know are refused.
"""

import os
import queue
import selectors
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.patience import PATIENCE

_PLAIN = "sslmode=disable&gssencmode=disable"
_WAITS = frozenset(b"QS")  # query, sync: whoever sends one waits until the server is ready again
_KNOWN = frozenset(
    ("user", "database", "application_name", "client_encoding", "datestyle", "timezone")
)


class _Messages:
    """The messages in a stream of bytes, each as it was sent."""

    def __init__(self, *, startup: bool) -> None:
        self._startup = startup
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._rest += data
        while True:
            head = 0 if self._startup else 1
            if len(self._rest) < head + 4:
                return
            end = head + struct.unpack_from("!I", self._rest, head)[0]
            if len(self._rest) < end:
                return
            message, self._rest = self._rest[:end], self._rest[end:]
            self._startup = False
            yield message


class _Between:
    """Listens on loopback, and handles each client in a thread of its own."""

    def __init__(self, url: str) -> None:
        told = {name: str(value) for name, value in conninfo_to_dict(url).items()}
        self._host, self._port = told.get("host", "localhost"), told.get("port", "5432")
        self._listener = socket.create_server(("127.0.0.1", 0))
        login = quote(told["user"]) + (f":{quote(told['password'])}" if "password" in told else "")
        port = self._listener.getsockname()[1]
        self.url = f"postgresql://{login}@127.0.0.1:{port}/{told['dbname']}?{_PLAIN}"
        self._sockets: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                threading.Thread(target=self._handle, args=(client,), daemon=True).start()

    def _handle(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            self.serve(client)

    def serve(self, client: socket.socket) -> None:
        raise NotImplementedError

    def _dial(self) -> socket.socket:
        if self._host.startswith("/"):
            server = socket.socket(socket.AF_UNIX)
            server.connect(f"{self._host}/.s.PGSQL.{self._port}")
        else:
            server = socket.create_connection((self._host, int(self._port)))
        self._sockets.append(server)
        return server


class CountingRelay(_Between):
    """Passes everything on; `trips` is how often a client had to wait for an answer."""

    def __init__(self, url: str) -> None:
        self.trips = 0
        super().__init__(url)

    def serve(self, client: socket.socket) -> None:
        server = self._dial()
        threading.Thread(target=self._answers, args=(server, client), daemon=True).start()
        messages = _Messages(startup=True)
        while data := client.recv(65536):
            for message in messages.feed(data):
                self.trips += message[0] in _WAITS
            server.sendall(data)
        server.close()

    def _answers(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)


class TransactionPooler(_Between):
    """Gives each transaction the connection that was free the longest."""

    def __init__(self, url: str, *, connections: int = 3, left_behind: str = "") -> None:
        self._free: queue.Queue[socket.socket] = queue.Queue()
        self._greeting = b""
        super().__init__(url)
        told = conninfo_to_dict(url)
        for _ in range(connections):
            server = self._dial()
            self._log_in(server, str(told["user"]), str(told["dbname"]))
            if left_behind:
                server.sendall(_message(b"Q", left_behind.encode() + b"\0"))
                _until_ready(server)
            self._free.put(server)

    def serve(self, client: socket.socket) -> None:
        messages = _Messages(startup=True)
        startup = None
        while startup is None:
            startup = next(messages.feed(client.recv(65536)), None)
        words = startup[8:].split(b"\0")
        unknown = [w.decode() for w in words[:-2:2] if w.decode().lower() not in _KNOWN]
        if unknown:
            said = f"unsupported startup parameter: {unknown[0]}"
            fields = (b"SFATAL", b"VFATAL", b"C08P01", b"M" + said.encode(), b"")
            client.sendall(_message(b"E", b"\0".join(fields) + b"\0"))
            return
        client.sendall(self._greeting)
        while self._transaction(client, messages):
            pass

    def _transaction(self, client: socket.socket, messages: _Messages) -> bool:
        """Pass one transaction on; whether the client is still there."""
        data = client.recv(65536)
        if not data or data[:1] == b"X":
            return False
        server = self._free.get()
        answers = _Messages(startup=False)
        asked = self._pass_on(data, messages, server)
        with selectors.DefaultSelector() as ready:
            ready.register(client, selectors.EVENT_READ)
            ready.register(server, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                    if not data:  # with its transaction open: nobody else may have this one
                        server.close()
                        return False
                    if key.fileobj is client:
                        asked += self._pass_on(data, messages, server)
                        continue
                    client.sendall(data)
                    status = [m[5:] for m in answers.feed(data) if m[:1] == b"Z"]
                    asked -= len(status)
                    if status and status[-1] == b"I" and not asked:
                        self._free.put(server)
                        return True

    @staticmethod
    def _pass_on(data: bytes, messages: _Messages, server: socket.socket) -> int:
        asked = sum(message[:1] in {b"Q", b"S"} for message in messages.feed(data))
        server.sendall(data)
        return asked

    def _log_in(self, server: socket.socket, user: str, database: str) -> None:
        words = f"user\0{user}\0database\0{database}\0\0".encode()
        server.sendall(struct.pack("!II", 8 + len(words), 196608) + words)
        self._greeting = _until_ready(server)


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", 4 + len(body)) + body


def _until_ready(server: socket.socket) -> bytes:
    said, messages = b"", _Messages(startup=False)
    while data := server.recv(65536):
        said += data
        if any(message[:1] == b"Z" for message in messages.feed(data)):
            return said
    raise AssertionError("the server hung up")


@contextmanager
def counting(url: str) -> Iterator[CountingRelay]:
    relay = CountingRelay(url)
    try:
        yield relay
    finally:
        relay.close()


@contextmanager
def pooled(url: str, left_behind: str = "SET synchronous_commit = off") -> Iterator[str]:
    """The URL of a pooler whose connections somebody left in another state."""
    pooler = TransactionPooler(url, left_behind=left_behind)
    try:
        yield pooler.url
    finally:
        pooler.close()


@contextmanager
def pgbouncer(url: str) -> Iterator[str]:
    """The URL of the real one before a server; skips the test if it is not installed."""
    program = shutil.which("pgbouncer")
    if program is None:
        pytest.skip("pgbouncer is not installed")
    told = conninfo_to_dict(url)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    told.setdefault("host", "localhost")
    to = " ".join(
        f"{name}={told[name]}" for name in ("host", "port", "user", "dbname") if name in told
    )
    with tempfile.NamedTemporaryFile("w", suffix=".ini") as settings:
        settings.write(
            f"[databases]\nvault = {to}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {port}\nunix_socket_dir =\nauth_type = any\n"
            "pool_mode = transaction\ndefault_pool_size = 3\n"
        )
        settings.flush()
        Path(settings.name).chmod(0o644)
        as_nobody = ["-u", "nobody"] if os.geteuid() == 0 else []
        running = subprocess.Popen([program, *as_nobody, settings.name], stderr=subprocess.DEVNULL)
        try:
            _wait_until_open(port)
            yield f"postgresql://anybody@127.0.0.1:{port}/vault?{_PLAIN}"
        finally:
            running.terminate()
            running.wait(PATIENCE)


def _wait_until_open(port: int) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            assert time.monotonic() < end, "it does not listen"
            time.sleep(0.05)
        else:
            return
