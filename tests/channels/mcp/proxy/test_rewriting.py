"""What is kept of requests and replies: rules by method, and nothing that has no rule."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from rootguard.channels.faults import RequestRefusedError
from rootguard.channels.mcp.jsonrpc import Message
from rootguard.channels.mcp.proxy.offers import Arguments, Offers, ServerRequest
from rootguard.channels.mcp.proxy.rewriting import ClientTasks, ReplyRestorer, RequestRewriter
from rootguard.errors import TextBlockedError
from rootguard.session import Person, parse_profile
from rootguard.vault import open_store

NAME = "Marguerite Oyelaran"
META = "io.modelcontextprotocol/"
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


class Sides:
    def __init__(self) -> None:
        profile = parse_profile(PROFILE, file="me.toml")
        person = Person.open(profile, store=open_store("memory:"))
        self.token = str(person.release("name"))
        self.age = f"{person.release('age'):.0f}"
        self.offers = Offers()
        self.rewriter = RequestRewriter(Arguments(person), self.offers)
        self.restorer = ReplyRestorer(person.restore)

    def refusal(self, method: str, params: Message) -> str:
        with pytest.raises(RequestRefusedError) as caught:
            self.rewriter.params(method, params)
        return caught.value.fault.code

    def reply(self, method: str, result: Message, **params: object) -> Message:
        return self.rewriter.reply(ServerRequest(method, params), result)

    def reply_refusal(self, method: str, result: Message, **params: object) -> str:
        with pytest.raises(RequestRefusedError) as caught:
            self.reply(method, result, **params)
        return caught.value.fault.code


@pytest.fixture(scope="module")
def sides() -> Sides:
    return Sides()


def test_of_a_greeting_the_revision_and_flags_are_kept(sides: Sides) -> None:
    deep: dict[str, Any] = {"a": {"b": {"c": {"d": {"e": True}}}}}
    given = {
        "protocolVersion": "2025-11-25",
        "capabilities": {
            "tasks": {"list": True, "requests": {"on": False, "note": NAME}, "n1": True},
            "roots": deep,
            "sampling": 5,
            "experimental": {"x": True},
        },
        "clientInfo": {"name": NAME},
    }
    made = sides.rewriter.params("initialize", given)
    assert made["capabilities"] == {
        "tasks": {"list": True, "requests": {"on": False}},
        "roots": {"a": {"b": {"c": {"d": {}}}}},
        "sampling": {},
    }
    assert made["clientInfo"]["name"] == "rootguard-proxy"
    for wrong in ("25-11-25", NAME, None):
        code = sides.refusal("initialize", {"protocolVersion": wrong})
        assert code == ("wrong_type" if wrong is None else "bad_value")


def test_of_meta_the_revision_and_the_level_are_kept(sides: Sides) -> None:
    named = {f"{META}protocolVersion": "2026-07-28", f"{META}clientCapabilities": {"roots": {}}}
    made = sides.rewriter.meta({"_meta": {**named, f"{META}clientInfo": NAME, "x": NAME}})
    assert made.keys() == {*named, f"{META}clientInfo"}
    assert NAME not in json.dumps(made)
    assert sides.rewriter.meta({"_meta": {f"{META}logLevel": "debug"}}) == {
        f"{META}logLevel": "debug"
    }
    assert sides.rewriter.meta({"_meta": {f"{META}logLevel": NAME}}) == {}
    assert sides.rewriter.meta({"_meta": NAME}) == {}
    assert sides.rewriter.meta({}) == {}


def test_what_has_no_rule_is_refused(sides: Sides) -> None:
    assert sides.rewriter.knows("tools/call")
    assert not sides.rewriter.knows("tools/invented")
    assert sides.refusal("tools/list", {"cursor": None, "x": 1}) == "unknown_field"
    assert sides.refusal("tools/list", {"cursor": "never said"}) == "bad_value"
    assert sides.rewriter.params("tools/list", {"cursor": None, "_meta": {}}) == {}
    assert sides.refusal("logging/setLevel", {"level": NAME}) == "bad_value"
    assert sides.rewriter.params("logging/setLevel", {"level": "alert"}) == {"level": "alert"}
    assert sides.refusal("tasks/get", {"taskId": 5}) == "wrong_type"
    assert sides.refusal("tools/call", {"name": "never offered"}) == "unknown_name"
    assert sides.refusal("prompts/get", {"name": "never offered"}) == "unknown_name"
    assert sides.rewriter.params("server/discover", {}) == {}


def test_what_the_server_said_first_goes_back_to_it(sides: Sides) -> None:
    asked = {"a": {"method": "roots/list"}}
    said = {"nextCursor": "c", "requestState": "s", "inputRequests": asked}
    sides.offers.learn("tools/call", {}, {**said, "tools": []})
    assert sides.rewriter.params("tools/list", {"cursor": "c"}) == {"cursor": "c"}
    sides.offers.learn("tools/list", {}, {"tools": [{"name": "t"}]})
    given = {"name": "t", "requestState": "s", "inputResponses": {"a": {"roots": []}}}
    assert sides.rewriter.params("tools/call", given) == {
        "name": "t",
        "requestState": "s",
        "inputResponses": {"a": {"roots": []}},
    }
    unasked = {"name": "t", "inputResponses": {"b": {}}}
    assert sides.refusal("tools/call", unasked) == "bad_value"


@pytest.mark.parametrize(
    ("ttl", "kept"),
    [(0, True), (10**9, True), (10**9 + 1, False), (-1, False), (True, False), (1.5, False)],
)
def test_how_long_a_task_is_kept_is_a_whole_number_within_eleven_days(
    sides: Sides, ttl: object, kept: bool
) -> None:
    sides.offers.learn("tools/list", {}, {"tools": [{"name": "t"}]})
    made = sides.rewriter.params("tools/call", {"name": "t", "task": {"ttl": ttl}})
    assert made == {"name": "t", "task": {"ttl": ttl} if kept else {}}


def test_a_subscription_names_flags_and_addresses(sides: Sides) -> None:
    sides.offers.uris.add("file:///said")
    wanted = {"toolsListChanged": True, "note": NAME, "n1": True}
    wanted["resourceSubscriptions"] = ["file:///said"]
    made = sides.rewriter.params("subscriptions/listen", {"notifications": wanted})
    assert made["notifications"] == {
        "toolsListChanged": True,
        "resourceSubscriptions": ["file:///said"],
    }
    wrong = {"notifications": {"resourceSubscriptions": "file:///said"}}
    assert sides.refusal("subscriptions/listen", wrong) == "wrong_type"


def test_an_address_goes_as_it_was_said_or_without_names(sides: Sides) -> None:
    def read(uri: str) -> str:
        made = sides.rewriter.params("resources/read", {"uri": uri})["uri"]
        assert isinstance(made, str)
        return made

    assert read("file:///a%20b") == "file:///a%20b"
    assert "Oyelaran" not in read("file:///of/Marguerite%20Oyelaran")
    sides.offers.uris.add("file:///Marguerite%20Oyelaran")
    assert read("file:///Marguerite%20Oyelaran") == "file:///Marguerite%20Oyelaran"
    assert sides.rewriter.fits("note://{who}", "note://a")
    assert not sides.rewriter.fits("note://{who}", "other://a")
    assert not sides.rewriter.fits("note://{", "note://{")


def test_answers_of_the_client_are_rebuilt_by_what_was_asked(sides: Sides) -> None:
    text = {"type": "text", "text": f"I am {NAME}", "annotations": {}}
    use = {"type": "tool_use", "id": "1", "name": "f", "input": {"who": NAME}, "x": 1}
    said = {"role": "assistant", "model": "m", "content": text}
    one = sides.reply("sampling/createMessage", said)
    assert one == {
        "role": "assistant",
        "model": "m",
        "content": {"type": "text", "text": f"I am {sides.token}"},
    }
    both = sides.reply(
        "sampling/createMessage", {**said, "content": [text, use], "stopReason": "endTurn"}
    )
    assert both["stopReason"] == "endTurn"
    assert both["content"][1] == {
        "type": "tool_use",
        "id": "1",
        "name": "f",
        "input": {"who": sides.token},
    }
    image = {**said, "content": {"type": "image", "data": "AAAA"}}
    assert sides.reply_refusal("sampling/createMessage", image) == "media_refused"
    assert sides.reply_refusal("sampling/createMessage", {**said, "role": "x"}) == "bad_value"
    roots = {"roots": [{"uri": "file:///x", "name": NAME, "y": 1}, {"uri": "file:///z"}]}
    assert sides.reply("roots/list", roots) == {
        "roots": [{"uri": "file:///x", "name": sides.token}, {"uri": "file:///z"}]
    }
    assert sides.reply("elicitation/create", {"action": "decline", "content": {"a": NAME}}) == {
        "action": "decline"
    }
    assert sides.reply("elicitation/create", {"action": "accept"}) == {"action": "accept"}
    filled = {"action": "accept", "content": {"who": NAME}}
    assert sides.reply("elicitation/create", filled)["content"] == {"who": sides.token}
    assert sides.reply_refusal("elicitation/create", {"action": "x"}) == "bad_value"
    assert sides.reply_refusal("invented", {}) == "unknown_kind"


def test_a_task_of_the_client_has_a_name_of_the_proxys_own(sides: Sides) -> None:
    begun = {"taskId": NAME, "status": "working", "ttl": None, "pollInterval": None}
    begun |= {"createdAt": "2026-01-02T03:04:05Z", "statusMessage": f"for {NAME}"}
    task = sides.reply("roots/list", {"task": begun})["task"]
    alias = task["taskId"]
    assert task == {
        "taskId": alias,
        "status": "working",
        "ttl": None,
        "createdAt": "1970-01-01T00:00:00Z",
        "statusMessage": f"for {sides.token}",
    }
    asked = ServerRequest("tasks/get", {"taskId": alias})
    assert sides.rewriter.asks(asked) == {"taskId": NAME}
    listed = ServerRequest("tasks/list", {"cursor": "a"})
    assert sides.rewriter.asks(listed) == {"cursor": "a"}
    state = {"status": "completed", "ttl": 5, "pollInterval": True, "lastUpdatedAt": 3}
    assert sides.reply("tasks/get", state, taskId=alias) == {
        "taskId": alias,
        "status": "completed",
        "ttl": 5,
    }
    assert sides.reply("tasks/result", {"roots": []}, taskId=alias) == {"roots": []}
    assert sides.reply_refusal("tasks/get", {"status": NAME}, taskId=alias) == "bad_value"
    assert sides.reply_refusal("tasks/get", state, taskId="task-0") == "unknown_name"
    assert sides.reply_refusal("tasks/get", state, taskId=7) == "unknown_name"


def test_so_many_tasks_are_remembered() -> None:
    tasks = ClientTasks()
    asked = ServerRequest("roots/list", {})
    first, *_, last = [tasks.begin(asked, str(place)) for place in range(257)]
    assert (first, last) == ("task-1", "task-257")
    assert tasks.own("task-2") == "1"
    assert tasks.began("task-2") is asked
    with pytest.raises(RequestRefusedError):
        tasks.own("task-1")


def test_results_are_restored_in_their_texts_and_keep_what_is_looked_up(sides: Sides) -> None:
    token = sides.token
    result = {
        "content": [{"type": "text", "text": f"for {token}", "annotations": {"a": token}}, token],
        "structuredContent": {token: [token, 1], "name": token},
        "nextCursor": token,
        "count": 3,
        "blob": token,
    }
    assert sides.restorer.result("tools/call", result) == {
        "content": [{"type": "text", "text": f"for {NAME}", "annotations": {"a": token}}, NAME],
        "structuredContent": {NAME: [NAME, 1], "name": NAME},
        "nextCursor": token,
        "count": 3,
        "blob": token,
    }
    for method in ("tools/list", "initialize", "server/discover"):
        assert sides.restorer.result(method, result) is result
    untouched = {"content": [{"text": "plain"}], "blob": token}
    assert sides.restorer.result("tools/call", untouched) is untouched
    completed = {"completion": {"values": [token], "name": token}}
    assert sides.restorer.result("completion/complete", completed) == {
        "completion": {"values": [NAME], "name": NAME}
    }


def test_json_in_a_text_is_restored_even_if_it_spells_a_token_with_escapes(sides: Sides) -> None:
    token = sides.token
    escaped = "".join(f"\\u{ord(each):04x}" for each in token)

    def restored(text: str) -> str:
        made = sides.restorer.result("tools/call", {"text": text})["text"]
        assert isinstance(made, str)
        return made

    assert restored(f'{{"é": "{escaped}"}}') == f'{{"é": "{NAME}"}}'
    assert restored(f'{{"a":  "{token}"}}') == f'{{"a":  "{NAME}"}}'  # spaces stay
    assert restored(f"\\ {token}") == f"\\ {NAME}"
    assert restored(f"[\\ {token}") == f"[\\ {NAME}"


def test_an_error_keeps_its_code_and_what_it_says_is_restored(sides: Sides) -> None:
    error = {"code": -7, "message": f"for {sides.token}", "data": [sides.token]}
    assert sides.restorer.error(error) == {"code": -7, "message": f"for {NAME}", "data": [NAME]}
    assert sides.restorer.error({"code": 1, "message": "", "data": None}) == {
        "code": 1,
        "message": "",
    }


def test_levels_are_restored_down_to_a_depth(sides: Sides) -> None:
    def nested(depth: int) -> object:
        value: object = [sides.token]
        for _ in range(depth):
            value = [value]
        return value

    assert NAME in json.dumps(sides.restorer.anything(nested(64)))
    assert NAME not in json.dumps(sides.restorer.anything(nested(65)))
    for depth, reached in ((65, True), (66, False)):
        part: Message = {"note": sides.token}
        for _ in range(depth - 1):
            part = {"note": part}
        assert (NAME in json.dumps(sides.restorer.params(part))) is reached
    assert sides.restorer.anything({sides.token: 1, NAME: 2}) == {sides.token: 1, NAME: 2}


WRAPPED: dict[str, Callable[[object, Sides], object]] = {
    "an object": lambda value, _: {"note": value},
    "an object whose names would be one": lambda value, s: {s.token: 1, NAME: 2, "note": value},
    "a list": lambda value, _: [value],
}


@pytest.mark.parametrize("around", WRAPPED)
def test_whatever_is_around_a_text_counts_as_a_level(sides: Sides, around: str) -> None:
    def restored(levels: int, restore: Callable[[object], object]) -> bool:
        value: object = f"about {sides.token}"
        for _ in range(levels):
            value = WRAPPED[around](value, sides)
        return f"about {NAME}" in json.dumps(restore(value))

    assert restored(65, sides.restorer.anything)
    assert not restored(66, sides.restorer.anything)
    params = lambda value: sides.restorer.params({"note": value})  # noqa: E731
    assert restored(64, params)
    assert not restored(65, params)


PROMPT = {
    "name": "visit",
    "description": "Estimated glomerular filtration rate (CKD-EPI 2021) of the patient.",
    "arguments": [
        {"name": "age", "description": "Age of the patient in years", "required": True},
        {"name": "note"},
    ],
}


def test_a_prompts_arguments_are_texts_and_a_required_value_is_filled_in(sides: Sides) -> None:
    sides.offers.learn("prompts/list", {}, {"prompts": [PROMPT, {"name": "bare"}]})
    made = sides.rewriter.params("prompts/get", {"name": "visit", "arguments": {"note": NAME}})
    assert made == {"name": "visit", "arguments": {"note": sides.token, "age": sides.age}}
    assert sides.rewriter.params("prompts/get", {"name": "visit"}) == {
        "name": "visit",
        "arguments": {"age": sides.age},
    }
    assert sides.rewriter.params("prompts/get", {"name": "bare"}) == {"name": "bare"}
    wrong = {"name": "visit", "arguments": []}
    assert sides.refusal("prompts/get", {**wrong, "arguments": [1]}) == "wrong_type"


def test_a_completion_gets_what_was_typed_and_no_value_that_was_not(sides: Sides) -> None:
    sides.offers.learn("prompts/list", {}, {"prompts": [PROMPT]})
    ref = {"type": "ref/prompt", "name": "visit", "x": NAME}

    def complete(name: str, value: object, **more: object) -> Message:
        argument = {"name": name, "value": value}
        given = {"ref": ref, "argument": argument, **more}
        return sides.rewriter.params("completion/complete", given)

    assert complete("note", NAME) == {
        "ref": {"type": "ref/prompt", "name": "visit"},
        "argument": {"name": "note", "value": sides.token},
    }
    assert complete("age", "6")["argument"] == {"name": "age", "value": sides.age}
    made = complete("age", "6", context={"arguments": {"note": NAME}})
    assert made["context"] == {"arguments": {"note": sides.token}}
    assert complete("age", "6", context={})["context"] == {"arguments": {}}
    with pytest.raises(RequestRefusedError):
        complete("other", "6")


def test_an_address_of_a_template_is_filled_in_and_one_of_nothing_has_no_numbers(
    sides: Sides,
) -> None:
    templates = [{"uriTemplate": "note://{"}, {"uriTemplate": "note://{who}"}]
    sides.offers.learn("resources/templates/list", {}, {"resourceTemplates": templates})
    made = sides.rewriter.params("resources/read", {"uri": "note://Marguerite%20Oyelaran"})["uri"]
    assert made.startswith("note://")
    assert "Oyelaran" not in made
    ref = {"type": "ref/resource", "uri": "note://{who}"}
    given = {"ref": ref, "argument": {"name": "who", "value": "a"}}
    assert sides.rewriter.params("completion/complete", given) == given
    with pytest.raises(TextBlockedError):
        sides.rewriter.params("resources/read", {"uri": "file:///61.375"})
