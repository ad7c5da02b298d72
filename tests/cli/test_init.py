"""`rootguard init`: a first profile that works, holds no value, and is nobody else's to read."""

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rootguard import open_store
from rootguard.cli.main import cli
from rootguard.cli.options import vault_url
from rootguard.errors import ProfileError
from rootguard.session import Person, load_profile

VALUES = "age = 66\nast = 12.125\nalt = 10\nplt = 170.25\n"


@pytest.fixture
def vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path}/vault.db"
    monkeypatch.setenv("ROOTGUARD_STORE", url)
    return url


def init(tmp_path: Path, *arguments: str) -> Result:
    (tmp_path / "values.toml").write_text(VALUES)
    (tmp_path / "names.toml").write_text('name = "Zoë Quux"\nrecord = "MRN-4415-8820"\n')
    out = str(tmp_path / "me.toml")
    return CliRunner().invoke(cli, ["init", "--out", out, "--template", "fib4", *arguments])


def test_a_profile_is_written_noised_and_usable(tmp_path: Path, vault: str) -> None:
    result = init(
        tmp_path,
        *("--budget", "0.9", "--values", str(tmp_path / "values.toml")),
        *("--identifiers", str(tmp_path / "names.toml"), "--json"),
    )
    assert result.exit_code == 0, result.output
    body = json.loads(result.output)
    assert body["noised"] == ["age", "ast", "alt", "plt"]
    profile = load_profile(tmp_path / "me.toml")
    assert not profile.values
    person = Person.open(profile, store=open_store(vault))
    assert person.target() == Person.open(profile, store=open_store(vault)).target()
    assert sum(person.spent().values()) == pytest.approx(0.9)
    assert "Zoë" not in person.release("name").__str__()


def test_the_file_and_the_output_hold_no_value(tmp_path: Path, vault: str) -> None:
    result = init(tmp_path, "--values", str(tmp_path / "values.toml"))
    written = (tmp_path / "me.toml").read_text()
    for digits in ("12.125", "170.25"):
        assert digits not in written
        assert digits not in result.output
    assert stat.S_IMODE((tmp_path / "me.toml").stat().st_mode) == 0o600


def test_it_says_what_the_goals_cost_and_which_are_of_no_use(tmp_path: Path, vault: str) -> None:
    usual = " ".join(init(tmp_path).output.split())
    assert "The cost, on synthetic people: fib4 is 23.3 % off" in usual
    assert "of people are put in another risk class" in usual
    assert "of no use" not in usual
    (tmp_path / "me.toml").unlink()
    (tmp_path / "me-policy.toml").unlink()
    far = " ".join(init(tmp_path, "--hide", "age=40").output.split())
    assert "Age is of no use to the service like this" in far


def test_it_prints_how_to_use_the_profile(tmp_path: Path, vault: str) -> None:
    output = init(tmp_path, "--budget", "0.9").output
    assert '"mcpServers"' in output
    assert "OPENAI_BASE_URL" in output
    assert "average error" in output


def test_it_warns_of_one_quantity_under_two_names(tmp_path: Path, vault: str) -> None:
    mine = tmp_path / "mine.toml"
    head = 'name = "mine"\ntitle = "t"\ntarget = { name = "score", formula = "thrombocytes" }\n'
    mine.write_text(head + "roots.thrombocytes = { lower = 10, upper = 600 }\n")
    told = init(tmp_path, "--template", str(mine))
    assert (told.exit_code, init(tmp_path, "--force").stderr) == (0, "")
    assert told.stderr.startswith("warning: plt of fib4 and thrombocytes of mine are both called")
    listed = init(tmp_path, "--template", str(mine), "--force", "--json")
    (warning,) = json.loads(listed.stdout)["warnings"]
    assert told.stderr == f"warning: {warning}\n"
    assert listed.stderr == ""


def test_a_profile_that_is_there_is_kept_unless_forced(tmp_path: Path, vault: str) -> None:
    assert init(tmp_path).exit_code == 0
    before = (tmp_path / "me.toml").read_text()
    refused = init(tmp_path, "--budget", "0.5")
    assert isinstance(refused.exception, ProfileError)
    assert (tmp_path / "me.toml").read_text() == before
    assert init(tmp_path, "--budget", "0.5", "--force").exit_code == 0
    assert 'budget = "0.5"' in (tmp_path / "me.toml").read_text()


def test_a_wrong_value_writes_nothing_and_is_not_quoted(tmp_path: Path, vault: str) -> None:
    (tmp_path / "bad.toml").write_text('ast = "secret-4711"\n')
    result = init(tmp_path, "--values", str(tmp_path / "bad.toml"))
    assert result.exit_code != 0
    assert "4711" not in str(result.exception)
    assert not (tmp_path / "me.toml").exists()


def test_a_template_file_is_named_from_the_profiles_folder(tmp_path: Path, vault: str) -> None:
    source = Path(__file__).parents[2] / "src/rootguard/template/templates/bmi.toml"
    (tmp_path / "mine.toml").write_text(source.read_text())
    out = tmp_path / "me.toml"
    path = str(tmp_path / "mine.toml")
    result = CliRunner().invoke(cli, ["init", "--out", str(out), "--template", path])
    assert result.exit_code == 0, result.output
    assert 'templates = ["mine.toml"]' in out.read_text()
    assert load_profile(out).templates[0].name == "bmi"


def test_without_a_terminal_it_says_what_is_missing(tmp_path: Path, vault: str) -> None:
    result = CliRunner().invoke(cli, ["init", "--out", str(tmp_path / "me.toml")])
    assert result.exit_code == 2
    assert "--template" in result.output


def test_a_profiles_own_vault_comes_before_the_environments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ROOTGUARD_STORE", "memory:")
    assert vault_url(None, "sqlite:///mine.db") == "sqlite:///mine.db"
    assert vault_url("sqlite:///said.db", "sqlite:///mine.db") == "sqlite:///said.db"
    assert vault_url(None, None) == "memory:"
