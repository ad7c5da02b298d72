"""Identifiers of many people as tokens that rest on the key alone, and ids back from them.

A session keeps a registry of the tokens it issued, so that it can restore them. A table of millions
has none: the token is the first candidate that `identifiers` would issue under the same key, which
is a permutation of all identifiers of one shape. For the owner of the store it is inverted, and
what comes out counts only if the store knows that person from a table or by name: an altered token
gives somebody else's id or nobody's, and nobody's is refused. Ids alone are restored; whatever else
a row held is the owner's own to look up. Names are not: many share a token.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from rootguard.batch.columns import Array, Mask, foreign_errors_as
from rootguard.batch.tokens import ColumnTokens, EmptyRegistry
from rootguard.errors import IdentifierError, shielded
from rootguard.identifiers import Identifiers, IssuedToken, Kind
from rootguard.identifiers.registry import Seal
from rootguard.store import Store, tables


class BatchTokens:
    """Tokens for whole columns."""

    __slots__ = ("_tokens",)

    def __init__(self, key: bytes) -> None:
        self._tokens = ColumnTokens(key)

    def protect(self, kind: Kind, texts: Array) -> tuple[Array, Mask]:
        """A token for each text, and where a text is not an identifier of that kind."""
        coded = texts.dictionary_encode()
        tokens = self._tokens.of(kind, coded.dictionary.to_pylist())
        made = pa.array(tokens, pa.large_string()).take(coded.indices)
        wrong = np.zeros(len(texts), dtype=np.bool_)
        if None in tokens:
            wrong = (made.is_null().to_numpy(zero_copy_only=False)) & (
                texts.is_valid().to_numpy(zero_copy_only=False)
            )
        return made, wrong

    def token(self, kind: Kind, text: str) -> str | None:
        """The token of one text; None if it is not an identifier of that kind."""
        return self._tokens.of(kind, [text])[0]

    def __repr__(self) -> str:
        return "<tokens>"


_ATTEMPTS = 3
"""A token is another than the first candidate only where that was the identifier itself."""


@shielded
def restore_ids(tokens: Iterable[str | None], kind: Kind, *, store: Store) -> list[str | None]:
    """The id behind each token of an id column that was declared as an identifier of a kind.

    None stands where there is no token, or none that a table under this store has shown.
    """
    if kind == "person":
        raise IdentifierError("names in a table share tokens; they cannot be restored")
    with foreign_errors_as(IdentifierError("the tokens could not be worked on")):
        given = list(tokens)
        inverse = _InverseTokens(store.identifier_key, kind)
        found = {token: inverse.id_of(token) for token in given if token is not None}
        ids = [name for name in dict.fromkeys(found.values()) if name is not None]
        known = set(_known(ids, store))
        made = (None if token is None else found[token] for token in given)
        return [name if name in known else None for name in made]


def _known(ids: Sequence[str], store: Store) -> Iterator[str]:
    """Those people whom a table has shown, or whom the store knows by name."""
    named = set(store.principals())
    prf = tables.table_prf(store.fingerprint_key, exact=store.exact_ids)
    sought: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
    for name in ids:
        if name in named:
            yield name
        else:
            tag = int(prf.tags(prf.person(name))[0])
            sought[tables.partition_of(tag)].append((tag, name))
    runs = store.tables()
    for number, table in enumerate(dict.fromkeys(run.table for run in runs)):
        roots = len({run.root for run in runs if run.table == table})
        for partition, people in sought.items():
            there = tables.read(store.fingerprints(number * tables.PARTITIONS + partition), roots)[
                "tag"
            ]
            tags = np.array([tag for tag, _ in people], dtype=np.uint64)
            for (_, name), held in zip(people, np.isin(tags, there), strict=True):
                if held:
                    yield name


class _InverseTokens:
    """Undoes the permutation; what it gives has yet to be found in a store."""

    def __init__(self, key: bytes, kind: Kind) -> None:
        seal = Seal(key)
        self._kind = kind
        self._tokens = BatchTokens(key)
        self._inverses = [
            Identifiers(key, _AssumedRegistry(seal, kind, attempt)) for attempt in range(_ATTEMPTS)
        ]

    def id_of(self, token: str) -> str | None:
        """The one identifier whose token this is; None if it is not written like one."""
        for inverse in self._inverses:
            if inverse.issued(self._kind, token):
                original = inverse.restore(self._kind, token)
                if self._tokens.token(self._kind, original) == token:
                    return original
        return None


class _AssumedRegistry(EmptyRegistry):
    """A registry in which every token was issued, at one attempt."""

    def __init__(self, seal: Seal, kind: Kind, attempt: int) -> None:
        self._seal, self._kind, self._payload = seal, kind, bytes([attempt])

    def find(self, token: str) -> IssuedToken | None:
        return self._seal.close(self._kind, token, self._payload)
