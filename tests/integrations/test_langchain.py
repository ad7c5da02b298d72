"""LangChain's own agent, checkpointer and tracer around a service on loopback."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain", reason="`make extras` installs the agent frameworks")
pytest.importorskip("langchain_openai", reason="`make extras` installs the agent frameworks")

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import StructuredTool
from langchain_core.tracers.base import BaseTracer
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from rootguard.integrations.langchain import RootGuardMiddleware, guard_tool
from rootguard.store import MemoryStore
from tests.support.agent_talk import (
    TURNS,
    UNGUARDED,
    Talk,
    ahold,
    book_visit,
    check_kept,
    fib4_score,
    hold,
    leaks,
    look_up,
    profile_in,
    talking,
)

CONFIG = {"configurable": {"thread_id": "t1"}}


class Traces(BaseTracer):  # type: ignore[misc]
    """Keeps every run as the framework's tracers get it."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[str] = []

    def _persist_run(self, run: Any) -> None:  # noqa: ANN401
        self.kept.append(repr(run.model_dump()))


MODELS: list[Any] = []


@pytest.fixture
def talk() -> Iterator[Talk]:
    with talking() as made:
        yield made
    while MODELS:
        MODELS.pop().root_client.close()


def agent_of(talk: Talk, *middleware: object, saver: object = None) -> Any:  # noqa: ANN401
    model = ChatOpenAI(model="small", base_url=talk.url, api_key="none", max_retries=0)
    MODELS.append(model)
    tools = [
        StructuredTool.from_function(talk.tool(each), name=each.__name__, description=each.__doc__)
        for each in (fib4_score, book_visit, look_up)
    ]
    return create_agent(model, tools, middleware=middleware, checkpointer=saver)


def guard_in(folder: Path) -> RootGuardMiddleware:
    return RootGuardMiddleware(profile_in(folder), service="assistant", store=MemoryStore())


def saved(saver: InMemorySaver) -> str:
    """All that a checkpointer holds, as it serialized it."""
    return repr((saver.storage, saver.writes, saver.blobs))


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def asking(agent: Any, config: dict[str, Any]) -> Callable[[str, bool], str]:  # noqa: ANN401
    def ask(text: str, streamed: bool) -> str:
        if not streamed:
            return str(agent.invoke(said(text), config)["messages"][-1].content)
        pieces = agent.stream(said(text), config, stream_mode="messages")
        return "".join(chunk.content for chunk, _ in pieces if chunk.type == "AIMessageChunk")

    return ask


def test_ten_turns_leave_nothing_private_in_service_checkpoints_and_traces(
    talk: Talk, tmp_path: Path
) -> None:
    saver, traces, guard = InMemorySaver(), Traces(), guard_in(tmp_path)
    agent = guard.bind(agent_of(talk, guard, saver=saver))
    replies = hold(asking(agent, {**CONFIG, "callbacks": [traces]}))
    assert len(traces.kept) >= 10
    check_kept(talk, replies, saved(saver), *traces.kept)


def test_without_the_guard_everything_is_everywhere(talk: Talk) -> None:
    saver, traces = InMemorySaver(), Traces()
    hold(asking(agent_of(talk, saver=saver), {**CONFIG, "callbacks": [traces]}))
    assert leaks(talk.service.everything) >= UNGUARDED
    assert leaks(saved(saver)) >= UNGUARDED
    assert leaks(*traces.kept) >= UNGUARDED


def test_the_asynchronous_agent_is_guarded_alike(talk: Talk, tmp_path: Path) -> None:
    saver, traces, guard = InMemorySaver(), Traces(), guard_in(tmp_path)
    agent = guard.bind(agent_of(talk, guard, saver=saver))
    config = {**CONFIG, "callbacks": [traces]}

    async def ask(text: str, streamed: bool) -> str:
        if not streamed:
            return str((await agent.ainvoke(said(text), config))["messages"][-1].content)
        reply = ""
        async for mode, part in agent.astream(
            said(text), config, stream_mode=["messages", "values"]
        ):
            if mode == "messages" and part[0].type == "AIMessageChunk":
                reply += part[0].content
        return reply

    async def held() -> list[str]:
        try:
            return await ahold(ask)
        finally:
            await MODELS[-1].root_async_client.close()

    check_kept(talk, asyncio.run(held()), saved(saver), *traces.kept)


def test_the_middleware_alone_keeps_the_service_and_later_states_clean(
    talk: Talk, tmp_path: Path
) -> None:
    agent = agent_of(talk, guard_in(tmp_path))
    made = agent.invoke(said("Hi, I'm Jane Roe, my record number is MRN-4415-8820."))
    assert leaks(talk.service.everything, made["messages"]) == set()


def test_a_person_in_the_loop_reads_names_and_their_words_are_guarded(
    talk: Talk, tmp_path: Path
) -> None:
    saver, guard = InMemorySaver(), guard_in(tmp_path)
    review = HumanInTheLoopMiddleware(interrupt_on={"book_visit": True})
    agent = guard.bind(agent_of(talk, guard, review, saver=saver))
    ask = asking(agent, CONFIG)
    for text in TURNS[:5]:
        ask(text, False)
    paused = agent.invoke(said(TURNS[5]), CONFIG)
    asked = paused["__interrupt__"][0].value["action_requests"][0]
    assert asked["args"] == {"patient": "Jane Roe", "day": "Monday"}
    changed = {"name": "book_visit", "args": {"patient": "Jane Roe", "day": "Tuesday"}}
    decision = {"type": "edit", "edited_action": changed}
    made = agent.invoke(Command(resume={"decisions": [decision]}), CONFIG)
    assert talk.called["book_visit"] == [{"patient": "Jane Roe", "day": "Tuesday"}]
    assert "Jane Roe" in made["messages"][-1].content
    assert leaks(talk.service.everything, saved(saver)) == set()


def test_a_tool_outside_the_policy_is_not_called(talk: Talk, tmp_path: Path) -> None:
    guard = guard_in(tmp_path)
    called = []

    def send_home(patient: str) -> str:
        """Send a letter."""
        called.append(patient)
        return patient

    tool = guard_tool(StructuredTool.from_function(send_home), guard.guard)
    assert "the policy does not allow this" in tool.invoke({"patient": "x"})
    assert called == []


def test_an_error_of_a_tool_tells_nobody_what_the_tool_was_given(
    talk: Talk, tmp_path: Path
) -> None:
    guard = guard_in(tmp_path)
    heard = guard.guard.hear("I'm Jane Roe.")
    name = heard.removeprefix("I'm ").rstrip(".")

    def book_visit(patient: str) -> str:
        """Book a visit."""
        raise ValueError(f"no room for {patient}")

    tool = guard_tool(StructuredTool.from_function(book_visit), guard.guard)
    traces = Traces()
    said = tool.invoke({"patient": name}, {"callbacks": [traces]})
    assert "ValueError: no room for" in said
    assert name in said
    assert leaks(said, *traces.kept) == set()
