"""Faults: every error of the tree has a fixed code, status and text."""

from collections.abc import Iterator
from typing import get_args

import anyio
import pytest
from starlette.types import Message

import rootguard.errors
from rootguard.channels.faults import FAULTS, Code, RequestRefusedError, fault_of
from rootguard.channels.gateway.upstream import ReplySender, error_body
from rootguard.errors import RootGuardError, UnknownNameError
from tests.support.gateways import NAME


def tree(top: type[RootGuardError] = RootGuardError) -> Iterator[type[RootGuardError]]:
    for below in top.__subclasses__():
        yield below
        yield from tree(below)


DRAWN = [each for each in tree() if each.__module__ == rootguard.errors.__name__]


@pytest.mark.parametrize("kind", DRAWN, ids=lambda kind: kind.__name__)
def test_every_error_of_the_tree_has_a_fault_of_its_own_meaning(kind: type[RootGuardError]) -> None:
    assert fault_of(kind.__new__(kind)).code != "internal"


def test_the_tree_is_not_empty() -> None:
    assert len(DRAWN) > 20


def test_every_code_has_a_fault_and_every_text_is_different() -> None:
    assert set(FAULTS) == set(get_args(Code))
    assert len({fault.text for fault in FAULTS.values()}) == len(FAULTS)
    assert all(400 <= fault.status < 600 for fault in FAULTS.values())


def test_nothing_of_an_error_is_in_its_fault() -> None:
    assert NAME not in fault_of(UnknownNameError("root", NAME)).text
    assert fault_of(ValueError(NAME)) == FAULTS["internal"]
    assert fault_of(RootGuardError(NAME)) == FAULTS["internal"]


STATUSES: dict[int, str] = {
    400: """bad_json bad_text bad_value formula_refused media_refused private_id token_ids_refused
        too_deep unknown_field unknown_kind wrong_type""",
    401: "unauthorized upstream_unauthorized",
    403: "access_denied budget_refused upstream_forbidden",
    404: "batches_refused endpoint_refused files_refused not_found unknown_name",
    408: "read_timeout",
    413: "too_large",
    415: "unsupported_body",
    421: "host_refused",
    422: "identifier_refused private_value_refused text_blocked",
    429: "rate_limited",
    431: "headers_too_large",
    500: "internal store_refused wrong_configuration",
    502: "unreadable_reply upstream_unreachable",
    503: "busy store_unavailable",
    504: "upstream_timeout",
}
ANTHROPIC = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    502: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
}
"""By status, as the API's documentation lists them; all others are invalid requests."""


def test_every_status_is_the_one_that_http_has_for_the_reason() -> None:
    by_code = {code: status for status, codes in STATUSES.items() for code in codes.split()}
    assert {code: fault.status for code, fault in FAULTS.items()} == by_code


@pytest.mark.parametrize("code", get_args(Code))
def test_an_sdk_is_told_the_kind_of_error_that_it_raises_for_the_status(code: Code) -> None:
    fault = FAULTS[code]
    kinds = {401: "authentication_error", 429: "rate_limit_error"}
    other = "server_error" if fault.status in (500, 502, 503, 504) else "invalid_request_error"
    assert _of(error_body("openai", fault))["type"] == kinds.get(fault.status, other)
    expected = ANTHROPIC.get(fault.status, "invalid_request_error")
    assert _of(error_body("anthropic", fault))["type"] == expected


@pytest.mark.parametrize(
    ("code", "wait", "headers"),
    [
        ("internal", 0.0, {"x-should-retry": "false"}),
        ("store_refused", 0.0, {"x-should-retry": "false"}),
        ("store_unavailable", 0.0, {}),
        ("rate_limited", 0.2, {"retry-after": "1"}),
        ("rate_limited", 1.0, {"retry-after": "2"}),
    ],
)
def test_a_caller_is_told_whether_and_when_to_try_again(
    code: Code, wait: float, headers: dict[str, str]
) -> None:
    told: list[Message] = []

    async def send(message: Message) -> None:
        told.append(message)

    reply = ReplySender(send)
    anyio.run(reply.fault, "openai", FAULTS[code], wait)
    start, body = told
    always = {"content-type": "application/json", "content-length": str(len(body["body"]))}
    found = {name.decode(): value.decode() for name, value in start["headers"]}
    assert found == {**always, **headers}
    assert (start["status"], reply.status) == (FAULTS[code].status,) * 2
    assert body["more_body"] is False


@pytest.mark.parametrize("code", get_args(Code))
def test_a_refusal_carries_its_fault_into_both_forms(code: Code) -> None:
    fault = fault_of(RequestRefusedError(code))
    assert fault == FAULTS[code]
    openai, anthropic = error_body("openai", fault), error_body("anthropic", fault)
    assert openai == {"error": {**_of(openai), "message": fault.text, "code": code}}
    assert anthropic == {"type": "error", "error": {**_of(anthropic), "message": fault.text}}


def _of(body: dict[str, object]) -> dict[str, object]:
    error = body["error"]
    assert isinstance(error, dict)
    return error
