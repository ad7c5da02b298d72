"""The real `openai` SDK through the gateway: nothing private goes up, everything comes back."""

import json
from collections.abc import Iterator
from typing import Any

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
from tests.support.upstream import by

TOOL: Any = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": f"Look up a patient, {NAME} for example",
        "parameters": {
            "type": "object",
            "properties": {"note": {"type": "string", "description": f"such as {RECORD}"}},
        },
    },
}


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with gateway() as made:
        yield made


@pytest.fixture
def client(running: Running) -> Iterator[openai.OpenAI]:
    running.upstream.reset()
    with openai.OpenAI(base_url=running.base, api_key="sk-test", max_retries=0) as made:
        yield made


def test_a_chat_reaches_the_upstream_without_a_private_word_and_comes_back_whole(
    running: Running, client: openai.OpenAI
) -> None:
    answer = client.chat.completions.create(
        model="small", messages=[{"role": "user", "content": TELLING}]
    )
    said = answer.choices[0].message.content or ""
    assert leaked(running.upstream) == []
    assert NAME in said
    assert EMAIL in said
    assert RECORD in said
    assert AST not in said


def test_with_the_guard_off_the_same_chat_puts_every_sentinel_upstream() -> None:
    with gateway(guarded=False) as bare:
        with openai.OpenAI(base_url=bare.base, api_key="sk-test") as client:
            client.chat.completions.create(
                model="small", messages=[{"role": "user", "content": TELLING}]
            )
        assert leaked(bare.upstream) == list(SENTINELS)


def test_every_kind_of_message_and_field_is_sanitized(
    running: Running, client: openai.OpenAI
) -> None:
    messages: Any = [
        {"role": "system", "content": f"You serve {NAME}."},
        {"role": "developer", "content": [{"type": "text", "text": f"Say {FAMILY} politely."}]},
        {"role": "user", "name": FAMILY, "content": [{"type": "text", "text": TELLING}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_9",
                    "type": "function",
                    "function": {
                        "name": "look_up",
                        "arguments": json.dumps({"who": NAME, "AST": float(AST), "of": [RECORD]}),
                    },
                },
                {
                    "id": "call_10",
                    "type": "function",
                    "function": {"name": "look_up", "arguments": f"not JSON: {NAME}"},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "call_9", "content": f"{NAME}: AST {AST} U/L"},
        {"role": "tool", "tool_call_id": "call_10", "content": json.dumps({"mail": EMAIL})},
        {"role": "assistant", "content": f"Hello {NAME}", "refusal": f"not {FAMILY}"},
        {"role": "user", "content": "Go on."},
    ]
    client.chat.completions.create(
        model="small",
        messages=messages,
        tools=[TOOL],
        user=EMAIL,
        metadata={"patient": NAME},
        stop=[FAMILY],
        prediction={"type": "content", "content": f"Dear {NAME}"},
        response_format={
            "type": "json_schema",
            "json_schema": {
                "name": "reply",
                "description": f"for {NAME}",
                "schema": {"type": "object", "properties": {"a": {"enum": [RECORD]}}},
            },
        },
        temperature=0.5,
        seed=7,
        logit_bias={"50256": -100},
        tool_choice={"type": "function", "function": {"name": "look_up"}},
    )
    assert leaked(running.upstream) == []
    sent = running.upstream.bodies[-1]
    assert sent["messages"][-1] == {"role": "user", "content": "Go on."}
    assert sent["messages"][3]["tool_calls"][0]["id"] == "call_9"
    given = json.loads(sent["messages"][3]["tool_calls"][0]["function"]["arguments"])
    assert given.keys() == {"who", "AST", "of"}
    assert isinstance(given["AST"], float | int)
    assert (sent["temperature"], sent["seed"], sent["logit_bias"]) == (0.5, 7, {"50256": -100})


def test_a_streamed_chat_is_restored_and_keeps_its_form(
    running: Running, client: openai.OpenAI
) -> None:
    running.upstream.cut = by(3)
    chunks = list(
        client.chat.completions.create(
            model="small",
            messages=[{"role": "user", "content": TELLING}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert leaked(running.upstream) == []
    assert NAME in said
    assert RECORD in said
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].choices == []
    assert {chunk.id for chunk in chunks} == {"chatcmpl-1"}


@pytest.mark.parametrize("stream", [False, True])
def test_tool_calls_come_back_with_restored_arguments(
    running: Running, client: openai.OpenAI, stream: bool
) -> None:
    running.upstream.calls = "look_up"
    running.upstream.cut = by(2)
    asked: Any = {"model": "small", "messages": [{"role": "user", "content": TELLING}]}
    if stream:
        with client.chat.completions.stream(**asked, tools=[TOOL]) as events:
            message = events.get_final_completion().choices[0].message
    else:
        message = client.chat.completions.create(**asked, tools=[TOOL]).choices[0].message
    assert message.tool_calls is not None
    call: Any = message.tool_calls[0]
    arguments = json.loads(call.function.arguments)
    assert (call.id, call.function.name) == ("call_1", "look_up")
    assert NAME in arguments["note"]
    assert RECORD in arguments["note"]
    assert leaked(running.upstream) == []


def test_ten_turns_hold_one_value_and_leak_nothing(running: Running, client: openai.OpenAI) -> None:
    history: list[Any] = []
    replies = set()
    for turn in range(10):
        history.append({"role": "user", "content": f"Turn {turn + 1}: {TELLING}"})
        answer = client.chat.completions.create(model="small", messages=history)
        said = answer.choices[0].message.content or ""
        assert NAME in said
        replies.add(said.removeprefix(f"Turn {turn + 1}: "))
        history.append({"role": "assistant", "content": said})
    assert len(replies) == 1
    assert leaked(running.upstream) == []
    last = running.upstream.bodies[-1]["messages"]
    assert len({m["content"].partition(": ")[2] for m in last}) == 1


def test_a_response_is_guarded_and_restored_with_its_instructions(
    running: Running, client: openai.OpenAI
) -> None:
    answer = client.responses.create(
        model="small", input=TELLING, instructions=f"You serve {NAME}.", metadata={"who": NAME}
    )
    assert leaked(running.upstream) == []
    assert NAME in answer.output_text
    assert answer.instructions == f"You serve {NAME}."


def test_the_items_of_a_response_are_sanitized(running: Running, client: openai.OpenAI) -> None:
    items: Any = [
        {"role": "user", "content": [{"type": "input_text", "text": TELLING}]},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": f"{NAME} asks"}],
            "encrypted_content": "Z" * 64,
        },
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "look_up",
            "arguments": json.dumps({"who": NAME}),
        },
        {"type": "function_call_output", "call_id": "call_1", "output": f"{NAME}, {RECORD}"},
        {"role": "assistant", "content": f"Hello {NAME}"},
        {"role": "user", "content": "Go on."},
    ]
    client.responses.create(
        model="small",
        input=items,
        text={"format": {"type": "json_schema", "name": "a", "schema": {"title": NAME}}},
        tools=[{"type": "function", "name": "look_up", "parameters": {}, "strict": False}],
        reasoning={"effort": "low"},
    )
    assert leaked(running.upstream) == []
    assert running.upstream.bodies[-1]["input"][1]["encrypted_content"] == "Z" * 64


@pytest.mark.parametrize("calls", [None, "look_up"])
def test_a_streamed_response_keeps_its_events_in_order_and_in_step(
    running: Running, client: openai.OpenAI, calls: str | None
) -> None:
    running.upstream.calls = calls
    running.upstream.cut = by(4)
    events: list[Any] = list(client.responses.create(model="small", input=TELLING, stream=True))
    kind = "output_text" if calls is None else "function_call_arguments"
    deltas = "".join(e.delta for e in events if e.type == f"response.{kind}.delta")
    done = next(e for e in events if e.type == f"response.{kind}.done")
    whole = events[-1].response.output[0]
    assert leaked(running.upstream) == []
    assert NAME in deltas
    assert deltas == (done.text if calls is None else done.arguments)
    assert deltas == (whole.content[0].text if calls is None else whole.arguments)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].type == "response.completed"


def test_models_are_listed_and_described(running: Running, client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["small"]
    assert client.models.retrieve("maker/small-2024-08-06").id == "maker/small-2024-08-06"


def test_an_error_of_the_upstream_arrives_in_its_own_form(
    running: Running, client: openai.OpenAI
) -> None:
    said = json.dumps({"error": {"message": "slow down", "type": "x", "code": "too_fast"}})
    running.upstream.fails = (429, said.encode(), "application/json")
    with pytest.raises(openai.RateLimitError) as caught:
        client.chat.completions.create(model="small", messages=[{"role": "user", "content": "hi"}])
    assert caught.value.code == "too_fast"
    assert caught.value.response.headers["retry-after"] == "7"
    assert "slow down" in caught.value.message


def test_an_upstream_that_is_not_there_is_a_fixed_502() -> None:
    with (
        gateway(upstream="http://127.0.0.1:1/v1") as made,
        openai.OpenAI(base_url=made.base, api_key="k", max_retries=0) as client,
    ):
        with pytest.raises(openai.InternalServerError) as caught:
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": NAME}])
        assert caught.value.status_code == 502
        assert caught.value.code == "upstream_unreachable"
