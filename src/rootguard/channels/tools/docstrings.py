"""What a tool's description says of its parameters, one by one.

Servers made from Python functions put the whole docstring into the description and leave the schema
bare. Read are the forms of NumPy ("name : float", the text indented below), Google ("name (float):
text"), Sphinx (":param float name: text") and lists ("- `name`: text"), and for names that say
nothing also prose ("where x is your age in years"). What stands before all that is the summary:
only it says what the tool is about. A description is a stranger's text: nothing is obeyed, and
cost is linear in it.
"""

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from rootguard.channels.tools.words import data
from rootguard.language.lists import either

_SECTION: Final = re.compile(
    rf"(?:\*\*|#+ *)?(?:{either(data()['sections'])})(?:\*\*)? *(?:\([^)]*\))? *:? *(?:\*\*)?",
    re.IGNORECASE,
)
_RULE: Final = re.compile(r"\s*[-=~]{3,}\s*")
_ENTRY: Final = re.compile(
    r"(?P<indent>[ \t]*)(?:[-*•+]\s+|\d+[.)]\s+)?"
    r"(?::(?:param|parameter|arg|argument|key)\s+(?:[\w\[\], |.]+\s+)??"
    r"|@param\s+(?:\{[^}]*\}\s*)?)?"
    r"[`*\"']*(?P<name>[A-Za-z_]\w*)[`*\"']*"
    r"(?P<type>\s*[(\[{][^)\]}\n]*[)\]}])?[`*]*\s*(?P<sign>:|\u2013|\u2014| - |=)(?P<text>.*)"
)
_TYPE: Final = re.compile(
    rf"\s*(?:{either(data()['types'])})"
    r"(?:\[[^\n]*?\])?(?:\s*(?:\||or|,)\s*(?:[\w\[\]\"'., ]+))?"
    r"(?:\s*[,;]\s*(?:optional|required|default\b.*))*\s*\.?",
    re.IGNORECASE,
)
_QUOTED: Final = re.compile(r"[\"'“‘`]([^\"'“”‘’`\n]{1,40})[\"'”’`]")
_JOINED: Final = re.compile(r"[\s,/|]*(?:or|and|oder|ou|o|u|및|또는|または|или|或)?[\s,/|:]*")
_HEAD: Final = 200  # characters in which a name and its type stand
_MAX: Final = 20_000
"""Characters of a description that are read; the longest of public tools has six thousand."""


_LETTERS: Final = 32  # parameters that are looked for in prose: more letters there are not


@dataclass(frozen=True, kw_only=True, slots=True)
class Docstring:
    """A description taken apart: what it says of the tool, and of each parameter that it names."""

    summary: str
    parameters: Mapping[str, str]


@functools.lru_cache(maxsize=1024)
def documented(description: str, names: tuple[str, ...]) -> Docstring:
    """What is said of these parameters, and of the tool before that."""
    lines = description[:_MAX].splitlines()
    known = frozenset(names)
    found: dict[str, str] = {}
    first = len(lines)
    place = 0
    while place < len(lines):
        line = lines[place]
        entry = _ENTRY.fullmatch(line[:_HEAD])
        if entry is None or entry["name"] not in known or entry["name"] in found:
            if first == len(lines) and _heads(lines, place):
                first = place
            place += 1
            continue
        text, after = _said(lines, place, entry)
        if text:
            found[entry["name"]] = text
            first = min(first, place)
        place = max(after, place + 1)
    summary = "\n".join(lines[:first]).strip()
    for name in names[:_LETTERS]:
        if name not in found and len(name) <= 2:
            told = _in_prose(description[:_MAX], name, names)
            if told:
                found[name] = told
    return Docstring(summary=summary, parameters=MappingProxyType(found))


def _heads(lines: list[str], place: int) -> bool:
    """Whether a line is the heading of a section."""
    line = lines[place].strip()
    ruled = place + 1 < len(lines) and _RULE.fullmatch(lines[place + 1]) is not None
    alone = line.endswith(":") or line.startswith(("#", "**")) or ruled
    return bool(line) and alone and (ruled or _SECTION.fullmatch(line) is not None)


def _said(lines: list[str], place: int, entry: "re.Match[str]") -> tuple[str, int]:
    """The text of an entry and the line after it: its own line's, and what is indented below."""
    own = lines[place][entry.start("text") :].strip()
    if len(own) < _HEAD and _TYPE.fullmatch(own):
        own = ""
    parts = [own] if own else []
    indent = len(entry["indent"].expandtabs())
    after = place + 1
    while after < len(lines):
        line = lines[after]
        deeper = len(line.expandtabs()) - len(line.expandtabs().lstrip()) > indent
        if not line.strip() or not deeper:
            break
        parts.append(line.strip())
        after += 1
    return " ".join(parts), after


def _in_prose(description: str, name: str, names: Iterable[str]) -> str:
    """What a sentence says of a name that says nothing: "x is your age in years, y your AST"."""
    others = "|".join(re.escape(each) for each in names if each != name) or r"\Z"
    found = re.search(
        rf"(?<![\w*/+^(-]){re.escape(name)}"
        rf"(?:,?\s+(?:is|are|=|means|stands for|denotes)\s+|\s*[:=]\s*"
        rf"|\s+(?=the |your |my |an? |[^\W\d_]{{3,}}))(?P<text>.+?)"
        rf"(?=(?:,\s*(?:and\s+)?|;\s*|\s+and\s+)(?:{others})\b|[.;\n]|\Z)",
        description,
    )
    return "" if found is None else found["text"].strip()


def choices_in(text: str) -> tuple[str, ...]:
    """The choices that a text lists in quotes: "'male' or 'female'", "One of: 'a', 'b'"."""
    quoted = list(_QUOTED.finditer(text))
    runs: list[list[str]] = []
    for at, each in enumerate(quoted):
        joined = at and _JOINED.fullmatch(text, quoted[at - 1].end(), each.start())
        if joined and runs:
            runs[-1].append(each[1])
        else:
            runs.append([each[1]])
    listed = max(runs, key=len, default=[])
    return tuple(dict.fromkeys(listed)) if len(listed) > 1 else ()


_QUESTIONS: Final = (
    (re.compile(r"(?i)\bhow old (?:are you|is the (?:patient|user|person))\b"), "age"),
    (re.compile(r"(?i)\bhow tall (?:are you|is the (?:patient|user|person))\b"), "height"),
    (re.compile(r"(?i)\b(?:how much|what) (?:do you|does the \w+) weigh\b"), "weight"),
    (re.compile(r"(?i)\b(?:how much|what) (?:do you|does the \w+) earn\b"), "income"),
)


def asked_for(text: str) -> str:
    """A question that names no quantity, with the name of what it asks for: "How old are you?"."""
    for question, noun in _QUESTIONS:
        text = question.sub(f"Your {noun}", text)
    return text
