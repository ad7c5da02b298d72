"""Values that arguments name themselves: FHIR observations, and arrays of names beside values.

A tool with an open schema says nothing of what it takes; the arguments do. Read are objects that
hold a quantity and what it is of (`code` and `valueQuantity` of an Observation and its components),
two arrays of one length of which one names what the other holds, and for a tool about a person a
number whose key says nothing beside a text that is nothing but the name of a value. A place is
decided by names and units alone, never by the number that stands there. Names beside numbers in
other ways are the text channel's to read.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from rootguard.channels.tools.answers import ReleasedMeasure
from rootguard.channels.tools.comparisons import flat
from rootguard.channels.tools.docstrings import asked_for
from rootguard.channels.tools.units import fitting, in_unit, same_unit, units_in, without_units
from rootguard.channels.tools.words import Meaning, Meanings, data, match, text_words, words_of
from rootguard.language.units import canonical

Place = tuple[str | int, ...]
MAX_DEPTH: Final = 32  # the walk calls itself; arguments are a handful of levels deep
_QUANTITIES: Final = ("valueQuantity", "valueInteger", "valueDecimal")
# LOINC codes of the roots that laboratories and monitors send most, from the public LOINC table.
_LOINC: Final[Mapping[str, str]] = {
    "1920-8": "ast",
    "1742-6": "alt",
    "777-3": "plt",
    "26515-7": "plt",
    "29463-7": "wt",
    "3141-9": "wt",
    "8302-2": "ht",
    "2160-0": "scr",
    "8480-6": "sbp",
    "8462-4": "dbp",
    "8867-4": "hr",
    "1558-6": "glu",
    "4548-4": "a1c",
    "718-7": "hb",
    "1975-2": "bili",
    "1751-7": "alb",
    "2951-2": "na",
    "2093-3": "tc",
    "2085-9": "hdl",
    "2571-8": "tg",
    "30525-0": "age",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Stated:
    """A number that arguments say is one of the person's values; `measure` None: unit not clear."""

    place: Place
    name: str
    measure: ReleasedMeasure | None


def stated(
    arguments: Mapping[str, object], known: Meanings, *, personal: bool = False
) -> tuple[Stated, ...]:
    """The values that arguments name themselves, and where they stand.

    `personal`: they are for a tool that is about a person's health or money.
    """
    found = {each.place: each for each in _walk(arguments, (), known, 0, personal=personal)}
    return tuple(found.values())


def says_nothing(key: str) -> bool:
    """Whether a key is a word like "value" or "result", of which a text beside it may speak."""
    return all(len(word) == 1 or word in _silent() for word in words_of(key))


@cache
def _silent() -> frozenset[str]:
    return frozenset(data()["generic"] | data()["replies"] | _SILENT)


def _beside(node: Mapping[str, object], place: Place, known: Meanings) -> Iterator[Stated]:
    """The only number of an object, whose key says nothing, beside a text that names a value."""
    numbers = [str(key) for key, value in node.items() if _is_number(value)]
    if len(numbers) != 1 or not says_nothing(numbers[0]):
        return
    for text in node.values():
        if not isinstance(text, str) or len(text) > _LONGEST_NAME:
            continue
        said = " ".join(w for w in text_words(without_units(text)) if w not in data()["self"])
        found = _called(said, known)
        if len(found) == 1:
            every = (said for said in node.values() if isinstance(said, str))
            units = [unit for said in every for unit, _ in units_in(flat(said))]
            made = _stated((*place, numbers[0]), found[0], units)
            # Under the usual keys the text channel reads it in the value's own unit.
            if made.measure is not None or numbers[0].lower() not in _USUAL:
                yield made


_LONGEST_NAME: Final = 80  # characters, with room for a unit; longer is a sentence, not a name
# What the text channel reads beside a name by itself, and other keys that say as little.
_USUAL: Final = frozenset(("value", "val", "v", "result", "amount", "reading", "number", "num"))
_SILENT: Final = frozenset(("how", "much", "many", "magnitude", "figure", "level", "reading"))


def _walk(
    node: object, place: Place, known: Meanings, depth: int, *, personal: bool
) -> Iterator[Stated]:
    if depth > MAX_DEPTH:
        return
    if isinstance(node, Mapping):
        if personal:
            yield from _beside(node, place, known)
        yield from _observed(node, place, known)
        yield from _answered(node, place, known)
        yield from _parallel(node, place, known)
        yield from _listed(node, place, known)
        for key, value in node.items():
            yield from _walk(value, (*place, str(key)), known, depth + 1, personal=personal)
    elif isinstance(node, list):
        yield from _paired(node, place, known)
        for at, value in enumerate(node):
            yield from _walk(value, (*place, at), known, depth + 1, personal=personal)


def _observed(node: Mapping[str, object], place: Place, known: Meanings) -> Iterator[Stated]:
    """The quantity of a FHIR Observation, or of one of its components."""
    key = next((key for key in _QUANTITIES if key in node), None)
    meaning = None if key is None else _meant(node, known)
    if key is None or meaning is None:
        return
    quantity = node[key]
    if isinstance(quantity, Mapping):
        if not _is_number(quantity.get("value")):
            return
        said = [str(quantity[part]) for part in ("unit", "code") if quantity.get(part)]
        yield _stated((*place, key, "value"), meaning, said)
    elif _is_number(quantity):
        yield _stated((*place, key), meaning, [])


def _answered(node: Mapping[str, object], place: Place, known: Meanings) -> Iterator[Stated]:
    """The numbers in the answers of an item of a FHIR QuestionnaireResponse."""
    answers, text = node.get("answer"), node.get("text")
    if not isinstance(answers, list) or not isinstance(text, str):
        return
    found = {m.name: m for m in _called(_noun(text), known)}
    if len(found) != 1:
        return
    for at, each in enumerate(answers):
        if isinstance(each, Mapping):
            asked = {**each, "text": next(iter(found))}
            yield from _observed(asked, (*place, "answer", at), known)


def _noun(text: str) -> str:
    """What a question asks for: "What is your age?" is "age"."""
    return _QUESTION.sub("", asked_for(text)).strip(" ?:.")


_QUESTION: Final = re.compile(
    r"(?i)\A\s*(?:please\s+)?(?:what (?:is|was|are)|what's|enter|give|state)?\s*(?:your|the)?\s*"
)


def _paired(node: Sequence[object], place: Place, known: Meanings) -> Iterator[Stated]:
    """A name and its number in a list: ["AST", 47], or as a program's options: "--age", "54"."""
    for at in range(len(node) - 1):
        name, value = node[at], node[at + 1]
        if not isinstance(name, str):
            continue
        option = name.startswith("-")
        number = _is_number(value) if not option else isinstance(value, str) and _is_digits(value)
        found = _called(name.lstrip("-").replace("-", " "), known) if number else []
        if len(found) != 1 or (not option and len(node) != 2):
            continue
        # A text cannot be filled in as a number, so an option is refused, whatever its unit.
        made = _stated((*place, at + 1), found[0], [])
        yield replace(made, measure=None) if option else made


def _listed(node: Mapping[str, object], place: Place, known: Meanings) -> Iterator[Stated]:
    """Names in one text and as many numbers in another: "AST,ALT" beside "47,61". Refused."""
    split = {
        str(key): [part for part in _SEPARATOR.split(value.strip()) if part]
        for key, value in node.items()
        if isinstance(value, str) and len(value) <= _LONGEST_LIST
    }
    for key, numbers in split.items():
        if len(numbers) < 2 or not all(map(_is_digits, numbers)):
            continue
        for names in split.values():
            called = [_called(name, known) for name in names] if len(names) == len(numbers) else []
            found = [each[0] for each in called if len(each) == 1]
            if found:
                yield Stated(place=(*place, key), name=found[0].name, measure=None)


_SEPARATOR: Final = re.compile(r"\s*[,;|\t]\s*")
_LONGEST_LIST: Final = 2_000  # characters; longer is prose, and every pair of texts is compared


def _is_digits(text: str) -> bool:
    return re.fullmatch(r"-?\d+(?:\.\d+)?", text) is not None


def _parallel(node: Mapping[str, object], place: Place, known: Meanings) -> Iterator[Stated]:
    """Numbers in one array that another of its length names; a third may have their units."""
    arrays = {str(key): value for key, value in node.items() if isinstance(value, list) and value}
    texts = {k: v for k, v in arrays.items() if all(isinstance(each, str) for each in v)}
    for key, numbers in arrays.items():
        if not all(map(_is_number, numbers)):
            continue
        beside = [v for v in texts.values() if len(v) == len(numbers)]
        named = [[_called(text, known) for text in texts_] for texts_ in beside]
        for at in range(len(numbers)):
            found = {m.name: m for row in named for m in row[at]}
            if len(found) == 1:
                units = [row[at] for row in beside if canonical(row[at]) is not None]
                yield _stated((*place, key, at), next(iter(found.values())), units)


def _meant(node: Mapping[str, object], known: Meanings) -> Meaning | None:
    """What a coded thing is, by its code or by the texts beside it."""
    texts: list[str] = []
    for part in (node.get("code"), node.get("display"), node.get("text"), node.get("name")):
        texts += _texts(part)
    for text in texts:
        if text in _LOINC and _LOINC[text] in known.by_name:
            return known.by_name[_LOINC[text]]
    found = {m.name: m for text in texts for m in _called(text, known)}
    return next(iter(found.values())) if len(found) == 1 else None


def _texts(part: object) -> list[str]:
    if isinstance(part, str):
        return [part]
    if isinstance(part, Mapping):
        return [t for key in ("text", "display", "code", "coding") for t in _texts(part.get(key))]
    if isinstance(part, Sequence):
        return [text for each in part for text in _texts(each)]
    return []


def _called(text: str, known: Meanings) -> list[Meaning]:
    """The values that a text names and nothing else."""
    words = text_words(text)
    found = [m for each in known.all if (m := match(words, each)) is not None] if words else []
    return [m.meaning for m in found if not m.extra and m.meaning.sort == "value"]


def _stated(place: Place, meaning: Meaning, said: Sequence[str]) -> Stated:
    for text in said:
        unit = canonical(text.strip("{}[]"))
        fit = None if unit is None else fitting(unit, meaning)
        if fit is not None and in_unit(1.0, meaning, fit) is not None:
            return Stated(place=place, name=meaning.name, measure=_measure(meaning, fit))
    alone = not said and len(meaning.usual or (meaning.unit,)) == 1
    measure = _measure(meaning, (meaning.usual or (meaning.unit,))[0]) if alone else None
    return Stated(place=place, name=meaning.name, measure=measure)


def _measure(meaning: Meaning, unit: str) -> ReleasedMeasure:
    return ReleasedMeasure(
        name=meaning.name,
        unit=None if same_unit(unit, meaning) else unit,
        own=meaning.unit,
        substance=meaning.substance,
        formula=meaning.formula,
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
