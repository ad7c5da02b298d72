"""Numbers that only count something, numbers in JSON, and refusals in words of their own."""

import pytest

from rootguard.channels.detection import Rules
from rootguard.channels.faults import fault_of
from rootguard.channels.text.channel import TextChannel
from rootguard.errors import BudgetError, TextBlockedError
from rootguard.session.person import Person
from rootguard.store import MemoryStore
from rootguard.values import Principal
from tests.support.channel_person import FAR, open_person


@pytest.fixture
def channel() -> TextChannel:
    return TextChannel(open_person(FAR), detectors=[Rules()])


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Turn 3: AST 23", "Turn 3: AST "),
        ("In chat 4, turn 17, my AST is 23 U/L.", "In chat 4, turn 17, my AST is "),
        ("Day 3: glucose 5.9 mmol/L", "Day 3: glucose "),
        ("Round 2: BP 134/64", "Round 2: BP "),
        ("Visit 2: AST 23", "Visit 2: AST "),
    ],
)
def test_a_number_that_counts_turns_passes_beside_a_root(
    channel: TextChannel, text: str, kept: str
) -> None:
    made = channel.sanitize(text)
    assert made.text.startswith(kept)
    assert made.text != text


def test_a_verb_before_a_number_counts_nothing(channel: TextChannel) -> None:
    with pytest.raises(TextBlockedError):
        channel.sanitize("I will visit 43 about my AST")


@pytest.mark.parametrize("text", ["Glucose again, 5.9 mmol/L.", "AST again 23"])
def test_again_does_not_part_a_name_from_its_number(channel: TextChannel, text: str) -> None:
    assert channel.sanitize(text).replaced == {"root": 1}


def test_a_verb_before_an_amount_is_no_part_of_a_record_number(channel: TextChannel) -> None:
    text = "The record has 7391.25 points"
    assert channel.sanitize(text).text == text
    with pytest.raises(TextBlockedError):
        channel.sanitize("My account has 7391.25")
    assert channel.sanitize("Her record AB 441588 is here").replaced == {"code": 1}


def test_a_record_number_in_json_stays_a_number_or_is_refused(channel: TextChannel) -> None:
    kept = 0
    for record in range(7391251, 7391291):
        try:
            made = channel.sanitize_json({"mrn": record}).value
        except TextBlockedError:
            continue
        assert isinstance(made, dict)
        assert type(made["mrn"]) is int
        assert made["mrn"] != record
        assert channel.restore(str(made["mrn"])) == str(record)
        kept += 1
    assert 20 < kept < 40  # some tokens begin with a zero, which no number in JSON does


def test_a_sign_and_a_fraction_are_kept_in_json(channel: TextChannel) -> None:
    for value in (-7391251, 7391.25, 60412.75):
        try:
            made = channel.sanitize_json({"mrn": value}).value
        except TextBlockedError:
            continue
        assert isinstance(made, dict)
        assert type(made["mrn"]) is type(value)
        assert made["mrn"] != value


def capped() -> Person:
    store = MemoryStore()
    store.set_cap(Principal("owner"), "", 1)
    return open_person(store=store)


def test_a_cap_is_refused_in_words_of_its_own() -> None:
    channel = TextChannel(capped())
    for attempt in (
        lambda: channel.sanitize("My AST is 23 U/L"),
        lambda: channel.sanitize_json({"ast": 23}),
    ):
        with pytest.raises(BudgetError) as refusal:
            attempt()
        assert fault_of(refusal.value).code == "budget_refused"
    assert channel.sanitize("Nothing private here").replaced == {}
