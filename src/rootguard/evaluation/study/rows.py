"""A row is a frozen dataclass, and its CSV follows from its fields: written, and read back equal.

The fields of a dataclass within a row (its cell) stand in their place among the others. A field is
called in the file as it is in the code unless `named` says otherwise. What a row inherits stands
behind what is its own. None is an empty field, a number is written so that it reads back equal, an
epsilon as the published tables write it.
"""

import csv
import io
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

from rootguard import __version__

R = TypeVar("R")
CsvTable = tuple[Sequence[str], Iterable[Sequence[object]]]
"""A header and the lines under it."""
_COLUMN = "rootguard column"


def named(column: str | None) -> dict[str, str | None]:
    """A field's metadata: what its column is called, or None for one that is in no file."""
    return {_COLUMN: column}


@dataclass(frozen=True, slots=True)
class _Column:
    path: tuple[str, ...]
    name: str


_hints: Callable[[type], dict[str, Any]] = cache(get_type_hints)


@cache
def _columns(kind: type) -> tuple[_Column, ...]:
    found: list[_Column] = []
    hints = _hints(kind)
    own = kind.__annotations__
    for each in sorted(fields(kind), key=lambda one: one.name not in own):
        hint, name = hints[each.name], each.metadata.get(_COLUMN, each.name)
        if isinstance(hint, type) and is_dataclass(hint):
            found += [_Column((each.name, *c.path), c.name) for c in _columns(hint)]
        elif name is not None:
            found.append(_Column((each.name,), name))
    return tuple(found)


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepRow:
    """Where the figures of a cell come from; `error` says why there are none."""

    patients: int
    template_hash: str
    plan_hash: str = ""
    cohort: str = field(metadata=named("cohort_digest"))
    synthetic: bool
    seed: int
    repeats: int
    version: str = __version__
    error: str = ""

    @property
    def provenance(self) -> tuple[object, ...]:
        """Two rows of one cell that agree in this come from the same computation."""
        return (
            self.template_hash,
            self.plan_hash,
            self.cohort,
            self.synthetic,
            self.seed,
            self.repeats,
            self.version,
        )

    def done_by(self, found: "SweepRow | None") -> bool:
        """Whether a row that was found is the finished form of this outline."""
        return found is not None and not found.error and found.provenance == self.provenance


def columns(kind: type) -> tuple[str, ...]:
    """The header of a file of such rows."""
    return tuple(column.name for column in _columns(kind))


def values(row: object) -> tuple[object, ...]:
    """A row's line."""
    found: list[object] = []
    kind: type = type(row)
    for column in _columns(kind):
        value: Any = row
        for name in column.path:
            value = getattr(value, name)
        found.append(_written(value))
    return tuple(found)


def _written(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return epsilon_text(value) if isinstance(value, Fraction) else value


def table(kind: type[R], rows: Iterable[R]) -> CsvTable:
    """Rows as they stand in a file. The kind is given, since there may be no row to ask."""
    return columns(kind), map(values, rows)


def write_rows(path: Path, kind: type[R], rows: Iterable[R]) -> None:
    """A file of rows, whole or not at all."""
    write_csv(path, *table(kind, rows))


def read_rows(path: Path, kind: type[R]) -> list[R]:
    """The rows of an earlier run; none where the file is absent or any of it is not ours.

    Nothing is lost by that but time: whoever asks computes what it does not find.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            if tuple(reader.fieldnames or ()) != columns(kind):
                return []
            return [_row(kind, line) for line in reader]
    except (OSError, ValueError, csv.Error):
        return []


def _row(kind: type[R], line: Mapping[str, str]) -> R:
    if None in line or None in line.values():
        raise ValueError("a line has more or fewer fields than the header")
    found: dict[str, Any] = {}
    hints = _hints(kind)
    for each in fields(kind):  # type: ignore[arg-type]  # every kind of row is a dataclass
        hint, name = hints[each.name], each.metadata.get(_COLUMN, each.name)
        if isinstance(hint, type) and is_dataclass(hint):
            found[each.name] = _row(hint, line)
        elif name is not None:
            found[each.name] = _read(hint, line[name])
    return kind(**found)


def _read(hint: Any, text: str) -> Any:  # noqa: ANN401 - a type, and a value of it
    """A field of this type; ValueError for a text that is none."""
    if isinstance(hint, NewType):
        return _read(hint.__supertype__, text)
    if hint is bool:
        return _read(Literal["true", "false"], text) == "true"
    if get_origin(hint) is Literal:
        return get_args(hint)[get_args(hint).index(text)]
    if get_origin(hint) in (Union, UnionType):
        options = get_args(hint)
        if not text and NoneType in options:
            return None
        return _read_one(tuple(option for option in options if option is not NoneType), text)
    return hint(text)


def _read_one(options: Sequence[Any], text: str) -> Any:  # noqa: ANN401 - as above
    """A field of the first of these types that has such a text."""
    for option in options[:-1]:
        with suppress(ValueError):
            return _read(option, text)
    return _read(options[-1], text)


def epsilon_text(epsilon: Fraction) -> str:
    """As the published tables write it: 0.005, 5.0."""
    return repr(float(epsilon))


def write_csv(path: Path, header: Sequence[str], lines: Iterable[Sequence[object]]) -> None:
    """A CSV file, whole or not at all."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)
    write_text(path, text.getvalue())


def write_text(path: Path, text: str) -> None:
    """The whole file or nothing: a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        Path(name).chmod(0o644)  # mkstemp makes it readable to its owner alone
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
