"""Questions about a root are recognised, and answered from released values and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootguard.channels.tools import ToolMap, understand
from rootguard.channels.tools.answers import (
    BandAnswer,
    ReleasedMeasure,
    RowAnswer,
    SelectionAnswer,
    ThresholdAnswer,
    answer,
)
from rootguard.channels.tools.comparisons import comparisons, flat
from rootguard.channels.tools.shapes import stated
from rootguard.channels.tools.words import meanings
from tests.support.schemas import IDENTIFIERS, ROOTS, TEMPLATES

KNOWN = meanings(ROOTS, TEMPLATES, IDENTIFIERS)
BOOLEAN = {"type": "boolean"}


def read(
    name: str, schema: dict[str, Any], about: str = "Questionnaire for the patient"
) -> ToolMap:
    whole = {"type": "object", "properties": {name: schema}}
    return understand("form", about, whole, ROOTS, TEMPLATES, identifiers=IDENTIFIERS)


def given_(**values: float) -> Callable[[ReleasedMeasure], float]:
    return lambda measure: values[measure.name]


@pytest.mark.parametrize(
    ("name", "text", "at", "above"),
    [
        ("q1", "Is the patient's AST above 40 U/L?", False, True),
        ("q1", "Is the patient's AST at or above 40 U/L?", True, True),
        ("q1", "True if AST is at least 40 U/L, False otherwise", True, True),
        ("q1", "AST >= 40", True, True),
        ("ast_over_40", "", False, True),
        ("astOver40", "", False, True),
        ("ast_gt_40.0", "", False, True),
        ("ast_40_or_more", "", True, True),
        ("q1", "肝功能 AST >40 U/L", False, True),
        ("liver", "AST < 40 U/L", False, False),
        ("liver", "AST up to 40 U/L", True, False),
        ("liver", "Your AST, 40 U/L or less", True, False),
    ],
)
def test_a_threshold_is_answered_from_the_released_value(
    name: str, text: str, at: bool, above: bool
) -> None:
    made = read(name, {**BOOLEAN, "description": text})
    (asked,) = made.answers
    assert isinstance(asked, ThresholdAnswer)
    assert (made.asked, made.bindings) == ((), ())
    assert answer(asked, given_(ast=41.0)) is above
    assert answer(asked, given_(ast=40.0)) is at
    assert answer(asked, given_(ast=39.0)) is not above


def test_of_two_thresholds_either_is_enough_and_both_are_not_asked_for() -> None:
    either = "Is AST above 40 U/L or ALT above 50 U/L?"
    (asked,) = read("q1", {**BOOLEAN, "description": either}).answers
    values = [(41.0, 0.0), (0.0, 51.0), (41.0, 51.0), (40.0, 50.0)]
    found = [answer(asked, given_(ast=ast, alt=alt)) for ast, alt in values]
    assert found == [True, True, True, False]
    both = {**BOOLEAN, "description": either.replace(" or ", " and ")}
    assert read("q1", both).answers == ()


def test_a_decimal_in_a_name_is_one_number() -> None:
    (asked,) = read("inr_gt_1_5", BOOLEAN).answers
    assert [answer(asked, given_(inr=x)) for x in (1.4, 1.6)] == [False, True]


def test_a_threshold_is_compared_in_its_own_unit() -> None:
    made = read("renal", {**BOOLEAN, "description": "Creatinine > 177 µmol/L"})
    (asked,) = made.answers
    (case, _) = asked.cases  # type: ignore[union-attr]
    assert case.terms[0].measure.unit == "umol/L"


@pytest.mark.parametrize(
    ("schema", "low", "high"),
    [
        ({"type": "string", "enum": ["20-39", "40-59", "60+"]}, "40-59", "60+"),
        (
            {"type": "string", "enum": ["under 59.5", "59.5 and over"]},
            "under 59.5",
            "59.5 and over",
        ),
        (
            {
                "type": "integer",
                "description": "Age of the patient (-1: >=60 years, 0: 15-59 years, 1: 3-14 years)",
            },
            0,
            -1,
        ),
        (
            {"type": "string", "enum": ["a", "b"], "description": "a: age < 59.5, b: age >= 59.5"},
            "a",
            "b",
        ),
        (
            {
                "type": "integer",
                "enum": [2, 7],
                "description": "2 when age is over 59.5 years, else 7",
            },
            7,
            2,
        ),
    ],
)
def test_a_band_is_the_one_that_holds_the_released_value(
    schema: dict[str, Any], low: object, high: object
) -> None:
    made = read("ageBand" if "enum" in schema else "age", schema)
    (asked,) = made.answers
    assert answer(asked, given_(age=59.0)) == low
    assert answer(asked, given_(age=60.0)) == high


@given(st.floats(0, 120))
def test_every_value_has_exactly_one_band_even_in_a_gap(age: float) -> None:
    choices = ["18-24", "25-29", "30-44", "45-80"]
    (asked,) = read("age_group", {"type": "string", "enum": choices}).answers
    assert isinstance(asked, BandAnswer)
    starts = [18, 25, 30, 45]
    wanted = max((at for at, start in enumerate(starts) if start <= age), default=0)
    assert answer(asked, given_(age=age)) == choices[wanted]


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"type": "array", "items": {"type": "number"}}, [54.0, 23.0, 220.0]),
        ({"type": "string"}, "54,23,220"),
    ],
)
def test_values_in_order_are_the_released_ones_in_order(
    schema: dict[str, Any], sent: object
) -> None:
    text = "age in years, AST in U/L, platelets in 10^9/L in that order"
    (asked,) = read("values", {**schema, "description": text}).answers
    assert isinstance(asked, RowAnswer)
    assert asked.parameter == ("values",)
    assert answer(asked, given_(age=54.0, ast=23.0, plt=220.0)) == sent


def test_places_of_an_array_that_each_say_what_they_are_are_read() -> None:
    places = [
        {"type": "number", "description": "weight in kg"},
        {"type": "number", "description": "height in m"},
    ]
    (asked,) = read("v", {"type": "array", "prefixItems": places}).answers
    assert answer(asked, given_(wt=80.0, ht=1.8)) == [80.0, 1.8]


def test_statements_that_hold_are_selected() -> None:
    choices = ["creatinine above 2 mg/dL", "creatinine up to 2 mg/dL"]
    schema = {"type": "array", "items": {"type": "string", "enum": choices}}
    (asked,) = read("criteria", schema).answers
    assert isinstance(asked, SelectionAnswer)
    assert answer(asked, given_(scr=2.5)) == choices[:1]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({**BOOLEAN, "description": "On dialysis, or creatinine > 2 mg/dL"}, "same breath"),
        ({**BOOLEAN, "description": "Patient's weight > 100"}, "unit"),
        ({**BOOLEAN, "description": "False if the patient's AST > 40 U/L"}, "not clear"),
        ({**BOOLEAN, "description": "Patient's glucose > 200 mg/dL"}, "fasting"),
        ({**BOOLEAN, "description": "Patient's blood pressure >= 140/90 mmHg"}, "any of these"),
        (
            {
                "type": "array",
                "items": {"type": "number"},
                "description": "age in years, AST, mood",
            },
            "places",
        ),
    ],
)
def test_what_cannot_be_answered_is_refused_in_words(schema: dict[str, Any], why: str) -> None:
    made = read("q", schema)
    assert (made.answers, made.bindings) == ((), ())
    assert why in made.asked[0].why


@pytest.mark.parametrize(
    ("about", "name", "text"),
    [
        ("Clean a cache", "old", "Delete files older than 30 days"),
        ("Resize an image", "tall", "True if height > 100"),
        ("Pneumonia of the patient", "rr", "Respiratory rate >= 30 breaths/min"),
        ("Infection of the patient", "fever", "Temperature > 38 °C"),
    ],
)
def test_a_comparison_of_something_else_is_left_alone(about: str, name: str, text: str) -> None:
    made = read(name, {**BOOLEAN, "description": text}, about)
    assert (made.answers, made.asked) == ((), ())


@pytest.mark.parametrize(
    ("message", "schema", "kind"),
    [
        ("Please enter your AST in U/L", {"type": "number"}, "ast"),
        ("Your gross monthly income in USD?", {"type": "number"}, "income"),
        ("Is your AST above 40 U/L?", BOOLEAN, "ast"),
    ],
)
def test_a_form_with_one_field_asks_what_its_message_says(
    message: str, schema: dict[str, Any], kind: str
) -> None:
    whole = {"type": "object", "properties": {"value": schema}}
    made = understand("elicitation", message, whole, ROOTS, TEMPLATES, identifiers=IDENTIFIERS)
    names = [b.name for b in made.bindings]
    names += [t.measure.name for a in made.answers for t in a.cases[0].terms]  # type: ignore[union-attr]
    assert names == [kind]


def test_a_bisection_finds_the_released_value_and_the_same_for_everybody_who_has_it() -> None:
    released, low, high = 48.9, 0.0, 300.0
    for _ in range(40):
        middle = (low + high) / 2
        schema = {**BOOLEAN, "description": f"Is the patient's AST above {middle:.9f} U/L?"}
        (asked,) = read("q", schema).answers
        if answer(asked, given_(ast=released)):
            low = middle
        else:
            high = middle
    assert low <= released + 1e-6
    assert high >= released - 1e-6


def test_an_observation_says_what_its_number_is() -> None:
    weight = {"code": {"text": "Body weight"}, "valueQuantity": {"value": 1.0, "unit": "lb"}}
    coded = {
        "code": {"coding": [{"system": "http://loinc.org", "code": "1920-8"}]},
        "valueQuantity": {"value": 1.0, "code": "U/L"},
    }
    other = {"code": {"text": "Mood"}, "valueQuantity": {"value": 1.0, "unit": "kg"}}
    unsaid = {"code": {"text": "Body weight"}, "valueQuantity": {"value": 1.0}}
    found = stated({"entry": [weight, coded, other, unsaid]}, KNOWN)
    assert [(s.place, s.name) for s in found] == [
        (("entry", 0, "valueQuantity", "value"), "wt"),
        (("entry", 1, "valueQuantity", "value"), "ast"),
        (("entry", 3, "valueQuantity", "value"), "wt"),
    ]
    assert [s.measure and s.measure.unit for s in found] == ["lb", None, None]
    assert [s.measure is None for s in found] == [False, False, True]


def test_an_array_of_names_says_what_its_neighbour_holds() -> None:
    arguments = {"names": ["AST", "Body weight"], "values": [1.0, 2.0], "units": ["U/L", "kg"]}
    found = stated(arguments, KNOWN)
    assert [(s.place, s.name, s.measure is None) for s in found] == [
        (("values", 0), "ast", False),
        (("values", 1), "wt", False),
    ]
    assert stated({"names": ["red", "blue"], "values": [1.0, 2.0]}, KNOWN) == ()


@given(st.integers(0, 300), st.integers(0, 300))
def test_places_do_not_depend_on_the_numbers_that_stand_there(first: int, other: int) -> None:
    def places(number: int) -> list[object]:
        node = {"code": {"text": "AST"}, "valueQuantity": {"value": number, "unit": "U/L"}}
        return [each.place for each in stated({"r": node}, KNOWN)]

    assert places(first) == places(other)


@pytest.mark.parametrize(
    ("text", "lower", "upper"),
    [
        ("≥65", 65, float("inf")),
        ("1,000 or more", 1000, float("inf")),
        ("between 20 and 24", 20, 24),
        ("20–24", 20, 24),
        ("65+", 65, float("inf")),
        ("no more than 2,5", float("-inf"), 2.5),
    ],
)
def test_a_comparison_is_an_interval(text: str, lower: float, upper: float) -> None:
    (found,) = comparisons(flat(text))
    assert (found.interval.lower, found.interval.upper) == (lower, upper)
