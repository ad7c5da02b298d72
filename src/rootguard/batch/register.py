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
from typing import NoReturn, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from rootguard.allocation import Plan
from rootguard.errors import PlanError, StoreError
from rootguard.store import Store, TableRun, tables
from rootguard.store.base import TableView
from rootguard.store.tables import Entries
from rootguard.values import MICRO, to_micro

PIECE = 1 << 17
"""Entries that are put in order together: few enough for the processor's cache."""


class Register:
    """Gathers entries, then keeps them."""

    def __init__(self, plan: Plan, version: int, store: Store) -> None:
        self._plan, self._version, self._store = plan, version, store
        self._named = frozenset(store.principals())
        self._type = tables.entry_type(len(plan.shares))
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this does
        weakref.finalize(self, self._file.close)
        self._bounds: list[tuple[int, NDArray[np.int64]]] = []
        self._held: list[Entries] = []
        self._rows = self._length = 0
        self.rows = 0
        """Rows of the table, those of people who are served by name included."""

    def add(self, entries: Entries, rows: int) -> None:
        """Take in the entries of some rows, in any order; people served by name have none."""
        self.rows += rows
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

    def _partition(self, number: int) -> Entries:
        """The run's entries for a partition."""
        size = self._type.itemsize
        pieces = [np.empty(0, self._type)]
        for first, bounds in self._bounds:
            begin, end = int(bounds[number]), int(bounds[number + 1])
            self._file.seek((first + begin) * size)
            pieces.append(np.frombuffer(self._file.read((end - begin) * size), self._type))
        return np.concatenate(pieces)

    def keep(self) -> None:
        """Put the run into the store, before its table is shown."""
        self._write()
        roots = sorted(share.root for share in self._plan.shares)
        drawn = np.zeros(len(roots), dtype=np.int64)
        most = np.zeros(len(roots), dtype=np.int64)

        def merge(number: int, stored: bytes, _: TableView) -> bytes | None:
            new = self._partition(number)
            if not len(new):
                return None
            entries = tables.merge(stored, new)
            counted = tables.count(entries)
            np.maximum(most, counted.most, out=most)
            before = len(stored) // self._type.itemsize
            if len(entries) == before:
                return None
            drawn[:] += counted.values
            if before:
                drawn[:] -= tables.count(tables.read(stored, len(roots))).values
            return entries.tobytes()

        def told() -> list[TableRun]:
            return [
                TableRun(
                    table=table_name(self._plan, self._version),
                    root=root,
                    version=self._version,
                    micro_epsilon=to_micro(self._plan[root].epsilon),
                    mechanism=self._plan.mechanism,
                    domain=self._plan[root].domain,
                    rows=self.rows,
                    drawn=int(drawn[place]),
                    most=int(most[place]),
                )
                for place, root in enumerate(roots)
            ]

        self._store.keep_table(table_name(self._plan, self._version), merge, told)
        self._check_newcomers()

    def _check_newcomers(self) -> None:
        """Refuse a table that holds somebody who was opened by name while it was made.

        Whoever opens a session from now on finds the fingerprints.
        """
        prf = tables.table_prf(self._store.fingerprint_key)
        for name in set(self._store.principals()) - self._named:
            tag = prf.tags(prf.person(name))[0]
            if tag in self._partition(tables.partition_of(int(tag)))["tag"]:
                raise StoreError(
                    "somebody in this table was opened in a session meanwhile; nothing was "
                    "released, run it again"
                )

    def __repr__(self) -> str:
        return f"<register of {self.rows} rows>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a register cannot be pickled or copied")


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
