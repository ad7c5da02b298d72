"""Ways to spell a declared identifier, as sequences of letters and digits with gaps between them.

"+1 212 555 0147" is "(212) 555-0147" and "2125550147"; "1980-03-14" is "14 March 1980". A text is
reduced to its letters and digits, searched for such sequences, and a find counts if only
separators stand in its gaps and nothing goes on at its ends.
"""

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, count, islice, pairwise

from rootguard.identifiers import Kind
from rootguard.identifiers.names import read_name

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_SEPARATORS = frozenset(".,-/()_:#\u00b7\u2010\u2011\u2012\u2013\u2014\u2212")
_WIDEST_GAP = 3
_REGROUPED = 6
"""From this many letters and digits on, a number may be grouped in other ways than declared."""

_BLOCK = 256
_NEITHER = bytes(code for code in range(128) if not chr(code).isalnum())


class Letters:
    """The letters and digits of a text in lower case, and where each of them stands. Private."""

    __slots__ = ("_ends", "_places", "_text", "characters")

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends: list[int] = []
        self._places: list[int] | None = None
        if text.isascii():
            self.characters = _alone(text).decode().lower()
        else:
            self.characters = "".join(filter(str.isalnum, text)).casefold()

    def places(self, at: int, length: int) -> list[int]:
        """Where so many characters stand, from one of them on."""
        if not self._text.isascii():
            if self._places is None:
                self._places = [
                    place
                    for place, character in enumerate(self._text)
                    if character.isalnum()
                    for _ in character.casefold()
                ]
            return self._places[at : at + length]
        if not self._ends:  # how many characters there are up to the end of each block
            blocks = range(0, len(self._text), _BLOCK)
            sizes = (len(_alone(self._text[first : first + _BLOCK])) for first in blocks)
            self._ends = list(accumulate(sizes))
        block = bisect.bisect_right(self._ends, at)
        first = self._ends[block - 1] if block else 0
        alone = (p for p in count(block * _BLOCK) if self._text[p].isalnum())
        return list(islice(alone, at - first, at - first + length))


def _alone(text: str) -> bytes:
    """The letters and digits of a text of ASCII."""
    return text.encode().translate(None, _NEITHER)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Pattern:
    """One sequence to look for. Private. `exactly` is the spelling it must have, or nothing."""

    kind: Kind
    sequence: str
    exactly: str = ""
    separators: frozenset[str] = _SEPARATORS

    def spans(self, text: str, letters: Letters) -> Iterator[tuple[int, int]]:
        """Where the text spells this."""
        characters = letters.characters
        at = characters.find(self.sequence)
        while at >= 0:
            inside = letters.places(at, len(self.sequence))
            start, end = inside[0], inside[-1] + 1
            if self._ends(text, start, end) and self._fits(text, inside):
                yield self._opened(text, start, end), end
            at = characters.find(self.sequence, at + 1)

    def _fits(self, text: str, places: list[int]) -> bool:
        if self.exactly:
            return _plain(text[places[0] : places[-1] + 1]) == self.exactly
        gaps = (text[a + 1 : b] for a, b in pairwise(places) if b > a + 1)
        return all(
            len(gap) <= _WIDEST_GAP and all(c.isspace() or c in self.separators for c in gap)
            for gap in gaps
        )

    def _ends(self, text: str, start: int, end: int) -> bool:
        """Nothing goes on at either end; a label may be stuck to a number, as in "MRN4415"."""
        return not _goes_on(text[start - 1 : start], text[start]) and not _goes_on(
            text[end : end + 1], text[end - 1]
        )

    def _opened(self, text: str, start: int, end: int) -> int:
        """The start with the "+" or "(" that belongs to a phone number."""
        if self.kind == "phone" and start > 0:
            if text[start - 1] == "(" and ")" in text[start:end]:
                start -= 1
            if text[start - 1 : start] == "+":
                start -= 1
        return start


def _goes_on(outside: str, inside: str) -> bool:
    return outside.isalnum() and (outside.isdigit() == inside.isdigit())


def patterns_of(kind: Kind, text: str) -> list[Pattern]:
    """The sequences that spell an identifier; of a name, those in which its words are one."""
    sequence = Letters(text).characters
    if not sequence:
        return []
    match kind:
        case "person":
            words = [
                piece.text.casefold() for piece in read_name(text) or () if piece.part == "word"
            ]
            together = {"".join(words), words[0] + words[-1], words[-1] + words[0]}
            return [
                Pattern(kind="code", sequence=each, exactly=each)
                for each in (sorted(together) if len(words) > 1 else ())
            ]
        case "phone":
            sequences = dict.fromkeys(_phone(text, sequence))
            return [Pattern(kind=kind, sequence=each) for each in sequences if each]
        case "date":
            return _date(text)
        case "email" | "code":
            numbered = len(sequence) >= _REGROUPED and any(c.isdigit() for c in sequence)
            loose = kind == "code" and numbered
            return [Pattern(kind=kind, sequence=sequence, exactly="" if loose else _plain(text))]


def _plain(text: str) -> str:
    """Lower case, and every white space one blank."""
    return " ".join(text.casefold().split())


def _phone(text: str, digits: str) -> list[str]:
    """With and without country code, trunk zero and extension; 00 for the plus."""
    main = "".join(re.findall("[0-9]", re.split(r"[^0-9 ().+\-/]", text)[0]))
    if not text.startswith("+"):
        return [digits, main, "1" + main] if len(main) == 10 else [digits, main]
    # A country code has one to three digits; suffixes that are no national number hurt nobody.
    nationals = [main[cut:] for cut in (1, 2, 3) if len(main) - cut >= _REGROUPED + 1]
    return [digits, main, "00" + main, *nationals, *("0" + national for national in nationals)]


def _date(text: str) -> list[Pattern]:
    """The day in figures and words, in any order of day, month and year.

    A year that comes first is followed by no comma: it would end the date before.
    """
    year, month, day = _day_of(text)
    word = _MONTHS[month - 1]
    months = (str(month), f"{month:02d}", word, word[:3], "sept" if month == 9 else word)
    nth = {1: "st", 2: "nd", 3: "rd"}.get(day % 10 if day not in (11, 12, 13) else 0, "th")
    days = (str(day), f"{day:02d}", f"{day}{nth}", f"{day}{nth}of", f"the{day}{nth}of")
    spelled = {(d, m) for d in days for m in months}
    first = {f"{year}{m}{d}" for d, m in spelled}
    last = {f"{d}{m}{year}" for d, m in spelled} | {f"{m}{d}{year}" for d, m in spelled}
    tight = _SEPARATORS - {","}
    return [
        *(Pattern(kind="date", sequence=each, separators=tight) for each in sorted(first - last)),
        *(Pattern(kind="date", sequence=each) for each in sorted(last)),
    ]


def _day_of(text: str) -> tuple[int, int, int]:
    """Year, month and day of a text that `kind_of` calls a date."""
    numbers = [int(number) for number in re.findall("[0-9]+", text)]
    word = re.search("[A-Za-z]{3}", text)
    if word is not None:
        month = next(i for i, name in enumerate(_MONTHS, 1) if name.startswith(word[0].lower()))
        return numbers[1], month, numbers[0]
    if re.match("[0-9]{4}", text):
        return numbers[0], numbers[1], numbers[2]
    if "." in text:
        return numbers[2], numbers[1], numbers[0]
    return numbers[2], numbers[0], numbers[1]
