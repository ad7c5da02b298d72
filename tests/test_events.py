"""Events: what is written can be read back, and nothing else can."""

import dataclasses
import json

import pytest

from rootguard.errors import EventError
from rootguard.events import (
    ChangedPlace,
    Event,
    LevelDerived,
    PlacesRefused,
    ProfileErased,
    RequestRefused,
    RootCharged,
    RootNoised,
    RootRefined,
    RootReturned,
    ServiceCharged,
    TableCharged,
    TableDrawKept,
    TokenRefused,
    ValueReleased,
    cost,
    from_record,
    to_record,
)

EVENTS: list[Event] = [
    RootNoised(
        principal="ana", root="age", version=2, micro_epsilon=225_001, mechanism="geometric"
    ),
    RootRefined(principal="ana", root="age", version=2, micro_epsilon=4, level=225_005),
    LevelDerived(principal="ana", root="age", version=2, level=1000),
    TableDrawKept(principal="ana", root="age", version=3, level=5000, mechanism="geometric"),
    RootReturned(principal="ana", root="age", version=2),
    TableCharged(principal="ana", root="age", draws=2, micro_epsilon=10_000),
    RootCharged(
        principal="",
        root="ast",
        version=2,
        draws=2,
        micro_epsilon=200_000,
        first=100_000,
        mechanism="geometric",
    ),
    ServiceCharged(principal="ana", root="age", service="clinic", level=1000),
    ProfileErased(principal="ana"),
    ValueReleased(
        turn=1,
        name="fib4",
        formula="age / 2",
        value=1.45,
        rests_on=("age", "ast"),
        levels=(225_005, 1000),
        recipient="clinic",
        tier="gold",
    ),
    ValueReleased(
        turn=2,
        name="ssn",
        formula="",
        value="123-45-6789",
        rests_on=(),
        levels=(),
        recipient="",
        tier="",
    ),
    RequestRefused(turn=3, reason="UnknownNameError"),
    TokenRefused(turn=4, identifier="phone", times=2),
    PlacesRefused(
        turn=5,
        reason="",
        rule="",
        places=(
            ChangedPlace(path="labs.0.value", change="value", root="ast", times=1, source="tool"),
            ChangedPlace(path="note", change="email", root="", times=3, source="tool"),
        ),
    ),
    PlacesRefused(
        turn=6,
        reason="AmbiguousParameterError",
        rule="ambiguous_parameter",
        places=(ChangedPlace(path="x", change="refused", root="ast", times=1, source="tool"),),
    ),
    PlacesRefused(turn=7, reason="RequestRefusedError", rule="bad_value", places=()),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_survives_its_record_also_through_json(event: Event) -> None:
    record = to_record(event)
    assert from_record(record) == event
    again = from_record(json.loads(json.dumps(record)))
    assert again == event
    assert type(again) is type(event)
    assert hash(again) == hash(event)


def test_the_kinds_written_in_records_never_change() -> None:
    kinds = [to_record(event)["kind"] for event in EVENTS]
    assert kinds == [
        "root-noised",
        "root-refined",
        "level-derived",
        "table-draw-kept",
        "root-returned",
        "table-charged",
        "root-charged",
        "service-charged",
        "profile-erased",
        "value-released",
        "value-released",
        "request-refused",
        "token-refused",
        *["places-refused"] * 3,
    ]


def test_every_kind_of_event_is_in_the_table() -> None:
    assert {type(event) for event in EVENTS} == set(Event.__args__)


def test_reading_a_record_leaves_it_as_it_was() -> None:
    record = to_record(EVENTS[0])
    before = dict(record)
    from_record(record)
    assert record == before


@pytest.mark.parametrize("kind", ["root-forgotten", "", "RootNoised", None, 3, ["root-noised"]])
def test_an_unknown_kind_is_refused_not_skipped(kind: object) -> None:
    with pytest.raises(EventError, match="unknown kind"):
        from_record({**to_record(EVENTS[0]), "kind": kind})
    with pytest.raises(EventError, match="unknown kind"):
        from_record({})


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_missing_or_an_extra_field_is_refused(event: Event) -> None:
    record = to_record(event)
    for field in dataclasses.fields(event):
        short = {key: value for key, value in record.items() if key != field.name}
        with pytest.raises(EventError, match="fields"):
            from_record(short)
    with pytest.raises(EventError, match="fields"):
        from_record({**record, "extra": 1})


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (RootNoised, "micro_epsilon", "225001"),
        (RootNoised, "micro_epsilon", 1.5),
        (RootNoised, "micro_epsilon", True),
        (RootNoised, "micro_epsilon", None),
        (RootNoised, "version", "2"),
        (RootNoised, "root", 3),
        (RootNoised, "principal", None),
        (RootNoised, "root", 1.5),
        (ValueReleased, "rests_on", "age"),
        (ValueReleased, "rests_on", [1]),
        (ValueReleased, "rests_on", None),
        (ValueReleased, "levels", 7),
        (ValueReleased, "levels", ["7"]),
        (ValueReleased, "levels", [True]),
        (ValueReleased, "value", None),
        (ValueReleased, "value", False),
        (RequestRefused, "turn", 1.0),
        (RequestRefused, "reason", 4),
        (TokenRefused, "times", "2"),
    ],
)
def test_a_field_of_the_wrong_type_is_refused(kind: type[Event], field: str, value: object) -> None:
    record = to_record(next(event for event in EVENTS if type(event) is kind))
    assert field in record
    with pytest.raises(EventError):
        from_record({**record, field: value})


@pytest.mark.parametrize(
    "place",
    [
        {"path": "x"},
        {"path": "x", "change": "value", "root": "ast", "times": 1, "source": "tool", "raw": 47},
        {"path": "x", "change": "value", "root": "ast", "times": "1", "source": "tool"},
        {"path": "x", "change": "value", "root": None, "times": 1, "source": "tool"},
        {"path": "x", "change": "value", "root": "ast", "times": 0, "source": "tool"},
        "x",
    ],
)
def test_a_changed_place_has_its_fields_and_no_others(place: object) -> None:
    with pytest.raises(EventError):
        from_record({**to_record(EVENTS[-1]), "places": [place]})


def test_no_event_gives_budget_back() -> None:
    with pytest.raises(EventError, match="budget back"):
        from_record({**to_record(EVENTS[0]), "micro_epsilon": -1})
    with pytest.raises(EventError):
        RootNoised(principal="ana", root="age", version=1, micro_epsilon=-1, mechanism="laplace")


def test_a_refinement_costs_something_and_less_than_its_level() -> None:
    least = RootRefined(principal="ana", root="age", version=1, micro_epsilon=1, level=2)
    assert from_record(to_record(least)) == least
    for cost_, level in ((0, 2), (-1, 2), (2, 2), (3, 2)):
        with pytest.raises(EventError, match="less than the level"):
            RootRefined(principal="ana", root="age", version=1, micro_epsilon=cost_, level=level)


def test_a_root_may_be_noised_at_no_cost_and_a_refusal_counts_one_token_at_least() -> None:
    free = RootNoised(principal="ana", root="age", version=1, micro_epsilon=0, mechanism="laplace")
    assert from_record(to_record(free)) == free
    assert cost(free) == cost(ProfileErased(principal="ana")) == 0
    assert cost(EVENTS[0]) == 225_001
    assert TokenRefused(turn=1, identifier="phone", times=1).times == 1
    with pytest.raises(EventError, match="one token or more"):
        TokenRefused(turn=1, identifier="phone", times=0)


def test_events_are_frozen() -> None:
    for event in EVENTS:
        first = dataclasses.fields(event)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(event, first, "eve")


def test_each_event_costs_what_it_drew_and_no_other_does() -> None:
    costs = {type(event).__name__: cost(event) for event in EVENTS if cost(event)}
    assert costs == {
        "RootNoised": 225_001,
        "RootRefined": 4,
        "TableCharged": 10_000,
        "RootCharged": 200_000,
    }


def test_tables_are_charged_for_one_draw_or_more() -> None:
    least = TableCharged(principal="ana", root="age", draws=1, micro_epsilon=1)
    assert cost(least) == 1
    for draws, micro in ((0, 1), (1, 0)):
        with pytest.raises(EventError, match="one draw or more"):
            TableCharged(principal="ana", root="age", draws=draws, micro_epsilon=micro)


def test_a_request_was_sent_unless_there_is_a_reason_why_not() -> None:
    sent = [event.sent for event in EVENTS if isinstance(event, PlacesRefused)]
    assert sent == [True, False, False]
    once = ChangedPlace(path="x", change="value", root="ast", times=1, source="tool")
    event = PlacesRefused(turn=5, reason="", rule="", places=(once,))
    assert from_record(json.loads(json.dumps(to_record(event)))) == event
