"""FastAPI and Starlette: a guard for whoever is signed in.

    users = GuardedUsers(lambda user: f"profiles/{user}.toml", service="assistant", store=store)
    users.refuse_in(app)

    @app.post("/chat")
    def chat(said: Said, guard: Annotated[AgentGuard, Depends(users.dependency(signed_in))]) -> str:
        return guard.show(ask_model(guard.hear(said.text)))

Who is signed in is the application's to say. A user's guard is opened at the first request and kept
while there is room; what it noised is in the store, so that another process gives the same values.
In Starlette alone, call `users.of(request.user.identity)`.
"""

import os
from collections.abc import Callable
from typing import Any

from rootguard.channels.faults import fault_of
from rootguard.channels.gateway.channel import OpenedLately
from rootguard.errors import RootGuardError
from rootguard.integrations.agent import AgentGuard
from rootguard.session import Profile
from rootguard.store import Store

ProfileOf = Callable[[str], str | os.PathLike[str] | Profile]


class GuardedUsers:
    """One guard for each user who came lately. Safe to share by threads."""

    def __init__(
        self,
        profile_of: ProfileOf,
        *,
        service: str | None = None,
        store: Store | None = None,
        most: int = 1000,
    ) -> None:
        self._guards = OpenedLately(
            lambda user: AgentGuard(profile_of(user), service=service, store=store), most=most
        )

    def __repr__(self) -> str:
        return f"<guards of {len(self._guards)} users>"

    def of(self, user: str) -> AgentGuard:
        """The guard of a user. May wait for a store."""
        return self._guards.of(user)

    def dependency(self, signed_in: Callable[..., str]) -> Callable[..., AgentGuard]:
        """What `Depends` takes: the guard of whom another dependency says is signed in."""
        from fastapi import Depends

        def guard(user: str = Depends(signed_in)) -> AgentGuard:
            return self.of(user)

        return guard

    @staticmethod
    def refuse_in(app: Any) -> None:
        """Answer a refusal with its status and fixed text; nothing private is in either."""
        from starlette.requests import Request
        from starlette.responses import JSONResponse, Response

        async def answer(_request: Request, problem: Exception) -> Response:
            fault = fault_of(problem)
            body = {"error": {"code": fault.code, "message": fault.text}}
            return JSONResponse(body, status_code=fault.status)

        app.add_exception_handler(RootGuardError, answer)
