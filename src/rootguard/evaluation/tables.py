"""Tables for people, in Markdown and LaTeX, laid out as the paper's.

A `Sheet` is text in cells and knows nothing of what it shows; the functions here fill one from
rows, from the structural analysis, and `comparison` from both.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from rootguard.evaluation.aggregates import (
    aggregates,
    epsilon_text,
    figure,
    win_mechanisms,
    win_rates,
)
from rootguard.evaluation.experiment import CONFIGURATIONS, TURNS, Row
from rootguard.evaluation.published import Metric
from rootguard.evaluation.structure import Amplification, PowerLaw, Regime, RootShare
from rootguard.values import MechanismName

SHORT: Mapping[MechanismName, str] = {
    "exponential": "Exp",
    "laplace": "BLap",
    "staircase": "Stair",
    "geometric": "Geom",
}
"""The paper's short names, so that twelve columns fit a page."""
METRIC_NAMES: Mapping[Metric, str] = {"wmape": "wMAPE", "rce": "risk class error"}
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
    """A table for a paper that loads booktabs; across both columns if it is wide."""

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
    parts = [
        rf"\begin{{{kind}}}[t]", r"\centering", size, rf"\caption{{{caption}}}",
        rf"\begin{{tabular}}{{{columns}}}", r"\toprule", line(sheet.header), r"\midrule",
        *map(line, sheet.lines), r"\bottomrule", r"\end{tabular}", rf"\end{{{kind}}}",
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def rq1_sheets(rows: Sequence[Row], *, focus: Fraction) -> tuple[Sheet, ...]:
    """Aggregates per budget, each template at the epsilon in focus, and the win rates."""
    mechanisms = tuple(dict.fromkeys(row.cell.mechanism for row in rows))
    sheets = []
    metrics: tuple[Metric, ...] = ("wmape", "rce")
    for metric in metrics:
        name, means = METRIC_NAMES[metric], aggregates(rows, metric)
        measured = {row.cell.template for row in rows if figure(row, metric) is not None}
        many = f"mean of {', '.join(sorted(measured))}"
        for budget in TURNS:
            whole = {
                (epsilon_text(m.epsilon), m.mechanism, str(m.config)): (m.value, m.se)
                for m in sorted(means.values(), key=lambda m: -m.epsilon)
                if m.budget == budget
            }
            each = {
                (row.cell.template.upper(), row.cell.mechanism, str(row.cell.config)): found[:2]
                for row in rows
                if row.cell.budget == budget and row.cell.epsilon == focus
                if (found := figure(row, metric)) is not None
            }
            title = f"{name} (%), {many}, B = ({budget})ε"
            sheets.append(_grid(title, "ε", mechanisms, whole))
            title = f"{name} (%) per template, ε = {epsilon_text(focus)}, B = ({budget})ε"
            sheets.append(_grid(title, "template", mechanisms, each))
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
    *,
    focus: Fraction,
) -> tuple[Sheet, ...]:
    """Regimes, the power law, where the budget goes, and amplification."""
    at_focus = [share for share in shares if share.epsilon == focus]
    mechanisms = tuple(dict.fromkeys(share.mechanism for share in at_focus))
    by_root: dict[tuple[str, str], dict[MechanismName, RootShare]] = {}
    for share in at_focus:
        by_root.setdefault((share.template, share.root), {})[share.mechanism] = share
    sheets = (
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
            header=("template", "root", "|h|", "|h|·D", *mechanisms),
            lines=tuple(
                (template.upper(), root, *_share_cells(by_mechanism, mechanisms))
                for (template, root), by_mechanism in by_root.items()
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


def _share_cells(
    by_mechanism: Mapping[MechanismName, RootShare], mechanisms: Sequence[MechanismName]
) -> tuple[str, ...]:
    one = next(iter(by_mechanism.values()))
    shares = (by_mechanism.get(name) for name in mechanisms)
    percent = ("–" if s is None else f"{100 * s.share:.1f}" for s in shares)
    return (number(one.sensitivity), number(one.product), *percent)


def number(value: float) -> str:
    """Four significant digits; infinity by its sign."""
    return f"{value:.4g}" if math.isfinite(value) else "∞"


def _grid(
    title: str,
    corner: str,
    mechanisms: Sequence[MechanismName],
    found: Mapping[tuple[str, MechanismName, str], tuple[float, float]],
) -> Sheet:
    """Mechanisms by configurations across, with the least of each line in bold."""
    columns = [(name, config) for name in mechanisms for config in CONFIGURATIONS]
    made = []
    for line in dict.fromkeys(key[0] for key in found):
        cells = [found.get((line, *column)) for column in columns]
        best = min(float(_plain(cell[0])) for cell in cells if cell is not None)
        made.append((line, *(_with_error(cell, best=best) for cell in cells)))
    return Sheet(
        title=title,
        header=(corner, *(f"{SHORT[name]} {config}" for name, config in columns)),
        lines=tuple(made),
        note="± bootstrap standard error over patients; best of each line in bold. Exp, BLap, "
        "Stair, Geom: exponential, bounded Laplace, staircase and geometric noise.",
    )


def _plain(value: float) -> str:
    """As the paper prints it: one decimal, whole from 100 on."""
    return f"{value:.{0 if value >= 100 else 1}f}"


def _with_error(cell: tuple[float, float] | None, *, best: float) -> str:
    if cell is None:
        return "–"
    value, se = cell
    text = f"{_plain(value)} ± {se:.1f}"
    return Strong(text) if float(_plain(value)) <= best else text
