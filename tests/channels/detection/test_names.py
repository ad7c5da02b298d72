"""What the rules find in short texts: names above all, and whatever else may stand there."""

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
