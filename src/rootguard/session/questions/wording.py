"""The words of questions and answers: what things are called, small words, numbers in digits.

A `Vocabulary` is public: it is made from templates, the names of identifiers and the index of names
(`language.names`), and knows no value. Small words are closed lists in English (`words.toml`):
arithmetic, words that ask, words that only qualify. A word that is in neither is unknown and means
nothing. What is said back is spelt as the template spells it, never as the question did.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Literal

from rootguard.language import names
from rootguard.language.fold import unaccented
from rootguard.language.lists import read_lists
from rootguard.template import RiskClass, Template
from rootguard.values import Form, written

NO_VALUE: Final = "I have no value for that."
NOT_ALLOWED: Final = "I may not share that."
UNDEFINED: Final = "That has no defined value."
TOO_LONG: Final = "That question is too long for me."
OWN_UNITS: Final = "I do not convert units."

NameKind = Literal["root", "derived", "target", "identifier"]
Phrase = tuple[str, ...]

_PIECES: Final = re.compile(r"[^\W\d_]+|[0-9]+")
_DOTTED: Final = re.compile(r"\b(?:[a-z]\.){2,}|\by/o\b")  # "b.m.i." is one word
_EXACT: Final = range(-7, 21)  # decimal exponents that are written out


@dataclass(frozen=True, kw_only=True, slots=True)
class PhraseMeaning:
    """What a phrase stands for, and how to say it back.

    `capitals`: only if it is not in small letters. `beside`: a second value that it names as well.
    """

    name: str
    says: str
    label: bool = False
    capitals: bool = False
    beside: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Vocabulary:
    """Everything that can be asked by name. Public; made by `Vocabulary.of`."""

    kinds: Mapping[str, NameKind]
    units: Mapping[str, str]
    spelt: Mapping[str, str]
    phrases: Mapping[Phrase, PhraseMeaning]
    longest: int
    scored: Mapping[str, Template]

    def meaning(self, words: Phrase) -> PhraseMeaning | None:
        """What words mean: as they are, else without their plurals."""
        return self.phrases.get(words) or self.phrases.get(stemmed(words))

    @staticmethod
    def of(templates: tuple[Template, ...], identifiers: tuple[str, ...] = ()) -> "Vocabulary":
        """The vocabulary of some templates and of identifiers by name; made once, then kept."""
        return _vocabulary(templates, identifiers)

    def called(self, kind: NameKind) -> tuple[str, ...]:
        """The names of one kind, in declared order."""
        return tuple(name for name, found in self.kinds.items() if found == kind)

    def risk(self, target: str, value: float) -> RiskClass | None:
        """The risk class of a released target."""
        return self.scored[target].classify(value)


@lru_cache(maxsize=256)
def _vocabulary(templates: tuple[Template, ...], identifiers: tuple[str, ...]) -> Vocabulary:
    kinds: dict[str, NameKind] = {}
    units: dict[str, str] = {}
    spelt: dict[str, str] = {}
    scored: dict[str, Template] = {}
    for template in templates:
        for root in template.roots.values():
            kinds.setdefault(root.name, "root")
            units.setdefault(root.name, root.unit)
            spelt.setdefault(root.name, _spelling(root.name, root.aliases))
    for template in templates:
        for entry in template.derived.values():
            kinds.setdefault(entry.name, "derived")
            units.setdefault(entry.name, entry.unit)
            spelt.setdefault(entry.name, _spelling(entry.name, (entry.description,)))
        target = template.target
        if kinds.setdefault(target.name, "target") == "derived":
            kinds[target.name] = "target"  # another template only passes through it
        scored.setdefault(target.name, template)
        units.setdefault(target.name, target.unit)
        spelt.setdefault(target.name, _spelling(target.name, (template.title,)))
    for name in identifiers:
        if kinds.setdefault(name, "identifier") == "identifier":
            units[name] = ""
            spelt[name] = name.upper() if len(name) <= 3 else name.replace("_", " ")
    phrases = _phrases(templates, kinds, spelt)
    return Vocabulary(
        kinds=MappingProxyType(kinds),
        units=MappingProxyType(units),
        spelt=MappingProxyType(spelt),
        phrases=MappingProxyType(phrases),
        longest=max(map(len, phrases), default=0),
        scored=MappingProxyType(scored),
    )


def _phrases(
    templates: tuple[Template, ...], kinds: Mapping[str, NameKind], spelt: Mapping[str, str]
) -> dict[Phrase, PhraseMeaning]:
    """Every phrase and its meaning; what is said first wins.

    A phrase stands here as it is written and without its plurals; the former goes first, so that
    `payment` and `payments` may be two things.
    """
    phrases: dict[Phrase, PhraseMeaning] = {}
    plain: dict[Phrase, PhraseMeaning] = {}

    def say(
        name: str,
        text: str,
        says: str,
        *,
        label: bool = False,
        capitals: bool = False,
        beside: str = "",
    ) -> None:
        if phrase := words_of(text):
            meaning = PhraseMeaning(
                name=name, says=says, label=label, capitals=capitals, beside=beside
            )
            phrases.setdefault(phrase, meaning)
            plain.setdefault(stemmed(phrase), meaning)

    for name in kinds:
        if "_" in name:  # such a name is read as one word, see `questions`
            phrases[(name.casefold(),)] = PhraseMeaning(name=name, says=spelt[name])
        else:
            say(name, name, spelt[name])
    for template in templates:
        for root in template.roots.values():
            for alias in root.aliases:
                spoken = not alias.startswith("is ") and not alias.endswith(" old")
                listed = names.listed(root.name, alias)
                capitals = listed is not None and listed.capitals
                says = alias if spoken else spelt[root.name]
                say(root.name, alias, says, capitals=capitals)
    for name in kinds:
        if "_" in name and not all((part,) in phrases for part in words_of(name)):
            say(name, name, spelt[name])
    for template in templates:
        for entry in template.derived.values():
            for text in names.titles(entry.description):
                say(entry.name, text, _small(text))
        target = template.target.name
        for text in names.titles(template.title):
            say(target, text, _small(text))
        say(target, template.name, spelt[target])
        for risk in template.risk:
            if len(words_of(risk.label)) > 1:
                say(target, risk.label, spelt[target], label=True)
    for name, kind in kinds.items():
        known = names.identifier_called(name) if kind == "identifier" else None
        for text in () if known is None else (*known.plain, *known.loose):
            say(name, text, text if text.isascii() else spelt[name])
    for name, aliases in _values(templates).items():
        for spelling in names.spellings_of(name, aliases):
            say(name, spelling.text, spelt[name], capitals=spelling.capitals)
    concepts = {
        concept.name: name
        for name, aliases in reversed(_values(templates).items())
        if (concept := names.concept_of(name, aliases)) is not None
    }
    for group in (*names.together(), *names.general()):
        both = group in names.together()
        meant = [concepts[each] for each in group.names if each in concepts]
        if meant and (both or group.names[0] in concepts):
            beside = meant[1] if both and len(meant) > 1 else ""
            for spelling in group.spellings:
                capitals = spelling.capitals
                say(meant[0], spelling.text, spelt[meant[0]], capitals=capitals, beside=beside)
    return plain | phrases


def _values(templates: tuple[Template, ...]) -> dict[str, tuple[str, ...]]:
    """Every root, derived value and target, with the names that its template gives it."""
    found: dict[str, tuple[str, ...]] = {}
    for template in templates:
        for root in template.roots.values():
            found[root.name] = (*found.get(root.name, ()), *root.aliases)
    for template in templates:
        for name in (*template.derived, template.target.name):
            found.setdefault(name, ())
    return found


def words_of(text: str) -> Phrase:
    """A text as words: without case, accents and punctuation, with letters and digits apart."""
    text = _DOTTED.sub(lambda found: re.sub(r"\W", "", found[0]), unaccented(text.casefold()))
    return tuple(_PIECES.findall(text.replace("'", "")))


def stemmed(phrase: Phrase) -> Phrase:
    """A phrase without the plurals in it."""
    return tuple(map(_stem, phrase))


def _stem(word: str) -> str:
    """A word without its plural ending. Wrong for some words, but for both sides alike."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word


def _spelling(name: str, texts: Iterable[str]) -> str:
    """A name as it is spelt where words are used; a short one that is no word is in capitals."""
    for text in texts:
        for word in re.findall(r"[\w-]+", text):
            if word.replace("-", "").casefold() == name.casefold():
                return _small(word)
    return name.upper() if len(name) <= 4 else name.replace("_", " ")


def _small(text: str) -> str:
    """A text for the middle of a sentence: `Pulse pressure` is `pulse pressure`, `HDL` stays."""
    first = text.split(" ", maxsplit=1)[0].split("-", maxsplit=1)[0]
    return text[:1].lower() + text[1:] if first[1:].islower() else text


def digits(value: float) -> str:
    """The fewest digits that read back as exactly this number."""
    if value == 0.0:
        return "0"  # also for minus zero
    shortest = Decimal(repr(value))
    if shortest.adjusted() not in _EXACT:
        return repr(value)
    written = format(shortest, "f")
    return written.rstrip("0").rstrip(".") if "." in written else written


def statement(says: str, value: Form, unit: str = "", *, computed: bool = False) -> str:
    """`AST is 24.3 U/L`, `platelets are 231.5 10^9/L`, `age times platelets is 9`."""
    last = says.rsplit(" ", maxsplit=1)[-1]
    several = (
        not computed
        and last.islower()
        and last.endswith("s")
        and not last.endswith(("ss", "is", "us"))
    )
    text = digits(value) if type(value) is float else written(value)
    return f"{says} {'are' if several else 'is'} {text}{' ' if unit else ''}{unit}"


def sentence(statements: list[str]) -> str:
    """Statements joined into one sentence."""
    *rest, last = statements
    joined = f"{', '.join(rest)} and {last}" if rest else last
    return f"{capital(joined)}."


def capital(text: str) -> str:
    """A text with a capital letter at its start, unless its first word has its own spelling."""
    first = text.lstrip("(").split(" ", maxsplit=1)[0]
    if text.startswith("(") or not first.islower():
        return text
    return text[:1].upper() + text[1:]


TokenKind = Literal[
    "name",  # text: the name; says: how to say it
    "class",  # text: a target, or nothing for any
    "target",  # the target, whatever it is called
    "all",  # text: roots or everything
    "number",
    "operator",  # text: + - * / **, a comparison, "from" (swapped minus), "share" (percentage of)
    "power",  # text: the exponent that "squared" or "cubed" stands for
    "scale",  # text: the factor that "twice" or "half" stands for
    "call",  # text: a function of one value, also "square", "cube", "reciprocal"
    "list",  # text: an operator or a function over several values
    "verb",  # text: the operator that "multiply" or "divide" stands for
    "percent",
    "unit",  # text: the unit that was asked for
    "open",
    "close",
    "comma",
    "and",
    "end",  # text: the sign that ended the sentence
    "marker",  # opens a clause that says why, or for whom
    "preposition",
    "determiner",
    "qualifier",
    "filler",
    "unknown",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """One word, sign or phrase of a question.

    `tight`: no space on either side of it. `leads`: a space before it and none after it.
    `asks`: a sentence with this word asks for something.
    """

    kind: TokenKind
    text: str = ""
    says: str = ""
    tight: bool = False
    leads: bool = False
    asks: bool = False


_LISTS: Final = read_lists("rootguard.session.questions", "words.toml")
WORDS: Final[Mapping[tuple[str, ...], Token]] = {
    tuple(re.findall(r"[a-z]+|[0-9]+", phrase)): Token(
        kind=kind, text=phrase if kind in ("determiner", "qualifier") else text
    )
    for kind, meanings in _LISTS["kinds"].items()
    for text, phrases in meanings.items()
    for phrase in phrases
} | {tuple(phrase.split()): Token(kind="filler", asks=True) for phrase in _LISTS["asking"]}
LONGEST: Final = max(map(len, WORDS))
WHOLE: Final = frozenset(_LISTS["whole"])
SEVERAL: Final = frozenset(_LISTS["several"])
NOUNS: Final = SEVERAL.union(_LISTS["one"])
_OPERATORS: Final = ("+", "-", "*", "/", "**", "<", ">", "<=", ">=", "==")
SIGNS: Final[Mapping[str, TokenKind]] = {
    "(": "open", "[": "open", "{": "open", ")": "close", "]": "close", "}": "close",
    ",": "comma", "\n": "comma", "%": "percent", "&": "and", "=": "filler",
    ".": "end", "?": "end", "!": "end", ";": "end", ":": "end",
    **dict.fromkeys(_OPERATORS, "operator"),
}  # fmt: skip
UNIT_PARTS: Final = frozenset(_LISTS["units"])
