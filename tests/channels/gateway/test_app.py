"""One request through the gateway, without sockets: what its edges do."""

import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote

import anyio
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.types import Message

from rootguard.channels.api_keys import ApiKeys
from rootguard.channels.faults import RequestRefusedError
from rootguard.channels.gateway import app as gateway
from rootguard.channels.gateway.app import GatewaySettings, build_app
from rootguard.channels.gateway.upstream import ChatStream, Upstream
from rootguard.events import PlacesRefused
from tests.support.gateways import NAME, channel_of, open_person
from tests.support.patience import PATIENCE

Answer = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""
Reply = Callable[[httpx2.Request], Awaitable[httpx2.Response]]
CHAT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).encode()
JSON = {"host": "localhost", "content-type": "application/json"}


class Asked:
    """The gateway before an upstream that is a function."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.person = open_person()
        self.heard: list[httpx2.Request] = []
        self.reply: Reply = self._fine

        def scripted(base: str, **options: object) -> Upstream:
            made = Upstream(base, **options)  # type: ignore[arg-type]
            made._client = httpx2.AsyncClient(transport=httpx2.MockTransport(self._hear))
            return made

        monkeypatch.setattr(gateway, "Upstream", scripted)

    async def _hear(self, request: httpx2.Request) -> httpx2.Response:
        self.heard.append(request)
        return await self.reply(request)

    @staticmethod
    async def _fine(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json={"choices": []})

    def says(
        self,
        status: int,
        content: bytes = b"{}",
        *,
        headers: dict[str, str] | None = None,
        stream: httpx2.AsyncByteStream | None = None,
    ) -> None:
        async def reply(_request: httpx2.Request) -> httpx2.Response:
            body = content if stream is None else None
            return httpx2.Response(status, content=body, headers=headers, stream=stream)

        self.reply = reply

    @asynccontextmanager
    async def running(self, **settings: object) -> AsyncIterator[Starlette]:
        channel = channel_of(self.person)
        made = GatewaySettings(upstream="http://upstream.example/v1", **settings)  # type: ignore[arg-type]
        app = build_app(made, open_channel=lambda _profile: channel)
        async with app.router.lifespan_context(app):
            yield app

    def __call__(self, **options: object) -> Answer:
        """The answer to one request."""
        return self.each([options])[0]

    def each(
        self, requests: list[dict[str, Any]], *messages: Message, **settings: object
    ) -> list[Answer]:
        """The answers to some; `messages` are what comes of the first, if not all of it."""

        async def run() -> list[Answer]:
            with anyio.fail_after(PATIENCE):
                async with self.running(**settings) as app:
                    return [await _answer(app, messages, **each) for each in requests]

        return anyio.run(run)


async def _answer(
    app: Starlette,
    messages: tuple[Message, ...] = (),
    *,
    path: str = "/v1/chat/completions",
    method: str = "POST",
    headers: dict[str, str] | None = None,
    body: bytes = CHAT,
) -> Answer:
    given = list(messages or [{"type": "http.request", "body": body}])
    told: list[Message] = []

    async def receive() -> Message:
        if not given:
            await anyio.sleep_forever()
        return given.pop(0)

    async def send(message: Message) -> None:
        told.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": unquote(path),
        "query_string": b"",
        "headers": [(n.encode(), v.encode("latin-1")) for n, v in (headers or JSON).items()],
    }
    await app(scope, receive, send)
    if not told:
        return 0, {}, b""
    assert [each["type"] for each in told[1:]] == ["http.response.body"] * (len(told) - 1)
    sent = {name.decode(): value.decode() for name, value in told[0]["headers"]}
    return told[0]["status"], sent, b"".join(each["body"] for each in told[1:])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


def code_of(answer: Answer) -> str:
    return str(json.loads(answer[2])["error"]["code"])


def metrics(answer: Answer) -> list[str]:
    return answer[2].decode().splitlines()


METRICS: dict[str, Any] = {"path": "/metrics", "method": "GET"}


def test_a_request_that_is_over_makes_room_for_the_next(asked: Asked) -> None:
    assert [each[0] for each in asked.each([{}, {}, {}], concurrency=1)] == [200] * 3


def test_a_caller_who_goes_before_the_end_of_the_body_is_counted_as_gone(
    asked: Asked,
) -> None:
    part: Message = {"type": "http.request", "body": b"{", "more_body": True}
    gone, page = asked.each([{}, METRICS], part, {"type": "http.disconnect"})
    assert gone[0] == 0
    chat = 'rootguard_requests_total{route="/v1/chat/completions",status="499"} 1.0'
    assert chat in metrics(page)
    assert not [line for line in metrics(page) if line.startswith("rootguard_refusals_total{")]
    assert asked.heard == []


def test_a_caller_who_goes_while_the_upstream_thinks_ends_the_request(asked: Asked) -> None:
    ended: list[bool] = []

    async def reply(_request: httpx2.Request) -> httpx2.Response:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(True)
        raise AssertionError

    asked.reply = reply
    body: Message = {"type": "http.request", "body": CHAT}
    assert asked.each([{}], body, {"type": "http.disconnect"})[0][0] == 0
    assert ended == [True]


@pytest.mark.parametrize(("size", "status"), [(64, 200), (65, 431)])
def test_so_many_headers_pass(asked: Asked, size: int, status: int) -> None:
    more = {f"x-{place}": "" for place in range(size - len(JSON))}
    assert asked(headers={**JSON, **more})[0] == status


@pytest.mark.parametrize(("size", "status"), [(1000, 200), (1001, 431)])
def test_so_many_bytes_of_headers_pass(asked: Asked, size: int, status: int) -> None:
    padding = size - sum(len(name) + len(value) for name, value in JSON.items()) - len("x")
    answers = asked.each([{"headers": {**JSON, "x": "1" * padding}}], max_header_bytes=1000)
    assert answers[0][0] == status


@pytest.mark.parametrize(
    ("host", "served"),
    [
        ("[::1]", True),
        ("[::1]:8791", True),
        ("somebody@localhost:1", True),
        ("localhost@evil.example", False),
        ("localhost:1@evil.example:80", False),
        ("[::2]", False),
    ],
)
def test_of_a_host_the_name_alone_decides(asked: Asked, host: str, served: bool) -> None:
    assert asked(headers={**JSON, "host": host})[0] == (200 if served else 421)


@pytest.mark.parametrize(
    ("header", "given", "served"),
    [
        ("authorization", "Bearer k-1", True),
        ("authorization", "bearer  k-1 ", True),
        ("authorization", "Basic k-1", False),
        ("authorization", "k-1", False),
        ("x-api-key", "k-1", True),
        ("x-api-key", "k-2", False),
    ],
)
def test_a_key_stands_in_either_header_and_a_scheme_in_any_case(
    asked: Asked, header: str, given: str, served: bool
) -> None:
    keys = ApiKeys(profiles={hashlib.sha256(b"k-1").digest(): "me"})
    answer = asked.each([{"headers": {**JSON, header: given}}], keys=keys)[0]
    assert answer[0] == (200 if served else 401)


@pytest.mark.parametrize("header", ["authorization", "x-api-key"])
def test_a_key_for_the_gateway_goes_no_further(asked: Asked, header: str) -> None:
    """Nor where the upstream has no key of its own; without keys the caller's is the upstream's."""
    keys = ApiKeys(profiles={hashlib.sha256(b"k-1").digest(): "me"})
    given = "Bearer k-1" if header == "authorization" else "k-1"
    request = {"headers": {**JSON, header: given}}
    assert asked.each([request], keys=keys)[0][0] == 200
    assert asked.each([request])[0][0] == 200
    ours, theirs = asked.heard
    assert header not in ours.headers
    assert b"k-1" not in b"".join(value for _, value in ours.headers.raw)
    assert theirs.headers[header] == given


@pytest.mark.parametrize(
    "more",
    [
        {"content-encoding": "gzip"},
        {"content-length": str(len(CHAT)), "transfer-encoding": "chunked"},
        {"content-type": "application/json5"},
    ],
)
def test_a_body_that_two_readers_could_read_differently_is_refused(
    asked: Asked, more: dict[str, str]
) -> None:
    answer = asked(headers={**JSON, **more})
    assert (answer[0], code_of(answer)) == (415, "unsupported_body")
    assert asked.heard == []


def test_a_body_in_plain_or_with_a_charset_is_read(asked: Asked) -> None:
    plain = {"content-encoding": "identity", "content-type": "Application/JSON; charset=utf-8"}
    assert asked(headers={**JSON, **plain})[0] == 200


@pytest.mark.parametrize("key", ["authorization", "x-api-key"])
def test_a_key_beyond_ascii_is_refused_before_it_is_sent(asked: Asked, key: str) -> None:
    answer = asked(headers={**JSON, key: "Bearer schlüssel"})
    assert (answer[0], code_of(answer)) == (400, "bad_value")
    assert asked.heard == []


def test_the_name_of_a_model_stays_within_the_models(asked: Asked) -> None:
    refused = asked(path="/v1/models/a/../../files", method="GET")
    assert (refused[0], code_of(refused)) == (400, "bad_value")
    assert asked.heard == []
    assert asked(path="/v1/models/ft:a+b@c/d", method="GET")[0] == 200
    assert asked.heard[0].url.raw_path == b"/v1/models/ft:a%2Bb@c/d"


@pytest.mark.parametrize("status", [301, 307])
def test_a_redirect_is_not_passed_on(asked: Asked, status: int) -> None:
    asked.says(status, headers={"location": "http://evil.example"})
    answer = asked()
    assert (answer[0], code_of(answer)) == (502, "unreadable_reply")
    assert "location" not in answer[1]


@pytest.mark.parametrize("kind", ["text/plain", "text/event-stream"])
def test_an_error_in_any_text_comes_back_whole_and_restored(asked: Asked, kind: str) -> None:
    token = asked.person.release("name")
    asked.says(500, f"no account of {token}".encode(), headers={"content-type": kind})
    told = {"model": "m", "messages": [{"role": "user", "content": f"I am {NAME}."}]}
    status, headers, body = asked(body=json.dumps(told).encode())
    assert (status, headers["content-type"]) == (500, "text/plain; charset=utf-8")
    assert body.decode() == f"no account of {NAME}"


def test_of_an_error_that_is_no_json_the_beginning_is_shown(asked: Asked) -> None:
    asked.says(500, b"x" * 100_000)
    assert asked()[2] == b"x" * 65_536


def test_an_answer_that_is_no_json_is_not_passed_on(asked: Asked) -> None:
    asked.says(200, b"<html>")
    answer = asked()
    assert (answer[0], code_of(answer)) == (502, "unreadable_reply")


STREAM = {"content-type": "text/event-stream"}


class Endless(httpx2.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b": begun\n\n"
        await anyio.sleep_forever()


def test_a_stream_that_takes_too_long_says_so_itself_and_is_counted(asked: Asked) -> None:
    asked.says(200, headers=STREAM, stream=Endless())
    answer, page = asked.each([{}, METRICS], total_timeout=0.01)
    assert answer[0] == 200
    assert answer[1]["cache-control"] == "no-store"
    assert b'"upstream_timeout"' in answer[2]
    assert 'rootguard_refusals_total{code="upstream_timeout"} 1.0' in metrics(page)


def test_what_goes_wrong_after_a_reply_began_begins_no_second_one(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(_self: object) -> list[object]:
        raise RequestRefusedError("busy")

    monkeypatch.setattr(ChatStream, "end", end)
    asked.says(200, b"data: [DONE]\n\n", headers=STREAM)
    answer, page = asked.each([{}, METRICS])
    assert answer[0] == 200
    assert b"busy" not in answer[2]
    assert 'rootguard_refusals_total{code="busy"} 1.0' in metrics(page)


@pytest.mark.parametrize(
    "request_",
    [
        {"body": b'{"model": "m", "messages": [], "surprise": 1}'},
        {"headers": {**JSON, "openai-project": NAME}},
    ],
)
def test_a_request_that_is_refused_is_in_the_persons_audit_log(
    asked: Asked, request_: dict[str, Any]
) -> None:
    assert asked(**request_)[0] == 400
    refused = [each for each in asked.person.transcript() if isinstance(each, PlacesRefused)]
    assert len(refused) == 1
    assert refused[0].rule in ("unknown_field", "private_id")
    assert asked()[0] == 200
    assert asked.person.transcript()[-1] == refused[0]


def test_what_is_replaced_is_in_the_persons_audit_log_with_its_place(asked: Asked) -> None:
    said = f"My AST is 47.318264 and my name is {NAME}. I repeat: {NAME}."
    messages = [{"role": "system", "content": "Help."}, {"role": "user", "content": said}]
    assert asked(body=json.dumps({"model": "m", "messages": messages}).encode())[0] == 200
    (changed,) = (each for each in asked.person.transcript() if isinstance(each, PlacesRefused))
    found = {(each.change, each.root): each for each in changed.places}
    assert found["value", "ast"].times == 1
    assert found["identifier", ""].times == 2
    assert {each.path for each in changed.places} == {"messages[1].content"}
    assert {each.source for each in changed.places} == {"owner"}
    assert "47.318264" not in repr(changed)


def test_a_refused_text_is_in_the_persons_audit_log_with_rule_and_place(asked: Asked) -> None:
    said = "My ferritin level was 480.1736 ng/mL."
    messages = [{"role": "user", "content": said}]
    body = json.dumps({"model": "m", "messages": messages}).encode()
    headers = {**JSON, gateway.ON_DOUBT: "refuse"}
    assert asked(body=body, headers=headers)[0] == 422
    refused = asked.person.transcript()[-1]
    assert isinstance(refused, PlacesRefused)
    assert refused.rule == "unbound_number"
    (place,) = refused.places
    assert (place.path, place.change, place.source) == ("messages[0].content", "refused", "owner")
