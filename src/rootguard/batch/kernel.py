"""One Arrow record batch in, one out: ids to streams, numbers to grid points, noise, formulas.

The vectorised twin of `sanitizer` and of a session's answers, and nothing else: grids, samplers,
formulas, calibration and identifiers are those of the single-value path. A row is one person; rows
do not know of each other, so a table may be cut into batches anywhere, by anyone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rootguard.allocation import Plan, Share
from rootguard.batch.columns import (
    Array,
    Layout,
    Mask,
    Numbers,
    RecordBatch,
    Schema,
    absent,
    comparable,
    released_array,
    text_bytes,
    texts,
    typed,
)
from rootguard.batch.restore import BatchTokens
from rootguard.calibration import Calibration, Level
from rootguard.errors import PlanError, PrivateValueError
from rootguard.expressions import evaluate_many, names
from rootguard.graph import Graph
from rootguard.mechanisms import Mechanism
from rootguard.mechanisms.base import Floats, Indices
from rootguard.mechanisms.exact import Words
from rootguard.mechanisms.keyed import People, Prf, RootStreams
from rootguard.store.tables import Entries, entry_type
from rootguard.template import Template
from rootguard.values import NUMBER, Domain, RootName

REJECTS = pa.schema([("row", pa.int64()), ("column", pa.string()), ("reason", pa.string())])
"""The side table: which row, counted from 0, which column, and why. Never what stood there."""

# Grid points of a root up to which all posteriors are computed at once: tenths of a second.
_SETTLED_GRID = 4096

EntrySink = Callable[[Entries, Entries, int], None]
"""Takes the entries of rows that are drawn here, those of other rows, how many are released."""


class VaultLookup(Protocol):
    """Looks up people whom a vault knows by name."""

    @property
    def some(self) -> bool:
        """Whether there is anybody."""
        ...

    def known(self, tags: Words) -> Mask:
        """Which rows are theirs."""
        ...

    def __call__(self, ids: Array, tags: Words, given: Mapping[RootName, Numbers]) -> "Override":
        """What the vault releases of them, given their numbers; a new value is charged."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Override:
    """What a vault says about some of the rows: released values, or that a cap forbids them."""

    rows: Indices
    values: Mapping[RootName, Floats]
    capped: Indices


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchResult:
    """What was made of a batch: new columns for the rows that are kept, and the side table."""

    columns: dict[str, Array]
    keep: Mask | None
    rejects: RecordBatch
    gathered: tuple[Entries, Entries, int] | None
    """What the sink is to be told, if there is one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasedBatch:
    """A batch as it is released, its side table, and what the sink is to be told."""

    batch: RecordBatch
    rejects: RecordBatch
    keep: Mask | None
    """Which rows were released; None for all."""
    gathered: tuple[Entries, Entries, int] | None


class _Noise:
    """One root's grid, streams and mechanism."""

    def __init__(self, prf: Prf, share: Share, noise: Mechanism, version: int) -> None:
        self.domain = share.domain
        self.points = grid_points(share.domain)
        self.categories: Array = pa.array(self.points)
        self._streams: RootStreams = prf.root(
            share.root, share.domain, share.epsilon, noise.name, version
        )
        self._mechanism = noise

    def draw(self, people: People, snapped: Indices) -> Indices:
        return self._mechanism.draw_rows(snapped, self._streams.of(people, snapped))

    def fingerprints(self, people: People, snapped: Indices) -> NDArray[np.uint32]:
        return self._streams.of(people, snapped).fingerprints()


def grid_points(domain: Domain) -> Floats:
    """`Domain.value` of every index, by the same operations in the same order."""
    points: Floats = domain.lower + np.arange(domain.size, dtype=np.float64) * domain.step
    points[-1] = domain.upper
    return points


def nearest(domain: Domain, values: Floats) -> Indices:
    """`Domain.nearest` of many values, by the same operations in the same order."""
    # Another order of operations rounds differently now and then: a value would snap to another
    # point in a table than in a session, and be drawn and charged twice.
    steps = np.clip(values, domain.lower, domain.upper)
    steps -= domain.lower
    steps /= domain.step
    steps += 0.5
    points = np.floor(steps, out=steps).astype(np.int64)
    return np.minimum(points, domain.size - 1, out=points)


class Kernel:
    """Everything a batch needs besides its rows. Public but for the key."""

    def __init__(
        self,
        template: Template,
        plan: Plan,
        prf: Prf,
        layout: Layout,
        *,
        identifier_key: bytes | None = None,
        calibrate: bool = False,
        version: int = 1,
        lookup: VaultLookup | None = None,
        sink: EntrySink | None = None,
        marked: bool = True,
    ) -> None:
        if plan.digest != template.digest:
            raise PlanError("the plan was made for another template; nothing was drawn")
        plan.check()  # before the first draw: the price must be the one that is charged
        self.layout = layout
        self.template = template
        self._graph = Graph.of(template)
        self._prf = prf
        self._lookup = lookup
        self._sink = sink
        self._marked = marked  # whether the sink is told of values, or of people alone
        self._noise = {
            share.root: _Noise(prf, share, plan.noise(share.root), version) for share in plan.shares
        }
        self._tokens = (
            BatchTokens(identifier_key or prf.key_for("identifiers"))
            if layout.identifiers
            else None
        )
        calibration = Calibration(template, Level.of_plan(plan)) if calibrate else None
        self._calibration = calibration if calibration and calibration.active else None
        self._empty_rejects = _rejects([], np.empty(0, dtype=np.int64))

    def schema(self, schema: Schema) -> Schema:
        """What a table of this schema becomes."""
        return self.layout.output(schema)

    def apply(self, batch: RecordBatch, first: int = 0) -> tuple[RecordBatch, RecordBatch]:
        """The batch as it is released, and its side table; `first` is its first row's number."""
        made = self.release(batch, first)
        self.tell(made.gathered)
        return made.batch, made.rejects

    def release(
        self, batch: RecordBatch, first: int = 0, *, categories: bool = False
    ) -> ReleasedBatch:
        """The same without telling the sink, which may have to hear of batches in their order.

        With `categories`, roots that are all on their grids come as categories of grid points:
        whoever writes text writes each point once. Several threads may do this at once, unless the
        kernel asks a vault (`asks_vault`), and once `settle` was called after the first batch.
        """
        made = self._made(batch, first, categories=categories and self._on_grids)
        if made.keep is not None:
            batch = batch.filter(pa.array(made.keep))
        schema = self.schema(batch.schema)
        arrays = [
            made.columns[name] if name in made.columns else batch.column(name)
            for name in schema.names
        ]
        if categories:
            schema = pa.schema(
                [field.with_type(each.type) for field, each in zip(schema, arrays, strict=True)]
            )
        return ReleasedBatch(
            batch=pa.RecordBatch.from_arrays(arrays, schema=schema),
            rejects=made.rejects,
            keep=made.keep,
            gathered=made.gathered,
        )

    def gather(self, batch: RecordBatch, keep: Mask | None) -> tuple[Entries, Entries, int] | None:
        """What the sink is told of a batch of which these rows were released before."""
        if self._sink is None:
            return None
        ids, given = self._read(batch)
        people = self._people(ids)
        entries = self._entries(people, self._snapped(given), given if self._marked else {})
        here = np.ones(len(batch), dtype=np.bool_) if keep is None else keep
        return _gathered(entries, ids, here, int(here.sum()))

    def tell(self, gathered: tuple[Entries, Entries, int] | None) -> None:
        """Tell the sink of a batch."""
        if self._sink is not None and gathered is not None:
            self._sink(*gathered)

    @property
    def asks_vault(self) -> bool:
        """Whether some rows may be of people whom a vault serves by name."""
        return self._lookup is not None and self._lookup.some

    def settle(self) -> bool:
        """Compute what batches share; whether threads may then work on several at once.

        A calibration learns each noised point when it meets it first, which two threads must not
        do at once, so all are met here. On a grid too fine for that, or
        where people differ in public values, one thread works.
        """
        if self._calibration is None:
            return True
        sizes = {root: noise.domain.size for root, noise in self._noise.items()}
        if max(sizes.values()) > _SETTLED_GRID or self._calibration.public:
            return False
        self._calibration.medians_many({root: np.arange(size) for root, size in sizes.items()})
        return True

    def make(self, batch: RecordBatch, first: int = 0) -> BatchResult:
        """The new columns; of the batch only the columns that `layout.needed` names are read."""
        made = self._made(batch, first)
        self.tell(made.gathered)
        return made

    @property
    def _on_grids(self) -> bool:
        return self._calibration is None and not self.asks_vault

    def _made(self, batch: RecordBatch, first: int, *, categories: bool = False) -> BatchResult:
        ids, given = self._read(batch)
        tokens, unwritten = self._tokenised(batch)
        refused = self._refusals(ids, given, unwritten)
        people = self._people(ids)
        override = None
        if self._lookup is not None:
            override = self._lookup(ids, self._prf.tags(people), given)
        if override is not None and override.capped.size:
            over = np.zeros(len(batch), dtype=np.bool_)
            over[override.capped] = True
            refused.append((self.layout.id_column, "over a cap of this person", over))
        keep, rejects = self._side(refused, first, len(batch))
        snapped = self._snapped(given)
        gathered = None
        if self._sink is not None:
            released = len(batch) if keep is None else int(keep.sum())
            here = np.ones(len(batch), dtype=np.bool_) if keep is None else keep.copy()
            if override is not None:
                here[override.rows] = False
            entries = self._entries(people, snapped, given if self._marked else {})
            gathered = _gathered(entries, ids, here, released)
        drawn = {root: self._noise[root].draw(people, snapped[root]) for root in given}
        columns = self._answers(self._released(drawn, given, override), given)
        if categories:
            columns |= self._categories(drawn, given)
        columns |= tokens
        if keep is not None:
            mask = pa.array(keep)
            columns = {name: array.filter(mask) for name, array in columns.items()}
        return BatchResult(columns=columns, keep=keep, rejects=rejects, gathered=gathered)

    def survey(self, batch: RecordBatch) -> None:
        """Gather a batch's entries before anything is drawn or anybody is charged."""
        ids, given = self._read(batch)
        here = ~np.logical_or.reduce([absent(ids), *(found.refused for found in given.values())])
        people = self._people(ids)
        if self._lookup is not None:
            here &= ~self._lookup.known(self._prf.tags(people))
        entries = self._entries(people, self._snapped(given), given if self._marked else {})
        self.tell(_gathered(entries, ids, here, 0))

    def entries(self, batch: RecordBatch) -> tuple[Entries, Mask]:
        """An entry for each row of a batch, and where there is an id."""
        ids, given = self._read(batch)
        people = self._people(ids)
        return self._entries(people, self._snapped(given), given), ~absent(ids)

    def _people(self, ids: Array) -> People:
        return self._prf.people(*(text_bytes(ids) if self._prf.exact else comparable(ids)))

    def _read(self, batch: RecordBatch) -> tuple[Array, dict[RootName, Numbers]]:
        ids = texts(batch.column(self.layout.id_column))
        if ids is None:
            raise PrivateValueError("ids are texts or whole numbers, in", (self.layout.id_column,))
        given: dict[RootName, Numbers] = {}
        for root, column in self.layout.columns.items():
            found = typed(batch.column(column), self.template.roots[root])
            if found is None:
                raise PrivateValueError("a column of numbers is needed for", (root,))
            given[root] = found
        return ids, given

    def _snapped(self, given: Mapping[RootName, Numbers]) -> dict[RootName, Indices]:
        return {root: nearest(self._noise[root].domain, given[root].values) for root in given}

    def _entries(
        self,
        people: People,
        snapped: Mapping[RootName, Indices],
        given: Mapping[RootName, Numbers],
    ) -> Entries:
        """The fingerprints of every row's person and values."""
        entries = np.zeros(len(people), dtype=entry_type(len(given)))
        entries["tag"] = self._prf.tags(people)
        for place, root in enumerate(sorted(given)):
            values = self._noise[root].fingerprints(people, snapped[root])
            none = given[root].missing | given[root].refused
            entries["marks"][:, place] = np.where(none, np.uint32(0), values)
        return entries

    def _tokenised(self, batch: RecordBatch) -> tuple[dict[str, Array], dict[str, Mask]]:
        tokens: dict[str, Array] = {}
        wrong: dict[str, Mask] = {}
        for column, kind in self.layout.identifiers.items():
            written = texts(batch.column(column))
            if written is None or self._tokens is None:
                raise PrivateValueError("identifiers are texts or whole numbers, in", (column,))
            tokens[column], wrong[column] = self._tokens.protect(kind, written)
        return tokens, wrong

    def _refusals(
        self, ids: Array, given: Mapping[RootName, Numbers], unwritten: Mapping[str, Mask]
    ) -> list[tuple[str, str, Mask]]:
        found = [(self.layout.id_column, "the id is missing", absent(ids))]
        for root, column in self.layout.columns.items():
            type_ = self.template.roots[root].type
            wanted = "a number" if type_.name == "number" else type_.wanted.rstrip(",")
            found.append((column, f"not {wanted}", given[root].other))
            found.append((column, "not a finite number", given[root].endless))
        for column, wrong in unwritten.items():
            kind = self.layout.identifiers[column]
            found.append((column, f"not written as an identifier of kind {kind}", wrong))
        return found

    def _side(
        self, refused: list[tuple[str, str, Mask]], first: int, size: int
    ) -> tuple[Mask | None, RecordBatch]:
        some = [(column, reason, mask) for column, reason, mask in refused if mask.any()]
        if not some:
            return None, self._empty_rejects
        keep = np.ones(size, dtype=np.bool_)
        told: list[tuple[int, str, str]] = []
        for column, reason, mask in some:
            keep &= ~mask
            told += [(int(row), column, reason) for row in np.flatnonzero(mask)]
        told.sort(key=lambda line: line[0])
        rows = np.array([row for row, _, _ in told], dtype=np.int64) + first
        return keep, _rejects([(column, reason) for _, column, reason in told], rows)

    def _released(
        self,
        drawn: Mapping[RootName, Indices],
        given: Mapping[RootName, Numbers],
        override: Override | None,
    ) -> dict[str, Floats]:
        released = {root: self._noise[root].points[drawn[root]] for root in drawn}
        if self._calibration is not None:
            unknown = np.logical_or.reduce([given[root].missing for root in given])
            whole = np.flatnonzero(~unknown)
            known = {root: drawn[root][whole] for root in drawn}
            for root, values in self._calibration.release_many(known).items():
                domain = self.template.roots[root].domain
                released[root][whole] = np.clip(values, domain.lower, domain.upper)
        if override is not None:
            for root, values in override.values.items():
                released[root][override.rows] = values
        return {str(root): values for root, values in released.items()}

    def _answers(
        self, values: dict[str, Floats], given: Mapping[RootName, Numbers]
    ) -> dict[str, Array]:
        """Columns of everything the template computes; missing where a root it rests on is."""
        missing: dict[str, Mask] = {str(root): given[root].missing for root in given}
        columns: dict[str, Array] = {}
        for node in self._graph.order:
            if node.formula is not None:
                used = {parent: values[parent] for parent in names(node.formula)} or values
                values[node.name] = evaluate_many(node.formula, used)
                unknown = np.isnan(values[node.name])
                for parent in node.parents:
                    unknown |= missing[parent]
                missing[node.name] = unknown
            name = self.layout.columns.get(RootName(node.name), node.name)
            gone = missing[node.name]
            kind = self.layout.types.get(name, NUMBER)
            columns[name] = released_array(values[node.name], kind, gone)
        target = self.template.target.name
        if self.layout.risk is not None:
            columns[self.layout.risk] = self._risk(values[target], missing[target])
        return columns

    def _categories(
        self, drawn: Mapping[RootName, Indices], given: Mapping[RootName, Numbers]
    ) -> dict[str, Array]:
        """The columns of roots that are numbers, by the grid points that were drawn."""
        columns: dict[str, Array] = {}
        for root, indices in drawn.items():
            if self.template.roots[root].type.plain:
                gone = given[root].missing
                places = pa.array(indices, mask=gone if gone.any() else None)
                points = self._noise[root].categories
                columns[self.layout.columns[root]] = pa.DictionaryArray.from_arrays(places, points)
        return columns

    def _risk(self, target: Floats, missing: Mask) -> Array:
        codes = np.zeros(len(target), dtype=np.int8)
        for code, risk in reversed(list(enumerate(self.template.risk))):
            if risk.limit is None:
                codes[:] = code
            else:
                held = target <= risk.limit if risk.inclusive else target < risk.limit
                codes[held] = code
        labels = pa.array([risk.label for risk in self.template.risk], pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=missing), labels)


def _gathered(
    entries: Entries, ids: Array, here: Mask, released: int
) -> tuple[Entries, Entries, int]:
    """Entries of rows that are drawn here, and of other rows that have an id."""
    if here.all():
        return entries, entries[:0], released
    return entries[here], entries[~here & ~absent(ids)], released


def _rejects(told: list[tuple[str, str]], rows: Indices) -> RecordBatch:
    columns, reasons = [column for column, _ in told], [reason for _, reason in told]
    arrays = [pa.array(rows), pa.array(columns, pa.string()), pa.array(reasons, pa.string())]
    return pa.RecordBatch.from_arrays(arrays, schema=REJECTS)
