"""Whether a text has come to rest is seen from the neighbourhoods of its changes alone.

The law: what is made of a text is what is made of it when it is always read again as a whole.
"""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rootguard.channels.detection import Found, Rules
from rootguard.channels.text import channel as module
from rootguard.channels.text.channel import TextChannel, apply_edits
from rootguard.channels.text.edits import REACH, Edit, changes, neighbourhoods
from rootguard.errors import RootGuardError, TextBlockedError
from tests.support.amounts import examples
from tests.support.channel_person import open_person

SHARED = open_person()
PROSE = "The letter says that nothing needs to be done at once and asks for a word. "


class Whole(TextChannel):
    """Reads everything again, as if there were no neighbourhoods."""

    __slots__ = ()

    def _is_stable(self, *_: object) -> bool:
        return False


class Seen(TextChannel):
    """Notes whether a look at the neighbourhoods was enough."""

    __slots__ = ("enough",)

    def _is_stable(self, *asked: object) -> bool:
        self.enough = super()._is_stable(*asked)  # type: ignore[arg-type]
        return self.enough


SENTENCES = st.sampled_from(
    [
        *("My AST is 23.7 U/L. ", "BP 134/64 today! ", "glucose = 5.9 mmol/L\n", "I weigh 81 kg. "),
        *("height 5'11\" and age 57. ", "I am Jane Roe. ", "Roe, Jane called Dr. Wu. ", "J. Roe? "),
        *("Call (212) 555-0147 or +44 20 7946 0958. ", "born 14 March 1980. ", "MRN-4415-8820\n"),
        *(
            "Dr. Maria Lopez-Garcia said so. ",
            "Lopez, Maria ",
            "maria.lopez@example.com, ",
            "Prof. ",
        ),
        *("policy no. 4415 8820 1. ", "platelets 231 10^9/L; ", "AST and ALT are 23 and 30. "),
        *("My income is $85,000. ", "hemoglobin 13.1 g/dL (12-16). ", "AST 40, 41 and 42. "),
        *("| AST | ALT |\n| 23 | 30 |\n", "- AST: 23\n- ALT: 30\n", "Yours,\nPeter Miller\n"),
        *(
            "Peter ",
            "Miller ",
            "and ",
            "Version 2 has 14 pages. ",
            "K. ",
            "[number] ",
            "twenty-three ",
        ),
        *(
            "Mr. ",
            "AST ",
            "23 ",
            "Jane ",
            "phone ",
            "record: ",
            "4415 ",
            "my ",
            "\n\n",
            "U/L ",
            "e.g. ",
        ),
        *(PROSE, PROSE * 2, PROSE * 3, PROSE.replace(". ", ", "), "ÜBER ALLES, so Zoë. "),
    ]
)
TEXTS = st.lists(SENTENCES, min_size=6, max_size=30).map("".join)


def outcome(channel: TextChannel, text: str) -> tuple[str, dict[str, int]] | str:
    try:
        made = channel.sanitize(text)
    except RootGuardError as refusal:
        return type(refusal).__name__
    return made.text, dict(made.replaced)


@examples(steady=50, exploring=150)
@given(TEXTS)
def test_a_text_is_made_into_what_it_is_made_into_when_read_again_as_a_whole(text: str) -> None:
    ways = {"detectors": [Rules()], "near_private": "redact", "elsewhere": "redact"}
    made = outcome(TextChannel(SHARED, **ways), text)  # type: ignore[arg-type]
    assert made == outcome(Whole(SHARED, **ways), text)  # type: ignore[arg-type]
    if isinstance(made, tuple):
        again = outcome(Whole(SHARED, **ways), made[0])  # type: ignore[arg-type]
        assert again == (made[0], {})


@settings(deadline=None, max_examples=50)
@given(TEXTS)
def test_what_is_blocked_is_what_is_blocked_when_read_again_as_a_whole(text: str) -> None:
    made = outcome(TextChannel(SHARED, detectors=[Rules()]), text)
    assert made == outcome(Whole(SHARED, detectors=[Rules()]), text)


def test_for_a_long_text_with_few_mentions_the_neighbourhoods_are_enough() -> None:
    channel = Seen(SHARED, detectors=[Rules()])
    channel.sanitize(f"{PROSE * 6}My AST is 23 U/L, says Jane Roe. {PROSE * 6}")
    assert channel.enough


class Late:
    """Finds a word only once the name before it is gone."""

    def find(self, text: str) -> list[Found]:
        found = re.search("(?<!Jane Roe and )(?<!Jane Roe )zebra", text)
        return [] if found is None else [Found(found.start(), found.end(), "person")]


LATE = f"{PROSE * 6}So says Jane Roe and zebra. {PROSE * 6}"


def test_what_a_change_brings_about_beside_it_is_seen() -> None:
    assert "zebra" not in TextChannel(SHARED, detectors=[Late()]).sanitize(LATE).text


def test_without_neighbourhoods_it_would_not_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the law above can fail."""
    monkeypatch.setattr(module, "neighbourhoods", lambda *_: "Nothing. ")
    assert "zebra" in TextChannel(SHARED, detectors=[Late()]).sanitize(LATE).text


def _edit(start: int, end: int, text: str) -> Edit:
    return Edit(start=start, end=end, text=text, kind="root")


@given(st.lists(st.tuples(st.integers(0, 9), st.text("xyz", max_size=5)), max_size=6))
def test_changes_stand_where_the_edits_put_them(made: Sequence[tuple[int, str]]) -> None:
    text, edits, at = "abcdefghij" * 9, [], 0
    for gap, written in made:
        edits.append(_edit(at + gap, at + gap + 2, written))
        at += gap + 2
    after = apply_edits(text, edits)
    assert [after[slice(*place)] for place in changes(edits, 0)] == [w for _, w in made]


def test_a_neighbourhood_is_the_sentence_of_a_change() -> None:
    text = f"{PROSE * 4}Here it is, as it was. {PROSE * 4}"
    place = text.index("is, as")
    assert neighbourhoods(text, [(place, place + 2)]) == "Here it is, as it was. "


@pytest.mark.parametrize("telling", ["They spoke of 12 letters and of a word.", "It was Bell."])
def test_a_neighbourhood_takes_in_what_may_have_to_do_with_the_change(telling: str) -> None:
    text = f"{PROSE * 4}{telling} Here it is. {telling} {PROSE * 4}"
    place = text.index("Here")
    assert neighbourhoods(text, [(place, place + 4)]) == f"{telling} Here it is. {telling} "


def test_a_neighbourhood_ends_where_nothing_is_within_reach() -> None:
    far = "Of 12 letters " + "and a word " * (REACH // 8)
    text = f"{PROSE * 4}{far}. {far}. Here it is. {far}. {far}. {PROSE * 4}"
    place = text.index("Here")
    assert neighbourhoods(text, [(place, place + 4)]) == f"{far}. Here it is. {far}. "


def test_neighbourhoods_that_are_most_of_a_text_are_not_worth_it() -> None:
    assert neighbourhoods(PROSE, [(10, 12)]) is None


def test_three_quarters_of_a_text_are_not_yet_most_of_it() -> None:
    three, one = "a" * 298 + ". ", "b" * 98 + ". "
    assert neighbourhoods(three + one, [(0, 1)]) == three
    assert neighbourhoods(three + one[1:], [(0, 1)]) is None


class Restless:
    """Finds one thing more each time it looks."""

    def find(self, text: str) -> list[Found]:
        at = text.find("zebra")
        return [] if at < 0 else [Found(at, at + len("zebra"), "person")]


@pytest.mark.parametrize("after", ["", PROSE * 30])
def test_a_text_that_does_not_come_to_rest_is_refused(after: str) -> None:
    channel = TextChannel(open_person(), detectors=[Restless()])
    with pytest.raises(TextBlockedError):
        channel.sanitize("So says a zebra. " * (module._ROUNDS + 1) + after)


@pytest.mark.parametrize("after", ["", PROSE * 30])
def test_a_text_that_comes_to_rest_in_its_last_round_is_sent(after: str) -> None:
    channel = TextChannel(open_person(), detectors=[Restless()])
    made = channel.sanitize("So says a zebra. " * (module._ROUNDS - 1) + after)
    assert "zebra" not in made.text
    assert made.replaced == {"person": module._ROUNDS - 1}
