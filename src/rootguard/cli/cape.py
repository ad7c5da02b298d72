"""`rootguard bench cape`: what text-DP does to numbers, on a language model in process.

Files begin with `cape`. What the model said is kept in `cape_contexts.jsonl`, so that a run that
was stopped, or killed, goes on where it was, and other epsilons cost little.
"""

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rootguard.cli.options import json_option
from rootguard.cli.output import EXIT_CODES, console, table, write_json
from rootguard.cli.study_options import (
    chosen_templates,
    cohort_option,
    model_option,
    out_option,
    patients_option,
    seed_option,
    templates_option,
)
from rootguard.template import Template

if TYPE_CHECKING:
    from rootguard.evaluation.cape import CapeRow


@click.command("cape", epilog=EXIT_CODES)
@model_option
@cohort_option
@out_option
@patients_option
@seed_option("Of the perturbation.")
@templates_option
@click.option(
    "--epsilon",
    "epsilons",
    type=click.FloatRange(min=0.001, max=100),
    multiple=True,
    help="Only this epsilon; repeatable. [default: 0.1, 1, 5]",
)
@json_option
def cape(
    *,
    model_path: Path | None,
    directory: Path | None,
    out: Path,
    patients: int,
    seed: int,
    templates: tuple[str, ...],
    epsilons: tuple[float, ...],
    as_json: bool,
) -> None:
    """How wrong the target gets when a text's digits are perturbed (CAPE-F).

    \b
    Examples:
      rootguard bench cape --out study
      rootguard bench cape --model model.gguf --cohort people --out study
      rootguard bench cape --template homa --epsilon 0.1 --epsilon 5 --out study
    """
    from rootguard.evaluation.cape import CAPE_COLUMNS, CAPE_EPSILONS, cape_sheets
    from rootguard.evaluation.study import tables
    from rootguard.evaluation.study.page import WARNING
    from rootguard.evaluation.study.rows import write_csv, write_text

    chosen = chosen_templates(templates)
    asked = tuple(Fraction(str(epsilon)) for epsilon in dict.fromkeys(epsilons)) or CAPE_EPSILONS
    rows, spoken = _run(model_path, directory, out, chosen, asked, patients=patients, seed=seed)
    sheets = cape_sheets(rows)
    warning = [f"**{WARNING}**"] if any(row.synthetic for row in rows) else []
    write_csv(out / "cape.csv", CAPE_COLUMNS, (row.fields() for row in rows))
    write_text(out / "cape_tables.md", "\n\n".join([*warning, *map(tables.to_markdown, sheets)]))
    if as_json:
        write_json(_as_json(rows, out, spoken))
        return
    to = console()
    if warning:
        to.print(WARNING, markup=False, style="bold red")
    for sheet in sheets[:1]:
        heads = [*sheet.header[:1], *(f">{head}" for head in sheet.header[1:])]
        to.print(table(sheet.title, heads, sheet.lines))
    to.print(f"look at {out / 'cape_tables.md'}", soft_wrap=True)


def _run(
    model_path: Path | None,
    directory: Path | None,
    out: Path,
    templates: tuple[Template, ...],
    epsilons: tuple[Fraction, ...],
    *,
    patients: int,
    seed: int,
) -> tuple[list["CapeRow"], int]:
    """Every row, and how often the model had to be asked."""
    import numpy as np
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from rootguard.evaluation.cape import (
        Cape,
        Contexts,
        cape_rows,
        digit_embeddings,
        digit_ids,
        similarities,
    )
    from rootguard.evaluation.cohorts import load_cohort
    from rootguard.evaluation.language_model import LocalModel
    from rootguard.evaluation.rq4_agent.patients import first

    cohorts = [first(load_cohort(each, directory, size=patients), patients) for each in templates]
    model = LocalModel(model_path, context=512)
    ids = digit_ids(model)
    similarity = similarities(digit_embeddings(model, ids))
    rows: list[CapeRow] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with (
        Contexts(
            out / "cape_contexts.jsonl", model.label, lambda text: np.array(model.among(text, ids))
        ) as contexts,
        Progress(*columns, console=console(stderr=True), transient=True) as bar,
    ):
        task = bar.add_task("digits", total=len(templates) * len(epsilons))
        for template, cohort in zip(templates, cohorts, strict=True):
            bar.update(task, description=template.name)
            found = cape_rows(
                Cape(contexts, similarity), template, cohort, epsilons, model=model.label, seed=seed
            )
            for row in found:
                rows.append(row)
                bar.advance(task)
        spoken = contexts.asked
    model.close()
    return rows, spoken


def _as_json(rows: list["CapeRow"], out: Path, spoken: int) -> dict[str, object]:
    from rootguard.evaluation.cape import PUBLISHED, cape_means, flatness

    means = cape_means(rows)
    return {
        "out": str(out),
        "model": rows[0].model,
        "synthetic": any(row.synthetic for row in rows),
        "asked_now": spoken,
        "published": {"least": PUBLISHED[0], "greatest": PUBLISHED[1]},
        "flatness": round(flatness(means), 3) if means else None,
        "means": [
            {
                "epsilon": float(mean.epsilon),
                "wmape": round(mean.wmape, 3),
                "wmape_se": round(mean.wmape_se, 3),
                "clamped_wmape": round(mean.clamped_wmape, 3),
                "kept": round(mean.kept, 3),
                "opt_wmape": None if mean.opt_wmape is None else round(mean.opt_wmape, 3),
            }
            for mean in means
        ],
    }
