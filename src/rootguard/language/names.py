"""What a value is called: one index of names for every reader.

The text channel, the questions, the schema reader and the agent study's parser take their names
from `words.toml` through this module. Each gives a value's own name and its template's aliases and
gets every spelling of it, with what the spelling needs before it counts. Public knowledge: no
template, no person and no value is known here.
"""

import bisect
import functools
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from rootguard.language.fold import (
    HANGUL,
    PARTICLES,
    UNSPACED,
    VOWEL_SIGNS,
    Runs,
    Spans,
    bare,
    first_words,
    key_of,
)
from rootguard.language.lists import read_lists

LANGUAGES: Final = (
    *("en", "de", "fr", "es", "it", "pt", "nl", "pl", "tr"),
    *("ru", "zh", "ja", "ko", "hi", "ar"),
)
# A word in one of these tells its language by its letters.
_OWN_SCRIPT: Final = frozenset(("ru", "zh", "ja", "ko", "hi", "ar"))
SHORT: Final = 3  # letters of a name that says too little alone: `ast` is also a syntax tree
_MARKS: Final = "~?!="
_SAID: Final = "said"
_UMLAUTS: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"})
_EAST: Final = f"{UNSPACED}{HANGUL}"
_WORDS: Final = re.compile(rf"[{UNSPACED}]+|[{HANGUL}]+|(?:[^\W_{_EAST}]|[{VOWEL_SIGNS}])+")
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_EASTERN: Final = re.compile(f"[{_EAST}]")
_HARMONY: Final = dict(zip("aıoueiöü", "ııuuiiüü", strict=True))
_LEAST_COMPOUND: Final = 4  # "Serum" joins a noun, not an abbreviation
_TELLING_WORDS: Final = 2  # of a language; one alone may be a name or a loan word


@dataclass(frozen=True, kw_only=True, slots=True)
class Spelling:
    """One way to write a name, and what it needs before it counts.

    `weak`: other evidence in a schema. `everyday`: in prose a tie to its number. `capitals`: it is
    meant in capitals. `accented`: its accents. `said`: it is a verb or a phrase of a sentence.
    """

    text: str
    languages: frozenset[str] = frozenset()
    weak: bool = False
    everyday: bool = False
    capitals: bool = False
    accented: bool = False
    said: bool = False

    @property
    def key(self) -> str:
        """The spelling without case, accents, spaces and signs."""
        return key_of(self.text)

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the spelling, bare and in small letters."""
        return _words_in(self.text.casefold())

    def spelt(self, written: str) -> bool:
        """Whether something `written` so can be it: an abbreviation not of English, in capitals."""
        return not self.capitals or "en" in self.languages or written.isupper()

    def needs_tie(self, written: str, spoken: Collection[str]) -> bool:
        """Whether it is an everyday word as `written` in a text in the languages `spoken`."""
        if not (self.everyday or self.capitals):
            return False
        native = not self.languages.isdisjoint((*spoken, *_OWN_SCRIPT)) or not self.languages
        if self.capitals:
            return not (written.isupper() and (native or "en" in self.languages))
        return not (native or (written.isupper() and "en" in self.languages))


@dataclass(frozen=True, kw_only=True, slots=True)
class Concept:
    """A value that the index knows: all its spellings, and the units in use for it."""

    name: str
    spellings: tuple[Spelling, ...]
    units: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Words for several values together, or for any of them."""

    spellings: tuple[Spelling, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Identifier:
    """What an identifier is called: so that it says enough alone, or only beside a patient."""

    plain: tuple[str, ...]
    loose: tuple[str, ...]


@functools.cache
def _data() -> Mapping[str, Any]:
    return read_lists("rootguard.language", "words.toml")


@functools.cache
def concepts() -> Mapping[str, Concept]:
    """Every value of the index, by the catalog's name for it."""
    return {
        name: Concept(name=name, spellings=_spellings(entry), units=tuple(entry.get("units", ())))
        for name, entry in _data()["names"].items()
    }


@functools.cache
def together() -> tuple[Group, ...]:
    """Words for two roots that are said in one breath."""
    return _groups("together")


@functools.cache
def general() -> tuple[Group, ...]:
    """Words that may mean any of several values."""
    return _groups("general")


@functools.cache
def stand_ins() -> Mapping[str, str]:
    """Values that tell of another one: who declared an income tells it by what is taken home."""
    entries = _data()["names"].items()
    return {name: str(entry["instead"]) for name, entry in entries if "instead" in entry}


def _groups(kind: str) -> tuple[Group, ...]:
    entries = _data()[kind].values()
    return tuple(Group(spellings=_spellings(e), names=tuple(e["names"])) for e in entries)


@functools.cache
def identifiers() -> tuple[Identifier, ...]:
    """The names of identifiers."""
    return tuple(
        Identifier(plain=tuple(entry["plain"]), loose=tuple(entry["loose"]))
        for entry in _data()["identifiers"].values()
    )


def identifier_called(name: str) -> Identifier | None:
    """The identifier that a profile calls by this name."""
    own = key_of(name)
    for each in identifiers():
        if any(key_of(text) == own for text in (*each.plain, *each.loose)):
            return each
    return None


def formulas() -> Mapping[str, Sequence[str]]:
    """What the calculations of the catalog's templates are called."""
    found: Mapping[str, Sequence[str]] = _data()["formulas"]
    return found


@functools.cache
def computed() -> Mapping[str, tuple[Spelling, ...]]:
    """What computed values are called in texts: those of the catalog's templates, and others."""
    found: dict[str, tuple[Spelling, ...]] = {
        name: tuple(_marked(text, "en") for text in said) for name, said in formulas().items()
    }
    for name, said in _data()["computed"].items():
        found[name] = (*found.get(name, ()), *(_marked(text, "en") for text in said))
    return found


Phrases = Literal["subjects", "links", "pairs"]


def phrases(kind: Phrases) -> tuple[str, ...]:
    """The small words around numbers in other languages, bare and in small letters.

    `subjects` make a number with a unit the speaker's own, `links` stand between a name and its
    number, `pairs` between the two numbers of one name.
    """
    return tuple(_data()["sentences"][kind])


def languages_of(words: AbstractSet[str]) -> frozenset[str]:
    """The languages beside English that a text with these words (bare, small letters) may be in."""
    said = words & _all_telling()  # keys of a dictionary look up the few, whatever their number
    if len(said) < _TELLING_WORDS:
        return frozenset()
    return frozenset(
        language
        for language, telling in _telling().items()
        if len(said & telling) >= _TELLING_WORDS
    )


@functools.cache
def _all_telling() -> frozenset[str]:
    return frozenset(word for words in _telling().values() for word in words)


@functools.cache
def _telling() -> Mapping[str, frozenset[str]]:
    return {language: frozenset(words) for language, words in _data()["languages"].items()}


def _spellings(entry: Mapping[str, Any]) -> tuple[Spelling, ...]:
    """The spellings of an entry with their variants; one that several languages have, once."""
    found: dict[str, Spelling] = {}
    measured = any(unit.endswith(("L", "%", "/mol")) for unit in entry.get("units", ()))
    for group in (*LANGUAGES, _SAID):
        for text in entry.get(group, ()):
            first = _marked(text, group)
            for spelling in _variants(first, group, compounds=measured):
                known = found.get(spelling.text.casefold())
                found[spelling.text.casefold()] = _joined(known, spelling)
    return tuple(found.values())


def _marked(text: str, group: str) -> Spelling:
    marks = text[len(text.rstrip(_MARKS)) :]
    written = text.rstrip(_MARKS)
    language = "en" if group == _SAID else group
    return Spelling(
        text=written,
        languages=frozenset((language,)),
        weak=bool(marks) or group == _SAID or _says_little(written),
        everyday="?" in marks,
        capitals="!" in marks,
        accented="=" in marks,
        said=group == _SAID,
    )


def _says_little(text: str) -> bool:
    """Whether a name is too short to say enough; a Chinese sign says as much as a word."""
    return len(key_of(text)) <= (1 if _EASTERN.match(text) else SHORT)


def _joined(known: Spelling | None, other: Spelling) -> Spelling:
    """Two languages' spellings that are the same: what one of them does not need, neither does."""
    if known is None:
        return other
    return Spelling(
        text=known.text,
        languages=known.languages | other.languages,
        weak=known.weak and other.weak,
        everyday=known.everyday and other.everyday,
        capitals=known.capitals and other.capitals,
        accented=known.accented and other.accented,
        said=known.said and other.said,
    )


def _variants(first: Spelling, language: str, *, compounds: bool) -> Iterator[Spelling]:
    """A spelling, its American form, a German noun's compounds, umlauts as two letters.

    In Turkish also what it is called as one's own.
    """
    found = [first]
    text = first.text
    if language == "en" and "haem" in text.casefold():
        found.append(replace(first, text=re.sub("haem", "hem", text, flags=re.IGNORECASE)))
    if compounds and language == "de" and _joins_others(text):
        parts = _data()["compounds"]
        stems = [text, *(f"{before}{text.casefold()}" for before in parts["before"])]
        joined = [stem + after for stem in stems for after in ("", *parts["after"])]
        # "Eisen" is an everyday word, "Serumeisen" is not.
        found += (Spelling(text=each, languages=first.languages) for each in joined[1:])
    if language == "tr" and (own := _owned(text)) != text:
        found.append(replace(first, text=own, weak=False, everyday=False))
    for each in found:
        yield each
        if language == "de" and each.text != (written := each.text.translate(_UMLAUTS)):
            yield replace(each, text=written)


def _owned(text: str) -> str:
    """A Turkish noun with the ending for "my" ("yaş", "yaşım"); verbs and abbreviations as is."""
    vowels = [letter for letter in text if letter in _HARMONY]
    if not vowels or text.endswith(("m", "da")) or not text[-1].islower():
        return text
    if text[-1] in _HARMONY:
        return text + "m"
    if text[-1] == "k" and text[-2] in _HARMONY:
        text = text[:-1] + "ğ"
    return f"{text}{_HARMONY[vowels[-1]]}m"


def _joins_others(text: str) -> bool:
    """Whether it is a German noun, and no abbreviation ("ASAT") or compound of this kind itself."""
    return (
        text.isalpha()
        and text.istitle()
        and len(text) >= _LEAST_COMPOUND
        and not text.casefold().endswith(tuple(_data()["compounds"]["after"]))
        and not text.casefold().startswith(tuple(_data()["compounds"]["before"]))
    )


@functools.cache
def _by_key() -> Mapping[str, Mapping[str, Spelling]]:
    """For each concept its spellings by key."""
    return {
        name: {spelling.key: spelling for spelling in reversed(concept.spellings)}
        for name, concept in concepts().items()
    }


def concept_of(name: str, aliases: Iterable[str] = ()) -> Concept | None:
    """The concept of a value: by its own name, else by one of its names that is in the index."""
    if name in concepts():
        return concepts()[name]
    for key in map(key_of, (name, *aliases)):
        for concept, known in _by_key().items():
            if key in known and not known[key].said:
                return concepts()[concept]
    return None


def listed(name: str, alias: str) -> Spelling | None:
    """What the index says of one spelling of a value."""
    concept = concept_of(name, (alias,))
    return None if concept is None else _by_key()[concept.name].get(key_of(alias))


def spellings_of(name: str, aliases: Iterable[str] = ()) -> tuple[Spelling, ...]:
    """Every spelling of a value: its own names as the template writes them, then the index's."""
    aliases = tuple(aliases)
    concept = concept_of(name, aliases)
    known = {} if concept is None else _by_key()[concept.name]
    found: dict[str, Spelling] = {}
    for text in (name, *aliases):
        key = key_of(text)
        own = known.get(key) or Spelling(text=text, weak=_says_little(text))
        if key:
            found.setdefault(text.casefold(), replace(own, text=text))
    for spelling in () if concept is None else concept.spellings:
        found.setdefault(spelling.text.casefold(), spelling)
    return tuple(found.values())


# A name may begin and end where a word of a joined name does: "serumAstLevel", "ast_value".
# Never without regard to case: `re` would look up each letter of the class when it compiles.
_LETTER: Final = rf"[^\W\d_{_EAST}]"
_OPENS: Final = rf"(?-i:(?<!{_LETTER})|(?<=[a-z])(?=[A-Z]))"
_CLOSES: Final = rf"(?-i:(?!{_LETTER})|(?<=[a-z])(?=[A-Z]))"
_CAMEL: Final = re.compile(r"[A-Z](?<=[a-z].)", re.DOTALL)
_SEPARATOR: Final = r"[\s_\-/.'+]{0,2}"
_DOTTED: Final = re.compile(r"(?:[^\W_]\.)+[^\W_]")
_INSIDE: Final = re.compile(f"[{UNSPACED}]")
_HEAD: Final = 2  # letters by which spellings are sorted into patterns; more would part "y/o"


@dataclass(frozen=True, slots=True)
class Hit:
    """A spelling in a text, and the names that it stands for."""

    start: int
    end: int
    spelling: Spelling
    names: tuple[str | None, ...]


class Finder:
    """Finds names in texts; one pass, and its cost does not grow with the number of spellings.

    Made from names and their spellings; of two with the same spelling the first has it. Spellings
    for no name at all only keep others from being found inside of them.
    """

    __slots__ = (
        "_ends",
        "_everywhere",
        "_heads",
        "_meanings",
        "_opened",
        "_patterns",
        "_shortened",
        "_unspaced",
    )

    def __init__(self, named: Iterable[tuple[tuple[str | None, ...], Iterable[Spelling]]]) -> None:
        self._meanings: dict[str, tuple[Spelling, tuple[str | None, ...]]] = {}
        self._heads: dict[str, list[tuple[str, ...]]] = {}
        written: set[tuple[str, ...]] = set()
        for names, spellings in named:
            for spelling in spellings:
                if spelling.key:
                    self._meanings.setdefault(spelling.key, (spelling, names))
                    written.add(spelling.words)
                    written.add(_words_in(spelling.text.lower()))  # "ß" stays one letter
        # If a name begins with a digit every place is tried.
        self._everywhere = any(not _LETTERS.match(words[0]) for words in written)
        for words in written:
            self._heads.setdefault(words[0][:_HEAD], []).append(words)
        runs = (run for words in written for run in _runs(words) if run)
        self._opened = frozenset(first_words(runs))
        firsts = sorted({words[0][0] for words in written if _INSIDE.match(words[0])})
        self._unspaced = re.compile(f"[{''.join(firsts)}]") if firsts else None
        self._patterns: dict[str, re.Pattern[str]] = {}
        self._shortened: dict[str, set[str]] = {}
        self._ends: set[str] = set()

    def written(self) -> tuple[str, ...]:
        """Every spelling that is looked for, in order, for a fingerprint."""
        return tuple(sorted(self._meanings))

    def key(self, text: str) -> tuple[str | None, ...]:
        """The names that a whole text stands for."""
        found = self._meanings.get(key_of(text))
        return () if found is None else found[1]

    def find(self, text: str, unfolded: str, runs: Runs) -> Iterator[Hit]:
        """Every name in a bare text, in order, without overlaps.

        `unfolded` is the same text with its accents, `runs` are the bare text's.
        """
        reached = 0
        for place in self.places(text, runs):
            if place < reached:
                continue
            pattern = self._pattern(text, place)
            match = None if pattern is None else pattern.match(text, place)
            if match is None:
                continue
            if _IN_CODE.search(text, max(0, place - _LONGEST_RUN), place):
                continue  # "f99a1c2b" is a checksum
            spelling, names = self._meanings[key_of(match[1])]
            if spelling.accented and not _same(unfolded[place : match.end(1)], spelling.text):
                continue
            reached = match.end()
            if text[reached : reached + 1] == "." and _DOTTED.fullmatch(match[1]):
                reached += 1  # "y.o." has a dot of its own
            if names:
                yield Hit(place, reached, spelling, names)

    def places(self, text: str, runs: Runs) -> Sequence[int]:
        """Where a name may begin, in order."""
        if self._everywhere:
            return range(len(text))
        places = set(runs.places({"", *runs.among(self._opened)}))
        if self._unspaced is not None and not text.isascii():
            places.update(match.start() for match in self._unspaced.finditer(text))
        last = 0
        for match in _CAMEL.finditer(text):
            start = match.start()
            while start > last and text[start - 1].isalpha():
                start -= 1
            places |= {start, match.start()}
            last = match.start()
        return sorted(places)

    def _pattern(self, text: str, place: int) -> re.Pattern[str] | None:
        """The spellings that may begin at a place, longest first."""
        head = text[place : place + _HEAD].lower()
        if head not in self._heads:
            head = head[:1]  # "y/o": its first word has one letter
        known = self._patterns.get(head)
        if known is None and (found := self._heads.get(head)):
            both = found if len(head) < _HEAD else [*found, *self._heads.get(head[:1], ())]
            both = sorted(both, key=lambda words: (-sum(map(len, words)), words))
            body = "|".join(_SEPARATOR.join(map(re.escape, words)) for words in both)
            known = self._patterns[head] = re.compile(_bordered(head, body), re.IGNORECASE)
        return known

    def slips(
        self, text: str, runs: Runs, numbers: Sequence[int], found: Iterable[tuple[int, int]]
    ) -> Iterator[Hit]:
        """Names with one slip of the keys ("platlets"), and dotted ones ("A.S.T."), near numbers.

        `text` is bare, `runs` are its own, `numbers` are where its numbers begin, in order, `found`
        is where `find` found names in it. A slip is one letter too many, missing, wrong or swapped,
        not the first, in a word of six letters of ASCII or more; never an ordinary word, and never
        one that may be meant for two names.
        """
        taken = Spans(found)
        # For each text anew: a memory of its words would keep what people wrote.
        near = [word for word in runs.words if len(word) >= _LEAST_TYPED and self._correct(word)]
        for place in runs.places(near):
            match = _LONG_WORD.match(text, place)
            if match is not None and _beside(numbers, match) and not taken.meet(*match.span()):
                yield from self._slip(text, match)
        for place in runs.places(word for word in runs.words if len(word) == 1):
            match = _DOTTED_NAME.match(text, place) if text[place + 1 : place + 2] == "." else None
            meant = None if match is None else self._meanings.get(key_of(match[0]))
            if match is None or meant is None or not meant[1] or taken.meet(*match.span()):
                continue
            if _beside(numbers, match):
                yield Hit(match.start(), match.end(), *meant)

    def _slip(self, text: str, match: re.Match[str]) -> Iterator[Hit]:
        """The longest name around a word that is one slip away from a word of it."""
        meant = [
            hit
            for word in self._correct(match[0].lower())
            if (hit := self._around(text, match, word)) is not None
        ]
        if meant and len({hit.names for hit in meant}) == 1 and meant[0].names:
            yield max(meant, key=lambda hit: hit.end - hit.start)

    def _correct(self, word: str) -> frozenset[str]:
        """The words of names that a word may be meant for."""
        if not self._shortened:
            for spelling, _ in self._meanings.values():
                english = "en" in spelling.languages or not spelling.languages
                least = _LEAST_SLIP if english else _LEAST_FOREIGN_SLIP
                for known in spelling.words:
                    if len(known) >= least and known.isascii() and known.isalpha():
                        for less in {known, *_shortened(known)}:
                            self._shortened.setdefault(less, set()).add(known)
                        self._ends |= {known[:3], known[0] + known[-3:]}
        # One slip leaves the first three letters as they are, or the last three.
        if word[:3] not in self._ends and word[0] + word[-3:] not in self._ends:
            return frozenset()
        if word in _ordinary() or word in self._shortened.get(word, ()):
            return frozenset()
        near = {k for less in (word, *_shortened(word)) for k in self._shortened.get(less, ())}
        return frozenset(k for k in near if k[0] == word[0] and _one_slip(word, k))

    def _around(self, text: str, match: re.Match[str], word: str) -> Hit | None:
        before = list(_WORDS.finditer(text, max(0, match.start() - _NEAR), match.start()))
        after = list(_WORDS.finditer(text, match.end(), match.end() + _NEAR))
        before = before[-2:] if "\n" not in text[match.start() - 1 : match.start()] else []
        for left, right in _AROUND:
            words = [*before[len(before) - left :], match, *after[:right]]
            if len(words) != left + right + 1 or not _adjoin(words):
                continue
            key = key_of("".join(word if each is match else each[0] for each in words))
            found = self._meanings.get(key) or self._meanings.get(key.removesuffix("s"))
            if found is not None:
                return Hit(words[0].start(), words[-1].end(), *found)
        return None


_NEAR: Final = 40  # characters between a name and its number, for a slip to be looked for
_LEAST_SLIP: Final = 6  # letters of the name's word; one may be missing in what was typed
_LEAST_TYPED: Final = 5  # letters, as typed
_LONGEST_RUN: Final = 12  # characters of letters and digits before a name
_IN_CODE: Final = re.compile(r"[a-z]\d+\Z", re.IGNORECASE)
_LEAST_FOREIGN_SLIP: Final = 9  # "Gesicht" is a face and no weight, "defense" no spending
_LONG_WORD: Final = re.compile(rf"{_LETTER}{{{_LEAST_TYPED},40}}(?!{_LETTER})")
_DOTTED_NAME: Final = re.compile(r"(?<![^\W_])[^\W\d_](?:\.[^\W\d_]){1,5}\.?(?![^\W\d_])")
_AROUND: Final = ((2, 1), (1, 2), (2, 0), (1, 1), (0, 2), (1, 0), (0, 1), (0, 0))


@functools.cache
def _ordinary() -> frozenset[str]:
    return frozenset(_data()["slips"]["ordinary"])


def _shortened(word: str) -> list[str]:
    """A word without each of its letters, the first aside."""
    return [word[:place] + word[place + 1 :] for place in range(1, len(word))]


def _one_slip(word: str, known: str) -> bool:
    """Whether one letter is too many, missing, wrong or swapped with its neighbour."""
    start = 0
    while start < min(len(word), len(known)) and word[start] == known[start]:
        start += 1
    rest, other = word[start:], known[start:]
    return (
        rest[1:] == other
        or rest == other[1:]
        or rest[1:] == other[1:]
        or (rest[:2] == other[1::-1] and rest[2:] == other[2:])
    )


def _beside(numbers: Sequence[int], match: re.Match[str]) -> bool:
    """Whether a number begins near a word."""
    first = bisect.bisect_left(numbers, match.start() - _NEAR)
    return first < len(numbers) and numbers[first] <= match.end() + _NEAR


def _adjoin(words: Sequence[re.Match[str]]) -> bool:
    return all(b.start() - a.end() <= 2 for a, b in itertools.pairwise(words))


def _bordered(head: str, body: str) -> str:
    """A pattern for spellings with what must stand around them, by the script they begin in."""
    if _INSIDE.match(head):
        return f"({body})"
    if _EASTERN.match(head):
        return f"(?-i:(?<![{HANGUL}]))({body})(?-i:{PARTICLES}(?![{HANGUL}]))"
    return f"{_OPENS}({body})(?:e?s)?{_CLOSES}"


def _words_in(text: str) -> tuple[str, ...]:
    return tuple(_WORDS.findall(bare(text)))


def _same(written: str, spelling: str) -> bool:
    """Whether two texts have the same letters, accents and all."""
    one, other = (_WORDS.findall(text.casefold()) for text in (written, spelling))
    return "".join(one) == "".join(other)


def _runs(words: Sequence[str]) -> Iterator[str]:
    """The runs of letters that a name may begin with: its words may be joined, or in the plural."""
    glued = ""
    for place, word in enumerate(words):
        letters = _LETTERS.match(word)
        glued += letters[0] if letters else ""
        yield glued
        if letters is None or letters[0] != word:
            return
        if place == len(words) - 1:
            yield from (f"{glued}s", f"{glued}es")


_CUTS: Final = re.compile(r" after | as |,|\.$")


def titles(text: str) -> Iterator[str]:
    """The ways to call what a template's title or a description describes."""
    outside, _, inside = text.partition("(")
    for reading in (text, outside, inside.rstrip(")"), _CUTS.split(text)[0]):
        if reading := reading.strip(" ."):
            yield reading
            yield reading.replace("-to-", "-").replace(" to ", " ")
