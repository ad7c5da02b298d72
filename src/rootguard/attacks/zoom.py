"""The zoom: ask where the value lies in a window around the best guess, and narrow the window.

clip((x - a) / (b - a), 0, 1) is noised on its own range [0, 1]. Its amplification (Theorem 2) is
D_x / (b - a): fresh noise of so many grid steps is that much smaller in the root's unit. Windows
follow the posterior: from its 0.5 % to its 99.5 % quantile, so that each is a few times narrower
than the one before, and an answer at an end of its window widens the next. Cached answers all
follow from one noised root, so the window moves onto that root and stays there.
"""

from collections.abc import Iterator

import numpy as np

from rootguard.attacks.oracle import Question, Transcript, direct
from rootguard.attacks.posterior import Belief, candidates
from rootguard.mechanisms.base import Floats
from rootguard.values import Domain, RootName

TAIL = 0.005
"""Probability left out at either side of a window."""
_COARSE = 257
_REFINED = 64
_REACH = 1e-4
_NARROWEST = 1e-9
"""No window below this share of the domain: floats near the bounds could not resolve its grid."""


def zoom(transcript: Transcript, root: RootName, queries: int) -> Iterator[Floats]:
    """The estimates after each query: the root itself first, then windows."""
    domain = transcript.terms.domain(root)
    transcript.ask(direct(root, domain))
    belief = _update(transcript, root, _start(transcript, root))
    yield belief.median
    for _ in range(queries - 1):
        transcript.ask(window(root, domain, belief))
        belief = _update(transcript, root, belief.mesh)
        yield belief.median


def window(root: RootName, domain: Domain, belief: Belief) -> Question:
    """Ask where between the belief's outer quantiles, as a share of the way."""
    low, high = belief.quantile(TAIL), belief.quantile(1 - TAIL)
    width = np.maximum(high - low, _NARROWEST * domain.width)
    return Question(
        formula=f"clip(({root} - a_) / w_, 0, 1)",
        domain=Domain(lower=0.0, upper=1.0, size=domain.size),
        parameters={"a_": low, "w_": width},
    )


def _start(transcript: Transcript, root: RootName) -> Floats:
    if transcript.terms.cached:
        return candidates(transcript, root)
    domain = transcript.terms.domain(root)
    mesh = np.linspace(domain.lower, domain.upper, _COARSE)
    return np.tile(mesh, (transcript.people, 1))


def _update(transcript: Transcript, root: RootName, mesh: Floats) -> Belief:
    """The posterior, on a mesh that is made finer where the posterior is."""
    belief = Belief.from_scores(mesh, transcript.log_likelihood({root: mesh}))
    if transcript.terms.cached:
        return belief
    for _ in range(2):
        low, high = belief.quantile(_REACH), belief.quantile(1 - _REACH)
        shares = np.linspace(0, 1, _REFINED)
        finer = low[:, None] + (high - low)[:, None] * shares
        mesh = np.sort(np.concatenate([mesh, finer], axis=1), axis=1)
        belief = Belief.from_scores(mesh, transcript.log_likelihood({root: mesh}))
    return belief
