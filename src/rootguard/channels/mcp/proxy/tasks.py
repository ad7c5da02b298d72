"""Tasks that the client runs for a server behind the proxy, under names of the proxy's own.

A client that is asked to sample or to fill in a form may answer with a task, which the server then
looks at. The server never sees the client's name for it, and the result of a task is read like an
answer to what was asked in the first place.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from rootguard.channels.faults import RequestRefusedError
from rootguard.channels.mcp.jsonrpc import Message
from rootguard.channels.mcp.proxy.offers import Asked

_STATES: Final = ("working", "input_required", "completed", "failed", "cancelled")
_KEPT: Final = 256


class Tasks:
    """Names for tasks, and what was asked; the oldest are forgotten."""

    def __init__(self) -> None:
        self._tasks: OrderedDict[str, tuple[Asked, str]] = OrderedDict()
        self._next = 0

    def begin(self, asked: Asked, name: str) -> str:
        """A name for the client's new task."""
        self._next += 1
        alias = f"task-{self._next}"
        self._tasks[alias] = (asked, name)
        if len(self._tasks) > _KEPT:
            self._tasks.popitem(last=False)
        return alias

    def own(self, alias: object) -> str:
        """The client's name for a task."""
        return self._find(alias)[1]

    def began(self, alias: object) -> Asked:
        """What was asked when a task began."""
        return self._find(alias)[0]

    def state(self, alias: object, task: Message, text: Callable[[object], str]) -> Message:
        """How a task is, without anything private."""
        self._find(alias)
        if task.get("status") not in _STATES:
            raise RequestRefusedError("bad_value")
        made: Message = {"taskId": alias, "status": task["status"]}
        for key in ("ttl", "pollInterval"):
            value = task.get(key)
            if value is None or (isinstance(value, int) and not isinstance(value, bool)):
                made[key] = value
        for key in ("createdAt", "lastUpdatedAt"):
            if isinstance(task.get(key), str):
                made[key] = "1970-01-01T00:00:00Z"  # when the person did something is theirs
        if isinstance(task.get("statusMessage"), str):
            made["statusMessage"] = text(task["statusMessage"])
        return {key: value for key, value in made.items() if value is not None or key == "ttl"}

    def _find(self, alias: object) -> tuple[Asked, str]:
        found = self._tasks.get(alias) if isinstance(alias, str) else None
        if found is None:
            raise RequestRefusedError("unknown_name")
        return found
