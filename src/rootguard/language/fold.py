"""A text as a reader sees it, with places.

Full-width digits, zero-width characters, superscripts and accents are written in many ways and read
in one. `fold` drops and replaces characters and remembers where each stood; `plain` and `bare` keep
every character in its place, so that what is found in them is found in the folded text as well.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

_SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-", strict=True))
_LOOKALIKES = str.maketrans("−‒‑‐’‘′ʼ＇“”″⁄×μµ", "----'''''\"\"\"/xuu")
_JOINERS = "\u034f\u180b\u180c\u180d\u180e"  # invisible, but not of the category Cf
_SHARP_S = "\xdf"
# Latin-1, Latin Extended-A and -B, Latin Extended Additional: the letters of ASCII with accents.
_LATIN = (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))


def _bases() -> dict[int, str]:
    parts = {code: unicodedata.normalize("NFD", chr(code)) for code in _LATIN}
    return {code: part[0] for code, part in parts.items() if len(part) > 1 and part[0].isascii()}


_BASES = _bases() | {0x131: "i"}  # the dotless i is an i where case is ignored
_PLAIN = {0xB5: "u", 0x3BC: "u", 0xD7: "x", 0x2044: "/"}


@dataclass(frozen=True, slots=True, repr=False)
class Folded:
    """A text as it is read, and where each of its characters stood."""

    text: str
    places: Sequence[int]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where a stretch of the folded text stands in the original."""
        return self.places[start], self.places[end - 1] + 1 if end > start else self.places[start]


def fold(text: str) -> Folded:
    """The text as a reader sees it: compatibility forms resolved, invisible characters dropped."""
    if text.isascii():
        return Folded(text, range(len(text) + 1))
    out: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        if character in _SUPERSCRIPTS:
            piece = _SUPERSCRIPTS[character]
            raised = place > 0 and text[place - 1] in _SUPERSCRIPTS
            piece = piece if raised else "^" + piece
        elif character.isascii():
            piece = character
        elif unicodedata.category(character) == "Cf" or character in _JOINERS:
            continue
        elif (digit := unicodedata.decimal(character, None)) is not None:
            piece = str(digit)
        elif out and unicodedata.combining(character):
            whole = unicodedata.normalize("NFC", out[-1][-1:] + character)
            if len(whole) == 1:  # "e" and a separate accent are one letter
                out[-1] = out[-1][:-1] + whole
                continue
            piece = character
        else:
            piece = character.translate(_LOOKALIKES)
            piece = unicodedata.normalize("NFKC", piece).translate(_LOOKALIKES)
        out.append(piece)
        places.extend([place] * len(piece))
    places.append(len(text))
    return Folded("".join(out), places)


def plain(text: str) -> str:
    """A text of the same length in lower case, with u for micro and x for times."""
    if text.isascii():
        return text.lower()
    # A few capital letters have two small ones, which would move places.
    text = "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)
    return text.translate(_PLAIN)


def bare(text: str) -> str:
    """A text of the same length, with the letters of ASCII in place of those with accents."""
    return text if text.isascii() else text.translate(_BASES)


def unaccented(text: str) -> str:
    """A text without accents, its letter case kept; "ß" becomes two letters."""
    if text.isascii():
        return text
    parts = unicodedata.normalize("NFKD", text.replace(_SHARP_S, "ss"))
    return "".join(c for c in parts if not unicodedata.combining(c))


def key_of(name: str) -> str:
    """A name without case, accents, spaces and signs."""
    return "".join(c for c in unaccented(name.casefold()) if c.isalnum())
