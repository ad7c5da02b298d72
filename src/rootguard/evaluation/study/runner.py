"""How a study is run: cell by cell, with progress, and from where an earlier run stopped.

A study is anything with `run`: it measures and gives `Findings`; what becomes of those (files,
tables, figures, a page) is the same for all. Two kinds of file carry a run over a stop: rows that
are kept as CSV while they come in (`gather` with a `Resumption`), and a log of JSON lines that is
only ever added to (`LineLog`), for what is costly and small.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Generic, Protocol, TypeVar

from rootguard import __version__
from rootguard.errors import FileError
from rootguard.evaluation.study.comparison import Count, TemplateCell, counts_json
from rootguard.evaluation.study.page import Findings, write_findings
from rootguard.evaluation.study.rows import write_rows
from rootguard.template import Template

Step = Callable[[str], object]
"""One more is done; the text says of what."""
Progress = Callable[[str, int], AbstractContextManager[Step]]
"""Shows how far something is: what is counted, and how many there are."""
R = TypeVar("R")


def silent(_what: str, _total: int) -> AbstractContextManager[Step]:
    """Progress that nobody watches."""
    return nullcontext(lambda _: None)


class Study(Protocol):
    """What is measured, and what the paper claims of it."""

    def run(self, out: Path, progress: Progress) -> Findings:
        """Measure. What has to survive a stop is written to `out` meanwhile, the rest after it."""
        ...


def run_study(
    study: Study,
    out: Path,
    *,
    progress: Progress = silent,
    notice: Callable[[str], object] = lambda _: None,
) -> Findings:
    """Run a study and write everything it found; `notice` is told what could not be."""
    out.mkdir(parents=True, exist_ok=True)
    found = study.run(out, progress)
    with progress("figures", sum(len(each.drawings) for each in found.sections)) as step:
        missing = write_findings(found, out, step)
    for text in (*found.notices, *missing):
        notice(text)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Resumption(Generic[R]):
    """Rows that are kept in a file while they come in; `known` are those of an earlier run.

    They are written every so many rows. The earlier ones stay in the file until this run is
    through, so that a second stop loses nothing; then it holds what was asked for, nothing else.
    `beside` writes what rows hold that is not in their file.
    """

    path: Path
    kind: type[R]
    known: Mapping[Any, R]
    key: Callable[[R], Any]
    every: int
    beside: Callable[[Iterable[R]], object] = lambda _: None


def gather(
    rows: Iterable[R],
    total: int,
    label: Callable[[R], str],
    *,
    progress: Progress,
    resumption: Resumption[R] | None = None,
) -> list[R]:
    """Every row, with progress."""
    found: list[R] = []
    kept = dict(resumption.known) if resumption else {}

    def save(rows: Iterable[R]) -> None:
        if resumption:
            resumption.beside(rows := list(rows))  # first: rows without it are measured again
            write_rows(resumption.path, resumption.kind, rows)

    with progress("cells", total) as step:
        try:
            for row in rows:
                found.append(row)
                step(label(row))
                if resumption:
                    kept[resumption.key(row)] = row
                    if len(found) % resumption.every == 0:
                        save(kept.values())
        except BaseException:  # stopped: keep what there is, then stop
            save(kept.values())
            raise
    save(found)
    return found


class LineLog:
    """A file of JSON lines that is only ever added to. One process at a time may write it.

    A run that was killed goes on behind the last whole line. `reader` gives what a line holds, or
    None for one that is not ours: in `open` the first such line and all behind it are removed,
    since what they told will be done again.
    """

    def __init__(self, path: Path, reader: Callable[[Any], R | None] = lambda found: found) -> None:
        self._path = path
        self._reader = reader
        self._file: BinaryIO | None = None

    def open(self) -> list[Any]:
        """Make ready to go on; gives what is there. The file stays locked until `close`."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("ab+")
        try:
            _lock(file, self._path)
            file.seek(0)
            whole = 0
            found = []
            for line in file:
                content = self._read(line) if line.endswith(b"\n") else None
                if content is None:
                    break
                found.append(content)
                whole += len(line)
            file.truncate(whole)
        except BaseException:
            file.close()
            raise
        self._file = file
        return found

    def append(self, content: object, *, separators: tuple[str, str] | None = None) -> None:
        """Write a line, and out of this process: a kill loses the line under way at most."""
        if self._file is None:
            raise ValueError(f"{self._path.name} is not open")
        line = json.dumps(content, ensure_ascii=False, separators=separators) + "\n"
        self._file.write(line.encode())
        self._file.flush()

    def close(self) -> None:
        """Make sure that everything is on the disk, and let others write."""
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None

    def __iter__(self) -> Any:  # noqa: ANN401 - what the reader gives
        """Every line of ours, in order."""
        with self._path.open("rb") as file:
            for line in file:
                if (found := self._read(line)) is not None:
                    yield found

    def _read(self, line: bytes) -> Any:  # noqa: ANN401 - what the reader gives
        try:
            return self._reader(json.loads(line))
        except (ValueError, TypeError):
            return None


def _lock(file: BinaryIO, path: Path) -> None:
    """Keep other processes out; the system lets go of the lock when this one ends, however."""
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise FileError(
            path.name, "", "another process writes it", "wait for it, or take another directory"
        ) from None


class MeasuredRow(Protocol):
    """What the rows of the studies over templates have in common."""

    @property
    def cell(self) -> TemplateCell: ...
    @property
    def patients(self) -> int: ...
    @property
    def synthetic(self) -> bool: ...
    @property
    def error(self) -> str: ...


class SweepOptions(Protocol):
    """What a sweep over templates was asked for."""

    @property
    def mechanisms(self) -> Sequence[str]: ...
    @property
    def configurations(self) -> Sequence[str]: ...
    @property
    def repeats(self) -> int: ...
    @property
    def seed(self) -> int: ...


def missing_cohort(template: Template, sweep: SweepOptions, refusal: Exception) -> dict[str, Any]:
    """Where the rows of a template come from whose people cannot be had: nowhere."""
    return {
        "patients": 0,
        "template_hash": template.digest,
        "cohort": "",
        "synthetic": False,
        "seed": sweep.seed,
        "repeats": sweep.repeats,
        "error": f"no cohort: {refusal}",
    }


def failures(rows: Iterable[MeasuredRow]) -> tuple[str, ...]:
    """Each template's errors, with how many cells they cost."""
    counts = Counter(f"{row.cell.template}: {row.error}" for row in rows if row.error)
    return tuple(f"{text} ({count} cells)" for text, count in counts.items())


def sweep_facts(
    sweep: SweepOptions,
    rows: Sequence[MeasuredRow],
    templates: Iterable[Template],
    directory: Path | None,
) -> dict[str, str]:
    """What a sweep was run on."""
    people = sorted({row.patients for row in rows if row.patients})
    return {
        "cohort": cohort_text(directory, synthetic=any(row.synthetic for row in rows)),
        "patients per template": ", ".join(map(str, people)) or "none",
        "templates": ", ".join(template.name for template in templates),
        "mechanisms": ", ".join(sweep.mechanisms),
        "configurations": ", ".join(sweep.configurations),
        "repeats": str(sweep.repeats),
        "seed": str(sweep.seed),
        "version": __version__,
        "cells": f"{len(rows)}, {sum(bool(row.error) for row in rows)} of them failed",
    }


def sweep_document(rows: Sequence[MeasuredRow], counts: Mapping[str, Count]) -> dict[str, object]:
    """What a program is told of a sweep, whatever was measured; `counts` of cells that match."""
    return {
        "synthetic": any(row.synthetic for row in rows),
        "cells": len(rows),
        "failed": sum(bool(row.error) for row in rows),
        "failures": list(failures(rows)),
        "matching": counts_json(counts),
    }


def cohort_text(directory: Path | None, *, synthetic: bool) -> str:
    """Whose values they are, as a fact of a report."""
    source = str(directory or "drawn from the templates' population figures")
    return source + (" (SYNTHETIC)" if synthetic else "")
