"""The fast adversary is the slow one: every estimate, every tie, every mechanism."""

from fractions import Fraction
from unittest.mock import create_autospec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rootguard.attacks.belief import (
    gaussian_prior,
    informed_prior,
    prior,
    uniform_prior,
)
from rootguard.attacks.map import (
    Observation,
    map_estimate,
    map_estimates,
    map_path,
    map_paths,
    shape_of,
)
from rootguard.attacks.oracle import grid
from rootguard.mechanisms import MECHANISMS, Mechanism, mechanism
from rootguard.mechanisms.base import Floats, Indices
from rootguard.template import load_template
from rootguard.values import Domain, MechanismName

NAMES: tuple[MechanismName, ...] = tuple(MECHANISMS)
EPSILONS = ("0.0001", "0.01", "0.05", "0.1", "0.5", "1", "2", "7.5", "40")


def one_by_one(noise: Mechanism, seen: Indices, log_prior: Floats | None) -> list[int]:
    """Score every candidate for one person after another, from the mechanism's own log-pmf."""
    points = np.arange(noise.size)
    return [
        map_estimate(
            [Observation(received=int(y), expected=points, noise=noise) for y in row], log_prior
        )
        for row in seen
    ]


def answers(noise: Mechanism, truth: Indices, count: int, seed: int) -> Indices:
    source = np.random.default_rng(seed)
    return np.column_stack([noise.draw_many(truth, source) for _ in range(count)])


def bell(size: int, centre: float, sd: float) -> Floats:
    return np.asarray(-((np.arange(size) - centre) ** 2) / (2 * sd**2), float)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_estimate_is_that_of_scoring_every_point(name: MechanismName, epsilon: str) -> None:
    noise = mechanism(name, Fraction(epsilon), 200)
    truth = np.array([0, 1, 2, 50, 99, 100, 150, 198, 199])
    for log_prior in (None, bell(200, 40, 15), bell(200, -30, 60), bell(200, 199, 4)):
        for count in (1, 2, 3, 6, 17):
            seen = answers(noise, truth, count, seed=count)
            found = map_estimates(noise, seen, log_prior)
            assert found.tolist() == one_by_one(noise, seen, log_prior)


@given(
    name=st.sampled_from(NAMES),
    epsilon=st.fractions(min_value=Fraction(1, 1000), max_value=60, max_denominator=10_000),
    size=st.integers(2, 60),
    log_prior=st.none() | st.tuples(st.floats(-0.3, 1.3), st.floats(0.01, 20)),
    data=st.data(),
)
@settings(max_examples=150, deadline=None)
def test_any_observations_give_the_estimate_of_scoring_every_point(
    name: MechanismName,
    epsilon: Fraction,
    size: int,
    log_prior: tuple[float, float] | None,
    data: st.DataObject,
) -> None:
    noise = mechanism(name, epsilon, size)
    row = st.lists(st.integers(0, size - 1), min_size=4, max_size=4)
    seen = np.array(data.draw(st.lists(row, min_size=1, max_size=3)))
    shape = None if log_prior is None else bell(size, log_prior[0] * size, log_prior[1] * size)
    assert map_estimates(noise, seen, shape).tolist() == one_by_one(noise, seen, shape)


@pytest.mark.parametrize("name", NAMES)
def test_a_ragged_prior_is_searched_in_full(name: MechanismName) -> None:
    noise = mechanism(name, Fraction(1, 20), 120)
    ragged = np.random.default_rng(5).normal(size=120)
    seen = answers(noise, np.arange(0, 120, 7), 5, seed=1)
    assert map_estimates(noise, seen, ragged).tolist() == one_by_one(noise, seen, ragged)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("size", [2, 3, 40])
def test_the_assumed_shape_is_the_log_pmf(name: MechanismName, epsilon: str, size: int) -> None:
    noise = mechanism(name, Fraction(epsilon), size)
    shape, points = shape_of(noise), np.arange(size)
    for y in points:
        rebuilt = shape.level - shape.rate * np.abs(points - y) + shape.spike * (points == y)
        gap = noise.log_pmf(points, y) - rebuilt
        np.testing.assert_allclose(gap, gap[0], rtol=0, atol=1e-9)


def test_another_shape_would_be_noticed() -> None:
    """The control: the test above fails for a shape with the wrong rate."""
    noise = mechanism("laplace", Fraction(1, 10), 40)
    shape, points = shape_of(noise), np.arange(40)
    gap = noise.log_pmf(points, 7) + 1.001 * shape.rate * np.abs(points - 7)
    assert np.ptp(gap[8:]) > 1e-9


@pytest.mark.parametrize("name", NAMES)
def test_a_fine_grid_is_solved_as_a_coarse_one_is(name: MechanismName) -> None:
    noise = mechanism(name, Fraction(1, 1000), 30_000)
    seen = answers(noise, np.array([0, 14_000, 29_999]), 4, seed=2)
    for log_prior in (None, bell(30_000, 9_000, 2_000)):
        assert map_estimates(noise, seen, log_prior).tolist() == one_by_one(noise, seen, log_prior)


def test_of_points_that_tie_the_middle_one_is_taken() -> None:
    noise = mechanism("geometric", Fraction(1, 10), 100)
    assert map_estimates(noise, np.array([[20, 30]])).tolist() == [25]
    assert map_estimates(noise, np.array([[20, 31]])).tolist() == [25]
    assert map_estimates(noise, np.zeros((2, 0), int)).tolist() == [49, 49]


def test_without_observations_the_prior_decides() -> None:
    noise = mechanism("exponential", Fraction(1, 10), 100)
    assert map_estimates(noise, np.zeros((1, 0), int), bell(100, 71, 9)).tolist() == [71]


@pytest.mark.parametrize("name", NAMES)
def test_a_path_is_its_estimates_one_count_at_a_time(name: MechanismName) -> None:
    noise = mechanism(name, Fraction(1, 10), 300)
    seen = answers(noise, np.arange(0, 300, 11), 9, seed=4)
    beliefs = (None, bell(300, 90, 30))
    path = map_path(noise, seen, (2, 5, 9), beliefs)
    assert path.shape == (2, 3, len(seen))
    for p, belief in enumerate(beliefs):
        for c, count in enumerate((2, 5, 9)):
            assert (path[p, c] == map_estimates(noise, seen[:, :count], belief)).all()


def test_more_observations_than_there_are_cannot_be_asked_for() -> None:
    noise = mechanism("geometric", Fraction(1, 10), 10)
    with pytest.raises(ValueError, match="number of observations"):
        map_path(noise, np.zeros((1, 2), int), (3,), (None,))


def test_several_roots_at_once_are_each_on_their_own() -> None:
    """One of the three has a prior too ragged to be looked up, and must not disturb the others."""
    noise = mechanism("exponential", Fraction(1, 10), 300)
    seen = np.stack([answers(noise, np.arange(i, 286 + i, 13), 5, seed=i) for i in range(3)])
    ragged = np.random.default_rng(5).normal(size=300)
    beliefs = ((None, bell(300, 90, 30)), (None, ragged), (None, bell(300, 200, 9)))
    paths = map_paths(noise, seen, (2, 5), beliefs)
    assert paths.shape == (3, 2, 2, seen.shape[1])
    for own, observed, path in zip(beliefs, seen, paths, strict=True):
        assert (path == map_path(noise, observed, (2, 5), own)).all()


def test_a_mechanism_of_unknown_shape_is_refused() -> None:
    odd = create_autospec(Mechanism, instance=True, size=3, epsilon=Fraction(1))
    with pytest.raises(TypeError, match="no reconstruction is known"):
        map_estimates(odd, np.array([[1]]))


def test_the_grid_is_the_domains_own() -> None:
    domain = Domain(lower=0.1, upper=0.7, size=7)
    assert grid(domain).tolist() == [domain.value(i) for i in range(7)]


def test_a_uniform_adversary_guesses_the_middle() -> None:
    belief = uniform_prior(Domain(lower=2, upper=6))
    assert belief.log_density is None
    assert belief.guess == 4.0


def test_an_informed_adversary_believes_the_templates_population() -> None:
    root = load_template("homa").roots["glu"]  # type: ignore[index]
    belief = informed_prior(root)
    assert root.mean is not None
    assert root.sd is not None
    assert belief.guess == root.mean
    assert belief.log_density is not None
    assert np.exp(belief.log_density).sum() == pytest.approx(1)
    points = grid(root.domain)
    assert abs(points[belief.log_density.argmax()] - root.mean) <= root.domain.step / 2
    ratio = belief.log_density[100] - belief.log_density[300]
    squares = ((points[[300, 100]] - root.mean) / root.sd) ** 2
    assert ratio == pytest.approx((squares[0] - squares[1]) / 2)
    named = prior("informed", root).log_density
    assert named is not None
    assert (named == belief.log_density).all()
    assert prior("uniform", root).log_density is None


def test_a_mean_far_from_the_grid_does_not_underflow() -> None:
    belief = gaussian_prior(Domain(lower=0, upper=1, size=11), mean=500.0, sd=0.5)
    assert belief.log_density is not None
    assert np.isfinite(belief.log_density).all()
    assert belief.log_density.argmax() == 10
