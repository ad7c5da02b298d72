"""The Agents SDK's own runner, session and traces around a service on loopback."""

import asyncio
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
from agents.mcp import MCPServer
from agents.tracing import TracingProcessor
from mcp.types import CallToolResult, TextContent
from mcp.types import Tool as MCPTool
from openai import AsyncOpenAI

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
