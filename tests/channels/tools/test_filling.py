"""Released values go into a tool's arguments in the unit and type that its schema asks for."""

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from rootguard import MemoryStore
from rootguard.channels.tools import (
    Binding,
    described,
    fill,
    filling,
    inspect_tools,
    parse_pins,
    plan_implied,
)
from rootguard.errors import AccessError, PrivateValueError, UnknownNameError
from rootguard.session import Person, parse_profile
from rootguard.template import Root, load_template
from rootguard.values import RootName
from tests.support.schemas import NUMBER, tool

PROFILE = """
templates = ["fib4", "bmi", "egfr", "homa", "debt_to_income"]
budget = "0.9"
[values]
age = 50
ast = 30
alt = 31
plt = 210
wt = 80
ht = 1.8
scr = 1.0
female = 1
glu = 95
ins = 8
income = 4000
debt_payment = 900
[identifiers]
mrn = "4415-8820"
"""


def person(text: str = PROFILE) -> Person:
    return Person.open(parse_profile(text, file="me.toml"), store=MemoryStore())


# Filling in.


def test_fill_replaces_whatever_the_agent_put_in_unit_and_type() -> None:
    me = person()
    made = tool(
        {
            "age": {"type": "integer"},
            "ast_u_l": NUMBER,
            "height_cm": NUMBER,
            "weight_lb": {"type": "string", "description": "Body weight in pounds, as a string"},
            "fasting_glucose_mmol_l": NUMBER,
            "sex": {"type": "string", "enum": ["male", "female"]},
            "annual_income_usd": {**NUMBER, "description": "Gross annual income of the patient"},
            "mrn": {"type": "string", "description": "Medical record number of the patient"},
            "note": {"type": "string"},
        },
        about="FIB-4 and BMI of the patient",
    )
    given = dict.fromkeys(("age", "ast_u_l", "height_cm", "fasting_glucose_mmol_l"), 123456.789)
    given |= {"weight_lb": "987", "sex": "male", "annual_income_usd": 1, "mrn": "x", "note": "hi"}  # type: ignore[dict-item]
    filled = fill(made, given, me)
    assert given["age"] == 123456.789
    assert filled["note"] == "hi"
    assert isinstance(filled["age"], int)
    assert abs(filled["age"] - me.number("age")) <= 0.5
    assert filled["ast_u_l"] == round(me.number("ast"))
    assert filled["height_cm"] == round(100 * me.number("ht"))
    assert {type(filled[name]) for name in ("ast_u_l", "height_cm")} == {float}
    assert isinstance(filled["weight_lb"], str)
    assert filled["weight_lb"] == f"{me.number('wt') / 0.45359237:.0f}"
    assert filled["fasting_glucose_mmol_l"] == round(me.number("glu") / 18.0156, 1)
    assert filled["sex"] == ("female" if me.number("female") >= 0.5 else "male")
    assert filled["annual_income_usd"] == round(12 * me.number("income"), -1)
    assert filled["mrn"] == me.release("mrn") != "4415-8820"
    assert fill(made, given, me) == filled


def test_a_missing_parameter_is_filled_in_only_if_it_is_required() -> None:
    me = person()
    properties = {
        "patient": {
            "type": "object",
            "properties": {"age": {"type": "integer"}, "ast_u_l": NUMBER},
            "required": ["age"],
        },
        "alt_u_l": NUMBER,
        "plt_10e9_l": NUMBER,
    }
    made = tool(properties, required=("patient", "alt_u_l"))
    filled = fill(made, {"plt_10e9_l": None}, me)
    assert filled.keys() == {"patient", "alt_u_l", "plt_10e9_l"}
    assert filled["plt_10e9_l"] is None
    assert isinstance(patient := filled["patient"], dict)
    assert patient.keys() == {"age"}


def test_lists_are_filled_in_by_pin_item_by_item() -> None:
    me = person()
    pins = parse_pins('[tools.t."labs.*.a"]\nroot = "ast"', file="pins.toml")
    items = {"type": "object", "properties": {"a": NUMBER}}
    made = tool({"labs": {"type": "array", "items": items}}, name="t", pins=pins)
    filled = fill(made, {"labs": [{"a": 1}, {"a": 2}, {"b": 3}]}, me)
    value = round(me.number("ast"))
    assert filled == {"labs": [{"a": value}, {"a": value}, {"b": 3}]}


def test_released_values_are_brought_within_the_bounds_of_the_schema() -> None:
    me = person()
    low = {"type": "number", "minimum": 18, "maximum": 18.5, "description": "Age in years"}
    pins = parse_pins('[tools.t.a]\nroot = "age"', file="pins.toml")
    assert fill(tool({"a": low}, name="t", pins=pins), {"a": 3}, me) in ({"a": 18.0}, {"a": 18.5})


class Released:
    """A person whose every value is this one."""

    def __init__(self, value: float | str, roots: Mapping[RootName, Root] | None = None) -> None:
        self._value = value
        self.roots = roots or {}

    def release(self, _name: str) -> float | str:
        return self._value

    def number(self, _name: str) -> float:
        return float(self._value)

    def derive(self, formula: str) -> float:
        return 100.0 + len(formula)  # tells which formula was asked for


def given(value: float | str, asked: dict[str, Any]) -> object:
    """What a parameter that asks for this is filled in with."""
    head: dict[str, Any] = {"unit": None, "kind": "number", "confidence": 1.0, "reason": ""}
    binding = Binding(parameter=("a",), name="a", **{**head, **asked})
    return filling.value_of(binding, cast("Person", Released(value)))


@pytest.mark.parametrize(
    ("value", "asked", "made"),
    [
        ("AB-12", {"kind": "integer"}, "AB-12"),
        (3.0, {"formula": "bmi"}, 103.0),
        (0.5, {"ends": ("no", "yes")}, "yes"),
        (0.49, {"ends": ("no", "yes")}, "no"),
        (1.0, {"ends": ("no", "yes")}, "yes"),
        (1.8, {"unit": "m", "own": "m"}, 1.8),
        (1.8, {"unit": "cm", "own": "m"}, 180.0),
        (1.8, {"own": "m"}, 1.8),
        (1 / 3, {}, 0.333333333333),
        (1.3, {"step": 0.5}, 1.5),
        (0.31, {"step": 0.1}, 0.3),
        (1.3, {"step": 0.0}, 1.3),
        (1.3, {"step": -0.5}, 1.3),
        (1.3, {"step": 1.0}, 1.0),
        (1.25, {"step": 0.5}, 1.5),
        (1.3, {"step": 5.0, "lower": 1.0}, 5.0),
        (9.0, {"step": 5.0, "upper": 9.0}, 5.0),
        (2.4, {"kind": "integer", "step": 5.0, "lower": 1.0}, 5),
        (1.3, {"lower": 2.0}, 2.0),
        (1.3, {"lower": 1.0, "upper": 2.0}, 1.3),
        (1.3, {"upper": 1.0}, 1.0),
        (2.5, {"kind": "integer"}, 3),
        (2.4, {"kind": "integer"}, 2),
        (2.5, {"kind": "string"}, "2.5"),
        (2.0, {"kind": "string"}, "2"),
    ],
)
def test_a_value_is_written_as_the_schema_asks(
    value: float | str, asked: dict[str, Any], made: object
) -> None:
    assert given(value, asked) == made
    assert type(given(value, asked)) is type(made)


@pytest.mark.parametrize(
    ("name", "value", "asked", "made"),
    [
        ("age", 53.6236, {}, 54.0),
        ("age", 53.6236, {"kind": "integer"}, 54),
        ("age", 53.6236, {"kind": "string"}, "54"),
        ("age", 79.9, {"kind": "integer", "upper": 79.5}, 79),
        ("age", 18.1, {"kind": "integer", "lower": 18.5}, 19),
        ("a1c", 5.972, {}, 6.0),
        ("a1c", 5.972, {"kind": "string"}, "6.0"),
        ("a1c", 5.972, {"step": 0.25}, 6.0),
        ("a1c", 5.972, {"unit": "mmol/mol", "own": "%", "substance": "glycated_haemoglobin"}, 42.0),
        ("ht", 1.7804, {"unit": "cm", "own": "m"}, 178.0),
        ("ht", 1.9799, {"unit": "in", "own": "m"}, 77.0),
        ("wt", 81.04, {"unit": "lb", "own": "kg"}, 179.0),
        ("dbp", 0.01, {}, 1.0),
        ("a1c", 5.972, {"formula": "28.7 * a1c"}, 110.0),
    ],
)
def test_a_root_has_the_decimals_that_people_give_it(
    name: str, value: float, asked: dict[str, Any], made: object
) -> None:
    roots = {
        **load_template("fib4").roots,
        **load_template("eag").roots,
        **load_template("bmi").roots,
        **load_template("map").roots,
    }
    head: dict[str, Any] = {"unit": None, "kind": "number", "confidence": 1.0, "reason": ""}
    binding = Binding(parameter=("a",), name=name, **{**head, **asked})
    filled = filling.value_of(binding, cast("Person", Released(value, roots)))
    assert filled == made
    assert type(filled) is type(made)


def test_a_unit_that_measures_something_else_is_refused() -> None:
    with pytest.raises(UnknownNameError):
        given(1.8, {"unit": "kg", "own": "m"})


@pytest.mark.parametrize(
    ("node", "path", "required", "made"),
    [
        ({"a": 1}, "a", False, {"a": 9}),
        ({"a": None}, "a", False, {"a": None}),
        ({}, "a", False, {}),
        ({}, "a", True, {"a": 9}),
        ({}, "a.b", True, {"a": {"b": 9}}),
        ({"a": 1}, "a.b", True, {"a": {"b": 9}}),
        ({"a": {"c": 1}}, "a.b", True, {"a": {"c": 1, "b": 9}}),
        ({}, "a.b", False, {}),
        ({"a": {"b": 1}}, "a.b", False, {"a": {"b": 9}}),
        ({"a": [1, 2]}, "a.*", False, {"a": [9, 9]}),
        ({"a": 1}, "a.*", True, {"a": 1}),
        ({"a": [{"b": 1}, 2, {}]}, "a.*.b", False, {"a": [{"b": 9}, 2, {}]}),
        ({"a": [{"b": 1}, 2, {}]}, "a.*.b", True, {"a": [{"b": 9}, 2, {"b": 9}]}),
    ],
)
def test_a_value_is_put_where_something_stood_or_is_required(
    node: dict[str, object], path: str, required: bool, made: dict[str, object]
) -> None:
    filling._put(node, tuple(path.split(".")), 9, required=required)
    assert node == made


POLICY = """
[tiers.public]
budget = "0.5"
[services.app]
tier = "public"
roots = ["age"]
formulas = []
"""


def test_a_refusal_is_raised_without_the_arguments(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY, "utf-8")
    text = PROFILE.replace('budget = "0.9"', 'policy = "policy.toml"')
    profile = parse_profile(text, file=str(tmp_path / "me.toml"))
    me = Person.open(profile, store=MemoryStore(), service="app")
    made = tool({"age": {"type": "integer"}, "ast_u_l": NUMBER}, required=("age",))
    assert fill(made, {"age": 7}, me).keys() == {"age"}
    with pytest.raises(AccessError) as caught:
        fill(made, {"age": 7, "ast_u_l": 91.827364519}, me)
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)][1:]
    assert "91.827364519" not in str([frame.f_locals for frame in frames])
    with pytest.raises(PrivateValueError):
        fill(made, {"ast_u_l": 1.0}, person(PROFILE.replace("ast = 30\n", "")))


def test_the_plan_that_tools_imply_names_templates_and_missing_roots() -> None:
    me = person()
    tools = [
        {
            "name": "fib4_score",
            "description": "FIB-4",
            "inputSchema": {
                "properties": {
                    "age": {"type": "integer"},
                    "ast_u_l": NUMBER,
                    "alt_u_l": NUMBER,
                    "platelets_10e9_l": NUMBER,
                }
            },
        },
        {
            "name": "waist_height_ratio",
            "inputSchema": {"properties": {"waist_cm": NUMBER, "height_cm": NUMBER}},
        },
        {"name": "nothing", "inputSchema": {}},
    ]
    maps = inspect_tools(tools, me)
    found = plan_implied(maps, me)
    assert [(each.template, each.declared, each.missing) for each in found] == [
        ("fib4", True, ()),
    ]
    assert described(maps[0])["formula"] == "fib4"
    assert [each.tool for each in maps] == ["fib4_score", "waist_height_ratio", "nothing"]


def test_tools_are_inspected_with_the_identifiers_of_the_profile() -> None:
    schema = {"type": "object", "properties": {"mrn": {"type": "string"}}}
    (found,) = inspect_tools([{"name": "t", "inputSchema": schema}], person())
    assert [binding.name for binding in found.bindings] == ["mrn"]
