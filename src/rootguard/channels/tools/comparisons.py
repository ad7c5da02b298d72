"""Comparisons as schemas write them: "above 40 U/L", "65 or older", "20-24", `age_over_50`.

A comparison is read as an interval of numbers, with the place where it stands, so that the unit
behind its number can be read. What is compared, and for whom, is not known here. Pure text.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rootguard.channels.tools.words import data
from rootguard.language.fold import bare, plain
from rootguard.language.lists import either


@dataclass(frozen=True, kw_only=True, slots=True)
class NumberRange:
    """Numbers from `lower` to `upper`; whether the ends belong to it."""

    lower: float = -math.inf
    upper: float = math.inf
    with_lower: bool = True
    with_upper: bool = True

    def __contains__(self, number: float) -> bool:
        above = number > self.lower or (self.with_lower and number == self.lower)
        below = number < self.upper or (self.with_upper and number == self.upper)
        return above and below


@dataclass(frozen=True, kw_only=True, slots=True)
class Inequality:
    """An interval in a text: from, to, and where its last number ends."""

    start: int
    end: int
    number_end: int
    interval: NumberRange


_NUMBER: Final = r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:,\d{1,2}(?!\d))?"
_SIGN: Final = "|".join(
    f"(?P<{sign}>{either(data()['compared'][sign])})"
    for sign in ("at_least", "at_most", "above", "below")
)
_OR_EQUAL: Final = r"(?P<equal>(?: or equal(?: to)?)?)"
_UP: Final = rf"(?:or|and) (?:{either(data()['compared']['up'])})|\+|y mas|et plus"
_DOWN: Final = rf"(?:or|and) (?:{either(data()['compared']['down'])})"
_UNIT_BETWEEN: Final = r"(?: ?[^\s\d,;:()]{1,14}| years?(?: old)?| mm hg)?"
_BETWEEN: Final = re.compile(
    rf"(?<![\w.])(?:between )?(?P<low>{_NUMBER}) ?(?:-|–|—|to|through|and|bis) ?"
    rf"(?P<high>{_NUMBER})(?![\d%]*[-–—]\d)"
)
_SIGNED: Final = re.compile(
    rf"(?:(?<![^\W_])|(?=[<>≥≤=⩾⩽]))(?:{_SIGN}){_OR_EQUAL} ?(?:an? |the )?(?P<number>{_NUMBER})"
)
_SUFFIXED: Final = re.compile(
    rf"(?<![\w.])(?P<number>{_NUMBER}){_UNIT_BETWEEN} ?"
    rf"(?:(?P<up>{_UP})|(?P<down>{_DOWN}))(?![^\W_])"
)
_PLUS: Final = re.compile(rf"(?<![\w.])(?P<number>{_NUMBER}) ?\+(?!\w)")


def flat(text: str) -> str:
    """A text as comparisons are read in: small letters, no accents, one kind of each sign."""
    return bare(plain(text)).replace("\N{NON-BREAKING HYPHEN}", "-")


def comparisons(text: str) -> list[Inequality]:
    """The comparisons of a flat text, in order; of two that overlap, the first kind counts."""
    found: list[Inequality] = []
    for each in (*_signed(text), *_suffixed(text), *_between(text)):
        if all(each.end <= other.start or other.end <= each.start for other in found):
            found.append(each)
    return sorted(found, key=lambda each: each.start)


def _signed(text: str) -> Iterator[Inequality]:
    for match in _SIGNED.finditer(text):
        number = to_number(match["number"])
        equal = bool(match["equal"])
        if match["above"] or match["at_least"]:
            made = NumberRange(lower=number, with_lower=bool(match["at_least"]) or equal)
        else:
            made = NumberRange(upper=number, with_upper=bool(match["at_most"]) or equal)
        yield Inequality(
            start=match.start(), end=match.end(), number_end=match.end("number"), interval=made
        )


def _suffixed(text: str) -> Iterator[Inequality]:
    for match in (*_SUFFIXED.finditer(text), *_PLUS.finditer(text)):
        number = to_number(match["number"])
        down = "down" in match.re.groupindex and match["down"]
        made = NumberRange(upper=number) if down else NumberRange(lower=number)
        yield Inequality(
            start=match.start(), end=match.end(), number_end=match.end("number"), interval=made
        )


def _between(text: str) -> Iterator[Inequality]:
    for match in _BETWEEN.finditer(text):
        low, high = to_number(match["low"]), to_number(match["high"])
        if low < high:
            yield Inequality(
                start=match.start(),
                end=match.end(),
                number_end=match.end("high"),
                interval=NumberRange(lower=low, upper=high),
            )


def to_number(text: str) -> float:
    """A number as schemas write it: 1,000 is a thousand, 2,5 two and a half."""
    if re.fullmatch(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?", text):
        return float(text.replace(",", ""))
    return float(text.replace(",", "."))
