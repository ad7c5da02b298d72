"""The store in a database: one implementation, whatever the dialect.

A person's row says what is kept of the person: a writer reads it under the person's lock, adds rows
and writes it changed, all in one transaction, so that a crash leaves all of it or none, and whoever
comes second is given the draw that stands. Nothing is read that the row does not name, so what an
operation costs does not grow with the ledger. What is read is checked: every row is bound to its
person, its place and the person's epoch.
"""

import functools
import json
import re
import sys
import weakref
from binascii import unhexlify
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from rootguard.accounting import Ledger, TableDraws
from rootguard.errors import (
    BudgetError,
    ErasedError,
    StoreDamagedError,
    StoreError,
    StoreKeyError,
    StoreMissingError,
    StoreUnavailableError,
)
from rootguard.events import Charge, Event, RootReturned
from rootguard.identifiers import IssuedToken, IssuedTokens
from rootguard.mechanisms.keyed import Prf
from rootguard.store import rows, tables
from rootguard.store.anchor import QUANTITIES, TABLES, Anchor, AnchoredDatabase, rolled_back
from rootguard.store.audit import audit
from rootguard.store.base import (
    LOG_SIZE,
    Commit,
    Database,
    Disclosure,
    Disclosures,
    Epoch,
    FinestValues,
    Fingerprints,
    LogEntry,
    Merge,
    Recipient,
    Record,
    Row,
    RunReport,
    Snapshot,
    Statement,
    TableRun,
    Transaction,
    UnnumberedEntry,
    entry_now,
)
from rootguard.store.envelope import (
    KEY_BYTES,
    Envelope,
    Keys,
    Secrets,
    UnlockedDatabase,
    open_places,
)
from rootguard.store.journal import Author, LogWriter, Write
from rootguard.store.keys import GivenKeys, KeyPlace, fresh_id
from rootguard.store.rows import PersonRow
from rootguard.store.schema import early
from rootguard.store.schema.migrations import (
    MIGRATIONS,
    Migration,
    m006_key_versions,
    m007_people,
    migrate,
    pending,
)
from rootguard.store.summary import (
    PersonSummary,
    current_places,
    erased_meanwhile,
    level_of,
)
from rootguard.values import (
    MICRO,
    Domain,
    MechanismName,
    Principal,
    RootName,
    RootQuantity,
    Sanitized,
    normalised,
)

_EVENTS: Final = "SELECT sequence, content FROM events WHERE principal = ? ORDER BY sequence"
_BY_MARK: Final = "SELECT place, content FROM draws WHERE principal = ? AND mark = ?"
_FIND_TOKEN: Final = (
    "SELECT token_key, sequence, content FROM tokens WHERE principal = ? AND token_key = ?"  # noqa: S105
)
_TOKENS_SINCE: Final = (
    "SELECT token_key, sequence, content FROM tokens"
    " WHERE principal = ? AND sequence >= ? ORDER BY sequence"
)
_TOKEN_COUNT: Final = (
    "SELECT principal, shelf, length, mac FROM heads WHERE principal = ? AND shelf = 'tokens'"  # noqa: S105
)
_DELETE: Final = tuple(
    f"DELETE FROM {table} WHERE principal = ?"  # noqa: S608 - names of our own
    for table in ("draws", "events", "tokens", "log", "heads")
)


def create(
    db: Transaction,
    master: bytes,
    migrations: Sequence[Migration] = MIGRATIONS,
    *,
    store_id: bytes | None = None,
) -> None:
    """Make a new, empty store."""
    migrate(db, migrations)
    Secrets.create(db, master, store_id or fresh_id())
    secrets = Secrets.read(db, master)
    complete(db, secrets, migrations)


def complete(db: Transaction, secrets: Secrets, steps: Sequence[Migration]) -> None:
    """Do what steps of the schema leave to those who have the store's secrets."""
    if m006_key_versions in steps:
        secrets.name_version(db)
    if m007_people in steps:
        early.convert(db, secrets)


def unlock(
    database: Database, given: bytes | None, place: KeyPlace, *, new: bool = False
) -> "SqlStore":
    """Open a store with the key that was given, else with one that is kept in its place.

    Whoever opens one writes no key; whoever made a `new` one puts its key in its place, or, if its
    maker was cut off and nothing is there, who opens it first.
    """
    store = SqlStore(database, place if given is None else GivenKeys(given))
    if new:
        store.settle_key()
    elif store._database.keys.unsettled():
        with suppress(StoreUnavailableError):  # a place that cannot be written opens all the same
            store.settle_key()
    return store


T = TypeVar("T")


class RowRevision(Protocol):
    """Somebody, as far as an anchor is concerned."""

    @property
    def key(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def revision(self) -> int: ...


class SqlStore:
    """Keeps everything in a database."""

    def __init__(self, database: Database, keys: Keys) -> None:
        self._database = UnlockedDatabase(database, keys)
        self._anchored: AnchoredDatabase | None = None
        with self._database.reading() as db:
            behind = pending(db)
            if m006_key_versions not in behind and not self._secrets.version:
                raise StoreDamagedError("the store's key version is missing; restore its backup")
        with self._database.exclusive() if behind else self._database.reading() as db:
            behind = pending(db)  # another process may have been faster
            if behind:
                migrate(db)
                complete(db, self._secrets, behind)
            ambiguous, self._exact_ids = _spellings(db, self._secrets)
        names = _Names(self._secrets.hash, ambiguous)
        if behind:  # an early store had names and fingerprints in clear
            self._database.scrub()
        # The secret behind a name's key never changes, and every release asks for the key.
        self._key = functools.lru_cache(maxsize=_NAMES)(names.key)
        self._journal = LogWriter(_writer(self._database))
        weakref.finalize(self, self._journal.close)  # at the process's end, too

    @property
    def vault_id(self) -> str:
        return self._secrets.store_id.hex()

    def anchor_in(self, path: Path, *, create: bool = False) -> None:
        """Check whatever is read against an anchor from now on, and advance it with each write."""
        make = Anchor.create if create else Anchor.open
        anchor = make(path, self.fingerprint_key, self.vault_id)
        self._anchored = self._database.reach_through(lambda raw: AnchoredDatabase(raw, anchor))

    def advance_anchor(self) -> None:
        """Bring the anchor up to everything that is there."""
        if self._anchored is not None:
            with self._database.reading(whole=True) as db:
                reached = self._reached(db)
            self._anchored.anchor.advance(*reached)

    @property
    def _secrets(self) -> Secrets:
        """As the transaction sees them that this thread is in."""
        return self._database.secrets

    @property
    def fingerprint_key(self) -> bytes:
        return self._secrets.fingerprint

    @property
    def identifier_key(self) -> bytes:
        return self._secrets.identifier

    @property
    def exact_ids(self) -> bool:
        """Whether ids in tables are people exactly as written."""
        return self._exact_ids

    def _table_prf(self) -> Prf:
        return tables.table_prf(self.fingerprint_key, exact=self._exact_ids)

    def quantities(self) -> dict[RootName, RootQuantity]:
        with self._database.reading() as db:
            return self._quantities(*db.batch(_quantity_queries()))

    def define(self, quantities: Sequence[RootQuantity]) -> dict[RootName, RootQuantity]:
        """Fix the unit and grid of roots that have none yet; all of them as they stand then."""
        for quantity in quantities:
            rows.storable(quantity.name, quantity.unit)
        with self._database.writing(rows.QUANTITIES_LOCK) as db:
            there = self._quantities(*db.batch(_quantity_queries()))
            db.batch(rows.define(self._secrets.integrity, there, quantities))
        self._advance(QUANTITIES, 0, len(there))
        return there

    def _quantities(self, found: list[Row], counts: list[Row]) -> dict[RootName, RootQuantity]:
        integrity = self._secrets.integrity
        there = rows.read_quantities(integrity, found, rows.read_counts(integrity, counts))
        self._check(QUANTITIES, 0, len(there))
        return there

    def snapshot(self, principal: Principal) -> Snapshot:
        """All that is kept of a person's current values, as of one moment."""
        key = self._key(principal)
        with self._database.reading() as db:
            found = db.batch([rows.person_query(key), *_quantity_queries(), *tables.RUN_QUERIES])
            person = self._person(key, principal, found[0])
            summary = person.summary
            runs = tables.read_runs(self._secrets.integrity, *found[3:])
            wanted = [
                (root, state.current, position)
                for root, state in summary.roots.items()
                for position in range(summary.count(root, state.current))
            ]
            levels: dict[RootName, tuple[Record, ...]] = {}
            for record in rows.read_draws(db, person, wanted) if wanted else ():
                root = record.sanitized.root
                levels[root] = (*levels.get(root, ()), record)
            drawn = self._drawn_in_tables(db, person, principal, runs)
            return Snapshot(
                name=Principal(person.name or principal),
                epoch=person.epoch,
                quantities=self._quantities(*found[1:3]),
                levels=levels,
                newest={root: state.newest for root, state in summary.roots.items()},
                ledger=summary.ledger.with_tables(drawn),
                caps=summary.caps,
                given=summary.given,
                before=summary.before,
                runs=runs,
            )

    def epoch(self, principal: Principal) -> int:
        """How often the profile was erased."""
        key = self._key(principal)
        moment = self._anchored.anchor.moment() if self._anchored is not None else 0
        found = self._database.look(rows.EPOCH, key)
        epoch = int(found[0][0]) if found else 0
        if self._anchored is not None:
            self._anchored.anchor.check(moment, key, epoch, sys.maxsize if found else 0)
        return epoch

    def levels(self, principal: Principal, root: RootName) -> tuple[Record, ...]:
        return self.snapshot(principal).levels.get(root, ())

    def version(self, principal: Principal, root: RootName) -> int:
        return self.snapshot(principal).newest.get(root, 0)

    def records(self, principal: Principal) -> tuple[Record, ...]:
        """Every draw that is kept of a person."""
        with self._database.reading() as db:
            person = self._read(db, principal)
            return tuple(rows.read_draws(db, person, person.summary.kept()))

    def find(self, principal: Principal, wanted: Fingerprints) -> dict[RootName, Record]:
        """Of each root the first draw of a version that has one of its fingerprints, if any has."""
        with self._database.reading() as db:
            person = self._read(db, principal)
            if not person.there:
                return {}
            asked = [(root, mark) for root in wanted for mark in dict.fromkeys(wanted[root])]
            marks = [(_BY_MARK, (person.key, rows.draw_mark(person, *each))) for each in asked]
            found: dict[RootName, Record] = {}
            for (root, _), there in zip(asked, db.batch(marks), strict=True):
                for place, content in there:
                    record = rows.DRAWS.open(person, bytes(place), content)
                    if record.fingerprint not in wanted[root] or record.sanitized.root != root:
                        raise rows.misplaced()
                    found.setdefault(root, record)
            # A mark is not sealed with its row. Before a value counts as new, which noises it, the
            # draws themselves are asked: there are as many as the root's cap pays for.
            new = wanted.keys() - found.keys()
            first = [each for each in person.summary.kept() if each[0] in new and not each[2]]
            for record in rows.read_draws(db, person, first) if first else ():
                if record.fingerprint in wanted[record.sanitized.root]:
                    raise rows.misplaced()
            return found

    def return_to(
        self, principal: Principal, versions: Mapping[RootName, int], *, epoch: int | None = None
    ) -> dict[RootName, tuple[Record, ...]]:
        """Make earlier versions of roots the current ones; the levels of those that are kept."""
        rows.storable(*versions)
        with self._writing(principal, epoch) as (db, person, counts):
            summary = person.summary
            wanted = [
                (root, version, each)
                for root, version in versions.items()
                for each in range(summary.count(root, version))
            ]
            found: dict[RootName, tuple[Record, ...]] = {}
            for record in rows.read_draws(db, person, wanted) if wanted else ():
                root = record.sanitized.root
                found[root] = (*found.get(root, ()), record)
            events = [
                RootReturned(principal=principal, root=root, version=versions[root])
                for root in found
                if summary.current(root) != versions[root]
            ]
            for event in events:
                summary.record(event)
            if events:
                db.batch(self._person_statements(db, person, counts, events))
            return found

    def commit(
        self, principal: Principal, draws: Sequence[Record], *, epoch: int | None = None
    ) -> tuple[Record, ...]:
        """Keep draws and their events in one transaction, first writer wins."""
        # Before the transaction: what cannot be stored is refused without a writer's lock.
        trial = PersonRow.new("", principal)
        for draw in draws:
            rows.DRAWS.seal(trial, b"", draw)
        if not draws:
            return ()
        with self._writing(principal, epoch) as (db, person, counts):
            runs = tables.runs(db, self._secrets.integrity)
            drawn = self._drawn_in_tables(db, person, principal, runs)
            new = person.summary.take(draws, drawn)
            person.name = person.name or principal  # a person who was erased comes back by name
            kept = {draw.place: draw for draw in new}
            taken = [where for draw in draws if (where := draw.place) not in kept]
            if taken:
                kept |= zip(taken, rows.read_draws(db, person, taken), strict=True)
            if new:
                added = rows.add_draws(person, new)
                events = [draw.event for draw in new]
                db.batch([*added, *self._person_statements(db, person, counts, events)])
        return tuple(kept[draw.place] for draw in draws)

    def events(self, principal: Principal) -> tuple[Charge, ...]:
        with self._database.reading() as db:
            return _events(db, self._read(db, principal))

    def ledger(self, principal: Principal) -> Ledger:
        key = self._key(principal)
        with self._database.reading() as db:
            found = db.batch([rows.person_query(key), *tables.RUN_QUERIES])
            person = self._person(key, principal, found[0])
            runs = tables.read_runs(self._secrets.integrity, *found[1:])
            drawn = self._drawn_in_tables(db, person, principal, runs)
            return person.summary.ledger.with_tables(drawn)

    def _drawn_in_tables(
        self, db: Transaction, person: PersonRow, principal: str, runs: Sequence[TableRun]
    ) -> TableDraws:
        self._check(TABLES, 0, len(runs))
        if not runs:
            return {}
        prf = self._table_prf()
        read = functools.partial(tables.partition, db, self._secrets.integrity)
        return tables.drawn_for(runs, read, prf, person.name or principal)

    def caps(self, principal: Principal) -> dict[str, int]:
        with self._database.reading() as db:
            return self._read(db, principal).summary.caps

    def set_cap(
        self, principal: Principal, root: str, micro: int | None, *, epoch: int | None = None
    ) -> None:
        self.set_caps(principal, {root: micro}, epoch=epoch)

    def set_caps(
        self, principal: Principal, caps: Mapping[str, int | None], *, epoch: int | None = None
    ) -> None:
        for root, micro in caps.items():
            rows.storable(root, micro or 0)
        with self._writing(principal, epoch) as (db, person, counts):
            person.summary.cap(caps)
            db.batch(self._person_statements(db, person, counts))

    def disclose(
        self, principal: Principal, new: Disclosures, limit: int | None = None, epoch: Epoch = None
    ) -> None:
        for each in new:  # refuse what cannot be stored before anything is written
            rows.storable(each.service, each.tier, each.root, each.version, each.position)
        with self._database.reading() as db:
            person = self._read(db, principal)
        if epoch is not None and person.epoch != epoch:
            raise erased_meanwhile()
        if person.summary.given.keys() >= set(new):
            return  # the usual case needs no writer's lock
        with self._writing(principal, epoch) as (db, person, counts):
            summary = person.summary
            added = [each for each in dict.fromkeys(new) if each not in summary.given]
            wanted = [(each.root, each.version, each.position) for each in added]
            if any(position >= summary.count(root, v) for root, v, position in wanted):
                raise erased_meanwhile()
            found = rows.read_draws(db, person, wanted) if wanted else []
            levels = [level_of(record) for record in found]
            summary.give(dict(zip(added, levels, strict=True)), limit)
            db.batch(self._person_statements(db, person, counts))

    def held(self, principal: Principal, service: str) -> dict[tuple[str, int], int]:
        with self._database.reading() as db:
            return self._read(db, principal).summary.held(service)

    def disclosures(self, principal: Principal) -> tuple[Disclosure, ...]:
        with self._database.reading() as db:
            return tuple(self._read(db, principal).summary.given)

    def note(
        self, principal: Principal, event: Event, to: Recipient | None = None, epoch: Epoch = None
    ) -> None:
        """Write an event into the audit log, soon. Never waits for a database and never fails."""
        author = Author(self._key(principal), principal, epoch)
        self._journal.note(author, entry_now(event, to))

    def log(
        self, principal: Principal, after: int = 0, before: int | None = None, limit: int = LOG_SIZE
    ) -> tuple[LogEntry, ...]:
        key = self._key(principal)
        with self._database.reading() as db:
            found, counted = db.batch([rows.person_query(key), rows.counts_query(key)])
            person = self._person(key, principal, found)
            counts = rows.read_counts(self._secrets.integrity, counted)
            return rows.read_log(db, person, counts, after=after, before=before, limit=limit)

    def log_size(self, principal: Principal) -> tuple[int, int]:
        with self._database.reading() as db:
            [found] = db.batch([rows.counts_query(self._key(principal))])
            counts = rows.read_counts(self._secrets.integrity, found)
            return counts.get(rows.LOG_ROWS, 0), counts.get(rows.LATEST, 0)

    def tokens(self, principal: Principal, *, epoch: int | None = None) -> IssuedTokens:
        self._key(principal)
        return _SqlTokens(self, principal, epoch)

    def tables(self) -> tuple[TableRun, ...]:
        with self._database.reading() as db:
            runs = tables.runs(db, self._secrets.integrity)
            self._check(TABLES, 0, len(runs))
            return runs

    def fingerprints(self, place: int) -> bytes:
        """The fingerprints of people in tables, one partition of them."""
        with self._database.reading() as db:
            return tables.partition(db, self._secrets.integrity, place)

    def keep_table(self, table: str, merge: Merge | None, report: RunReport) -> None:
        """Keep a run in one transaction: partitions through `merge`, then what `report` says.

        Without `merge` the partitions stay as they are, and none of them is read.
        """
        with self._database.writing(tables.LOCK) as db:
            tables.keep(db, self._secrets.integrity, table, merge, report)
            runs = tables.runs(db, self._secrets.integrity) if self._anchored is not None else ()
        self._advance(TABLES, 0, len(runs))

    def principals(self) -> tuple[Principal, ...]:
        with self._database.reading(whole=True) as db:
            return tuple(sorted(Principal(each.name) for each in self._everyone(db) if each.name))

    def tags(self) -> dict[int, bool]:
        """Everyone this store ever knew, as tables know people; and whether they were erased."""
        return _known_tags(self)

    def population(self) -> int:
        """How many people this store ever knew."""
        with self._database.reading(whole=True) as db:
            [counts] = db.batch([rows.counts_query(rows.NOBODY)])
            return rows.read_counts(self._secrets.integrity, counts).get("people", 0)

    def snapshots(self, principals: Sequence[Principal]) -> list[Snapshot]:
        """`snapshot` of many people, with few questions to the database."""
        return _snapshots(self, principals)

    def finest(self, principals: Sequence[Principal]) -> list[FinestValues]:
        """The finest level of each root's current version, of many people."""
        return _finest(self, principals)

    def records_of(self, principals: Sequence[Principal]) -> list[tuple[Record, ...]]:
        """`records` of many people."""
        return _records_of(self, principals)

    def commit_each(
        self, commits: Sequence[Commit]
    ) -> list[tuple[Record, ...] | BudgetError | ErasedError]:
        """`commit` for many people, each of whom comes once."""
        for draw in (draw for commit in commits for draw in commit.draws):
            rows.storable(draw.sanitized.root)
        return _commit_each(self, commits)

    def _everyone(self, db: Transaction) -> list[PersonRow]:
        """Everyone there is; refuses a store that lost somebody."""
        found, counts = db.batch([rows.people_query(), rows.counts_query(rows.NOBODY)])
        if rows.read_counts(self._secrets.integrity, counts).get("people") != len(found):
            raise StoreDamagedError("profiles are missing or added; restore the backup")
        everyone = [rows.read_person(self._secrets, row) for row in found]
        self._check_everyone(everyone)
        return everyone

    def _check_everyone(self, everyone: Sequence[RowRevision]) -> None:
        """Refuse a store in which somebody is not as far as the anchor, if there is one, knows."""
        if self._anchored is not None and self._behind(everyone):
            raise rolled_back(self._anchored.anchor.path)

    def erase(self, principal: Principal, *, forget_unseen: bool = False) -> None:
        """Delete a profile: its name, values, fingerprints, ledger, tokens and audit log."""
        prf = self._table_prf()
        with self._writing(principal) as (db, person, counts):
            name = Principal(person.name or principal)
            tag = int(prf.tags(prf.person(name))[0])
            runs = tables.runs(db, self._secrets.integrity)
            drawn = self._drawn_in_tables(db, person, principal, runs)
            events = person.summary.erasure(drawn, forget_unseen=forget_unseen)
            person.begin_anew()
            caps, tags = person.summary.caps, {*person.summary.tags, tag}
            person.summary = PersonSummary.of(events)
            person.summary.caps, person.summary.tags = caps, sorted(tags)
            counts.pop(rows.LOG_ROWS, None)
            deleted: list[Statement] = [(each, (person.key,)) for each in _DELETE]
            db.batch(
                [*deleted, *self._person_statements(db, person, counts, events, told=events[-1:])]
            )
        # After the commit: if that fails the profile stands, and what waits is part of its log.
        self._journal.forget(person.key, person.epoch)
        if runs:  # the profile first: an erased one is never served from a table
            with self._database.writing(tables.LOCK) as db:
                tables.forget(db, self._secrets.integrity, tag)
        if not self._database.scrub():
            raise StoreUnavailableError(
                "the profile is erased, but its bytes are not gone from the file yet: a reader "
                "holds the log. Close it, and erase the profile once more"
            )

    def verify(self) -> tuple[str, ...]:
        found: list[str] = []
        try:
            found += self._database.check()
            with self._database.reading(whole=True) as db:
                found += audit(db, self._secrets)
                _spellings(db, self._secrets)
                found += tables.audit(db, self._secrets.integrity)
                found += self._older(db) if self._anchored is not None and not found else ()
        except StoreDamagedError as damage:
            found.append(str(damage))
        return tuple(found)

    def rotate_key(self, new_master: bytes) -> bool:
        """Put the store under a new master key, and its rows under fresh secrets.

        Whether what was under the old key is gone from the file; not while a reader holds its log.

        Both keys are in the ring before the store changes, and the old one goes when it has. All
        keys are written while no other writer runs, so whoever is cut off or comes between, there
        is a key that opens the store.
        """
        if len(new_master) != KEY_BYTES:
            raise StoreKeyError(f"a store key is {KEY_BYTES} bytes; this one has {len(new_master)}")
        with self._database.exclusive() as db:
            with self._database.opened_by(db) as master:
                if master == new_master:
                    raise StoreKeyError("the store is under this key already; nothing was changed")
                self._database.keys.write(master, new_master)
            reseal(db, self._secrets, self._secrets.renew(db, new_master))
        self.settle_key()
        return self._database.scrub()

    def settle_key(self) -> None:
        """Leave the key that opens the store in its place, and no other."""
        with self._database.exclusive() as db, self._database.opened_by(db) as master:
            self._database.keys.settle(master)

    def flush(self) -> None:
        """Write what waits to be written in the audit log."""
        if not self._journal.flush():
            raise StoreUnavailableError("the audit log cannot be written just now; try again")

    @contextmanager
    def snapshot_of_all(self) -> Iterator[tuple[Transaction, Secrets]]:
        """The whole store as of one moment, and the secrets that it is under then."""
        with self._database.reading(whole=True) as db:
            if self._anchored is not None and any(self._older(db)):
                raise rolled_back(self._anchored.anchor.path)
            yield db, self._secrets

    def key_location(self) -> str:
        """Where the master key is, in words."""
        keys = self._database.keys
        return keys.where() if isinstance(keys, KeyPlace) else "ROOTGUARD_KEY"

    def addresses(self) -> list[Path]:
        """Files that name the addresses of this vault and its copies on servers."""
        keys = self._database.keys
        return keys.addresses() if isinstance(keys, KeyPlace) else []

    def kept_key(self) -> bytes | None:
        """The master key, if it is kept in a place of ours; None if somebody gave it."""
        with self._database.reading() as db:
            keys = self._database.keys
            found = Envelope.read(db).open(keys.candidates())
            return found[0] if found is not None and isinstance(keys, KeyPlace) else None

    def close(self) -> None:
        """Let go of files and connections; the audit log is written first."""
        self._journal.close()
        self._database.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def _person(self, key: str, principal: str, found: Sequence[Row]) -> PersonRow:
        if found:
            person = rows.read_person(self._secrets, found[0])
        else:
            person = PersonRow.new(key, principal)
        self._check(key, person.epoch, person.revision)
        return person

    def _check(self, name: str, epoch: int, revision: int) -> None:
        """Refuse what the anchor, if there is one, knows to have been further."""
        if self._anchored is not None:
            self._anchored.anchor.check(self._anchored.moment, name, epoch, revision)

    def _advance(self, name: str, epoch: int, revision: int) -> None:
        """After a commit: from now on nothing earlier than this is taken."""
        if self._anchored is not None:
            self._anchored.anchor.advance((name, epoch, revision))

    def _behind(self, everyone: Sequence[RowRevision]) -> list[str]:
        """Whom the anchor knows to have been further, by name where there is one; or to be gone."""
        if self._anchored is None:
            return []
        anchor, moment = self._anchored.anchor, self._anchored.moment
        older = [
            each.name or each.key
            for each in everyone
            if anchor.behind(moment, each.key, each.epoch, each.revision)
        ]
        return older + sorted(anchor.people(moment) - {each.key for each in everyone})

    def _older(self, db: Transaction) -> Iterator[str]:
        """Sentences naming everything that is older than the anchor says."""
        [found] = db.batch([rows.people_query()])
        for each in self._behind([rows.read_person(self._secrets, row) for row in found]):
            yield f"{each}: older than the anchor knows, or gone: an earlier copy was put back"
        for name, epoch, count in self._counted(db):
            if self._anchored and self._anchored.anchor.behind(
                self._anchored.moment, name, epoch, count
            ):
                yield f"{name}: fewer than the anchor knows: an earlier copy was put back"

    def _reached(self, db: Transaction) -> list[tuple[str, int, int]]:
        people = [(each.key, each.epoch, each.revision) for each in self._everyone(db)]
        return people + self._counted(db)

    def _counted(self, db: Transaction) -> list[tuple[str, int, int]]:
        integrity = self._secrets.integrity
        found, counts = db.batch(_quantity_queries())
        quantities = rows.read_quantities(integrity, found, rows.read_counts(integrity, counts))
        runs = tables.runs(db, integrity)
        return [(QUANTITIES, 0, len(quantities)), (TABLES, 0, len(runs))]

    def _read(self, db: Transaction, principal: str) -> PersonRow:
        key = self._key(principal)
        [found] = db.batch([rows.person_query(key)])
        return self._person(key, principal, found)

    @contextmanager
    def _writing(
        self, principal: str, epoch: int | None = None
    ) -> Iterator[tuple[Transaction, PersonRow, dict[str, int]]]:
        """A transaction for one person, who is of this epoch still; and the person's counts."""
        key = self._key(principal)
        with self._database.writing(key) as db:
            found, counts = db.batch([rows.person_query(key), rows.counts_query(key)])
            person = self._person(key, principal, found)
            if epoch is not None and person.epoch != epoch:
                raise erased_meanwhile()
            yield db, person, rows.read_counts(self._secrets.integrity, counts)
        self._advance(key, person.epoch, person.revision)

    def _person_statements(
        self,
        db: Transaction,
        person: PersonRow,
        counts: dict[str, int],
        events: Sequence[Charge] = (),
        told: Sequence[Charge] | None = None,
    ) -> list[Statement]:
        """What writes a person's row, changed; and events that it has counted."""
        first = [] if person.there else [rows.count_person(db, self._secrets.integrity)]
        return [*first, *self._row_statements(person, counts, events, told)]

    def _row_statements(
        self,
        person: PersonRow,
        counts: dict[str, int],
        events: Sequence[Charge],
        told: Sequence[Charge] | None = None,
    ) -> list[Statement]:
        """The same, of somebody who is counted already or elsewhere."""
        told = events if told is None else told
        integrity = self._secrets.integrity
        return [
            *rows.add_events(person, events),
            rows.put_person(self._secrets, person),
            *rows.add_entries(integrity, person, counts, [entry_now(event) for event in told]),
        ]


class _SqlTokens:
    """One person's issued tokens, encrypted: no token and no entry can be read in the database."""

    def __init__(self, store: SqlStore, principal: str, epoch: int | None) -> None:
        self._store = store
        self._principal = principal
        self._epoch = epoch

    def add(self, entry: IssuedToken) -> IssuedToken:
        """Keep an entry unless its token is taken; give back the one that now stands."""
        store = self._store
        with store._writing(self._principal, self._epoch) as (db, person, counts):
            for row in db.execute(_FIND_TOKEN, person.key, rows.token_key(person, entry.token)):
                return rows.read_token(person, *row)
            length = counts.get(rows.TOKEN_ROWS, 0) + 1
            integrity = store._secrets.integrity
            person.name = person.name or self._principal
            written = store._person_statements(db, person, counts)
            count = rows.put_count(integrity, person.key, rows.TOKEN_ROWS, length)
            db.batch([*written, rows.add_token(person, length, entry), count])
            return entry

    def find(self, token: str) -> IssuedToken | None:
        """The entry of a token, if there is one."""
        with self._store._database.reading() as db:
            person = self._store._read(db, self._principal)
            found = db.execute(_FIND_TOKEN, person.key, rows.token_key(person, token))
            return next((rows.read_token(person, *row) for row in found), None)

    def __iter__(self) -> Iterator[IssuedToken]:
        return self.since(0)

    def since(self, count: int) -> Iterator[IssuedToken]:
        """The entries from the one with this number on, counted from 1, in order of issue."""
        with self._store._database.reading() as db:
            person = self._store._read(db, self._principal)
            length = self._count(db, person.key)
            found = db.execute(_TOKENS_SINCE, person.key, count)
            if [row[1] for row in found] != list(range(max(count, 1), length + 1)):
                raise StoreDamagedError("rows of tokens are missing or added; restore the backup")
            return iter([rows.read_token(person, *row) for row in found])

    def __len__(self) -> int:
        with self._store._database.reading() as db:
            return self._count(db, self._store._key(self._principal))

    def _count(self, db: Transaction, key: str) -> int:
        for row in db.execute(_TOKEN_COUNT, key):
            self._store._secrets.integrity.check("heads", *row)
            return int(row[2])
        return 0

    def __repr__(self) -> str:
        return "<issued tokens in a database>"


def _events(db: Transaction, person: PersonRow) -> tuple[Charge, ...]:
    """A person's ledger; refuses one that lost an event."""
    found = db.execute(_EVENTS, person.key)
    if [row[0] for row in found] != list(range(1, person.summary.events + 1)):
        raise StoreDamagedError("events are missing or added; restore the store's backup")
    return tuple(rows.EVENTS.open(person, *row) for row in found)


def _quantity_queries() -> tuple[Statement, Statement]:
    return rows.quantities_query(), rows.counts_query(rows.NOBODY)


_NAMES: Final = 1024  # remembered at once, a few hundred bytes each


class _Names:
    """By what a store knows its people."""

    def __init__(self, digest: Callable[..., str], ambiguous: Mapping[str, list[str]]) -> None:
        self._digest = digest
        self._ambiguous = ambiguous

    def key(self, principal: str) -> str:
        """What stands for a person's name; refuses a spelling that could mean several people."""
        rows.storable(principal)
        name = normalised(principal)
        key = self._digest(name)
        if key in self._ambiguous:
            key, known = self._digest("exactly", principal), self._ambiguous[key]
            if key not in known:
                raise StoreError(
                    "this store knows several people whose names differ from this one only in "
                    "spelling; write the name exactly as it was first written"
                )
        elif not name:
            raise StoreError("a person needs a name that can be seen; give another one")
        return key


def _spellings(db: Transaction, secrets: Secrets) -> tuple[dict[str, list[str]], bool]:
    """Names that an early store had in several spellings: what stands for them, and for each.

    And whether ids in tables are compared exactly. Refuses a store that has lost either: people
    would be taken for others, and drawn anew.
    """
    query = ("SELECT value FROM meta WHERE name = ?", (early.AMBIGUOUS,))
    found, counts = db.batch([query, rows.counts_query(rows.NOBODY)])
    counted = rows.read_counts(secrets.integrity, counts)
    known: dict[str, list[str]] = {}
    for (text,) in found:
        known = json.loads(secrets.people.decrypt(text, early.AMBIGUOUS))
    if rows.EXACT_IDS not in counted or counted.get(early.AMBIGUOUS) != len(known):
        raise StoreDamagedError("how names are compared is missing; restore the store's backup")
    return known, bool(counted[rows.EXACT_IDS])


def _writer(database: UnlockedDatabase) -> Write:
    """How the audit log is written. Holds no store, so that a store nobody closed can go."""

    def write(author: Author, entries: Sequence[UnnumberedEntry], given_up: int) -> None:
        key = author.key
        with database.noting(key) as db:
            secrets = database.secrets
            found, counted = db.batch([rows.person_query(key), rows.counts_query(key)])
            person = PersonRow.new(key, author.principal)
            for row in found:
                person = rows.read_person(secrets, row)
            if author.epoch not in (None, person.epoch):
                return
            counts = rows.read_counts(secrets.integrity, counted)
            added = rows.add_entries(secrets.integrity, person, counts, entries, given_up)
            if added and not person.there:
                added = [
                    rows.count_person(db, secrets.integrity),
                    rows.put_person(secrets, person),
                    *added,
                ]
            db.batch(added)

    return write


def check_vault_id(db: Transaction, meant: str | None) -> None:
    """Refuse a store that is another one than was meant. Before its key is tried, to say which."""
    if meant is None:
        return
    # One that has lost its id is damaged, which is said when it is unlocked.
    found = db.execute("SELECT value FROM meta WHERE name = ?", "store_id") or [(None,)]
    if isinstance(found[0][0], bytes) and found[0][0].hex() != meant:
        raise StoreMissingError(
            f"this is another vault: its id is {found[0][0].hex()}, and the profile names"
            f" {meant}; give the address of that one with --store, or restore its backup"
        )


_BATCH: Final = 1000  # statements of one exchange: a driver keeps all their answers
# Columns of every table of sealed rows: those of its key, then the others without the seal.
_SEALED: Final = {
    "heads": ("principal, shelf", "length"),
    "quantities": ("root", "unit, lower_bound, upper_bound, size"),
    "table_runs": ("sequence", "content"),
    "table_marks": ("place", "entries"),
}


def reseal(db: Transaction, old: Secrets, new: Secrets) -> None:
    """Put every row under another version of the secrets. One that was altered is refused.

    A person's rows are under the person's own key, which is wrapped anew; so they stay.
    """
    statements: list[Statement] = []
    for table, (key, rest) in _SEALED.items():
        found = db.execute(f"SELECT {key}, {rest}, mac FROM {table}")  # noqa: S608
        for row in found:
            old.integrity.check(table, *row)
        keys = key.count(",") + 1
        change = f"UPDATE {table} SET mac = ? WHERE {key.replace(',', ' = ? AND')} = ?"  # noqa: S608
        statements += [
            (change, (new.integrity.seal(table, *row[:-1]), *row[:keys])) for row in found
        ]
    [people] = db.batch([rows.people_query()])
    statements += [rows.put_person(new, rows.read_person(old, row)) for row in people]
    for (text,) in db.execute("SELECT value FROM meta WHERE name = ?", early.AMBIGUOUS):
        again = new.people.encrypt(old.people.decrypt(text, early.AMBIGUOUS), early.AMBIGUOUS)
        statements.append(("UPDATE meta SET value = ? WHERE name = ?", (again, early.AMBIGUOUS)))
    for start in range(0, len(statements), _BATCH):
        db.batch(statements[start : start + _BATCH])


# Many people at once. What a store does for one person in a transaction is done here for some
# hundreds in one: rows are read by sets and checked one by one, as ever, and what is the same for
# everybody is read once.

_CHUNK: Final = 500  # people of one transaction: no other writer waits longer than for a few
_PEOPLE_OF: Final = (
    "SELECT principal, epoch, revision, person_key, name, summary FROM people WHERE principal IN "
)
_DRAWS_OF: Final = "SELECT principal, place, content FROM draws WHERE principal IN "
_COUNTS_OF: Final = "SELECT principal, shelf, length, mac FROM heads WHERE principal IN "


def _snapshots(store: SqlStore, principals: Sequence[Principal]) -> list[Snapshot]:
    """`snapshot` of many people; those of a transaction are as of one moment."""
    found: list[Snapshot] = []
    for some in _chunks(principals):
        with store._database.reading() as db:
            people = _people(store, db, some)
            records = _records(db, people)
            quantities = store._quantities(*db.batch(_quantity_queries()))
            runs = tables.runs(db, store._secrets.integrity)
            drawn = _table_draws(store, db, people, runs)
            for principal, person in zip(some, people, strict=True):
                summary = person.summary
                there = records[person.key]
                levels: dict[RootName, tuple[Record, ...]] = {}
                for root, state in summary.roots.items():
                    kept = summary.count(root, state.current)
                    if kept == 1:
                        levels[RootName(root)] = (_draw_at(there, root, state.current, 0),)
                    elif kept:
                        levels[RootName(root)] = tuple(
                            _draw_at(there, root, state.current, each) for each in range(kept)
                        )
                found.append(
                    Snapshot(
                        name=Principal(person.name or principal),
                        epoch=person.epoch,
                        quantities=quantities,
                        levels=levels,
                        newest={root: state.newest for root, state in summary.roots.items()},
                        ledger=summary.ledger.with_tables(drawn(person, principal)),
                        caps=summary.caps,
                        given=summary.given,
                        before=summary.before,
                        runs=runs,
                    )
                )
    return found


def _finest(store: SqlStore, principals: Sequence[Principal]) -> list[FinestValues]:
    """`finest` of many people: of each draw the value and its fingerprint alone are read."""
    found: list[FinestValues] = []
    for some in _chunks(principals):
        with store._database.reading() as db:
            keys = [store._key(principal) for principal in some]
            people = {row[0]: row for row in _rows_of(db, _PEOPLE_OF, keys)}
            drawn: dict[str, list[tuple[bytes, bytes]]] = {key: [] for key in people}
            for key, place, content in _rows_of(db, _DRAWS_OF, list(people)):
                drawn[key].append((place, content))
            if store._anchored is not None:
                for key in keys:
                    store._check(key, *(people[key][1:3] if key in people else (0, 0)))
            opened = store._secrets.people.open_rows(people.values())
            there = dict(zip(people, opened, strict=True))
            for key, principal in zip(keys, some, strict=True):
                if key not in there:
                    found.append((principal, {}))
                    continue
                summary, _, aead, name = there[key]
                draws = _draws_from(open_places(aead, key, "draws", drawn[key]))
                values = {
                    root: draws[places[0]]
                    if len(places) == 1 and places[0] in draws
                    else max((_draw_at(draws, *each) for each in places), key=_epsilon_of)
                    for root, places in current_places(summary)
                }
                found.append((Principal(rows.name_of(name) or principal), values))
    return found


_Place = tuple[str, int, int]
_Drawn = tuple[bytes, Sanitized]


def _draws_from(texts: Sequence[bytes]) -> dict[_Place, _Drawn]:
    """A person's draws from what their rows hold: of each the value and its fingerprint."""
    draws: dict[_Place, _Drawn] = {}
    for text in texts:
        value, mark, _ = text.rsplit(_BETWEEN, 2)
        where, sanitized = _VALUES[value]
        draws[where] = (unhexlify(mark), sanitized)
    return draws


# Between texts among a draw's cells, of which mechanism, fingerprint and event are the last three
# (`rows`): inside a text quotes are escaped, so this stands nowhere else.
_BETWEEN: Final = b'","'


class _Values(dict[bytes, tuple[_Place, Sanitized]]):
    """Where a draw stands, and its value, by its cells up to the end of the mechanism's name."""

    def __missing__(self, written: bytes) -> tuple[_Place, Sanitized]:
        cells = json.loads(written + b'"]')
        root, version, position, index, lower, upper, size, micro, mechanism = cells
        value = _sanitized(root, version, index, lower, upper, size, micro, mechanism)
        if len(self) >= _MAX_VALUES:
            self.clear()
        self[written] = found = ((root, version, position), value)
        return found


_MAX_VALUES: Final = 1 << 14  # of a root there are as many as its grid has points
_VALUES: Final = _Values()


def _epsilon_of(drawn: _Drawn) -> Fraction:
    return drawn[1].epsilon


def _records_of(store: SqlStore, principals: Sequence[Principal]) -> list[tuple[Record, ...]]:
    """`records` of many people."""
    found: list[tuple[Record, ...]] = []
    for some in _chunks(principals):
        with store._database.reading() as db:
            people = _people(store, db, some)
            records = _records(db, people)
            found += [
                tuple(_draw_at(records[each.key], *where) for where in each.summary.kept())
                for each in people
            ]
    return found


def _commit_each(
    store: SqlStore, commits: Sequence[Commit]
) -> list[tuple[Record, ...] | BudgetError | ErasedError]:
    """`commit` for many people, who are refused one by one."""
    done: list[tuple[Record, ...] | BudgetError | ErasedError] = []
    for some in _chunks(commits):
        advanced: list[PersonRow] = []
        with store._database.exclusive() as db:
            people = _people(store, db, [commit.principal for commit in some])
            runs = tables.runs(db, store._secrets.integrity)
            drawn = _table_draws(store, db, people, runs)
            counts = _counts(store, db, people)
            statements: list[Statement] = []
            newcomers = 0
            for commit, person in zip(some, people, strict=True):
                try:
                    added = _new_draws(commit, person, drawn(person, commit.principal))
                except (BudgetError, ErasedError) as refusal:
                    done.append(refusal)
                    continue
                done.append(tuple(commit.draws) if len(added) == len(commit.draws) else ())
                if added:
                    newcomers += not person.there
                    events = [draw.event for draw in added]
                    statements += rows.add_draws(person, added)
                    statements += store._row_statements(person, counts[person.key], events)
                    advanced.append(person)
            if newcomers:
                statements.insert(0, rows.count_person(db, store._secrets.integrity, newcomers))
            if statements:
                db.batch(statements)
        for person in advanced:
            store._advance(person.key, person.epoch, person.revision)
    return done


def _new_draws(commit: Commit, person: PersonRow, drawn: TableDraws) -> list[Record]:
    """The draws that are new; all of them, or the person is looked at again by its own."""
    if person.epoch != commit.epoch:
        raise erased_meanwhile()
    trial = person.summary.copy()  # of whom is refused, nothing may be counted
    new = trial.take(commit.draws, drawn)
    if len(new) < len(commit.draws):
        return []
    person.summary = trial
    person.name = person.name or commit.principal
    return new


def _people(store: SqlStore, db: Transaction, principals: Sequence[Principal]) -> list[PersonRow]:
    """Everybody's row, of somebody unknown a new one."""
    keys = [store._key(principal) for principal in principals]
    found = {row[0]: row for row in _rows_of(db, _PEOPLE_OF, keys)}
    return [
        store._person(key, principal, [found[key]] if key in found else [])
        for key, principal in zip(keys, principals, strict=True)
    ]


def _records(
    db: Transaction, people: Sequence[PersonRow]
) -> dict[str, dict[tuple[str, int, int], Record]]:
    """All draws of people, by root, version and position.

    A row opens only in the place that it was written to, which its root, version and position
    have made, so these are what it says of itself.
    """
    by_key = {person.key: person for person in people}
    records: dict[str, dict[tuple[str, int, int], Record]] = {key: {} for key in by_key}
    there = [person.key for person in people if person.summary.draws]
    for key, place, content in _rows_of(db, _DRAWS_OF, there):
        person = by_key[key]
        text = person.cipher.decrypt("draws", bytes(place), content=content)
        record = _unpacked_draw(rows.json_of(text), person.name)
        sanitized = record.sanitized
        records[key][sanitized.root, sanitized.version, record.position] = record
    return records


def _unpacked_draw(cells: list[Any], name: str) -> Record:
    """A draw from its cells, as `rows` has it; what many draws have in common is made once."""
    root, version, position, index, lower, upper, size, micro, mechanism, mark, event = cells
    return Record(
        sanitized=_sanitized(root, version, index, lower, upper, size, micro, mechanism),
        position=position,
        fingerprint=bytes.fromhex(mark),
        event=_charge(event, name),
    )


@functools.lru_cache(maxsize=1 << 14)  # of a root there are as many as its grid has points
def _sanitized(
    root: str,
    version: int,
    index: int,
    lower: str,
    upper: str,
    size: int,
    micro: int,
    mechanism: MechanismName,
) -> Sanitized:
    return Sanitized(
        root=RootName(root),
        index=index,
        domain=Domain(lower=float.fromhex(lower), upper=float.fromhex(upper), size=size),
        epsilon=Fraction(micro, MICRO),
        mechanism=mechanism,
        version=version,
    )


def _charge(text: str, name: str) -> Charge:
    """An event from its text. Most differ in the person's name alone, so it is read without."""
    before, written, after = text.partition(f'"principal":"{name}"')
    if not written or not _PLAIN(name):
        return rows.charge(text)
    return _charge_of(before, after)(principal=name)


# An event's text differs by root, version, level and mechanism: some dozens for each template.
@functools.lru_cache(maxsize=4096)
def _charge_of(before: str, after: str) -> Callable[..., Charge]:
    nobody = rows.charge(f'{before}"principal":""{after}')
    cells = {each.name: getattr(nobody, each.name) for each in fields(nobody)}
    del cells["principal"]
    return functools.partial(type(nobody), **cells)


# A name that JSON writes as it is. The first place where it stands as the principal is the one:
# a text inside a text would have its quotes escaped.
_PLAIN: Final = re.compile(r"[ !#-\[\]-~]+").fullmatch


class _Known(NamedTuple):
    """What an anchor asks of a person."""

    key: str
    epoch: int
    revision: int
    name: str


def _known_tags(store: SqlStore) -> dict[int, bool]:
    """`tags` of a store: everyone's row is opened and checked, and no more made of it."""
    prf, secrets = store._table_prf(), store._secrets
    with store._database.reading(whole=True) as db:
        found, counts = db.batch([rows.people_query(), rows.counts_query(rows.NOBODY)])
        if rows.read_counts(secrets.integrity, counts).get("people") != len(found):
            raise StoreDamagedError("profiles are missing or added; restore the backup")
        opened = secrets.people.open_rows(found)
        names = [rows.name_of(name) for *_, name in opened]
        if store._anchored is not None:
            told = zip(found, names, strict=True)
            store._check_everyone([_Known(row[0], row[1], row[2], name) for row, name in told])
    known = {
        tag: True
        for summary, *_ in opened
        if not summary.endswith(_NO_TAGS)
        for tag in json.loads(summary)["tags"]
    }
    named = [(name, row[1] > 0) for row, name in zip(found, names, strict=True) if name]
    tags = tables.tags_of(prf, [name for name, _ in named])
    return known | {tag: erased for tag, (_, erased) in zip(tags, named, strict=True)}


_NO_TAGS: Final = b'"tags":[]}'  # how a summary ends, unless there was an erasure


def _draw_at(
    records: Mapping[tuple[str, int, int], T], root: str, version: int, position: int
) -> T:
    found = records.get((root, version, position))
    if found is None:
        raise StoreDamagedError("the ledger and the draws do not match; restore the store's backup")
    return found


def _counts(
    store: SqlStore, db: Transaction, people: Sequence[PersonRow]
) -> dict[str, dict[str, int]]:
    """Everybody's counts of log entries and tokens."""
    found: dict[str, list[Row]] = {person.key: [] for person in people}
    for row in _rows_of(db, _COUNTS_OF, [person.key for person in people if person.there]):
        found[row[0]].append(row)
    integrity = store._secrets.integrity
    return {key: rows.read_counts(integrity, each) for key, each in found.items()}


def _table_draws(
    store: SqlStore, db: Transaction, people: Sequence[PersonRow], runs: Sequence[TableRun]
) -> Callable[[PersonRow, Principal], TableDraws]:
    """What tables drew for each of these people; a partition is read once for all of them."""
    store._check(TABLES, 0, len(runs))
    if not any(run.drawn for run in runs):
        return lambda _person, _principal: {}
    prf = store._table_prf()
    read = functools.cache(functools.partial(tables.partition, db, store._secrets.integrity))
    names = [person.name for person in people if person.name]
    tags = dict(zip(names, tables.tags_of(prf, names), strict=True))

    def drawn(person: PersonRow, principal: Principal) -> TableDraws:
        tag = tags.get(person.name)
        places = () if tag is None else tables.places_of(runs, tag)
        if tag is not None and not any(
            len(tables.of_person(read(place), roots, tag)) for place, roots in places
        ):
            return {}
        return tables.drawn_for(runs, read, prf, person.name or principal)

    return drawn


def _rows_of(db: Transaction, query: str, keys: Sequence[str]) -> list[Row]:
    unique = list(dict.fromkeys(keys))
    if not unique:
        return []
    return db.execute(f"{query}({', '.join('?' * len(unique))})", *unique)


def _chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), _CHUNK):
        yield items[start : start + _CHUNK]
