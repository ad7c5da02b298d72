"""Where a name must stand: after titles, introductions, labels, greetings and closings.

`places` gives the position of the word after each, and how far it is trusted: "sure" takes any
word that is not an everyday one, in small letters too; "likely" any capitalised such word;
"perhaps" the same, but not an eponym.
"""

import re
from collections.abc import Iterator
from typing import Literal

from rootguard.channels.detection.signs import any_of, phrases

Trust = Literal["sure", "likely", "perhaps"]

_SPACE = r"[ \t\u00a0]{1,3}"
_TITLE = re.compile(rf"\b(?:{any_of('titles')})\b(?:\.[ \u00a0]{{0,2}}|{_SPACE})", re.IGNORECASE)
_CAPITAL_TITLE = re.compile(rf"\b(?:{any_of('capital_titles')})\b(?:\.[ ]{{0,2}}|{_SPACE})")
_WHOSE = r"my|our|his|her|their|the|a|patient['’]s|whose"


def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\b{pattern}", re.IGNORECASE)


_SURE = (
    _TITLE,
    _pattern(rf"(?:{'|'.join(phrases('name_is'))}){_SPACE}[\"“'‘]?"),
    _pattern(rf"(?:{any_of('labels')})[ \t]{{0,3}}[:=][ \t]{{0,8}}[\"“]?"),
    _pattern(rf"(?:{any_of('closings')})[ ]?,?[ \t]{{0,3}}(?:\r?\n[ \t]{{0,8}}){{1,3}}"),
)
_LIKELY = (
    _pattern(rf"i(?:['’]m| am){_SPACE}"),
    _pattern(rf"(?:{any_of('greetings')})(?: (?:doctor|team))?{_SPACE}"),
)
_PERHAPS = (
    _CAPITAL_TITLE,
    _pattern(rf"(?:{_WHOSE}) (?:{any_of('people')})(?: is| was| named| called|,)?{_SPACE}"),
    _pattern(rf"(?:patient|client|tenant|named|{any_of('deeds')}){_SPACE}"),
    _pattern(rf"(?:{any_of('closings')}),[ \t]{{1,3}}"),
)
_ALL: tuple[tuple[Trust, tuple[re.Pattern[str], ...]], ...] = (
    ("sure", _SURE),
    ("likely", _LIKELY),
    ("perhaps", _PERHAPS),
)


def places(text: str) -> Iterator[tuple[int, Trust]]:
    """Where names must begin, and how sure that is."""
    for trust, patterns in _ALL:
        for pattern in patterns:
            for match in pattern.finditer(text):
                yield _after_titles(text, match.end()), trust


def _after_titles(text: str, place: int) -> int:
    """Past further titles: "Prof. Dr. Meyer", "my doctor, Dr. Meyer"."""
    for _ in range(3):
        title = _TITLE.match(text, place)
        if title is None:
            break
        place = title.end()
    return place
