"""Exact sampling: probabilities are certain to the last bit, whatever the computation rounds."""

import numpy as np
import pytest

from rootguard.mechanisms.exact import (
    ExactSampler,
    GuideTableSampler,
    certain_floors,
    digits_for,
    geometric_rows,
    wide_context,
)
from tests.support.told_words import Told


def test_a_probability_beside_a_boundary_is_computed_again_with_more_digits() -> None:
    """One half and 2**-80, computed each time a little too low: 96 digits cannot tell, 160 can."""
    asked: list[int] = []

    def compute(precision: int) -> list[list[int]]:
        asked.append(precision)
        return [[(1 << precision - 1) + (1 << precision - 80) - (1 << 17)]]

    assert certain_floors(compute, 1) == ((2**32 - 1 - 2**31,),)
    assert asked == [96, 160]


@pytest.mark.parametrize(
    ("beyond", "again"),
    [(1 << 44, False), ((1 << 44) - 1, True), (-(1 << 44), True), (-(1 << 44) - 1, False)],
)
def test_a_probability_is_certain_from_two_to_the_forty_four_units_on(
    beyond: int, again: bool
) -> None:
    asked: list[int] = []

    def compute(precision: int) -> list[list[int]]:
        asked.append(precision)
        return [[(1 << precision - 1) + (beyond << precision - 96)]]

    half = 2**31 if beyond > 0 else 2**31 - 1
    assert certain_floors(compute, 1) == ((2**32 - 1 - half,),)
    assert asked == ([96, 160] if again else [96])


def test_decimals_have_eight_digits_beyond_the_bits_asked_for() -> None:
    context = wide_context(10_000)  # 3011 digits, rounded up by a third of a percent
    assert context.prec == 3020 + 8


@pytest.mark.parametrize(
    ("rate", "limit", "digits"),
    [(3.0, 9, 0), (2.9, 9, 1), (1.5, 9, 1), (0.1, 99, 5), (1e-6, 1024, 10), (1e-6, 1025, 11)],
)
def test_binary_digits_are_drawn_until_carries_are_rare_or_the_grid_ends(
    rate: float, limit: int, digits: int
) -> None:
    assert digits_for(rate, limit) == digits


def thirds_and_fifths(precision: int) -> list[list[int]]:
    """Two variables: one or more with probability 1/3; with 2/5, and two with 1/5."""
    one = 1 << precision
    return [[one // 3], [2 * one // 5, one // 5]]


# U is one minus what the words spell, so the last fifth of all words stands for two.
THIRD, FIFTHS, FIFTH = (
    2**32 - 1 - (part << 32) // whole for part, whole in ((1, 3), (2, 5), (1, 5))
)


@pytest.mark.parametrize(
    ("words", "outcomes"),
    [
        ((0, 0), [0, 0]),
        ((THIRD - 1, FIFTHS - 1), [0, 0]),
        ((THIRD + 1, FIFTHS + 1), [1, 1]),
        ((FIFTH, FIFTH - 1), [1, 1]),
        ((2**32 - 1, FIFTH + 1), [1, 2]),
    ],
)
def test_each_variable_is_drawn_from_one_word_of_its_own(
    words: tuple[int, int], outcomes: list[int]
) -> None:
    source = Told(*words)
    assert ExactSampler(thirds_and_fifths).draw(source) == outcomes
    assert source.left == []


@pytest.mark.parametrize(("word", "outcome"), [(FIFTHS - 1, 0), (THIRD + 1, 1), (FIFTH + 1, 2)])
def test_the_last_variable_alone_takes_one_word(word: int, outcome: int) -> None:
    source = Told(word)
    assert ExactSampler(thirds_and_fifths).draw_last(source) == outcome
    assert source.left == []


def digits_of(part: int, whole: int) -> list[int]:
    """The words that spell one minus a fraction, from the first on."""
    spelled = (1 << 96) - 1 - (part << 96) // whole
    return [spelled >> 64, spelled >> 32 & 2**32 - 1, spelled & 2**32 - 1]


@pytest.mark.parametrize(("beside", "outcome"), [(-1, 0), (1, 1)])
@pytest.mark.parametrize("after", [1, 2])
def test_a_word_at_a_threshold_takes_others_until_they_differ(
    after: int, beside: int, outcome: int
) -> None:
    words = digits_of(2, 5)[: after + 1]
    words[after] += beside
    alone, together = Told(*words), Told(0, words[0], *words[1:])
    assert ExactSampler(thirds_and_fifths).draw_last(alone) == outcome
    assert ExactSampler(thirds_and_fifths).draw(together) == [0, outcome]
    assert alone.left == together.left == []


def test_many_rows_are_drawn_as_the_thresholds_say_and_ties_take_more_words() -> None:
    def fifths(precision: int) -> list[list[int]]:
        return thirds_and_fifths(precision)[1:]

    (low, middle, last), (high, below, end) = digits_of(2, 5), digits_of(1, 5)
    first, second = low << 32 | middle, high << 32 | below
    words = [0, first - 1, first, first, first + 1, second - 1, second, second, second + 1]
    # Of the four rows that are tied.
    more = {2: Told(last - 1), 3: Told(last + 1), 6: Told(end - 1), 7: Told(end + 1)}
    found = GuideTableSampler(fifths).draw(np.array(words, dtype=np.uint64), more.__getitem__)
    assert found.tolist() == [0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert all(told.left == [] for told in more.values())


@pytest.mark.parametrize(("low", "high"), [(0, 2), (1, 1), (2, 1), (2, 0)])
@pytest.mark.parametrize("carry", [True, False])
def test_a_geometric_variable_is_cut_into_its_digits(low: int, high: int, *, carry: bool) -> None:
    """P(G >= k) is 0.9**k; the low digits are G modulo 2**low, the next ones what is left of it."""
    precision, ratio = 64, 0.9
    rows = geometric_rows(int(ratio * 2**64), precision, low, high, carry=carry)
    step = 1 << low
    masses = [ratio**k * (1 - ratio) for k in range(2000)]
    expected = []
    if low:
        of_low = [sum(masses[k] for k in range(2000) if k % step >= j) for j in range(1, step)]
        expected.append(of_low)
    whole = 1 << high
    if carry:
        expected.append([ratio ** (step * j) for j in range(1, whole + 1)])
    else:
        above = [
            sum(masses[k] for k in range(2000) if k // step % whole >= j) for j in range(1, whole)
        ]
        expected.append(above)
    assert [len(row) for row in rows] == [len(row) for row in expected]
    for row, known in zip(rows, expected, strict=True):
        assert [each / 2**64 for each in row] == pytest.approx(known, rel=1e-9)
