"""The paper's figures as they were printed: percent, one decimal, whole numbers from 100 on.

Those of RQ1 are read here, the others where they are compared. `rq1_wmape` and `rq1_rce` are means
over the eight templates, `rq1_template_*` are per template at epsilon 0.1, `rq1_win_rate` counts in
how many of 30 pairs opt beats all.

The RCE tables divide HOMA by 1 where the paper's own definition says C - 1 = 2. The files are kept
as printed; `rq1_utility.claims` doubles our HOMA to compare like with like.
"""

import csv
import importlib.resources
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Literal

Metric = Literal["wmape", "rce"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedCell:
    """A printed figure. `template` is None for a mean over all eight."""

    metric: Metric
    budget: str
    epsilon: float
    template: str | None
    mechanism: str
    config: str
    value: float
    se: float


@cache
def published_cells() -> tuple[PublishedCell, ...]:
    """Every printed wMAPE and RCE, in the order of the files."""
    metrics: tuple[Metric, ...] = ("wmape", "rce")
    return tuple(
        PublishedCell(
            metric=metric,
            budget=row["budget"],
            epsilon=float(row["epsilon"]),
            template=row["template"].lower() if "template" in row else None,
            mechanism=row["mechanism"],
            config=row["config"],
            value=float(row[metric]),
            se=float(row["se"]),
        )
        for metric in metrics
        for file in (f"rq1_{metric}.csv", f"rq1_template_{metric}.csv")
        for row in published_lines(file)
    )


@cache
def published_wins() -> Mapping[tuple[str, str], int]:
    """Wins of opt over all in 30 pairs, by template and budget."""
    return MappingProxyType(
        {
            (row["template"].lower(), budget): int(row[budget])
            for row in published_lines("rq1_win_rate.csv")
            for budget in ("k+1", "2k+1", "3k+1")
        }
    )


def published_lines(file: str) -> list[dict[str, str]]:
    """A file of printed figures, line by line."""
    text = (importlib.resources.files(__name__) / file).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))
