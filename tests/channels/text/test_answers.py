"""Answers to what is yes or no in texts and JSON: released, taken out, or another's."""

import pytest

from rootguard.channels.text.channel import TextChannel
from rootguard.session.person import Person
from rootguard.session.profile import parse_profile
from rootguard.store import MemoryStore

PROFILE = """
templates = ["ascvd"]
budget = "0.01"
[values]
smoker = {smoker}
female = true
"""


def channel(smoker: str = "false") -> TextChannel:
    profile = parse_profile(PROFILE.format(smoker=smoker), file="profile.toml")
    return TextChannel(Person.open(profile, store=MemoryStore(), on_clamp=lambda _roots: None))


@pytest.mark.parametrize(
    ("text", "may_leave"),
    [
        ("Smoker: no", {"Smoker: no", "Smoker: yes"}),
        ("current smoker = TRUE", {"current smoker = TRUE", "current smoker = FALSE"}),
        ("Sex: female", {"Sex: female", "Sex: male"}),
        ('{"smoker": false}', {'{"smoker": false}', '{"smoker": true}'}),
        ("I am a non-smoker", {"I [Smoker: yes]", "I [Smoker: no]"}),
        ("I'm a smoker.", {"I'm [Smoker: yes].", "I'm [Smoker: no]."}),
        ("Smoker: only at parties", {"Smoker: [answer]"}),
        ("Conditions: smoker", {"Conditions: [Smoker: yes]", "Conditions: [Smoker: no]"}),
        ("My risk of diabetes", {"My risk of diabetes"}),
        ("Is smoking bad for lungs?", {"Is smoking bad for lungs?"}),
        ("My father is a smoker: yes", {"My father is a smoker: yes"}),
        ("A smoker coughs 3 times", {"A smoker coughs 3 times"}),
    ],
)
def test_an_answer_is_released_in_its_own_form(text: str, may_leave: set[str]) -> None:
    made = [channel(smoker).sanitize(text, source="owner").text for smoker in ("true", "false")]
    assert set(made) <= may_leave


def test_an_answer_is_the_same_wherever_it_stands_and_when_it_is_read_again() -> None:
    one = channel()
    first = one.sanitize("Smoker: no", source="owner").text
    assert one.sanitize(first, source="owner").text == first
    truth = {"Smoker: yes": True, "Smoker: no": False}[first]
    assert one.sanitize_json({"smoker": False, "flag": False}).value == {
        "smoker": truth,
        "flag": False,
    }


def test_answers_of_many_people_do_not_tell_who_smokes() -> None:
    """With a small budget both answers come out; all alike has odds below 1e-10."""
    made = {channel().sanitize("Smoker: no", source="owner").text for _ in range(40)}
    assert made == {"Smoker: yes", "Smoker: no"}


def test_what_a_tool_says_of_a_root_without_a_value_is_taken_out() -> None:
    said = "diagnosed with diabetes: yes"
    assert channel().sanitize(said, source="tool").text == "diagnosed with diabetes: [answer]"
