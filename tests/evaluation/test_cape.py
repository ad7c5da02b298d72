"""CAPE-F: the mechanism is exactly what it says, and the study reads what it wrote."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from rootguard.advice.people import synthetic_cohort
from rootguard.cli.bench import cape as command
from rootguard.evaluation import language_model
from rootguard.evaluation.cape import (
    BUCKETS,
    FLOOR,
    Cape,
    CapeRow,
    Contexts,
    buckets,
    cape_means,
    cape_rows,
    cape_sheets,
    distribution,
    draw,
    flatness,
    loss,
    similarities,
    stated,
    utilities,
)
from rootguard.evaluation.language_model import ModelError
from rootguard.evaluation.study.rows import columns, values
from rootguard.mechanisms.base import Floats
from rootguard.template import load_template
from rootguard.values import RootName
from tests.support.goodness import FALSE_ALARM, fit

EPSILONS = (Fraction("0.1"), Fraction(5))
SOURCE = np.random.default_rng(7)
EMBEDDINGS = SOURCE.normal(size=(10, 6))
SIMILARITY = similarities(EMBEDDINGS)
LOGITS = np.log(SOURCE.dirichlet(np.ones(10)))
UTILITY = utilities(LOGITS, SIMILARITY)


def expect(text: str) -> Floats:
    """A model in a test: what it expects hangs on how long the text is."""
    return np.roll(LOGITS, len(text))


def test_the_same_digit_is_nearest_and_the_farthest_pair_is_at_zero() -> None:
    assert np.diag(SIMILARITY) == pytest.approx(np.ones(10))
    assert SIMILARITY.min() == 0.0
    assert np.allclose(SIMILARITY, SIMILARITY.T)
    with pytest.raises(ValueError, match="the same"):
        similarities(np.ones((10, 3)))


def test_the_utility_is_the_root_of_the_clipped_logit_times_the_similarity() -> None:
    logits = np.array([0.0, FLOOR / 4, FLOOR, 10 * FLOOR])
    similarity = np.array([[1.0, 0.5, 1.0, 1.0]])

    assert utilities(logits, similarity)[0] == pytest.approx([1.0, 0.5 * 0.75**0.5, 0.0, 0.0])
    assert (UTILITY.min(), UTILITY.max()) >= (0.0, 0.0)
    assert UTILITY.max() <= 1.0


def test_buckets_have_equal_width_and_the_greatest_utility_is_in_the_last() -> None:
    utility = np.array([0.0, 1.5, 25.5, 50.0]) / BUCKETS

    assert buckets(utility).tolist() == [0, 1, BUCKETS // 2, BUCKETS - 1]
    assert buckets(np.full(4, 0.3)).tolist() == [0, 0, 0, 0]


def test_chances_are_those_of_the_exponential_mechanism_over_buckets() -> None:
    utility = np.array([0.0, 0.001, 1.0])  # the first two share a bucket
    weights = np.exp(2.0 * np.array([0.0005, 1.0]) / 2)
    first, second = weights / weights.sum()

    assert distribution(utility, 2.0) == pytest.approx([first / 2, first / 2, second])


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_draws_follow_the_computed_chances_and_not_those_of_another_epsilon(
    epsilon: float,
) -> None:
    """5,000 draws; the false-alarm rate is 1e-6. The control must fail."""
    source = np.random.default_rng(11)
    draws = np.array([draw(UTILITY[7], epsilon, source) for _ in range(5_000)])

    assert fit(draws, distribution(UTILITY[7], epsilon)) > FALSE_ALARM
    assert fit(draws, distribution(UTILITY[7], epsilon + 2.0)) < FALSE_ALARM


def test_candidates_that_share_a_bucket_share_its_chance() -> None:
    """20,000 draws; the false-alarm rate is 1e-6. Without buckets the chances would be others."""
    source = np.random.default_rng(13)
    crowded = np.array([0.0, 0.001, 0.002, 1.0])
    draws = np.array([draw(crowded, 1.0, source) for _ in range(20_000)])

    assert fit(draws, distribution(crowded, 1.0)) > FALSE_ALARM
    assert fit(draws, np.exp(crowded / 2)) < FALSE_ALARM


def test_buckets_break_the_bound_that_epsilon_claims() -> None:
    """Who shares a bucket depends on the true digit: no small epsilon bounds that."""
    near = np.array([[0.5, 0.5, 1.0], [0.0, 0.5, 1.0]])

    assert loss(near, 1e-9) == pytest.approx(np.log(3 / 2), abs=1e-6)
    assert loss(np.array([[0.0, 0.5, 1.0], [1.0, 0.0, 0.5]]), 1.0) <= 1.0
    assert loss(UTILITY, 5.0) > loss(UTILITY, 1.0)


def test_only_digits_change_and_each_is_drawn_behind_what_was_written() -> None:
    read: list[str] = []

    def predict(text: str) -> Floats:
        read.append(text)
        return expect(text)

    cape = Cape(predict, SIMILARITY)
    written = cape.number("AST is ", "104.52", 1.0, np.random.default_rng(3))

    assert len(written) == 6
    assert written[3] == "."
    assert written != "104.52"
    assert read == ["AST is " + written[:place] for place in (0, 1, 2, 4, 5)]


def test_much_epsilon_keeps_digits_and_little_does_not() -> None:
    """The control: the perturbation is not simply random."""
    cape = Cape(expect, SIMILARITY)
    number = "1234567890" * 20
    kept = {
        epsilon: sum(
            a == b
            for a, b in zip(
                number, cape.number("", number, epsilon, np.random.default_rng(5)), strict=True
            )
        )
        for epsilon in (0.1, 1000.0)
    }

    assert kept[0.1] < 60
    assert kept[1000.0] > 150


def test_a_model_is_asked_once_about_a_text_also_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "contexts.jsonl"
    with Contexts(path, "m", expect) as contexts:
        first = [contexts(text) for text in ("a", "ab", "a")]
        assert contexts.asked == 2
    whole = path.read_bytes()
    path.write_bytes(whole + b'["m", "abc", [0.1')

    with Contexts(path, "m", expect) as again:
        assert len(again) == 2
        assert again("ab") == pytest.approx(first[1])
        assert again.asked == 0
        again("abc")
        assert again.asked == 1
    with Contexts(path, "another model", expect) as other:
        other("a")
        assert other.asked == 1
    assert [json.loads(line)[1] for line in path.read_text().splitlines()] == [
        "a",
        "ab",
        "abc",
        "a",
    ]


def test_a_root_is_stated_in_a_sentence_of_its_own() -> None:
    before, behind = stated(load_template("fib4"), RootName("plt"))

    assert f"{before}231{behind}" == "PLT is 231 10^9/L."


def test_a_study_has_a_row_per_epsilon_and_the_same_for_the_same_seed() -> None:
    template = load_template("homa")
    cohort = synthetic_cohort(template, size=30)
    cape = Cape(expect, SIMILARITY)
    one, same, other = (
        list(cape_rows(cape, template, cohort, EPSILONS, model="m", seed=seed))
        for seed in (0, 0, 1)
    )

    assert one == same
    assert one != other
    assert [row.epsilon for row in one] == list(EPSILONS)
    assert one[0].kept < one[1].kept
    assert all(row.wmape is not None and row.wmape > 50 for row in one)
    assert all(row.opt_wmape is not None and row.opt_wmape < 20 for row in one)
    assert all(len(values(row)) == len(columns(CapeRow)) for row in one)
    means = cape_means(one)
    assert flatness(means) == pytest.approx(
        max(m.wmape for m in means) / min(m.wmape for m in means)
    )
    assert [len(sheet.lines) for sheet in cape_sheets(one)] == [2, 2]


def test_a_target_without_a_value_is_counted_and_clamping_gives_one() -> None:
    template = load_template("nlr")  # neutrophils / lymphocytes
    cohort = synthetic_cohort(template, size=5)
    zeros = Cape(lambda _: np.where(np.arange(10) == 0, 0.0, -20.0), np.ones((10, 10)))

    (row,) = cape_rows(zeros, template, cohort, (Fraction(1000),), model="m", seed=0)

    assert (row.wmape, row.undefined) == (None, 5)
    assert row.clamped_wmape is not None
    assert cape_means([row]) == []
    assert "–" in cape_sheets([row])[1].lines[0]


def test_the_command_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Path:
        raise ModelError("there is no default model; run: pip install 'rootguard[llm]'")

    monkeypatch.setattr(language_model, "default_model", absent)

    result = CliRunner().invoke(command, ["--out", str(tmp_path), "--template", "homa"])

    assert isinstance(result.exception, ModelError)
    assert "rootguard[llm]" in str(result.exception)
