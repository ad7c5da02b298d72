"""The auditor: it never accuses our mechanisms, comes close to their epsilon, and finds faults."""

import itertools
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import betaincinv

from rootguard.attacks.audit import (
    Audit,
    OutputEvent,
    Sampler,
    answers_stay,
    audit,
    lower_bound,
    lower_limit,
    neighbours,
    not_reused,
    one_at_a_time,
    starts_differently,
    uncorrelated,
    upper_limit,
)
from rootguard.mechanisms import MECHANISMS, Mechanism, certify, mechanism
from rootguard.mechanisms.base import Indices
from rootguard.rng import SECURE
from rootguard.session import Guard
from rootguard.template import load_template
from rootguard.values import MechanismName

M = 1000
MILLION = 1_000_000
NAMES: list[MechanismName] = list(MECHANISMS)


def seeded(noise: Mechanism, seed: int = 0) -> Sampler:
    """Our own sampler behind a black box that snaps its input."""
    generator = np.random.default_rng(seed)

    def sample(index: float, count: int) -> Indices:
        return noise.draw_many(np.full(count, int(np.floor(index + 0.5))), generator)

    return sample


def judge(sampler: Sampler, noise: Mechanism, **options: object) -> Audit:
    return audit(
        sampler,
        epsilon=float(noise.epsilon),
        size=noise.size,
        samples=200_000,
        claimed=noise,
        **options,  # type: ignore[arg-type]
    )


def failed(found: Audit) -> set[str]:
    return {finding.check for finding in found.findings if not finding.passed}


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "2"])
@pytest.mark.parametrize("name", NAMES)
def test_at_a_million_samples_the_bound_is_below_epsilon_and_close_to_it(
    name: MechanismName, epsilon: str
) -> None:
    noise = mechanism(name, Fraction(epsilon), M)
    bound, _ = lower_bound(
        seeded(noise), epsilon=float(epsilon), size=M, samples=MILLION, confidence=0.95
    )
    tight = certify(noise).epsilon_tight
    assert bound.epsilon <= float(epsilon)
    assert bound.epsilon <= tight * (1 + 1e-9)
    if name != "exponential":  # its tight epsilon is met far out, where samples are rare
        assert bound.epsilon >= 0.95 * float(epsilon)
    assert bound.epsilon >= 0.55 * tight


@pytest.mark.parametrize("name", NAMES)
def test_the_bound_holds_as_often_as_it_says(name: MechanismName) -> None:
    """At 60 % confidence at most 40 % of bounds may be too high; of 100, over 65 never happens."""
    noise = mechanism(name, Fraction(1, 2), 20)
    tight = certify(noise).epsilon_tight
    wrong = 0
    for seed in range(100):
        bound, _ = lower_bound(
            seeded(noise, seed), epsilon=0.5, size=20, samples=4000, confidence=0.6
        )
        wrong += bound.epsilon > tight
    assert wrong <= 65
    assert wrong <= 40  # the limits are conservative, so well below


@pytest.mark.parametrize("name", NAMES)
def test_no_check_accuses_our_own_mechanisms(name: MechanismName) -> None:
    for epsilon in ("0.1", "1"):
        noise = mechanism(name, Fraction(epsilon), M)
        found = judge(seeded(noise), noise, between=True)
        assert found.passed, failed(found)
        secure = one_at_a_time(lambda index, noise=noise: noise.draw(int(index + 0.5), SECURE))  # type: ignore[misc]
        found = audit(
            secure,
            epsilon=float(epsilon),
            size=M,
            samples=40_000,
            confidence=1 - 1e-6,  # these draws have no seed
            claimed=noise,
            restart=lambda secure=secure: secure,  # type: ignore[misc]
        )
        assert found.passed, failed(found)


@pytest.mark.parametrize("epsilon", ["0.5", "1"])
@pytest.mark.parametrize("name", NAMES)
def test_half_the_scale_is_caught(name: MechanismName, epsilon: str) -> None:
    claimed = mechanism(name, Fraction(epsilon), M)
    loud = mechanism(name, Fraction(epsilon) * 2, M)
    found = judge(seeded(loud), claimed)
    assert "shape" in failed(found)
    if name != "exponential":  # half of whose epsilon is paid for nothing in the middle
        assert "epsilon" in failed(found)
        assert found.bound.epsilon > 1.5 * float(epsilon)
    blind = audit(seeded(loud), epsilon=float(epsilon), size=M, samples=200_000)
    assert ("epsilon" in failed(blind)) == (certify(loud).epsilon_tight > 1.05 * float(epsilon))


def test_a_cache_that_redraws_is_caught_and_a_session_is_not_one() -> None:
    noise = mechanism("geometric", Fraction(1, 10), M)
    assert not answers_stay(lambda: float(noise.draw(500, SECURE))).passed
    loaded = load_template("homa")
    session = Guard.open(loaded, values={"glu": 100.0, "ins": 9.0}, budget=Fraction(1, 5))
    assert answers_stay(lambda: session.number("ins")).passed
    assert answers_stay(lambda: float(session.derive("ins * glu"))).passed


@pytest.mark.parametrize("epsilon", ["0.5", "1"])
def test_biased_rounding_at_the_edge_is_caught(epsilon: str) -> None:
    claimed = mechanism("laplace", Fraction(epsilon), M)
    generator = np.random.default_rng(4)

    def down_at_the_top(index: float, count: int) -> Indices:
        """Rounds as it should, but cuts off instead in the last cell."""
        real = np.clip(index + generator.laplace(0, 1 / float(epsilon), count), 0, M - 1)
        rounded = np.floor(real + 0.5)
        return np.where(rounded == M - 1, np.floor(real), rounded).astype(np.int64)

    def inwards(index: float, count: int) -> Indices:
        """Never gives an end point, except to a person who is there."""
        real = np.floor(index + generator.laplace(0, 1 / float(epsilon), count) + 0.5)
        low, high = (0, M - 1) if index in (0, M - 1) else (1, M - 2)
        return np.clip(real, low, high).astype(np.int64)

    assert failed(judge(down_at_the_top, claimed)) == {"shape"}
    assert {"epsilon", "shape"} <= failed(judge(inwards, claimed))


def staircase(epsilon: float, index: float, count: int, rng: np.random.Generator) -> Indices:
    """Geng and Viswanath's noise on an input that is not snapped."""
    gamma, b = 1 / (1 + np.exp(epsilon / 2)), np.exp(-epsilon)
    sign = rng.choice([-1, 1], count)
    steps = rng.geometric(1 - b, count) - 1
    uniform = rng.random(count)
    outer = rng.random(count) >= gamma / (gamma + (1 - gamma) * b)
    size = np.where(outer, steps + gamma + (1 - gamma) * uniform, steps + gamma * uniform)
    rounded: Indices = np.floor(np.clip(index + sign * size, 0, M - 1) + 0.5).astype(np.int64)
    return rounded


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
def test_an_unsnapped_staircase_is_caught_and_a_snapped_one_is_not(epsilon: str) -> None:
    claimed = mechanism("staircase", Fraction(epsilon), M)
    rng = np.random.default_rng(6)

    def raw(index: float, count: int) -> Indices:
        return staircase(float(epsilon), index, count, rng)

    def snapped(index: float, count: int) -> Indices:
        return staircase(float(epsilon), np.floor(index + 0.5), count, rng)

    assert failed(judge(raw, claimed, between=True)) == {"between grid points"}
    assert not failed(judge(raw, claimed))  # on grid points alone nothing is wrong
    assert not failed(judge(snapped, claimed, between=True))


def from_a_counter(seed: int = 0) -> Sampler:
    """Each draw from a generator seeded with how many draws there were."""
    noise = mechanism("geometric", Fraction(1, 2), M)
    drawn = itertools.count(seed)

    def sample(index: float, count: int) -> Indices:
        return np.array(
            [
                noise.draw_many(np.array([int(index)]), np.random.default_rng(next(drawn)))[0]
                for _ in range(count)
            ]
        )

    return sample


def test_noise_from_a_seeded_counter_is_caught() -> None:
    assert not starts_differently(from_a_counter, 500).passed
    drawn = itertools.count(0)
    assert starts_differently(lambda: from_a_counter(1000 * next(drawn)), 500).passed

    tape = np.random.default_rng(0).integers(-20, 21, 1000)
    clock = itertools.count()

    def periodic(index: float, count: int) -> Indices:
        at = np.array([next(clock) for _ in range(count)])
        told: Indices = np.clip(int(index) + tape[at % len(tape)], 0, M - 1)
        return told

    assert not uncorrelated(periodic(500, 20_000)).passed


def test_a_sampler_that_hardly_varies_is_not_accused_of_a_seed() -> None:
    sure = mechanism("geometric", Fraction(50), M)
    assert starts_differently(lambda: seeded(sure), 500).passed
    assert uncorrelated(np.full(1000, 3)).passed


def test_reused_noise_is_caught() -> None:
    noise = mechanism("geometric", Fraction(1, 10), M)
    rng = np.random.default_rng(1)
    first = noise.draw_many(np.full(1000, 300), rng)
    second = noise.draw_many(np.full(1000, 700), rng)
    assert not_reused(first, second).passed
    assert not not_reused(first, first + 400).passed

    def same_each_time(index: float, count: int) -> Indices:
        return noise.draw_many(np.full(count, int(index)), np.random.default_rng(8))

    assert "reuse" in failed(judge(same_each_time, noise))


def test_outputs_off_the_grid_are_caught() -> None:
    noise = mechanism("geometric", Fraction(1, 2), M)
    honest = seeded(noise)
    found = judge(lambda index, count: honest(index, count) + 1, noise)
    assert "on the grid" in failed(found)
    with pytest.raises(ValueError, match="whole number"):
        one_at_a_time(lambda index: index + 0.1)(5, 10)


def test_limits_are_clopper_and_pearsons() -> None:
    for trials in (1, 7, 1000, 250_000):
        for k in {0, 1, trials // 3, trials - 1, trials}:
            for alpha in (0.025, 1e-6):
                low = betaincinv(k, trials - k + 1, alpha) if k else 0.0
                high = betaincinv(k + 1, trials - k, 1 - alpha) if k < trials else 1.0
                assert lower_limit(k, trials, alpha) == pytest.approx(low, rel=1e-8, abs=1e-15)
                assert upper_limit(k, trials, alpha) == pytest.approx(high, rel=1e-8, abs=1e-15)


@pytest.mark.parametrize("size", [2, 3, 5, M])
@pytest.mark.parametrize("epsilon", [0.001, 0.5, 20.0])
def test_neighbours_lie_on_the_grid(size: int, epsilon: float) -> None:
    pairs = neighbours(size, epsilon)
    assert (0, 1) in pairs
    assert (size - 2, size - 1) in pairs
    assert all(0 <= low < high < size for low, high in pairs)


@pytest.mark.parametrize("size", [2, 3])
def test_tiny_grids_can_be_audited(size: int) -> None:
    noise = mechanism("geometric", Fraction(1), size)
    found = judge(seeded(noise), noise)
    assert found.passed, failed(found)
    assert found.bound.epsilon > 0.9


def test_events_count_what_they_say() -> None:
    outputs = np.array([0, 1, 1, 2, 5])
    count: Callable[[str], int] = lambda side: OutputEvent(side=side, at=1).holds(outputs)  # type: ignore[arg-type]  # noqa: E731
    assert [count("at most"), count("at least"), count("exactly")] == [3, 4, 2]
