"""Which days and addresses say who somebody is, and which are everybody's.

A day of birth, of an admission or of an appointment stands in somebody's record and singles that
person out; the day of a decision, a release or a deadline is everybody's, and another day in its
place makes the text false. Nothing in a day itself tells which it is, so what stands in the same
paragraph decides:

- after "today is", "as of", "released" it is a clock's or a publisher's, whatever else is said;
- beside another identifier, or a word of birth, health, appointments, papers or family, it is
  somebody's;
- otherwise a day as forms write it (3/14/1971, 14.03.1971) is somebody's unless it is a deadline,
  and one as news and programs write it (14 March 1971, 1971-03-14) is nobody's.

A street and its number may be somebody's home and count as such, unless the same paragraph speaks
of a hotel, a museum or opening hours, and of nobody.

How far is looked is bounded, so the cost is linear.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence

from rootguard.channels.detection.lists import any_of

_BEFORE, _AFTER = 160, 80  # characters: about two sentences before and one after
_PUBLIC_BEFORE = 40  # "the current date and time is: "
_PARAGRAPH = re.compile(r"\n[ \t]*\n|\r\n[ \t]*\r\n")
_LINKS = (
    r"(?:[ \t]{1,2}"
    r"(?:date|time|and|is|was|on|at|the|ist|war|est|le|es|el|è|il|é|den|dem|zum)){0,4}"
)
_ENDS = r"[ \t]{0,2}[:=(]?[ \t]{0,2}[\"'“]?\Z"
_PUBLIC = re.compile(rf"(?<!\w)(?:{any_of('public_days')}){_LINKS}{_ENDS}", re.IGNORECASE)
_DEADLINE = re.compile(rf"(?<!\w)(?:{any_of('deadlines')}){_LINKS}{_ENDS}", re.IGNORECASE)
_PERSONAL = re.compile(
    rf"(?<!\w)(?:(?:{any_of('births', 'personal_days')})(?!\w)"
    rf"|(?:{any_of('owners')})(?!\w)(?![ ](?:{any_of('works')})\b))",
    re.IGNORECASE,
)
_FORM = re.compile(r"[0-9]{1,2}(?:[-/.]|\. )[0-9]{1,2}(?:[-/.]|\. )(?:[0-9]{2}){1,2}(?:\D|\Z)")
_PLACE = re.compile(rf"(?<!\w)(?:{any_of('public_places')})(?!\w)", re.IGNORECASE)
_HOME = re.compile(
    rf"(?<!\w)(?:(?:{any_of('address_labels', 'homes')})(?!\w)"
    rf"|(?:{any_of('owners')})(?!\w)(?![ ](?:{any_of('works', 'public_places')})\b))",
    re.IGNORECASE,
)


def personal_address(text: str, start: int, end: int, others: Sequence[int]) -> bool:
    """Whether the address at a place may be somebody's; `others` as in `personal_day`."""
    left, right = _paragraph(text, start, end)
    at = bisect_left(others, left)
    if at < len(others) and others[at] < right:
        return True
    around = text[left:start], text[end:right]
    if not any(map(_PLACE.search, around)):
        return True
    return any(map(_HOME.search, around))


def personal_day(text: str, start: int, end: int, others: Sequence[int]) -> bool:
    """Whether the day at a place is somebody's.

    `others` are the places of the identifiers of other kinds, in order.
    """
    left, right = _paragraph(text, start, end)
    before = text[left:start]
    near = before[-_PUBLIC_BEFORE:]
    if _PUBLIC.search(near):
        return False
    at = bisect_left(others, left)
    if at < len(others) and others[at] < right:
        return True
    if _PERSONAL.search(before) or _PERSONAL.search(text, end, right):
        return True
    return _FORM.match(text, start) is not None and _DEADLINE.search(near) is None


def _paragraph(text: str, start: int, end: int) -> tuple[int, int]:
    """What is looked at around a find: no more than its paragraph."""
    left, right = max(0, start - _BEFORE), min(len(text), end + _AFTER)
    for gap in _PARAGRAPH.finditer(text, left, start):
        left = gap.end()
    gap_after = _PARAGRAPH.search(text, end, right)
    return left, right if gap_after is None else gap_after.start()
