"""Computed values in a text: numbers behind their names, and arguments of their calculations.

"My FIB-4 is 1.03" tells of every root that FIB-4 is made of. What it goes by is in the index of
names (`[formulas]` and `[computed]`). "fib4(54, 23, 30, 220)" has the roots themselves, in the
order in which the template declares them.
"""

import functools
import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping
from typing import Final

from rootguard.language import names
from rootguard.language.fold import Spans, caseless, key_of
from rootguard.language.numbers import WrittenNumber
from rootguard.reading.page import Page, wording
from rootguard.values import RootName

_LEAST_LISTED: Final = 2
_CALL_LENGTH: Final = 260
_SHORT: Final = 3  # characters between the numbers of a list
_RESULT = re.compile(r"\)\s?(?:->|=>|==?|→|:)\s?\Z")
_ARGUMENTS = re.compile(r"\([^()\n]{0,200},")
_CALLEE = re.compile(r"([^\W\d]\w{0,40})\s?\([^()\n]{0,200}\Z")
_FAR: Final = 40  # characters between the name and its number, as for a root
_WORD = re.compile(r"[^\W\d_]+")
_SIGNS = re.compile(r"[\s:=~≈|\"'(\[*_,→-]*(?:\.{2,}\s*)?")
_INSERTED = re.compile(r"\(([^()]{1,400})\)\s*values\s*((?:\([^()]{1,400}\)[\s,]*)+)")
_NAMED = re.compile(r"(?<![^\W_])(?:name|first_name|last_name|employee|customer)(?![^\W_])")
_CALL = re.compile(r"([^\W\d]\w{0,40}(?:[- ]?\d)?)\s?\(([^()\n]{0,200})\)")


@functools.cache
def _finder() -> names.Finder:
    return names.Finder(((name,), spelt) for name, spelt in names.computed().items())


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
        closed = _RESULT.search(text, max(0, number.start - 6), number.start)
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
        tied = all(word in known and word != "from" for word in _WORD.findall(gap))
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
        columns = _cells(match[1], match.start(1))
        named = [
            next(
                (n.roots[0] for n in page.names if start <= n.start < end and len(n.roots) == 1),
                None,
            )
            for start, end in columns
        ]
        by_name = any(_NAMED.search(page.plain, *column) for column in columns)
        for row in re.finditer(r"\(([^()]*)\)", match[2]):
            if by_name and not any(caseless(name) in row[1] for name in owner_names):
                continue
            cells = _cells(row[1], match.start(2) + row.start(1))
            if len(cells) != len(columns):
                continue
            for (start, end), root in zip(cells, named, strict=True):
                inside = [n for n in page.numbers if start <= n.start < end]
                if root is not None and len(inside) == 1:
                    found[inside[0].start] = root
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
    found = _inserted(page, owner_names)
    orders = page.vocabulary.formulas
    if orders and len(page.numbers) >= _LEAST_LISTED:
        found |= _listed(page)
    if not orders or "(" not in page.plain:
        return found
    named = {name.start for name in page.names if not name.subject}
    for match in _CALL.finditer(page.plain):
        roots = orders.get(key_of(match[1]))
        if roots is None or _is_defined(page.plain, match[1]):
            continue
        inside = [n for n in page.numbers if match.start(2) <= n.start < match.end(2)]
        if any(match.start(2) <= place < match.end(2) for place in named):
            continue  # fib4(age=54): by name
        fits = len(inside) == len(roots)
        for at, number in enumerate(inside):
            found[number.start] = roots[at] if fits else None
    return found
