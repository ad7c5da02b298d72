"""The gateway under load, against the same gateway with sanitizing off.

Gateway, upstream and callers are processes of their own. 64 callers keep one request each under
way, by connections that stay open. A prompt has 10 KiB and 20 mentions: 12 numbers of roots, 4
declared identifiers, 4 that only a detector finds. Prompts are all different, so nothing is
remembered, except in the conversations, which send ten turns again and again as agents do. The
upstream thinks for the time that a row names, then answers with the beginning of what it was told.
Callers begin one after the other within that time, as people do, unless a row says otherwise.
Throughput is that of the callers together: their number by the mean time of an answer.

The processor time of a request is that of the gateway's process and of those below it, as Linux
counts it. Beside it stands LiteLLM's proxy with no guardrail, where LiteLLM is installed, or in the
environment whose Python ROOTGUARD_LITELLM names.
"""

import asyncio
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from benchmarks.measure import Case, Contender, Row, Skipped, family

CLIENTS = 64
PROMPT = 10 * 1024
TURNS = 10
ROUNDS = 4
ENOUGH = 5.0
"""Seconds after which a scenario begins no further round; it has at least two."""
THINKING_MS = (1000, 250, 0)
"""A short answer of a real service; its first token if it is quick; no time at all."""
WORKERS = os.cpu_count() or 1

_THROUGHPUT = 0.8
_P99 = 1 / 1.5
_HALF_OF_LITELLM = 2.0
_EACH = 2
"""Requests of a caller in a round of which the processor time is taken: 128 together."""
_STARTED = 300.0
"""Seconds for LiteLLM to start: it loads for ten on an idle machine."""
_SEED = 20_260

_PROFILE = """
templates = ["fib4", "homa", "bmi"]
budget = "0.9"
store = "sqlite:///vault.sqlite3"

[identifiers]
name = "Marguerite Oyelaran"
mail = "m.oyelaran@quillmail.example"
record = "KZ-8841730"
"""
_WORDS = (
    *(
        "about",
        "again",
        "answer",
        "appointment",
        "because",
        "before",
        "better",
        "careful",
        "change",
    ),
    *(
        "clearly",
        "consider",
        "different",
        "doctor",
        "during",
        "evening",
        "every",
        "explain",
        "food",
    ),
    *("garden", "general", "gentle", "happen", "however", "kitchen", "letter", "likely", "little"),
    *("morning", "never", "nothing", "often", "other", "perhaps", "question", "rather", "reason"),
    *("remember", "seldom", "several", "simple", "slowly", "something", "sometimes", "steady"),
    *(
        "summary",
        "though",
        "through",
        "together",
        "usual",
        "walking",
        "water",
        "weather",
        "whether",
    ),
)
_ROOTS = (
    "My AST is {:.1f} U/L.",
    "The report says ALT {:.0f} U/L.",
    "Platelets: {:.0f} 10^9/L.",
    "My fasting glucose was {:.1f} mg/dL.",
    "My insulin is {:.1f} uU/mL.",
    "I weigh {:.1f} kg.",
)
_DECLARED = (
    "I am Marguerite Oyelaran.",
    "Write to m.oyelaran@quillmail.example please.",
    "My record is KZ-8841730.",
    "Oyelaran is my family name.",
)
_GIVEN = ("Bartholomew", "Ingrid", "Rashid", "Catalina", "Tobias", "Yolanda", "Piotr", "Meera")
_FAMILY = ("Fitzgerald", "Lindqvist", "Haddad", "Moreno", "Brandt")


def gateway() -> Iterator[Row | Skipped]:
    """Processor time of a request; throughput and p99 latency at each thinking time."""
    rng = random.Random(_SEED)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = stack.enter_context(_process("upstream")).address

        def pair(workers: int) -> tuple[_Server, _Server]:
            profile = folder / f"{workers}.toml"
            profile.write_text(_PROFILE.replace("vault", f"vault-{workers}"), encoding="utf-8")
            made = [
                stack.enter_context(_process(kind, upstream, str(profile), str(workers)))
                for kind in ("guarded", "bare")
            ]
            for server in made:
                asyncio.run(_load(server.address, _prompts(rng, 0, 1)[:8]))  # to warm up
            return made[0], made[1]

        with_one = pair(1)
        yield from _processor_rows(with_one, upstream, folder, rng)
        with_all = pair(WORKERS)
        most = max(THINKING_MS)
        scripts = (_prompts(rng, most, 3) for _ in range(2))
        yield from _rows(_rounds(with_one, scripts, over=most), f"{most} ms, one process")
        for thinking in THINKING_MS:
            scripts = (_prompts(rng, thinking, 3) for _ in range(ROUNDS))
            label = f"{thinking} ms, {WORKERS} processes"
            yield from _rows(_rounds(with_all, scripts, over=thinking), label)
        scripts = (_prompts(rng, most, 2) for _ in range(2))
        yield from _rows(_rounds(with_all, scripts), f"{most} ms, all callers begin at once")
        for thinking in THINKING_MS[:-1]:
            scripts = (_conversations(rng, thinking) for _ in range(2))
            label = f"{thinking} ms, conversations of {TURNS} turns"
            yield from _rows(_rounds(with_all, scripts, over=thinking), label)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Server:
    """Where a server listens, and its process."""

    address: str
    process: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Load:
    """What one round came to: the latency of each request."""

    latencies: Sequence[float] = field(repr=False)

    @property
    def per_request(self) -> float:
        return statistics.mean(self.latencies) / CLIENTS

    @property
    def p99(self) -> float:
        return statistics.quantiles(self.latencies, n=100, method="inclusive")[98]


_Scripts = list[list[bytes]]
"""For each caller, its requests in order."""


def _rounds(
    both: tuple[_Server, _Server], rounds: Iterable[_Scripts], *, over: int = 0
) -> list[tuple[_Load, _Load]]:
    """Both in turns, with the same requests; callers begin within so many milliseconds."""
    made: list[tuple[_Load, _Load]] = []
    began = time.perf_counter()
    for turn, scripts in enumerate(rounds):
        if len(made) > 1 and time.perf_counter() - began > ENOUGH:
            break
        loads = {}
        for server in both if turn % 2 else both[::-1]:
            loads[server] = asyncio.run(_load(server.address, scripts, over=over))
        made.append((loads[both[0]], loads[both[1]]))
    return made


def _rows(made: Sequence[tuple[_Load, _Load]], label: str) -> Iterator[Row]:
    for name, aim, figures in (
        ("requests", _THROUGHPUT, [(own.per_request, other.per_request) for own, other in made]),
        ("p99 latency", _P99, [(own.p99, other.p99) for own, other in made]),
    ):
        yield Row(
            case=Case(
                ours=_contender(f"{name}, {label}"),
                theirs=_contender("the same, sanitizing off"),
                aim=aim,
                rate=name == "requests",
            ),
            ours_seconds=statistics.median(own for own, _ in figures),
            theirs_seconds=statistics.median(other for _, other in figures),
            ratios=tuple(other / own for own, other in figures),
        )


def _processor_rows(
    both: tuple[_Server, _Server], upstream: str, folder: Path, rng: random.Random
) -> Iterator[Row | Skipped]:
    """What a request costs the server's processes, beside LiteLLM's proxy and with nothing done."""
    if not Path("/proc/self/task").is_dir():
        yield Skipped(name="processor time of a server", reason="only Linux says what it was")
        return
    with ExitStack() as stack:
        found = _litellm()
        servers = {"the same, sanitizing off": both[1]}
        if found is None:
            reason = "it is not installed, and ROOTGUARD_LITELLM names no Python that has it"
            yield Skipped(name="LiteLLM's proxy", reason=reason)
        else:
            name = f"LiteLLM {found[1]}, proxy without a guardrail"
            servers[name] = stack.enter_context(_litellm_proxy(found[0], upstream, folder))
            asyncio.run(_load(servers[name].address, _prompts(rng, 0, 1)[:8]))
        spent: dict[str, list[float]] = {name: [] for name in ("", *servers)}
        for turn in range(ROUNDS):
            scripts = _prompts(rng, 0, _EACH)
            sides = [("", both[0]), *servers.items()]
            for name, server in sides if turn % 2 else sides[::-1]:
                before = _processor_time(server.process)
                asyncio.run(_load(server.address, scripts))
                used = _processor_time(server.process) - before
                spent[name].append(used / (len(scripts) * _EACH))
        for name in servers:
            ours, theirs = spent[""], spent[name]
            yield Row(
                case=Case(
                    ours=_contender("a new prompt, processor time of the server"),
                    theirs=_contender(name),
                    aim=_HALF_OF_LITELLM if name.startswith("LiteLLM") else None,
                ),
                ours_seconds=statistics.median(ours),
                theirs_seconds=statistics.median(theirs),
                ratios=tuple(other / own for own, other in zip(ours, theirs, strict=True)),
            )


def _processor_time(process: int) -> float:
    """Seconds that a process and those below it have used, threads that have ended included."""
    ticks = 0
    for each in family(process):
        fields = Path(f"/proc/{each}/stat").read_text("ascii").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])  # in Python and in the system
    return ticks / os.sysconf("SC_CLK_TCK")


def _litellm() -> tuple[str, str] | None:
    """A Python that has LiteLLM's proxy, and the version."""
    named = os.environ.get("ROOTGUARD_LITELLM")
    if named is None and find_spec("litellm") is None:
        return None
    python = named or sys.executable
    code = (
        "from importlib.metadata import version; import fastapi, uvicorn; print(version('litellm'))"
    )
    said = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return (python, said.stdout.strip()) if said.returncode == 0 else None


@contextmanager
def _litellm_proxy(python: str, upstream: str, folder: Path) -> Iterator[_Server]:
    """LiteLLM's proxy as its command starts it, with one worker and what a model needs."""
    models = [
        {
            "model_name": f"{thinking}-ms",
            "litellm_params": {
                "model": f"openai/{thinking}-ms",
                "api_base": f"http://{upstream}/v1",
                "api_key": "none",
            },
        }
        for thinking in THINKING_MS
    ]
    config = folder / "litellm.yaml"  # JSON is YAML
    # It wants a key of its callers unless told otherwise; without one it has less to do.
    general = {"dangerously_permit_weak_or_unset_master_key": True}
    written = json.dumps({"model_list": models, "general_settings": general})
    config.write_text(written, encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = "from litellm import run_server; run_server()"
    options = ("--config", str(config), "--host", "127.0.0.1", "--port", str(port))
    process = subprocess.Popen(
        [python, "-c", code, *options, "--num_workers", "1", "--telemetry", "False"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    )
    try:
        until = time.monotonic() + _STARTED
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError("LiteLLM's proxy did not start") from None
                time.sleep(0.2)
        yield _Server(address=f"127.0.0.1:{port}", process=process.pid)
    finally:
        process.terminate()
        process.wait()


def _contender(name: str) -> Contender:
    return Contender(name=name, call=lambda: None)


def _prompts(rng: random.Random, thinking: int, each: int) -> _Scripts:
    def prompt() -> bytes:
        return _request([{"role": "user", "content": _prompt(rng, PROMPT)}], thinking)

    return [[prompt() for _ in range(each)] for _ in range(CLIENTS)]


def _conversations(rng: random.Random, thinking: int) -> _Scripts:
    """Ten turns that come to 10 KiB, each sent with all before it."""
    scripts = []
    for _ in range(CLIENTS):
        turns = [
            {"role": "user", "content": _prompt(rng, PROMPT // TURNS, mentions=2)}
            for _ in range(TURNS)
        ]
        scripts.append([_request(turns[: turn + 1], thinking) for turn in range(TURNS)])
    return scripts


def _prompt(rng: random.Random, size: int, *, mentions: int = 20) -> str:
    """Prose without numbers, and among it 12 of 20 mentions of roots, 4 declared, 4 to be found."""
    said = []
    for place in range(mentions):
        kind = place % 5
        if kind < 3:
            said.append(rng.choice(_ROOTS).format(rng.uniform(70, 120)))
        elif kind == 3:
            said.append(rng.choice(_DECLARED))
        else:
            given, family = rng.choice(_GIVEN), rng.choice(_FAMILY)
            said.append(f"My doctor is Dr. {given} {family}.")
    rng.shuffle(said)
    room = (size - sum(len(each) + 1 for each in said)) // mentions
    parts = []
    for each in said:
        prose: list[str] = []
        length = 0
        while length < room - 12:
            sentence = " ".join(rng.choices(_WORDS, k=rng.randrange(6, 14))).capitalize() + "."
            sentence = sentence[: room - length - 1].rstrip(" .") + "."
            prose.append(sentence)
            length += len(sentence) + 1
        parts += [*prose, each]
    return " ".join(parts)


def _request(messages: Sequence[dict[str, str]], thinking: int) -> bytes:
    """A request whose model is the time to think."""
    body = json.dumps({"model": f"{thinking}-ms", "messages": messages}).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _load(address: str, scripts: _Scripts, *, over: int = 0) -> _Load:
    """All callers, each one request after the other; they begin within so many milliseconds."""
    host, port = address.split(":")
    latencies: list[float] = []

    async def call(place: int, script: Sequence[bytes]) -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        await asyncio.sleep(over / 1000 * place / len(scripts))
        for request in script:
            began = time.perf_counter()
            writer.write(request)
            await _read_message(reader, expected=b" 200 ")
            latencies.append(time.perf_counter() - began)
        writer.close()

    await asyncio.gather(*(call(place, script) for place, script in enumerate(scripts)))
    return _Load(latencies=latencies)


async def _read_message(reader: asyncio.StreamReader, *, expected: bytes = b"") -> bytes:
    """The body of a request or a reply."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if expected not in head.split(b"\r\n", 1)[0]:
        raise RuntimeError("the gateway refused a prompt")
    _, named, rest = head.partition(b"content-length:")
    return await reader.readexactly(int(rest.split(b"\r\n", 1)[0])) if named else b""


@contextmanager
def _process(*arguments: str) -> Iterator[_Server]:
    """A part of this file in a process of its own, at the address that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.gateway", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"},
    )
    try:
        if process.stdout is None:
            raise RuntimeError("no pipe")
        yield _Server(address=process.stdout.readline().strip(), process=process.pid)
    finally:
        process.terminate()
        process.communicate()


async def _think_and_answer() -> None:
    """An upstream that costs next to nothing: no framework, the time it is told, a short answer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                body = await _read_message(reader)
                if not body:  # LiteLLM asks for the models now and then
                    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                    continue
                request = json.loads(body)
                told = request["messages"][-1]["content"]
                await asyncio.sleep(int(request["model"].removesuffix("-ms")) / 1000)
                message = {"role": "assistant", "content": told[:1000]}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                reply = json.dumps({"id": "c", "object": "chat.completion", "choices": [choice]})
                head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
                writer.write(f"{head}{len(reply)}\r\n\r\n{reply}".encode())
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=512)
    host, port = server.sockets[0].getsockname()
    print(f"{host}:{port}", flush=True)
    await server.serve_forever()


def _serve(kind: Literal["guarded", "bare"], upstream: str, path: str, workers: int) -> None:
    from benchmarks.unguarded import Unguarded
    from rootguard.channels.detection import Rules
    from rootguard.channels.gateway.app import GatewaySettings, build_app
    from rootguard.channels.gateway.channel import PersonChannel
    from rootguard.channels.gateway.workers import run_workers
    from rootguard.channels.http_server import listen, make_server, settle
    from rootguard.session import Person, load_profile
    from rootguard.vault import open_store

    listening = listen("127.0.0.1", 0)

    def serve(ready: Callable[[], None], where: socket.socket) -> None:
        channel: PersonChannel = Unguarded()
        if kind == "guarded":
            profile = load_profile(path)
            person = Person.open(profile, store=open_store(profile.store or ""))
            channel = PersonChannel(person, detectors=(Rules(),))
        settings = GatewaySettings(upstream=f"http://{upstream}/v1", per_minute=10_000_000)
        app = build_app(settings, open_channel=lambda _: channel)
        settle()
        ready()
        make_server(app, handed=workers > 1).run(sockets=[where])

    def announce() -> None:
        print(f"127.0.0.1:{listening.getsockname()[1]}", flush=True)

    if workers == 1:
        serve(announce, listening)
    else:
        run_workers(serve, workers, listening, ready=announce, died=lambda _: None)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["upstream"]:
            asyncio.run(_think_and_answer())
        case ["guarded" | "bare" as kind, upstream, path, workers]:
            _serve("guarded" if kind == "guarded" else "bare", upstream, path, int(workers))
