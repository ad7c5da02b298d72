"""The closed forms of a request body, and what happens to each part of it on its way out.

A shape is a function that takes one JSON value and gives what may be sent in its place. Text goes
through the person's text channel; numbers, switches and choices are checked; ids must not hold a
declared identifier; everything else, above all what nobody foresaw, is refused. So a field of an
API that this version does not know is not sent, rather than sent unread.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from rootguard.channels.faults import RequestRefusedError as Refused

MAX_DEPTH: Final = 48
MAX_ITEMS: Final = 20_000

_LABEL = re.compile(r"[A-Za-z0-9_.:/@+-]{1,256}")
_KEYWORD = re.compile(r"[a-z0-9_.-]{1,48}")
_HEADER = re.compile(r"[A-Za-z0-9_.:/@+=, -]{0,1024}")
_SEALED = re.compile(r"[A-Za-z0-9+/_=-]{32,}")


class Inspector(Protocol):
    """What a shape needs of the person whose request it is."""

    def text(self, text: str) -> str:
        """The text as it may leave."""
        ...

    def json(self, value: object) -> object:
        """The JSON value as it may leave."""
        ...

    def private(self, label: str) -> bool:
        """Whether a declared identifier stands in an id or a name of the API."""
        ...


class Outward:
    """One request on its way out: who inspects it, and whether media may pass."""

    __slots__ = ("_items", "allow_media", "inspector")

    def __init__(self, inspector: Inspector, *, allow_media: bool = False) -> None:
        self.inspector = inspector
        self.allow_media = allow_media
        self._items = 0

    def count(self, items: int) -> None:
        """Refuse a body of too many parts: each costs an inspection."""
        self._items += items
        if self._items > MAX_ITEMS:
            raise Refused("too_large")


Shape = Callable[[Outward, object], object]


def flag(_out: Outward, value: object) -> object:
    """True or false."""
    if not isinstance(value, bool):
        raise Refused("wrong_type")
    return value


def number(_out: Outward, value: object) -> object:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise Refused("wrong_type")
    return value


def word(*choices: str) -> Shape:
    """One of a few fixed words."""
    allowed = frozenset(choices)

    def shape(_out: Outward, value: object) -> object:
        if not isinstance(value, str):
            raise Refused("wrong_type")
        if value not in allowed:
            raise Refused("bad_value")
        return value

    return shape


def label(out: Outward, value: object) -> object:
    """An id, a model, a function's name: few characters, and no declared identifier in it.

    It must arrive as it was written, so it is refused where a text would be changed.
    """
    if not isinstance(value, str):
        raise Refused("wrong_type")
    if not _LABEL.fullmatch(value):
        raise Refused("bad_value")
    if out.inspector.private(value):
        raise Refused("private_id")
    return value


def header(out: Outward, value: str) -> None:
    """A header that goes on to the upstream: ids and versions, and nothing private in them."""
    if not _HEADER.fullmatch(value):
        raise Refused("bad_value")
    if out.inspector.private(value):
        raise Refused("private_id")


def keyword(out: Outward, value: object) -> object:
    """A choice whose list is the upstream's to know and to extend: small letters only."""
    if isinstance(value, str) and not _KEYWORD.fullmatch(value):
        raise Refused("bad_value")
    return label(out, value)


def sealed(_out: Outward, value: object) -> object:
    """What the upstream sealed for itself and wants back: long, and of base64's letters only."""
    if not isinstance(value, str):
        raise Refused("wrong_type")
    if not _SEALED.fullmatch(value):
        raise Refused("bad_value")
    return value


def text(out: Outward, value: object) -> object:
    """A text, sanitized."""
    if not isinstance(value, str):
        raise Refused("wrong_type")
    return out.inspector.text(value) if value else value


def json_value(out: Outward, value: object) -> object:
    """Any JSON, sanitized with its keys as context."""
    return out.inspector.json(value)


def json_text(out: Outward, value: object) -> object:
    """A text that holds JSON, as a tool call's arguments do; a plain text if it does not."""
    if not isinstance(value, str):
        raise Refused("wrong_type")
    if not value:
        return value
    try:
        parsed = read_json(value)
    except ValueError:
        return out.inspector.text(value)
    return write_json(out.inspector.json(parsed))


def optional(shape: Shape) -> Shape:
    """The shape, or null."""
    return lambda out, value: None if value is None else shape(out, value)


def list_of(shape: Shape) -> Shape:
    """A list of one shape."""

    def listed(out: Outward, value: object) -> object:
        if not isinstance(value, list):
            raise Refused("wrong_type")
        out.count(len(value))
        return [shape(out, each) for each in value]

    return listed


def map_of(key: Shape, shape: Shape) -> Shape:
    """An object with free keys."""

    def mapped(out: Outward, value: object) -> object:
        if not isinstance(value, dict):
            raise Refused("wrong_type")
        out.count(len(value))
        made = {str(key(out, name)): shape(out, each) for name, each in value.items()}
        if len(made) != len(value):
            raise Refused("bad_value")
        return made

    return mapped


def record(fields: Mapping[str, Shape], *, required: tuple[str, ...] = ()) -> Shape:
    """An object of known fields. Null stands for a field left out: it says nothing."""

    def recorded(out: Outward, value: object) -> object:
        if not isinstance(value, dict):
            raise Refused("wrong_type")
        if not value.keys() <= fields.keys():
            raise Refused("unknown_field")
        if any(value.get(name) is None for name in required):
            raise Refused("wrong_type")
        return {
            name: None if each is None else fields[name](out, each) for name, each in value.items()
        }

    return recorded


def tagged(tag: str, kinds: Mapping[str, Shape], *, default: str | None = None) -> Shape:
    """An object whose tag says of which kind it is."""

    def chosen(out: Outward, value: object) -> object:
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

    def typed(out: Outward, value: object) -> object:
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

    def allowed(out: Outward, value: object) -> object:
        if not out.allow_media:
            raise Refused("media_refused")
        return inner(out, value)

    return allowed


def blob(_out: Outward, value: object) -> object:
    """Media itself: base64 or an address. Only ever inside `media`."""
    if not isinstance(value, str):
        raise Refused("wrong_type")
    return value


_BOUNDS: Final = frozenset(
    """minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems
    maxItems minProperties maxProperties minContains maxContains""".split()  # noqa: SIM905
)
_EXAMPLES: Final = frozenset(("default", "const", "enum", "examples", "example"))


def schema(out: Outward, value: object) -> object:
    """A JSON schema: its texts and examples are sanitized, its bounds and keys stay."""
    return _schema(out, value, "")


def _schema(out: Outward, value: object, owner: str) -> object:
    """A part of a schema; `owner` is the key it stands under, the context of an example."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return text(out, value)
    if isinstance(value, list):
        out.count(len(value))
        return [_schema(out, each, owner) for each in value]
    if not isinstance(value, dict):
        return _example(out, value, owner)
    out.count(len(value))
    made: dict[str, object] = {}
    for name, each in value.items():
        if out.inspector.private(name):
            raise Refused("private_id")
        if name in _EXAMPLES:
            made[name] = _example(out, each, owner)
        elif name in _BOUNDS and not isinstance(each, (str, list, dict)):
            made[name] = optional(number)(out, each)
        else:
            made[name] = _schema(out, each, name)
    return made


def _example(out: Outward, value: object, owner: str) -> object:
    within = out.inspector.json({owner: value})
    if not isinstance(within, dict) or len(within) != 1:
        raise Refused("bad_value")
    return next(iter(within.values()))


def examine(shape: Shape, out: Outward, body: bytes) -> tuple[dict[str, object], bytes]:
    """A body, parsed and as it may leave. Everything is inspected before anything is sent."""
    try:
        parsed = read_json(body.decode("utf-8"))
    except ValueError:
        raise Refused("bad_json") from None
    if not isinstance(parsed, dict):
        raise Refused("bad_json")
    # First the form of everything, then the texts: sanitizing may noise a root for the first time,
    # which a request that is refused in the end must not do.
    shape(Outward(_Form(out.inspector), allow_media=out.allow_media), parsed)
    made = shape(out, parsed)
    if not isinstance(made, dict):
        raise Refused("bad_json")
    return made, write_json(made).encode("utf-8")


class _Form:
    """Looks at ids only, and leaves texts for later."""

    __slots__ = ("_inspector",)

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector

    def text(self, text: str) -> str:
        return text

    def json(self, value: object) -> object:
        return value

    def private(self, label: str) -> bool:
        return self._inspector.private(label)


def read_json(written: str) -> object:
    """JSON, without NaN, doubled keys, lone surrogates or deep nesting."""
    try:
        parsed: object = json.loads(written, parse_constant=_no_constant, object_pairs_hook=_once)
    except RecursionError:
        raise Refused("too_deep") from None
    if "\\u" in written:
        try:
            json.dumps(parsed, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise Refused("bad_text") from None
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
            return parsed
    raise Refused("too_deep")


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


class Counted:
    """An inspector of a text channel and a person, counting what it replaced."""

    __slots__ = ("_guard", "replaced")

    def __init__(self, guard: "Guarding") -> None:
        self._guard = guard
        self.replaced: Counter[str] = Counter()

    def text(self, text: str) -> str:
        """The text as it may leave."""
        made, replaced = self._guard.sanitize(text)
        self.replaced.update(replaced)
        return made

    def json(self, value: object) -> object:
        """The JSON value as it may leave."""
        made, replaced = self._guard.sanitize_json(value)
        self.replaced.update(replaced)
        return made

    def private(self, label: str) -> bool:
        """Whether a declared identifier stands in an id or a name of the API."""
        return self._guard.private(label)


class Guarding(Protocol):
    """What the gateway needs of one person's text channel."""

    def sanitize(self, text: str) -> tuple[str, Mapping[str, int]]:
        """The text as it may leave, and how often what was replaced."""
        ...

    def sanitize_json(self, value: object) -> tuple[object, Mapping[str, int]]:
        """The JSON value as it may leave, and how often what was replaced."""
        ...

    def private(self, label: str) -> bool:
        """Whether a declared identifier stands in a text."""
        ...
