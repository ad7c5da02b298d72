"""Commands whose interpreter has imported everything before it is asked for.

A program that needs the MCP SDK computes for two seconds before its first line. In a command,
`PYTHON` stands for an interpreter: it runs `programs_start.py`, which hands its arguments,
environment, directory and standard streams to `programs_server.py`, a process that has everything
imported and forks. What is asked for is a process of its own, with the streams, signals and exit
status that it would have; only its id is another. One server is enough for all the processes of a
test run; the first command starts it, and it ends with the run.

A test of the interpreter itself (what is imported, warnings, a process's memory) takes
`sys.executable`.
"""

import os
import sys
import tempfile
from pathlib import Path

_LONGEST = 90  # what a socket in it may be called is not much longer
_START = Path(__file__).with_name("programs_start.py")


def _python() -> tuple[str, ...]:
    plain = (sys.executable,)
    if sys.platform != "linux":
        return plain
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:  # a sandbox that has none
        return plain
    # What all the workers of a run share, and the process that outlives them.
    shared = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    run = os.getppid() if shared else os.getpid()
    folder = Path(tempfile.gettempdir(), f"rg-programs-{os.getuid()}-{run}-{(shared or '')[:8]}")
    if len(str(folder)) > _LONGEST:
        return plain
    return (sys.executable, "-I", "-S", str(_START), str(folder), str(run))


PYTHON = _python()
ROOTGUARD = (*PYTHON, "-c", "from rootguard.cli.main import main; main()")
