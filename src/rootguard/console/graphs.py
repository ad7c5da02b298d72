"""A template's graph with its figures: where the budget goes, and what a value's error will be.

All of it is public: it follows from the template, the plan and population figures. Slopes are taken
at the template's typical point, errors to first order, as the plan itself takes them.
"""

import math
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Final

from rootguard.accounting import slopes
from rootguard.allocation import Plan
from rootguard.errors import FormulaError
from rootguard.expressions import Interval, Node, bounds, evaluate, gradient, to_text
from rootguard.graph import Graph, GraphNode
from rootguard.template import Template
from rootguard.values import Domain

_AT_A_TIME: Final = threading.Lock()
AMPLIFICATION: Final = (
    "If this value were noised on its own range at a root's epsilon, that one answer would tell "
    "its most exposed root up to this many times as well as an answer about the root itself "
    "(Theorem 2). Under RootGuard it is computed from roots that were noised once and tells "
    "nothing more. No number: there is no finite bound."
)
EXPECTED_ERROR: Final = (
    "Mean absolute error under the plan; for computed values to first order, at the template's "
    "typical point."
)
SENSITIVITY: Final = (
    "By how many of its own standard deviations a value moves when what it is computed from moves "
    "by one of its own, at the template's typical point."
)


def graph_json(template: Template, plan: Plan) -> dict[str, object]:
    """The graph as the page draws it."""
    graph = Graph.of(template)
    figures = _Figures(template, graph, plan)
    return {
        "template": template.name,
        "title": template.title,
        "mechanism": plan.mechanism,
        "budget": float(plan.budget),
        "nodes": [figures.node(node) for node in graph.order],
        "edges": [figures.edge(parent, node) for node in graph.order for parent in node.parents],
        "amplification_means": AMPLIFICATION,
        "expected_error_means": EXPECTED_ERROR,
        "sensitivity_means": SENSITIVITY,
    }


class _Figures:
    """Slopes, spreads and errors of every node at the typical point."""

    def __init__(self, template: Template, graph: Graph, plan: Plan) -> None:
        self._template = template
        self._graph = graph
        self._plan = plan
        self._domains = {str(share.root): share.domain for share in plan.shares}
        centre = template.centre()
        self._point: dict[str, float] = {str(root): centre[root] for root in graph.roots}
        self._slopes: dict[str, dict[str, float]] = {root: {root: 1.0} for root in graph.roots}
        for node in graph.order:
            if node.formula is not None:
                with suppress(FormulaError):
                    self._point[node.name] = evaluate(node.formula, self._point)
                self._slopes[node.name] = _gradient(graph.in_roots(node.formula), self._point)

    def node(self, node: GraphNode) -> dict[str, object]:
        """One node with its figures."""
        error = self._error(node.name)
        value = self._point.get(node.name)
        body: dict[str, object] = {
            "name": node.name,
            "label": node.name.replace("_", " "),
            "kind": node.kind,
            "unit": node.unit,
            "formula": "" if node.formula is None else to_text(node.formula),
            "bounds": self._bounds(node),
            "epsilon": None,
            "share": None,
            "sensitivity": None,
            "expected_error": _finite(error),
            "expected_error_percent": _finite(100 * error / abs(value)) if value else None,
            "amplification": None,
        }
        if node.formula is None:
            share = self._plan[node.name]
            body["epsilon"] = float(share.epsilon)
            body["share"] = float(share.epsilon / self._plan.budget)
            body["sensitivity"] = share.sensitivity
        else:
            body["amplification"] = amplifications(self._template)[node.name]
        return body

    def edge(self, parent: str, node: GraphNode) -> dict[str, object]:
        """How strongly a node follows a parent, and how much of the budget lies behind that."""
        along = {} if node.formula is None else _gradient(node.formula, self._point)
        own = self._spread(node.name)
        felt = abs(along.get(parent, 0.0)) * self._spread(parent) / own if own > 0 else 0.0
        behind = {root for root, slope in self._slopes[parent].items() if slope or root == parent}
        paid = sum(share.epsilon for share in self._plan.shares if share.root in behind)
        return {
            "source": parent,
            "target": node.name,
            "sensitivity": _finite(felt),
            "share": float(paid / self._plan.budget),
        }

    def _error(self, name: str) -> float:
        """|h_1| eta_1 + ... over the roots: the estimate that the plan minimises."""
        errors = {str(share.root): share.expected_error for share in self._plan.shares}
        return sum(abs(slope) * errors[root] for root, slope in self._slopes[name].items())

    def _spread(self, name: str) -> float:
        """The standard deviation in the population, to first order and as if roots were apart."""
        moved = (slope * self._root_spread(root) for root, slope in self._slopes[name].items())
        return math.hypot(*moved)

    def _root_spread(self, name: str) -> float:
        for root in self._template.roots.values():
            if root.name == name and root.sd is not None:
                return root.sd
        return self._domains[name].width / math.sqrt(12)  # as if every value were alike

    def _bounds(self, node: GraphNode) -> list[float] | None:
        if node.formula is None:
            domain = self._domains[node.name]
            return [domain.lower, domain.upper]
        box = {name: Interval(each.lower, each.upper) for name, each in self._domains.items()}
        with suppress(FormulaError):
            found = bounds(self._graph.in_roots(node.formula), box)
            if math.isfinite(found.lower) and math.isfinite(found.upper):
                return [found.lower, found.upper]
        return None


def _gradient(formula: Node, point: Mapping[str, float]) -> dict[str, float]:
    try:
        return gradient(formula, point)[1]
    except FormulaError:
        return {}


def amplifications(template: Template) -> Mapping[str, float | None]:
    """Theorem 2's largest factor for each computed value; None where none is finite.

    Takes seconds for some templates, so it is computed once: who comes meanwhile waits.
    """
    with _AT_A_TIME:
        return _amplifications(template)


@lru_cache(maxsize=256)
def _amplifications(template: Template) -> Mapping[str, float | None]:
    graph = Graph.of(template)
    domains: dict[str, Domain] = {str(r): template.roots[r].domain for r in graph.roots}
    found: dict[str, float | None] = {}
    for node in graph.order:
        if node.formula is not None:
            each = slopes(graph.in_roots(node.formula), domains)
            found[node.name] = _finite(max((one.amplification for one in each), default=0.0))
    return found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
