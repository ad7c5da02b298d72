"""Draw the packages and who imports whom into CONTRIBUTING.md: `make house`.

The rows come from the layer contract in pyproject.toml, the arrows from the imports themselves,
the sentences from the packages' own docstrings. A test compares the page with what is drawn here,
so that the picture cannot go out of date.
"""

import ast
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import grimp

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- house: drawn by `make house`, do not edit -->", "<!-- /house -->"

Arrows = Mapping[str, frozenset[str]]
"""Whom each package imports."""


class Contracts(NamedTuple):
    """What pyproject.toml says about imports."""

    package: str
    layers: tuple[tuple[str, ...], ...]
    forbidden: tuple[str, ...]


def read_contracts(text: str) -> Contracts:
    """The layers, from the top, and the names of the contracts that forbid something."""
    settings = tomllib.loads(text)["tool"]["importlinter"]
    contracts = settings["contracts"]
    (layers,) = (one["layers"] for one in contracts if one["type"] == "layers")
    rows = tuple(tuple(re.findall(r"\w+", row)) for row in layers)
    return Contracts(
        settings["root_package"],
        rows,
        tuple(one["name"] for one in contracts if one["type"] != "layers"),
    )


def read_arrows(contracts: Contracts) -> Arrows:
    """Every import between two members of the layers, whatever module of theirs it is in."""
    graph = grimp.build_graph(contracts.package, cache_dir=None)
    arrows: dict[str, set[str]] = {name: set() for row in contracts.layers for name in row}
    for module in graph.modules:
        importer = _member(module)
        for imported in graph.find_modules_directly_imported_by(module):
            target = _member(imported)
            if importer in arrows and target in arrows and importer != target:
                arrows[importer].add(target)
    return {name: frozenset(targets) for name, targets in arrows.items()}


def _member(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def reduced(arrows: Arrows) -> Arrows:
    """Without the arrows that a longer way implies. Imports have no cycle, so this is unique."""
    reach: dict[str, frozenset[str]] = {}

    def below(name: str) -> frozenset[str]:
        if name not in reach:
            reach[name] = arrows[name].union(*(below(target) for target in arrows[name]))
        return reach[name]

    return {
        name: frozenset(
            target
            for target in targets
            if not any(target in below(other) for other in targets - {target})
        )
        for name, targets in arrows.items()
    }


def sentence(package: Path, name: str) -> str:
    """The first sentence of a member's docstring."""
    folder = package / name / "__init__.py"
    path = folder if folder.exists() else package / f"{name}.py"
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", paragraph)[0].rstrip(".").replace("|", "\\|")


def draw(contracts: Contracts, arrows: Arrows, package: Path) -> str:
    """The picture, the members with their sentences, and what is forbidden besides."""
    lines = ["```mermaid", "flowchart TB"]
    for number, row in enumerate(contracts.layers, start=1):
        # "graph" is a word of Mermaid's own, so that a node's id is not just its name.
        nodes = "; ".join(f'{name}_["{name}"]' for name in row)
        lines.append(f'  subgraph layer{number}[" "]; {nodes}; end')
    for name, targets in reduced(arrows).items():
        if targets:
            lines.append(f"  {name}_ --> {' & '.join(f'{target}_' for target in sorted(targets))}")
    lines += ["```", "", "| package or module | what it is |", "|---|---|"]
    for row in contracts.layers:
        lines += [f"| `{name}` | {sentence(package, name)} |" for name in row]
    lines += ["", "Besides:", ""]
    lines += [f"- {name}" for name in contracts.forbidden]
    return "\n".join(lines)


def with_house(page: str, house: str) -> str:
    """The page with the picture between its two comments."""
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{house}\n\n{END}{after}"


def current() -> str:
    """The page as it should be."""
    contracts = read_contracts((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    house = draw(contracts, read_arrows(contracts), ROOT / "src" / contracts.package)
    return with_house(PAGE.read_text(encoding="utf-8"), house)


if __name__ == "__main__":
    PAGE.write_text(current(), encoding="utf-8")
