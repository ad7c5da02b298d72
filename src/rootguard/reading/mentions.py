"""Where a text speaks of a root's value or a computed one, and what is written there instead.

"AST is 23 U/L", "BP 134/64", "| AST | 23 |", `"ast": 23`, "I weigh 176 lbs", "fifty years old":
names are bound to numbers by what stands between them, by their order and by their units. Words and
signs from closed lists, and units that fit the root, hold two things together; any other word parts
them: "AST level was about 23" is one statement and "AST tree with 23 nodes" is not. A number whose
unit measures something else is not the root's ("AST, 3 weeks ago"). In doubt it is.

Every mention of a root becomes the one released value of that root, whatever number was written:
a second number noised anew would be a second draw on the same root, and a number let through
would be the truth. The owner changes a value in the profile, not in a chat.

A computed value stands behind its name, or the roots stand as arguments of its calculation.
"My FIB-4 is 1.03" tells of every root that FIB-4 is made of. What it goes by is in the index of
names (`[formulas]` and `[computed]`). "fib4(54, 23, 30, 220)" has the roots themselves, in the
order in which the template declares them.
"""

import functools
import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rootguard.language import names, units
from rootguard.language.fold import Spans, caseless, key_of
from rootguard.language.numbers import WrittenNumber
from rootguard.reading.page import (
    Form,
    Measure,
    NamePlace,
    Page,
    Quantity,
    read_page,
    read_quantity,
    wording,
)
from rootguard.template import Root
from rootguard.values import RootName

REACH = 80  # characters: "AST (aspartate aminotransferase, serum, U/L), as measured last week: 23"
_MOST_LINES = 2  # a label, a blank line, its number
_LETTERS = re.compile(r"[^\W\d_]+")
# What ties even an everyday word ("age") or the word "one" to its number: see `_tied`.
_STRONG_SIGNS = frozenset(':=|",\t→')
_COPULAS = frozenset(
    ("is", "was", "are", "were", "of", "at", "equals", "value", "result", "level", "reading")
)
# Their dots end no sentence. The longest has seven characters: `_joining_dot` looks back by more.
_SHORT_NAME = re.compile(r"\b(?:inc|exp|sav|wt|ht|chol|gluc|trig|plat|hgb|creat|temp|syst|diast)\Z")
_ANSWERED = re.compile(  # "Age? 54", "Q: age?\nA: 54"
    r"\?[\"'*_]{0,3}\s{0,3}(?:(?:a|ans|answer|me|reply|response)\d{0,2}[\"'*_]{0,3}[:.)=-]{1,2}\s{0,3})?"
)
_ABBREVIATED = ("approx.", "ca.", "avg.", "no.", "max.", "min.")


@dataclass(frozen=True, slots=True)
class Gap:
    """A unit found in a gap, whether the gap ties strongly, opens a bracket, or is blank."""

    unit: str | None
    strong: bool
    bracket: bool
    empty: bool


def read_gap(
    text: str,
    start: int,
    end: int,
    measure: Measure,
    words: frozenset[str],
    signs: frozenset[str],
) -> Gap | None:
    """Read a stretch of a plain text; None if something in it parts what is around it."""
    if end - start > REACH or text.count("\n", start, end) > _MOST_LINES:
        return None
    unit: str | None = None
    strong = bracket = False
    empty, place = True, start
    typed = _TYPE.match(text, start, end)
    if typed is not None:
        empty, strong, place = False, True, typed.end()
    while place < end:
        character = text[place]
        if character.isspace():
            strong = strong or character == "\t"
            place += 1
            continue
        empty = False
        asked = _ANSWERED.match(text, place, end)
        if asked is not None and asked.end() == end:
            return Gap(unit, True, bracket, False)
        read = _unit(text, start, place, end, measure)
        if read is not None:
            unit, place = read[0] or unit, read[1]
            continue
        word = _LETTERS.match(text, place, end)
        if word is not None:
            in_unit = word[0] == "in" and _unit(text, start, word.end() + 1, end, measure)
            if word[0] not in words and not in_unit:
                return None
            strong = strong or word[0] in _COPULAS
            place = word.end()
            continue
        if character not in signs and not (character == "." and _joining_dot(text, place)):
            return None
        strong = strong or character in _STRONG_SIGNS
        bracket = bracket or character in "(["
        place += 1
    return Gap(unit, strong, bracket, empty)


def _joining_dot(text: str, place: int) -> bool:
    """Whether a dot is in a path ("ast.value") or ends an abbreviation, not a sentence."""
    path = text[place + 1 : place + 2].isalpha() or _SHORT_NAME.search(
        text, max(0, place - 8), place
    )
    return bool(path) or text[max(0, place - 8) : place + 1].endswith(_ABBREVIATED)


def _unit(
    text: str, start: int, place: int, end: int, measure: Measure
) -> tuple[str | None, int] | None:
    """A unit of the root at a place between its name and its number ("AST (U/L): 23")."""
    inside = place > start and text[place - 1].isalnum()
    if place >= end or (inside and text[place].isalnum()):
        return None
    if measure.money:
        currency = units.read_currency(text, place)
        if currency is not None and currency[1] <= end:
            return None, currency[1]
        period = units.read_period(text, place)
        if period is not None and period[1] <= end:
            return f"{measure.unit.partition('/')[0]}/{period[0]}", period[1]
        return None
    camel = place == start and not text[place].isspace()
    marked = (
        camel
        or text[place - 1 : place] in ("(", "[", "_")
        or text[max(0, place - 3) : place] == "in "
    )
    for written, after in units.readings(text, place):
        if after > end or (text[place:after] in units.also_words() and not marked):
            continue
        unit = units.fits(written, measure.unit, measure.substance)
        if unit is not None:
            return unit, after
    return None


def following_unit(text: str, place: int) -> str | None:
    """The unit that stands right after a place of a plain text, whatever it measures."""
    at = place + (text[place : place + 1] in (" ", "-", "_"))
    found = next(units.readings(text, at), None)
    return None if found is None else found[0]


_RATIO = re.compile(r" ?/ ?\d")
_PREDICATE = re.compile(r",? and (?:is|am) (?:now )?")
_TYPE = re.compile(r"\s?: ?[\w\[\]<>.]{1,24} ?=(?![=>])")  # let age: u8 = 54
_SHORT_REACH = 32  # between two of a series: a unit, a comma and a joining word
_MOST_IN_SERIES = 64  # keeps the cost linear in a text of numbers only
_SUBJECT_CONCEPTS = ("wt", "ht", "age")  # age last: it alone takes a number without a unit
_WORD = re.compile(r"[^\W\d_]+")
_TYPED_AGE = re.compile(r" ?[^\W\d_]{3,7}[ -]old(?![^\W_])")
# Behind years in other languages: of experience, ago, later.
_NO_AGE = frozenset(
    ("de", "di", "d", "von", "van", "do", "da", "in", "im", "en", "fa", "atras", "lang", "später")
)
_AFTER_AGE = re.compile(  # "I hit 54 last month"
    r" *+(?:\Z|[.,;!?)\n\"']|(?:last|this|in|on) (?:month|week|year"
    r"|spring|summer|autumn|fall|winter|january|february|march|april|may|june|july|august"
    r"|september|october|november|december"
    r"|monday|tuesday|wednesday|thursday|friday|saturday|sunday)(?![^\W_])|(?P<word>[^\W\d_]+))"
)
# Signs that part nothing, beside the words of `wording.toml`: between a name and its number,
# between the names of a list, and between the numbers of a series.
_BETWEEN_SIGNS = frozenset(":=~≈|\"'({[)}]<>/\\,;*_-–—→&#+^")
_JOINING_SIGNS = frozenset(",/&+()[]|-\"'_;")
_ONWARD_SIGNS = frozenset(",/-–—→>&~;\"'([+)")
_SEVERAL_SIGNS = _ONWARD_SIGNS | {"|", "]"}
"""The same where several names have a number each by turns."""
_PERIOD = "(annual|yearly|monthly|weekly|daily|hourly)[ \\-]"
_PERIOD_BEFORE, _PERIOD_FIRST = re.compile(f"{_PERIOD}$"), re.compile(_PERIOD)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RootMention:
    """A place that holds a root's value. `number` is private, in the root's own unit."""

    start: int
    end: int
    root: RootName
    number: float
    form: Form
    place: int
    """Where its number begins on the page."""
    stated: bool = False
    """Whether its unit is written beside it."""


def find_mentions(text: str, roots: Mapping[RootName, Root]) -> list[RootMention]:
    """Every mention of a root in a text, in order, without overlaps."""
    return mentions_on(read_page(text, roots))


def mentions_on(page: Page) -> list[RootMention]:
    """Every mention on a page that was read."""
    return bind(page).mentions


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Bindings:
    """The mentions of a page, in order, and where the numbers begin that they are made of."""

    mentions: list[RootMention]
    bound: frozenset[int]


def bind(page: Page) -> Bindings:
    """Bind the numbers of a page to the names on it."""
    binder = _Binder(page)
    # The surest evidence first, since what is bound stays bound: a table's header, then what a
    # sentence says, then numbers that only look like a root's.
    binder.bind_columns()
    binder.bind_sentences()
    binder.bind_bare()
    found = sorted(binder.found, key=lambda mention: mention.start)
    return Bindings(mentions=found, bound=frozenset(binder.bound))


class Values:
    """Numbers of a page as values of roots that something else than a name ties them to."""

    __slots__ = ("_binder",)

    def __init__(self, page: Page) -> None:
        self._binder = _Binder(page)

    def of(self, number: WrittenNumber, root: RootName) -> RootMention | None:
        """A number as a root's value; None if it is in a unit of something else."""
        binder = self._binder
        quantity = binder.read(number, binder.measures[root], None)
        if quantity is None:
            return None
        binder.bound.clear()
        binder.found.clear()
        binder.keep(quantity, root, number)
        return binder.found[0]


def write(mention: RootMention, released: float) -> str:
    """A released value in the unit and the style of the mention, with the decimals of its root.

    Post-processing: `Form.write` looks at nothing private.
    """
    return mention.form.write(released)


class _Binder:
    """Binds the numbers of one page to its names."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.text = page.plain
        self.measures = page.vocabulary.measures
        self.found: list[RootMention] = []
        self.bound: set[int] = set()
        self._chains: dict[int, int] = {}
        self.numbers = [n for n in page.numbers if not page.public.meet(n.start, n.end)]
        self._starts = [number.start for number in self.numbers]
        self._next = dict(zip(self._starts, self.numbers[1:], strict=False))
        self._lines = {
            column.header.start: (
                self.text.rfind("\n", 0, column.header.start) + 1,
                self.text.find("\n", column.header.start),
            )
            for column in page.columns
        }
        self._cells = sorted(
            (cell.start, cell.end, column.header.start)
            for column in page.columns
            for cell in column.cells
        )

    def bind_columns(self) -> None:
        """Numbers in table cells under a header that names a root."""
        if len(self.measures) == 0 or "\n" not in self.text.strip():
            return
        starts = [name.start for name in self.page.names]
        for column in self.page.columns:
            top = column.header
            first, last = bisect_left(starts, top.start), bisect_left(starts, top.end)
            named = [name for name in self.page.names[first:last] if len(name.roots) == 1]
            if len(named) != 1:
                continue
            measure = self.measures[_root(named[0])]
            head = read_gap(
                self.text, named[0].end, top.end, measure, wording()["between"], _BETWEEN_SIGNS
            )
            before = self.text[top.start : named[0].start].strip(" \"'*_")
            if head is None or before not in ("", "my", "serum", "plasma", "fasting"):
                continue
            for cell in column.cells:
                for number in self._inside(cell.start, cell.end):
                    quantity = self.read(number, measure, head.unit)
                    if quantity is not None:
                        self.keep(quantity, measure.root, number)

    def _inside(self, start: int, end: int) -> list[WrittenNumber]:
        first, last = bisect_left(self._starts, start), bisect_left(self._starts, end)
        return [number for number in self.numbers[first:last] if number.end <= end]

    def bind_sentences(self) -> None:
        """Numbers after names, lists of numbers after lists of names, numbers before names."""
        items: list[NamePlace | WrittenNumber] = [*self.page.names, *self.numbers]
        items.sort(key=lambda item: item.start)
        run: list[NamePlace] = []
        fresh = False
        place = 0
        while place < len(items):
            item = items[place]
            if isinstance(item, NamePlace):
                if not (run and fresh and self._joins(run[-1], item)):
                    run = []
                run = [*run[1 - _MOST_IN_SERIES :], item]
                fresh = True
                place += 1
                continue
            if item.start in self.bound:
                fresh = False
                place += 1
                continue
            headed = run and fresh and self._is_below(run[-1], item)
            after = self._bind_forward(run, items, place) if run and fresh and not headed else 0
            if after:
                fresh = False
                place += after
                continue
            taken, name = (1, None) if self._inches(item) else self._bind_backward(items, place)
            if name is not None:
                run, fresh = [name], False
                place += taken
            else:
                place += 1

    def _is_below(self, name: NamePlace, number: WrittenNumber) -> bool:
        """Whether a number is in a cell of the table in whose header a name stands.

        Its own column was read before: what is left is in another.
        """
        at = bisect_right(self._cells, number.start, key=lambda cell: cell[0]) - 1
        if at < 0 or number.start >= self._cells[at][1]:
            return False
        header = self._cells[at][2]
        return self._lines[header][0] <= name.start < self._lines[header][1]

    def _inches(self, number: WrittenNumber) -> bool:
        """Whether it is what follows feet: it is no value of its own, whatever name comes next."""
        height = self.page.vocabulary.named("ht")
        before = bisect_left(self._starts, number.start) - 1
        if height is None or before < 0 or self._starts[before] in self.bound:
            return False
        quantity = self.read(self.numbers[before], height, None)
        return quantity is not None and bool(quantity.form.minor)

    def bind_bare(self) -> None:
        """Numbers that need no name: feet and inches, a pressure in mmHg, a yearly amount."""
        vocabulary = self.page.vocabulary
        height, income = vocabulary.named("ht"), vocabulary.named("income")
        for number in self.numbers:
            following = self._next.get(number.start)
            if number.start in self.bound or number.value is None:
                continue
            if height is not None and following is not None and "'" in self._to(number, following):
                quantity = self.read(number, height, None)
                if quantity is not None and quantity.form.minor:
                    self.keep(quantity, height.root, number)
            elif income is not None and units.currency_before(self.text, number.start):
                quantity = self.read(number, income, None)
                if quantity is not None and quantity.form.unit.endswith("/year"):
                    self.keep(quantity, income.root, number)
            elif following is not None and self._to(number, following) in ("/", " over "):
                self._bind_pressure(number, following)

    def _to(self, number: WrittenNumber, following: WrittenNumber) -> str:
        # " over ", the longest that is asked for, fits; a far number must not cost its distance.
        return self.text[number.end : min(following.start, number.end + 8)]

    def _bind_pressure(self, first: WrittenNumber, second: WrittenNumber) -> None:
        pair = self.page.vocabulary.pair()
        if not pair or following_unit(self.text, second.end) not in ("mmHg", "kPa"):
            return
        for root, number in zip(pair, (first, second), strict=True):
            if root is not None:
                unit = following_unit(self.text, second.end)
                quantity = self.read(number, self.measures[root], unit)
                if quantity is not None:
                    self.keep(quantity, root, number)

    def _bind_forward(
        self, run: list[NamePlace], items: Sequence[NamePlace | WrittenNumber], place: int
    ) -> int:
        """Bind the numbers from `place` on to the run of names before; how many items that took."""
        if run[-1].subject:
            return self._bind_subject(run[-1], items[place])
        slots = [root for name in run for root in name.roots]
        series = self._series(slots, run[-1], items, place)
        if not series:
            return 0
        fewer = len(series) < len(slots) and not (len(run) == 1 and len(slots) == 2)
        if fewer:
            slots = slots[-len(series) :]
            series = self._series(slots, run[-1], items, place)[: len(slots)]
        if len(slots) > 1 and len(series) % len(slots) and len(series) > len(slots):
            series = series[: len(slots)]
        self._keep_series(series, slots)
        taken = sum(1 + bool(quantity and quantity.form.minor) for _, quantity in series)
        if series and place + taken < len(items):
            taken += self._bind_age_after(series[-1][1], items[place + taken])
        return taken

    def _bind_age_after(self, told: Quantity | None, number: NamePlace | WrittenNumber) -> int:
        """As in "weighs 83.5 kg and is 54": a second predicate without a unit is an age."""
        age = self.page.vocabulary.named("age")
        if age is None or told is None or not isinstance(number, WrittenNumber):
            return 0
        if not self._begins_predicate(told, number) or number.value != int(number.value or 0):
            return 0
        quantity = self.read(number, age, None)
        if quantity is None or not age.holds(quantity.value, age.unit):
            return 0
        if not self._ends_age(quantity.after, age, quantity, foreign=False):
            return 0
        self.keep(quantity, age.root, number)
        return 1

    def _begins_predicate(self, told: Quantity, number: WrittenNumber) -> bool:
        """Whether "and is" stands between a quantity in its unit and a bare number."""
        gap = self.text[told.after : number.start]
        return told.stated and _PREDICATE.fullmatch(gap) is not None

    def _series(
        self,
        slots: Sequence[RootName | None],
        name: NamePlace,
        items: Sequence[NamePlace | WrittenNumber],
        place: int,
    ) -> list[tuple[WrittenNumber, Quantity | None]]:
        """The numbers that follow a name, read by turns for its roots."""
        series: list[tuple[WrittenNumber, Quantity | None]] = []
        reach = name.end
        hint = None
        while place < len(items) and len(series) < _MOST_IN_SERIES:
            number, root = items[place], slots[len(series) % len(slots)]
            if (
                isinstance(number, NamePlace)
                or number.start in self.bound
                or number.sort == "opaque"
            ):
                break
            measure = self._measure(root, slots)
            if series:
                gap = self._onward(reach, number.start, measure, several=len(slots) > 1)
            else:
                words, signs = wording()["between"], _BETWEEN_SIGNS
                if len(slots) > 1 and _RATIO.match(self.text, number.end):
                    words |= {"ratio"}  # "AST/ALT ratio (23/30)"
                gap = read_gap(self.text, reach, number.start, measure, words, signs)
            if gap is None:
                break
            if not series:
                hint = gap.unit or self._period_before(name, measure)
            quantity = None
            reach = number.end
            if number.sort != "hole":
                quantity = self.read(number, measure, hint)
                if (
                    quantity is None
                    and series
                    and self.text[reach : number.start].strip() in (*("/", "-", "\\"),)
                ):
                    # "134/86 L arm": what follows the second of a pair is no unit of it.
                    quantity = read_quantity(self.text[: number.end], number, measure, None, hint)
                if quantity is None or not _tied(name, number, gap, quantity, first=not series):
                    break
                told = series[-1][1] if series else None
                if (
                    told is not None
                    and not quantity.stated
                    and self._begins_predicate(told, number)
                ):
                    break
                reach = quantity.after
            series.append((number, quantity if root is not None else None))
            place += 1 + bool(quantity and quantity.form.minor)
        return series

    def _measure(self, root: RootName | None, slots: Sequence[RootName | None]) -> Measure:
        """A slot without a root is read like its neighbour: its number is consumed, not bound."""
        chosen = root or next(slot for slot in slots if slot is not None)
        return self.measures[chosen]

    def _keep_series(
        self,
        series: Sequence[tuple[WrittenNumber, Quantity | None]],
        slots: Sequence[RootName | None],
    ) -> None:
        """Keep a series; without a unit a number takes that of the one after ("20-25 mmol/L")."""
        later: str | None = None
        for index in reversed(range(len(series))):
            number, quantity = series[index]
            root = slots[index % len(slots)]
            if quantity is None or root is None:
                continue
            measure = self.measures[root]
            if quantity.stated:
                later = quantity.form.unit if not quantity.form.minor else None
            elif later is not None and units.fits(later, measure.unit, measure.substance):
                quantity = self.read(number, measure, later) or quantity
            self.keep(quantity, root, number)

    def _bind_subject(self, name: NamePlace, number: NamePlace | WrittenNumber) -> int:
        """As in "I'm 176 lbs", "she is 50": the unit says of what; without one it is an age."""
        if isinstance(number, NamePlace) or number.value is None:
            return 0
        for concept in _SUBJECT_CONCEPTS:
            measure = self.page.vocabulary.named(concept)
            if measure is None:
                continue
            words = wording()["between"]
            gap = read_gap(self.text, name.end, number.start, measure, words, frozenset("~≈"))
            quantity = None if gap is None else self.read(number, measure, None)
            if quantity is None or (name.everyday and not quantity.stated):
                continue
            if concept == "age" and number.value != int(number.value) and not quantity.stated:
                continue  # "I'm 83.5": nobody's age has a fraction
            if concept == "age" and not self._ends_age(
                quantity.after, measure, quantity, foreign=name.everyday
            ):
                continue
            if concept != "age" and not quantity.stated:
                continue
            self.keep(quantity, measure.root, number)
            return 1 + bool(quantity.form.minor)
        return 0

    def _ends_age(self, place: int, measure: Measure, quantity: Quantity, *, foreign: bool) -> bool:
        if quantity.form.factor != 1.0:
            return False
        if quantity.form.unit != measure.unit:  # "648 months old"
            return quantity.stated and self.text[place : place + 4].strip() == "old"
        if _TYPED_AGE.match(self.text, place):  # "54 yeras old"
            return True
        end = _AFTER_AGE.match(self.text, place)
        if end is None or end["word"] is None or end["word"] in _ages_before():
            return end is not None
        # "Tenho 54 anos e ...": with its unit it is an age, unless it is of something or past.
        return foreign and quantity.stated and end["word"] not in _NO_AGE

    def _bind_backward(
        self, items: Sequence[NamePlace | WrittenNumber], place: int
    ) -> tuple[int, NamePlace | None]:
        """As in "23 U/L AST", "134/64 blood pressure", "23 and 30 for AST and ALT"."""
        at = self._chain_end(items, place)
        if at - place > _MOST_IN_SERIES or at == len(items) or not isinstance(items[at], NamePlace):
            return 1, None
        numbers = [item for item in items[place:at] if isinstance(item, WrittenNumber)]
        names: list[NamePlace] = []
        while at < len(items) and len(names) < _MOST_IN_SERIES:
            item = items[at]
            if not isinstance(item, NamePlace) or item.subject:
                break
            if names and not self._joins(names[-1], item):
                break
            names.append(item)
            at += 1
        if not names or names[0].everyday:
            return 1, None
        slots = [root for name in names for root in name.roots]
        if len(slots) != len(numbers) or len(slots) == 1:
            if len(numbers) > 1 and numbers[0].end != numbers[-1].end:
                return self._bind_one_backward(numbers, names[0])
            numbers, slots, names = numbers[-1:], list(names[0].roots[:1]), names[:1]
        pairs = []
        for number, root in zip(numbers, slots, strict=True):
            quantity = self._backward(number, self._measure(root, slots), names[0], numbers[-1])
            if quantity is None:
                return 1, None
            if quantity.form.minor and number is not numbers[-1]:  # "6 ft 1" is one value, not two
                return self._bind_one_backward(numbers, names[0])
            pairs.append((number, quantity if root is not None else None))
        self._keep_series(pairs, slots)
        return len(numbers) + len(names), names[-1]

    def _chain_end(self, items: Sequence[NamePlace | WrittenNumber], place: int) -> int:
        """Where the series of numbers that begins here ends; found once for all its members."""
        if place not in self._chains:
            at = place + 1
            while at < len(items):
                last, item = items[at - 1], items[at]
                if isinstance(item, NamePlace) or item.sort == "opaque" or item.start in self.bound:
                    break
                if not self._onward_any(last.end, item.start):
                    break
                at += 1
            self._chains.update(dict.fromkeys(range(place, at), at))
        return self._chains[place]

    def _bind_one_backward(
        self, numbers: list[WrittenNumber], name: NamePlace
    ) -> tuple[int, NamePlace | None]:
        """Only the last number of a series stands before the name; feet and inches count as one."""
        root = name.roots[0]
        if root is None:
            return 1, None
        quantity = self._backward(numbers[0], self.measures[root], name, numbers[-1])
        if quantity is not None and quantity.form.minor:
            self.keep(quantity, root, numbers[0])
            return 3, name  # two numbers and the name
        return 1, None

    def _backward(
        self, number: WrittenNumber, measure: Measure, name: NamePlace, last: WrittenNumber
    ) -> Quantity | None:
        """A number read for a root whose name comes after `last`."""
        quantity = self.read(number, measure, None)
        if quantity is None:
            return None
        reach = quantity.after if number is last or quantity.form.minor else last.end
        if number is last and reach > name.start:  # the name begins with the unit: "50 years old"
            reach = number.end
        if number is not last and not quantity.form.minor:
            ending = self.read(last, measure, None)
            reach = last.end if ending is None else min(ending.after, name.start)
        words = wording()["after"]
        if name.start - reach > _SHORT_REACH or reach > name.start:
            return None
        if "\n" in self.text[reach : name.start]:  # the line below has its own number
            return None
        gap = read_gap(self.text, reach, name.start, measure, words, frozenset('-("_'))
        return None if gap is None else quantity

    def read(self, number: WrittenNumber, measure: Measure, hint: str | None) -> Quantity | None:
        if measure.flag and number.value not in (0.0, 1.0, None):
            return None  # "female, 54" is an age
        return read_quantity(self.text, number, measure, self._next.get(number.start), hint)

    def keep(self, quantity: Quantity, root: RootName, number: WrittenNumber) -> None:
        if number.start in self.bound:
            return
        original = self.page.original
        start, end = self.page.folded.span(quantity.start, quantity.end)
        form = quantity.form
        self.bound.add(number.start)
        if form.minor:
            second = self._next[number.start]
            self.bound.add(second.start)
            left = self.page.folded.span(number.start, number.end)[1]
            right = self.page.folded.span(second.start, second.end)[0]
            form = replace(form, middle=original[left:right])
        if form.suffix:
            written = self.page.folded.span(number.start, number.end)[1]
            form = replace(form, suffix=f"{original[written:end]} a year")
        if form.group == " ":
            form = replace(form, group=next(c for c in original[start:end] if c.isspace()))
        self.found.append(
            RootMention(
                start=start,
                end=end,
                root=root,
                number=quantity.value,
                form=form,
                place=number.start,
                stated=quantity.stated,
            )
        )

    def _period_before(self, name: NamePlace, measure: Measure) -> str | None:
        if not measure.money:
            return None
        # 9 characters: the longest, "monthly ", has eight.
        found = _PERIOD_BEFORE.search(self.text[max(0, name.start - 9) : name.start])
        found = found or _PERIOD_FIRST.match(self.text, name.start, name.end)  # "yearly income"
        period = None if found is None else units.read_period(found[1], 0)
        return None if period is None else f"{measure.unit.partition('/')[0]}/{period[0]}"

    def _joins(self, left: NamePlace, right: NamePlace) -> bool:
        """Whether two names are of one list, or one in brackets after the other."""
        if left.subject or right.subject or right.start - left.end > _SHORT_REACH:
            return False
        measure = self._measure(left.roots[0], left.roots)
        gap = read_gap(
            self.text, left.end, right.start, measure, wording()["joining"], _JOINING_SIGNS
        )
        return gap is not None

    def _onward(self, start: int, end: int, measure: Measure, *, several: bool) -> Gap | None:
        """What stands between two numbers of one series."""
        if end - start > _SHORT_REACH:
            return None
        signs = _SEVERAL_SIGNS if several else _ONWARD_SIGNS
        gap = read_gap(self.text, start, end, measure, wording()["onward"], signs)
        if gap is None or (gap.empty and not several):
            return None
        if not several and "\n" in self.text[start:end]:
            return None
        return gap

    def _onward_any(self, start: int, end: int) -> bool:
        """Whether two numbers may be of one series, whatever their units."""
        if end - start > _SHORT_REACH or "\n" in self.text[start:end]:
            return False
        known = wording()["onward"]
        rest = self.text[start:end]
        words = _WORD.findall(rest)
        found = following_unit(self.text, start)
        skipped = _WORD.findall(found.lower()) if found else []
        return bool(rest.strip()) and all(
            word in known or word in skipped or word in ("ft", "feet", "foot", "st", "stone")
            for word in words
        )


def _tied(
    name: NamePlace, number: WrittenNumber, gap: Gap, quantity: Quantity, *, first: bool
) -> bool:
    """Whether an everyday word, or "one", or a bracket is tied closely enough to count."""
    if first and name.everyday and not (gap.strong or quantity.stated):
        return False
    if number.sort == "words" and number.value == 1 and number.end - number.start == len("one"):
        return quantity.stated or (first and gap.strong)
    return first or not gap.bracket or quantity.stated


def _root(name: NamePlace) -> RootName:
    root = name.roots[0]
    assert root is not None  # noqa: S101 - asked only of names of one root
    return root


def _ages_before() -> frozenset[str]:
    words: frozenset[str] = wording()["ages_before"]
    return words


_LEAST_LISTED: Final = 2  # numbers: one in a row has no order to go by
_CALL_LENGTH: Final = 260  # characters: the longest name and arguments that `_CALLEE` takes
_RESULT_REACH: Final = 20  # ").\nObservation: "
_SHORT: Final = 3  # characters between the numbers of a list
_RESULT = re.compile(
    r"\)\s?(?:->|=>|==?|→|:)\s?\Z"
    r"|\)[.;]?\s{1,3}(?:observation|result|output|returns|returned|answer)\s?[:=]?\s?\Z"
)
_ARGUMENTS = re.compile(r"\([^()\n]{0,200},")
_CALLEE = re.compile(r"([^\W\d]\w{0,40})\s?\([^()\n]{0,200}\Z")
_FAR: Final = 40  # characters between the name and its number, as for a root
_SIGNS = re.compile(r"[\s:=~≈|\"'(\[*_,→-]*(?:\.{2,}\s*)?")
_TABLE_NAME: Final = 80  # characters before the columns: "insert into clinic.patients"
_INTO = re.compile(
    r"\binto [\w.\"`\[\]]*?(?:patients|employees|users|customers|applicants|members|people|persons"
    r"|students|clients|participants|subjects|borrowers|workers|staff|players)[\"`\]]? ?\Z"
)
_INSERTED = re.compile(r"\(([^()]{1,400})\)\s*values\s*((?:\([^()]{1,400}\)[\s,]*)+)")
_NAMED = re.compile(r"(?<![^\W_])(?:name|first_name|last_name|employee|customer)(?![^\W_])")
_CALL = re.compile(r"([^\W\d]\w{0,40}(?:[- ]?\d)?)\s?\(([^()\n]{0,200})\)")


@functools.cache
def _finder() -> names.Finder:
    return names.Finder(((name,), spelt) for name, spelt in names.computed().items())


_UNPACKED = re.compile(  # bounded, so that a long line costs what it is long
    r"(?:\A|\n|;)[ \t]*([a-z_]\w{0,30}(?:, ?[a-z_]\w{0,30}){1,11}) ?= ?"
    r"\(?(\d[\d.]{0,12}(?:, ?\d[\d.]{0,12}){1,11})\)?"
)
_COMES_TO = frozenset(
    ("and", "i", "get", "got", "came", "comes", "out", "works", "worked", "covers", "says", "gives")
)
"""How a result is told: "my FIB-4 and get 1.03", "homa came out 2.99"."""


class ComputedNames:
    """The names of computed values on a page."""

    __slots__ = ("_ends", "_page")

    def __init__(self, page: Page) -> None:
        self._page = page
        roots = Spans((name.start, name.end) for name in page.names if not name.subject)
        self._ends = [
            (hit.end, str(hit.names[0]))
            for hit in _finder().find(page.bare, page.folded.text, page.runs)
            if not roots.meet(hit.start, hit.end)
            and not hit.spelling.needs_tie(page.folded.text[hit.start : hit.end], ())
        ]

    @property
    def places(self) -> list[tuple[int, str]]:
        """Where they end, and which."""
        return self._ends

    def called(self, number: WrittenNumber) -> str | None:
        """The computed value whose call a number is the result of: "calc_bmi(…) -> 26.35"."""
        text = self._page.plain
        closed = _RESULT.search(text, max(0, number.start - _RESULT_REACH), number.start)
        if closed is None:
            return None
        callee = _CALLEE.search(text, max(0, closed.start() - _CALL_LENGTH), closed.start())
        if callee is None:
            return None
        end = callee.end(1)
        at = bisect_right(self._ends, end, key=lambda each: each[0]) - 1
        return self._ends[at][1] if at >= 0 and self._ends[at][0] == end else None

    @property
    def names(self) -> list[str]:
        """All of them, in order."""
        return [name for _, name in self._ends]

    def before(self, number: WrittenNumber) -> str | None:
        """The computed value that a number stands right behind, if it does."""
        at = bisect_right(self._ends, number.start, key=lambda each: each[0]) - 1
        if at < 0 or number.start - self._ends[at][0] > _FAR:
            return None
        end, name = self._ends[at]
        gap = self._page.plain[end : number.start]
        if "\n" in gap.strip() or _ARGUMENTS.match(self._page.plain, end):
            return None  # "bmi(70, 1.75)" has what it is computed from
        known = wording()["between"]
        # "MAP from 134/86" has what it is computed from.
        tied = all(
            (word in known and word != "from") or word in _COMES_TO for word in _WORD.findall(gap)
        )
        return name if tied and _SIGNS.fullmatch(_WORD.sub(" ", gap)) else None


def _listed(page: Page) -> dict[int, RootName | None]:
    """Bare numbers behind a calculation's name, if there are as many as it has roots.

    "FIB-4 for me: 54 23 30 220"
    """
    found: dict[int, RootName | None] = {}
    if any(not name.subject for name in page.names):
        return found
    ends = ComputedNames(page).places
    for at, (end, name) in enumerate(ends):
        roots = page.vocabulary.formulas.get(key_of(name))
        stop = ends[at + 1][0] if at + 1 < len(ends) else len(page.plain)
        first = bisect_left(page.numbers, end, key=lambda number: number.start)
        last = bisect_left(page.numbers, stop, key=lambda number: number.start)
        if not roots or len(roots) < _LEAST_LISTED or last - first != len(roots):
            continue
        numbers = page.numbers[first:last]
        gaps = [page.plain[a.end : b.start] for a, b in itertools.pairwise(numbers)]
        if all(len(gap) <= _SHORT and not _WORD.search(gap) for gap in gaps):
            found |= {number.start: root for number, root in zip(numbers, roots, strict=True)}
    return found


def _inserted(page: Page, owner_names: Collection[str]) -> dict[int, RootName | None]:
    """Values of SQL under the columns that stand before them, but for rows of other names."""
    found: dict[int, RootName | None] = {}
    if "values" not in page.plain:
        return found
    for match in _INSERTED.finditer(page.plain):
        rows = list(re.finditer(r"\(([^()]*)\)", match[2]))
        table = _INTO.search(page.plain, max(0, match.start() - _TABLE_NAME), match.start())
        if table is not None and len(rows) > 1:
            continue  # rows of patients are several people's
        columns = _cells(match[1], match.start(1))
        by_name = any(_NAMED.search(page.plain, *column) for column in columns)
        for row in rows:
            if by_name and not any(caseless(name) in row[1] for name in owner_names):
                continue
            cells = _cells(row[1], match.start(2) + row.start(1))
            found |= _in_order(page, columns, cells)
    return found


def _unpacked(page: Page) -> dict[int, RootName | None]:
    """Values of code by the names that they are given to in order: `ast, alt = 23, 30`."""
    found: dict[int, RootName | None] = {}
    for match in _UNPACKED.finditer(page.plain) if "=" in page.plain else ():
        targets, values = _cells(match[1], match.start(1)), _cells(match[2], match.start(2))
        found |= _in_order(page, targets, values)
    return found


def _in_order(
    page: Page, named: Sequence[tuple[int, int]], cells: Sequence[tuple[int, int]]
) -> dict[int, RootName | None]:
    """The number of each cell, and the quantity that the place of the same rank names."""
    found: dict[int, RootName | None] = {}
    if len(named) != len(cells):
        return found
    for (low, high), (start, end) in zip(named, cells, strict=True):
        roots = [n.roots[0] for n in page.names if low <= n.start < high and len(n.roots) == 1]
        inside = [n for n in page.numbers if start <= n.start < end]
        if roots and len(inside) == 1:
            found[inside[0].start] = roots[0]
    return found


def _cells(text: str, start: int) -> list[tuple[int, int]]:
    cells = []
    for part in text.split(","):
        cells.append((start, start + len(part)))
        start += len(part) + 1
    return cells


def _is_defined(text: str, name: str) -> bool:
    """Whether a text defines a function of this name: then its calls are examples."""
    return re.search(rf"\b(?:def|function|func|fn) {re.escape(name)}\s?\(", text) is not None


def positional(page: Page, owner_names: Collection[str] = ()) -> Mapping[int, RootName | None]:
    """Numbers that are arguments by position, by place; None where it is not clear which."""
    found = _inserted(page, owner_names) | _unpacked(page)
    orders = page.vocabulary.formulas
    if orders and len(page.numbers) >= _LEAST_LISTED:
        found |= _listed(page)
    if not orders or "(" not in page.plain:
        return found
    named = {name.start for name in page.names if not name.subject}
    for match in _CALL.finditer(page.plain):
        roots = orders.get(key_of(match[1]))
        if roots is None or (
            _is_defined(page.plain, match[1])
            and all(page.vocabulary.measures[root].everyday for root in roots)
        ):
            continue  # a weight and a height may be made up for a call; a whole panel is not
        inside = [n for n in page.numbers if match.start(2) <= n.start < match.end(2)]
        if any(match.start(2) <= place < match.end(2) for place in named):
            continue  # fib4(age=54): by name
        fits = len(inside) == len(roots)
        for at, number in enumerate(inside):
            found[number.start] = roots[at] if fits else None
    return found
