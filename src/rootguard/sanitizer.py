"""The only place where a raw value becomes a sanitized one.

The plan is priced again before anything is drawn. If a draw fails, the error that leaves here has
no cause, no context and no frame in which a private number was a local variable.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rootguard.allocation import Plan
from rootguard.errors import (
    BudgetError,
    NoiseError,
    PrivateValueError,
    UnknownNameError,
    shielded,
)
from rootguard.graph import Graph
from rootguard.mechanisms import mechanism, nesting
from rootguard.mechanisms.keyed import People, RootStreams
from rootguard.rng import SECURE, Randomness
from rootguard.template import Root
from rootguard.values import Distances, Raw, RootName, Sanitized

T = TypeVar("T")


def seal(
    values: object, root_called: Callable[[str], Root | None] = lambda _: None
) -> dict[str, Raw | None] | None:
    """Seal private values. What is not of its root's type becomes None, for `select` to refuse.

    Nothing is raised here, whatever is given: an error's frames would hold the values. Keys that
    are no names may be the values themselves, so then there is nothing at all.
    """
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        return None
    return {name: sealed(value, root_called(name)) for name, value in values.items()}


def sealed(value: object, root: Root | None) -> Raw | None:
    """One private value, as a number; None if it is not of the root's type."""
    if root is None or root.type.plain:
        return Raw(value) if Raw.accepts(value) else None
    number = root.type.inside(value, root.domain)
    return None if number is None else Raw(number)


def unusable(roots: Mapping[RootName, Root], names: Sequence[str]) -> PrivateValueError:
    """The refusal of values that are not of their roots' types: by name, with what is wanted."""
    types = {name: roots[RootName(name)].type for name in names if name in roots}
    wanted = types[names[0]].wanted if names[0] in types else "a finite number"
    alike = tuple(n for n in names if n not in types or types[n].wanted == wanted)
    return PrivateValueError(f"{wanted} is needed for", alike)


def select(
    sealed: Mapping[str, Raw | None] | None,
    graph: Graph,
    declared: Mapping[RootName, Root] = MappingProxyType({}),
    *,
    unneeded: frozenset[RootName] = frozenset(),
) -> dict[RootName, Raw]:
    """The sealed values of the roots to be noised; one for a computed root is not needed."""
    if sealed is None:
        raise PrivateValueError("give a mapping of root names to numbers as", ("values",))
    strangers = tuple(name for name in sealed if name not in graph)
    if strangers:
        raise UnknownNameError("root", strangers[0], graph.roots)
    roots = tuple(root for root in graph.roots if root not in unneeded)
    missing = tuple(root for root in roots if root not in sealed)
    if missing:
        raise PrivateValueError("no value was given for", missing)
    chosen = {root: raw for root in roots if (raw := sealed[root]) is not None}
    if wrong := tuple(root for root in roots if root not in chosen):
        raise unusable(declared, wrong)
    return chosen


def sanitize(
    plan: Plan,
    raws: Mapping[RootName, Raw],
    versions: Mapping[RootName, int],
    source: Randomness = SECURE,
) -> dict[RootName, Sanitized]:
    """Draw each root in `raws` once, under the plan's epsilon for it."""
    plan.check()
    return {
        root: _first(plan, raw, root, versions.get(root, 1), source) for root, raw in raws.items()
    }


def _first(plan: Plan, raw: Raw, root: RootName, version: int, source: Randomness) -> Sanitized:
    share = plan[root]
    noise = plan.noise(root)
    return Sanitized(
        root=root,
        index=_drawn(root, lambda: noise.draw(raw.snap(share.domain), source)),
        domain=share.domain,
        epsilon=share.epsilon,
        mechanism=noise.name,
        version=version,
    )


def stood_still(raw: Raw, stands: Sanitized, limit: int) -> bool:
    """Whether a value is nearer to what was released than a limit, which has its noise in it."""
    return _drawn(stands.root, lambda: abs(raw.snap(stands.domain) - stands.index) < limit)


def refine(
    raw: Raw, finest: Sanitized, epsilon: Fraction, source: Randomness = SECURE
) -> Sanitized:
    """Raise a root to a higher epsilon, so that the levels together cost the higher one alone.

    `finest` must be the highest level that was drawn of this value.
    """
    if finest.mechanism not in nesting.NESTING:
        raise BudgetError(
            f"{finest.root} was noised with the {finest.mechanism} mechanism, which cannot be "
            "refined; only geometric noise and randomised response can"
        )
    index = _drawn(
        finest.root,
        lambda: nesting.refine(
            raw.snap(finest.domain),
            finest.index,
            low=finest.epsilon,
            high=epsilon,
            size=finest.domain.size,
            source=source,
            law=finest.mechanism,
        ),
    )
    return replace(finest, index=index, epsilon=epsilon)


def coarsen(
    levels: Sequence[Sanitized], epsilon: Fraction, source: Randomness = SECURE
) -> Sanitized:
    """A coarser level of a root from those there are: needs no raw value and costs nothing.

    Made from its neighbours above and below, so that any set of levels costs its highest.
    """
    ordered = sorted(levels, key=lambda level: level.epsilon)
    law = ordered[0].mechanism
    if law not in nesting.NESTING:
        raise BudgetError(
            f"{ordered[0].root} was noised with the {law} mechanism, which has one level only; "
            "tiers need geometric noise or randomised response"
        )
    above = next(level for level in ordered if level.epsilon > epsilon)
    below = [level for level in ordered if level.epsilon < epsilon]
    size = above.domain.size
    if below:
        index = nesting.between(
            above.index,
            below[-1].index,
            high=above.epsilon,
            middle=epsilon,
            low=below[-1].epsilon,
            size=size,
            source=source,
            law=law,
        )
    else:
        index = nesting.degrade(
            above.index, high=above.epsilon, low=epsilon, size=size, source=source, law=law
        )
    return replace(above, index=index, epsilon=epsilon)


def repeat(
    raw: Raw,
    streams: RootStreams,
    person: People,
    known: NDArray[np.uint32],
    shown: Sanitized,
    distances: Distances | None = None,
) -> Sanitized | None:
    """The draw that a table has shown of a value, or None if none of the known fingerprints is."""

    def draw() -> int | None:
        point = np.array([raw.snap(shown.domain)])
        rows = streams.of(person, point)
        if rows.fingerprints()[0] not in known:
            return None
        noise = mechanism(shown.mechanism, shown.epsilon, shown.domain.size, distances)
        return int(noise.draw_rows(point, rows)[0])

    index = _drawn(shown.root, draw)
    return None if index is None else replace(shown, index=index)


@shielded
def _drawn(root: RootName, draw: Callable[[], T]) -> T:
    """What a draw gives. Whatever fails in it is one refusal: its frames saw the true index."""
    try:
        return draw()
    except Exception:  # noqa: BLE001 - foreign errors may carry the index in their text, too
        raise NoiseError(f"the draw for {root} failed; nothing was released, try again") from None
