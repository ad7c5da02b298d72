"""What a server's tools ask for: which parameter is which value, and the plan that this implies.

The server is started, asked for its list of tools, and ended; no tool is called. Of an `mcpServers`
file every server is, of an OpenAPI document none: its operations are read as tools. The profile is
read for its public part: nothing is noised and no vault is opened.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

import anyio
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from rootguard.channels.faults import Code, RequestRefusedError
from rootguard.channels.mcp.jsonrpc import Limits
from rootguard.channels.mcp.proxy.links import Connect, ServerCommand
from rootguard.channels.mcp.proxy.offers import MAX_PAGES
from rootguard.channels.mcp.proxy.servers import (
    RemoteOptions,
    TokenFile,
    read_config,
    remote_server,
)
from rootguard.channels.mcp.proxy.texts import is_personal
from rootguard.channels.tools import Pins, ToolMap, load_pins, understand
from rootguard.channels.tools.answers import measures_of
from rootguard.channels.tools.corrections import joined
from rootguard.channels.tools.fields import fields_of
from rootguard.channels.tools.openapi import load_operations
from rootguard.expressions import Node, Variable, names, parse
from rootguard.graph import Graph
from rootguard.session import Profile, load_profile
from rootguard.session.policy import TextRule
from rootguard.template import Root
from rootguard.values import RootName

if TYPE_CHECKING:
    from rootguard.channels.mcp.proxy.http import ServerAddress


@dataclass(frozen=True, kw_only=True, slots=True)
class RootCost:
    """A root that the tools ask for, directly or in a formula, and what noising it costs, once."""

    root: str
    unit: str
    epsilon: float
    step: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspection:
    """What a server's tools ask for, and what that comes to."""

    tools: tuple[ToolMap, ...]
    shares: tuple[RootCost, ...]
    computed: tuple[str, ...]
    """Values that follow from these roots and cost nothing more."""
    text: TextRule = "guard"
    """What the policy should say of texts for this kind of server."""


_PATIENCE = 60
"""Seconds to start and list: some servers are fetched by npx or uvx first."""
_Listed = tuple[str, str, Mapping[str, object]]


def inspect_server(
    profile_path: str,
    *,
    command: Sequence[str],
    url: str | None,
    pins_path: str | None,
    config: str | None = None,
    openapi: str | None = None,
    corrections: Pins | None = None,
    remote: RemoteOptions | None = None,
    tokens: TokenFile | None = None,
) -> Inspection:
    """Look at a server, several, or a document, with one person's templates in mind."""
    profile = load_profile(profile_path)
    pins = Pins() if pins_path is None else load_pins(pins_path)
    if corrections is not None:
        pins = joined(pins, corrections)
    tools = _tools(command, url, config, openapi, remote or RemoteOptions(), tokens)
    roots = _roots(profile)
    maps = tuple(
        understand(
            name,
            description,
            schema,
            roots,
            profile.templates,
            pins=pins,
            identifiers=profile.identifiers.names,
        )
        for name, description, schema in tools
    )
    asked = {each.name: each.formula or each.name for made in maps for each in made.bindings}
    for made in maps:
        for measure in (m for each in made.answers for m in measures_of(each)):
            asked.setdefault(measure.name, measure.formula or measure.name)
    named = set(profile.identifiers.names)
    formulas = {name: parse(formula) for name, formula in asked.items() if name not in named}
    return Inspection(
        tools=maps,
        shares=_shares(profile, roots, formulas.values()),
        computed=tuple(name for name in formulas if name not in roots),
        text=_proposed(tools, maps),
    )


def _proposed(tools: Sequence[_Listed], maps: Sequence[ToolMap]) -> TextRule:
    """What is looked for in texts for a server of this kind.

    Everything if a tool is about a person, or may be; nothing if no tool takes a text of one's own;
    else identifiers, since to files, code and web pages numbers are things'.
    """
    private = any(each.bindings or each.answers or each.asked for each in maps)
    if private or any(is_personal(name, description) for name, description, _ in tools):
        return "guard"
    texts = any(
        field.kind == "string" and not field.choices
        for _, _, schema in tools
        for field in fields_of(schema)
    )
    return "identifiers" if texts else "keep"


def _tools(
    command: Sequence[str],
    url: str | None,
    config: str | None,
    openapi: str | None,
    remote: RemoteOptions,
    tokens: TokenFile | None,
) -> list[_Listed]:
    """Every tool that there is: its name, description and schema."""
    if openapi is not None:
        return [
            (str(each["name"]), str(each["description"]), _schema(each["inputSchema"]))
            for each in load_operations(openapi)
        ]
    servers: list[Connect] = []
    if config is not None:
        servers = list(read_config(config, tokens=tokens).values())
    elif url is not None:
        servers = [remote_server(url, remote, tokens)]
    else:
        servers = [ServerCommand(words=list(command))]
    found = [tool for server in servers for tool in _listed(server)]
    return [(tool.name, tool.description or "", tool.input_schema) for tool in found]


def _schema(node: object) -> Mapping[str, object]:
    return node if isinstance(node, Mapping) else {}


def _listed(server: Connect) -> list[types.Tool]:
    """Every tool of a server."""

    async def read() -> list[types.Tool]:
        found: list[types.Tool] = []
        cursor: str | None = None
        async with _client(server) as client:
            for _ in range(MAX_PAGES):
                page = await client.list_tools(cursor=cursor)
                found += page.tools
                cursor = page.next_cursor
                if cursor is None:
                    break
        return found

    async def patient() -> list[types.Tool]:
        with anyio.fail_after(_PATIENCE):
            return await read()

    code: Code = "upstream_unreachable"
    try:
        return anyio.run(patient)
    except MCPError as problem:
        code = _denial(problem)
    except ExceptionGroup as problems:  # the SDK's tasks wrap what a server answered
        said: Exception | None = problems.subgroup(MCPError)
        while isinstance(said, ExceptionGroup):
            said = said.exceptions[0]
        if isinstance(said, MCPError):
            code = _denial(said)
    except (OSError, TimeoutError):
        pass
    raise RequestRefusedError(code)


def _denial(problem: MCPError) -> Code:
    """Whether a server refused who asks, which its owner can mend, or cannot be reached."""
    said: object = problem.error.data.get("code") if isinstance(problem.error.data, dict) else None
    if said == "upstream_unauthorized":
        return "upstream_unauthorized"
    return "upstream_forbidden" if said == "upstream_forbidden" else "upstream_unreachable"


def _client(server: Connect) -> Client:
    """The SDK's client of a server of any kind."""
    if isinstance(server, ServerCommand):
        words = list(server.words)
        variables, folder = dict(server.variables) or None, server.folder
        return Client(
            StdioServerParameters(command=words[0], args=words[1:], env=variables, cwd=folder)
        )
    return Client(cast("ServerAddress", server).streams(Limits(answer=_PATIENCE)))


def _roots(profile: Profile) -> Mapping[RootName, Root]:
    """The roots that are noised, of all templates, as a person would describe them."""
    found: dict[RootName, Root] = {}
    for template in profile.templates:
        for root in Graph.of(template).roots:
            found.setdefault(root, template.roots[root])
    return MappingProxyType(found)


def _behind(profile: Profile, formula: Node) -> Iterator[RootName]:
    """The roots under a formula, each name of it looked up in the first template that has it."""
    for name in names(formula):
        graph = next(each for each in map(Graph.of, profile.templates) if name in each)
        yield from graph.rests_on(Variable(name))


def _shares(
    profile: Profile, roots: Mapping[RootName, Root], formulas: Iterable[Node]
) -> tuple[RootCost, ...]:
    """The roots behind what is asked, at the price that the profile's budgets give them."""
    behind = {root for formula in formulas for root in _behind(profile, formula)}
    prices: dict[RootName, RootCost] = {}
    for plan in profile.plans():
        for share in plan.shares:
            made = RootCost(
                root=share.root,
                unit=roots[share.root].unit,
                epsilon=float(share.epsilon),
                step=share.domain.step,
            )
            prices.setdefault(share.root, made)
    return tuple(prices[root] for root in prices if root in behind)
