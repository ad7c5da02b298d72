"""LiteLLM: a guardrail for its proxy, and a completion for its SDK.

In the proxy's configuration, with this file's module on the path:

    guardrails:
      - guardrail_name: rootguard
        litellm_params:
          guardrail: rootguard.integrations.litellm.RootGuardGuardrail
          mode: [pre_call, post_call]
          default_on: true
          profile: me.toml
          service: assistant

Requests are read whole, as the gateway reads them, so callers go on sending their own words and
restored replies. LiteLLM logs request and reply as they were sent: the copy of the caller's request
that it keeps beside is changed as well, and the texts of the restored reply are taken out of what
its loggers get. List this guardrail last among those after the call: a later one would read, and
may note, the restored reply.
"""

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Final

import litellm
from litellm.integrations.custom_guardrail import CustomGuardrail
from litellm.types.guardrails import GuardrailEventHooks
from litellm.types.llms.openai import OutputTextDeltaEvent
from pydantic import BaseModel

from rootguard.channels.faults import RequestRefusedError
from rootguard.channels.gateway.channel import Restorer
from rootguard.channels.gateway.openai import CHAT, RESPONSES
from rootguard.channels.gateway.shapes import OutgoingRequest
from rootguard.integrations.agent import AgentGuard, mapped_texts
from rootguard.session import Profile
from rootguard.store import Store

_THREAD: Final = "rootguard_thread"
_CHATS: Final = ("completion", "acompletion")
_RESPONSES: Final = ("responses", "aresponses")
# The fields of a request that can hold a person's words. LiteLLM keeps its own beside them.
_SHARED: Final = ("prompt_cache_key", "safety_identifier", "tool_choice", "tools", "user")
_CHAT_TEXTS: Final = (
    *_SHARED,
    "chat_template_kwargs",
    "documents",
    "functions",
    "messages",
    "prediction",
    "response_format",
    "stop",
    "web_search_options",
)
_RESPONSE_TEXTS: Final = (*_SHARED, "input", "instructions", "prompt", "text")
_BESIDE: Final = ("extra_body",)
"""What LiteLLM adds to the request as it is."""


class RootGuardGuardrail(CustomGuardrail):  # type: ignore[misc]
    """Guards chat completions and responses; a request of any other kind is refused."""

    use_native_lifecycle_hooks = True

    def __init__(
        self,
        profile: str | os.PathLike[str] | Profile,
        *,
        service: str | None = None,
        store: Store | None = None,
        **kwargs: Any,
    ) -> None:
        self._guard = AgentGuard(profile, service=service, store=store)
        super().__init__(**{"guardrail_name": "rootguard", **kwargs})

    # The proxy

    async def async_pre_call_hook(
        self,
        user_api_key_dict: Any,  # noqa: ARG002
        cache: Any,  # noqa: ARG002
        data: dict[str, Any],
        call_type: str,
    ) -> dict[str, Any]:
        """The request as it may leave."""
        thread = f"litellm-{uuid.uuid4().hex}"
        changed = await asyncio.to_thread(self._sent, data, call_type, thread)
        metadata = {**(data.get("metadata") or {}), _THREAD: thread}
        beside = data.get("proxy_server_request")
        if isinstance(beside, dict) and isinstance(beside.get("body"), dict):
            data["proxy_server_request"] = {**beside, "body": {**beside["body"], **changed}}
        data.update(changed, metadata=metadata)
        return data

    async def async_post_call_success_hook(
        self,
        data: dict[str, Any],
        user_api_key_dict: Any,  # noqa: ARG002
        response: Any,
    ) -> Any:
        """A reply with identifiers put back; the one that is logged stays as it is."""
        if data.get("stream"):
            return response  # restored piece by piece before; this one is for LiteLLM's logs
        return self._shown(response, _thread_of(data))

    async def async_post_call_streaming_iterator_hook(
        self,
        user_api_key_dict: Any,  # noqa: ARG002
        response: Any,
        request_data: dict[str, Any],
    ) -> AsyncIterator[Any]:
        """A streamed reply, restored piece by piece."""
        async for chunk in self._streamed(response, _thread_of(request_data)):
            yield chunk

    def should_run_guardrail(self, data: Any, event_type: Any) -> bool:
        """As configured; and always for what is logged."""
        if event_type == GuardrailEventHooks.logging_only:
            return True
        return bool(super().should_run_guardrail(data, event_type))

    async def async_logging_hook(self, kwargs: Any, result: Any, call_type: str) -> tuple[Any, Any]:
        """What LiteLLM's loggers get: without the texts that only the caller reads."""
        return self.logging_hook(kwargs, result, call_type)

    def logging_hook(self, kwargs: Any, result: Any, call_type: str) -> tuple[Any, Any]:  # noqa: ARG002
        kwargs.pop("served_output_texts", None)
        payload = kwargs.get("standard_logging_object")
        if isinstance(payload, dict) and "response" in payload:
            # LiteLLM has laid the restored texts over the reply there; `result` is as it came.
            came = result if isinstance(result, BaseModel) else None
            payload["response"] = None if came is None else came.model_dump()
        return kwargs, result

    async def apply_guardrail(
        self,
        inputs: Any,
        request_data: dict[str, Any],  # noqa: ARG002
        input_type: str,
        logging_obj: Any = None,  # noqa: ARG002
    ) -> Any:
        """Texts alone, as the proxy's own endpoint asks for: changed, or restored."""
        texts = list(inputs.get("texts") or [])

        def owner(out: OutgoingRequest) -> list[str]:
            with out.speaking("owner"):
                return [out.text(each) for each in texts]

        if input_type == "response":
            return {**inputs, "texts": [self._guard.show(each) for each in texts]}
        return {**inputs, "texts": await asyncio.to_thread(self._guard.rewrite, owner)}

    # The SDK

    async def acompletion(self, **kwargs: Any) -> Any:
        """As `litellm.acompletion`, guarded: raw words in, a restored reply or stream out."""
        thread = f"litellm-{uuid.uuid4().hex}"
        changed = await asyncio.to_thread(self._sent, kwargs, "acompletion", thread)
        made = await litellm.acompletion(**{**kwargs, **changed})
        return self._streamed(made, thread) if kwargs.get("stream") else self._shown(made, thread)

    def _sent(self, data: Mapping[str, Any], call_type: str, thread: str) -> dict[str, Any]:
        keys: tuple[str, ...]
        if call_type in _CHATS:
            keys, shape = _CHAT_TEXTS, CHAT
        elif call_type in _RESPONSES:
            keys, shape = _RESPONSE_TEXTS, RESPONSES
        else:
            raise RequestRefusedError("endpoint_refused")
        asked = {key: data[key] for key in keys if isinstance(data.get(key), str | list | dict)}

        def whole(out: OutgoingRequest) -> Any:
            made = shape(out, {"model": "any", **asked})
            assert isinstance(made, dict)  # noqa: S101 - a record is made of a record
            with out.speaking("developer"):
                beside = {key: out.json(data[key]) for key in _BESIDE if data.get(key)}
            return {key: made[key] for key in asked if key in made} | beside

        return dict(self._guard.rewrite(whole, thread=thread, begin=True))

    def _shown(self, response: Any, thread: str | None) -> Any:
        shown = response.model_copy(deep=True)
        for choice in getattr(shown, "choices", ()):
            _restore(choice.message, lambda text: self._guard.show(text, thread=thread))
        for item in getattr(shown, "output", None) or ():
            for part in getattr(item, "content", None) or ():
                if isinstance(getattr(part, "text", None), str):
                    part.text = self._guard.show(part.text, thread=thread)
        return shown

    async def _streamed(self, stream: Any, thread: str | None) -> AsyncIterator[Any]:
        shown = _Pieces(lambda: self._guard.showing(thread=thread))
        async for chunk in stream:
            made = chunk.model_copy(deep=True)
            if not hasattr(made, "choices"):  # an event of the responses API
                for event in shown.event(made, lambda text: self._guard.show(text, thread=thread)):
                    yield event
                continue
            for choice in made.choices:
                shown.choice(choice)
            yield made


class _Pieces:
    """Restores the texts and the arguments of a streamed reply, each by its place."""

    def __init__(self, begin: Callable[[], Restorer]) -> None:
        self._begin = begin
        self._open: dict[object, Restorer] = {}

    def choice(self, choice: Any) -> None:
        delta, over = choice.delta, choice.finish_reason is not None
        if delta.content:
            delta.content = self._fed(choice.index, delta.content)
        for call in delta.tool_calls or ():
            if call.function.arguments:
                place = (choice.index, call.index)
                call.function.arguments = self._fed(place, call.function.arguments)
        if over:
            # Arguments end with a bracket, after which nothing is held back.
            delta.content = (delta.content or "") + self._rest(choice.index) or delta.content

    def event(self, event: Any, show: Callable[[str], str]) -> Iterator[Any]:
        place = getattr(event, "item_id", None)
        if event.type == "response.output_text.delta":
            event.delta = self._fed(place, event.delta)
            yield event
            return
        if event.type == "response.output_text.done" and (rest := self._rest(place)):
            known = {"output_index": event.output_index, "content_index": event.content_index}
            kind = "response.output_text.delta"
            yield OutputTextDeltaEvent(type=kind, item_id=place, delta=rest, **known)
        yield event if event.type.endswith(".delta") else mapped_texts(event, show)

    def _fed(self, place: object, piece: str) -> str:
        if place not in self._open:
            self._open[place] = self._begin()
        return self._open[place].feed(piece)

    def _rest(self, place: object) -> str:
        held = self._open.pop(place, None)
        return "" if held is None else held.close()


def _restore(message: Any, show: Any) -> None:
    if isinstance(message.content, str):
        message.content = show(message.content)
    for call in message.tool_calls or ():
        call.function.arguments = show(call.function.arguments)


def _thread_of(data: Mapping[str, Any]) -> str | None:
    for key in ("metadata", "litellm_metadata"):
        found = data.get(key)
        if isinstance(found, dict) and isinstance(found.get(_THREAD), str):
            return str(found[_THREAD])
    return None
