"""`/healthz`, `/readyz` and `--drain`: what a load balancer and a supervisor look at."""

import os
import signal
import threading
from pathlib import Path

import httpx2
import openai
import pytest

from rootguard.channels.gateway.app import GatewaySettings, Readiness, build_app
from rootguard.channels.http_server import make_server
from rootguard.errors import StoreError
from tests.support.gateway_processes import Started, started
from tests.support.gateways import PROFILE, TELLING, channel_of, leaked, open_person
from tests.support.patience import PATIENCE
from tests.support.upstream import Recording, recording_upstream, serving


def asked(address: str, path: str) -> tuple[int, str]:
    made = httpx2.get(f"{address}{path}", trust_env=False, timeout=PATIENCE)
    return made.status_code, made.json()["status"]


def test_readiness_tells_of_a_vault_that_is_away_and_health_does_not() -> None:
    away = threading.Event()

    def readiness() -> Readiness:
        if away.is_set():
            raise StoreError("the database at db.example does not answer")
        return "ready"

    channel = channel_of(open_person())
    settings = GatewaySettings(upstream="http://127.0.0.1:1/v1")
    app = build_app(settings, open_channel=lambda _: channel, readiness=readiness)
    with serving(make_server(app, shutdown_timeout=20)) as address:
        assert asked(address, "/readyz") == (200, "ready")
        away.set()
        assert asked(address, "/readyz") == (503, "vault unavailable")
        assert asked(address, "/healthz") == (200, "ok")


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    file = tmp_path / "me.toml"
    file.write_text(PROFILE % "owner")
    return file


def say(gateway: Started, recording: Recording) -> None:
    before = len(recording.bodies)
    with openai.OpenAI(base_url=gateway.base, api_key="sk-test", max_retries=0) as client:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": TELLING}])
    assert len(recording.bodies) == before + 1


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_gateway_that_drains_is_not_ready_and_still_answers(
    profile: Path, tmp_path: Path, workers: str
) -> None:
    store = f"sqlite:///{tmp_path / 'vault.sqlite3'}"
    options = ("--drain", "600", "--workers", workers)
    with (
        recording_upstream() as (upstream, recording),
        started(profile, upstream=upstream, store=store, options=options) as gateway,
    ):
        assert asked(gateway.address, "/readyz") == (200, "ready")
        os.kill(gateway.pid, signal.SIGTERM)
        pause = threading.Event()
        while asked(gateway.address, "/readyz") != (503, "draining"):
            pause.wait(0.05)  # the signal is on its way; the test's own time limit ends this
        assert asked(gateway.address, "/healthz") == (200, "ok")
        say(gateway, recording)
        assert leaked(recording) == []
        # A second signal, which `started` sends, ends it at once.


def test_a_stream_under_way_is_finished_after_the_drain(profile: Path, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'vault.sqlite3'}"
    with (
        recording_upstream() as (upstream, recording),
        started(profile, upstream=upstream, store=store, options=("--drain", "0.1")) as gateway,
        openai.OpenAI(base_url=gateway.base, api_key="sk-test", max_retries=0) as client,
    ):
        recording.says = lambda _heard: "one two three four five six seven"
        recording.stop_after = 2
        stream = client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "count"}], stream=True
        )
        assert recording.paused.wait(PATIENCE)
        os.kill(gateway.pid, signal.SIGTERM)
        pause = threading.Event()
        while not _closed(gateway.address):
            pause.wait(0.05)
        recording.go_on.set()
        said = "".join(each.choices[0].delta.content or "" for each in stream if each.choices)
        assert said == "one two three four five six seven"


def _closed(address: str) -> bool:
    try:
        httpx2.get(f"{address}/healthz", trust_env=False, timeout=PATIENCE)
    except httpx2.HTTPError:
        return True
    return False
