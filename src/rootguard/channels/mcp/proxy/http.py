"""A server behind the proxy on HTTP, in any protocol revision, through the SDK.

Streamable HTTP, or the two endpoints with server-sent events that came before it. The SDK's
transport runs in a thread with an event loop of its own. Replies are bounded, redirects stay within
the origin, the environment's proxies are not used, and the SDK logs nothing. A server that wants
credentials says so with a status, and the client is told that status.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import PROTOCOL_VERSION_META_KEY, jsonrpc_message_adapter

from rootguard.channels.faults import FAULTS, Code, RequestRefusedError
from rootguard.channels.mcp.jsonrpc import Limits, Message, refusal, write
from rootguard.channels.mcp.proxy.links import Hear, Lost
from rootguard.channels.mcp.transport import quiet

_QUEUE: Final = 512
"""Messages that the transport has not sent: twice the requests that a client may have under way."""
_GRACE: Final = 5.0
"""Seconds to end a session by a request of its own; a network takes longer than a pipe."""
_CONNECT: Final = 30.0
"""Seconds for everything but reading a reply: the SDK's own."""
_SIGN_IN: Final = 330.0
"""Seconds to connect if the owner has to sign in: what `authorization` waits, and a little."""


Streams = tuple[Any, Any]


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ServerAddress:
    """A server on HTTP. Its headers may hold secrets. `sign_in` makes what signs its requests."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)
    sse: bool = False
    sign_in: Callable[[], httpx2.Auth] | None = None

    def __call__(self, hear: Hear, lost: Lost, limits: Limits) -> "HttpConnection":
        return HttpConnection(self, hear, lost, limits)

    @contextlib.asynccontextmanager
    async def streams(self, limits: Limits) -> AsyncIterator[Streams]:
        """The SDK's transport to it: what comes in, and where to send."""
        signer = None if self.sign_in is None else self.sign_in()
        patience = httpx2.Timeout(_CONNECT, read=limits.answer)

        def client(
            headers: dict[str, str] | None = None,  # noqa: ARG001 - as the SDK calls it
            timeout: httpx2.Timeout | None = None,  # noqa: ARG001
            auth: httpx2.Auth | None = None,  # noqa: ARG001
        ) -> httpx2.AsyncClient:
            return httpx2.AsyncClient(
                transport=_Bounded(limits.from_server, self.url),
                headers=self.headers,
                timeout=patience,
                trust_env=False,
                auth=signer,
            )

        if self.sse:
            async with sse_client(self.url, httpx_client_factory=client) as both:
                yield both
            return
        async with (
            client() as http,
            streamable_http_client(
                self.url, http_client=http, max_sse_event_size=limits.from_server
            ) as both,
        ):
            yield both


class HttpConnection:
    """The SDK's transport in a thread."""

    def __init__(self, address: ServerAddress, hear: Hear, lost: Lost, limits: Limits) -> None:
        quiet()
        self._address = address
        self._hear = hear
        self._lost = lost
        self._limits = limits
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queue: asyncio.Queue[SessionMessage | None] | None = None
        self._stamp = _Stamp()
        # Both are set by the thread that has the event loop, and waited for by those that send:
        # `_down` before `_up`, so that whoever waits for the start sees that it failed.
        self._up = threading.Event()
        self._down = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()
        self._code: Code = "upstream_unreachable"
        # Somebody may have to sign in first, in a browser.
        patience = limits.start if address.sign_in is None else max(limits.start, _SIGN_IN)
        if not self._up.wait(patience) or self._down.is_set():
            raise RequestRefusedError(self._code)

    def send(self, message: Message) -> None:
        """Hand a message to the transport."""
        loop, queue = self._loop, self._queue
        if loop is None or queue is None or self._down.is_set() or queue.qsize() >= _QUEUE:
            raise BrokenPipeError
        made = jsonrpc_message_adapter.validate_python(message, by_name=False)
        stamped = SessionMessage(made, metadata=self._stamp.metadata(message))
        try:
            loop.call_soon_threadsafe(queue.put_nowait, stamped)
        except RuntimeError:
            raise BrokenPipeError from None

    def close(self, *, at_once: bool = False) -> None:
        """Let the transport end its session."""
        if self._loop is not None and self._queue is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._queue.put_nowait, None)
            if not at_once:
                self._down.wait(_GRACE)

    def _run(self) -> None:
        code: Code = "upstream_unreachable"
        try:
            anyio.run(self._talk)
        except Exception as problem:  # noqa: BLE001 - what it says may quote the server's reply
            code = _why(problem)
        self._code = code
        self._down.set()
        self._up.set()
        self._lost(code)

    async def _talk(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue = asyncio.Queue()
        async with (
            self._address.streams(self._limits) as (incoming, outgoing),
            anyio.create_task_group() as tasks,
        ):

            async def listen() -> None:
                async for item in incoming:
                    if isinstance(item, SessionMessage):
                        line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                        self._stamp.learn(item.message.model_dump(by_alias=True, mode="json"))
                        await anyio.to_thread.run_sync(self._hear, line.encode())
                tasks.cancel_scope.cancel()

            tasks.start_soon(listen)
            self._up.set()
            while (message := await self._queue.get()) is not None:
                await outgoing.send(message)
            tasks.cancel_scope.cancel()


class _Stamp:
    """The HTTP headers of a message, as its revision wants them."""

    def __init__(self) -> None:
        self._revision: str | None = None
        self._mirrored: dict[str, dict[tuple[str, ...], str]] = {}

    def learn(self, message: dict[str, Any]) -> None:
        """Note the revision that was agreed on, and arguments that go into headers."""
        found = message.get("result")
        if not isinstance(found, dict):
            return
        if isinstance(found.get("protocolVersion"), str) and "serverInfo" in found:
            self._revision = found["protocolVersion"]
        tools = found.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            schema = tool.get("inputSchema") if isinstance(tool, dict) else None
            if isinstance(schema, dict) and find_invalid_x_mcp_header(schema) is None:
                self._mirrored[str(tool.get("name"))] = x_mcp_header_map(schema)

    def metadata(self, message: Message) -> ClientMessageMetadata | None:
        method, params = message.get("method"), message.get("params") or {}
        if method is None or method == "initialize":
            return None
        revision = (params.get("_meta") or {}).get(PROTOCOL_VERSION_META_KEY)
        if revision is None:
            if self._revision is None:
                return None
            return ClientMessageMetadata(headers={MCP_PROTOCOL_VERSION_HEADER: self._revision})
        headers = {MCP_PROTOCOL_VERSION_HEADER: revision, MCP_METHOD_HEADER: method}
        name = params.get(NAME_BEARING_METHODS.get(method, ""))
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
        if method == "tools/call":
            mirrored = self._mirrored.get(str(name), {})
            headers.update(mcp_param_headers(mirrored, params.get("arguments") or {}))
        return ClientMessageMetadata(headers=headers)


def _why(problem: BaseException) -> Code:
    """Why a connection ended: because credentials are missing, or for another reason."""
    if isinstance(problem, BaseExceptionGroup):
        found = [_why(each) for each in problem.exceptions]
        return next((code for code in found if code in _DENIED.values()), "upstream_unreachable")
    if isinstance(problem, OAuthFlowError):
        return "upstream_unauthorized"
    if isinstance(problem, httpx2.HTTPStatusError):
        return _DENIED.get(problem.response.status_code, "upstream_unreachable")
    return "upstream_unreachable"


_DENIED: Final[Mapping[int, Code]] = {401: "upstream_unauthorized", 403: "upstream_forbidden"}


class _Bounded(httpx2.AsyncHTTPTransport):
    """A transport whose replies end when they are too large; streams of events have no end.

    A reply of the server itself that denies a request says so as an error of JSON-RPC, in fixed
    words; its headers, which say how to sign in, stay.
    """

    def __init__(self, most: int, url: str) -> None:
        super().__init__()
        self._most = most
        self._place = httpx2.URL(url).path

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send it, and count what comes back."""
        response = await super().handle_async_request(request)
        code = _DENIED.get(response.status_code)
        if code is not None and request.method == "POST" and request.url.path == self._place:
            await response.aclose()
            return _denied(response, code)
        kind = response.headers.get("content-type", "")
        if not kind.startswith("text/event-stream") and isinstance(
            response.stream, httpx2.AsyncByteStream
        ):
            response.stream = _Counted(response.stream, self._most)
        return response


def _denied(response: httpx2.Response, code: Code) -> httpx2.Response:
    """The reply that denies a request, with a body that the client can be shown."""
    error = {**refusal(FAULTS[code]), "data": {"code": code, "status": response.status_code}}
    dropped = ("content-length", "content-encoding", "content-type", "transfer-encoding")
    kept = [(k, v) for k, v in response.headers.multi_items() if k.lower() not in dropped]
    return httpx2.Response(
        response.status_code,
        headers=[*kept, ("content-type", "application/json")],
        content=write({"jsonrpc": "2.0", "id": None, "error": error}),
    )


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, most: int) -> None:
        self._stream = stream
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._most
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise httpx2.StreamError("too large")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
