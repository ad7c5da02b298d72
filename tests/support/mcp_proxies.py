"""The proxy in a process of its own, before servers in processes of their own, line by line.

`Wire` is a client that knows nothing of MCP but its lines: it keeps every message that it gets, so
that what is said through the proxy can be compared with what is said without it.
"""

import json
import queue
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from tests.support.mcp_clients import ROOT, environment
from tests.support.patience import PATIENCE
from tests.support.programs import PYTHON, ROOTGUARD

CLINIC = (*PYTHON, str(ROOT / "examples" / "clinic_server.py"), "--stdio")
HOSTILE = (*PYTHON, str(ROOT / "examples" / "hostile_server.py"), "--stdio")
DOUBLE = (*PYTHON, str(ROOT / "tests" / "support" / "mcp_double.py"))
_GRACE = 5
POLICY = """
[tiers.clinic]
budget = "0.9"
[tiers.public]
budget = "0.2"
[services.clinic]
tier = "clinic"
roots = "*"
formulas = "*"
[services.market]
tier = "public"
roots = "*"
formulas = "*"
[services.narrow]
tier = "clinic"
roots = ["age"]
"""

Message = dict[str, Any]
Reply = Callable[[Message], Message]


def proxy_command(
    profile: Path,
    service: str,
    server: Sequence[str],
    *more: str,
    program: Sequence[str] = ROOTGUARD,
) -> list[str]:
    """`rootguard mcp proxy` before a command."""
    start = [*program, "mcp", "proxy", "--profile", str(profile)]
    return [*start, "--service", service, *more, "--", *server]


def tapped(server: Sequence[str], received: Path) -> list[str]:
    """A command whose input is kept, byte for byte."""
    script = 'i=$1; shift; tee -a "$i" | "$@"'
    return ["sh", "-c", script, "sh", str(received), *server]


class Wire:
    """A client over standard streams. Requests of the server are answered by `replies`."""

    def __init__(
        self,
        command: Sequence[str],
        replies: dict[str, Reply] | None = None,
        *,
        variables: dict[str, str] | None = None,
    ) -> None:
        self._replies = replies or {}
        self._turn = 0
        self.heard: list[Message] = []
        self._answers: dict[int | None, Message] = {}
        self._lines: queue.Queue[bytes] = queue.Queue()
        self.process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment() | (variables or {}),
        )
        self.errors = bytearray()
        reads = (self._read, self._read_errors)
        self._readers = [threading.Thread(target=read, daemon=True) for read in reads]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        if not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            self.process.wait(_GRACE)
        except subprocess.TimeoutExpired:  # some servers never end by themselves
            self.process.kill()
            self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)

    def initialize(self, capabilities: Message | None = None) -> Message:
        """The handshake."""
        greeting = {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities or {},
            "clientInfo": {"name": "wire", "version": "1"},
        }
        answer = self.ask("initialize", greeting)
        self.tell("notifications/initialized")
        return answer

    def ask(self, method: str, params: Message | None = None) -> Message:
        """A request, and the whole message that answers it."""
        return self.wait(self.begin(method, params))

    def begin(self, method: str, params: Message | None = None) -> int:
        """A request; its answer comes later."""
        self._turn += 1
        self.write({"id": self._turn, "method": method, "params": params or {}})
        return self._turn

    def call(self, tool: str, arguments: Message) -> Message:
        """A tool call's answer."""
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def tell(self, method: str, params: Message | None = None) -> None:
        """A notification."""
        self.write({"method": method} | ({} if params is None else {"params": params}))

    def write(self, message: Message) -> None:
        """Any message."""
        self.write_line(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def write_line(self, line: bytes) -> None:
        """Any bytes, as a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def wait(self, name: int | None) -> Message:
        """The message that answers a request; everything else is kept and, if asked, answered."""
        while name not in self._answers:
            self.next()
        return self._answers.pop(name)

    def next(self) -> Message:
        """The next message, whatever it is."""
        line = self._lines.get(timeout=PATIENCE)
        assert line, f"the process has ended: {bytes(self.errors).decode()}"
        message: Message = json.loads(line)
        self.heard.append(message)
        if "method" not in message:
            self._answers[message.get("id")] = message
        elif "id" in message:
            reply = self._replies.get(message["method"])
            if reply is None:
                error = {"code": -32601, "message": "not here"}
                self.write({"id": message["id"], "error": error})
            else:
                self.write({"id": message["id"], "result": reply(message.get("params") or {})})
        return message

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(b"")

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self.errors += line


def text_of(answer: Message) -> str:
    """The first text of a tool's result."""
    text: str = answer["result"]["content"][0]["text"]
    return text
