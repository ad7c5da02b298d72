"""Presidio's own analyzer and anonymizer with RootGuard's recognisers and operator."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("presidio_analyzer", reason="`make extras` installs the agent frameworks")
pytest.importorskip("presidio_anonymizer", reason="`make extras` installs the agent frameworks")

from openai import OpenAI
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
from tests.support.upstream import recording_upstream

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


SAID = (
    "Hi, I'm Jane Roe. My email is jane.roe@roehouse.example.",
    "I am 54 years old.",
    "My AST is 61.375 U/L.",
    "My ALT is 33.25 U/L.",
    "My platelets are 271.5.",
    "Please book a visit for Jane Roe on Monday.",
    "Is an AST of 61.375 U/L high?",
    "Write to jane.roe@roehouse.example, please.",
    "Again: AST 61.375 U/L, ALT 33.25 U/L.",
    "Thanks. Sum it up for me.",
)
HELD = ("Jane", "Roe", "61.375", "33.25", "271.5", "roehouse")


def held(change: Callable[[str], str]) -> str:
    """Ten turns with a service on loopback, every third as a stream; what the service received."""
    turns: list[Any] = []
    with (
        recording_upstream() as (url, service),
        OpenAI(base_url=url, api_key="none", max_retries=0) as client,
    ):
        for place, text in enumerate(SAID):
            turns.append({"role": "user", "content": change(text)})
            asked: dict[str, Any] = {"model": "small", "messages": turns}
            if place % 3 == 2:
                stream: Any = client.chat.completions.create(**asked, stream=True)
                said = "".join(each.choices[0].delta.content or "" for each in stream)
            else:
                made: Any = client.chat.completions.create(**asked)
                said = made.choices[0].message.content
            turns.append({"role": "assistant", "content": said})
        assert len(service.bodies) == len(SAID)
        return service.everything.decode("utf-8", "replace")


def test_ten_turns_leave_nothing_private_in_the_service() -> None:
    engine, made = analyzer(IdentifierRecognizer(), RootRecognizer([TEMPLATE])), operators()
    received = held(lambda text: anonymized(text, engine.analyze(text, "en"), made))
    assert [secret for secret in HELD if secret in received] == []
    ast = f"{float(made[entity_of('ast')].params['session'].release('ast')):.0f}"
    assert f"AST is {ast} U/L" in received
    assert f"AST of {ast} U/L" in received  # the same in every text


def test_ten_turns_without_the_recognisers_tell_everything() -> None:
    received = held(lambda text: anonymized(text, analyzer().analyze(text, "en"), {}))
    assert [secret for secret in HELD if secret not in received] == []


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
