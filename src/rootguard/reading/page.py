"""A text read once: the names of roots in it, its numbers, and what belongs to each number.

The names that a profile's roots go by are made of the templates' public descriptions, a root's name
and aliases, and of the index of names (`language.names`); the small words around numbers are in
`wording.toml`. Tables are seen here too, and public reference ranges.

To a number belong unit, multiplier, currency, period, feet and inches. `read_quantity` says what it
means beside a given root, and None if its unit measures
something else. The `Form` it finds is how the released value is written back at the same place: in
the unit and with the marks that stand there. Only digits change; the unit's own text stays.
"""

import functools
import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from rootguard.language import names, units
from rootguard.language.fold import Folded, Openings, Runs, Spans, bare, first_words, fold
from rootguard.language.fold import plain as plain_text
from rootguard.language.lists import read_lists
from rootguard.language.numbers import WrittenNumber, reads_as_thousands, scan, spell
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

    @property
    def everyday(self) -> bool:
        """Whether many things have such a quantity, not only patients: ages, sizes, amounts."""
        return self.money or self.concept in ("age", "ht", "wt", "waist")

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
    content = read_lists("rootguard.reading", "wording.toml")
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

    __slots__ = ("_finder", "_foreign", "_pair", "_subject", "_total", "formulas", "measures")

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
        for concept, other in names.stand_ins().items():
            if concept not in by_concept and other in by_concept:
                named.append(((by_concept[other],), names.concepts()[concept].spellings))
        self._total = by_concept.get("tc")
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
        found += self._run_together(runs)
        found += self._totals(text, runs, taken)
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

    def _run_together(self, runs: Runs) -> Iterator[NamePlace]:
        """Names that a verb is typed onto: "my incomeis 7083"."""
        for word in [each for each in runs.words if each.endswith(_VERBS)]:
            stem = next(word.removesuffix(end) for end in _VERBS if word.endswith(end))
            roots = self._finder.key(stem) if len(stem) >= _LEAST_ATTACHED else ()
            for place in runs.places({word}) if roots else ():
                yield NamePlace(start=place, end=place + len(stem), roots=_as_roots(roots))

    def _totals(self, text: str, runs: Runs, taken: Spans) -> Iterator[NamePlace]:
        """A bare "total" beside the fractions of cholesterol: "total 214, HDL 47"."""
        if self._total is None or _FRACTIONS.isdisjoint(runs.words):
            return
        parts = runs.places(_FRACTIONS & runs.words)
        for place in runs.places(_TOTALS & runs.words):
            at = bisect_left(parts, place)
            near = any(abs(part - place) <= _NEAR_FRACTION for part in parts[max(0, at - 1) :][:2])
            end = place + len(_LETTERS_OF.match(text, place)[0])  # type: ignore[index]
            if near and not taken.meet(place, end):
                yield NamePlace(start=place, end=end, roots=(self._total,))

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


_CURRENCY = 3  # letters: "eur", and not the "r" of a mark
_VERBS = ("is", "was")
_TOTALS = frozenset(("total", "gesamt", "totale", "totaal"))
_FRACTIONS = frozenset(("hdl", "ldl", "vldl"))
_NEAR_FRACTION = 60  # characters: the line before or after in a list
_LETTERS_OF = re.compile(r"[^\W\d_]*")
_LEAST_ATTACHED = 3  # "AST23" has a number behind its name, "CO2" and "H2" are symbols
_TWO_DIGITS = re.compile(r"\d[\d.,]")
_RUN_ON = re.compile(
    r"(?<=[^\W\d_] )(?:is|was|of|at)(?=\d)|(?<=\d)(?:ft|st|foot|feet|m|')(?=\d{1,2}(?!\d))",
    re.IGNORECASE,
)
_BEHIND_LETTER = re.compile(r"[0-9](?<=[^\W\d_].|'.)", re.DOTALL)
"""What `_RUN_ON` needs; to look for a digit is much quicker than to look for its words."""
_DIGIT = re.compile(r"(?<![^\W_])[0-9]")
_HEADED_BY_REFERENCE = re.compile(
    r"(?<!in )(?<!of )"
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


class Cell(NamedTuple):
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
    if _BEHIND_LETTER.search(text):
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
# Dots at the end of a line lead to nothing: a sentence trails off.
_LEADER = re.compile(r"(?<![.…])(?:\.{3,}+|…++)(?![.…]|[ \t]{0,80}(?:\n|\Z))|·{3,}|_{3,}")
_VAGUE = re.compile(r"(?<=\d)[ -]?ish(?![^\W_])")
_BOX = str.maketrans("│┃║¦─━═┄┌┐└┘├┤┬┴┼╔╗╚╝╠╣╦╩╬", "||||----" + "+" * 18)


def _without_leaders(text: str) -> str:
    """A text of the same length in which a leader is a colon and a box is drawn with signs.

    "134-ish" is about 134: what makes it vague is blank.
    """
    if "ish" in text:
        text = _VAGUE.sub(lambda match: " " * len(match[0]), text)
    if not text.isascii():
        text = text.translate(_BOX)
    if "..." in text or "___" in text or not text.isascii():
        text = _LEADER.sub(lambda match: ":" + " " * (len(match[0]) - 1), text)
    return text


# The rarest first: a comma or two blanks may stand within a cell of a table that has bars.
_CELL_MARKS = ("|", "\t", ";", ",", "  ")
_SPACED = re.compile(r"\S+(?: \S+)*")  # what two blanks part
_RULE = re.compile(r"[\s|:+\-]*")  # Markdown's line under a header
_LONGEST_CELL = 60  # characters of a header's; a longer one is prose with commas


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
        mark = ""
        if not _DIGIT.search(line) and not _RULE.fullmatch(line):
            mark = next((m for m in _CELL_MARKS if m in line.strip()), "")
        header = _cells(line, start, mark) if mark else []
        if any(cell.end - cell.start > _LONGEST_CELL for cell in header):
            mark, header = "", []
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


_MULTIPLIERS = {"k": 1e3, "thousand": 1e3, "grand": 1e3, "million": 1e6, "mio": 1e6, "mn": 1e6}
_MULTIPLIER = re.compile(r"[ \-]?(k|thousand|grand|million|mio|mn|m)(?![^\W_])", re.IGNORECASE)
_COMPOUNDS = {
    "ft": (re.compile(r" ?(?:'|ft\.?|foot|feet)[ \-]{0,2}", re.IGNORECASE), "in", 12.0),
    "m": (
        re.compile(r" ?(?:m|met(?:er|re)s?|metros?|metri?)[ \-]{0,2}", re.IGNORECASE),
        "cm",
        100.0,
    ),
    "st": (re.compile(r" ?(?:stones?|st\.?)[ \-]{0,2}", re.IGNORECASE), "lb", 14.0),
}
_DIGITS = 12  # a conversion's rounding errors are in the last of sixteen
_MOST_DIGITS = 20  # nobody writes out more
_COARSEST = 5  # times a root's resolution, in another unit
_EQUAL = 1e-9  # of a power of ten: 100 cm are one metre, whatever the last bit says
_MEMBER = re.compile(r"""["'][ \t]*:\s*(?:\[[-+.0-9eE,\s]*)?\Z""")
_ASSIGNED = re.compile(r"[\w\])][ \t]*=[ \t]*\Z")
_STATEMENT_END = re.compile(r"[ \t]*(?:[,;)\]}#]|\Z|\n)")
_LOOK_BACK = 80  # characters before a number: a key's end, and the numbers of a short list
_BLANK = re.compile(r" [0-9](?![0-9]?[.)] )")  # and not the mark of a list: "54 2) 23"
_LETTER = re.compile(r"[^\W\d_]")
_ONWARD = re.compile(r"([/-])[0-9][0-9.,]{0,20}(?:\1[0-9][0-9.,]{0,20}){0,3}")
_SO_FAR = re.compile(r"(?:[0-9][0-9.,]{0,20}[/-]){1,3}\Z")
_THOUSANDS, _YEAR, _LAST_DAY, _DATE_PARTS = 3, 4, 31, 3  # digits, digits, a day, day-month-year
Sort = Literal["prose", "integer", "number"]
"""What stands at a place: a number of prose, or an integer or a number of JSON or code."""
Series = Literal["none", "blanks", "columns", "slashes", "hyphens"]
"""What parts a number from the next: a blank, in a sentence or in a line of numbers; a slash or a
hyphen, in a list that may be read as a date."""
_SET_APART: dict[Series, str] = {"blanks": ",", "slashes": " "}
_BEFORE_UNIT = re.compile(r"[ \t_\-]{0,2}[(\[*]? ?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """How a released value is written at one place. Holds no value.

    `unit` is the unit as written and `own` the root's; `factor` the multiplier ("85k"); `minor` and
    `middle` the smaller unit of "5'11" and the text between. `decimals` is what the root has in its
    own unit; `lower` and `upper` are its bounds.
    `sort` says that a number of JSON or of code stood here, which keeps its type, and `series` what
    stands between it and the next number of a list.
    """

    own: str
    unit: str
    substance: str | None
    decimals: int
    lower: float
    upper: float
    factor: float = 1.0
    group: str = ""
    decimal: str = "."
    minor: str = ""
    middle: str = ""
    suffix: str = ""
    sort: Sort = "prose"
    series: Series = "none"

    @classmethod
    def of(cls, measure: Measure, unit: str, **written: Any) -> "Form":  # noqa: ANN401
        """A root's form in a unit; the plain one, but for how it is `written`."""
        return cls(
            own=measure.unit,
            unit=unit,
            substance=measure.substance,
            decimals=measure.decimals,
            lower=measure.domain.lower,
            upper=measure.domain.upper,
            **written,
        )

    def read(self, value: float) -> float | None:
        """A number written in this form, in the root's own unit."""
        if self.unit == self.own:
            return value * self.factor
        return units.convert(value * self.factor, self.unit, self.own, self.substance)

    def write(self, released: float) -> str:
        """A released value in this form: the same for the same value, always.

        It is rounded to what people write, within the root's bounds. That is post-processing: it
        looks at the released value, public knowledge and the form alone, so it costs nothing.
        """
        return _written(self, released)

    def _write(self, released: float) -> str:
        affine = self._affine()
        ends = affine(min(self.lower, released)), affine(max(self.upper, released))
        value, lower, upper = affine(released), min(ends), max(ends)
        places = decimals_in(self.decimals, affine.scale)
        if self.unit == self.own and not self.minor and self.factor == 1.0:
            places = self.decimals
        if self.minor:
            return self._compound(rounded(value, places, lower, upper))
        if self.factor != 1.0:
            # Whoever writes "1.5 million" is not after the dollar: three digits, "1.48 million".
            size = math.floor(math.log10(abs(value))) if value else 0
            places = min(places, 2 - size)
        if self.sort == "integer":
            places = min(places, 0)
        written = plain(rounded(value, places, lower, upper))
        if self.sort == "integer" and "." in written:  # the type goes before the bounds
            written = plain(rounded(value, 0, value - 1, value + 1))
        if reads_as_thousands(written, self.decimal):
            written = plain(rounded(value, 2, lower, upper))
        if self.factor != 1.0 and "." in written:
            written = written.rstrip("0").rstrip(".")
        merges = self.sort == "prose" and written.isdigit() and self._merges(written)
        apart = _SET_APART.get(self.series, "") if merges else ""
        if written.lstrip("-").isdigit() and (self.sort == "number" or (merges and not apart)):
            written += ".0"
        return spell(written, group=self.group, decimal=self.decimal) + self.suffix + apart

    def _merges(self, whole: str) -> bool:
        """Whether a whole number would be read as the beginning of another one, or of a date.

        "AST ALT 23 30" must not become "223 111", nor "23/30/220" a day of a month. A comma or a
        blank sets it apart; in a line of numbers, or before a hyphen, only a fraction can.
        """
        if self.series in ("blanks", "columns"):
            return len(whole) <= _THOUSANDS
        dated = self.series in ("slashes", "hyphens")
        return dated and (len(whole) == _YEAR or int(whole) <= _LAST_DAY)

    def _affine(self) -> units.Affine:
        """From the root's own unit to what is written here."""
        found = None
        if self.unit != self.own:
            found = units.conversion(self.own, self.unit, self.substance)
        found = found or units.Affine(scale=1.0)
        ratio = _COMPOUNDS[self.unit][2] if self.minor else 1.0
        return found.then(units.Affine(scale=ratio / self.factor))

    def _compound(self, minor: Decimal) -> str:
        major, rest = divmod(minor, Decimal(_COMPOUNDS[self.unit][2]))
        return f"{major:f}{self.middle}{plain(rest)}"


@functools.lru_cache(maxsize=1024)
def _written(form: Form, released: float) -> str:
    """What a form makes of a released value; a text says the same ones again and again. Public."""
    return form._write(released)


def decimals_in(decimals: int, scale: float) -> int:
    """How many decimals a root has in a unit of which `scale` are one of its own.

    As few as make a step at most five times the root's: 0.1 kg is 0.22 lb and written as whole
    pounds, 1 mmHg is 0.13 kPa and has one decimal. Fewer than none are tens, hundreds, and never
    coarser than the root: one dollar a month is twelve a year.
    """
    exact = decimals - math.log10(abs(scale))
    coarser = 0.0 if exact <= _EQUAL else math.log10(_COARSEST)
    return math.ceil(exact - coarser - _EQUAL)


def rounded(value: float, places: int, lower: float, upper: float) -> Decimal:
    """The nearest number with so many decimals that is within the bounds, which hold the value.

    If there is none, with as many more decimals as it takes.
    """
    exact, least, most = (Decimal(f"{each:.{_DIGITS}g}") for each in (value, lower, upper))
    for more in range(places, places + _DIGITS):
        step = Decimal(1).scaleb(-more)
        found = (exact / step).to_integral_value() * step
        found += step if found < least else -step if found > most else 0
        if least <= found <= most:
            few = abs(found.adjusted()) < _MOST_DIGITS
            return found.quantize(step) if few and more >= 0 else found
    return exact


def plain(number: Decimal) -> str:
    """All digits, without a sign before zero, and without an exponent unless it is a large one."""
    if abs(number.adjusted()) > _MOST_DIGITS:
        return repr(float(number))
    return f"{number or abs(number):f}"


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Quantity:
    """A number in a folded text as a value of one root, in the root's own unit. Private.

    `end` is where the digits to replace end, `after` where what belongs to them does.
    """

    start: int
    end: int
    after: int
    value: float
    form: Form
    stated: bool


def read_quantity(
    text: str,
    number: WrittenNumber,
    measure: Measure,
    following: WrittenNumber | None,
    hint: str | None,
) -> Quantity | None:
    """A number beside a root's name; None if its unit does not fit the root.

    `text` is plain and folded; `following` the next number, for feet and inches; `hint` a unit
    that stands elsewhere ("AST (U/L): 23"), used if none stands here.
    """
    if number.value is None:
        return None
    compound = _read_compound(text, number, measure, following)
    if compound is not None:
        return compound
    if measure.money:
        return _read_money(text, number, measure, hint)
    if units.currency_before(text, number.start) is not None or _is_price(text, number.end):
        return None
    at = _BEFORE_UNIT.match(text, number.end)
    place = number.end if at is None else at.end()
    unit, after, stated = None, number.end, False
    found = list(units.readings(text, place))
    for written, end in found:
        unit = units.fits(written, measure.unit, measure.substance)
        if unit is not None:
            after, stated = end, True
            break
    if unit is None and found and not _could_be_word(text, place, found[0][1], measure):
        return None
    if unit is None:
        multiplier = _MULTIPLIER.match(text, number.end)
        if multiplier is not None and multiplier[1].lower() in _MULTIPLIERS:
            factor = _MULTIPLIERS[multiplier[1].lower()]
            return _quantity(text, number, multiplier.end(), measure, None, factor=factor)
        if _feet_mark(text, number, measure):
            unit, stated = "ft", True
    return _quantity(text, number, after, measure, unit or hint, stated=stated or hint is not None)


def _is_price(text: str, end: int) -> bool:
    """Whether a currency stands behind a number, and no letter that may be a unit."""
    at = end + (text[end : end + 1] == " ")
    found = units.read_currency(text, at)
    return found is not None and (found[1] - at >= _CURRENCY or not text[at].isalpha())


def _could_be_word(text: str, start: int, end: int, measure: Measure) -> bool:
    """Whether what reads as a misfit unit may be a plain word, or the root's unit is unknown."""
    known = units.canonical(measure.unit) is not None or not measure.unit
    return not known or text[start:end] in units.also_words()


def _feet_mark(text: str, number: WrittenNumber, measure: Measure) -> bool:
    mark = text[number.end : number.end + 1] == "'" and not text[number.end + 1 : number.end + 2]
    value = number.value or 0.0
    fits = units.fits("ft", measure.unit, None) is not None
    return mark and fits and not measure.holds(value, measure.unit) and measure.holds(value, "ft")


def _read_compound(
    text: str, number: WrittenNumber, measure: Measure, following: WrittenNumber | None
) -> Quantity | None:
    """Feet and inches, stones and pounds."""
    if following is None or following.value is None or number.value is None:
        return None
    for major, (middle, minor, ratio) in _COMPOUNDS.items():
        between = middle.match(text, number.end)
        if between is None or between.end() != following.start:
            continue
        if not 0 <= following.value < ratio or number.value != int(number.value):
            continue
        if units.fits(major, measure.unit, measure.substance) is None:
            continue
        between_them = text[number.end : following.start]
        form = replace(Form.of(measure, major), minor=minor, middle=between_them)
        value = form.read(number.value + following.value / ratio)
        if value is None:
            continue
        return Quantity(
            start=number.start,
            end=following.end,
            after=_end_of_minor(text, following.end, minor),
            value=value,
            form=form,
            stated=True,
        )
    return None


def _end_of_minor(text: str, place: int, minor: str) -> int:
    if minor == "in" and text[place : place + 1] == '"':
        return place + 1
    at = place + (text[place : place + 1] == " ")
    return next((end for unit, end in units.readings(text, at) if unit == minor), place)


def _read_money(
    text: str, number: WrittenNumber, measure: Measure, hint: str | None
) -> Quantity | None:
    own_code, _, own_period = measure.unit.partition("/")
    currency = units.currency_before(text, number.start)
    code = None if currency is None else currency[0]
    after, factor, period = number.end, 1.0, None
    multiplier = _MULTIPLIER.match(text, number.end)
    if multiplier is not None:
        factor = {"m": 1e6, **_MULTIPLIERS}[multiplier[1].lower()]
        after = multiplier.end()
    place = after + (text[after : after + 1] in (" ", "-"))
    suffix = units.read_currency(text, place)
    if suffix is not None:
        code, after = code or suffix[0], suffix[1]
    place = after + (text[after : after + 1] in (" ", "-"))
    stated_period = units.read_period(text, place)
    if stated_period is not None:
        period, after = stated_period
    elif code is None and factor == 1.0:
        found = next(units.readings(text, place), None)
        if found is not None and text[place : found[1]] not in units.also_words():
            return None
    if period is None and hint is not None:
        period = hint.partition("/")[2] or None
    unit = "/".join(part for part in (code or own_code, period or own_period) if part)
    if units.fits(unit, measure.unit, None) is None:
        return None
    stated = code is not None or stated_period is not None
    quantity = _quantity(text, number, after, measure, unit, factor=factor, stated=stated)
    meant = f"{own_code}/year"
    if quantity is None or period is not None or not own_period or own_period == "year":
        return quantity
    if measure.holds(quantity.value, measure.unit) or not measure.holds(quantity.value, meant):
        return quantity
    yearly = _quantity(text, number, after, measure, meant, factor=factor, stated=stated)
    if yearly is None:
        return quantity
    if yearly.form.sort != "prose":  # JSON and code have no room for words: in the root's unit
        return replace(quantity, value=yearly.value)
    # An income of $85,000 is a year's. Say so, or what is written back may be read as a month's.
    form = replace(yearly.form, suffix=text[number.end : after] + " a year")
    return replace(yearly, end=after, form=form)


def _quantity(
    text: str,
    number: WrittenNumber,
    after: int,
    measure: Measure,
    unit: str | None,
    *,
    factor: float = 1.0,
    stated: bool = False,
) -> Quantity | None:
    """The number in a unit, by its likelier reading if it has two."""
    value, group, decimal = number.value, number.group, number.decimal
    if value is None:
        return None
    other = number.alternative
    if other is not None:
        first = unit or measure.unit_of(value * factor)
        second = unit or measure.unit_of(other * factor)
        if not measure.holds(value * factor, first) and measure.holds(other * factor, second):
            value, group, decimal = other, "", ","
    chosen = unit or measure.unit_of(value * factor)
    form = Form.of(
        measure,
        chosen,
        sort=_sort(text, number),
        series=_series(text, number) if after == number.end else "none",
        factor=factor,
        group=group,
        decimal=decimal,
    )
    read = form.read(value)
    if read is None:
        return None
    return Quantity(
        start=number.start, end=number.end, after=after, value=read, form=form, stated=stated
    )


def _sort(text: str, number: WrittenNumber) -> Sort:
    """Whether it stands behind a key of JSON (or in its list), or is given to a name in code."""
    if number.sort != "digits":
        return "prose"
    before = text[max(0, number.start - _LOOK_BACK) : number.start]
    if "=" not in before and ":" not in before:  # what either pattern needs, and prose has seldom
        return "prose"
    code = _ASSIGNED.search(before) and _STATEMENT_END.match(text, number.end)
    if not code and not _MEMBER.search(before):
        return "prose"
    return (
        "integer"
        if text[number.start : number.end].lstrip("+-").replace("_", "").isdigit()
        else "number"
    )


def _series(text: str, number: WrittenNumber) -> Series:
    if _BLANK.match(text, number.end):
        first = max(0, number.start - _LOOK_BACK)
        line = text[max(first, text.rfind("\n", first, number.start) + 1) : number.start]
        return "blanks" if _LETTER.search(line) else "columns"
    after = _ONWARD.match(text, number.end)
    if after is None:
        return "none"
    before = _SO_FAR.search(text[max(0, number.start - _LOOK_BACK) : number.start])
    parts = 1 + after[0].count(after[1]) + (before[0].count(after[1]) if before else 0)
    # Four numbers between slashes are never read as a date.
    if after[1] == "/":
        return "slashes" if parts == _DATE_PARTS else "none"
    return "hyphens" if parts >= _DATE_PARTS else "none"
