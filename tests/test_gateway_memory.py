"""What the gateway remembers of a person's texts: enough to be quick, nothing private."""

import pickle

import pytest

from rootguard.channels.edits import Sanitization
from rootguard.channels.guarded import Guarded
from rootguard.channels.text import TextChannel
from tests.gateways import SENTINELS, TELLING, channel_of, open_person


@pytest.fixture
def sanitized(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were really sanitized, in order."""
    seen: list[str] = []
    really = TextChannel.sanitize

    def sanitize(channel: TextChannel, text: str) -> Sanitization:
        seen.append(text)
        return really(channel, text)

    monkeypatch.setattr(TextChannel, "sanitize", sanitize)
    return seen


def test_a_text_that_comes_again_is_not_sanitized_again(sanitized: list[str]) -> None:
    channel = channel_of(open_person())
    assert channel.sanitize(TELLING) == channel.sanitize(TELLING)
    assert sanitized == [TELLING]


def test_what_is_remembered_is_what_sanitizing_gives() -> None:
    person = open_person()
    remembering, forgetting = channel_of(person), Guarded(person, remembered=0)
    for text in ("AST 40 U/L", "AST 41.5 U/L", "all is well", "AST 40 U/L"):
        assert remembering.sanitize(text) == forgetting.sanitize(text)


def test_the_memory_is_bounded_and_forgets_the_oldest(sanitized: list[str]) -> None:
    channel = Guarded(open_person(), remembered=1000)
    for text in ("a" * 300, "b" * 300, "c" * 300, "c" * 300, "a" * 300, "x" * 2000, "x" * 2000):
        channel.sanitize(text)
    assert [text[0] for text in sanitized] == ["a", "b", "c", "a", "x", "x"]


def test_nothing_private_is_remembered() -> None:
    channel = channel_of(open_person())
    channel.sanitize(TELLING)
    assert isinstance(channel, Guarded)
    kept = pickle.dumps((list(channel._memory._kept.items()), channel._public))
    assert len(kept) > len(TELLING)
    assert not [each for each in SENTINELS if each.encode() in kept]


def test_an_id_with_a_declared_identifier_is_private_each_time() -> None:
    channel = channel_of(open_person())
    assert [channel.private("KZ-8841730") for _ in range(2)] == [True, True]
    assert [channel.private("call_1") for _ in range(2)] == [False, False]
