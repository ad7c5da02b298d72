"""What an explainer says of numbers and leaves behind; the tests of its command have more."""

import pytest

from rootguard.channels.text import explanation
from rootguard.channels.text.explanation import Explainer
from rootguard.errors import IdentifierError
from rootguard.reading.claims import Source
from rootguard.template import load_template, parse_template
from tests.support.canary import own_locals
from tests.support.typed_templates import typed_template

OWNER = "Zebulon Quartermain"


def test_a_number_of_the_owner_is_taught_once_and_released_from_then_on() -> None:
    explainer = Explainer([load_template("fib4")], identifiers=[OWNER])
    first, _ = explainer.explain("My AST is 61 U/L.", source="owner")
    assert [(each.start, each.root, each.outcome) for each in first] == [(10, "ast", "teach")]
    again, _ = explainer.explain("My AST is 47 U/L.", source="owner")
    assert [each.outcome for each in again] == ["release"]


def test_a_refusal_to_begin_leaves_without_the_identifiers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused() -> bytes:
        raise IdentifierError("there is no key")

    monkeypatch.setattr(explanation, "new_key", refused)
    with pytest.raises(IdentifierError) as caught:
        Explainer([load_template("fib4")], identifiers=[OWNER])
    assert not [each for each in own_locals(caught.value) if "Zebulon" in each]


def test_a_refusal_to_explain_leaves_without_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise IdentifierError("it cannot be read")

    explainer = Explainer([load_template("fib4")])
    monkeypatch.setattr(explanation, "read_page", refused)
    with pytest.raises(IdentifierError) as caught:
        explainer.explain(f"{OWNER}: AST 61", source="owner")
    assert not [each for each in own_locals(caught.value) if "Zebulon" in each]


def test_a_yes_or_no_of_a_document_leaves_the_numbers_before_it_as_they_were() -> None:
    explainer = Explainer([load_template("fib4")])
    text = '{"ast": [61, true], "age": 54, "none": null}'
    found, _ = explainer.explain(text, source="owner")
    places = [(text[each.start : each.end], each.root) for each in found]
    assert places == [("61", "ast"), ("54", "age")]


def test_an_answer_in_words_is_taught_by_the_owner_and_by_nobody_else() -> None:
    declared = parse_template(
        typed_template('[target]\nname = "s"\nformula = "diabetes + kids"\n', ("diabetes", "kids")),
        file="visit.toml",
    )

    def outcomes(text: str, source: Source) -> list[str]:
        found, _ = explainer.explain(text, source=source)
        return [each.outcome for each in found if each.root == "diabetes"]

    explainer = Explainer([declared], answers=True)
    assert outcomes("Diabetes: no", "tool") == ["redact"]
    assert outcomes("Diabetes: no", "owner") == ["teach"]
    assert outcomes("Diabetes: no", "owner") == ["release"]
    assert outcomes("Diabetes: no", "tool") == ["release"]
