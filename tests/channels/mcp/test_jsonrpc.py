"""JSON-RPC messages: what is read, what is refused with which code, and what is borne."""

import json
from typing import get_args

import pytest

from rootguard.channels.faults import FAULTS, Code
from rootguard.channels.mcp import jsonrpc as rpc
from rootguard.channels.mcp.jsonrpc import Limits, UnreadableError

ERROR = {"code": -1, "message": "no"}


def line(**fields: object) -> str:
    return json.dumps({"jsonrpc": "2.0", **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {"id": 1, "method": "ping"},
        {"id": "a", "method": "ping", "params": {}},
        {"method": "notifications/message"},
        {"id": 1, "result": {}},
        {"id": 1, "error": ERROR},
        {"id": None, "error": ERROR},
        {"error": {**ERROR, "data": [1]}},
    ],
)
def test_a_message_of_the_protocol_is_read_as_it_is(fields: dict[str, object]) -> None:
    assert rpc.read(line(**fields)) == {"jsonrpc": "2.0", **fields}
    assert rpc.read(line(**fields).encode()) == {"jsonrpc": "2.0", **fields}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"id": 1, "method": "ping", "jsonrpc": "1.0"}, 1),
        ({"id": 1, "method": 2}, 1),
        ({"id": 1, "method": "ping", "params": []}, 1),
        ({"id": 1, "method": "ping", "params": None}, 1),
        ({"id": True, "method": "ping"}, None),
        ({"id": None, "method": "ping"}, None),
        ({"id": 1.5, "result": {}}, None),
        ({"id": "a", "result": []}, "a"),
        ({"id": "a"}, "a"),
        ({"result": {}}, None),
        ({"id": 1, "error": ERROR, "jsonrpc": "1.0"}, 1),
        ({"id": 1, "error": "no"}, 1),
        ({"id": 1, "error": {"code": -1}}, 1),
        ({"id": 1, "error": {"code": True, "message": "no"}}, 1),
        ({"id": 1, "error": {"code": "-1", "message": "no"}}, 1),
    ],
)
def test_what_is_no_message_is_refused_under_its_id_if_it_has_one(
    fields: dict[str, object], named: object
) -> None:
    with pytest.raises(UnreadableError) as caught:
        rpc.read(line(**fields))
    assert (caught.value.code, caught.value.request) == (-32600, named)


@pytest.mark.parametrize(
    "text", ["", "{", "null", "NaN", '{"a": Infinity}', b'"\xff"', "[" * 10**5]
)
def test_what_is_no_json_is_refused_as_such(text: str | bytes) -> None:
    with pytest.raises(UnreadableError) as caught:
        rpc.read(text)
    assert (caught.value.code, caught.value.request) == (-32700, None)


def test_a_line_is_compact_unicode_and_nothing_but_json() -> None:
    assert rpc.write({"a": ["é", 1]}) == '{"a":["é",1]}\n'.encode()
    for wrong in (float("nan"), "\ud800"):
        with pytest.raises(ValueError, match=r"."):
            rpc.write({"a": wrong})


def test_messages_are_made_as_the_protocol_writes_them() -> None:
    head = {"jsonrpc": "2.0"}
    assert rpc.request(1, "ping", {}) == {**head, "id": 1, "method": "ping", "params": {}}
    assert rpc.notification("a") == {**head, "method": "a"}
    assert rpc.notification("a", {}) == {**head, "method": "a", "params": {}}
    assert rpc.failure(None, ERROR) == {**head, "id": None, "error": ERROR}


@pytest.mark.parametrize("code", [-32700, -32600, -32601, -32602, -32603])
def test_a_code_of_the_protocol_keeps_its_text_and_any_other_is_internal(code: int) -> None:
    assert rpc.plain(code) == {"code": code, "message": rpc.TEXTS[code]}
    assert rpc.plain(code - 10) == {"code": -32603, "message": rpc.TEXTS[-32603]}


@pytest.mark.parametrize("code", get_args(Code))
def test_what_the_caller_can_mend_is_about_parameters_and_the_rest_is_internal(code: Code) -> None:
    fault = FAULTS[code]
    told = rpc.refusal(fault)
    assert told["code"] == (-32602 if fault.status in range(400, 500) else -32603)
    assert told["message"] == fault.text
    assert told["data"] == {"code": code}


def test_a_refused_tool_is_a_result_that_says_it_is_an_error() -> None:
    made = rpc.refused_tool("a", "é")
    assert made["isError"] is True
    assert made["content"] == [{"type": "text", "text": '{"code": "a", "message": "é"}'}]


def test_what_is_borne_unless_somebody_says_otherwise() -> None:
    """A limit that moves by accident is a client that is refused, or a server that floods."""
    assert Limits() == Limits(
        from_client=4_194_304,
        from_server=16_777_216,
        calls=256,
        asked=64,
        waiting=8_388_608,
        burst=5000,
        steady=500,
        start=60,
        answer=300,
    )
