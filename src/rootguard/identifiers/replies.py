"""Where the tokens of one conversation stand in a text, in whatever form, and what was meant.

Numbers, days and addresses are found by their sequences (`forms`), names by their words. A word of
a name counts in any letter case, with a possessive or a plural "s", within an address or the name
of a file, with initials. It is somebody else's where a capitalised word stands beside it that the
conversation never mentioned ("Anna Ostrander", "the Patel Museum"), an author's in a citation, and
another word where letters go on ("Annaburg").

Every decision looks a bounded way to both sides. `_Unsettled` says that the text breaks off before
the decision, so that a stream waits; a whole text and its pieces are restored alike.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NoReturn, SupportsIndex

from rootguard.errors import IdentifierError
from rootguard.identifiers.finding import closes, is_settled, opens
from rootguard.identifiers.formats import Kind
from rootguard.identifiers.forms import Sequences, TokenForm, forms_of, lower, styled
from rootguard.identifiers.names import BESIDE, PARTICLES, SUFFIXES, TITLES, Role

_CONTEXT = 128
"""Characters to the left that a decision may look at: three words, their gaps and a mark."""
_LONGEST = 30
"""Letters; a longer word is no name, and no neighbour."""
_LATIN = "A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0300-\u036f\u1e00-\u1eff"
# Escapes first: the "n" of "\nAnna" in a JSON text is none of the name's letters.
_RUN = re.compile(rf"\\[nrtbf]|\\u[0-9A-Fa-f]{{4}}|%[0-9A-Fa-f]{{2}}|([{_LATIN}]+)")
_ESCAPED = re.compile(r"(?:\\[nrtbf]|\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2})\Z")
_BESIDE_GAPS = (" ", "\u00a0", "-")
_PAIR_GAPS = (*_BESIDE_GAPS, ", ", ",", ".", "_", "+", "/", "\n", "  ", "%20")
_INITIAL_GAPS = (". ", ".", ".\u00a0", ".-", " ", "\u00a0", "-")
_OPENING = re.compile(r"(?:\A|[.!?:;\n\r])[\s\"'\u201c\u201d\u2018(*_#>\[\-\u2022]*\Z")
_OPENING_REACH = 8
_YEAR_NEXT = re.compile(r"(?:,?\s+|-|/|\.\s?)(?:(?:of|de|del)\s+)?[0-9]{4}(?![0-9])")
_YEAR_BEGUN = re.compile(r"(?:,?\s*|-|/|\.\s?)(?:o|of|d|de|del)?\s*[0-9]{0,4}")
_YEAR_REACH = 12
_CITED = re.compile(r" et al| \([0-9]{4}")
_CITED_BEGUN = re.compile(r" (?:e|et|et |et a|\([0-9]{0,3})?")
_MOST_INITIALS = 4
_HARMLESS = BESIDE | TITLES | SUFFIXES | PARTICLES


class _Unsettled(Exception):  # noqa: N818 - no error: a stream waits for more text
    """The text breaks off before it can be decided."""


@dataclass(frozen=True, slots=True, repr=False)
class NameWord:
    """A token that stands for one word of a name, and that word's place in a name."""

    token: str
    role: Role


@dataclass(frozen=True, slots=True, repr=False)
class TokenFind:
    """A stretch of a text where a token stands, and how to make out what was meant."""

    start: int
    end: int
    meant: Callable[[], str | None]


_Run = tuple[int, int, str]


@dataclass(frozen=True, slots=True, repr=False)
class _Said:
    """What a run of letters is made of, the first word perhaps as an initial only.

    Behind the words there may be the "s" of a plural or a genitive.
    """

    words: tuple[NameWord, ...]
    initial: bool = False
    tail: int = 0

    @property
    def token(self) -> str:
        first, *others = (word.token for word in self.words)
        return (first[:1] if self.initial else first) + "".join(others)


class TokenForms:
    """What was issued in one conversation, to find it again. Tokens only; originals are asked for.

    `original` gives the identifier behind an issued token; `known` says whether a word in lower
    case stands in the conversation. Not safe for threads: whoever uses it has a lock.
    """

    __slots__ = (
        "_heads",
        "_known",
        "_letters",
        "_original",
        "_said",
        "initials",
        "partners",
        "retired",
        "sequences",
        "words",
    )

    def __init__(
        self, original: Callable[[Kind, str], str | None], known: Callable[[str], bool]
    ) -> None:
        self._original = original
        self._known = known
        self._said: dict[str, _Said] = {}
        self._heads: set[str] = set()
        self._letters: set[str] = set()
        self.sequences = Sequences()
        self.words: dict[str, NameWord] = {}
        self.retired: set[str] = set()
        self.initials: dict[str, set[str]] = {}
        self.partners: dict[str, set[str]] = {}

    def add(self, kind: Kind, token: str) -> None:
        """Take up a token that is no name."""
        for sequence, form, gaps in forms_of(kind, token):
            self.sequences.add(sequence, form, gaps)

    def add_word(self, token: str, role: Role) -> None:
        """Take up a word of a name."""
        key = token.lower()
        word = self.words.setdefault(key, NameWord(token, role))
        self._said[key] = _Said((word,))
        self._said.setdefault(key + "s", _Said((word,), tail=1))
        self._letters.add(token[0].upper())
        self._add_heads(key)

    def add_initial(self, letter: str, beside: Iterable[str]) -> None:
        """Take up an initial that was replaced in a name of these words; of none: of any name."""
        keys = {token.lower() for token in beside}
        if letter not in self.initials:
            self.initials[letter] = keys
        elif self.initials[letter] and keys:
            self.initials[letter] |= keys
        else:
            self.initials[letter] = set()
        self._letters.add(letter)

    def was_replaced(self, letter: str, word: NameWord) -> bool:
        """Whether an initial was replaced in a name with this word."""
        keys = self.initials.get(letter)
        return keys is not None and (not keys or word.token.lower() in keys)

    def pair(self, given: str, surname: str) -> None:
        """These words are one person's: "AnnaPatel", "patelanna" and "apatel" mean them too."""
        one, other = self.words[given.lower()], self.words[surname.lower()]
        self.partners.setdefault(given.lower(), set()).add(surname.lower())
        self.partners.setdefault(surname.lower(), set()).add(given.lower())
        for said in (_Said((one, other)), _Said((other, one)), _Said((one, other), initial=True)):
            key = said.token.lower()
            self._said.setdefault(key, said)
            self._add_heads(key)

    def _add_heads(self, key: str) -> None:
        self._heads.update(key[:length] for length in range(1, len(key) + 1))

    def finds(
        self, text: str, first: int = 0, *, last: bool = True, anywhere: bool = False
    ) -> tuple[list[TokenFind], int]:
        """What stands in the text from `first` on, in order, and from where on that may change.

        `anywhere`: also where a word of a name is more likely somebody else's.
        """
        found: list[TokenFind] = []
        open_from = len(text)
        for start in self.sequences.starts(text, first):
            try:
                found += self._spelled(text, start, last=last)
            except _Unsettled:
                open_from = start
                break
        if self.words and (windows := self._windows(text) if last else [(0, len(text))]):
            reading = _NameReading(self, text, windows, last=last, anywhere=anywhere)
            open_from = min(open_from, reading.read(first, found))
        chosen: list[TokenFind] = []
        for each in sorted(found, key=lambda each: (each.start, -each.end)):
            if each.start >= open_from:
                break
            if not chosen or each.start >= chosen[-1].end:
                chosen.append(each)
        if chosen and chosen[-1].end > open_from:
            open_from = chosen.pop().start
        return chosen, open_from

    def unpaired(self, text: str) -> set[str]:
        """Issued words that stand in a text without another word of a name beside them."""
        windows = self._windows(text)
        return set(_NameReading(self, text, windows, last=True, anywhere=True).unpaired())

    def _windows(self, text: str) -> list[tuple[int, int]]:
        """The parts of a whole text that words of names stand in, with what decides about them."""
        folded = "".join(map(lower, text)) if not text.isascii() else text.lower()
        places = sorted(place for word in self.words for place in _places(folded, word))
        windows: list[tuple[int, int]] = []
        for place in places:
            start, end = max(place - 2 * _CONTEXT, 0), min(place + 2 * _CONTEXT, len(text))
            if windows and start <= windows[-1][1]:
                windows[-1] = windows[-1][0], end
            else:
                windows.append((start, end))
        return windows

    def _spelled(self, text: str, start: int, *, last: bool) -> list[TokenFind]:
        ends, broken_off = self.sequences.walk(text, start)
        if broken_off and not last:
            raise _Unsettled
        for end, form in reversed(ends):
            if _stands(text, start, end, form, last=last):
                meant = partial(self._rewritten, form, text[start:end])
                return [TokenFind(start, end, meant)]
        return []

    def _rewritten(self, form: TokenForm, written: str) -> str | None:
        original = self._original(form.kind, form.token)
        return None if original is None else form.rewrite(written, original)

    def said(self, run: str) -> _Said | None:
        """What a run of letters says, if it is made of issued words."""
        return self._said.get(run.lower())

    def meaning(self, run: str, said: _Said) -> str | None:
        """The original of a run of letters, in its letter case."""
        parts = [self._original("person", word.token) for word in said.words]
        whole = [part for part in parts if part is not None]
        if len(whole) < len(parts):
            return None
        if said.initial:
            whole[0] = whole[0][:1]
        body, tail = run[: len(run) - said.tail], run[len(run) - said.tail :]
        if len(whole) > 1 and body == body.capitalize():  # "Apatel", "Annapatel"
            return "".join(whole).capitalize() + tail
        return styled(body, said.token, "".join(whole)) + tail

    def begins(self, key: str) -> bool:
        """Whether a run that the text breaks off may become an issued word."""
        return key in self._heads or key[:-1] in self.words

    def may_be_initial(self, letter: str) -> bool:
        """Whether a letter may stand for a word of an issued name."""
        return letter in self._letters

    def known(self, word: str) -> bool:
        """Whether the conversation has this word, or any has."""
        return word in _HARMLESS or self._known(word)

    def initial(self, letter: str, beside: NameWord) -> str | None:
        """The first letter of a partner of this word, if its token begins with the letter."""
        for key in sorted(self.partners.get(beside.token.lower(), ())):
            if key[0].upper() == letter:
                original = self._original("person", self.words[key].token)
                return None if original is None else original[:1].upper()
        return None

    def replaced_initial(self, letter: str) -> str | None:
        """The initial behind a replaced one."""
        return self._original("person", letter)


def _places(text: str, word: str) -> Iterator[int]:
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + 1)


def _stands(text: str, start: int, end: int, form: TokenForm, *, last: bool) -> bool:
    """Whether a form that is spelled here is all that is written here."""
    if form.edge == "alone":
        if not last and not is_settled(text, end):
            raise _Unsettled
        begun = opens(text, start) or _ESCAPED.search(text, max(start - 6, 0), start) is not None
        return begun and closes(text, start, end)
    after = text[end : end + 1]
    if not after:
        if not last:
            raise _Unsettled
        return True
    if text[end - 1].isdigit() and form.edge == "loose":
        return not after.isdigit()
    if after.isdigit() or re.match(f"[{_LATIN}]", after) is not None:
        return False
    if form.edge == "loose":
        return True
    ahead = text[end : end + _YEAR_REACH]
    if not last and len(ahead) < _YEAR_REACH and _YEAR_BEGUN.fullmatch(ahead):
        raise _Unsettled
    return _YEAR_NEXT.match(text, end) is None


class _NameReading:
    """One text, read for the names of one conversation."""

    __slots__ = ("_anywhere", "_forms", "_last", "_runs", "_text")

    def __init__(
        self,
        forms: TokenForms,
        text: str,
        windows: list[tuple[int, int]],
        *,
        last: bool,
        anywhere: bool,
    ) -> None:
        self._forms = forms
        self._text = text
        self._last = last
        self._anywhere = anywhere
        self._runs: list[_Run] = [
            (*match.span(), match[0])
            for start, end in windows
            for match in _RUN.finditer(text, start, end)
            if match[1] is not None
        ]

    def read(self, first: int, found: list[TokenFind]) -> int:
        """Add what is found from `first` on; give from where on that may change."""
        for i, (start, end, run) in enumerate(self._runs):
            said = self._forms.said(run)
            if start < first or (said is None and len(run) > 1 and end < len(self._text)):
                continue
            try:
                self._settle(i)
                if said is not None:
                    if self._counts(i, said):
                        meant = partial(self._forms.meaning, run, said)
                        found.append(TokenFind(start, end, meant))
                elif len(run) == 1 and run.isupper() and self._forms.may_be_initial(run):
                    letter = self._initial(i)
                    if letter is not None:
                        found.append(TokenFind(start, end, letter))
            except _Unsettled:
                return start
        return len(self._text)

    def unpaired(self) -> Iterator[str]:
        """Issued words without another word of a name beside them."""
        for i, (_, _, run) in enumerate(self._runs):
            said = self._forms.said(run)
            alone = not self._paired_before(i) and not self._paired_after(i)
            if said is not None and len(said.words) == 1 and alone:
                yield said.words[0].token.lower()

    def _settle(self, i: int) -> None:
        """Wait for the rest of a run that may become an issued word."""
        _, end, run = self._runs[i]
        broken_off = not self._last and end == len(self._text)
        if broken_off and (self._forms.begins(run.lower()) or self._forms.may_be_initial(run)):
            raise _Unsettled

    def _counts(self, i: int, said: _Said) -> bool:
        if self._anywhere:
            return not any(word.token.lower() in self._forms.retired for word in said.words)
        if len(said.words) > 1 or self._paired_before(i):
            return True
        if self._blocked_before(i, said.words[0]):
            return self._paired_after(i)
        # A genitive "s" makes of the next word what is the person's: "Annas Werte".
        return bool(said.tail) or self._paired_after(i) or not self._blocked_after(i)

    # To the left all is there.

    def _gap(self, i: int) -> str:
        """What stands between a run and the next."""
        return self._text[self._runs[i][1] : self._runs[i + 1][0]]

    def _is_word(self, i: int) -> bool:
        return self._forms.said(self._runs[i][2]) is not None

    def _paired_before(self, i: int) -> bool:
        """Whether another word of a name stands before, perhaps with initials between."""
        for j in range(i - 1, max(i - 2 - _MOST_INITIALS, -1), -1):
            initial = len(self._runs[j][2]) == 1
            if self._gap(j) not in ((*_PAIR_GAPS, *_INITIAL_GAPS) if initial else _PAIR_GAPS):
                return False
            if not initial:
                return self._is_word(j)
        return False

    def _blocked_before(self, i: int, word: NameWord) -> bool:
        start, _, run = self._runs[i]
        if self._text[max(start - 1, 0) : start].isdigit() and not _ESCAPED.search(
            self._text, max(start - 6, 0), start
        ):
            return True
        if i == 0:
            return False
        gap, other = self._gap(i - 1), self._runs[i - 1][2]
        if gap == "." and run.islower() and self._stray(other):
            return True
        if gap not in _BESIDE_GAPS or len(other) == 1 or not self._strange(i - 1, run):
            return False
        if i > 1 and self._gap(i - 2) in _BESIDE_GAPS and self._partners(i - 2, i):
            return False  # a middle name
        place = self._runs[i - 1][0]
        # A sentence may begin with any word: "Remind Anna". Before a surname it is rather a name.
        opening = _OPENING.search(self._text, max(place - _OPENING_REACH, 0), place)
        return opening is None or gap == "-" or word.role == "surname"

    def _strange(self, i: int, run: str) -> bool:
        """Whether a capitalised word is one that the conversation has not mentioned."""
        start, _, other = self._runs[i]
        if not other[0].isupper() or len(other) > _LONGEST:
            return False
        if len(run) > 1 and run.isupper() and other.isupper():
            return False  # where all is in capitals they say nothing
        if self._forms.said(other) is not None or self._forms.known(other.lower()):
            return False
        ends, broken_off = self._forms.sequences.walk(self._text, start)
        if broken_off and not self._last:
            raise _Unsettled
        return not ends  # else it is a token of another kind

    def _stray(self, other: str) -> bool:
        """Whether what a full stop ties to a word in lower case is no part of the conversation."""
        return (
            other[0].islower()
            and self._forms.said(other) is None
            and not self._forms.known(other.lower())
        )

    def _partners(self, i: int, j: int) -> bool:
        one, other = (self._forms.said(self._runs[k][2]) for k in (i, j))
        if one is None or other is None:
            return False
        partners = self._forms.partners.get(one.words[0].token.lower(), set())
        return other.words[0].token.lower() in partners

    # To the right the text may break off.

    def _after(self, i: int, gaps: tuple[str, ...]) -> tuple[str, int] | None:
        """The next run, if one of these gaps is before it; waits until it is whole."""
        rest = self._runs[i][1]
        if i + 1 == len(self._runs):
            tail = self._text[rest:]
            if not self._last and any(gap.startswith(tail) for gap in gaps):
                raise _Unsettled
            return None
        gap = self._gap(i)
        if gap not in gaps:
            return None
        if not self._last and self._runs[i + 1][1] == len(self._text):
            raise _Unsettled
        return gap, i + 1

    def _paired_after(self, i: int) -> bool:
        here = i
        for _ in range(_MOST_INITIALS + 1):
            gaps = _PAIR_GAPS if len(self._runs[here][2]) > 1 else (*_PAIR_GAPS, *_INITIAL_GAPS)
            following = self._after(here, gaps)
            if following is None:
                return False
            here = following[1]
            if self._is_word(here):
                return True
            if len(self._runs[here][2]) != 1:
                return False
        return False

    def _blocked_after(self, i: int) -> bool:
        _, end, run = self._runs[i]
        after = self._text[end : end + 1]
        if not after:
            if not self._last:
                raise _Unsettled
            return False
        if after.isdigit() or after == "@" or self._cited(end):
            return True
        following = self._after(i, (*_BESIDE_GAPS, "."))
        if following is None:
            return False
        gap, j = following
        if gap == ".":
            return run.islower() and self._stray(self._runs[j][2])
        if len(self._runs[j][2]) == 1:  # an initial: the word behind it decides
            following = self._after(j, _INITIAL_GAPS) if self._runs[j][2].isupper() else None
            if following is None or not self._followed_by_dot(j):
                return False
            j = following[1]
        if not self._strange(j, run):
            return False
        middle = self._after(j, _BESIDE_GAPS)
        return middle is None or not self._partners(i, middle[1])

    def _cited(self, end: int) -> bool:
        """Whether a word is the author of a citation: "Patel et al.", "Patel (2019)"."""
        ahead = self._text[end : end + len(" et al")]
        if not self._last and len(ahead) < len(" et al") and _CITED_BEGUN.fullmatch(ahead):
            raise _Unsettled
        return _CITED.match(ahead) is not None

    def _followed_by_dot(self, i: int) -> bool:
        return self._text[self._runs[i][1] : self._runs[i][1] + 1] == "."

    # Initials

    def _initial(self, i: int) -> Callable[[], str | None] | None:
        """What an initial beside a name that counts stands for."""
        _, end, letter = self._runs[i]
        right = self._name_after(i)
        left = self._name_before(i)
        if not self._last and end == len(self._text):
            raise _Unsettled
        if not self._followed_by_dot(i) and (left is None or right is None):
            return None
        beside = [word for word in (left, right) if word is not None]
        if len(beside) == 2:
            replaced = any(self._forms.was_replaced(letter, word) for word in beside)
            return partial(self._forms.replaced_initial, letter) if replaced else None
        for word in beside:
            if any(
                key[0].upper() == letter for key in self._forms.partners.get(word.token.lower(), ())
            ):
                return partial(self._forms.initial, letter, word)
            if self._forms.was_replaced(letter, word):
                return partial(self._forms.replaced_initial, letter)
        return None

    def _name_after(self, i: int) -> NameWord | None:
        for _ in range(_MOST_INITIALS):
            following = self._after(i, _INITIAL_GAPS)
            if following is None:
                return None
            i = following[1]
            run = self._runs[i][2]
            said = self._forms.said(run)
            if said is not None:
                return said.words[0] if self._counts(i, said) else None
            if len(run) != 1:
                return None
        return None

    def _name_before(self, i: int) -> NameWord | None:
        for j in range(i - 1, max(i - 1 - _MOST_INITIALS, -1), -1):
            run = self._runs[j][2]
            if self._gap(j) not in ((*_INITIAL_GAPS, ", ") if j == i - 1 else _INITIAL_GAPS):
                return None
            said = self._forms.said(run)
            if said is not None:
                tied = self._gap(j)[:1] != "."  # "Anna. P. S." is another sentence
                return said.words[-1] if tied and self._counts(j, said) else None
            if len(run) != 1:
                return None
        return None


class ReplyStream:
    """Restores a text that arrives in pieces; made by a conversation. For one thread at a time.

    The pieces join to what restoring the whole text gives. Text is held back only while it may be
    part of something that is restored.
    """

    __slots__ = ("_before", "_closed", "_pending", "_restored")

    def __init__(self, restored: "Restored") -> None:
        self._restored = restored
        self._before = ""  # the last characters that are out, as they came
        self._pending = ""
        self._closed = False

    def feed(self, piece: str) -> str:
        """Take the next piece of the text; give what can be shown now, restored."""
        if self._closed:
            raise IdentifierError("this text was closed; a new one needs a new stream")
        return self._advance(piece, last=False)

    def close(self) -> str:
        """The text has ended: give the rest, restored."""
        shown = self._advance("", last=True)
        self._closed = True
        return shown

    @property
    def held(self) -> int:
        """How many characters are held back now."""
        return len(self._pending)

    def _advance(self, piece: str, *, last: bool) -> str:
        text = self._before + self._pending + piece
        first = len(self._before)
        shown, cut = self._restored(text, first, last)
        self._before, self._pending = text[max(cut - _CONTEXT, 0) : cut], text[cut:]
        return shown

    def __repr__(self) -> str:
        return f"<stream that holds {self.held} characters back>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a stream holds identifiers and cannot be pickled or copied")


Restored = Callable[[str, int, bool], tuple[str, int]]
"""From a text, where to begin and whether it has ended: what is restored, and up to where."""
