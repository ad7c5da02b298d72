"""The closed forms of requests: what is known, what is refused, and that nothing is sent unread."""

import json
from collections.abc import Mapping
from typing import Any, get_args

import pytest
from anthropic.types.message_count_tokens_params import MessageCountTokensParams
from anthropic.types.message_create_params import MessageCreateParamsBase
from benchmarks.unguarded import Unguarded
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from openai.types.completion_create_params import CompletionCreateParamsBase as PromptParamsBase
from openai.types.embedding_create_params import EmbeddingCreateParams
from openai.types.moderation_create_params import ModerationCreateParams
from openai.types.responses.response_create_params import ResponseCreateParamsBase

from rootguard.channels.faults import Code, RequestRefusedError
from rootguard.channels.gateway import shapes
from rootguard.channels.gateway.anthropic import COUNT_TOKENS, MESSAGES
from rootguard.channels.gateway.openai import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    MODERATIONS,
    RESPONSES,
)
from rootguard.channels.gateway.shapes import MAX_ITEMS, OutgoingRequest, Shape, examine, read_json
from rootguard.channels.text.edits import JsonSanitization, Sanitization
from rootguard.reading.claims import NOTHING, Expectation, Source
from tests.support.gateways import AST, NAME, RECORD, channel_of, open_person

Body = dict[str, Any]
CHAT_BASE: Body = {"model": "m", "messages": []}
RESPONSES_BASE: dict[str, Any] = {"model": "m"}
MESSAGES_BASE: dict[str, Any] = {"model": "m", "messages": [], "max_tokens": 1}
BASES: dict[int, Body] = {
    id(CHAT): CHAT_BASE,
    id(RESPONSES): RESPONSES_BASE,
    id(MESSAGES): MESSAGES_BASE,
    id(COUNT_TOKENS): {"model": "m", "messages": []},
    id(COMPLETIONS): {"model": "m", "prompt": ""},
    id(EMBEDDINGS): {"model": "m", "input": ""},
    id(MODERATIONS): {"input": ""},
}

# Fields of the SDKs that the gateway does not know on purpose.
UNKNOWN = {
    id(CHAT): set[str](),
    id(RESPONSES): {"access_programs", "image"},
    id(MESSAGES): {"user_profile_id", "workspace_id"},
    id(COUNT_TOKENS): {"user_profile_id", "workspace_id"},
    id(COMPLETIONS): set[str](),
    id(EMBEDDINGS): set[str](),
    id(MODERATIONS): set[str](),
}


class Marking(Unguarded):
    """Marks every text it is shown; an id with the record number in it is private."""

    def sanitize(
        self, text: str, *, source: Source, expectation: Expectation = NOTHING
    ) -> Sanitization:
        return Sanitization(text=f"<{text}>", replaced={})

    def sanitize_json(
        self, value: object, *, source: Source, expectation: Expectation = NOTHING
    ) -> JsonSanitization:
        return JsonSanitization(value=marked(value), replaced={})

    def is_private(self, label: str) -> bool:
        return RECORD in label


def marked(value: object) -> object:
    if isinstance(value, dict):
        return {key: marked(each) for key, each in value.items()}
    if isinstance(value, list):
        return [marked(each) for each in value]
    return value if value is None or isinstance(value, bool) else f"<{value}>"


def send(shape: Shape, body: Mapping[str, object], *, allow_media: bool = False) -> Body:
    out = OutgoingRequest(Marking(), allow_media=allow_media)
    _, sent = examine(shape, out, json.dumps({**BASES[id(shape)], **body}).encode())
    made: Body = json.loads(sent)
    return made


def refusal(shape: Shape, body: Mapping[str, object]) -> Code:
    with pytest.raises(RequestRefusedError) as caught:
        send(shape, body)
    return caught.value.fault.code


def known(shape: Shape, name: str) -> bool:
    try:
        send(shape, {name: None})
    except RequestRefusedError:
        return False
    return True


@pytest.mark.parametrize(
    ("shape", "params"),
    [
        (CHAT, CompletionCreateParamsBase),
        (RESPONSES, ResponseCreateParamsBase),
        (MESSAGES, MessageCreateParamsBase),
        (COUNT_TOKENS, MessageCountTokensParams),
        (COMPLETIONS, PromptParamsBase),
        (EMBEDDINGS, EmbeddingCreateParams),
        (MODERATIONS, ModerationCreateParams),
    ],
    ids=["chat", "responses", "messages", "counts", "completions", "embeddings", "moderations"],
)
def test_every_field_of_the_sdks_is_known_or_refused_on_purpose(shape: Shape, params: type) -> None:
    streamed = {"stream"} if shape in (CHAT, RESPONSES, MESSAGES, COMPLETIONS) else set[str]()
    fields = {*params.__annotations__, *streamed} - BASES[id(shape)].keys()
    assert len(fields) > (8 if streamed else 0)
    refused = {name for name in fields if not known(shape, name)}
    assert refused == UNKNOWN[id(shape)]


def user(content: object) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": content}]}


@pytest.mark.parametrize(
    ("shape", "part"),
    [
        (CHAT, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}),
        (CHAT, {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}),
        (CHAT, {"type": "file", "file": {"file_data": "AAAA", "filename": "a.pdf"}}),
        (RESPONSES, {"type": "input_image", "image_url": "https://x.example/a.png"}),
        (RESPONSES, {"type": "input_file", "file_url": "https://x.example/a.pdf"}),
        (MESSAGES, {"type": "image", "source": {"type": "url", "url": "https://x.example/a"}}),
        (MESSAGES, {"type": "document", "source": {"type": "base64", "data": "AAAA"}}),
        (MESSAGES, {"type": "container_upload", "file_id": "file_1"}),
    ],
)
def test_media_are_refused_unless_they_are_allowed(shape: Shape, part: dict[str, object]) -> None:
    body = user([part]) if shape is not RESPONSES else {"input": user([part])["messages"]}
    assert refusal(shape, body) == "media_refused"
    sent = send(shape, body, allow_media=True)
    [turn] = sent["input" if shape is RESPONSES else "messages"]
    assert turn["content"][0].keys() == part.keys()


@pytest.mark.parametrize(
    ("shape", "body", "code"),
    [
        (CHAT, user([{"type": "hologram", "text": NAME}]), "unknown_kind"),
        (CHAT, user([{"type": "text", "text": NAME, "extra": NAME}]), "unknown_field"),
        (CHAT, user(7), "wrong_type"),
        (CHAT, {"messages": {}}, "wrong_type"),
        (CHAT, {"messages": [{"role": "oracle", "content": NAME}]}, "unknown_kind"),
        (CHAT, {"model": "a model"}, "bad_value"),
        (CHAT, {"model": f"x-{RECORD}"}, "private_id"),
        (CHAT, {"model": None}, "wrong_type"),
        (CHAT, {"temperature": "0.5"}, "wrong_type"),
        (CHAT, {"temperature": True}, "wrong_type"),
        (CHAT, {"service_tier": NAME}, "bad_value"),
        (CHAT, {"tools": [{"type": "telepathy"}]}, "unknown_kind"),
        (CHAT, {"response_format": {"type": "json_schema", "note": NAME}}, "unknown_field"),
        (RESPONSES, {"tools": [{"type": "mcp", "server_url": NAME}]}, "unknown_kind"),
        (RESPONSES, {"input": [{"type": "mcp_call", "output": NAME}]}, "unknown_kind"),
        (RESPONSES, {"input": [{"type": "reasoning", "encrypted_content": NAME}]}, "bad_value"),
        (RESPONSES, {"previous_response_id": NAME}, "bad_value"),
        (MESSAGES, {"system": [{"type": "image"}]}, "unknown_kind"),
        (MESSAGES, {"tools": [{"type": "browser_toolset_20260801"}]}, "unknown_kind"),
        (MESSAGES, user([{"type": "thinking", "thinking": "x", "signature": NAME}]), "bad_value"),
        (MESSAGES, {"metadata": {"user_id": "a", "name": NAME}}, "unknown_field"),
    ],
)
def test_what_is_not_known_is_refused(shape: Shape, body: dict[str, object], code: Code) -> None:
    assert code in get_args(Code)
    assert refusal(shape, body) == code


def test_every_text_of_a_schema_is_shown_to_the_inspector_and_its_bounds_stay() -> None:
    parameters = {
        "type": "object",
        "description": NAME,
        "properties": {
            "ast": {"type": "number", "minimum": 0, "maximum": 500, "default": 23, "odd": 7},
            "who": {"enum": [NAME], "anyOf": [{"const": NAME}, {"pattern": NAME}]},
        },
        "required": ["ast"],
    }
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    sent = send(CHAT, {"tools": [tool]})["tools"][0]["function"]["parameters"]
    ast, who = sent["properties"]["ast"], sent["properties"]["who"]
    assert (ast["minimum"], ast["maximum"], ast["default"], ast["odd"]) == (0, 500, "<23>", "<7>")
    marked = f"<{NAME}>"
    assert who == {"enum": [marked], "anyOf": [{"const": marked}, {"pattern": marked}]}
    assert sent["description"] == f"<{NAME}>"
    private = {"type": "object", "properties": {RECORD: {}}}
    tool = {"type": "function", "function": {"name": "f", "parameters": private}}
    assert refusal(CHAT, {"tools": [tool]}) == "private_id"


class Showing(Marking):
    """Keeps the JSON that it is shown, and counts a replacement each time."""

    def __init__(self) -> None:
        self.shown: list[object] = []

    def sanitize_json(
        self, value: object, *, source: Source, expectation: Expectation = NOTHING
    ) -> JsonSanitization:
        self.shown.append(value)
        return JsonSanitization(value=value, replaced={"root": 1})


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"default": 23}, {"ast": 23}),
        ({"anyOf": [{"const": 23}, {"type": "null"}]}, {"ast": 23}),
        ({"oneOf": [{"allOf": [{"not": {"enum": [23]}}]}]}, {"ast": [23]}),
        ({"items": {"examples": [23]}}, {"ast": [23]}),
        ({"properties": {"alt": {"items": {"const": 23}}}}, {"alt": 23}),
        ({"properties": {"items": {"const": 23}}}, {"items": 23}),
        ({"odd": 23}, {"odd": 23}),
    ],
)
def test_an_example_is_inspected_under_the_name_of_what_it_is_an_example_of(
    schema: object, shown: object
) -> None:
    channel = Showing()
    out = OutgoingRequest(channel)
    shapes.schema(out, {"type": "object", "properties": {"ast": schema}})
    assert channel.shown == [shown]
    assert out.replaced == {"root": 1}


@pytest.mark.parametrize("wrapper", ["anyOf", "oneOf", "allOf", "prefixItems"])
def test_a_private_number_in_an_alternative_of_a_schema_is_replaced(wrapper: str) -> None:
    person = open_person()
    channel = channel_of(person)
    channel.sanitize(f"My AST is {AST} U/L.", source="owner")
    schema = {"properties": {"ast": {wrapper: [{"const": float(AST)}, {"type": "null"}]}}}
    made = shapes.schema(OutgoingRequest(channel), schema)
    released = float(round(person.number("ast")))
    assert made == {"properties": {"ast": {wrapper: [{"const": released}, {"type": "null"}]}}}


@pytest.mark.parametrize("value", [{}, {"ast": 1, "alt": 2}, [1]])
def test_an_example_that_comes_back_in_another_form_is_refused(value: object) -> None:
    class Other(Marking):
        def sanitize_json(
            self, value: object, *, source: Source, expectation: Expectation = NOTHING
        ) -> JsonSanitization:
            return JsonSanitization(value=given, replaced={})

    given = value
    with pytest.raises(RequestRefusedError) as caught:
        shapes.schema(OutgoingRequest(Other()), {"default": 1})
    assert caught.value.fault.code == "bad_value"


def test_arguments_that_are_json_are_inspected_as_json_and_others_as_text() -> None:
    def sent(arguments: str) -> str:
        call = {"id": "c", "function": {"name": "f", "arguments": arguments}}
        body = send(CHAT, {"messages": [{"role": "assistant", "tool_calls": [call]}]})
        made = body["messages"][0]["tool_calls"][0]["function"]["arguments"]
        assert isinstance(made, str)
        return made

    assert json.loads(sent(json.dumps({"who": NAME, "n": [1, None]}))) == {
        "who": f"<{NAME}>",
        "n": ["<1>", None],
    }
    assert sent(f"who: {NAME}") == f"<who: {NAME}>"
    assert sent("") == ""


def test_a_body_of_very_many_parts_is_refused() -> None:
    parts = [{"type": "text", "text": ""}] * (MAX_ITEMS + 1)
    assert refusal(CHAT, user(parts)) == "too_large"


def test_json_that_two_readers_could_read_differently_is_refused() -> None:
    for written, words in (
        ('{"a": 1, "a": 2}', "stands twice"),
        ('{"a": NaN}', "not a number of JSON"),
        ('{"a": -Infinity}', "not a number of JSON"),
    ):
        with pytest.raises(ValueError, match=words):
            read_json(written)
    with pytest.raises(RequestRefusedError):
        read_json('"\\udc00"')
    assert read_json('"\\ud83d\\ude00"') == "\U0001f600"


@pytest.mark.parametrize("escaped", [False, True])
def test_json_is_nested_so_deeply_and_no_deeper(escaped: bool) -> None:
    inside = '"\\u00e9"' if escaped else "1"
    assert read_json("[" * 47 + inside + "]" * 47)
    for depth in (48, 100_000):
        with pytest.raises(RequestRefusedError) as caught:
            read_json("[" * depth + inside + "]" * depth)
        assert caught.value.fault.code == "too_deep"


def shaped(shape: Shape, value: object) -> object:
    """What may be sent in its place, or the code of its refusal."""
    try:
        return shape(OutgoingRequest(Marking()), value)
    except RequestRefusedError as problem:
        return problem.fault.code


@pytest.mark.parametrize(
    ("shape", "value", "made"),
    [
        (shapes.flag, True, True),
        (shapes.flag, 1, "wrong_type"),
        (shapes.number, 1.5, 1.5),
        (shapes.number, True, "wrong_type"),
        (shapes.number, 1e400, "wrong_type"),
        (shapes.number, "1", "wrong_type"),
        (shapes.word("a", "b"), "b", "b"),
        (shapes.word("a", "b"), "c", "bad_value"),
        (shapes.word("a", "b"), 1, "wrong_type"),
        (shapes.label, "a" * 256, "a" * 256),
        (shapes.label, "a" * 257, "bad_value"),
        (shapes.label, "", "bad_value"),
        (shapes.label, 5, "wrong_type"),
        (shapes.label, f"x{RECORD}", "private_id"),
        (shapes.keyword, "a" * 48, "a" * 48),
        (shapes.keyword, "a" * 49, "bad_value"),
        (shapes.keyword, 5, "wrong_type"),
        (shapes.sealed, "A" * 32, "A" * 32),
        (shapes.sealed, "A" * 31, "bad_value"),
        (shapes.sealed, 5, "wrong_type"),
        (shapes.text, "", ""),
        (shapes.text, "a", "<a>"),
        (shapes.text, None, "wrong_type"),
        (shapes.blob, 5, "wrong_type"),
        (shapes.json_text, 5, "wrong_type"),
        (shapes.json_text, "[1]", '["<1>"]'),
        (shapes.json_text, '{"é":1}', '{"é":"<1>"}'),
        (shapes.optional(shapes.flag), None, None),
        (shapes.optional(shapes.flag), 1, "wrong_type"),
        (shapes.list_of(shapes.flag), [True, False], [True, False]),
        (shapes.list_of(shapes.flag), True, "wrong_type"),
        (shapes.map_of(shapes.text, shapes.flag), {"a": True}, {"<a>": True}),
        (shapes.map_of(shapes.text, shapes.flag), [], "wrong_type"),
        (shapes.map_of(lambda *_: "x", shapes.flag), {"a": True, "b": True}, "bad_value"),
        (shapes.record({"a": shapes.flag}, required=("a",)), {"a": None}, "wrong_type"),
        (shapes.record({"a": shapes.flag}), {"a": None}, {"a": None}),
        (shapes.record({"a": shapes.flag}), {"b": True}, "unknown_field"),
        (shapes.record({"a": shapes.flag}), [], "wrong_type"),
        (shapes.tagged("t", {"a": shapes.json_value}), {"t": "a"}, {"t": "<a>"}),
        (shapes.tagged("t", {"a": shapes.json_value}), {"t": None}, "unknown_kind"),
        (shapes.tagged("t", {"a": shapes.json_value}, default="a"), {"t": None}, {"t": None}),
        (shapes.tagged("t", {"a": shapes.json_value}, default="a"), {}, {}),
        (shapes.tagged("t", {"a": shapes.json_value}), [], "wrong_type"),
        (shapes.by_type(string=shapes.text), "a", "<a>"),
        (shapes.by_type(string=shapes.text), [], "wrong_type"),
        (shapes.by_type(array=shapes.list_of(shapes.flag)), [True], [True]),
        (shapes.by_type(mapping=shapes.record({})), {}, {}),
        (shapes.by_type(string=shapes.text), None, "wrong_type"),
        (shapes.schema, None, None),
        (shapes.schema, {"minimum": None, "maxLength": "x"}, {"minimum": None, "maxLength": "<x>"}),
        (shapes.schema, {"minimum": True}, "wrong_type"),
        (shapes.schema, 5, "<5>"),
    ],
)
def test_each_shape_takes_its_own_and_refuses_the_rest(
    shape: Shape, value: object, made: object
) -> None:
    assert shaped(shape, value) == made


def test_parts_are_counted_over_the_whole_body() -> None:
    out = OutgoingRequest(Marking())
    out.count(MAX_ITEMS - 1)
    shapes.list_of(shapes.flag)(out, [True])
    for shape, value in (
        (shapes.list_of(shapes.flag), [True]),
        (shapes.map_of(shapes.text, shapes.flag), {"a": True}),
        (shapes.schema, {"type": "x"}),
        (shapes.schema, [True]),
    ):
        with pytest.raises(RequestRefusedError) as caught:
            shape(out, value)
        assert caught.value.fault.code == "too_large"


def test_looking_at_the_form_leaves_texts_and_media_as_they_are() -> None:
    form = OutgoingRequest(Marking(), allow_media=True).form()
    assert (form.text("a"), form.json({"a": 1})) == ("a", {"a": 1})
    assert form.allow_media
    assert form.is_private(RECORD)
    assert not OutgoingRequest(Marking()).form().allow_media


def test_headers_are_short_and_hold_nothing_private() -> None:
    out = OutgoingRequest(Marking())
    shapes.header(out, "")
    shapes.header(out, "a" * 1024)
    for value, code in (("a" * 1025, "bad_value"), (RECORD, "private_id")):
        with pytest.raises(RequestRefusedError) as caught:
            shapes.header(out, value)
        assert caught.value.fault.code == code


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[]", b"null"])
def test_a_body_is_a_json_object(body: bytes) -> None:
    with pytest.raises(RequestRefusedError) as caught:
        examine(CHAT, OutgoingRequest(Marking()), body)
    assert caught.value.fault.code == "bad_json"
