"""Real patients for tests that ask for them; absent, those tests are skipped with a reason."""

import csv
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "shared" / "data" / "cohort"

needs_cohort = pytest.mark.skipif(not FOLDER.is_dir(), reason="the cohort folder is not here")


def patients(template: str) -> list[dict[str, float]]:
    """The roots of each patient."""
    with (FOLDER / f"{template}.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [{root: float(value) for root, value in row.items() if root != "seqn"} for row in rows]
