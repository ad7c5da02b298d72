"""The Claude Agent SDK's own client, hooks, MCP servers and session store, over its transport.

The program that the SDK drives is a stand-in; it asks a service on loopback for every reply.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk", reason="`make integrations` installs the SDK")

from claude_agent_sdk import (
    AgentDefinition,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    InMemorySessionStore,
    ResultMessage,
    create_sdk_mcp_server,
    tool,
)

from rootguard.integrations.agent import ToolRefusedError
from rootguard.integrations.claude_agent_sdk import RootGuardClaude
from rootguard.store import MemoryStore
from tests.support.agent_program import Program
from tests.support.agent_talk import (
    SCHEMAS,
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

# The SDK and what it brings warn of their own deprecations.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def talk() -> Iterator[Talk]:
    with talking() as made:
        yield made


def own(talk: Talk, function: Callable[..., Any]) -> Any:  # noqa: ANN401
    """A function as a tool of the SDK's, in this process."""
    name, noted = function.__name__, talk.tool(function)

    async def handler(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": str(noted(**given))}]}

    return tool(name, function.__doc__ or "", SCHEMAS[name])(handler)


def tools_of(talk: Talk) -> list[Any]:
    return [own(talk, each) for each in (fib4_score, book_visit, look_up)]


def guard_in(folder: Path) -> RootGuardClaude:
    return RootGuardClaude(profile_in(folder), service="assistant", store=MemoryStore())


def options(folder: Path, server: object, store: InMemorySessionStore) -> ClaudeAgentOptions:
    return ClaudeAgentOptions(
        mcp_servers={"clinic": server},
        include_partial_messages=True,
        session_store=store,
        env={"CLAUDE_CONFIG_DIR": str(folder)},
    )


def test_ten_turns_leave_nothing_private_in_service_program_and_session_store(
    talk: Talk, tmp_path: Path
) -> None:
    guard, store = guard_in(tmp_path), InMemorySessionStore()

    async def held() -> tuple[list[str], Program]:
        program = Program(talk.url, tmp_path)
        asked = options(tmp_path, guard.server("clinic", tools_of(talk)), store)
        async with guard.client(asked, transport=program) as client:

            async def ask(text: str, streamed: bool) -> str:
                if streamed:
                    return "".join([each async for each in client.stream(text)])
                return await client.run(text)

            return await ahold(ask), program

    replies, program = asyncio.run(held())
    assert "book_visit" in repr(vars(store))
    check_kept(talk, replies, *program.received, repr(vars(store)))


def test_without_the_guard_everything_is_everywhere(talk: Talk, tmp_path: Path) -> None:
    store = InMemorySessionStore()

    async def held() -> Program:
        program = Program(talk.url, tmp_path)
        server = create_sdk_mcp_server("clinic", tools=tools_of(talk))
        asked = options(tmp_path, server, store)
        async with ClaudeSDKClient(asked, program) as client:

            async def ask(text: str, _streamed: bool) -> str:
                await client.query(text)
                messages = [each async for each in client.receive_response()]
                (result,) = [each for each in messages if isinstance(each, ResultMessage)]
                return result.result or ""

            await ahold(ask)
        return program

    program = asyncio.run(held())
    for place in (talk.service.everything, program.received, vars(store)):
        assert leaks(place) >= UNGUARDED


def test_hooks_guard_the_tools_that_the_program_runs_itself(talk: Talk, tmp_path: Path) -> None:
    guard = guard_in(tmp_path)
    name = guard.guard.hear("I'm Jane Roe.").removeprefix("I'm ").rstrip(".")
    given: list[str] = []

    def look_up(patient: str) -> dict[str, Any]:
        given.append(patient)
        return {"stdout": f"{patient} is Jane Roe", "interrupted": False}

    async def asked() -> Program:
        program = Program(talk.url, tmp_path, outside={"look_up": look_up})
        talk.service.arguments = lambda _: json.dumps({"patient": name})

        def says(heard: str) -> str:
            talk.service.calls = None if "stdout" in heard else "look_up"
            return heard

        talk.service.says = says
        async with guard.client(ClaudeAgentOptions(), transport=program) as client:
            await client.run("Look me up.")
        return program

    program = asyncio.run(asked())
    assert given == [name]
    assert program.results == [{"stdout": f"{name} is {name}", "interrupted": False}]
    assert leaks(*program.received, talk.service.everything) == set()


def called(name: str, **more: object) -> dict[str, object]:
    return {"tool_name": name, "tool_input": {"patient": "Jane Roe"}, **more}


def test_a_tool_outside_the_policy_and_what_cannot_be_changed_end_there(tmp_path: Path) -> None:
    guard = guard_in(tmp_path)
    denied = asyncio.run(guard.before_tool(called("Bash"), None, None))["hookSpecificOutput"]
    assert denied["permissionDecision"] == "deny"
    assert leaks(denied) == set()
    # A tool that may have identifiers still gets tokens: they would pass through the program.
    asked = asyncio.run(guard.before_tool(called("book_visit"), None, None))["hookSpecificOutput"]
    assert asked["permissionDecision"] == "ask"
    assert leaks(asked) == set()
    fine = asyncio.run(guard.after_failure(called("look_up", error="no such file"), None, None))
    assert fine == {}
    assert not guard.stopped
    failure = called("look_up", error="no file of Jane Roe")
    stopped = asyncio.run(guard.after_failure(failure, None, None))
    assert stopped["continue_"] is False
    assert guard.stopped
    client = guard.client(ClaudeAgentOptions(), transport=Program("http://127.0.0.1:1", tmp_path))
    with pytest.raises(ToolRefusedError, match="Begin a new one"):
        asyncio.run(client.run("Who am I?"))


def test_prompts_of_the_options_are_guarded(tmp_path: Path) -> None:
    guard = guard_in(tmp_path)
    about = "The patient is Jane Roe, record MRN-4415-8820."
    helper = AgentDefinition(description=about, prompt=about)
    made = guard.options(ClaudeAgentOptions(system_prompt=about, agents={"helper": helper}))
    assert leaks(made.system_prompt, made.agents) == set()
    preset = {"type": "preset", "preset": "claude_code", "append": about}
    assert leaks(guard.options(ClaudeAgentOptions(system_prompt=preset)).system_prompt) == set()


def test_an_error_of_a_tool_tells_nobody_what_the_tool_was_given(tmp_path: Path) -> None:
    guard = guard_in(tmp_path)
    name = guard.guard.hear("I'm Jane Roe.").removeprefix("I'm ").rstrip(".")

    async def failing(given: dict[str, Any]) -> dict[str, Any]:
        raise ValueError(f"no room for {given['patient']}")

    made = guard._tool(tool("book_visit", "Book a visit.", {"patient": str})(failing))
    result = asyncio.run(made.handler({"patient": name}))
    assert result["is_error"]
    assert f"no room for {name}" in result["content"][0]["text"]
    assert leaks(result) == set()
