"""A text read once: folded, with its numbers and the names of roots in it, in order.

The names that a profile's roots go by are made of the templates' public descriptions, a root's name
and aliases, and of the index of names (`language.names`); the small words around numbers are in
`wording.toml`. Tables are seen here too, and public reference ranges.
"""

import functools
import importlib.resources
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rootguard.language import names, units
from rootguard.language.fold import Folded, Openings, Runs, Spans, bare, first_words, fold
from rootguard.language.fold import plain as plain_text
from rootguard.language.numbers import WrittenNumber, scan
from rootguard.language.units import canonical, convert, currencies, substance_of, unstated
from rootguard.template import Root
from rootguard.values import Domain, RootName

_DIGIT = re.compile("[0-9]")
_STARTS_FOREIGN = re.compile(r"(?:ho|tengo|tenho|j'ai|mam|ik ben|ich bin)\s\d", re.IGNORECASE)
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
    decimals: int
    """How many people give it in its own unit."""

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
    """A root's name in a folded text; two roots for a pair, none for a subject ("I am").

    `everyday`: it needs a tie to its number; a subject needs a unit behind the number.
    """

    start: int
    end: int
    roots: tuple[RootName | None, ...]
    everyday: bool = False
    subject: bool = False


@functools.cache
def wording() -> Mapping[str, Any]:
    """The words of `wording.toml`, lists as sets."""
    source = importlib.resources.files("rootguard.reading") / "wording.toml"
    content = tomllib.loads(source.read_text("utf-8"))
    ordered = ("elsewhere", "subjects", "reference")
    found = {
        key: frozenset(value) if isinstance(value, list) and key not in ordered else value
        for key, value in content.items()
    }
    found["between"] |= frozenset(names.phrases("links"))
    found["onward"] |= frozenset(names.phrases("pairs"))
    return found


class RootNames:
    """Finds names in folded texts; one scan, whatever the number of roots."""

    __slots__ = ("_finder", "_foreign", "_pair", "_subject", "formulas", "measures")

    def __init__(
        self,
        roots: Mapping[RootName, Root],
        formulas: Mapping[str, tuple[RootName, ...]] | None = None,
    ) -> None:
        self.formulas = formulas or {}
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
        foreign = sorted(names.phrases("subjects"), key=len, reverse=True)
        body = "|".join(map(re.escape, foreign))
        self._foreign = re.compile(rf"(?<![^\W_])(?:{body})(?=[ \d])", re.IGNORECASE)

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
                roots=_as_roots(hit.names),
                everyday=hit.spelling.needs_tie(text[hit.start : hit.end], spoken),
            )
            for hit in self._finder.find(text, unfolded, runs)
            if not skipped.meet(hit.start, hit.end)
            and hit.spelling.spelt(text[hit.start : hit.end])
        ]
        taken = Spans((name.start, name.end) for name in found)
        found += [
            NamePlace(start=match.start(), end=match.end(), roots=(), subject=True)
            for _, match in self._subject.matches(text, runs)
            if not taken.meet(match.start(), match.end())
            and not ("de" in spoken and match[0].lower() == "im")  # "im Monat" has no subject
        ]
        if spoken or not text.isascii() or _STARTS_FOREIGN.match(text):
            found += [
                NamePlace(
                    start=match.start(), end=match.end(), roots=(), subject=True, everyday=True
                )
                for match in self._foreign.finditer(text)
                if not taken.meet(match.start(), match.end())
            ]
        return sorted(found, key=lambda name: name.start)

    def with_slips(
        self, text: str, runs: Runs, found: list[NamePlace], numbers: Sequence[int]
    ) -> list[NamePlace]:
        """The names found, and those that are a slip of the keys away from one, near a number."""
        known = [(name.start, name.end) for name in found if not name.subject]
        slips = [
            NamePlace(start=hit.start, end=hit.end, roots=_as_roots(hit.names))
            for hit in self._finder.slips(text, runs, numbers, known)
        ]
        return sorted((*found, *slips), key=lambda name: name.start) if slips else found

    def of_key(self, key: str) -> RootName | None:
        """The root that a whole text names ("Fasting glucose"), if it names one."""
        roots = self._finder.key(key)
        return RootName(roots[0]) if len(roots) == 1 and roots[0] is not None else None


Formulas = tuple[tuple[str, tuple[RootName, ...]], ...]
"""What calculations are called, without case and signs, and their roots in order."""


@functools.lru_cache(maxsize=64)
def _root_names(roots: tuple[Root, ...], formulas: Formulas) -> RootNames:
    return RootNames({root.name: root for root in roots}, dict(formulas))


def root_names(roots: Mapping[RootName, Root], formulas: Formulas = ()) -> RootNames:
    """The names of these roots, read once."""
    return _root_names(tuple(roots.values()), formulas)


def _as_roots(found: tuple[str | None, ...]) -> tuple[RootName | None, ...]:
    return tuple(None if each is None else RootName(each) for each in found)


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
        decimals=root.places,
    )


@functools.cache
def _elsewhere() -> Openings:
    body = "|".join(wording()["elsewhere"])
    pattern = re.compile(rf"(?<![^\W_])(?:{body})(?![^\W_])(?! ?i?u/)", re.IGNORECASE)
    return Openings((pattern, first_words(wording()["elsewhere"])))


def elsewhere(text: str, runs: Runs) -> list[tuple[int, int]]:
    """Where something stands that only looks like a name beside a number ("GPT-4")."""
    return [match.span() for _, match in _elsewhere().matches(text, runs)]


_LEAST_ATTACHED = 3  # "AST23" has a number behind its name, "CO2" and "H2" are symbols
_TWO_DIGITS = re.compile(r"\d[\d.,]")
_RUN_ON = re.compile(
    r"(?<=[^\W\d_] )(?:is|was|of|at)(?=\d)|(?<=\d)(?:ft|st|foot|feet|m|')(?=\d{1,2}(?!\d))",
    re.IGNORECASE,
)
_CELL_MARKS = ("|", "\t", ";", ",", "  ")
_SPACED = re.compile(r"\S+(?: \S+)*")
_DIGIT = re.compile(r"(?<![^\W_])[0-9]")
_RULE = re.compile(r"[\s|:+\-]*")
_HEADED_BY_REFERENCE = re.compile(
    r"\b(?:ref|reference|normal|range|limits?|interval|low|high|min|max|lower|upper|lln|uln)\b"
)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Page:
    """What stands in a text, before anything is bound to anything. Private."""

    original: str
    folded: Folded
    bare: str
    plain: str
    vocabulary: RootNames
    names: tuple[NamePlace, ...]
    numbers: tuple[WrittenNumber, ...]
    runs: Runs
    columns: "tuple[Column, ...]"
    public: Spans
    """Where public reference ranges stand: in cells under such a header, and after such words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A stretch of a line between two marks."""

    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """The cells under one cell of a header line."""

    header: Cell
    cells: tuple[Cell, ...]


def read_page(original: str, roots: Mapping[RootName, Root], formulas: Formulas = ()) -> Page:
    """Read a text for these roots."""
    folded = fold(original)
    text = bare(folded.text)
    plain = _without_leaders(plain_text(text))
    runs = Runs(text)
    words = root_names(roots, formulas)
    skipped = elsewhere(text, runs)
    names = words.find(text, folded.text, runs, Spans(skipped))
    # A digit right behind a name is its number ("AST23"), but not behind a chemist's symbol (CO2).
    attached = [
        n.end
        for n in names
        if not n.subject and (n.end - n.start >= _LEAST_ATTACHED or _TWO_DIGITS.match(text, n.end))
    ]
    # "my AST is23U/L", "5ft10"
    attached += (match.end() for match in _RUN_ON.finditer(text))
    own = units.digits_in_units(plain) if _DIGIT.search(plain) else []
    ordinary = Spans((*own, *skipped))
    table = columns(plain)
    edges = sorted(cell.end for column in table for cell in column.cells)
    numbers = tuple(
        number
        for number in scan(text, runs, attached=attached, edges=edges)
        if not ordinary.meet(number.start, number.end)
    )
    if numbers:
        names = words.with_slips(text, runs, names, [number.start for number in numbers])
    return Page(
        original=original,
        folded=folded,
        bare=text,
        plain=plain,
        vocabulary=words,
        names=tuple(names),
        numbers=numbers,
        runs=runs,
        columns=tuple(table),
        public=Spans(_references(plain, runs, table)),
    )


# Rules and leaders of a printed page: "AST ........ 23", "│ AST │ 23 │".
_LEADER = re.compile(r"\.{3,}|·{3,}|_{3,}|…+")
_BOX = str.maketrans("│┃║¦─━═┄┌┐└┘├┤┬┴┼╔╗╚╝╠╣╦╩╬", "||||----" + "+" * 18)


def _without_leaders(text: str) -> str:
    """A text of the same length in which a leader is a colon and a box is drawn with signs."""
    if not text.isascii():
        text = text.translate(_BOX)
    if "..." in text or "___" in text or not text.isascii():
        text = _LEADER.sub(lambda match: ":" + " " * (len(match[0]) - 1), text)
    return text


def columns(text: str) -> list[Column]:
    """The columns of the tables in a plain text: lines split alike by one mark.

    The first line is the header and holds no number.
    """
    found: list[Column] = []
    header: list[Cell] = []
    rows: list[list[Cell]] = []
    mark = ""
    at = 0
    lines = text.splitlines(keepends=True)
    for line in lines if len(lines) > 1 else ():
        start, at = at, at + len(line)
        if rows and mark == "|" and _RULE.fullmatch(line) and "-" in line:
            continue
        cells = _cells(line, start, mark) if mark else []
        if header and len(cells) == len(header):
            rows.append(cells)
            continue
        found += _columns(header, rows)
        rows = []
        mark = (
            "" if _DIGIT.search(line) else next((m for m in _CELL_MARKS if m in line.strip()), "")
        )
        header = _cells(line, start, mark) if mark else []
    return found + _columns(header, rows)


def _columns(header: list[Cell], rows: list[list[Cell]]) -> list[Column]:
    if not rows:
        return []
    return [
        Column(header=top, cells=tuple(row[place] for row in rows))
        for place, top in enumerate(header)
    ]


def _cells(line: str, start: int, mark: str) -> list[Cell]:
    body = line.rstrip("\r\n")
    if mark == "  ":
        return [Cell(start=start + m.start(), end=start + m.end()) for m in _SPACED.finditer(body)]
    left = len(body) - len(body.lstrip(" |")) if mark == "|" else 0
    right = len(body.rstrip(" |")) if mark == "|" else len(body)
    cells = []
    place = start + left
    for part in body[left:right].split(mark):
        cells.append(Cell(start=place, end=place + len(part)))
        place += len(part) + len(mark)
    return cells


def _references(plain: str, runs: Runs, table: Sequence[Column]) -> list[tuple[int, int]]:
    found = [
        (cell.start, cell.end)
        for column in table
        if _HEADED_BY_REFERENCE.search(plain, column.header.start, column.header.end)
        for cell in column.cells
    ]
    found += [match.span("pair") for _, match in _reference().matches(plain, runs)]
    return found


@functools.cache
def _reference() -> Openings:
    words = "|".join(re.escape(w) for w in sorted(wording()["reference"], key=len, reverse=True))
    number = r"\d{1,6}(?:[.,]\d{1,4})?"
    pattern = re.compile(
        rf"(?<![^\W_])(?:{words})\.?[:= ]{{1,3}}(?:is |of |from )?"
        rf"(?P<pair>{number} ?(?:-|–|to) ?{number})(?![^\W_])"
    )
    return Openings((pattern, first_words(wording()["reference"])))
