"""Who is answered, and what every answer carries.

A key opens one person's console and no other. A browser shows its key once and is given a random
cookie, of which only the digest is kept here. Comparing takes the same time whichever matches.

A strict Content-Security-Policy and its companions go with every answer, errors included. A request
under a host name that is not served here, or sent by another site's page, is refused before
anything looks at it. Errors are fixed texts; what went wrong inside is logged by class only.
"""

import hashlib
import hmac
import logging
import secrets
import threading
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rootguard.channels.api_keys import ApiKeys
from rootguard.console.people import Viewer
from rootguard.errors import StoreUnavailableError

COOKIE: Final = "rootguard_console"
# A working day: nobody shows the key twice in one, and a stolen cookie is worth no more than that.
SESSION_SECONDS: Final = 12 * 3600
# Beyond that many the oldest end, so that signing in again and again cannot fill the memory.
_MOST_SESSIONS: Final = 256
LOG: Final = logging.getLogger("rootguard.console")
# The page is one script, one stylesheet and its own API. Nothing inline runs and nothing is loaded
# from elsewhere, so that a released text shown on it cannot become code or carry anything out.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
TEXTS: Final = {
    400: "the request cannot be understood",
    401: "a key is needed, and this is not one that opens this console",
    403: "only pages of this console may ask that",
    404: "there is nothing here",
    405: "this cannot be done here",
    409: "a value of this template is still missing from the vault, so there is nothing to attack",
    413: "the request is too large",
    421: "this host name is not served here",
    425: "nothing was released yet, so there is nothing to attack",
    429: "this is under way already; wait until it is done",
    500: "something went wrong inside the console",
    503: "the vault is not available just now",
}


def own_key(key: str, profile: str = "") -> ApiKeys:
    """The one key of a console that one person started."""
    return ApiKeys(profiles={hashlib.sha256(key.encode()).digest(): profile})


class AccessControl:
    """Finds whose console a key or a cookie opens. Without keys everybody is the one person."""

    def __init__(
        self,
        open_viewer: Callable[[str], Viewer],
        *,
        keys: ApiKeys | None,
        profile: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open = open_viewer
        self._keys = keys
        self._profile = profile
        self._clock = clock
        # Requests come from several worker threads. It also covers the opening of a viewer, so that
        # a profile is opened once; opening may wait for a store, and so then do the others.
        self._lock = threading.Lock()
        self._sessions: dict[bytes, tuple[str, float]] = {}
        self._viewers: dict[str, Viewer] = {}

    def login(self, key: str) -> str | None:
        """A cookie for whoever shows a key; None if the key opens nothing."""
        profile = self._profile if self._keys is None else self._keys.profile(key)
        if profile is None:
            return None
        cookie = secrets.token_urlsafe(32)
        with self._lock:
            self._forget_old()
            self._sessions[_digest(cookie)] = (profile, self._clock() + SESSION_SECONDS)
        return cookie

    def logout(self, cookie: str) -> None:
        with self._lock:
            self._sessions.pop(_digest(cookie), None)

    def viewer(self, *, cookie: str, bearer: str) -> Viewer | None:
        """Whose console this is; opened now if it is not open. May wait for a store."""
        profile = self._profile_of(cookie, bearer)
        if profile is None:
            return None
        with self._lock:
            if profile not in self._viewers:
                self._viewers[profile] = self._open(profile)
            return self._viewers[profile]

    def reopen(self, viewer: Viewer) -> None:
        """Open a person's profile anew when it is asked for next: it was changed."""
        with self._lock:
            for profile, known in tuple(self._viewers.items()):
                if known is viewer:
                    del self._viewers[profile]

    def _profile_of(self, cookie: str, bearer: str) -> str | None:
        if self._keys is None:
            return self._profile
        found = self._keys.profile(bearer) if bearer else None
        if cookie and found is None:
            digest, now = _digest(cookie), self._clock()
            with self._lock:
                for known, (profile, until) in self._sessions.items():
                    if hmac.compare_digest(known, digest) and now < until:
                        found = profile
        return found

    def _forget_old(self) -> None:
        now = self._clock()
        for digest, (_, until) in tuple(self._sessions.items()):  # in the order of signing in
            if until <= now or len(self._sessions) >= _MOST_SESSIONS:
                del self._sessions[digest]


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def fault(status: int) -> JSONResponse:
    """An error in fixed words."""
    body = {"error": {"message": TEXTS[status]}}
    return JSONResponse(body, status, headers={"cache-control": "no-store"})


def status_of(problem: Exception) -> int:
    """The status of an error that nobody expected."""
    return 503 if isinstance(problem, StoreUnavailableError) else 500


def log_fault(scope: Scope, problem: Exception) -> None:
    """Log an error by its class, once for each request: Starlette raises it again when answered."""
    if not scope.get("rootguard.told"):
        scope["rootguard.told"] = True
        LOG.error("unexpected %s", type(problem).__name__)


class AccessMiddleware:
    """Refuses foreign requests, and puts the headers on every answer.

    `hosts` are the names it answers to; None, where keys guard it, is any.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens."""
        if scope["type"] != "http":
            return
        begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        if refusal:
            await fault(refusal)(scope, receive, send_with_headers)
            return
        problem: Exception | None = None
        try:
            await self._app(scope, receive, send_with_headers)
        except Exception as caught:  # noqa: BLE001 - the last place: nothing of it may get out
            problem = caught
        if problem is not None:
            log_fault(scope, problem)
            if not begun:
                await fault(status_of(problem))(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> int:
        """The status of a request that is not answered; 0 for one that is."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._hosts is not None and _name(host) not in self._hosts:
            return 421
        # Origin may be missing; Sec-Fetch-Site is the browser's own word, which no page can set.
        # "same-site" is another origin too: a subdomain, or another port of this machine.
        foreign = headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}
        if foreign and scope["method"] != "GET":
            return 403
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return 403
        return 0


def _name(host: str) -> str:
    """A host without its port."""
    plain = host.rpartition("@")[2]
    name = plain.rpartition(":")[0] if not plain.endswith("]") and ":" in plain else plain
    return name.strip("[]").lower()
