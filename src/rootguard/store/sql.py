"""The store in a database: one implementation, whatever the dialect.

The primary key of a draw is what makes it the only one: a writer inserts, the database says whether
the row is new, and whoever comes second is given the row that stands. Draws, events and counts are
written in one transaction, so that a crash leaves all of them or none. What is read is checked: the
seal of every row, the number of rows, and that each charge of the ledger has its draw.
"""

import threading
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from rootguard.accounting import Ledger
from rootguard.errors import StoreDamagedError, StoreKeyError
from rootguard.events import Charge, Event, ProfileErased, cost
from rootguard.identifiers import IssuedTokens
from rootguard.store import crossings as shelf_of_crossings
from rootguard.store import rows, tables
from rootguard.store.audit import audit
from rootguard.store.base import (
    KEPT_CROSSINGS,
    Crossing,
    Disclosure,
    Noted,
    Record,
    Tabled,
    Toward,
    check_caps,
    noted,
)
from rootguard.store.database import Cell, Database, Transaction
from rootguard.store.envelope import KEY_BYTES, Integrity, Secrets
from rootguard.store.journal import Journal, Write
from rootguard.store.keys import KeyPlace
from rootguard.store.marks import table_prf
from rootguard.store.migrations import MIGRATIONS, Migration, migrate, pending
from rootguard.store.registry import SqlTokens
from rootguard.store.shelves import Shelves
from rootguard.values import Principal, RootName

# The statements are put together from constant lists of columns.
_KEEP_DRAW = (
    f"INSERT INTO draws ({rows.DRAW}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
    " ON CONFLICT DO NOTHING RETURNING position"
)
_READ_DRAW = (
    f"SELECT {rows.DRAW} FROM draws"  # noqa: S608
    " WHERE principal = ? AND root = ? AND version = ? AND position = ?"
)
_READ_LEVELS = (
    f"SELECT {rows.DRAW} FROM draws"  # noqa: S608
    " WHERE principal = ? AND root = ? AND version = ? ORDER BY position"
)
_KEEP_EVENT = f"INSERT INTO events ({rows.EVENT}) VALUES (?, ?, ?, ?)"  # noqa: S608
_READ_EVENTS = f"SELECT {rows.EVENT} FROM events WHERE principal = ? ORDER BY sequence"  # noqa: S608
_KEEP_CAP = f"INSERT INTO caps ({rows.CAP}) VALUES (?, ?, ?, ?)"  # noqa: S608
_READ_CAPS = f"SELECT {rows.CAP} FROM caps WHERE principal = ?"  # noqa: S608
_DROP_CAP = "DELETE FROM caps WHERE principal = ? AND root = ? RETURNING root"
_KEEP_DISCLOSURE = f"INSERT INTO disclosures ({rows.DISCLOSURE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_READ_DISCLOSURES = (
    f"SELECT {rows.DISCLOSURE} FROM disclosures"  # noqa: S608
    " WHERE principal = ? ORDER BY sequence"
)
_TOKENS = "SELECT principal, token_key, sequence, entry FROM tokens"
_MOVE_TOKEN = "UPDATE tokens SET token_key = ?, entry = ? WHERE principal = ? AND token_key = ?"  # noqa: S105


def create(db: Transaction, master: bytes, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Make a new, empty store."""
    migrate(db, migrations)
    Secrets.create(db, master)
    Shelves(db, Secrets.read(db, master).integrity).open()


def unlock(database: Database, given: bytes | None, place: KeyPlace) -> "SqlStore":
    """Open a store with the key that was given, else with one that is kept in its place."""
    if given is not None:
        return SqlStore(database, given)
    refused = False
    for key in place.candidates():
        try:
            store = SqlStore(database, key, place=place)
        except StoreKeyError:
            refused = True
            continue
        if place.reserved.exists():
            place.settle(key)
        return store
    if refused:
        raise StoreKeyError("the key does not open this store")
    raise StoreKeyError(
        "there is no key for this store; set ROOTGUARD_KEY or put its key file back at"
        f" {place.file}"
    )


class SqlStore:
    """Keeps everything in a database. A `place` is where its key is kept, if we keep it."""

    def __init__(self, database: Database, master: bytes, *, place: KeyPlace | None = None) -> None:
        self._database = database
        self._place = place
        self._rotating = threading.Lock()
        with database.reading() as db:
            self._secrets = Secrets.read(db, master)
            behind = pending(db)
        if behind:
            with database.exclusive() as db:
                migrate(db)
        self._journal = Journal(_writer(database, self._secrets.integrity))
        weakref.finalize(self, self._journal.close)  # at the process's end, too

    @property
    def fingerprint_key(self) -> bytes:
        """The secret under which raw values are fingerprinted in this store."""
        return self._secrets.fingerprint

    @property
    def identifier_key(self) -> bytes:
        """The secret under which identifiers are encrypted in this store."""
        return self._secrets.identifier

    def levels(self, principal: Principal, root: RootName) -> tuple[Record, ...]:
        """All levels of the newest version of a root, by position; none if it has none."""
        with self._database.reading() as db:
            ledger = self._ledger(db, principal)
            self._shelves(db).length(principal, "draws")
            version = _newest(ledger, root)
            found = [
                rows.read_draw(self._secrets.integrity, row)
                for row in db.execute(_READ_LEVELS, principal, root, version)
            ]
            self._match(_charged(ledger)[root, version], len(found))
        return tuple(record for place, record in enumerate(found) if record.position == place)

    def version(self, principal: Principal, root: RootName) -> int:
        """The highest version of a root that was ever charged for, erased ones included; or 0."""
        return _newest(self.events(principal), root)

    def commit(self, principal: Principal, draws: Sequence[Record]) -> tuple[Record, ...]:
        """Keep draws and their events in one transaction, first writer wins."""
        rows.storable(principal)
        sealed = [rows.draw_row(self._secrets.integrity, principal, draw) for draw in draws]
        if not draws:
            return ()
        with self._database.writing(principal) as db:
            ledger = self._ledger(db, principal)
            self._shelves(db).length(principal, "draws")
            charged = _charged(ledger)
            price: defaultdict[str, int] = defaultdict(int)
            new: list[Charge] = []
            kept: list[Record] = []
            for draw, row in zip(draws, sealed, strict=True):
                if db.execute(_KEEP_DRAW, *row):
                    where = (draw.sanitized.root, draw.sanitized.version)
                    self._match(min(charged[where], draw.position), charged[where])
                    charged[where] += 1
                    price[draw.sanitized.root] += cost(draw.event)
                    new.append(draw.event)
                    kept.append(draw)
                else:
                    [there] = db.execute(_READ_DRAW, *row[:4])
                    kept.append(rows.read_draw(self._secrets.integrity, there))
            check_caps(Ledger(ledger).micro, price, self._caps(db, principal))
            if new:
                self._append(db, principal, len(ledger), new)
                self._shelves(db).add(principal, "draws", len(new))
                self._note_charges(db, principal, new)
        return tuple(kept)

    def events(self, principal: Principal) -> tuple[Charge, ...]:
        """Everything that was ever charged to a principal, in order. Erasing keeps it."""
        with self._database.reading() as db:
            return self._ledger(db, principal)

    def caps(self, principal: Principal) -> dict[str, int]:
        """Caps in micro-epsilon: per root, and under "" for the principal's total."""
        with self._database.reading() as db:
            return self._caps(db, principal)

    def set_cap(self, principal: Principal, root: str, micro: int | None) -> None:
        """Set or (with None) lift a cap; "" means the total."""
        rows.storable(principal, root, micro or 0)
        with self._database.writing(principal) as db:
            self._caps(db, principal)
            change = -len(db.execute(_DROP_CAP, principal, root))
            if micro is not None:
                cells: tuple[Cell, ...] = (principal, root, micro)
                db.execute(_KEEP_CAP, *cells, self._secrets.integrity.seal("caps", *cells))
                change += 1
            self._shelves(db).add(principal, "caps", change)

    def disclose(self, principal: Principal, disclosures: Sequence[Disclosure]) -> None:
        """Write down who was given what; what is there already is left alone."""
        integrity = self._secrets.integrity
        for disclosure in disclosures:
            rows.disclosure_row(integrity, principal, 0, disclosure)
        if not set(disclosures) - set(self.disclosures(principal)):
            return  # the usual case needs no writer's lock
        with self._database.writing(principal) as db:
            there = self._disclosures(db, principal)
            new = [item for item in dict.fromkeys(disclosures) if item not in set(there)]
            for sequence, disclosure in enumerate(new, start=len(there) + 1):
                row = rows.disclosure_row(integrity, principal, sequence, disclosure)
                db.execute(_KEEP_DISCLOSURE, *row)
            self._shelves(db).add(principal, "disclosures", len(new))

    def disclosures(self, principal: Principal) -> tuple[Disclosure, ...]:
        """Who was given what, in order."""
        with self._database.reading() as db:
            return self._disclosures(db, principal)

    def note(self, principal: Principal, event: Event, toward: Toward | None = None) -> None:
        """Write down, soon, what crossed. Never waits for a database and never fails."""
        self._journal.note(principal, noted(event, toward))

    def crossings(
        self,
        principal: Principal,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = KEPT_CROSSINGS,
    ) -> tuple[Crossing, ...]:
        """What crossed, oldest first: the first ones after a sequence, or the last ones before."""
        integrity = self._secrets.integrity
        with self._database.reading() as db:
            if before is None:
                return shelf_of_crossings.after(db, integrity, principal, after, limit)
            return shelf_of_crossings.before(db, integrity, principal, before, limit)

    def crossed(self, principal: Principal) -> tuple[int, int]:
        """How many crossings are kept, and the sequence of the latest there ever was."""
        with self._database.reading() as db:
            shelves = self._shelves(db)
            return shelves.length(principal, "crossings"), shelves.latest(principal)

    def tokens(self, principal: Principal) -> IssuedTokens:
        """The principal's issued identifier tokens."""
        rows.storable(principal)
        return SqlTokens(self._database, lambda: self._secrets, principal)

    def tables(self) -> tuple[Tabled, ...]:
        """Every root of every table that was released, in order."""
        with self._database.reading() as db:
            return tables.runs(db, self._secrets.integrity)

    def marks(self, place: int) -> bytes:
        """The marks of people in tables that are kept at a place."""
        with self._database.reading() as db:
            return tables.shelf(db, self._secrets.integrity, place)

    def keep_table(
        self,
        table: str,
        merge: Callable[[int, bytes], bytes | None],
        told: Callable[[], Sequence[Tabled]],
    ) -> None:
        """Keep a run in one transaction: each shelf's marks through `merge`, then what it says."""
        with self._database.writing(tables.LOCK) as db:
            tables.keep(db, self._secrets.integrity, table, merge, told)

    def principals(self) -> tuple[Principal, ...]:
        """Everyone this store knows, sorted; erased profiles included."""
        with self._database.reading() as db:
            return tuple(Principal(name) for name in self._shelves(db).principals())

    def erase(self, principal: Principal) -> None:
        """Delete a profile's values, fingerprints, tokens, disclosures and crossings."""
        rows.storable(principal)
        with self._database.writing(principal) as db:
            ledger = self._ledger(db, principal)
            shelves = self._shelves(db)
            gone = {
                shelf: shelves.length(principal, shelf)
                for shelf in ("draws", "disclosures", "tokens")
            }
            db.execute("DELETE FROM draws WHERE principal = ?", principal)
            db.execute("DELETE FROM disclosures WHERE principal = ?", principal)
            db.execute("DELETE FROM tokens WHERE principal = ?", principal)
            shelves.add(principal, "draws", -gone["draws"])
            shelves.add(principal, "disclosures", -gone["disclosures"])
            shelves.add(principal, "tokens", -gone["tokens"])
            shelf_of_crossings.erase(db, self._secrets.integrity, principal)
            self._journal.forget(principal)
            erased = ProfileErased(principal=principal)
            self._append(db, principal, len(ledger), [erased])
            self._note_charges(db, principal, [erased])
        if self.tables():  # the profile first: an erased one is never served from marks
            prf = table_prf(self.fingerprint_key)
            with self._database.writing(tables.LOCK) as db:
                tag = int(prf.tags(prf.person(principal))[0])
                tables.forget(db, self._secrets.integrity, tag)
        self._database.scrub()

    def verify(self) -> tuple[str, ...]:
        """Every invariant checked from what is stored; sentences naming the damage, or none."""
        found: list[str] = []
        try:
            found += self._database.check()
            with self._database.reading() as db:
                found += audit(db, self._secrets)
                found += tables.audit(db, self._secrets.integrity)
        except StoreDamagedError as damage:
            found.append(str(damage))
        return tuple(found)

    def rotate_key(self, new_master: bytes) -> None:
        """Put the store under a new master key, and the registry under a fresh secret.

        The key is set aside before the store changes and put in its place after, so that a crash
        in between leaves a key that opens the store. A key that was given, we do not keep.
        """
        if len(new_master) != KEY_BYTES:
            raise StoreKeyError(f"a store key is {KEY_BYTES} bytes; this one has {len(new_master)}")
        with self._rotating:
            if self._place is not None:
                self._place.reserve(new_master)
            with self._database.exclusive() as db:
                old = self._secrets.current_registry(db)
                secrets = self._secrets.rewrap(db, new_master)
                for principal, key, sequence, sealed in db.execute(_TOKENS):
                    entry = old.decrypt(principal, key, sequence, sealed)
                    new_key = secrets.registry.row_key(principal, entry.token)
                    new_sealed = secrets.registry.encrypt(principal, sequence, entry)
                    db.execute(_MOVE_TOKEN, new_key, new_sealed, principal, key)
            self._secrets = secrets
            self._database.scrub()
            if self._place is not None:
                self._place.settle(new_master)

    def close(self) -> None:
        """Let go of files and connections; what crossed is written down first."""
        self._journal.close()
        self._database.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def _shelves(self, db: Transaction) -> Shelves:
        return Shelves(db, self._secrets.integrity)

    def _ledger(self, db: Transaction, principal: str) -> tuple[Charge, ...]:
        length = self._shelves(db).length(principal, "events")
        found = db.execute(_READ_EVENTS, principal)
        if [row[1] for row in found] != list(range(1, length + 1)):
            raise StoreDamagedError("events are missing or added; restore the store's backup")
        return tuple(rows.read_event(self._secrets.integrity, row) for row in found)

    def _append(
        self, db: Transaction, principal: str, length: int, events: Iterable[Charge]
    ) -> None:
        sealed = [
            rows.event_row(self._secrets.integrity, principal, sequence, event)
            for sequence, event in enumerate(events, start=length + 1)
        ]
        for row in sealed:
            db.execute(_KEEP_EVENT, *row)
        self._shelves(db).add(principal, "events", len(sealed))

    def _note_charges(self, db: Transaction, principal: str, events: Iterable[Charge]) -> None:
        now = [noted(event) for event in events]
        shelf_of_crossings.append(db, self._secrets.integrity, principal, now)

    def _caps(self, db: Transaction, principal: str) -> dict[str, int]:
        self._shelves(db).length(principal, "caps")
        found = db.execute(_READ_CAPS, principal)
        for row in found:
            self._secrets.integrity.check("caps", *row)
        return {row[1]: row[2] for row in found}

    def _disclosures(self, db: Transaction, principal: str) -> tuple[Disclosure, ...]:
        self._shelves(db).length(principal, "disclosures")
        found = db.execute(_READ_DISCLOSURES, principal)
        return tuple(rows.read_disclosure(self._secrets.integrity, row) for row in found)

    def _match(self, charged: int, found: int) -> None:
        """Refuse to go on where the ledger knows of a draw that is not there, or the reverse."""
        if charged != found:
            raise StoreDamagedError(
                "the ledger and the draws do not match; restore the store's backup"
            )


def _writer(database: Database, integrity: Integrity) -> Write:
    """How the journal is written. Holds no store, so that a store nobody closed can go."""

    def write(principal: Principal, crossings: Sequence[Noted], given_up: int) -> None:
        rows.storable(principal)
        with database.noting(principal) as db:
            shelf_of_crossings.append(db, integrity, principal, crossings, given_up)

    return write


def _newest(events: Iterable[Charge], root: str) -> int:
    versions = [e.version for e in events if not isinstance(e, ProfileErased) and e.root == root]
    return max(versions, default=0)


def _charged(events: Iterable[Charge]) -> Counter[tuple[str, int]]:
    """How many draws of each version there must be: those charged since the last erase."""
    counts: Counter[tuple[str, int]] = Counter()
    for event in events:
        if isinstance(event, ProfileErased):
            counts.clear()
        else:
            counts[event.root, event.version] += 1
    return counts
