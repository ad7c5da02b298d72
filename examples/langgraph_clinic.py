"""A clinic's agent in LangGraph, with two services in two tiers.

Run it with `python examples/langgraph_clinic.py` (`pip install 'rootguard[langchain]'`). A class in
this file plays the chat model and sees exactly what a model would see. The liver tool belongs to
somebody else and gets coarser values; the clinic's own booking tool gets the patient's real name.
The patient is synthetic.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from rootguard.integrations.langchain import RootGuardMiddleware

POLICY = """
[tiers.clinic]
budget = "3.0"
[tiers.public]
budget = "0.5"
[services.assistant]
tier = "clinic"
roots = "*"
formulas = "*"
[services.liver_score]
tier = "public"
roots = "*"
formulas = "*"
[services.book_visit]
tier = "clinic"
identifiers = "restore"
"""
PROFILE = """
templates = ["fib4"]
policy = "policy.toml"
store = "memory:"
[values]
age = 54
ast = 61
alt = 33
plt = 271
[identifiers]
name = "Jane Roe"
"""
received: dict[str, Any] = {}


@tool
def liver_score(age: float, ast: float, alt: float, platelets: float) -> str:
    """Compute the FIB-4 score.

    Args:
        age: Age in years.
        ast: AST in U/L.
        alt: ALT in U/L.
        platelets: Platelets in 10^9/L.
    """
    received["liver_score"] = (age, ast, alt, platelets)
    return "The score is raised. Please book a visit."


@tool
def book_visit(patient: str) -> str:
    """Book a visit."""
    received["book_visit"] = patient
    return f"A visit is booked for {patient}."


class Scripted(BaseChatModel):  # type: ignore[misc]
    """Calls one tool after the other, as a model might, and repeats the last result."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> "Scripted":  # noqa: ANN401, ARG002
        """Return the model itself: the script already knows the tools."""
        return self

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:  # noqa: ANN401, ARG002
        received.setdefault("model", []).append(str(messages))
        results = [each for each in messages if isinstance(each, ToolMessage)]
        name = messages[0].content.removeprefix("I'm ").split(".")[0]
        numbers = {"age": 50.0, "ast": 60.0, "alt": 30.0, "platelets": 270.0}
        calls = [("liver_score", numbers), ("book_visit", {"patient": name})]
        reply = AIMessage(str(results[-1].content) if results else "")
        if len(results) < len(calls):
            tool_name, args_ = calls[len(results)]
            call = {"name": tool_name, "args": args_, "id": f"call_{len(results)}"}
            reply = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=reply)])


def main() -> None:
    """Ask one question; the model calls two tools in two tiers."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "policy.toml").write_text(POLICY, encoding="utf-8")
        (Path(folder) / "me.toml").write_text(PROFILE, encoding="utf-8")
        guard = RootGuardMiddleware(Path(folder) / "me.toml", service="assistant")
    saver = InMemorySaver()
    tools = [liver_score, book_visit]
    agent = guard.bind(create_agent(Scripted(), tools, middleware=[guard], checkpointer=saver))
    config = {"configurable": {"thread_id": "visit"}}
    said = {"messages": [{"role": "user", "content": "I'm Jane Roe. Is my liver well?"}]}
    reply = agent.invoke(said, config)["messages"][-1].content
    print("the liver tool got: ", received["liver_score"])
    print("the booking got:    ", received["book_visit"])
    print("the person reads:   ", reply)
    assert received["book_visit"] == "Jane Roe"
    assert "Jane Roe" in reply
    # Neither what the model saw nor LangGraph's checkpoints hold the name.
    kept = "".join(received["model"]) + repr((saver.storage, saver.writes, saver.blobs))
    assert "Jane Roe" not in kept
    assert "Roe" not in kept


if __name__ == "__main__":
    main()
