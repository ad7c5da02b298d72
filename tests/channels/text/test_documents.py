"""JSON through the text channel: numbers by their keys, names in keys, limits."""

import json
import re
from collections.abc import Callable

import pytest

from rootguard.channels.detection import Rules
from rootguard.channels.text import documents
from rootguard.channels.text.channel import TextChannel
from rootguard.channels.text.documents import MAX_DEPTH, MAX_NODES
from rootguard.channels.text.edits import Edit
from rootguard.errors import TextBlockedError
from rootguard.language.units import convert
from rootguard.session.person import Person
from tests.support.channel_person import FAR, open_person, written


@pytest.fixture
def person() -> Person:
    return open_person(FAR)


@pytest.fixture
def channel(person: Person) -> TextChannel:
    return TextChannel(person, detectors=[Rules()])


def test_json_numbers_are_read_by_their_keys(person: Person, channel: TextChannel) -> None:
    made = channel.sanitize_json(
        {
            "ast": 171.37,
            "glucose_mmol": 5.9,
            "heightCm": 180,
            "labs": [
                {"test": "ALT", "result": 93.71, "units": "U/L"},
                {"plt": {"value": 231, "unit": "10^9/L"}},
            ],
            "blood_pressure": {"systolic": 134, "diastolic": 64},
            "weights": {"body_weight_lb": [176, 177]},
            "bp": "134/64",
            "n": 3,
            "flag": True,
            "none": None,
        }
    )
    out = made.value
    assert isinstance(out, dict)
    assert out["ast"] == float(written(person, "ast"))
    glucose, height = person.number("glu"), person.number("ht")
    assert abs(out["glucose_mmol"] - (convert(glucose, "mg/dL", "mmol/L", "glucose") or 0)) < 0.051
    assert out["heightCm"] == round(100 * height)
    alt = float(written(person, "alt"))
    assert out["labs"][0] == {"test": "ALT", "result": alt, "units": "U/L"}
    assert out["labs"][1]["plt"]["value"] == int(written(person, "plt"))
    systolic, diastolic = written(person, "sbp"), written(person, "dbp")
    assert out["blood_pressure"] == {"systolic": int(systolic), "diastolic": int(diastolic)}
    pounds = (convert(person.number("wt"), "kg", "lb") or 0) * 1.0
    assert all(each == round(pounds) for each in out["weights"]["body_weight_lb"])
    assert out["bp"] == f"{systolic}/{diastolic}"
    assert (out["n"], out["flag"], out["none"]) == (3, True, None)
    assert made.replaced == {"root": 11}
    assert channel.sanitize_json(out).value == out


@pytest.mark.parametrize("text", ["4415-8820", "44158820", "4415 8820"])
@pytest.mark.parametrize("key", ["mrn", "MRN", "patient_mrn"])
def test_an_identifier_that_begins_in_a_key_is_replaced(
    channel: TextChannel, key: str, text: str
) -> None:
    given = {"id": {key: text}}
    sent = channel.sanitize_json(given).value
    assert "4415" not in str(sent)
    assert "8820" not in str(sent)
    with pytest.raises(TextBlockedError):
        channel.sanitize_json({key: 44158820})


def test_json_rows_are_read_by_their_columns(person: Person, channel: TextChannel) -> None:
    made = channel.sanitize_json(
        {"columns": ["id", "ast", "alt"], "data": [[1, 23, 30], [2, 24, 31]]}
    )
    ast, alt = int(written(person, "ast")), int(written(person, "alt"))
    assert isinstance(made.value, dict)
    assert made.value["data"] == [[1, ast, alt], [2, ast, alt]]


@pytest.mark.parametrize(
    "value",
    [
        {"balance": 500},
        {"dose": {"value": 41}},
        {"note": "my dose is 50"},
        {"x": float("inf")},
        {"x": b"bytes"},
        {1: "x"},
        {"x": 10**400},
    ],
)
def test_json_that_cannot_be_placed_is_blocked(channel: TextChannel, value: object) -> None:
    with pytest.raises(TextBlockedError):
        channel.sanitize_json(value)


def test_json_that_is_too_deep_or_too_large_is_blocked(channel: TextChannel) -> None:
    deep: object = 1
    for _ in range(MAX_DEPTH + 2):
        deep = [deep]
    with pytest.raises(TextBlockedError):
        channel.sanitize_json(deep)
    with pytest.raises(TextBlockedError):
        channel.sanitize_json([None] * (MAX_NODES + 1))
    assert channel.sanitize_json([None] * 100).value == [None] * 100


def test_json_keys_change_only_if_an_identifier_stands_in_them(channel: TextChannel) -> None:
    made = channel.sanitize_json({"Jane Roe": {"firstName": "x", "ast": 23, "MRN-4415-8820": "x"}})
    text = json.dumps(made.value)
    assert "Jane" not in text
    assert "4415" not in text
    assert "firstName" in text
    assert channel.restore(text).count("Jane Roe") == 1


def test_a_redacted_json_number_is_a_text(person: Person) -> None:
    channel = TextChannel(person, near_private="redact")
    made = channel.sanitize_json({"balance": 500, "n": 3})
    assert made.value == {"balance": "[number]", "n": 3}
    assert channel.sanitize_json(made.value).value == made.value


@pytest.mark.parametrize("around", [lambda inner: [inner], lambda inner: {"k": inner}])
def test_a_document_of_thirty_two_levels_is_read_and_none_of_more(
    channel: TextChannel, around: Callable[[object], object]
) -> None:
    deep: object = None
    for _ in range(32):
        deep = around(deep)
    assert channel.sanitize_json(deep).value == deep
    with pytest.raises(TextBlockedError):
        channel.sanitize_json(around(deep))


def test_a_table_is_two_levels(channel: TextChannel) -> None:
    deep: object = {"columns": ["a"], "data": [[[None]]]}
    for _ in range(29):
        deep = [deep]
    assert channel.sanitize_json(deep).value == deep
    with pytest.raises(TextBlockedError):
        channel.sanitize_json([deep])


def test_a_document_has_so_many_parts_and_numbers_so_large(channel: TextChannel) -> None:
    many = [None] * 19_999
    assert channel.sanitize_json(many).value == many
    with pytest.raises(TextBlockedError):
        channel.sanitize_json([*many, None])
    assert channel.sanitize_json([1e300, -1e300]).value == [1e300, -1e300]
    with pytest.raises(TextBlockedError):
        channel.sanitize_json(1.0001e300)


def test_a_number_is_read_with_the_four_keys_above_it(person: Person, channel: TextChannel) -> None:
    inner = {"data": {"value": {"number": 23}}}
    made = channel.sanitize_json({"ast": inner})
    assert made.value == {"ast": {"data": {"value": {"number": int(written(person, "ast"))}}}}
    far = {"ast": {"result": inner}}
    assert channel.sanitize_json(far).value == far


@pytest.mark.parametrize(("length", "read"), [(80, True), (81, False)])
def test_what_stands_beside_a_number_names_it_if_it_is_short(
    person: Person, channel: TextChannel, length: int, read: bool
) -> None:
    named = "of a day long ago ".rjust(length - 3, "x") + "AST"
    made = channel.sanitize_json({"test": named, "result": 23, "note": 23})
    ast = int(written(person, "ast")) if read else 23
    assert made.value == {"test": named, "result": ast, "note": 23}


def test_rows_that_are_no_table_are_read_as_lists(person: Person, channel: TextChannel) -> None:
    for document in (
        {"columns": ["ast"], "data": []},
        {"columns": ["ast"], "data": [[3], [4, 5]]},
        {"columns": ["ast", 3], "data": [[3, 1]]},
        {"columns": "ast", "data": [[3]]},
    ):
        assert channel.sanitize_json(document).value == document
    made = channel.sanitize_json({"rows": [[3]], "Header": ["ast"], "data": [(23,)]})
    ast = int(written(person, "ast"))
    assert made.value == {"rows": [[ast]], "Header": ["ast"], "data": [[ast]]}


def test_a_unit_beside_a_number_is_that_of_its_value_alone(
    person: Person, channel: TextChannel
) -> None:
    made = channel.sanitize_json({"test": "glucose", "value": 5.9, "glu": 106, "unit": "mmol/L"})
    assert isinstance(made.value, dict)
    glucose = person.number("glu")
    assert made.value["glu"] == round(glucose)
    molar = convert(glucose, "mg/dL", "mmol/L", "glucose") or 0
    assert abs(made.value["value"] - molar) < 0.051


@pytest.mark.parametrize(
    ("digits", "edit", "made"),
    [
        ("4415882", Edit(start=0, end=7, text="5295103", kind="code"), 5295103),
        ("4415882.5", Edit(start=0, end=7, text="5295103", kind="code"), 5295103.5),
        ("4415882", Edit(start=0, end=7, text="[number]", kind="number"), "[number]"),
        ("23", Edit(start=0, end=2, text="25", kind="root", released=25.4), 25),
        ("23", Edit(start=0, end=2, text="25.6", kind="root", released=25.61), 26),
        ("23.0", Edit(start=0, end=4, text="25", kind="root", released=25.4), 25.0),
        ("23.0", Edit(start=0, end=4, text="25.6", kind="root", released=25.61), 25.6),
        ("-2", Edit(start=0, end=2, text="-3.6", kind="root", released=-3.61), -4),
        ("85000", Edit(start=0, end=5, text="83400 a year", kind="root", released=6950.4), 6950),
        ("85e3", Edit(start=0, end=5, text="83400 a year", kind="root", released=6950.4), 6950.0),
        ("1.5", Edit(start=0, end=3, text="1.25 or so", kind="root", released=1.2489), 1.25),
    ],
)
def test_a_number_stays_a_number(digits: str, edit: Edit, made: object) -> None:
    assert documents._typed(edit, digits) == made
    assert type(documents._typed(edit, digits)) is type(made)


@pytest.mark.parametrize("token", ["0529510", "AB-529510", "+5295103"])
def test_a_token_that_is_no_number_of_json_is_blocked(token: str) -> None:
    with pytest.raises(TextBlockedError):
        documents._typed(Edit(start=0, end=7, text=token, kind="code"), "4415882")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"labels": ["AST", "ALT"], "data": [23, 30]}, []),
        ({"q": 1, "answers": [{"question": "AST?", "answer": "23"}]}, ["q"]),
        ({"q": "AST", "a": 23}, []),
        ({"metrics": [["AST", 23], ["ALT", 30], ["page", 7]]}, [7]),
        ([{"q": "What is your ALT?", "a": "30"}], []),
        ({"prompt": "ALT in U/L", "reply": 30, "page": 7}, [7]),
        ({"ast": {"value": 23, "ref": {"low": 10, "high": 40}}}, [10, 40]),
        ({"name": "AST", "v": 23, "low": 10}, [10]),
    ],
)
def test_names_beside_numbers_bind_them_and_reference_ranges_stay(
    given: object, kept: list[object], channel: TextChannel
) -> None:
    made = json.dumps(channel.sanitize_json(given).value)
    assert re.search(r"(?<!\d)(?:23|30)(?!\d)", made) is None
    assert all(str(each) in made for each in kept)
