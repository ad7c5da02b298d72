"""Tokens of one conversation: apart from its words, one for an identifier, restored only there."""

import copy
import json
import pickle
import re
import threading
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rootguard.errors import IdentifierError
from rootguard.identifiers import (
    Conversations,
    ConversationTokens,
    Identifiers,
    Kind,
    MemoryTokens,
    conversation,
)
from rootguard.identifiers.formats import LISTS
from tests.support.identifier_makers import KEY, fresh

SPELLINGS: dict[Kind, list[str]] = {
    "phone": ["+1 206 555 0177", "(206) 555-0177", "206.555.0177", "1-206-555-0177", "12065550177"],
    "code": ["HX-4409126", "hx-4409126", "HX4409126", "HX 440 9126"],
    "date": ["1964-11-29", "29 November 1964", "November 29, 1964", "11/29/1964", "29.11.1964"],
}


def begun(*texts: str, identifiers: Identifiers | None = None) -> ConversationTokens:
    tokens = (identifiers or fresh()).conversation()
    tokens.apart_from(*texts)
    return tokens


# Choosing


def test_a_token_is_no_word_of_the_conversation() -> None:
    identifiers = fresh()
    for _ in range(30):
        said: list[str] = []
        for _ in range(4):
            tokens = begun(" ".join(said), identifiers=identifiers)
            given_name, surname = tokens.protect("person", "Edda Vandersloot").split()
            assert {given_name, surname}.isdisjoint(said)
            said += [given_name, surname.lower()]


def test_a_token_is_the_same_in_every_conversation_unless_it_clashes_there() -> None:
    identifiers = fresh()
    usual = begun("Edda wrote", identifiers=identifiers).protect("person", "Edda")
    assert begun("Edda rang", identifiers=identifiers).protect("person", "Edda") == usual
    other = begun(f"Edda met {usual}", identifiers=identifiers).protect("person", "Edda")
    assert other != usual
    again = begun(f"{usual} met Edda", identifiers=identifiers).protect("person", "Edda")
    assert again == other
    assert begun("Edda", identifiers=identifiers).protect("person", "Edda") == usual


def test_the_number_of_names_in_the_registry_does_not_leave_names_raw() -> None:
    """Of 200 listed names none passes for a token, however many were issued elsewhere."""
    identifiers = fresh()
    real = [f"{a} {b}" for a, b in zip(LISTS["given"][:200], LISTS["surname"][:200], strict=True)]
    for known in (0, 100, 500):
        elsewhere = identifiers.conversation()
        for number in range(known):
            elsewhere.protect("person", f"Zo{number:03d}".translate(_LETTERS) + " Roe")
        for name in real:
            tokens = begun(f"{name} called.", identifiers=identifiers)
            assert tokens.spans(f"{name} called.") == []
            assert tokens.protect("person", name) != name


_LETTERS = str.maketrans("0123456789", "abcdefghij")


def test_two_names_in_a_conversation_never_share_a_word() -> None:
    tokens = begun()
    named = [f"Q{a}{b}k" for a in "aeiou" for b in "bcdfghjklmnpqrstvwxz"]
    issued = [tokens.protect("person", name) for name in named]
    assert len(set(issued)) == len(named)
    assert [tokens.restore_text(token) for token in issued] == named


@pytest.mark.parametrize("kind", SPELLINGS)
def test_all_spellings_of_an_identifier_have_one_token_spelled_alike(kind: Kind) -> None:
    identifiers = fresh()
    for first in SPELLINGS[kind]:
        tokens = begun(identifiers=identifiers)
        tokens.protect(kind, first)
        for spelling in SPELLINGS[kind]:
            token = tokens.protect(kind, spelling)
            assert token != spelling
            assert tokens.restore_text(f"see {token}.") == f"see {spelling}."
            assert begun(identifiers=identifiers).protect(kind, spelling) == token


@given(st.text(alphabet=st.characters(max_codepoint=127), max_size=60))
def test_the_words_of_ascii_are_those_of_any_text(text: str) -> None:
    assert conversation._words_of(text) == set(conversation._WORD.findall(text))


def test_a_phone_number_with_an_extension_has_a_token_with_one() -> None:
    tokens = begun()
    token = tokens.protect("phone", "(206) 555-0177 #44")
    assert tokens.restore_text(f"Call {token} now") == "Call (206) 555-0177 #44 now"


@pytest.mark.parametrize("extension", ["x44", " ext 44", " ext. 44"])
def test_a_phone_number_with_letters_is_refused(extension: str) -> None:
    with pytest.raises(IdentifierError):
        begun().protect("phone", f"(206) 555-0177{extension}")


def test_a_name_in_capitals_or_small_letters_is_the_same_name() -> None:
    tokens = begun()
    token = tokens.protect("person", "Edda McAllister")
    assert tokens.protect("person", "EDDA MCALLISTER") == token.upper()
    assert tokens.protect("person", "edda mcallister") == token.lower()
    assert (
        tokens.restore_text(f"{token.upper()} or {token}") == "EDDA MCALLISTER or Edda McAllister"
    )


def test_an_initial_that_stands_for_a_given_name_becomes_its_tokens() -> None:
    tokens = begun()
    given_name, surname = tokens.protect("person", "Edda Vandersloot").split()
    assert tokens.protect("person", "E. Vandersloot") == f"{given_name[0]}. {surname}"


@pytest.mark.parametrize(
    ("address", "form"),
    [
        ("edda.vandersloot@mail.example", "{a}.{b}@"),
        ("Edda_Vandersloot@mail.example", "{A}_{B}@"),
        ("vandersloot-edda@mail.example", "{b}-{a}@"),
        ("eddavandersloot@mail.example", "{a}{b}@"),
        ("evandersloot@mail.example", "{i}{b}@"),
        ("e.vandersloot@mail.example", "{i}.{b}@"),
        ("edda@mail.example", "{a}@"),
    ],
)
@pytest.mark.parametrize("name_first", [True, False])
def test_an_address_and_a_name_stay_one_person(address: str, form: str, name_first: bool) -> None:
    text = f"Edda Vandersloot, {address}"
    tokens = begun(text)
    if name_first:
        tokens.protect("person", "Edda Vandersloot")
    token = tokens.protect("email", address)
    given_name, surname = tokens.protect("person", "Edda Vandersloot").split()
    wanted = form.format(
        A=given_name, B=surname, a=given_name.lower(), b=surname.lower(), i=given_name[0].lower()
    )
    if name_first or "{i}" not in form:  # before the name is met an initial could be anyone's
        assert token.startswith(wanted)
    assert token.endswith(".example")
    assert token.count("@") == 1
    assert tokens.restore_text(f"<{token}>") == f"<{address}>"


def test_two_addresses_at_one_domain_stay_colleagues_and_numbers_in_them_are_replaced() -> None:
    tokens = begun()
    one = tokens.protect("email", "edda71@clinic.co.uk")
    other = tokens.protect("email", "info@clinic.co.uk")
    assert one.partition("@")[2] == other.partition("@")[2] != "clinic.co.uk"
    assert one.endswith(".co.uk")
    assert "71" not in one
    assert tokens.restore_text(f"{one} {other}") == "edda71@clinic.co.uk info@clinic.co.uk"


@settings(max_examples=150, deadline=None)
@given(st.text(min_size=1, max_size=30))
def test_any_text_is_refused_or_comes_back(text: str) -> None:
    tokens = SHARED.conversation()
    for kind in KINDS:
        try:
            token = tokens.protect(kind, text)
        except IdentifierError:
            continue
        assume(sum(map(str.isalnum, token)) > 1)
        assert SHARED.restore(kind, token) == text


SHARED = fresh()
KINDS: tuple[Kind, ...] = ("code", "phone", "date", "email")


# Where tokens count


def test_a_token_is_restored_only_in_its_conversation() -> None:
    identifiers = fresh()
    one, other = begun(identifiers=identifiers), begun(identifiers=identifiers)
    for kind, text in {"person": "Edda Vandersloot", "code": "HX-4409126"}.items():
        token = one.protect(kind, text)  # type: ignore[arg-type]
        assert other.restore_text(token) == token
        assert other.spans(token) == []
        assert one.restore_text(token) == text


def test_what_was_sanitized_is_left_alone_when_it_comes_again() -> None:
    tokens = begun("Edda Vandersloot (HX-4409126) and Edda again")
    name = tokens.protect("person", "Edda Vandersloot")
    code = tokens.protect("code", "HX-4409126")
    text = f"{name} ({code}) and {name.split()[0]} Again"
    covered = "".join(text[start:end] for start, end in tokens.spans(text))
    assert covered == f"{name}{code}{name.split()[0]}".replace(" ", "")
    tokens.sent(text)
    tokens.apart_from(text)
    assert tokens.protect("person", "Edda Vandersloot") == name


def test_a_real_name_that_meets_a_token_later_takes_it_out_of_use_and_both_are_restored() -> None:
    """As where the service keeps the history: the earlier turns cannot be written again."""
    tokens = begun("Edda rang")
    old = tokens.protect("person", "Edda")
    tokens.apart_from(f"my neighbour {old} rang, not Edda")
    new, neighbour = tokens.protect("person", "Edda"), tokens.protect("person", old)
    assert len({old, new, neighbour}) == 3
    assert tokens.spans(old) == []
    assert tokens.restore_text(f"{old}, {new}, {neighbour}") == f"Edda, Edda, {old}"


def test_a_whole_name_that_was_issued_is_an_echo_and_stays_in_use() -> None:
    tokens = begun("Edda Vandersloot rang")
    name = tokens.protect("person", "Edda Vandersloot")
    tokens.apart_from(f"The note says {name} rang.")
    assert tokens.protect("person", "Edda Vandersloot") == name


def test_a_conversation_without_memory_counts_the_whole_registry() -> None:
    identifiers = fresh()
    lost = begun(identifiers=identifiers)
    said = {
        lost.protect("person", "Edda Vandersloot"): "Edda Vandersloot",
        lost.protect("phone", "+1 206 555 0177"): "+1 206 555 0177",
        lost.protect("email", "edda@clinic.example"): "edda@clinic.example",
    }
    found = identifiers.conversation(whole_registry=True)
    for token, text in said.items():
        assert found.restore_text(token.upper()) == text.upper()
    assert found.protect("person", "Edda Vandersloot") in said


def test_the_whole_registry_restores_what_conversations_issued() -> None:
    store = MemoryTokens()
    identifiers = Identifiers(KEY, store)
    tokens = begun(identifiers=identifiers)
    for kind, text in {"date": "29 November 1964", "email": "edda@clinic.example"}.items():
        token = tokens.protect(kind, text)  # type: ignore[arg-type]
        assert Identifiers(KEY, store).restore_text(token) == text


def test_conversations_are_known_by_their_ids_and_the_oldest_goes_first() -> None:
    kept: Conversations[ConversationTokens] = Conversations(most=2)
    one, two, three = begun(), begun(), begun()
    kept.keep("a", one)
    kept.keep("b", two)
    assert kept.find("a") is one
    kept.keep("c", three)
    assert kept.find("b") is None
    assert kept.find("a") is one
    assert kept.find("c") is three
    assert len(kept) == 2


def test_conversations_with_many_words_go_before_there_are_many_conversations() -> None:
    kept: Conversations[ConversationTokens] = Conversations(most=9, most_words=5)
    kept.keep("a", begun("one two three four"))
    kept.keep("b", begun("five six"))
    assert kept.find("a") is None
    assert kept.find("b") is not None


def test_threads_that_share_a_conversation_agree_on_every_token() -> None:
    tokens = begun()
    texts = [f"HX-{n:03d}4912" for n in range(30)]
    results: list[list[str]] = []

    def work() -> None:
        issued = [tokens.protect("code", text) for text in texts]
        issued += [tokens.protect("person", f"Q{a}x Vandersloot") for a in "aeiou"]
        if [tokens.restore_text(token) for token in issued[:30]] == texts:
            results.append(issued)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6
    assert all(each == results[0] for each in results)


# What is never shown


def test_nothing_that_a_conversation_holds_shows_an_identifier() -> None:
    tokens = begun("Canarybird 739184652")
    tokens.protect("person", "Canarybird")
    tokens.protect("code", "739184652")
    stream = tokens.stream()
    shown = [repr(tokens), repr(stream)]
    shown += [repr(getattr(tokens, slot)) for slot in ConversationTokens.__slots__]
    shown += [repr(getattr(tokens._forms, slot)) for slot in type(tokens._forms).__slots__]
    for text in shown:
        assert "canarybird" not in text.lower()
        assert "739184652" not in text
    for copier in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps):
        with pytest.raises(TypeError):
            copier(tokens)


@pytest.mark.parametrize(
    ("kind", "text"),
    [("date", "739184652"), ("email", "739184652"), ("person", "739184652"), ("code", "*" * 9),
     ("code", "7" * 400), ("739184652", "x"), ("phone", "+")],
)  # fmt: skip
def test_a_refusal_says_why_and_nothing_of_the_identifier(kind: Kind, text: str) -> None:
    with pytest.raises(IdentifierError) as caught:
        begun().protect(kind, text)
    assert "739184652" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_the_program_of_the_page_runs() -> None:
    page = Path(__file__).parents[2] / "docs" / "text.md"
    (program,) = re.findall(r"```py\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    exec(program, {})
