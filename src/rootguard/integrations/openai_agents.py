"""OpenAI's Agents SDK: a model, function tools and MCP servers behind the guard.

    guard = RootGuardAgents("me.toml", service="assistant")
    agent = guard.agent(Agent(name="Clinic", model=model, tools=[...], mcp_servers=[...]))
    result = await guard.run(agent, "I am Jane Roe. What is my FIB-4?", session=session)
    print(result.final_output)

`agent` puts the guard around the model, each function tool and each MCP server, those of the agents
that it hands over to included. `run` changes the owner's words before the runner has them, so that
sessions and traces hold no raw value, and restores the reply.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents import Agent, Runner, RunState
from agents.mcp import MCPServer
from agents.models.interface import Model
from agents.tool import FunctionTool
from mcp.types import CallToolResult

from rootguard.channels.faults import RequestRefusedError
from rootguard.channels.gateway.openai import RESPONSES
from rootguard.channels.gateway.shapes import OutgoingRequest
from rootguard.integrations.agent import AgentGuard, GuardedFront, ToolFailedError


def guarded_items(out: OutgoingRequest, told: str | None, items: object) -> tuple[Any, Any]:
    """Instructions and input items, as the gateway would let them through to the responses API."""
    asked = {"model": "any", "input": items}
    made = RESPONSES(out, asked if told is None else {**asked, "instructions": told})
    assert isinstance(made, dict)  # noqa: S101 - a record is made of a record
    return made.get("instructions"), made["input"]


class RootGuardAgents(GuardedFront):
    """The guard of one person's agents."""

    def agent(self, agent: Any) -> Any:
        """A copy of an agent whose model, tools and MCP servers are guarded."""
        if not isinstance(agent, Agent):
            raise RequestRefusedError("unknown_kind")  # a handoff of one's own hides its agent
        if not isinstance(agent.model, Model):
            raise TypeError("give the agent a Model object; a name alone cannot be guarded")
        if any(not isinstance(each, FunctionTool) for each in agent.tools):
            raise TypeError("a tool that runs at the service cannot be guarded; take it out")
        return agent.clone(
            model=GuardedModel(agent.model, self.guard),
            tools=[self.tool(each) for each in agent.tools],
            mcp_servers=[GuardedMCPServer(each, self.guard) for each in agent.mcp_servers],
            handoffs=[self.agent(each) for each in agent.handoffs],
        )

    def tool(self, tool: Any) -> Any:
        """A function tool that is called with what it may have."""
        inner = tool.on_invoke_tool
        asked = {"description": tool.description, "schema": tool.params_json_schema}

        async def invoke(context: Any, arguments: str) -> Any:
            async def call(made: dict[str, Any]) -> Any:
                return await inner(context, json.dumps(made))

            given = json.loads(arguments or "{}")
            return (await self.guard.called(tool.name, given, call, **asked)).said

        return replace(tool, on_invoke_tool=invoke)

    async def run(self, agent: Any, text: Any, *, session: Any = None, **kwargs: Any) -> Any:
        """As `Runner.run`, with `final_output` restored. `result` is the SDK's own, and clean.

        In place of words you can give the `RunState` of a run that waited for an approval.
        """
        said = await self._said(text, session)
        result = await Runner.run(agent, said, session=session, **kwargs)
        return GuardedRun(final_output=self.guard.show_value(result.final_output), result=result)

    async def stream(
        self, agent: Any, text: Any, *, session: Any = None, **kwargs: Any
    ) -> AsyncIterator[str]:
        """As `Runner.run_streamed`, for the text of the replies, piece by piece."""
        said = await self._said(text, session)
        run = Runner.run_streamed(agent, said, session=session, **kwargs)
        restorer = self.guard.showing()
        async for event in run.stream_events():
            if event.type != "raw_response_event":
                continue
            if event.data.type == "response.output_text.delta":
                yield restorer.feed(event.data.delta)
            elif event.data.type == "response.completed":
                yield restorer.close()
                restorer = self.guard.showing()
        yield restorer.close()

    async def _said(self, text: Any, session: Any) -> Any:
        if isinstance(text, RunState):
            return text  # made of what the runner had
        earlier: Sequence[Any] = [] if session is None else await session.get_items()

        def before(out: OutgoingRequest) -> None:
            guarded_items(out, None, list(earlier))

        return await asyncio.to_thread(self.guard.hear, text, before=before)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class GuardedRun:
    """What a run came to: the reply as its owner reads it, and the SDK's own result."""

    final_output: Any
    result: Any


class GuardedModel(Model):  # type: ignore[misc]
    """A model that is sent what may leave."""

    def __init__(self, inner: Model, guard: AgentGuard) -> None:
        self._inner, self._guard = inner, guard

    async def close(self) -> None:
        await self._inner.close()

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        told, items = await asyncio.to_thread(self._sent, system_instructions, input)
        return await self._inner.get_response(told, items, *args, **kwargs)

    async def stream_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002
        *args: Any,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        told, items = await asyncio.to_thread(self._sent, system_instructions, input)
        async for event in self._inner.stream_response(told, items, *args, **kwargs):
            yield event

    def _sent(self, told: str | None, items: object) -> tuple[Any, Any]:
        return self._guard.rewrite(lambda out: guarded_items(out, told, items))


class GuardedMCPServer(MCPServer):  # type: ignore[misc]
    """An MCP server each of whose tools is a service of the policy."""

    def __init__(self, inner: MCPServer, guard: AgentGuard) -> None:
        super().__init__(use_structured_content=inner.use_structured_content)
        self._inner, self._guard = inner, guard
        self._tools: dict[str, Any] = {}

    @property
    def name(self) -> str:
        return str(self._inner.name)

    async def connect(self) -> None:
        await self._inner.connect()

    async def cleanup(self) -> None:
        await self._inner.cleanup()

    async def list_tools(self, *args: Any, **kwargs: Any) -> Any:
        listed = await self._inner.list_tools(*args, **kwargs)
        self._tools = {each.name: each for each in listed}
        return listed

    async def call_tool(self, tool_name: str, arguments: Any, *args: Any, **kwargs: Any) -> Any:
        tool = self._tools.get(tool_name)
        asked = {"schema": tool.input_schema, "description": tool.description or ""} if tool else {}

        async def call(made: dict[str, Any]) -> Any:
            result = await self._inner.call_tool(tool_name, made, *args, **kwargs)
            told = result.model_dump(mode="json", by_alias=True, exclude_none=True)
            if any(block.get("type") != "text" for block in told.get("content", ())):
                raise ToolFailedError("the result is no text, and cannot be read")
            said = {"texts": [block["text"] for block in told.get("content", ())]}
            beside = told.get("structuredContent")
            return said if beside is None else {**said, "structured": beside}

        outcome = await self._guard.called(tool_name, dict(arguments or {}), call, **asked)
        if outcome.failed:
            raise ToolFailedError(outcome.said)
        content = [{"type": "text", "text": each} for each in outcome.said["texts"]]
        return CallToolResult.model_validate(
            {"content": content, "structuredContent": outcome.said.get("structured")}
        )

    async def list_prompts(self) -> Any:
        return await self._inner.list_prompts()

    async def get_prompt(self, name: str, arguments: Any = None) -> Any:  # noqa: ARG002
        raise RequestRefusedError("unknown_kind")
