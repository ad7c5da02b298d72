"""`rootguard explain`: figures that agree with the studies and move the right way."""

import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rootguard.advice import epsilon
from rootguard.advice.epsilon import Explanation, explain, explained, with_misses
from rootguard.advice.utility import Configuration
from rootguard.cli.main import cli
from rootguard.template import Template, load_template

EPSILONS = tuple(Fraction(text) for text in ("0.01", "0.1", "1"))


@pytest.fixture(scope="module")
def nlr() -> Explanation:
    return explain(load_template("nlr"), epsilons=EPSILONS, people=150, repeats=2)


def test_every_configuration_is_explained_at_every_epsilon(nlr: Explanation) -> None:
    assert nlr.configurations == ("all", "roots", "opt", "calibrated", "population")
    for config in nlr.configurations:
        assert [each.epsilon for each in nlr.of(config)] == list(EPSILONS)


def test_more_budget_means_less_error_for_the_service_and_for_the_adversary(
    nlr: Explanation,
) -> None:
    for config in nlr.configurations:
        low, middle, high = nlr.of(config)
        assert low.target_error > middle.target_error > high.target_error
        assert low.adversary_error > middle.adversary_error > high.adversary_error
        assert low.advantage < high.advantage


def test_calibration_helps_the_service_and_leaves_the_adversary_where_it_was(
    nlr: Explanation,
) -> None:
    strong, plain = nlr.of("calibrated")[0], nlr.of("opt")[0]
    assert strong.target_error < 0.8 * plain.target_error
    assert [each.adversary_error for each in nlr.of("calibrated")] == [
        each.adversary_error for each in nlr.of("opt")
    ]


def test_every_class_says_how_many_of_it_are_found_and_much_budget_finds_nearly_all(
    nlr: Explanation,
) -> None:
    for config in nlr.configurations:
        low, _, high = nlr.of(config)
        assert list(low.found) == ["normal", "inflammation or stress"]
        for label, share in high.found.items():
            before = low.found[label]
            assert share is not None
            assert before is not None
            assert share >= max(before, 80.0)


def test_explain_prints_each_class_noised_and_calibrated() -> None:
    shown = CliRunner().invoke(cli, ["explain", "anemia", "--no-plan-for-population"])
    assert shown.exit_code == 0, shown.output
    assert "hypochromic (worrying)" in shown.output
    assert "normochromic (worrying)" not in shown.output


def test_budgets_are_turns_times_epsilon(nlr: Explanation) -> None:
    assert nlr.turns == 5
    assert {each.budget for each in nlr.of("opt")} == {5 * epsilon for epsilon in EPSILONS}


def test_enough_is_where_twice_the_budget_gains_less_than_a_point() -> None:
    found = explain(
        load_template("vascular"),
        epsilons=EPSILONS,
        configurations=("opt",),
        people=150,
        repeats=2,
    )
    at = found.enough("opt")
    assert at is not None
    assert at.epsilon == Fraction("0.1")
    assert at.target_error < 2


def test_misses_lift_the_bound_towards_one(nlr: Explanation) -> None:
    honest = with_misses(nlr.of("opt"), miss_rate=0, mentions=10)
    missed = with_misses(nlr.of("opt"), miss_rate=0.05, mentions=10)
    for each in nlr.of("opt"):
        assert honest[each.epsilon] == pytest.approx(each.advantage)
        assert missed[each.epsilon] >= 1 - 0.95**10
        assert missed[each.epsilon] <= 1


def test_the_command_prints_advice_and_draws_a_figure(tmp_path: Path) -> None:
    picture = tmp_path / "vascular.png"
    arguments = ["explain", "vascular", "--no-plan-for-population", "--plot", str(picture)]
    result = CliRunner().invoke(cli, [*arguments, "--miss-rate", "0.1"])
    assert result.exit_code == 0, result.output
    assert "improves the calibrated target by less than a point" in " ".join(result.output.split())
    assert "with misses" in result.output
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_command_speaks_json() -> None:
    result = CliRunner().invoke(cli, ["explain", "vascular", "--no-plan-for-population", "--json"])
    body = json.loads(result.output)
    assert body["synthetic"] is True
    assert {each["config"] for each in body["outlooks"]} == {"all", "roots", "opt", "calibrated"}
    assert body["enough"]["calibrated"] <= body["enough"]["all"]


def test_a_plot_without_matplotlib_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("rootguard.advice.epsilon.EPSILONS", EPSILONS[-1:])
    arguments = ["explain", "nlr", "--no-plan-for-population", "--plot", str(tmp_path / "x.svg")]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 1
    assert "rootguard[eval]" in result.stderr


def test_an_explanation_is_kept_and_found_again_by_the_same_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOTGUARD_CACHE", str(tmp_path))
    template = load_template("nlr")
    some: tuple[Configuration, ...] = ("all", "opt")
    asked: list[str] = []
    find = epsilon.explain

    def counted(template: Template, **given: Any) -> Explanation:  # noqa: ANN401 - as it is called
        asked.append(template.name)
        return find(template, **given, epsilons=EPSILONS, people=60, repeats=1)

    monkeypatch.setattr(epsilon, "explain", counted)
    first = explained(template, configurations=some)
    assert explained(template, configurations=some) == first
    assert asked == ["nlr"]
    assert explained(template, configurations=("opt",)).configurations == ("opt",)
    assert explained(template, turns="k+1", configurations=some) != first
    assert len(asked) == 3
    monkeypatch.setattr(epsilon, "_program", lambda: "another")
    assert explained(template, configurations=some) == first
    assert len(asked) == 4
    for file in (tmp_path / "explanations").iterdir():
        assert file.suffix == ".json"
        file.write_text('{"tradeoffs": [{}]}')  # damaged
    assert explained(template, configurations=some) == first
    assert len(asked) == 5
    monkeypatch.setenv("ROOTGUARD_CACHE", "")
    assert explained(template, configurations=some) == first
    assert len(asked) == 6
