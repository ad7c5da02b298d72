"""How near a private word has to stand, and which numbers only count: inside and just outside."""

import pytest

from rootguard.reading.mentions import find_mentions
from rootguard.template import load_template
from rootguard.values import RootName
from tests.support.mention_texts import unbound_numbers

ROOTS = {
    RootName(name): load_template(template).roots[RootName(name)]
    for template, name in (("fib4", "ast"), ("bmi", "ht"))
}


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("dose a b c d e 480", True),
        ("dose a b c d e f 480", False),
        ("480 a b c d e dose", True),
        ("480 a b c d e f dose", False),
        ("dose " + "-" * 58 + " 480", True),
        ("dose " + "-" * 59 + " 480", False),
        ("480 " + "-" * 58 + " dose", True),
        ("480 " + "-" * 59 + " dose", False),
        ("dose. 480", False),
        ("480! dose", False),
        ("the doses 480", True),
        ("dose", None),
    ],
)
def test_near_is_within_six_words_and_sixty_characters_of_a_sentence(
    text: str, near: bool | None
) -> None:
    assert [*unbound_numbers(text).values()] == ([] if near is None else [near])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("dose in 1900", [False]),
        ("dose in 2099", [False]),
        ("dose in 1899", [True]),
        ("dose in 2100", [True]),
        ("dose in 202", [True]),
        ("dose [12]", [False]),
        ("dose 12]", [True]),
        ("dose [12", [True]),
        ("dose, chapter 5", [False]),
        ("dose 3 weeks", [False]),
        ("nineteen dose", []),
        ("twenty dose", [True]),
        ("12) dose", [False]),
        ("123) dose", [False]),
        ("1234) dose", [True]),
        ("12 dose", [True]),
        (" " * 8 + "12) dose", [False]),
        (" " * 9 + "12) dose", [True]),
        ("ends\n > 12) dose", [False]),
        ("ends 12) dose", [True]),
        ("born in 1980", [True]),
    ],
)
def test_a_number_that_counts_something_ordinary_is_not_private(
    text: str, found: list[bool]
) -> None:
    assert [*unbound_numbers(text).values()] == found


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("AST:" + " " * 79 + "23", [("ast", 23.0)]),
        ("AST:" + " " * 80 + "23", []),
        ("AST:\n\n23", [("ast", 23.0)]),
        ("AST:\n\n\n23", []),
        ("AST approx. 23", [("ast", 23.0)]),
        ("AST minimum. 23", []),
        ("height 5'11", [("ht", 1.8034)]),
        ("height 5'0", [("ht", 1.524)]),
        ("height 5'12", [("ht", 5.0), ("ht", 12.0)]),
    ],
)
def test_a_name_holds_its_number_over_eighty_characters_and_two_lines(
    text: str, numbers: list[tuple[str, float]]
) -> None:
    found = [(str(each.root), round(each.number, 9)) for each in find_mentions(text, ROOTS)]
    assert found == numbers
