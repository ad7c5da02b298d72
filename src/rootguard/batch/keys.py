"""What a batch's noise rests on: a key that was given, a store's own secret, or a fresh one.

People whom the store knows by their id (opened, capped or erased there) are served by the store:
their kept values stand, a value it does not hold is drawn and committed for that person alone, and
after an erasure the noise is a fresh one.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn, SupportsIndex

import numpy as np
import pyarrow as pa

from rootguard.allocation import Plan
from rootguard.batch.columns import Array, Layout, Mask, Numbers
from rootguard.batch.kernel import Kernel, Override, grid_points, nearest
from rootguard.batch.register import Fresh, KnownPeople, Register, check_levels
from rootguard.calibration import Calibration, Level
from rootguard.errors import BudgetError, FileError, PlanError, StoreKeyError, shielded
from rootguard.graph import Graph
from rootguard.mechanisms.base import Indices
from rootguard.mechanisms.exact import Words
from rootguard.mechanisms.keyed import KEY_BYTES, Prf
from rootguard.session.crowds import Declared, kept_each, noise_each
from rootguard.session.draws import computed_values, define, mappings
from rootguard.store import Snapshot, Store
from rootguard.store.tables import table_prf
from rootguard.template import Template
from rootguard.values import Principal, Raw, RootName, Sanitized

AT_ONCE = 2000
"""People known by name who are looked up together."""
_LEVELS = 64
"""Sets of levels whose calibrations are kept: a megabyte or two each."""


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
            marked=register is None or register.marked,
        )

    def register(
        self,
        plan: Plan,
        version: int,
        by_name: frozenset[int] = frozenset(),
        *,
        steady: bool = False,
        known: KnownPeople | None = None,
    ) -> Register:
        """Where a run under this secret is written down, for as long as it takes or in a store."""
        if self.store is not None:
            check_levels(self.store, plan, version)
        # Without a store, all that is asked is whether an id has different values: nearly always
        # none comes twice, and then its values need not be marked.
        marked = self.store is not None
        return Register(
            plan, version, self.store, by_name, steady=steady, marked=marked, known=known
        )

    def known(self) -> KnownPeople | None:
        """Whom the store knows; reading all of them takes a while, so once for a run."""
        return None if self.store is None else KnownPeople.of(self.store)

    def by_name(self, fresh: Fresh, known: KnownPeople | None = None) -> frozenset[int]:
        """Whose rows the store serves by name: their tags.

        Their draw stands as long as their value does, whatever becomes of the others'. So where
        nobody's change is to show, they are drawn with everybody else; but the erased, whom the key
        would give their old noise again.
        """
        known = self.known() if known is None else known
        tags = {} if known is None else known.tags
        return frozenset(tag for tag, erased in tags.items() if erased or fresh == "never")

    @property
    def mark(self) -> str:
        """Tells keys apart and says nothing about them."""
        return hashlib.sha256(self._prf.key_for("mark of a run")).hexdigest()

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
        # Whether some root may be computed from values that are kept under other templates.
        self._formulas = any(template.roots[root].kept is not None for root in self._roots)
        self._calibrations: dict[tuple[tuple[RootName, Level], ...], Calibration] = {}
        self._points = {
            root: grid_points(template.roots[root].domain).tolist() for root in self._roots
        }

    @property
    def some(self) -> bool:
        return bool(self._people.size)

    def known(self, tags: Words) -> Mask:
        return np.isin(tags, self._people)

    def __call__(self, ids: Array, tags: Words, given: Mapping[RootName, Numbers]) -> Override:
        refused = np.logical_or.reduce([found.refused for found in given.values()])
        rows = np.flatnonzero(self.known(tags) & ~refused)
        released: dict[int, dict[RootName, float] | None] = {}
        for some in self._together(rows, tags):
            found = self._kept(ids, some, given)
            released |= zip(some.tolist(), found, strict=True)
            new = some[[each is None for each in found]]
            if new.size:
                released |= zip(new.tolist(), self._new(ids, new, given), strict=True)
        kept = [row for row in sorted(released) if released[row] is not None]
        values = {
            root: np.array([(released[row] or {}).get(root, 0.0) for row in kept])
            for root in self._roots
        }
        return Override(
            rows=np.array(kept, dtype=np.int64),
            values=values,
            capped=np.array(sorted(released.keys() - set(kept)), dtype=np.int64),
        )

    def _together(self, rows: Indices, tags: Words) -> Iterator[Indices]:
        """Rows in sets in which nobody comes twice: a person's second row meets the first one's."""
        while rows.size:
            _, first = np.unique(tags[rows], return_index=True)
            first.sort()
            for start in range(0, first.size, AT_ONCE):
                yield rows[first[start : start + AT_ONCE]]
            rows = np.delete(rows, first)

    def _kept(
        self, ids: Array, rows: Indices, given: Mapping[RootName, Numbers]
    ) -> list[dict[RootName, float] | None]:
        """What is released of whom all values are kept already; None for the others."""
        if self._formulas:
            return [None] * rows.size
        points = {
            root: (domain, _given(nearest(domain, found.values[rows]), found.missing[rows]))
            for root, found in given.items()
            for domain in (self._template.roots[root].domain,)  # the store's own (`check_grids`)
        }
        kept = kept_each(self._store, _names(ids, rows), points)
        answer = self._answer if self._calibrate else self._on_grid
        return [None if each is None else answer(each) for each in kept]

    def _new(
        self, ids: Array, rows: Indices, given: Mapping[RootName, Numbers]
    ) -> list[dict[RootName, float] | None]:
        """What is released of people who may have to be drawn; None for whom a cap forbids."""
        names = _names(ids, rows)
        raws: list[dict[RootName, Raw]] = [{} for _ in names]
        for root, found in given.items():
            sealed = map(Raw, found.values[rows].tolist())
            for each, raw, absent in zip(raws, sealed, found.missing[rows].tolist(), strict=True):
                if not absent:
                    each[root] = raw
        people, roots = self._store.snapshots(names), self._template.roots
        computed = [self._computed(person) for person in people]
        declared = [
            Declared(
                person=person,
                raws={root: raw for root, raw in given.items() if root not in made},
            )
            for person, given, made in zip(people, raws, computed, strict=True)
        ]
        noised = noise_each(self._store, self._plan, roots, declared)
        mapped = mappings(self._store.quantities(), [roots[root] for root in self._roots])
        return [
            None
            if isinstance(found, BudgetError)
            else self._answer(
                {root: mapped[root].shown(each.sanitized) for root, each in found.items()}, made
            )
            for found, made in zip(noised, computed, strict=True)
        ]

    def _on_grid(self, kept: Mapping[RootName, Sanitized]) -> dict[RootName, float]:
        """`Sanitized.value` of each, which is on our grid: else its fingerprint is another."""
        return {root: self._points[root][value.index] for root, value in kept.items()}

    def _computed(self, person: Snapshot) -> dict[RootName, float]:
        return computed_values(person, self._template) if self._formulas else {}

    def _answer(
        self,
        kept: Mapping[RootName, Sanitized],
        computed: Mapping[RootName, float] = MappingProxyType({}),
    ) -> dict[RootName, float]:
        if self._calibrate and len(kept) == len(self._roots):
            levels = {
                root: Level.of(value, self._template.roots[root].type)
                for root, value in kept.items()
            }
            released = self._calibration(levels).release(kept)
            domains = {root: self._template.roots[root].domain for root in self._roots}
            return {root: domains[root].clamp(value) for root, value in released.items()}
        return {root: value.value for root, value in kept.items()} | dict(computed)

    def _calibration(self, levels: dict[RootName, Level]) -> Calibration:
        """Most people were noised at the same levels: what these have in common is kept."""
        at = tuple(levels.items())
        if at not in self._calibrations:
            if len(self._calibrations) >= _LEVELS:
                self._calibrations.clear()
            self._calibrations[at] = Calibration(self._template, levels)
        return self._calibrations[at]


def _names(ids: Array, rows: Indices) -> list[Principal]:
    return [Principal(name) for name in ids.take(pa.array(rows)).to_pylist()]


def _given(points: Indices, missing: Mask) -> list[int | None]:
    """Grid points, where there are values."""
    given: list[int | None] = points.tolist()
    if not missing.any():
        return given
    return [None if gone else point for point, gone in zip(given, missing.tolist(), strict=True)]
