"""`rootguard bench rq1`, `rq3` and `all`: the utility study and the structural analysis as one.

They share their directory, their tables and their page, because the regimes and gains of the
second are measured by the first. `rq1.csv` is written while the study runs, and a run that was
stopped goes on from it; the rest comes at the end.
"""

from dataclasses import dataclass
from pathlib import Path

from rootguard.advice.people import Cohort
from rootguard.advice.utility import CALIBRATED, Configuration
from rootguard.evaluation.cohorts import load_cohort
from rootguard.evaluation.rq1_utility.claims import (
    COLUMNS,
    Comparison,
    compare,
    comparison_lines,
    comparison_sheets,
)
from rootguard.evaluation.rq1_utility.classes import (
    CAPTION,
    class_figure,
    class_sheet,
    with_classes,
    write_classes,
)
from rootguard.evaluation.rq1_utility.figures import UTILITY_CAPTIONS, rq1_figures
from rootguard.evaluation.rq1_utility.means import (
    MEASURES,
    aggregate_files,
    aggregates,
    mean_population_median,
    rq1_sheets,
)
from rootguard.evaluation.rq1_utility.study import DIGITS, MEDIAN, Sweep, UtilityRow
from rootguard.evaluation.rq3_structure import (
    FOCUS,
    FOCUS_BUDGET,
    STRUCTURE_CAPTIONS,
    Centre,
    Structure,
    analyse,
    focus_sweep,
    gain_mechanism,
    gain_sweep,
    rq3_figures,
    rq3_sheets,
)
from rootguard.evaluation.study import runner
from rootguard.evaluation.study.comparison import counts_sheet
from rootguard.evaluation.study.page import Findings, Section
from rootguard.evaluation.study.rows import CsvTable, read_rows
from rootguard.evaluation.study.tables import Sheet, filled
from rootguard.template import Template

TITLE = "RootGuard: the utility study"


@dataclass(frozen=True, kw_only=True, slots=True)
class UtilityStudy:
    """RQ1, RQ3 or both, on the people in a directory or on synthetic ones."""

    sweep: Sweep
    templates: tuple[Template, ...]
    directory: Path | None = None
    utility: bool = True
    structure: bool = True
    centre: Centre = "point"

    def run(self, out: Path, progress: runner.Progress) -> Findings:
        rows = self._kept(out / "rq1.csv", progress) if self.utility else []
        found = None
        if self.structure:
            known = {row.cell: row for row in rows}
            for needed in (focus_sweep(self.sweep), gain_sweep(self.sweep)):
                more = runner.gather(
                    needed.run(self.templates, self._load, done=known),
                    len(needed) * len(self.templates),
                    _label,
                    progress=progress,
                )
                known |= {row.cell: row for row in more}
            found = analyse(self.templates, self.sweep, known.values(), centre=self.centre)
        laws = found.laws if found else ()
        comparison = compare(rows, laws) if self.utility else None
        return self._findings(rows, found, comparison, out)

    def _load(self, template: Template) -> Cohort:
        return load_cohort(template, self.directory)

    def _kept(self, path: Path, progress: runner.Progress) -> list[UtilityRow]:
        kept = with_classes(path.parent, read_rows(path, UtilityRow), self.templates)
        known = {row.cell: row for row in kept}
        return runner.gather(
            self.sweep.run(self.templates, self._load, done=known),
            len(self.sweep) * len(self.templates),
            _label,
            progress=progress,
            resumption=runner.Resumption(
                path=path,
                kind=UtilityRow,
                known=known,
                key=lambda row: row.cell,
                every=len(self.sweep) // len(self.sweep.mechanisms),
                beside=lambda rows: write_classes(path.parent, rows),
            ),
        )

    def _findings(
        self,
        rows: list[UtilityRow],
        found: Structure | None,
        comparison: Comparison | None,
        out: Path,
    ) -> Findings:
        measured = rows or list(found.measured if found else ())
        synthetic = any(row.synthetic for row in measured)
        files: dict[str, CsvTable] = {}
        sections = []
        if comparison is not None:
            files["comparison.csv"] = (COLUMNS, comparison_lines(comparison))
        if rows:
            files |= aggregate_files(rows)
            sections.append(
                Section(
                    title="Utility (RQ1)",
                    sheets=(*rq1_sheets(rows, focus=FOCUS), *filled([self._found(rows)])),
                    drawings={
                        **rq1_figures(rows),
                        "classes": lambda: class_figure(
                            rows,
                            self.templates,
                            self._beside,
                            budget=FOCUS_BUDGET,
                            mechanism=gain_mechanism(self.sweep.mechanisms),
                            synthetic=synthetic,
                        ),
                    },
                    captions={**UTILITY_CAPTIONS, "classes": CAPTION},
                    narrow=frozenset({"double_asymmetry"}),
                )
            )
        if found is not None:
            files |= found.files
            sections.append(
                Section(
                    title="Structure (RQ3)",
                    sheets=rq3_sheets(found),
                    drawings=rq3_figures(found),
                    captions=STRUCTURE_CAPTIONS,
                )
            )
        counts = comparison.counts if comparison else {}
        unlike = ", whose cohort is not this one" if synthetic else ""
        failed = runner.failures(measured)
        laws = found.laws if found else ()
        return Findings(
            synthetic=synthetic,
            files=files,
            sections=sections,
            title=TITLE,
            facts=runner.sweep_facts(self.sweep, measured, self.templates, self.directory),
            beside=None if comparison is None else comparison_sheets(comparison),
            failures=failed,
            bold_warning=False,
            shown=(
                counts_sheet(f"beside the paper{unlike}", counts),
                *([self._accuracy(rows)] if rows else ()),
            ),
            said=(
                *(
                    f"power law, {law.mechanism}, epsilon {float(law.epsilon):g}: "
                    f"slope {law.slope:.3f}"
                    for law in laws
                ),
                *(f"failed: {failure}" for failure in failed),
                f"{len(measured)} cells; look at {out / 'report.html'}",
            ),
            document={
                **runner.sweep_document(measured, counts),
                "means": _means(rows),
                "slopes": [
                    {"mechanism": law.mechanism, "epsilon": float(law.epsilon), "slope": law.slope}
                    for law in laws
                ],
            },
            lists=("*",),
            failed=all(row.error for row in measured),
        )

    @property
    def _beside(self) -> tuple[Configuration, ...]:
        """What is shown class by class: what calibration changes, or else all that ran."""
        ran = self.sweep.configurations
        return tuple(c for c in ("opt", *CALIBRATED) if c in ran) or ran

    def _found(self, rows: list[UtilityRow]) -> Sheet:
        return class_sheet(
            rows,
            self.templates,
            self._beside,
            budget=FOCUS_BUDGET,
            mechanism=gain_mechanism(self.sweep.mechanisms),
        )

    def _accuracy(self, rows: list[UtilityRow]) -> Sheet:
        """The mean error of each configuration, for the terminal."""
        means = aggregates(rows, "wmape")
        name, configs = gain_mechanism(self.sweep.mechanisms), self.sweep.configurations
        middle = mean_population_median(rows)
        lines = []
        for epsilon in sorted(self.sweep.epsilons, reverse=True):
            found = [means.get((FOCUS_BUDGET, epsilon, name, config)) for config in configs]
            texts = ["–" if mean is None else f"{mean.value:.2f}" for mean in found]
            median = "–" if middle is None else f"{middle:.2f}"
            lines.append((f"{float(epsilon):g}", *texts, median))
        return Sheet(
            title=f"wMAPE (%), {name}, B = ({FOCUS_BUDGET}) epsilon",
            header=("epsilon", *configs, MEDIAN),
            lines=tuple(lines),
        )


def _label(row: UtilityRow) -> str:
    return f"{row.cell.template} {row.cell.mechanism}"


def _means(rows: list[UtilityRow]) -> list[dict[str, object]]:
    """Every mean over templates, and the population's median beside them."""
    found: dict[tuple[object, ...], dict[str, object]] = {}
    for measure in MEASURES:
        for key, mean in aggregates(rows, measure).items():
            budget, epsilon, name, config = key
            about: dict[str, object] = {
                "budget": budget,
                "epsilon": float(epsilon),
                "mechanism": name,
                "config": config,
            }
            found.setdefault(key, about)[measure] = round(mean.value, DIGITS)
    middle = mean_population_median(rows)
    alone = [] if middle is None else [{"config": MEDIAN, "wmape": round(middle, DIGITS)}]
    return [*found.values(), *alone]
