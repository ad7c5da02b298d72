"""MCP servers in processes of their own, spoken to by the SDK's client, with every byte kept.

The person's values are the canary's sentinels. A server on standard streams is started behind two
`tee`s; what a server on HTTP sends is kept by the client's transport.
"""

import os
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.support.canary import NAME, SENTINELS
from tests.support.patience import PATIENCE
from tests.support.programs import ROOTGUARD

ROOT = Path(__file__).parents[2]
Mode = Literal["auto", "legacy"]
"""The current protocol revision, and the one before it."""

_Result = TypeVar("_Result")


def write_profile(folder: Path, *, policy: str | None = None) -> Path:
    """A profile whose private values are the sentinels, beside its vault."""
    values = "\n".join(f"{root} = {value}" for root, value in SENTINELS.items())
    budget = 'budget = "0.9"' if policy is None else 'policy = "policy.toml"'
    if policy is not None:
        (folder / "policy.toml").write_text(policy, encoding="utf-8")
    profile = folder / "me.toml"
    profile.write_text(
        f'templates = ["fib4", "homa"]\n{budget}\nstore = "sqlite:///vault.sqlite3"\n'
        f'[values]\n{values}\n[identifiers]\nname = "{NAME}"\n',
        encoding="utf-8",
    )
    return profile


def environment() -> dict[str, str]:
    """What a server's process needs of ours."""
    kept = ("HOME", "PATH", "PYTHON_KEYRING_BACKEND", "PYTHONPATH", "SYSTEMROOT")
    return {name: os.environ[name] for name in kept if name in os.environ}


class Tap:
    """What a process received and wrote, byte for byte."""

    def __init__(self, folder: Path) -> None:
        self.received = folder / "received"
        self.sent = folder / "sent"
        self.errors = folder / "errors"

    def command(self, arguments: Sequence[str]) -> StdioServerParameters:
        """The process between two tees."""
        script = 'i=$1 o=$2 e=$3; shift 3; tee "$i" | "$@" 2>"$e" | tee "$o"'
        places = [str(self.received), str(self.sent), str(self.errors)]
        return StdioServerParameters(
            command="sh", args=["-c", script, "sh", *places, *arguments], env=environment()
        )

    def written(self) -> str:
        """All that the process wrote, to its client and to standard error."""
        parts = (self.sent.read_bytes(), self.errors.read_bytes())
        return b"\n".join(parts).decode("utf-8", "replace")


class Recorder(httpx2.AsyncHTTPTransport):
    """A transport that keeps what comes back, headers included."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[bytes] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send it, and read the whole reply."""
        response = await super().handle_async_request(request)
        body = await response.aread()
        self.kept += [repr(response.headers.raw).encode(), body]
        return response

    def written(self) -> str:
        """All that came back."""
        return b"\n".join(self.kept).decode("utf-8", "replace")


@contextmanager
def http_server(
    arguments: Sequence[str], *, variables: dict[str, str] | None = None
) -> Iterator[str]:
    """A process that serves on HTTP and says where on its first line."""
    process = subprocess.Popen(
        list(arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment() | (variables or {}),
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        address = process.stdout.readline().strip()
        assert address.startswith("http://"), process.stderr.read()
        yield address
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def over_stdio(
    tap: Tap, arguments: Sequence[str], mode: Mode, talk: Callable[[Client], Awaitable[_Result]]
) -> _Result:
    """Start a server, talk to it, and let it end."""

    async def run() -> _Result:
        async with Client(tap.command(arguments), mode=mode) as client:
            return await talk(client)

    return anyio.run(run)


def over_http(
    address: str,
    recorder: Recorder,
    mode: Mode,
    talk: Callable[[Client], Awaitable[_Result]],
    *,
    key: str | None = None,
) -> _Result:
    """Talk to a server on HTTP."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}

    async def run() -> _Result:
        async with httpx2.AsyncClient(
            transport=recorder, headers=headers, timeout=PATIENCE
        ) as http:
            wire = streamable_http_client(address, http_client=http)
            async with Client(wire, mode=mode) as client:
                return await talk(client)

    return anyio.run(run)


def serve_command(profile: Path, *more: str) -> list[str]:
    """`rootguard mcp serve` for a profile."""
    return [*ROOTGUARD, "mcp", "serve", "--profile", str(profile), *more]
