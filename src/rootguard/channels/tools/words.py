"""What tool schemas call private values: names cut into words, and what the words can mean.

Public knowledge only: templates, the catalog, the index of names (`language.names`), and the small
words of schemas in `words.toml`. A `Meaning` is one root, derived value, target or identifier;
`Meanings` finds which of them a parameter's words can stand for.
"""

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from rootguard.expressions import to_text
from rootguard.graph import Graph
from rootguard.language import names
from rootguard.language.fold import unaccented
from rootguard.language.lists import read_lists
from rootguard.language.units import (
    canonical,
    currencies,
    period_words,
    substance_of,
    unstated,
)
from rootguard.template import Root, Template, catalog, load_template
from rootguard.values import Domain, RootName

Words = tuple[str, ...]
Sort = Literal["value", "flag", "identifier"]

_PIECES: Final = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z0-9]+|[0-9]+|[^\W\d_a-zA-Z]+")
_LONGEST: Final = 6  # words of a name; the longest of the index that schemas use has six


@functools.cache
def data() -> Mapping[str, Any]:
    """The small words of schemas, top-level lists as sets."""
    content = read_lists("rootguard.channels.tools", "words.toml")
    return {k: frozenset(v) if isinstance(v, list) else v for k, v in content.items()}


def words_of(name: str) -> Words:
    """The words of a name in snake, camel, kebab or any other case, folded."""
    return tuple(piece.casefold() for piece in _PIECES.findall(unaccented(name)))


def text_words(text: str) -> Words:
    """The words of a text, folded: unlike a name's, not cut at capitals."""
    return tuple(re.findall(r"[^\W_]+", unaccented(text).casefold()))


def key_of(words: Iterable[str]) -> str:
    """Words run together."""
    return "".join(words)


@functools.cache
def several() -> Mapping[str, tuple[str, ...]]:
    """Words that name two or more values at once, run together, and those values."""
    found = {key_of(text_words(word)): tuple(many) for word, many in data()["ambiguous"].items()}
    for group in (*names.together(), *names.general()):
        found |= {key_of(text_words(s.text)): group.names for s in group.spellings}
    return found


def without_periods(words: Sequence[str]) -> tuple[Words, frozenset[str]]:
    """Words without those that say how often, and the periods these said."""
    table = period_words()
    found = frozenset(table[word] for word in words if word in table)
    kept = tuple(word for word in words if word not in table)
    if found:
        kept = tuple(word for word in kept if word != "per")
    return kept, found


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Meaning:
    """One thing that a parameter may ask for.

    `formula` is set where the person's templates do not have the value but the catalog computes it
    from roots that they have. `usual`: the units in use for it. `spellings` and `bags` say of each
    way to write it whether that is a weak one; those that are `said` mean nothing in a description.
    """

    name: str
    sort: Sort
    unit: str = ""
    usual: tuple[str, ...] = ()
    substance: str | None = None
    domain: Domain | None = None
    typical: float | None = None
    field: str = ""
    formula: str = ""
    spellings: Mapping[str, bool]
    bags: Mapping[frozenset[str], bool]
    said: frozenset[str] = frozenset()

    @property
    def periodic(self) -> bool:
        """Whether it is money per time."""
        code, slash, _ = self.unit.partition("/")
        return bool(slash) and code in currencies()


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """How far words name a meaning: `extra` are those that say something else as well.

    `after` are the extra words behind the name. In a compound the last noun is what is meant: an
    insulin treatment is a treatment.
    """

    meaning: Meaning
    weak: bool
    extra: Words
    periods: frozenset[str]
    after: Words = ()


def match(words: Words, meaning: Meaning) -> Match | None:
    """How words name a meaning: by a run of them, or by all of them in another order."""
    periods: frozenset[str] = frozenset()
    if meaning.periodic:
        words, periods = without_periods(words)
    neutral = data()["neutral"]
    best: Match | None = None
    for start, end in _spans(len(words)):
        weak = meaning.spellings.get(key_of(words[start:end]))
        if weak is None:
            continue
        rest = (*words[:start], *words[end:])
        found = Match(
            meaning=meaning,
            weak=weak,
            extra=tuple(w for w in rest if w not in neutral and w not in meaning.spellings),
            periods=periods,
            after=tuple(w for w in words[end:] if w not in neutral),
        )
        if best is None or (len(found.extra), found.weak) < (len(best.extra), best.weak):
            best = found
    if best is None or best.extra:
        for bag in (frozenset(words), frozenset(w for w in words if w not in neutral)):
            weak = meaning.bags.get(bag)
            if weak is not None:
                return Match(meaning=meaning, weak=weak, extra=(), periods=periods)
    return best


def _spans(length: int) -> Iterator[tuple[int, int]]:
    for size in range(min(length, _LONGEST), 0, -1):
        for start in range(length - size + 1):
            yield start, start + size


class Meanings:
    """Everything a tool may ask of this person, by the words for it."""

    def __init__(
        self,
        roots: Mapping[RootName, Root],
        templates: Sequence[Template],
        identifiers: Sequence[str] = (),
    ) -> None:
        found: dict[str, Meaning] = {}
        fields = {root: t.field for t in reversed(templates) for root in t.roots}
        for name, root in roots.items():
            found[name] = _of_root(root, fields.get(name, ""))
        _share(roots, found)
        for template in templates:
            for meaning in _computed(template, known=None):
                found.setdefault(meaning.name, meaning)
        for title in catalog():
            for meaning in _computed(load_template(title), known=roots):
                found.setdefault(meaning.name, meaning)
        for called in identifiers:
            found.setdefault(called, _of_identifier(called))
        self.all = tuple(m for n, m in found.items() if n not in data()["unspoken"])
        self.by_name = {meaning.name: meaning for meaning in found.values()}
        self._by_key: dict[str, list[Meaning]] = {}
        for meaning in self.all:
            for key in meaning.spellings.keys() - meaning.said:
                self._by_key.setdefault(key, []).append(meaning)
        self.lexicon = frozenset(
            word for m in self.all for bag in m.bags for word in bag
        ) | frozenset().union(*(data()[k] for k in ("plain", "neutral", "self", "medicine")))

    def named(self, words: Words, meaning: Meaning) -> tuple[int, int] | None:
        """Where the words of a text first name a meaning: the longest run of them."""
        for size in range(min(_LONGEST, len(words)), 0, -1):
            for start in range(len(words) - size + 1):
                key = key_of(words[start : start + size])
                if key in meaning.spellings and key not in meaning.said:
                    return start, start + size
        return None

    def mentions(self, words: Words) -> list[tuple[int, Meaning, bool]]:
        """Meanings named in the words of a text, in order: place, meaning, whether weakly."""
        found: list[tuple[int, Meaning, bool]] = []
        place = 0
        while place < len(words):
            step = 1
            for size in range(min(_LONGEST, len(words) - place), 0, -1):
                key = key_of(words[place : place + size])
                telling = len(key) >= names.SHORT and canonical(key) is None  # "years" is a unit
                hits = self._by_key.get(key, []) if telling else []
                if hits:
                    found += [(place, meaning, meaning.spellings[key]) for meaning in hits]
                    step = size
                    break
            place += step
        return found


def _share(roots: Mapping[RootName, Root], found: dict[str, Meaning]) -> None:
    """A general word that only the word lists give one root goes to its kin as well.

    With a fasting and a random glucose among the roots, `glucose` alone is either.
    """
    own = {
        name: {frozenset(text_words(text)) for text in (name, *root.aliases)}
        for name, root in roots.items()
    }
    added: list[tuple[str, frozenset[str], str]] = []
    for name in roots:
        for bag in found[name].bags:
            key = _key_in(bag, found[name].spellings)
            if key and bag not in own[name]:
                kin = [n for n in roots if n != name and any(bag < each for each in own[n])]
                added += [(other, bag, key) for other in kin]
    for other, bag, key in added:
        meaning = found[other]
        found[other] = replace(
            meaning,
            spellings={key: True, **meaning.spellings},
            bags={bag: True, **meaning.bags},
        )


def _key_in(bag: frozenset[str], spellings: Mapping[str, bool]) -> str:
    """The spelling of these words, if it is one word: a longer one is no general word."""
    word = next(iter(bag)) if len(bag) == 1 else ""
    return word if word in spellings else ""


def _of_root(root: Root, field: str) -> Meaning:
    own = canonical(root.unit) or root.unit
    domain = root.domain
    flag = domain.size == 2 and (domain.lower, domain.upper) == (0.0, 1.0)
    middle = domain.lower + domain.width / 2
    return replace(
        _spelled(str(root.name), root.aliases, own),
        sort="flag" if flag else "value",
        domain=domain,
        typical=middle if root.mean is None else root.mean,
        field=field,
    )


def _computed(template: Template, *, known: Mapping[RootName, Root] | None) -> Iterator[Meaning]:
    """A template's computed values; those of a foreign template only if its roots are known."""
    graph = Graph.of(template)
    for node in graph.order:
        if node.formula is None:
            continue
        formula = ""
        if known is not None:
            needed = graph.rests_on(node.formula)
            if any(r not in known or known[r].unit != template.roots[r].unit for r in needed):
                continue
            formula = to_text(graph.in_roots(node.formula))
        texts = [node.name]
        if (root := template.roots.get(RootName(node.name))) is not None:
            texts += root.aliases
        if node.name == template.target.name:
            texts.append(template.title.partition("(")[0])
        own = canonical(node.unit) or node.unit
        yield replace(_spelled(texts[0], texts[1:], own), field=template.field, formula=formula)


def _of_identifier(name: str) -> Meaning:
    known = names.identifier_called(name)
    if known is None:
        return Meaning(
            name=name, sort="identifier", spellings={key_of(words_of(name)): True}, bags={}
        )
    texts = {**dict.fromkeys(known.loose, True), **dict.fromkeys(known.plain, False)}
    return Meaning(
        name=name,
        sort="identifier",
        spellings={key_of(words_of(text)): weak for text, weak in texts.items()},
        bags={frozenset(words_of(text)): weak for text, weak in texts.items()},
    )


def _spelled(name: str, aliases: Sequence[str], unit: str) -> Meaning:
    """A value with its spellings, run together and as words in any order, and its units."""
    concept = names.concept_of(name, aliases)
    listed = () if concept is None else concept.units
    found = Meaning(
        name=name,
        sort="value",
        unit=unit,
        usual=(listed if unit in listed or not unit else (unit, *unstated(unit))) or (unit,),
        substance=substance_of((name, *aliases)),
        spellings={},
        bags={},
    )
    every = names.spellings_of(name, aliases)
    spellings: dict[str, bool] = {}
    bags: dict[frozenset[str], bool] = {}
    for spelling in every:
        words = text_words(spelling.text.replace("+", " "))
        if key_of(words):
            # What one of two spellings does not need, the other does not either.
            spellings[key_of(words)] = spellings.get(key_of(words), True) and spelling.weak
        if words and not spelling.said:
            bags[frozenset(words)] = bags.get(frozenset(words), True) and spelling.weak
    for spelling in every if found.periodic else ():
        words = without_periods(text_words(spelling.text))[0]
        other = names.concept_of(key_of(words)) if key_of(words) else None
        # Less than what is listed, so weaker; "rate mensili" without its period is another value.
        if key_of(words) and other in (None, concept):
            spellings.setdefault(key_of(words), True)
            bags.setdefault(frozenset(words), True)
    said = frozenset(key_of(text_words(s.text)) for s in every if s.said)
    return replace(found, spellings=spellings, bags=bags, said=said)


@functools.lru_cache(maxsize=32)
def _meanings(
    roots: tuple[Root, ...], templates: tuple[Template, ...], identifiers: tuple[str, ...]
) -> Meanings:
    return Meanings({root.name: root for root in roots}, templates, identifiers)


def meanings(
    roots: Mapping[RootName, Root], templates: Sequence[Template], identifiers: Sequence[str] = ()
) -> Meanings:
    """What this person has, by the words for it; made once, then kept."""
    return _meanings(tuple(roots.values()), tuple(templates), tuple(identifiers))
