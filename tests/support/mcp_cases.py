"""A server that shows the tool of one case after another, and keeps what it was sent.

    python mcp_cases.py CASES LOG

Each `tools/list` goes on to the next case. A call is written to LOG as a line of JSON, and so is
the answer to what the tool asks back, if it does. Plain lines, no SDK.
"""

import json
import sys
from pathlib import Path
from typing import Any


def write(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


class CaseServer:
    def __init__(self, cases: Path, log: Path) -> None:
        self._tools = [json.loads(line)["tool"] for line in cases.read_text("utf-8").splitlines()]
        self._log = log
        self._at = -1
        self._called: object = None

    def keep(self, kind: str, content: object) -> None:
        with self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps({"case": self._at, "kind": kind, "content": content}) + "\n")

    def hear(self, message: dict[str, Any]) -> None:
        method, name = message.get("method"), message.get("id")
        params = message.get("params") or {}
        if method == "initialize":
            about = {"name": "cases", "version": "1"}
            hello = {"protocolVersion": params["protocolVersion"], "serverInfo": about}
            write({"id": name, "result": {**hello, "capabilities": {"tools": {}}}})
        elif method == "tools/list":
            self._at += 1
            tool = {k: v for k, v in self._tools[self._at].items() if k != "asks"}
            write({"id": name, "result": {"tools": [tool]}})
        elif method == "tools/call":
            self.keep("call", params.get("arguments"))
            asks = self._tools[self._at].get("asks")
            self._called = name
            if asks is None:
                self.done()
            else:
                write({"id": f"q{self._at}", **asks})
        elif method is None and isinstance(name, str) and name.startswith("q"):
            self.keep("reply", message.get("result"))
            self.done()

    def done(self) -> None:
        write({"id": self._called, "result": {"content": [{"type": "text", "text": "ok"}]}})


if __name__ == "__main__":
    server = CaseServer(Path(sys.argv[1]), Path(sys.argv[2]))
    for line in sys.stdin:
        server.hear(json.loads(line))
