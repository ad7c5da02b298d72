"""What a detector gives, and the default one: rules and lists, without a model or a network.

A detector says where something stands and what it is, never the text itself. Each kind has its own
rules; where two claim the same characters the surer one wins, in the order e-mail, IP address,
record number, date, street address, postcode, phone, name, age. All patterns are bounded, so the
cost grows with the length of the text and no faster.

By their figures are found record numbers, phone numbers, days, postcodes, IP addresses and ages. A
labelled record number needs no particular form ("MRN 00482-9"). Without a label only forms that
carry their own proof count: card numbers (Luhn), IBAN (mod 97), NHS numbers (mod 11), and the
national numbers of several countries.

Phone numbers follow the `phonenumbers` library's numbering plans, in three ways, from most to least
certain: what the library finds for the first region; a number beside a word such as "phone" or
"Tel."; a number with a trunk or country prefix, or in groups, that is valid in another region.

Days are in figures or with months in words. A month and a year ("April 2023"), a day without a
year, or a year alone are left: they name no day. Beside a word of birth they are found, a year
alone excepted. Each pattern is bounded in length, so the cost is linear.
"""

import calendar
import functools
import ipaddress
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Literal, NamedTuple, Protocol

from rootguard.channels.detection.addresses import STREET_ENDINGS, STREET_WORDS, find_addresses
from rootguard.channels.detection.lists import ORDINARY, any_of, lines, phrases
from rootguard.channels.detection.names import find_names
from rootguard.channels.detection.public import personal_address, personal_day
from rootguard.errors import UnknownNameError
from rootguard.identifiers.formats import Kind
from rootguard.language.fold import (
    Openings,
    Runs,
    Spans,
    caseless,
    digits_in,
    figures_among,
    first_words,
    has_digit,
    matches_at,
)

_NEEDS_MORE = frozenset(phrase.lower() for phrase in phrases("record_words"))
_LABEL = re.compile(
    rf"(?<![\w-])(?P<label>{any_of('records', 'record_words')})(?![^\W\d_])"
    rf"(?P<word>[ \t]{{1,2}}(?:{any_of('number_words')})(?![^\W_])\.?)?"
    r"(?P<mark>[ \t]{0,2}[:#=]{1,2}|[ \t]{1,2}(?:is|was|ist|est|es|è|é|to|jest)(?=[ \t])|\.)?"
    r"[ \t]{0,3}#?(?=[A-Za-z0-9])",
    re.IGNORECASE,
)
_LABELS = Openings((_LABEL, first_words((*phrases("records"), *phrases("record_words")))))
# Where any of the checked forms can begin.
_BEGINS = re.compile(
    # A set of characters first: `re` skips quickly to the next of them.
    r"[0-9A-Z](?:(?<=[0-9])|(?=[A-Z]{0,5}[-# ]?[0-9]))(?<![0-9A-Za-z_.+-].)"
)
_MOST_BEFORE = 7  # characters before a digit: six capitals and a sign
_LONG_ENOUGH = re.compile(r"(?:[0-9A-Z][ .#+-]?){5}[0-9A-Za-z]")
"""What every checked form begins with: the shortest is "HN1234". A value of a root is shorter."""
_VALUE = re.compile(
    r"(?:[A-Za-z]{1,6}[-/ ]?)?[0-9][A-Za-z0-9]{0,24}"
    r"(?:[-/.][A-Za-z0-9]{1,20}|[ ][0-9]{2,7}(?![A-Za-z0-9])){0,8}",
)
_WORD_BEFORE = re.compile("[A-Za-z]+ ")
_DATE_LIKE = re.compile(r"[0-9]{1,2}([-/.])[0-9]{1,2}\1[0-9]{2,4}|[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LEAST_DIGITS = 4  # "room 12" and "line 300" are no record numbers
_LEAST_BARE = 6  # where nothing announces one, such as a colon or "number" behind the label

Check = Callable[[str], bool]


def beginnings(text: str, digits: Sequence[int]) -> list[int]:
    """Where record numbers and postcodes can begin in a text; `digits` begin its runs of digits."""
    found: list[int] = []
    # In prose most capitals have no digit near: to look at those takes longer than all the rest.
    for start, end in _before_digits(digits):
        found += [match.start() for match in _BEGINS.finditer(text, start, end)]
    return found


def _before_digits(digits: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The stretches that end with the first digit of a run and hold what may announce it."""
    if not digits:
        return
    start, end = max(0, digits[0] - _MOST_BEFORE), digits[0] + 1
    for place in digits[1:]:
        if place - _MOST_BEFORE > end:
            yield start, end
            start = place - _MOST_BEFORE
        end = place + 1
    yield start, end


def find_records(
    text: str, runs: Runs, begun: Sequence[int] | None = None
) -> Iterator[tuple[int, int]]:
    """Record numbers, labelled ones first; spans may overlap. `begun` are the `beginnings`."""
    if not has_digit(text):
        return
    yield from _labelled(text, runs)
    places = beginnings(text, digits_in(text)) if begun is None else begun
    begins = [place for place in places if _LONG_ENOUGH.match(text, place)]
    for pattern, check in _CHECKED if begins else ():
        for match in matches_at(pattern, text, begins):
            if check(_plain(match[0])):
                yield match.span()
    for match in matches_at(_CARD, text, begins):
        end = _card_end(match)
        if end is not None:
            yield match.start(), end


def _labelled(text: str, runs: Runs) -> Iterator[tuple[int, int]]:
    for _, label in _LABELS.matches(text, runs):
        value = _VALUE.match(text, label.end())
        if value is None or _DATE_LIKE.fullmatch(value[0]):
            continue
        digits = sum(character.isdigit() for character in value[0])
        if digits < (_LEAST_DIGITS if _announces(text, label) else _LEAST_BARE):
            continue
        if _WORD_BEFORE.match(value[0]) and value[0].split(" ", 1)[0].lower() in ORDINARY:
            continue  # "the record has 7391.25", not "record AB 4415"
        after = text[value.end() : value.end() + 1]
        if not (after.isalnum() or after == "_"):
            yield value.span()


def _announces(text: str, label: re.Match[str]) -> bool:
    """Whether the label surely names a number: "policy no." and "MRN" do, "policy" does not."""
    if label["label"].lower() not in _NEEDS_MORE or label["word"] or text[label.end() - 1] == "#":
        return True
    return (label["mark"] or "").strip()[:1] in {":", "="}


def _plain(written: str) -> str:
    return "".join(character for character in written if character.isalnum()).upper()


def luhn(digits: str) -> bool:
    """The check of card numbers: every second digit from the right doubled, sum 0 mod 10."""
    total = 0
    for digit, double in zip(reversed(digits), cycle((False, True)), strict=False):
        value = int(digit) * (1 + double)
        total += value - 9 * (value > 9)
    return total % 10 == 0


def iban(code: str) -> bool:
    """ISO 13616: country and check digits moved to the end, letters as 10-35, 1 mod 97."""
    moved = code[4:] + code[:4]
    return int("".join(str(int(character, 36)) for character in moved)) % 97 == 1


def nhs(digits: str) -> bool:
    """The check digit of an NHS number: weights 10 to 2, mod 11."""
    check = 11 - sum(int(d) * w for d, w in zip(digits[:9], range(10, 1, -1), strict=True)) % 11
    return check % 11 == int(digits[9]) and check != 10


def npi(digits: str) -> bool:
    """A United States provider's number: Luhn behind the prefix 80840."""
    return luhn("80840" + digits)


def _weighted(digits: str, weights: tuple[int, ...]) -> int:
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=False))


def pesel(digits: str) -> bool:
    """Poland: weights 1 3 7 9, and a day of birth that can be."""
    month, day = int(digits[2:4]) % 20, int(digits[4:6])
    total = _weighted(digits, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1))
    return total % 10 == 0 and 1 <= month <= 12 and 1 <= day <= 31


def kimlik(digits: str) -> bool:
    """Türkiye: two check digits."""
    odd, even = (sum(map(int, digits[first:9:2])) for first in (0, 1))
    tenth = (7 * odd - even) % 10
    return (
        digits[0] != "0"
        and int(digits[9]) == tenth
        and int(digits[10]) == (odd + even + tenth) % 10
    )


def cpf(digits: str) -> bool:
    """Brazil: two check digits mod 11."""
    for length in (9, 10):
        total = _weighted(digits, tuple(range(length + 1, 1, -1))[:length])
        if int(digits[length]) != total * 10 % 11 % 10:
            return False
    return len(set(digits)) > 1


def resident(code: str) -> bool:
    """China: a day of birth, and ISO 7064 mod 11-2."""
    month, day = int(code[10:12]), int(code[12:14])
    total = _weighted(code[:17], tuple(pow(2, 17 - i, 11) for i in range(17)))
    return "10X98765432"[total % 11] == code[17] and 1 <= month <= 12 and 1 <= day <= 31


def nir(digits: str) -> bool:
    """France: the key is 97 minus the number mod 97."""
    return 97 - int(digits[:13]) % 97 == int(digits[13:])


def dni(code: str) -> bool:
    """Spain: the letter is the number mod 23."""
    number = code.translate(str.maketrans("XYZ", "012"))
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(number[:8]) % 23] == code[-1]


def social_security(digits: str) -> bool:
    """United States: no group is all zeros, the first is not 666."""
    return digits[:3] not in {"000", "666"} and digits[3:5] != "00" and digits[5:] != "0000"


def _card_end(match: re.Match[str]) -> int | None:
    """Where a card number ends that begins here; other digits may follow it."""
    written = match[0]
    for length in range(len(written), 11, -1):
        if len(written) > length and written[length].isdigit():
            continue
        digits = _plain(written[:length])
        if written[length - 1].isdigit() and _ISSUER.fullmatch(digits) and luhn(digits):
            return match.start() + length
    return None


_ISSUER = re.compile(
    r"4[0-9]{12}(?:[0-9]{3}){0,2}|5[1-5][0-9]{14}|2[2-7][0-9]{14}|3[47][0-9]{13}|3[0689][0-9]{12}"
    r"|35[0-9]{14}|6(?:011|4[4-9]|5|2)[0-9]{12,16}|(?:50|5[6-9]|6[0-9])[0-9]{10,17}"
)
_CARD = re.compile(r"(?<![\w.+-])[2-6][0-9]{3}(?:[ -]?[0-9]){8,15}(?![\w])")


def _always(_: str) -> bool:
    return True


_CHECKED: tuple[tuple[re.Pattern[str], Check], ...] = tuple(
    (re.compile(rf"(?<![\w.+-]){pattern}(?![\w]|-[0-9])", re.ASCII), check)
    for pattern, check in (
        (r"[0-9]{3}-[0-9]{2}-[0-9]{4}", social_security),
        (r"[A-Z]{2}[0-9]{2}(?:[ ]?[A-Z0-9]{4}){2,7}(?:[ ]?[A-Z0-9]{1,3})?", iban),
        (r"(?<!\+[0-9] )(?<!\+[0-9]{2} )(?<!\+[0-9]{3} )[0-9]{3} [0-9]{3} [0-9]{4}", nhs),
        (r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z](?: ?[0-9]{2}){3} ?[A-D]", _always),
        (r"[0-9]{11}", lambda digits: pesel(digits) or kimlik(digits)),
        (r"[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2}", cpf),
        (r"[0-9]{17}[0-9Xx]", resident),
        (r"[12] ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[0-9]{3} ?[0-9]{3} ?[0-9]{2}", nir),
        (r"(?:[0-9]{8}|[XYZ][0-9]{7})-?[A-Z]", dni),
        (r"[A-Z]{6}[0-9]{2}[A-EHLMPRST][0-9]{2}[A-Z][0-9]{3}[A-Z]", _always),
        (r"(?:[0-9]{2})?[0-9]{6}[-+][0-9]{4}", lambda digits: luhn(digits[-10:])),
        (r"(?:MRN|PT|PAT|ACCT|ACC|POL|CLM|CASE|EMP|MEM|HN|CUST|UHID)[-#]?[0-9]{4,12}", _always),
    )
)  # fmt: skip


DEFAULT_REGIONS = (
    "US", "GB", "DE", "FR", "ES", "IT", "PL", "BR", "NL", "SE", "TR", "VN", "CN", "IN", "EG",
)  # fmt: skip

_CANDIDATE = re.compile(
    r"(?<![\w.+$€£-])(?<![0-9],)(?:\+|\(\+?)?[0-9](?:[ \u00a0]?[-./()][ \u00a0]?|\)[ ]?|[ \u00a0])?"
    r"(?:[0-9](?:[ \u00a0]?[-./()]{1,2}[ \u00a0]?|[ \u00a0])?){5,15}(?<=[0-9])"
    r"(?:(?=[ ]?x[0-9]{1,6}(?!\w))|(?![\w%€£$]|[.,][0-9]))",
    re.ASCII,
)
_EXTENSION = re.compile(r"[ ]?(?:x|ext\.?|#) ?[0-9]{1,6}(?![\w])", re.IGNORECASE)
_PHONE_BEFORE = re.compile(rf"(?:{any_of('phones')})\b[^0-9\n]{{0,24}}\Z", re.IGNORECASE)
_PHONE_AFTER = re.compile(
    rf"[ -]{{1,2}}\(?(?:{any_of('phones_after')})\)?(?=[ \t]{{0,3}}(?:\Z|[\n\r,;.\\]))"
    r"| is (?:my|her|his|their|our|the)(?: [a-z]{3,7}){0,2}? (?:phone|mobile|cell|landline|fax)\b",
    re.IGNORECASE,
)
_LOOK_BACK = 48  # 24 for the word, and the 24 that may stand between it and the number
_DIGIT = re.compile(r"\d")
_CLUSTER = re.compile(r"\d\d*(?:\D{1,4}\d+)*")
_BLANKS = str.maketrans(dict.fromkeys(" ,-\t\u00a0"))
_LONGEST_EXTENSION_WORD = 24  # characters between a number and its extension
# A build that carries its day ("20250818.1.22") and the largest numbers of 32 bits, which programs
# name and which are valid numbers of Texas.
_NO_PHONE = re.compile(r"20[0-9]{6}(?:\.[0-9]{1,3}){1,3}|214748364[78]|4294967295|4294967296")
LEAST_WITH_CODE = 6
"""Digits of the shortest number with its country code, of any country; a test asks the library."""
_LEAST, _MOST = 7, 15  # digits; E.164 has 15 at most, the lower bound is a working choice


_NOTHING = Spans()


def find_phones(
    text: str, regions: Sequence[str], spoken_for: Spans = _NOTHING
) -> Iterator[tuple[int, int]]:
    """Phone numbers; spans may overlap. Not asked: numbers that are spoken for as a whole."""
    if _DIGIT.search(text) is None:
        return
    home = regions[0] if regions else None
    text = _without_small(text, _least_digits(home), spoken_for)
    if not text:
        return
    import phonenumbers

    matcher = phonenumbers.PhoneNumberMatcher(
        text,
        home,
        leniency=phonenumbers.Leniency.VALID,
        max_tries=len(text) + 1,
    )
    known = set()
    for found in matcher:
        known.add((found.start, found.end))
        if not _NO_PHONE.fullmatch(found.raw_string):
            yield found.start, found.end
    for match in _CANDIDATE.finditer(text):
        written = match[0]
        digits = sum(character.isdigit() for character in written)
        if not _LEAST <= digits <= _MOST or written.count("(") != written.count(")"):
            continue
        start, end = match.span()
        extension = _EXTENSION.match(text, end)
        end = extension.end() if extension else end
        if (start, end) in known:
            continue
        said = _PHONE_BEFORE.search(text[max(0, start - _LOOK_BACK) : start])
        said = said or _PHONE_AFTER.match(text, end)
        if not said and (_NO_PHONE.fullmatch(written) or not _marked(written)):
            continue
        if said or any(_valid(written, region) for region in regions):
            yield start, end


@functools.cache
def _least_digits(home: str | None) -> int:
    """The fewest digits of a valid number, with its country's code or as written at home."""
    import phonenumbers

    metadata = phonenumbers.PhoneMetadata.metadata_for_region(home or "", None)
    if metadata is None or metadata.general_desc is None:
        return LEAST_WITH_CODE
    if metadata.national_prefix_transform_rule is not None:
        return 1  # digits may be added to what is written
    return min(LEAST_WITH_CODE, *metadata.general_desc.possible_length)


def _without_small(text: str, least: int, spoken_for: Spans = _NOTHING) -> str:
    """The text without numbers on which the library would spend time for nothing.

    If no number is left it is empty.

    These have too few digits, or are spoken for: a value of a root has more digits than a phone.

    Digits that stand closer than the library joins them are one number. What may be an extension
    of a number before it stays.
    """
    pieces, place, edge = [], 0, None
    # In a text of ASCII digits are found without a pattern, in a quarter of the time.
    quickly = matches_at(_CLUSTER, text, digits_in(text)) if text.isascii() else None
    for cluster in quickly or _CLUSTER.finditer(text):
        start, end = cluster.span()
        between = "" if edge is None else text[edge:start].translate(_BLANKS)
        extends = edge is not None and len(between) <= _LONGEST_EXTENSION_WORD
        left = spoken_for.cut(start, end)
        digits = sum(character.isdigit() for a, b in left for character in text[a:b])
        if digits >= least or (digits and extends):
            edge = end
        else:
            pieces += [text[place:start], "\n" * (end - start)]
            place = end
    return "" if edge is None else "".join((*pieces, text[place:]))


def _marked(written: str) -> bool:
    """Whether a number is written as phone numbers are: a prefix, or groups."""
    if written.startswith(("+", "0", "(")):
        return True
    gaps = re.findall(r"[^0-9]+", written)
    return len(set(gaps)) == 1 and (len(gaps) >= 2 or len(written) > 10)


def _valid(written: str, region: str) -> bool:
    import phonenumbers

    try:
        number = phonenumbers.parse(written, region)
    except phonenumbers.NumberParseException:
        return False
    if written.startswith("+"):  # a country code is sign enough, allocated or not
        return phonenumbers.is_possible_number(number)
    return phonenumbers.is_valid_number(number)


_MONTHS = {word: i for i, words in enumerate(lines("months"), start=1) for word in words}
_FOLDED = {caseless(word): month for word, month in _MONTHS.items()}
# In capitals a word may match without being equal in small letters: "MAYIS" and "mayıs".
_MONTH = "(?P<m>" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + ")"
_DAY = r"(?P<d>[0-3]?[0-9])(?:st|nd|rd|th|er|º|°|\.)?"
_YEAR = r"(?P<y>(?:1[89]|20)[0-9]{2})"
_OF = r"(?:de |of |del |d['’])?"
# Every year of a person's papers, with room; other numbers of four digits are amounts and codes.
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
_MONTH_WORDS = frozenset(first_words(_MONTHS))
_AFTER_MONTH = Openings((_WORDS[1], _MONTH_WORDS))
_DATED = re.compile(
    r"[0-9]{1,4}(?:[-/.年]| ?nian| tháng) ?[0-9]{1,2}(?:[-/.月,]| ?yue| năm)", re.IGNORECASE
)
"""What every day in figures begins with."""
# Nothing must part a word of birth from what follows it.
_BORN = Openings(
    (_BIRTH, first_words(phrases("births"))),
    stems=first_words(phrase for phrase in phrases("births") if phrase.isalpha()),
)
# A time of day belongs to a day in figures; behind an ISO date it may stand without a space.
_TIMED = re.compile(
    r"(?<![\w./-])[0-9]{4}([-/])[0-9]{2}\1[0-9]{2}[T ]"
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9])?(?![0-9])"
)


def find_dates(
    text: str, runs: Runs, digits: Sequence[int] | None = None
) -> Iterator[tuple[int, int]]:
    """Days in the text; spans may overlap. `digits` are where its runs of digits begin."""
    if digits is None:
        digits = digits_in(text)
    if not digits:
        return
    figures = figures_among(text, digits)
    for match in matches_at(_TIMED, text, figures):
        yield match.span()
    dated = [place for place in figures if _DATED.match(text, place)]
    for pattern in _FIGURES if dated else ():
        for match in matches_at(pattern, text, dated):
            # In figures day and month may stand either way round.
            day, month, year = int(match["d"]), int(match["m"]), int(match["y"])
            if _is_day(year, month, day) or _is_day(year, day, month):
                yield match.span()
    worded: list[re.Match[str]] = []
    if not text.isascii() or not _MONTH_WORDS.isdisjoint(runs.words):
        others = (_WORDS[0], *_WORDS[2:])
        worded += (match for p in others for match in matches_at(p, text, figures))
        worded += (match for _, match in _AFTER_MONTH.matches(text, runs))
    for match in worded:
        if _is_day(int(match["y"]), _FOLDED[caseless(match["m"])], int(match["d"])):
            yield match.span()
    for _, birth in _BORN.matches(text, runs):
        partial = _PARTIAL.match(text, birth.end())
        if partial is not None:
            yield partial.span()


class Host(NamedTuple):
    """Where an IP address stands, and whether it can be somebody's."""

    span: tuple[int, int]
    personal: bool


_QUAD = re.compile(r"[0-9](?<![\w.-].)[0-9]{0,2}(?:\.[0-9]{1,3}){3}(?![\w-]|\.[0-9])")
_HEXES = re.compile(
    r"(?<![\w:.])(?=[0-9A-Fa-f:]{0,4}:)(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:])"
)
_TWO_COLONS = re.compile(r":[0-9A-Fa-f]{0,4}:")
_VERSION = re.compile(
    r"(?:\bv|version|release|build|firmware|driver|[=@/~^])[ .:]{0,2}\Z", re.IGNORECASE
)
_LONG_PARTS = 2  # "4.2.1.3" is a section, 8.8.8.8 everybody's


def find_hosts(text: str, digits: Sequence[int] | None = None) -> Iterator[Host]:
    """IP addresses. Those of a private network, of this machine and of no machine are nobody's."""
    digits = digits_in(text) if digits is None else digits
    for match in matches_at(_QUAD, text, digits) if text.count(".") > 2 else ():
        try:
            host = ipaddress.IPv4Address(match[0])
        except ValueError:
            continue
        long = sum(len(part) > 1 for part in match[0].split(".")) >= _LONG_PARTS
        version = _VERSION.search(text[max(0, match.start() - 10) : match.start()])
        yield Host(match.span(), long and host.is_global and version is None)
    for match in _HEXES.finditer(text) if ":" in text and _TWO_COLONS.search(text) else ():
        try:
            address = ipaddress.IPv6Address(match[0])
        except ValueError:
            continue
        own = address.is_private or address.is_link_local or address.is_loopback
        if not own and any(len(part) > 2 for part in match[0].split(":")):
            yield Host(match.span(), True)


_STATES = (
    "AL|AK|AZ|AR|CA|CO|CT|DE|FL|GA|HI|ID|IL|IN|IA|KS|KY|LA|ME|MD|MA|MI|MN|MS|MO|MT|NE|NV|NH|NJ|NM|NY|NC"
    "|ND|OH|OK|OR|PA|RI|SC|SD|TN|TX|UT|VT|VA|WA|WV|WI|WY|DC|PR|GU|VI"
)
_UK_AREAS = (
    "A[BL]|B[ABDHLNRST]?|C[ABFHMORTVW]|D[ADEGHLNTY]|E[CHNX]?|F[KY]|G[LUY]?|H[ADGPRSUX]|I[GMPV]|JE"
    "|K[ATWY]|L[ADELNSU]?|M[EKL]?|N[EGNPRW]?|O[LX]|P[AEHLOR]|R[GHM]|S[AEGKLMNOPRSTWY]?|T[ADFNQRSW]"
    "|UB|W[ACDFNRSV]?|YO|ZE"
)
_POSTCODES = (
    re.compile(
        rf"(?<![\w-])(?:{_UK_AREAS})[0-9][0-9A-HJKPSTUW]?[ ][0-9][ABD-HJLNP-UW-Z]{{2}}(?!\w)"
    ),
    re.compile(r"(?<![\w-])[ABCEGHJ-NPRSTVXY][0-9][A-Z][ ][0-9][A-Z][0-9](?!\w)"),
    re.compile(
        rf"(?<=[a-z.], )(?:{_STATES}),?[ ]{{1,2}}[0-9]{{5}}(?:-[0-9]{{4}})?(?![\w-]|[.,][0-9])"
    ),
)
_POST_LABEL = re.compile(
    rf"(?<!\w)(?:{any_of('postcodes')})[ \t]{{0,2}}(?:is|was|ist|est|es|è|[:=])?[ \t]{{0,3}}"
    r"(?P<code>[A-Z]{1,2}[0-9][A-Z0-9]?[ ]?[0-9][A-Z]{2}|[A-Z][0-9][A-Z][ ]?[0-9][A-Z][0-9]"
    r"|[0-9]{4}[ ]?[A-Z]{2}|[0-9]{2}-[0-9]{3}|[0-9]{3}[ ][0-9]{2}|[0-9]{5}-[0-9]{3,4}|[0-9]{4,6})"
    r"(?![\w-]|[.,][0-9])",
    re.IGNORECASE,
)
_POST_LABELS = Openings((_POST_LABEL, first_words(phrases("postcodes"))))


def find_postcodes(
    text: str, runs: Runs, begun: Sequence[int] | None = None
) -> Iterator[tuple[int, int]]:
    """Postcodes: behind their word, in the forms that are nothing else, behind town and state."""
    if not has_digit(text):
        return
    for _, match in _POST_LABELS.matches(text, runs):
        yield match.span("code")
    begins = beginnings(text, digits_in(text)) if begun is None else begun
    for pattern in _POSTCODES:
        for match in matches_at(pattern, text, begins):
            yield match.span()


_AGE = re.compile(
    r"(?<![\w.,-])(?P<before>[0-9]{1,3})"
    r"(?:[ -](?:years?|months?|weeks?|days?)[ -](?:old|of age)|[ ]?y/?o)(?!\w)"
    r"|(?<!\w)(?:aged?|turn(?:s|ed|ing))[ ]{0,2}(?:is|of|:|=)?[ ]{0,2}(?P<behind>[0-9]{1,3})"
    r"(?![\w-]|[.,:%][0-9])",
    re.IGNORECASE,
)
_OLDEST = 130  # years; the oldest person known became 122


def find_ages(text: str) -> Iterator[tuple[int, int]]:
    """Ages in figures, the number alone."""
    for match in _AGE.finditer(text):
        group = "before" if match["before"] else "behind"
        if int(match[group]) <= _OLDEST:
            yield match.span(group)


def _is_day(year: int, month: int, day: int) -> bool:
    if year < 100:  # two digits: a record has few days that are decades ahead
        year += 1900 if year > 50 else 2000
    if not (_FIRST_YEAR <= year <= _LAST_YEAR and 1 <= month <= 12):
        return False
    return 1 <= day <= calendar.monthrange(year, month)[1]


FoundKind = Kind | Literal["address", "ip", "postcode", "age"]
"""What is looked for: identifiers that have tokens of their own, and others."""
FOUND_KINDS: tuple[FoundKind, ...] = (
    *("email", "ip", "code", "date", "address", "postcode", "phone", "person", "age"),
)
"""In the order in which they claim the same characters."""
DEFAULT_KINDS: tuple[FoundKind, ...] = FOUND_KINDS[:-1]
"""All but ages: the owner's is a root, and somebody else's alone tells nobody who it is."""
_SOMEBODYS: frozenset[FoundKind] = frozenset(("email", "code", "phone", "person"))
"""Kinds that show that a day or an address beside them is somebody's; a log has days and hosts."""


@dataclass(frozen=True, slots=True)
class Found:
    """An identifier's place in a text and its kind. Holds nothing private."""

    start: int
    end: int
    kind: FoundKind
    sure: bool = field(default=True, compare=False, repr=False)
    """False for a single word that may be a given name and that nothing introduces: "Iris"."""


class Detector(Protocol):
    """Anything that finds identifiers in a text."""

    def find(self, text: str) -> list[Found]:
        """The identifiers in the text, in order and without overlaps."""
        ...


def merge(found: Iterable[Found]) -> list[Found]:
    """Finds of several detectors as one list without overlaps, in order of place.

    Of overlapping ones the longest stays, then the leftmost, then by kind as in `FOUND_KINDS`.
    """
    ranked = sorted(
        {item for item in found if item.start < item.end},
        key=lambda item: (item.start - item.end, item.start, FOUND_KINDS.index(item.kind)),
    )
    kept: list[Found] = []
    taken = bytearray(max((item.end for item in ranked), default=0))
    for item in ranked:
        # Every kept item is at least as long, so an overlap covers an end of this one.
        if not taken[item.start] and not taken[item.end - 1]:
            taken[item.start : item.end] = b"\x01" * (item.end - item.start)
            kept.append(item)
    return sorted(kept, key=lambda item: item.start)


# Not "=", "&", "?" and brackets, though they are allowed: they end a key or open a query.
_LOCAL = re.compile(r"[\w.!#$%'*+^`~-]{1,64}\Z")
_DOMAIN = re.compile(r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}[^\W\d_]{2,24}")
_LONGEST_LOCAL, _LONGEST_DOMAIN = 64, 253  # RFC 5321; RFC 1035, as a domain is written


class AllowList:
    """Words and phrases that are never taken for identifiers, compared without case and accents.

    A find is let go if it lies within such a phrase as it stands in the text.
    """

    def __init__(self, phrases: Iterable[str] = ()) -> None:
        known = {tuple(_WORD.findall(caseless(phrase))) for phrase in phrases} - {()}
        self._phrases: dict[str, list[tuple[str, ...]]] = {}
        for phrase in sorted(known):
            for word in dict.fromkeys(phrase):
                self._phrases.setdefault(word, []).append(phrase)
        self._longest = max(map(len, known), default=0)

    def allows(self, text: str, start: int, end: int) -> bool:
        """Whether the whole of a find stands in an allowed phrase."""
        words = _WORD.findall(caseless(text[start:end])) if self._phrases else []
        if not words or words[0] not in self._phrases:
            return False
        most = self._longest - 1
        left, right = text[max(0, start - _NEAR) : start], text[end : end + _NEAR]
        before = _WORD.findall(caseless(left))[-most:] if most else []
        after = _WORD.findall(caseless(right))[:most]
        near, first, last = [*before, *words, *after], len(before), len(before) + len(words)
        for phrase in self._phrases[words[0]]:
            for place in range(max(0, last - len(phrase)), first + 1):
                if tuple(near[place : place + len(phrase)]) == phrase:
                    return True
        return False


_WORD = re.compile(r"[^\W_]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_NEAR = 64  # characters on either side of a find; allowed phrases are shorter
_NO_PERSONS = AllowList(phrases("no_persons"))


class Rules:
    """Finds identifiers by rules.

    `regions` are the countries whose phone numbers are known by their national form; in the first
    of them also a number that nothing else marks as one. `allow` are words and phrases that are
    never taken for identifiers.
    """

    def __init__(
        self,
        *,
        regions: Sequence[str] = DEFAULT_REGIONS,
        kinds: Collection[FoundKind] = DEFAULT_KINDS,
        allow: Iterable[str] = (),
    ) -> None:
        for kind in kinds:
            if kind not in FOUND_KINDS:
                raise UnknownNameError("kind of identifier", kind, FOUND_KINDS)
        self._regions = tuple(regions)
        self._kinds = frozenset(kinds)
        self._allowed = AllowList(allow)

    def find(self, text: str) -> list[Found]:
        """The identifiers in the text, in order and without overlaps."""
        return self.find_among(text, Runs(text))

    def find_among(self, text: str, runs: Runs, spoken_for: Spans | None = None) -> list[Found]:
        """The same, if the runs of letters of the text are known already.

        In stretches that are spoken for a find may be missing.
        """
        claims = _Claims(text)
        claims.add("email", find_emails(text))
        digits = digits_in(text)
        hosts = list(find_hosts(text, digits))
        claims.add("ip", (host.span for host in hosts if host.personal))
        claims.hide(host.span for host in hosts)
        begun = beginnings(text, digits)
        claims.add("code", find_records(text, runs, begun))
        claims.add("date", find_dates(text, runs, digits))
        if digits and any(
            word in STREET_WORDS or word.endswith(STREET_ENDINGS) for word in _words(text, runs)
        ):
            known = runs if text.isascii() else None
            claims.add("address", find_addresses(text, known, digits))
        claims.add("postcode", find_postcodes(text, runs, begun))
        claims.add("phone", find_phones(claims.free_text(), self._regions, spoken_for or Spans()))
        names = find_names(text, runs)
        named = merge(Found(start, end, "person") for start, end in names)
        claims.add(
            "person",
            (
                (item.start, item.end)
                for item in named
                if not _NO_PERSONS.allows(text, item.start, item.end)
            ),
        )
        if "age" in self._kinds:
            claims.add("age", find_ages(text))
        found = [
            Found(item.start, item.end, "person", sure=names[item.start, item.end])
            if item.kind == "person"
            else item
            for item in claims.found()
        ]
        return [
            item
            for item in self._personal(text, found)
            if item.kind in self._kinds and not self._allowed.allows(text, item.start, item.end)
        ]

    def _personal(self, text: str, found: Sequence[Found]) -> Iterator[Found]:
        """The finds without days and addresses that are everybody's."""
        others = [item.start for item in found if item.kind in _SOMEBODYS]
        for item in found:
            match item.kind:
                case "date" if not personal_day(text, item.start, item.end, others):
                    continue
                case "address" if not personal_address(text, item.start, item.end, others):
                    continue
                case _:
                    yield item


def _words(text: str, runs: Runs) -> Collection[str]:
    """The words of a text in small letters and without accents."""
    return runs.words if text.isascii() else set(map(caseless, _LETTERS.findall(text)))


class _Claims:
    """Who was first on each character of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._taken = bytearray(len(text))
        self._found: list[Found] = []
        self._hidden: list[tuple[int, int]] = []

    def add(self, kind: FoundKind, spans: Iterable[tuple[int, int]]) -> None:
        """Claim the spans that are still free; of one kind the longer first."""
        for start, end in sorted(spans, key=lambda span: (span[0] - span[1], span[0])):
            if start < end and not any(self._taken[start:end]):
                self._taken[start:end] = b"\x01" * (end - start)
                self._found.append(Found(start, end, kind))

    def hide(self, spans: Iterable[tuple[int, int]]) -> None:
        """Keep the spans from everybody: they are nothing that is looked for."""
        for start, end in spans:
            self._taken[start:end] = b"\x01" * (end - start)
            self._hidden.append((start, end))

    def free_text(self) -> str:
        """The text with a line break for every claimed character."""
        pieces, place = [], 0
        claimed = {*self._hidden, *((item.start, item.end) for item in self._found)}
        for start, end in sorted(claimed):
            pieces += [self._text[place:start], "\n" * (end - start)]
            place = end
        return "".join((*pieces, self._text[place:]))

    def found(self) -> list[Found]:
        return sorted(self._found, key=lambda item: item.start)


def find_emails(text: str) -> Iterator[tuple[int, int]]:
    """E-mail addresses, read outwards from each "@"."""
    at = text.find("@")
    while at != -1:
        local = _LOCAL.search(text[max(0, at - _LONGEST_LOCAL) : at])
        domain = _DOMAIN.match(text, at + 1, at + 1 + _LONGEST_DOMAIN)
        if local is not None and domain is not None:
            kept = local[0].lstrip(".'`!#$%*^~-")
            copied = (
                text[domain.end() : domain.end() + 1] == ":"
                and text[domain.end() + 1 : domain.end() + 2].isalpha()
            )  # git@host:path is no mailbox
            if kept and not copied:
                yield at - len(kept), domain.end()
        at = text.find("@", at + 1)
