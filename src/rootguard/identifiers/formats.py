"""How an identifier is written: as a rank among those written alike, or as the words of a name.

`read` turns codes, phone numbers, dates and e-mail addresses into a `Written`: an integer in
{0 .. size-1}, a shape, and the way back. The shapes of one kind never overlap: every text has
exactly one shape and all the texts of a shape are read back with that shape. So permuting ranks
within shapes is one permutation of the whole kind, and two identifiers never share a token.

What stays visible, by design: length, separators, letter case, the kinds of characters, a phone's
country code, an e-mail's last label, a date's layout, and every character outside ASCII.

A person's name is read as words, some of which are replaced by names of the same sort. These stay
as they are: titles in front ("Dr."), suffixes behind ("Jr."), particles ("van", "de la"), the "O'"
of O'Brien, and a possessive "'s". A single capital letter is an initial. Every other word is
replaced, each by itself, so that "Ms. Lopez" later on is still the Lopez of "Maria Lopez".

Which list a word is replaced from: a listed word from its own list, wherever it stands (the lists
share no word). An unlisted word by its place when it is first met: surname if it is the last or
only word or stands before a comma, else given name; afterwards it keeps the token it has.

Why an identifier is refused stands at the end, in sentences that hold nothing of it.
"""

import bisect
import calendar
import datetime
import enum
import json
import math
import re
import string
import tomllib
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import product
from typing import Literal

from rootguard.errors import IdentifierError
from rootguard.identifiers.ff1 import MIN_DOMAIN

Case = Literal["title", "upper", "lower"]
Kind = Literal["code", "phone", "date", "email", "person"]
KINDS: tuple[Kind, ...] = ("code", "phone", "date", "email", "person")
# Longer than an e-mail address may be (254, RFC 5321), short enough for FF1 on the whole of it.
MAX_LENGTH = 256
# Two centuries: every day that a living person's papers name, and a domain of 73,049 to hide among.
FIRST_DAY = datetime.date(1900, 1, 1)
LAST_DAY = datetime.date(2099, 12, 31)

_CLASSES = (string.digits, string.ascii_uppercase, string.ascii_lowercase)
_SUBSCRIBER = "23456789"
_PHONE = re.compile(r"\+?[0-9 ().\-/]*[0-9][0-9 ().\-/]*(?:(?:x|ext\.?|#) ?[0-9]+)?", re.ASCII)
EMAIL = re.compile(r"[^\s@]+@(?:[^\s@.]+\.)+[^\s@.]+")
_COUNTRY_CODE = re.compile(
    "1|7|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|[2-9][0-9]{2}", re.ASCII
)
"""ITU-T E.164 calling codes: two zones of one digit, the listed two-digit codes, else three."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Written:
    """One identifier as a rank among the `size` identifiers of its shape. Private."""

    shape: bytes
    size: int
    rank: int
    write: Callable[[int], str]


def read(kind: Kind, text: str) -> Written | None:
    """The identifier as a rank, or None if the text is not one of this kind."""
    if kind == "person":
        raise IdentifierError("names are mapped word by word, not ranked")
    readers = {"phone": _read_phone, "date": _read_date, "email": _read_email}
    return readers.get(kind, _read_code)(text)


def _read_code(text: str) -> Written:
    return _slots(text, [_alphabet(character) for character in text])


def _alphabet(character: str) -> str:
    """The class a character is replaced within; a class of one keeps it."""
    return next((letters for letters in _CLASSES if character in letters), character)


def _slots(text: str, alphabets: list[str]) -> Written:
    """Mixed radix: position i counts in base |alphabets[i]|; base one keeps its character."""
    rank = 0
    for character, letters in zip(text, alphabets, strict=True):
        rank = rank * len(letters) + letters.index(character)

    def write(number: int) -> str:
        out = []
        for letters in reversed(alphabets):
            number, position = divmod(number, len(letters))
            out.append(letters[position])
        return "".join(reversed(out))

    return Written(
        shape=json.dumps(alphabets).encode(),
        size=math.prod(map(len, alphabets)),
        rank=rank,
        write=write,
    )


def _read_phone(text: str) -> Written | None:
    """Keeps '+' and country code; a first national digit 0 or 1 stays, 2-9 stays within 2-9."""
    if not _PHONE.fullmatch(text):
        return None
    places = [place for place, character in enumerate(text) if character in string.digits]
    national = 0
    if text.startswith("+"):
        code = _COUNTRY_CODE.match("".join(text[place] for place in places))
        if code is None and text[places[0]] != "0":
            return None  # cut off within its country code
        national = len(code[0]) if code else 0
    if national >= len(places):
        return None
    alphabets = list(text)
    for place in places[national:]:
        alphabets[place] = string.digits
    first = text[places[national]]
    alphabets[places[national]] = _SUBSCRIBER if first in _SUBSCRIBER else first
    return _slots(text, alphabets)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Digits:
    """The digits of a phone number, and which of them are the national number. Private."""

    digits: str
    national: range


def read_digits(text: str) -> Digits | None:
    """A phone number's parts: neither country code, trunk digit nor extension is the national part.

    So "+1 415 555 0132" and "(415) 555-0132" have the same one, as have "+49 30 1234567" and
    "030 1234567".
    """
    if read("phone", text) is None:
        return None
    main = re.split(r"[x#e]", text)[0]
    everything, digits = _digits_of(text), _digits_of(main)
    first = 0
    if text.startswith("+") or (digits.startswith("00") and len(digits) >= _ABROAD):
        first = 0 if text.startswith("+") else 2
        code = _COUNTRY_CODE.match(digits, first)
        first = code.end() if code is not None and code.end() < len(digits) else first
    elif digits.startswith("1") and len(digits) == len("14155550132"):
        first = 1
    if digits.startswith("0", first) and len(digits) - first > _LOCAL:
        first += 1  # the trunk digit
    return Digits(digits=everything, national=range(first, len(digits)))


def _digits_of(text: str) -> str:
    return "".join(character for character in text if character in string.digits)


_LOCAL = 6
"""A zero before more digits than these is a trunk digit, before fewer it may be the number's."""
_ABROAD = 10
"""From this many digits on "00" stands for the plus."""


def _read_email(text: str) -> Written | None:
    """Everything but the last label of the domain, character class by character class."""
    if not EMAIL.fullmatch(text):
        return None
    kept = text.rindex(".")
    return _slots(text, [_alphabet(character) for character in text[:kept]] + list(text[kept:]))


# Not `calendar.month_name`: that follows the machine's locale, and tokens must not.
_MONTH_WORDS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


@dataclass(frozen=True, slots=True)
class _DateForm:
    """A way to write a date. `layout` names its fields; months are numbers or words."""

    layout: str
    day: str = "02d"
    month: str = "02d"
    case: Case = "title"

    def write(self, year: int, month: int, day: int) -> str:
        match self.month:
            case "full":
                word = _MONTH_WORDS[month - 1]
            case "short":
                word = _MONTH_WORDS[month - 1][:3]
            case width:
                word = format(month, width)
        word = {"title": word, "upper": word.upper(), "lower": word.lower()}[self.case]
        return self.layout.format(y=f"{year:04d}", m=word, d=format(day, self.day))


_CASES: tuple[Case, ...] = ("title", "upper", "lower")
_NUMBER_LAYOUTS = ("{y}-{m}-{d}", "{y}/{m}/{d}", "{d}.{m}.{y}", "{m}/{d}/{y}")
_WORD_LAYOUTS = ("{d} {m} {y}", "{m} {d}, {y}", "{m} {d} {y}")
_DATE_FORMS: tuple[_DateForm, ...] = tuple(
    _DateForm(layout, day, month)
    for layout in _NUMBER_LAYOUTS
    for day, month in (("02d", "02d"), ("d", "d"), ("02d", "d"), ("d", "02d"))
) + tuple(
    _DateForm(layout.replace("{m}", "{m}" + dot), day, month, case)
    for layout, dot, month, case, day in product(
        _WORD_LAYOUTS, ("", "."), ("full", "short"), _CASES, ("d", "02d")
    )
    if not (dot and month == "full")
)
"""Earlier forms come first: a text that two forms could write belongs to the earlier one."""

_MONTHS = {
    word[:length].lower(): month
    for month, word in enumerate(_MONTH_WORDS, start=1)
    for length in (3, len(word))
}


def _pattern(layout: str) -> re.Pattern[str]:
    worded = layout.replace("{m}.", "{m}") in _WORD_LAYOUTS
    month = "(?P<m>[A-Za-z]{3,9})" if worded else "(?P<m>[0-9]{1,2})"
    fields = {"{y}": "(?P<y>[0-9]{4})", "{d}": "(?P<d>[0-9]{1,2})", "{m}": month}
    return re.compile(
        "".join(fields.get(part, re.escape(part)) for part in re.split(r"(\{.\})", layout))
    )


_PATTERNS = {form.layout: _pattern(form.layout) for form in _DATE_FORMS}


def _form_of(text: str) -> tuple[_DateForm, datetime.date] | None:
    """The first form that writes this text, and the day it means."""
    for layout, pattern in _PATTERNS.items():
        found = pattern.fullmatch(text)
        if found is None:
            continue
        written = found["m"]
        month = int(written) if written.isdigit() else _MONTHS.get(written.lower(), 0)
        year, day = int(found["y"]), int(found["d"])
        if not (FIRST_DAY.year <= year <= LAST_DAY.year and 1 <= month <= 12):
            return None
        if not 1 <= day <= calendar.monthrange(year, month)[1]:
            return None
        for form in _DATE_FORMS:
            if form.layout == layout and form.write(year, month, day) == text:
                return form, datetime.date(year, month, day)
        return None
    return None


@cache
def _days_of(form: _DateForm) -> tuple[int, ...]:
    """Ordinals of the days that this form, and no earlier one, writes: its domain, in order."""
    own = set()
    for month in range(1, 13):
        for day in range(1, calendar.monthrange(2000, month)[1] + 1):
            found = _form_of(form.write(2000, month, day))
            if found is not None and found[0] == form:
                own.add((month, day))
    return _ordinals(frozenset(own))


@cache
def _ordinals(own: frozenset[tuple[int, int]]) -> tuple[int, ...]:
    """All days on these (month, day) pairs; the forms share a handful of such sets."""
    ordinals = range(FIRST_DAY.toordinal(), LAST_DAY.toordinal() + 1)
    days = ((ordinal, datetime.date.fromordinal(ordinal)) for ordinal in ordinals)
    return tuple(ordinal for ordinal, day in days if (day.month, day.day) in own)


_MOMENT = re.compile(
    r"(?P<day>.{8,20})(?P<gap>[T ])(?P<h>[01][0-9]|2[0-3]):(?P<m>[0-5][0-9])"
    r"(?::(?P<s>[0-5][0-9]))?",
    re.ASCII,
)


def _read_moment(text: str) -> Written | None:
    """A day and a time of day, permuted as one: a time alone has few values to hide among."""
    found = _MOMENT.fullmatch(text)
    day = None if found is None else _read_date(found["day"])
    if found is None or day is None:
        return None
    times = 24 * 60 * (60 if found["s"] else 1)
    time = int(found["h"]) * 60 + int(found["m"])
    if found["s"]:
        time = 60 * time + int(found["s"])

    def write(number: int) -> str:
        which, rest = divmod(number, times)
        minutes, seconds = divmod(rest, 60) if found["s"] else (rest, None)
        tail = "" if seconds is None else f":{seconds:02d}"
        return f"{day.write(which)}{found['gap']}{minutes // 60:02d}:{minutes % 60:02d}{tail}"

    return Written(
        shape=day.shape + f" {found['gap']}{times}".encode(),
        size=day.size * times,
        rank=day.rank * times + time,
        write=write,
    )


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Day:
    """A day as it is written, with the time of day if there is one. Private.

    `time` counts minutes or seconds, of which a day has `times`; both are 0 for a day alone.
    """

    day: datetime.date
    time: int = 0
    times: int = 0
    write: Callable[[datetime.date, int], str]


def read_day(text: str) -> Day | None:
    """The day that a date names, and how to write another day and time in its place."""
    moment = _MOMENT.fullmatch(text)
    found = _form_of(text if moment is None else moment["day"])
    if found is None:
        return None
    form, day = found

    def plain(other: datetime.date, _time: int) -> str:
        return form.write(other.year, other.month, other.day)

    if moment is None:
        return Day(day=day, write=plain)
    gap, exact = moment["gap"], moment["s"] is not None
    time = int(moment["h"]) * 60 + int(moment["m"])

    def timed(other: datetime.date, time: int) -> str:
        minutes, seconds = divmod(time, 60) if exact else (time, 0)
        tail = f":{seconds:02d}" if exact else ""
        return f"{plain(other, 0)}{gap}{minutes // 60:02d}:{minutes % 60:02d}{tail}"

    if exact:
        time = 60 * time + int(moment["s"])
    return Day(day=day, time=time, times=24 * 60 * (60 if exact else 1), write=timed)


def _read_date(text: str) -> Written | None:
    if ":" in text:
        return _read_moment(text)
    found = _form_of(text)
    if found is None:
        return None
    form, day = found
    domain = _days_of(form)

    def write(number: int) -> str:
        chosen = datetime.date.fromordinal(domain[number])
        return form.write(chosen.year, chosen.month, chosen.day)

    return Written(
        shape=repr(form).encode(),
        size=len(domain),
        rank=bisect.bisect_left(domain, day.toordinal()),
        write=write,
    )


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


class IdentifierRefusal(enum.Enum):
    """Why an identifier is refused. Fixed sentences: nothing of the identifier is in them."""

    KIND = "there is no such kind of identifier; there is code, phone, date, email and person"
    FORM = "the text is not written as an identifier of this kind"
    LENGTH = f"an identifier has between 1 and {MAX_LENGTH} characters"
    SMALL = f"fewer than {MIN_DOMAIN} identifiers are written like this one; it would not hide"
    FULL = "no free token is left for this identifier"
    UNISSUED = "this token was not issued here; only issued tokens are restored"


def refused(kind: Kind, refusal: IdentifierRefusal) -> IdentifierError:
    """The error. An unknown kind may be an identifier in the wrong place, so it is not named."""
    named = f"{kind}: " if kind in KINDS else ""
    return IdentifierError(f"{named}{refusal.value}")


def check_size(kind: Kind, text: object) -> None:
    """Refuse what is no text, or empty, or too long."""
    if not isinstance(text, str) or not 1 <= len(text) <= MAX_LENGTH:
        raise refused(kind, IdentifierRefusal.LENGTH if kind in KINDS else IdentifierRefusal.KIND)
