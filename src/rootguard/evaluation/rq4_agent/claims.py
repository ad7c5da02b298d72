"""The agent evaluation's figures as tables, and beside the published ones and our utility study.

A published cell matches within 4 combined standard errors. Means over the eight templates are taken
twice: `published` has AIP as the published runs have it, with two roots asked for, `declared` has
all of its three. The published per-template table is called RCE; its figures are plain
misclassification rates, so that is what they are compared with.

Agreement with the utility study is judged by the spread of a single draw on the same patients: a
run of sessions is one draw. Every table says which backend made it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Literal

from rootguard import __version__
from rootguard.advice.drawing import COLOURS, LABELS, MARKERS, PAGE, legend_above, new_figure
from rootguard.advice.people import PAPER_TEMPLATES
from rootguard.advice.utility import TURNS, Turns
from rootguard.evaluation.metrics import mean_se
from rootguard.evaluation.published import published_lines
from rootguard.evaluation.rq4_agent.backends import Backend
from rootguard.evaluation.rq4_agent.figures import (
    FAITHS,
    AgentRow,
    agent_rows,
    compliance,
    compliance_sheets,
)
from rootguard.evaluation.rq4_agent.patients import (
    AGENT_CONFIGURATIONS,
    PUBLISHED_ACTIVE,
    AgentCell,
    PatientGroup,
)
from rootguard.evaluation.rq4_agent.study import TRANSCRIPTS, Grid, Transcripts, run_sessions
from rootguard.evaluation.study import comparison
from rootguard.evaluation.study.comparison import (
    LIMIT,
    Count,
    counts_json,
    counts_sheet,
    standard_errors,
)
from rootguard.evaluation.study.page import Findings, Section
from rootguard.evaluation.study.plots import Drawing
from rootguard.evaluation.study.rows import epsilon_text, table
from rootguard.evaluation.study.runner import Progress, cohort_text
from rootguard.evaluation.study.tables import Sheet, filled, with_error
from rootguard.values import MechanismName

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Measure = Literal["wmape", "rce", "misclassified", "map_wmape"]
TITLE = "RootGuard: the agent study"
MEASURES: tuple[Measure, ...] = ("wmape", "rce", "misclassified", "map_wmape")
Scope = Literal["published", "declared"]
COMPARISON_COLUMNS = (
    "table", "measure", "budget", "epsilon", "template", "mechanism", "config", "ours", "ours_se",
    "published", "published_se", "standard_errors", "match",
)  # fmt: skip
_TITLES: dict[Measure, str] = {
    "wmape": "wMAPE of the target (%)",
    "rce": "Risk class error (%)",
    "misclassified": "Wrong risk class (%)",
    "map_wmape": "MAP estimate of the roots, wMAPE (%)",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentStudy:
    """RQ4: an agent between adversary and guard, on some patients."""

    grid: Grid
    groups: Sequence[PatientGroup]
    backend: Backend
    directory: Path | None = None
    concurrency: int = 1

    def run(self, out: Path, progress: Progress) -> Findings:
        """Hold the sessions that are not in the transcripts yet, and measure all of them."""
        transcripts = Transcripts(out / TRANSCRIPTS)
        total = sum(group.patients * len(list(self.grid.cells(group))) for group in self.groups)
        started = perf_counter()
        with progress("sessions", total) as step:
            outcome = run_sessions(
                self.grid,
                self.groups,
                self.backend,
                transcripts,
                concurrency=self.concurrency,
                on_session=lambda session: step(session.cell.template),
            )
        held, seconds = outcome.sessions, perf_counter() - started
        speed = f"{held} held now, {held / seconds:.2g} a second" if held else "none held now"
        rows = agent_rows(self.grid, self.groups, self.backend.label, transcripts)
        compared = compare_agent(rows)
        counts = _counts(rows, compared)
        backend, synthetic = _backends(rows), any(row.synthetic for row in rows)
        again = f"{outcome.stopped}; the same command goes on from here"
        return Findings(
            synthetic=synthetic,
            prefix="rq4_",
            files={
                "rq4.csv": table(AgentRow, rows),
                "rq4_comparison.csv": (COMPARISON_COLUMNS, comparison_fields(compared)),
            },
            sections=(
                Section(
                    title="An agent in between (RQ4)",
                    sheets=(*agent_sheets(rows), *compliance_sheets(transcripts)),
                    drawings=agent_figures(rows),
                ),
            ),
            title=TITLE,
            facts={
                "backend": backend,
                "cohort": cohort_text(self.directory, synthetic=synthetic),
                "sessions": f"{sum(row.sessions for row in rows)}, {speed}",
                "observations": str(sum(row.observations for row in rows)),
                "mechanisms": ", ".join(dict.fromkeys(row.cell.mechanism for row in rows)),
                "seed": ", ".join(map(str, sorted({row.seed for row in rows}))),
                "version": __version__,
            },
            beside=agent_comparison_sheets(rows, compared),
            subject="an agent in between",
            shown=(_terminal_sheet(rows), counts_sheet("beside the paper", counts)),
            said=(f"{speed}; look at {out / 'rq4_report.html'}",),
            notices=(again,) if outcome.stopped else (),
            document={
                "backend": backend,
                "synthetic": synthetic,
                "cells": len(rows),
                "held_now": held,
                "seconds": round(seconds, 3),
                "compliance": {name: dict(found) for name, found in compliance(rows)},
                "matching": counts_json(counts),
            },
            failed=bool(outcome.stopped),
        )


def _backends(rows: Iterable[AgentRow]) -> str:
    return ", ".join(dict.fromkeys(row.backend for row in rows))


def _counts(rows: Sequence[AgentRow], compared: Sequence["ComparedAgent"]) -> dict[str, Count]:
    beside = [m.from_rq1 for m in means(rows, "published", "wmape") if m.from_rq1 is not None]
    order = ordering(rows)
    return {
        "published mean wMAPE": matching(compared, "wmape"),
        "published RCE per template": matching(compared, "misclassified"),
        "means within 4 SD of RQ1": (sum(abs(far) <= LIMIT for far in beside), len(beside)),
        "all > roots >= opt": (order.held, order.of),
    }


def _terminal_sheet(rows: Sequence[AgentRow]) -> Sheet:
    kinds = ("sessions", "failed_sessions", "observations", "rounded", "invented", "unparsed")
    return Sheet(
        title=f"compliance of the {_backends(rows)} agent",
        header=("config", *(kind.replace("_", " ") for kind in kinds)),
        lines=tuple(
            (config, *(str(counts[kind]) for kind in kinds)) for config, counts in compliance(rows)
        ),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentMean:
    """A mean over the eight templates. `rq1` and `rq1_sd` as in a row, for wMAPE."""

    scope: Scope
    measure: Measure
    cell: AgentCell
    value: float
    se: float
    rq1: float | None
    rq1_sd: float | None

    @property
    def from_rq1(self) -> float | None:
        """How far this is from the utility study, in standard deviations of one draw."""
        if self.rq1 is None or not self.rq1_sd:
            return None
        return (self.value - self.rq1) / self.rq1_sd


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedAgent:
    """A published figure and ours. `template` is empty for a mean over all eight."""

    measure: Measure
    budget: str
    epsilon: float
    template: str
    mechanism: str
    config: str
    ours: float
    ours_se: float
    published: float
    published_se: float

    @property
    def standard_errors(self) -> float:
        return standard_errors(self.ours, self.ours_se, self.published, self.published_se)

    @property
    def matches(self) -> bool:
        """Whether that is at most 4."""
        return abs(self.standard_errors) <= LIMIT


@dataclass(frozen=True, kw_only=True, slots=True)
class Ordered:
    """Cells in which all > roots >= opt holds, of those that have all three."""

    held: int
    of: int
    broken: tuple[str, ...]


def of_scope(rows: Iterable[AgentRow], scope: Scope) -> list[AgentRow]:
    """One row per template and cell: AIP cut to what was published, or as it is declared."""
    cut = PUBLISHED_ACTIVE if scope == "published" else {}
    return [row for row in rows if (row.cell.asked == "active") == (row.cell.template in cut)]


def means(rows: Sequence[AgentRow], scope: Scope, measure: Measure) -> list[AgentMean]:
    """Means over the paper's eight templates; a cell that lacks one of them has none."""
    groups: dict[AgentCell, list[AgentRow]] = {}
    for row in of_scope(rows, scope):
        if getattr(row, measure) is not None and row.cell.template in PAPER_TEMPLATES:
            groups.setdefault(row.cell.overall, []).append(row)
    found = []
    for cell, members in groups.items():
        if len(members) != len(PAPER_TEMPLATES):
            continue
        beside = [(row.rq1, row.rq1_sd) for row in members if measure == "wmape"]
        known = [(m, sd) for m, sd in beside if m is not None and sd is not None]
        whole = len(known) == len(members)
        found.append(
            AgentMean(
                scope=scope,
                measure=measure,
                cell=cell,
                value=sum(getattr(row, measure) for row in members) / len(members),
                se=mean_se(getattr(row, f"{measure}_se") for row in members),
                rq1=sum(m for m, _ in known) / len(known) if whole else None,
                rq1_sd=mean_se(sd for _, sd in known) if whole else None,
            )
        )
    return found


@cache
def published_agent() -> tuple[tuple[Measure, dict[str, str], float, float], ...]:
    """Every printed figure of RQ4: the measure it is, its address, value and standard error."""
    files: tuple[tuple[str, str, Measure], ...] = (
        ("rq4_wmape.csv", "wmape", "wmape"),
        ("rq4_template_rce.csv", "rce", "misclassified"),
    )
    return tuple(
        (measure, row, float(row[column]), float(row["se"]))
        for file, column, measure in files
        for row in published_lines(file)
    )


def compare_agent(rows: Sequence[AgentRow]) -> list[ComparedAgent]:
    """Ours beside every published cell that was run."""
    ours: dict[tuple[str, str, float, str, str, str], tuple[float, float]] = {}
    for mean in means(rows, "published", "wmape"):
        c = mean.cell
        key = ("wmape", c.budget, float(c.epsilon), c.template, c.mechanism, c.config)
        ours[key] = (mean.value, mean.se)
    for row in of_scope(rows, "published"):
        c = row.cell
        if row.misclassified is not None and row.misclassified_se is not None:
            key = ("misclassified", c.budget, float(c.epsilon), c.template, c.mechanism, c.config)
            ours[key] = (row.misclassified, row.misclassified_se)
    compared = []
    for measure, at, value, se in published_agent():
        template = at.get("template", "").lower()
        address = (at["budget"], float(at["epsilon"]), template, at["mechanism"], at["config"])
        if (found := ours.get((measure, *address))) is not None:
            compared.append(
                ComparedAgent(
                    measure=measure,
                    budget=address[0],
                    epsilon=address[1],
                    template=template,
                    mechanism=address[3],
                    config=address[4],
                    ours=found[0],
                    ours_se=found[1],
                    published=value,
                    published_se=se,
                )
            )
    return compared


def matching(compared: Iterable[ComparedAgent], measure: Measure) -> Count:
    """How many cells of a published table match, and how many there are."""
    return comparison.matching(c for c in compared if c.measure == measure)


def comparison_fields(compared: Iterable[ComparedAgent]) -> Iterator[tuple[object, ...]]:
    """`rq4_comparison.csv`, without its header."""
    for c in compared:
        yield (
            "template" if c.template else "aggregate", c.measure, c.budget, repr(c.epsilon),
            c.template.upper(), c.mechanism, c.config, round(c.ours, 6), round(c.ours_se, 6),
            c.published, c.published_se, round(c.standard_errors, 3), str(c.matches).lower(),
        )  # fmt: skip


def ordering(rows: Sequence[AgentRow], scope: Scope = "published") -> Ordered:
    """Whether all > roots >= opt in the mean wMAPE of each cell."""
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for mean in means(rows, scope, "wmape"):
        cell = mean.cell
        key = (cell.mechanism, cell.budget, epsilon_text(cell.epsilon))
        found.setdefault(key, {})[cell.config] = mean.value
    trios = {k: v for k, v in found.items() if {"all", "roots", "opt"} <= v.keys()}
    broken = [k for k, v in trios.items() if not v["all"] > v["roots"] >= v["opt"]]
    return Ordered(
        held=len(trios) - len(broken), of=len(trios), broken=tuple(" ".join(k) for k in broken)
    )


def agent_sheets(rows: Sequence[AgentRow]) -> tuple[Sheet, ...]:
    """Compliance, the means, and each template at the largest epsilon."""
    backend = _backends(rows)
    sheets = [_compliance_sheet(rows, backend)]
    scopes: tuple[Scope, ...] = ("published", "declared")
    for scope in scopes:
        aip = "two" if scope == "published" else "three"
        for measure in MEASURES:
            title = f"{_TITLES[measure]}, mean of eight templates, AIP asked for {aip} roots"
            lines = _mean_lines(means(rows, scope, measure))
            sheets.append(_sheet(title, backend, lines))
        title = (
            f"{_TITLES['wmape']}, mean of the templates that have a target in every configuration,"
            f" AIP asked for {aip} roots"
        )
        sheets.append(_sheet(title, backend, _common_lines(of_scope(rows, scope))))
    focus = max((row.cell.epsilon for row in rows), default=Fraction(0))
    for measure in MEASURES:
        title = f"{_TITLES[measure]} per template at epsilon {epsilon_text(focus)}"
        sheets.append(_sheet(title, backend, _template_lines(rows, measure, focus)))
    return filled(sheets)


_Lines = dict[tuple[str, str, str], dict[str, str]]


def _sheet(title: str, backend: str, lines: _Lines) -> Sheet:
    configs = [c for c in AGENT_CONFIGURATIONS if any(c in cells for cells in lines.values())]
    return Sheet(
        title=title,
        header=("mechanism", "", "budget", *configs),
        lines=tuple((*k, *(cells.get(c, "–") for c in configs)) for k, cells in lines.items()),
        note=f"Backend: {backend}. ± bootstrap standard error over patients.",
        labels=3,
    )


def _mean_lines(found: Iterable[AgentMean]) -> _Lines:
    lines: _Lines = {}
    found = sorted(found, key=lambda m: (m.cell.mechanism, m.cell.epsilon, TURNS[m.cell.budget]))
    for m in found:
        c = m.cell
        line = lines.setdefault((c.mechanism, f"ε = {epsilon_text(c.epsilon)}", c.budget), {})
        line[c.config] = with_error(m.value, m.se)
    return lines


def _common_lines(rows: Iterable[AgentRow]) -> _Lines:
    """Means over fewer than eight templates, where an agent lost the target of the others."""
    cells: dict[tuple[Fraction, MechanismName, Turns], dict[str, dict[str, AgentRow]]] = {}
    for row in rows:
        c = row.cell
        asked = cells.setdefault((c.epsilon, c.mechanism, c.budget), {})
        asked.setdefault(c.template, {})[c.config] = row
    lines: _Lines = {}
    for (epsilon, mechanism, budget), templates in sorted(cells.items()):
        common = [t for t in templates.values() if all(r.wmape is not None for r in t.values())]
        if not 0 < len(common) < len(templates):
            continue
        label = f"ε = {epsilon_text(epsilon)}, {len(common)} of {len(templates)} templates"
        line = lines.setdefault((mechanism, label, budget), {})
        for config in dict.fromkeys(c for t in common for c in t):
            there = [t[config] for t in common if config in t]
            value = sum(row.wmape or 0.0 for row in there) / len(there)
            se = mean_se(row.wmape_se or 0.0 for row in there)
            line[config] = with_error(value, se)
    return lines


def _template_lines(rows: Iterable[AgentRow], measure: Measure, focus: Fraction) -> _Lines:
    lines: _Lines = {}
    for row in rows:
        c, value, se = row.cell, getattr(row, measure), getattr(row, f"{measure}_se")
        if c.epsilon == focus and value is not None:
            name = c.template.upper() + (" (two roots)" if c.asked == "active" else "")
            line = lines.setdefault((c.mechanism, name, c.budget), {})
            line[c.config] = with_error(value, se)
    return lines


def _compliance_sheet(rows: Sequence[AgentRow], backend: str) -> Sheet:
    kinds = ("sessions", "missing", "failed_sessions", "observations", *FAITHS)
    return Sheet(
        title="Compliance: what became of the values between the wire and the text",
        header=("configuration", *(kind.replace("_", " ") for kind in kinds)),
        lines=tuple(
            (config, *(f"{counts[kind]:,}" for kind in kinds))
            for config, counts in compliance(rows)
        ),
        note=f"Backend: {backend}. Missing: sessions without a target. Failed sessions: those in "
        "which some value was refused or not to be read.",
    )


def agent_comparison_sheets(
    rows: Sequence[AgentRow], compared: Sequence[ComparedAgent]
) -> tuple[Sheet, ...]:
    """How many cells match, the 27 means beside the paper and RQ1, and what does not match."""
    backend = _backends(rows)
    beside: dict[tuple[str, float, str, str], AgentMean] = {
        (m.cell.budget, float(m.cell.epsilon), m.cell.mechanism, m.cell.config): m
        for m in means(rows, "published", "wmape")
    }
    lines = []
    for c in (c for c in compared if c.measure == "wmape"):
        mean = beside[c.budget, c.epsilon, c.mechanism, c.config]
        far = mean.from_rq1
        lines.append(
            (
                c.budget, repr(c.epsilon), c.config, with_error(c.ours, c.ours_se),
                f"{c.published} ± {c.published_se}", f"{c.standard_errors:+.1f}",
                "–" if mean.rq1 is None else f"{mean.rq1:.1f}",
                "–" if far is None else f"{far:+.1f}",
            )
        )  # fmt: skip
    held = ordering(rows)
    counts = [(name, *matching(compared, m)) for name, m in _TABLES]
    summary = [(name, str(m), str(n)) for name, m, n in counts if n]
    near = [m for m in beside.values() if m.from_rq1 is not None]
    agreed = sum(abs(m.from_rq1 or 0.0) <= LIMIT for m in near)
    summary.append(("within 4 standard deviations of RQ1", str(agreed), str(len(near))))
    summary.append(("all > roots ≥ opt", str(held.held), str(held.of)))
    note = f"Backend: {backend}."
    off = [
        (c.measure, c.budget, repr(c.epsilon), c.template.upper(), c.config,
         with_error(c.ours, c.ours_se), f"{c.published} ± {c.published_se}",
         f"{c.standard_errors:+.1f}")
        for c in compared
        if not c.matches
    ]  # fmt: skip
    sheets = (
        Sheet(title="Cells that match", header=("table", "match", "of"), lines=tuple(summary),
              note=note),
        Sheet(title="Mean wMAPE (%) beside the published figures and our RQ1",
              header=("budget", "ε", "config", "ours", "published", "SEs", "RQ1", "SDs"),
              lines=tuple(lines), labels=3,
              note=f"{note} SDs: from RQ1, in standard deviations of one draw."),
        Sheet(title="Cells that do not match",
              header=("measure", "budget", "ε", "template", "config", "ours", "published", "SEs"),
              lines=tuple(off), labels=5, note=note),
    )  # fmt: skip
    return filled(sheets)


_TABLES: tuple[tuple[str, Measure], ...] = (
    ("published mean wMAPE", "wmape"),
    ("published RCE per template (wrong classes)", "misclassified"),
)


def agent_figures(rows: Sequence[AgentRow]) -> dict[str, Drawing]:
    """One drawing: mean wMAPE over the turn budget, a panel per epsilon, published beside ours."""

    def draw() -> "Figure | None":
        found = means(rows, "published", "wmape")
        name = next((m.cell.mechanism for m in found), None)
        cells = {m.cell: m for m in found if m.cell.mechanism == name}
        if not cells:
            return None
        epsilons = sorted({cell.epsilon for cell in cells})
        synthetic = any(row.synthetic for row in rows)
        figure, panels = new_figure(PAGE, 2.6, (1, len(epsilons)), synthetic=synthetic)
        for axes, epsilon in zip(panels, epsilons, strict=True):
            for config in AGENT_CONFIGURATIONS:
                line = {
                    cell.budget: mean
                    for cell, mean in cells.items()
                    if (cell.epsilon, cell.config) == (epsilon, config)
                }
                have = [b for b in TURNS if b in line]
                if have:
                    axes.errorbar(
                        have, [line[b].value for b in have], [line[b].se for b in have],
                        color=COLOURS[config], marker=MARKERS[config], label=LABELS[config],
                    )  # fmt: skip
                for measure, at, value, _ in published_agent():
                    here = (at["mechanism"], float(at["epsilon"]), at["config"])
                    if measure == "wmape" and here == (name, float(epsilon), config):
                        axes.plot(at["budget"], value, "x", color="black", label="published")
            axes.set_title(f"ε = {epsilon_text(epsilon)}")
            axes.set_ylim(bottom=0)
        panels[0].set_ylabel("wMAPE (%)")
        backend = _backends(rows)
        panels[len(panels) // 2].set_xlabel(f"Backend: {backend}", fontsize=6)
        legend_above(figure, panels, 5)
        return figure

    return {"agent_wmape": draw}
