"""The optimal allocation of FIB-4's budget, against SciPy's SLSQP on the same problem.

SLSQP gets the same objective, bounds and budget. Started as anyone would, from an even split and
with its default tolerance, it stops before it is as accurate; the rows below it are kinder to SLSQP
(the gradient, and the closed form to start from) or ask for about the same accuracy (ftol 1e-12).
"""

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
from scipy.optimize import minimize

from benchmarks.measure import Case, Check, Contender
from rootguard import load_template
from rootguard.allocation import EPSILON_MIN, closed_form, optimum, sensitivities
from rootguard.graph import Graph
from rootguard.mechanisms import MECHANISMS
from rootguard.mechanisms.base import Floats
from rootguard.values import MechanismName

_BUDGET = 0.9
_ROUNDING = 1e-9


def planning() -> Iterator[Case]:
    template = load_template("fib4")
    graph = Graph.of(template)
    weights = sensitivities(template, graph)
    domains = [template.roots[root].domain for root in graph.roots]
    products = [weights[r] * d.step for r, d in zip(graph.roots, domains, strict=True)]
    sizes = [domain.size for domain in domains]
    for name in MECHANISMS:
        yield from _for_mechanism(name, products, sizes)


def _for_mechanism(name: MechanismName, products: list[float], sizes: list[int]) -> Iterator[Case]:
    curve = MECHANISMS[name].error_curve

    def error(epsilons: Iterable[float]) -> float:
        return sum(w * curve(e, m)[0] for w, e, m in zip(products, epsilons, sizes, strict=True))

    def error_and_slope(epsilons: Floats) -> tuple[float, Floats]:
        found = [curve(e, m) for e, m in zip(epsilons.tolist(), sizes, strict=True)]
        value = sum(w * e for w, (e, _, _) in zip(products, found, strict=True))
        return value, np.array([w * s for w, (_, s, _) in zip(products, found, strict=True)])

    def ours() -> list[float]:
        start = closed_form(products, _BUDGET)
        return optimum(name, products, sizes, _BUDGET, start=start)

    limits = [(float(EPSILON_MIN), _BUDGET)] * len(products)
    even = np.full(len(products), _BUDGET / len(products))

    def error_of(epsilons: Floats) -> float:
        return error(epsilons.tolist())

    def plain(tolerance: float = 1e-6, *, even_start: bool = True) -> list[float]:
        found = minimize(
            error_of,
            even if even_start else closed_form(products, _BUDGET),
            method="SLSQP",
            bounds=limits,
            constraints=[{"type": "eq", "fun": _excess}],
            options={"ftol": tolerance},
        )
        return [float(epsilon) for epsilon in found.x]

    def informed(tolerance: float = 1e-6) -> list[float]:
        found = minimize(
            error_and_slope,
            closed_form(products, _BUDGET),
            method="SLSQP",
            jac=True,
            bounds=limits,
            constraints=[{"type": "eq", "fun": _excess, "jac": np.ones_like}],
            options={"ftol": tolerance},
        )
        return [float(epsilon) for epsilon in found.x]

    reached = error(ours())
    for label, call, aim in (
        ("SLSQP", plain, 20.0),
        ("SLSQP, ftol 1e-12", partial(plain, 1e-12), None),
        ("SLSQP, our start", partial(plain, even_start=False), None),
        ("SLSQP, our start and gradient", informed, None),
        ("SLSQP, our start and gradient, ftol 1e-12", partial(informed, 1e-12), None),
    ):
        theirs = error(call())
        yield Case(
            ours=Contender(name=f"optimum, {name}", call=ours),
            theirs=Contender(name=label, call=call),
            aim=aim,
            check=Check(name="objective", value=(reached - theirs) / theirs, limit=_ROUNDING),
        )


def _excess(epsilons: Floats) -> float:
    return float(epsilons.sum()) - _BUDGET
