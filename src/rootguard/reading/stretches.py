"""From where to where a statement about one fact reaches.

A yes or no can be said in more ways than any list has, but it is said in one stretch of a sentence:
"I'd be lying if I called myself a smoker", "the clinic ruled out diabetes in May". Here is where
that stretch begins and ends, by marks and small words alone: commas that part thoughts and those
that part the items of a list, "and" before a new subject, a request that only quotes it. Whose the
fact is, and what is written in its place, is decided by `answers`. The lists are in `answers.toml`.
"""

import functools
import operator
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rootguard.language.lists import either, read_lists, whole

_MARKS: Final = ".!?…;\n。！？；"
_WORD: Final = re.compile(r"[^\W_]+(?:['’/][^\W_]+)*")
_BREAK: Final = re.compile(r"[,:()\[\]{}|\t\"“”]|(?<=\s)[-–—]+(?=\s)|—")
_OPENING: Final = re.compile(r"\s*(?:[-*•>]\s+|\d{1,2}[.)]\s+)?")
_BULLET: Final = re.compile(r"\s*(?:[-*•>]\s+)?[*_`']*")
_BRACKET: Final = re.compile(r"[ ]?\([^()\n]{1,40}\)")
_NO_ENDS: Final = re.compile(r"(?<![^\W_])no\.(?= +[^\d\s])")
_I: Final = whole(r"i|ich|je|yo|io|eu")
_JOINED: Final = r"(?<![^\W_]){} \Z"
_SAYS: Final = r"(?<![^\W_]){} (?P<i>i(?:['’](?:m|ve|d))?) "
_HEADING: Final = re.compile(r"\s*#{1,6}\s")
_COMMENT: Final = 7  # words of one
_LONGEST: Final = 800  # characters of a sentence; what is longer is cut at a blank
_COMMENTS: Final = 3  # pieces of a sentence in a row that may only comment on what was said


@dataclass(frozen=True, slots=True)
class Stretch:
    """Where a statement stands; `joined` if an "and" or "but" before it goes with it."""

    start: int
    end: int
    joined: bool = False
    under: bool = False
    """Whether a "since" or "when" stands before it."""


@functools.cache
def _lists() -> Mapping[str, Any]:
    lists: Mapping[str, Any] = read_lists("rootguard.reading", "answers.toml")["statement"]
    return lists


@functools.cache
def word_list(name: str) -> frozenset[str]:
    """The words of one list about statements."""
    return frozenset(_lists()[name])


@functools.cache
def listed(form: str, *names: str) -> re.Pattern[str]:
    """A pattern with any word of these lists in the place of `{}`."""
    words = either(word for name in names for word in word_list(name))
    return re.compile(form.replace("{}", f"(?:{words})"))


@functools.cache
def small_words() -> frozenset[str]:
    """Words that say nothing but how or how much something is so."""
    names = ("own", "no", "unsure", "fill", "verbs", "amounts")
    phrases = (word for name in ("tail", "comment", "mood") for word in _lists()[name])
    return frozenset().union(*map(word_list, names), *(phrase.split() for phrase in phrases))


@functools.cache
def _joints() -> re.Pattern[str]:
    """A word that joins two thoughts, before what begins the second."""
    both, under = either(word_list("joining")), either(word_list("subordinate"))
    body = either(word_list("own") | word_list("begins"))
    return re.compile(
        rf"(?<![^\W_])(?:(?P<both>{both})|(?P<under>{under})) (?=(?:{body})(?![^\W_]))"
    )


@functools.cache
def _own_word() -> re.Pattern[str]:
    return whole(either(word_list("own")))


def words_in(text: str, start: int, end: int) -> list[str]:
    """The words between two places."""
    return [word.replace("’", "'") for word in _WORD.findall(text, start, end)]


class Stretches:
    """The sentences of a plain text, and the stretches of statements in them."""

    __slots__ = ("_cut", "_stops", "_text")

    def __init__(self, text: str, ends: Sequence[int]) -> None:
        """`ends` are the ends of its clauses, of which those at a mark end a sentence."""
        self._text = text
        self._cut = (0, -1), list[Stretch]()
        self._stops: list[int] = []
        begin = 0
        stops = [end - 1 for end in ends if end and text[end - 1] in _MARKS]
        if "no. " in text:  # an answer, where no number follows
            stops = sorted({*stops, *(mark.end() - 1 for mark in _NO_ENDS.finditer(text))})
        for stop in [*stops, len(text)]:
            while stop - begin > _LONGEST:  # looked at whole for each name in it: cost stays linear
                begin = max(text.rfind(" ", begin, begin + _LONGEST), begin + 1)
                self._stops.append(begin)
            self._stops.append(stop)
            begin = stop

    def sentence(self, at: int) -> tuple[int, int]:
        """The sentence or line that a place stands in, without the mark that ends it."""
        text = self._text
        place = bisect_left(self._stops, at)
        start = self._stops[place - 1] + 1 if place else 0
        end = self._stops[place] if place < len(self._stops) else len(text)
        while end > start and text[end - 1] in _MARKS:
            end -= 1
        return start, end

    def mark(self, at: int) -> str:
        """What ends the sentence at a place: a mark, or nothing."""
        _, end = self.sentence(at)
        return self._text[end : end + 1]

    def opening(self, start: int, end: int) -> str:
        """The first word of a stretch."""
        gap = _OPENING.match(self._text, start, end)
        word = _WORD.search(self._text, start if gap is None else gap.end(), end)
        return "" if word is None else word[0].replace("’", "'")

    def heading(self, at: int) -> bool:
        """Whether a place stands in a heading."""
        return _HEADING.match(self._text, self.sentence(at)[0]) is not None

    def around(self, start: int, end: int) -> Stretch | None:
        """The stretch of what is said by a name at this place; None if only its words tell it.

        That is so in questions ("can I eat figs with diabetes?") and in requests that do not
        quote their owner ("write about diabetes").
        """
        text = self._text
        first, last = self.sentence(start)
        pieces = self._pieces(first, last)
        at = _place(pieces, start)
        piece = pieces[at]
        low, high, joined = piece.start, piece.end, piece.joined
        while high < end and at + 1 < len(pieces):  # a name with a mark within
            at += 1
            high = pieces[at].end
        opener = self.opening(low, high)
        asks = self.mark(start) == "?"
        told = opener in word_list("own")  # "which box is mine if I have never smoked?"
        if asks and ((high >= last and not told) or opener in word_list("asking") - {"am"}):
            return self._said_within(low, start, end, high)
        quoted = None
        if opener in word_list("requests"):
            quoted = _own_word().search(text, low, start)
            if quoted is None:
                return None
            low = quoted.start()
        elif not joined:
            low = self._back(pieces, at, low)
        if not quoted:
            low = self._commented(pieces, at, low)
        for behind in pieces[at + 1 : at + 1 + _COMMENTS]:
            small = text[behind.start - 1] == "," and self._only_small(behind)
            since = behind.under and text[high - 1] == " "
            empty = not text[behind.start : behind.end].strip()
            if not (small or since or empty or self._comments(behind)):
                break
            high = behind.end
        high = self._main_clause(low, start, end, high)
        joined = any(each.joined and each.start == low for each in pieces)
        low = self._past_bullet(low, start)
        bracket = _BRACKET.match(text, high, last)
        if bracket is not None:  # "diabetes (diet only)"
            high = bracket.end()
        while high > end and text[high - 1] in " \t\n*_`'":
            high -= 1
        return Stretch(low, high, joined)

    def _said_within(self, low: int, start: int, end: int, high: int) -> Stretch | None:
        """What a question says of whoever asks: "should I mention that I'm a smoker?"."""
        clauses = [*listed(_SAYS, "mentioning").finditer(self._text, low, start)]
        if not clauses:
            return None
        while high > end and self._text[high - 1] in " \t\n*_`'":
            high -= 1
        return Stretch(clauses[-1].start("i"), high)

    def _main_clause(self, low: int, start: int, end: int, high: int) -> int:
        """Where what is said of a fact ends before the main clause: "As a smoker I want to ..."."""
        before = words_in(self._text, low, start)
        finite = (
            word_list("verbs") - word_list("no") - word_list("without_verb") - {"being", "having"}
        )
        role = self.opening(low, high) in word_list("roles")
        if not role and not (finite | word_list("own") - {"my", "mein", "meine"}).isdisjoint(
            before
        ):
            return high
        own = _I.search(self._text, end, high)
        if own is not None and listed(_JOINED, "conjunctions").search(self._text, end, own.start()):
            return high  # "as far as I know"
        rest = [] if own is None else words_in(self._text, own.end(), high)
        return high if own is None or small_words().issuperset(rest) else own.start()

    def piece(self, at: int) -> Stretch:
        """The part of a sentence that a place stands in, between marks and new thoughts."""
        pieces = self._pieces(*self.sentence(at))
        return pieces[_place(pieces, at)]

    def pieces(self, at: int) -> Sequence[Stretch]:
        """All parts of the sentence that a place stands in."""
        return self._pieces(*self.sentence(at))

    def _past_bullet(self, low: int, high: int) -> int:
        """Where a stretch begins behind spaces and the mark of a list's item."""
        mark = _BULLET.match(self._text, low, high)
        return low if mark is None else mark.end()

    def asks(self, piece: Stretch) -> bool:
        """Whether a piece of a sentence asks something."""
        start = piece.start
        if piece.joined:  # "so is it worthwhile"
            start = self._text.find(" ", start) + 1
        return self.opening(start, piece.end) in word_list("asking") - {"any"}

    def whole(self, start: int, end: int) -> Stretch | None:
        """The whole sentence of a name; what stands before a colon stays: "Family history: ..."."""
        text = self._text
        low, high = self.sentence(start)
        if self.mark(start) == "?":
            asking = [p for p in self._pieces(low, high) if self.asks(p)]
            high = asking[0].start - 1 if asking else low
            if high < end:
                return None
        colon = text.rfind(":", low, start)
        if colon >= 0 and text.rfind("[", low, colon) <= text.rfind("]", low, colon):  # no answer's
            low = colon + 1
        low = self._past_bullet(low, start)
        if self.opening(low, high) in word_list("roles"):
            high = self._main_clause(low, start, end, high)
        while high > end and text[high - 1] in " \t\n*_`'":
            high -= 1
        return Stretch(low, high)

    def _pieces(self, first: int, last: int) -> list[Stretch]:
        """A sentence cut at its marks and where a new thought begins."""
        if self._cut[0] == (first, last):
            return self._cut[1]
        text = self._text
        cuts: list[tuple[int, int, bool, bool]] = []  # the end of one, the start of the next
        for mark in _BREAK.finditer(text, first, last):
            at = mark.start()
            within = text[at] == "," and text[at - 1 : at].isdigit() and text[at + 1 : at + 2]
            if not (within and within.isdigit()):
                cuts.append((at, mark.end(), False, False))
        for joint in _joints().finditer(text, first, last):
            if joint["both"] is not None:
                cuts.append((joint.start(), joint.start(), True, False))
            else:
                cuts.append((joint.start(), joint.end(), False, True))
        pieces, begin, joined, under = [], first, False, False
        for stop, start, both, below in sorted(cuts):
            if stop > begin:
                pieces.append(Stretch(begin, stop, joined, under))
            begin, joined, under = max(begin, start), both, below
        pieces.append(Stretch(begin, last, joined, under))
        self._cut = (first, last), pieces
        return pieces

    def _back(self, pieces: Sequence[Stretch], at: int, low: int) -> int:
        """Where a piece begins that needs those before it: an item of a list, or after "sadly,"."""
        text = self._text
        # Whether it says yes or no must not matter: "diabetic" goes as far back as "not diabetic".
        finite = word_list("verbs") - word_list("no") - word_list("without_verb")
        bare = finite.isdisjoint(words_in(text, low, pieces[at].end))
        for before in reversed(pieces[:at]):
            if text[before.end : before.end + 1] != ",":
                break
            words = words_in(text, before.start, before.end)
            moody = bool(words) and word_list("moods").issuperset(words)
            if moody:
                low = before.start
            elif not bare:
                break
            elif not (word_list("verbs") | word_list("own") | word_list("ours")).isdisjoint(words):
                return before.start  # "I don't have asthma, gout or diabetes"
        return low

    def _comments(self, piece: Stretch) -> bool:
        """Whether a piece says only how that came or what to think of it: "but I was wrong"."""
        words = words_in(self._text, piece.start, piece.end)
        if not words or len(words) > _COMMENT or any(word.isdigit() for word in words):
            return False
        if self.asks(piece) or self.mark(piece.start) == "?":
            return False
        rest = words[1:] if words[0] in word_list("joining") else words
        judged = not word_list("judging").isdisjoint(rest)
        if judged and all(word in small_words() | word_list("judging") for word in rest):
            return True
        return bool(rest) and rest[0] in word_list("pointing") and len(rest) <= _COMMENT

    def _commented(self, pieces: Sequence[Stretch], at: int, low: int) -> int:
        """Where the pieces before one begin that only comment on it."""
        for before in reversed(pieces[max(0, at - _COMMENTS) : at]):
            if before.end > low or not self._comments(before):
                break
            low = before.start
        return low

    def _only_small(self, piece: Stretch) -> bool:
        words = words_in(self._text, piece.start, piece.end)
        # A number alone is an age or another value.
        return not all(map(str.isdigit, words)) and all(
            word in small_words() or word.isdigit() for word in words
        )


def _place(pieces: Sequence[Stretch], at: int) -> int:
    return max(0, bisect_left(pieces, at + 1, key=operator.attrgetter("start")) - 1)
