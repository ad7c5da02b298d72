"""The page of speeds is what its file of results says, and measuring says what a thing took."""

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("scipy")  # which the benchmarks need beside the library

from benchmarks import __main__ as program
from benchmarks import page, records, scale
from benchmarks.measure import (
    Case,
    Contender,
    Figure,
    Growth,
    Result,
    Skipped,
    Spent,
    figure,
    measure,
)


def test_the_page_is_written_from_the_file_of_results() -> None:
    lines = list(records.read(page.RESULTS))
    assert page.PAGE.read_text(encoding="utf-8") == page.page(lines)
    areas = {line["area"] for line in lines if "area" in line}
    assert {"start", "tables", "growth", "studies"} <= areas
    assert lines[0]["machine"]["processor"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", lines[0]["date"])


def test_the_page_on_scale_is_written_from_its_unit_costs() -> None:
    content = json.loads(scale.UNITS.read_text(encoding="utf-8"))
    written = scale.page(scale.Units(**content["units"]), content)
    assert scale.PAGE.read_text(encoding="utf-8") == written
    assert not re.search(r"\d", scale._ABOUT)


def test_the_simulation_of_a_minute_is_the_same_again_and_waits_where_it_must() -> None:
    few = scale.Assumptions(people=20_000, shards=4, processors=1, server_seconds=1e-3)
    calm = scale.simulated(few)
    assert calm == scale.simulated(few)
    assert calm.busiest_shard >= 1
    crowded = scale.simulated(replace(few, server_seconds=20e-3))
    assert crowded.wait > 10 * calm.wait
    # Queues with one server and equal service: the mean wait is known (Pollaczek and Khinchine).
    source = np.random.default_rng(2)
    arrivals = np.sort(source.uniform(0, 600, 300_000))
    load = 0.5
    waits = scale._waits(arrivals, load / 500, 1)
    assert waits.mean() == pytest.approx(load / 500 * load / (2 * (1 - load)), rel=0.1)


def test_the_page_says_of_every_aim_whether_it_holds() -> None:
    quick = Figure(name="quick", unit="row", rounds=(Spent(processor=1.0, wall=2.0),), aim=3.0)
    slow = Figure(name="slow", unit="row", rounds=(Spent(processor=4.0, wall=4.0),), aim=3.0)
    steep = Growth(name="steep", size="n", sizes=(1, 10), seconds=(1.0, 100.0))
    lines = [records.line("growth", each) for each in (quick, slow, steep)]
    written = page.page(lines)
    assert "1 of 3 hold. Missed: slow (4 s, aim ≤ 3 s); steep (exponent 2.00 with n" in written
    rows = [line.split(" | ") for line in written.splitlines() if line.startswith("| ")]
    verdicts = {row[0].removeprefix("| "): row[-1].removesuffix(" |") for row in rows}
    assert [verdicts[name] for name in ("quick", "slow", "steep")] == ["holds", "missed", "missed"]


def test_no_sentence_of_the_page_has_a_number() -> None:
    said = [page._ABOUT, *(text for pair in page._AREAS.values() for text in pair)]
    assert [text for text in said if re.search(r"\d", text)] == []


def test_a_comparison_is_of_processor_time_and_has_wall_time_beside_it() -> None:
    slow = Contender(name="slow", call=lambda: Spent(processor=3.0, wall=9.0))
    quick = Contender(name="quick", call=lambda: Spent(processor=1.0, wall=90.0))
    row = measure(Case(ours=quick, theirs=slow, aim=2.5, rounds=3))
    assert (row.ratio, row.met) == (3.0, True)
    assert (row.ours_wall, row.theirs_wall) == (90.0, 9.0)
    by_wall = measure(Case(ours=quick, theirs=slow, clock="wall", rounds=3))
    assert by_wall.ratio == pytest.approx(0.1)


def test_a_figure_is_of_one_unit_and_is_held_to_its_aim() -> None:
    ten = Contender(name="ten", call=lambda: Spent(processor=1.0, wall=2.0), units=10)
    found = figure(ten, unit="row", aim=0.05, rounds=3)
    assert (found.seconds, found.wall, found.met) == (0.1, 0.2, False)


@pytest.mark.parametrize(("exponent", "met"), [(0.0, True), (1.0, True), (1.5, False)])
def test_the_exponent_of_growth_is_fitted(exponent: float, met: bool) -> None:
    sizes = (10, 100, 1_000)
    grown = Growth(
        name="it", size="n", sizes=sizes, seconds=tuple(0.1 * n**exponent for n in sizes)
    )
    assert math.isclose(grown.exponent, exponent, abs_tol=1e-9)
    assert grown.met is met


RESULTS: list[Result] = [
    Skipped(name="peer", reason="is not installed"),
    Figure(name="a figure", unit="row", rounds=(Spent(processor=1.0, wall=2.0),), aim=3.0),
    Growth(name="growing", size="n", sizes=(1, 10), seconds=(1.0, 10.0)),
    measure(
        Case(
            ours=Contender(name="ours", call=lambda: Spent(processor=1.0, wall=1.0)),
            theirs=Contender(name="theirs", call=lambda: Spent(processor=2.0, wall=2.0)),
            rounds=3,
        )
    ),
]


def run(monkeypatch: pytest.MonkeyPatch, *words: str, stop_after: int | None = None) -> str:
    areas: dict[str, tuple[str, Callable[[], Iterator[Result]]]] = {
        "first": ("First", lambda: iter(RESULTS[:2])),
        "second": ("Second", lambda: iter(RESULTS[2:])),
    }

    def stopping() -> Iterator[Result]:
        yield from RESULTS[2:stop_after]
        raise KeyboardInterrupt

    if stop_after is not None:
        areas["second"] = ("Second", stopping)
    monkeypatch.setattr(program, "_AREAS", areas)
    done = CliRunner().invoke(program.main, list(words))
    assert stop_after is not None or done.exit_code == 0, done.output
    return done.output


def test_each_result_is_a_line_and_a_run_that_was_stopped_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.jsonl"
    run(monkeypatch, "--out", str(path), stop_after=3)
    first = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line.get("area") for line in first] == [None, "first", "first", "second"]
    run(monkeypatch, "--out", str(path))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["area"] for line in lines if "area" in line] == ["first"] * 2 + ["second"] * 2
    assert lines[-1] == {"done": True}
    assert ["machine" in line for line in lines] == [True, False, False, True, False, False, False]
    written = page.page([{**line, "area": "start"} if "area" in line else line for line in lines])
    assert "a figure" in written
    assert written.count("**The start**. Measured on ") == 2  # each run says when it was


def test_two_runs_are_compared_result_by_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    for path in (old, new):
        run(monkeypatch, "--out", str(path))
    shown = run(monkeypatch, "--only", "second", "--compare", str(old))
    assert "beside old.jsonl" in shown
    found = {where[1]: (field, before) for where, field, before, _ in records.compared(old, new)}
    assert found == {
        "a figure": ("ours_seconds", 1.0),
        "growing": ("exponent", pytest.approx(1.0)),
        "ours": ("ratio", 2.0),
    }


def test_an_area_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    done = CliRunner().invoke(program.main, ["--only", "start,nonsense"])
    assert done.exit_code == 2
    assert "nonsense" in done.output
    assert "tables" in done.output
