"""The ciphers: NIST's samples, permutations of small and large domains, equal chances over keys.

A statistical check states how often a correct implementation would fail it if the seed were fresh,
and has a control that must fail.
"""

from collections import Counter

import numpy as np
import pytest
from ffx import FF1
from scipy.special import chdtri

from rootguard.errors import IdentifierError
from rootguard.identifiers.ff1 import CACHED_ELEMENTS, FF1_DOMAIN, Permutation, derive_key
from tests.support.identifier_makers import KEY, OTHER_KEY

AES128 = "2B7E151628AED2A6ABF7158809CF4F3C"
AES192 = AES128 + "EF4359D8D580AA4F"
AES256 = AES192 + "7F036D6F04FC6A94"
TEN, LETTERS = "0123456789", "0123456789abcdefghi"
TWEAK10, TWEAK11 = "39383736353433323130", "3737373770717273373737"


@pytest.mark.parametrize(
    ("key", "radix", "tweak", "plain", "cipher"),
    [
        (AES128, 10, "", TEN, "2433477484"),
        (AES128, 10, TWEAK10, TEN, "6124200773"),
        (AES128, 36, TWEAK11, LETTERS, "a9tv40mll9kdu509eum"),
        (AES192, 10, "", TEN, "2830668132"),
        (AES192, 10, TWEAK10, TEN, "2496655549"),
        (AES192, 36, TWEAK11, LETTERS, "xbj3kv35jrawxv32ysr"),
        (AES256, 10, "", TEN, "6657667009"),
        (AES256, 10, TWEAK10, TEN, "1001623463"),
        (AES256, 36, TWEAK11, LETTERS, "xs8a0azh2avyalyzuwd"),
    ],
)
def test_ff1_gives_the_nine_samples_of_nist(
    key: str, radix: int, tweak: str, plain: str, cipher: str
) -> None:
    ff1 = FF1(bytes.fromhex(key), radix=radix)
    assert ff1.encrypt(plain, tweak=bytes.fromhex(tweak)) == cipher
    assert ff1.decrypt(cipher, tweak=bytes.fromhex(tweak)) == plain


@pytest.mark.parametrize("bits", [20, 21, 64, 333])
def test_a_large_domain_is_permuted_by_that_same_ff1_on_bit_strings(bits: int) -> None:
    bitwise = FF1(derive_key(KEY, "ff1"), radix=2)
    permutation = Permutation(KEY)
    for element in (0, 1, 2**bits - 1, 2**bits // 3):
        image = permutation.forward(element, 2**bits, b"tweak")
        assert f"{image:0{bits}b}" == bitwise.encrypt(f"{element:0{bits}b}", tweak=b"tweak")
        assert permutation.backward(image, 2**bits, b"tweak") == element


def test_a_large_domain_that_is_no_power_of_two_keeps_its_bounds() -> None:
    permutation = Permutation(KEY)
    for size in (FF1_DOMAIN, FF1_DOMAIN + 1, 2**20 + 1, 26**7):
        images = [permutation.forward(x, size, b"t") for x in range(300)]
        assert len(set(images)) == 300
        assert max(images) < size
        assert [permutation.backward(y, size, b"t") for y in images] == list(range(300))


def images_of(permutation: Permutation, size: int, tweak: bytes = b"t") -> list[int]:
    return [permutation.forward(x, size, tweak) for x in range(size)]


@pytest.mark.parametrize("size", [*range(10, 130), 1000, 4096, 9999, 10_000])
def test_a_small_domain_is_one_cycle_through_all_of_it(size: int) -> None:
    permutation = Permutation(KEY)
    images = images_of(permutation, size)
    assert sorted(images) == list(range(size))
    assert [permutation.backward(y, size, b"t") for y in images] == list(range(size))
    element, steps = images[0], 1
    while element != 0:
        element, steps = images[element], steps + 1
    assert steps == size  # hence no element maps to itself
    assert images_of(Permutation(KEY), size) == images
    # Two of (size-1)! >= 362,880 cycles are equal by chance once in 360,000; the inputs are fixed.
    assert images_of(Permutation(OTHER_KEY), size) != images
    assert images_of(permutation, size, b"u") != images


def test_the_largest_small_domain_is_still_no_ff1_and_a_permutation() -> None:
    permutation = Permutation(KEY)
    images = np.array(images_of(permutation, FF1_DOMAIN - 1))
    assert np.array_equal(np.sort(images), np.arange(FF1_DOMAIN - 1))
    assert not np.any(images == np.arange(FF1_DOMAIN - 1))


def test_tables_in_memory_stay_bounded_and_come_back_equal() -> None:
    permutation = Permutation(KEY)
    size = CACHED_ELEMENTS // 8
    first = permutation.forward(1, size, b"0")
    for tweak in range(1, 12):
        permutation.forward(1, size, b"%d" % tweak)
        held = [sum(len(array) for array in pair) for pair in permutation._tables.values()]
        assert sum(held) <= 2 * CACHED_ELEMENTS
    assert (size, b"0") not in permutation._tables
    assert permutation.forward(1, size, b"0") == first


FALSE_ALARM = 1e-6


def too_uneven(counts: list[int]) -> bool:
    """Pearson's test for equal chances; a fair source is called uneven once in a million."""
    expected = sum(counts) / len(counts)
    statistic = sum((count - expected) ** 2 / expected for count in counts)
    return bool(statistic > chdtri(len(counts) - 1, FALSE_ALARM))


def test_over_many_keys_every_other_element_is_an_equally_likely_image() -> None:
    size, keys = 10, 6000
    single: Counter[int] = Counter()
    twice: Counter[int] = Counter()
    control: Counter[int] = Counter()
    for number in range(keys):
        permutation = Permutation(number.to_bytes(32, "big"))
        image = permutation.forward(0, size, b"t")
        single[image] += 1
        twice[permutation.forward(image, size, b"t")] += 1
        control[1 + number % 16 % 9] += 1  # four bits modulo nine: seven images twice as likely
    for counts in (single, twice):
        assert 0 not in counts
        assert not too_uneven([counts[image] for image in range(1, size)])
    assert too_uneven([control[image] for image in range(1, size)])


def test_first_images_and_second_images_are_independent_over_keys() -> None:
    """The 72 ordered pairs of images of 0 and 1 that an N-cycle allows are equally likely.

    In a random 10-cycle: P(0→1) = 1/9, then 1→b is uniform on 2..9; else 0→a with a in 2..9 and
    1→0 or any of the 7 others, uniform over the 8: 8 + 64 pairs, each with probability 1/72.
    """
    pairs: Counter[tuple[int, int]] = Counter()
    for number in range(7200):
        permutation = Permutation((number + 10**6).to_bytes(32, "big"))
        pairs[permutation.forward(0, 10, b"t"), permutation.forward(1, 10, b"t")] += 1
    possible = [(1, b) for b in range(2, 10)]
    possible += [(a, b) for a in range(2, 10) for b in range(10) if b not in {1, a}]
    assert len(possible) == 72
    assert set(pairs) <= set(possible)
    assert not too_uneven([pairs[pair] for pair in possible])
    rotations: Counter[tuple[int, int]] = Counter()  # control: uniform images, but a + 1 after a
    for (image, _), count in pairs.items():
        rotations[image, (image + 1) % 10] += count
    assert too_uneven([rotations[pair] for pair in possible])


@pytest.mark.parametrize("size", [0, 1, 9])
def test_fewer_than_ten_elements_are_refused(size: int) -> None:
    with pytest.raises(IdentifierError):
        Permutation(KEY).forward(0, size, b"t")


@pytest.mark.parametrize("element", [-1, 10, 10**9])
def test_an_element_outside_its_domain_is_refused_without_being_named(element: int) -> None:
    with pytest.raises(IdentifierError) as caught:
        Permutation(KEY).backward(element, 10, b"t")
    assert str(element) not in str(caught.value)


def test_subkeys_differ_by_purpose_and_from_the_key() -> None:
    subkeys = {derive_key(KEY, purpose) for purpose in ("ff1", "prefix cipher", "names", "seal")}
    assert len(subkeys | {KEY}) == 5
