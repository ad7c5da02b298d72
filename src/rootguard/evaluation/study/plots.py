"""Figures of a study: drawn, and written as PDF, SVG and PNG.

The same figures give the same bytes: no date is written and ids are salted with a constant.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rootguard.advice.drawing import COLOURS, COLUMN, LABELS, MARKERS, PAGE, new_figure, style
from rootguard.evaluation.metrics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("pdf", "svg", "png")
Drawing = Callable[[], "Figure | None"]
"""Draws when it is called; None where there is nothing to draw."""


def save(
    figures: Mapping[str, Drawing], folder: Path, drawn: Callable[[str], object] = lambda _: None
) -> dict[str, Path]:
    """Draw and write each figure in every format; the paths of the SVGs by name.

    A figure without data is left out.
    """
    written = {}
    with style():
        folder.mkdir(parents=True, exist_ok=True)
        for name, draw in figures.items():
            figure = draw()
            drawn(f"figure {name}")
            if figure is None:
                continue
            figure.draw_without_rendering()
            figure.set_layout_engine("none")  # laid out once, for all formats
            for kind in FORMATS:
                path = folder / f"{name}.{kind}"
                part = folder / f".{name}.part.{kind}"
                figure.savefig(part, format=kind, dpi=300, metadata=_undated(kind))
                part.replace(path)
            written[name] = folder / f"{name}.svg"
    return written


def _undated(kind: str) -> dict[str, None]:
    keys = {"pdf": ("CreationDate", "ModDate", "Producer"), "svg": ("Date",), "png": ("Software",)}
    return dict.fromkeys(keys[kind])


def plain_log(
    axes: "Axes",
    which: Literal["x", "y", "both"],
    ticks: Iterable[float] = (),
    steps: tuple[float, ...] = (1.0,),
) -> None:
    """Logarithmic axes whose ticks read 0.01, 1, 100, at the given steps of each decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    plain = FuncFormatter(lambda value, _: f"{value:g}")
    chosen = list(ticks)
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        if which not in (name, "both"):
            continue
        axes.set_xscale("log") if name == "x" else axes.set_yscale("log")
        axis.set_major_locator(LogLocator(base=10, subs=steps, numticks=12))
        axis.set_major_formatter(plain)
        axis.set_minor_formatter(NullFormatter())
        if chosen and name == "x":
            axes.set_xticks(chosen)
            axis.set_minor_locator(NullLocator())


def panel_grid(
    count: int,
    across: int,
    height: tuple[float, float],
    *,
    synthetic: bool,
    x: bool = False,
    y: bool = False,
) -> "tuple[Figure, list[Axes], list[Axes]]":
    """So many panels, at most so many beside each other, and those that have none below them.

    `height` is in inches: of what stands around the panels, and of a row of them.
    """
    across = min(across, count)
    down = -(-count // across)
    width = PAGE if across > 1 else COLUMN
    figure, places = new_figure(
        width, height[0] + height[1] * down, (down, across), synthetic=synthetic, x=x, y=y
    )
    for axes in places[count:]:
        axes.set_visible(False)
    return figure, places[:count], places[count - across : count]


def draw_line(
    axes: "Axes",
    places: Sequence[float] | Sequence[str],
    estimates: Iterable[Estimate],
    config: str,
    **look: Any,  # noqa: ANN401 - whatever Matplotlib understands
) -> None:
    """A configuration's estimates with their standard errors, in its colour and with its marker."""
    known = list(estimates)
    own = {"color": COLOURS.get(config), "marker": MARKERS.get(config), "label": LABELS.get(config)}
    axes.errorbar(
        places, [each.value for each in known], yerr=[each.se for each in known], **own | look
    )
