"""What the rules find in short texts: names above all, and whatever else may stand there."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootguard.channels.detection.names import _Words, english, find_names
from rootguard.channels.detection.rules import AllowList
from rootguard.language.fold import Runs
from tests.support.identifier_texts import lines, marked


def test_in_every_short_text_what_was_recorded_is_found() -> None:
    recorded = list(lines())
    assert [marked(line) for line in recorded] == recorded


def test_the_short_texts_have_finds_of_every_kind() -> None:
    recorded = "\n".join(lines())
    kinds = (
        "code",
        "date",
        "email",
        "ip",
        "postcode",
        "age",
        "phone",
        "address",
        "person",
        "person?",
    )
    assert [kind for kind in kinds if f"⟦{kind} " not in recorded] == []


@pytest.mark.parametrize(
    "word",
    [
        *("run", "runs", "running", "runner", "runners", "stopped", "bigger", "baked", "baking"),
        *("carried", "carries", "happily", "happier", "happiest", "happiness", "quickly"),
    ],
)
def test_a_word_with_its_ending_is_english(word: str) -> None:
    assert english(word)


@pytest.mark.parametrize("word", ["zarvon", "iser", "zarvons", "runnor", "stapped"])
def test_what_no_ending_makes_a_word_of_is_none(word: str) -> None:
    assert not english(word)


def test_a_find_is_let_go_wherever_it_stands_in_an_allowed_phrase() -> None:
    allowed = AllowList(["Maria Lopez Clinic", "Vera"])
    text = "the María LOPEZ clinic, Vera"
    for word in ("María", "LOPEZ", "clinic", "María LOPEZ", "María LOPEZ clinic", "Vera"):
        start = text.index(word)
        assert allowed.allows(text, start, start + len(word)), word
    for other in ("the María", "clinic, Vera", "the"):
        start = text.index(other)
        assert not allowed.allows(text, start, start + len(other)), other
    assert not allowed.allows("Maria Lopez", 0, 5)
    assert not allowed.allows("Lopez Clinic", 0, 5)
    assert not AllowList().allows("Maria", 0, 5)
    assert AllowList(["Vera"]).allows("Vera said", 0, 4)


@pytest.mark.parametrize(
    "name", ["Maëlle Le Goff", "Carla De Zarvon", "Maria Lo Zarvon", "Carla Des Zarvon"]
)
def test_a_name_that_is_introduced_goes_on_behind_a_capital_particle(name: str) -> None:
    text = f"my name is {name}"
    (start, end), *_ = find_names(text, Runs(text))  # what is introduced comes first
    assert text[start:end] == name


@given(st.text(alphabet="abAB'--. 1\n", max_size=40))
def test_letters_with_a_hyphen_or_an_apostrophe_between_are_one_word(text: str) -> None:
    searched = list(re.finditer("[A-Za-z]+(?:['-][A-Za-z]+)*", text))
    words = _Words(text, Runs(text))
    assert words.written == [match[0] for match in searched]
    assert words.starts == [match.start() for match in searched]
    places = list(words.candidates())
    likely = {words.written[place] for place in places}
    assert places == [at for at, word in enumerate(words.written) if word in likely]
