"""LangGraph: an agent as its owner uses it, with raw words in and restored replies out.

LangGraph writes its input to the checkpoint and to the trace before any node runs. So the owner's
words are changed before the graph has them, with what its checkpoint says was asked, and replies,
streams and interrupts are restored after it gave them.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    convert_to_messages,
)
from langgraph.types import Command, Interrupt

from rootguard.channels.faults import RequestRefusedError
from rootguard.channels.gateway.channel import Restorer
from rootguard.channels.gateway.shapes import OutgoingRequest
from rootguard.integrations.agent import AgentGuard, mapped_texts

_SOURCES: Final = {"human": "owner", "ai": "model", "system": "developer"}
_TEXTS: Final = {"text": "text", "reasoning": "reasoning", "refusal": "refusal"}


def thread_of(config: Mapping[str, Any] | None) -> str | None:
    """The conversation that LangGraph's configuration names."""
    named = (config or {}).get("configurable", {}).get("thread_id")
    return None if named is None else str(named)


def guarded_messages(out: OutgoingRequest, messages: list[Any]) -> list[Any]:
    """Messages as the model may have them."""
    return [_guarded(out, message) for message in messages]


def _guarded(out: OutgoingRequest, message: BaseMessage) -> BaseMessage:
    if isinstance(message, ToolMessage):
        with out.result_of(call=message.tool_call_id):
            content = _content(out, message.content)
        # What a tool keeps for the program may hold anything, and would be in every checkpoint.
        return message.model_copy(update={"content": content, "artifact": None})
    source: Any = _SOURCES.get(message.type.removesuffix("chunk").lower().replace("message", ""))
    if source is None:
        raise RequestRefusedError("unknown_kind")
    with out.speaking(source):
        changed: dict[str, Any] = {"content": _content(out, message.content)}
        if isinstance(message, AIMessage):
            calls = []
            for call in message.tool_calls:
                calls.append({**call, "args": out.arguments(call["name"], call["args"])})
                out.called(str(call["id"]), call["name"], call["args"])
            # A provider keeps its own copy of calls and texts there.
            changed |= {"tool_calls": calls, "additional_kwargs": {}}
        elif isinstance(message, HumanMessage):
            changed |= {"name": None, "additional_kwargs": {}}
    return message.model_copy(update=changed)


def _content(out: OutgoingRequest, content: Any) -> Any:
    if isinstance(content, str):
        return out.text(content) if content else content
    return [block for each in content if (block := _block(out, each)) is not None]


def _block(out: OutgoingRequest, block: Any) -> Any:
    if isinstance(block, str):
        return out.text(block)
    kind = block.get("type")
    if kind in ("tool_call", "tool_use", "function_call"):
        return None  # the message has its calls beside it
    key = _TEXTS.get(kind)
    if key is None:
        raise RequestRefusedError("unknown_kind")  # a picture cannot be read
    return {"type": kind, key: out.text(block[key])} if key in block else None


class GuardedAgent:
    """An agent as its owner uses it: their words in the clear, and replies restored."""

    def __init__(self, agent: Any, guard: AgentGuard) -> None:
        self.agent = agent
        self._guard = guard

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        """As the agent's own, with raw words in and restored ones out."""
        made = self.agent.invoke(self._inward(input, config), config, **kwargs)
        return self._outward(made, thread_of(config))

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        """As `invoke`."""
        sent = await self._ainward(input, config)
        made = await self.agent.ainvoke(sent, config, **kwargs)
        return self._outward(made, thread_of(config))

    def stream(
        self,
        input: Any,  # noqa: A002
        config: Any = None,
        *,
        stream_mode: Any = "updates",
        **kwargs: Any,
    ) -> Iterator[Any]:
        """As the agent's own; pieces of a message are held back while a token may go on."""
        shown = _Stream(self, stream_mode, config, kwargs)
        sent = self._inward(input, config)
        for part in self.agent.stream(sent, config, stream_mode=stream_mode, **kwargs):
            yield from shown.take(part)
        yield from shown.rest()

    async def astream(
        self,
        input: Any,  # noqa: A002
        config: Any = None,
        *,
        stream_mode: Any = "updates",
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        """As `stream`."""
        shown = _Stream(self, stream_mode, config, kwargs)
        sent = await self._ainward(input, config)
        async for part in self.agent.astream(sent, config, stream_mode=stream_mode, **kwargs):
            for each in shown.take(part):
                yield each
        for each in shown.rest():
            yield each

    def _inward(self, given: Any, config: Any) -> Any:
        saved = self.agent.get_state(config).values if self.agent.checkpointer else {}
        return self._sent(given, saved.get("messages", []), thread_of(config))

    async def _ainward(self, given: Any, config: Any) -> Any:
        state = (await self.agent.aget_state(config)).values if self.agent.checkpointer else {}
        saved = state.get("messages", [])
        return await asyncio.to_thread(self._sent, given, saved, thread_of(config))

    def _sent(self, given: Any, saved: list[Any], thread: str | None) -> Any:
        if given is None:
            return None

        def whole(out: OutgoingRequest) -> Any:
            guarded_messages(out, saved)  # what was asked before says what a bare number is
            if isinstance(given, Command):
                with out.speaking("owner"):
                    resume = given.resume
                    said = out.text(resume) if isinstance(resume, str) else out.json(resume)
                    return Command(resume=said, goto=given.goto)
            said = given["messages"]
            several = [said] if isinstance(said, (str, BaseMessage)) else said
            return {"messages": guarded_messages(out, convert_to_messages(several))}

        if given.update if isinstance(given, Command) else set(given) != {"messages"}:
            raise RequestRefusedError("unknown_field")
        return self._guard.rewrite(whole, thread=thread)

    def _outward(self, made: Any, thread: str | None) -> Any:
        if isinstance(made, BaseMessage):
            changed = {"content": self._outward(made.content, thread)}
            if isinstance(made, AIMessage):
                changed["tool_calls"] = self._outward(made.tool_calls, thread)
            return made.model_copy(update=changed)
        if isinstance(made, Interrupt):
            return replace(made, value=self._outward(made.value, thread))
        if isinstance(made, Mapping):
            return {key: self._outward(value, thread) for key, value in made.items()}
        if isinstance(made, list | tuple):
            return type(made)(self._outward(each, thread) for each in made)
        return mapped_texts(made, lambda text: self._guard.show(text, thread=thread))


class _Stream:
    """Restores what a graph streams, by its modes."""

    def __init__(self, agent: GuardedAgent, modes: Any, config: Any, asked: dict[str, Any]) -> None:
        if asked.get("version", "v1") != "v1":
            raise TypeError("leave out `version`: only streams of the first version are restored")
        self._agent, self._thread = agent, thread_of(config)
        # A part is what was streamed, after its graph's place and its mode where these were asked.
        self._spaces, self._modes = bool(asked.get("subgraphs")), modes
        self._open: tuple[Restorer, Any, Any, list[Any]] | None = None

    def take(self, part: Any) -> Iterator[Any]:
        before = list(part[:-1]) if self._spaces or not isinstance(self._modes, str) else []
        data = part[-1] if before else part
        mode = self._modes if isinstance(self._modes, str) else before[-1]
        if mode != "messages":
            yield from self.rest()
            yield _part(before, self._agent._outward(data, self._thread))
            return
        chunk, metadata = data
        if self._open is not None and self._open[1].id != chunk.id:
            yield from self.rest()
        if not chunk.type.endswith("Chunk"):
            yield _part(before, (self._agent._outward(chunk, self._thread), metadata))
            return
        if self._open is None:
            self._open = (self._agent._guard.showing(thread=self._thread), chunk, metadata, before)
        restorer = self._open[0]
        content = (
            restorer.feed(chunk.content)
            if isinstance(chunk.content, str)
            else [
                {**each, "text": restorer.feed(each["text"])} if "text" in each else each
                for each in chunk.content
            ]
        )
        yield _part(before, (chunk.model_copy(update={"content": content}), metadata))

    def rest(self) -> Iterator[Any]:
        """What was held back of a message that is over."""
        if self._open is not None:
            (restorer, chunk, metadata, before), self._open = self._open, None
            held = restorer.close()
            if held:
                last = type(chunk)(content=held, id=chunk.id)
                yield _part(before, (last, metadata))


def _part(before: list[Any], data: Any) -> Any:
    return (*before, data) if before else data
