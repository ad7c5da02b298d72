"""The only place where a raw value becomes a sanitized one.

The plan is priced again before anything is drawn. If a draw fails, the error that leaves here has
no cause, no context and no frame in which a private number was a local variable.
"""

from collections.abc import Mapping

from rootguard.allocation import Plan
from rootguard.errors import NoiseError, PrivateValueError, UnknownNameError
from rootguard.graph import Graph
from rootguard.mechanisms import Mechanism, mechanism
from rootguard.rng import SECURE, Randomness
from rootguard.values import Domain, Raw, RootName, Sanitized


def seal(values: Mapping[str, object]) -> dict[str, Raw | None]:
    """Seal private numbers. What is not a finite number becomes None, for the caller to refuse.

    Nothing is raised here: an error's frames would hold the numbers.
    """
    return {name: Raw(value) if Raw.accepts(value) else None for name, value in values.items()}


def select(sealed: Mapping[str, Raw | None], graph: Graph) -> dict[RootName, Raw]:
    """The sealed values of the roots to be noised; one for a computed root is not needed."""
    strangers = tuple(name for name in sealed if name not in graph)
    if strangers:
        raise UnknownNameError("root", strangers[0], graph.roots)
    missing = tuple(root for root in graph.roots if root not in sealed)
    if missing:
        raise PrivateValueError("no value was given for", missing)
    chosen = {root: raw for root in graph.roots if (raw := sealed[root]) is not None}
    unusable = tuple(root for root in graph.roots if root not in chosen)
    if unusable:
        raise PrivateValueError("a finite number is needed for", unusable)
    return chosen


def sanitize(
    plan: Plan,
    raws: Mapping[RootName, Raw],
    versions: Mapping[RootName, int],
    source: Randomness = SECURE,
) -> dict[RootName, Sanitized]:
    """Draw each root in `raws` once, under the plan's epsilon for it."""
    plan.check()
    drawn: dict[RootName, Sanitized] = {}
    for root, raw in raws.items():
        share = plan[root]
        noise = mechanism(plan.mechanism, share.epsilon, share.domain.size)
        index = _draw(noise, raw, share.domain, source)
        if index is None:
            raise NoiseError(f"the draw for {root} failed; nothing was released, try again")
        drawn[root] = Sanitized(
            root=root,
            index=index,
            domain=share.domain,
            epsilon=share.epsilon,
            mechanism=plan.mechanism,
            version=versions.get(root, 1),
        )
    return drawn


def _draw(noise: Mechanism, raw: Raw, domain: Domain, source: Randomness) -> int | None:
    """One draw, or None if it failed; the failure's frames, which saw the index, are dropped."""
    try:
        return noise.draw(raw.snap(domain), source)
    except Exception:  # noqa: BLE001 - its traceback holds the index; it must not travel further
        return None
