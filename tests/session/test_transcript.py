"""The record of a conversation."""

from rootguard.events import RequestRefused
from rootguard.session.transcript import Transcript


def test_a_transcript_that_is_full_keeps_the_latest_and_goes_on_counting() -> None:
    transcript = Transcript(3)
    for _ in range(5):
        transcript.append(RequestRefused(turn=transcript.next_turn, reason="BudgetError"))
    assert [event.turn for event in transcript if isinstance(event, RequestRefused)] == [3, 4, 5]
    assert len(transcript) == 3


def test_without_a_limit_everything_is_kept() -> None:
    transcript = Transcript()
    for _ in range(5):
        transcript.append(RequestRefused(turn=transcript.next_turn, reason="BudgetError"))
    assert len(transcript) == 5
    assert transcript.next_turn == 6
