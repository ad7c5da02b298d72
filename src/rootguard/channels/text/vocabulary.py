"""The names that a profile's roots go by in a text, and the words that surround their numbers.

Built from the templates' public descriptions: a root's name and aliases, written in snake, camel or
hyphen style, in the plural, and the everyday words of what it is ("I weigh", "aged") from
`wording.toml`. It knows no value.
"""

import functools
import importlib.resources
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rootguard.language.scan import Openings, Runs, first_words, matches_at
from rootguard.language.spans import Spans
from rootguard.language.units import canonical, convert, currencies, substance_of, unstated
from rootguard.template import Root
from rootguard.values import Domain, RootName

_SLACK = 1e-5
_LETTERS = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """One root as a text speaks of it: its unit, its substance, its bounds."""

    root: RootName
    unit: str
    written: str
    substance: str | None
    domain: Domain
    concept: str

    @property
    def money(self) -> bool:
        """Whether it is an amount of money."""
        return self.unit.partition("/")[0] in currencies()

    def holds(self, value: float, unit: str) -> bool:
        """Whether a value in a unit lies within the root's bounds, a rounding aside."""
        own = convert(value, unit, self.unit, self.substance) if unit != self.unit else value
        slack = _SLACK * max(abs(self.domain.lower), abs(self.domain.upper))
        return own is not None and self.domain.lower - slack <= own <= self.domain.upper + slack

    def unit_of(self, value: float) -> str:
        """The unit that a number without one is in: the root's own, unless it cannot be.

        Another unit is taken only if no number is within the bounds in both: a height of 180 is in
        centimetres. Otherwise the value written back could be read in the other unit.
        """
        if not self.holds(value, self.unit):
            for other in unstated(self.unit):
                if self._apart(other) and self.holds(value, other):
                    return other
        return self.unit

    def _apart(self, other: str) -> bool:
        lower = convert(self.domain.lower, self.unit, other, self.substance)
        upper = convert(self.domain.upper, self.unit, other, self.substance)
        if lower is None or upper is None:
            return False
        low, high = sorted((lower, upper))
        return high < self.domain.lower * (1 - _SLACK) or self.domain.upper * (1 + _SLACK) < low


@dataclass(frozen=True, kw_only=True, slots=True)
class Name:
    """A root's name in a folded text; two roots for a pair, none for a subject ("I am")."""

    start: int
    end: int
    roots: tuple[RootName | None, ...]
    everyday: bool = False
    subject: bool = False


@functools.cache
def wording() -> Mapping[str, Any]:
    """The words of `wording.toml`, lists as sets."""
    source = importlib.resources.files("rootguard.channels.text") / "wording.toml"
    content = tomllib.loads(source.read_text("utf-8"))
    ordered = ("elsewhere", "subjects", "reference")
    return {
        key: frozenset(value) if isinstance(value, list) and key not in ordered else value
        for key, value in content.items()
    }


def key_of(name: str) -> str:
    """A name without case, spaces and signs."""
    return "".join(character for character in name.casefold() if character.isalnum())


_OPENS = r"(?:(?<![^\W\d_])|(?-i:(?<=[a-z])(?=[A-Z])))"
_CAMEL = re.compile(r"[A-Z](?<=[a-z].)", re.DOTALL)
_CLOSES = r"(?:(?![^\W\d_])|(?-i:(?<=[a-z])(?=[A-Z])))"


class Vocabulary:
    """Finds names in folded texts; one scan, whatever the number of roots."""

    __slots__ = (
        "_everyday",
        "_everywhere",
        "_opened",
        "_pattern",
        "_roots",
        "_subject",
        "measures",
    )

    def __init__(self, roots: Mapping[RootName, Root]) -> None:
        self.measures = {name: _measure(root) for name, root in roots.items()}
        self._roots: dict[str, tuple[RootName | None, ...]] = {}
        self._everyday = {key_of(word) for word in wording()["everyday"]}
        spellings: set[str] = set()
        for name, root in roots.items():
            extra = wording()["concepts"].get(self.measures[name].concept, {}).get("words", ())
            for spelling in (name, *root.aliases, *extra):
                if key_of(spelling):
                    self._roots.setdefault(key_of(spelling), (name,))
                    spellings.add(spelling.casefold())
        for pair in wording()["pairs"].values():
            both = tuple(self._called(pair[place]) for place in ("first", "second"))
            if any(both):
                for spelling in pair["words"]:
                    self._roots.setdefault(key_of(spelling), both)
                    spellings.add(spelling)
        longest = sorted(spellings, key=lambda spelling: (-len(spelling), spelling))
        body = "|".join(_flexible(spelling) for spelling in longest) or r"(?!)"
        subjects = "|".join(re.escape(subject) for subject in wording()["subjects"])
        self._pattern = re.compile(rf"{_OPENS}(?:{body})(?:e?s)?{_CLOSES}", re.IGNORECASE)
        # If a name begins with a digit every place is tried.
        self._everywhere = any(not _LETTERS.match(spelling) for spelling in spellings)
        opened = first_words(run for spelling in spellings for run in _runs(spelling) if run)
        self._opened = frozenset(opened)
        self._subject = Openings(
            (
                re.compile(rf"(?<![^\W_])(?:{subjects})(?= )", re.IGNORECASE),
                first_words(wording()["subjects"]),
            )
        )

    def named(self, concept: str) -> Measure | None:
        """The root that is this concept, if the profile has one."""
        return next((m for m in self.measures.values() if m.concept == concept), None)

    def pair(self) -> tuple[RootName | None, ...]:
        """The roots of a blood pressure."""
        return self._roots.get("bloodpressure", ())

    def find(self, text: str, runs: Runs, skipped: Spans) -> list[Name]:
        """Every name in a folded text, in order, without overlaps; none in what is skipped."""
        found = []
        for match in self._matches(text, runs):
            start, end = match.span()
            if skipped.meet(start, end):
                continue
            roots, key = self._meaning(match[0])
            everyday = key in self._everyday and not match[0].isupper()
            found.append(Name(start=start, end=end, roots=roots, everyday=everyday))
        taken = {place for name in found for place in (name.start, name.end)}
        found += [
            Name(start=match.start(), end=match.end(), roots=(), subject=True)
            for _, match in self._subject.matches(text, runs)
            if match.end() not in taken and match.start() not in taken
        ]
        return sorted(found, key=lambda name: name.start)

    def _matches(self, text: str, runs: Runs) -> Iterator[re.Match[str]]:
        if self._everywhere:
            return self._pattern.finditer(text)
        places = set(runs.places({"", *(self._opened & runs.words)}))
        last = 0
        for match in _CAMEL.finditer(text):  # a name may end and begin here: "serumAstLevel"
            start = match.start()
            while start > last and text[start - 1].isalpha():
                start -= 1
            places |= {start, match.start()}
            last = match.start()
        return matches_at(self._pattern, text, sorted(places))

    def of_key(self, key: str) -> RootName | None:
        """The root that a whole text names ("Fasting glucose"), if it names one."""
        roots = self._roots.get(key_of(key), ())
        return roots[0] if len(roots) == 1 else None

    def _meaning(self, spelling: str) -> tuple[tuple[RootName | None, ...], str]:
        key = key_of(spelling)
        for length in (len(key), len(key) - 1, len(key) - 2):
            if key[:length] in self._roots:
                return self._roots[key[:length]], key[:length]
        return (), key

    def _called(self, names: list[str]) -> RootName | None:
        for name in names:
            roots = self._roots.get(key_of(name), ())
            if roots:
                return roots[0]
        return None


@functools.lru_cache(maxsize=64)
def _vocabulary(roots: tuple[Root, ...]) -> Vocabulary:
    return Vocabulary({root.name: root for root in roots})


def vocabulary(roots: Mapping[RootName, Root]) -> Vocabulary:
    """The vocabulary of these roots, built once."""
    return _vocabulary(tuple(roots.values()))


def _runs(spelling: str) -> Iterator[str]:
    """The runs of letters that a name may begin with as `_flexible` and a plural spell it."""
    glued = ""
    words = re.findall(r"[^\W_]+", spelling)
    for place, word in enumerate(words):
        letters = _LETTERS.match(word)
        glued += letters[0] if letters else ""
        yield glued
        if letters is None or letters[0] != word:
            return
        if place == len(words) - 1:
            yield from (f"{glued}s", f"{glued}es")


def _flexible(spelling: str) -> str:
    return r"[\s_\-/.]{0,2}".join(re.escape(word) for word in re.findall(r"[^\W_]+", spelling))


def _measure(root: Root) -> Measure:
    names = (str(root.name), *root.aliases)
    keys = {key_of(name) for name in names}
    concepts: dict[str, Any] = wording()["concepts"]
    concept = next(
        (
            title
            for title, entry in concepts.items()
            if any(key_of(name) in keys for name in entry["names"])
        ),
        "",
    )
    unit = canonical(root.unit) or root.unit
    substance = substance_of(names)
    return Measure(
        root=root.name,
        unit=unit,
        written=root.unit,
        substance=substance,
        domain=root.domain,
        concept=concept,
    )


@functools.cache
def _elsewhere() -> Openings:
    body = "|".join(wording()["elsewhere"])
    pattern = re.compile(rf"(?<![^\W_])(?:{body})(?![^\W_])(?! ?i?u/)", re.IGNORECASE)
    return Openings((pattern, first_words(wording()["elsewhere"])))


def elsewhere(text: str, runs: Runs) -> list[tuple[int, int]]:
    """Where something stands that only looks like a name beside a number ("GPT-4")."""
    return [match.span() for _, match in _elsewhere().matches(text, runs)]
