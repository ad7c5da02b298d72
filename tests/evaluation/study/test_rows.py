"""Rows of a study: their CSV follows from their fields and reads back as what it was made of."""

from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal

import pytest

from rootguard.evaluation.study.rows import columns, named, read_rows, values, write_rows
from rootguard.values import RootName


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    epsilon: Fraction
    queries: int = field(metadata=named("q"))
    kind: Literal["fresh", "cached"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    seed: int
    synthetic: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Line(Origin):
    cell: Place
    root: RootName
    error: float | None = None
    notes: tuple[str, ...] = field(default=(), metadata=named(None))


LINES = [
    Line(
        cell=Place(epsilon=Fraction(1, 200), queries=4, kind="fresh"),
        root=RootName("glu"),
        error=0.1 + 0.2,
        seed=0,
        synthetic=True,
    ),
    Line(
        cell=Place(epsilon=Fraction(5), queries=16, kind="cached"),
        root=RootName("a, b"),
        seed=7,
        synthetic=False,
    ),
]


def test_columns_are_the_fields_with_the_cells_among_them_and_what_is_inherited_last() -> None:
    assert columns(Line) == ("epsilon", "q", "kind", "root", "error", "seed", "synthetic")
    assert values(LINES[0]) == ("0.005", 4, "fresh", "glu", 0.1 + 0.2, 0, "true")
    assert values(LINES[1]) == ("5.0", 16, "cached", "a, b", None, 7, "false")


def test_rows_read_back_equal_and_no_rows_leave_a_header(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.csv", Line, LINES)
    assert read_rows(tmp_path / "rows.csv", Line) == LINES
    write_rows(tmp_path / "none.csv", Line, [])
    assert (tmp_path / "none.csv").read_text() == "epsilon,q,kind,root,error,seed,synthetic\n"


@pytest.mark.parametrize(
    ("was", "then"),
    [
        ("fresh", "stale"),
        ("true", "maybe"),
        ("0.005,4", "0.005,four"),
        ("0.005", "tiny"),
        (",true", ""),
        (",true", ",true,more"),
        ("epsilon,", "eps,"),
    ],
)
def test_a_file_with_anything_in_it_that_is_not_ours_is_not_read(
    tmp_path: Path, was: str, then: str
) -> None:
    path = tmp_path / "rows.csv"
    write_rows(path, Line, LINES)
    text = path.read_text()
    assert was in text
    path.write_text(text.replace(was, then, 1))
    assert read_rows(path, Line) == []


def test_a_file_is_replaced_whole_or_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    write_rows(path, Line, LINES)
    before = path.read_text()

    class Broken:
        def __str__(self) -> str:
            raise RuntimeError

    broken = Line(
        cell=LINES[0].cell, root=Broken(), seed=0, synthetic=True  # type: ignore[arg-type]
    )  # fmt: skip
    with pytest.raises(RuntimeError):
        write_rows(path, Line, [LINES[0], broken])
    assert path.read_text() == before
    assert [one.name for one in tmp_path.iterdir()] == ["rows.csv"]
