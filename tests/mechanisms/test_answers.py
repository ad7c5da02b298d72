"""Answers without an order: randomised response and tables of distances keep what they claim."""

import math
from fractions import Fraction
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from rootguard.attacks.audit import audit, one_at_a_time
from rootguard.attacks.map import Observation, map_estimate, map_estimates
from rootguard.errors import BudgetError, DomainError
from rootguard.mechanisms import Mechanism, certify, mechanism, nesting
from rootguard.mechanisms.answers import DistanceMechanism, PublicValue, RandomisedResponse
from rootguard.mechanisms.base import Floats, Indices
from rootguard.mechanisms.keyed import Prf
from rootguard.rng import SECURE
from rootguard.values import Domain, MechanismName
from tests.support.goodness import FALSE_ALARM, fit
from tests.support.told_words import Told

SIZES = [2, 3, 10, 100]
EPSILONS = ["0.000001", "0.001", "0.1", "1", "5"]
TABLE = ((0.0, 1.0, 2.5), (1.0, 0.0, 1.5), (2.5, 1.5, 0.0))


def response(epsilon: str, size: int) -> Mechanism:
    return mechanism("randomised-response", Fraction(epsilon), size)


def pmf(noise: Mechanism) -> Floats:
    points = np.arange(noise.size)
    return np.asarray(np.exp(noise.log_pmf(points[:, None], points[None, :])))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_ratio_of_any_two_answers_is_e_to_the_epsilon_and_no_more(
    epsilon: str, size: int
) -> None:
    found = certify(response(epsilon, size))
    assert found.method == "enumeration"
    assert found.holds
    assert found.epsilon_tight == pytest.approx(float(epsilon), rel=1e-9)
    # By another way: every pair of rows, every output.
    table = pmf(response(epsilon, size))
    ratios = table.max(axis=0) / table.min(axis=0)
    assert ratios.max() == pytest.approx(math.exp(float(epsilon)), rel=1e-9)


def test_a_certificate_compares_answers_that_are_not_neighbours() -> None:
    """A response that keeps neighbours alike and gives distant answers away does not hold."""

    class Distant(RandomisedResponse):
        def log_pmf(self, inputs: object, outputs: object) -> Floats:
            near = np.abs(np.asarray(inputs) - np.asarray(outputs))
            weights = np.exp(-self._eps * np.minimum(near, 4) / 4 * 1.5)
            return np.asarray(np.log(weights / weights.sum(axis=-1, keepdims=True)))

    assert not certify(Distant(Fraction(1), 10)).holds


@pytest.mark.parametrize("size", [2, 3, 10])
@pytest.mark.parametrize("epsilon", ["0.000001", "0.7", "5"])
def test_secure_draws_follow_the_law(epsilon: str, size: int) -> None:
    noise = response(epsilon, size)
    drawn = np.array([noise.draw(1, SECURE) for _ in range(5000)])
    assert fit(drawn, pmf(noise)[1]) > FALSE_ALARM


def test_the_fit_notices_a_biased_response() -> None:
    noise = response("0.7", 3)
    drawn = np.array([noise.draw(1, SECURE) for _ in range(5000)])
    drawn[np.arange(0, 5000, 6)] = 0
    assert fit(drawn, pmf(noise)[1]) < FALSE_ALARM


def test_draws_of_rows_and_seeded_draws_follow_the_law() -> None:
    prf = Prf(bytes(range(32)))
    ids = [f"{n:05d}" for n in range(6000)]
    offsets = np.arange(0, 5 * len(ids) + 1, 5)
    people = prf.people(offsets, np.frombuffer("".join(ids).encode(), np.uint8))
    truth = np.full(len(ids), 2)
    for noise in (response("1", 4), mechanism("distances", Fraction(1), 3, TABLE)):
        domain = Domain(lower=0, upper=noise.size - 1, size=noise.size)
        streams = prf.root("r", domain, noise.epsilon, noise.name, 1)
        rows = noise.draw_rows(truth, streams.of(people, truth))
        assert fit(rows, pmf(noise)[2]) > FALSE_ALARM
        again = noise.draw_rows(truth, streams.of(people, truth))
        assert (rows == again).all()
        many = noise.draw_many(truth, np.random.default_rng(7))
        assert fit(many, pmf(noise)[2]) > FALSE_ALARM


@pytest.mark.parametrize("size", SIZES)
def test_levels_of_randomised_response_nest(size: int) -> None:
    """By enumeration: the higher level times the link is the lower level, exactly as a law."""
    for low, high in [("0.001", "0.002"), ("0.1", "1"), ("1", "5"), ("2", "2.001")]:
        link = nesting.answer_kernel(Fraction(high), Fraction(low), size)
        assert (link >= 0).all()
        found = pmf(response(high, size)) @ link
        np.testing.assert_allclose(found, pmf(response(low, size)), rtol=1e-9)


@pytest.mark.parametrize("size", [2, 3, 10])
def test_any_set_of_levels_costs_the_highest(size: int) -> None:
    """The joint law of three levels, for every pair of truths: the ratio is that of the highest."""
    low, middle, high = Fraction("0.3"), Fraction("0.8"), Fraction("1.5")
    top = pmf(response("1.5", size))
    first = nesting.answer_kernel(high, middle, size)
    second = nesting.answer_kernel(middle, low, size)
    joint = top[:, :, None, None] * first[None, :, :, None] * second[None, None, :, :]
    flat = joint.reshape(size, -1)
    assert np.log(flat.max(axis=0) / flat.min(axis=0)).max() == pytest.approx(1.5, rel=1e-9)


@pytest.mark.parametrize("law", ["degrade", "refine", "between"])
def test_nested_draws_follow_their_laws(law: str) -> None:
    size, draws = 3, 3000
    low, middle, high = Fraction("0.3"), Fraction("0.8"), Fraction("1.5")
    name: MechanismName = "randomised-response"
    if law == "degrade":
        expected = nesting.answer_kernel(high, low, size)[2]
        made = [
            nesting.degrade(2, high=high, low=low, size=size, source=SECURE, law=name)
            for _ in range(draws)
        ]
    elif law == "refine":
        expected = pmf(response("1.5", size))[0] * nesting.answer_kernel(high, low, size)[:, 1]
        made = [
            nesting.refine(0, 1, low=low, high=high, size=size, source=SECURE, law=name)
            for _ in range(draws)
        ]
    else:
        above = nesting.answer_kernel(high, middle, size)[2]
        expected = above * nesting.answer_kernel(middle, low, size)[:, 1]
        made = [
            nesting.between(
                2, 1, high=high, middle=middle, low=low, size=size, source=SECURE, law=name
            )
            for _ in range(draws)
        ]
    assert fit(np.array(made), expected / expected.sum()) > FALSE_ALARM


def test_yes_and_no_are_drawn_as_by_geometric_noise_on_two_points() -> None:
    for epsilon in EPSILONS:
        geometric = mechanism("geometric", Fraction(epsilon), 2)
        np.testing.assert_allclose(pmf(response(epsilon, 2)), pmf(geometric), rtol=1e-12)


@pytest.mark.parametrize("size", [2, 3, 10])
def test_the_error_curve_has_the_right_slopes(size: int) -> None:
    step = 1e-5
    for epsilon in (0.01, 0.5, 2.0, 6.0):
        below, here, above = (
            RandomisedResponse.error_curve(at, size)
            for at in (epsilon - step, epsilon, epsilon + step)
        )
        assert here[0] == pytest.approx(1 - pmf(response(str(epsilon), size))[0, 0])
        assert here[1] == pytest.approx((above[0] - below[0]) / (2 * step), rel=1e-4)
        assert here[2] == pytest.approx((above[1] - below[1]) / (2 * step), rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("epsilon", ["0.001", "0.5", "3"])
def test_a_table_of_distances_keeps_epsilon_per_unit_of_distance(epsilon: str) -> None:
    noise = mechanism("distances", Fraction(epsilon), 3, TABLE)
    found = certify(noise)
    assert found.holds
    table = np.log(pmf(noise))
    for i in range(3):
        for j in range(3):
            ratio = np.abs(table[i] - table[j]).max()
            assert ratio <= float(epsilon) * TABLE[i][j] * (1 + 1e-9)
    assert noise.error(0) == pytest.approx(float(pmf(noise)[0] @ np.array(TABLE[0])))


def test_secure_draws_from_a_table_follow_the_law() -> None:
    noise = mechanism("distances", Fraction("1.2"), 3, TABLE)
    drawn = np.array([noise.draw(2, SECURE) for _ in range(5000)])
    assert fit(drawn, pmf(noise)[2]) > FALSE_ALARM
    assert fit(drawn, pmf(noise)[0]) < FALSE_ALARM


def test_a_table_needs_its_rows_and_nothing_of_it_nests() -> None:
    with pytest.raises(DomainError, match="table of distances"):
        DistanceMechanism(Fraction(1), 4, TABLE)
    with pytest.raises(DomainError, match="not known"):
        mechanism("distances", Fraction(1), 3)
    assert "distances" not in nesting.NESTING


def test_what_is_public_is_not_drawn() -> None:
    noise = mechanism("public", Fraction(0), 5)
    assert isinstance(noise, PublicValue)
    assert [noise.draw(i, SECURE) for i in range(5)] == list(range(5))
    assert (pmf(noise) == np.eye(5)).all()
    assert noise.error(3) == 0
    assert noise.tight_epsilon() == math.inf


@pytest.mark.parametrize("size", [2, 5])
def test_the_likeliest_answer_is_the_one_seen_most(size: int) -> None:
    noise = response("0.5", size)
    generator = np.random.default_rng(3)
    seen = noise.draw_many(generator.integers(0, size, (40, 1)).repeat(7, axis=1), generator)
    prior = np.log(np.full(size, 1 / size)) + np.linspace(0, 0.2, size)
    for belief in (None, prior):
        fast = map_estimates(noise, seen, belief)
        points = np.arange(size)
        slow = [
            map_estimate(
                [Observation(received=int(y), expected=points, noise=noise) for y in row], belief
            )
            for row in seen
        ]
        assert fast.tolist() == slow


def test_a_table_is_reconstructed_by_trying_every_answer() -> None:
    noise = mechanism("distances", Fraction(2), 3, TABLE)
    generator = np.random.default_rng(4)
    seen = noise.draw_many(generator.integers(0, 3, (30, 1)).repeat(5, axis=1), generator)
    points = np.arange(3)
    slow = [
        map_estimate([Observation(received=int(y), expected=points, noise=noise) for y in row])
        for row in seen
    ]
    assert map_estimates(noise, seen).tolist() == slow


@pytest.mark.parametrize("size", [2, 10])
def test_an_audit_finds_most_of_the_claim(size: int) -> None:
    noise = response("1", size)
    generator = np.random.default_rng(5)

    def sample(index: float, count: int) -> np.ndarray:
        return noise.draw_many(np.full(count, int(index)), generator)

    found = audit(sample, epsilon=1.0, size=size, samples=400_000, claimed=noise)
    assert found.passed
    assert 0.85 <= found.bound.epsilon <= 1


def test_an_audit_of_secure_draws_passes() -> None:
    noise = response("1", 3)
    sampler = one_at_a_time(lambda index: noise.draw(int(index), SECURE))
    found = audit(sampler, epsilon=1.0, size=3, samples=20_000, claimed=noise)
    assert all(f.passed for f in found.findings if f.check != "epsilon")


def test_an_audit_catches_a_planted_bias() -> None:
    """One answer is kept twice as often as claimed: the bound passes the claim."""
    noise = response("1", 4)
    generator = np.random.default_rng(6)

    def biased(index: float, count: int) -> np.ndarray:
        drawn = noise.draw_many(np.full(count, int(index)), generator)
        if int(index) == 3:
            again = noise.draw_many(np.full(count, 3), generator)
            drawn = np.where(drawn == 0, again, drawn)
        return drawn

    found = audit(biased, epsilon=1.0, size=4, samples=200_000, claimed=noise)
    assert not found.passed
    assert found.bound.epsilon > 1


def test_epsilon_has_the_limits_of_every_mechanism() -> None:
    with pytest.raises(BudgetError):
        response("101", 2)
    with pytest.raises(BudgetError):
        response("0.0000001", 2)


class Rows:
    """The first word of each row; a row that is tied has more, in the same block."""

    def __init__(self, first: list[int], more: dict[int, Told] | None = None) -> None:
        self.first, self.more = np.array(first, dtype=np.uint64), more or {}

    def words(
        self, block: int, rows: Indices | None = None
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        assert block == 0
        assert rows is None
        return self.first, np.zeros_like(self.first)

    def source(self, row: int, block: int) -> Told:
        assert block == 0
        return self.more[row]


def beside(tails: list[float]) -> tuple[list[float], list[int]]:
    """Shares of the words just below and above each threshold, and the outcomes they stand for."""
    shares = [1 - tail + step for tail in tails for step in (-1e-6, 1e-6)]
    return shares, [outcome for j in range(len(tails)) for outcome in (j, j + 1)]


@pytest.mark.parametrize("index", [0, 2, 3])
def test_an_answer_moves_on_in_a_circle_as_far_as_its_word_says(index: int) -> None:
    noise = response("1", 4)
    total = math.e + 3
    shares, moved = beside([(4 - j) / total for j in (1, 2, 3)])
    expected = [(index + far) % 4 for far in moved]
    assert [noise.draw(index, Told(int(share * 2**32))) for share in shares] == expected
    words = [int(share * 2**64) for share in shares]
    assert noise.draw_rows(np.full(6, index), Rows(words)).tolist() == expected


@pytest.mark.parametrize("index", [0, 1, 2])
def test_an_answer_of_a_table_is_drawn_from_its_row(index: int) -> None:
    noise = DistanceMechanism(Fraction(1), 3, TABLE)
    law = pmf(noise)[index]
    shares, answers = beside([law[1] + law[2], law[2]])
    assert [noise.draw(index, Told(int(share * 2**32))) for share in shares] == answers
    # Rows of other answers stand between them, and are drawn by their own.
    indices = np.array([number for _ in answers for number in (index, (index + 1) % 3)])
    words = [word for share in shares for word in (int(share * 2**64), 0)]
    found = noise.draw_rows(indices, Rows(words)).tolist()
    assert found == [answer for each in answers for answer in (each, 0)]


@pytest.mark.parametrize("noise", [response("1", 4), DistanceMechanism(Fraction(1), 3, TABLE)])
def test_a_tied_row_takes_more_words_of_its_own_block(noise: Mechanism) -> None:
    sampler = getattr(noise, "_row_sampler", None) or noise._row_samplers[0]  # type: ignore[attr-defined]
    tie = int(sampler._rising[0])
    found = noise.draw_rows(np.zeros(2, dtype=np.int64), Rows([0, tie], {1: Told(0)})).tolist()
    assert found == [0, 0]
    more = Rows([0, tie], {1: Told(2**32 - 1)})
    assert noise.draw_rows(np.zeros(2, dtype=np.int64), more).tolist() == [0, 1]


class Seeded:
    """A generator that says what it is told."""

    def __init__(self, shares: list[float], where: int = 0) -> None:
        self.shares, self.where = np.array(shares), where

    def random(self, shape: tuple[int, ...]) -> Floats:
        assert shape == self.shares.shape
        return self.shares

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> Indices:
        assert (low, high) == (1, 4)
        return np.full(shape, self.where)


def test_seeded_draws_move_below_the_probability_of_an_error() -> None:
    noise = response("1", 4)
    error = noise.error(0)
    below, above = math.nextafter(error, 0.0), math.nextafter(error, 1.0)
    generator = cast("np.random.Generator", Seeded([0.0, below, error, above], where=3))
    assert noise.draw_many(np.full(4, 2), generator).tolist() == [1, 1, 2, 2]


def test_seeded_draws_of_a_table_follow_the_sums_of_its_rows() -> None:
    noise = DistanceMechanism(Fraction(1), 3, TABLE)
    law = pmf(noise)
    for index in range(3):
        first, second = law[index].cumsum()[:2].tolist()
        shares = [0.0, first - 1e-9, first + 1e-9, second - 1e-9, second + 1e-9, 1 - 1e-9]
        generator = cast("np.random.Generator", Seeded(shares))
        assert noise.draw_many(np.full(6, index), generator).tolist() == [0, 0, 1, 1, 2, 2]


def test_what_answers_cost_is_read_off_their_tables() -> None:
    assert response("0.5", 4).tight_epsilon() == pytest.approx(0.5, rel=1e-12)
    assert response("0.5", 2).tight_epsilon() == pytest.approx(0.5, rel=1e-12)
    # Outputs stand in columns: the second tells the two inputs apart by 2, the rows do by 4.
    table = np.array([[0.0, -3.0], [-1.0, -5.0]])
    assert response("1", 2).largest_ratio(table) == 2.0
    pairs = DistanceMechanism(Fraction(1), 2, ((0.0, 4.0), (4.0, 0.0)))
    assert pairs.largest_ratio(table) == 0.5
    three = DistanceMechanism(Fraction(1), 3, TABLE)
    rows = np.array([[0.0, -3.0, 0.0], [-1.0, -5.0, 0.0], [0.0, -3.0, -9.0]])
    assert three.largest_ratio(rows) == 6.0  # of the last two answers, 9 over 1.5


@pytest.mark.parametrize("size", [2, 5])
def test_the_error_of_answers_one_apart_is_a_response_at_half_the_epsilon(size: int) -> None:
    table = tuple(tuple(float(i != j) for j in range(size)) for i in range(size))
    exact = DistanceMechanism(Fraction(3, 2), size, table)
    error, slope, bend = DistanceMechanism.error_curve(1.5, size)
    assert error == pytest.approx(exact.error(0), rel=1e-12)
    h = 1e-4
    (low, low_slope, _), (high, high_slope, _) = (
        DistanceMechanism.error_curve(1.5 + way * h, size) for way in (-1, 1)
    )
    assert slope == pytest.approx((high - low) / (2 * h), rel=1e-6)
    assert bend == pytest.approx((high_slope - low_slope) / (2 * h), rel=1e-6)


def test_what_is_public_costs_nothing_and_says_so() -> None:
    shown = PublicValue(4)
    assert shown.epsilon == 0
    assert repr(shown) == "PublicValue(epsilon=0, size=4)"
    assert shown.error_curve(1.0, 4) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("noise", [response("1", 4), DistanceMechanism(Fraction(1), 3, TABLE)])
def test_the_error_curve_of_answers_is_that_of_the_kind_whoever_is_asked(noise: Mechanism) -> None:
    assert noise.error_curve(0.3, 7) == type(noise).error_curve(0.3, 7)
