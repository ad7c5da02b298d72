"""Seals and ciphers of a store: what holds, what does not, and that nothing else is raised."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootguard.errors import StoreDamagedError, StoreKeyError
from rootguard.store.envelope import Integrity, PersonCipher, canonical, canonical_person
from tests.support.store_contents import KEY, at, database_of, sql

KEEPER = Integrity(b"i" * 32)
SECRET = bytes(range(64))
CIPHER = PersonCipher(SECRET, "ana")


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


def test_a_row_tells_the_length_of_what_it_holds_in_steps_only() -> None:
    sizes = {len(CIPHER.encrypt("draws", 1, text=b"x" * length)) for length in range(1, 129)}
    assert sizes == {12 + 64 + 16, 12 + 128 + 16}  # nonce, blocks, tag
    assert CIPHER.encrypt("draws", 1, text=b"x") != CIPHER.encrypt("draws", 1, text=b"x")


def test_a_row_opens_in_its_own_place_only() -> None:
    content = CIPHER.encrypt("draws", b"p", 1, text=b"Bob")
    assert CIPHER.decrypt("draws", b"p", 1, content=content).rstrip(b" ") == b"Bob"
    altered = content[:-1] + bytes([content[-1] ^ 1])
    other_person, other_key = PersonCipher(SECRET, "eve"), PersonCipher(SECRET[::-1], "ana")
    for cipher, place, row in (
        (other_person, ("draws", b"p", 1), content),
        (other_key, ("draws", b"p", 1), content),
        (CIPHER, ("events", b"p", 1), content),
        (CIPHER, ("draws", b"q", 1), content),
        (CIPHER, ("draws", b"p", 2), content),
        (CIPHER, ("draws", b"p", 1), altered),
        (CIPHER, ("draws", b"p", 1), b""),
        (CIPHER, ("draws", b"p", 1), "text"),
        (CIPHER, ("draws", b"p", 1), None),
    ):
        with pytest.raises(StoreDamagedError, match=f"a row of {place[0]} was altered"):
            cipher.decrypt(*place, content=row)


def test_what_finds_a_row_is_another_for_everybody_and_everything() -> None:
    found = CIPHER.place("mark", "age", b"f")
    assert found == CIPHER.place("mark", "age", b"f")
    assert len(found) == 16
    assert found not in {
        CIPHER.place("draw", "age", b"f"),
        CIPHER.place("mark", "ast", b"f"),
        CIPHER.place("mark", "age", b"g"),
        PersonCipher(SECRET[::-1], "ana").place("mark", "age", b"f"),
    }


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


@given(
    st.text(alphabet="0123456789abcdef", max_size=40),
    st.integers(min_value=0, max_value=2**63 - 1),
    st.integers(min_value=0, max_value=2**63 - 1),
    st.binary(max_size=300),
    st.binary(max_size=300),
)
def test_a_persons_row_is_bound_to_what_was_written(
    key: str, epoch: int, revision: int, wrapped: bytes, name: bytes
) -> None:
    who, cells = canonical_person(key, epoch, revision, wrapped, name)
    assert who == canonical(key, epoch)
    assert cells == canonical(revision, wrapped, name)


@pytest.mark.parametrize(
    "row",
    [
        (b"ab", 1, 2, b"w", b"n"),
        ("ab", 1.7, 2, b"w", b"n"),
        ("ab", 1, 2.0, b"w", b"n"),
        ("ab", None, 2, b"w", b"n"),
        ("ab", 1, "2", b"w", b"n"),
        ("ab", 1, 2, "w", b"n"),
        ("ab", 1, 2, None, b"n"),
        ("ab", 1, 2, b"w", "n"),
        ("\ud800", 1, 2, b"w", b"n"),
    ],
)
def test_a_persons_row_with_cells_of_other_types_was_altered(row: tuple[object, ...]) -> None:
    with pytest.raises(StoreDamagedError, match="a row of people was altered"):
        canonical_person(*row)
