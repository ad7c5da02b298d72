"""`rootguard audit` and `rootguard certify`: whether a noise keeps the epsilon that it claims.

`certify` enumerates the pmf of one of ours; `audit` sees samples alone, ours or anybody's.
"""

import importlib
import shlex
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import click

from rootguard.cli.options import EpsilonType, json_option, preset_option
from rootguard.cli.output import EXIT_CODES, Part, Result, show, table
from rootguard.values import LINE_MECHANISMS, MAX_GRID, Domain, MechanismName

if TYPE_CHECKING:
    from rich.text import Text

    from rootguard.attacks.audit import Audit, Finding, Sampler
    from rootguard.mechanisms import Mechanism
    from rootguard.mechanisms.base import Indices

_COMMAND_TIMEOUT = 60  # seconds for one sample: a program slower than this would audit for weeks
_RESTART = (
    "import sys, importlib; sys.path.insert(0, ''); m, f = sys.argv[1].split(':');"
    "g = getattr(importlib.import_module(m), f);"
    "print(*(int(g(float(sys.argv[2]) if '.' in sys.argv[2] else int(sys.argv[2])))"
    " for _ in range(int(sys.argv[3]))))"
)


_OURS: tuple[MechanismName, ...] = (*LINE_MECHANISMS, "randomised-response")
_grid_option = preset_option(
    "--grid", click.IntRange(2, MAX_GRID), 1000, "Number of grid points, or of answers."
)


@click.command("audit", epilog=EXIT_CODES)
@click.option(
    "--mechanism",
    type=click.Choice(_OURS),
    help="One of ours; beside --function or --command, what that says it is.",
)
@click.option("--epsilon", type=EpsilonType(), required=True, help="Claimed, per grid step.")
@_grid_option
@click.option(
    "--function",
    metavar="MODULE:NAME",
    help="A Python function that takes an index and returns a noised one.",
)
@click.option(
    "--command",
    "program",
    metavar="PROGRAM",
    help="A program run once per sample; {index} (or {value}, with --bounds) stands for the input, "
    "and its last word is read as the output.",
)
@click.option("--bounds", type=(float, float), help="The program speaks values in these bounds.")
@click.option(
    "--samples",
    type=click.IntRange(min=400),
    help="How many draws in all.  [default: 1000000; 20000 for --command]",
)
@preset_option("--confidence", click.FloatRange(0.5, 0.999999), 0.95, "Of the lower bound.")
@click.option("--between", is_flag=True, help="Ask for inputs between grid points too.")
@click.option(
    "--cached", is_flag=True, help="The same input must get the same output: check just that."
)
@json_option
def command(
    mechanism: MechanismName | None,
    epsilon: Fraction,
    grid: int,
    function: str | None,
    program: str | None,
    bounds: tuple[float, float] | None,
    samples: int | None,
    confidence: float,
    *,
    between: bool,
    cached: bool,
    as_json: bool,
) -> None:
    """Estimate a lower bound on epsilon from outputs alone, and look for known faults.

    A bound above the claim proves the claim false at the stated confidence. Ours are also checked
    by enumerating their pmf, as `rootguard certify` does.

    \b
    Examples:
      rootguard audit --mechanism geometric --epsilon 0.5
      rootguard audit --function mynoise:draw --mechanism laplace \\
        --epsilon 1 --between
      rootguard audit --command "./noise {index}" --epsilon 0.5 --samples 20000
    """
    from rich.text import Text

    from rootguard.attacks.audit import answers_stay, audit
    from rootguard.mechanisms import certify
    from rootguard.mechanisms import mechanism as make_mechanism

    if function is not None and program is not None:
        raise click.UsageError("give one of --function and --command")
    if function is None and program is None and mechanism is None:
        raise click.UsageError("say what to audit: --mechanism, --function or --command")
    claimed = None if mechanism is None else make_mechanism(mechanism, epsilon, grid)
    sampler, restart = _subject(claimed, function, program, bounds, grid)
    if cached:
        centre = (grid - 1) // 2
        finding = answers_stay(lambda: float(sampler(centre, 1)[0]))
        document = {"checks": [_finding(finding)], "passed": finding.passed}
        parts: list[Part] = [Text(f"{finding.check}: {finding.seen}")]
        show(Result(document=document, parts=parts, failed=not finding.passed), as_json=as_json)
        return
    try:
        found = audit(
            sampler,
            epsilon=float(epsilon),
            size=grid,
            samples=samples or (20_000 if program else 1_000_000),
            confidence=confidence,
            claimed=claimed,
            restart=restart,
            between=between,
        )
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    exact = None if claimed is None or function or program else certify(claimed)
    document, parts, failed = _as_json(found), _parts(found), not found.passed
    if exact is not None:
        document["exact"] = {"epsilon_tight": exact.epsilon_tight, "holds": exact.holds}
        text = Text(f"By enumeration of its pmf it needs {exact.epsilon_tight:.6g}: ")
        parts.append(text + _verdict(holds=exact.holds))
        failed = failed or not exact.holds
    show(Result(document=document, parts=parts, failed=failed), as_json=as_json)


def _subject(
    claimed: "Mechanism | None",
    function: str | None,
    program: str | None,
    bounds: tuple[float, float] | None,
    grid: int,
) -> "tuple[Sampler, Callable[[], Sampler] | None]":
    """What is sampled, and how to start it anew."""
    from rootguard.attacks.audit import one_at_a_time
    from rootguard.rng import SECURE

    if function is not None:
        return one_at_a_time(_load(function)), lambda: _elsewhere(function)
    if program is not None:
        domain = None if bounds is None else Domain(lower=bounds[0], upper=bounds[1], size=grid)
        return one_at_a_time(_program(program, domain)), None
    assert claimed is not None  # noqa: S101 - the command has checked it
    return one_at_a_time(lambda index: claimed.draw(int(index + 0.5), SECURE)), None


def _load(function: str) -> Callable[[float], float]:
    module, _, name = function.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError):
        raise click.BadParameter(f"{function!r} is not MODULE:NAME of a function") from None

    def draw(index: float) -> float:
        return float(found(int(index) if index == int(index) else index))

    return draw


def _elsewhere(function: str) -> "Sampler":
    """The same function in a process of its own."""
    import numpy as np

    def sample(index: float, count: int) -> "Indices":
        text = str(int(index)) if index == int(index) else repr(float(index))
        run = [sys.executable, "-c", _RESTART, function, text, str(count)]
        words = _output(run).split()
        return np.array([int(word) for word in words], np.int64)

    return sample


def _program(program: str, domain: Domain | None) -> Callable[[float], float]:
    words = shlex.split(program)

    def draw(index: float) -> float:
        put = {"{index}": f"{index:g}"}
        if domain is not None:
            put["{value}"] = repr(domain.lower + index * domain.step)
        arguments = [
            next((w.replace(mark, text) for mark, text in put.items() if mark in w), w)
            for w in words
        ]
        last = _output(arguments).split()[-1:]
        try:
            number = float(last[0])
        except (IndexError, ValueError):
            raise ValueError("the program's last word is not a number") from None
        return number if domain is None else domain.nearest(number)

    return draw


def _output(arguments: list[str]) -> str:
    try:
        # The person at the terminal names the program; no shell reads it.
        return subprocess.run(  # noqa: S603
            arguments, capture_output=True, text=True, check=True, timeout=_COMMAND_TIMEOUT
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise click.ClickException(f"{arguments[0]} failed ({type(error).__name__})") from None


def _as_json(found: "Audit") -> dict[str, object]:
    return {
        "epsilon_claimed": found.claimed,
        "epsilon_lower_bound": found.bound.epsilon,
        "confidence": found.bound.confidence,
        "samples": found.samples,
        "grid": found.size,
        "event": str(found.bound.event),
        "inputs": [found.bound.likely, found.bound.unlikely],
        "counts": list(found.bound.counts),
        "trials": found.bound.trials,
        "checks": [_finding(finding) for finding in found.findings],
        "passed": found.passed,
    }


def _finding(finding: "Finding") -> dict[str, object]:
    return {"check": finding.check, "passed": finding.passed, "seen": finding.seen}


def _parts(found: "Audit") -> list[Part]:
    from rich.text import Text

    rows = [(f.check, "passed" if f.passed else "FAILED", f.seen) for f in found.findings]
    checks = table(f"audit, {found.samples:,} samples", ("check", "result", "seen"), rows)
    if found.passed:
        return [
            checks,
            Text(
                f"Nothing contradicts the claim of epsilon {found.claimed:g} per grid step. The "
                f"samples prove that no claim below {found.bound.epsilon:.4g} would be true, at "
                f"{found.bound.confidence:.0%} confidence."
            ),
        ]
    failed = ", ".join(f.check for f in found.findings if not f.passed)
    return [checks, Text("This noise does not keep its claim:", "red") + Text(f" {failed}.")]


@click.command("certify", epilog=EXIT_CODES)
@preset_option("--mechanism", click.Choice(_OURS), "geometric", "Noise distribution.")
@click.option(
    "--epsilon",
    type=EpsilonType(),
    required=True,
    help="Epsilon per grid step, or between two answers.",
)
@_grid_option
@json_option
def certify_command(
    mechanism: MechanismName, epsilon: Fraction, grid: int, *, as_json: bool
) -> None:
    """Check a mechanism against its own pmf.

    Compares every output under every pair of neighbouring inputs, of answers under any two (grids
    of more than 4,096 points in closed form), and reports the largest log-ratio, the epsilon that
    really holds.

    \b
    Examples:
      rootguard certify --mechanism geometric --epsilon 0.1 --grid 1000 --json
      rootguard certify --mechanism randomised-response --epsilon 1 --grid 2
    """
    from rich.text import Text

    from rootguard.mechanisms import certify
    from rootguard.mechanisms import mechanism as make_mechanism

    found = certify(make_mechanism(mechanism, epsilon, grid))
    points = "answers" if mechanism == "randomised-response" else "points"
    per = "between any two of them" if mechanism == "randomised-response" else "per grid step"
    document = {
        "mechanism": found.mechanism,
        "grid": found.size,
        "epsilon_claimed": found.epsilon_claimed,
        "epsilon_tight": found.epsilon_tight,
        "mass_error": found.mass_error,
        "method": found.method,
        "holds": found.holds,
    }
    text = Text(
        f"{found.mechanism} on {found.size} {points}: claims epsilon {found.epsilon_claimed:g} "
        f"{per}, needs {found.epsilon_tight:.10g} (by {found.method}): "
    )
    parts = [text + _verdict(holds=found.holds)]
    show(Result(document=document, parts=parts, failed=not found.holds), as_json=as_json)


def _verdict(*, holds: bool) -> "Text":
    from rich.text import Text

    return Text("holds", "green") if holds else Text("does not hold", "red")
