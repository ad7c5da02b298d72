"""Every block of the README runs, in the order of the page, in a clean home.

What is installed already is not installed again (`pip install`, `make demo` and opening the
environment are checked for what they name), and servers are stopped once they answer.
"""

import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.support.page_shell import environment, run_server
from tests.support.patience import PATIENCE
from tests.support.programs import PYTHON, ROOTGUARD

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
SERVES = ("rootguard gateway ", "rootguard console ")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A checkout and a home in which nothing was done yet."""
    (tmp_path / "home").mkdir()
    here = tmp_path / "checkout"
    here.mkdir()
    (here / "examples").symlink_to(ROOT / "examples")
    program = here / "bin" / "rootguard"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(ROOTGUARD)} "$@"\n')
    program.chmod(0o755)
    python = here / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.join(PYTHON)} "$@"\n')
    python.chmod(0o755)
    return here


def run_shell(home: Path, lines: str) -> None:
    done = subprocess.run(
        ["bash", "-e", "-c", lines],
        cwd=home,
        env=environment(home),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{lines}\n{done.stdout}\n{done.stderr}"


def pieces(block: str) -> list[str]:
    """A shell block in parts: what is checked, what is served, and the lines between."""
    found: list[str] = []
    rest: list[str] = []
    for line in block.splitlines():
        if line.startswith(("pip install", "make ", ". ", *SERVES)):
            found += ["\n".join(rest), line]
            rest = []
        else:
            rest.append(line)
    return [each for each in [*found, "\n".join(rest)] if each.strip()]


def test_all_blocks_run_in_order_in_a_clean_home(home: Path) -> None:
    pytest.importorskip("uvicorn", reason="the gateway and the console need their extra")
    pytest.importorskip("mcp", reason="MCP needs its extra")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    makefile = (ROOT / "Makefile").read_text()
    python, kinds = "", []
    installed: set[str] = set()
    for kind, block in BLOCK.findall(text):
        kinds.append(kind)
        if kind == "python":
            python += block
            script = home / "page.py"
            script.write_text(python)  # a page is read from its top: names stay
            run_shell(home, "python page.py")
        elif kind == "json":
            assert "mcp" in installed
            for server in json.loads(block)["mcpServers"].values():
                # With no input it starts, finds nobody there, and ends.
                words = " ".join([server["command"], *server["args"]])
                run_shell(home, words)
        else:
            for piece in pieces(block):
                if piece.startswith("make "):
                    assert f"\n{piece.split()[1]}:" in makefile
                elif piece.startswith("pip install"):
                    named = re.search(r"\[(\w+)\]", piece)
                    assert named is None or named[1] in extras["optional-dependencies"]
                    installed.add(named[1] if named else "")
                elif piece.startswith(". "):
                    assert piece.split()[1] == ".venv/bin/activate"
                elif piece.startswith(SERVES):
                    assert piece.split()[1] in installed  # the extra has the command's name
                    run_server(home, piece)
                else:
                    run_shell(home, piece)
    assert kinds.count("python") >= 2
    assert kinds.count("sh") >= 6
    assert kinds.count("json") == 1
    assert (home / "me.toml").exists()
    assert not (home / "mine.toml").exists()
    assert (home / "vault.sqlite3").exists()


def test_a_block_that_fails_would_be_noticed(home: Path) -> None:
    with pytest.raises(AssertionError, match="No such option"):
        run_shell(home, "rootguard plan fib4 --hid age=5")
    with pytest.raises(AssertionError):
        run_server(home, "rootguard console --profile nowhere.toml")
    assert pieces("a\nb\nmake demo\nrootguard console --profile x\nc") == [
        "a\nb",
        "make demo",
        "rootguard console --profile x",
        "c",
    ]
