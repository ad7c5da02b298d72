"""What goes to a server behind the proxy: each request rebuilt from what may leave.

Every method has its own rule here, and what has none is refused. Names, addresses and opaque
strings pass as they are only if the server said them first (`mcp_offers`); arguments go through
`mcp_arguments`; a capability is a name with true or false; nothing else of a message is kept. The
server is told the proxy's name in place of the client's.
"""

import re
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from rootguard.channels.faults import RequestRefusedError
from rootguard.channels.mcp.jsonrpc import Message
from rootguard.channels.mcp.proxy.arguments import Arguments, Asking
from rootguard.channels.mcp.proxy.offers import Asked, Offers
from rootguard.channels.mcp.proxy.tasks import Tasks

if TYPE_CHECKING:
    from mcp.shared.uri_template import UriTemplate

CLIENT_INFO: Final[Mapping[str, str]] = {
    "name": "rootguard-proxy",
    "version": version("rootguard"),
}
_META: Final = "io.modelcontextprotocol/"
LEVELS: Final = (
    *("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"),
)
_VERSION: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_CAPABILITIES: Final = frozenset(("elicitation", "roots", "sampling", "tasks"))
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z/]{0,63}")
_MAX_TTL: Final = 10**9

_Rule = Callable[["Outward", Message], Message]


class Outward:
    """Rebuilds requests to one service."""

    def __init__(self, arguments: Arguments, offers: Offers) -> None:
        self._arguments = arguments
        self._offers = offers
        self._tasks = Tasks()
        self._understood: dict[tuple[str, str], tuple[Message, Asking]] = {}

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

    def asks(self, asked: Asked) -> Message:
        """The parameters of a server's request, with the client's own name of a task in it."""
        if not asked.method.startswith("tasks/") or asked.method == "tasks/list":
            return asked.params
        return {**asked.params, "taskId": self._tasks.own(asked.params.get("taskId"))}

    def reply(self, asked: Asked, result: Message) -> Message:
        """The client's answer to a request of the server."""
        if asked.method in ("tasks/get", "tasks/cancel"):
            return self._tasks.state(asked.params.get("taskId"), result, self.text)
        if asked.method == "tasks/result":
            return self.reply(self._tasks.began(asked.params.get("taskId")), result)
        if isinstance(result.get("task"), dict):
            alias = self._tasks.begin(asked, _string(result["task"].get("taskId")))
            return {"task": self._tasks.state(alias, result["task"], self.text)}
        if asked.method == "sampling/createMessage":
            return self._sampled(result)
        if asked.method == "elicitation/create":
            return self._elicited(asked.params, result)
        if asked.method == "roots/list":
            roots = result.get("roots")
            return {"roots": [self._root(root) for root in _objects(roots)]}
        raise RequestRefusedError("unknown_kind")

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
        schema = tool.get("inputSchema")
        asking = self._asking("tool", name, tool, schema if isinstance(schema, dict) else {})
        made: Message = {"name": name}
        given = params.get("arguments")
        if given is not None or asking.tool_map.bindings:
            made["arguments"] = self._arguments.fill(asking, _object(given or {}))
        if "task" in params:
            ttl = _object(params["task"]).get("ttl")
            whole = isinstance(ttl, int) and not isinstance(ttl, bool) and 0 <= ttl <= _MAX_TTL
            made["task"] = {"ttl": ttl} if whole else {}
        return made

    def _prompt(self, params: Message) -> Message:
        name = _string(params.get("name"))
        asking = self._prompt_asking(name)
        given = params.get("arguments")
        made: Message = {"name": name}
        if given is not None or asking.tool_map.bindings:
            made["arguments"] = self._texts(asking, _object(given or {}))
        return made

    def _prompt_asking(self, name: str) -> Asking:
        prompt = self._offers.get("prompts", name)
        if prompt is None:
            raise RequestRefusedError("unknown_name")
        listed = {str(each.get("name")): each for each in _objects(prompt.get("arguments") or [])}
        schema = {
            "type": "object",
            "properties": {
                key: {"type": "string", "description": str(each.get("description") or "")}
                for key, each in listed.items()
            },
            "required": [key for key, each in listed.items() if each.get("required") is True],
        }
        return self._asking("prompt", name, prompt, schema)

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
            made = self._texts(self._template_asking(name, pattern.variable_names), dict(found))
            return pattern.expand(made)
        return self._plain_uri(text, strict=True)

    @staticmethod
    def fits(template: str, uri: str) -> bool:
        """Whether an address is one of a template."""
        pattern = _template(template)
        return pattern is not None and pattern.match(uri) is not None

    def _plain_uri(self, uri: str, *, strict: bool) -> str:
        channel = self._arguments.strict if strict else self._arguments.channel
        shown = unquote(uri)
        cleaned = channel.sanitize(shown).text
        return uri if cleaned == shown else quote(cleaned, safe="/:?#[]@!$&'()*+,;=~-._%")

    def _template_asking(self, name: str, variables: list[str]) -> Asking:
        template = self._offers.get("templates", name)
        if template is None:
            raise RequestRefusedError("unknown_name")
        schema = {
            "type": "object",
            "properties": {variable: {"type": "string"} for variable in variables},
        }
        return self._asking("template", name, template, schema)

    def _complete(self, params: Message) -> Message:
        ref, argument = _object(params.get("ref")), _object(params.get("argument"))
        if ref.get("type") == "ref/prompt":
            name = _string(ref.get("name"))
            made: Message = {"ref": {"type": "ref/prompt", "name": name}}
            asking = self._prompt_asking(name)
        else:
            name = _string(ref.get("uri"))
            made = {"ref": {"type": "ref/resource", "uri": name}}
            pattern = _template(name)
            asking = self._template_asking(name, [] if pattern is None else pattern.variable_names)
        about = _string(argument.get("name"))
        known = {*asking.tool_map.unbound, *asking.bound}
        known |= {question.parameter for question in asking.tool_map.asked}
        if (about,) not in known:
            raise RequestRefusedError("unknown_name")
        typed = self._texts(asking, {about: _string(argument.get("value"))}, required=False)
        made["argument"] = {"name": about, "value": typed[about]}
        if "context" in params:
            before = _object(_object(params["context"]).get("arguments") or {})
            made["context"] = {"arguments": self._texts(asking, before, required=False)}
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

    def _asking(self, sort: str, name: str, offer: Message, schema: Mapping[str, object]) -> Asking:
        """How an offer is understood; again only if it was offered anew."""
        before = self._understood.get((sort, name))
        if before is not None and before[0] is offer:
            return before[1]
        asking = self._arguments.asking(name, str(offer.get("description") or ""), schema)
        self._understood[sort, name] = (offer, asking)
        return asking

    def _texts(
        self, asking: Asking, given: Mapping[str, Any], *, required: bool = True
    ) -> dict[str, Any]:
        """Arguments that are texts; a released number is written as one."""
        made = self._arguments.fill(asking, dict(given))
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

    def _sampled(self, result: Message) -> Message:
        if result.get("role") not in ("user", "assistant"):
            raise RequestRefusedError("bad_value")
        content = result.get("content")
        blocks = [self._block(each) for each in _objects(content)]
        made: Message = {
            "role": result["role"],
            "content": blocks if isinstance(content, list) else blocks[0],
            "model": self.text(result.get("model")),
        }
        if isinstance(result.get("stopReason"), str):
            made["stopReason"] = self.text(result["stopReason"])
        return made

    def _block(self, block: Message) -> Message:
        if block.get("type") == "text":
            return {"type": "text", "text": self.text(block.get("text"))}
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
        asking = self._arguments.asking(
            "elicitation",
            str(params.get("message") or ""),
            schema if isinstance(schema, dict) else {},
        )
        content = self._arguments.fill(asking, _object(result["content"]))
        return {"action": "accept", "content": content}

    def _root(self, root: Message) -> Message:
        made: Message = {"uri": self._plain_uri(_string(root.get("uri")), strict=False)}
        if root.get("name") is not None:
            made["name"] = self.text(root["name"])
        return made


_INPUT: Final = ("inputResponses", "requestState")
_RULES: Final[Mapping[str, tuple[tuple[str, ...], _Rule]]] = {
    "completion/complete": (("ref", "argument", "context"), Outward._complete),
    "initialize": (("protocolVersion", "capabilities", "clientInfo"), Outward._initialize),
    "logging/setLevel": (("level",), Outward._level),
    "prompts/get": (("name", "arguments", *_INPUT), Outward._prompt),
    "prompts/list": (("cursor",), Outward._page),
    "resources/list": (("cursor",), Outward._page),
    "resources/read": (("uri", *_INPUT), Outward._read),
    "resources/subscribe": (("uri",), Outward._read),
    "resources/templates/list": (("cursor",), Outward._page),
    "resources/unsubscribe": (("uri",), Outward._read),
    "server/discover": ((), Outward._nothing),
    "subscriptions/listen": (("notifications",), Outward._listen),
    "tasks/cancel": (("taskId",), Outward._task),
    "tasks/get": (("taskId",), Outward._task),
    "tasks/list": (("cursor",), Outward._page),
    "tasks/result": (("taskId",), Outward._task),
    "tools/call": (("name", "arguments", "task", *_INPUT), Outward._tool),
    "tools/list": (("cursor",), Outward._page),
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
    for key, inside in value.items() if isinstance(value, dict) and depth < 4 else ():
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
