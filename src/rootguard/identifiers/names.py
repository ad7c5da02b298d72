"""The grammar of person names: which parts of a name are replaced, and by what sort of name.

A name is read as words. These stay as they are: titles in front ("Dr."), suffixes behind ("Jr."),
particles ("van", "de la"), the "O'" of O'Brien, and a possessive "'s". A single capital letter is
an initial. Every other word is replaced, each by itself, so that "Ms. Lopez" later on is still the
Lopez of "Maria Lopez".

Which list a word is replaced from: a listed word from its own list, wherever it stands (the lists
share no word). An unlisted word by its place when it is first met: surname if it is the last or
only word or stands before a comma, else given name; afterwards it keeps the token it has.
"""

import tomllib
import unicodedata
from dataclasses import dataclass
from importlib import resources
from typing import Literal

Role = Literal["given", "surname"]
Style = Literal["upper", "lower", "written"]
Part = Literal["kept", "initial", "word"]

APOSTROPHES = "'\u2019"
_PUNCTUATION = " .,-" + APOSTROPHES


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Piece:
    """A stretch of a name: kept as it is, an initial, or a word to replace."""

    part: Part
    text: str
    role: Role = "surname"


def _load() -> dict[str, tuple[str, ...]]:
    source = resources.files(__package__).joinpath("names.toml").read_text(encoding="utf-8")
    return {key: tuple(words.split()) for key, words in tomllib.loads(source).items()}


_DATA = _load()
LISTS: dict[Role, tuple[str, ...]] = {"given": _DATA["given"], "surname": _DATA["surnames"]}
"""The replacement names, in the order of the file."""
TITLES, SUFFIXES, PARTICLES = (frozenset(_DATA[key]) for key in ("titles", "suffixes", "particles"))
BESIDE = frozenset(_DATA["beside"])
"""Words that stand beside a name and are no part of one, in lower case."""
_PLACES = {name: (role, i) for role, words in LISTS.items() for i, name in enumerate(words)}


def place_of(word: str) -> tuple[Role, int] | None:
    """The list a capitalised word is in and its place there, or None."""
    return _PLACES.get(word)


def style_of(word: str) -> tuple[str, Style]:
    """A word's capitalised form and its case style; `restyle` gives the word back exactly.

    A word that its capitalised form cannot give back ("McDonald") is its own form, as written.
    """
    capitalised = word.capitalize()
    if capitalised != word:
        if capitalised.upper() == word:
            return capitalised, "upper"
        if capitalised.lower() == word:
            return capitalised, "lower"
    return word, "written"


def restyle(word: str, style: Style) -> str:
    """The word in a case style."""
    match style:
        case "upper":
            return word.upper()
        case "lower":
            return word.lower()
        case "written":
            return word


def is_letter(character: str) -> bool:
    """A letter, or a mark that belongs to the letter before it."""
    if character.isascii():
        return character.isalpha()
    return character.isalpha() or unicodedata.category(character).startswith("M")


def shape_of(text: str) -> str:
    """A text of the same length to search for words: ASCII letters and digits stay what they are.

    Any other letter is an "a", any other digit a "0", what is alphanumeric besides a "½", every
    apostrophe a straight one, and all else that is not ASCII a blank.
    """
    if text.isascii():
        return text
    table = {ord(character): _sort(character) for character in set(text) if character > "\x7f"}
    return text.translate(table)


def _sort(character: str) -> str:
    if is_letter(character):
        return "a"
    if character.isdigit():
        return "0"
    if character.isalnum():
        return "\u00bd"
    return "'" if character in APOSTROPHES else " "


def read_name(text: str) -> tuple[Piece, ...] | None:
    """The name in pieces that join to the text again, or None if it is not a name."""
    runs = _runs(text)
    if runs is None:
        return None
    spots = [i for i, run in enumerate(runs) if is_letter(run[0])]
    kept = _kept(runs, spots)
    named = [i for i in spots if i not in kept]
    if not any(len(runs[i]) > 1 or not runs[i].isascii() for i in named):
        return None
    comma = next((i for i, run in enumerate(runs) if "," in run and i < named[-1]), None)
    pieces = []
    for i, run in enumerate(runs):
        if i not in named:
            pieces.append(Piece(part="kept", text=run))
        elif len(run) == 1 and run.isascii():
            if run.islower() or (i and runs[i - 1][-1] in APOSTROPHES):
                return None  # after an apostrophe its token could read as a possessive "S"
            pieces.append(Piece(part="initial", text=run))
        else:
            last = _chunk_end(runs, i) >= named[-1]
            surname = last if comma is None else i < comma
            role: Role = "surname" if surname else "given"
            pieces.append(Piece(part="word", text=run, role=role))
    return tuple(pieces)


def looks_like_name(text: str) -> bool:
    """Two or more capitalised words, or one that is listed; titles and particles do not count."""
    pieces = read_name(text)
    if pieces is None:
        return False
    words = [piece.text for piece in pieces if piece.part != "kept"]
    if not all(word[0].isupper() for word in words):
        return False
    titled = pieces[0].part == "kept" and pieces[0].text.lower() in TITLES
    return len(words) > 1 or titled or place_of(style_of(words[0])[0]) is not None


def _runs(text: str) -> list[str] | None:
    """Maximal runs of letters and of punctuation, or None if anything else is in the text."""
    runs: list[str] = []
    before: bool | None = None
    for character in text:
        letter = is_letter(character)
        if not letter and character not in _PUNCTUATION:
            return None
        if letter is before:
            runs[-1] += character
        else:
            runs.append(character)
        before = letter
    return runs


def _chunk_end(runs: list[str], i: int) -> int:
    """The last run that hyphens or apostrophes tie to run i: Smith-Jones is one place."""
    while i + 2 < len(runs) and len(runs[i + 1]) == 1 and runs[i + 1] in "-" + APOSTROPHES:
        i += 2
    return i


def _kept(runs: list[str], spots: list[int]) -> set[int]:
    """Which letter runs stay: titles, suffixes, particles, "O'" and "'s"."""
    kept: set[int] = set()
    for i in spots:
        before = runs[i - 1][-1] if i else ""
        after = runs[i + 1][0] if i + 1 < len(runs) else ""
        elided = len(runs[i]) == 1 and after and after in APOSTROPHES
        possessive = runs[i] in {"s", "S"} and before and before in APOSTROPHES
        if (elided and i < spots[-1]) or (possessive and i == spots[-1]):
            kept.add(i)
    for i in spots:
        if i not in kept and runs[i].lower() not in TITLES:
            break
        kept.add(i)
    for i in reversed(spots):
        if i not in kept and runs[i].lower() not in SUFFIXES:
            break
        kept.add(i)
    first = min((i for i in spots if i not in kept), default=0)
    for i in spots[:-1]:
        # A capitalised first word may be a given name (Van, Al), so only "van" is kept there.
        lower = runs[i].islower()
        if runs[i].lower() in PARTICLES and (lower or (i > first and len(runs[i]) > 1)):
            kept.add(i)
    return kept
