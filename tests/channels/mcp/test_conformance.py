"""The MCP project's conformance suite and its inspector, run against `rootguard mcp serve`.

The suite wants a server made for it, with tools such as `test_simple_text`. Ours has five tools and
no prompts, so most scenarios have nothing to look at; which, and what they lack, is listed here,
and each must then fail for that reason and no other. Whatever is not listed must pass.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.canary import NAME, SENTINELS, leaks
from tests.support.mcp_clients import http_server, serve_command, write_profile
from tests.support.mcp_npm import Npm, find_npm, outcomes

REVISIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
PASSES = {
    "2025-06-18": {"ping", "resources-list", "server-initialize", "tools-list"},
    "2025-11-25": {
        *("dns-rebinding-protection", "ping", "resources-list", "server-initialize", "tools-list"),
    },
    "2026-07-28": {
        *("dns-rebinding-protection", "http-header-validation"),
        *("input-required-result-unsupported-methods", "resources-list"),
        *("sep-2164-resource-not-found", "server-sse-multiple-streams", "tools-list"),
    },
}
NEEDS_A_TEST_TOOL = {
    *("elicitation-sep1034-defaults", "elicitation-sep1330-enums"),
    *("http-custom-header-server-validation", "json-schema-2020-12"),
    *("tools-call-audio", "tools-call-elicitation", "tools-call-embedded-resource"),
    *("tools-call-error", "tools-call-image", "tools-call-mixed-content", "tools-call-sampling"),
    *("tools-call-simple-text", "tools-call-with-logging", "tools-call-with-progress"),
}
# A result that asks the client back. Ours never do. Some of these scenarios report success when
# the tool that they call does not exist, which says nothing.
NEEDS_A_TOOL_THAT_ASKS_BACK = {
    f"input-required-result-{rest}"
    for rest in (
        *("basic-elicitation", "basic-list-roots", "basic-sampling", "capability-check"),
        *("ignore-extra-params", "missing-input-response", "multi-round"),
        *("multiple-input-requests", "non-tool-request", "request-state", "result-type"),
        *("tampered-state", "validate-input"),
    )
}
NEEDS_A_TEST_RESOURCE = {
    *("resources-read-binary", "resources-read-text", "resources-templates-read"),
}
NEEDS_A_CAPABILITY = {
    *("completion-complete", "logging-set-level", "prompts-get-embedded-resource"),
    *("prompts-get-simple", "prompts-get-with-args", "prompts-get-with-image", "prompts-list"),
    *("resources-subscribe", "resources-unsubscribe"),
}
NEEDS_A_SESSION = {
    *("server-session-lifecycle", "server-sse-multiple-streams", "server-sse-polling"),
}
NOT_APPLICABLE = {
    *NEEDS_A_TEST_TOOL,
    *NEEDS_A_TOOL_THAT_ASKS_BACK,
    *NEEDS_A_TEST_RESOURCE,
    *NEEDS_A_CAPABILITY,
    *NEEDS_A_SESSION,
}
PARTLY_APPLICABLE = {
    "caching": {"sep-2549-prompts-list-caching-hints"},
    "server-stateless": {
        "sep-2575-http-server-no-independent-requests-on-stream",
        "sep-2575-missing-capability-http-400",
        "sep-2575-server-no-log-without-loglevel",
        "sep-2575-server-rejects-undeclared-capability",
    },
}
"""Scenarios of which these checks alone find nothing to look at."""

LACKING = (
    "Expected InputRequiredResult",
    "Not testable",
    "Prerequisite failed",
    "not found. Available tools:",
    "the parameters do not fit",
    "there is no such method",
)
"""What a check says that misses a tool, a resource or a method."""

CALLS: dict[str, dict[str, Any]] = {
    "list_values": {},
    "get_values": {"names": ["ast", "name", "fib4"]},
    "compute": {"formula": "ast / alt"},
    "answer": {"question": f"My AST is {SENTINELS['ast']}. What is my FIB-4?"},
    "assess": {"template": "fib4"},
}
WAYS = [(way, era) for way in ("stdio", "http") for era in ("modern", "legacy")]


@pytest.fixture(scope="module")
def npm() -> Npm:
    """The tools, or a skip."""
    return find_npm()


@pytest.fixture(scope="module")
def profile(npm: Npm, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A person whose values are the sentinels."""
    return write_profile(tmp_path_factory.mktemp("conformance"))


@pytest.fixture(scope="module")
def address(profile: Path) -> Iterator[str]:
    """A server on HTTP."""
    with http_server(serve_command(profile, "--http", "127.0.0.1:0")) as found:
        yield found


Checks = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module", params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    """Each revision of the protocol that the suite knows."""
    return str(request.param)


@pytest.fixture(scope="module")
def checks(
    npm: Npm, address: str, revision: str, tmp_path_factory: pytest.TempPathFactory
) -> Checks:
    """What the whole suite found in one revision."""
    if npm.version("@modelcontextprotocol/conformance") < "0.2":
        pytest.skip("this conformance suite does not know the current revision")
    folder = tmp_path_factory.mktemp("suite")
    chosen = ("--suite", "all", "--spec-version", revision)
    done = npm.run("conformance", "server", "--url", address, *chosen, "-o", ".", folder=folder)
    assert "=== SUMMARY ===" in done.stdout, done.stderr
    assert not leaks(done.stdout + done.stderr)
    return outcomes(folder)


def _failed(found: list[dict[str, Any]]) -> dict[str, str]:
    failures = [each for each in found if each["status"] == "FAILURE"]
    return {each["id"]: each.get("errorMessage", "") for each in failures}


def test_every_scenario_that_applies_passes(checks: Checks, revision: str) -> None:
    assert PASSES[revision] <= checks.keys()
    for scenario in checks.keys() - (NOT_APPLICABLE - PASSES[revision]):
        failed = _failed(checks[scenario])
        assert failed.keys() <= PARTLY_APPLICABLE.get(scenario, set()), (scenario, failed)
        assert any(each["status"] == "SUCCESS" for each in checks[scenario]), scenario


def test_what_does_not_apply_fails_for_what_the_server_lacks_and_nothing_else(
    checks: Checks,
) -> None:
    failed = {scenario: _failed(found) for scenario, found in checks.items()}
    assert failed["prompts-get-simple"], "the suite finds fault where there is one"
    for scenario, found in failed.items():
        for check, said in found.items():
            assert any(words in said for words in LACKING), (scenario, check, said)


def test_every_message_of_every_scenario_fits_the_schema_of_its_revision(checks: Checks) -> None:
    found = [each for all_ in checks.values() for each in all_ if each["id"] == "wire-schema-valid"]
    assert len(found) > len(checks) / 2
    assert {each["status"] for each in found} == {"SUCCESS"}
    assert sum(each["details"]["messagesValidated"] for each in found) > len(found)


class Inspector:
    """The inspector's command line, at one server in one revision."""

    def __init__(self, npm: Npm, era: str, target: list[str], folder: Path) -> None:
        self._npm = npm
        self._target = ["--", *target]
        self._era = era
        self._folder = folder

    def ask(self, method: str, *more: str, code: int = 0) -> dict[str, Any]:
        """The result of a request, as the inspector prints it."""
        # In milliseconds: a busy machine starts slowly.
        patience = ("--connect-timeout", "120000")
        era = ("--protocol-era", self._era)
        options = ("--cli", *era, *patience, "--format", "json", "--method", method)
        done = self._npm.run("mcp-inspector", *options, *more, *self._target, folder=self._folder)
        assert done.returncode == code, done.stderr
        assert not leaks(done.stdout + done.stderr)
        self.said = done.stderr
        result = json.loads(done.stdout)["result"]
        assert isinstance(result, dict)
        return result

    def call(self, tool: str, arguments: dict[str, Any], code: int = 0) -> dict[str, Any]:
        """The result of a tool."""
        sent = ("--tool-name", tool, "--tool-args-json", json.dumps(arguments))
        return self.ask("tools/call", *sent, code=code)


@pytest.fixture(params=WAYS, ids="-".join)
def inspector(
    request: pytest.FixtureRequest, npm: Npm, profile: Path, address: str, tmp_path: Path
) -> Inspector:
    """Over both transports, in both revisions."""
    way, era = request.param
    target = serve_command(profile) if way == "stdio" else [address]
    return Inspector(npm, era, target, tmp_path)


@pytest.mark.slow
def test_the_inspector_lists_the_tools_and_finds_their_schemas_portable(
    inspector: Inspector,
) -> None:
    listed = inspector.ask("tools/list", "--strict")["tools"]
    assert [tool["name"] for tool in listed] == list(CALLS)
    assert "Warning" not in inspector.said
    assert "Error" not in inspector.said


@pytest.mark.slow
def test_the_inspector_calls_every_tool(inspector: Inspector) -> None:
    given = {tool: inspector.call(tool, sent) for tool, sent in CALLS.items()}
    for result in given.values():
        assert not result["isError"]
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    value = given["assess"]["structuredContent"]["value"]
    assert value == given["get_values"]["structuredContent"]["values"][2]["value"]


@pytest.mark.slow
def test_the_inspector_shows_a_refusal_as_an_error_of_the_tool(inspector: Inspector) -> None:
    refused = inspector.call("get_values", {"names": [NAME]}, code=5)
    assert refused["isError"]
    assert json.loads(refused["content"][0]["text"])["code"] == "unknown_name"


@pytest.mark.slow
def test_the_inspector_reads_every_resource(inspector: Inspector) -> None:
    listed = [each["uri"] for each in inspector.ask("resources/list")["resources"]]
    assert listed == ["rootguard://profile", "rootguard://transcript"]
    for uri in listed:
        (content,) = inspector.ask("resources/read", "--uri", uri)["contents"]
        assert isinstance(json.loads(content["text"]), dict)
    assert inspector.ask("resources/templates/list")["resourceTemplates"] == []
