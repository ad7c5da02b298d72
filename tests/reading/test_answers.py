"""Yes or no, one of a few words, a day: where they stand, what they say, what is written back."""

import pytest

from rootguard.channels.text.explanation import Explainer
from rootguard.reading.answers import _ordinal
from rootguard.template import load_template
from tests.support import answer_texts


def answers(text: str) -> list[str]:
    explainer = Explainer([load_template("ascvd")], answers=True)
    found, _ = explainer.explain(text, source="owner")
    return [text[each.start : each.end] for each in found if each.root == "smoker"]


def test_every_answer_is_read_and_written_as_it_was_recorded() -> None:
    recorded = list(answer_texts.lines())
    assert [answer_texts.marked(line) for line in recorded] == recorded


@pytest.mark.parametrize(
    ("days", "ending"),
    [((1, 21, 31), "st"), ((2, 22), "nd"), ((3, 23), "rd"), ((4, 10, 11, 12, 13, 14, 30), "th")],
)
def test_a_day_is_counted_as_english_counts(days: tuple[int, ...], ending: str) -> None:
    assert [_ordinal(day, "th") for day in days] == [f"{day}{ending}" for day in days]
    assert [_ordinal(day, "") for day in days] == [str(day) for day in days]
    assert [_ordinal(day, ".") for day in days] == [f"{day}." for day in days]
    assert [_ordinal(day, "er") for day in days] == [str(day) for day in days]


@pytest.mark.parametrize(
    ("said", "found"),
    [("only at parties", True), ("x" * 80, True), ("x" * 81, False), ("<unknown>", False)],
)
def test_any_short_text_behind_a_label_is_taken_for_an_answer(said: str, found: bool) -> None:
    assert answers(f"Smoker: {said}") == ([said] if found else [])


def test_a_label_with_nothing_behind_it_has_no_answer() -> None:
    assert set(answers("Smoker: , ")) <= {"Smoker"}  # the word itself says so already
