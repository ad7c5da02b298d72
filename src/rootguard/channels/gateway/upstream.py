"""The service behind the gateway: what is sent to it beside the body, and what comes back of it.

Headers are allowed by name, in both directions; cookies, addresses and the caller's software stay
behind. Redirects are not followed and the environment's proxies are not used: the request goes
where the gateway was told to send it and nowhere else.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, Literal
from urllib.parse import urlsplit

import httpx2

from rootguard.channels.faults import FAULTS, Fault, RequestRefusedError, fault_of

Api = Literal["openai", "anthropic"]

_IDLE: Final = 32
"""Connections kept open while nothing is sent: saves handshakes, costs the upstream sockets."""
AGENT: Final = "rootguard-gateway"
SENT: Final = (
    "openai-organization",
    "openai-project",
    "openai-beta",
    "anthropic-version",
    "anthropic-beta",
)
KEY_HEADERS: Final = ("authorization", "x-api-key", "api-key")
"""OpenAI's, Anthropic's and Azure's."""
_RETURNED: Final = frozenset(
    (
        "openai-processing-ms",
        "openai-version",
        "request-id",
        "retry-after",
        "retry-after-ms",
        "x-request-id",
        "x-should-retry",
    )
)
_RETURNED_FAMILIES: Final = ("x-ratelimit-", "anthropic-ratelimit-")


class Upstream:
    """A client of the service, with one pool of connections."""

    def __init__(
        self,
        base: str,
        *,
        key: str | None,
        passes_key: bool,
        connect_timeout: float,
        read_timeout: float,
        connections: int,
    ) -> None:
        self._base = base.rstrip("/")
        self.name = urlsplit(base).netloc.rpartition("@")[2]
        """What the service is called in the owner's journal: its host."""
        self._key = key
        self._passes_key = passes_key
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(read_timeout, connect=connect_timeout),
            limits=httpx2.Limits(max_connections=connections, max_keepalive_connections=_IDLE),
            follow_redirects=False,
            trust_env=False,
        )

    async def close(self) -> None:
        await self._client.aclose()

    def headers(self, given: Mapping[str, str], *, stream: bool) -> dict[str, str]:
        """What goes along with a body: a few headers of the caller's, ours, and a key.

        The upstream's key stands where the caller had its own.
        """
        made = {name: given[name] for name in SENT if name in given}
        made["content-type"] = "application/json"
        made["accept"] = "text/event-stream" if stream else "application/json"
        made["user-agent"] = AGENT
        if self._key is not None:
            place = next((n for n in KEY_HEADERS if n in given), "authorization")
            made[place] = f"Bearer {self._key}" if place == "authorization" else self._key
        elif self._passes_key:
            made.update({n: given[n] for n in KEY_HEADERS if n in given})
        return made

    @asynccontextmanager
    async def send(
        self,
        method: Literal["GET", "POST"],
        path: str,
        *,
        headers: dict[str, str],
        query: Mapping[str, str],
        body: bytes | None = None,
    ) -> AsyncIterator[httpx2.Response]:
        """The upstream's reply, its body still to be read; network errors become faults."""
        # A client keeps cookies; this one must not tell one caller's to the next.
        self._client.cookies.clear()
        try:
            async with self._client.stream(
                method, self._base + path, params=dict(query), headers=headers, content=body
            ) as response:
                yield response
        except httpx2.TimeoutException:
            raise RequestRefusedError("upstream_timeout") from None
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL):
            raise RequestRefusedError("upstream_unreachable") from None


def returned_headers(response: httpx2.Response) -> dict[str, str]:
    """The upstream's headers that the caller may see."""
    return {
        name: value
        for name, value in response.headers.items()
        if (name in _RETURNED or name.startswith(_RETURNED_FAMILIES)) and value.isascii()
    }


async def read_reply(response: httpx2.Response, most: int) -> bytes:
    """The whole body of a reply, if it is not too large."""
    held = bytearray()
    async for chunk in response.aiter_bytes():
        held += chunk
        if len(held) > most:
            raise RequestRefusedError("unreadable_reply")
    return bytes(held)


def stream_fault(problem: Exception) -> Fault:
    """Why a stream of the upstream's broke off."""
    if isinstance(problem, (TimeoutError, httpx2.TimeoutException)):
        return FAULTS["upstream_timeout"]
    if isinstance(problem, (httpx2.HTTPError, httpx2.StreamError)):
        return FAULTS["upstream_unreachable"]
    return fault_of(problem)
