"""The agent as a model behind any endpoint that speaks OpenAI's chat completions.

The model gets the server's tools and one system message that names the values; it never gets a
value that no tool gave. The conversation is kept over the turns of a session. Requests that fail
for a passing reason are sent again. What a run costs is estimated before and counted as it goes; a
cap stops it before the request that could pass it.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2

from rootguard.evaluation.rq4_agent.backends import BackendStoppedError
from rootguard.evaluation.rq4_agent.channel import Tools
from rootguard.evaluation.rq4_agent.study import AgentSession

ROUNDS = 6
"""Tool calls after one another within a turn, before the model has to speak."""
# Statuses after which the same request may succeed: a timeout, a limit of rate, an overload.
_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_SYSTEM = (
    "You are the assistant of one person and answer questions of a service on their behalf. You "
    "know the person's values only through your tools: call one for every value that is asked "
    "for, by its short name. Then reply in one sentence that names each value asked for and gives "
    "the number exactly as the tool gave it, with every digit. Do not round or convert. The values "
    "are: {}."
)
_MILLION = 1_000_000
_OPENING_TOKENS, _TURN_TOKENS, _REPLY_TOKENS = 900, 220, 70
"""What a session begins with, what a turn adds to it and what a reply takes, roughly."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """Where the model is. Prices are per million tokens, in any currency; 0 for a free one."""

    url: str
    model: str
    key: str | None = field(default=None, repr=False)
    price_in: float = 0.0
    price_out: float = 0.0
    retries: int = 5
    """Waiting 2, 4, 8, 16 and 32 seconds: a minute in all, which most limits of rate take."""
    timeout: float = 60.0
    """Seconds; a model that is slower than this for one reply will not finish a grid."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CostEstimate:
    """What a run will take, roughly."""

    sessions: int
    requests: int
    tokens_in: int
    tokens_out: int
    cost: float

    def __str__(self) -> str:
        return (
            f"{self.sessions} sessions, about {self.requests} requests, {self.tokens_in} tokens "
            f"read and {self.tokens_out} written: about {self.cost:.2f}; what is held already "
            "costs nothing"
        )


def estimate(sessions: Iterable[AgentSession], endpoint: Endpoint) -> CostEstimate:
    """Two requests a turn, each with the conversation so far."""
    count = requests = tokens_in = 0
    for count, session in enumerate(sessions, 1):  # noqa: B007 - how many there were
        turns = session.group.turns(session.cell.budget)
        requests += 2 * turns
        tokens_in += 2 * turns * _OPENING_TOKENS + _TURN_TOKENS * turns * turns
    tokens_out = requests * _REPLY_TOKENS
    cost = (tokens_in * endpoint.price_in + tokens_out * endpoint.price_out) / _MILLION
    return CostEstimate(
        sessions=count,
        requests=requests,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cost=cost,
    )


class OpenAI:
    """A backend for one endpoint and model. `spent` is in the currency of the prices."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        cap: float | None = None,
        pause: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._endpoint = endpoint
        self._cap = cap
        self._pause = pause
        self._client: httpx2.AsyncClient | None = None
        self._waiting = 0
        self._dearest = estimate_request(endpoint)
        self.spent = 0.0
        self.requests = 0

    @property
    def label(self) -> str:
        return f"openai {self._endpoint.model}"

    async def meet(self, tools: Tools) -> "OpenAIConversation":
        """Begin a conversation, with the names of the values in its first message."""
        named = ", ".join(map(_annotated, await tools.roots()))
        return OpenAIConversation(self, tools, _SYSTEM.format(named))

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def complete(self, body: Mapping[str, object]) -> dict[str, Any]:
        """One completion's message; a passing failure is tried again."""
        self._reserve()
        try:
            answer = await self._answer({**body, "model": self._endpoint.model})
            usage = answer.get("usage") or {}
            paid = (
                int(usage.get("prompt_tokens") or 0) * self._endpoint.price_in
                + int(usage.get("completion_tokens") or 0) * self._endpoint.price_out
            ) / _MILLION
            message = answer["choices"][0]["message"]
        except (LookupError, TypeError, ValueError):
            raise BackendStoppedError("the endpoint's answer is no chat completion") from None
        finally:
            self._waiting -= 1
        self.spent += paid
        self._dearest = max(self._dearest, paid)
        if not isinstance(message, dict):
            raise BackendStoppedError("the endpoint's answer is no chat completion")
        return message

    def _reserve(self) -> None:
        """Refuse a request that could pass the cap, with those that are under way."""
        ahead = self.spent + (self._waiting + 1) * self._dearest
        if self._cap is not None and ahead > self._cap:
            raise BackendStoppedError(
                f"the cap of {self._cap:g} is reached: {self.spent:.4f} spent"
            )
        self._waiting += 1

    async def _answer(self, body: Mapping[str, object]) -> dict[str, Any]:
        if self._client is None:
            key = self._endpoint.key
            headers = {"authorization": f"Bearer {key}"} if key else {}
            self._client = httpx2.AsyncClient(
                headers=headers, timeout=self._endpoint.timeout, trust_env=False
            )
        url = f"{self._endpoint.url.rstrip('/')}/chat/completions"
        reason = ""
        for attempt in range(self._endpoint.retries + 1):
            if attempt:
                await self._pause(min(60.0, 2.0**attempt))
            self.requests += 1
            try:
                response = await self._client.post(url, json=body)
            except httpx2.TransportError:
                reason = "it cannot be reached"
                continue
            if response.status_code == httpx2.codes.OK:
                found = response.json()
                if not isinstance(found, dict):
                    raise ValueError
                return found
            reason = f"status {response.status_code}"
            if response.status_code not in _PASSING:
                break
        raise BackendStoppedError(f"the endpoint does not answer: {reason}")


def estimate_request(endpoint: Endpoint) -> float:
    """What the first requests of a session cost, before any is known."""
    tokens = _OPENING_TOKENS * endpoint.price_in + _REPLY_TOKENS * endpoint.price_out
    return tokens / _MILLION


class OpenAIConversation:
    """A session with a model: every question, tool call and reply stays in its context."""

    def __init__(self, backend: OpenAI, tools: Tools, system: str) -> None:
        self._backend = backend
        self._tools = tools
        self._messages: list[dict[str, Any]] = [{"role": "system", "content": system}]
        self._functions = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description or "",
                    "parameters": tool.input_schema,
                },
            }
            for tool in tools.listed
        ]

    async def reply(self, question: str) -> str:
        """The model's words, after as many tool calls as it makes; none after too many."""
        self._messages.append({"role": "user", "content": question})
        for _ in range(ROUNDS):
            message = await self._backend.complete(
                {"messages": self._messages, "tools": self._functions, "temperature": 0}
            )
            calls = message.get("tool_calls") or ()
            said = str(message.get("content") or "")
            kept = {"role": "assistant", "content": message.get("content")}
            self._messages.append(kept | ({"tool_calls": calls} if calls else {}))
            if not calls:
                return said
            for call in calls:
                text = await self._call(call.get("function") or {})
                told = {"role": "tool", "tool_call_id": str(call.get("id")), "content": text}
                self._messages.append(told)
        return ""

    async def _call(self, function: Mapping[str, Any]) -> str:
        try:
            arguments = json.loads(function.get("arguments") or "{}")
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict):
            return "The arguments are not a JSON object."
        return (await self._tools.call(str(function.get("name")), arguments)).text


def _annotated(value: Mapping[str, Any]) -> str:
    also = value.get("also_called") or ()
    return f"{value['name']} ({also[0]})" if also else str(value["name"])
