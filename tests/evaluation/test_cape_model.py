"""CAPE-F on a real model, SmolLM2-135M; skipped where it is not installed."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from rootguard.cli.bench import cape as command
from rootguard.evaluation.cape import digit_embeddings, digit_ids, similarities
from rootguard.evaluation.language_model import LocalModel, ModelError

pytest.importorskip("xllamacpp", reason="the extra `llm` is not installed")
pytest.importorskip("gguf", reason="the extra `llm` is not installed")


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    try:
        loaded = LocalModel(context=512)
    except ModelError as missing:
        pytest.skip(str(missing))
    yield loaded
    loaded.close()


def test_the_model_is_asked_for_digits_alone_and_its_logits_are_kept(model: LocalModel) -> None:
    ids = digit_ids(model)
    asked = np.array(model.among("AST is ", ids))
    every = {token.id: token.logprob for token in model.next_tokens("AST is ", count=49_152)}
    plain = np.array([every[each] for each in ids])

    assert np.exp(asked).sum() == pytest.approx(1.0, abs=1e-6)
    assert asked - asked[0] == pytest.approx(plain - plain[0], abs=1e-3)
    assert np.exp(plain).sum() < 0.9999  # other tokens were possible, so there was something to do


def test_embeddings_put_neighbouring_digits_nearer_than_distant_ones(model: LocalModel) -> None:
    similarity = similarities(digit_embeddings(model, digit_ids(model)))

    beside = np.diag(similarity, 1).mean()
    apart = np.diag(similarity, 7).mean()
    assert beside > apart


@pytest.mark.slow
def test_a_small_study_has_huge_errors_and_goes_on_without_asking_again(
    model: LocalModel, tmp_path: Path
) -> None:
    call = ["--template", "homa", "--patients", "3", "--out", str(tmp_path), "--json"]
    call += ["--epsilon", "0.1", "--epsilon", "1"]

    result = CliRunner().invoke(command, call)
    again = CliRunner().invoke(command, call)

    assert result.exit_code == 0, result.stderr
    first, second = json.loads(result.stdout), json.loads(again.stdout)
    assert first["asked_now"] > 50
    assert second["asked_now"] == 0
    assert second["means"] == first["means"]
    assert first["model"] == model.label
    assert [mean["epsilon"] for mean in first["means"]] == [0.1, 1.0]
    assert all(mean["wmape"] > 100 > 30 > mean["opt_wmape"] for mean in first["means"])
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"cape.csv", "cape_tables.md", "cape_contexts.jsonl"}
