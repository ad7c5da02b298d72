"""The wire under an MCP server: standard streams and HTTP, with limits and fixed words.

The SDK drops a line that it cannot read, takes lines of any length, and answers some bad requests
with the text of its own errors, which quote what was sent. Here every message is read once more
strictly before the SDK sees it, the sender always gets a JSON-RPC error, and no error says more
than its code does. Nothing is logged.
"""

import hashlib
import hmac
import json
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, BinaryIO, Final

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rootguard.channels.mcp.jsonrpc import TEXTS

MAX_MESSAGE: Final = 1024 * 1024
"""Bytes of one message. A question or a list of names needs a thousandth of this."""

_Incoming = SessionMessage | Exception
_In = MemoryObjectReceiveStream[_Incoming]
_Out = MemoryObjectSendStream[SessionMessage]


def plain_error(code: int, request_id: RequestId | None = None) -> JSONRPCError:
    """A JSON-RPC error in fixed words."""
    known = code if code in TEXTS else INTERNAL_ERROR
    error = ErrorData(code=known, message=TEXTS[known])
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def read_message(line: bytes | str) -> tuple[JSONRPCMessage | None, JSONRPCError | None]:
    """A message, or the error that answers it; the request's id is kept if it has one."""
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False), None
    except ValidationError:
        pass
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None, plain_error(PARSE_ERROR)
    name = content.get("id") if isinstance(content, dict) else None
    usable = isinstance(name, str | int) and not isinstance(name, bool)
    return None, plain_error(INVALID_REQUEST, name if usable else None)


async def plain_errors(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Server middleware: whatever is raised leaves as an error in fixed words, without data."""
    code = INTERNAL_ERROR
    try:
        return await call_next(ctx)
    except MCPError as problem:
        code = problem.code
    except ValidationError:
        code = INVALID_PARAMS
    except Exception:  # noqa: BLE001 - its text may quote an argument
        code = INTERNAL_ERROR
    known = code if code in TEXTS else INTERNAL_ERROR
    raise MCPError(known, TEXTS[known])


def quiet() -> None:
    """No log of the SDK or of the HTTP server: their records quote requests and headers."""
    for name in ("mcp", "uvicorn", "asyncio", "sse_starlette"):
        logger = logging.getLogger(name)
        logger.handlers = [logging.NullHandler()]
        logger.propagate = False


@asynccontextmanager
async def stdio_streams(*, max_message: int = MAX_MESSAGE) -> AsyncIterator[tuple[_In, _Out]]:
    """The process's standard streams as a pair for `Server.run`.

    Meanwhile descriptor 0 reads nothing and descriptor 1 is standard error, so that nothing that
    prints can break a message.
    """
    source, sink = _taken(0, "rb"), _taken(1, "wb")
    incoming_send, incoming = anyio.create_memory_object_stream[_Incoming](0)
    outgoing, outgoing_receive = anyio.create_memory_object_stream[SessionMessage](0)
    answers = outgoing.clone()

    async def read() -> None:
        async with incoming_send, answers:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                while line := await anyio.to_thread.run_sync(
                    _line, source, max_message, abandon_on_cancel=True
                ):
                    if line.isspace():
                        continue
                    message, refusal = read_message(line)
                    if message is not None:
                        await incoming_send.send(SessionMessage(message))
                    elif refusal is not None:
                        await answers.send(SessionMessage(refusal))

    async def write() -> None:
        async with outgoing_receive:
            async for item in outgoing_receive:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await anyio.to_thread.run_sync(_put, sink, text.encode() + b"\n")
                except OSError:  # nobody reads any more
                    return

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        yield incoming, outgoing


def _taken(descriptor: int, mode: str) -> BinaryIO:
    """A private copy of a standard stream, which is itself diverted."""
    stream = os.fdopen(os.dup(descriptor), mode)
    if descriptor == 1:
        sys.stdout.flush()
        os.dup2(2, 1)
    else:
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, descriptor)
        os.close(empty)
    return stream  # type: ignore[return-value]


def _line(source: BinaryIO, most: int) -> bytes:
    """The next line; a longer one than allowed is read to its end and becomes one that fails."""
    line = source.readline(most + 1)
    if len(line) <= most or line.endswith(b"\n"):
        return line
    while (rest := source.readline(most)) and not rest.endswith(b"\n"):
        pass
    return b"too large\n"


def _put(sink: BinaryIO, line: bytes) -> None:
    sink.write(line)
    sink.flush()


class RequestFilter:
    """Before an MCP server on HTTP: the key, the size and the shape of a request are checked."""

    def __init__(
        self, app: ASGIApp, *, key: str | None = None, max_message: int = MAX_MESSAGE
    ) -> None:
        self._app = app
        self._digest = None if key is None else _digest(key.encode())
        self._most = max_message

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not self._known(scope):
            wanted = ((b"www-authenticate", b"Bearer"),)
            await _reply(send, 401, plain_error(INVALID_REQUEST), more=wanted)
            return
        if scope["method"] != "POST":  # there is no session to end, and nothing comes unasked
            await _reply(send, 405, plain_error(INVALID_REQUEST), more=((b"allow", b"POST"),))
            return
        body = await _body(receive, self._most)
        if body is None:
            await _reply(send, 413, plain_error(PARSE_ERROR), more=((b"connection", b"close"),))
            return
        _, refusal = read_message(body)
        if refusal is not None:
            await _reply(send, 400, refusal)
            return
        await self._app(scope, _replay(body, receive), send)

    def _known(self, scope: Scope) -> bool:
        if self._digest is None:
            return True
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        kind, _, key = (given[0] if len(given) == 1 else b"").partition(b" ")
        return kind.lower() == b"bearer" and hmac.compare_digest(_digest(key), self._digest)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


async def _body(receive: Receive, most: int) -> bytes | None:
    """The whole body, or None if it is too large or breaks off."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > most:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body that was read, once more, and then what comes after it."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


async def _reply(
    send: Send, status: int, error: JSONRPCError, *, more: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    body = json.dumps(error.model_dump(mode="json", by_alias=True, exclude_unset=True)).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *more,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
