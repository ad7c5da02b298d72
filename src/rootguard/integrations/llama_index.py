"""LlamaIndex: a chat model and tools behind the guard, and agents as their owner uses them.

    guard = RootGuardLlamaIndex("me.toml", service="assistant")
    agent = FunctionAgent(llm=guard.llm(llm), tools=guard.tools([...]))
    context = Context(agent)
    reply = await guard.run(agent, "I am Jane Roe. What is my FIB-4?", ctx=context)
    print(reply.text)

`llm` guards each request to the model and `tools` each call. `run` changes the owner's words before
the workflow has them, so that its memory, its context and its spans hold no raw value, and restores
the reply. Completions of a bare prompt are refused: nobody can tell in it who said what.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from llama_index.core.agent.workflow import AgentOutput, AgentStream
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ThinkingBlock, ToolCallBlock
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import FunctionTool, adapt_to_async_tool
from workflows.runtime.types.results import WaitingForEvent

from rootguard.channels.faults import RequestRefusedError
from rootguard.channels.gateway.shapes import OutgoingRequest
from rootguard.integrations.agent import (
    AgentGuard,
    GuardedFront,
    Tell,
    ToolFailedError,
    mapped_texts,
)

_SOURCES: Final[dict[str, Any]] = {
    "assistant": "model",
    "developer": "developer",
    "system": "developer",
    "user": "owner",
}


def guarded_chat(out: OutgoingRequest, messages: Sequence[Any]) -> list[Any]:
    """Messages as the model may have them."""
    return [_guarded(out, message) for message in messages]


def _guarded(out: OutgoingRequest, message: Any) -> Any:
    role, call = message.role.value, message.additional_kwargs.get("tool_call_id")
    if role in ("tool", "function"):
        with out.result_of(call=call):
            blocks = [_block(out, each) for each in message.blocks]
    elif role in _SOURCES:
        with out.speaking(_SOURCES[role]):
            blocks = [_block(out, each) for each in message.blocks]
    else:
        raise RequestRefusedError("unknown_kind")
    # Only the id of a call is kept: a provider has its own copy of texts and calls beside.
    beside = {} if call is None else {"tool_call_id": call}
    return ChatMessage(role=message.role, blocks=blocks, additional_kwargs=beside)


def _block(out: OutgoingRequest, block: Any) -> Any:
    if isinstance(block, TextBlock):
        return TextBlock(text=out.text(block.text) if block.text else "")
    if isinstance(block, ThinkingBlock):
        return ThinkingBlock(content=None if block.content is None else out.text(block.content))
    if isinstance(block, ToolCallBlock):
        made = out.arguments(block.tool_name, block.tool_kwargs)
        out.called(str(block.tool_call_id), block.tool_name, block.tool_kwargs)
        return block.model_copy(update={"tool_kwargs": made})
    raise RequestRefusedError("unknown_kind")  # a picture or a recording cannot be read


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class GuardedReply:
    """What a run came to: the reply as its owner reads it, and the framework's own result."""

    text: str
    structured: Any
    output: Any


class RootGuardLlamaIndex(GuardedFront):
    """The guard of one person's agents."""

    def llm(self, llm: Any) -> "GuardedLLM":
        """A chat model that is sent what may leave."""
        return GuardedLLM(llm, self.guard)

    def tools(self, tools: Sequence[Any]) -> list[Any]:
        """Tools and functions, each called with what it may have."""
        made = [FunctionTool.from_defaults(each) if _is_function(each) else each for each in tools]
        return [_guarded_tool(each, self.guard) for each in made]

    async def run(
        self, agent: Any, text: str, *, ctx: Any = None, memory: Any = None, **kwargs: Any
    ) -> GuardedReply:
        """As the agent's own `run`, with the reply restored. `output` is its own, and clean."""
        said = await self._said(agent, text, ctx, memory)
        output = await agent.run(user_msg=said, ctx=ctx, memory=memory, **kwargs)
        shown = await asyncio.to_thread(self.guard.show, output.response.content or "")
        structured = self.guard.show_value(output.structured_response)
        return GuardedReply(text=shown, structured=structured, output=output)

    async def stream(
        self, agent: Any, text: str, *, ctx: Any = None, memory: Any = None, **kwargs: Any
    ) -> AsyncIterator[str]:
        """As `run`, for the text of the replies, piece by piece."""
        said = await self._said(agent, text, ctx, memory)
        handler = agent.run(user_msg=said, ctx=ctx, memory=memory, **kwargs)
        restorer = self.guard.showing()
        async for event in handler.stream_events():
            if isinstance(event, AgentStream):
                yield restorer.feed(event.delta)
            elif isinstance(event, AgentOutput):
                yield restorer.close()
                restorer = self.guard.showing()
        await handler
        yield restorer.close()

    async def _said(self, agent: Any, text: str, ctx: Any, memory: Any) -> str:
        members = getattr(agent, "agents", None) or {"": agent}
        if any(not isinstance(each.llm, GuardedLLM) for each in members.values()):
            raise TypeError("an agent's model is not guarded: give it guard.llm(...)")
        if memory is None and ctx is not None:
            memory = await ctx.store.get("memory", default=None)
        earlier = [] if memory is None else await memory.aget_all()

        def before(out: OutgoingRequest) -> None:
            guarded_chat(out, earlier)

        return await asyncio.to_thread(self.guard.hear, text, before=before)


class GuardedLLM(FunctionCallingLLM):  # type: ignore[misc]
    """A chat model that is sent what may leave; the one within keeps its own spans and events."""

    _inner: Any = PrivateAttr()
    _guard: Any = PrivateAttr()

    def __init__(self, inner: Any, guard: AgentGuard) -> None:
        super().__init__(callback_manager=inner.callback_manager)
        self._inner, self._guard = inner, guard

    @property
    def metadata(self) -> Any:
        """Of the model within."""
        return self._inner.metadata

    def chat(self, messages: Sequence[Any], **kwargs: Any) -> Any:
        return self._inner.chat(self._sent(messages), **kwargs)

    def stream_chat(self, messages: Sequence[Any], **kwargs: Any) -> Iterator[Any]:
        made: Iterator[Any] = self._inner.stream_chat(self._sent(messages), **kwargs)
        return made

    async def achat(self, messages: Sequence[Any], **kwargs: Any) -> Any:
        return await self._inner.achat(await asyncio.to_thread(self._sent, messages), **kwargs)

    async def astream_chat(self, messages: Sequence[Any], **kwargs: Any) -> Any:
        sent = await asyncio.to_thread(self._sent, messages)
        return await self._inner.astream_chat(sent, **kwargs)

    def complete(self, *_args: Any, **_kwargs: Any) -> Any:
        raise RequestRefusedError("endpoint_refused")

    async def acomplete(self, *_args: Any, **_kwargs: Any) -> Any:
        raise RequestRefusedError("endpoint_refused")

    stream_complete, astream_complete = complete, acomplete

    def _prepare_chat_with_tools(
        self, tools: Sequence[Any], *, tool_required: bool = False, **kwargs: Any
    ) -> Any:
        # The messages within are guarded by `chat`, which is given what this makes.
        return self._inner._prepare_chat_with_tools_compat(
            tools, tool_required=tool_required, **kwargs
        )

    def get_tool_calls_from_response(self, response: Any, **kwargs: Any) -> Any:
        return self._inner.get_tool_calls_from_response(response, **kwargs)

    def _sent(self, messages: Sequence[Any]) -> list[Any]:
        made: list[Any] = self._guard.rewrite(lambda out: guarded_chat(out, messages))
        return made


def _is_function(tool: Any) -> bool:
    return callable(tool) and not hasattr(tool, "metadata")


def _guarded_tool(tool: Any, guard: AgentGuard) -> Any:
    inner = adapt_to_async_tool(tool)
    name, context = inner.metadata.get_name(), getattr(inner, "ctx_param_name", None)
    # Below the span around it, which would keep what the tool alone may have.
    plain = getattr(type(inner).acall, "__wrapped__", type(inner).acall)

    async def called(**given: Any) -> Any:
        passed = {context: given.pop(context)} if context in given else {}

        async def call(made: dict[str, Any]) -> str:
            output = await plain(inner, **passed, **made)
            if any(not isinstance(each, TextBlock) for each in output.blocks):
                raise ToolFailedError("the result is no text, and cannot be read")
            if output.is_error:
                raise ToolFailedError(output.content)
            return str(output.content)

        about, schema = inner.metadata.description, inner.metadata.get_parameters_dict()
        outcome = await guard.called(
            name, given, call, description=about, schema=schema, passing=_passed
        )
        if outcome.failed and not outcome.refused:
            raise ToolFailedError(outcome.said)
        return outcome.said

    guarded = FunctionTool(async_fn=called, metadata=inner.metadata)
    guarded.requires_context, guarded.ctx_param_name = context is not None, context
    return guarded


def _passed(problem: Any, tell: Tell) -> Any:
    """A step that waits for a person: what it asks them is kept in the workflow's context."""
    if not isinstance(problem, WaitingForEvent):
        return None
    asked = problem.add.waiter_event
    if asked is not None:
        asked = type(asked)(**mapped_texts(asked.model_dump(), tell))  # type: ignore[arg-type]
    return WaitingForEvent(problem.add.model_copy(update={"waiter_event": asked}))
