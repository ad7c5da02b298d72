"""The choosing of constants: its shortcut is the release itself, and who judges does not choose."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from benchmarks import calibration_choice as choice

from rootguard.calibration import Calibration, Level, priors, release
from rootguard.mechanisms.base import Floats
from rootguard.template import load_template

EPSILON = Fraction(1, 100)


def crowd_of(name: str) -> choice.Crowd:
    """Two hundred people, each a group of their own."""
    template = load_template(name)
    people = choice.inhabitants(template, "clinic", 200, np.random.default_rng(3))
    return choice.Crowd(
        template=template,
        everybody=people,
        group=np.arange(200),
        truth=choice.targets_of(template, people),
        sick={},
        groups=200,
    )


@pytest.mark.parametrize("name", ["anemia", "nlr"])
def test_the_rule_in_use_gives_the_errors_of_the_release(name: str) -> None:
    crowd = crowd_of(name)
    cell = crowd.cell(EPSILON)
    levels = Level.of_plan(cell.plan)
    released = Calibration(crowd.template, levels).targets_many(cell.noised())
    expected = 100 * np.abs(released - cell.truth) / np.abs(cell.truth).mean()
    with choice.constants(choice.PRIOR_IN_USE):
        errors = crowd.errors(EPSILON)
    found = errors.under(choice.IN_USE)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    never = errors.under(choice.Rule(form="never"))  # the control: some alarms were kept
    assert not np.allclose(never, expected)


def test_the_constants_are_back_after_a_candidate() -> None:
    before = priors.FLAT, release.UNTIED, release._RAREST
    with choice.constants(choice.Prior(flat=0.3, untied=0.4)):
        assert release.UNTIED == 0.4
    assert before == (priors.FLAT, release.UNTIED, release._RAREST)


class _Spoilt(choice.Errors):
    """Errors that are out of bounds among some people, whatever the rule."""

    def under(self, rule: choice.Rule) -> Floats:
        found = super().under(rule)
        found[::2] *= 1 + 50 / rule.price
        return found


def test_who_judges_has_no_part_in_the_choice() -> None:
    crowd = crowd_of("nlr")
    errors = crowd.errors(EPSILON)
    spoilt = _Spoilt(
        groups=errors.groups,
        plain=errors.plain,
        median=errors.median,
        asked=errors.asked,
        _group=errors._group,
        _more=errors._more,
    )
    rules = [r for r in choice.rule_candidates() if r.form == "share" and r.close == 0]
    odd, even = np.arange(1, 200, 2), np.arange(0, 200, 2)
    chosen = choice._chosen_rule([[errors]], [], rules, odd)
    assert choice._chosen_rule([[spoilt]], [], rules, odd) == chosen
    assert choice._chosen_rule([[spoilt]], [], rules, even).price == max(choice.PRICES)  # control
    assert chosen.price != max(choice.PRICES)


def test_worlds_differ_as_they_say() -> None:
    template = load_template("conicity")
    rng = np.random.default_rng(5)
    targets = {
        world: choice.targets_of(template, choice.inhabitants(template, world, 4000, rng))
        for world in choice.WORLDS
    }
    spread = {world: float(np.std(found)) for world, found in targets.items()}
    assert spread["narrow"] < 0.8 * spread["figures"] < 0.8 * spread["wide"]
    assert spread["loose"] > 1.5 * spread["figures"]  # waist no longer follows weight
    middle = {world: float(np.median(found)) for world, found in targets.items()}
    assert middle["shifted"] > middle["clinic"] > middle["figures"]


def test_a_class_that_is_rarer_than_the_floor_counts_as_that() -> None:
    asked = choice.Asked(
        person=np.zeros(2, dtype=np.int64),
        target=np.ones(2),
        likely=np.array([0.004, 0.004]),
        cost=np.array([1.0, np.inf]),
        share=np.array([0.001, 0.001]),
    )
    rule = choice.Rule(form="share", price=1.0, rarest=0.003)
    assert rule.keeps(asked).tolist() == [True, False]  # nothing to keep where there is no point
    assert not replace(rule, rarest=0.01).keeps(asked).any()
