"""JSON through the text channel: numbers by their keys, names in keys, limits."""

import json

import pytest

from rootguard.channels.detection import Rules
from rootguard.channels.text.channel import TextChannel
from rootguard.channels.text.documents import MAX_DEPTH, MAX_NODES
from rootguard.errors import TextBlockedError
from rootguard.language.units import convert
from rootguard.session.person import Person
from tests.support.channel_person import open_person


@pytest.fixture
def person() -> Person:
    return open_person()


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
    assert out["ast"] == person.release("ast")
    glucose, height = float(person.release("glu")), float(person.release("ht"))
    assert abs(out["glucose_mmol"] - (convert(glucose, "mg/dL", "mmol/L", "glucose") or 0)) < 1e-4
    assert abs(out["heightCm"] - 100 * height) < 1e-3
    assert out["labs"][0] == {"test": "ALT", "result": person.release("alt"), "units": "U/L"}
    assert out["labs"][1]["plt"]["value"] == person.release("plt")
    pressure = {"systolic": person.release("sbp"), "diastolic": person.release("dbp")}
    assert out["blood_pressure"] == pressure
    pounds = (convert(float(person.release("wt")), "kg", "lb") or 0) * 1.0
    assert all(abs(each - pounds) < 1e-3 for each in out["weights"]["body_weight_lb"])
    assert out["bp"] == f"{person.release('sbp')!r}/{person.release('dbp')!r}"
    assert (out["n"], out["flag"], out["none"]) == (3, True, None)
    assert made.replaced == {"root": 11}
    assert channel.sanitize_json(out).value == out


def test_json_rows_are_read_by_their_columns(person: Person, channel: TextChannel) -> None:
    made = channel.sanitize_json(
        {"columns": ["id", "ast", "alt"], "data": [[1, 23, 30], [2, 24, 31]]}
    )
    ast, alt = person.release("ast"), person.release("alt")
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
