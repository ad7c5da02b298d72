"""What typed roots are called, and how people and forms answer them.

A root that is no number goes by its name, its aliases and what the lists have for the same fact in
several languages. What only hints at it (a drug, an abbreviation with other meanings) is marked as
such, and some facts are named by two words of one sentence. The lists are in `answers.toml`.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from rootguard.language.lists import either, read_lists
from rootguard.reading.days import fold_word
from rootguard.reading.stretches import word_list
from rootguard.reading.subjects import kin
from rootguard.template import Root
from rootguard.values import RootName, RootType

_WHEN: Final = frozenset(
    {"diagnosed", "earlier"}
)  # first words of a title that say only when or how
_SUFFIXES: Final = "status|flag|yn|code|answer|date|history|state"

_Weight = Literal["full", "short", "loose", "label"]


@dataclass(frozen=True, slots=True)
class _Meant:
    """What a name means: whose verb it is (`own`), whether yes to it is no ("non-smoker").

    A `short` one is an abbreviation that has other meanings ("DM"): it counts in labels and notes.
    A `loose` one is no name, but tells it where its owner speaks: a drug. A `label` says too little
    to be more than one ("How often").
    """

    root: RootName
    language: str
    own: bool = False
    denied: bool = False
    weight: _Weight = "full"


@dataclass(frozen=True, slots=True)
class FactName:
    """Where a fact is named in a plain text, and how."""

    start: int
    end: int
    root: RootName
    language: str
    own: bool
    denied: bool = False
    """"Non-smoker": yes to it is no to the root."""
    weight: _Weight = "full"
    composed: bool = False
    """Of two words that mean it together: "tablets" and "blood pressure"."""
    reach: int = 0
    """Where the later of the two ends."""
    family: bool = True
    """Whether relatives are others: not where they are a part of the fact."""


@dataclass(frozen=True, slots=True)
class _Composed:
    """A fact that two words of one sentence name together."""

    root: RootName
    of: re.Pattern[str]
    beside: re.Pattern[str]
    without: re.Pattern[str] | None
    kin: bool
    """Whether relatives are a part of it."""


@functools.cache
def answer_lists() -> Mapping[str, Any]:
    """The lists of `answers.toml`."""
    return read_lists("rootguard.reading", "answers.toml")


@functools.cache
def pairs_of(group: Literal["pairs", "sexes"]) -> Mapping[str, tuple[Mapping[str, Any], ...]]:
    """The sets of pairs that each word is in."""
    found: dict[str, tuple[Mapping[str, Any], ...]] = {}
    for by_language in answer_lists()[group]:
        for pair in by_language.values():
            for word in pair:
                if by_language not in found.get(word, ()):
                    found[word] = (*found.get(word, ()), by_language)
    return found


@functools.cache
def hints() -> frozenset[str]:
    """Words for yes or no that count only where nothing follows them."""
    plain: set[str] = set()
    hints: set[str] = set()
    for by_language in answer_lists()["pairs"]:
        for language, pair in by_language.items():
            (hints if "_h" in language else plain).update(pair)
    return frozenset(hints - plain)


# Some hundred public words at the most: one without a pair is refused, and so not remembered.
@functools.cache
def pair_of(word: str, group: Literal["pairs", "sexes"], language: str) -> tuple[str, str, bool]:
    """The pair that is written for a word, and whether it is a yes.

    A word of several languages ("no") counts as one of the name's language, else as English, so
    that the pair does not tell which of its two was written.
    """
    (by_language, *_) = pairs_of(group)[word]
    spoken = [each for each, pair in by_language.items() if word in pair]
    yes = word == by_language[spoken[0]][0]
    # Languages that share a word with this one are one pair: "si" is written back as "no" is.
    joined = {
        each
        for each, pair in by_language.items()
        if any(set(pair) & set(by_language[other]) for other in spoken)
    } | set(spoken)
    first = language if language in joined else "en" if "en" in joined else min(joined)
    one, other = by_language[first]
    return one, other, yes


LANGUAGES: Final = ("en", "de", "fr", "es", "it", "pt")


class AnswerWords:
    """What typed roots are called and how they are answered."""

    __slots__ = (
        *("_names", "_pattern", "_shared", "composed", "conditions", "dated", "facts", "kinds"),
        *("inherited", "setting", "sexed", "titles", "treated", "without"),
    )

    def __init__(self, roots: Sequence[Root], days: Sequence[tuple[str, Sequence[str]]]) -> None:
        self.kinds: dict[RootName, RootType] = {root.name: root.type for root in roots}
        self.titles = {root.name: root.label for root in roots}
        self.dated = bool(days) or any(kind.name == "date" for kind in self.kinds.values())
        self.sexed: RootName | None = None
        self.inherited: RootName | None = None
        self.conditions: list[RootName] = []
        self.treated: list[RootName] = []
        self.facts: set[RootName] = set()  # those that the lists have words for
        self.composed: list[_Composed] = []
        self._names: dict[str, _Meant] = {}
        self._shared: list[tuple[Mapping[str, Any], RootName]] = []
        self.setting: re.Pattern[str] | None = None
        self.without: dict[RootName, re.Pattern[str]] = {}
        for root in roots:
            self._add(
                root.name, [str(root.name).replace("_", " "), root.title or "", *root.aliases]
            )
            first, _, rest = (root.title or "").partition(" ")
            if root.type.name == "boolean" and first.lower() in _WHEN:
                self._note([fold_word(rest)], _Meant(root.name, "en"))
        for template, words in days:
            self._add(RootName(template), [*words])
        for fact, name in self._shared:
            self._share(fact, name)
        body = either(self._names).replace(r"\ ", r"[\s_-]?")
        self._pattern = re.compile(
            r"(?<![a-z0-9])(?:(?:is|has|am|are|ist|hat)_?)?"
            r"(?P<denied>non[-_ ]?|nicht[-_ ]?|no[_ ])?(?:ex[-_ ]?)?"
            rf"(?P<name>{body})(?:_?(?:{_SUFFIXES}))?(?![a-z0-9])"
        )

    def _add(self, root: RootName, words: Sequence[str]) -> None:
        keys = [fold_word(word) for word in words if word]
        for fact in answer_lists()["facts"].values():
            if set(keys) & set(fact["called"]):
                self._note(fact.get("short", ()), _Meant(root, "en", weight="short"))
        self._note(keys, _Meant(root, "en"))
        for fact in answer_lists()["facts"].values():
            if not set(keys) & set(fact["called"]):
                continue
            self.facts.add(root)
            if fact.get("inherited"):
                self.inherited = root
            if fact.get("sexes"):
                self.sexed = root
            if fact.get("condition"):
                self.conditions.append(root)
            if fact.get("treated"):
                self.treated.append(root)
            for language in LANGUAGES:
                self._note(fact.get(language, ()), _Meant(root, language))
            self._note(fact.get("own", ()), _Meant(root, "en", own=True))
            self._note(fact.get("denied", ()), _Meant(root, "en", denied=True))
            self._note(fact.get("loose", ()), _Meant(root, "en", weight="loose"))
            self._pair_up(fact, root)
            if "without" in fact:
                self.without[root] = _any_of(fact["without"])
            if "setting" in fact:
                self.setting = _any_of(fact["setting"])
            self._shared.append((fact, root))

    def _pair_up(self, fact: Mapping[str, Any], root: RootName) -> None:
        """Words of one sentence that mean it together."""
        for pair in fact.get("together", ()):
            if "said" in pair:
                of = beside = _said_of_oneself(pair["said"])
            else:
                of, beside = (_any_of(pair[part]) for part in ("of", "beside"))
            without = _any_of(pair["without"]) if "without" in pair else None
            words = {*pair.get("of", ()), *pair.get("beside", ())}
            related = not words.isdisjoint(kin())
            self.composed.append(_Composed(root, of, beside, without, related))

    def _share(self, fact: Mapping[str, Any], root: RootName) -> None:
        """Words that mean it where they mean no other of the roots."""
        self._note(fact.get("also", ()), _Meant(root, "en"))
        for like in fact.get("like", ()):
            other = answer_lists()["facts"][like]
            if any(fact is other for fact, _ in self._shared):
                continue
            for language in LANGUAGES:
                self._note(other.get(language, ()), _Meant(root, language))
            self._note(other.get("loose", ()), _Meant(root, "en", weight="loose"))
            self._pair_up(other, root)

    def _note(self, keys: Sequence[str], meant: _Meant) -> None:
        for key in keys:
            alone = meant.weight == "full" and key in word_list("labels")
            self._names.setdefault(key, replace(meant, weight="label") if alone else meant)

    def names(self, text: str) -> Iterator[FactName]:
        """The names in a plain text, in order."""
        for match in self._pattern.finditer(text):
            key = re.sub(r"[\s_-]+", " ", match["name"])
            meant = self._names.get(key) or self._names.get(match["name"]) or self._spaced(key)
            yield FactName(
                match.start(),
                match.end(),
                meant.root,
                meant.language,
                meant.own,
                denied=(match["denied"] is not None) is not meant.denied,
                weight=meant.weight,
            )

    def named(self, key: str) -> bool:
        """Whether a name means any of the roots."""
        return key in self._names

    def _spaced(self, key: str) -> _Meant:
        """A name whose words were written as one: "lastperiod"."""
        bald = key.replace(" ", "")
        return next(m for name, m in self._names.items() if re.sub(r"[ _-]", "", name) == bald)


def _any_of(words: Sequence[str]) -> re.Pattern[str]:
    body = either(words).replace(r"\ ", r"[\s_-]")
    return re.compile(rf"(?<![a-z0-9])(?:{body})(?![a-z0-9])")


def _said_of_oneself(words: Sequence[str]) -> re.Pattern[str]:
    """Verbs and adjectives behind an "I", whatever says how often or whether: "I hardly drink"."""
    body = either(words)
    others = "you|he|she|it|they|we|who|people|if|what|how|hope|think|want|need"
    return re.compile(
        rf"(?<![^\W_])(?:i|im|ive|ich|je|yo|io|eu|(?:do|did|have|are) you)(?:['’](?:m|ve|d))?"
        rf"(?: (?!(?:{others})[ '’])[^\W\d_]+(?:['’]t)?){{0,3}}? (?:{body})(?![^\W_])"
    )


@functools.lru_cache(maxsize=64)
def answer_words(
    roots: tuple[Root, ...], days: tuple[tuple[str, tuple[str, ...]], ...]
) -> AnswerWords:
    """The vocabulary of these roots, and of templates whose target is a day, made once."""
    return AnswerWords(roots, days)
