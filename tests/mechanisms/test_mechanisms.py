"""The four mechanisms: sampler, pmf, price and error agree with each other and their sources."""

import math
import multiprocessing
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import cast

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import quad

from rootguard.errors import BudgetError, UnknownNameError
from rootguard.mechanisms import MECHANISMS, Mechanism, certify, mechanism, mechanism_named
from rootguard.mechanisms.additive import Additive, Geometric, signs
from rootguard.mechanisms.base import Certificate, Floats
from rootguard.mechanisms.exact import (
    ExactSampler,
    Rows,
    Streams,
    exponential_of,
    geometric_rows,
    wide_context,
)
from rootguard.mechanisms.exponential import Exponential, _centre_gaps
from rootguard.rng import SECURE, SecureRandomness
from rootguard.values import MechanismName
from tests.support.goodness import FALSE_ALARM, fit

NAMES: list[MechanismName] = list(MECHANISMS)
EPSILONS = ["0.0001", "0.005", "0.01", "0.1", "0.5", "1", "2", "5", "50"]
M = 1000
DRAWS = [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)]
"""With the fewer draws the false-alarm rate is the same, and a control is mistaken for the claimed
distribution with probability below 1e-17; the smallest deviation that is noticed is seven times as
large as with the many."""


def pmf(noise: Mechanism, index: int) -> Floats:
    return np.exp(noise.log_pmf(index, np.arange(noise.size)))


def secure_draws(noise: Mechanism, index: int, count: int) -> NDArray[np.int64]:
    return np.fromiter((noise.draw(index, SECURE) for _ in range(count)), np.int64, count)


@pytest.mark.parametrize("position", ["lower end", "centre", "upper end"])
@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "1"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sampler", ["secure", "seeded"])
@pytest.mark.parametrize("count", DRAWS)
def test_many_draws_follow_the_pmf_and_no_neighbouring_epsilon(
    count: int, sampler: str, name: MechanismName, epsilon: str, position: str
) -> None:
    noise = mechanism(name, Fraction(epsilon), M)
    index = {"lower end": 0, "centre": noise.centre, "upper end": M - 1}[position]
    if sampler == "secure":
        draws = secure_draws(noise, index, count)
    else:
        seed = [NAMES.index(name), index, int(Fraction(epsilon) * 1000)]
        generator = np.random.default_rng(seed)
        draws = noise.draw_many(np.full(count, index), generator)
    assert fit(draws, pmf(noise, index)) > FALSE_ALARM
    for factor in (Fraction(7, 10), Fraction(13, 10)):  # controls that must be told apart
        other = mechanism(name, noise.epsilon * factor, M)
        assert fit(draws, pmf(other, index)) < FALSE_ALARM


@pytest.mark.parametrize("count", [5_000, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("size", [2, 3, 7])
@pytest.mark.parametrize("epsilon", ["0.0001", "0.3", "50"])
@pytest.mark.parametrize("name", NAMES)
def test_secure_draws_follow_the_pmf_on_tiny_grids_at_extreme_epsilons(
    name: MechanismName, epsilon: str, size: int, count: int
) -> None:
    noise = mechanism(name, Fraction(epsilon), size)
    for index in range(size):
        draws = secure_draws(noise, index, count)
        assert draws.min() >= 0
        assert draws.max() < size
        if epsilon == "50":
            assert (draws == index).all()  # any other outcome has probability below 1e-10
        else:
            assert fit(draws, pmf(noise, index)) > FALSE_ALARM


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epsilon", ["0.0001", "0.01", "50"])
def test_both_samplers_hold_on_a_grid_of_a_hundred_thousand_points(
    name: MechanismName, epsilon: str
) -> None:
    noise = mechanism(name, Fraction(epsilon), 100_000)
    for index in (0, 50_000, 99_999):
        secure = secure_draws(noise, index, 20_000)
        seeded = noise.draw_many(np.full(20_000, index), np.random.default_rng(5))
        for draws in (secure, seeded):
            assert draws.min() >= 0
            assert draws.max() < noise.size
            if epsilon != "50":
                assert fit(draws, pmf(noise, index)) > FALSE_ALARM


def literal_pmf(name: MechanismName, eps: float, size: int, index: int) -> NDArray[np.float64]:
    """The definitions written out: sums and integrals instead of closed forms."""
    outputs = np.arange(size)
    if name == "exponential":
        weights = np.exp(-eps * np.abs(outputs - index) / 2)
        return np.asarray(weights / weights.sum())
    if name == "geometric":
        ratio = math.exp(-eps)
        reach = int(60 / eps) + size
        noise = np.arange(-reach, reach + 1)
        mass = (1 - ratio) / (1 + ratio) * ratio ** np.abs(noise)
        ends = np.clip(index + noise, 0, size - 1)
        return np.bincount(ends, weights=mass, minlength=size).astype(np.float64)

    if name == "laplace":

        def below(x: float) -> float:
            return math.exp(eps * x) / 2 if x < 0 else 1 - math.exp(-eps * x) / 2

    else:
        gamma, ratio = 1 / (1 + math.exp(eps / 2)), math.exp(-eps)
        height = (1 - ratio) / (2 * (gamma + (1 - gamma) * ratio))

        def density(x: float) -> float:
            step, within = divmod(abs(x), 1)
            return float(height * ratio ** (step + (within >= gamma)))

        def below(x: float) -> float:
            corners = [g + part for g in range(math.ceil(abs(x)) + 1) for part in (0, gamma)]
            edges = [min(corner, abs(x)) for corner in corners]
            half = sum(quad(density, a, b)[0] for a, b in pairwise(edges) if b > a)
            return 0.5 + math.copysign(half, x)

    cuts = [0.0, *(below(k + 0.5 - index) for k in range(size - 1)), 1.0]
    return np.diff(np.array(cuts))


@pytest.mark.parametrize("size", [2, 3, 12])
@pytest.mark.parametrize("epsilon", ["0.01", "0.2", "1", "3"])
@pytest.mark.parametrize("name", NAMES)
def test_the_pmf_is_the_published_definition(name: MechanismName, epsilon: str, size: int) -> None:
    noise = mechanism(name, Fraction(epsilon), size)
    for index in range(size):
        expected = literal_pmf(name, float(epsilon), size, index)
        np.testing.assert_allclose(pmf(noise, index), expected, rtol=1e-7, atol=1e-13)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", NAMES)
def test_every_mechanism_holds_at_every_epsilon_by_enumeration(
    name: MechanismName, epsilon: str
) -> None:
    for size in (2, 3, 5, 60, M):
        found = certify(mechanism(name, Fraction(epsilon), size))
        assert found.holds, (size, found)
        assert found.method == "enumeration"
        tight = mechanism(name, Fraction(epsilon), size).tight_epsilon()
        assert tight == pytest.approx(found.epsilon_tight, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_large_grids_are_certified_in_closed_form(name: MechanismName) -> None:
    for epsilon in EPSILONS:
        found = certify(mechanism(name, Fraction(epsilon), 100_000))
        assert found.method == "closed form"
        assert found.holds


def test_the_tight_epsilon_of_the_additive_mechanisms_is_their_nominal_one() -> None:
    for name in ("laplace", "staircase", "geometric"):
        found = certify(mechanism(mechanism_named(name), Fraction("0.1"), M))
        assert found.epsilon_tight == pytest.approx(0.1, rel=1e-9)
    exponential = certify(mechanism("exponential", Fraction("0.1"), M))
    assert 0.09 < exponential.epsilon_tight < 0.1


class Understated(Geometric):
    """Claims half of what it spends."""

    def log_pmf(self, inputs: ArrayLike, outputs: ArrayLike) -> Floats:
        return Geometric(self.epsilon * 2, self.size).log_pmf(inputs, outputs)


class Lopsided(Geometric):
    """Loses a thousandth of its mass at one output."""

    def log_pmf(self, inputs: ArrayLike, outputs: ArrayLike) -> Floats:
        loss: Floats = 0.001 * (np.asarray(outputs) == 3)
        return super().log_pmf(inputs, outputs) - loss


class Cornered(Geometric):
    """Treats one input differently from its neighbours."""

    def log_pmf(self, inputs: ArrayLike, outputs: ArrayLike) -> Floats:
        inputs = np.asarray(inputs)
        return super().log_pmf(np.where(inputs == 40, 42, inputs), outputs)


@pytest.mark.parametrize("broken", [Understated, Lopsided, Cornered])
def test_a_broken_pmf_is_not_certified(broken: type[Geometric]) -> None:
    assert not certify(broken(Fraction("0.1"), M)).holds


def test_certification_looks_across_the_edges_of_its_blocks() -> None:
    size = 2000
    edge = (1 << 20) // size  # certify works on about a million cells at a time

    class Seam(Geometric):
        def log_pmf(self, inputs: ArrayLike, outputs: ArrayLike) -> Floats:
            inputs = np.asarray(inputs)
            return super().log_pmf(np.minimum(inputs + 5 * (inputs >= edge), size - 1), outputs)

    assert not certify(Seam(Fraction("0.01"), size)).holds


@pytest.mark.parametrize("size", [2, 3, 50, 51])
@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "1", "8"])
@pytest.mark.parametrize("name", NAMES)
def test_expected_errors_are_those_of_the_pmf(name: MechanismName, epsilon: str, size: int) -> None:
    noise = mechanism(name, Fraction(epsilon), size)
    points = np.arange(size)
    errors = [float(np.abs(points - t) @ pmf(noise, t)) for t in range(size)]
    assert [noise.error(t) for t in range(size)] == pytest.approx(errors, rel=1e-9)


@pytest.mark.parametrize("size", [3, 1000])
@pytest.mark.parametrize("epsilon", [0.001, 0.02, 0.3, 2.0])
@pytest.mark.parametrize("name", NAMES)
def test_the_error_curve_and_its_derivatives_agree_with_differences(
    name: MechanismName, epsilon: float, size: int
) -> None:
    h = epsilon * 1e-4
    curve = [MECHANISMS[name].error_curve(at, size) for at in (epsilon - h, epsilon, epsilon + h)]
    value, slope, curvature = zip(*curve, strict=True)
    exact = mechanism(name, Fraction(str(epsilon)), size)
    assert value[1] == pytest.approx(exact.error(exact.centre), rel=1e-9)
    assert slope[1] == pytest.approx((value[2] - value[0]) / (2 * h), rel=1e-5)
    close = 1e-5 * abs(slope[1]) / epsilon
    assert curvature[1] == pytest.approx((slope[2] - slope[0]) / (2 * h), rel=1e-5, abs=close)
    assert slope[1] < 0
    if size == M:
        assert curvature[1] > 0


class Tape:
    """A source that plays given words."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> list[int]:
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count, "the tape is at its end"
        return taken


def fixed(value: Decimal, precision: int) -> int:
    return int(value * (1 << precision))


def root_of_two_thirds(precision: int) -> Rows:
    with localcontext(wide_context(precision)):
        return [[fixed(Decimal(2).sqrt() / 3, precision)]]


def test_a_draw_is_settled_by_more_bits_when_the_first_words_tie() -> None:
    sampler = ExactSampler(root_of_two_thirds)
    exact = (1 << 96) - 1 - root_of_two_thirds(96)[0][0]  # words are counted from the top
    first, second, third = exact >> 64, exact >> 32 & 0xFFFFFFFF, exact & 0xFFFFFFFF
    for words, outcome in (
        ((first - 1,), 0),
        ((first + 1,), 1),
        ((first, second - 1), 0),
        ((first, second + 1), 1),
        ((first, second, third - 1), 0),
        ((first, second, third + 1), 1),
    ):
        tape = Tape(*words)
        assert sampler.draw(tape) == [outcome]
        assert not tape.left


def test_probabilities_far_below_one_word_are_still_exact() -> None:
    def tiny(precision: int) -> Rows:
        with localcontext(wide_context(precision)):
            return [[fixed(exponential_of(Fraction(50)), precision)]]  # about 2**-72

    top = 0xFFFFFFFF
    third = (1 << 96) - 1 - tiny(96)[0][0] & top
    sampler = ExactSampler(tiny)
    assert sampler.draw(Tape(top - 1)) == [0]
    assert sampler.draw(Tape(top, top - 1)) == [0]
    assert sampler.draw(Tape(top, top, third - 1)) == [0]
    assert sampler.draw(Tape(top, top, third + 1)) == [1]


@pytest.mark.parametrize("epsilon", ["0.000001", "0.01", "0.7"])
def test_the_rows_of_a_geometric_variable_have_its_probabilities(epsilon: str) -> None:
    precision, low, high = 200, 3, 2
    with localcontext(wide_context(precision)):
        ratio = exponential_of(Fraction(epsilon))
        remainder, quotient = geometric_rows(
            fixed(ratio, precision), precision, low, high, carry=True
        )
        _, cut = geometric_rows(fixed(ratio, precision), precision, low, high, carry=False)
        one = Decimal(1 << precision)
        for k, p in enumerate(remainder, start=1):
            exact = (ratio**k - ratio**8) / (1 - ratio**8)
            assert abs(p / one - exact) < Decimal(2) ** -(precision - 44)
        for k, p in enumerate(quotient, start=1):
            assert abs(p / one - ratio ** (8 * k)) < Decimal(2) ** -(precision - 44)
        for k, p in enumerate(cut, start=1):
            exact = (ratio ** (8 * k) - ratio**32) / (1 - ratio**32)
            assert abs(p / one - exact) < Decimal(2) ** -(precision - 44)
    assert (len(remainder), len(quotient), len(cut)) == (7, 4, 3)


def _words(pipe: Connection) -> None:
    pipe.send(SECURE.words(8))


def test_a_forked_child_never_repeats_its_parents_words() -> None:
    SECURE.words(1)  # a page is open
    context = multiprocessing.get_context("fork")
    seen = []
    for _ in range(2):
        here, there = context.Pipe()
        child = context.Process(target=_words, args=(there,))
        child.start()
        seen.append(tuple(here.recv()))
        child.join()
    seen.append(tuple(SECURE.words(8)))
    assert len(set(seen)) == 3


def test_secure_words_cover_their_range() -> None:
    words = SecureRandomness().words(20_000)
    assert len(words) == 20_000
    assert min(words) < 2**32 * 0.01  # missed with probability below 1e-80
    assert max(words) > 2**32 * 0.99
    assert max(words) < 2**32


def test_unknown_mechanisms_and_epsilons_out_of_range_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="geometric"):
        mechanism_named("gaussian")
    for epsilon in (Fraction(0), Fraction(-1), Fraction(101), Fraction(1, 1_000_001)):
        with pytest.raises(BudgetError):
            Geometric(epsilon, M)


def test_epsilons_at_the_ends_of_the_range_are_accepted() -> None:
    for name in NAMES:
        for epsilon in (Fraction(1, 1_000_000), Fraction(100)):
            assert mechanism(name, epsilon, 10).epsilon == epsilon


class Even(Geometric):
    """All outputs alike, but for one input that loses a thousandth or stands apart."""

    odd = -1
    loss = 0.0
    lean = 0.0

    def log_pmf(self, inputs: ArrayLike, outputs: ArrayLike) -> Floats:
        inputs, outputs = np.broadcast_arrays(np.asarray(inputs), np.asarray(outputs))
        table: Floats = np.full(inputs.shape, -math.log(self.size))
        half = np.where(outputs < self.size // 2, 1 + self.lean, 1 - self.lean)
        table += (inputs == self.odd) * (np.log(half) - self.loss)
        return table


def even(size: int, **changes: float) -> Geometric:
    return type("Changed", (Even,), changes)(Fraction("0.1"), size)  # type: ignore[no-any-return]


def test_grids_are_enumerated_up_to_4096_points() -> None:
    assert certify(even(4096)).method == "enumeration"
    assert certify(even(4097)).method == "closed form"


@pytest.mark.parametrize("odd", [0, 1, 3000, 5998, 5999])
def test_on_a_large_grid_both_ends_their_neighbours_and_the_middle_are_added_up(odd: int) -> None:
    assert certify(even(6000)).mass_error < 1e-9
    assert certify(even(6000, odd=odd, loss=0.001)).mass_error > 1e-4


@pytest.mark.parametrize("size", [1025, 1774])  # the last block has two rows, or one
def test_the_last_input_is_compared_with_its_neighbour(size: int) -> None:
    assert certify(even(size)).holds
    assert not certify(even(size, odd=size - 1, lean=0.5)).holds


def test_a_certificate_allows_for_rounding_and_for_nothing_else() -> None:
    parts = {"mechanism": "geometric", "size": 9, "method": "enumeration"}

    def holds(tight: float, mass: float) -> bool:
        made = Certificate(epsilon_claimed=1.0, epsilon_tight=tight, mass_error=mass, **parts)  # type: ignore[arg-type]
        return made.holds

    assert holds(1 + 5e-10, 5e-10)
    assert not holds(1 + 2e-9, 0.0)
    assert not holds(0.5, 2e-9)


def test_what_is_public_and_costly_is_computed_once() -> None:
    assert mechanism("geometric", Fraction("0.3"), 77) is mechanism(
        "geometric", Fraction("0.3"), 77
    )
    assert _centre_gaps(77) is _centre_gaps(77)


@pytest.mark.parametrize(
    ("epsilon", "digits"), [("50", (0, 0)), ("0.2", (0, 4)), ("0.1", (2, 3)), ("0.0001", (5, 5))]
)
def test_more_than_four_digits_of_a_distance_are_drawn_in_two_parts(
    epsilon: str, digits: tuple[int, int]
) -> None:
    assert Geometric(Fraction(epsilon), M)._digits == digits


class Given:
    """A source that says these words."""

    def __init__(self, *words: int) -> None:
        self._words = list(words)

    def words(self, count: int) -> list[int]:
        taken, self._words = self._words[:count], self._words[count:]
        assert len(taken) == count
        return taken


@pytest.mark.parametrize("carries", [0, 1, 2, 3])
def test_after_every_carry_more_of_the_distance_follows(carries: int) -> None:
    """The highest word is a carry, the lowest the shortest distance."""
    noise = Geometric(Fraction("0.1"), M)
    top = 2**32 - 1
    source = Given(top, 0, *[top] * carries, 0)  # up; the low digits; the high ones
    assert noise.draw(0, source) == 1 + 32 * carries


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("epsilon", ["0.001", "0.05", "2", "100"])
@pytest.mark.parametrize("size", [2, 3, 4, 50])
def test_likelihoods_are_the_pmf_over_its_largest_to_the_last_bit(
    name: MechanismName, epsilon: str, size: int
) -> None:
    noise = mechanism(name, Fraction(epsilon), size)
    points = np.arange(size)
    logs = noise.log_pmf(points[None, :], points[:, None])
    expected = np.exp(logs - logs.max(axis=1, keepdims=True))
    assert (noise.likelihoods(points) == expected).all()
    assert (noise.likelihoods(points[::-1]) == expected[::-1]).all()


class Hollow(Geometric):
    """Adds something in 99 of 100 cases, so that a gap of one is likelier than none."""

    @staticmethod
    def log_tail(eps: float) -> tuple[float, float]:
        return math.log(0.99), math.log(0.01)


def test_likelihoods_come_from_tables_where_no_noise_is_likeliest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hollow, points = Hollow(Fraction(1), 5), np.arange(5)
    logs = hollow.log_pmf(points[None, :], points[:, None])
    expected = np.exp(logs - logs.max(axis=1, keepdims=True))
    assert logs[2].argmax() == 1
    assert (hollow.likelihoods(points) == expected).all()
    monkeypatch.delattr(Mechanism, "likelihoods")
    for size in (2, 3, 5):
        assert Geometric(Fraction(1), size).likelihoods(np.arange(size)).max() == 1.0
    with pytest.raises(AttributeError):
        hollow.likelihoods(points)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 16])
@pytest.mark.parametrize(("byte", "sign"), [(b"\xff", 1), (b"\x00", -1)])
def test_each_sign_has_a_random_bit_of_its_own(size: int, byte: bytes, sign: int) -> None:
    asked: list[int] = []

    class Generator:
        def bytes(self, count: int) -> bytes:
            asked.append(count)
            return byte * count

    assert signs(size, cast("np.random.Generator", Generator())).tolist() == [sign] * size
    assert asked == [math.ceil(size / 8)]


class FixedStreams:
    """Two words for each row, the same whichever block is asked for."""

    def __init__(self, far: list[int], side: list[int]) -> None:
        self.far, self.side = (np.array(words, dtype=np.uint64) for words in (far, side))

    def words(
        self, block: int, rows: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        assert block == 0
        return self.far, self.side

    def source(self, row: int, block: int) -> SecureRandomness:
        raise AssertionError("no word is tied")


@pytest.mark.parametrize("name", ["geometric", "laplace", "staircase"])
def test_a_row_is_moved_as_far_as_its_first_word_says_and_as_its_second_which_way(
    name: MechanismName,
) -> None:
    """P(|Z| >= k) is c * exp(-epsilon)**(k - 1) at every distance that the grid has."""
    eps, size = 0.5, 9
    noise = mechanism(name, Fraction(1, 2), size)
    root = math.exp(-eps / 2)
    first = {
        "geometric": 2 * root**2 / (1 + root**2),
        "laplace": root,
        "staircase": root / 2 + root**2 - root**3 / 2,
    }[name]
    tails = [first * math.exp(-eps * (k - 1)) for k in range(1, size)]
    # Below a threshold the distance is k - 1, above it is k; the last is the grid's length.
    spelled = [int((1 - tail) * 2**64) for tail in tails]
    beside = [word + step for word in spelled for step in (-(1 << 20), 1 << 20)] + [0, 2**64 - 1]
    moved = [k for k in range(1, size) for k in (k - 1, k)] + [0, size - 1]
    for side, way in ((2, 1), (3, -1)):
        streams = FixedStreams(beside, [side] * len(beside))
        for index in (0, 4, size - 1):
            indices = np.full(len(beside), index)
            found = noise.draw_rows(indices, streams).tolist()
            assert found == [min(max(index + way * far, 0), size - 1) for far in moved]


class Distances:
    """A sampler whose distances are told: in digits for one draw, as words for rows."""

    def __init__(self, *digits: list[int]) -> None:
        self.left = list(digits)

    def draw(self, words: object, source: object = None) -> object:
        return np.asarray(words, dtype=np.int64) if source else self.left.pop(0)


@pytest.mark.parametrize(
    ("index", "tries", "found"),
    [
        (3, [([1, 0], 1)], 4),
        (3, [([1, 0], 0)], 2),
        (3, [([1, 1], 1)], 8),  # the last point
        (3, [([3, 0], 2)], 0),  # the first
        (3, [([0, 0], 0), ([0, 0], 1)], 3),  # no distance counts on one side only
        (3, [([2, 1], 1), ([0, 1], 0), ([2, 1], 3), ([0, 1], 3)], 7),  # beyond either end
    ],
)
def test_an_exponential_draw_takes_distances_and_sides_until_one_is_on_the_grid(
    index: int, tries: list[tuple[list[int], int]], found: int
) -> None:
    noise = Exponential(Fraction(1), 9)
    noise.__dict__["_sampler"] = Distances(*(digits for digits, _ in tries))
    source = Tape(*(side for _, side in tries))
    assert noise.draw(index, source) == found
    assert source.left == []


def test_rows_of_an_exponential_draw_try_again_in_their_next_block() -> None:
    asked: list[list[int] | None] = []
    blocks = [([1, 1, 5, 6, 3, 4, 0, 0], [1, 0, 1, 1, 0, 2, 0, 1]), ([2, 5, 3], [2, 3, 1])]

    class Blocks:
        def words(
            self, block: int, rows: NDArray[np.int64] | None = None
        ) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
            asked.append(None if rows is None else rows.tolist())
            far, side = blocks[block]
            return np.array(far), np.array(side, dtype=np.uint64)

        def source(self, row: int, block: int) -> SecureRandomness:
            raise AssertionError("no word is tied")

    noise = Exponential(Fraction(1), 9)
    noise.__dict__["_row_sampler"] = Distances()
    found = noise.draw_rows(np.full(8, 3), cast("Streams", Blocks()))
    assert found.tolist() == [4, 2, 8, 1, 0, 8, 6, 3]
    assert asked == [None, [3, 5, 6]]


def test_a_tied_row_asks_for_more_of_its_own_block() -> None:
    asked: list[tuple[int, int]] = []

    class Sources:
        def source(self, row: int, block: int) -> Tape:
            asked.append((row, block))
            return Tape()

    more = Exponential._more(cast("Streams", Sources()), np.array([4, 7]), 3)
    more(1)
    assert asked == [(7, 3)]


def test_the_centre_is_the_lower_of_two_and_one_row_has_no_ratio() -> None:
    assert [Geometric(Fraction(1), size).centre for size in (2, 3, 4, 5)] == [0, 1, 1, 2]
    assert Geometric(Fraction(1), 3).largest_ratio(np.zeros((1, 3))) == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_a_curve_is_that_of_the_kind_whoever_is_asked(name: MechanismName) -> None:
    noise = mechanism(name, Fraction(1, 2), 9)
    kind = MECHANISMS[name]
    assert noise.error_curve(0.3, 7) == kind.error_curve(0.3, 7)
    if isinstance(noise, Additive):
        assert noise.spread_curve(0.3) == type(noise).spread_curve(0.3)
        assert noise.log_tail(0.3) == type(noise).log_tail(0.3)
