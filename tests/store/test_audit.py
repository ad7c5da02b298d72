"""What a check of a store says: each invariant that is broken, in its own sentence."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from rootguard.events import Charge, LevelDerived, ProfileErased, RootNoised, RootRefined
from rootguard.store import Disclosure, Record
from rootguard.store.audit import problems
from rootguard.values import MICRO, Domain
from tests.support.store_contents import ANA, EVE, at, database_of, draw, fill, sql

FIRST = draw("age", 0, micro=10)
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
    charged = [record.event for record in records] if events is None else events
    return [each.removeprefix(AGE_1 + ": ") for each in problems(ANA, records, charged, ())]


def test_levels_that_nest_are_sound_up_to_their_limits() -> None:
    assert told([]) == []
    assert told([FIRST]) == []  # on the first point of its grid
    assert told([FIRST, level(25, 1, price=15), level(24, 2), level(5, 3)]) == []
    assert told([level(25, 1, price=15), FIRST], [FIRST.event, level(25, 1, price=15).event]) == []
    assert told([], [FIRST.event, ProfileErased(principal=ANA)]) == []


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
    erased = ProfileErased(principal=ANA)
    assert told([FIRST], [FIRST.event, erased]) == []  # what came back is checked as well
    assert told([], [FIRST.event, erased, FIRST.event]) == [differ]
    assert told([], [erased, FIRST.event]) == [differ]


def test_the_owner_of_events_and_the_draws_of_disclosures_are_checked() -> None:
    theirs = RootNoised(
        principal=EVE, root="age", version=1, micro_epsilon=10, mechanism="geometric"
    )
    assert told([replace(FIRST, event=theirs)]) == ["ana: an event belongs to somebody else"]
    shown = Disclosure(service="lab", tier="t", root="age", version=1, position=0)
    others = [replace(shown, version=2), replace(shown, position=1), replace(shown, root="ast")]
    found = [list(problems(ANA, [FIRST], [FIRST.event], [each])) for each in (shown, *others)]
    assert found == [
        [],
        *([f"ana: {root} was disclosed from a draw that is not there"] for root in ("age",) * 2),
        ["ana: ast was disclosed from a draw that is not there"],
    ]


SENTENCES = {
    "UPDATE draws SET grid_index = 9 WHERE version = 2": [
        "ana: a row of draws was altered",
        "ana: age version 2: the ledger does not match the draws",
    ],
    "UPDATE caps SET micro_epsilon = 7": ["ana: a row of caps was altered"],
    "DELETE FROM caps": ["ana: rows of caps are missing or added"],
    "UPDATE tokens SET entry = token_key WHERE sequence = 1": [
        "ana: a row of tokens was altered",
        "ana: tokens are not numbered without gaps",
    ],
    "DELETE FROM tokens WHERE sequence = 2": ["ana: rows of tokens are missing or added"],
    "UPDATE heads SET length = 7 WHERE shelf = 'caps'": [
        "ana: the count of caps was altered",
        "ana: rows of caps are missing or added",
    ],
    "DELETE FROM heads WHERE principal = ''": ["profiles are missing or added"],
    "UPDATE disclosures SET service = 'x'": ["ana: a row of disclosures was altered"],
    "DELETE FROM crossings WHERE principal = 'eve'": [
        "eve: rows of crossings are missing or added"
    ],
}


@pytest.mark.parametrize("statement", SENTENCES)
def test_damage_is_told_by_whose_and_which_rows_without_a_value(file: Path, statement: str) -> None:
    with closing(sql(at(file))) as store:
        fill(store)
        assert store._journal.flush()
        with database_of(store).exclusive() as db:
            db.execute(statement)
        assert list(store.verify()) == SENTENCES[statement]
