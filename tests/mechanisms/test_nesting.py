"""Nested levels: any set of them costs its highest epsilon, and draws follow their laws exactly."""

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, getcontext, localcontext
from fractions import Fraction
from functools import cache, partial
from itertools import accumulate, islice, product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp

from rootguard.errors import BudgetError, DomainError
from rootguard.mechanisms import nesting
from rootguard.mechanisms.additive import Geometric
from rootguard.mechanisms.base import MAX_EPSILON, Floats
from rootguard.mechanisms.exact import exponential_of
from rootguard.mechanisms.nesting import between, degrade, kernel, log_kernel, refine
from rootguard.rng import SECURE
from tests.support.goodness import FALSE_ALARM, fit
from tests.support.told_words import Told

SIZES = [2, 3, 5, 60]
PAIRS = [
    ("0.0001", "0.0002"),
    ("0.01", "0.5"),
    ("0.1", "0.1001"),
    ("0.3", "1"),
    ("2", "5"),
    ("1", "50"),
    ("49", "50"),
]
TRIPLES = [("0.0001", "0.0002", "0.0005"), ("0.1", "0.3", "1"), ("1", "2", "4"), ("3", "7", "50")]
DRAWS = 20_000
FEWER = [5_000, pytest.param(DRAWS, marks=pytest.mark.slow)]
"""For draws that take long. With the fewer the false-alarm rate is the same, and a control is
mistaken for the law with probability below 1e-31."""
HALF = [10_000, pytest.param(DRAWS, marks=pytest.mark.slow)]
"""Where controls are nearer: with these one is mistaken for the law with probability below
1e-10."""


def log_geometric(epsilon: Fraction, size: int) -> Floats:
    points = np.arange(size)
    return Geometric(epsilon, size).log_pmf(points[:, None], points[None, :])


def geometric(epsilon: Fraction, size: int) -> Floats:
    return np.asarray(np.exp(log_geometric(epsilon, size)))


def log_link(high: Fraction, low: Fraction, size: int) -> Floats:
    points = np.arange(size)
    return log_kernel(points[:, None], points[None, :], high=high, low=low, size=size)


def log_refined(low: Fraction, high: Fraction, size: int) -> Floats:
    """The log of P(z_high | x, z_low), indexed x, z_low, z_high."""
    weights = log_geometric(high, size)[:, None, :] + log_link(high, low, size).T[None, :, :]
    return np.asarray(weights - logsumexp(weights, axis=2, keepdims=True))


def log_inserted(low: Fraction, middle: Fraction, high: Fraction, size: int) -> Floats:
    """The log of P(z_middle | z_high, z_low), indexed z_high, z_low, z_middle."""
    down, further = log_link(high, middle, size), log_link(middle, low, size)
    weights = down[:, None, :] + further.T[None, :, :]
    return np.asarray(weights - logsumexp(weights, axis=2, keepdims=True))


def price(log_joint: Floats) -> float:
    """The largest log-ratio between neighbouring inputs, the first axis, over all outputs."""
    return float(np.abs(np.diff(log_joint, axis=0)).max())


@pytest.fixture(autouse=True)
def exponentials_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A law is tried with thousands of draws of one input, which ask for the same few numbers."""

    @cache
    def remembered(epsilon: Fraction, digits: int) -> Decimal:
        return exponential_of(epsilon)

    monkeypatch.setattr(
        nesting, "exponential_of", lambda epsilon: remembered(epsilon, getcontext().prec)
    )


def draws_of(draw: Callable[[], int], count: int = DRAWS) -> NDArray[np.int64]:
    return np.fromiter((draw() for _ in range(count)), np.int64, count)


# The kernel


def exact_power(epsilon: Fraction) -> Decimal:
    return (-Decimal(epsilon.numerator) / epsilon.denominator).exp()


def exact_geometric(epsilon: Fraction, size: int) -> list[list[Decimal]]:
    """G by its definition, to the precision of the caller's context."""
    b = exact_power(epsilon)
    share = [1 if j in (0, size - 1) else 1 - b for j in range(size)]
    return [[b ** abs(i - j) * share[j] / (1 + b) for j in range(size)] for i in range(size)]


def exact_kernel(high: Fraction, low: Fraction, size: int) -> list[list[Decimal]]:
    """G_high^-1 G_low by Gauss-Jordan elimination: no formula of the module's is used."""
    rows = [
        a + b for a, b in zip(exact_geometric(high, size), exact_geometric(low, size), strict=True)
    ]
    for i in range(size):
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for k in range(size):
            if k != i:
                factor = rows[k][i]
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    return [row[size:] for row in rows]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("pair", PAIRS)
def test_a_lower_level_is_the_higher_one_sent_through_a_stochastic_kernel(
    pair: tuple[str, str], size: int
) -> None:
    low, high = map(Fraction, pair)
    link = kernel(high, low, size)
    assert (link >= 0).all()
    np.testing.assert_allclose(link.sum(axis=1), 1, rtol=0, atol=1e-12)
    made = geometric(high, size) @ link
    np.testing.assert_allclose(made, geometric(low, size), rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [2, 3, 6])
@pytest.mark.parametrize("pair", PAIRS)
def test_the_closed_form_is_what_elimination_finds(pair: tuple[str, str], size: int) -> None:
    low, high = map(Fraction, pair)
    with localcontext(Context(prec=400, Emax=MAX_EMAX, Emin=MIN_EMIN)):
        solved = exact_kernel(high, low, size)
        logs = np.array([[float(value.ln()) for value in row] for row in solved])
    # 0.1001 - 0.1 is exact as a fraction, so that nothing cancels even there.
    np.testing.assert_allclose(log_link(high, low, size), logs, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kernel(high, low, size), np.exp(logs), rtol=1e-11, atol=0)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("triple", TRIPLES)
def test_two_short_steps_down_are_one_long_step(triple: tuple[str, str, str], size: int) -> None:
    low, middle, high = map(Fraction, triple)
    steps = kernel(high, middle, size) @ kernel(middle, low, size)
    np.testing.assert_allclose(steps, kernel(high, low, size), rtol=0, atol=1e-12)


# What a set of levels costs, by enumeration


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("pair", PAIRS)
def test_a_refined_pair_costs_its_higher_epsilon_and_a_redrawn_pair_costs_the_sum(
    pair: tuple[str, str], size: int
) -> None:
    low, high = map(Fraction, pair)
    first = log_geometric(low, size)[:, :, None]
    joint = first + log_refined(low, high, size)
    np.testing.assert_allclose(np.exp(joint).sum(axis=2), geometric(low, size), atol=1e-12)
    np.testing.assert_allclose(np.exp(joint).sum(axis=1), geometric(high, size), atol=1e-12)
    assert price(joint) <= float(high) + 1e-9
    redrawn = first + log_geometric(high, size)[:, None, :]  # control
    assert price(redrawn) == pytest.approx(float(low + high), abs=1e-9)
    assert price(redrawn) > float(high) + float(low) / 2


@pytest.mark.parametrize("size", [2, 3, 12])
@pytest.mark.parametrize("triple", TRIPLES)
def test_a_value_refined_twice_costs_its_highest_epsilon(
    triple: tuple[str, str, str], size: int
) -> None:
    low, middle, high = map(Fraction, triple)
    first = log_geometric(low, size)[:, :, None, None]
    second = log_refined(low, middle, size)[:, :, :, None]
    third = log_refined(middle, high, size)[:, None, :, :]
    joint = first + second + third
    assert np.exp(joint).sum(axis=(1, 2, 3)) == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(np.exp(joint).sum(axis=(1, 2)), geometric(high, size), atol=1e-12)
    assert price(joint) <= float(high) + 1e-9
    # Control: refining the lowest level a second time, as if the middle one were not there.
    forgetful = first + second + log_refined(low, high, size)[:, :, None, :]
    assert price(forgetful) > float(high) * (1 + 1e-3)


@pytest.mark.parametrize("size", [2, 3, 12])
@pytest.mark.parametrize("triple", TRIPLES)
def test_levels_pooled_below_the_highest_cost_the_highest_among_them(
    triple: tuple[str, str, str], size: int
) -> None:
    low, middle, high = map(Fraction, triple)
    top = log_geometric(high, size)[:, :, None, None]  # x, z_high, z_low, z_middle
    skip = log_link(high, low, size)[None, :, :, None]
    joint = top + skip + log_inserted(low, middle, high, size)[None]
    pooled = np.asarray(logsumexp(joint, axis=1))
    assert price(pooled) <= float(middle) + 1e-9
    np.testing.assert_allclose(np.exp(pooled).sum(axis=2), geometric(low, size), atol=1e-12)
    np.testing.assert_allclose(np.exp(pooled).sum(axis=1), geometric(middle, size), atol=1e-12)
    # Control: a middle level degraded from the highest one, as if the lower were not there.
    apart = top + skip + log_link(high, middle, size)[None, :, None, :]
    assert price(np.asarray(logsumexp(apart, axis=1))) > float(middle) * (1 + 1e-3)


# The draws


class Tape:
    """A source that plays one long number, a word at a time."""

    def __init__(self, number: int, words: int) -> None:
        self.left = (number >> 32 * k & 0xFFFFFFFF for k in reversed(range(words)))

    def words(self, count: int) -> list[int]:
        taken = list(islice(self.left, count))
        assert len(taken) == count, "the tape is at its end"
        return taken


def assert_cells(draw: Callable[..., int], weights: list[Decimal]) -> None:
    """Two units below the end of each cell the draw is its point, two above it the next one."""
    ends = list(accumulate(weights))
    narrowest = min(weights) / ends[-1]
    depth = 2  # words, which place the uniform number to a fraction of any cell
    while narrowest * (1 << 32 * (depth - 1)) < 1:
        depth += 1
    for point, end in enumerate(ends[:-1]):
        edge = int(end / ends[-1] * (1 << 32 * depth))
        assert draw(source=Tape(edge - 2, depth)) == point
        assert draw(source=Tape(edge + 2, depth)) == point + 1


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("triple", TRIPLES)
def test_every_draw_divides_the_unit_interval_exactly_as_its_law_does(
    triple: tuple[str, str, str], size: int
) -> None:
    low, middle, high = map(Fraction, triple)
    with localcontext(Context(prec=600, Emax=MAX_EMAX, Emin=MIN_EMIN)):
        noise = exact_geometric(high, size)
        long, upper = exact_kernel(high, low, size), exact_kernel(high, middle, size)
        lower = exact_kernel(middle, low, size)
        for i, j in product(range(size), repeat=2):
            assert_cells(partial(degrade, i, high=high, low=low, size=size), long[i])
            assert_cells(
                partial(refine, i, j, low=low, high=high, size=size),
                [noise[i][z] * long[z][j] for z in range(size)],
            )
            assert_cells(
                partial(between, i, j, high=high, middle=middle, low=low, size=size),
                [upper[i][z] * lower[z][j] for z in range(size)],
            )


def test_one_less_a_power_has_the_digits_that_were_asked_for() -> None:
    """However many the subtraction cancels: the error is that of one rounding, half a unit."""
    for rate in (*(Fraction(1, n) for n in range(1, 1000)), Fraction(1, 10**9 - 1), Fraction(3)):
        with localcontext(Context(prec=20)):
            found = nesting._one_minus_exponential(rate)
        with localcontext(Context(prec=60)):
            true = 1 - exact_power(rate)
            assert abs(found - true) < Decimal("0.51e-19") * Decimal(10) ** true.adjusted()


@pytest.mark.parametrize("size", [2, 99, 999])
def test_the_ends_of_cells_are_off_by_less_than_is_allowed_for(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """At epsilons that no decimal spells exactly, whose rounding every grid step takes in."""
    computed: list[nesting.Weights] = []

    def kept(weights: nesting.Weights, _size: int, _source: object) -> int:
        computed.append(weights)
        return 0

    monkeypatch.setattr(nesting, "_draw", kept)
    low, high = Fraction(100, 7), Fraction(100, 3)
    degrade(size - 1, low=low, high=high, size=size, source=SECURE)
    refine(size // 2, size // 2, low=low, high=high, size=size, source=SECURE)
    lost = nesting._SPARE_DIGITS + len(str(size))
    assert 10**lost >= 1100 * size  # as its docstring reckons
    for weights in computed:
        ends, wide = (_shares_of(weights, digits) for digits in (12 + lost, 80))
        with localcontext(Context(prec=80, Emax=MAX_EMAX, Emin=MIN_EMIN)):
            off = max(abs(end / true - 1) for end, true in zip(ends, wide, strict=True))
            assert off < Decimal(10) ** -12
            assert size < 999 or off > Decimal(10) ** -(12 + lost)  # control: there is an error


def _shares_of(weights: nesting.Weights, digits: int) -> list[Decimal]:
    with localcontext(Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)):
        ends = list(accumulate(weights()))
        return [end / ends[-1] for end in ends]


EPSILONS = [("0.02", "0.05", "0.15"), ("1", "1.5", "2")]
PLACES = [(0, 0), (2, 4), (6, 0)]


@pytest.mark.parametrize("index", [0, 3, 6])
@pytest.mark.parametrize("triple", EPSILONS)
@pytest.mark.parametrize("count", HALF)
def test_degraded_draws_follow_the_kernel_and_not_fresh_noise(
    count: int, triple: tuple[str, str, str], index: int
) -> None:
    low, middle, high = map(Fraction, triple)
    draws = draws_of(lambda: degrade(index, high=high, low=low, size=7, source=SECURE), count)
    assert fit(draws, kernel(high, low, 7)[index]) > FALSE_ALARM
    # Controls: noise at `low` put on top of the noise there is; the kernel of another level.
    assert fit(draws, geometric(low, 7)[index]) < FALSE_ALARM
    assert fit(draws, kernel(high, middle, 7)[index]) < FALSE_ALARM


@pytest.mark.parametrize(("truth", "index"), PLACES)
@pytest.mark.parametrize("triple", EPSILONS)
@pytest.mark.parametrize("count", HALF)
def test_refined_draws_follow_the_conditional_law_and_not_fresh_noise(
    count: int, triple: tuple[str, str, str], truth: int, index: int
) -> None:
    low, _, high = map(Fraction, triple)
    draw = partial(refine, truth, index, low=low, high=high, size=7)
    draws = draws_of(lambda: draw(source=SECURE), count)
    law = np.exp(log_refined(low, high, 7))
    assert fit(draws, law[truth, index]) > FALSE_ALARM
    # Controls: a draw that forgets the lower level; the conditional law of another input.
    assert fit(draws, geometric(high, 7)[truth]) < FALSE_ALARM
    assert fit(draws, law[truth + 1 if truth < 6 else 5, index]) < FALSE_ALARM


@pytest.mark.parametrize(("upper", "lower"), PLACES)
@pytest.mark.parametrize("triple", EPSILONS)
@pytest.mark.parametrize("count", FEWER)
def test_inserted_draws_follow_the_conditional_law_and_not_the_kernel_from_above(
    count: int, triple: tuple[str, str, str], upper: int, lower: int
) -> None:
    low, middle, high = map(Fraction, triple)
    draw = partial(between, upper, lower, high=high, middle=middle, low=low, size=7)
    draws = draws_of(lambda: draw(source=SECURE), count)
    law = np.exp(log_inserted(low, middle, high, 7))
    assert fit(draws, law[upper, lower]) > FALSE_ALARM
    assert fit(draws, kernel(high, middle, 7)[upper]) < FALSE_ALARM  # forgets the lower level


@pytest.mark.parametrize("truth", [0, 4])
@pytest.mark.parametrize("pair", [("0.1", "0.4"), ("1", "2")])
@pytest.mark.parametrize("count", FEWER)
def test_noise_refined_is_in_law_noise_drawn_at_the_higher_level_and_degraded(
    count: int, pair: tuple[str, str], truth: int
) -> None:
    low, high = map(Fraction, pair)
    size = 9
    coarse, fine = Geometric(low, size), Geometric(high, size)
    lows = draws_of(lambda: coarse.draw(truth, SECURE), count)
    refined = np.array(
        [refine(truth, int(z), low=low, high=high, size=size, source=SECURE) for z in lows]
    )
    highs = draws_of(lambda: fine.draw(truth, SECURE), count)
    degraded = np.array(
        [degrade(int(z), high=high, low=low, size=size, source=SECURE) for z in highs]
    )
    assert fit(refined, geometric(high, size)[truth]) > FALSE_ALARM
    assert fit(degraded, geometric(low, size)[truth]) > FALSE_ALARM
    joint = geometric(high, size)[truth][:, None] * kernel(high, low, size)
    for upper, lower in ((refined, lows), (highs, degraded)):
        assert fit(upper * size + lower, joint.ravel()) > FALSE_ALARM
    # Controls: the levels exchanged, and two levels drawn independently.
    assert fit(refined, geometric(low, size)[truth]) < FALSE_ALARM
    assert fit(degraded, geometric(high, size)[truth]) < FALSE_ALARM
    assert fit(highs * size + lows, joint.ravel()) < FALSE_ALARM


# Extremes


@pytest.mark.parametrize("size", [2, 3, 1000, 100_000])
@pytest.mark.parametrize("triple", [*TRIPLES, ("49", "49.5", "50"), ("0.0001", "25", "100")])
def test_draws_stay_on_the_grid_at_every_epsilon_and_size(
    triple: tuple[str, str, str], size: int
) -> None:
    low, middle, high = map(Fraction, triple)
    ends = 0, size - 1
    upper = refine(*ends, low=low, high=high, size=size, source=SECURE)
    lower = degrade(upper, high=high, low=low, size=size, source=SECURE)
    inner = between(*ends, high=high, middle=middle, low=low, size=size, source=SECURE)
    for drawn in (upper, lower, inner):
        assert type(drawn) is int
        assert 0 <= drawn < size


@pytest.mark.parametrize("size", [2, 60, 1000])
def test_at_epsilon_fifty_a_refined_value_is_the_truth(size: int) -> None:
    for truth, index in product((0, size // 2, size - 1), repeat=2):
        low = Fraction("0.01")  # any other outcome has probability below exp(-39)
        drawn = refine(truth, index, low=low, high=Fraction(50), size=size, source=SECURE)
        assert drawn == truth


def test_levels_closer_than_a_float_can_tell_still_nest() -> None:
    low = Fraction(1, 10)
    high = low + Fraction(1, 10**60)
    for index in range(5):  # moving at all has probability below 1e-58
        assert degrade(index, high=high, low=low, size=5, source=SECURE) == index
        assert refine(2, index, low=low, high=high, size=5, source=SECURE) == index


def test_levels_in_the_wrong_order_are_refused() -> None:
    one, two, three = Fraction(1), Fraction(2), Fraction(3)
    for low, high in ((two, one), (one, one)):
        with pytest.raises(BudgetError, match="smaller epsilon"):
            degrade(1, high=high, low=low, size=5, source=SECURE)
        with pytest.raises(BudgetError, match="smaller epsilon"):
            refine(1, 1, low=low, high=high, size=5, source=SECURE)
        with pytest.raises(BudgetError, match="smaller epsilon"):
            kernel(high, low, 5)
    for low, middle, high in ((one, three, two), (two, one, three), (one, one, two)):
        with pytest.raises(BudgetError, match="smaller epsilon"):
            between(1, 1, high=high, middle=middle, low=low, size=5, source=SECURE)


def test_epsilons_and_indices_out_of_range_are_refused() -> None:
    one = Fraction(1)
    for low, high in ((Fraction(0), one), (Fraction(-1), one), (one, Fraction(MAX_EPSILON + 1))):
        with pytest.raises(BudgetError, match="above 0"):
            degrade(1, high=high, low=low, size=5, source=SECURE)
    for index, size in ((-1, 5), (5, 5), (0, 1)):
        with pytest.raises(DomainError):
            degrade(index, high=one, low=one / 2, size=size, source=SECURE)
        with pytest.raises(DomainError):
            refine(index, 0, low=one / 2, high=one, size=size, source=SECURE)
        with pytest.raises(DomainError):
            refine(0, index, low=one / 2, high=one, size=size, source=SECURE)


@pytest.mark.parametrize(
    ("size", "words", "index", "digits"),
    [
        (2, (1,), 0, [17]),
        (2, (2**32 - 2,), 1, [17]),
        (2, (2**31 - 1, 2**32 - 100), 0, [17, 27]),  # beside the boundary of the two
        (2, (2**31, 100), 1, [17, 27]),
        (1000, (1,), 0, [20]),
    ],
)
def test_a_cell_is_computed_to_ten_digits_a_word_and_those_that_are_lost(
    size: int, words: tuple[int, ...], index: int, digits: list[int]
) -> None:
    asked: list[int] = []

    def weights() -> list[Decimal]:
        asked.append(getcontext().prec)
        return [Decimal(1)] * size

    source = Told(*words)
    assert nesting._draw(weights, size, source) == index
    assert asked == digits
    assert source.left == []
