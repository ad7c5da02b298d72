"""A stand-in for the program that the Claude Agent SDK drives, over the SDK's own transport.

It speaks the SDK's control protocol: it registers hooks, asks them before and after each call,
calls tools of the SDK's MCP servers, mirrors its transcript, and asks the talk's service for every
reply.
`outside` are tools that it runs itself, as the real one runs `Bash`.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from claude_agent_sdk import Transport
from openai import AsyncOpenAI


class Program(Transport):  # type: ignore[misc]
    """Keeps all that it was sent in `received`."""

    def __init__(
        self,
        url: str,
        folder: Path,
        *,
        server: str = "clinic",
        outside: dict[str, Callable[..., Any]] | None = None,
    ) -> None:
        self.received: list[str] = []
        self.results: list[Any] = []
        self._url, self._server, self._outside = url, server, outside or {}
        self._file = str(folder / "projects" / "here" / "s1.jsonl")
        self._frames: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._hooks: dict[str, str] = {}
        self._turns: list[dict[str, Any]] = []
        self._numbers = itertools.count(1)
        self._tasks: list[asyncio.Task[None]] = []

    async def connect(self) -> None:
        pass

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None:
        pass

    async def close(self) -> None:
        self._frames.put_nowait(None)

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        while (frame := await self._frames.get()) is not None:
            yield frame

    async def write(self, data: str) -> None:
        self.received.append(data)
        frame = json.loads(data)
        if frame["type"] == "control_request":
            request = frame["request"]
            for event, matchers in (request.get("hooks") or {}).items():
                assert all(each["onFailure"] == "block" for each in matchers)
                self._hooks[event] = matchers[-1]["hookCallbackIds"][0]
            reply = {"subtype": "success", "request_id": frame["request_id"]}
            known = {"hook_on_failure_supported": True}
            self._say({"type": "control_response", "response": {**reply, "response": known}})
        elif frame["type"] == "control_response":
            made = frame["response"]
            self._answers.pop(made["request_id"]).set_result(made)
        elif frame["type"] == "user":
            self._tasks.append(asyncio.create_task(self._turn(frame["message"])))

    def _say(self, frame: dict[str, Any]) -> None:
        self._frames.put_nowait(frame)

    async def _ask(self, **request: Any) -> Any:  # noqa: ANN401
        name = f"ask-{next(self._numbers)}"
        self._answers[name] = asyncio.get_running_loop().create_future()
        answer = self._answers[name]
        self._say({"type": "control_request", "request_id": name, "request": request})
        made = await answer
        return made if made["subtype"] == "error" else made["response"]

    async def _hook(self, event: str, **told: Any) -> dict[str, Any]:  # noqa: ANN401
        if event not in self._hooks:
            return {}
        told = {"hook_event_name": event, "session_id": "s1", **told}
        made = await self._ask(
            subtype="hook_callback", callback_id=self._hooks[event], input=told, tool_use_id="t"
        )
        return dict(made)

    def _keep(self, turn: dict[str, Any]) -> None:
        self._turns.append(turn)
        self._say({"type": "transcript_mirror", "filePath": self._file, "entries": [turn]})

    async def _turn(self, message: dict[str, Any]) -> None:
        text, error = "", False
        self._keep({"role": "user", "content": message["content"]})
        try:
            text = await self._replied()
        except Exception as problem:  # noqa: BLE001 - the client is waiting for a result
            text, error = f"{type(problem).__name__}: {problem}", True
        numbers = {"duration_ms": 1, "duration_api_ms": 1, "num_turns": 1}
        ended = {"subtype": "success", "is_error": error, "result": text, "session_id": "s1"}
        self._say({"type": "result", **ended, **numbers})

    async def _replied(self) -> str:
        """The model's reply, with the tools that it calls first."""
        while True:
            async with AsyncOpenAI(base_url=self._url, api_key="none", max_retries=0) as client:
                turns: Any = self._turns
                made = await client.chat.completions.create(model="small", messages=turns)
            said = made.choices[0].message
            calls: list[Any] = list(said.tool_calls or ())
            blocks: list[Any] = [
                {
                    "type": "tool_use",
                    "id": each.id,
                    "name": each.function.name,
                    "input": json.loads(each.function.arguments),
                }
                for each in calls
            ] or [{"type": "text", "text": said.content}]
            if not calls:
                self._stream(said.content or "")
            self._say({"type": "assistant", "message": {"model": "small", "content": blocks}})
            self._keep(said.model_dump(exclude_none=True))
            if not calls:
                return said.content or ""
            for block in blocks:
                result, stop = await self._called(block)
                self.results.append(result)
                if stop:
                    return str(stop)
                self._keep({"role": "tool", "tool_call_id": block["id"], "content": str(result)})
                given = {"type": "tool_result", "tool_use_id": block["id"], "content": str(result)}
                self._say({"type": "user", "message": {"role": "user", "content": [given]}})

    def _stream(self, text: str) -> None:
        for at in range(0, len(text), 5):
            delta = {"type": "text_delta", "text": text[at : at + 5]}
            self._event({"type": "content_block_delta", "index": 0, "delta": delta})
        self._event({"type": "content_block_stop", "index": 0})

    def _event(self, event: dict[str, Any]) -> None:
        self._say({"type": "stream_event", "uuid": "u", "session_id": "s1", "event": event})

    async def _called(self, block: dict[str, Any]) -> tuple[Any, object]:
        tool, given = block["name"], block["input"]
        named = tool if tool in self._outside else f"mcp__{self._server}__{tool}"
        call = {"tool_name": named, "tool_input": given, "tool_use_id": block["id"]}
        before = (await self._hook("PreToolUse", **call)).get("hookSpecificOutput", {})
        if before.get("permissionDecision") == "deny":
            return before["permissionDecisionReason"], None
        call["tool_input"] = given = before.get("updatedInput", given)
        try:
            if tool in self._outside:
                result = self._outside[tool](**given)
            else:
                result = await self._mcp(tool, given)
        except ValueError as problem:
            after = await self._hook("PostToolUseFailure", **call, error=str(problem))
            return str(problem), after.get("stopReason")
        after = await self._hook("PostToolUse", **call, tool_response=result)
        changed = after.get("hookSpecificOutput", {}).get("updatedToolOutput", result)
        return changed, after.get("stopReason")

    async def _mcp(self, tool: str, given: dict[str, Any]) -> str:
        about = {"name": "program", "version": "1"}
        started = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
        await self._rpc("initialize", started)
        made = await self._rpc("tools/call", {"name": tool, "arguments": given})
        return str(made["content"][0]["text"])

    async def _rpc(self, method: str, about: dict[str, Any]) -> Any:  # noqa: ANN401
        number = next(self._numbers)
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": about}
        made = await self._ask(subtype="mcp_message", server_name=self._server, message=message)
        return made["mcp_response"]["result"]
