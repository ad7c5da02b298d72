"""What a check of a store says: each invariant that is broken, in its own sentence."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from rootguard.events import (
    Charge,
    LevelDerived,
    ProfileErased,
    RootNoised,
    RootRefined,
    RootReturned,
    ServiceCharged,
)
from rootguard.store import Disclosure, Record
from rootguard.store.audit import problems
from rootguard.store.summary import PersonSummary, RootState
from rootguard.values import MICRO, Domain
from tests.support.store_contents import ANA, EVE, at, damage, draw, fill, sql

FIRST = draw("age", 0, micro=10)
TOTALS = PersonSummary.of([FIRST.event]).erasure({})
AGE_1 = "ana: age version 1"


def level(micro: int, position: int, *, price: int = 0, named: int | None = None) -> Record:
    """A refinement of FIRST for a price, or a coarser level for none."""
    said = micro if named is None else named
    event: Charge = LevelDerived(principal=ANA, root="age", version=1, level=said)
    if price:
        event = RootRefined(principal=ANA, root="age", version=1, micro_epsilon=price, level=said)
    sanitized = replace(FIRST.sanitized, index=999, epsilon=Fraction(micro, MICRO))
    return replace(FIRST, sanitized=sanitized, position=position, event=event)


def told(records: Sequence[Record], events: Sequence[Charge] | None = None) -> list[str]:
    """What is said of records and a ledger, and a summary that agrees with it."""
    charged = [record.event for record in records] if events is None else events
    found = problems(ANA, records, charged, PersonSummary.of(charged))
    return [each.removeprefix(AGE_1 + ": ") for each in found]


def test_levels_that_nest_are_sound_up_to_their_limits() -> None:
    assert told([]) == []
    assert told([FIRST]) == []  # on the first point of its grid
    assert told([FIRST, level(25, 1, price=15), level(24, 2), level(5, 3)]) == []
    assert told([level(25, 1, price=15), FIRST], [FIRST.event, level(25, 1, price=15).event]) == []
    assert told([], TOTALS) == []


OTHER_GRID = replace(level(5, 1).sanitized, domain=Domain(lower=0, upper=1000))
BROKEN: dict[str, list[Record]] = {
    "levels are missing or doubled": [FIRST, level(5, 2)],
    "a value lies outside its grid": [
        replace(FIRST, sanitized=replace(FIRST.sanitized, index=1000))
    ],
    "levels on different grids": [FIRST, replace(level(5, 1), sanitized=OTHER_GRID)],
    "levels of different values": [FIRST, replace(level(5, 1), fingerprint=b"g" * 32)],
    "a refinement was not charged the difference": [FIRST, level(25, 1, price=14)],
    "a derived level is not below the finest": [FIRST, level(11, 1)],
    "noised more than once, or at another price": [
        FIRST,
        replace(draw("age", 1, micro=5), position=1),
    ],
}


@pytest.mark.parametrize("words", BROKEN)
def test_a_broken_level_is_told_in_one_sentence(words: str) -> None:
    assert told(BROKEN[words]) == [words]


def test_a_level_that_its_event_names_otherwise_is_told() -> None:
    assert told([FIRST, level(25, 1, price=15, named=26)]) == [
        "a refinement was not charged the difference"
    ]
    assert told([FIRST, level(5, 1, named=6)]) == ["a derived level is not below the finest"]
    assert told([replace(FIRST, event=draw("age", 1, micro=9).event)]) == [
        "noised more than once, or at another price"
    ]


def test_a_level_drawn_twice_is_told() -> None:
    assert told([FIRST, level(10, 1)]) == [
        "the same level was drawn twice",
        "a derived level is not below the finest",
    ]
    assert told([FIRST, level(5, 1), level(5, 2)]) == ["the same level was drawn twice"]


def test_a_ledger_and_draws_that_differ_are_told_and_not_looked_at_further() -> None:
    differ = "the ledger does not match the draws"
    assert told([FIRST], [FIRST.event, level(5, 1).event]) == [differ]
    assert told([], [FIRST.event]) == [differ]
    assert told([FIRST], []) == ["a draw without an event"]
    again = draw("age", 3, version=2, micro=10)
    assert told([again], [*TOTALS, again.event]) == []  # what came back is checked as well
    assert told([], [*TOTALS, again.event]) == [f"ana: age version 2: {differ}"]
    assert told([again], TOTALS) == ["ana: age version 2: a draw without an event"]
    assert told([FIRST], TOTALS) == ["a draw without an event"]
    # A ledger that an erasure did not bring down to totals.
    assert told([], [FIRST.event, ProfileErased(principal=ANA)]) == [differ]


def test_a_return_to_a_version_that_was_never_there_is_told() -> None:
    back = RootReturned(principal=ANA, root="age", version=1)
    assert told([FIRST], [FIRST.event, back]) == []
    assert "ana: age returned to a version that is not there" in told([], [back])


def summary(**parts: object) -> PersonSummary:
    made = PersonSummary.of([FIRST.event])
    for name, part in parts.items():
        assert hasattr(made, name)
        setattr(made, name, part)
    return made


DISAGREEING: dict[str, list[PersonSummary]] = {
    "what was spent is not what the ledger says": [
        summary(ledger=PersonSummary.of([draw("age", 0, micro=9).event]).ledger)
    ],
    "versions and levels are not what the ledger says": [
        summary(roots={"age": RootState(newest=2, current=1)}),
        summary(roots={"age": RootState(newest=1, erased=1, current=1)}),
        summary(roots={"age": RootState(newest=1, current=1, levels={1: 2})}),
        summary(roots={}),
        summary(draws=0),
    ],
    "what services were given is not what the ledger says": [summary(before={("lab", "age"): 10})],
    "events are missing or added": [summary(events=2)],
}


@pytest.mark.parametrize("words", DISAGREEING)
def test_a_summary_that_disagrees_with_its_ledger_is_told(words: str) -> None:
    for each in DISAGREEING[words]:
        assert list(problems(ANA, [FIRST], [FIRST.event], each)) == [f"ana: {words}"]
    given = ServiceCharged(principal="", root="age", service="lab", level=3)
    assert list(problems(ANA, [], [*TOTALS, given], PersonSummary.of([*TOTALS, given]))) == []


def test_the_owner_of_events_and_the_draws_of_disclosures_are_checked() -> None:
    theirs = RootNoised(
        principal=EVE, root="age", version=1, micro_epsilon=10, mechanism="geometric"
    )
    assert told([replace(FIRST, event=theirs)]) == ["ana: an event belongs to somebody else"]
    shown = Disclosure(service="lab", tier="t", root="age", version=1, position=0)
    others = [replace(shown, version=2), replace(shown, position=1), replace(shown, root="ast")]

    def given(each: Disclosure, level: int = 10) -> list[str]:
        return list(problems(ANA, [FIRST], [FIRST.event], summary(given={each: level})))

    assert [given(each) for each in (shown, *others)] == [
        [],
        *([f"ana: {root} was disclosed from a draw that is not there"] for root in ("age",) * 2),
        ["ana: ast was disclosed from a draw that is not there"],
    ]
    assert given(shown, 9) == ["ana: age was disclosed at another level than it was drawn at"]


SENTENCES = {
    "UPDATE draws SET content = mark WHERE place = {age 2}": [
        "ana: a row of draws was altered",
        "ana: age version 2: the ledger does not match the draws",
    ],
    "UPDATE draws SET mark = place WHERE place = {age 2}": [
        "ana: a row of draws stands in another's place",
        "ana: age version 2: the ledger does not match the draws",
    ],
    "DELETE FROM draws WHERE place = {age 1}": [
        "ana: age version 1: the ledger does not match the draws",
    ],
    "UPDATE draws SET principal = 'x' WHERE principal = {eve}": [
        "x: rows of draws belong to nobody this store knows",
        "eve: age version 1: the ledger does not match the draws",
    ],
    "UPDATE events SET content = 'x' WHERE principal = {eve}": [
        "eve: a row of events was altered",
        "eve: rows of events are missing or added",
        "eve: age version 1: a draw without an event",
        "eve: what was spent is not what the ledger says",
        "eve: versions and levels are not what the ledger says",
        "eve: events are missing or added",
    ],
    "UPDATE people SET revision = revision - 1 WHERE principal = {eve}": [
        "{eve}: the row of a person was altered",
        "{eve}: rows of draws belong to nobody this store knows",
        "{eve}: rows of events belong to nobody this store knows",
        "{eve}: rows of log belong to nobody this store knows",
    ],
    "UPDATE people SET epoch = 1 WHERE principal = {eve}": [
        "{eve}: the row of a person was altered",
        "{eve}: rows of draws belong to nobody this store knows",
        "{eve}: rows of events belong to nobody this store knows",
        "{eve}: rows of log belong to nobody this store knows",
    ],
    "UPDATE tokens SET content = token_key WHERE sequence = 1": [
        "ana: a row of tokens was altered",
        "ana: rows of tokens are missing or added",
    ],
    "DELETE FROM tokens WHERE sequence = 2": ["ana: rows of tokens are missing or added"],
    "UPDATE heads SET length = 7 WHERE shelf = 'tokens'": [
        "{ana}: the count of tokens was altered",
        "ana: rows of tokens are missing or added",
    ],
    "DELETE FROM heads WHERE principal = '' AND shelf = 'people'": [
        "profiles are missing or added"
    ],
    "DELETE FROM log WHERE principal = {eve}": ["eve: rows of log are missing or added"],
}


@pytest.mark.parametrize("statement", SENTENCES)
def test_damage_is_told_by_whose_and_which_rows_without_a_value(file: Path, statement: str) -> None:
    with closing(sql(at(file))) as store:
        fill(store)
        assert store._journal.flush()
        keys = {name: store._key(name) for name in (ANA, EVE)}
        damage(store, statement)
        assert list(store.verify()) == [each.format(**keys) for each in SENTENCES[statement]]
