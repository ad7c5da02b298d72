"""Finding undeclared identifiers: the rules, their limits, their cost, and their measurement."""

import random
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from benchmarks import detection as evaluation
from hypothesis import given
from hypothesis import strategies as st

from rootguard.accounting import bound_with_misses
from rootguard.channels.detection import (
    Found,
    FoundKind,
    Rules,
    SpacyNames,
    addresses,
    lists,
    merge,
    rules,
)
from rootguard.channels.detection.names import english
from rootguard.channels.detection.rules import find_emails
from rootguard.errors import UnknownNameError
from rootguard.evaluation.study.tables import to_markdown
from rootguard.identifiers.formats import KINDS, Kind, read, read_name
from rootguard.language.fold import Runs, caseless
from tests.support.finds import RECORD, marked, texts
from tests.support.growth import grows_linearly

RULES = Rules()
SPANS = st.builds(
    lambda start, length, kind: Found(start, start + length, kind),
    st.integers(0, 30),
    st.integers(0, 12),
    st.sampled_from(KINDS),
)


def found(text: str, kind: FoundKind | None = None, rules: Rules = RULES) -> list[str]:
    """What the rules find, as texts."""
    return [text[f.start : f.end] for f in rules.find(text) if kind in {None, f.kind}]


@given(st.lists(SPANS, max_size=12), st.randoms(use_true_random=False))
def test_merged_finds_do_not_overlap_and_do_not_depend_on_the_order(
    spans: list[Found], rng: random.Random
) -> None:
    merged = merge(spans)
    assert all(one.end <= other.start for one, other in pairwise(merged))
    shuffled = list(spans)
    rng.shuffle(shuffled)
    assert merge(shuffled) == merged
    assert merge(merged) == merged
    longest = max((span.end - span.start for span in spans), default=0)
    assert max((span.end - span.start for span in merged), default=0) == longest


def test_of_equal_finds_the_surer_kind_stays() -> None:
    assert merge([Found(0, 4, "person"), Found(0, 4, "code")]) == [Found(0, 4, "code")]
    assert merge([Found(0, 4, "code"), Found(2, 9, "person")]) == [Found(2, 9, "person")]


@pytest.mark.parametrize(
    ("text", "kind", "wanted"),
    [
        ("My name is Maria Lopez.", "person", ["Maria Lopez"]),
        ("my name is zarvon kwick and i am ill", "person", ["zarvon kwick"]),
        ("Dr. Kowalczewski-Brandt agreed.", "person", ["Dr. Kowalczewski-Brandt"]),
        ("Prof. Dr. Meyer, Herr von Wedel", "person", ["Prof. Dr. Meyer", "Herr von Wedel"]),
        ("Señora Ibáñez llamó", "person", ["Ibáñez"]),
        ("Patient: LOPEZ, MARIA", "person", ["LOPEZ, MARIA"]),
        ("I told Ludwig van Beek.", "person", ["Ludwig van Beek"]),
        ("It was J. R. Oyelaran.", "person", ["J. R. Oyelaran"]),
        ("Maria's sugar is high", "person", ["Maria"]),
        ("Best regards,\nZarvon", "person", ["Zarvon"]),
        ("may rose said so; May said so", "person", ["May"]),
        ("write to a.b+c@mail.example.co.uk.", "email", ["a.b+c@mail.example.co.uk"]),
        ("MRN: 00482-19", "code", ["00482-19"]),
        ("patient id A-4471-X", "code", ["A-4471-X"]),
        ("claim no. 2023/118-7743 was paid", "code", ["2023/118-7743"]),
        ("SSN 078-05-1120", "code", ["078-05-1120"]),
        ("pay with 4111 1111 1111 1111 12/26", "code", ["4111 1111 1111 1111"]),
        ("to DE89 3704 0044 0532 0130 00 now", "code", ["DE89 3704 0044 0532 0130 00"]),
        ("it is 943 476 5919", "code", ["943 476 5919"]),
        ("seen 2023-04-05, 4/5/2023, 05.04.2023", "date", ["2023-04-05", "4/5/2023", "05.04.2023"]),
        ("seen April 5th, 2023 or 5 avril 2023", "date", ["April 5th, 2023", "5 avril 2023"]),
        ("DOB: 3 March", "date", ["3 March"]),
        ("call (212) 555-0143 x12", "phone", ["(212) 555-0143 x12"]),
        ("ring 020 7946 0958", "phone", ["020 7946 0958"]),
        ("or +49 171 2345678", "phone", ["+49 171 2345678"]),
    ],
)  # fmt: skip
def test_the_rules_find(text: str, kind: Kind, wanted: list[str]) -> None:
    assert found(text, kind) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "May I ask if it will rise in May?",
        "Bell's palsy, Parkinson's disease, the Cockcroft-Gault equation",
        "Take Lipitor 20 mg after the April 2023 guidelines.",
        "Version 3.11.2, section 4.2.1, ICD E11.9, BP 120/80",
        "ISBN 978-0-13-468599-1",
        "San Francisco, New York and the University of Michigan",
        "Blood Pressure Monitoring",
        "4111 1111 1111 1112",
        "a @ b and @home",
    ],
)
def test_the_rules_leave_ordinary_text_alone(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("jared paavolainen will call", ["jared paavolainen"]),
        ("here's Kian's address", ["Kian"]),
        ("Vala, can I please speak to your boss?", ["Vala"]),
        ("Scott had given Ömür his address", ["Scott", "Ömür"]),
        ("Malon, Mark, Kaylee and Jennifer", ["Malon", "Mark", "Kaylee", "Jennifer"]),
        ("Mandel and Daniels were engineers.", ["Mandel", "Daniels"]),
        ('"It is moving," says Skjoldborg.', ["Skjoldborg"]),
        ("Her maiden name is Leehy", ["Leehy"]),
        ("but everyone calls me Izaak", ["Izaak"]),
        ('Troy: "Who are you?"', ["Troy"]),
        ("he wrote \\\"I\\'m Timothy\\'s son\\\"", ["Timothy"]),
        ("Kotoya shouted at Morgan", ["Kotoya", "Morgan"]),
        ("Follow up with Ryan Bagy MD in 2 months.", ["Ryan Bagy MD"]),
        ("a letter from Mrs. Tammy Brynjar", ["Mrs. Tammy Brynjar"]),
        ("my landlord, Bartholomew Crisp", ["Bartholomew Crisp"]),
        ("Will Smith acted", ["Will Smith"]),
    ],
)  # fmt: skip
def test_a_name_in_no_list_is_known_by_what_stands_beside_it(text: str, wanted: list[str]) -> None:
    assert found(text, "person") == wanted


@pytest.mark.parametrize(
    "text",
    [
        "will smith the metal",
        "Mark the date. Mark my words. Will my order come?",
        "Paris 2024 was great. Chapter 12 March of the Penguins.",
        "We fly to Rome, then Milan and Florence.",
        "According to Reuters, Nvidia gave a forecast; analysts at Goldman Sachs disagreed.",
        "Berkshire Hathaway bought shares; Moody's and Dow Jones said so. Wells Fargo fell.",
        "Use React, Django, Flask and Jenkins with Terraform.",
        "Ask Claude or ChatGPT. You are Claude Code.",
        "Boil the rice; add fried leeks, a potter's touch and a kiss of heat.",
        "It was sung by a choir. The fan hung there.",
        "Killed My Darlings and other Cautionary Tales",
        "Cook the Thai Basil Chicken. Rolls Royce and Honda Civic.",
        "Title: Quarterly Report. Status: Open. Owner: Platform Team.",
        'Image: "Ubuntu latest". Command: "Run the tests"',
        "Kubernetes, Docker and Helm are tools.",
        "Unfortunately, you can do nothing. Python, can you do it?",
        "Visit the Louvre, the Eiffel Tower and Notre Dame in Paris.",
        "max retries 3, set max ctx to 5",
        "Harry Potter and the Chamber of Secrets",
    ],
)
def test_words_that_only_look_like_names_are_left(text: str) -> None:
    assert found(text, "person") == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("I am Jane Roe", "Jane Roe"),
        ("i am jane roe and need help", "jane roe"),
        ("I AM JANE ROE", "JANE ROE"),
        ("My name is Jane Q. Roe", "Jane Q. Roe"),
        ("I am Jane Marie Roe-Smith, 54.", "Jane Marie Roe-Smith"),
        ("I am Mary-Jane Roe", "Mary-Jane Roe"),
        ("I am Jane van der Roe", "Jane van der Roe"),
        ("Patient: Roe, Jane", "Roe, Jane"),
        ("je suis Maëlle Le Goff", "Maëlle Le Goff"),
        ("I am Nguyễn Thị Hoa", "Nguyễn Thị Hoa"),
        ("Ich bin Anna Müller-Lüdenscheidt und 54", "Anna Müller-Lüdenscheidt"),
        ("i am oluwaseun adeyemi", "oluwaseun adeyemi"),
        ("I met Jane Winter yesterday", "Jane Winter"),
        ("Yesterday Tom Cloud called.", "Tom Cloud"),
    ],
)
def test_a_name_is_found_whole(text: str, name: str) -> None:
    assert found(text, "person") == [name]


@pytest.mark.parametrize(
    "text",
    [
        "Jane Roe, jane.roe@example.org",
        "Jane Roe jane.roe@example.org",
        "From: Jane Roe <jane.roe@example.org>",
        "Name,Email\nJane Roe,jane.roe@example.org",
        '{"name": "Jane Roe", "email": "jane.roe@example.org"}',
    ],
)
def test_a_name_and_an_address_beside_it_are_two_finds(text: str) -> None:
    assert [(f.kind, text[f.start : f.end]) for f in RULES.find(text)] == [
        ("person", "Jane Roe"),
        ("email", "jane.roe@example.org"),
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("I saw Anna Monday", ["Anna"]),
        ("Signed Iker My name is secret", ["Iker"]),
        ("Ask Anna Today", ["Anna"]),
        ("I am German and live in Berlin", []),
        ("I am Head of Sales", []),
        ("We stay at Garni Rosa, then at Mont Blanc", []),
        ("Drive along Romantische Straße", []),
        ("A Roth IRA, a Russell 2000 fund, a Bloody Mary", []),
    ],
)
def test_what_stands_beside_a_name_is_no_part_of_it(text: str, names: list[str]) -> None:
    assert found(text, "person") == names


def test_a_build_and_the_largest_integer_are_no_phone_numbers() -> None:
    assert found("int max is 2147483647, build 20250818.1.22", "phone") == []
    assert found("call 2147483646", "phone") == ["2147483646"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("555-0132 is her new phone number", ["555-0132"]),
        ("555-0132 is my account number", []),
    ],
)
def test_a_short_number_is_a_phone_if_the_words_behind_say_so(text: str, found: list[str]) -> None:
    phones = [text[f.start : f.end] for f in Rules().find(text) if f.kind == "phone"]
    assert phones == found


def test_a_phone_number_below_an_address_is_no_part_of_it() -> None:
    text = "Feldstraße 49\nKiel 24105\n0431 35 06 90-Office\\,001-204-821-0538x16944-Fax"
    assert found(text, "phone") == ["0431 35 06 90", "001-204-821-0538x16944"]


@pytest.mark.parametrize(
    "word", ["box", "boxes", "stories", "walked", "baked", "planned", "runners", "sunnier", "sadly"]
)
def test_a_word_is_known_by_its_plain_form(word: str) -> None:
    assert english(word)
    assert found(f"The Unknown {word.capitalize()} Zarvon", "person") == []


@pytest.mark.parametrize("word", ["", "s", "ed", "ying", "zarvon", "paavolainen", "ahmed", "jing"])
def test_a_name_is_no_inflected_word(word: str) -> None:
    assert not english(word)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("I live at 12 Baker Street, London.", ["12 Baker Street, London"]),
        ("Ship to 1600 Elm Ave, Apt. 4B, Springfield, IL 62704 please",
         ["1600 Elm Ave, Apt. 4B, Springfield, IL 62704"]),
        ("Hauptstraße 7, 10115 Berlin ist meine Adresse", ["Hauptstraße 7, 10115 Berlin"]),
        ("Abito in Via Goffredo Mameli 149, Roma", ["Via Goffredo Mameli 149, Roma"]),
        ("au 38 rue Victor Hugo, 75001 Paris.", ["38 rue Victor Hugo, 75001 Paris"]),
        ("ul. Podleśna 17 w Krakowie", ["ul. Podleśna 17"]),
        ("Rákóczi út 81", ["Rákóczi út 81"]),
        ("write to P.O. Box 1401, Reno", ["P.O. Box 1401, Reno"]),
        ("PSC 1139, Box 7638\nAPO AP 94917", ["PSC 1139, Box 7638\nAPO AP 94917"]),
        ("his address: San Andrés 70", ["San Andrés 70"]),
        ("lives at 71 Paraguay 87, then moved", ["71 Paraguay 87"]),
        ("5 Kenton Road\n Apt. 306\n Pines Beach\n Costa Rica 85226\nDear Sir",
         ["5 Kenton Road\n Apt. 306\n Pines Beach\n Costa Rica 85226"]),
        ("12 Elm Court, Philadelphia, PA 19103", ["12 Elm Court, Philadelphia, PA 19103"]),
        ("81 Lake Road, Grosse Pointe, MI 48236", ["81 Lake Road, Grosse Pointe, MI 48236"]),
        ("77 dunmore street", ["77 dunmore street"]),
    ],
)  # fmt: skip
def test_street_addresses_are_found_with_what_belongs_to_them(text: str, wanted: list[str]) -> None:
    assert found(text, "address") == wanted


_OF_ADDRESSES = st.sampled_from(
    (
        *("12", "7", "1600", "Baker", "Street", "Via", "Roma", "Hauptstr.", "P.O.", "Box", "Apt."),
        *("Dr.", "lives at", "my address is", "r", "u", "Elm", "rue", "APO AP", "Unit", "pobox"),
        *(
            "the",
            "doctor",
            "Unit",
            "said",
            "however",
            "sometimes",
            "remember",
            "\n",
            ",",
            ".",
            "4B",
        ),
    )
)


@given(st.lists(_OF_ADDRESSES, min_size=2, max_size=40).map(" ".join))
def test_a_number_far_from_every_word_of_addresses_is_in_none(text: str) -> None:
    assert [*addresses.find_addresses(text, Runs(text))] == [*addresses.find_addresses(text)]


@pytest.mark.parametrize(
    "text",
    [
        "Wall Street fell and Main Street cheered; the top 10 Wall Street banks rose.",
        "It is 5 minutes by road and 2 miles down the street.",
        "Chapter 12 March of the Penguins, Route 66, Highway 101, Area 51",
        "Use the test suite 3 times; Office Suite 365 has 2 place settings.",
        "Send 3 copies via Email 2 times; 4 way stop; 7 Star Wars films",
        "Via Email 2 times. Step 3 Drive to the airport. Day 2 Walk the dog. Phase 2 Rise",
        "We moved to 3 Tier architecture; mail to 5 people; Rule 5 Court orders",
        "Put 12 eggs in box 3. Unit 12 of the book. 3 dr appointments.",
        "string 5, spring 2024, the boxing ring 2 and a bow tie 3",
        "Turn right after 200 m, then take exit 12 to the highway",
        "SELECT street, city FROM addresses WHERE id = 12",
        "Windows 11 Drive C: 256 GB; Google Drive 2 TB",
    ],
)
def test_streets_without_an_address_are_left(text: str) -> None:
    assert found(text, "address") == []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("blocked 69.196.0.85 today", ["69.196.0.85"]),
        ("from 2b20:9a3a:1b2f:7ce::85fc:261e", ["2b20:9a3a:1b2f:7ce::85fc:261e"]),
        ("ping 192.168.10.54, 10.0.0.1, 127.0.0.1 and 8.8.8.8", []),
        ("install version 69.196.10.85 or pkg==69.196.10.85", []),
        ("see 4.2.1.3; fe80::1ff:fe23:4567:890a, ::1 and 2001:db8::ff00:42", []),
        ("at 12:30:45 aa:bb:cc:dd:ee:ff std::vector<int>", []),
    ],
)  # fmt: skip
def test_an_ip_address_that_can_be_somebodys_is_found(text: str, wanted: list[str]) -> None:
    assert found(text, "ip") == wanted
    assert found(text, "phone") == []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("My zip code is 29687", ["29687"]),
        ("PLZ: 10115, code postal 75001", ["10115", "75001"]),
        ("near SW1A 1AA and K1A 0B1", ["SW1A 1AA", "K1A 0B1"]),
        ("Philadelphia, PA 19103", ["PA 19103"]),
        ("Paris 2024, model KA4 2BD7, OK 12345 items, zip 3 files", []),
    ],
)
def test_postcodes_are_found(text: str, wanted: list[str]) -> None:
    assert found(text, "postcode") == wanted


def test_ages_are_found_only_where_they_are_asked_for() -> None:
    text = "a 54-year-old man, aged 60, age: 7, 33 years old, 41 yo; a 10 year plan, stage 3"
    assert found(text, "age") == []
    ages: tuple[FoundKind, ...] = ("age",)
    assert found(text, "age", Rules(kinds=ages)) == ["54", "60", "7", "33", "41"]


def test_a_time_of_day_belongs_to_its_day() -> None:
    assert found("When: 1992-12-08 19:28:54\n", "date") == ["1992-12-08 19:28:54"]
    assert found("Seen at 2023-04-05T10:00:00Z.", "date") == ["2023-04-05T10:00:00"]
    assert found("seen 1992-12-08 25:28", "date") == ["1992-12-08"]


def test_phones_are_known_by_the_word_behind_them_and_with_an_extension() -> None:
    text = "046 406 6044 office\n96 228011 fax\n062-085-9260x155 mobile\n10000000 mobile users"
    assert found(text, "phone") == ["046 406 6044", "96 228011", "062-085-9260x155"]


def test_an_allowed_phrase_is_never_taken_for_an_identifier() -> None:
    text = "Ask MARIA LOPEZ or Maria Garcia about case no. 4415-8820."
    rules = Rules(allow=["Maria Lopez", "4415-8820"])
    assert found(text) == ["MARIA LOPEZ", "Maria Garcia", "4415-8820"]
    assert found(text, rules=rules) == ["Maria Garcia"]
    assert found("Maria", rules=rules) == ["Maria"]


@pytest.mark.parametrize(
    ("check", "good"),
    [
        (rules.luhn, "4111111111111111"),
        (rules.iban, "GB82WEST12345698765432"),
        (rules.nhs, "9434765919"),
        (rules.npi, "1234567893"),
        (rules.pesel, "44051401359"),
        (rules.kimlik, "10000000146"),
        (rules.cpf, "52998224725"),
        (rules.resident, "11010519491231002X"),
        (rules.nir, "255081416802538"),
    ],
)
def test_a_checksum_accepts_the_number_and_refuses_it_with_a_digit_changed(
    check: Callable[[str], bool], good: str
) -> None:
    assert check(good)
    place = next(i for i, character in enumerate(good) if i > 4 and character.isdigit())
    changed = good[:place] + str((int(good[place]) + 1) % 10) + good[place + 1 :]
    assert not check(changed)


def test_a_spanish_letter_and_a_social_security_number_are_checked() -> None:
    assert rules.dni("12345678Z")
    assert not rules.dni("12345678A")
    assert not rules.social_security("000121234")


def test_a_number_in_national_form_is_known_by_its_region() -> None:
    text = "It was 0722 123 456 then."
    assert found(text, "phone", Rules(regions=("RO",))) == ["0722 123 456"]
    assert found(text, "phone", Rules(regions=("US",))) == []


def test_only_the_kinds_asked_for_are_given() -> None:
    text = "Maria Lopez, a@b.example, 2023-04-05"
    assert {item.kind for item in RULES.find(text)} == {"person", "email", "date"}
    assert {item.kind for item in Rules(kinds=["date"]).find(text)} == {"date"}
    with pytest.raises(UnknownNameError):
        Rules(kinds=["colour"])  # type: ignore[list-item]


def test_a_find_says_where_and_what_but_not_the_text() -> None:
    (item,) = RULES.find("My name is Maria Lopez")
    assert repr(item) == "Found(start=11, end=22, kind='person')"


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200))
def test_any_text_gives_ordered_finds_inside_it_and_the_same_ones_again(text: str) -> None:
    finds = RULES.find(text)
    assert finds == RULES.find(text)
    ends = [0, *(item.end for item in finds)]
    assert all(end <= item.start < item.end for end, item in zip(ends, finds, strict=False))
    assert ends[-1] <= len(text)


def test_what_is_found_can_be_protected_as_its_kind_or_as_a_code() -> None:
    refused: dict[str, int] = {}
    for labelled in evaluation.generated():
        if not labelled.group.endswith("usual"):
            continue
        for item in RULES.find(labelled.text):
            text = labelled.text[item.start : item.end]
            if (
                item.kind == "address"
                or item.kind == "ip"
                or item.kind == "postcode"
                or item.kind == "age"
            ):
                continue  # tokens of codes, or none
            written = read_name(text) if item.kind == "person" else read(item.kind, text)
            if written is None:
                assert item.kind == "date"  # months in other languages
                assert read("code", text) is not None
                refused[item.kind] = refused.get(item.kind, 0) + 1
    assert set(refused) == {"date"}


@pytest.mark.parametrize(
    "unit",
    [
        *("1 ", "Dr. ", "my name is ", "1/", "(0", "A. ", "O'", "de ", "4111 ", "GB82 ", "Name: "),
        *(
            "1 A Street ",
            "rue A 1 ",
            "Apt. 1 ",
            "address: 1 ",
            "1 Road\n Aa\n ",
            "Anna, B, ",
            "A and ",
        ),
        *("1.1.1.1 ", "a:b:", "12 de ", "Box 1 ", "Xstrasse ", "zip 1 "),
    ],
)
@pytest.mark.parametrize("length", [16_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_the_cost_grows_with_the_length_and_no_faster(unit: str, length: int) -> None:
    assert grows_linearly(RULES.find, unit, length)


def test_a_hundred_kilobytes_made_to_be_slow_cost_no_more_than_their_share() -> None:
    unit = "Dr. A. de O'my name is 1/12 4111 (0 GB82 a@a.b+1.Name: MRN born 3 "
    assert grows_linearly(RULES.find, unit, 100_000)


def test_the_check_of_growth_sees_quadratic_work() -> None:
    def quadratic(text: str) -> int:
        return sum(text[i:].count("a@") for i in range(0, len(text), 50))

    assert not grows_linearly(quadratic, "a@a.", 100_000)


def test_a_missing_spacy_and_an_unknown_pipeline_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(UnknownNameError, match="pip install spacy"):
        SpacyNames("en_core_web_md")

    def load(name: str, exclude: tuple[str, ...]) -> None:
        raise OSError(name)

    monkeypatch.setitem(sys.modules, "spacy", SimpleNamespace(load=load))
    with pytest.raises(UnknownNameError, match="no_such_pipeline"):
        SpacyNames("no_such_pipeline")


def test_entities_of_a_pipeline_are_trimmed_to_names_at_their_places_in_a_long_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entity = "Ann Lee's"

    def read_piece(text: str) -> object:
        starts = [i for i in range(len(text)) if text.startswith(entity, i)]
        people = [SimpleNamespace(text=entity, label_="PER", start_char=i) for i in starts]
        place = SimpleNamespace(text="Leeds", label_="GPE", start_char=0)
        return SimpleNamespace(ents=[place, *people])

    module = SimpleNamespace(load=lambda name, exclude: read_piece)
    monkeypatch.setitem(sys.modules, "spacy", module)
    text = "Leeds " + f"x {entity} cat " * 5000
    finds = SpacyNames("any").find(text)
    assert len(finds) == 5000
    assert {text[item.start : item.end] for item in finds} == {"Ann Lee"}


def test_the_labelled_set_is_large_seeded_and_its_marks_fit() -> None:
    data = evaluation._data()
    local = [line for locale in data["locales"].values() for line in locale.get("templates", [])]
    assert len({*data["templates"], *local}) >= 60
    assert len(data["locales"]) >= 15
    assert len(data["handwritten"]) >= 80
    texts = evaluation.generated()
    assert texts == evaluation.generated()
    assert texts != evaluation.generated(seed=8)
    for labelled in texts:
        assert "[[" not in labelled.text
        assert all(0 <= span.start < span.end <= len(labelled.text) for span in labelled.spans)


def test_unlisted_names_are_in_no_list_of_the_rules() -> None:
    for locale in evaluation._data()["locales"].values():
        given_names, surnames = evaluation._split(locale, listed=False)
        assert len(given_names) >= 5
        assert len(surnames) >= 5
        assert not {caseless(name) for name in (*given_names, *surnames)} & lists.LISTED


def test_marks_become_places() -> None:
    labelled = evaluation.marked("I am [[p:Ann]], [[d:1999-01-02]].", "x")
    assert labelled.text == "I am Ann, 1999-01-02."
    assert labelled.spans == (Found(5, 8, "person"), Found(10, 20, "date"))


def test_a_seer_scores_everything_and_a_blind_detector_nothing() -> None:
    texts = evaluation.handwritten()
    truth = {labelled.text: list(labelled.spans) for labelled in texts}
    seer = evaluation.measure(SimpleNamespace(find=truth.__getitem__), texts)
    assert all(s.exact == s.covered == s.overlapping == s.present == s.right for s in seer)
    blind = evaluation.measure(SimpleNamespace(find=lambda text: []), texts)
    assert all(s.exact == s.covered == s.overlapping == s.found == 0 for s in blind)
    assert sum(s.present for s in blind) > 100


def test_a_find_that_leaves_a_letter_does_not_cover() -> None:
    labelled = evaluation.marked("[[p:Ann Lee]]", "x")
    detector = SimpleNamespace(find=lambda text: [Found(0, 6, "person")])
    (score,) = (s for s in evaluation.measure(detector, [labelled]) if s.kind == "person")
    assert (score.overlapping, score.covered, score.exact) == (1, 0, 0)


def test_wilson_intervals_are_the_published_ones() -> None:
    low, high = evaluation.wilson(81, 263)
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)
    assert evaluation.wilson(0, 0) == (0.0, 1.0)


def test_the_rules_keep_the_rates_that_the_documentation_states() -> None:
    scores = {(s.group, s.kind): s for s in evaluation.measure(RULES)}

    def rate(group: str, kind: Kind) -> float:
        score = scores[group, kind]
        return score.covered / score.present

    assert rate("listed names, usual", "person") > 0.98
    assert rate("unlisted names, usual", "person") > 0.8
    assert rate("unlisted names, lower", "person") < 0.5  # the control: this is not solved
    for kind in ("code", "phone", "date", "email"):
        assert rate("listed names, usual", kind) > 0.97
    false = sum(s.found for (group, _), s in scores.items() if group.startswith("no identifiers"))
    assert false <= 10
    assert "unlisted names, usual" in to_markdown(evaluation.table(scores.values()))


def test_documentation_quotes_the_measured_figures() -> None:
    """Of phone numbers too, but these depend on what the installed library knows."""
    text = (Path(__file__).parents[3] / "docs" / "detection.md").read_text("utf-8")
    rows = {tuple(map(str.strip, line.strip("|").split("|"))) for line in text.splitlines()}
    for title, kind, *figures in evaluation.table(evaluation.measure(RULES)).lines:
        group = str(title).removesuffix(", usual")
        if kind == "person" and not title.startswith("no "):
            assert (title, "Rules", *figures) in rows
        elif kind in ("code", "date", "email") and group.endswith("names"):
            assert (f"made, {group}", kind, *figures) in rows
        elif kind in ("code", "date", "email") and group.startswith("by hand"):
            assert (title, kind, *figures) in rows


def test_in_every_text_what_was_recorded_is_found() -> None:
    """`python -m tests.support.finds` writes the record anew; its diff is the change."""
    assert [marked(text) for text in texts()] == RECORD.read_text("utf-8").splitlines()


def test_the_bound_with_misses_is_met_by_an_adversary_who_wins_on_every_miss() -> None:
    rng = random.Random(3)
    rounds, miss, mentions, advantage = 40_000, 0.1, 3, 0.3
    gained = 0.0
    for _ in range(rounds):
        exposed = any(rng.random() < miss for _ in range(mentions))
        gained += 1.0 if exposed else advantage
    # Four standard deviations: a false alarm in about 16,000 runs.
    spread = 4 * 0.5 / rounds**0.5
    assert abs(gained / rounds - bound_with_misses(advantage, miss, mentions)) < spread


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("a" * 64 + "@b.example", [(0, 74)]),
        ("a" * 65 + "@b.example", [(1, 75)]),  # the rest is found, so that none of it leaves
        ("@b.example", []),
        ("..@b.example", []),
        (".a@b.example", [(1, 12)]),
        ("a@b", []),
        ("x@y.example, z@w.example", [(0, 11), (13, 24)]),
        ("@@ a@b.example", [(3, 14)]),
    ],
)
def test_an_address_is_read_outwards_from_its_sign(
    text: str, places: list[tuple[int, int]]
) -> None:
    assert list(find_emails(text)) == places


def test_finds_that_only_touch_both_stay_and_an_empty_one_does_not() -> None:
    one, other = Found(0, 3, "person"), Found(3, 5, "code")
    assert merge([other, one, Found(6, 6, "email")]) == [one, other]
    assert merge([one, Found(2, 5, "code")]) == [one]
    assert merge([]) == []
