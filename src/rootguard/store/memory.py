"""A store that lasts as long as the process: for tests, demonstrations and single runs."""

import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from rootguard.accounting import Ledger, TableDraws
from rootguard.errors import BudgetError, ErasedError, StoreError
from rootguard.events import Charge, Event, RootReturned
from rootguard.identifiers import IssuedToken, IssuedTokens, MemoryTokens
from rootguard.store.audit import problems
from rootguard.store.base import (
    LOG_SIZE,
    Commit,
    Disclosure,
    Disclosures,
    Epoch,
    FinestValues,
    Fingerprints,
    LogEntry,
    Merge,
    Recipient,
    Record,
    RunReport,
    Snapshot,
    TableRun,
    TableView,
    UnnumberedEntry,
    entry_now,
    table_number,
)
from rootguard.store.summary import PersonSummary, erased_meanwhile, level_of
from rootguard.store.tables import PARTITIONS, drawn_for, places_of, table_prf, without_person
from rootguard.values import Principal, RootName, RootQuantity, normalised


class _Person:
    """What is kept of one person; with a tag, of one who was erased."""

    def __init__(self, name: Principal) -> None:
        self.name = name
        self.epoch = 0
        self.tag = 0
        self.summary = PersonSummary()
        self.records: dict[tuple[str, int, int], Record] = {}
        self.events: list[Charge] = []
        self.tokens = MemoryTokens()
        self.log: deque[UnnumberedEntry] = deque(maxlen=LOG_SIZE)
        self.logged = 0

    def levels(self, root: str, version: int) -> tuple[Record, ...]:
        places = range(self.summary.count(root, version))
        return tuple(self.records[root, version, position] for position in places)


class MemoryStore:
    """Keeps everything in dictionaries under a lock."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # re-entrant: `commit` notes, and `erase` forgets, under it
        self._people: dict[str, _Person] = {}
        self._quantities: dict[RootName, RootQuantity] = {}
        self._tables: list[TableRun] = []
        self._partitions: dict[int, bytes] = {}
        # 256 bits, as the keys of a store on disk have: one key for each use, none from another.
        self._fingerprint_key = os.urandom(32)
        self._identifier_key = os.urandom(32)

    @property
    def vault_id(self) -> None:
        return None

    @property
    def fingerprint_key(self) -> bytes:
        return self._fingerprint_key

    @property
    def identifier_key(self) -> bytes:
        return self._identifier_key

    @property
    def exact_ids(self) -> bool:
        return False

    def quantities(self) -> dict[RootName, RootQuantity]:
        with self._lock:
            return dict(self._quantities)

    def define(self, quantities: Sequence[RootQuantity]) -> dict[RootName, RootQuantity]:
        with self._lock:
            for quantity in quantities:
                self._quantities.setdefault(quantity.name, quantity)
            return dict(self._quantities)

    def snapshot(self, principal: Principal) -> Snapshot:
        """All that is kept of a person's current values, as of one moment."""
        with self._lock:
            person = self._find(principal)
            summary = person.summary
            kept = {r: person.levels(r, each.current) for r, each in summary.roots.items()}
            return Snapshot(
                name=person.name,
                epoch=person.epoch,
                quantities=dict(self._quantities),
                levels={RootName(root): levels for root, levels in kept.items() if levels},
                newest={root: each.newest for root, each in summary.roots.items()},
                ledger=self._ledger(person),
                caps=dict(summary.caps),
                given=dict(summary.given),
                before=dict(summary.before),
                runs=tuple(self._tables),
            )

    def epoch(self, principal: Principal) -> int:
        """How often the profile was erased."""
        with self._lock:
            return self._find(principal).epoch

    def levels(self, principal: Principal, root: RootName) -> tuple[Record, ...]:
        with self._lock:
            person = self._find(principal)
            return person.levels(root, person.summary.current(root))

    def records(self, principal: Principal) -> tuple[Record, ...]:
        """Every draw that is kept of a person."""
        with self._lock:
            return tuple(self._find(principal).records.values())

    def find(self, principal: Principal, wanted: Fingerprints) -> dict[RootName, Record]:
        """Of each root the first draw of a version that has one of its fingerprints, if any has."""
        found: dict[RootName, Record] = {}
        with self._lock:
            for (_, _, position), record in self._find(principal).records.items():
                root = record.sanitized.root
                if not position and record.fingerprint in wanted.get(root, ()):
                    found.setdefault(root, record)
        return found

    def version(self, principal: Principal, root: RootName) -> int:
        with self._lock:
            return self._find(principal).summary.newest(root)

    def return_to(
        self, principal: Principal, versions: Mapping[RootName, int], *, epoch: int | None = None
    ) -> dict[RootName, tuple[Record, ...]]:
        """Make earlier versions of roots the current ones; the levels of those that are kept."""
        with self._lock:
            person = self._of_epoch(principal, epoch)
            found = {root: person.levels(root, version) for root, version in versions.items()}
            found = {root: levels for root, levels in found.items() if levels}
            for root in found:
                if person.summary.current(root) != versions[root]:
                    event = RootReturned(principal=principal, root=root, version=versions[root])
                    person.summary.record(event)
                    person.events.append(event)
                    self.note(principal, event)
            return found

    def commit(
        self, principal: Principal, draws: Sequence[Record], *, epoch: int | None = None
    ) -> tuple[Record, ...]:
        """Keep draws and their events in one transaction, first writer wins."""
        if not draws:
            return ()
        with self._lock:
            person = self._of_epoch(principal, epoch)
            summary = person.summary.copy()  # nothing is changed if anything is refused
            new = summary.take(draws, self._drawn_in_tables(person))
            person.summary = summary
            self._keep(person)  # not before: whoever was refused is not known afterwards
            for draw in new:
                person.records[draw.place] = draw
                person.events.append(draw.event)
                self.note(principal, draw.event)
            return tuple(person.records[draw.place] for draw in draws)

    def events(self, principal: Principal) -> tuple[Charge, ...]:
        with self._lock:
            return tuple(self._find(principal).events)

    def ledger(self, principal: Principal) -> Ledger:
        with self._lock:
            return self._ledger(self._find(principal))

    def _ledger(self, person: _Person) -> Ledger:
        return person.summary.ledger.with_tables(self._drawn_in_tables(person))

    def _drawn_in_tables(self, person: _Person) -> TableDraws:
        if not self._tables:
            return {}
        prf = table_prf(self._fingerprint_key)
        return drawn_for(self._tables, self.fingerprints, prf, person.name)

    def caps(self, principal: Principal) -> dict[str, int]:
        with self._lock:
            return dict(self._find(principal).summary.caps)

    def set_cap(
        self, principal: Principal, root: str, micro: int | None, *, epoch: int | None = None
    ) -> None:
        self.set_caps(principal, {root: micro}, epoch=epoch)

    def set_caps(
        self, principal: Principal, caps: Mapping[str, int | None], *, epoch: int | None = None
    ) -> None:
        with self._lock:
            person = self._of_epoch(principal, epoch)
            self._people.setdefault(normalised(principal), person)  # an erased one stays so
            person.summary.cap(caps)

    def disclose(
        self, principal: Principal, new: Disclosures, limit: int | None = None, epoch: Epoch = None
    ) -> None:
        with self._lock:
            person = self._of_epoch(principal, epoch)
            levels: dict[Disclosure, int] = {}
            for each in new:
                if each in person.summary.given:
                    continue
                record = person.records.get((each.root, each.version, each.position))
                if record is None:
                    raise erased_meanwhile()
                levels[each] = level_of(record)
            if levels:
                summary = person.summary.copy()
                summary.give(levels, limit)
                person.summary = summary

    def held(self, principal: Principal, service: str) -> dict[tuple[str, int], int]:
        with self._lock:
            return self._find(principal).summary.held(service)

    def disclosures(self, principal: Principal) -> tuple[Disclosure, ...]:
        with self._lock:
            return tuple(self._find(principal).summary.given)

    def note(
        self, principal: Principal, event: Event, to: Recipient | None = None, epoch: Epoch = None
    ) -> None:
        """Write an event into the audit log."""
        with self._lock:
            person = self._find(principal)
            if epoch in (None, person.epoch):
                self._people.setdefault(normalised(principal), person)  # an erased one stays so
                person.logged += 1
                person.log.append(entry_now(event, to))

    def log(
        self, principal: Principal, after: int = 0, before: int | None = None, limit: int = LOG_SIZE
    ) -> tuple[LogEntry, ...]:
        with self._lock:
            person = self._find(principal)
            kept = tuple(person.log)  # a copy, so that the rest needs no lock
            first = person.logged - len(kept) + 1
        numbered = enumerate(kept, start=first)
        if before is None:
            found = [(number, each) for number, each in numbered if number > after][:limit]
        else:
            found = [(number, each) for number, each in numbered if number < before][-limit:]
        return tuple(
            LogEntry(
                sequence=number,
                micros=micros,
                service=recipient.service,
                route=recipient.route,
                event=event,
            )
            for number, (micros, recipient, event) in found
        )

    def log_size(self, principal: Principal) -> tuple[int, int]:
        with self._lock:
            person = self._find(principal)
            return len(person.log), person.logged

    def tokens(self, principal: Principal, *, epoch: int | None = None) -> IssuedTokens:
        self._find(principal)  # which refuses a name that nobody can see
        return _PersonTokens(self, principal, epoch)

    def tables(self) -> tuple[TableRun, ...]:
        with self._lock:
            return tuple(self._tables)

    def fingerprints(self, place: int) -> bytes:
        """The fingerprints of people in tables, one partition of them."""
        with self._lock:
            return self._partitions.get(place, b"")

    def keep_table(self, table: str, merge: Merge | None, report: RunReport) -> None:
        """Keep a run: each partition through `merge`, if given, then what `report` says."""
        with self._lock:
            first = table_number(self._tables, table) * PARTITIONS
            view = TableView(runs=tuple(self._tables), fingerprints=self.fingerprints)
            merged = {
                first + number: new
                for number in range(PARTITIONS if merge else 0)
                if merge
                and (new := merge(number, self.fingerprints(first + number), view)) is not None
            }
            # Both last: `merge` and `report` may refuse, and then nothing was changed.
            self._tables += report()
            self._partitions |= merged

    def principals(self) -> tuple[Principal, ...]:
        with self._lock:
            return tuple(sorted(each.name for each in self._people.values() if not each.tag))

    def tags(self) -> dict[int, bool]:
        """Everyone this store ever knew, as tables know people; and whether they were erased."""
        with self._lock:
            return {
                each.tag or self._tag(each.name): each.epoch > 0 for each in self._people.values()
            }

    def population(self) -> int:
        """How many people this store ever knew."""
        with self._lock:
            return len(self._people)

    def snapshots(self, principals: Sequence[Principal]) -> list[Snapshot]:
        """`snapshot` of many people."""
        return [self.snapshot(principal) for principal in principals]

    def finest(self, principals: Sequence[Principal]) -> list[FinestValues]:
        """The finest level of each root's current version, of many people."""
        found: list[FinestValues] = []
        for person in self.snapshots(principals):
            draws = {
                root: max(levels, key=lambda record: record.sanitized.epsilon)
                for root, levels in person.levels.items()
            }
            values = {root: (each.fingerprint, each.sanitized) for root, each in draws.items()}
            found.append((person.name, values))
        return found

    def records_of(self, principals: Sequence[Principal]) -> list[tuple[Record, ...]]:
        """`records` of many people."""
        return [self.records(principal) for principal in principals]

    def commit_each(
        self, commits: Sequence[Commit]
    ) -> list[tuple[Record, ...] | BudgetError | ErasedError]:
        """`commit` for many people, each of whom comes once."""
        done: list[tuple[Record, ...] | BudgetError | ErasedError] = []
        for each in commits:
            try:
                kept = self.commit(each.principal, each.draws, epoch=each.epoch)
                done.append(kept if list(kept) == list(each.draws) else ())
            except (BudgetError, ErasedError) as refusal:
                done.append(refusal)
        return done

    def erase(self, principal: Principal, *, forget_unseen: bool = False) -> None:
        """Delete a profile: its name, values, fingerprints, ledger, tokens and audit log."""
        with self._lock:
            person = self._find(principal)
            drawn = self._drawn_in_tables(person)  # before `_forget`, after which it is nothing
            events = person.summary.erasure(drawn, forget_unseen=forget_unseen)
            erased = _Person(person.name)
            erased.epoch, erased.tag = person.epoch + 1, self._tag(person.name)
            erased.events, erased.logged = events, person.logged
            erased.summary = PersonSummary.of(events)
            erased.summary.caps = person.summary.caps
            self._people[normalised(principal)] = erased
            self.note(principal, events[-1])  # in the new log: the old one is gone
            self._forget(person.name)

    def _forget(self, principal: Principal) -> None:
        """Take a person's entries out of every table."""
        tag = self._tag(principal)
        for place, roots in places_of(self._tables, tag):
            left = without_person(self.fingerprints(place), roots, tag)
            if left is not None:
                self._partitions[place] = left

    def _tag(self, principal: Principal) -> int:
        prf = table_prf(self._fingerprint_key)
        return int(prf.tags(prf.person(principal))[0])

    def verify(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(
                problem
                for person in self._people.values()
                for problem in problems(
                    person.name, list(person.records.values()), person.events, person.summary
                )
            )

    def close(self) -> None:
        """Nothing to let go of."""

    def _find(self, principal: Principal) -> _Person:
        """What is kept of a person, or of nobody."""
        name = normalised(principal)
        if not name:
            raise StoreError("a person needs a name that can be seen; give another one")
        # Somebody unknown is not entered here: a question must not make a person known.
        return self._people.get(name) or _Person(principal)

    def _of_epoch(self, principal: Principal, epoch: int | None) -> _Person:
        """What is kept of a person who is of this epoch still."""
        person = self._find(principal)
        if epoch is not None and person.epoch != epoch:
            raise erased_meanwhile()
        return person

    def _keep(self, person: _Person) -> None:
        """Know a person by name: somebody new, or who was erased and comes back."""
        person.tag = 0
        self._people[normalised(person.name)] = person


class _PersonTokens:
    """One person's issued tokens, looked up at each use: an erasure takes them away."""

    def __init__(self, store: MemoryStore, principal: Principal, epoch: int | None) -> None:
        self._store = store
        self._principal = principal
        self._epoch = epoch

    def add(self, entry: IssuedToken) -> IssuedToken:
        """Keep an entry unless its token is taken; give back the one that now stands."""
        with self._store._lock:
            person = self._store._of_epoch(self._principal, self._epoch)
            self._store._keep(person)
            return person.tokens.add(entry)

    def find(self, token: str) -> IssuedToken | None:
        """The entry of a token, if there is one."""
        return self._kept().find(token)

    def __iter__(self) -> Iterator[IssuedToken]:
        return iter(self._kept())

    def since(self, count: int) -> Iterator[IssuedToken]:
        """The entries from the one with this number on, counted from 1, in order of issue."""
        return self._kept().since(count)

    def __len__(self) -> int:
        return len(self._kept())

    def _kept(self) -> MemoryTokens:
        with self._store._lock:
            return self._store._find(self._principal).tokens

    def __repr__(self) -> str:
        return "<issued tokens in memory>"
