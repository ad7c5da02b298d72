"""How every figure looks, sized for one (3.3 in) or two (6.9 in) columns of a page.

Colours are Okabe and Ito's, which stay apart for colour-blind readers, and every series has a
marker of its own. Legends stand beside the data, never on it. Matplotlib is optional and imported
when a figure is drawn: without it there is an ImportError then, and everything else works.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN, PAGE = 3.3, 6.9
"""Widths in inches: one column of a two-column page, and both."""
_ORANGE, _SKY, GREEN, _YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, RED, _PURPLE, BLACK = "#0072B2", "#D55E00", "#CC79A7", "#000000"
GREY = "#777777"
COLOURS: Mapping[str, str] = {
    "all": RED,
    "roots": BLUE,
    "opt": GREEN,
    "calibrated": _PURPLE,
    "population": _ORANGE,
}
MARKERS: Mapping[str, str] = {
    "all": "s",
    "roots": "o",
    "opt": "^",
    "calibrated": "D",
    "population": "v",
}
LABELS: Mapping[str, str] = {
    "all": "all (independent noise)",
    "roots": "roots (even split)",
    "opt": "opt (weighted split)",
    "calibrated": "calibrated (opt, then calibrated)",
    "population": "population (own plan, calibrated)",
}
PALETTE = (BLUE, _ORANGE, GREEN, _PURPLE, _SKY, RED, _YELLOW, BLACK)
_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 7.0,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.4,
    "legend.fontsize": 7.0,
    "legend.frameon": False,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.6,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "pdf.fonttype": 42,
    "svg.hashsalt": "rootguard",
    "svg.fonttype": "path",
    "figure.constrained_layout.use": True,
}
_SYNTHETIC = "synthetic cohort"


@contextmanager
def style() -> Iterator[None]:
    """The look of all figures, for one that is drawn elsewhere."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
        yield


def new_figure(
    width: float, height: float, shape: tuple[int, int], *, synthetic: bool, **sharing: bool
) -> "tuple[Figure, list[Axes]]":
    """An empty figure of so many inches and panels; a synthetic cohort is written on it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    grid = figure.subplots(
        *shape, squeeze=False, sharex=sharing.get("x", False), sharey=sharing.get("y", False)
    )
    if synthetic:
        figure.supxlabel(_SYNTHETIC.upper(), fontsize=6.5, color=RED, fontweight="bold")
    return figure, list(grid.flat)


def legend_above(figure: "Figure", panels: "Axes | Sequence[Axes]", columns: int) -> None:
    """One legend for a panel or several, over them, where it hides no data."""
    found: dict[str, Artist] = {}
    for axes in panels if isinstance(panels, Sequence) else (panels,):
        handles, names = axes.get_legend_handles_labels()
        found |= dict(zip(names, handles, strict=True))
    known = list(LABELS.values())
    order = {label: known.index(label) if label in known else len(known) for label in found}
    labels = sorted(found, key=lambda label: (label == "published", order[label]))
    figure.legend(
        [found[label] for label in labels], labels, loc="outside upper center", ncols=columns,
        columnspacing=1.2, handletextpad=0.5,
    )  # fmt: skip
