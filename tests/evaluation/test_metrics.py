"""Errors of a target and how sure they are, against figures by hand or in closed form."""

import math

import numpy as np
import pytest

from rootguard import load_template
from rootguard.advice.seeds import generator
from rootguard.advice.utility import class_numbers
from rootguard.evaluation.metrics import Bootstrap, Estimate, mean_se, wins
from rootguard.mechanisms.base import Floats
from rootguard.template import RiskClass

TRUTH = np.array([1.0, -2.0, 5.0])
CLASSES = (
    RiskClass(label="low", limit=1.0, inclusive=False),
    RiskClass(label="middle", limit=2.5, inclusive=True),
    RiskClass(label="high", limit=None, inclusive=False),
)


def bootstrap(truth: Floats) -> Bootstrap:
    return Bootstrap(truth, generator(0, "test"))


def wmape(made: Bootstrap, released: Floats) -> Estimate:
    ((figure, _),) = made.measure(released, ())
    return figure


def test_wmape_is_the_sum_of_errors_over_the_sum_of_sizes() -> None:
    released = np.array([[[1.5, -1.0, 5.0]]])
    figure = wmape(bootstrap(TRUTH), released)
    assert figure.value == pytest.approx(100 * (0.5 + 1.0 + 0.0) / 8.0)
    assert figure.monte_carlo is None


def test_repeats_are_averaged_and_their_spread_is_the_monte_carlo_error() -> None:
    released = np.array([[[1.5, -1.0, 5.0], [1.0, -2.0, 5.5]]])
    figure = wmape(bootstrap(TRUTH), released)
    each = [100 * 1.5 / 8, 100 * 0.5 / 8]
    assert figure.value == pytest.approx(sum(each) / 2)
    assert figure.monte_carlo == pytest.approx(np.std(each, ddof=1) / math.sqrt(2))


def test_wmape_has_no_value_when_every_target_is_zero() -> None:
    with pytest.raises(ValueError, match="zero"):
        wmape(bootstrap(np.zeros(3)), np.ones((1, 1, 3)))


def test_class_limits_belong_to_the_class_that_the_template_says() -> None:
    values = np.array([0.999, 1.0, 2.5, 2.501])
    assert class_numbers(CLASSES, values).tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize("name", ["anemia", "fib4", "aip", "homa", "nlr", "tyg"])
def test_class_numbers_agree_with_the_template(name: str) -> None:
    template = load_template(name)
    limits = [risk.limit for risk in template.risk if risk.limit is not None]
    values = np.array([limit + shift for limit in limits for shift in (-0.01, 0.0, 0.01)])
    expected = [template.risk.index(found) for v in values if (found := template.classify(v))]
    assert class_numbers(template.risk, values).tolist() == expected


def test_risk_class_error_counts_how_many_classes_apart() -> None:
    truth, released = np.array([0.5, 2.0, 3.0, 3.0]), np.array([[[3.0, 2.0, 2.0, 3.0]]])
    ((_, figure),) = bootstrap(truth).measure(released, CLASSES)
    assert figure is not None
    assert figure.value == pytest.approx(100 * (2 + 0 + 1 + 0) / 2 / 4)


def test_there_is_no_risk_class_error_without_two_classes() -> None:
    ((_, figure),) = bootstrap(TRUTH).measure(TRUTH[None, None, :], CLASSES[-1:])
    assert figure is None


def test_every_resample_holds_as_many_patients_as_there_are() -> None:
    counts = bootstrap(np.ones(50)).counts
    assert counts.shape == (1000, 50)
    assert (counts.sum(axis=1) == 50).all()


def test_resamples_of_zero_targets_only_are_left_out() -> None:
    truth = np.array([1.0, 0.0])  # a quarter of the resamples hold the second patient twice
    made = bootstrap(truth)
    assert 650 < len(made.counts) < 850
    figure = wmape(made, np.array([[[1.5, 0.5]]]))
    assert math.isfinite(figure.se)


def test_the_bootstrap_error_is_the_standard_error_of_a_ratio() -> None:
    """Against the delta method. 1,000 resamples leave 2.2 %, of which 5 are allowed: one in 2e6."""
    source = np.random.default_rng(1)
    truth = source.uniform(1, 3, 400)
    errors = source.exponential(0.3, 400)
    figure = wmape(bootstrap(truth), (truth + errors)[None, None, :])
    ratio = errors.sum() / truth.sum()
    exact = 100 * np.sqrt(np.mean((errors - ratio * truth) ** 2) / 400) / truth.mean()
    assert figure.se == pytest.approx(exact, rel=0.11)
    assert figure.se * 0.7 != pytest.approx(exact, rel=0.11)  # the control


def test_a_cell_has_the_same_bits_alone_and_among_others() -> None:
    source = np.random.default_rng(2)
    truth, released = source.uniform(1, 4, 200), source.uniform(0, 5, (7, 3, 200))
    made = bootstrap(truth)
    alone = [made.measure(released[i : i + 1], CLASSES)[0] for i in range(7)]
    assert made.measure(released, CLASSES) == alone


def test_errors_of_a_mean_add_in_squares() -> None:
    assert mean_se([3.0, 4.0]) == pytest.approx(2.5)


def test_a_tie_is_not_a_win() -> None:
    assert wins([(1.0, 2.0), (2.0, 2.0), (3.0, 2.0)]) == 1


def test_streams_are_told_apart_by_what_they_are_for() -> None:
    drawn = [
        generator(*address).integers(2**62).item()
        for address in ((0, "a"), (1, "a"), (0, "b"), (0, "a", 1), (0, "a", "1"))
    ]
    assert len(set(drawn)) == len(drawn)
    assert generator(0, "a").integers(2**62).item() == drawn[0]


def test_sensitivity_is_of_the_patients_truly_in_the_last_class() -> None:
    made = bootstrap(np.array([1.0, 3.0, 4.0, 9.0]))
    released = np.array([[[9.0, 3.0, 2.0, 9.0], [1.0, 3.0, 2.0, 1.0]]])
    (figure,) = made.sensitivity(released, CLASSES)
    assert figure is not None
    assert figure.value == pytest.approx(100 * 3 / 6)
    each = [100 * 2 / 3, 100 * 1 / 3]
    assert figure.monte_carlo == pytest.approx(np.std(each, ddof=1) / math.sqrt(2))
    assert figure.se > 0


def test_sensitivity_has_no_value_without_classes_or_anybody_in_the_last() -> None:
    released = np.ones((2, 1, 3))
    assert bootstrap(TRUTH).sensitivity(released, ()) == [None, None]
    assert bootstrap(np.array([1.0, 1.0, 2.0])).sensitivity(released, CLASSES) == [None, None]
    assert bootstrap(TRUTH).sensitivity(np.empty((0, 1, 3)), CLASSES) == []


def test_the_recall_of_any_class_is_of_the_patients_truly_in_it() -> None:
    truth = np.array([0.5, 0.6, 2.0, 3.0])
    released = np.array([[[0.7, 1.2, 2.2, 3.0], [0.9, 0.9, 2.6, 1.0]]])
    made = bootstrap(truth)
    found = [made.recall(released, CLASSES, number)[0] for number in range(3)]
    assert [None if one is None else one.value for one in found] == [75.0, 50.0, 50.0]
    assert made.recall(released, CLASSES, 2) == made.sensitivity(released, CLASSES)
    assert bootstrap(truth[:2]).recall(released[:, :, :2], CLASSES, 1) == [None]
