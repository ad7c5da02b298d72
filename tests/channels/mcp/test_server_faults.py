"""What goes wrong at `rootguard mcp serve`: the client gets a proper error, and nothing leaks."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from click.testing import CliRunner
from mcp import Client
from mcp.shared.exceptions import MCPError
from starlette.types import Message, Receive, Scope, Send

from rootguard.channels.mcp.server import _Answers, build_server, http_app
from rootguard.channels.mcp.transport import MAX_MESSAGE, RequestFilter
from rootguard.cli.main import cli
from rootguard.errors import StoreUnavailableError
from rootguard.events import RequestRefused
from rootguard.session import Person, load_profile
from rootguard.vault import open_store
from tests.support.canary import NAME, SENTINELS, leaks
from tests.support.mcp_clients import (
    Mode,
    Recorder,
    environment,
    http_server,
    over_http,
    serve_command,
    write_profile,
)
from tests.support.patience import PATIENCE

SENTINEL = str(SENTINELS["ast"])
KEY = "correct horse battery staple"
MALFORMED: dict[str, bytes] = {
    "not JSON": f'{{"ast": {SENTINEL}'.encode(),
    "a number": SENTINEL.encode(),
    "a batch": f'[{{"jsonrpc": "2.0", "id": 1, "method": "{NAME}"}}]'.encode(),
    "no method": f'{{"jsonrpc": "2.0", "id": 7, "params": {{"ast": {SENTINEL}}}}}'.encode(),
    "another version": f'{{"jsonrpc": "1.0", "id": 7, "method": "{SENTINEL}"}}'.encode(),
    "nested deeply": b"[" * 100_000,
    "not UTF-8": b'{"jsonrpc": "2.0", "id": "\xff\xfe", "method": 1}',
    "too large": b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": "'
    + SENTINEL.encode() * (MAX_MESSAGE // 10)
    + b'"}}',
}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": "first",
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    return write_profile(tmp_path)


def test_malformed_and_oversized_lines_are_answered_and_the_server_lives(profile: Path) -> None:
    lines = [json.dumps(INITIALIZE).encode(), *MALFORMED.values(), b"", b"   "]
    last = {"jsonrpc": "2.0", "id": 99, "method": "tools/list"}
    errors = profile.with_name("errors")
    with (
        errors.open("wb") as sink,
        subprocess.Popen(
            serve_command(profile),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=sink,
            env=environment(),
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n".join([*lines, json.dumps(last).encode(), b""]))
        process.stdin.flush()
        replies: dict[object, dict[str, Any]] = {}
        codes: list[int] = []
        while 99 not in replies:
            line = process.stdout.readline()
            assert not leaks(line.decode())
            reply = json.loads(line)
            replies[reply["id"]] = reply
            codes += [reply["error"]["code"]] if "error" in reply else []
        process.stdin.close()
        assert process.wait(timeout=PATIENCE) == 0
    assert len(replies[99]["result"]["tools"]) == 5
    assert "result" in replies["first"]
    assert replies[7]["error"]["code"] == types.INVALID_REQUEST
    assert len(codes) == len(MALFORMED)
    assert set(codes) == {types.PARSE_ERROR, types.INVALID_REQUEST}
    assert errors.read_bytes() == b""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server on HTTP that wants a key."""
    profile = write_profile(tmp_path_factory.mktemp("http"))
    command = serve_command(profile, "--http", "127.0.0.1:0", "--key-env", "MCP_KEY")
    with http_server(command, variables={"MCP_KEY": KEY}) as served:
        yield served


def _post(address: str, body: bytes, **headers: str) -> httpx2.Response:
    return httpx2.post(
        address,
        content=body,
        timeout=PATIENCE,
        headers={
            "Authorization": f"Bearer {KEY}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        },
    )


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28", SENTINEL])
@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_and_oversized_bodies_are_answered(address: str, case: str, version: str) -> None:
    reply = _post(address, MALFORMED[case], MCP_Protocol_Version=version)
    assert reply.status_code == (413 if case == "too large" else 400)
    assert reply.json()["error"]["code"] in {types.PARSE_ERROR, types.INVALID_REQUEST}
    assert not leaks(reply.text + repr(reply.headers))


def test_a_request_of_either_revision_with_bad_parameters_is_answered_without_an_echo(
    address: str,
) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": [SENTINEL]}}
    for version in ("2025-11-25", "2026-07-28"):
        reply = _post(
            address,
            json.dumps(call).encode(),
            MCP_Protocol_Version=version,
            MCP_Method="tools/call",
        )
        assert "error" in reply.json()
        assert not leaks(reply.text)


@pytest.mark.parametrize(("length", "status"), [(10, 400), (11, 413)])
def test_a_body_in_pieces_is_counted_before_the_sdk_sees_it(length: int, status: int) -> None:
    """The SDK has a limit of its own, which is not asked here: nothing reaches it."""
    pieces = [b"]", b" " * (length - 2), b"["]
    told: list[Message] = []

    async def sdk(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise AssertionError("reached")

    async def receive() -> Message:
        return {"type": "http.request", "body": pieces.pop(), "more_body": bool(pieces)}

    async def send(message: Message) -> None:
        told.append(message)

    filtered = RequestFilter(sdk, max_message=10)
    anyio.run(filtered, {"type": "http", "method": "POST", "headers": []}, receive, send)
    assert told[0]["status"] == status


def test_the_key_is_needed_and_compared_whole(address: str) -> None:
    body = json.dumps(INITIALIZE).encode()
    assert _post(address, body).status_code == 200
    for wrong in ("", "Bearer", f"Bearer {KEY[:-1]}", f"Basic {KEY}", KEY):
        reply = _post(address, body, Authorization=wrong)
        assert reply.status_code == 401
        assert reply.headers["www-authenticate"] == "Bearer"

    async def listed(client: Client) -> int:
        return len((await client.list_tools()).tools)

    assert over_http(address, Recorder(), "auto", listed, key=KEY) == 5


def test_a_web_page_or_another_host_name_gets_nothing(address: str) -> None:
    body = json.dumps(INITIALIZE).encode()
    assert _post(address, body, Host="evil.example").status_code == 421
    assert _post(address, body, Origin="http://evil.example").status_code == 403
    assert _post(address, body, Origin="http://localhost:3000").status_code == 200
    assert _post(address, body, Content_Type="text/plain").status_code == 400
    assert _post(address.replace("/mcp", "/other"), body).status_code == 404


def test_no_session_is_kept_by_the_transport_and_nothing_comes_unasked(address: str) -> None:
    key = {"Authorization": f"Bearer {KEY}"}
    assert httpx2.get(address, headers=key, timeout=PATIENCE).status_code == 405
    assert httpx2.delete(address, headers=key, timeout=PATIENCE).status_code == 405
    assert httpx2.get(address, timeout=PATIENCE).status_code == 401
    assert "mcp-session-id" not in _post(address, json.dumps(INITIALIZE).encode()).headers


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--http", "0.0.0.0:8792"], "without a key"),
        (["--http", "[::]:8792"], "without a key"),
        (["--http", "example.com:8792"], "without a key"),
        (["--http", "8792"], "HOST:PORT"),
        (["--http", "127.0.0.1:99999"], "HOST:PORT"),
        (["--http", "127.0.0.1:0", "--key-env", "EMPTY_KEY"], "no key"),
        (["--key-env", "LONG_KEY"], "--http"),
    ],
)
def test_an_unsafe_or_senseless_address_is_refused_before_the_profile_is_opened(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    runner = CliRunner(env={"LONG_KEY": KEY, "EMPTY_KEY": ""})
    outcome = runner.invoke(
        cli, ["mcp", "serve", "--profile", str(tmp_path / "absent.toml"), *arguments]
    )
    assert outcome.exit_code == 2
    assert words in outcome.output


def test_an_application_for_others_cannot_be_built_without_a_key(profile: Path) -> None:
    with pytest.raises(ValueError, match="key"):
        http_app(_person(profile), loopback=False)
    http_app(_person(profile), key=KEY, loopback=False)
    http_app(_person(profile))


def test_a_wrong_profile_ends_the_server_at_once_with_a_sentence(tmp_path: Path) -> None:
    profile = tmp_path / "me.toml"
    profile.write_text(f'templates = ["fib4"]\n[values]\nast = "{SENTINEL}"\n', encoding="utf-8")
    done = subprocess.run(
        serve_command(profile),
        capture_output=True,
        env=environment(),
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 3
    assert done.stdout == b""
    assert len(done.stderr.splitlines()) == 1
    assert not leaks(done.stderr.decode())


def _person(profile: Path) -> Person:
    return Person.open(load_profile(profile), store=open_store("memory:"))


def _call(person: Person, tool: str, arguments: dict[str, Any]) -> types.CallToolResult:
    async def run() -> types.CallToolResult:
        async with Client(build_server(person), raise_exceptions=True) as client:
            return await client.call_tool(tool, arguments)

    return anyio.run(run)


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (ZeroDivisionError(SENTINEL), "internal"),
        (UnicodeError(NAME), "internal"),
        (StoreUnavailableError("busy"), "store_unavailable"),
    ],
)
def test_what_nobody_expected_becomes_fixed_words_and_no_log(
    profile: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    problem: Exception,
    code: str,
) -> None:
    person = _person(profile)

    def fail(_: Person, __: str) -> float:
        raise problem

    for name in ("release", "derive", "answer", "assess"):
        monkeypatch.setattr(Person, name, fail)
    caplog.set_level(logging.DEBUG)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("compute", {"formula": "ast"}),
        ("answer", {"question": "ast?"}),
        ("assess", {"template": "fib4"}),
    ]
    for tool, arguments in calls:
        result = _call(person, tool, arguments)
        (said,) = result.content
        assert isinstance(said, types.TextContent)
        assert result.is_error
        assert json.loads(said.text)["code"] == code
        assert not leaks(said.text)
    assert not leaks(caplog.text)


def test_a_resource_that_cannot_be_read_is_an_internal_error_in_fixed_words(
    profile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = _person(profile)

    def fail(_: Person) -> dict[str, object]:
        raise RuntimeError(SENTINEL)

    monkeypatch.setattr(Person, "describe", fail)

    async def run() -> None:
        async with Client(build_server(person)) as client:
            with pytest.raises(MCPError) as caught:
                await client.read_resource("rootguard://profile")
            assert caught.value.code == types.INTERNAL_ERROR
            assert not leaks(str(caught.value))

    anyio.run(run)


def test_many_callers_at_once_hear_one_value(profile: Path) -> None:
    person = _person(profile)
    heard: list[object] = []

    async def run() -> None:
        async with Client(build_server(person)) as client, anyio.create_task_group() as group:

            async def ask() -> None:
                result = await client.call_tool("get_values", {"names": ["ast"]})
                heard.append(json.dumps(result.structured_content))

            for _ in range(50):
                group.start_soon(ask)

    anyio.run(run)
    assert len(heard) == 50
    assert len(set(heard)) == 1


HEAVY = ("matplotlib", "openai", "pandas", "phonenumbers", "pint", "psycopg", "scipy", "spacy")


def test_starting_imports_only_what_serving_needs() -> None:
    code = (
        "import sys, rootguard.cli.main, rootguard.cli.mcp\n"
        "print('mcp' in sys.modules)\n"
        "import rootguard.channels.mcp.server\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        env=environment(),
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout.decode().split("\n")[:2] == ["False", "[]"]


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("get_values", {"names": "age"}, "wrong_type"),
        ("get_values", {"names": [1]}, "wrong_type"),
        ("get_values", {"names": []}, "bad_value"),
        ("get_values", {"names": ["age"] * 100}, None),
        ("get_values", {"names": ["age"] * 101}, "bad_value"),
        ("get_values", {"names": ["no such"]}, "unknown_name"),
        ("get_values", {"names": ["age"], "more": 1}, "unknown_field"),
        ("compute", {"formula": 5}, "wrong_type"),
        ("compute", {"formula": ""}, "bad_value"),
        ("compute", {"formula": "1"}, None),
        ("compute", {"formula": "1" + " " * 9_999}, "formula_refused"),
        ("compute", {"formula": "1" + " " * 10_000}, "bad_value"),
        ("list_values", {}, None),
    ],
)
def test_arguments_are_checked_up_to_their_limits(
    profile: Path, tool: str, arguments: dict[str, Any], code: str | None
) -> None:
    result = _Answers(_person(profile)).call(tool, arguments)
    (said,) = result.content
    assert isinstance(said, types.TextContent)
    if code is None:
        assert not result.is_error, said.text
        assert json.loads(said.text) == result.structured_content
    else:
        assert result.is_error
        assert json.loads(said.text)["code"] == code


def test_tools_say_that_they_only_read_and_what_they_take(profile: Path) -> None:
    tools = {tool.name: tool for tool in _Answers(_person(profile)).tools}
    for tool in tools.values():
        hints = tool.annotations
        assert hints is not None
        assert (hints.read_only_hint, hints.idempotent_hint) == (True, True)
        assert (hints.destructive_hint, hints.open_world_hint) == (False, False)
        for schema in (tool.input_schema, tool.output_schema):
            assert schema is not None
            assert schema["additionalProperties"] is False
            assert schema["required"] == list(schema["properties"])
    names = tools["get_values"].input_schema["properties"]["names"]
    assert (names["minItems"], names["maxItems"]) == (1, 100)
    formula = tools["compute"].input_schema["properties"]["formula"]
    assert (formula["minLength"], formula["maxLength"]) == (1, 10_000)
    listed = tools["list_values"].output_schema
    assert listed is not None
    entry = listed["properties"]["values"]["items"]
    assert entry["required"] == ["name", "kind", "unit", "available"]


def test_the_transcript_is_the_latest_thousand_events_and_their_whole_number(
    profile: Path,
) -> None:
    person = _person(profile)
    answers = _Answers(person)
    assert answers.transcript() == {"total": 0, "events": []}
    person.release("ast")
    told = answers.transcript()
    assert told["total"] == len(person.transcript()) > 0
    events = tuple(RequestRefused(turn=turn, reason="X") for turn in range(1, 1002))
    person.transcript = lambda: events  # type: ignore[method-assign]
    told = answers.transcript()
    assert told["total"] == 1001
    assert isinstance(told["events"], list)
    assert [each["turn"] for each in told["events"]] == [*range(2, 1002)]


@pytest.mark.parametrize(
    ("names", "code"),
    [(["nope", "ins"], "unknown_name"), (["ins", "nope"], "private_value_refused")],
)
def test_where_nothing_can_be_given_the_first_refusal_is_told(
    profile: Path, names: list[str], code: str
) -> None:
    result = _Answers(_person(profile)).call("get_values", {"names": names})
    assert result.is_error
    assert isinstance(result.content[0], types.TextContent)
    assert json.loads(result.content[0].text)["code"] == code


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_audit_log_says_which_client_asked_by_which_tool(profile: Path, mode: Mode) -> None:
    store = open_store("memory:")
    person = Person.open(load_profile(profile), store=store)
    named = types.Implementation(name="front desk", version="1")

    async def ask() -> None:
        async with Client(build_server(person), mode=mode, client_info=named) as client:
            await client.call_tool("get_values", {"names": ["ast"]})

    anyio.run(ask)
    last = store.log(person.principal)[-1]
    assert (last.service, last.route) == ("front desk", "get_values")


def test_a_value_is_available_when_all_that_it_rests_on_is_known(tmp_path: Path) -> None:
    profile = write_profile(tmp_path)
    text = profile.read_text("utf-8")
    profile.write_text(text.replace("[values]", "[values]\nglu = 101.25"), encoding="utf-8")
    content = _Answers(_person(profile)).call("list_values", {}).structured_content
    assert content is not None
    available = {each["name"]: each["available"] for each in content["values"]}
    assert (available["glu"], available["ins"], available["homa"]) == (True, False, False)
    assert available["fib4"]


def test_the_public_profile_names_only_what_may_be_asked(
    profile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = _person(profile)
    public = {"templates": {"x": 1}, "roots": {"ast": 1, "x": 2}, "identifiers": ["x"], "n": 5}
    monkeypatch.setattr(Person, "describe", lambda _: dict(public))
    assert _Answers(person).profile() == {
        **public,
        "roots": {"ast": 1},
        "identifiers": [],
    }
