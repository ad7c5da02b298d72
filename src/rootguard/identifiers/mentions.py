"""Finding issued tokens in a text: where they stand, and that they stand alone.

A token inside something longer is something else: "4415" in "4415-8820", "Lopez" in "Lopezia".
Matches are taken longest first, without overlap. Finding says only where to look; whether a match
is restored is decided by opening its registry entry.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rootguard.identifiers.names import APOSTROPHES, is_letter
from rootguard.identifiers.registry import IssuedToken

_ALWAYS_JOIN = "-._@" + APOSTROPHES
_DIGITS_JOIN = "/:"
_INITIAL = re.compile(r"(?<![^\W_])[A-Z](?![^\W_])")


@dataclass(frozen=True, slots=True, repr=False)
class Mention:
    """A stretch of text and what to put there."""

    start: int
    end: int
    original: str


class TokenIndex:
    """Issued tokens by their first two characters, to look only where one can begin."""

    __slots__ = ("_lengths", "size")

    def __init__(self, entries: Iterable[IssuedToken] = ()) -> None:
        self._lengths: dict[str, set[int]] = {}
        self.size = 0
        for entry in entries:
            self.add(entry)

    def add(self, entry: IssuedToken) -> None:
        """Take up an entry; names are found by their words instead."""
        self.size += 1
        if entry.kind != "person":
            self._lengths.setdefault(entry.token[:2], set()).add(len(entry.token))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Stretches that are as long as a token beginning with the same characters."""
        found = []
        for start in range(len(text)):
            if not opens(text, start):
                continue
            for head in {text[start : start + 1], text[start : start + 2]}:
                for length in self._lengths.get(head, ()):
                    end = start + length
                    if end <= len(text) and closes(text, start, end):
                        found.append((start, end))
        return found


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


def _joins(character: str) -> bool:
    return character.isalnum() or is_letter(character)


def _tied(left: str, mark: str, right: str) -> bool:
    """Whether a mark ties what stands on both sides into one number or word."""
    if mark in _ALWAYS_JOIN:
        return _joins(left) and _joins(right)
    return mark in _DIGITS_JOIN and left.isdigit() and right.isdigit()


def name_chunks(text: str) -> list[tuple[int, int]]:
    """Words, with what hyphens and apostrophes tie to them, that stand alone."""
    chunks = []
    start = 0
    while start < len(text):
        if not is_letter(text[start]):
            start += 1
            continue
        end = start + 1
        while end < len(text) and (
            is_letter(text[end])
            or (text[end] in "-" + APOSTROPHES and end + 1 < len(text) and is_letter(text[end + 1]))
        ):
            end += 1
        if opens(text, start) and closes(text, start, end):
            chunks.append((start, end))
        start = end
    return chunks


def initials_beside(
    text: str, names: Iterable[Mention], restore: Callable[[str], str | None]
) -> list[Mention]:
    """Initials that belong to a restored name: "K." beside one, or "K" between two.

    A lone capital letter elsewhere ("Plan K", "I", "A") is ordinary text.
    """
    names = tuple(names)
    starts, ends = {name.start for name in names}, {name.end for name in names}
    letters = [match.start() for match in _INITIAL.finditer(text)]
    chosen: dict[int, Mention] = {}
    for order in (reversed(letters), letters):
        for start in order:
            dotted = text[start + 1 : start + 2] == "."
            end = start + 1 + dotted
            right = end + (text[end : end + 1] in {" ", "-"}) in starts
            left = start - (text[start - 1 : start] in {" ", "-"}) in ends
            if not ((left or right) if dotted else (left and right)):
                continue
            original = restore(text[start])
            if original is not None:
                chosen[start] = Mention(start, start + 1, original)
                starts.add(start)
                ends.add(end)
    return list(chosen.values())


def replace(text: str, mentions: Iterable[Mention]) -> str:
    """The text with its mentions replaced: longest first, no overlap, from the end backwards."""
    taken = bytearray(len(text))
    chosen = []
    for mention in sorted(mentions, key=lambda each: (each.start - each.end, each.start)):
        if not any(taken[mention.start : mention.end]):
            taken[mention.start : mention.end] = b"\x01" * (mention.end - mention.start)
            chosen.append(mention)
    for mention in sorted(chosen, key=lambda each: -each.start):
        text = text[: mention.start] + mention.original + text[mention.end :]
    return text
