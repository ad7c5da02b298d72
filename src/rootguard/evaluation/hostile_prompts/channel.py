"""The control of the hostile prompts: an MCP server that gives a patient's values as they are.

It offers what an agent of the evaluation uses of the product's server, in the same form, so that an
agent in front of it differs from a guarded one by what is behind its tools, and by nothing else.
Synthetic patients only.
"""

import json
from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server

from rootguard.evaluation.rq4_agent.channel import GET, LIST
from rootguard.template import Template
from rootguard.values import RootName


def raw_server(template: Template, values: Mapping[RootName, float]) -> Server[Any]:
    """A server whose `get_values` gives true values."""
    names = {"type": "array", "items": {"type": "string", "enum": [*values]}}
    fetch = {"type": "object", "properties": {"names": names}, "required": ["names"]}
    tools = [
        types.Tool(
            name=LIST,
            description="Which values may be asked for, with their units. Gives no value.",
            input_schema={"type": "object", "properties": {}},
        ),
        types.Tool(name=GET, description="Values by name.", input_schema=fetch),
    ]

    async def list_tools(
        ctx: object,  # noqa: ARG001
        params: types.PaginatedRequestParams | None,  # noqa: ARG001
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        ctx: object,  # noqa: ARG001
        params: types.CallToolRequestParams,
    ) -> types.CallToolResult:
        asked = (params.arguments or {}).get("names") if params.name == GET else [*values]
        found = [template.roots[name] for name in asked or () if name in values]
        if params.name == LIST:
            described: list[dict[str, object]] = [
                {"name": r.name, "kind": "root", "unit": r.unit, "also_called": [*r.aliases]}
                for r in found
            ]
        else:
            described = [{"name": r.name, "value": values[r.name], "unit": r.unit} for r in found]
        content = {"values": described}
        text = types.TextContent(type="text", text=json.dumps(content))
        return types.CallToolResult(content=[text], structured_content=content)

    return Server("raw", on_list_tools=list_tools, on_call_tool=call_tool)
