"""Restoring in pieces: the same text as restoring it whole, however it is cut, and little held.

Planted registries choose the text of their tokens, so that tokens overlap, nest and begin with
marks, which drawn tokens seldom do.
"""

import copy
import pickle
import threading
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootguard.errors import IdentifierError
from rootguard.identifiers import Identifiers, IssuedToken, Kind, MemoryTokens
from rootguard.identifiers.registry import INITIALS, TIED_WORDS, Seal, TokenIndex, name_chunks
from rootguard.identifiers.streaming import Lookup, StreamRestorer
from tests.support.amounts import examples

KEY = bytes(range(32))
OTHER_KEY = bytes(range(1, 33))
PRIVATE: dict[str, Kind] = {
    "4415-8820": "code", "4415": "code", "88": "code", "AB 12/7": "code",
    "+49 30 1234567": "phone", "(212) 555-0199": "phone",
    "2024-03-05": "date", "March 5, 2024": "date",
    "ann@mail.example.org": "email", "jörg.x@klinik.de": "email",
    "Maria Q. Lopez": "person", "Anna-Lena O'Brien": "person", "J. R. R. Zyxwv": "person",
    "LEE": "person",
}  # fmt: skip


def issuer() -> tuple[Identifiers, dict[str, str]]:
    identifiers = Identifiers(KEY)
    return identifiers, {text: identifiers.protect(kind, text) for text, kind in PRIVATE.items()}


def planted(codes: Iterable[str], words: Iterable[str] = ()) -> Identifiers:
    """Identifiers that issued these very tokens; a word stands for itself reversed, in capitals."""
    store, seal = MemoryTokens(), Seal(KEY)
    for token in codes:
        store.add(seal.close("code", token, b"\0"))
    for word in words:
        store.add(seal.close("person", word, word[::-1].upper().encode()))
    return Identifiers(KEY, store)


def streamed(identifiers: Identifiers, pieces: Iterable[str]) -> str:
    """All that comes out; on the way, no more is held than the stream says."""
    stream = identifiers.stream()
    most = stream.longest_hold
    shown = []
    for piece in pieces:
        shown.append(stream.feed(piece))
        assert stream.held <= most
    shown.append(stream.close())
    assert stream.held == 0
    return "".join(shown)


def cut(text: str, places: Iterable[int]) -> list[str]:
    ends = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(ends)]


def most_held(identifiers: Identifiers, text: str) -> int:
    stream = identifiers.stream()
    held = []
    for character in text:
        stream.feed(character)
        held.append(stream.held)
    return max(held)


ISSUER, TOKENS = issuer()
FORGED = [
    token.translate(str.maketrans("0123456789", "1234567890")) for token in TOKENS.values()
] + [token[:-1] for token in TOKENS.values()]
FOREIGN = [Identifiers(OTHER_KEY).protect(kind, text) for text, kind in PRIVATE.items()]
PLAIN = [
    "the", "Plan", "K", "I", "A", "Dr", "van", "don't", "s", "12", "1,441", "3.5", "7", "ü", "ß",
    "e\u0301", "\u0301", "患者", "\U0001f600", "\ud800", "\x00", "²", "٣", "İ", "_", "",
]  # fmt: skip
GLUE = [
    " ", " ", " ", "", ". ", ".", ", ", ",", "-", "'", "\u2019", "'s ", ":", "/", "@", "_", "+",
    "\n", " K. ", "**", "(", ")",
]  # fmt: skip
WORDS = [word for token in TOKENS.values() for word in token.replace("-", " ").split()]
REPLY = st.lists(
    st.tuples(
        st.one_of(
            st.sampled_from(list(TOKENS.values())),
            st.sampled_from(WORDS),
            st.sampled_from(FORGED + FOREIGN),
            st.sampled_from(PLAIN),
            st.text(max_size=4),
        ),
        st.sampled_from(GLUE),
    ),
    max_size=10,
).map(lambda parts: "".join(word + glue for word, glue in parts))
PLACES = st.lists(st.integers(0, 1000), max_size=12)


# The law


@examples(steady=200, exploring=800)
@given(REPLY, PLACES)
def test_any_reply_in_any_pieces_comes_out_as_when_restored_whole(
    text: str, places: list[int]
) -> None:
    whole = ISSUER.restore_text(text)
    assert streamed(ISSUER, text) == whole
    assert streamed(ISSUER, cut(text, places)) == whole


TINY = st.text("12Ka .-'", min_size=1, max_size=6).filter(lambda text: any(map(str.isalnum, text)))
NAMES = st.sampled_from(["Ma", "Kim", "Lee", "a", "K", "M", "é", "de", "Maa"])


@examples(steady=200, exploring=800)
@given(st.data(), st.sets(TINY, max_size=12), st.sets(NAMES, max_size=6), PLACES)
def test_tokens_that_overlap_nest_or_begin_with_marks_follow_the_same_law(
    data: st.DataObject, codes: set[str], names: set[str], places: list[int]
) -> None:
    identifiers = planted(codes - names, names)
    part = st.one_of(
        st.sampled_from(sorted(codes | names) or ["x"]),
        st.sampled_from([" ", ".", "-", "'s", ",", ". ", "K. ", "Dr-", "van-"]),
        st.text("12KMa .,-'’:/@_é+", max_size=3),
    )
    text = "".join(data.draw(st.lists(part, max_size=14)))
    whole = identifiers.restore_text(text)
    assert streamed(identifiers, text) == whole
    assert streamed(identifiers, cut(text, places)) == whole


def curated() -> dict[str, str]:
    """Replies and what they mean."""
    maria, initial, lopez = TOKENS["Maria Q. Lopez"].split()
    q = initial[0]
    tied = TOKENS["Anna-Lena O'Brien"]
    code, short, phone = (TOKENS[text] for text in ("4415-8820", "4415", "+49 30 1234567"))
    date, worded = TOKENS["2024-03-05"], TOKENS["March 5, 2024"]
    mail = TOKENS["ann@mail.example.org"]
    return {
        f"Ms. {lopez} called {maria}'s office.": "Ms. Lopez called Maria's office.",
        f"{q}. {lopez}, {maria} {q} {lopez} and {maria} {q}.": "Q. Lopez, Maria Q Lopez and "
        "Maria Q.",
        f"Plan {q}. works; {q} {lopez}": f"Plan {q}. works; {q} Lopez",
        f"{lopez}-based {maria}-{lopez}": f"{lopez}-based Maria-Lopez",
        f"foo-{q}. {lopez}\u2019s file": "foo-Q. Lopez\u2019s file",
        f"Dr {tied}'s and Dr-{maria}.": "Dr Anna-Lena O'Brien's and Dr-Maria.",
        f"see {code}. {short}, 1,{short} {short},000 +{short} {short}:30 {short}.": "see "
        f"4415-8820. 4415, 1,{short} {short},000 +{short} {short}:30 4415.",
        f"{code},7 {code}-9 x{code} /p/{code}/v": f"4415-8820,7 {code}-9 x{code} /p/4415-8820/v",
        f"call {phone} on {date} or {worded}": "call +49 30 1234567 on 2024-03-05 or March 5, 2024",
        f"<{mail}> {mail}.": "<ann@mail.example.org> ann@mail.example.org.",
        f"{maria}\u0301 {lopez}ü \U0001f600{code}患者": f"{maria}\u0301 {lopez}ü \U0001f600{code}"
        "患者",
        "": "",
        "No identifiers here: 12345678, \ud800, \x00.": "No identifiers here: 12345678, \ud800, "
        "\x00.",
    }


@pytest.mark.parametrize(("said", "meant"), curated().items())
def test_every_cut_in_two_and_single_characters_give_what_is_meant(said: str, meant: str) -> None:
    assert ISSUER.restore_text(said) == meant
    assert streamed(ISSUER, said) == meant
    for place in range(len(said) + 1):
        assert streamed(ISSUER, [said[:place], "", said[place:]]) == meant


def test_restoring_each_piece_by_itself_breaks_the_law() -> None:
    """A control: the cuts above do fall where it matters."""
    broken = [
        said
        for said, meant in curated().items()
        if any(
            ISSUER.restore_text(said[:place]) + ISSUER.restore_text(said[place:]) != meant
            for place in range(len(said))
        )
    ]
    assert len(broken) > len(curated()) - 4


@pytest.mark.parametrize(
    ("codes", "words", "text"),
    [
        (["1 2", "2 3 4", "3 4 5 6"], [], "1 2 3 4 5 6"),
        (["1 2", "2 3 4", "3 4 5 6"], [], "1 2 3 4 5 7"),
        (["8 1", "1 2 3", "3 4 5 6", "6 7 8 9 0"], [], "8 1 2 3 4 5 6 7 8 9 0"),
        (["8 1", "1 2 3", "3 4 5 6", "6 7 8 9 0"], [], "8 1 2 3 4 5 6 7 8 9 1"),
        (["7777 7777 Maria-", "-Anna K. 9"], ["Maria", "Lopez", "Anna", "K"],
         "7777 7777 Maria-Lopez-Anna K. 7777 7777 Maria-Lopez-Anna K. 9"),
        (["77 K"], ["Lopez", "K"], "77 K. Lopez 77 K. x 77 K"),
        (["77 Maria"], ["Maria", "Lopez", "K"], "77 Maria's K. 77 Maria K. K. 77 Maria-Lopez K."),
        (["K. 77", "K"], ["Lopez", "J"], "J. K. 77 J. K Lopez K. 7 K."),
        ([], ["Lopez", "K"], "K. K.-K. Lopez K.K. K. x K. K. " + "K. " * 20 + "Lopez K"),
        ([], ["Maria", "van"], "van-Maria VAN-Maria Maria-van Dr-Maria-Jr's O'Maria a-Maria"),
    ],
)  # fmt: skip
def test_tokens_in_each_others_way_are_sorted_out_as_in_the_whole_text(
    codes: list[str], words: list[str], text: str
) -> None:
    identifiers = planted(codes, words)
    whole = identifiers.restore_text(text)
    assert whole != text
    assert streamed(identifiers, text) == whole
    for place in range(len(text) + 1):
        assert streamed(identifiers, [text[:place], text[place:]]) == whole


def test_altered_and_foreign_tokens_pass_untouched() -> None:
    ours = set(TOKENS.values()) | set(WORDS)
    tried = 0
    for token in FORGED + FOREIGN:
        if not ours.isdisjoint({token, *token.replace("-", " ").split()}):
            continue  # by chance also one of ours
        tried += 1
        assert streamed(ISSUER, f"see {token}.") == f"see {token}."
    assert tried > 20


# What is held


def test_what_begins_no_token_passes_at_once() -> None:
    stream = ISSUER.stream()
    for piece in ("Hello, ", "world ", "this is ", "plain text. ", "Zebra ", "x ", "12 345 "):
        assert stream.feed(piece) == piece
    assert stream.feed("Zeb") == "Zeb"
    assert stream.feed("ra") == "ra"


@pytest.mark.parametrize("text", PRIVATE)
def test_a_token_passes_as_soon_as_it_stands_alone(text: str) -> None:
    stream = ISSUER.stream()
    assert stream.feed(TOKENS[text] + " ") == text + " "


def test_a_name_word_waits_only_while_it_may_become_one() -> None:
    stream = planted([], ["Lopez", "K"]).stream()
    assert stream.feed("a Lop") == "a "
    assert stream.feed("s") == "Lops"
    assert stream.feed(" K. ") == " "
    assert stream.feed("No") == "K. No"
    assert stream.feed(" K. Lop") == " "
    assert stream.feed("ez,") == "K. ZEPOL,"


def test_the_longest_hold_of_a_token_is_itself_and_the_character_after_it() -> None:
    identifiers = planted(["4415-8820", "12"])
    assert identifiers.stream().longest_hold == len("4415-8820") + 1
    assert most_held(identifiers, "see 4415-8820- and 12.") == len("4415-8820") + 1


def test_the_longest_hold_of_overlapping_tokens_is_their_whole_stretch() -> None:
    tokens = ["1 2", "2 3 4", "3 4 5 6"]
    assert planted(tokens).stream().longest_hold == len("1 2 3 4 5 6") + 1
    assert most_held(planted(tokens), "1 2 3 4 5 6-") == len("1 2 3 4 5 6") + 1


def test_the_longest_hold_of_a_name_is_all_its_words_and_initials() -> None:
    word = "Lopezlopezlopez"
    identifiers = planted([], [word, "K"])
    text = "K. " * INITIALS + "-".join([word] * TIED_WORDS) + "-x"
    most = identifiers.stream().longest_hold
    assert most == INITIALS * 3 + TIED_WORDS * (len(word) + 1)
    assert most_held(identifiers, text) == most
    assert most_held(identifiers, "K. " * 99 + "-".join([word] * 99)) <= most


def test_a_name_between_two_tokens_that_overlap_it_counts_in_the_longest_hold() -> None:
    word = "Lopezlopezlopez"
    before, behind = "7" * 90 + f" {word}", f"-{word} " + "5" * 180
    identifiers = planted([before, behind], [word])
    text = f"{before}'s'{word}" + f"-{word}" * 4 + behind
    most = identifiers.stream().longest_hold
    assert len(text) - 1 <= most_held(identifiers, text) <= most
    assert streamed(identifiers, text) == identifiers.restore_text(text)


def test_nothing_is_ever_held_when_nothing_was_issued() -> None:
    identifiers = Identifiers(KEY)
    assert identifiers.stream().longest_hold == 0
    assert most_held(identifiers, "Dr. K. Lopez, 4415-8820, a-b") == 0


def test_no_more_words_or_initials_belong_to_a_name_than_a_stream_can_wait_for() -> None:
    identifiers = planted([], ["Lopez", "K"])
    name = "-".join(["Lopez"] * TIED_WORDS)
    assert streamed(identifiers, name) == identifiers.restore_text(name) == name[::-1].upper()
    assert identifiers.restore_text(f"{name}-Lopez") == f"{name}-Lopez"
    before = identifiers.restore_text("K. " * (INITIALS + 1) + "Lopez")
    assert before == "K. " * (INITIALS + 1) + "ZEPOL"


def test_a_long_reply_is_looked_at_once_and_not_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[int] = []

    def counting(text: str, first: int = 0) -> list[tuple[int, int]]:
        looked.append(len(text))
        return name_chunks(text, first)

    monkeypatch.setattr("rootguard.identifiers.streaming.name_chunks", counting)
    reply = " and plain words, 3.5 mg, ".join(list(TOKENS.values()) * 150)
    pieces = [reply[start : start + 3] for start in range(0, len(reply), 3)]
    assert len(reply) > 80_000
    streamed(ISSUER, pieces)
    # Every piece is looked at with the little before it: 3 new characters, a few times that.
    assert sum(looked) < 5 * len(reply)
    assert max(looked) < 60


# The stream itself


def test_tokens_issued_while_the_text_arrives_count_from_then_on() -> None:
    identifiers = Identifiers(KEY)
    stream = identifiers.stream()
    token = Identifiers(KEY).protect("code", "4415-8820")
    assert stream.feed(f"{token} ") == f"{token} "
    assert identifiers.protect("code", "4415-8820") == token
    name = identifiers.protect("person", "Zyxwv")
    assert stream.feed(f"{token} {name}!") + stream.close() == "4415-8820 Zyxwv!"


def test_tokens_that_another_process_issued_count_in_the_next_stream() -> None:
    store = MemoryTokens()
    reader, writer = Identifiers(KEY, store), Identifiers(KEY, store)
    token = writer.protect("code", "4415-8820")
    assert streamed(reader, token) == "4415-8820"


def test_a_closed_stream_gives_no_more_and_takes_no_more() -> None:
    stream = ISSUER.stream()
    assert stream.feed(TOKENS["4415"]) == ""
    assert stream.close() == "4415"
    assert stream.close() == ""
    with pytest.raises(IdentifierError, match="closed"):
        stream.feed("x")


class Failing(MemoryTokens):
    """A registry that can be out of reach."""

    failing = False

    def find(self, token: str) -> IssuedToken | None:
        if self.failing:
            raise OSError
        return super().find(token)

    def __len__(self) -> int:
        if self.failing:
            raise OSError
        return super().__len__()


def test_plain_text_asks_nothing_of_the_registry() -> None:
    store = Failing()
    identifiers = Identifiers(KEY, store)
    for text, kind in PRIVATE.items():
        identifiers.protect(kind, text)
    stream = identifiers.stream()
    store.failing = True
    text = "Plain text, Dr. K. Smith, 12-34, a@b.org, 5 March. "
    assert "".join(map(stream.feed, text)) == text


def test_a_piece_during_which_the_registry_failed_can_be_given_again() -> None:
    entry = IssuedToken(kind="code", token="7731-0042", sealed=b"")
    failing = [True]

    def token(_: str) -> str | None:
        if failing:
            raise OSError
        return "4415-8820"

    stream = StreamRestorer(
        Lookup(
            lock=threading.RLock(),
            index=lambda: TokenIndex([entry]),
            token=token,
            name=lambda _: None,
            initial=lambda _: None,
        )
    )
    assert stream.feed("see 7731-0042") == "see "
    with pytest.raises(OSError):  # noqa: PT011
        stream.feed(" now")
    failing.clear()
    assert stream.feed(" now") == "4415-8820 now"


def test_a_token_that_is_known_here_is_restored_while_the_registry_is_out_of_reach() -> None:
    store = Failing()
    identifiers = Identifiers(KEY, store)
    token = identifiers.protect("code", "4415-8820")
    stream = identifiers.stream()
    store.failing = True
    assert stream.feed(f"see {token} now") + stream.close() == "see 4415-8820 now"


def test_two_streams_of_one_issuer_do_not_mix() -> None:
    token = TOKENS["4415-8820"]
    first, second = ISSUER.stream(), ISSUER.stream()
    assert [first.feed(token[:4]), second.feed("xx"), first.feed(token[4:])] == ["", "xx", ""]
    assert [first.close(), second.close()] == ["4415-8820", ""]


def test_a_stream_shows_nothing_and_cannot_be_copied() -> None:
    stream = ISSUER.stream()
    stream.feed(TOKENS["4415"])
    assert repr(stream) == "<stream that holds 4 characters back>"
    for copier in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            copier(stream)
