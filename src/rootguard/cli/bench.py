"""`rootguard bench`: the paper's utility study and structural analysis, from our code.

Everything goes into one directory: `rq1.csv`, aggregates, tables, figures, the comparison with the
published figures and `report.html`. A run that was stopped goes on where it was.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from rootguard.cli.cape import cape
from rootguard.cli.options import json_option
from rootguard.cli.output import EXIT_CHECK_FAILED, EXIT_CODES, console, table, write_json
from rootguard.cli.rq2 import rq2
from rootguard.cli.rq4 import rq4
from rootguard.cli.rq4_hostile import rq4_hostile
from rootguard.cli.study_options import (
    chosen_templates,
    cohort_option,
    out_option,
    seed_option,
    templates_option,
)
from rootguard.mechanisms import mechanism_named
from rootguard.template import Template
from rootguard.values import MechanismName

if TYPE_CHECKING:
    from rich.table import Table

    from rootguard.evaluation.rq1_utility.study import Cell, Row, Sweep
    from rootguard.evaluation.study.outputs import Results

_NONE: "Mapping[Cell, Row]" = MappingProxyType({})
CONFIGURATION_NAMES = ("all", "roots", "opt", "calibrated", "population")
"""`experiment.CONFIGURATIONS`, which is not imported to print a help text."""
_Command = TypeVar("_Command", bound=Callable[..., Any])
_EXAMPLES = """
    \b
    Examples:
      rootguard bench all --out study
      rootguard bench rq1 --cohort people --out study --repeats 20
      rootguard bench rq1 --config opt --config calibrated --out study
      rootguard bench all --template ./mine.toml --cohort ./mine --out study
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Study:
    """What was asked for."""

    out: Path
    directory: Path | None
    templates: tuple[Template, ...]
    sweep: "Sweep"
    as_json: bool


def _options(command: _Command) -> _Command:
    for option in (
        json_option,
        click.option(
            "--mechanism",
            "mechanisms",
            type=click.Choice(get_args(MechanismName)),
            multiple=True,
            help="Only this noise; repeatable. [default: all four]",
        ),
        click.option(
            "--config",
            "configurations",
            type=click.Choice(CONFIGURATION_NAMES),
            multiple=True,
            help="Only this way of spending and releasing; repeatable. [default: all five, but "
            "population, whose plans take seconds each, for geometric noise alone]",
        ),
        templates_option,
        seed_option("Of the noise."),
        click.option(
            "--repeats",
            type=click.IntRange(1, 10_000),
            default=1,
            show_default=True,
            help="Independent draws of all the noise that a figure is the mean of.",
        ),
        out_option,
        cohort_option,
    ):
        command = option(command)
    return command


@click.group("bench", epilog=EXIT_CODES)
def command() -> None:
    """Reproduce the paper's study, or run it on your own cohort and templates.

    \b
    Examples:
      rootguard bench all --out OUT
      rootguard bench rq1 --cohort DIR --out OUT --repeats 20
    """


command.add_command(rq2)
command.add_command(rq4)
command.add_command(rq4_hostile)
command.add_command(cape)


@command.command("rq1", epilog=EXIT_CODES, help=f"How wrong the target gets (RQ1).\n{_EXAMPLES}")
@_options
def rq1(**given: Any) -> None:  # noqa: ANN401 - click's options, read by _study
    """The utility study alone."""
    _run(_study(given), utility=True, structure=False)


@command.command("rq3", epilog=EXIT_CODES, help=f"Where the budget goes (RQ3).\n{_EXAMPLES}")
@_options
def rq3(**given: Any) -> None:  # noqa: ANN401 - click's options, read by _study
    """The structural analysis alone."""
    _run(_study(given), utility=False, structure=True)


@command.command("all", epilog=EXIT_CODES, help=f"RQ1 and RQ3.\n{_EXAMPLES}")
@_options
def everything(**given: Any) -> None:  # noqa: ANN401 - click's options, read by _study
    """Both."""
    _run(_study(given), utility=True, structure=True)


def _study(given: dict[str, Any]) -> _Study:
    from rootguard.evaluation.rq1_utility.study import (
        CONFIGURATIONS,
        SEARCHED,
        STUDY_MECHANISMS,
        Sweep,
    )

    chosen = tuple(mechanism_named(name) for name in dict.fromkeys(given["mechanisms"]))
    mechanisms = chosen or STUDY_MECHANISMS
    asked = given["configurations"]
    return _Study(
        out=given["out"],
        directory=given["directory"],
        templates=chosen_templates(given["templates"]),
        sweep=Sweep(
            seed=given["seed"],
            repeats=given["repeats"],
            mechanisms=mechanisms,
            configurations=tuple(c for c in CONFIGURATIONS if not asked or c in asked),
            searched=mechanisms if "population" in asked else SEARCHED,
        ),
        as_json=given["as_json"],
    )


def _run(study: _Study, *, utility: bool, structure: bool) -> None:
    from rootguard.evaluation.rq1_utility.claims import compare
    from rootguard.evaluation.study.outputs import (
        Results,
        analyse,
        focus_sweep,
        gain_sweep,
        write_outputs,
    )

    study.out.mkdir(parents=True, exist_ok=True)
    rows = _sweep(study, study.sweep, study.out / "rq1.csv") if utility else []
    found = None
    if structure:
        known = {row.cell: row for row in rows}
        for needed in (focus_sweep(study.sweep), gain_sweep(study.sweep)):
            known |= {row.cell: row for row in _sweep(study, needed, None, known)}
        found = analyse(study.templates, study.sweep, known.values())
    results = Results(
        source=str(study.directory or "drawn from the templates' population figures"),
        templates=study.templates,
        sweep=study.sweep,
        rows=tuple(rows),
        structure=found,
        comparison=compare(rows, found.laws if found else ()) if utility else None,
    )
    write_outputs(results, study.out, missing=_no_figures)
    if study.as_json:
        write_json(_as_json(study, results))
    else:
        _print(study, results)
    if all(row.error for row in results.measured):
        click.get_current_context().exit(EXIT_CHECK_FAILED)


def _sweep(
    study: _Study, sweep: "Sweep", path: Path | None, known: Mapping["Cell", "Row"] = _NONE
) -> list["Row"]:
    """Run the cells that are not known and `path` does not hold yet, keeping it up to date."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from rootguard.advice.people import Cohort, load_cohort
    from rootguard.evaluation.study.aggregates import read_rows, write_rows

    def load(template: Template) -> Cohort:
        return load_cohort(template, study.directory)

    # What an earlier run found stays in the file until this run is through, so that a second
    # stop loses nothing; then the file holds what was asked for and nothing else.
    done = read_rows(path) if path else dict(known)
    kept = dict(done)
    rows: list[Row] = []
    every = len(sweep) // len(sweep.mechanisms)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, console=console(stderr=True), transient=True)
    with bar:
        task = bar.add_task("cells", total=len(sweep) * len(study.templates))
        try:
            for row in sweep.run(study.templates, load, done=done):
                rows.append(row)
                kept[row.cell] = row
                bar.update(task, advance=1, description=f"{row.cell.template} {row.cell.mechanism}")
                if path and len(rows) % every == 0:
                    write_rows(path, kept.values())
        except BaseException:  # stopped: keep what there is, then stop
            if path:
                write_rows(path, kept.values())
            raise
    if path:
        write_rows(path, rows)
    return rows


def _no_figures() -> None:
    hint = "no figures: they need matplotlib (pip install 'rootguard[eval]')"
    click.echo(f"rootguard: {hint}", err=True)


def _as_json(study: _Study, results: "Results") -> dict[str, object]:
    found = results.structure
    files = sorted(path for path in study.out.rglob("*") if path.is_file())
    return {
        "out": str(study.out),
        "synthetic": results.synthetic,
        "cells": len(results.measured),
        "failed": sum(bool(row.error) for row in results.measured),
        "failures": list(results.failures),
        "matching": {name: {"match": m, "of": n} for name, (m, n) in _matches(results).items()},
        "means": _means(results),
        "slopes": [
            {"mechanism": law.mechanism, "epsilon": float(law.epsilon), "slope": law.slope}
            for law in (found.laws if found else ())
        ],
        "files": [path.relative_to(study.out).as_posix() for path in files],
    }


def _means(results: "Results") -> list[dict[str, object]]:
    """Every mean over templates, and the population's median beside them."""
    from rootguard.evaluation.study.aggregates import (
        MEASURES,
        MEDIAN,
        aggregates,
        mean_population_median,
    )

    found: dict[tuple[object, ...], dict[str, object]] = {}
    for measure in MEASURES:
        for (budget, epsilon, name, config), mean in aggregates(results.rows, measure).items():
            about: dict[str, object] = {
                "budget": budget,
                "epsilon": float(epsilon),
                "mechanism": name,
                "config": config,
            }
            line = found.setdefault(tuple(about.values()), about)
            line[measure] = round(mean.value, 6)
    middle = mean_population_median(results.rows)
    alone = [] if middle is None else [{"config": MEDIAN, "wmape": round(middle, 6)}]
    return [*found.values(), *alone]


def _print(study: _Study, results: "Results") -> None:
    out = console()
    if results.synthetic:
        from rootguard.evaluation.study.page import WARNING

        out.print(WARNING, markup=False, style="bold red")
    lines = [(name, str(m), str(n)) for name, (m, n) in _matches(results).items()]
    if lines:
        title = "beside the paper" + (", whose cohort is not this one" if results.synthetic else "")
        out.print(table(title, ("table", ">match", ">of"), lines))
    if results.rows:
        out.print(_accuracy(results))
    for law in results.structure.laws if results.structure else ():
        text = f"power law, {law.mechanism}, epsilon {float(law.epsilon):g}: slope {law.slope:.3f}"
        out.print(text, markup=False)
    for failure in results.failures:
        out.print(f"failed: {failure}", markup=False, soft_wrap=True)
    out.print(f"{len(results.measured)} cells; look at {study.out / 'report.html'}", soft_wrap=True)


def _accuracy(results: "Results") -> "Table":
    """The mean error of each configuration, in a table for the terminal."""
    from rootguard.evaluation.rq3_structure import FOCUS_BUDGET
    from rootguard.evaluation.study.aggregates import MEDIAN, aggregates, mean_population_median
    from rootguard.evaluation.study.outputs import gain_mechanism

    means = aggregates(results.rows, "wmape")
    name, configs = gain_mechanism(results.sweep.mechanisms), results.sweep.configurations
    middle = mean_population_median(results.rows)
    lines = []
    for epsilon in sorted(results.sweep.epsilons, reverse=True):
        found = [means.get((FOCUS_BUDGET, epsilon, name, config)) for config in configs]
        texts = ["–" if mean is None else f"{mean.value:.2f}" for mean in found]
        lines.append((f"{float(epsilon):g}", *texts, "–" if middle is None else f"{middle:.2f}"))
    heads = ("epsilon", *(f">{config}" for config in configs), f">{MEDIAN}")
    return table(f"wMAPE (%), {name}, B = ({FOCUS_BUDGET}) epsilon", heads, lines)


def _matches(results: "Results") -> dict[str, tuple[int, int]]:
    compared = results.comparison
    if compared is None:
        return {}
    counts = {
        "wmape, means": compared.matching("wmape", "aggregate"),
        "wmape, per template": compared.matching("wmape", "template"),
        "rce, means": compared.matching("rce", "aggregate"),
        "rce, per template": compared.matching("rce", "template"),
        "win rates": (sum(w.matches for w in compared.wins), len(compared.wins)),
    }
    return {name: found for name, found in counts.items() if found[1]}
