"""Pydantic AI's own agent, message history and spans around a service on loopback."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="`make extras` installs the agent frameworks")
pytest.importorskip("opentelemetry.sdk", reason="`make extras` installs OpenTelemetry")

from openai import AsyncOpenAI
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    FunctionToolset,
    ModelRetry,
    RunContext,
    RunUsage,
    Tool,
    ToolApproved,
)
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.openai import OpenAIProvider

from rootguard.integrations.agent import ToolFailedError
from rootguard.integrations.pydantic_ai import RootGuardCapability
from rootguard.store import MemoryStore
from tests.support.agent_talk import (
    UNGUARDED,
    Talk,
    ahold,
    book_visit,
    check_kept,
    fib4_score,
    leaks,
    look_up,
    profile_in,
    talking,
)


@pytest.fixture
def talk() -> Iterator[Talk]:
    with talking() as made:
        yield made


class Spans:
    """The framework's own spans, with contents."""

    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._kept))
        settings = InstrumentationSettings(tracer_provider=provider, include_content=True)
        self.capability = Instrumentation(settings)

    def text(self) -> str:
        return "".join(span.to_json() for span in self._kept.get_finished_spans())


def agent_of(talk: Talk, client: AsyncOpenAI, *capabilities: object) -> Any:  # noqa: ANN401
    provider = OpenAIProvider(openai_client=client)
    tools = [Tool(talk.tool(each), takes_ctx=False) for each in (fib4_score, book_visit, look_up)]
    model = OpenAIChatModel("small", provider=provider)
    return Agent(model, tools=tools, capabilities=list(capabilities))


def replies_of(talk: Talk, kept: list[Any], *capabilities: Any) -> list[str]:  # noqa: ANN401
    """The talk with a client of its own, which is closed with it."""

    async def held() -> list[str]:
        async with AsyncOpenAI(base_url=talk.url, api_key="none", max_retries=0) as client:
            agent = agent_of(talk, client, *capabilities)
            guards = [each for each in capabilities if isinstance(each, RootGuardCapability)]
            return await replies_from(guards[0].bind(agent) if guards else agent, kept)

    return asyncio.run(held())


async def replies_from(agent: Any, kept: list[Any]) -> list[str]:  # noqa: ANN401
    """The talk; the history is kept as the framework serializes it, and read again each turn."""

    async def ask(text: str, streamed: bool) -> str:
        history = ModelMessagesTypeAdapter.validate_json(kept[-1]) if kept else []
        if streamed:
            reply = ""
            async with agent.run_stream(text, message_history=history) as run:
                pieces = (
                    run.stream_text() if hasattr(run, "_guard") else run.stream_text(delta=True)
                )
                async for piece in pieces:
                    reply += piece
                kept.append(ModelMessagesTypeAdapter.dump_json(run.all_messages()))
            return reply
        result = await agent.run(text, message_history=history)
        kept.append(result.all_messages_json())
        return str(result.output)

    return await ahold(ask)


def test_ten_turns_leave_nothing_private_in_service_history_and_spans(
    talk: Talk, tmp_path: Path
) -> None:
    guard = RootGuardCapability(profile_in(tmp_path), service="assistant", store=MemoryStore())
    spans, kept = Spans(), list[Any]()
    replies = replies_of(talk, kept, guard, spans.capability)
    assert "gen_ai" in spans.text()
    assert "book_visit" in spans.text()
    check_kept(talk, replies, spans.text(), *kept)


def test_without_the_guard_everything_is_everywhere(talk: Talk) -> None:
    spans, kept = Spans(), list[Any]()
    replies_of(talk, kept, spans.capability)
    for place in (talk.service.everything, spans.text(), kept[-1]):
        assert leaks(place) >= UNGUARDED


def test_an_error_of_a_tool_tells_nobody_what_the_tool_was_given(
    talk: Talk, tmp_path: Path
) -> None:
    guard = RootGuardCapability(profile_in(tmp_path), service="assistant", store=MemoryStore())
    name = guard.guard.hear("I'm Jane Roe.").removeprefix("I'm ").rstrip(".")
    toolset = guard.get_wrapper_toolset(FunctionToolset([Tool(failing, name="book_visit")]))

    async def call() -> None:
        model = TestModel(custom_output_text="done", call_tools=[])
        context = RunContext(deps=None, model=model, usage=RunUsage())
        tools = await toolset.get_tools(context)
        await toolset.call_tool("book_visit", {"patient": name}, context, tools["book_visit"])

    with pytest.raises(ToolFailedError, match="ValueError: no room for") as problem:
        asyncio.run(call())
    assert leaks(problem.value) == set()
    assert problem.value.__cause__ is None


def failing(patient: str) -> str:
    """Book a visit."""
    raise ValueError(f"no room for {patient}")


def calls(tool: str, **given: str) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart(tool, given, tool_call_id=f"call_{tool}")])


def says(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


class Script:
    """A model that answers from a list, with a guard and the owner's token."""

    def __init__(self, folder: Path) -> None:
        profile = profile_in(folder)
        self.guard = RootGuardCapability(profile, service="assistant", store=MemoryStore())
        self.name = self.guard.guard.hear("I'm Jane Roe.").removeprefix("I'm ").rstrip(".")
        self.given: list[str] = []
        self.spans = Spans()

    def agent(self, tools: list[Any], *answers: ModelResponse, **more: Any) -> Any:  # noqa: ANN401
        rest = iter(answers)

        def answer(messages: Any, _info: object) -> ModelResponse:  # noqa: ANN401
            self.given.append(repr(messages))
            return next(rest)

        guards = [self.guard, self.spans.capability]
        return self.guard.bind(
            Agent(FunctionModel(answer), tools=tools, capabilities=guards, **more)
        )

    def check(self, *histories: bytes) -> None:
        assert leaks(*self.given, self.spans.text(), *histories) == set()


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path)


def test_calls_that_fail_or_ask_again_side_by_side_are_guarded_each(script: Script) -> None:
    given: dict[str, str] = {}

    def book_visit(patient: str) -> str:
        given["book_visit"] = patient
        raise ToolFailed(f"no room for {patient}")

    def look_up(patient: str) -> str:
        given["look_up"] = patient
        raise ModelRetry(f"which {patient}?")

    parts = [calls(each, patient=script.name).parts[0] for each in ("book_visit", "look_up")]
    both = ModelResponse(parts=parts)
    agent = script.agent([book_visit, look_up], both, says("Sorry."))
    result = asyncio.run(agent.run("I'm Jane Roe."))
    assert given == {"book_visit": "Jane Roe", "look_up": script.name}
    assert f"no room for {script.name}" in script.given[-1]
    assert f"which {script.name}?" in script.given[-1]
    script.check(result.all_messages_json())


def test_an_approval_shows_names_and_what_it_changes_is_guarded(script: Script) -> None:
    given: list[str] = []

    def book_visit(ctx: RunContext[None], patient: str) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"for": patient})
        given.append(patient)
        return f"Booked for {patient}."

    call = calls("book_visit", patient=script.name)
    kinds = [str, DeferredToolRequests]
    agent = script.agent([book_visit], call, says(f"Done, {script.name}."), output_type=kinds)
    waiting = asyncio.run(agent.run(["I'm Jane Roe.", "AST 61.375 U/L."]))
    assert waiting.output.approvals[0].args == {"patient": "Jane Roe"}
    assert waiting.output.metadata == {"call_book_visit": {"for": "Jane Roe"}}
    script.check(waiting.all_messages_json())
    approved = ToolApproved(override_args={"patient": "Jane Roe"})
    decided = DeferredToolResults(approvals={"call_book_visit": approved})
    history = waiting.all_messages()
    result = asyncio.run(agent.run(message_history=history, deferred_tool_results=decided))
    assert given == ["Jane Roe"]
    assert result.output == "Done, Jane Roe."
    script.check(result.all_messages_json())


def test_results_that_the_owner_brings_are_guarded(script: Script) -> None:
    def look_up(patient: str) -> str:
        raise CallDeferred

    kinds = [str, DeferredToolRequests]
    call = calls("look_up", patient=script.name)
    agent = script.agent([look_up], call, says("Thanks."), output_type=kinds)
    waiting = asyncio.run(agent.run("I'm Jane Roe."))
    brought = DeferredToolResults(calls={"call_look_up": "Jane Roe has an AST of 61.375 U/L."})
    history = waiting.all_messages()
    result = asyncio.run(agent.run(message_history=history, deferred_tool_results=brought))
    script.check(result.all_messages_json())
