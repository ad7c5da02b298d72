"""A formula in a million rows, against the NumPy one would write for it by hand.

The hand-written line gives infinities and NaN where ours refuses a row, and checks nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.measure import Case, Contender
from rootguard.expressions import evaluate_many, parse
from rootguard.mechanisms.base import Floats

_ROWS = 10**6
_AIM = 1 / 1.3


@dataclass(frozen=True, kw_only=True, slots=True)
class _Formula:
    name: str
    text: str
    bounds: Mapping[str, tuple[float, float]]
    by_hand: Callable[[Mapping[str, Floats]], Floats]


def _fib4(c: Mapping[str, Floats]) -> Floats:
    score: Floats = c["age"] * c["ast"] / (c["plt"] * np.sqrt(c["alt"]))
    return score


def _ldl(c: Mapping[str, Floats]) -> Floats:
    return np.where(c["tg"] < 400, c["tc"] - c["hdl"] - c["tg"] / 5, c["tc"] - c["hdl"])


def _fli(c: Mapping[str, Floats]) -> Floats:
    score = 0.953 * np.log(c["tg"]) + 0.139 * c["bmi"] + 0.718 * np.log(c["ggt"])
    index: Floats = 100 / (1 + np.exp(-(score + 0.053 * c["waist"] - 15.745)))
    return index


_FORMULAS = (
    _Formula(
        name="FIB-4",
        text="age * ast / (plt * sqrt(alt))",
        bounds={"age": (18, 80), "ast": (7, 272), "alt": (3, 211), "plt": (8, 535)},
        by_hand=_fib4,
    ),
    _Formula(
        name="LDL, a conditional",
        text="tc - hdl - tg / 5 if tg < 400 else tc - hdl",
        bounds={"tc": (80, 400), "hdl": (10, 120), "tg": (20, 800)},
        by_hand=_ldl,
    ),
    _Formula(
        name="fatty liver, ln and exp",
        text="100 / (1 + exp(-(0.953 * ln(tg) + 0.139 * bmi + 0.718 * ln(ggt)"
        " + 0.053 * waist - 15.745)))",
        bounds={"tg": (20, 800), "bmi": (15, 50), "ggt": (5, 500), "waist": (60, 160)},
        by_hand=_fli,
    ),
)


def formulas() -> Iterator[Case]:
    generator = np.random.default_rng(3)
    for formula in _FORMULAS:
        node = parse(formula.text)
        columns = {
            name: generator.uniform(low, high, _ROWS)
            for name, (low, high) in formula.bounds.items()
        }
        np.testing.assert_allclose(
            evaluate_many(node, columns), formula.by_hand(columns), rtol=1e-12
        )
        yield Case(
            ours=Contender(
                name=f"evaluate_many, {formula.name}",
                call=partial(evaluate_many, node, columns),
                units=_ROWS,
            ),
            theirs=Contender(
                name="NumPy by hand",
                call=partial(formula.by_hand, columns),
                units=_ROWS,
            ),
            aim=_AIM,
        )
