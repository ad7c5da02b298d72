"""Noise that can be drawn again from one key: a person is the same alone and in a table."""

from itertools import accumulate

import numpy as np

from rootguard.mechanisms.keyed import Prf

KEY = bytes(range(32))
NAMES = ("", "a", "P000001", "P000002", "twelve chars", "thirteen char", "Zoë " * 20)


def test_a_person_is_the_same_alone_and_in_a_table() -> None:
    prf = Prf(KEY)
    texts = [name.encode() for name in NAMES]
    offsets = np.array([0, *accumulate(map(len, texts))])
    table = prf.people(offsets, np.frombuffer(b"".join(texts), dtype=np.uint8))
    alone = [prf.person(name) for name in NAMES]
    assert [int(each.low[0]) for each in alone] == table.low.tolist()
    assert [int(each.high[0]) for each in alone] == table.high.tolist()
    assert len(set(table.low.tolist())) == len(NAMES)


def test_a_person_of_another_key_is_another() -> None:
    assert Prf(KEY).person("a").low[0] != Prf(bytes(32)).person("a").low[0]
