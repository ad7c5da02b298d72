"""What the gateway remembers of a person's texts: nothing private."""

import pickle

from tests.support.gateways import SENTINELS, TELLING, channel_of, open_person


def test_nothing_private_is_remembered() -> None:
    channel = channel_of(open_person())
    told = TELLING * 5  # short texts are not remembered at all
    assert channel.sanitize(told, source="owner") == channel.sanitize(told, source="owner")
    memory = channel._text._memory
    kept = pickle.dumps(
        [(mark, entry.text, dict(entry.replaced)) for mark, entry in memory._entries.items()]
    )
    assert len(kept) > len(TELLING)
    assert not [each for each in SENTINELS if each.encode() in kept]


def test_an_id_with_a_declared_identifier_is_private_each_time() -> None:
    channel = channel_of(open_person())
    assert [channel.is_private("KZ-8841730") for _ in range(2)] == [True, True]
    assert [channel.is_private("call_1") for _ in range(2)] == [False, False]
