"""Backup, restore and copy: the same vault elsewhere, taken while others write to it."""

import errno
import os
import random
import shutil
import signal
import stat
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import keyring
import pytest

from rootguard.errors import (
    StoreDamagedError,
    StoreError,
    StoreKeyError,
    StoreMissingError,
    StoreRolledBackError,
    StoreUnavailableError,
)
from rootguard.session import Guard
from rootguard.store import MemoryStore, backup
from rootguard.store.backup import TABLES
from rootguard.store.base import Transaction
from rootguard.store.dialects.sqlite import SqliteDatabase
from rootguard.template import load_template
from rootguard.values import Principal
from rootguard.vault import backup_store, copy_store, open_store, restore_store
from tests.support.keyrings import MemoryKeyring
from tests.support.patience import PATIENCE
from tests.support.rollbacks import copy_out
from tests.support.store_contents import (
    ANA,
    EVE,
    KEY,
    OTHER_KEY,
    SEED,
    at,
    content,
    database_of,
    draw,
    fill,
    sql,
)
from tests.support.store_writers import (
    processes,
    release_until_told,
    restore_until_killed,
    values_of,
)

VALUES = {"age": 54, "ast": 23, "alt": 30, "plt": 220}
LONG = (pytest.mark.slow, pytest.mark.timeout(1800))


@pytest.fixture
def other(url: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a copy is to go: the other kind of database. A backup is of files to files."""
    if url.startswith("postgres"):
        return f"sqlite:///{tmp_path}/other/vault.db"
    return str(request.getfixturevalue("new_postgres")())


def contents_of(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_every_table_and_column_is_copied(file: Path) -> None:
    """A table or column that a later version adds must not be left behind."""
    with closing(sql(at(file))) as store, database_of(store).reading() as db:
        assert db.tables() == set(TABLES)
        for table, shape in TABLES.items():
            found = db.execute("SELECT name, pk FROM pragma_table_info(?) ORDER BY cid", table)
            assert set(shape.columns) == {row[0] for row in found}
            keys = sorted((row[1], row[0]) for row in found if row[1])
            assert shape.key == tuple(name for _, name in keys)


def test_a_copy_holds_everything_and_is_the_same_vault(url: str, other: str) -> None:
    with closing(sql(url)) as store:
        fill(store)
        before, rows = content(store), copy_out(url)
        number = copy_store(store, other)
        assert number == sum(map(len, rows.values()))
        with closing(sql(other)) as copied:
            assert copied.vault_id == store.vault_id
            assert content(copied) == before
            assert copied.verify() == ()
    assert copy_out(other) == rows


def test_there_and_back_releases_and_ledgers_are_equal(
    tmp_path: Path, new_postgres: Callable[[], str]
) -> None:
    fib4 = load_template("fib4")
    here, server, back = at(tmp_path / "a.db"), new_postgres(), at(tmp_path / "b.db")
    with closing(sql(here)) as store:
        for name in ("ana", "eve"):
            session = Guard.open(fib4, values=VALUES, budget="0.9", store=store, principal=name)
            session.release("ast")
        Guard.refine(fib4, values=VALUES, budget="1.4", store=store, principal="ana")
        store.erase(Principal("eve"))
        copy_store(store, server)
    with closing(sql(server)) as store:
        copy_store(store, back)
    assert copy_out(here) == copy_out(back)
    with closing(sql(here)) as first, closing(sql(back)) as last:
        for who in (ANA, Principal("eve")):
            assert first.events(who) == last.events(who)
            assert first.ledger(who).totals == last.ledger(who).totals
        released = [
            values_of(Guard.open(fib4, values=VALUES, budget="1.4", store=each, principal="ana"))
            for each in (first, last)
        ]
        assert released[0] == released[1]
        assert first.events(ANA) == last.events(ANA)  # nothing was drawn


def test_many_rows_are_copied_in_pages(
    url: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {table: replace(shape, page=3) for table, shape in TABLES.items()}
    monkeypatch.setattr("rootguard.store.backup.TABLES", small)
    told: list[tuple[str, int, int]] = []
    with closing(sql(url)) as store:
        for number in range(10):
            who = Principal(f"p{number}")
            store.commit(who, [draw(f"r{each}", each, principal=who) for each in range(4)])
        rows = copy_out(url)
        total = copy_store(store, other, progress=lambda *step: told.append(step))
    assert {table: len(found) for table, found in copy_out(other).items()} == {
        table: len(found) for table, found in rows.items()
    }
    assert list(dict.fromkeys(what for what, _, _ in told)) == ["copying", "comparing"]
    for step in ("copying", "comparing"):
        done = [count for what, count, _ in told if what == step]
        assert done == sorted(done)
        assert done[-1] == total
    assert {whole for _, _, whole in told} == {total}


def test_what_is_written_while_it_is_copied_is_not_in_the_copy(url: str, other: str) -> None:
    """All rows are of one moment, so that a copy never holds half of what somebody wrote."""
    written = 0

    def write(what: str, done: int, total: int) -> None:
        nonlocal written
        written += 1
        busy.commit(ANA, [draw(f"{what}{done}", total)])
        busy.set_cap(EVE, "age", written)

    with closing(sql(url)) as store, closing(sql(url)) as busy:
        fill(store)
        before = content(store)
        copy_store(store, other, progress=write)
        assert len(busy.events(ANA)) == 3 + written
        assert content(store) != before
    with closing(sql(other)) as copied:
        assert content(copied) == before


def test_a_backup_is_a_vault_under_the_same_key_for_its_owner_alone(
    url: str, tmp_path: Path
) -> None:
    out = tmp_path / "kept" / "backup.db"
    with closing(sql(url)) as store:
        fill(store)
        backup_store(store, out)
        store.commit(ANA, [draw("plt", 1)])  # after the backup, and not in it
    assert contents_of(out.parent) == ["backup.db"]
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert KEY not in out.read_bytes()
    with pytest.raises(StoreKeyError):
        open_store(at(out), key=OTHER_KEY)
    with closing(sql(at(out))) as kept:
        assert kept.verify() == ()
        assert kept.version(ANA, draw("plt", 1).sanitized.root) == 0


def test_a_restored_vault_releases_what_was_released(url: str, other: str, tmp_path: Path) -> None:
    fib4, out = load_template("fib4"), tmp_path / "backup.db"
    with closing(sql(url)) as store:
        session = Guard.open(fib4, values=VALUES, budget="0.9", store=store, principal="ana")
        first = values_of(session)
        backup_store(store, out)
    restore_store(out, other, key=KEY)
    with closing(sql(other)) as store:
        events = store.events(ANA)
        again = Guard.open(fib4, values=VALUES, budget="0.9", store=store, principal="ana")
        assert values_of(again) == first
        assert store.events(ANA) == events


def test_what_waits_for_the_audit_log_is_in_the_backup(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "backup.db"
    with closing(sql(at(file))) as store:
        store.note(ANA, draw("age", 1).event)
        backup_store(store, out)
    with closing(sql(at(out))) as kept:
        assert len(kept.log(ANA)) == 1


@pytest.mark.parametrize("rest", ["", "-wal", "-shm"])
def test_nothing_is_overwritten(file: Path, tmp_path: Path, rest: str) -> None:
    out = tmp_path / "backup.db"
    taken = out.with_name(out.name + rest)
    taken.write_text("mine")
    before = contents_of(tmp_path)
    with closing(sql(at(file))) as store:
        with pytest.raises(StoreError, match="nothing was written"):
            backup_store(store, out)
        with pytest.raises(StoreError, match="nothing was written"):
            copy_store(store, at(out))
    assert taken.read_text() == "mine"
    assert set(contents_of(tmp_path)) - set(before) <= {file.name, f"{file.name}.key"}


def test_a_target_with_a_vault_in_it_is_refused(url: str, other: str) -> None:
    with closing(sql(url)) as store, closing(sql(other)) as there:
        fill(store)
        mine = content(there)
        with pytest.raises(StoreError, match="nothing was written"):
            copy_store(store, other)
        with pytest.raises(StoreError, match="nothing was written"):
            copy_store(store, url)
        assert content(there) == mine


def test_a_file_that_comes_meanwhile_stays(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "backup.db"
    check = SqliteDatabase.check

    def slow(self: SqliteDatabase) -> tuple[str, ...]:
        out.write_text("mine")
        return check(self)

    with closing(sql(at(file))) as store:
        monkeypatch.setattr(SqliteDatabase, "check", slow)
        with pytest.raises(StoreError, match="nothing was written"):
            backup_store(store, out)
    assert out.read_text() == "mine"
    assert not [name for name in contents_of(tmp_path) if name.startswith(".")]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EXDEV])
def test_a_file_system_without_links_is_no_obstacle(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    out = tmp_path / "backup.db"
    with closing(sql(at(file))) as store:
        fill(store)
        monkeypatch.setattr(Path, "hardlink_to", no_links)
        backup_store(store, out)
        with pytest.raises(StoreError, match="nothing was written"):
            backup_store(store, out)
        before = content(store)
    monkeypatch.undo()
    with closing(sql(at(out))) as kept:
        assert content(kept) == before


def test_a_damaged_vault_is_not_copied(url: str, other: str, tmp_path: Path) -> None:
    with closing(sql(url)) as store:
        fill(store)
        with database_of(store).exclusive() as db:
            db.execute("DELETE FROM events")
        for target in (other, at(tmp_path / "fresh.db")):
            with pytest.raises(StoreDamagedError, match="rootguard vault verify"):
                copy_store(store, target)
            with pytest.raises(StoreMissingError):
                open_store(target, key=KEY, create=False)


@pytest.mark.parametrize(
    "loss",
    [
        "DELETE FROM log WHERE sequence = 1",
        "UPDATE log SET sequence = 9 WHERE sequence = 3",
        "UPDATE meta SET value = wrapped FROM secrets WHERE secrets.name = 'identifier'",
    ],
)
def test_a_copy_that_is_not_the_same_is_refused(
    url: str, other: str, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = backup._copy

    def lossy(source: Transaction, target: Transaction, progress: backup.Progress) -> None:
        write(source, target, progress)
        target.execute(loss)

    monkeypatch.setattr(backup, "_copy", lossy)
    with closing(sql(url)) as store:
        fill(store)
        with pytest.raises(StoreDamagedError, match="not the same as the original"):
            copy_store(store, other)
    with pytest.raises(StoreMissingError):
        open_store(other, key=KEY, create=False)


def test_a_full_disk_leaves_nothing(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "full" / "backup.db"
    with closing(sql(at(file))) as store:
        fill(store)
        monkeypatch.setattr(os, "link", _full)
        with pytest.raises(StoreUnavailableError, match="disk is full"):
            backup_store(store, out)
    assert contents_of(out.parent) == []


def _full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_stores_in_memory_and_missing_backups_are_refused(tmp_path: Path, file: Path) -> None:
    with pytest.raises(StoreError, match="memory"):
        backup_store(MemoryStore(), tmp_path / "backup.db")
    with closing(sql(at(file))) as store, pytest.raises(StoreError, match="memory"):
        copy_store(store, "memory:")
    with pytest.raises(StoreMissingError, match="no backup"):
        restore_store(tmp_path / "none.db", at(tmp_path / "new.db"), key=KEY)
    assert not (tmp_path / "none.db").exists()


def test_the_key_that_is_still_there_opens_the_backup(url: str, tmp_path: Path) -> None:
    """The usual misfortune: the database is gone, and its key is not."""
    out, away = tmp_path / "backup.db", tmp_path / "away"
    with closing(sql(at(tmp_path / "vault.sqlite3"), None)) as store:
        fill(store)
        before = content(store)
        backup_store(store, out)
    away.mkdir()
    (tmp_path / "vault.sqlite3").rename(away / "vault.sqlite3")
    restore_store(out, at(tmp_path / "vault.sqlite3"))
    with closing(open_store(at(tmp_path / "vault.sqlite3"))) as store:
        assert content(store) == before


def test_a_key_that_is_kept_beside_the_source_is_kept_for_the_target_too(
    other: str, tmp_path: Path
) -> None:
    with closing(sql(at(tmp_path / "a.db"), None)) as store:
        fill(store)
        before = content(store)
        copy_store(store, other)
    with closing(open_store(other)) as copied:
        assert content(copied) == before
    if other.startswith("sqlite"):
        key = tmp_path / "other" / "vault.db.key"
        assert key.read_text() == (tmp_path / "a.db.key").read_text()
        assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_a_backup_is_restored_with_the_key_beside_it(other: str, tmp_path: Path) -> None:
    out = tmp_path / "safe" / "backup.db"
    with closing(sql(at(tmp_path / "a.db"), None)) as store:
        fill(store)
        before = content(store)
        backup_store(store, out)
    with pytest.raises(StoreKeyError, match="ROOTGUARD_KEY"):
        restore_store(out, other)
    (tmp_path / "a.db.key").rename(tmp_path / "safe" / "backup.db.key")
    restore_store(out, other)
    with closing(open_store(other)) as copied:
        assert content(copied) == before


def test_a_given_key_is_written_nowhere(other: str, tmp_path: Path) -> None:
    with closing(sql(at(tmp_path / "a.db"))) as store:
        copy_store(store, other)
    assert not list(tmp_path.rglob("*.key*"))


def test_a_key_in_the_keyring_is_kept_there_for_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = MemoryKeyring()
    monkeypatch.setattr(keyring, "get_keyring", lambda: ring)
    with closing(sql(at(tmp_path / "a.db"), None)) as store:
        copy_store(store, at(tmp_path / "b.db"))
    assert not list(tmp_path.rglob("*.key*"))
    open_store(at(tmp_path / "b.db"), create=False).close()


def test_a_place_with_another_vaults_key_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "b.db"
    with closing(sql(at(tmp_path / "a.db"), None)) as store:
        sql(at(target), None).close()
        target.rename(tmp_path / "moved.db")
        key = (tmp_path / "b.db.key").read_text()
        with pytest.raises(StoreKeyError, match="another vault"):
            copy_store(store, at(target))
    assert (tmp_path / "b.db.key").read_text() == key
    assert not target.exists()


def test_a_key_that_is_changed_meanwhile_is_not_kept_for_a_copy_under_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sql(at(tmp_path / "a.db"), None)) as store:
        monkeypatch.setattr(store, "flush", lambda: store.rotate_key(OTHER_KEY))
        with pytest.raises(StoreUnavailableError, match="key was changed"):
            copy_store(store, at(tmp_path / "new" / "b.db"))
        assert contents_of(tmp_path / "new") == []
        monkeypatch.undo()
        copy_store(store, at(tmp_path / "new" / "b.db"))
    open_store(at(tmp_path / "new" / "b.db"), create=False).close()


def test_a_copy_that_fails_leaves_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(sql(at(tmp_path / "a.db"), None)) as store:
        monkeypatch.setattr(os, "link", _full)
        with pytest.raises(StoreUnavailableError):
            copy_store(store, at(tmp_path / "new" / "b.db"))
    assert contents_of(tmp_path / "new") == []


def test_an_older_backup_is_not_restored_against_the_anchor(url: str, tmp_path: Path) -> None:
    out, anchor, new = tmp_path / "old.db", tmp_path / "anchor", tmp_path / "new.db"
    with closing(open_store(url, key=KEY, create=True, anchor=anchor)) as store:
        fill(store)
        backup_store(store, out)
        restore_store(out, at(tmp_path / "fine.db"), key=KEY, anchor=anchor)
        store.set_cap(ANA, "age", 1)
        with pytest.raises(StoreRolledBackError):
            restore_store(out, at(new), key=KEY, anchor=anchor)
    assert not new.exists()


def test_a_plain_copy_of_an_open_vault_where_nobody_reads_has_every_draw(
    file: Path, tmp_path: Path
) -> None:
    """Of the file alone, without its log: who is in it must not be drawn again elsewhere."""
    fib4 = load_template("fib4")
    with closing(sql(at(file))) as store:
        session = Guard.open(fib4, values=VALUES, budget="0.9", store=store, principal="ann")
        released = values_of(session)
        shutil.copy(file, tmp_path / "copied.db")
    with closing(sql(at(tmp_path / "copied.db"))) as store:
        again = Guard.open(fib4, values=VALUES, budget="0.9", store=store, principal="ann")
        assert values_of(again) == released
        assert store.verify() == ()


@pytest.mark.parametrize("kills", [6, pytest.param(100, marks=LONG)])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_restore_that_is_killed_anywhere_is_done_again(
    kind: str, kills: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """There is all of a vault afterwards, or none and nothing that is in the way of another try."""
    source, backup = tmp_path / "source.db", tmp_path / "backup"
    with closing(sql(at(source), None)) as store:
        fill(store)
        before = content(store)
        backup_store(store, backup)
    copy_key = (source.with_name("source.db.key"), backup.with_name("backup.key"))
    copy_key[1].touch(mode=0o600)
    copy_key[1].write_text(copy_key[0].read_text())
    rng = random.Random(SEED)
    whole = 0
    for number in range(kills):
        folder = tmp_path / str(number)
        if kind == "sqlite":
            url = at(folder / "vault.db")
        else:
            url = str(request.getfixturevalue("new_postgres")())
        # It has about 250 steps; a store that was restored by then is whole.
        step, moment = rng.randrange(1, 250), rng.choice(["before", "after"])
        process = processes.Process(
            target=restore_until_killed, args=(dict(os.environ), str(backup), url, step, moment)
        )
        process.start()
        process.join(timeout=PATIENCE)
        assert process.exitcode in {0, -signal.SIGKILL}
        try:
            restore_store(backup, url)
        except StoreError as refused:
            assert "already" in str(refused)  # noqa: PT017 - it may be there or not
            whole += 1
        with closing(sql(url, None)) as store:
            assert content(store) == before
            assert store.verify() == ()
            # As a change of key does: who was killed left no rows and no key that stays.
            store.settle_key()
            store._database.scrub()
        if kind == "sqlite":
            assert contents_of(folder) == ["vault.db", "vault.db.key"]
    assert whole < kills


def busy_backup(url: str, tmp_path: Path, other: str, *, writers: int, backups: int) -> None:
    """Take backups while processes open sessions, then restore each and look for redraws."""
    fib4 = load_template("fib4")
    sql(url).close()
    stop = processes.Event()
    files = [tmp_path / f"released.{number}" for number in range(writers)]
    for file in files:
        file.touch()
    busy = [
        processes.Process(target=release_until_told, args=(url, number, str(file), stop))
        for number, file in enumerate(files)
    ]
    for each in busy:
        each.start()
    taken: list[tuple[Path, list[str]]] = []
    try:
        with closing(sql(url)) as store:
            for number in range(backups):
                while any(len(file.read_text().splitlines()) < 2 * number + 2 for file in files):
                    assert all(each.is_alive() for each in busy)
                    stop.wait(0.05)
                acknowledged = [line for file in files for line in file.read_text().splitlines()]
                out = tmp_path / f"backup.{number}"
                backup_store(store, out)
                taken.append((out, acknowledged))
    finally:
        stop.set()
        for each in busy:
            each.join(PATIENCE)
    assert [each.exitcode for each in busy] == [0] * writers
    restore_store(taken[-1][0], other, key=KEY)
    for where, acknowledged in [*((at(out), said) for out, said in taken), (other, taken[-1][1])]:
        with closing(sql(where)) as store:
            assert store.verify() == ()
            for line in acknowledged:
                name, age, released = line.split(" ", 2)
                values = VALUES | {"age": int(age)}
                spent = store.ledger(Principal(name)).micro
                session = Guard.open(fib4, values=values, budget="0.9", store=store, principal=name)
                assert repr(values_of(session)) == released
                assert store.ledger(Principal(name)).micro == spent


def test_a_backup_under_load_restores_without_a_redraw(
    url: str, other: str, tmp_path: Path
) -> None:
    busy_backup(url, tmp_path, other, writers=3, backups=2)


@pytest.mark.slow
def test_backups_under_the_load_of_eight_processes_restore_without_a_redraw(
    url: str, other: str, tmp_path: Path
) -> None:
    busy_backup(url, tmp_path, other, writers=8, backups=6)
