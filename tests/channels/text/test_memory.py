"""Texts that are sent again: what the channel remembers, and that it never answers from old."""

import gc
from dataclasses import fields

import pytest

from rootguard.channels.detection import Found, Rules
from rootguard.channels.text import TextChannel
from rootguard.channels.text import channel as module
from rootguard.channels.text.channel import ENTRY, Memory, MemoryEntry
from rootguard.errors import TextBlockedError
from rootguard.reading.claims import NOTHING, Expectation
from rootguard.session.person import Person
from rootguard.store import MemoryStore
from rootguard.values import RootName
from tests.support.channel_person import open_person

PROSE = "The letter says that nothing needs to be done at once and asks for a word. " * 8
LONG = f"{PROSE}My AST is 171.37 U/L, says Zebulon Quixworth, and Jane Roe agrees. {PROSE}"


class SameKey(MemoryStore):
    """A store whose tokens are those of any other such store."""

    @property
    def identifier_key(self) -> bytes:
        return b"k" * 32


class Counting:
    """A detector that counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self._rules = Rules()

    def find(self, text: str) -> list[Found]:
        self.asked += 1
        return self._rules.find(text)


@pytest.fixture
def person() -> Person:
    return open_person()


def test_a_text_sent_again_is_not_read_again(person: Person) -> None:
    detector = Counting()
    channel = TextChannel(person, detectors=[detector])
    first = channel.sanitize(LONG)
    asked = detector.asked
    again = channel.sanitize(LONG)
    assert detector.asked == asked
    assert (again.text, again.replaced) == (first.text, first.replaced)
    channel.sanitize(LONG + "!")
    assert detector.asked > asked


def test_what_is_remembered_is_what_a_new_channel_makes(person: Person) -> None:
    channel = TextChannel(person, detectors=[Rules()])
    channel.sanitize(LONG)
    fresh = TextChannel(person, detectors=[Rules()])
    assert channel.sanitize(LONG).text == fresh.sanitize(LONG).text


def test_an_entry_is_not_used_once_its_text_holds_a_token() -> None:
    record = "Q7-553-219-884"
    store = SameKey()
    first, second = open_person(store=store), open_person(store=store)
    token = open_person(store=SameKey()).protect("code", record)
    text = f"{PROSE}The file mentions {token} somewhere. {PROSE}"
    channel = TextChannel(first, elsewhere="redact")
    before = channel.sanitize(text).text
    assert token not in before
    assert second.protect("code", record) == token  # by another replica, meanwhile
    after = channel.sanitize(text).text
    assert token in after
    assert after == TextChannel(first, elsewhere="redact").sanitize(text).text


def test_an_entry_is_used_although_other_tokens_were_issued_since(person: Person) -> None:
    detector = Counting()
    channel = TextChannel(person, detectors=[detector])
    first = channel.sanitize(LONG).text
    asked = detector.asked
    person.protect("code", "Q7-553-219-884")
    assert channel.sanitize(LONG).text == first
    assert detector.asked == asked


def test_an_entry_is_not_used_once_the_registry_was_erased() -> None:
    store = MemoryStore()
    person = open_person(store=store)
    channel = TextChannel(person, detectors=[Rules()])
    sent = channel.sanitize(LONG).text
    assert channel.restore(sent) != sent
    store._people[person.principal].tokens._entries.clear()
    assert channel.restore(sent) == sent
    assert channel.sanitize(LONG).text == sent  # tokens that are issued anew are the same
    assert channel.restore(sent) != sent


def test_a_value_that_may_no_longer_be_released_blocks_a_text_sent_again(person: Person) -> None:
    class Closing:
        """A person who stops releasing."""

        def __init__(self, person: Person) -> None:
            self._person = person
            self.closed = False

        def number(self, name: str) -> float:
            if self.closed:
                raise TextBlockedError
            return self._person.number(name)

        def __getattr__(self, name: str) -> object:
            return getattr(self._person, name)

    closing = Closing(person)
    channel = TextChannel(closing, detectors=[Rules()])  # type: ignore[arg-type]
    channel.sanitize(LONG)
    closing.closed = True
    with pytest.raises(TextBlockedError):
        channel.sanitize(LONG)


def test_every_sending_is_written_down(person: Person) -> None:
    channel = TextChannel(person)
    channel.sanitize(LONG)
    before = len(person.transcript())
    channel.sanitize(LONG)
    assert len(person.transcript()) > before


def test_nothing_of_an_original_is_kept(person: Person) -> None:
    channel = TextChannel(person, detectors=[Rules()])
    assert "[" not in channel.sanitize(LONG).text
    held = [channel._memory]
    seen: set[int] = set()
    strings: list[str] = []
    while held:
        each = held.pop()
        if id(each) in seen or isinstance(each, type):
            continue
        seen.add(id(each))
        if isinstance(each, str | bytes):
            strings.append(each if isinstance(each, str) else each.decode("latin-1"))
        if isinstance(each, Memory | MemoryEntry | dict | list | tuple):
            held += gc.get_referents(each)
    whole = " ".join(strings)
    assert PROSE[:40] in whole  # the sanitized text is there
    assert not any(private in whole for private in ("171.37", "Zebulon", "Quixworth", "Jane Roe"))


def test_the_context_of_a_text_counts(person: Person) -> None:
    text = "7777 " + "and so on " * 8  # beyond the bounds, so never what is released
    channel = TextChannel(person, near_private="pass")
    with_name = channel.sanitize(text, context="AST: ")
    without = channel.sanitize(text)
    assert with_name.replaced == {"root": 1}
    assert without.replaced == {}
    assert channel.sanitize(text, context="AST: ").replaced == {"root": 1}


def test_what_a_short_answer_was_asked_for_counts(person: Person) -> None:
    channel = TextChannel(person, near_private="redact")
    asked = Expectation(asked=(RootName("ast"),))
    released = channel.sanitize("It is 7777.", expectation=asked)
    assert released.replaced == {"root": 1}
    assert channel.sanitize("It is 7777.").replaced == {}
    assert channel.sanitize("It is 7777.", expectation=asked).text == released.text


def test_a_short_turn_sent_again_is_not_read_again(person: Person) -> None:
    detector = Counting()
    channel = TextChannel(person, detectors=[detector])
    first = channel.sanitize("My AST is 171.37 U/L.")
    asked = detector.asked
    assert channel.sanitize("My AST is 171.37 U/L.").text == first.text
    assert detector.asked == asked


def test_old_texts_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CHARACTERS", 1000 + 2 * ENTRY)
    kept = Memory()
    digests = [kept.digest("", f"text {number}") for number in range(4)]
    for digest in digests:
        kept.keep(
            digest,
            MemoryEntry(text="x" * 400, replaced={}, mark=(0, 0), released={}),
        )
        kept.recall(digests[0])
    assert [kept.recall(digest) is not None for digest in digests] == [True, False, False, True]


def test_all_that_a_text_leads_to_expect_counts() -> None:
    kept, ast = Memory(), RootName("ast")
    expected = [
        NOTHING,
        Expectation(asked=(ast,)),
        Expectation(mentioned=(ast,)),
        Expectation(topic=(ast,)),
        Expectation(recent=(ast,)),
        Expectation(header="ast"),
        Expectation(worked=True),
        Expectation(elsewhere=True),
        Expectation(any_values=True),
    ]
    assert len(expected) == 1 + len(fields(NOTHING))
    digests = {kept.digest("", "text", expectation=each) for each in expected}
    assert len(digests) == len(expected)


def test_two_channels_know_one_text_by_different_digests() -> None:
    assert Memory().digest("", "text") != Memory().digest("", "text")
    one = Memory()
    assert one.digest("a", "b") != one.digest("", "ab")


def test_what_is_computed_is_computed_again(person: Person) -> None:
    detector = Counting()
    channel = TextChannel(person, detectors=[detector])
    known = "Age 57, AST 40 U/L, ALT 30 U/L, platelets 210 10^9/L. "
    made = channel.sanitize(f"{known}My FIB-4 is 7.77.")
    assert "7.77" not in made.text
    asked = detector.asked
    channel.sanitize(f"{known}My FIB-4 is 7.77.")
    assert detector.asked > asked
