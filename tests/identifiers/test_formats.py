"""Tokens keep the format of each kind, hide the text and come back; other texts are refused.

Random inputs come from fixed seeds, so a pass or a failure repeats.
"""

import random
import re
import string

import pytest

from rootguard.errors import IdentifierError
from rootguard.identifiers import Identifiers, Kind, kind_of
from tests.support.identifier_makers import MAKERS, OTHER_KEY, fresh, same_classes, written_dates

MANY = [500, pytest.param(10_000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("count", MANY)
@pytest.mark.parametrize("kind", MAKERS)
def test_many_identifiers_keep_their_format_hide_and_come_back(kind: Kind, count: int) -> None:
    random_ = random.Random(f"{kind} 1")
    identifiers = fresh()
    tokens: dict[str, str] = {}
    for _ in range(count):
        text, well_formed = MAKERS[kind](random_)
        token = identifiers.protect(kind, text)
        assert well_formed(token), "the token is written differently"
        assert token != text
        assert tokens.setdefault(text, token) == token
    assert len(set(tokens.values())) == len(tokens), "two identifiers share a token"
    for text, token in tokens.items():
        assert identifiers.restore(kind, token) == text


def test_the_format_predicates_tell_formats_apart() -> None:
    """A control for the test above: a token of another shape must be called malformed."""
    random_ = random.Random(2)
    for make in MAKERS.values():
        noticed = 0
        for _ in range(200):
            _, well_formed = make(random_)
            noticed += not well_formed(make(random_)[0])
        assert noticed > 50
    assert not same_classes("a1", "A1")
    assert not same_classes("a1", "a11")
    assert "2024-02-30" not in written_dates()[0]


@pytest.mark.parametrize(
    ("kind", "text"), [("code", "Ä12-ß345/Ω678"), ("email", "jürgen.roe.1958@example.org")]
)
def test_what_is_no_ascii_letter_or_digit_stays_in_codes_and_addresses(
    kind: Kind, text: str
) -> None:
    token = fresh().protect(kind, text)
    kept = re.compile(r"[^A-Za-z0-9]")
    assert token != text
    assert [(at.start(), at.group()) for at in kept.finditer(token)] == [
        (at.start(), at.group()) for at in kept.finditer(text)
    ]


@pytest.mark.parametrize("kind", ["code", "phone", "date", "email", "person"])
def test_tokens_depend_on_the_key(kind: Kind) -> None:
    random_ = random.Random(3)
    texts = [MAKERS[kind](random_)[0] for _ in range(100)]
    ours, theirs = fresh(), Identifiers(OTHER_KEY)
    same = sum(ours.protect(kind, text) == theirs.protect(kind, text) for text in texts)
    assert same < 15


def test_equal_digits_in_other_formats_or_kinds_are_permuted_differently() -> None:
    identifiers = fresh()
    written = ["44158820", "4415-8820", "441-58820", "4415 8820"]
    digits = {re.sub("[^0-9]", "", identifiers.protect("code", text)) for text in written}
    digits.add(re.sub("[^0-9]", "", identifiers.protect("phone", "44158820")))
    assert len(digits) == 5


def test_two_kinds_of_one_shape_are_permuted_differently() -> None:
    """A last label outside ASCII is kept by both kinds, so that only the kind is different."""
    text = "abcdefg@hijk.\u00e9\u00e9"
    assert fresh().protect("code", text) != fresh().protect("email", text)


@pytest.mark.parametrize("kind", ["code", "phone"])
def test_a_whole_small_shape_is_permuted_without_a_fixed_point(kind: Kind) -> None:
    identifiers = fresh()
    texts = [f"{n:03d}" for n in range(1000)]
    tokens = [identifiers.protect(kind, text) for text in texts]
    assert sorted(tokens) == texts
    assert all(token != text for token, text in zip(tokens, texts, strict=True))


def test_a_day_with_a_time_of_day_is_one_identifier_and_comes_back() -> None:
    identifiers = fresh()
    texts = ["2024-03-05 19:28:54", "2024-03-05T19:28:54", "2024-03-05 19:28", "5/3/2024 00:00:00"]
    tokens = [identifiers.protect("date", text) for text in texts]
    assert all(token[-8:] != text[-8:] for token, text in zip(tokens, texts, strict=True))
    assert [len(token) for token in tokens[:3]] == [19, 19, 16]
    assert [identifiers.restore("date", token) for token in tokens] == texts
    with pytest.raises(IdentifierError):
        identifiers.protect("date", "2024-03-05 24:00")


def test_a_day_below_ten_written_with_and_without_its_zero_are_two_identifiers() -> None:
    identifiers = fresh()
    padded = [f"{day:02} May {year}" for day in range(1, 29) for year in range(1990, 2010)]
    plain = [f"{day} May {year}" for day in range(1, 29) for year in range(1990, 2010)]
    texts = sorted({*padded, *plain})
    tokens = [identifiers.protect("date", text) for text in texts]
    assert len(set(tokens)) == len(texts) == 37 * 20
    assert [identifiers.restore("date", token) for token in tokens] == texts


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("code", ""),
        ("code", "-/-"),
        ("code", "a" * 257),
        ("phone", "+49"),
        ("phone", "+35"),
        ("phone", "12a4"),
        ("phone", "5"),
        ("date", "2023-02-29"),
        ("date", "1899-12-31"),
        ("date", "2100-01-01"),
        ("date", "2024-13-01"),
        ("date", "5 Brumaire 2024"),
        ("date", "2024-03-05 "),
        ("date", "٢٠٢٤-٠٣-٠٥"),
        ("email", "no at sign.com"),
        ("email", "a@localhost"),
        ("email", "a@@b.com"),
        ("person", "Dr."),
        ("person", "R2 D2"),
        ("person", "Q."),
        ("person", "---"),
    ],
)
def test_what_is_not_written_as_its_kind_is_refused(kind: Kind, text: str) -> None:
    identifiers = fresh()
    with pytest.raises(IdentifierError) as caught:
        identifiers.protect(kind, text)
    assert str(caught.value).startswith(f"{kind}: ")
    assert len(text) < 3 or text not in str(caught.value)


def test_too_small_a_shape_says_so_and_ten_is_enough() -> None:
    with pytest.raises(IdentifierError, match="fewer than 10"):
        fresh().protect("phone", "05"[:1] + "-")
    assert fresh().protect("code", "7") in set(string.digits) - {"7"}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2024-03-05", "date"),
        ("March 5, 2024", "date"),
        ("2024-13-05", "code"),
        ("+49 30 1234567", "phone"),
        ("(415) 555-0100", "phone"),
        ("415-555-0100", "phone"),
        ("030 1234567", "phone"),
        ("4415-8820", "code"),
        ("AB-12345", "code"),
        ("X9Y8-77z", "code"),
        ("ann.lee@example.org", "email"),
        ("Xqwv Zyxwv", "person"),
        ("Dr. Zyxwv", "person"),
        ("Lopez", "person"),
        ("zyxwv plugh", "code"),
        ("", "code"),
    ],
)
def test_kinds_are_guessed_from_how_a_text_is_written(text: str, kind: Kind) -> None:
    assert kind_of(text) == kind
