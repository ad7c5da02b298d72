"""What the page shows, as JSON: the audit log, the ledger, and a template's graph with its figures.

An entry of the audit log is one flat object. Values are those that were released. A refusal says
why in fixed words; an identifier that was never issued is shown by its kind and never by its text.

The ledger says what was spent: in all, on each root, in order, and who was given what at which
level. The graph says where the budget goes and what a value's error will be; all of it is public
and follows from the template, the plan and population figures. Slopes are taken at the template's
typical point, errors to first order, as the plan itself takes them.
"""

import math
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from typing import Final, assert_never, get_args

from rootguard.accounting import Ledger, Slopes, slopes
from rootguard.allocation import Plan, remarks
from rootguard.channels.faults import FAULTS
from rootguard.console.people import Viewer
from rootguard.errors import FormulaError, TextBlockedError, TextRule
from rootguard.events import (
    ChangedPlace,
    Charge,
    Event,
    LevelDerived,
    PlacesRefused,
    ProfileErased,
    RequestRefused,
    RootCharged,
    RootNoised,
    RootRefined,
    RootReturned,
    ServiceCharged,
    TableCharged,
    TableDrawKept,
    TokenRefused,
    ValueReleased,
    cost,
)
from rootguard.expressions import Interval, Node, bounds, evaluate, gradient, to_text
from rootguard.graph import Graph, GraphNode
from rootguard.store import LogEntry, lifetime_cap
from rootguard.template import Template
from rootguard.values import MICRO, Domain, RootName

REASONS: Final[Mapping[str, str]] = {
    "AccessError": "the policy does not allow this service to ask that",
    "BudgetError": "the privacy budget does not allow it",
    "FormulaLimitError": "the formula is larger than allowed",
    "FormulaNameError": "the formula names a value or a function that does not exist",
    "FormulaSyntaxError": "the text is not a formula",
    "FormulaUndefinedError": "the formula has no value here",
    "IdentifierError": "an identifier could not be protected, so nothing was sent",
    "NameTakenError": "the name already stands for something",
    "PrivateValueError": "one of the values that it uses was not given yet",
    "RequestRefusedError": "the request could not be inspected, so it was not sent",
    "StoreUnavailableError": "the vault was not available",
    "TextBlockedError": "a text held a number that looks private and is not declared; it was held "
    "back",
    "UnknownNameError": "nothing of this name is declared",
}
_CHANGES: Final[Mapping[str, str]] = {
    "value": "released value",
    "answer": "answer from a released value",
    "number": "number taken out",
    "text": "changed text",
}
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")

_Level = dict[str, object]
_KINDS = {
    RootNoised: "noised",
    RootRefined: "refined",
    LevelDerived: "derived-level",
    TableDrawKept: "table-draw",
    RootReturned: "returned",
    TableCharged: "tables",
    RootCharged: "totals",
    ServiceCharged: "service",
    ProfileErased: "erased",
}

# Several people may open the graph of one template at once; it is computed by the first of them.
_AT_A_TIME: Final = threading.Lock()
AMPLIFICATION: Final = (
    "If this value were noised on its own range at a root's epsilon, that one answer would tell "
    "its most exposed root up to this many times as well as an answer about the root itself "
    "(Theorem 2). Under RootGuard it is computed from roots that were noised once and tells "
    "nothing more. No number: there is no finite bound. Where the figure is an upper bound that no "
    "value attains, it says so and gives the largest one that is attained."
)
EXPECTED_ERROR: Final = (
    "Mean absolute error under the plan; for computed values to first order, at the template's "
    "typical point."
)
SENSITIVITY: Final = (
    "By how many of its own standard deviations a value moves when what it is computed from moves "
    "by one of its own, at the template's typical point."
)


def entry_json(entry: LogEntry, units: Mapping[str, str]) -> dict[str, object]:
    """One entry for the page. `units` are those of the named values."""
    event = entry.event
    body: dict[str, object] = {
        "id": entry.sequence,
        "at": entry.micros / 1e6,
        "kind": "",
        "service": entry.service,
        "tier": "",
        "name": "",
        "formula": "",
        "value": None,
        "unit": "",
        "rests_on": [],
        "cost": cost(event) / MICRO,
        "reason": "",
        "route": entry.route,
        "rule": "",
        "places": [],
    }
    return body | _details(event, units)


def _details(event: Event, units: Mapping[str, str]) -> dict[str, object]:
    match event:
        case ValueReleased():
            finite = not isinstance(event.value, float) or math.isfinite(event.value)
            known = event.name in units or not event.formula
            return {
                "kind": "released",
                "tier": event.tier,
                "name": event.name if known else "",  # else a number that the session gave it
                "formula": event.formula,
                "value": event.value if finite and event.value != "" else None,
                "unit": units.get(event.name, ""),
                "rests_on": list(event.rests_on),
            }
        case PlacesRefused(reason="", places=places):
            return {"kind": "changed", "reason": _counted(places), **_places(places)}
        case PlacesRefused(reason=reason, rule=rule, places=places):
            words = _rule_words(rule) or _words(reason)
            return {"kind": "refused", "reason": words, "rule": rule, **_places(places)}
        case RequestRefused(reason=reason):
            return {"kind": "refused", "reason": _words(reason)}
        case TokenRefused(identifier=kind, times=times):
            what = "one that was" if times == 1 else f"{times} that were"
            reason = f"a reply held {what} never issued to you"
            return {"kind": "unknown-identifier", "name": kind, "reason": reason}
        case RootNoised() | RootRefined() | LevelDerived() | TableDrawKept() | RootReturned():
            return {"kind": _KINDS[type(event)], "name": event.root, "rests_on": [event.root]}
        case TableCharged() | RootCharged() | ServiceCharged():
            return {"kind": _KINDS[type(event)], "name": event.root, "rests_on": [event.root]}
        case ProfileErased():
            return {"kind": "erased"}
        case _:
            assert_never(event)


def _words(reason: str) -> str:
    return REASONS.get(reason, _HUMP.sub(" ", reason.removesuffix("Error")).lower())


def _rule_words(rule: str) -> str:
    """What a rule of the channels says, in its own words; nothing for the classes of errors."""
    if rule in get_args(TextRule):
        return str(TextBlockedError(rule))  # type: ignore[arg-type]  # looked up just now
    fault = FAULTS.get(rule)  # type: ignore[call-overload]  # any other word is not in it
    return "" if fault is None else str(fault.text)


def _places(places: Sequence[ChangedPlace]) -> dict[str, object]:
    roots = dict.fromkeys(each.root for each in places if each.root)
    return {"rests_on": list(roots), "places": [asdict(each) for each in places]}


def _counted(places: Sequence[ChangedPlace]) -> str:
    """What stands in a request now, in words: "released value (2), email"."""
    counts: Counter[str] = Counter()
    for each in places:
        counts[_CHANGES.get(each.change, each.change)] += each.times
    return ", ".join(what if times == 1 else f"{what} ({times})" for what, times in counts.items())


def ledger_json(viewer: Viewer) -> dict[str, object]:
    """Everything about spending, as the page shows it."""
    store, person = viewer.store, viewer.principal
    events = store.events(person)
    ledger, caps = store.ledger(person), store.caps(person)
    spent = ledger.micro
    units = {name: each.unit for t in viewer.templates for name, each in t.roots.items()}
    labels = {name: each.label for t in viewer.templates for name, each in t.roots.items()}
    planned = [root for t in viewer.templates for root in Graph.of(t).roots]
    roots = dict.fromkeys([*planned, *sorted(spent), *sorted(set(caps) - {""})])
    levels = _levels(events)
    return {
        "total": {
            **_account(sum(spent.values()), caps.get("")),
            "draws": sum(ledger.draws.values()),
        },
        "roots": [
            {
                "root": root,
                "label": labels.get(RootName(root), root.replace("_", " ")),
                "unit": units.get(RootName(root), ""),
                **_account(spent.get(root, 0), lifetime_cap(ledger, caps, root)),
                "versions": len({version for name, version in levels if name == root}),
                "draws": ledger.draws.get(root, 0),
                "levels": [
                    {
                        "version": record.sanitized.version,
                        "epsilon": float(record.sanitized.epsilon),
                        "position": record.position,
                    }
                    for record in store.levels(person, RootName(root))
                ],
            }
            for root in roots
        ],
        "charges": _charges(viewer, events, spent),
        "disclosures": [
            {
                "service": each.service,
                "tier": each.tier,
                "root": each.root,
                "version": each.version,
                "epsilon": _at(levels.get((each.root, each.version), ()), each.position),
            }
            for each in store.disclosures(person)
        ],
        "tiers": _tiers(viewer),
    }


def _account(spent: int, cap: int | None) -> dict[str, object]:
    return {
        "spent": spent / MICRO,
        "cap": None if cap is None else cap / MICRO,
        "left": None if cap is None else max(cap - spent, 0) / MICRO,
    }


def _levels(events: Sequence[Charge]) -> dict[tuple[str, int], list[int]]:
    """The levels of each version of a root that is not erased, in micro-epsilon, by position."""
    levels: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for event in events:
        if isinstance(event, ProfileErased):
            levels.clear()
        elif isinstance(event, RootNoised):
            levels[event.root, event.version].append(event.micro_epsilon)
        elif isinstance(event, TableDrawKept | RootRefined | LevelDerived):
            levels[event.root, event.version].append(event.level)
    return dict(levels)


def _at(levels: Sequence[int], position: int) -> float | None:
    return levels[position] / MICRO if 0 <= position < len(levels) else None


def _charges(
    viewer: Viewer, events: Sequence[Charge], spent: Mapping[str, int]
) -> list[dict[str, object]]:
    """Every charge with its time, where the journal still has it: matched from the latest back.

    What released tables cost comes first: their runs are not a person's events.
    """
    noted = [each for each in viewer.store.log(viewer.principal) if type(each.event) in _KINDS]
    times: defaultdict[Charge, list[float]] = defaultdict(list)
    for each in noted:
        times[each.event].append(each.micros / 1e6)  # type: ignore[index]  # only charges are here
    seen: Counter[Charge] = Counter()
    at: list[float | None] = []
    for event in reversed(events):
        found = times.get(event, [])
        seen[event] += 1
        at.append(found[-seen[event]] if seen[event] <= len(found) else None)
    charged = Ledger(events).micro
    total = 0
    made: list[dict[str, object]] = []
    for root, micro in spent.items():
        if by_tables := micro - charged.get(root, 0):
            total += by_tables
            made.append(
                {
                    "at": None,
                    "kind": _KINDS[TableCharged],
                    "root": root,
                    "version": None,
                    "epsilon": by_tables / MICRO,
                    "level": None,
                    "total_after": total / MICRO,
                }
            )
    for event, when in zip(events, reversed(at), strict=True):
        total += cost(event)
        made.append(
            {
                "at": when,
                "kind": _KINDS[type(event)],
                "root": "" if isinstance(event, ProfileErased) else event.root,
                "version": getattr(event, "version", None),
                "epsilon": cost(event) / MICRO,
                "level": _level(event),
                "total_after": total / MICRO,
            }
        )
    return made


def _level(event: Charge) -> float | None:
    if isinstance(event, ProfileErased | RootReturned | TableCharged | RootCharged):
        return None
    return (event.micro_epsilon if isinstance(event, RootNoised) else event.level) / MICRO


def _tiers(viewer: Viewer) -> list[dict[str, object]]:
    policy = viewer.policy
    if policy is None:
        return []
    return [
        {
            "tier": tier,
            "budget": float(budget),
            "services": sorted(n for n, each in policy.services.items() if each.tier == tier),
        }
        for tier, budget in policy.tiers.items()
    ]


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
        "remarks": list(remarks(plan)),
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
            "label": self._label(node.name),
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
            "amplification_remark": "",
        }
        if node.formula is None:
            share = self._plan[node.name]
            body["epsilon"] = float(share.epsilon)
            body["share"] = float(share.epsilon / self._plan.budget)
            body["sensitivity"] = share.sensitivity
        else:
            worst = amplifications(self._template)[node.name]
            body["amplification"] = None if worst is None else _finite(worst.amplification)
            body["amplification_remark"] = "" if worst is None else worst.remark
        return body

    def _label(self, name: str) -> str:
        root = self._template.roots.get(RootName(name))
        return name.replace("_", " ") if root is None else root.label

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


def amplifications(template: Template) -> Mapping[str, Slopes | None]:
    """Theorem 2 for each computed value and the root that it tells most about; None: no root.

    Takes a second for some templates, so it is computed once: who comes meanwhile waits.
    """
    with _AT_A_TIME:
        return _amplifications(template)


@lru_cache(maxsize=256)
def _amplifications(template: Template) -> Mapping[str, Slopes | None]:
    graph = Graph.of(template)
    domains: dict[str, Domain] = {str(r): template.roots[r].domain for r in graph.roots}
    found: dict[str, Slopes | None] = {}
    for node in graph.order:
        if node.formula is not None:
            each = slopes(graph.in_roots(node.formula), domains)
            found[node.name] = max(each, key=lambda one: one.amplification, default=None)
    return found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
