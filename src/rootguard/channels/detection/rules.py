"""What a detector gives, and the default one: rules and lists, without a model or a network.

A detector says where something stands and what it is, never the text itself. Each kind has its own
rules; where two claim the same characters the surer one wins, in the order e-mail, IP address,
record number, date, street address, postcode, phone, name, age. All patterns are bounded, so the
cost grows with the length of the text and no faster.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from rootguard.channels.detection.addresses import STREET_ENDINGS, STREET_WORDS, find_addresses
from rootguard.channels.detection.lists import phrases
from rootguard.channels.detection.names import find_names
from rootguard.channels.detection.public import personal_address, personal_day
from rootguard.channels.detection.records import (
    DEFAULT_REGIONS,
    find_ages,
    find_dates,
    find_hosts,
    find_phones,
    find_postcodes,
    find_records,
)
from rootguard.errors import UnknownNameError
from rootguard.identifiers.formats import Kind
from rootguard.language.fold import Runs, Spans, caseless

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


_LOCAL = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}\Z")
_DOMAIN = re.compile(r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}[^\W\d_]{2,24}")
_LONGEST_LOCAL, _LONGEST_DOMAIN = 64, 253


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
        hosts = list(find_hosts(text))
        claims.add("ip", (host.span for host in hosts if host.personal))
        claims.hide(host.span for host in hosts)
        claims.add("code", find_records(text, runs))
        claims.add("date", find_dates(text, runs))
        if any(
            word in STREET_WORDS or word.endswith(STREET_ENDINGS) for word in _words(text, runs)
        ):
            claims.add("address", find_addresses(text))
        claims.add("postcode", find_postcodes(text, runs))
        claims.add("phone", find_phones(claims.free_text(), self._regions, spoken_for or Spans()))
        named = merge(Found(start, end, "person") for start, end in find_names(text, runs))
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
        found = claims.found()
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
            kept = local[0].lstrip(".'`!#$%&*/=?^{|}~-")
            if kept:
                yield at - len(kept), domain.end()
        at = text.find("@", at + 1)
