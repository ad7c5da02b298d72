"""`rootguard vault`, on a SQLite file as people use it."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rootguard.cli.main import cli
from rootguard.errors import (
    BudgetError,
    RootGuardError,
    StoreError,
    StoreKeyError,
    UnknownNameError,
)

VALUES = "age = 54\nast = 23\nalt = 30\nplt = 220\n"


class Vault:
    """The command line with one store."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "vault.sqlite3"
        self.values = folder / "me.toml"
        self.values.write_text(VALUES)
        self.url = f"sqlite:///{self.file}"

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
    assert body == {"store": vault.url, "principals": 0}
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
    body = vault.json("vault", "spend", "--cap", "total=1", "--cap", "ast=0.5")
    assert body == {
        "ast": {"spent": 0.0, "cap": 0.5, "left": 0.5, "draws": 0},
        "total": {"spent": 0.0, "cap": 1.0, "left": 1.0, "draws": 0},
    }
    refused = vault.run("release", "fib4", "--budget", "2", "--values", str(vault.values))
    assert isinstance(refused.exception, BudgetError)
    vault.release("0.9")
    lifted = vault.json("vault", "spend", "--cap", "ast=none")
    assert isinstance(lifted, dict)
    assert lifted["ast"]["cap"] == pytest.approx(10 * lifted["ast"]["spent"])  # of its lifetime
    assert (lifted["ast"]["draws"], lifted["total"]["draws"]) == (1, 4)
    assert lifted["total"]["left"] == pytest.approx(0.1)
    assert "lifetime" in vault.run("vault", "spend").output
    for wrong in ("ast", "=1", "ast=", "ast=x"):
        assert isinstance(vault.run("vault", "spend", "--cap", wrong).exception, BudgetError)


def test_refine_pays_the_difference(vault: Vault) -> None:
    vault.release("0.5")
    arguments = ("vault", "refine", "fib4", "--values", str(vault.values), "--budget", "1.3")
    body = vault.json(*arguments)
    assert isinstance(body, dict)
    assert body["paid"] == pytest.approx(0.8)
    assert body["guarantee"]["total_epsilon"] == pytest.approx(1.3)
    assert "paid epsilon 0" in vault.run(*arguments).output


def test_revoke_asks_then_erases_and_keeps_the_spending(vault: Vault) -> None:
    vault.release()
    assert vault.run("vault", "revoke", stdin="n\n").exit_code == 1
    body = vault.json("vault", "revoke", "--yes")
    assert body == {"principal": "owner", "erased": True, "spent": pytest.approx(0.9)}
    assert "erased" in vault.run("vault", "show").output
    vault.release()
    spend = vault.json("vault", "spend")
    assert isinstance(spend, dict)
    assert spend["total"]["spent"] == pytest.approx(1.8)


def test_export_is_everything_kept_as_json(vault: Vault) -> None:
    vault.release()
    body = json.loads(vault.run("vault", "export").stdout)
    assert [event["kind"] for event in body["events"]] == ["root-noised"] * 4
    assert body["principal"] == "owner"


def test_verify_passes_on_a_sound_vault_and_exits_with_one_on_damage(vault: Vault) -> None:
    vault.release()
    assert vault.json("vault", "verify") == {"store": vault.url, "holds": True, "problems": []}
    assert "every invariant holds" in vault.run("vault", "verify").output
    content = bytearray(vault.file.read_bytes())
    at = content.index(b"root-noised")
    content[at : at + 4] = b"ROOT"
    vault.file.write_bytes(bytes(content))
    damaged = vault.run("vault", "verify", "--json")
    assert damaged.exit_code == 1 or isinstance(damaged.exception, StoreError)
    if damaged.exit_code == 1 and damaged.stdout:
        assert json.loads(damaged.stdout)["problems"]


def test_a_rotated_key_opens_what_the_old_one_did(vault: Vault) -> None:
    before = vault.release()
    assert vault.run("vault", "rotate-key").exit_code == 0
    assert vault.release()["released"] == before["released"]
    assert vault.json("vault", "verify") == {"store": vault.url, "holds": True, "problems": []}


def test_an_address_that_makes_no_sense_is_refused(vault: Vault) -> None:
    result = CliRunner().invoke(cli, ["vault", "show", "--store", "mysql://somewhere"])
    assert isinstance(result.exception, RootGuardError)
    assert "sqlite" in str(result.exception)


def test_a_key_from_the_environment_is_rotated_to_one_from_the_environment(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOTGUARD_KEY", "11" * 32)
    before = vault.release()
    refused = vault.run("vault", "rotate-key")
    assert isinstance(refused.exception, StoreKeyError)
    assert "ROOTGUARD_NEW_KEY" in str(refused.exception)
    monkeypatch.setenv("ROOTGUARD_NEW_KEY", "22" * 32)
    assert vault.json("vault", "rotate-key") == {"store": vault.url, "rotated": True}
    assert isinstance(vault.run("vault", "show").exception, StoreKeyError)
    monkeypatch.setenv("ROOTGUARD_KEY", "22" * 32)
    assert vault.release()["released"] == before["released"]
