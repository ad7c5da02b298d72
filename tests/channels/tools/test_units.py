"""In which unit a parameter asks: said by its name or description, told by its bounds, or asked."""

from typing import Any

import pytest

from rootguard.channels.tools import ToolMap
from rootguard.template import parse_template
from tests.support.schemas import NUMBER, ROOTS, tool

OWN = """
name = "blood"
title = "Blood"
[roots.fasting]
lower = 60
upper = 400
unit = "mg/dL"
aliases = ["fasting glucose"]
[roots.ca]
lower = 8
upper = 12
unit = "mg/dL"
aliases = ["calcium"]
[roots.k]
lower = 2
upper = 5.9
unit = "mmol/L"
aliases = ["potassium"]
[target]
name = "mix"
formula = "fasting + ca + k"
"""


def read(name: str, schema: dict[str, Any], *, own: bool = False) -> ToolMap:
    """A form with one number, for a person with the whole catalog or with a template of her own."""
    properties = {name: {**NUMBER, **schema}}
    if not own:
        return tool(properties, name="patient_form")
    template = parse_template(OWN, file="own.toml")
    roots = dict(template.roots)
    return tool(properties, name="patient_form", roots=roots, templates=(template,))


def bound(made: ToolMap) -> dict[str, str]:
    """What each parameter that is filled in gets, and in which unit."""
    return {each.parameter[0]: f"{each.name} {each.unit or each.own}" for each in made.bindings}


def why(made: ToolMap) -> str:
    """Why the one parameter is not filled in."""
    assert made.bindings == ()
    (question,) = made.asked
    return question.why


SUGAR = "fasting_glucose"
"""From 60 to 400 mg/dL, so 230 mg/dL (12.8 mmol/L) is typical."""


@pytest.mark.parametrize(
    ("schema", "unit"),
    [
        ({"examples": [115]}, "mg/dL"),
        ({"examples": [460]}, "mg/dL"),
        ({"examples": [115, 460]}, "mg/dL"),
        ({"examples": [6.4]}, "mmol/L"),
        ({"examples": [25.5]}, "mmol/L"),
        ({"minimum": 230}, "mg/dL"),
        ({"maximum": 13}, "mmol/L"),
        ({"minimum": 12, "maximum": 13}, "mmol/L"),
    ],
)
def test_the_unit_in_which_a_typical_value_is_likely_is_the_one_asked_for(
    schema: dict[str, Any], unit: str
) -> None:
    made = read(SUGAR, schema, own=True)
    assert bound(made) == {SUGAR: f"fasting {unit}"}
    assert f"in {unit} by its bounds" in made.bindings[0].reason


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"examples": [114]},
        {"examples": [461]},
        {"examples": [115, 6.4]},
        {"examples": [6.3]},
        {"examples": [25.6]},
        {"minimum": 231},
        {"maximum": 12},
        {"maximum": 230},
    ],
)
def test_a_typical_value_that_is_likely_in_both_units_or_in_neither_is_asked_about(
    schema: dict[str, Any],
) -> None:
    assert why(read(SUGAR, schema, own=True)) == "it does not say in which unit: mg/dL, mmol/L"


def test_bounds_that_share_a_tenth_of_the_values_fit() -> None:
    """The typical value is outside; 34 of the 340 mg/dL are a tenth."""
    name = f"{SUGAR}_mg_dl"
    assert bound(read(name, {"minimum": 366}, own=True)) == {name: "fasting mg/dL"}
    assert "bounds do not fit" in why(read(name, {"minimum": 367}, own=True))
    assert bound(read(name, {"maximum": 94}, own=True)) == {name: "fasting mg/dL"}
    assert "bounds do not fit" in why(read(name, {"maximum": 93}, own=True))
    typical_inside = {"minimum": 230, "maximum": 231}
    assert bound(read(name, typical_inside, own=True)) == {name: "fasting mg/dL"}


def test_bounds_far_wider_than_the_values_are_another_unit_unless_it_is_said() -> None:
    """Beats a minute go without saying, but for bounds of over fifty times the largest value."""
    (beats,) = read("heart_rate", {}).bindings
    assert beats.reason.startswith("named as hr, it is")
    assert "far wider" in why(read("heart_rate", {"maximum": 1_000_000}))
    stated = {"maximum": 1_000_000, "description": "bpm"}
    assert bound(read("heart_rate", stated)) == {"heart_rate": "hr bpm"}
    highest = 50 * next(root.domain.upper for name, root in ROOTS.items() if name == "hr")
    assert bound(read("heart_rate", {"maximum": highest})) == {"heart_rate": "hr bpm"}
    assert "far wider" in why(read("heart_rate", {"maximum": highest + 1}))


def test_whole_numbers_have_to_tell_a_few_values_apart() -> None:
    whole = {"type": "integer", "description": "in mg/dL"}
    assert bound(read("calcium", whole, own=True)) == {"calcium": "ca mg/dL"}
    coarse = {"type": "integer", "description": "in mmol/L"}
    assert "whole numbers, too coarse" in why(read("potassium", coarse, own=True))
    assert bound(read("potassium", {**coarse, "type": "number"}, own=True)) == {
        "potassium": "k mmol/L"
    }
    # Of glucose in either unit whole numbers are enough, so that only the bounds tell.
    assert "in which unit" in why(read(SUGAR, {"type": "integer"}, own=True))


@pytest.mark.parametrize(
    ("name", "text", "unit"),
    [
        ("heart_rate", "per minute", "hr bpm"),
        ("heart_rate", "1/min", "hr bpm"),
        ("weight", "Body weight in kilograms", "wt kg"),
        ("weight", "Body weight (lb)", "wt lb"),
        ("age", "in months", "age months"),
        ("systolic_bp", "in kPa", "sbp kPa"),
        ("hematocrit", "in %", "hct %"),
        ("hematocrit", "percentage", "hct %"),
        ("hematocrit", "as a fraction", "hct L/L"),
        ("hba1c", "IFCC, mmol/mol", "a1c mmol/mol"),
        ("annual_interest_rate", "percentage", "rate %/year"),
    ],
)
def test_a_description_says_the_unit(name: str, text: str, unit: str) -> None:
    assert bound(read(name, {"description": text})) == {name: unit}


@pytest.mark.parametrize("key", ["x-unit", "unit", "units"])
def test_a_schema_says_the_unit_in_a_field_of_its_own(key: str) -> None:
    assert bound(read("weight", {key: "lb"})) == {"weight": "wt lb"}
    assert "hours" in why(read("weight", {key: "hours"}))
    assert "in which unit" in why(read("weight", {key: "wagons"}))


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("weight", "Body weight, kilograms or pounds", "several units are named: kg, lb"),
        ("weight", "Body weight in milliseconds", "it is in ms, which does not measure wt"),
        ("weight", "Body weight (seconds)", "it is in s, which does not measure wt"),
        ("annual_interest_rate", "as a decimal", "it is a fraction, which is not converted"),
        ("annual_interest_rate", "0.05 for five", "it is a fraction, which is not converted"),
        ("income", "Monthly or yearly income", "by the month or by the year"),
        ("income", "Monthly income in £", "it is in £, and currencies are not exchanged"),
        ("loan_amount", "Loan in euro", "it is in euro, and currencies are not exchanged"),
        ("creatinine_kg", "", "its name is in kg, which does not measure scr"),
    ],
)
def test_a_unit_that_is_not_clear_or_does_not_fit_is_asked_about(
    name: str, text: str, problem: str
) -> None:
    assert problem in why(read(name, {"description": text}))


def test_a_percentage_that_no_text_states_is_no_stated_one() -> None:
    """Some tools take 0.42 for a haematocrit of 42 %, and 48 mmol/mol for an HbA1c of 6.5 %."""
    assert why(read("hematocrit", {})) == "it does not say in which unit: %, L/L"
    assert why(read("hba1c", {})) == "it does not say in which unit: %, mmol/mol"
    assert bound(read("hematocrit", {"maximum": 1})) == {"hematocrit": "hct L/L"}
    assert bound(read("hematocrit", {"minimum": 4})) == {"hematocrit": "hct %"}
    # A fraction of a yearly rate is not converted, so that bounds alone do not choose it.
    assert "in which unit" in why(read("annual_interest_rate", {"maximum": 0.5}))
    assert bound(read("annual_interest_rate", {"minimum": 4})) == {
        "annual_interest_rate": "rate %/year"
    }
