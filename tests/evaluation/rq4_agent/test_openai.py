"""The agent study with a model behind an endpoint: what is sent, paid, tried again and stopped."""

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner

from rootguard.cli.bench import rq4
from rootguard.evaluation.rq4_agent.backends import BackendStoppedError
from rootguard.evaluation.rq4_agent.openai import Endpoint, OpenAI, estimate
from rootguard.evaluation.rq4_agent.study import Grid, RunOutcome, Transcripts, run_sessions
from rootguard.session.questions.wording import sentence, statement
from tests.support.agents import patient_group
from tests.support.upstream import Recording, recording_upstream

GRID = Grid(epsilons=(Fraction("0.1"),), budgets=("k+1",), configurations=("opt",))
KEY = "sk-test-key"


@pytest.fixture
def model() -> Iterator[tuple[str, Recording]]:
    """A model that fetches glucose and insulin whatever is asked, and says what it got."""
    with recording_upstream() as (url, recording):
        recording.arguments = lambda _: json.dumps({"names": ["glu", "ins"]})

        def says(heard: str) -> str:
            given = json.loads(heard)["values"] if heard.startswith("{") else ()
            recording.calls = None if given else "get_values"
            return sentence([statement(v["name"], v["value"], v["unit"]) for v in given] or [""])

        recording.says = says
        yield url, recording


def run(
    url: str, path: Path, *, patients: int = 1, cap: float | None = None, retries: int = 2
) -> tuple[RunOutcome, OpenAI, Transcripts]:
    waits: list[float] = []

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    endpoint = Endpoint(
        url=url, model="small", key=KEY, price_in=1e6, price_out=1e6, retries=retries
    )
    backend = OpenAI(endpoint, cap=cap, pause=pause)
    transcripts = Transcripts(path)
    outcome = run_sessions(GRID, [patient_group("homa", patients=patients)], backend, transcripts)
    return outcome, backend, transcripts


def test_a_model_answers_through_the_tools(model: tuple[str, Recording], tmp_path: Path) -> None:
    url, recording = model

    outcome, backend, transcripts = run(url, tmp_path / "t.jsonl")

    assert outcome == RunOutcome(sessions=1, stopped="")
    (record,) = transcripts
    assert record["backend"] == "openai small"
    assert {f for turn in record["turns"] for f in turn["faith"].values()} == {"exact"}
    assert backend.requests == len(recording.bodies) == 6
    assert backend.spent == pytest.approx(12.0)
    first = recording.bodies[0]
    assert "glu (" in first["messages"][0]["content"]
    assert {tool["function"]["name"] for tool in first["tools"]} >= {"get_values", "answer"}
    assert recording.headers[0]["authorization"] == f"Bearer {KEY}"


def test_no_true_value_is_sent_and_what_was_given_is(
    model: tuple[str, Recording], tmp_path: Path
) -> None:
    url, recording = model
    people = patient_group("homa")

    _, _, transcripts = run(url, tmp_path / "t.jsonl")

    sent = recording.everything.decode()
    (record,) = transcripts
    for root in people.roots:
        assert repr(float(people.column(root)[0])) not in sent
        assert repr(record["turns"][-1]["read"][root]) in sent  # the control


def test_the_conversation_goes_on_over_the_turns(
    model: tuple[str, Recording], tmp_path: Path
) -> None:
    url, recording = model

    run(url, tmp_path / "t.jsonl")

    lengths = [len(body["messages"]) for body in recording.bodies]
    assert lengths == [2, 4, 6, 8, 10, 12]


def test_a_passing_failure_is_tried_again_and_then_the_run_stops(
    model: tuple[str, Recording], tmp_path: Path
) -> None:
    url, recording = model
    recording.fails = (503, b"no 12345.678", "text/plain")

    outcome, backend, transcripts = run(url, tmp_path / "t.jsonl")

    assert outcome == RunOutcome(sessions=0, stopped="the endpoint does not answer: status 503")
    assert backend.requests == 3
    assert list(transcripts) == []
    recording.fails = None
    assert run(url, tmp_path / "t.jsonl")[0].sessions == 1


def test_a_lasting_failure_is_not_tried_again(model: tuple[str, Recording], tmp_path: Path) -> None:
    url, recording = model
    recording.fails = (401, b"{}", "application/json")

    outcome, backend, _ = run(url, tmp_path / "t.jsonl")

    assert outcome.stopped == "the endpoint does not answer: status 401"
    assert backend.requests == 1


def test_an_answer_that_is_no_completion_stops_the_run(
    model: tuple[str, Recording], tmp_path: Path
) -> None:
    url, recording = model
    recording.fails = (200, b'{"choices": []}', "application/json")

    assert "no chat completion" in run(url, tmp_path / "t.jsonl")[0].stopped


def test_the_cap_is_never_passed_and_the_run_goes_on_later(
    model: tuple[str, Recording], tmp_path: Path
) -> None:
    url, _ = model
    path = tmp_path / "t.jsonl"
    first = 900 + 70  # what a request is taken for before any was paid for

    outcome, backend, _ = run(url, path, patients=3, cap=first + 15)

    assert outcome.sessions == 1
    assert outcome.stopped.startswith("the cap of 985 is reached")
    assert backend.spent <= 985
    assert run(url, path, patients=3)[0].sessions == 2


def test_a_model_that_only_calls_tools_says_nothing(
    model: tuple[str, Recording], tmp_path: Path
) -> None:
    url, recording = model
    recording.says, recording.calls = (lambda heard: heard), "get_values"

    _, _, transcripts = run(url, tmp_path / "t.jsonl")

    (record,) = transcripts
    assert {f for turn in record["turns"] for f in turn["faith"].values()} == {"unparsed"}


@pytest.mark.parametrize("arguments", ["not json", "[1]", '{"names": 3}'])
def test_a_call_with_wrong_arguments_is_told_so_and_kept_going(
    model: tuple[str, Recording], tmp_path: Path, arguments: str
) -> None:
    url, recording = model
    recording.says, recording.calls = (lambda heard: heard), "get_values"
    recording.arguments = lambda _: arguments

    outcome, _, transcripts = run(url, tmp_path / "t.jsonl")

    assert outcome.sessions == 1
    (record,) = transcripts
    assert {f for turn in record["turns"] for f in turn["faith"].values()} == {"refused"}


def test_the_estimate_grows_with_the_sessions() -> None:
    endpoint = Endpoint(url="", model="small", price_in=1.0, price_out=2.0)
    few = estimate(list(GRID.sessions([patient_group("homa", patients=1)])), endpoint)
    more = estimate(list(GRID.sessions([patient_group("homa", patients=3)])), endpoint)

    assert few.requests == 6  # what the test above counts
    assert more.sessions == 3
    assert more.cost == pytest.approx(3 * few.cost)
    assert few.cost > 0


def test_the_key_is_in_no_repr_and_no_transcript(
    model: tuple[str, Recording], tmp_path: Path
) -> None:
    url, _ = model
    run(url, tmp_path / "t.jsonl")

    assert KEY not in repr(Endpoint(url=url, model="small", key=KEY))
    assert KEY not in (tmp_path / "t.jsonl").read_text("utf-8")


def test_the_command_estimates_and_asks_before_it_sends(
    model: tuple[str, Recording], tmp_path: Path
) -> None:
    url, recording = model
    arguments = ["--out", str(tmp_path), "--backend", "openai", "--template", "homa"]
    arguments += ["--patients", "1", "--epsilon", "0.1", "--config", "opt"]
    needed = ["--url", url, "--model", "small", "--price", "1", "2"]

    missing = CliRunner().invoke(rq4, arguments)
    refused = CliRunner().invoke(rq4, [*arguments, *needed], input="n\n")
    assert missing.exit_code == 2
    assert refused.exit_code == 1
    assert recording.bodies == []
    assert "3 sessions, about 30 requests" in refused.stderr
    done = CliRunner().invoke(rq4, [*arguments, *needed, "--yes", "--concurrency", "2", "--json"])
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["backend"] == "openai small"


def test_an_unreachable_endpoint_stops_the_run() -> None:
    async def nothing(seconds: float) -> None:
        pass

    endpoint = Endpoint(url="http://127.0.0.1:9/v1", model="small", retries=1)
    backend = OpenAI(endpoint, pause=nothing)

    async def ask() -> None:
        try:
            await backend.complete({"messages": []})
        finally:
            await backend.close()

    with pytest.raises(BackendStoppedError, match="it cannot be reached"):
        anyio.run(ask)
    assert backend.requests == 2
