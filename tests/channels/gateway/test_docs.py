"""The examples of docs/gateway.md, run as they stand, against a gateway and an upstream of ours."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rootguard.channels.faults import FAULTS
from tests.support.gateway_processes import Started, started
from tests.support.patience import PATIENCE
from tests.support.upstream import Recording, recording_upstream

PAGE = (Path(__file__).parents[3] / "docs" / "gateway.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, flags=re.DOTALL)
KNOWN = ("curl -s", "from openai", "from anthropic", "from langchain")


def block(language: str, beginning: str) -> str:
    (found,) = [text for kind, text in BLOCKS if kind == language and text.startswith(beginning)]
    return str(found)


@contextmanager
def documented(tmp_path: Path) -> Iterator[tuple[Started, Recording]]:
    """The gateway of the page, with its profile, on a free port."""
    profile = tmp_path / "me.toml"
    # A value far from the one in the examples, which so is never what is released.
    text = f"{block('toml', '# me.toml')}\n[values]\nast = 250\n"
    profile.write_text(text, encoding="utf-8")
    with (
        recording_upstream() as (upstream, recording),
        started(profile, upstream=upstream, store="memory:") as gateway,
    ):
        yield gateway, recording


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")


def check(recording: Recording, shown: str, *, requests: int) -> None:
    assert len(recording.bodies) == requests
    assert b"Roe" not in recording.everything
    assert b" 61 U/L" not in recording.everything
    assert shown.count("Jane Roe") == requests


@pytest.mark.parametrize(("beginning", "requests"), [("from openai", 3), ("from anthropic", 2)])
def test_the_examples_of_the_sdks_run_and_tell_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], beginning: str, requests: int
) -> None:
    with documented(tmp_path) as (gateway, recording):
        code = block("python", beginning).replace("http://127.0.0.1:8791", gateway.address)
        exec(compile(code, "docs/gateway.md", "exec"), {})
        check(recording, capsys.readouterr().out, requests=requests)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_the_example_of_curl_runs_and_tells_nothing(tmp_path: Path) -> None:
    with documented(tmp_path) as (gateway, recording):
        command = block("sh", "curl").replace("http://127.0.0.1:8791", gateway.address)
        done = subprocess.run(
            ["sh", "-c", command], capture_output=True, text=True, timeout=PATIENCE, check=True
        )
        check(recording, done.stdout, requests=1)


def test_every_client_is_one_that_is_run_or_named() -> None:
    for language, text in BLOCKS:
        if language == "python" or text.startswith("curl"):
            assert text.startswith(KNOWN)


def test_codes_of_the_page_are_codes_of_the_gateway() -> None:
    named = re.findall(r"(\d{3}) `(\w+)`(?:, `(\w+)`)?", PAGE)
    assert len(named) > 8
    for status, *codes in named:
        for code in filter(None, codes):
            assert {fault.code: fault.status for fault in FAULTS.values()}[code] == int(status)
