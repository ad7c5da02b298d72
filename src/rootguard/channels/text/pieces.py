"""A text that is too long to be read at once, in windows that overlap.

What a reader sees at a place depends on what stands near it: its sentence, the lines around it, the
header of its table. So each window begins before the piece that it is read for, ends after it, and
has the header of a table that it begins within. A piece ends at a blank line if there is one in its
second half, else at the end of a line, of a sentence or of a word. A text without any of these is
refused: wherever it were cut, an identifier or a number could be cut in two.
"""

import re
from dataclasses import dataclass
from typing import Final

from rootguard.errors import TextBlockedError

OVERLAP: Final = 4096
"""Characters on either side of a piece: many times what a reader looks at around a number."""
_BORDERS: Final = tuple(map(re.compile, (r"\n[^\S\n]*\n", r"\n", r"[.!?]\s", r"\s")))
_MARKS: Final = "|\t;,"


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Window:
    """What is read for the piece from `begin` to `end`; `shift` leads from it to the whole text."""

    text: str
    begin: int
    end: int
    shift: int


def window_at(text: str, begin: int, size: int, overlap: int) -> Window:
    """The window for the piece that begins here, of at most so many characters."""
    start = _start(text, begin, overlap)
    header = _header(text, start)
    if len(header) > size // 4:
        raise TextBlockedError("unbroken_text")
    room = size - (begin - start) - len(header)
    if begin + room >= len(text):
        end, until = len(text), len(text)
    else:
        end = _border(text, begin, begin + room - overlap)
        until = _border(text, end, end + overlap, must=False)
    whole = header + text[start:until]
    return Window(text=whole, begin=begin, end=end, shift=start - len(header))


def _start(text: str, begin: int, overlap: int) -> int:
    """Where to begin to read: at a line before the piece if there is one, else at a word."""
    if begin <= overlap:
        return 0
    line = text.find("\n", begin - overlap, begin)
    if line >= 0:
        return line + 1
    word = _BORDERS[-1].search(text, begin - overlap, begin)
    return begin if word is None else word.end()


def _border(text: str, begin: int, limit: int, *, must: bool = True) -> int:
    """The last border up to a limit: of the best kind that is in the second half, if any is."""
    half = (begin + limit) // 2
    for border in _BORDERS:
        ends = [match.end() for match in border.finditer(text, half, max(half, limit))]
        if ends:
            return ends[-1]
    if must:
        raise TextBlockedError("unbroken_text")
    return limit


def _header(text: str, start: int) -> str:
    """The first line of the table that a place is in: the lines above it that are split alike.

    A place within a line has none: which cell it is in is not known.
    """
    if start and text[start - 1] != "\n":
        return ""
    end = text.find("\n", start)
    line = text[start : len(text) if end < 0 else end]
    mark = next((mark for mark in _MARKS if mark in line), "")
    header, at = "", start
    while mark and at > 0:
        above = text.rfind("\n", 0, at - 1) + 1
        earlier = text[above:at]
        if earlier.count(mark) != line.count(mark):
            break
        header, at = earlier, above
    return header
