"""Who may ask what: services, their tiers, and what each of them is allowed. Deny by default.

A policy is a TOML file. A tier has a budget; the richest tier is what the roots are noised for, and
poorer ones are derived from it, so that services which collude learn no more than the most trusted
of them. A service that is not listed gets nothing.

    [tiers.clinic]
    budget = "3.0"

    [tiers.public]
    budget = "0.5"

    [services.liver-tool]
    tier = "clinic"
    roots = ["age", "ast", "alt", "plt"]    # or "*"
    formulas = "*"                          # any formula of these roots, or a list of formulas
    text = "guard"                          # texts for its MCP tools: or "identifiers", or "keep"
    identifiers = "restore"                 # a tool of your own that gets names as they are

A root gets its value from the owner. The owner may trust tools as well: a number in the result of
one of these is taken for the owner's if the root has no value yet. Nobody else's is.

    [sources]
    tools = ["get_lab_results"]             # or "server/tool", for a tool of one MCP server
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from rootguard.errors import AccessError, BudgetError, FormulaError, PolicyError
from rootguard.expressions import parse, to_text
from rootguard.values import RootName, parse_epsilon

TextRule = Literal["guard", "identifiers", "keep"]
"""What is looked for in the texts that an agent sends to a service's tools: what is the owner's,
identifiers alone, or nothing."""
# What the gateway takes for a function's name, and MCP for a tool's.
_TOOL = re.compile(r"[A-Za-z0-9_.:/@+-]{1,256}")

IdentifierAccess = Literal["tokens", "restore"]
"""Whether a tool inside an agent framework gets tokens, or the identifiers themselves."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """What one service may have. None stands for everything."""

    service: str
    tier: str
    roots: frozenset[str] | None
    formulas: frozenset[str] | None
    text: TextRule = "guard"
    identifiers: IdentifierAccess = "tokens"

    def check(self, name: str, formula: str, rests_on: tuple[RootName, ...]) -> None:
        """Refuse what was not allowed.

        A name is allowed if it is listed. A formula is allowed if it is listed as written, or if
        any formula is and all the roots behind it are listed: a formula of a root tells the root.
        """
        named = name != "" and (self.roots is None or name in self.roots)
        if not named and not (formula and self._formula_allowed(formula, rests_on)):
            raise AccessError(self.service)

    def _formula_allowed(self, formula: str, rests_on: tuple[RootName, ...]) -> bool:
        if self.formulas is not None:
            return formula in self.formulas
        return self.roots is None or all(root in self.roots for root in rests_on)


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """Tiers with their budgets, services with their tier and what they may ask, trusted tools."""

    tiers: Mapping[str, Fraction]
    services: Mapping[str, Access]
    sources: frozenset[str] = frozenset()

    @property
    def budget(self) -> Fraction:
        """The budget of the richest tier: what the roots are noised for."""
        return max(self.tiers.values())

    def access(self, service: str) -> Access:
        """What a service may have; one that is not listed is refused."""
        if service not in self.services:
            raise AccessError(service)
        return self.services[service]


def read_file(path: str | os.PathLike[str], most: int, remedy: str) -> bytes:
    """A file of the owner's beside the policy, of at most so many bytes; `remedy` is for more."""
    file = os.fspath(path)
    try:
        content = Path(path).read_bytes()
    except (OSError, ValueError):
        raise PolicyError(file, "", "cannot be read", "check the path") from None
    if len(content) > most:
        raise PolicyError(file, "", f"over {most // 1024} KiB", remedy)
    return content


def load_policy(path: str | os.PathLike[str]) -> Policy:
    """Read a policy file; every mistake is reported with file, key and remedy."""
    file = os.fspath(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError):  # not there, not text, or no path at all
        raise PolicyError(
            file, "", "cannot be read", "check the path and that it is text"
        ) from None
    return parse_policy(text, file=file)


def parse_policy(text: str, *, file: str) -> Policy:
    """A policy from TOML text."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise PolicyError(file, "", f"not TOML: {problem}", "correct that line") from None
    except (ValueError, RecursionError):  # a number of 5,000 digits, brackets 1,000 deep
        raise PolicyError(file, "", "not TOML that can be read", "write a plain policy") from None
    unknown = set(content) - {"tiers", "services", "sources"}
    if unknown:
        remedy = "use [tiers.NAME], [services.NAME] and [sources]"
        raise PolicyError(file, min(unknown), "unknown key", remedy)
    sources = _sources(file, content.get("sources", {}))
    tiers = {
        name: _budget(file, f"tiers.{name}", table)
        for name, table in _tables(file, "tiers", content).items()
    }
    if not tiers:
        raise PolicyError(file, "tiers", "there is no tier", "add [tiers.NAME] with a budget")
    services = {
        name: _access(file, name, table, tiers)
        for name, table in _tables(file, "services", content).items()
    }
    return Policy(
        tiers=MappingProxyType(tiers),
        services=MappingProxyType(services),
        sources=sources,
    )


def _tables(file: str, key: str, content: Mapping[str, object]) -> dict[str, dict[str, object]]:
    section = content.get(key, {})
    if not isinstance(section, dict):
        raise PolicyError(file, key, "not a table", f"write [{key}.NAME]")
    for name, table in section.items():
        if not isinstance(table, dict):
            raise PolicyError(file, f"{key}.{name}", "not a table", f"write [{key}.{name}]")
    return section


def _budget(file: str, key: str, table: Mapping[str, object]) -> Fraction:
    if set(table) != {"budget"}:
        raise PolicyError(file, key, "a tier has a budget and nothing else", 'write budget = "1.0"')
    amount = table["budget"]
    if isinstance(amount, str | int | float) and not isinstance(amount, bool):
        try:
            return parse_epsilon(amount)
        except BudgetError as problem:
            raise PolicyError(file, f"{key}.budget", str(problem), 'write "1.0"') from None
    raise PolicyError(file, f"{key}.budget", "not a number", 'write budget = "1.0"')


def _access(
    file: str, name: str, table: Mapping[str, object], tiers: Mapping[str, Fraction]
) -> Access:
    key = f"services.{name}"
    unknown = set(table) - {"tier", "roots", "formulas", "text", "identifiers"}
    if unknown:
        where = f"{key}.{min(unknown)}"
        remedy = "a service has tier, roots, formulas, text and identifiers"
        raise PolicyError(file, where, "unknown key", remedy)
    tier = table.get("tier")
    if not isinstance(tier, str) or tier not in tiers:
        raise PolicyError(file, f"{key}.tier", "no such tier", f"use one of {', '.join(tiers)}")
    formulas = _names(file, f"{key}.formulas", table.get("formulas", []))
    try:
        canonical = None if formulas is None else frozenset(to_text(parse(f)) for f in formulas)
    except FormulaError as problem:
        raise PolicyError(file, f"{key}.formulas", str(problem), "correct the formula") from None
    roots = _names(file, f"{key}.roots", table.get("roots", []))
    text = _text(file, f"{key}.text", table.get("text", "guard"))
    identifiers = table.get("identifiers", "tokens")
    if identifiers != "tokens" and identifiers != "restore":
        remedy = 'write "tokens" or "restore"'
        raise PolicyError(file, f"{key}.identifiers", "neither tokens nor restore", remedy)
    return Access(
        service=name, tier=tier, roots=roots, formulas=canonical, text=text, identifiers=identifiers
    )


def _text(file: str, key: str, value: object) -> TextRule:
    if value == "guard" or value == "identifiers" or value == "keep":
        return value
    raise PolicyError(file, key, "no such rule", 'write "guard", "identifiers" or "keep"')


def _sources(file: str, table: object) -> frozenset[str]:
    """The tools that may teach a value. There is no "*": whoever reaches any tool would teach."""
    remedy = 'write [sources] and tools = ["NAME"]'
    if not isinstance(table, dict):
        raise PolicyError(file, "sources", "not a table", remedy)
    unknown = set(table) - {"tools"}
    if unknown:
        raise PolicyError(file, f"sources.{min(unknown)}", "unknown key", remedy)
    tools = table.get("tools", [])
    if not isinstance(tools, list) or not all(
        isinstance(tool, str) and _TOOL.fullmatch(tool) for tool in tools
    ):
        problem = "not a list of names of tools"
        remedy = 'write tools = ["get_lab_results"] or ["server/tool"], each by its full name'
        raise PolicyError(file, "sources.tools", problem, remedy)
    return frozenset(tools)


def _names(file: str, key: str, value: object) -> frozenset[str] | None:
    """A list of names, or None for "*"."""
    if value == "*":
        return None
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return frozenset(value)
    raise PolicyError(file, key, "neither a list of names nor everything", 'write [...] or "*"')
