"""The agent study: what a session promises, what transcripts keep, and that a kill is survived."""

import json
import re
import signal
import subprocess
import threading
from fractions import Fraction
from pathlib import Path

import anyio
import numpy as np
import pytest

from rootguard.advice.people import PAPER_TEMPLATES, synthetic_cohort
from rootguard.advice.utility import calibration_of
from rootguard.errors import FileError
from rootguard.evaluation.rq4_agent.backends import Scripted
from rootguard.evaluation.rq4_agent.channel import connected
from rootguard.evaluation.rq4_agent.patients import (
    AGENT_CONFIGURATIONS,
    PUBLISHED_ACTIVE,
    AgentCell,
    AgentConfiguration,
    PatientGroup,
    only,
)
from rootguard.evaluation.rq4_agent.replies import Parser
from rootguard.evaluation.rq4_agent.study import AgentSession, Grid, Transcripts, hold, run_sessions
from rootguard.template import load_template
from rootguard.values import RootName
from tests.support.agents import Garbling, held, patient_group
from tests.support.patience import PATIENCE
from tests.support.programs import PYTHON

FIB4 = tuple(map(RootName, ("age", "ast", "alt", "plt")))
ONE = Grid(epsilons=(Fraction("0.1"),), budgets=("2k+1",))


def cell(config: AgentConfiguration, template: str = "fib4") -> AgentCell:
    return AgentCell(
        budget="2k+1", epsilon=Fraction("0.1"), template=template, asked="declared",
        mechanism="exponential", config=config,
    )  # fmt: skip


def final(record: dict[str, object]) -> dict[str, float]:
    turns = record["turns"]
    assert isinstance(turns, list)
    found: dict[str, float] = turns[-1]["read"]
    return found


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("AST is 24.3 U/L.", {"ast": 24.3}),
        ("My SGOT was 24.3.", {"ast": 24.3}),
        ("Your aspartate  aminotransferase = 1,024.5", {"ast": 1024.5}),
        ("It is 24.3 U/L.", {"ast": 24.3}),
        ("24.3 U/L is my AST", {"ast": 24.3}),
        ("Platelets are 231.5 10^9/L.", {"plt": 231.5}),
        ("Platelets: 231.5 x 10⁹/L", {"plt": 231.5}),
        ("AST (aspartate aminotransferase) is 24.", {"ast": 24.0}),
        ("Age, AST and ALT are 50, 24 and 30.", {"age": 50.0, "ast": 24.0, "alt": 30.0}),
        ('{"ast": 24.3, "alt": 30}', {"ast": 24.3, "alt": 30.0}),
        ("AST is 24. Your FIB4 is 1.2.", {"ast": 24.0}),
        ("AST is 24 today, and AST is 24.0 again.", {"ast": 24.0}),
        ("AST is 24 or AST is 25.", {}),
        ("AST is 24, 25 or 26.", {}),
        ("I got it: 3 apples and 4 pears.", {}),
        ("AST is 24,5 U/L.", {}),
        ("AST is 24, for the FIB-4.", {"ast": 24.0}),
        ("I have no value for that.", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_a_reply_is_read_by_names_aliases_and_order(reply: str, found: dict[str, float]) -> None:
    parser = Parser.of(load_template("fib4"))

    assert parser.read(reply, (RootName("ast"),)).values == found


def test_the_parser_is_frozen() -> None:
    digests = {name: Parser.of(load_template(name)).digest for name in ("fib4", "homa")}

    assert digests == {"fib4": "1099ff745a1cf710", "homa": "9385dd32aa95e1d8"}, (
        "figures read by another parser do not compare with those of earlier runs"
    )


def test_roots_are_asked_in_turn_and_all_of_them_at_last() -> None:
    asked = AgentSession(group=patient_group(), cell=cell("opt"), patient=0).questions()

    assert [question.roots for question in asked] == [*[(root,) for root in FIB4] * 2, FIB4]
    assert len({question.text for question in asked}) > 6


def test_every_configuration_is_asked_the_same_and_every_patient_something_else() -> None:
    people = patient_group()
    texts = {
        (config, patient): tuple(
            question.text
            for question in AgentSession(
                group=people, cell=cell(config), patient=patient
            ).questions()
        )
        for config in AGENT_CONFIGURATIONS
        for patient in range(2)
    }

    assert len(set(texts.values())) == 2


@pytest.mark.parametrize("template", PAPER_TEMPLATES)
def test_the_scripted_agent_says_every_value_as_it_was_on_the_wire(
    template: str, tmp_path: Path
) -> None:
    grid = Grid(epsilons=(Fraction("0.1"),), configurations=AGENT_CONFIGURATIONS)
    people = patient_group(template, patients=1)

    records = list(held(grid, [people], tmp_path / "t.jsonl"))

    assert len(records) == 12
    kinds = {kind for r in records for turn in r["turns"] for kind in turn["faith"].values()}
    assert kinds == {"exact"}
    for record in records:
        assert set(final(record)) == set(people.roots)


def test_a_guarded_patient_says_the_same_for_ever_and_an_unguarded_one_does_not(
    tmp_path: Path,
) -> None:
    grid = Grid(epsilons=(Fraction("0.1"),), budgets=("3k+1",))
    distinct: dict[str, int] = {}
    for record in held(grid, [patient_group(patients=1)], tmp_path / "t.jsonl"):
        said = {turn["read"]["ast"] for turn in record["turns"] if "ast" in turn["read"]}
        distinct[record["session"].split("/")[-2]] = len(said)

    assert distinct == {"all": 4, "roots": 1, "opt": 1}


def test_messages_are_json_rpc_and_hold_no_true_value() -> None:
    people = patient_group()
    truths = {repr(float(people.column(root)[0])) for root in FIB4}
    for config in AGENT_CONFIGURATIONS:
        wire: list[str] = []
        session = AgentSession(group=people, cell=cell(config), patient=0)

        async def talk(session: AgentSession = session, wire: list[str] = wire) -> list[str]:
            async with connected(session.server(), wire=wire) as tools:
                conversation = await Scripted().meet(tools)
                return [await conversation.reply(q.text) for q in session.questions()]

        replies = anyio.run(talk)
        numbers = set(re.findall(r"\d+\.\d+", "\n".join(wire)))
        assert all(json.loads(message)["jsonrpc"] == "2.0" for message in wire)
        assert sum('"method":"tools/call"' in message for message in wire) >= 9
        assert not truths & numbers
        assert set(re.findall(r"\d+\.\d+", "\n".join(replies))) <= numbers  # it would be found


def test_calibrated_sessions_have_the_draws_of_opt() -> None:
    people = patient_group()

    async def both() -> list[dict[str, float]]:
        return [
            final(await hold(AgentSession(group=people, cell=cell(config), patient=1), Scripted()))
            for config in ("opt", "calibrated")
        ]

    noised, calibrated = anyio.run(both)
    domains = {root: people.template.roots[root].domain for root in FIB4}
    indices = {root: np.array([domains[root].nearest(noised[root])]) for root in FIB4}
    plan = people.plan(cell("opt"))
    expected = calibration_of(people.template, plan).release_many(indices)
    assert calibrated == pytest.approx({root: float(expected[root][0]) for root in FIB4})
    assert calibrated != noised


def test_a_seed_decides_everything(tmp_path: Path) -> None:
    grid = ONE
    one, same, other = (
        list(held(grid, [patient_group(patients=1, seed=seed)], tmp_path / f"{i}.jsonl"))
        for i, seed in enumerate((0, 0, 1))
    )

    assert one == same
    assert all(a["turns"] != b["turns"] for a, b in zip(one, other, strict=True))


def test_the_published_runs_have_as_many_sessions_and_observations_as_ours() -> None:
    sessions = observations = 0
    for name in PAPER_TEMPLATES:
        template = load_template(name)
        if name in PUBLISHED_ACTIVE:
            template = only(template, PUBLISHED_ACTIVE[name])
        people = PatientGroup(
            template, synthetic_cohort(template, size=100), asked="active", seed=0, patients=100
        )
        for each in Grid().cells(people):
            sessions += people.patients
            observations += people.patients * (people.turns(each.budget) - 1 + len(people.roots))

    assert (sessions, observations) == (21_600, 162_000)


def test_what_a_model_does_to_a_value_is_told_apart(tmp_path: Path) -> None:
    def change(turn: int, reply: str) -> str:
        number = re.search(r"\d+\.\d+", reply)
        assert number is not None
        cases = {
            0: reply,
            1: reply.replace(number[0], f"{float(number[0]):.1f}"),
            2: reply.replace(number[0], "1000000.5"),
            3: "I would rather not say.",
        }
        return cases.get(turn, reply)

    (record,) = held(
        Grid(epsilons=ONE.epsilons, budgets=ONE.budgets, configurations=("opt",)),
        [patient_group(patients=1)],
        tmp_path / "t.jsonl",
        Garbling(change),
    )

    kinds = [next(iter(turn["faith"].values())) for turn in record["turns"][:5]]
    assert kinds == ["exact", "rounded", "invented", "unparsed", "exact"]
    assert 1000000.5 in record["turns"][2]["read"].values()  # never repaired


def test_a_value_said_from_memory_is_not_invented(tmp_path: Path) -> None:
    said: list[str] = []

    def change(turn: int, reply: str) -> str:
        said.append(reply)
        return said[0] if turn == 4 else reply

    grid = Grid(epsilons=ONE.epsilons, budgets=ONE.budgets, configurations=("all",))
    (record,) = held(grid, [patient_group(patients=1)], tmp_path / "t.jsonl", Garbling(change))

    assert record["turns"][4]["faith"] == {"age": "remembered"}


def test_a_torn_last_line_is_held_again_and_others_are_not(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    people = [patient_group()]
    whole = list(held(ONE, people, path))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + lines[3][: len(lines[3]) // 2])

    transcripts = Transcripts(path)
    assert run_sessions(ONE, people, Scripted(), transcripts).sessions == 3
    assert list(transcripts) == whole
    assert run_sessions(ONE, people, Scripted(), transcripts).sessions == 0


def test_another_seed_does_not_take_over_sessions(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    held(ONE, [patient_group()], path)

    assert run_sessions(ONE, [patient_group(seed=1)], Scripted(), Transcripts(path)).sessions == 6


def test_two_processes_cannot_write_the_same_transcripts(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    held(ONE, [patient_group()], path)
    before = path.read_bytes()
    writing = Transcripts(path)
    writing.open()

    with pytest.raises(FileError, match="another process writes it"):
        run_sessions(ONE, [patient_group(seed=1)], Scripted(), Transcripts(path))

    assert path.read_bytes() == before
    writing.close()
    assert run_sessions(ONE, [patient_group(seed=1)], Scripted(), Transcripts(path)).sessions == 6


def test_sessions_at_once_are_the_sessions_one_by_one(tmp_path: Path) -> None:
    alone = list(held(ONE, [patient_group()], tmp_path / "a.jsonl"))
    together = Transcripts(tmp_path / "b.jsonl")
    run_sessions(ONE, [patient_group()], Scripted(), together, concurrency=4)

    def by_name(records: list[dict[str, object]]) -> list[dict[str, object]]:
        return sorted(records, key=lambda record: str(record["session"]))

    assert by_name(list(together)) == by_name(alone)


def test_a_run_that_is_killed_goes_on_without_repeating_or_losing_a_session(
    tmp_path: Path,
) -> None:
    arguments = ["--template", "homa", "--patients", "4", "--epsilon", "0.1", "--config", "opt"]
    call = "from rootguard.cli.bench import rq4; rq4()"

    def command(out: Path) -> list[str]:
        return [*PYTHON, "-c", call, "--out", str(out), *arguments, "--json"]

    out = tmp_path / "killed"
    path = out / "transcripts.jsonl"
    process = subprocess.Popen(command(out), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    while not path.exists() or path.read_bytes().count(b"\n") < 2:
        assert process.poll() is None or path.read_bytes().count(b"\n") >= 2
        threading.Event().wait(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = path.read_bytes()
    kept = before.count(b"\n")

    done = subprocess.run(command(out), capture_output=True, check=True, timeout=PATIENCE)
    whole = subprocess.run(
        command(tmp_path / "whole"), capture_output=True, check=True, timeout=PATIENCE
    )

    assert json.loads(done.stdout)["held_now"] == 12 - kept
    assert json.loads(whole.stdout)["held_now"] == 12
    resumed = path.read_bytes()
    assert resumed.startswith(before[: before.rfind(b"\n") + 1])
    assert resumed == (tmp_path / "whole" / "transcripts.jsonl").read_bytes()
    assert len({(r["run"], r["session"]) for r in Transcripts(path)}) == 12


@pytest.mark.parametrize("config", AGENT_CONFIGURATIONS)
def test_a_session_without_a_wire_is_the_same_as_one_over_it(config: AgentConfiguration) -> None:
    group = patient_group()
    session = AgentSession(group=group, cell=cell(config), patient=0)

    async def both() -> list[dict[str, object]]:
        return [await hold(session, Scripted(), wired=wired) for wired in (False, True)]

    direct, over_the_wire = anyio.run(both)
    assert json.dumps(direct) == json.dumps(over_the_wire)
    assert direct["turns"]


@pytest.mark.parametrize("config", ["all", "opt"])
def test_a_tool_that_there_is_not_is_refused_alike_without_a_wire(
    config: AgentConfiguration,
) -> None:
    session = AgentSession(group=patient_group(), cell=cell(config), patient=0)

    async def both() -> list[dict[str, object]]:
        alone = await session.tools().call("nonsense", {})
        async with connected(session.server()) as tools:
            return [alone.record(), (await tools.call("nonsense", {})).record()]

    direct, over_the_wire = anyio.run(both)
    assert direct == over_the_wire
    assert "refused" in json.dumps(direct)
