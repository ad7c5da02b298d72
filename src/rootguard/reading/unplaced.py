"""Numbers that belong to no root, identifier or token, and whether they look private.

A number near a private-looking word (`wording.toml`), near a name of a root, or in a laboratory's
unit may be a private value that nobody declared, or a mention that was written in a way nobody
thought of. Years after "in", times of day, "3 weeks ago", list markers, "chapter 5" and reference
ranges are not counted as such. Near means within a few words of the same sentence.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rootguard.language.fold import Spans
from rootguard.language.numbers import WrittenNumber
from rootguard.reading.mentions import following_unit
from rootguard.reading.page import Page, read_page, wording
from rootguard.template import Root
from rootguard.values import RootName

NEAR = 6  # words: "my ferritin from last week was 480" has five in between
_FAR_APART = 60  # characters without a word, such as a rule of dashes, end what is near
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_]+")
_SENTENCE_END = re.compile(r"[.!?]\s")
_LAB_UNIT = re.compile(r"/(?:d|m|u)?L$|mmHg|kPa|mmol|bpm|kg/m2")
_LABELLING = re.compile(r"[\"'`*]{0,3}\s?[:=]\s*[\"'`$€£*]{0,3}\s?")
_LIST_MARKER = re.compile(r"[.)](?=\s|$)")
_PARTING = re.compile(r"[\"'{}\[\]\n;|=<>]")
_COPULAS = frozenset(("is", "was", "at", "of", "about", "around"))
_UNIT = 2  # letters: "1875/mo on loans"
_TERSE = 40  # characters: "ferritin 480", "my labs: ferritin 480"
_FEW_WORDS = 4
_LEAST_WORD = 20  # "one of them", "two ways", "ten times": smaller number words are seldom values
# Before "12. Take iron" there is room for an indent and a quote mark; from 1000 on it is no item's
# number, and may be a value.
_LONGEST_INDENT = 8
_LONGEST_MARKER = 3


class UnboundNumber(NamedTuple):
    """Where a number stands that belongs to nothing, and whether it stands by a private word."""

    start: int
    end: int
    beside_private_noun: bool


def unbound_numbers(
    text: str,
    taken: Sequence[tuple[int, int]],
    roots: Mapping[RootName, Root] | None = None,
) -> list[UnboundNumber]:
    """The numbers of a text outside of what is taken, in order."""
    return unbound_on(read_page(text, roots or {}), taken)


def unbound_on(page: Page, taken: Sequence[tuple[int, int]]) -> list[UnboundNumber]:
    """The numbers of a page outside of what is taken, in order."""
    spoken_for = Spans(taken)
    surroundings: Surroundings | None = None
    found = []
    for number in page.numbers:
        start, end = page.folded.span(number.start, number.end)
        if number.sort == "hole" or spoken_for.meet(start, end) or _idle_word(page, number):
            continue
        surroundings = surroundings or Surroundings(page)
        private = not page.public.meet(number.start, number.end) and surroundings.private(number)
        found.append(UnboundNumber(start=start, end=end, beside_private_noun=private))
    return found


def _idle_word(page: Page, number: WrittenNumber) -> bool:
    """Whether it is a small number word, which is seldom a value: "one of them", "two ways"."""
    single = _WORD.fullmatch(page.folded.text, number.start, number.end) is not None
    return number.sort == "words" and single and (number.value or 0) < _LEAST_WORD


class Surroundings:
    """The words of a page and which of them look private."""

    def __init__(self, page: Page) -> None:
        self._text = page.folded.text
        self._plain = page.plain
        self._words = [match.span() for match in _WORD.finditer(self._text)]
        self._starts = [start for start, _ in self._words]
        self._cells = sorted(
            (
                (cell.start, cell.end, column.header)
                for column in page.columns
                for cell in column.cells
            ),
            key=lambda cell: cell[0],
        )
        self._names = Spans((n.start, n.end) for n in page.names if not n.subject)
        content = wording()["private"]
        self._nouns = frozenset(content["nouns"])
        self._birth = frozenset(content["birth"])
        self._harmless = frozenset(content["harmless"])
        self._before_year = frozenset(content["before_year"])
        self._before_ordinal = frozenset(content["before_ordinal"])
        self._verbs_too = frozenset(content["verbs_too"])
        self._doers = frozenset(content["doers"])

    def idle(self, number: WrittenNumber) -> bool:
        """Whether it is a small number word, which is seldom a value: "one of them", "two ways"."""
        single = _WORD.fullmatch(self._text, number.start, number.end) is not None
        return number.sort == "words" and single and (number.value or 0) < _LEAST_WORD

    def private(self, number: WrittenNumber) -> bool:
        """Whether a number looks private where it stands."""
        unit = following_unit(self._plain, number.end)
        if unit is not None and _LAB_UNIT.search(unit) and self._unit_is_written(number):
            return True
        near = [*self._left(number), *self._right(number)]
        if self._ordinary(number):
            return any(self._said(place) in self._birth for place in near)
        return any(self._looks_private(place) for place in near)

    def tied(self, number: WrittenNumber) -> bool:
        """Whether it is in a laboratory's unit, or a few words say a private one and nothing else.

        "Ferritin 480" is somebody's, "net debt of 2.2 billion, EBITDA 647 million" is in the news.
        """
        unit = following_unit(self._plain, number.end)
        if unit is not None and _LAB_UNIT.search(unit) and self._unit_is_written(number):
            return True
        if self.labelled(number):
            return True
        line = self._plain[max(0, number.start - _TERSE) : number.end + _TERSE]
        if len(line) < len(self._plain) or len(_WORD.findall(line)) > _FEW_WORDS:
            return False
        for place in self._left(number):  # "sugar was 106.2"
            if self._looks_private(place):
                return True
            if self._said(place) not in _COPULAS:
                break
        return False

    def beside(self, number: WrittenNumber) -> bool:
        """Whether a private word is next to it, small words aside: "on loans 1875"."""
        small = wording()["between"]
        if self._plain[number.end : number.end + 2].strip()[:1] == "%":
            return False
        for places in (self._left(number), self._right(number)):
            reached = number.start
            for place in places:
                start, end = self._words[place]
                gap = self._plain[end:reached] if end <= reached else self._plain[reached:start]
                if _PARTING.search(gap):
                    break
                if self._looks_private(place):
                    return True
                if self._said(place) not in small and len(self._said(place)) > _UNIT:
                    break
                reached = start if end <= number.start else end
        return False

    def labelled(self, number: WrittenNumber) -> bool:
        """Whether a private word is its key, its label or the header of its column."""
        nearest = next(self._left(number), None)
        if nearest is not None and self._looks_private(nearest):
            gap = self._plain[self._words[nearest][1] : number.start]
            if _LABELLING.fullmatch(gap):
                return True
        at = bisect_right(self._cells, number.start, key=lambda cell: cell[0]) - 1
        if at < 0 or number.start >= self._cells[at][1]:
            return False
        header = self._cells[at][2]
        first = bisect_left(self._starts, header.start)
        last = bisect_left(self._starts, header.end)
        return any(self._looks_private(place) for place in range(first, last))

    def _unit_is_written(self, number: WrittenNumber) -> bool:
        """Not a bare letter that could be the start of a word."""
        rest = self._plain[number.end : number.end + 3].strip()
        return len(rest) > 0 and rest not in ("k", "m")

    def _said(self, place: int) -> str:
        start, end = self._words[place]
        return self._plain[start:end]

    def _looks_private(self, place: int) -> bool:
        word = self._said(place)
        if word in self._nouns or word.removesuffix("s") in self._nouns:
            return True
        return self._names.meet(*self._words[place])

    def _ordinary(self, number: WrittenNumber) -> bool:
        """A year, a time span, an ordinal, a list marker: what counts, but measures nothing."""
        text, start, end = self._plain, number.start, number.end
        after = bisect_left(self._starts, end)
        before = after - 1 if number.sort != "words" else bisect_left(self._starts, start) - 1
        previous = self._said(before) if before >= 0 else ""
        close_before = before >= 0 and text[self._words[before][1] : start] in (" ", "-", " (", "")
        following = self._said(after) if after < len(self._words) else ""
        if following in self._harmless and text[end : self._words[after][0]] in ("", " ", "-"):
            return True
        written = text[start:end]
        year = len(written) == len("2023") and written.isdigit() and "1900" <= written <= "2099"
        if close_before and year and previous in self._before_year:
            return True
        if close_before and previous in self._before_ordinal:
            doer = self._said(before - 1) if before > 0 else ""
            return not (previous in self._verbs_too and doer in self._doers)
        if text[start - 1 : start] == "[" and text[end : end + 1] == "]":
            return True
        opening = text[max(0, start - _LONGEST_INDENT) : start].rsplit("\n", 1)
        at_line_start = (len(opening) > 1 or start <= _LONGEST_INDENT) and not opening[-1].strip(
            " \t>*-"
        )
        return (
            at_line_start
            and bool(_LIST_MARKER.match(text, end))
            and len(written) <= _LONGEST_MARKER
        )

    def _left(self, number: WrittenNumber) -> Iterator[int]:
        edge = number.start
        last = bisect_left(self._starts, number.start)
        for place in range(last - 1, max(last - 1 - NEAR, -1), -1):
            if self._parted(self._words[place][1], edge):
                return
            yield place
            edge = self._words[place][0]

    def _right(self, number: WrittenNumber) -> Iterator[int]:
        edge = number.end
        first = bisect_left(self._starts, number.end)
        for place in range(first, min(first + NEAR, len(self._words))):
            if self._parted(edge, self._words[place][0]):
                return
            yield place
            edge = self._words[place][1]

    def _parted(self, start: int, end: int) -> bool:
        return end - start > _FAR_APART or _SENTENCE_END.search(self._text, start, end) is not None
