"""Names of parameters are cut into words, and the words find what they can stand for."""

import pytest

from rootguard.channels.tools import words as module
from rootguard.channels.tools.words import Words, match, meanings, text_words, words_of
from rootguard.template import load_template

TEMPLATES = [load_template(name) for name in ("fib4", "bmi", "debt_to_income")]
ROOTS = {name: root for template in TEMPLATES for name, root in template.roots.items()}
ALL = meanings(ROOTS, TEMPLATES, ("mrn", "badge"))


@pytest.mark.parametrize(
    ("name", "cut", "whole"),
    [
        ("serumAST_level", ("serum", "ast", "level"), ("serumast", "level")),
        ("bloodPressure-2", ("blood", "pressure", "2"), ("bloodpressure", "2")),
        ("CO2Rate", ("co2", "rate"), ("co2rate",)),
        ("Größe", ("grosse",), ("grosse",)),
    ],
)
def test_a_name_is_cut_at_capitals_and_a_text_is_not(name: str, cut: Words, whole: Words) -> None:
    assert words_of(name) == cut
    assert text_words(name) == whole


@pytest.mark.parametrize(
    ("words", "kept", "periods"),
    [
        ("income per month", ("income",), {"month"}),
        ("monthly debt", ("debt",), {"month"}),
        ("per head", ("per", "head"), set()),
    ],
)
def test_how_often_is_told_apart(words: str, kept: Words, periods: set[str]) -> None:
    assert module.without_periods(words.split()) == (kept, frozenset(periods))


@pytest.mark.parametrize(
    ("words", "name", "found"),
    [
        ("ast", "ast", (True, (), set())),
        ("ast value", "ast", (True, (), set())),
        ("foo ast", "ast", (True, ("foo",), set())),
        ("age ast", "age", (True, ("ast",), set())),
        ("aminotransferase aspartate", "ast", (False, (), set())),
        ("weight body", "wt", (False, (), set())),
        ("monthly income", "income", (True, (), {"month"})),
        ("income per year", "income", (True, (), {"year"})),
        ("badge", "badge", (True, (), set())),
        ("mrn", "mrn", (False, (), set())),
        ("record number", "mrn", (True, (), set())),
        ("foo", "ast", None),
    ],
)
def test_words_name_a_meaning_by_a_run_of_them_or_in_another_order(
    words: str, name: str, found: tuple[bool, Words, set[str]] | None
) -> None:
    made = match(tuple(words.split()), ALL.by_name[name])
    assert (None if made is None else (made.weak, made.extra, {*made.periods})) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Give the AST and the body weight in kg", [(2, "ast", True), (5, "wt", False)]),
        ("age in years", [(0, "age", False)]),
        ("aspartate aminotransferase of foo", [(0, "ast", False)]),
        ("ht wt", []),
        ("", []),
    ],
)
def test_a_description_mentions_meanings_in_order(
    text: str, found: list[tuple[int, str, bool]]
) -> None:
    made = [(place, each.name, weak) for place, each, weak in ALL.mentions(text_words(text))]
    assert made == found


def test_runs_of_words_are_tried_from_the_longest_of_six() -> None:
    assert list(module._spans(3)) == [(0, 3), (0, 2), (1, 3), (0, 1), (1, 2), (2, 3)]
    tried = list(module._spans(8))
    assert (tried[0], tried[2], tried[-1], len(tried)) == ((0, 6), (2, 8), (7, 8), 33)


def test_a_meaning_has_the_unit_and_the_middle_of_its_root() -> None:
    age, income, bmi = (ALL.by_name[name] for name in ("age", "income", "bmi"))
    assert [each.periodic for each in (age, income, bmi)] == [False, True, False]
    assert (income.unit, income.typical) == ("USD/month", 25_250.0)
    assert (bmi.unit, bmi.formula, bmi.field) == ("kg/m2", "", "medicine")
    assert ALL.by_name["ht"].usual[:2] == ("m", "cm")
    assert module.several()["bp"] == ("sbp", "dbp")


def test_a_root_of_nought_and_one_is_a_flag() -> None:
    egfr = load_template("egfr")
    found = meanings(egfr.roots, [egfr]).by_name
    assert (found["female"].sort, found["scr"].sort) == ("flag", "value")
