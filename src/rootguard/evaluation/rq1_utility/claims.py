"""The utility study beside the paper: cell by cell, and what is claimed of them.

A cell matches when the two figures are within 4 combined standard errors, or within 0.15 points
where the published standard error is printed as 0.0. The published figures are one draw of the
noise on the same 200 patients; ours are the mean over the run's repeats.

Like with like: the published risk class errors divide HOMA by 1 instead of C - 1 = 2, so here, and
nowhere else, our HOMA figures are doubled, and the means over templates taken after that.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist

from rootguard.advice.people import PAPER_TEMPLATES
from rootguard.advice.utility import PAPER_CONFIGURATIONS, TURNS
from rootguard.evaluation.metrics import Estimate
from rootguard.evaluation.published import Metric, PublishedCell, published_cells, published_wins
from rootguard.evaluation.rq1_utility.means import (
    METRIC_NAMES,
    AggregateKey,
    aggregates,
    estimate,
    scaled,
    win_rates,
)
from rootguard.evaluation.rq1_utility.study import DIGITS, PAPER_MECHANISMS, UtilityRow
from rootguard.evaluation.rq3_structure import FOCUS, PowerLaw
from rootguard.evaluation.study.comparison import (
    LIMIT,
    SYNTHETIC_REASON,
    Count,
    counts_sheet,
    matching,
    of_catalog,
    standard_errors,
)
from rootguard.evaluation.study.rows import epsilon_text
from rootguard.evaluation.study.tables import Sheet, filled, with_error

POINTS = 0.15
"""Allowed where the published standard error rounds to 0.0, so that it is below 0.05."""
# From here down the paper claims all > roots > opt.
ORDERED_TO = Fraction(1, 2)
_WEIGHTS = {"homa": 2.0}
"""What the published risk class errors of a template are multiples of."""
COLUMNS = (
    "table", "metric", "budget", "epsilon", "template", "mechanism", "config", "ours", "ours_se",
    "published", "published_se", "difference", "standard_errors", "deviations", "match", "reason",
)  # fmt: skip
_NORMAL = NormalDist()
_CHANCE = 3.0  # standard errors that a mean is out of order by without anybody's asking why
# Noise of 1/epsilon steps takes up 5 % of the grid on either side from here down.
_WIDE = Fraction(1, 50)
_ROUNDING = 0.1 / math.sqrt(12)  # the deviation of what printing one decimal takes away
_PAIRS = 30  # three mechanisms at ten epsilons, as the paper counts wins


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """A published cell and ours. `reason` says why it does not match, and is empty if it does.

    `one_draw` is the standard deviation of a printed figure by the noise of its one draw alone, the
    patients being the same; None for a single repeat, which shows no spread.
    """

    published: PublishedCell
    ours: float
    ours_se: float
    one_draw: float | None
    reason: str

    @property
    def table(self) -> str:
        """Which published table the cell is from."""
        return "aggregate" if self.published.template is None else "template"

    @property
    def difference(self) -> float:
        """Ours less the published figure."""
        return self.ours - self.published.value

    @property
    def standard_errors(self) -> float:
        """The difference in combined standard errors."""
        p = self.published
        return standard_errors(self.ours, self.ours_se, p.value, p.se)

    @property
    def deviations(self) -> float | None:
        """How far the published figure is from ours, in deviations of one draw of the noise."""
        return -self.difference / self.one_draw if self.one_draw else None

    @property
    def matches(self) -> bool:
        """Within 4 combined standard errors, or 0.15 points beside a standard error of 0.0."""
        close = self.published.se == 0 and abs(self.difference) <= POINTS
        return close or abs(self.standard_errors) <= LIMIT


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedWins:
    """Wins of opt over all in 30 pairs. `expected` and `sd` are those of a single draw.

    The published counts are of one draw; where opt and all are close, one draw wins or loses by
    luck. With d the difference of our means and s its standard deviation in one draw, a pair is won
    with probability Phi(d / s).
    """

    template: str
    budget: str
    ours: int
    published: int
    expected: float
    sd: float

    @property
    def matches(self) -> bool:
        """Whether our count is at or above the published one."""
        return self.ours >= self.published

    @property
    def reason(self) -> str:
        """Why it does not match; empty if it does."""
        if self.matches:
            return ""
        chance = "within" if abs(self.published - self.expected) <= LIMIT * self.sd else "beyond"
        return (
            f"one draw is expected to win {self.expected:.1f} ± {self.sd:.1f} of 30; the printed "
            f"{self.published} is {chance} its luck"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Disorder:
    """A mean in which all > roots > opt does not hold, beside the published three if there are.

    `excess` is how far the order is broken, in standard errors of the Monte Carlo if there are
    repeats, else of the bootstrap.
    """

    key: AggregateKey
    ours: tuple[float, float, float]
    published: tuple[float, float, float] | None
    excess: float

    @property
    def reason(self) -> str:
        """Why, as far as is known."""
        if self.published is not None:
            every, roots, opt = self.published
            if not every > roots > opt:
                return "the published figures are out of order here too"
        if self.excess <= _CHANCE:
            return f"within chance ({self.excess:.1f} standard errors); more repeats would tell"
        if self.key[1] <= _WIDE:
            return "noise as wide as the bounds, where the plan's first-order model does not hold"
        return "no reason is known"


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Everything that can be compared; empty for a run without the paper's templates."""

    cells: tuple[Compared, ...]
    wins: tuple[ComparedWins, ...]
    disorders: tuple[Disorder, ...]
    laws: tuple[PowerLaw, ...]
    ordered: int
    synthetic: bool
    repeats: int
    seed: int

    def matching(self, metric: Metric, table: str) -> Count:
        """How many cells of a table match, and how many there are."""
        return matching(c for c in self.cells if c.published.metric == metric and c.table == table)

    def by_chance(self, metric: Metric, table: str, most: float) -> Count:
        """How many cells of a table lie within so many deviations of one draw of the noise."""
        known = [
            c.deviations
            for c in self.cells
            if c.published.metric == metric and c.table == table and c.deviations is not None
        ]
        return sum(abs(away) <= most for away in known), len(known)

    @property
    def counts(self) -> dict[str, Count]:
        """How many cells of each table match, and how many there are."""
        return {
            "wmape, means": self.matching("wmape", "aggregate"),
            "wmape, per template": self.matching("wmape", "template"),
            "rce, means": self.matching("rce", "aggregate"),
            "rce, per template": self.matching("rce", "template"),
            "win rates": matching(self.wins),
        }


def compare(rows: Sequence[UtilityRow], laws: Sequence[PowerLaw] = ()) -> Comparison:
    """Compare a run with the paper. Templates count only if they are the catalog's own."""
    ours = of_catalog(rows)
    complete = {r.cell.template for r in ours if r.wmape is not None} == set(PAPER_TEMPLATES)
    synthetic = any(row.synthetic for row in rows)
    metrics: tuple[Metric, ...] = ("wmape", "rce")
    figures = {
        metric: _singles(ours, metric) | (_means(ours, metric) if complete else {})
        for metric in metrics
    }
    compared = []
    for cell in published_cells():
        key = (cell.budget, cell.epsilon, cell.template, cell.mechanism, cell.config)
        if key in figures[cell.metric]:
            found = figures[cell.metric][key]
            compared.append(_compared(cell, found, rows[0].repeats, synthetic=synthetic))
    means = aggregates(ours, "wmape") if complete else {}
    return Comparison(
        cells=tuple(compared),
        wins=_compare_wins(ours),
        disorders=_disorders(means),
        laws=tuple(laws) if complete else (),
        ordered=sum(key[3] == "all" and key[1] <= ORDERED_TO for key in means),
        synthetic=synthetic,
        repeats=rows[0].repeats if rows else 0,
        seed=rows[0].seed if rows else 0,
    )


_Key = tuple[str, float, str | None, str, str]


def _means(rows: Sequence[UtilityRow], metric: Metric) -> dict[_Key, Estimate]:
    weights = _WEIGHTS if metric == "rce" else None
    return {
        (budget, float(epsilon), None, name, config): mean
        for (budget, epsilon, name, config), mean in aggregates(
            rows, metric, weights=weights
        ).items()
    }


def _singles(rows: Sequence[UtilityRow], metric: Metric) -> dict[_Key, Estimate]:
    found: dict[_Key, Estimate] = {}
    for row in rows:
        c, one = row.cell, estimate(row, metric)
        if one is not None:
            weight = _WEIGHTS.get(c.template, 1.0) if metric == "rce" else 1.0
            found[c.budget, float(c.epsilon), c.template, c.mechanism, c.config] = scaled(
                one, weight
            )
    return found


def _compared(cell: PublishedCell, ours: Estimate, repeats: int, *, synthetic: bool) -> Compared:
    spread = ours.monte_carlo
    made = Compared(
        published=cell,
        ours=ours.value,
        ours_se=ours.se,
        # The printed draw's own, that of our mean, and rounding.
        one_draw=spread and math.hypot(spread * math.sqrt(repeats), spread, _ROUNDING),
        reason="",
    )
    return made if made.matches else replace(made, reason=_why(cell, synthetic=synthetic))


def _why(cell: PublishedCell, *, synthetic: bool) -> str:
    """The known reasons, most telling first; what has none says so."""
    if synthetic:
        return SYNTHETIC_REASON
    if cell.metric == "rce" and cell.value == 0:
        return "printed as 0.0 ± 0.0: no patient changed class in the paper's one draw"
    if cell.mechanism == "staircase":
        return "the paper's staircase listing ignores its gamma and so adds other noise than ours"
    if cell.se == 0:
        return "the printed standard error rounds to 0.0, and the difference is over 0.15 points"
    return "no reason is known"


def _compare_wins(rows: Sequence[UtilityRow]) -> tuple[ComparedWins, ...]:
    paper = [row for row in rows if row.cell.mechanism in PAPER_MECHANISMS]
    by_cell = {row.cell: row for row in paper}
    compared = []
    for counted in win_rates(paper):
        for budget in TURNS:
            chances = []
            for cell, row in by_cell.items():
                if (cell.template, cell.budget, cell.config) != (counted.template, budget, "opt"):
                    continue
                other = by_cell.get(replace(cell, config="all"))
                if other is not None and (chance := _chance(row, other)) is not None:
                    chances.append(chance)
            published = published_wins().get((counted.template, budget))
            if published is None or len(chances) != _PAIRS:
                continue
            compared.append(
                ComparedWins(
                    template=counted.template,
                    budget=budget,
                    ours=counted.counts[budget],
                    published=published,
                    expected=math.fsum(chances),
                    sd=math.sqrt(math.fsum(p * (1 - p) for p in chances)),
                )
            )
    return tuple(compared)


def _chance(opt: UtilityRow, every: UtilityRow) -> float | None:
    """That opt wins a single draw: from the spread between repeats, else from the bootstrap."""
    if opt.wmape is None or every.wmape is None:
        return None
    spreads = [
        row.wmape_mc * math.sqrt(row.repeats) if row.wmape_mc is not None else row.wmape_se or 0.0
        for row in (opt, every)
    ]
    gap, spread = every.wmape - opt.wmape, math.hypot(*spreads)
    return _NORMAL.cdf(gap / spread) if spread > 0 else float(gap > 0)


def _disorders(means: Mapping[AggregateKey, Estimate]) -> tuple[Disorder, ...]:
    printed = {
        (c.budget, c.epsilon, c.mechanism, c.config): c.value
        for c in published_cells()
        if c.metric == "wmape" and c.template is None
    }
    found = []
    for budget, epsilon, name, config in means:
        keys = [(budget, epsilon, name, other) for other in PAPER_CONFIGURATIONS]
        if config != "all" or epsilon > ORDERED_TO or not all(key in means for key in keys):
            continue
        trio = [means[key] for key in keys]
        every, roots, opt = (mean.value for mean in trio)
        if every > roots > opt:
            continue
        theirs = [
            printed.get((budget, float(epsilon), name, other)) for other in PAPER_CONFIGURATIONS
        ]
        known = [value for value in theirs if value is not None]
        found.append(
            Disorder(
                key=keys[0],
                ours=(every, roots, opt),
                published=(known[0], known[1], known[2]) if len(known) == 3 else None,
                excess=max(_excess(trio[0], trio[1]), _excess(trio[1], trio[2])),
            )
        )
    return tuple(found)


def _excess(upper: Estimate, lower: Estimate) -> float:
    """How far the second mean lies above the first, in standard errors of the difference."""
    spread = math.hypot(
        *(mean.se if mean.monte_carlo is None else mean.monte_carlo for mean in (upper, lower))
    )
    return (lower.value - upper.value) / spread if spread > 0 else 0.0


def comparison_lines(comparison: Comparison) -> Iterable[tuple[object, ...]]:
    """`comparison.csv`, without its header."""
    for c in comparison.cells:
        p = c.published
        yield (
            c.table, p.metric, p.budget, repr(p.epsilon), (p.template or "").upper(), p.mechanism,
            p.config, round(c.ours, DIGITS), round(c.ours_se, DIGITS), p.value, p.se,
            round(c.difference, DIGITS),
            round(c.standard_errors, 3),
            "" if c.deviations is None else round(c.deviations, 3),
            str(c.matches).lower(), c.reason,
        )  # fmt: skip
    for w in comparison.wins:
        yield (
            "win rate", "wins", w.budget, "", w.template.upper(), "", "opt", w.ours, round(w.sd, 3),
            w.published, "", w.ours - w.published, "", "", str(w.matches).lower(), w.reason,
        )  # fmt: skip


def comparison_sheets(comparison: Comparison) -> tuple[Sheet, ...]:
    """A summary, the paper's headline cells, each claim, and every cell that does not match."""
    sheets = (
        _summary(comparison),
        _headline(comparison),
        _claims(comparison),
        Sheet(
            title="Cells that do not match",
            header=("metric", "budget", "ε", "template", "mechanism", "config", "reason", "ours",
                    "published", "SEs"),
            lines=tuple(
                (
                    p.metric, p.budget, repr(p.epsilon), (p.template or "all eight").upper(),
                    p.mechanism, p.config, c.reason, with_error(c.ours, c.ours_se, 2),
                    f"{p.value} ± {p.se}", f"{c.standard_errors:+.1f}",
                )
                for c in comparison.cells
                for p in (c.published,)
                if not c.matches
            ),
            labels=7,
        ),
        Sheet(
            title="Win counts below the published ones",
            header=("template", "budget", "reason", "ours", "published", "one draw"),
            lines=tuple(
                (w.template.upper(), w.budget, w.reason, str(w.ours), str(w.published),
                 with_error(w.expected, w.sd))
                for w in comparison.wins
                if not w.matches
            ),
            labels=3,
        ),
        Sheet(
            title="Means out of order (all > roots > opt does not hold)",
            header=("budget", "ε", "mechanism", "reason", "all", "roots", "opt", "published"),
            lines=tuple(
                (
                    d.key[0], epsilon_text(d.key[1]), d.key[2], d.reason,
                    *(f"{value:.1f}" for value in d.ours),
                    "–" if d.published is None else " / ".join(f"{v:g}" for v in d.published),
                )
                for d in comparison.disorders
            ),
            labels=4,
        ),
    )  # fmt: skip
    return filled(sheets)


def _summary(comparison: Comparison) -> Sheet:
    metrics: tuple[Metric, ...] = ("wmape", "rce")
    counts: dict[str, Count] = {}
    for metric in metrics:
        for table, label in (("aggregate", "means over templates"), ("template", "per template")):
            name = f"{METRIC_NAMES[metric]}, {label}"
            counts[name] = comparison.matching(metric, table)
            for most in (2.0, LIMIT):
                chance = comparison.by_chance(metric, table, most)
                counts[f"{name}, within {most:g} deviations of one draw"] = chance
    counts["win counts at or above"] = matching(comparison.wins)
    return counts_sheet(
        "Published cells that ours match",
        counts,
        "Within 4 combined standard errors, or 0.15 points where the published one is 0.0. A "
        "deviation of one draw is that of the noise and of rounding alone, for the same patients. "
        "The published risk class errors divide HOMA by 1 instead of C - 1 = 2; for this "
        "comparison alone our HOMA figures are doubled.",
    )


def _headline(comparison: Comparison) -> Sheet:
    chosen = {
        (c.published.budget, c.published.config): c
        for c in comparison.cells
        if c.published.metric == "wmape"
        and c.table == "aggregate"
        and c.published.mechanism == "exponential"
        and c.published.epsilon == float(FOCUS)
    }
    return Sheet(
        title=f"wMAPE (%), exponential, ε = {epsilon_text(FOCUS)}",
        header=("budget", "config", "ours", "published", "SEs"),
        lines=tuple(
            (
                budget,
                config,
                with_error(c.ours, c.ours_se, 2),
                f"{c.published.value} ± {c.published.se}",
                f"{c.standard_errors:+.1f}",
            )
            for (budget, config), c in chosen.items()
        ),
        labels=2,
    )


def _claims(comparison: Comparison) -> Sheet:
    lines = []
    if comparison.ordered:
        good = comparison.ordered - len(comparison.disorders)
        limit = epsilon_text(ORDERED_TO)
        found = f"{good} of {comparison.ordered} means"
        lines.append((f"all > roots > opt in every mean at ε of {limit} and less", found))
    if comparison.wins:
        ours = sum(w.ours for w in comparison.wins)
        theirs = sum(w.published for w in comparison.wins)
        expected = math.fsum(w.expected for w in comparison.wins)
        found = f"{ours} (published {theirs}; one draw is expected to win {expected:.1f})"
        lines.append((f"opt beats all, of {_PAIRS * len(comparison.wins)} pairs", found))
    for law in comparison.laws:
        if law.epsilon == FOCUS:
            claim = f"share ∝ (|h|·D)^0.50, {law.mechanism}, ε = {epsilon_text(FOCUS)}"
            lines.append((claim, f"fitted slope {law.slope:.3f}"))
    return Sheet(
        title="The paper's claims", header=("claim", "found"), lines=tuple(lines), labels=2
    )
