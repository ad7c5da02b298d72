"""A hostile service, run by the owner: against their own guarded values, and against a made-up one.

It asks for each root, then where in an ever smaller window around its best guess the root lies (the
`zoom` of `rootguard attack`). The owner's side is a real session on the noised values that the
vault keeps. It is connected to nothing: it draws nothing, costs nothing and is not written down.
Beside it stand synthetic people from the template's public figures, whose truth may be shown:
guarded in the same way, and by fresh noise on every answer: as much of it on each as RootGuard
puts on its one draw, and so much that all answers together cost the same budget.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np

from rootguard.advice.crowds import CrowdNoising, CrowdVault, session_oracle
from rootguard.advice.people import synthetic_cohort
from rootguard.attacks.derived import zoom
from rootguard.attacks.oracle import Oracle, QueryLog
from rootguard.console.people import Viewer
from rootguard.mechanisms.base import Floats
from rootguard.session import Session
from rootguard.session.draws import noised
from rootguard.session.session import RecipientView
from rootguard.store import MemoryStore, Record
from rootguard.template import Template
from rootguard.values import RootName, Sanitized

# By then fresh noise is given away and noise drawn once is not; more turns only take longer.
TURNS: Final = 8
# The median of so many is steady, and all of them are attacked while the owner looks on.
PEOPLE: Final = 25
# The synthetic people and their noise are for show: the same picture each time it is asked for.
_SEED: Final = 0


def attack(
    viewer: Viewer, template: Template, held: Mapping[RootName, Sanitized]
) -> Iterator[dict[str, object]]:
    """One object for each turn and root. `held` is what the vault keeps of every root."""
    # A store of its own, which goes with it: nothing of this is written down.
    # There every value is a first one, also one that was changed.
    held = {root: replace(value, version=1) for root, value in held.items()}
    records = {
        root: Record(sanitized=value, fingerprint=b"", event=noised(viewer.principal, value))
        for root, value in held.items()
    }
    store = MemoryStore()
    store.commit(viewer.principal, list(records.values()))
    person = store.snapshot(viewer.principal)
    session = Session(RecipientView(store, person, records), template)
    budget, roots = viewer.plan(template).budget, tuple(held)
    cohort = synthetic_cohort(template, size=PEOPLE, seed=_SEED)
    once = budget / len(roots)
    same_noise, same_budget = (
        CrowdNoising(template, cohort, mechanism=viewer.mechanism, epsilon=each, seed=_SEED)
        for each in (once, once / TURNS)
    )
    vault = CrowdVault(template, cohort, mechanism=viewer.mechanism, epsilon=once, seed=_SEED)
    oracles: tuple[Oracle, ...] = (
        session_oracle(session, template),
        same_noise,
        same_budget,
        vault,
    )
    runs = {root: [zoom(QueryLog(each), root, TURNS) for each in oracles] for root in roots}
    for turn in range(1, TURNS + 1):
        for root in roots:
            own, like_noise, like_budget, rootguard = (next(run) for run in runs[root])
            truth = np.asarray(cohort.columns[root], np.float64)
            yield {
                "turn": turn,
                "turns": TURNS,
                "root": root,
                "unit": template.roots[root].unit,
                "asked": _question(template.roots[root].label, turn),
                "guarded": {"estimate": float(own[0]), "error_percent": None},
                "synthetic": {
                    "people": PEOPLE,
                    "same_noise_error_percent": _median(like_noise, truth),
                    "same_budget_error_percent": _median(like_budget, truth),
                    "rootguard_error_percent": _median(rootguard, truth),
                    "same_noise_estimate": float(like_noise[0]),
                    "same_budget_estimate": float(like_budget[0]),
                    "rootguard_estimate": float(rootguard[0]),
                    "truth": float(truth[0]),
                    "epsilon_each": _shown(once / TURNS),
                    "epsilon_once": _shown(once),
                },
            }


def _question(title: str, turn: int) -> str:
    if turn == 1:
        return title
    return f"where {title} lies in a window around the best guess so far"


def _median(estimates: Floats, truth: Floats) -> float:
    """The median person's relative error, in percent."""
    return 100 * float(np.median(np.abs(estimates - truth) / np.abs(truth)))


def _shown(epsilon: Fraction) -> float:
    return float(epsilon)
