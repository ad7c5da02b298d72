"""Who may call, how much and how often; what is counted; and how the gateway stops."""

import hashlib
import json
import logging
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import openai
import pytest
from benchmarks.unguarded import Unguarded
from starlette.applications import Starlette

from rootguard.channels.api_keys import ApiKeys, load_keys
from rootguard.channels.faults import FAULTS, Code, RequestRefusedError
from rootguard.channels.gateway.app import INSPECTING, GatewaySettings, RateLimit, build_app
from rootguard.channels.gateway.channel import OpenedLately, PersonChannel, ReplyAudit
from rootguard.channels.gateway.shapes import MAX_DEPTH, MAX_ITEMS
from rootguard.channels.gateway.telemetry import Tracing
from rootguard.channels.gateway.upstream import (
    Upstream,
    read_reply,
    returned_headers,
    stream_fault,
)
from rootguard.channels.http_server import (
    HEADER_TIMEOUT,
    LimitedProtocol,
    WorkerServer,
    make_server,
)
from rootguard.channels.text.channel import MAX_CHARACTERS
from rootguard.channels.text.edits import Sanitization
from rootguard.errors import FileError
from rootguard.reading.claims import NOTHING, Expectation, Source
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
    with gateway(max_body=1000) as made:
        assert b" 413 " in answer_to(made, _HEAD + b"Content-Length: 1001\r\n\r\n")
        assert made.upstream.everything == b""
    with gateway(max_body=1000, body_timeout=0.2) as made:
        assert b" 408 " in answer_to(made, _HEAD + b"Content-Length: 1000\r\n\r\n")
        assert made.upstream.everything == b""


def test_a_body_without_a_length_is_refused_once_it_is_over_the_limit() -> None:
    """The body has no end, so only what has come of it can be the reason."""
    chunk = b"64\r\n" + b" " * 100 + b"\r\n"
    head = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    with gateway(max_body=1000) as made:
        assert b" 413 " in answer_to(made, head + chunk * 11)
        assert made.upstream.everything == b""
    with gateway(max_body=1000, body_timeout=0.2) as made:
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
    ("method", "path", "code"),
    [
        ("GET", "/", "not_found"),
        ("GET", "/v1/embeddings", "endpoint_refused"),
        ("POST", "/v1/models", "endpoint_refused"),
        ("DELETE", "/v1/chat/completions", "endpoint_refused"),
        ("GET", "/v1/chat/completions/", "endpoint_refused"),
        ("POST", "/metrics", "not_found"),
    ],
)
def test_anything_else_is_a_fixed_404(running: Running, method: str, path: str, code: Code) -> None:
    answer = httpx2.request(method, running.address + path, trust_env=False, timeout=PATIENCE)
    assert fault(answer) == (404, code)
    assert answer.json()["error"]["message"] == FAULTS[code].text


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

    def sanitize(
        self, text: str, *, source: Source, expectation: Expectation = NOTHING
    ) -> Sanitization:
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

    channels = OpenedLately(open_channel, most=2)
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


def test_the_limits_are_those_that_the_documentation_lists() -> None:
    made = GatewaySettings(upstream="http://127.0.0.1:1/v1")
    assert made.max_body == 4_194_304
    assert (made.max_headers, made.max_header_bytes) == (64, 16_384)
    assert (HEADER_TIMEOUT, made.body_timeout) == (15, 30)
    assert (made.per_minute, made.concurrency, made.people, INSPECTING) == (600, 256, 256, 2)
    assert (made.connect_timeout, made.read_timeout, made.total_timeout) == (10, 120, 600)
    assert made.max_reply == 33_554_432
    assert (MAX_DEPTH, MAX_ITEMS, MAX_CHARACTERS) == (48, 20_000, 1_000_000)
    assert not made.allow_media
    assert not made.traced


def test_settings_show_no_key() -> None:
    made = GatewaySettings(upstream="u", upstream_key="sk-one", anthropic_key="sk-two")
    assert "sk-" not in repr(made)


def test_the_server_says_nothing_of_itself_and_believes_no_forwarded_address() -> None:
    config = make_server(Starlette(), shutdown_timeout=7).config
    assert (config.host, config.port, config.http) == ("127.0.0.1", 0, LimitedProtocol)
    assert [config.access_log, config.proxy_headers, config.server_header] == [False] * 3
    assert (config.limit_concurrency, config.backlog) == (1024, 1024)
    assert config.h11_max_incomplete_event_size == 16_384
    assert (config.timeout_keep_alive, config.timeout_graceful_shutdown) == (30, 7)
    assert make_server(Starlette()).config.timeout_graceful_shutdown == 60
    assert not isinstance(make_server(Starlette()), WorkerServer)
    assert isinstance(make_server(Starlette(), handed=True), WorkerServer)


def test_a_worker_that_is_woken_for_nothing_goes_on_listening() -> None:
    server = make_server(Starlette(), handed=True)
    assert isinstance(server, WorkerServer)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        server._take(ours)


def test_a_bucket_holds_a_minutes_requests_and_no_more_after_an_hour() -> None:
    now = [0.0]
    rates = RateLimit(4, clock=lambda: now[0])
    assert [rates.take("a") > 0 for _ in range(5)] == [False] * 4 + [True]
    now[0] = 3600.0
    assert [rates.take("a") > 0 for _ in range(5)] == [False] * 4 + [True]
    now[0] += 7.5
    assert rates.take("a") == pytest.approx(7.5)
    assert rates.take("a") == pytest.approx(7.5)  # being refused costs nothing


class Told(Unguarded):
    """A channel that counts the texts it is asked about."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def unissued(self, text: str) -> Mapping[str, int]:
        self.texts.append(text)
        return {"email": 1}


def test_of_a_reply_so_many_characters_are_audited_and_each_text_once() -> None:
    told = Told()
    audit = ReplyAudit(told)
    assert audit.restore("a" * 65_530) == "a" * 65_530
    pieces = audit.restorer()
    assert (
        pieces.feed("bcd") + pieces.feed("") + pieces.feed("efgh") + pieces.feed("i") == "bcdefghi"
    )
    audit.restore("j")
    assert audit.unissued() == {"email": 2}
    assert told.texts == ["a" * 65_530, "bcdefg"]
    assert audit.unissued() == {}


def test_an_unissued_identifier_beside_an_issued_one_is_counted_and_one_across_is_not() -> None:
    person = open_person()
    channel = channel_of(person)
    token = str(person.release("mail"))
    assert channel.unissued(f"write to {token}") == {}
    assert channel.unissued(f"write to {token} or to x@y.example") == {"email": 1}


def test_a_label_is_asked_for_once_if_it_is_public_and_every_time_if_it_is_not() -> None:
    person = open_person()
    channel = channel_of(person)
    asked: list[str] = []

    class Declaring:
        def declared(self, text: str) -> bool:
            asked.append(text)
            return text == NAME

    channel._person = Declaring()  # type: ignore[assignment]
    assert [channel.is_private(label) for label in ("m", "m", NAME, NAME)] == [
        False,
        False,
        True,
        True,
    ]
    assert asked == ["m", NAME, NAME]
    for place in range(4096):
        channel.is_private(str(place))
    asked.clear()
    channel.is_private("4094")
    assert asked == []
    channel.is_private("4095")
    assert asked == ["4095"]


def upstream(*, key: str | None = None, passes_key: bool = True, base: str = "") -> Upstream:
    base = base or "http://user@model.example:8/v1/"
    times = {"connect_timeout": 1.0, "read_timeout": 2.0}
    return Upstream(base, key=key, passes_key=passes_key, connections=3, **times)


@pytest.mark.parametrize(
    ("key", "passes", "given", "sent"),
    [
        (None, True, {"authorization": "Bearer a"}, {"authorization": "Bearer a"}),
        (None, True, {"x-api-key": "a"}, {"x-api-key": "a"}),
        (None, False, {"authorization": "Bearer a", "x-api-key": "a"}, {}),
        ("b", True, {}, {"authorization": "Bearer b"}),
        ("b", False, {"x-api-key": "a"}, {"x-api-key": "b"}),
        ("b", True, {"x-api-key": "a", "authorization": "c"}, {"authorization": "Bearer b"}),
    ],
)
def test_the_upstream_gets_its_own_key_or_the_callers_where_there_are_no_keys(
    key: str | None, passes: bool, given: dict[str, str], sent: dict[str, str]
) -> None:
    made = upstream(key=key, passes_key=passes)
    always = {"content-type": "application/json", "user-agent": "rootguard-gateway"}
    whole = made.headers({**given, "openai-beta": "x", "cookie": "y"}, stream=False)
    assert whole == {**always, **sent, "openai-beta": "x", "accept": "application/json"}
    assert made.headers(given, stream=True)["accept"] == "text/event-stream"
    assert made.name == "model.example:8"


def test_of_the_upstreams_headers_only_known_ones_come_back() -> None:
    kept = {
        "openai-processing-ms": "1",
        "openai-version": "1",
        "request-id": "1",
        "retry-after": "1",
        "retry-after-ms": "1",
        "x-request-id": "1",
        "x-should-retry": "1",
        "x-ratelimit-limit-tokens": "1",
        "anthropic-ratelimit-tokens-reset": "1",
    }
    other = {"set-cookie": "a=b", "server": "x", "x-note": "1"}
    response = httpx2.Response(200, headers={**kept, **other})
    assert returned_headers(response) == kept
    strange = httpx2.Response(200, headers={b"x-request-id": b"\xe9"})
    assert returned_headers(strange) == {}


@pytest.mark.parametrize(("size", "fits"), [(10, True), (11, False)])
def test_a_reply_is_read_up_to_its_limit(size: int, fits: bool) -> None:
    async def read() -> bytes:
        return await read_reply(httpx2.Response(200, content=b"x" * size), 10)

    if fits:
        assert anyio.run(read) == b"x" * size
    else:
        with pytest.raises(RequestRefusedError) as caught:
            anyio.run(read)
        assert caught.value.fault.code == "unreadable_reply"


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (TimeoutError(), "upstream_timeout"),
        (httpx2.ReadTimeout("x"), "upstream_timeout"),
        (httpx2.ReadError("x"), "upstream_unreachable"),
        (httpx2.StreamError("x"), "upstream_unreachable"),
        (RequestRefusedError("unreadable_reply"), "unreadable_reply"),
        (ValueError("x"), "internal"),
    ],
)
def test_a_stream_that_breaks_off_says_why(problem: Exception, code: str) -> None:
    assert stream_fault(problem).code == code


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (httpx2.ConnectTimeout("x"), "upstream_timeout"),
        (httpx2.ConnectError("x"), "upstream_unreachable"),
        (httpx2.InvalidURL("x"), "upstream_unreachable"),
        (httpx2.StreamError("x"), "upstream_unreachable"),
    ],
)
def test_an_upstream_that_cannot_be_reached_is_a_fault(problem: Exception, code: str) -> None:
    made = upstream()

    async def send() -> None:
        async with made.send("GET", "/models", headers={}, query={}):
            raise problem

    class Answering(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            assert str(request.url) == "http://user@model.example:8/v1/models"
            return httpx2.Response(302, headers={"location": "http://other.example/"})

    made._client._transport = Answering()
    with pytest.raises(RequestRefusedError) as caught:
        anyio.run(send)
    assert caught.value.fault.code == code


def test_nothing_is_kept_of_a_client_and_few_connections_of_an_upstream() -> None:
    client = upstream()._client
    assert (client.timeout.connect, client.timeout.read) == (1, 2)
    assert not client.follow_redirects
    assert not client.trust_env


@pytest.mark.parametrize(
    ("content", "key", "problem"),
    [
        (None, "", "cannot be read"),
        ("[", "", "is not TOML"),
        ("keys = 3", "keys", "is missing, empty or not alone"),
        ("[keys]\n[more]", "keys", "is missing, empty or not alone"),
        (f'[keys]\n"{"0" * 64}" = "a"\n"{"1" * 63}" = "b"', "keys, entry 2", "is not a digest"),
        (f'[keys]\n"{"0" * 64}" = ""', "keys, entry 1", "is not a digest"),
        (f'[keys]\n"{"0" * 64}" = 3', "keys, entry 1", "is not a digest"),
    ],
)
def test_the_owner_of_a_wrong_file_of_keys_is_told_where_it_is_wrong(
    tmp_path: Path, content: str | None, key: str, problem: str
) -> None:
    file = tmp_path / "keys.toml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(FileError) as caught:
        load_keys(file)
    assert key in str(caught.value)
    assert problem in str(caught.value)


def test_keys_show_how_many_they_are_and_take_any_bytes() -> None:
    two = keys(a="a.toml", b="b.toml")
    assert (len(two), repr(two)) == (2, "<2 keys>")
    assert two.profile("\udcff") is None
