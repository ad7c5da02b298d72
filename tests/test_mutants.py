"""Planted faults: that a trial ends nothing but itself, and that its lists fit the tree."""

import os
import shutil
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks import mutants
from benchmarks.mutants import FIRST, GROUPS, NEIGHBOURS, PACKAGE, REASONS, ROOT, Trials

MODULES = mutants.modules([name for group in GROUPS.values() for name in group])
SURVIVORS = tomllib.loads(REASONS.read_text("utf-8"))["survivor"]

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="trials are forks")

ENDINGS = """
import os
import signal
import sys
from pathlib import Path

def test_right(): assert True

def test_wrong(): assert False

def test_leaves(): os._exit(7)

def test_killed(): os.kill(os.getpid(), signal.SIGKILL)

def test_reads(): os.read(0, 1) and sys.exit("the next question")

def test_ends_its_parent_once():
    if not Path("ended").exists():
        Path("ended").touch()
        os.kill(os.getppid(), signal.SIGKILL)

def test_ends_its_parent(): os.kill(os.getppid(), signal.SIGKILL)
"""


@pytest.fixture
def trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trials]:
    """Trials in a project that has nothing but tests that end in different ways."""
    # Each trial would load every plugin that is installed; these tests need one.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_timeout")
    (tmp_path / "benchmarks").mkdir()
    for name in ("__init__.py", "mutants.py"):
        shutil.copy2(ROOT / "benchmarks" / name, tmp_path / "benchmarks" / name)
    shutil.copy2(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    (tmp_path / "test_endings.py").write_text(ENDINGS, "utf-8")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "conftest.py").write_text("raise RuntimeError", "utf-8")
    (tmp_path / "odd" / "test_odd.py").write_text("def test_odd(): ...", "utf-8")
    begun = Trials(tmp_path, preloaded=("pytest", "pytest_timeout"))
    yield begun
    begun.close()


@needs_fork
def test_a_trial_that_ends_in_any_way_leaves_its_parent_to_the_next(trials: Trials) -> None:
    ends = {
        "test_endings.py::test_right": "",
        "test_endings.py::test_wrong": "FAILED test_endings.py::test_wrong",
        "test_endings.py::test_leaves": "pytest ended with 7",
        "test_endings.py::test_killed": "pytest ended with -9",
        "test_endings.py::test_reads": "",
        "no/such/folder": "pytest ended with 4",
        "odd": "pytest ended with 4",
    }
    assert {test: trials.first_failing([test]) for test in ends} == ends


@needs_fork
def test_a_parent_that_ends_is_started_again_and_asked_once_more(trials: Trials) -> None:
    assert trials.first_failing(["test_endings.py::test_ends_its_parent_once"]) == ""
    twice = trials.first_failing(["test_endings.py::test_ends_its_parent"])
    assert twice == "the process of the trials ended twice"
    assert trials.first_failing(["test_endings.py::test_right"]) == ""


def test_tests_that_come_to_no_end_decide_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    fault = mutants.Mutant(
        group="store", module=PACKAGE / "vault.py", operator="AddNot", occurrence=0, line=1
    )
    assert mutants.report([(fault, "FAILED tests/test_vault.py::test_it"), (fault, mutants.NO_END)])
    shown = capsys.readouterr().out
    assert "no end: 1" in shown
    assert "100.0 %" in shown
    assert not mutants.report([(fault, "")])


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_fault_meets_tests_that_are_there(module: Path) -> None:
    stages = mutants.stages(module)
    assert len(stages) > 1 or len(stages[0]) > len(mutants.EVERYWHERE)
    named = [test.removeprefix("--ignore=") for stage in stages for test in stage]
    assert [test for test in named if not (ROOT / test.partition("::")[0]).exists()] == []
    functions = [test.split("::") for test in named if "::" in test]
    assert [f for file, f in functions if f"def {f}(" not in (ROOT / file).read_text("utf-8")] == []


def test_the_tests_of_a_folder_may_stand_above_it() -> None:
    own, package, _ = mutants.stages(PACKAGE / "store" / "schema" / "early.py")
    assert own == ["tests/store/test_early.py"]
    assert package == ["tests/store", "--ignore=tests/store/test_early.py"]


def test_a_module_without_tests_begins_with_those_named_for_its_package() -> None:
    assert mutants.stages(PACKAGE / "store" / "rows.py")[0] == ["tests/store/test_store.py"]
    assert mutants.stages(PACKAGE / "rng.py") == [["tests/mechanisms", "tests/test_tree.py"]]


def test_a_readers_fault_meets_the_records_before_all_else() -> None:
    first, own, *_ = mutants.stages(PACKAGE / "reading" / "subjects.py")
    assert all("_as_it_was_recorded" in test for test in first)
    assert own == ["tests/reading/test_subjects.py"]


def test_every_group_and_neighbourhood_is_in_the_tree() -> None:
    names = {name for group in GROUPS.values() for name in group} | NEIGHBOURS.keys() | FIRST.keys()
    places = {name: ROOT / PACKAGE / name for name in names}
    gone = {
        name for name, at in places.items() if not (at.is_dir() or at.with_suffix(".py").exists())
    }
    assert gone == set()


def squeezed(line: str) -> str:
    return "".join(line.split())


def stale(entry: dict[str, str]) -> bool:
    path = ROOT / entry["file"]
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    # A decorator that is taken away is known by the line below it, which moves up.
    return squeezed(entry["original"] or entry["mutated"]) not in map(squeezed, lines)


def test_every_survivor_is_a_fault_of_a_line_that_is_there() -> None:
    """A reason outlives its line in silence, and a later line may come to look like it."""
    assert [entry for entry in SURVIVORS if stale(entry)] == []
    assert stale(SURVIVORS[0] | {"original": "a line that was rewritten"})


def test_every_survivor_stands_once_with_its_reason() -> None:
    places = [(e["file"], squeezed(e["original"]), squeezed(e["mutated"])) for e in SURVIVORS]
    assert [place for place, count in Counter(places).items() if count > 1] == []
    assert [entry for entry in SURVIVORS if not entry["reason"].strip()] == []
    assert {Path(entry["file"]) for entry in SURVIVORS} <= set(MODULES)
