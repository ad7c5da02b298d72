"""What a detector gives, and the default one: rules and lists, without a model or a network.

A detector says where something stands and what it is, never the text itself. Each kind has its own
rules; where two claim the same characters the surer one wins, in the order e-mail, record number,
date, phone, name. All patterns are bounded, so the cost grows with the length of the text and no
faster.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from rootguard.channels.detection.names import find_names
from rootguard.channels.detection.records import (
    DEFAULT_REGIONS,
    find_dates,
    find_phones,
    find_records,
)
from rootguard.errors import UnknownNameError
from rootguard.identifiers.formats import KINDS, Kind
from rootguard.language.fold import Runs, Spans

_KIND_ORDER: tuple[Kind, ...] = ("email", "code", "date", "phone", "person")


@dataclass(frozen=True, slots=True)
class Found:
    """An identifier's place in a text and its kind. Holds nothing private."""

    start: int
    end: int
    kind: Kind


class Detector(Protocol):
    """Anything that finds identifiers in a text."""

    def find(self, text: str) -> list[Found]:
        """The identifiers in the text, in order and without overlaps."""
        ...


def merge(found: Iterable[Found]) -> list[Found]:
    """Finds of several detectors as one list without overlaps, in order of place.

    Of overlapping ones the longest stays, then the leftmost, then by kind: e-mail, code, date,
    phone, person.
    """
    ranked = sorted(
        {item for item in found if item.start < item.end},
        key=lambda item: (item.start - item.end, item.start, _KIND_ORDER.index(item.kind)),
    )
    kept: list[Found] = []
    taken = bytearray(max((item.end for item in ranked), default=0))
    for item in ranked:
        # Every kept item is at least as long, so an overlap covers an end of this one.
        if not taken[item.start] and not taken[item.end - 1]:
            taken[item.start : item.end] = b"\x01" * (item.end - item.start)
            kept.append(item)
    return sorted(kept, key=lambda item: item.start)


_LOCAL = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}\Z")
_DOMAIN = re.compile(r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}[^\W\d_]{2,24}")
_LONGEST_LOCAL, _LONGEST_DOMAIN = 64, 253


class Rules:
    """Finds identifiers by rules.

    `regions` are the countries whose phone numbers are known by their national form; in the first
    of them also a number that nothing else marks as one.
    """

    def __init__(
        self, *, regions: Sequence[str] = DEFAULT_REGIONS, kinds: Collection[Kind] = KINDS
    ) -> None:
        for kind in kinds:
            if kind not in KINDS:
                raise UnknownNameError("kind of identifier", kind, KINDS)
        self._regions = tuple(regions)
        self._kinds = frozenset(kinds)

    def find(self, text: str) -> list[Found]:
        """The identifiers in the text, in order and without overlaps."""
        return self.find_among(text, Runs(text))

    def find_among(self, text: str, runs: Runs, spoken_for: Spans | None = None) -> list[Found]:
        """The same, if the runs of letters of the text are known already.

        In stretches that are spoken for a find may be missing.
        """
        claims = _Claims(text)
        claims.add("email", find_emails(text))
        claims.add("code", find_records(text, runs))
        claims.add("date", find_dates(text, runs))
        claims.add("phone", find_phones(claims.free_text(), self._regions, spoken_for or Spans()))
        named = merge(Found(start, end, "person") for start, end in find_names(text, runs))
        claims.add("person", ((item.start, item.end) for item in named))
        return [item for item in claims.found() if item.kind in self._kinds]


class _Claims:
    """Who was first on each character of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._taken = bytearray(len(text))
        self._found: list[Found] = []

    def add(self, kind: Kind, spans: Iterable[tuple[int, int]]) -> None:
        """Claim the spans that are still free; of one kind the longer first."""
        for start, end in sorted(spans, key=lambda span: (span[0] - span[1], span[0])):
            if start < end and not any(self._taken[start:end]):
                self._taken[start:end] = b"\x01" * (end - start)
                self._found.append(Found(start, end, kind))

    def free_text(self) -> str:
        """The text with a line break for every claimed character."""
        pieces, place = [], 0
        for item in self.found():
            pieces += [self._text[place : item.start], "\n" * (item.end - item.start)]
            place = item.end
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
            kept = local[0].lstrip(".'`!#$%&*/=?^{|}~-")
            if kept:
                yield at - len(kept), domain.end()
        at = text.find("@", at + 1)
