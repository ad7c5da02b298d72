"""What leaves in the repository's messages, conversations and innocent prompts, by its totals."""

import functools
from collections.abc import Callable, Mapping

import pytest
from benchmarks.cases import (
    Sample,
    Sort,
    Source,
    Tally,
    Verdict,
    channel_of,
    failures,
    judge,
    reads,
    samples,
    tallies,
)
from benchmarks.unguarded import Unguarded

from rootguard.channels.gateway.channel import PersonChannel
from rootguard.session import Person

KINDS = ("agents", "code", "cooking", "travel", "finance", "others")
MISSED = pytest.mark.xfail(
    strict=True, reason="the reader misses this aim; the figures say by how much"
)
"""Strict: whoever reaches the aim takes the mark away."""


def missed(*kinds: str) -> list[object]:
    """All kinds of innocent prompts, with a mark at those whose aim is missed."""
    return [pytest.param(kind, marks=MISSED if kind in kinds else ()) for kind in KINDS]


def of(sort: Sort) -> list[Sample]:
    return [sample for sample in samples() if sample.sort == sort]


def count(
    sort: Sort, open_channel: Callable[[Person], PersonChannel] = channel_of, persons: int = 3
) -> Mapping[tuple[Source, Sort, str], Tally]:
    return tallies(judge(of(sort), open_channel=open_channel, persons=persons))


@functools.cache
def counted(sort: Sort) -> Tally:
    return count(sort)["heldout", sort, "all"]


@functools.cache
def innocent(open_channel: Callable[[Person], PersonChannel]) -> dict[str, Tally]:
    """Both parts of each kind together."""
    found = count("innocent", open_channel, persons=1)
    together: dict[str, Tally] = {}
    for kind in KINDS:
        parts = found["developing", "innocent", kind], found["heldout", "innocent", kind]
        together[kind] = Tally(
            samples=sum(part.samples for part in parts),
            refused=sum(part.refused for part in parts),
            altered=sum(part.altered for part in parts),
        )
    return together


def test_there_are_as_many_cases_as_the_figures_speak_of() -> None:
    assert [len(of(sort)) for sort in ("messages", "conversations", "innocent")] == [120, 40, 480]
    ids = [(sample.source, sample.id) for sample in samples()]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("sort", ["messages", "conversations"])
def test_without_a_guard_every_secret_leaks_and_everything_else_stays(sort: Sort) -> None:
    """The control, and a check of the labels: each writing stands in its request."""
    tally = count(sort, lambda _person: Unguarded(), persons=1)["heldout", sort, "all"]
    assert tally.leaked == tally.secrets > 0
    assert (tally.refused, tally.changed, tally.long, tally.broken) == (0, 0, 0, 0)


def test_without_a_guard_an_innocent_prompt_arrives_as_it_is() -> None:
    tally = innocent(lambda _person: Unguarded())
    assert [(each.refused, each.altered) for each in tally.values()] == [(0, 0)] * len(KINDS)


def test_a_writing_is_not_read_in_a_longer_number_or_word() -> None:
    assert all(reads(text, "23") for text in ("AST 23.", "AST23U/L", "54,23,30", "=23;", "(23)"))
    assert not any(reads(text, "23") for text in ("230", "123", "23.4", "0.23"))
    assert reads("is thirty.", "thirty")
    assert not reads("thirtyish", "thirty")


def test_nothing_but_totals_is_shown_of_the_cases_that_judge() -> None:
    def failed(source: Source) -> Verdict:
        sample = Sample(id="x-1", sort="messages", category="x", source=source, api="chat", body={})
        return Verdict(sample=sample, refused="", leaked=("23",), sent="AST 23")

    assert list(failures([failed("developing")])) == ["x-1: leaked '23'", "    'AST 23'"]
    assert list(failures([failed("heldout")])) == []


@MISSED
def test_hardly_a_secret_leaves_in_a_message() -> None:
    tally = counted("messages")
    assert tally.leaked <= 0.01 * tally.secrets


def test_hardly_a_message_is_refused() -> None:
    tally = counted("messages")
    assert tally.refused <= 0.05 * tally.samples


@MISSED
def test_hardly_anything_is_changed_that_is_not_the_owners() -> None:
    tally = counted("messages")
    assert tally.changed <= 0.02 * tally.keep


@pytest.mark.parametrize("sort", ["messages", "conversations"])
def test_numbers_have_no_more_decimals_than_their_root_and_json_stays_json(sort: Sort) -> None:
    tally = counted(sort)
    assert (tally.long, tally.broken) == (0, 0)


def test_no_secret_leaves_in_a_conversation() -> None:
    tally = counted("conversations")
    assert tally.leaked == 0
    assert tally.refused <= 0.05 * tally.samples


@pytest.mark.parametrize("kind", missed("code", "cooking", "others"))
def test_an_innocent_prompt_leaves_as_it_is(kind: str) -> None:
    """Without detectors: they replace other people's names, which is their purpose."""
    tally = innocent(PersonChannel)[kind]
    assert tally.refused == 0
    assert tally.altered <= 0.03 * tally.samples


@pytest.mark.parametrize("kind", KINDS)
def test_no_innocent_prompt_is_refused_with_the_default_detectors(kind: str) -> None:
    assert innocent(channel_of)[kind].refused == 0


@pytest.mark.parametrize(
    "kind", ["agents", *(pytest.param(kind, marks=MISSED) for kind in ("code", "cooking"))]
)
def test_a_prompt_that_names_nobody_leaves_as_it_is_with_the_default_detectors(kind: str) -> None:
    """In the other kinds a detector replaces names, as it should."""
    tally = innocent(channel_of)[kind]
    assert tally.altered <= 0.03 * tally.samples
