"""The gateway: an agent changes its base URL, and its user's numbers and names stop leaving.

It speaks OpenAI's chat completions, responses, completions, embeddings, moderations and models,
also under Azure's paths, and Anthropic's messages. A request is inspected whole before anything of
it is sent; what cannot be inspected is not sent. Replies are restored as they come. The store is
synchronous, so everything that touches a person runs in a worker thread. Errors are answered in the
API's own form with the fixed texts of `faults`, and logged by class only.
"""

import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Literal, cast, get_args
from urllib.parse import quote

import anyio
import anyio.to_thread
import httpx2
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from rootguard.channels.api_keys import ApiKeys
from rootguard.channels.faults import FAULTS, Code, fault_of
from rootguard.channels.faults import RequestRefusedError as Refused
from rootguard.channels.gateway.anthropic import COUNT_TOKENS, MESSAGES
from rootguard.channels.gateway.channel import OpenedLately, PersonChannel, ReplyAudit
from rootguard.channels.gateway.openai import (
    CHAT,
    COMPLETIONS,
    DEPLOYED_CHAT,
    DEPLOYED_COMPLETIONS,
    DEPLOYED_EMBEDDINGS,
    EMBEDDINGS,
    MODERATIONS,
    RESPONSES,
)
from rootguard.channels.gateway.refusals import Refusal, find_refusal
from rootguard.channels.gateway.shapes import (
    OutgoingRequest,
    Shape,
    examine,
    header,
    label,
    read_json,
)
from rootguard.channels.gateway.telemetry import CONTENT_TYPE, Metrics, RequestOutcome, Tracing
from rootguard.channels.gateway.upstream import (
    KEY_HEADERS,
    SENT,
    Api,
    ChatStream,
    CompletionStream,
    MessagesStream,
    ReplySender,
    ResponsesStream,
    Stream,
    Upstream,
    error_body,
    read_reply,
    restore_reply,
    returned_headers,
    stream_fault,
    write_reply,
)
from rootguard.errors import RootGuardError
from rootguard.session.profile import OnDoubt
from rootguard.session.session import speak_to

LOG: Final = logging.getLogger("rootguard.gateway")
INSPECTING: Final = 2
"""Requests sanitized at once: more would share the processor and all be late, and behind a single
one that is long the short ones would wait."""
_CALLER_GONE: Final = 499
"""The status that is counted where nobody was left to answer; nginx's."""
_LAST_WORD: Final = 5.0
"""Seconds in which a stream that has run out of time can still say so."""
_ERROR_TEXT: Final = 64 * 1024
"""Bytes that are shown of an upstream's error that is no JSON: a page of some proxy between."""
ON_DOUBT: Final = "x-rootguard-on-doubt"
"""The header by which a caller chooses what becomes of a number in doubt. It goes no further."""
LOOPBACK: Final = frozenset(("127.0.0.1", "localhost", "::1"))


@dataclass(frozen=True, kw_only=True, slots=True)
class GatewaySettings:
    """Where the gateway sends, who may call, and its limits."""

    upstream: str
    anthropic_upstream: str | None = None
    upstream_key: str | None = field(default=None, repr=False)
    anthropic_key: str | None = field(default=None, repr=False)
    profile: str = ""
    keys: ApiKeys | None = None
    hosts: frozenset[str] = LOOPBACK
    allow_media: bool = False
    traced: bool = False
    max_body: int = 4 * 1024 * 1024
    """Bytes: a million tokens, as much text as any model reads. Inspecting it takes seconds."""
    max_reply: int = 32 * 1024 * 1024
    """Bytes of a whole reply, or of one event: pictures come in base64."""
    max_headers: int = 64
    max_header_bytes: int = 16 * 1024
    """As uvicorn's parser: an SDK sends a dozen headers of a kilobyte in all."""
    per_minute: int = 600
    """Requests of one caller: ten a second is more than an agent needs and less than a flood."""
    concurrency: int = 256
    """Requests under way. Each may hold a body and a reply in memory."""
    people: int = 256
    """Channels kept open. One has tables of names and a memory of texts, a few megabytes."""
    body_timeout: float = 30.0
    """Seconds for a body to arrive, so that a slow sender cannot keep its place."""
    connect_timeout: float = 10.0
    """Seconds until the upstream takes a connection: longer, and callers of one that is down wait
    for nothing; shorter, and one that is slow or far away is taken for down."""
    read_timeout: float = 120.0
    """Seconds between two pieces of a reply: models think for a minute before the first."""
    total_timeout: float = 600.0
    """Seconds for everything: the SDKs themselves wait ten minutes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Service:
    """One thing that is forwarded: where, in whose form, and how its body is read."""

    route: str
    api: Api
    path: str
    shape: Shape | None = None
    stream: type[Stream] | None = None
    query: frozenset[str] = frozenset()


_MODEL_QUERY: Final = frozenset(("after_id", "before_id", "limit"))
_VERSION: Final = frozenset(("api-version",))
"""Azure's, on every one of its paths."""


def _openai(
    path: str,
    shape: Shape | None = None,
    stream: type[Stream] | None = None,
    *,
    root: str = "/v1",
    query: frozenset[str] = _VERSION,
) -> _Service:
    return _Service(
        route=root + path,
        api="openai",
        path=path.replace(":path}", "}"),
        shape=shape,
        stream=stream,
        query=query,
    )


_DEPLOYMENT: Final = "/deployments/{deployment}"
_SERVICES: Final = (
    _openai("/chat/completions", CHAT, ChatStream),
    _openai("/responses", RESPONSES, ResponsesStream),
    _openai("/completions", COMPLETIONS, CompletionStream),
    _openai("/embeddings", EMBEDDINGS),
    _openai("/moderations", MODERATIONS),
    _openai("/models", query=_MODEL_QUERY | _VERSION),
    _openai("/models/{model:path}"),
    _openai(f"{_DEPLOYMENT}/chat/completions", DEPLOYED_CHAT, ChatStream, root="/openai"),
    _openai(f"{_DEPLOYMENT}/completions", DEPLOYED_COMPLETIONS, CompletionStream, root="/openai"),
    _openai(f"{_DEPLOYMENT}/embeddings", DEPLOYED_EMBEDDINGS, root="/openai"),
    _openai("/responses", RESPONSES, ResponsesStream, root="/openai"),
    _openai("/models", root="/openai"),
    _Service(
        route="/v1/messages",
        api="anthropic",
        path="/messages",
        shape=MESSAGES,
        stream=MessagesStream,
        query=frozenset(("beta",)),
    ),
    _Service(
        route="/v1/messages/count_tokens",
        api="anthropic",
        path="/messages/count_tokens",
        shape=COUNT_TOKENS,
        query=frozenset(("beta",)),
    ),
)
_API_PATH: Final = re.compile(r"(?:/openai(?:/deployments/[^/]+)?)?(?:/v1)?(/.*)")
_NOT_SERVED: Final[Mapping[str, Code]] = {
    "/audio": "media_refused",
    "/batches": "batches_refused",
    "/files": "files_refused",
    "/images": "media_refused",
    "/messages/batches": "batches_refused",
    "/uploads": "files_refused",
    "/videos": "media_refused",
}
"""Endpoints that the services have and the gateway does not, and why."""


def _unserved(path: str) -> Code:
    """Why there is nothing at a path."""
    match = _API_PATH.fullmatch(path) if path.startswith(("/v1/", "/openai/")) else None
    if match is None:
        return "not_found"
    found = (code for start, code in _NOT_SERVED.items() if match[1].startswith(start))
    return next(found, "endpoint_refused")


class RateLimit:
    """A bucket of requests for each caller: full at first, refilled evenly over a minute."""

    __slots__ = ("_buckets", "_clock", "_most")

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(per_minute)
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, caller: str) -> float:
        """0 if the caller may go on; otherwise after how many seconds to try again."""
        now = self._clock()
        level, since = self._buckets.get(caller, (self._most, now))
        level = min(self._most, level + (now - since) * self._most / 60)
        allowed = level >= 1
        self._buckets[caller] = (level - 1 if allowed else level, now)
        return 0.0 if allowed else (1 - level) * 60 / self._most


class _TooSoonError(Refused):
    """A caller has to wait."""

    def __init__(self, wait: float) -> None:
        super().__init__("rate_limited")
        self.wait = wait


class _LocatedError(Refused):
    """A refusal that can say where in the request its reason stands."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.fault.code)
        self.refusal = refusal


@dataclass(frozen=True, kw_only=True, slots=True)
class _Exchange:
    """One request, how it is answered, and what may be told of it."""

    service: _Service
    api: Api
    request: Request
    reply: ReplySender
    outcome: RequestOutcome

    @property
    def method(self) -> Literal["GET", "POST"]:
        return "GET" if self.service.shape is None else "POST"


class Gateway:
    """Forwards requests of one or many people to one upstream."""

    def __init__(
        self, settings: GatewaySettings, open_channel: Callable[[str], PersonChannel]
    ) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self._channels = OpenedLately(open_channel, most=settings.people)
        self._rates = RateLimit(settings.per_minute)
        self._tracing = Tracing(enabled=settings.traced)
        self._under_way = 0
        self._inspecting = anyio.CapacityLimiter(INSPECTING)
        self._upstreams: dict[Api, Upstream] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Clients of the upstreams, for as long as the server runs."""
        settings = self.settings
        own = settings.anthropic_upstream is not None  # then no other service's key goes there
        places: dict[Api, tuple[str, str | None]] = {
            "openai": (settings.upstream, settings.upstream_key),
            "anthropic": (
                settings.anthropic_upstream or settings.upstream,
                settings.anthropic_key or (None if own else settings.upstream_key),
            ),
        }
        self._upstreams = {
            api: Upstream(
                base,
                key=key,
                passes_key=settings.keys is None,
                connect_timeout=settings.connect_timeout,
                read_timeout=settings.read_timeout,
                connections=settings.concurrency,
            )
            for api, (base, key) in places.items()
        }
        try:
            yield
        finally:
            for upstream in self._upstreams.values():
                await upstream.close()

    async def answer(self, service: _Service, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens."""
        started = time.perf_counter()
        request = Request(scope, receive)
        reply = ReplySender(send)
        api: Api = "anthropic" if "anthropic-version" in request.headers else service.api
        speak_to(self._upstreams[api].name, service.route)
        self.metrics.began()
        self._under_way += 1
        with self._tracing.span(service.route) as outcome:
            exchange = _Exchange(
                service=service, api=api, request=request, reply=reply, outcome=outcome
            )
            try:
                await self._answer(exchange)
            finally:
                self._under_way -= 1
                outcome.status = reply.status or _CALLER_GONE
                seconds = time.perf_counter() - started
                self.metrics.answered(service.route, outcome.status, seconds)
                told = (exchange.method, service.route, outcome.status, seconds * 1000)
                LOG.info("%s %s %d %.0f ms", *told)

    async def _answer(self, exchange: _Exchange) -> None:
        fault, wait, refusal = None, 0.0, None
        try:
            # A stream has the limit itself, and a little less time, so that it can say why it ends.
            with anyio.fail_after(self.settings.total_timeout + _LAST_WORD):
                await self._relay(exchange)
        except _TooSoonError as soon:
            fault, wait = soon.fault, soon.wait
        except _LocatedError as located:
            fault, refusal = located.fault, located.refusal
        except ClientDisconnect:
            return
        except TimeoutError:
            fault = FAULTS["upstream_timeout"]
        except Exception as problem:  # noqa: BLE001 - the last border: nothing of it may get out
            fault = fault_of(problem)
            if fault.code == "internal":
                LOG.error("unexpected %s", type(problem).__name__)  # noqa: TRY400
        if fault is None:
            return
        exchange.outcome.code = fault.code
        self.metrics.refused(fault.code)
        if not exchange.reply.status:
            await exchange.reply.fault(exchange.api, fault, wait, refusal)

    async def _relay(self, exchange: _Exchange) -> None:
        service, request, outcome = exchange.service, exchange.request, exchange.outcome
        if self._under_way > self.settings.concurrency:
            raise Refused("busy")
        profile = self._admit(request.headers)
        body = await self._body(request) if service.shape is not None else b""
        query = dict(request.query_params)
        began = time.perf_counter()
        channel, out, sent, wants_stream = await anyio.to_thread.run_sync(
            self._inspect, service, request, profile, body, limiter=self._inspecting
        )
        del body  # a model may think for minutes, and this is megabytes
        named = {n: quote(str(v), safe="/:@") for n, v in request.path_params.items()}
        path = service.path.format_map(named)
        outcome.replaced = out.replaced.total()
        self.metrics.inspected(service.route, time.perf_counter() - began, out.replaced)
        upstream = self._upstreams[exchange.api]
        headers = upstream.headers(request.headers, stream=wants_stream)
        problem: Exception | None = None
        audit = ReplyAudit(channel)
        # A caller who goes away cancels the request to the upstream, which would go on and cost.
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_until_gone, request.receive, tasks.cancel_scope)
            try:
                async with upstream.send(
                    exchange.method, path, headers=headers, query=query, body=sent
                ) as response:
                    outcome.streamed = await self._pass_on(service, audit, response, exchange.reply)
            except Exception as caught:  # noqa: BLE001 - raised below, outside the group
                problem = caught
            tasks.cancel_scope.cancel()
        # Out here a caller who has gone, as most have by now, cancels nothing.
        self.metrics.unissued(await anyio.to_thread.run_sync(audit.unissued))
        if problem is not None:
            raise problem

    def _inspect(
        self, service: _Service, request: Request, profile: str, body: bytes
    ) -> tuple[PersonChannel, OutgoingRequest, bytes | None, bool]:
        """Whose channel it is, what was replaced, what may be sent, and whether as a stream."""
        channel = self._channels.of(profile)
        doubt = request.headers.get(ON_DOUBT)
        if doubt is not None:
            channel = channel.on_doubt(_on_doubt(doubt))
        out = OutgoingRequest(
            channel,
            allow_media=self.settings.allow_media,
            unknown_fields=channel.unknown_fields,
        )
        try:
            _check_address(service, request, out)
            if service.shape is None:
                return channel, out, None, False
            made, sent = examine(service.shape, out, body)
        except Exception as problem:
            refusal = find_refusal(problem, out.trail, body, is_private=out.is_private)
            where = "" if refusal is None else refusal.field
            channel.note_refusal(problem, source=out.source, path=where)
            if refusal is None:
                raise
            raise _LocatedError(refusal) from None
        return out.channel, out, sent, made.get("stream") is True

    def _admit(self, headers: Headers) -> str:
        """Whose request it is; refuses strangers, floods of headers and too many requests."""
        settings = self.settings
        size = sum(len(name) + len(value) for name, value in headers.raw)
        if len(headers.raw) > settings.max_headers or size > settings.max_header_bytes:
            raise Refused("headers_too_large")
        profile: str | None = settings.profile
        if settings.keys is None:
            # A web page may make its visitor's browser call here: not under a name of its own.
            host = headers.get("host", "").rpartition("@")[2]
            name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
            if name.strip("[]").lower() not in settings.hosts:
                raise Refused("host_refused")
        else:
            scheme, _, bearer = headers.get("authorization", "").partition(" ")
            given = bearer.strip() if scheme.lower() == "bearer" else ""
            others = (headers[name] for name in KEY_HEADERS[1:] if name in headers)
            profile = settings.keys.profile(given or next(others, ""))
            if profile is None:
                raise Refused("unauthorized")
        wait = self._rates.take(profile or "")
        if wait:
            raise _TooSoonError(wait)
        return profile or ""

    async def _body(self, request: Request) -> bytes:
        headers = request.headers
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" or headers.get("content-encoding", "identity") != "identity":
            raise Refused("unsupported_body")
        if "content-length" in headers and "transfer-encoding" in headers:
            raise Refused("unsupported_body")  # two lengths: two readers may see two bodies
        length = headers.get("content-length", "0")
        # Of a length only its first digits are read; whatever it says, the bytes are counted below.
        if not length.isdigit() or int(length[:20]) > self.settings.max_body:
            raise Refused("too_large")
        held = bytearray()
        try:
            with anyio.fail_after(self.settings.body_timeout):
                async for chunk in request.stream():
                    held += chunk
                    if len(held) > self.settings.max_body:
                        raise Refused("too_large")
        except TimeoutError:
            raise Refused("read_timeout") from None
        return bytes(held)

    async def _pass_on(
        self, service: _Service, audit: ReplyAudit, response: httpx2.Response, reply: ReplySender
    ) -> bool:
        """Send the upstream's reply on, restored; says whether it was streamed."""
        headers = returned_headers(response)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        streamed = kind == "text/event-stream" and response.is_success
        if streamed and service.stream is not None:
            await self._stream(service.stream(audit), response, reply, headers)
        else:
            body = await read_reply(response, self.settings.max_reply)
            if response.is_redirect or response.is_informational:
                raise Refused("unreadable_reply")
            shown = await anyio.to_thread.run_sync(_restored, audit, body, response.is_success)
            await reply.whole(response.status_code, shown[0], headers, shown[1])
        return streamed

    async def _stream(
        self, stream: Stream, response: httpx2.Response, reply: ReplySender, headers: dict[str, str]
    ) -> None:
        kept = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-store"}
        await reply.begin(response.status_code, {**headers, **kept})
        source = httpx2.EventSource(response, max_event_size=self.settings.max_reply)
        problem: Exception | None = None
        try:
            with anyio.fail_after(self.settings.total_timeout):
                async for event in source:
                    made = await anyio.to_thread.run_sync(stream.take, event.event, event.data)
                    if made:
                        await reply.piece(b"".join(each.encode() for each in made))
        except Exception as caught:  # noqa: BLE001 - its class alone is told, in the stream
            problem = caught
        late = b"".join(each.encode() for each in await anyio.to_thread.run_sync(stream.end))
        if problem is not None:
            fault = stream_fault(problem)
            late += stream.fault(fault).encode()
            self.metrics.refused(fault.code)
            if fault.code == "internal":
                LOG.error("unexpected %s", type(problem).__name__)
        await reply.piece(late, more=False)


def _on_doubt(given: str) -> OnDoubt:
    """What the caller wants done about a number in doubt."""
    for choice in get_args(OnDoubt):
        if given == choice:
            return cast("OnDoubt", choice)
    raise Refused("bad_value")


def _check_address(service: _Service, request: Request, out: OutgoingRequest) -> None:
    """What goes along beside the body: few and short things, and nothing private in them."""
    if not request.query_params.keys() <= service.query:
        raise Refused("unknown_field")
    for value in (*request.query_params.values(), *request.path_params.values()):
        label(out, value)
        if ".." in value:
            raise Refused("bad_value")
    for name in SENT:
        header(out, request.headers.get(name, ""))
    for name in KEY_HEADERS:
        if not request.headers.get(name, "").isascii():
            raise Refused("bad_value")


def _restored(audit: ReplyAudit, body: bytes, success: bool) -> tuple[bytes, str]:
    """A whole reply, restored, and its media type. An error may be any text; an answer is JSON."""
    try:
        parsed = read_json(body.decode("utf-8"))
    except (ValueError, Refused):
        if success:
            raise Refused("unreadable_reply") from None
        text = audit.restore(body[:_ERROR_TEXT].decode("utf-8", "replace"))
        return text.encode("utf-8", "replace"), "text/plain; charset=utf-8"
    return write_reply(restore_reply(audit, parsed)), "application/json"


async def _until_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    """Wait for the caller to go away, and stop everything then."""
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            scope.cancel()
            return


class _Endpoint:
    """A service as an ASGI application, so that a reply can be streamed by hand."""

    def __init__(self, gateway: Gateway, service: _Service) -> None:
        self._gateway = gateway
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._gateway.answer(self._service, scope, receive, send)


Readiness = Literal["ready", "draining"]


def build_app(
    settings: GatewaySettings,
    *,
    open_channel: Callable[[str], PersonChannel],
    readiness: Callable[[], Readiness] = lambda: "ready",
) -> Starlette:
    """The gateway as an application. `open_channel` gives the channel of a profile.

    `readiness` looks whether requests should be sent here; it raises if the vault is away.
    """
    gateway = Gateway(settings, open_channel)

    async def healthz(_request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_request: Request) -> Response:
        status: str = "vault unavailable"
        with suppress(RootGuardError):
            status = await anyio.to_thread.run_sync(readiness)
        return JSONResponse({"status": status}, 200 if status == "ready" else 503)

    async def metrics(_request: Request) -> Response:
        return Response(gateway.metrics.page(), media_type=CONTENT_TYPE)

    async def nothing(request: Request, _problem: Exception) -> Response:
        fault = FAULTS[_unserved(request.url.path)]
        gateway.metrics.refused(fault.code)
        api: Api = "anthropic" if "anthropic-version" in request.headers else "openai"
        return JSONResponse(error_body(api, fault), fault.status)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with gateway.running():
            yield

    app = Starlette(
        routes=[
            Route("/healthz", healthz, methods=["GET"]),
            Route("/readyz", readyz, methods=["GET"]),
            Route("/metrics", metrics, methods=["GET"]),
            *(
                Route(
                    service.route,
                    _Endpoint(gateway, service),
                    methods=["GET"] if service.shape is None else ["POST"],
                )
                for service in _SERVICES
            ),
        ],
        exception_handlers={HTTPException: nothing},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app
