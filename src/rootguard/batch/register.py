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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal, NoReturn, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import NDArray

from rootguard.allocation import Plan
from rootguard.errors import BudgetError, PlanError, StoreError
from rootguard.mechanisms.exact import Words
from rootguard.store import Store, TableRun, check_caps, table_number, tables
from rootguard.store.base import TableView
from rootguard.store.summary import LIFETIME
from rootguard.store.tables import Entries
from rootguard.values import MICRO, Principal, RootName, to_micro

_Number = TypeVar("_Number", np.uint32, np.uint64)

Fresh = Literal["never", "changed"]
"""When everybody in a table is drawn anew: never, or if a value changed since it was released."""

PIECE = 1 << 17
"""Entries that are put in order together: few enough for the processor's cache."""
TOGETHER = 1 << 14
"""Entries that are looked through together for people who come twice: few enough to be put in order
in the processor's cache, which takes half as long as a million at once."""


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

    def __len__(self) -> int:
        return self._length + self._rows

    def partition(self, number: int) -> Entries:
        """The entries of a partition, in the order in which they came."""
        return self.partitions(number, number + 1)

    def partitions(self, start: int, stop: int) -> Entries:
        """The entries of some partitions that follow each other, in no order to rely on."""
        if self._rows:
            self._write()
        size = self._type.itemsize
        spans = [(first + int(b[start]), first + int(b[stop])) for first, b in self._bounds]
        found = bytearray(size * sum(end - begin for begin, end in spans))
        left = memoryview(found)
        for begin, end in spans:
            if begin < end:
                self._file.seek(begin * size)
                left = left[self._file.readinto(left[: (end - begin) * size]) :]
        return np.frombuffer(found, self._type)

    def __repr__(self) -> str:
        return f"<{len(self)} entries>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("entries cannot be pickled or copied")


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownPeople:
    """Whom a store knew at a moment: how many people, their tags, and who was erased."""

    population: int
    tags: Mapping[int, bool]

    @classmethod
    def of(cls, store: Store) -> "KnownPeople":
        """Everyone now; whoever comes while they are read is counted as a newcomer."""
        return cls(population=store.population(), tags=store.tags())


class Register:
    """Gathers the entries of a table, says what is wrong with them, and keeps them in a store."""

    def __init__(
        self,
        plan: Plan,
        version: int,
        store: Store | None,
        by_name: frozenset[int] = frozenset(),
        *,
        steady: bool = False,
        marked: bool = True,
        known: "KnownPeople | None" = None,
    ) -> None:
        self._plan, self._version, self._store = plan, version, store
        self.marked = marked
        """Whether entries have marks of values; else they are of people alone."""
        known = KnownPeople.of(store) if known is None and store is not None else known
        self._known = frozenset(() if known is None else known.tags)
        self._population = 0 if known is None else known.population
        # Usually everybody who is known is served by name; then no names need be read.
        served = store is None or self._known <= by_name
        named = [] if store is None or served else _tagged(store, store.principals())
        self._named = [each for each in named if each[0] not in by_name]
        self._steady = steady  # whether a change since the last release refuses the run
        columns = len(plan.shares) if marked else 0
        self._drawn, self._others = EntryFile(columns), EntryFile(columns)
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

    def repeated(self) -> Words:
        """The people who are in several rows of this table."""
        found = [np.empty(0, np.uint64)]
        for entries in self._together():
            tags = entries["tag"]
            # Half of each tag is put in order in half the time, and nearly always tells that
            # nobody comes twice.
            if len(_repeated(tags.astype(np.uint32))):
                found.append(np.unique(_repeated(tags)))
        return np.concatenate(found)

    def _together(self) -> Iterator[Entries]:
        """All entries, in sets in which everybody's are together.

        Few reads and sorts for a table of ordinary length, little memory for a long one.
        """
        files = [file for file in (self._drawn, self._others) if len(file)]
        parts = -(-sum(map(len, files)) // TOGETHER)
        step = max(1, tables.PARTITIONS // max(1, parts))
        for start in range(0, tables.PARTITIONS if files else 0, step):
            stop = min(start + step, tables.PARTITIONS)
            found = [file.partitions(start, stop) for file in files]
            yield found[0] if len(found) == 1 else np.concatenate(found)

    def conflicts(self) -> dict[RootName, Words]:
        """Of each root the people who have different values of it in this table."""
        found: list[list[Words]] = [[] for _ in self.roots]
        for entries in self._together():
            for people, each in zip(found, tables.conflicts(entries), strict=True):
                people.append(each)
        whole = {
            root: np.concatenate(people) for root, people in zip(self.roots, found, strict=True)
        }
        return {root: people for root, people in whole.items() if len(people)}

    def changed(self) -> bool:
        """Whether somebody's value is another than at the last release under this version."""
        return any(
            tables.changed(self._view(), number, new, self._levels(self._version))
            for number in range(tables.PARTITIONS)
            if len(new := self._drawn.partition(number))
        )

    def check_lifetime(self, version: int) -> None:
        """Refuse the run, if it is drawn as this version, for anybody over a cap as of now.

        Only how many values there are counts, so entries of another version will do for a new one.
        """
        if self._store is None or not len(self._drawn):
            return
        view = self._view()
        place = table_number(view.runs, table_name(self._plan, version)) * tables.PARTITIONS
        for number in range(tables.PARTITIONS):
            new = self._drawn.partition(number)
            if len(new):
                entries = tables.merge(view.fingerprints(place + number), new)
                self._find_over(view, number, new, tables.count(entries).most, version)
        self._find_capped(view, version)
        self._refuse_over()

    def keep(self) -> None:
        """Put the run into the store, before its table is shown; without a store, do nothing."""
        if self._store is None:
            return
        drawn = np.zeros(len(self.roots), dtype=np.int64)
        most = np.zeros(len(self.roots), dtype=np.int64)
        self.over, changed = {}, False
        self._find_capped(self._view(), self._version)
        self._refuse_over()

        def merge(number: int, stored: bytes, view: TableView) -> bytes | None:
            nonlocal changed
            new = self._drawn.partition(number)
            if not len(new):
                return None
            if self._steady:
                changed |= tables.changed(view, number, new, self._levels(self._version))
            entries = tables.merge(stored, new)
            counted = tables.count(entries)
            np.maximum(most, counted.most, out=most)
            before = len(stored) // entries.itemsize
            if len(entries) == before:
                return None
            drawn[:] += counted.values
            if before:
                drawn[:] -= tables.count(tables.read(stored, len(self.roots))).values
            self._find_over(view, number, new, counted.most, self._version)
            return entries.tobytes()

        def told() -> list[TableRun]:
            self._refuse_over()
            if changed:
                raise StoreError(
                    "another table with these people was released meanwhile; nothing was "
                    "released, run it again"
                )
            return [
                replace(run, rows=self.rows, drawn=int(drawn[place]), most=int(most[place]))
                for place, run in enumerate(self._levels(self._version))
            ]

        # Where the store serves everybody by name, nothing is drawn here, and no partition changes.
        self._store.keep_table(
            table_name(self._plan, self._version), merge if len(self._drawn) else None, told
        )
        self._check_newcomers(self._store)

    def _view(self) -> TableView:
        """What the store's tables hold now; nothing without a store."""
        if self._store is None:
            return TableView(runs=(), fingerprints=lambda _: b"")
        return TableView(runs=self._store.tables(), fingerprints=self._store.fingerprints)

    def _levels(self, version: int) -> list[TableRun]:
        """At which level this run draws each root."""
        return [
            TableRun(
                table=table_name(self._plan, version),
                root=root,
                version=version,
                micro_epsilon=to_micro(self._plan[root].epsilon),
                mechanism=self._plan.noise(root).name,
                domain=self._plan[root].domain,
                rows=0,
                drawn=0,
                most=0,
            )
            for root in self.roots
        ]

    def _find_over(
        self,
        view: TableView,
        number: int,
        new: Entries,
        most: NDArray[np.int64],
        version: int,
    ) -> None:
        """Note who passes the lifetime cap, but for people who have a ledger by name."""
        found = tables.over_lifetime(view, number, new, self._levels(version), most)
        named = np.array([tag for tag, _ in self._named], np.uint64)
        for root, people in zip(self.roots, found, strict=True):
            self._note_over(root, people[~np.isin(people, named)])

    def _find_capped(self, view: TableView, version: int) -> None:
        """Note people known by name whom the run, which draws them here, brings over a cap.

        Not in the transaction that keeps the run: what a session draws for them at the same moment
        is not counted.
        """
        if self._store is None:
            return
        for number, people in groupby(self._named, lambda each: tables.partition_of(each[0])):
            entries = self._drawn.partition(number)
            for tag, name in people:
                new = entries[entries["tag"] == tag]
                prices = tables.prices(view, number, new, self._levels(version))
                try:
                    check_caps(self._store.ledger(name), prices, self._store.caps(name))
                except BudgetError:
                    for root in prices:
                        self._note_over(RootName(root), np.array([tag], np.uint64))

    def _note_over(self, root: RootName, people: Words) -> None:
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
        if store.population() == self._population:
            return
        for tag in store.tags().keys() - self._known:
            if tag in self._drawn.partition(tables.partition_of(tag))["tag"]:
                raise StoreError(
                    "somebody in this table was opened in a session meanwhile; nothing was "
                    "released, run it again"
                )

    def __repr__(self) -> str:
        return f"<register of {self.rows} rows>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a register cannot be pickled or copied")


def _repeated(numbers: NDArray[_Number]) -> NDArray[_Number]:
    """Numbers that come again, in order; once for each time."""
    order = np.sort(numbers)
    again: NDArray[_Number] = order[1:][order[1:] == order[:-1]]
    return again


def _tagged(store: Store, people: Iterable[Principal]) -> list[tuple[int, Principal]]:
    """People and their tags, in the order of the tags."""
    prf = tables.table_prf(store.fingerprint_key, exact=store.exact_ids)
    names = list(people)
    return sorted(zip(tables.tags_of(prf, names), names, strict=True))


def standing_version(store: Store, plan: Plan, version: int) -> int:
    """The latest version of the plan's tables, or this one if it is later."""
    runs = store.tables()
    return max(
        version, *(run.version for run in runs if run.table == table_name(plan, run.version)), 0
    )


def next_version(store: Store, plan: Plan) -> int:
    """A version under which no table of the store has shown any of the plan's roots."""
    roots = {share.root for share in plan.shares}
    return 1 + max((run.version for run in store.tables() if run.root in roots), default=0)


def lifetime_refusal(over: Mapping[RootName, Words], row: int | None = None) -> BudgetError:
    """What is said of a table that brings people over the lifetime cap."""
    counts = ", ".join(f"{root} ({len(people)})" for root, people in over.items())
    where = "" if row is None else f"; row {row} (from 0) is of the first of them"
    return BudgetError(
        f"people who would pass the cap of a root with this table: {counts}{where}. Unless they "
        f"have a cap of their own, a root may cost {LIFETIME} times its first price. Nothing was "
        "released or charged. Release the values that they had before, leave their rows out, or "
        "give them a higher cap (rootguard vault spend --cap)"
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
        now = (to_micro(share.epsilon), plan.noise(share.root).name, share.domain)
        if now != (run.micro_epsilon, run.mechanism, run.domain):
            raise PlanError(
                f"tables of this store noise {share.root} at epsilon {run.micro_epsilon / MICRO:g} "
                f"({run.mechanism}); use that plan, or draw {version + 1}, which costs again"
            )
