"""`rootguard mcp serve`, spoken to by the SDK's client in another process.

The same talk is held over standard streams and over HTTP, in the current protocol revision and in
the one before it, by four clients and three processes on one vault.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

from tests.support.canary import NAME, SENTINELS, leaks
from tests.support.mcp_clients import (
    Mode,
    Recorder,
    Tap,
    http_server,
    over_http,
    over_stdio,
    serve_command,
    write_profile,
)

SENTINEL = str(SENTINELS["ast"])
ANSWERED: dict[str, tuple[str, dict[str, Any]]] = {
    "list": ("list_values", {}),
    "roots": ("get_values", {"names": ["age", "ast", "alt", "plt"]}),
    "mixed": ("get_values", {"names": ["ast", "name", "homa", "fib4"]}),
    "formula": ("compute", {"formula": "age * ast / (plt * sqrt(alt))"}),
    "ratio": ("compute", {"formula": "ast / alt"}),
    "question": ("answer", {"question": f"My AST is {SENTINEL}. What is my FIB-4?"}),
    "assessment": ("assess", {"template": "fib4"}),
}
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "unknown_name": ("get_values", {"names": [SENTINEL, NAME]}),
    "private_value_refused": ("get_values", {"names": ["homa"]}),
    "wrong_type": ("get_values", {"names": SENTINEL}),
    "bad_value": ("answer", {"question": SENTINEL * 2_000}),
    "unknown_field": ("compute", {"formula": "ast", NAME: SENTINEL}),
    "formula_refused": ("compute", {"formula": f"{SENTINEL} +* {NAME}"}),
}
MORE_REFUSED: list[tuple[str, str, dict[str, Any]]] = [
    ("wrong_type", "get_values", {}),
    ("wrong_type", "get_values", {"names": [SENTINELS["ast"]]}),
    ("bad_value", "get_values", {"names": []}),
    ("bad_value", "get_values", {"names": ["ast"] * 101}),
    ("wrong_type", "compute", {"formula": SENTINELS}),
    ("bad_value", "compute", {"formula": ""}),
    ("formula_refused", "compute", {"formula": "ln(0 - ast)"}),
    ("formula_refused", "compute", {"formula": "__import__('os')"}),
    ("unknown_name", "assess", {"template": NAME}),
    ("private_value_refused", "assess", {"template": "homa"}),
]


@dataclass(frozen=True, kw_only=True)
class Talk:
    """What one client heard."""

    version: str
    tools: dict[str, types.Tool]
    answered: dict[str, types.CallToolResult]
    refused: dict[str, types.CallToolResult]
    more: list[types.CallToolResult]
    resources: list[str]
    profile: Any
    transcript: Any
    errors: dict[str, MCPError]
    written: str = ""

    def value(self, label: str) -> dict[str, Any]:
        """The structured result of a call."""
        content = self.answered[label].structured_content
        assert isinstance(content, dict)
        return content


async def _hold(client: Client) -> dict[str, Any]:
    tools = (await client.list_tools()).tools
    heard: dict[str, Any] = {
        "version": client.protocol_version,
        "tools": {tool.name: tool for tool in tools},
        "answered": {k: await client.call_tool(*call) for k, call in ANSWERED.items()},
        "refused": {k: await client.call_tool(*call) for k, call in REFUSED.items()},
        "more": [await client.call_tool(name, sent) for _, name, sent in MORE_REFUSED],
        "resources": [each.uri for each in (await client.list_resources()).resources],
        "errors": {},
    }
    for name in ("profile", "transcript"):
        (content,) = (await client.read_resource(f"rootguard://{name}")).contents
        assert isinstance(content, types.TextResourceContents)
        heard[name] = json.loads(content.text)
    for label, attempt in (
        ("tool", lambda: client.call_tool(NAME, {"ast": SENTINEL})),
        ("resource", lambda: client.read_resource(f"rootguard://{SENTINEL}")),
        ("prompt", lambda: client.get_prompt(NAME, {"ast": SENTINEL})),
    ):
        with pytest.raises(MCPError) as caught:
            await attempt()
        heard["errors"][label] = caught.value
    return heard


Talks = dict[tuple[str, Mode], Talk]


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Talks:
    """Four talks on one vault."""
    folder = tmp_path_factory.mktemp("mcp")
    profile = write_profile(folder)
    held: Talks = {}
    modes: tuple[Mode, ...] = ("auto", "legacy")
    for mode in modes:
        place = folder / mode
        place.mkdir()
        tap = Tap(place)
        heard = over_stdio(tap, serve_command(profile), mode, _hold)
        held["stdio", mode] = Talk(**heard, written=tap.written())
    with http_server(serve_command(profile, "--http", "127.0.0.1:0")) as address:
        for mode in modes:
            recorder = Recorder()
            heard = over_http(address, recorder, mode, _hold)
            held["http", mode] = Talk(**heard, written=recorder.written())
    return held


@pytest.fixture(params=[(way, mode) for way in ("stdio", "http") for mode in ("auto", "legacy")])
def talk(request: pytest.FixtureRequest, talks: Talks) -> Talk:
    """Each of the talks."""
    return talks[request.param]


def test_both_protocol_revisions_are_spoken_over_both_transports(talks: Talks) -> None:
    assert {key: talk.version for key, talk in talks.items()} == {
        ("stdio", "auto"): LATEST_MODERN_VERSION,
        ("stdio", "legacy"): LATEST_HANDSHAKE_VERSION,
        ("http", "auto"): LATEST_MODERN_VERSION,
        ("http", "legacy"): LATEST_HANDSHAKE_VERSION,
    }


def test_every_process_transport_and_revision_gives_the_same_values(talks: Talks) -> None:
    first, *others = ({label: talk.value(label) for label in ANSWERED} for talk in talks.values())
    assert all(other == first for other in others)


def test_tools_are_read_only_and_have_schemas_of_both_sides(talk: Talk) -> None:
    assert list(talk.tools) == ["list_values", "get_values", "compute", "answer", "assess"]
    for tool in talk.tools.values():
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint
        assert tool.description
        for schema in (tool.input_schema, tool.output_schema):
            assert schema is not None
            assert schema["type"] == "object"
            assert schema["additionalProperties"] is False
    assert talk.tools["assess"].input_schema["properties"]["template"]["enum"] == ["fib4", "homa"]


def test_structured_output_equals_the_text(talk: Talk) -> None:
    for result in talk.answered.values():
        (said,) = result.content
        assert isinstance(said, types.TextContent)
        assert json.loads(said.text) == result.structured_content
        assert not result.is_error


def test_what_is_listed_says_what_it_rests_on_and_whether_there_is_a_value(talk: Talk) -> None:
    listed = {each["name"]: each for each in talk.value("list")["values"]}
    assert set(listed) == {"age", "ast", "alt", "plt", "fib4", "glu", "ins", "homa", "name"}
    assert listed["ast"]["unit"] == "U/L"
    assert "SGOT" in listed["ast"]["also_called"]
    assert listed["fib4"]["rests_on"] == ["age", "ast", "alt", "plt"]
    assert listed["fib4"]["available"]
    assert not listed["homa"]["available"]
    assert listed["name"]["kind"] == "identifier"


def test_all_tools_agree_because_all_rest_on_the_same_noised_roots(talk: Talk) -> None:
    roots = {each["name"]: each["value"] for each in talk.value("roots")["values"]}
    assert talk.value("ratio")["value"] == roots["ast"] / roots["alt"]
    assessed = talk.value("assessment")
    assert talk.value("formula")["value"] == assessed["value"]
    assert repr(assessed["value"]) in talk.value("question")["answer"]
    assert assessed["risk"] in {"low", "indeterminate", "high"}
    assert roots != SENTINELS


def test_what_can_be_given_is_given_and_a_refusal_points_at_its_place(talk: Talk) -> None:
    mixed = talk.value("mixed")
    assert [each["name"] for each in mixed["values"]] == ["ast", "name", "fib4"]
    assert [(r["position"], r["code"]) for r in mixed["refused"]] == [(2, "private_value_refused")]
    token = mixed["values"][1]["value"]
    assert isinstance(token, str)
    assert token != NAME


def test_a_refusal_is_a_tool_error_with_a_fixed_code_and_text(talk: Talk) -> None:
    found = [(code, result) for code, result in talk.refused.items()]
    found += [(case[0], result) for case, result in zip(MORE_REFUSED, talk.more, strict=True)]
    for code, result in found:
        (said,) = result.content
        assert isinstance(said, types.TextContent)
        assert result.is_error
        assert result.structured_content is None
        refusal = json.loads(said.text)
        assert refusal.keys() == {"code", "message"}
        assert refusal["code"] == code


def test_what_does_not_exist_is_a_protocol_error_that_quotes_nothing(talk: Talk) -> None:
    assert talk.errors["tool"].code == types.INVALID_PARAMS
    assert talk.errors["resource"].code == types.INVALID_PARAMS
    assert talk.errors["prompt"].code == types.METHOD_NOT_FOUND
    for error in talk.errors.values():
        assert error.data is None
        assert not leaks(error.message)


def test_resources_give_the_public_profile_and_the_transcript(talk: Talk) -> None:
    assert talk.resources == ["rootguard://profile", "rootguard://transcript"]
    assert talk.profile["roots"]["ast"]["bounds"] == [7.0, 272.0]
    assert talk.profile["identifiers"] == ["name"]
    released = [e for e in talk.transcript["events"] if e["kind"] == "value-released"]
    assert talk.transcript["total"] >= len(released) > len(ANSWERED)
    roots = {each["name"]: each["value"] for each in talk.value("roots")["values"]}
    assert {e["name"]: e["value"] for e in released if e["name"] in roots} == roots


def test_no_byte_that_a_server_wrote_holds_a_sentinel(talk: Talk) -> None:
    assert "U/L" in talk.written
    assert not leaks(talk.written)


def test_the_search_for_sentinels_finds_one(talk: Talk) -> None:
    assert leaks(talk.written + SENTINEL)


POLICY = """
[tiers.near]
budget = "3.0"
[tiers.far]
budget = "0.5"
[services.clinic]
tier = "near"
roots = ["ast", "alt"]
formulas = "*"
[services.shop]
tier = "far"
roots = ["ast"]
"""


async def _asked_by_a_service(client: Client) -> dict[str, Any]:
    listed = await client.call_tool("list_values", {})
    return {
        "names": [each["name"] for each in listed.structured_content["values"]],
        "ast": (await client.call_tool("get_values", {"names": ["ast"]})).structured_content,
        "age": await client.call_tool("get_values", {"names": ["age"]}),
        "ratio": await client.call_tool("compute", {"formula": "ast / alt"}),
        "fib4": await client.call_tool("assess", {"template": "fib4"}),
        "transcript": await client.read_resource("rootguard://transcript"),
        "profile": await client.read_resource("rootguard://profile"),
    }


def test_a_service_gets_its_tier_and_only_what_the_policy_allows(tmp_path: Path) -> None:
    profile = write_profile(tmp_path, policy=POLICY)
    heard: dict[str, dict[str, Any]] = {}
    for service in ("clinic", "shop"):
        (tmp_path / service).mkdir()
        tap = Tap(tmp_path / service)
        command = serve_command(profile, "--service", service)
        heard[service] = over_stdio(tap, command, "auto", _asked_by_a_service)
        assert not leaks(tap.written())
    assert heard["clinic"]["names"] == ["ast", "alt"]
    assert heard["shop"]["names"] == ["ast"]
    described = json.loads(heard["shop"]["profile"].contents[0].text)
    assert list(described["roots"]) == ["ast"]
    assert (described["computed"], described["identifiers"]) == ({}, [])
    for service in heard:
        assert json.loads(heard[service]["age"].content[0].text)["code"] == "access_denied"
        assert heard[service]["fib4"].is_error
    assert not heard["clinic"]["ratio"].is_error
    assert heard["shop"]["ratio"].is_error
    told = {
        who: json.loads(heard[who]["transcript"].contents[0].text)["events"][0] for who in heard
    }
    assert {who: (told[who]["recipient"], told[who]["tier"]) for who in told} == {
        "clinic": ("clinic", "near"),
        "shop": ("shop", "far"),
    }
    assert told["clinic"]["levels"] > told["shop"]["levels"]
