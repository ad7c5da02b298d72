"""Declared identifiers: their tokens, and where they stand in a text, however spelled there.

In a conversation the tokens are that conversation's (`PersonConversation`).

A name is looked for word by word; phone numbers, codes and dates by their letters and digits, with
whatever separators; e-mail addresses as they are, in any letter case. What is found is protected as
it is written there, so that restoring gives the text back to the character. Whatever is tied to a
find ("MRN4415-8820", "Jane.Then") is protected with it, because a token inside something longer
would not be restored. A name that stands in an e-mail address is protected as that address; in a
conversation, which restores names within other writings, it is otherwise only the name.

A spelling is a sequence of letters and digits with gaps between them: "+1 212 555 0147" is
"(212) 555-0147" and "2125550147"; "1980-03-14" is "14 March 1980". A text is reduced to its letters
and digits and searched for such sequences; a find counts if only separators stand in its gaps and
nothing goes on at its ends.
"""

import bisect
import hashlib
import hmac
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, compress, count, islice, pairwise

from rootguard.errors import IdentifierError, RootGuardError, StoreError, shielded
from rootguard.identifiers import ConversationTokens, Identifiers, Kind, kind_of
from rootguard.identifiers.conversation import Issuer
from rootguard.identifiers.formats import APOSTROPHES, MAX_LENGTH, is_letter, read_name, shape_of
from rootguard.identifiers.registry import closes, opens
from rootguard.session.session import Tokens
from rootguard.store import Snapshot, Store
from rootguard.values import Unserializable


@shielded
def issue_tokens(identifiers: object, key: bytes | None, store: Store, person: Snapshot) -> Tokens:
    """Tokens for identifiers. Refuses all of them where one cannot be protected, by name."""
    if not isinstance(identifiers, Mapping) or not all(isinstance(n, str) for n in identifiers):
        raise IdentifierError("give identifiers as a mapping of names to texts")
    issued: dict[str, str] = {}
    refused: list[str] = []
    try:
        if key is None:  # a key of the principal's own, so that nobody's tokens restore another's
            key = hmac.digest(store.identifier_key, person.name.encode(), hashlib.sha256)
        protector = Identifiers(key, issued=store.tokens(person.name, epoch=person.epoch))
        for text in identifiers.values():
            if isinstance(text, str):
                protector.avoid(text)
        for name, text in identifiers.items():
            try:
                kind = kind_of(text)
                issued[name] = protector.protect(kind, text)
                protector.declare(kind, text, issued[name])
            except StoreError:
                raise
            except Exception:  # noqa: BLE001 - its frames hold the identifier
                refused.append(name)
    except RootGuardError:
        raise
    except Exception:  # noqa: BLE001 - whatever a stranger's store raises, its frames saw them
        raise StoreError("the store could not keep identifiers; nothing was released") from None
    if refused:
        raise IdentifierError(f"these identifiers cannot be protected: {', '.join(refused)}")
    return Tokens(issued=issued, identifiers=protector)


@dataclass(frozen=True, slots=True, repr=False)
class Replacement:
    """A stretch of a text, and the token to put there."""

    start: int
    end: int
    text: str


class Declarations(Unserializable):
    """The declared identifiers of one person, sealed, and the search for them."""

    __slots__ = ("_found",)

    def __init__(self, texts: Iterable[str], identifiers: Identifiers) -> None:
        self._found = _finder(tuple(texts), identifiers)

    def find(self, text: str, tokens: ConversationTokens | None = None) -> list[Replacement]:
        """What to replace, without overlap and in order; with a conversation's tokens, if given."""
        return self._found(text, tokens)

    def __repr__(self) -> str:
        return "<declared identifiers>"


class PersonConversation(ConversationTokens):
    """One conversation of a person: its tokens, and the profile's identifiers with them.

    Made by `Person.conversation`; see `ConversationTokens` for the order of calls.
    """

    __slots__ = ("_declarations", "_released")

    def __init__(
        self,
        issuer: Issuer,
        declarations: Declarations,
        released: Iterable[str] = (),
        *,
        whole_registry: bool = False,
    ) -> None:
        super().__init__(issuer, whole_registry=whole_registry)
        self._declarations = declarations
        self._released = tuple(released)

    def apart_from(self, *texts: str) -> None:
        """As `ConversationTokens.apart_from`; the tokens of the profile are known where they stand.

        An agent may have them from another channel, such as the MCP server. Only whole names of
        two words and more: one word may be anybody's.
        """
        for token in self._released:
            if any(token in text for text in texts):
                kind = kind_of(token)
                if kind != "person" or " " in token:
                    self.adopt(kind, token)
        super().apart_from(*texts)

    @shielded
    def declared(self, text: str) -> list[Replacement]:
        """Where identifiers of the profile stand in a text, however spelled, and their tokens."""
        return self._declarations.find(text, self)


_Span = tuple[int, int, Kind]
_Finder = Callable[[str, ConversationTokens | None], list[Replacement]]


def _finder(texts: tuple[str, ...], identifiers: Identifiers) -> _Finder:
    """The search, with what it looks for in its closure: no attribute leads to an identifier."""
    patterns = [pattern for text in texts for pattern in patterns_of(kind_of(text), text)]
    names = [pieces for text in texts if kind_of(text) == "person" and (pieces := read_name(text))]
    parts = [piece for pieces in names for piece in pieces if piece.part != "kept"]
    words = frozenset(_folded(part.text) for part in parts if part.part == "word")
    kept = frozenset(_folded(p.text) for pieces in names for p in pieces if p.part == "kept")
    initials = frozenset(unicodedata.normalize("NFD", part.text)[0].upper() for part in parts)

    def spans(text: str, *, tied: bool) -> Iterator[_Span]:
        letters = Letters(text)
        for pattern in patterns:
            if pattern.sequence not in letters.characters:
                continue
            for start, end in pattern.spans(text, letters):
                yield _alone(text, start, end, pattern.kind)
        for start, end in _name_spans(text, words, initials, kept):
            yield _alone(text, start, end, "person") if tied else _named(text, start, end)

    def search(text: str, conversation: ConversationTokens | None) -> list[Replacement]:
        """Longest first; a token is issued only for what is chosen."""
        taken = bytearray(len(text))
        chosen = []
        tokens = identifiers if conversation is None else conversation
        everything = set(spans(text, tied=conversation is None))
        for start, end, kind in sorted(everything, key=lambda s: (s[0] - s[1], s)):
            token = None
            if not any(taken[start:end]):
                token = _token(tokens, kind, text[start:end])
            if token is not None:
                taken[start:end] = b"\x01" * (end - start)
                chosen.append(Replacement(start, end, token))
        return sorted(chosen, key=lambda found: found.start)

    return search


def _token(identifiers: Identifiers | ConversationTokens, kind: Kind, written: str) -> str | None:
    """A token of this kind, else as a code; None where neither can be issued."""
    kinds: tuple[Kind, ...] = (kind, "code")
    for each in kinds:
        with suppress(IdentifierError):
            return identifiers.protect(each, written)
    return None


def _alone(text: str, start: int, end: int, kind: Kind) -> _Span:
    """A find with all that is tied to it, and what that is."""
    first, last = _widened(text, start, end)
    if (first, last) != (start, end):
        kind = _kind_of_widened(text[first:last], kind)
    return first, last, kind


_ADDRESS = re.compile(r"[^\s@,;:=&?<>()\[\]\"'|/\\]+@(?:[^\W_][\w-]*\.)+[^\W_][\w-]*")


def _named(text: str, start: int, end: int) -> _Span:
    """A name with the address that it stands in, or the letters and digits that go on with it."""
    left, right = max(start - MAX_LENGTH, 0), end + MAX_LENGTH
    if "@" in text[left:right]:
        for address in _ADDRESS.finditer(text, left, right):
            if address.start() <= start and end <= address.end():
                return *address.span(), "email"
    first, last = start, end
    while last - first <= MAX_LENGTH:
        if first > 0 and text[first - 1].isalnum() and text[first].isalnum():
            first -= 1
        elif last < len(text) and text[last].isalnum() and text[last - 1].isalnum():
            last += 1
        else:
            return first, last, "person" if (first, last) == (start, end) else "code"
    return start, end, "person"


def _kind_of_widened(written: str, kind: Kind) -> Kind:
    """A name stays one only as a single chunk, because that is how names are restored."""
    chunk = all(is_letter(c) or c in "-" + APOSTROPHES for c in written)
    guess: Kind = "person" if kind == "person" else kind_of(written)
    if guess != "person" or chunk:
        return guess
    return "email" if "@" in written else "code"


def _widened(text: str, start: int, end: int) -> tuple[int, int]:
    """The stretch with all that is tied to it, unless that is too long to be one thing."""
    first, last = start, end
    while last - first <= MAX_LENGTH:
        if not opens(text, first) or _after_comma(text, first, last):
            first -= 1
            while not _joins(text[first]) and text[first] != "+":
                first -= 1
        elif not _ends(text, first, last):
            last += 1
            while not _joins(text[last - 1]):
                last += 1
        else:
            return first, last
    return start, end


def _ends(text: str, start: int, end: int) -> bool:
    """Whether a find ends here; a possessive "'s" may follow, if that is where the word ends."""
    marks = tuple(APOSTROPHES)
    if text.startswith(marks, end) and text[end + 1 : end + 2] == "s":
        return closes(text, start, end + 2) and not text.startswith(marks, end + 2)
    return closes(text, start, end)


def _after_comma(text: str, start: int, end: int) -> bool:
    """Whether digits go on from the left as in "1,441"."""
    before = text[max(start - 2, 0) : start]
    tied = len(before) == 2 and before[0].isdigit() and before[1] == ","
    return tied and text[start:end].isdigit()


def _joins(character: str) -> bool:
    return character.isalnum() or is_letter(character)


def _folded(word: str) -> str:
    """A word without letter case and accents."""
    if word.isascii():
        return word.lower()
    plain = unicodedata.normalize("NFKD", word.casefold())
    return "".join(c for c in plain if not unicodedata.category(c).startswith("M"))


_FUNCTION = (
    "an as at be by can do go he her him his how if in is it may me my no of on or our see she so "
    "the to too up us was we who will you"
)
_EVERYDAY = (
    "art baker bank bell best bill bishop black blue bond brown bush chance chase cook cross day "
    "dean dear drew early faith field fish ford fox frank free gene glass grace grant gray green "
    "grey guy hall hand hill home hope hunter jack jay joy judge king knight lake lane law little "
    "long love low mark miles moody moon noble page park pat patience penny pierce pope price ray "
    "reading reed rice rich rob rose sharp short small smart snow stone strong sue summer swift "
    "trip ward waters way weeks west white wise wood young"
)
_FUNCTION_WORDS, _EVERYDAY_WORDS = frozenset(_FUNCTION.split()), frozenset(_EVERYDAY.split())
"""Names too, but alone mostly not: the first unless capitalised within a sentence, the second in
lower case."""


def _weak(text: str, start: int, end: int) -> bool:
    """Whether a word of a declared name, standing alone here, is more likely not the name."""
    written, word = text[start:end], _folded(text[start:end])
    if word in _FUNCTION_WORDS:
        opening = text[max(start - _REACH, 0) : start].rstrip()[-1:]
        return written.islower() or written.isupper() or opening in {"", *'.!?:;"\u201c'}
    return word in _EVERYDAY_WORDS and written.islower()


_GAP = re.compile(r"(?:,? +|-)|[ -](?:[A-Z](?:\. ?|[ -]))*[A-Z](?:\. |[ -])")
_SMALL_WORDS = re.compile(r",? +(?:[^\W\d_]+(?:['\u2019]| +))+")
_WORD = re.compile(r"[^\W\d_]+")
_BEFORE = re.compile(r"(?<![^\W_])(?:[A-Z]\. ?)*[A-Z]\. \Z")
_AFTER = re.compile(r"(?: [A-Z]\.)+")
_REACH = 12  # characters: room for four initials, each with a point and a blank


def _name_spans(
    text: str, words: frozenset[str], initials: frozenset[str], kept: frozenset[str]
) -> Iterator[tuple[int, int]]:
    """Declared name words, joined where only blanks, a comma or parts of a name stand between."""

    def ours(found: re.Match[str] | None) -> bool:
        return found is not None and initials.issuperset(c for c in found[0] if c.isalpha())

    def joined(gap: str) -> bool:
        small = _SMALL_WORDS.fullmatch(gap)
        return ours(_GAP.fullmatch(gap)) or (
            small is not None and kept.issuperset(map(_folded, _WORD.findall(gap)))
        )

    def whole(start: int, end: int) -> tuple[int, int]:
        before = _BEFORE.search(text[max(start - _REACH, 0) : start])
        after = _AFTER.match(text, end)
        if before is not None and ours(before):
            start -= len(before[0])
        return start, after.end() if after is not None and ours(after) else end

    stretch: tuple[int, int] | None = None
    strong, before = False, ""
    for start, end in _said(text, words):
        last, written = before, text[start:end]
        weak, before = _weak(text, start, end), written
        chance = weak and written.islower() and not last.islower()  # as in "Jane will go"
        apart = _tied(text, start, end)  # in an address, or a file's name
        if stretch is not None and not (chance or apart) and joined(text[stretch[1] : start]):
            stretch, strong = (stretch[0], end), strong or _folded(written) != _folded(last)
            continue
        if stretch is not None and strong:
            yield whole(*stretch)
        stretch, strong = (start, end), not weak
    if stretch is not None and strong:
        yield whole(*stretch)


def _tied(text: str, start: int, end: int) -> bool:
    """Whether a word is tied by "." or "@" to another, as in "jane.roe@mail.org"."""
    after = text[end : end + 1] in (".", "@", "_") and text[end + 1 : end + 2].isalnum()
    return after or (
        text[max(start - 1, 0) : start] in (".", "@", "_")
        and start > 1
        and text[start - 2].isalnum()
    )


_RUN = re.compile("[A-Za-z]+")


def _whole(lower: str, word: str) -> Iterator[tuple[int, int]]:
    """Where a word stands in a text of ASCII without other letters beside it."""
    start = lower.find(word)
    while start >= 0:
        end = start + len(word)
        if not (lower[max(start - 1, 0) : start].isalpha() or lower[end : end + 1].isalpha()):
            yield start, end
        start = lower.find(word, start + 1)


def _said(text: str, words: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Where these folded words stand, as whole runs of letters."""
    if not words:
        return
    if text.isascii():
        lower = text.lower()
        yield from sorted(span for word in words if word for span in _whole(lower, word))
        return
    for run in _RUN.finditer(shape_of(text)):
        if _folded(text[run.start() : run.end()]) in words:
            yield run.span()


_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_SEPARATORS = frozenset(".,-/()_:#\u00b7\u2010\u2011\u2012\u2013\u2014\u2212")
_WIDEST_GAP = 3  # characters, as in ") -"; more is another sentence
# From this many letters and digits on, a number may be grouped in other ways than declared; shorter
# ones would be found in every table of figures.
_REGROUPED = 6

_BLOCK = 256  # characters between two remembered places: memory against time to walk
_NEITHER = bytes(code for code in range(128) if not chr(code).isalnum())
_EITHER = bytes(code < 128 and chr(code).isalnum() for code in range(256))


class Letters:
    """The letters and digits of a text in lower case, and where each of them stands. Private."""

    __slots__ = ("_ends", "_mask", "_places", "_text", "characters")

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends: list[int] = []
        self._mask = b""
        self._places: list[int] | None = None
        if text.isascii():
            self.characters = _alphanumeric(text).decode().lower()
        else:
            self.characters = "".join(filter(str.isalnum, text)).casefold()

    def places(self, at: int, length: int) -> list[int]:
        """Where so many characters stand, from one of them on."""
        if not self._text.isascii():
            if self._places is None:
                self._places = [
                    place
                    for place, character in enumerate(self._text)
                    if character.isalnum()
                    for _ in character.casefold()
                ]
            return self._places[at : at + length]
        if not self._ends:  # how many characters there are up to the end of each block
            blocks = range(0, len(self._text), _BLOCK)
            sizes = (len(_alphanumeric(self._text[first : first + _BLOCK])) for first in blocks)
            self._ends = list(accumulate(sizes))
            self._mask = self._text.encode().translate(_EITHER)
        block = bisect.bisect_right(self._ends, at)
        first = self._ends[block - 1] if block else 0
        alone = compress(count(block * _BLOCK), self._mask[block * _BLOCK :])
        return list(islice(alone, at - first, at - first + length))


def _alphanumeric(text: str) -> bytes:
    """The letters and digits of a text of ASCII."""
    return text.encode().translate(None, _NEITHER)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Pattern:
    """One sequence to look for. Private. `exactly` is the spelling it must have, or nothing."""

    kind: Kind
    sequence: str
    exactly: str = ""
    separators: frozenset[str] = _SEPARATORS

    def spans(self, text: str, letters: Letters) -> Iterator[tuple[int, int]]:
        """Where the text spells this."""
        characters = letters.characters
        at = characters.find(self.sequence)
        while at >= 0:
            inside = letters.places(at, len(self.sequence))
            start, end = inside[0], inside[-1] + 1
            if self._ends(text, start, end) and self._fits(text, inside):
                yield self._opened(text, start, end), end
            at = characters.find(self.sequence, at + 1)

    def _fits(self, text: str, places: list[int]) -> bool:
        if self.exactly:
            return _plain(text[places[0] : places[-1] + 1]) == self.exactly
        gaps = (text[a + 1 : b] for a, b in pairwise(places))
        return all(
            len(gap) <= _WIDEST_GAP and all(c.isspace() or c in self.separators for c in gap)
            for gap in gaps
        )

    def _ends(self, text: str, start: int, end: int) -> bool:
        """Nothing goes on at either end; a label may be stuck to a number, as in "MRN4415"."""
        return not _goes_on(text[start - 1 : start], text[start]) and not _goes_on(
            text[end : end + 1], text[end - 1]
        )

    def _opened(self, text: str, start: int, end: int) -> int:
        """The start with the "+" or "(" that belongs to a phone number."""
        if self.kind == "phone" and start > 0:
            if text[start - 1] == "(" and ")" in text[start:end]:
                start -= 1
            if text[start - 1 : start] == "+":
                start -= 1
        return start


def _goes_on(outside: str, inside: str) -> bool:
    return outside.isalnum() and (outside.isdigit() == inside.isdigit())


def patterns_of(kind: Kind, text: str) -> list[Pattern]:
    """The sequences that spell an identifier; of a name, those in which its words are one."""
    sequence = Letters(text).characters
    if not sequence:
        return []
    match kind:
        case "person":
            words = [
                piece.text.casefold() for piece in read_name(text) or () if piece.part == "word"
            ]
            together = {"".join(words), words[0] + words[-1], words[-1] + words[0]}
            return [
                Pattern(kind="code", sequence=each, exactly=each)
                for each in (sorted(together) if len(words) > 1 else ())
            ]
        case "phone":
            sequences = dict.fromkeys(_phone(text, sequence))
            return [Pattern(kind=kind, sequence=each) for each in sequences if each]
        case "date":
            return _date(text)
        case "email" | "code":
            numbered = len(sequence) >= _REGROUPED and any(c.isdigit() for c in sequence)
            loose = kind == "code" and numbered
            return [Pattern(kind=kind, sequence=sequence, exactly="" if loose else _plain(text))]


def _plain(text: str) -> str:
    """Lower case, and every white space one blank."""
    return " ".join(text.casefold().split())


def _phone(text: str, digits: str) -> list[str]:
    """With and without country code, trunk zero and extension; 00 for the plus."""
    main = "".join(re.findall("[0-9]", re.split(r"[^0-9 ().+\-/]", text)[0]))
    if not text.startswith("+"):
        return [digits, main, "1" + main] if len(main) == 10 else [digits, main]
    # A country code has one to three digits; suffixes that are no national number hurt nobody.
    nationals = [main[cut:] for cut in (1, 2, 3) if len(main) - cut >= _REGROUPED + 1]
    return [digits, main, "00" + main, *nationals, *("0" + national for national in nationals)]


def _date(text: str) -> list[Pattern]:
    """The day in figures and words, in any order of day, month and year.

    A year that comes first is followed by no comma: it would end the date before.
    """
    year, month, day = _day_of(text)
    word = _MONTHS[month - 1]
    months = (str(month), f"{month:02d}", word, word[:3], "sept" if month == 9 else word)
    nth = {1: "st", 2: "nd", 3: "rd"}.get(day % 10 if day not in (11, 12, 13) else 0, "th")
    days = (str(day), f"{day:02d}", f"{day}{nth}", f"{day}{nth}of", f"the{day}{nth}of")
    spelled = {(d, m) for d in days for m in months}
    first = {f"{year}{m}{d}" for d, m in spelled}
    last = {f"{d}{m}{year}" for d, m in spelled} | {f"{m}{d}{year}" for d, m in spelled}
    tight = _SEPARATORS - {","}
    return [
        *(Pattern(kind="date", sequence=each, separators=tight) for each in sorted(first - last)),
        *(Pattern(kind="date", sequence=each) for each in sorted(last)),
    ]


def _day_of(text: str) -> tuple[int, int, int]:
    """Year, month and day of a text that `kind_of` calls a date."""
    numbers = [int(number) for number in re.findall("[0-9]+", text)]
    word = re.search("[A-Za-z]{3}", text)
    if word is not None:
        month = next(i for i, name in enumerate(_MONTHS, 1) if name.startswith(word[0].lower()))
        return numbers[1], month, numbers[0]
    if re.match("[0-9]{4}", text):
        return numbers[0], numbers[1], numbers[2]
    if "." in text:
        return numbers[2], numbers[1], numbers[0]
    return numbers[2], numbers[0], numbers[1]
