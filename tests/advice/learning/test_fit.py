"""Learned formulas: rows are read strictly, fits written exactly, plans hardly moved."""

import csv
import itertools
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from numpy.typing import NDArray

from rootguard.advice.learning.fit import AGREEMENT, Learned, Score, _score, choose, learn, wmape
from rootguard.advice.learning.forms import FORMS, FormName, FunctionalForm, fit_form
from rootguard.advice.learning.rows import PublicRows, checked_rows
from rootguard.advice.learning.template import (
    bounds_of,
    learned_template,
    template_text,
)
from rootguard.advice.people import PAPER_TEMPLATES
from rootguard.allocation import Plan, make_plan
from rootguard.cli.learn import command
from rootguard.errors import CohortError, RootGuardError
from rootguard.evaluation.learned_targets import (
    SETTINGS,
    Cost,
    release_error,
    rows_of,
    shift,
    study,
)
from rootguard.expressions import (
    MAX_LENGTH,
    Node,
    NumberLiteral,
    evaluate,
    evaluate_many,
    names,
    parse,
    to_text,
)
from rootguard.template import Template, load_template
from rootguard.values import RootName

Floats = NDArray[np.float64]
A, B = RootName("a"), RootName("b")
# A fit takes two seconds, so by default one template of each kind: four roots, one that plays no
# part, a logarithm, no form that fits. Those named here are of the same kinds.
LONG = ("conicity", "homa", "nlr", "tyg")


def some_by_default(names: Iterable[str]) -> list[object]:
    marks = {name: [pytest.mark.slow] if name in LONG else [] for name in names}
    return [pytest.param(name, marks=mark) for name, mark in marks.items()]


PURE = some_by_default(("anemia", "conicity", "fib4", "homa", "nlr"))
LOGS = some_by_default(("aip", "tyg"))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def table(folder: Path, columns: Mapping[str, Floats]) -> Path:
    path = folder / "rows.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return path


def some(rows: int = 120, seed: int = 5) -> dict[str, Floats]:
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(1, 9, rows), rng.lognormal(1, 0.4, rows)
    return {"a": a, "b": b, "y": a * b / 3}


def rows_with(target: Callable[[Floats, Floats], Floats], rows: int = 300) -> PublicRows:
    columns = some(rows)
    a, b = columns["a"], columns["b"]
    return checked_rows("rows.csv", "y", {"a": a, "b": b}, target(a, b))


@cache
def relearned(name: str) -> tuple[Template, PublicRows, Learned, Template]:
    """A template of the paper, 1,000 rows of it, what they teach, and the template from that."""
    exact = load_template(name)
    rows = rows_of(exact, SETTINGS[0], seed=3)
    bounds = bounds_of(rows, base=exact)
    learned = learn(rows, bounds=bounds, seed=3)
    return exact, rows, learned, learned_template(template_text(rows, learned, bounds, base=exact))


# What is learned


@pytest.mark.parametrize("name", PURE)
def test_a_product_of_powers_is_recovered_exactly(name: str) -> None:
    exact, _, learned, template = relearned(name)
    assert learned.form == "log-linear"
    assert learned.r2 > 0.9999
    assert learned.wmape < 1e-6
    point = {str(root): value for root, value in template.centre().items()}
    truth = evaluate(exact.target.formula, point)
    assert evaluate(learned.formula, point) == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize("name", LOGS)
def test_a_logarithm_of_a_product_is_recovered_exactly(name: str) -> None:
    learned = relearned(name)[2]
    assert learned.form == "linear-in-logs"
    assert learned.r2 > 0.9999
    assert learned.wmape < 1e-6


def test_a_formula_outside_every_form_is_approximated_closely() -> None:
    learned = relearned("vascular")[2]  # 1 - dbp / sbp
    assert 0 < learned.wmape < 0.5
    assert learned.baseline > 15


def test_a_root_that_plays_no_part_is_left_out_of_the_formula_and_told() -> None:
    learned = relearned("anemia")[2]
    assert names(learned.formula) == {"hb", "hct"}
    assert any(caution.kind == "unused" and "rbc" in caution.text for caution in learned.cautions)


@pytest.mark.parametrize("name", some_by_default(PAPER_TEMPLATES))
def test_the_learned_plan_gives_nearly_the_shares_of_the_exact_one(name: str) -> None:
    exact, _, _, template = relearned(name)
    budget = Fraction(9, 10)
    assert shift(make_plan(exact, budget), make_plan(template, budget)) < 0.1


def test_the_measure_of_shares_tells_a_uniform_plan_from_an_exact_one() -> None:
    exact = load_template("aip")
    uniform = make_plan(exact, Fraction(9, 10), allocation="uniform")
    assert shift(make_plan(exact, Fraction(9, 10)), uniform) > 0.3


@pytest.mark.parametrize("name", some_by_default(("aip", "fib4", "nlr")))
def test_a_release_planned_by_the_learned_formula_is_about_as_accurate(name: str) -> None:
    exact, _, _, template = relearned(name)
    budget = Fraction(9, 10)

    def error(plan: Plan) -> float:
        return release_error(exact, plan, seed=3, repeats=40)

    known = error(make_plan(exact, budget))
    assert error(make_plan(template, budget)) < 1.03 * known
    assert error(make_plan(exact, budget, allocation="uniform")) > 1.15 * known


def test_few_rough_rows_still_plan_better_than_no_formula_at_all() -> None:
    costs: list[Cost] = list(study([load_template("nlr")], seed=3, repeats=40))
    assert [cost.setting for cost in costs] == [setting.name for setting in SETTINGS]
    rough = costs[1]
    assert rough.wmape > 3
    assert rough.exact * 0.98 < rough.learned < rough.uniform * 0.9


def test_the_simpler_of_two_forms_that_are_equally_good_is_chosen() -> None:
    learned = learn(rows_with(lambda a, b: 2 * a + 3 * b + 1))
    assert learned.form == "linear"
    assert learned.coefficients == pytest.approx({"constant": 1.0, "a": 2.0, "b": 3.0})
    also = next(score for score in learned.scores if score.form == "polynomial")
    assert also.wmape == pytest.approx(0, abs=1e-9)


def test_a_product_with_an_offset_needs_the_polynomial() -> None:
    learned = learn(rows_with(lambda a, b: a * b - 40))
    assert learned.form == "polynomial"
    assert learned.wmape < 1e-6


def noise(rows: int, roots: str, seed: int) -> PublicRows:
    rng = np.random.default_rng(seed)
    columns = {name: rng.normal(size=rows) for name in roots}
    return checked_rows("rows.csv", "y", columns, rng.normal(50, 9, rows))


def test_columns_that_say_nothing_are_refused() -> None:
    with pytest.raises(CohortError, match="no form of these columns says anything"):
        learn(noise(30, "abcd", seed=2))


def test_a_fit_no_better_than_the_median_is_warned_of() -> None:
    learned = learn(noise(200, "ab", seed=8))
    assert learned.wmape > 0.9 * learned.baseline
    assert [caution.kind for caution in learned.cautions] == ["fit"]


def test_error_is_measured_on_rows_that_were_not_fitted() -> None:
    rows = noise(200, "ab", seed=8)
    learned = learn(rows)
    columns = {str(root): column for root, column in rows.columns.items()}
    assert learned.wmape > 1.003 * wmape(rows.target, evaluate_many(learned.formula, columns))


def test_the_same_seed_gives_the_same_file_and_another_seed_other_folds() -> None:
    rows = rows_with(lambda a, b: a * b + np.sin(9 * a), rows=120)
    first, again, other = learn(rows, seed=4), learn(rows, seed=4), learn(rows, seed=5)
    bounds = bounds_of(rows)
    assert template_text(rows, first, bounds) == template_text(rows, again, bounds)
    assert first.wmape != other.wmape


def rated(form: FormName, error: float, se: float, terms: int) -> Score:
    return Score(form=form, wmape=error, wmape_se=se, r2=0.9, terms=terms)


def test_one_standard_error_of_the_best_is_what_simplicity_may_cost() -> None:
    best = rated("polynomial", 5.0, 0.5, 9)
    near, far = rated("log-linear", 5.4, 0.1, 3), rated("linear", 5.6, 9.0, 2)
    unused = Score(form="exponential", reason="the target is not always above zero")
    assert choose([far, near, unused, best]) is near
    assert choose([far, best]) is best
    assert choose([unused]) is None


def test_a_form_can_be_chosen_where_all_folds_but_one_are_of_zeros() -> None:
    a = np.linspace(1, 9, 60)
    target = np.where(a > 5, a, 0.0)
    part = np.where(a > 5, 0, 1)
    made, _ = _score(FORMS[0], (RootName("a"),), a[:, None], target, part, {}, 0, lambda _: None)
    assert made.wmape_se == 0.0  # zeros have no error in percent, and one fold no spread
    assert choose([made]) is made


# The formula and the model


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize("place", [1.0, 1e4], ids=["near zero", "far from zero"])
def test_the_formula_evaluates_to_what_the_model_predicts(
    form: FunctionalForm, place: float
) -> None:
    rng = np.random.default_rng(6)
    inputs = place + rng.lognormal(1, 0.5, (400, 4))
    target = np.exp(np.log(inputs) @ [1.0, -0.5, 0.2, 0.0]) + 0.01 * rng.random(400)
    roots = [RootName(name) for name in ("age", "ast", "alt", "plt")]
    fit = fit_form(form, roots, inputs, target, seed=0)
    text = to_text(fit.formula())
    node = parse(text)
    assert node == fit.formula()
    said = evaluate_many(node, {str(r): c for r, c in zip(roots, inputs.T, strict=True)})
    predicted = fit.predict(inputs)
    assert np.abs(said - predicted).max() <= AGREEMENT * np.abs(predicted).max()
    one = evaluate(node, {str(r): float(v) for r, v in zip(roots, inputs[0], strict=True)})
    assert one == pytest.approx(predicted[0], rel=1e-9)


def literals(node: Node) -> list[float]:
    if isinstance(node, NumberLiteral):
        return [node.value]
    below = [getattr(node, field, None) for field in ("left", "right", "operand")]
    parts = [*below, *getattr(node, "arguments", ())]
    return [value for part in parts if part is not None for value in literals(part)]


def test_coefficients_are_written_with_every_digit() -> None:
    learned = learn(rows_with(lambda a, b: 2 * a + np.sin(b)))
    numbers = literals(learned.formula)
    assert all(any(abs(c) == n for n in numbers) for c in learned.coefficients.values())
    assert any(repr(abs(c)) in to_text(learned.formula) for c in learned.coefficients.values())


def test_many_roots_are_cut_down_to_a_formula_within_the_limits() -> None:
    rng = np.random.default_rng(7)
    columns = {f"a_rather_long_name_of_root_{i}": rng.normal(size=1500) for i in range(64)}
    target = np.asarray(sum((1 + i / 64) * c for i, c in enumerate(columns.values())))
    rows = checked_rows("rows.csv", "y", columns, target)
    learned = learn(rows, folds=2)
    assert 5 < len(names(learned.formula)) < 64
    assert len(to_text(learned.formula)) <= MAX_LENGTH
    assert parse(to_text(learned.formula)) == learned.formula
    refused = {score.form: score.reason for score in learned.scores}
    assert "too many products" in refused["polynomial"]


def test_a_form_without_a_value_at_a_bound_is_not_used() -> None:
    columns = some()
    rows = checked_rows("rows.csv", "y", {"a": columns["a"], "b": columns["b"]}, columns["y"])
    learned = learn(rows, bounds={A: (0.0, 10.0), B: (0.1, 20.0)})
    reasons = {score.form: score.reason for score in learned.scores}
    assert "a or its lower bound is not above zero" in reasons["log-linear"]
    assert learned.form == "polynomial"
    assert any(caution.kind == "range" for caution in learned.cautions)


def test_a_power_that_no_formula_can_hold_is_not_used() -> None:
    rng = np.random.default_rng(1)
    a = rng.uniform(1000, 1001, 200)
    rows = checked_rows("rows.csv", "y", {"a": a}, np.exp(600 * np.log(a / 1000)))
    reasons = {score.form: score.reason for score in learn(rows).scores}
    assert "limit" in reasons["log-linear"]


# Warnings and refusals


def test_dropped_rows_constant_columns_few_rows_and_wide_bounds_are_told() -> None:
    columns = some(40)
    target = columns["y"].copy()
    target[:2] = math.nan
    with_constant = {"a": columns["a"], "b": columns["b"], "c": np.full(40, 3.0)}
    rows = checked_rows("rows.csv", "y", with_constant, target)
    learned = learn(rows, bounds={A: (0.1, 100.0), B: (0.1, 4.0)})
    texts = {caution.kind: caution.text for caution in learned.cautions}
    assert texts["dropped"].startswith("2 rows")
    assert texts["constant"].startswith("c is the same")
    assert texts["rows"].startswith("38 rows are few")
    ranges = [caution.text for caution in learned.cautions if caution.kind == "range"]
    assert any("bounds of a are wider" in text for text in ranges)
    assert any("rows of b lie outside" in text for text in ranges)


def test_clean_rows_cause_no_warning() -> None:
    rows = rows_with(lambda a, b: a * b)
    assert learn(rows, bounds=bounds_of(rows)).cautions == ()


def test_a_large_file_is_fitted_to_a_sample_and_summarised_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rootguard.advice.learning.fit.FIT_ROWS", 200)
    columns = some(2_500)
    rows = checked_rows("rows.csv", "y", {"a": columns["a"], "b": columns["b"]}, columns["y"])
    seen: list[tuple[int, int]] = []
    learned = learn(rows, folds=2, report=lambda done, total: seen.append((done, total)))
    assert any(caution.kind == "sample" for caution in learned.cautions)
    assert learned.rows == 2_500
    template = learned_template(template_text(rows, learned, bounds_of(rows)))
    assert template.roots[A].mean == pytest.approx(float(columns["a"].mean()))
    assert seen[-1] == (len(FORMS) * 3, len(FORMS) * 3)
    assert all(one <= other for (one, _), (other, _) in itertools.pairwise(seen))


def test_without_scikit_learn_one_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    path = table(tmp_path, some())
    result = run("--data", str(path), "--target", "y")
    assert isinstance(result.exception, RootGuardError)  # main turns it into exit code 3
    assert "pip install 'rootguard[learn]'" in str(result.exception)
    assert result.output == ""


@pytest.mark.parametrize(("folds", "seed"), [(1, 0), (21, 0), (5, -1)])
def test_folds_and_seeds_out_of_range_are_refused(folds: int, seed: int) -> None:
    with pytest.raises(RootGuardError, match="folds must be"):
        learn(rows_with(lambda a, b: a * b), folds=folds, seed=seed)
