"""The shared development cases for tools, if they are beside the project, and how they are read.

`python -m tests.support.shared_tools` prints the figures. None of the cases is in the project.
"""

import json
import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rootguard.channels.tools import Binding, ToolMap, understand
from rootguard.language.units import canonical, convert
from rootguard.template import Template
from tests.support.schemas import IDENTIFIERS, ROOTS, TEMPLATES

_BESIDE = Path(__file__).parents[3] / "shared" / "cases"
FOLDER = Path(os.environ.get("ROOTGUARD_CASES", _BESIDE)) / "tools"
UNITS = FOLDER / "units.jsonl"
SERVER = FOLDER / "vitaldb.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """A server's tools: bindings right, wrong and missed, and tools that need no pin.

    A tool needs one if it requires a parameter that is asked about.
    """

    tools: int
    right: int
    wrong: int
    missed: int
    callable: int

    @property
    def recall(self) -> float:
        return self.right / (self.right + self.missed)


def read(tool: dict[str, Any], templates: tuple[Template, ...] = TEMPLATES) -> ToolMap:
    """A tool as it is understood for a person with these templates, the whole catalog."""
    behind = {root for each in templates for root in each.roots}
    return understand(
        tool.get("name", ""),
        tool.get("description") or "",
        tool["inputSchema"],
        {name: root for name, root in ROOTS.items() if name in behind},
        templates,
        identifiers=IDENTIFIERS,
    )


# What takes a value of a template that is younger than the labels, by hand from the tools' words.
# True: to be bound. False: bound or not, both are fine, since the words say a little more or less.
_YOUNGER = {
    "chads2_vasc_score": {
        "chf": ("heart_failure", True),
        "hypertension": ("hypertension", True),
        "stroke_history": ("prior_stroke", False),
        "vascular_disease": ("vascular_disease", True),
        "diabetes": ("diabetes_dx", True),
    },
    "prevent_cvd_risk": {
        "diabetes": ("diabetes_dx", True),
        "current_smoker": ("smoker", True),
        "using_antihtn": ("bp_treated", False),
    },
    "revised_cardiac_risk_index": {
        "congestive_heart_failure": ("heart_failure", False),
        "cerebrovascular_disease": ("prior_stroke", False),
    },
    "caprini_score": {"chf": ("heart_failure", True), "stroke": ("prior_stroke", False)},
    "framingham_risk_score": {"treated_for_bp": ("bp_treated", True), "smoker": ("smoker", True)},
    "has_bled_score": {"stroke_history": ("prior_stroke", False)},
    "psi_port_score": {
        "chf_history": ("heart_failure", False),
        "cerebrovascular_disease": ("prior_stroke", False),
    },
}


def _labels() -> dict[str, dict[str, dict[str, Any]]]:
    labels: dict[str, dict[str, dict[str, Any]]] = json.loads(
        (FOLDER / "vitaldb_labels.json").read_text("utf-8")
    )["tools"]
    for tool, younger in _YOUNGER.items():
        for parameter, (root, bound) in younger.items():
            label = {"root": root, "unit": "", "optional": not bound}
            labels.setdefault(tool, {}).setdefault(parameter, label)
    return labels


def unit_outcomes() -> dict[str, int]:
    """How many parameters are read rightly, wrongly, or asked about."""
    counts = dict.fromkeys(("right", "wrong", "asked"), 0)
    for line in UNITS.read_text("utf-8").splitlines():
        case = json.loads(line)
        bindings = [b for b in read(case["tool"]).bindings if b.parameter[-1] == case["parameter"]]
        if not bindings:
            counts["right" if case["root"] is None else "asked"] += 1
            continue
        (binding,) = bindings
        counts["right" if _is_right(binding, case) else "wrong"] += 1
    return counts


def _is_right(binding: Binding, case: dict[str, Any]) -> bool:
    if binding.name != case["root"]:
        return False
    if not binding.own or binding.ends is not None:
        return True
    zero, one = (
        convert(x, binding.own, binding.unit or binding.own, binding.substance) for x in (0.0, 1.0)
    )
    assert zero is not None
    assert one is not None
    return math.isclose(one - zero, case["factor"], rel_tol=0.01)


def server_figures() -> Figures:
    """How the tools of the shared server are read."""
    labels = _labels()
    tools = json.loads(SERVER.read_text("utf-8"))
    counts = dict.fromkeys(("right", "wrong", "missed", "callable"), 0)
    for tool in tools:
        gold = labels.get(tool["name"], {})
        made = read(tool)
        got = {".".join(each.parameter): each for each in made.bindings}
        for path, binding in got.items():
            label = gold.get(path)
            unit = canonical(binding.unit or binding.own) or ""
            right = (
                label is not None
                and binding.name == label["root"]
                and unit == (canonical(label["unit"]) or label["unit"])
            )
            counts["wrong"] += not right
            counts["right"] += right and not (label or {}).get("optional", False)
        counts["missed"] += sum(
            path not in got and not label.get("optional", False) for path, label in gold.items()
        )
        needed = tool["inputSchema"].get("required", ())
        counts["callable"] += not any(each.parameter[0] in needed for each in made.asked)
    return Figures(tools=len(tools), **counts)


if __name__ == "__main__":
    sys.stdout.write(f"{unit_outcomes()}\n{server_figures()}\n")
