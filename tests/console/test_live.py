"""What crosses is shown as it happens: by this process, by another, and behind the gateway."""

import hashlib
import json
import subprocess
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from rootguard import MemoryStore, open_store
from rootguard.console import app as console_app
from rootguard.values import Principal
from tests.support.console_servers import KEY, Served, console, events, open_person, viewer_of
from tests.support.gateway_processes import started
from tests.support.gateways import NAME, PHONE, PROFILE
from tests.support.patience import PATIENCE
from tests.support.programs import PYTHON
from tests.support.upstream import recording_upstream

VAULT_KEY = bytes(range(32))
_RELEASING = """
import sys
from rootguard import open_store
from tests.support.console_servers import open_person
store = open_store(sys.argv[1], key=bytes(range(32)), create=True)
person = open_person(store)
for line in sys.stdin:
    person.release(line.strip())
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'vault.db'}"
    make: Callable[[], str] = request.getfixturevalue("new_postgres")
    return make()


@contextmanager
def listening(
    served: Served, query: str = "", **headers: str
) -> Iterator[Iterator[tuple[str, str, Any]]]:
    """An open stream of the audit log."""
    shown = {name.replace("_", "-"): value for name, value in headers.items()}
    shown["authorization"] = f"Bearer {KEY}"
    url = f"{served.address}/console/api/live{query}"
    with served.client.stream("GET", url, headers=shown) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert "content-security-policy" in answer.headers
        yield events(answer.iter_lines())


@contextmanager
def releasing(url: str) -> Iterator[Callable[[str], None]]:
    """Another process with the same vault, that releases what it is told to."""
    process = subprocess.Popen([*PYTHON, "-c", _RELEASING, url], stdin=subprocess.PIPE)
    assert process.stdin is not None
    pipe = process.stdin

    def release(name: str) -> None:
        pipe.write(f"{name}\n".encode())
        pipe.flush()

    try:
        yield release
    finally:
        pipe.close()
        process.wait(PATIENCE)


def test_what_another_process_releases_is_shown_at_once(url: str) -> None:
    with (
        closing(open_store(url, key=VAULT_KEY, create=True)) as store,
        console(viewer_of(store)) as served,
        listening(served, "?after=0") as told,
        releasing(url) as release,
    ):
        release("age")
        assert [next(told)[2]["kind"] for _ in range(5)] == ["noised"] * 4 + ["released"]
        release("fib4")
        number, kind, entry = next(told)
        assert (number, kind, entry["name"]) == ("6", "entry", "fib4")
        assert entry["id"] == 6
        assert entry == served.json("api/log?after=5")["entries"][0]


def test_a_stream_goes_on_where_it_broke_off() -> None:
    store = MemoryStore()
    person = open_person(store)
    for _ in range(6):
        person.release("age")
    with console(viewer_of(store)) as served:
        with listening(served, "?after=4") as told:
            assert [next(told)[0] for _ in range(2)] == ["5", "6"]
        with listening(served, "?after=4", last_event_id="6") as told:
            assert [next(told)[0] for _ in range(4)] == ["7", "8", "9", "10"]
            person.release("ast")
            number, _, entry = next(told)
            assert (number, entry["name"]) == ("11", "ast")


def test_without_a_place_to_begin_only_what_is_new_is_told() -> None:
    store = MemoryStore()
    person = open_person(store)
    with console(viewer_of(store)) as served:
        for query in ("", "?after=999"):
            with listening(served, query) as told:
                person.release("plt")
                assert next(told)[2]["name"] == "plt"


def test_a_quiet_stream_says_that_it_is_still_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_app, "BEAT_SECONDS", 0.0)
    headers = {"authorization": f"Bearer {KEY}"}
    with (
        console(viewer_of(MemoryStore())) as served,
        served.client.stream(
            "GET", f"{served.address}/console/api/live", headers=headers
        ) as answer,
    ):
        lines = answer.iter_lines()
        assert next(lines) == "retry: 1000"
        assert next(line for line in lines if line) == ": still here"


def test_nobody_is_asked_while_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    asked = threading.Event()
    read = store.log

    def watched(*given: Any, **more: Any) -> Any:  # noqa: ANN401
        asked.set()
        return read(*given, **more)

    monkeypatch.setattr(store, "log", watched)
    with console(viewer_of(store)) as served:
        with listening(served):
            assert asked.wait(PATIENCE)
        while served.get("api/me").status_code == 200:  # until the stream's end was noticed
            asked.clear()
            if not asked.wait(3 * console_app.POLL_SECONDS):
                break
        with listening(served):
            assert asked.wait(PATIENCE)


def test_an_open_stream_does_not_keep_a_server_from_stopping() -> None:
    with console(viewer_of(MemoryStore())) as served:
        client = httpx2.Client(trust_env=False, timeout=PATIENCE)
        stream = client.stream(
            "GET",
            f"{served.address}/console/api/live",
            headers={"authorization": f"Bearer {KEY}"},
        )
        answer = stream.__enter__()
        assert answer.status_code == 200
    assert answer.read() is not None  # it came to its end, in peace
    client.close()


def chat(address: str, text: str, key: str = "none", on_doubt: str = "redact") -> httpx2.Response:
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    headers = {"authorization": f"Bearer {key}", "x-rootguard-on-doubt": on_doubt}
    return httpx2.post(
        f"{address}/v1/chat/completions", json=body, headers=headers, timeout=PATIENCE
    )


def entries(address: str, key: str = "none") -> list[Any]:
    headers = {"authorization": f"Bearer {key}"}
    answer = httpx2.get(f"{address}/console/api/log", headers=headers, timeout=PATIENCE)
    assert answer.status_code == 200, answer.text
    found: list[Any] = answer.json()["entries"]
    return found


def test_a_gateway_shows_what_left_through_it_by_service_and_route(tmp_path: Path) -> None:
    profile = tmp_path / "me.toml"
    profile.write_text(PROFILE % "owner")
    store = f"sqlite:///{tmp_path / 'vault.db'}"
    with recording_upstream() as (upstream, recording):
        host = urllib.parse.urlsplit(upstream).netloc
        with started(profile, upstream=upstream, store=store, options=["--console"]) as running:
            assert chat(running.address, f"I am {NAME} and my AST is 61.375 U/L.").is_success
            recording.says = lambda _heard: f"Call {PHONE} or {PHONE}."
            assert chat(running.address, "Whom do I call?").is_success
            doubted = chat(running.address, "My bilirubin was 3.7 mg/dL.", on_doubt="refuse")
            assert doubted.status_code == 422
            found: list[Any] = []
            while not {"noised", "released", "refused", "unknown-identifier"} <= {
                e["kind"] for e in found
            }:
                found = entries(running.address)
            for each in found:
                assert (each["service"], each["route"]) == (host, "/v1/chat/completions")
            assert "61.375" not in json.dumps(found)
            (refused,) = (each for each in found if each["kind"] == "refused")
            assert "stands beside a private word" in refused["reason"]
            (forged,) = (each for each in found if each["kind"] == "unknown-identifier")
            assert (forged["name"], forged["value"]) == ("phone", None)
            assert PHONE not in json.dumps(found)


def test_each_key_of_a_gateway_opens_its_own_console(tmp_path: Path) -> None:
    lines = ["[keys]"]
    for who in ("edna", "otto"):
        (tmp_path / f"{who}.toml").write_text(PROFILE % who)
        digest = hashlib.sha256(f"key-of-{who}".encode()).hexdigest()
        lines.append(f'"{digest}" = "{who}.toml"')
    keys = tmp_path / "keys.toml"
    keys.write_text("\n".join(lines))
    store = f"sqlite:///{tmp_path / 'vault.db'}"
    command = "from rootguard.cli.gateway import command; command()"
    with recording_upstream() as (upstream, _):
        process = subprocess.Popen(
            [
                *(*PYTHON, "-c", command, "--keys", str(keys), "--store", store),
                *("--port", "0", "--upstream", upstream, "--quiet", "--console"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split("=", 1)[1].split("/v1")[0]
            assert process.stdout.readline().strip().endswith(f"{address}/console/")
            assert chat(address, "My AST is 61.375 U/L.", "key-of-edna").is_success
            while not entries(address, "key-of-edna"):
                pass
            assert entries(address, "key-of-otto") == []
            for headers in ({}, {"authorization": "Bearer key-of-nobody"}):
                answer = httpx2.get(f"{address}/console/api/log", headers=headers, timeout=PATIENCE)
                assert answer.status_code == 401
            page = httpx2.get(
                f"{address}/console/", headers={"host": "box.example"}, timeout=PATIENCE
            )
            assert page.status_code == 200
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)
    with closing(open_store(store)) as kept:
        assert kept.verify() == ()
        assert kept.log_size(Principal("otto")) == (0, 0)


def test_a_gateway_has_no_console_unless_it_is_asked_for(tmp_path: Path) -> None:
    profile = tmp_path / "me.toml"
    profile.write_text(PROFILE % "owner")
    with (
        recording_upstream() as (upstream, _),
        started(profile, upstream=upstream, store="memory:") as running,
    ):
        for path in ("/console", "/console/", "/console/api/me"):
            assert httpx2.get(f"{running.address}{path}", timeout=PATIENCE).status_code == 404
