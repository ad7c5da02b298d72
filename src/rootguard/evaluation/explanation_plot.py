"""The figure of `rootguard explain`: three panels over epsilon, one line per configuration."""

from pathlib import Path

from rootguard.advice.drawing import (
    COLOURS,
    LABELS,
    MARKERS,
    PAGE,
    legend_above,
    new_figure,
    style,
)
from rootguard.evaluation.explanation import Explanation


def draw(found: Explanation, path: Path) -> None:
    """Write the figure; the file's ending says the format."""
    panels = [
        ("target error, %", "target_error"),
        ("adversary's error on roots, %", "adversary_error"),
    ]
    if found.template.risk:
        panels.insert(1, ("risk-class error, %", "risk_error"))
    with style():
        figure, axes = new_figure(PAGE, 2.6, (1, len(panels)), synthetic=True)
        for axis, (label, field) in zip(axes, panels, strict=True):
            for config in found.configurations:
                path_of = found.of(config)
                axis.plot(
                    [float(each.epsilon) for each in path_of],
                    [getattr(each, field) for each in path_of],
                    color=COLOURS[config],
                    marker=MARKERS[config],
                    label=LABELS[config],
                )
            axis.set_xscale("log")
            axis.set_xlabel("epsilon per turn")
            axis.set_ylabel(label)
            if field == "target_error":
                axis.axhline(found.median_error, color="#888888", linestyle=":", linewidth=0.9)
                axis.set_yscale("log")
        legend_above(figure, axes[0], len(found.configurations))
        figure.set_layout_engine("constrained")
        figure.savefig(path, dpi=200)
