"""Ways in which tools and forms ask for a value, and what each is understood as."""

from typing import Any

import pytest

from rootguard.channels.tools import ToolMap, understand
from rootguard.channels.tools.shapes import stated
from rootguard.channels.tools.words import meanings
from tests.support.schemas import IDENTIFIERS, ROOTS, TEMPLATES

NUMBER = {"type": "number"}
TRUTH = {"type": "boolean"}


def read(description: str, properties: dict[str, Any], name: str = "score") -> ToolMap:
    schema = {"type": "object", "properties": properties}
    return understand(name, description, schema, ROOTS, TEMPLATES, identifiers=IDENTIFIERS)


TWO = {"t": NUMBER, "b": NUMBER}


@pytest.mark.parametrize(
    ("description", "properties", "name"),
    [
        ("For the patient", {"z": {**NUMBER, "description": "Serum creatinine, mg/dL"}}, "scr"),
        ("g: t = total cholesterol in mg/dL of the patient, b = HDL", TWO, "tc"),
        ("The first, t, is your weight in kg; b is your height in cm", TWO, "wt"),
        ("How old are you (years)?", {"answer": NUMBER}, "age"),
        ("Your platelets, 10^9/L", {"n": {"type": "integer"}}, "plt"),
    ],
)
def test_a_value_asked_for_in_words_is_bound(
    description: str, properties: dict[str, Any], name: str
) -> None:
    assert name in [each.name for each in read(description, properties).bindings]


@pytest.mark.parametrize(
    ("description", "properties", "name"),
    [
        ("MELD for the patient", {"z": {**NUMBER, "description": "INR"}}, "inr"),
        ("How tall are you?", {"v": NUMBER}, "ht"),
    ],
)
def test_a_value_in_too_few_words_is_asked_about(
    description: str, properties: dict[str, Any], name: str
) -> None:
    assert [each.candidates for each in read(description, properties).asked] == [(name,)]


HIGH_OR_LOW = {
    "oneOf": [
        {"const": "high", "title": "AST above 40 U/L"},
        {"const": "low", "title": "AST at most 40 U/L"},
    ]
}
POINT = {"type": "integer", "minimum": 0, "maximum": 1, "description": "ALT above 40 U/L (1 = yes)"}


@pytest.mark.parametrize(
    ("description", "properties"),
    [
        ("Screening of the patient", {"q": HIGH_OR_LOW}),
        ("Screening of the patient", {"q": POINT}),
        ("Set flag to true if the patient's creatinine is above 2 mg/dL", {"flag": TRUTH}),
        ("Is your creatinine above 2 mg/dL?", {"yes": TRUTH}),
        ("Criteria for the patient", {"c": {**TRUTH, "description": "weighs more than 80 kg"}}),
        ("Criteria for the patient", {"c": {**TRUTH, "description": "taller than 1.80 m"}}),
    ],
)
def test_a_question_is_answered_from_released_values(
    description: str, properties: dict[str, Any]
) -> None:
    made = read(description, properties)
    assert len(made.answers) == 1
    assert made.unbound == ()


def test_a_number_asked_of_a_person_in_unknown_words_is_asked_about() -> None:
    said = {**NUMBER, "description": "What you earn per month before tax in USD"}
    (asked,) = read("Debt-to-income", {"b": said}, "dti").asked
    assert "income" in asked.candidates


@pytest.mark.parametrize("name", ["min_age", "max_age"])
def test_a_limit_by_which_things_are_searched_is_nobodys(name: str) -> None:
    made = read("List clinical trials", {name: {"type": "integer"}}, "trial_filter")
    assert made.unbound == ((name,),)


@pytest.mark.parametrize(
    ("arguments", "place", "name", "filled"),
    [
        ({"inputs": [["AST", 47], ["ALT", 61]]}, ("inputs", 0, 1), "ast", True),
        ({"argv": ["--age", "54"]}, ("argv", 1), "age", False),
        ({"labels": "AST,ALT", "data": "47,61"}, ("data",), "ast", False),
        (
            {"item": [{"text": "What is your age?", "answer": [{"valueInteger": 54}]}]},
            *(("item", 0, "answer", 0, "valueInteger"), "age"),
            True,
        ),
    ],
)
def test_values_that_arguments_name_themselves_are_found(
    arguments: dict[str, Any], place: tuple[str | int, ...], name: str, *, filled: bool
) -> None:
    known = meanings(ROOTS, TEMPLATES, IDENTIFIERS)
    found = {each.place: each for each in stated(arguments, known)}
    assert found[place].name == name
    assert (found[place].measure is not None) == filled


@pytest.mark.parametrize(
    "arguments",
    [
        {"size": ["large", 3], "range": [1, 2]},
        {"argv": ["--depth", "3", "-n", "54"]},
        {"labels": "red,green", "data": "1,2"},
        {"text": "Which page?", "answer": [{"valueInteger": 54}]},
    ],
)
def test_other_pairs_and_lists_are_left_alone(arguments: dict[str, Any]) -> None:
    assert stated(arguments, meanings(ROOTS, TEMPLATES, IDENTIFIERS)) == ()
