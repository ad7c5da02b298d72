"""Who may teach a value behind the proxy: the owner in a form, and a trusted tool."""

import json
from pathlib import Path
from typing import Any

import pytest

from rootguard.session import Person, load_profile
from rootguard.vault import open_store
from tests.support.mcp_proxies import DOUBLE, Message, Reply, Wire, proxy_command, text_of

# At this budget the noise hardly ever moves a value, so a released one shows whose number it was.
POLICY = """
[tiers.clinic]
budget = "200"
[services.clinic]
tier = "clinic"
roots = "*"
formulas = "*"
"""


class Owner:
    """A person whose vault is empty, and what the server behind the proxy got."""

    def __init__(self, folder: Path, sources: str = "") -> None:
        (folder / "policy.toml").write_text(POLICY + sources, encoding="utf-8")
        self.seen = folder / "seen"
        self.seen.touch()
        self._vault = f"sqlite:///{folder}/v.sqlite3"
        self.profile = folder / "me.toml"
        self.profile.write_text(
            f'templates = ["fib4"]\npolicy = "policy.toml"\nstore = "{self._vault}"\n',
            encoding="utf-8",
        )

    def wire(self, replies: dict[str, Reply] | None = None) -> Wire:
        command = proxy_command(self.profile, "clinic", [*DOUBLE, str(self.seen)])
        return Wire(command, replies)

    def person(self) -> Person:
        return Person.open(load_profile(self.profile), store=open_store(self._vault))

    @property
    def untouched(self) -> bool:
        person = self.person()
        return not person.known("ast") and not any(person.spent().values())

    def sent(self, method: str = "tools/call") -> list[Message]:
        lines = self.seen.read_text(encoding="utf-8").splitlines()
        return [m["params"] for m in map(json.loads, lines) if m.get("method") == method]

    def answers(self) -> dict[str, Message]:
        """What the client answered to the server, by the server's id."""
        lines = map(json.loads, self.seen.read_text(encoding="utf-8").splitlines())
        return {m["id"]: m for m in lines if "method" not in m}


def test_what_an_agent_writes_for_a_root_without_a_value_is_refused_and_the_agent_is_told_why(
    tmp_path: Path,
) -> None:
    owner = Owner(tmp_path)
    asked: tuple[tuple[str, dict[str, Any]], ...] = (
        ("tools/call", {"name": "fine", "arguments": {"ast": 271}}),
        ("tools/call", {"name": "fine", "arguments": {"note": "AST is 271 U/L"}}),
        ("tools/call", {"name": "fine", "arguments": {"labs": {"ast": 271}}}),
        ("prompts/get", {"name": "visit", "arguments": {"patient_name": "x", "ast": "271"}}),
        ("resources/read", {"uri": "labs://x/ast/271"}),
    )
    with owner.wire() as wire:
        wire.initialize()
        for method, params in asked:
            answer = wire.ask(method, params)
            if method == "tools/call":
                assert answer["result"]["isError"] is True
                told = json.loads(text_of(answer))
            else:
                told = {**answer["error"]["data"], "message": answer["error"]["message"]}
            assert told["code"] == "missing_value"
            assert told["message"].endswith("or in a chat through the gateway: ast")
            assert "271" not in told["message"]
    assert owner.untouched
    assert "271" not in owner.seen.read_text(encoding="utf-8")


def test_what_a_tool_says_or_a_model_samples_teaches_nothing(tmp_path: Path) -> None:
    owner = Owner(tmp_path)
    sample = {"type": "text", "text": "AST is 271 U/L"}
    replies: dict[str, Reply] = {
        "sampling/createMessage": lambda _: {"role": "user", "content": sample, "model": "m"}
    }
    with owner.wire(replies) as wire:
        wire.initialize({"sampling": {}})
        for tool in ("labs", "panel", "media"):
            assert "result" in wire.call(tool, {})
        wire.call("fine", {})  # so that the sample was answered
    assert owner.answers()["s"]["error"]["data"]["code"] == "private_value_refused"
    assert owner.untouched
    assert "271" not in owner.seen.read_text(encoding="utf-8")


def test_the_owners_answer_to_a_form_is_noised_and_the_agents_number_is_not(
    tmp_path: Path,
) -> None:
    owner = Owner(tmp_path)
    replies: dict[str, Reply] = {
        "elicitation/create": lambda _: {"action": "accept", "content": {"ast": 23}}
    }
    with owner.wire(replies) as wire:
        wire.initialize({"elicitation": {}})
        wire.call("fine", {"ast": 271})
        wire.call("more", {})
        wire.call("fine", {"ast": 271})
    value = float(owner.person().release("ast"))
    assert abs(value - 23) < 2
    assert owner.answers()["f"]["result"]["content"]["ast"] == pytest.approx(value, rel=1e-10)
    (sent,) = [call for call in owner.sent() if call["name"] == "fine"]
    assert sent["arguments"]["ast"] == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize("name", ["labs", "clinic/labs"])
def test_the_result_of_a_trusted_tool_teaches_and_reaches_the_client_as_it_is(
    tmp_path: Path, name: str
) -> None:
    owner = Owner(tmp_path, f'[sources]\ntools = ["{name}"]\n')
    with owner.wire() as wire:
        wire.initialize()
        assert wire.call("labs", {"ast": 271})["result"]["isError"] is True
        assert owner.untouched
        wire.call("panel", {})
        assert owner.untouched
        assert text_of(wire.call("labs", {})) == "AST: 23 U/L"
        wire.call("fine", {"ast": 271})
    value = float(owner.person().release("ast"))
    assert abs(value - 23) < 2
    (sent,) = [call for call in owner.sent() if call["name"] == "fine"]
    assert sent["arguments"]["ast"] == pytest.approx(value, rel=1e-10)


def test_a_trusted_tools_structured_result_teaches(tmp_path: Path) -> None:
    owner = Owner(tmp_path, '[sources]\ntools = ["market/labs", "panel"]\n')
    with owner.wire() as wire:
        wire.initialize()
        wire.call("labs", {})
        assert owner.untouched
        wire.call("panel", {})
    assert abs(float(owner.person().release("ast")) - 271) < 2
