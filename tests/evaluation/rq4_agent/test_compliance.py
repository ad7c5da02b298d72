"""Agents beside each other: what is counted, over which sessions, and which failures are shown."""

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from rootguard.evaluation.rq4_agent.backends import Scripted
from rootguard.evaluation.rq4_agent.figures import (
    EXAMPLES,
    common,
    compliance_sheets,
    session_compliance,
)
from rootguard.evaluation.rq4_agent.study import Grid, Transcripts, run_sessions
from tests.support.agents import Garbling, held, patient_group

GRID = Grid(epsilons=(Fraction("0.1"),), budgets=("k+1",), configurations=("all", "opt"))


def unlike(turn: int, reply: str) -> str:
    """Rounds in the first turn, invents in the second, and is silent about all roots at last."""
    cases: dict[int, Callable[[str], str]] = {
        0: lambda said: re.sub(r"(\d+\.\d)\d+", r"\1", said),
        1: lambda said: re.sub(r"\d+\.\d+", "99999.25", said),
        2: lambda _: "I cannot say.",
    }
    return cases[turn](reply)


@pytest.fixture
def both(tmp_path: Path) -> Transcripts:
    """Two sessions by one agent, and one of them by another."""
    people = [patient_group("homa", patients=1)]
    transcripts = held(GRID, people, tmp_path / "t.jsonl")
    half = Grid(epsilons=GRID.epsilons, budgets=GRID.budgets, configurations=("opt",))
    run_sessions(half, people, Garbling(unlike), transcripts)
    return transcripts


def test_counts_are_those_of_each_session(both: Transcripts) -> None:
    *scripted, garbling = map(session_compliance, both)

    assert [one.backend for one in scripted] == ["scripted", "scripted"]
    assert all(one.exact and one.fetched == 4 for one in scripted)
    assert not garbling.exact
    assert garbling.fetched == 4  # the tools were called rightly, whatever was said
    assert garbling.faith == {"rounded": 1, "invented": 1, "unparsed": 2}


def test_agents_are_compared_on_the_sessions_that_all_of_them_held(both: Transcripts) -> None:
    fair = common([session_compliance(record) for record in both])

    assert len({one.session for one in fair}) == 1
    assert sorted(one.backend for one in fair) == ["garbling", "scripted"]


def test_each_agent_has_a_line_and_each_kind_of_failure_an_example(both: Transcripts) -> None:
    everything, fair, failures = compliance_sheets(both)

    assert [line[:2] for line in everything.lines] == [("garbling", "1"), ("scripted", "2")]
    assert [line[:2] for line in fair.lines] == [("garbling", "1"), ("scripted", "1")]
    exact = everything.header.index("exact")
    assert [line[exact] for line in everything.lines] == ["0.0 %", "100.0 %"]
    assert {line[1].split()[1] for line in failures.lines} == {"rounded", "invented", "unparsed"}
    assert all(line[0] == "garbling" for line in failures.lines)
    assert any("99999.25" in line[4] for line in failures.lines)


def test_no_more_than_the_first_failures_of_a_kind_are_shown(tmp_path: Path) -> None:
    groups = [patient_group("homa", patients=2), patient_group("nlr", patients=2)]
    records = held(GRID, groups, tmp_path / "t.jsonl", Garbling(lambda *_: "I cannot say."))

    (failures,) = compliance_sheets(records)

    assert len(failures.lines) == EXAMPLES


def test_an_agent_without_fault_alone_needs_no_table(tmp_path: Path) -> None:
    records = held(GRID, [patient_group("homa", patients=1)], tmp_path / "t.jsonl", Scripted())

    assert compliance_sheets(records) == ()
