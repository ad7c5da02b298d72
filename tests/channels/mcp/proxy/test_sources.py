"""Who may teach a value behind the proxy: the owner in a form, and a trusted tool."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from rootguard.channels.mcp.jsonrpc import Limits
from rootguard.channels.mcp.proxy.offers import Arguments, MissingValueError, Offers
from rootguard.channels.mcp.proxy.relay import Relay
from rootguard.channels.mcp.proxy.rewriting import ReplyRestorer, RequestRewriter
from rootguard.errors import BudgetError, RootGuardError
from rootguard.session import Person, load_profile
from rootguard.vault import open_store
from tests.support.canary import everything
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
        self.vault = f"sqlite:///{folder}/v.sqlite3"
        self.profile = folder / "me.toml"
        self.profile.write_text(
            f'templates = ["fib4"]\npolicy = "policy.toml"\nstore = "{self.vault}"\n',
            encoding="utf-8",
        )

    def wire(self, replies: dict[str, Reply] | None = None) -> Wire:
        command = proxy_command(self.profile, "clinic", [*DOUBLE, str(self.seen)])
        return Wire(command, replies)

    def person(self) -> Person:
        return Person.open(load_profile(self.profile), store=open_store(self.vault))

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
    value = owner.person().number("ast")
    assert abs(value - 23) < 2
    assert owner.answers()["f"]["result"]["content"]["ast"] == round(value)
    (sent,) = [call for call in owner.sent() if call["name"] == "fine"]
    assert sent["arguments"]["ast"] == round(value)


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
    value = owner.person().number("ast")
    assert abs(value - 23) < 2
    (sent,) = [call for call in owner.sent() if call["name"] == "fine"]
    assert sent["arguments"]["ast"] == round(value)


def test_a_trusted_tools_structured_result_teaches(tmp_path: Path) -> None:
    owner = Owner(tmp_path, '[sources]\ntools = ["market/labs", "panel"]\n')
    with owner.wire() as wire:
        wire.initialize()
        wire.call("labs", {})
        assert owner.untouched
        wire.call("panel", {})
    assert abs(owner.person().number("ast") - 271) < 2


SENTINEL = 171.37
RESULT = {"structuredContent": {"ast": SENTINEL}, "content": [{"text": f"AST {SENTINEL}"}]}
SCHEMA = {"type": "object", "properties": {"ast": {"type": "number", "description": "AST in U/L"}}}
REFUSED: dict[str, Callable[[Arguments], object]] = {
    "a parameter": lambda made: made.fill(
        made.reading("t", "A laboratory.", SCHEMA), {"ast": SENTINEL}
    ),
    "a note": lambda made: made.fill(made.reading("t", "", {}), {"note": f"AST {SENTINEL}"}),
    "a text": lambda made: made.text(f"AST is {SENTINEL}"),
    "a document": lambda made: made.json({"ast": SENTINEL}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_the_value_and_holds_nothing_of_it(tmp_path: Path, case: str) -> None:
    person = Owner(tmp_path).person()
    with pytest.raises(MissingValueError) as caught:
        REFUSED[case](Arguments(person))
    assert caught.value.roots == ("ast",)
    assert str(SENTINEL) not in everything(caught.value)
    assert not any(person.spent().values())


def test_a_value_that_cannot_be_stored_costs_the_client_nothing_and_is_told_to_the_owner(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    owner = Owner(tmp_path, '[sources]\ntools = ["labs"]\n')
    person = owner.person()
    open_store(owner.vault).set_cap(person.principal, "ast", 1)
    arguments, offers = Arguments(person), Offers()
    with pytest.raises(BudgetError) as caught:
        arguments.learn("clinic", "labs", RESULT)
    assert str(SENTINEL) not in everything(caught.value)
    rewriter = RequestRewriter(arguments, offers)
    restorer = ReplyRestorer(person.restore)
    relay = Relay("clinic", unreachable, rewriter, restorer, offers, Limits())
    relay._learn("labs", RESULT)
    told = capsys.readouterr().err
    assert told.startswith("rootguard: values in a result of the server clinic were not stored")
    assert str(SENTINEL) not in told
    assert owner.untouched


def unreachable(*_: object) -> NoReturn:
    raise RootGuardError("there is no server here")


@pytest.mark.parametrize("result", [{**RESULT, "isError": True}, {}, {"content": "AST 171.37"}])
def test_an_error_of_a_trusted_tool_and_a_result_without_text_teach_nothing(
    tmp_path: Path, result: Message
) -> None:
    owner = Owner(tmp_path, '[sources]\ntools = ["labs"]\n')
    Arguments(owner.person()).learn("clinic", "labs", result)
    assert owner.untouched
