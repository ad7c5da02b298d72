"""What is in the wheel, and that the files around the code agree with it."""

import importlib.util
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

import rootguard

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "rootguard"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

# What the program reads while it runs. Texts that a detector or a reader is measured on do not
# belong there: they are large, and nobody who installs the package needs them.
DATA = (
    "py.typed",
    "channels/detection/*.toml",
    "channels/tools/*.toml",
    "console/static/*",
    "evaluation/hostile_prompts/*.toml",
    "evaluation/published/*.csv",
    "identifiers/*.toml",
    "language/*.toml",
    "reading/*.toml",
    "reading/weights.json",
    "session/questions/*.toml",
    "template/templates/*.toml",
)


def stray(paths: set[str]) -> list[str]:
    """Paths below the package that are neither code nor data of a known kind."""
    return sorted(
        path
        for path in paths
        if not path.endswith(".py") and not any(fnmatch(path, pattern) for pattern in DATA)
    )


def files() -> set[str]:
    return {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_package_holds_code_and_the_data_that_it_reads() -> None:
    assert stray(files()) == []
    assert stray({"cli/main.py", "evaluation/detection.toml", "template/templates/fib4.toml"}) == [
        "evaluation/detection.toml"
    ]


def test_every_kind_of_data_is_there() -> None:
    held = files()
    assert [pattern for pattern in DATA if not any(fnmatch(path, pattern) for path in held)] == []


@pytest.mark.skipif(
    importlib.util.find_spec("hatchling") is None,
    reason="hatchling, which builds the wheel, is not installed",
)
def test_the_wheel_is_the_package_and_nothing_else() -> None:
    from hatchling.builders.wheel import WheelBuilder

    included = WheelBuilder(str(ROOT)).recurse_included_files()
    assert {file.distribution_path for file in included} == {
        f"rootguard/{path}" for path in files()
    }


def test_the_citation_names_the_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", text, re.MULTILINE) == [rootguard.__version__]
    assert "cff-version: 1.2.0" in text


def test_the_changelog_has_a_heading_for_the_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {rootguard.__version__}\n" in text


def test_before_a_commit_runs_what_ci_runs() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert re.findall(r"entry: (.+)", hooks) == ["make check"]
    assert "repo: local" in hooks
    assert "make check" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_metadata_names_every_python_that_is_supported() -> None:
    project = PROJECT["project"]
    assert project["requires-python"] == ">=3.11"
    versions = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
