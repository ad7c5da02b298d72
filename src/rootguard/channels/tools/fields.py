"""The parameters of a JSON schema, one by one, as a tool declares them.

Objects are walked into, `$ref` is followed within the document, `anyOf`, `oneOf` and `allOf` are
looked through. Nothing outside the document is fetched. A schema is a stranger's text: depth, size
and rings are bounded, and what is not understood is left out rather than guessed.

A parameter's JSON type says how a value is written there: numbers as numbers, whole numbers or
digits; a root of two points (female, diabetes) as true and false, 1 and 0, or the two choices of an
enumeration that name its ends. What fits none of these is not written at all.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from rootguard.channels.tools.words import Meaning, text_words, words_of

Kind = Literal["number", "integer", "string", "boolean"]
Path = tuple[str, ...]

# A schema is a stranger's: far more than the largest public tool has, and quickly read.
MAX_FIELDS: Final = 512
MAX_DEPTH: Final = 12
MAX_TEXT: Final = 2000
_KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """One parameter: where it stands in the arguments, and all that the schema says of it.

    `several`: it stands in an array that may have more than one item. `required`: a call without
    it is refused, because it and everything around it is required. `listed`: choices that its
    description has in quotes.
    """

    path: Path
    kind: Kind
    title: str = ""
    description: str = ""
    unit: str = ""
    choices: tuple[object, ...] = ()
    listed: tuple[str, ...] = ()
    examples: tuple[float, ...] = ()
    lower: float = -math.inf
    upper: float = math.inf
    step: float | None = None
    pattern: str = ""
    required: bool = False
    several: bool = False


def fields_of(schema: Mapping[str, object]) -> tuple[Field, ...]:
    """Every parameter that is one number, text or truth value, in the order of the schema."""
    found: dict[Path, Field] = {}
    for field in _walk(_Place(root=schema), schema):
        if len(found) >= MAX_FIELDS:
            break
        before = found.get(field.path)
        if before is None:
            found[field.path] = field
        elif before.kind != field.kind:  # alternatives of one parameter: the number is the value
            numeric = before if before.kind in ("number", "integer") else field
            found[field.path] = replace(numeric, required=before.required and field.required)
    return tuple(found.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """Where the walk is, and what it carries down."""

    root: Mapping[str, object]
    path: Path = ()
    required: bool = True
    several: bool = False
    depth: int = 0
    title: str = ""
    description: str = ""
    seen: frozenset[str] = frozenset()


def _walk(place: _Place, node: object) -> Iterator[Field]:
    if not isinstance(node, Mapping) or place.depth > MAX_DEPTH:
        return
    place = replace(
        place,
        depth=place.depth + 1,
        title=_text(node.get("title")) or place.title,
        description=_text(node.get("description")) or place.description,
    )
    reference = node.get("$ref")
    if isinstance(reference, str):
        target = _resolved(place.root, reference)
        if target is not None and reference not in place.seen:
            yield from _walk(replace(place, seen=place.seen | {reference}), target)
        return
    branches = [
        branch
        for key in ("anyOf", "oneOf", "allOf")
        if isinstance(listed := node.get(key), list)
        for branch in listed
        if not (isinstance(branch, Mapping) and branch.get("type") == "null")
    ]
    if branches and all("const" in _mapping(branch) for branch in branches):
        yield from _walk(place, _enumeration(node, branches))
        return
    for branch in branches[:MAX_DEPTH]:
        whole = node if len(branches) == 1 and isinstance(branch, Mapping) else {}
        merged = {**{k: v for k, v in whole.items() if k not in _BRANCHING}, **_mapping(branch)}
        yield from _walk(place, merged)
    properties = node.get("properties")
    if isinstance(properties, Mapping):
        yield from _object(place, node, properties)
    elif isinstance(node.get("prefixItems"), list):
        yield from _walk(replace(place, path=(*place.path, "*"), several=True), _row(node))
    elif "items" in node:
        one = _number(node.get("maxItems")) == 1
        inside = replace(
            place,
            path=(*place.path, "*"),
            required=False,
            several=place.several or not one,
            title="",
        )
        yield from _walk(inside, node["items"])
    elif place.path and not branches:
        field = _leaf(place, node)
        if field is not None:
            yield field


def _enumeration(node: Mapping[str, object], branches: Sequence[object]) -> Mapping[str, object]:
    """Choices that are written as alternatives with a title each, as an enum with a legend."""
    consts = [_mapping(branch) for branch in branches[:64]]
    legend = [
        f"{each['const']}: {said}"
        for each in consts
        if (said := _text(each.get("title")) or _text(each.get("description")))
    ]
    own = _text(node.get("description"))
    return {
        **{key: value for key, value in node.items() if key not in _BRANCHING},
        "enum": [each["const"] for each in consts],
        "description": ", ".join([own, *legend] if own else legend),
    }


def _row(node: Mapping[str, object]) -> Mapping[str, object]:
    """An array whose places differ, as one whose description lists them."""
    listed = node.get("prefixItems")
    places = [_mapping(each) for each in listed] if isinstance(listed, list) else []
    said = [_text(each.get("description")) or _text(each.get("title")) for each in places]
    return {"type": "number", "description": "; ".join(part.replace(";", ",") for part in said)}


_BRANCHING: Final = ("anyOf", "oneOf", "allOf", "default")


def _object(
    place: _Place, node: Mapping[str, object], properties: Mapping[str, object]
) -> Iterator[Field]:
    listed = node.get("required")
    required = set(map(str, listed)) if isinstance(listed, list) else set()
    unit = _unit_beside(properties)
    for name, child in properties.items():
        inside = replace(
            place,
            path=(*place.path, str(name)),
            required=place.required and name in required,
            title="",
            description="",
        )
        for field in _walk(inside, child):
            direct = len(field.path) == len(inside.path)
            yield replace(field, unit=field.unit or unit) if direct else field


def _unit_beside(properties: Mapping[str, object]) -> str:
    """The unit that a quantity states beside its value, if it allows no other."""
    for key in ("unit", "units"):
        node = properties.get(key)
        if isinstance(node, Mapping):
            listed = node.get("enum")
            if isinstance(node.get("const"), str):
                return _text(node.get("const"))
            if isinstance(listed, list) and len(listed) == 1:
                return _text(listed[0])
    return ""


def _leaf(place: _Place, node: Mapping[str, object]) -> Field | None:
    declared = node.get("type")
    names = declared if isinstance(declared, list) else [declared]
    kinds = [kind for name in names for kind in _KINDS if kind == name]
    listed = node.get("enum")
    choices = tuple(listed) if isinstance(listed, list) else ()
    # One number that may be sent is a question all the same: is the weight 80?
    if _number(node.get("const")) is not None:
        choices = (node["const"],)
    elif "const" in node:
        return None
    if not kinds and not choices and declared is not None:
        return None
    if not kinds:
        kinds = ["string" if any(isinstance(c, str) for c in choices) else "number"]
    kind = next((kind for kind in kinds if kind in ("number", "integer")), kinds[0])
    examples = node.get("examples", [node.get("example")])
    lower = max(_bound(node, "minimum", -math.inf), _bound(node, "exclusiveMinimum", -math.inf))
    return Field(
        path=place.path,
        kind=kind,
        title=place.title,
        description=place.description,
        unit=next((t for k in ("x-unit", "unit", "units") if (t := _text(node.get(k)))), ""),
        choices=choices[:64],
        examples=tuple(
            number
            for example in (examples if isinstance(examples, list) else [])[:8]
            if (number := _number(example)) is not None
        ),
        lower=lower,
        upper=min(_bound(node, "maximum", math.inf), _bound(node, "exclusiveMaximum", math.inf)),
        step=_number(node.get("multipleOf")),
        pattern=_text(node.get("pattern")),
        required=place.required,
        several=place.several,
    )


def _resolved(root: Mapping[str, object], reference: str) -> Mapping[str, object] | None:
    """What a reference into the same document points at."""
    if not reference.startswith("#/"):
        return None
    node: object = root
    for part in reference[2:].split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(node, Mapping) or key not in node:
            return None
        node = node[key]
    return node if isinstance(node, Mapping) else None


def _mapping(node: object) -> Mapping[str, object]:
    return node if isinstance(node, Mapping) else {}


def _bound(node: Mapping[str, object], key: str, default: float) -> float:
    number = _number(node.get(key))
    return default if number is None else number


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _text(value: object) -> str:
    return value[:MAX_TEXT] if isinstance(value, str) else ""


Ends = tuple[object, object]

_MEN: Final = frozenset({"male", "m", "man", "hombre", "homme", "mann", "mannlich", "masculino"})
_WOMEN: Final = frozenset(
    {"female", "f", "woman", "mujer", "femme", "frau", "weiblich", "femenino", "w"}
)
_YES: Final = frozenset({"yes", "true", "y", "1", "ja", "oui", "si"})
_NO: Final = frozenset({"no", "false", "n", "0", "nein", "non"})
_DIGITS: Final = re.compile(
    r"number|numeric|decimal|digits|as (?:a )?string|as text", re.IGNORECASE
)
_ONE: Final = re.compile(r"1\s*(?:=|:|for|is|means)\s*(\w+)|(\w+)\s*(?:=|:)\s*1\b", re.IGNORECASE)


def carries_number(field: Field, *, unit_stated: bool) -> str:
    """Why a parameter cannot carry a number; nothing if it can."""
    if field.choices:
        return "it takes one of a list of choices"
    if field.kind == "boolean":
        return "it takes true or false, not a number"
    if field.kind == "string":
        numeric = bool(re.search(r"\\d|0-9", field.pattern) or _DIGITS.search(field.description))
        if not (numeric or unit_stated):
            return "it is a text, and nothing says that it holds a number"
    return ""


def ends_of(field: Field, meaning: Meaning) -> Ends | str:
    """What stands for 0 and for 1 of a root of two points, or why that is not clear."""
    words = {word for part in field.path[-1:] for word in words_of(part)}
    sexed = meaning.name == "female" or "female" in meaning.spellings
    inverse = sexed and bool(words & _MEN)
    choices = field.choices or (field.listed if field.kind == "string" else ())
    if sexed and choices:
        found = _chosen(choices, _MEN, _WOMEN)
        return found or "its choices do not tell men and women apart"
    if choices:
        return _chosen(choices, _NO, _YES) or "its choices are not yes and no"
    clear = not sexed or bool(words & (_MEN | _WOMEN))
    if field.kind == "boolean" and clear:
        return (True, False) if inverse else (False, True)
    if field.kind in ("number", "integer") and sexed:
        return _numbered(field.description)
    if field.kind in ("number", "integer") and field.upper == 1:
        return (0, 1)
    return "it does not say how it is written"


def _chosen(choices: Sequence[object], zero: frozenset[str], one: frozenset[str]) -> Ends | None:
    def only(of: frozenset[str]) -> list[object]:
        return [c for c in choices if "".join(text_words(str(c))) in of]

    noes, yeses = only(zero), only(one)
    if len(noes) == len(yeses) == 1 and len(choices) == len(noes) + len(yeses):
        return noes[0], yeses[0]
    return None


def _numbered(description: str) -> Ends | str:
    said = _ONE.search(description)
    word = ((said[1] or said[2]) if said is not None else "").casefold()
    if word in _WOMEN:
        return (0, 1)
    if word in _MEN:
        return (1, 0)
    return "it does not say which number stands for women"
