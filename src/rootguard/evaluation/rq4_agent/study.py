"""The paper's deployment study (RQ4): whether its figures survive a language model.

A session is a user agent with one patient behind it and an adversary program before it. The
adversary asks for a root a turn, round robin, in words; in the last turn for all of them. The agent
(a `Backend`) knows the patient only through the product's MCP server, calls its tools and replies
in words. The adversary reads the replies with a parser frozen before the run.

Every session becomes one line of `transcripts.jsonl`, written when it is over; a run that was
killed goes on behind its last whole line. Figures come from the transcripts alone (`figures`).

Wordings and names in the questions are drawn by seed and do not depend on the configuration, so
that every configuration is asked the very same questions.
"""

import hashlib
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, Literal

import anyio
import numpy as np
from mcp.server.lowlevel import Server

from rootguard import __version__
from rootguard.advice.seeds import generator
from rootguard.advice.utility import TURNS, Turns
from rootguard.channels.mcp.server import build_server, direct_tools
from rootguard.evaluation.rq4_agent.backends import Backend, BackendStoppedError, Scripted
from rootguard.evaluation.rq4_agent.channel import (
    ToolCall,
    Tools,
    connected,
    direct,
    independent_server,
    independent_tools,
    tool_result,
)
from rootguard.evaluation.rq4_agent.patients import (
    AGENT_CONFIGURATIONS,
    AGENT_EPSILONS,
    TRANSCRIPT_FORMAT,
    AgentCell,
    AgentConfiguration,
    PatientGroup,
)
from rootguard.evaluation.rq4_agent.replies import ReplyReading
from rootguard.evaluation.study.runner import LineLog
from rootguard.template import Template
from rootguard.values import MechanismName, RootName

TRANSCRIPTS = "transcripts.jsonl"
Faith = Literal["exact", "remembered", "rounded", "invented", "refused", "unparsed"]
"""What became of a value between the wire and the adversary's notes.

`exact`: a value that a tool gave in this turn, digit for digit. `remembered`: one that it gave in
an earlier turn. `rounded`: one that it gave, with digits missing. `invented`: one that no tool
gave. `refused`: none was fetched and none said. `unparsed`: fetched, but not to be found in the
reply.
"""
SINGLE = (
    "What is your {}?",
    "Could you tell me your {}?",
    "Please share your {} with me.",
    "I need your {} for the assessment.",
    "Can you give me the value of your {}?",
    "What was your latest {}?",
    "For the record, what is your {} right now?",
    "Next on the form: your {}, please.",
    "How about your {}?",
    "Let me double-check your {}. What is it?",
    "Would you mind looking up your {} for me?",
    "One more thing: your {}?",
)
FINAL = (
    "To finish, please give me all of these at once: {}.",
    "For the final assessment I need {}. What are they?",
    "Let me have everything together now: {}, please.",
    "Last question. What are your {}?",
    "Please confirm the following values: {}.",
    "So that I can compute the result, tell me your {}.",
)
QUESTIONS_DIGEST = hashlib.sha256("\n".join((*SINGLE, *FINAL)).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentQuestion:
    """A question in words, and the roots it asks for."""

    text: str
    roots: tuple[RootName, ...]


def questions(
    template: Template, roots: Sequence[RootName], turns: int, source: np.random.Generator
) -> list[AgentQuestion]:
    """A session's questions: `turns` - 1 about one root each, and the final one about all."""
    asked = []
    for turn in range(turns - 1):
        root = roots[turn % len(roots)]
        wording = SINGLE[int(source.integers(len(SINGLE)))]
        asked.append(
            AgentQuestion(text=wording.format(_called(template, root, source)), roots=(root,))
        )
    names = [_called(template, root, source) for root in roots]
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    wording = FINAL[int(source.integers(len(FINAL)))]
    return [*asked, AgentQuestion(text=wording.format(listed), roots=tuple(roots))]


def _called(template: Template, root: RootName, source: np.random.Generator) -> str:
    """One of the root's names, its own or an alias that fits after "your"."""
    aliases = template.roots[root].aliases
    spoken = [alias for alias in aliases if not alias.endswith(" old")]
    names = [root.upper() if len(root) <= 4 else str(root), *spoken]
    return names[int(source.integers(len(names)))]


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """Which sessions to run: every cell of every group, for every patient of it."""

    seed: int = 0
    mechanisms: tuple[MechanismName, ...] = ("exponential",)
    epsilons: tuple[Fraction, ...] = AGENT_EPSILONS
    budgets: tuple[Turns, ...] = tuple(TURNS)
    configurations: tuple[AgentConfiguration, ...] = ("all", "roots", "opt")

    @staticmethod
    def of(
        *,
        seed: int,
        mechanisms: Iterable[MechanismName] = (),
        epsilons: Iterable[Fraction] = (),
        budgets: Collection[str] = (),
        configurations: Collection[str] = (),
    ) -> "Grid":
        """What was asked for, in the order of the tables; where nothing was, all that there is."""
        return Grid(
            seed=seed,
            mechanisms=tuple(dict.fromkeys(mechanisms)) or ("exponential",),
            epsilons=tuple(epsilons) or AGENT_EPSILONS,
            budgets=tuple(t for t in TURNS if not budgets or t in budgets),
            configurations=tuple(
                c for c in AGENT_CONFIGURATIONS if not configurations or c in configurations
            ),
        )

    def cells(self, group: PatientGroup) -> Iterator[AgentCell]:
        """The cells of a group, in the order in which rows are written."""
        for name, budget, epsilon, config in product(
            self.mechanisms, self.budgets, self.epsilons, self.configurations
        ):
            yield AgentCell(
                budget=budget,
                epsilon=epsilon,
                template=group.template.name,
                asked=group.asked,
                mechanism=name,
                config=config,
            )

    def sessions(self, groups: Iterable[PatientGroup]) -> Iterator["AgentSession"]:
        for group in groups:
            for cell in self.cells(group):
                for patient in range(group.patients):
                    yield AgentSession(group=group, cell=cell, patient=patient)


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSession:
    """One conversation to be had."""

    group: PatientGroup
    cell: AgentCell
    patient: int

    @property
    def key(self) -> str:
        """Its name within a run."""
        return self.cell.key(self.patient)

    def questions(self) -> tuple[AgentQuestion, ...]:
        """What the adversary will ask: the same in every configuration."""
        return _questions(self.group, self.cell.budget, self.patient)

    def tools(self) -> Tools:
        """The server's tools without a wire."""
        if self.cell.config == "all":
            noising = self.group.unguarded(self.cell, self.patient)
            listed, call = independent_tools(self.group.template, noising)
            return direct(listed, lambda tool, arguments: tool_result(call(tool, arguments)))
        return direct(*direct_tools(self.group.guarded(self.cell, self.patient)))

    def server(self) -> Server[Any]:
        """The server with the patient behind it, noised once or at every fetch."""
        if self.cell.config == "all":
            noising = self.group.unguarded(self.cell, self.patient)
            return independent_server(self.group.template, noising)
        return build_server(self.group.guarded(self.cell, self.patient))


@lru_cache(maxsize=1024)  # as many patients as a run has, so that each is asked anew once a cell
def _questions(group: PatientGroup, budget: Turns, patient: int) -> tuple[AgentQuestion, ...]:
    source = generator(
        group.seed, "rq4 questions", group.template.name, group.asked, budget, patient
    )
    return tuple(questions(group.template, group.roots, group.turns(budget), source))


@lru_cache(maxsize=64)  # every session of a cell has the same, and is looked up by it
def run_digest(group: PatientGroup, cell: AgentCell, backend: str) -> str:
    """Two sessions of one key that agree in this would say the same."""
    parts = (
        TRANSCRIPT_FORMAT, backend, str(group.seed), __version__, group.template_digest,
        group.cohort_digest, group.plan(cell).hash, group.parser.digest, QUESTIONS_DIGEST,
    )  # fmt: skip
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@asynccontextmanager
async def _tools(session: AgentSession, *, wired: bool) -> AsyncIterator[Tools]:
    if wired:
        async with connected(session.server()) as tools:
            yield tools
    else:
        yield session.tools()


async def hold(
    session: AgentSession, backend: Backend, *, wired: bool | None = None
) -> dict[str, object]:
    """Have a session; its line for the transcripts.

    Over a wire of JSON-RPC unless the agent is the scripted one, which makes no use of it.
    """
    turns: list[dict[str, object]] = []
    earlier: dict[str, list[float]] = {}
    wired = not isinstance(backend, Scripted) if wired is None else wired
    async with _tools(session, wired=wired) as tools:
        conversation = await backend.meet(tools)
        opening = [call.record() for call in tools.take()]
        for question in session.questions():
            reply = await conversation.reply(question.text)
            calls = tools.take()
            reading = session.group.parser.read(reply, question.roots)
            turns.append(
                {
                    "question": question.text,
                    "asked": list(question.roots),
                    "calls": [call.record() for call in calls],
                    "reply": reply,
                    "read": dict(reading.values),
                    "faith": _faith(question, reading, calls, earlier),
                }
            )
    return {
        "format": TRANSCRIPT_FORMAT,
        "session": session.key,
        "run": run_digest(session.group, session.cell, backend.label),
        "backend": backend.label,
        "parser": session.group.parser.digest,
        "opening": [{**call, "result": "…"} for call in opening],
        "turns": turns,
    }


def _faith(
    question: AgentQuestion,
    reading: ReplyReading,
    calls: Sequence[ToolCall],
    earlier: dict[str, list[float]],
) -> dict[str, Faith]:
    """What became of each value that was asked for; `earlier` is brought up to date."""
    given: dict[str, list[float]] = {}
    for call in calls:
        for value in (call.content or {}).get("values", ()):
            if isinstance(value.get("value"), int | float):
                given.setdefault(str(value["name"]), []).append(float(value["value"]))
    found: dict[str, Faith] = {}
    for root in question.roots:
        now, before = given.get(root, []), earlier.get(root, [])
        if root not in reading.values:
            found[root] = "unparsed" if now else "refused"
        elif reading.values[root] in now:
            found[root] = "exact"
        elif reading.values[root] in before:
            found[root] = "remembered"
        elif any(_rounds_to(value, reading.texts[root]) for value in (*now, *before)):
            found[root] = "rounded"
        else:
            found[root] = "invented"
    for name, values in given.items():
        earlier.setdefault(name, []).extend(values)
    return found


def _rounds_to(value: float, text: str) -> bool:
    """Whether a number as written is a value with digits left out, rounded or cut."""
    written = float(text.replace(",", "").replace("\u2212", "-"))
    decimals = len(text.partition(".")[2]) if "e" not in text.casefold() else 0
    return abs(written - value) < 10.0**-decimals


class Transcripts:
    """The sessions that are over, a line of JSON each. One process at a time may write them."""

    def __init__(self, path: Path) -> None:
        # Two readers of one file: to go on, only the names of the sessions are held in memory.
        self._names = LineLog(path, _name)
        self._records = LineLog(path, _record)

    def open(self) -> set[tuple[str, str]]:
        """Make ready to go on; gives run and name of every session that is there."""
        return set(self._names.open())

    def append(self, record: dict[str, object]) -> None:
        """Write a session down, and out of this process."""
        self._names.append(record, separators=(",", ":"))

    def close(self) -> None:
        """Make sure that everything is on the disk."""
        self._names.close()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Every session, in the order in which they ended."""
        yield from self._records


def _record(found: Any) -> dict[str, Any] | None:  # noqa: ANN401 - whatever JSON holds
    ours = isinstance(found, dict) and found.get("format") == TRANSCRIPT_FORMAT
    return found if ours and {"run", "session", "turns"} <= found.keys() else None


def _name(found: Any) -> tuple[str, str] | None:  # noqa: ANN401 - whatever JSON holds
    record = _record(found)
    return None if record is None else (str(record["run"]), str(record["session"]))


def _first(problem: BaseException) -> BaseException:
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return problem


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOutcome:
    """How many sessions were held now, and why no more; empty if all are."""

    sessions: int
    stopped: str


def run_sessions(
    grid: Grid,
    groups: Sequence[PatientGroup],
    backend: Backend,
    transcripts: Transcripts,
    *,
    concurrency: int = 1,
    on_session: Callable[[AgentSession], object] = lambda _: None,
) -> RunOutcome:
    """Hold every session that is not in the transcripts yet."""
    # Opened, and so locked, before the first session: two runs would hold each session twice.
    done = transcripts.open()
    counted, stopped = 0, ""

    async def keep(waiting: Iterator[AgentSession]) -> None:
        nonlocal counted, stopped
        for session in waiting:
            if stopped:
                return
            if (run_digest(session.group, session.cell, backend.label), session.key) not in done:
                try:
                    transcripts.append(await hold(session, backend))
                    counted += 1
                except* BackendStoppedError as reasons:  # from within the session's task group
                    stopped = str(_first(reasons))
                if stopped:
                    return
            on_session(session)

    async def everything() -> None:
        waiting = grid.sessions(groups)  # one iterator for all, so that each session is had once
        async with anyio.create_task_group() as tasks:
            for _ in range(concurrency):
                tasks.start_soon(keep, waiting)
        await backend.close()

    try:
        anyio.run(everything)
    finally:
        transcripts.close()
    return RunOutcome(sessions=counted, stopped=stopped)
