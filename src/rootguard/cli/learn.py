"""`rootguard learn`: a template for a service whose formula is unknown, from public rows."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rootguard.cli.options import TemplateType, json_option, preset_option
from rootguard.cli.output import (
    EXIT_CODES,
    console,
    need,
    number,
    progress_of_rows,
    table,
    write_json,
)
from rootguard.errors import FileError
from rootguard.values import RootName

if TYPE_CHECKING:
    from rootguard.advice.learning.fit import Learned
    from rootguard.evaluation.learned_targets import Cost
    from rootguard.template import Template

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("learn", epilog=EXIT_CODES)
@click.option("--data", type=_FILE, help="Public rows: CSV, or Parquet where pandas can read it.")
@click.option("--target", metavar="COLUMN", help="The column the service computed.")
@click.option("--roots", metavar="A,B,C", help="Root columns. [default: all others]")
@click.option("--name", help="The template's name. [default: COLUMN_learned]")
@click.option(
    "--template",
    "base",
    type=TemplateType(),
    metavar="BASE",
    help="Take bounds, units and aliases from this template where it has the root.",
)
@click.option("--bounds", type=_FILE, help="TOML with a line such as age = [18, 80] per root.")
@click.option(
    "--risk",
    metavar="CLASSES",
    help="Such as 'low<1.3,middle<=2.67,high!'; ! marks a worrying class.",
)
@click.option("--out", type=_FILE, help="Where to write the template; without it, only a report.")
@preset_option("--folds", click.IntRange(2, 20), 5, "Parts of the cross-validation.")
@preset_option("--seed", click.IntRange(0, 2**32 - 1), 0, "Which rows go into which part.")
@click.option(
    "--study",
    is_flag=True,
    help="Instead: forget the paper's formulas, learn them again, and measure what that costs.",
)
@json_option
def command(
    *,
    data: Path | None,
    target: str | None,
    roots: str | None,
    name: str | None,
    base: str | None,
    bounds: Path | None,
    risk: str | None,
    out: Path | None,
    folds: int,
    seed: int,
    study: bool,
    as_json: bool,
) -> None:
    """Learn an approximate target formula from public rows and write a template with it.

    The guarantee does not depend on the approximation, only accuracy does. The rows must be public:
    bounds, means and formula are taken from them without noise.

    \b
    Examples:
      rootguard learn --data survey.csv --target score --out score.toml
      rootguard learn --data survey.csv --target fib4 --template fib4 \\
        --out mine.toml --json
      rootguard learn --data rows.csv --target y --roots a,b \\
        --risk 'low<1.3,middle<=2.67,high'
      rootguard learn --study
    """
    from rootguard.template import load_template

    if study:
        _study(folds=folds, seed=seed, as_json=as_json)
        return
    if data is None or target is None:
        raise click.UsageError("give --data FILE and --target COLUMN (or --study)")
    from rootguard.advice.learning.fit import learn
    from rootguard.advice.learning.rows import read_rows
    from rootguard.advice.learning.template import (
        ACCURACY,
        PUBLIC,
        bounds_of,
        learned_template,
        parse_risk,
        read_bounds,
        template_text,
    )

    need("learn", "sklearn")
    known = None if base is None else load_template(base)
    classes = () if risk is None else parse_risk(risk)
    given = None if bounds is None else read_bounds(bounds)
    rows = read_rows(data, target=target, roots=_columns(roots, known))
    ends = bounds_of(rows, base=known, given=given)
    with progress_of_rows("steps") as told:
        report = partial(told, "fitting forms")
        learned = learn(rows, bounds=ends, folds=folds, seed=seed, report=report)
    text = template_text(rows, learned, ends, name=name, base=known, risk=classes)
    template = learned_template(text)  # read back before it is written, so that no other file is
    if out is not None:
        _write(out, text)
    if as_json:
        said = {
            "out": None if out is None else str(out),
            "notes": [ACCURACY, PUBLIC],
            "toml": text,
        }
        write_json(_as_json(template, learned) | said)
        return
    _print(template, learned)
    for note in (ACCURACY, PUBLIC):
        console().print(note, markup=False)
    console().print(
        "nothing was written; give --out FILE" if out is None else f"written to {out}", markup=False
    )


def _columns(roots: str | None, base: "Template | None") -> list[str] | None:
    from rootguard.graph import Graph

    if roots is not None:
        return [name for part in roots.split(",") if (name := part.strip())]
    return None if base is None else [str(name) for name in Graph.of(base).roots]


def _write(path: Path, text: str) -> None:
    # In one step from the old file to the new: nobody finds half a template.
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(text, "utf-8")
        part.replace(path)
    except OSError as error:
        problem = f"it cannot be written ({error.strerror or 'no reason given'})"
        raise FileError(str(path), "", problem, "choose another place") from None


def _slopes(template: "Template") -> dict[RootName, float]:
    from rootguard.allocation import sensitivities
    from rootguard.graph import Graph

    return sensitivities(template, Graph.of(template))


def _as_json(template: "Template", learned: "Learned") -> dict[str, object]:
    from rootguard.expressions import to_text

    return {
        "template": template.name,
        "target": template.target.name,
        "rows": learned.rows,
        "folds": learned.folds,
        "seed": learned.seed,
        "form": learned.form,
        "formula": to_text(learned.formula),
        "coefficients": dict(learned.coefficients),
        "wmape": learned.wmape,
        "r2": learned.r2,
        "baseline_wmape": learned.baseline,
        "forms": [dataclasses.asdict(score) for score in learned.scores],
        "sensitivities": _slopes(template),
        "warnings": [dataclasses.asdict(caution) for caution in learned.cautions],
        "digest": template.digest,
    }


def _print(template: "Template", learned: "Learned") -> None:
    from rootguard.expressions import to_text

    out = console()
    rows = [
        (
            f"{score.form} *" if score.form == learned.form else score.form,
            _cell(score.wmape),
            _cell(score.wmape_se),
            "" if score.r2 is None else f"{score.r2:.6f}",
            str(score.terms or ""),
            score.reason,
        )
        for score in learned.scores
    ]
    rows.append(("(the median)", number(learned.baseline), "", "", "", ""))
    title = f"{learned.rows} rows, {learned.folds} folds; * chosen"
    columns = ("form", ">wMAPE %", ">se", ">R²", ">terms", "not used because")
    out.print(table(title, columns, rows))
    out.print(f"{template.target.name} = {to_text(learned.formula)}", markup=False)
    slopes = [
        (root, number(slope), number(slope * template.roots[root].domain.step))
        for root, slope in _slopes(template).items()
    ]
    out.print(table("at the mean", ("root", ">sensitivity", ">per grid step"), slopes))
    for name, coefficient in learned.coefficients.items():
        out.print(f"  {name}: {coefficient!r}", markup=False)
    for caution in learned.cautions:
        out.print(f"warning: {caution.text}", markup=False)


def _cell(value: float | None) -> str:
    return "" if value is None else number(value)


def _study(*, folds: int, seed: int, as_json: bool) -> None:
    from rootguard.advice.people import PAPER_TEMPLATES
    from rootguard.evaluation.learned_targets import SETTINGS, study
    from rootguard.template import load_template

    templates = [load_template(name) for name in PAPER_TEMPLATES]
    costs: list[Cost] = []
    with progress_of_rows("steps") as told:
        told("learning formulas", 0, len(templates) * len(SETTINGS))
        for cost in study(templates, seed=seed, folds=folds):
            costs.append(cost)
            told("learning formulas", len(costs), len(templates) * len(SETTINGS))
    if as_json:
        write_json({"seed": seed, "folds": folds, "costs": [dataclasses.asdict(c) for c in costs]})
        return
    columns = (
        "template", "form", ">wMAPE % of the formula", ">R²", ">shares shift",
        ">release, uniform", ">learned", ">exact",
    )  # fmt: skip
    for setting in SETTINGS:
        title = f"{setting.name}: {setting.rows}, targets off by {setting.error:.0%}"
        console().print(
            table(title, columns, [_row(cost) for cost in costs if cost.setting == setting.name])
        )


def _row(cost: "Cost") -> tuple[str, ...]:
    return (
        cost.template,
        cost.form,
        f"{cost.wmape:.2f}",
        f"{cost.r2:.4f}",
        f"{cost.shift:.1%}",
        f"{cost.uniform:.2f} %",
        f"{cost.learned:.2f} %",
        f"{cost.exact:.2f} %",
    )
