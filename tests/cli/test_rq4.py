"""`rootguard bench rq4`: its choices, what it refuses, and a small run with a real model."""

import importlib.util
import json
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from click.testing import CliRunner

from rootguard.cli import output
from rootguard.cli.bench import rq4
from tests.support.models import smollm2

SMALL = ("--template", "homa", "--patients", "1", "--epsilon", "0.1", "--turns", "k+1")


@pytest.mark.parametrize(
    ("backend", "missing", "extra"),
    [
        ("scripted", "mcp", "mcp"),
        ("local", "xllamacpp", "llm"),
        ("openai", "httpx2", "gateway"),
    ],
)
def test_a_missing_extra_is_one_sentence(
    backend: str, missing: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(name: str) -> ModuleSpec | None:
        return None if name == missing else importlib.util.find_spec("json")

    monkeypatch.setattr(output, "find_spec", find)

    done = CliRunner().invoke(rq4, ["--backend", backend, "--out", str(tmp_path / "out")])

    assert done.exit_code == 2
    assert done.output == f"Error: this needs {missing}; run: pip install 'rootguard[{extra}]'\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--model", "no-such-file.gguf"), "--model is a GGUF file"),
        (("--concurrency", "2"), "one session at a time"),
    ],
)
def test_what_a_local_model_cannot_do_is_refused(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "find_spec", lambda _: importlib.util.find_spec("json"))

    done = CliRunner().invoke(
        rq4, ["--backend", "local", "--out", str(tmp_path / "out"), *SMALL, *arguments]
    )

    assert done.exit_code == 2
    assert said in done.output


def test_every_mechanism_and_number_of_turns_can_be_chosen(tmp_path: Path) -> None:
    names = ("exponential", "laplace", "staircase", "geometric")
    chosen = [part for name in names for part in ("--mechanism", name)]

    done = CliRunner().invoke(rq4, ["--out", str(tmp_path), *SMALL, *chosen, "--json"])

    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["held_now"] == 4 * 4
    lines = (tmp_path / "rq4.csv").read_text("utf-8").splitlines()
    assert {line.split(",")[4] for line in lines[1:]} == set(names)
    assert {line.split(",")[0] for line in lines[1:]} == {"k+1"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_decodings_of_a_real_model_stand_beside_each_other(tmp_path: Path) -> None:
    model = smollm2()
    model.close()
    label = model.label
    chosen = ["--backend", "local", "--config", "opt", "--out", str(tmp_path), *SMALL, "--json"]
    for decoding in ("free", "tools", "grammar"):
        done = CliRunner().invoke(rq4, [*chosen, "--decoding", decoding])
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["held_now"] == 1
        assert json.loads(done.stdout)["backend"].startswith(f"local {label} {decoding}")

    written = (tmp_path / "rq4_tables.md").read_text("utf-8")
    assert "Compliance by backend, the sessions that all of them held" in written
    assert all(f"local {label} {each} prompt:" in written for each in ("free", "tools", "grammar"))
