"""A FastAPI application with a PostgreSQL vault and many users, each guarded by their own profile.

    ROOTGUARD_STORE=postgresql://… uvicorn --factory examples.clinic_app:build

The header `x-key` takes the place of a real sign-in, which is up to the application. A function in
this file plays the model, and `asked` holds what it saw. Without ROOTGUARD_STORE the vault is in
memory.
"""

import os
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException

from rootguard import Store, open_store
from rootguard.integrations.agent import AgentGuard
from rootguard.integrations.fastapi import GuardedUsers
from rootguard.session.profile import Profile, parse_profile

PEOPLE = {f"key-{n}": (f"user{n}", name) for n, name in enumerate(("Jane Roe", "Omar Diaz"))}
asked: list[str] = []


def profile_of(user: str) -> Profile:
    """Make a user's profile. A real application reads it from its own storage."""
    names = dict(PEOPLE.values())
    text = f'templates = ["fib4"]\nbudget = "0.9"\nprincipal = "{user}"\n'
    return parse_profile(f'{text}[identifiers]\nname = "{names[user]}"\n', file=f"{user}.toml")


def signed_in(x_key: Annotated[str, Header()]) -> str:
    """Return the name of the signed-in user."""
    if x_key not in PEOPLE:
        raise HTTPException(status_code=401)
    return PEOPLE[x_key][0]


def model(text: str) -> str:
    """Play somebody else's model, which may log everything it is sent."""
    asked.append(text)
    return f"You said: {text}"


def build(store: Store | None = None) -> Any:  # noqa: ANN401 - FastAPI is an extra
    """Build the application."""
    kept = store or open_store(os.environ.get("ROOTGUARD_STORE", "memory:"))
    users = GuardedUsers(profile_of, store=kept)
    guarded = users.dependency(signed_in)
    app = FastAPI()
    users.refuse_in(app)

    @app.post("/chat")
    def chat(text: str, guard: Annotated[AgentGuard, Depends(guarded)]) -> dict[str, str]:
        return {"reply": guard.show(model(guard.hear(text)))}

    return app
