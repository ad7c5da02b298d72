"""A server on HTTP: the headers of a message, and how much of a reply is read."""

import asyncio
from collections.abc import AsyncIterator

import anyio
import httpx2
import pytest
from mcp_types import PROTOCOL_VERSION_META_KEY

from rootguard.channels.mcp.jsonrpc import Limits
from rootguard.channels.mcp.proxy.http import HttpConnection, ServerAddress, _Counted, _Stamp

NEW = {PROTOCOL_VERSION_META_KEY: "2026-07-28"}
MIRRORED = {"type": "object", "properties": {"ward": {"type": "string", "x-mcp-header": "Ward"}}}


def headers(stamp: _Stamp, method: str | None, **params: object) -> dict[str, str] | None:
    made = stamp.metadata({"method": method, "params": params})
    return None if made is None else dict(made.headers or {})


def test_an_older_revision_is_named_once_it_was_agreed_on() -> None:
    stamp = _Stamp()
    assert headers(stamp, "tools/list") is None
    stamp.learn({"result": {"protocolVersion": "2025-11-25"}})
    stamp.learn({"result": 5})
    assert headers(stamp, "tools/list") is None
    stamp.learn({"result": {"protocolVersion": "2025-11-25", "serverInfo": {}}})
    assert headers(stamp, "tools/list") == {"mcp-protocol-version": "2025-11-25"}
    assert headers(stamp, "initialize") is None
    assert headers(stamp, None) is None


def test_a_newer_revision_says_method_name_and_mirrored_arguments() -> None:
    stamp = _Stamp()
    tools = [{"name": "visit", "inputSchema": MIRRORED}, {"name": "bare"}, 5]
    stamp.learn({"result": {"tools": tools}})
    always = {"mcp-protocol-version": "2026-07-28"}
    listed = headers(stamp, "tools/list", _meta=NEW)
    assert listed == {**always, "mcp-method": "tools/list"}
    called = headers(stamp, "tools/call", _meta=NEW, name="visit", arguments={"ward": "north"})
    assert called is not None
    assert called["mcp-name"] == "visit"
    mirrored = {name.lower(): value for name, value in called.items()}
    assert mirrored["mcp-param-ward"] == "north"
    bare = headers(stamp, "tools/call", _meta=NEW, name="bare")
    assert bare == {**always, "mcp-method": "tools/call", "mcp-name": "bare"}


class Pieces(httpx2.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"12345"


@pytest.mark.parametrize(("most", "read"), [(15, 3), (14, 2)])
def test_a_reply_is_read_up_to_its_limit(most: int, read: int) -> None:
    found: list[bytes] = []

    async def run() -> None:
        async for piece in _Counted(Pieces(), most):
            found.append(piece)  # noqa: PERF401 - what came before the end is looked at

    if read == 3:
        anyio.run(run)
    else:
        with pytest.raises(httpx2.StreamError):
            anyio.run(run)
    assert found == [b"12345"] * read


def test_an_address_shows_no_header() -> None:
    assert "secret" not in repr(ServerAddress(url="http://x", headers={"key": "secret"}))


class Ending(HttpConnection):
    """A connection whose thread has closed its loop and not yet said that it ended."""

    def _run(self) -> None:
        self._loop, self._queue = asyncio.new_event_loop(), asyncio.Queue()
        self._loop.close()
        self._up.set()


def test_a_message_to_a_connection_that_is_just_ending_meets_a_broken_pipe() -> None:
    connection = Ending(ServerAddress(url="http://x"), lambda _: None, lambda _: None, Limits())
    with pytest.raises(BrokenPipeError) as refused:
        connection.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert refused.value.__suppress_context__
    connection.close(at_once=True)
