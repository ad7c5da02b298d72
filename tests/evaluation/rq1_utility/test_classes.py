"""Who is found, class by class: the file, what a stopped run makes of it, and the table."""

import csv
import shutil
from fractions import Fraction
from pathlib import Path

import pytest

from rootguard import load_template
from rootguard.evaluation.rq1_utility.classes import FILE, class_sheet, with_classes
from rootguard.evaluation.rq1_utility.findings import UtilityStudy
from rootguard.evaluation.rq1_utility.study import Subject, Sweep, UtilityRow
from rootguard.evaluation.study.rows import read_rows
from rootguard.evaluation.study.runner import run_study

SWEEP = Sweep(
    seed=3,
    repeats=2,
    mechanisms=("geometric",),
    epsilons=(Fraction(1, 20),),
    budgets=("2k+1",),
    configurations=("opt", "calibrated"),
)
TEMPLATES = (load_template("anemia"), load_template("bsa"))
STUDY = UtilityStudy(sweep=SWEEP, templates=TEMPLATES, structure=False)


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the study was run, to be read only."""
    folder = tmp_path_factory.mktemp("studied")
    run_study(STUDY, folder)
    return folder


def lines(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_class_of_every_cell_has_a_line_and_no_classes_have_none(studied: Path) -> None:
    found = lines(studied / FILE)
    assert list(found[0]) == [
        "budget", "epsilon", "template", "mechanism", "config", "class", "n", "recall", "recall_se",
    ]  # fmt: skip
    assert [(one["template"], one["config"], one["class"]) for one in found] == [
        ("anemia", config, label)
        for config in ("opt", "calibrated")
        for label in ("hypochromic", "normochromic", "hyperchromic")
    ]
    for config in ("opt", "calibrated"):
        assert sum(int(one["n"]) for one in found if one["config"] == config) == 200
    for one in found:
        assert (one["recall"] == "") == (one["n"] == "0")


def test_a_run_that_goes_on_keeps_its_classes_and_measures_again_what_lost_them(
    studied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(studied, tmp_path, dirs_exist_ok=True)
    before = (tmp_path / FILE).read_bytes()
    measured: list[int] = []
    measure = Subject._measure

    def counted(self: Subject, rows: list[UtilityRow], released: object) -> list[UtilityRow]:
        measured.append(len(rows))
        return measure(self, rows, released)  # type: ignore[arg-type]

    monkeypatch.setattr(Subject, "_measure", counted)
    run_study(STUDY, tmp_path)
    assert (tmp_path / FILE).read_bytes() == before
    assert measured == []
    (tmp_path / FILE).unlink()
    run_study(STUDY, tmp_path)
    assert (tmp_path / FILE).read_bytes() == before
    assert measured == [2]  # bsa has no classes to lose


def test_the_table_shows_the_worrying_classes_in_which_there_is_anybody(studied: Path) -> None:
    rows = with_classes(studied, read_rows(studied / "rq1.csv", UtilityRow), TEMPLATES)
    sheet = class_sheet(
        rows, TEMPLATES, ("opt", "calibrated"), budget="2k+1", mechanism="geometric"
    )
    assert sheet.header[3:] == ("0.05 opt", "0.05 calibrated")
    labels = [line[1] for line in sheet.lines]
    counts = {one["class"]: int(one["n"]) for one in lines(studied / FILE)}
    assert labels == [label for label in ("hypochromic", "hyperchromic") if counts[label]]
    assert labels
    assert "### Found in each worrying class" in (studied / "tables.md").read_text("utf-8")
