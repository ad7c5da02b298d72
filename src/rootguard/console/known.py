"""What is known about a person: the range that every recipient is left with, for each value.

It is computed from what the vault says was disclosed and from public figures, as an adversary would
compute it who knows the method and the population. Nobody's true value is needed, and none is here.
`goals_json` says the same of a choice before it is made: how far values are hidden, at which cost.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from rootguard.advice.costs import HidingChoice, choices, recommended
from rootguard.attacks.belief import Belief, informed_prior
from rootguard.attacks.oracle import grid
from rootguard.console.people import Viewer
from rootguard.graph import Graph
from rootguard.mechanisms import mechanism
from rootguard.store import Record
from rootguard.template import Root, Template
from rootguard.values import RootName, Sanitized

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
    given = viewer.store.disclosures(viewer.principal)
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
                    {"service": service, "range": _range(root, found)}
                    for service, found in _finest(
                        levels[name],
                        [(g.service, g.version, g.position) for g in given if g.root == name],
                    ).items()
                ],
            }
            for name, root in roots.items()
            if root.type.on_a_line and not root.public
        ],
    }


def _finest(
    levels: Sequence[Record], given: Sequence[tuple[str, int, int]]
) -> dict[str, Sanitized]:
    """By service: the most exact version of the current value that it was given."""
    found: dict[str, Sanitized] = {}
    for service, version, position in given:
        for record in levels:
            value = record.sanitized
            if (value.version, record.position) == (version, position):
                before = found.get(service)
                if before is None or value.epsilon > before.epsilon:
                    found[service] = value
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


def goals_json(template: Template) -> dict[str, object]:
    """What it costs to hide values nearer or further than the template advises."""
    found = choices(template, people=4_000)
    best = recommended(found)
    return {
        "template": template.name,
        "target": template.target.name,
        "choices": [_choice(template, each) | {"advised": each is best} for each in found],
    }


def _choice(template: Template, each: HidingChoice) -> dict[str, object]:
    hidden: Mapping[str, float] = each.hide
    return {
        "scale": float(each.scale),
        "target_error": each.cost.target_error,
        "median_error": each.cost.median_error,
        "wrong_class_rate": each.cost.wrong_class_rate,
        "values": [
            {
                "title": template.root(name).label,
                "unit": template.root(name).unit,
                "hide": far,
                "error": each.plan[name].expected_error,
                "adversary": each.cost.adversary[RootName(name)],
            }
            for name, far in hidden.items()
        ],
    }
