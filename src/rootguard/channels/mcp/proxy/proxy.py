"""A proxy before any MCP server: what goes to it is guarded, what comes back is restored.

It starts or reaches the server, offers the client all that the server offers, with schemas intact,
and lets through what has a rule in `rewriting`. It speaks JSON-RPC itself and leaves
the handshake to the two sides, so that a client and a server that understand each other without the
proxy do so with it. Each server is a service of the profile's policy.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from rootguard.channels.faults import FAULTS, RequestRefusedError
from rootguard.channels.mcp import jsonrpc as rpc
from rootguard.channels.mcp.jsonrpc import Id, Limits, Message
from rootguard.channels.mcp.proxy.links import Connect, StandardStreams
from rootguard.channels.mcp.proxy.offers import Arguments, Offers
from rootguard.channels.mcp.proxy.relay import CANCELLED, ClientRequest, ClientSide, OnAnswer, Relay
from rootguard.channels.mcp.proxy.rewriting import ReplyRestorer, RequestRewriter
from rootguard.channels.mcp.proxy.servers import (
    RemoteOptions,
    ServerGroup,
    TokenFile,
    check_listed,
    servers_of,
)
from rootguard.channels.tools import Pins, load_pins
from rootguard.session import Person, Profile

_WATCH: Final = 0.25
"""Seconds between two looks for requests that wait too long: fine enough for the shortest --timeout
that makes sense (a second), and nothing to a processor."""
_MAX_ID: Final = 256
"""Characters of a request's id. It is kept while the request is under way; SDKs count, or write a
UUID."""
_TOLD: Final = frozenset(("notifications/initialized", "notifications/roots/list_changed"))


class Route(Protocol):
    """Where requests go."""

    @property
    def relays(self) -> Sequence[Relay]: ...

    def start(self, client: ClientSide) -> None: ...

    def ready(self, call: ClientRequest) -> bool:
        """Whether a request can be sent without waiting for a server first."""
        ...

    def handle(self, call: ClientRequest) -> None:
        """Send a request where it belongs."""
        ...

    def shown(self, method: str, params: Message, relay: object) -> Message | None:
        """A notification as the client gets it."""
        ...


class SingleServer:
    """One server: everything goes there."""

    def __init__(self, relay: Relay) -> None:
        self.relays = (relay,)
        self._relay = relay

    def start(self, client: ClientSide) -> None:
        """Connect. A server that wants other credentials says so to whoever asks it something."""
        try:
            self._relay.start(client)
        except RequestRefusedError as problem:
            if problem.fault.code not in ("upstream_unauthorized", "upstream_forbidden"):
                raise

    def ready(self, call: ClientRequest) -> bool:
        """Whether a request can be sent without waiting for the server first."""
        return self._relay.ready(call)

    def handle(self, call: ClientRequest) -> None:
        self._relay.forward(call)

    def shown(self, method: str, params: Message, relay: object) -> Message | None:  # noqa: ARG002
        """A notification, as it is."""
        return params


class Proxy:
    """The client's side: its requests, and what servers ask of it."""

    def __init__(self, streams: StandardStreams, route: Route, limits: Limits) -> None:
        self._streams = streams
        self._route = route
        self._limits = limits
        # Guards the three below. Requests come in on the client's thread and end on any; it is
        # never held while something is sent or a relay is called.
        self._lock = threading.Lock()
        self._calls: dict[Id, ClientRequest] = {}
        self._asked: dict[Id, OnAnswer] = {}
        self._next = 0
        self._closing = threading.Event()  # ends the watch, which sleeps on it between two looks

    def serve(self) -> None:
        """Until the client closes its side."""
        self._route.start(self)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that servers end, too
        threading.Thread(target=self._watch, daemon=True).start()
        try:
            self._streams.lines(self._hear)
        finally:
            self._closing.set()
            for relay in self._route.relays:
                relay.close()

    def tell(self, method: str, params: Message, relay: object) -> None:
        """Pass a notification of a server on."""
        shown = self._route.shown(method, params, relay)
        if shown is not None:
            self._send(rpc.notification(method, shown or None))

    def ask(self, method: str, params: Message, done: OnAnswer) -> Id:
        """Pass a request of a server on."""
        with self._lock:
            self._next += 1
            name = self._next
            self._asked[name] = done
        whole = rpc.request(name, method, params)
        if not params:
            del whole["params"]
        self._send(whole)
        return name

    def forget(self, name: Id) -> None:
        """A server no longer wants an answer."""
        with self._lock:
            known = self._asked.pop(name, None) is not None
        if known:
            self._send(rpc.notification(CANCELLED, {"requestId": name}))

    def _hear(self, line: bytes | None) -> None:
        """A line of the client; it is answered whatever it is."""
        if line is not None and line.isspace():
            return
        try:
            message = rpc.read(b"" if line is None else line)
        except rpc.UnreadableError as problem:
            self._send(rpc.failure(problem.request, rpc.plain(problem.code)))
            return
        if "method" not in message:
            self._answered(message)
        elif "id" in message:
            self._asks(message)
        else:
            self._told(message["method"], message.get("params") or {})

    def _asks(self, message: Message) -> None:
        name, method = message["id"], message["method"]
        if isinstance(name, str) and len(name) > _MAX_ID:
            self._send(rpc.failure(None, rpc.plain(rpc.INVALID_REQUEST)))
            return
        if method == "ping":
            self._send(rpc.result(name, {}))
            return
        if not RequestRewriter.knows(method):
            self._send(rpc.failure(name, rpc.plain(rpc.METHOD_NOT_FOUND)))
            return

        def done(result: Message | None, error: Message | None) -> None:
            with self._lock:
                self._calls.pop(name, None)
            if result is not None:
                self._send(rpc.result(name, result))
            else:
                self._send(rpc.failure(name, error or rpc.plain(rpc.INTERNAL_ERROR)))

        call = ClientRequest(method, message.get("params") or {}, done, name)
        with self._lock:
            twice, full = name in self._calls, len(self._calls) >= self._limits.calls
            if not twice and not full:
                self._calls[name] = call
        if twice:
            self._send(rpc.failure(name, rpc.plain(rpc.INVALID_REQUEST)))
        elif full:
            self._send(rpc.failure(name, rpc.refusal(FAULTS["busy"])))
        elif self._route.ready(call):
            self._route.handle(call)
        else:  # may wait for a server, and this thread has to hear the next line
            threading.Thread(target=self._route.handle, args=(call,), daemon=True).start()

    def _told(self, method: str, params: Message) -> None:
        if method == CANCELLED:
            name = params.get("requestId")
            with self._lock:
                call = self._calls.pop(name, None) if isinstance(name, str | int) else None
            if call is not None:
                call.over = True
                if call.relay is not None:
                    call.relay.cancel(call, params.get("reason"))
        elif method in _TOLD:
            for relay in self._route.relays:
                relay.tell(method)

    def _answered(self, message: Message) -> None:
        with self._lock:
            done = self._asked.pop(message["id"], None) if message.get("id") is not None else None
        if done is not None:
            done(message.get("result"), message.get("error"))

    def _send(self, message: Message) -> None:
        try:
            self._streams.send(message)
        except ValueError:  # a server's text that is not Unicode
            name = message.get("id")
            if name is not None and "method" not in message:
                self._streams.send(rpc.failure(name, rpc.refusal(FAULTS["unreadable_reply"])))

    def _watch(self) -> None:
        while not self._closing.wait(_WATCH):
            for relay in self._route.relays:
                relay.watch(time.monotonic())


def make_relay(
    name: str,
    connect: Connect,
    person: Person,
    *,
    pins: Pins | None,
    limits: Limits,
    explain: bool = False,
) -> Relay:
    """One server, guarded for one person at the tier of one service."""
    offers = Offers()
    rewriter = RequestRewriter(Arguments(person, pins=pins), offers)
    restorer = ReplyRestorer(person.restore)
    return Relay(name, connect, rewriter, restorer, offers, limits, explain=explain)


def run_proxy(
    profile: Profile,
    open_person: Callable[[str], Person],
    *,
    file: str,
    service: str | None = None,
    command: Sequence[str] | None = None,
    url: str | None = None,
    config: str | os.PathLike[str] | None = None,
    pins: str | os.PathLike[str] | None = None,
    limits: Limits | None = None,
    explain: bool = False,
    remote: RemoteOptions | None = None,
    tokens: TokenFile | None = None,
) -> None:
    """Stand before a server, or before all of an `mcpServers` file, until the client is gone.

    `open_person` speaks for the profile's person to the service of that name. Nothing is opened
    or started unless the policy lists every service.
    """
    borne = limits or Limits()
    servers = servers_of(
        service=service, command=command, url=url, config=config, remote=remote, tokens=tokens
    )
    services = {name: service or name for name in servers}
    check_listed(profile, tuple(services.values()), file=file)
    del profile
    pinned = None if pins is None else load_pins(pins)
    relays = [
        make_relay(
            name,
            connect,
            open_person(services[name]),
            pins=pinned,
            limits=borne,
            explain=explain,
        )
        for name, connect in servers.items()
    ]
    route: Route = SingleServer(relays[0]) if len(relays) == 1 else ServerGroup(relays)
    with suppress(KeyboardInterrupt), StandardStreams(borne) as streams:
        Proxy(streams, route, borne).serve()
