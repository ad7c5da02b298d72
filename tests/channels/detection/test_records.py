"""Record numbers, phone numbers and days: their check digits, their labels and their limits."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootguard.channels.detection import Rules, rules
from rootguard.identifiers.formats import Kind
from tests.support.amounts import examples

RULES = Rules()


def found(text: str, kind: Kind) -> list[str]:
    return [text[item.start : item.end] for item in RULES.find(text) if item.kind == kind]


# Published examples. Each of these checks notices every single wrong digit.
GOOD = [
    (rules.luhn, "4111111111111111"),
    (rules.luhn, "79927398713"),
    (rules.luhn, "378282246310005"),
    (rules.iban, "GB82WEST12345698765432"),
    (rules.iban, "BE68539007547034"),
    (rules.nhs, "9434765919"),
    (rules.npi, "1234567893"),
    (rules.pesel, "44051401359"),
    (rules.kimlik, "10000000146"),
    (rules.resident, "11010519491231002X"),
    (rules.resident, "440524188001010014"),
    (rules.nir, "255081416802538"),
    (rules.dni, "12345678Z"),
    (rules.dni, "00000000T"),
    (rules.dni, "X1234567L"),
    (rules.dni, "Z1234567R"),
]


@pytest.mark.parametrize(("check", "good"), GOOD)
def test_a_checked_number_is_refused_with_any_one_digit_changed(
    check: Callable[[str], bool], good: str
) -> None:
    assert check(good)
    for place, character in enumerate(good):
        for digit in "0123456789" if character.isdigit() else "":
            changed = good[:place] + digit + good[place + 1 :]
            assert check(changed) is (digit == character), changed


@pytest.mark.parametrize("good", ["52998224725", "11144477735"])
def test_a_brazilian_number_is_refused_with_any_one_digit_changed(good: str) -> None:
    """But for one that the sum, of which ten counts as none, does not see."""
    assert rules.cpf(good)
    changed = {
        good[:place] + digit + good[place + 1 :]
        for place in range(len(good))
        for digit in "0123456789"
    } - {good}
    assert sum(map(rules.cpf, changed)) <= 1
    assert not any(rules.cpf(str(digit) * 11) for digit in range(10))


@pytest.mark.parametrize(
    ("check", "number", "good"),
    [
        (rules.pesel, "00010100008", True),
        (rules.pesel, "00213100001", True),  # the last of January 2000
        (rules.pesel, "00123100009", True),
        (rules.pesel, "00000100007", False),  # no month
        (rules.pesel, "00130100003", False),
        (rules.pesel, "00010000001", False),  # no day
        (rules.pesel, "00013200002", False),
        (rules.resident, "110105194901010021", True),
        (rules.resident, "110105194901310024", True),
        (rules.resident, "11010519491215002X", True),
        (rules.resident, "110105194900150022", False),  # no month
        (rules.resident, "110105194913150021", False),
        (rules.resident, "110105194901000026", False),  # no day
        (rules.resident, "11010519490132002X", False),
        (rules.kimlik, "00000000000", False),
        (rules.nhs, "0000000000", True),
        (rules.social_security, "078051120", True),
        (rules.social_security, "666051120", False),
        (rules.social_security, "078001120", False),
        (rules.social_security, "078050000", False),
        (rules.social_security, "000051120", False),
    ],
)
def test_what_no_number_can_be_is_refused_though_its_sum_is_right(
    check: Callable[[str], bool], number: str, good: bool
) -> None:
    assert check(number) is good


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("MRN 4471", ["4471"]),
        ("MRN 447", []),
        ("policy: 4471", ["4471"]),
        ("policy 447112", ["447112"]),
        ("policy 44711", []),
        ("policy no. 4471", ["4471"]),
        ("policy #4471", ["4471"]),
        ("policy = 4471", ["4471"]),
        ("MRN: 12/05/1990", []),
        ("the record has 7391.25", []),
        ("record AB 441512", ["AB 441512"]),
        ("MRN 4471_2", []),
        ("MRN 00482-19", ["00482-19"]),
        ("4111 1111 1111 1111", ["4111 1111 1111 1111"]),
        ("4111 1111 1111 1111 12", ["4111 1111 1111 1111"]),
        ("4111111111111111", ["4111111111111111"]),
        ("411111111111111", []),
        ("3782 822463 10005", ["3782 822463 10005"]),
        ("6011 1111 1111 1117", ["6011 1111 1111 1117"]),
        ("1111 1111 1111 1117", []),
        ("078-05-1120", ["078-05-1120"]),
        ("078-05-1120-3", []),
        ("1.078-05-1120", []),
        ("529.982.247-25", ["529.982.247-25"]),
        ("811228-9874", ["811228-9874"]),
        ("19811228-9874", ["19811228-9874"]),
        ("811228-9875", []),
        ("PT-44718", ["PT-44718"]),
        ("PESEL-like 44051401359 here", ["44051401359"]),
        ("it is 10000000146.", ["10000000146"]),
        ("it is 10000000147.", []),
        ("nothing here", []),
    ],
)
def test_a_record_number_is_found_by_its_label_or_its_own_proof(
    text: str, wanted: list[str]
) -> None:
    assert found(text, "code") == wanted


@pytest.mark.parametrize("form", [rules._CARD, *(each for each, _ in rules._CHECKED)])
@examples(steady=30, exploring=100)
@given(data=st.data())
def test_what_a_checked_form_takes_is_looked_at(form: re.Pattern[str], data: st.DataObject) -> None:
    written = data.draw(st.from_regex(form, fullmatch=True))
    assert rules._LONG_ENOUGH.match(written)


@pytest.mark.parametrize("form", rules._FIGURES)
@examples(steady=30, exploring=100)
@given(data=st.data())
def test_what_a_day_in_figures_takes_is_looked_at(
    form: re.Pattern[str], data: st.DataObject
) -> None:
    assert rules._DATED.match(data.draw(st.from_regex(form, fullmatch=True)))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("on 31.12.1999", ["31.12.1999"]),
        ("on 12/31/1999", ["12/31/1999"]),
        ("on 32.12.1999", []),
        ("on 13/13/1999", []),
        ("on 00.12.1999", []),
        ("on 29.02.2000", ["29.02.2000"]),
        ("on 29.02.1900", []),
        ("on 30.02.1999", []),
        ("on 01-02-50", ["01-02-50"]),
        ("on 29/02/00", ["29/02/00"]),
        ("on 29/02/51", []),
        ("on 29/02/52", ["29/02/52"]),
        ("on 31/12/99", ["31/12/99"]),
        ("on 29/02/48", ["29/02/48"]),
        ("on 1850-01-01", ["1850-01-01"]),
        ("on 1849-01-01", []),
        ("on 2150-12-31", ["2150-12-31"]),
        ("on 2151-01-01", []),
        ("at 2024-01-09T09:30", ["2024-01-09T09:30"]),
        ("on 5 May 2023", ["5 May 2023"]),
        ("on May 5, 2023", ["May 5, 2023"]),
        ("on 31 June 2023", []),
        ("2023-May-05", ["2023-May-05"]),
        ("in May 2023", []),
        ("born in May 2023", ["May 2023"]),
        ("born on 5 May", ["5 May"]),
        ("born May 5th", ["May 5th"]),
        ("born in 1950", []),
        ("1990年5月3日", ["1990年5月3日"]),
    ],
)
def test_a_day_that_there_is_is_found(text: str, wanted: list[str]) -> None:
    assert found(f"seen {text}", "date") == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("phone 1234567", ["1234567"]),
        ("phone 123456", []),
        ("phone: 123456789012345", ["123456789012345"]),
        ("phone: 1234567890123456", []),
        ("phone or fax, in the mornings: 1234567", ["1234567"]),
        ("the phone that I had for many years is 1234567", []),
        ("Tel. (030) 9018234", ["(030) 9018234"]),
        ("+49 171 2345678", ["+49 171 2345678"]),
        ("(212) 555-0143 x12", ["(212) 555-0143 x12"]),
        ("98765 43210", ["98765 43210"]),
        ("60123 4567", []),  # Polish, but for the groups
        ("601 234 567", ["601 234 567"]),
        ("+999 1234567", []),  # nobody's code
        ("1.234.567 people", []),
        ("7 of 9", []),
    ],
)
def test_a_phone_number_is_found_by_its_plan_or_by_the_word_beside_it(
    text: str, wanted: list[str]
) -> None:
    assert found(text, "phone") == wanted


def test_a_number_that_nothing_marks_is_found_in_the_first_region_only() -> None:
    text = "It was 2125550143 then."
    for regions, wanted in ((("US", "GB"), 1), (("GB", "US"), 0), ((), 0)):
        finds = Rules(regions=regions).find(text)
        assert len(finds) == wanted


@pytest.mark.parametrize(
    ("written", "marked"),
    [
        ("+1234567", True),
        ("01234567", True),
        ("(12) 34567", True),
        ("12-34-567", True),
        ("12-34/567", False),
        ("12345-67890", True),
        ("12345-6789", False),
        ("12345678901", False),
    ],
)
def test_a_phone_number_has_a_prefix_or_groups(written: str, marked: bool) -> None:
    assert rules._marked(written) is marked


@pytest.mark.parametrize(("good", "place"), [("12345671300", 9), ("12345670240", 10)])
def test_in_a_brazilian_number_a_remainder_of_ten_is_written_as_none(good: str, place: int) -> None:
    assert rules.cpf(good)
    assert not any(rules.cpf(f"{good[:place]}{digit}{good[place + 1 :]}") for digit in range(1, 10))


@pytest.mark.parametrize(
    ("check", "number", "right"),
    [
        (rules.pesel, "44053101356", True),
        (rules.pesel, "44053201353", False),
        (rules.pesel, "44050001352", False),
        (rules.pesel, "44123101356", True),
        (rules.pesel, "44130101350", False),
        (rules.pesel, "44000101354", False),
        (rules.pesel, "44320101355", True),
        (rules.resident, "110105194901310024", True),
        (rules.resident, "110105194912320025", False),
        (rules.resident, "110105194913010029", False),
        (rules.resident, "11010519490001002X", False),
        (rules.resident, "110105194901000026", False),
    ],
)
def test_a_national_number_has_a_day_of_birth_that_can_be(
    check: Callable[[str], bool], number: str, right: bool
) -> None:
    """The check digits of all of them are right; Poland adds twenty to months from 2000 on."""
    assert check(number) is right
