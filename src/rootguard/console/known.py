"""What is known about a person: the range that every recipient is left with, for each value.

It is computed from what the vault says was disclosed and from public figures, as an adversary would
compute it who knows the method and the population. Nobody's true value is needed, and none is here.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from rootguard.attacks.belief import Belief, informed_prior
from rootguard.attacks.oracle import grid
from rootguard.console.people import Viewer
from rootguard.events import RootNoised, RootReturned, TableDrawKept, ValueReleased
from rootguard.graph import Graph
from rootguard.mechanisms import mechanism
from rootguard.store import Record
from rootguard.template import Root
from rootguard.values import RootName, Sanitized, to_micro

SURE: Final = 0.9
"""How sure the range is: nine times in ten."""
_TAILS: Final = ((1 - SURE) / 2, (1 + SURE) / 2)


def known_json(viewer: Viewer) -> dict[str, object]:
    """By value: its scale, where most people are, and what each recipient was left with."""
    roots: dict[RootName, Root] = {}
    for template in viewer.templates:
        for root in Graph.of(template).roots:
            roots.setdefault(root, template.roots[root])
    levels = {root: viewer.store.levels(viewer.principal, root) for root in roots}
    told = _told(viewer, levels)
    return {
        "sure": SURE,
        "values": [
            {
                "name": name,
                "title": root.label,
                "unit": root.unit,
                "lower": root.domain.lower,
                "upper": root.domain.upper,
                "population": _population(root),
                "noised": bool(levels[name]),
                "recipients": [
                    {"service": service, "range": _range(root, found[name])}
                    for service, found in told.items()
                    if name in found
                ],
            }
            for name, root in roots.items()
            if root.type.on_a_line and not root.public
        ],
    }


def _told(
    viewer: Viewer, levels: Mapping[RootName, Sequence[Record]]
) -> dict[str, dict[RootName, Sanitized]]:
    """By recipient and root: the most exact version of the current value that it was given.

    The vault keeps what was given to whom under a policy. Without one it is given to "", and the
    audit log says to whom it went on; what the log holds no more of is left with "".
    """
    found: dict[str, dict[RootName, Sanitized]] = {}

    def give(service: str, value: Sanitized) -> None:
        own = found.setdefault(service, {})
        if value.root not in own or own[value.root].epsilon < value.epsilon:
            own[value.root] = value

    logged = _logged(viewer)
    for root, records in levels.items():
        for record in records:
            value = record.sanitized
            for service in logged.get((root, value.version, to_micro(value.epsilon)), ()):
                give(service, value)
    attributed = {root for own in found.values() for root in own}
    for each in viewer.store.disclosures(viewer.principal):
        name = RootName(each.root)
        if each.service or name not in attributed:
            for record in levels.get(name, ()):
                if (record.sanitized.version, record.position) == (each.version, each.position):
                    give(each.service, record.sanitized)
    return found


def _logged(viewer: Viewer) -> dict[tuple[str, int, int], set[str]]:
    """Which recipients were given a root's version at a level, as far as the audit log goes."""
    versions: dict[str, int] = {}
    found: dict[tuple[str, int, int], set[str]] = {}
    for entry in viewer.store.log(viewer.principal):
        match entry.event:
            case RootNoised() | RootReturned() | TableDrawKept() as event:
                versions[event.root] = event.version
            case ValueReleased() as event:
                for root, level in zip(event.rests_on, event.levels, strict=False):
                    if root in versions:
                        place = (root, versions[root], level)
                        found.setdefault(place, set()).add(entry.service)
            case _:
                pass
    return found


def _range(root: Root, value: Sanitized) -> list[float] | None:
    """Where the value lies nine times in ten, to somebody who knows the method and the people."""
    if value.mechanism in ("public", "distances"):
        return None
    noise = mechanism(value.mechanism, value.epsilon, value.domain.size)
    points = grid(value.domain)
    scores = noise.log_pmf(np.arange(value.domain.size), np.full(value.domain.size, value.index))
    density = informed_prior(root).log_density
    if density is not None and density.shape == scores.shape:
        scores = scores + density
    belief = Belief.from_scores(points[None, :], scores[None, :])
    return [float(belief.quantile(share)[0]) for share in _TAILS]


def _population(root: Root) -> list[float] | None:
    """Where nine in ten people lie by public figures; None without them."""
    density = informed_prior(root).log_density
    if density is None or root.sd is None:
        return None
    belief = Belief.from_scores(grid(root.domain)[None, :], density[None, :])
    return [float(belief.quantile(share)[0]) for share in _TAILS]
