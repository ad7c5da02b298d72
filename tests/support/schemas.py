"""Labelled tool schemas, and how well they are understood.

`dev` and `held_out` are halves of one set, cut by the digest of the tools' names before the reader
was written; `public` are tools of public MCP servers, looked up after it was. A binding is right
only if the name and the unit are.

How every tool of a set is read stands beside it (`dev.txt`, ...), so that a change of the reader
shows as a change of these files: `python -m tests.support.schemas` writes them anew.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rootguard.channels.tools import (
    Pins,
    ToolMap,
    understand,
)
from rootguard.graph import Graph
from rootguard.language.units import canonical, convert, substance_of
from rootguard.template import Root, Template, catalog, load_template
from rootguard.values import RootName

FOLDER = Path(__file__).parents[1] / "data" / "schemas"
TEMPLATES: tuple[Template, ...] = tuple(map(load_template, catalog()))
ROOTS: dict[RootName, Root] = {
    root: each.roots[root] for each in reversed(TEMPLATES) for root in Graph.of(each).roots
}
UNITS = {node.name: node.unit for each in TEMPLATES for node in Graph.of(each).order}
IDENTIFIERS = ("name", "mrn", "phone", "email", "dob")


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """Counts over a set: bindings right and wrong, missed, questions put, formulas."""

    tools: int
    right: int
    wrong: int
    missed: int
    asked: int
    to_ask: int
    formulas: int
    wrong_formulas: int
    missed_formulas: int

    @property
    def precision(self) -> float:
        """Of what it acts on, how much is right."""
        return self.right / (self.right + self.wrong)

    @property
    def recall(self) -> float:
        """Of what there is to bind, how much it acts on."""
        return self.right / (self.right + self.missed)


def cases(title: str) -> list[dict[str, Any]]:
    """The labelled tools of one set."""
    content: list[dict[str, Any]] = json.loads((FOLDER / f"{title}.json").read_text("utf-8"))
    return content


def read(case: dict[str, Any]) -> ToolMap:
    """A labelled tool as it is understood for a person with the whole catalog."""
    return understand(
        case["tool"],
        case["description"],
        case["inputSchema"],
        ROOTS,
        TEMPLATES,
        identifiers=IDENTIFIERS,
    )


def bound(tool_map: ToolMap) -> dict[str, str]:
    """What was bound, as the labels write it: the parameter's path to name and unit."""
    return {
        ".".join(each.parameter): f"{each.name} {each.unit or _own(each.name)}"
        for each in tool_map.bindings
    }


def _own(name: str) -> str:
    unit = UNITS.get(name, "")
    return canonical(unit) or unit


def _same(gold: str | None, value: str) -> bool:
    """Whether a label and a binding are one: the same unit may have two names (mEq/L, mmol/L)."""
    if gold is None or gold == value:
        return gold is not None
    (name, _, unit), (own, _, other) = gold.partition(" "), value.partition(" ")
    root = ROOTS.get(RootName(name))
    if name != own or root is None:
        return False
    substance = substance_of((name, *root.aliases))
    return [convert(x, unit, other, substance) for x in (0.0, 1.0)] == [0.0, 1.0]


def tally(title: str) -> Tally:
    """How a set is understood."""
    counts = dict.fromkeys(Tally.__slots__, 0)
    for case in cases(title):
        made = read(case)
        got, gold = bound(made), case["gold"]
        right = sum(_same(gold.get(path), value) for path, value in got.items())
        questions = {".".join(each.parameter) for each in made.asked}
        counts["tools"] += 1
        counts["right"] += right
        counts["wrong"] += len(got) - right
        counts["missed"] += sum(path not in got for path in gold)
        counts["to_ask"] += len(case["ask"])
        counts["asked"] += sum(path in questions for path in case["ask"])
        counts["formulas"] += made.formula is not None and made.formula == case["formula"]
        counts["wrong_formulas"] += made.formula not in (None, case["formula"])
        counts["missed_formulas"] += made.formula is None and case["formula"] is not None
    return Tally(**counts)


def record(title: str) -> str:
    """How each tool of a set is read, a line for each parameter that is bound or asked about."""
    lines = []
    for case in cases(title):
        made = read(case)
        lines.append(f"{made.tool}: {made.formula or '-'}")
        for each in made.bindings:
            ends = "" if each.ends is None else f", {each.ends[0]!r} or {each.ends[1]!r}"
            unit = f"{each.name} {each.unit or each.own}".strip()
            name = f"  {'.'.join(each.parameter)}{' *' * each.required}"
            lines.append(f"{name} = {unit}{ends} ({each.confidence:g}: {each.reason})")
        for question in made.asked:
            name, meant = ".".join(question.parameter), ", ".join(question.candidates)
            lines.append(f"  {name} ? {meant} ({question.confidence:g}: {question.why})")
        lines += [f"  {'.'.join(each.parameter)} := {each.why}" for each in made.answers]
        lines += [f"  {'.'.join(path)}" for path in made.unbound]
    return "\n".join((*lines, ""))


def recorded(title: str) -> Path:
    """Where the record of a set is kept."""
    return FOLDER / f"{title}.txt"


NUMBER = {"type": "number"}


def tool(
    properties: dict[str, Any],
    *,
    name: str = "fib4_score",
    about: str = "Lab values of the patient",
    required: tuple[str, ...] | None = None,
    pins: Pins | None = None,
    roots: dict[RootName, Root] = ROOTS,
    templates: tuple[Template, ...] = TEMPLATES,
) -> ToolMap:
    needed = list(properties) if required is None else list(required)
    schema = {"type": "object", "properties": properties, "required": needed}
    return understand(name, about, schema, roots, templates, pins=pins, identifiers=IDENTIFIERS)


if __name__ == "__main__":
    for each in ("dev", "held_out", "public"):
        recorded(each).write_text(record(each), "utf-8")
