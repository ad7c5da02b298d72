"""Computed values in a text: numbers behind their names, and arguments of their calculations.

"My FIB-4 is 1.03" tells of every root that FIB-4 is made of. What it goes by is in the index of
names (`[formulas]` and `[computed]`). "fib4(54, 23, 30, 220)" has the roots themselves, in the
order in which the template declares them.
"""

import functools
import re
from bisect import bisect_right
from collections.abc import Mapping
from typing import Final

from rootguard.language import names
from rootguard.language.fold import Spans, key_of
from rootguard.language.numbers import WrittenNumber
from rootguard.reading.page import Page, wording
from rootguard.values import RootName

_FAR: Final = 40  # characters between the name and its number, as for a root
_WORD = re.compile(r"[^\W\d_]+")
_SIGNS = re.compile(r"[\s:=~≈|\"'(\[*_,→-]*(?:\.{2,}\s*)?")
_INSERTED = re.compile(r"\(([^()]{1,400})\)\s*values\s*((?:\([^()]{1,400}\)[\s,]*)+)")
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
        if "\n" in gap.strip():
            return None
        known = wording()["between"]
        # "MAP from 134/86" has what it is computed from.
        tied = all(word in known and word != "from" for word in _WORD.findall(gap))
        return name if tied and _SIGNS.fullmatch(_WORD.sub(" ", gap)) else None


def _inserted(page: Page) -> dict[int, RootName | None]:
    """Values of SQL under the columns that stand before them."""
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
        for row in re.finditer(r"\(([^()]*)\)", match[2]):
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


def positional(page: Page) -> Mapping[int, RootName | None]:
    """Numbers that are arguments by position, by place; None where it is not clear which."""
    found = _inserted(page)
    orders = page.vocabulary.formulas
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
