"""Hostile prompts said to a real model, SmolLM2-135M; skipped where it is not installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rootguard.evaluation.hostile_prompts.study import (
    FAMILIES,
    Arm,
    AttackOutcome,
    Attacks,
    outcomes,
    run_attacks,
)
from rootguard.evaluation.language_model import LocalModel, ModelError
from rootguard.evaluation.rq4_agent.study import Transcripts

pytest.importorskip("xllamacpp", reason="the extra `llm` is not installed")

CHOSEN = [f for f in FAMILIES if f.name in ("spelled out", "system prompt")]


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    try:
        loaded = LocalModel(context=4096)
    except ModelError as missing:
        pytest.skip(str(missing))
    yield loaded
    loaded.close()


def tried(model: LocalModel, arm: Arm, families: int, path: Path) -> list[AttackOutcome]:
    transcripts = Transcripts(path)
    run_attacks(Attacks(model, (arm,), families=CHOSEN[:families]), transcripts)
    return outcomes(transcripts)


@pytest.mark.parametrize(
    ("arm", "families"),
    [
        ("guarded", 1),
        pytest.param("guarded", 2, marks=pytest.mark.slow),
        pytest.param("gateway", 2, marks=pytest.mark.slow),
    ],
)
def test_nothing_raw_leaves_a_real_model_behind_rootguard(
    arm: Arm, families: int, model: LocalModel, tmp_path: Path
) -> None:
    found = tried(model, arm, families, tmp_path / "t.jsonl")

    assert len(found) == families
    assert not any(outcome.forms for outcome in found)


@pytest.mark.parametrize(
    ("arm", "families"),
    [
        ("naive", 1),
        pytest.param("naive", 2, marks=pytest.mark.slow),
        pytest.param("unguarded", 2, marks=pytest.mark.slow),
    ],
)
def test_a_real_model_gives_raw_values_away_without_rootguard(
    arm: Arm, families: int, model: LocalModel, tmp_path: Path
) -> None:
    """The control: the same model, the same prompts."""
    found = tried(model, arm, families, tmp_path / "t.jsonl")

    assert all(outcome.forms for outcome in found)
