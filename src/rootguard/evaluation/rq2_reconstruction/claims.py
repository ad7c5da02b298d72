"""The reconstruction study's figures as files and tables, and beside the published ones.

A published cell matches within 1.2 points or 12 % of it, whichever is more: the paper prints no
standard errors for RQ2 and its figures are one draw on the same 200 patients, ours the mean of the
run's repeats. What does not match is set against the spread of a single draw.
"""

import csv
import importlib.resources
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path

from rootguard.advice.people import PAPER_TEMPLATES
from rootguard.attacks.belief import PRIORS, PriorName
from rootguard.evaluation.metrics import mean_se
from rootguard.evaluation.rq1_utility.study import DIGITS, PAPER_CONFIGURATIONS
from rootguard.evaluation.rq2_reconstruction.errors import (
    ATTACK_CONFIGURATIONS,
    AttackConfiguration,
)
from rootguard.evaluation.rq2_reconstruction.study import STRATEGIES, AttackRow, Strategy
from rootguard.evaluation.study.aggregates import epsilon_text, write_csv
from rootguard.evaluation.study.tables import Sheet
from rootguard.mechanisms import mechanism_named
from rootguard.template import load_template
from rootguard.values import MechanismName

FOCUS = Fraction(1, 10)
FOCUS_PRIOR: PriorName = "informed"
POINTS, SHARE = 1.2, 0.12
JUDGED_FROM = Fraction(1, 20)
"""Below this epsilon the noise is as wide as the bounds; the cells are shown, not judged."""
ROW_COLUMNS = (
    "mechanism", "strategy", "prior", "epsilon", "q", "config", "template", "wmape", "wmape_se",
    "wmape_mc_se", "target", "k", "spread", "patients", "template_hash", "plan_hash",
    "cohort_digest", "synthetic", "seed", "repeats", "version", "error",
)  # fmt: skip
COMPARISON_COLUMNS = (
    "table", "mechanism", "strategy", "prior", "epsilon", "q", "config", "template", "ours",
    "ours_se", "published", "difference", "one_draw_sd", "match", "reason",
)  # fmt: skip
_LUCK = 4.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """What a mean over templates is of; with a template, a single figure."""

    mechanism: MechanismName
    strategy: Strategy
    prior: PriorName
    epsilon: Fraction
    queries: int
    config: AttackConfiguration
    template: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A figure in percent. `one_draw` is its standard deviation in a single repeat, if known."""

    value: float
    se: float
    one_draw: float | None


def singles(rows: Iterable[AttackRow]) -> dict[Key, Found]:
    """Every row that has a figure."""
    found = {}
    for row in rows:
        if row.wmape is None or row.wmape_se is None:
            continue
        one = None if row.wmape_mc is None else row.wmape_mc * math.sqrt(row.repeats)
        key = _key(row, row.cell.template)
        found[key] = Found(value=row.wmape, se=row.wmape_se, one_draw=one)
    return found


def means(rows: Sequence[AttackRow]) -> dict[Key, Found]:
    """Means over templates. One that lacks a template's figure is left out."""
    templates = {row.cell.template for row in rows}
    each = singles(rows)
    keys = dict.fromkeys(_key(row) for row in rows)
    made = {}
    for key in keys:
        members = [each.get(replace(key, template=template)) for template in templates]
        known = [member for member in members if member is not None]
        if len(known) == len(templates):
            made[key] = _mean(known)
    return made


def _mean(members: Sequence[Found]) -> Found:
    spreads = [member.one_draw for member in members if member.one_draw is not None]
    return Found(
        value=math.fsum(member.value for member in members) / len(members),
        se=mean_se(member.se for member in members),
        one_draw=mean_se(spreads) if len(spreads) == len(members) else None,
    )


def _key(row: AttackRow, template: str = "") -> Key:
    c = row.cell
    return Key(
        mechanism=c.mechanism, strategy=c.strategy, prior=c.prior, epsilon=c.epsilon,
        queries=c.queries, config=c.config, template=template,
    )  # fmt: skip


def write_attack_rows(folder: Path, rows: Sequence[AttackRow]) -> None:
    """`rq2.csv`, a line per cell, and `rq2_roots.csv`, a line per cell and root."""
    write_csv(
        folder / "rq2.csv",
        ROW_COLUMNS,
        (
            (
                *_names(_key(row)), row.cell.template, row.wmape, row.wmape_se, row.wmape_mc,
                row.target, row.roots, row.spread, row.patients, row.template_hash, row.plan_hash,
                row.cohort, str(row.synthetic).lower(), row.seed, row.repeats, row.version,
                row.error,
            )
            for row in rows
        ),
    )  # fmt: skip
    write_csv(
        folder / "rq2_roots.csv",
        (*ROW_COLUMNS[:7], "root", "observations", "wmape", "wmape_se"),
        (
            (*_names(_key(row)), row.cell.template, f.root, f.observations, f.wmape, f.wmape_se)
            for row in rows
            for f in row.by_root
        ),
    )


def write_attack_aggregates(folder: Path, rows: Sequence[AttackRow]) -> None:
    """The published files' shape, with our figures and their standard errors."""
    write_csv(
        folder / "rq2_wmape.csv",
        (*ROW_COLUMNS[:6], "wmape", "se"),
        (
            (*_names(key), round(mean.value, DIGITS), round(mean.se, DIGITS))
            for key, mean in means(rows).items()
        ),
    )
    name = focus_mechanism(rows)
    write_csv(
        folder / "rq2_template_wmape.csv",
        ("template", "q", "config", "wmape", "se"),
        (
            (key.template.upper(), key.queries, key.config, found.value, found.se)
            for key, found in singles(rows).items()
            if (key.mechanism, key.strategy, key.prior) == (name, "B", FOCUS_PRIOR)
            and key.epsilon == FOCUS
        ),
    )


def _names(key: Key) -> tuple[object, ...]:
    return (
        key.mechanism, key.strategy, key.prior, epsilon_text(key.epsilon), key.queries, key.config,
    )  # fmt: skip


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
        each = {
            key: figure
            for key, figure in singles(rows).items()
            if (key.mechanism, key.strategy, key.prior) == (name, "B", FOCUS_PRIOR)
            and key.epsilon == FOCUS
        }
        sheets.append(_by_template(f"{name}, {FOCUS_PRIOR} prior", each))
    return tuple(sheet for sheet in sheets if sheet.lines)


def _by_epsilon(title: str, chosen: dict[Key, Found]) -> Sheet:
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


def _by_template(what: str, each: dict[Key, Found]) -> Sheet:
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


def _text(found: Found | None, *, error: bool = False) -> str:
    if found is None:
        return "–"
    plain = f"{found.value:.{0 if found.value >= 100 else 1}f}"
    return f"{plain} ± {found.se:.1f}" if error else plain


@dataclass(frozen=True, kw_only=True, slots=True)
class AttackCompared:
    """A published figure and ours. `reason` is empty where they match."""

    key: Key
    published: float
    ours: Found
    synthetic: bool

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
            return "the cohort is synthetic; the paper's is not"
        if not self.ours.one_draw:
            return "no reason is known; repeats would show how much one draw varies"
        away = abs(self.difference) / self.ours.one_draw
        if away <= _LUCK:
            return f"the printed figure is one draw and {away:.1f} of its deviations away"
        unknown = "; the paper does not print its prior" if self.key.prior == "informed" else ""
        return f"no reason is known: {away:.1f} deviations of one draw away{unknown}"


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

    def matching(self, *, template: bool, judged: bool = True) -> tuple[int, int]:
        """How many cells of a table match, and how many there are; `judged`: from epsilon 0.05."""
        chosen = [
            cell
            for cell in self.cells
            if bool(cell.key.template) == template and (cell.key.epsilon >= JUDGED_FROM) == judged
        ]
        return sum(cell.matches for cell in chosen), len(chosen)


@cache
def published_attacks() -> tuple[tuple[Key, float], ...]:
    """Every printed figure; a cached one that is printed once for all q is listed for q = 1."""
    about = {"mechanism": "exponential", "strategy": "B", "prior": "informed", "epsilon": "0.1"}
    whole, each = _published("rq2_wmape.csv"), _published("rq2_template_wmape.csv")
    return (
        *((_read(row, row, row["q"]), float(row["wmape"])) for row in whole),
        *((_read(about, row, row["q"] or "1"), float(row["wmape"])) for row in each),
    )


def _read(about: dict[str, str], row: dict[str, str], queries: str) -> Key:
    return Key(
        mechanism=mechanism_named(about["mechanism"]),
        strategy=next(s for s in STRATEGIES if s == about["strategy"]),
        prior=next(p for p in PRIORS if p == about["prior"]),
        epsilon=Fraction(about["epsilon"]),
        queries=int(queries),
        config=next(c for c in PAPER_CONFIGURATIONS if c == row["config"]),
        template=row.get("template", "").lower(),
    )


def _published(file: str) -> list[dict[str, str]]:
    folder = importlib.resources.files("rootguard.evaluation.published")
    return list(csv.DictReader((folder / file).read_text("utf-8").splitlines()))


def compare_attacks(rows: Sequence[AttackRow]) -> AttackComparison:
    """Compare a run with the paper. Templates count only if they are the catalog's own."""
    digests = {name: load_template(name).digest for name in PAPER_TEMPLATES}
    ours = [
        row
        for row in rows
        if digests.get(row.cell.template) == row.template_hash and row.spread == "each"
    ]
    synthetic = any(row.synthetic for row in rows)
    found = singles(ours)
    if {row.cell.template for row in ours} == set(PAPER_TEMPLATES):
        found |= means(ours)
    series: dict[Key, list[tuple[int, float]]] = {}
    for key, figure in singles(rows).items():
        start = replace(key, queries=0)
        series.setdefault(start, []).append((key.queries, figure.value))
    values = {key: [value for _, value in sorted(points)] for key, points in series.items()}
    cached = [line for key, line in values.items() if key.config != "all"]
    fresh = [line for key, line in values.items() if key.config == "all"]
    return AttackComparison(
        cells=tuple(
            AttackCompared(key=key, published=value, ours=found[key], synthetic=synthetic)
            for key, value in published_attacks()
            if key in found
        ),
        cached=len(cached),
        varying=sum(len(set(line)) > 1 for line in cached),
        series=len(fresh),
        rising=sum(any(later > earlier for earlier, later in pairwise(line)) for line in fresh),
    )


def comparison_rows(comparison: AttackComparison) -> Iterable[tuple[object, ...]]:
    """`rq2_comparison.csv`, without its header."""
    for cell in comparison.cells:
        key, one = cell.key, cell.ours.one_draw
        yield (
            "template" if key.template else "aggregate", *_names(key), key.template.upper(),
            round(cell.ours.value, DIGITS), round(cell.ours.se, DIGITS), cell.published,
            round(cell.difference, DIGITS), None if one is None else round(one, DIGITS),
            str(cell.matches).lower(), cell.reason,
        )  # fmt: skip


def attack_comparison_sheets(comparison: AttackComparison) -> tuple[Sheet, ...]:
    """A summary, the headline cells, the paper's claims, and every cell that does not match."""
    tables = (
        ("means over templates, ε ≥ 0.05", comparison.matching(template=False)),
        ("per template, ε = 0.1", comparison.matching(template=True)),
        ("means over templates, ε = 0.01", comparison.matching(template=False, judged=False)),
    )
    headline = [
        cell
        for cell in comparison.cells
        if not cell.key.template and cell.key.epsilon == FOCUS and cell.key.prior == FOCUS_PRIOR
    ]
    sheets = (
        Sheet(
            title="Published cells that ours match",
            header=("table", "match", "of"),
            lines=tuple((name, str(good), str(of)) for name, (good, of) in tables if of),
            note="Within 1.2 points or 12 %, whichever is more.",
        ),
        Sheet(
            title="Reconstruction wMAPE (%), exponential, ε = 0.1, strategy B, informed prior",
            header=("config", "q", "ours", "published", "difference"),
            lines=tuple(
                (
                    cell.key.config, str(cell.key.queries),
                    f"{cell.ours.value:.2f} ± {cell.ours.se:.2f}", f"{cell.published:g}",
                    f"{cell.difference:+.2f}",
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
                    f"{cell.ours.value:.2f} ± {cell.ours.se:.2f}", f"{cell.published:g}",
                )
                for cell in comparison.cells
                if not cell.matches
            ),
            labels=6,
        ),
    )  # fmt: skip
    return tuple(sheet for sheet in sheets if sheet.lines)
