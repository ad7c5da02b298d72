"""Small groups of synthetic people, and an agent with faults, for tests of the agent study."""

from collections.abc import Callable
from pathlib import Path

from rootguard.advice.people import synthetic_cohort
from rootguard.evaluation.rq4_agent.backends import Backend, Conversation, Scripted
from rootguard.evaluation.rq4_agent.channel import Tools
from rootguard.evaluation.rq4_agent.patients import PatientGroup
from rootguard.evaluation.rq4_agent.study import Grid, Transcripts, run_sessions
from rootguard.template import load_template


def patient_group(name: str = "fib4", *, patients: int = 2, seed: int = 0) -> PatientGroup:
    template = load_template(name)
    cohort = synthetic_cohort(template, size=5)
    return PatientGroup(template, cohort, asked="declared", seed=seed, patients=patients)


def held(
    grid: Grid, groups: list[PatientGroup], path: Path, backend: Backend | None = None
) -> Transcripts:
    """Transcripts of every session of a grid."""
    transcripts = Transcripts(path)
    run_sessions(grid, groups, backend or Scripted(), transcripts)
    return transcripts


class Garbling:
    """The scripted agent, whose replies are changed on their way out."""

    label = "garbling"

    def __init__(self, change: Callable[[int, str], str]) -> None:
        self._change = change

    async def meet(self, tools: Tools) -> Conversation:
        return _Garbled(await Scripted().meet(tools), self._change)

    async def close(self) -> None:
        pass


class _Garbled:
    def __init__(self, inner: Conversation, change: Callable[[int, str], str]) -> None:
        self._inner = inner
        self._change = change
        self._turn = -1

    async def reply(self, question: str) -> str:
        self._turn += 1
        return self._change(self._turn, await self._inner.reply(question))
