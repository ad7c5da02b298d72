"""The console as an ASGI application: the page's files, and what it asks for, for who has a key.

Everything under `api/` needs a key, known names or not. The store is synchronous, so everything
that touches it runs in a worker thread. Nothing writes to the store but a change that its owner
approved (`changes`).
"""

import json
import math
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Receive, Scope, Send

from rootguard import __version__
from rootguard.console.access import (
    COOKIE,
    SESSION_SECONDS,
    TEXTS,
    AccessControl,
    AccessMiddleware,
    fault,
    log_fault,
    status_of,
)
from rootguard.console.assets import Assets
from rootguard.console.changes import (
    RefusedChange,
    apply_change,
    changes_json,
    goal_cost_json,
    own_goals,
    save,
)
from rootguard.console.known import known_json
from rootguard.console.people import Viewer
from rootguard.console.self_attack import attack
from rootguard.console.tradeoffs import MECHANISMS, TURNS, Tradeoffs
from rootguard.console.views import amplifications, entry_json, graph_json, ledger_json
from rootguard.errors import UnknownNameError
from rootguard.graph import Graph
from rootguard.session.changes import unseen

PREFIX: Final = "/console"
# Another process may write the audit log, so it is asked: often enough to look immediate, and a
# listener costs five short queries a second.
POLL_SECONDS: Final = 0.2
# Proxies drop a connection that is silent, most of them after 30 or 60 seconds.
BEAT_SECONDS: Final = 15.0
MOST: Final = 1000
"""Entries of the audit log in one answer."""
_LIMIT: Final = 200  # entries, if none are asked for: a few screens, some 50 kilobytes
# A key and a template's name fit many times over; a body is held in memory.
_BODY: Final = 4096
# Open streams, and threads that ask the store for them: the console never takes all of a gateway's.
_LISTENERS: Final = 64
_THREADS: Final = 8
_EVENTS: Final = "text/event-stream; charset=utf-8"
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

_T = TypeVar("_T")


class Console:
    """The console. `hosts` are the names it answers to; None, where keys guard it, is any."""

    def __init__(
        self,
        access: AccessControl,
        *,
        hosts: frozenset[str] | None,
        stopping: Callable[[], bool] = lambda: False,
        assets: Assets | None = None,
    ) -> None:
        self.stopping = stopping
        self._access = access
        self._assets = assets or Assets()
        self._tradeoffs = Tradeoffs()
        self._threads: anyio.CapacityLimiter | None = None
        self._listening = 0
        self._attacked: set[str] = set()
        self._warmed: set[str] = set()
        self.hosts = hosts
        self._app = AccessMiddleware(self._routed(), hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def mounted(self, prefix: str = PREFIX) -> list[BaseRoute]:
        """Routes that put the console under a prefix of an application."""
        return [Route(prefix, _to(self, prefix)), Mount(prefix, app=self)]

    def alone(self) -> Starlette:
        """The console as an application of its own, under its prefix."""
        app = Starlette(routes=[Route("/", _to(self, PREFIX)), *self.mounted()])
        app.router.redirect_slashes = False
        return app

    def _routed(self) -> Starlette:
        asked: dict[str, Callable[[Request, Viewer], Awaitable[Response]]] = {
            "me": self._me,
            "log": self._log,
            "live": self._live,
            "graph": self._graph,
            "ledger": self._ledger,
            "known": self._what_is_known,
            "goals": self._goals,
            "outlook": self._tradeoff,
            "changes": self._changes,
            "export": self._export,
        }
        posted: dict[str, Callable[[Request, Viewer], Awaitable[Response]]] = {
            "attack": self._attack,
            "changes": self._change,
            "goals": self._save_goals,
        }
        routes = [
            Route("/", self._page),
            Route("/static/{name:path}", self._page),
            Route("/api/login", self._login, methods=["POST"]),
            Route("/api/logout", self._logout, methods=["POST"]),
            *(
                Route(f"/api/{name}", self._known(answer), methods=["POST"])
                for name, answer in posted.items()
            ),
            *(Route(f"/api/{name}", self._known(answer)) for name, answer in asked.items()),
            Route("/api/{rest:path}", self._known(_nothing), methods=_METHODS),
        ]
        handlers = {HTTPException: _refused, Exception: _broken}
        app = Starlette(routes=routes, exception_handlers=handlers)
        app.router.redirect_slashes = False
        return app

    def _known(
        self, answer: Callable[[Request, Viewer], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """An answer for those who show a key or a cookie."""

        async def checked(request: Request) -> Response:
            scheme, _, given = request.headers.get("authorization", "").partition(" ")
            bearer = given.strip() if scheme.lower() == "bearer" else ""
            cookie = request.cookies.get(COOKIE, "")
            viewer = await self._in_thread(
                lambda: self._access.viewer(cookie=cookie, bearer=bearer)
            )
            if viewer is None:
                return fault(401)
            try:
                return await answer(request, viewer)
            except UnknownNameError:
                return fault(404)
            except _BadRequestError:
                return fault(400)

        return checked

    async def _page(self, request: Request) -> Response:
        name = str(request.path_params.get("name", "index.html"))
        found = await self._in_thread(lambda: self._assets.answer(request, name))
        return fault(404) if found is None else found

    async def _login(self, request: Request) -> Response:
        body = await _object(request)
        if body is None:
            return fault(413)
        key = body.get("key")
        cookie = self._access.login(key) if isinstance(key, str) else None
        if cookie is None:
            return fault(401)
        answer = Response(status_code=204)
        answer.set_cookie(
            COOKIE,
            cookie,
            max_age=SESSION_SECONDS,
            path=request.scope.get("root_path") or "/",
            secure=request.headers.get("origin", str(request.url)).startswith("https:"),
            httponly=True,
            samesite="strict",
        )
        return answer

    async def _logout(self, request: Request) -> Response:
        self._access.logout(request.cookies.get(COOKIE, ""))
        answer = Response(status_code=204)
        answer.delete_cookie(COOKIE, path=request.scope.get("root_path") or "/")
        return answer

    async def _me(self, _request: Request, viewer: Viewer) -> Response:
        if (
            viewer.principal not in self._warmed
        ):  # some graphs take seconds: begin before it is asked
            self._warmed.add(viewer.principal)
            threading.Thread(target=_warm, args=(viewer,), daemon=True).start()
        return _json(await self._in_thread(lambda: _me_json(viewer)))

    async def _log(self, request: Request, viewer: Viewer) -> Response:
        after, before = _number(request, "after"), _number(request, "before")
        limit = min(_number(request, "limit") or _LIMIT, MOST)

        def read() -> dict[str, object]:
            store, person, units = viewer.store, viewer.principal, _units(viewer)
            kept, latest = store.log_size(person)
            if after is None:
                upto = latest + 1 if before is None else before
                found = store.log(person, before=upto, limit=limit)
            else:
                found = store.log(person, after=after, limit=limit)
            return {
                "entries": [entry_json(each, units) for each in found],
                "first": latest - kept + 1 if kept else latest,
                "latest": latest,
                "total": kept,
            }

        return _json(await self._in_thread(read))

    async def _live(self, request: Request, viewer: Viewer) -> Response:
        if self._listening >= _LISTENERS:
            return fault(503)
        if request.method == "HEAD":
            return Response(media_type=_EVENTS)
        told = request.headers.get("last-event-id", "")
        after = int(told) if told.isascii() and told.isdigit() else _number(request, "after")
        _, latest = await self._in_thread(lambda: viewer.store.log_size(viewer.principal))
        start = latest if after is None else min(after, latest)
        return _stream(self._entries(viewer, start))

    async def _entries(self, viewer: Viewer, after: int) -> AsyncIterator[str]:
        """New entries of the audit log as they are written, by whichever process."""
        store, person, units = viewer.store, viewer.principal, _units(viewer)
        self._listening += 1
        try:
            yield "retry: 1000\n\n"
            beaten = anyio.current_time()
            while not self.stopping():
                read = partial(store.log, person, after=after, limit=MOST)
                found = await self._in_thread(read)
                if found:
                    after = found[-1].sequence
                    yield "".join(
                        _event("entry", entry_json(each, units), each.sequence) for each in found
                    )
                elif anyio.current_time() - beaten > BEAT_SECONDS:
                    yield ": still here\n\n"
                    beaten = anyio.current_time()
                if len(found) < MOST:
                    await anyio.sleep(POLL_SECONDS)
        finally:
            self._listening -= 1

    async def _graph(self, request: Request, viewer: Viewer) -> Response:
        template = viewer.template(request.query_params.get("template"))
        return _json(await self._in_thread(lambda: graph_json(template, viewer.plan(template))))

    async def _ledger(self, _request: Request, viewer: Viewer) -> Response:
        return _json(await self._in_thread(lambda: ledger_json(viewer)))

    async def _what_is_known(self, _request: Request, viewer: Viewer) -> Response:
        return _json(await self._in_thread(lambda: known_json(viewer)))

    async def _goals(self, request: Request, viewer: Viewer) -> Response:
        """What goals cost: those given as `hide.ROOT=DISTANCE`, else those of the profile."""
        template = viewer.template(request.query_params.get("template"))
        hide = own_goals(viewer, template)
        for key, text in request.query_params.items():
            prefix, _, name = key.partition("hide.")
            if not prefix and name:
                hide[name] = _distance(text, name in hide)
        return _answered(await self._in_thread(lambda: goal_cost_json(viewer, template, hide)))

    async def _save_goals(self, request: Request, viewer: Viewer) -> Response:
        body = await _object(request)
        if body is None:
            return fault(413)
        template, wanted = viewer.template(_text(body.get("template"))), body.get("hide")
        if not isinstance(wanted, dict) or viewer.profile is None:
            raise _BadRequestError
        known = own_goals(viewer, template)
        hide = {str(name): _distance(far, name in known) for name, far in wanted.items()}
        saved = await self._in_thread(lambda: save(viewer, hide))
        self._access.reopen(viewer)
        return _answered(saved)

    async def _changes(self, _request: Request, viewer: Viewer) -> Response:
        return _json(await self._in_thread(lambda: changes_json(viewer)))

    async def _change(self, request: Request, viewer: Viewer) -> Response:
        """Noise what was entered, if its owner approved the price."""
        body = await _object(request)
        if body is None:
            return fault(413)
        values = body.get("values")
        if not isinstance(values, dict) or not values or body.get("approved") is not True:
            raise _BadRequestError
        if viewer.profile is None:
            raise _BadRequestError
        return _answered(await self._in_thread(lambda: apply_change(viewer, values)))

    async def _export(self, _request: Request, viewer: Viewer) -> Response:
        """Everything that the page shows, in one file."""

        def read() -> dict[str, object]:
            units = _units(viewer)
            entries = viewer.store.log(viewer.principal)
            return {
                **_me_json(viewer),
                "known": known_json(viewer),
                "ledger": ledger_json(viewer),
                "audit_log": [entry_json(each, units) for each in entries],
            }

        answer = _json(await self._in_thread(read))
        answer.headers["content-disposition"] = 'attachment; filename="rootguard.json"'
        return answer

    async def _tradeoff(self, request: Request, viewer: Viewer) -> Response:
        template = viewer.template(request.query_params.get("template"))
        mechanism = request.query_params.get("mechanism", viewer.mechanism)
        turns = request.query_params.get("turns", "2k+1").replace(" ", "+")
        for known in MECHANISMS:
            for length in TURNS:
                if (known, length) == (mechanism, turns):
                    found = self._tradeoffs.ask(template, known, length)
                    if isinstance(found, float):
                        return _json({"progress": found}, 202)
                    return _json(found)
        raise _BadRequestError

    async def _attack(self, request: Request, viewer: Viewer) -> Response:
        body = await _object(request)
        if body is None:
            return fault(413)
        template = viewer.template(_text(body.get("template")))
        held = await self._in_thread(lambda: viewer.held(template))
        if held.keys() != set(Graph.of(template).roots):
            return fault(409)
        if len({value.mechanism for value in held.values()}) > 1:
            return fault(409)
        if await self._in_thread(lambda: unseen(viewer.store, viewer.principal)):
            # A value may be entered anew at no cost as long as nobody saw its noise: its owner,
            # who would keep the draw that looks best, must not see it here either.
            return fault(425)
        if viewer.principal in self._attacked:
            return fault(429)
        return _stream(self._turns(viewer, attack(viewer, template, held)))

    async def _turns(
        self, viewer: Viewer, turns: Iterator[dict[str, object]]
    ) -> AsyncIterator[str]:
        self._attacked.add(viewer.principal)
        try:
            while not self.stopping():
                turn = await self._in_thread(lambda: next(turns, None))
                if turn is None:
                    break
                yield _event("turn", turn)
            yield _event("done", {})
        finally:
            self._attacked.discard(viewer.principal)

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        if self._threads is None:  # made here, where there is an event loop
            self._threads = anyio.CapacityLimiter(_THREADS)
        return await anyio.to_thread.run_sync(work, limiter=self._threads)


class _BadRequestError(Exception):
    """A parameter that makes no sense."""


def _text(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise _BadRequestError
    return value


def _distance(given: object, known: bool) -> float:
    """How far to hide a value, which is public."""
    try:
        far = float(given) if isinstance(given, str | int | float) else math.nan
    except ValueError:
        far = math.nan
    if not (known and math.isfinite(far) and far > 0):
        raise _BadRequestError
    return far


def _answered(found: "dict[str, object] | RefusedChange") -> Response:
    """What was done or found; else why not, in words of ours that hold nothing private."""
    if isinstance(found, RefusedChange):
        return _json({"error": {"message": found.message}}, 422)
    return _json(found)


async def _nothing(_request: Request, _viewer: Viewer) -> Response:
    return fault(404)


async def _refused(_request: Request, problem: Exception) -> Response:
    status = problem.status_code if isinstance(problem, HTTPException) else 500
    return fault(status if status in TEXTS else 400)


async def _broken(request: Request, problem: Exception) -> Response:
    log_fault(request.scope, problem)
    return fault(status_of(problem))


async def _object(request: Request) -> dict[str, object] | None:
    """The body's JSON object, empty if it is none; None if the body is too large."""
    held = b""
    async for chunk in request.stream():
        held += chunk
        if len(held) > _BODY:
            return None
    content: object = None
    with suppress(ValueError, RecursionError):
        content = json.loads(held)
    return content if isinstance(content, dict) else {}


def _number(request: Request, name: str) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16):  # exact in a browser as well
        raise _BadRequestError
    return int(text)


def _json(body: object, status: int = 200) -> Response:
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    headers = {"cache-control": "no-store"}
    return Response(text, status, headers=headers, media_type="application/json")


def _stream(pieces: AsyncIterator[str]) -> Response:
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(pieces, headers=headers, media_type=_EVENTS)


def _event(kind: str, body: object, number: int | None = None) -> str:
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return ("" if number is None else f"id: {number}\n") + f"event: {kind}\ndata: {text}\n\n"


def _warm(viewer: Viewer) -> None:
    """Compute what the page will ask for next; it is kept."""
    for template in viewer.templates:
        with suppress(Exception):  # whoever asks for it will be told
            viewer.plan(template)
            amplifications(template)


def _units(viewer: Viewer) -> dict[str, str]:
    nodes = (node for template in viewer.templates for node in Graph.of(template).order)
    return {node.name: node.unit for node in nodes}


def _me_json(viewer: Viewer) -> dict[str, object]:
    named = set() if viewer.policy is None else set(viewer.policy.services)
    given = {each.service for each in viewer.store.disclosures(viewer.principal)}
    return {
        "principal": viewer.principal,
        "templates": [
            {
                "name": template.name,
                "title": template.title,
                "target": {"name": template.target.name, "unit": template.target.unit},
                "roots": list(Graph.of(template).roots),
                "titles": {name: root.label for name, root in template.roots.items()},
            }
            for template in viewer.templates
        ],
        "mechanism": viewer.mechanism,
        "calibrated": viewer.calibrated,
        "services": sorted((named | given) - {""}),
        "identifiers": list(viewer.identifiers),
        "version": __version__,
    }


def _to(console: Console, prefix: str) -> AccessMiddleware:
    """Sends a browser to the page. Relative, so that it holds behind other prefixes too."""
    return AccessMiddleware(RedirectResponse(f"{prefix.rpartition('/')[2]}/", 307), console.hosts)
