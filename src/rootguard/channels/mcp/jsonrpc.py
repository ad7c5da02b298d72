"""JSON-RPC messages as the MCP proxy reads and writes them: whole, strict and bounded.

A message is a dict. What cannot be read is an `UnreadableError` with the code of its answer and the
id of the request, if there is one, and without anything of what was sent. Every refusal that the
proxy gives itself is in the fixed words of `channels.faults`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from rootguard.channels.faults import Fault

Message = dict[str, Any]
Id = str | int

# The codes that JSON-RPC 2.0 reserves.
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

TEXTS: Final[Mapping[int, str]] = {
    PARSE_ERROR: "the message is not JSON, or too large",
    INVALID_REQUEST: "the message is not a JSON-RPC request",
    METHOD_NOT_FOUND: "there is no such method",
    INVALID_PARAMS: "the parameters do not fit",
    INTERNAL_ERROR: "something went wrong inside RootGuard",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What is borne. Sizes in bytes, times in seconds."""

    from_client: int = 4 * 1024 * 1024
    """One message of the client: as much as the gateway takes of a body."""
    from_server: int = 16 * 1024 * 1024
    """One message of a server: results hold pictures in base64, which passes unread."""
    calls: int = 256
    """Requests of the client under way. An agent has a few; each may hold a thread."""
    asked: int = 64
    """Requests of one server to the client under way: each is a question to a person or a model."""
    waiting: int = 8 * 1024 * 1024
    """Bytes that a server has not read yet: two of the client's largest messages."""
    burst: int = 5_000
    """Notifications of one server at once; `steady` more each second. A server that logs every step
    of a long task stays far below; one that floods is ended before the client feels it."""
    steady: int = 500
    start: float = 60.0
    """Until a server that was started greets back: some are fetched by npx or uvx first."""
    answer: float = 300.0
    """Until a request that shows no progress is given up, as the SDK does for a reply on HTTP."""


class UnreadableError(Exception):
    """A line that is no message."""

    def __init__(self, code: int, request: Id | None = None) -> None:
        super().__init__(TEXTS[code])
        self.code = code
        self.request = request


def read(line: bytes | str) -> Message:
    """One message."""
    try:
        content = _DECODER.decode(line.decode("utf-8") if isinstance(line, bytes) else line)
    except (ValueError, RecursionError):
        content = None
    if content is None:
        raise UnreadableError(PARSE_ERROR)
    return checked(content)


def checked(content: object) -> Message:
    """A message if the content is one."""
    if not isinstance(content, dict):
        raise UnreadableError(INVALID_REQUEST)
    name = content.get("id")
    known = isinstance(name, str | int) and not isinstance(name, bool)
    method, params = content.get("method"), content.get("params")
    fits = content.get("jsonrpc") == "2.0" and ("id" not in content or known)
    if "method" in content:
        fits &= isinstance(method, str) and ("params" not in content or isinstance(params, dict))
    elif "error" in content:
        fits = content.get("jsonrpc") == "2.0" and _is_error(content["error"])
    else:
        fits &= known and isinstance(content.get("result"), dict)
    if not fits:
        raise UnreadableError(INVALID_REQUEST, name if known else None)
    return content


def write(message: Message) -> bytes:
    """A message as a line. Raises ValueError for what is not JSON or not Unicode."""
    return _ENCODER.encode(message).encode("utf-8") + b"\n"


def request(name: Id, method: str, params: Message) -> Message:
    """A request."""
    return {"jsonrpc": "2.0", "id": name, "method": method, "params": params}


def notification(method: str, params: Message | None = None) -> Message:
    """A notification."""
    bare: Message = {"jsonrpc": "2.0", "method": method}
    return bare if params is None else {**bare, "params": params}


def result(name: Id, content: Message) -> Message:
    """The answer to a request."""
    return {"jsonrpc": "2.0", "id": name, "result": content}


def failure(name: Id | None, error: Message) -> Message:
    """The answer to a request that failed."""
    return {"jsonrpc": "2.0", "id": name, "error": error}


def plain(code: int) -> Message:
    """An error in fixed words."""
    known = code if code in TEXTS else INTERNAL_ERROR
    return {"code": known, "message": TEXTS[known]}


def refusal(fault: Fault) -> Message:
    """A fault as a JSON-RPC error."""
    codes = {"not_found": INVALID_PARAMS, "unknown_name": INVALID_PARAMS}
    if fault.status < 500:
        codes.setdefault(fault.code, INVALID_PARAMS)
    return {
        "code": codes.get(fault.code, INTERNAL_ERROR),
        "message": fault.text,
        "data": {"code": fault.code},
    }


def refused_tool(code: str, text: str) -> Message:
    """A refusal as the result of a tool, which agents read."""
    said = json.dumps({"code": code, "message": text}, ensure_ascii=False)
    return {"content": [{"type": "text", "text": said}], "isError": True}


def _is_error(error: object) -> bool:
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return False
    return isinstance(error.get("code"), int) and not isinstance(error["code"], bool)


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


_DECODER: Final = json.JSONDecoder(parse_constant=_no_number)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
