"""What every answer of the console carries, and who is not answered at all.

A strict Content-Security-Policy and its companions go with every answer, errors included. A request
under a host name that is not served here, or sent by another site's page, is refused before
anything looks at it. Errors are fixed texts; what went wrong inside is logged by class only.
"""

import logging
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rootguard.errors import StoreUnavailableError

LOG: Final = logging.getLogger("rootguard.console")
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
    429: "this is under way already; wait until it is done",
    500: "something went wrong inside the console",
    503: "the vault is not available just now",
}


def fault(status: int) -> JSONResponse:
    """An error in fixed words."""
    body = {"error": {"message": TEXTS[status]}}
    return JSONResponse(body, status, headers={"cache-control": "no-store"})


def status_of(problem: Exception) -> int:
    """The status of an error that nobody expected."""
    return 503 if isinstance(problem, StoreUnavailableError) else 500


def tell(scope: Scope, problem: Exception) -> None:
    """Log an error by its class, once for each request: Starlette raises it again when answered."""
    if not scope.get("rootguard.told"):
        scope["rootguard.told"] = True
        LOG.error("unexpected %s", type(problem).__name__)


class Shield:
    """Wraps the console. `hosts` are the names it answers to; None, where keys guard it, is any."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens."""
        if scope["type"] != "http":
            return
        begun = False

        async def dressed(message: Message) -> None:
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
            await fault(refusal)(scope, receive, dressed)
            return
        problem: Exception | None = None
        try:
            await self._app(scope, receive, dressed)
        except Exception as caught:  # noqa: BLE001 - the last door: nothing of it may get out
            problem = caught
        if problem is not None:
            tell(scope, problem)
            if not begun:
                await fault(status_of(problem))(scope, receive, dressed)

    def _refusal(self, scope: Scope) -> int:
        """The status of a request that is not answered; 0 for one that is."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._hosts is not None and _name(host) not in self._hosts:
            return 421
        if headers.get("sec-fetch-site", "none") == "cross-site" and scope["method"] != "GET":
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
