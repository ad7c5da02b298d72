"""LlamaIndex's own agent, context and spans before a service on loopback."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="`make integrations` installs LlamaIndex")
pytest.importorskip("llama_index.llms.openai_like", reason="`make integrations` installs it")

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ImageBlock
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import (
    Context,
    HumanResponseEvent,
    InputRequiredEvent,
    JsonSerializer,
)
from llama_index.llms.openai_like import OpenAILike
from openai import AsyncOpenAI, OpenAI
from workflows.runtime.types.results import AddWaiter, WaitingForEvent

from rootguard.channels.faults import RequestRefusedError
from rootguard.integrations.agent import ToolFailedError
from rootguard.integrations.llama_index import RootGuardLlamaIndex
from rootguard.store import MemoryStore
from tests.support.agent_talk import (
    TURNS,
    UNGUARDED,
    Talk,
    ahold,
    book_visit,
    check_kept,
    fib4_score,
    leaks,
    look_up,
    profile_in,
    talking,
)

# LlamaIndex and what it brings warn of their own deprecations.
pytestmark = pytest.mark.filterwarnings("ignore")


class Spans(BaseSpanHandler[BaseSpan]):  # type: ignore[misc]
    """Keeps what every span was entered with and left with."""

    kept: list[str] = []  # noqa: RUF012 - a field of the framework's model

    def new_span(self, id_: str, bound_args: Any, **kwargs: Any) -> BaseSpan:  # noqa: ANN401
        self.kept.append(f"{id_} {bound_args.args!r} {bound_args.kwargs!r}")
        return BaseSpan(id_=id_)

    def prepare_to_exit_span(self, id_: str, *_: Any, result: Any = None, **kwargs: Any) -> None:  # noqa: ANN401
        self.kept.append(f"{id_} {result!r}")

    def prepare_to_drop_span(self, id_: str, *_: Any, err: Any = None, **kwargs: Any) -> None:  # noqa: ANN401
        self.kept.append(f"{id_} {err!r}")


class Events(BaseEventHandler):  # type: ignore[misc]
    """Keeps every event of the framework's own."""

    kept: list[str] = []  # noqa: RUF012 - a field of the framework's model

    def handle(self, event: Any, **kwargs: Any) -> None:  # noqa: ANN401
        self.kept.append(repr(event))


@pytest.fixture
def talk() -> Iterator[Talk]:
    with talking() as made:
        yield made


@pytest.fixture
def traces() -> Iterator[list[str]]:
    """What the framework's tracers are given."""
    root, kept = get_dispatcher(), list[str]()
    spans, events = Spans(), Events()
    spans.kept = events.kept = kept
    root.add_span_handler(spans)
    root.add_event_handler(events)
    yield kept
    root.span_handlers.remove(spans)
    root.event_handlers.remove(events)


def replies_of(talk: Talk, guard: RootGuardLlamaIndex | None, saved: list[str]) -> list[str]:
    """The talk; memory and context are written as the framework does, and read again each turn."""

    async def held() -> list[str]:
        common: dict[str, Any] = {"base_url": talk.url, "api_key": "none", "max_retries": 0}
        async with AsyncOpenAI(**common) as client:
            llm = OpenAILike(
                model="small",
                api_base=talk.url,
                api_key="none",
                is_chat_model=True,
                is_function_calling_model=True,
                async_openai_client=client,
                openai_client=OpenAI(**common),
            )
            functions: list[Any] = [talk.tool(each) for each in (fib4_score, book_visit, look_up)]
            agent = FunctionAgent(
                llm=llm if guard is None else guard.llm(llm),
                tools=functions if guard is None else guard.tools(functions),
            )

            async def ask(text: str, streamed: bool) -> str:
                history = json.loads(saved[-1])["memory"] if saved else []
                memory = ChatMemoryBuffer.from_defaults(
                    chat_history=[ChatMessage.model_validate(each) for each in history],
                    token_limit=100_000,
                )
                context = Context(agent)
                said = await turn(agent, {"ctx": context, "memory": memory}, guard, text, streamed)
                state = context.to_dict(JsonSerializer())
                messages = [each.model_dump(mode="json") for each in await memory.aget_all()]
                saved.append(json.dumps({"memory": messages, "context": state}))
                return said

            return await ahold(ask)

    return asyncio.run(held())


async def turn(
    agent: Any,  # noqa: ANN401
    kept: dict[str, Any],
    guard: RootGuardLlamaIndex | None,
    text: str,
    streamed: bool,
) -> str:
    if guard is None:
        return str((await agent.run(user_msg=text, **kept)).response.content)
    if streamed:
        return "".join([each async for each in guard.stream(agent, text, **kept)])
    return (await guard.run(agent, text, **kept)).text


def guard_in(folder: Path) -> RootGuardLlamaIndex:
    return RootGuardLlamaIndex(profile_in(folder), service="assistant", store=MemoryStore())


def test_ten_turns_leave_nothing_private_in_service_contexts_and_spans(
    talk: Talk, traces: list[str], tmp_path: Path
) -> None:
    saved: list[str] = []
    replies = replies_of(talk, guard_in(tmp_path), saved)
    assert len(saved) == len(TURNS)
    assert any("book_visit" in each for each in traces)
    assert any("LLMChatStartEvent" in each for each in traces)
    check_kept(talk, replies, *saved, *traces)


def test_without_the_guard_everything_is_everywhere(talk: Talk, traces: list[str]) -> None:
    saved: list[str] = []
    replies_of(talk, None, saved)
    assert leaks(talk.service.everything) >= UNGUARDED
    assert leaks(*saved) >= UNGUARDED
    assert leaks(*traces) >= UNGUARDED


def test_an_error_of_a_tool_tells_nobody_what_the_tool_was_given(
    traces: list[str], tmp_path: Path
) -> None:
    guard = guard_in(tmp_path)
    name = guard.guard.hear("I'm Jane Roe.").removeprefix("I'm ").rstrip(".")

    def book_visit(patient: str) -> str:
        """Book a visit."""
        raise ValueError(f"no room for {patient}")

    (tool,) = guard.tools([FunctionTool.from_defaults(book_visit)])
    with pytest.raises(ToolFailedError, match="ValueError: no room for") as problem:
        asyncio.run(tool.acall(patient=name))
    assert leaks(problem.value, *traces) == set()
    assert problem.value.__cause__ is None


def test_a_tool_that_takes_the_workflows_context_still_gets_it(tmp_path: Path) -> None:
    guard = guard_in(tmp_path)

    def book_visit(ctx: Context, patient: str) -> str:
        """Book a visit."""
        return f"{ctx} for {patient}"

    (tool,) = guard.tools([book_visit])
    assert tool.requires_context
    assert asyncio.run(tool.acall(ctx="here", patient="x")).content == "here for x"


def test_what_cannot_be_guarded_is_refused(tmp_path: Path) -> None:
    guard = guard_in(tmp_path)
    llm = OpenAILike(model="small", api_base="http://127.0.0.1:1", api_key="none")
    agent = FunctionAgent(llm=llm, tools=[])
    with pytest.raises(TypeError, match=r"give it guard\.llm"):
        asyncio.run(guard.run(agent, "I'm Jane Roe."))
    guarded = guard.llm(llm)
    with pytest.raises(RequestRefusedError):
        guarded.complete("I'm Jane Roe.")
    picture = ChatMessage(role="user", blocks=[ImageBlock(image=b"0000")])
    with pytest.raises(RequestRefusedError):
        guarded.chat([picture])


def test_what_a_tool_asks_a_person_holds_tokens_in_the_context(tmp_path: Path) -> None:
    guard = guard_in(tmp_path)
    name = guard.guard.hear("I'm Jane Roe.").removeprefix("I'm ").rstrip(".")

    def book_visit(patient: str) -> str:
        """Book a visit."""
        asked = InputRequiredEvent(prefix=f"Book for {patient}?")
        waiter = AddWaiter(waiter_id="w", waiter_event=asked, event_type=HumanResponseEvent)
        raise WaitingForEvent(waiter)

    (tool,) = guard.tools([book_visit])
    with pytest.raises(WaitingForEvent) as waiting:
        asyncio.run(tool.acall(patient=name))
    asked = waiting.value.add.waiter_event
    assert isinstance(asked, InputRequiredEvent)
    assert asked.prefix == f"Book for {name}?"
