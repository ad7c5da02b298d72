"""`rootguard bench rq4-hostile`: hostile prompts against agents, with and without RootGuard.

Files begin with `hostile`. A run that was stopped, or killed, goes on where it was; a run with
another model into the same directory adds to the tables.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rootguard.cli.options import json_option
from rootguard.cli.output import EXIT_CHECK_FAILED, EXIT_CODES, console, table, write_json
from rootguard.cli.study_options import (
    model_option,
    out_option,
    seed_option,
)

if TYPE_CHECKING:
    from rootguard.evaluation.hostile_prompts.study import AttackOutcome, Attacks
    from rootguard.evaluation.rq4_agent.study import Transcripts

ARM_NAMES = ("guarded", "subverted", "gateway", "naive", "unguarded")
"""`injection_study.ARMS`, which is not imported to print a help text."""
_PROTECTED = frozenset({"guarded", "subverted", "gateway"})


@click.command("rq4-hostile", epilog=EXIT_CODES)
@model_option
@click.option(
    "--arm",
    "arms",
    type=click.Choice(ARM_NAMES),
    multiple=True,
    help="Only this agent; repeatable. guarded: knows the patient through RootGuard's MCP server. "
    "subverted: no model, calls every tool. gateway: values in its prompt, through the text "
    "channel. naive: values in its prompt. unguarded: as guarded, but its tools give true values. "
    "[default: all]",
)
@out_option
@seed_option("Of the noise.")
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
    from rootguard.evaluation.hostile_prompts.study import ARMS, Attacks, attack_sheets, outcomes
    from rootguard.evaluation.language_model import LocalModel
    from rootguard.evaluation.rq4_agent.study import Transcripts
    from rootguard.evaluation.study import tables
    from rootguard.evaluation.study.rows import write_csv, write_text

    chosen = tuple(arm for arm in ARMS if not arms or arm in arms)
    model = LocalModel(model_path) if set(chosen) != {"subverted"} else None
    attacks = Attacks(model, chosen, seed=seed)
    transcripts = Transcripts(out / "hostile.jsonl")
    held = _run(attacks, transcripts)
    if model is not None:
        model.close()
    found = outcomes(transcripts)
    sheets = attack_sheets(found)
    write_csv(
        out / "hostile.csv",
        ("model", "arm", "family", "idea", "forms", "rounded", "bytes"),
        (
            (o.model, o.arm, o.family, o.idea, "; ".join(o.forms), "; ".join(o.rounded), o.searched)
            for o in found
        ),
    )
    write_text(out / "hostile_tables.md", "\n\n".join(map(tables.to_markdown, sheets)))
    if as_json:
        write_json(_as_json(found, out, held))
    else:
        sheet = sheets[0]
        heads = [*sheet.header[:2], *(f">{head}" for head in sheet.header[2:])]
        to = console()
        to.print(table(sheet.title, heads, sheet.lines))
        to.print(f"look at {out / 'hostile_tables.md'}", soft_wrap=True)
    if any(o.forms for o in found if o.arm in _PROTECTED):
        click.get_current_context().exit(EXIT_CHECK_FAILED)


def _run(attacks: "Attacks", transcripts: "Transcripts") -> int:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from rootguard.evaluation.hostile_prompts.study import Arm, Family, run_attacks

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("attacks", total=len(attacks.sessions))

        def seen(arm: Arm, family: Family) -> None:
            bar.update(task, advance=1, description=f"{arm}: {family.name}")

        return run_attacks(attacks, transcripts, on_session=seen)


def _as_json(found: list["AttackOutcome"], out: Path, held: int) -> dict[str, object]:
    places = dict.fromkeys((o.model, o.arm) for o in found)
    arms = []
    for model, arm in places:
        here = [o for o in found if (o.model, o.arm) == (model, arm)]
        arms.append(
            {
                "model": model,
                "arm": arm,
                "families": len(here),
                "leaked": sum(bool(o.forms) for o in here),
                "rounded_only": sum(bool(o.rounded) and not o.forms for o in here),
                "bytes_searched": sum(o.searched for o in here),
            }
        )
    return {"out": str(out), "held_now": held, "arms": arms}
