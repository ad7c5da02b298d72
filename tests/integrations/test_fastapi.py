"""A guard for each signed-in user of a FastAPI application."""

import json
import threading
import warnings
from pathlib import Path
from typing import Annotated, Any

import pytest

pytest.importorskip("fastapi", reason="`make extras` installs the agent frameworks")
pytest.importorskip("httpx", reason="FastAPI's test client needs httpx")

from fastapi import Depends, FastAPI, Header
from fastapi.responses import PlainTextResponse, Response, StreamingResponse
from openai import OpenAI
from pydantic import BaseModel

from rootguard.channels.gateway.openai import CHAT
from rootguard.integrations.agent import AgentGuard
from rootguard.integrations.fastapi import GuardedUsers
from rootguard.session.profile import Profile, parse_profile
from rootguard.store import MemoryStore
from tests.support.agent_talk import (
    SCHEMAS,
    UNGUARDED,
    Talk,
    book_visit,
    check_kept,
    fib4_score,
    hold,
    leaks,
    look_up,
    profile_in,
    talking,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the test client's own packages
    from fastapi.testclient import TestClient


def profile_of(user: str) -> Profile:
    text = f'templates = ["fib4"]\nbudget = "0.9"\nprincipal = "{user}"\non_doubt = "refuse"\n'
    return parse_profile(f'{text}[identifiers]\nname = "Jane Roe"\n', file=f"{user}.toml")


class Sent(BaseModel):
    """What a user sends."""

    text: str
    stream: bool = False


def chat_app(users: GuardedUsers | None, talk: Talk, logged: list[str]) -> FastAPI:
    """An application that talks to the service itself; every request and session is kept."""
    app, histories = FastAPI(), dict[str, list[dict[str, Any]]]()
    tools = {each.__name__: talk.tool(each) for each in (fib4_score, book_visit, look_up)}

    def signed_in(x_user: Annotated[str, Header()]) -> str:
        return x_user

    def nobodys(_user: Annotated[str, Depends(signed_in)]) -> None:
        return None

    guarded = nobodys if users is None else users.dependency(signed_in)

    def asked(turns: list[dict[str, Any]]) -> Any:  # noqa: ANN401
        with OpenAI(base_url=talk.url, api_key="none", max_retries=0) as client:
            messages: Any = turns
            made = client.chat.completions.create(model="small", messages=messages)
        return made.choices[0].message

    def called(guard: AgentGuard | None, name: str, given: dict[str, Any]) -> str:
        if guard is None:
            return str(tools[name](**given))
        about = tools[name].__doc__ or ""
        made = guard.arguments(name, given, description=about, schema=SCHEMAS[name])
        return str(guard.result(name, str(tools[name](**made)), given=given))

    def chat(
        sent: Sent,
        user: Annotated[str, Depends(signed_in)],
        guard: Annotated[Any, Depends(guarded)],  # noqa: ANN401
    ) -> Response:
        turns = histories.setdefault(user, [])
        said = sent.text
        if guard is not None:
            said = guard.hear(said, before=lambda out: CHAT(out, {"model": "m", "messages": turns}))
        turns.append({"role": "user", "content": said})
        while (message := asked(turns)).tool_calls:
            turns.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls:
                given = json.loads(call.function.arguments)
                result = called(guard, call.function.name, given)
                turns.append({"role": "tool", "tool_call_id": call.id, "content": result})
        turns.append({"role": "assistant", "content": message.content})
        logged.append(json.dumps(turns))
        if guard is None:
            return PlainTextResponse(message.content)
        if not sent.stream:
            return PlainTextResponse(guard.show(message.content))
        restorer, text = guard.showing(), message.content
        pieces = [restorer.feed(text[at : at + 5]) for at in range(0, len(text), 5)]
        return StreamingResponse(iter([*pieces, restorer.close()]), media_type="text/plain")

    app.post("/chat")(chat)
    return app


def replies_from(app: FastAPI) -> list[str]:
    client = TestClient(app)

    def ask(text: str, streamed: bool) -> str:
        body = {"text": text, "stream": streamed}
        reply = client.post("/chat", json=body, headers={"x-user": "jane"})
        assert reply.status_code == 200, reply.text
        return str(reply.text)

    return hold(ask)


def test_ten_turns_of_a_user_leave_nothing_private_in_service_and_sessions(tmp_path: Path) -> None:
    profile, logged = profile_in(tmp_path), list[str]()
    users = GuardedUsers(lambda _user: profile, service="assistant", store=MemoryStore())
    with talking() as talk:
        replies = replies_from(chat_app(users, talk, logged))
        check_kept(talk, replies, *logged)


def test_without_the_guard_everything_is_everywhere() -> None:
    logged: list[str] = []
    with talking() as talk:
        replies_from(chat_app(None, talk, logged))
        assert leaks(talk.service.everything) >= UNGUARDED
        assert leaks(*logged) >= UNGUARDED


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
