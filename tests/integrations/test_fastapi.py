"""A guard for each signed-in user of a FastAPI application."""

import threading
import warnings
from typing import Annotated, Any

import pytest

pytest.importorskip("fastapi", reason="`make extras` installs the agent frameworks")
pytest.importorskip("httpx", reason="FastAPI's test client needs httpx")

from fastapi import Depends, FastAPI

from rootguard.integrations.agent import AgentGuard
from rootguard.integrations.fastapi import GuardedUsers
from rootguard.session.profile import Profile, parse_profile
from rootguard.store import MemoryStore

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the test client's own packages
    from fastapi.testclient import TestClient


def profile_of(user: str) -> Profile:
    text = f'templates = ["fib4"]\nbudget = "0.9"\nprincipal = "{user}"\non_doubt = "refuse"\n'
    return parse_profile(f'{text}[identifiers]\nname = "Jane Roe"\n', file=f"{user}.toml")


def test_a_refusal_is_answered_with_a_fixed_text() -> None:
    users = GuardedUsers(profile_of, store=MemoryStore())
    guarded = users.dependency(lambda: "jane")
    app = FastAPI()
    users.refuse_in(app)

    def tool(name: str, guard: Annotated[AgentGuard, Depends(guarded)]) -> Any:  # noqa: ANN401
        schema = {"type": "object", "properties": {"ast": {"type": "number"}}}
        return guard.arguments(name, {"ast": 61.375}, schema=schema)

    app.post("/tool")(tool)
    reply = TestClient(app).post("/tool", params={"name": "score"})
    assert reply.status_code >= 400
    assert set(reply.json()["error"]) == {"code", "message"}
    assert "61.375" not in reply.text


def test_two_first_requests_of_one_user_open_one_guard() -> None:
    opened: list[str] = []
    both = threading.Barrier(2)

    def slow(user: str) -> Profile:
        opened.append(user)
        return profile_of(user)

    users = GuardedUsers(slow, store=MemoryStore(), most=1)
    found: list[AgentGuard] = []

    def ask() -> None:
        both.wait()
        found.append(users.of("jane"))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert opened == ["jane"]
    assert found[0] is found[1]
    users.of("omar")  # there is room for one
    assert users.of("jane") is not found[0]
