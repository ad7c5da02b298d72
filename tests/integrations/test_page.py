"""The Python of the page on integrations runs, block by block, with what it takes as given."""

import ast
import asyncio
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_talk import Talk, leaks, profile_in, talking

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


async def run(block: str, given: dict[str, Any]) -> dict[str, Any]:
    code = compile(block, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    made = eval(code, given)
    if inspect.isawaitable(made):
        await made
    return given


def block_of(module: str) -> str:
    (found,) = [block for block in BLOCKS if f"rootguard.integrations.{module} " in block]
    return str(found)


def in_talk(module: str, given: Callable[[Talk, Any], dict[str, Any]], folder: Path) -> Talk:
    """Run a block against the service of the talk, as the page says, from the owner's folder."""
    from openai import AsyncOpenAI

    async def held(talk: Talk) -> None:
        async with AsyncOpenAI(base_url=talk.url, api_key="none", max_retries=0) as client:
            await run(block_of(module), given(talk, client))

    profile_in(folder)
    with talking() as talk:
        talk.service.says = lambda heard: heard
        asyncio.run(held(talk))
    return talk


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOTGUARD_STORE", "memory:")


def test_the_block_of_langchain(tmp_path: Path) -> None:
    pytest.importorskip("langchain_openai", reason="`make extras` installs the agent frameworks")
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver

    profile_in(tmp_path)
    with talking() as talk:
        talk.service.says = lambda heard: heard
        model = ChatOpenAI(model="small", base_url=talk.url, api_key="none", max_retries=0)
        config = {"configurable": {"thread_id": "t1"}}
        given = {"model": model, "tools": [], "saver": InMemorySaver(), "config": config}
        asyncio.run(run(block_of("langchain"), given))
        model.root_client.close()
    assert talk.service.bodies
    assert leaks(talk.service.everything) == set()


def test_the_block_of_pydantic_ai(tmp_path: Path) -> None:
    pytest.importorskip("pydantic_ai", reason="`make extras` installs the agent frameworks")
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    def given(_talk: Talk, client: Any) -> dict[str, Any]:  # noqa: ANN401
        provider = OpenAIProvider(openai_client=client)
        return {"model": OpenAIChatModel("small", provider=provider), "tools": []}

    talk = in_talk("pydantic_ai", given, tmp_path)
    assert len(talk.service.bodies) == 2
    assert leaks(talk.service.everything) == set()


def test_the_block_of_openais_sdk(tmp_path: Path) -> None:
    pytest.importorskip("agents", reason="`make extras` installs the agent frameworks")
    from agents import OpenAIChatCompletionsModel, SQLiteSession, set_trace_processors

    set_trace_processors([])

    def given(_talk: Talk, client: Any) -> dict[str, Any]:  # noqa: ANN401
        model = OpenAIChatCompletionsModel("small", client)
        return {"model": model, "tools": [], "servers": [], "session": SQLiteSession("t1")}

    talk = in_talk("openai_agents", given, tmp_path)
    assert talk.service.bodies
    assert leaks(talk.service.everything) == set()


@pytest.mark.filterwarnings("ignore")  # LlamaIndex warns of its own deprecations
def test_the_block_of_llama_index(tmp_path: Path) -> None:
    pytest.importorskip("llama_index.llms.openai_like", reason="`make integrations` installs it")
    from llama_index.llms.openai_like import OpenAILike

    def given(talk: Talk, client: Any) -> dict[str, Any]:  # noqa: ANN401
        llm = OpenAILike(
            model="small",
            api_base=talk.url,
            api_key="none",
            is_chat_model=True,
            is_function_calling_model=True,
            async_openai_client=client,
        )
        return {"llm": llm, "tools": []}

    talk = in_talk("llama_index", given, tmp_path)
    assert len(talk.service.bodies) == 2
    assert leaks(talk.service.everything) == set()


def test_the_block_of_the_claude_agent_sdk(tmp_path: Path) -> None:
    pytest.importorskip("claude_agent_sdk", reason="`make integrations` installs the SDK")
    from tests.support.agent_program import Program

    def given(talk: Talk, _client: Any) -> dict[str, Any]:  # noqa: ANN401
        return {"tools": [], "transport": Program(talk.url, tmp_path)}

    talk = in_talk("claude_agent_sdk", given, tmp_path)
    assert len(talk.service.bodies) == 2
    assert leaks(talk.service.everything) == set()


def test_the_block_of_presidio() -> None:
    pytest.importorskip("presidio_analyzer", reason="`make extras` installs the agent frameworks")
    pytest.importorskip("presidio_anonymizer", reason="`make extras` installs the agent frameworks")
    from presidio_analyzer import RecognizerRegistry
    from presidio_anonymizer import AnonymizerEngine

    from rootguard import Guard, load_template

    template = load_template("fib4")
    values = {"age": 54, "ast": 61, "alt": 33, "plt": 271}
    given = {
        "registry": RecognizerRegistry(recognizers=[], supported_languages=["en"]),
        "anonymizer": AnonymizerEngine(),
        "template": template,
        "session": Guard.open(template, values=values, budget="0.9"),
    }
    made = asyncio.run(run(block_of("presidio"), given))
    assert len(made["operators"]) == len(template.roots)


def test_the_block_of_fastapi() -> None:
    pytest.importorskip("fastapi", reason="`make extras` installs the agent frameworks")
    from fastapi import FastAPI

    from rootguard.store import MemoryStore

    given = {"store": MemoryStore(), "signed_in": lambda: "jane", "app": FastAPI()}
    made = asyncio.run(run(block_of("fastapi"), given))
    assert callable(made["guarded"])


def test_every_block_has_its_test() -> None:
    tested = {"claude_agent_sdk", "fastapi", "langchain", "llama_index", "openai_agents"}
    tested |= {"presidio", "pydantic_ai"}
    found = set(re.findall(r"rootguard\.integrations\.(\w+) import", "\n".join(BLOCKS)))
    assert found == tested
    assert len(BLOCKS) == len(tested)
