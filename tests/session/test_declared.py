"""Declared identifiers are found in free text however they are spelled, and restored exactly."""

import pickle
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rootguard import MemoryStore
from rootguard.errors import IdentifierError, StoreError, StoreUnavailableError
from rootguard.identifiers import IssuedToken, IssuedTokens, Kind, MemoryTokens
from rootguard.identifiers.formats import MAX_LENGTH
from rootguard.session import Person, parse_profile
from rootguard.session.declared import (
    Declarations,
    Letters,
    PersonConversation,
    _after_comma,
    _day_of,
    _ends,
    _kind_of_widened,
    _named,
    _tied,
    _widened,
    issue_tokens,
    patterns_of,
)
from rootguard.session.session import Tokens
from rootguard.values import Principal

PROFILE = """
templates = ["fib4"]
budget = 1
[identifiers]
name = "Jane Q. Roe"
doctor = "Dr. Will O'Brien"
grandmother = "María Grace Núñez"
mrn = "4415-8820"
plate = "KX 71"
mobile = "+1 212 555 0147"
london = "+442079460958"
home = "(212) 555-0199"
mail = "jane.roe@mail.org"
born = "1980-03-14"
address = "12 Elm Street, Springfield"
"""


class Steady(MemoryStore):
    """The same tokens in every run."""

    @property
    def identifier_key(self) -> bytes:
        return b"k" * 32


def opened(store: MemoryStore | None = None) -> Person:
    profile = parse_profile(PROFILE, file="me.toml")
    return Person.open(profile, store=Steady() if store is None else store)


PERSON = opened()


def protected(text: str, person: Person = PERSON) -> str:
    for found in reversed(person.declared(text)):
        text = text[: found.start] + found.text + text[found.end :]
    return text


SPELLINGS = {
    "the name": ["Jane Q. Roe", "Jane Roe", "JANE ROE", "jane roe", "Jane  Roe", "jAnE RoE"],
    "turned round": ["Roe, Jane", "ROE, JANE Q.", "roe,jane", "Roe Jane"],
    "one word": ["Jane", "jane", "ROE", "roe", "Ms. Roe", "(Jane)", "“Roe”", "Jane\nRoe"],
    "possessives": ["Jane's", "Jane\u2019s", "ROE'S", "roe's"],
    "tied": ["Roe-Smith", "Jane_Roe", "Jane.Then", "J.Roe", "#JaneRoe Jane", "Jane/Roe"],
    "an apostrophe": ["Will O'Brien", "O'BRIEN", "o\u2019brien", "Dr. O'Brien's"],
    "accents": ["María Núñez", "Maria Nunez", "MARÍA", "nu\u0301n\u0303ez"],
    "a code": ["4415-8820", "4415 8820", "44158820", "4415.8820", "4415\u20138820", "4415\n8820"],
    "a label": ["MRN4415-8820", "mrn-44158820", "MRN:4415-8820", "#4415 8820"],
    "a short code": ["KX 71", "kx 71", "KX\t71"],
    "a phone": ["+1 212 555 0147", "+12125550147", "(212) 555-0147", "212.555.0147", "2125550147"],
    "a phone abroad": ["0044 20 7946 0958", "020 7946 0958", "+44 (20) 7946-0958", "442079460958"],
    "a phone at home": ["+1 212 555 0199", "+12125550199", "212\u00a0555\u00a00199", "212/5550199"],
    "a mail": ["jane.roe@mail.org", "JANE.ROE@MAIL.ORG", "<Jane.Roe@Mail.org>", "x@jane.net"],
    "a day": ["1980-03-14", "14 March 1980", "March 14th, 1980", "14.03.1980", "3/14/1980"],
    "a day in short": ["14-Mar-1980", "19800314", "14th of March 1980", "mar. 14 1980"],
    "an address": ["12 Elm Street, Springfield", "12 elm street\nspringfield"],
}
CLEAR = re.compile(
    r"\b(?:jane|roe|brien|mar[ií]a|nunez)|4415|8820|kx.71|555.*01[49]|2079|7946|@mail|mar.*1980"
    r"|14.*1980|1980.*14|elm"
)


@pytest.mark.parametrize("case", SPELLINGS)
def test_every_spelling_is_replaced_and_comes_back_to_the_character(case: str) -> None:
    for spelling in SPELLINGS[case]:
        for text in (spelling, f"So {spelling}, it says.", f"see {spelling}"):
            hidden = protected(text)
            assert hidden != text
            assert not CLEAR.search(hidden.lower().replace("ñ", "n")), case
            assert PERSON.restore(hidden) == text
            assert [hidden[start:end] for start, end in PERSON.issued(hidden)]


def test_the_search_for_clear_text_can_find_it() -> None:
    for spelling in ("Jane", "4415 8820", "(212) 555-0147", "14.03.1980", "x@mail.org"):
        assert CLEAR.search(spelling.lower())


@pytest.mark.parametrize(
    "text",
    [
        "the Roes of Janesville",
        "call 212 555 0148 or 4415-8821",
        "144158820 or 441588201",
        "born 15 March 1980, 1980",
        "I will go. Will you? IF WILL GOES; will be seen. grace",
        "a roebuck, KX 711, kx71",
        "Q. and J. Smith",
        "",
    ],
)
def test_what_is_someone_elses_or_an_ordinary_word_is_left_alone(text: str) -> None:
    assert protected(text) == text


def test_a_name_that_is_a_word_counts_where_it_can_only_be_a_name() -> None:
    assert "Will" not in protected("please ask Will about it")
    assert "will" not in protected("from will o'brien")
    assert protected("Jane will go").endswith(" will go")
    assert "Grace" not in protected("and Grace says")


def test_the_same_words_have_the_same_tokens_in_every_place() -> None:
    given, initial, surname = str(PERSON.release("name")).split()
    assert protected("Jane Roe") == f"{given} {surname}"
    assert protected("ROE, jane") == f"{surname.upper()}, {given.lower()}"
    assert protected("Jane Q. Roe") == f"{given} {initial} {surname}"
    assert protected("J. Q. Roe").endswith(f" {initial} {surname}")


@pytest.mark.parametrize(
    ("text", "stretch", "kind"),
    [
        ("or x@jane.net,", "x@jane.net", "email"),
        ("or Roe-Smith,", "Roe-Smith", "person"),
        ("or ROE-SMITH's", "ROE-SMITH", "person"),
        ("or Jane's-x", "Jane's-x", "code"),
        ("or O'Brien's'", "O'Brien's", "person"),
        ("or Jane's.x", "Jane's.x", "code"),
        ("or Jane'x", "Jane'x", "code"),
        ("or Jane.Then,", "Jane.Then", "code"),
        ("or -Jane-", "Jane", "person"),
        ("or x.4415-8820,", "x.4415-8820", "code"),
        ("or MRN4415-8820", "MRN4415-8820", "code"),
        ("or +4415-8820,", "+4415-8820", "phone"),
        ("+4415-8820", "+4415-8820", "phone"),
        ("or +1 212 555 0147/8", "+1 212 555 0147/8", "phone"),
        ("or (+1 212 555 0147)", "+1 212 555 0147", "phone"),
        ("or +(44) 20 7946 0958", "+(44) 20 7946 0958", "phone"),
        ("(212) 555-0147", "(212) 555-0147", "phone"),
        ("or (212) 555-0147", "(212) 555-0147", "phone"),
        ("or (212 555 0147)", "212 555 0147", "phone"),
        ("or 212) 555-0147", "212) 555-0147", "phone"),
        ("or (4415) 8820", "4415) 8820", "code"),
        ("or x/212 555 0147", "212 555 0147", "phone"),
        ("or 1980-03-14/15,", "1980-03-14/15", "code"),
        ("1,44158820", "1,44158820", "code"),
        ("or x,44158820", "44158820", "code"),
        ("or 1;44158820", "44158820", "code"),
        ("or 1,4415-8820", "4415-8820", "code"),
        ("or 44158820,1 x", "44158820,1", "code"),
        (f"{' ' * 300}Jane.Then", "Jane.Then", "code"),
        (f"Jane.{'x' * 251}", f"Jane.{'x' * 251}", "code"),
        (f"Jane.{'x' * 252}", "Jane", "person"),  # too long to be one thing
    ],
)
def test_what_is_tied_to_a_find_is_replaced_with_it_and_nothing_else(
    text: str, stretch: str, kind: Kind
) -> None:
    [found] = PERSON.declared(text)
    assert text[found.start : found.end] == stretch
    assert found.text == PERSON.protect(kind, stretch)


@pytest.mark.parametrize(
    ("text", "stretches"),
    [
        ("sjane, Jane Roe of Janes or Janesville", ["Jane Roe"]),
        ("Jane roe", ["Jane roe"]),
        ("Jane Roe met Maria Nunez", ["Jane Roe", "Maria Nunez"]),
        ("Q. Roe", ["Q. Roe"]),
        ("J. Q. J. Q. Roe", ["J. Q. J. Q. Roe"]),
        ("X. Roe", ["Roe"]),
        ("Roe J. Q. and Roe X.", ["Roe J. Q.", "Roe"]),
        ("x Will", ["Will"]),
        ("x. Will", []),
        ("and Maria Grace Will Nunez", ["Maria Grace Will Nunez"]),
    ],
)
def test_a_name_is_found_from_its_first_word_or_initial_to_its_last(
    text: str, stretches: list[str]
) -> None:
    assert [text[found.start : found.end] for found in PERSON.declared(text)] == stretches


def test_of_finds_that_overlap_the_longest_is_replaced() -> None:
    longest = "4415-8820 77-1234"
    declarations = Declarations(["4415-8820", longest, "77-1234 5"], PERSON._identifiers)
    [found] = declarations.find(f"see {longest} 5")
    assert (found.start, found.end) == (4, 4 + len(longest))


def issued(identifiers: object, key: bytes | None = None) -> Tokens:
    store = MemoryStore()
    return issue_tokens(identifiers, key, store, store.snapshot(Principal("owner")))


@pytest.mark.parametrize(
    ("identifiers", "message"),
    [
        (["Ann Roe"], "mapping of names to texts"),
        ({1: "Ann Roe"}, "mapping of names to texts"),
        ({"name": "Ann Roe", "blank": "", "number": 7}, "cannot be protected: blank, number$"),
    ],
)
def test_identifiers_that_cannot_be_protected_are_refused_by_name(
    identifiers: object, message: str
) -> None:
    with pytest.raises(IdentifierError, match=message):
        issued(identifiers)


def test_no_word_of_a_declared_name_is_a_token_of_another() -> None:
    given = [issued({"a": "Ann Roe"}, bytes([n]) * 32) for n in range(3)]
    for number, tokens in enumerate(given):
        taken = tokens.issued["a"]
        both = {"a": "Ann Roe", "b": taken}
        again = issued(both, bytes([number]) * 32)
        assert not set(taken.split()) & set(" ".join(again.issued.values()).split())


def test_replacements_are_in_order_and_do_not_overlap() -> None:
    text = "Jane Roe <jane.roe@mail.org>, 4415-8820, +1 212 555 0147, 14 March 1980"
    found = PERSON.declared(text)
    assert len(found) == 5
    places = [place for each in found for place in (each.start, each.end)]
    assert places == sorted(places)


def test_what_was_issued_is_seen_and_nothing_else() -> None:
    hidden = protected("Jane's number is 4415-8820, not 9999.")
    spans = PERSON.issued(hidden)
    assert len(spans) == 2
    assert PERSON.issued("Nobody here, 12345.") == []
    assert PERSON.issued(PERSON.protect("email", "someone@else.net")) != []


PIECES = st.sampled_from(
    [
        *(spelling for spellings in SPELLINGS.values() for spelling in spellings),
        *(" ", ", ", ".", "\n", "'s", "-", "/", ":", "(", "12", "1,", "@", "+", "x", "É", "Ltd"),
    ]
)


@settings(deadline=None)
@given(st.lists(PIECES, max_size=8).map("".join))
def test_whatever_is_replaced_is_restored_to_the_character(text: str) -> None:
    person = opened()
    hidden = protected(text, person)
    assume(not person.issued(text))  # a text that holds a token by chance is no sanitized text
    assert person.restore(hidden) == text


def test_a_streamed_reply_is_restored_like_a_whole_one() -> None:
    hidden = protected("Jane Roe (4415-8820) was born on 14 March 1980.")
    restorer = PERSON.restorer()
    shown = "".join(restorer.feed(character) for character in hidden) + restorer.close()
    assert shown == PERSON.restore(hidden) == "Jane Roe (4415-8820) was born on 14 March 1980."


def test_another_process_with_the_same_store_gives_and_restores_the_same_tokens() -> None:
    store = MemoryStore()
    first, second = opened(store), opened(store)
    hidden = protected("j. q. roe, 4415.8820", first)
    assert protected("j. q. roe, 4415.8820", second) == hidden
    assert second.restore(hidden) == "j. q. roe, 4415.8820"


def test_another_principal_restores_nothing() -> None:
    store = MemoryStore()
    hidden = protected("Jane Roe 4415-8820", opened(store))
    other = parse_profile(f'principal = "eve"\n{PROFILE}', file="me.toml")
    assert Person.open(other, store=store).restore(hidden) != "Jane Roe 4415-8820"


class Away(MemoryTokens):
    """A registry that is reached at first and then no more."""

    down = False

    def add(self, entry: IssuedToken) -> IssuedToken:
        if self.down:
            raise StoreUnavailableError("the server is away; try again")
        return super().add(entry)


class AwayStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.registry = Away()

    def tokens(self, principal: object, *, epoch: int | None = None) -> IssuedTokens:
        return self.registry


class StrangeStore(MemoryStore):
    def tokens(self, principal: object, *, epoch: int | None = None) -> IssuedTokens:
        raise OSError("4415-8820")


def test_a_store_that_is_away_is_said_and_no_frame_holds_the_text() -> None:
    store = AwayStore()
    person = opened(store)
    store.registry.down = True
    for attempt in (
        lambda: person.declared("my number is 4415.8820"),
        lambda: person.protect("code", "4415.8820"),
    ):
        with pytest.raises(StoreUnavailableError) as caught:
            attempt()
        trace = caught.value.__traceback__
        frames = []
        while trace is not None:
            frames.append(repr(trace.tb_frame.f_locals))
            trace = trace.tb_next
        assert len(frames) > 1
        assert "4415" not in "".join(frames[2:])


def test_a_store_that_keeps_no_identifiers_is_said_without_its_own_words() -> None:
    store = AwayStore()
    store.registry.down = True
    with pytest.raises(StoreUnavailableError, match="server is away"):
        opened(store)
    with pytest.raises(StoreError, match="could not keep identifiers") as caught:
        opened(StrangeStore())
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_declarations_show_and_give_themselves_in_no_form() -> None:
    declarations = Declarations(["Jane Roe"], PERSON._identifiers)
    assert repr(declarations) == "<declared identifiers>"
    with pytest.raises(TypeError):
        pickle.dumps(declarations)
    assert "Jane" not in repr(PERSON.declared("Jane Roe")) + repr(PERSON)
    assert str(PERSON.release("name")).split()[0] not in repr(PERSON.declared("Jane Roe"))
    assert "4415" not in repr(patterns_of("code", "4415-8820"))


def test_letters_are_found_again_wherever_they_stand() -> None:
    for text in (
        "ab, 1-2 " * 200,
        "äß, 1-2 " * 50,
        "a" * 256 + "-" * 300 + "b" * 256,
        "a\x7f1" * 90,
    ):
        letters = Letters(text)
        places = [
            place
            for place, character in enumerate(text)
            if character.isalnum()
            for _ in character.casefold()
        ]
        assert len(letters.characters) == len(places)
        for at in (0, 1, 2, 127, 128, 129, len(places) - 4):
            assert letters.places(at, 4) == places[at : at + 4]


@pytest.mark.parametrize(
    "text", ["1980-03-14", "14.03.1980", "3/14/1980", "14 March 1980", "14 mar 1980"]
)
def test_a_day_is_read_in_the_order_in_which_it_is_written(text: str) -> None:
    assert _day_of(text) == (1980, 3, 14)


def spelled(kind: Kind, text: str) -> set[str]:
    return {pattern.sequence for pattern in patterns_of(kind, text)}


def test_days_are_spelled_with_their_endings_and_months_with_their_names() -> None:
    endings = {1: "st", 2: "nd", 3: "rd", 4: "th", 11: "th", 12: "th", 13: "th", 14: "th"}
    endings |= {10: "th", 20: "th", 21: "st", 22: "nd", 23: "rd", 30: "th", 31: "st"}
    for day, ending in endings.items():
        found = spelled("date", f"1980-01-{day:02}")
        others = {"st", "nd", "rd", "th"} - {ending}
        assert {f"{day}{ending}january1980", f"{day}{ending}ofjan1980"} <= found
        assert not {f"{day}{other}january1980" for other in others} & found
        assert {f"198001{day:02}", f"1{day}1980", f"{day:02}011980"} <= found
    assert {"5sept1980", "5sep1980", "5september1980"} <= spelled("date", "1980-09-05")
    assert "5sept1980" not in spelled("date", "1980-08-05") | spelled("date", "1980-10-05")
    assert {"5december1980", "5dec1980"} <= spelled("date", "1980-12-05")


def test_phone_numbers_are_spelled_with_and_without_what_stands_before_them() -> None:
    assert spelled("phone", "212 555 0199") == {"2125550199", "12125550199"}
    assert spelled("phone", "12 555 0199") == {"125550199"}
    assert {"212345678", "0212345678"} <= spelled("phone", "+351 212 345 678")
    assert spelled("phone", "+44 20 79 46") == {"44207946", "0044207946", "4207946", "04207946"}
    assert spelled("phone", "+44 20 794 60") == {
        *("442079460", "00442079460", "42079460", "042079460", "2079460", "02079460")
    }


def test_the_words_of_a_name_are_spelled_as_one_in_both_orders() -> None:
    assert spelled("person", "Ann Mary Roe") == {"annmaryroe", "annroe", "roeann"}
    assert spelled("person", "Ann Roe") == {"annroe", "roeann"}
    assert spelled("person", "Roe") == set()


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("12-345", ["12345", "1 2345"]),  # too short to be grouped otherwise
        ("ABCDE-F", ["ABCDEF"]),  # no digit
    ],
)
def test_short_codes_and_codes_without_a_digit_are_found_as_declared_only(
    text: str, others: list[str]
) -> None:
    [pattern] = patterns_of("code", text)
    assert list(pattern.spans(text, Letters(text))) == [(0, len(text))]
    for other in others:
        assert list(pattern.spans(other, Letters(other))) == []


def test_gaps_of_up_to_three_separators_belong_to_a_code() -> None:
    [pattern] = patterns_of("code", "123-456")
    for text, found in (("123) -456", 1), ("123) --456", 0), ("123x456", 0), ("12 34 56", 1)):
        assert len(list(pattern.spans(text, Letters(text)))) == found
    [one] = patterns_of("code", "121212")
    assert list(one.spans("12-12-12-12", Letters("12-12-12-12"))) == [(0, 8), (3, 11)]
    assert list(one.spans("12121212", Letters("12121212"))) == []  # it goes on
    assert list(one.spans("ab121212 121212", Letters("ab121212 121212"))) == [(2, 8), (9, 15)]
    [same] = patterns_of("code", "111-111")
    assert list(same.spans("1-111111", Letters("1-111111"))) == [(2, 8)]


# In a conversation


def replaced(conversation: PersonConversation, text: str) -> str:
    for found in reversed(conversation.declared(text)):
        text = text[: found.start] + found.text + text[found.end :]
    return text


@pytest.mark.parametrize("sort", SPELLINGS)
def test_in_a_conversation_every_spelling_is_replaced_and_comes_back(sort: str) -> None:
    for spelling in SPELLINGS[sort]:
        text = f"It says {spelling} here."
        conversation = PERSON.conversation()
        conversation.apart_from(text)
        sent = replaced(conversation, text)
        assert CLEAR.search(sent.lower()) is None
        assert conversation.restore_text(sent) == text
        assert conversation.spans(sent) != []


def test_a_name_and_its_address_are_two_tokens_of_one_person() -> None:
    conversation = PERSON.conversation()
    text = "Jane Roe, jane.roe@mail.org, +1 212 555 0147"
    conversation.apart_from(text)
    sent = replaced(conversation, text)
    name, mail, phone = sent.split(", ")
    given_name, surname = name.split()
    assert mail.startswith(f"{given_name}.{surname}@".lower())
    assert mail.endswith(".org")
    assert phone.startswith("+1 ")
    assert conversation.restore_text(sent) == text


def test_conversations_and_releases_agree_on_the_tokens_of_the_profile() -> None:
    conversation = PERSON.conversation()
    texts = {"mrn": "4415-8820", "born": "1980-03-14", "mobile": "+1 212 555 0147"}
    conversation.apart_from(*texts.values(), "Jane Q. Roe")
    for name, text in {**texts, "name": "Jane Q. Roe"}.items():
        assert replaced(conversation, text) == PERSON.release(name)


def test_a_token_of_the_profile_that_stands_in_a_text_counts_in_that_conversation() -> None:
    """An agent has it from the MCP server, and passes it on in a message."""
    for name, text in {
        "name": "Jane Q. Roe",
        "mail": "jane.roe@mail.org",
        "mrn": "4415-8820",
    }.items():
        conversation = PERSON.conversation()
        released = str(PERSON.release(name))
        assert conversation.restore_text(released) == released
        conversation.apart_from(f"get_values said {released}.")
        assert conversation.spans(released) != []
        assert conversation.restore_text(f"So {released}!") == f"So {text}!"


def test_a_conversation_is_continued_by_its_id_and_one_that_is_not_known_restores_all() -> None:
    person = opened()
    first = person.conversation()
    first.apart_from("Jane Roe called about Ulf Brandtner")
    token = first.protect("person", "Ulf Brandtner")
    person.keep_conversation("resp_1", first)
    assert person.conversation("resp_1") is first
    assert person.conversation().restore_text(token) == token
    lost = person.conversation("resp_of_another_process")
    assert lost is not first
    assert lost.restore_text(token) == "Ulf Brandtner"


@pytest.mark.parametrize(
    ("text", "word", "tied"),
    [
        ("jane roe", "jane", False),
        ("jane.roe", "jane", True),
        ("jane@roe", "jane", True),
        ("jane_roe", "jane", True),
        ("jane-roe", "jane", False),
        ("jane. roe", "jane", False),
        ("jane.", "jane", False),
        ("x.roe", "roe", True),
        ("a x@roe", "roe", True),
        (".roe", "roe", False),
        ("x .roe", "roe", False),
        ("x-roe", "roe", False),
        ("roe", "roe", False),
    ],
)
def test_a_word_is_tied_by_a_point_an_at_or_an_underscore_to_the_next(
    text: str, word: str, tied: bool
) -> None:
    start = text.index(word)
    assert _tied(text, start, start + len(word)) is tied


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1,441", True),
        ("x1,441", True),
        ("21,441", True),
        (",441", False),
        ("a,441", False),
        ("1.441", False),
        ("1, 441", False),
        ("441", False),
    ],
)
def test_digits_go_on_from_the_left_after_a_digit_and_a_comma(text: str, found: bool) -> None:
    assert _after_comma(text, len(text) - 3, len(text)) is found
    assert not _after_comma("1,44a", 2, 5)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Jane", True),
        ("Jane's", True),
        ("Jane’s car", True),
        ("Jane' s", True),
        ("Jane's's", False),
        ("Jane'st", False),
        ("Jane'd", False),
        ("Janes", False),
    ],
)
def test_a_name_ends_before_a_possessive_and_before_no_other_letters(
    text: str, found: bool
) -> None:
    assert _ends(text, 0, 4) is found


def test_a_name_inside_a_longer_word_or_an_address_is_taken_with_it_up_to_a_length() -> None:
    assert _named("a Jane b", 2, 6) == (2, 6, "person")
    assert _named("-Jane-", 1, 5) == (1, 5, "person")
    assert _named("a xJane b", 3, 7) == (2, 7, "code")
    assert _named("a Janey b", 2, 6) == (2, 7, "code")
    assert _named("to jane@mail.org now", 3, 7) == (3, 16, "email")
    assert _named("to x.jane@mail.org now", 5, 9) == (3, 18, "email")
    assert _named("Jane x@mail.org", 0, 4) == (0, 4, "person")
    assert _named("x@mail.org Jane", 11, 15) == (11, 15, "person")
    most = MAX_LENGTH - 4
    for before, after in ((most, 0), (0, most), (100, most - 100)):
        word = f"{'x' * before}Jane{'x' * after}"
        assert _named(word, before, before + 4) == (0, MAX_LENGTH, "code")
        assert _named(f"x{word}", before + 1, before + 5) == (before + 1, before + 5, "person")


def test_what_a_code_is_tied_to_belongs_to_it_up_to_a_length() -> None:
    assert _widened("4415", 0, 4) == (0, 4)
    assert _widened("a 4415 b", 2, 6) == (2, 6)
    assert _widened("a x4415y b", 3, 7) == (2, 8)
    assert _widened("a-4415-b", 2, 6) == (0, 8)
    assert _widened("1,441 b", 2, 5) == (0, 5)
    assert _widened("+14415", 2, 6) == (0, 6)
    most = MAX_LENGTH - 4
    assert _widened("1" * most + "4415", most, MAX_LENGTH) == (0, MAX_LENGTH)
    assert _widened("1" * most + "14415", most + 1, MAX_LENGTH + 1) == (most + 1, MAX_LENGTH + 1)
    assert _widened("4415" + "1" * most, 0, 4) == (0, MAX_LENGTH)
    assert _widened("4415" + "1" * (most + 1), 0, 4) == (0, 4)


@pytest.mark.parametrize(
    ("written", "kind", "found"),
    [
        ("Jane", "person", "person"),
        ("Jane-x", "person", "person"),
        ("O'Brien", "person", "person"),
        ("Jane4", "person", "code"),
        ("j@x", "person", "email"),
        ("4415", "code", "code"),
        ("a@b.org", "code", "email"),
    ],
)
def test_a_name_with_what_is_tied_to_it_is_a_name_only_as_one_chunk(
    written: str, kind: Kind, found: str
) -> None:
    assert _kind_of_widened(written, kind) == found
