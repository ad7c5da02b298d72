"""The record of issued tokens. Only what is in it is ever restored.

Format-preserving encryption has no integrity: an altered digit decrypts to another person's number.
So a token counts only if it was issued, which an entry proves: its sealed part opens under the
issuer's key, for this very kind and token, and under no other.

An entry holds a token (public) and sealed bytes, never a readable identifier, so a store may keep
entries as they are. `IssuedTokens` is the seam for such a store; `MemoryTokens` is the shipped one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn, Protocol, SupportsIndex

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from rootguard.identifiers.ff1 import derive_key
from rootguard.identifiers.formats import Kind

# Sealed payloads are multiples of it: nearly every word of a name takes one, whatever its length.
_BLOCK = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class IssuedToken:
    """One token that was handed out, and what restoring it needs, sealed."""

    kind: Kind
    token: str
    sealed: bytes


class IssuedTokens(Protocol):
    """Where issued tokens are kept. A token's text is its key, whatever its kind."""

    def add(self, entry: IssuedToken) -> IssuedToken:
        """Keep an entry unless its token is taken; give back the one that now stands."""
        ...

    def find(self, token: str) -> IssuedToken | None:
        """The entry of a token, if there is one."""
        ...

    def since(self, count: int) -> Iterator[IssuedToken]:
        """The entries from the one with this number on, counted from 1, in order of issue."""
        ...

    def __iter__(self) -> Iterator[IssuedToken]: ...

    def __len__(self) -> int: ...


class MemoryTokens:
    """Issued tokens in memory; gone with the process."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[str, IssuedToken] = {}

    def add(self, entry: IssuedToken) -> IssuedToken:
        """Keep an entry unless its token is taken; give back the one that now stands."""
        return self._entries.setdefault(entry.token, entry)

    def find(self, token: str) -> IssuedToken | None:
        """The entry of a token, if there is one."""
        return self._entries.get(token)

    def since(self, count: int) -> Iterator[IssuedToken]:
        """The entries from the one with this number on, counted from 1, in order of issue."""
        return iter(tuple(self._entries.values())[max(count - 1, 0) :])

    def __iter__(self) -> Iterator[IssuedToken]:
        return iter(tuple(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<{len(self)} issued tokens>"


class Seal:
    """Seals what restoring needs, bound to kind and token (AES-256-SIV, RFC 5297).

    Payloads are padded, so that an entry does not show how long a name was. Sealing the same twice
    gives the same bytes, so two processes that issue one token agree.
    """

    __slots__ = ("_siv",)

    def __init__(self, key: bytes) -> None:
        self._siv = AESSIV(derive_key(key, "seal", 64))

    def close(self, kind: Kind, token: str, payload: bytes) -> IssuedToken:
        """An entry that only this key opens."""
        padding = b"\x80" + bytes(-(len(payload) + 1) % _BLOCK)
        sealed = self._siv.encrypt(payload + padding, _bound(kind, token))
        return IssuedToken(kind=kind, token=token, sealed=sealed)

    def open(self, entry: IssuedToken) -> bytes | None:
        """The payload, or None if the entry was altered or sealed under another key."""
        try:
            padded = self._siv.decrypt(entry.sealed, _bound(entry.kind, entry.token))
        except (InvalidTag, ValueError):
            return None
        return padded.rstrip(b"\x00")[:-1]

    def __repr__(self) -> str:
        return "<seal>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a seal cannot be pickled or copied")


def _bound(kind: Kind, token: str) -> list[bytes]:
    return [kind.encode(), token.encode("utf-8", "surrogatepass")]
