"""LiteLLM's own proxy and SDK before a service on loopback; `make integrations` runs this."""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would ask the network for prices
pytest.importorskip("litellm", reason="`make integrations` gives LiteLLM its own environment")
pytest.importorskip("fastapi", reason="LiteLLM's proxy is not installed")

import litellm
import uvicorn
from litellm.integrations.custom_logger import CustomLogger
from litellm.types.llms.openai import OutputTextDeltaEvent, OutputTextDoneEvent
from openai import OpenAI

from rootguard.integrations.litellm import RootGuardGuardrail
from tests.support.agent_talk import (
    TURNS,
    UNGUARDED,
    Talk,
    ahold,
    book_visit,
    fib4_score,
    hold,
    leaks,
    look_up,
    profile_in,
    talking,
)
from tests.support.upstream import serving

# LiteLLM and what it brings warn of their own deprecations when they are loaded and when they end.
pytestmark = pytest.mark.filterwarnings("ignore")

CONFIG = """
model_list:
  - model_name: small
    litellm_params: {{model: openai/small, api_base: "{url}", api_key: none}}
general_settings: {{master_key: sk-f3a91c0d5e7b48b29d6c}}
litellm_settings: {{callbacks: [tests.integrations.test_litellm.logs]}}
"""
PAGE = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text(encoding="utf-8")
# As the page has it, to be pasted.
GUARDRAIL = PAGE.partition("```yaml\n")[2].partition("```")[0]


class Logs(CustomLogger):  # type: ignore[misc]
    """Keeps all that LiteLLM hands to its loggers."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[str] = []

    async def async_log_success_event(
        self, kwargs: dict[str, Any], response_obj: object, start_time: object, end_time: object
    ) -> None:
        self.kept.append(repr((kwargs, response_obj)))


logs = Logs()


@pytest.fixture
def talk() -> Iterator[Talk]:
    logs.kept.clear()
    with talking() as made:
        yield made


@contextmanager
def proxy(config: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """LiteLLM's proxy with a configuration file, in a thread of its own."""
    (folder / "litellm.yaml").write_text(config, encoding="utf-8")
    monkeypatch.setenv("CONFIG_FILE_PATH", str(folder / "litellm.yaml"))
    from litellm.proxy.proxy_server import app

    litellm.callbacks = []
    made = uvicorn.Config(app, log_config=None, log_level="critical")
    with serving(uvicorn.Server(made)) as address:
        yield f"{address}/v1"


TOOLS = {each.__name__: each for each in (fib4_score, book_visit, look_up)}


def asking(url: str) -> Callable[[str, bool], str]:
    """A client of the owner's own, which calls its tools itself."""
    client: Any = OpenAI(base_url=url, api_key="sk-f3a91c0d5e7b48b29d6c", max_retries=0)
    turns: list[Any] = []

    def reply(streamed: bool) -> tuple[str, list[Any]]:
        if not streamed:
            made = client.chat.completions.create(model="small", messages=turns)
            message = made.choices[0].message
            return message.content or "", [
                (each.id, each.function.name, each.function.arguments)
                for each in message.tool_calls or ()
            ]
        text, calls = "", list[Any]()
        for chunk in client.chat.completions.create(model="small", messages=turns, stream=True):
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for each in choice.delta.tool_calls or ():
                    if each.id:
                        calls.append([each.id, each.function.name, ""])
                    calls[-1][2] += each.function.arguments or ""
        return text, calls

    def ask(text: str, streamed: bool) -> str:
        turns.append({"role": "user", "content": text})
        said, calls = reply(streamed)
        for name, tool, arguments in calls:
            function = {"name": tool, "arguments": arguments}
            call = {"id": name, "type": "function", "function": function}
            turns.append({"role": "assistant", "content": None, "tool_calls": [call]})
            result = str(TOOLS[tool](**json.loads(arguments)))
            turns.append({"role": "tool", "tool_call_id": name, "content": result})
            said, _ = reply(streamed)
        turns.append({"role": "assistant", "content": said})
        return said

    return ask


def check_replies(replies: list[str]) -> None:
    assert len(replies) == len(TURNS)
    assert replies[0].startswith("Welcome, Jane Roe. ")
    assert replies[6] == "You are Jane Roe, record MRN-4415-8820."
    assert replies[8] == "Noted: office@roehouse.example"
    assert replies[9].startswith("Jane Roe, record MRN-4415-8820, email office@roehouse.example")


def test_ten_turns_through_the_proxy_leave_nothing_private_in_service_and_logs(
    talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile_in(tmp_path)
    monkeypatch.setenv("ROOTGUARD_STORE", "memory:")
    config = CONFIG.format(url=talk.url) + GUARDRAIL.replace("me.toml", str(tmp_path / "me.toml"))
    with proxy(config, tmp_path, monkeypatch) as url:
        replies = hold(asking(url))
    check_replies(replies)
    assert len(talk.service.bodies) == len(TURNS) + 3
    assert logs.kept
    assert leaks(talk.service.everything) == set()
    assert len(logs.kept) == len(talk.service.bodies)
    assert leaks(*logs.kept) == set()


def test_without_the_guardrail_everything_leaves(
    talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxy(CONFIG.format(url=talk.url), tmp_path, monkeypatch) as url:
        hold(asking(url))
    assert leaks(talk.service.everything) >= UNGUARDED
    assert leaks(*logs.kept) >= UNGUARDED


def test_the_sdk_is_guarded_alike(
    talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOTGUARD_STORE", "memory:")
    monkeypatch.setattr(litellm, "callbacks", [logs])
    guard = RootGuardGuardrail(profile_in(tmp_path), service="assistant")
    turns: list[Any] = []

    async def ask(text: str, streamed: bool) -> str:
        turns.append({"role": "user", "content": text})
        made = await guard.acompletion(
            model="openai/small",
            api_base=talk.url,
            api_key="none",
            messages=turns,
            stream=streamed,
        )
        said = ""
        if streamed:
            async for chunk in made:
                said += chunk.choices[0].delta.content or ""
        else:
            said = made.choices[0].message.content or ""
        turns.append({"role": "assistant", "content": said or "…"})
        return said

    replies = asyncio.run(ahold(ask))
    check_replies(replies)
    assert leaks(talk.service.everything, *logs.kept) == set()


def test_texts_alone_are_guarded_and_restored(tmp_path: Path) -> None:
    guard = RootGuardGuardrail(profile_in(tmp_path), service="assistant")
    asked = {"texts": ["I'm Jane Roe."]}
    sent = asyncio.run(guard.apply_guardrail(asked, {}, "request"))
    assert leaks(sent) == set()
    assert asyncio.run(guard.apply_guardrail(sent, {}, "response")) == asked


def test_every_field_of_a_request_that_can_hold_words_is_guarded(
    talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOTGUARD_STORE", "memory:")
    guard = RootGuardGuardrail(profile_in(tmp_path), service="assistant")
    about = "The patient is Jane Roe, record MRN-4415-8820."
    function = {"name": "look_up", "description": about, "parameters": {"type": "object"}}
    schema = {"name": "card", "schema": {"type": "object", "description": about}}
    talk.service.says = lambda _heard: "Hi."
    asked: dict[str, Any] = {
        "messages": [{"role": "user", "content": "Hello."}],
        "tools": [{"type": "function", "function": function}],
        "user": "Jane Roe",
        "stop": ["Jane Roe"],
        "prediction": {"type": "content", "content": about},
        "response_format": {"type": "json_schema", "json_schema": schema},
        "extra_body": {"note": about},
    }
    asyncio.run(guard.acompletion(model="openai/small", api_base=talk.url, api_key="none", **asked))
    # LiteLLM itself leaves `user` out for a model that it does not know.
    assert set(talk.service.bodies[-1]) >= set(asked) - {"extra_body", "user"}
    assert "note" in talk.service.bodies[-1]
    assert leaks(talk.service.everything) == set()


def test_streamed_arguments_and_events_of_the_responses_api_are_restored(tmp_path: Path) -> None:
    guard = RootGuardGuardrail(profile_in(tmp_path), service="assistant")
    sent = asyncio.run(guard.apply_guardrail({"texts": ["I'm Jane Roe."]}, {}, "request"))
    name = sent["texts"][0].removeprefix("I'm ").rstrip(".")
    arguments = json.dumps({"patient": name})
    half = len(arguments) // 2

    def piece(arguments: str, *, over: bool = False) -> Any:  # noqa: ANN401
        function = {"name": "book_visit", "arguments": arguments}
        call = {"index": 0, "id": "c1", "type": "function", "function": function}
        reason = "tool_calls" if over else None
        choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": reason}
        return litellm.ModelResponseStream(choices=[choice])

    place = {"item_id": "m1", "output_index": 0, "content_index": 0}
    pieces = [
        OutputTextDeltaEvent(type="response.output_text.delta", delta=each, **place)
        for each in (f"You are {name[:3]}", name[3:])
    ]
    done = OutputTextDoneEvent(type="response.output_text.done", text=f"You are {name}", **place)

    async def streamed(*chunks: Any) -> list[Any]:  # noqa: ANN401
        async def stream() -> Any:  # noqa: ANN401
            for chunk in chunks:
                yield chunk

        return [each async for each in guard._streamed(stream(), None)]

    made = asyncio.run(streamed(piece(arguments[:half]), piece(arguments[half:], over=True)))
    told = "".join(each.choices[0].delta.tool_calls[0].function.arguments for each in made)
    assert json.loads(told) == {"patient": "Jane Roe"}
    *deltas, last = asyncio.run(streamed(*pieces, done))
    assert "".join(each.delta for each in deltas) == "You are Jane Roe"
    assert last.text == "You are Jane Roe"
