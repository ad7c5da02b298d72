"""An MCP server that knows one person's noised values and nothing else.

It speaks to a `Person`, so that whatever is asked, through whichever tool, in whatever words and
however often, is answered from what was noised once. Every tool only reads. A refusal is a tool
error with the code and the fixed text of `channels.faults`; no error quotes an argument, but for
the names of a formula: whoever misspells one is told which, where, and what it may have been.
"""

import base64
import difflib
import json
import re
from collections.abc import Callable, Mapping
from datetime import date
from functools import cache, lru_cache
from importlib.metadata import version
from types import MappingProxyType
from typing import Any, Final

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from starlette.types import ASGIApp

from rootguard.channels.faults import FAULTS, RequestRefusedError, fault_of
from rootguard.channels.mcp.jsonrpc import TEXTS
from rootguard.channels.mcp.transport import (
    MAX_MESSAGE,
    RequestFilter,
    plain_errors,
    stdio_streams,
)
from rootguard.channels.tools.words import text_words
from rootguard.errors import FormulaError, FormulaNameError, FormulaSyntaxError, RootGuardError
from rootguard.events import to_record
from rootguard.expressions import Variable, parse, substitute, to_text
from rootguard.expressions import names as names_in
from rootguard.graph import Graph, GraphNode
from rootguard.language.fold import key_of
from rootguard.language.names import formulas, spellings_of
from rootguard.session import Person
from rootguard.session.session import speak_to
from rootguard.template import Template
from rootguard.values import RootName

PROFILE_URI: Final = "rootguard://profile"
TRANSCRIPT_URI: Final = "rootguard://transcript"
PATH: Final = "/mcp"
MAX_NAMES: Final = 100
"""Names in one call: a person has a few dozen values."""
MAX_TEXT: Final = 10_000
"""Characters of a formula or a question; reading one takes time in proportion."""
MAX_EVENTS: Final = 1_000
"""Events of the transcript that a client is shown: more than an agent can read, and bounded."""

_INSTRUCTIONS: Final = (
    "Values of one person, noised once to protect them. They are approximate on purpose, and the "
    "same whenever they are asked; asking again or differently brings no better ones. "
    "Start with list_values."
)
# A shield, drawn here: a client that shows tools can tell whose they are without fetching anything.
_SHIELD: Final = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'>"
    "<path fill='#2f6f4f' d='M12 2l8 3v6c0 5-3.4 9-8 11-4.6-2-8-6-8-11V5z'/>"
    "<path fill='#fff' d='M11 7h2v6h3l-4 5-4-5h3z'/></svg>"
)
ICON: Final = types.Icon(
    src=f"data:image/svg+xml;base64,{base64.b64encode(_SHIELD.encode()).decode()}",
    mime_type="image/svg+xml",
    sizes=["any"],
)
_JSON: Final = "application/json"
_Schema = dict[str, Any]
_Arguments = Mapping[str, object]
_READ_ONLY: Final = types.ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


@cache  # reading the package's metadata takes longer than a session
def _version() -> str:
    return version("rootguard")


def build_server(person: Person) -> Server[Any]:
    """The server for a person, over any transport."""
    answers = _Answers(person)

    async def list_tools(
        ctx: object,  # noqa: ARG001
        params: types.PaginatedRequestParams | None,  # noqa: ARG001
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=answers.tools)

    async def call_tool(
        ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if params.name not in answers.calls:
            raise MCPError(types.INVALID_PARAMS, TEXTS[types.INVALID_PARAMS])
        said = ctx.session.client_params
        speak_to(said.client_info.name if said is not None else "MCP client", params.name)
        return await anyio.to_thread.run_sync(answers.call, params.name, params.arguments or {})

    async def list_resources(
        ctx: object,  # noqa: ARG001
        params: types.PaginatedRequestParams | None,  # noqa: ARG001
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=list(_RESOURCES))

    async def list_templates(
        ctx: object,  # noqa: ARG001
        params: types.PaginatedRequestParams | None,  # noqa: ARG001
    ) -> types.ListResourceTemplatesResult:
        # There are none, but who declares resources is asked for them.
        return types.ListResourceTemplatesResult(resource_templates=[])

    async def read_resource(
        ctx: object,  # noqa: ARG001
        params: types.ReadResourceRequestParams,
    ) -> types.ReadResourceResult:
        read = {PROFILE_URI: answers.profile, TRANSCRIPT_URI: answers.transcript}.get(params.uri)
        if read is None:
            raise MCPError(types.INVALID_PARAMS, TEXTS[types.INVALID_PARAMS])
        text = _text(await anyio.to_thread.run_sync(read))
        contents = types.TextResourceContents(uri=params.uri, mime_type=_JSON, text=text)
        return types.ReadResourceResult(contents=[contents])

    server: Server[Any] = Server(
        "rootguard",
        title="RootGuard",
        version=_version(),
        instructions=_INSTRUCTIONS,
        icons=[ICON],
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        get_tool_input_schema=answers.input_schema,
    )
    # In place of the SDK's tracing, which puts names that somebody sent into spans.
    server.middleware = [plain_errors]
    return server


def direct_tools(
    person: Person,
) -> tuple[list[types.Tool], Callable[[str, _Arguments], types.CallToolResult | None]]:
    """The server's tools, and what answers a call of one where no wire is wanted.

    None for a tool that there is not.
    """
    answers = _Answers(person)
    return (
        answers.tools,
        lambda tool, arguments: answers.call(tool, arguments) if tool in answers.calls else None,
    )


def run_stdio(person: Person) -> None:
    """Serve on standard input and output until the input ends."""

    async def serve() -> None:
        server = build_server(person)
        async with stdio_streams() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    anyio.run(serve)


def http_app(person: Person, *, key: str | None = None, loopback: bool = True) -> ASGIApp:
    """An ASGI application at `/mcp`; every request stands alone, in either protocol revision.

    On a loopback address only local host names and origins are served, so that a web page cannot
    reach in; elsewhere a key is needed.
    """
    if not loopback and key is None:
        raise ValueError("a server that others can reach needs a key")
    local = ("127.0.0.1", "localhost", "[::1]")
    hosts = [spelling for name in local for spelling in (name, f"{name}:*")]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=loopback,
        allowed_hosts=hosts,
        allowed_origins=[f"http://{host}" for host in hosts],
    )
    app = build_server(person).streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=MAX_MESSAGE,
        transport_security=security,
    )
    return RequestFilter(app, key=key)


_SHOWN: Final = 64  # characters of a name that somebody wrote
_LONGEST: Final = 5  # words of what a calculation is called
_JUDGED: Final = frozenset(
    (
        *("high", "low", "normal", "elevated", "raised", "abnormal", "risk", "risky", "healthy"),
        *("ok", "okay", "fine", "bad", "good", "class", "category", "dangerous", "worrying"),
    )
)


class NamedMistakeError(FormulaError):
    """A formula of the caller's own cannot be used; says which name or place, never a value."""


def _spellings(person: Person, nodes: Mapping[str, object]) -> Mapping[str, str]:
    """Every spelling of the person's values that means one of them only, and which."""
    named = []
    for name in person.names:
        root = person.roots.get(RootName(name))
        named.append((name, () if root is None else tuple(root.aliases), name in nodes))
    return _meant(tuple(named))


@lru_cache(maxsize=256)  # hundreds of spellings, the same for all who have the same templates
def _meant(named: tuple[tuple[str, tuple[str, ...], bool], ...]) -> Mapping[str, str]:
    """The same, given names, their aliases, and whether the index may know them."""
    found: dict[str, set[str]] = {}
    for name, aliases, listed in named:
        texts = [s.text for s in spellings_of(name, aliases)] if listed else [name]
        for text in texts:
            found.setdefault(key_of(text), set()).add(name)
    for name, _, _ in named:
        found[key_of(name)] = {name}
    return MappingProxyType(
        {key: next(iter(all_)) for key, all_ in found.items() if len(all_) == 1 and key}
    )


def _keys_of(template: Template) -> set[str]:
    """What a template's calculation is called."""
    texts = (*formulas().get(template.name, ()), template.name, template.target.name)
    return {key_of(text) for text in texts}


class _Answers:
    """What the tools and resources say. Called from worker threads."""

    def __init__(self, person: Person) -> None:
        self._person = person
        self._nodes: dict[str, tuple[GraphNode, Graph]] = {}
        for graph in map(Graph.of, person.templates):
            for node in graph.order:
                self._nodes.setdefault(node.name, (node, graph))
        self._called = _spellings(person, self._nodes)
        self.calls: dict[str, Callable[[_Arguments], dict[str, object]]] = {
            "list_values": self._list,
            "get_values": self._get,
            "compute": self._compute,
            "answer": self._answer,
            "assess": self._assess,
        }
        self.tools = list(_tools(tuple(template.name for template in person.templates)))
        self._schemas = {tool.name: tool.input_schema for tool in self.tools}

    def input_schema(self, tool: str) -> _Schema | None:
        return self._schemas.get(tool)

    def call(self, tool: str, arguments: _Arguments) -> types.CallToolResult:
        """A tool's result, or its refusal in fixed words."""
        try:
            self._check_fields(tool, arguments)
            content = self.calls[tool](arguments)
            text = _text(content)
        except Exception as problem:  # noqa: BLE001 - only its class decides what is said
            fault = fault_of(problem)
            message = str(problem) if isinstance(problem, NamedMistakeError) else fault.text
        else:
            said = types.TextContent(type="text", text=text)
            return types.CallToolResult(content=[said], structured_content=content)
        refused = types.TextContent(
            type="text", text=_text({"code": fault.code, "message": message})
        )
        return types.CallToolResult(content=[refused], is_error=True)

    def _check_fields(self, tool: str, arguments: _Arguments) -> None:
        if not arguments.keys() <= self._schemas[tool]["properties"].keys():
            raise RequestRefusedError("unknown_field")

    def profile(self) -> dict[str, object]:
        """What is public about the person's values, as far as the policy lets them be asked."""
        public = self._person.describe()
        allowed = frozenset(self._person.names)
        for part, found in public.items():
            if part != "templates" and isinstance(found, dict):
                public[part] = {name: said for name, said in found.items() if name in allowed}
            elif part != "templates" and isinstance(found, list):
                public[part] = [name for name in found if name in allowed]
        return public

    def transcript(self) -> dict[str, object]:
        """What was released and refused through this server, the latest of it."""
        records = [to_record(each) for each in self._person.transcript()[-MAX_EVENTS:]]
        total = records[-1].get("turn", len(records)) if records else 0
        return {"total": total, "events": records}

    def _list(self, arguments: _Arguments) -> dict[str, object]:  # noqa: ARG002
        return {"values": [self._described(name) for name in self._person.names]}

    def _described(self, name: str) -> dict[str, object]:
        if name not in self._nodes:
            return {"name": name, "kind": "identifier", "unit": "", "available": True}
        node, graph = self._nodes[name]
        roots = graph.rests_on(Variable(name))
        return {
            "name": name,
            "kind": node.kind,
            "unit": node.unit,
            "available": all(self._person.known(root) for root in roots),
            "also_called": self._aliases(name),
            "rests_on": list(roots),
        }

    def _aliases(self, name: str) -> list[str]:
        root = self._person.roots.get(RootName(name))
        return [] if root is None else list(root.aliases)

    def _get(self, arguments: _Arguments) -> dict[str, object]:
        """What can be given is given; a refusal names a place in the list only."""
        names = arguments.get("names")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise RequestRefusedError("wrong_type")
        if not 1 <= len(names) <= MAX_NAMES:
            raise RequestRefusedError("bad_value")
        values: list[dict[str, object]] = []
        refused: list[dict[str, object]] = []
        first: RootGuardError | None = None
        for place, asked in enumerate(names):
            name = self._called.get(key_of(asked), asked)
            try:
                value = self._person.release(name)
                shown = value.isoformat() if isinstance(value, date) else value
                values.append({"name": name, "value": shown, "unit": self._person.unit(name)})
            except RootGuardError as refusal:
                fault = fault_of(refusal)
                first = first or RequestRefusedError(fault.code)
                refused.append({"position": place, "code": fault.code, "message": fault.text})
        if not values and first is not None:
            raise first
        return {"values": values, "refused": refused}

    def _compute(self, arguments: _Arguments) -> dict[str, object]:
        formula = _line(arguments, "formula")
        try:
            formula = self._person.spelled(formula)
            return {"value": self._person.derive(self._in_own_names(formula))}
        except (FormulaNameError, FormulaSyntaxError) as problem:
            mistake = self._mistake(formula, problem)
        raise mistake

    def _in_own_names(self, formula: str) -> str:
        """A formula with the names of values in the place of other spellings of them."""
        tree = parse(formula)
        own = {
            name: Variable(self._called[key_of(name)])
            for name in names_in(tree)
            if name not in self._nodes and key_of(name) in self._called
        }
        return to_text(substitute(tree, own)) if own else formula

    def _mistake(
        self, formula: str, problem: FormulaNameError | FormulaSyntaxError
    ) -> "NamedMistakeError":
        """What is wrong with a formula, where, and what was probably meant."""
        if isinstance(problem, FormulaSyntaxError):
            return NamedMistakeError(f"the formula cannot be read: {problem}")
        name = problem.name[:_SHOWN]
        found = re.search(rf"(?<!\w){re.escape(problem.name)}(?!\w)", formula)
        where = "" if found is None else f" (at character {found.start() + 1} of the formula)"
        known = [each for each in problem.known if each in self._person.names] or problem.known
        near = difflib.get_close_matches(name.casefold(), known, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]}?" if near else "; list_values says what there is"
        return NamedMistakeError(f"there is nothing called {name}{where}{hint}")

    def _answer(self, arguments: _Arguments) -> dict[str, object]:
        question = _line(arguments, "question")
        said = self._person.answer(question)
        judged = [self._judged(name) for name in self._meant(question)]
        return {"answer": " ".join((said, *judged))}

    def _meant(self, question: str) -> list[str]:
        """The templates of which a question asks whether a value is high, low or normal."""
        words = text_words(question)
        if not _JUDGED & set(words):
            return []
        keys = {
            key_of("".join(words[start : start + size]))
            for size in range(1, _LONGEST + 1)
            for start in range(len(words) - size + 1)
        }
        found = [t.name for t in self._person.templates if t.risk and _keys_of(t) & keys]
        only = [t.name for t in self._person.templates if t.risk]
        named = any(key in self._called for key in keys)
        return found or (only if len(only) == 1 and not named else [])

    def _judged(self, template: str) -> str:
        """In which of a template's classes its target lies."""
        found = self._person.assess(template)
        return f"By the classes of {template}: {found['risk'] or 'none of them'}."

    def _assess(self, arguments: _Arguments) -> dict[str, object]:
        asked = _line(arguments, "template")
        key = key_of("".join(text_words(asked)))
        named = [t.name for t in self._person.templates if asked == t.name or key in _keys_of(t)]
        return self._person.assess(named[0] if named else asked)


def _line(arguments: _Arguments, name: str) -> str:
    text = arguments.get(name)
    if not isinstance(text, str):
        raise RequestRefusedError("wrong_type")
    if not 1 <= len(text) <= MAX_TEXT:
        raise RequestRefusedError("bad_value")
    return text


def _text(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False)


_RESOURCES: Final = tuple(
    types.Resource(uri=uri, name=name, title=title, description=description, mime_type=_JSON)
    for uri, name, title, description in (
        (
            PROFILE_URI,
            "profile",
            "What may be asked",
            "Templates, roots with units and public bounds, formulas. No value.",
        ),
        (
            TRANSCRIPT_URI,
            "transcript",
            "What was released",
            "Every value that this server gave, and every refusal, in order.",
        ),
    )
)


def _object(properties: _Schema, *, optional: tuple[str, ...] = ()) -> _Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def _array(items: _Schema, **limits: int) -> _Schema:
    return {"type": "array", "items": items, **limits}


def _said(description: str, **limits: object) -> _Schema:
    return {"type": "string", "description": description, **limits}


@lru_cache(maxsize=256)  # nested schemas, the same for all who have the same templates
def _tools(templates: tuple[str, ...]) -> tuple[types.Tool, ...]:
    """The five tools; `assess` lists the templates of this person."""
    string: _Schema = {"type": "string"}
    names: _Schema = _array(string)
    text: _Schema = {"minLength": 1, "maxLength": MAX_TEXT}
    described = _object(
        {
            "name": string,
            "kind": {"type": "string", "enum": ["root", "derived", "target", "identifier"]},
            "unit": string,
            "available": {"type": "boolean"},
            "also_called": names,
            "rests_on": names,
        },
        optional=("also_called", "rests_on"),
    )
    number: _Schema = {"type": "number"}
    shown = {"anyOf": [number, string, {"type": "boolean"}]}
    given = _object({"name": string, "value": shown, "unit": string})
    codes = {"type": "string", "enum": sorted(FAULTS)}
    refused = _object({"position": {"type": "integer"}, "code": codes, "message": string})
    assessed: _Schema = {
        "template": string,
        "target": string,
        "value": number,
        "unit": string,
        "risk": {"anyOf": [string, {"type": "null"}]},
    }
    asked = _array(_said("A name that list_values gives."), minItems=1, maxItems=MAX_NAMES)
    formula = _said("Such as age * ast / (plt * sqrt(alt)): names of values, numbers, + - * / **, "
                    "comparisons, sqrt, ln, log10, exp, abs, min, max.", **text)  # fmt: skip
    question = _said('In words, such as "What is my FIB-4, and is it high?"', **text)
    template = _said("Which assessment.", enum=list(templates))
    return (
        _tool(
            "list_values",
            "Which values may be asked for, with their units. Gives no value.",
            _object({}),
            _object({"values": _array(described)}),
        ),
        _tool(
            "get_values",
            "Values by name: numbers in the unit stated, identifiers as tokens.",
            _object({"names": asked}),
            _object({"values": _array(given), "refused": _array(refused)}),
        ),
        _tool(
            "compute",
            "The value of any formula of the person's values.",
            _object({"formula": formula}),
            _object({"value": number}),
        ),
        _tool(
            "answer",
            "Answers a question about the person's values in words.",
            _object({"question": question}),
            _object({"answer": string}),
        ),
        _tool(
            "assess",
            "What a template comes to: its target value and the risk class.",
            _object({"template": template}),
            _object(assessed),
        ),
    )


def _tool(name: str, description: str, arguments: _Schema, result: _Schema) -> types.Tool:
    return types.Tool(
        name=name,
        title=name.replace("_", " ").capitalize(),
        description=description,
        input_schema=arguments,
        output_schema=result,
        annotations=_READ_ONLY,
        icons=[ICON],
    )
