"""The HTTP server under the gateway: uvicorn, quiet, with limits, and patient with nobody.

uvicorn waits for ever for the rest of a request's headers. Connections that begin a request and do
not go on would pile up, so they are closed after a while.
"""

import asyncio
import gc
import json
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from rootguard.channels.faults import FAULTS

HEADER_TIMEOUT: Final = 15.0
"""Seconds for the headers of a request, which come in a packet unless somebody holds them back."""
KEEP_ALIVE: Final = 30
"""Seconds that an idle connection is kept: an agent's next turn is often there by then."""
SWITCH_SECONDS: Final = 0.001
"""How long a thread that sanitizes may keep the interpreter while others wait. At Python's own 5 ms
every step of every other request, and every event of a stream, waits that long."""
_YOUNG: Final = 10_000
"""Objects between two looks for garbage in circles. At Python's own 700 a request of ten kilobytes
is looked through about once, which takes 0.6 ms of its 20; at this, 0.2."""


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 with a time limit for the headers of a request, and fixed words for a bad one."""

    header_timeout = HEADER_TIMEOUT
    ended: Callable[[], None] | None = None
    """Called when the connection is gone."""
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Go on waiting only if a request has begun and its headers are not complete."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)
        if self.ended is not None:
            self.ended()

    def _watch(self) -> None:
        if self._busy() or self.timeout_keep_alive_task is not None:
            self._forget()
        elif self._waiting is None:
            self._waiting = self.loop.call_later(self.header_timeout, self._expire)

    def _forget(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _expire(self) -> None:
        self._waiting = None
        if not self._busy() and not self.transport.is_closing():
            self.transport.close()

    def _busy(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """What is not HTTP is refused in the same words as what is not JSON."""
        fault = FAULTS["bad_value"]
        body = json.dumps({"error": {"message": fault.text, "code": fault.code}}).encode()
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
            ]
            answer = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
            for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


_WAITING: Final = 1024
"""Connections that the system holds until they are taken: as many as may be open."""


class DrainingServer(uvicorn.Server):
    """A server that, told to stop, serves on for a while so that a load balancer can look away.

    Told again, or interrupted from a keyboard, it stops at once.
    """

    drain: float = 0.0
    """Seconds between SIGTERM and the end of listening."""
    _until: float | None = None

    @property
    def draining(self) -> bool:
        """Whether it was told to stop."""
        return self._until is not None or self.should_exit

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain, or stop."""
        if sig == signal.SIGTERM and self.drain > 0 and not self.draining:
            self._until = time.monotonic() + self.drain
        else:
            super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: stop when it was long enough."""
        if self._until is not None and time.monotonic() >= self._until and not self.should_exit:
            super().handle_exit(signal.SIGTERM, None)
        return await super().on_tick(counter)


class WorkerServer(DrainingServer):
    """A server that does not listen: another process hands it connections, through its sockets.

    A byte goes back for every connection that has ended.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Wait for what is handed over."""
        await super().startup([])
        self._loop = asyncio.get_running_loop()
        self._joining: set[asyncio.Task[object]] = set()
        for handover in sockets or ():
            handover.setblocking(False)
            self._loop.add_reader(handover, self._take, handover)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take nothing more, and finish what there is."""
        for handover in sockets or ():
            self._loop.remove_reader(handover)
        await super().shutdown(sockets)

    def _take(self, handover: socket.socket) -> None:
        try:
            said, handed, _, _ = socket.recv_fds(handover, 1, 1)
        except OSError:
            return
        if not said:  # nobody is there any more
            self._loop.remove_reader(handover)
        for descriptor in handed:
            connection = socket.socket(fileno=descriptor)
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            joining = self._loop.connect_accepted_socket(
                lambda: self._protocol(handover), connection
            )
            task: asyncio.Task[object] = self._loop.create_task(joining)
            self._joining.add(task)
            task.add_done_callback(self._joining.discard)

    def _protocol(self, handover: socket.socket) -> LimitedProtocol:
        def ended() -> None:
            with suppress(OSError):
                handover.send(b".")

        protocol = LimitedProtocol(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        protocol.ended = ended
        return protocol


def settle() -> None:
    """Make this process one that serves: threads take short turns, and lasting things stay.

    What is there now, tables of names and numbering plans, is not looked through for garbage again.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(_YOUNG)
    gc.collect()
    gc.freeze()


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; asyncio sends small pieces at once only if it says that it is TCP."""
    family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, kind, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_WAITING)
    except OSError:
        listening.close()
        raise
    return listening


def make_server(
    app: ASGIApp,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    connections: int = 1024,
    max_header_bytes: int = 16 * 1024,
    shutdown_timeout: int = 60,
    drain: float = 0.0,
    handed: bool = False,
) -> DrainingServer:
    """A server for the gateway. On SIGTERM it serves on for `drain` seconds.

    Then it takes no more requests and finishes its streams. `handed` if its sockets are those of
    `run_workers`, which bring connections.
    """
    server = (WorkerServer if handed else DrainingServer)(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            http=LimitedProtocol,
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=connections,
            h11_max_incomplete_event_size=max_header_bytes,
            backlog=_WAITING,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=shutdown_timeout,
        )
    )
    server.drain = drain
    return server
