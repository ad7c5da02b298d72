"""Cohorts in files: a directory with a CSV file per template, and where its people came from.

`nhanes` writes such a directory from a public survey, `rootguard cohort synthetic` one of people
who do not exist. Without a directory people are drawn (`rootguard.advice.people`).
"""

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from rootguard.advice.people import FORMAT, Cohort, make_cohort, synthetic_cohort
from rootguard.errors import CohortError
from rootguard.graph import Graph
from rootguard.template import Template

Kind = Literal["synthetic", "nhanes"]
SOURCE_FILE = "SOURCE.json"
_IDS = ("seqn", "id")
"""What a column of names may be called: NHANES's own word, and ours."""


def load_cohort(
    template: Template, directory: Path | None, *, size: int = 200, seed: int = 0
) -> Cohort:
    """The people in a directory, or synthetic ones when there is none."""
    if directory is None:
        return synthetic_cohort(template, size=size, seed=seed)
    return read_cohort(directory, template)


def read_cohort(directory: Path, template: Template) -> Cohort:
    """Read DIR/<template>.csv: a column per noised root, and `seqn` or `id` if there is one.

    Other columns are ignored. Errors name the line and the column, never what stands there.
    """
    path = directory / f"{template.name.lower()}.csv"
    header, rows = _rows(path)
    roots = Graph.of(template).roots
    for root in roots:
        if root not in header:
            remedy = f"give it a column for each of {', '.join(roots)}"
            raise CohortError(str(path), "line 1", f"there is no column {root!r}", remedy)
    columns = {
        root: np.array([_number(row, header.index(root), line, root, path) for line, row in rows])
        for root in roots
    }
    key = next((header.index(name) for name in _IDS if name in header), None)
    ids = tuple(str(i) if key is None else row[key].strip() for i, (_, row) in enumerate(rows, 1))
    source = read_source(directory)
    label = source.get("source")
    return make_cohort(
        template,
        columns,
        ids,
        synthetic=source.get("synthetic") is True,
        source=f"{label} ({directory})" if isinstance(label, str) else str(directory),
    )


def read_source(directory: Path) -> dict[str, object]:
    """What SOURCE.json says about a directory that we wrote; empty for anybody else's."""
    path = directory / SOURCE_FILE
    try:
        content = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError):
        problem = "it cannot be read, so nobody knows whether these people are synthetic"
        raise CohortError(str(path), "", problem, "restore it or remove it") from None
    ours = isinstance(content, dict) and content.get("format") == FORMAT
    return content if ours else {}


def check_target(directory: Path, kind: Kind, templates: Iterable[str]) -> None:
    """Refuse to write where people of another kind, or a user's own, would be written over."""
    found = read_source(directory).get("kind")
    if found == kind:
        return
    theirs = [name for name in templates if (directory / f"{name}.csv").exists()]
    if found is not None or theirs:
        what = f"a {found} cohort" if found is not None else f"a {theirs[0]}.csv of your own"
        raise CohortError(str(directory), "", f"it holds {what}", "write to another directory")


def write_cohorts(
    directory: Path, cohorts: Sequence[Cohort], *, kind: Kind, about: Mapping[str, object]
) -> None:
    """Write DIR/<template>.csv for each cohort, and SOURCE.json, which `about` goes into."""
    check_target(directory, kind, [cohort.template for cohort in cohorts])
    source: dict[str, object] = {
        "format": FORMAT,
        "kind": kind,
        "synthetic": kind == "synthetic",
        **about,
        "digests": {cohort.template: cohort.digest for cohort in cohorts},
    }
    # SOURCE.json first: a run that stops half-way leaves no people without their label.
    write_json_file(directory / SOURCE_FILE, source)
    for cohort in cohorts:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([_IDS[kind == "synthetic"], *cohort.columns])
        for i, person in enumerate(cohort.ids):
            writer.writerow([person, *(_plain(column[i]) for column in cohort.columns.values())])
        _write(directory / f"{cohort.template}.csv", text.getvalue())


def write_json_file(path: Path, content: object) -> None:
    """One JSON document in a file, whole or not at all."""
    _write(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _rows(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header and every row with its line number; blank lines are skipped."""
    file = str(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            lines = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except FileNotFoundError:
        remedy = "write one (docs/cohorts.md), or leave the directory out for synthetic people"
        raise CohortError(file, "", "there is no such file", remedy) from None
    except OSError as error:
        problem = f"it cannot be read ({error.strerror or 'no reason given'})"
        raise CohortError(file, "", problem, "check the path and its permissions") from None
    except (UnicodeDecodeError, csv.Error):
        raise CohortError(file, "", "it is not CSV in UTF-8", "save it as plain CSV") from None
    if not lines:
        raise CohortError(file, "line 1", "it is empty", "begin with a line of column names")
    header = [cell.strip() for cell in lines[0][1]]
    twice = next((name for name in header if header.count(name) > 1 and name), None)
    if twice is not None:
        problem = f"there are two columns {twice[:64]!r}"
        raise CohortError(file, "line 1", problem, "keep one of them")
    if len(lines) == 1:
        raise CohortError(file, "line 2", "there is nobody in it", "add a line per person")
    for line, row in lines[1:]:
        if len(row) != len(header):
            problem = f"it has {len(row)} cells under {len(header)} column names"
            raise CohortError(file, f"line {line}", problem, "give every column one cell")
    return header, lines[1:]


def _number(row: list[str], index: int, line: int, root: str, path: Path) -> float:
    text = row[index].strip()
    place = f"line {line}, column {root}"
    if not text:
        remedy = "keep complete cases only"
        raise CohortError(str(path), place, "the value is missing", remedy)
    try:
        number = float(text) if "_" not in text else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        problem, remedy = "this is not a finite number", "write a plain number, or drop the line"
        raise CohortError(str(path), place, problem, remedy)
    return number


def _plain(number: float) -> str:
    """The shortest text that reads back as the same number; whole numbers without a point."""
    return repr(float(number)).removesuffix(".0")


def _write(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, "utf-8")
        part.replace(path)
    except OSError as error:
        problem = f"it cannot be written ({error.strerror or 'no reason given'})"
        raise CohortError(str(path), "", problem, "choose another directory") from None
