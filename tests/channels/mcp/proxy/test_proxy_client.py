"""The client's side of the proxy, without processes: every line is answered, and answered once."""

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rootguard import MemoryStore
from rootguard.channels.mcp import jsonrpc as rpc
from rootguard.channels.mcp.jsonrpc import Limits, Message
from rootguard.channels.mcp.proxy.links import ServerCommand
from rootguard.channels.mcp.proxy.proxy import Proxy, SingleServer, run_proxy
from rootguard.channels.mcp.proxy.relay import ClientRequest
from rootguard.channels.mcp.proxy.servers import ServerGroup
from rootguard.errors import PolicyError
from rootguard.session import Person, parse_profile

SOON = 20.0
"""Seconds for another thread of this process, which has next to nothing to do."""


class Streams:
    """Standard streams that keep what is written."""

    def __init__(self) -> None:
        self.sent: list[Message] = []

    def send(self, message: Message) -> None:
        rpc.write(message)  # raises what the real ones raise
        self.sent.append(message)


class Told:
    """A relay that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.watched = threading.Event()
        self.closed = False

    def watch(self, now: float) -> None:
        if abs(now - time.monotonic()) < SOON and threading.current_thread().daemon:
            self.watched.set()

    def close(self) -> None:
        self.closed = True

    def tell(self, method: str) -> None:
        self.told.append(method)

    def cancel(self, call: ClientRequest, reason: object) -> None:
        self.told.append((call.name, reason))


class Calls:
    """A route that keeps requests for the test to answer."""

    def __init__(self) -> None:
        self.calls: list[ClientRequest] = []
        self.relays = (Told(),)
        self.client: object = None

    def start(self, client: object) -> None:
        self.client = client

    def ready(self, call: ClientRequest) -> bool:
        return call.method != "prompts/get"

    def handle(self, call: ClientRequest) -> None:
        self.calls.append(call)

    def shown(self, method: str, params: Message, relay: object) -> Message | None:
        return None if method == "hidden" else params


class Client:
    def __init__(self, calls: int = 2) -> None:
        self.streams, self.route = Streams(), Calls()
        proxy: Any = Proxy
        self.proxy: Proxy = proxy(self.streams, self.route, Limits(calls=calls))

    def says(self, **fields: object) -> None:
        self.proxy._hear(json.dumps({"jsonrpc": "2.0", **fields}).encode())

    @property
    def codes(self) -> list[tuple[object, object]]:
        return [(m["id"], m.get("error", {}).get("code")) for m in self.streams.sent]


@pytest.fixture
def client() -> Client:
    return Client()


def test_what_is_no_request_is_answered_in_fixed_words(client: Client) -> None:
    client.proxy._hear(b"  \n")
    client.proxy._hear(None)
    client.proxy._hear(b"{")
    client.says(id=5, method=5)
    client.says(id=6, method="invented")
    client.says(id=7, method="ping")
    client.says(id="x" * 256, method="ping")
    client.says(id="x" * 257, method="ping")
    assert client.codes == [
        (None, -32700),
        (None, -32700),
        (5, -32600),
        (6, -32601),
        (7, None),
        ("x" * 256, None),
        (None, -32600),
    ]


def test_an_id_is_used_once_at_a_time_and_so_many_requests_are_borne(client: Client) -> None:
    client.says(id=1, method="tools/list")
    client.says(id=1, method="tools/list")
    client.says(id=2, method="tools/list", params={"cursor": "a"})
    client.says(id=3, method="tools/list")
    assert client.codes == [(1, -32600), (3, -32603)]
    assert client.streams.sent[1]["error"]["data"] == {"code": "busy"}
    one, two = client.route.calls
    assert (one.name, one.params, two.params) == (1, {}, {"cursor": "a"})
    one.answer({"tools": []})
    two.fail({"code": -5, "message": "no"})
    assert client.streams.sent[2:] == [
        rpc.result(1, {"tools": []}),
        rpc.failure(2, {"code": -5, "message": "no"}),
    ]
    client.says(id=1, method="tools/list")
    client.route.calls[2].done(None, None)
    assert client.codes[4:] == [(1, -32603)]


def test_a_cancelled_request_frees_its_id_and_is_cancelled_where_it_went(client: Client) -> None:
    client.says(id=1, method="tools/list")
    client.says(id=2, method="tools/list")
    [one, two] = client.route.calls
    relay: Any = client.route.relays[0]
    one.relay = relay
    for name in (1, 2, 2, 9, None, [1]):
        client.says(method="notifications/cancelled", params={"requestId": name, "reason": "r"})
    assert relay.told == [(1, "r")]
    one.answer({})
    two.answer({})
    assert client.streams.sent == []
    client.says(id=1, method="tools/list")
    assert len(client.route.calls) == 3


def test_a_request_that_was_refused_leaves_those_under_way_as_they_are(client: Client) -> None:
    client.says(id=1, method="tools/list")
    client.says(id=1, method="prompts/list")  # an id in use
    client.says(id=2, method="tools/list")
    client.says(id=3, method="tools/list")  # one too many
    one, two = client.route.calls
    relay: Any = client.route.relays[0]
    one.relay = relay
    client.says(method="notifications/cancelled", params={"requestId": 1})
    assert one.over
    assert relay.told == [(1, None)]
    client.says(id=3, method="tools/list")
    assert [call.name for call in client.route.calls] == [1, 2, 3]
    assert not two.over


def test_a_request_that_may_wait_for_a_server_is_handled_aside_and_keeps_nobody(
    client: Client,
) -> None:
    handled, there = [], threading.Event()

    def handle(call: ClientRequest) -> None:
        handled.append((call.name, threading.current_thread().daemon))
        there.set()

    client.route.handle = handle  # type: ignore[method-assign]
    client.says(id=1, method="prompts/get")
    assert there.wait(SOON)
    assert handled == [(1, True)]


def test_servers_are_told_only_two_things(client: Client) -> None:
    for name in ("initialized", "roots/list_changed", "message", "progress"):
        client.says(method=f"notifications/{name}")
    assert client.route.relays[0].told == [
        "notifications/initialized",
        "notifications/roots/list_changed",
    ]


def test_requests_of_servers_are_numbered_and_answered_once(client: Client) -> None:
    answers: list[object] = []
    done = lambda *said: answers.append(said)  # noqa: E731
    assert client.proxy.ask("roots/list", {}, done) == 1
    assert client.proxy.ask("sampling/createMessage", {"a": 1}, done) == 2
    assert client.streams.sent == [
        {"jsonrpc": "2.0", "id": 1, "method": "roots/list"},
        {"jsonrpc": "2.0", "id": 2, "method": "sampling/createMessage", "params": {"a": 1}},
    ]
    client.says(id=1, result={"roots": []})
    client.says(id=1, result={"roots": []})
    client.says(id=None, error={"code": -1, "message": ""})
    client.says(id=2, error={"code": -1, "message": ""})
    assert answers == [({"roots": []}, None), (None, {"code": -1, "message": ""})]
    client.proxy.ask("roots/list", {}, done)
    client.proxy.forget(9)
    assert len(client.streams.sent) == 3
    client.proxy.forget(3)
    cancelled = rpc.notification("notifications/cancelled", {"requestId": 3})
    assert client.streams.sent[3:] == [cancelled]
    client.proxy.forget(3)
    assert len(client.streams.sent) == 4


def test_notifications_are_shown_as_the_route_shows_them(client: Client) -> None:
    client.proxy.tell("hidden", {}, None)
    client.proxy.tell("a", {}, None)
    client.proxy.tell("b", {"x": 1}, None)
    assert client.streams.sent == [rpc.notification("a"), rpc.notification("b", {"x": 1})]


def test_an_answer_that_is_no_unicode_becomes_a_fault_and_anything_else_is_dropped(
    client: Client,
) -> None:
    client.says(id=0, method="tools/list")
    client.route.calls[0].answer({"tools": "\ud800"})
    [said] = client.streams.sent
    assert (said["id"], said["error"]["data"]) == (0, {"code": "unreadable_reply"})
    client.proxy.tell("a", {"x": "\ud800"}, None)
    client.proxy.ask("a", {"x": "\ud800"}, lambda *_: None)
    assert len(client.streams.sent) == 1


def test_servers_are_watched_while_the_client_is_there_and_closed_when_it_is_gone(
    client: Client,
) -> None:
    relay = client.route.relays[0]
    heard: list[bool] = []

    def lines(hear: Callable[[bytes | None], None]) -> None:
        hear(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
        heard.append(relay.watched.wait(SOON) and not relay.closed)

    client.streams.lines = lines  # type: ignore[attr-defined]
    serving = threading.Thread(target=client.proxy.serve)  # whose thread sets no signal
    serving.start()
    serving.join(2 * SOON)
    assert heard == [True]
    assert relay.closed
    assert client.route.client is client.proxy
    assert client.codes == [(1, None)]


@pytest.fixture
def own_signals() -> Iterator[None]:
    """A proxy that is served in the main thread handles a signal of the whole process."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("own_signals")
def test_a_proxy_that_is_told_to_end_closes_its_servers_and_ends_well(client: Client) -> None:
    client.streams.lines = lambda hear: signal.raise_signal(signal.SIGTERM)  # type: ignore[attr-defined]
    with pytest.raises(SystemExit) as ended:
        client.proxy.serve()
    assert ended.value.code == 0
    assert client.route.relays[0].closed


PROFILE = """
templates = ["bmi"]
policy = "policy.toml"
[values]
wt = 80
ht = 1.8
"""
POLICY = """
[tiers.public]
budget = "0.5"
[services.clinic]
tier = "public"
[services.bank]
tier = "public"
"""


class Running:
    """A proxy of a profile whose streams and servers are doubles: what was opened and started."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "policy.toml").write_text(POLICY, "utf-8")
        self.profile = parse_profile(PROFILE, file=str(tmp_path / "me.toml"))
        self.services: list[str] = []
        self.connected: list[tuple[str, ...]] = []
        self.routes: list[object] = []
        connect = lambda command, *_: self._connect(tuple(command.words))  # noqa: E731
        monkeypatch.setattr(ServerCommand, "__call__", connect)
        monkeypatch.setattr("rootguard.channels.mcp.proxy.proxy.StandardStreams", self._streams)

    def run(
        self,
        service: str | None,
        command: Sequence[str] | None = None,
        config: Path | None = None,
        pins: Path | None = None,
    ) -> None:
        run_proxy(
            self.profile,
            self._person,
            file="me.toml",
            service=service,
            command=command,
            config=config,
            pins=pins,
        )

    def _person(self, service: str) -> Person:
        self.services.append(service)
        return Person.open(self.profile, store=MemoryStore(), service=service)

    def _connect(self, words: tuple[str, ...]) -> object:
        self.connected.append(words)
        return SimpleNamespace(close=lambda: self.connected.remove(words))

    @contextmanager
    def _streams(self, _: Limits) -> Iterator[object]:
        yield SimpleNamespace(lines=self._lines)

    def _lines(self, hear: Callable[[bytes], None]) -> None:
        self.routes.append(type(hear.__self__._route))  # type: ignore[attr-defined]
        self.started = list(self.connected)
        raise KeyboardInterrupt


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_signals: None) -> Running:
    return Running(tmp_path, monkeypatch)


def test_a_command_is_run_for_its_service_and_closed_when_the_owner_interrupts(
    running: Running,
) -> None:
    running.run(service="bank", command=["serve", "it"])
    assert running.services == ["bank"]
    assert running.routes == [SingleServer]
    assert running.started == [("serve", "it")]
    assert running.connected == []


@pytest.mark.parametrize(
    ("service", "services"), [(None, ["clinic", "bank"]), ("bank", ["bank", "bank"])]
)
def test_each_server_of_a_file_is_a_service_of_its_own_name_unless_one_is_named(
    running: Running, tmp_path: Path, service: str | None, services: list[str]
) -> None:
    servers = {name: {"command": f"run-{name}"} for name in ("clinic", "bank")}
    config = tmp_path / "servers.json"
    config.write_text(json.dumps({"mcpServers": servers}), "utf-8")
    running.run(service=service, config=config)
    assert running.services == services
    assert running.routes == [ServerGroup]
    assert running.started == [("run-clinic",), ("run-bank",)]
    assert running.connected == []


def test_corrections_that_cannot_be_read_are_told_before_anything_is_started(
    running: Running, tmp_path: Path
) -> None:
    with pytest.raises(PolicyError, match=r"pins\.toml"):
        running.run(service="bank", command=["serve"], pins=tmp_path / "pins.toml")
    with pytest.raises(PolicyError, match="stranger"):
        running.run(service="stranger", command=["serve"])
    assert running.services == []
    assert running.connected == []
