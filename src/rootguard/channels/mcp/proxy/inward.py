"""What a server behind the proxy says, made ready for the client: issued tokens are put back.

Texts are restored in `content`, in embedded resources, in messages and errors, and in
`structuredContent`, so that both forms of a result stay equal. Addresses, opaque strings, binary
data, schemas and names stay as they are.
"""

import json
from collections.abc import Callable, Iterator
from typing import Final

from rootguard.channels.mcp.jsonrpc import Message

_AS_IT_IS: Final = frozenset(
    (
        *("_meta", "annotations", "blob", "data", "icons", "id", "inputSchema", "lastModified"),
        *("method", "mimeType", "model", "name", "nextCursor", "outputSchema", "requestState"),
        *("requestedSchema", "resultType", "role", "status", "taskId", "type", "uri"),
        *("uriTemplate", "url", "stopReason", "toolUseId", "elicitationId", "mode", "action"),
    )
)
_WHOLE: Final = frozenset(("structuredContent", "input", "arguments"))
_BINARY: Final = frozenset(("blob", "data"))
_APART: Final = "\n;\n"
"""Between texts: nothing that is issued holds it or runs over it."""
MAX_DEPTH: Final = 64


class Inward:
    """Restores what comes from one service."""

    def __init__(self, restore: Callable[[str], str]) -> None:
        self._restore = restore

    def result(self, method: str, content: Message) -> Message:
        """A result; lists are schemas and names, which stay."""
        if method.endswith("/list") or method in ("initialize", "server/discover"):
            return content
        if not self._touched(content):
            return content
        if method == "completion/complete":
            return {key: self.anything(value) for key, value in content.items()}
        return self._parts(content, 0)

    def params(self, content: Message) -> Message:
        """The parameters of a request or a notification to the client."""
        return self._parts(content, 0)

    def error(self, error: Message) -> Message:
        """A protocol error: its own code, its message and data restored."""
        made: Message = {"code": error["code"], "message": self._restore(error["message"])}
        if error.get("data") is not None:
            made["data"] = self.anything(error["data"])
        return made

    def anything(self, value: object, depth: int = 0) -> object:
        """Any JSON value, every text in it."""
        if isinstance(value, str):
            return self._restore(value)
        if depth > MAX_DEPTH:
            return value
        if isinstance(value, list):
            return [self.anything(each, depth + 1) for each in value]
        if isinstance(value, dict):
            made = {self._restore(key): self.anything(v, depth + 1) for key, v in value.items()}
            if len(made) == len(value):
                return made
            return {key: self.anything(v, depth + 1) for key, v in value.items()}
        return value

    def _touched(self, content: Message) -> bool:
        """Whether there may be a token anywhere: one look for all texts is quick."""
        texts = list(_texts(content))
        if any("\\" in text for text in texts):
            return True
        whole = _APART.join(texts)
        return self._restore(whole) != whole

    def _parts(self, content: Message, depth: int) -> Message:
        return {key: self._part(key, value, depth) for key, value in content.items()}

    def _part(self, key: str, value: object, depth: int) -> object:
        if key in _AS_IT_IS or depth > MAX_DEPTH:
            return value
        if key in _WHOLE:
            return self.anything(value)
        if isinstance(value, str):
            return self._text(value) if key == "text" else self._restore(value)
        if isinstance(value, dict):
            return self._parts(value, depth + 1)
        if isinstance(value, list):
            return [
                self._parts(each, depth + 1) if isinstance(each, dict) else self._part("", each, 0)
                for each in value
            ]
        return value

    def _text(self, text: str) -> str:
        """A text; one that is JSON is restored as JSON if only that brings every token back."""
        restored = self._restore(text)
        if text[:1] not in ("{", "[") or ("\\" not in text and restored == text):
            return restored
        original = _parsed(text)
        if original is None:
            return restored
        made = self.anything(original)
        return restored if _parsed(restored) == made else json.dumps(made, ensure_ascii=False)


def _texts(value: object) -> Iterator[str]:
    """Every text, keys too, but not what is binary."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for key, inside in value.items():
            yield key
            if key not in _BINARY or not isinstance(inside, str):
                yield from _texts(inside)


def _parsed(text: str) -> object:
    """The JSON value of a text, None if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
