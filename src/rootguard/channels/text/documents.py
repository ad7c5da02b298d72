"""JSON on its way out: tool calls, records, any document.

A number is read with the keys that lead to it, as if it stood behind them in a text: `height_cm`,
`labs.ast.value`; with what stands beside it, `{"test": "AST", "result": 23, "units": "U/L"}`; or
with its column in a table of rows. Texts are read with their key, too. Keys change only if an
identifier stands in them. What is too deep or too large, not JSON, or would lose a key is refused.
"""

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING

from rootguard.channels.text.edits import Edit, JsonSanitization
from rootguard.errors import TextBlockedError
from rootguard.values import RootName

if TYPE_CHECKING:
    from rootguard.channels.text.channel import TextChannel

MAX_DEPTH = 32  # the walk calls itself; documents of tools are a handful of levels deep
MAX_NODES = 20_000  # each number is read as a text of its own
_PATH = 4  # keys that are read with a value: what stands further out is about something larger
_LARGEST = 1e300  # conversions multiply, and must stay finite
_PLAIN_KEY = re.compile(r"(?!.*[0-9]{4})[A-Za-z0-9_.\-]{1,64}")
_VALUE_KEYS = frozenset(
    ("value", "val", "result", "amount", "reading", "number", "quantity", "measurement", "data")
)
_NAME_KEYS = (
    *("name", "test", "analyte", "label", "parameter", "metric", "display", "lab", "key", "title"),
    *("type", "code", "field", "item", "measure"),
)
_HEADER_KEYS = frozenset(("columns", "header", "headers", "fields", "column_names"))
_UNIT_KEYS = ("unit", "units", "uom")


class Walk:
    """One walk through one document; `teaches`: whether it may give a root its value."""

    __slots__ = ("_channel", "_counts", "_missing", "_nodes", "_teaches")

    def __init__(self, channel: "TextChannel", *, teaches: bool) -> None:
        self._channel = channel
        self._teaches = teaches
        self._counts: Counter[str] = Counter()
        self._missing: set[RootName] = set()
        self._nodes = 0

    def sanitize(self, value: object) -> JsonSanitization:
        """The document as it may leave. For who is shielded: an error's frames have it."""
        made = self._any(value, (), "", 0)
        missing = frozenset(self._missing)
        return JsonSanitization(value=made, replaced=dict(self._counts), missing=missing)

    def _any(self, value: object, path: tuple[str, ...], unit: str, depth: int) -> object:
        self._nodes += 1
        if self._nodes > MAX_NODES or depth > MAX_DEPTH:
            raise TextBlockedError("unreadable_document")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, int | float):
            return self._number(value, path, unit)
        if isinstance(value, Mapping):
            return self._object(value, path, depth)
        if isinstance(value, list | tuple):
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
            try:
                made.append(self._any(each, path, unit, depth))
            except TextBlockedError as blocked:
                blocked.within(place)
                raise
        return made

    def _object(
        self, content: Mapping[object, object], path: tuple[str, ...], depth: int
    ) -> dict[str, object]:
        header = _header(content)
        named = _sibling(content, _NAME_KEYS)
        unit = _sibling(content, _UNIT_KEYS)
        made: dict[str, object] = {}
        for place, (key, value) in enumerate(content.items()):
            if not isinstance(key, str):
                raise TextBlockedError("unreadable_document")
            below = (*path, key)
            if key.lower() in _VALUE_KEYS and named:
                below = (named, key)
            try:
                written = self._key(key, made)
                if header and _is_table(value, len(header)):
                    made[written] = self._table(value, header, depth + 1)
                    continue
                own_unit = unit if key.lower() in _VALUE_KEYS else ""
                made[written] = self._any(value, below[-_PATH:], own_unit, depth + 1)
            except TextBlockedError as blocked:
                blocked.within(place)
                raise
        return made

    def _table(self, rows: object, header: Sequence[str], depth: int) -> list[object]:
        """Rows under a header: each cell by the name of its column."""
        made: list[object] = []
        named = [(name,) for name in header]
        for place, row in enumerate(rows if isinstance(rows, list) else ()):
            try:
                made.append(self._list(row, named, "", depth + 1))
            except TextBlockedError as blocked:
                blocked.within(place)
                raise
        return made

    def _key(self, key: str, taken: Container[str]) -> str:
        made = self._channel.sanitize_key(key, detect=_PLAIN_KEY.fullmatch(key) is None)
        if made.text in taken:
            raise TextBlockedError("unreadable_document")
        self._counts.update(made.replaced)
        return made.text

    def _text(self, text: str, path: tuple[str, ...]) -> str:
        context = f"{_label(path)}: " if path else ""
        made = self._channel.sanitize(text, context=context, teaches=self._teaches)
        self._counts.update(made.replaced)
        self._missing |= made.missing
        return made.text

    def _number(self, number: float, path: tuple[str, ...], unit: str) -> object:
        """By the whole path as a root's value; else by the last key, as a private word."""
        if not abs(number) <= _LARGEST:  # not-a-number fails as well
            raise TextBlockedError("number_refused")
        digits = repr(number)
        text = f"{digits} {unit}" if unit else digits
        edit = None
        for context in dict.fromkeys((" ".join(path), _label(path))):
            last = context == _label(path)
            try:
                edits = self._channel.edits(
                    text, context=f"{context}: " if context else "", teaches=self._teaches
                )
            except TextBlockedError:
                if last:
                    raise
                continue
            edit = next((each for each in edits if each.start < len(digits)), None)
            if edit is not None and (last or edit.kind == "root" or edit.missing is not None):
                break
            edit = None
        if edit is None:
            return number
        self._counts.update((edit.kind,) if edit.text != digits else ())
        self._missing.update(() if edit.missing is None else (edit.missing,))
        return _typed(edit, digits)


def _typed(edit: Edit, digits: str) -> object:
    """A number where a number stood; one that was taken out becomes its hole.

    A token that is no number as JSON writes it, with a leading zero say, is refused: as a text it
    would be another type, and as another number it would not be restored.
    """
    if edit.released is not None:
        try:
            return float(edit.text)
        except ValueError:
            return edit.released
    if edit.kind == "number":
        return edit.text
    written = digits[: edit.start] + edit.text + digits[edit.end :]
    for kind in (int, float):
        try:
            number = kind(written)
        except ValueError:
            continue
        if repr(number) == written:
            return number
    raise TextBlockedError("number_refused")


def _label(path: Sequence[str]) -> str:
    """The key that says what a value is: the last one that is not just "value"."""
    return next((key for key in reversed(path) if key.lower() not in _VALUE_KEYS), "")


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


def _sibling(content: Mapping[object, object], keys: Sequence[str]) -> str:
    """The text under the first of these keys, if there is one."""
    texts = {
        key.lower(): value
        for key, value in content.items()
        if isinstance(key, str) and isinstance(value, str) and len(value) <= 80
    }
    return next((texts[key] for key in keys if key in texts), "")
