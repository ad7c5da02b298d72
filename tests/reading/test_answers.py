"""Yes or no, one of a few words, a day: where they stand, what they say, what is written back."""

import re
from datetime import date
from typing import Literal

import pytest

from rootguard.channels.detection.rules import find_dates
from rootguard.channels.text.explanation import Explainer
from rootguard.language.fold import Runs
from rootguard.reading.days import _ordinal, told_when
from rootguard.reading.page import read_page
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


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("AST 23", "now"),
        ("AST 23 on 3 March 2024", date(2024, 3, 3)),
        ("3 March 2024: AST 23", date(2024, 3, 3)),
        ("3 March 2024: AST 23 on 4 May 2025", date(2025, 5, 4)),
        ("3 March 2024, then 4 May 2025: AST 23", date(2025, 5, 4)),
        ("3 March 2024\nAST 23", "now"),
        ("AST 23\non 3 March 2024", "now"),
        ("AST 23, on 3 March 2024 I moved", "now"),
        ("AST 23 and on 3 March 2024 I moved", "now"),
        ("AST 23 on 10 June 2025", "now"),
        ("AST 23 yesterday", date(2025, 6, 9)),
        ("AST 23 3 days ago", date(2025, 6, 7)),
        ("AST 23 2 weeks ago", date(2025, 5, 27)),
        ("AST 23 in March", "earlier"),
        ("AST 23 in shape", "now"),
    ],
)
def test_a_number_tells_of_the_day_that_stands_nearest_in_its_line(
    text: str, when: date | Literal["now", "earlier"]
) -> None:
    page = read_page(text, load_template("fib4").roots)
    number = re.search("(?<=AST )23", text)
    assert number is not None
    days = [page.folded.place(*day) for day in find_dates(text, Runs(text))]
    found = told_when(page, number.span(), (0, len(text)), days, date(2025, 6, 10))
    assert found == when


@pytest.mark.parametrize(("between", "when"), [((0, 99), "earlier"), ((0, 9), "now")])
def test_a_number_behind_it_ends_what_tells_of_its_time(
    between: tuple[int, int], when: Literal["now", "earlier"]
) -> None:
    page = read_page("AST 23, 30 in March".replace(",", ""), load_template("fib4").roots)
    assert told_when(page, (4, 6), between, [], date(2025, 6, 10)) == when
