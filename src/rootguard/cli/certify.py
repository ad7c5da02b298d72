"""`rootguard certify`: whether a mechanism keeps the epsilon it claims."""

import sys
from fractions import Fraction

import click

from rootguard.cli.options import EpsilonType, json_option, mechanism_option
from rootguard.cli.output import EXIT_CHECK_FAILED, EXIT_CODES, console, write_json
from rootguard.mechanisms import certify, mechanism_named
from rootguard.mechanisms import mechanism as make_mechanism
from rootguard.values import MAX_GRID


@click.command("certify", epilog=EXIT_CODES)
@mechanism_option
@click.option("--epsilon", type=EpsilonType(), required=True, help="Epsilon per grid step.")
@click.option(
    "--grid",
    type=click.IntRange(2, MAX_GRID),
    default=1000,
    show_default=True,
    help="Number of grid points.",
)
@json_option
def command(mechanism: str, epsilon: Fraction, grid: int, *, as_json: bool) -> None:
    """Check a mechanism against its own pmf.

    Compares every output under every pair of neighbouring inputs (grids of more than 4,096 points
    in closed form) and reports the largest log-ratio, the epsilon that really holds.

    \b
    Example:
      rootguard certify --mechanism geometric --epsilon 0.1 --grid 1000 --json
    """
    found = certify(make_mechanism(mechanism_named(mechanism), epsilon, grid))
    if as_json:
        write_json(
            {
                "mechanism": found.mechanism,
                "grid": found.size,
                "epsilon_claimed": found.epsilon_claimed,
                "epsilon_tight": found.epsilon_tight,
                "mass_error": found.mass_error,
                "method": found.method,
                "holds": found.holds,
            }
        )
    else:
        verdict = "[green]holds[/]" if found.holds else "[red]does not hold[/]"
        console().print(
            f"{found.mechanism} on {found.size} points: claims epsilon {found.epsilon_claimed:g} "
            f"per grid step, needs {found.epsilon_tight:.10g} (by {found.method}): {verdict}"
        )
    if not found.holds:
        sys.exit(EXIT_CHECK_FAILED)
