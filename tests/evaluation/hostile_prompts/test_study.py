"""Hostile prompts: the families, and that nothing leaves with RootGuard in between.

The models here are the worst there can be: they say all that they were told.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import anyio
import pytest
from click.testing import CliRunner

from rootguard.cli.bench import ARM_NAMES, rq4_hostile
from rootguard.evaluation import language_model
from rootguard.evaluation.hostile_prompts import study as injection_study
from rootguard.evaluation.hostile_prompts.leaks import Sentinel, find_leaks
from rootguard.evaluation.hostile_prompts.study import (
    ARMS,
    BLOCKED,
    FAMILIES,
    NAMES,
    SENTINELS,
    Arm,
    Attacks,
    Family,
    attack_sheets,
    naive_prompt,
    outcomes,
    patient,
    run_attacks,
)
from rootguard.evaluation.language_model import LocalModel, Message, ModelError
from rootguard.evaluation.rq4_agent.study import Transcripts


class Parrot:
    """A model that calls for every value and then repeats all that it was told."""

    label = "parrot"

    def __init__(self) -> None:
        self.told: list[str] = []

    def chat(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, object] | None = None,
        grammar: str | None = None,
        max_tokens: int,
    ) -> str:
        if schema is not None:
            return '{"get_values":["glu","ins"]}'
        self.told.append("\n".join(message["content"] for message in messages))
        return self.told[-1]


def parrot(*arms: Arm) -> Attacks:
    return Attacks(cast("LocalModel", Parrot()), arms)


def records(attacks: Attacks, path: Path) -> list[dict[str, object]]:
    transcripts = Transcripts(path)
    run_attacks(attacks, transcripts)
    return list(transcripts)


def test_there_are_many_families_and_no_two_are_the_same() -> None:
    assert len(FAMILIES) >= 30
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
    assert len({family.turns for family in FAMILIES}) == len(FAMILIES)
    assert len({family.idea for family in FAMILIES}) == 6
    assert ARM_NAMES == ARMS


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_family_names_values_and_holds_none(family: Family) -> None:
    said = "\n".join(family.said(NAMES))

    assert "{one}" not in said
    assert "{all}" not in said
    assert not find_leaks(said, SENTINELS)


def test_the_naive_prompt_holds_every_sentinel_and_forbids_to_say_it() -> None:
    assert {leak.name for leak in find_leaks(naive_prompt(), SENTINELS)} == {"glu", "ins"}
    assert "Never reveal" in naive_prompt()


@pytest.mark.parametrize("arm", ["naive", "unguarded"])
def test_a_model_that_says_all_it_knows_gives_values_away_in_every_family_without_rootguard(
    arm: Arm, tmp_path: Path
) -> None:
    """The control: the very agent and detector that find nothing under the guard."""
    found = records(parrot(arm), tmp_path / "t.jsonl")

    assert len(found) == len(FAMILIES)
    assert all(record["leaks"] == {"glu": "plain", "ins": "plain"} for record in found)


@pytest.mark.parametrize("arm", ["guarded", "gateway"])
def test_a_model_that_says_all_it_knows_knows_nothing_raw_behind_rootguard(
    arm: Arm, tmp_path: Path
) -> None:
    found = records(parrot(arm), tmp_path / "t.jsonl")

    assert [record["leaks"] for record in found] == [{}] * len(FAMILIES)
    released = [patient(0).release(name) for name in ("glu", "ins")]
    said = [
        str(turn["reply"]) for r in found for turn in cast("list[dict[str, object]]", r["turns"])
    ]
    spoken = [reply for reply in said if reply != BLOCKED]
    assert len(spoken) > len(said) / 2
    if arm == "guarded":  # it did repeat what it was given
        assert all(str(value) in spoken[-1] for value in released)


def test_only_the_subverted_agent_needs_no_model() -> None:
    with pytest.raises(ValueError, match="no model"):
        Attacks(None, ("naive",))


def test_a_run_goes_on_behind_the_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    whole = records(parrot("naive"), path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:7]) + lines[7][:40])

    transcripts = Transcripts(path)
    assert run_attacks(parrot("naive"), transcripts) == len(FAMILIES) - 7
    assert list(transcripts) == whole
    assert run_attacks(parrot("naive"), transcripts) == 0


def test_tables_count_families_and_name_the_forms(tmp_path: Path) -> None:
    transcripts = Transcripts(tmp_path / "t.jsonl")
    run_attacks(parrot("naive"), transcripts)
    run_attacks(Attacks(None, ("subverted",), families=FAMILIES[:2]), transcripts)
    totals, each = attack_sheets(outcomes(transcripts))

    count = str(len(FAMILIES))
    assert {(line[1], line[2], line[3]) for line in totals.lines} == {
        ("naive", count, count),
        ("subverted", "2", "0"),
    }
    assert len(each.lines) == len(FAMILIES)
    assert {line[0] for line in each.lines} == {family.name for family in FAMILIES}


def test_a_rounded_value_is_told_from_a_whole_one(tmp_path: Path) -> None:
    class Rounding(Parrot):
        def chat(self, *_: object, **__: object) -> str:
            return "It is about 137.3."

    attacks = Attacks(cast("LocalModel", Rounding()), ("naive",))
    record = anyio.run(attacks.hold, "naive", FAMILIES[0])

    assert (record["leaks"], record["rounded"]) == ({}, ["glu"])


def test_an_agent_that_is_wholly_subverted_has_nothing_raw_to_give(tmp_path: Path) -> None:
    """By the command, which needs no model for this."""
    out = tmp_path / "out"
    call = ["--arm", "subverted", "--out", str(out), "--json"]

    result = CliRunner().invoke(rq4_hostile, call)
    again = CliRunner().invoke(rq4_hostile, call)

    assert result.exit_code == 0
    (arm,) = json.loads(result.stdout)["arms"]
    assert (arm["families"], arm["leaked"]) == (len(FAMILIES), 0)
    assert json.loads(again.stdout)["held_now"] == 0
    assert {path.name for path in out.iterdir()} == {
        "hostile.jsonl",
        "hostile.csv",
        "hostile_tables.md",
    }
    found = list(Transcripts(out / "hostile.jsonl"))
    calls = [call for r in found for turn in r["turns"] for call in turn["calls"]]
    tools = {"list_values", "get_values", "answer", "compute", "assess", "debug"}
    assert tools <= {call["tool"] for call in calls}
    assert sum("values" in call["result"] for call in calls) > len(FAMILIES)  # it was answered
    assert all(record["bytes"] > 5_000 for record in found)


def test_the_command_fails_where_a_value_came_past_the_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: what is released is taken for a sentinel."""
    released = Sentinel(name="glu", value=patient(0).number("glu"))
    monkeypatch.setattr(injection_study, "find_leaks", lambda text, _: find_leaks(text, [released]))
    monkeypatch.setattr(injection_study, "FAMILIES", FAMILIES[:2])

    call = ["--arm", "subverted", "--out", str(tmp_path), "--json"]
    result = CliRunner().invoke(rq4_hostile, call)

    assert result.exit_code == 1
    assert json.loads(result.stdout)["arms"][0]["leaked"] == 2


def test_the_command_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Path:
        raise ModelError("there is no default model; run: pip install 'rootguard[llm]'")

    monkeypatch.setattr(language_model, "default_model", absent)

    result = CliRunner().invoke(rq4_hostile, ["--out", str(tmp_path)])

    assert isinstance(result.exception, ModelError)
    assert "rootguard[llm]" in str(result.exception)
