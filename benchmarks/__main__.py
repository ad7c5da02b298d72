"""`python -m benchmarks`: measure, write each result down as it comes, and show tables."""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks import records
from benchmarks.answers import answers
from benchmarks.batch import batch
from benchmarks.calibration import calibration
from benchmarks.cases import report
from benchmarks.detection import public
from benchmarks.evaluation import evaluation
from benchmarks.formulas import formulas
from benchmarks.gateway import gateway
from benchmarks.growth import growths
from benchmarks.mcp import mcp
from benchmarks.measure import ROUNDS, Case, Figure, Growth, Result, Row, Skipped, measure
from benchmarks.noise import seeded, single
from benchmarks.peers import peers
from benchmarks.planning import planning
from benchmarks.reconstruction import reconstruction
from benchmarks.spark import spark
from benchmarks.start import start
from benchmarks.studies import studies
from benchmarks.tables import tables
from benchmarks.text import text
from benchmarks.vault import vault

_AREAS: Mapping[str, tuple[str, Callable[[], Iterator[Case | Result]]]] = {
    "start": ("How the program starts, beside a bare program and NumPy", start),
    "tables": ("Tables of people, per row", tables),
    "growth": ("How cost grows", growths),
    "studies": ("Studies", studies),
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


class _Areas(click.ParamType[tuple[str, ...]]):
    """Names of areas with commas between them."""

    name = "areas"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Cut at commas, or fail as a usage error."""
        names = tuple(str(value).split(",")) if isinstance(value, str) else ()
        known = (*_AREAS, _CASES, _DETECTION)
        for name in names:
            if name not in known:
                self.fail(f"no area is called {name!r}; there is {', '.join(known)}", param, ctx)
        return names


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print lines of JSON, each as it comes.")
@click.option(
    "--only",
    multiple=True,
    type=_Areas(),
    metavar="AREA,…",
    help="Measure these areas; repeatable. `cases` counts what leaves, and is not run unasked; "
    "neither is `detection`, on a labelled set.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write each result into this file as it comes; an area that is there already is left out.",
)
@click.option(
    "--compare",
    "old",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Show the results beside those of an earlier file.",
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
    *,
    as_json: bool,
    only: tuple[tuple[str, ...], ...],
    out: Path | None,
    old: Path | None,
    folder: Path | None,
    show: bool,
    data: Path | None,
) -> None:
    """Speed in processor time, beside named alternatives measured in turns on this machine."""
    wanted = [area for areas in only for area in areas]
    progress = _Progress()
    if _CASES in wanted:
        with progress:
            report(folder, show=show, as_json=as_json, say=progress.say)
    if _DETECTION in wanted:
        if data is None:
            raise click.UsageError("--only detection needs --data FILE, a file of labelled texts")
        public.report(data, Console(width=_WIDTH, highlight=False))
    areas = [area for area in wanted or _AREAS if area in _AREAS]
    if not areas:
        return
    with tempfile.TemporaryDirectory() as directory:
        path = out or Path(directory) / "results.jsonl"
        with progress:
            found = _run(areas, path, progress, as_json=as_json)
        if not as_json:
            _show(found)
        if old is not None:
            _compare(old, path)


def _run(
    areas: Sequence[str], path: Path, progress: "_Progress", *, as_json: bool
) -> dict[str, list[Result]]:
    """Measure, and write each result down when it is there."""
    there = set()
    if path.is_file():  # a run that was stopped: its last area is measured again
        lines = list(records.read(path))
        order = list(dict.fromkeys(each["area"] for each in lines if "area" in each))
        there = {*order[:-1]} if not any(each.get("done") for each in lines) else {*order}
        kept = [each for each in lines if "machine" in each or each.get("area") in there]
        path.write_text("".join(json.dumps(each) + "\n" for each in kept), encoding="utf-8")
    found: dict[str, list[Result]] = {}
    with path.open("a", encoding="utf-8") as file:

        def tell(line: records.Line) -> None:
            text = json.dumps(line)
            file.write(text + "\n")
            file.flush()
            if as_json:
                click.echo(text)

        wanted = [area for area in areas if area not in there]
        if wanted:
            tell(records.machine())
        for area in wanted:
            found[area] = []
            began = time.perf_counter()
            for each in _AREAS[area][1]():
                result = each
                if isinstance(result, Case):
                    progress.say(f"{area}: {result.ours.name} / {result.theirs.name}")
                    result = measure(result)
                found[area].append(result)
                now = time.perf_counter()
                tell(records.line(area, result) | {"measured_in": round(now - began, 1)})
                began = now
        tell({"done": True})
    return found


def _compare(old: Path, new: Path) -> None:
    console = Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False)
    table = Table(title=f"beside {old.name}", title_justify="left")
    for column in ("area", "what", "against", "figure"):
        table.add_column(column)
    for column in ("before", "now", "now / before"):
        table.add_column(column, justify="right")
    for (area, what, against), field, before, now in records.compared(old, new):
        change = _figure(now / before) if before else ""
        table.add_row(area, what, against, field, f"{before:.3g}", f"{now:.3g}", change)
    console.print(table)


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


def _show(results: Mapping[str, Sequence[Result]]) -> None:
    console = Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False)
    wide = console.width >= _WIDE
    for area, outcomes in results.items():
        title = f"{area}: {_AREAS[area][0]}"
        rows = [outcome for outcome in outcomes if isinstance(outcome, Row)]
        if rows:
            console.print(_comparisons(title, rows, wide=wide))
        figures = [outcome for outcome in outcomes if isinstance(outcome, Figure)]
        if figures:
            console.print(_figures(title, figures))
        grown = [outcome for outcome in outcomes if isinstance(outcome, Growth)]
        if grown:
            console.print(_growths(title, grown))
        for outcome in outcomes:
            if isinstance(outcome, Skipped):
                console.print(f"{area}: {outcome.name} left out, {outcome.reason}", markup=False)
    judged = [
        outcome.met
        for outcomes in results.values()
        for outcome in outcomes
        if not isinstance(outcome, Skipped) and outcome.met is not None
    ]
    console.print(
        f"A ratio is their time over ours, the median of up to {ROUNDS} rounds in turns; above 1 "
        f"RootGuard is faster. Times are processor time. Aims met: {sum(judged)} of {len(judged)}."
        + ("" if wide else " A wider terminal or --json shows their times and the spread as well.")
    )


def _comparisons(title: str, rows: Sequence[Row], *, wide: bool) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("RootGuard", "against"):
        table.add_column(column)
    for column in ("ratio", *(("middle half", "theirs") if wide else ()), "ours", "aim", "met"):
        table.add_column(column, justify="right", no_wrap=True)
    checked = next((row.case.check for row in rows if row.case.check is not None), None)
    if checked is not None:
        table.add_column(f"{checked.name} vs theirs", justify="right")
    for row in rows:
        table.add_row(*_cells(row, wide=wide))
    return table


def _figures(title: str, figures: Sequence[Figure]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("RootGuard")
    for column in ("per", "processor", "middle half", "wall", "aim", "met"):
        table.add_column(column, justify="right", no_wrap=True)
    for each in figures:
        write = _rate if each.rate else _time
        low, high = sorted((write(end) for end in each.spread), reverse=each.rate)
        aim = "" if each.aim is None else f"{'>=' if each.rate else '<='} {write(each.aim)}"
        spread = f"{low} - {high}"
        wall = write(each.wall)
        table.add_row(each.name, each.unit, write(each.seconds), spread, wall, aim, _MET[each.met])
    return table


def _growths(title: str, grown: Sequence[Growth]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("what", "grows with"):
        table.add_column(column)
    for column in ("from", "to", "exponent", "limit", "met"):
        table.add_column(column, justify="right", no_wrap=True)
    for each in grown:
        first = f"{each.sizes[0]:,}: {_time(each.seconds[0])}"
        last = f"{each.sizes[-1]:,}: {_time(each.seconds[-1])}"
        met = _MET[each.met]
        table.add_row(
            each.name, each.size, first, last, f"{each.exponent:.2f}", f"{each.limit:g}", met
        )
    return table


_MET = {None: "", True: "[green]yes[/]", False: "[red]no[/]"}


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
    yield _MET[row.met]
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


if __name__ == "__main__":
    main()
