"""Tokens of whole columns, equal to the first that `Identifiers` would issue for each text.

A session takes its identifiers one by one, and asks its registry each time whether a token is free.
A table's tokens rest on the key alone, so a column is worked on at once: the texts of a shape are
ranked together, and all ranks are permuted together. Names are the exception: they are mapped word
by word, as in a session.
"""

import contextlib
import json
import math
import re
import string
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from rootguard.errors import IdentifierError
from rootguard.identifiers import Identifiers, IssuedToken, Kind
from rootguard.identifiers.ff1 import MIN_DOMAIN, Permutation, tweak_of
from rootguard.identifiers.formats import EMAIL, MAX_LENGTH, Written, read
from rootguard.identifiers.tokens import TRIES


class _AlphabetNames(dict[int, str]):
    """Each sign of a shape as the alphabet that it stands for is named; any other is its own."""

    def __missing__(self, sign: int) -> str:
        return f"{json.dumps(chr(sign))}, "


# Names that are known again, and shapes. Not more: `Identifiers` grows with what it has issued.
_REMEMBERED = 1 << 16
# A sign for every class that a character is replaced within, from Unicode's private use: a shape is
# a text in which these stand for the characters that vary. Each class is a run of the alphabet.
_CLASSES = {
    "\ue000": string.digits,
    "\ue001": string.ascii_uppercase,
    "\ue002": string.ascii_lowercase,
}
_SHAPES = str.maketrans(
    {character: sign for sign, letters in _CLASSES.items() for character in letters}
)
_ALPHABETS = _AlphabetNames(
    {ord(sign): f"{json.dumps(letters)}, " for sign, letters in _CLASSES.items()}
)
_SIGNS = re.compile("[\ue000-\ue002]")
# Ranks in four limbs of 32 bits; shorter by two bits than they hold, as `Permutation` wants them.
_LIMBS, _LIMB, _LARGEST = 4, np.uint64(32), 1 << 126
_LOW = np.uint64((1 << 32) - 1)

_Signs = NDArray[np.uint32]


class EmptyRegistry:
    """A registry that keeps nothing."""

    def add(self, entry: IssuedToken) -> IssuedToken:
        return entry

    def find(self, token: str) -> IssuedToken | None:  # noqa: ARG002 - the protocol's signature
        return None

    def since(self, count: int) -> Iterator[IssuedToken]:  # noqa: ARG002
        return iter(())

    def __iter__(self) -> Iterator[IssuedToken]:
        return iter(())

    def __len__(self) -> int:
        return 0


class ColumnTokens:
    """The tokens of many texts under one key."""

    __slots__ = ("_identifiers", "_key", "_names", "_permutation", "_shapes")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._permutation = Permutation(key)
        self._names: dict[str, str | None] = {}
        self._shapes: dict[tuple[Kind, str], tuple[int, bytes]] = {}
        self._identifiers = Identifiers(key, EmptyRegistry())

    def of(self, kind: Kind, texts: Sequence[str]) -> list[str | None]:
        """The token of each text; None where it is not an identifier of that kind."""
        if kind == "person":
            return [self._name(text) for text in texts]
        tokens: list[str | None] = [None] * len(texts)
        alone: list[int] = []
        lengths: dict[int, list[int]] = {}
        shapes = [_shape_of(kind, text) for text in texts]
        for place, shape in enumerate(shapes):
            if shape is None:
                alone.append(place)
            else:
                lengths.setdefault(len(shape), []).append(place)
        for places in lengths.values():
            alone += self._together(kind, texts, shapes, places, tokens)
        found = [(place, self._written(kind, texts[place])) for place in alone]
        ranked = [(place, written) for place, written in found if written is not None]
        images = self._permutation.forward_each(
            [written.rank for _, written in ranked],
            [written.size for _, written in ranked],
            [tweak_of(kind.encode(), written.shape, b"\x00") for _, written in ranked],
        )
        for (place, written), image in zip(ranked, images, strict=True):
            tokens[place] = self._token(kind, written, image)
        return tokens

    def _written(self, kind: Kind, text: str) -> Written | None:
        if not 1 <= len(text) <= MAX_LENGTH:
            return None
        written = read(kind, text)
        return written if written is not None and written.size >= MIN_DOMAIN else None

    def _token(self, kind: Kind, written: Written, image: int) -> str | None:
        """The first candidate that is not the identifier itself."""
        for attempt in range(1, TRIES):
            if image != written.rank:
                return written.write(image)
            tweak = tweak_of(kind.encode(), written.shape, bytes([attempt]))
            image = self._permutation.forward(written.rank, written.size, tweak)
        return None

    def _together(
        self,
        kind: Kind,
        texts: Sequence[str],
        shapes: Sequence[str | None],
        places: list[int],
        tokens: list[str | None],
    ) -> list[int]:
        """Fill in the tokens of texts of one length; those are left whose ranks are too large."""
        known = {shape: self._shape(kind, shape) for place in places if (shape := shapes[place])}
        left = [place for place in places if known[shapes[place] or ""][0] >= _LARGEST]
        small = {shape for shape, (size, _) in known.items() if size < MIN_DOMAIN}
        done = [p for p in places if known[s := shapes[p] or ""][0] < _LARGEST and s not in small]
        if not done:
            return left
        signs = _signs([texts[place] for place in done])
        classes = _signs([shapes[place] or "" for place in done])
        first, bases = classes.copy(), np.ones_like(classes)
        for sign, letters in _CLASSES.items():
            there = classes == ord(sign)
            first[there], bases[there] = ord(letters[0]), len(letters)
        images = self._permutation.forward_each(
            _numbers(_ranks(signs - first, bases)),
            [known[shapes[place] or ""][0] for place in done],
            [known[shapes[place] or ""][1] for place in done],
        )
        made = _digits(_limbs(images), bases) + first
        written: list[str] = made.view(f"U{signs.shape[1]}").ravel().tolist()
        for place, token in zip(done, written, strict=True):
            tokens[place] = token if token != texts[place] else self._again(kind, token)
        return left

    def _shape(self, kind: Kind, shape: str) -> tuple[int, bytes]:
        """How many texts have a shape, and the tweak of its permutation."""
        if (kind, shape) not in self._shapes:
            if len(self._shapes) >= _REMEMBERED:
                self._shapes.clear()
            counts = (len(letters) ** shape.count(sign) for sign, letters in _CLASSES.items())
            named = f"[{shape.translate(_ALPHABETS)[:-2]}]".encode()  # as `formats` names it
            self._shapes[kind, shape] = (
                math.prod(counts),
                tweak_of(kind.encode(), named, b"\x00"),
            )
        return self._shapes[kind, shape]

    def _again(self, kind: Kind, text: str) -> str | None:
        """The token of a text that the permutation maps to itself."""
        written = self._written(kind, text)
        return None if written is None else self._token(kind, written, written.rank)

    def _name(self, text: str) -> str | None:
        if text in self._names:
            return self._names[text]
        if len(self._names) >= _REMEMBERED:
            # An instance indexes what it issues; a fresh one now and then keeps memory flat.
            self._names.clear()
            self._identifiers = Identifiers(self._key, EmptyRegistry())
        token = None
        with contextlib.suppress(IdentifierError):
            token = self._identifiers.protect("person", text)
        self._names[text] = token
        return token

    def __repr__(self) -> str:
        return "<tokens>"


def _shape_of(kind: Kind, text: str) -> str | None:
    """The shape of a code or an e-mail address; None if it has to be read by itself."""
    if not 1 <= len(text) <= MAX_LENGTH or _SIGNS.search(text) or text[-1] == "\x00":
        return None
    if kind == "code":
        return text.translate(_SHAPES)
    if kind == "email" and EMAIL.fullmatch(text):
        kept = text.rindex(".")
        return text[:kept].translate(_SHAPES) + text[kept:]
    return None


def _signs(texts: Sequence[str]) -> _Signs:
    """The characters of texts of one length, a row each."""
    length = len(texts[0])
    return np.array(texts, dtype=f"U{length}").view(np.uint32).reshape(len(texts), length)


def _ranks(digits: _Signs, bases: _Signs) -> NDArray[np.uint64]:
    """Digits of mixed bases as numbers, in limbs from the lowest."""
    limbs = np.zeros((_LIMBS, len(digits)), dtype=np.uint64)
    for place in range(digits.shape[1]):
        base, carry = bases[:, place].astype(np.uint64), digits[:, place].astype(np.uint64)
        for limb in limbs:
            limb *= base
            limb += carry
            carry = limb >> _LIMB
            limb &= _LOW
    return limbs


def _digits(limbs: NDArray[np.uint64], bases: _Signs) -> _Signs:
    """The other way round; the limbs are used up."""
    digits = np.zeros_like(bases)
    for place in reversed(range(bases.shape[1])):
        base = bases[:, place].astype(np.uint64)
        if base.max() == 1:
            continue
        rest = np.zeros(len(bases), dtype=np.uint64)
        for limb in limbs[::-1]:
            rest <<= _LIMB
            rest |= limb
            limb[:] = rest // base
            rest -= limb * base
        digits[:, place] = rest
    return digits


def _numbers(limbs: NDArray[np.uint64]) -> list[int]:
    low, high = limbs[0] | limbs[1] << _LIMB, limbs[2] | limbs[3] << _LIMB
    pairs = zip(high.tolist(), low.tolist(), strict=True)
    return [(above << 64) | below for above, below in pairs]


def _limbs(numbers: Sequence[int]) -> NDArray[np.uint64]:
    words = b"".join([number.to_bytes(16, "little") for number in numbers])
    return np.frombuffer(words, dtype="<u4").reshape(-1, _LIMBS).T.astype(np.uint64)
