"""A change of the key, while others open and use the store, cut off anywhere, or by two at once."""

import itertools
import os
import random
import signal
import stat
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from rootguard.errors import (
    StoreDamagedError,
    StoreError,
    StoreKeyError,
    StoreUnavailableError,
)
from rootguard.events import RequestRefused
from rootguard.identifiers import IssuedToken
from rootguard.store import keys, rows, sql
from rootguard.store.envelope import RENEWED, SECRETS, Secrets, UnlockedDatabase
from rootguard.store.keys import KeyPlace
from rootguard.store.sql import SqlStore
from rootguard.vault import copy_store, open_store
from tests.support.patience import PATIENCE
from tests.support.store_contents import (
    ANA,
    KEY,
    OTHER_KEY,
    SEED,
    at,
    content,
    database_of,
    draw,
    fill,
)
from tests.support.store_contents import sql as opened
from tests.support.store_writers import (
    counted_steps,
    open_and_go_on,
    processes,
    rotate,
    rotate_until_killed_anywhere,
)

# Hundreds of changes, each of which waits for the disk several times.
LONG = (pytest.mark.slow, pytest.mark.timeout(3600))


def filled(url: str, key: bytes | None = None) -> list[object]:
    """Make a store with something of everything in it; what it holds."""
    with closing(opened(url, key)) as store:
        fill(store)
        return content(store)


def ring_of(store: SqlStore) -> tuple[bytes, ...]:
    return store._database.keys.candidates()


def check(url: str, before: list[object]) -> None:
    """The store opens, holds what it held, and nothing is wrong with it."""
    with closing(opened(url, None)) as store:
        assert content(store) == before
        assert store.verify() == ()


@pytest.mark.parametrize("rotations", [10, pytest.param(500, marks=LONG)])
def test_a_store_opens_at_every_moment_of_its_keys_changes(url: str, rotations: int) -> None:
    before = filled(url)
    stop = processes.Event()
    pipes = [processes.Pipe(duplex=False) for _ in range(3)]
    openers = [
        processes.Process(target=open_and_go_on, args=(dict(os.environ), url, stop, pipe[1]))
        for pipe in pipes
    ]
    for opener in openers:
        opener.start()
    for receive, send in pipes:
        send.close()
        assert receive.poll(PATIENCE)
        assert receive.recv() == "ready"
    try:
        with closing(opened(url, None)) as store:
            for _ in range(rotations):
                store.rotate_key(os.urandom(32))
    finally:
        stop.set()
    for (receive, _), opener in zip(pipes, openers, strict=True):
        assert receive.poll(PATIENCE), "an opener failed"
        assert receive.recv() > 0
        opener.join(timeout=PATIENCE)
        assert opener.exitcode == 0
    check(url, before)


@pytest.mark.parametrize("kills", [4, pytest.param(150, marks=LONG)])
def test_a_change_of_key_that_is_killed_anywhere_leaves_a_store_that_opens(
    url: str, kills: int
) -> None:
    before = filled(url)
    rng = random.Random(SEED)
    for _ in range(kills):
        # A change has about seventy steps: this falls into the first three.
        step, moment = rng.randrange(1, 200), rng.choice(["before", "after"])
        process = processes.Process(
            target=rotate_until_killed_anywhere, args=(dict(os.environ), url, step, moment)
        )
        process.start()
        process.join(timeout=PATIENCE)
        assert process.exitcode == -signal.SIGKILL
        check(url, before)


def fail_at(url: str, step: int, moment: str) -> bool:
    """Change the key, with a fault at a step; whether there are so many."""
    reached = False

    def fail(number: int, when: str, what: str) -> None:
        nonlocal reached
        if (number, when) == (step, moment):
            reached = True
            raise StoreUnavailableError("gone") if what == "_at_the_border" else OSError("full")

    with (
        closing(opened(url, None)) as store,
        counted_steps(url, fail),
        suppress(StoreUnavailableError),
    ):
        store.rotate_key(os.urandom(32))
    return reached


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=LONG)])
def test_a_change_of_key_that_fails_at_any_step_leaves_a_store_that_opens(
    url: str, every: int
) -> None:
    before = filled(url)
    steps = 0
    with closing(opened(url, None)) as running:
        places = (
            (step, when) for step in itertools.count(1, every) for when in ("before", "after")
        )
        for step, moment in places:
            reached = fail_at(url, step, moment)
            check(url, before)
            assert content(running) == before
            assert 1 <= len(ring_of(running)) <= 2
            if not reached:
                break
            steps = step
    assert steps > 20
    with closing(opened(url, None)) as store:
        store.rotate_key(OTHER_KEY)
        assert ring_of(store) == (OTHER_KEY,)


def test_two_who_change_the_key_at_once_leave_one_key_that_opens(url: str) -> None:
    before = filled(url)
    pipes = [processes.Pipe(duplex=False) for _ in range(2)]
    running = [
        processes.Process(target=rotate, args=(dict(os.environ), url, 10, pipe[1]))
        for pipe in pipes
    ]
    for process in running:
        process.start()
    for (receive, send), process in zip(pipes, running, strict=True):
        send.close()
        assert receive.poll(PATIENCE)
        assert receive.recv() == 10
        process.join(timeout=PATIENCE)
    check(url, before)
    with closing(opened(url, None)) as store:
        assert len(ring_of(store)) == 1
        assert store._secrets.number == 21


def test_threads_of_one_store_change_its_key_in_turn(url: str) -> None:
    before = filled(url)
    with closing(opened(url, None)) as store:
        threads = [
            threading.Thread(target=store.rotate_key, args=(os.urandom(32),)) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=PATIENCE)
        assert store._secrets.number == 5
        assert content(store) == before
    check(url, before)


def test_a_process_that_runs_goes_on_under_the_new_key(url: str) -> None:
    filled(url)
    with closing(opened(url, None)) as store, closing(opened(url, None)) as running:
        registry = running.tokens(ANA)
        store.rotate_key(os.urandom(32))
        registry.add(IssuedToken(kind="person", token="New", sealed=b""))
        store.rotate_key(os.urandom(32))
        running.commit(ANA, [draw("alt", 9)])
        store.rotate_key(os.urandom(32))
        running.note(ANA, RequestRefused(turn=1, reason="BudgetError"))
        assert running._journal.flush()
        store.rotate_key(os.urandom(32))
        running.erase(ANA)
        store.rotate_key(os.urandom(32))
        running.rotate_key(OTHER_KEY)
        assert ring_of(running) == ring_of(store) == (OTHER_KEY,)
        assert content(running) == content(store)
        assert running.verify() == store.verify() == ()


def test_a_reader_sees_one_moment_though_the_key_changes_in_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It would wait for the reader, to empty SQLite's log.
    monkeypatch.setattr(UnlockedDatabase, "scrub", lambda _: None)
    filled(url)
    with closing(opened(url, None)) as store, closing(opened(url, None)) as running:
        with running._database.reading() as db:
            was = running._secrets
            thread = threading.Thread(target=store.rotate_key, args=(OTHER_KEY,))
            thread.start()
            thread.join(timeout=PATIENCE)
            other = threading.Thread(target=running.events, args=(ANA,))
            other.start()
            other.join(timeout=PATIENCE)
            assert running._secrets is was
            [people] = db.batch([rows.people_query()])
            assert {rows.read_person(running._secrets, row).name for row in people} >= {ANA}
        running.caps(ANA)
        assert running._secrets is not was


def test_a_given_key_is_followed_by_the_one_that_is_announced(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = filled(url, KEY)
    monkeypatch.setenv("ROOTGUARD_KEY", KEY.hex())
    with closing(opened(url, None)) as store, closing(opened(url, None)) as running:
        store.rotate_key(OTHER_KEY)
        with pytest.raises(StoreKeyError, match="ROOTGUARD_NEW_KEY"):
            running.events(ANA)
        with pytest.raises(StoreKeyError, match="does not open this store"):
            opened(url, None)
        monkeypatch.setenv("ROOTGUARD_NEW_KEY", OTHER_KEY.hex())
        assert content(running) == content(store) == before
        check(url, before)
        with pytest.raises(StoreKeyError, match="under this key already"):
            running.rotate_key(OTHER_KEY)


def test_a_key_that_was_changed_on_another_machine_is_asked_for(url: str) -> None:
    filled(url)
    with closing(opened(url, None)) as store, closing(opened(url, None)) as running:
        place = store._database.keys
        assert isinstance(place, KeyPlace)
        old = place.file.read_text()
        store.rotate_key(os.urandom(32))
        new = place.file.read_text()
        place.file.write_text(old)
        with pytest.raises(StoreKeyError, match=str(place.file)):
            running.events(ANA)
        place.file.write_text(old + new)
        assert running.events(ANA) == store.events(ANA)


def test_a_change_of_key_renews_what_it_can(url: str) -> None:
    filled(url)
    with closing(opened(url, None)) as store:
        was = store._secrets
        with database_of(store).reading() as db:
            wrapped = set(db.execute("SELECT name, wrapped FROM secrets"))
        store.rotate_key(OTHER_KEY)
        now = store._secrets
        with database_of(store).reading() as db:
            assert not wrapped & set(db.execute("SELECT name, wrapped FROM secrets"))
    changed = {name for name in SECRETS if was._plain[name] != now._plain[name]}
    assert changed == set(RENEWED) == {"integrity", "registry"}


def test_a_row_under_the_old_secrets_is_refused_after_a_change(url: str) -> None:
    """Who had the old key cannot go on writing rows, not even for processes that were running."""
    filled(url)
    with closing(opened(url, None)) as store, closing(opened(url, None)) as running:
        old = store._secrets
        running.caps(ANA)
        store.rotate_key(OTHER_KEY)
        with database_of(store).exclusive() as db:
            [people] = db.batch([rows.people_query()])
            db.batch(
                [rows.put_person(old, rows.read_person(store._secrets, row)) for row in people]
            )
        for each in (store, running):
            with pytest.raises(StoreDamagedError, match="a row of people was altered"):
                each.caps(ANA)


def test_an_altered_row_is_not_sealed_anew(url: str) -> None:
    filled(url)
    with closing(opened(url, None)) as store:
        ring = ring_of(store)
        with database_of(store).exclusive() as db:
            db.execute("UPDATE people SET epoch = 9")
        with pytest.raises(StoreDamagedError, match="a row of people was altered"):
            store.rotate_key(OTHER_KEY)
        assert ring_of(store)[0] == ring[0]
        assert "the row of a person was altered" in " ".join(store.verify())
    with closing(opened(url, None)) as store:
        assert store._secrets.number == 1


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("DELETE FROM meta WHERE name = 'key_version'", "key version is missing"),
        ("UPDATE meta SET value = ? WHERE name = 'key_version'", "key version was altered"),
    ],
)
def test_a_key_version_that_was_altered_is_damage(url: str, statement: str, said: str) -> None:
    with closing(opened(url)) as store:
        fill(store)
        with database_of(store).exclusive() as db:
            db.execute(statement, *[b"\0" * 7 + b"\2" + b"s" * 32] * statement.count("?"))
        with pytest.raises(StoreDamagedError):
            store.events(ANA)
        assert store.verify()
    with pytest.raises(StoreDamagedError, match=said):
        opened(url)


def test_a_store_that_is_put_back_while_it_is_open_is_noticed(url: str) -> None:
    filled(url)
    names = [*sql._SEALED, "meta", "secrets", "people", "draws", "events", "log", "tokens"]
    with closing(opened(url, None)) as store:
        database = database_of(store)
        with database.exclusive() as db:
            for name in names:
                db.execute(f"CREATE TABLE kept_{name} AS SELECT * FROM {name}")
        place = store._database.keys
        assert isinstance(place, KeyPlace)
        old = place.file.read_text()
        store.rotate_key(OTHER_KEY)
        with database.exclusive() as db:
            for name in names:
                db.execute(f"DELETE FROM {name}")
                db.execute(f"INSERT INTO {name} SELECT * FROM kept_{name}")
        place.file.write_text(old)
        with pytest.raises(StoreDamagedError, match="put back to an earlier copy"):
            store.events(ANA)


def test_a_key_is_on_the_disk_with_its_name_before_the_store_needs_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    real_sync, real_renew, real_replace = os.fsync, Secrets.renew, Path.replace

    def sync(descriptor: int) -> None:
        kind = "directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        real_sync(descriptor)
        done.append(kind)

    def renew(self: Secrets, *arguments: object) -> Secrets:
        done.append("renewed")
        return real_renew(self, *arguments)  # type: ignore[arg-type]

    def put(self: Path, target: Path) -> Path:
        done.append("in its place")
        return real_replace(self, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Secrets, "renew", renew)
    monkeypatch.setattr(Path, "replace", put)
    filled(url)
    assert {"file", "directory"} <= set(done)
    with closing(opened(url, None)) as store:
        done.clear()
        store.rotate_key(OTHER_KEY)
    written = ["file", "in its place", "directory"]
    assert done[:7] == [*written, "renewed", *written]


def listing(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*.key*")}


def test_who_opens_a_store_writes_no_key(url: str, tmp_path: Path) -> None:
    """Also where a change of key by an earlier version was cut off, and its `.new` is there."""
    before = filled(url)
    with closing(opened(url, None)) as store:
        place = store._database.keys
        assert isinstance(place, KeyPlace)
        key = place.file.read_text()
    for other, mine in (("", ".new"), (".new", "")):
        place.file.with_name(place.file.name + mine).write_text(key)
        place.file.with_name(place.file.name + other).write_text(OTHER_KEY.hex() + "\n")
        for file in listing(tmp_path):
            file.chmod(0o600)
        files = listing(tmp_path)
        assert len(files) == 2
        check(url, before)
        assert listing(tmp_path) == files
    with closing(opened(url, None)) as store:
        store.rotate_key(KEY)
    assert list(listing(tmp_path).values()) == [KEY.hex().encode() + b"\n"]


def test_a_maker_who_is_cut_off_leaves_a_store_that_opens(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: SqlStore) -> None:
        raise StoreError("cut off")

    with monkeypatch.context() as cut:
        cut.setattr(SqlStore, "settle_key", fail)
        with pytest.raises(StoreError, match="cut off"):
            opened(url, None)
    assert [file.suffix for file in listing(tmp_path)] == [".new"]
    before = filled(url)
    with closing(opened(url, None)) as store:
        store.rotate_key(OTHER_KEY)
    check(url, before)
    assert [file.suffix for file in listing(tmp_path)] == [".key"]


def test_a_key_that_cannot_be_put_in_its_place_opens_its_store_all_the_same(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = filled(url)
    [file] = listing(tmp_path)
    file.rename(file.with_name(file.name + ".new"))

    def refuse(*_: object) -> None:
        raise StoreUnavailableError("a read-only disk")

    with monkeypatch.context() as unwritable:
        unwritable.setattr(KeyPlace, "write", refuse)
        check(url, before)
    assert [found.suffix for found in listing(tmp_path)] == [".new"]
    check(url, before)
    assert [found.suffix for found in listing(tmp_path)] == [".key"]


def test_a_servers_key_is_found_whatever_the_address_says_besides(
    new_postgres: Callable[[], str], tmp_path: Path
) -> None:
    url = new_postgres()
    before = filled(url)
    check(f"{url}&application_name=another", before)
    check(f"{url}&options=-csearch_path%3Dpublic", before)
    [file] = listing(tmp_path)
    with closing(opened(url, None)) as store, database_of(store).reading() as db:
        [(store_id,)] = db.execute("SELECT value FROM meta WHERE name = ?", "store_id")
    assert file.name == f"{store_id.hex()}.key"


def test_a_servers_key_under_its_former_name_is_found_and_moved(
    new_postgres: Callable[[], str], tmp_path: Path
) -> None:
    url = new_postgres()
    before = filled(url)
    [file] = listing(tmp_path)
    with closing(opened(url, None)) as store:
        former = KeyPlace.of_server(database_of(store).where).former[0]  # type: ignore[attr-defined]
    file.rename(former.file)
    (pointer,) = (tmp_path / "data" / "rootguard" / "vaults").iterdir()
    pointer.unlink()
    check(url, before)
    assert list(listing(tmp_path)) == [former.file]
    with closing(opened(url, None)) as store:
        store.rotate_key(OTHER_KEY)
    assert list(listing(tmp_path)) == [file]
    assert pointer.read_text() == f"{file.stem}\n"
    check(url, before)


def test_the_key_of_another_vault_at_an_address_is_left_alone(tmp_path: Path) -> None:
    where = '{"dbname": "x", "user": "ann"}'
    address = KeyPlace.of_server(where)
    address.former[0].settle(KEY)
    place = address.of(b"i" * 16)
    assert place.candidates() == (KEY,)
    place.write(OTHER_KEY)
    place.settle(OTHER_KEY)
    assert place.candidates() == (OTHER_KEY, KEY)
    place.write(KEY, OTHER_KEY)
    assert not address.former[0].file.exists()
    assert place.candidates() == (KEY, OTHER_KEY)
    assert address.trace() == address.pointer
    assert address.occupied()


def test_a_database_that_lost_its_vault_is_not_filled_anew(
    new_postgres: Callable[[], str],
) -> None:
    import psycopg

    url = new_postgres()
    filled(url)
    with psycopg.connect(url) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    with pytest.raises(StoreError, match="/vaults/"):
        open_store(f"{url}&application_name=another")


def test_a_second_vault_in_a_database_has_a_key_of_its_own(
    new_postgres: Callable[[], str], tmp_path: Path
) -> None:
    import psycopg

    url = new_postgres()
    before = filled(url)
    with psycopg.connect(url) as connection:
        connection.execute("CREATE SCHEMA second")
    other = f"{url}&options=-csearch_path%3Dsecond"
    open_store(other, create=True).close()
    assert len(listing(tmp_path)) == 2
    for each in (url, other):
        with closing(opened(each, None)) as store:
            store.rotate_key(os.urandom(32))
            assert len(ring_of(store)) == 1
    check(url, before)
    open_store(other).close()


def test_a_change_of_a_copys_key_leaves_the_original_its_own(
    new_postgres: Callable[[], str], tmp_path: Path
) -> None:
    """Vaults on servers have their key by their id, which a copy shares."""
    url, other = new_postgres(), new_postgres()
    before = filled(url)
    with closing(opened(url, None)) as store:
        copy_store(store, other)
        [old] = ring_of(store)
    for key in (KEY, OTHER_KEY):
        with closing(opened(other, None)) as copied:
            copied.rotate_key(key)
            assert len(copied.addresses()) == 2
    check(other, before)
    check(url, before)
    kept = [old.hex(), KEY.hex(), OTHER_KEY.hex()]
    assert listing(tmp_path).popitem()[1].decode().split() == kept
    # Somebody says that the original is gone.
    with closing(opened(url, None)) as store:
        original = store._database.keys.former[0].pointer  # type: ignore[attr-defined]
    original.unlink()
    with closing(opened(other, None)) as copied:
        copied.rotate_key(KEY)
        assert ring_of(copied) == (KEY,)
    check(other, before)


def test_another_way_to_write_an_address_keeps_no_old_key(new_postgres: Callable[[], str]) -> None:
    url = new_postgres()
    before = filled(url)
    with closing(opened(f"{url}&port=5432", None)) as store:
        store.rotate_key(OTHER_KEY)
        assert ring_of(store) == (OTHER_KEY,)
    check(url, before)


def test_a_key_file_that_is_a_link_stays_one(file: Path, tmp_path: Path) -> None:
    before = filled(at(file))
    key, disk = file.with_name("vault.db.key"), tmp_path / "disk"
    disk.mkdir()
    key.rename(disk / "kept.key")
    key.symlink_to(disk / "kept.key")
    with closing(opened(at(file), None)) as store:
        store.rotate_key(OTHER_KEY)
    assert key.is_symlink()
    assert (disk / "kept.key").read_text() == f"{OTHER_KEY.hex()}\n"
    check(at(file), before)


def test_no_key_is_left_by_those_who_were_killed(url: str, tmp_path: Path) -> None:
    filled(url)
    [key] = listing(tmp_path)
    drafts = [key.with_name(f".{name}.{'0a' * 8}") for name in (key.name, f"{key.name}.new")]
    for draft in drafts:
        draft.write_bytes(key.read_bytes())
    another = key.with_name(f".{key.name}.kept")
    another.touch()
    with closing(opened(url, None)) as store:
        assert all(draft.exists() for draft in drafts)
        store.rotate_key(OTHER_KEY)
    assert not any(draft.exists() for draft in drafts)
    assert another.exists()


def test_a_lock_on_keys_is_waited_for(tmp_path: Path) -> None:
    place = KeyPlace(file=tmp_path / "new" / "k.key", account="")
    order: list[str] = []

    def second() -> None:
        with place.locked():
            order.append("second")

    with place.locked():
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(timeout=0.2)
        order.append("first")
    thread.join(timeout=PATIENCE)
    assert order == ["first", "second"]


def test_keys_of_a_ring_are_lines(tmp_path: Path) -> None:
    place = KeyPlace(file=tmp_path / "k.key", account="")
    place.write(KEY, OTHER_KEY, KEY)
    assert place.file.read_text() == f"{KEY.hex()}\n{OTHER_KEY.hex()}\n"
    assert place.candidates() == (KEY, OTHER_KEY)
    place.file.write_text(f"{KEY.hex()}\nnonsense\n")
    with pytest.raises(StoreKeyError, match="not 32 bytes") as caught:
        place.candidates()
    assert "nonsense" not in str(caught.value)
    assert keys._read_ring(f" {KEY.hex()}\r\n", "") == (KEY,)
