"""The reconstruction study's files, tables and figures, and ours beside the published ones.

A published cell matches within 1.2 points or 12 % of it, whichever is more: the paper prints no
standard errors for RQ2 and its figures are one draw on the same 200 patients, ours the mean of the
run's repeats. What does not match is set against the spread of a single draw.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from rootguard.advice.drawing import BLACK, COLOURS, GREY, LABELS, MARKERS, legend_above
from rootguard.advice.people import PAPER_TEMPLATES, Cohort
from rootguard.advice.utility import PAPER_CONFIGURATIONS
from rootguard.attacks.belief import PRIORS, PriorName
from rootguard.evaluation.cohorts import load_cohort
from rootguard.evaluation.metrics import Estimate, mean_estimate
from rootguard.evaluation.published import published_lines
from rootguard.evaluation.rq1_utility.study import DIGITS
from rootguard.evaluation.rq2_reconstruction.study import (
    ATTACK_CONFIGURATIONS,
    STRATEGIES,
    AttackCell,
    AttackConfiguration,
    AttackRow,
    AttackSweep,
    Reading,
    RootFigure,
    Strategy,
)
from rootguard.evaluation.study.comparison import (
    LIMIT,
    SYNTHETIC_REASON,
    Count,
    counts_sheet,
    matching,
    of_catalog,
)
from rootguard.evaluation.study.page import Findings, Section
from rootguard.evaluation.study.plots import Drawing, draw_line, panel_grid
from rootguard.evaluation.study.rows import (
    CsvTable,
    columns,
    epsilon_text,
    read_rows,
    table,
    values,
    write_rows,
)
from rootguard.evaluation.study.runner import (
    Progress,
    Resumption,
    failures,
    gather,
    sweep_document,
    sweep_facts,
)
from rootguard.evaluation.study.tables import Sheet, filled, with_error
from rootguard.mechanisms import mechanism_named
from rootguard.template import Template
from rootguard.values import MechanismName

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "RootGuard: the reconstruction study"
FILE, ROOTS_FILE = "rq2.csv", "rq2_roots.csv"
# What a table or a figure shows that has room for one epsilon and one prior.
FOCUS = Fraction(1, 10)
FOCUS_PRIOR: PriorName = "informed"
# How near counts as a match; the paper prints no standard errors to judge by.
POINTS, SHARE = 1.2, 0.12
# Below this epsilon the noise is as wide as the bounds; the cells are shown, not judged.
JUDGED_FROM = Fraction(1, 20)
_READING_REASON = (
    "the published adversary takes clamped noise for truncated and counts a replayed value twice "
    "(see --reading published)"
)
_BAND = f"within {POINTS:g} points or {100 * SHARE:g} %"
_ADDRESS = columns(AttackCell)[:-1]
"""What a mean over templates is of."""
COMPARISON_COLUMNS = (
    "table", *_ADDRESS, "template", "ours", "ours_se", "published", "difference", "one_draw_sd",
    "deviations", "match", "reason",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class ReconstructionStudy:
    """RQ2, on the people in a directory or on synthetic ones."""

    sweep: AttackSweep
    templates: tuple[Template, ...]
    directory: Path | None = None

    def run(self, out: Path, progress: Progress) -> Findings:
        known = {row.cell: row for row in kept_rows(out)}
        rows = gather(
            self.sweep.run(self.templates, self._load, done=known),
            len(self.sweep) * len(self.templates),
            lambda row: f"{row.cell.template} {row.cell.mechanism}",
            progress=progress,
            resumption=Resumption(
                path=out / FILE,
                kind=AttackRow,
                known=known,
                key=lambda row: row.cell,
                every=len(self.sweep) // len(self.sweep.mechanisms),
                beside=lambda rows: write_rows(out / ROOTS_FILE, RootRow, root_rows(rows)),
            ),
        )
        comparison = compare_attacks(rows, reading=self.sweep.reading)
        failed = failures(rows)
        synthetic = any(row.synthetic for row in rows)
        observed = (
            "q + 1 observations of each root"
            if self.sweep.spread == "each"
            else "q queries shared among the roots, then one of each"
        )
        facts = sweep_facts(self.sweep, rows, self.templates, self.directory)
        steady = comparison.cached - comparison.varying
        return Findings(
            synthetic=synthetic,
            prefix="rq2_",
            files={
                **attack_files(rows),
                "rq2_comparison.csv": (COMPARISON_COLUMNS, comparison_rows(comparison)),
            },
            sections=(
                Section(
                    title="Reconstruction (RQ2)",
                    sheets=attack_sheets(rows),
                    drawings=attack_figures(rows),
                ),
            ),
            title=TITLE,
            facts=facts | {"strategy B": observed, "likelihood": self.sweep.reading},
            beside=attack_comparison_sheets(comparison),
            subject="reconstruction",
            failures=failed,
            shown=(counts_sheet("beside the paper", comparison.counts),),
            said=(
                f"cached: {steady} of {comparison.cached} series identical at every q",
                *(f"failed: {failure}" for failure in failed),
                f"{len(rows)} cells; look at {out / 'rq2_report.html'}",
            ),
            document={
                **sweep_document(rows, comparison.counts),
                "cached_series": comparison.cached,
                "cached_series_that_vary": comparison.varying,
            },
            lists=("*rq2*", "reconstruction*"),
        )

    def _load(self, template: Template) -> Cohort:
        return load_cohort(template, self.directory)


@dataclass(frozen=True, kw_only=True, slots=True)
class RootRow:
    """A root's figure as it stands in a file of its own."""

    cell: AttackCell
    figure: RootFigure


def root_rows(rows: Iterable[AttackRow]) -> list[RootRow]:
    """A row for every root of every cell, in the order of the cells."""
    return [RootRow(cell=row.cell, figure=found) for row in rows for found in row.by_root]


def kept_rows(out: Path) -> list[AttackRow]:
    """The rows of an earlier run with its figures of roots; without those that have not all."""
    figures: dict[AttackCell, list[RootFigure]] = {}
    for each in read_rows(out / ROOTS_FILE, RootRow):
        figures.setdefault(each.cell, []).append(each.figure)
    return [
        replace(row, by_root=tuple(figures[row.cell]))
        for row in read_rows(out / FILE, AttackRow)
        if len(figures.get(row.cell, ())) == row.roots
    ]


def singles(rows: Iterable[AttackRow]) -> dict[AttackCell, Estimate]:
    """Every row that has a figure."""
    return {
        row.cell: Estimate(value=row.wmape, se=row.wmape_se, monte_carlo=row.wmape_mc)
        for row in rows
        if row.wmape is not None and row.wmape_se is not None
    }


def means(rows: Sequence[AttackRow]) -> dict[AttackCell, Estimate]:
    """Means over templates. One that lacks a template's figure is left out."""
    templates = {row.cell.template for row in rows}
    each = singles(rows)
    made = {}
    for cell in dict.fromkeys(replace(row.cell, template="") for row in rows):
        members = [each.get(replace(cell, template=template)) for template in templates]
        known = [member for member in members if member is not None]
        if len(known) == len(templates):
            made[cell] = mean_estimate(known, total=math.fsum)
    return made


def _focus(found: Mapping[AttackCell, Estimate], name: MechanismName) -> dict[AttackCell, Estimate]:
    """What the paper gives per template."""
    focus = (name, "B", FOCUS_PRIOR, FOCUS)
    return {
        cell: figure
        for cell, figure in found.items()
        if (cell.mechanism, cell.strategy, cell.prior, cell.epsilon) == focus
    }


def attack_files(rows: Sequence[AttackRow]) -> dict[str, CsvTable]:
    """A line per cell, one per cell and root, and the published files with our figures."""
    each = _focus(singles(rows), focus_mechanism(rows))
    return {
        FILE: table(AttackRow, rows),
        ROOTS_FILE: table(RootRow, root_rows(rows)),
        "rq2_wmape.csv": (
            (*_ADDRESS, "wmape", "se"),
            [
                (*values(cell)[:-1], round(mean.value, DIGITS), round(mean.se, DIGITS))
                for cell, mean in means(rows).items()
            ],
        ),
        "rq2_template_wmape.csv": (
            ("template", "q", "config", "wmape", "se"),
            [
                (cell.template.upper(), cell.queries, cell.config, found.value, found.se)
                for cell, found in each.items()
            ],
        ),
    }


def focus_mechanism(rows: Sequence[AttackRow]) -> MechanismName:
    """The paper's mechanism of choice if it ran, else the first that did."""
    ran = [row.cell.mechanism for row in rows]
    return "exponential" if "exponential" in ran or not ran else ran[0]


def attack_sheets(rows: Sequence[AttackRow]) -> tuple[Sheet, ...]:
    """The paper's layout: epsilon down, queries and configurations across; then each template."""
    sheets = []
    found = means(rows)
    mechanisms = tuple(dict.fromkeys(row.cell.mechanism for row in rows))
    templates = tuple(dict.fromkeys(row.cell.template for row in rows))
    many = f"mean over {len(templates)} templates" if len(templates) > 1 else templates[0].upper()
    for name in mechanisms:
        for strategy in STRATEGIES:
            for belief in PRIORS:
                chosen = {
                    key: figure
                    for key, figure in found.items()
                    if (key.mechanism, key.strategy, key.prior) == (name, strategy, belief)
                }
                whose = "the root r*" if strategy == "A" else "all roots"
                title = f"Reconstruction wMAPE (%) of {whose}, {many}: {name}, {belief} prior"
                sheets.append(_by_epsilon(f"{title}, strategy {strategy}", chosen))
        each = _focus(singles(rows), name)
        sheets.append(_by_template(f"{name}, {FOCUS_PRIOR} prior", each))
    return filled(sheets)


def _by_epsilon(title: str, chosen: dict[AttackCell, Estimate]) -> Sheet:
    by_place = {(key.epsilon, key.queries, key.config): f for key, f in chosen.items()}
    queries = sorted({key.queries for key in chosen})
    epsilons = sorted({key.epsilon for key in chosen})
    ran = {key.config for key in chosen}
    columns: list[tuple[int, AttackConfiguration]] = [
        (q, config) for q in queries for config in PAPER_CONFIGURATIONS if config in ran
    ]
    once = [c for c in ATTACK_CONFIGURATIONS if c in ran and c not in PAPER_CONFIGURATIONS]
    columns += [(queries[0], config) for config in once]
    heads = (config if config in once else f"q={q} {config}" for q, config in columns)
    return Sheet(
        title=title,
        header=("ε", *heads),
        lines=tuple(
            (epsilon_text(e), *(_text(by_place.get((e, *column))) for column in columns))
            for e in epsilons
        ),
        note="Lower: the adversary is nearer to the truth. Only all depends on q." + _readers(ran),
    )


def _by_template(what: str, each: dict[AttackCell, Estimate]) -> Sheet:
    queries = sorted({key.queries for key in each})
    by_place = {(key.template, key.queries, key.config): f for key, f in each.items()}
    ran = {key.config for key in each}
    once = [c for c in ATTACK_CONFIGURATIONS if c in ran and c != "all"]
    asked = queries if "all" in ran else []
    return Sheet(
        title=f"Reconstruction wMAPE (%) per template: {what}, ε = {epsilon_text(FOCUS)}, "
        "strategy B",
        header=("template", *(f"all, q={q}" for q in asked), *(f"{c}, any q" for c in once)),
        lines=tuple(
            (
                template.upper(),
                *(_text(by_place.get((template, q, "all")), error=True) for q in asked),
                *(_text(by_place.get((template, queries[0], c)), error=True) for c in once),
            )
            for template in dict.fromkeys(key.template for key in each)
        ),
        note="± bootstrap standard error over patients." + _readers(ran),
    )


def _readers(ran: Iterable[AttackConfiguration]) -> str:
    if not {"calibrated", "population", "naive", "median"} & set(ran):
        return ""
    return (
        " calibrated, population: the adversary is given the noised roots, all that inverting a "
        "calibrated release can yield. naive: it takes what calibrated releases for noised values; "
        "one against opt could calibrate and read the same. median: given the noised roots of opt, "
        "it guesses the posterior's median."
    )


def _text(found: Estimate | None, *, error: bool = False) -> str:
    if found is None:
        return "–"
    plain = f"{found.value:.{0 if found.value >= 100 else 1}f}"
    return f"{plain} ± {found.se:.1f}" if error else plain


@dataclass(frozen=True, kw_only=True, slots=True)
class AttackCompared:
    """A published figure and ours. `reason` is empty where they match.

    `one_draw` is the standard deviation of ours in a single repeat, if known.
    """

    key: AttackCell
    published: float
    ours: Estimate
    one_draw: float | None
    synthetic: bool
    reading: Reading = "exact"

    @property
    def difference(self) -> float:
        """Ours less the published figure."""
        return self.ours.value - self.published

    @property
    def matches(self) -> bool:
        """Within 1.2 points or 12 %, whichever is more."""
        return abs(self.difference) <= max(POINTS, SHARE * self.published)

    @property
    def reason(self) -> str:
        """Why it does not match, as far as is known."""
        if self.matches:
            return ""
        if self.synthetic:
            return SYNTHETIC_REASON
        if not self.one_draw:
            return "no reason is known; repeats would show how much one draw varies"
        away = abs(self.difference) / self.one_draw
        if away <= LIMIT:
            return f"the printed figure is one draw and {away:.1f} of its deviations away"
        known = _READING_REASON if self.reading == "exact" else "no reason is known"
        return f"{known}: {away:.1f} deviations of one draw away"

    @property
    def deviations(self) -> float | None:
        """How far the published figure is from ours, in deviations of one draw of the noise."""
        return -self.difference / self.one_draw if self.one_draw else None


@dataclass(frozen=True, kw_only=True, slots=True)
class AttackComparison:
    """Everything that can be compared; without cells for a run without the paper's templates."""

    cells: tuple[AttackCompared, ...]
    cached: int
    varying: int
    series: int
    rising: int
    """Of `cached` series over q of cached releases, how many vary at all; of `series` of `all`, how
    many rise anywhere."""

    def matching(self, *, template: bool, judged: bool = True) -> Count:
        """How many cells of a table match, and how many there are; `judged`: from epsilon 0.05."""
        return matching(
            cell
            for cell in self.cells
            if bool(cell.key.template) == template and (cell.key.epsilon >= JUDGED_FROM) == judged
        )

    @property
    def by_chance(self) -> Count:
        """How many cells the noise of one draw explains, of those whose spread is known."""
        known = [c.deviations for c in self.cells if c.deviations is not None]
        return sum(abs(away) <= LIMIT for away in known), len(known)

    @property
    def counts(self) -> dict[str, Count]:
        """How many cells of each table match, and how many there are."""
        return {
            f"means, epsilon from 0.05, {_BAND}": self.matching(template=False),
            f"per template, {_BAND}": self.matching(template=True),
            f"means, epsilon 0.01, {_BAND}": self.matching(template=False, judged=False),
            f"all, within {LIMIT:g} deviations of one draw": self.by_chance,
        }


@cache
def published_attacks() -> tuple[tuple[AttackCell, float], ...]:
    """Every printed figure; a cached one that is printed once for all q is listed for q = 1."""
    about = {"mechanism": "exponential", "strategy": "B", "prior": "informed", "epsilon": "0.1"}
    whole, each = published_lines("rq2_wmape.csv"), published_lines("rq2_template_wmape.csv")
    return (
        *((_read(row, row, row["q"]), float(row["wmape"])) for row in whole),
        *((_read(about, row, row["q"] or "1"), float(row["wmape"])) for row in each),
    )


def _read(about: dict[str, str], row: dict[str, str], queries: str) -> AttackCell:
    return AttackCell(
        mechanism=mechanism_named(about["mechanism"]),
        strategy=next(s for s in STRATEGIES if s == about["strategy"]),
        prior=next(p for p in PRIORS if p == about["prior"]),
        epsilon=Fraction(about["epsilon"]),
        queries=int(queries),
        config=next(c for c in PAPER_CONFIGURATIONS if c == row["config"]),
        template=row.get("template", "").lower(),
    )


def compare_attacks(rows: Sequence[AttackRow], *, reading: Reading = "exact") -> AttackComparison:
    """Compare a run with the paper. Templates count only if they are the catalog's own."""
    ours = [row for row in of_catalog(rows) if row.spread == "each"]
    synthetic = any(row.synthetic for row in rows)
    found = singles(ours)
    if {row.cell.template for row in ours} == set(PAPER_TEMPLATES):
        found |= means(ours)
    series: dict[AttackCell, list[tuple[int, float]]] = {}
    for key, figure in singles(rows).items():
        start = replace(key, queries=0)
        series.setdefault(start, []).append((key.queries, figure.value))
    values = {key: [value for _, value in sorted(points)] for key, points in series.items()}
    cached = [line for key, line in values.items() if key.config != "all"]
    fresh = [line for key, line in values.items() if key.config == "all"]
    return AttackComparison(
        cells=tuple(
            AttackCompared(
                key=key,
                published=value,
                ours=found[key],
                one_draw=_one_draw(found[key], ours[0].repeats),
                synthetic=synthetic,
                reading=reading,
            )
            for key, value in published_attacks()
            if key in found
        ),
        cached=len(cached),
        varying=sum(len(set(line)) > 1 for line in cached),
        series=len(fresh),
        rising=sum(any(later > earlier for earlier, later in pairwise(line)) for line in fresh),
    )


def _one_draw(found: Estimate, repeats: int) -> float | None:
    spread = found.monte_carlo
    return None if spread is None else spread * math.sqrt(repeats)


def comparison_rows(comparison: AttackComparison) -> Iterable[tuple[object, ...]]:
    """`rq2_comparison.csv`, without its header."""
    for cell in comparison.cells:
        key, one = cell.key, cell.one_draw
        yield (
            "template" if key.template else "aggregate", *values(key)[:-1], key.template.upper(),
            round(cell.ours.value, DIGITS), round(cell.ours.se, DIGITS), cell.published,
            round(cell.difference, DIGITS), None if one is None else round(one, DIGITS),
            None if cell.deviations is None else round(cell.deviations, 3),
            str(cell.matches).lower(), cell.reason,
        )  # fmt: skip


def attack_comparison_sheets(comparison: AttackComparison) -> tuple[Sheet, ...]:
    """A summary, the headline cells, the paper's claims, and every cell that does not match."""
    tables = {
        "means over templates, ε ≥ 0.05": comparison.matching(template=False),
        "per template, ε = 0.1": comparison.matching(template=True),
        "means over templates, ε = 0.01": comparison.matching(template=False, judged=False),
    }
    headline = [
        cell
        for cell in comparison.cells
        if not cell.key.template and cell.key.epsilon == FOCUS and cell.key.prior == FOCUS_PRIOR
        if (cell.key.mechanism, cell.key.strategy) == ("exponential", "B")
    ]
    sheets = (
        counts_sheet(
            "Published cells that ours match", tables,
            "Within 1.2 points or 12 %, whichever is more.",
        ),
        Sheet(
            title="Reconstruction wMAPE (%), exponential, ε = 0.1, strategy B, informed prior",
            header=("config", "q", "ours", "published", "difference", "deviations"),
            lines=tuple(
                (
                    cell.key.config, str(cell.key.queries),
                    with_error(cell.ours.value, cell.ours.se, 2), f"{cell.published:g}",
                    f"{cell.difference:+.2f}",
                    "–" if cell.deviations is None else f"{cell.deviations:+.1f}",
                )
                for cell in headline
            ),
            labels=2,
        ),
        Sheet(
            title="The paper's claims",
            header=("claim", "series over q", "exceptions"),
            lines=(
                ("what is cached is identical at every q, to the last bit",
                 str(comparison.cached), str(comparison.varying)),
                ("all falls with every step in q", str(comparison.series),
                 str(comparison.rising)),
            ),
        ),
        Sheet(
            title="Cells that do not match",
            header=("ε", "prior", "q", "config", "template", "reason", "ours", "published"),
            lines=tuple(
                (
                    epsilon_text(cell.key.epsilon), cell.key.prior, str(cell.key.queries),
                    cell.key.config, (cell.key.template or "all eight").upper(), cell.reason,
                    with_error(cell.ours.value, cell.ours.se, 2), f"{cell.published:g}",
                )
                for cell in comparison.cells
                if not cell.matches
            ),
            labels=6,
        ),
    )  # fmt: skip
    return filled(sheets)


_COLOURS: Mapping[str, str] = {**COLOURS, "naive": GREY, "median": BLACK}
_MARKERS: Mapping[str, str] = {**MARKERS, "naive": "P", "median": "X"}
_LABELS: Mapping[str, str] = {
    **LABELS,
    "calibrated": "calibrated, inverted",
    "population": "population, inverted",
    "naive": "calibrated, read as noised",
    "median": "calibrated, posterior median",
}
_Panel = tuple[str, dict[AttackCell, Estimate]]
"""A title, and the figures that are drawn under it."""


def attack_figures(rows: Sequence[AttackRow], *, focus: Fraction = FOCUS) -> dict[str, Drawing]:
    """Strategies by priors, the mechanisms, the levels of privacy, and a panel per template."""
    synthetic = any(row.synthetic for row in rows)
    printed = not synthetic and len({row.cell.template for row in rows}) == 8
    main = focus_mechanism(rows)
    over_templates, each = means(rows), singles(rows)
    mechanisms = dict.fromkeys(row.cell.mechanism for row in rows)
    epsilons = sorted({row.cell.epsilon for row in rows})
    templates = dict.fromkeys(row.cell.template for row in rows)
    whose = {"A": "one root (A)", "B": "all roots (B)"}

    def panel(
        *,
        mechanism: MechanismName = main,
        strategy: Strategy = "B",
        prior: PriorName = FOCUS_PRIOR,
        epsilon: Fraction = focus,
        template: str = "",
    ) -> dict[AttackCell, Estimate]:
        wanted = (mechanism, strategy, prior, epsilon, template)
        return {
            k: found
            for k, found in (each if template else over_templates).items()
            if (k.mechanism, k.strategy, k.prior, k.epsilon, k.template) == wanted
        }

    def drawing(panels: Iterable[_Panel], across: int, *, shared: bool) -> Drawing:
        chosen = [(title, members) for title, members in panels if members]
        return lambda: _draw(chosen, across, shared=shared, synthetic=synthetic, printed=printed)

    return {
        "reconstruction": drawing(
            (
                (f"{whose[strategy]}, {prior} prior", panel(strategy=strategy, prior=prior))
                for prior in PRIORS
                for strategy in STRATEGIES
            ),
            2,
            shared=True,
        ),
        "reconstruction_mechanisms": drawing(
            ((name, panel(mechanism=name)) for name in mechanisms), 4, shared=True
        ),
        "reconstruction_epsilons": drawing(
            ((f"ε = {epsilon_text(e)}", panel(epsilon=e)) for e in epsilons), 5, shared=False
        ),
        "reconstruction_templates": drawing(
            ((name.upper(), panel(template=name)) for name in templates), 4, shared=False
        ),
    }


def _draw(
    panels: Sequence[_Panel], across: int, *, shared: bool, synthetic: bool, printed: bool
) -> "Figure | None":
    if not panels:
        return None
    row = 1.75 if min(across, len(panels)) < 4 else 1.5
    figure, places, lowest = panel_grid(
        len(panels), across, (0.75, row), synthetic=synthetic, x=True, y=shared
    )
    for axes, (title, members) in zip(places, panels, strict=True):
        _fill(axes, members, printed=printed)
        axes.set_title(title)
    for axes in places:
        axes.set_ylim(bottom=0)  # after all are drawn: it stops the scale from growing
    for axes in lowest:
        axes.set_xlabel("queries q")
    for axes in places[:: len(lowest)]:
        axes.set_ylabel("wMAPE of roots (%)")
    legend_above(figure, places, 4)
    return figure


def _fill(axes: "Axes", members: dict[AttackCell, Estimate], *, printed: bool) -> None:
    queries = sorted({key.queries for key in members})
    for config in ATTACK_CONFIGURATIONS:
        line = sorted(
            ((key.queries, figure) for key, figure in members.items() if key.config == config),
            key=lambda point: point[0],
        )
        if not line:
            continue
        draw_line(
            axes, [queries.index(q) for q, _ in line], [figure for _, figure in line], config,
            color=_COLOURS[config], marker=_MARKERS[config], label=_LABELS[config], capsize=1.5,
            linestyle="-" if config in PAPER_CONFIGURATIONS else ":",
        )  # fmt: skip
    crosses = [(key, value) for key, value in published_attacks() if key in members]
    for key, value in crosses if printed else ():
        axes.plot(
            queries.index(key.queries) + 0.16, value, linestyle="none", marker="X", markersize=3.6,
            markerfacecolor=_COLOURS[key.config], markeredgecolor=BLACK, markeredgewidth=0.5,
            zorder=4,
        )  # fmt: skip
    if printed:
        axes.plot(
            [], [], linestyle="none", marker="X", markersize=3.6, markerfacecolor="white",
            markeredgecolor=BLACK, markeredgewidth=0.5, label="published",
        )  # fmt: skip
    axes.set_xticks(range(len(queries)), [str(q) for q in queries])
    axes.set_xlim(-0.3, len(queries) - 0.6)
