"""Who is found: of the patients truly in a risk class, those whose released target is in it.

A good average can hide the sick, and the sick need not be in the last class. So every class of
every template is counted, under every configuration; `rq1_classes.csv` has a row for each, and the
table and the figure show the classes that their templates call worrying.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from rootguard.advice.drawing import legend_above
from rootguard.advice.utility import Configuration, Turns, UtilityCell
from rootguard.evaluation.metrics import Estimate
from rootguard.evaluation.rq1_utility.study import ClassFigure, UtilityRow
from rootguard.evaluation.study.plots import draw_line, panel_grid, plain_log
from rootguard.evaluation.study.rows import named, read_rows, write_rows
from rootguard.evaluation.study.tables import Sheet, with_error
from rootguard.template import Template
from rootguard.values import MechanismName

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILE = "rq1_classes.csv"
CAPTION = (
    "Who is found: of the patients truly in each worrying class, those whose released target is in "
    "it. Bars: one standard error."
)
# From little noise to much: where calibration begins to matter and where it decides.
SHOWN = tuple(Fraction(text) for text in ("0.1", "0.05", "0.02", "0.01"))


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassRow:
    """One line of the file: a cell, one of its template's classes, and how many are found."""

    budget: Turns
    epsilon: Fraction
    template: str
    mechanism: MechanismName
    config: Configuration
    label: str = field(metadata=named("class"))
    patients: int = field(metadata=named("n"))
    recall: float | None
    recall_se: float | None

    @property
    def cell(self) -> UtilityCell:
        """What the figure is about."""
        return UtilityCell.of(self)


def class_rows(rows: Iterable[UtilityRow]) -> list[ClassRow]:
    """A row for every class of every cell, in the order of the cells."""
    return [
        ClassRow(
            budget=row.cell.budget,
            epsilon=row.cell.epsilon,
            template=row.cell.template,
            mechanism=row.cell.mechanism,
            config=row.cell.config,
            label=one.label,
            patients=one.patients,
            recall=one.recall,
            recall_se=one.recall_se,
        )
        for row in rows
        for one in row.by_class
    ]


def write_classes(out: Path, rows: Iterable[UtilityRow]) -> None:
    """The file of all classes, whole or not at all."""
    write_rows(out / FILE, ClassRow, class_rows(rows))


def with_classes(
    out: Path, rows: Iterable[UtilityRow], templates: Iterable[Template]
) -> list[UtilityRow]:
    """Rows of an earlier run with the classes that it wrote; without those that it did not."""
    labels = {t.name: [risk.label for risk in t.risk] for t in templates}
    found: dict[UtilityCell, list[ClassFigure]] = {}
    for one in read_rows(out / FILE, ClassRow):
        figure = ClassFigure(
            label=one.label,
            patients=one.patients,
            recall=one.recall,
            recall_se=one.recall_se,
        )
        found.setdefault(one.cell, []).append(figure)
    whole = []
    for row in rows:
        figures = tuple(found.get(row.cell, ()))
        wanted = labels.get(row.cell.template, [])
        if [figure.label for figure in figures] == (wanted if len(wanted) > 1 else []):
            whole.append(replace(row, by_class=figures))
    return whole


_Line = tuple[str, str]
"""A template and the label of one of its worrying classes."""


def _worrying(
    rows: Sequence[UtilityRow],
    templates: Iterable[Template],
    *,
    budget: Turns,
    mechanism: MechanismName,
) -> dict[_Line, dict[tuple[Fraction, Configuration], ClassFigure]]:
    """The figures of each worrying class in which there is anybody."""
    marked = {(t.name, risk.label) for t in templates for risk in t.risk if risk.worrying}
    found: dict[_Line, dict[tuple[Fraction, Configuration], ClassFigure]] = {}
    for row in rows:
        cell = row.cell
        if (cell.budget, cell.mechanism) != (budget, mechanism):
            continue
        for one in row.by_class:
            if (cell.template, one.label) in marked and one.recall is not None:
                line = found.setdefault((cell.template, one.label), {})
                line[cell.epsilon, cell.config] = one
    return found


def class_sheet(
    rows: Sequence[UtilityRow],
    templates: Sequence[Template],
    configs: Sequence[Configuration],
    *,
    budget: Turns,
    mechanism: MechanismName,
) -> Sheet:
    """Each worrying class: how many are in it, and how many are found, by configuration."""
    found = _worrying(rows, templates, budget=budget, mechanism=mechanism)
    epsilons = [e for e in SHOWN if any((e, c) in line for line in found.values() for c in configs)]
    lines = []
    for (template, label), line in found.items():
        texts = []
        for epsilon in epsilons:
            for config in configs:
                one = line.get((epsilon, config))
                known = one is not None and one.recall is not None and one.recall_se is not None
                texts.append(
                    with_error(one.recall, one.recall_se)  # type: ignore[arg-type, union-attr]
                    if known
                    else "–"
                )
        patients = next(iter(line.values())).patients
        lines.append((template.upper(), label, str(patients), *texts))
    return Sheet(
        title=f"Found in each worrying class (%), {mechanism}, B = ({budget})ε",
        header=(
            "template",
            "class",
            "n",
            *(f"{float(e):g} {c}" for e in epsilons for c in configs),
        ),
        lines=tuple(lines),
        note="± bootstrap standard error over patients. Columns: ε and configuration.",
        labels=2,
    )


def class_figure(
    rows: Sequence[UtilityRow],
    templates: Sequence[Template],
    configs: Sequence[Configuration],
    *,
    budget: Turns,
    mechanism: MechanismName,
    synthetic: bool,
) -> "Figure | None":
    """A panel per worrying class: the share that is found, over epsilon."""
    found = _worrying(rows, templates, budget=budget, mechanism=mechanism)
    if not found:
        return None
    figure, panels, lowest = panel_grid(len(found), 4, (0.7, 1.55), synthetic=synthetic, x=True)
    for axes, ((template, label), line) in zip(panels, found.items(), strict=True):
        for config in configs:
            path = sorted((e, one) for (e, c), one in line.items() if c == config)
            estimates: Mapping[float, Estimate] = {
                float(e): Estimate(value=one.recall, se=one.recall_se or 0.0, monte_carlo=None)
                for e, one in path
                if one.recall is not None
            }
            if estimates:
                draw_line(axes, list(estimates), list(estimates.values()), config, markersize=2.8)
        plain_log(axes, "x", (0.01, 0.1, 1))
        people = next(iter(line.values())).patients
        axes.set_title(f"{template.upper()}: {label} ({people})", fontsize=6)
    for axes in lowest:
        axes.set_xlabel("ε per grid step")
        axes.tick_params(labelbottom=True)
    figure.supylabel(f"found (%), {mechanism}, B = ({budget})ε", fontsize=7.5)
    legend_above(figure, panels, 3)
    return figure
