"""The owner's corrections to how tools were understood, in TOML. What is pinned is not judged.

[tools.fib4_score.x1]           # a parameter; inside objects "patient.age", in lists "labs.*.ast"
root = "ast"                    # a root, derived value, target or identifier
unit = "U/L"                    # the unit that the tool takes; the root's own if left out

[tools.fib4_score.note]
ignore = true                   # never filled in
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as File
from types import MappingProxyType
from typing import Final

from rootguard.channels.tools.fields import Path
from rootguard.errors import PolicyError

MAX_BYTES: Final = 256 * 1024
_KEYS: Final = ("root", "unit", "ignore")
_PLACE: Final = re.compile(r"at (line \d+, column \d+|end of document)\)\Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pin:
    """One correction: what the parameter is, or that it is nothing of the person's."""

    name: str | None
    unit: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Pins:
    """Corrections by tool and parameter."""

    tools: Mapping[str, Mapping[Path, Pin]] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, tool: str) -> Mapping[Path, Pin]:
        """The corrections to one tool."""
        return self.tools.get(tool, {})


def load_pins(path: str | os.PathLike[str]) -> Pins:
    """Read a file of corrections; a mistake is reported with file, key and remedy."""
    name = os.fspath(path)
    try:
        content = File(path).read_bytes()
    except (OSError, ValueError):
        raise PolicyError(name, "", "cannot be read", "check the path") from None
    if len(content) > MAX_BYTES:
        raise PolicyError(name, "", f"over {MAX_BYTES // 1024} KiB", "keep to a few tools")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise PolicyError(name, "", "not UTF-8", "save it as UTF-8") from None
    return parse_pins(text, file=name)


def parse_pins(text: str, *, file: str) -> Pins:
    """Corrections from TOML text."""
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        place = _PLACE.search(str(problem))
        where = f" at {place[1]}" if place else ""
        raise PolicyError(file, "", f"not TOML{where}", "correct that place") from None
    for key in content:
        if key != "tools":
            raise PolicyError(file, key, "a key that is not known here", "use [tools.NAME.PARAM]")
    tools = _table(file, "tools", content.get("tools", {}))
    return Pins(
        tools=MappingProxyType(
            {
                tool: MappingProxyType(
                    {
                        tuple(parameter.split(".")): _pin(file, f"tools.{tool}.{parameter}", entry)
                        for parameter, entry in _table(file, f"tools.{tool}", listed).items()
                    }
                )
                for tool, listed in tools.items()
            }
        )
    )


def _pin(file: str, key: str, entry: object) -> Pin:
    table = _table(file, key, entry)
    for each in table:
        if each not in _KEYS:
            where = f"{key}.{each}"
            remedy = f"use {', '.join(_KEYS)}; quote a parameter that has dots in it"
            raise PolicyError(file, where, "a key that is not known here", remedy)
    ignored, name, unit = table.get("ignore", False), table.get("root"), table.get("unit")
    if not isinstance(ignored, bool):
        raise PolicyError(file, f"{key}.ignore", "neither true nor false", "write true")
    if ignored == (name is not None):
        raise PolicyError(file, key, "root or ignore is needed", 'write root = "ast"')
    if not (isinstance(name, str | None) and isinstance(unit, str | None)):
        raise PolicyError(file, key, "not text", "put it in quotes")
    return Pin(name=name, unit=unit)


def _table(file: str, key: str, entry: object) -> Mapping[str, object]:
    if not isinstance(entry, dict):
        raise PolicyError(file, key, "not a table", f"write [{key}]")
    return entry
