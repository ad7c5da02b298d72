"""`rootguard cohort`: make the people that experiments are about, from a survey or from figures."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rootguard.cli.options import TemplateType, json_option, preset_option
from rootguard.cli.output import EXIT_CODES, console, number, table, write_json

if TYPE_CHECKING:
    from rich.progress import TaskID

    from rootguard.advice.people import Cohort
    from rootguard.evaluation.nhanes import Split
    from rootguard.template import Template

_OUT = click.Path(file_okay=False, path_type=Path)
# As `rootguard.advice` and `rootguard.evaluation` have them, which take long to import and are not
# needed to print a help text; tests hold the two together.
CYCLE_NAMES = ("2011-2012", "2013-2014", "2015-2016", "2017-2018")
PAPER_SEED = 42
MAX_PEOPLE = 1_000_000
_SIZE = click.IntRange(1, MAX_PEOPLE)
_SEED = click.IntRange(0, 2**32 - 1)


@click.group("cohort", epilog=EXIT_CODES)
def command() -> None:
    """Make the people that experiments are about: a directory with a CSV file per template.

    \b
    Examples:
      rootguard cohort synthetic --out people
      rootguard cohort nhanes --cycle 2017-2018 --out nhanes
    """


@command.command("nhanes", epilog=EXIT_CODES)
@preset_option("--cycle", click.Choice(CYCLE_NAMES), "2017-2018", "Which two years of the survey.")
@click.option("--out", type=_OUT, required=True, help="Directory to write to.")
@click.option(
    "--from",
    "files",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="Directory of XPT files already downloaded; without it they are fetched from CDC.",
)
@preset_option("--seed", _SEED, PAPER_SEED, "Which patients are drawn; 42 is the paper's.")
@click.option("--size", type=_SIZE, default=200, show_default=True, help="Patients per template.")
@json_option
def nhanes(
    *, cycle: str, out: Path, files: Path | None, seed: int, size: int, as_json: bool
) -> None:
    """Draw test patients from NHANES and summarise everybody else as the population.

    Adult men with every root of a template. Writes a CSV file per template, population.json and
    SOURCE.json (checksums, seed, counts). A download that was cut off goes on where it stopped.

    \b
    Examples:
      rootguard cohort nhanes --cycle 2017-2018 --out nhanes
      rootguard cohort nhanes --out nhanes --from ~/Downloads/xpt --json
    """
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from rootguard.evaluation.nhanes import cycle_named, make_cohorts

    err = console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=err,
        disable=not err.is_terminal,
    ) as progress:
        tasks: dict[str, TaskID] = {}

        def report(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = progress.add_task(name)
            progress.update(tasks[name], completed=done, total=total)

        splits = make_cohorts(
            cycle_named(cycle), out, files=files, seed=seed, size=size, report=report
        )
    if as_json:
        write_json(
            {
                "cycle": cycle,
                "out": str(out),
                "seed": seed,
                "synthetic": False,
                "templates": {each.cohort.template: _split_json(each) for each in splits},
            }
        )
    else:
        rows = [
            (
                each.cohort.template,
                ", ".join(each.cohort.columns),
                str(each.complete),
                str(len(each.cohort)),
            )
            for each in splits
        ]
        columns = ("template", "roots", ">complete cases", ">drawn")
        console().print(table(f"NHANES {cycle}, adult men, seed {seed}", columns, rows))
        console().print(f"written to {out}", markup=False)


def _split_json(split: "Split") -> dict[str, object]:
    return {
        "people": len(split.cohort),
        "complete_cases": split.complete,
        "roots": list(split.cohort.columns),
        "digest": split.cohort.digest,
    }


@command.command("synthetic", epilog=EXIT_CODES)
@click.argument("templates", type=TemplateType(), metavar="[TEMPLATE]...", nargs=-1)
@click.option("--out", type=_OUT, help="Directory to write to; without it, only a summary.")
@click.option("--seed", type=_SEED, default=0, show_default=True, help="Which people are drawn.")
@click.option("--size", type=_SIZE, default=200, show_default=True, help="People per template.")
@json_option
def synthetic(
    templates: tuple[str, ...], *, out: Path | None, seed: int, size: int, as_json: bool
) -> None:
    """Draw synthetic people from the population figures in templates.

    Without a name, for the eight templates of the paper.

    \b
    Examples:
      rootguard cohort synthetic
      rootguard cohort synthetic fib4 ./mine.toml --size 1000 --out people
    """
    from rich.progress import Progress

    from rootguard import __version__
    from rootguard.advice.people import PAPER_TEMPLATES, SYNTHETIC, synthetic_cohort
    from rootguard.evaluation.cohorts import write_cohorts
    from rootguard.template import load_template

    loaded = [load_template(name) for name in templates or PAPER_TEMPLATES]
    err = console(stderr=True)
    with Progress(console=err, disable=not err.is_terminal, transient=True) as progress:
        steps = progress.track(loaded, description="drawing people")
        cohorts = [synthetic_cohort(each, size=size, seed=seed) for each in steps]
    if out is not None:
        about = {"source": SYNTHETIC, "seed": seed, "size": size, "version": __version__}
        write_cohorts(out, cohorts, kind="synthetic", about=about)
    pairs = list(zip(loaded, cohorts, strict=True))
    if as_json:
        write_json(
            {
                "synthetic": True,
                "source": SYNTHETIC,
                "seed": seed,
                "out": None if out is None else str(out),
                "templates": {cohort.template: _synthetic_json(cohort) for _, cohort in pairs},
            }
        )
    else:
        rows = [row for pair in pairs for row in _margins(*pair)]
        columns = ("template", "root", ">least", ">mean", ">sd", ">greatest", "unit")
        console().print(table(f"{size} people each, {SYNTHETIC}", columns, rows))
        if out is not None:
            console().print(f"written to {out}", markup=False)


def _synthetic_json(cohort: "Cohort") -> dict[str, object]:
    return {
        "people": len(cohort),
        "digest": cohort.digest,
        "roots": {
            root: {
                "lower": float(column.min()),
                "mean": float(column.mean()),
                "sd": float(column.std()),
                "upper": float(column.max()),
            }
            for root, column in cohort.columns.items()
        },
    }


def _margins(template: "Template", cohort: "Cohort") -> list[tuple[str, ...]]:
    return [
        (
            cohort.template,
            root,
            number(float(column.min())),
            number(float(column.mean())),
            number(float(column.std())),
            number(float(column.max())),
            template.roots[root].unit,
        )
        for root, column in cohort.columns.items()
    ]
