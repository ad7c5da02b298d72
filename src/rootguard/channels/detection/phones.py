"""Phone numbers, with the `phonenumbers` library's numbering plans.

Three ways, from most to least certain: what the library finds for the first region; a number
beside a word such as "phone" or "Tel."; a number with a trunk or country prefix, or in groups,
that is valid in one of the other regions.
"""

import re
from collections.abc import Iterator, Sequence

from rootguard.channels.detection.signs import any_of

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
_LEAST, _MOST = 7, 15


def find_phones(text: str, regions: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Phone numbers; spans may overlap."""
    import phonenumbers

    home = regions[0] if regions else None
    matcher = phonenumbers.PhoneNumberMatcher(
        text, home, leniency=phonenumbers.Leniency.VALID, max_tries=len(text) + 1
    )
    for found in matcher:
        yield found.start, found.end
    for match in _CANDIDATE.finditer(text):
        written = match[0]
        digits = sum(character.isdigit() for character in written)
        if not _LEAST <= digits <= _MOST or written.count("(") != written.count(")"):
            continue
        start, end = match.span()
        extension = _EXTENSION.match(text, end)
        said = _WORD_BEFORE.search(text[max(0, start - _LOOK_BACK) : start])
        if said or (_marked(written) and any(_valid(written, region) for region in regions)):
            yield start, extension.end() if extension else end


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
