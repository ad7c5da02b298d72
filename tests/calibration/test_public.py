"""A public root is known to the service: a calibrated release is that among people who have it.

The target's median is compared with the exact posterior on small grids, in which the joint prior is
cut to the public value; the control ignores that the roots are tied. What is computed of the hidden
roots depends on their draws and on public values alone, so the promise stays what it was.
"""

from fractions import Fraction

import numpy as np
import pytest

from rootguard import Guard
from rootguard.calibration import Calibration, Level, make_plan
from rootguard.calibration.priors import UNTIED, marginal, prior_given
from rootguard.graph import Graph
from rootguard.mechanisms.base import Floats
from rootguard.store import MemoryStore
from rootguard.template import Template, load_template
from rootguard.values import RootName
from tests.support.calibrated import (
    SMALL,
    every_output,
    joint_prior,
    levels_at,
    synthetic,
    targets,
    values_of,
)

A, B = RootName("a"), RootName("b")


def levels(template: Template, epsilon: str) -> dict[RootName, Level]:
    """The first root public, the second noised."""
    noised = levels_at(template, "geometric", epsilon)
    return {**noised, A: Level(domain=noised[A].domain, mechanism="public", epsilon=Fraction(0))}


def loss(template: Template, epsilon: str, found: Floats) -> float:
    """The expected error of targets, one for each pair of public value and noised root."""
    at = levels(template, epsilon)
    outputs = every_output(template)
    truth = targets(template, values_of(at, outputs))
    size = at[B].domain.size
    prior = joint_prior(template).reshape(size, size)
    noise = np.exp(at[B].noise().log_pmf(np.arange(size)[:, None], np.arange(size)[None, :]))
    chances = prior[:, :, None] * noise[None]  # public value, truth, output
    gaps = np.abs(truth.reshape(size, size)[:, :, None] - found.reshape(size, size)[:, None, :])
    return float((chances * gaps).sum())


def exact_medians(template: Template, epsilon: str) -> Floats:
    at = levels(template, epsilon)
    truth = targets(template, values_of(at, every_output(template)))
    size = at[B].domain.size
    truth = truth.reshape(size, size)
    prior = joint_prior(template).reshape(size, size)
    noise = np.exp(at[B].noise().log_pmf(np.arange(size)[:, None], np.arange(size)[None, :]))
    found = np.empty((size, size))
    for public in range(size):
        order = np.argsort(truth[public])
        belief = (prior[public][:, None] * noise)[order]
        below = np.cumsum(belief / belief.sum(axis=0), axis=0)
        found[public] = truth[public][order][(below < 0.5 - 1e-12).sum(axis=0)]
    return found.ravel()


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("epsilon", ["0.02", "0.1", "0.5", "2"])
def test_the_target_is_the_median_among_people_with_the_public_value(
    kind: str, epsilon: str
) -> None:
    template = SMALL[kind]
    calibration = Calibration(template, levels(template, epsilon))
    outputs = every_output(template)
    found = calibration.targets_many(outputs)
    released = calibration.release_many(outputs)
    assert targets(template, released) == pytest.approx(found, rel=2e-9, abs=1e-9)
    assert released[A].tolist() == values_of(calibration._levels, outputs)[A].tolist()
    least = loss(template, epsilon, exact_medians(template, epsilon))
    # Measured: 0.4 % above the exact medians at the most, where the copula's shape counts most.
    assert loss(template, epsilon, found) <= least * 1.01


def test_the_control_that_does_not_look_at_the_public_value_is_worse() -> None:
    template = SMALL["product"]
    outputs = every_output(template)
    blind = Calibration(template, levels_at(template, "geometric", "0.02"))
    alone = blind.medians_many(outputs)[B]
    naive = targets(template, {A: values_of(levels(template, "0.02"), outputs)[A], B: alone})
    least = loss(template, "0.02", exact_medians(template, "0.02"))
    assert loss(template, "0.02", naive) > least * 1.05


@pytest.mark.parametrize("kind", ["product", "difference"])
def test_the_prior_among_people_with_a_value_is_the_joint_priors_slice(kind: str) -> None:
    template = SMALL[kind]
    domains = {root: template.roots[root].domain for root in Graph.of(template).roots}
    size = domains[A].size
    joint = joint_prior(template).reshape(size, size)
    plain = marginal(template.roots[B], domains[B]).mass
    for index in (3, size // 2, size - 6):
        exact = joint[index] / joint[index].sum()
        (found,) = prior_given(template, tuple(domains.items()), ((A, index),)).marginals
        off = np.abs(found.mass - exact).sum() / 2
        assert off < 0.02
        assert off < np.abs(plain - exact).sum() / 2  # the control: as if they were not tied
    assert 0 < UNTIED < 1


def test_roots_that_are_not_tied_to_what_is_public_keep_their_prior() -> None:
    template = load_template("egfr").with_public("female")
    domains = {root: template.roots[root].domain for root in Graph.of(template).roots}
    female = RootName("female")
    grids = tuple(domains.items())
    one, other = (prior_given(template, grids, ((female, i),)).marginals for i in (0, 1))
    assert all(a is b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("name", "public"), [("egfr", "female"), ("nafld", "diabetes"), ("fib4", "age")]
)
def test_calibration_helps_beside_a_public_root(name: str, public: str) -> None:
    """On synthetic people at strong privacy; the public value is never moved."""
    template = load_template(name).with_public(public)
    plan = make_plan(template, Fraction(1, 50))
    at = Level.of_plan(plan)
    true = synthetic(template, 80, 5)
    generator = np.random.default_rng(8)
    noised = {root: plan.noise(root).draw_many(index, generator) for root, index in true.items()}
    calibration = Calibration(template, at)
    assert calibration.public == (RootName(public),)
    truth = targets(template, values_of(at, true))
    released = calibration.release_many(noised)
    assert released[RootName(public)].tolist() == values_of(at, true)[RootName(public)].tolist()
    plain = np.abs(targets(template, values_of(at, noised)) - truth).mean()
    better = np.abs(targets(template, released) - truth).mean()
    assert better < 0.9 * plain
    # One at a time, in another order, is the same to the last bit.
    alone = Calibration(template, at)
    for i in (79, 7, 40):
        one = alone.release_many({root: column[i : i + 1] for root, column in noised.items()})
        assert [one[r][0] for r in released] == [released[r][i] for r in released]


def test_a_session_is_calibrated_beside_a_public_root() -> None:
    template = load_template("egfr").with_public("female")
    values = {"age": 61.0, "scr": 1.4, "female": True}
    session = Guard.open(template, values=values, budget=1, calibrate=True, store=MemoryStore())
    plain = Guard.open(template, values=values, budget=1, store=MemoryStore())
    assert session.calibrated
    assert not plain.calibrated
    assert session.release("female") is True
    drawn = session._parts[0].sanitized
    at = {root: Level.of(value, template.roots[root].type) for root, value in drawn.items()}
    expected = Calibration(template, at).release(drawn)
    assert session.release("scr") == pytest.approx(expected[RootName("scr")], rel=1e-2)
