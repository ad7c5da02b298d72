"""Exact sampling: probabilities are certain to the last bit, whatever the computation rounds."""

from rootguard.mechanisms.exact import certain_floors


def test_a_probability_beside_a_boundary_is_computed_again_with_more_digits() -> None:
    """One half and 2**-80, computed each time a little too low: 96 digits cannot tell, 160 can."""
    asked: list[int] = []

    def compute(precision: int) -> list[list[int]]:
        asked.append(precision)
        return [[(1 << precision - 1) + (1 << precision - 80) - (1 << 17)]]

    assert certain_floors(compute, 1) == ((2**32 - 1 - 2**31,),)
    assert asked == [96, 160]
