"""What stands between a name and a number, or between two of a series, and whether it parts them.

Words and signs from closed lists, and units that fit the root, hold two things together; any other
word parts them. So "AST level was about 23" is one statement and "AST tree with 23 nodes" is not.
"""

import re
from dataclasses import dataclass

from rootguard.channels.text.vocabulary import Measure
from rootguard.language import units

REACH = 80
_MOST_LINES = 2
_WORD = re.compile(r"[^\W\d_]+")
_STRONG_SIGNS = frozenset(':=|",\t→')
_COPULAS = frozenset(
    ("is", "was", "are", "were", "of", "at", "equals", "value", "result", "level", "reading")
)
_ABBREVIATED = ("approx.", "ca.", "avg.", "no.", "max.", "min.")


@dataclass(frozen=True, slots=True)
class Gap:
    """A unit found in a gap, whether the gap ties strongly, opens a bracket, or is blank."""

    unit: str | None = None
    strong: bool = False
    bracket: bool = False
    empty: bool = True


def read_gap(
    text: str,
    start: int,
    end: int,
    measure: Measure,
    words: frozenset[str],
    signs: frozenset[str],
) -> Gap | None:
    """Read a stretch of a plain text; None if something in it parts what is around it."""
    if end - start > REACH or text.count("\n", start, end) > _MOST_LINES:
        return None
    unit: str | None = None
    strong = bracket = False
    empty, place = True, start
    while place < end:
        character = text[place]
        if character.isspace():
            strong = strong or character == "\t"
            place += 1
            continue
        empty = False
        read = _unit(text, start, place, end, measure)
        if read is not None:
            unit, place = read[0] or unit, read[1]
            continue
        word = _WORD.match(text, place, end)
        if word is not None:
            in_unit = word[0] == "in" and _unit(text, start, word.end() + 1, end, measure)
            if word[0] not in words and not in_unit:
                return None
            strong = strong or word[0] in _COPULAS
            place = word.end()
            continue
        if character not in signs and not (character == "." and _joining_dot(text, place)):
            return None
        strong = strong or character in _STRONG_SIGNS
        bracket = bracket or character in "(["
        place += 1
    return Gap(unit, strong, bracket, empty)


def _joining_dot(text: str, place: int) -> bool:
    """Whether a dot is in a path ("ast.value") or ends an abbreviation, not a sentence."""
    path = text[place + 1 : place + 2].isalpha()
    return path or text[max(0, place - 8) : place + 1].endswith(_ABBREVIATED)


def _unit(
    text: str, start: int, place: int, end: int, measure: Measure
) -> tuple[str | None, int] | None:
    """A unit of the root at a place between its name and its number ("AST (U/L): 23")."""
    inside = place > start and text[place - 1].isalnum()
    if place >= end or (inside and text[place].isalnum()):
        return None
    if measure.money:
        currency = units.read_currency(text, place)
        if currency is not None and currency[1] <= end:
            return None, currency[1]
        period = units.read_period(text, place)
        if period is not None and period[1] <= end:
            return f"{measure.unit.partition('/')[0]}/{period[0]}", period[1]
        return None
    camel = place == start and not text[place].isspace()
    marked = (
        camel
        or text[place - 1 : place] in ("(", "[", "_")
        or text[max(0, place - 3) : place] == "in "
    )
    for written, after in units.readings(text, place):
        if after > end or (text[place:after] in units.also_words() and not marked):
            continue
        unit = units.fits(written, measure.unit, measure.substance)
        if unit is not None:
            return unit, after
    return None


def following_unit(text: str, place: int) -> str | None:
    """The unit that stands right after a place of a plain text, whatever it measures."""
    at = place + (text[place : place + 1] in (" ", "-", "_"))
    found = next(units.readings(text, at), None)
    return None if found is None else found[0]
