"""No command begins a vault anew in the place of one that is missing, moved or another's."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from rootguard.cli.main import cli
from rootguard.cli.mcp import _open
from rootguard.errors import ProfileError, StoreDamagedError, StoreMissingError
from rootguard.session import Person, load_profile
from rootguard.vault import open_store

KEY = "11" * 32
VALUES = "age = 54\nast = 23\nalt = 30\nplt = 220\n"
TABLE = "id,age,ast,alt,plt\n1,54,23,30,220\n"
POLICY = """
[tiers.clinic]
budget = "1"

[services.clinic]
tier = "clinic"
roots = "*"
"""
UPSTREAM = ("--upstream", "http://127.0.0.1:1/v1")

READERS = {
    "vault show": (),
    "vault spend": (),
    "vault refine": ("fib4", "--values", "values.toml", "--budget", "1"),
    "vault erase": ("owner", "--yes"),
    "vault export": (),
    "vault verify": (),
    "vault tables": (),
    "vault rotate-key": (),
    "vault backup": ("--out", "vault.backup"),
    "console": ("--principal", "owner", "--template", "fib4"),
}
"""Commands that need a vault to be there, and their arguments."""

MAKERS = {
    "release": ("fib4", "--budget", "0.9", "--values", "values.toml"),
    "batch": ("fib4", "--in", "in.csv", "--out", "out.csv", "--budget", "0.9", "--id", "id"),
}
"""Commands that make one, unless something hints at an earlier one."""

OF_PROFILES = {
    "gateway": ("--profile", "me.toml", *UPSTREAM, "--port", "0"),
    "mcp serve": ("--profile", "me.toml"),
    "mcp proxy": ("--profile", "me.toml", "--service", "clinic", "--", "true"),
    "console": ("--profile", "me.toml"),
}
"""Commands that open a profile's vault."""

ACTS = {"init", "vault init", "vault restore"}
"""Commands whose purpose it is to make one."""

SIGNS_IN = {"mcp inspect"}
"""It opens the profile's vault, as the proxy does, only where a server wants a sign-in."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where commands run, with what they read."""
    (tmp_path / "values.toml").write_text(VALUES)
    (tmp_path / "in.csv").write_text(TABLE)
    (tmp_path / "policy.toml").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROOTGUARD_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def run(name: str, *arguments: str, store: str | None = None) -> Result:
    options = () if store is None else ("--store", store)
    return CliRunner().invoke(cli, [*name.split(), *options, *arguments])


def govern(folder: Path) -> None:
    """Give the profile a policy, which the proxy asks for."""
    profile = (folder / "me.toml").read_text()
    governed = profile.replace('policy = "me-policy.toml"', 'policy = "policy.toml"')
    assert governed != profile
    (folder / "me.toml").write_text(governed)


def there(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder, with what is in it."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def with_store(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[str]:
    """The commands that have an option --store."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from with_store(command, (*path, name))
        elif any("--store" in parameter.opts for parameter in command.params):
            yield " ".join((*path, name))


def test_every_command_that_takes_a_store_is_tried_here() -> None:
    assert set(with_store(cli)) == {*READERS, *MAKERS, *OF_PROFILES, *ACTS, *SIGNS_IN}


@pytest.mark.parametrize("key", ["", KEY])
@pytest.mark.parametrize("store", ["sqlite:///gone.db", "sqlite:///gone/vault.db", None])
@pytest.mark.parametrize("name", READERS)
def test_reading_makes_no_vault(
    folder: Path, name: str, store: str | None, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if key:
        monkeypatch.setenv("ROOTGUARD_KEY", key)
    before = there(folder)
    refused = run(name, *READERS[name], store=store)
    assert isinstance(refused.exception, StoreMissingError), refused.output
    assert "rootguard vault init" in str(refused.exception)
    assert there(folder) == before


@pytest.mark.parametrize("name", [*READERS, *MAKERS])
def test_reading_makes_no_vault_on_a_server(
    folder: Path, name: str, empty_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name in MAKERS:
        monkeypatch.setenv("ROOTGUARD_KEY", KEY)
    before = there(folder)
    refused = run(name, *(READERS | MAKERS)[name], store=empty_server)
    assert isinstance(refused.exception, StoreMissingError), refused.output
    assert (there(folder), tables(empty_server)) == (before, [])


@pytest.fixture
def empty_server(new_postgres: Callable[[], str]) -> str:
    return new_postgres()


def tables(url: str) -> list[tuple[str]]:
    import psycopg

    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        return found.fetchall()


@pytest.mark.parametrize("key", ["", KEY])
def test_a_profiles_vault_on_a_server_is_that_vault_or_none(
    folder: Path,
    key: str,
    empty_server: str,
    new_postgres: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if key:
        monkeypatch.setenv("ROOTGUARD_KEY", key)
    own, second = new_postgres(), new_postgres()
    made = run("init", "--template", "fib4", "--values", "values.toml", store=own)
    assert made.exit_code == 0, made.output
    assert run("vault init", store=second).exit_code == 0
    govern(folder)
    before = there(folder)
    for name, arguments in OF_PROFILES.items():
        for store in (empty_server, second):
            refused = run(name, *arguments, store=store)
            assert isinstance(refused.exception, StoreMissingError), refused.output
    assert (there(folder), tables(empty_server)) == (before, [])
    assert _open("me.toml", None, None).known("ast")


@pytest.mark.parametrize("name", MAKERS)
def test_releasing_makes_a_vault_where_nothing_hints_at_an_earlier_one(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOTGUARD_KEY", KEY)
    before = there(folder)
    refused = run(name, *MAKERS[name], store="sqlite:///vault.db")
    assert isinstance(refused.exception, StoreMissingError)
    assert "ROOTGUARD_KEY is set" in str(refused.exception)
    assert there(folder) == before
    monkeypatch.delenv("ROOTGUARD_KEY")
    made = run(name, *MAKERS[name], store="sqlite:///vault.db")
    assert made.exit_code == 0, made.output
    (folder / "vault.db").unlink()
    (folder / "out.csv").unlink(missing_ok=True)
    before = there(folder)
    refused = run(name, *MAKERS[name], store="sqlite:///vault.db")
    assert isinstance(refused.exception, StoreDamagedError)  # the key file is still there
    assert there(folder) == before


@pytest.mark.parametrize("key", ["", KEY])
@pytest.mark.parametrize("fate", ["lost", "moved", "mistyped", "another"])
@pytest.mark.parametrize("name", OF_PROFILES)
def test_a_profiles_vault_is_that_vault_or_none(
    folder: Path, name: str, fate: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if key:
        monkeypatch.setenv("ROOTGUARD_KEY", key)
    made = run("init", "--template", "fib4", "--values", "values.toml", store="sqlite:///vault.db")
    assert made.exit_code == 0, made.output
    govern(folder)
    store = None
    match fate:
        case "lost":
            for part in folder.glob("vault.db*"):
                part.unlink()
        case "moved":
            (folder / "vault.db").rename(folder / "elsewhere.db")
        case "mistyped":
            store = "sqlite:///vautl.db"
        case _:
            assert run("vault init", store="sqlite:///second.db").exit_code == 0
            store = "sqlite:///second.db"
    before = there(folder)
    refused = run(name, *OF_PROFILES[name], store=store)
    left_behind = fate == "moved" and not key  # the key file, which says that there was one
    expected = StoreDamagedError if left_behind else StoreMissingError
    assert isinstance(refused.exception, expected), refused.output
    assert there(folder) == before


def test_init_makes_a_vault_and_writes_its_id_into_the_profile(folder: Path) -> None:
    assert run("init", "--template", "fib4", store="sqlite:///vault.db").exit_code == 0
    profile = load_profile(folder / "me.toml")
    assert profile.vault is not None
    assert profile.vault in run("vault verify", "--json", store="sqlite:///vault.db").output
    assert profile.vault in run("vault init", store="sqlite:///vault.db").output


def test_a_person_is_opened_in_the_vault_that_the_profile_names_or_not_at_all(
    folder: Path,
) -> None:
    run("init", "--template", "fib4", "--values", "values.toml", store="sqlite:///vault.db")
    run("vault init", store="sqlite:///second.db")
    profile = load_profile("me.toml")
    for other in ("sqlite:///second.db", "memory:"):
        with closing(open_store(other)) as store:
            with pytest.raises(StoreMissingError, match=f"not the vault {profile.vault}"):
                Person.open(profile, store=store)
            assert store.principals() == ()
    with closing(open_store("sqlite:///vault.db")) as store:
        assert Person.open(profile, store=store).known("ast")


def test_a_profile_without_an_id_still_opens(folder: Path) -> None:
    run("init", "--template", "fib4", "--values", "values.toml", store="sqlite:///vault.db")
    own = _open("me.toml", None, None).release("ast")
    text = (folder / "me.toml").read_text()
    shorter = "".join(line for line in text.splitlines(True) if not line.startswith("vault ="))
    assert shorter != text
    (folder / "me.toml").write_text(shorter)
    assert _open("me.toml", None, None).release("ast") == own


@pytest.mark.parametrize("vault", ['"short"', "7", '""', '"' + "G" * 32 + '"'])
def test_an_id_that_is_none_is_named_in_the_profile(folder: Path, vault: str) -> None:
    (folder / "me.toml").write_text(f'templates = ["fib4"]\nbudget = "1"\nvault = {vault}\n')
    with pytest.raises(ProfileError, match=r"me\.toml: vault: not the id of a vault"):
        load_profile(folder / "me.toml")


def test_a_profile_points_to_the_vault_that_was_noised_into_and_moves_with_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "home" / "sub").mkdir(parents=True)
    monkeypatch.chdir(folder / "home")
    arguments = ("--template", "fib4", "--values", "../values.toml", "--out", "sub/me.toml")
    assert run("init", *arguments, store="sqlite:///rel.db").exit_code == 0
    assert 'store = "sqlite:///../rel.db"' in Path("sub/me.toml").read_text()
    assert load_profile("sub/me.toml").store == f"sqlite:///{folder}/home/rel.db"
    assert sorted(path.name for path in Path("sub").iterdir()) == ["me-policy.toml", "me.toml"]
    own = _open("sub/me.toml", None, None).release("ast")
    monkeypatch.chdir(folder)
    shutil.move("home", "other")
    assert _open("other/sub/me.toml", None, None).release("ast") == own


def test_a_profile_beside_its_vault_is_moved_with_it(folder: Path) -> None:
    (folder / "a").mkdir()
    arguments = ("--template", "fib4", "--values", "values.toml", "--out", "a/me.toml")
    assert run("init", *arguments, store="sqlite:///a/vault.db").exit_code == 0
    assert 'store = "sqlite:///vault.db"' in (folder / "a" / "me.toml").read_text()
    own = _open("a/me.toml", None, None).release("ast")
    shutil.move(folder / "a", folder / "b")
    assert _open("b/me.toml", None, None).release("ast") == own


def test_a_profile_names_an_absolute_store_as_it_was_given(folder: Path) -> None:
    (folder / "sub").mkdir()
    url = f"sqlite:///{folder}/vault.db"
    assert run("init", "--template", "fib4", "--out", "sub/me.toml", store=url).exit_code == 0
    assert load_profile("sub/me.toml").store == url


def test_a_folder_that_is_not_there_is_named_before_anything_is_noised(folder: Path) -> None:
    before = there(folder)
    refused = run("init", "--template", "fib4", "--out", "no/me.toml", store="sqlite:///v.db")
    assert "its folder is not there" in str(refused.exception)
    assert there(folder) == before
