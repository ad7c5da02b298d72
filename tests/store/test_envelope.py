"""Seals and ciphers of a store: what holds, what does not, and that nothing else is raised."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rootguard.errors import StoreDamagedError, StoreKeyError
from rootguard.identifiers import IssuedToken
from rootguard.store.envelope import Integrity, RegistryCipher
from tests.support.store_contents import KEY, at, database_of, sql

KEEPER = Integrity(b"i" * 32)
CIPHER = RegistryCipher(b"r" * 32)


def token(text: str) -> IssuedToken:
    return IssuedToken(kind="person", token=text, sealed=b"s")


def test_a_row_without_a_proper_seal_does_not_hold() -> None:
    seal = KEEPER.seal("t", "a", 1, b"b")
    assert KEEPER.holds("t", "a", 1, b"b", seal)
    for row in (
        ("a", 1, b"b", seal.hex()),
        ("a", 1, b"b", None),
        ("a", None, b"b", seal),
        ("a", 1.0, b"b", seal),
        ("a", "1", b"b", seal),
        ("a", 1, "b", seal),
        ("a1", b"b", seal),
    ):
        assert not KEEPER.holds("t", *row)
    assert not KEEPER.holds("u", "a", 1, b"b", seal)


def test_an_entry_tells_the_length_of_its_token_in_steps_only() -> None:
    sizes = {len(CIPHER.encrypt("ana", 1, token("x" * length))) for length in range(1, 60)}
    assert sizes == {12 + 64 + 16, 12 + 128 + 16}  # nonce, blocks, tag
    assert CIPHER.encrypt("ana", 1, token("x")) != CIPHER.encrypt("ana", 1, token("x"))


def test_an_entry_opens_in_its_own_row_only() -> None:
    key = CIPHER.row_key("ana", "Bob")
    entry = CIPHER.encrypt("ana", 1, token("Bob"))
    assert CIPHER.decrypt("ana", key, 1, entry) == token("Bob")
    altered = entry[:-1] + bytes([entry[-1] ^ 1])
    for row in (
        ("eve", key, 1, entry),
        ("ana", CIPHER.row_key("ana", "Al"), 1, entry),
        ("ana", key, 2, entry),
        ("ana", key, 1, altered),
        ("ana", key, 1, b""),
        ("ana", key, 1, "text"),
    ):
        with pytest.raises(StoreDamagedError, match="a row of tokens was altered"):
            CIPHER.decrypt(*row)


@pytest.mark.parametrize("name", ["fingerprint", "registry"])
@pytest.mark.parametrize("wrapped", [b"", "text", b"w" * 60])
def test_one_altered_secret_is_damage_and_all_of_them_another_key(
    file: Path, name: str, wrapped: bytes | str
) -> None:
    with closing(sql(at(file))) as store, database_of(store).exclusive() as db:
        [(store_id,)] = db.execute("SELECT value FROM meta WHERE name = 'store_id'")
        assert len(store_id) == 16
        db.execute("UPDATE secrets SET wrapped = ? WHERE name = ?", wrapped, name)
    with pytest.raises(StoreDamagedError, match="a secret of the store was altered"):
        sql(at(file), KEY)
    with closing(sqlite3.connect(file)) as other, other:
        other.execute("UPDATE secrets SET wrapped = ?", (wrapped,))
    with pytest.raises(StoreKeyError, match="does not open"):
        sql(at(file), KEY)


@pytest.mark.parametrize(
    "statement", ["DELETE FROM secrets WHERE name = 'integrity'", "DELETE FROM meta"]
)
def test_a_store_without_one_of_its_secrets_is_damaged(file: Path, statement: str) -> None:
    with closing(sql(at(file))) as store, database_of(store).exclusive() as db:
        db.execute(statement)
    with pytest.raises(StoreDamagedError, match="has lost its secrets"):
        sql(at(file))
