"""The secrets of a store: how they are wrapped, and what they protect.

Four random secrets are kept in the store itself, each wrapped (AES-256-GCM) under a key derived
(HKDF-SHA-256) from one master key that is kept elsewhere. `integrity` seals what is everybody's and
wraps each person's own key, under which that person's rows are encrypted; `registry` opens
identifier tokens of early stores; `fingerprint` and `identifier` are lent to the session. Changing
the master key rewraps all four and replaces the first two. The store names the version of its
secrets, and every transaction looks at it before anything else: so a process that runs while
another changes the key goes on under the new one.

What this cannot show: a store, or a person's rows, put back to an earlier copy. See `anchor`.
"""

import hashlib
import hmac
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from operator import index
from typing import Any, Protocol, TypeVar, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hmac import HMAC
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from rootguard.errors import StoreDamagedError, StoreKeyError
from rootguard.identifiers import IssuedToken, Kind
from rootguard.store.base import Cell, Database, Row, Transaction
from rootguard.values import Unserializable

KEY_BYTES = 32  # AES-256, and as many as SHA-256 gives
SECRETS = ("fingerprint", "identifier", "integrity", "registry")
# A new `fingerprint` would not know a value again, of which the store has nothing else; a new
# `identifier` would give people other tokens than they were given.
RENEWED = ("integrity", "registry")
_VERSION = "key_version"
# Without a parameter, so that a driver may send it together with what begins the transaction.
_READ_VERSION = "SELECT value FROM meta WHERE name = 'key_version'"
_NUMBER = 8  # bytes of a version's number
_NONCE = 12  # what GCM takes as it is; random, which is safe for far more rows than a vault has
PERSON_KEY_BYTES = 2 * KEY_BYTES  # one half encrypts, the other finds rows
_DIGEST = 16  # bytes of a digest that finds a row among one person's
_BLOCK = 64  # bytes: an entry tells its length in steps of this only


class Integrity(Unserializable):
    """Seals rows: HMAC-SHA-256 over the table's name and every cell, key cells included."""

    __slots__ = ("_begun",)

    def __init__(self, key: bytes) -> None:
        self._begun = HMAC(key, hashes.SHA256())  # and copied for each row

    def seal(self, table: str, *cells: Cell) -> bytes:
        code = self._begun.copy()
        code.update(canonical(table, *cells))
        return code.finalize()

    def holds(self, table: str, *row: object) -> bool:
        """Whether a row, whose last cell is its seal, is as it was written."""
        *cells, seal = row
        if not isinstance(seal, bytes) or not all(isinstance(c, str | int | bytes) for c in cells):
            return False
        return hmac.compare_digest(seal, self.seal(table, *cast("list[Cell]", cells)))

    def check(self, table: str, *row: object) -> None:
        """Refuse a row that was altered."""
        if not self.holds(table, *row):
            raise altered(table)

    def __repr__(self) -> str:
        return "<integrity key>"


class PersonCipher(Unserializable):
    """Encrypts one person's rows, under a key that an erasure destroys.

    Each row is bound to its table and to where it stands there, so that none can be put into
    another's place. Where a row is found by what it holds, a digest under the key stands for that.
    """

    __slots__ = ("_aead", "_index_key", "_person")

    def __init__(self, key: bytes, person: str, aead: AESGCM | None = None) -> None:
        self._aead = AESGCM(key[:KEY_BYTES]) if aead is None else aead
        self._index_key = key[KEY_BYTES:]
        self._person = person

    def place(self, *cells: Cell) -> bytes:
        """A digest that stands for these cells."""
        return hmac.digest(self._index_key, canonical(*cells), hashlib.sha256)[:_DIGEST]

    def encrypt(self, table: str, *place: Cell, text: bytes) -> bytes:
        """What is kept in a row. Padded, so that its length tells little."""
        nonce = os.urandom(_NONCE)
        text += b" " * (-len(text) % _BLOCK)
        return nonce + self._aead.encrypt(nonce, text, canonical(table, self._person, *place))

    def decrypt(self, table: str, *place: Cell, content: object) -> bytes:
        """What was kept in this very row."""
        return _opened(self._aead, table, content, bound_to(table, table, self._person, *place))

    def __repr__(self) -> str:
        return "<person's cipher>"


def open_places(
    aead: AESGCM, person: str, table: str, rows: Iterable[tuple[Any, Any]]
) -> list[bytes]:
    """`decrypt` of a person's rows in a table, given as place and content; a place is a digest."""
    who = person.encode()
    decrypt, before = aead.decrypt, _WORDS[table] + _TEXT[len(who)] + who + _DIGEST_HEAD
    try:
        return [
            decrypt(content[:_NONCE], content[_NONCE:], before + place) for place, content in rows
        ]
    except (InvalidTag, ValueError, TypeError):
        pass  # and raised below, where no frame holds what was altered
    raise altered(table)


class PeopleCipher(Unserializable):
    """Wraps each person's key, and seals the row that it stands in."""

    __slots__ = ("_aead",)

    def __init__(self, key: bytes) -> None:
        self._aead = AESGCM(_derive(key, b"people"))

    def encrypt(self, text: bytes, *bound: Cell) -> bytes:
        """A text, bound to cells."""
        nonce = os.urandom(_NONCE)
        return nonce + self._aead.encrypt(nonce, text, canonical(*bound))

    def decrypt(self, content: object, *bound: object) -> bytes:
        """The text that was bound to these cells."""
        return _opened(self._aead, "people", content, bound_to("people", *bound))

    def open_rows(self, rows: Iterable[Row]) -> list["OpenedRow"]:
        """What people's rows hold, if nobody altered one or put it elsewhere."""
        opened = self._open_rows(rows)
        if opened is None:  # raised here, where no frame holds what was opened
            raise altered("people")
        return opened

    def _open_rows(self, rows: Iterable[Row]) -> list["OpenedRow"] | None:
        """The same, None for a refusal. Written out: whole vaults are opened so."""
        decrypt = self._aead.decrypt
        found: list[OpenedRow] = []
        try:
            for key, epoch, revision, wrapped, name, sealed in rows:
                who, cells = canonical_person(key, epoch, revision, wrapped, name)
                summary = decrypt(sealed[:_NONCE], sealed[_NONCE:], _SUMMARY + who + cells)
                secret = decrypt(wrapped[:_NONCE], wrapped[_NONCE:], _KEY + who)
                aead = AESGCM(secret[:KEY_BYTES])
                text = name and aead.decrypt(name[:_NONCE], name[_NONCE:], _NAME + who)
                found.append((summary, secret, aead, text))
        except (InvalidTag, ValueError, TypeError, StoreDamagedError):
            return None
        return found

    def __repr__(self) -> str:
        return "<people's cipher>"


OpenedRow = tuple[bytes, bytes, AESGCM, bytes]
"""A person's summary and key, what encrypts under that key, and the name as it was written."""


class RegistryCipher(Unserializable):
    """Opens identifier tokens as earlier versions kept them, under one secret for everybody."""

    __slots__ = ("_cipher",)

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(_derive(key, b"registry entries"))

    def decrypt(self, principal: str, row_key: bytes, sequence: int, entry: bytes) -> IssuedToken:
        """The entry that was kept in this very row."""
        bound = bound_to("tokens", principal, row_key, sequence)
        text = _opened(self._cipher, "tokens", entry, bound)
        kind, token, sealed = json.loads(text)
        return IssuedToken(kind=cast("Kind", kind), token=token, sealed=bytes.fromhex(sealed))

    def __repr__(self) -> str:
        return "<registry cipher>"


def _opened(aead: AESGCM, table: str, content: Any, bound: bytes) -> bytes:  # noqa: ANN401
    """What a row of a table holds, if nobody altered it or put it elsewhere.

    The content is whatever the database gave: of an altered row, perhaps no bytes.
    """
    try:
        return aead.decrypt(content[:_NONCE], content[_NONCE:], bound)
    except (InvalidTag, ValueError, TypeError):
        pass  # and raised below, where no frame holds what was altered
    raise altered(table)


def bound_to(table: str, *cells: Any) -> bytes:  # noqa: ANN401 - see `_opened`
    """What a row of a table is bound to: cells as they were written, one behind the other."""
    try:
        return canonical(*cells)
    except (ValueError, TypeError):
        pass
    raise altered(table)


def altered(table: str) -> StoreDamagedError:
    """The refusal of a row that is not as it was written."""
    return StoreDamagedError(f"a row of {table} was altered; restore the store's backup")


class Secrets(Unserializable):
    """A store's secrets of one version, unwrapped for as long as it is open."""

    __slots__ = (
        "_names",
        "_plain",
        "integrity",
        "number",
        "people",
        "registry",
        "store_id",
        "version",
    )

    def __init__(self, plain: Mapping[str, bytes], store_id: bytes, version: bytes = b"") -> None:
        self._plain = dict(plain)
        self.store_id = store_id
        self.integrity = Integrity(plain["integrity"])
        self.registry = RegistryCipher(plain["registry"])
        self.people = PeopleCipher(plain["integrity"])
        self._names = HMAC(_derive(plain["fingerprint"], b"names"), hashes.SHA256())
        self.version = version
        """The number of the version and its seal, as the store holds them; empty before it has."""
        self.number = int.from_bytes(version[:_NUMBER], "big")

    def hash(self, *name: str) -> str:
        """What stands for a person's name in every table. Under a secret that is never changed."""
        code = self._names.copy()
        code.update(canonical(*name))
        return code.finalize()[:_DIGEST].hex()

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
        opened = Envelope.read(db).open((master,))
        if opened is None:
            raise StoreKeyError("the key does not open this store")
        return opened[1]

    @staticmethod
    def create(db: Transaction, master: bytes, store_id: bytes) -> None:
        """Write fresh secrets into a new store."""
        db.execute("INSERT INTO meta (name, value) VALUES (?, ?)", "store_id", store_id)
        for name in SECRETS:
            wrapped = _wrap(master, store_id, name, os.urandom(KEY_BYTES))
            db.execute("INSERT INTO secrets (name, wrapped) VALUES (?, ?)", name, wrapped)

    def name_version(self, db: Transaction) -> None:
        """Name the first version, in a store that is new or was made before there were any."""
        db.execute("INSERT INTO meta (name, value) VALUES (?, ?)", _VERSION, self._sealed(1))

    def renew(self, db: Transaction, master: bytes) -> "Secrets":
        """The next version: under another master key, and fresh where that can be."""
        plain = self._plain | {name: os.urandom(KEY_BYTES) for name in RENEWED}
        renewed = Secrets(plain, self.store_id)
        version = renewed._sealed(self.number + 1)
        for name in SECRETS:
            wrapped = _wrap(master, self.store_id, name, plain[name])
            db.execute("UPDATE secrets SET wrapped = ? WHERE name = ?", wrapped, name)
        db.execute("UPDATE meta SET value = ? WHERE name = ?", version, _VERSION)
        return Secrets(plain, self.store_id, version)

    def _sealed(self, number: int) -> bytes:
        return number.to_bytes(_NUMBER, "big") + self.integrity.seal("meta", _VERSION, number)

    def check_version(self) -> None:
        """Refuse a version that was altered."""
        if self.version and not hmac.compare_digest(self.version, self._sealed(self.number)):
            raise StoreDamagedError("the store's key version was altered; restore its backup")

    def __repr__(self) -> str:
        return "<secrets>"


@dataclass(frozen=True, kw_only=True, slots=True)
class Envelope:
    """A store's secrets as it holds them: wrapped, with its id and the version's name."""

    store_id: bytes
    wrapped: Mapping[str, bytes]
    version: bytes

    @classmethod
    def read(cls, db: Transaction) -> "Envelope":
        if not {"meta", "secrets"} <= db.tables():
            raise StoreDamagedError(
                "this database is not a RootGuard store, or has lost its tables"
            )
        meta: dict[str, object] = dict(db.execute("SELECT name, value FROM meta"))
        wrapped: dict[str, bytes] = dict(db.execute("SELECT name, wrapped FROM secrets"))
        store_id, version = meta.get("store_id"), meta.get(_VERSION, b"")
        if set(wrapped) != set(SECRETS) or not isinstance(store_id, bytes):
            raise StoreDamagedError("the store has lost its secrets; restore its backup")
        if not isinstance(version, bytes):
            raise StoreDamagedError("the store's key version was altered; restore its backup")
        return cls(store_id=store_id, wrapped=wrapped, version=version)

    def open(self, ring: Sequence[bytes]) -> tuple[bytes, Secrets] | None:
        """The key of a ring that these secrets are under, and the secrets; None if it has none."""
        for master in reversed(ring):
            try:
                plain = unwrap(master, self.store_id, self.wrapped)
            except StoreKeyError:
                continue
            secrets = Secrets(plain, self.store_id, self.version)
            secrets.check_version()
            return master, secrets
        return None


class Keys(Protocol):
    """Where the keys that may open a store come from."""

    def of(self, store_id: bytes) -> "Keys":
        """The keys of the store with this id."""
        ...

    def candidates(self) -> tuple[bytes, ...]:
        """The keys there are just now."""
        ...

    def unsettled(self) -> bool:
        """Whether a new store's key has not been put in its place yet."""
        ...

    def locked(self) -> AbstractContextManager[None]:
        """Keep others from writing keys."""
        ...

    def write(self, *keys: bytes) -> None:
        """Keep these keys, of which the last is the newest."""
        ...

    def settle(self, key: bytes) -> None:
        """Keep this key, and no other."""
        ...

    def refusal(self) -> StoreKeyError:
        """What to say where none of them opens a store."""
        ...

    def outdated(self) -> StoreKeyError:
        """What to say where the store was put under a key that is not among them."""
        ...


W = TypeVar("W", bound=Database)


class _Thread(threading.local):
    secrets: Secrets | None = None


Begin = Callable[[], AbstractContextManager[Transaction]]


class WrappedDatabase:
    """What is the same for whatever is put around a database, and does more in a transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def reading(self, *, whole: bool = False) -> AbstractContextManager[Transaction]:
        return self._transaction(lambda: self._database.reading(whole=whole))

    def writing(self, principal: str) -> AbstractContextManager[Transaction]:
        return self._transaction(lambda: self._database.writing(principal))

    def noting(self, principal: str) -> AbstractContextManager[Transaction]:
        return self._transaction(lambda: self._database.noting(principal))

    def exclusive(self) -> AbstractContextManager[Transaction]:
        return self._transaction(self._database.exclusive)

    def _transaction(self, begin: Begin) -> AbstractContextManager[Transaction]:
        return begin()

    def look(self, sql: str, *cells: Cell) -> list[Row]:
        """What a statement reads that needs no secret."""
        return self._database.look(sql, *cells)

    def check(self) -> tuple[str, ...]:
        return self._database.check()

    def scrub(self) -> bool:
        return self._database.scrub()

    def close(self) -> None:
        self._database.close()


class UnlockedDatabase(WrappedDatabase):
    """A database whose every transaction goes by the secrets that the store has as it sees it.

    Somebody may change the key at any time. A writer keeps him out. A reader sees one moment of the
    store, and may find its key gone from the ring by then: it looks again.
    """

    def __init__(self, database: Database, keys: Keys) -> None:
        super().__init__(database)
        self._thread = _Thread()
        self._lock = threading.Lock()  # over `_latest`, which must not go back to an older version
        self.keys = keys
        self._latest: Secrets | None = None
        with self.reading():
            pass

    @property
    def secrets(self) -> Secrets:
        """The secrets of this thread's transaction; outside of one, the latest."""
        secrets = self._thread.secrets or self._latest
        if secrets is None:
            raise StoreKeyError("the store is not open yet")
        return secrets

    def reach_through(self, wrap: Callable[[Database], W]) -> W:
        """Use the database through something that is put around it."""
        self._database = wrapped = wrap(self._database)
        return wrapped

    @contextmanager
    def opened_by(self, db: Transaction) -> Iterator[bytes]:
        """The master key that opens the store; whoever wants to write keys may do so meanwhile.

        Only within `exclusive`. That the database answers after the lock on the keys was taken
        shows that nobody else can have changed them.
        """
        with self.keys.locked():
            opened = Envelope.read(db).open(self.keys.candidates())
            if opened is None:
                raise self.keys.refusal()
            yield opened[0]

    @contextmanager
    def _transaction(self, begin: Begin) -> Iterator[Transaction]:
        tried: tuple[bytes, tuple[bytes, ...]] | None = None
        while True:
            # Before the transaction begins, which then cannot see an earlier version than this.
            latest = self._latest
            with begin() as db:
                secrets = latest
                if latest is None or _version(db) != latest.version:
                    envelope = Envelope.read(db)
                    self.keys = self.keys.of(envelope.store_id)
                    ring = self.keys.candidates()
                    opened = envelope.open(ring)
                    if opened is None and tried != (envelope.version, ring):
                        tried = envelope.version, ring
                        continue
                    if opened is None:  # neither store nor ring changed between two looks
                        raise self.keys.refusal() if latest is None else self.keys.outdated()
                    secrets = opened[1]
                    self._publish(secrets, latest)
                before, self._thread.secrets = self._thread.secrets, secrets
                try:
                    yield db
                finally:
                    self._thread.secrets = before
                return

    def _publish(self, secrets: Secrets, latest: Secrets | None) -> None:
        if latest is not None and secrets.number <= latest.number:
            raise StoreDamagedError(
                "the store was put back to an earlier copy of itself while it was open; open it"
                " again to go on with that copy"
            )
        with self._lock:
            if self._latest is None or self._latest.number < secrets.number:
                self._latest = secrets

    def __repr__(self) -> str:
        return "<unlocked database>"


def _version(db: Transaction) -> object:
    found = db.execute(_READ_VERSION)
    return found[0][0] if found else b""


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


def anchor_key(fingerprint: bytes) -> bytes:
    """The key that seals a store's anchor, from a secret that is never changed."""
    return _derive(fingerprint, b"anchor")


def canonical(*cells: Cell) -> bytes:
    """One byte string per row: each cell with its type and length, so that none runs together."""
    written = b""
    for cell in cells:
        if isinstance(cell, str):
            body = cell.encode() if cell.isascii() else cell.encode("utf-8", "surrogatepass")
            written += _TEXT[len(body)] + body
        elif isinstance(cell, int):
            body = b"%d" % cell
            written += _NUMBERS[len(body)] + body
        else:
            written += _BYTES[len(cell)] + cell
    return written


def canonical_person(
    key: Any,  # noqa: ANN401 - see `_opened`
    epoch: Any,  # noqa: ANN401
    revision: Any,  # noqa: ANN401
    wrapped: Any,  # noqa: ANN401
    name: Any,  # noqa: ANN401
) -> tuple[bytes, bytes]:
    """What `canonical` writes of a person's row: who it is, and the cells that the summary seals.

    Written out, because whole tables of people are opened, and a look at each cell's type takes
    longer than the rest. Of a row with other types nothing is made that was ever sealed.
    """
    try:
        # `index`, as "%d" would cut an altered 1.7 to the 1 that was sealed.
        body = key.encode()
        cells = _WHOLE[index(revision)] + _BYTES[len(wrapped)] + wrapped
        return _TEXT[len(body)] + body + _WHOLE[index(epoch)], cells + _BYTES[len(name)] + name
    except (AttributeError, TypeError, ValueError):
        pass
    raise altered("people")


class _Heads(dict[int, bytes]):
    """What stands before a cell: its type and length. Those of short cells come all the time."""

    def __init__(self, tag: bytes) -> None:
        self._tag = tag

    def __missing__(self, length: int) -> bytes:
        head = self._tag + length.to_bytes(8, "big")
        if length <= _SHORT:
            self[length] = head
        return head


class _Words(dict[str, bytes]):
    """The names of tables as cells."""

    def __missing__(self, name: str) -> bytes:
        self[name] = written = canonical(name)
        return written


class _Whole(dict[int, bytes]):
    """Whole numbers as cells. Small ones come all the time."""

    def __missing__(self, number: int) -> bytes:
        written = canonical(number)
        if 0 <= number <= _SHORT:
            self[number] = written
        return written


_SHORT = 256  # bytes, or the number itself
_TEXT, _NUMBERS, _BYTES, _WHOLE = _Heads(b"s"), _Heads(b"i"), _Heads(b"b"), _Whole()
_WORDS = _Words()
_DIGEST_HEAD = _BYTES[_DIGEST]
# How the cells begin that a person's row is bound to (`rows.put_person`). Each cell is written by
# itself, so the rest, which all three share, is put together once.
_SUMMARY, _KEY, _NAME = canonical("summary"), canonical("key"), canonical("people")


def _wrap(master: bytes, store_id: bytes, name: str, secret: bytes) -> bytes:
    nonce = os.urandom(_NONCE)
    cipher = AESGCM(_wrapping_key(master, store_id))
    return nonce + cipher.encrypt(nonce, secret, canonical(store_id, name))


def _wrapping_key(master: bytes, store_id: bytes) -> bytes:
    return _derive(master, b"wrap", store_id)


def _derive(key: bytes, purpose: bytes, salt: bytes | None = None) -> bytes:
    info = b"rootguard store 1 " + purpose
    return HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=salt, info=info).derive(key)
