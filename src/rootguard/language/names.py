"""What a value is called: one index of names for every reader.

The text channel, the questions, the schema reader and the agent study's parser take their names
from `words.toml` through this module. Each gives a value's own name and its template's aliases and
gets every spelling of it, with what the spelling needs before it counts. Public knowledge: no
template, no person and no value is known here.
"""

import functools
import importlib.resources
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rootguard.language.fold import Runs, bare, first_words, key_of

LANGUAGES: Final = ("en", "de", "fr", "es", "it", "pt")
SHORT: Final = 3  # letters of a name that says too little alone: `ast` is also a syntax tree
_MARKS: Final = "~?!="
_SAID: Final = "said"
_UMLAUTS: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"})
_WORDS: Final = re.compile(r"[^\W_]+")
_LETTERS: Final = re.compile(r"[^\W\d_]+")
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
        native = not self.languages.isdisjoint(spoken) or not self.languages
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
    source = importlib.resources.files("rootguard.language") / "words.toml"
    return tomllib.loads(source.read_text("utf-8"))


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


def languages_of(words: Collection[str]) -> frozenset[str]:
    """The languages beside English that a text with these words (bare, small letters) may be in."""
    return frozenset(
        language
        for language, telling in _telling().items()
        if sum(word in words for word in telling) >= _TELLING_WORDS  # not the other way round
    )


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
        weak=bool(marks) or group == _SAID or len(key_of(written)) <= SHORT,
        everyday="?" in marks,
        capitals="!" in marks,
        accented="=" in marks,
        said=group == _SAID,
    )


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
    """A spelling, its American form, a German noun's compounds, umlauts as two letters."""
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
    for each in found:
        yield each
        if language == "de" and each.text != (written := each.text.translate(_UMLAUTS)):
            yield replace(each, text=written)


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
        own = known.get(key) or Spelling(text=text, weak=len(key) <= SHORT)
        if key:
            found.setdefault(text.casefold(), replace(own, text=text))
    for spelling in () if concept is None else concept.spellings:
        found.setdefault(spelling.text.casefold(), spelling)
    return tuple(found.values())


# A name may begin and end where a word of a joined name does: "serumAstLevel", "ast_value".
_OPENS: Final = r"(?:(?<![^\W\d_])|(?-i:(?<=[a-z])(?=[A-Z])))"
_CLOSES: Final = r"(?:(?![^\W\d_])|(?-i:(?<=[a-z])(?=[A-Z])))"
_CAMEL: Final = re.compile(r"[A-Z](?<=[a-z].)", re.DOTALL)
_SEPARATOR: Final = r"[\s_\-/.'+]{0,2}"
_DOTTED: Final = re.compile(r"(?:[^\W_]\.)+[^\W_]")
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

    __slots__ = ("_everywhere", "_heads", "_meanings", "_opened", "_patterns")

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
        self._patterns: dict[str, re.Pattern[str]] = {}

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
        for place in self._places(text, runs):
            if place < reached:
                continue
            pattern = self._pattern(text, place)
            match = None if pattern is None else pattern.match(text, place)
            if match is None:
                continue
            spelling, names = self._meaning(match[0])
            if spelling.accented and not _same(unfolded[place : match.end()], spelling.text):
                continue
            reached = match.end()
            if text[reached : reached + 1] == "." and _DOTTED.fullmatch(match[0]):
                reached += 1  # "y.o." has a dot of its own
            if names:
                yield Hit(place, reached, spelling, names)

    def _places(self, text: str, runs: Runs) -> Iterable[int]:
        if self._everywhere:
            return range(len(text))
        places = set(runs.places({"", *(self._opened & runs.words)}))
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
            known = re.compile(rf"{_OPENS}(?:{body})(?:e?s)?{_CLOSES}", re.IGNORECASE)
            self._patterns[head] = known
        return known

    def _meaning(self, written: str) -> tuple[Spelling, tuple[str | None, ...]]:
        key = key_of(written)
        for length in (len(key), len(key) - 1, len(key) - 2):  # "s" and "es" of a plural
            if key[:length] in self._meanings:
                return self._meanings[key[:length]]
        raise AssertionError("a pattern matched what it was not made of")


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
