"""The wire under the MCP server, without processes: sizes, keys and fixed words."""

import io
import json
import logging
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequest
from pydantic import ValidationError
from starlette.types import Message, Receive, Scope, Send

from rootguard.channels.mcp import transport
from rootguard.channels.mcp.jsonrpc import TEXTS
from rootguard.channels.mcp.transport import MAX_MESSAGE, RequestFilter, plain_errors, read_message

PING = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        (b"12345\nx\n", [b"12345\n", b"x\n"]),
        (b"123456\nx\n", [b"123456\n", b"x\n"]),
        (b"1234567\nx\n", [b"too large\n", b"x\n"]),
        (b"1" * 100 + b"\nx\n", [b"too large\n", b"x\n"]),
        (b"123456", [b"123456"]),
        (b"1234567", [b"too large\n"]),
    ],
)
def test_a_line_that_is_too_long_is_read_to_its_end_and_fails(
    written: bytes, lines: list[bytes]
) -> None:
    source = io.BytesIO(written)
    found = []
    while line := transport._line(source, 6):
        found.append(line)
        assert len(found) < 9
    assert found == lines


@pytest.mark.parametrize(
    ("line", "code", "name"),
    [
        (b"{", -32700, None),
        (b"[]", -32600, None),
        (b'{"id": 5}', -32600, 5),
        (b'{"id": "a"}', -32600, "a"),
        (b'{"id": true}', -32600, None),
        (b'{"id": 1.5}', -32600, None),
    ],
)
def test_what_is_no_message_is_answered_under_its_id(line: bytes, code: int, name: object) -> None:
    message, refusal = read_message(line)
    assert message is None
    assert refusal is not None
    assert (refusal.error.code, refusal.error.message, refusal.id) == (code, TEXTS[code], name)
    assert read_message(PING)[1] is None


def test_a_code_that_is_not_the_protocols_is_internal() -> None:
    assert transport.plain_error(-1).error.code == -32603
    assert transport.plain_error(-32601, 3).id == 3


def invalid() -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        CallToolRequest.model_validate({"method": "secret"})
    return caught.value


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (MCPError(-32601, "secret"), -32601),
        (MCPError(-5, "secret"), -32603),
        (invalid(), -32602),
        (RuntimeError("secret"), -32603),
    ],
)
def test_whatever_is_raised_leaves_in_fixed_words(problem: Exception, code: int) -> None:
    async def fail(_: object) -> None:
        raise problem

    middleware: Any = plain_errors
    with pytest.raises(MCPError) as caught:
        anyio.run(middleware, None, fail)
    assert caught.value.code == code
    assert str(caught.value) == TEXTS[code]


def test_logs_of_others_are_kept_quiet() -> None:
    names = ("mcp", "uvicorn", "asyncio", "sse_starlette")
    loggers = [logging.getLogger(name) for name in names]
    before = [(each.handlers, each.propagate) for each in loggers]
    try:
        transport.quiet()
        assert not any(each.propagate for each in loggers)
        assert all(isinstance(each.handlers[0], logging.NullHandler) for each in loggers)
    finally:
        for each, (handlers, propagate) in zip(loggers, before, strict=True):
            each.handlers, each.propagate = handlers, propagate


class Filtered:
    """A request through the filter, and what came of it."""

    def __init__(
        self,
        *pieces: Message,
        key: str | None = None,
        method: str = "POST",
        kind: str = "http",
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        self.reached: list[Message] = []
        self.told: list[Message] = []
        waiting = list(pieces)

        async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
            self.reached += [await receive(), await receive()]

        async def receive() -> Message:
            return waiting.pop(0) if waiting else {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            self.told.append(message)

        scope: dict[str, Any] = {"type": kind, "method": method, "headers": headers}
        anyio.run(RequestFilter(app, key=key, max_message=len(PING)), scope, receive, send)

    @property
    def status(self) -> int:
        assert self.reached == []
        start, body = self.told
        told = dict(start["headers"])
        assert told[b"content-type"] == b"application/json"
        assert told[b"content-length"] == str(len(body["body"])).encode()
        error = json.loads(body["body"])["error"]
        assert error["message"] == TEXTS[error["code"]]
        status = start["status"]
        assert isinstance(status, int)
        return status

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.told[0]["headers"])


def piece(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_good_body_reaches_the_server_whole_and_once() -> None:
    made = Filtered(piece(PING[:9], more=True), piece(PING[9:]))
    assert made.reached == [piece(PING), {"type": "http.disconnect"}]
    assert made.told == []
    bare = Filtered(piece(PING, more=True), {"type": "http.request"})
    assert bare.reached[0] == piece(PING)


def test_what_is_no_request_of_http_passes_unread() -> None:
    assert Filtered(piece(b"x"), kind="lifespan", method="GET", key="k").reached[0] == piece(b"x")


def test_a_body_that_is_too_long_or_breaks_off_is_refused() -> None:
    long = Filtered(piece(PING + b" "))
    assert (long.status, long.headers[b"connection"]) == (413, b"close")
    assert Filtered(piece(PING, more=True), {"type": "http.disconnect"}).status == 413
    assert Filtered(piece(b"{")).status == 400
    assert MAX_MESSAGE == 1_048_576


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_only_posts_are_served(method: str) -> None:
    made = Filtered(piece(PING), method=method)
    assert (made.status, made.headers[b"allow"]) == (405, b"POST")


@pytest.mark.parametrize(
    "given",
    [
        (),
        ((b"authorization", b"Bearer wrong"),),
        ((b"authorization", b"Basic right"),),
        ((b"authorization", b"right"),),
        ((b"x-key", b"Bearer right"),),
        ((b"authorization", b"Bearer right"), (b"authorization", b"Bearer right")),
    ],
)
def test_one_right_key_is_needed(given: tuple[tuple[bytes, bytes], ...]) -> None:
    made = Filtered(piece(PING), key="right", headers=given)
    assert (made.status, made.headers[b"www-authenticate"]) == (401, b"Bearer")


def test_the_right_key_is_enough_however_its_kind_is_spelled() -> None:
    for kind in (b"Bearer", b"bearer"):
        headers = ((b"authorization", kind + b" right"),)
        assert Filtered(piece(PING), key="right", headers=headers).reached
