"""Draws that a released table has shown already: found by their marks and made again, not anew.

A table keeps no draw. It keeps keyed marks of who was in it with which values, and the secret under
which the same row gives the same noise. So whoever was in a table and comes by name later is given
the draw that the table showed. An erased profile is not: its marks are gone.
"""

from collections.abc import Mapping
from fractions import Fraction

from rootguard.allocation import Plan
from rootguard.events import ProfileErased
from rootguard.sanitizer import repeat
from rootguard.store import Store, TableRun, table_number, tables
from rootguard.values import MICRO, Principal, Raw, RootName, Sanitized


def tabled(
    store: Store, principal: Principal, plan: Plan, raws: Mapping[RootName, Raw]
) -> dict[RootName, Sanitized]:
    """Those roots whose value a table has shown of this person, as it showed them; finest first."""
    runs = store.tables()
    if not runs or any(isinstance(event, ProfileErased) for event in store.events(principal)):
        return {}
    prf = tables.table_prf(store.fingerprint_key)
    person = prf.person(principal)
    tag = int(prf.tags(person)[0])
    found: dict[RootName, Sanitized] = {}
    for run in sorted(_standing(runs), key=lambda run: -run.micro_epsilon):
        if run.root not in raws or run.root in found or run.domain != plan[run.root].domain:
            continue
        roots = sorted({other.root for other in runs if other.table == run.table})
        place = table_number(runs, run.table) * tables.PARTITIONS + tables.partition_of(tag)
        known = tables.of_person(store.fingerprints(place), len(roots), tag)
        if not len(known):
            continue
        epsilon = Fraction(run.micro_epsilon, MICRO)
        streams = prf.root(run.root, run.domain, epsilon, run.mechanism, run.version)
        shown = repeat(
            raws[run.root],
            streams,
            person,
            known[:, roots.index(run.root)],
            Sanitized(
                root=run.root,
                index=0,
                domain=run.domain,
                epsilon=epsilon,
                mechanism=run.mechanism,
            ),
        )
        if shown is not None:
            found[run.root] = shown
    return found


def _standing(runs: tuple[TableRun, ...]) -> list[TableRun]:
    """One run of each root and table: the others are drawn alike."""
    return list({(run.table, run.root): run for run in runs}.values())
