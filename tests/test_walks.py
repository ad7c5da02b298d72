"""How many modules a request goes through: no more than a reader can keep in mind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.walks import AIMS

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def walks() -> dict[str, dict[str, object]]:
    """Counted in a process of its own: a tracer sees everything, and standard streams are lent."""
    command = [sys.executable, "-m", "benchmarks.walks", "--json"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, check=True, timeout=200)
    found: dict[str, dict[str, object]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("walk", AIMS)
def test_a_walk_stays_within_its_aim(walks: dict[str, dict[str, object]], walk: str) -> None:
    names = walks[walk]["names"]
    assert isinstance(names, list)
    assert len(names) == walks[walk]["modules"]
    assert len(names) <= AIMS[walk], names


def test_a_walk_sees_every_thread_and_both_ends(walks: dict[str, dict[str, object]]) -> None:
    """Work is done on worker threads, and a server is read on another thread than a client."""
    for walk, ends in {
        "chat turn": {"channels.gateway.app", "channels.text.channel", "store.memory"},
        "MCP call": {
            "channels.mcp.proxy.proxy",
            "channels.mcp.proxy.relay",
            "store.dialects.sqlite",
        },
        "Guard.open": {"session.guard", "mechanisms.exact", "store.dialects.sqlite"},
    }.items():
        names = walks[walk]["names"]
        assert isinstance(names, list)
        assert ends <= set(names)
