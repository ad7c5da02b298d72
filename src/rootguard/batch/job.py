"""One run over a table: what is checked before it is drawn, and before it is shown.

Rows do not know of each other, but two things about a table are known only at its end: whether an
id has different values, and who would pass the lifetime cap. Usually the table is drawn meanwhile
and thrown away if it is refused, since drawing costs nothing that is not kept. Where drawing itself
charges people, because the store knows them by name, the table is read once more before. So it is
where a change decides what is drawn.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, Required, TypedDict, Unpack, get_args

import numpy as np
from numpy.typing import NDArray

from rootguard.allocation import Plan
from rootguard.batch.columns import Layout, RecordBatch, lay_out
from rootguard.batch.kernel import Kernel
from rootguard.batch.keys import Secret
from rootguard.batch.register import (
    Fresh,
    Register,
    lifetime_refusal,
    next_version,
    standing_version,
)
from rootguard.errors import BudgetError, ConflictError, StoreKeyError, UnknownNameError
from rootguard.identifiers import Kind
from rootguard.mechanisms.exact import Words
from rootguard.store import Store
from rootguard.template import Template
from rootguard.values import RootName

OnConflict = Literal["refuse", "charge"]
"""What is done if an id has different values of a root in one table."""

Batches = Callable[[], Iterator[RecordBatch]]
"""Reads the table from its beginning."""
NumberedMarks = tuple[int, NDArray[np.uint32]]
"""A row's number and the fingerprints of its values."""


class TableOptions(TypedDict, total=False):
    """What `sanitize` takes beside a table and a plan, for engines that take the same."""

    template: Required[Template]
    id_column: Required[str]
    key: bytes | None
    store: Store | None
    identifiers: Mapping[str, Kind] | None
    columns: Mapping[str, str] | None
    calibrate: bool
    version: int
    on_conflict: OnConflict
    fresh: Fresh


class Job:
    """A kernel that draws a table, and the register of what it draws."""

    @classmethod
    def of(
        cls,
        plan: Plan,
        names: Sequence[str],
        batches: Batches,
        **options: Unpack[TableOptions],
    ) -> "Job":
        """The job of a table whose columns have these names, by what `sanitize` would be asked."""
        layout = lay_out(
            options["template"],
            names,
            id_column=options["id_column"],
            columns=options.get("columns"),
            identifiers=options.get("identifiers"),
        )
        return cls(
            Secret.of(options.get("key"), options.get("store")),
            options["template"],
            plan,
            layout,
            batches,
            calibrate=options.get("calibrate", False),
            version=options.get("version", 1),
            on_conflict=options.get("on_conflict", "refuse"),
            fresh=options.get("fresh", "never"),
        )

    def __init__(
        self,
        secret: Secret,
        template: Template,
        plan: Plan,
        layout: Layout,
        batches: Batches,
        *,
        calibrate: bool,
        version: int,
        on_conflict: OnConflict,
        fresh: Fresh,
        announce: Callable[[int], None] | None = None,
    ) -> None:
        check_choice("on_conflict", on_conflict, OnConflict)
        self._layout, self._batches, self._on_conflict = layout, batches, on_conflict
        store = check_fresh(secret.store, fresh)
        known = secret.known()
        by_name = secret.by_name(fresh, known)

        def begin(version: int) -> tuple[Kernel, Register]:
            steady = fresh == "changed"
            register = secret.register(plan, version, by_name, steady=steady, known=known)
            # Without a store, and with nothing to refuse, nobody asks what was gathered.
            idle = secret.store is None and on_conflict == "charge"
            kernel = secret.kernel(
                template,
                plan,
                layout,
                calibrate=calibrate,
                version=version,
                register=None if idle else register,
                by_name=by_name,
            )
            return kernel, register

        self._plan = plan
        self.fresh = False
        """Whether everybody is drawn anew."""
        if store is not None and fresh == "changed":
            version = standing_version(store, plan, version)
        self.kernel, self._register = begin(version)
        if store is not None and (by_name or fresh == "changed"):
            for batch in batches():
                self.kernel.survey(batch)
            if fresh == "changed" and self._register.changed():
                self.fresh, version = True, next_version(store, plan)
            self._refuse(partial(self._register.check_lifetime, version))
            if self.fresh and announce is not None:
                announce(version)
            self.kernel, self._register = begin(version)
        self.version = version

    def keep(self) -> None:
        """Refuse the table or write it down; before anybody sees it."""
        self._refuse(self._register.keep)

    def _refuse(self, last: Callable[[], None]) -> None:
        """Refuse conflicts, then do what may refuse people over the lifetime cap."""
        if self._on_conflict == "refuse" and (found := self._conflicts()):
            raise ConflictError(
                conflict_counts(self._layout, {root: len(each) for root, each in found.items()}),
                differing(self._rows_of_first(found)),
            )
        with contextlib.suppress(BudgetError):
            return last()
        row = next(self._rows_of_first(self._register.over))[0]
        raise lifetime_refusal(self._register.over, row)

    def _conflicts(self) -> dict[RootName, Words]:
        """Who has different values; if values were not marked, of those who come twice they are."""
        if self._register.marked:
            return self._register.conflicts()
        repeated = self._register.repeated()
        if not len(repeated):
            return {}
        marks = Register(self._plan, self.version, None)
        for batch in self._batches():
            entries, there = self.kernel.entries(batch)
            marks.add(entries[there & np.isin(entries["tag"], repeated)], entries[:0], 0)
        return marks.conflicts()

    def _rows_of_first(self, found: Mapping[RootName, Words]) -> Iterator[NumberedMarks]:
        """The rows of the first of these people whom the table comes to."""
        people = np.concatenate(list(found.values()))
        first, who = 0, None
        for batch in self._batches():
            entries, there = self.kernel.entries(batch)
            tags = entries["tag"]
            if who is None:
                places = np.flatnonzero(there & np.isin(tags, people))
                who = tags[places[0]] if len(places) else None
            if who is not None:
                for row in np.flatnonzero(there & (tags == who)):
                    yield first + int(row), entries["marks"][row]
            first += len(batch)


def check_fresh(store: Store | None, fresh: Fresh) -> Store | None:
    """Refuse to compare with earlier tables where nobody remembers them."""
    check_choice("fresh", fresh, Fresh)
    if store is None and fresh == "changed":
        raise StoreKeyError(
            'whether a value changed is known to a store alone; give one for fresh="changed" '
            "(--fresh changed)"
        )
    return store


def check_choice(option: str, chosen: str, choices: object) -> None:
    """Refuse what is none of an option's choices."""
    if chosen not in get_args(choices):
        raise UnknownNameError(f"choice of {option}", chosen, get_args(choices))


def conflict_counts(layout: Layout, ids: Mapping[RootName, int]) -> dict[str, int]:
    """How many ids conflict, by a column's name and the root that it holds."""
    columns = ((root, layout.columns[root][:64]) for root in ids)
    return {root if root == column else f"{column} ({root})": ids[root] for root, column in columns}


def differing(rows: Iterable[NumberedMarks]) -> tuple[int, ...]:
    """The first two of a person's rows that have different values of a root."""
    seen: dict[int, tuple[int, int]] = {}
    for row, marks in rows:
        for column, mark in enumerate(marks.tolist()):
            if mark and seen.setdefault(column, (row, mark))[1] != mark:
                return seen[column][0], row
    return ()
