"""The RQ1 runner: cells stand alone, failures are rows, and a stopped run goes on."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from rootguard import Template, load_template
from rootguard.advice.people import Cohort
from rootguard.advice.utility import CONFIGURATIONS, PAPER_CONFIGURATIONS, UtilityCell
from rootguard.attacks.oracle import snap
from rootguard.errors import CohortError
from rootguard.evaluation.cohorts import load_cohort
from rootguard.evaluation.rq1_utility.classes import with_classes, write_classes
from rootguard.evaluation.rq1_utility.means import aggregates, win_rates
from rootguard.evaluation.rq1_utility.study import (
    EPSILONS,
    STUDY_MECHANISMS,
    Subject,
    Sweep,
    UtilityRow,
)
from rootguard.evaluation.study.rows import read_rows, write_rows
from rootguard.template import parse_template
from rootguard.values import Domain, RootName

TENTH = Fraction(1, 10)
SMALL = Sweep(
    seed=3,
    repeats=2,
    mechanisms=("geometric",),
    epsilons=(Fraction(1, 20), TENTH),
    configurations=PAPER_CONFIGURATIONS,
)
FIVE = replace(SMALL, epsilons=(TENTH,), budgets=("2k+1",), configurations=CONFIGURATIONS)

RATIO = parse_template(
    """
name = "ratio"
title = "A ratio"
[roots.a]
lower = 0.0
upper = 10.0
[roots.b]
lower = 0.0
upper = 10.0
[target]
name = "r"
formula = "a / b"
""",
    file="ratio.toml",
)


def synthetic(template: Template) -> Cohort:
    return load_cohort(template, None, size=40)


def people(template: str, **columns: list[float]) -> Cohort:
    return Cohort(
        template=template,
        columns={RootName(name): np.array(column) for name, column in columns.items()},
        synthetic=True,
        source="test",
        digest="test",
        ids=tuple(str(i) for i in range(len(next(iter(columns.values()))))),
    )


def run(*names: str, sweep: Sweep = SMALL) -> list[UtilityRow]:
    return list(sweep.run([load_template(name) for name in names], synthetic))


def test_a_sweep_gives_one_row_per_cell_with_its_provenance() -> None:
    rows = run("homa")
    assert [row.cell for row in rows] == list(SMALL.cells("homa"))
    assert len(rows) == len(SMALL) == 2 * 3 * 3
    for row in rows:
        assert row.error == ""
        assert row.wmape is not None
        assert row.rce is not None
        assert row.sensitivity is not None
        assert row.median_wmape == rows[0].median_wmape
        assert row.wmape_mc is not None
        assert row.synthetic
        assert row.template_hash == load_template("homa").digest
        assert len(row.plan_hash) == 64
        assert (row.seed, row.repeats, row.roots, row.patients) == (3, 2, 2, 40)


def test_a_cell_gives_the_same_row_alone_and_in_any_order() -> None:
    rows = run("nlr", "homa")
    template = load_template("homa")
    subject = Subject(template, synthetic(template), seed=3, repeats=2)
    chosen = [row for row in rows if row.cell.template == "homa"][::-4]
    for row in chosen:
        assert subject.run([subject.outline(row.cell)]) == [row]


def test_the_papers_cells_are_the_same_whatever_else_runs() -> None:
    alone = {row.cell: row for row in run("homa")}
    among = {row.cell: row for row in run("homa", sweep=FIVE)}
    shared = alone.keys() & among.keys()
    assert len(shared) == 3
    assert all(alone[cell] == among[cell] for cell in shared)


def test_population_plans_are_searched_for_one_mechanism_unless_others_are_asked_for() -> None:
    sweep = Sweep()
    cells = list(sweep.cells("homa"))
    assert {cell.mechanism for cell in cells if cell.config == "population"} == {"geometric"}
    assert {cell.mechanism for cell in cells if cell.config == "calibrated"} == {*STUDY_MECHANISMS}
    assert len(sweep) == len(cells) == 30 * (4 * 4 + 1)
    assert len(replace(sweep, searched=STUDY_MECHANISMS)) == 30 * 4 * 5


def test_calibrated_has_the_draws_of_opt_and_population_its_own() -> None:
    """Without population figures calibration changes nothing, so equal draws give equal figures."""
    sweep = replace(FIVE, epsilons=(Fraction(1),))
    rows = sweep.run([RATIO], lambda _: people("ratio", a=[3.0, 4.0], b=[5.0, 6.0]))
    found = {row.cell.config: row for row in rows}
    assert found["calibrated"].wmape == found["opt"].wmape
    assert found["population"].plan_hash == found["opt"].plan_hash
    assert found["population"].wmape != found["opt"].wmape
    assert found["opt"].median_wmape is None


def test_a_calibrated_cell_is_the_same_alone_and_in_other_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = run("homa", sweep=FIVE)
    template = load_template("homa")
    subject = Subject(template, synthetic(template), seed=3, repeats=2)
    for row in rows:
        assert subject.run([subject.outline(row.cell)]) == [row]
    monkeypatch.setattr("rootguard.evaluation.rq1_utility.study._SEARCHES", 1)
    assert run("homa", sweep=FIVE) == rows


def test_the_population_median_is_what_half_of_the_population_exceeds() -> None:
    template = load_template("homa")
    subject = Subject(template, load_cohort(template, None, size=4000), seed=0, repeats=1)
    median = subject.population_median()
    assert median is not None
    assert np.mean(subject.truth < median) == pytest.approx(0.5, abs=0.05)
    row = subject.outline(next(SMALL.cells("homa")))
    off = np.abs(subject.truth - median).sum() / subject.truth.sum()
    assert row.median_wmape == pytest.approx(100 * off)


def test_another_seed_gives_other_figures() -> None:
    assert run("homa")[0].wmape != run("homa", sweep=replace(SMALL, seed=4))[0].wmape


def test_each_configuration_spends_as_the_paper_says() -> None:
    template = load_template("fib4")
    subject = Subject(template, synthetic(template), seed=0, repeats=1)
    cell = UtilityCell(
        budget="2k+1", epsilon=TENTH, template="fib4", mechanism="exponential", config="all"
    )
    every = subject.plan(cell)
    even = subject.plan(replace(cell, config="roots"))
    best = subject.plan(replace(cell, config="opt"))
    assert {share.epsilon for share in every.shares} == {TENTH}
    assert {share.epsilon for share in even.shares} == {Fraction(9, 40)}
    assert sum(share.epsilon for share in best.shares) == Fraction(9, 10)
    assert best["ast"].epsilon > 2 * best["age"].epsilon
    assert every == subject.plan(replace(cell, budget="3k+1"))


def test_more_turns_help_the_guard_and_not_independent_noise() -> None:
    """Means of 4,000 draws each: the standard errors are near 2 %, the effects over 30 %."""
    rows = run("homa", sweep=replace(SMALL, repeats=100, epsilons=(TENTH,)))
    found = {(row.cell.budget, row.cell.config): row.wmape or 0.0 for row in rows}
    assert found["3k+1", "opt"] < 0.7 * found["k+1", "opt"]
    assert found["3k+1", "all"] == pytest.approx(found["k+1", "all"], rel=0.15)
    assert found["k+1", "all"] > found["k+1", "roots"] > found["k+1", "opt"]


def test_snapping_agrees_with_the_domain() -> None:
    domain = Domain(lower=-1.0, upper=3.0, size=17)
    column = np.array([-5.0, -1.0, -0.875, -0.874, 0.1, 2.9, 3.0, 99.0])
    assert snap(domain, column).tolist() == [domain.nearest(value) for value in column.tolist()]


def test_values_outside_the_bounds_are_clamped_but_the_truth_is_not() -> None:
    template = load_template("homa")
    cohort = people("homa", glu=[100.0, 900.0], ins=[10.0, 10.0])
    subject = Subject(template, cohort, seed=0, repeats=1)
    assert subject.truth[1] == pytest.approx(900 * 10 / 405)
    cell = next(replace(SMALL, epsilons=(Fraction(5),)).cells("homa"))
    (row,) = subject.run([subject.outline(cell)])
    assert row.wmape == pytest.approx(100 * (900 - 451) * 10 / (1000 * 10), rel=0.05)


def test_a_missing_cohort_is_a_row_and_the_others_go_on() -> None:
    def load(template: Template) -> Cohort:
        if template.name == "nlr":
            raise CohortError("nlr.csv", "", "there is no such file", "write one")
        return synthetic(template)

    rows = list(SMALL.run([load_template("nlr"), load_template("homa")], load))
    assert {row.error != "" for row in rows if row.cell.template == "nlr"} == {True}
    assert {row.error for row in rows if row.cell.template == "homa"} == {""}
    assert len(rows) == 2 * len(SMALL)
    assert len(aggregates(rows, "wmape")) == len(SMALL)  # over the template that has figures


def test_a_target_that_noise_makes_undefined_leaves_the_cell_without_figures() -> None:
    sweep = replace(SMALL, repeats=200, epsilons=(Fraction(1, 100),))
    rows = list(sweep.run([RATIO], lambda _: people("ratio", a=[3.0, 4.0], b=[0.5, 5.0])))
    assert all("has no value in" in row.error for row in rows)
    assert all(row.wmape is None and row.rce is None for row in rows)


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ([1.0, 2.0], [0.0, 2.0], "the true target has no value for 1 patients"),
        ([0.0, 0.0], [1.0, 2.0], "every true target is zero"),
        ([1.0, float("nan")], [1.0, 2.0], "some values of a are not numbers"),
    ],
)
def test_a_cohort_that_cannot_be_measured_says_why(
    a: list[float], b: list[float], reason: str
) -> None:
    rows = list(SMALL.run([RATIO], lambda _: people("ratio", a=a, b=b)))
    assert len(rows) == len(SMALL)
    assert all(row.error.startswith(reason) for row in rows)


def test_a_budget_that_is_too_small_to_split_is_a_row() -> None:
    sweep = replace(SMALL, epsilons=(Fraction(1, 10_000),))
    rows = run("homa", sweep=sweep)
    failed = {row.cell.config for row in rows if row.error}
    assert "opt" in failed
    assert "all" not in failed


def test_rows_read_back_as_they_were_written(tmp_path: Path) -> None:
    rows = [
        *run("homa", sweep=FIVE),
        *SMALL.run([RATIO], lambda _: people("ratio", a=[0.0], b=[1.0])),
    ]
    write_rows(tmp_path / "rq1.csv", UtilityRow, rows)
    write_classes(tmp_path, rows)
    read = read_rows(tmp_path / "rq1.csv", UtilityRow)
    assert with_classes(tmp_path, read, [load_template("homa"), RATIO]) == rows


def test_a_file_that_is_not_ours_is_not_resumed_from(tmp_path: Path) -> None:
    path = tmp_path / "rq1.csv"
    assert read_rows(path, UtilityRow) == []
    path.write_text("a,b\n1,2\n")
    assert read_rows(path, UtilityRow) == []
    write_rows(path, UtilityRow, run("homa"))
    path.write_text(path.read_text().replace("0.05", "x", 1))
    assert read_rows(path, UtilityRow) == []


def test_finished_rows_are_taken_over_and_others_computed_again() -> None:
    rows = run("homa")
    marked = [replace(row, wmape=-1.0) for row in rows]
    done = {row.cell: row for row in marked}
    done[rows[0].cell] = replace(marked[0], seed=99)
    done[rows[1].cell] = replace(marked[1], plan_hash="another")
    done[rows[2].cell] = replace(marked[2], error="it failed")
    again = list(SMALL.run([load_template("homa")], synthetic, done=done))
    assert again == [*rows[:3], *marked[3:]]


def test_batches_do_not_change_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run("homa")
    monkeypatch.setattr("rootguard.evaluation.rq1_utility.study._DRAWS", 1)
    assert run("homa") == whole


def test_a_mean_is_left_out_where_a_template_has_no_figure() -> None:
    rows = run("homa", "nlr")
    broken = [replace(rows[0], wmape=None, wmape_se=None, error="x"), *rows[1:]]
    assert len(aggregates(rows, "wmape")) == len(SMALL)
    assert len(aggregates(broken, "wmape")) == len(SMALL) - 1


def test_win_rates_count_pairs_per_template_and_budget() -> None:
    (found,) = win_rates(run("homa", sweep=replace(SMALL, epsilons=EPSILONS, repeats=5)))
    assert (found.template, found.roots, found.pairs) == ("homa", 2, 10)
    assert all(count >= 9 for count in found.counts.values())
