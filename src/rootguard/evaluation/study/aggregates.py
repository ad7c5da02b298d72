"""Rows kept as CSV, and their means over templates in the shape of the published files.

`rq1.csv` is also what a run resumes from, so it is written whole or not at all and reads back as
the rows it was made of. Aggregates are means over templates with the paper's propagated standard
error; where some template has no figure there is no mean, rather than one over fewer templates.
"""

import csv
import io
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Literal

from rootguard.evaluation.metrics import mean_se, wins
from rootguard.evaluation.rq1_utility.study import (
    CONFIGURATIONS,
    PAPER_MECHANISMS,
    TURNS,
    Cell,
    Configuration,
    Row,
    Turns,
)
from rootguard.mechanisms import mechanism_named
from rootguard.values import MechanismName

Measure = Literal["wmape", "rce", "sensitivity"]
"""What a row tells of its cell. The paper has the first two; of the third, more is better."""
MEASURES: tuple[Measure, ...] = ("wmape", "rce", "sensitivity")
MEDIAN = "population median"
"""What the figure is called that needs no release: see `Row.median_wmape`."""
ROW_COLUMNS = (
    "budget", "epsilon", "template", "mechanism", "config", "wmape", "wmape_se", "rce", "rce_se",
    "sensitivity", "sensitivity_se", "wmape_mc_se", "rce_mc_se", "sensitivity_mc_se",
    "median_wmape", "k", "patients", "template_hash", "plan_hash", "cohort_digest",
    "synthetic", "seed", "repeats", "version", "error",
)  # fmt: skip


def epsilon_text(epsilon: Fraction) -> str:
    """As the published tables write it: 0.005, 5.0."""
    return repr(float(epsilon))


def write_text(path: Path, text: str) -> None:
    """The whole file or nothing: a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A CSV file; None is an empty field, and a number is written so that it reads back equal."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(path, text.getvalue())


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """`rq1.csv`: a line per cell, figures first, then what they came from."""
    write_csv(path, ROW_COLUMNS, (_fields(row) for row in rows))


def _fields(row: Row) -> tuple[object, ...]:
    cell = row.cell
    return (
        cell.budget, epsilon_text(cell.epsilon), cell.template, cell.mechanism, cell.config,
        row.wmape, row.wmape_se, row.rce, row.rce_se, row.sensitivity,
        row.sensitivity_se, row.wmape_mc, row.rce_mc, row.sensitivity_mc, row.median_wmape,
        row.roots, row.patients, row.template_hash, row.plan_hash, row.cohort,
        str(row.synthetic).lower(), row.seed, row.repeats, row.version, row.error,
    )  # fmt: skip


def read_rows(path: Path) -> dict[Cell, Row]:
    """The rows of an earlier run by cell; none where the file is absent or is not one of ours."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ()) != ROW_COLUMNS:
                return {}
            found = [_row(fields) for fields in reader]
    except (OSError, ValueError, csv.Error):
        return {}
    return {row.cell: row for row in found if row is not None}


def _row(fields: Mapping[str, str]) -> Row | None:
    """A row read back; None for a line that is not one, which is then computed again."""
    budgets: list[Turns] = [name for name in TURNS if name == fields["budget"]]
    configs: list[Configuration] = [name for name in CONFIGURATIONS if name == fields["config"]]
    if not (budgets and configs) or None in fields.values():
        return None
    figures = {name: float(fields[name]) if fields[name] else None for name in ROW_COLUMNS[5:15]}
    return Row(
        cell=Cell(
            budget=budgets[0],
            epsilon=Fraction(fields["epsilon"]),
            template=fields["template"],
            mechanism=mechanism_named(fields["mechanism"]),
            config=configs[0],
        ),
        wmape=figures["wmape"],
        wmape_se=figures["wmape_se"],
        rce=figures["rce"],
        rce_se=figures["rce_se"],
        wmape_mc=figures["wmape_mc_se"],
        rce_mc=figures["rce_mc_se"],
        sensitivity=figures["sensitivity"],
        sensitivity_se=figures["sensitivity_se"],
        sensitivity_mc=figures["sensitivity_mc_se"],
        median_wmape=figures["median_wmape"],
        roots=int(fields["k"]),
        patients=int(fields["patients"]),
        template_hash=fields["template_hash"],
        plan_hash=fields["plan_hash"],
        cohort=fields["cohort_digest"],
        synthetic=fields["synthetic"] == "true",
        seed=int(fields["seed"]),
        repeats=int(fields["repeats"]),
        version=fields["version"],
        error=fields["error"],
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Aggregate:
    """A mean over templates. `monte_carlo` is the part of the error that repeats would remove."""

    budget: Turns
    epsilon: Fraction
    mechanism: MechanismName
    config: Configuration
    value: float
    se: float
    monte_carlo: float | None


AggregateKey = tuple[Turns, Fraction, MechanismName, Configuration]


def figure(row: Row, measure: Measure) -> tuple[float, float, float | None] | None:
    """A row's value, standard error and Monte Carlo error; None where it has no such figure."""
    value, se, spread = {
        "wmape": (row.wmape, row.wmape_se, row.wmape_mc),
        "rce": (row.rce, row.rce_se, row.rce_mc),
        "sensitivity": (row.sensitivity, row.sensitivity_se, row.sensitivity_mc),
    }[measure]
    return None if value is None or se is None else (value, se, spread)


def population_medians(rows: Iterable[Row]) -> dict[str, float]:
    """By template, the wMAPE of answering everybody with the population's median target."""
    return {
        row.cell.template: row.median_wmape
        for row in rows
        if row.wmape is not None and row.median_wmape is not None
    }


def mean_population_median(rows: Sequence[Row]) -> float | None:
    """The mean over the templates that were measured; None where one of them has no median."""
    found = population_medians(rows)
    measured = {row.cell.template for row in rows if row.wmape is not None}
    return sum(found.values()) / len(found) if found and found.keys() == measured else None


def aggregates(
    rows: Iterable[Row], measure: Measure, *, weights: Mapping[str, float] | None = None
) -> dict[AggregateKey, Aggregate]:
    """Means over templates of a figure, each first multiplied by its template's weight if given.

    A template without a single such figure (no risk classes, or no cohort) has no part in them.
    """
    rows = list(rows)
    taking_part = {row.cell.template for row in rows if figure(row, measure) is not None}
    groups: dict[AggregateKey, dict[str, tuple[float, float, float | None]]] = {}
    for row in rows:
        found = figure(row, measure)
        if found is not None:
            cell = row.cell
            key = (cell.budget, cell.epsilon, cell.mechanism, cell.config)
            weight = (weights or {}).get(cell.template, 1.0)
            value, se, spread = found
            scaled = (weight * value, weight * se, None if spread is None else weight * spread)
            groups.setdefault(key, {})[cell.template] = scaled
    return {
        key: _mean(key, list(figures.values()))
        for key, figures in groups.items()
        if figures.keys() == taking_part
    }


def _mean(key: AggregateKey, figures: list[tuple[float, float, float | None]]) -> Aggregate:
    budget, epsilon, name, config = key
    spreads = [spread for _, _, spread in figures if spread is not None]
    return Aggregate(
        budget=budget,
        epsilon=epsilon,
        mechanism=name,
        config=config,
        value=sum(value for value, _, _ in figures) / len(figures),
        se=mean_se(se for _, se, _ in figures),
        monte_carlo=mean_se(spreads) if len(spreads) == len(figures) else None,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Wins:
    """In how many pairs (mechanism, epsilon) opt has a lower wMAPE than all."""

    template: str
    roots: int
    counts: Mapping[Turns, int]
    pairs: int


def win_mechanisms(rows: Iterable[Row]) -> tuple[MechanismName, ...]:
    """The paper's mechanisms where all of them ran, so that counts compare; else all that ran."""
    ran = tuple(dict.fromkeys(row.cell.mechanism for row in rows))
    return PAPER_MECHANISMS if set(PAPER_MECHANISMS) <= set(ran) else ran


def win_rates(rows: Iterable[Row]) -> tuple[Wins, ...]:
    """One per template, in the order of the rows."""
    rows = list(rows)
    mechanisms = win_mechanisms(rows)
    found = {row.cell: row.wmape for row in rows if row.cell.mechanism in mechanisms}
    roots = {row.cell.template: row.roots for row in rows}
    results = []
    for template, count in roots.items():
        pairs: dict[Turns, list[tuple[float, float]]] = {budget: [] for budget in TURNS}
        for cell, value in found.items():
            if cell.template != template or cell.config != "opt":
                continue
            other = found.get(replace(cell, config="all"))
            if value is not None and other is not None:
                pairs[cell.budget].append((value, other))
        counts = {budget: wins(pairs[budget]) for budget in TURNS}
        most = max(len(pairs[budget]) for budget in TURNS)
        results.append(Wins(template=template, roots=count, counts=counts, pairs=most))
    return tuple(results)


def write_aggregates(folder: Path, rows: Sequence[Row]) -> None:
    """The published files' shape, with our figures: `rq1_wmape.csv` and its siblings."""
    for measure in MEASURES:
        means = aggregates(rows, measure).values()
        write_csv(
            folder / f"rq1_{measure}.csv",
            ("budget", "epsilon", "mechanism", "config", measure, "se"),
            (
                (
                    m.budget,
                    epsilon_text(m.epsilon),
                    m.mechanism,
                    m.config,
                    _six(m.value),
                    _six(m.se),
                )
                for m in sorted(means, key=lambda m: _rank(m.budget, m.epsilon))
            ),
        )
        write_csv(
            folder / f"rq1_template_{measure}.csv",
            ("budget", "epsilon", "template", "mechanism", "config", measure, "se"),
            (
                (
                    c.budget,
                    epsilon_text(c.epsilon),
                    c.template.upper(),
                    c.mechanism,
                    c.config,
                    *f[:2],
                )
                for row in sorted(rows, key=lambda r: _rank(r.cell.budget, r.cell.epsilon))
                for c in (row.cell,)
                for f in (figure(row, measure),)
                if f is not None
            ),
        )
    write_csv(
        folder / "rq1_population_median.csv",
        ("template", "wmape"),
        ((template.upper(), value) for template, value in population_medians(rows).items()),
    )
    write_csv(
        folder / "rq1_win_rate.csv",
        ("template", "k", *TURNS, "pairs"),
        ((w.template.upper(), w.roots, *w.counts.values(), w.pairs) for w in win_rates(rows)),
    )


def _six(value: float) -> float:
    return round(value, 6)


def _rank(budget: Turns, epsilon: Fraction) -> tuple[int, Fraction]:
    """Budgets upwards, then epsilons downwards, as the paper prints them."""
    return TURNS[budget], -epsilon
