"""A request of the client on its way through the proxy, and the client as the servers see it."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from rootguard.channels.faults import fault_of
from rootguard.channels.mcp import jsonrpc as rpc
from rootguard.channels.mcp.jsonrpc import Id, Limits, Message
from rootguard.channels.mcp.proxy.arguments import AskedError

PROGRESS: Final = "notifications/progress"
CANCELLED: Final = "notifications/cancelled"
PASSED: Final = frozenset(
    (
        *("notifications/elicitation/complete", "notifications/message"),
        *("notifications/prompts/list_changed", "notifications/resources/list_changed"),
        *("notifications/resources/updated", "notifications/subscriptions/acknowledged"),
        *("notifications/tasks/status", "notifications/tools/list_changed"),
    )
)
ASKED: Final = frozenset(
    (
        *("elicitation/create", "roots/list", "sampling/createMessage"),
        *("tasks/cancel", "tasks/get", "tasks/result"),
    )
)
UNENDING: Final = frozenset(("subscriptions/listen",))
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
Done = Callable[[Message | None, Message | None], None]
"""Called once, with a result or with an error."""
_DOWN: Final = frozenset(
    ("unknown_name", "unreadable_reply", "upstream_timeout", "upstream_unreachable")
)


class Allowance:
    """How much one server may say unasked: so much at once, and so much more each second."""

    def __init__(self, limits: Limits) -> None:
        self._most = float(limits.burst)
        self._steady = limits.steady
        self._left = self._most
        self._counted = time.monotonic()

    def take(self) -> bool:
        """Take one; False if there is none left."""
        now = time.monotonic()
        self._left = min(self._left + (now - self._counted) * self._steady, self._most) - 1
        self._counted = now
        return self._left >= 0


class Cancels(Protocol):
    """Where a request went."""

    def cancel(self, call: "Call", reason: object) -> None:
        """The client no longer wants an answer."""
        ...


@dataclass(slots=True, eq=False)
class Call:
    """A request of the client; the first answer counts."""

    method: str
    params: Message
    done: Done = field(repr=False)
    name: Id = 0
    relay: "Cancels | None" = None
    sent: Id | None = None
    over: bool = False

    def answer(self, result: Message) -> None:
        """End it with a result."""
        if not self.over:
            self.over = True
            self.done(result, None)

    def fail(self, error: Message) -> None:
        """End it with an error."""
        if not self.over:
            self.over = True
            self.done(None, error)

    def refuse(self, problem: BaseException) -> None:
        """End it with the fault of a problem: a tool's result if it is a tool's call."""
        fault = fault_of(problem)
        code, text = str(fault.code), fault.text
        if isinstance(problem, AskedError):
            code, text = "ambiguous_parameter", str(problem)
        if self.method == "tools/call" and code not in _DOWN:
            self.answer({**rpc.refused_tool(code, text), **self._finished})
        else:
            self.fail({**rpc.refusal(fault), "message": text, "data": {"code": code}})

    @property
    def _finished(self) -> Message:
        """What a revision without a handshake, which every request names, has results say."""
        meta = self.params.get("_meta")
        named = isinstance(meta, dict) and "io.modelcontextprotocol/protocolVersion" in meta
        return {"resultType": "complete"} if named else {}

    @property
    def token(self) -> Id | None:
        """The client's progress token."""
        meta = self.params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        return token if isinstance(token, str | int) and not isinstance(token, bool) else None


class Client(Protocol):
    """The client's side, as a relay sees it."""

    def tell(self, method: str, params: Message, relay: object) -> None:
        """Pass a notification on."""
        ...

    def ask(self, method: str, params: Message, done: Done) -> Id:
        """Pass a request on."""
        ...

    def forget(self, name: Id) -> None:
        """The server no longer wants the answer to its request."""
        ...


def whole(name: object) -> Id:
    """An id of ours as it comes back; some servers make texts of numbers."""
    if isinstance(name, bool) or not isinstance(name, str | int):
        return -1
    return int(name) if isinstance(name, str) and name.isdecimal() and len(name) < 19 else name


def renamed(content: Message, name: Id) -> Message:
    """The id of a subscription as the client knows it."""
    meta = content.get("_meta")
    if not isinstance(meta, dict) or SUBSCRIPTION not in meta:
        return content
    return {**content, "_meta": {**meta, SUBSCRIPTION: name}}


def say(text: str) -> None:
    """One line for the owner, on standard error. Never a value."""
    sys.stderr.write(f"rootguard: {text}\n")
    sys.stderr.flush()
