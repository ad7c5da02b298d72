"""Levels of a root that were drawn: a new one comes from its neighbours and from no other."""

from dataclasses import replace
from fractions import Fraction

import pytest

from rootguard.allocation import make_plan
from rootguard.errors import BudgetError, PrivateValueError, UnknownNameError
from rootguard.graph import Graph
from rootguard.sanitizer import coarsen, sanitize, seal, select, stood_still, unusable
from rootguard.template import load_template, parse_template
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


TYPED = parse_template(
    """
name = "t"
title = "T"
[roots.smoker]
type = "boolean"
[roots.region]
type = "category"
values = ["north", "south"]
[roots.age]
lower = 0
upper = 100
grid = 101
[target]
name = "s"
formula = "smoker + age + (region == 1)"
""",
    file="t.toml",
)
SMOKER, REGION, AGE = (RootName(name) for name in ("smoker", "region", "age"))


def points(values: object) -> dict[str, int | None] | None:
    """What is sealed, as points of the roots' grids."""
    found = seal(values, TYPED.root_called)
    if found is None:
        return None
    domains = {str(name): root.domain for name, root in TYPED.roots.items()}
    return {name: None if raw is None else raw.snap(domains[name]) for name, raw in found.items()}


def test_values_are_sealed_as_their_roots_types_read_them() -> None:
    given = {"smoker": True, "region": "south", "age": 41}
    assert points(given) == {"smoker": 1, "region": 1, "age": 41}
    wrong = {"smoker": 3, "region": "west", "age": "old"}
    assert points(wrong) == {"smoker": None, "region": None, "age": None}
    assert [seal(values) for values in (3, [("age", 41)], {41: 41}, {"age": 41, 7: 7})] == [
        None
    ] * 4


def test_values_that_are_no_mapping_strangers_and_gaps_are_refused_by_name() -> None:
    graph = Graph.of(TYPED)
    raws = seal({"smoker": True, "region": "south", "age": 41}, TYPED.root_called)
    assert raws is not None
    assert set(select(raws, graph)) == {SMOKER, REGION, AGE}
    with pytest.raises(PrivateValueError, match="mapping of root names to numbers"):
        select(None, graph)
    with pytest.raises(UnknownNameError) as stranger:
        select({**raws, "weight": Raw(3), "height": Raw(3)}, graph)
    assert stranger.value.name == "weight"
    for gap in (SMOKER, REGION, AGE):
        rest = {name: raw for name, raw in raws.items() if name != gap}
        with pytest.raises(PrivateValueError, match="no value was given for") as missing:
            select(rest, graph)
        assert missing.value.roots == (gap,)
        assert set(select(rest, graph, unneeded=frozenset((gap,)))) == {SMOKER, REGION, AGE} - {gap}


def test_values_of_a_wrong_type_are_refused_with_what_is_wanted() -> None:
    wanted = {name: root.type.wanted for name, root in TYPED.roots.items()}
    found = unusable(TYPED.roots, ["smoker", "age"])
    assert (wanted[SMOKER] in str(found), found.roots) == (True, ("smoker",))
    found = unusable(TYPED.roots, ["age", "smoker", "weight"])
    assert (wanted[AGE] in str(found), found.roots) == (True, ("age", "weight"))
    found = unusable(TYPED.roots, ["weight", "age", "smoker"])
    assert ("a finite number" in str(found), found.roots) == (True, ("weight", "age"))


def test_a_value_stands_still_within_a_limit_and_not_at_it() -> None:
    domain = Domain(lower=0, upper=100, size=101)
    stands = Sanitized(
        root=AGE, index=40, domain=domain, epsilon=Fraction(1), mechanism="geometric"
    )
    still = [stood_still(Raw(value), stands, 3) for value in (37, 38, 40, 42, 43)]
    assert still == [False, True, True, True, False]
