"""Corrections that the owner types are kept, and read again as they were meant."""

import pytest

from rootguard.channels.tools import Pin, parse_pins
from rootguard.channels.tools.corrections import joined, read_corrections, with_corrections
from rootguard.errors import PolicyError


def test_what_is_typed_is_what_is_kept() -> None:
    typed = read_corrections(["score.x1=ast:U/L", "score.patient.age=age", "notes.text=ignore"])
    text = with_corrections("", typed, file="pins.toml")
    assert parse_pins(text, file="pins.toml").tools == typed.tools
    assert typed.of("score")["patient", "age"] == Pin(name="age")
    assert typed.of("notes")[("text",)] == Pin(name=None)


def test_comments_stay_and_a_later_correction_wins() -> None:
    text = '# mine\n[tools.score.x1]\nroot = "ast"\n'
    more = with_corrections(text, read_corrections(["score.x2=alt"]), file="p")
    assert more.startswith(text)
    again = with_corrections(more, read_corrections(["score.x1=alt"]), file="p")
    assert parse_pins(again, file="p").of("score")[("x1",)] == Pin(name="alt")
    assert parse_pins(again, file="p").of("score")[("x2",)] == Pin(name="alt")


def test_names_with_odd_signs_are_quoted() -> None:
    typed = read_corrections(['a b.c"d=ast'])
    text = with_corrections("", typed, file="p")
    assert parse_pins(text, file="p").tools == typed.tools


def test_later_corrections_take_the_place_of_earlier_ones() -> None:
    both = joined(read_corrections(["t.a=ast", "t.b=alt"]), read_corrections(["t.a=age"]))
    assert both.of("t")[("a",)] == Pin(name="age")
    assert both.of("t")[("b",)] == Pin(name="alt")


@pytest.mark.parametrize("text", ["score", "score=ast", "score.x1", "score.x1=", ".x=ast"])
def test_what_is_no_correction_is_refused_with_its_form(text: str) -> None:
    with pytest.raises(PolicyError, match=r"TOOL\.PARAMETER=ROOT"):
        read_corrections([text])
