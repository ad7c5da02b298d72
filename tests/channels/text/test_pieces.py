"""Long texts are read in pieces, with the result that reading them at once would have."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rootguard.channels.detection import Rules
from rootguard.channels.text import channel as channel_module
from rootguard.channels.text.channel import TextChannel
from rootguard.channels.text.pieces import window_at
from rootguard.errors import TextBlockedError
from rootguard.session import Person, parse_profile
from rootguard.store import MemoryStore
from tests.support.amounts import examples

PROFILE = """
templates = ["fib4", "homa"]
budget = "2"

[values]
age = 54
ast = 23
alt = 30
plt = 220
glu = 106
ins = 11

[identifiers]
name = "Jane Roe"
record = "KZ-8841730"
"""
SIZE, AROUND = 1600, 500
"""Pieces share more than 50 tokens and 300 characters on either side, which weights look at."""


@contextmanager
def in_pieces(size: int = SIZE, overlap: int = AROUND) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(channel_module, "MAX_CHARACTERS", size)
        patch.setattr(channel_module, "OVERLAP", overlap)
        yield


def open_channel() -> TextChannel:
    profile = parse_profile(PROFILE, file="me.toml")
    person = Person.open(profile, store=MemoryStore(), on_clamp=lambda roots: None)
    return TextChannel(person, detectors=(Rules(),), near_private="redact")


SENTENCES = st.sampled_from(
    [
        "I am Jane Roe and my AST is 23 U/L.",
        "My record is KZ-8841730, please.",
        "The platelets were 220 in March; ALT 30.",
        "Call Mr. Peter Miller at +1 415 555 0132 or write to p.miller@example.org.",
        "Nothing to see here, at all, whatever one may think of it.",
        "I am 54 years old.",
        "Fasting glucose 106 mg/dL, insulin 11.",
        "| test | AST |\n|---|---|\n| a | 23 |\n| b | 23 |",
        "Use 2 spaces.",
    ]
)
GAPS = st.sampled_from([" ", " ", "\n", "\n\n", "\n \n"])


@examples(steady=8, exploring=25)
@given(st.lists(st.tuples(SENTENCES, GAPS), min_size=45, max_size=90))
def test_a_text_in_pieces_becomes_what_it_becomes_at_once(parts: list[tuple[str, str]]) -> None:
    # A table's last row has a line of its own: one that runs on into prose has no certain cells.
    text = "".join(each + ("\n" if "|" in each else gap) for each, gap in parts)
    channel = open_channel()
    whole = channel.sanitize(text)
    with in_pieces():
        pieced = open_channel_of(channel).sanitize(text)
    assert pieced.text == whole.text
    assert dict(pieced.replaced) == dict(whole.replaced)


def open_channel_of(channel: TextChannel) -> TextChannel:
    """Another channel of the same person: with the same tokens, and without its memory."""
    return TextChannel(channel._person, detectors=(Rules(),), near_private="redact")


@settings(deadline=None, max_examples=150)
@given(
    st.text(alphabet="ab1. \n|,", min_size=1, max_size=600),
    st.integers(40, 120),
    st.integers(1, 10),
)
def test_windows_cover_a_text_and_are_never_too_long(text: str, size: int, overlap: int) -> None:
    at = 0
    while at < len(text):
        try:
            window = window_at(text, at, size, overlap)
        except TextBlockedError:
            return
        assert window.begin == at < window.end
        assert len(window.text) <= size
        inside = window.text[window.begin - window.shift : window.end - window.shift]
        assert inside == text[window.begin : window.end]
        at = window.end
    assert at == len(text)


def test_a_cell_is_bound_by_a_header_that_is_pieces_away() -> None:
    rows = "".join(f"Monday,{2000 + day % 9},fine\n" for day in range(200))
    text = f"Results:\n\nDay,AST,Note\n{rows}"
    channel = open_channel()
    whole = channel.sanitize(text)
    with in_pieces():
        assert open_channel_of(channel).sanitize(text).text == whole.text
    assert whole.replaced["root"] == 200, "the header binds every row"


def test_an_identifier_at_a_border_is_not_cut() -> None:
    channel = open_channel()
    for size in range(300, 340):
        text = "word " * 50 + "I am Jane Roe today. " * 20
        with in_pieces(size, 60):
            made = open_channel_of(channel).sanitize(text).text
        assert "Jane" not in made
        assert "Roe" not in made
        assert channel.restore(made) == text


def test_a_place_is_told_in_the_whole_text() -> None:
    profile = parse_profile(PROFILE, file="me.toml")
    person = Person.open(profile, store=MemoryStore(), on_clamp=lambda roots: None)
    channel = TextChannel(person, near_private="block")
    text = "Hello there.\n" * 300 + "My ferritin level was 480.1736 ng/mL." + " Bye." * 300
    with in_pieces(), pytest.raises(TextBlockedError) as caught:
        channel.sanitize(text, context="note: ")
    assert text[caught.value.start : caught.value.end] == "480.1736"


def test_a_text_over_a_million_characters_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    channel = open_channel()
    read: list[int] = []
    issued = Person.issued

    def watched(self: Person, text: str) -> list[tuple[int, int]]:
        read.append(len(text))
        return issued(self, text)

    monkeypatch.setattr(Person, "issued", watched)
    filler = "Nothing to see here. " * 50 + "\n\n"
    text = filler * 960 + "I am Jane Roe and my AST is 2323 U/L.\n"
    assert len(text) > 1_000_000
    made = channel.sanitize(text, source="tool")
    assert max(read) <= channel_module.MAX_CHARACTERS
    assert "Roe" not in made.text
    assert "AST is 2323 " not in made.text
    assert made.text.startswith(filler * 900)
