"""The closed forms of a request body, and what happens to each part of it on its way out.

A shape is a function that takes one JSON value and gives what may be sent in its place. Text goes
through the person's text channel; numbers, switches and choices are checked; ids must not hold a
declared identifier; everything else, above all what nobody foresaw, is refused. So a field of an
API that this version does not know is not sent, rather than sent unread.

Who speaks decides what a text may do: only the owner's own words (`owner_text`) and results of
tools that the owner's policy trusts (`from_tool`) teach a root the value that stands in them. The
texts of a request are read in order, as one conversation: a question, a table's header or a call of
a tool tells what the bare numbers after it are (`reading.claims`).
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from rootguard.channels.faults import RequestRefusedError as Refused
from rootguard.channels.gateway.channel import PersonChannel
from rootguard.channels.text.documents import changed_place, changes_at
from rootguard.channels.text.edits import Change
from rootguard.errors import TextBlockedError
from rootguard.events import ChangedPlace
from rootguard.reading.claims import Dialogue, Source
from rootguard.session.profile import UnknownFields

MAX_DEPTH: Final = 48
"""Levels of nesting. A tool's schema has a dozen; Python's own readers fail at about a thousand."""
MAX_ARGUMENTS: Final = 4000
"""Characters of a call's arguments that are read for what its result is about."""
MAX_ITEMS: Final = 20_000
"""Parts of a body. A long agent session has a few thousand; each part costs an inspection."""

_LABEL = re.compile(r"[A-Za-z0-9_.:/@+-]{1,256}")
_KEYWORD = re.compile(r"[a-z0-9_.-]{1,48}")
_HEADER = re.compile(r"[A-Za-z0-9_.:/@+=, -]{0,1024}")
_SEALED = re.compile(r"[A-Za-z0-9+/_=-]{32,}")


class OutgoingRequest:
    """One request on its way out: whose it is, whether media may pass, and what was replaced.

    With `form_only` ids and kinds are checked and texts are left for later. `trail` leads to what
    is being inspected, and when something was refused to that: the place of each field and item,
    from the body inwards.
    """

    __slots__ = (
        "_call",
        "_calls",
        "_changes",
        "_channel",
        "_dialogue",
        "_form_only",
        "_items",
        "_source",
        "_texts",
        "_worked",
        "allow_media",
        "replaced",
        "trail",
        "unknown_fields",
    )

    def __init__(
        self,
        channel: PersonChannel,
        *,
        allow_media: bool = False,
        unknown_fields: UnknownFields = "refuse",
        form_only: bool = False,
    ) -> None:
        self._channel = channel
        self._form_only = form_only
        self._items = 0
        self._calls: dict[str, str | None] = {}
        self._call = ""
        self._dialogue = Dialogue()
        self._source: Source = "developer"
        self._texts: list[str] = []
        self._worked = False
        self.allow_media = allow_media
        self.unknown_fields = unknown_fields
        self.replaced: Counter[str] = Counter()
        self.trail: list[int] = []
        self._changes: list[tuple[tuple[int, ...], Change, Source]] = []

    def form(self) -> "OutgoingRequest":
        """The same request, to look at its form only."""
        made = OutgoingRequest(
            self._channel,
            allow_media=self.allow_media,
            unknown_fields=self.unknown_fields,
            form_only=True,
        )
        made.trail = self.trail
        made._texts = self._texts
        return made

    @property
    def channel(self) -> PersonChannel:
        """Whose request it is."""
        return self._channel

    def converse(self, earlier: str | None) -> None:
        """Begin the conversation, when the form of everything was looked at."""
        self._channel = self._channel.conversation(earlier, self._texts)
        self._texts.clear()

    def changes(self, body: object = None) -> list[ChangedPlace]:
        """What was changed, for the owner's log: where in the body, if there is one."""
        made = []
        for path, change, source in self._changes:
            where = place_name(body, path, self.is_private)[0] if body is not None else ""
            at = (where,) if where else ()
            made.append(changed_place(replace(change, path=at), source, at))
        return made

    @property
    def source(self) -> Source:
        """Who wrote what is being inspected."""
        return self._source

    @contextmanager
    def speaking(self, source: Source) -> Iterator[None]:
        """While what a source wrote is inspected."""
        before, self._source = self._source, source
        yield
        self._source = before  # not after an error, as with the trail: it is told who wrote it

    def text(self, text: str) -> str:
        """The text as it may leave, in the words of whoever is speaking."""
        if self._form_only:
            self._texts.append(text)
            return text
        source = self._source
        expected = self._dialogue.expectation(source, self._call)
        made = self._channel.sanitize(text, source=source, expectation=expected)
        self._dialogue.heard(source, made.heard)
        self._note(made.replaced, changes_at((), made.replaced, made.released))
        return made.text

    def json(self, value: object) -> object:
        """The JSON value as it may leave."""
        if self._form_only:
            self._texts += _strings(value)
            return value
        source = self._source
        expected = self._dialogue.expectation(source, self._call)
        made = self._channel.sanitize_json(value, source=source, expectation=expected)
        self._note(made.replaced, made.changes)
        return made.value

    def arguments(self, tool: str, value: object) -> object:
        """The arguments of a tool's call as they may leave; by position, if it is a calculation."""
        if self._form_only:
            self._texts += _strings(value)
            return value
        expected = self._dialogue.arguments(self._channel.roots_of(tool))
        made = self._channel.sanitize_json(value, source=self._source, expectation=expected)
        self._note(made.replaced, made.changes)
        self._worked = bool(made.replaced.keys() & {"root", "number"})
        return made.value

    def _note(self, replaced: Mapping[str, int], changes: Sequence[Change]) -> None:
        self.replaced.update(replaced)
        path = tuple(self.trail)
        self._changes += ((path, change, self._source) for change in changes)

    def named(self, name: str, value: object) -> Mapping[str, object]:
        """A JSON value under its name, which is its context, as the two may leave."""
        try:
            made = self.json({name: value})
        except TextBlockedError as blocked:
            blocked.path = blocked.path[1:]  # the object around the two is not the caller's
            raise
        if not isinstance(made, dict) or len(made) != 1:
            raise Refused("bad_value")
        return made

    def unknown(self, name: str, value: object) -> Mapping[str, object]:
        """What is sent for a field that is not known here."""
        if self.unknown_fields == "refuse":
            raise Refused("unknown_field")
        if self.unknown_fields == "drop":
            return {}
        with self.speaking("tool"):  # nobody knows whose it is: it teaches nothing, and is doubted
            return self.named(name, value)

    def is_private(self, label: str) -> bool:
        """Whether a declared identifier stands in an id or a name of the API."""
        return self._channel.is_private(label)

    def called(self, call: str, tool: str, arguments: object) -> None:
        """A call of a tool. An id that two tools share belongs to neither: one may be forged."""
        self._calls[call] = tool if self._calls.get(call, tool) == tool else None
        if not self._form_only:
            said = arguments if isinstance(arguments, str) else write_json(arguments)
            named = self._channel.named_in(tool, said[:MAX_ARGUMENTS])
            self._dialogue.called(call, named, worked=self._worked)
            self._worked = False

    @contextmanager
    def result_of(self, *, call: object = None, tool: object = None) -> Iterator[None]:
        """While a tool's result is inspected: the tool by its name, or by the id of its call."""
        named = self._calls.get(call) if isinstance(call, str) else tool
        trusted = isinstance(named, str) and self._channel.trusts(named)
        self._call = call if isinstance(call, str) else ""
        try:
            with self.speaking("trusted" if trusted else "tool"):
                yield
        finally:
            self._call = ""

    def count(self, items: int) -> None:
        """Refuse a body of too many parts: each costs an inspection."""
        self._items += items
        if self._items > MAX_ITEMS:
            raise Refused("too_large")


Shape = Callable[[OutgoingRequest, object], object]


def flag(_out: OutgoingRequest, value: object) -> object:
    """True or false."""
    if not isinstance(value, bool):
        raise Refused("wrong_type")
    return value


def number(_out: OutgoingRequest, value: object) -> object:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise Refused("wrong_type")
    return value


def word(*choices: str) -> Shape:
    """One of a few fixed words."""
    allowed = frozenset(choices)

    def shape(_out: OutgoingRequest, value: object) -> object:
        if not isinstance(value, str):
            raise Refused("wrong_type")
        if value not in allowed:
            raise Refused("bad_value")
        return value

    return shape


def label(out: OutgoingRequest, value: object) -> object:
    """An id, a model, a function's name: few characters, and no declared identifier in it.

    It must arrive as it was written, so it is refused where a text would be changed.
    """
    if not isinstance(value, str):
        raise Refused("wrong_type")
    if not _LABEL.fullmatch(value):
        raise Refused("bad_value")
    if out.is_private(value):
        raise Refused("private_id")
    return value


def header(out: OutgoingRequest, value: str) -> None:
    """A header that goes on to the upstream: ids and versions, and nothing private in them."""
    if not _HEADER.fullmatch(value):
        raise Refused("bad_value")
    if out.is_private(value):
        raise Refused("private_id")


def keyword(out: OutgoingRequest, value: object) -> object:
    """A choice whose list is the upstream's to know and to extend: small letters only."""
    if isinstance(value, str) and not _KEYWORD.fullmatch(value):
        raise Refused("bad_value")
    return label(out, value)


def sealed(_out: OutgoingRequest, value: object) -> object:
    """What the upstream sealed for itself and wants back: long, and of base64's letters only."""
    if not isinstance(value, str):
        raise Refused("wrong_type")
    if not _SEALED.fullmatch(value):
        raise Refused("bad_value")
    return value


def text(out: OutgoingRequest, value: object) -> object:
    """A text, sanitized."""
    if not isinstance(value, str):
        raise Refused("wrong_type")
    return out.text(value) if value else value


def owner_text(out: OutgoingRequest, value: object) -> object:
    """A text in the owner's own words, sanitized; it teaches values that are not known yet."""
    with out.speaking("owner"):
        return text(out, value)


def spoken_by(source: Source, shape: Shape) -> Shape:
    """What a source says; parts that are another's say so themselves."""

    def said(out: OutgoingRequest, value: object) -> object:
        with out.speaking(source):
            return shape(out, value)

    return said


def tool_call(shape: Shape, key: str) -> Shape:
    """A call of a tool, with its id under this key."""

    def called(out: OutgoingRequest, value: object) -> object:
        made = shape(out, value)
        if isinstance(value, dict):
            nested = (value.get("function"), value.get("custom"))
            name = next((each for each in nested if isinstance(each, dict)), value).get("name")
            if isinstance(name, str) and isinstance(value.get(key), str):
                out.called(value[key], name, _arguments(value))
        return made

    return called


def _arguments(call: Mapping[str, object]) -> object:
    """What a tool was called with, wherever the API keeps it."""
    nested = (call.get("function"), call.get("custom"))
    inner = next((each for each in nested if isinstance(each, dict)), call)
    return next((inner[key] for key in ("arguments", "input") if key in inner), "")


def from_tool(shape: Shape, *, call: str = "", name: str = "") -> Shape:
    """A tool's result: under one of these keys is the id of its call, or the tool's name."""

    def said(out: OutgoingRequest, value: object) -> object:
        given = value if isinstance(value, dict) else {}
        with out.result_of(call=given.get(call), tool=given.get(name)):
            return shape(out, value)

    return said


def json_value(out: OutgoingRequest, value: object) -> object:
    """Any JSON, sanitized with its keys as context."""
    return out.json(value)


def json_text(out: OutgoingRequest, value: object) -> object:
    """A text that holds JSON, as a tool call's arguments do; a plain text if it does not."""
    if not isinstance(value, str):
        raise Refused("wrong_type")
    if not value:
        return value
    try:
        parsed = read_json(value)
    except ValueError:
        return out.text(value)
    return write_json(out.json(parsed))


def call_of(fields: Mapping[str, Shape], *, parsed: bool = False) -> Shape:
    """A tool's name and its arguments, which may be those of a known calculation in order.

    `parsed`: they are an object under `input`, and not JSON in a text under `arguments`.
    """
    key, sort = ("input", dict) if parsed else ("arguments", str)

    def called(out: OutgoingRequest, value: object) -> object:
        tool = value.get("name") if isinstance(value, dict) else None

        def arguments(out: OutgoingRequest, given: object) -> object:
            if not isinstance(tool, str) or not isinstance(given, sort):
                raise Refused("wrong_type")
            if not isinstance(given, str):
                return out.arguments(tool, given)
            try:
                read = read_json(given)
            except ValueError:
                return text(out, given)
            return write_json(out.arguments(tool, read))

        return record({**fields, "name": label, key: arguments})(out, value)

    return called


def optional(shape: Shape) -> Shape:
    """The shape, or null."""
    return lambda out, value: None if value is None else shape(out, value)


def list_of(shape: Shape) -> Shape:
    """A list of one shape."""

    def listed(out: OutgoingRequest, value: object) -> object:
        if not isinstance(value, list):
            raise Refused("wrong_type")
        out.count(len(value))
        made = []
        for place, each in enumerate(value):
            out.trail.append(place)
            made.append(shape(out, each))
            out.trail.pop()  # not after an error: it has to lead there
        return made

    return listed


def map_of(key: Shape, shape: Shape) -> Shape:
    """An object with free keys."""

    def mapped(out: OutgoingRequest, value: object) -> object:
        if not isinstance(value, dict):
            raise Refused("wrong_type")
        out.count(len(value))
        made: dict[str, object] = {}
        for place, (name, each) in enumerate(value.items()):
            out.trail.append(place)
            made[str(key(out, name))] = shape(out, each)
            out.trail.pop()
        if len(made) != len(value):
            raise Refused("bad_value")
        return made

    return mapped


def record(fields: Mapping[str, Shape], *, required: tuple[str, ...] = ()) -> Shape:
    """An object of known fields. Null stands for a field left out: it says nothing."""

    def recorded(out: OutgoingRequest, value: object) -> object:
        if not isinstance(value, dict):
            raise Refused("wrong_type")
        made: dict[str, object] = {}
        for place, (name, each) in enumerate(value.items()):
            out.trail.append(place)
            if name in fields:
                made[name] = None if each is None else fields[name](out, each)
            else:
                more = out.unknown(name, each)
                if more.keys() & fields.keys():  # a name that was changed into a known one
                    raise Refused("unknown_field")
                made |= more
            out.trail.pop()
        if any(value.get(name) is None for name in required):
            raise Refused("wrong_type")
        return made

    return recorded


def tagged(tag: str, kinds: Mapping[str, Shape], *, default: str | None = None) -> Shape:
    """An object whose tag says of which kind it is."""

    def chosen(out: OutgoingRequest, value: object) -> object:
        if not isinstance(value, dict):
            raise Refused("wrong_type")
        kind = value.get(tag, default)
        if kind is None:
            kind = default
        if not isinstance(kind, str) or kind not in kinds:
            raise Refused("unknown_kind")
        return kinds[kind](out, value)

    return chosen


def by_type(
    *, string: Shape | None = None, array: Shape | None = None, mapping: Shape | None = None
) -> Shape:
    """A shape for each JSON type that may stand here."""

    def typed(out: OutgoingRequest, value: object) -> object:
        shape = (
            string
            if isinstance(value, str)
            else array
            if isinstance(value, list)
            else mapping
            if isinstance(value, dict)
            else None
        )
        if shape is None:
            raise Refused("wrong_type")
        return shape(out, value)

    return typed


def media(fields: Mapping[str, Shape]) -> Shape:
    """A part nobody can read: refused, unless whoever runs the gateway allows media."""
    inner = record(fields)

    def allowed(out: OutgoingRequest, value: object) -> object:
        if not out.allow_media:
            raise Refused("media_refused")
        return inner(out, value)

    return allowed


def blob(_out: OutgoingRequest, value: object) -> object:
    """Media itself: base64 or an address. Only ever inside `media`."""
    if not isinstance(value, str):
        raise Refused("wrong_type")
    return value


_BOUNDS: Final = frozenset(
    """minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems
    maxItems minProperties maxProperties minContains maxContains""".split()  # noqa: SIM905
)
_EXAMPLES: Final = frozenset(("default", "const", "enum", "examples", "example"))
# Schemas under these keys are about the value that the whole is about, not one of that name.
_SAME_VALUE: Final = frozenset(
    """allOf anyOf oneOf not if then else items prefixItems additionalItems unevaluatedItems
    contains""".split()  # noqa: SIM905
)


def schema(out: OutgoingRequest, value: object) -> object:
    """A JSON schema: its texts and examples are sanitized, its bounds and keys stay."""
    return _schema(out, value, "")


def schema_text(out: OutgoingRequest, value: object) -> object:
    """A text that holds a JSON schema; a plain text if it does not."""
    if not isinstance(value, str):
        raise Refused("wrong_type")
    try:
        parsed = read_json(value)
    except ValueError:
        return text(out, value)
    return write_json(schema(out, parsed))


def _schema(out: OutgoingRequest, value: object, owner: str) -> object:
    """A part of a schema; `owner` is what it describes, the context of an example."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return text(out, value)
    if isinstance(value, list):
        return list_of(lambda out, each: _schema(out, each, owner))(out, value)
    if not isinstance(value, dict):
        return _example(out, value, owner)
    out.count(len(value))
    made: dict[str, object] = {}
    for place, (name, each) in enumerate(value.items()):
        out.trail.append(place)
        made[name] = _keyword(out, name, each, owner)
        out.trail.pop()
    return made


def _keyword(out: OutgoingRequest, name: str, value: object, owner: str) -> object:
    """What stands under one key of a schema."""
    if out.is_private(name):
        raise Refused("private_id")
    if name in _EXAMPLES:
        return _example(out, value, owner)
    if name in _BOUNDS and not isinstance(value, (str, list, dict)):
        return optional(number)(out, value)
    same = name in _SAME_VALUE and owner != "properties"  # there it is a property's name
    return _schema(out, value, owner if same else name)


def _example(out: OutgoingRequest, value: object, owner: str) -> object:
    return next(iter(out.named(owner, value).values()))


def examine(shape: Shape, out: OutgoingRequest, body: bytes) -> tuple[dict[str, object], bytes]:
    """A body, parsed and as it may leave. Everything is inspected before anything is sent."""
    try:
        parsed = read_json(body.decode("utf-8"))
    except ValueError:
        raise Refused("bad_json") from None
    if not isinstance(parsed, dict):
        raise Refused("bad_json")
    # First the form of everything, then the texts: sanitizing may noise a root for the first time,
    # which a request that is refused in the end must not do.
    shape(out.form(), parsed)
    out.converse(_earlier(parsed))
    made = shape(out, parsed)
    if not isinstance(made, dict):
        raise Refused("bad_json")
    if changes := out.changes(parsed):
        out.channel.note_changes(changes)
    return made, write_json(made).encode("utf-8")


_NAME: Final = re.compile(r"[a-z][A-Za-z_-]{0,39}")


def place_name(
    value: object, path: Sequence[int], is_private: Callable[[str], bool]
) -> tuple[str, object]:
    """How a place is called, and what stands there. A text on the way is JSON itself.

    A field is named if its name is a plain word and holds no declared identifier; otherwise its
    position is.
    """
    called = ""
    for place in path:
        inner = read_json(value) if isinstance(value, str) else value
        if isinstance(inner, dict):
            name, value = list(inner.items())[place]
            shown = name if _NAME.fullmatch(name) and not is_private(name) else f"<field {place}>"
            called += f".{shown}" if called else shown
        elif isinstance(inner, list):
            value = inner[place]
            called += f"[{place}]"
    return called, value


def _earlier(body: Mapping[str, object]) -> str | None:
    """The reply or the conversation that a request goes on from, if the service keeps it."""
    told = body.get("previous_response_id") or body.get("conversation")
    if isinstance(told, dict):
        told = told.get("id")
    return told if isinstance(told, str) else None


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield str(name)
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)


def read_json(written: str) -> object:
    """JSON, without NaN, doubled keys, lone surrogates or deep nesting."""
    try:
        parsed: object = json.loads(written, parse_constant=_no_constant, object_pairs_hook=_once)
    except RecursionError:
        raise Refused("too_deep") from None
    level = [parsed]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            break
    else:
        raise Refused("too_deep")
    if "\\u" in written:
        try:
            json.dumps(parsed, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise Refused("bad_text") from None
    return parsed


def write_json(value: object) -> str:
    """Compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _no_constant(_name: str) -> float:
    raise ValueError("not a number of JSON")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Two readers may take different ones of two equal keys, so neither gets them."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key stands twice")
    return made
