"""Requests that no gateway may accept: bodies, headers and bytes spoiled at random."""

import copy
import json
import random
import re
import socket
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.support.gateways import NAME, RECORD, TELLING, Running
from tests.support.patience import PATIENCE

MAX_BODY = 32 * 1024

VALID: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "model": "m",
        "messages": [
            {"role": "system", "content": TELLING},
            {"role": "user", "content": [{"type": "text", "text": TELLING}]},
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "c", "content": TELLING},
        ],
        "temperature": 0.5,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
    },
    "/v1/responses": {
        "model": "m",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": TELLING}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": TELLING},
        ],
        "instructions": TELLING,
    },
    "/v1/messages": {
        "model": "m",
        "max_tokens": 9,
        "system": [{"type": "text", "text": TELLING}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": TELLING}]},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}],
            },
        ],
    },
    "/v1/messages/count_tokens": {
        "model": "m",
        "system": TELLING,
        "messages": [{"role": "user", "content": TELLING}],
    },
    "/v1/completions": {"model": "m", "prompt": [TELLING], "suffix": TELLING, "top_k": 5},
    "/v1/embeddings": {"model": "m", "input": [TELLING, TELLING], "user": TELLING},
}


class Sent(NamedTuple):
    """The bytes of one request; a half-open one is left alone before it is complete."""

    data: bytes
    half_open: bool = False


def request(
    path: str, body: bytes, *, headers: str = "", length: int | None = None, kind: str = "json"
) -> bytes:
    size = len(body) if length is None else length
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/{kind}\r\nContent-Length: {size}\r\n{headers}\r\n"
    )
    return head.encode("latin-1") + body


def objects(value: dict[str, Any] | list[Any]) -> Iterator[dict[str, Any]]:
    """The objects of a body whose fields are all known; a schema or an input may hold anything."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, (dict, list)) and inner:
            yield from objects(inner)


def wrong_type(rng: random.Random, path: str) -> bytes:
    body = copy.deepcopy(VALID[path])
    place = rng.choice([each for each in objects(body) if each])
    name = rng.choice([name for name in place if name not in {"parameters", "input"}] or ["model"])
    wrong: list[object] = [True, [[TELLING]], {"x": TELLING}, [7], {NAME: RECORD}]
    place[name] = rng.choice([True, *wrong] if name != "stream" else wrong[1:])
    return json.dumps(body).encode()


def unknown_field(rng: random.Random, path: str) -> bytes:
    body = copy.deepcopy(VALID[path])
    places = [e for e in objects(body) if e]
    rng.choice(places)[rng.choice(["surprise", NAME, "image", "__proto__"])] = TELLING
    return json.dumps(body).encode()


def unknown_kind(rng: random.Random, path: str) -> bytes:
    body = copy.deepcopy(VALID[path])
    part = {"type": rng.choice(["hologram", "image_url", NAME, "audio"]), "data": TELLING}
    if "messages" not in body:
        body["input" if "input" in body else "prompt"].append(part)
    else:
        body["messages"].append({"role": "user", "content": [part]})
    return json.dumps(body).encode()


def bad_json(rng: random.Random, path: str) -> bytes:
    good = json.dumps(VALID[path]).encode()
    return rng.choice(
        [
            good[: rng.randrange(len(good))],
            good + b"}",
            b"[" + good + b"]",
            good.replace(b'"m"', b"NaN", 1),
            good[:-1] + b', "model": "twice"}',
            b"\xef\xbb\xbf" + good,
            json.dumps(TELLING).encode(),
            TELLING.encode(),
            good.replace(b'"', b"'"),
            good.replace(b'"m"', b"1" * 5000, 1),
        ]
    )


def bad_unicode(rng: random.Random, path: str) -> bytes:
    good = json.dumps(VALID[path]).encode()
    bad = rng.choice([b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"\\ud800", b"\x80", b"\xf8\x88"])
    return good.replace(b"I am", bad + b" I am", 1)


def deep(rng: random.Random, path: str) -> bytes:
    depth = rng.choice([60, 500, 3000])
    opening, closing = rng.choice([(b"[", b"]"), (b'{"a":', b"}")])
    nested = opening * depth + b"1" + closing * depth
    return b'{"model": "m", "metadata": ' + nested + b', "messages": []}'


BODIES: tuple[Callable[[random.Random, str], bytes], ...] = (
    wrong_type,
    unknown_field,
    unknown_kind,
    bad_json,
    bad_unicode,
    deep,
)


def malformed(rng: random.Random) -> Sent:
    path = rng.choice([*VALID])
    good = json.dumps(VALID[path]).encode()
    kind = rng.random()
    if kind < 0.72:
        return Sent(request(path, rng.choice(BODIES)(rng, path)))
    if kind < 0.78:
        return Sent(
            rng.choice(
                [
                    request(path, b"x" * 100, length=10**9),
                    request(path, b'{"model":"' + b"x" * (MAX_BODY + 1) + b'"}'),
                    request(path, good, length=10**30),
                    request(path, good, kind=rng.choice(["xml", "x-www-form-urlencoded"])),
                    request(path, good, headers="Content-Encoding: gzip\r\n"),
                    request(f"{path}?note={RECORD}", good),
                ]
            )
        )
    if kind < 0.86:
        many = "".join(f"X-{n}: {RECORD}\r\n" for n in range(rng.choice([80, 2000])))
        large = f"X-Large: {'y' * rng.choice([17_000, 300_000])}\r\n"
        return Sent(request(path, good, headers=rng.choice([many, large])))
    if kind < 0.94:
        cut = request(path, good)
        return Sent(cut[: rng.randrange(1, len(cut) - 1)], half_open=True)
    return Sent(
        rng.choice(
            [
                rng.randbytes(200) + b"\r\n\r\n",
                b"POST\r\n\r\n",
                f"POST {path} HTTP/9.9\r\n\r\n".encode(),
                b"GET http://x/ HTTP/1.1\r\n\r\n",
                request(path, good, headers="Host: evil.example\r\n"),
                request("/v1/unknown", good),
                request(path, good, headers="Transfer-Encoding: chunked\r\n"),
                f"{NAME} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),
            ]
        )
    )


def complete(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    return bool(end) and length is not None and len(body) >= int(length[1])


def talk(running: Running, sent: Sent) -> bytes:
    host, port = running.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        answer = b""
        try:
            connection.sendall(sent.data)
            if sent.half_open:
                return b""
            while not complete(answer) and (piece := connection.recv(65536)):
                answer += piece
        except OSError:
            pass  # refused before everything was read; what was answered may be lost with it
        return answer
