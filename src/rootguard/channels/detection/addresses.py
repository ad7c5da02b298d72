"""Street addresses: a street and a number, and what belongs to them.

An address begins with a street that says it is one ("12 Baker Street", "Via Roma 4", "Hauptstraße
7", "P.O. Box 101", "Apt. 12") or stands where an address must stand ("lives at 12 Elm"). What
follows belongs to it while it looks alike: flat, town, region, postcode, country, on the same line
or on further lines as long as one of these comes. A street without a number is none: "Wall Street".

Streets are looked for at numbers only, a bounded way around each, so the cost is linear.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Literal

from rootguard.channels.detection.lists import ORDINARY, any_of, phrases
from rootguard.channels.detection.names import english
from rootguard.language.fold import Runs, caseless, digits_in, matches_at

Part = Literal["sure", "word", "joint", "short"]

_STREETS = frozenset(phrases("streets"))
_OPENERS = frozenset(phrases("street_openers"))
_ENDINGS = tuple(phrases("street_endings"))
_SEPARATE = frozenset(phrases("streets_behind"))
_ENGLISH_OPENERS = frozenset(("via", "route", "r"))
_PLACES = frozenset(
    ("address", "addresses", "lives", "live", "living", "box", "postbox", "postfach")
)
_UNITS = frozenset(phrases("units"))
STREET_WORDS = frozenset(
    word
    for phrase in (_STREETS | _OPENERS | _SEPARATE | _PLACES | _UNITS | {"apo", "fpo", "dpo"})
    if len(word := phrase.strip(".").split()[0]) > 1  # "u" is a unit more often than a street
)
"""A text with none of these words, and none with one of the endings, has no address."""
_ADDRESS_LABELS = phrases("address_labels")
_BOXES = frozenset(
    (
        *("psc", "unit", "cmr", "box", "pobox", "post", "postbox", "postfach", "apartado"),
        *("apo", "fpo", "dpo"),
    )
)
_NEAR_NUMBERS = _BOXES | frozenset(
    word
    for phrase in (*(_STREETS | _OPENERS | _SEPARATE | _PLACES | _UNITS), *_ADDRESS_LABELS)
    for word in re.findall("[a-z]+", phrase)
)
"""A number without one of these words within reach, or one with an ending, is in no address."""
STREET_ENDINGS = _ENDINGS

_GAP = r"[ \t\u00a0]{1,3}"
_LETTERS = r"[^\W\d_]"
_NAME = rf"{_LETTERS}(?:{_LETTERS}|['’.-](?={_LETTERS})){{0,30}}"
_ORDINAL = r"[0-9]{1,3}(?:st|nd|rd|th)"
_HOUSE = r"[0-9]{1,6}(?:[-/][0-9]{1,4})?[A-Za-z]?"
_BREAK = r"[ \t,]{0,4}(?:\r?\n[ \t>?|*-]{0,8}){1,2}[ \t,]{0,3}"
_NUMBER = re.compile(rf"(?<![\w.,$€£#-])(?<![0-9]:){_HOUSE}(?![\w%°]|[.,:/-][0-9])")
_CUT_WORD = re.compile("[A-Za-z]+")
_WORD_START = re.compile(r"(?<![^\W_])[^\W\d_]")
_AFTER = re.compile(rf"(?P<words>(?:,?{_GAP}(?:{_NAME}|{_ORDINAL})\.?){{1,6}})", re.IGNORECASE)
_BEFORE = re.compile(rf"(?:(?:^|(?<=[\s(,;:>\"“]))(?:{_NAME})\.?,?{_GAP}){{1,6}}\Z", re.MULTILINE)
_ONE = re.compile(rf"(?P<word>{_NAME}|{_ORDINAL})(?P<dot>\.?)")
_REACH = 72  # characters on either side of a number in which its street stands
# Line breaks behind a street, and words of one line that may be a place's and are in no list: with
# fewer, a long place ends the address too soon; with more, the sentence behind it goes along.
_MOST_LINES, _MOST_WORDS = 6, 6
_NOT_BEFORE = frozenset(phrases("no_house_before"))
_JOINING = frozenset(phrases("address_particles"))
_COUNTRY = re.compile(rf"(?:{any_of('countries')})(?![^\W_])", re.IGNORECASE)
_UNIT = re.compile(
    rf"(?:{any_of('units')})(?![^\W\d_])\.?[ ]?#?[A-Za-z]?-?[0-9]{{1,5}}[A-Za-z]?(?![\w])",
    re.IGNORECASE,
)
_BOX = re.compile(
    r"(?:(?:psc|unit|cmr)[ ]?[0-9]{1,5},?[ ]box|p\.?[ ]?o\.?[ ]?box|post ?box|postfach|apartado)"
    r"[ ][0-9]{1,6}(?!\w)",
    re.IGNORECASE,
)
_MILITARY = re.compile(
    r"(?:(?P<ship>us(?:s|ns|cgc|nv)[ ][^\W\d_]{2,20})\s{1,3})?[afd]po[ ]a[aep][ ][0-9]{5}(?!\w)",
    re.IGNORECASE,
)
_SHORT = re.compile(r"[0-9]{1,4}(?![\w]|[.,:/-][0-9])")
_CAPITAL = re.compile(rf"[^\W\d_a-zß-öø-ÿ](?:{_LETTERS}|['’.-](?={_LETTERS})){{0,30}}")
_SMALL = re.compile(rf"{_LETTERS}(?:{_LETTERS}|['’-](?={_LETTERS})){{0,30}}")
_LABEL = re.compile(
    rf"(?:{any_of('address_labels')})[ \t]{{0,2}}(?:is|was|to|:|=|are:|here they are:)?"
    r"[ \t:]{0,8}(?:\r?\n[ \t]{0,4}){0,2}\Z",
    re.IGNORECASE,
)
# Paths for walkers have numbers, and no houses.
_PATHS = frozenset(("wanderweg", "hohenweg", "radweg", "rundweg", "fernweg", "jakobsweg", "umweg"))
# What a number counts is no house: "Piazza Navona 3 times", "2 Nights Grand Canyon Drive".
_COUNTED = re.compile(rf"[ \u00a0-](?:{any_of('counted')})(?!\w)", re.IGNORECASE)
_NUMBER_BEFORE = re.compile(r"(?<![\w.,$€£#-])[0-9]{1,5}[A-Za-z]?,?[ \t]{1,2}\Z")
_TO_UNIT = r"[ \t,]{0,3}(?:\r?\n[ \t>?]{0,6})?\Z"
_ENDED = re.compile(
    rf"(?<![\w.,$€£#-])(?:[0-9]{{1,5}}[ ]{{1,2}}){{0,2}}{_CAPITAL.pattern}\.?[ ]{{1,2}}"
    rf"(?:(?:{_NAME})\.?[ ]{{1,2}}){{0,4}}[0-9]{{1,5}}\.?{_TO_UNIT}"
)
_NUMBERED = re.compile(
    rf"(?<![\w.,$€£#-])[0-9]{{1,5}}[ ]{{1,2}}(?:[0-9]{{1,5}}[ ]{{1,2}})?{_CAPITAL.pattern}"
    rf"(?:\.?[ ]{{1,2}}(?:{_NAME})\.?){{0,4}}{_TO_UNIT}"
)
_UP_TO_NUMBER = re.compile(
    rf"(?:[ ][0-9]{{1,5}})?(?:[ ](?:{_NAME})\.?){{1,5}}[ ][0-9]{{1,5}}(?![\w]|[.,:/-][0-9])"
)


def find_addresses(
    text: str, runs: Runs | None = None, digits: Sequence[int] | None = None
) -> Iterator[tuple[int, int]]:
    """Addresses in the text; spans may overlap. `runs` are those of a text of ASCII.

    `digits` are where the text's runs of digits begin.
    """
    reached, small = 0, text.islower()
    digits = digits_in(text) if digits is None else digits
    telling = None if runs is None else runs.places(filter(_tells, runs.words))
    for number in matches_at(_NUMBER, text, digits):
        if telling is not None and not _is_told(text, number, reached, telling):
            continue
        if number.start() < reached or _COUNTED.match(text, number.end()):
            continue
        span = number.span()
        core = _core(text, *span, reached, small=small)
        if core is not None:
            start, end = _whole(text, *core, reached, small=small)
            reached = end
            yield start, end


def _tells(word: str) -> bool:
    return word in _NEAR_NUMBERS or word.endswith(_ENDINGS) or word.endswith("str")


def _is_told(text: str, number: re.Match[str], reached: int, telling: list[int]) -> bool:
    """Whether a word that may be of an address begins within reach of a number."""
    first, last = number.span()
    begin = max(0, first - _REACH)
    at = bisect_left(telling, begin)
    if at < len(telling) and telling[at] < last + _REACH:
        return True
    # Where the reach begins within a word, the rest of the word is read as one.
    cut = _CUT_WORD.match(text, begin)
    return reached > begin or (cut is not None and _tells(cut[0].lower()))


def _core(text: str, first: int, last: int, reached: int, *, small: bool) -> tuple[int, int] | None:
    """The street, box or flat that a number belongs to."""
    left = text[max(reached, first - _REACH) : first]
    spot = _boxed(text, first, last, left, small=small)
    if spot is not None:
        return spot
    before = _BEFORE.search(left)
    behind = _behind(first, last, left, before, small=small)
    if behind is not None:
        return behind
    ahead = _ahead(text, first, last, left, small=small)
    if ahead is not None:
        return ahead
    lower = left.lower()
    if lower.isascii() and not any(label in lower for label in _ADDRESS_LABELS):
        return None
    return _labelled(text, first, last, left, before, small=small)


def _boxed(text: str, first: int, last: int, left: str, *, small: bool) -> tuple[int, int] | None:
    """A post box, a military address or a flat that ends with this number."""
    line = left[left.rfind("\n") + 1 :] if "\n" in left else left
    places = _word_starts(left)
    in_line = places if line is left else _word_starts(line)
    for pattern, window, begins in (
        (_MILITARY, left, places),
        (_BOX, line, in_line),
        (_UNIT, line, in_line),
    ):
        offset = first - len(window)
        for place in begins:
            match = pattern.match(text, offset + place)
            if match is not None and match.end() >= last and match.start() < first:
                sure = pattern is not _UNIT or _sure_unit(text, match, small=small)
                return match.span() if sure else None
    return None


def _word_starts(window: str) -> list[int]:
    """Where the last few words of a stretch begin, the furthest first."""
    places = [m.start() for m in _WORD_START.finditer(window)]
    return places[-5:]


def _sure_unit(text: str, unit: re.Match[str], *, small: bool) -> bool:
    """Whether it is a flat: "Apt. 12", but "Suite 12" only behind a street or a number."""
    if caseless(unit[0]).startswith(("apt", "apartment")):
        return True
    if not unit[0][:1].isupper() and not small:
        return False
    before = text[max(0, unit.start() - 12) : unit.start()].rstrip(" \t\n\r,?>|*-.")
    after = text[unit.end() : unit.end() + 4].lstrip(" ,")
    if before[-1:].isdigit() or after[:1].isdigit():
        return True
    left = text[max(0, unit.start() - _REACH) : unit.start()]
    return _NUMBERED.search(left) is not None


def _behind(
    first: int, last: int, left: str, match: re.Match[str] | None, *, small: bool
) -> tuple[int, int] | None:
    """A street before its number: "Via Roma 4", "Hauptstraße 7", "Rákóczi út 81"."""
    if last - first > 6 or match is None:
        return None
    offset = first - len(left)
    words = list(_ONE.finditer(left, match.start()))
    for i in range(len(words) - 1, -1, -1):
        key = caseless(words[i]["word"])
        ends = i == len(words) - 1
        if ends and _street_ending(key, dotted=bool(words[i]["dot"])):
            return offset + _opening(left, words, i), last
        if ends and i and key in _SEPARATE and words[i - 1]["word"][:1].isupper():
            return offset + _opening(left, words, i - 1), last
        if key in _OPENERS and i < len(words) - 1 and _opens(words[i]["word"], key, small=small):
            named = words[i + 1 :]
            everyday = all(caseless(word["word"]) in ORDINARY for word in named)  # "Via Email 2"
            if not everyday and all(_fits(word["word"], small=small) for word in named):
                return offset + words[i].start(), last
            return None
        if not _fits(words[i]["word"], small=small):
            return None
    return None


def _opens(word: str, key: str, *, small: bool) -> bool:
    """Whether a word opens a street's name; "via" and "place" are English in small letters."""
    return word[:1].isupper() or not english(key) or small


def _street_ending(key: str, *, dotted: bool) -> bool:
    if english(key) or len(key) < 6 or key in _PATHS:
        return False
    return key.endswith(_ENDINGS) or (dotted and key.endswith("str"))


def _opening(left: str, words: list[re.Match[str]], i: int) -> int:
    """Where a street's name begins whose last word is known: capitalised words before it."""
    first = i
    while i and len(words) - i < 5 and not left[words[i - 1].end() : words[i].start()].strip():
        i -= 1
        if words[i]["word"][:1].isupper():
            if caseless(words[i]["word"]) in ORDINARY:
                break
            first = i
        elif caseless(words[i]["word"]) not in _JOINING:
            break
    return words[first].start()


def _ahead(text: str, first: int, last: int, left: str, *, small: bool) -> tuple[int, int] | None:
    """A street behind its number: "12 Baker Street", "38 rue Victor Hugo"."""
    before = left.rstrip().rpartition(" ")[2].lower()
    match = _AFTER.match(text, last, last + _REACH)
    if match is None or before in _NOT_BEFORE:
        return None
    words = list(_ONE.finditer(text, match.start(), match.end()))
    key = caseless(words[0]["word"])
    if key in _OPENERS and len(words) > 1 and _fits(words[1]["word"], small=small):
        named = next((w for w in words[1:] if caseless(w["word"]) not in _JOINING), words[1])
        sure = _opens(words[0]["word"], key, small=small) or (
            key not in _ENGLISH_OPENERS and named["word"][:1].isupper()
        )
        return (first, named.end()) if sure and _fits(named["word"], small=small) else None
    for i, word in enumerate(words[:6]):
        key = caseless(word["word"])
        if (
            i
            and key in _STREETS
            and (word["word"][:1].isupper() or key in {"street", "road", "avenue"} or small)
        ):
            return first, word.end() + bool(word["dot"])
        if i and key in _STREETS and len(key) > 3 and not word["word"][:1].isupper():
            return None
        if not _fits(word["word"], small=small) and not word["word"][:1].isdigit():
            return None
    return None


def _fits(word: str, *, small: bool) -> bool:
    """Whether a word can be of a street's name: capitalised, or small where all is small."""
    if word[:1].isupper():
        return True
    key = caseless(word)
    return key in _JOINING or (small and key not in ORDINARY)


def _labelled(
    text: str, first: int, last: int, left: str, match: re.Match[str] | None, *, small: bool
) -> tuple[int, int] | None:
    """What stands where an address must stand: "lives at 71 Paraguay 87"."""
    words = list(_ONE.finditer(left, match.start())) if match is not None else []
    offset = first - len(left)
    if _LABEL.search(left):
        whole = _UP_TO_NUMBER.match(text, last)
        if whole is not None and _CAPITAL.match(whole[0].lstrip(" 0123456789")):
            return first, whole.end()
        then = _AFTER.match(text, last, last + _REACH)
        also = _SHORT.match(text, last + 1) if text[last : last + 1] == " " else None
        if also is not None:
            then = _AFTER.match(text, also.end(), also.end() + _REACH)
        if then is None:
            return None
        word = _ONE.search(text, then.start(), then.end())
        if (
            word is None
            or not _fits(word["word"], small=small)
            or caseless(word["word"]) in ORDINARY
        ):
            return None
        return first, word.end()
    for i in range(len(words)):  # "his address: San Andrés 70"
        if words[i]["word"][:1].isupper() and _LABEL.search(left[: words[i].start()]):
            if all(_fits(word["word"], small=small) for word in words[i:]):
                return offset + words[i].start(), last
            return None
    return None


def _whole(text: str, start: int, end: int, reached: int, *, small: bool) -> tuple[int, int]:
    """A street with the numbers before it and all that belongs to it behind."""
    street = _street_before(text, start, reached)
    start = start if street is None else street
    for _ in range(2):
        number = _NUMBER_BEFORE.search(text[max(reached, start - 9) : start])
        if number is None:
            break
        start -= len(number[0])
    return start, _extended(text, end, small=small)


def _street_before(text: str, start: int, reached: int) -> int | None:
    """Where the street of a flat begins that stands before it: "70 Kaarikatu 32 Apt. 728"."""
    if _UNIT.match(text, start) is None:
        return None
    left = text[max(reached, start - _REACH) : start]
    match = _ENDED.search(left) or _NUMBERED.search(left)
    return None if match is None else start - len(left) + match.start()


_SEPARATOR = re.compile(r"[ \t\u00a0]{0,3},?[ \t\u00a0]{0,3}")
_LINE = re.compile(_BREAK)


def _extended(text: str, end: int, *, small: bool) -> int:
    """How far an address goes on from its street."""
    firm, at, words, lines, fresh = end, end, 0, 0, False
    while lines <= _MOST_LINES and at - firm < 2 * _REACH:
        separator = _SEPARATOR.match(text, at)
        after = separator.end() if separator else at
        line = _LINE.match(text, at)
        if line is not None:
            lines, words, fresh, at = lines + 1, 0, True, line.end()
            after = at
        elif after == at and at != end:
            break
        part = _part(text, after, small=small, fresh=fresh)
        if part is None:
            break
        kind, at = part
        words += kind == "word"
        if words > _MOST_WORDS:
            break
        if kind == "sure" or (kind != "joint" and not fresh):
            firm = at
    while firm > end and text[firm - 1] in " ,\t\r\n":
        firm -= 1
    return firm


# "0431 35 06 90" is a phone number, and no postcode before a house.
_POSTCODE = re.compile(
    r"(?:[A-Z]{1,2}-)?[0-9]{4,6}(?:-[0-9]{3,4})?(?![\w-]|[.,][0-9]|[ ][0-9]{2,4}[ -][0-9]{2})"
    r"|[0-9]{3}[ ][0-9]{2}(?!\w)"
    r"|[A-Z]{1,2}[0-9][A-Z0-9]?[ ][0-9][A-Z]{2}(?!\w)|[A-Z][0-9][A-Z][ ]?[0-9][A-Z][0-9](?!\w)"
    r"|[0-9]{4}[ ][A-Z]{2}(?!\w)"
)
_REGION = re.compile(r"[A-Z]{2,3}(?![\w])")


def _part(text: str, at: int, *, small: bool, fresh: bool) -> tuple[Part, int] | None:
    """The next part of an address and where it ends.

    On a further line an everyday word may be of a town, as something sure must come behind it.
    """
    for pattern in (_MILITARY, _BOX, _UNIT, _COUNTRY):
        match = pattern.match(text, at)
        if match is not None:
            return "sure", match.end()
    match = _POSTCODE.match(text, at)
    if match is not None:
        return "sure", match.end()
    match = _REGION.match(text, at)
    if match is not None and match.end() - at == 2:
        return "word", match.end()
    match = _CAPITAL.match(text, at) or (_SMALL.match(text, at) if small else None)
    if match is not None:
        key = caseless(match[0])
        if not fresh and ((key in ORDINARY and key not in _STREETS) or (small and english(key))):
            return None
        end = match.end()
        return "word", end + (text[end : end + 1] == "." and end - at < 5)
    match = _SMALL.match(text, at)
    if match is not None and caseless(match[0]) in _JOINING:
        return "joint", match.end()
    match = _SHORT.match(text, at)
    return None if match is None else ("short", match.end())
