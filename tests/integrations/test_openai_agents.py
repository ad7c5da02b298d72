"""The Agents SDK's own runner, session and traces around a service on loopback."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents", reason="`make extras` installs the agent frameworks")

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    SQLiteSession,
    function_tool,
    set_trace_processors,
)
from agents.items import ModelResponse
from agents.mcp import MCPServer
from agents.models.interface import Model
from agents.tracing import TracingProcessor
from agents.usage import Usage
from mcp.types import CallToolResult, TextContent
from mcp.types import Tool as MCPTool
from openai import AsyncOpenAI
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from pydantic import BaseModel

from rootguard.integrations.agent import ToolFailedError
from rootguard.integrations.openai_agents import GuardedMCPServer, RootGuardAgents
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


class Traces(TracingProcessor):  # type: ignore[misc]
    """Keeps every span as the SDK would send it to its own dashboard."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    def on_trace_start(self, trace: Any) -> None:  # noqa: ANN401
        pass

    def on_trace_end(self, trace: Any) -> None:  # noqa: ANN401
        self.kept.append(repr(trace.export()))

    def on_span_start(self, span: Any) -> None:  # noqa: ANN401
        pass

    def on_span_end(self, span: Any) -> None:  # noqa: ANN401
        self.kept.append(repr(span.export()))

    def shutdown(self) -> None:
        pass

    def force_flush(self) -> None:
        pass


@pytest.fixture
def talk() -> Iterator[Talk]:
    with talking() as made:
        yield made


@pytest.fixture
def traces() -> Iterator[Traces]:
    made = Traces()
    set_trace_processors([made])
    yield made
    set_trace_processors([])


class Clinic(MCPServer):  # type: ignore[misc]
    """An MCP server in this process, with one tool."""

    def __init__(self, talk: Talk) -> None:
        super().__init__()
        self._book = talk.tool(book_visit)

    name = "clinic"

    async def connect(self) -> None:
        pass

    async def cleanup(self) -> None:
        pass

    async def list_tools(self, *_args: object) -> list[MCPTool]:
        text = {"type": "string"}
        schema = {"type": "object", "properties": {"patient": text, "day": text}}
        return [MCPTool(name="book_visit", description=book_visit.__doc__, input_schema=schema)]

    async def call_tool(self, _name: str, arguments: Any, *_args: object) -> Any:  # noqa: ANN401
        return CallToolResult(content=[TextContent(type="text", text=self._book(**arguments))])

    async def list_prompts(self) -> Any:  # noqa: ANN401
        raise NotImplementedError

    async def get_prompt(self, name: str, arguments: Any = None) -> Any:  # noqa: ANN401
        raise NotImplementedError


def replies_of(
    talk: Talk,
    session: Any,  # noqa: ANN401
    guard: RootGuardAgents | None,
    *,
    responses: bool = False,
) -> list[str]:
    async def held() -> list[str]:
        async with AsyncOpenAI(base_url=talk.url, api_key="none", max_retries=0) as client:
            made = OpenAIResponsesModel if responses else OpenAIChatCompletionsModel
            agent = Agent(
                name="Clinic",
                model=made("small", client),
                tools=[function_tool(talk.tool(each)) for each in (fib4_score, look_up)],
                mcp_servers=[Clinic(talk)],
            )
            guarded = agent if guard is None else guard.agent(agent)

            async def ask(text: str, streamed: bool) -> str:
                if guard is None:
                    run = await Runner.run(guarded, text, session=session)
                    return str(run.final_output)
                if not streamed:
                    return str((await guard.run(guarded, text, session=session)).final_output)
                return "".join(
                    [each async for each in guard.stream(guarded, text, session=session)]
                )

            return await ahold(ask)

    return asyncio.run(held())


@pytest.mark.parametrize("responses", [False, True])
def test_ten_turns_leave_nothing_private_in_service_session_and_traces(
    talk: Talk, traces: Traces, tmp_path: Path, responses: bool
) -> None:
    guard = RootGuardAgents(profile_in(tmp_path), service="assistant", store=MemoryStore())
    session = SQLiteSession("t1", tmp_path / "session.sqlite3")
    replies = replies_of(talk, session, guard, responses=responses)
    session.close()
    files = [path.read_bytes() for path in tmp_path.glob("session.sqlite3*")]
    assert any("function" in each for each in traces.kept)
    check_kept(talk, replies, *files, *traces.kept)


def test_without_the_guard_everything_is_everywhere(
    talk: Talk, traces: Traces, tmp_path: Path
) -> None:
    session = SQLiteSession("t1", tmp_path / "session.sqlite3")
    replies_of(talk, session, None)
    session.close()
    files = [path.read_bytes() for path in tmp_path.glob("session.sqlite3*")]
    assert leaks(talk.service.everything) >= UNGUARDED
    assert leaks(*files) >= UNGUARDED
    assert leaks(*traces.kept) >= UNGUARDED


def test_what_runs_at_the_service_cannot_be_guarded_and_is_refused(
    talk: Talk, tmp_path: Path
) -> None:
    guard = RootGuardAgents(profile_in(tmp_path), service="assistant", store=MemoryStore())
    with pytest.raises(TypeError, match="a name alone cannot be guarded"):
        guard.agent(Agent(name="Clinic", model="small"))
    server = GuardedMCPServer(Clinic(talk), guard.guard)
    assert asyncio.run(server.list_tools())[0].name == "book_visit"


class Script(Model):  # type: ignore[misc]
    """A model that answers from a list."""

    def __init__(self, *answers: Any) -> None:  # noqa: ANN401
        self._answers = iter(answers)
        self.given: list[str] = []

    async def get_response(self, *args: Any, **_kwargs: Any) -> Any:  # noqa: ANN401
        self.given.append(repr(args[:2]))
        return ModelResponse([next(self._answers)], Usage(), None)

    async def stream_response(self, *_args: Any, **_kwargs: Any) -> Any:  # noqa: ANN401
        raise NotImplementedError
        yield


def says(text: str) -> ResponseOutputMessage:
    part = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(
        id="m1", role="assistant", status="completed", type="message", content=[part]
    )


def calls(tool: str, **given: str) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        name=tool, arguments=json.dumps(given), call_id=f"call_{tool}", type="function_call"
    )


class Card(BaseModel):
    """What an agent is asked for as structured output."""

    patient: str


def guarded(folder: Path) -> tuple[RootGuardAgents, str]:
    guard = RootGuardAgents(profile_in(folder), service="assistant", store=MemoryStore())
    return guard, guard.guard.hear("I'm Jane Roe.").removeprefix("I'm ").rstrip(".")


def test_a_run_that_waits_for_an_approval_is_kept_clean_and_goes_on(
    traces: Traces, tmp_path: Path
) -> None:
    guard, name = guarded(tmp_path)
    given: list[str] = []

    @function_tool(needs_approval=True)  # type: ignore[untyped-decorator]
    def book_visit(patient: str) -> str:
        """Book a visit."""
        given.append(patient)
        raise ValueError(f"no room for {patient}")

    model = Script(calls("book_visit", patient=name), says(f"Sorry, {name}."))
    agent = guard.agent(Agent(name="Clinic", model=model, tools=[book_visit]))

    async def held() -> Any:  # noqa: ANN401
        waiting = (await guard.run(agent, "I'm Jane Roe. Book a visit.")).result
        state = waiting.to_state()
        assert leaks(state.to_string()) == set()
        state.approve(waiting.interruptions[0])
        return await guard.run(agent, state)

    assert asyncio.run(held()).final_output == "Sorry, Jane Roe."
    assert given == ["Jane Roe"]
    assert "error" in model.given[-1]
    assert leaks(model.given, *traces.kept) == set()


def test_structured_output_is_restored_after_a_handoff(traces: Traces, tmp_path: Path) -> None:
    guard, name = guarded(tmp_path)
    card = Script(says(json.dumps({"patient": name})))
    about = "You serve Jane Roe, whose AST is 61.375 U/L."
    desk = Agent(
        name="desk", model=card, output_type=Card, instructions=lambda _context, _agent: about
    )
    first = Script(calls("transfer_to_desk"))
    agent = guard.agent(Agent(name="Clinic", model=first, handoffs=[desk]))
    run = asyncio.run(guard.run(agent, "I'm Jane Roe, AST 61.375 U/L."))
    assert run.final_output == Card(patient="Jane Roe")
    assert leaks(first.given, card.given, *traces.kept) == set()


class Failing(Clinic):
    """An MCP server whose tool answers with numbers of its own, or fails."""

    async def call_tool(self, _name: str, arguments: Any, *_args: object) -> Any:  # noqa: ANN401
        if arguments["day"] == "never":
            raise RuntimeError(f"no room for {arguments['patient']}")
        text = TextContent(type="text", text=f"AST 61.375 U/L of {arguments['patient']}")
        return CallToolResult(content=[text], structured_content={"ast": 61.375})


def test_numbers_and_errors_of_an_mcp_server_are_guarded(talk: Talk, tmp_path: Path) -> None:
    guard, name = guarded(tmp_path)
    server = GuardedMCPServer(Failing(talk), guard.guard)
    given = {"patient": name, "day": "Monday"}
    made = asyncio.run(server.call_tool("book_visit", given))
    assert leaks(made) == set()
    assert set(made.structured_content) == {"ast"}
    with pytest.raises(ToolFailedError, match=f"no room for {name}") as problem:
        asyncio.run(server.call_tool("book_visit", {**given, "day": "never"}))
    assert leaks(problem.value) == set()
    assert problem.value.__context__ is None
