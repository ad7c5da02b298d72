"""A researcher adds a noise mechanism, checks its claim and runs the utility study (RQ1) on it.

Run it with `python examples/mechanism.py`. A mechanism of the geometric family is defined by one
number, c: the probability that it adds any noise at all. The first idea below (`Hasty`) claims too
small an epsilon, and the certificate shows it. The second (`Midway`) lies between the geometric and
the Laplace mechanism, and so do its errors. The people are synthetic.
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
    """Half of its draws are geometric, half Laplace: a mixture keeps the guarantee of both."""

    name: Any = "midway"

    @staticmethod
    def tail(root: Decimal) -> Decimal:
        """Compute c exactly, from root = exp(-epsilon / 2)."""
        return (Geometric.tail(root) + Laplace.tail(root)) / 2

    @staticmethod
    def log_tail(eps: float) -> tuple[float, float]:
        """Compute the logarithms of c and of 1 - c."""
        pairs = (Geometric.log_tail(eps), Laplace.log_tail(eps))
        noised, kept = (math.log(sum(map(math.exp, each)) / 2) for each in zip(*pairs, strict=True))
        return noised, kept

    @staticmethod
    def spread_curve(eps: float) -> tuple[float, float, float]:
        """Compute the expected error and its first two derivatives, for planning a budget."""
        pairs = zip(Geometric.spread_curve(eps), Laplace.spread_curve(eps), strict=True)
        first, second, third = ((one + other) / 2 for one, other in pairs)
        return first, second, third


class Hasty(Midway):
    """The first idea, c = exp(-epsilon / 4): it looks harmless."""

    name: Any = "hasty"

    @staticmethod
    def tail(root: Decimal) -> Decimal:
        """Compute c exactly."""
        return root.sqrt()

    @staticmethod
    def log_tail(eps: float) -> tuple[float, float]:
        """Compute the logarithms of c and of 1 - c."""
        return -eps / 4, math.log(-math.expm1(-eps / 4))


def main() -> None:
    """Certify both mechanisms and run the study on the one that keeps its claim."""
    for kind in (Hasty, Midway):
        found = certify(kind(EPSILON, 200))
        print(
            f"{found.mechanism:8} claims {found.epsilon_claimed:.3f}, has {found.epsilon_tight:.3f}"
        )
        assert found.holds == (kind is Midway)
    for table in (MECHANISMS, KINDS):  # from now on it can be chosen by its name
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
        assert errors[name, "opt"] < errors[name, "all"], "noising the roots once is more accurate"
    geometric, midway, laplace = (errors[name, "opt"] for name in NAMES)
    assert 0.95 * geometric < midway < 1.05 * laplace


if __name__ == "__main__":
    main()
