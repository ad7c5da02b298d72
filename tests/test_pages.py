"""Every block of the pages runs, in the order of its page, or says why it does not."""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pint", reason="the extra gateway is not installed")

from tests.support.page_shell import environment, run_server
from tests.support.pages import (
    LANGUAGES,
    PAGES,
    ROOT,
    Block,
    blocks_of,
    commands,
    given,
    read_data,
    run_python,
    shell,
)
from tests.support.patience import PATIENCE

SERVES = ("rootguard gateway ", "rootguard console ", "rootguard mcp serve ")
CONSOLE_KEY = "a-key-of-this-test-0123456789"
ALL = [block for page in PAGES for block in blocks_of(page)]


def of(language: str) -> list[str]:
    """Pages with such blocks that are to be run here."""
    found = {each.page for each in ALL if each.language == language and runs_here(each)}
    return sorted(found)


def runs_here(block: Block) -> bool:
    return block.reason is None and block.elsewhere is None


def test_every_block_is_run_or_says_why_not() -> None:
    for block in ALL:
        where = f"{block.page}:{block.line}"
        if block.elsewhere is not None:
            assert Path(block.page).name in (ROOT / block.elsewhere).read_text("utf-8"), where
        elif block.reason is not None:
            assert len(block.reason.split()) >= 5, f"{where}: say more"
        else:
            assert block.language in LANGUAGES, f"{where}: what is it?"
        if block.language == "text":
            assert not re.search(r"^(rootguard|make|pip|python) ", block.text, re.MULTILINE), where
    not_run = [each for each in ALL if each.reason is not None]
    assert len(not_run) <= 12, "find a way to run blocks rather than a reason"


@pytest.mark.filterwarnings("ignore")  # of packages that a page shows
@pytest.mark.parametrize("page", of("python"))
def test_the_python_of_a_page_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOTGUARD_STORE", "memory:")
    names = {"__name__": "page", **given(page, tmp_path)}
    left_out = set()
    for block in blocks_of(page):
        if block.language == "python" and runs_here(block):
            if block.missing:
                left_out |= block.missing
            else:
                run_python(block, names)
    if left_out:
        pytest.skip(f"all but the blocks that need {', '.join(sorted(left_out))} ran")


@pytest.mark.parametrize(
    "block",
    [each for each in ALL if each.language in ("json", "toml") and runs_here(each)],
    ids=lambda block: f"{block.page}:{block.line}",
)
def test_data_is_read_by_what_reads_it(block: Block, tmp_path: Path) -> None:
    read_data(block, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("page", of("sh"))
def test_the_commands_of_a_page_run(page: str, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    (tmp_path / "home").mkdir()
    given(page, folder)
    shell("true", folder)
    if page == "docs/vault.md":  # whose Python comes first, and makes the vault
        program = [each.text for each in blocks_of(page) if each.language == "python"]
        (folder / "page.py").write_text("\n".join(program), encoding="utf-8")
        done = shell("python page.py", folder)
        assert done.returncode == 0, done.stderr
    for block in blocks_of(page):
        if block.language == "sh" and runs_here(block):
            run_commands(block, folder)


def run_commands(block: Block, folder: Path) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for line in commands(block.text):
        where = f"{block.page}:{block.line}: {line}"
        if line.startswith("pip install"):
            assert set(re.findall(r"\[([\w,-]+)\]", line)) <= set(extras["optional-dependencies"])
        elif line.startswith("curl ") and "/console/" in line:
            with serving_console(folder) as address:
                asked = line.replace("http://127.0.0.1:8792", address).replace("-s ", "-sf ")
                done = shell(f"export CONSOLE_KEY={CONSOLE_KEY}; {asked}", folder)
                assert done.returncode == 0, f"{where}\n{done.stderr}"
                assert "entries" in done.stdout
        elif line.startswith(SERVES) and "mcp serve" not in line:
            run_server(folder, f"env UPSTREAM_KEY=sk {line}" if "UPSTREAM_KEY" in line else line)
        elif "--http" in line:
            assert shell(f"timeout 20 {line.replace(':8792', ':0')}", folder).returncode == 124
        else:
            done = shell(line, folder)
            assert done.returncode == 0, f"{where}\n{done.stdout}\n{done.stderr}"


@contextmanager
def serving_console(folder: Path) -> Iterator[str]:
    """The console of the page's owner, on a free port."""
    running = subprocess.Popen(
        ["rootguard", "console", "--profile", "me.toml", "--port", "0", "--key-env", "CONSOLE_KEY"],
        cwd=folder,
        env={**environment(folder), "PYTHONUNBUFFERED": "1", "CONSOLE_KEY": CONSOLE_KEY},
        executable=folder / "bin" / "rootguard",
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert running.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+", running.stdout.readline())
        assert found is not None
        yield found[0]
    finally:
        running.terminate()
        running.communicate(timeout=PATIENCE)


def test_a_block_that_fails_would_be_noticed(tmp_path: Path) -> None:
    wrong = Block(page="p.md", line=1, language="toml", text='[tiers.a]\nbudgt = "1"', reason=None)
    with pytest.raises(Exception, match="a tier has a budget"):
        read_data(wrong, tmp_path)
    with pytest.raises(NameError):
        run_python(Block(page="p.md", line=1, language="python", text="nobody()", reason=None), {})
    text = "rootguard plan fib4 \\\n  --hide age=5   # a comment"
    assert commands(text) == ["rootguard plan fib4    --hide age=5"]
