"""LangChain as its own documentation uses it: interrupts, process-wide tracers, parallel calls."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain", reason="`make extras` installs the agent frameworks")

from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import ToolException, tool
from langchain_core.tracers.context import collect_runs
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from rootguard.channels.faults import RequestRefusedError
from rootguard.integrations.langchain import RootGuardMiddleware
from rootguard.store import MemoryStore
from tests.support.agent_talk import leaks, profile_in

CONFIG = {"configurable": {"thread_id": "t1"}}
SAID = {"messages": [{"role": "user", "content": "I'm Jane Roe."}]}


class Model(GenericFakeChatModel):  # type: ignore[misc]
    """Says what it was given to say, with or without tools."""

    def bind_tools(self, _tools: Any, **_kwargs: Any) -> Any:  # noqa: ANN401
        return self


def calls(**arguments: dict[str, Any]) -> AIMessage:
    """Calls of one turn, by tool."""
    made = [
        {"name": name, "args": given, "id": f"call_{name}", "type": "tool_call"}
        for name, given in arguments.items()
    ]
    return AIMessage("", tool_calls=made)


def saved(saver: InMemorySaver) -> str:
    return repr((saver.storage, saver.writes, saver.blobs))


def runs_in(runs: Any) -> Iterator[Any]:  # noqa: ANN401
    for run in runs:
        yield run
        yield from runs_in(run.child_runs)


class Held:
    """A guard, the owner's token, and an agent whose model says what a test gives it."""

    def __init__(self, folder: Path) -> None:
        profile = profile_in(folder)
        self.guard = RootGuardMiddleware(profile, service="assistant", store=MemoryStore())
        heard = self.guard.guard.hear("I'm Jane Roe.", thread="t1")
        self.name = heard.removeprefix("I'm ").rstrip(".")
        self.saver = InMemorySaver()

    def agent(self, tools: list[Any], *says: AIMessage, **more: Any) -> Any:  # noqa: ANN401
        model = Model(messages=iter(says))
        made = create_agent(model, tools, middleware=[self.guard], checkpointer=self.saver, **more)
        return self.guard.bind(made)


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(tmp_path)


def test_what_a_tool_asks_a_person_is_not_in_the_checkpoint(held: Held) -> None:
    given: list[str] = []

    @tool  # type: ignore[untyped-decorator]
    def book_visit(patient: str) -> str:
        """Book a visit."""
        answer = interrupt({"ask": f"Book for {patient}?"})
        given.append(patient)
        return f"{patient}: {answer}"

    call = calls(book_visit={"patient": held.name})
    agent = held.agent([book_visit], call, AIMessage(f"Done, {held.name}."))
    asked = agent.invoke(SAID, CONFIG)["__interrupt__"][0].value
    assert asked == {"ask": "Book for Jane Roe?"}
    assert leaks(saved(held.saver)) == set()
    made = agent.invoke(Command(resume="Yes, for Jane Roe."), CONFIG)
    assert given == ["Jane Roe"]
    assert made["messages"][-1].content == "Done, Jane Roe."
    assert leaks(saved(held.saver)) == set()


def test_tracers_of_the_whole_process_do_not_see_a_tools_own_call(held: Held) -> None:
    @tool  # type: ignore[untyped-decorator]
    def book_visit(patient: str) -> str:
        """Book a visit."""
        return f"Booked for {patient}."

    @tool  # type: ignore[untyped-decorator]
    def look_up(patient: str, config: RunnableConfig) -> str:
        """Search."""
        return f"{config['configurable']['thread_id']}: no {patient}"

    both = calls(book_visit={"patient": held.name}, look_up={"patient": held.name})
    agent = held.agent([book_visit, look_up], both, AIMessage("Done."))
    with collect_runs() as runs:
        made = agent.invoke(SAID, CONFIG)
    found = [(each.name, each.inputs, each.outputs) for each in runs_in(runs.traced_runs)]
    assert [each[0] for each in found].count("book_visit") == 1
    assert leaks(found) == set()
    said = {each.name: each.content for each in made["messages"] if each.type == "tool"}
    assert said == {"book_visit": "Booked for Jane Roe.", "look_up": "t1: no Jane Roe"}


def test_parallel_calls_of_which_one_fails_are_guarded_each(held: Held) -> None:
    given: dict[str, str] = {}

    def handled(problem: ToolException) -> str:
        return f"handled: {problem}"

    @tool(response_format="content_and_artifact")  # type: ignore[untyped-decorator]
    async def look_up(patient: str) -> tuple[str, object]:
        """Search."""
        given["look_up"] = patient
        return f"no {patient}", {"seen": patient}

    @tool  # type: ignore[untyped-decorator]
    async def book_visit(patient: str) -> str:
        """Book a visit."""
        given["book_visit"] = patient
        raise ToolException(f"no room for {patient}")

    book_visit.handle_tool_error = handled
    both = calls(look_up={"patient": held.name}, book_visit={"patient": held.name})
    agent = held.agent([look_up, book_visit], both, AIMessage("Sorry."))

    async def parts() -> list[Any]:
        asked = {"stream_mode": ["updates", "values"], "subgraphs": True}
        return [part async for part in agent.astream(SAID, CONFIG, **asked)]

    last = asyncio.run(parts())[-1]
    assert given == {"look_up": held.name, "book_visit": "Jane Roe"}
    assert last[:2] == ((), "values")
    said = {each.name: each for each in last[2]["messages"] if each.type == "tool"}
    assert said["book_visit"].content == "handled: no room for Jane Roe"
    assert said["book_visit"].status == "error"
    assert said["look_up"].artifact is None
    assert leaks(saved(held.saver)) == set()


class Card(BaseModel):
    """What an agent is asked for as structured output."""

    patient: str
    visits: int


def test_structured_output_is_restored(held: Held) -> None:
    call = calls(Card={"patient": held.name, "visits": 2})
    agent = held.agent([], call, response_format=ToolStrategy(Card))
    made = agent.invoke(SAID, CONFIG)
    assert made["structured_response"] == Card(patient="Jane Roe", visits=2)
    assert leaks(saved(held.saver)) == set()


def test_what_cannot_be_guarded_or_restored_is_refused(held: Held) -> None:
    agent = held.agent([], AIMessage("Hi."))
    with pytest.raises(RequestRefusedError):
        agent.invoke(Command(update={"notes": "Jane Roe"}), CONFIG)
    with pytest.raises(TypeError, match="leave out `version`"):
        list(agent.stream(SAID, CONFIG, version="v2"))
    assert leaks(saved(held.saver)) == set()
