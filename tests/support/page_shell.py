"""The environment in which a page's commands run, and a page's server that is started and ended."""

import os
import select
import subprocess
import sys
from pathlib import Path

from tests.support.patience import PATIENCE

ROOT = Path(__file__).parents[2]


def environment(home: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ROOTGUARD_", "XDG_", "COVERAGE", "COV_"))
    }
    path = f"{home / 'bin'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    return {**kept, "HOME": str(home.parent / "home"), "PATH": path, "PYTHONPATH": str(ROOT)}


def run_server(home: Path, line: str) -> None:
    """Start it on a free port, wait for its address, end it.

    Not by Ctrl-C's signal, which a program that was started in the background does not hear.
    """
    running = subprocess.Popen(
        ["bash", "-c", f"exec {line} --port 0"],
        cwd=home,
        env={**environment(home), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert running.stdout is not None
    seen = ""
    try:
        while "http://" not in seen:
            ready, _, _ = select.select([running.stdout], [], [], PATIENCE)
            part = running.stdout.readline() if ready else ""
            seen += part
            assert part, f"{line}\n{seen}"
    finally:
        running.terminate()
        try:
            running.communicate(timeout=PATIENCE)
        finally:
            running.kill()
            running.wait()
