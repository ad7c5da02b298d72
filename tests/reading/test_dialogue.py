"""What one text of a conversation leads a reader to expect of the next."""

from rootguard.reading.claims import Dialogue, Expectation, Heard
from rootguard.values import RootName

AGE, AST, WT = RootName("age"), RootName("ast"), RootName("wt")


def test_a_question_is_answered_by_the_owners_next_number() -> None:
    dialogue = Dialogue()
    dialogue.heard("model", Heard(asked=(AGE, AST), asks=True))
    assert dialogue.expectation("owner").asked == (AGE, AST)
    dialogue.heard("owner", Heard(numbers=True, answered=(AGE,)))
    assert dialogue.expectation("owner").asked == (AST,)
    dialogue.heard("owner", Heard(numbers=True, answered=(AST,)))
    assert dialogue.expectation("owner").asked == ()


def test_a_question_is_dropped_after_three_texts_without_a_number() -> None:
    dialogue = Dialogue()
    dialogue.heard("model", Heard(asked=(AGE,), asks=True))
    for _ in range(2):
        dialogue.heard("owner", Heard())
    assert dialogue.expectation("owner").asked == (AGE,)
    dialogue.heard("owner", Heard())
    assert dialogue.expectation("owner").asked == ()


def test_a_name_at_the_end_waits_for_its_number() -> None:
    dialogue = Dialogue()
    dialogue.heard("owner", Heard(dangling=(AST,), spoken_of=(AST,)))
    assert dialogue.expectation("owner").asked == (AST,)
    dialogue.heard("owner", Heard(numbers=True, answered=(AST,)))
    assert dialogue.expectation("owner").asked == ()


def test_a_tools_result_is_about_what_its_call_names() -> None:
    dialogue = Dialogue()
    dialogue.called("c1", [WT, WT, AGE])
    assert dialogue.expectation("tool", "c1") == Expectation(asked=(WT, AGE))
    assert dialogue.expectation("tool", "c2") == Expectation()


def test_the_last_quantity_spoken_of_is_the_last_topic() -> None:
    dialogue = Dialogue()
    dialogue.heard("owner", Heard(spoken_of=(AST, WT)))
    dialogue.heard("owner", Heard(spoken_of=(AST,)))
    assert dialogue.expectation("owner").topic == (WT, AST)
    assert dialogue.expectation("model").topic == (WT, AST)


def test_a_question_about_it_asks_for_the_only_topic() -> None:
    dialogue = Dialogue()
    dialogue.heard("owner", Heard(spoken_of=(AST,)))
    dialogue.heard("model", Heard(asks=True))
    assert dialogue.expectation("owner").asked == (AST,)


def test_a_header_waits_for_its_rows() -> None:
    dialogue = Dialogue()
    dialogue.heard("owner", Heard(header="AST | ALT"))
    assert dialogue.expectation("owner").header == "AST | ALT"
    dialogue.heard("owner", Heard(numbers=True))
    assert dialogue.expectation("owner").header == ""


def test_the_header_of_a_table_is_in_no_repr() -> None:
    """It is the writer's own line: "Jane Roe | AST | ALT"."""
    dialogue = Dialogue()
    dialogue.heard("owner", Heard(header="Jane Roe | AST | ALT"))
    assert dialogue.expectation("owner").header == "Jane Roe | AST | ALT"
    assert "Roe" not in repr(Heard(header="Jane Roe | AST | ALT"))
    assert "Roe" not in repr(dialogue.expectation("owner"))
    assert "Roe" not in repr(dialogue)


def test_the_last_eight_quantities_that_were_spoken_of_are_the_topic() -> None:
    dialogue = Dialogue()
    names = tuple(RootName(f"root{place}") for place in range(10))
    for name in names:
        dialogue.heard("owner", Heard(spoken_of=(name,)))
    assert dialogue.expectation("owner").topic == names[2:]
    assert dialogue.expectation("model").recent == names[-1:]


def test_of_a_prompt_only_a_header_and_a_list_of_names_are_kept() -> None:
    dialogue = Dialogue()
    dialogue.heard("developer", Heard(dangling=(AST,), header="age,ast"))
    assert dialogue.expectation("owner") == Expectation(header="age,ast")
    dialogue.heard("developer", Heard(dangling=(AST, WT), asked=(AGE,), asks=True))
    assert dialogue.expectation("owner") == Expectation(header="age,ast", mentioned=(AST, WT))


def test_a_count_that_is_asked_for_is_no_value() -> None:
    dialogue = Dialogue()
    dialogue.heard("model", Heard(any_values=True))
    assert dialogue.expectation("owner").any_values
    dialogue.heard("model", Heard(any_values=True, elsewhere=True))
    assert dialogue.expectation("owner") == Expectation(elsewhere=True)
    dialogue.heard("model", Heard(elsewhere=True, named=(AST,)))
    assert dialogue.expectation("owner") == Expectation(mentioned=(AST,))


def test_a_count_takes_the_place_of_what_was_asked_for_before() -> None:
    dialogue = Dialogue()
    dialogue.heard("model", Heard(asked=(AGE,), asks=True))
    dialogue.heard("model", Heard(elsewhere=True, asks=True))
    assert dialogue.expectation("owner") == Expectation(elsewhere=True)


def test_who_told_of_another_is_asked_for_the_same() -> None:
    dialogue = Dialogue()
    dialogue.heard("owner", Heard(anothers=(WT,)))
    dialogue.heard("model", Heard(asks=True))
    assert dialogue.expectation("owner").asked == (WT,)
    for heard in (Heard(asks=True, anothers=(WT,)), Heard(asks=True, named=(WT,)), Heard()):
        other = Dialogue()
        other.heard("owner", Heard(anothers=(WT,)))
        other.heard("model", heard)
        assert other.expectation("owner").asked == ()


def test_a_question_about_it_asks_for_none_of_two_topics() -> None:
    dialogue = Dialogue()
    dialogue.heard("owner", Heard(spoken_of=(AST, WT)))
    dialogue.heard("model", Heard(asks=True))
    assert dialogue.expectation("owner").asked == ()


def test_a_number_that_answers_nothing_ends_the_question() -> None:
    dialogue = Dialogue()
    dialogue.heard("model", Heard(asked=(AGE, AST), asks=True))
    dialogue.heard("owner", Heard(numbers=True))
    assert dialogue.expectation("owner").asked == ()


def test_a_question_ends_a_header_and_a_name_that_waited() -> None:
    dialogue = Dialogue()
    dialogue.heard("owner", Heard(header="age,ast"))
    dialogue.heard("owner", Heard(dangling=(AST,)))
    assert dialogue.expectation("owner") == Expectation(asked=(AST,), header="age,ast")
    dialogue.heard("model", Heard(asked=(AGE,), asks=True))
    assert dialogue.expectation("owner") == Expectation(asked=(AGE,))


def test_a_call_on_the_owners_numbers_is_worked_on_them() -> None:
    dialogue = Dialogue()
    dialogue.called("c1", [], worked=True)
    assert dialogue.expectation("tool", "c1").worked
    assert dialogue.expectation("trusted", "c1").worked
    assert not dialogue.expectation("tool", "c2").worked
    assert not dialogue.arguments([]).worked
    dialogue.heard("owner", Heard(spoken_of=(AST,)))
    assert dialogue.arguments([]).worked
    assert dialogue.arguments([AST]) == Expectation(asked=(AST,))
