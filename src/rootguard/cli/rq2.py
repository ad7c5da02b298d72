"""`rootguard bench rq2`: the paper's reconstruction study, from our code.

Files begin with `rq2`, so that one directory can hold this study and the others.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from rootguard.cli.options import json_option
from rootguard.cli.output import EXIT_CODES, console, table, write_json
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
    from rootguard.evaluation.rq2_reconstruction.claims import AttackComparison
    from rootguard.evaluation.rq2_reconstruction.study import AttackRow, AttackSweep

CONFIGURATION_NAMES = ("all", "roots", "opt", "calibrated", "population", "naive", "median")
"""`reconstruction.ATTACK_CONFIGURATIONS`, which is not imported to print a help text."""
TITLE = "RootGuard: the reconstruction study"


@click.command("rq2", epilog=EXIT_CODES)
@cohort_option
@out_option
@click.option(
    "--repeats",
    type=click.IntRange(1, 100_000),
    default=1,
    show_default=True,
    help="Independent draws of all the noise that a figure is the mean of.",
)
@seed_option("Of the noise.")
@templates_option
@click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(get_args(MechanismName)),
    multiple=True,
    help="Only this noise; repeatable. [default: all four]",
)
@click.option(
    "--config",
    "configurations",
    type=click.Choice(CONFIGURATION_NAMES),
    multiple=True,
    help="Only this way of spending and releasing, or of reading what calibrated releases (naive, "
    "median); repeatable. [default: all, but population for geometric noise alone]",
)
@click.option(
    "--shared",
    is_flag=True,
    help="Under strategy B share the q queries among the roots, as the paper's text has it; "
    "its tables give every root q of them.",
)
@json_option
def rq2(*, directory: Path | None, out: Path, as_json: bool, **given: Any) -> None:  # noqa: ANN401 - click's options, read by _sweep
    """How near an adversary gets to the roots by asking (RQ2).

    \b
    Examples:
      rootguard bench rq2 --out study
      rootguard bench rq2 --cohort people --out study --repeats 20
    """
    from rootguard.evaluation.rq2_reconstruction.claims import compare_attacks

    templates = chosen_templates(given["templates"])
    sweep = _sweep(given)
    out.mkdir(parents=True, exist_ok=True)
    rows = _run(sweep, templates, directory)
    comparison = compare_attacks(rows)
    _write(rows, comparison, sweep, templates, directory, out)
    if as_json:
        write_json(_as_json(rows, comparison, out))
    else:
        _print(rows, comparison, out)


def _sweep(given: dict[str, Any]) -> "AttackSweep":
    from rootguard.evaluation.rq1_utility.study import SEARCHED, STUDY_MECHANISMS
    from rootguard.evaluation.rq2_reconstruction.errors import ATTACK_CONFIGURATIONS
    from rootguard.evaluation.rq2_reconstruction.study import AttackSweep

    chosen = tuple(mechanism_named(name) for name in dict.fromkeys(given["mechanisms"]))
    asked = given["configurations"]
    mechanisms = chosen or STUDY_MECHANISMS
    return AttackSweep(
        seed=given["seed"],
        repeats=given["repeats"],
        spread="shared" if given["shared"] else "each",
        mechanisms=mechanisms,
        configurations=tuple(c for c in ATTACK_CONFIGURATIONS if not asked or c in asked),
        searched=mechanisms if "population" in asked else SEARCHED,
    )


def _run(
    sweep: "AttackSweep", templates: tuple[Template, ...], directory: Path | None
) -> list["AttackRow"]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from rootguard.advice.people import Cohort, load_cohort

    def load(template: Template) -> Cohort:
        return load_cohort(template, directory)

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    rows: list[AttackRow] = []
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("cells", total=len(sweep) * len(templates))
        for row in sweep.run(templates, load):
            rows.append(row)
            bar.update(task, advance=1, description=f"{row.cell.template} {row.cell.mechanism}")
    return rows


def _write(
    rows: list["AttackRow"],
    comparison: "AttackComparison",
    sweep: "AttackSweep",
    templates: tuple[Template, ...],
    directory: Path | None,
    out: Path,
) -> None:
    from rootguard import __version__
    from rootguard.evaluation.rq2_reconstruction.claims import (
        COMPARISON_COLUMNS,
        attack_comparison_sheets,
        attack_sheets,
        comparison_rows,
        write_attack_aggregates,
        write_attack_rows,
    )
    from rootguard.evaluation.rq2_reconstruction.plots import attack_figures
    from rootguard.evaluation.study import plots, tables
    from rootguard.evaluation.study.aggregates import write_csv, write_text
    from rootguard.evaluation.study.page import WARNING, Section, report

    synthetic = any(row.synthetic for row in rows)
    write_attack_rows(out, rows)
    write_attack_aggregates(out, rows)
    write_csv(out / "rq2_comparison.csv", COMPARISON_COLUMNS, comparison_rows(comparison))
    sheets, beside = attack_sheets(rows), attack_comparison_sheets(comparison)
    facts = {
        "cohort": str(directory or "drawn from the templates' population figures")
        + (" (SYNTHETIC)" if synthetic else ""),
        "patients per template": ", ".join(map(str, sorted({row.patients for row in rows}))),
        "templates": ", ".join(template.name for template in templates),
        "mechanisms": ", ".join(sweep.mechanisms),
        "configurations": ", ".join(sweep.configurations),
        "repeats": str(sweep.repeats),
        "seed": str(sweep.seed),
        "version": __version__,
        "cells": f"{len(rows)}, {sum(bool(row.error) for row in rows)} of them failed",
        "strategy B": "q + 1 observations of each root"
        if sweep.spread == "each"
        else "q queries shared among the roots, then one of each",
    }
    known = "".join(f"- {name}: {text}\n" for name, text in facts.items())
    warning = [f"**{WARNING}**"] if synthetic else []
    parts = ["# Our figures and the paper's: reconstruction", known, *warning]
    write_text(out / "rq2_comparison.md", "\n\n".join([*parts, *map(tables.to_markdown, beside)]))
    write_text(out / "rq2_tables.md", "\n\n".join([*warning, *map(tables.to_markdown, sheets)]))
    latex = [f"% {WARNING}"] if synthetic else []
    write_text(out / "rq2_tables.tex", "\n\n".join([*latex, *map(tables.to_latex, sheets)]))
    try:
        figures = plots.save(attack_figures(rows), out / "figures")
    except ImportError:
        figures = {}
        hint = "no figures: they need matplotlib (pip install 'rootguard[eval]')"
        click.echo(f"rootguard: {hint}", err=True)
    sections = (
        Section(title="Beside the paper", sheets=beside),
        Section(title="Reconstruction (RQ2)", sheets=sheets, figures=figures),
    )
    failures = _failures(rows)
    page = report(TITLE, facts, sections, synthetic=synthetic, failures=failures)
    write_text(out / "rq2_report.html", page)


def _failures(rows: list["AttackRow"]) -> tuple[str, ...]:
    counts: dict[str, int] = {}
    for row in rows:
        if row.error:
            text = f"{row.cell.template}: {row.error}"
            counts[text] = counts.get(text, 0) + 1
    return tuple(f"{text} ({count} cells)" for text, count in counts.items())


def _matches(comparison: "AttackComparison") -> dict[str, tuple[int, int]]:
    counts = {
        "means, epsilon from 0.05": comparison.matching(template=False),
        "per template": comparison.matching(template=True),
        "means, epsilon 0.01": comparison.matching(template=False, judged=False),
    }
    return {name: found for name, found in counts.items() if found[1]}


def _as_json(
    rows: list["AttackRow"], comparison: "AttackComparison", out: Path
) -> dict[str, object]:
    return {
        "out": str(out),
        "synthetic": any(row.synthetic for row in rows),
        "cells": len(rows),
        "failed": sum(bool(row.error) for row in rows),
        "failures": list(_failures(rows)),
        "matching": {name: {"match": m, "of": n} for name, (m, n) in _matches(comparison).items()},
        "cached_series": comparison.cached,
        "cached_series_that_vary": comparison.varying,
        "files": sorted(
            path.relative_to(out).as_posix()
            for path in out.rglob("*")
            if path.is_file() and ("rq2" in path.name or path.stem.startswith("reconstruction"))
        ),
    }


def _print(rows: list["AttackRow"], comparison: "AttackComparison", out: Path) -> None:
    to = console()
    if any(row.synthetic for row in rows):
        from rootguard.evaluation.study.page import WARNING

        to.print(WARNING, markup=False, style="bold red")
    lines = [(name, str(m), str(n)) for name, (m, n) in _matches(comparison).items()]
    if lines:
        to.print(table("beside the paper", ("table", ">match", ">of"), lines))
    to.print(
        f"cached: {comparison.cached - comparison.varying} of {comparison.cached} series "
        "identical at every q"
    )
    for failure in _failures(rows):
        to.print(f"failed: {failure}", markup=False, soft_wrap=True)
    to.print(f"{len(rows)} cells; look at {out / 'rq2_report.html'}", soft_wrap=True)
