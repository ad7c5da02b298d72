"""Units as laboratories, forms and programs of several countries write them, and how they are read.

`spellings` was there while the reader was written; `spellings_held_out`, two fifths of one list cut
by a digest, is only ever counted. A line is one parameter: its name, the root that it takes, the
unit ("?": one that no root has, so the owner is asked), and its description.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

from rootguard.channels.tools import ToolMap, understand
from rootguard.language.units import convert
from tests.support.schemas import IDENTIFIERS, ROOTS, TEMPLATES

FOLDER = Path(__file__).parents[1] / "data" / "units"
_UNKNOWN = "?"
_MONEY = frozenset(("income", "savings", "rate", "loan", "home_value", "spending", "housing_cost"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Spelled:
    """One parameter and what it takes."""

    parameter: str
    root: str
    unit: str
    description: str

    def read(self) -> ToolMap:
        """How a form with this one parameter is understood."""
        schema: dict[str, object] = {"type": "number"}
        if self.description:
            schema["description"] = self.description
        about = "Budget of the applicant" if self.root in _MONEY else "Findings of the patient"
        whole = {"type": "object", "properties": {self.parameter: schema}}
        return understand("form", about, whole, ROOTS, TEMPLATES, identifiers=IDENTIFIERS)

    def outcome(self) -> str:
        """`right`, `wrong` or `asked`; to ask is right where nothing else is."""
        made = self.read()
        if not made.bindings:
            return "right" if self.unit == _UNKNOWN else "asked"
        (binding,) = made.bindings
        unit = binding.unit or binding.own
        same = [convert(x, unit, self.unit, binding.substance) for x in (0.0, 1.0)] == [0.0, 1.0]
        return "right" if same and binding.name == self.root else "wrong"


def spelled(title: str) -> list[Spelled]:
    """The parameters of one list."""
    with (FOLDER / f"{title}.tsv").open(encoding="utf-8", newline="") as lines:
        return [Spelled(**row) for row in csv.DictReader(lines, delimiter="\t")]


def counted(title: str) -> dict[str, int]:
    """How many parameters of a list are read rightly, wrongly, or not without being asked."""
    outcomes = [each.outcome() for each in spelled(title)]
    return {kind: outcomes.count(kind) for kind in ("right", "wrong", "asked")}
