"""What a study leaves in its directory: rows, aggregates, tables, figures, comparison, report.

Everything follows from the results, so equal results give equal bytes. `rq1.csv` itself is written
while the study runs; the rest comes from here, at its end.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from rootguard import __version__
from rootguard.evaluation import rq3_structure_plots as structure_plots
from rootguard.evaluation.rq1_utility.claims import (
    COLUMNS,
    Comparison,
    comparison_lines,
    comparison_sheets,
)
from rootguard.evaluation.rq1_utility.study import SEARCHED, Row, Sweep
from rootguard.evaluation.rq3_structure import (
    FOCUS,
    FOCUS_BUDGET,
    Amplification,
    Gain,
    PowerLaw,
    Regime,
    RootShare,
    amplifications,
    gains,
    power_law,
    regimes,
    root_shares,
)
from rootguard.evaluation.study import plots, tables
from rootguard.evaluation.study.aggregates import (
    MEDIAN,
    epsilon_text,
    write_aggregates,
    write_csv,
    write_text,
)
from rootguard.evaluation.study.page import WARNING, Section, report
from rootguard.template import Template
from rootguard.values import MechanismName

LAW_EPSILONS = (FOCUS, Fraction(1, 2), Fraction(1))
"""Where the power law is fitted: the paper gives slopes at 0.1 and 0.5 and plots at 0.1 and 1."""
TITLE = "RootGuard: the utility study"


@dataclass(frozen=True, kw_only=True, slots=True)
class Structure:
    """What RQ3 found. `measured` are the rows that the regimes and gains rest on."""

    shares: tuple[RootShare, ...]
    laws: tuple[PowerLaw, ...]
    regimes: tuple[Regime, ...]
    amplified: tuple[Amplification, ...]
    gains: tuple[Gain, ...]
    measured: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Results:
    """A finished study. `rows` is empty without RQ1, `structure` is None without RQ3."""

    source: str
    templates: tuple[Template, ...]
    sweep: Sweep
    rows: tuple[Row, ...]
    structure: Structure | None
    comparison: Comparison | None

    @property
    def measured(self) -> tuple[Row, ...]:
        """Every row that rests on patients."""
        return self.rows or (self.structure.measured if self.structure else ())

    @property
    def synthetic(self) -> bool:
        """Whether any of the patients were made up."""
        return any(row.synthetic for row in self.measured)

    @property
    def failures(self) -> tuple[str, ...]:
        """Each template's errors, with how many cells they cost."""
        counts: dict[str, int] = {}
        for row in self.measured:
            if row.error:
                text = f"{row.cell.template}: {row.error}"
                counts[text] = counts.get(text, 0) + 1
        return tuple(f"{text} ({count} cells)" for text, count in counts.items())

    @property
    def facts(self) -> dict[str, str]:
        """What was run."""
        people = sorted({row.patients for row in self.measured if row.patients})
        failed = sum(bool(row.error) for row in self.measured)
        return {
            "cohort": self.source + (" (SYNTHETIC)" if self.synthetic else ""),
            "patients per template": ", ".join(map(str, people)) or "none",
            "templates": ", ".join(template.name for template in self.templates),
            "mechanisms": ", ".join(self.sweep.mechanisms),
            "configurations": ", ".join(self.sweep.configurations),
            "repeats": str(self.sweep.repeats),
            "seed": str(self.sweep.seed),
            "version": __version__,
            "cells": f"{len(self.measured)}, {failed} of them failed",
        }


def focus_sweep(sweep: Sweep) -> Sweep:
    """The cells that the paper sorts templates by."""
    return Sweep(
        seed=sweep.seed,
        repeats=sweep.repeats,
        mechanisms=("exponential",),
        epsilons=(FOCUS,),
        budgets=(FOCUS_BUDGET,),
        configurations=("all", "opt"),
    )


def gain_sweep(sweep: Sweep) -> Sweep:
    """The cells that tell what each step gains: every configuration of one mechanism."""
    return replace(
        sweep,
        mechanisms=(gain_mechanism(sweep.mechanisms),),
        epsilons=(FOCUS,),
        budgets=(FOCUS_BUDGET,),
    )


def gain_mechanism(mechanisms: Sequence[MechanismName]) -> MechanismName:
    """The default mechanism, whose population plans are searched for, or the first that runs."""
    return next((name for name in SEARCHED if name in mechanisms), mechanisms[0])


def analyse(templates: Sequence[Template], sweep: Sweep, measured: Iterable[Row]) -> Structure:
    """RQ3. `measured` must hold the cells of `focus_sweep` for the regimes to be known.

    Those of `gain_sweep` tell the gains. Shares of population plans are shown at the focus alone.
    """
    rows, mechanisms = tuple(measured), sweep.mechanisms
    shares = {
        (epsilon, name): tuple(
            share
            for template in templates
            for share in root_shares(template, name, epsilon, FOCUS_BUDGET)
        )
        for epsilon in LAW_EPSILONS
        for name in mechanisms
    }
    searched = [m for m in mechanisms if m in sweep.searched]
    population = [
        share
        for name in (searched if "population" in sweep.configurations else ())
        for template in templates
        for share in root_shares(template, name, FOCUS, FOCUS_BUDGET, "population")
    ]
    laws = (power_law(members) for members in shares.values())
    return Structure(
        shares=(*(share for members in shares.values() for share in members), *population),
        laws=tuple(law for law in laws if law is not None),
        regimes=regimes(templates, rows),
        amplified=tuple(a for template in templates for a in amplifications(template)),
        gains=gains(rows, gain_mechanism(mechanisms)),
        measured=rows,
    )


def write_outputs(
    results: Results, out: Path, *, missing: Callable[[], object] = lambda: None
) -> None:
    """Write everything but `rq1.csv`; `missing` is called if there is no plotting package."""
    sections: list[Section] = []
    sheets: list[tables.Sheet] = []
    if results.comparison is not None:
        beside = comparison_sheets(results.comparison)
        _write_comparison(results, results.comparison, beside, out)
        if beside:
            sections.append(Section(title="Beside the paper", sheets=beside))
    if results.rows:
        write_aggregates(out, results.rows)
        made = tables.rq1_sheets(results.rows, focus=FOCUS)
        figures = _draw(plots.rq1_figures(results.rows), out, missing)
        sections.append(Section(title="Utility (RQ1)", sheets=made, figures=figures))
        sheets += made
    if (found := results.structure) is not None:
        _write_structure(found, out)
        made = tables.rq3_sheets(
            found.shares, found.laws, found.regimes, found.amplified, found.gains, focus=FOCUS
        )
        figures = _draw(structure_plots.rq3_figures(found.shares, found.laws), out, missing)
        sections.append(Section(title="Structure (RQ3)", sheets=made, figures=figures))
        sheets += made
    warning = (WARNING,) if results.synthetic else ()
    markdown = [*warning, *map(tables.to_markdown, sheets)]
    latex = [*(f"% {line}" for line in warning), *map(tables.to_latex, sheets)]
    write_text(out / "tables.md", "\n\n".join(markdown))
    write_text(out / "tables.tex", "\n\n".join(latex))
    page = report(
        TITLE, results.facts, sections, synthetic=results.synthetic, failures=results.failures
    )
    write_text(out / "report.html", page)


def _draw(
    figures: dict[str, plots.Drawing], out: Path, missing: Callable[[], object]
) -> dict[str, Path]:
    try:
        return plots.save(figures, out / "figures")
    except ImportError:
        missing()
        return {}


def _write_comparison(
    results: Results, comparison: Comparison, sheets: Sequence[tables.Sheet], out: Path
) -> None:
    facts = "".join(f"- {name}: {text}\n" for name, text in results.facts.items())
    parts = ["# Our figures and the paper's", facts]
    if results.synthetic:
        parts.append(f"**{WARNING}**")
    parts += [tables.to_markdown(sheet) for sheet in sheets] or ["Nothing here was published."]
    write_text(out / "comparison.md", "\n\n".join(parts))
    write_csv(out / "comparison.csv", COLUMNS, comparison_lines(comparison))


def _write_structure(found: Structure, out: Path) -> None:
    write_csv(
        out / "rq3_roots.csv",
        ("budget", "epsilon", "template", "mechanism", "root", "unit", "sensitivity", "product",
         "share", "clamped", "allocation"),
        ((s.budget, epsilon_text(s.epsilon), s.template, s.mechanism, s.root, s.unit,
          s.sensitivity, s.product, s.share, str(s.clamped).lower(), s.allocation)
         for s in found.shares),
    )  # fmt: skip
    write_csv(
        out / "rq3_power_law.csv",
        ("budget", "epsilon", "mechanism", "slope", "se", "roots", "clamped"),
        ((w.budget, epsilon_text(w.epsilon), w.mechanism, w.slope, w.se, w.points, w.clamped)
         for w in found.laws),
    )  # fmt: skip
    write_csv(
        out / "rq3_regimes.csv",
        ("template", "formula", "regime", "all", "opt", "gap", "ratio"),
        ((r.template, r.formula, r.regime, r.all, r.opt, round(r.gap, 6), r.ratio)
         for r in found.regimes),
    )  # fmt: skip
    write_csv(
        out / "rq3_gains.csv",
        ("template", "mechanism", "config", "wmape"),
        ((g.template, g.mechanism, config, value) for g in found.gains
         for config, value in (*g.figures.items(), (MEDIAN, g.median))),
    )  # fmt: skip
    write_csv(
        out / "rq3_amplification.csv",
        ("template", "value", "root", "factor"),
        ((a.template, a.value, a.root, a.factor) for a in found.amplified),
    )
