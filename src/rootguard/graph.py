"""Which value depends on which root: a directed graph that grows as values are asked for.

Roots are noised; every other node is a formula of earlier ones. Level 1 of the paper lives here: a
declared root that carries a formula of other roots is a computed node, not a root, and costs
nothing.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import combinations
from typing import Literal

from rootguard.errors import CycleError, FormulaNameError, NameTakenError, UnknownNameError
from rootguard.expressions import Node, Variable, names, put_in, substitute, to_text
from rootguard.language.fold import key_of
from rootguard.language.names import concept_of
from rootguard.template import Root, Template, catalog, load_template
from rootguard.values import RootName

NodeKind = Literal["root", "derived", "target", "request"]


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphNode:
    """A named value. A root has no formula; everything else has one over earlier names."""

    name: str
    kind: NodeKind
    formula: Node | None = None
    unit: str = ""

    @property
    def parents(self) -> tuple[str, ...]:
        """The names its formula uses, sorted."""
        return () if self.formula is None else tuple(sorted(names(self.formula)))


class Graph:
    """A DAG of named values, in an order in which every node follows its parents."""

    def __init__(self, nodes: Iterable[GraphNode] = ()) -> None:
        self._nodes: dict[str, GraphNode] = {}
        self._roots: tuple[RootName, ...] = ()
        # The roots behind each name, so that no question walks the graph: it may have grown long.
        self._behind: dict[str, frozenset[str]] = {}
        named: dict[str, GraphNode] = {}
        for node in nodes:
            if node.name in named:
                raise NameTakenError(node.name)
            named[node.name] = node
        for node in _in_order(named):
            self.add(node)

    @classmethod
    def of(cls, template: Template) -> "Graph":
        """The graph a template declares; its roots with a formula are computed, not noised."""
        declared = _declared(template)
        graph = cls()
        graph._nodes = dict(declared._nodes)
        graph._roots = declared._roots
        graph._behind = dict(declared._behind)
        return graph

    def __contains__(self, name: object) -> bool:
        return name in self._nodes

    def __getitem__(self, name: str) -> GraphNode:
        try:
            return self._nodes[name]
        except KeyError:
            raise UnknownNameError("value", name, tuple(self._nodes)) from None

    @property
    def order(self) -> tuple[GraphNode, ...]:
        """Every node, each after its parents."""
        return tuple(self._nodes.values())

    @property
    def roots(self) -> tuple[RootName, ...]:
        """The names that are noised."""
        return self._roots

    def add(self, node: GraphNode) -> None:
        """One more node, which may depend on those already here and on nothing else."""
        if node.name in self._nodes:
            raise NameTakenError(node.name)
        if node.kind == "root":
            self._behind[node.name] = frozenset((node.name,))
            self._roots = (*self._roots, RootName(node.name))
        else:
            self._behind[node.name] = self._roots_of(node.parents)
        self._nodes[node.name] = node

    def in_roots(self, formula: Node) -> Node:
        """The same formula with every computed name replaced by its own formula, down to roots."""
        used = self._closure(names(formula))
        replacements: dict[str, Node] = {}
        for node in self._nodes.values():  # parents first, so what is put in is in roots already
            if node.name in used and node.formula is not None:
                replacements[node.name] = put_in(node.formula, replacements)
        return put_in(formula, replacements)

    def rests_on(self, formula: Node) -> tuple[RootName, ...]:
        """The roots that a formula's value depends on, in declared order."""
        used = self._roots_of(names(formula))
        return tuple(root for root in self._roots if root in used)

    def _roots_of(self, wanted: Iterable[str]) -> frozenset[str]:
        used: frozenset[str] = frozenset()
        for name in wanted:
            if name not in self._behind:
                raise FormulaNameError(name, tuple(self._nodes))
            used |= self._behind[name]
        return used

    def _closure(self, wanted: frozenset[str]) -> set[str]:
        used: set[str] = set()
        stack = list(wanted)
        while stack:
            name = stack.pop()
            if name not in self._nodes:
                raise FormulaNameError(name, tuple(self._nodes))
            if name not in used:
                used.add(name)
                stack += self._nodes[name].parents
        return used

    def to_json(self) -> str:
        """Nodes and edges, for machines."""
        nodes = [
            {
                "name": node.name,
                "kind": node.kind,
                "formula": None if node.formula is None else to_text(node.formula),
                "unit": node.unit,
                "parents": list(node.parents),
            }
            for node in self.order
        ]
        return json.dumps({"nodes": nodes}, indent=2, ensure_ascii=False)

    def to_mermaid(self) -> str:
        """A Mermaid flow chart: roots are rounded, the target is a hexagon."""
        shapes: dict[NodeKind, Callable[[str], str]] = {
            "root": "([{}])".format,
            "derived": "[{}]".format,
            "target": "{{{{{}}}}}".format,
            "request": "[/{}/]".format,
        }
        ids = {node.name: f"n{number}" for number, node in enumerate(self.order)}
        lines = ["flowchart LR"]
        for node in self.order:
            lines.append(f"  {ids[node.name]}{shapes[node.kind](_quoted(_html(_label(node))))}")
            lines += [f"  {ids[parent]} --> {ids[node.name]}" for parent in node.parents]
        return "\n".join(lines) + "\n"

    def to_dot(self) -> str:
        """A Graphviz drawing: roots are ellipses, the target is a hexagon."""
        shapes: dict[NodeKind, str] = {
            "root": "ellipse",
            "derived": "box",
            "target": "hexagon",
            "request": "parallelogram",
        }
        lines = ["digraph rootguard {", "  rankdir=LR;"]
        for node in self.order:
            label = _quoted(_label(node))
            lines.append(f"  {_quoted(node.name)} [shape={shapes[node.kind]}, label={label}];")
            lines += [f"  {_quoted(parent)} -> {_quoted(node.name)};" for parent in node.parents]
        return "\n".join([*lines, "}"]) + "\n"


def _label(node: GraphNode) -> str:
    return node.name if node.formula is None else f"{node.name} = {to_text(node.formula)}"


def _html(text: str) -> str:
    """Mermaid reads labels as HTML, where a comparison would open a tag."""
    return text.replace("<", "#lt;").replace(">", "#gt;")


def _quoted(text: str) -> str:
    """In double quotes. Names and formulas hold no quote, backslash or line break to escape."""
    return f'"{text}"'


@lru_cache(maxsize=256)  # public, and every session of a template begins with it
def _declared(template: Template) -> Graph:
    nodes = [
        GraphNode(
            name=root.name,
            kind="root" if root.formula is None else "derived",
            formula=root.formula,
            unit=root.unit,
        )
        for root in template.roots.values()
    ]
    nodes += [
        GraphNode(name=derived.name, kind="derived", formula=derived.formula, unit=derived.unit)
        for derived in template.derived.values()
    ]
    target = template.target
    nodes.append(
        GraphNode(name=target.name, kind="target", formula=target.formula, unit=target.unit)
    )
    return Graph(nodes)


def _in_order(nodes: Mapping[str, GraphNode]) -> list[GraphNode]:
    """Roots as given, then parents before children; a ring is refused with the names in it."""
    ordered: dict[str, GraphNode] = {}
    # A stable sort: roots stay in declared order, the order of plans, ledgers and printed tables.
    for first in sorted(nodes, key=lambda name: nodes[name].formula is not None):
        path: dict[str, Iterator[str]] = {}  # names being visited, and their parents still to visit
        wanted: str | None = first
        while wanted is not None or path:
            if wanted is None:
                name, parents = next(reversed(path.items()))
                wanted = next(parents, None)
                if wanted is None:
                    ordered[name] = nodes[name]
                    del path[name]
            elif wanted in ordered:
                wanted = None
            elif wanted in path:
                ring = list(path)
                raise CycleError((*ring[ring.index(wanted) :], wanted))
            elif wanted not in nodes:
                raise FormulaNameError(wanted, tuple(nodes))
            else:
                path[wanted] = iter(nodes[wanted].parents)
                wanted = None
    return list(ordered.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class Recognised:
    """A declared root that a catalog formula would compute from other declared roots."""

    root: RootName
    formula: str
    source: str

    def __str__(self) -> str:
        return (
            f"{self.root} looks like {self.formula} (template {self.source}): give it "
            f'formula = "{self.formula}" and it costs no budget'
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedQuantity:
    """Two values of one quantity under different names, of which at least one is a noised root."""

    root: RootName
    template: str
    other: str
    other_template: str
    called: str
    formula: str | None
    """What computes the other one; None if it is a noised root as well."""

    def __str__(self) -> str:
        apart = self.template != self.other_template
        where = (f" of {self.template}", f" of {self.other_template}") if apart else ("", "")
        said = f"{self.root}{where[0]} and {self.other}{where[1]} are both called {self.called!r}"
        more = "together they tell more about one value than either does"
        if self.formula is not None:
            key, text = ("kept", self.formula) if apart else ("formula", self.other)
            return (
                f"{said}: {self.root} is noised on its own, {self.other} is computed, so {more}. "
                f"Declare {self.root} by {key}, as {text} (docs/templates.md), or leave it out."
            )
        remedy = (
            "Call both by one name, or declare one as a formula of the other by kept"
            if apart
            else "Keep one of the two, or declare one as a formula of the other by formula"
        )
        return f"{said} and each is noised on its own: {more}. {remedy} (docs/templates.md)."


def recognise(template: Template) -> tuple[Recognised, ...]:
    """Roots that the catalog knows as formulas of other roots declared beside them.

    A name or alias must match, and so must the unit of every value involved: a formula for metres
    is not offered to a height in centimetres. A root is never explained by one that depends on it.
    Only reported, never applied silently.
    """
    graph = Graph.of(template)
    found = []
    for root in template.roots.values():
        if root.formula is not None:
            continue
        others = {
            (alias, other.unit): other.name
            for other in template.roots.values()
            if root.name not in graph.rests_on(Variable(other.name))
            for alias in _spellings(other)
        }
        for spelling in sorted(_spellings(root)):
            for source, unit, formula, inputs in _known_formulas().get(spelling, ()):
                renamed = {name: _match(others, aliases, u) for name, aliases, u in inputs}
                nodes = {old: Variable(new) for old, new in renamed.items() if new is not None}
                if unit == root.unit and len(set(nodes.values())) == len(inputs) > 0:
                    text = to_text(substitute(formula, nodes))
                    found.append(Recognised(root=root.name, formula=text, source=source))
    unique = {hit.root: hit for hit in reversed(found)}  # reversed: the first find of a root stays
    return tuple(unique[name] for name in template.roots if name in unique)


def _spellings(root: Root) -> frozenset[str]:
    return frozenset(alias.casefold() for alias in (root.name, *root.aliases))


def _match(
    others: Mapping[tuple[str, str], RootName], spellings: frozenset[str], unit: str
) -> RootName | None:
    return next((others[key] for s in sorted(spellings) if (key := (s, unit)) in others), None)


_Known = tuple[str, str, Node, tuple[tuple[str, frozenset[str], str], ...]]


@cache
def _known_formulas() -> dict[str, list[_Known]]:
    """Catalog formulas by the name of what they compute: (template, unit, formula, its roots)."""
    known: dict[str, list[_Known]] = {}
    for name in catalog():
        template = load_template(name)
        graph = Graph.of(template)
        for node in graph.order:
            if node.formula is None:
                continue
            formula = graph.in_roots(node.formula)
            inputs = tuple(
                (root, _spellings(template.roots[root]), template.roots[root].unit)
                for root in graph.rests_on(formula)
            )
            spellings = {node.name.casefold()}
            if root_node := template.roots.get(RootName(node.name)):
                spellings |= _spellings(root_node)
            for spelling in spellings:
                known.setdefault(spelling, []).append((name, node.unit, formula, inputs))
    return known


def shared_quantities(templates: Iterable[Template]) -> tuple[SharedQuantity, ...]:
    """Values of these templates that are one quantity by their names, each noised on its own.

    By a name or alias that both declare, or by the index of names, where `wt` is a weight. A root
    that is computed, here or from kept values, takes no noise of its own and is not reported; nor
    are roots of the same name, which a store keeps as one.
    """
    values: dict[str, _Named] = {}
    for template in templates:
        graph = Graph.of(template)
        for node in graph.order:
            root = template.roots.get(RootName(node.name))
            if root is None or root.kept is None:
                words = (node.name, *(() if root is None else root.aliases))
                named = _Named(template=template.name, node=node, words=words, graph=graph)
                values.setdefault(node.name, named)
    found = []
    for pair in combinations(values.values(), 2):
        one, two = sorted(pair, key=lambda value: value.node.kind != "root")
        called = one.shares(two)
        rests_on = () if two.node.formula is None else two.graph.rests_on(two.node.formula)
        if one.node.kind == "root" and called and one.node.name not in rests_on:
            found.append(
                SharedQuantity(
                    root=RootName(one.node.name),
                    template=one.template,
                    other=two.node.name,
                    other_template=two.template,
                    called=called,
                    formula=two.formula,
                )
            )
    return tuple(found)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Named:
    """A value of a template with all that it is called there."""

    template: str
    node: GraphNode
    words: tuple[str, ...]
    graph: Graph

    def shares(self, other: "_Named") -> str | None:
        """A name of both: one that each declares, else the index's."""
        theirs = {key_of(word) for word in other.words}
        both = next((word for word in self.words if key_of(word) in theirs), None)
        concept, another = (concept_of(value.words[0], value.words) for value in (self, other))
        return both or (concept.name if concept is not None and concept == another else None)

    @property
    def formula(self) -> str | None:
        """What computes it, in roots; None for a root."""
        formula = self.node.formula
        return None if formula is None else to_text(self.graph.in_roots(formula))
