"""A tool loop as in the chat APIs of OpenAI and Anthropic, guarded without a framework.

Run it with `python examples/tool_loop.py`. A function in this file plays the model and sees exactly
what a model would see. The person is synthetic.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rootguard.channels.gateway.shapes import OutgoingRequest
from rootguard.integrations.agent import AgentGuard

POLICY = """
[tiers.clinic]
budget = "3.0"
[tiers.public]
budget = "0.5"
[services.assistant]
tier = "clinic"
roots = "*"
formulas = "*"
[services.book_visit]
tier = "public"
identifiers = "restore"
"""
PROFILE = """
templates = ["fib4"]
policy = "policy.toml"
store = "memory:"
[identifiers]
name = "Jane Roe"
"""
seen: list[str] = []


def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Play somebody else's model, which may log everything it is sent."""
    seen.append(json.dumps(messages))
    last = messages[-1]
    if last["role"] == "tool":
        return {"role": "assistant", "content": f"Done: {last['content']}"}
    name = messages[0]["content"].removeprefix("I'm ").split(".")[0]
    call = {"id": "call_1", "name": "book_visit", "arguments": {"patient": name, "day": "Monday"}}
    return {"role": "assistant", "content": "", "call": call}


def book_visit(patient: str, day: str) -> str:
    """Book a visit. This tool is trusted with the real name."""
    assert patient == "Jane Roe"
    return f"{patient} is booked for {day}."


def guarded(out: OutgoingRequest, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rewrite the messages for the model. Who said a text decides what may be in it."""
    made = []
    for each in messages:
        if each["role"] == "tool":
            with out.result_of(call=each["call_id"]):
                made.append({**each, "content": out.text(each["content"])})
            continue
        with out.speaking("owner" if each["role"] == "user" else "model"):
            made.append({**each, "content": out.text(each["content"])})
        if "call" in each:
            out.called(each["call"]["id"], each["call"]["name"], each["call"]["arguments"])
    return made


def main() -> None:
    """Run one conversation: a question, a tool call and an answer."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "policy.toml").write_text(POLICY, encoding="utf-8")
        (Path(folder) / "me.toml").write_text(PROFILE, encoding="utf-8")
        guard = AgentGuard(Path(folder) / "me.toml", service="assistant")
    text = guard.hear("I'm Jane Roe. My AST is 61.4 U/L. Book a visit for me.")
    messages: list[dict[str, Any]] = [{"role": "user", "content": text}]
    while True:
        reply = model(guard.rewrite(lambda out: guarded(out, messages)))
        messages.append(reply)
        if "call" not in reply:
            break
        call = reply["call"]
        made = guard.arguments(call["name"], call["arguments"])
        result = guard.result(call["name"], book_visit(**made), given=call["arguments"])
        messages.append({"role": "tool", "call_id": call["id"], "content": result})
    print("the model saw:   ", seen[-1])
    print("the person reads:", guard.show(reply["content"]))
    assert not any(secret in "".join(seen) for secret in ("Jane Roe", "Roe", "61.4"))
    assert "Jane Roe" in guard.show(reply["content"])


if __name__ == "__main__":
    main()
