"""Which column of a table is what, settled once from its names and types, before any row is read.

Columns that carry a root or something computed are replaced where they stand, under their own
names; what is computed and not there yet is appended. Every other column passes as it is, so a
column that is named like a root but not declared as one is refused, not passed.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast, get_args

from rootguard.batch.arrow import Schema, pa
from rootguard.errors import IdentifierError, NameTakenError, PrivateValueError, UnknownNameError
from rootguard.graph import Graph
from rootguard.identifiers import Kind
from rootguard.template import Template
from rootguard.values import RootName


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """The columns of a table. `columns` names each root's, `computed` what is added."""

    id_column: str
    columns: Mapping[RootName, str]
    identifiers: Mapping[str, Kind]
    computed: tuple[str, ...]
    risk: str | None

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns that are read; the others are only passed on."""
        return tuple(dict.fromkeys([self.id_column, *self.columns.values(), *self.identifiers]))

    def output(self, schema: Schema) -> Schema:
        """The schema of the table that comes out."""
        types = dict.fromkeys([*self.columns.values(), *self.computed], pa.float64())
        types |= dict.fromkeys(self.identifiers, pa.large_string())
        if self.risk is not None:
            types[self.risk] = pa.dictionary(pa.int8(), pa.string())
        fields = [
            pa.field(field.name, types.pop(field.name)) if field.name in types else field
            for field in schema
        ]
        fields += [pa.field(name, kind) for name, kind in types.items()]
        made = {*self.columns.values(), *self.computed, *self.identifiers, self.risk}
        return pa.schema(fields, metadata=_metadata(schema.metadata, made))


def lay_out(
    template: Template,
    names: Iterable[str],
    *,
    id_column: str,
    columns: Mapping[str, str] | None = None,
    identifiers: Mapping[str, Kind] | None = None,
) -> Layout:
    """The layout of a table with these columns, checked against the template."""
    there = list(names)
    if len(set(there)) < len(there):
        raise NameTakenError(next(name for name in there if there.count(name) > 1))
    graph = Graph.of(template)
    for root in columns or {}:
        if root not in graph.roots:
            raise UnknownNameError("root", root, graph.roots)
    chosen = {root: (columns or {}).get(root, str(root)) for root in graph.roots}
    missing = tuple(root for root, column in chosen.items() if column not in there)
    if missing:
        raise PrivateValueError("the table has no column for", missing)
    for column in (id_column, *(identifiers or {})):
        if column not in there:
            raise UnknownNameError("column", column, tuple(there))
        if column in chosen.values() or column in graph:
            raise NameTakenError(column)
    for kind in (identifiers or {}).values():
        if kind not in get_args(Kind):
            known = ", ".join(get_args(Kind))
            raise IdentifierError(f"there is no such kind of identifier; there is {known}")
    computed = tuple(node.name for node in graph.order if node.formula is not None)
    risk = f"{template.target.name}_risk" if "risk" in graph else "risk"
    layout = Layout(
        id_column=id_column,
        columns=chosen,
        identifiers=dict(identifiers or {}),
        computed=computed,
        risk=risk if template.risk else None,
    )
    _check_strangers(template, layout, there)
    return layout


def _check_strangers(template: Template, layout: Layout, there: Iterable[str]) -> None:
    """Refuse a column that passes unread and is called like a root."""
    placed = {*layout.needed, *layout.computed, layout.risk}
    called = {
        alias.casefold(): root.name
        for root in template.roots.values()
        for alias in (root.name, *root.aliases)
    }
    for name in there:
        root = called.get(name.strip().casefold())
        if name not in placed and root is not None:
            raise PrivateValueError(
                f"column {name[:64]!r} would pass as it is, but is called like a root; drop it or "
                "declare it as the column of",
                (root,),
            )


def _metadata(
    metadata: dict[bytes, bytes] | None, made: set[str | None]
) -> dict[bytes, bytes] | None:
    """What pandas wrote about its columns, without those that are not what they were."""
    if not metadata or b"pandas" not in metadata:
        return metadata
    content = json.loads(metadata[b"pandas"])
    kept = [entry for entry in content.get("columns", []) if entry.get("field_name") not in made]
    content["columns"] = kept
    return cast("dict[bytes, bytes]", {**metadata, b"pandas": json.dumps(content).encode()})
