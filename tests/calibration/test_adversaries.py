"""Adversaries against calibrated releases of full-size templates: they get what the draw gives.

The same people and draws are used for every adversary, so that differences have small errors.
Roots are independent here and people come from the adversary's own prior: then no adversary, with
whatever it computes from the release, has a smaller expected error than the posterior median given
the noised root. A statistic is judged at five of its standard errors: one false alarm in a million.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from rootguard.attacks.map import map_estimates
from rootguard.calibration import Calibration
from rootguard.calibration.priors import joint_indices, marginal
from rootguard.graph import Graph
from rootguard.mechanisms import mechanism
from rootguard.mechanisms.base import Floats, Indices
from rootguard.template import Template, load_template
from rootguard.values import RootName
from tests.support.calibrated import Noised, drawn, levels_at, snapped

PEOPLE = 8000
SIGMAS = 5.0
CASES = [("fib4", "0.05"), ("fib4", "0.2"), ("homa", "0.05"), ("vascular", "0.02")]
by_case = pytest.mark.parametrize(("name", "epsilon"), CASES)


def independent(name: str) -> Template:
    return replace(load_template(name), population=None)


@cache
def seen(name: str, epsilon: str) -> tuple[Noised, Noised, Noised, Noised]:
    """True and noised indices, the release snapped to the grid, and the noised roots inverted.

    The inverting adversary knows the map. It looks a release up among those of possible outputs
    and takes the first that gives it: where the map merges outputs it cannot tell which it was.
    """
    template = independent(name)
    roots = Graph.of(template).roots
    beliefs = [marginal(template.roots[root], template.roots[root].domain) for root in roots]
    shares = np.random.default_rng(17).random((PEOPLE, len(roots)))
    true = dict(zip(roots, joint_indices(beliefs, np.eye(len(roots)), shares), strict=True))
    levels = levels_at(template, "geometric", epsilon)
    noised = drawn(levels, true, "adversary", name, epsilon)
    released = Calibration(template, levels).release_many(noised)
    stacked = np.column_stack([released[root] for root in roots])
    _, first, which = np.unique(stacked, axis=0, return_index=True, return_inverse=True)
    inverted = {root: noised[root][first[which.ravel()]] for root in roots}
    return true, noised, snapped(template, released), inverted


def guesses(name: str, epsilon: str, noised: Noised, root: RootName) -> dict[str, Indices]:
    """What the MAP and the posterior-median adversary make of indices they take for noised."""
    template = independent(name)
    levels = levels_at(template, "geometric", epsilon)
    noise = mechanism("geometric", levels[root].epsilon, levels[root].domain.size)
    mass = marginal(template.roots[root], levels[root].domain).mass
    medians = Calibration(template, levels).medians_many(noised)
    return {
        "MAP": map_estimates(noise, noised[root][:, None], np.log(mass)),
        "median": snapped(template, medians)[root],
    }


def off(guess: Indices, true: Indices) -> Floats:
    return np.asarray(np.abs(guess - true), float)


def judged(gain: Floats) -> float:
    """A mean difference in standard errors; 0 where there is no difference at all."""
    spread = gain.std() / np.sqrt(gain.size)
    return float(gain.mean() / spread) if spread > 0 else 0.0


@by_case
def test_undoing_the_calibration_gives_what_the_noised_roots_give(name: str, epsilon: str) -> None:
    true, noised, _, inverted = seen(name, epsilon)
    for root in true:
        before = guesses(name, epsilon, noised, root)
        after = guesses(name, epsilon, inverted, root)
        for adversary, guess in before.items():
            gain = off(guess, true[root]) - off(after[adversary], true[root])
            assert abs(judged(gain)) < SIGMAS


@by_case
def test_no_adversary_does_better_on_the_release(name: str, epsilon: str) -> None:
    """Taking the release as it is, or as if it were noised: never below the best on the draw."""
    true, noised, released, _ = seen(name, epsilon)
    for root in true:
        best = off(guesses(name, epsilon, noised, root)["median"], true[root])
        others = {"as it is": released[root], **guesses(name, epsilon, released, root)}
        for guess in others.values():
            assert judged(best - off(guess, true[root])) < SIGMAS


@by_case
def test_the_map_is_all_but_invertible_at_full_size(name: str, epsilon: str) -> None:
    """So calibration hides nothing either: it must not be counted as protection."""
    _, noised, _, inverted = seen(name, epsilon)
    same = np.all([noised[root] == inverted[root] for root in noised], axis=0)
    assert same.mean() > 0.95


def test_the_judge_sees_an_adversary_who_knows_more() -> None:
    """The control: one who is told half of the noise is caught doing better."""
    true, noised, _, _ = seen("fib4", "0.05")
    root = RootName("ast")
    best = off(guesses("fib4", "0.05", noised, root)["median"], true[root])
    told = {**noised, root: (noised[root] + true[root]) // 2}
    assert judged(best - off(told[root], true[root])) > SIGMAS
