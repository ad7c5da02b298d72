"""What the studies take: scripted sessions of the agent study, and how a template is explained."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path

from benchmarks.measure import Contender, Figure, Skipped, Spent, figure
from rootguard import load_template
from rootguard.calibration.plan_cache import VARIABLE

_PATIENTS = 32
_MANY_ROOTS = ("nafld", "ascvd")
"""Templates with the most to explain."""


@contextmanager
def _cache_in(directory: str) -> Iterator[None]:
    """Keep what is found there."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = directory
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before


_EXPLAIN = """
import json, sys, time
from rootguard import load_template
from rootguard.advice.epsilon import explain
template = load_template(sys.argv[1])
processor, wall = time.process_time(), time.perf_counter()
explain(template)
print(json.dumps([time.process_time() - processor, time.perf_counter() - wall]))
"""


def _alone(name: str) -> Spent:
    """What an explanation takes in a process of its own, which has planned nothing before."""
    done = subprocess.run(
        [sys.executable, "-c", _EXPLAIN, name],
        env=os.environ | {VARIABLE: ""},
        check=True,
        capture_output=True,
    )
    processor, wall = json.loads(done.stdout)
    return Spent(processor=processor, wall=wall)


def studies() -> Iterator[Figure | Skipped]:
    from rootguard.advice.epsilon import explained

    fib4 = load_template("fib4")
    for name in ("fib4", *_MANY_ROOTS):
        first = Contender(name=f"explain {name}, the first time", call=partial(_alone, name))
        yield figure(first, unit="call", aim=2.0, rounds=3)
    with tempfile.TemporaryDirectory() as directory, _cache_in(directory):
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

    cohort = synthetic_cohort(fib4, size=_PATIENTS)
    grid = Grid(epsilons=(Fraction("0.1"),))
    numbers = count()
    with tempfile.TemporaryDirectory() as directory:

        def hold() -> None:
            seed = next(numbers)  # other questions and draws each time: none is remembered
            group = PatientGroup(fib4, cohort, asked="declared", seed=seed, patients=_PATIENTS)
            path = Path(directory) / f"{seed}.jsonl"
            run_sessions(grid, [group], Scripted(), Transcripts(path))

        sessions = len(grid.configurations) * len(grid.budgets) * _PATIENTS
        held = Contender(name="scripted sessions of the agent study", call=hold, units=sessions)
        yield figure(held, unit="session", aim=1 / 400, rate=True, rounds=5)
