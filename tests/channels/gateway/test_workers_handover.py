"""A worker's side of a handover, and the supervisor's count of it, without processes."""

import socket
import time
from collections.abc import Iterator
from multiprocessing import Pipe
from types import SimpleNamespace
from typing import Any

import pytest

from rootguard.channels.gateway import workers
from rootguard.channels.gateway.workers import _Supervisor, _Worker


class Joined:
    """A process that has ended, or has not."""

    def __init__(self, code: int | None = None) -> None:
        self.exitcode = code
        self.pid = 0
        self.joined = False

    def join(self) -> None:
        self.joined = True


class Ends:
    def __init__(self) -> None:
        ours, self.theirs = socket.socketpair()
        ours.setblocking(False)
        said, self.says = Pipe(duplex=False)
        process: Any = Joined()
        self.process = process
        self.worker = _Worker(process, ours, said)

    def close(self) -> None:
        for each in (self.worker.handover, self.theirs, self.worker.said, self.says):
            each.close()


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.close()


def test_a_worker_is_ready_when_it_says_so_and_never_if_it_ends_before(ends: Ends) -> None:
    worker = ends.worker
    assert (worker.ready, worker.speaks, worker.connections) == (False, True, 0)
    ends.says.send_bytes(b".")
    assert worker.is_ready()
    assert worker.ready
    assert not ends.process.joined
    ends.says.close()
    assert not worker.is_ready()
    assert ends.process.joined


def test_connections_are_counted_when_they_are_handed_over_and_when_they_end(ends: Ends) -> None:
    worker = ends.worker
    with socket.socket() as connection:
        assert worker.take(connection)
        assert worker.take(connection)
    assert worker.connections == 2
    ends.theirs.send(b"..")
    worker.hear()
    assert (worker.connections, worker.speaks) == (0, True)
    ends.theirs.close()
    worker.hear()
    assert not worker.speaks
    with socket.socket() as connection:
        assert not worker.take(connection)
    assert worker.connections == 0


@pytest.fixture
def supervisor() -> Iterator[tuple[_Supervisor, list[int], socket.socket]]:
    died: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield _Supervisor(lambda *_: None, listening, died.append), died, listening


def test_the_next_connection_goes_to_the_ready_worker_that_has_fewest(
    supervisor: tuple[_Supervisor, list[int], socket.socket],
) -> None:
    made, _, listening = supervisor
    three = [Ends(), Ends(), Ends()]
    made._workers = {place: each.worker for place, each in enumerate(three)}
    for each, ready, connections in zip(three, (True, True, False), (5, 3, 0), strict=True):
        each.worker.ready, each.worker.connections = ready, connections
    made._let_in()  # nobody is there
    with socket.create_connection(listening.getsockname()):
        end = time.monotonic() + 20
        while sum(each.worker.connections for each in three) == 8 and time.monotonic() < end:
            assert made._heed(listening)
    assert [each.worker.connections for each in three] == [5, 4, 0]
    watched = made._watched()
    assert three[0].worker.handover in watched
    assert three[0].worker.said not in watched
    assert three[2].worker.said in watched
    assert three[2].worker.handover not in watched
    three[1].theirs.send(b".")
    assert made._heed(three[1].worker.handover)
    assert three[1].worker.connections == 3
    three[2].says.close()
    assert not made._heed(three[2].worker.said)
    for each in three:
        each.close()


@pytest.mark.parametrize(("age", "replaced"), [(1.9, False), (2.1, True)])
def test_a_worker_that_dies_is_replaced_unless_it_died_at_once(
    supervisor: tuple[_Supervisor, list[int], socket.socket],
    monkeypatch: pytest.MonkeyPatch,
    ends: Ends,
    age: float,
    replaced: bool,
) -> None:
    made, died, _ = supervisor
    started: list[object] = []
    monkeypatch.setattr(made, "_start", lambda: started.append(1))
    clock = SimpleNamespace(monotonic=lambda: ends.worker.since + age)
    monkeypatch.setattr(workers, "time", clock)
    made._workers = {7: ends.worker}
    assert made._heed(7)  # it lives
    assert made._workers
    ends.process.exitcode, ends.process.pid = 1, 99
    assert made._heed(7) is replaced
    assert (died, len(started), made._workers) == ([99], int(replaced), {})


@pytest.mark.parametrize(
    ("codes", "end"),
    [((0, -15), 0), ((0, 3, 4), 3), ((-9,), 9), ((None,), 0)],
)
def test_the_first_failure_is_the_exit_code(
    supervisor: tuple[_Supervisor, list[int], socket.socket],
    codes: tuple[int | None, ...],
    end: int,
) -> None:
    made, _, _ = supervisor
    processes: list[Any] = [SimpleNamespace(process=Joined(code)) for code in codes]
    made._workers = dict(enumerate(processes))
    assert made._end() == end
    assert all(each.process.joined for each in processes)


@pytest.mark.parametrize(("told", "code"), [(False, 1), (True, 0)])
def test_a_worker_that_does_not_start_is_a_failure_unless_all_were_told_to_end(
    supervisor: tuple[_Supervisor, list[int], socket.socket], told: bool, code: int
) -> None:
    made, _, _ = supervisor
    if told:
        made._stop()
    assert made._fail() == code
    assert made._stopping.is_set()
