"""A store is made where one is asked for, or where there has never been one; never in another's
place, and never by reading.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import keyring
import pytest

from rootguard.errors import StoreDamagedError, StoreError, StoreKeyError, StoreMissingError
from rootguard.store.sql import SqlStore
from rootguard.vault import open_store
from tests.support.keyrings import MemoryKeyring
from tests.support.store_contents import KEY, OTHER_KEY, at, content, database_of, fill, sql

STRANGER = "0" * 32


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


@pytest.fixture
def tables(url: str) -> Callable[[], set[str]]:
    """The tables of a server's database, in whatever schema; of a file, none."""

    def look() -> set[str]:
        if url.startswith("sqlite"):
            return set()
        import psycopg

        with psycopg.connect(url) as connection:
            found = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname NOT IN"
                " ('pg_catalog', 'information_schema')"
            )
            return {row[0] for row in found}

    return look


@pytest.fixture(params=["argument", "variable", "keyring", "file"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def key(mode: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[bytes | None]:
    """What to give `open_store`, with the key kept as the mode says."""
    before = keyring.get_keyring()
    if mode == "keyring":
        keyring.set_keyring(MemoryKeyring())
    if mode == "variable":
        monkeypatch.setenv("ROOTGUARD_KEY", KEY.hex())
    yield KEY if mode == "argument" else None
    keyring.set_keyring(before)


def test_what_is_not_there_is_not_made_by_reading(
    url: str, key: bytes | None, tmp_path: Path, tables: Callable[[], set[str]]
) -> None:
    with pytest.raises(StoreMissingError, match=r"made by reading.*rootguard vault init"):
        open_store(url, key=key, create=False)
    assert (files(tmp_path), tables()) == ([], set())


def test_what_is_not_there_is_not_made_for_a_profile_that_names_an_id(
    url: str, key: bytes | None, tmp_path: Path, tables: Callable[[], set[str]]
) -> None:
    for create in (None, False, True):
        with pytest.raises(StoreMissingError, match=f"names the vault {STRANGER}.*vault init"):
            open_store(url, key=key, create=create, vault_id=STRANGER)
    assert (files(tmp_path), tables()) == ([], set())


@pytest.mark.parametrize("mode", ["keyring", "file"])
def test_where_nothing_hints_at_an_earlier_store_one_is_made(url: str, key: None) -> None:
    with closing(open_store(url, key=key)) as store:
        fill(store)
        before = content(store)
    with closing(open_store(url, create=False)) as store:
        assert content(store) == before


@pytest.mark.parametrize("mode", ["argument", "variable"])
def test_a_key_without_its_store_makes_none_unless_asked(
    url: str, key: bytes | None, tmp_path: Path, tables: Callable[[], set[str]]
) -> None:
    with pytest.raises(StoreMissingError, match="rootguard vault init"):
        open_store(url, key=key)
    assert (files(tmp_path), tables()) == ([], set())
    open_store(url, key=key, create=True).close()
    open_store(url, key=key).close()


def test_a_store_that_is_gone_is_not_begun_anew(
    url: str, mode: str, key: bytes | None, tmp_path: Path, tables: Callable[[], set[str]]
) -> None:
    with closing(open_store(url, key=key, create=True)) as store:
        fill(store)
        if isinstance(store, SqlStore) and url.startswith("postgresql"):
            with database_of(store).exclusive() as db:
                for table in sorted(db.tables()):
                    db.execute(f"DROP TABLE {table}")
    if url.startswith("sqlite"):
        (tmp_path / "vault.db").unlink()
    left = files(tmp_path)
    for create in (None, False):
        with pytest.raises((StoreMissingError, StoreDamagedError)):
            open_store(url, key=key, create=create)
    if mode in {"keyring", "file"}:  # a key in its place says that there was one, to all
        with pytest.raises(StoreDamagedError):
            open_store(url, create=True)
    assert (files(tmp_path), tables()) == (left, set())


def test_an_id_is_random_lasting_and_checked(url: str, tmp_path: Path) -> None:
    with closing(sql(url)) as store:
        fill(store)
        before, vault = content(store), store.vault_id
        assert store.vault_id == vault
    assert len(bytes.fromhex(vault)) == 16
    with closing(open_store(url, key=KEY, vault_id=vault)) as again:
        assert content(again) == before
    left = files(tmp_path)
    for key in (KEY, OTHER_KEY):  # what it is not is said before its key is tried
        with pytest.raises(StoreMissingError, match=f"another vault: its id is {vault}"):
            open_store(url, key=key, vault_id=STRANGER)
    assert files(tmp_path) == left
    with pytest.raises(StoreKeyError):
        open_store(url, key=OTHER_KEY, vault_id=vault)
    with closing(sql(at(tmp_path / "second.db"))) as other:
        assert other.vault_id != vault


def test_a_store_in_memory_has_no_id_and_is_nobodys_vault() -> None:
    assert open_store("memory:", create=False).vault_id is None
    with pytest.raises(StoreMissingError, match="not in memory"):
        open_store("memory:", vault_id=STRANGER)


def test_a_changed_search_path_makes_no_second_store(
    new_postgres: Callable[[], str], mode: str, key: bytes | None, tmp_path: Path
) -> None:
    import psycopg

    url = new_postgres()
    with closing(open_store(url, key=key, create=True)) as store:
        fill(store)
        before, vault = content(store), store.vault_id
    left = files(tmp_path)
    database = url.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA elsewhere")
        connection.execute(f"ALTER DATABASE {database} SET search_path = elsewhere".encode())
    moved = f"{url}&options={quote('-csearch_path=elsewhere')}"
    for address in (url, moved):
        for create in (None, False):
            with pytest.raises((StoreMissingError, StoreDamagedError)):
                open_store(address, key=key, create=create)
        with pytest.raises((StoreMissingError, StoreDamagedError)):
            open_store(address, key=key, vault_id=vault)
    assert files(tmp_path) == left
    if mode == "argument":
        with pytest.raises(StoreMissingError, match="in the schema public"):
            open_store(moved, key=key)
        with closing(open_store(moved, key=OTHER_KEY, create=True)) as second:
            assert second.vault_id != vault
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {database} RESET search_path".encode())
    with closing(open_store(url, key=key, vault_id=vault)) as store:
        assert content(store) == before


def test_a_making_that_was_cut_off_is_finished_by_who_opens_it_first(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its key would wait for ever, and not tell that there was a store."""

    def cut_off(_: SqlStore) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(SqlStore, "settle_key", cut_off)
        with pytest.raises(KeyboardInterrupt):
            open_store(url)
    assert [path.suffix for path in tmp_path.rglob("*.key*")] == [".new"]
    with closing(open_store(url, create=False)) as store:
        fill(store)
        before = content(store)
    assert [path.suffix for path in tmp_path.rglob("*.key*")] == [".key"]
    with closing(open_store(url)) as store:
        assert content(store) == before


def test_a_key_that_was_only_set_aside_is_of_a_store_that_nobody_has_opened(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr("rootguard.store.dialects.sqlite._make", cut_off)
        with pytest.raises(KeyboardInterrupt):
            open_store(at(file))
    assert [path.name for path in files(file.parent)] == ["vault.db.key.new"]
    with pytest.raises(StoreMissingError):
        open_store(at(file), create=False)
    open_store(at(file)).close()


def test_a_key_file_that_is_a_link_to_nothing_tells_of_a_store(file: Path) -> None:
    """As where the disk with the keys is not mounted."""
    key = file.with_name("vault.db.key")
    key.symlink_to(file.with_name("away.key"))
    for create in (None, True):
        with pytest.raises(StoreDamagedError, match="its key"):
            open_store(at(file), create=create)
    assert files(file.parent) == [key]


@pytest.mark.parametrize("create", [None, False, True])
@pytest.mark.parametrize("held", [b"", b"a text\n" * 999])
def test_what_is_no_store_is_left_alone(
    file: Path, key: bytes | None, held: bytes, create: bool | None
) -> None:
    file.write_bytes(held)
    with pytest.raises(StoreDamagedError):
        open_store(at(file), key=key, create=create)
    assert file.read_bytes() == held
    assert files(file.parent) == [file]


def test_another_programs_database_is_left_alone(file: Path, key: bytes | None) -> None:
    with closing(sqlite3.connect(file)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("CREATE TABLE t (x)")
    held = file.read_bytes()
    for create in (None, False, True):
        with pytest.raises(StoreError, match="not a RootGuard store"):
            open_store(at(file), key=key, create=create)
    assert (file.read_bytes(), files(file.parent)) == (held, [file])


def test_a_folder_is_made_with_a_store_and_not_without_one(tmp_path: Path) -> None:
    url = at(tmp_path / "a" / "b" / "vault.db")
    for create in (None, False):
        with pytest.raises(StoreMissingError):
            open_store(url, key=KEY, create=create)
    assert files(tmp_path) == []
    open_store(url, key=KEY, create=True).close()
    assert (tmp_path / "a" / "b" / "vault.db").is_file()
