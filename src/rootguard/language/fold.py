"""A text as a reader sees it: folded, and its words with their places.

Full-width digits, zero-width characters, superscripts and accents are written in many ways and read
in one. `fold` drops and replaces characters and remembers where each stood; `plain` and `bare` keep
every character in its place, so that what is found in them is found in the folded text as well.

`Runs` are the words of a text, read once, so that a pattern is tried only where it can begin: a
search for a hundred phrases asks at every character, and most words are none of theirs. What is
found is what a search would find: words with letters beyond ASCII, which compare in more ways than
`lower` knows, are tried by every pattern. `Spans` are stretches that are spoken for.

Chinese and Japanese have no spaces, and Korean joins its particles to the word before, so a word
may end between two letters: `ends_word` says where.
"""

import bisect
import re
import string
import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import accumulate, islice

_SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-", strict=True))
_LOOKALIKES = str.maketrans("−‒‑‐’‘′ʼ＇“”″⁄×μµ", "----'''''\"\"\"/xuu")
_ARABIC_MARKS = {"\u066b": ".", "\u066c": ","}  # of decimals and of thousands
_JOINERS = "\u034f\u180b\u180c\u180d\u180e"  # invisible, but not of the category Cf
_SHARP_S = "\xdf"
# Latin-1, Latin Extended-A and -B, Latin Extended Additional: the letters of ASCII with accents.
_LATIN = (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))


def _bases() -> dict[int, str]:
    parts = {code: unicodedata.normalize("NFD", chr(code)) for code in _LATIN}
    return {code: part[0] for code, part in parts.items() if len(part) > 1 and part[0].isascii()}


# Letters that have no accent to lose; the dotless i is an i where case is ignored.
_BASES = _bases() | {ord(a): b for a, b in zip("ıłŁøØđĐ", "ilLoOdD", strict=True)}
_PLAIN = {0xB5: "u", 0x3BC: "u", 0xD7: "x", 0x2044: "/"}


# For use inside of a character class. Scripts without spaces between words:
UNSPACED = (
    "\u3005\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
HANGUL = "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"
# Vowel signs of Devanagari, which are no letters to `re`:
VOWEL_SIGNS = "\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963"
_UNSPACED = re.compile(f"[{UNSPACED}]")
_HANGUL = re.compile(f"[{HANGUL}]")
# What Korean joins to a noun: particles, the copula, and nouns that mean a value or a count.
PARTICLES = (
    "(?:수치|수준|농도|검사|결과|값|량)?(?:에서|에게|부터|까지|이랑|랑|하고|으로|로|은|는|이|가|을|를|의|도|와|과|만|에)?"
    "(?:입니다|이에요|예요|이고|이며|이야|인데|이었|였|정도|쯤|이상|이하|대|됩니다|였습니다|이었습니다|인|이다|다)?"
)
_KOREAN_END = re.compile(f"{PARTICLES}(?![{HANGUL}])")


def ends_word(text: str, place: int) -> bool:
    """Whether a word that stands before a place may end there."""
    before, after = text[place - 1 : place], text[place : place + 1]
    if not (before.isalnum() and after.isalnum()) or (before.isascii() and after.isascii()):
        return not (before.isalnum() and after.isalnum())
    if _UNSPACED.match(before) or _UNSPACED.match(after):
        return True
    korean = _HANGUL.match(before) is not None
    if korean and _HANGUL.match(after):
        return _KOREAN_END.match(text, place) is not None
    return korean or _HANGUL.match(after) is not None


@dataclass(frozen=True, slots=True, repr=False)
class Folded:
    """A text as it is read, and where each of its characters stood."""

    text: str
    places: Sequence[int]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where a stretch of the folded text stands in the original."""
        return self.places[start], self.places[end - 1] + 1 if end > start else self.places[start]

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Where a stretch of the original stands in the folded text, the other way round."""
        if isinstance(self.places, range):
            return start, end
        return bisect_left(self.places, start), bisect_left(self.places, end)


def fold(text: str) -> Folded:
    """The text as a reader sees it: compatibility forms resolved, invisible characters dropped."""
    if text.isascii():
        return Folded(text, range(len(text) + 1))
    out: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        if character in _SUPERSCRIPTS:
            piece = _SUPERSCRIPTS[character]
            raised = place > 0 and text[place - 1] in _SUPERSCRIPTS
            piece = piece if raised else "^" + piece
        elif character.isascii():
            piece = character
        elif unicodedata.category(character) == "Cf" or character in _JOINERS:
            continue
        elif (digit := unicodedata.decimal(character, None)) is not None:
            piece = str(digit)
        elif character in _ARABIC_MARKS:
            piece = _ARABIC_MARKS[character]
        elif unicodedata.category(character) == "No":
            piece = _odd_digit(character, out)
        elif out and unicodedata.combining(character):
            whole = unicodedata.normalize("NFC", out[-1][-1:] + character)
            if len(whole) == 1:  # "e" and a separate accent are one letter
                out[-1] = out[-1][:-1] + whole
                continue
            piece = character
        else:
            piece = character.translate(_LOOKALIKES)
            piece = unicodedata.normalize("NFKC", piece).translate(_LOOKALIKES)
        out.append(piece)
        places.extend([place] * len(piece))
    places.append(len(text))
    return Folded("".join(out), places)


def _odd_digit(character: str, before: Sequence[str]) -> str:
    """A digit in a circle, or a fraction: "5½" is 5.5, not 51/2."""
    value = unicodedata.numeric(character)
    if 0 < value < 1:
        decimals = f"{value:.4g}"
        return decimals[1:] if before and before[-1][-1:].isdigit() else decimals
    enclosed = unicodedata.normalize("NFKC", character)
    return f"{value:g}" if enclosed == character and value < 100 else enclosed


def plain(text: str) -> str:
    """A text of the same length in lower case, with u for micro and x for times."""
    if text.isascii():
        return text.lower()
    # A few capital letters have two small ones, which would move places.
    text = "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)
    return text.translate(_PLAIN)


def bare(text: str) -> str:
    """A text of the same length, with the letters of ASCII in place of those with accents."""
    return text if text.isascii() else text.translate(_BASES)


def unaccented(text: str) -> str:
    """A text without accents, its letter case kept; "ß" becomes two letters."""
    if text.isascii():
        return text
    parts = unicodedata.normalize("NFKD", bare(text.replace(_SHARP_S, "ss")))
    return "".join(c for c in parts if not unicodedata.combining(c))


# Letters that are two, or another one; signs that stand in names.
_BASE_LETTERS = str.maketrans({"ð": "d", "æ": "ae", "’": "'", "‐": "-"})


def caseless(word: str) -> str:
    """A word without case and accents: "Muñoz", "MUNOZ" and "munoz" are one."""
    lower = word.lower()
    return lower if lower.isascii() else unaccented(lower.translate(_BASE_LETTERS))


_KEPT = re.compile(rf"(?:[^\W_]|[{VOWEL_SIGNS}])+")


def key_of(name: str) -> str:
    """A name without case, accents, spaces and signs."""
    return "".join(_KEPT.findall(unaccented(name.casefold())))


_ASCII_LETTERS = re.compile("([A-Za-z]+)")
_LETTERS = re.compile(rf"([{UNSPACED}]+|[{HANGUL}]+|[^\W\d_{UNSPACED}{HANGUL}]+)")
_OPTIONS = re.compile(r"\(\?:([^()]*)\)")
_SAME = str.maketrans({"\u0131": "i", "\u017f": "s"})
"""Letters that match others of ASCII where case is ignored."""
_DIGIT = re.compile("[0-9]")
_DIGITS = re.compile("[0-9]+")
_BUT_DIGITS = "".join(chr(code) if chr(code).isdigit() else " " for code in range(128))
"""What leaves of a text of ASCII its digits, with blanks between."""
_GOES_ON = frozenset(string.ascii_letters + "_.-")
_LONGEST_STEM = 3  # letters are compared for every word; three leave few words over


class Runs:
    """Where each run of letters of a text begins, by the run in lower case. Private.

    Those that are not all ASCII are together under "".
    """

    __slots__ = ("_starts", "begins", "spelled", "words", "written")

    def __init__(self, text: str) -> None:
        ascii_only = text.isascii()
        # Between words, word, between words, ...: their lengths say where each begins.
        parts = (_ASCII_LETTERS if ascii_only else _LETTERS).split(text)
        self.written = parts[1::2]
        """The runs as they are written, in order; `begins` says where."""
        self.begins = list(islice(accumulate(map(len, parts)), 0, len(parts) - 1, 2))
        self.spelled: defaultdict[str, list[int]] = defaultdict(list)
        """Where each begins, by the run as it is written."""
        for place, word in zip(self.begins, self.written, strict=True):
            self.spelled[word].append(place)
        self._starts = _lowered(self.spelled)
        self.words = self._starts.keys()

    def among(self, words: frozenset[str]) -> AbstractSet[str]:
        """Those of some words that are here."""
        # `&` with the keys would go through the words, which may be a whole dictionary.
        return (
            words.intersection(self.words) if len(words) > len(self.words) else words & self.words
        )

    def places(self, words: Iterable[str]) -> list[int]:
        """Where these stand, in order."""
        found: list[int] = []
        for word in words:
            found += self._starts.get(word, ())
        found.sort()
        return found


def _lowered(starts: Mapping[str, list[int]]) -> defaultdict[str, list[int]]:
    lowered: defaultdict[str, list[int]] = defaultdict(list)
    for word, places in starts.items():
        lowered[word.lower() if word.isascii() else ""] += places
    return lowered


def has_digit(text: str) -> bool:
    """Whether a digit of ASCII stands in a text."""
    return _DIGIT.search(text) is not None


def digits_in(text: str) -> list[int]:
    """Where runs of digits of ASCII begin."""
    if not text.isascii():
        return [match.start() for match in _DIGITS.finditer(text)]
    # A table is a quarter of what the pattern costs on prose, where digits are few.
    found, at = [], 0
    for run in text.translate(_BUT_DIGITS).split():
        at = text.find(run, at)
        found.append(at)
        at += len(run)
    return found


def figures_in(text: str) -> list[int]:
    """Where digits begin that do not go on from a word, a point or a dash."""
    return figures_among(text, digits_in(text))


def figures_among(text: str, digits: Iterable[int]) -> list[int]:
    """Those of the places where digits begin that do not go on from a word, a point or a dash."""
    return [at for at in digits if text[at - 1 : at] not in _GOES_ON]


def first_words(phrases: Iterable[str]) -> set[str]:
    """The runs that phrases open with; "(?:his|her) name" opens with either."""
    found: set[str] = set()
    for phrase in phrases:
        options = _OPTIONS.match(phrase)
        for option in options[1].split("|") if options else (phrase,):
            word = _LETTERS.match(option)
            if word is None:
                raise ValueError("a phrase opens with a letter")
            found.add(word[0].lower().translate(_SAME))
    return {word for word in found if word.isascii()}


class Openings:
    """Patterns, each with the words that it opens with.

    `stems` are beginnings of words that any of the patterns may open with.
    """

    __slots__ = ("_all", "_patterns", "_stems")

    def __init__(
        self, *patterns: tuple[re.Pattern[str], Collection[str]], stems: Collection[str] = ()
    ) -> None:
        self._patterns = tuple((pattern, frozenset(words)) for pattern, words in patterns)
        self._all = frozenset(word for _, words in self._patterns for word in words)
        self._stems = Stems(stems)

    def matches(self, text: str, runs: Runs) -> Iterator[tuple[int, re.Match[str]]]:
        """The number of each pattern that matches and its match; of one pattern none overlap."""
        begun = self._stems.begin(runs.words) | ({""} & runs.words)
        said = runs.among(self._all)
        for which, (pattern, words) in enumerate(self._patterns):
            places = runs.places(begun | (words & said)) if begun or said else ()
            for match in matches_at(pattern, text, places) if places else ():
                yield which, match


class Stems:
    """Beginnings of words, compared by at most three letters."""

    __slots__ = ("_by_length",)

    def __init__(self, stems: Iterable[str]) -> None:
        short = {stem[:_LONGEST_STEM] for stem in stems}
        self._by_length = tuple(
            (length, frozenset(stem for stem in short if len(stem) == length))
            for length in sorted({len(stem) for stem in short})
        )

    def begin(self, words: Iterable[str]) -> set[str]:
        """The words that begin with one of them; a few others may be among these."""
        found: set[str] = set()
        for length, stems in self._by_length:
            found.update(word for word in words if word[:length] in stems)
        return found


def matches_at(
    pattern: re.Pattern[str], text: str, places: Sequence[int]
) -> Iterator[re.Match[str]]:
    """The matches that begin at some of these places, in order, as a search would find them."""
    reached = 0
    for place in places:
        if place >= reached:
            match = pattern.match(text, place)
            if match is not None:
                reached = match.end()
                yield match


class Spans:
    """A set of stretches; asking takes the logarithm of their number."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        starts: list[int] = []
        ends: list[int] = []
        for start, end in sorted(spans):
            if not ends or start > ends[-1]:
                starts.append(start)
                ends.append(end)
            elif end > ends[-1]:
                ends[-1] = end
        self._starts, self._ends = starts, ends

    def meet(self, start: int, end: int) -> bool:
        """Whether a stretch overlaps any of these."""
        starts = self._starts
        if not starts:  # as mostly
            return False
        place = bisect.bisect_right(self._ends, start)
        return place < len(starts) and starts[place] < end

    def cut(self, start: int, end: int) -> list[tuple[int, int]]:
        """What is left of a stretch outside of these."""
        left = []
        place = bisect.bisect_right(self._ends, start)
        while place < len(self._starts) and self._starts[place] < end:
            if start < self._starts[place]:
                left.append((start, self._starts[place]))
            start = self._ends[place]
            place += 1
        if start < end:
            left.append((start, end))
        return left
