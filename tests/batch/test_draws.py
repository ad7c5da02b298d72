"""Noise for many people at once: the single value's distribution, from a stream that repeats."""

import os
from fractions import Fraction

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from rootguard.errors import StoreKeyError
from rootguard.mechanisms import MECHANISMS, Mechanism, mechanism
from rootguard.mechanisms import keyed as streams
from rootguard.mechanisms.exact import GuideTableSampler, Words, certain_floors
from rootguard.mechanisms.keyed import People, Prf, RootStreams
from rootguard.rng import Randomness
from rootguard.values import Domain, MechanismName
from tests.support.goodness import FALSE_ALARM, fit

KEY = bytes(range(32))
PEOPLE = 60_000


def people(prf: Prf, ids: list[str]) -> People:
    encoded = [name.encode() for name in ids]
    offsets = np.cumsum([0, *map(len, encoded)])
    return prf.people(offsets, np.frombuffer(b"".join(encoded), dtype=np.uint8))


def root_streams(
    prf: Prf,
    epsilon: str,
    name: MechanismName,
    *,
    size: int = 1000,
    root: str = "ast",
    version: int = 1,
) -> RootStreams:
    domain = Domain(lower=0, upper=1, size=size)
    return prf.root(root, domain, Fraction(epsilon), name, version)


EVERYONE = [f"patient {number}" for number in range(PEOPLE)]


def draws(
    name: MechanismName, epsilon: str, index: int, *, size: int = 1000, key: bytes = KEY
) -> NDArray[np.int64]:
    prf = Prf(key)
    points = np.full(PEOPLE, index)
    made = root_streams(prf, epsilon, name, size=size).of(people(prf, EVERYONE), points)
    return mechanism(name, Fraction(epsilon), size).draw_rows(points, made)


def pmf(noise: Mechanism, index: int) -> NDArray[np.float64]:
    masses: NDArray[np.float64] = np.exp(noise.log_pmf(index, np.arange(noise.size)))
    return masses


@pytest.mark.parametrize("index", [0, 3, 500, 999])
@pytest.mark.parametrize("epsilon", ["0.003", "0.1", "2"])
@pytest.mark.parametrize("name", MECHANISMS)
def test_the_noise_of_many_has_the_distribution_of_one(
    name: MechanismName, epsilon: str, index: int
) -> None:
    found = draws(name, epsilon, index)
    noise = mechanism(name, Fraction(epsilon), 1000)
    assert fit(found, pmf(noise, index)) > FALSE_ALARM
    for factor in (Fraction(1, 2), Fraction(2)):  # the control: other noise is told apart
        other = mechanism(name, Fraction(epsilon) * factor, 1000)
        assert fit(found, pmf(other, index)) < FALSE_ALARM


@pytest.mark.parametrize("size", [2, 3, 70_000])
@pytest.mark.parametrize("name", MECHANISMS)
def test_the_noise_of_many_fits_on_the_smallest_and_on_large_grids(
    name: MechanismName, size: int
) -> None:
    found = draws(name, "0.5", 1, size=size)
    noise = mechanism(name, Fraction("0.5"), size)
    assert fit(found, pmf(noise, 1)) > FALSE_ALARM


def test_the_thresholds_are_those_of_one_draw_to_the_last_bit() -> None:
    noise = mechanism("geometric", Fraction("0.1"), 1000)
    many, single = noise._row_sampler, noise._sampler  # type: ignore[attr-defined]
    (wide,) = certain_floors(many._compute, words=2)
    noised = single._rows[0][0]  # 32 bits of the same P(Z != 0)
    assert wide[0] >> 32 == noised


class Given:
    """A source of words that were written down."""

    def __init__(self, *words: int) -> None:
        self._words = list(words)

    def words(self, count: int) -> list[int]:
        taken, self._words = self._words[:count], self._words[count:]
        assert len(taken) == count
        return taken


def test_a_tie_is_settled_by_more_bits_on_either_side() -> None:
    noise = mechanism("geometric", Fraction("0.1"), 1000)
    sampler: GuideTableSampler = noise._row_sampler  # type: ignore[attr-defined]
    edges = certain_floors(sampler._compute, words=2)[0]
    wide = certain_floors(sampler._compute, words=3)[0]
    words: Words = np.array([edges[4]], dtype=np.uint64)
    rest = wide[4] & 0xFFFFFFFF

    def sourced(*given: int) -> int:
        source: Randomness = Given(*given)
        return int(sampler.draw(words, lambda row: source)[0])

    assert sourced(rest - 1) == 4
    assert sourced(rest + 1) == 5
    assert sourced(rest, 0) == 4  # tied again: a third word decides
    beside: Words = np.array([edges[4] - 1, edges[4] + 1], dtype=np.uint64)
    assert sampler.draw(beside, lambda row: Given()).tolist() == [4, 5]


@pytest.mark.parametrize("edge", [0, 4, 8])
def test_the_first_and_the_last_threshold_can_tie_as_well(edge: int) -> None:
    sampler: GuideTableSampler = mechanism("laplace", Fraction("0.1"), 10)._row_sampler  # type: ignore[attr-defined]
    edges = certain_floors(sampler._compute, words=2)[0]
    assert len(edges) == 9
    rest = certain_floors(sampler._compute, words=3)[0][edge] & 0xFFFFFFFF
    words: Words = np.array([0, edges[edge], 2**64 - 1, edges[edge]], dtype=np.uint64)
    more = {1: Given(rest - 1), 3: Given(rest + 1)}
    assert sampler.draw(words, more.__getitem__).tolist() == [0, edge, 9, edge + 1]


def test_noise_that_is_rarer_than_a_cell_of_the_guide_is_drawn() -> None:
    sampler: GuideTableSampler = mechanism("geometric", Fraction(20), 10)._row_sampler  # type: ignore[attr-defined]
    first, second = certain_floors(sampler._compute, words=2)[0][:2]
    words: Words = np.array([0, first - 1, first + 1, second - 1, second + 1], dtype=np.uint64)
    assert sampler.draw(words, lambda row: Given()).tolist() == [0, 0, 1, 1, 2]


def test_a_persons_bits_are_the_cbc_mac_of_length_and_id() -> None:
    prf = Prf(KEY)
    ids = ["", "a", "id-4", "twelve bytes", "thirteen byte", "ä" * 40, "x" * 28, "x" * 29]
    found = people(prf, ids)
    key = streams._derive(KEY, "person")
    for row, name in enumerate(ids):
        text = len(name.encode()).to_bytes(4, "little") + name.encode()
        text += bytes(-len(text) % 16)
        chained = Cipher(algorithms.AES(key), modes.CBC(bytes(16))).encryptor().update(text)
        expected = np.frombuffer(chained[-16:], dtype="<u8")
        assert [found.low[row], found.high[row]] == expected.tolist()


def test_the_same_person_root_and_value_draw_the_same_and_anything_else_does_not() -> None:
    base = draws("geometric", "0.1", 500)
    assert np.array_equal(base, draws("geometric", "0.1", 500))
    prf = Prf(KEY)
    everyone, points = people(prf, EVERYONE), np.full(PEOPLE, 500)
    noise = mechanism("geometric", Fraction("0.1"), 1000)

    def apart(found: NDArray[np.int64], by: int = 0) -> float:
        return abs(float(np.corrcoef(base, found - by)[0, 1]))

    limit = 5 / np.sqrt(PEOPLE)  # five deviations of a correlation of independent draws
    assert apart(base) > limit  # the control
    assert apart(draws("geometric", "0.1", 501), by=1) < limit
    assert apart(draws("geometric", "0.11", 500)) < limit
    assert apart(draws("laplace", "0.1", 500)) < limit
    assert apart(draws("geometric", "0.1", 500, key=os.urandom(32))) < limit
    for other in (
        root_streams(prf, "0.1", "geometric", root="alt"),
        root_streams(prf, "0.1", "geometric", version=2),
    ):
        assert apart(noise.draw_rows(points, other.of(everyone, points))) < limit


@pytest.mark.parametrize("key", [b"", b"short", bytes(33)])
def test_a_key_of_another_length_is_refused(key: bytes) -> None:
    with pytest.raises(StoreKeyError, match="32 random bytes"):
        Prf(key)
