"""Single parameters of tools, and what each is taken for.

`parameters.txt` has one on each line: its name, its description, and behind "@" what the tool is
called and says of itself, unless it is a patient's form. Behind the arrow stands what it is bound
to, in which unit and how surely, or how sure that is not and why its owner is asked.
`python -m tests.support.parameter_texts` writes it anew, for another look.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rootguard.channels.tools import ToolMap
from tests.support.schemas import NUMBER, tool

RECORD: Final = Path(__file__).parents[1] / "data" / "parameters.txt"
_ARROW: Final = " → "


def lines() -> Iterator[str]:
    """The recorded parameters."""
    for line in RECORD.read_text("utf-8").splitlines():
        if line and not line.startswith("# "):
            yield line


def unmarked(line: str) -> str:
    """A parameter alone."""
    return line.partition(_ARROW)[0]


def marked(line: str) -> str:
    """A parameter with what it is taken for."""
    asked = unmarked(line)
    parameter, _, around = asked.partition(" @ ")
    name, _, text = parameter.partition(": ")
    form, _, about = around.partition(": ") if around else ("patient_form", "", "Lab values")
    schema = {**NUMBER, "description": text} if text else NUMBER
    return f"{asked}{_ARROW}{verdict(tool({name: schema}, name=form, about=about))}"


def verdict(found: ToolMap) -> str:
    """What the first parameter is bound to and how surely, or why it is asked about."""
    if found.bindings:
        each = found.bindings[0]
        return f"{each.name} {each.unit or each.own} {each.confidence:g}"
    return f"{found.asked[0].confidence:g}: {found.asked[0].why}" if found.asked else "nothing"


if __name__ == "__main__":
    found = [
        line if not line or line.startswith("# ") else marked(line)
        for line in RECORD.read_text("utf-8").splitlines()
    ]
    RECORD.write_text("".join(f"{line}\n" for line in found), "utf-8")
