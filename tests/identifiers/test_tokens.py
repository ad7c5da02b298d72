"""Tokens in replies are restored where they stand alone; laws over any text, name and sentence."""

import threading
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rootguard.errors import IdentifierError
from rootguard.identifiers import Identifiers, Kind
from tests.support.amounts import examples
from tests.support.identifier_makers import GIVEN, MAKERS, SURNAMES, UNLISTED, fresh

# Replies


@pytest.fixture(scope="module")
def reply() -> tuple[Identifiers, dict[str, str]]:
    identifiers = fresh()
    kinds: dict[str, Kind] = {
        "4415-8820": "code", "4415": "code", "88": "code", "+49 30 1234567": "phone",
        "2024-03-05": "date", "March 5, 2024": "date", "ann@mail.example.org": "email",
        "Maria Q. Lopez": "person", "Zyxwv": "person",
    }  # fmt: skip
    return identifiers, {t: identifiers.protect(kind, t) for t, kind in kinds.items()}


@pytest.mark.parametrize(
    "frame",
    ["{}", "({})", "see {}.", "{}, and", '"{}"', "id={};", "**{}**", "_{}_", "a\n{}\nb", "x: {}!",
     "[{}](/p)", "{}\u2014then", "<{}>", "{}?"],
)  # fmt: skip
def test_a_token_that_stands_alone_is_restored(
    reply: tuple[Identifiers, dict[str, str]], frame: str
) -> None:
    identifiers, tokens = reply
    for text, token in tokens.items():
        assert identifiers.restore_text(frame.format(token)) == frame.format(text)


@pytest.mark.parametrize(
    "frame",
    ["1{}", "{}1", "x{}", "{}x", "9-{}", "{}-9", "a.{}", "{}.b", "q_{}", "{}_q", "ü{}", "{}ü"],
)
@pytest.mark.parametrize(
    "text", ["4415-8820", "4415", "2024-03-05", "ann@mail.example.org", "Zyxwv"]
)
def test_a_token_inside_something_longer_is_left(
    reply: tuple[Identifiers, dict[str, str]], frame: str, text: str
) -> None:
    identifiers, tokens = reply
    longer = frame.format(tokens[text])
    assert identifiers.restore_text(longer) == longer


def test_marks_tie_numbers_only_where_numbers_are_written_so(
    reply: tuple[Identifiers, dict[str, str]],
) -> None:
    identifiers, tokens = reply
    short, long = tokens["4415"], tokens["4415-8820"]
    for tied in (f"1,{short}", f"{short},000", f"+{short}", f"3/{short}", f"{short}:30"):
        assert identifiers.restore_text(tied) == tied
    assert identifiers.restore_text(f"/patients/{long}/visits") == "/patients/4415-8820/visits"
    assert identifiers.restore_text(f"{long},7") == "4415-8820,7"
    assert identifiers.restore_text(f"patient:{short}") == "patient:4415"


def test_the_longest_token_wins_wherever_it_begins() -> None:
    identifiers = fresh()
    long = identifiers.protect("code", "77 4415 8820")
    head = identifiers.protect("code", "66")
    # Issue a token that overlaps the long one from the left and one that lies inside it.
    inner = long.split()[1]
    outer = f"99 {long.split()[0]}"
    every = [f"{number:04d}" for number in range(10_000)]
    for wanted, codes in ((inner, every), (outer, (f"{code[:2]} {code[2:]}" for code in every))):
        assert any(identifiers.protect("code", code) == wanted for code in codes)
        assert identifiers.issued("code", wanted)
    assert identifiers.restore_text(f"99 {long}") == "99 77 4415 8820"
    assert identifiers.restore_text(f"{head} | {long}") == "66 | 77 4415 8820"


def test_names_in_replies_are_restored_by_words_with_their_initials(
    reply: tuple[Identifiers, dict[str, str]],
) -> None:
    identifiers, tokens = reply
    maria, initial, lopez = tokens["Maria Q. Lopez"].split()
    letter = initial[0]
    for said, meant in {
        f"Ms. {lopez} called {maria}'s office.": "Ms. Lopez called Maria's office.",
        f"{lopez}\u2019s file": "Lopez\u2019s file",
        f"{letter}. {lopez}": "Q. Lopez",
        f"{maria} {letter} {lopez}": "Maria Q Lopez",
        f"{maria} {letter}.": "Maria Q.",
        f"Plan {letter}. works": f"Plan {letter}. works",
        f"{letter} {lopez}": f"{letter} Lopez",
        f"{lopez}-based": f"{lopez}-based",
        f"{lopez.lower()} and {lopez.upper()}": f"{lopez.lower()} and {lopez.upper()}",
        f"{maria}-{lopez}": "Maria-Lopez",
    }.items():
        assert identifiers.restore_text(said) == meant


def test_an_empty_reply_and_one_without_tokens_stay_as_they_are(
    reply: tuple[Identifiers, dict[str, str]],
) -> None:
    for text in ("", " ", "No identifiers here: 12345678, \ud800, \x00."):
        assert reply[0].restore_text(text) == text


# Laws


@examples(steady=120, exploring=300)
@given(st.text(min_size=1, max_size=30))
def test_any_text_is_refused_or_comes_back_exactly(text: str) -> None:
    identifiers = SHARED
    for kind in MAKERS:
        try:
            token = identifiers.protect(kind, text)
        except IdentifierError:
            continue
        assert identifiers.restore(kind, token) == text


SHARED = fresh()
WORDS = st.one_of(
    st.sampled_from(GIVEN + SURNAMES + UNLISTED),
    st.from_regex(r"[A-Z][a-z]{1,8}", fullmatch=True),
    st.from_regex(r"[A-Z]\.?", fullmatch=True),
    st.sampled_from(["Dr.", "van", "De", "Jr.", "O'", "y", "MD", "'s", "ANN", "lee", "McX"]),
)


@examples(steady=150, exploring=400)
@given(
    st.lists(st.tuples(WORDS, st.sampled_from([" ", "-", ", ", "'", " "])), min_size=1, max_size=5)
)
def test_any_arrangement_of_name_words_is_refused_or_comes_back(
    parts: list[tuple[str, str]],
) -> None:
    name = "".join(word + mark for word, mark in parts).strip(" -,")
    try:
        token = SHARED.protect("person", name)
    except IdentifierError:
        return
    assert SHARED.restore("person", token) == name


@settings(max_examples=200, deadline=None)
@given(
    st.from_regex(r"[0-9A-Za-z]{4,20}(-[0-9A-Za-z]{1,9})?", fullmatch=True),
    st.sampled_from(" ,;()\n"),
)
def test_a_protected_sentence_is_restored_whole(code: str, mark: str) -> None:
    identifiers = fresh()
    sentence = "Record{0}{1}{0} of {2}, born {3}."
    private: dict[str, Kind] = {code: "code", "Dr. Maria Zyxwv": "person", "5 March 1970": "date"}
    tokens = [identifiers.protect(kind, text) for text, kind in private.items()]
    sent = sentence.format(mark, *tokens)
    assert identifiers.restore_text(sent) == sentence.format(mark, *private)


def test_threads_that_share_identifiers_agree_on_every_token() -> None:
    identifiers = fresh()
    texts = [f"{n:04d}-{n:04d}" for n in range(40)]
    names = [f"Z{a}{b}" for a in "abcdefgh" for b in "abcdefgh"]
    results: list[list[str]] = []

    def work() -> None:
        tokens = [identifiers.protect("code", text) for text in texts]
        tokens += [identifiers.protect("person", name) for name in names]
        if [identifiers.restore_text(token) for token in tokens] == texts + names:
            results.append(tokens)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6
    assert all(one == other for one, other in pairwise(results))
    assert len(set(results[0])) == len(texts) + len(names)
