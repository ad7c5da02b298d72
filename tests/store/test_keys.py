"""The master key: wrong, changed, from the environment, a file or the keyring."""

import base64
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import keyring
import keyring.backend
import pytest
from keyring.backends import chainer, fail, null

from rootguard.errors import StoreDamagedError, StoreKeyError, StoreUnavailableError
from rootguard.identifiers import IssuedToken
from rootguard.store import keys
from rootguard.store.keys import KeyPlace
from rootguard.vault import open_store
from tests.support.store_contents import ANA, KEY, OTHER_KEY, at, content, database_of, fill, sql


def test_the_wrong_key_does_not_open_a_store(url: str) -> None:
    sql(url).close()
    with pytest.raises(StoreKeyError, match="the key does not open this store"):
        open_store(url, key=OTHER_KEY)
    with pytest.raises(StoreKeyError, match="there is no key"):
        open_store(url)
    with pytest.raises(StoreKeyError, match="32 bytes"):
        open_store(url, key=b"short")


def test_a_change_of_key_keeps_everything_and_shuts_the_old_key_out(url: str) -> None:
    store, other = sql(url), sql(url)
    fill(store)
    before = content(store)
    with database_of(store).reading() as db:
        old_keys = set(db.execute("SELECT person_key FROM people"))
    store.rotate_key(OTHER_KEY)
    assert content(store) == before
    assert store.verify() == ()
    with database_of(store).reading() as db:
        assert not old_keys & set(db.execute("SELECT person_key FROM people"))
    with pytest.raises(StoreKeyError, match="open the store again"):
        other.tokens(ANA).add(IssuedToken(kind="person", token="New", sealed=b""))
    with pytest.raises(StoreKeyError, match="open the store again"):
        other.rotate_key(KEY)
    store.close()
    other.close()
    with pytest.raises(StoreKeyError):
        open_store(url, key=KEY)
    with closing(sql(url, OTHER_KEY)) as store:
        assert content(store) == before


@pytest.mark.parametrize(
    "text",
    [KEY.hex(), base64.b64encode(KEY).decode(), base64.urlsafe_b64encode(b"\xff" * 32).decode()],
)
def test_the_key_may_come_from_the_environment(
    file: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOTGUARD_KEY", text)
    with closing(open_store(at(file), create=True)) as store:
        fill(store)
        before = content(store)
    assert not file.with_name("vault.db.key").exists()
    with closing(open_store(at(file))) as store:
        assert content(store) == before
    monkeypatch.setenv("ROOTGUARD_KEY", OTHER_KEY.hex())
    with pytest.raises(StoreKeyError, match="does not open"):
        open_store(at(file))
    with pytest.raises(StoreKeyError):  # an argument goes before the environment
        open_store(at(file), key=b"a" * 32)


@pytest.mark.parametrize("text", ["", "abc", "zz" * 32, KEY.hex() + "00"])
def test_a_malformed_key_is_refused_without_being_shown(
    file: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOTGUARD_KEY", text)
    with pytest.raises(StoreKeyError, match="ROOTGUARD_KEY is not 32 bytes") as caught:
        open_store(at(file))
    assert text == "" or text not in str(caught.value)
    assert not file.exists()


def test_a_key_file_that_others_can_read_is_refused(file: Path) -> None:
    open_store(at(file)).close()
    key_file = file.with_name("vault.db.key")
    key_file.chmod(0o640)
    with pytest.raises(StoreKeyError, match=re.escape(f"chmod 600 {key_file}")):
        open_store(at(file))
    key_file.chmod(0o600)
    open_store(at(file)).close()
    key_file.unlink()
    with pytest.raises(StoreKeyError, match=re.escape(str(key_file))):
        open_store(at(file))


def test_a_servers_key_file_is_in_the_users_data_directory(
    new_postgres: Callable[[], str], tmp_path: Path
) -> None:
    open_store(url := new_postgres()).close()
    [key_file] = (tmp_path / "data" / "rootguard" / "keys").iterdir()
    assert key_file.stat().st_mode & 0o777 == 0o600
    open_store(url).close()


class MemoryKeyring(keyring.backend.KeyringBackend):
    """A keyring in a dictionary."""

    priority = 1.0

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.held.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.held[service, username] = password


@pytest.fixture
def ring() -> Iterator[MemoryKeyring]:
    before, ring = keyring.get_keyring(), MemoryKeyring()
    keyring.set_keyring(ring)
    yield ring
    keyring.set_keyring(before)


def test_a_new_key_goes_to_the_keyring_where_there_is_one(
    url: str, ring: MemoryKeyring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sql(url, None)) as store:
        fill(store)
        before = content(store)
        assert len(ring.held) == 1
        store.rotate_key(OTHER_KEY)
    assert list(ring.held.values()) == [OTHER_KEY.hex()]
    assert not list(tmp_path.rglob("*.key*"))
    with closing(open_store(url)) as store:
        assert content(store) == before
    monkeypatch.setenv("ROOTGUARD_KEY", KEY.hex())  # goes before the keyring
    with pytest.raises(StoreKeyError, match="does not open"):
        open_store(url)


def test_a_keyring_that_holds_the_key_of_a_lost_file_stops_a_fresh_start(
    file: Path, ring: MemoryKeyring
) -> None:
    open_store(at(file)).close()
    file.unlink()
    with pytest.raises(StoreDamagedError, match="keyring"):
        open_store(at(file))


def test_a_keyring_that_fails_is_passed_over(
    file: Path, ring: MemoryKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: str) -> None:
        raise RuntimeError("locked")

    monkeypatch.setattr(ring, "set_password", fail)
    open_store(at(file)).close()
    assert file.with_name("vault.db.key").exists()
    open_store(at(file)).close()


@pytest.mark.parametrize("mode", [0o601, 0o602, 0o604, 0o610])
def test_no_right_of_others_on_a_key_file_is_let_pass(file: Path, mode: int) -> None:
    open_store(at(file)).close()
    file.with_name("vault.db.key").chmod(mode)
    with pytest.raises(StoreKeyError, match="others can read"):
        open_store(at(file))


def test_a_servers_key_is_always_looked_for_in_the_same_place(tmp_path: Path) -> None:
    place = KeyPlace.of_server('{"dbname": "x"}')
    digest = "af96b0fdfec5ba21a30e00f77cd4db7d"
    assert (place.file.name, place.account) == (f"{digest}.key", f"server {digest}")
    place = KeyPlace(file=tmp_path / "a" / "keys" / "k.key", account="")
    place.settle(KEY)
    assert place.file.parent.stat().st_mode & 0o777 == 0o700
    assert place.file.stat().st_mode & 0o777 == 0o600
    assert place.file.read_text() == KEY.hex() + "\n"


def test_a_reserved_key_that_keeps_vanishing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = KeyPlace(file=tmp_path / "k.key", account="")
    vanished: list[tuple[bytes, ...]] = [(), (), (KEY,)]
    monkeypatch.setattr(keys, "_look", lambda _: vanished.pop(0) if vanished else ())
    assert place.reserve() == KEY
    with pytest.raises(StoreUnavailableError, match="keeps vanishing"):
        place.reserve()


@pytest.mark.parametrize("step", ["hardlink_to", "replace"])
def test_a_draft_that_another_opener_cleared_away_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    taken: list[Path] = []
    real = getattr(Path, step)

    def late(path: Path, other: Path) -> object:
        draft = other if step == "hardlink_to" else path
        if not taken:
            taken.append(draft)
            draft.unlink()
        return real(path, other)

    monkeypatch.setattr(Path, step, late)
    keys._write(tmp_path / "a.key", "text", replace=step == "replace")
    assert taken
    assert [each.name for each in tmp_path.iterdir()] == ["a.key"]
    assert (tmp_path / "a.key").read_text() == "text"


def test_a_key_that_cannot_be_written_or_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    place = KeyPlace(file=tmp_path / "taken" / "k.key", account="")
    with pytest.raises(StoreUnavailableError, match="taken is a file, not a folder"):
        place.settle(KEY)
    (tmp_path / "folder.key").mkdir()
    with pytest.raises(StoreKeyError, match="cannot be read"):
        list(KeyPlace(file=tmp_path / "folder.key", account="").candidates())


def test_keyrings_that_keep_nothing_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    held = MemoryKeyring()
    for backends, used in (([], False), ([held], True)):
        monkeypatch.setattr(chainer.ChainerBackend, "backends", backends)
        ring = chainer.ChainerBackend()  # type: ignore[no-untyped-call]
        monkeypatch.setattr(keyring, "get_keyring", lambda ring=ring: ring)
        assert (keys._usable_keyring() is ring) is used
    for none in (null.Keyring(), fail.Keyring()):  # type: ignore[no-untyped-call]
        monkeypatch.setattr(keyring, "get_keyring", lambda ring=none: ring)
        assert keys._usable_keyring() is None
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert keys._usable_keyring() is None


def test_a_new_key_comes_from_the_environment_or_is_random(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ROOTGUARD_KEY", raising=False)
    assert len(keys.fresh_key()) == 32
    assert keys.fresh_key() != keys.fresh_key()
    monkeypatch.setenv("ROOTGUARD_KEY", KEY.hex())
    with pytest.raises(StoreKeyError, match="give the new one in ROOTGUARD_NEW_KEY"):
        keys.fresh_key()
    monkeypatch.setenv("ROOTGUARD_NEW_KEY", f" {OTHER_KEY.hex()}\n")
    assert keys.fresh_key() == OTHER_KEY


def test_a_change_to_a_key_of_another_length_is_refused(file: Path) -> None:
    with closing(sql(at(file))) as store:
        for length in (31, 33):
            with pytest.raises(StoreKeyError, match=f"32 bytes; this one has {length}"):
                store.rotate_key(b"k" * length)
