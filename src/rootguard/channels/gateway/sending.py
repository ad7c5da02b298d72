"""How the gateway answers: errors in each API's own form, replies whole or piece by piece."""

from collections.abc import Mapping
from typing import Final

from starlette.types import Send

from rootguard.channels.faults import Fault
from rootguard.channels.gateway.upstream import Api
from rootguard.channels.replies import write_reply

_NO_RETRY: Final = frozenset(
    ("internal", "store_refused", "unreadable_reply", "wrong_configuration")
)


def error_body(api: Api, fault: Fault) -> dict[str, object]:
    """A fault in an API's own form."""
    if api == "anthropic":
        kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
        kinds |= {413: "request_too_large", 429: "rate_limit_error", 503: "overloaded_error"}
        kinds |= {504: "timeout_error"}
        kind = kinds.get(
            fault.status, "api_error" if fault.status >= 500 else "invalid_request_error"
        )
        return {"type": "error", "error": {"type": kind, "message": fault.text}}
    kind = {401: "authentication_error", 429: "rate_limit_error"}.get(
        fault.status, "server_error" if fault.status >= 500 else "invalid_request_error"
    )
    return {"error": {"message": fault.text, "type": kind, "param": None, "code": fault.code}}


class Reply:
    """Sends a reply, and knows whether it has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Status and headers; what follows are pieces."""
        self.status = status
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def piece(self, body: bytes, *, more: bool = True) -> None:
        """A piece of the body."""
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def whole(
        self, status: int, body: bytes, headers: Mapping[str, str], kind: str = "application/json"
    ) -> None:
        """A reply that is there already."""
        sizes = {"content-type": kind, "content-length": str(len(body))}
        await self.begin(status, {**headers, **sizes})
        await self.piece(body, more=False)

    async def fault(self, api: Api, fault: Fault, wait: float = 0.0) -> None:
        """A fault in the API's own form."""
        headers = {"x-should-retry": "false"} if fault.code in _NO_RETRY else {}
        if wait:
            headers["retry-after"] = str(int(wait) + 1)
        await self.whole(fault.status, write_reply(error_body(api, fault)), headers)
