"""The proxy before the reference services: what leaves is what was released, once and for all."""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mcp import Client

from rootguard.cli.main import cli
from rootguard.session import load_profile
from rootguard.vault import open_store
from tests.support.canary import NAME, SENTINELS, leaks
from tests.support.mcp_clients import (
    Mode,
    Tap,
    http_server,
    over_stdio,
    serve_command,
    write_profile,
)
from tests.support.mcp_proxies import (
    CLINIC,
    DOUBLE,
    HOSTILE,
    POLICY,
    Message,
    Reply,
    Wire,
    proxy_command,
    tapped,
    text_of,
)

FIB4 = {
    "age": SENTINELS["age"],
    "ast_u_l": SENTINELS["ast"],
    "alt_u_l": SENTINELS["alt"],
    "platelets": SENTINELS["plt"],
}
ROOTS = {"age": "age", "ast_u_l": "ast", "alt_u_l": "alt", "platelets": "plt"}


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    return write_profile(tmp_path, policy=POLICY)


def _received(path: Path, tool: str) -> list[Message]:
    """The arguments of every call of a tool, as the server got them."""
    lines = path.read_text(encoding="utf-8").splitlines()
    calls = [m["params"] for m in map(json.loads, lines) if m.get("method") == "tools/call"]
    return [call["arguments"] for call in calls if call["name"] == tool]


async def _diagnose(client: Client) -> tuple[Any, Any]:
    listed = await client.list_tools()
    return listed, await client.call_tool("fib4_score", {**FIB4, "patient": NAME})


async def _values(client: Client) -> Any:  # noqa: ANN401
    found = await client.call_tool("get_values", {"names": list(SENTINELS)})
    return {each["name"]: each["value"] for each in found.structured_content["values"]}


@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.slow)])
def test_the_clinic_gets_the_values_that_the_server_channel_gives(
    tmp_path: Path, profile: Path, mode: Mode
) -> None:
    places = [tmp_path / name for name in ("proxy", "serve", "direct")]
    for place in places:
        place.mkdir()
    seen = tmp_path / "seen"
    tap = Tap(places[0])
    command = proxy_command(profile, "clinic", tapped(CLINIC, seen))
    listed, result = over_stdio(tap, command, mode, _diagnose)
    served = over_stdio(
        Tap(places[1]), serve_command(profile, "--service", "clinic"), mode, _values
    )
    direct, _ = over_stdio(Tap(places[2]), CLINIC, mode, _diagnose)
    sent = _received(seen, "fib4_score")[0]
    for parameter, root in ROOTS.items():
        assert sent[parameter] == round(served[root])
        assert sent[parameter] != SENTINELS[root]
    assert listed.tools == direct.tools
    assert not result.is_error
    assert json.loads(result.content[0].text) == result.structured_content
    assert NAME in result.structured_content["report"]
    assert not leaks(seen.read_text(encoding="utf-8"))
    assert not leaks(tap.errors.read_text(encoding="utf-8"))


def test_without_the_proxy_the_same_call_would_leak(tmp_path: Path) -> None:
    tap = Tap(tmp_path)
    over_stdio(tap, CLINIC, "legacy", _diagnose)
    assert len(leaks(tap.received.read_text(encoding="utf-8"))) == 6


@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.slow)])
def test_a_server_on_http_is_guarded_likewise(tmp_path: Path, profile: Path, mode: Mode) -> None:
    log = tmp_path / "log"
    where = [*HOSTILE[:-1], "--http", "127.0.0.1:0", "--log", str(log)]

    async def talk(client: Client) -> Any:  # noqa: ANN401
        assert (await client.list_tools()).tools
        return await client.call_tool("confirm_ast", {"ast": SENTINELS["ast"], "note": NAME})

    with http_server(where) as address:
        start = proxy_command(profile, "clinic", [])[:-1]
        result = over_stdio(Tap(tmp_path), [*start, "--url", address], mode, talk)
    assert result.structured_content["received"]["note"] == NAME
    assert result.structured_content["received"]["ast"] != SENTINELS["ast"]
    received = log.read_text(encoding="utf-8")
    assert str(result.structured_content["received"]["ast"]) in received
    assert not leaks(received)


def _refused(profile: Path, *arguments: str) -> str:
    outcome = CliRunner().invoke(cli, ["mcp", "proxy", "--profile", str(profile), *arguments])
    assert outcome.exit_code != 0
    return f"{outcome.output}{outcome.exception}"


def test_a_service_that_the_policy_does_not_list_is_refused_at_the_start(profile: Path) -> None:
    marker = profile.parent / "started"
    touch = ("--", "touch", str(marker))
    said = _refused(profile, "--service", "stranger", *touch)
    assert "the policy does not list this service" in said
    assert "[services.stranger]" in said
    assert "without --service" in _refused(profile, *touch)
    assert not marker.exists()
    assert not (profile.parent / "vault.sqlite3").exists()


def test_without_a_policy_no_service_may_have_anything(tmp_path: Path) -> None:
    said = _refused(write_profile(tmp_path), "--service", "clinic", "--", *CLINIC)
    assert "no service may have anything" in said


def test_a_command_that_cannot_be_started_is_one_sentence(profile: Path) -> None:
    said = _refused(profile, "--service", "clinic", "--", "/no/such/server")
    assert "cannot be reached" in said


def test_a_service_gets_no_root_that_its_policy_does_not_allow(
    tmp_path: Path, profile: Path
) -> None:
    seen = tmp_path / "seen"
    with Wire(proxy_command(profile, "narrow", tapped(CLINIC, seen))) as wire:
        wire.initialize()
        answer = wire.call("fib4_score", FIB4)
        assert answer["result"]["isError"]
        assert json.loads(text_of(answer))["code"] == "access_denied"
    assert _received(seen, "fib4_score") == []
    assert not leaks(seen.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Wire, Path]]:
    """The proxy before a server that says back what it gets, and what that got."""
    folder = tmp_path_factory.mktemp("shared")
    profile, seen = write_profile(folder, policy=POLICY), folder / "seen"
    replies: dict[str, Reply] = {
        "elicitation/create": lambda _: {
            "action": "accept",
            "content": {"ast": SENTINELS["ast"], "comment": f"from {NAME}"},
        },
        "roots/list": lambda _: {"roots": [{"uri": f"file:///home/{NAME}/x", "name": NAME}]},
        "sampling/createMessage": lambda _: {
            "role": "assistant",
            "content": {"type": "text", "text": f"{NAME} has AST {SENTINELS['ast']} U/L"},
            "model": "some-model",
        },
    }
    with Wire(proxy_command(profile, "clinic", [*DOUBLE, str(seen)]), replies) as client:
        client.initialize({"elicitation": {}, "roots": {}, "sampling": {}, "x": {"name": NAME}})
        client.ask("tools/list")  # by then the server has got the greeting
        first = json.loads(seen.read_text(encoding="utf-8").splitlines()[0])
        known: Message = {"elicitation": {}, "roots": {}, "sampling": {}}
        assert (first["method"], first["params"]["capabilities"]) == ("initialize", known)
        yield client, seen
    assert not leaks(bytes(client.errors).decode())


@pytest.fixture
def wire(shared: tuple[Wire, Path]) -> Wire:
    return shared[0]


@pytest.fixture
def seen(shared: tuple[Wire, Path]) -> Iterator[Path]:
    """What the server behind `wire` gets in this test; it opens the file for each line."""
    path = shared[1]
    yield path
    assert not leaks(path.read_text(encoding="utf-8"))
    path.write_text("", encoding="utf-8")


def test_fields_that_are_no_values_go_by_the_rules_for_texts(wire: Wire, seen: Path) -> None:
    exact = SENTINELS["ast"]
    notes = [f"{NAME}: AST {exact} U/L", "it was 91.8 exactly", "nothing new"]
    for note in notes:
        wire.call("fine", {"ast": exact, "note": note})
    released = {call["ast"] for call in _received(seen, "fine")}
    assert len(released) == 1
    first, second, third = (call["note"] for call in _received(seen, "fine"))
    assert NAME not in first
    assert "AST" in first
    assert second == "it was [number] exactly"
    assert third == notes[2]


def test_what_looks_private_and_cannot_be_placed_is_a_tool_error_in_fixed_words(
    wire: Wire, seen: Path
) -> None:
    answer = wire.call("fine", {"note": "my ferritin is 480.3 ng/mL"})
    assert json.loads(text_of(answer))["code"] == "text_blocked"
    assert answer["result"]["isError"]
    assert _received(seen, "fine") == []


def test_addresses_and_prompts_are_filled_in_like_tools(wire: Wire, seen: Path) -> None:
    uri = f"labs://Zebulon%20Quackenbush/ast/{SENTINELS['ast']}?note=hello&x={NAME}"
    read = wire.ask("resources/read", {"uri": uri})["result"]["contents"][0]["text"]
    assert json.loads(read)["uri"].endswith("?note=hello")
    as_listed = wire.ask("resources/read", {"uri": "labs://index/2024"})["result"]["contents"][0]
    assert as_listed["uri"] == "labs://index/2024"
    given = {"patient_name": NAME, "ast": str(SENTINELS["ast"]), "wish": f"call {NAME}"}
    prompt = wire.ask("prompts/get", {"name": "visit", "arguments": given})
    assert NAME in json.dumps(prompt["result"]["messages"])
    ref = {"type": "ref/prompt", "name": "visit"}
    completed = wire.ask(
        "completion/complete", {"ref": ref, "argument": {"name": "wish", "value": NAME}}
    )
    assert NAME in json.dumps(completed["result"])
    methods = [json.loads(line)["method"] for line in seen.read_text("utf-8").splitlines()]
    assert {"resources/read", "prompts/get", "completion/complete"} <= set(methods)


def test_an_address_that_nobody_offered_goes_without_numbers(wire: Wire, seen: Path) -> None:
    refused = wire.ask("resources/read", {"uri": "other://x/91.8"})
    assert refused["error"]["data"]["code"] == "text_blocked"
    wire.ask("resources/read", {"uri": "other://x/y"})
    assert "other://x/y" in seen.read_text(encoding="utf-8")
    assert "91.8" not in seen.read_text(encoding="utf-8")


def test_answers_to_what_the_server_asks_are_guarded(wire: Wire, seen: Path) -> None:
    released = json.loads(text_of(wire.call("fine", {"ast": SENTINELS["ast"]})))[0]["ast"]
    wire.call("more", {})
    wire.call("media", {})
    wire.call("fine", {})
    received = [json.loads(line) for line in seen.read_text(encoding="utf-8").splitlines()]
    answers = {m["id"]: m["result"] for m in received if "result" in m}
    assert answers["f"]["content"]["ast"] == released
    assert answers["f"]["content"]["comment"].startswith("from ")
    assert "AST" in answers["s"]["content"]["text"]
    assert answers["r"]["roots"][0]["uri"].startswith("file:///home/")


def test_a_parameter_that_is_not_sure_is_asked_and_a_pin_settles_it(
    tmp_path: Path, profile: Path
) -> None:
    log, pins = tmp_path / "log", tmp_path / "pins.toml"
    pins.write_text(
        '[tools.derived_panel.ast_alt_ratio]\nroot = "ast_alt"\n'
        '[tools.derived_panel.fib4]\nroot = "fib4"\n'
        "[tools.derived_panel.ast_squared]\nignore = true\n",
        encoding="utf-8",
    )
    server = [*HOSTILE, "--log", str(log)]
    given = {"ast_alt_ratio": 1.44, "fib4": 1.7, "ast_squared": 4}
    with Wire(proxy_command(profile, "clinic", server, "--pins", str(pins))) as wire:
        wire.initialize()
        refused = wire.call("always_fails", {"ast": 61.375})
        wire.call("derived_panel", given)
        wire.call("confirm_ast", {"ast": 1})
    said = json.loads(text_of(refused))
    assert said["code"] == "ambiguous_parameter"
    assert '[tools.always_fails.ast] root = "ast"' in said["message"]
    assert "61.375" not in said["message"]
    assert _received(log, "always_fails") == []
    sent = _received(log, "derived_panel")[0]
    ast = _received(log, "confirm_ast")[0]["ast"]
    assert sent["ast_squared"] == 4
    assert sent["ast_alt_ratio"] != 1.44
    assert 0.3 < sent["ast_alt_ratio"] * SENTINELS["alt"] / ast < 3


def _config(folder: Path, servers: dict[str, Sequence[str]]) -> str:
    file = folder / "servers.json"
    entries = {name: {"command": c[0], "args": list(c[1:])} for name, c in servers.items()}
    file.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    return str(file)


def test_several_servers_are_one_and_names_are_prefixed_where_they_meet(
    tmp_path: Path, profile: Path
) -> None:
    logs = {name: tmp_path / name for name in ("clinic", "market")}
    config = _config(
        tmp_path,
        {
            "clinic": tapped(CLINIC, logs["clinic"]),
            "market": [*HOSTILE, "--log", str(logs["market"])],
        },
    )
    command = [*proxy_command(profile, "x", [])[:-3], "--config", config]
    with Wire(command) as wire:
        about = wire.initialize()["result"]
        assert about["serverInfo"]["name"] == "rootguard-proxy"
        assert "market: IMPORTANT" in about["instructions"]
        names = [tool["name"] for tool in wire.ask("tools/list")["result"]["tools"]]
        assert len(names) == len(set(names)) == 8 + 5
        assert {"clinic__fib4_score", "market__fib4_score", "homa_ir", "confirm_ast"} <= set(names)
        assert "fib4_score" not in names
        honest = wire.call("clinic__fib4_score", {**FIB4, "patient": NAME})["result"]
        assert NAME in honest["structuredContent"]["report"]
        wire.call("confirm_ast", {"ast": SENTINELS["ast"]})
        assert "error" in wire.call("fib4_score", FIB4)
    assert _received(logs["clinic"], "fib4_score")[0]["ast_u_l"]
    assert _received(logs["market"], "confirm_ast")[0]["ast"]
    loaded = load_profile(profile)
    with closing(open_store(loaded.store or "")) as store:
        given = {
            each.service: each for each in store.disclosures(loaded.principal) if each.root == "ast"
        }
    # Each has its own tier's level; the values may be equal by chance.
    assert given["clinic"].position != given["market"].position
    assert not any(leaks(log.read_text(encoding="utf-8")) for log in logs.values())


def test_a_config_lists_only_services_of_the_policy(tmp_path: Path, profile: Path) -> None:
    config = _config(tmp_path, {"clinic": CLINIC, "stranger": CLINIC})
    assert "[services.stranger]" in _refused(profile, "--config", config)
    (tmp_path / "servers.json").write_text('{"mcpServers": {"a b": {}}}', encoding="utf-8")
    assert "not a name" in _refused(profile, "--config", config)
