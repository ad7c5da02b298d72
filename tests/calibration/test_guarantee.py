"""Calibration is post-processing: by enumeration, a calibrated release tells no more than the draw.

On two roots of six points each there are 36 inputs and 36 outputs, so every probability can be
written down. The release's distribution is the noise's, pushed through the map.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

from rootguard.calibration import Calibration
from rootguard.calibration.priors import marginal
from rootguard.mechanisms.base import Floats, Indices
from rootguard.template import Template
from rootguard.values import MechanismName, RootName
from tests.support.calibrated import (
    EPSILONS,
    NAMES,
    NORMAL,
    PRODUCT,
    UNIFORM,
    Noised,
    every_output,
    joint_noise,
    levels_at,
    toy,
)
from tests.support.patience import PATIENCE

CLEAR = ("4", "5")
"""Little enough noise for every output to keep a release of its own."""
SLACK = 1e-9
RATIO = toy({"a": UNIFORM, "b": NORMAL}, "a / b", limit=1.5)
BLIND = toy({"a": "", "b": NORMAL}, "a - b")
TOYS = {"product": PRODUCT, "ratio": RATIO, "one root without figures": BLIND}

by_toy = pytest.mark.parametrize("template", TOYS.values(), ids=TOYS)
by_epsilons = pytest.mark.parametrize("epsilons", [EPSILONS, CLEAR], ids=["noisy", "clear"])
by_mechanism = pytest.mark.parametrize("name", NAMES)


def prices(template: Template, epsilons: tuple[str, ...] = EPSILONS) -> Floats:
    """sum of eps_i * |t_i - t'_i| for every pair of inputs: what the draw is paid for."""
    inputs = every_output(template)
    total = np.zeros((36, 36))
    for epsilon, index in zip(epsilons, inputs.values(), strict=True):
        total += float(epsilon) * np.abs(index[:, None] - index[None, :])
    return total


def labels(
    template: Template, name: MechanismName, epsilons: tuple[str, ...] = EPSILONS
) -> Indices:
    """Which release each of the 36 outputs becomes, as a number."""
    calibration = Calibration(template, levels_at(template, name, *epsilons))
    released = np.column_stack(list(calibration.release_many(every_output(template)).values()))
    return np.unique(released, axis=0, return_inverse=True)[1].ravel()


def pushed(table: Floats, label: Indices) -> Floats:
    """P(release | input) from P(output | input)."""
    gathered = np.zeros((len(table), label.max() + 1))
    np.add.at(gathered.T, label, table.T)
    return gathered


def worst_ratios(table: Floats) -> Floats:
    """The largest log-ratio between every pair of inputs, over what can come out."""
    log = np.log(np.maximum(table, 1e-300))  # never against always is a large ratio, not a NaN
    return np.array([[np.max(a - b) for b in log] for a in log])


def variation(table: Floats) -> Floats:
    gaps = np.abs(table[:, None, :] - table[None, :, :])
    return np.asarray(gaps.sum(axis=2) / 2, float)


@by_toy
@by_mechanism
@by_epsilons
def test_no_pair_of_inputs_is_told_apart_better_than_its_price(
    template: Template, name: MechanismName, epsilons: tuple[str, ...]
) -> None:
    table = joint_noise(levels_at(template, name, *epsilons))
    assert table.sum(axis=1) == pytest.approx(np.ones(36), abs=1e-12)
    released = pushed(table, labels(template, name, epsilons))
    assert (worst_ratios(released) <= prices(template, epsilons) + SLACK).all()


@by_toy
@by_mechanism
@by_epsilons
def test_a_release_never_tells_more_than_the_noised_roots(
    template: Template, name: MechanismName, epsilons: tuple[str, ...]
) -> None:
    table = joint_noise(levels_at(template, name, *epsilons))
    released = pushed(table, labels(template, name, epsilons))
    assert (worst_ratios(released) <= worst_ratios(table) + SLACK).all()
    assert (variation(released) <= variation(table) + SLACK).all()


def test_some_releases_merge_outputs_so_the_comparison_is_not_empty() -> None:
    """At small epsilon the medians of neighbouring outputs meet: less is told, not the same."""
    levels = levels_at(BLIND, "geometric", "0.05", "0.02")
    released = Calibration(BLIND, levels).medians_many(every_output(BLIND))
    label = np.unique(np.column_stack(list(released.values())), axis=0, return_inverse=True)[1]
    table = joint_noise(levels)
    merged = pushed(table, label.ravel())
    assert merged.shape[1] < 36
    assert variation(merged).sum() < 0.99 * variation(table).sum()


@by_mechanism
def test_a_calibration_that_peeks_at_the_truth_is_caught(name: MechanismName) -> None:
    """The control: nudging a median one step towards the true index breaks the bound."""
    table = joint_noise(levels_at(PRODUCT, name, *EPSILONS))
    first, second = every_output(PRODUCT).values()
    peeking = np.zeros_like(table)
    for true in range(36):
        nudged = first + np.sign(first[true] - first)
        np.add.at(peeking[true], nudged * 6 + second, table[true])
    assert (worst_ratios(peeking) > prices(PRODUCT) + SLACK).any()
    assert (variation(peeking) > variation(table) + SLACK).any()


def test_the_same_noised_roots_give_the_same_release_whatever_the_process() -> None:
    """Neither the hash seed nor a seeded generator nor the process has a say."""
    code = (
        "import numpy as np, sys; np.random.seed(int(sys.argv[1]))\n"
        "from tests.support.calibrated import EPSILONS, PRODUCT\n"
        "from tests.support.calibrated import every_output, levels_at\n"
        "from rootguard.calibration import Calibration\n"
        "made = Calibration(PRODUCT, levels_at(PRODUCT, 'geometric', *EPSILONS))\n"
        "made = made.release_many(every_output(PRODUCT))\n"
        "print([value.hex() for column in made.values() for value in column.tolist()])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code, seed],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            timeout=PATIENCE,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1


# Adversaries on the same small grid: the best guess of each root, in expected absolute error.


def joint_prior(template: Template) -> Floats:
    table: Floats = np.ones(1)
    for root in template.roots.values():
        table = np.asarray(np.kron(table, marginal(root, root.domain).mass), float)
    return table


def least_error(prior: Floats, table: Floats, true: Indices) -> float:
    """What no adversary can go below, seeing a draw from `table`: Bayes with absolute loss.

    For each outcome the best of all six guesses: a median of the posterior, found by trying.
    """
    joint = prior[:, None] * table
    loss = np.abs(true[None, :] - np.arange(6)[:, None]) @ joint
    return float(loss.min(axis=0).sum())


def most_hits(prior: Floats, table: Floats, true: Indices) -> float:
    """How often the MAP guess of one root is right."""
    joint = prior[:, None] * table
    chance = np.array([joint[true == guess].sum(axis=0) for guess in range(6)])
    return float(chance.max(axis=0).sum())


@by_toy
@by_mechanism
@by_epsilons
def test_the_best_adversary_does_no_better_on_a_calibrated_release(
    template: Template, name: MechanismName, epsilons: tuple[str, ...]
) -> None:
    table = joint_noise(levels_at(template, name, *epsilons))
    label = labels(template, name, epsilons)
    released = pushed(table, label)
    prior = joint_prior(template)
    injective = label.max() + 1 == 36
    for true in every_output(template).values():
        before, after = least_error(prior, table, true), least_error(prior, released, true)
        hits, later = most_hits(prior, table, true), most_hits(prior, released, true)
        assert after >= before - 1e-12
        assert later <= hits + 1e-12
        if injective:  # undoing the map gives the noised roots back: nothing is lost either
            assert after == pytest.approx(before, abs=1e-12)
            assert later == pytest.approx(hits, abs=1e-12)


def test_the_best_adversary_does_worse_where_releases_merge() -> None:
    levels = levels_at(PRODUCT, "geometric", *EPSILONS)
    table, prior = joint_noise(levels), joint_prior(PRODUCT)
    true = every_output(PRODUCT)[RootName("a")]
    merged = pushed(table, every_output(PRODUCT)[RootName("b")])  # a map that drops root a
    assert least_error(prior, merged, true) > least_error(prior, table, true) * 1.02


def test_both_kinds_of_map_occur_among_the_toys() -> None:
    """So that neither half of the comparison above is empty."""
    for epsilons, distinct in ((EPSILONS, 36), (CLEAR, 0)):
        sizes = [int(labels(t, name, epsilons).max()) + 1 for t in TOYS.values() for name in NAMES]
        assert (min(sizes) < 36) if distinct else (36 in sizes), sizes


def test_releases_stay_inside_the_bounds_for_every_output() -> None:
    for template in TOYS.values():
        noised: Noised = every_output(template)
        for name in NAMES:
            for epsilons in (("0.001", "0.001"), EPSILONS, ("50", "50")):
                found = Calibration(template, levels_at(template, name, *epsilons))
                for column in found.release_many(noised).values():
                    assert ((column >= 1.0) & (column <= 6.0)).all()
