"""The agent as a language model in this process, without any network.

In each turn the model reads the question, writes its tool calls as JSON, reads what the tools gave
and writes a reply; the conversation is kept over the turns of a session. `Decoding` says what the
model is held to while it writes:

- `free`: nothing. What holds no tool call is taken for its reply, as in any agent.
- `tools`: the tool call follows a JSON schema, made of the tools and names that the server lists.
- `grammar`: so does the call, and the reply is `name is NUMBER unit`, joined. The grammar knows
  names and units, which are public, and any number: digits are the model's own, so that rounding
  and invention show as they do in free text.

Nothing that the model writes is repaired.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, get_args

import anyio.to_thread

from rootguard.evaluation.language_model import LocalModel, Message, ModelError
from rootguard.evaluation.rq4_agent.backends import BackendStoppedError
from rootguard.evaluation.rq4_agent.channel import GET, LIST, SANITIZE, ToolCall, Tools
from rootguard.session.questions.wording import NO_VALUE

Decoding = Literal["free", "tools", "grammar"]
DECODINGS: tuple[Decoding, ...] = get_args(Decoding)
_SYSTEM = (
    "You are the assistant of one person and answer a service's questions on their behalf. You "
    "know values only through tools. First write a tool call, as JSON and nothing else, with the "
    "short name of every value asked for. When you have the result, reply in one sentence with "
    "each value asked for: its short name, the number exactly as the tool gave it with every "
    "digit, and its unit. Never round.\nThe values are:\n{values}\nThe tools are:\n{tools}"
)
_TOOLS = {
    LIST: '{"list_values":[]}: which values there are, without numbers',
    GET: '{"get_values":[names]}: values by short name',
    SANITIZE: '{"sanitize":[names]}: values by short name',
}
_EXAMPLES = (
    (
        "What is your heart rate?",
        ["pulse"],
        "pulse is 71.38138138138139 bpm",
        "pulse is 71.38138138138139 bpm.",
    ),
    (
        "I need heart rate and body temperature.",
        ["pulse", "temp"],
        "pulse is 68.25725725725726 bpm\ntemp is 36.813813813813816 degC",
        "pulse is 68.25725725725726 bpm and temp is 36.813813813813816 degC.",
    ),
)
"""Turns about values that nobody has, to show the form."""
_CALL_TOKENS, _REPLY_TOKENS = 30, 50
"""For a call or a reply with one value; each further value may take as many again."""
_NUMBER = r'number ::= "-"? [0-9]{1,7} ("." [0-9]{1,17})?'
PROMPT_DIGEST = hashlib.sha256(
    "\n".join((_SYSTEM, *_TOOLS.values(), json.dumps(_EXAMPLES), _NUMBER)).encode()
).hexdigest()[:8]


class Local:
    """A backend for one model file and one way of decoding."""

    def __init__(self, model: LocalModel, *, decoding: Decoding = "grammar") -> None:
        self._model = model
        self.decoding = decoding

    @property
    def label(self) -> str:
        """Backend, model with its digest, decoding, and the digest of what it is told to do."""
        return f"local {self._model.label} {self.decoding} prompt:{PROMPT_DIGEST}"

    async def meet(self, tools: Tools) -> "LocalConversation":
        """Begin a conversation, with the names of the values in its first message."""
        return LocalConversation(self, tools, await tools.roots())

    async def close(self) -> None:
        self._model.close()

    async def write(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, object] | None = None,
        grammar: str | None = None,
        max_tokens: int,
    ) -> str:
        """The model's next message; nothing once its context is full."""
        write = partial(
            self._model.chat, messages, schema=schema, grammar=grammar, max_tokens=max_tokens
        )
        try:
            return await anyio.to_thread.run_sync(write)
        except ModelError as problem:
            if problem.full:
                return ""
            raise BackendStoppedError(str(problem)) from None


class LocalConversation:
    """A session with a model: every question, call, result and reply stays in its context."""

    def __init__(self, backend: Local, tools: Tools, values: Sequence[Mapping[str, Any]]) -> None:
        self._backend = backend
        self._tools = tools
        offered = [tool.name for tool in tools.listed if tool.name in _TOOLS]
        self._schema = call_schema(offered, [str(value["name"]) for value in values])
        self._grammar = reply_grammar(values)
        self._count = len(values)
        self._messages: list[Message] = [
            {
                "role": "system",
                "content": _SYSTEM.format(
                    values="\n".join(map(_annotated, values)),
                    tools="\n".join(_TOOLS[name] for name in offered),
                ),
            },
            *_examples(offered),
        ]

    async def reply(self, question: str) -> str:
        """The model's words, after its tool calls."""
        self._say("user", question)
        free = self._backend.decoding == "free"
        written = await self._backend.write(
            self._messages,
            schema=None if free else self._schema,
            max_tokens=_CALL_TOKENS * (1 + self._count),
        )
        self._say("assistant", written)
        calls = calls_in(written)
        if not calls:
            return written
        results = [await self._call(tool, names) for tool, names in calls]
        self._say("tool", "\n".join(results))
        written = await self._backend.write(
            self._messages,
            grammar=self._grammar if self._backend.decoding == "grammar" else None,
            max_tokens=_REPLY_TOKENS * (1 + self._count),
        )
        self._say("assistant", written)
        return written

    async def _call(self, tool: str, names: Sequence[str]) -> str:
        """What a tool gave, a value a line; `sanitize` takes one name a call."""
        arguments: list[dict[str, object]] = [{"names": list(names)}]
        if tool == SANITIZE:
            arguments = [{"name": name} for name in names]
        elif tool == LIST:
            arguments = [{}]
        return "\n".join([_shown(await self._tools.call(tool, each)) for each in arguments])

    def _say(self, role: str, content: str) -> None:
        self._messages.append({"role": role, "content": content})


def call_schema(tools: Sequence[str], names: Sequence[str]) -> dict[str, object]:
    """What a tool call may be: tools and names out of those listed, and nothing else."""
    name = {"type": "string", "enum": list(names)}
    several = {"type": "array", "items": name, "minItems": 1, "maxItems": len(names)}
    nothing = {"type": "array", "maxItems": 0}
    return {
        "anyOf": [
            {
                "type": "object",
                "properties": {tool: nothing if tool == LIST else several},
                "required": [tool],
                "additionalProperties": False,
            }
            for tool in tools
        ]
    }


def calls_in(text: str) -> list[tuple[str, list[str]]]:
    """The tool calls in what a model wrote: the first JSON object in it, if it is of their form."""
    start = text.find("{")
    if start < 0:
        return []
    try:
        found, _ = json.JSONDecoder().raw_decode(text, start)
    except ValueError:
        return []
    lists = all(
        isinstance(names, list) and all(isinstance(name, str) for name in names)
        for names in found.values()
    )
    return list(found.items()) if lists else []


def _shown(call: ToolCall) -> str:
    """A result as the model reads it: `glu is 101.5 mg/dL`, with the digits of the wire."""
    if call.content is None:
        return call.text
    lines = []
    for value in call.content.get("values", ()):
        if "value" in value:
            lines.append(f"{value['name']} is {json.dumps(value['value'])} {value['unit']}".strip())
        else:
            lines.append(_annotated(value))
    return "\n".join(lines)


def reply_grammar(values: Sequence[Mapping[str, Any]]) -> str:
    """Sentences of `name is NUMBER unit`, any number, or that there is no value."""
    spelt = []
    for value in values:
        name, unit = str(value["name"]), str(value.get("unit") or "")
        after = f" {_quoted(f' {unit}')}" if unit else ""
        spelt.append(f"{_quoted(f'{name} is ')} number{after}")
    more = f'((", " | " and ") statement){{0,{max(0, len(spelt) - 1)}}}'
    root = f'root ::= statement {more} "." | {_quoted(NO_VALUE)}'
    return "\n".join((root, f"statement ::= {' | '.join(spelt)}", _NUMBER))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _annotated(value: Mapping[str, Any]) -> str:
    also = ", ".join(map(str, value.get("also_called") or ()))
    return f"{value['name']} ({also})" if also else str(value["name"])


def _examples(tools: Sequence[str]) -> Iterator[Message]:
    tool = SANITIZE if SANITIZE in tools else GET
    for question, names, result, reply in _EXAMPLES:
        yield {"role": "user", "content": question}
        yield {"role": "assistant", "content": json.dumps({tool: names}, separators=(",", ":"))}
        yield {"role": "tool", "content": result}
        yield {"role": "assistant", "content": reply}
