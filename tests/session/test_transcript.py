"""The record of a conversation."""

import contextvars

import pytest

from rootguard import MemoryStore, load_template
from rootguard.events import Event, RequestRefused, ValueReleased
from rootguard.session.session import REMEMBERED, AuditTrail, Transcript, speak_to
from rootguard.store.base import RECIPIENT, Epoch, Recipient
from rootguard.values import Principal


def test_a_transcript_that_is_full_keeps_the_latest_and_goes_on_counting() -> None:
    transcript = Transcript(3)
    for _ in range(5):
        transcript.append(RequestRefused(turn=transcript.next_turn, reason="BudgetError"))
    assert [event.turn for event in transcript if isinstance(event, RequestRefused)] == [3, 4, 5]
    assert len(transcript) == 3


def test_a_transcript_keeps_the_documented_number_of_events() -> None:
    transcript = Transcript()
    for _ in range(REMEMBERED + 5):
        transcript.append(RequestRefused(turn=transcript.next_turn, reason="BudgetError"))
    assert len(transcript) == REMEMBERED == 10_000
    assert transcript.next_turn == REMEMBERED + 6


class Notes(MemoryStore):
    """What is noted, as it is noted."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[Event] = []
        self.toward: list[Recipient | None] = []

    def note(
        self, principal: Principal, event: Event, to: Recipient | None = None, epoch: Epoch = None
    ) -> None:
        self.noted.append(event)
        self.toward.append(to)


def trail(store: Notes, service: str = "") -> AuditTrail:
    return AuditTrail(store, Principal("owner"), [load_template("fib4")], service=service)


def released(formula: str, name: str = "q1") -> ValueReleased:
    return ValueReleased(
        turn=1, name=name, formula=formula, value=7.5, rests_on=(), levels=(), recipient="", tier=""
    )


@pytest.mark.parametrize(
    ("formula", "kept", "value"),
    [
        ("", "", 7.5),
        ("age * 2", "age * 2", 7.5),
        ("age * 91.8", "age * #", ""),
        ("age > 91.8", "age > #", 7.5),
        ("not (age > 91.8)", "not (age > #)", 7.5),
    ],
)
def test_a_number_that_only_the_asker_knows_is_hidden_with_what_follows_from_it(
    formula: str, kept: str, value: object
) -> None:
    store = Notes()
    log = trail(store)
    for _ in range(2):
        log.note(released(formula))
    for noted in store.noted:
        assert isinstance(noted, ValueReleased)
        assert (noted.formula, noted.value) == (kept, value)
    assert len(store.noted) == 2


def test_a_formula_that_uses_a_hidden_one_is_hidden_and_one_that_uses_another_is_not() -> None:
    store = Notes()
    log = trail(store)
    for formula, name in (
        *(("age * 91.8", "mine"), ("age * 2", "double")),
        *(("mine + 1", "q1"), ("double + 1", "q2")),
    ):
        log.note(released(formula, name))
    values = [event.value for event in store.noted if isinstance(event, ValueReleased)]
    assert values == ["", 7.5, "", 7.5]


def test_an_event_goes_to_the_service_of_the_policy_else_to_whom_is_spoken() -> None:
    def noted() -> list[Recipient | None]:
        store = Notes()
        speak_to("browser", "tool")
        for service in ("", "app", "browser"):
            trail(store, service).note(released("age"))
        return store.toward

    assert contextvars.copy_context().run(noted) == [
        Recipient(service=service, route="tool") for service in ("browser", "app", "browser")
    ]


def test_whom_is_spoken_to_is_cut_to_eighty_characters() -> None:
    def spoken() -> Recipient:
        speak_to("a" * 81, "<b>")
        return RECIPIENT.get()

    assert contextvars.copy_context().run(spoken) == Recipient(service="a" * 80, route="b")
