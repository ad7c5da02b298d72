"""`rootguard mcp serve` against a bare server of the SDK, each in a process of its own.

Start-up: from starting the process to the answer to its first request. `rootguard mcp serve` loads
the session, reads a profile and opens a vault beside what the SDK does. A call: one tool call over
standard streams, against a tool that echoes its argument.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from benchmarks.answers import PATIENT
from benchmarks.measure import Case, Contender

_BARE = """
import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

TOOL = types.Tool(name="echo", input_schema={"type": "object"}, output_schema={"type": "object"})

async def tools(ctx, params):
    return types.ListToolsResult(tools=[TOOL])

async def call(ctx, params):
    text = types.TextContent(type="text", text="{}")
    return types.CallToolResult(content=[text], structured_content=params.arguments)

async def main():
    server = Server("bare", on_list_tools=tools, on_call_tool=call)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())

anyio.run(main)
"""
_ROOTGUARD = (sys.executable, "-c", "from rootguard.cli.main import main; main()")
_STARTED = 1 / 2
"""At most twice the time of the bare server."""


def mcp() -> Iterator[Case]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        values = "\n".join(f"{root} = {value}" for root, value in PATIENT.items())
        (folder / "me.toml").write_text(
            f'templates = ["fib4"]\nbudget = "0.9"\nstore = "sqlite:///v.sqlite3"\n[values]\n{values}',
            encoding="utf-8",
        )
        ours = (*_ROOTGUARD, "mcp", "serve", "--profile", str(folder / "me.toml"))
        theirs = (sys.executable, "-c", _BARE)
        yield Case(
            ours=Contender(name="start `rootguard mcp serve`", call=lambda: _start(ours)),
            theirs=Contender(name="start a bare SDK server", call=lambda: _start(theirs)),
            aim=_STARTED,
        )
        serving = stack.enter_context(_Server(ours))
        bare = stack.enter_context(_Server(theirs))
        echo = Contender(
            name="echo of a bare SDK server", call=lambda: bare.call("echo", {"names": ["ast"]})
        )
        calls: tuple[tuple[str, dict[str, Any]], ...] = (
            ("get_values", {"names": ["ast"]}),
            ("compute", {"formula": "age * ast / (plt * sqrt(alt))"}),
            ("answer", {"question": "What is my FIB-4, and is it high?"}),
        )
        for tool, arguments in calls:

            def call(tool: str = tool, arguments: dict[str, Any] = arguments) -> object:
                return serving.call(tool, arguments)

            yield Case(ours=Contender(name=f"{tool}, stdio", call=call), theirs=echo)


def _start(command: Sequence[str]) -> None:
    with _Server(command):
        pass


class _Server:
    """A process that was asked to initialize and has answered."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"},
        )
        self._turn = 0

    def __enter__(self) -> Self:
        self._ask(
            "initialize",
            {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "benchmark", "version": "1"},
            },
        )
        self._write({"method": "notifications/initialized"})
        return self

    def __exit__(self, *_: object) -> None:
        # Killed, because ending is not what is measured.
        self._process.kill()
        self._process.communicate()

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result = self._ask("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise RuntimeError(f"{tool} failed")
        return result

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._turn += 1
        self._write({"id": self._turn, "method": method, "params": params})
        if self._process.stdout is None:
            raise RuntimeError("no pipe")
        reply: dict[str, Any] = json.loads(self._process.stdout.readline())
        result: dict[str, Any] = reply["result"]
        return result

    def _write(self, message: dict[str, Any]) -> None:
        if self._process.stdin is None:
            raise RuntimeError("no pipe")
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()
