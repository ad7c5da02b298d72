"""How the agent of the evaluation reaches a patient: MCP, over JSON-RPC text, as in the product.

A guarded patient is served by the product's own MCP server. For `all` there is a second server, of
the kind that RootGuard replaces: its one tool noises a value afresh whenever it is fetched. Client
and server exchange messages as JSON text through memory.

Where the agent is a program and the wire is not what is measured, its calls go to the server's own
tools directly (`direct`), and come back as what their JSON text says: the same answers, ten times
as many in a second. Tests hold the two ways together.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
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
from rootguard.channels.mcp.jsonrpc import TEXTS
from rootguard.template import Root, Template
from rootguard.values import RootName

LIST = "list_values"
GET = "get_values"
SANITIZE = "sanitize"

_Item = SessionMessage | Exception
_READ_ONLY = types.ToolAnnotations(read_only_hint=True, destructive_hint=False)
LIST_TOOL = types.Tool(
    name=LIST,
    description="Which values may be asked for, with their units. Gives no value.",
    input_schema={"type": "object", "properties": {}},
    annotations=_READ_ONLY,
)


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

    ask: Callable[[str, dict[str, object]], Awaitable[types.CallToolResult]]
    listed: tuple[types.Tool, ...]
    client: Client | None = None
    """Who speaks on the wire, if there is one."""
    made: list[ToolCall] = field(default_factory=list)

    async def call(self, tool: str, arguments: Mapping[str, object]) -> ToolCall:
        """Call a tool by name. A refusal is a result, also for a tool that there is not."""
        content: Mapping[str, Any] | None = None
        try:
            result = await self.ask(tool, dict(arguments))
        except MCPError as refusal:
            text = str(refusal)
        else:
            text = "".join(c.text for c in result.content if isinstance(c, types.TextContent))
            if not result.is_error:
                content = result.structured_content or {}
        made = ToolCall(tool=tool, arguments=arguments, content=content, text=text)
        self.made.append(made)
        return made

    async def roots(self) -> list[dict[str, Any]]:
        """The roots that may be asked for, as the server describes them."""
        listed = await self.call(LIST, {})
        values = (listed.content or {}).get("values", ())
        return [value for value in values if value.get("kind") == "root"]

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

            async def ask(tool: str, arguments: dict[str, object]) -> types.CallToolResult:
                # What `Client.call_tool` sends, without its check of the result's schema, which
                # would be compiled anew for every patient; that check has its own tests.
                params = types.CallToolRequestParams(name=tool, arguments=arguments)
                return await client.session.send_request(
                    types.CallToolRequest(params=params), types.CallToolResult
                )

            yield Tools(ask=ask, listed=tuple(listed.tools), client=client)
        await to_server.aclose()
        tasks.cancel_scope.cancel()


DirectCall = Callable[[str, Mapping[str, object]], types.CallToolResult | None]


def direct(tools: Iterable[types.Tool], call: DirectCall) -> Tools:
    """An agent's tools without a wire: `call` gives a tool's result, or None to refuse."""

    async def ask(tool: str, arguments: dict[str, object]) -> types.CallToolResult:
        result = call(tool, arguments)
        if result is None:
            raise MCPError(types.INVALID_PARAMS, TEXTS[types.INVALID_PARAMS])
        (said,) = result.content
        if result.structured_content is not None and isinstance(said, types.TextContent):
            result.structured_content = json.loads(said.text)
        return result

    return Tools(ask=ask, listed=tuple(tools))


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
    return tool_server("independent", *independent_tools(template, patient))


_Call = Callable[[str, Mapping[str, Any]], dict[str, object] | None]


def independent_tools(
    template: Template, patient: IndependentNoising
) -> tuple[list[types.Tool], _Call]:
    """The tools of that server, and what calls them."""
    name = {"type": "string", "enum": [str(root) for root in template.roots]}
    fetch = {"type": "object", "properties": {"name": name}, "required": ["name"]}
    tools = [
        LIST_TOOL,
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

    return tools, call


def described_roots(roots: Iterable[Root]) -> list[dict[str, object]]:
    """Roots as the product's server lists them: names and units, no value."""
    return [
        {"name": root.name, "kind": "root", "unit": root.unit, "also_called": [*root.aliases]}
        for root in roots
    ]


def tool_server(
    name: str,
    tools: list[types.Tool],
    call: _Call,
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
        return tool_result(call(params.name, params.arguments or {}))

    return Server(name, on_list_tools=list_tools, on_call_tool=call_tool)


def tool_result(content: dict[str, object] | None) -> types.CallToolResult:
    """What a server says: a tool's content, or that it refuses."""
    if content is None:
        refused = types.TextContent(type="text", text="There is no such tool or value.")
        return types.CallToolResult(content=[refused], is_error=True)
    text = types.TextContent(type="text", text=json.dumps(content))
    return types.CallToolResult(content=[text], structured_content=content)
