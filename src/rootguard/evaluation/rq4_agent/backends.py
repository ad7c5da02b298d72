"""Who the user agent is: what every backend offers, and the scripted one.

A backend is asked to take up a patient, whom it knows only through tools, and then answers one
question after another in words. It never holds a true value: there is none on its side.

`scripted` is a program in a model's place: it finds the names in a question, calls a tool by
name and writes a sentence with the value in full. It shows what the guard does to the figures when
the model makes no mistake, and is quick enough for the whole grid.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from rootguard.evaluation.rq4_agent.channel import GET, LIST, SANITIZE, Tools
from rootguard.evaluation.rq4_agent.replies import Aliases
from rootguard.session.questions.wording import NO_VALUE, sentence, statement


class BackendStoppedError(Exception):
    """The backend cannot go on, or may not. What was held is kept; a later run goes on from there.

    Its text is ours: nothing of what an endpoint said, and no key.
    """


class Conversation(Protocol):
    """A user agent in the middle of a session."""

    async def reply(self, question: str) -> str:
        """The agent's words. Tool calls in between are written down by the tools themselves."""
        ...


class Backend(Protocol):
    """A kind of user agent. `label` names it, its model and what decides its answers."""

    @property
    def label(self) -> str:
        """What tables and transcripts call it."""
        ...

    async def meet(self, tools: Tools) -> Conversation:
        """Begin a session with a patient behind these tools."""
        ...

    async def close(self) -> None:
        """Let go of connections and models when the run is over."""
        ...


class Scripted:
    """The deterministic agent."""

    label = "scripted"

    async def meet(self, tools: Tools) -> "ScriptedConversation":
        """Ask which values there are, and remember what they are called."""
        listed = await tools.call(LIST, {})
        return ScriptedConversation(tools, (listed.content or {}).get("values", ()))

    async def close(self) -> None:
        """There is nothing to let go of."""


class ScriptedConversation:
    """Answers from the tools: `get_values` once per question, or `sanitize` once per value."""

    def __init__(self, tools: Tools, values: Sequence[Mapping[str, object]]) -> None:
        self._tools = tools
        self._by_one = any(tool.name == SANITIZE for tool in tools.listed)
        names = [str(value["name"]) for value in values]
        also = [value.get("also_called") or () for value in values]
        spelled = [tuple(map(str, each)) if isinstance(each, list) else () for each in also]
        self._aliases = _aliases(tuple(zip(names, spelled, strict=True)))

    async def reply(self, question: str) -> str:
        """One sentence with every value that was asked for and given."""
        said: dict[str, str] = {}
        for mention in self._aliases.find(question):
            said.setdefault(mention.name, question[mention.start : mention.end])
        if not said:
            return NO_VALUE
        given: list[Mapping[str, object]] = []
        if self._by_one:
            for name in said:
                call = await self._tools.call(SANITIZE, {"name": name})
                given += (call.content or {}).get("values", ())
        else:
            call = await self._tools.call(GET, {"names": list(said)})
            given += (call.content or {}).get("values", ())
        parts = []
        for value in given:
            number = value["value"]
            if isinstance(number, int | float):
                spelled = said[str(value["name"])]
                parts.append(statement(spelled, float(number), str(value["unit"])))
        return sentence(parts) if parts else NO_VALUE


# Every session of a template lists the same names, and the index of them takes longer to build than
# a session takes to hold.
@lru_cache(maxsize=64)
def _aliases(spellings: tuple[tuple[str, tuple[str, ...]], ...]) -> Aliases:
    return Aliases(dict(spellings))
