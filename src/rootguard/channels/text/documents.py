"""JSON on its way out: tool calls, records, any document.

A number is read with the keys that lead to it, as if it stood behind them in a text: `height_cm`,
`labs.ast.value`; with what stands beside it, `{"test": "AST", "result": 23, "units": "U/L"}`; or
with its column in a table of rows. Texts are read with their key, too. Keys change only if an
identifier stands in them. What is too deep or too large, not JSON, or would lose a key is refused.
"""

import json
import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Literal, Protocol, TypeGuard

from rootguard.channels.text.edits import (
    Change,
    Edit,
    JsonSanitization,
    Sanitization,
)
from rootguard.errors import TextBlockedError
from rootguard.events import ChangedPlace
from rootguard.language.units import also_words, canonical
from rootguard.reading.claims import NOTHING, SILENCE, Expectation, Heard, Source
from rootguard.values import RootName

if TYPE_CHECKING:
    from rootguard.session.declared import PersonConversation

MAX_DEPTH = 32  # the walk calls itself; documents of tools are a handful of levels deep
MAX_NODES = 20_000  # each number is read as a text of its own
_PATH = 4  # keys that are read with a value: what stands further out is about something larger
_REFERENCE_WORDS = frozenset(("ref", "refs", "reference", "uln", "lln", "goal", "target", "limits"))
_BOUND_KEYS = frozenset(
    ("low", "high", "lower", "upper", "min", "max", "minimum", "maximum", "normal")
)
_LETTERED = {"h": "height", "w": "weight"}
"""Letters that say what they are if both stand in one object."""
_LEAST_PATH = 2  # keys that say more together than the last one alone
_LONGEST_ANSWER = 80  # characters of a value that may be one word or day
_LONGEST_NAME = 80  # characters of a text that names the value beside it; a longer one is prose
_LEAST_COLUMNS = 2  # a list in a list is a table; one column is a list of values
_COLUMN_NAME = re.compile(r"(?=.{1,60}\Z)[^\W\d_]")
_LARGEST = 1e300  # conversions multiply, and must stay finite
# A key that detectors need not read: plain, and without the four digits that a record number has.
_PLAIN_KEY = re.compile(r"(?!.*[0-9]{4})[A-Za-z0-9_.\-]{1,64}")
_VALUE_KEYS = frozenset(
    """value val v result amount reading number quantity measurement data num observed measured
    finding answer response reply""".split()  # noqa: SIM905
)
_FLAG_KEYS = frozenset(("present", "positive", "active", "confirmed", "checked", "selected", "has"))
_FHIR_VALUES = frozenset(("valueQuantity", "valueInteger", "valueDecimal", "valueString"))
_NAME_KEYS = (
    *("name", "test", "analyte", "label", "parameter", "metric", "display", "lab", "key", "title"),
    *("fact", "attribute", "property", "marker", "t", "k", "n"),
    *("type", "code", "field", "item", "measure", "biomarker", "component", "observation"),
    *("vital", "indicator", "variable", "question", "kind"),
)
# Keys that only things have: their sizes and amounts are nobody's.
_THING_KEYS = frozenset(
    """product product_id sku brand price breed species servings ingredients isbn stock calories
    publisher manufacturer horsepower screen_size""".split()  # noqa: SIM905
)
_QUESTION_KEYS = ("question", "q", "prompt", "ask", "frage", "pregunta", "domanda", "pergunta")
_ANSWER_KEYS = frozenset(
    ("answer", "a", "reply", "response", "value", "antwort", "reponse", "respuesta", "risposta")
)
_HEADER_KEYS = frozenset(
    ("columns", "header", "headers", "fields", "column_names", "names", "labels", "analytes")
)
# Keys of a tool's arguments and results that say nothing of what is under them.
_ARGUMENT_KEYS = frozenset(
    """args arguments params parameters inputs input values numbers row rows results output text
    content response answer x xs list y a b c n m expression expr formula equation calculation
    numerator denominator left right first second operands code source script""".split()  # noqa: SIM905
)
_UNIT_KEYS = ("unit", "units", "uom")
_KINDS = {"root": "value", "declared": "identifier"}
"""What the kinds of edits are called outside; the others as they are."""


_TOKEN = re.compile(
    r'\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<other>-?[0-9][0-9.eE+-]*|true|false|null)|[\[\]{}:,])'
)


_EMPTY = re.compile(r"\s*(?:\[\s*\]|\{\s*\})\s*")  # nothing to read, or an empty box: "[ ]"


def parsed(text: str) -> object:
    """The JSON object or list that a whole text is; None if it is none, or a key stands twice."""
    if text.lstrip()[:1] not in ("{", "[") or _EMPTY.fullmatch(text):
        return None
    try:
        found: object = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None
    return found


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key stands twice")
    return made


def rewritten(text: str, before: object, after: object) -> str:
    """A JSON text with what has changed in its place and every other byte as it was."""
    places = scalar_places(text)
    old, new = list(_scalars(before)), list(_scalars(after))
    if not len(places) == len(old) == len(new):
        raise TextBlockedError("unreadable_document")
    pieces: list[str] = []
    reached = 0
    ascii_only = text.isascii()
    for (start, end), first, second in zip(places, old, new, strict=True):
        if first is not second and (first != second or type(first) is not type(second)):
            pieces += (text[reached:start], json.dumps(second, ensure_ascii=ascii_only))
            reached = end
    return "".join((*pieces, text[reached:]))


def scalar_places(text: str) -> list[tuple[int, int]]:
    """Where keys and values stand in a JSON text, in order."""
    return [match.span(match.lastgroup) for match in _TOKEN.finditer(text) if match.lastgroup]


def _scalars(value: object) -> Iterator[object]:
    """Keys and values in the order in which JSON writes them."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _scalars(each)
    elif isinstance(value, list):
        for each in value:
            yield from _scalars(each)
    else:
        yield value


@dataclass(kw_only=True, slots=True, repr=False)
class TextLook:
    """What one look at a text rested on: the registry of tokens, the values, and who speaks."""

    source: Source
    expectation: Expectation = NOTHING
    tokens: "PersonConversation | None" = None
    mark: tuple[int, int] = (0, 0)
    released: dict[RootName, float] = field(default_factory=dict)
    missing: set[RootName] = field(default_factory=set)
    heard: Heard | None = None
    declared: tuple[str, ...] = ()
    finds: tuple[Edit, ...] = ()
    earlier: dict[tuple[int, int], date | Literal["now", "earlier"]] = field(default_factory=dict)
    """Numbers of a series that tell of another time, and of which."""
    asked: tuple[RootName, ...] = ()
    """Roots with answers that are no numbers for which the text asks."""
    first: bool = True
    """Whether the text is as its writer wrote it, and not one that was changed already."""
    spared: set[str] = field(default_factory=set)
    """Numbers in it that words spoke against."""

    def again(self) -> "TextLook":
        """Another look at the same text. Values are released once for all looks: it is logged."""
        return replace(self, mark=(0, 0), earlier={}, first=False)


class TextReader(Protocol):
    """Reads the texts, keys and numbers of a document: a `TextChannel`, or what only looks.

    A text is read as it follows its context, which is not written.
    """

    def sanitize_text(self, text: str, context: str, look: TextLook) -> Sanitization:
        """A text as it may leave."""
        ...

    def sanitize_key(
        self, text: str, *, detect: bool, tokens: "PersonConversation | None"
    ) -> Sanitization:
        """A key as it may leave."""
        ...

    def read(self, text: str, context: str, look: TextLook) -> list[Edit]:
        """What is to be written where; `look` gets what was heard."""
        ...


class Walk:
    """One walk through one document; every value in it is looked at as `look` says."""

    __slots__ = (
        "_awaited",
        "_changes",
        "_channel",
        "_counts",
        "_look",
        "_missing",
        "_nodes",
        "_place",
    )

    def __init__(self, channel: TextReader, look: TextLook) -> None:
        self._channel = channel
        self._look = look
        self._awaited = look.expectation.asked
        self._counts: Counter[str] = Counter()
        self._missing: set[RootName] = set()
        self._nodes = 0
        self._place: list[str | int] = []
        self._changes: list[Change] = []

    def sanitize(self, value: object) -> JsonSanitization:
        """The document as it may leave. For who is shielded: an error's frames have it."""
        made = self._any(value, (), "", 0)
        missing = frozenset(self._missing)
        return JsonSanitization(
            value=made,
            replaced=dict(self._counts),
            missing=missing,
            changes=tuple(self._changes),
        )

    def _any(self, value: object, path: tuple[str, ...], unit: str, depth: int) -> object:
        self._nodes += 1
        if self._nodes > MAX_NODES or depth > MAX_DEPTH:
            raise TextBlockedError("unreadable_document")
        if value is None:
            return value
        if isinstance(value, bool):
            return self._truth(value, path=path)
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, int | float):
            return self._number(value, path, unit)
        if isinstance(value, Mapping):
            return self._object(value, path, depth)
        if isinstance(value, list | tuple):
            if value and all(map(_is_pair, value)):
                return self._table(value, (), depth + 1)
            return self._list(value, (path,) * len(value), unit, depth + 1)
        raise TextBlockedError("unreadable_document")

    def _list(
        self,
        items: Sequence[object],
        paths: Sequence[tuple[str, ...]],
        unit: str,
        depth: int,
    ) -> list[object]:
        made: list[object] = []
        for place, (each, path) in enumerate(zip(items, paths, strict=True)):
            self._place.append(place)
            try:
                made.append(self._any(each, path, unit, depth))
            except TextBlockedError as blocked:
                blocked.within(place)
                raise
            self._place.pop()
        return made

    def _object(
        self, content: Mapping[object, object], path: tuple[str, ...], depth: int
    ) -> dict[str, object]:
        header = _header(content)
        named = _sibling(content, _NAME_KEYS) or _coded(content)
        asked = _sibling(content, _QUESTION_KEYS)
        unit = _sibling(content, _UNIT_KEYS)
        of_thing = not _THING_KEYS.isdisjoint(
            key.lower() for key in content if isinstance(key, str)
        )
        lettered = _LETTERED.keys() <= content.keys()
        made: dict[str, object] = {}
        for place, (key, value) in enumerate(content.items()):
            if not isinstance(key, str):
                raise TextBlockedError("unreadable_document")
            below = (*path, _LETTERED.get(key, key) if lettered else key)
            if _is_reference(key, content) or (of_thing and _is_number(value)):
                below = ("reference range",)
            elif named and isinstance(value, bool) and key.lower() in _FLAG_KEYS:
                below = (named.rstrip("?: "),)
            elif named and (key.lower() in _VALUE_KEYS or key.startswith("value")):
                below = (named.rstrip("?: "), key)
            elif asked and key.lower() in _ANSWER_KEYS:
                below = (asked.rstrip("?: "),)
            try:
                written = self._key(key, made)
                self._place.append(written)
                columns = header or _names_beside(content, value)
                if columns and _is_table(value, len(columns)):
                    made[written] = self._table(value, columns, depth + 1)
                elif columns and _is_row(value, len(columns)):
                    named_cells = [(name,) for name in columns]
                    made[written] = self._list(list(value), named_cells, "", depth + 1)
                else:
                    own_unit = unit if key.lower() in _VALUE_KEYS else key if _is_unit(key) else ""
                    made[written] = self._any(value, below[-_PATH:], own_unit, depth + 1)
            except TextBlockedError as blocked:
                blocked.within(place)
                raise
            self._place.pop()
        return made

    def _table(self, rows: object, header: Sequence[str], depth: int) -> list[object]:
        """Rows under a header: each cell by the name of its column, or of the cell before it."""
        made: list[object] = []
        named = [(name,) for name in header]
        for place, row in enumerate(rows if isinstance(rows, list) else ()):
            self._place.append(place)
            try:
                made.append(self._list(row, named or ((), (row[0],)), "", depth + 1))
            except TextBlockedError as blocked:
                blocked.within(place)
                raise
            self._place.pop()
        return made

    def _key(self, key: str, taken: Container[str]) -> str:
        detect = _PLAIN_KEY.fullmatch(key) is None
        made = self._channel.sanitize_key(key, detect=detect, tokens=self._look.tokens)
        if made.text in taken:
            raise TextBlockedError("unreadable_document")
        if made.replaced:
            self._counts.update(made.replaced)
            self._changes += changes_at((*self._place, made.text), made.replaced, {})
        return made.text

    def _text(self, text: str, path: tuple[str, ...]) -> str:
        label = _label(path)
        made = self._under_path(text, path)
        if made is None:
            context = f"{label}: " if label else ""
            made = self._channel.sanitize_text(text, context, self._looking(self._expected(label)))
        self._answered(made.heard.answered)
        if made.replaced:
            self._counts.update(made.replaced)
            self._changes += changes_at(tuple(self._place), made.replaced, made.released)
        self._missing |= made.missing
        return made.text

    def _under_path(self, text: str, path: tuple[str, ...]) -> Sanitization | None:
        """A short text by its whole path, if that names what its last key does not."""
        told = [key for key in path if not _says_nothing(key)]
        if len(told) < _LEAST_PATH or len(text) > _LONGEST_ANSWER:
            return None
        context = f"{' '.join(told)}: "
        made = self._channel.sanitize_text(text, context, self._looking(NOTHING))
        if "root" in made.replaced:
            return made
        # What was written may be what is released: then nothing is replaced, and it is read none
        # the less.
        edits = self._channel.read(text, context, self._looking(NOTHING))
        return made if any(edit.kind == "root" for edit in edits) else None

    def _truth(self, value: bool, *, path: tuple[str, ...]) -> object:
        """True or false under a key, which may be the answer to a yes or no that is declared."""
        label = _label(path)
        if not label:
            return value
        written = "true" if value else "false"
        told = [key for key in path if not _says_nothing(key)]
        edit = None
        for context in dict.fromkeys((label, " ".join(told))):
            edits = self._channel.read(written, f"{context}: ", self._looking(NOTHING))
            edit = edit or next((each for each in edits if each.start == 0), None)
        if edit is None:
            return value
        self._counts.update((edit.kind,))
        released = {} if edit.of is None else {edit.of: 1}
        self._changes += changes_at(tuple(self._place), {edit.kind: 1}, released)
        return {"true": True, "false": False}.get(edit.text, edit.text)

    def _looking(self, expectation: Expectation) -> TextLook:
        """A look at one value: nothing that was found at another counts for it."""
        whole = self._look
        return TextLook(source=whole.source, expectation=expectation, tokens=whole.tokens)

    def _expected(self, label: str) -> Expectation:
        """What is expected of a value: under a telling key nothing but what the key says."""
        if label:
            return NOTHING
        if not self._awaited:  # another row
            self._awaited = self._look.expectation.asked
        return replace(self._look.expectation, asked=self._awaited)

    def _answered(self, roots: Sequence[RootName]) -> None:
        if len(self._look.expectation.asked) > 1:
            self._awaited = tuple(root for root in self._awaited if root not in roots)

    def _number(self, number: float, path: tuple[str, ...], unit: str) -> object:
        """By the whole path as a root's value; else by the last key, as a private word."""
        if not abs(number) <= _LARGEST:  # not-a-number fails as well
            raise TextBlockedError("number_refused")
        digits = repr(number)
        text = f"{digits} {unit}" if unit else digits
        edit = None
        told = [key for key in path if key.lower() not in _ARGUMENT_KEYS]
        for context in dict.fromkeys((" ".join(told), _label(path))):
            last = context == _label(path)
            look = self._looking(self._expected(_label(path)))
            try:
                edits = self._channel.read(text, f"{context}: " if context else "", look)
            except TextBlockedError:
                if last:
                    raise
                continue
            self._answered((look.heard or SILENCE).answered)
            edit = next((each for each in edits if each.start < len(digits)), None)
            if edit is not None and (last or edit.kind == "root" or edit.missing is not None):
                break
            edit = None
        if edit is None:
            return number
        if edit.text != digits:
            self._counts.update((edit.kind,))
            released = {} if edit.of is None else {edit.of: 1}
            self._changes += changes_at(tuple(self._place), {edit.kind: 1}, released)
        self._missing.update(() if edit.missing is None else (edit.missing,))
        return _typed(edit, digits)


def changes_at(
    path: tuple[str | int, ...], replaced: Mapping[str, int], released: Mapping[str, int]
) -> list[Change]:
    """What was changed in one text, by kind and root."""
    made = [
        Change(path=path, kind=_KINDS.get(kind, kind), times=times)
        for kind, times in replaced.items()
        if kind != "root" or not released
    ]
    return made + [
        Change(path=path, kind="value", root=each, times=times) for each, times in released.items()
    ]


def changed_place(change: Change, source: str, public: Container[object] = ()) -> ChangedPlace:
    """A change as the owner's audit log has it, with who wrote what was changed.

    A key that is not `public` is its writer's choice, and may be a name or a number itself: it is
    left out.
    """
    path = (
        "*" if isinstance(part, str) and part not in public else str(part) for part in change.path
    )
    return ChangedPlace(
        path=".".join(path),
        change=change.kind,
        root=change.root or "",
        times=change.times,
        source=source,
    )


def _typed(edit: Edit, digits: str) -> object:
    """A number where a number stood, of the same type; one that was taken out becomes its hole.

    An integer stays one, and what has a fraction has as many decimals as the text of the edit. If
    that says its unit in words ("83420 a year"), the value stands in the root's own unit. A token
    that is no number as JSON writes it, with a leading zero say, is refused: as a text it would be
    another type, and as another number it would not be restored.
    """
    if edit.released is not None:
        try:
            number = float(edit.text)
        except ValueError:
            decimals = re.match(r"[^.]*\.?([0-9]*)", edit.text)
            number = round(edit.released, len(decimals[1]) if decimals else 0)
        return round(number) if digits.lstrip("-").isdigit() else number
    if edit.kind == "number":
        return edit.text
    written = digits[: edit.start] + edit.text + digits[edit.end :]
    for kind in (int, float):
        try:
            token = kind(written)
        except ValueError:
            continue
        if repr(token) == written:
            return token
    raise TextBlockedError("number_refused")


def _label(path: Sequence[str]) -> str:
    """The key that says what a value is: the last one that is not just "value".

    A status is one of what stands before it: "smoking": {"status": "never"}.
    """
    telling = [key for key in path if not _says_nothing(key)]
    if len(telling) > 1 and telling[-1].lower() in ("status", "state", "flag"):
        return f"{telling[-2]} {telling[-1]}"
    if len(telling) > 1 and telling[-1].lower() in (*_FLAG_KEYS, "current", "currently", "now"):
        return telling[-2]
    return telling[-1] if telling else ""


def _says_nothing(key: str) -> bool:
    lower = key.lower()
    return _is_unit(key) or lower in _VALUE_KEYS or lower in _ARGUMENT_KEYS or key in _FHIR_VALUES


def _is_unit(key: str) -> bool:
    """Whether a key is nothing but a unit: {"date": "2024-01-01", "kg": 84.2}."""
    return len(key) > 1 and key.lower() not in also_words() and canonical(key) is not None


def _header(content: Mapping[object, object]) -> tuple[str, ...]:
    """The names of the columns, if the object is a table: {"columns": [...], "data": [[...]]}."""
    for key, value in content.items():
        if not isinstance(key, str) or key.lower() not in _HEADER_KEYS:
            continue
        if isinstance(value, list) and all(isinstance(name, str) for name in value):
            return tuple(value)
    return ()


def _is_table(value: object, width: int) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(row, list | tuple) and len(row) == width for row in value)


def _is_reference(key: str, content: Mapping[object, object]) -> bool:
    """Whether a key leads to what is normal: "reference_range", "low" beside "value"."""
    words = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key).lower()))
    if words & _REFERENCE_WORDS:
        return True
    beside = {other.lower() for other in content if isinstance(other, str)}
    return key.lower() in _BOUND_KEYS and not beside.isdisjoint(_VALUE_KEYS)


def _is_row(value: object, width: int) -> TypeGuard[Sequence[object]]:
    """Whether it is one row: as many numbers as there are columns."""
    if not isinstance(value, list | tuple) or len(value) != width or width < _LEAST_COLUMNS:
        return False
    return all(map(_is_number, value))


def _is_pair(value: object) -> bool:
    """Whether it is a name and its number: ["weight", 83.5]."""
    return (
        isinstance(value, list | tuple)
        and len(value) == _LEAST_COLUMNS
        and isinstance(value[0], str)
        and _COLUMN_NAME.match(value[0]) is not None
        and _is_number(value[1])
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _names_beside(content: Mapping[object, object], value: object) -> tuple[str, ...]:
    """The names in a list beside a list of as many numbers: {"markers": [...], "found": [...]}."""
    if not isinstance(value, list | tuple) or not _is_row(value, len(value)):
        return ()
    for each in content.values():
        if (
            isinstance(each, list)
            and len(each) == len(value)
            and all(isinstance(name, str) and _COLUMN_NAME.match(name) for name in each)
        ):
            return tuple(each)
    return ()


def _coded(content: Mapping[object, object]) -> str:
    """What a FHIR observation is of: the text or the display of its code."""
    code = content.get("code")
    if not isinstance(code, Mapping):
        return ""
    text = _sibling(code, ("text", "display"))
    codings = code.get("coding")
    for each in codings if isinstance(codings, list) and not text else ():
        if isinstance(each, Mapping):
            text = text or _sibling(each, ("display",))
    return text


def _sibling(content: Mapping[object, object], keys: Sequence[str]) -> str:
    """The text under the first of these keys, if there is one."""
    texts = {
        key.lower(): value
        for key, value in content.items()
        if isinstance(key, str) and isinstance(value, str) and len(value) <= _LONGEST_NAME
    }
    return next((texts[key] for key in keys if key in texts), "")
