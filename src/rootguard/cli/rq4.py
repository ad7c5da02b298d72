"""`rootguard bench rq4`: the paper's deployment study, with an agent between adversary and guard.

Files begin with `rq4`, but for the transcripts, so that one directory can hold this study and the
others. A run that was stopped, or killed, goes on where it was.
"""

import os
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, get_args

import click

from rootguard.cli.options import json_option
from rootguard.cli.output import EXIT_CHECK_FAILED, EXIT_CODES, console, table, write_json
from rootguard.cli.study_options import (
    chosen_templates,
    cohort_option,
    out_option,
    patients_option,
    seed_option,
    templates_option,
)
from rootguard.mechanisms import mechanism_named
from rootguard.template import Template, load_template
from rootguard.values import MechanismName

if TYPE_CHECKING:
    from rootguard.evaluation.rq4_agent.backends import Backend
    from rootguard.evaluation.rq4_agent.claims import ComparedAgent
    from rootguard.evaluation.rq4_agent.figures import AgentRow
    from rootguard.evaluation.rq4_agent.patients import PatientGroup
    from rootguard.evaluation.rq4_agent.study import Grid, RunOutcome, Transcripts
    from rootguard.evaluation.study.tables import Sheet

CONFIGURATION_NAMES = ("all", "roots", "opt", "calibrated")
"""`agent_wards.AGENT_CONFIGURATIONS`, which is not imported to print a help text."""
BACKEND_NAMES = ("scripted", "local", "openai")
DECODING_NAMES = ("free", "tools", "grammar")
TURN_NAMES = ("k+1", "2k+1", "3k+1")
TITLE = "RootGuard: the agent study"
_NEEDED = {"local": (("xllamacpp", "llm"),), "openai": (("httpx2", "gateway"),)}
"""Modules of extras, and the extras, by backend."""


@click.command("rq4", epilog=EXIT_CODES)
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
@click.option(
    "--decoding",
    type=click.Choice(DECODING_NAMES),
    default="grammar",
    show_default=True,
    help="What a local model is held to. tools: its tool calls to a JSON schema. grammar: its "
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
@click.option(
    "--concurrency",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Sessions at once.",
)
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
@cohort_option
@out_option
@patients_option
@seed_option("Of the noise and of the questions.")
@templates_option
@click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(get_args(MechanismName)),
    multiple=True,
    help="This noise; repeatable. [default: exponential, as published]",
)
@click.option(
    "--config",
    "configurations",
    type=click.Choice(CONFIGURATION_NAMES),
    multiple=True,
    help="Only this way of spending and releasing; repeatable. [default: all four]",
)
@click.option(
    "--turns",
    "budgets",
    type=click.Choice(TURN_NAMES),
    multiple=True,
    help="Only this many questions, for k roots; repeatable. [default: all three]",
)
@click.option(
    "--epsilon",
    "epsilons",
    type=click.FloatRange(min=0.001, max=5),
    multiple=True,
    help="Only this epsilon; repeatable. [default: 0.01, 0.05, 0.1]",
)
@json_option
def rq4(*, directory: Path | None, out: Path, as_json: bool, **given: Any) -> None:  # noqa: ANN401 - click's options, read by _grid
    """Whether the figures survive an agent that parses, calls tools and replies (RQ4).

    \b
    Examples:
      rootguard bench rq4 --out study
      rootguard bench rq4 --backend scripted --cohort people --out study
      rootguard bench rq4 --template fib4 --patients 5 --epsilon 0.1 --out study
      rootguard bench rq4 --backend local --model model.gguf --patients 5 --turns 2k+1 --out study
    """
    for module, extra in (("mcp", "mcp"), *_NEEDED.get(given["backend_name"], ())):
        if find_spec(module) is None:
            raise click.ClickException(
                f"this needs {module}; run: pip install 'rootguard[{extra}]'"
            )
    from rootguard.evaluation.rq4_agent.claims import compare_agent
    from rootguard.evaluation.rq4_agent.figures import agent_rows, compliance_sheets
    from rootguard.evaluation.rq4_agent.study import TRANSCRIPTS, Transcripts

    templates = chosen_templates(given["templates"])
    grid = _grid(given)
    groups = _groups(templates, directory, seed=given["seed"], patients=given["patients"])
    transcripts = Transcripts(out / TRANSCRIPTS)
    backend = _backend(given, grid, groups)
    started = perf_counter()
    outcome = _run(grid, groups, backend, transcripts, given["concurrency"])
    held, seconds = outcome.sessions, perf_counter() - started
    if outcome.stopped:
        click.echo(f"rootguard: {outcome.stopped}; the same command goes on from here", err=True)
    rows = agent_rows(grid, groups, backend.label, transcripts)
    compared = compare_agent(rows)
    speed = f"{held} held now, {held / seconds:.2g} a second" if held else "none held now"
    _write(rows, compared, compliance_sheets(transcripts), directory, out, speed)
    if as_json:
        write_json(_as_json(rows, compared, out, held=held, seconds=seconds))
    else:
        _print(rows, compared, out, speed)
    if outcome.stopped:
        click.get_current_context().exit(EXIT_CHECK_FAILED)


def _backend(given: dict[str, Any], grid: "Grid", groups: list["PatientGroup"]) -> "Backend":
    from rootguard.evaluation.rq4_agent.backends import Scripted

    if given["backend_name"] == "scripted":
        return Scripted()
    if given["backend_name"] == "local":
        return _local(given)
    from rootguard.evaluation.rq4_agent.openai import Endpoint, OpenAI, estimate

    if not given["url"] or not given["model"]:
        raise click.UsageError("openai needs --url and --model")
    read, written = given["price"]
    endpoint = Endpoint(
        url=given["url"],
        model=given["model"],
        key=os.environ.get(given["key_env"]),
        price_in=read,
        price_out=written,
    )
    ahead = estimate(list(grid.sessions(groups)), endpoint)
    click.echo(
        f"{ahead.sessions} sessions, about {ahead.requests} requests, {ahead.tokens_in} tokens "
        f"read and {ahead.tokens_out} written: about {ahead.cost:.2f}; what is held already "
        "costs nothing",
        err=True,
    )
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


def _grid(given: dict[str, Any]) -> "Grid":
    from rootguard.advice.utility import TURNS
    from rootguard.evaluation.rq4_agent.patients import AGENT_CONFIGURATIONS, AGENT_EPSILONS
    from rootguard.evaluation.rq4_agent.study import Grid

    asked = given["configurations"]
    chosen = tuple(mechanism_named(name) for name in dict.fromkeys(given["mechanisms"]))
    epsilons = tuple(Fraction(str(epsilon)) for epsilon in dict.fromkeys(given["epsilons"]))
    return Grid(
        seed=given["seed"],
        mechanisms=chosen or ("exponential",),
        epsilons=epsilons or AGENT_EPSILONS,
        budgets=tuple(turns for turns in TURNS if turns in (given["budgets"] or TURNS)),
        configurations=tuple(c for c in AGENT_CONFIGURATIONS if not asked or c in asked),
    )


def _groups(
    templates: tuple[Template, ...], directory: Path | None, *, seed: int, patients: int
) -> list["PatientGroup"]:
    """A group per template, and a second one where the published runs asked for fewer roots."""
    from rootguard.evaluation.cohorts import load_cohort
    from rootguard.evaluation.rq4_agent.patients import PUBLISHED_ACTIVE, Asked, PatientGroup, only

    found = []
    for template in templates:
        forms: list[tuple[Asked, Template]] = [("declared", template)]
        roots = PUBLISHED_ACTIVE.get(template.name, ())
        if roots and template == load_template(template.name):
            forms.append(("active", only(template, roots)))
        for asked, form in forms:
            cohort = load_cohort(form, directory, size=patients)
            found.append(PatientGroup(form, cohort, asked=asked, seed=seed, patients=patients))
    return found


def _run(
    grid: "Grid",
    groups: list["PatientGroup"],
    backend: "Backend",
    transcripts: "Transcripts",
    concurrency: int,
) -> "RunOutcome":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from rootguard.evaluation.rq4_agent.study import AgentSession, run_sessions

    total = sum(group.patients * sum(1 for _ in grid.cells(group)) for group in groups)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("sessions", total=total)

        def seen(session: AgentSession) -> None:
            bar.update(task, advance=1, description=session.cell.template)

        return run_sessions(
            grid, groups, backend, transcripts, concurrency=concurrency, on_session=seen
        )


def _write(
    rows: list["AgentRow"],
    compared: list["ComparedAgent"],
    kept: tuple["Sheet", ...],
    directory: Path | None,
    out: Path,
    speed: str,
) -> None:
    from rootguard import __version__
    from rootguard.evaluation.rq4_agent.claims import (
        COMPARISON_COLUMNS,
        agent_comparison_sheets,
        agent_figures,
        agent_sheets,
        comparison_fields,
    )
    from rootguard.evaluation.rq4_agent.figures import ROW_COLUMNS, row_fields
    from rootguard.evaluation.study import plots, tables
    from rootguard.evaluation.study.page import WARNING, Section, report
    from rootguard.evaluation.study.rows import write_csv, write_text

    synthetic = any(row.synthetic for row in rows)
    write_csv(out / "rq4.csv", ROW_COLUMNS, map(row_fields, rows))
    write_csv(out / "rq4_comparison.csv", COMPARISON_COLUMNS, comparison_fields(compared))
    sheets, beside = (*agent_sheets(rows), *kept), agent_comparison_sheets(rows, compared)
    facts = {
        "backend": ", ".join(dict.fromkeys(row.backend for row in rows)),
        "cohort": str(directory or "drawn from the templates' population figures")
        + (" (SYNTHETIC)" if synthetic else ""),
        "sessions": f"{sum(row.sessions for row in rows)}, {speed}",
        "observations": str(sum(row.observations for row in rows)),
        "mechanisms": ", ".join(dict.fromkeys(row.cell.mechanism for row in rows)),
        "seed": ", ".join(map(str, sorted({row.seed for row in rows}))),
        "version": __version__,
    }
    known = "".join(f"- {name}: {text}\n" for name, text in facts.items())
    warning = [f"**{WARNING}**"] if synthetic else []
    parts = ["# Our figures and the paper's: an agent in between", known, *warning]
    write_text(out / "rq4_comparison.md", "\n\n".join([*parts, *map(tables.to_markdown, beside)]))
    write_text(out / "rq4_tables.md", "\n\n".join([*warning, *map(tables.to_markdown, sheets)]))
    latex = [f"% {WARNING}"] if synthetic else []
    write_text(out / "rq4_tables.tex", "\n\n".join([*latex, *map(tables.to_latex, sheets)]))
    try:
        figures = plots.save(agent_figures(rows), out / "figures")
    except ImportError:
        figures = {}
        hint = "no figures: they need matplotlib (pip install 'rootguard[eval]')"
        click.echo(f"rootguard: {hint}", err=True)
    sections = (
        Section(title="Beside the paper", sheets=beside),
        Section(title="An agent in between (RQ4)", sheets=sheets, figures=figures),
    )
    write_text(out / "rq4_report.html", report(TITLE, facts, sections, synthetic=synthetic))


def _counts(rows: list["AgentRow"], compared: list["ComparedAgent"]) -> dict[str, tuple[int, int]]:
    from rootguard.evaluation.rq4_agent.claims import matching, means, ordering
    from rootguard.evaluation.study.comparison import LIMIT

    beside = [m.from_rq1 for m in means(rows, "published", "wmape") if m.from_rq1 is not None]
    held = ordering(rows)
    found = {
        "published mean wMAPE": matching(compared, "wmape"),
        "published RCE per template": matching(compared, "misclassified"),
        "means within 4 SD of RQ1": (sum(abs(far) <= LIMIT for far in beside), len(beside)),
        "all > roots >= opt": (held.held, held.of),
    }
    return {name: pair for name, pair in found.items() if pair[1]}


def _as_json(
    rows: list["AgentRow"],
    compared: list["ComparedAgent"],
    out: Path,
    *,
    held: int,
    seconds: float,
) -> dict[str, object]:
    from rootguard.evaluation.rq4_agent.figures import compliance

    return {
        "out": str(out),
        "backend": ", ".join(dict.fromkeys(row.backend for row in rows)),
        "synthetic": any(row.synthetic for row in rows),
        "cells": len(rows),
        "held_now": held,
        "seconds": round(seconds, 3),
        "compliance": {name: dict(counts) for name, counts in compliance(rows)},
        "matching": {n: {"match": m, "of": of} for n, (m, of) in _counts(rows, compared).items()},
    }


def _print(rows: list["AgentRow"], compared: list["ComparedAgent"], out: Path, speed: str) -> None:
    from rootguard.evaluation.rq4_agent.figures import compliance
    from rootguard.evaluation.study.page import WARNING

    to = console()
    if any(row.synthetic for row in rows):
        to.print(WARNING, markup=False, style="bold red")
    kinds = ("sessions", "failed_sessions", "observations", "rounded", "invented", "unparsed")
    lines = [(name, *(str(counts[kind]) for kind in kinds)) for name, counts in compliance(rows)]
    header = ("config", *(f">{kind.replace('_', ' ')}" for kind in kinds))
    backend = ", ".join(dict.fromkeys(row.backend for row in rows))
    to.print(table(f"compliance of the {backend} agent", header, lines))
    pairs = [(name, str(m), str(n)) for name, (m, n) in _counts(rows, compared).items()]
    if pairs:
        to.print(table("beside the paper", ("table", ">match", ">of"), pairs))
    to.print(f"{speed}; look at {out / 'rq4_report.html'}", soft_wrap=True)
