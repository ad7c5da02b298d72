"""The service behind the gateway: what is sent to it beside the body, and its replies, restored.

Headers are allowed by name, in both directions; cookies, addresses and the caller's software stay
behind. Redirects are not followed and the environment's proxies are not used: the request goes
where the gateway was told to send it and nowhere else.

Replies are restored whole or as a stream, in each API's own form. Restoring is for the caller, who
owns the identifiers, so every text of a reply is looked at; ids, kinds and what the upstream sealed
for itself stay. A tool call's arguments are JSON inside a string: they are restored inside their
string literals, with JSON's escapes, whether they come whole or in pieces of any size.

In a stream each event is restored as it passes, in the upstream's form and order. Every stretch of
text (a choice, a content block, a tool call) has a restorer of its own that holds back only what
may be the beginning of an issued token. When a stretch ends, what was held back goes out as one
more event of the same form, before the event that ends it: a client drops what comes later.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Hashable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

import httpx2
from starlette.types import Send

from rootguard.channels.faults import FAULTS, Fault, RequestRefusedError, fault_of
from rootguard.channels.faults import RequestRefusedError as Refused
from rootguard.channels.gateway.channel import ReplyAudit, Restorer
from rootguard.channels.gateway.refusals import Refusal

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


# What a client compares or sends back, and what the upstream sealed: a token inside, which can only
# stand there by chance, stays.
_KEPT: Final = frozenset(
    """id object type role model status name call_id tool_call_id tool_use_id item_id file_id
    container_id response_id previous_response_id finish_reason stop_reason service_tier
    system_fingerprint logprobs signature encrypted_content encrypted_index encrypted_stdout
    obfuscation b64_json partial_image_b64 media_type embedding""".split()  # noqa: SIM905
)
# Objects whose keys are the caller's own.
_FREE: Final = frozenset(("input", "metadata", "attributes", "results"))
# Strings that hold JSON.
_JSON_TEXTS: Final = frozenset(("arguments", "partial_json"))
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PLAIN: Final = re.compile(r'[^"\\]+')
_BARE: Final = re.compile(r"[^\W_]|[+\-.]")
# Letters and digits outside of string literals. A token that is a number has far fewer, and what
# is no JSON at all must not be held back for ever.
_LONGEST_BARE: Final = 256
# Asking again brings the same: the SDKs retry any 5xx unless they are told not to.
_NO_RETRY: Final = frozenset(
    ("internal", "store_refused", "unreadable_reply", "wrong_configuration")
)
DONE: Final = "[DONE]"
_Form = Literal["text", "json"]


class JsonRestorer:
    """Restores JSON that arrives in pieces: inside string literals, escapes undone and redone.

    A number that is an issued token is restored too. If what it stands for is no JSON number, a
    leading zero say, it becomes a string: a wrong number would go unnoticed.
    """

    __slots__ = ("_bare", "_inside", "_make", "_pending", "_restore")

    def __init__(self, audit: ReplyAudit) -> None:
        self._make = audit.restorer
        self._restore = audit.restore
        self._inside: Restorer | None = None
        self._pending = ""
        self._bare = ""

    def feed(self, chunk: str) -> str:
        """What can be shown now, restored."""
        rest = self._pending + chunk
        self._pending = ""
        out: list[str] = []
        at = 0
        while at < len(rest):
            if self._inside is None:
                at = self._outside(rest, at, out)
                continue
            plain = _PLAIN.match(rest, at)
            if plain is not None:
                out.append(_escape(self._inside.feed(plain.group())))
                at = plain.end()
            elif rest[at] == '"':
                out.append(_escape(self._inside.close()) + '"')
                self._inside = None
                at += 1
            else:
                size = _escape_size(rest, at)
                if size is None:
                    self._pending = rest[at:]
                    break
                out.append(self._escaped(rest[at : at + size]))
                at += size
        return "".join(out)

    def close(self) -> str:
        """The rest, as far as it came."""
        rest = self._flush_bare()
        if self._inside is not None:
            rest += _escape(self._inside.close())
            self._inside = None
        rest += self._pending
        self._pending = ""
        return rest

    def _outside(self, rest: str, at: int, out: list[str]) -> int:
        character = rest[at]
        if _BARE.match(character):
            self._bare += character
            if len(self._bare) > _LONGEST_BARE:
                out.append(self._bare)
                self._bare = ""
            return at + 1
        out.append(self._flush_bare() + character)
        if character == '"':
            self._inside = self._make()
        return at + 1

    def _flush_bare(self) -> str:
        bare, self._bare = self._bare, ""
        if len(bare) < 2:  # a digit alone is far likelier an index or a count than a token
            return bare
        restored = self._restore(bare)
        if restored != bare and _NUMBER.fullmatch(bare) and not _NUMBER.fullmatch(restored):
            return f'"{_escape(restored)}"'
        return restored

    def _escaped(self, escape: str) -> str:
        inside = self._inside
        if inside is None:
            return escape
        try:
            return _escape(inside.feed(str(json.loads(f'"{escape}"'))))
        except ValueError:  # not an escape of JSON: shown as it came
            shown = _escape(inside.close()) + escape
            self._inside = self._make()
            return shown


def _escape_size(text: str, at: int) -> int | None:
    """How long the escape is that begins here, or None if its end has not come yet.

    One of "u" and four digits has six characters. A high surrogate waits for what follows, since
    the two are one character.
    """
    if len(text) < at + 2:
        return None
    if text[at + 1] != "u":
        return 2
    if len(text) < at + 6:
        return None
    if text[at + 2 : at + 4].lower() not in {"d8", "d9", "da", "db"}:
        return 6
    follows = text[at + 6 : at + 12]
    if not "\\u".startswith(follows[:2]):
        return 6
    if len(follows) < 6:
        return None
    return 12 if follows[2:4].lower() in {"dc", "dd", "de", "df"} else 6


def _escape(text: str) -> str:
    escaped = json.dumps(text, ensure_ascii=False)[1:-1]
    return _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", escaped)


def restore_json(audit: ReplyAudit, text: str) -> str:
    """JSON in a string, restored."""
    restorer = JsonRestorer(audit)
    return restorer.feed(text) + restorer.close()


def restore_reply(audit: ReplyAudit, value: object, key: str = "") -> object:
    """A reply's JSON with every text restored."""
    if isinstance(value, str):
        return restore_json(audit, value) if key in _JSON_TEXTS else audit.restore(value)
    if key in _FREE:
        return _restore_freely(audit, value)
    if isinstance(value, list):
        return [restore_reply(audit, each, key) for each in value]
    if isinstance(value, dict):
        if value.get("object") == "response" and isinstance(value.get("id"), str):
            audit.replied(value["id"])
        return {
            name: each if name in _KEPT else restore_reply(audit, each, name)
            for name, each in value.items()
        }
    return value


def _restore_freely(audit: ReplyAudit, value: object) -> object:
    """JSON whose keys are the caller's own, a tool's input say: no name in it is special."""
    if isinstance(value, str):
        return audit.restore(value)
    if isinstance(value, list):
        return [_restore_freely(audit, each) for each in value]
    if isinstance(value, dict):
        return {audit.restore(name): _restore_freely(audit, each) for name, each in value.items()}
    return value


def write_reply(value: object) -> bytes:
    """A reply's JSON; half a surrogate pair, which UTF-8 cannot hold, stays an escape."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode("ascii")


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One server-sent event; without a name it is a plain message."""

    data: bytes
    name: str = ""

    def encode(self) -> bytes:
        """As it goes over the wire."""
        head = f"event: {self.name}\n".encode() if self.name else b""
        return head + b"data: " + self.data + b"\n\n"


class Stream(ABC):
    """A streamed reply of one API."""

    def __init__(self, audit: ReplyAudit) -> None:
        self._audit = audit
        self._open: dict[Hashable, Restorer] = {}

    def take(self, name: str, data: str) -> list[ServerSentEvent]:
        """What to send on for one event of the upstream."""
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            raise Refused("unreadable_reply") from None
        if not isinstance(body, dict):
            raise Refused("unreadable_reply")
        return list(self._events("" if name == "message" else name, body))

    @abstractmethod
    def _events(self, name: str, body: dict[str, object]) -> Iterator[ServerSentEvent]: ...

    @abstractmethod
    def end(self) -> list[ServerSentEvent]:
        """What was kept back when the upstream stopped."""

    @abstractmethod
    def fault(self, fault: Fault) -> ServerSentEvent:
        """A fault that came after the reply had begun."""

    def _feed(self, key: Hashable, form: _Form, chunk: str) -> str:
        if key not in self._open:
            restorer = JsonRestorer(self._audit) if form == "json" else self._audit.restorer()
            self._open[key] = restorer
        return self._open[key].feed(chunk)

    def _close(self, key: Hashable) -> str:
        restorer = self._open.pop(key, None)
        return "" if restorer is None else restorer.close()

    def _restored(self, body: object) -> object:
        return restore_reply(self._audit, body)


def _objects(value: object) -> list[dict[str, object]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


class _ChunkStream(Stream):
    """Chunks of choices, as OpenAI streams a completion."""

    def __init__(self, audit: ReplyAudit) -> None:
        super().__init__(audit)
        self._envelope: dict[str, object] = {}

    def take(self, name: str, data: str) -> list[ServerSentEvent]:
        """What to send on for one chunk."""
        if data.strip() == DONE:
            return [*self.end(), ServerSentEvent(DONE.encode())]
        return super().take(name, data)

    def _events(self, name: str, body: dict[str, object]) -> Iterator[ServerSentEvent]:
        choices = _objects(body.pop("choices", None)) if "choices" in body else None
        made = self._restored(body)
        if not isinstance(made, dict):
            return
        if choices is None:
            yield ServerSentEvent(write_reply(made), name)
            return
        self._envelope = {
            key: made[key] for key in ("id", "object", "created", "model") if key in made
        }
        out: list[object] = []
        for choice in choices:
            yield from self._choice(choice, out)
        yield ServerSentEvent(write_reply({**made, "choices": out}), name)

    @abstractmethod
    def _choice(self, choice: dict[str, object], out: list[object]) -> Iterator[ServerSentEvent]:
        """Put a choice, restored, into a chunk; what has to go out before the chunk."""

    def _chunk(self, choice: dict[str, object]) -> ServerSentEvent:
        whole = {**self._envelope, "choices": [{**choice, "finish_reason": None}]}
        return ServerSentEvent(write_reply(whole))

    def fault(self, fault: Fault) -> ServerSentEvent:
        """A fault that came after the reply had begun."""
        error = {"message": fault.text, "type": "server_error", "param": None, "code": fault.code}
        return ServerSentEvent(write_reply({"error": error}))


class ChatStream(_ChunkStream):
    """Chunks of a chat completion."""

    # The first two are OpenAI's; servers that speak its form say their reasoning in the others.
    _TEXTS: Final = ("content", "refusal", "reasoning_content", "reasoning")

    def _choice(self, choice: dict[str, object], out: list[object]) -> Iterator[ServerSentEvent]:
        index = choice.get("index", 0)
        delta = choice.pop("delta", None)
        ends = choice.get("finish_reason") is not None
        passed = restore_reply(self._audit, choice)
        if isinstance(delta, dict):
            shown, switched = self._delta(index, delta)
            if switched:
                yield self._chunk({"index": index, "delta": switched})
            if ends and (late := self._flush(index, shown)):
                yield self._chunk({"index": index, "delta": late})
            passed = {**passed, "delta": shown} if isinstance(passed, dict) else passed
        elif ends and (late := self._flush(index, {})):
            yield self._chunk({"index": index, "delta": late})
        out.append(passed)

    def _delta(
        self, index: object, delta: dict[str, object]
    ) -> tuple[dict[str, object], dict[str, object]]:
        """A delta restored, and what has to go out before it since its stretch is over."""
        speaks = [name for name in self._TEXTS if isinstance(delta.get(name), str) and delta[name]]
        calls = _objects(delta.get("tool_calls"))
        switched: dict[str, object] = {}
        if speaks or calls or isinstance(delta.get("function_call"), dict):
            for name in self._TEXTS:
                if name not in speaks and (rest := self._close((index, name))):
                    switched[name] = rest
        shown: dict[str, object] = {}
        for name, value in delta.items():
            if name in self._TEXTS and isinstance(value, str):
                shown[name] = self._feed((index, name), "text", value)
            elif name == "tool_calls":
                shown[name] = [self._call((index, "tool", c.get("index", 0)), c) for c in calls]
            elif name == "function_call" and isinstance(value, dict):
                shown[name] = self._called((index, "function"), value, "arguments", "json")
            elif name == "role":
                shown[name] = value
            else:
                shown[name] = restore_reply(self._audit, value, name)
        return shown, switched

    def _call(self, key: tuple[object, str, object], call: dict[str, object]) -> dict[str, object]:
        made = dict(call)
        function, custom = call.get("function"), call.get("custom")
        if isinstance(function, dict):
            made["function"] = self._called(key, function, "arguments", "json")
        if isinstance(custom, dict):
            made["custom"] = self._called((*key, "custom"), custom, "input", "text")
        return made

    def _called(
        self, key: Hashable, call: dict[str, object], field: str, form: _Form
    ) -> dict[str, object]:
        chunk = call.get(field)
        return {**call, field: self._feed(key, form, chunk)} if isinstance(chunk, str) else call

    def _flush(self, index: object, shown: dict[str, object]) -> dict[str, object]:
        """Everything that a choice still keeps back, with its last delta's texts, as one delta."""
        late: dict[str, object] = {}
        calls: list[object] = []
        for key in [k for k in self._open if isinstance(k, tuple) and k[0] == index]:
            rest = self._close(key)
            if not rest:
                continue
            if key[1] == "tool":
                inner = (
                    {"custom": {"input": rest}}
                    if len(key) > 3
                    else {"function": {"arguments": rest}}
                )
                calls.append({"index": key[2], **inner})
            elif key[1] == "function":
                late["function_call"] = {"arguments": rest}
            else:
                before = shown.get(key[1])
                late[key[1]] = (before if isinstance(before, str) else "") + rest
                if isinstance(before, str):
                    shown[key[1]] = ""
        if calls:
            moved = shown.pop("tool_calls", None)
            late["tool_calls"] = [*(moved if isinstance(moved, list) else []), *calls]
        return late

    def end(self) -> list[ServerSentEvent]:
        """What was kept back when the upstream stopped."""
        late = []
        for index in dict.fromkeys(k[0] for k in self._open if isinstance(k, tuple)):
            delta = self._flush(index, {})
            if delta:
                late.append(self._chunk({"index": index, "delta": delta}))
        return late


class CompletionStream(_ChunkStream):
    """Chunks of a completion: texts without a speaker."""

    def _choice(self, choice: dict[str, object], out: list[object]) -> Iterator[ServerSentEvent]:
        index, text = choice.get("index", 0), choice.pop("text", None)
        place = index if isinstance(index, int) else 0
        ends = choice.get("finish_reason") is not None
        shown = self._feed(place, "text", text) if isinstance(text, str) else ""
        shown += self._close(place) if ends else ""
        passed = restore_reply(self._audit, choice)
        out.append({**passed, "text": shown} if isinstance(passed, dict) else passed)
        yield from ()

    def end(self) -> list[ServerSentEvent]:
        """What was kept back when the upstream stopped."""
        held = {place: self._close(place) for place in list(self._open)}
        return [
            self._chunk({"index": place, "text": rest, "logprobs": None})
            for place, rest in held.items()
            if rest
        ]


class ResponsesStream(Stream):
    """Events of the responses API. Inserted events shift the sequence numbers of later ones."""

    _JSON: Final = ("response.function_call_arguments", "response.mcp_call_arguments")
    _PASSED: Final = ("response.audio",)  # sound in base64; its transcript is a text of its own
    _PLACE: Final = ("item_id", "output_index", "content_index", "summary_index", "command_index")

    def __init__(self, audit: ReplyAudit) -> None:
        super().__init__(audit)
        self._last: dict[Hashable, tuple[str, dict[str, object]]] = {}
        self._inserted = 0
        self._number = 0

    def _events(self, name: str, body: dict[str, object]) -> Iterator[ServerSentEvent]:
        kind = body.get("type")
        kind = kind if isinstance(kind, str) else ""
        base, _, step = kind.rpartition(".")
        place = tuple(
            body.get(field) if not isinstance(body.get(field), (dict, list)) else None
            for field in self._PLACE
        )
        delta = body.get("delta")
        if step == "delta" and isinstance(delta, str) and base not in self._PASSED:
            key = (base, place)
            self._last[key] = (name, body)
            form: _Form = "json" if base in self._JSON else "text"
            made = {k: v for k, v in body.items() if k != "delta"}
            made = {"delta": self._feed(key, form, delta), **made}
            yield self._numbered(name, made)
            return
        if step == "done":
            yield from self._late((base, place))
        if kind in {"response.content_part.done", "response.output_item.done"}:
            item = body.get("item")  # an item's own end names it here, all others by `item_id`
            whose = item.get("id") if isinstance(item, dict) else body.get("item_id")
            ended = [k for k in self._open if isinstance(k, tuple) and k[1][0] == whose]
            for key in ended:
                yield from self._late(key)
        if kind in {"response.completed", "response.incomplete", "response.failed", "error"}:
            yield from self.end()
        whole = self._restored(body)
        if isinstance(whole, dict):
            yield self._numbered(name, whole)

    def _late(self, key: Hashable) -> Iterator[ServerSentEvent]:
        rest = self._close(key)
        name, body = self._last.pop(key, ("", {}))
        if rest:
            self._inserted += 1
            late = {**body, "delta": rest}
            late.pop("logprobs", None)
            if isinstance(body.get("logprobs"), list):
                late["logprobs"] = []
            # The number next in line, less what `_numbered` adds to every number.
            late["sequence_number"] = self._number + 1 - self._inserted
            yield self._numbered(name, late)

    def _numbered(self, name: str, body: dict[str, object]) -> ServerSentEvent:
        number = body.get("sequence_number")
        if isinstance(number, int):
            self._number = number + self._inserted
            body["sequence_number"] = self._number
        return ServerSentEvent(write_reply(body), name)

    def end(self) -> list[ServerSentEvent]:
        """What was kept back when the upstream stopped."""
        return [event for key in list(self._open) for event in self._late(key)]

    def fault(self, fault: Fault) -> ServerSentEvent:
        """A fault that came after the reply had begun."""
        body = {
            "type": "error",
            "code": fault.code,
            "message": fault.text,
            "param": None,
            "sequence_number": self._number + 1,
        }
        return ServerSentEvent(write_reply(body), "error")


class MessagesStream(Stream):
    """Events of Anthropic's messages."""

    _DELTAS: Final[dict[str, tuple[str, _Form]]] = {
        "text_delta": ("text", "text"),
        "thinking_delta": ("thinking", "text"),
        "input_json_delta": ("partial_json", "json"),
    }

    def _events(self, name: str, body: dict[str, object]) -> Iterator[ServerSentEvent]:
        kind, index, delta = body.get("type"), body.get("index"), body.get("delta")
        if kind == "content_block_delta" and isinstance(delta, dict):
            sort = delta.get("type")
            yield from self._late(index, besides=sort)
            field, form = self._DELTAS.get(str(sort), ("", "text"))
            chunk = delta.get(field)
            if field and isinstance(chunk, str):
                shown = {**delta, field: self._feed((index, sort), form, chunk)}
                yield ServerSentEvent(write_reply({**body, "delta": shown}), name)
                return
        elif kind == "content_block_stop":
            yield from self._late(index)
        elif kind in {"message_delta", "message_stop", "error"}:
            yield from self.end()
        yield ServerSentEvent(write_reply(self._restored(body)), name)

    def _late(self, index: object, *, besides: object = None) -> Iterator[ServerSentEvent]:
        for key in [k for k in self._open if isinstance(k, tuple) and k[0] == index]:
            if key[1] == besides:
                continue
            rest = self._close(key)
            if rest:
                delta = {"type": key[1], self._DELTAS[str(key[1])][0]: rest}
                body = {"type": "content_block_delta", "index": index, "delta": delta}
                yield ServerSentEvent(write_reply(body), "content_block_delta")

    def end(self) -> list[ServerSentEvent]:
        """What was kept back when the upstream stopped."""
        indices = dict.fromkeys(key[0] for key in self._open if isinstance(key, tuple))
        return [event for index in indices for event in self._late(index)]

    def fault(self, fault: Fault) -> ServerSentEvent:
        """A fault that came after the reply had begun."""
        error = {"type": "api_error", "message": fault.text}
        return ServerSentEvent(write_reply({"type": "error", "error": error}), "error")


def error_body(api: Api, fault: Fault, refusal: Refusal | None = None) -> dict[str, object]:
    """A fault in an API's own form, with where in the request its reason stands."""
    text = fault.text if refusal is None else refusal.sentences()
    place = {} if refusal is None else {"rootguard": refusal.fields()}
    if api == "anthropic":
        kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
        kinds |= {413: "request_too_large", 429: "rate_limit_error", 503: "overloaded_error"}
        kinds |= {504: "timeout_error"}
        kind = kinds.get(
            fault.status, "api_error" if fault.status >= 500 else "invalid_request_error"
        )
        return {"type": "error", "error": {"type": kind, "message": text, **place}}
    kind = {401: "authentication_error", 429: "rate_limit_error"}.get(
        fault.status, "server_error" if fault.status >= 500 else "invalid_request_error"
    )
    param = None if refusal is None else refusal.field
    error = {"message": text, "type": kind, "param": param, "code": fault.code, **place}
    return {"error": error}


class ReplySender:
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
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def whole(
        self, status: int, body: bytes, headers: Mapping[str, str], kind: str = "application/json"
    ) -> None:
        """A reply that is there already."""
        sizes = {"content-type": kind, "content-length": str(len(body))}
        await self.begin(status, {**headers, **sizes})
        await self.piece(body, more=False)

    async def fault(
        self, api: Api, fault: Fault, wait: float = 0.0, refusal: Refusal | None = None
    ) -> None:
        """A fault in the API's own form."""
        headers = {"x-should-retry": "false"} if fault.code in _NO_RETRY else {}
        if wait:
            headers["retry-after"] = str(int(wait) + 1)  # whole seconds, and never too early
        await self.whole(fault.status, write_reply(error_body(api, fault, refusal)), headers)
