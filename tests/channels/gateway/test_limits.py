"""Who may call, how much and how often; what is counted; and how the gateway stops."""

import hashlib
import json
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from benchmarks.unguarded import Unguarded

from rootguard.channels.api_keys import ApiKeys, load_keys
from rootguard.channels.faults import FAULTS
from rootguard.channels.gateway.app import GatewaySettings, RateLimit, build_app
from rootguard.channels.gateway.channel import ChannelCache, PersonChannel
from rootguard.channels.gateway.telemetry import Tracing
from rootguard.channels.http_server import LimitedProtocol, make_server
from rootguard.channels.text.edits import Sanitization
from rootguard.errors import FileError
from rootguard.vault import open_store
from tests.support.gateways import (
    EMAIL,
    NAME,
    SENTINELS,
    TELLING,
    Running,
    channel_of,
    gateway,
    in_thread,
    leaked,
    open_person,
)
from tests.support.patience import PATIENCE
from tests.support.upstream import by, recording_upstream, serving

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": TELLING}]}


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def keys(**of: str) -> ApiKeys:
    return ApiKeys(profiles={bytes.fromhex(digest(key)): profile for key, profile in of.items()})


def ask(
    running: Running, body: object = CHAT, *, headers: dict[str, str] | None = None
) -> httpx2.Response:
    url = f"{running.base}/chat/completions"
    return httpx2.post(url, json=body, trust_env=False, headers=headers, timeout=PATIENCE)


def counts(running: Running) -> dict[str, float]:
    """What is counted once no request is under way any more."""
    while True:
        page = httpx2.get(f"{running.address}/metrics", trust_env=False, timeout=PATIENCE).text
        lines = (line.rsplit(" ", 1) for line in page.splitlines() if line[:1] != "#")
        found = {name: float(number) for name, number in lines}
        if found["rootguard_requests_under_way"] == 0:
            assert not [each for each in (*SENTINELS, "owner") if each in page]
            return found


def fault(response: httpx2.Response) -> tuple[int, str]:
    body = response.json()
    return response.status_code, body["error"]["code"]


class Spans:
    """Takes the place of OpenTelemetry's tracer and keeps what it is told."""

    def __init__(self) -> None:
        self.told: dict[str, object] = {}

    @contextmanager
    def start_as_current_span(self, name: str, **options: object) -> Iterator["Spans"]:
        self.told |= {"name": name, **options}
        yield self

    def set_attribute(self, name: str, value: object) -> None:
        self.told[name] = value


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with gateway() as made:
        yield made


def test_a_wrong_key_and_no_key_get_the_same_answer_and_the_upstream_never_sees_ours() -> None:
    with gateway(keys=keys(alpha="a.toml"), upstream_key="sk-upstream") as made:
        answers = [
            ask(made, headers=headers)
            for headers in (
                {},
                {"authorization": "Bearer nobody"},
                {"authorization": "Basic alpha"},
                {"x-api-key": "alph"},
            )
        ]
        assert {(answer.status_code, answer.text) for answer in answers} == {(401, answers[0].text)}
        assert fault(answers[0]) == (401, "unauthorized")
        assert made.upstream.everything == b""
        for headers in ({"authorization": "Bearer alpha"}, {"x-api-key": "alpha"}):
            assert ask(made, headers=headers).status_code == 200
        assert b"alpha" not in made.upstream.everything
        assert [h.get("authorization") for h in made.upstream.headers] == [
            "Bearer sk-upstream",
            None,
        ]
        assert made.upstream.headers[1]["x-api-key"] == "sk-upstream"


def test_two_people_on_one_store_get_their_own_values_and_never_each_others_names() -> None:
    store = open_store("memory:")
    people = {name: open_person(name, store=store) for name in ("one.toml", "two.toml")}

    def open_channel(profile: str) -> PersonChannel:
        return channel_of(people[profile])

    both = keys(one="one.toml", two="two.toml")
    with gateway(keys=both, open_channel=open_channel) as made:
        tokens = {}
        for key in ("one", "two"):
            answer = ask(made, headers={"x-api-key": key})
            assert NAME in answer.json()["choices"][0]["message"]["content"]
            tokens[key] = people[f"{key}.toml"].release("name")
        assert tokens["one"] != tokens["two"]
        assert leaked(made.upstream) == []
        # The other's token is a stranger here: it stays.
        made.upstream.says = lambda _heard: f"{tokens['two']}"
        said = ask(made, headers={"x-api-key": "one"}).json()["choices"][0]["message"]["content"]
        assert said == tokens["two"]


def test_every_key_is_compared_however_early_one_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    def compare(known: bytes, given: bytes) -> bool:
        compared.append(known)
        return known == given

    monkeypatch.setattr("rootguard.channels.api_keys.hmac.compare_digest", compare)
    three = keys(a="a.toml", b="b.toml", c="c.toml")
    assert three.profile("a") == "a.toml"
    assert three.profile("nobody") is None
    assert len(compared) == 6


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[keys]",
        "keys = 3",
        '[keys]\nsecret = "a.toml"',
        '[keys]\n"' + "g" * 64 + '" = "a"',
        "[",
    ],
)
def test_a_wrong_file_of_keys_is_refused_without_quoting_it(tmp_path: Path, content: str) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(content)
    with pytest.raises(FileError) as caught:
        load_keys(file)
    assert "secret" not in str(caught.value)


def test_keys_are_read_from_their_file_with_profiles_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(f'[keys]\n"{digest("alpha")}" = "alpha.toml"\n')
    assert load_keys(file).profile("alpha") == str(tmp_path / "alpha.toml")
    assert digest("alpha") not in repr(load_keys(file))


def test_a_bucket_empties_and_refills_for_each_caller_alone() -> None:
    now = [0.0]
    rates = RateLimit(3, clock=lambda: now[0])
    assert [rates.take("a") for _ in range(3)] == [0, 0, 0]
    assert rates.take("a") == pytest.approx(20)
    assert rates.take("b") == 0
    now[0] = 20.0
    assert rates.take("a") == 0
    assert rates.take("a") > 0


def test_too_many_requests_are_refused_with_a_time_to_wait() -> None:
    with gateway(per_minute=2) as made:
        answers = [ask(made) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert fault(answers[2]) == (429, "rate_limited")
        assert int(answers[2].headers["retry-after"]) >= 1


def test_without_keys_only_a_loopback_name_is_served(running: Running) -> None:
    for host in ("evil.example", "evil.example:8791", "127.0.0.1.evil.example", ""):
        assert fault(ask(running, headers={"host": host})) == (421, "host_refused")
    for host in ("localhost", "LOCALHOST:1", "[::1]:80", "127.0.0.1"):
        assert ask(running, headers={"host": host}).status_code == 200


def test_a_web_page_cannot_post_in_a_simple_request(running: Running) -> None:
    url = f"{running.base}/chat/completions"
    answer = httpx2.post(
        url,
        content=json.dumps(CHAT),
        headers={"content-type": "text/plain"},
        trust_env=False,
        timeout=PATIENCE,
    )
    assert fault(answer) == (415, "unsupported_body")


def test_floods_of_headers_and_large_bodies_are_refused(running: Running) -> None:
    many = {f"x-{place}": "1" for place in range(100)}
    assert fault(ask(running, headers=many)) == (431, "headers_too_large")
    with gateway(max_body=1000) as made:
        large = {"model": "m", "messages": [{"role": "user", "content": "x" * 2000}]}
        assert fault(ask(made, large)) == (413, "too_large")
        assert made.upstream.everything == b""


def answer_to(running: Running, sent: bytes) -> bytes:
    """What the gateway says to a request that is not finished, and goes no further."""
    host, port = running.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(sent)
        said = b""
        while b"\r\n\r\n" not in said:
            part = connection.recv(4096)
            assert part, said
            said += part
        return said


_HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
)


def test_a_length_over_the_limit_is_refused_before_anything_is_read() -> None:
    """Nothing of the body is sent, so only the length that is named can be the reason."""
    with gateway(max_body=1000, body_timeout=1) as made:
        assert b" 413 " in answer_to(made, _HEAD + b"Content-Length: 1001\r\n\r\n")
        assert b" 408 " in answer_to(made, _HEAD + b"Content-Length: 1000\r\n\r\n")
        assert made.upstream.everything == b""


def test_a_body_without_a_length_is_refused_once_it_is_over_the_limit() -> None:
    """The body has no end, so only what has come of it can be the reason."""
    chunk = b"64\r\n" + b" " * 100 + b"\r\n"
    with gateway(max_body=1000, body_timeout=1) as made:
        head = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
        assert b" 413 " in answer_to(made, head + chunk * 11)
        assert b" 408 " in answer_to(made, head + chunk * 10)
        assert made.upstream.everything == b""


def test_another_sites_page_is_not_allowed_to_send_json(running: Running) -> None:
    """A browser asks first, and sends nothing unless the answer allows it."""
    answer = httpx2.options(
        f"{running.base}/chat/completions",
        headers={
            "origin": "http://attacker.example",
            "access-control-request-method": "POST",
            "access-control-request-headers": "content-type",
        },
        trust_env=False,
        timeout=60,
    )
    assert not answer.is_success
    assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_only_some_headers_and_no_cookies_reach_the_upstream(running: Running) -> None:
    running.upstream.reset()
    sent = {"cookie": "c=1", "x-forwarded-for": "10.0.0.1", "x-note": NAME, "referer": "http://x"}
    answer = ask(running, headers={**sent, "openai-organization": "org-1"})
    assert "set-cookie" not in answer.headers
    assert ask(running).status_code == 200
    for headers in running.upstream.headers:
        assert not {*sent} & {*headers}
    assert running.upstream.headers[0]["openai-organization"] == "org-1"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/v1/files"),
        ("POST", "/v1/embeddings"),
        ("POST", "/v1/models"),
        ("DELETE", "/v1/chat/completions"),
        ("GET", "/v1/chat/completions/"),
        ("POST", "/metrics"),
    ],
)
def test_anything_else_is_a_fixed_404(running: Running, method: str, path: str) -> None:
    answer = httpx2.request(method, running.address + path, trust_env=False, timeout=PATIENCE)
    assert fault(answer) == (404, "not_found")
    assert answer.json()["error"]["message"] == FAULTS["not_found"].text


def test_private_things_in_ids_paths_and_queries_are_refused(running: Running) -> None:
    running.upstream.reset()
    for path in (f"/models/{EMAIL}", "/models/a?limit=1&x=2", "/models?after_id=a%20b"):
        answer = httpx2.get(running.base + path, trust_env=False, timeout=PATIENCE)
        assert answer.status_code == 400
    assert fault(ask(running, {**CHAT, "model": EMAIL})) == (400, "private_id")
    assert fault(ask(running, headers={"openai-project": NAME})) == (400, "private_id")
    assert fault(ask(running, headers={"anthropic-beta": "a;b"})) == (400, "bad_value")
    assert running.upstream.everything == b""


def test_the_metrics_count_replacements_refusals_and_strangers_and_hold_no_value() -> None:
    with gateway() as made:
        token = str(made.person.release("record"))
        forged = token[:-1] + str((int(token[-1]) + 1) % 10)
        made.upstream.says = lambda _heard: f"record {token}, record {forged}, write to x@y.example"
        said = ask(made).json()["choices"][0]["message"]["content"]
        assert forged in said
        assert token not in said
        ask(made, {"model": "m", "messages": [], "surprise": 1})
        found = counts(made)
        assert httpx2.get(f"{made.address}/healthz", trust_env=False, timeout=PATIENCE).json() == {
            "status": "ok"
        }
    chat = 'route="/v1/chat/completions"'
    assert found[f'rootguard_replacements_total{{kind="root",{chat}}}'] == 1
    assert found[f'rootguard_replacements_total{{kind="declared",{chat}}}'] >= 3
    assert found['rootguard_refusals_total{code="unknown_field"}'] == 1
    assert found['rootguard_unissued_tokens_total{kind="email"}'] == 1
    assert found['rootguard_unissued_tokens_total{kind="code"}'] == 1
    assert found[f'rootguard_requests_total{{{chat},status="200"}}'] == 1


class Broken(Unguarded):
    """A channel that fails with a private word in its message."""

    def sanitize(self, text: str) -> Sanitization:
        raise RuntimeError(text)


def test_an_unexpected_error_is_a_fixed_500_and_only_its_class_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG), gateway(open_channel=lambda _profile: Broken()) as made:
        answer = ask(made)
    assert fault(answer) == (500, "internal")
    assert "unexpected RuntimeError" in caplog.text
    assert not [each for each in SENTINELS if each in caplog.text + answer.text]


def test_a_reply_that_does_not_come_in_time_is_a_504() -> None:
    with gateway(read_timeout=0.2) as made:
        made.upstream.stop_after = 0
        answer = ask(made, {**CHAT, "stream": True})
        made.upstream.go_on.set()
        assert FAULTS["upstream_timeout"].text in answer.text


def test_more_requests_than_allowed_at_once_are_refused() -> None:
    with gateway(concurrency=1) as made:
        made.upstream.stop_after = 2
        thread, results = in_thread(lambda: ask(made, {**CHAT, "stream": True}).status_code)
        assert made.upstream.paused.wait(PATIENCE)
        assert fault(ask(made)) == (503, "busy")
        made.upstream.go_on.set()
        thread.join(PATIENCE)
        assert results == [200]


def test_shutting_down_finishes_the_streams_that_run() -> None:
    person = open_person()
    with recording_upstream() as (base, recording):
        app = build_app(GatewaySettings(upstream=base), open_channel=lambda _: channel_of(person))
        server = make_server(app)
        recording.stop_after = 4
        recording.cut = by(5)
        with serving(server) as address:
            url = f"{address}/v1/chat/completions"
            body = {**CHAT, "stream": True}
            thread, results = in_thread(
                lambda: httpx2.post(url, json=body, trust_env=False, timeout=PATIENCE).text
            )
            assert recording.paused.wait(PATIENCE)
            server.should_exit = True
            recording.go_on.set()
            thread.join(PATIENCE)
    assert "[DONE]" in str(results[0])


def test_a_connection_that_never_finishes_its_headers_is_closed(
    monkeypatch: pytest.MonkeyPatch, running: Running
) -> None:
    monkeypatch.setattr(LimitedProtocol, "header_timeout", 0.2)
    host, port = running.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as half:
        half.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: local")
        assert half.recv(100) == b""


def test_people_who_called_least_lately_make_room() -> None:
    opened: list[str] = []

    def open_channel(profile: str) -> PersonChannel:
        opened.append(profile)
        return Unguarded()

    channels = ChannelCache(open_channel, most=2)
    for profile in ("a", "b", "a", "c", "a", "b"):
        channels.of(profile)
    assert opened == ["a", "b", "c", "b"]


def test_spans_carry_metadata_only(monkeypatch: pytest.MonkeyPatch) -> None:
    spans = Spans()
    monkeypatch.setattr("opentelemetry.trace.get_tracer", lambda _name: spans)
    with gateway(traced=True) as made:
        assert ask(made).status_code == 200
        counts(made)
    assert spans.told.pop("rootguard.replacements") == 6
    assert spans.told == {
        "name": "rootguard.request",
        "record_exception": False,
        "set_status_on_exception": False,
        "http.route": "/v1/chat/completions",
        "http.response.status_code": 200,
        "rootguard.streamed": False,
    }
    with Tracing(enabled=False).span("/v1/messages") as outcome:
        outcome.status = 200


def test_a_stored_profile_that_cannot_be_opened_is_told_without_its_content() -> None:
    def open_channel(_profile: str) -> PersonChannel:
        raise FileError("me.toml", "values.age", NAME, "correct it")

    with (
        gateway(open_channel=open_channel) as made,
        openai.OpenAI(base_url=made.base, api_key="k") as client,
    ):
        with pytest.raises(openai.InternalServerError) as caught:
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
        assert caught.value.code == "wrong_configuration"
        assert NAME not in str(caught.value)
