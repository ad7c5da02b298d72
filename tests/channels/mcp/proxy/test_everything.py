"""The official reference server through the proxy and without it: the same transcript.

`@modelcontextprotocol/server-everything` of the npm registry, in the folder that the variable
ROOTGUARD_EVERYTHING names or in npm's own; without it these tests are skipped. The person has
values, and nothing that is said here mentions one.
"""

import base64
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.mcp_proxies import POLICY, Message, Wire, proxy_command

PACKAGE = Path("@modelcontextprotocol/server-everything/dist/index.js")
CAPABILITIES = {
    "sampling": {},
    "elicitation": {"form": {}, "url": {}},
    "roots": {"listChanged": True},
    "tasks": {
        "list": {},
        "cancel": {},
        "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
    },
}
FORM = {"name": "", "check": True, "firstLine": "a line", "integer": 4, "number": 2.5}
ARGUMENTS: dict[str, Message] = {
    "echo": {"message": "good morning"},
    "get-annotated-message": {"messageType": "error", "includeImage": True},
    "get-resource-links": {"count": 4},
    "get-resource-reference": {"resourceType": "Blob", "resourceId": 3},
    "get-structured-content": {"location": "Chicago"},
    "get-sum": {"a": 19.5, "b": 23},
    "gzip-file-as-resource": {"name": "a.gz", "data": "data:text/plain,abc"},
    "simulate-research-query": {"topic": "tides", "ambiguous": False},
    "trigger-long-running-operation": {"duration": 0.3, "steps": 3},
    "trigger-sampling-request": {"prompt": "say something", "maxTokens": 20},
    "trigger-sampling-request-async": {"prompt": "say something", "maxTokens": 20},
    "trigger-url-elicitation": {"url": "https://example.org/go", "elicitationId": "first"},
}
PROMPTS: dict[str, Message] = {
    "args-prompt": {"city": "the harbour", "state": "ashore"},
    "completable-prompt": {"department": "Sales", "name": "Eve"},
    "resource-prompt": {"resourceType": "Text", "resourceId": "2"},
}


def everything() -> list[str]:
    """The command, or the reason to skip."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    place = os.environ.get("ROOTGUARD_NPM")
    if not place:
        pytest.skip("ROOTGUARD_NPM names no folder with npm packages (`make npm` makes one)")
    path = Path(place) / "node_modules" / PACKAGE
    if not path.is_file():
        pytest.skip("@modelcontextprotocol/server-everything is not in ROOTGUARD_NPM")
    return [node, str(path), "stdio"]


def _sampled(params: Message) -> Message:
    if "task" in params:
        return {"task": _task("working")}
    said = {"type": "text", "text": "as you like it"}
    return {"role": "assistant", "content": said, "model": "none", "stopReason": "endTurn"}


def _task(status: str) -> Message:
    return {"taskId": "task-1", "status": status, "ttl": None, "pollInterval": 10}


REPLIES: dict[str, Callable[[Message], Message]] = {
    "elicitation/create": lambda params: (
        {"action": "accept"}
        if params.get("mode") == "url"
        else {"action": "accept", "content": {"check": True, "firstLine": "a line", "integer": 4}}
    ),
    "roots/list": lambda _: {"roots": [{"uri": "file:///srv/project", "name": "project"}]},
    "sampling/createMessage": _sampled,
    "tasks/get": lambda _: _task("completed"),
    "tasks/result": lambda _: _sampled({}),
}


def _plain(value: object) -> object:
    """Without what is different each time: times, and names of tasks."""

    def opened(match: re.Match[str]) -> str:
        return json.dumps(f"blob {base64.b64decode(match[1])!r}")

    whole = re.sub(r'"blob": "([^"]*)"', lambda m: f'"blob": {opened(m)}', json.dumps(value))
    value = json.loads(whole)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "WHEN", json.dumps(value, sort_keys=True))
    text = re.sub(r"\d{1,2}:\d\d:\d\d( [AP]M)?", "WHEN", text)
    plain: object = json.loads(re.sub(r'"taskId": "[0-9a-f]{16,}"', '"taskId": "T"', text))
    return plain


def _tour(command: Sequence[str]) -> dict[str, Any]:
    """Everything that the server offers, once."""
    with Wire(command, REPLIES) as wire:
        seen: dict[str, Any] = {"initialize": wire.initialize(CAPABILITIES)}
        lists = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
        for method in lists:
            seen[method] = wire.ask(method)
        tools = seen["tools/list"]["result"]["tools"]
        for tool in tools:
            name = tool["name"]
            if name.startswith(("toggle-", "get-env")):
                continue
            params: Message = {"name": name, "arguments": ARGUMENTS.get(name, {})}
            params["_meta"] = {"progressToken": f"p-{name}"}
            if tool["execution"]["taskSupport"] == "required":
                seen[name] = _run_task(wire, params)
            else:
                seen[name] = wire.ask("tools/call", params)
        seen["get-env"] = "result" in wire.call("get-env", {})
        for resource in seen["resources/list"]["result"]["resources"]:
            seen[resource["uri"]] = wire.ask("resources/read", {"uri": resource["uri"]})
        for uri in ("text/1", "blob/2", "text/none"):
            address = f"demo://resource/dynamic/{uri}"
            seen[address] = wire.ask("resources/read", {"uri": address})
        for prompt in seen["prompts/list"]["result"]["prompts"]:
            given = PROMPTS.get(prompt["name"], {})
            seen[prompt["name"]] = wire.ask(
                "prompts/get", {"name": prompt["name"], "arguments": given}
            )
        seen.update(_completions(wire))
        seen.update(_failures(wire))
        seen["level"] = wire.ask("logging/setLevel", {"level": "debug"})
        address = "demo://resource/dynamic/text/1"
        seen["subscribe"] = wire.ask("resources/subscribe", {"uri": address})
        for toggle in ("toggle-simulated-logging", "toggle-subscriber-updates"):
            seen[toggle] = wire.call(toggle, {})
            seen[f"{toggle} off"] = wire.call(toggle, {})
        seen["unsubscribe"] = wire.ask("resources/unsubscribe", {"uri": address})
        seen["ping"] = wire.ask("ping")
        seen["progress"] = [m for m in wire.heard if m.get("method") == "notifications/progress"]
        asked = [m for m in wire.heard if "method" in m and "id" in m]
        seen["asked"] = [{k: v for k, v in m.items() if k != "id"} for m in asked]
        told = {m["method"] for m in wire.heard if "method" in m and "id" not in m}
        seen["told"] = sorted(told)
    return seen


def _run_task(wire: Wire, params: Message) -> list[Message]:
    begun = wire.ask("tools/call", {**params, "task": {"ttl": 60_000}})
    task = {"taskId": begun["result"]["task"]["taskId"]}
    looked = wire.ask("tasks/get", task)
    looked["result"].pop("lastUpdatedAt")
    looked["result"].pop("status")
    looked["result"].pop("statusMessage", None)
    return [begun, looked, wire.ask("tasks/result", task)]


def _completions(wire: Wire) -> dict[str, Message]:
    prompt = {"type": "ref/prompt", "name": "completable-prompt"}
    template = {"type": "ref/resource", "uri": "demo://resource/dynamic/text/{resourceId}"}
    return {
        "complete a prompt": wire.ask(
            "completion/complete",
            {
                "ref": prompt,
                "argument": {"name": "name", "value": ""},
                "context": {"arguments": {"department": "Support"}},
            },
        ),
        "complete an address": wire.ask(
            "completion/complete",
            {"ref": template, "argument": {"name": "resourceId", "value": "7"}},
        ),
    }


def _failures(wire: Wire) -> dict[str, Message]:
    """Errors that the server itself gives."""
    return {
        "wrong arguments": wire.call("get-sum", {"a": "x", "b": True}),
        "none at all": wire.ask("tools/call", {"name": "echo"}),
        "no such type": wire.ask(
            "prompts/get",
            {"name": "resource-prompt", "arguments": {"resourceType": "No", "resourceId": "1"}},
        ),
    }


@pytest.fixture(scope="module")
def transcripts(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    folder = tmp_path_factory.mktemp("everything")
    (folder / "policy.toml").write_text(POLICY, encoding="utf-8")
    profile = folder / "me.toml"
    profile.write_text(
        'templates = ["fib4"]\npolicy = "policy.toml"\nstore = "sqlite:///v.sqlite3"\n'
        "[values]\nage = 54\nast = 23\nalt = 30\nplt = 220\n",
        encoding="utf-8",
    )
    server = everything()
    return _tour(server), _tour(proxy_command(profile, "clinic", server))


def test_every_tool_resource_and_prompt_answers_as_without_the_proxy(
    transcripts: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    direct, proxied = transcripts
    assert direct.keys() == proxied.keys()
    assert len(direct) > 40
    different = {k for k in direct if _plain(direct[k]) != _plain(proxied[k])}
    shown = {k: (_plain(direct[k]), _plain(proxied[k])) for k in different}
    assert not different, json.dumps(shown, indent=1)[:4000]


def test_what_the_server_asks_and_tells_passes_through_the_proxy(
    transcripts: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    _, proxied = transcripts
    asked = {message["method"] for message in proxied["asked"]}
    expected = {"sampling/createMessage", "elicitation/create", "roots/list", "tasks/result"}
    assert expected <= asked
    tokens = {message["params"]["progressToken"] for message in proxied["progress"]}
    assert tokens == {"p-trigger-long-running-operation"}
    assert "notifications/message" in proxied["told"]
    assert "image" in json.dumps(proxied["get-tiny-image"])
    assert "resource_link" in json.dumps(proxied["get-resource-links"])
