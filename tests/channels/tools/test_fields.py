"""The parameters of a schema one by one, and how a value is written in each."""

import math
from typing import Any

import pytest

from rootguard.channels.tools.fields import MAX_DEPTH, MAX_FIELDS, MAX_TEXT, Field, fields_of
from tests.support.schemas import NUMBER, tool


def only(schema: dict[str, Any]) -> Field:
    """The one parameter `a` with this schema."""
    (found,) = fields_of({"properties": {"a": schema}})
    assert found.path[0] == "a"
    return found


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "number"}, "number"),
        ({"type": "integer"}, "integer"),
        ({"type": "string"}, "string"),
        ({"type": "boolean"}, "boolean"),
        ({"type": ["null", "string"]}, "string"),
        ({"type": ["string", "number"]}, "number"),
        ({"type": ["string", "integer", "null"]}, "integer"),
        ({}, "number"),
        ({"enum": [1, 2]}, "number"),
        ({"enum": ["a", 2]}, "string"),
        ({"type": "null", "enum": ["a"]}, "string"),
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, "number"),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "integer"),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, "boolean"),
    ],
)
def test_a_parameter_has_the_kind_of_the_number_that_it_may_be(
    schema: dict[str, Any], kind: str
) -> None:
    assert only(schema).kind == kind


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "null"},
        {"type": "object"},
        {"type": ["null", "array"]},
        {"type": "string", "const": "a"},
        {"$ref": "#/nowhere"},
        {"$ref": "other.json#/a"},
        {"$ref": "#/properties/a"},
        {"anyOf": [{"type": "null"}]} | {"type": "null"},
        5,
    ],
)
def test_what_is_no_value_is_no_parameter(schema: object) -> None:
    assert fields_of({"properties": {"a": schema}}) == ()


def test_all_that_a_schema_says_of_a_parameter_is_kept() -> None:
    schema = {
        "type": "number",
        "title": "A",
        "description": "of it",
        "unit": "kg",
        "enum": [1, 2],
        "examples": [1, "b", 2.5, True],
        "minimum": 1,
        "exclusiveMinimum": 2,
        "maximum": 9,
        "exclusiveMaximum": 8,
        "multipleOf": 0.5,
        "pattern": "[0-9]",
    }
    assert only(schema) == Field(
        path=("a",),
        kind="number",
        title="A",
        description="of it",
        unit="kg",
        choices=(1, 2),
        examples=(1.0, 2.5),
        lower=2.0,
        upper=8.0,
        step=0.5,
        pattern="[0-9]",
    )


@pytest.mark.parametrize("bound", [math.inf, -math.inf, math.nan, 10**400, True, "1", None])
def test_a_bound_that_is_no_number_bounds_nothing(bound: object) -> None:
    found = only({"type": "number", "minimum": bound, "maximum": bound, "multipleOf": bound})
    assert (found.lower, found.upper, found.step) == (-math.inf, math.inf, None)


def test_an_example_stands_alone_or_in_a_list() -> None:
    assert only({"type": "number", "example": 7}).examples == (7.0,)
    assert only({"type": "number", "examples": {"a": 7}}).examples == ()
    assert only({"type": "number", "examples": list(range(20))}).examples == tuple(range(8))


def test_a_parameter_is_required_if_it_and_all_around_it_is() -> None:
    inner = {"properties": {"b": NUMBER, "c": NUMBER}, "required": ["b"]}
    schema = {"properties": {"a": inner, "d": inner, "e": NUMBER}, "required": ["a", "e"]}
    required = {".".join(field.path): field.required for field in fields_of(schema)}
    assert required == {"a.b": True, "a.c": False, "d.b": False, "d.c": False, "e": True}
    assert not fields_of({"properties": {"e": NUMBER}, "required": "e"})[0].required
    listed = {"properties": {"e": {"items": NUMBER}}, "required": ["e"]}
    assert not fields_of(listed)[0].required


def test_alternatives_of_one_parameter_are_required_if_each_is() -> None:
    number, text = ({"properties": {"a": {"type": kind}}} for kind in ("number", "string"))
    for one, other in ((number, text), (text, number)):
        for required in ([], ["a"]):
            both = {"anyOf": [{**one, "required": ["a"]}, {**other, "required": required}]}
            (found,) = fields_of(both)
            assert (found.kind, found.required) == ("number", bool(required))


def test_a_list_that_may_have_one_item_only_is_not_several() -> None:
    assert only({"items": NUMBER}).several
    assert only({"items": NUMBER, "maxItems": 2}).several
    assert not only({"items": NUMBER, "maxItems": 1}).several
    assert only({"items": {"items": NUMBER, "maxItems": 1}}).several
    assert only({"items": NUMBER}).path == ("a", "*")


def test_what_is_said_of_a_list_or_a_choice_is_said_of_what_is_in_it() -> None:
    found = only({"items": NUMBER, "title": "T", "description": "of all"})
    assert (found.title, found.description) == ("", "of all")
    found = only({"anyOf": [NUMBER, {"type": "null"}], "title": "T", "description": "D"})
    assert (found.title, found.description) == ("T", "D")
    found = only({"allOf": [NUMBER], "maximum": 3, "default": 5})
    assert found.upper == 3.0
    found = only({"description": "outer", "properties": {"b": NUMBER}})
    assert found.description == ""


def test_a_reference_is_followed_within_the_document() -> None:
    schema = {
        "$defs": {"a/b~c": {"type": "integer", "description": "inner"}},
        "properties": {"a": {"$ref": "#/$defs/a~1b~0c", "description": "outer"}},
    }
    (found,) = fields_of(schema)
    assert (found.kind, found.description) == ("integer", "inner")


@pytest.mark.parametrize("key", ["unit", "units"])
@pytest.mark.parametrize("said", [{"const": "kg"}, {"enum": ["kg"]}])
def test_a_unit_beside_a_value_is_its_unit_if_there_is_no_other(
    key: str, said: dict[str, Any]
) -> None:
    quantity = {"properties": {"value": NUMBER, key: {"type": "string", **said}}}
    units = {field.path[-1]: field.unit for field in fields_of(quantity)}
    assert units["value"] == "kg"
    open_unit = {"properties": {"value": NUMBER, key: {"type": "string", "enum": ["kg", "lb"]}}}
    assert {field.unit for field in fields_of(open_unit)} == {""}
    deeper = {"properties": {"a": {"properties": {"b": NUMBER}}, key: said}}
    assert next(f.unit for f in fields_of(deeper) if f.path == ("a", "b")) == ""
    own = {"properties": {"value": {**NUMBER, "x-unit": "lb"}, key: said}}
    assert next(f.unit for f in fields_of(own) if f.path == ("value",)) == "lb"


def deep(levels: int) -> dict[str, Any]:
    """A number inside so many objects."""
    schema: dict[str, Any] = {"type": "number"}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


def test_depth_number_and_length_are_bounded() -> None:
    assert len(fields_of(deep(MAX_DEPTH))) == 1
    assert fields_of(deep(MAX_DEPTH + 1)) == ()
    wide = {"properties": {f"p{place}": NUMBER for place in range(MAX_FIELDS + 1)}}
    assert len(fields_of(wide)) == MAX_FIELDS
    assert (
        len(only({"type": "string", "description": "x" * (MAX_TEXT + 1)}).description) == MAX_TEXT
    )
    branches = [{"properties": {f"p{place}": NUMBER}} for place in range(MAX_DEPTH + 1)]
    assert len(fields_of({"anyOf": branches})) == MAX_DEPTH


# How a value is written.


def ends(name: str, schema: dict[str, Any]) -> object:
    """What stands for no and yes, or why that is not clear."""
    made = tool({name: schema}, name="patient_form")
    return made.bindings[0].ends if made.bindings else made.asked[0].why


@pytest.mark.parametrize(
    ("name", "schema", "wanted"),
    [
        ("sex", {"type": "string", "enum": ["M", "F"]}, ("M", "F")),
        ("sex", {"type": "string", "enum": ["female", "male"]}, ("male", "female")),
        ("sex", {"type": "string", "enum": ["male", "female", "other"]}, "apart"),
        ("sex", {"type": "string", "enum": ["male", "m", "female"]}, "apart"),
        ("sex", {"type": "boolean"}, "how it is written"),
        ("is_female", {"type": "boolean"}, (False, True)),
        ("is_male", {"type": "boolean"}, (True, False)),
        ("sex", {"type": "integer", "description": "Sex, 1 = female"}, (0, 1)),
        ("sex", {"type": "integer", "description": "Sex (male: 1)"}, (1, 0)),
        ("sex", {"type": "number", "description": "Sex, 1 for men"}, "stands for women"),
        ("sex", {"type": "integer", "maximum": 1}, "stands for women"),
        ("diabetes_or_ifg", {"type": "boolean"}, (False, True)),
        ("diabetes_or_ifg", {"type": "integer", "maximum": 1}, (0, 1)),
        ("diabetes_or_ifg", {"type": "integer", "maximum": 2}, "how it is written"),
        ("diabetes_or_ifg", {"type": "integer"}, "how it is written"),
        ("diabetes_or_ifg", {"type": "string", "enum": ["Yes", "No"]}, ("No", "Yes")),
        ("diabetes_or_ifg", {"type": "string", "enum": ["Yes", "No", "Unknown"]}, "not yes and no"),
        ("diabetes_or_ifg", {"type": "string"}, "how it is written"),
    ],
)
def test_a_root_of_two_points_is_written_as_the_schema_says(
    name: str, schema: dict[str, Any], wanted: object
) -> None:
    found = ends(name, schema)
    if isinstance(wanted, str):
        assert wanted in str(found)
    else:
        assert found == wanted


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"pattern": r"^\d+$"}, ""),
        ({"pattern": "[0-9]+"}, ""),
        ({"pattern": "[a-z]+"}, "nothing says that it holds a number"),
        ({"description": "Systolic blood pressure, as a string"}, ""),
        ({"description": "Systolic blood pressure in mmHg"}, ""),
        ({}, "nothing says that it holds a number"),
    ],
)
def test_a_text_carries_a_number_if_something_says_so(schema: dict[str, Any], problem: str) -> None:
    made = tool({"systolic_bp": {"type": "string", **schema}}, name="patient_form")
    if problem:
        assert problem in made.asked[0].why
    else:
        assert [each.name for each in made.bindings] == ["sbp"]
