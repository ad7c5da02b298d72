"""`python -m benchmarks`: measure, then show a table to people or JSON to machines."""

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.answers import answers
from benchmarks.batch import batch
from benchmarks.calibration import calibration
from benchmarks.cases import report
from benchmarks.detection import public
from benchmarks.evaluation import evaluation
from benchmarks.formulas import formulas
from benchmarks.gateway import gateway
from benchmarks.mcp import mcp
from benchmarks.measure import ROUNDS, Case, Row, Skipped, measure
from benchmarks.noise import seeded, single
from benchmarks.peers import peers
from benchmarks.planning import planning
from benchmarks.reconstruction import reconstruction
from benchmarks.spark import spark
from benchmarks.text import text
from benchmarks.vault import vault

_Results = dict[str, list[Row | Skipped]]

_AREAS: Mapping[str, tuple[str, Callable[[], Iterator[Case | Row | Skipped]]]] = {
    "noise": ("One secure draw on a grid of 1,000 points", single),
    "peers": ("The default's secure draw and other libraries'", peers),
    "seeded": ("Seeded draws for experiments, by the million", seeded),
    "answers": ("A session's answers", answers),
    "vault": ("Releases from a vault", vault),
    "planning": ("The optimal allocation for FIB-4, B = 0.9", planning),
    "calibration": ("Calibrated releases, epsilon 0.05 in batches", calibration),
    "evaluation": ("The RQ1 sweep, per patient and cell", evaluation),
    "reconstruction": ("The reconstruction study, FIB-4, epsilon 0.1", reconstruction),
    "formulas": ("Formulas in a million rows", formulas),
    "text": ("The text channel, prompts of 10 KiB", text),
    "mcp": ("An MCP server of guarded values, over standard streams", mcp),
    "batch": ("A table of people from Parquet to Parquet, per row", batch),
    "spark": ("The same on Spark, an executor on each core, per row", spark),
    "gateway": ("The gateway, 64 callers at once, prompts of 10 KiB with 20 mentions", gateway),
}
_CASES = "cases"
_DETECTION = "detection"
_PATIENCE = 2.0
_WIDTH = 132
"""Columns where there is no terminal to ask."""
_WIDE = 110
"""Columns from which the whole table fits."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([*_AREAS, _CASES, _DETECTION]),
    help="Measure this area; repeatable. `cases` counts what leaves, and is not run unasked; "
    "neither is `detection`, on a labelled set.",
)
@click.option(
    "--cases",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="For `--only cases`: a folder of more cases.",
)
@click.option("--show", is_flag=True, help="For `--only cases`: list those that fail.")
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="For `--only detection`: a file of labelled texts.",
)
def main(
    *, as_json: bool, only: tuple[str, ...], folder: Path | None, show: bool, data: Path | None
) -> None:
    """Speed as ratios to named alternatives, measured in turns on this machine."""
    results: _Results = {}
    progress = _Progress()
    if _CASES in only:
        with progress:
            report(folder, show=show, as_json=as_json, say=progress.say)
        only = tuple(area for area in only if area != _CASES)
        if not only:
            return
    if _DETECTION in only:
        if data is None:
            raise click.UsageError("--only detection needs --data FILE, a file of labelled texts")
        public.report(data, Console(width=_WIDTH, highlight=False))
        only = tuple(area for area in only if area != _DETECTION)
        if not only:
            return
    with progress:
        for area in only or _AREAS:
            results[area] = []
            for case in _AREAS[area][1]():
                if isinstance(case, Skipped | Row):
                    results[area].append(case)
                    continue
                progress.say(f"{area}: {case.ours.name} / {case.theirs.name}")
                results[area].append(measure(case))
    if as_json:
        click.echo(json.dumps(_record(results), indent=2))
    else:
        _show(results)


class _Progress:
    """What is being measured, on standard error, once that has taken two seconds."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._console = console
        self._status = console.status("") if console.is_terminal else None
        self._begin = time.perf_counter()
        self._said = self._begin
        self._shown = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        if self._status is not None and self._shown:
            self._status.stop()

    def say(self, what: str) -> None:
        """Show it: as a line that changes on a terminal, else as a new line now and then."""
        now = time.perf_counter()
        if now - self._begin < _PATIENCE:
            return
        text = f"{now - self._begin:3.0f} s  {what}"
        if self._status is not None:
            self._status.update(text)
            if not self._shown:
                self._status.start()
        elif now - self._said >= _PATIENCE:
            print(text, file=sys.stderr, flush=True)
            self._said = now
        self._shown = True


def _show(results: _Results) -> None:
    console = Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False)
    wide = console.width >= _WIDE
    for area, outcomes in results.items():
        table = Table(title=f"{area}: {_AREAS[area][0]}", title_justify="left")
        for column in ("RootGuard", "against"):
            table.add_column(column)
        for column in ("ratio", *(("middle half", "theirs") if wide else ()), "ours", "aim", "met"):
            table.add_column(column, justify="right", no_wrap=True)
        rows = [outcome for outcome in outcomes if isinstance(outcome, Row)]
        checked = next((row.case.check for row in rows if row.case.check is not None), None)
        if checked is not None:
            table.add_column(f"{checked.name} vs theirs", justify="right")
        for row in rows:
            table.add_row(*_cells(row, wide=wide))
        if rows:
            console.print(table)
        for outcome in outcomes:
            if isinstance(outcome, Skipped):
                console.print(f"{area}: {outcome.name} left out, {outcome.reason}", markup=False)
    judged = [
        row.met
        for outcomes in results.values()
        for row in outcomes
        if isinstance(row, Row) and row.met is not None
    ]
    console.print(
        f"A ratio is their time over ours, the median of up to {ROUNDS} rounds in turns; above 1 "
        f"RootGuard is faster. Aims met: {sum(judged)} of {len(judged)}."
        + ("" if wide else " A wider terminal or --json shows their times and the spread as well.")
    )


def _cells(row: Row, *, wide: bool) -> Iterator[str]:
    case = row.case
    low, high = row.spread
    write = _rate if case.rate else _time
    yield case.ours.name
    yield case.theirs.name
    yield f"{_figure(row.ratio)}x"
    if wide:
        yield f"{_figure(low)} - {_figure(high)}"
        yield write(row.theirs_seconds)
    yield write(row.ours_seconds)
    yield "" if case.aim is None else f">= {_figure(case.aim)}x"
    yield {None: "", True: "[green]yes[/]", False: "[red]no[/]"}[row.met]
    if case.check is not None:
        yield f"{case.check.value:+.1e}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _rate(seconds: float) -> str:
    rate = 1 / seconds
    for prefix, scale in (("M", 1e6), ("k", 1e3)):
        if rate >= scale:
            return f"{rate / scale:.3g} {prefix}/s"
    return f"{rate:.3g} /s"


def _record(results: _Results) -> dict[str, object]:
    return {
        "machine": {
            "python": platform.python_version(),
            "platform": platform.platform(),
            "processors": os.cpu_count(),
            **{name: _version(name) for name in ("numpy", "scipy", "opendp", "diffprivlib")},
        },
        "rounds": ROUNDS,
        "rows": [
            {"area": area, **_outcome(outcome)}
            for area, outcomes in results.items()
            for outcome in outcomes
        ],
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _outcome(outcome: Row | Skipped) -> dict[str, object]:
    if isinstance(outcome, Skipped):
        return {"against": outcome.name, "skipped": outcome.reason}
    case = outcome.case
    check = case.check
    return {
        "ours": case.ours.name,
        "against": case.theirs.name,
        "ratio": outcome.ratio,
        "middle_half": outcome.spread,
        "ratios": outcome.ratios,
        "ours_seconds": outcome.ours_seconds,
        "theirs_seconds": outcome.theirs_seconds,
        "aim": case.aim,
        "met": outcome.met,
        "check": None if check is None else {check.name: check.value, "limit": check.limit},
    }


if __name__ == "__main__":
    main()
