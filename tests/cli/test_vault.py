"""`rootguard vault`, on a SQLite file as people use it."""

import json
import os
import pty
import re
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args
from unittest.mock import ANY

import pytest
from click.testing import CliRunner, Result

from rootguard.cli.main import cli
from rootguard.cli.vault import _public
from rootguard.errors import (
    BudgetError,
    RootGuardError,
    StoreKeyError,
    UnknownNameError,
)
from rootguard.events import Event, RequestRefused
from rootguard.identifiers import IssuedToken
from rootguard.store import Disclosure
from rootguard.store.sql import SqlStore
from rootguard.values import Principal, RootName
from rootguard.vault import open_store
from tests.support.patience import PATIENCE
from tests.support.programs import PYTHON

VALUES = "age = 54\nast = 23\nalt = 30\nplt = 220\n"


class Vault:
    """The command line with one store."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "vault.sqlite3"
        self.values = folder / "me.toml"
        self.values.write_text(VALUES)
        self.url = f"sqlite:///{self.file}"
        self.sound = {"store": self.url, "vault": ANY, "holds": True, "problems": []}

    def run(self, *arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(cli, [*arguments, "--store", self.url], input=stdin)

    def json(self, *arguments: str) -> object:
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def release(self, budget: str = "0.9") -> dict[str, object]:
        body = self.json("release", "fib4", "--budget", budget, "--values", str(self.values))
        assert isinstance(body, dict)
        return body


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(tmp_path)


def test_init_makes_a_private_file_and_is_happy_to_be_called_again(vault: Vault) -> None:
    body = vault.json("vault", "init")
    assert body == {"store": vault.url, "vault": ANY, "principals": 0}
    assert vault.file.stat().st_mode & 0o777 == 0o600
    assert "is ready" in vault.run("vault", "init").output


def test_release_twice_prints_the_same_values_and_spends_once(vault: Vault) -> None:
    first, second = vault.release(), vault.release("3")
    assert first["released"] == second["released"]
    spend = vault.json("vault", "spend")
    assert isinstance(spend, dict)
    assert spend["total"]["spent"] == pytest.approx(0.9)


def test_a_changed_value_is_noised_anew_or_kept_as_the_owner_says(vault: Vault) -> None:
    first = vault.release()
    vault.values.write_text(VALUES.replace("ast", "ast = 99 #", 1))
    arguments = ("release", "fib4", "--budget", "0.9", "--values", str(vault.values))
    kept: Any = vault.json(*arguments, "--on-change", "keep", "--lifetime", "2")
    assert kept["released"] == first["released"]
    assert kept["guarantee"]["roots"]["ast"]["draws"] == 1
    drawn: Any = vault.json(*arguments)
    assert drawn["guarantee"]["roots"]["ast"]["draws"] == 2
    vault.values.write_text(VALUES.replace("ast", "ast = 55 #", 1))
    refused = vault.run(*arguments)
    assert isinstance(refused.exception, BudgetError)
    assert "over its cap" in str(refused.exception)


def test_show_draws_what_went_to_whom_and_no_raw_value(vault: Vault) -> None:
    vault.run("vault", "init")
    assert "nobody" in vault.run("vault", "show").output
    vault.release()
    shown = vault.json("vault", "show")
    assert isinstance(shown, list)
    (profile,) = shown
    assert sorted(profile["roots"]) == ["age", "alt", "ast", "plt"]
    assert profile["roots"]["ast"][0]["given_to"] == [{"service": "", "tier": ""}]
    text = vault.run("vault", "show").output
    assert "given to" in text
    assert "unnamed" in text
    assert vault.run("vault", "show", "--principal", "owner").exit_code == 0
    assert isinstance(vault.run("vault", "show", "--principal", "eve").exception, UnknownNameError)


def test_caps_are_set_shown_enforced_and_lifted(vault: Vault) -> None:
    vault.release("0.9")
    body = vault.json("vault", "spend", "--cap", "total=1", "--cap", "ast=0.5")
    assert isinstance(body, dict)
    assert (body["ast"]["cap"], body["total"]["cap"]) == (0.5, 1.0)
    refine = ("vault", "refine", "fib4", "--values", str(vault.values), "--budget", "2")
    assert isinstance(vault.run(*refine).exception, BudgetError)
    lifted = vault.json("vault", "spend", "--cap", "ast=none")
    assert isinstance(lifted, dict)
    assert lifted["ast"]["cap"] == pytest.approx(10 * lifted["ast"]["spent"])  # of its lifetime
    assert (lifted["ast"]["draws"], lifted["total"]["draws"]) == (1, 4)
    assert lifted["total"]["left"] == pytest.approx(0.1)
    assert "lifetime" in vault.run("vault", "spend").output
    for wrong in ("ast", "=1", "ast=", "ast=x"):
        assert isinstance(vault.run("vault", "spend", "--cap", wrong).exception, BudgetError)


def test_a_cap_for_nobody_or_on_nothing_is_refused(vault: Vault) -> None:
    vault.release()
    before = vault.json("vault", "spend")
    nobody = vault.run("vault", "spend", "--principal", "eve", "--cap", "ast=1")
    assert isinstance(nobody.exception, UnknownNameError)
    nothing = vault.run("vault", "spend", "--cap", "total=1", "--cap", "agee=1")
    assert isinstance(nothing.exception, UnknownNameError)
    assert "available: age, alt, ast, plt" in str(nothing.exception)
    assert vault.json("vault", "spend") == before
    assert isinstance(vault.run("vault", "spend", "--principal", "eve").exception, UnknownNameError)


def test_refine_pays_the_difference(vault: Vault) -> None:
    vault.release("0.5")
    arguments = ("vault", "refine", "fib4", "--values", str(vault.values), "--budget", "1.3")
    body = vault.json(*arguments)
    assert isinstance(body, dict)
    assert body["paid"] == pytest.approx(0.8)
    assert body["guarantee"]["total_epsilon"] == pytest.approx(1.3)
    assert "paid epsilon 0" in vault.run(*arguments).output


def erase_at_a_terminal(vault: Vault, answer: str) -> subprocess.CompletedProcess[str]:
    """Erase the owner, with somebody at the keyboard who types this."""
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())
    try:
        return subprocess.run(
            [
                *(*PYTHON, "-c", "from rootguard.cli.main import cli; cli()"),
                *("vault", "erase", "owner", "--store", vault.url),
            ],
            check=False,
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    finally:
        os.close(ours)
        os.close(theirs)


def test_erase_asks_at_a_terminal(vault: Vault) -> None:
    vault.release()
    asked = erase_at_a_terminal(vault, "n\n")
    assert (asked.returncode, asked.stdout) == (1, "")
    assert "Delete what is kept of owner?" in asked.stderr
    assert "erased" not in vault.run("vault", "show").output
    assert erase_at_a_terminal(vault, "y\n").returncode == 0
    assert "erased" in vault.run("vault", "show", "--principal", "owner").output
    assert "owner" not in vault.run("vault", "show").output


def test_erase_erases_nothing_where_it_can_ask_nobody(vault: Vault) -> None:
    vault.release()
    for answer in ("", "y\n"):
        alone = vault.run("vault", "erase", "owner", stdin=answer)
        assert (alone.exit_code, "give --yes" in alone.output) == (2, True)
    assert isinstance(vault.run("vault", "erase", "eve", "--yes").exception, UnknownNameError)
    assert "erased" not in vault.run("vault", "show").output


def test_erase_says_what_a_server_still_has(vault: Vault, new_postgres: Callable[[], str]) -> None:
    kept = "The server keeps deleted rows"
    vault.release()
    assert kept not in vault.run("vault", "erase", "owner", "--yes").output
    vault.url = new_postgres()
    vault.release()
    said = vault.run("vault", "erase", "owner", "--yes")
    assert kept in said.output
    assert "rotate-key" in said.output
    assert vault.run("vault", "rotate-key").exit_code == 0


def test_erase_keeps_the_spending(vault: Vault) -> None:
    vault.release()
    body = vault.json("vault", "erase", "owner", "--yes")
    assert body == {"principal": "owner", "erased": True, "spent": pytest.approx(0.9)}
    assert vault.json("vault", "show") == []
    assert "erased" in vault.run("vault", "show", "--principal", "owner").output
    vault.release()
    spend = vault.json("vault", "spend")
    assert isinstance(spend, dict)
    assert spend["total"]["spent"] == pytest.approx(1.8)


@pytest.fixture
def exported(vault: Vault) -> dict[str, Any]:
    """An export of somebody of whom there is something of everything."""
    table = vault.file.with_name("in.csv")
    table.write_text("id,wt,ht\nowner,80,1.8\nother,60,1.7\n")
    batch = ("--in", str(table), "--out", str(table.with_name("out.csv")), "--id", "id")
    ran = vault.run("batch", "bmi", *batch, "--budget", "0.4", "--allocation", "uniform")
    assert ran.exit_code == 0, ran.output
    vault.release()
    vault.values.write_text(VALUES.replace("ast = 23", "ast = 99"))
    vault.release()
    vault.run("vault", "refine", "fib4", "--values", str(vault.values), "--budget", "1.3")
    vault.run("vault", "spend", "--cap", "total=8", "--cap", "ast=4")
    with closing(open_store(vault.url)) as store:
        owner = Principal("owner")
        token = IssuedToken(kind="person", token="Bo Lee", sealed=b"SEALED")
        store.tokens(owner).add(token)
        store.disclose(
            owner, [Disclosure(service="lab", tier="t", root="ast", version=2, position=0)]
        )
        store.note(owner, RequestRefused(turn=3, reason="BudgetError"))
    body = json.loads(vault.run("vault", "export").stdout)
    assert isinstance(body, dict)
    return body


def test_export_is_everything_that_is_kept_of_a_person(
    vault: Vault, exported: dict[str, Any]
) -> None:
    assert exported["principal"] == "owner"
    assert sorted(exported["roots"]) == ["age", "alt", "ast", "plt"]
    ast = exported["roots"]["ast"]
    assert (ast["unit"], ast["current"]) == ("U/L", 2)
    assert [(each["version"], len(each["levels"])) for each in ast["versions"]] == [(1, 1), (2, 2)]
    coarse, fine = ast["versions"][1]["levels"]
    assert coarse["epsilon"] < fine["epsilon"]
    kinds = [event["kind"] for event in exported["ledger"]]
    assert kinds == ["root-noised"] * 5 + ["root-refined"] * 4
    assert exported["caps"] == {"ast": 4, "total": 8}
    assert exported["spending"] == vault.json("vault", "spend")
    assert {"service": "lab", "tier": "t", "root": "ast", "version": 2, "position": 0} in (
        exported["disclosures"]
    )
    assert exported["tables"] == {root: {"draws": 1, "epsilon": 0.2} for root in ("ht", "wt")}
    assert exported["identifiers"] == {"tokens": 1, "kinds": {"person": 1}}
    assert {"root-noised", "value-released", "request-refused"} <= {
        entry["event"]["kind"] for entry in exported["log"]
    }


def test_an_export_of_an_erased_person_holds_the_totals_alone(
    vault: Vault, exported: dict[str, Any]
) -> None:
    vault.json("vault", "erase", "Owner ", "--yes")
    body = json.loads(vault.run("vault", "export", "--principal", "OWNER").stdout)
    assert (body["erasures"], body["roots"], body["disclosures"]) == (1, {}, [])
    assert (body["identifiers"]["tokens"], body["tables"]) == (0, {})
    assert body["spending"] == exported["spending"]
    assert {"root-charged", "service-charged"} <= {event["kind"] for event in body["ledger"]}
    assert keys_of(body) - {*exported["spending"]} <= documented()
    assert [entry["event"]["kind"] for entry in body["log"]] == ["profile-erased"]


def documented() -> set[str]:
    """The keys that the documentation of the export names."""
    page = (Path(__file__).parents[2] / "docs" / "vault.md").read_text()
    section = page.partition("## The export")[2].partition("\n## ")[0]
    return set(re.findall(r"`(\w+)`", section))


def test_an_export_holds_no_raw_value_fingerprint_or_identifier(
    vault: Vault, exported: dict[str, Any]
) -> None:
    text = json.dumps(exported)
    assert "Bo Lee" not in text
    assert "SEALED" not in text
    assert b"SEALED".hex() not in text
    with closing(open_store(vault.url)) as store:
        [first] = store.levels(Principal("owner"), RootName("age"))[:1]
        assert first.fingerprint.hex() not in text


def test_the_documentation_names_every_key_of_an_export(exported: dict[str, Any]) -> None:
    named = documented()
    assert keys_of(exported) - {*exported["spending"], "person"} <= named
    assert "no_such_key" not in named
    assert {field.name for kind in get_args(Event) for field in fields(kind)} <= named


def keys_of(body: object) -> set[str]:
    """Every key of a document, however deep."""
    if isinstance(body, dict):
        return {*body, *(key for each in body.values() for key in keys_of(each))}
    return {key for each in body for key in keys_of(each)} if isinstance(body, list) else set()


def test_verify_passes_on_a_sound_vault_and_exits_with_one_on_damage(vault: Vault) -> None:
    vault.release()
    assert vault.json("vault", "verify") == vault.sound
    assert "every invariant holds" in vault.run("vault", "verify").output
    with closing(sqlite3.connect(vault.file)) as other:
        other.execute("DELETE FROM events")
        other.commit()
    damaged = vault.run("vault", "verify", "--json")
    assert damaged.exit_code == 1
    assert json.loads(damaged.stdout)["problems"]


def test_a_rotated_key_opens_what_the_old_one_did(vault: Vault) -> None:
    before = vault.release()
    rotated = vault.run("vault", "rotate-key")
    assert rotated.exit_code == 0
    assert "Renewed: the master key" in rotated.output
    said = " ".join(rotated.output.split())
    assert "Not renewed: each person's own key, and the secrets behind fingerprints" in said
    assert vault.release()["released"] == before["released"]
    assert vault.json("vault", "verify") == vault.sound


def test_what_a_reader_keeps_under_the_old_key_is_said(vault: Vault) -> None:
    vault.release()
    with closing(sqlite3.connect(vault.file, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        (wrapped,) = reader.execute("SELECT wrapped FROM secrets").fetchone()
        rotated = vault.run("vault", "rotate-key")
        assert rotated.exit_code == 0
        assert wrapped in vault.file.read_bytes()
        assert "not yet: a reader holds the log" in rotated.stderr
    rotated = vault.run("vault", "rotate-key")
    assert rotated.stderr == ""
    held = [each.read_bytes() for each in vault.file.parent.iterdir() if each.is_file()]
    assert not any(wrapped in each for each in held)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:////home/a@b/v.sqlite3", "sqlite:////home/a@b/v.sqlite3"),
        ("postgresql://ann:hunter2@db/vault", "postgresql://db/vault"),
        ("postgresql://db/vault?user=ann&password=hunter2", "postgresql://db/vault"),
        (
            "postgresql://db/vault?sslpassword=hunter2&schema=two",
            "postgresql://db/vault?schema=two",
        ),
        ("postgresql://db/vault?p%61ssword=hunter2", "postgresql://db/vault"),
        ("postgresql://db/vault?password=hunt@er2", "postgresql://…"),
        ("postgresql://ann:hunt?er2@db/vault", "postgresql://…"),
        ("postgresql://ann:hunt@er2@db/vault", "postgresql://db/vault"),
    ],
)
def test_no_address_is_shown_with_a_password(url: str, shown: str) -> None:
    assert _public(url) == shown


def test_a_person_is_found_by_any_spelling_without_reading_everybody(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault.release()
    with closing(open_store(vault.url)) as store:
        store.tokens(Principal("Zoë")).add(IssuedToken(kind="person", token="Al", sealed=b"s"))
    monkeypatch.setattr(SqlStore, "principals", None)
    for command in ("show", "spend", "export", "erase"):
        extra = ("--yes",) if command == "erase" else ()
        for name in ("OWNER", "ZOE\u0308"):
            who = (name,) if command == "erase" else ("--principal", name)
            assert vault.run("vault", command, *who, *extra).exit_code == 0


def test_an_address_that_makes_no_sense_is_refused(vault: Vault) -> None:
    result = CliRunner().invoke(cli, ["vault", "show", "--store", "mysql://somewhere"])
    assert isinstance(result.exception, RootGuardError)
    assert "sqlite" in str(result.exception)


def test_a_key_from_the_environment_is_rotated_to_one_from_the_environment(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOTGUARD_KEY", "11" * 32)
    vault.json("vault", "init")
    before = vault.release()
    refused = vault.run("vault", "rotate-key")
    assert isinstance(refused.exception, StoreKeyError)
    assert "ROOTGUARD_NEW_KEY" in str(refused.exception)
    monkeypatch.setenv("ROOTGUARD_NEW_KEY", "22" * 32)
    assert vault.json("vault", "rotate-key") == {
        "store": vault.url,
        "rotated": True,
        "renewed": ["integrity", "registry"],
        "kept": ["fingerprint", "identifier", "person_keys"],
    }
    monkeypatch.setenv("ROOTGUARD_NEW_KEY", "33" * 32)
    monkeypatch.setenv("ROOTGUARD_KEY", "22" * 32)
    assert "Set ROOTGUARD_KEY to it now" in vault.run("vault", "rotate-key").output
    assert vault.run("vault", "show").exit_code == 0  # one after the other may be given the new one
    again = vault.run("vault", "rotate-key")
    assert "under this key already" in str(again.exception)
    monkeypatch.delenv("ROOTGUARD_NEW_KEY")
    assert isinstance(vault.run("vault", "show").exception, StoreKeyError)
    monkeypatch.setenv("ROOTGUARD_KEY", "33" * 32)
    assert vault.release()["released"] == before["released"]
