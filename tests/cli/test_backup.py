"""`rootguard vault backup`, `restore`, `copy`, and the anchor, as people use them."""

import json
import os
import pty
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rootguard.cli.main import cli
from rootguard.cli.output import progress_of_rows
from rootguard.errors import (
    ProfileError,
    StoreDamagedError,
    StoreError,
    StoreMissingError,
    StoreRolledBackError,
)
from rootguard.session import load_profile
from tests.support.patience import PATIENCE

VALUES = "age = 54\nast = 23\nalt = 30\nplt = 220\n"
RELEASE = ("release", "fib4", "--budget", "0.9")


class Vaults:
    """The command line, and a folder of vaults."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.values = folder / "me.toml"
        self.values.write_text(VALUES)

    def url(self, name: str) -> str:
        return f"sqlite:///{self.folder / name}"

    def run(self, *arguments: str | Path) -> Result:
        return CliRunner().invoke(cli, [str(each) for each in arguments])

    def json(self, *arguments: str | Path) -> Any:  # noqa: ANN401 - whatever a command prints
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, (result.output, result.exception)
        return json.loads(result.stdout)

    def release(self, url: str) -> Any:  # noqa: ANN401
        return self.json(*RELEASE, "--values", self.values, "--store", url)["released"]


@pytest.fixture
def vaults(tmp_path: Path, own_data_directory: None) -> Vaults:
    return Vaults(tmp_path)


def test_a_backup_is_restored_in_place_of_a_vault_that_is_gone(vaults: Vaults) -> None:
    url, out = vaults.url("vault.db"), vaults.folder / "kept" / "monday.backup"
    first = vaults.release(url)
    made = vaults.json("vault", "backup", "--store", url, "--out", out)
    assert made["file"] == str(out)
    assert made["key"] == str(vaults.folder / "vault.db.key")
    assert made["rows"] > 0
    assert out.stat().st_mode & 0o777 == 0o600
    (vaults.folder / "vault.db").unlink()
    restored = vaults.json("vault", "restore", "--from", out, "--store", url)
    assert (restored["vault"], restored["rows"]) == (made["vault"], made["rows"])
    assert vaults.release(url) == first


def test_what_is_printed_says_where_the_key_is_and_what_to_mind(vaults: Vaults) -> None:
    url, out = vaults.url("vault.db"), vaults.folder / "monday.backup"
    vaults.release(url)
    said = vaults.run("vault", "backup", "--store", url, "--out", out)
    assert f"the key in {vaults.folder}/vault.db.key opens it" in said.output
    assert "keep a copy of the key somewhere else" in said.output
    copied = vaults.run("vault", "copy", "--from", url, "--to", vaults.url("second.db"))
    assert "use only one of the two" in copied.output
    (vaults.folder / "vault.db").unlink()
    restored = vaults.run("vault", "restore", "--from", out, "--store", url)
    assert "will be noised a second time" in restored.output
    assert not any("copying" in each.stderr for each in (said, copied, restored))  # no terminal


def test_a_copy_goes_to_a_server_and_back(
    vaults: Vaults, new_postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, server, back = vaults.url("a.db"), new_postgres(), vaults.url("b.db")
    first = vaults.release(here)
    there = vaults.json("vault", "copy", "--from", here, "--to", server)
    again = vaults.json("vault", "copy", "--from", server, "--to", back)
    assert there["vault"] == again["vault"]
    assert "postgres@" not in there["to"]
    assert vaults.release(server) == vaults.release(back) == first


def test_nothing_is_overwritten_and_nothing_made_from_nothing(vaults: Vaults) -> None:
    url, out = vaults.url("vault.db"), vaults.folder / "monday.backup"
    missing = vaults.run("vault", "backup", "--store", url, "--out", out)
    assert isinstance(missing.exception, StoreMissingError)
    vaults.release(url)
    out.write_text("mine")
    for command in (
        ("vault", "backup", "--store", url, "--out", out),
        ("vault", "copy", "--from", url, "--to", f"sqlite:///{out}"),
        ("vault", "copy", "--from", url, "--to", url),
    ):
        assert isinstance(vaults.run(*command).exception, StoreError)
    assert out.read_text() == "mine"
    wrong = vaults.run("vault", "restore", "--from", out, "--store", vaults.url("new.db"))
    assert isinstance(wrong.exception, StoreDamagedError)
    absent = vaults.run("vault", "restore", "--from", "none", "--store", vaults.url("new.db"))
    assert isinstance(absent.exception, StoreMissingError)
    assert sorted(each.name for each in vaults.folder.iterdir() if "new" in each.name) == []


def test_an_anchor_is_made_by_verify_and_shows_an_older_copy(vaults: Vaults) -> None:
    url, anchor = vaults.url("vault.db"), vaults.folder / "elsewhere.anchor"
    out = vaults.folder / "monday.backup"
    vaults.release(url)
    unmade = vaults.run("vault", "backup", "--store", url, "--out", out, "--anchor", anchor)
    assert "vault verify --anchor" in str(unmade.exception)
    first = vaults.json("vault", "verify", "--store", url, "--anchor", anchor)
    assert (first["holds"], first["anchor"]) == (True, "made")
    vaults.json("vault", "backup", "--store", url, "--out", out, "--anchor", anchor)
    vaults.json("vault", "spend", "--store", url, "--cap", "ast=2")
    later = vaults.json("vault", "verify", "--store", url, "--anchor", anchor)
    assert (later["holds"], later["anchor"]) == (True, "checked")
    (vaults.folder / "vault.db").unlink()
    older = vaults.run("vault", "restore", "--from", out, "--store", url, "--anchor", anchor)
    assert isinstance(older.exception, StoreRolledBackError)
    assert not (vaults.folder / "vault.db").exists()
    vaults.json("vault", "restore", "--from", out, "--store", url)
    seen = vaults.run("vault", "verify", "--store", url, "--anchor", anchor, "--json")
    assert seen.exit_code == 1
    [problem] = json.loads(seen.stdout)["problems"]
    assert problem.startswith("owner: older than the anchor")
    for command in (("copy", "--from", url, "--to", vaults.url("c.db")), ("backup", "--out", "x")):
        where = () if command[0] == "copy" else ("--store", url)
        refused = vaults.run("vault", *command, *where, "--anchor", anchor)
        assert isinstance(refused.exception, StoreRolledBackError)
    anchor.unlink()
    said = vaults.run("vault", "verify", "--store", url, "--anchor", anchor)
    assert "every invariant holds" in said.output
    assert "nothing that was put back before" in " ".join(said.output.split())
    said = vaults.run("vault", "verify", "--store", url, "--anchor", anchor)
    assert "There was no anchor" not in said.output


def test_a_damaged_vault_is_told_as_such_beside_an_anchor_that_is_new(vaults: Vaults) -> None:
    url, anchor = vaults.url("vault.db"), vaults.folder / "elsewhere.anchor"
    vaults.release(url)
    with closing(sqlite3.connect(vaults.folder / "vault.db")) as database, database:
        database.execute("UPDATE people SET revision = revision + 9")
    seen = vaults.run("vault", "verify", "--store", url, "--anchor", anchor, "--json")
    assert seen.exit_code == 1
    assert "the row of a person was altered" in str(json.loads(seen.stdout)["problems"])
    assert len(anchor.read_text().splitlines()) == 1  # nothing of it was taken for true


def test_a_profile_names_its_anchor(vaults: Vaults) -> None:
    profile = vaults.folder / "profile.toml"
    profile.write_text('templates = ["fib4"]\nbudget = "0.9"\nanchor = "a/vault.anchor"\n')
    assert load_profile(profile).anchor == vaults.folder / "a" / "vault.anchor"
    profile.write_text('templates = ["fib4"]\nbudget = "0.9"\nanchor = 3\n')
    with pytest.raises(ProfileError, match="anchor"):
        load_profile(profile)


def test_a_profile_whose_vault_was_put_back_is_not_served(vaults: Vaults) -> None:
    url, anchor = vaults.url("vault.db"), vaults.folder / "vault.anchor"
    out, profile = vaults.folder / "monday.backup", vaults.folder / "profile.toml"
    vaults.release(url)
    vaults.json("vault", "backup", "--store", url, "--out", out)
    vaults.json("vault", "spend", "--store", url, "--cap", "ast=2")
    vaults.json("vault", "verify", "--store", url, "--anchor", anchor)
    (vaults.folder / "vault.db").unlink()
    vaults.json("vault", "restore", "--from", out, "--store", url)
    profile.write_text(
        f'templates = ["fib4"]\nbudget = "0.9"\nstore = "{url}"\nanchor = "vault.anchor"\n'
        f"[values]\n{VALUES}"
    )
    served = vaults.run("mcp", "serve", "--profile", profile)
    assert isinstance(served.exception, StoreRolledBackError), served.output


def test_progress_is_shown_where_somebody_watches() -> None:
    ours, theirs = pty.openpty()
    program = (
        "from rootguard.cli.output import progress_of_rows\n"
        "with progress_of_rows() as told:\n"
        "    told('copying', 3, 12)\n"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], stderr=theirs, check=False, timeout=PATIENCE
        )
        assert done.returncode == 0
        assert b"3/12" in os.read(ours, 100_000)
    finally:
        os.close(ours)
        os.close(theirs)
    with progress_of_rows() as told:
        told("copying", 1, 2)
