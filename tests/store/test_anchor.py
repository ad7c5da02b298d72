"""The anchor: what was put back to an earlier state is seen, on each database."""

import multiprocessing
import os
import shutil
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from rootguard.errors import (
    StoreDamagedError,
    StoreError,
    StoreRolledBackError,
    StoreUnavailableError,
)
from rootguard.session import Guard
from rootguard.store import Disclosure, Store
from rootguard.store.anchor import Anchor
from rootguard.store.sql import SqlStore
from rootguard.template import load_template
from rootguard.values import Domain, Principal, RootName, RootQuantity
from rootguard.vault import open_store
from tests.support.patience import PATIENCE
from tests.support.rollbacks import OF_A_PERSON, copy_out, put_back
from tests.support.store_contents import (
    AGE,
    ANA,
    AST,
    EVE,
    KEY,
    OTHER_KEY,
    at,
    database_of,
    draw,
    fill,
    sql,
)
from tests.support.store_writers import processes


@pytest.fixture
def anchor(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder / "vault.anchor"


def anchored(url: str, anchor: Path, *, create: bool | None = None, key: bytes = KEY) -> SqlStore:
    store = open_store(url, key=key, anchor=anchor, create=create)
    assert isinstance(store, SqlStore)
    return store


def lab(position: int = 0) -> Disclosure:
    return Disclosure(service="lab", tier="t", root="ast", version=1, position=position)


CHANGES: dict[str, Callable[[Store], object]] = {
    "a draw": lambda store: store.commit(ANA, [draw("plt", 2)]),
    "a cap": lambda store: store.set_cap(ANA, "age", 7),
    "a lifted cap": lambda store: store.set_cap(ANA, "age", None),
    "a disclosure": lambda store: store.disclose(
        ANA, [Disclosure(service="app", tier="t", root="age", version=1, position=0)]
    ),
    "a return": lambda store: store.return_to(ANA, {AGE: 1}),
    "an erasure": lambda store: store.erase(ANA),
}
READS: dict[str, Callable[[Store], object]] = {
    "snapshot": lambda store: store.snapshot(ANA),
    "caps": lambda store: store.caps(ANA),
    "ledger": lambda store: store.ledger(ANA),
    "events": lambda store: store.events(ANA),
    "log": lambda store: store.log(ANA),
    "held": lambda store: store.held(ANA, "lab"),
    "disclosures": lambda store: store.disclosures(ANA),
    "records": lambda store: store.records(ANA),
    "find": lambda store: store.find(ANA, {AST: [b"f" * 32]}),
    "commit": lambda store: store.commit(ANA, [draw("ldl", 2)]),
    "set_cap": lambda store: store.set_cap(ANA, "age", 9),
    "erase": lambda store: store.erase(ANA),
    "principals": lambda store: store.principals(),
    "tags": lambda store: store.tags(),
}


def test_a_person_who_was_put_back_is_refused(url: str, anchor: Path) -> None:
    with closing(anchored(url, anchor, create=True)) as store:
        fill(store)
        key = store._key(ANA)
        for change in CHANGES.values():
            before = copy_out(url, OF_A_PERSON, key)
            change(store)
            after = copy_out(url, OF_A_PERSON, key)
            put_back(url, before, key)
            with closing(sql(url)) as unaware:
                assert unaware.verify() == ()  # without an anchor there is nothing to be seen
            for read in READS.values():
                with pytest.raises(StoreRolledBackError, match="earlier state"):
                    read(store)
            [problem] = store.verify()
            assert problem == (
                f"{ANA}: older than the anchor knows, or gone: an earlier copy was put back"
            )
            assert store.snapshot(EVE).levels[AGE]
            put_back(url, after, key)
            assert store.verify() == ()
            assert store.epoch(ANA) == store.snapshot(ANA).epoch


def test_a_person_who_is_gone_is_missed(url: str, anchor: Path) -> None:
    with closing(anchored(url, anchor, create=True)) as store:
        store.commit(EVE, [draw("age", 4, principal=EVE)])
        before = copy_out(url)
        fill(store)
        put_back(url, before)  # the count of people and all
        with closing(sql(url)) as unaware:
            assert unaware.verify() == ()
        for read in READS.values():
            with pytest.raises(StoreRolledBackError):
                read(store)
        with pytest.raises(StoreRolledBackError):
            store.epoch(ANA)
        assert any(problem.startswith(store._key(ANA)) for problem in store.verify())


def test_a_session_of_an_erased_person_who_was_put_back_releases_nothing(
    url: str, anchor: Path
) -> None:
    fib4 = load_template("fib4")
    values = {"age": 54, "ast": 23, "alt": 30, "plt": 220}
    with closing(anchored(url, anchor, create=True)) as store:
        Guard.open(fib4, values=values, budget="0.9", store=store, principal="ana")
        key = store._key(ANA)
    before = copy_out(url, OF_A_PERSON, key)
    with closing(anchored(url, anchor)) as store:
        session = Guard.resume(fib4, store=store, principal="ana")
        store.erase(ANA)
        put_back(url, before, key)
        with pytest.raises(StoreRolledBackError):
            session.release("ast")
        with pytest.raises(StoreRolledBackError):
            store.epoch(ANA)


def test_tables_and_quantities_that_were_put_back_are_refused(url: str, anchor: Path) -> None:
    with closing(anchored(url, anchor, create=True)) as store:
        store.commit(ANA, [draw("age", 3)])
    before = copy_out(url, ("table_runs", "table_marks", "quantities"))
    counts = copy_out(url, ("heads",))
    with closing(anchored(url, anchor)) as store:
        fill(store)
        grid = Domain(lower=0, upper=9, size=10)
        store.define([RootQuantity(name=RootName("ldl"), unit="mg/dL", domain=grid)])
    with closing(sql(url)) as store:
        heads = [row for row in copy_out(url, ("heads",))["heads"] if row[0]]
    put_back(url, before | {"heads": heads + [row for row in counts["heads"] if not row[0]]})
    with closing(anchored(url, anchor)) as store:
        for read in (store.tables, store.quantities, lambda: store.ledger(ANA)):
            with pytest.raises(StoreError):
                read()


def test_what_is_anchored_goes_on_working(url: str, anchor: Path) -> None:
    with closing(anchored(url, anchor, create=True)) as store:
        fill(store)
        for change in CHANGES.values():
            change(store)
        assert store.verify() == ()
        store.commit(ANA, [draw("age", 1, version=3)])
    with closing(anchored(url, anchor)) as store:
        assert store.verify() == ()
        assert store.principals() == (ANA, EVE)


def test_what_is_committed_after_a_transaction_began_is_no_alarm(url: str, anchor: Path) -> None:
    with (
        closing(anchored(url, anchor, create=True)) as store,
        closing(anchored(url, anchor)) as other,
    ):
        fill(store)
        with database_of(store).reading() as db:
            assert store._read(db, ANA).summary.caps["age"] == 500
            other.set_cap(ANA, "age", 7)
            assert store._anchored is not None
            store._anchored.anchor.moment()  # as another thread's transaction would learn of it
            assert store._read(db, ANA).summary.caps["age"] == 500
        assert store.caps(ANA)["age"] == 7


def test_a_change_of_key_is_no_alarm(url: str, anchor: Path) -> None:
    with closing(anchored(url, anchor, create=True)) as store:
        fill(store)
        before = copy_out(url, OF_A_PERSON, store._key(ANA))
        store.rotate_key(OTHER_KEY)
        assert store.verify() == ()
        store.set_cap(ANA, "age", 7)
        store.advance_anchor()
        assert store.principals() == (ANA, EVE)
    with closing(anchored(url, anchor, key=OTHER_KEY)) as store:
        assert store.verify() == ()
        assert store.caps(ANA)["age"] == 7
        put_back(url, before, store._key(ANA), key=OTHER_KEY)
        with pytest.raises(StoreDamagedError):
            store.caps(ANA)


def test_a_crash_between_commit_and_anchor_costs_nothing(
    url: str, anchor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(anchored(url, anchor, create=True)) as store:
        fill(store)
        with monkeypatch.context() as cut:
            cut.setattr(Anchor, "_append", _killed)
            with pytest.raises(KeyboardInterrupt):
                store.commit(ANA, [draw("plt", 2)])
    with closing(anchored(url, anchor)) as store:
        assert store.verify() == ()
        [kept] = store.commit(ANA, [draw("plt", 9)])
        assert kept.sanitized.index == 2


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("added", [b"", b"x" * 400])
def test_a_line_that_was_cut_off_is_no_line(file: Path, anchor: Path, added: bytes) -> None:
    with closing(anchored(at(file), anchor, create=True)) as store:
        fill(store)
    anchor.write_bytes(anchor.read_bytes()[:-7] + added)
    with closing(anchored(at(file), anchor)) as store:
        assert store.caps(ANA)
        store.set_cap(ANA, "age", 8)
        assert anchor.read_bytes().endswith(b"]\n")
    with closing(anchored(at(file), anchor)) as store:
        assert store.caps(ANA)["age"] == 8
        assert store.verify() == ()


@pytest.mark.parametrize("place", ["first", "last"])
def test_an_altered_anchor_is_refused(file: Path, anchor: Path, place: str) -> None:
    with closing(anchored(at(file), anchor, create=True)) as store:
        fill(store)
    lines = anchor.read_text().splitlines()
    number = 0 if place == "first" else len(lines) - 1
    lines[number] = lines[number].replace("1", "2", 1)
    anchor.write_text("\n".join(lines) + "\n")
    with pytest.raises(StoreDamagedError, match="anchor"):
        anchored(at(file), anchor)


def test_a_line_taken_from_the_middle_is_missed(file: Path, anchor: Path) -> None:
    with closing(anchored(at(file), anchor, create=True)) as store:
        fill(store)
    first, _, *others = anchor.read_text().splitlines()
    anchor.write_text("\n".join([first, *others]) + "\n")
    with pytest.raises(StoreDamagedError, match="altered"):
        anchored(at(file), anchor)


def test_anothers_or_no_anchor_is_refused(tmp_path: Path, anchor: Path) -> None:
    mine, others = at(tmp_path / "mine.db"), at(tmp_path / "others.db")
    anchored(others, anchor, create=True).close()
    sql(mine).close()
    with pytest.raises(StoreDamagedError, match="another vault's"):
        anchored(mine, anchor)
    with pytest.raises(StoreError, match="vault verify --anchor"):
        anchored(mine, anchor.with_name("none"))
    assert sorted(each.name for each in anchor.parent.iterdir()) == [
        "vault.anchor",
        "vault.anchor.lock",
    ]
    anchor.write_bytes(b"")
    with pytest.raises(StoreDamagedError, match="cut off"):
        anchored(others, anchor)
    with pytest.raises(StoreError, match="memory"):
        open_store("memory:", anchor=anchor)


def test_an_anchor_that_vanishes_is_missed_at_once(file: Path, anchor: Path) -> None:
    with closing(anchored(at(file), anchor, create=True)) as store:
        fill(store)
        anchor.unlink()
        with pytest.raises(StoreError, match="there is no anchor"):
            store.caps(ANA)


def test_an_anchor_that_cannot_be_written_is_said(file: Path, anchor: Path) -> None:
    with closing(anchored(at(file), anchor, create=True)) as store:
        fill(store)
        anchor.unlink()
        anchor.mkdir()
        with pytest.raises(StoreUnavailableError, match="nothing was released"):
            store.set_cap(ANA, "age", 1)


def test_no_name_and_no_value_stands_in_an_anchor(file: Path, anchor: Path) -> None:
    with closing(anchored(at(file), anchor, create=True)) as store:
        fill(store)
    for path in (anchor, anchor.with_name("vault.anchor.lock")):
        assert path.stat().st_mode & 0o777 == 0o600
    text = anchor.read_text().lower()
    assert not any(name in text for name in ("ana", "eve", "ast", "lab", "bob"))


def test_what_an_anchor_knows_is_not_written_again(anchor: Path) -> None:
    writer = Anchor.create(anchor, KEY, "vault")
    writer.advance(("ana", 1, 2))
    written = anchor.read_bytes()
    for known in (("ana", 1, 2), ("ana", 1, 1), ("ana", 0, 2), ("eve", 0, 0)):
        writer.advance(known)
        assert anchor.read_bytes() == written
    writer.advance(("ana", 2, 1))
    assert anchor.read_bytes() != written


def test_an_anchor_does_not_grow_without_end(
    file: Path, anchor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rootguard.store.anchor._SLACK", 10)
    with (
        closing(anchored(at(file), anchor, create=True)) as store,
        closing(anchored(at(file), anchor)) as other,
    ):
        fill(store)
        for cap in range(100):
            store.set_cap(ANA, "age", cap + 1)
            assert other.caps(ANA)["age"] == cap + 1
        assert len(anchor.read_text().splitlines()) < 40
        assert other.verify() == ()


def test_a_new_anchor_under_the_number_of_an_old_one_is_read_whole(
    anchor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File systems give a new file the number of one that is gone."""
    monkeypatch.setattr("rootguard.store.anchor._SLACK", 5)
    real = Path.stat, os.fstat

    def numbered(found: os.stat_result) -> os.stat_result:
        return os.stat_result((found.st_mode, 7, *found[2:]), {"st_mtime_ns": found.st_mtime_ns})

    monkeypatch.setattr(Path, "stat", lambda path, **options: numbered(real[0](path, **options)))
    monkeypatch.setattr(os, "fstat", lambda file: numbered(real[1](file)))
    writer = Anchor.create(anchor, KEY, "vault")
    readers = [Anchor.open(anchor, KEY, "vault") for _ in range(40)]
    for count, reader in enumerate(readers, start=1):
        writer.advance(("ana", 0, count))
        reader.moment()  # each stops at another place of the file
    for count in range(41, 100):
        writer.advance(("ana", 0, count))
        for reader in readers[count % 40 :: 13]:
            assert reader.behind(reader.moment(), "ana", 0, count - 1)
            assert not reader.behind(reader.moment(), "ana", 0, count)


def test_a_vault_copied_without_its_log_is_noticed(file: Path, anchor: Path) -> None:
    """`cp` of the main file of an open vault: what a reader keeps in the -wal is not in it."""
    with (
        closing(anchored(at(file), anchor, create=True)) as store,
        closing(sql(at(file))) as another,
        another._database.reading() as db,
    ):
        db.execute("SELECT COUNT(*) FROM people")
        fill(store)
        copied = file.with_name("copied.db")
        shutil.copy(file, copied)
    with closing(sql(at(copied))) as unaware:
        assert unaware.verify() == ()
        assert unaware.principals() == ()
    with closing(anchored(at(copied), anchor)) as aware:
        with pytest.raises(StoreRolledBackError):
            aware.snapshot(ANA)
        with pytest.raises(StoreRolledBackError):
            aware.commit(ANA, [draw("age", 9)])


def test_threads_and_processes_share_an_anchor(url: str, anchor: Path) -> None:
    """Nobody is taken for put back because somebody else was writing meanwhile."""
    anchored(url, anchor, create=True).close()
    ways = [multiprocessing.Pipe(duplex=False) for _ in range(3)]
    writers = [
        processes.Process(target=write_anchored, args=(url, str(anchor), number, sender))
        for number, (_, sender) in enumerate(ways)
    ]
    for writer in writers:
        writer.start()
    for way, _ in ways:
        assert way.poll(PATIENCE)
        assert way.recv() == []
    for writer in writers:
        writer.join(PATIENCE)
    with closing(anchored(url, anchor)) as store:
        assert store.verify() == ()
        before = copy_out(url)
        store.set_cap(ANA, "age", 1)
        put_back(url, before)
        with pytest.raises(StoreRolledBackError):
            store.caps(ANA)


def write_anchored(
    url: str,
    anchor: str,
    number: int,
    report: "multiprocessing.connection.Connection[object, object]",
) -> None:  # pragma: no cover - runs in a process of its own
    problems: list[str] = []
    store = anchored(url, Path(anchor))

    def write(thread: int) -> None:
        me = Principal(f"p{number}{thread}")
        try:
            for turn in range(15):
                store.set_cap(ANA, f"r{thread}", turn + 1)
                store.snapshot(ANA)
                store.commit(me, [draw(f"r{turn}", turn, principal=me)])
                store.snapshot(me)
                store.principals()
        except Exception as problem:  # noqa: BLE001 - told to the test
            problems.append(repr(problem))

    threads = [threading.Thread(target=write, args=(each,)) for each in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    store.close()
    report.send(problems)
    report.close()
