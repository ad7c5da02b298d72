"""A researcher adds a noise mechanism, checks its claim and runs the utility study (RQ1) on it.

Run it with `python examples/mechanism.py`. A member of the geometric family is told by one number,
c: how often it adds any noise. The first idea below breaks its claim, and the certificate says so.
The second lies midway between the geometric and the Laplace mechanism, and so do its errors. The
people are synthetic.
"""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

from rootguard import load_template
from rootguard.evaluation.cohorts import load_cohort
from rootguard.evaluation.rq1_utility.study import Sweep
from rootguard.mechanisms import KINDS, MECHANISMS, certify
from rootguard.mechanisms.additive import Additive, Geometric, Laplace

EPSILON = Fraction("0.1")
NAMES: Any = ("geometric", "midway", "laplace")


class Midway(Additive):
    """Half of its draws are geometric, half Laplace: a mixture keeps the promise of both."""

    name: Any = "midway"

    @staticmethod
    def tail(root: Decimal) -> Decimal:
        """How often it adds noise, exactly."""
        return (Geometric.tail(root) + Laplace.tail(root)) / 2

    @staticmethod
    def log_tail(eps: float) -> tuple[float, float]:
        """The same in logarithms, and how often it adds none."""
        pairs = (Geometric.log_tail(eps), Laplace.log_tail(eps))
        noised, kept = (math.log(sum(map(math.exp, each)) / 2) for each in zip(*pairs, strict=True))
        return noised, kept

    @staticmethod
    def spread_curve(eps: float) -> tuple[float, float, float]:
        """Its expected error, with two derivatives: budgets are planned by them."""
        pairs = zip(Geometric.spread_curve(eps), Laplace.spread_curve(eps), strict=True)
        first, second, third = ((one + other) / 2 for one, other in pairs)
        return first, second, third


class Hasty(Midway):
    """The first idea, c = exp(-epsilon / 4): it looks harmless."""

    name: Any = "hasty"

    @staticmethod
    def tail(root: Decimal) -> Decimal:
        """How often it adds noise."""
        return root.sqrt()

    @staticmethod
    def log_tail(eps: float) -> tuple[float, float]:
        """The same in logarithms."""
        return -eps / 4, math.log(-math.expm1(-eps / 4))


def main() -> None:
    """Certify both, and run the study on the one that holds."""
    for kind in (Hasty, Midway):
        found = certify(kind(EPSILON, 200))
        print(
            f"{found.mechanism:8} claims {found.epsilon_claimed:.3f}, has {found.epsilon_tight:.3f}"
        )
        assert found.holds == (kind is Midway)
    for table in (MECHANISMS, KINDS):
        table[Midway.name] = Midway
    template = load_template("fib4")
    sweep = Sweep(
        mechanisms=NAMES,
        epsilons=(EPSILON,),
        budgets=("2k+1",),
        configurations=("all", "roots", "opt"),
        repeats=20,
    )
    errors: dict[tuple[str, str], float] = {}
    for row in sweep.run([template], lambda each: load_cohort(each, None)):
        assert row.wmape is not None, row.error
        errors[row.cell.mechanism, row.cell.config] = row.wmape
    for name in NAMES:
        print(f"{name:10}", {config: f"{errors[name, config]:.1f} %" for config in ("all", "opt")})
        assert errors[name, "opt"] < errors[name, "all"], "noise on the roots alone costs less"
    geometric, midway, laplace = (errors[name, "opt"] for name in NAMES)
    assert 0.95 * geometric < midway < 1.05 * laplace


if __name__ == "__main__":
    main()
