"""Identifiers: the ciphers, the formats, names, what is restored, and what never shows.

The format predicates here are written from the specification, not from the implementation. Random
inputs come from fixed seeds, so a pass or a failure repeats; a statistical check states how often a
correct implementation would fail it if the seed were fresh, and has a control that must fail.
"""

import copy
import datetime
import json
import pickle
import random
import re
import string
import threading
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable
from importlib import resources
from itertools import pairwise

import numpy as np
import pytest
from ffx import FF1
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

import rootguard.identifiers as public
from rootguard.errors import IdentifierError
from rootguard.identifiers import (
    Identifiers,
    IssuedToken,
    IssuedTokens,
    Kind,
    MemoryTokens,
    kind_of,
    new_key,
)
from rootguard.identifiers.ff1 import (
    CACHED_ELEMENTS,
    FF1_DOMAIN,
    Permutation,
    derive_key,
)
from rootguard.identifiers.registry import Seal

KEY = bytes(range(32))
OTHER_KEY = bytes(range(1, 33))
MANY = 10_000


def fresh() -> Identifiers:
    return Identifiers(KEY)


# The ciphers

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
    return bool(statistic > chi2.isf(FALSE_ALARM, len(counts) - 1))


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


# Formats: ten thousand of each kind

Make = Callable[[random.Random], tuple[str, Callable[[str], bool]]]


def same_classes(text: str, token: str, kept: set[int] = frozenset()) -> bool:  # type: ignore[assignment]
    if len(text) != len(token):
        return False
    for place, (old, new) in enumerate(zip(text, token, strict=True)):
        classes = (string.digits, string.ascii_uppercase, string.ascii_lowercase)
        own = next((letters for letters in classes if old in letters), old)
        if new not in own or (place in kept and new != old):
            return False
    return True


CODES = ["####-####", "AA-#####", "A#A#-##a", "MRN: ######", "#####", "aa#", "(AA/##)", "#A",
         "aAaA_####.#", "é##-##-ß##", "AAAAAAAA", "###-##-####", "a" * 40, "####" * 10]  # fmt: skip


def fill(template: str, random_: random.Random) -> str:
    classes = {"#": string.digits, "A": string.ascii_uppercase, "a": string.ascii_lowercase}
    return "".join(random_.choice(classes.get(mark, mark)) for mark in template)


def make_code(random_: random.Random) -> tuple[str, Callable[[str], bool]]:
    text = fill(random_.choice(CODES), random_)
    return text, lambda token: same_classes(text, token)


PHONES = [("+1 (", "N", "##) ###-####"), ("+49 ", "N", "# #######"), ("+358 ", "N", "# ### ####"),
          ("+44 (0", "", ")## #### ####"), ("0", "", "## ########"), ("(", "N", "##) ###-####"),
          ("", "N", "##.###.####"), ("1-", "", "###-###-####"), ("+7", "N", "#########"),
          ("+86 ", "N", "## #### #### ext. ##"), ("", "N", "##-####")]  # fmt: skip


def make_phone(random_: random.Random) -> tuple[str, Callable[[str], bool]]:
    kept, first, rest = random_.choice(PHONES)
    lead = random_.choice("23456789") if first else ""
    text = kept + lead + fill(rest.replace("ext", "\0"), random_).replace("\0", "ext")

    def well_formed(token: str) -> bool:
        if len(token) != len(text) or not token.startswith(kept):
            return False
        if first and token[len(kept)] not in "23456789":
            return False
        return re.sub("[0-9]", "#", token) == re.sub("[0-9]", "#", text)

    return text, well_formed


MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September",
          "October", "November", "December"]  # fmt: skip
Render = Callable[[datetime.date], str]
DATES: list[Render] = [
    lambda d: f"{d.year}-{d.month:02}-{d.day:02}",
    lambda d: f"{d.year}/{d.month:02}/{d.day:02}",
    lambda d: f"{d.day:02}.{d.month:02}.{d.year}",
    lambda d: f"{d.month:02}/{d.day:02}/{d.year}",
    lambda d: f"{d.day}.{d.month}.{d.year}",
    lambda d: f"{d.month}/{d.day}/{d.year}",
    lambda d: f"{d.day} {MONTHS[d.month - 1]} {d.year}",
    lambda d: f"{d.day:02} {MONTHS[d.month - 1]} {d.year}",
    lambda d: f"{MONTHS[d.month - 1]} {d.day}, {d.year}",
    lambda d: f"{d.day} {MONTHS[d.month - 1][:3].upper()} {d.year}",
    lambda d: f"{MONTHS[d.month - 1][:3]}. {d.day:02}, {d.year}",
    lambda d: f"{MONTHS[d.month - 1].lower()} {d.day} {d.year}",
    lambda d: f"{d.day} {MONTHS[d.month - 1].upper()} {d.year}",
    lambda d: f"{MONTHS[d.month - 1][:3]}. {d.day}, {d.year}",
]
ALL_DAYS = [datetime.date(1900, 1, 1) + datetime.timedelta(days=n) for n in range(73_049)]
WRITTEN_DATES = [{render(day) for day in ALL_DAYS} for render in DATES]


def make_date(random_: random.Random) -> tuple[str, Callable[[str], bool]]:
    """ "12 May 2024" is written in several forms at once; its token is written in one of them."""
    text = random_.choice(DATES)(random_.choice(ALL_DAYS))
    forms = [written for written in WRITTEN_DATES if text in written]
    return text, lambda token: any(token in written for written in forms)


EMAILS = ["aaa.aaaa@aaaaaa.com", "aa##@aaa.aaaaa.co.uk", "AaaAaa_##+aa@aaa-aa#.example",
          "a@aaaa.org", "###@a.museum"]  # fmt: skip


def make_email(random_: random.Random) -> tuple[str, Callable[[str], bool]]:
    shape, last = random_.choice(EMAILS).rsplit(".", 1)
    text = f"{fill(shape, random_)}.{last}"
    kept = set(range(text.rindex("."), len(text)))
    return text, lambda token: same_classes(text, token, kept)


NAME_DATA = tomllib.loads(
    resources.files("rootguard.identifiers").joinpath("names.toml").read_text("utf-8")
)
GIVEN, SURNAMES = NAME_DATA["given"].split(), NAME_DATA["surnames"].split()
UNLISTED = ["Zyxwv", "McDonald", "Béla", "Øystein", "Truong", "Quillfeather", "DeShawn", "Smith",
            "Young", "王伟", "Иван", "Straße"]  # fmt: skip
NAME_SHAPES = ["{g} {s}", "Dr. {g} {i}. {s}", "{s}", "{s}, {g}", "{g}-{g} {s}", "{g} O'{s}",
               "{g} van der {s}", "Mrs. {g} {s}-{s}, MD", "{i}.{i}. {s}", "{g}  {s}\u2019s",
               "{G} {S}", "{l}", "{g} De {s} Jr."]  # fmt: skip


def make_person(random_: random.Random) -> tuple[str, Callable[[str], bool]]:
    shape = random_.choice(NAME_SHAPES)
    text, pattern = "", ""
    for part in re.split(r"(\{.\})", shape):
        given = random_.choice(GIVEN + UNLISTED)
        surname = random_.choice(SURNAMES + UNLISTED)
        spelled = fill("Aaaaa", random_)
        match part:
            case "{g}":
                text, pattern = text + given, pattern + "[A-Z][a-z]{2,}"
            case "{s}":
                word = random_.choice([surname, surname, surname, spelled])
                text, pattern = text + word, pattern + "[A-Z][a-z]{2,}"
            case "{i}":
                text, pattern = text + fill("A", random_), pattern + "[A-Z]"
            case "{G}" | "{S}":
                text, pattern = text + random_.choice(SURNAMES).upper(), pattern + "[A-Z]{3,}"
            case "{l}":
                text, pattern = text + random_.choice(GIVEN).lower(), pattern + "[a-z]{3,}"
            case kept:
                text, pattern = text + kept, pattern + re.escape(kept)
    return text, lambda token: re.fullmatch(pattern, token) is not None


MAKERS: dict[Kind, Make] = {
    "code": make_code,
    "phone": make_phone,
    "date": make_date,
    "email": make_email,
    "person": make_person,
}


@pytest.mark.parametrize("kind", MAKERS)
def test_ten_thousand_identifiers_keep_their_format_hide_and_come_back(kind: Kind) -> None:
    random_ = random.Random(f"{kind} 1")
    identifiers = fresh()
    tokens: dict[str, str] = {}
    for _ in range(MANY):
        text, well_formed = MAKERS[kind](random_)
        token = identifiers.protect(kind, text)
        assert well_formed(token), "the token is written differently"
        assert token != text
        assert tokens.setdefault(text, token) == token
    assert len(set(tokens.values())) == len(tokens), "two identifiers share a token"
    for text, token in tokens.items():
        assert identifiers.restore(kind, token) == text


def test_the_format_predicates_tell_formats_apart() -> None:
    """A control for the test above: a token of another shape must be called malformed."""
    random_ = random.Random(2)
    for make in MAKERS.values():
        noticed = 0
        for _ in range(200):
            _, well_formed = make(random_)
            noticed += not well_formed(make(random_)[0])
        assert noticed > 50
    assert not same_classes("a1", "A1")
    assert not same_classes("a1", "a11")
    assert "2024-02-30" not in WRITTEN_DATES[0]


@pytest.mark.parametrize("kind", ["code", "phone", "date", "email", "person"])
def test_tokens_depend_on_the_key(kind: Kind) -> None:
    random_ = random.Random(3)
    texts = [MAKERS[kind](random_)[0] for _ in range(100)]
    ours, theirs = fresh(), Identifiers(OTHER_KEY)
    same = sum(ours.protect(kind, text) == theirs.protect(kind, text) for text in texts)
    assert same < 15


def test_equal_digits_in_other_formats_or_kinds_are_permuted_differently() -> None:
    identifiers = fresh()
    written = ["44158820", "4415-8820", "441-58820", "4415 8820"]
    digits = {re.sub("[^0-9]", "", identifiers.protect("code", text)) for text in written}
    digits.add(re.sub("[^0-9]", "", identifiers.protect("phone", "44158820")))
    assert len(digits) == 5


def test_two_kinds_of_one_shape_are_permuted_differently() -> None:
    """A last label outside ASCII is kept by both kinds, so that only the kind is different."""
    text = "abcdefg@hijk.\u00e9\u00e9"
    assert fresh().protect("code", text) != fresh().protect("email", text)


@pytest.mark.parametrize("kind", ["code", "phone"])
def test_a_whole_small_shape_is_permuted_without_a_fixed_point(kind: Kind) -> None:
    identifiers = fresh()
    texts = [f"{n:03d}" for n in range(1000)]
    tokens = [identifiers.protect(kind, text) for text in texts]
    assert sorted(tokens) == texts
    assert all(token != text for token, text in zip(tokens, texts, strict=True))


def test_a_day_below_ten_written_with_and_without_its_zero_are_two_identifiers() -> None:
    identifiers = fresh()
    padded = [f"{day:02} May {year}" for day in range(1, 29) for year in range(1990, 2010)]
    plain = [f"{day} May {year}" for day in range(1, 29) for year in range(1990, 2010)]
    texts = sorted({*padded, *plain})
    tokens = [identifiers.protect("date", text) for text in texts]
    assert len(set(tokens)) == len(texts) == 37 * 20
    assert [identifiers.restore("date", token) for token in tokens] == texts


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("code", ""),
        ("code", "-/-"),
        ("code", "a" * 257),
        ("phone", "+49"),
        ("phone", "+35"),
        ("phone", "12a4"),
        ("phone", "5"),
        ("date", "2023-02-29"),
        ("date", "1899-12-31"),
        ("date", "2100-01-01"),
        ("date", "2024-13-01"),
        ("date", "5 Brumaire 2024"),
        ("date", "2024-03-05 "),
        ("date", "٢٠٢٤-٠٣-٠٥"),
        ("email", "no at sign.com"),
        ("email", "a@localhost"),
        ("email", "a@@b.com"),
        ("person", "Dr."),
        ("person", "R2 D2"),
        ("person", "Q."),
        ("person", "---"),
    ],
)
def test_what_is_not_written_as_its_kind_is_refused(kind: Kind, text: str) -> None:
    identifiers = fresh()
    with pytest.raises(IdentifierError) as caught:
        identifiers.protect(kind, text)
    assert str(caught.value).startswith(f"{kind}: ")
    assert len(text) < 3 or text not in str(caught.value)


def test_too_small_a_shape_says_so_and_ten_is_enough() -> None:
    with pytest.raises(IdentifierError, match="fewer than 10"):
        fresh().protect("phone", "05"[:1] + "-")
    assert fresh().protect("code", "7") in set(string.digits) - {"7"}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2024-03-05", "date"),
        ("March 5, 2024", "date"),
        ("2024-13-05", "code"),
        ("+49 30 1234567", "phone"),
        ("(415) 555-0100", "phone"),
        ("415-555-0100", "phone"),
        ("030 1234567", "phone"),
        ("4415-8820", "code"),
        ("AB-12345", "code"),
        ("X9Y8-77z", "code"),
        ("ann.lee@example.org", "email"),
        ("Xqwv Zyxwv", "person"),
        ("Dr. Zyxwv", "person"),
        ("Lopez", "person"),
        ("zyxwv plugh", "code"),
        ("", "code"),
    ],
)
def test_kinds_are_guessed_from_how_a_text_is_written(text: str, kind: Kind) -> None:
    assert kind_of(text) == kind


# Names


def test_the_lists_are_long_disjoint_and_free_of_words_that_are_kept() -> None:
    kept = {word for key in ("titles", "suffixes", "particles") for word in NAME_DATA[key].split()}
    for names in (GIVEN, SURNAMES):
        assert len(names) >= 400
        assert len(set(names)) == len(names)
        assert all(re.fullmatch("[A-Z][a-z]{2,}", name) for name in names)
        assert not kept & {name.lower() for name in names}
    assert not set(GIVEN) & set(SURNAMES)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("names", [("Maria", "Lopez"), ("Quux", "Zyxwv"), ("Maria", "Zyxwv")])
def test_a_name_has_one_token_in_every_mention(names: tuple[str, str], order: int) -> None:
    given, surname = names
    identifiers = fresh()
    shapes = ["{g} {s}", "Ms. {s}", "{s}", "{s}, {g}", "{g}", "{g} {s}'s"][::order]
    if order == -1 and given == "Quux":
        shapes.remove("{g}")  # first met alone an unlisted word is taken for a surname
        shapes.append("{g}")
    tokens = {s: identifiers.protect("person", s.format(g=given, s=surname)) for s in shapes}
    g, s = tokens["{g}"], tokens["{s}"]
    assert tokens == {shape: shape.format(g=g, s=s) for shape in shapes}
    assert g != s


def test_the_owners_own_name_is_never_somebody_elses_token() -> None:
    def tokens(*, avoiding: bool) -> set[str]:
        identifiers = Identifiers(KEY)
        if avoiding:
            identifiers.avoid("MARGUERITE Lopez")
        others = [name for name in GIVEN if name != "Marguerite"]
        return {identifiers.protect("person", f"{name} Haddad") for name in others}

    assert sum(token.startswith("Marguerite ") for token in tokens(avoiding=False)) == 1
    avoided = tokens(avoiding=True)
    assert len(avoided) == len(GIVEN) - 1
    assert not any("Marguerite" in token or "Lopez" in token for token in avoided)


def test_an_unlisted_word_keeps_its_token_in_another_place() -> None:
    identifiers = fresh()
    alone = identifiers.protect("person", "Zyxwv")
    assert alone in SURNAMES
    assert identifiers.protect("person", "Zyxwv Lopez").split()[0] == alone


def test_given_names_become_given_names_and_surnames_surnames() -> None:
    for text in ("Maria Lopez", "Quux Zyxwv", "Lopez, Maria", "Zyxwv, Quux"):
        words = fresh().protect("person", text).split()
        given, surname = reversed(words) if "," in text else words
        assert given in GIVEN
        assert surname.rstrip(",") in SURNAMES


@pytest.mark.parametrize("name", ["D\u0130LEK", "STRA\u00dfE", "\u00c9", "McDonald", "MCDONALD"])
def test_names_whose_case_cannot_be_changed_and_back_are_restored_exactly(name: str) -> None:
    identifiers = fresh()
    assert identifiers.restore("person", identifiers.protect("person", name)) == name


def test_case_titles_particles_and_ties_are_kept() -> None:
    identifiers = fresh()
    maria, lopez = identifiers.protect("person", "Maria Lopez").split()
    expected = {
        "MARIA LOPEZ": f"{maria} {lopez}".upper(),
        "maria lopez": f"{maria} {lopez}".lower(),
        "Dr. Maria van der Lopez, MD": f"Dr. {maria} van der {lopez}, MD",
        "Maria De Lopez": f"{maria} De {lopez}",
        "Maria-Maria O'Lopez-Lopez": f"{maria}-{maria} O'{lopez}-{lopez}",
        "LOPEZ'S": f"{lopez.upper()}'S",
    }
    for text, token in expected.items():
        assert identifiers.protect("person", text) == token
        assert identifiers.restore("person", token) == text
    assert not identifiers.protect("person", "Van Nguyen").startswith("Van ")


def test_an_initial_becomes_another_letter_and_all_letters_differ() -> None:
    identifiers = fresh()
    letters = []
    for letter in string.ascii_uppercase:
        found = re.fullmatch(
            r"\w+ ([A-Z])\. \w+", identifiers.protect("person", f"Maria {letter}. Lopez")
        )
        assert found
        letters.append(found[1])
    assert sorted(letters) == list(string.ascii_uppercase)
    assert all(old != new for old, new in zip(string.ascii_uppercase, letters, strict=True))


def test_more_names_than_the_lists_hold_still_get_distinct_tokens() -> None:
    identifiers = fresh()
    words = [f"Z{a}{b}q" for a in string.ascii_lowercase for b in string.ascii_lowercase]
    words += SURNAMES
    tokens = [identifiers.protect("person", word) for word in words]
    assert len(words) > 2 * len(SURNAMES)
    assert len(set(tokens)) == len(words)
    assert [identifiers.restore("person", token) for token in tokens] == words


# Restoring only what was issued


@pytest.mark.parametrize("kind", MAKERS)
def test_tokens_of_another_issuer_are_not_restored(kind: Kind) -> None:
    random_ = random.Random(f"{kind} 4")
    ours, theirs = fresh(), Identifiers(OTHER_KEY)
    texts = [MAKERS[kind](random_)[0] for _ in range(300)]
    issued = {ours.protect(kind, text) for text in texts}
    assert all(ours.issued(kind, token) for token in issued)
    tried = 0
    for text in texts:
        foreign = theirs.protect(kind, text)
        words = set(re.findall(r"[^\W\d_]+", foreign)) if kind == "person" else {foreign}
        if any(ours.issued(kind, word) for word in words):
            continue  # by chance also one of ours; names share their lists, so this is not rare
        tried += 1
        assert not ours.issued(kind, foreign)
        assert ours.restore_text(foreign) == foreign
        with pytest.raises(IdentifierError, match="not issued") as caught:
            ours.restore(kind, foreign)
        assert foreign not in str(caught.value)
    assert tried > 50


def test_one_altered_digit_is_not_restored() -> None:
    identifiers = fresh()
    token = identifiers.protect("code", "4415-8820")
    for place in range(len(token)):
        for digit in set(string.digits) - {token[place]}:
            altered = token[:place] + digit + token[place + 1 :]
            assert not identifiers.issued("code", altered)
            assert identifiers.restore_text(altered) == altered


def test_a_name_with_one_word_that_was_not_issued_is_not_restored() -> None:
    identifiers = fresh()
    given, initial, surname = identifiers.protect("person", "Maria Q. Lopez").split()
    other = next(name for name in SURNAMES if name != surname)
    letter = next(letter for letter in "ABC" if letter != initial[0])
    for forged in (f"{given} {initial} {other}", f"{given} {letter}. {surname}", other):
        assert not identifiers.issued("person", forged)
    assert identifiers.issued("person", f"Mr. {surname}")
    assert not identifiers.issued("person", surname.upper())


def test_a_token_of_one_kind_is_none_of_another() -> None:
    identifiers = fresh()
    token = identifiers.protect("code", "555-123-4567")
    assert identifiers.issued("code", token)
    assert not identifiers.issued("phone", token)


def test_entries_sealed_under_another_key_or_moved_to_another_token_are_void() -> None:
    store = MemoryTokens()
    ours = Identifiers(KEY, store)
    token = ours.protect("code", "4415-8820")
    (entry,) = store
    assert not Identifiers(OTHER_KEY, store).issued("code", token)
    for forged in (
        IssuedToken(kind="code", token="1111-2222", sealed=entry.sealed),
        IssuedToken(kind="code", token="1111-2222", sealed=b""),
        Seal(OTHER_KEY).close("code", "1111-2222", b"\0"),
    ):
        planted = MemoryTokens()
        planted.add(forged)
        victim = Identifiers(KEY, planted)
        assert not victim.issued("code", "1111-2222")
        assert victim.restore_text("1111-2222") == "1111-2222"


def test_a_registry_carried_over_restores_under_the_same_key() -> None:
    store: IssuedTokens = MemoryTokens()
    before = Identifiers(KEY, store)
    tokens = [before.protect("code", "4415-8820"), before.protect("person", "Ann Zyxwv")]
    copied = MemoryTokens()
    for entry in store:
        assert copied.add(entry) == entry
    after = Identifiers(KEY, copied)
    assert after.restore_text(" / ".join(tokens)) == "4415-8820 / Ann Zyxwv"
    assert after.protect("person", "Ann Zyxwv") == tokens[1]
    assert not fresh().issued("code", tokens[0])


def test_tokens_that_another_process_adds_are_found_in_texts() -> None:
    store = MemoryTokens()
    reader, writer = Identifiers(KEY, store), Identifiers(KEY, store)
    assert reader.restore_text("nothing yet") == "nothing yet"
    token = writer.protect("code", "4415-8820")
    assert reader.restore_text(token) == "4415-8820"


def test_a_token_text_that_is_taken_is_not_given_a_second_meaning() -> None:
    taken = fresh().protect("code", "4415-8820")
    store = MemoryTokens()
    store.add(Seal(KEY).close("phone", taken, b"\0"))
    identifiers = Identifiers(KEY, store)
    token = identifiers.protect("code", "4415-8820")
    assert token != taken
    assert identifiers.protect("code", "4415-8820") == token
    assert identifiers.restore("code", token) == "4415-8820"


def test_a_fixed_point_of_the_permutation_is_not_given_out(monkeypatch: pytest.MonkeyPatch) -> None:
    first: list[bytes] = []
    forward = Permutation.forward

    def fixed_once(self: Permutation, element: int, size: int, tweak: bytes) -> int:
        first.append(tweak)
        return element if tweak == first[0] else forward(self, element, size, tweak)

    monkeypatch.setattr(Permutation, "forward", fixed_once)
    identifiers = fresh()
    token = identifiers.protect("code", "4415-8820")
    assert len(set(first)) == 2
    assert token != "4415-8820"
    assert identifiers.restore("code", token) == "4415-8820"


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
    for number in range(10_000):
        identifiers.protect("code", f"{number:04d}")
    for number in range(100_00):
        identifiers.protect("code", f"{number // 100:02d} {number % 100:02d}")
    assert identifiers.issued("code", inner)
    assert identifiers.issued("code", outer)
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


@settings(max_examples=300, deadline=None)
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


@settings(max_examples=400, deadline=None)
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


# What never shows

CANARY = "Canarybird"
DIGITS = "739184652"


def private_frames(error: BaseException) -> list[str]:
    """Local variables of the library's frames, and everything the error chain would print."""
    shown = ["".join(traceback.format_exception(error))]
    link: BaseException | None = error
    while link is not None:
        shown += [str(link), repr(link), repr(link.__dict__)]
        for frame, _ in traceback.walk_tb(link.__traceback__):
            if "rootguard" in frame.f_code.co_filename and "tests" not in frame.f_code.co_filename:
                shown.append(repr(frame.f_locals))
        link = link.__cause__ or link.__context__
    return shown


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("date", DIGITS),
        ("email", DIGITS),
        ("phone", CANARY),
        ("person", CANARY + DIGITS),
        ("code", DIGITS * 40),
        (CANARY, DIGITS),
        (DIGITS, "code"),
        ("code", 739184652),
        ("code", [DIGITS]),
    ],
)
@pytest.mark.parametrize("method", ["protect", "restore"])
def test_no_error_and_no_frame_of_it_holds_the_identifier(
    method: str, kind: Kind, text: str
) -> None:
    identifiers = fresh()
    with pytest.raises(IdentifierError) as caught:
        getattr(identifiers, method)(kind, text)
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    source = "".join(private_frames(error)[1:])
    assert CANARY not in source
    assert DIGITS not in source


def test_the_canary_would_be_seen_in_a_frame_that_held_it() -> None:
    """A control: the search above does find a local variable of a library frame."""
    with pytest.raises(TypeError) as caught:
        kind_of(DIGITS.encode())  # type: ignore[arg-type]
    assert DIGITS in "".join(private_frames(caught.value)[1:])


def test_representations_and_stored_entries_show_nothing() -> None:
    store = MemoryTokens()
    identifiers = Identifiers(KEY, store)
    identifiers.protect("person", CANARY)
    identifiers.protect("code", DIGITS)
    shown = [repr(identifiers), str(identifiers), f"{identifiers}", repr(store)]
    shown += [repr(entry) for entry in store]
    shown += [repr(getattr(identifiers, slot)) for slot in Identifiers.__slots__]
    assert len(store) == 2
    assert repr(identifiers) == "<identifiers>"
    for text in shown:
        assert CANARY not in text
        assert DIGITS not in text
        assert KEY.hex() not in text
        assert repr(KEY)[2:-1] not in text


def test_stored_entries_do_not_show_how_long_a_name_is() -> None:
    store = MemoryTokens()
    identifiers = Identifiers(KEY, store)
    for name in ("Zy", "Zyxwvutsrqponmlkj", "Maria"):
        identifiers.protect("person", name)
    assert len({len(entry.sealed) for entry in store}) == 1


def test_identifiers_refuse_to_be_pickled_copied_or_written_as_json() -> None:
    identifiers = fresh()
    for copier in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps):
        with pytest.raises(TypeError):
            copier(identifiers)


@pytest.mark.parametrize("key", [b"", bytes(16), bytes(33), "0" * 32, None])
def test_a_key_that_is_not_32_bytes_is_refused(key: bytes) -> None:
    with pytest.raises(IdentifierError, match="32 bytes"):
        Identifiers(key)


def test_new_keys_are_fresh_and_fit() -> None:
    keys = {new_key() for _ in range(20)}
    assert len(keys) == 20
    assert all(len(key) == 32 for key in keys)
    assert Identifiers(keys.pop()).protect("code", "4415-8820") != "4415-8820"


def test_the_public_names_are_these() -> None:
    assert " ".join(public.__all__) == (
        "Identifiers IssuedToken IssuedTokens Kind MemoryTokens kind_of new_key"
    )
