"""Days written in a text: in figures, with months in words, and days of birth without a year.

A month and a year ("April 2023"), a day without a year, or a year alone are left: they name no
day. Beside a word of birth they are found, a year alone excepted.
"""

import calendar
import re
from collections.abc import Iterator

from rootguard.channels.detection.lists import fold
from rootguard.channels.detection.signs import any_of, lines, phrases
from rootguard.language.scan import Openings, Runs, figures_in, first_words, has_digit, matches_at

_MONTHS = {word: i for i, words in enumerate(lines("months"), start=1) for word in words}
_FOLDED = {fold(word): month for word, month in _MONTHS.items()}
# In capitals a word may match without being equal in small letters: "MAYIS" and "mayıs".
_MONTH = "(?P<m>" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + ")"
_DAY = r"(?P<d>[0-3]?[0-9])(?:st|nd|rd|th|er|º|°|\.)?"
_YEAR = r"(?P<y>(?:1[89]|20)[0-9]{2})"
_OF = r"(?:de |of |del |d['’])?"
_FIRST_YEAR, _LAST_YEAR = 1850, 2150

_NUMERIC = (
    r"(?P<y>[0-9]{4})(?P<s>[-/.])(?P<d>[0-9]{1,2})(?P=s)(?P<m>[0-9]{1,2})",
    r"(?P<d>[0-9]{1,2})(?P<s>[-/.]|\. )(?P<m>[0-9]{1,2})(?P=s)(?P<y>[0-9]{4})",
    r"(?P<d>[0-9]{2})(?P<s>[-.])(?P<m>[0-9]{2})(?P=s)(?P<y>[0-9]{2})",
    r"(?P<d>[0-9]{1,2})(?P<s>/)(?P<m>[0-9]{1,2})/(?P<y>[0-9]{2})",
    r"(?P<y>[0-9]{4})年(?P<m>[0-9]{1,2})月(?P<d>[0-9]{1,2})日?",
    r"(?P<d>[0-9]{1,2}) tháng (?P<m>[0-9]{1,2})(?:,)? năm (?P<y>[0-9]{4})",
    r"(?P<y>(?:19|20)[0-9]{2}) ?nian (?P<m>[0-9]{1,2}) ?yue (?P<d>[0-9]{1,2}) ?ri",
)
_WORDED = (
    rf"{_DAY}[ \u00a0]{_OF}{_MONTH}\.?,?[ \u00a0]{_OF}{_YEAR}",
    rf"{_MONTH}\.?[ \u00a0]{_DAY},?[ \u00a0]{_YEAR}",
    rf"(?P<d>[0-3]?[0-9])[-/ ]?{_MONTH}[-/ ](?P<y>[0-9]{{4}}|[0-9]{{2}})",
    rf"{_YEAR}[-/ ,]{{1,2}}{_MONTH}\.?[-/ ](?P<d>[0-3]?[0-9])",
)
_BIRTH = re.compile(
    rf"(?<!\w)(?:{any_of('births')})[ \t]{{0,2}}(?:is|was|[:=]|ist|est|es|è|é)?[ \t]{{0,2}}"
    r"(?:on|in|am|im|the|le|el|il|em|op|den|w|dnia|ngày)?[ \t]{0,2}(?:the )?",
    re.IGNORECASE,
)
_MONTH_WORD, _LATER_DAY = _MONTH.replace("?P<m>", "?:"), r"[0-3]?[0-9](?:st|nd|rd|th)?"
_PARTIAL = re.compile(
    rf"(?:{_DAY}[ ]{_OF}{_MONTH_WORD}|{_MONTH_WORD}\.?,?[ ](?:{_OF}{_YEAR}|{_LATER_DAY}))(?![\w])",
    re.IGNORECASE,
)


def _alone(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w./-]){pattern}(?!\w|[/.-][0-9])", re.IGNORECASE)


_FIGURES = tuple(map(_alone, _NUMERIC))
_WORDS = tuple(map(_alone, _WORDED))
_AFTER_MONTH = Openings((_WORDS[1], first_words(_MONTHS)))
# Nothing must part a word of birth from what follows it.
_BORN = Openings(
    (_BIRTH, first_words(phrases("births"))),
    stems=first_words(phrase for phrase in phrases("births") if phrase.isalpha()),
)
# A time of day may follow an ISO date without a space.
_TIMED = re.compile(r"(?<![\w./-])[0-9]{4}-[0-9]{2}-[0-9]{2}(?=T[0-9]{2}:)")


def find_dates(text: str, runs: Runs) -> Iterator[tuple[int, int]]:
    """Days in the text; spans may overlap."""
    if not has_digit(text):
        return
    figures = figures_in(text)
    for match in matches_at(_TIMED, text, figures):
        yield match.span()
    for pattern in _FIGURES:
        for match in matches_at(pattern, text, figures):
            # In figures day and month may stand either way round.
            day, month, year = int(match["d"]), int(match["m"]), int(match["y"])
            if _is_day(year, month, day) or _is_day(year, day, month):
                yield match.span()
    worded = [match for p in _WORDS if p is not _WORDS[1] for match in matches_at(p, text, figures)]
    worded += [match for _, match in _AFTER_MONTH.matches(text, runs)]
    for match in worded:
        if _is_day(int(match["y"]), _FOLDED[fold(match["m"])], int(match["d"])):
            yield match.span()
    for _, birth in _BORN.matches(text, runs):
        partial = _PARTIAL.match(text, birth.end())
        if partial is not None:
            yield partial.span()


def _is_day(year: int, month: int, day: int) -> bool:
    if year < 100:
        year += 1900 if year > 50 else 2000
    if not (_FIRST_YEAR <= year <= _LAST_YEAR and 1 <= month <= 12):
        return False
    return 1 <= day <= calendar.monthrange(year, month)[1]
