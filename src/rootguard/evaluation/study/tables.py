"""Tables for people, in Markdown and LaTeX, laid out as the paper's.

A `Sheet` is text in cells and knows nothing of what it shows.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

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


def number(value: float) -> str:
    """Four significant digits; infinity by its sign."""
    return f"{value:.4g}" if math.isfinite(value) else "∞"


def with_error(value: float, se: float, decimals: int = 1) -> str:
    """A figure and its standard error."""
    return f"{value:.{decimals}f} ± {se:.{decimals}f}"


def filled(sheets: Iterable[Sheet]) -> tuple[Sheet, ...]:
    """The tables in which anything stands."""
    return tuple(sheet for sheet in sheets if sheet.lines)
