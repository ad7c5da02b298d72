"""A text read once: folded, with its numbers and the names of roots in it, in order."""

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rootguard.channels.text.vocabulary import (
    NamePlace,
    RootNames,
    elsewhere,
    root_names,
    wording,
)
from rootguard.language import units
from rootguard.language.fold import Folded, bare, fold
from rootguard.language.fold import plain as plain_text
from rootguard.language.numbers import WrittenNumber, scan
from rootguard.language.scan import Openings, Runs, first_words
from rootguard.language.spans import Spans
from rootguard.template import Root
from rootguard.values import RootName

_LEAST_ATTACHED = 3
_CELL_MARKS = ("|", "\t", ";", ",")
_DIGIT = re.compile(r"(?<![^\W_])[0-9]")
_RULE = re.compile(r"[\s|:+\-]*")
_HEADED_BY_REFERENCE = re.compile(r"\b(?:ref|reference|normal|range|limits?|interval)\b")


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Page:
    """What stands in a text, before anything is bound to anything. Private."""

    original: str
    folded: Folded
    plain: str
    vocabulary: RootNames
    names: tuple[NamePlace, ...]
    numbers: tuple[WrittenNumber, ...]
    runs: Runs
    columns: "tuple[Column, ...]"
    public: Spans
    """Where public reference ranges stand: in cells under such a header, and after such words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A stretch of a line between two marks."""

    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """The cells under one cell of a header line."""

    header: Cell
    cells: tuple[Cell, ...]


def read_page(original: str, roots: Mapping[RootName, Root]) -> Page:
    """Read a text for these roots."""
    folded = fold(original)
    text = bare(folded.text)
    plain = plain_text(text)
    runs = Runs(text)
    words = root_names(roots)
    skipped = elsewhere(text, runs)
    names = words.find(text, folded.text, runs, Spans(skipped))
    # A digit right behind a name is its number ("AST23"), but not behind a chemist's symbol (CO2).
    attached = [n.end for n in names if n.end - n.start >= _LEAST_ATTACHED and not n.subject]
    ordinary = Spans((*units.digits_in_units(plain), *skipped))
    table = columns(plain)
    edges = sorted(cell.end for column in table for cell in column.cells)
    return Page(
        original=original,
        folded=folded,
        plain=plain,
        vocabulary=words,
        names=tuple(names),
        numbers=tuple(
            number
            for number in scan(text, runs, attached=attached, edges=edges)
            if not ordinary.meet(number.start, number.end)
        ),
        runs=runs,
        columns=tuple(table),
        public=Spans(_references(plain, runs, table)),
    )


def columns(text: str) -> list[Column]:
    """The columns of the tables in a plain text: lines split alike by one mark.

    The first line is the header and holds no number.
    """
    found: list[Column] = []
    header: list[Cell] = []
    rows: list[list[Cell]] = []
    mark = ""
    at = 0
    lines = text.splitlines(keepends=True)
    for line in lines if len(lines) > 1 else ():
        start, at = at, at + len(line)
        if rows and mark == "|" and _RULE.fullmatch(line) and "-" in line:
            continue
        cells = _cells(line, start, mark) if mark else []
        if header and len(cells) == len(header):
            rows.append(cells)
            continue
        found += _columns(header, rows)
        rows = []
        mark = "" if _DIGIT.search(line) else next((m for m in _CELL_MARKS if m in line), "")
        header = _cells(line, start, mark) if mark else []
    return found + _columns(header, rows)


def _columns(header: list[Cell], rows: list[list[Cell]]) -> list[Column]:
    if not rows:
        return []
    return [
        Column(header=top, cells=tuple(row[place] for row in rows))
        for place, top in enumerate(header)
    ]


def _cells(line: str, start: int, mark: str) -> list[Cell]:
    body = line.rstrip("\r\n")
    left = len(body) - len(body.lstrip(" |")) if mark == "|" else 0
    right = len(body.rstrip(" |")) if mark == "|" else len(body)
    cells = []
    place = start + left
    for part in body[left:right].split(mark):
        cells.append(Cell(start=place, end=place + len(part)))
        place += len(part) + len(mark)
    return cells


def _references(plain: str, runs: Runs, table: Sequence[Column]) -> list[tuple[int, int]]:
    found = [
        (cell.start, cell.end)
        for column in table
        if _HEADED_BY_REFERENCE.search(plain, column.header.start, column.header.end)
        for cell in column.cells
    ]
    found += [match.span("pair") for _, match in _reference().matches(plain, runs)]
    return found


@functools.cache
def _reference() -> Openings:
    words = "|".join(re.escape(w) for w in sorted(wording()["reference"], key=len, reverse=True))
    number = r"\d{1,6}(?:[.,]\d{1,4})?"
    pattern = re.compile(
        rf"(?<![^\W_])(?:{words})\.?[:= ]{{1,3}}(?:is |of |from )?"
        rf"(?P<pair>{number} ?(?:-|–|to) ?{number})(?![^\W_])"
    )
    return Openings((pattern, first_words(wording()["reference"])))
