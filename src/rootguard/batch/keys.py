"""What a batch's noise rests on: a key that was given, a store's own secret, or a fresh one.

A table of millions leaves no draws: under the store's secret the draw of a row can be made again at
any time. What is kept is a line for each run and root, at the price that each new value cost its
person, and keyed fingerprints by which a value is known again.

A `Register` gathers the fingerprints in a file without a name, in pieces that are in the order of
the store's rows, so that a table of any length takes little memory, and puts them into the store at
the end, in one transaction. A run that is made again finds all its fingerprints there: nothing is
new, and nothing is charged twice.

People whom the store knows by their id (opened, capped or erased there) are served by the store:
their kept values stand, a value it does not hold is drawn and committed for that person alone, and
after an erasure the noise is a fresh one.
"""

import contextlib
import os
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn, SupportsIndex

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rootguard.allocation import Plan
from rootguard.batch.columns import Array, Layout, Numbers
from rootguard.batch.kernel import Kernel, Override
from rootguard.calibration import Calibration, Level
from rootguard.errors import BudgetError, FileError, PlanError, StoreError, StoreKeyError, shielded
from rootguard.graph import Graph
from rootguard.mechanisms.keyed import KEY_BYTES, Prf
from rootguard.session.draws import noise_once
from rootguard.store import Store, TableRun, tables
from rootguard.store.tables import Entries, table_prf
from rootguard.template import Template
from rootguard.values import MICRO, Principal, Raw, RootName, to_micro

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

        def merge(number: int, stored: bytes) -> bytes | None:
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


class Secret:
    """A batch key and, if it is a store's, the store."""

    __slots__ = ("_prf", "store")

    def __init__(self, prf: Prf, store: Store | None = None) -> None:
        self._prf = prf
        self.store = store

    @classmethod
    @shielded
    def of(cls, key: bytes | None, store: Store | None) -> "Secret":
        """From a key or a store, not both; with neither, a fresh key that nobody keeps."""
        if store is None:
            return cls(Prf(os.urandom(KEY_BYTES) if key is None else key))
        if key is not None:
            raise StoreKeyError("give a batch key or a store, not both")
        return cls(table_prf(store.fingerprint_key), store)

    def kernel(
        self,
        template: Template,
        plan: Plan,
        layout: Layout,
        *,
        calibrate: bool = False,
        version: int = 1,
        register: Register | None = None,
    ) -> Kernel:
        """The kernel that draws under this secret."""
        store = self.store
        return Kernel(
            template,
            plan,
            self._prf,
            layout,
            identifier_key=None if store is None else store.identifier_key,
            calibrate=calibrate,
            version=version,
            lookup=None
            if store is None
            else _VaultPeople(store, template, plan, calibrate=calibrate),
            sink=None if register is None else register.add,
        )

    def register(self, plan: Plan, version: int) -> Register | None:
        """Where a run under this secret is written down; None without a store."""
        if self.store is None:
            return None
        check_levels(self.store, plan, version)
        return Register(plan, version, self.store)

    def keys(self) -> tuple[bytes, bytes | None]:
        """The keys of the noise and of identifiers, for tasks that run elsewhere."""
        return self._prf.key, None if self.store is None else self.store.identifier_key

    def __repr__(self) -> str:
        return "<secret>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a secret cannot be pickled or copied")


@shielded
def read_key(file: Path) -> bytes:
    """The key in a file that its owner alone can read, in hexadecimal."""
    if not file.is_file():
        raise FileError(file.name, "", "there is no such key file", "put the key there")
    if os.name == "posix" and file.stat().st_mode & 0o077:
        raise FileError(file.name, "", "others can read this key", f"run: chmod 600 {file}")
    key = None
    with contextlib.suppress(ValueError, OSError):
        key = bytes.fromhex(file.read_text().strip())
    if key is None or len(key) != KEY_BYTES:
        raise FileError(file.name, "", "is no key", f"it holds {KEY_BYTES} bytes in hexadecimal")
    return key


class _VaultPeople:
    """Rows of people whom a store knows by name."""

    def __init__(self, store: Store, template: Template, plan: Plan, *, calibrate: bool) -> None:
        self._store, self._template, self._plan = store, template, plan
        self._calibrate = calibrate
        self._roots = Graph.of(template).roots
        self._people = pa.array(list(store.principals()), pa.large_string())

    def __call__(self, ids: Array, given: Mapping[RootName, Numbers]) -> Override:
        known = pc.is_in(ids, self._people).to_numpy(zero_copy_only=False)
        rows, capped = [], []
        values: dict[RootName, list[float]] = {root: [] for root in self._roots}
        refused = np.logical_or.reduce([found.refused for found in given.values()])
        for row in np.flatnonzero(known & ~refused):
            raws = {
                root: Raw(float(found.values[row]))
                for root, found in given.items()
                if not found.missing[row]
            }
            released = self._release(Principal(ids[row].as_py()), raws)
            if released is None:
                capped.append(row)
                continue
            rows.append(row)
            for root in self._roots:
                values[root].append(released.get(root, 0.0))
        return Override(
            rows=np.array(rows, dtype=np.int64),
            values={root: np.array(found) for root, found in values.items()},
            capped=np.array(capped, dtype=np.int64),
        )

    def _release(
        self, principal: Principal, raws: Mapping[RootName, Raw]
    ) -> dict[RootName, float] | None:
        try:
            records = noise_once(self._store, principal, self._plan, raws)
        except BudgetError:
            return None
        kept = {root: record.sanitized for root, record in records.items()}
        if self._calibrate and len(kept) == len(self._roots):
            levels = {root: Level.of(value) for root, value in kept.items()}
            released = Calibration(self._template, levels).release(kept)
            domains = {root: self._template.roots[root].domain for root in self._roots}
            return {root: domains[root].clamp(value) for root, value in released.items()}
        return {root: value.value for root, value in kept.items()}
