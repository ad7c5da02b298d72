"""What every integration rests on: one guard, and each tool a service of the policy."""

import asyncio
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pint", reason="the extra gateway is not installed")

from rootguard.channels.gateway.shapes import OutgoingRequest
from rootguard.errors import AccessError
from rootguard.integrations.agent import AgentGuard, ToolRefusedError
from rootguard.session.profile import parse_profile
from rootguard.store import MemoryStore
from tests.support.agent_talk import leaks, profile_in

BARE = {"type": "object", "properties": {"ast": {"type": "number"}}}
SAID = "I'm Jane Roe. My AST is 61.375 U/L."


@pytest.fixture
def guard(tmp_path: Path) -> AgentGuard:
    return AgentGuard(profile_in(tmp_path), service="assistant", store=MemoryStore())


def plain_guard() -> AgentGuard:
    """Of somebody without a policy."""
    text = 'templates = ["fib4"]\nallocation = "uniform"\nbudget = "0.9"\n'
    return AgentGuard(parse_profile(text, file="me.toml"), store=MemoryStore())


def test_a_profile_with_a_policy_needs_the_models_service(tmp_path: Path) -> None:
    with pytest.raises(AccessError):
        AgentGuard(profile_in(tmp_path), store=MemoryStore())
    with pytest.raises(AccessError):
        AgentGuard(profile_in(tmp_path), service="nobody", store=MemoryStore())


def test_a_raw_value_in_arguments_is_not_given_to_a_tool() -> None:
    guard = plain_guard()
    guard.hear(SAID)
    for schema in (None, BARE):
        made = guard.arguments("score", {"ast": 61.375, "note": "AST 61.375"}, schema=schema)
        assert leaks(made) == set()
        assert set(made) == {"ast", "note"}


def test_a_value_that_only_an_agent_gives_is_refused_until_the_owner_says_it() -> None:
    guard = plain_guard()
    with pytest.raises(ToolRefusedError, match="may be a private value"):
        guard.arguments("score", {"ast": 61.375}, schema=BARE)
    guard.hear(SAID)
    assert leaks(guard.arguments("score", {"ast": 61.375}, schema=BARE)) == set()


def test_a_tool_of_a_poorer_tier_is_refused_where_its_schema_leaves_doubt(
    guard: AgentGuard,
) -> None:
    guard.hear(SAID)
    with pytest.raises(ToolRefusedError, match="that is not sure"):
        guard.arguments("fib4_score", {"ast": 60}, schema=BARE)


def test_a_tool_outside_the_policy_is_refused_without_a_value(guard: AgentGuard) -> None:
    guard.hear(SAID)
    with pytest.raises(ToolRefusedError, match="the policy does not allow this") as problem:
        guard.arguments("send_home", {"patient": "Jane Roe"})
    assert leaks(problem.value) == set()


def test_what_a_tool_computes_is_not_taken_for_what_it_was_given(guard: AgentGuard) -> None:
    guard.hear("I'm 54. " + SAID)
    given = {"age": 54, "ast": 61}
    assert guard.result("weigh", "3.71", given=given) == "3.71"
    # A tool that is asked for a value by its name answers with one.
    assert guard.result("get_lab", "61.375", given={"test": "AST"}) != "61.375"


def test_a_thread_goes_on_in_another_process(tmp_path: Path) -> None:
    store = MemoryStore()
    first = AgentGuard(profile_in(tmp_path), service="assistant", store=store)
    sent = first.hear("Write to kim.park@mail.example.", thread="t1")
    assert "kim.park" not in sent
    second = AgentGuard(profile_in(tmp_path), service="assistant", store=store)

    def before(out: OutgoingRequest) -> None:
        with out.speaking("owner"):
            assert out.text(sent) == sent  # a token of the earlier process is no new identifier

    second.hear("Did you?", before=before, thread="t1")
    assert second.show(sent, thread="t1") == "Write to kim.park@mail.example."


def test_a_stream_is_restored_as_the_whole_is(guard: AgentGuard) -> None:
    name = guard.hear("I'm Jane Roe.").removeprefix("I'm ").rstrip(".")
    text = f"Hello {name}, good day."
    restorer = guard.showing()
    shown = "".join(restorer.feed(letter) for letter in text) + restorer.close()
    assert shown == guard.show(text) == "Hello Jane Roe, good day."


class WaitError(Exception):
    """By which a framework waits for a person."""


@pytest.mark.parametrize("waits", [False, True])
def test_what_a_tool_said_is_in_no_frame_that_an_error_leaves_through(
    guard: AgentGuard, monkeypatch: pytest.MonkeyPatch, *, waits: bool
) -> None:
    guard.hear(SAID)
    token = guard.hear("I'm Jane Roe.").removeprefix("I'm ").rstrip(".")
    had: list[str] = []

    async def call(made: dict[str, Any]) -> object:
        had.append(made["patient"])
        raise WaitError(f"ask {made['patient']}")

    def passing(problem: Exception, tell: Callable[[Any], Any]) -> Exception | None:
        return WaitError(tell(str(problem))) if waits else None

    def refuse(*_args: object, **_kwargs: object) -> None:
        raise AccessError("refused")

    if not waits:
        monkeypatch.setattr(guard, "result", refuse)
    started = guard.called("book_visit", {"patient": token}, call, passing=passing)
    with pytest.raises(WaitError if waits else AccessError) as caught:
        asyncio.run(started)
    assert had == ["Jane Roe"]
    ours = [
        repr(frame.f_locals)
        for frame, _ in traceback.walk_tb(caught.value.__traceback__)
        if frame.f_code.co_filename != __file__
    ]
    assert len(ours) >= 1
    assert not any("Jane" in each for each in ours)
    assert "Roe" not in str(caught.value)
