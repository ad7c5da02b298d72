"""`rootguard console`: what it prints, what it refuses, and that it stops in peace."""

import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner, Result

from rootguard import open_store
from rootguard.cli import console as console_cli
from rootguard.cli.main import cli
from tests.support.console_servers import KEY, PROFILE, open_person
from tests.support.patience import PATIENCE
from tests.support.programs import PYTHON

_COMMAND = "from rootguard.cli.console import command; command()"


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    """A folder with a profile and the vault of its values."""
    (tmp_path / "me.toml").write_text('store = "sqlite:///vault.db"\n' + PROFILE % "owner")
    with closing(open_store(f"sqlite:///{tmp_path / 'vault.db'}")) as store:
        open_person(store).release("fib4")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["console", *arguments])


@contextmanager
def running(*options: str, key: str = "") -> Iterator[str]:
    """The first line that a console in a process of its own prints; it must stop in peace."""
    process = subprocess.Popen(
        [*PYTHON, "-c", _COMMAND, "--port", "0", *options],
        stdout=subprocess.PIPE,
        env=os.environ | {"CONSOLE_KEY": key},
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()
        process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert process.returncode in (0, -15)


def test_the_link_holds_a_fresh_key_that_opens_the_page(vault: Path) -> None:
    keys = set()
    for _ in range(2):
        with running("--profile", str(vault / "me.toml")) as link:
            found = re.fullmatch(r"(http://127\.0\.0\.1:\d+/console/)#key=([\w-]{32})", link)
            assert found is not None
            page, key = found.groups()
            assert httpx2.get(page, timeout=PATIENCE).status_code == 200
            assert httpx2.get(f"{page}api/me", timeout=PATIENCE).status_code == 401
            shown = httpx2.get(
                f"{page}api/me", headers={"authorization": f"Bearer {key}"}, timeout=PATIENCE
            )
            assert shown.json()["principal"] == "owner"
            keys.add(key)
    assert len(keys) == 2


def test_a_principal_of_the_vault_is_shown_without_a_profile(vault: Path) -> None:
    store = f"sqlite:///{vault / 'vault.db'}"
    options = ["--principal", "owner", "--store", store, "--key-env", "CONSOLE_KEY", "--json"]
    with running(*options, key=KEY) as line:
        told = json.loads(line)
        assert told == {"url": told["url"], "link": f"{told['url']}#key={KEY}", "key": KEY}
        headers = {"authorization": f"Bearer {KEY}"}
        found = httpx2.get(f"{told['url']}api/log", headers=headers, timeout=PATIENCE).json()
        assert found["total"] == 5
        graph = httpx2.get(
            f"{told['url']}api/graph?template=fib4", headers=headers, timeout=PATIENCE
        ).json()
        assert graph["budget"] == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "give either --profile or --principal"),
        (("--principal", "owner", "--profile", "me.toml"), "give either"),
        (("--profile", "me.toml", "--template", "fib4"), "--template is for --principal"),
        (("--principal", "owner", "--host", "0.0.0.0"), "stays on this machine"),
        (("--principal", "owner", "--host", "box.example"), "stays on this machine"),
        (("--principal", "owner", "--key-env", "ROOTGUARD_NO_SUCH"), "no key of 16 characters"),
    ],
)
def test_misuse_is_told_in_a_sentence(options: Sequence[str], said: str) -> None:
    made = run(*options)
    assert made.exit_code == 2
    assert said in " ".join(made.output.split())


def test_somebody_whom_the_vault_does_not_know_is_refused(vault: Path) -> None:
    made = run("--principal", "stranger", "--store", f"sqlite:///{vault / 'vault.db'}")
    assert made.exit_code != 0
    assert "stranger" in str(made.exception)


def test_the_browser_is_given_a_file_and_not_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    link = "http://127.0.0.1:1/console/#key=secret"
    with console_cli._opened(link):
        (address,) = opened
        file = Path(address.removeprefix("file://"))
        assert "secret" not in address
        assert link in file.read_text()
        assert file.stat().st_mode & 0o077 == 0
    assert not file.exists()
