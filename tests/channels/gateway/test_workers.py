"""`rootguard gateway --workers`: several processes on one socket and one vault behave as one."""

import os
import signal
import socket
import threading
import time
from pathlib import Path

import httpx2
import pytest

from tests.support.gateway_processes import UPSTREAM, Started, run, started
from tests.support.glucose_chats import CHATS, PROFILE, TURNS, check_one_value, talk
from tests.support.patience import PATIENCE
from tests.support.upstream import recording_upstream

WORKERS = 3
CHILDREN = Path("/proc/self/task") / str(os.getpid()) / "children"

pytestmark = pytest.mark.skipif(not CHILDREN.exists(), reason="processes are read from /proc")


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    file = tmp_path / "me.toml"
    file.write_text(PROFILE)
    return file


def workers_of(gateway: Started) -> list[int]:
    listed = Path(f"/proc/{gateway.pid}/task/{gateway.pid}/children").read_text()
    return [int(pid) for pid in listed.split()]


def counted(gateway: Started, line: str) -> float:
    page = httpx2.get(f"{gateway.address}/metrics", trust_env=False, timeout=PATIENCE).text
    return sum(float(each.split()[-1]) for each in page.splitlines() if each.startswith(line))


def until(holds: object) -> None:
    """Wait for something that must come; the test's own time limit ends it."""
    pause = threading.Event()
    while not holds():  # type: ignore[operator]
        pause.wait(0.05)


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return True
    return state == "Z"


def test_workers_share_one_value_and_one_count(profile: Path, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'vault.sqlite3'}"
    with (
        recording_upstream() as (upstream, recording),
        started(
            profile, upstream=upstream, store=store, options=("--workers", str(WORKERS))
        ) as gateway,
    ):
        assert len(workers_of(gateway)) == WORKERS
        talk([gateway])
        assert counted(gateway, "rootguard_requests_total") == CHATS * TURNS
        assert counted(gateway, "rootguard_requests_under_way") == 0
    check_one_value(recording, store, "")


def test_a_worker_that_dies_is_replaced_and_all_end_together(profile: Path, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'vault.sqlite3'}"
    options = ("--workers", "2")
    with (
        recording_upstream() as (upstream, _),
        started(profile, upstream=upstream, store=store, options=options) as gateway,
    ):
        begun = time.monotonic()
        until(lambda: time.monotonic() - begun > 2.5)  # one that dies at once is not replaced
        first = workers_of(gateway)
        os.kill(first[0], signal.SIGKILL)
        until(lambda: len(workers_of(gateway)) == 2 and first[0] not in workers_of(gateway))
        answer = httpx2.get(f"{gateway.address}/healthz", trust_env=False, timeout=PATIENCE)
        assert answer.status_code == 200
        last = workers_of(gateway)
    until(lambda: all(gone(pid) for pid in last))


def test_workers_end_when_the_process_that_started_them_is_killed(
    profile: Path, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path / 'vault.sqlite3'}"
    options = ("--workers", "2")
    killed: list[int] = []

    def kill_the_first(upstream: str) -> None:
        with started(profile, upstream=upstream, store=store, options=options) as gateway:
            killed.extend(workers_of(gateway))
            os.kill(gateway.pid, signal.SIGKILL)

    with (
        recording_upstream() as (upstream, _),
        pytest.raises(AssertionError, match="in peace"),
    ):
        kill_the_first(upstream)
    assert len(killed) == 2
    until(lambda: all(gone(pid) for pid in killed))


def test_workers_are_refused_a_store_that_they_cannot_share(profile: Path) -> None:
    code, output = run("--profile", str(profile), "--store", "memory:", "--workers", "2", *UPSTREAM)
    assert code == 2
    assert "--workers need a store" in output


def test_what_is_wrong_is_told_once(profile: Path, tmp_path: Path) -> None:
    profile.write_text("templates = [")
    store = f"sqlite:///{tmp_path / 'vault.sqlite3'}"
    code, output = run("--profile", str(profile), "--store", store, "--workers", "2", *UPSTREAM)
    assert code != 0
    assert output.count("Traceback") == 0


def link_of(file: Path) -> Path:
    try:
        return file.readlink()
    except OSError:  # closed meanwhile
        return file


def test_each_connection_goes_to_the_worker_that_has_fewest(profile: Path, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'vault.sqlite3'}"

    with (
        recording_upstream() as (upstream, _),
        started(profile, upstream=upstream, store=store, options=("--workers", "2")) as gateway,
    ):
        host, port = gateway.address.removeprefix("http://").split(":")

        def taken() -> list[int]:
            rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
            ours = {f"socket:[{row[9]}]" for row in rows if int(row[1][-4:], 16) == int(port)}
            return [
                sum(str(link) in ours for link in map(link_of, Path(f"/proc/{pid}/fd").iterdir()))
                for pid in workers_of(gateway)
            ]

        def connected(number: int) -> list[socket.socket]:
            return [socket.create_connection((host, int(port))) for _ in range(number)]

        until(lambda: taken() == [0, 0])
        first = connected(20)
        until(lambda: sum(taken()) == 20)
        assert min(taken()) >= 9  # one that asked how it goes may have been counted still
        for each in first[::2]:  # those of one worker, or nearly so
            each.close()
        until(lambda: sum(taken()) == 10)
        assert min(taken()) <= 1
        more = connected(8)
        until(lambda: sum(taken()) == 18)
        assert min(taken()) >= 8
        for each in (*first, *more):
            each.close()
