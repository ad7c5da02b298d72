"""Presidio's own analyzer and anonymizer with RootGuard's recognisers and operator."""

from typing import Any

import pytest

pytest.importorskip("presidio_analyzer", reason="`make extras` installs the agent frameworks")
pytest.importorskip("presidio_anonymizer", reason="`make extras` installs the agent frameworks")

from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
from presidio_analyzer.nlp_engine import NoOpNlpEngine
from presidio_anonymizer import AnonymizerEngine
from presidio_anonymizer.entities import OperatorConfig

from rootguard import Guard, load_template
from rootguard.integrations.presidio import (
    IdentifierRecognizer,
    RootRecognizer,
    RootRelease,
    entity_of,
)

TEMPLATE = load_template("fib4")
TEXT = "I'm Jane Roe (jane.roe@mail.example). My AST is 61.375 U/L, and ALT was 33.25 U/L."


def analyzer(*recognizers: Any) -> Any:  # noqa: ANN401
    registry = RecognizerRegistry(recognizers=list(recognizers), supported_languages=["en"])
    return AnalyzerEngine(
        registry=registry,
        nlp_engine=NoOpNlpEngine([{"lang_code": "en", "model_name": "none"}]),
        supported_languages=["en"],
    )


def anonymized(text: str, results: Any, operators: Any) -> str:  # noqa: ANN401
    engine = AnonymizerEngine()
    engine.add_anonymizer(RootRelease)
    return str(engine.anonymize(text, results, operators=operators).text)


def operators() -> dict[str, Any]:
    values = {"age": 54, "ast": 61, "alt": 33, "plt": 271}
    session = Guard.open(TEMPLATE, values=values, budget="0.9")
    release = OperatorConfig("rootguard", {"session": session})
    return {entity_of(root): release for root in TEMPLATE.roots}


def test_presidio_writes_released_numbers_and_hides_names() -> None:
    results = analyzer(IdentifierRecognizer(), RootRecognizer([TEMPLATE])).analyze(TEXT, "en")
    made = operators()
    first = anonymized(TEXT, results, made)
    assert not any(secret in first for secret in ("Jane", "Roe", "61.375", "33.25"))
    assert "<PERSON>" in first
    session = made[entity_of("ast")].params["session"]
    assert f"AST is {float(session.release('ast')):.0f} U/L" in first
    assert anonymized(TEXT, results, made) == first  # noised once: averaging gives nothing


def test_without_the_recognisers_the_numbers_stay() -> None:
    results = analyzer(IdentifierRecognizer()).analyze(TEXT, "en")
    assert "61.375" in anonymized(TEXT, results, {})


def test_a_number_in_another_unit_is_not_released() -> None:
    text = "My AST is 1.02 ukat/L."
    results = analyzer(RootRecognizer([TEMPLATE])).analyze(text, "en")
    assert [each.entity_type for each in results] == ["PRIVATE_NUMBER"]
    assert anonymized(text, results, operators()) == "My AST is <PRIVATE_NUMBER> ukat/L."


def test_the_operator_needs_a_session() -> None:
    with pytest.raises(TypeError, match="give the operator a session"):
        RootRelease().validate({})
