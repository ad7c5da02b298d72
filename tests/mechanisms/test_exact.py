"""Exact sampling: probabilities are certain to the last bit, whatever the computation rounds."""

import pytest

from rootguard.mechanisms.exact import certain_floors, digits_for, wide_context


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
