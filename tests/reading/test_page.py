"""Looking only where a pattern can begin finds what a search finds."""

import re
from dataclasses import replace
from typing import Any

import phonenumbers
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rootguard.channels.detection import lists, rules
from rootguard.channels.detection import names as persons
from rootguard.language import fold, names, numbers, units
from rootguard.language.fold import (
    Openings,
    Runs,
    Stems,
    digits_in,
    figures_in,
    first_words,
    matches_at,
)
from rootguard.reading import page as pages
from rootguard.values import RootName
from tests.support.amounts import examples
from tests.support.channel_person import open_person

_SIGNS = {key: lists.phrases(key) for key in lists._SIGNS if key not in ("months", "name_is")}
_PIECES = [
    *(phrase for phrases in _SIGNS.values() for phrase in phrases),
    *(month for line in lists.lines("months") for month in line),
    *("my name is", "je m’appelle", "his full name was", "adı", "ADI", "adi", "ſix", "K", "İ"),
    *pages.wording()["subjects"],
    *pages.wording()["reference"],
    *("twenty", "Three", "point", "hundred", "GPT-4", "ca 125", "covid19", "omega-3", "10^9/L"),
    *("x 10^12/l", "mL/min/1.73 m2", "kg/m^2", "14", "1980", "03", "4-40", "4415-8820", "23.5"),
    *("AST", "serumAst", "ASTs", "aspartate aminotransferase", "platelet", "wt", "y/o", "AB123456"),
    *(
        " ",
        " ",
        ". ",
        "-",
        "_",
        "/",
        ":",
        ": ",
        ",",
        "\n",
        "'",
        "’s",
        "é",
        "e\u0301",
        "s",
        "x",
        "7",
    ),
]
TEXTS = st.lists(st.sampled_from(_PIECES), max_size=12).map("".join) | st.text(max_size=20)
_PERSON = open_person()
_NAMES = pages.root_names(_PERSON.roots)


def _all_openings() -> list[Openings]:
    return [
        persons._ALL,
        rules._AFTER_MONTH,
        rules._BORN,
        rules._LABELS,
        numbers._SPOKEN,
        pages._elsewhere(),
        pages._reference(),
        _NAMES._subject,
    ]


@pytest.mark.parametrize("openings", _all_openings())
@settings(max_examples=150, deadline=None)
@given(text=TEXTS)
def test_patterns_by_their_first_words_match_where_a_search_matches(
    openings: Openings, text: str
) -> None:
    searched = [
        (which, match.span())
        for which, (pattern, _) in enumerate(openings._patterns)
        for match in pattern.finditer(text)
    ]
    assert [(w, m.span()) for w, m in openings.matches(text, Runs(text))] == searched


@examples(steady=100, exploring=300)
@given(text=TEXTS)
def test_names_of_roots_are_found_where_a_search_finds_them(text: str) -> None:
    text = fold.bare(fold.fold(text).text)
    finder = _NAMES._finder
    every = sorted(
        (words for head in finder._heads.values() for words in head),
        key=lambda words: (-sum(map(len, words)), words),
    )
    body = "|".join(names._SEPARATOR.join(map(re.escape, words)) for words in every)
    pattern = re.compile(rf"{names._OPENS}(?:{body})(?:e?s)?{names._CLOSES}", re.IGNORECASE)
    searched = [match.span() for match in pattern.finditer(text) if finder.key(match[0])]
    assert [(hit.start, hit.end) for hit in finder.find(text, text, Runs(text))] == searched


@examples(steady=100, exploring=300)
@given(text=TEXTS)
def test_patterns_of_figures_match_where_a_search_matches(text: str) -> None:
    begins = [match.start() for match in rules._BEGINS.finditer(text)]
    figures = figures_in(text)
    led_by_figures = (*rules._FIGURES, *rules._WORDS[:1], *rules._WORDS[2:], rules._TIMED)
    checked = (*(pattern for pattern, _ in rules._CHECKED), rules._CARD)
    for patterns, places in ((led_by_figures, figures), (checked, begins)):
        for pattern in patterns:
            searched = [match.span() for match in pattern.finditer(text)]
            assert [m.span() for m in matches_at(pattern, text, places)] == searched


@examples(steady=100, exploring=300)
@given(text=TEXTS)
def test_addresses_of_machines_begin_where_a_run_of_digits_does(text: str) -> None:
    searched = [match.span() for match in rules._QUAD.finditer(text)]
    assert [m.span() for m in matches_at(rules._QUAD, text, digits_in(text))] == searched


@examples(steady=100, exploring=300)
@given(text=TEXTS)
def test_units_with_digits_are_found_where_a_search_finds_them(text: str) -> None:
    plain = fold.plain(fold.fold(text).text)
    searched = [match.span() for match in units._numbered()[0].finditer(plain)]
    assert units.digits_in_units(plain) == searched


@examples(steady=100, exploring=300)
@given(text=TEXTS)
def test_runs_are_the_stretches_of_letters(text: str) -> None:
    runs = Runs(text)
    # A script without spaces is a run of its own beside other letters.
    east, korean = fold.UNSPACED, fold.HANGUL
    pattern = rf"[{east}]+|[{korean}]+|[^\W\d_{east}{korean}]+"
    letters = [match.start() for match in re.finditer(pattern, text)]
    assert runs.places(runs.words) == letters


def test_a_word_beyond_ascii_is_tried_by_every_pattern() -> None:
    openings = Openings((re.compile("s[a-z]+", re.IGNORECASE), {"six"}))
    assert [m[0] for _, m in openings.matches("six ſix SIX sun", Runs("six ſix SIX sun"))] == [
        "six",
        "ſix",
        "SIX",
    ]


def test_the_first_words_of_phrases_are_read_from_groups_too() -> None:
    assert first_words(["(?:his|her) name", "adım", "née", "a/c"]) == {"his", "her", "adim", "a"}
    with pytest.raises(ValueError, match="opens with a letter"):
        first_words(["[ab]c"])


def test_stems_are_compared_by_three_letters() -> None:
    assert Stems(["born", "ht"]).begin(["bornagain", "borrow", "htx", "h", "x"]) == {
        "bornagain",
        "borrow",
        "htx",
    }


def test_no_valid_phone_number_has_fewer_digits_than_the_rules_think() -> None:
    metadata = phonenumbers.PhoneMetadata
    every: list[Any] = [metadata.metadata_for_region(r) for r in phonenumbers.SUPPORTED_REGIONS]
    nowhere = phonenumbers.COUNTRY_CODES_FOR_NON_GEO_REGIONS
    every += [metadata.metadata_for_nongeo_region(code) for code in nowhere]
    fewest = min(len(str(m.country_code)) + min(m.general_desc.possible_length) for m in every)
    assert fewest == rules.LEAST_WITH_CODE


_PHONES = (
    *(
        "(212) 555-0147",
        "212.555.0147",
        "+49 30 123456",
        "2125550147",
        "5550147",
        "+49 1234",
        "0171",
    ),
    *(
        " ext. 12",
        " x3",
        ";ext=45",
        " - 77#",
        "extension, 9",
        "23 U/L",
        "134/64",
        "5'11",
        "2012-01-02",
    ),
    *(" 08:00", "$", "%", " ", ", ", "  ", "\n", "a", "call ", "-", "/", "(", ")", "[", "7", "٣"),
)


@examples(steady=150, exploring=400)
@given(
    pieces=st.lists(st.sampled_from(_PHONES), max_size=10), home=st.sampled_from(["US", "DE", "AS"])
)
def test_the_library_finds_the_same_numbers_without_the_small_ones(
    pieces: list[str], home: str
) -> None:
    text = "".join(pieces)

    def found(text: str) -> list[tuple[int, int]]:
        matcher = phonenumbers.PhoneNumberMatcher(
            text, home, leniency=phonenumbers.Leniency.VALID, max_tries=len(text) + 1
        )
        return [(match.start, match.end) for match in matcher]

    assert found(rules._without_small(text, rules._least_digits(home))) == found(text)


_BEGINNINGS = (
    *("A", "AB", "ABCDE", "ABCDEF", "ABCDEFG", "a", "é", "7", "42", "٣", "²", "MRN", "U/L"),
    *(" ", "  ", "-", "#", "+", ".", "_", "\n", ", ", "words in a row that hold no digit "),
)


@settings(max_examples=400, deadline=None)
@given(pieces=st.lists(st.sampled_from(_BEGINNINGS), max_size=16))
def test_places_beside_digits_are_those_of_a_search(pieces: list[str]) -> None:
    text = "".join(pieces)
    digits = digits_in(text)
    assert digits == [match.start() for match in re.finditer("[0-9]+", text)]
    searched = [match.start() for match in rules._BEGINS.finditer(text)]
    assert rules.beginnings(text, digits) == searched


@settings(max_examples=200, deadline=None)
@given(unit=st.sampled_from(sorted(units._spellings().meanings)), behind=st.text(max_size=3))
def test_a_unit_is_looked_for_in_every_length_that_it_may_have(unit: str, behind: str) -> None:
    text, meanings = f"5 {unit}{behind}", units._spellings().meanings
    tried = {length for length in range(1, len(text) - 1) if text[2 : 2 + length] in meanings}
    lengths = units._spellings().lengths_at(text, 2)
    assert tried <= set(lengths)
    assert list(lengths) == sorted(lengths, reverse=True)


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("a|b\n1|2\n", [["a", "1"], ["b", "2"]]),
        (
            "x\n| a | b |\r\n|---|---|\r\n| 1 | 2 |\r\n|---|---|\r\n| 3 | 4 |\nend",
            [["a ", "---", "1 ", "3 "], [" b", "---", " 2", " 4"]],
        ),
        ("a,b\n1,2\n3,4,5\n", [["a", "1"], ["b", "2"]]),
        ("a\tb\n1\t2", [["a", "1"], ["b", "2"]]),
        (" a, b\n1 ,2", [[" a", "1 "], [" b", "2"]]),
        ("a,b\nc;d\n1;2\n", [["c", "1"], ["d", "2"]]),
        ("a,b\n1,2\n--,--\n", [["a", "1", "--"], ["b", "2", "--"]]),
        ("a|b\n1|2\n : | : \n", [["a", "1", ": "], ["b", "2", " :"]]),
        ("a,b\n1,2\n\nc,d\n3,4", [["a", "1"], ["b", "2"], ["c", "3"], ["d", "4"]]),
        ("a;b", []),
        ("a,b\nend", []),
        ("5,b\n1,2\n", []),
        ("a\nb\n", []),
    ],
)
def test_a_table_is_lines_that_one_mark_splits_alike(text: str, table: list[list[str]]) -> None:
    found = [
        [text[cell.start : cell.end] for cell in (column.header, *column.cells)]
        for column in pages.columns(text)
    ]
    assert found == table


def test_a_roots_own_name_goes_before_what_the_index_gives_another() -> None:
    """The index has "SGOT" for AST; here it is what the template calls a root after that one."""
    ast = replace(_PERSON.roots[RootName("ast")], aliases=())
    earlier = replace(ast, name=RootName("earlier"), aliases=("SGOT",))
    found = pages.RootNames({ast.name: ast, earlier.name: earlier})
    text = "ast 23, sgot 24, asat 25"
    places = found.find(text, text, Runs(text), fold.Spans())
    assert [place.roots for place in places] == [("ast",), ("earlier",), ("ast",)]


@pytest.mark.parametrize(
    ("root", "value", "unit", "held"),
    [
        ("ast", 7, "U/L", True),
        ("ast", 272, "U/L", True),
        ("ast", 7 - 0.0027, "U/L", True),
        ("ast", 7 - 0.0028, "U/L", False),
        ("ast", 272 + 0.0027, "U/L", True),
        ("ast", 272 + 0.0028, "U/L", False),
        ("ht", 180, "cm", True),
        ("ht", 180, "m", False),
        ("ht", 1.8, "kg", False),
    ],
)
def test_a_value_is_held_within_the_bounds_and_a_rounding(
    root: str, value: float, unit: str, held: bool
) -> None:
    assert _NAMES.measures[RootName(root)].holds(value, unit) is held


@pytest.mark.parametrize(
    ("root", "value", "unit"),
    [
        ("ht", 1.8, "m"),
        ("ht", 180, "cm"),
        ("ht", 300, "m"),
        ("glu", 106, "mg/dL"),
        ("glu", 5.9, "mmol/L"),
        ("hb", 141, "g/L"),
        ("plt", 231_000, "/uL"),
        ("wt", 500, "kg"),
    ],
)
def test_a_number_is_in_another_unit_only_if_it_cannot_be_in_the_roots_own(
    root: str, value: float, unit: str
) -> None:
    assert _NAMES.measures[RootName(root)].unit_of(value) == unit


@pytest.mark.parametrize(("upper", "apart"), [(50.0, True), (100.0, False), (200.0, False)])
def test_units_are_apart_if_no_number_is_within_the_bounds_in_both(
    upper: float, apart: bool
) -> None:
    height = _NAMES.measures[RootName("ht")]
    wide = replace(height, domain=replace(height.domain, lower=1.0, upper=upper))
    assert (wide.unit_of(upper + 60) == "cm") is apart


def test_a_flag_is_nought_or_one_and_money_is_in_a_currency() -> None:
    age, income = (_NAMES.measures[RootName(name)] for name in ("age", "income"))
    assert (age.money, income.money) == (False, True)
    two = replace(age, domain=replace(age.domain, lower=0.0, upper=1.0, size=2))
    assert two.flag
    assert not replace(two, domain=replace(two.domain, size=3)).flag
    assert not replace(two, domain=replace(two.domain, lower=1.0, upper=2.0)).flag


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("AST ... 23", "AST :   23"),
        ("AST .. 23", "AST .. 23"),
        ("AST ___ 23", "AST :   23"),
        ("AST __ 23", "AST __ 23"),
        ("AST …… 23", "AST :  23"),
        ("AST ··· 23", "AST :   23"),
        ("AST ·· 23", "AST ·· 23"),
        ("about 134-ish", "about 134    "),
        ("about 134ish ... 23", "about 134    :   23"),
        ("134 fishes", "134 fishes"),
        ("AST │ 23", "AST | 23"),
        ("so...", "so..."),
    ],
)
def test_a_leader_is_a_colon_and_the_text_keeps_its_length(text: str, read: str) -> None:
    assert pages._without_leaders(text) == read
    assert len(read) == len(text)


@pytest.mark.parametrize(
    ("text", "minor", "end"),
    [
        ('11"', "in", 3),
        ("11 in tall", "in", 5),
        ("11in tall", "in", 4),
        ("11 tall", "in", 2),
        ("11", "in", 2),
        ('11" tall', "lb", 2),
        ("11 lb", "lb", 5),
        ("11  lb", "lb", 2),
    ],
)
def test_a_smaller_unit_ends_with_its_sign_or_its_word(text: str, minor: str, end: int) -> None:
    assert pages._end_of_minor(text, 2, minor) == end
