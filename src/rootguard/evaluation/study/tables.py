"""Tables for people, in Markdown and LaTeX, laid out as the paper's.

A `Sheet` is text in cells and knows nothing of what it shows; the functions here fill one from
rows, from the structural analysis, and `comparison` from both.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from rootguard.evaluation.rq1_utility.study import CONFIGURATIONS, TURNS, Configuration, Row
from rootguard.evaluation.rq3_structure import Amplification, Gain, PowerLaw, Regime, RootShare
from rootguard.evaluation.study.aggregates import (
    MEASURES,
    MEDIAN,
    Measure,
    aggregates,
    epsilon_text,
    figure,
    mean_population_median,
    population_medians,
    win_mechanisms,
    win_rates,
)
from rootguard.values import MechanismName

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
_FITTING = 13
"""Columns that fit a page as they are; a wider table is made smaller."""
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "ε": r"$\varepsilon$", "±": r"$\pm$", "×": r"$\times$", "·": r"$\cdot$", "∞": r"$\infty$",
    "≥": r"$\geq$", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip


class Strong(str):
    """A cell that is set in bold."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Sheet:
    """A table for people: the first `labels` columns name a line, the others are aligned right."""

    title: str
    header: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    note: str = ""
    labels: int = 1


def to_markdown(sheet: Sheet) -> str:
    """A table that any Markdown reader shows."""

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    def cell(text: str) -> str:
        plain = text.replace("|", "\\|").replace("\n", " ")
        return f"**{plain}**" if isinstance(text, Strong) else plain

    rule = (":--" if i < sheet.labels else "--:" for i in range(len(sheet.header)))
    parts = [f"### {sheet.title}", "", line(map(cell, sheet.header)), line(rule)]
    parts += [line(map(cell, cells)) for cells in sheet.lines]
    return "\n".join([*parts, *(["", sheet.note] if sheet.note else [])]) + "\n"


def to_latex(sheet: Sheet) -> str:
    """A table for a paper that loads booktabs, and graphicx for the widest ones."""

    def cell(text: str) -> str:
        plain = "".join(_LATEX.get(character, character) for character in text)
        return rf"\textbf{{{plain}}}" if isinstance(text, Strong) else plain

    def line(cells: Iterable[str]) -> str:
        return " & ".join(map(cell, cells)) + r" \\"

    columns = "l" * sheet.labels + "r" * (len(sheet.header) - sheet.labels)
    caption = cell(f"{sheet.title}. {sheet.note}".removesuffix(". ") if sheet.note else sheet.title)
    kind, size = ("table*", r"\scriptsize\setlength{\tabcolsep}{2.8pt}")
    if len(sheet.header) <= 5:
        kind, size = "table", r"\small"
    opened, closed = (r"\resizebox{\textwidth}{!}{", "}")
    if len(sheet.header) <= _FITTING:
        opened, closed = "", ""
    parts = [
        rf"\begin{{{kind}}}[t]", r"\centering", size, rf"\caption{{{caption}}}",
        rf"{opened}\begin{{tabular}}{{{columns}}}", r"\toprule", line(sheet.header), r"\midrule",
        *map(line, sheet.lines), r"\bottomrule", rf"\end{{tabular}}{closed}", rf"\end{{{kind}}}",
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def rq1_sheets(rows: Sequence[Row], *, focus: Fraction) -> tuple[Sheet, ...]:
    """Aggregates per budget, each template at the epsilon in focus, and the win rates."""
    columns = _columns(rows)
    sheets = []
    for measure in MEASURES:
        name, means = METRIC_NAMES[measure], aggregates(rows, measure)
        measured = {row.cell.template for row in rows if figure(row, measure) is not None}
        many = f"mean of {', '.join(sorted(measured))}"
        medians = population_medians(rows) if measure == "wmape" else {}
        middle = mean_population_median(rows) if measure == "wmape" else None
        for budget in TURNS:
            whole = {
                (epsilon_text(m.epsilon), m.mechanism, m.config): (m.value, m.se)
                for m in sorted(means.values(), key=lambda m: -m.epsilon)
                if m.budget == budget
            }
            each = {
                (row.cell.template.upper(), row.cell.mechanism, row.cell.config): found[:2]
                for row in rows
                if row.cell.budget == budget and row.cell.epsilon == focus
                if (found := figure(row, measure)) is not None
            }
            title = f"{name} (%), {many}, B = ({budget})ε"
            beside = {} if middle is None else {key[0]: middle for key in whole}
            sheets.append(_grid(title, "ε", columns, whole, measure, beside))
            title = f"{name} (%) per template, ε = {epsilon_text(focus)}, B = ({budget})ε"
            beside = {template.upper(): value for template, value in medians.items()}
            sheets.append(_grid(title, "template", columns, each, measure, beside))
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
    return tuple(sheet for sheet in sheets if sheet.lines)


def rq3_sheets(
    shares: Sequence[RootShare],
    laws: Sequence[PowerLaw],
    sorted_regimes: Sequence[Regime],
    amplified: Sequence[Amplification],
    gained: Sequence[Gain] = (),
    *,
    focus: Fraction,
) -> tuple[Sheet, ...]:
    """Regimes, what each step gains, the power law, where the budget goes, and amplification."""
    at_focus = [share for share in shares if share.epsilon == focus]
    kinds = tuple(dict.fromkeys(map(plan_name, at_focus)))
    by_root: dict[tuple[str, str], dict[str, RootShare]] = {}
    for share in at_focus:
        by_root.setdefault((share.template, share.root), {})[plan_name(share)] = share
    sheets = (
        *_gain_sheets(gained, focus),
        Sheet(
            title=f"Regimes: wMAPE (%) at ε = {epsilon_text(focus)}, B = (2k+1)ε, exponential",
            header=("template", "formula", "regime", "all", "opt", "gap", "ratio"),
            lines=tuple(
                (
                    r.template.upper(),
                    r.formula,
                    r.regime,
                    f"{r.all:.1f}",
                    f"{r.opt:.1f}",
                    f"{r.gap:.1f}",
                    "–" if r.ratio is None else f"{r.ratio:.1f}×",
                )
                for r in sorted_regimes
            ),
            note="Sorted as in the paper, by the gap in percentage points; see structure.GAP.",
            labels=3,
        ),
        Sheet(
            title="Power law: share of the budget as a power of |h|·D, B = (2k+1)ε",
            header=("mechanism", "ε", "slope", "SE", "roots", "clamped"),
            lines=tuple(
                (
                    law.mechanism,
                    epsilon_text(law.epsilon),
                    f"{law.slope:.3f}",
                    "–" if law.se is None else f"{law.se:.3f}",
                    str(law.points),
                    str(law.clamped),
                )
                for law in laws
            ),
            note="One intercept per template; roots at the least epsilon are left out.",
        ),
        Sheet(
            title=f"Share of the budget (%) per root, ε = {epsilon_text(focus)}, B = (2k+1)ε",
            header=("template", "root", "|h|", "|h|·D", *kinds),
            lines=tuple(
                (template.upper(), root, *_share_cells(by_kind, kinds))
                for (template, root), by_kind in by_root.items()
            ),
            note="A root with |h| = 0 does not move the target and gets the least epsilon.",
            labels=2,
        ),
        Sheet(
            title="Amplification: what noising a computed value on its own does to a root's ε",
            header=("template", "value", "root", "factor"),
            lines=tuple((a.template.upper(), a.value, a.root, number(a.factor)) for a in amplified),
            note="Theorem 2: L·D_x/D_y over the bounds, an upper bound.",
            labels=3,
        ),
    )
    return tuple(sheet for sheet in sheets if sheet.lines)


def _gain_sheets(gained: Sequence[Gain], focus: Fraction) -> Iterable[Sheet]:
    if not gained:
        return
    configs = [c for c in CONFIGURATIONS if any(c in gain.figures for gain in gained)]
    name, at = gained[0].mechanism, epsilon_text(focus)
    yield Sheet(
        title=f"What each step gains: wMAPE (%) at ε = {at}, B = (2k+1)ε, {name}",
        header=("template", *configs, MEDIAN),
        lines=tuple(
            (
                gain.template.upper(),
                *(f"{gain.figures[c]:.2f}" if c in gain.figures else "–" for c in configs),
                "–" if gain.median is None else f"{gain.median:.2f}",
            )
            for gain in gained
        ),
        note="calibrated has the draws of opt. The population median needs no release.",
    )


def plan_name(share: RootShare) -> str:
    """What a plan is called beside others: its mechanism, and what it is made for if not usual."""
    usual = share.allocation == "optimal"
    return share.mechanism if usual else f"{share.mechanism}, {share.allocation} plan"


def _share_cells(by_kind: Mapping[str, RootShare], kinds: Sequence[str]) -> tuple[str, ...]:
    one = next(iter(by_kind.values()))
    shares = (by_kind.get(kind) for kind in kinds)
    percent = ("–" if s is None else f"{100 * s.share:.1f}" for s in shares)
    return (number(one.sensitivity), number(one.product), *percent)


def number(value: float) -> str:
    """Four significant digits; infinity by its sign."""
    return f"{value:.4g}" if math.isfinite(value) else "∞"


_Column = tuple[MechanismName, Configuration]


def _columns(rows: Sequence[Row]) -> tuple[_Column, ...]:
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
    found: Mapping[tuple[str, MechanismName, Configuration], tuple[float, float]],
    measure: Measure,
    medians: Mapping[str, float],
) -> Sheet:
    """Mechanisms by configurations across, then the median; the best of each line in bold."""
    choose = max if measure == "sensitivity" else min
    made = []
    for line in dict.fromkeys(key[0] for key in found):
        cells = [found.get((line, *column)) for column in columns]
        values = [float(_plain(cell[0])) for cell in cells if cell is not None]
        if line in medians:
            values.append(float(_plain(medians[line])))
        best = choose(values)
        texts = [_with_error(cell, best=best) for cell in cells]
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


def _with_error(cell: tuple[float, float] | None, *, best: float) -> str:
    if cell is None:
        return "–"
    return _marked(cell[0], best=best, more=f" ± {cell[1]:.1f}")


def _marked(value: float, *, best: float, more: str = "") -> str:
    text = _plain(value) + more
    return Strong(text) if float(_plain(value)) == best else text
