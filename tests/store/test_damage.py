"""Altered, cut, deleted and foreign content is refused and reported, never read or begun anew."""

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from rootguard.errors import StoreDamagedError, StoreError, StoreKeyError
from rootguard.store import Record, rows
from rootguard.store.tables import PARTITIONS
from rootguard.values import Domain, Principal, RootName, RootQuantity, Sanitized
from rootguard.vault import open_store
from tests.support.store_contents import (
    AGE,
    ANA,
    KEY,
    SEED,
    at,
    content,
    damage,
    database_of,
    draw,
    fill,
    person_of,
    sql,
)


@pytest.mark.parametrize("flips", [150, pytest.param(1500, marks=pytest.mark.slow)])
def test_a_flipped_bit_is_noticed_or_changes_nothing(file: Path, flips: int) -> None:
    with closing(sql(at(file))) as store:
        fill(store)
        before = content(store, range(PARTITIONS))
    intact = file.read_bytes()
    rng = random.Random(SEED)
    refused = 0
    used = [offset for offset in range(len(intact)) if intact[offset]]  # where something is
    for _ in range(flips):
        altered = bytearray(intact)
        altered[rng.choice(used)] ^= 1 << rng.randrange(8)
        refused += not reads_as(file, bytes(altered), before)
    assert refused > flips // 10


@pytest.mark.parametrize("part", [0, 1, 15, 16, 99, 100, 101, 4095, 4096, 8192, 0.3, 0.7, -1])
def test_a_truncated_file_is_refused(file: Path, part: float) -> None:
    with closing(sql(at(file))) as store:
        fill(store)
        before = content(store, range(PARTITIONS))
    intact = file.read_bytes()
    length = int(part * len(intact)) if 0 < part < 1 else int(part) % len(intact)
    assert not reads_as(file, intact[:length], before)


def reads_as(file: Path, held: bytes, before: list[object]) -> bool:
    """Whether a file gives its whole content; if not it must say so, and stay as it is."""
    for suffix in ("-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
    file.write_bytes(held)
    try:
        with closing(sql(at(file))) as store:
            found = store.verify()  # says what is wrong, and does not raise it
            try:
                assert content(store, range(PARTITIONS)) == before
            except StoreDamagedError:
                assert found
                raise
    except (StoreDamagedError, StoreKeyError):
        return False
    return True


@pytest.mark.parametrize("held", [b"", b"hello, this is a text file\n" * 200, b"\x00" * 8192])
def test_a_file_that_is_no_store_is_refused_and_left_alone(file: Path, held: bytes) -> None:
    file.write_bytes(held)
    with pytest.raises(StoreDamagedError):
        open_store(at(file), key=KEY)
    assert file.read_bytes() == held


def test_another_programs_database_is_refused_and_left_alone(file: Path) -> None:
    with closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE draws (a)")
    held = file.read_bytes()
    with pytest.raises(StoreDamagedError, match="not a RootGuard store"):
        open_store(at(file), key=KEY)
    assert file.read_bytes() == held


@pytest.mark.parametrize("remains", [".key", "-wal"])
def test_a_store_whose_file_is_gone_is_not_begun_anew(file: Path, remains: str) -> None:
    with closing(open_store(at(file))) as store:
        fill(store)
    file.with_name(file.name + remains).touch()
    file.unlink()
    if remains == "-wal":
        file.with_name(file.name + ".key").unlink()
    with pytest.raises(StoreDamagedError, match="restore the file from a backup"):
        open_store(at(file))
    assert not file.exists()


def test_a_server_whose_tables_are_gone_is_not_begun_anew(
    new_postgres: Callable[[], str],
) -> None:
    url = new_postgres()
    store = sql(url, None)
    fill(store)
    with database_of(store).exclusive() as db:
        for table in sorted(db.tables()):
            db.execute(f"DROP TABLE {table}")
    store.close()
    with pytest.raises(StoreDamagedError, match="restore the database from a backup"):
        open_store(url)


TAMPERED = {
    "a draw": "UPDATE draws SET content = mark WHERE place = {age 2}",
    "an old draw": "UPDATE draws SET content = mark WHERE place = {age 1}",
    "a draw in another's place": "UPDATE draws SET content = (SELECT other.content FROM draws other"
    " WHERE other.place = {age 1}) WHERE place = {age 2}",
    "a draw's owner": "UPDATE draws SET principal = {eve} WHERE place = {age 2}",
    "a deleted draw": "DELETE FROM draws WHERE place = {age 2}",
    "a deleted old draw": "DELETE FROM draws WHERE place = {age 1}",
    "an event": "UPDATE events SET content = (SELECT other.content FROM events other"
    " WHERE other.principal = {ana} AND other.sequence = 1) WHERE sequence = 2",
    "the first event": "DELETE FROM events WHERE principal = {ana} AND sequence = 1",
    "the last event": "DELETE FROM events WHERE principal = {ana} AND sequence = 3",
    "the order of events": "UPDATE events SET sequence = 5 - sequence + 1 WHERE principal = {ana}",
    "a summary": "UPDATE people SET summary = person_key WHERE principal = {ana}",
    "another's summary": "UPDATE people SET summary = (SELECT other.summary FROM people other"
    " WHERE other.principal = {eve}) WHERE principal = {ana}",
    "a person's key": "UPDATE people SET person_key = (SELECT other.person_key FROM people other"
    " WHERE other.principal = {eve}) WHERE principal = {ana}",
    "a name": "UPDATE people SET name = (SELECT other.name FROM people other"
    " WHERE other.principal = {eve}) WHERE principal = {ana}",
    "a name taken away": "UPDATE people SET name = '' WHERE principal = {ana}",
    "an epoch": "UPDATE people SET epoch = 1 WHERE principal = {ana}",
    "a revision": "UPDATE people SET revision = revision - 1 WHERE principal = {ana}",
    "a person": "DELETE FROM people WHERE principal = {eve}",
    "a person's hash": "UPDATE people SET principal = 'x' WHERE principal = {eve}",
    "a token": "UPDATE tokens SET content = token_key WHERE sequence = 1",
    "a deleted token": "DELETE FROM tokens WHERE sequence = 2",
    "an entry of the log": "UPDATE log SET content = (SELECT other.content FROM log other"
    " WHERE other.principal = {ana} AND other.sequence = 1) WHERE sequence = 2",
    "the first entry of the log": "DELETE FROM log WHERE principal = {ana} AND sequence = 1",
    "the last entry of the log": "DELETE FROM log WHERE principal = {ana} AND sequence = 3",
    "a count": "UPDATE heads SET length = length - 1 WHERE principal = {ana}",
    "deleted counts": "DELETE FROM heads WHERE principal = {ana}",
    "the latest entry's count": "DELETE FROM heads WHERE shelf = 'latest'",
    "the count of all": "DELETE FROM heads WHERE principal = ''",
    "a lost table": "DROP TABLE tokens",
}


@pytest.mark.parametrize("statement", TAMPERED.values(), ids=TAMPERED)
def test_an_altered_or_deleted_row_is_refused_and_reported(url: str, statement: str) -> None:
    with closing(sql(url)) as store:
        fill(store)
        before = content(store)
        assert store.verify() == ()
        assert content(store) == before
        damage(store, statement)
        with pytest.raises(StoreDamagedError):
            content(store)
        assert store.verify()


@pytest.mark.parametrize("version", [1, 2])
def test_a_missing_draw_is_not_drawn_again(url: str, version: int) -> None:
    with closing(sql(url)) as store:
        fill(store)
        damage(store, f"DELETE FROM draws WHERE place = {{age {version}}}")
        with pytest.raises(StoreDamagedError, match="ledger and the draws do not match"):
            store.commit(ANA, [draw("age", 900, version=version)])


def test_a_lost_draw_of_an_earlier_value_is_missed_by_whoever_reads_it(url: str) -> None:
    with closing(sql(url)) as store:
        fill(store)
        damage(store, "DELETE FROM draws WHERE place = {age 1}")
        assert [level.sanitized.index for level in store.levels(ANA, AGE)] == [5]
        with pytest.raises(StoreDamagedError, match="ledger and the draws do not match"):
            store.records(ANA)
        with pytest.raises(StoreDamagedError, match="ledger and the draws do not match"):
            store.return_to(ANA, {AGE: 1})
        assert store.verify() == ("ana: age version 1: the ledger does not match the draws",)


def test_a_value_whose_draw_is_marked_otherwise_is_not_taken_for_a_new_one(url: str) -> None:
    with closing(sql(url)) as store:
        store.commit(ANA, [draw("age", 3, fingerprint=b"one")])
        store.commit(ANA, [draw("age", 5, version=2, fingerprint=b"two")])
        found = [store.find(ANA, {AGE: [b"none", mark]}) for mark in (b"one", b"two")]
        assert [each[AGE].sanitized.version for each in found] == [1, 2]
        assert store.find(ANA, {AGE: [b"none"]}) == {}
        damage(store, "UPDATE draws SET mark = place WHERE place = {age 2}")
        with pytest.raises(StoreDamagedError, match="stands in another's place"):
            store.find(ANA, {AGE: [b"two"]})
        assert store.verify()


def test_a_draw_found_by_anothers_mark_is_refused(url: str) -> None:
    with closing(sql(url)) as store:
        store.commit(ANA, [draw("age", 3, fingerprint=b"one")])
        store.commit(ANA, [draw("age", 5, version=2, fingerprint=b"two")])
        mark = "(SELECT mark FROM draws WHERE place = {age 1})"
        damage(store, f"UPDATE draws SET mark = {mark} WHERE place = {{age 2}}")
        damage(store, "UPDATE draws SET mark = place WHERE place = {age 1}")
        with pytest.raises(StoreDamagedError, match="stands in another's place"):
            store.find(ANA, {AGE: [b"one"]})


def test_a_persons_earlier_row_put_back_under_later_rows_is_refused(url: str) -> None:
    with closing(sql(url)) as store:
        fill(store)
        query, cells = rows.person_query(store._key(ANA))
        with database_of(store).reading() as db:
            [(key, *old)] = db.execute(query, *cells)
        store.commit(ANA, [draw("age", 8, version=3)])
        with database_of(store).exclusive() as db:
            db.execute(
                "UPDATE people SET epoch = ?, revision = ?, person_key = ?, name = ?, summary = ?"
                " WHERE principal = ?",
                *old,
                key,
            )
        assert store.verify()
        with pytest.raises(StoreDamagedError):
            store.events(ANA)


def test_rows_of_nobody_are_reported(url: str) -> None:
    with closing(sql(url)) as store:
        fill(store)
        ghost = rows.PersonRow.new("ghost", "ghost")
        with database_of(store).exclusive() as db:
            db.batch([*rows.add_draws(ghost, [draw("age", 1)])])
        assert "ghost: rows of draws belong to nobody this store knows" in store.verify()


def test_a_draw_that_the_ledger_does_not_know_is_reported(url: str) -> None:
    with closing(sql(url)) as store:
        fill(store)
        statements = [*rows.add_draws(person_of(store, ANA), [draw("age", 1, version=7)])]
        with database_of(store).exclusive() as db:
            db.batch(statements)
        assert store.verify() == ("ana: age version 7: a draw without an event",)


@pytest.mark.parametrize(
    "record",
    [
        draw("a\x00b", 1),
        draw("a\ud800b", 1),
        draw("age", 2**63),
        Record(
            sanitized=Sanitized(
                root=AGE,
                index=1,
                domain=Domain(lower=0, upper=1),
                epsilon=Fraction(1, 3),
                mechanism="geometric",
            ),
            fingerprint=b"",
            event=draw("age", 1).event,
        ),
    ],
    ids=["nul", "surrogate", "too large", "third of an epsilon"],
)
def test_what_cannot_be_kept_exactly_is_refused(url: str, record: Record) -> None:
    with closing(sql(url)) as store:
        with pytest.raises(StoreError):
            store.commit(ANA, [record])
        assert store.principals() == ()


@pytest.mark.parametrize("text", ["a\x00", "\ud800"])
def test_a_quantity_whose_name_or_unit_cannot_be_kept_is_not_defined(url: str, text: str) -> None:
    grid = Domain(lower=0, upper=9, size=10)
    with closing(sql(url)) as store:
        for name, unit in ((text, "mg/dL"), ("ldl", text)):
            with pytest.raises(StoreError, match="cannot be stored"):
                store.define([RootQuantity(name=RootName(name), unit=unit, domain=grid)])
        assert store.quantities() == {}


@pytest.mark.parametrize("name", ["\ud800", "a\udfffb"])
def test_nobody_can_be_asked_for_by_a_name_that_cannot_be_kept(url: str, name: str) -> None:
    who = Principal(name)
    with closing(sql(url)) as store:
        fill(store)
        for ask in (
            lambda: store.levels(who, AGE),
            lambda: store.version(who, AGE),
            lambda: store.events(who),
            lambda: store.caps(who),
            lambda: store.disclosures(who),
            lambda: store.log(who),
            lambda: store.log_size(who),
            lambda: store.erase(who),
            lambda: store.snapshot(who),
            lambda: store.epoch(who),
            lambda: store.records(who),
            lambda: store.find(who, {AGE: [b"f"]}),
            lambda: store.tokens(who),
            lambda: store.return_to(ANA, {RootName(name): 1}),
        ):
            with pytest.raises(StoreError, match="cannot be stored") as caught:
                ask()
            assert caught.value.__cause__ is caught.value.__context__ is None
        assert store.verify() == ()


@pytest.mark.parametrize("letter", ["\ud7ff", "\ue000"])
def test_the_largest_number_and_the_letters_beside_the_forbidden_are_kept(
    file: Path, letter: str
) -> None:
    with closing(sql(at(file))) as store:
        for micro in (2**63 - 1, 1):
            store.set_cap(ANA, letter, micro)
            assert store.caps(ANA) == {letter: micro}
        for name, micro in ((letter, 2**63), ("\ud800", 1), ("\udfff", 1), ("a\x00", 1)):
            with pytest.raises(StoreError):
                store.set_cap(ANA, name, micro)
        assert store.caps(ANA) == {letter: 1}
