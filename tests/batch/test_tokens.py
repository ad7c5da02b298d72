"""Tokens of whole columns: the same as a session would issue, one by one."""

import random
import string
import uuid
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootguard.errors import IdentifierError
from rootguard.identifiers import Identifiers, Kind
from rootguard.identifiers.ff1 import Permutation, tweak_of

pytest.importorskip("pyarrow")

from rootguard.batch.tokens import ColumnTokens, EmptyRegistry

KEY = bytes(range(32))


def one_by_one(kind: Kind, texts: Sequence[str]) -> list[str | None]:
    """A session's tokens, each as if it were the first."""
    tokens: list[str | None] = []
    for text in texts:
        try:
            tokens.append(Identifiers(KEY, EmptyRegistry()).protect(kind, text))
        except IdentifierError:
            tokens.append(None)
    return tokens


def codes(count: int) -> list[str]:
    draw = random.Random(1)
    letters = ["".join(draw.choices(string.ascii_uppercase, k=2)) for _ in range(count)]
    return [f"{each}-{draw.randrange(10**7):07d}" for each in letters]


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("code", codes(40)),
        ("code", [str(uuid.UUID(int=random.Random(n).getrandbits(128))) for n in range(30)]),
        ("code", ["", "x", "12", "1234", "äö-12345678", "A" * 300, "1" * 60, "abc\x00", "７７1"]),
        ("code", ["\ue000\ue001-12345678", "\ue002" * 9]),
        ("phone", [f"+1 415 555 {n:04d}" for n in range(20)] + ["nope"]),
        ("date", [f"19{n}-03-14" for n in range(50, 60)] + ["14 March 1971", "1971-02-31"]),
        ("email", [f"a{n}.b@example.org" for n in range(20)] + ["bad", "a@b.c0m"]),
        ("person", ["Jane Roe", "Tobias Winterbottom", "9"]),
    ],
    ids=["codes", "uuids", "odd", "private use", "phones", "dates", "emails", "names"],
)
def test_a_column_has_the_tokens_of_its_texts(kind: Kind, texts: list[str]) -> None:
    assert ColumnTokens(KEY).of(kind, texts) == one_by_one(kind, texts)


@given(texts=st.lists(st.text(max_size=24), max_size=8))
def test_any_texts_have_the_tokens_that_each_has_alone(texts: list[str]) -> None:
    storable = [text for text in texts if text.isprintable()]
    assert ColumnTokens(KEY).of("code", storable) == one_by_one("code", storable)


@given(
    numbers=st.lists(
        st.integers(20, 130).flatmap(
            lambda bits: st.tuples(
                st.integers(max(10**6, 2 ** (bits - 1) + 1), 2**bits), st.integers(0)
            )
        ),
        max_size=12,
    )
)
def test_many_are_permuted_as_each_is_alone(numbers: list[tuple[int, int]]) -> None:
    sizes = [size for size, _ in numbers]
    elements = [number % size for size, number in numbers]
    tweaks = [tweak_of(b"test", bytes([place])) for place in range(len(numbers))]
    permutation = Permutation(KEY)
    alone = [permutation.forward(*each) for each in zip(elements, sizes, tweaks, strict=True)]
    assert permutation.forward_each(elements, sizes, tweaks) == alone


def test_a_code_that_is_mapped_to_itself_takes_the_next_candidate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = codes(3)
    monkeypatch.setattr(
        Permutation, "forward_each", lambda _self, elements, _sizes, _tweaks: list(elements)
    )
    made = ColumnTokens(KEY).of("code", texts)
    assert not set(made) & set(texts)
    assert len(set(made)) == 3
