"""Pydantic AI: a capability for an `Agent`, a toolset, and the agent as its owner uses it.

    guard = RootGuardCapability("me.toml", service="assistant")
    agent = guard.bind(Agent(model, tools=[...], capabilities=[guard]))
    result = await agent.run("I am Jane Roe. What is my FIB-4?")
    again = await agent.run("And if I were older?", message_history=result.all_messages())

The capability guards each request to the model and each call of a tool. `bind` changes the prompt
before the agent has it, so that its message history and its spans hold no raw value: what
`all_messages()` gives can be kept anywhere.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    ModelRetry,
    RunCancelled,
    ToolFailed,
    UsageLimitExceeded,
)
from pydantic_ai.messages import ModelRequest
from pydantic_ai.tools import ToolApproved, ToolDenied
from pydantic_ai.toolsets import AbstractToolset, WrapperToolset
from pydantic_core import to_jsonable_python

from rootguard.channels.faults import RequestRefusedError
from rootguard.channels.gateway.shapes import OutgoingRequest
from rootguard.integrations.agent import AgentGuard, GuardedFront, Tell, ToolFailedError

_SILENT = frozenset(("tool-availability-delta", "compaction"))


class RootGuardCapability(GuardedFront, AbstractCapability[Any]):  # type: ignore[misc]
    """Guards an agent's model and tools; `bind` guards what goes in and comes out."""

    def bind(self, agent: Any) -> "GuardedPydanticAgent":
        """The agent as its owner uses it: raw words in, restored replies out."""
        return GuardedPydanticAgent(agent, self.guard)

    def get_ordering(self) -> Any:
        """Nearest to the tools: whatever traces their calls is around this."""
        return CapabilityOrdering(position="innermost")

    def get_wrapper_toolset(self, toolset: Any) -> Any:
        return GuardedToolset(toolset, self.guard)

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:  # noqa: ARG002
        """The request with every text as the model may have it; the history is not touched."""
        parameters = request_context.model_request_parameters
        told = parameters.instruction_parts or []

        def whole(out: OutgoingRequest) -> tuple[list[Any], list[Any]]:
            with out.speaking("developer"):
                instructions = [replace(each, content=out.text(each.content)) for each in told]
            return instructions, guarded_history(out, request_context.messages)

        instructions, messages = await asyncio.to_thread(self.guard.rewrite, whole)
        if told:
            parameters = replace(parameters, instruction_parts=instructions)
        return replace(request_context, messages=messages, model_request_parameters=parameters)


def guarded_history(out: OutgoingRequest, messages: Sequence[Any]) -> list[Any]:
    """Messages as the model may have them."""
    made = []
    for message in messages:
        changed: dict[str, Any] = {"parts": [_part(out, each) for each in message.parts]}
        if isinstance(message, ModelRequest) and message.instructions:
            with out.speaking("developer"):
                changed["instructions"] = out.text(message.instructions)
        made.append(replace(message, **changed))
    return made


def _part(out: OutgoingRequest, part: Any) -> Any:
    kind = part.part_kind
    if kind in _SILENT:
        return part
    if kind == "user-prompt":
        with out.speaking("owner"):
            if isinstance(part.content, str):
                return replace(part, content=out.text(part.content))
            return replace(part, content=[_said(out, each) for each in part.content])
    if kind in ("text", "thinking"):
        with out.speaking("model"):
            return replace(part, content=out.text(part.content))
    if kind == "system-prompt":
        with out.speaking("developer"):
            return replace(part, content=out.text(part.content))
    if kind == "tool-call":
        given = part.args_as_dict()
        with out.speaking("model"):
            made = out.arguments(part.tool_name, given)
        out.called(part.tool_call_id, part.tool_name, given)
        return replace(part, args=made)
    if kind in ("tool-return", "retry-prompt", "retry-feedback"):
        with out.result_of(call=getattr(part, "tool_call_id", None)):
            return replace(part, content=_result(out, part.content))
    raise RequestRefusedError("unknown_kind")  # a picture or a recording cannot be read


def _said(out: OutgoingRequest, part: object) -> str:
    if not isinstance(part, str):
        raise RequestRefusedError("unknown_kind")
    return out.text(part)


def _result(out: OutgoingRequest, content: Any) -> Any:
    return out.text(content) if isinstance(content, str) else out.json(to_jsonable_python(content))


class GuardedToolset(WrapperToolset[Any]):  # type: ignore[misc]
    """Tools that are called with what each may have, and whose results are fit for the model."""

    def __init__(self, wrapped: AbstractToolset, guard: AgentGuard) -> None:
        super().__init__(wrapped)
        self.guard = guard

    async def for_run(self, ctx: Any) -> Any:
        return GuardedToolset(await self.wrapped.for_run(ctx), self.guard)

    async def for_run_step(self, ctx: Any) -> Any:
        return GuardedToolset(await self.wrapped.for_run_step(ctx), self.guard)

    def visit_and_replace(self, visitor: Any) -> Any:
        return GuardedToolset(self.wrapped.visit_and_replace(visitor), self.guard)

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        given = to_jsonable_python(tool_args)
        asked = {
            "description": tool.tool_def.description or "",
            "schema": tool.tool_def.parameters_json_schema,
        }

        async def call(made: dict[str, Any]) -> Any:
            checked = tool.args_validator.validate_python(made)
            return to_jsonable_python(await self.wrapped.call_tool(name, checked, ctx, tool))

        outcome = await self.guard.called(name, given, call, **asked, passing=_passed)
        if outcome.failed and not outcome.refused:
            raise ToolFailedError(outcome.said)
        return outcome.said


def _passed(problem: Any, tell: Tell) -> Any:
    """How the framework goes on: another try, an approval, a call that somebody else makes."""
    if isinstance(problem, ModelRetry | ToolFailed):
        return type(problem)(tell(problem.message))
    if isinstance(problem, ApprovalRequired | CallDeferred):
        beside = problem.metadata
        return type(problem)(None if beside is None else tell(to_jsonable_python(beside)))
    return problem if isinstance(problem, RunCancelled | UsageLimitExceeded) else None


class GuardedPydanticAgent:
    """An agent as its owner uses it: their words in the clear, and replies restored."""

    def __init__(self, agent: Any, guard: AgentGuard) -> None:
        self.agent = agent
        self._guard = guard

    async def run(self, prompt: Any = None, **kwargs: Any) -> Any:
        """As the agent's own. The result's `output` is restored; its messages are not."""
        said, kept = await asyncio.to_thread(self._inward, prompt, kwargs)
        return self._shown(await self.agent.run(said, **kept))

    def run_sync(self, prompt: Any = None, **kwargs: Any) -> Any:
        """As `run`."""
        said, kept = self._inward(prompt, kwargs)
        return self._shown(self.agent.run_sync(said, **kept))

    @asynccontextmanager
    async def run_stream(
        self, prompt: Any = None, **kwargs: Any
    ) -> AsyncIterator["GuardedRunStream"]:
        """As the agent's own, for its text."""
        said, kept = await asyncio.to_thread(self._inward, prompt, kwargs)
        async with self.agent.run_stream(said, **kept) as run:
            yield GuardedRunStream(run, self._guard)

    def _inward(self, prompt: Any, given: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The owner's words, and what they say about calls that waited for them."""
        history = given.get("message_history") or ()
        waited = given.get("deferred_tool_results")

        def whole(out: OutgoingRequest) -> tuple[Any, Any]:
            guarded_history(out, history)
            with out.speaking("owner"):
                decided = None if waited is None else _decided(out, waited)
                if prompt is None or isinstance(prompt, str):
                    return (None if prompt is None else out.text(prompt)), decided
                return [_said(out, each) for each in prompt], decided

        said, decided = self._guard.rewrite(whole)
        return said, {**given, "deferred_tool_results": decided} if waited else dict(given)

    def _shown(self, result: Any) -> Any:
        return replace(result, output=self._guard.show_value(result.output))


def _decided(out: OutgoingRequest, waited: Any) -> Any:
    """Results and approvals that the owner gives, with every value as the history may hold it."""

    def told(value: Any) -> Any:
        return None if value is None else _result(out, value)

    def approval(each: Any) -> Any:
        if isinstance(each, ToolApproved):
            return replace(each, override_args=told(each.override_args))
        return (
            replace(each, message=out.text(each.message)) if isinstance(each, ToolDenied) else each
        )

    return replace(
        waited,
        calls={name: told(each) for name, each in waited.calls.items()},
        approvals={name: approval(each) for name, each in waited.approvals.items()},
        metadata={name: told(each) for name, each in waited.metadata.items()},
    )


class GuardedRunStream:
    """A streamed run whose text is restored as it comes."""

    def __init__(self, run: Any, guard: AgentGuard) -> None:
        self._run, self._guard = run, guard

    async def stream_text(self) -> AsyncIterator[str]:
        """The reply, piece by piece; held back while a token may go on."""
        restorer = self._guard.showing()
        async for piece in self._run.stream_text(delta=True, debounce_by=None):
            if shown := restorer.feed(piece):
                yield shown
        if rest := restorer.close():
            yield rest

    def all_messages(self) -> list[Any]:
        """The history, without a raw value."""
        return list(self._run.all_messages())
