"""The agent as a local model: what it may write, what it reads, and that nothing is repaired."""

import json
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import anyio
import pytest

from rootguard.evaluation.language_model import Message, ModelError
from rootguard.evaluation.rq4_agent.channel import connected
from rootguard.evaluation.rq4_agent.local import (
    DECODINGS,
    Decoding,
    Local,
    call_schema,
    calls_in,
    reply_grammar,
)
from rootguard.evaluation.rq4_agent.patients import AgentConfiguration
from rootguard.evaluation.rq4_agent.study import AgentSession, Grid, Transcripts, hold, run_sessions
from tests.support.agents import held, patient_group
from tests.support.models import Told, smollm2

VALUES = (
    {"name": "glu", "unit": "mg/dL", "also_called": ["fasting glucose", "FPG"]},
    {"name": "ratio", "unit": ""},
)
ONE = Grid(epsilons=(Fraction("0.1"),), budgets=("k+1",), configurations=("all", "opt"))


def asked_for(messages: Sequence[Message]) -> list[str]:
    """The roots of homa that the latest question is about, as a careful model would find them."""
    question = [message["content"] for message in messages if message["role"] == "user"][-1]
    spelt = {"glu": r"glu\b|gluc|sugar|FPG", "ins": r"\bins"}
    return [name for name, words in spelt.items() if re.search(words, question, re.IGNORECASE)]


def careful(
    messages: Sequence[Message], schema: Mapping[str, object] | None, grammar: str | None
) -> str:
    """Calls the right tool, and says what it gave."""
    if messages[-1]["role"] == "tool":
        return " and ".join(messages[-1]["content"].splitlines()) + "."
    tool = "sanitize" if '"sanitize"' in messages[0]["content"] else "get_values"
    return json.dumps({tool: asked_for(messages)})


def records(backend: Local, path: Path, grid: Grid = ONE) -> list[dict[str, Any]]:
    return list(held(grid, [patient_group("homa", patients=1)], path, backend))


def kinds(records: Sequence[Mapping[str, Any]]) -> set[str]:
    return {kind for r in records for turn in r["turns"] for kind in turn["faith"].values()}


@pytest.mark.parametrize(
    ("written", "calls"),
    [
        ('{"get_values":["glu","ins"]}', [("get_values", ["glu", "ins"])]),
        ('Sure:\n```json\n{"sanitize": ["glu"]}\n```', [("sanitize", ["glu"])]),
        ('{"list_values":[]}', [("list_values", [])]),
        ("Your glucose is 5.", []),
        ('{"get_values":["glu"', []),
        ('{"get_values":"glu"}', []),
        ('{"get_values":[1]}', []),
        ("[1]", []),
        ("{}", []),
        ("", []),
    ],
)
def test_a_tool_call_is_the_first_json_object_of_its_form(
    written: str, calls: list[tuple[str, list[str]]]
) -> None:
    assert calls_in(written) == calls


def test_the_schema_has_the_listed_tools_and_names_only() -> None:
    schema = json.dumps(call_schema(["list_values", "get_values"], ["glu", "ins"]))

    assert set(re.findall(r'"enum": \[([^\]]*)\]', schema)) == {'"glu", "ins"'}
    assert set(re.findall(r'"required": \["(\w+)"\]', schema)) == {"list_values", "get_values"}


def test_the_grammar_knows_names_and_units_but_no_number() -> None:
    grammar = reply_grammar(VALUES)

    assert '"glu is " number " mg/dL"' in grammar
    assert '"ratio is " number' in grammar
    statements = next(line for line in grammar.splitlines() if line.startswith("statement"))
    assert not re.search(r"\d", statements)


@pytest.mark.parametrize("decoding", DECODINGS)
def test_calls_and_replies_are_held_to_what_the_decoding_says(
    decoding: Decoding, tmp_path: Path
) -> None:
    seen: set[tuple[str, bool, bool]] = set()

    def says(
        messages: Sequence[Message], schema: Mapping[str, object] | None, grammar: str | None
    ) -> str:
        seen.add((messages[-1]["role"], schema is not None, grammar is not None))
        return careful(messages, schema, grammar)

    found = records(Local(Told(says), decoding=decoding), tmp_path / "t.jsonl")

    assert kinds(found) == {"exact"}
    assert seen == {
        ("user", decoding != "free", False),
        ("tool", False, decoding == "grammar"),
    }


def test_the_model_reads_names_and_noised_values_and_no_true_one(tmp_path: Path) -> None:
    people = patient_group("homa", patients=1)
    truths = {repr(float(people.column(root)[0])) for root in people.roots}
    model = Told(careful)
    found = list(held(ONE, [people], tmp_path / "t.jsonl", Local(model)))

    read = json.dumps(model.read, ensure_ascii=False)
    said = {repr(v) for r in found for turn in r["turns"] for v in turn["read"].values()}
    numbers = set(re.findall(r"\d+\.\d+", read))
    assert "glu (glucose, fasting glucose" in read
    assert said <= numbers  # what was given would be found
    assert not truths & numbers


def test_every_name_is_a_call_of_its_own_where_each_fetch_is_noised(tmp_path: Path) -> None:
    by_config = {
        r["session"].split("/")[-2]: r["turns"][-1]["calls"]
        for r in records(Local(Told(careful)), tmp_path / "t.jsonl")
    }

    assert [(c["tool"], c["arguments"]) for c in by_config["all"]] == [
        ("sanitize", {"name": "glu"}),
        ("sanitize", {"name": "ins"}),
    ]
    assert [(c["tool"], c["arguments"]) for c in by_config["opt"]] == [
        ("get_values", {"names": ["glu", "ins"]})
    ]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda reply: re.sub(r"(\d+\.\d)\d+", r"\1", reply), "rounded"),
        (lambda reply: re.sub(r"\d+\.\d+", "99999.25", reply), "invented"),
        (lambda _: "I cannot say.", "unparsed"),
        (lambda _: "", "unparsed"),
    ],
)
def test_what_the_model_makes_of_a_value_is_kept_as_it_is(
    change: Any,  # noqa: ANN401 - a function of the reply
    kind: str,
    tmp_path: Path,
) -> None:
    def says(
        messages: Sequence[Message], schema: Mapping[str, object] | None, grammar: str | None
    ) -> str:
        written = careful(messages, schema, grammar)
        return str(change(written)) if messages[-1]["role"] == "tool" else written

    assert kinds(records(Local(Told(says)), tmp_path / "t.jsonl")) == {kind}


def test_words_without_a_tool_call_are_the_reply(tmp_path: Path) -> None:
    backend = Local(Told(lambda *_: "Glucose is 5 and insulin is 6."), decoding="free")

    found = records(backend, tmp_path / "t.jsonl")

    assert all(turn["calls"] == [] for r in found for turn in r["turns"])
    assert kinds(found) == {"invented"}


def test_a_tool_that_there_is_not_is_refused_by_the_server_and_the_model_reads_so(
    tmp_path: Path,
) -> None:
    def says(
        messages: Sequence[Message], schema: Mapping[str, object] | None, grammar: str | None
    ) -> str:
        said = messages[-1]["role"] == "tool"
        return "I have no value for that." if said else '{"print_raw_values":["glu"]}'

    model = Told(says)
    found = records(Local(model, decoding="free"), tmp_path / "t.jsonl")

    results = [call["result"] for r in found for turn in r["turns"] for call in turn["calls"]]
    assert results
    assert all(set(result) == {"refused"} for result in results)
    assert model.read[1][-1]["content"] == results[0]["refused"]
    assert kinds(found) == {"refused"}


def test_a_full_context_ends_in_silence_and_not_in_a_broken_run(tmp_path: Path) -> None:
    def says(*_: object) -> str:
        raise ModelError("the conversation is longer than the model's context", full=True)

    assert kinds(records(Local(Told(says)), tmp_path / "t.jsonl")) == {"refused"}


def test_a_model_that_cannot_go_on_stops_the_run_and_another_one_resumes_it(
    tmp_path: Path,
) -> None:
    left = [9]

    def says(
        messages: Sequence[Message], schema: Mapping[str, object] | None, grammar: str | None
    ) -> str:
        left[0] -= 1
        if left[0] < 0:
            raise ModelError("the model cannot go on")
        return careful(messages, schema, grammar)

    people, transcripts = [patient_group("homa", patients=1)], Transcripts(tmp_path / "t.jsonl")
    stopped = run_sessions(ONE, people, Local(Told(says)), transcripts)
    resumed = run_sessions(ONE, people, Local(Told(careful)), transcripts)

    assert (stopped.sessions, stopped.stopped) == (1, "the model cannot go on")
    assert (resumed.sessions, resumed.stopped) == (1, "")


def test_a_label_tells_models_and_decodings_apart() -> None:
    labels = {Local(Told(careful), decoding=decoding).label for decoding in DECODINGS}

    assert len(labels) == 3
    assert all(label.startswith("local told ") for label in labels)


def cell_of(config: AgentConfiguration, template: str) -> AgentSession:
    grid = Grid(epsilons=ONE.epsilons, budgets=("k+1",), configurations=(config,))
    return next(iter(grid.sessions([patient_group(template, patients=1)])))


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_a_real_model_holds_sessions_through_the_product_channel(
    tmp_path: Path,
) -> None:
    model = smollm2()
    backend = Local(model, decoding="grammar")
    people = patient_group("vascular", patients=4)  # of one template: its prompt is read once
    path = tmp_path / "t.jsonl"
    sessions = len(ONE.configurations) * 4

    assert run_sessions(ONE, [people], backend, Transcripts(path)).sessions == sessions
    model.close()
    found = list(Transcripts(path))

    assert all(r["backend"].startswith(f"local {model.label} grammar") for r in found)
    statement = r"\w+ is -?\d+(\.\d+)?( [^ ,]+)?"
    sentence = re.compile(rf"{statement}((, | and ){statement})*\.|I have no value for that\.")
    fetched = observations = 0
    for record in found:
        for turn in record["turns"]:
            assert sentence.fullmatch(turn["reply"]), turn["reply"]
            for call in turn["calls"]:
                names = call["arguments"].get("names") or [call["arguments"].get("name")]
                assert call["tool"] == "list_values" or set(names) <= set(people.roots)
            given = {v["name"] for c in turn["calls"] for v in c["result"].get("values", ())}
            fetched += len(given & set(turn["asked"]))
            observations += len(turn["asked"])
    assert observations == 4 * sessions
    assert fetched > observations / 3  # by chance a name of two would be right half of the time


@pytest.mark.slow
@pytest.mark.parametrize("decoding", DECODINGS)
def test_no_true_value_reaches_a_real_model_or_the_wire(decoding: Decoding) -> None:
    session = cell_of("opt", "homa")
    truths = {repr(float(session.group.column(root)[0])) for root in session.group.roots}
    wire: list[str] = []
    model = smollm2()

    async def talk() -> list[str]:
        async with connected(session.server(), wire=wire) as tools:
            conversation = await Local(model, decoding=decoding).meet(tools)
            return [await conversation.reply(q.text) for q in session.questions()]

    replies = anyio.run(talk)
    model.close()

    assert not any(truth in text for truth in truths for text in (*wire, *replies))
    assert len(replies) == 3


@pytest.mark.slow
def test_a_real_model_says_the_same_when_it_is_asked_again() -> None:
    session = cell_of("opt", "homa")
    model = smollm2()
    backend = Local(model)

    first, second = (anyio.run(hold, session, backend) for _ in range(2))
    model.close()

    assert first["turns"] == second["turns"]
