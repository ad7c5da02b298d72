"""The command line in a log: no terminal, no colours, 80 columns, few digits, extras named."""

import os
import re
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from rootguard.cli import output
from rootguard.cli.main import cli
from rootguard.cli.output import EXIT_CODES, progress_of_rows
from tests.support.programs import ROOTGUARD

VALUES = "age = 54\nast = 61\nalt = 47\nplt = 188\n"
NEEDS = {
    "attack fib4 --epsilon 0.1 --plot x.png": ("matplotlib", "eval"),
    "explain fib4 --plot x.png": ("matplotlib", "eval"),
    "bench rq4 --out study": ("mcp", "mcp"),
    "console --profile me.toml": ("starlette", "console"),
    "gateway --profile me.toml --upstream https://api.example.com/v1": ("httpx2", "gateway"),
    "mcp serve --profile me.toml": ("mcp", "mcp"),
    "batch fib4 --in a.csv --out b.csv --budget 1 --id id": ("pyarrow", "batch"),
    "learn --data a.csv --target y --roots x --name mine --out b.toml": ("sklearn", "learn"),
    "explain-text me.toml --template fib4": ("phonenumbers", "gateway"),
}
PRINTED = (
    "templates",
    "templates fib4",
    "plan fib4 --hide age=5",
    "plan fib4 --budget 0.9 --amplification",
    "explain fib4",
    "release fib4 --hide age=5 --values values.toml",
    "attack fib4 --epsilon 0.1 --queries 8 --people 3",
    "certify --mechanism geometric --epsilon 0.5",
    "init --template fib4 --values values.toml --out mine.toml --principal mine",
    "vault show --principal mine",
    "vault spend",
)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("ROOTGUARD_STORE", f"sqlite:///{tmp_path / 'vault.sqlite3'}")
    Path("values.toml").write_text(VALUES, encoding="utf-8")
    Path("me.toml").write_text('templates = ["fib4"]\nbudget = "1"\n', encoding="utf-8")
    Path("a.csv").write_text("x,y\n1,2\n", encoding="utf-8")


@pytest.mark.parametrize("line", NEEDS)
def test_a_missing_extra_is_named_before_any_work(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, extra = NEEDS[line]
    monkeypatch.setattr(output, "find_spec", lambda _: None)
    done = CliRunner().invoke(cli, line.split())
    assert done.exit_code == 2
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert module in done.stderr
    assert f"pip install 'rootguard[{extra}]'" in done.stderr
    assert "Traceback" not in done.output
    assert sorted(each.name for each in Path().iterdir()) == ["a.csv", "me.toml", "values.toml"]


def test_what_is_printed_fits_80_columns_and_has_few_digits() -> None:
    many = re.compile(r"\d+\.\d+")
    for line in PRINTED:
        done = CliRunner().invoke(cli, line.split())
        assert done.exit_code == 0, (line, done.output)
        assert "\x1b" not in done.stdout, line
        assert "…" not in done.stdout, line  # nothing is cut off
        wide = [each for each in done.stdout.splitlines() if len(each) > 80]
        # A path or a command to copy stays on one line.
        assert [each for each in wide if "/" not in each and "rootguard" not in each] == [], line
        if line.startswith("templates"):
            continue  # formulas are printed as they are
        digits = [len(each.replace(".", "").lstrip("0")) for each in many.findall(done.stdout)]
        assert max(digits, default=0) <= 4, (line, many.findall(done.stdout))


@pytest.mark.parametrize("line", ["--help", "plan --help", "templates", "templates --json"])
def test_a_closed_pipe_ends_it_as_it_ends_unix_tools(line: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*ROOTGUARD, *line.split()],
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_the_list_of_commands_ends_no_sentence_in_dots() -> None:
    done = CliRunner().invoke(cli, ["--help"])
    assert "..." not in done.output.replace("[ARGS]...", "")
    assert max(map(len, done.output.splitlines())) <= 80
    assert " ".join(EXIT_CODES.split()) in " ".join(done.output.split())


def test_every_help_text_fits_80_columns() -> None:
    waiting: list[tuple[str, ...]] = [()]
    seen = 0
    while waiting:
        path = waiting.pop()
        text = CliRunner().invoke(cli, [*path, "--help"]).output
        wide = [line for line in text.splitlines() if len(line) > 80]
        assert [line for line in wide if "completions/" not in line] == [], path
        command: click.Command = cli
        for name in path:
            command = command.get_command(click.Context(command), name)  # type: ignore[attr-defined]
        if isinstance(command, click.Group):
            names = command.list_commands(click.Context(command))
            waiting += [(*path, name) for name in names]
        seen += 1
    assert seen > 30


def test_progress_of_rows_in_a_log_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr("rootguard.cli.output.time.monotonic", lambda: now[0])
    with progress_of_rows() as told:
        for number in range(1, 5):
            now[0] += output.PATIENCE / 2
            told("copying", number, 4)
    said = capsys.readouterr().err.splitlines()
    assert said == ["rootguard: 2 of 4 rows: copying", "rootguard: 4 of 4 rows: copying"]
