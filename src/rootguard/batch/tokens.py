"""Identifiers of many people, as tokens that rest on the key alone.

A session keeps a registry of the tokens it issued, so that it can restore them. A table of millions
has none: the token is the first candidate that `identifiers` would issue under the same key, which
is a permutation of all identifiers of one shape. `restoring` undoes it for ids; of names two may
share a token.
"""

import contextlib
from collections.abc import Iterator

import numpy as np

from rootguard.batch.arrow import Array, pa
from rootguard.batch.columns import Mask
from rootguard.errors import IdentifierError
from rootguard.identifiers import Identifiers, IssuedToken, Kind

_REMEMBERED = 1 << 16


class Forgetful:
    """A registry that keeps nothing."""

    def add(self, entry: IssuedToken) -> IssuedToken:
        """Give the entry back."""
        return entry

    def find(self, token: str) -> IssuedToken | None:  # noqa: ARG002 - the protocol's signature
        """Nothing was kept."""
        return None

    def since(self, count: int) -> Iterator[IssuedToken]:  # noqa: ARG002
        """There are none."""
        return iter(())

    def __iter__(self) -> Iterator[IssuedToken]:
        return iter(())

    def __len__(self) -> int:
        return 0


class BatchTokens:
    """Tokens for whole columns."""

    __slots__ = ("_identifiers", "_key", "_known")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._known: dict[tuple[Kind, str], str | None] = {}
        self._identifiers = Identifiers(key, Forgetful())

    def protect(self, kind: Kind, texts: Array) -> tuple[Array, Mask]:
        """A token for each text, and where a text is not an identifier of that kind."""
        coded = texts.dictionary_encode()
        tokens = [self.token(kind, text) for text in coded.dictionary.to_pylist()]
        made = pa.array(tokens, pa.large_string()).take(coded.indices)
        wrong = np.zeros(len(texts), dtype=np.bool_)
        if None in tokens:
            wrong = (made.is_null().to_numpy(zero_copy_only=False)) & (
                texts.is_valid().to_numpy(zero_copy_only=False)
            )
        return made, wrong

    def token(self, kind: Kind, text: str) -> str | None:
        """The token of one text; None if it is not an identifier of that kind."""
        if (kind, text) in self._known:
            return self._known[kind, text]
        if len(self._known) >= _REMEMBERED:
            # An instance indexes what it issues; a fresh one now and then keeps memory flat.
            self._known.clear()
            self._identifiers = Identifiers(self._key, Forgetful())
        token = None
        with contextlib.suppress(IdentifierError):
            token = self._identifiers.protect(kind, text)
        self._known[kind, text] = token
        return token

    def __repr__(self) -> str:
        return "<tokens>"
