"""Servers and clients that misbehave: a proper error, the proxy lives, nothing leaks."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.canary import NAME, SENTINELS, leaks
from tests.support.mcp_clients import write_profile
from tests.support.mcp_proxies import DOUBLE, POLICY, Message, Wire, proxy_command, text_of
from tests.support.programs import ROOTGUARD

# Its memory is looked up by its id.
INTERPRETED = (sys.executable, *ROOTGUARD[-2:])
AST = {"ast": SENTINELS["ast"]}
Received = Callable[[], list[Message]]


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    return tmp_path / "received"


@pytest.fixture
def wire(tmp_path: Path, seen: Path) -> Iterator[Wire]:
    """A proxy of the test's own, for what is counted from its start."""
    with _wire(tmp_path, seen, 120, INTERPRETED) as client:
        yield client


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Wire, Path]]:
    """One proxy that goes through one fault after another, and what its server received."""
    folder = tmp_path_factory.mktemp("lasting")
    with _wire(folder, folder / "received", 120) as client:
        yield client, folder / "received"


@pytest.fixture
def lasting(shared: tuple[Wire, Path]) -> Wire:
    """The same proxy, with nothing heard of it yet; what was heard held nothing private."""
    client = shared[0]
    _nothing_private_is_in_errors(client)
    client.heard.clear()
    return client


@pytest.fixture
def since(shared: tuple[Wire, Path], lasting: Wire) -> Received:
    """What the shared proxy's server received in this test."""
    path = shared[1]
    before = path.stat().st_size

    def received() -> list[Message]:
        lines = path.read_bytes()[before:].decode().splitlines()
        return [json.loads(line) for line in lines]

    return received


@contextmanager
def _wire(
    folder: Path, seen: Path, patience: float, program: Sequence[str] = ROOTGUARD
) -> Iterator[Wire]:
    """A client of a proxy that gives a server up after so many seconds."""
    profile = write_profile(folder, policy=POLICY)
    server = [*DOUBLE, str(seen)]
    more = ("--timeout", str(patience))
    command = proxy_command(profile, "clinic", server, *more, program=program)
    with Wire(command) as client:
        client.initialize({"sampling": {}})
        yield client
    assert not leaks(seen.read_text(encoding="utf-8"))
    assert not leaks(bytes(client.errors).decode())
    _nothing_private_is_in_errors(client)


def _nothing_private_is_in_errors(client: Wire) -> None:
    assert not leaks(json.dumps([m for m in client.heard if "error" in m]))


def _lives(wire: Wire) -> Message:
    """The proxy and the server, old or new, answer."""
    answer = wire.call("fine", AST)
    assert "result" in answer, answer
    return answer


def _code(answer: Message) -> str:
    code: str = answer["error"]["data"]["code"]
    return code


@pytest.mark.parametrize(
    ("tool", "code"),
    [
        ("die", "upstream_unreachable"),
        ("flood", "upstream_unreachable"),
        ("garbage", "unreadable_reply"),
        ("misfit", "unreadable_reply"),
        ("huge", "unreadable_reply"),
        ("nan", "unreadable_reply"),
        ("deep", "unreadable_reply"),
        ("surrogate", "unreadable_reply"),
    ],
)
def test_a_server_that_fails_costs_its_call_and_no_other(
    lasting: Wire, tool: str, code: str
) -> None:
    _lives(lasting)
    assert _code(lasting.call(tool, AST)) == code
    _lives(lasting)


@pytest.mark.parametrize("tool", ["hang", "ignore"])
def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path, seen: Path, tool: str) -> None:
    answers: list[Message] = []
    for patience in (1.5, 6, 24):  # on a busy machine an honest server needs longer to begin
        with _wire(tmp_path, seen, patience) as wire:
            answers = [wire.call(name, AST) for name in ("fine", tool, "fine")]
        if "result" in answers[0] and "result" in answers[-1]:
            break
    before, silent, after = answers
    assert "result" in before, before
    assert _code(silent) == "upstream_timeout"
    assert "result" in after, after


def test_a_call_that_waits_is_answered_when_another_kills_the_server(lasting: Wire) -> None:
    waiting = lasting.begin("tools/call", {"name": "ignore", "arguments": AST})
    dying = lasting.begin("tools/call", {"name": "die", "arguments": AST})
    assert {_code(lasting.wait(waiting)), _code(lasting.wait(dying))} == {"upstream_unreachable"}
    _lives(lasting)


def test_a_second_answer_and_an_unasked_one_are_dropped(lasting: Wire) -> None:
    assert text_of(lasting.call("twice", AST)) == "first"
    assert text_of(lasting.call("unasked", AST)) == "asked"
    _lives(lasting)
    assert [m["id"] for m in lasting.heard] == sorted(m["id"] for m in lasting.heard)
    assert len(lasting.heard) == 3
    assert "second" not in json.dumps(lasting.heard)


def test_what_is_printed_between_messages_is_passed_over(lasting: Wire) -> None:
    assert text_of(lasting.call("noise", AST)) == "fine"


def test_a_flood_is_not_kept_in_memory(wire: Wire) -> None:
    for _ in range(2):
        assert _code(wire.call("flood", AST)) == "upstream_unreachable"
    floods = sum(message.get("method") == "notifications/message" for message in wire.heard)
    assert 0 < floods < 100_000
    if sys.platform == "linux":
        status = Path(f"/proc/{wire.process.pid}/status").read_text(encoding="utf-8")
        peak = next(int(row.split()[1]) for row in status.splitlines() if row.startswith("VmHWM"))
        assert peak < 400 * 1024


def test_the_server_is_greeted_again_as_the_client_greeted_it(wire: Wire, seen: Path) -> None:
    wire.call("die", AST)
    _lives(wire)
    received = [json.loads(line) for line in seen.read_text(encoding="utf-8").splitlines()]
    greetings = [message["params"] for message in received if message["method"] == "initialize"]
    assert len(greetings) == 2
    assert greetings[0] == greetings[1]
    assert greetings[0]["capabilities"] == {"sampling": {}}
    assert greetings[0]["clientInfo"]["name"] == "rootguard-proxy"
    ready = [m["method"] for m in received].count("notifications/initialized")
    assert ready == 2


def test_a_call_that_is_cancelled_is_cancelled_behind_the_proxy(
    lasting: Wire, since: Received
) -> None:
    before = json.loads(text_of(_lives(lasting)))[1]
    name = lasting.begin("tools/call", {"name": "ignore", "arguments": AST})
    reason = f"{NAME} changed their mind"
    lasting.tell("notifications/cancelled", {"requestId": name, "reason": reason})
    assert json.loads(text_of(_lives(lasting)))[1] == before + 1
    received = since()
    calls = {m["id"]: m["params"]["name"] for m in received if m["method"] == "tools/call"}
    cancelled = next(m["params"] for m in received if m["method"] == "notifications/cancelled")
    assert calls[cancelled["requestId"]] == "ignore"
    assert "changed their mind" in cancelled["reason"]
    assert name not in [message.get("id") for message in lasting.heard]


def test_progress_passes_under_the_clients_own_token(lasting: Wire) -> None:
    token = f"token of {NAME}"
    params = {"name": "steps", "arguments": {}, "_meta": {"progressToken": token}}
    answer = lasting.ask("tools/call", params)
    told = [m["params"] for m in lasting.heard if m.get("method") == "notifications/progress"]
    assert [each["progressToken"] for each in told] == [token, token]
    assert told[0]["message"] == "on it"
    assert token not in text_of(answer)


def test_a_changed_list_is_told_and_pages_pass(lasting: Wire) -> None:
    lasting.call("changed", AST)
    assert any(m.get("method") == "notifications/tools/list_changed" for m in lasting.heard)
    first = lasting.ask("tools/list")["result"]
    second = lasting.ask("tools/list", {"cursor": first["nextCursor"]})["result"]
    assert len(first["tools"]) == len(second["tools"]) == 11
    assert "nextCursor" not in second
    assert _code(lasting.ask("tools/list", {"cursor": f"page of {NAME}"})) == "bad_value"


def test_an_error_keeps_its_code_and_quotes_released_values_only(lasting: Wire) -> None:
    released = json.loads(text_of(_lives(lasting)))[0]["ast"]
    error = lasting.call("fail", {**AST, "note": f"for {NAME}"})["error"]
    assert error["code"] == -32050
    assert str(released) in error["message"]
    assert str(released) in error["data"][0]
    assert NAME in error["message"]
    lasting.heard.pop()  # the owner's own name, restored for the owner


def test_a_server_asks_for_nothing_but_what_the_protocol_lets_it(
    lasting: Wire, since: Received
) -> None:
    lasting.call("evil", AST)
    lasting.call("media", AST)
    _lives(lasting)
    asked = {m["method"] for m in lasting.heard if "method" in m and "id" in m}
    assert asked == {"sampling/createMessage"}
    refused = {m["id"]: m["error"] for m in since() if "error" in m}
    assert refused["q"]["code"] == -32601
    assert refused["s"]["message"] == "there is no such method"


MALFORMED: tuple[bytes, ...] = (
    b"not json",
    b"[]",
    b"7",
    b'{"jsonrpc": "1.0", "id": "odd", "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": true, "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": "odd", "method": 6}',
    b'{"jsonrpc": "2.0", "id": "odd", "method": "tools/call", "params": [91.827364519]}',
    b'{"jsonrpc": "2.0", "id": "odd", "method": "files/91.827364519"}',
    b'{"jsonrpc": "2.0", "id": "odd", "method": "tools/call", "params": {"name": 91.827364519}}',
    b'{"jsonrpc": "2.0", "id": "odd", "method": "tools/call", "params": {"name": "fine", "x": 1}}',
    b'{"jsonrpc": "2.0", "id": "odd", "method": "ping", "params": {"a": NaN}}',
    b"[" * 100_000,
    b'{"jsonrpc": "2.0", "method": "' + b"9" * (5 * 1024 * 1024) + b'"}',
    b"\xff\xfe",
)


def test_what_a_client_says_wrongly_is_answered_in_fixed_words(lasting: Wire) -> None:
    for line in MALFORMED:
        lasting.write_line(line)
        answer = lasting.next()
        shown = answer.get("error") or json.loads(text_of(answer))
        assert "827" not in json.dumps(shown)
        assert shown["message"]
        _lives(lasting)


def test_answers_to_nothing_and_unknown_notifications_are_ignored(
    lasting: Wire, since: Received
) -> None:
    lasting.write({"id": 77, "result": {"x": NAME}})
    lasting.tell("notifications/secret", {"x": NAME})
    lasting.tell("notifications/cancelled", {"requestId": 400, "reason": NAME})
    lasting.tell("notifications/roots/list_changed", {"x": NAME})
    _lives(lasting)
    assert "notifications/secret" not in {message.get("method") for message in since()}
