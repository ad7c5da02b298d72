"""Persons' names in a text, by lists, titles, introductions and shape.

The text is read as words once. A name is a run of neighbouring words of which enough are known
names, or words that stand where a name must stand: after "Dr.", "my name is", "Patient:". What
is a word, a place, a product or an eponym ("Bell's palsy") is known too, and is no name. What is a
word of English is hardly a name, and what is none may be: `english` tells, by a list of frequent
words and the endings that make others of them. It is no dictionary; a rare word is none.

Latin script only. Every word is looked at a bounded number of times, so the cost is linear.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import accumulate
from typing import Literal, NamedTuple

from rootguard.channels.detection import lists
from rootguard.channels.detection.lists import any_of, phrases
from rootguard.identifiers.formats import PARTICLES, SUFFIXES, TITLES
from rootguard.language.fold import Openings, Runs, caseless, first_words

Trust = Literal["sure", "likely", "perhaps"]

_SPACE = r"[ \t\u00a0]{1,3}"
_TITLE = re.compile(rf"\b(?:{any_of('titles')})\b(?:\.[ \u00a0]{{0,2}}|{_SPACE})", re.IGNORECASE)
_CAPITAL_TITLE = re.compile(rf"\b(?:{any_of('capital_titles')})\b(?:\.[ ]{{0,2}}|{_SPACE})")
_WHOSE = r"my|our|his|her|their|the|a|patient['’]s|whose"


def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\b{pattern}", re.IGNORECASE)


def _opened(*keys: str) -> set[str]:
    return first_words(phrase for key in keys for phrase in phrases(key))


_SURE = (
    (_TITLE, _opened("titles")),
    (_pattern(rf"(?:{'|'.join(phrases('name_is'))}){_SPACE}[\"“'‘]?"), _opened("name_is")),
    (_pattern(rf"(?:{any_of('labels')})[ \t]{{0,3}}[:=][ \t]{{0,8}}[\"“]?"), _opened("labels")),
    (
        _pattern(rf"(?:{any_of('closings')})[ ]?,?[ \t]{{0,3}}(?:\r?\n[ \t]{{0,8}}){{1,3}}"),
        _opened("closings"),
    ),
)
_LIKELY = (
    (_pattern(rf"i(?:\\{{0,2}}['’]m| am){_SPACE}"), {"i"}),
    (_pattern(rf"(?:{any_of('greetings')})(?: (?:doctor|team))?{_SPACE}"), _opened("greetings")),
)
_PERHAPS = (
    (_CAPITAL_TITLE, _opened("capital_titles")),
    (
        _pattern(rf"(?:{_WHOSE}) (?:{any_of('people')})(?: is| was| named| called|,)?{_SPACE}"),
        first_words(_WHOSE.split("|")),
    ),
    (
        _pattern(rf"(?:patient|client|tenant|named|{any_of('deeds')}){_SPACE}"),
        {"patient", "client", "tenant", "named"} | _opened("deeds"),
    ),
    (_pattern(rf"(?:{any_of('closings')}),[ \t]{{1,3}}"), _opened("closings")),
    (_pattern(rf"(?<=[\"”’!?,] )(?:{any_of('speech')}){_SPACE}"), _opened("speech")),
)
_ALL = Openings(*_SURE, *_LIKELY, *_PERHAPS)
_GROUPS: tuple[tuple[Trust, int], ...] = (
    ("sure", len(_SURE)),
    ("likely", len(_LIKELY)),
    ("perhaps", len(_PERHAPS)),
)
_LOOSE = frozenset(range(len(_SURE) + len(_LIKELY) + 2, sum(size for _, size in _GROUPS)))
"""Of the last group: what follows deeds, closings and speech."""
_TRUST = tuple(trust for trust, patterns in _GROUPS for _ in range(patterns))


def places(text: str, runs: Runs) -> Iterator[tuple[int, Trust, bool]]:
    """Where names must begin: after titles, introductions, labels, greetings and closings.

    Last, whether what stands there may as well be a company or a figure of a story: "according to".
    "sure" takes any word that is not an everyday one, in small letters too; "likely" any
    capitalised such word; "perhaps" the same, but not an eponym.
    """
    for which, match in _ALL.matches(text, runs):
        yield _after_titles(text, match.end()), _TRUST[which], which in _LOOSE


def _after_titles(text: str, place: int) -> int:
    """Past further titles: "Prof. Dr. Meyer", "my doctor, Dr. Meyer"."""
    for _ in range(3):
        title = _TITLE.match(text, place)
        if title is None:
            break
        place = title.end()
    return place


_LETTER = r"[^\W\d_][\u0300-\u036f]*"
_WORD = re.compile(rf"((?:{_LETTER})+(?:['’‐-](?:{_LETTER})+)*)")
_HYPHEN = re.compile("['-](?=[A-Za-z])(?<=[A-Za-z].)")
_TYPE_SIGNS = frozenset("[(<{")
_CAMEL = re.compile(r"[a-z][A-Z]")
_NAME_CAMEL = re.compile(
    r"(?:O['’]|D['’]|Mc|Mac|De|La|Le|Du|Da|Van|Fitz|Ja|Ta|Ke|Sha)[A-Z][a-z]{2,20}"
)
_GAP = re.compile(r"[ \u00a0\t]{1,2}|\.[ \u00a0]{0,2}")
_CONTRACTION = re.compile(r"\w+'(?:m|d|t|ll|re|ve)")
_SENTENCE_END = '.!?:;\n\r"“”()[]•*>|'
# Beside these a word is part of a path, an address, a variable or a formula, not a name.
_TIED = frozenset("/\\_@#=&~$%")
_TIED_BEFORE = _TIED | {"."}
_MOST_WORDS = 6  # "Maria del Carmen Lopez de Garcia"; it bounds the cost of a text of names only
_SHORTEST_SMALL = 2  # letters; "anna ok" and "john x" are no full names
_LONGEST_LIST = 12  # members around a name; it bounds the cost of a text that is one long list
_MODALS = {"will", "may"}
_DETERMINERS = frozenset(("the", "a", "an", "this", "that", "it", "my", "his", "her", "their"))
_GERMAN = frozenset(
    (
        "der",
        "die",
        "das",
        "und",
        "ist",
        "ein",
        "eine",
        "nicht",
        "mit",
        "auf",
        "ich",
        "von",
        "bei",
        "wie",
    )
)
_SURELY_GERMAN = 3  # of these words; one or two stand in names and quotations ("von")
_AND = {"and", "or", "und", "et", "och", "og"}
_IN_ROLES = lists.PERSON_VERBS | lists.PERSONAL_NOUNS | lists.POSSESSIVE_WORDS | lists.CALLING_WORDS
_OWNS = re.compile(r"\\{0,2}['’]s ")
_ESCAPED = re.compile(r"\\{1,2}['\"’]")
_SPEAKS = re.compile(r": ?\\{0,2}[\"“][A-Z][\w'’]{0,12} ")
_POSSESSIVES = {" ", "\u00a0", "-", "'s ", "’s ", "'S ", "’S ", "' ", "’ "}
_SPACES = frozenset((" ", ", "))
_OF = frozenset(("of",))
_CAPITAL_PARTICLES = frozenset(("le", "la", "lo", "du", "des", "el", "al", "ben", "bin", "ibn"))
_LOWER_OPENERS = {"san", "santa", "sao", "saint", "los", "las"}

Shape = Literal["title", "upper", "lower", "initial"]
Standing = Literal["strong", "weak", "unknown", "doubtful", "plain"]
_Known = tuple[int, str, Shape, Standing, bool]
_LISTED: dict[str, _Known] = {}
"""Words of the public lists, in their usual spellings only, so that it stays as small as these."""


class _Word(NamedTuple):
    """A word of the text, folded. Private."""

    start: int
    end: int
    key: str
    shape: Shape
    standing: Standing
    particle: bool

    @property
    def given(self) -> bool:
        return any(part in lists.GIVEN for part in self.key.split("-"))

    @property
    def surname(self) -> bool:
        return any(part in lists.SURNAMES for part in self.key.split("-"))


def find_names(text: str, runs: Runs) -> dict[tuple[int, int], bool]:
    """The persons named in the text, whose runs of letters are given; spans may overlap.

    For each, whether it is surely one: it is introduced, or has two words or more.
    """
    reading = _Reading(text, runs)
    found: dict[tuple[int, int], bool] = {}
    for start, end, sure in reading.introduced():
        each = reading.whole(start, end)
        found[each] = sure or found.get(each, False)
    for start, end in reading.standing_alone():
        each = reading.whole(start, end)
        found.setdefault(each, len(_WORD.findall(text, *each)) > 1)
    return found


def _shape(word: str) -> Shape:
    if len(word) == 1 and word.isupper():
        return "initial"
    if word.isupper():
        return "upper"
    opening, _, rest = word.partition("-")
    if rest and opening in PARTICLES:  # al-Sayed
        return _shape(rest)
    return "title" if word[0].isupper() else "lower"


def _standing(written: str, key: str, shape: Shape) -> Standing:
    """Whether a word is a name: surely, perhaps, who knows, hardly, or surely not."""
    if shape == "initial":
        return "unknown"
    if _CONTRACTION.fullmatch(key):
        return "plain"
    # English words have no accents: "Mạc" is not "Mac".
    accented = not written.isascii()
    plain = lists.FOREIGN if accented else lists.PLAIN
    doubles = lists.FOREIGN if accented else lists.AMBIGUOUS
    parts = [part for part in key.split("-") if part]
    listed = [key] if key in lists.LISTED else [p for p in parts if p in lists.LISTED]
    if listed:
        if all(part in doubles for part in listed):
            return "weak"
        if shape in {"lower", "upper"} and (key in lists.LOWERCASE or len(key) < 4):
            return "weak"
        mixed = key not in listed and len(parts) > len(listed)
        if mixed and (shape == "lower" or any(part in plain for part in parts)):
            return "plain"  # "li-ion", "Smith-type"
        return "strong"
    if any(part in plain for part in (key, *parts)):
        return "plain"
    if not accented and all(map(english, parts)):
        return "doubtful"
    if _CAMEL.search(written) and not _NAME_CAMEL.fullmatch(written):
        return "plain"  # FileIO, ClassVar
    if shape == "title" and (
        lists.NAME_SHAPE.fullmatch(written) or lists.NAME_ENDING.fullmatch(key)
    ):
        return "strong"
    return "doubtful" if lists.THING_ENDING.fullmatch(key) else "unknown"


# What an ending stands for in the plain form: "carried" is "carry", "baked" is "bake".
_INFLECTIONS = {
    "s": ("",),
    "es": ("",),
    "ies": ("y",),
    "ed": ("", "e"),
    "ied": ("y",),
    "ing": ("", "e"),
    "er": ("", "e"),
    "ier": ("y",),
    "est": ("",),
    "iest": ("y",),
    "ly": ("",),
    "ily": ("y",),
    "ness": ("",),
    "iness": ("y",),
}
_DOUBLING = {"ed", "ing", "er"}
_SHORTEST_STEM = 3  # letters; with two, "Iser" would be "is" with an ending, and no name
_LONGEST_ENDING = max(map(len, _INFLECTIONS))


def english(word: str) -> bool:
    """Whether a word is one of English: as a name only beside one that is surely a name."""
    if word in lists.ENGLISH or any(plain in lists.ENGLISH for plain in _plain_forms(word)):
        return True
    # "runners" is "runner", which is "run".
    single = word.removesuffix("s")
    return single != word and any(plain in lists.ENGLISH for plain in _plain_forms(single))


def _plain_forms(word: str) -> Iterator[str]:
    for length in range(1, min(_LONGEST_ENDING, len(word) - _SHORTEST_STEM) + 1):
        stem, ending = word[:-length], word[-length:]
        for instead in _INFLECTIONS.get(ending, ()):
            yield stem + instead
        if ending in _DOUBLING and stem[-1] == stem[-2]:
            yield stem[:-1]


def _bare(word: str) -> str:
    """A word without its possessive."""
    return word[:-2] if len(word) > 2 and word[-1] in "sS" and word[-2] in "'’" else word


def _may_begin(word: str) -> bool:
    """Whether a name may begin with a word of letters.

    In small letters only listed names do, unless they are ordinary words too.
    """
    if word.islower():
        return word in lists.SMALL
    return len(word) == 1 or word.lower() not in lists.PLAIN_LETTERS


def _read(written: str) -> _Known:
    key, shape = caseless(written), _shape(written)
    particle = key in PARTICLES and shape != "initial"
    return len(written), key, shape, _standing(written, key, shape), particle


def _hyphened(text: str, runs: Runs) -> tuple[list[str], list[int]]:
    """The words of a text of ASCII, and where they begin: runs of letters, or several as one.

    "O'Brien" and "Ann-Marie" are one word each.
    """
    written, starts = runs.written, runs.begins
    words: list[str] = []
    begins: list[int] = []
    at = 0  # the first run that is not in the words yet
    for hyphen in _HYPHEN.finditer(text) if "'" in text or "-" in text else ():
        run = bisect_left(starts, hyphen.start()) - 1
        if run >= at:
            words += written[at:run]
            begins += starts[at:run]
            words.append("")
            begins.append(starts[run])
            at = run + 1
        if not _HYPHEN.match(text, starts[at] + len(written[at])):  # not "Ann-Marie-Lou"
            words[-1] = text[begins[-1] : starts[at] + len(written[at])]
        at += 1
    return (words + written[at:], begins + starts[at:]) if at else (written, starts)


class _Words:
    """The words of a text in order; each is looked at closely when first asked for."""

    def __init__(self, text: str, runs: Runs) -> None:
        self._spelled = None
        if text.isascii():
            self.written, self.starts = _hyphened(text, runs)
            if self.written is runs.written:
                self._spelled = runs.spelled
        else:
            # Between words, word, between words, ...: their lengths say where each begins.
            parts = _WORD.split(text)
            self.starts = list(accumulate(map(len, parts), initial=0))[1:-1:2]
            self.written = parts[1::2]
        self._read: list[_Word | None] = [None] * len(self.starts)
        self._known: dict[str, _Known] = {}

    def __getitem__(self, place: int) -> _Word:
        """The word at a place, which is not counted from the end."""
        return self._read[place] or self._look(place)

    def _look(self, place: int) -> _Word:
        written = self.written[place]
        known = _LISTED.get(written) or self._known.get(written)
        if known is None:
            known = _read(_bare(written))
            key = known[1]
            usual = written in (key, key.capitalize(), key.upper())
            # Those of everybody's lists are remembered; others are private and go with the text.
            listed = usual and key in lists.EVERYBODYS
            (_LISTED if listed else self._known)[written] = known
        length, key, shape, standing, particle = known
        start = self.starts[place]
        word = self._read[place] = _Word(start, start + length, key, shape, standing, particle)
        return word

    def span(self, first: int, last: int) -> list[_Word]:
        """The words from one place to before another."""
        return [
            word or self._look(first + past) for past, word in enumerate(self._read[first:last])
        ]

    def is_small(self, place: int) -> bool:
        """Whether a word is surely in small letters and no particle."""
        written = self.written[place]
        return written.islower() and written.isalpha() and written not in PARTICLES

    def candidates(self) -> Iterator[int]:
        """The places of all words that may begin a name; others may be among them."""
        likely = {
            word
            for word in (set(self.written) if self._spelled is None else self._spelled)
            if word not in lists.PLAIN_LETTERS
            and (not (word.isascii() and word.isalpha()) or _may_begin(word))
        }
        if self._spelled is None:
            return (place for place, word in enumerate(self.written) if word in likely)
        starts = sorted(start for word in likely for start in self._spelled[word])
        return (bisect_left(self.starts, start) for start in starts)

    def shouted(self) -> bool:
        """Whether most of them, apart from single letters, are in capitals."""
        longer = upper = 0
        if self._spelled is None:
            counted: Mapping[str, int] = Counter(self.written)
        else:
            counted = {word: len(starts) for word, starts in self._spelled.items()}
        for written, times in counted.items():
            word = written if written.isalpha() else _bare(written)
            if len(word) > 1:
                longer += times
                if word.isupper() or ("-" in word and _shape(word) == "upper"):
                    upper += times
        # Of all words, one in small letters would decide; of half, the acronyms of a report would.
        return upper > 0.7 * longer


class _Reading:
    """One text as words; asked for its names."""

    def __init__(self, text: str, runs: Runs) -> None:
        self._text = text
        self._runs = runs
        self._words = _Words(text, runs)
        self._starts = self._words.starts
        self._count = len(self._starts)

    @cached_property
    def _nouns_capitalised(self) -> bool:
        """Whether the text is in German, where every noun has a capital."""
        return len(_GERMAN & self._runs.words) >= _SURELY_GERMAN

    @cached_property
    def _shouted(self) -> bool:
        """Whether the text is written in capitals throughout."""
        return self._words.shouted()

    def whole(self, start: int, end: int) -> tuple[int, int]:
        """A name with the title before it and the degree behind it: "Dr. Ann Lee PhD"."""
        first = bisect_left(self._starts, start)
        last = bisect_left(self._starts, end) - 1
        while first > 0 and self._words[first - 1].key in TITLES:
            gap = self._between(first - 1)
            capital = self._words[first - 1].shape == "title"
            if gap not in {". ", "."} and not (capital and gap == " "):
                break
            first -= 1
        while last + 1 < self._count and self._between(last) in {" ", ", "}:
            if self._words[last + 1].key not in SUFFIXES or self._words[last + 1].shape == "lower":
                break
            last += 1
        return self._words[first].start, max(end, self._words[last].end)

    def introduced(self) -> Iterator[tuple[int, int, bool]]:
        """Names where a name must stand, and whether that is sure."""
        for place, trust, loose in places(self._text, self._runs):
            at = bisect_left(self._starts, place)
            if at < self._count and self._starts[at] == place:
                if self._text[self._words[at].end : self._words[at].end + 1] in _TYPE_SIGNS:
                    continue  # "name: Literal["
                span = self._take(at, trust)
                if span is not None:
                    alone = bisect_left(self._starts, span[1]) - at == 1
                    unknown = self._words[at].standing != "strong"
                    yield *span, not (loose and alone and unknown)

    def _take(self, at: int, trust: Trust) -> tuple[int, int] | None:
        """The name that begins at a word, as far as its words look alike."""
        first = self._words[at]
        last = min(at + _MOST_WORDS, self._count)
        words_on = map(self._words.__getitem__, range(at, last))  # mostly only the first is read
        telling = (word.shape for word in words_on if word.shape != "initial" and not word.particle)
        style = next(telling, "initial")
        if style == "lower" and not (trust == "sure" or first.standing == "strong"):
            return None
        # In small letters nothing but its place tells a third word from the sentence that goes on.
        most = 2 if style == "lower" else 4
        end, words = None, 0
        for i in range(at, last):
            word = self._words[i]
            if i > at and not (
                self._joined(i - 1) or (words == 1 and self._turned(i, expected=True))
            ):
                break
            if word.particle and i + 1 < self._count and self._joined(i):
                continue
            if word.shape not in {style, "initial"} or words == most:
                break
            if self._capital_particle(i) and words:
                continue
            surname = style == "title" and words > 0 and self._plain_surname(i)
            if self._no_name(word) and not surname:
                break
            if style == "lower" and word.key in lists.ORDINARY:
                break
            if word.key in TITLES or (style == "lower" and len(word.key) == 1):
                break
            if word.standing == "doubtful" and (
                style == "lower"
                or (trust == "perhaps" and (not words or lists.THING_ENDING.fullmatch(word.key)))
            ):
                break  # "my landlord, Bartholomew Crisp", but "my doctor, Zarvon Syndrome"
            if word.key in SUFFIXES and words:
                break
            words += word.shape != "initial"
            end = i
        if end is None or not words:
            return None
        if trust == "perhaps" and self._follows(end, lists.EPONYM_NOUNS):
            return None
        alone = end == at and first.standing == "weak"
        if trust == "likely" and alone and (first.key in lists.PLACES or self._follows(end, _OF)):
            return None  # "I am German", "I am Head of Sales", but "I am Rose"
        return first.start, self._words[end].end

    def _no_name(self, word: _Word) -> bool:
        if word.standing == "plain":
            return True
        return word.key in lists.ORDINARY and self._shouted

    def standing_alone(self) -> Iterator[tuple[int, int]]:
        """Names that are recognised by themselves, and those that are listed with them."""
        runs = dict(self._runs_of_names())
        for first, last in (*runs.items(), *self._listed_with(runs)):
            yield self._words[first].start, self._words[last - 1].end

    def _listed_with(self, runs: dict[int, int]) -> Iterator[tuple[int, int]]:
        """Single words in a list with names: "Malon, Mark and Jennifer", "Mandel and Daniels"."""
        ends = {last: first for first, last in runs.items()}
        seen: set[int] = set()
        for first, last in runs.items():
            if last in seen or self._words[first].shape != "title":
                continue
            chain, commas = self._chain(first, last, runs, ends)
            seen |= {end for _, end in chain}
            if len(chain) < 3 and commas:
                continue  # "In Paris, Maria said"
            known = [each in runs or self._words[each].standing == "weak" for each, _ in chain]
            for (each, end), name in zip(chain, known, strict=True):
                if each not in runs and (name or 2 * sum(known) >= len(chain)):
                    yield each, end

    def _chain(
        self, first: int, last: int, runs: dict[int, int], ends: dict[int, int]
    ) -> tuple[list[tuple[int, int]], int]:
        """The members of a list around a name, and how many of its joints are commas only."""
        chain, commas = [(first, last)], 0
        while len(chain) < _LONGEST_LIST:
            first = chain[0][0]
            joint = self._joint(first - 1, forward=False)
            if joint is None:
                break
            before, comma = joint
            begin = ends.get(before + 1, before)
            if begin == before and not self._may_be_listed(before):
                break
            commas += comma
            chain.insert(0, (begin, before + 1))
        while len(chain) < _LONGEST_LIST:
            joint = self._joint(chain[-1][1], forward=True)
            if joint is None:
                break
            then, comma = joint
            if then not in runs and not self._may_be_listed(then):
                break
            commas += comma
            chain.append((then, runs.get(then, then + 1)))
        return chain, commas

    def _joint(self, at: int, *, forward: bool) -> tuple[int, bool] | None:
        """The word beyond a comma or an "and", from the word next to a name; whether a comma."""
        if not 0 <= at < self._count:
            return None
        comma = self._between(at - 1 if forward else at) == ", "
        if self._words[at].key not in _AND:
            return (at, True) if comma else None
        beyond = at + 1 if forward else at - 1
        if not 0 <= beyond < self._count:
            return None
        gaps = {self._between(min(at, beyond)), self._between(at - 1 if forward else at)}
        return (beyond, False) if gaps <= {" ", ", "} else None

    def _between(self, i: int) -> str:
        """What stands between a word and the next."""
        if not 0 <= i < self._count - 1:
            return ""
        return self._text[self._words[i].end : self._starts[i + 1]]

    def _may_be_listed(self, at: int) -> bool:
        word = self._words[at]
        if word.shape != "title" or word.particle or not self._untied(word):
            return False
        alone = not (self._joined_to(at - 1) or self._joined_to(at))
        return alone and word.standing in {"weak", "unknown"} and word.key not in lists.ORDINARY

    def _joined_to(self, i: int) -> bool:
        """Whether a word and the next are both capitalised and directly beside each other."""
        if not 0 <= i < self._count - 1 or self._between(i) != " ":
            return False
        return self._words[i].shape != "lower" and self._words[i + 1].shape != "lower"

    def _runs_of_names(self) -> Iterator[tuple[int, int]]:
        at = 0
        for candidate in self._words.candidates():
            if candidate < at:
                continue
            at = candidate
            end = self._run_end(at)
            if end > at + 1 or (end > at and self._may_be_alone(at)):
                run = self._trimmed(at, end)
                if run is not None:
                    first, last = run
                    first -= first > 0 and self._turned(first)
                    yield first, last
            at = max(end, at + 1)

    def _may_be_alone(self, at: int) -> bool:
        """Whether a single word can be a name; `_trimmed` asks for more."""
        return self._words[at].standing == "strong" or self._in_role(at, at)

    def _in_role(self, first: int, last: int) -> bool:
        """Whether a name's neighbours say that it is a person's."""
        then = self._words[last + 1].key if last + 1 < self._count else ""
        after = self._text[self._words[last].end : self._words[last].end + 4]
        if then not in _IN_ROLES and after[:1] != ":":
            return False  # as mostly
        if self._follows(last, lists.PERSON_VERBS):
            return True
        if _OWNS.match(after) and then in lists.PERSONAL_NOUNS:
            return True
        if then in lists.POSSESSIVE_WORDS and self._between(last) == " " and first:
            return self._words[first - 1].key in lists.GIVING_VERBS
        if not self._opens_sentence(first):
            return False
        if then in lists.CALLING_WORDS and self._between(last) == ", ":
            return True
        speaks = _SPEAKS.match(self._text, self._words[last].end)
        return speaks is not None

    def _run_end(self, at: int) -> int:
        """Where the run of alike name-like words that begins at a word ends."""
        first = self._words[at]
        if not self._may_stand(first) or first.particle:
            return at
        style = first.shape
        end = at + 1
        while end < self._count and end - at < _MOST_WORDS:
            if style in {"title", "upper"} and self._words.is_small(end):
                break
            if not self._joined(end - 1):
                break
            word = self._words[end]
            particle = (word.particle and word.shape == "lower") or self._capital_particle(end)
            if word.key in _AND and not self._words[end - 1].particle:
                break  # "Gewicht und Größe", but "von und zu"
            if style == "initial" and not particle:
                style = word.shape
            if style == "lower" and end > at + 1 and not particle and word.standing != "strong":
                break  # "jared paavolainen will call"
            if not particle and (
                word.shape not in {style, "initial"}
                or not (
                    self._may_stand(word)
                    or self._small_surname(at, end)
                    or (style == "title" and self._plain_surname(end))
                )
            ):
                break
            end += 1
        while end > at and self._words[end - 1].particle and self._words[end - 1].shape == "lower":
            end -= 1
        return end

    def _small_surname(self, at: int, end: int) -> bool:
        """Whether a word that is none of English follows a given name, both in small letters."""
        given, word = self._words[at], self._words[end]
        if end != at + 1 or not given.given or given.standing != "strong":
            return False
        alike = given.shape == word.shape == "lower" and self._untied(word)
        return alike and word.standing == "unknown" and len(word.key) > _SHORTEST_SMALL

    def _plain_surname(self, at: int) -> bool:
        """Whether an everyday word is a surname: behind a given name, in running text.

        In a heading every word has a capital: there a small letter stands on neither side.
        """
        given, word = self._words[at - 1], self._words[at]
        if not (given.given and given.standing == "strong" and given.shape == "title"):
            return False
        if word.shape != "title" or word.key not in lists.SURNAME_WORDS or not self._untied(word):
            return False
        if self._nouns_capitalised or self._joined_to(at):
            return False
        before = at > 1 and self._between(at - 2) == " " and self._words.is_small(at - 2)
        then = at + 1 < self._count and self._between(at) in _SPACES
        return before or (then and self._words.is_small(at + 1))

    def _capital_particle(self, at: int) -> bool:
        """Whether a capitalised particle stands within a name: "Maëlle Le Goff"."""
        if not 0 < at < self._count - 1 or self._words[at].key not in _CAPITAL_PARTICLES:
            return False
        around = (self._words[at - 1], self._words[at], self._words[at + 1])
        if any(word.shape != "title" for word in around):
            return False
        if not (self._joined(at - 1) and self._joined(at)):
            return False
        return around[0].standing == "strong" and around[2].standing in {"strong", "unknown"}

    def _untied(self, word: _Word) -> bool:
        """Whether a word is no part of a path, an address, a variable or a formula."""
        if self._text[word.start - 1 : word.start] in _TIED_BEFORE and not self._gap_before(word):
            return False
        after = self._text[word.end : word.end + 1]
        return after not in _TIED or _ESCAPED.match(self._text, word.end) is not None

    def _may_stand(self, word: _Word) -> bool:
        if not self._untied(word):
            return False
        if word.shape == "lower":
            return word.standing in {"strong", "weak"} and word.key not in lists.ORDINARY
        if word.shape == "upper" and word.standing == "unknown":
            return len(word.key) > 2 and not self._no_name(word)
        return not self._no_name(word)

    def _gap_before(self, word: _Word) -> bool:
        """Whether the full stop in front ends an initial ("J.Smith"), not a file or host name."""
        return (
            self._text[word.start - 1] == "."
            and self._text[word.start - 2 : word.start - 1].isupper()
        )

    def _joined(self, i: int) -> bool:
        """Whether the next word follows directly, as within a name."""
        word, then = self._words[i], self._starts[i + 1]
        if self._text[word.end : then] == " ":  # as mostly; the pattern takes six times as long
            return True
        gap = _GAP.fullmatch(self._text, word.end, then)
        if gap is None or then - word.end > 3:
            return False
        return not gap[0].startswith(".") or word.shape == "initial"

    def _turned(self, at: int, *, expected: bool = False) -> bool:
        """Whether a surname and a comma stand before a given name: "Lopez, Maria"."""
        surname, given = self._words[at - 1], self._words[at]
        if self._text[surname.end : given.start] not in {", ", ","} or given.shape == "lower":
            return False
        if surname.shape != given.shape or surname.given or self._no_name(surname):
            return False
        if not given.given and given.standing != "unknown":
            return False
        if surname.surname:
            return True
        surely = expected or not self._opens_sentence(at - 1)
        return surname.standing in {"unknown", "strong"} and surely

    def _trimmed(self, at: int, end: int) -> tuple[int, int] | None:
        """The part of a run that is a name."""
        words = self._words
        shapes = (words[i].shape for i in range(at, end))
        style = next((shape for shape in shapes if shape != "initial"), None)
        if style is None:
            return None
        if self._opens_sentence(at) and style == "title":
            then = at + 1
            if then < end and words[then].given and words[then].standing == "strong":
                long = end - at > 2
                doubted = words[at].standing in {"unknown", "weak"}
                if doubted and (long or not words[then].surname):
                    at = then
        if words[at].key in lists.PLACE_OPENERS or self._after_opener(at, end):
            return None
        while words[end - 1].key in SUFFIXES and end - at > 1:
            end -= 1
        return (at, end) if self._is_name(at, end, style) else None

    def _is_name(self, at: int, end: int, style: Shape) -> bool:
        run = [word for word in self._words.span(at, end) if not word.particle]
        whole = [word for word in run if word.shape != "initial"]
        strong = [word for word in whole if word.standing == "strong"]
        led = len(whole) > 1 and whole[0].given
        if style != "lower" and self._follows(end - 1, lists.ORGANISATION_NOUNS, capital=True):
            return False
        if not led and self._follows(end - 1, lists.EPONYM_NOUNS):
            return False
        if not whole:
            return False
        match style:
            case "lower":
                if whole[0].key in _MODALS and self._follows(end - 1, _DETERMINERS):
                    return False  # "will smith the metal"
                if strong and whole[0] is strong[0] and whole[0].given:
                    # `_small_surname`: "jared paavolainen"
                    return all(word.standing in {"strong", "weak", "unknown"} for word in whole)
                paired = (led and any(word.surname for word in whole[1:])) or (
                    whole[0].surname and any(word.given for word in whole[1:])
                )
                sound = all(word.key not in lists.NOT_ALONE for word in whole)
                return len(strong) == len(whole) or (paired and (sound or bool(strong)))
            case "upper" if not self._shouted:
                return bool(strong)
            case _:
                pass
        if strong:
            return True
        if any(word.standing == "doubtful" for word in whole):
            return False
        if len(run) > len(whole) and run[0].shape == "initial":
            return self._text[run[0].end : run[0].end + 1] == "."
        if len(whole) > 1:
            weak = [word for word in whole if word.standing == "weak"]
            if len(weak) == len(whole):
                return led and whole[-1].surname
            if self._in_role(at, end - 1):
                return True
            if weak and self._opens_sentence(at):  # "Will Kubernetes", but "Sydney Gladu"
                return led and weak[0] is whole[0] and not english(whole[0].key)
            unsure = self._after_in(at) or self._nouns_capitalised
            return len(whole) < 4 and (bool(weak) or not unsure)
        return self._in_role(at, end - 1)

    def _after_in(self, at: int) -> bool:
        """Whether it stands where places do: "in Chiclana de la Frontera"."""
        return at > 0 and self._words[at - 1].key == "in" and self._between(at - 1) == " "

    def _follows(self, i: int, nouns: frozenset[str], *, capital: bool = False) -> bool:
        """Whether one of these words comes next."""
        if i + 1 >= self._count:
            return False
        then = self._words[i + 1]
        gap = self._text[self._words[i].end : then.start]
        if gap not in _POSSESSIVES or then.key not in nouns:
            return False
        return not capital or (then.shape != "lower" and gap == " ")

    def _after_opener(self, at: int, end: int) -> bool:
        """Whether "San", "Lake", "New" stands before a single word."""
        if at == 0 or end - at > 1:
            return False
        before, word = self._words[at - 1], self._words[at]
        if self._text[before.end : word.start] not in {" ", ". "}:
            return False
        if word.shape == "lower":
            return before.key in _LOWER_OPENERS
        return before.key in lists.PLACE_OPENERS and before.shape != "lower"

    def _opens_sentence(self, at: int) -> bool:
        start = self._words[at].start
        before = self._text[max(0, start - 3) : start].rstrip(" \t'‘")
        return not before or before[-1] in _SENTENCE_END
