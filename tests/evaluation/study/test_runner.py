"""Runs that are stopped: rows and lines that were finished are there afterwards."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from rootguard.errors import FileError
from rootguard.evaluation.study.comparison import standard_errors
from rootguard.evaluation.study.page import Findings, Section
from rootguard.evaluation.study.plots import Drawing
from rootguard.evaluation.study.rows import read_rows
from rootguard.evaluation.study.runner import (
    LineLog,
    Progress,
    Resumption,
    gather,
    run_study,
    silent,
)
from rootguard.evaluation.study.tables import Sheet


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    number: int
    square: int


def squares(numbers: Iterator[int] | range) -> Iterator[Row]:
    for number in numbers:
        if number < 0:
            raise KeyboardInterrupt
        yield Row(number=number, square=number**2)


def resumption(path: Path, every: int = 100) -> Resumption[Row]:
    known = {row.number: row for row in read_rows(path, Row)}
    return Resumption(path=path, kind=Row, known=known, key=lambda row: row.number, every=every)


def test_progress_is_told_of_every_row() -> None:
    told: list[object] = []

    @contextmanager
    def watch(what: str, total: int) -> Iterator[object]:
        told.append((what, total))
        yield told.append

    rows = gather(squares(range(3)), 3, lambda row: str(row.number), progress=watch)  # type: ignore[arg-type]
    assert [row.square for row in rows] == [0, 1, 4]
    assert told == [("cells", 3), "0", "1", "2"]


def test_progress_is_told_of_every_figure(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    told: list[object] = []

    @contextmanager
    def watch(what: str, total: int) -> Iterator[object]:
        told.append((what, total))
        yield told.append

    class Drawn:
        def run(self, _out: Path, _progress: Progress) -> Findings:
            nothing: dict[str, Drawing] = {"one": lambda: None, "two": lambda: None}
            return Findings(title="t", sections=[Section(title="s", drawings=nothing)])

    run_study(Drawn(), tmp_path, progress=watch)  # type: ignore[arg-type]
    assert told == [("figures", 2), "figure one", "figure two"]


def test_a_stopped_run_keeps_its_rows_beside_those_of_an_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    gather(squares(range(7, 9)), 2, str, progress=silent, resumption=resumption(path))
    with pytest.raises(KeyboardInterrupt):
        gather(squares(iter((1, 2, -1))), 3, str, progress=silent, resumption=resumption(path))
    assert [row.number for row in read_rows(path, Row)] == [7, 8, 1, 2]
    gather(squares(range(1, 4)), 3, str, progress=silent, resumption=resumption(path))
    assert [row.number for row in read_rows(path, Row)] == [1, 2, 3]


def test_rows_are_written_while_a_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    seen: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(5):
            seen.append(len(read_rows(path, Row)))
            yield number

    gather(squares(numbers()), 5, str, progress=silent, resumption=resumption(path, every=2))
    assert seen == [0, 0, 2, 2, 4]


def test_a_log_goes_on_behind_its_last_whole_line(tmp_path: Path) -> None:
    log = LineLog(tmp_path / "log.jsonl")
    assert log.open() == []
    log.append({"n": 1})
    log.append({"n": "ö"})
    log.close()
    with (tmp_path / "log.jsonl").open("ab") as file:
        file.write(b'{"n": 3')  # as a kill would leave it
    assert list(log) == [{"n": 1}, {"n": "ö"}]
    assert log.open() == [{"n": 1}, {"n": "ö"}]
    log.append({"n": 4})
    log.close()
    assert [found["n"] for found in log] == [1, "ö", 4]


def test_a_log_is_cut_at_the_first_line_that_is_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("1\n2\nthree\n4\n")
    log = LineLog(path, lambda found: found if isinstance(found, int) else None)
    assert log.open() == [1, 2]
    log.close()
    assert path.read_text() == "1\n2\n"


def test_two_processes_do_not_write_one_log(tmp_path: Path) -> None:
    first, second = LineLog(tmp_path / "log.jsonl"), LineLog(tmp_path / "log.jsonl")
    first.open()
    with pytest.raises(FileError, match="another process writes it"):
        second.open()
    first.close()
    second.open()
    second.close()


def test_a_study_without_a_title_leaves_files_and_tables_and_no_page(tmp_path: Path) -> None:
    class Short:
        def run(self, out: Path, progress: Progress) -> Findings:
            del out, progress
            return Findings(
                prefix="x_",
                files={"x.csv": (("a",), [(1,)])},
                notices=("look here",),
                shown=(Sheet(title="t", header=("h",), lines=(("1",),)),),
            )

    told: list[str] = []
    run_study(Short(), tmp_path / "new", notice=told.append)
    assert told == ["look here"]
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"x.csv", "x_tables.md"}


def test_a_difference_without_any_error_is_nothing_or_infinite() -> None:
    assert standard_errors(1.0, 0.0, 1.0, 0.0) == 0
    assert standard_errors(2.0, 0.0, 1.0, 0.0) == math.inf
    assert standard_errors(0.5, 0.0, 1.0, 0.0) == -math.inf
    assert standard_errors(6.0, 3.0, 1.0, 4.0) == 1.0
