"""What was spent: in all, on each root, in order, and who was given what at which level."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from rootguard.accounting import Ledger
from rootguard.console.people import Viewer
from rootguard.events import Charge, LevelDerived, ProfileErased, RootNoised, RootRefined, cost
from rootguard.graph import Graph
from rootguard.values import MICRO, RootName

_Level = dict[str, object]
_KINDS = {
    RootNoised: "noised",
    RootRefined: "refined",
    LevelDerived: "derived-level",
    ProfileErased: "erased",
}


def ledger_json(viewer: Viewer) -> dict[str, object]:
    """Everything about spending, as the page shows it."""
    store, person = viewer.store, viewer.principal
    events = store.events(person)
    spent, caps = Ledger(events).micro, store.caps(person)
    units = {name: each.unit for t in viewer.templates for name, each in t.roots.items()}
    planned = [root for t in viewer.templates for root in Graph.of(t).roots]
    roots = dict.fromkeys([*planned, *sorted(spent), *sorted(set(caps) - {""})])
    levels = _levels(events)
    return {
        "total": _account(sum(spent.values()), caps.get("")),
        "roots": [
            {
                "root": root,
                "label": root.replace("_", " "),
                "unit": units.get(RootName(root), ""),
                **_account(spent.get(root, 0), caps.get(root)),
                "versions": len({version for name, version in levels if name == root}),
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
        "charges": _charges(viewer, events),
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
        else:
            levels[event.root, event.version].append(event.level)
    return dict(levels)


def _at(levels: Sequence[int], position: int) -> float | None:
    return levels[position] / MICRO if 0 <= position < len(levels) else None


def _charges(viewer: Viewer, events: Sequence[Charge]) -> list[dict[str, object]]:
    """Every charge with its time, where the journal still has it: matched from the latest back."""
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
    total = 0
    made: list[dict[str, object]] = []
    for event, when in zip(events, reversed(at), strict=True):
        total += cost(event)
        made.append(
            {
                "at": when,
                "kind": _KINDS[type(event)],
                "root": "" if isinstance(event, ProfileErased) else event.root,
                "version": None if isinstance(event, ProfileErased) else event.version,
                "epsilon": cost(event) / MICRO,
                "level": _level(event),
                "total_after": total / MICRO,
            }
        )
    return made


def _level(event: Charge) -> float | None:
    if isinstance(event, ProfileErased):
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
