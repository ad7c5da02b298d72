"""Anthropic's Claude Agent SDK: hooks on tool use, tools of one's own, and a guarded client.

    guard = RootGuardClaude("me.toml", service="assistant")
    options = ClaudeAgentOptions(mcp_servers={"clinic": guard.server("clinic", [book_visit])})
    async with guard.client(options) as client:
        print(await client.run("I am Jane Roe. What is my FIB-4?"))

The SDK drives a program of Anthropic's, which talks to the model and keeps a transcript. It gets
the owner's words as they may leave. Tools that `server` makes run in this process and are guarded
here; other tools are guarded by hooks before and after each call. The SDK cannot change the text of
a failed call, so where that, or the form of a result, would not stay as it must, the session stops.
What the program adds itself (paths, memory files) does not pass here: put the gateway before it.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeSDKClient,
    HookMatcher,
    ResultMessage,
    SdkMcpTool,
    StreamEvent,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    create_sdk_mcp_server,
)

from rootguard.channels.gateway.shapes import OutgoingRequest
from rootguard.integrations.agent import GuardedFront, ToolFailedError, ToolRefusedError

_JSON_TYPES: Final = {bool: "boolean", float: "number", int: "integer", str: "string"}
_STOPPED: Final = "RootGuard stopped this session: a tool's output could not be made safe to send."


class RootGuardClaude(GuardedFront):
    """The guard of one person's sessions."""

    stopped: bool = False
    _own: frozenset[str] = frozenset()

    def server(self, name: str, tools: Sequence[Any]) -> Any:
        """An MCP server in this process. A tool's service in the policy has the tool's own name."""
        self._own |= {f"mcp__{name}__{each.name}" for each in tools}
        return create_sdk_mcp_server(name, tools=[self._tool(each) for each in tools])

    def client(self, options: Any, *, transport: Any = None) -> "GuardedClaudeClient":
        """A client as its owner uses it: raw words in, restored replies out."""
        return GuardedClaudeClient(self, self.options(options), transport)

    def options(self, options: Any) -> Any:
        """The options with hooks around every tool, and prompts as they may leave."""
        hooks = dict(options.hooks or {})
        for event, hook in (
            ("PreToolUse", self.before_tool),
            ("PostToolUse", self.after_tool),
            ("PostToolUseFailure", self.after_failure),
        ):
            # A hook that fails must not let the call pass.
            hooks[event] = [*hooks.get(event, ()), HookMatcher(hooks=[hook], on_failure="block")]
        prompt = options.system_prompt
        if isinstance(prompt, str):
            prompt = self._told(prompt)
        elif isinstance(prompt, dict) and isinstance(prompt.get("append"), str):
            prompt = {**prompt, "append": self._told(prompt["append"])}
        agents = {
            name: replace(
                each, description=self._told(each.description), prompt=self._told(each.prompt)
            )
            for name, each in (options.agents or {}).items()
        }
        return replace(options, hooks=hooks, system_prompt=prompt, agents=agents or None)

    async def before_tool(self, call: Any, _id: str | None, _context: Any) -> dict[str, Any]:
        """PreToolUse: the arguments as the tool may have them, or no call.

        They pass through the program and its transcript, so identifiers stay tokens even for a tool
        that may have them; a tool of `server` gets them.
        """
        if call["tool_name"] in self._own:
            return {}
        given = dict(call["tool_input"])
        try:
            made = await asyncio.to_thread(
                self.guard.arguments, call["tool_name"], given, restore=False
            )
        except ToolRefusedError as problem:
            return _decision("deny", str(problem))
        if made == given:
            return {}
        # Asked, not allowed: whether the tool may run at all is for the SDK's own permissions.
        return _decision("ask", "RootGuard changed private values", updatedInput=made)

    async def after_tool(self, call: Any, _id: str | None, _context: Any) -> dict[str, Any]:
        """PostToolUse: the result as the model may have it."""
        if call["tool_name"] in self._own:
            return {}
        said = call["tool_response"]
        made = await asyncio.to_thread(
            self.guard.result, call["tool_name"], said, given=call["tool_input"]
        )
        if made == said:
            return {}
        if not _same_form(made, said):  # the program would keep the original
            return self._stop()
        output = {"hookEventName": "PostToolUse", "updatedToolOutput": made}
        return {"hookSpecificOutput": output}

    async def after_failure(self, call: Any, _id: str | None, _context: Any) -> dict[str, Any]:
        """PostToolUseFailure: nothing, or the end of the session, since its text cannot change."""
        if call["tool_name"] in self._own:
            return {}
        made = await asyncio.to_thread(
            self.guard.result, call["tool_name"], call["error"], given=call["tool_input"]
        )
        return {} if made == call["error"] else self._stop()

    def _stop(self) -> dict[str, Any]:
        self.stopped = True
        return {"continue_": False, "stopReason": _STOPPED}

    def _told(self, text: str) -> str:
        def developer(out: OutgoingRequest) -> str:
            with out.speaking("developer"):
                return out.text(text)

        return self.guard.rewrite(developer)

    def _tool(self, tool: Any) -> Any:
        schema = _schema(tool.input_schema)

        async def call(made: dict[str, Any]) -> list[str]:
            result = await tool.handler(made)
            blocks = result.get("content", [])
            if any(each.get("type") != "text" for each in blocks):
                raise ToolFailedError("the result is no text, and cannot be read")
            if result.get("is_error"):
                raise ToolFailedError("\n".join(each["text"] for each in blocks))
            return [each["text"] for each in blocks]

        async def handler(given: Mapping[str, Any]) -> dict[str, Any]:
            outcome = await self.guard.called(
                tool.name, given, call, description=tool.description, schema=schema
            )
            texts = [outcome.said] if outcome.failed else outcome.said
            content = [{"type": "text", "text": each} for each in texts]
            return {"content": content} | ({"is_error": True} if outcome.failed else {})

        return SdkMcpTool(tool.name, tool.description, schema, handler, tool.annotations)


def _schema(given: Any) -> dict[str, Any]:
    """A tool's schema as JSON: the SDK also takes a dictionary of Python's types."""
    if isinstance(given, dict) and isinstance(given.get("type"), str):
        return given
    fields = given if isinstance(given, dict) else getattr(given, "__annotations__", {})
    kinds = {name: _JSON_TYPES.get(kind) for name, kind in fields.items()}
    properties = {name: {"type": kind} if kind else {} for name, kind in kinds.items()}
    return {"type": "object", "properties": properties, "required": list(properties)}


def _decision(decision: str, reason: str, **more: Any) -> dict[str, Any]:
    output = {"hookEventName": "PreToolUse", "permissionDecision": decision}
    return {"hookSpecificOutput": {**output, "permissionDecisionReason": reason, **more}}


def _same_form(made: object, said: object) -> bool:
    if isinstance(made, dict) and isinstance(said, dict):
        return made.keys() == said.keys() and all(_same_form(made[key], said[key]) for key in made)
    if isinstance(made, list) and isinstance(said, list):
        return len(made) == len(said) and all(map(_same_form, made, said))
    return type(made) is type(said)


class GuardedClaudeClient:
    """A session as its owner uses it: their words in the clear, and replies restored."""

    def __init__(self, guarding: RootGuardClaude, options: Any, transport: Any) -> None:
        self.client = ClaudeSDKClient(options, transport)
        self._guarding, self._guard = guarding, guarding.guard
        self._turns: list[Any] = []

    async def __aenter__(self) -> Self:
        await self.client.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.disconnect()

    async def run(self, text: str) -> str:
        """One turn of the owner's, and the reply."""
        reply = ""
        async for message in self._turn(text):
            if isinstance(message, ResultMessage):
                reply = message.result or ""
        return await asyncio.to_thread(self._guard.show, reply)

    async def stream(self, text: str) -> AsyncIterator[str]:
        """The same, piece by piece; the options need `include_partial_messages=True`."""
        restorer = self._guard.showing()
        async for message in self._turn(text):
            if not isinstance(message, StreamEvent):
                continue
            if message.event["type"] == "content_block_stop":
                yield restorer.close()
                restorer = self._guard.showing()
            elif (delta := message.event.get("delta", {})).get("type") == "text_delta":
                yield restorer.feed(delta["text"])
        yield restorer.close()

    async def _turn(self, text: str) -> AsyncIterator[Any]:
        said = await asyncio.to_thread(self._guard.hear, text, before=self._before)
        if self._guarding.stopped:
            raise ToolRefusedError(f"{_STOPPED} Begin a new one.")
        self._turns.append(said)
        await self.client.query(said)
        async for message in self.client.receive_response():
            self._turns.append(message)
            yield message

    def _before(self, out: OutgoingRequest) -> None:
        for turn in self._turns:
            if isinstance(turn, str):
                with out.speaking("owner"):
                    out.text(turn)
            elif isinstance(turn, AssistantMessage | UserMessage) and isinstance(
                turn.content, list
            ):
                for block in turn.content:
                    _heard(out, block)


def _heard(out: OutgoingRequest, block: Any) -> None:
    with out.speaking("model"):
        if isinstance(block, TextBlock):
            out.text(block.text)
        elif isinstance(block, ToolUseBlock):
            out.arguments(block.name, block.input)
            out.called(block.id, block.name, block.input)
    if isinstance(block, ToolResultBlock):
        with out.result_of(call=block.tool_use_id):
            out.json(block.content)
