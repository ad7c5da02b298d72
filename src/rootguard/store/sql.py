"""The store in a database: one implementation, whatever the dialect.

The primary key of a draw is what makes it the only one: a writer inserts, the database says whether
the row is new, and whoever comes second is given the row that stands. Draws, events and counts are
written in one transaction, so that a crash leaves all of them or none. What is read is checked: the
seal of every row, the number of rows, and that each charge of the ledger has its draw.
"""

import functools
import threading
import weakref
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from rootguard.accounting import Ledger
from rootguard.errors import StoreDamagedError, StoreError, StoreKeyError
from rootguard.events import Charge, Event, ProfileErased, RootReturned, cost
from rootguard.identifiers import IssuedTokens
from rootguard.store import rows, tables
from rootguard.store.audit import audit
from rootguard.store.base import (
    LOG_SIZE,
    Database,
    Disclosure,
    LogEntry,
    Merge,
    Recipient,
    Record,
    RunReport,
    TableRun,
    Transaction,
    UnnumberedEntry,
    check_caps,
    check_disclosures,
    current_version,
    draws_charged,
    entry_now,
    held_levels,
    newest_version,
    service_charges,
    table_charges,
)
from rootguard.store.envelope import KEY_BYTES, Integrity, Secrets
from rootguard.store.journal import LogWriter, Write
from rootguard.store.keys import KeyPlace
from rootguard.store.migrations import MIGRATIONS, Migration, m005_quantities, migrate, pending
from rootguard.store.rows import AuditLog, Rows, SqlTokens
from rootguard.values import Principal, RootName, RootQuantity

_KEEP_DRAW: Final = f"{rows.DRAWS.insert} ON CONFLICT DO NOTHING RETURNING position"
_ONE_DRAW: Final = "WHERE principal = ? AND root = ? AND version = ? AND position = ?"
_LEVELS: Final = "WHERE principal = ? AND root = ? AND version = ? ORDER BY position"
_HISTORY: Final = "WHERE principal = ? AND root = ? AND position = 0 ORDER BY version"
_IN_ORDER: Final = "WHERE principal = ? ORDER BY sequence"
_DROP_CAP: Final = "DELETE FROM caps WHERE principal = ? AND root = ? RETURNING root"
_TOKENS: Final = "SELECT principal, token_key, sequence, entry FROM tokens"
_MOVE_TOKEN: Final = (
    "UPDATE tokens SET token_key = ?, entry = ? WHERE principal = ? AND token_key = ?"  # noqa: S105
)


def create(db: Transaction, master: bytes, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Make a new, empty store."""
    migrate(db, migrations)
    Secrets.create(db, master)
    Rows(db, Secrets.read(db, master).integrity).open()


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
        if place.reserved.exists():  # a change of key was cut short: this key is the one to keep
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
        self._rotating = threading.Lock()  # two new keys at once would leave one that opens nothing
        with database.reading() as db:
            self._secrets = Secrets.read(db, master)
            behind = pending(db)
        if behind:
            with database.exclusive() as db:
                migrate(db)
                if m005_quantities in behind:
                    self._rows(db).define_from_draws()
        self._journal = LogWriter(_writer(database, self._secrets.integrity))
        weakref.finalize(self, self._journal.close)  # at the process's end, too

    @property
    def fingerprint_key(self) -> bytes:
        return self._secrets.fingerprint

    @property
    def identifier_key(self) -> bytes:
        return self._secrets.identifier

    def quantities(self) -> dict[RootName, RootQuantity]:
        with self._database.reading() as db:
            return {each.name: each for each in self._rows(db).quantities()}

    def define(self, quantities: Sequence[RootQuantity]) -> None:
        """Fix the unit and grid of roots that have none yet; what stands is left alone."""
        for quantity in quantities:
            rows.storable(quantity.name, quantity.unit)
        with self._database.writing(rows.QUANTITIES_LOCK) as db:
            self._rows(db).define(quantities)

    def levels(self, principal: Principal, root: RootName) -> tuple[Record, ...]:
        with self._database.reading() as db:
            ledger = self._ledger(db, principal)
            version = current_version(ledger, root)
            return self._levels(db, principal, root, version, draws_charged(ledger)[root, version])

    def _levels(
        self, db: Transaction, principal: Principal, root: RootName, version: int, charged: int
    ) -> tuple[Record, ...]:
        self._rows(db).count(principal, "draws")
        read = self._rows(db).read(rows.DRAWS, _LEVELS, principal, root, version)
        found = [record for _, record in read]
        self._match(charged, len(found))
        # Each level builds on those before it, so none behind a gap is given out.
        return tuple(record for place, record in enumerate(found) if record.position == place)

    def history(self, principal: Principal, root: RootName) -> tuple[Record, ...]:
        with self._database.reading() as db:
            self._rows(db).count(principal, "draws")
            read = self._rows(db).read(rows.DRAWS, _HISTORY, principal, root)
            return tuple(record for _, record in read)

    def version(self, principal: Principal, root: RootName) -> int:
        return newest_version(self.events(principal), root)

    def return_to(self, principal: Principal, root: RootName, version: int) -> tuple[Record, ...]:
        rows.storable(principal, root)
        with self._database.writing(principal) as db:
            ledger = self._ledger(db, principal)
            charged = draws_charged(ledger)[root, version]
            levels = self._levels(db, principal, root, version, charged)
            if levels and current_version(ledger, root) != version:
                event = RootReturned(principal=principal, root=root, version=version)
                self._append(db, principal, len(ledger), [event])
                self._log(db).append(principal, [entry_now(event)])
            return levels

    def commit(self, principal: Principal, draws: Sequence[Record]) -> tuple[Record, ...]:
        """Keep draws and their events in one transaction, first writer wins."""
        # Before the transaction: what cannot be stored is refused without a writer's lock.
        rows.storable(principal)
        integrity = self._secrets.integrity
        sealed = [rows.DRAWS.row(integrity, principal, thing=draw) for draw in draws]
        if not draws:
            return ()
        with self._database.writing(principal) as db:
            ledger = self._ledger(db, principal)
            self._rows(db).count(principal, "draws")
            charged = draws_charged(ledger)
            price: defaultdict[str, int] = defaultdict(int)
            new: list[Charge] = []
            kept: list[Record] = []
            for draw, row in zip(draws, sealed, strict=True):
                if db.execute(_KEEP_DRAW, *row):
                    where = (draw.sanitized.root, draw.sanitized.version)
                    # A place below what was charged was free: its draw was paid for and is gone.
                    self._match(min(charged[where], draw.position), charged[where])
                    if draw.position > charged[where]:
                        raise StoreError("the profile was erased meanwhile; nothing was released")
                    charged[where] += 1
                    price[draw.sanitized.root] += cost(draw.event)
                    new.append(draw.event)
                    kept.append(draw)
                else:
                    [(_, there)] = self._rows(db).read(rows.DRAWS, _ONE_DRAW, *row[:4])
                    kept.append(there)
            # After the inserts, which tell what is new; a refusal rolls them back.
            whole = Ledger(ledger, self._drawn_in_tables(db, principal))
            check_caps(whole, price, self._caps(db, principal))
            if new:
                self._append(db, principal, len(ledger), new)
                self._rows(db).add(principal, "draws", len(new))
                self._log(db).append(principal, [entry_now(event) for event in new])
        return tuple(kept)

    def events(self, principal: Principal) -> tuple[Charge, ...]:
        with self._database.reading() as db:
            return self._ledger(db, principal)

    def ledger(self, principal: Principal) -> Ledger:
        with self._database.reading() as db:
            events = self._ledger(db, principal)
            return Ledger(events, self._drawn_in_tables(db, principal))

    def _drawn_in_tables(
        self, db: Transaction, principal: Principal
    ) -> dict[RootName, list[tuple[int, int]]]:
        integrity = self._secrets.integrity
        runs = tables.runs(db, integrity)
        if not runs:
            return {}
        prf = tables.table_prf(self.fingerprint_key)
        read = functools.partial(tables.partition, db, integrity)
        return tables.drawn_for(runs, read, prf, principal)

    def caps(self, principal: Principal) -> dict[str, int]:
        with self._database.reading() as db:
            return self._caps(db, principal)

    def set_cap(self, principal: Principal, root: str, micro: int | None) -> None:
        rows.storable(principal, root, micro or 0)
        with self._database.writing(principal) as db:
            self._caps(db, principal)
            change = -len(db.execute(_DROP_CAP, principal, root))
            if micro is not None:
                self._rows(db).write(rows.CAPS, principal, root, thing=micro)
                change += 1
            self._rows(db).add(principal, "caps", change)

    def disclose(
        self, principal: Principal, disclosures: Sequence[Disclosure], limit: int | None = None
    ) -> None:
        for disclosure in disclosures:  # refuse what cannot be stored before anything is written
            rows.DISCLOSURES.row(self._secrets.integrity, principal, 0, thing=disclosure)
        if not set(disclosures) - set(self.disclosures(principal)):
            return  # the usual case needs no writer's lock
        with self._database.writing(principal) as db:
            there = self._disclosures(db, principal)
            new = [item for item in dict.fromkeys(disclosures) if item not in set(there)]
            events, records = self._ledger(db, principal), self._records(db, principal)
            check_disclosures(limit, new, events, there, records)
            for sequence, disclosure in enumerate(new, start=len(there) + 1):
                self._rows(db).write(rows.DISCLOSURES, principal, sequence, thing=disclosure)
            self._rows(db).add(principal, "disclosures", len(new))

    def held(self, principal: Principal, service: str) -> dict[tuple[str, int], int]:
        with self._database.reading() as db:
            events, given = self._ledger(db, principal), self._disclosures(db, principal)
            return held_levels(service, events, given, self._records(db, principal))

    def _records(self, db: Transaction, principal: str) -> list[Record]:
        self._rows(db).count(principal, "draws")
        read = self._rows(db).read(rows.DRAWS, "WHERE principal = ?", principal)
        return [record for _, record in read]

    def disclosures(self, principal: Principal) -> tuple[Disclosure, ...]:
        with self._database.reading() as db:
            return self._disclosures(db, principal)

    def note(self, principal: Principal, event: Event, recipient: Recipient | None = None) -> None:
        """Write an event into the audit log, soon. Never waits for a database and never fails."""
        self._journal.note(principal, entry_now(event, recipient))

    def log(
        self,
        principal: Principal,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = LOG_SIZE,
    ) -> tuple[LogEntry, ...]:
        with self._database.reading() as db:
            if before is None:
                return self._log(db).after(principal, after, limit)
            return self._log(db).before(principal, before, limit)

    def log_size(self, principal: Principal) -> tuple[int, int]:
        with self._database.reading() as db:
            counts = self._rows(db)
            return counts.count(principal, rows.LOG.name), counts.latest_entry(principal)

    def tokens(self, principal: Principal) -> IssuedTokens:
        rows.storable(principal)
        return SqlTokens(self._database, lambda: self._secrets, principal)

    def tables(self) -> tuple[TableRun, ...]:
        with self._database.reading() as db:
            return tables.runs(db, self._secrets.integrity)

    def fingerprints(self, place: int) -> bytes:
        """The fingerprints of people in tables, one partition of them."""
        with self._database.reading() as db:
            return tables.partition(db, self._secrets.integrity, place)

    def keep_table(self, table: str, merge: Merge, report: RunReport) -> None:
        """Keep a run in one transaction: partitions through `merge`, then what `report` says."""
        with self._database.writing(tables.LOCK) as db:
            tables.keep(db, self._secrets.integrity, table, merge, report)

    def principals(self) -> tuple[Principal, ...]:
        with self._database.reading() as db:
            return tuple(Principal(name) for name in self._rows(db).principals())

    def erase(self, principal: Principal) -> None:
        """Delete a profile's values, fingerprints, tokens, disclosures and audit log."""
        rows.storable(principal)
        with self._database.writing(principal) as db:
            ledger = self._ledger(db, principal)
            given, records = self._disclosures(db, principal), self._records(db, principal)
            charges: list[Charge] = [
                *table_charges(principal, self._drawn_in_tables(db, principal)),
                *service_charges(principal, ledger, given, records),
            ]
            for table in (rows.DRAWS.name, rows.DISCLOSURES.name, "tokens", rows.LOG.name):
                self._rows(db).remove(principal, table)
            # What the writer has taken already waits for this transaction, and is then dropped for
            # being older than the entry that tells of the erasure (`AuditLog`).
            self._journal.forget(principal)
            erased = ProfileErased(principal=principal)
            self._append(db, principal, len(ledger), [*charges, erased])
            self._log(db).append(principal, [entry_now(erased)])
        if self.tables():  # the profile first: an erased one is never served from a table
            prf = tables.table_prf(self.fingerprint_key)
            with self._database.writing(tables.LOCK) as db:
                tag = int(prf.tags(prf.person(principal))[0])
                tables.forget(db, self._secrets.integrity, tag)
        self._database.scrub()

    def verify(self) -> tuple[str, ...]:
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
        """Let go of files and connections; the audit log is written first."""
        self._journal.close()
        self._database.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def _rows(self, db: Transaction) -> Rows:
        return Rows(db, self._secrets.integrity)

    def _log(self, db: Transaction) -> AuditLog:
        return AuditLog(db, self._secrets.integrity)

    def _ledger(self, db: Transaction, principal: str) -> tuple[Charge, ...]:
        length = self._rows(db).count(principal, "events")
        found = self._rows(db).read(rows.EVENTS, _IN_ORDER, principal)
        if [row[1] for row, _ in found] != list(range(1, length + 1)):
            raise StoreDamagedError("events are missing or added; restore the store's backup")
        return tuple(event for _, event in found)

    def _append(
        self, db: Transaction, principal: str, length: int, events: Sequence[Charge]
    ) -> None:
        for sequence, event in enumerate(events, start=length + 1):
            self._rows(db).write(rows.EVENTS, principal, sequence, thing=event)
        self._rows(db).add(principal, "events", len(events))

    def _caps(self, db: Transaction, principal: str) -> dict[str, int]:
        self._rows(db).count(principal, "caps")
        found = self._rows(db).read(rows.CAPS, "WHERE principal = ?", principal)
        return {row[1]: micro for row, micro in found}

    def _disclosures(self, db: Transaction, principal: str) -> tuple[Disclosure, ...]:
        self._rows(db).count(principal, "disclosures")
        found = self._rows(db).read(rows.DISCLOSURES, _IN_ORDER, principal)
        return tuple(disclosure for _, disclosure in found)

    def _match(self, charged: int, found: int) -> None:
        """Refuse to go on where the ledger knows of a draw that is not there, or the reverse."""
        if charged != found:
            raise StoreDamagedError(
                "the ledger and the draws do not match; restore the store's backup"
            )


def _writer(database: Database, integrity: Integrity) -> Write:
    """How the audit log is written. Holds no store, so that a store nobody closed can go."""

    def write(principal: Principal, entries: Sequence[UnnumberedEntry], given_up: int) -> None:
        rows.storable(principal)
        with database.noting(principal) as db:
            AuditLog(db, integrity).append(principal, entries, given_up)

    return write
