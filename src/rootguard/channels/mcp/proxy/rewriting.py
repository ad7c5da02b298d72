"""What passes between a client and a server behind the proxy, rewritten in both directions.

To the server: each request is rebuilt from what may leave. Every method has its own rule here, and
what has none is refused. Names, addresses and opaque strings pass as they are only if the server
said them first and arguments get what may leave (`offers`); a capability is a name with true or
false; nothing else of a message is kept. The server is told the proxy's name in place of the
client's, and of tasks that the client runs for it names of the proxy's own.

To the client: issued tokens are put back in `content`, in embedded resources, in messages and
errors, and in `structuredContent`, so that both forms of a result stay equal. Addresses, opaque
strings, binary data, schemas and names stay as they are.
"""

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from rootguard.channels.faults import RequestRefusedError
from rootguard.channels.mcp.jsonrpc import Message
from rootguard.channels.mcp.proxy.offers import (
    Arguments,
    Listing,
    Offers,
    ParameterReading,
    ServerRequest,
    names_in,
)
from rootguard.channels.text.edits import Change

if TYPE_CHECKING:
    from mcp.shared.uri_template import UriTemplate

CLIENT_INFO: Final[Mapping[str, str]] = {
    "name": "rootguard-proxy",
    "version": version("rootguard"),
}
_META: Final = "io.modelcontextprotocol/"
# The protocol's levels, which are those of syslog (RFC 5424).
LEVELS: Final = (
    *("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"),
)
_VERSION: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
# Not `experimental`: what is in it is anybody's choice.
_CAPABILITIES: Final = frozenset(("elicitation", "roots", "sampling", "tasks"))
_FLAG_DEPTH: Final = 4
"""Levels of a capability; the protocol has three (tasks, requests, sampling)."""
# What a flag may be called. Neither digits nor blanks, so that no number passes as a name.
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z/]{0,63}")
_MAX_TTL: Final = 10**9
"""Milliseconds, eleven days. A larger number asks for nothing sensible, and may be a value."""

_Rule = Callable[["RequestRewriter", Message], Message]
_STATES: Final = ("working", "input_required", "completed", "failed", "cancelled")
_KEPT: Final = 256
"""Tasks that a client runs for a server: four times the requests that it may have under way."""
# What a client looks up, compares or sends back, schemas, and binary data.
_AS_IT_IS: Final = frozenset(
    (
        *("_meta", "annotations", "blob", "data", "icons", "id", "inputSchema", "lastModified"),
        *("method", "mimeType", "model", "name", "nextCursor", "outputSchema", "requestState"),
        *("requestedSchema", "resultType", "role", "status", "taskId", "type", "uri"),
        *("uriTemplate", "url", "stopReason", "toolUseId", "elicitationId", "mode", "action"),
    )
)
# JSON whose keys are a tool's own: there `name` or `data` is no field of the protocol.
_WHOLE: Final = frozenset(("structuredContent", "input", "arguments"))
_BINARY: Final = frozenset(("blob", "data"))
_FIELDS: Final = frozenset(
    ("content", "isError", "structuredContent", "text", "type", "resultType", "complete", "_meta")
)
_SPOKEN: Final = re.compile(r"[^\W_]")
_APART: Final = "\n;\n"
"""Between texts: nothing that is issued holds it or runs over it."""
MAX_DEPTH: Final = 64
"""Levels down to which results are restored; deeper ones stay as they are, which leaks nothing."""


class RequestRewriter:
    """Rebuilds requests to one service."""

    def __init__(self, arguments: Arguments, offers: Offers) -> None:
        self._arguments = arguments
        self._offers = offers
        self._tasks = ClientTasks()
        self._understood: dict[tuple[Listing, str], tuple[Message, ParameterReading]] = {}

    @staticmethod
    def knows(method: str) -> bool:
        """Whether there is a rule for a method."""
        return method in _RULES

    def params(self, method: str, params: Message) -> Message:
        """The parameters of a request, without `_meta`. Raises what `channels.faults` maps."""
        keys, rule = _RULES[method]
        if not params.keys() <= {*keys, "_meta"}:
            raise RequestRefusedError("unknown_field")
        made = rule(self, params)
        if "inputResponses" in params:
            made["inputResponses"] = self._responses(params["inputResponses"])
        if "requestState" in params:
            made["requestState"] = self._issued(params["requestState"])
        return made

    def meta(self, params: Message) -> Message:
        """What is kept of `_meta`: the revision, capabilities and the level of logs."""
        given = params.get("_meta")
        made: Message = {}
        if not isinstance(given, dict):
            return made
        if f"{_META}protocolVersion" in given:
            made[f"{_META}protocolVersion"] = _revision(given[f"{_META}protocolVersion"])
            made[f"{_META}clientInfo"] = dict(CLIENT_INFO)
            capabilities = given.get(f"{_META}clientCapabilities")
            made[f"{_META}clientCapabilities"] = _capabilities(capabilities)
        if given.get(f"{_META}logLevel") in LEVELS:
            made[f"{_META}logLevel"] = given[f"{_META}logLevel"]
        return made

    def asks(self, asked: ServerRequest) -> Message:
        """The parameters of a server's request, with the client's own name of a task in it."""
        if not asked.method.startswith("tasks/") or asked.method == "tasks/list":
            return asked.params
        return {**asked.params, "taskId": self._tasks.own(asked.params.get("taskId"))}

    def reply(self, asked: ServerRequest, result: Message) -> Message:
        """The client's answer to a request of the server."""
        if asked.method in ("tasks/get", "tasks/cancel"):
            return self._tasks.state(asked.params.get("taskId"), result, self.text)
        if asked.method == "tasks/result":
            return self.reply(self._tasks.began(asked.params.get("taskId")), result)
        if isinstance(result.get("task"), dict):
            alias = self._tasks.begin(asked, _string(result["task"].get("taskId")))
            return {"task": self._tasks.state(alias, result["task"], self.text)}
        if asked.method == "sampling/createMessage":
            return self._sampled(asked.params, result)
        if asked.method == "elicitation/create":
            return self._elicited(asked.params, result)
        if asked.method == "roots/list":
            roots = result.get("roots")
            return {"roots": [self._root(root) for root in _objects(roots)]}
        raise RequestRefusedError("unknown_kind")

    def names_of(self, tool: object) -> frozenset[str]:
        """What the schemas of a tool that was called name. A reply has tokens elsewhere."""
        known = self._understood.get(("tools", str(tool)))
        return frozenset() if known is None else known[1].names

    def learn(self, server: str, tool: object, result: Message) -> None:
        """Take values from a tool's result, if the owner's policy trusts the tool."""
        self._arguments.learn(server, _string(tool), result)

    def note_refusal(self, problem: Exception, places: Sequence[Change]) -> None:
        """Write into the owner's audit log that a request was refused, and where."""
        self._arguments.note_refusal(problem, places)

    def text(self, text: object) -> str:
        """A text by the usual rules."""
        return self._arguments.text(_string(text))

    def _initialize(self, params: Message) -> Message:
        return {
            "protocolVersion": _revision(params.get("protocolVersion")),
            "capabilities": _capabilities(params.get("capabilities")),
            "clientInfo": dict(CLIENT_INFO),
        }

    def _page(self, params: Message) -> Message:
        cursor = params.get("cursor")
        return {} if cursor is None else {"cursor": self._issued(cursor)}

    def _tool(self, params: Message) -> Message:
        name = _string(params.get("name"))
        tool = self._offers.get("tools", name)
        if tool is None:
            raise RequestRefusedError("unknown_name")
        reading = self._reading("tools", name, tool, _tool_schema)
        made: Message = {"name": name}
        given = params.get("arguments")
        if given is not None or reading.bound:
            made["arguments"] = self._arguments.fill(reading, _object(given or {}))
        if "task" in params:
            ttl = _object(params["task"]).get("ttl")
            whole = isinstance(ttl, int) and not isinstance(ttl, bool) and 0 <= ttl <= _MAX_TTL
            made["task"] = {"ttl": ttl} if whole else {}
        return made

    def _prompt(self, params: Message) -> Message:
        name = _string(params.get("name"))
        reading = self._prompt_reading(name)
        given = params.get("arguments")
        made: Message = {"name": name}
        if given is not None or reading.bound:
            made["arguments"] = self._texts(reading, _object(given or {}))
        return made

    def _prompt_reading(self, name: str) -> ParameterReading:
        prompt = self._offers.get("prompts", name)
        if prompt is None:
            raise RequestRefusedError("unknown_name")
        return self._reading("prompts", name, prompt, _prompt_schema)

    def _read(self, params: Message) -> Message:
        return {"uri": self.uri(params.get("uri"))}

    def uri(self, uri: object) -> str:
        """An address: as the server gave it, from one of its templates, or with nothing private."""
        text = _string(uri)
        if text in self._offers.uris:
            return text
        for template in self._offers.all("templates"):
            name = str(template["uriTemplate"])
            pattern = _template(name)
            found = None if pattern is None else pattern.match(text)
            if pattern is None or found is None:
                continue
            made = self._texts(self._template_reading(name, pattern.variable_names), dict(found))
            return pattern.expand(made)
        return self._plain_uri(text, strict=True)

    @staticmethod
    def fits(template: str, uri: str) -> bool:
        """Whether an address is one of a template."""
        pattern = _template(template)
        return pattern is not None and pattern.match(uri) is not None

    def _plain_uri(self, uri: str, *, strict: bool) -> str:
        shown = unquote(uri)
        cleaned = self._arguments.text(shown, strict=strict)
        return uri if cleaned == shown else quote(cleaned, safe="/:?#[]@!$&'()*+,;=~-._%")

    def _template_reading(self, name: str, variables: list[str]) -> ParameterReading:
        template = self._offers.get("templates", name)
        if template is None:
            raise RequestRefusedError("unknown_name")
        schema = {
            "type": "object",
            "properties": {variable: {"type": "string"} for variable in variables},
        }
        return self._reading("templates", name, template, lambda _: schema)

    def _complete(self, params: Message) -> Message:
        ref, argument = _object(params.get("ref")), _object(params.get("argument"))
        if ref.get("type") == "ref/prompt":
            name = _string(ref.get("name"))
            made: Message = {"ref": {"type": "ref/prompt", "name": name}}
            reading = self._prompt_reading(name)
        else:
            name = _string(ref.get("uri"))
            made = {"ref": {"type": "ref/resource", "uri": name}}
            pattern = _template(name)
            reading = self._template_reading(
                name, [] if pattern is None else pattern.variable_names
            )
        about = _string(argument.get("name"))
        known = {*reading.tool_map.unbound, *reading.bound}
        known |= {question.parameter for question in reading.tool_map.asked}
        if (about,) not in known:
            raise RequestRefusedError("unknown_name")
        value = _string(argument.get("value"))
        typed = self._texts(reading, {about: value}, required=False)[about]
        if reading.personal and (about,) not in reading.bound:
            # The beginning of a name, or of a number, is read as neither.
            typed = self._arguments.cut(value, typed, (about,))
        made["argument"] = {"name": about, "value": typed}
        if "context" in params:
            before = _object(_object(params["context"]).get("arguments") or {})
            made["context"] = {"arguments": self._texts(reading, before, required=False)}
        return made

    def _level(self, params: Message) -> Message:
        if params.get("level") not in LEVELS:
            raise RequestRefusedError("bad_value")
        return {"level": params["level"]}

    def _listen(self, params: Message) -> Message:
        wanted = _object(params.get("notifications"))
        made = {key: value for key, value in wanted.items() if _is_flag(key, value)}
        if wanted.get("resourceSubscriptions"):
            addresses = wanted["resourceSubscriptions"]
            if not isinstance(addresses, list):
                raise RequestRefusedError("wrong_type")
            made["resourceSubscriptions"] = [self.uri(address) for address in addresses]
        return {"notifications": made}

    def _task(self, params: Message) -> Message:
        return {"taskId": self._issued(params.get("taskId"))}

    def _nothing(self, params: Message) -> Message:  # noqa: ARG002
        return {}

    def _reading(
        self, listing: Listing, name: str, offer: Message, schema: Callable[[Message], Message]
    ) -> ParameterReading:
        """How an offer is understood; again only if it was offered anew."""
        known = self._understood.get((listing, name))
        if known is not None and known[0] is offer:
            return known[1]
        made: ParameterReading | None = None
        # An agent may still answer what it was asked before the offer was changed.
        for each in (*self._offers.before(listing, name), offer):
            about = str(each.get("description") or "")
            reading = self._arguments.reading(name, about, schema(each))
            given = frozenset(names_in(each.get("outputSchema")))
            reading = replace(reading, names=reading.names | given)
            made = reading if made is None else self._arguments.after(made, reading)
        if made is None:
            raise RequestRefusedError("unknown_name")
        self._understood[listing, name] = (offer, made)
        return made

    def _texts(
        self, reading: ParameterReading, given: Mapping[str, Any], *, required: bool = True
    ) -> dict[str, Any]:
        """Arguments that are texts; a released number is written as one."""
        made = self._arguments.fill(reading, dict(given))
        return {
            key: value if isinstance(value, str | list) else str(value)
            for key, value in made.items()
            if required or key in given
        }

    def _issued(self, opaque: object) -> str:
        text = _string(opaque)
        if text not in self._offers.opaque:
            raise RequestRefusedError("bad_value")
        return text

    def _responses(self, given: object) -> Message:
        made: Message = {}
        for key, answer in _object(given).items():
            asked = self._offers.inputs.get(key)
            if asked is None:
                raise RequestRefusedError("bad_value")
            made[key] = self.reply(asked, _object(answer))
        return made

    def _sampled(self, params: Message, result: Message) -> Message:
        if result.get("role") not in ("user", "assistant"):
            raise RequestRefusedError("bad_value")
        content = result.get("content")
        question = _last_text(params.get("messages"))
        blocks = [self._block(each, question) for each in _objects(content)]
        made: Message = {
            "role": result["role"],
            "content": blocks if isinstance(content, list) else blocks[0],
            "model": self.text(result.get("model")),
        }
        if isinstance(result.get("stopReason"), str):
            made["stopReason"] = self.text(result["stopReason"])
        return made

    def _block(self, block: Message, question: str) -> Message:
        if block.get("type") == "text":
            text = self._arguments.text(_string(block.get("text")), question=question)
            return {"type": "text", "text": text}
        if block.get("type") == "tool_use":
            return {
                "type": "tool_use",
                "id": self.text(block.get("id")),
                "name": self.text(block.get("name")),
                "input": self._arguments.json(_object(block.get("input"))),
            }
        raise RequestRefusedError("media_refused")

    def _elicited(self, params: Message, result: Message) -> Message:
        action = result.get("action")
        if action not in ("accept", "decline", "cancel"):
            raise RequestRefusedError("bad_value")
        if action != "accept" or result.get("content") is None:
            return {"action": action}
        schema = params.get("requestedSchema")
        owner = self._arguments.owner  # a client asks its user, and passes on what they answer
        reading = owner.reading(
            "elicitation",
            str(params.get("message") or ""),
            schema if isinstance(schema, dict) else {},
        )
        content = owner.fill(reading, _object(result["content"]))
        return {"action": "accept", "content": content}

    def _root(self, root: Message) -> Message:
        made: Message = {"uri": self._plain_uri(_string(root.get("uri")), strict=False)}
        if root.get("name") is not None:
            made["name"] = self.text(root["name"])
        return made


_INPUT: Final = ("inputResponses", "requestState")
_RULES: Final[Mapping[str, tuple[tuple[str, ...], _Rule]]] = {
    "completion/complete": (("ref", "argument", "context"), RequestRewriter._complete),
    "initialize": (("protocolVersion", "capabilities", "clientInfo"), RequestRewriter._initialize),
    "logging/setLevel": (("level",), RequestRewriter._level),
    "prompts/get": (("name", "arguments", *_INPUT), RequestRewriter._prompt),
    "prompts/list": (("cursor",), RequestRewriter._page),
    "resources/list": (("cursor",), RequestRewriter._page),
    "resources/read": (("uri", *_INPUT), RequestRewriter._read),
    "resources/subscribe": (("uri",), RequestRewriter._read),
    "resources/templates/list": (("cursor",), RequestRewriter._page),
    "resources/unsubscribe": (("uri",), RequestRewriter._read),
    "server/discover": ((), RequestRewriter._nothing),
    "subscriptions/listen": (("notifications",), RequestRewriter._listen),
    "tasks/cancel": (("taskId",), RequestRewriter._task),
    "tasks/get": (("taskId",), RequestRewriter._task),
    "tasks/list": (("cursor",), RequestRewriter._page),
    "tasks/result": (("taskId",), RequestRewriter._task),
    "tools/call": (("name", "arguments", "task", *_INPUT), RequestRewriter._tool),
    "tools/list": (("cursor",), RequestRewriter._page),
}


class ClientTasks:
    """Names for tasks, and what was asked; the oldest are forgotten."""

    def __init__(self) -> None:
        self._tasks: OrderedDict[str, tuple[ServerRequest, str]] = OrderedDict()
        self._next = 0

    def begin(self, asked: ServerRequest, name: str) -> str:
        """A name for the client's new task."""
        self._next += 1
        alias = f"task-{self._next}"
        self._tasks[alias] = (asked, name)
        if len(self._tasks) > _KEPT:
            self._tasks.popitem(last=False)
        return alias

    def own(self, alias: object) -> str:
        """The client's name for a task."""
        return self._find(alias)[1]

    def began(self, alias: object) -> ServerRequest:
        """What was asked when a task began."""
        return self._find(alias)[0]

    def state(self, alias: object, task: Message, text: Callable[[object], str]) -> Message:
        """How a task is, without anything private."""
        self._find(alias)
        if task.get("status") not in _STATES:
            raise RequestRefusedError("bad_value")
        made: Message = {"taskId": alias, "status": task["status"]}
        for key in ("ttl", "pollInterval"):
            value = task.get(key)
            if value is None or (isinstance(value, int) and not isinstance(value, bool)):
                made[key] = value
        for key in ("createdAt", "lastUpdatedAt"):
            if isinstance(task.get(key), str):
                made[key] = "1970-01-01T00:00:00Z"  # when the person did something is theirs
        if isinstance(task.get("statusMessage"), str):
            made["statusMessage"] = text(task["statusMessage"])
        return {key: value for key, value in made.items() if value is not None or key == "ttl"}

    def _find(self, alias: object) -> tuple[ServerRequest, str]:
        found = self._tasks.get(alias) if isinstance(alias, str) else None
        if found is None:
            raise RequestRefusedError("unknown_name")
        return found


class ReplyRestorer:
    """Restores what comes from one service."""

    def __init__(self, restore: Callable[[str], str]) -> None:
        self._restore = restore

    def result(self, method: str, content: Message, names: frozenset[str] = frozenset()) -> Message:
        """A result; lists are schemas and names, which stay. `names` are those of a schema."""
        if method.endswith("/list") or method in ("initialize", "server/discover"):
            return content
        if not self._touched(content, names):
            return content
        if method == "completion/complete":
            return {key: self.anything(value) for key, value in content.items()}
        return self._parts(content, 0)

    def params(self, content: Message) -> Message:
        """The parameters of a request or a notification to the client."""
        return self._parts(content, 0)

    def error(self, error: Message) -> Message:
        """A protocol error: its own code, its message and data restored."""
        made: Message = {"code": error["code"], "message": self._restore(error["message"])}
        if error.get("data") is not None:
            made["data"] = self.anything(error["data"])
        return made

    def anything(self, value: object, depth: int = 0) -> object:
        """Any JSON value, every text in it."""
        if isinstance(value, str):
            return self._restore(value)
        if depth > MAX_DEPTH:
            return value
        if isinstance(value, list):
            return [self.anything(each, depth + 1) for each in value]
        if isinstance(value, dict):
            # Once: done again for names that fall together, every level would double the work.
            made = {key: self.anything(inside, depth + 1) for key, inside in value.items()}
            named = {self._restore(key): inside for key, inside in made.items()}
            return named if len(named) == len(made) else made
        return value

    def _touched(self, content: Message, names: frozenset[str]) -> bool:
        """Whether there may be a token anywhere: one look for all texts is quick.

        None at all is quicker: it asks the vault what was issued. Names of the protocol and of the
        tool's schemas are no tokens, nor is what has neither letter nor digit.
        """
        texts = [
            text
            for text in _texts(content)
            if text not in _FIELDS and text not in names and _SPOKEN.search(text)
        ]
        if not texts:
            return False
        if any("\\" in text for text in texts):  # JSON in a text may spell a token with escapes
            return True
        whole = _APART.join(texts)
        return self._restore(whole) != whole

    def _parts(self, content: Message, depth: int) -> Message:
        return {key: self._part(key, value, depth) for key, value in content.items()}

    def _part(self, key: str, value: object, depth: int) -> object:
        if key in _AS_IT_IS or depth > MAX_DEPTH:
            return value
        if key in _WHOLE:
            return self.anything(value)
        if isinstance(value, str):
            return self._text(value) if key == "text" else self._restore(value)
        if isinstance(value, dict):
            return self._parts(value, depth + 1)
        if isinstance(value, list):
            return [
                self._parts(each, depth + 1)
                if isinstance(each, dict)
                else self._part("", each, depth + 1)
                for each in value
            ]
        return value

    def _text(self, text: str) -> str:
        """A text; one that is JSON is restored as JSON if only that brings every token back."""
        restored = self._restore(text)
        if text[:1] not in ("{", "[") or ("\\" not in text and restored == text):
            return restored
        original = _parsed(text)
        if original is None:
            return restored
        made = self.anything(original)
        return restored if _parsed(restored) == made else json.dumps(made, ensure_ascii=False)


def _tool_schema(tool: Message) -> Message:
    schema = tool.get("inputSchema")
    return schema if isinstance(schema, dict) else {}


def _prompt_schema(prompt: Message) -> Message:
    listed = {str(each.get("name")): each for each in _objects(prompt.get("arguments") or [])}
    return {
        "type": "object",
        "properties": {
            key: {"type": "string", "description": str(each.get("description") or "")}
            for key, each in listed.items()
        },
        "required": [key for key, each in listed.items() if each.get("required") is True],
    }


def _template(text: str) -> "UriTemplate | None":
    from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

    try:
        return UriTemplate.parse(text)
    except InvalidUriTemplate:
        return None


def _revision(value: object) -> str:
    text = _string(value)
    if not _VERSION.fullmatch(text):
        raise RequestRefusedError("bad_value")
    return text


def _capabilities(given: object) -> Message:
    listed = given if isinstance(given, dict) else {}
    return {key: _flags(value, 0) for key, value in listed.items() if key in _CAPABILITIES}


def _flags(value: object, depth: int) -> Message:
    """Names with true, false or more names; nothing else."""
    made: Message = {}
    for key, inside in value.items() if isinstance(value, dict) and depth < _FLAG_DEPTH else ():
        if _is_flag(key, inside):
            made[key] = inside
        elif isinstance(inside, dict) and _WORD.fullmatch(key):
            made[key] = _flags(inside, depth + 1)
    return made


def _is_flag(key: str, value: object) -> bool:
    return isinstance(value, bool) and _WORD.fullmatch(key) is not None


def _object(value: object) -> Message:
    if not isinstance(value, dict):
        raise RequestRefusedError("wrong_type")
    return value


def _objects(value: object) -> list[Message]:
    entries = value if isinstance(value, list) else [value]
    return [_object(entry) for entry in entries]


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise RequestRefusedError("wrong_type")
    return value


def _last_text(messages: object) -> str:
    """What a server asks a model: the texts of its last message."""
    last = messages[-1] if isinstance(messages, list) and messages else None
    content = last.get("content") if isinstance(last, dict) else None
    blocks = content if isinstance(content, list) else [content]
    said = [each.get("text") for each in blocks if isinstance(each, dict)]
    return "\n".join(text for text in said if isinstance(text, str))


def _texts(value: object) -> list[str]:
    """Every text, keys too, but not what is binary."""
    found: list[str] = []
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            found.append(each)
        elif isinstance(each, list):
            left += each
        elif isinstance(each, dict):
            found += each
            left += (
                inside
                for key, inside in each.items()
                if key not in _BINARY or not isinstance(inside, str)
            )
    return found


def _parsed(text: str) -> object:
    """The JSON value of a text, None if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
