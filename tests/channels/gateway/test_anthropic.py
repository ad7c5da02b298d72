"""The real `anthropic` SDK through the gateway."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

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
from tests.support.upstream import by, recording_upstream

TOOL: Any = {
    "name": "look_up",
    "description": f"Look up a patient, {NAME} for example",
    "input_schema": {"type": "object", "properties": {"note": {"default": RECORD}}},
}


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with gateway() as made:
        yield made


@pytest.fixture
def client(running: Running) -> Iterator[anthropic.Anthropic]:
    running.upstream.reset()
    with anthropic.Anthropic(base_url=running.address, api_key="sk-test", max_retries=0) as made:
        yield made


def test_a_message_reaches_the_upstream_without_a_private_word_and_comes_back_whole(
    running: Running, client: anthropic.Anthropic
) -> None:
    answer = client.messages.create(
        model="small",
        max_tokens=64,
        system=f"You serve {NAME}.",
        messages=[{"role": "user", "content": TELLING}],
        metadata={"user_id": EMAIL},
        stop_sequences=[FAMILY],
    )
    block: Any = answer.content[0]
    assert leaked(running.upstream) == []
    assert NAME in block.text
    assert RECORD in block.text
    assert AST not in block.text
    sent = running.upstream.headers[-1]
    assert sent["authorization"] == "Bearer sk-test"
    assert sent["anthropic-version"]
    assert not [name for name in sent if name.startswith("x-stainless")]
    assert sent["user-agent"] == "rootguard-gateway"


def test_with_the_guard_off_the_same_message_puts_every_sentinel_upstream() -> None:
    with gateway(guarded=False) as bare:
        with anthropic.Anthropic(base_url=bare.address, api_key="k", max_retries=0) as client:
            client.messages.create(
                model="small", max_tokens=9, messages=[{"role": "user", "content": TELLING}]
            )
        assert leaked(bare.upstream) == list(SENTINELS)


def test_every_kind_of_block_is_sanitized(running: Running, client: anthropic.Anthropic) -> None:
    messages: Any = [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": TELLING, "cache_control": {"type": "ephemeral"}},
                {
                    "type": "document",
                    "title": NAME,
                    "context": f"about {NAME}",
                    "source": {"type": "text", "media_type": "text/plain", "data": TELLING},
                },
                {
                    "type": "search_result",
                    "source": f"notes of {FAMILY}",
                    "title": NAME,
                    "content": [{"type": "text", "text": RECORD}],
                },
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": f"{NAME} again", "signature": "S" * 64},
                {
                    "type": "tool_use",
                    "id": "toolu_1",
                    "name": "look_up",
                    "input": {"who": NAME, "AST": float(AST), "deep": [{"of": RECORD}]},
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": [{"type": "text", "text": f"{NAME}: AST {AST} U/L, {EMAIL}"}],
                },
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": f"{NAME}"},
            ],
        },
    ]
    client.messages.create(
        model="small",
        max_tokens=64,
        system=[{"type": "text", "text": f"You serve {NAME}."}],
        messages=messages,
        tools=[TOOL],
        tool_choice={"type": "auto"},
        thinking={"type": "enabled", "budget_tokens": 1024},
    )
    assert leaked(running.upstream) == []
    sent = running.upstream.bodies[-1]
    assert sent["messages"][1]["content"][0]["signature"] == "S" * 64
    assert sent["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral"}


def test_a_streamed_message_is_restored_and_keeps_its_events(
    running: Running, client: anthropic.Anthropic
) -> None:
    running.upstream.cut = by(3)
    events: list[Any] = list(
        client.messages.create(
            model="small",
            max_tokens=64,
            messages=[{"role": "user", "content": TELLING}],
            stream=True,
        )
    )
    said = "".join(e.delta.text for e in events if e.type == "content_block_delta")
    assert leaked(running.upstream) == []
    assert NAME in said
    assert RECORD in said
    others = [event.type for event in events if event.type != "content_block_delta"]
    assert others == [
        "message_start",
        "content_block_start",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


@pytest.mark.parametrize("stream", [False, True])
def test_tool_use_comes_back_with_restored_input(
    running: Running, client: anthropic.Anthropic, stream: bool
) -> None:
    running.upstream.calls = "look_up"
    running.upstream.cut = by(1)
    asked: Any = {
        "model": "small",
        "max_tokens": 64,
        "messages": [{"role": "user", "content": TELLING}],
        "tools": [TOOL],
    }
    if stream:
        with client.messages.stream(**asked) as events:
            message = events.get_final_message()
    else:
        message = client.messages.create(**asked)
    block: Any = message.content[0]
    assert (block.id, block.name) == ("toolu_1", "look_up")
    assert NAME in block.input["note"]
    assert RECORD in block.input["note"]
    assert leaked(running.upstream) == []


def test_ten_turns_hold_one_value_and_leak_nothing(
    running: Running, client: anthropic.Anthropic
) -> None:
    history: list[Any] = []
    for turn in range(10):
        history.append({"role": "user", "content": f"Turn {turn}: {TELLING}"})
        answer = client.messages.create(model="small", max_tokens=9, messages=history)
        block: Any = answer.content[0]
        assert NAME in block.text
        history.append({"role": "assistant", "content": block.text})
    assert leaked(running.upstream) == []
    last = running.upstream.bodies[-1]["messages"]
    assert len({message["content"].partition(": ")[2] for message in last}) == 1


def test_an_error_of_the_upstream_arrives_in_its_own_form(
    running: Running, client: anthropic.Anthropic
) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "later"}}
    running.upstream.fails = (529, json.dumps(error).encode(), "application/json")
    with pytest.raises(anthropic.APIStatusError) as caught:
        client.messages.create(
            model="small", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
        )
    assert caught.value.status_code == 529
    assert caught.value.body == error


def test_a_refusal_has_the_form_that_the_sdk_knows(
    running: Running, client: anthropic.Anthropic
) -> None:
    image: Any = {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}
    content: Any = [{"type": "image", "source": image}]
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(
            model="small", max_tokens=9, messages=[{"role": "user", "content": content}]
        )
    body: Any = caught.value.body
    assert body["type"] == "error"
    assert body["error"]["type"] == "invalid_request_error"
    assert running.upstream.everything == b""


@pytest.mark.parametrize("own_key", ["sk-of-the-other", None])
def test_each_of_two_upstreams_is_sent_its_own_key_only(own_key: str | None) -> None:
    with (
        recording_upstream() as (base, other),
        gateway(
            upstream_key="sk-of-the-first", anthropic_upstream=base, anthropic_key=own_key
        ) as running,
        anthropic.Anthropic(base_url=running.address, api_key="sk-caller", max_retries=0) as client,
        openai.OpenAI(base_url=running.base, api_key="sk-caller", max_retries=0) as first,
    ):
        client.messages.create(
            model="m", max_tokens=9, messages=[{"role": "user", "content": TELLING}]
        )
        first.chat.completions.create(model="m", messages=[{"role": "user", "content": TELLING}])
    assert other.headers[0]["authorization"] == f"Bearer {own_key or 'sk-caller'}"
    assert b"sk-of-the-first" not in repr(other.headers).encode()
    assert running.upstream.headers[0]["authorization"] == "Bearer sk-of-the-first"
    assert "sk-of-the-other" not in repr(running.upstream.headers)


def test_one_upstream_for_both_is_sent_its_key_by_both() -> None:
    with (
        gateway(upstream_key="sk-upstream") as running,
        anthropic.Anthropic(base_url=running.address, api_key="sk-caller", max_retries=0) as client,
    ):
        client.messages.create(
            model="m", max_tokens=9, messages=[{"role": "user", "content": TELLING}]
        )
    assert running.upstream.headers[0]["authorization"] == "Bearer sk-upstream"
