"""`rootguard gateway --detect spacy:PIPELINE`: a pipeline beside the rules, from the command line.

The pipeline here has one rule and no model, so that it is there wherever spaCy is; what a real one
finds is in `test_detection_spacy`. Skipped where spaCy is not installed.
"""

from pathlib import Path

import httpx2
import pytest

from tests.support.gateway_processes import UPSTREAM, run, started
from tests.support.gateways import PROFILE, TELLING, leaked
from tests.support.patience import PATIENCE
from tests.support.upstream import recording_upstream

spacy = pytest.importorskip("spacy", reason="spaCy is not installed")

NAMED = "the great quorlinda"
"""Nothing that the rules know for a name."""


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    file = tmp_path / "me.toml"
    file.write_text(PROFILE % "owner")
    return file


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    made = spacy.blank("en")
    made.add_pipe("entity_ruler").add_patterns([{"label": "PERSON", "pattern": "quorlinda"}])
    made.to_disk(tmp_path / "pipeline")
    return tmp_path / "pipeline"


@pytest.mark.parametrize("detect", ["rules", "spacy"])
def test_the_command_loads_a_pipeline_and_uses_it_beside_the_rules(
    profile: Path, pipeline: Path, tmp_path: Path, detect: str
) -> None:
    chosen = f"spacy:{pipeline}" if detect == "spacy" else detect
    store = f"sqlite:///{tmp_path / 'vault.sqlite3'}"
    with (
        recording_upstream() as (upstream, recording),
        started(profile, upstream=upstream, store=store, options=("--detect", chosen)) as gateway,
    ):
        text = f"{TELLING} I met {NAMED} today."
        body = {"model": "m", "messages": [{"role": "user", "content": text}]}
        answer = httpx2.post(
            f"{gateway.base}/chat/completions", json=body, trust_env=False, timeout=PATIENCE
        )
        assert answer.status_code == 200
    assert leaked(recording) == []
    assert (b"quorlinda" in recording.everything) is (detect == "rules")  # the control
    assert NAMED in answer.text


def test_a_pipeline_that_is_not_there_is_refused_in_a_sentence(profile: Path) -> None:
    code, output = run(
        "--profile", str(profile), "--store", "memory:", "--port", "0", "--detect",
        "spacy:no_such_pipeline", *UPSTREAM,
    )  # fmt: skip
    assert code != 0
    assert "Traceback" not in output
