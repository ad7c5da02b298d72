"""Gateways as processes of their own, started by the command line, and a chat with one of them."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from rootguard.cli.gateway import command
from rootguard.vault import open_store
from tests.support.patience import PATIENCE
from tests.support.programs import PYTHON

_COMMAND = "from rootguard.cli.gateway import command; command()"


@dataclass(frozen=True, kw_only=True)
class Started:
    """A gateway that listens."""

    address: str
    pid: int

    @property
    def base(self) -> str:
        """What OPENAI_BASE_URL would be."""
        return f"{self.address}/v1"


@contextmanager
def started(
    profile: Path,
    *,
    upstream: str,
    store: str,
    key: str = "",
    options: Sequence[str] = (),
    python: Sequence[str] = PYTHON,
) -> Iterator[Started]:
    """`rootguard gateway` on a free port, until it is told to stop; it must stop in peace."""
    # Who counts workers and their connections looks for them by their ids.
    run_by = (sys.executable,) if "--workers" in options else python
    begun = _begun(profile, upstream=upstream, store=store, key=key, options=options, python=run_by)
    with _ready(begun) as it:
        yield it


def _begun(
    profile: Path,
    *,
    upstream: str,
    store: str,
    key: str,
    options: Sequence[str] = (),
    python: Sequence[str] = PYTHON,
) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [
            *(*python, "-c", _COMMAND, "--profile", str(profile), "--store", store),
            *("--port", "0", "--upstream", upstream, "--quiet", "--rate", "1000000", *options),
        ],
        stdout=subprocess.PIPE,
        env=os.environ | ({"ROOTGUARD_KEY": key} if key else {}),
        text=True,
    )


@contextmanager
def _ready(process: "subprocess.Popen[str]") -> Iterator[Started]:
    """A gateway that was begun, once it listens."""
    stopped = False
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("export OPENAI_BASE_URL=http://127.0.0.1:"), "it did not start"
        base = line.split("=", 1)[1].split()[0]
        yield Started(address=base.removesuffix("/v1"), pid=process.pid)
        process.terminate()
        process.communicate(timeout=PATIENCE)
        stopped = True
    finally:
        if not stopped:
            process.kill()
            process.communicate()
    assert process.returncode in (0, -15), "it did not stop in peace"


@contextmanager
def replicas(
    count: int, profile: Path, *, upstream: str, store: str, key: str = ""
) -> Iterator[list[Started]]:
    """Several gateways of one person on one store. One with a key of its own is made first."""
    if key:
        open_store(store, key=bytes.fromhex(key), create=True).close()
    with ExitStack() as stack:
        # All are begun before the first is waited for.
        begun = [_begun(profile, upstream=upstream, store=store, key=key) for _ in range(count)]
        for each in begun:
            stack.callback(each.kill)  # also if another does not start
        yield [stack.enter_context(_ready(each)) for each in begun]


UPSTREAM = ("--upstream", "http://127.0.0.1:1/v1")


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, [*arguments])
    return result.exit_code, result.output
