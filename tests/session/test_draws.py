"""How a root stands on what a store keeps: its share of the budget, and which names are new."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import cast

import pytest

from rootguard.allocation import Share, make_plan
from rootguard.errors import BudgetError
from rootguard.session import draws
from rootguard.session.draws import RootMapping, define
from rootguard.store import Record, Snapshot, Store
from rootguard.template import parse_template
from rootguard.values import (
    UNKNOWN_UNIT,
    Domain,
    MechanismName,
    Principal,
    RootName,
    RootQuantity,
    Sanitized,
)

TEMPLATE = parse_template(
    """
name = "t"
title = "T"
[roots.a]
unit = "kg"
lower = 0
upper = 100
grid = 101
[roots.b]
unit = "kg"
lower = 0
upper = 100
grid = 101
[target]
name = "s"
formula = "a + b"
""",
    file="t.toml",
)
A, B = (TEMPLATE.roots[RootName(name)] for name in ("a", "b"))
COARSE = Domain(lower=0, upper=100, size=51)


def share(epsilon: Fraction) -> Share:
    return replace(make_plan(TEMPLATE, Fraction(1))["a"], epsilon=epsilon)


def kept(domain: Domain, ratio: Fraction) -> RootMapping:
    quantity = RootQuantity(name=A.name, unit="kg", domain=domain)
    return RootMapping(kept=quantity, inward=None, ratio=ratio)


def test_on_the_stores_own_grid_a_share_stays_as_it_is() -> None:
    own = share(Fraction(1, 3))
    assert kept(A.domain, Fraction(1)).share(own) is own


def test_on_another_grid_a_share_costs_as_much_as_its_step_is_longer() -> None:
    third = share(Fraction(1, 3))
    for domain, ratio in ((COARSE, Fraction(2)), (A.domain, Fraction(2)), (COARSE, Fraction(1))):
        found = kept(domain, ratio).share(third)
        assert found.domain == domain
        assert found.epsilon == Fraction(666_666 if ratio == 2 else 333_333, 10**6)
    assert kept(COARSE, Fraction(2)).share(share(Fraction(99))).epsilon == 100  # at most
    public = replace(third, public=True, epsilon=Fraction(0))
    assert kept(COARSE, Fraction(2)).share(public) == replace(public, domain=COARSE)


def test_a_share_of_one_micro_epsilon_is_drawn_and_of_less_is_refused() -> None:
    micro = Fraction(1, 10**6)
    assert kept(COARSE, Fraction(2)).share(share(micro / 2)).epsilon == micro
    with pytest.raises(
        BudgetError, match=r"a is kept on a grid of .* too small; nothing was drawn"
    ):
        kept(COARSE, Fraction(2)).share(share(micro / 2 - micro / 100))


@pytest.mark.parametrize(
    ("units", "new"),
    [
        ({"a": "kg", "b": "kg"}, None),
        ({"a": "kg"}, ["b"]),
        ({"a": "kg", "b": UNKNOWN_UNIT}, ["b"]),
        ({}, ["a", "b"]),
    ],
)
def test_only_names_that_are_new_or_have_no_unit_yet_are_fixed(
    units: dict[str, str], new: list[str] | None
) -> None:
    asked: list[list[str]] = []

    class Names:
        def define(self, quantities: list[RootQuantity]) -> dict[RootName, RootQuantity]:
            asked.append([str(each.name) for each in quantities])
            return {each.name: each for each in quantities}

    known = {
        RootName(name): RootQuantity(name=RootName(name), unit=unit, domain=A.domain)
        for name, unit in units.items()
    }
    found = define(cast("Store", Names()), known, (A, B))
    assert set(found) == {"a", "b"}
    assert asked == ([] if new is None else [new])


class Versions:
    """A store that knows no earlier version of anything, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[set[str]] = []

    def find(self, principal: str, wanted: Mapping[RootName, object]) -> dict[RootName, Record]:
        self.asked.append(set(map(str, wanted)))
        return {}


def record(root: RootName, mechanism: MechanismName, point: bytes) -> Record:
    value = Sanitized(root=root, index=3, domain=A.domain, epsilon=Fraction(1), mechanism=mechanism)
    event = draws.noised(Principal("p"), value)
    return Record(sanitized=value, fingerprint=point, event=event)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize("mechanism", ["public", "geometric"])
@pytest.mark.parametrize("same", [True, False])
def test_what_is_hidden_is_never_taken_from_what_was_public_before(
    keep: bool, public: bool, mechanism: MechanismName, same: bool
) -> None:
    """A value that is kept stands whatever it is now, but not one that nothing has hidden."""
    there = record(B.name, mechanism, b"point" if same else b"other")
    person = SimpleNamespace(name=Principal("p"), levels={B.name: (there,)})
    prints = draws._Fingerprints(b"point", b"number", public)
    store = Versions()
    # The first name has no version at all, which says nothing of the second.
    found = draws._known(
        cast("Store", store),
        cast("Snapshot", person),
        {A.name: prints, B.name: prints},
        keep=keep,
    )
    stands = same or (keep and (mechanism != "public" or public))
    assert found == ({B.name: there} if stands else {})
    assert store.asked == ([] if stands else [{"b"}])
