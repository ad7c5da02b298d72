"""Lines over pipes: what a server's process is given, how it ends, and the proxy's own streams."""

import hashlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rootguard.channels.faults import Code, RequestRefusedError
from rootguard.channels.mcp.jsonrpc import Limits, Message, write
from rootguard.channels.mcp.proxy import links
from rootguard.channels.mcp.proxy.links import ServerCommand, ServerProcess, StandardStreams

SOON = 30.0
"""Seconds for a small program to start, on a busy machine."""

ECHO = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.flush()"
DEAF = "import time; print('{}', flush=True); time.sleep(1000)"
"""Says that it is there, and reads nothing."""
LATE = f"""
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("{{}}", flush=True)
signal.sigwait([signal.SIGUSR1])
{ECHO}
"""
"""Reads nothing before it is told to, then says everything back."""


class Server:
    """A program behind a link, and what is heard of it."""

    def __init__(self, program: str, limits: Limits | None = None, **options: object) -> None:
        self.lines: list[bytes] = []
        self.codes: list[Code] = []
        self._news = threading.Condition()
        command = ServerCommand(words=[sys.executable, "-S", "-E", "-c", program], **options)  # type: ignore[arg-type]
        self.link: ServerProcess = command(self._hear, self._lost, limits or Limits())

    def _hear(self, line: bytes) -> None:
        with self._news:
            self.lines.append(line)
            self._news.notify_all()

    def _lost(self, code: Code) -> None:
        with self._news:
            self.codes.append(code)
            self._news.notify_all()

    def said(self, lines: int) -> list[object]:
        """What it has said, once that is so many lines."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.lines) >= lines, SOON)
            return [json.loads(line) for line in self.lines]

    def ended(self) -> list[Code]:
        """Why it was lost, once it is."""
        with self._news:
            assert self._news.wait_for(lambda: bool(self.codes), SOON)
            return self.codes


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    """Starts a server that is closed after the test."""
    started: list[Server] = []

    def make(program: str, limits: Limits | None = None, **options: object) -> Server:
        started.append(Server(program, limits, **options))
        return started[-1]

    yield make
    for server in started:
        server.link.close(at_once=True)


Start = Callable[..., Server]


def test_a_server_gets_its_own_variables_and_folder_and_none_of_the_vaults(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ROOTGUARD_KEY", "rootguard_store", "PGPASSWORD", "PGUSER", "PGSERVICEFILE"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("HOSPITAL", "north")
    program = "import json, os; print(json.dumps([dict(os.environ), os.getcwd()]))"
    server = start(program, variables={"WARD": "3"}, folder=str(tmp_path))
    said: Any = server.said(1)
    ((variables, folder),) = said
    assert (variables["HOSPITAL"], variables["WARD"]) == ("north", "3")
    assert "secret" not in variables.values()
    assert Path(folder).samefile(tmp_path)
    assert server.ended() == ["upstream_unreachable"]


def test_the_secrets_of_a_command_are_not_shown() -> None:
    assert "secret" not in repr(ServerCommand(words=["a", "secret"], variables={"K": "secret"}))


@pytest.mark.parametrize("words", [["/no/such/program"], ["a\0b"]])
def test_a_command_that_cannot_be_started_is_refused(words: list[str]) -> None:
    with pytest.raises(RequestRefusedError) as refused:
        ServerCommand(words=words)(lambda _: None, lambda _: None, Limits())
    assert refused.value.fault.code == "upstream_unreachable"


def test_a_line_may_be_so_long_and_a_longer_one_ends_the_reading(start: Start) -> None:
    program = "print('1' * 99); print('2' * 100); print('3', flush=True)"
    server = start(program, Limits(from_server=100))
    assert server.ended() == ["unreadable_reply"]
    assert server.lines == [b"1" * 99 + b"\n"]


def test_what_is_sent_comes_whole_and_in_order_however_late_it_is_read(start: Start) -> None:
    """More than a pipe holds: the rest waits here, in front of what is sent later."""
    server = start(LATE)
    server.said(1)
    sent = [{"number": number, "text": "x" * 1000} for number in range(200)]
    for message in sent:
        server.link.send(message)
    os.kill(server.link._process.pid, signal.SIGUSR1)
    assert server.said(201)[1:] == sent
    server.link.send({"number": 200})
    assert server.said(202)[-1] == {"number": 200}


def test_what_a_server_does_not_read_is_held_up_to_a_limit(start: Start) -> None:
    server = start(DEAF, Limits(waiting=100_000))
    server.said(1)
    message = {"text": "x" * 1000}

    def flood() -> None:
        for _ in range(1000):
            server.link.send(message)

    with pytest.raises(BrokenPipeError):
        flood()
    held = len(server.link._waiting)
    assert 100_000 - len(write(message)) < held <= 100_000


def test_a_server_that_ends_by_itself_is_waited_for(start: Start, tmp_path: Path) -> None:
    program = f"{ECHO}\nimport time; time.sleep(0.05); open('ended', 'w').close()"
    server = start(program, folder=str(tmp_path))
    server.link.send({})
    server.said(1)
    server.link.close()
    assert (tmp_path / "ended").exists()
    assert server.ended() == ["upstream_unreachable"]
    with pytest.raises(BrokenPipeError):
        server.link.send({})
    server.link.close()


def test_a_server_that_does_not_end_is_ended_after_a_while(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "_GRACE", 0.05)
    server = start(DEAF)
    server.said(1)
    server.link.close()
    assert server.ended() == ["upstream_unreachable"]


def test_a_server_is_ended_at_once_and_so_are_the_programs_that_it_started(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "_GRACE", 1000.0)  # nobody waits so long
    child = f"import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', {DEAF!r}])"
    server = start(f"{child}; import time; time.sleep(1000)")
    server.said(1)
    server.link.close(at_once=True)
    assert server.ended() == ["upstream_unreachable"]  # nobody holds the other end any more


@contextmanager
def standing_in(number: int, other: int) -> Iterator[None]:
    """A descriptor of this process stands for another one."""
    before = os.dup(number)
    os.dup2(other, number)
    try:
        yield
    finally:
        os.dup2(before, number)
        os.close(before)


class Pipes:
    """Pipes in the place of this process's standard streams."""

    def __init__(self) -> None:
        self.source, self.typed = os.pipe()
        self.shown, self.sink = os.pipe()
        self.errors, self.error = os.pipe()

    def type(self, text: bytes) -> None:
        """What the client sends, to its end."""
        os.write(self.typed, text)
        os.close(self.typed)


@contextmanager
def piped() -> Iterator[Pipes]:
    """No fixture: what captures the output of a test takes the descriptors back in between."""
    made = Pipes()
    with standing_in(0, made.source), standing_in(1, made.sink), standing_in(2, made.error):
        yield made
    for number in (made.source, made.shown, made.sink, made.errors, made.error):
        os.close(number)


def heard_of(text: bytes) -> list[bytes | None]:
    """The lines of up to ten bytes, and the longer ones as none, of what a client sends."""
    heard: list[bytes | None] = []
    with piped() as pipes, StandardStreams(Limits(from_client=10)) as streams:
        pipes.type(text)
        streams.lines(heard.append)
    return heard


def test_lines_are_heard_up_to_a_length_and_those_after_a_longer_one_too() -> None:
    long = b"y" * 10 + b"\n" + b"z" * 100 + b"\n"
    heard = heard_of(b"short\n" + b"x" * 9 + b"\n" + long + b"last\nopen end")
    assert heard == [b"short\n", b"x" * 9 + b"\n", None, None, b"last\n", b"open end"]


def test_a_line_that_is_too_long_and_never_ends_is_heard_of_once() -> None:
    assert heard_of(b"x" * 100) == [None]


def test_what_is_printed_meanwhile_is_no_message_and_nothing_else_reads_them() -> None:
    with piped() as pipes:
        with StandardStreams(Limits()) as streams:
            os.write(1, b"printed")
            read_meanwhile = os.read(0, 10)
            streams.send({"a": 1})
        streams.send({"b": 2})  # nobody reads any more, which is nobody's fault
        os.write(1, b"after")
        pipes.type(b"typed")
        read_after = os.read(0, 10)
        printed, shown = os.read(pipes.errors, 100), os.read(pipes.shown, 100)
    assert (read_meanwhile, read_after) == (b"", b"typed")
    assert printed == b"printed"
    assert shown == write({"a": 1}) + b"after"


def test_a_message_longer_than_a_pipe_holds_is_written_whole() -> None:
    message: Message = {"text": "x" * 300_000}
    expected = write(message)
    got = bytearray()

    def read(source: int) -> None:
        while len(got) < len(expected) and (part := os.read(source, 65536)):
            got.extend(part)

    with piped() as pipes:
        reader = threading.Thread(target=read, args=(pipes.shown,), daemon=True)
        reader.start()
        with StandardStreams(Limits()) as streams:
            streams.send(message)
            reader.join(SOON)
    assert hashlib.sha256(got).digest() == hashlib.sha256(expected).digest()
