"""`rootguard batch`: a whole table, each person noised once."""

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from rootguard.cli.options import (
    PlanChoice,
    calibrate_option,
    json_option,
    plan_options,
    preset_option,
    repeated_option,
    store_option,
    template_argument,
)
from rootguard.cli.output import EXIT_CODES, need, progress_of_rows, write_json

if TYPE_CHECKING:
    from rootguard.allocation import Plan
    from rootguard.batch.files import Summary
    from rootguard.batch.job import OnConflict
    from rootguard.batch.register import Fresh
    from rootguard.identifiers import Kind

_KEY_BYTES = 32  # as `mechanisms.keyed` has it, which takes long to import


class _Pair(click.ParamType[tuple[str, str]]):
    """Two names with = between them."""

    name = "pair"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Cut at the last =, or fail as a usage error."""
        left, sign, right = str(value).rpartition("=")
        if not (left and sign and right):
            self.fail("write two names with = between them", param, ctx)
        return left, right


_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("batch", epilog=EXIT_CODES)
@template_argument
@click.option("--in", "source", type=_FILE, required=True, help="CSV or Parquet file to read.")
@click.option("--out", "target", type=_FILE, required=True, help="CSV or Parquet file to write.")
@click.option("--id", "id_column", required=True, metavar="COLUMN", help="Who each row is about.")
@repeated_option(
    "--identifier",
    "identifiers",
    _Pair(),
    "COLUMN=KIND",
    "Replace by tokens: code, phone, date, email or person; repeatable.",
)
@repeated_option(
    "--column",
    "columns",
    _Pair(),
    "ROOT=COLUMN",
    "The column of a root that is called otherwise; repeatable.",
)
@click.option("--rejects", type=_FILE, help="Where to tell of rows left out, without values.")
@click.option(
    "--key-file",
    type=_FILE,
    help="Secret of the noise instead of the store's; made, for you alone, if it is not there.",
)
@preset_option(
    "--on-conflict",
    click.Choice(["refuse", "charge"]),
    "refuse",
    "Different values of a root under one id: refuse the table, or noise and charge each.",
)
@preset_option(
    "--fresh",
    click.Choice(["never", "changed"]),
    "never",
    "Draw everybody anew if a value changed since the last release, so that it does not show whose;"
    " each pays again. Needs a store.",
)
@plan_options
@calibrate_option
@preset_option(
    "--draw",
    click.IntRange(min=1),
    1,
    "Another number draws again what tables of this store hold, and costs again.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Keep finished pieces beside the output, and go on with those of a run that was stopped.",
)
@store_option
@json_option
def command(
    template: str,
    *,
    source: Path,
    target: Path,
    id_column: str,
    identifiers: tuple[tuple[str, str], ...],
    columns: tuple[tuple[str, str], ...],
    rejects: Path | None,
    key_file: Path | None,
    on_conflict: "OnConflict",
    fresh: "Fresh",
    choice: PlanChoice,
    calibrate: bool,
    draw: int,
    resume: bool,
    url: str,
    as_json: bool,
) -> None:
    """Noise a table's people once each and compute every other column from the noised roots.

    The same row gives the same output, in this file and in later ones, under the same store or
    key. A run that was killed is simply run again; with --resume it goes on where it was. Columns
    that are not named here pass as they are, the id column among them: declare what identifies
    people with --identifier.

    \b
    Examples:
      rootguard batch fib4 --in lab.parquet --out noised.parquet \\
        --budget 0.9 --id mrn
      rootguard batch fib4 --in lab.csv --out noised.csv --budget 0.9 --id mrn \\
        --identifier mrn=code --column ast=SGOT --rejects rejects.csv
    """
    need("batch", "pyarrow")
    from rootguard.batch.files import Columns, sanitize_file
    from rootguard.batch.keys import Secret
    from rootguard.template import load_template
    from rootguard.vault import open_store

    loaded = load_template(template)
    plan = choice.plan(loaded)
    secret: Secret = (
        Secret.of(None, open_store(url)) if key_file is None else Secret.of(_key(key_file), None)
    )
    with progress_of_rows("percent") as told:
        summary = sanitize_file(
            source,
            target,
            loaded,
            plan,
            secret,
            Columns(
                id_column=id_column,
                identifiers={name: cast("Kind", kind) for name, kind in identifiers},
                roots=dict(columns),
            ),
            rejects=rejects,
            calibrate=calibrate,
            version=draw,
            on_conflict=on_conflict,
            fresh=fresh,
            announce=lambda version: _announce(version, plan),
            progress=lambda share: told("rows noised", round(100 * share), 100),
            resume=resume,
        )
    _tell(summary, plan.hash, rejects, as_json=as_json)


def _announce(draw: int, plan: "Plan") -> None:
    click.echo(
        f"A value changed since the last release: everybody in this table is drawn anew (draw "
        f"{draw}), at epsilon {float(plan.budget):g} each",
        err=True,
    )


def _tell(summary: "Summary", plan: str, rejects: Path | None, *, as_json: bool) -> None:
    if as_json:
        write_json(
            {
                "plan": plan,
                "draw": summary.version,
                "fresh": summary.fresh,
                "released": summary.released,
                "rejected": summary.rejected,
            }
        )
        return
    click.echo(f"{summary.released} rows released")
    if summary.rejected:
        where = "give --rejects FILE to be told which" if rejects is None else f"see {rejects}"
        click.echo(f"{summary.rejected} rows left out; {where}", err=True)


def _key(file: Path) -> bytes:
    """The key in a file that its owner alone can read; a new file gets a new key."""
    from rootguard.batch.keys import read_key

    if not file.exists():
        with os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as out:
            out.write(secrets.token_hex(_KEY_BYTES) + "\n")
    return read_key(file)
