"""Restoring tokens in a text that arrives in pieces, such as a model's reply.

The pieces that come out join to what `Identifiers.restore_text` makes of the whole text, however it
was cut. Text is held back only while it may be part of something that is restored: a token that
has begun, a name whose next word is not there yet, an initial whose name may follow. The law
rests on `finding`: every decision there looks a bounded way to both sides.

Pieces are text. Whoever receives bytes decodes them first, with an incremental decoder.
"""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass

from rootguard.identifiers.formats import PARTICLES, SUFFIXES, TITLES
from rootguard.identifiers.registry import (
    INITIAL,
    INITIALS,
    TIED_WORDS,
    TIES,
    Beginnings,
    TokenIndex,
    TokenMention,
    initials_beside,
    is_settled,
    name_chunks,
    opens,
)
from rootguard.identifiers.replies import PieceRestorer

_CONTEXT = 2
"""How far `opens`, `closes` and initials look to the left."""
_KEPT = Beginnings(TITLES | SUFFIXES | PARTICLES)
_TIE = re.compile(f"[{TIES}]")


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Lookup:
    """What a stream asks the identifiers it restores; all of it with the lock held."""

    lock: threading.RLock
    index: Callable[[], TokenIndex]
    token: Callable[[str], str | None]
    name: Callable[[str], str | None]
    initial: Callable[[str], str | None]


class StreamRestorer(PieceRestorer):
    """Restores a text by all that was ever issued to a person; made by `Identifiers.stream`."""

    __slots__ = ("_ends", "_lookup")

    def __init__(self, lookup: Lookup) -> None:
        super().__init__()
        self._lookup = lookup
        self._ends: dict[int, int] = {}  # of names that are out, from the start of `_before`

    @property
    def longest_hold(self) -> int:
        """The most characters that can be held back with the tokens issued so far.

        The longest token and the character after it; the longest name with its initials. More only
        if issued tokens can overlap, as "12 34" and "34 567": a token waits for a longer one.
        """
        with self._lookup.lock:
            index = self._lookup.index()
            chain, through_names = _longest_chain(index.tokens)
            name = 0
            if index.words.longest:
                word = max(index.words.longest, _KEPT.longest)
                name = TIED_WORDS * (word + 1) + INITIALS * len("K. ")
        return (chain + name) * (1 + through_names)

    def _advance(self, piece: str, *, last: bool) -> str:
        if not (last or self._pending) and self._before[-1:].isalnum() and piece.isalnum():
            # Nothing begins within a longer word or number.
            self._before, self._ends = (self._before + piece)[-_CONTEXT:], {}
            return piece
        text = self._before + self._pending + piece
        first = len(self._before)
        ends = dict(self._ends)
        with self._lookup.lock:
            found, open_from, cut = self._look(text, first, ends, last=last)
        chosen, cut = _choose(found, len(text), open_from, cut) if found else ([], cut)
        shown = []
        place = first
        for mention in chosen:
            if mention.start < cut:
                shown += [text[place : mention.start], mention.original]
                place = mention.end
        shown.append(text[place:cut])
        kept = max(cut - _CONTEXT, 0)
        self._before, self._pending = text[kept:cut], text[cut:]
        self._ends = {end - kept: away for end, away in ends.items() if end >= cut - 1}
        return "".join(shown)

    def _look(
        self, text: str, first: int, ends: dict[int, int], *, last: bool
    ) -> tuple[list[TokenMention], int, int]:
        """What is certainly found; from where on something longer may begin; and anything at all.

        Names that end are added to `ends`.
        """
        index = self._lookup.index()
        found = []
        begun = [] if last else index.begun(text, first)
        for start, end in index.spans(text, first):
            if text[start:end] not in index.tokens:
                continue
            if not (last or is_settled(text, end)):
                begun.append(start)
            elif (original := self._lookup.token(text[start:end])) is not None:
                found.append(TokenMention(start, end, original))
        starts: dict[int, int] = {}
        ahead: dict[int, int] = {}
        for start, end in name_chunks(text, first) if index.words.longest else ():
            decided = last or is_settled(text, end)
            cut_short = not decided and end == len(text)
            if not _may_be_name(text[start:end], index.words, cut_short=cut_short):
                continue
            if not decided:
                begun.append(start)
                ahead[start] = 0
            elif (original := self._lookup.name(text[start:end])) is not None:
                found.append(TokenMention(start, end, original))
                starts[start] = ends[end] = 0
        open_from = min(begun, default=len(text))
        if INITIAL.search(text, first) is None:
            return found, open_from, open_from

        def initial(letter: str) -> str | None:
            return self._lookup.initial(letter) if letter in index.words else None

        def issued(letter: str) -> str | None:
            return letter if letter in index.words else None

        certain = initials_beside(text, starts, ends, initial, first)
        found += certain
        if last:
            return found, open_from, open_from
        # What would be an initial if a full stop or a name came next, and is none without, waits.
        ahead |= starts | {len(text): 0, len(text) + 1: 0}
        hoped = initials_beside(text + ".", ahead, dict(ends), issued, first)
        waiting = {mention.start for mention in hoped} - {mention.start for mention in certain}
        return found, open_from, min(waiting | {open_from})


def _choose(
    found: list[TokenMention], length: int, open_from: int, cut: int
) -> tuple[list[TokenMention], int]:
    """The mentions that are certainly replaced, in order, and up to where all is certain.

    As `registry.replace`: longest first, then leftmost. One that reaches to where something longer
    may begin is in doubt, and so is what overlaps it and comes after it in that order.
    """
    chosen: list[TokenMention] = []
    taken, doubted = bytearray(length), bytearray(length)
    for mention in sorted(found, key=lambda each: (each.start - each.end, each.start)):
        stretch = slice(mention.start, mention.end)
        if any(taken[stretch]):
            continue
        if mention.end > open_from or any(doubted[stretch]):
            doubted[stretch] = b"\x01" * (mention.end - mention.start)
            cut = min(cut, mention.start)
        else:
            taken[stretch] = b"\x01" * (mention.end - mention.start)
            chosen.append(mention)
    chosen.sort(key=lambda each: each.start)
    cut = next((each.start for each in chosen if each.start < cut < each.end), cut)
    return chosen, cut


def _may_be_name(chunk: str, words: Beginnings, *, cut_short: bool) -> bool:
    """Whether all its words are issued or kept; if cut short, the last one may be yet."""
    *whole, tail = _TIE.split(chunk)
    if not cut_short:
        whole.append(tail)
    elif len(tail) > 1 and not any(words.starting(tail)) and not any(_KEPT.starting(tail.lower())):
        return False
    return all(len(run) == 1 or run in words or run.lower() in _KEPT for run in whole)


def _longest_chain(tokens: Beginnings) -> tuple[int, int]:
    """The longest stretch in which tokens, and the character after them, overlap one another.

    Each waits for a longer one that begins within it. Also: how often a name may come between two,
    which takes a token that begins with a tie, the only place within a name to begin.
    """
    reach: dict[str, int] = {}
    for token in sorted(tokens, key=len, reverse=True):
        furthest = len(token) + 1
        for place in range(1, len(token)):
            for other in tokens.starting(token[place:]) if opens(token, place) else ():
                longer = len(other) > len(token)
                furthest = max(furthest, place + (reach[other] if longer else len(other) + 1))
        reach[token] = furthest
    between = {len(token) for token in tokens if token[0] in TIES}
    return max(reach.values(), default=0), len(between)
