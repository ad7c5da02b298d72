"""Streamed replies: each event is restored as it passes, in the upstream's own form and order.

Every stretch of text in a stream (a choice, a content block, a tool call) has a restorer of its own
that keeps back only what may be the beginning of an issued token. When a stretch ends, what was
kept back goes out as one more event of the same form, before the event that ends it.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from rootguard.channels.faults import Fault
from rootguard.channels.faults import RequestRefusedError as Refused
from rootguard.channels.replies import (
    JsonRestorer,
    Restorer,
    Restoring,
    restore_reply,
    write_reply,
)

DONE: Final = "[DONE]"
Form = Literal["text", "json"]


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event; without a name it is a plain message."""

    data: bytes
    name: str = ""

    def encode(self) -> bytes:
        """As it goes over the wire."""
        head = f"event: {self.name}\n".encode() if self.name else b""
        return head + b"data: " + self.data + b"\n\n"


class Stream(ABC):
    """A streamed reply of one API."""

    def __init__(self, channel: Restoring) -> None:
        self._channel = channel
        self._open: dict[Hashable, Restorer] = {}

    def take(self, name: str, data: str) -> list[Event]:
        """What to send on for one event of the upstream."""
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            raise Refused("unreadable_reply") from None
        if not isinstance(body, dict):
            raise Refused("unreadable_reply")
        return list(self._events("" if name == "message" else name, body))

    @abstractmethod
    def _events(self, name: str, body: dict[str, object]) -> Iterator[Event]: ...

    @abstractmethod
    def end(self) -> list[Event]:
        """What was kept back when the upstream stopped."""

    @abstractmethod
    def fault(self, fault: Fault) -> Event:
        """A fault that came after the reply had begun."""

    def _feed(self, key: Hashable, form: Form, chunk: str) -> str:
        if key not in self._open:
            restorer = JsonRestorer(self._channel) if form == "json" else self._channel.restorer()
            self._open[key] = restorer
        return self._open[key].feed(chunk)

    def _close(self, key: Hashable) -> str:
        restorer = self._open.pop(key, None)
        return "" if restorer is None else restorer.close()

    def _restored(self, body: object) -> object:
        return restore_reply(self._channel, body)


def _objects(value: object) -> list[dict[str, object]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


class ChatStream(Stream):
    """Chunks of a chat completion."""

    _TEXTS: Final = ("content", "refusal", "reasoning_content", "reasoning")

    def __init__(self, channel: Restoring) -> None:
        super().__init__(channel)
        self._envelope: dict[str, object] = {}

    def take(self, name: str, data: str) -> list[Event]:
        """What to send on for one chunk."""
        if data.strip() == DONE:
            return [*self.end(), Event(DONE.encode())]
        return super().take(name, data)

    def _events(self, name: str, body: dict[str, object]) -> Iterator[Event]:
        choices = _objects(body.pop("choices", None)) if "choices" in body else None
        made = self._restored(body)
        if not isinstance(made, dict):
            return
        if choices is None:
            yield Event(write_reply(made), name)
            return
        self._envelope = {
            key: made[key] for key in ("id", "object", "created", "model") if key in made
        }
        out: list[object] = []
        for choice in choices:
            index = choice.get("index", 0)
            delta = choice.pop("delta", None)
            ends = choice.get("finish_reason") is not None
            passed = restore_reply(self._channel, choice)
            if isinstance(delta, dict):
                shown, switched = self._delta(index, delta)
                if switched:
                    yield self._chunk(index, switched)
                if ends and (late := self._flush(index, shown)):
                    yield self._chunk(index, late)
                passed = {**passed, "delta": shown} if isinstance(passed, dict) else passed
            elif ends and (late := self._flush(index, {})):
                yield self._chunk(index, late)
            out.append(passed)
        yield Event(write_reply({**made, "choices": out}), name)

    def _delta(
        self, index: object, delta: dict[str, object]
    ) -> tuple[dict[str, object], dict[str, object]]:
        """A delta restored, and what has to go out before it since its stretch is over."""
        speaks = [name for name in self._TEXTS if isinstance(delta.get(name), str) and delta[name]]
        calls = _objects(delta.get("tool_calls"))
        switched: dict[str, object] = {}
        if speaks or calls:
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
                shown[name] = restore_reply(self._channel, value, name)
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
        self, key: Hashable, call: dict[str, object], field: str, form: Form
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

    def _chunk(self, index: object, delta: dict[str, object]) -> Event:
        choice = {"index": index, "delta": delta, "finish_reason": None}
        return Event(write_reply({**self._envelope, "choices": [choice]}))

    def end(self) -> list[Event]:
        """What was kept back when the upstream stopped."""
        late = []
        for index in dict.fromkeys(k[0] for k in self._open if isinstance(k, tuple)):
            delta = self._flush(index, {})
            if delta:
                late.append(self._chunk(index, delta))
        return late

    def fault(self, fault: Fault) -> Event:
        """A fault that came after the reply had begun."""
        error = {"message": fault.text, "type": "server_error", "param": None, "code": fault.code}
        return Event(write_reply({"error": error}))


class ResponsesStream(Stream):
    """Events of the responses API. Inserted events shift the sequence numbers of later ones."""

    _JSON: Final = ("response.function_call_arguments", "response.mcp_call_arguments")
    _PASSED: Final = ("response.audio",)
    _PLACE: Final = ("item_id", "output_index", "content_index", "summary_index", "command_index")

    def __init__(self, channel: Restoring) -> None:
        super().__init__(channel)
        self._last: dict[Hashable, tuple[str, dict[str, object]]] = {}
        self._inserted = 0
        self._number = 0

    def _events(self, name: str, body: dict[str, object]) -> Iterator[Event]:
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
            form: Form = "json" if base in self._JSON else "text"
            made = {k: v for k, v in body.items() if k != "delta"}
            made = {"delta": self._feed(key, form, delta), **made}
            yield self._numbered(name, made)
            return
        if step == "done":
            yield from self._late((base, place))
        if kind in {"response.content_part.done", "response.output_item.done"}:
            ended = [
                key
                for key in self._open
                if isinstance(key, tuple) and key[1][0] == body.get("item_id")
            ]
            for key in ended:
                yield from self._late(key)
        if kind in {"response.completed", "response.incomplete", "response.failed", "error"}:
            yield from self.end()
        whole = self._restored(body)
        if isinstance(whole, dict):
            yield self._numbered(name, whole)

    def _late(self, key: Hashable) -> Iterator[Event]:
        rest = self._close(key)
        name, body = self._last.pop(key, ("", {}))
        if rest:
            self._inserted += 1
            late = {**body, "delta": rest}
            late.pop("logprobs", None)
            if isinstance(body.get("logprobs"), list):
                late["logprobs"] = []
            late["sequence_number"] = self._number + 1 - self._inserted
            yield self._numbered(name, late)

    def _numbered(self, name: str, body: dict[str, object]) -> Event:
        number = body.get("sequence_number")
        if isinstance(number, int):
            self._number = number + self._inserted
            body["sequence_number"] = self._number
        return Event(write_reply(body), name)

    def end(self) -> list[Event]:
        """What was kept back when the upstream stopped."""
        return [event for key in list(self._open) for event in self._late(key)]

    def fault(self, fault: Fault) -> Event:
        """A fault that came after the reply had begun."""
        body = {
            "type": "error",
            "code": fault.code,
            "message": fault.text,
            "param": None,
            "sequence_number": self._number + 1,
        }
        return Event(write_reply(body), "error")


class MessagesStream(Stream):
    """Events of Anthropic's messages."""

    _DELTAS: Final[dict[str, tuple[str, Form]]] = {
        "text_delta": ("text", "text"),
        "thinking_delta": ("thinking", "text"),
        "input_json_delta": ("partial_json", "json"),
    }

    def _events(self, name: str, body: dict[str, object]) -> Iterator[Event]:
        kind, index, delta = body.get("type"), body.get("index"), body.get("delta")
        if kind == "content_block_delta" and isinstance(delta, dict):
            sort = delta.get("type")
            yield from self._late(index, besides=sort)
            field, form = self._DELTAS.get(str(sort), ("", "text"))
            chunk = delta.get(field)
            if field and isinstance(chunk, str):
                shown = {**delta, field: self._feed((index, sort), form, chunk)}
                yield Event(write_reply({**body, "delta": shown}), name)
                return
        elif kind == "content_block_stop":
            yield from self._late(index)
        elif kind in {"message_delta", "message_stop", "error"}:
            yield from self.end()
        yield Event(write_reply(self._restored(body)), name)

    def _late(self, index: object, *, besides: object = None) -> Iterator[Event]:
        for key in [k for k in self._open if isinstance(k, tuple) and k[0] == index]:
            if key[1] == besides:
                continue
            rest = self._close(key)
            if rest:
                delta = {"type": key[1], self._DELTAS[str(key[1])][0]: rest}
                body = {"type": "content_block_delta", "index": index, "delta": delta}
                yield Event(write_reply(body), "content_block_delta")

    def end(self) -> list[Event]:
        """What was kept back when the upstream stopped."""
        indices = dict.fromkeys(key[0] for key in self._open if isinstance(key, tuple))
        return [event for index in indices for event in self._late(index)]

    def fault(self, fault: Fault) -> Event:
        """A fault that came after the reply had begun."""
        error = {"type": "api_error", "message": fault.text}
        return Event(write_reply({"type": "error", "error": error}), "error")
