"""The utility study's means over templates: as the published files have them, and as tables.

A mean has the paper's propagated standard error; where some template has no figure there is no
mean, rather than one over fewer templates.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from rootguard.advice.utility import CONFIGURATIONS, TURNS, Configuration, Turns
from rootguard.evaluation.metrics import Estimate, mean_estimate, wins
from rootguard.evaluation.rq1_utility.study import DIGITS, MEDIAN, PAPER_MECHANISMS, UtilityRow
from rootguard.evaluation.study.rows import CsvTable, epsilon_text
from rootguard.evaluation.study.tables import Sheet, Strong, filled
from rootguard.values import MechanismName

Measure = Literal["wmape", "rce", "sensitivity"]
"""What a row tells of its cell. The paper has the first two; of the third, more is better."""
MEASURES: tuple[Measure, ...] = ("wmape", "rce", "sensitivity")
SHORT: Mapping[MechanismName, str] = {
    "exponential": "Exp",
    "laplace": "BLap",
    "staircase": "Stair",
    "geometric": "Geom",
}
"""The paper's short names, so that twelve columns fit a page."""
_SHORT_CONFIGS: Mapping[Configuration, str] = {"calibrated": "cal", "population": "pop"}
METRIC_NAMES: Mapping[Measure, str] = {
    "wmape": "wMAPE",
    "rce": "risk class error",
    "sensitivity": "sensitivity for the highest risk class",
}
AggregateKey = tuple[Turns, Fraction, MechanismName, Configuration]


def estimate(row: UtilityRow, measure: Measure) -> Estimate | None:
    """A figure of a row; None where it has no such figure."""
    value, se = getattr(row, measure), getattr(row, f"{measure}_se")
    if value is None or se is None:
        return None
    return Estimate(value=value, se=se, monte_carlo=getattr(row, f"{measure}_mc"))


def population_medians(rows: Iterable[UtilityRow]) -> dict[str, float]:
    """By template, the wMAPE of answering everybody with the population's median target."""
    return {
        row.cell.template: row.median_wmape
        for row in rows
        if row.wmape is not None and row.median_wmape is not None
    }


def mean_population_median(rows: Sequence[UtilityRow]) -> float | None:
    """The mean over the templates that were measured; None where one of them has no median."""
    found = population_medians(rows)
    measured = {row.cell.template for row in rows if row.wmape is not None}
    return sum(found.values()) / len(found) if found and found.keys() == measured else None


def aggregates(
    rows: Iterable[UtilityRow], measure: Measure, *, weights: Mapping[str, float] | None = None
) -> dict[AggregateKey, Estimate]:
    """Means over templates of a figure, each first multiplied by its template's weight if given.

    A template without a single such figure (no risk classes, or no cohort) has no part in them.
    """
    groups: dict[AggregateKey, dict[str, Estimate]] = {}
    for row in rows:
        found = estimate(row, measure)
        if found is not None:
            cell = row.cell
            key = (cell.budget, cell.epsilon, cell.mechanism, cell.config)
            weight = (weights or {}).get(cell.template, 1.0)
            groups.setdefault(key, {})[cell.template] = scaled(found, weight)
    taking_part = {template for members in groups.values() for template in members}
    return {
        key: mean_estimate(list(members.values()))
        for key, members in groups.items()
        if members.keys() == taking_part
    }


def scaled(found: Estimate, by: float) -> Estimate:
    """So many times a figure, with its errors."""
    spread = found.monte_carlo
    return Estimate(
        value=by * found.value,
        se=by * found.se,
        monte_carlo=None if spread is None else by * spread,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Wins:
    """In how many pairs (mechanism, epsilon) opt has a lower wMAPE than all."""

    template: str
    roots: int
    counts: Mapping[Turns, int]
    pairs: int


def win_mechanisms(rows: Iterable[UtilityRow]) -> tuple[MechanismName, ...]:
    """The paper's mechanisms where all of them ran, so that counts compare; else all that ran."""
    ran = tuple(dict.fromkeys(row.cell.mechanism for row in rows))
    return PAPER_MECHANISMS if set(PAPER_MECHANISMS) <= set(ran) else ran


def win_rates(rows: Iterable[UtilityRow]) -> tuple[Wins, ...]:
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


def aggregate_files(rows: Sequence[UtilityRow]) -> dict[str, CsvTable]:
    """The published files' shape, with our figures: `rq1_wmape.csv` and its siblings."""
    files: dict[str, CsvTable] = {}
    for measure in MEASURES:
        means = sorted(aggregates(rows, measure).items(), key=lambda item: _rank(*item[0][:2]))
        files[f"rq1_{measure}.csv"] = (
            ("budget", "epsilon", "mechanism", "config", measure, "se"),
            [
                (budget, epsilon_text(epsilon), name, config,
                 round(mean.value, DIGITS), round(mean.se, DIGITS))
                for (budget, epsilon, name, config), mean in means
            ],
        )  # fmt: skip
        files[f"rq1_template_{measure}.csv"] = (
            ("budget", "epsilon", "template", "mechanism", "config", measure, "se"),
            [
                (c.budget, epsilon_text(c.epsilon), c.template.upper(), c.mechanism, c.config,
                 found.value, found.se)
                for row in sorted(rows, key=lambda r: _rank(r.cell.budget, r.cell.epsilon))
                for c in (row.cell,)
                if (found := estimate(row, measure)) is not None
            ],
        )  # fmt: skip
    medians = population_medians(rows).items()
    files["rq1_population_median.csv"] = (
        ("template", "wmape"),
        [(template.upper(), value) for template, value in medians],
    )
    files["rq1_win_rate.csv"] = (
        ("template", "k", *TURNS, "pairs"),
        [(w.template.upper(), w.roots, *w.counts.values(), w.pairs) for w in win_rates(rows)],
    )
    return files


def _rank(budget: Turns, epsilon: Fraction) -> tuple[int, Fraction]:
    """Budgets upwards, then epsilons downwards, as the paper prints them."""
    return TURNS[budget], -epsilon


def rq1_sheets(rows: Sequence[UtilityRow], *, focus: Fraction) -> tuple[Sheet, ...]:
    """Aggregates per budget, each template at the epsilon in focus, and the win rates."""
    columns = _columns(rows)
    sheets = []
    for measure in MEASURES:
        title, means = METRIC_NAMES[measure], aggregates(rows, measure)
        measured = {row.cell.template for row in rows if estimate(row, measure) is not None}
        many = f"mean of {', '.join(sorted(measured))}"
        medians = population_medians(rows) if measure == "wmape" else {}
        middle = mean_population_median(rows) if measure == "wmape" else None
        for budget in TURNS:
            whole = {
                (epsilon_text(epsilon), name, config): mean
                for (turns, epsilon, name, config), mean in sorted(
                    means.items(), key=lambda item: -item[0][1]
                )
                if turns == budget
            }
            each = {
                (row.cell.template.upper(), row.cell.mechanism, row.cell.config): found
                for row in rows
                if row.cell.budget == budget and row.cell.epsilon == focus
                if (found := estimate(row, measure)) is not None
            }
            heading = f"{title} (%), {many}, B = ({budget})ε"
            beside = {} if middle is None else {key[0]: middle for key in whole}
            sheets.append(_grid(heading, "ε", columns, whole, measure, beside))
            heading = f"{title} (%) per template, ε = {epsilon_text(focus)}, B = ({budget})ε"
            beside = {template.upper(): value for template, value in medians.items()}
            sheets.append(_grid(heading, "template", columns, each, measure, beside))
    sheets.append(
        Sheet(
            title="Win rate of opt over all: pairs (mechanism, ε) with the lower wMAPE",
            header=("template", "k", *TURNS, "of"),
            lines=tuple(
                (w.template.upper(), str(w.roots), *map(str, w.counts.values()), str(w.pairs))
                for w in win_rates(rows)
            ),
            note=f"Mechanisms counted: {', '.join(win_mechanisms(rows))}.",
        )
    )
    return filled(sheets)


_Column = tuple[MechanismName, Configuration]


def _columns(rows: Sequence[UtilityRow]) -> tuple[_Column, ...]:
    """The mechanisms and configurations that ran, mechanisms in the order of the rows."""
    ran = dict.fromkeys((row.cell.mechanism, row.cell.config) for row in rows)
    mechanisms = dict.fromkeys(name for name, _ in ran)
    return tuple(
        (name, config) for name in mechanisms for config in CONFIGURATIONS if (name, config) in ran
    )


def _grid(
    title: str,
    corner: str,
    columns: Sequence[_Column],
    found: Mapping[tuple[str, MechanismName, Configuration], Estimate],
    measure: Measure,
    medians: Mapping[str, float],
) -> Sheet:
    """Mechanisms by configurations across, then the median; the best of each line in bold."""
    choose = max if measure == "sensitivity" else min
    made = []
    for line in dict.fromkeys(key[0] for key in found):
        cells = [found.get((line, *column)) for column in columns]
        values = [float(_plain(cell.value)) for cell in cells if cell is not None]
        if line in medians:
            values.append(float(_plain(medians[line])))
        best = choose(values)
        texts = [_estimate_text(cell, best=best) for cell in cells]
        if medians:
            texts.append(_marked(medians[line], best=best) if line in medians else "–")
        made.append((line, *texts))
    names = (f"{SHORT[name]} {_SHORT_CONFIGS.get(config, config)}" for name, config in columns)
    note = (
        "± bootstrap standard error over patients; best of each line in bold. Exp, BLap, "
        "Stair, Geom: exponential, bounded Laplace, staircase and geometric noise."
    )
    if any(config in _SHORT_CONFIGS for _, config in columns):
        note += " cal: opt, calibrated. pop: the population plan, calibrated."
    if medians:
        note += " The population median is the answer that needs no release."
    return Sheet(
        title=title,
        header=(corner, *names, *([MEDIAN] if medians else [])),
        lines=tuple(made),
        note=note,
    )


def _plain(value: float) -> str:
    """As the paper prints it: one decimal, whole from 100 on."""
    return f"{value:.{0 if value >= 100 else 1}f}"


def _estimate_text(cell: Estimate | None, *, best: float) -> str:
    if cell is None:
        return "–"
    return _marked(cell.value, best=best, more=f" ± {cell.se:.1f}")


def _marked(value: float, *, best: float, more: str = "") -> str:
    text = _plain(value) + more
    return Strong(text) if float(_plain(value)) == best else text
