"""A store that lasts as long as the process: for tests, demonstrations and single runs."""

import os
import threading
from collections import defaultdict, deque
from collections.abc import Sequence

from rootguard.accounting import Ledger
from rootguard.errors import StoreError
from rootguard.events import Charge, Event, ProfileErased, RootReturned, cost
from rootguard.identifiers import IssuedTokens, MemoryTokens
from rootguard.store.audit import problems
from rootguard.store.base import (
    LOG_SIZE,
    Disclosure,
    LogEntry,
    Merge,
    Recipient,
    Record,
    RunReport,
    TableRun,
    TableView,
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
    table_number,
)
from rootguard.store.tables import PARTITIONS, drawn_for, places_of, table_prf, without_person
from rootguard.values import Principal, RootName, RootQuantity


class MemoryStore:
    """Keeps everything in dictionaries under a lock."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # re-entrant: `commit` notes, and `erase` forgets, under it
        self._records: dict[tuple[Principal, str, int, int], Record] = {}
        self._events: defaultdict[Principal, list[Charge]] = defaultdict(list)
        self._caps: defaultdict[Principal, dict[str, int]] = defaultdict(dict)
        self._disclosures: defaultdict[Principal, dict[Disclosure, None]] = defaultdict(dict)
        self._tokens: defaultdict[Principal, MemoryTokens] = defaultdict(MemoryTokens)
        self._log: defaultdict[Principal, deque[UnnumberedEntry]] = defaultdict(
            lambda: deque(maxlen=LOG_SIZE)
        )
        self._logged: defaultdict[Principal, int] = defaultdict(int)
        self._quantities: dict[RootName, RootQuantity] = {}
        self._tables: list[TableRun] = []
        self._partitions: dict[int, bytes] = {}
        self._fingerprint_key = os.urandom(32)
        self._identifier_key = os.urandom(32)

    @property
    def fingerprint_key(self) -> bytes:
        return self._fingerprint_key

    @property
    def identifier_key(self) -> bytes:
        return self._identifier_key

    def quantities(self) -> dict[RootName, RootQuantity]:
        with self._lock:
            return dict(self._quantities)

    def define(self, quantities: Sequence[RootQuantity]) -> None:
        with self._lock:
            for quantity in quantities:
                self._quantities.setdefault(quantity.name, quantity)

    def levels(self, principal: Principal, root: RootName) -> tuple[Record, ...]:
        with self._lock:
            return self._levels(principal, root, current_version(self.events(principal), root))

    def _levels(self, principal: Principal, root: RootName, version: int) -> tuple[Record, ...]:
        found: list[Record] = []
        while (key := (principal, root, version, len(found))) in self._records:
            found.append(self._records[key])
        return tuple(found)

    def history(self, principal: Principal, root: RootName) -> tuple[Record, ...]:
        with self._lock:
            versions = range(1, self.version(principal, root) + 1)
            keys = ((principal, root, version, 0) for version in versions)
            return tuple(self._records[key] for key in keys if key in self._records)

    def version(self, principal: Principal, root: RootName) -> int:
        return newest_version(self.events(principal), root)

    def return_to(self, principal: Principal, root: RootName, version: int) -> tuple[Record, ...]:
        with self._lock:
            levels = self._levels(principal, root, version)
            if levels and current_version(self.events(principal), root) != version:
                event = RootReturned(principal=principal, root=root, version=version)
                self._events[principal].append(event)
                self.note(principal, event)
            return levels

    def commit(self, principal: Principal, draws: Sequence[Record]) -> tuple[Record, ...]:
        """Keep draws and their events in one transaction, first writer wins."""
        keys = [
            (principal, draw.sanitized.root, draw.sanitized.version, draw.position)
            for draw in draws
        ]
        with self._lock:  # nothing is changed before everything is checked
            new: dict[tuple[Principal, str, int, int], Record] = {}
            for key, draw in zip(keys, draws, strict=True):
                if key not in self._records:
                    new.setdefault(key, draw)
            charged = draws_charged(self.events(principal))
            price: defaultdict[str, int] = defaultdict(int)
            for draw in new.values():
                where = (draw.sanitized.root, draw.sanitized.version)
                if draw.position != charged[where]:
                    raise StoreError("the profile was erased meanwhile; nothing was released")
                charged[where] += 1
                price[draw.sanitized.root] += cost(draw.event)
            check_caps(self.ledger(principal), price, self.caps(principal))
            self._records.update(new)
            self._events[principal] += [draw.event for draw in new.values()]
            for draw in new.values():
                self.note(principal, draw.event)
            return tuple(self._records[key] for key in keys)

    def events(self, principal: Principal) -> tuple[Charge, ...]:
        with self._lock:
            return tuple(self._events.get(principal, ()))

    def ledger(self, principal: Principal) -> Ledger:
        with self._lock:
            return Ledger(self.events(principal), self._drawn_in_tables(principal))

    def _drawn_in_tables(self, principal: Principal) -> dict[RootName, list[tuple[int, int]]]:
        if not self._tables:
            return {}
        prf = table_prf(self._fingerprint_key)
        return drawn_for(self._tables, self.fingerprints, prf, principal)

    def caps(self, principal: Principal) -> dict[str, int]:
        with self._lock:
            return dict(self._caps.get(principal, {}))

    def set_cap(self, principal: Principal, root: str, micro: int | None) -> None:
        with self._lock:
            if micro is None:
                self._caps[principal].pop(root, None)
            else:
                self._caps[principal][root] = micro

    def disclose(
        self, principal: Principal, disclosures: Sequence[Disclosure], limit: int | None = None
    ) -> None:
        with self._lock:
            there = self.disclosures(principal)
            new = [each for each in disclosures if each not in self._disclosures[principal]]
            if new:
                events, records = self.events(principal), self._of(principal)
                check_disclosures(limit, new, events, there, records)
            self._disclosures[principal].update(dict.fromkeys(new))

    def held(self, principal: Principal, service: str) -> dict[tuple[str, int], int]:
        with self._lock:
            events, given = self.events(principal), self.disclosures(principal)
            return held_levels(service, events, given, self._of(principal))

    def _of(self, principal: Principal) -> list[Record]:
        return [record for key, record in self._records.items() if key[0] == principal]

    def disclosures(self, principal: Principal) -> tuple[Disclosure, ...]:
        with self._lock:
            return tuple(self._disclosures.get(principal, {}))

    def note(self, principal: Principal, event: Event, recipient: Recipient | None = None) -> None:
        """Write an event into the audit log."""
        with self._lock:
            self._logged[principal] += 1
            self._log[principal].append(entry_now(event, recipient))

    def log(
        self,
        principal: Principal,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = LOG_SIZE,
    ) -> tuple[LogEntry, ...]:
        with self._lock:
            kept = tuple(self._log.get(principal, ()))
            first = self._logged.get(principal, 0) - len(kept) + 1
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
            return len(self._log.get(principal, ())), self._logged.get(principal, 0)

    def tokens(self, principal: Principal) -> IssuedTokens:
        with self._lock:
            return self._tokens[principal]

    def tables(self) -> tuple[TableRun, ...]:
        with self._lock:
            return tuple(self._tables)

    def fingerprints(self, place: int) -> bytes:
        """The fingerprints of people in tables, one partition of them."""
        with self._lock:
            return self._partitions.get(place, b"")

    def keep_table(self, table: str, merge: Merge, report: RunReport) -> None:
        """Keep a run: each partition through `merge`, then what `report` says."""
        with self._lock:
            first = table_number(self._tables, table) * PARTITIONS
            view = TableView(runs=tuple(self._tables), fingerprints=self.fingerprints)
            merged = {
                first + number: new
                for number in range(PARTITIONS)
                if (new := merge(number, self.fingerprints(first + number), view)) is not None
            }
            self._tables += report()
            self._partitions |= merged

    def principals(self) -> tuple[Principal, ...]:
        with self._lock:
            return tuple(sorted({*self._events, *self._caps, *self._tokens}))

    def erase(self, principal: Principal) -> None:
        """Delete a profile's values, fingerprints, tokens, disclosures and audit log."""
        with self._lock:
            events, given = self.events(principal), self.disclosures(principal)
            charges: list[Charge] = [
                *table_charges(principal, self._drawn_in_tables(principal)),
                *service_charges(principal, events, given, self._of(principal)),
            ]
            self._records = {k: record for k, record in self._records.items() if k[0] != principal}
            self._disclosures.pop(principal, None)
            self._tokens.pop(principal, None)
            self._log.pop(principal, None)
            erased = ProfileErased(principal=principal)
            self._events[principal] += [*charges, erased]
            self.note(principal, erased)
            self._forget(principal)

    def _forget(self, principal: Principal) -> None:
        """Take a person's entries out of every table."""
        prf = table_prf(self._fingerprint_key)
        tag = int(prf.tags(prf.person(principal))[0])
        for place, roots in places_of(self._tables, tag):
            left = without_person(self.fingerprints(place), roots, tag)
            if left is not None:
                self._partitions[place] = left

    def verify(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(
                problem
                for principal in self.principals()
                for problem in problems(
                    principal,
                    self._of(principal),
                    self.events(principal),
                    self.disclosures(principal),
                )
            )

    def close(self) -> None:
        """Nothing to let go of."""
