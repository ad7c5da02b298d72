"""`rootguard mcp` against bare servers of the SDK, each in a process of its own.

Start-up: from starting the process to the answer to its first request. `rootguard mcp serve` loads
the session, reads a profile and opens a vault beside what the SDK does. A call: one tool call over
standard streams, against a tool that echoes its argument. Through the proxy: the same call of a
tool with four and with ten private arguments, with `rootguard mcp proxy` before the server, without
it, and with FastMCP's own proxy, which guards nothing. Several processes share each call: judged is
the processor time of all of them together, the client's included, and for four arguments the median
wall time of a call (p50) as well, which on a busy machine is mostly waiting for a turn.

FastMCP is used where it is installed, or in the environment whose Python ROOTGUARD_FASTMCP names.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from benchmarks.answers import PATIENT
from benchmarks.measure import Case, Contender, Skipped, Spent, family

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
_ASKED = {
    "age": ("years", "Age"),
    "ast": ("U/L", "Aspartate aminotransferase (AST)"),
    "alt": ("U/L", "Alanine aminotransferase (ALT)"),
    "platelets": ("10^9/L", "Platelet count"),
    "fasting_glucose": ("mg/dL", "Fasting plasma glucose"),
    "fasting_insulin": ("uU/mL", "Fasting insulin"),
    "neutrophils": ("10^9/L", "Absolute neutrophil count"),
    "lymphocytes": ("10^9/L", "Absolute lymphocyte count"),
    "triglycerides": ("mg/dL", "Fasting triglycerides"),
    "hdl": ("mg/dL", "HDL cholesterol"),
}
_PANEL = {
    "type": "object",
    "properties": {
        name: {"type": "number", "description": f"{text} in {unit}"}
        for name, (unit, text) in _ASKED.items()
    },
    "required": [],
}
_BLOOD = {"glu": 95.0, "ins": 8.0, "neu": 4.0, "lym": 2.1, "tg": 120.0, "hdl": 51.0}
_POLICY = """
[tiers.clinic]
budget = "3.0"
[services.clinic]
tier = "clinic"
roots = "*"
formulas = "*"
"""
_PROXIED = 1 / 1.6
"""At most so many times the time of a direct call."""
_FOUR = ("age", "ast", "alt", "platelets")
_CALLS = 50
_THROUGH = "a tool call through the proxy"
_FASTMCP = """
import sys
from fastmcp.server.server import create_proxy
from fastmcp.client.transports import StdioTransport
create_proxy(StdioTransport(sys.argv[1], sys.argv[2:])).run(show_banner=False, log_level="CRITICAL")
"""
_ROOTGUARD = (sys.executable, "-c", "from rootguard.cli.main import main; main()")
_STARTED = 1 / 2
"""At most twice the time of the bare server."""


def mcp() -> Iterator[Case | Skipped]:
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
            clock="wall",
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

            yield Case(ours=Contender(name=f"{tool}, stdio", call=call), theirs=echo, clock="wall")
        yield from _proxied(stack, folder)


def _proxied(stack: ExitStack, folder: Path) -> Iterator[Case | Skipped]:
    values = "\n".join(f"{root} = {value}" for root, value in (PATIENT | _BLOOD).items())
    (folder / "policy.toml").write_text(_POLICY, encoding="utf-8")
    (folder / "panel.toml").write_text(
        'templates = ["fib4", "homa", "nlr", "tyg", "aip"]\npolicy = "policy.toml"\n'
        f'store = "sqlite:///panel.sqlite3"\n[values]\n{values}',
        encoding="utf-8",
    )
    schema = f"input_schema={_PANEL!r}"
    server = (sys.executable, "-c", _BARE.replace('input_schema={"type": "object"}', schema))
    proxy = (*_ROOTGUARD, "mcp", "proxy", "--profile", str(folder / "panel.toml"))
    guarded = stack.enter_context(_Server((*proxy, "--service", "clinic", "--", *server)))
    direct = stack.enter_context(_Server(server))
    for names in (_FOUR, tuple(_ASKED)):
        given: dict[str, Any] = dict.fromkeys(names, 1.0)
        said = guarded.call("echo", given)["structuredContent"]
        if 1.0 in said.values():
            raise RuntimeError("the proxy did not fill in the values")
        yield Case(
            ours=_median(f"{_THROUGH}, {len(names)} private arguments", guarded, given),
            theirs=_median("the same call, direct", direct, given),
            aim=_PROXIED,
        )
    given = dict.fromkeys(_FOUR, 1.0)
    yield Case(
        ours=_median(f"{_THROUGH}, 4 private arguments, p50", guarded, given),
        theirs=_median("the same call, direct, p50", direct, given),
        aim=_PROXIED,
        clock="wall",
    )
    python = os.environ.get("ROOTGUARD_FASTMCP") or (
        sys.executable if find_spec("fastmcp") is not None else None
    )
    title = f"{_THROUGH}, 4 private arguments"
    if python is None:
        reason = "FastMCP is not installed, and ROOTGUARD_FASTMCP names no Python that has it"
        yield Skipped(name=title, reason=reason)
        return
    other = stack.enter_context(_Server((python, "-c", _FASTMCP, *server)))
    for ours in (guarded, direct):
        yield Case(
            ours=_median(title if ours is guarded else "the same call, direct", ours, given),
            theirs=_median("through FastMCP's proxy, which guards nothing", other, given),
        )
    yield Case(
        ours=_median(f"{title}, p50", guarded, given),
        theirs=_median("through FastMCP's proxy, p50", other, given),
        clock="wall",
    )


def _median(name: str, server: "_Server", given: dict[str, Any]) -> Contender:
    """The processor time of a call over all processes, and the median of its wall time."""

    def call() -> Spent:
        taken = []
        before = server.processor()
        for _ in range(_CALLS):
            begun = time.perf_counter()
            server.call("echo", given)
            taken.append(time.perf_counter() - begun)
        spent = (server.processor() - before) / _CALLS
        return Spent(processor=spent, wall=statistics.median(taken))

    return Contender(name=name, call=call)


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

    def processor(self) -> float:
        """Seconds of processor time that this process and those of the server have used."""
        mine = time.process_time()
        return mine + sum(_used(each) for each in family(self._process.pid))

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


def _used(pid: int) -> float:
    """Seconds that the threads of a process have run."""
    lines = (each.read_text("ascii") for each in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return sum(int(line.split()[0]) for line in lines) / 1e9
