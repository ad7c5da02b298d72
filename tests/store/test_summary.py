"""A person's summary: what replaying the ledger tells, step by step, and what it refuses."""

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootguard.accounting import Ledger
from rootguard.errors import BudgetError, ErasedError
from rootguard.events import (
    Charge,
    LevelDerived,
    ProfileErased,
    RootCharged,
    RootNoised,
    RootRefined,
    RootReturned,
    ServiceCharged,
    TableCharged,
    TableDrawKept,
)
from rootguard.store import Disclosure, Record
from rootguard.store.summary import LIFETIME, PersonSummary
from rootguard.values import MICRO, RootName
from tests.support.store_contents import ANA, draw

ROOTS = ("age", "ast", "alt")
SERVICES = ("lab", "shop")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["noise", "keep", "refine", "derive", "return", "table", "give", "erase"]),
        st.sampled_from(ROOTS),
        st.integers(1, 50),
    ),
    max_size=30,
)


class Life:
    """A ledger that a store could have written, and what is kept, worked out the plain way."""

    def __init__(self) -> None:
        self.events: list[Charge] = []
        self.levels: dict[tuple[str, int], list[int]] = {}
        self.current: dict[str, int] = {}
        self.newest: dict[str, int] = defaultdict(int)
        self.spent: dict[str, int] = defaultdict(int)
        self.given: dict[Disclosure, int] = {}
        self.before: dict[tuple[str, str], int] = defaultdict(int)

    def step(self, kind: str, root: str, number: int) -> Charge | None:
        """One thing that happens, if it can; and the event that tells of it."""
        version = self.current.get(root, 0)
        levels = self.levels.get((root, version), [])
        said = {"principal": ANA, "root": root}
        match kind:
            case "noise" | "keep":
                self.newest[root] += 1
                version = self.current[root] = self.newest[root]
                self.levels[root, version] = [number]
                if kind == "keep":
                    return TableDrawKept(
                        **said, version=version, level=number, mechanism="geometric"
                    )
                self.spent[root] += number
                return RootNoised(
                    **said, version=version, micro_epsilon=number, mechanism="geometric"
                )
            case "refine" if levels:
                level = max(levels) + number
                levels.append(level)
                self.spent[root] += number
                return RootRefined(**said, version=version, micro_epsilon=number, level=level)
            case "derive" if levels and max(levels) > number not in levels:
                levels.append(number)
                return LevelDerived(**said, version=version, level=number)
            case "return" if (root, number % (self.newest[root] + 1)) in self.levels:
                self.current[root] = number % (self.newest[root] + 1)
                return RootReturned(**said, version=self.current[root])
            case "table":
                self.spent[root] += number
                return TableCharged(**said, draws=1, micro_epsilon=number)
            case "give" if levels:
                position = number % len(levels)
                self.given[
                    Disclosure(
                        service=SERVICES[number % 2],
                        tier="t",
                        root=root,
                        version=version,
                        position=position,
                    )
                ] = levels[position]
        return None

    def erase(self, totals: list[Charge]) -> None:
        finest: dict[tuple[str, str, int], int] = defaultdict(int)
        for each, level in self.given.items():
            where = (each.service, each.root, each.version)
            finest[where] = max(finest[where], level)
        for (service, root, _), level in finest.items():
            self.before[service, root] += level
        self.events = totals
        self.levels, self.current, self.given = {}, {}, {}

    def held(self, service: str) -> dict[tuple[str, int], int]:
        found = {(root, 0): level for (to, root), level in self.before.items() if to == service}
        for each, level in self.given.items():
            if each.service == service:
                where = (each.root, each.version)
                found[where] = max(found.get(where, 0), level)
        return found


@given(STEPS)
def test_recording_step_by_step_is_replaying_and_comes_back_from_its_text(
    steps: list[tuple[str, str, int]],
) -> None:
    life, summary = Life(), PersonSummary()
    for kind, root, number in steps:
        if kind == "erase":
            before = summary.ledger.totals
            totals = summary.erasure({})
            life.erase(totals)
            summary = PersonSummary.of(totals)
            assert summary.ledger.totals == before
            assert {event.principal for event in totals} == {""}
        elif (event := life.step(kind, root, number)) is not None:
            life.events.append(event)
            summary.record(event)
        summary.given = dict(life.given)
        summary.caps[root] = number
        replayed = PersonSummary.of(life.events)
        assert summary.problems(replayed) == []
        assert PersonSummary.from_text(summary.to_text()).to_text() == summary.to_text()
        again = PersonSummary.from_text(summary.to_text())
        assert again.ledger.totals == summary.ledger.totals
        assert (again.given, again.caps, again.before) == (
            summary.given,
            summary.caps,
            summary.before,
        )
        assert again.problems(summary) == []
    kept = {
        (root, version, position)
        for (root, version), levels in life.levels.items()
        for position in range(len(levels))
    }
    assert set(summary.kept()) == kept
    assert len(summary.kept()) == summary.draws == len(kept)
    spent = {root: micro for root, micro in life.spent.items() if micro}
    assert summary.ledger.micro == spent == Ledger(life.events).micro
    for root in ROOTS:
        assert summary.newest(root) == life.newest[root]
        assert summary.current(root) == life.current.get(root, 0)
    for service in SERVICES:
        assert summary.held(service) == life.held(service)


WRONG: dict[str, list[Charge]] = {
    "an event twice": [draw("age", 1).event],
    "another price": [draw("age", 1, micro=6).event, draw("age", 2, version=2).event],
    "another root": [draw("ast", 1).event],
    "a level more": [
        draw("age", 1).event,
        LevelDerived(principal=ANA, root="age", version=1, level=3),
    ],
    "a service's total": [
        draw("age", 1).event,
        ServiceCharged(principal="", root="age", service="lab", level=1),
    ],
    "an erasure": [draw("age", 1).event, ProfileErased(principal="")],
    "nothing": [],
}


def test_a_summary_of_another_ledger_is_found_out() -> None:
    mine = PersonSummary.of([draw("age", 1).event, draw("age", 2, version=2).event])
    assert (
        mine.problems(PersonSummary.of([draw("age", 1).event, draw("age", 2, version=2).event]))
        == []
    )
    for events in WRONG.values():
        assert mine.problems(PersonSummary.of(events))


def finer(first: Record, position: int, level: int) -> Record:
    root, version = first.sanitized.root, first.sanitized.version
    return replace(
        first,
        sanitized=replace(first.sanitized, epsilon=Fraction(level, MICRO)),
        position=position,
        event=LevelDerived(principal=ANA, root=root, version=version, level=level),
    )


def erased() -> PersonSummary:
    """Of somebody who was erased after two versions of a root, and came back with a third."""
    until = PersonSummary.of([draw("age", 1).event, draw("age", 2, version=2).event])
    summary = PersonSummary.of(until.erasure({}))
    assert len(summary.take([draw("age", 3, version=3)], {})) == 1
    return summary


@pytest.mark.parametrize(
    "stale",
    [
        draw("age", 1),
        draw("age", 1, version=2),
        draw("age", 1, version=5),
        finer(draw("age", 1), 1, 3),
        finer(draw("age", 1, version=2), 1, 3),
        finer(draw("age", 1, version=3), 2, 3),
        finer(draw("age", 1, version=4), 1, 3),
        draw("ast", 1, version=2),
    ],
    ids=lambda each: f"{each.sanitized.root} {each.sanitized.version}.{each.position}",
)
def test_what_lies_beyond_an_erasure_is_refused(stale: Record) -> None:
    with pytest.raises(ErasedError, match="erased meanwhile"):
        erased().take([stale], {})


def test_only_the_next_places_are_free_and_what_is_taken_is_passed_over() -> None:
    summary = erased()
    third, fourth = draw("age", 3, version=3), draw("age", 4, version=4)
    assert summary.take([third], {}) == []
    second, again = finer(third, 1, 3), finer(third, 1, 2)
    assert summary.take([third, second, again, fourth, draw("ast", 1)], {}) == [
        second,
        fourth,
        draw("ast", 1),
    ]
    assert summary.count("age", 3) == 2
    assert summary.count("age", 2) == summary.count("age", 5) == summary.count("alt", 1) == 0
    assert summary.current("age") == 4


def test_a_cap_is_judged_with_tables_and_with_all_draws_of_the_commit() -> None:
    def taken(tables: int, *draws: Record, **caps: int) -> int:
        summary = PersonSummary()
        summary.caps = {"" if root == "total" else root: cap for root, cap in caps.items()}
        return len(summary.take(draws, {RootName("age"): [(tables, 1)]} if tables else {}))

    both = (draw("age", 1), draw("age", 2, version=2))
    assert taken(0, *both, age=10) == 2
    with pytest.raises(BudgetError, match="age"):
        taken(0, *both, age=9)
    assert taken(4, both[0], age=9) == 1
    with pytest.raises(BudgetError, match="age"):
        taken(5, both[0], age=9)
    assert taken(0, draw("age", 1), draw("ast", 1), total=10) == 2
    with pytest.raises(BudgetError, match="total"):
        taken(1, draw("age", 1), draw("ast", 1), total=10)
    assert taken(1, draw("age", 1, micro=LIFETIME - 1)) == 1
    with pytest.raises(BudgetError, match=f"{LIFETIME} times"):
        taken(1, draw("age", 1, micro=LIFETIME))


def test_the_first_price_lasts_through_an_erasure() -> None:
    summary = PersonSummary.of(
        [draw("age", 1, micro=2).event, draw("age", 1, version=2, micro=9).event]
    )
    totals = summary.erasure({})
    assert totals[0] == RootCharged(
        principal="",
        root="age",
        version=2,
        draws=2,
        micro_epsilon=11,
        first=2,
        mechanism="geometric",
    )
    back = PersonSummary.of(PersonSummary.of(totals).erasure({}))  # erased twice
    assert back.ledger.first_prices == {"age": 2}
    assert back.take([draw("age", 1, version=3, micro=2 * LIFETIME - 11)], {})
    with pytest.raises(BudgetError, match=f"{LIFETIME} times"):
        back.take([draw("age", 1, version=4, micro=1)], {})


def shown(service: str, root: str, version: int = 1, position: int = 0) -> Disclosure:
    return Disclosure(service=service, tier="t", root=root, version=version, position=position)


def test_a_service_is_given_up_to_its_limit_and_the_finest_level_counts() -> None:
    summary = PersonSummary()
    summary.give({shown("lab", "age"): 5, shown("lab", "age", position=1): 3}, 5)
    assert summary.held("lab") == {("age", 1): 5}
    with pytest.raises(BudgetError, match="lab was given all"):
        summary.copy().give({shown("lab", "ast"): 1}, 5)
    summary.copy().give({shown("lab", "ast"): 1}, 6)
    summary.copy().give({shown("lab", "ast"): 10**9}, None)
    with pytest.raises(BudgetError):
        summary.copy().give({shown("lab", "age", version=2): 1}, 5)
    summary.give({shown("shop", "age"): 4}, 4)  # each has a limit of its own
    assert summary.held("lab") == {("age", 1): 5}
    assert summary.held("shop") == {("age", 1): 4}


def test_a_service_in_a_poorer_tier_keeps_what_it_has_and_gets_nothing_finer() -> None:
    summary = PersonSummary()
    summary.give({shown("lab", "age"): 5}, 5)
    summary.give({shown("lab", "age", position=1): 2}, 1)
    with pytest.raises(BudgetError):
        summary.give({shown("lab", "age", position=2): 6}, 1)


def test_what_a_service_had_before_an_erasure_counts_towards_its_limit() -> None:
    summary = PersonSummary.of([draw("age", 1).event])
    summary.give({shown("lab", "age"): 5}, 9)
    totals = summary.erasure({})
    assert ServiceCharged(principal="", root="age", service="lab", level=5) in totals
    back = PersonSummary.of(totals)
    assert back.held("lab") == {("age", 0): 5}
    with pytest.raises(BudgetError):
        back.copy().give({shown("lab", "age", version=2): 5}, 9)
    back.give({shown("lab", "age", version=2): 4}, 9)
    assert PersonSummary.of(back.erasure({})).held("lab") == {("age", 0): 9}


def test_what_went_to_nobody_by_name_leaves_no_total() -> None:
    summary = PersonSummary.of([draw("age", 1).event])
    summary.give({shown("", "age"): 5}, None)
    assert [type(event) for event in summary.erasure({})] == [RootCharged, ProfileErased]
