"""What stands behind the label of a yes or no, a category or a day and is no answer of it."""

import pytest

from rootguard.channels.text.explanation import Explainer
from rootguard.template import load_template


def answers(text: str) -> list[str]:
    explainer = Explainer([load_template("ascvd")], answers=True)
    found, _ = explainer.explain(text, source="owner")
    return [text[each.start : each.end] for each in found if each.root == "smoker"]


@pytest.mark.parametrize(
    ("said", "found"),
    [("only at parties", True), ("x" * 80, True), ("x" * 81, False), ("<unknown>", False)],
)
def test_any_short_text_behind_a_label_is_taken_for_an_answer(said: str, found: bool) -> None:
    assert answers(f"Smoker: {said}") == ([said] if found else [])


def test_a_label_with_nothing_behind_it_has_no_answer() -> None:
    assert set(answers("Smoker: , ")) <= {"Smoker"}  # the word itself says so already
