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
