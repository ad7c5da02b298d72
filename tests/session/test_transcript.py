"""The record of a conversation."""

from rootguard.events import RequestRefused
from rootguard.session.transcript import REMEMBERED, Transcript


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
