"""A long mixed load: chats, streams read and dropped, malformed requests. Memory stays flat.

The gateway is a process of its own on an SQLite vault, and its memory is read from the system. It
may grow while it warms up, a quarter of the time. After that a leak of 1 KiB in each request would
show in ten minutes, and in as few seconds as ROOTGUARD_SOAK_SECONDS says a large one.
"""

import itertools
import logging
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.gateway_processes import Started, started
from tests.support.gateways import NAME, PROFILE, SENTINELS, TELLING, Running, leaked, open_person
from tests.support.malformed_requests import malformed, talk
from tests.support.patience import PATIENCE
from tests.support.upstream import Recording, recording_upstream

SECONDS = float(os.environ.get("ROOTGUARD_SOAK_SECONDS", "600"))
MOST_GROWTH = 24 * 1024
"""KiB. Allocators and forty worker threads keep some; a leak has no bound."""

PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
STATUS = Path("/proc/self/status")


def resident(pid: int) -> int:
    """KiB of memory that a process has."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError


def growth(samples: Sequence[int]) -> int:
    """How far the memory of the last quarter of the time lies above that of the second."""
    quarter = len(samples) // 4
    return max(samples[-quarter:]) - max(samples[quarter : 2 * quarter])


def body(path: str, rng: random.Random, *, stream: bool) -> dict[str, Any]:
    """A request that was never made before: other numbers, and more or less around them."""
    text = (
        f"{'So much for that. ' * rng.randrange(60)}{TELLING} AST {rng.uniform(10, 200):.3f} U/L."
    )
    if path == "/v1/responses":
        return {"model": "m", "input": text, "stream": stream}
    told = {"model": "m", "messages": [{"role": "user", "content": text}], "stream": stream}
    return told | ({"max_tokens": 9} if path == "/v1/messages" else {})


class Visitors:
    """Callers of several kinds, each in a thread, until they are told to stop."""

    def __init__(self, gateway: Running) -> None:
        self._gateway = gateway
        self._over = threading.Event()
        self.done: Counter[str] = Counter()
        self.problems: list[str] = []

    @contextmanager
    def calling(self) -> Iterator[None]:
        kinds = (self._chat, self._stream, self._dropped_stream, self._malformed)
        threads = [
            threading.Thread(target=self._repeat, args=(kind, random.Random(seed)))
            for seed, kind in enumerate(kinds)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join(120)
        assert not any(thread.is_alive() for thread in threads)

    def _repeat(
        self, kind: Callable[[httpx2.Client, random.Random], None], rng: random.Random
    ) -> None:
        with httpx2.Client(
            base_url=self._gateway.address, trust_env=False, timeout=PATIENCE
        ) as client:
            while not self._over.is_set() and not self.problems:
                try:
                    kind(client, rng)
                except Exception as problem:  # noqa: BLE001 - the test looks at it
                    self.problems.append(repr(problem))

    def _chat(self, client: httpx2.Client, rng: random.Random) -> None:
        path = rng.choice(PATHS)
        answer = client.post(path, json=body(path, rng, stream=False))
        self._expect("chat", answer.status_code == 200 and NAME in answer.text)

    def _stream(self, client: httpx2.Client, rng: random.Random) -> None:
        path = rng.choice(PATHS)
        with client.stream("POST", path, json=body(path, rng, stream=True)) as answer:
            size = sum(map(len, answer.iter_bytes()))
        self._expect("stream", answer.status_code == 200 and size > len(TELLING))

    def _dropped_stream(self, client: httpx2.Client, rng: random.Random) -> None:
        path = rng.choice(PATHS)
        with client.stream("POST", path, json=body(path, rng, stream=True)) as answer:
            next(answer.iter_bytes())
        self._expect("dropped stream", answer.status_code == 200)

    def _malformed(self, _client: httpx2.Client, rng: random.Random) -> None:
        answer = talk(self._gateway, malformed(rng))
        self._expect("malformed", not answer or answer[9:10] in (b"2", b"4"))
        self._expect("private", not any(each.encode() in answer for each in SENTINELS))

    def _expect(self, what: str, right: bool) -> None:
        self.done[what] += 1
        if not right:
            self.problems.append(what)


def watch(gateway: Started, recording: Recording, seconds: float) -> list[int]:
    """Memory every quarter of a second; what the upstream heard is looked at and forgotten."""
    samples: list[int] = []
    end = time.monotonic() + seconds
    pause = threading.Event()
    for place in itertools.count():
        if time.monotonic() >= end:
            return samples
        samples.append(resident(gateway.pid))
        if place % 20 == 0:
            assert leaked(recording) == []
            recording.reset()
        pause.wait(0.25)
    raise AssertionError


def test_the_measure_of_growth_tells_a_leak_from_a_warm_up() -> None:
    warm = [60_000 + min(place, 400) * 100 for place in range(2400)]
    assert growth(warm) == 0
    assert growth([kib + place * 25 for place, kib in enumerate(warm)]) > MOST_GROWTH


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 240)
@pytest.mark.skipif(not STATUS.exists(), reason="memory is read from /proc")
def test_memory_is_flat_under_a_long_mixed_load(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "asyncio")  # the upstream's complaints of dropped streams
    profile = tmp_path / "me.toml"
    profile.write_text(PROFILE % "owner")
    store = f"sqlite:///{tmp_path / 'vault.sqlite3'}"
    with (
        recording_upstream() as (upstream, recording),
        # Its memory is looked up by its id.
        started(profile, upstream=upstream, store=store, python=[sys.executable]) as gateway,
    ):
        visitors = Visitors(
            Running(address=gateway.address, upstream=recording, person=open_person())
        )
        with visitors.calling():
            samples = watch(gateway, recording, SECONDS)
        page = httpx2.get(f"{gateway.address}/metrics", trust_env=False, timeout=PATIENCE).text
    assert visitors.problems == []
    assert min(visitors.done[kind] for kind in ("chat", "stream", "dropped stream")) > 10
    assert visitors.done["malformed"] > 100
    assert growth(samples) < MOST_GROWTH, (samples[:: max(1, len(samples) // 40)], visitors.done)
    assert "rootguard_requests_under_way 0.0" in page
