"""How days are told and written: whole, by month and year, as long ago, by a feast.

A place in a text where a day stands says two things: which day it is, if its form can say only one,
and how a released day is written there, in a form that all days have. Which fact a day belongs to
is decided by `answers`. `told_when` says of when a number tells. The lists are in `days.toml`.
"""

import functools
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final, Literal, NamedTuple

from rootguard.language.fold import bare, fold
from rootguard.language.fold import plain as plain_text
from rootguard.language.lists import either, read_lists, whole
from rootguard.reading.page import Page
from rootguard.values import RootType

Writer = Callable[[RootType, float], str]
"""How a released value is written at a place."""

_ABBREVIATED: Final = 3  # letters of a month
_ISO: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_YEAR_FIRST: Final = re.compile(r"(\d{4})([/.])(\d{1,2})\2(\d{1,2})")
_DOTS: Final = re.compile(r"(\d{1,2})\.( ?)(\d{1,2})\.\2(\d{4}|\d{2})")
_DAY_WORD: Final = re.compile(
    r"(\d{1,2})(st|nd|rd|th|\.|er|º|°)?[ \u00a0-]?(de |of |del |d')?"
    r"([^\W\d_]{3,10})\.?,?[ \u00a0-](de |of |del )?(\d{4}|\d{2})"
)
_WORD_DAY: Final = re.compile(
    r"([^\W\d_]{3,10})\.?[ \u00a0](\d{1,2})(st|nd|rd|th)?(,?[ \u00a0])(\d{4})"
)
_SHORT_DAY: Final = re.compile(  # 20260104, 3.3.80
    r"(?<![\w.])(?P<day>(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])"
    r"|\d{1,2}\.\d{1,2}\.\d{2})(?![\w.]\d|\w)"
)
_SPELT_DAY: Final = re.compile(  # Mar 12 '25, 12Mar2025, Mar-12-2025
    r"(?<![^\W_])(?P<day>(?:(?P<m>[a-z]{3,9})\.?[ -]?\d{1,2}(?:st|nd|rd|th)?,?[ -]"
    r"|\d{1,2}(?:st|nd|rd|th|\.)?[ /-]?(?P<n>[a-z]{3,9})\.?,?[ /-]?)"
    r"(?:['’]?\d\d|(?:19|20)\d\d))(?!\w)"
)
_CALLED_DAY: Final = re.compile(  # date(2025, 3, 12)
    r"(?<![^\W_])(?:date|datetime|localdate\.of|new date)"
    r"\((?P<day>\d{4}, ?\d{1,2}, ?\d{1,2})[^()\n]{0,20}\)"
)
_WEEKDAY: Final = re.compile(
    r"(?<![^\W_])(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\.?"
    r"|montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag|lundi|mardi|mercredi|jeudi"
    r"|vendredi|samedi|dimanche|lunes|martes|miercoles|jueves|viernes|sabado|domingo|lunedi"
    r"|martedi|mercoledi|giovedi|venerdi|sabato|domenica),?[ ](?:the |den |der |le |el |il )?\Z"
)
_WEEKDAY_BEHIND: Final = re.compile(
    r",? \(?(?:(?:an?|on an?|which was an?|ein|un) )?"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day\)?(?![^\W_])"
)
_FIRST_WORD: Final = re.compile(r"([^\W\d_]{3,12})\.?,?[ ](?:the |den |der |le |el |il )?")
_ROMAN_DAY: Final = re.compile(
    r"(?<![^\W_])(?P<day>[ivx]{1,6}[ ·.•/-]{1,3}[ivx]{1,4}[ ·.•/-]{1,3}m[mdclxvi]{2,12})(?![^\W_])"
)
_IN_CALL: Final = re.compile(r"(\d{4}), ?(\d{1,2}), ?(\d{1,2})")
_DAY_ALONE: Final = re.compile(r"(?<![^\W_])(?:the |den |am )?\d{1,2}(?:st|nd|rd|th)(?![^\W_])")
_FIGURES_ONLY: Final = re.compile(  # 12.3., 3/12
    r"(?<![\w./-])(?:\d{1,2}\.\d{1,2}\.(?!\d)|\d{1,2}/\d{1,2}(?![\w/]))"
)
_MONTH_YEAR: Final = re.compile(
    r"(?<![^\W_])([a-z]{3,10})\.?,?[ ](de |of |del )?((?:19|20)\d\d)(?!\d)"
)
_YEAR_WORDS: Final = (
    r"(?:nineteen|twenty|two thousand)(?:[ -](?:and|hundred|oh|ten|eleven|twelve|[a-z]+teen"
    r"|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|one|two|three|four|five|six|seven"
    r"|eight|nine)(?![^\W_]))"
)
_SPOKEN_YEAR: Final = re.compile(rf",?[ ]{_YEAR_WORDS}*")
_YEAR_IN_WORDS: Final = re.compile(rf"(?<![^\W_]){_YEAR_WORDS}+")
_YEAR: Final = re.compile(r"(?<![\w./-])(?:19|20)\d\d(?![\w/-]|\.\d)")
DAY_HOLE: Final = "[date]"


@functools.cache
def _lists() -> Mapping[str, Any]:
    return read_lists("rootguard.reading", "days.toml")


def fold_word(text: str) -> str:
    """A word as the reader sees texts: small letters, no accents."""
    return plain_text(bare(fold(text).text))


@functools.cache
def age_ordinals() -> re.Pattern[str]:
    """Which birthday it is, which tells the year: "my 40th"."""
    return whole(rf"\d{{1,3}}(?:st|nd|rd|th)|{either(_lists()['days']['ages'])}")


@functools.cache
def _ago() -> re.Pattern[str]:
    return whole("|".join(_lists()["ago"]))


@functools.cache
def _month_names() -> Mapping[str, int]:
    """Month words, whole and abbreviated."""
    found: dict[str, int] = {}
    for short in (False, True):
        for months in _lists()["months"].values():
            for number, month in enumerate(months, start=1):
                word = fold_word(month)
                found.setdefault(word[:_ABBREVIATED] if short else word, number)
                found.setdefault(word[:4], number)
    return found


@functools.cache
def _days_of_months() -> re.Pattern[str]:
    """A day of a month without its year: "the 4th of January", "Jan 4"."""
    words, told = either(_month_names()), either(_lists()["days"]["ordinals"])
    return whole(
        rf"(?:the )?(?:\d{{1,2}}(?:st|nd|rd|th|\.)?|{told}) (?:of |de )?(?:{words})"
        r"(?:,? (?:19|20)\d\d)?"
        rf"|(?:{words})\.? \d{{1,2}}(?:st|nd|rd|th)?"
    )


@functools.cache
def _months_alone() -> re.Pattern[str]:
    """A month without day and year: "early March"."""
    words = either(_month_names().keys() - {"may", "mar"})
    return whole(
        r"(?:early|late|mid|middle of|end of|start of|beginning of|anfang|ende|mitte)"
        rf"[ -](?:{words}|may|mar)|(?:{words})|(?<=in )may"
    )


@functools.cache
def _feasts() -> re.Pattern[str]:
    """A day told by a feast, or a week by its month: "the Tuesday before Easter"."""
    feasts, months = either(_lists()["days"]["feasts"]), either(_month_names())
    return whole(
        rf"(?:(?:the |a |\w+ )?(?:\w+ )?(?:before|after) )?(?:{feasts})"
        r"(?: (?:sunday|monday|day|eve|weekend))?(?:,? (?:19|20)\d\d)?"
        r"|(?:the )?(?:\d(?:st|nd|rd|th)|first|second|third|fourth|last) week(?:end)?"
        rf" (?:of|in) (?:{months})(?:,? (?:19|20)\d\d)?"
    )


@functools.cache
def _seasons() -> re.Pattern[str]:
    words = either(_lists()["days"]["seasons"])
    return whole(rf"(?:(?:early|late|mid)[ -])?(?:{words})(?:,?(?: of| de| del)? (?:19|20)\d\d)?")


def _with_weekday(text: str, day: tuple[int, int]) -> tuple[int, int]:
    """A day with its weekday before it, which tells of it."""
    before = _WEEKDAY.search(text, max(0, day[0] - 14), day[0])
    return day if before is None else (before.start(), day[1])


def _longest(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, of those that overlap the longest."""
    kept: list[tuple[int, int]] = []
    for start, end in sorted(spans, key=lambda span: span[0] - span[1]):
        at = bisect_left(kept, (start, end))
        free = at == len(kept) or end <= kept[at][0]
        if free and (at == 0 or kept[at - 1][1] <= start):
            kept.insert(at, (start, end))
    return kept


def days_in(text: str, whole: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The days of a plain text with their weekdays: those found as `whole`, and shorter forms."""
    short = [
        m.span("day")
        for pattern in (_SHORT_DAY, _SPELT_DAY, _CALLED_DAY, _ROMAN_DAY)
        for m in pattern.finditer(text)
        if pattern is not _SPELT_DAY or (m["m"] or m["n"]) in _month_names()
    ]
    return _longest(_with_weekday(text, day) for day in _longest([*whole, *short]))


class DayPart(NamedTuple):
    """Where a day is told in part, and how a released one is written there, if it can be."""

    start: int
    end: int
    write: Writer | None


def part_of_day(text: str, start: int, end: int, language: str) -> DayPart | None:
    """A day told by its month and year, its year, or how long ago it is."""
    for pattern in (
        *(_feasts(), _days_of_months(), _seasons(), _MONTH_YEAR, _ago(), _YEAR, _YEAR_IN_WORDS),
        *(_FIGURES_ONLY, _months_alone(), _DAY_ALONE),
    ):
        parts = pattern.finditer(text, start, end)
        if pattern is _MONTH_YEAR:
            parts = (each for each in parts if each[1] in _month_names())
        part = next(iter(parts), None)
        if part is None:
            continue
        write: Writer | None = None
        if pattern is _MONTH_YEAR:
            write = _month_and_year(_lists()["months"][language], part[2] or "")
        elif pattern is _days_of_months():
            dated = _YEAR.search(part[0]) is not None
            write = _day_and_month(_lists()["months"][language], dated=dated)
        elif pattern in (_YEAR, _YEAR_IN_WORDS):
            write = _year_alone
        stop = part.end()
        if pattern is _days_of_months():
            spoken = _SPOKEN_YEAR.match(text, stop)
            stop = stop if spoken is None else spoken.end()
        begin, _ = _with_weekday(text, part.span())
        return DayPart(begin, stop, write)
    return None


def past_weekday(text: str, end: int) -> int:
    """Where a day ends with the weekday behind it, which tells of it."""
    weekday = _WEEKDAY_BEHIND.match(text, end)
    return end if weekday is None else weekday.end()


def _released_day(kind: RootType, number: float) -> date:
    day = kind.outside(number)
    return day if isinstance(day, date) else date(1970, 1, 1)


def day_in(written: str, language: str) -> tuple[str | None, Writer]:
    """What a day says in ISO form, if its form can say only one day, and how one is written there.

    A weekday before it is left out. A month is written in the name's language: the language that
    it was written in would tell some months from others ("April" is one in two). In figures with
    slashes day and month may stand either way round: they are not learnt from, and written back
    in ISO form.
    """
    weekday = _FIRST_WORD.match(written)
    if weekday is not None and fold_word(weekday[1]) not in _month_names():
        written = written[weekday.end() :]
    if (call := _IN_CALL.fullmatch(written)) is not None:
        return _iso(call[1], call[2], call[3]), _formatted("{0:%Y}, {0.month}, {0.day}", "")
    if (iso := _ISO.match(written)) is not None:
        return _iso(iso[1], iso[2], iso[3]), _formatted("{0:%Y-%m-%d}", "")
    if re.fullmatch(r"\d{8}", written):
        return _iso(written[:4], written[4:6], written[6:]), _formatted("{0:%Y%m%d}", "")
    if (first := _YEAR_FIRST.fullmatch(written)) is not None:
        return _iso(first[1], first[3], first[4]), _formatted(
            f"{{0:%Y{first[2]}%m{first[2]}%d}}", ""
        )
    if (dots := _DOTS.fullmatch(written)) is not None:
        full = dots[4] if len(dots[4]) == 4 else ""
        return _iso(full, dots[3], dots[1]), _formatted("{0:%d}.{1}{0:%m}.{1}{0:%Y}", dots[2])
    folded = fold_word(written)
    if (worded := _DAY_WORD.fullmatch(folded)) is not None and worded[4] in _month_names():
        month = _month_names()[worded[4]]
        year = worded[6] if len(worded[6]) == 4 else ""
        write = _day_month(language, worded[2] or "", worded[3] or "", worded[5] or "")
        return _iso(year, month, worded[1]), write
    if (worded := _WORD_DAY.fullmatch(folded)) is not None and worded[1] in _month_names():
        month = _month_names()[worded[1]]
        return _iso(worded[5], month, worded[2]), _month_day(language, worded[3] or "", worded[4])
    if (part := _MONTH_YEAR.fullmatch(folded)) is not None and part[1] in _month_names():
        return None, _month_and_year(_lists()["months"][language], part[2] or "")
    return None, _formatted("{0:%Y-%m-%d}", "")


def _iso(year: str, month: str | int, day: str | int) -> str | None:
    try:
        return date(int(year), int(month), int(day)).isoformat()
    except ValueError:
        return None


def _formatted(form: str, between: str) -> Writer:
    return lambda kind, number: form.format(_released_day(kind, number), between)


def _ordinal(day: int, marked: str) -> str:
    if not marked:
        return str(day)
    if marked not in ("st", "nd", "rd", "th"):
        return f"{day}." if marked == "." else str(day)
    ending = "th" if 10 < day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def _day_month(language: str, marked: str, of: str, of_year: str) -> Writer:
    def write(kind: RootType, number: float) -> str:
        day = _released_day(kind, number)
        month = _lists()["months"][language][day.month - 1]
        linked = "de " if of == "d'" else of
        return f"{_ordinal(day.day, marked)} {linked}{month} {of_year}{day.year}"

    return write


def _month_day(language: str, marked: str, between: str) -> Writer:
    def write(kind: RootType, number: float) -> str:
        day = _released_day(kind, number)
        month = _lists()["months"][language][day.month - 1]
        return f"{month} {_ordinal(day.day, marked)}{between}{day.year}"

    return write


def _month_and_year(months: Sequence[str], of: str) -> Writer:
    def write(kind: RootType, number: float) -> str:
        day = _released_day(kind, number)
        return f"{months[day.month - 1]} {of}{day.year}"

    return write


def _day_and_month(months: Sequence[str], *, dated: bool) -> Writer:
    def write(kind: RootType, number: float) -> str:
        day = _released_day(kind, number)
        return f"{day.day} {months[day.month - 1]}{f' {day.year}' if dated else ''}"

    return write


def _year_alone(kind: RootType, number: float) -> str:
    return str(_released_day(kind, number).year)


# When a number was told of.

# Characters in which a number's day stands: close behind it, or at the head of its clause.
_WHEN_BEHIND: Final = 40
_WHEN_BEFORE: Final = 60
_NEXT_PART: Final = re.compile(r"[,;]|(?<![^\W_])(?:and|und|et|y|e)(?![^\W_])")
_DAYS_BACK: Final = re.compile(
    r"(\d{1,3}) (day|week|tag|woche|jour|semaine|dia|semana|giorn|settiman)"
)


@functools.cache
def _when(name: Literal["now", "earlier"]) -> re.Pattern[str]:
    return whole(either(_lists()["when"][name]))


def told_when(
    page: Page,
    place: tuple[int, int],
    between: tuple[int, int],
    days: Sequence[tuple[int, int]],
    today: date,
) -> date | Literal["now", "earlier"]:
    """Of when a number at a place tells: a day, now, or some time before; where nothing says, now.

    `between` are the ends of the numbers before and behind it; all places are of the folded text.
    """
    text = page.plain
    line, stop = text.rfind("\n", 0, place[0]) + 1, text.find("\n", place[1])
    last = min(between[1], place[1] + _WHEN_BEHIND, len(text) if stop < 0 else stop)
    over = _NEXT_PART.search(text, place[1], last)
    behind = (place[1], last if over is None else over.start())
    before = (max(between[0], place[0] - _WHEN_BEFORE, line), place[0])
    for (start, end), nearest in ((behind, min), (before, max)):
        found: list[tuple[int, date | Literal["now", "earlier"]]] = []
        for first, last in days:
            if start <= first and last <= end:
                original = page.original[slice(*page.folded.span(first, last))]
                said, _ = day_in(original, "en")
                found.append((first, "earlier" if said is None else date.fromisoformat(said)))
        found += ((m.start(), "now") for m in _when("now").finditer(text, start, end))
        found += ((m.start(), "earlier") for m in _when("earlier").finditer(text, start, end))
        found += (
            (m.start(), _day_back(m[0], today))
            for m in _ago().finditer(text, start, end)
            if _when("now").fullmatch(m[0]) is None
        )
        found += (
            (m.start(), "earlier")
            for m in _MONTH_WORD.finditer(text, start, end)
            if m[1] in _month_names() and not any(a <= m.start(1) < b for a, b in days)
        )
        if found:
            _, when = nearest(found, key=lambda each: each[0])
            return "now" if when == today else when
    return "now"


_MONTH_WORD: Final = re.compile(r"(?<![^\W_])(?:in|im|en|em|on|am) (?:\d{1,2}\.? )?([a-z]{3,10})")


def _day_back(said: str, today: date) -> date | Literal["earlier"]:
    """The day that so many days or weeks ago was; longer spans name no day."""
    if said in _lists()["when"]["yesterday"]:
        return today - timedelta(days=1)
    match = _DAYS_BACK.search(said)
    if match is None:
        return "earlier"
    return today - timedelta(
        days=int(match[1]) * (7 if match[2] in _lists()["when"]["weeks"] else 1)
    )
