"""One server behind the proxy, without processes: what it is sent, and what is not sent at all."""

import json
from typing import Any

import pytest

from rootguard.channels.mcp import jsonrpc as rpc
from rootguard.channels.mcp.jsonrpc import Id, Limits, Message
from rootguard.channels.mcp.proxy.links import Hear, Lost
from rootguard.channels.mcp.proxy.offers import Arguments, Offers
from rootguard.channels.mcp.proxy.relay import ClientRequest, OnAnswer, Relay
from rootguard.channels.mcp.proxy.rewriting import ReplyRestorer, RequestRewriter
from rootguard.session import Person, parse_profile
from rootguard.vault import open_store

NAME = "Marguerite Oyelaran"
PROFILE = f"""
templates = ["egfr"]
budget = "0.9"

[values]
age = 61
scr = 1.25
female = 1

[identifiers]
name = "{NAME}"
"""
SEX = {"type": "string", "enum": ["male", "female"]}
TEXTS = {"ward": {"type": "string", "enum": ["north", NAME]}, "note": {"type": "string"}}
VISIT = {
    "name": "visit",
    "description": "Notes a visit.",
    "inputSchema": {"type": "object", "properties": TEXTS},
}
UNSURE = {
    "name": "unsure",
    "description": "Notes a visit.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "age": {"type": "string", "enum": ["young", "old"]},
            "sex": {"type": "string"},
        },
    },
}
"""One has choices and a root of many values, the other a root of two values and no choices: a text
in either place may be a private value, each for a reason of its own."""
KIDNEY = {
    "name": "egfr",
    "description": "Estimated glomerular filtration rate (CKD-EPI 2021) of the patient.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "age": {"type": "number", "description": "Age of the patient in years"},
            "creatinine": {"type": "number", "description": "Serum creatinine in mg/dL"},
            "sex": {**SEX, "description": "Sex of the patient"},
        },
        "required": ["age", "creatinine", "sex"],
    },
}


class Server:
    """A link to a server that lists three tools and says every call back."""

    def __init__(self) -> None:
        self.pages: list[list[Message]] = [[VISIT], [UNSURE, KIDNEY]]
        self.received: list[Message] = []

    def __call__(self, hear: Hear, lost: Lost, limits: Limits) -> "Server":
        self.hear = hear
        return self

    def send(self, message: Message) -> None:
        self.received.append(message)
        if "method" not in message:
            return
        page = int(message["params"].get("cursor", 0))
        result: Message = {"tools": self.pages[page]}
        if page + 1 < len(self.pages):
            result["nextCursor"] = str(page + 1)
        if message["method"] == "tools/call":
            result = {"content": [{"type": "text", "text": json.dumps(message["params"])}]}
        self.hear(rpc.write(rpc.result(message["id"], result)))

    def close(self, *, at_once: bool = False) -> None:
        pass


class Client:
    """A client that is told nothing and answers what it is asked at once, before `ask` returns."""

    def tell(self, method: str, params: Message, relay: object) -> None:
        raise AssertionError(method)

    def ask(self, method: str, params: Message, done: OnAnswer) -> Id:
        done({"roots": []}, None)
        return 1

    def forget(self, name: Id) -> None:
        raise AssertionError(name)


class Behind:
    """A relay for one person, and the server behind it."""

    def __init__(self) -> None:
        profile = parse_profile(PROFILE, file="me.toml")
        self.person = Person.open(profile, store=open_store("memory:"))
        self.server = Server()
        offers = Offers()
        rewriter = RequestRewriter(Arguments(self.person), offers)
        restorer = ReplyRestorer(self.person.restore)
        self.relay = Relay("clinic", self.server, rewriter, restorer, offers, Limits())
        self.relay.start(Client())

    def call(self, tool: str, arguments: dict[str, Any]) -> tuple[Message | None, Message | None]:
        answers: list[tuple[Message | None, Message | None]] = []
        params = {"name": tool, "arguments": arguments}
        self.relay.forward(ClientRequest("tools/call", params, lambda *said: answers.append(said)))
        assert len(answers) == 1
        return answers[0]

    @property
    def called(self) -> list[Message]:
        return [m["params"] for m in self.server.received if m.get("method") == "tools/call"]

    def arguments(self, tool: str, given: dict[str, Any]) -> dict[str, Any]:
        """What the server got of these."""
        result, error = self.call(tool, given)
        assert error is None
        assert result is not None
        assert not result.get("isError"), result
        made: dict[str, Any] = self.called[-1]["arguments"]
        return made


@pytest.fixture
def behind() -> Behind:
    return Behind()


@pytest.mark.parametrize("tool", ["visits", "", NAME])
def test_a_tool_that_the_server_never_offered_is_not_called(behind: Behind, tool: str) -> None:
    result, error = behind.call(tool, {"note": "hello"})
    assert result is None
    assert error is not None
    assert error["data"] == {"code": "unknown_name"}
    assert behind.called == []
    assert NAME not in json.dumps(error)
    assert [m["method"] for m in behind.server.received] == ["tools/list"] * 2  # it was looked for


def test_a_tool_that_was_withdrawn_is_not_called_any_more(behind: Behind) -> None:
    assert behind.arguments("visit", {"note": "hello"}) == {"note": "hello"}
    behind.server.pages = [[KIDNEY]]
    behind.relay.list_all("tools/list")
    _, error = behind.call("visit", {"note": "hello"})
    assert error is not None
    assert error["data"] == {"code": "unknown_name"}
    assert len(behind.called) == 1


def test_a_choice_that_the_schema_lists_passes_as_it_is(behind: Behind) -> None:
    """The server said it first, so it tells the server nothing: not even a name is replaced."""
    assert behind.arguments("visit", {"ward": NAME}) == {"ward": NAME}


def test_a_text_that_the_schema_does_not_list_is_no_choice(behind: Behind) -> None:
    sent = behind.arguments("visit", {"ward": f"with {NAME}"})["ward"]
    assert NAME not in sent
    assert sent.startswith("with ")


def test_what_one_parameter_lists_is_no_choice_of_another(behind: Behind) -> None:
    assert NAME not in behind.arguments("visit", {"note": NAME})["note"]


@pytest.mark.parametrize("given", ["male", "female"])
def test_a_choice_that_is_a_private_value_becomes_the_released_one(
    behind: Behind, given: str
) -> None:
    released = "female" if behind.person.release("female") else "male"
    asked = {"age": 1, "creatinine": 1, "sex": given}
    assert behind.arguments("egfr", asked)["sex"] == released


@pytest.mark.parametrize("given", [{"age": "old"}, {"age": "neither"}, {"sex": "female"}])
def test_a_choice_that_may_be_a_private_value_is_refused(
    behind: Behind, given: dict[str, str]
) -> None:
    result, _ = behind.call("unsure", given)
    assert result is not None
    assert json.loads(result["content"][0]["text"])["code"] == "ambiguous_parameter"
    assert behind.called == []


def test_a_server_may_ask_ever_so_often_if_it_is_answered_each_time(behind: Behind) -> None:
    for number in range(3 * Limits().asked):
        behind.server.hear(rpc.write(rpc.request(number, "roots/list", {})))
    answers = behind.server.received
    assert len(answers) == 3 * Limits().asked
    assert [each["result"] for each in answers] == [{"roots": []}] * len(answers)


def test_a_tool_of_the_second_page_is_known_while_a_client_reads_the_first_anew(
    behind: Behind,
) -> None:
    behind.relay.list_all("tools/list")
    behind.relay.ask("tools/list", {})
    assert behind.arguments("egfr", {"age": 1, "creatinine": 1, "sex": "male"})["age"] != 1
