"""What a store is told of a table: who was in it with which values, and what that cost.

A table of millions leaves no draws: under the store's secret the draw of a row can be made again at
any time. What is kept is a line for each run and root, at the price that each new value cost its
person, and keyed fingerprints by which a value is known again.

A `Register` gathers the fingerprints in a file without a name, in pieces that are in the order of
the store's rows, so that a table of any length takes little memory, and puts them into the store at
the end, in one transaction. A run that is made again finds all its fingerprints there: nothing is
new, and nothing is charged twice.
"""

import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import NoReturn, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from rootguard.allocation import Plan
from rootguard.errors import BudgetError, PlanError, StoreError
from rootguard.mechanisms.exact import Words
from rootguard.store import Store, TableRun, table_number, tables
from rootguard.store.base import LIFETIME, TableView
from rootguard.store.tables import Entries
from rootguard.values import MICRO, RootName, to_micro

PIECE = 1 << 17
"""Entries that are put in order together: few enough for the processor's cache."""


class EntryFile:
    """Entries of any number of rows, by partition, in a file without a name."""

    def __init__(self, roots: int) -> None:
        self._type = tables.entry_type(roots)
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this does
        weakref.finalize(self, self._file.close)
        self._bounds: list[tuple[int, NDArray[np.int64]]] = []
        self._held: list[Entries] = []
        self._rows = self._length = 0

    def add(self, entries: Entries) -> None:
        """Take in entries, in any order."""
        self._held.append(entries)
        self._rows += len(entries)
        if self._rows >= PIECE:
            self._write()

    def _write(self) -> None:
        whole = np.concatenate([np.empty(0, self._type), *self._held])
        self._held, self._rows = [], 0
        whole, bounds = tables.by_partition(whole)
        self._file.seek(self._length * self._type.itemsize)
        self._file.write(whole.tobytes())
        self._bounds.append((self._length, bounds))
        self._length += len(whole)

    def partition(self, number: int) -> Entries:
        """The entries of a partition, in the order in which they came."""
        if self._rows:
            self._write()
        size = self._type.itemsize
        pieces = [np.empty(0, self._type)]
        for first, bounds in self._bounds:
            begin, end = int(bounds[number]), int(bounds[number + 1])
            if begin < end:
                self._file.seek((first + begin) * size)
                pieces.append(np.frombuffer(self._file.read((end - begin) * size), self._type))
        return np.concatenate(pieces)

    def __repr__(self) -> str:
        return f"<{self._length + self._rows} entries>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("entries cannot be pickled or copied")


class Register:
    """Gathers the entries of a table, says what is wrong with them, and keeps them in a store."""

    def __init__(self, plan: Plan, version: int, store: Store | None) -> None:
        self._plan, self._version, self._store = plan, version, store
        self._named = frozenset(() if store is None else store.principals())
        self._drawn, self._others = EntryFile(len(plan.shares)), EntryFile(len(plan.shares))
        self.rows = 0
        """Rows that are released, those of people who are served by name included."""
        self.over: dict[RootName, Words] = {}
        """Of each root the people who would pass the lifetime cap, once that was found out."""

    @property
    def roots(self) -> list[RootName]:
        """The roots in the order of their columns in an entry."""
        return sorted(share.root for share in self._plan.shares)

    def add(self, drawn: Entries, others: Entries, rows: int) -> None:
        """Take in the entries of some rows: of those that are drawn here, and of the others.

        The others are left out of the table or served by name. They are looked at for conflicts.
        """
        self.rows += rows
        self._drawn.add(drawn)
        if len(others):
            self._others.add(others)

    def conflicts(self) -> dict[RootName, Words]:
        """Of each root the people who have different values of it in this table."""
        found: list[list[Words]] = [[] for _ in self.roots]
        for number in range(tables.PARTITIONS):
            files = (self._drawn, self._others)
            entries = np.concatenate([file.partition(number) for file in files])
            for people, each in zip(found, tables.conflicts(entries), strict=True):
                people.append(each)
        whole = {
            root: np.concatenate(people) for root, people in zip(self.roots, found, strict=True)
        }
        return {root: people for root, people in whole.items() if len(people)}

    def check_lifetime(self) -> None:
        """Refuse the run if it brings anybody over the lifetime cap, as far as is known now."""
        if self._store is None:
            return
        view = TableView(runs=self._store.tables(), fingerprints=self._store.fingerprints)
        place = table_number(view.runs, self._table) * tables.PARTITIONS
        for number in range(tables.PARTITIONS):
            new = self._drawn.partition(number)
            if len(new):
                entries = tables.merge(view.fingerprints(place + number), new)
                self._find_over(view, number, new, tables.count(entries).most)
        self._refuse_over()

    def keep(self) -> None:
        """Put the run into the store, before its table is shown; without a store, do nothing."""
        if self._store is None:
            return
        drawn = np.zeros(len(self.roots), dtype=np.int64)
        most = np.zeros(len(self.roots), dtype=np.int64)
        self.over = {}

        def merge(number: int, stored: bytes, view: TableView) -> bytes | None:
            new = self._drawn.partition(number)
            if not len(new):
                return None
            entries = tables.merge(stored, new)
            counted = tables.count(entries)
            np.maximum(most, counted.most, out=most)
            before = len(stored) // entries.itemsize
            if len(entries) == before:
                return None
            drawn[:] += counted.values
            if before:
                drawn[:] -= tables.count(tables.read(stored, len(self.roots))).values
            self._find_over(view, number, new, counted.most)
            return entries.tobytes()

        def told() -> list[TableRun]:
            self._refuse_over()
            return [
                replace(run, rows=self.rows, drawn=int(drawn[place]), most=int(most[place]))
                for place, run in enumerate(self._levels())
            ]

        self._store.keep_table(self._table, merge, told)
        self._check_newcomers(self._store)

    @property
    def _table(self) -> str:
        return table_name(self._plan, self._version)

    def _levels(self) -> list[TableRun]:
        """At which level this run draws each root."""
        return [
            TableRun(
                table=self._table,
                root=root,
                version=self._version,
                micro_epsilon=to_micro(self._plan[root].epsilon),
                mechanism=self._plan.mechanism,
                domain=self._plan[root].domain,
                rows=0,
                drawn=0,
                most=0,
            )
            for root in self.roots
        ]

    def _find_over(
        self, view: TableView, number: int, new: Entries, most: NDArray[np.int64]
    ) -> None:
        found = tables.over_lifetime(view, number, new, self._levels(), most)
        for root, people in zip(self.roots, found, strict=True):
            if len(people):
                self.over[root] = np.concatenate([self.over.get(root, people[:0]), people])

    def _refuse_over(self) -> None:
        """Refuse the run if somebody is over the lifetime cap; inside a transaction, undo it."""
        if self.over:
            raise lifetime_refusal(self.over)

    def _check_newcomers(self, store: Store) -> None:
        """Refuse a table that holds somebody who was opened by name while it was made.

        Whoever opens a session from now on finds the fingerprints.
        """
        prf = tables.table_prf(store.fingerprint_key)
        for name in set(store.principals()) - self._named:
            tag = prf.tags(prf.person(name))[0]
            if tag in self._drawn.partition(tables.partition_of(int(tag)))["tag"]:
                raise StoreError(
                    "somebody in this table was opened in a session meanwhile; nothing was "
                    "released, run it again"
                )

    def __repr__(self) -> str:
        return f"<register of {self.rows} rows>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a register cannot be pickled or copied")


def lifetime_refusal(over: Mapping[RootName, Words], row: int | None = None) -> BudgetError:
    """What is said of a table that brings people over the lifetime cap."""
    counts = ", ".join(f"{root} ({len(people)})" for root, people in over.items())
    where = "" if row is None else f"; row {row} (from 0) is of the first of them"
    return BudgetError(
        f"so many people have had too many values of a root: {counts}{where}. With this table it "
        f"would have cost them more than {LIFETIME} times its first price. Nothing was released "
        "or charged. Release the values that they had before, leave their rows out, or give them "
        "caps of their own (rootguard vault spend --cap)"
    )


def table_name(plan: Plan, version: int) -> str:
    """Whose runs share their people: the same noise on the same roots."""
    return f"{plan.template} {plan.hash[:32]} {version}"


def check_levels(store: Store, plan: Plan, version: int) -> None:
    """Refuse to draw again what the store's tables hold at another level, unless that is asked for.

    The same roots of the same people at two levels are two draws, and cost both.
    """
    stand = {(run.root, run.version): run for run in store.tables()}
    for share in plan.shares:
        run = stand.get((share.root, version))
        if run is None:
            continue
        now = (to_micro(share.epsilon), plan.mechanism, share.domain)
        if now != (run.micro_epsilon, run.mechanism, run.domain):
            raise PlanError(
                f"tables of this store noise {share.root} at epsilon {run.micro_epsilon / MICRO:g} "
                f"({run.mechanism}); use that plan, or draw {version + 1}, which costs again"
            )
