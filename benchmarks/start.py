"""How the program starts, in processes of its own: beside a bare program by click and rich.

What a process takes is what the system says it took, from its start to its end. NumPy alone is what
`import rootguard` stands beside.
"""

import os
import sys
import time
from collections.abc import Iterator
from functools import partial

from benchmarks.measure import Case, Contender, Figure, Spent, figure

_BARE = """
import click
from rich.console import Console
from rich.table import Table
@click.group()
def cli():
    "A program."
@cli.command()
def work():
    "Work."
cli()
"""
_OURS = "from rootguard.cli.main import main; main()"
_PROGRAM = ("the program", ("--help", "--version", "completion bash"))
_COMMANDS = ("plan --help", "vault --help", "templates", "plan fib4 --budget 0.9")


def start() -> Iterator[Case | Figure]:
    bare = Contender(name="click and rich alone, --help", call=partial(_run, _BARE, "--help"))
    for words in _PROGRAM[1]:
        ours = Contender(name=f"rootguard {words}", call=partial(_run, _OURS, *words.split()))
        yield Case(ours=ours, theirs=bare, aim=1 / 1.1)
    yield Case(
        ours=Contender(name="import rootguard", call=partial(_run, "import rootguard")),
        theirs=Contender(name="import numpy", call=partial(_run, "import numpy")),
        aim=1 / 1.3,
    )
    yield Case(
        ours=Contender(name="from rootguard import Guard", call=partial(_run, _GUARD)),
        theirs=Contender(name="import numpy", call=partial(_run, "import numpy")),
    )
    for words in _COMMANDS:
        ours = Contender(name=f"rootguard {words}", call=partial(_run, _OURS, *words.split()))
        yield figure(ours, unit="call", rounds=7)


_GUARD = "from rootguard import Guard"


def _run(code: str, *arguments: str) -> Spent:
    """A Python process with this code, and what it took."""
    begin = time.perf_counter()
    nowhere = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    process = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", code, *arguments],
        os.environ,
        file_actions=[nowhere],
    )
    _, status, usage = os.wait4(process, 0)
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError("a process that was timed has failed")
    wall = time.perf_counter() - begin
    return Spent(processor=usage.ru_utime + usage.ru_stime, wall=wall)
