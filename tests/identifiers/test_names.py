"""Names of people: one token per name in every mention, whatever its place, case and company."""

import re
import string

import pytest

from rootguard.identifiers import Identifiers
from tests.support.identifier_makers import GIVEN, KEY, NAME_DATA, SURNAMES, fresh


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
