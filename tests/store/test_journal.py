"""The journal: what crossed is kept for its owner, soon, bounded, sealed, and in nobody's way."""

import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from rootguard import Guard, MemoryStore, Person, Store, load_template, open_store
from rootguard.errors import ErasedError, RootGuardError, StoreUnavailableError
from rootguard.events import (
    Event,
    ProfileErased,
    RequestRefused,
    RootNoised,
    TokenRefused,
    ValueReleased,
)
from rootguard.session.session import speak_to
from rootguard.store import journal as journals
from rootguard.store import rows
from rootguard.store.base import LOG_SIZE, RECIPIENT, Recipient, UnnumberedEntry, entry_now
from rootguard.store.sql import SqlStore
from rootguard.values import Principal
from tests.support.console_servers import SENTINELS, open_person
from tests.support.patience import PATIENCE

OWNER, EVE = Principal("owner"), Principal("eve")
VALUES = {"age": 52.0, "ast": 31.0, "alt": 28.0, "plt": 214.0}


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'vault.db'}"
    make: Callable[[], str] = request.getfixturevalue("new_postgres")
    return make()


KEY = bytes(range(32))


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(open_store(url, key=KEY, create=True)) as opened:
        yield opened


@pytest.fixture(autouse=True)
def nobody() -> Iterator[None]:
    mark = RECIPIENT.set(Recipient())
    yield
    RECIPIENT.reset(mark)


def refused(turn: int) -> Event:
    return RequestRefused(turn=turn, reason="AccessError")


def flush(store: Store) -> None:
    if isinstance(store, SqlStore):
        assert store._journal.flush()


def noted(store: Store, principal: Principal = OWNER) -> list[Event]:
    flush(store)
    return [each.event for each in store.log(principal)]


def turns(store: Store, principal: Principal = OWNER, **asked: int) -> list[int]:
    found = [each.event for each in store.log(principal, **asked)]
    return [event.turn for event in found if isinstance(event, RequestRefused)]


def until(holds: Callable[[], bool]) -> None:
    """Look until it holds; the test's own time limit ends a wait in vain."""
    while not holds():
        threading.Event().wait(0.02)


def test_charges_releases_refusals_and_forged_tokens_are_written_down_in_order(
    store: Store,
) -> None:
    person = open_person(store)
    speak_to("api.example.com", "/v1/messages")
    person.release("age")
    with pytest.raises(RootGuardError):
        person.release("nonsense")
    person.refuse_tokens({"phone": 2})
    events = noted(store)
    kinds = [type(event) for event in events]
    assert kinds == [*[RootNoised] * 4, ValueReleased, RequestRefused, TokenRefused]
    assert events[:4] == list(store.events(OWNER))
    assert events[4:] == list(person.transcript())
    sixth = store.log(OWNER)[5]
    assert (sixth.sequence, sixth.service, sixth.route) == (6, "api.example.com", "/v1/messages")


def test_a_service_of_the_policy_is_written_down_under_its_own_name(store: Store) -> None:
    from rootguard.session import parse_policy

    template = load_template("fib4")
    text = '[tiers.t]\nbudget = "0.9"\n[services.lab]\ntier = "t"\nroots = ["age"]\n'
    Guard.open(template, values=VALUES, budget="0.9", store=store)
    policy = parse_policy(text, file="p")
    session = Guard.serve(template, store=store, policy=policy, service="lab")
    session.release("age")
    with pytest.raises(RootGuardError):
        session.release("ast")
    flush(store)
    assert [each.service for each in store.log(OWNER)][-2:] == ["lab", "lab"]


def test_what_was_noted_survives_closing_and_opening(url: str) -> None:
    with closing(open_store(url, key=KEY, create=True)) as first:
        open_person(first).release("fib4")
    with closing(open_store(url, key=KEY, create=True)) as second:
        events = [each.event for each in second.log(OWNER)]
        assert isinstance(events[-1], ValueReleased)
        assert second.verify() == ()


def test_noting_writes_soon_without_being_told_to(url: str) -> None:
    with (
        closing(open_store(url, key=KEY, create=True)) as writer,
        closing(open_store(url, key=KEY, create=True)) as reader,
    ):
        for _ in range(2):  # the second time the writing thread may have ended meanwhile
            before = reader.log_size(OWNER)[1]
            writer.note(OWNER, refused(1))
            until(lambda seen=before: reader.log_size(OWNER)[1] > seen)  # type: ignore[misc]


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
def test_the_latest_ten_thousand_are_kept_and_numbers_go_on(kind: str, tmp_path: Path) -> None:
    store = (
        MemoryStore()
        if kind == "memory"
        else open_store(f"sqlite:///{tmp_path}/v", key=KEY, create=True)
    )
    with closing(store):
        for turn in range(1, 8_001):
            store.note(OWNER, refused(turn))
        flush(store)
        for turn in range(8_001, 15_001):
            store.note(OWNER, refused(turn))
        flush(store)
        assert store.log_size(OWNER) == (LOG_SIZE, 15_000)
        assert turns(store) == list(range(5_001, 15_001))
        assert turns(store, after=14_998) == [14_999, 15_000]
        assert turns(store, before=5_003) == [5_001, 5_002]
        assert turns(store, before=10_001, limit=2) == [9_999, 10_000]
        assert turns(store, after=0, limit=2) == [5_001, 5_002]
        assert store.verify() == ()


def test_a_flood_that_outruns_the_writer_leaves_the_latest_and_no_gap(store: Store) -> None:
    assert isinstance(store, SqlStore)
    store.note(OWNER, refused(0))
    flush(store)
    with store._journal._writing:
        for turn in range(1, 12_001):
            store.note(OWNER, refused(turn))
    flush(store)
    assert store.log_size(OWNER) == (LOG_SIZE, 12_001)
    assert turns(store) == list(range(2_001, 12_001))
    assert store.verify() == ()


def test_principals_have_journals_of_their_own(store: Store) -> None:
    for turn, who in enumerate((OWNER, EVE, OWNER), start=1):
        store.note(who, refused(turn))
    flush(store)
    assert turns(store, OWNER) == [1, 3]
    assert turns(store, EVE) == [2]
    assert [each.sequence for each in store.log(EVE)] == [1]


def test_erasing_a_profile_erases_its_journal_and_leaves_only_that_it_did(store: Store) -> None:
    person = open_person(store)
    person.release("age")
    flush(store)
    latest = store.log_size(OWNER)[1]
    person.release("age")  # waits still when the profile is erased
    store.erase(OWNER)
    flush(store)
    assert [each.event for each in store.log(OWNER)] == [ProfileErased(principal="")]
    assert store.log_size(OWNER) == (1, latest + 1)
    with pytest.raises(ErasedError):
        person.release("age")
    assert [type(event) for event in noted(store)] == [ProfileErased]
    open_person(store).release("age")
    kinds = [type(event) for event in noted(store)]
    assert kinds == [ProfileErased, *[RootNoised] * 4, ValueReleased]
    assert store.log_size(OWNER) == (6, latest + 6)
    assert store.verify() == ()


def test_what_another_process_noted_before_an_erasure_does_not_come_back(url: str) -> None:
    with (
        closing(open_store(url, key=KEY, create=True)) as slow,
        closing(open_store(url, key=KEY, create=True)) as eraser,
    ):
        assert isinstance(slow, SqlStore)
        eraser.note(OWNER, refused(1))
        flush(eraser)
        with slow._journal._writing:
            slow.note(OWNER, refused(2), epoch=0)
            eraser.erase(OWNER)
        slow.note(OWNER, refused(3), epoch=1)
        flush(slow)
        assert turns(eraser) == [3]


def test_a_journal_that_fails_is_told_once_and_fails_no_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/v", key=KEY, create=True)) as store:
        assert isinstance(store, SqlStore)
        person = open_person(store)
        write = store._journal._write

        def fails(*_: object) -> None:
            raise StoreUnavailableError("47.318264951")

        monkeypatch.setattr(store._journal, "_write", fails)
        with caplog.at_level(logging.WARNING, logger="rootguard.journal"):
            for _ in range(3):
                person.release("age")
                assert not store._journal.flush()
        assert len(caplog.records) == 1
        assert "47.318" not in caplog.text
        monkeypatch.setattr(store._journal, "_write", write)
        assert [type(event) for event in noted(store)][4:] == [ValueReleased] * 3


def test_what_cannot_be_stored_is_left_out_and_the_rest_is_kept(store: Store) -> None:
    store.note(OWNER, refused(1), Recipient(service="a\x00b"))
    store.note(OWNER, refused(2))
    flush(store)
    assert turns(store) == [2]


@pytest.mark.parametrize(
    "formula", ["47.318264951 * 1", "age * 0 + 47.318264951", "(age * 0) + 91.827364519 + 1"]
)
def test_a_private_number_in_a_formula_is_not_kept_nor_what_follows_from_it(
    formula: str, tmp_path: Path
) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/v", key=KEY, create=True)) as store:
        person = open_person(store)
        person.derive(formula, name="asked")
        person.derive("asked * 2")  # rests on what was hidden
        first, second = noted(store)[4:]
        assert isinstance(first, ValueReleased)
        assert isinstance(second, ValueReleased)
        assert (first.value, second.value) == ("", "")
        assert "#" in first.formula
        assert "." not in first.formula
        control = repr(person.number("age"))
        flush(store)
        told = repr(store.log(OWNER))
        assert isinstance(store, SqlStore)
        with store._database.reading() as db:
            [(entry,)] = db.execute("SELECT content FROM log WHERE sequence = 7")
    held = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert control in told  # what may be kept is there to be found
    assert entry in held
    for raw in SENTINELS.values():
        assert str(raw) not in told
        assert str(raw).encode() not in held
    assert control.encode() not in held  # nothing of the log is there in clear


def test_formulas_of_the_templates_and_yes_or_no_are_kept(store: Store) -> None:
    person = open_person(store)
    person.release("fib4")
    person.derive("age >= 65")
    person.derive("100 * age / ast")
    events = [event for event in noted(store) if isinstance(event, ValueReleased)]
    assert [event.formula for event in events] == [
        "age * ast / (plt * sqrt(alt))",
        "age >= #",
        "100 * age / ast",
    ]
    assert events[1].value in (0.0, 1.0)
    assert isinstance(events[2].value, float)


def test_names_of_services_are_cut_to_plain_characters() -> None:
    speak_to("evil\n<script>\x00" + "x" * 200, "/v1/\ud800models")
    assert RECIPIENT.get().service == "evilscript" + "x" * 70
    assert RECIPIENT.get().route == "/v1/models"


_WRITER = """
import sys
from rootguard import open_store
from tests.support.console_servers import open_person
store = open_store(sys.argv[1], key=bytes(range(32)), create=True)
person = open_person(store)
while True:
    person.release("age")
    print(flush=True)
    sys.stdin.readline()
"""


def test_a_killed_writer_leaves_a_sound_journal_up_to_its_last_flush(url: str) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert writer.stdin is not None
    assert writer.stdout is not None
    try:
        writer.stdout.readline()
        with closing(open_store(url, key=KEY, create=True)) as reader:
            until(lambda: reader.log_size(OWNER)[1] >= 5)
            writer.stdin.write(b"\n")
            writer.stdin.flush()
            writer.stdout.readline()
            writer.send_signal(signal.SIGKILL)
            writer.wait(PATIENCE)
            assert reader.verify() == ()
            kept = reader.log(OWNER)
            assert len(kept) in (5, 6)
            assert isinstance(kept[4].event, ValueReleased)
            open_person(reader).release("age")
            flush(reader)
            assert reader.log_size(OWNER)[0] == len(kept) + 1
    finally:
        writer.kill()
        writer.communicate()


def test_the_writing_thread_ends_when_there_is_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "_LINGER", 0.01)
    with closing(open_store(f"sqlite:///{tmp_path}/v", key=KEY, create=True)) as store:
        assert isinstance(store, SqlStore)
        store.note(OWNER, refused(1))
        until(lambda: store._journal._thread is None)
        store.note(OWNER, refused(2))
        until(lambda: store.log_size(OWNER)[1] == 2)


def test_sessions_of_the_library_note_too_and_may_be_many(store: Store) -> None:
    session = Guard.open(load_template("fib4"), values=VALUES, budget="0.9", store=store)
    session.release("age")
    assert isinstance(Guard.resume(load_template("fib4"), store=store).release("age"), float)
    assert [type(event) for event in noted(store)][4:] == [ValueReleased] * 2
    assert isinstance(open_person(store, "eve"), Person)


def test_over_mcp_the_journal_says_which_client_asked_by_which_tool(store: Store) -> None:
    pytest.importorskip("mcp")
    import anyio
    import mcp_types
    from mcp import Client

    from rootguard.channels.mcp.server import build_server

    person = open_person(store)
    named = mcp_types.Implementation(name="An <agent>", version="1")

    async def talk() -> None:
        async with Client(build_server(person), client_info=named) as client:
            await client.call_tool("get_values", {"names": ["age"]})
            await client.call_tool("compute", {"formula": "47.318264951 * 2"})
            await client.call_tool("compute", {"formula": "no + such"})

    anyio.run(talk)
    flush(store)
    found = store.log(OWNER, after=4)
    assert [(each.service, each.route) for each in found] == [
        ("An agent", "get_values"),
        ("An agent", "compute"),
        ("An agent", "compute"),
    ]
    assert "47.318" not in str(found)


BATCHES = [
    [(2, 0), (1, 0), (1, 0)],
    [(4, 0), (1, 0), (3, 0)],
    [(5, 0), (9, 0)],
    [(1, 0), (2, 1), (1, 0)],
    [(3, 0), (4, 2), (4, 7)],
    [(4, 3), (0, 0), (3, 0)],
]


@pytest.mark.parametrize("batches", BATCHES)
def test_however_entries_arrive_the_latest_are_kept_and_the_count_goes_on(
    batches: list[tuple[int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of so many entries, before which so many were given up, in a log of four."""
    monkeypatch.setattr(rows, "LOG_SIZE", 4)
    kept: list[int] = []
    count = 0
    with closing(open_store(f"sqlite:///{tmp_path}/v", key=KEY, create=True)) as store:
        assert isinstance(store, SqlStore)
        for size, given_up in batches:
            kept = [] if given_up else kept
            new = range(count + given_up + 1, count + given_up + size + 1)
            entries = [(1, Recipient(), refused(turn)) for turn in new]
            with store._writing(OWNER) as (db, person, counts):
                first = store._person_statements(db, person, counts)
                added = rows.add_entries(
                    store._secrets.integrity, person, counts, entries, given_up
                )
                db.batch([*first, *added])
            if size:
                kept, count = [*kept, *new][-4:], new[-1]
            assert turns(store) == [each.sequence for each in store.log(OWNER)] == kept
            assert store.log_size(OWNER) == (len(kept), count)
            assert store.verify() == ()


def test_after_an_erasure_only_what_is_of_the_new_epoch_is_taken(store: Store) -> None:
    store.erase(OWNER)  # the very first entry there is
    for turn, epoch in enumerate((0, 1, None, 2, 0), start=1):
        store.note(OWNER, refused(turn), epoch=epoch)
    flush(store)
    assert turns(store) == [2, 3]  # and what is of nobody knows which
    assert store.log_size(OWNER) == (3, 3)
    assert store.verify() == ()


def test_an_entry_has_the_time_in_microseconds_and_whom_it_went_to() -> None:
    before = time.time_ns()
    speak_to("lab", "/x")
    micros, recipient, _ = entry_now(refused(1))
    assert before // 1000 <= micros <= time.time_ns() // 1000
    assert (recipient.service, recipient.route) == ("lab", "/x")
    assert entry_now(refused(1), Recipient(service="shop"))[1].service == "shop"


OWN, EVES = journals.Author("a1", OWNER, 0), journals.Author("b2", EVE, 0)


def writer(monkeypatch: pytest.MonkeyPatch, write: journals.Write) -> journals.LogWriter:
    """A writer without its thread, for logs of three."""
    monkeypatch.setattr(journals, "LOG_SIZE", 3)
    monkeypatch.setattr(journals.LogWriter, "_start", lambda _: None)
    return journals.LogWriter(write)


def test_what_could_not_be_written_waits_before_the_rest_and_what_is_lost_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[tuple[list[int], int]] = []
    down = True

    def write(_: journals.Author, entries: Sequence[UnnumberedEntry], given_up: int) -> None:
        if down:
            raise StoreUnavailableError("away")
        written.append(([e.turn for _, _, e in entries if isinstance(e, RequestRefused)], given_up))

    log = writer(monkeypatch, write)
    for turn in (1, 2):
        log.note(OWN, entry_now(refused(turn)))
    assert log._wake.is_set()
    assert not log.flush()
    log.note(OWN, entry_now(refused(3)))
    assert not log.flush()  # three wait: none is lost yet
    assert [(len(w.entries), w.given_up) for w in log._waiting.values()] == [(3, 0)]
    for turn in (4, 5, 6, 7):
        log.note(OWN, entry_now(refused(turn)))
    down = False
    log.note(EVES, entry_now(refused(8)))
    assert log.flush()
    assert written == [([5, 6, 7], 4), ([8], 0)]
    written.clear()
    down = True
    for turn in (1, 2):
        log.note(OWN, entry_now(refused(turn)))
    failed, log._waiting = log._waiting, {}
    for turn in (3, 4, 5, 6):
        log.note(OWN, entry_now(refused(turn)))
    log._put_back(failed)
    down = False
    log.close()
    assert written == [([4, 5, 6], 3)]
    log.note(OWN, entry_now(refused(9)))  # closed: it is dropped, and nothing fails
    assert log.flush()
    assert len(written) == 1


def test_a_thread_that_cannot_be_had_fails_no_release(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    written: list[journals.Author] = []
    log = journals.LogWriter(lambda author, *_: written.append(author))
    with monkeypatch.context() as without:
        without.setattr(threading.Thread, "start", refuses)
        log.note(OWN, entry_now(refused(1)))
    assert log._thread is None
    log.note(OWN, entry_now(refused(2)))
    assert log._thread is not None
    assert log._thread.daemon  # it must not keep a program from ending
    log.close()
    assert written == [OWN]


def test_whoever_closes_waits_for_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[threading.Thread] = []
    monkeypatch.setattr(threading.Thread, "join", lambda thread, _: waited.append(thread))
    log = journals.LogWriter(lambda *_: None)
    log.note(OWN, entry_now(refused(1)))
    thread = log._thread
    log.close()
    assert waited == [thread]


def test_the_thread_tries_again_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "_PATIENCE", 0.01)
    tries: list[int] = []

    def write(_: journals.Author, entries: Sequence[UnnumberedEntry], given_up: int) -> None:
        tries.append(len(entries))
        if len(tries) < 3:
            raise StoreUnavailableError("away")

    log = journals.LogWriter(write)
    log.note(OWN, entry_now(refused(1)))
    until(lambda: len(tries) == 3)
    log.close()
    assert tries == [1, 1, 1]


def test_what_waits_of_an_erased_person_is_dropped_of_earlier_epochs_and_all_spellings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[journals.Author] = []
    log = writer(monkeypatch, lambda author, *_: written.append(author))
    anew = replace(OWN, epoch=2)  # somebody who came back meanwhile
    others = (EVES, replace(OWN, epoch=1), replace(OWN, principal=Principal("OWNER")))
    for author in (OWN, anew, *others, replace(OWN, epoch=None)):
        log.note(author, entry_now(refused(1)))
    log.forget(OWN.key, 2)
    assert log.flush()
    assert written == [anew, EVES]


def test_an_erasure_that_fails_loses_nothing_of_the_log(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StoreUnavailableError("the disk is full")

    assert isinstance(store, SqlStore)
    with store._journal._writing:  # so that it waits still
        store.note(OWNER, refused(1), epoch=0)
        with monkeypatch.context() as broken:
            broken.setattr(rows, "put_person", refuse)
            with pytest.raises(StoreUnavailableError):
                store.erase(OWNER)
    flush(store)
    assert turns(store) == [1]
