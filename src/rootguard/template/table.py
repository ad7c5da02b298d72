"""One TOML table being read: it knows its file and key, and refuses what it does not know."""

import difflib
import re
import sys
from collections.abc import Iterable

from rootguard.errors import FormulaError, TemplateError
from rootguard.expressions import Node, names, parse

MAX_TEXT = 4000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_KINDS = {str: "text", bool: "true or false", dict: "a table", list: "a list"}


class Table:
    """One TOML table being read: knows its file and its key, and refuses what it does not know."""

    def __init__(self, file: str, path: str, content: object, known: Iterable[str] = ()) -> None:
        self.file, self.path = file, path
        if not isinstance(content, dict):
            raise self.error("", f"this is {_kind(content)}, not a table", f"write [{path}]")
        self.entries: dict[str, object] = content
        for key in [key for key in content if known and key not in known]:
            likely = near(key, known)
            remedy = (
                f"did you mean {likely[0]!r}?" if likely else f"write one of {', '.join(known)}"
            )
            raise self.error(key, "this key is not known here", remedy)

    def error(self, key: str, problem: str, remedy: str) -> TemplateError:
        """What is wrong with a key of this table, to be raised."""
        path = ".".join(part[:80] for part in (self.path, key) if part)
        return TemplateError(self.file, path, problem, remedy)

    def refuse(self, wrong: object, key: str, problem: str, remedy: str) -> None:
        """Raise the error if something is wrong."""
        if wrong:
            raise self.error(key, problem, remedy)

    def need(self, key: str) -> object:
        """The entry of a key that must be there."""
        self.refuse(key not in self.entries, key, "this key is missing", f"add {key}")
        return self.entries[key]

    def text(self, key: str, default: str | None = None, *, limit: int = 400) -> str:
        """One line of text (any number above the usual limit); needed if there is no default."""
        value = self.need(key) if default is None else self.entries.get(key, default)
        if not isinstance(value, str):
            raise self.error(key, f"this is {_kind(value)}, not text", "put it in quotes")
        self.refuse(len(value) > limit, key, f"it is over {limit} characters", "shorten it")
        self.refuse(default is None and not value.strip(), key, "it is empty", "write something")
        plain = value.isprintable() or limit == MAX_TEXT
        self.refuse(not plain, key, "it is not one plain line", "write it as one")
        return value.strip()

    def name(self, key: str, name: str) -> str:
        """The name itself, if a formula can use it."""
        remedy = "use up to 64 letters, digits and _, starting with a letter"
        self.refuse(not _NAME.fullmatch(name), key, "this is not a name", remedy)
        taken = f"{name!r} is a word of the formula language"
        self.refuse(_is_word(name), key, taken, "choose another name")
        return name

    def number(self, key: str) -> float:
        """A finite number that must be there."""
        value = self.need(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, f"this is {_kind(value)}, not a number", "write a plain number")
        finite = abs(value) <= sys.float_info.max  # false for nan as well
        self.refuse(not finite, key, "this number is not finite", "write a finite number")
        return float(value)

    def formula(self) -> Node:
        """The formula that must be there, parsed."""
        text = self.text("formula", limit=MAX_TEXT)
        try:
            return parse(text)
        except FormulaError as error:
            remedy = "write it in the formula language (docs/templates.md)"
            raise self.error("formula", str(error), remedy) from None

    def list_of(self, key: str) -> "Table":
        """A list, as a table whose keys count from 1; empty if it is not there."""
        value = self.entries.get(key, [])
        if not isinstance(value, list):
            raise self.error(key, f"this is {_kind(value)}, not a list", "put it in [ ]")
        path = f"{self.path}.{key}".lstrip(".")
        return Table(self.file, path, {str(i): entry for i, entry in enumerate(value, 1)})

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of lines of text; empty if it is not there."""
        numbered = self.list_of(key)
        return tuple(numbered.text(index) for index in numbered.entries)

    def tables(self, key: str, known: Iterable[str], limit: int) -> dict[str, "Table"]:
        """The tables under a key by their names, in the order of the file."""
        parent = Table(self.file, key, self.entries.get(key, {}))
        self.refuse(len(parent.entries) > limit, key, f"it has over {limit}", "split the template")
        return {
            parent.name(name, name): Table(self.file, f"{key}.{name}", entry, known)
            for name, entry in parent.entries.items()
        }


def near(word: str, known: Iterable[str]) -> tuple[str, ...]:
    """Known words that look like this one."""
    return tuple(difflib.get_close_matches(word, known, n=3, cutoff=0.6))


def _kind(value: object) -> str:
    return _KINDS.get(
        type(value), "a number" if isinstance(value, int | float) else "a date or time"
    )


def _is_word(name: str) -> bool:
    """Whether the formula language has its own use for a name."""
    try:
        return names(parse(name)) != {name}
    except FormulaError:
        return True
