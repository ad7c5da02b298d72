"""The rest of the APIs: completions, embeddings, moderations, token counts, Azure, and refusals."""

import io
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal

import anthropic
import httpx2
import openai
import pytest

from rootguard.channels.faults import FAULTS, Code
from tests.support.gateways import (
    AST,
    EMAIL,
    FAMILY,
    NAME,
    RECORD,
    SENTINELS,
    TELLING,
    Running,
    gateway,
    leaked,
)
from tests.support.patience import PATIENCE
from tests.support.upstream import by


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with gateway() as made:
        yield made


@pytest.fixture
def client(running: Running) -> Iterator[openai.OpenAI]:
    running.upstream.reset()
    with openai.OpenAI(base_url=running.base, api_key="sk-test", max_retries=0) as made:
        yield made


def post(
    running: Running, path: str, body: object, headers: dict[str, str] | None = None
) -> httpx2.Response:
    return httpx2.post(
        running.address + path, json=body, headers=headers, trust_env=False, timeout=PATIENCE
    )


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_completion_is_guarded_and_its_reply_restored(
    running: Running, client: openai.OpenAI, stream: bool, size: int
) -> None:
    running.upstream.cut = by(size)
    made: Any = client.completions.create(
        model="small",
        prompt=[TELLING, f"Dear {NAME},"],
        suffix=f"Yours, {FAMILY}",
        echo=True,
        stop=[RECORD],
        user=EMAIL,
        best_of=1,
        stream=stream,
    )
    said = ["", ""]
    for chunk in made if stream else [made]:
        for choice in chunk.choices:
            said[choice.index] += choice.text
    assert leaked(running.upstream) == []
    assert said[0].count(NAME) == 2  # the prompt, and the same again
    assert said[0].count(RECORD) == 2
    assert AST not in said[0]
    assert said[1] == f"Dear {NAME},Dear {NAME},"


def test_a_prompt_teaches_no_value(running: Running) -> None:
    """It is put together by a program: what stands in it may be anybody's."""
    with gateway() as made, openai.OpenAI(base_url=made.base, api_key="k") as client:
        client.completions.create(model="small", prompt=TELLING)
        client.embeddings.create(model="small", input=TELLING)
        assert not made.person.known("ast")
        assert b"AST is [number]" in made.upstream.everything


def test_a_completion_that_breaks_off_gives_what_was_held_back(
    running: Running, client: openai.OpenAI
) -> None:
    client.completions.create(model="small", prompt=f"I am {NAME}.")
    token = running.upstream.bodies[-1]["prompt"].removeprefix("I am ").removesuffix(".")
    assert token != NAME
    running.upstream.says = lambda _heard: f"Hello {token}"
    running.upstream.cut = by(1)
    running.upstream.stop_after = 6 + len(token) - 1
    running.upstream.breaks = True
    said = ""
    chunks = iter(client.completions.create(model="small", prompt="Hello", stream=True))
    with suppress(openai.APIError):
        while True:
            said += next(chunks).choices[0].text
    assert said.endswith(token.split()[-1][:-1])  # its last letter never came


@pytest.mark.parametrize("form", ["float", "base64"])
def test_embeddings_are_of_the_guarded_text_and_come_back_as_they_are(
    running: Running, client: openai.OpenAI, form: Literal["float", "base64"]
) -> None:
    for given in (TELLING, [TELLING, f"I am {NAME}"]):
        made = client.embeddings.create(model="small", input=given, encoding_format=form, user=NAME)
        vector = made.data[0].embedding
        assert vector == [0.5, -1.0, 61.375] or isinstance(vector, str)
        assert len(made.data) == (1 if isinstance(given, str) else 2)
    assert leaked(running.upstream) == []
    # The SDK asks for base64 by itself, and decodes it.
    assert client.embeddings.create(model="small", input="x").data[0].embedding[2] == 61.375


def test_a_vector_in_base64_is_not_searched_for_tokens(
    running: Running, client: openai.OpenAI
) -> None:
    client.embeddings.create(model="small", input=f"I am {FAMILY}.", encoding_format="float")
    token = running.upstream.bodies[-1]["input"].removeprefix("I am ").removesuffix(".")
    vector = {"object": "embedding", "index": 0, "embedding": token}
    reply = {"object": "list", "model": "m", "data": [vector]}
    running.upstream.fails = (200, json.dumps(reply).encode(), "application/json")
    answer = post(running, "/v1/embeddings", {"model": "m", "input": "x"})
    assert answer.json()["data"][0]["embedding"] == token


def test_a_moderation_is_of_the_guarded_text(running: Running, client: openai.OpenAI) -> None:
    parts: Any = [{"type": "text", "text": TELLING}]
    for given in (TELLING, [TELLING], parts):
        assert client.moderations.create(input=given).results[0].flagged is False
    assert len(running.upstream.bodies) == 3
    assert leaked(running.upstream) == []
    picture: Any = [{"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}]
    with pytest.raises(openai.BadRequestError, match="images, audio and files"):
        client.moderations.create(input=picture)


def test_tokens_are_counted_of_the_message_as_it_would_be_sent(running: Running) -> None:
    running.upstream.reset()
    tool: Any = {
        "name": "look_up",
        "description": f"for {NAME}",
        "input_schema": {"type": "object"},
    }
    asked: Any = {
        "model": "small",
        "system": f"You serve {NAME}.",
        "messages": [{"role": "user", "content": TELLING}],
        "tools": [tool],
    }
    with anthropic.Anthropic(base_url=running.address, api_key="k", max_retries=0) as client:
        counted = client.messages.count_tokens(**asked)
        client.messages.create(max_tokens=9, **asked)
    count, sent = running.upstream.bodies
    assert leaked(running.upstream) == []
    assert counted.input_tokens > 0
    assert count == {name: each for name, each in sent.items() if name != "max_tokens"}


def azure(made: Running, key: str) -> openai.AzureOpenAI:
    return openai.AzureOpenAI(
        azure_endpoint=made.address, api_version="2024-10-21", api_key=key, max_retries=0
    )


@pytest.fixture(scope="module")
def azure_gateway() -> Iterator[Running]:
    with gateway(azure=True) as made:
        yield made


def test_azures_client_works_with_its_paths_version_and_key(azure_gateway: Running) -> None:
    made = azure_gateway
    made.upstream.reset()
    with azure(made, "az-key") as client:
        answer = client.chat.completions.create(
            model="my-gpt", messages=[{"role": "user", "content": TELLING}]
        )
        assert NAME in (answer.choices[0].message.content or "")
        chunks = client.chat.completions.create(
            model="my-gpt", messages=[{"role": "user", "content": TELLING}], stream=True
        )
        assert NAME in "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert NAME in client.completions.create(model="my-gpt", prompt=TELLING).choices[0].text
        assert client.embeddings.create(model="my-gpt", input=TELLING).data
        assert NAME in client.responses.create(model="my-gpt", input=TELLING).output_text
    assert leaked(made.upstream) == []
    assert {each["api-key"] for each in made.upstream.headers} == {"az-key"}
    lines = [each.split(b"\r\n")[0] for each in made.upstream.received if each[:4] == b"POST"]
    chat = b"POST /openai/deployments/my-gpt/chat/completions?api-version=2024-10-21 HTTP/1.1"
    assert lines[0] == chat
    assert all(b"?api-version=2024-10-21 " in line for line in lines)


def test_azures_path_names_the_model_so_that_the_body_need_not(azure_gateway: Running) -> None:
    path = "/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21"
    said = {"messages": [{"role": "user", "content": "Hello."}]}
    assert post(azure_gateway, path, said).status_code == 200
    assert post(azure_gateway, "/v1/chat/completions", said).status_code == 400
    private = path.replace("my-gpt", RECORD)
    assert post(azure_gateway, private, said).json()["error"]["code"] == "private_id"
    other = path.replace("api-version", "subscription")
    assert post(azure_gateway, other, said).json()["error"]["code"] == "unknown_field"


def test_the_upstreams_key_takes_the_place_of_azures() -> None:
    with gateway(azure=True, upstream_key="sk-upstream") as made:
        with azure(made, "az-mine") as client:
            client.embeddings.create(model="e", input="x")
        assert made.upstream.headers[0]["api-key"] == "sk-upstream"
        assert b"az-mine" not in made.upstream.everything


LOCAL: dict[str, object] = {
    "top_k": 40,
    "min_p": 0.05,
    "repetition_penalty": 1.1,
    "stop_token_ids": [2, 32000],
    "ignore_eos": False,
    "guided_json": {"type": "object", "properties": {"who": {"type": "string"}}},
    "guided_regex": r"(yes|no)",
    "guided_choice": ["yes", "no"],
    "guided_decoding_backend": "xgrammar",
    "structured_outputs": {"regex": "(yes|no)"},
    "min_tokens": 1,
    "skip_special_tokens": True,
    "truncate_prompt_tokens": 100,
}
CHAT_LOCAL: dict[str, object] = {
    "chat_template_kwargs": {"enable_thinking": False},
    "add_generation_prompt": True,
    "include_reasoning": True,
}


def test_fields_of_vllm_arrive_as_they_were_sent(running: Running, client: openai.OpenAI) -> None:
    client.chat.completions.create(
        model="small",
        messages=[{"role": "user", "content": "Hello."}],
        extra_body={**LOCAL, **CHAT_LOCAL},
    )
    client.completions.create(model="small", prompt="Hello.", extra_body=LOCAL)
    chat, completion = running.upstream.bodies
    assert {name: chat[name] for name in {**LOCAL, **CHAT_LOCAL}} == {**LOCAL, **CHAT_LOCAL}
    assert {name: completion[name] for name in LOCAL} == LOCAL


def test_texts_in_fields_of_vllm_are_guarded(running: Running, client: openai.OpenAI) -> None:
    schema = {"type": "object", "properties": {"who": {"enum": [NAME], "description": EMAIL}}}
    client.chat.completions.create(
        model="small",
        messages=[{"role": "user", "content": "Hello."}],
        extra_body={
            "guided_json": json.dumps(schema),
            "guided_regex": f"(yes|{RECORD})",
            "guided_choice": [NAME, "no"],
            "guided_grammar": f'root ::= "{NAME}"',
            "structured_outputs": {"json": schema, "choice": [NAME]},
            "bad_words": [FAMILY],
            "chat_template": f"You serve {NAME}.",
            "chat_template_kwargs": {"patient": NAME},
            "documents": [{"title": NAME, "text": TELLING}],
            "vllm_xargs": {"note": NAME},
            "cache_salt": EMAIL,
        },
    )
    assert leaked(running.upstream) == []
    sent = running.upstream.bodies[-1]
    assert json.loads(sent["guided_json"]).keys() == schema.keys()


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("POST", "/v1/files", "files_refused"),
        ("GET", "/v1/files/file-1/content", "files_refused"),
        ("POST", "/v1/uploads", "files_refused"),
        ("POST", "/v1/batches", "batches_refused"),
        ("GET", "/v1/batches/batch_1", "batches_refused"),
        ("POST", "/v1/messages/batches", "batches_refused"),
        ("POST", "/openai/files", "files_refused"),
        ("POST", "/openai/deployments/gpt/images/generations", "media_refused"),
        ("POST", "/v1/audio/transcriptions", "media_refused"),
        ("POST", "/v1/audio/speech", "media_refused"),
        ("POST", "/v1/images/generations", "media_refused"),
        ("POST", "/v1/videos", "media_refused"),
        ("POST", "/v1/assistants", "endpoint_refused"),
        ("POST", "/v1/fine_tuning/jobs", "endpoint_refused"),
        ("GET", "/v1/responses/resp_1", "endpoint_refused"),
        ("GET", "/v1/chat/completions", "endpoint_refused"),
        ("DELETE", "/v1/models/small", "endpoint_refused"),
        ("POST", "/elsewhere", "not_found"),
        ("POST", "/v1", "not_found"),
    ],
)
def test_an_endpoint_that_is_not_served_says_so_in_fixed_words(
    running: Running, method: str, path: str, code: Code
) -> None:
    running.upstream.reset()
    answer = httpx2.request(
        method, running.address + path, content=TELLING, trust_env=False, timeout=PATIENCE
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (FAULTS[code].status, code)
    assert answer.json()["error"]["message"] == FAULTS[code].text
    assert running.upstream.everything == b""


def test_the_sdks_are_told_what_to_do_instead_of_a_batch(
    running: Running, client: openai.OpenAI
) -> None:
    lines = json.dumps({"custom_id": "1", "method": "POST", "body": {"x": TELLING}}).encode()
    with pytest.raises(openai.NotFoundError, match="put their text into a message"):
        client.files.create(file=io.BytesIO(lines * 50), purpose="batch")
    with pytest.raises(openai.NotFoundError, match="one by one"):
        client.batches.create(
            input_file_id="file-1", endpoint="/v1/chat/completions", completion_window="24h"
        )
    with (
        anthropic.Anthropic(base_url=running.address, api_key="k", max_retries=0) as other,
        pytest.raises(anthropic.NotFoundError, match="one by one"),
    ):
        other.messages.batches.create(requests=[])
    assert running.upstream.everything == b""


HOSTILE: list[tuple[str, object, Code]] = [
    ("/v1/embeddings", {"model": "m"}, "wrong_type"),
    ("/v1/embeddings", {"model": "m", "input": 7}, "wrong_type"),
    ("/v1/embeddings", {"model": "m", "input": {"text": TELLING}}, "wrong_type"),
    ("/v1/embeddings", {"model": "m", "input": [True]}, "wrong_type"),
    ("/v1/embeddings", {"model": "m", "input": [None]}, "wrong_type"),
    ("/v1/embeddings", {"model": "m", "input": [61, 375]}, "token_ids_refused"),
    ("/v1/embeddings", {"model": "m", "input": [[61, 375]]}, "token_ids_refused"),
    ("/v1/embeddings", {"model": "m", "input": "x", "encoding_format": NAME}, "bad_value"),
    ("/v1/embeddings", {"model": "m", "input": "x", "note": TELLING}, "unknown_field"),
    ("/v1/embeddings", {"model": RECORD, "input": "x"}, "private_id"),
    ("/v1/embeddings", {"model": "m", "input": ["x"] * 20_001}, "too_large"),
    ("/v1/completions", {"model": "m"}, "wrong_type"),
    ("/v1/completions", {"model": "m", "prompt": {"x": TELLING}}, "wrong_type"),
    ("/v1/completions", {"model": "m", "prompt": [1, 2]}, "token_ids_refused"),
    ("/v1/completions", {"model": "m", "prompt": [[1], [2]]}, "token_ids_refused"),
    ("/v1/completions", {"model": "m", "prompt": "x", "echo": TELLING}, "wrong_type"),
    ("/v1/completions", {"model": "m", "prompt": "x", "suffix": [TELLING]}, "wrong_type"),
    ("/v1/completions", {"model": "m", "prompt": "x", "messages": []}, "unknown_field"),
    ("/v1/completions", {"model": "m", "prompt": "x", "logits_processors": []}, "unknown_field"),
    ("/v1/moderations", {"input": [{"type": "text"}]}, "wrong_type"),
    ("/v1/moderations", {"input": [{"type": "file", "file": {}}]}, "unknown_kind"),
    ("/v1/moderations", {"input": 5}, "wrong_type"),
    ("/v1/messages/count_tokens", {"model": "m"}, "wrong_type"),
    ("/v1/messages/count_tokens", {"model": "m", "messages": TELLING}, "wrong_type"),
    (
        "/v1/messages/count_tokens",
        {"model": "m", "messages": [], "max_tokens": 1},
        "unknown_field",
    ),
    ("/v1/chat/completions", {"model": "m", "messages": [], "top_k": TELLING}, "wrong_type"),
    ("/v1/chat/completions", {"model": "m", "messages": [], "guided_json": 5}, "wrong_type"),
    (
        "/v1/chat/completions",
        {"model": "m", "messages": [], "chat_template_kwargs": {NAME: 1}, "mm": 1},
        "unknown_field",
    ),
    ("/v1/embeddings", [TELLING], "bad_json"),
    ("/v1/completions", TELLING, "bad_json"),
]


@pytest.mark.parametrize(("path", "body", "code"), HOSTILE)
def test_a_hostile_body_of_any_endpoint_is_refused_before_anything_is_sent(
    running: Running, path: str, body: object, code: Code
) -> None:
    running.upstream.reset()
    answer = post(running, path, body)
    error = answer.json()["error"]
    assert error["message"].startswith(FAULTS[code].text)
    assert answer.status_code == FAULTS[code].status
    assert not [each for each in SENTINELS if each in answer.text]
    assert running.upstream.everything == b""
