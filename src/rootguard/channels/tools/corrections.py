"""The owner's corrections as one types them, and as a file keeps them.

`TOOL.PARAMETER=ROOT`, `TOOL.PARAMETER=ROOT:UNIT` and `TOOL.PARAMETER=ignore` are what
`rootguard mcp inspect --pin` takes. The file is what `--pins` reads; comments in it stay unless an
entry has to be replaced.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from rootguard.channels.tools.fields import Path
from rootguard.channels.tools.understanding import Pin, Pins, parse_pins
from rootguard.errors import PolicyError

_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_IGNORED: Final = "ignore"
_HEADER: Final = "# Which parameter of which tool is which value; read by --pins.\n"


def read_corrections(typed: Sequence[str]) -> Pins:
    """Corrections as they are typed."""
    tools: dict[str, dict[Path, Pin]] = {}
    for text in typed:
        place, equals, meant = text.partition("=")
        tool, dot, parameter = place.strip().partition(".")
        name, _, unit = meant.strip().partition(":")
        if not (equals and dot and tool and parameter and name):
            problem = "not a correction"
            raise PolicyError("--pin", text[:80], problem, "write TOOL.PARAMETER=ROOT:UNIT")
        pin = Pin(name=None) if name == _IGNORED else Pin(name=name, unit=unit or None)
        tools.setdefault(tool, {})[tuple(parameter.split("."))] = pin
    return _pins(tools)


def joined(before: Pins, after: Pins) -> Pins:
    """Corrections with later ones in the place of earlier ones."""
    tools = {tool: dict(listed) for tool, listed in before.tools.items()}
    for tool, listed in after.tools.items():
        tools.setdefault(tool, {}).update(listed)
    return _pins(tools)


def with_corrections(text: str, added: Pins, *, file: str) -> str:
    """The text of a file of corrections with more of them."""
    before = parse_pins(text, file=file)
    replaced = any(path in before.of(tool) for tool, all_ in added.tools.items() for path in all_)
    if replaced:
        return _HEADER + _written(joined(before, added))
    kept = text if not text or text.endswith("\n") else f"{text}\n"
    return (kept or _HEADER) + _written(added)


def _written(pins: Pins) -> str:
    lines = []
    for tool, listed in pins.tools.items():
        for path, pin in listed.items():
            lines.append(f"\n[tools.{_key(tool)}.{_key('.'.join(path))}]")
            lines.append("ignore = true" if pin.name is None else f"root = {_quoted(pin.name)}")
            if pin.unit is not None:
                lines.append(f"unit = {_quoted(pin.unit)}")
    return "\n".join((*lines, ""))


def _key(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    kept = "".join(character for character in text if character.isprintable())
    return '"' + kept.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _pins(tools: Mapping[str, Mapping[Path, Pin]]) -> Pins:
    return Pins(
        tools=MappingProxyType({tool: MappingProxyType(all_) for tool, all_ in tools.items()})
    )
