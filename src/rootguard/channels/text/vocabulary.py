"""The names that a profile's roots go by in a text, and the words that surround their numbers.

Built from the templates' public descriptions, a root's name and aliases, and from the index of
names (`language.names`); the small words around numbers are in `wording.toml`. It knows no value.
"""

import functools
import importlib.resources
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rootguard.language import names
from rootguard.language.scan import Openings, Runs, first_words
from rootguard.language.spans import Spans
from rootguard.language.units import canonical, convert, currencies, substance_of, unstated
from rootguard.template import Root
from rootguard.values import Domain, RootName

_SLACK = 1e-5  # of the bounds: a value written back in another unit is rounded to six digits


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """One root as a text speaks of it: its unit, its substance, its bounds."""

    root: RootName
    unit: str
    written: str
    substance: str | None
    domain: Domain
    concept: str
    """The index's name for it, or nothing."""

    @property
    def flag(self) -> bool:
        """Whether it is one of two: 0 or 1."""
        return self.domain.size == 2 and (self.domain.lower, self.domain.upper) == (0.0, 1.0)

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
class NamePlace:
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


class RootNames:
    """Finds names in folded texts; one scan, whatever the number of roots."""

    __slots__ = ("_finder", "_pair", "_subject", "measures")

    def __init__(self, roots: Mapping[RootName, Root]) -> None:
        self.measures = {name: _measure(root) for name, root in roots.items()}
        by_concept: dict[str, RootName] = {}
        for name, measure in self.measures.items():
            by_concept.setdefault(measure.concept or name, name)
        named: list[tuple[tuple[RootName | None, ...], tuple[names.Spelling, ...]]] = []
        listed = {n: names.spellings_of(n, root.aliases) for n, root in roots.items()}
        # A root's own names go before those that the index gives another root.
        for name, root in roots.items():
            named.append(((name,), listed[name][: 1 + len(root.aliases)]))
        named += (((name,), spellings) for name, spellings in listed.items())
        self._pair: tuple[RootName | None, ...] = ()
        for group in names.together():
            both = tuple(by_concept.get(each) for each in group.names)
            if any(both):
                self._pair = both
                named.append((both, group.spellings))
        for group in names.general():
            if meant := by_concept.get(group.names[0]):
                named.append(((meant,), group.spellings))
                # "LDL cholesterol" is not cholesterol, whether or not the person has an LDL.
                named += (((), names.concepts()[other].spellings) for other in group.names[1:])
        self._finder = names.Finder(named)
        subjects = "|".join(re.escape(subject) for subject in wording()["subjects"])
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
        return self._pair

    def find(self, text: str, unfolded: str, runs: Runs, skipped: Spans) -> list[NamePlace]:
        """Every name in a bare text, in order, without overlaps; none in what is skipped."""
        spoken = names.languages_of(runs.words)
        found = [
            NamePlace(
                start=hit.start,
                end=hit.end,
                roots=tuple(None if each is None else RootName(each) for each in hit.names),
                everyday=hit.spelling.needs_tie(text[hit.start : hit.end], spoken),
            )
            for hit in self._finder.find(text, unfolded, runs)
            if not skipped.meet(hit.start, hit.end)
        ]
        taken = Spans((name.start - 1, name.end + 1) for name in found)
        found += [
            NamePlace(start=match.start(), end=match.end(), roots=(), subject=True)
            for _, match in self._subject.matches(text, runs)
            if not taken.meet(match.start(), match.end())
            and not ("de" in spoken and match[0].lower() == "im")  # "im Monat" has no subject
        ]
        return sorted(found, key=lambda name: name.start)

    def of_key(self, key: str) -> RootName | None:
        """The root that a whole text names ("Fasting glucose"), if it names one."""
        roots = self._finder.key(key)
        return RootName(roots[0]) if len(roots) == 1 and roots[0] is not None else None


@functools.lru_cache(maxsize=64)
def _root_names(roots: tuple[Root, ...]) -> RootNames:
    return RootNames({root.name: root for root in roots})


def root_names(roots: Mapping[RootName, Root]) -> RootNames:
    """The names of these roots, read once."""
    return _root_names(tuple(roots.values()))


def _measure(root: Root) -> Measure:
    concept = names.concept_of(root.name, root.aliases)
    unit = canonical(root.unit) or root.unit
    substance = substance_of((str(root.name), *root.aliases))
    return Measure(
        root=root.name,
        unit=unit,
        written=root.unit,
        substance=substance,
        domain=root.domain,
        concept="" if concept is None else concept.name,
    )


@functools.cache
def _elsewhere() -> Openings:
    body = "|".join(wording()["elsewhere"])
    pattern = re.compile(rf"(?<![^\W_])(?:{body})(?![^\W_])(?! ?i?u/)", re.IGNORECASE)
    return Openings((pattern, first_words(wording()["elsewhere"])))


def elsewhere(text: str, runs: Runs) -> list[tuple[int, int]]:
    """Where something stands that only looks like a name beside a number ("GPT-4")."""
    return [match.span() for _, match in _elsewhere().matches(text, runs)]
