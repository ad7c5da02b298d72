"""`rootguard bench`: what it writes, what it says, and that it goes on where it was stopped."""

import csv
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rootguard.advice.utility import CONFIGURATIONS
from rootguard.cli import output
from rootguard.cli.bench import CONFIGURATION_NAMES, command
from rootguard.evaluation.rq1_utility.study import Subject, UtilityRow
from rootguard.evaluation.study import plots
from rootguard.evaluation.study.rows import columns

ROW_COLUMNS = columns(UtilityRow)
PAPERS = ("--config", "all", "--config", "roots", "--config", "opt")
QUICK = ("--template", "homa", "--template", "nlr", "--mechanism", "geometric", *PAPERS)
MINE = """
name = "mine"
title = "My own"
[roots.a]
lower = 1.0
upper = 9.0
[roots.b]
lower = 1.0
upper = 5.0
[derived.c]
formula = "a * b"
[target]
name = "score"
formula = "c / (a + b)"
"""
SECRETS = ("4.321987", "3.765123")
"""Values of a made-up person, which no output may hold."""


def bench(*arguments: str | int | Path) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def contents(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def lines(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "mine.toml").write_text(MINE)
    first = f"p1,{SECRETS[0]},{SECRETS[1]}"
    (folder / "mine.csv").write_text(f"id,a,b\n{first}\np2,2,3\np3,8.5,4\n")
    return folder


@pytest.fixture
def drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures in the one format that reports hold; `finished` has them in every one."""
    monkeypatch.setattr(plots, "FORMATS", ("svg",))


@pytest.fixture
def not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figures, because drawing takes longest."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bench") / "out"
    assert bench("all", *QUICK, "--out", out, "--repeats", 2).exit_code == 0
    return out


def test_all_writes_every_table_and_figure_without_other_arguments_than_out(finished: Path) -> None:
    names = set(contents(finished))
    figures = (
        "double_asymmetry", "per_template", "privacy_utility", "power_law", "budget_bars",
        "classes",
    )  # fmt: skip
    assert names == {
        "rq1.csv", "rq1_classes.csv", "rq1_wmape.csv", "rq1_rce.csv",
        "rq1_template_wmape.csv", "rq1_template_rce.csv",
        "rq1_sensitivity.csv", "rq1_template_sensitivity.csv", "rq1_population_median.csv",
        "rq1_win_rate.csv", "rq3_gains.csv", "rq3_roots.csv", "rq3_power_law.csv",
        "rq3_regimes.csv", "rq3_amplification.csv", "comparison.csv", "comparison.md",
        "tables.md", "tables.tex",
        "report.html", *(f"figures/{n}.{kind}" for n in figures for kind in ("pdf", "svg", "png")),
    }  # fmt: skip


def test_rows_begin_with_the_figures_and_end_with_the_provenance(finished: Path) -> None:
    rows = lines(finished / "rq1.csv")
    assert tuple(rows[0]) == ROW_COLUMNS
    assert ROW_COLUMNS[:9] == (
        "budget", "epsilon", "template", "mechanism", "config",
        "wmape", "wmape_se", "rce", "rce_se",
    )  # fmt: skip
    assert len(rows) == 2 * 10 * 3 * 3
    assert {row["synthetic"] for row in rows} == {"true"}
    assert {row["error"] for row in rows} == {""}


@pytest.mark.usefixtures("not_drawn")
def test_calibrated_configurations_stand_beside_the_papers(tmp_path: Path) -> None:
    """All five by default; other mechanisms than geometric are without population plans."""
    chosen = ("--template", "tyg", "--mechanism", "geometric", "--mechanism", "laplace")
    result = bench("rq3", *chosen, "--out", tmp_path, "--json")
    assert result.exit_code == 0
    gains = {row["config"]: float(row["wmape"]) for row in lines(tmp_path / "rq3_gains.csv")}
    assert list(gains) == [*CONFIGURATION_NAMES, "population median"]
    assert gains["calibrated"] < gains["all"]
    plans = {(row["mechanism"], row["allocation"]) for row in lines(tmp_path / "rq3_roots.csv")}
    assert plans == {
        ("geometric", "optimal"), ("geometric", "population"), ("laplace", "optimal"),
    }  # fmt: skip
    text = (tmp_path / "tables.md").read_text()
    assert "geometric, population plan" in text


@pytest.mark.usefixtures("drawn_once")
def test_a_calibrated_study_has_its_tables_figures_and_summary(tmp_path: Path) -> None:
    chosen = ("--template", "tyg", "--mechanism", "laplace", "--out", tmp_path)
    result = bench("rq1", *chosen, "--config", "opt", "--config", "calibrated", "--json")
    body = json.loads(result.stdout)
    assert result.exit_code == 0
    assert (body["cells"], body["failed"]) == (60, 0)
    assert {mean["config"] for mean in body["means"]} == {"opt", "calibrated", "population median"}
    assert {"wmape", "rce", "sensitivity"} <= body["means"][0].keys()
    assert {"figures/calibrated.svg", "figures/sensitivity.svg"} <= set(body["files"])
    (median,) = lines(tmp_path / "rq1_population_median.csv")
    assert median["template"] == "TYG"
    assert {row["median_wmape"] for row in lines(tmp_path / "rq1.csv")} == {median["wmape"]}
    assert "BLap cal" in (tmp_path / "tables.md").read_text()


def test_the_configurations_offered_are_those_there_are() -> None:
    assert CONFIGURATION_NAMES == CONFIGURATIONS


def test_aggregates_have_the_shape_of_the_published_files(finished: Path) -> None:
    assert list(lines(finished / "rq1_wmape.csv")[0]) == [
        "budget", "epsilon", "mechanism", "config", "wmape", "se",
    ]  # fmt: skip
    single = lines(finished / "rq1_template_rce.csv")[0]
    assert list(single) == ["budget", "epsilon", "template", "mechanism", "config", "rce", "se"]
    assert single["template"] == "HOMA"
    assert single["epsilon"] == "5.0"


def test_a_synthetic_cohort_is_named_wherever_results_are_shown(
    finished: Path, tmp_path: Path
) -> None:
    for name in ("report.html", "comparison.md", "tables.md", "tables.tex"):
        assert "SYNTHETIC COHORT" in (finished / name).read_text()
    again = bench("rq3", *QUICK, "--out", tmp_path)
    assert "SYNTHETIC COHORT" in again.output
    assert "SYNTHETIC COHORT" in (tmp_path / "report.html").read_text()


def test_the_same_seed_gives_the_same_bytes_also_after_a_stop(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("all", *QUICK, "--out", tmp_path, "--repeats", 2)
    run, calls = Subject.run, iter(range(99))

    def stop(self: Subject, outlines: list[UtilityRow]) -> list[UtilityRow]:
        if next(calls) == 1:
            raise KeyboardInterrupt
        return run(self, outlines)

    with monkeypatch.context() as patched:
        patched.setattr(Subject, "run", stop)
        assert bench(*arguments).exit_code != 0
    kept = len(lines(tmp_path / "rq1.csv"))
    assert 0 < kept < 180
    computed: list[int] = []

    def count(self: Subject, outlines: list[UtilityRow]) -> list[UtilityRow]:
        wanted = list(outlines)
        computed.append(len(wanted))
        return run(self, wanted)

    monkeypatch.setattr(Subject, "run", count)
    assert bench(*arguments).exit_code == 0
    assert sum(computed) - 4 == 180 - kept  # the regimes of RQ3 take 4 cells more
    assert contents(tmp_path) == contents(finished)


@pytest.mark.usefixtures("not_drawn")
def test_rows_of_another_run_in_the_same_directory_are_replaced(tmp_path: Path) -> None:
    bench("rq1", *QUICK, "--out", tmp_path, "--seed", 1)
    bench("rq1", "--template", "homa", "--mechanism", "laplace", "--out", tmp_path, *PAPERS)
    rows = lines(tmp_path / "rq1.csv")
    assert {(row["template"], row["mechanism"], row["seed"]) for row in rows} == {
        ("homa", "laplace", "0")
    }


@pytest.mark.usefixtures("drawn_once")
def test_ones_own_template_and_people_need_no_code(mine: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("--template", mine / "mine.toml", "--cohort", mine, "--out", out, "--json")
    result = bench("all", *arguments, "--mechanism", "laplace", *PAPERS)
    body = json.loads(result.stdout)
    assert result.exit_code == 0
    assert (body["synthetic"], body["cells"], body["failed"]) == (False, 90, 0)
    assert body["matching"] == {}
    assert "SYNTHETIC" not in (out / "report.html").read_text()
    assert "Nothing here was published" in (out / "comparison.md").read_text()
    assert {row["rce"] for row in lines(out / "rq1.csv")} == {""}  # it has no risk classes
    for name, content in contents(out).items():
        for secret in SECRETS:
            assert secret.encode() not in content, name


@pytest.mark.usefixtures("not_drawn")
def test_a_missing_file_costs_its_template_only(mine: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    own = ("--template", mine / "mine.toml")
    chosen = (*own, "--template", "homa", "--mechanism", "laplace", *PAPERS)
    result = bench("rq1", *chosen, "--cohort", mine, "--out", out)
    assert result.exit_code == 0
    assert "failed: homa: no cohort" in result.output
    errors = {row["template"]: row["error"] for row in lines(out / "rq1.csv")}
    assert errors["mine"] == ""
    assert "homa.csv" in errors["homa"]
    assert "What failed" in (out / "report.html").read_text()


def test_a_study_of_which_nothing_is_left_fails(mine: Path, tmp_path: Path) -> None:
    chosen = ("--template", "homa", "--mechanism", "laplace", "--cohort", mine)
    assert bench("rq1", *chosen, "--out", tmp_path / "out").exit_code == 1


def test_without_matplotlib_the_tables_are_there_and_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = bench("rq1", *QUICK, "--out", tmp_path)
    assert result.exit_code == 0
    assert "rootguard[eval]" in result.stderr
    assert (tmp_path / "tables.md").exists()
    assert (tmp_path / "report.html").exists()


def test_two_templates_of_one_name_are_refused(mine: Path, tmp_path: Path) -> None:
    path = mine / "mine.toml"
    result = bench("rq1", "--template", path, "--template", path, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "two templates are called mine" in result.output


def test_out_is_needed() -> None:
    result = bench("all")
    assert result.exit_code == 2
    assert "--out" in result.output


def test_progress_in_a_log_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr("rootguard.cli.output.time.monotonic", lambda: now[0])
    with output.progress_bar("cells", 5) as step:
        for number in range(5):
            now[0] += output.PATIENCE / 2
            step(f"row {number}")
    said = capsys.readouterr().err.splitlines()
    assert said == ["rootguard: 2 of 5 cells: row 1", "rootguard: 4 of 5 cells: row 3"]
