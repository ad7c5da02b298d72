"""One secure draw, against drawing once from the weights of all grid points.

The weights come from NumPy's seeded generator, which is no source of secure noise: the usual way is
measured as people write it, with the advantage that this gives it.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np

from benchmarks.measure import Case, Contender
from rootguard.mechanisms import MECHANISMS, Mechanism, mechanism
from rootguard.mechanisms.base import Floats
from rootguard.rng import SECURE
from rootguard.values import MechanismName

SIZE = 1000
INDEX = 500
EPSILONS = ("0.01", "0.1", "1")
DEFAULT: MechanismName = "geometric"
_MILLION = 10**6


def secure_draw(name: MechanismName, epsilon: str) -> Contender:
    """A draw from a mechanism that has been used before."""
    noise = mechanism(name, Fraction(epsilon), SIZE)
    return Contender(
        name=f"secure draw, {name}, eps {epsilon}", call=partial(noise.draw, INDEX, SECURE)
    )


def single() -> Iterator[Case]:
    generator = np.random.default_rng(1)
    for name in MECHANISMS:
        for epsilon in EPSILONS:
            weights = _weights(name, epsilon)
            yield Case(
                ours=secure_draw(name, epsilon),
                theirs=Contender(
                    name="Generator.choice, weights ready",
                    call=partial(generator.choice, SIZE, p=weights),
                ),
                aim=10 if name == DEFAULT else None,
            )
    for name, kind in MECHANISMS.items():
        for epsilon in EPSILONS:
            exact = Fraction(epsilon)
            rate = float(exact) / (2 if name == "exponential" else 1)
            yield Case(
                ours=Contender(
                    name=f"first draw, {name}, eps {epsilon}",
                    call=partial(_first_draw, kind, exact),
                ),
                theirs=Contender(
                    name="weights, then Generator.choice",
                    call=partial(_weigh_and_choose, rate, generator),
                ),
            )


def seeded() -> Iterator[Case]:
    generator = np.random.default_rng(2)
    indices = np.full(_MILLION, INDEX, dtype=np.int64)
    for name in MECHANISMS:
        noise = mechanism(name, Fraction("0.1"), SIZE)
        weights = _weights(name, "0.1")
        ours = Contender(
            name=f"draw_many of 1e6, {name}, eps 0.1",
            call=partial(noise.draw_many, indices, generator),
            units=_MILLION,
        )
        yield Case(
            ours=ours,
            theirs=Contender(
                name="Generator.choice, one at a time",
                call=partial(generator.choice, SIZE, p=weights),
            ),
            aim=500,
            rate=True,
        )
        yield Case(
            ours=ours,
            theirs=Contender(
                name="Generator.choice, size=1e6",
                call=partial(generator.choice, SIZE, size=_MILLION, p=weights),
                units=_MILLION,
            ),
            rate=True,
        )


def _weights(name: MechanismName, epsilon: str) -> Floats:
    """The mechanism's own distribution, ready to be drawn from."""
    logs = mechanism(name, Fraction(epsilon), SIZE).log_pmf(INDEX, np.arange(SIZE))
    weights = np.exp(logs)
    normalised: Floats = weights / weights.sum()
    return normalised


def _first_draw(kind: type[Mechanism], epsilon: Fraction) -> int:
    return kind(epsilon, SIZE).draw(INDEX, SECURE)


def _weigh_and_choose(rate: float, generator: np.random.Generator) -> int:
    weights = np.exp(-rate * np.abs(np.arange(SIZE) - INDEX))
    weights /= weights.sum()
    return int(generator.choice(SIZE, p=weights))
