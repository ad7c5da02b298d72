"""How an identifier is written, as a rank among all identifiers written the same way.

`read` turns codes, phone numbers, dates and e-mail addresses into a `Written`: an integer in
{0 .. size-1}, a shape, and the way back. The shapes of one kind never overlap: every text has
exactly one shape and all the texts of a shape are read back with that shape. So permuting ranks
within shapes is one permutation of the whole kind, and two identifiers never share a token.

What stays visible, by design: length, separators, letter case, the kinds of characters, a phone's
country code, an e-mail's last label, a date's layout, and every character outside ASCII.
"""

import bisect
import calendar
import datetime
import json
import math
import re
import string
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Literal

from rootguard.errors import IdentifierError

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
    match kind:
        case "code":
            return _slots(text, [_alphabet(character) for character in text])
        case "phone":
            return _read_phone(text)
        case "date":
            return _read_date(text)
        case "email":
            return _read_email(text)
        case "person":
            raise IdentifierError("names are mapped word by word, not ranked")


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
