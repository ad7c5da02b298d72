"""LangChain and LangGraph: a middleware for `create_agent`, and a guard for any tool.

    guard = RootGuardMiddleware("me.toml", service="assistant")
    agent = guard.bind(create_agent(model, tools, middleware=[guard], checkpointer=saver))
    agent.invoke({"messages": "I am Jane Roe. What is my FIB-4?"}, config)

The middleware guards what the model and the tools are given, `bind` what goes in and comes out
(see `langgraph`). A tool's own call, with what it alone may have, is not traced; the guarded call
around it is.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context
from langchain_core.tools import BaseTool, ToolException
from langchain_core.tools.base import _get_runnable_config_param
from langgraph.errors import GraphBubbleUp, GraphInterrupt, ParentCommand
from langgraph.types import Command
from langsmith.run_helpers import tracing_context

from rootguard.channels.gateway.shapes import OutgoingRequest
from rootguard.errors import RootGuardError
from rootguard.integrations.agent import (
    AgentGuard,
    GuardedFront,
    ToolRefusedError,
    bare,
    said_by,
)
from rootguard.integrations.langgraph import GuardedAgent, guarded_messages, thread_of

_CALL: ContextVar[tuple[Any, RunnableConfig | None]] = ContextVar("_CALL")


class RootGuardMiddleware(GuardedFront, AgentMiddleware):  # type: ignore[misc]
    """Guards an agent's model and tools; `bind` guards what goes in and comes out."""

    def bind(self, agent: Any) -> "GuardedAgent":
        """The agent as its owner uses it: raw words in, restored replies out."""
        return GuardedAgent(agent, self.guard)

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:  # noqa: ARG002
        """What the agent begins with, for whoever calls it without `bind`."""
        messages = state["messages"]
        made = self.guard.rewrite(lambda out: guarded_messages(out, messages), thread=_thread())
        return {"messages": made}

    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        return await asyncio.to_thread(self.before_agent, state, runtime)

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        return handler(self._request(request))

    async def awrap_model_call(
        self,
        request: Any,
        handler: Callable[[Any], Awaitable[Any]],
    ) -> Any:
        return await handler(await asyncio.to_thread(self._request, request))

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        return handler(request.override(tool=guard_tool(request.tool, self.guard)))

    async def awrap_tool_call(
        self,
        request: Any,
        handler: Callable[[Any], Awaitable[Any]],
    ) -> Any:
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        return await handler(request.override(tool=guard_tool(request.tool, self.guard)))

    def _request(self, request: Any) -> Any:
        system = [] if request.system_message is None else [request.system_message]

        def whole(out: OutgoingRequest) -> list[Any]:
            return guarded_messages(out, [*system, *request.messages])

        made = self.guard.rewrite(whole, thread=_thread())
        told = made[0] if system else None
        return request.override(messages=made[len(system) :], system_message=told)

    @staticmethod
    def _refusal(request: Any) -> ToolMessage | None:
        if request.tool is not None:
            return None
        call = request.tool_call
        return ToolMessage(
            "there is no such tool", tool_call_id=call["id"], name=call["name"], status="error"
        )


def _thread() -> str | None:
    from langgraph.config import get_config

    return thread_of(get_config())


def guard_tool(tool: BaseTool, guard: AgentGuard) -> BaseTool:
    """A tool that is called with what it may have, and whose result is fit for the model."""
    if isinstance(tool, _GuardedTool):
        return tool
    schema = tool.tool_call_schema
    return _GuardedTool(
        name=tool.name,
        description=tool.description,
        # As JSON, which the wrapper does not check: the tool itself does.
        args_schema=schema if isinstance(schema, dict) else schema.model_json_schema(),
        return_direct=tool.return_direct,
        handle_tool_error=True,
        inner=tool,
        guard=guard,
    )


class _GuardedTool(BaseTool):  # type: ignore[misc]
    inner: Any
    guard: Any

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        token = _CALL.set((input, config))
        try:
            return super().invoke(input, config, **kwargs)
        finally:
            _CALL.reset(token)

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        token = _CALL.set((input, config))
        try:
            return await super().ainvoke(input, config, **kwargs)
        finally:
            _CALL.reset(token)

    def _run(self, **_kwargs: Any) -> Any:
        call, config, given = self._made()
        outcome = self._outcome(self._attempt(call, config), given, config)
        del call  # not in a frame that an error leaves through
        return _left(outcome)

    async def _arun(self, **_kwargs: Any) -> Any:
        call, config, given = await asyncio.to_thread(self._made)
        result = await self._attempt_later(call, config)
        outcome = await asyncio.to_thread(self._outcome, result, given, config)
        del call, result
        return _left(outcome)

    def _attempt(self, call: Any, config: Any) -> Any:
        try:
            with tracing_context(enabled=False), set_config_context(config) as context:
                run, kwargs = _called(self.inner, self.inner._run, call, config)
                return context.run(run, **kwargs)
        except Exception as problem:  # noqa: BLE001 - its text may hold what the tool alone had
            return problem

    async def _attempt_later(self, call: Any, config: Any) -> Any:
        try:
            with tracing_context(enabled=False), set_config_context(config) as context:
                run, kwargs = _called(self.inner, self.inner._arun, call, config)
                return await asyncio.create_task(run(**kwargs), context=context)
        except Exception as problem:  # noqa: BLE001 - as above
            return problem

    def _made(self) -> tuple[Any, Any, Mapping[str, Any]]:
        """The inner tool's call, a configuration that leaves no trace, and what was asked."""
        asked, config = _CALL.get()
        is_call = isinstance(asked, dict) and asked.get("type") == "tool_call"
        given = asked["args"] if is_call else asked
        visible = {key: given[key] for key in given if key in self.args_schema["properties"]}
        try:
            made = self.guard.arguments(
                self.name,
                visible,
                description=self.description,
                schema=self.args_schema,
                thread=thread_of(config),
            )
        except ToolRefusedError as problem:
            raise ToolException(str(problem)) from None
        arguments = {**{k: v for k, v in given.items() if k not in visible}, **made}
        call = {**asked, "args": arguments} if is_call else arguments
        return call, {**(config or {}), "callbacks": []}, visible

    def _outcome(self, result: Any, given: Any, config: Any) -> Any:
        """What the model may have, or the error that has to leave: this frame holds the result."""
        try:
            return self._told(result, given, config)
        except RootGuardError as refusal:
            return refusal.bare()

    def _told(self, result: Any, given: Any, config: Any) -> Any:
        def told(said: Any) -> Any:
            return self.guard.result(self.name, said, given=given, thread=thread_of(config))

        if isinstance(result, GraphInterrupt):
            # What a tool asks a person is kept in the checkpoint.
            asked = [replace(each, value=told(each.value)) for each in result.args[0]]
            return GraphInterrupt(asked)
        if isinstance(result, ParentCommand):
            return ParentCommand(self._told(result.args[0], given, config))
        if isinstance(result, GraphBubbleUp):
            return bare(result)
        if isinstance(result, Exception):
            return ToolException(told(self._failure(result)))
        if isinstance(result, ToolMessage):
            return result.model_copy(update={"content": told(result.content), "artifact": None})
        if isinstance(result, Command):
            update = result.update if isinstance(result.update, dict) else {}
            changed = {
                key: [self._told(each, given, config) for each in value]
                if key == "messages"
                else told(value)
                for key, value in update.items()
            }
            return Command(graph=result.graph, update=changed, goto=result.goto)
        if self.inner.response_format == "content_and_artifact" and isinstance(result, tuple):
            result = result[0]  # what it keeps for the program may hold anything
        return told(result)

    def _failure(self, problem: Exception) -> str:
        """As the tool itself wants its failures told."""
        handler = self.inner.handle_tool_error if isinstance(problem, ToolException) else False
        if callable(handler):
            return str(handler(problem))
        if handler:
            return handler if isinstance(handler, str) else str(problem)
        return said_by(problem)


def _left(outcome: Any) -> Any:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _called(tool: Any, run: Any, call: Any, config: Any) -> tuple[Any, dict[str, Any]]:
    """A tool's function and what to call it with.

    Not by `invoke`: it would show the call to every handler that the process has registered, such
    as those of `collect_runs`, of debugging and of instrumentation.
    """
    is_call = isinstance(call, dict) and call.get("type") == "tool_call"
    given, name = (call["args"], call["id"]) if is_call else (call, None)
    args, kwargs = tool._to_args_and_kwargs(given, name)
    asked = tool._run if type(tool)._arun is BaseTool._arun else run
    if (parameter := _get_runnable_config_param(asked)) is not None:
        kwargs[parameter] = config
    return partial(run, *args), kwargs
