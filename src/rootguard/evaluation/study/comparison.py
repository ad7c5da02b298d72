"""Ours beside the published: what counts as a match, how many there are, and what does not.

Every study compares with printed figures that are one draw of the noise; ours are the mean over the
run's repeats. How near is near enough is each study's own; counting and showing it is the same.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

from rootguard.advice.people import PAPER_TEMPLATES
from rootguard.evaluation.study.tables import Sheet
from rootguard.template import load_template

LIMIT = 4.0
"""Combined standard errors. A true match lies outside about once in 16,000 normal cells."""
SYNTHETIC_REASON = "the cohort is synthetic; the paper's is not"
Count = tuple[int, int]
"""How many match, and how many there are."""


class ComparedCell(Protocol):
    """A published figure with ours beside it."""

    @property
    def matches(self) -> bool: ...


class TemplateCell(Protocol):
    """What a figure is about: of a template, at least."""

    @property
    def template(self) -> str: ...


class _Row(Protocol):
    @property
    def cell(self) -> TemplateCell: ...
    @property
    def template_hash(self) -> str: ...


R = TypeVar("R", bound=_Row)


def of_catalog(rows: Iterable[R]) -> list[R]:
    """The rows of the paper's own templates: one's own of the same name is another template."""
    digests = {name: load_template(name).digest for name in PAPER_TEMPLATES}
    return [row for row in rows if digests.get(row.cell.template) == row.template_hash]


def standard_errors(ours: float, ours_se: float, published: float, published_se: float) -> float:
    """The difference in combined standard errors; infinite where both have none and differ."""
    combined, difference = math.hypot(ours_se, published_se), ours - published
    if combined == 0:
        return 0.0 if difference == 0 else math.copysign(math.inf, difference)
    return difference / combined


def matching(cells: Iterable[ComparedCell]) -> Count:
    """How many cells match, and how many there are."""
    chosen = [cell.matches for cell in cells]
    return sum(chosen), len(chosen)


def counts_sheet(title: str, counts: Mapping[str, Count], note: str = "") -> Sheet:
    """How many cells of each table match; of those that have any."""
    lines = ((name, str(good), str(of)) for name, (good, of) in counts.items() if of)
    return Sheet(title=title, header=("table", "match", "of"), lines=tuple(lines), note=note)


def counts_json(counts: Mapping[str, Count]) -> dict[str, object]:
    """The same for programs."""
    return {name: {"match": good, "of": of} for name, (good, of) in counts.items() if of}
