"""`rootguard bench`: the paper's studies, from our code.

A study's files go into one directory: rows, means, tables, figures, the comparison with the
published figures and a page with all of it. A run that was stopped goes on where it was. Here
options are read and results printed; `rootguard.evaluation` runs the studies and writes the files.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from rootguard.cli.cape import cape
from rootguard.cli.options import json_option
from rootguard.cli.output import EXIT_CODES
from rootguard.cli.rq4 import rq4
from rootguard.cli.rq4_hostile import rq4_hostile
from rootguard.cli.study_options import (
    chosen_templates,
    cohort_option,
    configurations_option,
    mechanisms_option,
    out_option,
    repeats_option,
    run_and_show,
    seed_option,
    templates_option,
)
from rootguard.mechanisms import mechanism_named

_Command = TypeVar("_Command", bound=Callable[..., Any])
# The names below are those of `rootguard.evaluation`, which takes long to import and is not needed
# to print a help text; a test holds the two together.
CONFIGURATION_NAMES = ("all", "roots", "opt", "calibrated", "population")
ATTACK_CONFIGURATION_NAMES = (*CONFIGURATION_NAMES, "naive", "median")
_EXAMPLES = """
    \b
    Examples:
      rootguard bench all --out study
      rootguard bench rq1 --cohort people --out study --repeats 20
      rootguard bench rq1 --config opt --config calibrated --out study
      rootguard bench all --template ./mine.toml --cohort ./mine --out study
"""


@click.group("bench", epilog=EXIT_CODES)
def command() -> None:
    """Reproduce the paper's study, or run it on your own cohort and templates.

    \b
    Examples:
      rootguard bench all --out OUT
      rootguard bench rq1 --cohort DIR --out OUT --repeats 20
    """


command.add_command(rq4)
command.add_command(rq4_hostile)
command.add_command(cape)


def _utility_options(command: _Command) -> _Command:
    for option in (
        json_option,
        mechanisms_option(),
        configurations_option(
            CONFIGURATION_NAMES,
            "Only this way of spending and releasing; repeatable. [default: all five, but "
            "population, whose plans take seconds each, for geometric noise alone]",
        ),
        templates_option,
        seed_option("Of the noise."),
        repeats_option(10_000),
        out_option,
        cohort_option,
    ):
        command = option(command)
    return command


@command.command("rq1", epilog=EXIT_CODES, help=f"How wrong the target gets (RQ1).\n{_EXAMPLES}")
@_utility_options
def rq1(**given: Any) -> None:  # noqa: ANN401 - click's options
    """The utility study alone."""
    _run_utility(given, structure=False)


@command.command("rq3", epilog=EXIT_CODES, help=f"Where the budget goes (RQ3).\n{_EXAMPLES}")
@_utility_options
def rq3(**given: Any) -> None:  # noqa: ANN401 - click's options
    """The structural analysis alone."""
    _run_utility(given, utility=False)


@command.command("all", epilog=EXIT_CODES, help=f"RQ1 and RQ3.\n{_EXAMPLES}")
@_utility_options
def everything(**given: Any) -> None:  # noqa: ANN401 - click's options
    """Both."""
    _run_utility(given)


def _run_utility(given: dict[str, Any], *, utility: bool = True, structure: bool = True) -> None:
    from rootguard.advice.utility import CONFIGURATIONS
    from rootguard.evaluation.rq1_utility.findings import UtilityStudy
    from rootguard.evaluation.rq1_utility.study import Sweep

    study = UtilityStudy(
        sweep=Sweep(**_sweep(given, CONFIGURATIONS)),
        templates=chosen_templates(given["templates"]),
        directory=given["directory"],
        utility=utility,
        structure=structure,
    )
    run_and_show(study, given["out"], as_json=given["as_json"])


def _sweep(given: dict[str, Any], configurations: tuple[str, ...]) -> dict[str, Any]:
    """What the sweeps of RQ1 and RQ2 are asked for."""
    from rootguard.advice.utility import SEARCHED
    from rootguard.evaluation.rq1_utility.study import STUDY_MECHANISMS

    chosen = tuple(mechanism_named(name) for name in dict.fromkeys(given["mechanisms"]))
    mechanisms, asked = chosen or STUDY_MECHANISMS, given["configurations"]
    return {
        "seed": given["seed"],
        "repeats": given["repeats"],
        "mechanisms": mechanisms,
        "configurations": tuple(c for c in configurations if not asked or c in asked),
        "searched": mechanisms if "population" in asked else SEARCHED,
    }


@command.command("rq2", epilog=EXIT_CODES)
@cohort_option
@out_option
@repeats_option(100_000)
@seed_option("Of the noise.")
@templates_option
@mechanisms_option()
@configurations_option(
    ATTACK_CONFIGURATION_NAMES,
    "Only this way of spending and releasing, or of reading what calibrated releases (naive, "
    "median); repeatable. [default: all, but population for geometric noise alone]",
)
@click.option(
    "--shared",
    is_flag=True,
    help="Under strategy B share the q queries among the roots, as the paper's text has it; "
    "its tables give every root q of them.",
)
@json_option
def rq2(*, directory: Path | None, out: Path, as_json: bool, **given: Any) -> None:  # noqa: ANN401 - click's options
    """How near an adversary gets to the roots by asking (RQ2).

    \b
    Examples:
      rootguard bench rq2 --out study
      rootguard bench rq2 --cohort people --out study --repeats 20
    """
    from rootguard.evaluation.rq2_reconstruction.claims import ReconstructionStudy
    from rootguard.evaluation.rq2_reconstruction.study import ATTACK_CONFIGURATIONS, AttackSweep

    sweep = AttackSweep(
        spread="shared" if given["shared"] else "each", **_sweep(given, ATTACK_CONFIGURATIONS)
    )
    study = ReconstructionStudy(
        sweep=sweep, templates=chosen_templates(given["templates"]), directory=directory
    )
    run_and_show(study, out, as_json=as_json)
