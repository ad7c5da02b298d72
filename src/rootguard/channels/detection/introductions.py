"""Where a name must stand: after titles, introductions, labels, greetings and closings.

`places` gives the position of the word after each, and how far it is trusted: "sure" takes any
word that is not an everyday one, in small letters too; "likely" any capitalised such word;
"perhaps" the same, but not an eponym.
"""

import re
from collections.abc import Iterator
from typing import Literal

from rootguard.channels.detection.signs import any_of, phrases
from rootguard.language.scan import Openings, Runs, first_words

Trust = Literal["sure", "likely", "perhaps"]

_SPACE = r"[ \t\u00a0]{1,3}"
_TITLE = re.compile(rf"\b(?:{any_of('titles')})\b(?:\.[ \u00a0]{{0,2}}|{_SPACE})", re.IGNORECASE)
_CAPITAL_TITLE = re.compile(rf"\b(?:{any_of('capital_titles')})\b(?:\.[ ]{{0,2}}|{_SPACE})")
_WHOSE = r"my|our|his|her|their|the|a|patient['’]s|whose"


def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\b{pattern}", re.IGNORECASE)


def _opened(*keys: str) -> set[str]:
    return first_words(phrase for key in keys for phrase in phrases(key))


_SURE = (
    (_TITLE, _opened("titles")),
    (_pattern(rf"(?:{'|'.join(phrases('name_is'))}){_SPACE}[\"“'‘]?"), _opened("name_is")),
    (_pattern(rf"(?:{any_of('labels')})[ \t]{{0,3}}[:=][ \t]{{0,8}}[\"“]?"), _opened("labels")),
    (
        _pattern(rf"(?:{any_of('closings')})[ ]?,?[ \t]{{0,3}}(?:\r?\n[ \t]{{0,8}}){{1,3}}"),
        _opened("closings"),
    ),
)
_LIKELY = (
    (_pattern(rf"i(?:['’]m| am){_SPACE}"), {"i"}),
    (_pattern(rf"(?:{any_of('greetings')})(?: (?:doctor|team))?{_SPACE}"), _opened("greetings")),
)
_PERHAPS = (
    (_CAPITAL_TITLE, _opened("capital_titles")),
    (
        _pattern(rf"(?:{_WHOSE}) (?:{any_of('people')})(?: is| was| named| called|,)?{_SPACE}"),
        first_words(_WHOSE.split("|")),
    ),
    (
        _pattern(rf"(?:patient|client|tenant|named|{any_of('deeds')}){_SPACE}"),
        {"patient", "client", "tenant", "named"} | _opened("deeds"),
    ),
    (_pattern(rf"(?:{any_of('closings')}),[ \t]{{1,3}}"), _opened("closings")),
)
_ALL = Openings(*_SURE, *_LIKELY, *_PERHAPS)
_GROUPS: tuple[tuple[Trust, int], ...] = (
    ("sure", len(_SURE)),
    ("likely", len(_LIKELY)),
    ("perhaps", len(_PERHAPS)),
)
_TRUST = tuple(trust for trust, patterns in _GROUPS for _ in range(patterns))


def places(text: str, runs: Runs) -> Iterator[tuple[int, Trust]]:
    """Where names must begin, and how sure that is."""
    for which, match in _ALL.matches(text, runs):
        yield _after_titles(text, match.end()), _TRUST[which]


def _after_titles(text: str, place: int) -> int:
    """Past further titles: "Prof. Dr. Meyer", "my doctor, Dr. Meyer"."""
    for _ in range(3):
        title = _TITLE.match(text, place)
        if title is None:
            break
        place = title.end()
    return place
