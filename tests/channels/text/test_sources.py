"""Who may teach a value: what a text does that is not the owner's."""

import pytest

from rootguard.channels.detection import Rules
from rootguard.channels.text.channel import NumberPolicy, SourceReader, TextChannel
from rootguard.session.person import Person
from rootguard.session.profile import parse_profile
from rootguard.store import MemoryStore
from tests.support.channel_person import open_person, written

PROSE = "The letter says that nothing needs to be done at once and asks for a word. " * 8


@pytest.fixture
def person() -> Person:
    return open_person()


def untouched(person: Person) -> bool:
    """Whether nothing was noised and nothing was charged."""
    return not any(map(person.known, person.roots)) and not any(person.spent().values())


@pytest.mark.parametrize("policy", ["block", "redact", "pass"])
def test_anothers_number_for_a_root_without_a_value_is_taken_out_under_every_policy(
    person: Person, policy: NumberPolicy
) -> None:
    channel = TextChannel(person, near_private=policy, elsewhere="pass")
    made = channel.sanitize("Your AST is 271 U/L, BP 134/64. Version 3 is out.", source="tool")
    assert made.text == "Your AST is [number] U/L, BP [number]/[number]. Version 3 is out."
    assert made.missing == {"ast", "sbp", "dbp"}
    assert made.replaced == {"number": 3}
    assert channel.sanitize(made.text, source="tool").text == made.text
    assert untouched(person)


def test_anothers_document_teaches_nothing_by_its_keys(person: Person) -> None:
    channel = TextChannel(person)
    document = {
        "ast": 271,
        "labs": {"alt": {"value": 93, "unit": "U/L"}},
        "rows": [{"test": "Platelets", "result": 317}],
        "note": "AST was 271",
        "cats": 3,
    }
    made = channel.sanitize_json(document, source="tool")
    assert made.value == {
        "ast": "[number]",
        "labs": {"alt": {"value": "[number]", "unit": "U/L"}},
        "rows": [{"test": "Platelets", "result": "[number]"}],
        "note": "AST was [number]",
        "cats": 3,
    }
    assert made.missing == {"ast", "alt", "plt"}
    assert untouched(person)


def test_a_number_that_only_the_whole_path_binds_does_not_pass_by_its_last_key(
    person: Person,
) -> None:
    made = TextChannel(person).sanitize_json({"ast": {"latest": 271}}, source="tool")
    assert made.value == {"ast": {"latest": "[number]"}}
    assert untouched(person)


def test_the_owners_number_is_the_one_that_is_noised_and_anothers_text_then_gets_it() -> None:
    profile = parse_profile('templates = ["fib4"]\nbudget = "200"', file="me.toml")
    person = Person.open(profile, store=MemoryStore())
    channel = TextChannel(person)
    channel.sanitize("AST is 271 U/L", source="tool")
    channel.sanitize("My AST is 23 U/L")
    value = person.number("ast")
    assert abs(value - 23) < 2  # at this budget the noise hardly ever moves a value
    made = channel.sanitize("AST is 271 U/L", source="tool")
    assert made.text == f"AST is {written(person, 'ast')} U/L"
    assert made.missing == frozenset()


def test_a_remembered_text_of_another_is_read_again_once_the_root_has_a_value(
    person: Person,
) -> None:
    channel = TextChannel(person, detectors=[Rules()])
    text = f"{PROSE}Your AST is 271 U/L. {PROSE}"
    first = channel.sanitize(text, source="tool")
    assert "AST is [number] U/L" in first.text
    assert channel.sanitize(text, source="tool") == first
    person.sight("ast", 23)
    assert f"AST is {written(person, 'ast')} U/L" in channel.sanitize(text, source="tool").text


def test_a_text_is_remembered_apart_for_the_owner_and_for_others(person: Person) -> None:
    channel = TextChannel(person)
    text = f"{PROSE}My AST is 171 U/L. {PROSE}"
    assert "[number]" in channel.sanitize(text, source="tool").text
    assert not person.known("ast")
    assert "[number]" not in channel.sanitize(text).text
    assert person.known("ast")


@pytest.mark.parametrize(
    "said",
    [
        "AST: 171.37 U/L",
        '{"labs": [{"test": "AST", "result": 171.37, "units": "U/L"}]}',
        {"labs": {"ast": 171.37}},
        f"{PROSE}AST 171.37 U/L. {PROSE}",
    ],
)
def test_a_trusted_source_teaches_and_is_neither_released_nor_remembered(
    person: Person, said: object
) -> None:
    reader = SourceReader(person, detectors=[Rules()])
    reader.learn(said)
    assert [root for root in person.roots if person.known(root)] == ["ast"]
    assert person.transcript() == ()
    assert not reader._memory._entries


def test_a_source_cannot_change_a_value_nor_pass_an_identifier_for_one(person: Person) -> None:
    channel, reader = TextChannel(person), SourceReader(person)
    channel.sanitize("My AST is 23")
    before = person.release("ast")
    reader.learn("AST 271. Jane Roe, ALT MRN-4415-8820")
    assert person.release("ast") == before
    assert not person.known("alt")


def test_a_prompt_keeps_its_desks_and_loses_what_is_somebodys(person: Person) -> None:
    channel = TextChannel(person, detectors=(Rules(),))
    prompt = "Mail support@clinic.org, or ann.lee@clinic.org if nobody answers."
    left = channel.sanitize(prompt, source="developer").text
    assert "support@clinic.org" in left
    assert "ann.lee@clinic.org" not in left
