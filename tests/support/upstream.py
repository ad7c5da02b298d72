"""A chat service of our own on loopback that keeps every byte it is sent.

It speaks OpenAI's chat completions, responses, completions, embeddings, moderations and models and
Anthropic's messages, whole and streamed, with tool calls. By default it repeats the last thing it
was told; a test may give it other words, cut its stream anywhere, let it stop in the middle, or let
it fail.
"""

import asyncio
import base64
import json
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from tests.support.patience import PATIENCE

Body = dict[str, Any]


def by(size: int) -> Callable[[str], list[str]]:
    """Cuts a text into pieces of one size."""
    return lambda text: [text[at : at + size] for at in range(0, len(text), size)]


@dataclass
class Recording:
    """What the service was sent, and how it is to answer."""

    received: list[bytes] = field(default_factory=list)
    bodies: list[Body] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    says: Callable[[str], str] = lambda heard: heard
    cut: Callable[[str], list[str]] = lambda text: by(7)(text)
    calls: str | None = None
    call: str = "call_1"
    arguments: Callable[[str], str] = lambda heard: json.dumps({"note": heard}, ensure_ascii=False)
    fails: tuple[int, bytes, str] | None = None
    byte_cut: int | None = None
    written: bytes = b""
    stop_after: int | None = None
    paused: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    breaks: bool = False

    @property
    def everything(self) -> bytes:
        """All bytes that ever came in, on any connection."""
        return b"".join(self.received)

    def reset(self) -> None:
        """Forget what came, and answer as at first."""
        self.__init__()  # type: ignore[misc]


def heard(body: Body) -> str:
    """The last text that the service was told, in any of the forms."""
    turns = next(body[name] for name in ("messages", "input", "prompt") if name in body)
    return turns if isinstance(turns, str) else _words(turns[-1])


def _words(part: object) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, list):
        return " ".join(_words(each) for each in part)
    if isinstance(part, dict):
        for name in ("content", "text", "output"):
            if part.get(name):
                return _words(part[name])
    return ""


def _chat(recording: Recording, body: Body) -> Body:
    text = recording.says(heard(body))
    message: Body = {"role": "assistant", "content": text}
    if recording.calls is not None:
        function = {"name": recording.calls, "arguments": recording.arguments(text)}
        call = {"id": recording.call, "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    reason = "stop" if recording.calls is None else "tool_calls"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body.get("model", "deployed"),
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _chat_events(recording: Recording, body: Body) -> Iterator[str]:
    whole = _chat(recording, body)
    base = {k: whole[k] for k in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    message = whole["choices"][0]["message"]

    def chunk(delta: Body, reason: str | None = None, **more: object) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        body = json.dumps({**base, "choices": [choice], **more}, ensure_ascii=False)
        return f"data: {body}\n\n"

    yield chunk({"role": "assistant", "content": ""})
    if message["content"] is not None:
        for piece in recording.cut(message["content"]):
            yield chunk({"content": piece})
    for call in message.get("tool_calls", ()):
        opening = {**call, "index": 0, "function": {**call["function"], "arguments": ""}}
        yield chunk({"tool_calls": [opening]})
        for piece in recording.cut(call["function"]["arguments"]):
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    yield chunk({}, whole["choices"][0]["finish_reason"])
    if (body.get("stream_options") or {}).get("include_usage"):
        yield f"data: {json.dumps({**base, 'choices': [], 'usage': whole['usage']})}\n\n"
    yield "data: [DONE]\n\n"


def _response(recording: Recording, body: Body) -> Body:
    text = recording.says(heard(body))
    item: Body = {
        "type": "message",
        "id": "msg_1",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    if recording.calls is not None:
        item = {
            "type": "function_call",
            "id": "fc_1",
            "call_id": recording.call,
            "status": "completed",
            "name": recording.calls,
            "arguments": recording.arguments(text),
        }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": body["model"],
        "status": "completed",
        "output": [item],
        "instructions": body.get("instructions"),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _response_events(recording: Recording, body: Body) -> Iterator[str]:
    whole = _response(recording, body)
    item = whole["output"][0]
    number = iter(range(10_000))

    def event(kind: str, **fields: object) -> str:
        data = json.dumps({"type": kind, "sequence_number": next(number), **fields})
        return f"event: {kind}\ndata: {data}\n\n"

    yield event("response.created", response={**whole, "status": "in_progress", "output": []})
    place = {"item_id": item["id"], "output_index": 0}
    if item["type"] == "message":
        part = item["content"][0]
        inside = {**place, "content_index": 0}
        empty = {**item, "content": [], "status": "in_progress"}
        yield event("response.output_item.added", output_index=0, item=empty)
        yield event("response.content_part.added", **inside, part={**part, "text": ""})
        for piece in recording.cut(part["text"]):
            yield event("response.output_text.delta", **inside, delta=piece, logprobs=[])
        yield event("response.output_text.done", **inside, text=part["text"], logprobs=[])
        yield event("response.content_part.done", **inside, part=part)
    else:
        empty = {**item, "arguments": "", "status": "in_progress"}
        yield event("response.output_item.added", output_index=0, item=empty)
        for piece in recording.cut(item["arguments"]):
            yield event("response.function_call_arguments.delta", **place, delta=piece)
        done = {"arguments": item["arguments"], "name": item["name"]}
        yield event("response.function_call_arguments.done", **place, **done)
    yield event("response.output_item.done", output_index=0, item=item)
    yield event("response.completed", response=whole)


def _message(recording: Recording, body: Body) -> Body:
    text = recording.says(heard(body))
    content: list[Body] = [{"type": "text", "text": text}]
    if recording.calls is not None:
        given = json.loads(recording.arguments(text))
        content = [{"type": "tool_use", "id": "toolu_1", "name": recording.calls, "input": given}]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": "end_turn" if recording.calls is None else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _message_events(recording: Recording, body: Body) -> Iterator[str]:
    whole = _message(recording, body)
    block = whole["content"][0]

    def event(kind: str, **fields: object) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"

    yield event("message_start", message={**whole, "content": [], "stop_reason": None})
    if block["type"] == "text":
        yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        yield event("ping")
        for piece in recording.cut(block["text"]):
            yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
    else:
        yield event("content_block_start", index=0, content_block={**block, "input": {}})
        for piece in recording.cut(json.dumps(block["input"])):
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield event("content_block_delta", index=0, delta=delta)
    yield event("content_block_stop", index=0)
    ends = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=ends, usage={"output_tokens": 1})
    yield event("message_stop")


def _completion(recording: Recording, body: Body) -> Body:
    prompts = [body["prompt"]] if isinstance(body["prompt"], str) else body["prompt"]
    choices = [
        {
            "index": place,
            "text": (prompt if body.get("echo") else "") + recording.says(prompt),
            "logprobs": None,
            "finish_reason": "stop",
        }
        for place, prompt in enumerate(prompts)
    ]
    return {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 1,
        "model": body.get("model", "deployed"),
        "choices": choices,
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _completion_events(recording: Recording, body: Body) -> Iterator[str]:
    whole = _completion(recording, body)
    base = {k: whole[k] for k in ("id", "object", "created", "model")}
    for choice in whole["choices"]:
        pieces = recording.cut(choice["text"])
        for number, piece in enumerate(pieces, start=1):
            reason = "stop" if number == len(pieces) else None
            shown = {**choice, "text": piece, "finish_reason": reason}
            yield f"data: {json.dumps({**base, 'choices': [shown]})}\n\n"
    yield "data: [DONE]\n\n"


def _embeddings(_recording: Recording, body: Body) -> Body:
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    vector: object = [0.5, -1.0, 61.375]
    if body.get("encoding_format") == "base64":
        vector = base64.b64encode(struct.pack("<3f", 0.5, -1.0, 61.375)).decode()
    return {
        "object": "list",
        "model": body.get("model", "deployed"),
        "data": [
            {"object": "embedding", "index": place, "embedding": vector}
            for place in range(len(texts))
        ],
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }


def _moderation(_recording: Recording, body: Body) -> Body:
    result = {"flagged": False, "categories": {}, "category_scores": {}}
    return {"id": "modr-1", "model": body.get("model", "m"), "results": [result]}


def _counted(_recording: Recording, body: Body) -> Body:
    return {"input_tokens": len(json.dumps(body["messages"]))}


def _no_events(_recording: Recording, _body: Body) -> Iterator[str]:
    yield ""


Whole = Callable[[Recording, Body], Body]
Events = Callable[[Recording, Body], Iterator[str]]


def _app(recording: Recording) -> Starlette:
    async def spoken(events: list[str]) -> AsyncIterator[bytes]:
        if recording.byte_cut is not None:
            written = "".join(events).encode()
            recording.written = written
            yield written[: recording.byte_cut]
            yield written[recording.byte_cut :]
            return
        for place, event in enumerate(events):
            if place == recording.stop_after:
                if recording.breaks:
                    raise ConnectionResetError
                recording.paused.set()
                await asyncio.to_thread(recording.go_on.wait, 30)
            yield event.encode()

    def endpoint(path: str, whole: Whole, events: Events) -> Route:
        async def answer(request: Request) -> Response:
            body = json.loads(await request.body())
            recording.bodies.append(body)
            recording.headers.append(dict(request.headers))
            if recording.fails is not None:
                status, content, kind = recording.fails
                return Response(content, status, media_type=kind, headers={"retry-after": "7"})
            if body.get("stream"):
                made = list(events(recording, body))
                return StreamingResponse(spoken(made), media_type="text/event-stream")
            return JSONResponse(whole(recording, body), headers={"set-cookie": "a=b"})

        return Route(path, answer, methods=["POST"])

    async def models(request: Request) -> Response:
        recording.headers.append(dict(request.headers))
        one = {"id": "small", "object": "model", "created": 1, "owned_by": "us"}
        if request.path_params:
            return JSONResponse({**one, "id": request.path_params["model"]})
        return JSONResponse({"object": "list", "data": [one]})

    return Starlette(
        routes=[
            endpoint("/v1/chat/completions", _chat, _chat_events),
            endpoint("/v1/responses", _response, _response_events),
            endpoint("/v1/messages", _message, _message_events),
            endpoint("/v1/messages/count_tokens", _counted, _no_events),
            endpoint("/v1/completions", _completion, _completion_events),
            endpoint("/v1/embeddings", _embeddings, _no_events),
            endpoint("/v1/moderations", _moderation, _no_events),
            endpoint("/openai/deployments/{name}/chat/completions", _chat, _chat_events),
            endpoint("/openai/deployments/{name}/completions", _completion, _completion_events),
            endpoint("/openai/deployments/{name}/embeddings", _embeddings, _no_events),
            endpoint("/openai/responses", _response, _response_events),
            Route("/v1/models", models),
            Route("/v1/models/{model:path}", models),
        ]
    )


@contextmanager
def serving(server: uvicorn.Server) -> Iterator[str]:
    """Run a server in a thread on a free port of loopback; gives its address."""
    # asyncio sends small pieces at once only if the socket says that it is TCP.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(512)
    ready = threading.Event()
    startup = server.startup

    async def told(sockets: list[socket.socket] | None = None) -> None:
        await startup(sockets)
        ready.set()

    server.startup = told  # type: ignore[method-assign]
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        listening.close()
        assert not thread.is_alive()


@contextmanager
def recording_upstream() -> Iterator[tuple[str, Recording]]:
    """The service, running: its base URL and what it hears."""
    recording = Recording()

    class Protocol(H11Protocol):
        def data_received(self, data: bytes) -> None:
            recording.received.append(data)
            super().data_received(data)

    config = uvicorn.Config(
        _app(recording), http=Protocol, ws="none", log_config=None, log_level="critical"
    )
    with serving(uvicorn.Server(config)) as address:
        yield f"{address}/v1", recording
