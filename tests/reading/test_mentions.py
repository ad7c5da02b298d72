"""Mentions of roots: how people write them, what is written back, and what is not a mention."""

import math
from collections.abc import Mapping
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootguard.language.fold import fold
from rootguard.language.numbers import reads_as_thousands, scan, spell
from rootguard.language.units import convert
from rootguard.reading.mentions import find_mentions, write
from rootguard.reading.page import plain, rounded
from rootguard.template import Root, load_template
from rootguard.values import RootName
from tests.support.growth import grows_linearly
from tests.support.mention_texts import (
    ALL,
    RECORD,
    SPELLED,
    read_as,
    released_of,
    texts,
    unbound_numbers,
)


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
        root = roots[mention.root]
        # A step of five times the root's resolution, or three digits before a multiplier.
        near = {"rel_tol": 5e-3, "abs_tol": 2.5 * 10.0**-root.places}
        assert math.isclose(mention.number, released_of(root), **near), mention.root


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
    texts = ["glucose 5.9 mmol/L", "7,5 mmol/L of glucose", "glucose_mmol: 11", "FPG: 4.2 mmol/l"]
    written = {
        write(mention, 100.1001001001001).replace(",", ".")
        for text in texts
        for mention in find_mentions(text, roots)
    }
    assert written == {"5.6"}


@pytest.mark.parametrize(
    ("text", "released", "written"),
    [
        ("AST is 23 U/L", 31.531531531531533, "32"),
        ("AST is 23.5 U/L", 31.531531531531533, "32"),
        ("AST twenty-three", 271.99999999999994, "272"),
        ("HbA1c 6 %", 5.972, "6.0"),
        ("HbA1c 6.14 %", 5.972, "6.0"),
        ("HbA1c 43 mmol/mol", 5.972, "42"),
        ("glucose 106.2", 98.7, "99"),
        ("glucose 5 mmol/L", 98.7, "5.5"),
        ("glucose 5.9 mmol/L", 98.7, "5.5"),
        ("glucose 5.94 mmol/L", 98.7, "5.5"),
        ("BP 18/9 kPa", 99.6, "13.3 13.3"),
        ("height 1.78 m", 1.8004, "1.80"),
        ("height 1,78 m", 1.8004, "1,80"),
        ("height 178 cm", 1.8046, "180"),
        ("height 178.5 cm", 1.8046, "180"),
        ("height 5'10\"", 1.8046, "5'11"),
        ("weight 83 kg", 81.04, "81.0"),
        ("weight 184 lb", 81.04, "179"),
        ("weight 184.2 lb", 81.04, "179"),
        ("weight 13 stone 2", 81.04, "12 stone 11"),
        ("BP 134/86", 99.6, "100 100"),
        ("platelets 220,000/uL", 231.4, "231,000"),
        ("platelets 220 K/uL", 231.4, "231"),
        ("income of $7,083 a month", 6950.4, "6,950"),
        ("income of $85,000 a year", 6950.4, "83,400"),
        ("income of $85k a year", 6950.4, "83.4k"),
        ("income of $85k a year", 6916.7, "83k"),
        ("creatinine 1.1", 0.8663, "0.87"),
        ("creatinine 97 umol/L", 0.8663, "77"),
    ],
)
def test_a_value_has_as_many_decimals_as_people_give_it(
    text: str, released: float, written: str
) -> None:
    roots = {**ALL, **roots_of("eag")}
    found = find_mentions(text, roots)
    made = [write(mention, released) for mention in found]
    suffix = "k" if "k" in written else ""
    assert " ".join(made) + suffix == written or made == [written]


@pytest.mark.parametrize(
    "written", ["180k", "180 thousand", "180 grand", "0.18 million", "0.18 mio", "0.18 mn", "0.18m"]
)
def test_a_multiplier_is_read_with_its_number(written: str) -> None:
    (mention,) = find_mentions(f"an income of ${written} a year", ALL)
    assert mention.number == pytest.approx(15_000, rel=1e-9)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ('{"wt": 83}', '{"wt": 82}'),
        ('{"wt": 83.0}', '{"wt": 81.6}'),
        ('{"age": 54.0}', '{"age": 54.0}'),
        ('{"age": [54, 55.0]}', '{"age": [54, 54.0]}'),
        ("wt = 83;", "wt = 82;"),
        ("wt=83.5,", "wt=81.6,"),
        ('{"income": 85000}', '{"income": 6950}'),
        ("income = 85000", "income = 6950"),
        ("I have an income of 85000", "I have an income of 83400 a year"),
        ("ast,alt,age\n23,30,54", "ast,alt,age\n182,128,54"),
        ("AST ALT 23 30", "AST ALT 182, 128"),
        ("age/AST/ALT 54/23/30", "age/AST/ALT 54/182/128"),
        ("AST ALT\n23 30", "AST ALT\n182.0 128"),
        ("plt 231 10^9/L", "plt 400 10^9/L"),
    ],
)
def test_json_code_and_lists_keep_their_form(text: str, written: str) -> None:
    released = {"wt": 81.64, "age": 53.6, "income": 6950.4, "ast": 181.7, "alt": 127.6, "plt": 400}
    for mention in reversed(find_mentions(text, ALL)):
        new = write(mention, released[mention.root])
        text = text[: mention.start] + new + text[mention.end :]
    assert text == written


@pytest.mark.parametrize(
    ("text", "days", "written"),
    [
        ("age/AST/ALT 54/23/30", (18, 7, 3), "18 /7 /3"),
        ("age/AST/ALT 54-23-30", (18, 70, 3), "18.0-70-3"),
        ("BP 134/86", (), "90/20"),
        ("age/AST/ALT/plt 54/23/30/220", (18, 7, 3), "18/7/3/30"),
    ],
)
def test_numbers_of_a_list_are_not_written_as_a_date(
    text: str, days: tuple[float, ...], written: str
) -> None:
    released = dict(zip(("age", "ast", "alt"), days, strict=False)) | {
        "sbp": 90,
        "dbp": 20,
        "plt": 30,
    }
    found = find_mentions(text, ALL)
    for mention in reversed(found):
        text = text[: mention.start] + write(mention, released[mention.root]) + text[mention.end :]
    assert text.endswith(written)
    assert [mention.root for mention in find_mentions(text, ALL)] == [m.root for m in found]


@pytest.mark.parametrize(
    ("value", "places", "lower", "upper", "made"),
    [
        (51.46, 0, 18, 80, "51"),
        (0.01, 0, 0.01, 136, "1"),
        (1.98, 1, 1.48, 1.98, "1.9"),
        (1.48, 1, 1.48, 1.98, "1.5"),
        (1.5, 0, 1.48, 1.98, "1.5"),
        (6.0, 2, 2, 8, "6.00"),
        (83405, -1, 6000, 600000, "83400"),
        (-0.04, 1, -1, 1, "0.0"),
        (1e30, 2, 0, 1e30, "1e+30"),
    ],
)
def test_a_rounded_value_stays_within_the_bounds(
    value: float, places: int, lower: float, upper: float, made: str
) -> None:
    assert plain(rounded(value, places, lower, upper)) == made


@given(st.sampled_from(sorted(ALL)), st.data())
def test_what_is_written_in_a_roots_own_unit_has_its_decimals_and_is_within_its_bounds(
    name: str, data: st.DataObject
) -> None:
    root = ALL[RootName(name)]
    index = data.draw(st.integers(0, root.domain.size - 1))
    (mention,) = find_mentions(f'"{root.aliases[0]}" is 1', {root.name: root}) or (None,)
    if mention is None or mention.form.unit != mention.form.own:
        return
    written = write(mention, root.domain.value(index))
    assert len(written.partition(".")[2]) == root.places
    assert root.domain.lower <= float(written) <= root.domain.upper
    assert abs(float(written) - root.domain.value(index)) < 10.0**-root.places


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
    unbound_numbers(text, roots=ALL)
    find_mentions("AST" + text + "23", ALL)


@pytest.mark.parametrize("length", [4_000, pytest.param(100_000, marks=pytest.mark.slow)])
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


def test_four_numbers_between_slashes_are_no_date() -> None:
    for text in ("18/7/3/535", "7/3/21/8/1", "12/11/10/9 mg"):
        assert all(number.sort == "digits" for number in scan(text)), text
    assert [number.sort for number in scan("on 12/5/2023, 18/7/3")] == ["opaque", "opaque"]


@pytest.mark.parametrize("text", ["2023-05-01", "10:30", "1.2.3", "12/05/1990", "1" * 50])
def test_dates_times_and_versions_are_opaque(text: str) -> None:
    (number,) = scan(text)
    assert number.sort == "opaque"
    assert number.value is None


@given(
    st.integers(0, 10**9),
    st.integers(0, 6),
    st.sampled_from([("", "."), ("", ","), (",", "."), (".", ","), (" ", ","), ("'", ".")]),
)
def test_a_spelled_number_reads_back_and_spells_the_same(
    digits: int, places: int, marks: tuple[str, str]
) -> None:
    group, decimal = marks
    written = plain(Decimal(digits).scaleb(-places))
    if reads_as_thousands(written, decimal):
        return
    text = spell(written, group=group, decimal=decimal)
    (number,) = scan(text)
    assert number.value == float(written)
    assert spell(written, group=number.group, decimal=number.decimal) == text


def test_three_decimals_behind_a_comma_would_be_read_as_thousands() -> None:
    assert reads_as_thousands("30.125", ",")
    assert not any(reads_as_thousands(text, ",") for text in ("0.125", "3000.125", "30.12", "30"))
    assert not reads_as_thousands("30.125", ".")


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
    assert any(unbound.values()) == private
    assert unbound


def test_a_hole_and_a_small_number_word_are_no_unbound_numbers() -> None:
    assert unbound_numbers("my dose is [number], one of two") == {}


def test_without_its_name_the_same_number_is_unbound() -> None:
    """The control of the table above: the name makes the mention."""
    assert find_mentions("23", ALL) == []
    assert len(unbound_numbers("23")) == 1
    assert unbound_numbers("23", [(0, 2)]) == {}


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
        # Half a step, which is at most five times the root's resolution; near a bound a whole one.
        assert abs(back - value) <= 5 * 10.0**-root.places
