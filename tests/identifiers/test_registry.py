"""Only what was issued is restored, by the same key, and once under one meaning."""

import random
import re
import string

import pytest

from rootguard.errors import IdentifierError
from rootguard.identifiers import Identifiers, IssuedToken, IssuedTokens, Kind, MemoryTokens
from rootguard.identifiers.ff1 import Permutation
from rootguard.identifiers.registry import Seal
from tests.support.identifier_makers import KEY, MAKERS, OTHER_KEY, SURNAMES, fresh


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
