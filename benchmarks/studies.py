"""What the studies take: scripted sessions of the agent study, and how a template is explained."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from importlib.util import find_spec
from itertools import count
from pathlib import Path

from benchmarks.measure import Contender, Figure, Skipped, figure
from rootguard import load_template
from rootguard.calibration.plan_cache import VARIABLE


@contextmanager
def _cache_in(directory: str) -> Iterator[None]:
    """Keep what is found there; in "", nowhere."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = directory
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before


def studies() -> Iterator[Figure | Skipped]:
    from rootguard.advice.epsilon import explain, explained

    fib4 = load_template("fib4")
    with tempfile.TemporaryDirectory() as directory, _cache_in(""):
        first = Contender(name="explain fib4, the first time", call=lambda: explain(fib4))
        yield figure(first, unit="call", aim=2.0, rounds=3)
        os.environ[VARIABLE] = directory
        explained(fib4)
        again = Contender(name="explain fib4, again", call=lambda: explained(fib4))
        yield figure(again, unit="call", rounds=3)
    if find_spec("mcp") is None:
        yield Skipped(name="scripted sessions", reason="mcp is not installed")
        return
    from rootguard.advice.people import synthetic_cohort
    from rootguard.evaluation.rq4_agent.backends import Scripted
    from rootguard.evaluation.rq4_agent.patients import PatientGroup
    from rootguard.evaluation.rq4_agent.study import Grid, Transcripts, run_sessions

    cohort = synthetic_cohort(fib4, size=8)
    group = PatientGroup(fib4, cohort, asked="declared", seed=0, patients=8)
    grid = Grid(epsilons=(Fraction("0.1"),))
    numbers = count()
    with tempfile.TemporaryDirectory() as directory:

        def hold() -> None:
            path = Path(directory) / f"{next(numbers)}.jsonl"
            run_sessions(grid, [group], Scripted(), Transcripts(path))

        sessions = sum(1 for _ in grid.sessions([group]))
        held = Contender(name="scripted sessions of the agent study", call=hold, units=sessions)
        yield figure(held, unit="session", aim=1 / 400, rate=True, rounds=5)
