"""A limit printed behind a value is nobody's; one on another line, or far off, is none."""

import pytest

from rootguard.reading.claims import read_claims
from rootguard.reading.page import read_page
from rootguard.template import load_template


def reasons(text: str) -> list[str]:
    claims = read_claims(read_page(text, load_template("fib4").roots), source="owner").claims
    return [each.reason for each in claims]


def test_a_pair_of_numbers_in_a_later_column_is_a_limit() -> None:
    assert reasons("AST 23 U/L   10-35") == ["named", "range", "range"]


@pytest.mark.parametrize("between", ["\nmy ferritin   ", " U/L |" + " word" * 32 + " | "])
def test_a_pair_of_numbers_on_another_line_or_far_behind_is_no_limit(between: str) -> None:
    assert "range" not in reasons(f"My AST is 23{between}10-35")
