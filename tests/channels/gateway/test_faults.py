"""Faults: every error of the tree has a fixed code, status and text."""

from collections.abc import Iterator
from typing import get_args

import pytest

import rootguard.errors
from rootguard.channels.faults import FAULTS, Code, RequestRefusedError, fault_of
from rootguard.channels.gateway.replies import error_body
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
