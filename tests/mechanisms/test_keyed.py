"""Noise that can be drawn again from one key: a person is the same alone and in a table."""

import traceback
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from rootguard.errors import StoreKeyError
from rootguard.mechanisms import keyed, mechanism
from rootguard.mechanisms.exact import Outcomes, Words
from rootguard.mechanisms.keyed import Prf, RootStreams
from rootguard.rng import Randomness
from rootguard.values import Domain, MechanismName

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


def streams(name: MechanismName) -> RootStreams:
    domain = Domain(lower=0, upper=1, size=1000)
    return Prf(KEY).root("ast", domain, Fraction("0.1"), name, 1)


def test_a_known_key_gives_the_same_words_on_every_machine_and_in_every_release() -> None:
    person = Prf(KEY).person("P000001")
    rows = streams("exponential").of(person, np.array([3]))
    blocks = [[int(word[0]) for word in rows.words(block)] for block in (0, 1)]
    assert blocks == [
        [0xD7DC4C5F30DD41F3, 0xA48F132ACF82AB5F],
        [0xBDD53C1400F1DB92, 0xEFBAE7807E13171A],
    ]
    assert rows.source(0, 0).words(5) == [
        *(0x3E8DB228, 0x06F34B59, 0x3F8B3A91, 0xFE8796C1, 0x55AE76DD),
    ]
    assert rows.source(0, 1).words(2) == [0xE8AC36CC, 0xD799471B]
    assert rows.fingerprints().tolist() == [985_837_296]
    assert Prf(KEY).tags(person).tolist() == [0x3CF57395F48FF969]


def test_the_draws_of_a_known_table_never_change() -> None:
    text = b"".join(b"%04d" % number for number in range(40))
    everyone = Prf(KEY).people(np.arange(0, 164, 4), np.frombuffer(text, dtype=np.uint8))
    points = np.full(40, 3)
    tries = streams("exponential").of(everyone, points)  # most rows need several tries
    found = mechanism("exponential", Fraction("0.1"), 1000).draw_rows(points, tries)
    assert found.tolist() == [
        *(2, 18, 12, 6, 6, 42, 4, 1, 2, 0, 6, 3, 16, 11, 11, 13, 32, 8, 15, 7),
        *(21, 13, 73, 19, 14, 15, 12, 34, 24, 19, 5, 5, 1, 6, 34, 20, 36, 28, 46, 15),
    ]


class Zeros:
    """A cipher that gives nothing but zeros."""

    def of(self, low: Words, high: Words) -> tuple[Words, Words]:
        return np.zeros_like(low), np.zeros_like(high)


def test_no_fingerprint_is_zero() -> None:
    rows = RootStreams(Zeros()).of(Prf(KEY).person("a"), np.array([3]))  # type: ignore[arg-type]
    assert rows.fingerprints().tolist() == [1]


def test_a_table_without_rows_has_no_people() -> None:
    nobody = Prf(KEY).people(np.array([0]), np.array([], dtype=np.uint8))
    assert len(nobody) == 0
    assert repr(nobody) == "<0 people>"


def test_a_key_that_is_refused_is_in_no_frame() -> None:
    with pytest.raises(StoreKeyError) as caught:
        Prf(b"sesame" * 5)
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    own = [frame.locals for frame in shown.stack if frame.filename.endswith("mechanisms/keyed.py")]
    assert "sesame" not in str(own)


class Tied:
    """Streams whose words for each block are given; notes whose bits a tie was broken with."""

    def __init__(self, *blocks: list[int]) -> None:
        self._blocks = [np.array(block, dtype=np.uint64) for block in blocks]
        self.asked: list[tuple[int, int]] = []

    def words(self, block: int, rows: Outcomes | None = None) -> tuple[Words, Words]:
        found = self._blocks[block]
        assert rows is None or rows.size == found.size
        return found, np.zeros_like(found)

    def source(self, row: int, block: int) -> Randomness:
        self.asked.append((row, block))
        person = Prf(KEY).person("a")
        return streams("geometric").of(person, np.array([3])).source(0, block)


@pytest.mark.parametrize("name", ["geometric", "exponential"])
def test_a_tie_is_broken_by_bits_of_its_own_row_and_of_its_own_try(name: MechanismName) -> None:
    """A row that borrowed another's bits would share its noise; so would two tries of one row."""
    noise = mechanism(name, Fraction(1), 10)
    tie = int(noise._row_sampler._rising[1])  # type: ignore[attr-defined]
    if name == "exponential":  # no distance counts on one side only: the second row tries again
        made, expected = Tied([tie - 1, 0, tie - 1], [tie]), [(1, 1)]
    else:
        made, expected = Tied([tie - 1, tie, tie - 1]), [(1, 0)]
    noise.draw_rows(np.array([5, 5, 5]), made)
    assert made.asked == expected


def plain_mac(key: bytes, name: bytes) -> bytes:
    """CBC-MAC by its definition: four bytes of length and twelve of the id, then sixteen each."""
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    state = encryptor.update(len(name).to_bytes(4, "little") + name[:12].ljust(12, b"\0"))
    for start in range(12, len(name), 16):
        block = name[start : start + 16].ljust(16, b"\0")
        state = encryptor.update(bytes(a ^ b for a, b in zip(state, block, strict=True)))
    return state


def test_ids_of_every_length_have_the_code_that_the_standard_gives_them() -> None:
    names = [
        bytes(1 + (7 * place + length) % 255 for place in range(length)) for length in range(62)
    ]
    key = bytes(range(32))
    offsets = np.cumsum([0, *map(len, names)])
    text = np.frombuffer(b"".join(names), dtype=np.uint8)
    low, high = keyed._mac(keyed._Aes(key), offsets, text)
    for name, one, two in zip(names, low.tolist(), high.tolist(), strict=True):
        assert one.to_bytes(8, "little") + two.to_bytes(8, "little") == plain_mac(key, name)


@pytest.mark.parametrize("length", range(62))
def test_and_so_have_ids_that_are_equally_long(length: int) -> None:
    names = [bytes(1 + (7 * place + each) % 255 for place in range(length)) for each in range(3)]
    key = bytes(range(32))
    text = np.frombuffer(b"".join(names), dtype=np.uint8)
    low, high = keyed._mac(keyed._Aes(key), np.arange(4) * length, text)
    for name, one, two in zip(names, low.tolist(), high.tolist(), strict=True):
        assert one.to_bytes(8, "little") + two.to_bytes(8, "little") == plain_mac(key, name)
