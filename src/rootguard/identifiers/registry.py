"""The record of issued tokens, and where they stand in a text. Only what is in it is restored.

Format-preserving encryption has no integrity: an altered digit decrypts to another person's number.
So a token counts only if it was issued, which an entry proves: its sealed part opens under the
issuer's key, for this very kind and token, and under no other.

An entry holds a token (public) and sealed bytes, never a readable identifier, so a store may keep
entries as they are. `IssuedTokens` is the seam for such a store; `MemoryTokens` is the shipped one.

A token is found where it stands alone: inside something longer it is something else, as "4415" in
"4415-8820" or "Lopez" in "Lopezia". Matches are taken longest first, without overlap. Finding says
only where to look; whether a match is restored is decided by opening its registry entry.

Every decision looks a bounded way to the left and right, so that `streaming` can take it with a
part of the text: at most `TIED_WORDS` words are tied to one name, and at most `INITIALS` initials
in a row belong to the name beside them.
"""

import bisect
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn, Protocol, SupportsIndex

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from rootguard.identifiers.ff1 import derive_key
from rootguard.identifiers.formats import APOSTROPHES, Kind, is_letter, shape_of

# Sealed payloads are multiples of it: nearly every word of a name takes one, whatever its length.
_BLOCK = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class IssuedToken:
    """One token that was handed out, and what restoring it needs, sealed."""

    kind: Kind
    token: str
    sealed: bytes


class IssuedTokens(Protocol):
    """Where issued tokens are kept. A token's text is its key, whatever its kind."""

    def add(self, entry: IssuedToken) -> IssuedToken:
        """Keep an entry unless its token is taken; give back the one that now stands."""
        ...

    def find(self, token: str) -> IssuedToken | None:
        """The entry of a token, if there is one."""
        ...

    def since(self, count: int) -> Iterator[IssuedToken]:
        """The entries from the one with this number on, counted from 1, in order of issue."""
        ...

    def __iter__(self) -> Iterator[IssuedToken]: ...

    def __len__(self) -> int: ...


class MemoryTokens:
    """Issued tokens in memory; gone with the process."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[str, IssuedToken] = {}

    def add(self, entry: IssuedToken) -> IssuedToken:
        """Keep an entry unless its token is taken; give back the one that now stands."""
        return self._entries.setdefault(entry.token, entry)

    def find(self, token: str) -> IssuedToken | None:
        """The entry of a token, if there is one."""
        return self._entries.get(token)

    def since(self, count: int) -> Iterator[IssuedToken]:
        """The entries from the one with this number on, counted from 1, in order of issue."""
        return iter(tuple(self._entries.values())[max(count - 1, 0) :])

    def __iter__(self) -> Iterator[IssuedToken]:
        return iter(tuple(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<{len(self)} issued tokens>"


class Seal:
    """Seals what restoring needs, bound to kind and token (AES-256-SIV, RFC 5297).

    Payloads are padded, so that an entry does not show how long a name was. Sealing the same twice
    gives the same bytes, so two processes that issue one token agree.
    """

    __slots__ = ("_siv",)

    def __init__(self, key: bytes) -> None:
        self._siv = AESSIV(derive_key(key, "seal", 64))

    def close(self, kind: Kind, token: str, payload: bytes) -> IssuedToken:
        """An entry that only this key opens."""
        padding = b"\x80" + bytes(-(len(payload) + 1) % _BLOCK)
        sealed = self._siv.encrypt(payload + padding, _bound(kind, token))
        return IssuedToken(kind=kind, token=token, sealed=sealed)

    def open(self, entry: IssuedToken) -> bytes | None:
        """The payload, or None if the entry was altered or sealed under another key."""
        try:
            padded = self._siv.decrypt(entry.sealed, _bound(entry.kind, entry.token))
        except (InvalidTag, ValueError):
            return None
        return padded.rstrip(b"\x00")[:-1]

    def __repr__(self) -> str:
        return "<seal>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a seal cannot be pickled or copied")


def _bound(kind: Kind, token: str) -> list[bytes]:
    return [kind.encode(), token.encode("utf-8", "surrogatepass")]


# More than any name has; a stream holds back at most so many words and initials.
TIED_WORDS = 8
INITIALS = 8
TIES = "-" + APOSTROPHES
"""What ties words to one name."""
_ALWAYS_JOIN = "._@" + TIES
_DIGITS_JOIN = "/:"
INITIAL = re.compile(r"[A-Z](?<![^\W_].)(?![^\W_])", re.DOTALL)
_JOINING = "A-Za-z0-9\u00bd"
_MARKS = "[._@'-]"
_CHUNK = re.compile(  # in a shape
    rf"[A-Za-z](?<![{_JOINING}].)(?<![{_JOINING}]{_MARKS}.)"
    rf"(?>[A-Za-z]*(?:['-][A-Za-z]+){{0,{TIED_WORDS - 1}}})"
    rf"(?![{_JOINING}])(?!{_MARKS}[{_JOINING}])",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, repr=False)
class TokenMention:
    """A stretch of text and what to put there."""

    start: int
    end: int
    original: str


class Beginnings:
    """Texts in order, to ask which of them begin in a given way."""

    __slots__ = ("_ordered", "_texts", "all", "firsts", "longest")

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: list[str] = []
        self._ordered = True
        self.all: set[str] = set()
        self.firsts: set[str] = set()
        self.longest = 0
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Take up a text; put in order when next asked."""
        self._texts.append(text)
        self._ordered = False
        self.all.add(text)
        self.firsts.add(text[:1])
        self.longest = max(self.longest, len(text))

    def starting(self, beginning: str) -> Iterator[str]:
        """The texts that begin so; first the one that is all of it, if there is one."""
        if not self._ordered:
            self._texts.sort()
            self._ordered = True
        for place in range(bisect.bisect_left(self._texts, beginning), len(self._texts)):
            if not self._texts[place].startswith(beginning):
                return
            yield self._texts[place]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __contains__(self, text: str) -> bool:
        return text in self.all

    def go_on(self, beginning: str) -> bool:
        """Whether one of them begins so and is longer."""
        return any(len(text) > len(beginning) for text in self.starting(beginning))


_RUN = re.compile("[A-Za-z]+")
_MANY = 64
"""From this many words on, looking for each takes longer than looking at all chunks."""


class TokenIndex:
    """Issued tokens by how they begin, to look only where one can begin."""

    __slots__ = ("_entries", "_first", "_lengths", "tokens", "words")

    def __init__(self, entries: Iterable[IssuedToken] = ()) -> None:
        self._entries: dict[str, IssuedToken] = {}
        self._first: re.Pattern[str] | None = None
        self._lengths: dict[str, set[int]] = {}
        self.tokens = Beginnings()
        self.words = Beginnings()
        for entry in entries:
            self.add(entry)

    def add(self, entry: IssuedToken) -> None:
        """Take up an entry; names are found by their words instead."""
        self._entries[entry.token] = entry
        if entry.kind == "person":
            self.words.add(entry.token)
        else:
            if entry.token[:1] not in self.tokens.firsts:
                self._first = None
            self.tokens.add(entry.token)
            self._lengths.setdefault(entry.token[:2], set()).add(len(entry.token))

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[IssuedToken]:
        return iter(self._entries.values())

    def entry(self, token: str) -> IssuedToken | None:
        """The entry of a token, if it was taken up."""
        return self._entries.get(token)

    def last(self, count: int) -> list[str]:
        """The tokens that were taken up last."""
        return list(itertools.islice(reversed(self._entries), count))

    def spans(self, text: str, first: int = 0) -> list[tuple[int, int]]:
        """Stretches from `first` on as long as a token that begins with the same characters."""
        found = []
        for match in self._begins().finditer(text, first):
            start = match.start()
            heads = {text[start], text[start : start + 2]}
            lengths = [each for head in heads for each in self._lengths.get(head, ())]
            if not lengths or not opens(text, start):
                continue
            for length in lengths:
                end = start + length
                if end <= len(text) and closes(text, start, end):
                    found.append((start, end))
        return found

    def named(self, text: str) -> list[tuple[int, int]]:
        """Chunks that may be names: a word of theirs is issued."""
        shape = shape_of(text)
        runs = _RUN.finditer(shape)
        said = _RUN.findall(text) if shape is text else [text[m.start() : m.end()] for m in runs]
        if self.words.all.isdisjoint(said):  # a name has a word that was issued
            return []
        # A lone initial is no name.
        words = [w for w in self.words.all.intersection(said) if len(w) > 1 or not w.isascii()]
        if len(words) > _MANY:
            return [match.span() for match in _CHUNK.finditer(shape)]
        found: list[tuple[int, int]] = []
        reached = 0
        for place in sorted(place for word in words for place in _places(text, word)):
            if place < reached:
                continue
            start = place
            while start > reached and _tied_back(shape, start):
                start -= 1
            chunk = _CHUNK.match(shape, start)
            reached = place + 1 if chunk is None else chunk.end()
            found += [] if chunk is None else [chunk.span()]
        return found

    def _begins(self) -> re.Pattern[str]:
        """Characters that can be a token's first; within a word or number most cannot."""
        if self._first is None:
            # A letter or digit behind one of ASCII opens nothing.
            joining = "".join(re.escape(each) for each in self.tokens.firsts if _joins(each))
            others = "".join(re.escape(each) for each in self.tokens.firsts if not _joins(each))
            parts = [rf"[{joining}](?<![A-Za-z0-9].)"] if joining else []
            parts += [f"[{others}]"] if others else []
            self._first = re.compile("|".join(parts) or "(?!)", re.DOTALL)
        return self._first

    def begun(self, text: str, first: int) -> list[int]:
        """Where, from `first` on, a token begins that the text breaks off."""
        first = max(first, len(text) - self.tokens.longest + 1)
        return [
            start
            for start in range(first, len(text))
            if text[start] in self.tokens.firsts
            and opens(text, start)
            and self.tokens.go_on(text[start:])
        ]


def _tied_back(shape: str, place: int) -> bool:
    """Whether the chunk of a letter goes on to the left."""
    before = shape[place - 1]
    return before.isalpha() or (before in "-'" and shape[max(place - 2, 0) : place - 1].isalpha())


def _places(text: str, word: str) -> Iterator[int]:
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + 1)


def opens(text: str, start: int) -> bool:
    """Whether something can begin here rather than go on from the left."""
    if start == 0 or not _joins(text[start]):
        return True
    before = text[start - 1]
    if _joins(before) or (before == "+" and text[start].isdigit()):
        return False
    return start < 2 or not _tied(text[start - 2], before, text[start])


def closes(text: str, start: int, end: int) -> bool:
    """Whether what begins at `start` can end here rather than go on to the right.

    A comma between digits ties only a token of digits alone, as in "1,441".
    """
    if text[start:end].isdigit():
        if text[max(start - 1, 0) : start] == "," and text[max(start - 2, 0) : start - 1].isdigit():
            return False
        if text[end : end + 1] == "," and text[end + 1 : end + 2].isdigit():
            return False
    if end == len(text) or not _joins(text[end - 1]):
        return True
    if _joins(text[end]):
        return False
    if end + 1 == len(text) or text[end : end + 2] in {mark + "s" for mark in APOSTROPHES}:
        return True
    return not _tied(text[end - 1], text[end], text[end + 1])


def is_settled(text: str, end: int) -> bool:
    """Whether `closes` stays as it is whatever the text goes on with."""
    if end + 2 <= len(text) or not _joins(text[end - 1]):
        return True
    if end == len(text):
        return False
    return text[end] not in _ALWAYS_JOIN and not (
        text[end - 1].isdigit() and text[end] in _DIGITS_JOIN + ","
    )


def _joins(character: str) -> bool:
    return character.isalnum() or is_letter(character)


def _tied(left: str, mark: str, right: str) -> bool:
    """Whether a mark ties what stands on both sides into one number or word."""
    if mark in _ALWAYS_JOIN:
        return _joins(left) and _joins(right)
    return mark in _DIGITS_JOIN and left.isdigit() and right.isdigit()


def name_chunks(text: str, first: int = 0) -> list[tuple[int, int]]:
    """Words from `first` on, with what ties hold to them, that stand alone."""
    return [match.span() for match in _CHUNK.finditer(shape_of(text), first)]


def initials_beside(
    text: str,
    starts: dict[int, int],
    ends: dict[int, int],
    restore: Callable[[str], str | None],
    first: int = 0,
) -> list[TokenMention]:
    """Initials from `first` on that belong to a restored name: "K." beside one, "K" between two.

    `starts` and `ends` say where names (0) and chosen initials (how many from their name) start and
    end; the newly chosen are added. A lone capital letter elsewhere ("Plan K", "I", "A") is
    ordinary text.
    """
    letters = [match.start() for match in INITIAL.finditer(text, first)]
    chosen: dict[int, TokenMention] = {}
    for order in (reversed(letters), letters):
        for start in order:
            dotted = text[start + 1 : start + 2] == "."
            end = start + 1 + dotted
            right = starts.get(end + (text[end : end + 1] in {" ", "-"}), INITIALS)
            left = ends.get(start - (text[start - 1 : start] in {" ", "-"}), INITIALS)
            away = min(left, right) if dotted else max(left, right)
            original = restore(text[start]) if away < INITIALS else None
            if original is not None:
                chosen[start] = TokenMention(start, start + 1, original)
                starts[start] = ends[end] = away + 1
    return list(chosen.values())


def replace(text: str, mentions: Iterable[TokenMention]) -> str:
    """The text with its mentions replaced: longest first, no overlap, from the end backwards."""
    taken = bytearray(len(text))
    chosen = []
    for mention in sorted(mentions, key=lambda each: (each.start - each.end, each.start)):
        if not any(taken[mention.start : mention.end]):
            taken[mention.start : mention.end] = b"\x01" * (mention.end - mention.start)
            chosen.append(mention)
    pieces, rest = [], len(text)
    for mention in sorted(chosen, key=lambda each: -each.start):
        pieces += [text[mention.end : rest], mention.original]
        rest = mention.start
    return "".join((text[:rest], *reversed(pieces)))
