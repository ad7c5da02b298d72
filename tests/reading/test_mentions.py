"""Mentions of roots: how people write them, what is written back, and what is not a mention."""

import math
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootguard.language.fold import fold
from rootguard.language.numbers import scan, spell
from rootguard.language.units import convert
from rootguard.reading.mentions import find_mentions, write
from rootguard.reading.unplaced import unbound_numbers
from rootguard.template import Root, load_template
from rootguard.values import RootName
from tests.support.growth import grows_linearly
from tests.support.mention_texts import ALL, RECORD, SPELLED, read_as, released_of, texts


def roots_of(template: str) -> Mapping[RootName, Root]:
    return load_template(template).roots


def rewritten(text: str, roots: Mapping[RootName, Root]) -> str:
    for mention in reversed(find_mentions(text, roots)):
        new = write(mention, released_of(roots[mention.root]))
        text = text[: mention.start] + new + text[mention.end :]
    return text


def expect(text: str) -> list[tuple[str, float]]:
    return [(root, float(number)) for root, _, number in (w.partition("=") for w in text.split())]


def test_the_table_is_large_and_has_controls() -> None:
    assert len(SPELLED) >= 150
    assert len({template for template, _, _ in SPELLED}) == 10
    assert sum(not expected for _, _, expected in SPELLED) >= 3


@pytest.mark.parametrize(("template", "text", "expected"), SPELLED)
def test_a_spelled_value_is_read_as_its_root(template: str, text: str, expected: str) -> None:
    found = [(mention.root, mention.number) for mention in find_mentions(text, roots_of(template))]
    wanted = expect(expected)
    assert [root for root, _ in found] == [root for root, _ in wanted]
    for (_, number), (_, right) in zip(found, wanted, strict=True):
        assert math.isclose(number, right, rel_tol=1e-5)


@pytest.mark.parametrize(("template", "text", "expected"), SPELLED)
def test_what_is_written_back_is_read_and_written_the_same(
    template: str, text: str, expected: str
) -> None:
    roots = roots_of(template)
    once = rewritten(text, roots)
    assert rewritten(once, roots) == once
    for mention in find_mentions(once, roots):
        released = released_of(roots[mention.root])
        assert math.isclose(mention.number, released, rel_tol=2e-3), mention.root


@pytest.mark.parametrize(("template", "text", "expected"), SPELLED)
def test_only_the_numbers_change(template: str, text: str, expected: str) -> None:
    roots = roots_of(template)
    found = find_mentions(text, roots)
    once = rewritten(text, roots)
    head = text[: found[0].start] if found else text
    tail = text[found[-1].end :] if found else ""
    assert once.startswith(head)
    assert once.endswith(tail)


def test_every_text_is_read_as_it_was_recorded() -> None:
    """`python -m tests.support.mention_texts` writes the record anew; its diff is the change."""
    assert [read_as(text) for text in texts()] == RECORD.read_text("utf-8").splitlines()


@pytest.mark.parametrize(
    "text",
    [
        "version 2.3",
        "in 2023",
        "chapter 5",
        "AST in 2023",
        "AST tree with 23 nodes",
        "AST, 3 weeks ago",
        "AST was tested 5 minutes ago",
        "a weighty 3",
        "age group 3",
        "AST 5 kg",
        "glucose 5 cm",
        "height 5 mmHg",
        "I got 3 messages",
        "I got 23",
        "ask GPT-4 about it",
        "gpt-4o and GPT-4.1",
        "CA 125",
        "I'm 100% sure",
        "I'm 5 minutes away",
        "I am 3rd in line",
        "at 10:30",
        "2023-05-01",
        "€85k a year",
        "5 altogether",
        "contrast 23",
        "breakfast 23",
        "salty 5",
        "1.2.3",
        "24 hr",
        "5 years",
        "page 23",
        "AST. 23 people came.",
        "AST! 23",
        "vitamin B12",
    ],
)
def test_a_number_that_is_not_the_roots_is_no_mention(text: str) -> None:
    assert find_mentions(text, ALL) == []


@pytest.mark.parametrize("blanks", [0, 1, 16, 17, 23, 24, 70])
def test_an_age_may_have_any_number_of_blanks_after_it(blanks: int) -> None:
    for word in ("already", "and", ".", ")", ""):
        if blanks or not word.isalpha():
            assert find_mentions(f"I'm 50{' ' * blanks}{word}", ALL), word
    for word in ("apples", "alreadyish", "%"):
        assert find_mentions(f"I'm 50{' ' * blanks}{word}", ALL) == [], word


def test_in_doubt_it_is_a_mention() -> None:
    """Documented: these are replaced though a reader might see that they are not values."""
    for text in ("AST 23 and 45 patients", "my age, 3 kids", "3 AST values"):
        assert find_mentions(text, ALL)


def test_the_same_released_value_is_the_same_text_in_every_place_of_one_unit() -> None:
    roots = roots_of("homa")
    texts = ["glucose 5.9 mmol/L", "7,5 mmol/L of glucose", "glucose_mmol=11", "FPG: 4.2 mmol/l"]
    written = {
        write(mention, 100.1001001001001).replace(",", ".")
        for text in texts
        for mention in find_mentions(text, roots)
    }
    assert written == {"5.5563"}


def test_in_the_roots_own_unit_the_shortest_form_is_written() -> None:
    (mention,) = find_mentions("AST is 23 U/L", roots_of("fib4"))
    for value in (31.531531531531533, 30.0, 0.1, 271.99999999999994):
        assert write(mention, value) == repr(value)


def test_a_pair_with_one_root_binds_only_that_one() -> None:
    found = find_mentions("BP 134/64", roots_of("shock_index"))
    assert [(mention.root, mention.number) for mention in found] == [("sbp", 134.0)]
    lower = {RootName("dbp"): roots_of("vascular")[RootName("dbp")]}
    found = find_mentions("BP [number]/64", lower)
    assert [(mention.root, mention.number) for mention in found] == [("dbp", 64.0)]
    found = find_mentions("BP 134/64", lower)
    assert [(mention.root, mention.number) for mention in found] == [("dbp", 64.0)]


def test_mentions_are_in_order_and_do_not_overlap() -> None:
    text = "AST and ALT are 23 and 30, I am 5'11\", BP 134/64, $85k a year, age,ast\n50,23"
    found = find_mentions(text, ALL)
    assert len(found) >= 7
    assert all(a.end <= b.start for a, b in pairwise(found))


def test_feet_and_inches_before_two_names_are_one_value() -> None:
    for text in ("6 ft 1 in tall, salary 4000", "6 ft 1 in tall / salary of $4,000 a month"):
        found = find_mentions(text, ALL)
        assert [mention.root for mention in found] == ["ht", "income"]
        assert found[0].end <= found[1].start
        assert found[1].number == 4000.0
    found = find_mentions("6'1\"\nweight 80.5 kilos", ALL)
    assert [(mention.root, mention.end) for mention in found] == [("ht", 3), ("wt", 16)]


@pytest.mark.parametrize(
    ("text", "monthly"),
    [
        ("yearly income of 48,000", 4000.0),
        ("annual income: $6000", 500.0),
        ("monthly income of 85,000", 85000.0),
        ("annual salary 48k", 4000.0),
        ("monthly-income=5000", 5000.0),
    ],
)
def test_the_period_in_the_name_of_an_income_counts_whatever_the_amount(
    text: str, monthly: float
) -> None:
    (mention,) = find_mentions(text, ALL)
    assert (mention.root, mention.number) == ("income", monthly)
    written = rewritten(text, ALL)
    assert rewritten(written, ALL) == written


def test_in_the_texts_of_the_record_no_mentions_overlap() -> None:
    for text in texts():
        assert all(a.end <= b.start for a, b in pairwise(find_mentions(text, ALL))), text


def test_a_mention_shows_no_number_in_its_repr() -> None:
    (mention,) = find_mentions("AST is 2323 U/L", roots_of("fib4"))
    assert "2323" not in repr(mention)


HOSTILE = (
    *("1", "1 ", "111 ", "1,", "1.", "AST ", "AST, ", "AST 23 ", "aspartate ", "twenty "),
    *("-", "\"'", "|", "a,b\n", "1/2/3/", "GPT-4 ", "I am ", "I am 1 ", "$1k a year "),
    *("5'11\" ", "reference range ", "[", "1e", "10^9/L ", "1 and ", "BP 1/2 ", "２３ "),
    *("A\u200bST", "AST AST 1 ", "hundred ", "1 over ", "((((", "one point "),
)


def read_through(text: str) -> None:
    find_mentions(text, ALL)
    unbound_numbers(text, [], ALL)
    find_mentions("AST" + text + "23", ALL)


@pytest.mark.parametrize("length", [8_000, pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("unit_text", HOSTILE)
def test_a_hostile_text_takes_linear_time(unit_text: str, length: int) -> None:
    assert grows_linearly(read_through, unit_text, length)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234.5", 1234.5),
        ("1.234,5", 1234.5),
        ("1 234,5", 1234.5),
        ("1'234.5", 1234.5),
        ("1.234.567", 1234567.0),
        ("12,345", 12345.0),
        ("12,34", 12.34),
        ("0,234", 0.234),
        (".5", 0.5),
        ("2.31e2", 231.0),
        ("1e-05", 1e-05),
        ("٢٣", 23.0),
        ("𝟚𝟛", 23.0),
        ("-7", -7.0),
        ("−7", -7.0),
        ("nineteen", 19.0),
        ("two hundred and thirty-one", 231.0),
        ("eighty-five thousand", 85000.0),
        ("five point nine", 5.9),
    ],
)
def test_numbers_are_read_as_written(text: str, value: float) -> None:
    (number,) = scan(fold(text).text)
    assert number.value == value


@pytest.mark.parametrize("text", ["2023-05-01", "10:30", "1.2.3", "12/05/1990", "1" * 50])
def test_dates_times_and_versions_are_opaque(text: str) -> None:
    (number,) = scan(text)
    assert number.sort == "opaque"
    assert number.value is None


@given(
    st.floats(1e-6, 1e9),
    st.booleans(),
    st.sampled_from([("", "."), ("", ","), (",", "."), (".", ","), (" ", ","), ("'", ".")]),
)
def test_a_spelled_number_reads_back_and_spells_the_same(
    value: float, exact: bool, marks: tuple[str, str]
) -> None:
    group, decimal = marks
    text = spell(value, exact=exact, group=group, decimal=decimal)
    (number,) = scan(text)
    assert number.value is not None
    assert math.isclose(number.value, value, rel_tol=1e-5)
    again = spell(value, exact=exact, group=number.group, decimal=number.decimal)
    assert again == text


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("my dose is 50", True),
        ("patient 12345", True),
        ("balance: 500", True),
        ("cardBalance=500", True),
        ("born in 1975", True),
        ("12 mg", True),
        ("3.1 ng/mL", True),
        ("AST, as they told me, 23", True),
        ("my pension is eighty-five thousand", True),
        ("version 2.3", False),
        ("in 2023 I had a test", False),
        ("chapter 5", False),
        ("I have 3 cats", False),
        ("my blood test was 3 weeks ago", False),
        ("The patient left. I have 3 cats", False),
        ("1. Blood test", False),
        ("see [3] on blood", False),
        ("AST 23 U/L (reference range 10-40)", False),
        ("write 5 bullet points on blood pressure", False),
        ("meet at 10:30", False),
    ],
)
def test_an_unbound_number_is_private_beside_a_private_word(text: str, private: bool) -> None:
    taken = [(m.start, m.end) for m in find_mentions(text, ALL)]
    unbound = unbound_numbers(text, taken, ALL)
    assert any(number.beside_private_noun for number in unbound) == private
    assert unbound


def test_a_hole_and_a_small_number_word_are_no_unbound_numbers() -> None:
    assert unbound_numbers("my dose is [number], one of two", []) == []


def test_without_its_name_the_same_number_is_unbound() -> None:
    """The control of the table above: the name makes the mention."""
    assert find_mentions("23", ALL) == []
    assert len(unbound_numbers("23", [])) == 1
    assert unbound_numbers("23", [(0, 2)]) == []


UNITS = {
    "glu": ["mg/dL", "mmol/L", "g/L", "mg/L"],
    "ht": ["m", "cm", "in", "mm"],
    "wt": ["kg", "lb", "st", "g"],
    "plt": ["10^9/L", "/uL", "K/uL", "10^12/L"],
}


@given(st.sampled_from(sorted(UNITS)), st.integers(1, 998), st.data())
def test_one_value_written_in_four_units_is_one_number(
    name: str, index: int, data: st.DataObject
) -> None:
    root = ALL[RootName(name)]
    value = root.domain.value(index)
    label = data.draw(st.sampled_from([str(name), *root.aliases]))
    for unit in UNITS[name]:
        substance = "glucose" if name == "glu" else None
        written = convert(value, root.unit, unit, substance)
        assert written is not None
        (mention,) = find_mentions(f"my {label} is {written!r} {unit}.", ALL)
        assert mention.root == name
        assert math.isclose(mention.number, value, rel_tol=1e-9)
        back = convert(float(write(mention, value)), unit, root.unit, substance)
        assert back is not None
        assert math.isclose(back, value, rel_tol=1e-5)
