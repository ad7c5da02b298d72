"""How the agent of the evaluation reaches a patient: MCP, over JSON-RPC text, as in the product.

A guarded patient is served by the product's own MCP server. For `all` there is a second server, of
the kind that RootGuard replaces: its one tool noises a value afresh whenever it is fetched. Client
and server exchange messages as JSON text through memory; no message takes another way.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import Client
from mcp.client import Transport
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from rootguard.advice.crowds import IndependentNoising
from rootguard.template import Root, Template
from rootguard.values import RootName

LIST = "list_values"
GET = "get_values"
SANITIZE = "sanitize"

_Item = SessionMessage | Exception
_READ_ONLY = types.ToolAnnotations(read_only_hint=True, destructive_hint=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """A tool call and what came back. `content` is None for a refusal."""

    tool: str
    arguments: Mapping[str, object]
    content: Mapping[str, Any] | None
    text: str

    def record(self) -> dict[str, object]:
        said: object = self.content if self.content is not None else {"refused": self.text}
        return {"tool": self.tool, "arguments": dict(self.arguments), "result": said}


@dataclass(kw_only=True, slots=True)
class Tools:
    """What the agent may do. Every call is written down in `made`."""

    client: Client
    listed: tuple[types.Tool, ...]
    made: list[ToolCall] = field(default_factory=list)

    async def call(self, tool: str, arguments: Mapping[str, object]) -> ToolCall:
        """Call a tool by name. A refusal is a result, also for a tool that there is not."""
        content: Mapping[str, Any] | None = None
        params = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
        try:
            # What `Client.call_tool` sends, without its check of the result's schema, which would
            # be compiled anew for every patient; that check has its own tests.
            result = await self.client.session.send_request(
                types.CallToolRequest(params=params), types.CallToolResult
            )
        except MCPError as refusal:
            text = str(refusal)
        else:
            text = "".join(c.text for c in result.content if isinstance(c, types.TextContent))
            if not result.is_error:
                content = result.structured_content or {}
        made = ToolCall(tool=tool, arguments=arguments, content=content, text=text)
        self.made.append(made)
        return made

    def take(self) -> list[ToolCall]:
        """The calls since the last time."""
        taken, self.made = self.made, []
        return taken


@asynccontextmanager
async def connected(server: Server[Any], *, wire: list[str] | None = None) -> AsyncIterator[Tools]:
    """An agent's tools on a server. Every message as it was written is added to `wire`."""
    to_server, at_server = _stream()
    to_client, at_client = _stream()
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            outgoing = _Written(to_client, wire)
            await server.run(at_server, outgoing, server.create_initialization_options())

        tasks.start_soon(serve)
        transport = _Ends(at_client, _Written(to_server, wire))
        async with Client(transport, cache=None) as client:
            listed = await client.list_tools()
            yield Tools(client=client, listed=tuple(listed.tools))
        await to_server.aclose()
        tasks.cancel_scope.cancel()


def _stream() -> tuple[MemoryObjectSendStream[_Item], MemoryObjectReceiveStream[_Item]]:
    return anyio.create_memory_object_stream[_Item](8)


class _Written:
    """A stream that messages go into as objects and leave as what their JSON text says."""

    def __init__(self, inner: MemoryObjectSendStream[_Item], wire: list[str] | None) -> None:
        self._inner = inner
        self._wire = wire

    async def send(self, item: _Item, /) -> None:
        if isinstance(item, SessionMessage):
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            if self._wire is not None:
                self._wire.append(text)
            item = SessionMessage(jsonrpc_message_adapter.validate_json(text))
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Ends(Transport):
    """The client's ends of the two streams."""

    def __init__(self, incoming: MemoryObjectReceiveStream[_Item], outgoing: _Written) -> None:
        self._ends = (incoming, outgoing)

    async def __aenter__(self) -> Any:  # noqa: ANN401 - the SDK's own pair of stream protocols
        return self._ends

    async def __aexit__(self, *_: object) -> None:
        await self._ends[1].aclose()
        await self._ends[0].aclose()


def independent_server(template: Template, patient: IndependentNoising) -> Server[Any]:
    """A server whose `sanitize` tool gives a root fresh noise at every call.

    The agent sees names and noised values, as with RootGuard; what it asks twice, it gets twice.
    """
    name = {"type": "string", "enum": [str(root) for root in template.roots]}
    fetch = {"type": "object", "properties": {"name": name}, "required": ["name"]}
    tools = [
        types.Tool(
            name=LIST,
            description="Which values may be asked for, with their units. Gives no value.",
            input_schema={"type": "object", "properties": {}},
            annotations=_READ_ONLY,
        ),
        types.Tool(
            name=SANITIZE,
            description="Fetches one value by name and noises it.",
            input_schema=fetch,
            annotations=_READ_ONLY,
        ),
    ]
    described: dict[str, object] = {"values": described_roots(template.roots.values())}

    def call(tool: str, arguments: Mapping[str, Any]) -> dict[str, object] | None:
        if tool == LIST:
            return described
        root = template.roots.get(RootName(str(arguments.get("name"))))
        if tool != SANITIZE or root is None:
            return None
        index = patient.release(root.name, root.domain)
        given = {"name": root.name, "value": root.domain.value(index), "unit": root.unit}
        return {"values": [given], "refused": []}

    return tool_server("independent", tools, call)


def described_roots(roots: Iterable[Root]) -> list[dict[str, object]]:
    """Roots as the product's server lists them: names and units, no value."""
    return [
        {"name": root.name, "kind": "root", "unit": root.unit, "also_called": [*root.aliases]}
        for root in roots
    ]


def tool_server(
    name: str,
    tools: list[types.Tool],
    call: Callable[[str, Mapping[str, Any]], dict[str, object] | None],
) -> Server[Any]:
    """A server of some tools; `call` gives a tool's result, or None to refuse."""

    async def list_tools(
        ctx: object,  # noqa: ARG001
        params: types.PaginatedRequestParams | None,  # noqa: ARG001
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        ctx: object,  # noqa: ARG001
        params: types.CallToolRequestParams,
    ) -> types.CallToolResult:
        content = call(params.name, params.arguments or {})
        if content is None:
            refused = types.TextContent(type="text", text="There is no such tool or value.")
            return types.CallToolResult(content=[refused], is_error=True)
        text = types.TextContent(type="text", text=json.dumps(content))
        return types.CallToolResult(content=[text], structured_content=content)

    return Server(name, on_list_tools=list_tools, on_call_tool=call_tool)
