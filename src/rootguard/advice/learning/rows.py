"""Public rows to learn from: a table with a column per root and one for the target.

CSV, read by pandas where it is installed and by the standard library otherwise, with the same
result; Parquet where pandas can. A cell that is empty or not finite drops its row, which is
counted; a cell that is no number at all refuses the file. Errors name the line and the column,
never what stands there.

The rows must be public. Nothing here is noised: bounds, means and formula come straight from them.
"""

import csv
import math
import warnings
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from rootguard.advice.people import Column
from rootguard.errors import CohortError, TemplateError
from rootguard.expressions import MAX_MAGNITUDE
from rootguard.template import MAX_ROOTS
from rootguard.template.reading import TomlTable, near
from rootguard.values import RootName

MAX_ROWS = 5_000_000
"""A column then takes 40 MB."""
MIN_ROWS = 20
"""Four in each of five folds; fewer say nothing about a fold."""
_ROWS_PER_ROOT = 3  # fewer, and a line through the rows fits them whatever they say
# Columns that number people, and are no roots: seqn is NHANES's.
_IDS = frozenset({"seqn", "id"})
_MISSING = ("", "NA", "NaN", "nan", "N/A", "NULL", "null", "None")
_ABSENT = frozenset(word.lower() for word in _MISSING)
_PARQUET = frozenset({".parquet", ".pq"})


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublicRows:
    """Complete rows. `file` is a base name, `dropped` counts rows left out, `constant` columns."""

    file: str
    target_name: str
    columns: Mapping[RootName, Column]
    target: Column
    dropped: int = 0
    constant: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))

    def __len__(self) -> int:
        return len(self.target)


def read_rows(path: Path, *, target: str, roots: Sequence[str] | None = None) -> PublicRows:
    """Read a target column and root columns; without names, all but the target, `id` and `seqn`."""
    file = str(path)
    if path.suffix.lower() in _PARQUET:
        header, frame = _parquet(path)
        names = _wanted(file, header, target, roots)
        columns = [_numbers(file, frame[name], name) for name in names]
    else:
        header = _header(path)
        names = _wanted(file, header, target, roots)
        places = [header.index(name) for name in names]
        read = _read_quickly(path, places)
        columns = _read_carefully(path, places, names) if read is None else read
    if len(columns[0]) > MAX_ROWS:
        problem = f"it has over {MAX_ROWS:,} rows"
        raise CohortError(file, "", problem, "learn from a random sample of them")
    return checked_rows(
        path.name, target, dict(zip(names[1:], columns[1:], strict=True)), columns[0]
    )


def checked_rows(
    file: str, target_name: str, columns: Mapping[str, Column], target: Column
) -> PublicRows:
    """Rows fit to learn from: complete, enough, and with something in them to learn."""
    whole = _usable(target)
    for column in columns.values():
        whole &= _usable(column)
    target = target[whole]
    kept = {name: column[whole] for name, column in columns.items()}
    least = max(MIN_ROWS, _ROWS_PER_ROOT * (len(kept) + 1))
    if len(target) < least:
        problem = f"it has {len(target)} complete rows, and {len(kept)} roots need {least}"
        raise CohortError(file, "", problem, "add rows, or name fewer roots with --roots")
    if target.std() == 0:
        problem, remedy = "the target is the same in every row", "choose a column that varies"
        raise CohortError(file, f"column {target_name}", problem, remedy)
    constant = tuple(name for name, column in kept.items() if column.std() == 0)
    kept = {name: column for name, column in kept.items() if name not in constant}
    if not kept:
        problem = "every root is the same in every row"
        raise CohortError(file, "", problem, "choose columns that vary")
    _refuse_copies(file, target_name, kept, target)
    return PublicRows(
        file=_plain(file),
        target_name=target_name,
        columns={RootName(name): column for name, column in kept.items()},
        target=target,
        dropped=int(len(whole) - whole.sum()),
        constant=constant,
    )


def _usable(column: Column) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """False for not-a-number as well."""
    return np.asarray(np.abs(column) <= MAX_MAGNITUDE)


def _refuse_copies(file: str, target: str, columns: Mapping[str, Column], values: Column) -> None:
    for name, column in columns.items():
        if np.array_equal(column, values):
            problem = f"it is the target {target!r} under another name"
            remedy = "leave it out with --roots: a root is something the target is computed from"
            raise CohortError(file, f"column {name}", problem, remedy)
    for (one, first), (other, second) in combinations(columns.items(), 2):
        if np.array_equal(first, second):
            problem, remedy = f"it repeats column {one!r}", "keep one of them with --roots"
            raise CohortError(file, f"column {other}", problem, remedy)


def _plain(name: str) -> str:
    """A base name that fits into a line of a template."""
    return "".join(c if c.isprintable() else "?" for c in Path(name).name)[:80] or "rows"


def _wanted(file: str, header: list[str], target: str, roots: Sequence[str] | None) -> list[str]:
    """The target's name and the roots', all of them columns that a formula can name."""
    for name in (target, *(roots or ())):
        if name not in header:
            likely = near(name, header) or header[:8]
            problem, remedy = f"there is no column {name[:64]!r}", f"there is {', '.join(likely)}"
            raise CohortError(file, "header", problem, remedy[:300])
    if roots is None:
        chosen = [name for name in header if name != target and name.lower() not in _IDS]
    else:
        chosen = list(roots)
    if target in chosen:
        problem, remedy = f"the target {target!r} is among the roots", "leave it out of --roots"
        raise CohortError(file, "header", problem, remedy)
    twice = next((name for name in chosen if chosen.count(name) > 1), None)
    if twice is not None:
        raise CohortError(file, "header", f"{twice!r} is named twice", "name each root once")
    if not 1 <= len(chosen) <= MAX_ROOTS:
        problem = f"{len(chosen)} root columns cannot be learned from"
        raise CohortError(file, "header", problem, f"name 1 to {MAX_ROOTS} of them with --roots")
    table = TomlTable(file, "", {})
    try:
        return [table.name(f"column {name[:64]!r}", name) for name in (target, *chosen)]
    except TemplateError as error:
        remedy = f"{error.remedy}, or leave the column out with --roots"
        raise CohortError(file, error.key, error.problem, remedy) from None


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """What can go wrong with a file as such, in one place."""
    file = str(path)
    try:
        yield
    except FileNotFoundError:
        raise CohortError(file, "", "there is no such file", "check the path") from None
    except OSError as error:
        problem = f"it cannot be read ({error.strerror or 'no reason given'})"
        raise CohortError(file, "", problem, "check the path and its permissions") from None
    except (UnicodeDecodeError, csv.Error):
        raise CohortError(file, "", "it is not CSV in UTF-8", "save it as plain CSV") from None


def _header(path: Path) -> list[str]:
    with _reading(path), path.open(encoding="utf-8-sig", newline="") as stream:
        found = next((row for row in csv.reader(stream) if any(c.strip() for c in row)), None)
    if found is None:
        raise CohortError(str(path), "", "it is empty", "begin with a line of column names")
    return _names(str(path), [cell.strip() for cell in found])


def _names(file: str, header: list[str]) -> list[str]:
    twice = next((name for name in header if name and header.count(name) > 1), None)
    if twice is not None:
        problem = f"there are two columns {twice[:64]!r}"
        raise CohortError(file, "header", problem, "keep one of them")
    return header


def _read_quickly(path: Path, places: Sequence[int]) -> list[Column] | None:
    """Through pandas; None where it is absent or stumbles, for the careful reader to say why."""
    try:
        import pandas
    except ImportError:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # pandas only warns of a row that is too long
            frame = pandas.read_csv(
                path,
                usecols=sorted(places),
                header=0,
                index_col=False,
                dtype="float64",
                na_values=list(_MISSING),
                keep_default_na=False,
                encoding="utf-8-sig",
                float_precision="round_trip",
                nrows=MAX_ROWS + 1,
            )
    except (ValueError, OSError, Warning):
        return None
    order = sorted(places)
    return [np.asarray(frame.iloc[:, order.index(place)], dtype=np.float64) for place in places]


def _read_carefully(path: Path, places: Sequence[int], names: Sequence[str]) -> list[Column]:
    """Cell by cell; a short row lacks its last cells, a long one is refused."""
    file = str(path)
    columns = [array("d") for _ in places]
    with _reading(path), path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream, strict=True)
        width = 0
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if not width:
                width = len(row)
                continue
            if len(row) > width:
                problem = f"it has {len(row)} cells under {width} column names"
                where, remedy = f"line {reader.line_num}", "give every column one cell"
                raise CohortError(file, where, problem, remedy)
            if len(columns[0]) > MAX_ROWS:
                break
            for place, name, column in zip(places, names, columns, strict=True):
                number = _number(row[place]) if place < len(row) else math.nan
                if number is None:
                    where = f"line {reader.line_num}, column {name}"
                    remedy = "write a plain number, or name the roots with --roots"
                    raise CohortError(file, where, "this is not a number", remedy)
                column.append(number)
    return [np.array(column, dtype=np.float64) for column in columns]


def _number(cell: str) -> float | None:
    text = cell.strip()
    if text.lower() in _ABSENT:
        return math.nan
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def _parquet(path: Path) -> tuple[list[str], Any]:
    file = str(path)
    remedy = "pip install pandas pyarrow, or save it as CSV"
    with _reading(path):
        path.open("rb").close()
        try:
            import pandas

            frame = pandas.read_parquet(path)
        except ImportError:
            problem = "reading Parquet needs pandas and pyarrow"
            raise CohortError(file, "", problem, remedy) from None
        except Exception as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            problem = "it is not a Parquet file"
            raise CohortError(file, "", problem, "save it again, or as CSV") from None
    frame.columns = [str(name).strip() for name in frame.columns]
    return _names(file, list(frame.columns)), frame


def _numbers(file: str, series: Any, name: str) -> Column:  # noqa: ANN401 - pandas has no types
    import pandas

    numbers = pandas.to_numeric(series, errors="coerce")
    wrong = np.flatnonzero(np.asarray(numbers.isna() & series.notna()))
    if len(wrong) or series.dtype.kind in "bM":
        row = int(wrong[0]) + 1 if len(wrong) else 1
        remedy = "keep numbers in it, or name the roots with --roots"
        raise CohortError(file, f"row {row}, column {name}", "this is not a number", remedy)
    return np.asarray(numbers, dtype=np.float64)
