"""Levels of a root that were drawn: a new one comes from its neighbours and from no other."""

from dataclasses import replace
from fractions import Fraction

import pytest

from rootguard.allocation import make_plan
from rootguard.errors import BudgetError
from rootguard.sanitizer import coarsen, sanitize
from rootguard.template import load_template
from rootguard.values import Domain, Raw, RootName, Sanitized

HAIR = Fraction(1, 10**60)
"""Levels this close are the same draw, but for a probability below 1e-57."""


def level(epsilon: str, index: int) -> Sanitized:
    return Sanitized(
        root=RootName("age"),
        index=index,
        domain=Domain(lower=0, upper=99, size=100),
        epsilon=Fraction(epsilon),
        mechanism="geometric",
    )


LEVELS = [
    *(level("1.5", 90), level("0.2", 30), level("0.9", 50)),
    *(level("0.1", 10), level("0.3", 70), level("2", 5)),
]


@pytest.mark.parametrize(
    ("epsilon", "index"),
    [(Fraction("0.3") + HAIR, 70), (Fraction("0.9") - HAIR, 50), (Fraction("0.1") - HAIR, 10)],
)
def test_a_level_is_made_from_its_neighbours_above_and_below(epsilon: Fraction, index: int) -> None:
    for _ in range(20):
        made = coarsen(LEVELS, epsilon)
        assert (made.index, made.epsilon) == (index, epsilon)


def test_a_level_from_other_noise_is_refused_by_name() -> None:
    with pytest.raises(BudgetError, match="age was noised with the laplace mechanism"):
        coarsen([replace(LEVELS[0], mechanism="laplace")], Fraction(1))


def test_a_first_draw_is_version_one_unless_another_is_given() -> None:
    plan = make_plan(load_template("fib4"), Fraction(1))
    raws = {share.root: Raw(50) for share in plan.shares[:2]}
    first, second = sanitize(plan, raws, {plan.shares[1].root: 7}).values()
    assert (first.version, second.version) == (1, 7)
