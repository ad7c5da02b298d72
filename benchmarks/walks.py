"""Which modules one request goes through: how far a reader has to walk to follow it.

Three walks: a streamed chat turn through the gateway, a tool call through the MCP proxy, and
`Guard.open` on a SQLite vault. Each is done once before it is counted, so that imports, caches and
what is prepared once are left out. Every thread is watched. What counts is a function with a name
that is written in a file: a dataclass's own methods, comprehensions and the wrapper of `shielded`,
which only calls what it wraps, are not read one by one. A hand-over is a call from one module of
RootGuard into another, whatever stands between the two.

    python -m benchmarks.walks [--list] [--json]
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

_PACKAGE = "rootguard."
AIMS = {"chat turn": 30, "MCP call": 25, "Guard.open": 22}
"""Modules that a walk may go through: what one person can keep in mind while reading."""

_VALUES = {"age": 58.0, "ast": 61.0, "alt": 44.0, "plt": 220.0}
_PROFILE = """
templates = ["fib4"]
{}

[values]
age = 58
ast = 61
alt = 44
plt = 220

[identifiers]
name = "Marguerite Oyelaran"
"""
_POLICY = """
[tiers.clinic]
budget = "0.9"
[services.clinic]
tier = "clinic"
roots = "*"
formulas = "*"
"""
_TURN = "I am Marguerite Oyelaran. My AST is 61 U/L. What now, in {} days?"

_SERVER = """
import json, sys

TOOL = {
    "name": "score",
    "description": "FIB-4",
    "inputSchema": {
        "type": "object",
        "properties": {
            "ast": {"type": "number", "description": "Aspartate aminotransferase (AST) in U/L"},
            "note": {"type": "string"},
        },
        "required": ["ast"],
    },
}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params", {})
    result = {}
    if method == "initialize":
        result = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "score", "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": [TOOL]}
    elif method == "tools/call":
        said = json.dumps(params["arguments"])
        result = {"content": [{"type": "text", "text": said}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


@dataclass(kw_only=True, slots=True)
class Walk:
    """What one request went through."""

    functions: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each function was entered, by module and name."""
    hand_overs: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often one module called into another."""

    @property
    def modules(self) -> list[str]:
        """The modules in which a function was entered."""
        return sorted({module for module, _ in self.functions})

    def figures(self) -> dict[str, int]:
        """The three numbers."""
        return {
            "modules": len(self.modules),
            "functions": len(self.functions),
            "hand_overs": self.hand_overs.total(),
        }


class Tracer:
    """Notes calls of all threads that begin while it is in place, and only when told to.

    A thread keeps the profile function that it began with, so the tracer is in place before the
    first worker thread begins, and is switched on for the request that counts.
    """

    def __init__(self) -> None:
        self._walk: Walk | None = None

    @contextmanager
    def placed(self) -> Iterator[None]:
        """In place for this thread and those that begin now."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    @contextmanager
    def counting(self) -> Iterator[Walk]:
        """What is called meanwhile."""
        walk = Walk()
        self._walk = walk
        try:
            yield walk
        finally:
            self._walk = None

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        walk = self._walk
        if walk is None or event != "call":
            return
        module = _module(frame)
        if module is None:
            return
        walk.functions[module, frame.f_code.co_qualname] += 1
        caller = frame.f_back
        while caller is not None and (before := _module(caller)) is None:
            caller = caller.f_back
        if caller is not None and before is not None and before != module:
            walk.hand_overs[before, module] += 1


def _module(frame: FrameType) -> str | None:
    """The module of a frame, None if it is not one of ours or not written by hand."""
    name = frame.f_globals.get("__name__", "")
    code = frame.f_code
    written = not code.co_filename.startswith("<") and code.co_name[0] != "<"
    written &= not code.co_qualname.startswith("shielded.<locals>")
    ours = written and isinstance(name, str) and name.startswith(_PACKAGE)
    return name.removeprefix(_PACKAGE) if ours else None


def _twice(tracer: Tracer, work: Callable[[int], object]) -> Walk:
    work(0)
    with tracer.counting() as walk:
        work(1)
    return walk


def chat_turn(tracer: Tracer, _folder: Path) -> Walk:
    """One streamed chat completion; the reply says the prompt again, in pieces."""
    import httpx2

    from rootguard.channels.detection import Rules
    from rootguard.channels.gateway.app import GatewaySettings, build_app
    from rootguard.channels.gateway.channel import PersonChannel
    from rootguard.session import Person, parse_profile
    from rootguard.vault import open_store

    profile = parse_profile(_PROFILE.format('budget = "0.9"'), file="me.toml")
    person = Person.open(profile, store=open_store("memory:"))
    channel = PersonChannel(person, detectors=(Rules(),))

    async def turns(upstream: str) -> Walk:
        app = build_app(GatewaySettings(upstream=upstream), open_channel=lambda _: channel)
        transport = httpx2.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
        ):

            async def turn(number: int) -> None:
                said = {"role": "user", "content": _TURN.format(number + 3)}
                body = {"model": "m", "stream": True, "messages": [said]}
                reply = await client.post("/v1/chat/completions", json=body)
                if reply.status_code != 200 or "Oyelaran" not in reply.text:
                    raise RuntimeError("the turn was not answered")

            await turn(0)
            with tracer.counting() as walk:
                await turn(1)
        return walk

    with _upstream() as upstream:
        return asyncio.run(turns(upstream))


class _Echo(BaseHTTPRequestHandler):
    """Streams the last message back, ten characters at a time."""

    protocol_version: ClassVar[str] = "HTTP/1.0"  # type: ignore[misc]

    def do_POST(self) -> None:
        """Answer a chat completion."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = str(body["messages"][-1]["content"])
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        pieces = [said[at : at + 10] for at in range(0, len(said), 10)]
        for place, piece in enumerate(pieces, start=1):
            ends = "stop" if place == len(pieces) else None
            choice = {"index": 0, "delta": {"content": piece}, "finish_reason": ends}
            chunk = json.dumps({"id": "c", "model": "m", "choices": [choice]})
            self.wfile.write(f"data: {chunk}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def _upstream() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()


def mcp_call(tracer: Tracer, folder: Path) -> Walk:
    """One tool call: a bound number, and a note that holds a declared name."""
    from rootguard.channels.mcp.proxy.proxy import run_proxy
    from rootguard.session import Person, load_profile
    from rootguard.vault import open_store

    file = folder / "me.toml"
    file.write_text(_PROFILE.format('policy = "policy.toml"'), encoding="utf-8")
    (folder / "policy.toml").write_text(_POLICY, encoding="utf-8")
    profile = load_profile(file)
    store = open_store(f"sqlite:///{folder}/vault.sqlite3")

    def serve() -> None:
        run_proxy(
            profile,
            lambda service: Person.open(profile, store=store, service=service),
            file=str(file),
            service="clinic",
            command=[sys.executable, "-c", _SERVER],
        )

    with closing(store), _client(serve) as ask:
        ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}})
        ask("tools/list", {})

        def call(number: int) -> None:
            given = {"ast": 1.0, "note": f"For Marguerite Oyelaran, visit {'again ' * number}."}
            said = ask("tools/call", {"name": "score", "arguments": given})
            if said.get("isError") or "Oyelaran" not in said["content"][0]["text"]:
                raise RuntimeError("the call was not answered")

        return _twice(tracer, call)


_Ask = Callable[[str, dict[str, object]], dict[str, Any]]


@contextmanager
def _client(serve: Callable[[], None]) -> Iterator[_Ask]:
    """A client of what speaks on this process's standard streams, which are lent to it."""
    own = os.dup(0), os.dup(1)
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    for pipe, standard in ((theirs_in, 0), (theirs_out, 1)):
        os.dup2(pipe, standard)
        os.close(pipe)
    turn = 0

    with os.fdopen(ours_in, "rb") as heard, os.fdopen(ours_out, "wb", buffering=0) as said:

        def ask(method: str, params: dict[str, object]) -> dict[str, Any]:
            nonlocal turn
            turn += 1
            whole = {"jsonrpc": "2.0", "id": turn, "method": method, "params": params}
            said.write(json.dumps(whole).encode() + b"\n")
            answer: dict[str, Any] = json.loads(heard.readline())["result"]
            return answer

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield ask
        finally:
            with suppress(OSError):
                said.close()
            thread.join()
            for kept, standard in zip(own, (0, 1), strict=True):
                os.dup2(kept, standard)
                os.close(kept)


def guard_open(tracer: Tracer, folder: Path) -> Walk:
    """Four values noised and committed to a vault that is open."""
    from rootguard import Guard
    from rootguard.template import load_template
    from rootguard.vault import open_store

    template = load_template("fib4")
    store = open_store(f"sqlite:///{folder}/vault.sqlite3")

    def work(number: int) -> object:
        return Guard.open(
            template, values=_VALUES, budget="0.9", store=store, principal=f"person-{number}"
        )

    with closing(store):
        return _twice(tracer, work)


def walks() -> dict[str, Walk]:
    """All three."""
    from rootguard.store import journal

    os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
    # The audit log is written a moment after a call, on a thread of its own. A slow machine would
    # have it written within the next call, which is then counted with it.
    journal.FLUSH_SECONDS = 3600  # type: ignore[misc]
    tracer = Tracer()
    made: dict[str, Walk] = {}
    each: dict[str, Callable[[Tracer, Path], Walk]] = {
        "chat turn": chat_turn,
        "MCP call": mcp_call,
        "Guard.open": guard_open,
    }
    for name, walk in each.items():
        with tempfile.TemporaryDirectory() as folder, tracer.placed():
            made[name] = walk(tracer, Path(folder))
    return made


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.walks")
    parser.add_argument("--json", action="store_true", help="figures and names for programs")
    parser.add_argument("--list", action="store_true", help="name the modules, too")
    chosen = parser.parse_args()
    made = walks()
    if chosen.json:
        shown = {n: {**walk.figures(), "names": walk.modules} for n, walk in made.items()}
        print(json.dumps(shown, indent=2))
        return
    print(f"{'walk':<12} {'modules':>8} {'aim':>5} {'functions':>10} {'hand-overs':>11}")
    for name, walk in made.items():
        figures = walk.figures()
        print(
            f"{name:<12} {figures['modules']:>8} {AIMS[name]:>5} "
            f"{figures['functions']:>10} {figures['hand_overs']:>11}"
        )
        if chosen.list:
            entered = Counter(module for module, _ in walk.functions)
            for module in walk.modules:
                print(f"    {module} ({entered[module]} functions)")


if __name__ == "__main__":
    main()
