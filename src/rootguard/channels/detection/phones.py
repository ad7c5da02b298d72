"""Phone numbers, with the `phonenumbers` library's numbering plans.

Three ways, from most to least certain: what the library finds for the first region; a number
beside a word such as "phone" or "Tel."; a number with a trunk or country prefix, or in groups,
that is valid in one of the other regions.
"""

import functools
import re
from collections.abc import Iterator, Sequence

from rootguard.channels.detection.signs import any_of
from rootguard.language.spans import Spans

DEFAULT_REGIONS = (
    "US", "GB", "DE", "FR", "ES", "IT", "PL", "BR", "NL", "SE", "TR", "VN", "CN", "IN", "EG",
)  # fmt: skip

_CANDIDATE = re.compile(
    r"(?<![\w.,+$€£-])(?:\+|\(\+?)?[0-9](?:[ \u00a0]?[-./()][ \u00a0]?|\)[ ]?|[ \u00a0])?"
    r"(?:[0-9](?:[ \u00a0]?[-./()]{1,2}[ \u00a0]?|[ \u00a0])?){5,15}(?<=[0-9])"
    r"(?![\w%€£$]|[.,][0-9])",
    re.ASCII,
)
_EXTENSION = re.compile(r"[ ]?(?:x|ext\.?|#) ?[0-9]{1,6}(?![\w])", re.IGNORECASE)
_WORD_BEFORE = re.compile(rf"(?:{any_of('phones')})\b[^0-9\n]{{0,24}}\Z", re.IGNORECASE)
_LOOK_BACK = 48
_DIGIT = re.compile(r"\d")
_CLUSTER = re.compile(r"\d+(?:\D{1,4}\d+)*")
_BLANKS = str.maketrans(dict.fromkeys(" ,-\t\u00a0"))
_LONGEST_EXTENSION_WORD = 24
LEAST_WITH_CODE = 6
"""Of all countries; a test asks the library."""
_LEAST, _MOST = 7, 15


_NOTHING = Spans()


def find_phones(
    text: str, regions: Sequence[str], spoken_for: Spans = _NOTHING
) -> Iterator[tuple[int, int]]:
    """Phone numbers; spans may overlap. Not asked: numbers that are spoken for as a whole."""
    if _DIGIT.search(text) is None:
        return
    home = regions[0] if regions else None
    text = _without_small(text, _least_digits(home), spoken_for)
    if _DIGIT.search(text) is None:
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
        said = _WORD_BEFORE.search(text[max(0, start - _LOOK_BACK) : start])
        if said or (_marked(written) and any(_valid(written, region) for region in regions)):
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

    These have too few digits, or are spoken for: a value of a root has more digits than a phone.

    Digits that stand closer than the library joins them are one number. What may be an extension
    of a number before it stays.
    """
    pieces, place, edge = [], 0, None
    for cluster in _CLUSTER.finditer(text):
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
    return "".join((*pieces, text[place:]))


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
