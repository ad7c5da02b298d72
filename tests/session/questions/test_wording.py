"""How words are compared: without case, accents, punctuation and plurals."""

import pytest

from rootguard.session.questions.wording import stemmed, words_of


@pytest.mark.parametrize(
    ("word", "stem"),
    [
        *(("therapies", "therapy"), ("flies", "fly"), ("ties", "tie"), ("dies", "die")),
        *(("doses", "dose"), ("cups", "cup"), ("gas", "gas"), ("bus", "bus"), ("was", "was")),
        *(("mass", "mass"), ("dose", "dose"), ("platelet", "platelet"), ("", "")),
    ],
)
def test_a_plural_ending_is_taken_off_words_that_are_long_enough(word: str, stem: str) -> None:
    assert stemmed((word, "dose")) == (stem, "dose")


def test_a_text_is_its_words_without_case_accents_and_points() -> None:
    assert words_of("What's my Âge, e.g. in 2020?") == ("whats", "my", "age", "eg", "in", "2020")
    assert words_of("AST2 / ALT") == ("ast", "2", "alt")
