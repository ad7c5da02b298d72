"""A session for programs that must not wait: the same answers, each found in a worker thread.

A store may block, on a disk or a server. Nothing is done twice here: every method hands its work to
a `Session`, which is safe to share by threads.
"""

import asyncio
from contextvars import copy_context
from functools import partial
from typing import Any, Self

from rootguard.accounting import Guarantee
from rootguard.errors import shielded
from rootguard.session.guard import Guard
from rootguard.session.session import Session
from rootguard.template import Template
from rootguard.values import Form


class AsyncSession:
    """Open one with `await AsyncSession.open(...)`, or wrap a session that is open."""

    def __init__(self, session: Session) -> None:
        self.session = session

    @classmethod
    async def open(cls, template: Template | str, **given: Any) -> Self:  # noqa: ANN401 - as Guard.open
        """`Guard.open`, with the same arguments."""
        # Not `to_thread`: its frame would hold the values, and travel with a refusal.
        work = partial(copy_context().run, _opened, template, given)
        opening = asyncio.get_running_loop().run_in_executor(None, work)
        del given, work
        return cls(await opening)

    @classmethod
    async def resume(cls, template: Template | str, **given: Any) -> Self:  # noqa: ANN401 - as Guard.resume
        """`Guard.resume`, with the same arguments."""
        return cls(await asyncio.to_thread(Guard.resume, template, **given))

    def __repr__(self) -> str:
        return f"<AsyncSession {self.session.template.name}>"

    async def release(self, name: str) -> Form:
        """A named value."""
        return await asyncio.to_thread(self.session.release, name)

    async def derive(self, formula: str, *, name: str | None = None) -> float:
        """A formula of named values."""
        return await asyncio.to_thread(self.session.derive, formula, name=name)

    async def target(self) -> float:
        """The template's target."""
        return await asyncio.to_thread(self.session.target)

    async def risk(self) -> str | None:
        """The risk class of the target."""
        return await asyncio.to_thread(self.session.risk)

    async def to_prompt(self) -> str:
        """What a model may be told."""
        return await asyncio.to_thread(self.session.to_prompt)

    async def guarantee(self) -> Guarantee:
        """What is promised."""
        return await asyncio.to_thread(self.session.guarantee)


@shielded
def _opened(template: Template | str, given: dict[str, Any]) -> Session:
    return Guard.open(template, **given)
