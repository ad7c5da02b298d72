"""The secrets of a store: how they are wrapped, and what they protect.

Four random secrets are kept in the store itself, each wrapped (AES-256-GCM) under a key derived
(HKDF-SHA-256) from one master key that is kept elsewhere. `integrity` seals every row against
alteration, `registry` encrypts the identifier registry, `fingerprint` and `identifier` are lent to
the session. Changing the master key rewraps them; nothing that rests on them changes.

What this cannot show: a store put back, as a whole, to an earlier copy of itself.
"""

import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from typing import cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from rootguard.errors import StoreDamagedError, StoreKeyError
from rootguard.identifiers import IssuedToken, Kind
from rootguard.store.base import Cell, Transaction
from rootguard.values import Unserializable

KEY_BYTES = 32  # AES-256, and as many as SHA-256 gives
SECRETS = ("fingerprint", "identifier", "integrity", "registry")
_NONCE = 12  # what GCM takes as it is; random, which is safe for far more rows than a vault has
_BLOCK = 64  # bytes: an entry tells its length in steps of this only


class Integrity(Unserializable):
    """Seals rows: HMAC-SHA-256 over the table's name and every cell, key cells included."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, table: str, *cells: Cell) -> bytes:
        return hmac.digest(self._key, canonical(table, *cells), hashlib.sha256)

    def holds(self, table: str, *row: object) -> bool:
        """Whether a row, whose last cell is its seal, is as it was written."""
        *cells, seal = row
        if not isinstance(seal, bytes) or not all(isinstance(c, str | int | bytes) for c in cells):
            return False
        return hmac.compare_digest(seal, self.seal(table, *cast("list[Cell]", cells)))

    def check(self, table: str, *row: object) -> None:
        """Refuse a row that was altered."""
        if not self.holds(table, *row):
            raise StoreDamagedError(f"a row of {table} was altered; restore the store's backup")

    def __repr__(self) -> str:
        return "<integrity key>"


class RegistryCipher(Unserializable):
    """Encrypts registry entries, and finds a token's row without its text being there."""

    __slots__ = ("_cipher", "_index_key")

    def __init__(self, key: bytes) -> None:
        self._index_key = _derive(key, b"registry index")
        self._cipher = AESGCM(_derive(key, b"registry entries"))

    def row_key(self, principal: str, token: str) -> bytes:
        """Where a token's row is."""
        return hmac.digest(self._index_key, canonical(principal, token), hashlib.sha256)

    def encrypt(self, principal: str, sequence: int, entry: IssuedToken) -> bytes:
        """An entry as it is kept. Padded, so that its length does not tell the token's."""
        text = json.dumps([entry.kind, entry.token, entry.sealed.hex()]).encode()
        text += b" " * (-len(text) % _BLOCK)
        nonce = os.urandom(_NONCE)
        bound = canonical(principal, self.row_key(principal, entry.token), sequence)
        return nonce + self._cipher.encrypt(nonce, text, bound)

    def decrypt(self, principal: str, row_key: bytes, sequence: int, entry: bytes) -> IssuedToken:
        """The entry that was kept in this very row."""
        text: bytes | None = None
        try:
            bound = canonical(principal, row_key, sequence)
            text = self._cipher.decrypt(entry[:_NONCE], entry[_NONCE:], bound)
        except (InvalidTag, ValueError, TypeError):
            pass
        if text is None:
            raise StoreDamagedError("a row of tokens was altered; restore the store's backup")
        kind, token, sealed = json.loads(text)
        return IssuedToken(kind=cast("Kind", kind), token=token, sealed=bytes.fromhex(sealed))

    def __repr__(self) -> str:
        return "<registry cipher>"


class Secrets(Unserializable):
    """A store's secrets, unwrapped for as long as it is open."""

    __slots__ = ("_plain", "_registry_wrapped", "integrity", "registry")

    def __init__(self, plain: Mapping[str, bytes], registry_wrapped: bytes) -> None:
        self._plain = dict(plain)
        self._registry_wrapped = registry_wrapped
        self.integrity = Integrity(plain["integrity"])
        self.registry = RegistryCipher(plain["registry"])

    @property
    def fingerprint(self) -> bytes:
        """The secret under which raw values are fingerprinted."""
        return self._plain["fingerprint"]

    @property
    def identifier(self) -> bytes:
        """The secret under which identifiers are encrypted."""
        return self._plain["identifier"]

    @classmethod
    def read(cls, db: Transaction, master: bytes) -> "Secrets":
        """The secrets that are kept in a store."""
        if not {"meta", "secrets"} <= db.tables():
            raise StoreDamagedError(
                "this database is not a RootGuard store, or has lost its tables"
            )
        meta: dict[str, bytes] = dict(db.execute("SELECT name, value FROM meta"))
        wrapped: dict[str, bytes] = dict(db.execute("SELECT name, wrapped FROM secrets"))
        if set(wrapped) != set(SECRETS) or not isinstance(meta.get("store_id"), bytes):
            raise StoreDamagedError("the store has lost its secrets; restore its backup")
        return cls(unwrap(master, meta["store_id"], wrapped), wrapped["registry"])

    @staticmethod
    def create(db: Transaction, master: bytes) -> None:
        """Write fresh secrets into a new store."""
        store_id = os.urandom(16)
        db.execute("INSERT INTO meta (name, value) VALUES (?, ?)", "store_id", store_id)
        for name in SECRETS:
            wrapped = _wrap(master, store_id, name, os.urandom(KEY_BYTES))
            db.execute("INSERT INTO secrets (name, wrapped) VALUES (?, ?)", name, wrapped)

    def current_registry(self, db: Transaction) -> RegistryCipher:
        """The registry's cipher, unless somebody changed the key since the store was opened."""
        kept = db.execute("SELECT wrapped FROM secrets WHERE name = ?", "registry")
        if kept != [(self._registry_wrapped,)]:
            raise StoreKeyError("the store's key was changed meanwhile; open the store again")
        return self.registry

    def rewrap(self, db: Transaction, master: bytes) -> "Secrets":
        """Put every secret under a new master key; the registry's is a fresh one."""
        self.current_registry(db)
        [(store_id,)] = db.execute("SELECT value FROM meta WHERE name = ?", "store_id")
        plain = self._plain | {"registry": os.urandom(KEY_BYTES)}
        wrapped = {name: _wrap(master, store_id, name, plain[name]) for name in SECRETS}
        for name in SECRETS:
            db.execute("UPDATE secrets SET wrapped = ? WHERE name = ?", wrapped[name], name)
        return Secrets(plain, wrapped["registry"])

    def __repr__(self) -> str:
        return "<secrets>"


def unwrap(master: bytes, store_id: bytes, wrapped: Mapping[str, bytes]) -> dict[str, bytes]:
    """The secrets, if the master key is theirs."""
    cipher = AESGCM(_wrapping_key(master, store_id))
    secrets: dict[str, bytes] = {}
    for name, sealed in wrapped.items():
        try:
            secrets[name] = cipher.decrypt(
                sealed[:_NONCE], sealed[_NONCE:], canonical(store_id, name)
            )
        except (InvalidTag, ValueError, TypeError):
            continue
    if not secrets:
        raise StoreKeyError("the key does not open this store")
    if len(secrets) < len(wrapped):
        raise StoreDamagedError("a secret of the store was altered; restore its backup")
    return secrets


def canonical(*cells: Cell) -> bytes:
    """One byte string per row: each cell with its type and length, so that none runs together."""
    parts: list[bytes] = []
    for cell in cells:
        if isinstance(cell, str):
            tag, body = b"s", cell.encode(errors="surrogatepass")
        elif isinstance(cell, int):
            tag, body = b"i", str(cell).encode()
        else:
            tag, body = b"b", cell
        parts += (tag, len(body).to_bytes(8, "big"), body)
    return b"".join(parts)


def _wrap(master: bytes, store_id: bytes, name: str, secret: bytes) -> bytes:
    nonce = os.urandom(_NONCE)
    cipher = AESGCM(_wrapping_key(master, store_id))
    return nonce + cipher.encrypt(nonce, secret, canonical(store_id, name))


def _wrapping_key(master: bytes, store_id: bytes) -> bytes:
    return _derive(master, b"wrap", store_id)


def _derive(key: bytes, purpose: bytes, salt: bytes | None = None) -> bytes:
    info = b"rootguard store 1 " + purpose
    return HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=salt, info=info).derive(key)
