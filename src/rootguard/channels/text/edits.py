"""What is written where in a text, what came of it, and what stands around the changes.

Public: nothing that was replaced is here. A text is sanitized until nothing changes. What a change
can bring about is read within a sentence or a few words of it, so the second look needs only the
neighbourhoods of the changes: its sentence, and those within reach that are more than a few small
words. They are read as one text, with marks between them that nothing is read across.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rootguard.reading.claims import SILENCE, Heard
from rootguard.values import RootName


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Edit:
    """A stretch of a text and what is written there; `released` is a root's value.

    `missing` is a root without a value whose number was taken out, because whoever said it is not
    the owner. `of` is what the released value is one of: a root, or a computed value.
    """

    start: int
    end: int
    text: str
    kind: str
    released: float | None = None
    missing: RootName | None = None
    of: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A place that is not what it was, for whoever sent it: where, what is there now, whose value.

    `kind` is "value" for a released value, "answer" for a question answered from released ones,
    "number" for a number that was taken out, "refused" for what kept a request from being sent, and
    the kind of an identifier otherwise. Keys in the path are as they left. Public.
    """

    path: tuple[str | int, ...]
    kind: str
    root: str | None = None
    times: int = 1


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Sanitization:
    """A text that may leave, and how many replacements of which kind made it so.

    `missing`: roots without a value whose numbers were taken out. `heard`: what it leaves to the
    texts after it. `released`: whose released values were written, and how often.
    """

    text: str
    replaced: Mapping[str, int]
    missing: frozenset[RootName] = frozenset()
    heard: Heard = SILENCE
    released: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class JsonSanitization:
    """A JSON value that may leave, with the same beside it, and where what was changed."""

    value: object
    replaced: Mapping[str, int]
    missing: frozenset[RootName] = frozenset()
    changes: tuple[Change, ...] = ()


REACH = 48
"""Characters on either side, at the least; then up to the end of the sentence."""
_ENDS = re.compile(r"[.!?\n](?:(?<=\n)|\s)")
_TELLING = re.compile(r"[^a-z ,'.!?\n-]")
_SHORT = 24  # a sentence of fewer characters ends nothing: "Dr. Wu.", "AST: 23."
_APART = " " + "!" * 30 + " "
"""Longer than the longest gap that a phone number's extension may have."""


def changes(edits: Sequence[Edit], skip: int) -> list[tuple[int, int]]:
    """Where edits, which are in order, stand in the text that they made, `skip` further on."""
    made, shift = [], skip
    for edit in edits:
        start = edit.start + shift
        made.append((start, start + len(edit.text)))
        shift += len(edit.text) - (edit.end - edit.start)
    return made


def neighbourhoods(text: str, changed: Sequence[tuple[int, int]]) -> str | None:
    """The neighbourhoods of the changes; None if that is most of the text."""
    ends = [0, *[match.end() for match in _ENDS.finditer(text)], len(text)]
    windows: list[tuple[int, int]] = []
    for start, end in changed:
        first = bisect_right(ends, start) - 1
        while (
            first > 0 and ends[first] > start - REACH and _tells(text, *ends[first - 1 : first + 1])
        ):
            first -= 1
        last = bisect_left(ends, end, lo=first + 1)
        while ends[last] < min(end + REACH, len(text)) and _tells(text, *ends[last : last + 2]):
            last += 1
        if windows and ends[first] <= windows[-1][1]:
            windows[-1] = (windows[-1][0], max(windows[-1][1], ends[last]))
        else:
            windows.append((ends[first], ends[last]))
    if 4 * sum(end - start for start, end in windows) > 3 * len(text):
        return None
    return _APART.join(dict.fromkeys(text[start:end] for start, end in windows))


def _tells(text: str, start: int, end: int) -> bool:
    """Whether a sentence may have to do with what stands beside it: one of small words has not."""
    return end - start < _SHORT or _TELLING.search(text, start + 1, end) is not None
