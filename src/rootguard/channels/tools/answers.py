"""Questions about a root that no single number answers, and their answers from released values.

A tool may ask "Is your AST above 40 U/L?", for an age band, for the points that platelets give, or
for a list "age, AST, ALT in that order". Left to the agent, each such answer is a fact about the
raw value, and ten of them find it. So they are recognised here, statically, as one of a closed set
of kinds, and `answer` computes them from released values and nothing else: whoever bisects finds
the released value. What is about a root and cannot be so computed is `Unanswerable`, in words.
"""

import functools
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from rootguard.channels.tools.comparisons import Inequality, NumberRange, comparisons, flat
from rootguard.channels.tools.evidence import LINKS, latin
from rootguard.channels.tools.fields import Field, Path
from rootguard.channels.tools.units import (
    described_units,
    fitting,
    in_unit,
    same_unit,
    without_described_units,
)
from rootguard.channels.tools.words import Meaning, Meanings, data, key_of, several, text_words
from rootguard.language.names import SHORT
from rootguard.language.units import readings


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasedMeasure:
    """A released value in the unit of a question, None for the value's own."""

    name: str
    unit: str | None = None
    own: str = ""
    substance: str | None = None
    formula: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Term:
    """One comparison: whether the released value lies in an interval."""

    measure: ReleasedMeasure
    interval: NumberRange


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A choice, and when it holds: if any of its terms does; without terms, otherwise."""

    choice: object
    terms: tuple[Term, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _CaseAnswer:
    parameter: Path
    cases: tuple[Case, ...]
    why: str
    required: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ThresholdAnswer(_CaseAnswer):
    """A threshold: true or false, yes or no, or one of two numbers. The first case that holds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BandAnswer(_CaseAnswer):
    """One of several bands of one value, from the lowest up.

    Bands may have gaps (20-24, 25-29): a value belongs to the last one that begins below it.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectionAnswer(_CaseAnswer):
    """A list of those statements that hold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowAnswer:
    """Several values in order: an array, or one text with a separator."""

    parameter: Path
    measures: tuple[ReleasedMeasure, ...]
    separator: str | None
    why: str
    required: bool = False


Answer = ThresholdAnswer | BandAnswer | SelectionAnswer | RowAnswer


@dataclass(frozen=True, kw_only=True, slots=True)
class Unanswerable:
    """A question about values that cannot be answered from what is released, and why."""

    names: tuple[str, ...]
    why: str


def measures_of(asked: Answer) -> tuple[ReleasedMeasure, ...]:
    """The values on which an answer rests."""
    if isinstance(asked, RowAnswer):
        return asked.measures
    return tuple(dict.fromkeys(term.measure for case in asked.cases for term in case.terms))


def answer(asked: Answer, value: Callable[[ReleasedMeasure], float]) -> object:
    """The answer, a function of released values alone; `value` gives one in the measure's unit."""
    if isinstance(asked, RowAnswer):
        numbers = [value(measure) for measure in asked.measures]
        if asked.separator is None:
            return numbers
        return asked.separator.join(_digits(number) for number in numbers)
    if isinstance(asked, ThresholdAnswer):
        return next(case.choice for case in asked.cases if _holds(case, value))
    if isinstance(asked, SelectionAnswer):
        return [case.choice for case in asked.cases if _holds(case, value)]
    if isinstance(asked, BandAnswer):
        return _band(asked, value)
    assert_never(asked)


def _holds(case: Case, value: Callable[[ReleasedMeasure], float]) -> bool:
    return not case.terms or any(value(term.measure) in term.interval for term in case.terms)


def _band(asked: BandAnswer, value: Callable[[ReleasedMeasure], float]) -> object:
    chosen = asked.cases[0].choice
    for case in asked.cases:
        (term,) = case.terms
        start = NumberRange(lower=term.interval.lower, with_lower=term.interval.with_lower)
        if value(term.measure) in start:
            chosen = case.choice
    return chosen


def _digits(number: float) -> str:
    return f"{number:.12g}"


# Recognition.

_YES: Final = frozenset(("yes", "true", "y", "1", "ja", "oui", "si"))
_NO: Final = frozenset(("no", "false", "n", "0", "nein", "non"))
_NEGATED: Final = re.compile(
    r"\b(?:unless|except|isn't|is not|not (?:above|over|below|under|greater|less|more)|"
    r"(?:false|no|0) (?:if|when|for)|otherwise true)\b"
)
_ASIDE: Final = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_REST: Final = re.compile(r"\b(?:otherwise|else|above|below|over|under|rest|more|less|not)\b")
_CODE: Final = re.compile(
    r"(?:^|[\s(,;.])['\"]?(?P<code>-?\d{1,3}|[a-z])['\"]?\s*[:=]\s*[^,;:=]{0,48}\Z"
)
# What is compared without its name: "weighs more than 80 kg", "taller than 1.80 m".
_UNNAMED: Final[Mapping[str, re.Pattern[str]]] = {
    "age": re.compile(r"\b(?:older|younger|years? old|years of age|aged)\b"),
    "wt": re.compile(r"\b(?:weigh(?:s|ing)?|heavier|lighter)\b"),
    "ht": re.compile(r"\b(?:taller|shorter)\b"),
    "income": re.compile(r"\bearn(?:s|ing)?\b"),
}
_BEFORE: Final = 6  # words before a comparison that may name what is compared


class Recognizer:
    """Finds the questions of one tool. `about` is what the tool says of itself."""

    def __init__(self, meanings: Meanings, about: str, words: frozenset[str]) -> None:
        self._meanings = meanings
        self._about = flat(about)
        self._words = words
        self._around: frozenset[str] = frozenset()

    def _fits_tool(self, meaning: Meaning) -> bool:
        """Whether a name that may mean other things means this one here."""
        lists, words = data(), self._words | self._around
        field = lists["finance" if meaning.field == "finance" else "medicine"]
        if self._around & lists["self"]:
            return True
        thing = (lists["things"] - lists["passing"]) & words
        return bool(words & (field | lists["self"])) and not thing

    def read(self, field: Field, text: str) -> Answer | Unanswerable | None:
        """What a parameter asks, if it is a question of one of the kinds."""
        name, said = spoken(_name(field)), flat(text)
        self._around = frozenset((*text_words(name), *text_words(said)))
        choices = field.choices or (field.listed if field.kind == "string" else ())
        if not choices and field.kind == "integer" and (field.lower, field.upper) == (0, 1):
            choices = (0, 1)
        if field.path[-1] == "*" and choices:
            return self._selection(field, choices)
        if field.several:
            return None
        banded = self._bands(field, name, said, choices)
        if banded is not None:
            return banded
        if choices or field.kind in ("number", "integer"):
            coded = self._coded(field, name, said, choices)
            if coded is not None:
                return coded
        if field.kind == "boolean" or _truths(choices):
            return self._verdict(field, name, said, choices)
        return None

    # -- kinds -------------------------------------------------------------------------------

    def _verdict(
        self, field: Field, name: str, said: str, choices: Sequence[object]
    ) -> Answer | Unanswerable | None:
        terms = self._condition(said, name)
        if terms is None:
            return self._several(f"{name} {said}")
        if isinstance(terms, Unanswerable):
            return terms
        no, yes = _truths(choices) or (False, True)
        cases = (Case(choice=yes, terms=terms), Case(choice=no))
        return ThresholdAnswer(
            parameter=field.path, cases=cases, why=_told(terms), required=field.required
        )

    def _several(self, said: str) -> Unanswerable | None:
        """A comparison of words that name several values at once: "blood pressure >= 140/90"."""
        if not comparisons(said) or not (self._words | self._around) & data()["medicine"]:
            return None
        words = text_words(said)
        for size in (2, 1):
            for start in range(len(words) - size + 1):
                key = key_of(words[start : start + size])
                if len(key) <= SHORT - 1 and key != "bp":  # "RR" breathes in most schemas
                    continue
                names = several().get(key, ())
                known = tuple(name for name in names if name in self._meanings.by_name)
                if known:
                    return Unanswerable(names=known, why="it may be any of these")
        return None

    def _coded(
        self, field: Field, name: str, said: str, choices: Sequence[object]
    ) -> Answer | Unanswerable | None:
        """A legend: "0: <45 years, 1: 45-64 years", "2 when platelets > 300, else 7"."""
        found = comparisons(said)
        if not found or (not choices and field.kind not in ("number", "integer")):
            return None
        cases: list[Case] = []
        for at, each in enumerate(found):
            begin = found[at - 1].end if at else 0
            code = _code(said[begin : each.start], choices, field)
            if code is None:
                continue
            meaning = self._compared(said, each, name)
            if meaning is None:
                return None
            term = self._term(said, each, meaning)
            if isinstance(term, Unanswerable):
                return term
            cases.append(Case(choice=code, terms=(term,)))
        if not cases or (len(cases) < 2 and not choices):
            return None
        names = _names(cases)
        left = [c for c in choices if c not in [case.choice for case in cases]]
        if len(names) > 1 or len({str(case.choice) for case in cases}) < len(cases):
            return Unanswerable(names=names, why="its choices are about several values")
        if len(left) == 1 and len(cases) == 1 and _REST.search(said[found[-1].end :]):
            cases.append(Case(choice=left[0]))
            return ThresholdAnswer(
                parameter=field.path,
                cases=tuple(cases),
                why=_told(cases[0].terms),
                required=field.required,
            )
        if left or len(cases) < 2:
            return Unanswerable(names=names, why="not all of its choices are explained")
        return _made_band(field, cases)

    def _bands(
        self, field: Field, name: str, said: str, choices: Sequence[object]
    ) -> Answer | Unanswerable | None:
        """Choices that are intervals themselves: "20-24", "under 40", "40 and over"."""
        cases: list[Case] = []
        for choice in choices:
            written = flat(str(choice))
            found = comparisons(written)
            if not isinstance(choice, str) or len(found) != 1:
                continue
            meaning = self._compared(written, found[0], f"{name} {said}")
            if meaning is None:
                return None
            term = self._term(written, found[0], meaning, said)
            if isinstance(term, Unanswerable):
                return term
            cases.append(Case(choice=choice, terms=(term,)))
        if not cases:
            return None
        if len(_names(cases)) > 1 or len(cases) < 2:
            return Unanswerable(names=_names(cases), why="its choices are not bands of one value")
        return _made_band(field, cases)

    def _selection(self, field: Field, choices: Sequence[object]) -> Answer | Unanswerable | None:
        cases: list[Case] = []
        for choice in choices:
            terms = self._condition(flat(str(choice)), "")
            if isinstance(terms, Unanswerable):
                return terms
            if terms is not None:
                cases.append(Case(choice=choice, terms=terms))
        if not cases:
            return None
        if len(cases) < len(choices):
            return Unanswerable(
                names=_names(cases), why="some of its statements are not about values"
            )
        return SelectionAnswer(
            parameter=field.path[:-1], cases=tuple(cases), why=_told(cases[0].terms)
        )

    # -- parts -------------------------------------------------------------------------------

    def _condition(self, said: str, name: str) -> tuple[Term, ...] | Unanswerable | None:
        """A statement about values: comparisons joined by "or"."""
        outside = _ASIDE.sub(" ", said)
        body = outside if comparisons(outside) else said
        found = comparisons(body)
        told = any(self._compared(body, each, name) for each in found)
        if not found or (comparisons(name) and not told):
            body = name
            found = comparisons(body)
        terms: list[Term] = []
        strange = False
        for each in found:
            meaning = self._compared(body, each, name)
            if meaning is None:
                strange = True
                continue
            term = self._term(body, each, meaning, said)
            if isinstance(term, Unanswerable):
                return term
            terms.append(term)
        if not terms:
            return None
        names = tuple(dict.fromkeys(term.measure.name for term in terms))
        rest = self._leftover(body, found, names) if body is not name else set()
        rest -= set(text_words(name))  # "hypertension (over 160 mmHg systolic)" defines its name
        if strange or rest:
            return Unanswerable(names=names, why="it asks about other things in the same breath")
        if _NEGATED.search(body) or (len(terms) > 1 and re.search(r"\band\b", _cut(body, found))):
            return Unanswerable(names=names, why="how its parts go together is not clear")
        return tuple(terms)

    def _leftover(self, body: str, found: Sequence[Inequality], names: Collection[str]) -> set[str]:
        """Words of a statement beside its comparisons and the values that these are about."""
        lists = data()
        own = {
            word
            for name in names
            for bag in self._meanings.by_name[name].bags
            for word in (*bag, key_of(bag))
        }
        own |= {key for name in names for key in self._meanings.by_name[name].spellings}
        fine = lists["plain"] | lists["neutral"] | lists["self"] | lists["harmless"]
        fine = fine | lists["verdicts"] | LINKS | lists["filler"] | own | lists["banded"]
        rest = set()
        for word in text_words(_cut(without_described_units(body), found)):
            if latin(word) and not (word in fine or word[:1].isdigit() or _is_unit(word)):
                rest.add(word)
        return rest

    def _compared(self, text: str, each: Inequality, name: str) -> Meaning | None:
        """What a comparison is about: named before it, else in the text, else by the parameter."""
        before = self._before(text[: each.start])
        if before is not None:
            return before
        after = re.split(r"\b(?:or|and)\b|[,;]", text[each.end : each.end + 60])[0]
        near = re.split(r"\b(?:or|and)\b|[,;]", text[: each.start])[-1]
        for part in (near, after, name, text if len(comparisons(text)) == 1 else ""):
            found = self._named(part)
            if found is not None:
                return found
        # Two or three words on either side: what stands further off is about something else.
        around = text[max(0, each.start - 16) : each.end + 24]
        for meant, words in _UNNAMED.items():
            meaning = self._meanings.by_name.get(meant)
            if meaning is not None and words.search(around) and self._fits_tool(meaning):
                return meaning
        return None

    def _before(self, text: str) -> Meaning | None:
        """The value whose name ends right where a comparison begins."""
        skipped = data()["neutral"] | LINKS | {"level", "count", "index"}
        words = list(text_words(text))[-_BEFORE - 4 :]
        while words and words[-1] in skipped and not self._keyed(words[-1:]):
            words.pop()
        for size in range(min(_BEFORE, len(words)), 0, -1):
            found = self._keyed(words[-size:])
            if found:
                rest = words[:-size]
                if rest and rest[-1] in data()["different"]:
                    return None
                return found[0] if len(found) == 1 else None
        return None

    def _keyed(self, words: Sequence[str]) -> list[Meaning]:
        key = key_of(words)
        if len(key) < 2:
            return []
        return [
            m
            for m in self._meanings.all
            if key in m.spellings
            and key not in m.said
            and m.sort == "value"
            and (not m.spellings[key] or self._fits_tool(m))
        ]

    def _named(self, text: str) -> Meaning | None:
        """The only value that a text names."""
        words = text_words(text)
        found = {}
        for place, meaning, weak in self._meanings.mentions(words):
            modified = place > 0 and words[place - 1] in data()["different"]
            if meaning.sort == "value" and not modified and (not weak or self._fits_tool(meaning)):
                found[meaning.name] = meaning
        return next(iter(found.values())) if len(found) == 1 else None

    def _term(
        self, text: str, each: Inequality, meaning: Meaning, more: str = ""
    ) -> Term | Unanswerable:
        """A comparison with its unit: behind its number, else said elsewhere, else the usual."""
        if meaning.substance == "glucose" and "fasting" not in f"{text} {more} {self._about}":
            why = "it does not say that the glucose is a fasting one"
            return Unanswerable(names=(meaning.name,), why=why)
        unit = self._unit(text, each, meaning, more)
        if unit is None:
            return Unanswerable(names=(meaning.name,), why="it does not say in which unit")
        measure = ReleasedMeasure(
            name=meaning.name,
            unit=None if same_unit(unit, meaning) else unit,
            own=meaning.unit,
            substance=meaning.substance,
            formula=meaning.formula,
        )
        return Term(measure=measure, interval=each.interval)

    def _unit(self, text: str, each: Inequality, meaning: Meaning, more: str) -> str | None:
        if not meaning.unit:
            return ""
        at = each.number_end + (text[each.number_end : each.number_end + 1] == " ")
        for unit, _ in readings(text, at):
            fit = fitting(unit, meaning)
            if fit is not None and in_unit(1.0, meaning, fit) is not None:
                return fit
        for where in (text, more, self._about):
            fits = {fit for unit, _ in described_units(where) if (fit := fitting(unit, meaning))}
            fits = {fit for fit in fits if in_unit(1.0, meaning, fit) is not None}
            if len(fits) == 1:
                return next(iter(fits))
        usual = meaning.usual or (meaning.unit,)
        if len(usual) == 1:
            return usual[0]
        return _by_domain(meaning, usual, each.interval)


def _by_domain(meaning: Meaning, usual: Iterable[str], interval: NumberRange) -> str | None:
    """The only unit in which the bounds of an interval are values that occur."""
    if meaning.domain is None:
        return None
    fitting_units = []
    for unit in usual:
        ends = [in_unit(end, meaning, unit) for end in (meaning.domain.lower, meaning.domain.upper)]
        if ends[0] is None or ends[1] is None:
            continue
        low, high = sorted(end for end in ends if end is not None)
        bounds = [b for b in (interval.lower, interval.upper) if math.isfinite(b)]
        if all(low <= bound <= high for bound in bounds):
            fitting_units.append(unit)
    return fitting_units[0] if len(fitting_units) == 1 else None


def rows(
    field: Field, text: str, part: Callable[[str], ReleasedMeasure | str | None]
) -> RowAnswer | Unanswerable | None:
    """Values in order: "age, AST, ALT in that order", as an array or as one text.

    `part` reads one of the parts as a description of a value; a name if its unit is not clear.
    """
    array = field.path[-1] == "*" and field.kind in ("number", "integer")
    if not array and (field.kind != "string" or field.choices):
        return None
    parts, separator = _parts(text)
    if len(parts) < 2:
        return None
    found = [part(each) for each in parts]
    known = [measure for measure in found if isinstance(measure, ReleasedMeasure)]
    names = tuple(each if isinstance(each, str) else each.name for each in found if each)
    if len(names) < 2 or (len(names) < len(found) and not array):
        return None
    if len(known) < len(found):
        return Unanswerable(names=names, why="not all of its places are understood")
    return RowAnswer(
        parameter=field.path[:-1] if array else field.path,
        measures=tuple(known),
        separator=None if array else separator,
        why=f"{', '.join(measure.name for measure in known)} in order",
        required=field.required,
    )


_ORDER: Final = re.compile(
    r"\(?\b(?:in (?:that|this|the following) order|in order|respectively|comma[- ]separated|"
    r"separated by (?:commas|spaces|semicolons)|space[- ]separated|as (?:a )?csv|csv|values of|"
    r"list of|array of|ordered)\b\)?:?",
    re.IGNORECASE,
)


def _parts(text: str) -> tuple[list[str], str]:
    """The parts of a list in words, and what separates them in a text."""
    lowered = text.casefold()
    body = _ORDER.sub(" ", text).strip(" .:[](){}")
    for sign, pattern in (
        (";", r"\s*;\s*"),
        (",", r"\s*,\s*(?:then\s+|and\s+)?|\s+and\s+|\s+then\s+"),
    ):
        parts = [each for each in re.split(pattern, body) if each]
        if len(parts) > 1:
            spaced = "space" in lowered and "comma" not in lowered
            return _shared_unit(parts), " " if spaced else sign
    words = body.split()
    return (words, " ") if len(words) > 1 else ([], "")


def _shared_unit(parts: list[str]) -> list[str]:
    """Parts of which the last is "in USD" for all."""
    tail = parts[-1] if re.match(r"(?:all )?in \S+\Z", parts[-1], re.IGNORECASE) else ""
    return [f"{part} {tail}" for part in parts[:-1]] if tail else parts


def _made_band(field: Field, cases: Sequence[Case]) -> Answer:
    ordered = sorted(cases, key=lambda case: (case.terms[0].interval.lower, _upper(case)))
    return BandAnswer(
        parameter=field.path,
        cases=tuple(ordered),
        why=f"a band of {ordered[0].terms[0].measure.name}",
        required=field.required,
    )


def _upper(case: Case) -> float:
    return case.terms[0].interval.upper


def _names(cases: Iterable[Case]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(t.measure.name for case in cases for t in case.terms))


def _told(terms: Sequence[Term]) -> str:
    return f"a threshold of {' or '.join(dict.fromkeys(t.measure.name for t in terms))}"


def _truths(choices: Sequence[object]) -> tuple[object, object] | None:
    """What stands for no and yes among two choices."""
    keyed: Mapping[str, object] = {key_of(text_words(str(c))): c for c in choices}
    no, yes = keyed.keys() & _NO, keyed.keys() & _YES
    if len(keyed) == len(choices) == 2 and len(no) == len(yes) == 1:
        return keyed[next(iter(no))], keyed[next(iter(yes))]
    return None


_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_DECIMALS: Final = re.compile(r"(gt|lt|gte|lte|ge|le|over|under|above|below)_(\d+)_(\d+)\Z")
_GLUED: Final = re.compile(r"(over|under|above|below|gt|lt|gte|lte|least|most|than)(?=\d)")


def spoken(name: str) -> str:
    """A name as words, its decimals whole: "inr_gt_1_5" is "inr gt 1.5"."""
    name = _DECIMALS.sub(r"\1_\2.\3", name)
    apart = _CAMEL.sub(" ", re.sub(r"[_\s]+|(?<=\w)-(?=[^\W\d])", " ", name))
    return _GLUED.sub(r"\1 ", flat(apart))


def _name(field: Field) -> str:
    return next(part for part in reversed(field.path) if part != "*")


def _code(before: str, choices: Sequence[object], field: Field) -> object | None:
    """The choice that a comparison explains: the last one named before it."""
    segment = re.split(r"[,;.](?=\s)|\n", before)[-1]
    if choices:
        words = re.findall(r"-?\w+", segment)
        for word in reversed(words):
            for choice in choices:
                if flat(str(choice)) == word:
                    return choice
        return None
    found = _CODE.search(segment) or _CODE.search(before)
    if found is None or not re.fullmatch(r"-?\d+", found["code"]):
        return None
    return int(found["code"]) if field.kind == "integer" else float(found["code"])


def _cut(body: str, found: Sequence[Inequality]) -> str:
    """A text without its comparisons."""
    for each in sorted(found, key=lambda c: -c.start):
        body = f"{body[: each.start]} {body[each.end :]}"
    return body


@functools.lru_cache(maxsize=4096)
def _is_unit(word: str) -> bool:
    return next(iter(readings(word, 0)), ("", 0))[1] == len(word) or word in _UNIT_WORDS


_UNIT_WORDS: Final = frozenset(
    ("beats", "breaths", "minute", "hg", "mm", "dl", "l", "x10", "cells")
)
