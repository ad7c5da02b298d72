"""What a batch's noise rests on: a key that was given, a store's own secret, or a fresh one.

People whom the store knows by their id (opened, capped or erased there) are served by the store:
their kept values stand, a value it does not hold is drawn and committed for that person alone, and
after an erasure the noise is a fresh one.
"""

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn, SupportsIndex

import numpy as np

from rootguard.allocation import Plan
from rootguard.batch.columns import Array, Layout, Mask, Numbers
from rootguard.batch.kernel import Kernel, Override
from rootguard.batch.register import Fresh, Register, check_levels
from rootguard.calibration import Calibration, Level
from rootguard.errors import BudgetError, FileError, PlanError, StoreKeyError, shielded
from rootguard.graph import Graph
from rootguard.mechanisms.exact import Words
from rootguard.mechanisms.keyed import KEY_BYTES, Prf
from rootguard.session.draws import computed_values, define, mappings, noise_once
from rootguard.store import Store
from rootguard.store.tables import table_prf
from rootguard.template import Template
from rootguard.values import Principal, Raw, RootName


def check_grids(store: Store, plan: Plan, template: Template) -> None:
    """Refuse a table on another unit or grid than the store keeps a root in; fix new ones.

    A row's noise is a function of its grid point, so a table cannot be served from another grid.
    """
    mapped = define(store, store.quantities(), [template.roots[s.root] for s in plan.shares])
    for share in plan.shares:
        root, kept = template.roots[share.root], mapped[share.root].kept
        if (kept.unit, kept.domain) != (root.unit, root.domain):
            raise PlanError(
                f"this store keeps {share.root} as {kept}; a table under it has to be in the same "
                "unit and on the same grid: change the template, or use another store"
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
        return cls(table_prf(store.fingerprint_key, exact=store.exact_ids), store)

    def kernel(
        self,
        template: Template,
        plan: Plan,
        layout: Layout,
        *,
        calibrate: bool = False,
        version: int = 1,
        register: Register | None = None,
        by_name: frozenset[int] = frozenset(),
    ) -> Kernel:
        """The kernel that draws under this secret, but for people whom the store serves by name."""
        store = self.store
        if store is not None:
            check_grids(store, plan, template)
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
            else _VaultPeople(store, by_name, template, plan, calibrate=calibrate),
            sink=None if register is None else register.add,
        )

    def register(
        self,
        plan: Plan,
        version: int,
        by_name: frozenset[int] = frozenset(),
        *,
        steady: bool = False,
    ) -> Register:
        """Where a run under this secret is written down, for as long as it takes or in a store."""
        if self.store is not None:
            check_levels(self.store, plan, version)
        return Register(plan, version, self.store, by_name, steady=steady)

    def by_name(self, fresh: Fresh) -> frozenset[int]:
        """Whose rows the store serves by name: their tags.

        Their draw stands as long as their value does, whatever becomes of the others'. So where
        nobody's change is to show, they are drawn with everybody else; but the erased, whom the key
        would give their old noise again.
        """
        known = {} if self.store is None else self.store.tags()
        return frozenset(tag for tag, erased in known.items() if erased or fresh == "never")

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

    def __init__(
        self,
        store: Store,
        people: Iterable[int],
        template: Template,
        plan: Plan,
        *,
        calibrate: bool,
    ) -> None:
        self._store, self._template, self._plan = store, template, plan
        self._calibrate = calibrate
        self._roots = Graph.of(template).roots
        self._people = np.array(sorted(people), np.uint64)

    def known(self, tags: Words) -> Mask:
        return np.isin(tags, self._people)

    def __call__(self, ids: Array, tags: Words, given: Mapping[RootName, Numbers]) -> Override:
        known = self.known(tags)
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
        person, roots = self._store.snapshot(principal), self._template.roots
        computed = computed_values(person, self._template)
        drawn = {root: raw for root, raw in raws.items() if root not in computed}
        try:
            records = noise_once(self._store, person, self._plan, roots, drawn)
        except BudgetError:
            return None
        mapped = mappings(person.quantities, [roots[root] for root in records])
        kept = {root: mapped[root].shown(each.sanitized) for root, each in records.items()}
        if self._calibrate and len(kept) == len(self._roots):
            levels = {root: Level.of(value) for root, value in kept.items()}
            released = Calibration(self._template, levels).release(kept)
            domains = {root: self._template.roots[root].domain for root in self._roots}
            return {root: domains[root].clamp(value) for root, value in released.items()}
        return {root: value.value for root, value in kept.items()} | computed
