"""Values that change: what each policy draws, costs and promises over a whole history."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction

import numpy as np
import pytest

from rootguard import Guard
from rootguard.errors import BudgetError, ChangedValueError, UnknownNameError
from rootguard.mechanisms import mechanism
from rootguard.session.series import DriftTest, KeyedWords, _noise
from rootguard.store import MemoryStore, Store
from rootguard.template import Template, load_template, parse_template
from rootguard.values import Domain, Principal, RootName

OWNER = Principal("owner")
TEXT = """
name = "sugar"
title = "Sugar"
[roots.glu]
lower = 0
upper = 999
unit = "mg/dL"
series = true
moved = 300
[target]
name = "high"
formula = "glu"
"""
START = date(2024, 3, 1)
BUDGET = "0.2"


@pytest.fixture(scope="module")
def sugar() -> Template:
    return parse_template(TEXT, file="sugar.toml")


def read(template: Template, store: Store, value: float, day: int, how: str | None) -> float:
    session = Guard.open(
        template,
        values={"glu": value},
        budget=BUDGET,
        store=store,
        on_change=how,  # type: ignore[arg-type]
        when=START + timedelta(days=day),
        lifetime=1000,
    )
    return session.number("glu")


def total(template: Template, store: Store) -> Fraction:
    return Guard.resume(template, store=store).guarantee().total


def test_a_changed_reading_is_asked_about_with_its_price(sugar: Template) -> None:
    store = MemoryStore()
    read(sugar, store, 200, 0, None)
    with pytest.raises(ChangedValueError) as caught:
        read(sugar, store, 431, 1, None)
    assert caught.value.prices == {"glu": 0.2}
    assert "glu epsilon 0.2 (spent 0.2)" in str(caught.value)
    assert "431" not in str(caught.value)
    assert total(sugar, store) == Fraction("0.2")
    read(sugar, store, 200, 2, "ask")  # the same is free
    read(sugar, store, 431, 1, "draw")
    assert total(sugar, store) == Fraction("0.4")
    read(sugar, store, 200, 3, "ask")  # and so is an earlier one
    kept = read(sugar, store, 800, 4, "keep")
    assert kept == read(sugar, store, 200, 5, "ask")
    assert total(sugar, store) == Fraction("0.4")


def test_a_root_that_is_no_series_is_drawn_anew_as_before() -> None:
    plain = parse_template(TEXT.replace("series = true\nmoved = 300\n", ""), file="x")
    store = MemoryStore()
    read(plain, store, 200, 0, None)
    read(plain, store, 300, 0, None)
    assert total(plain, store) == Fraction("0.4")


def test_drift_pays_a_draw_and_its_test_and_then_nothing_while_it_stays(sugar: Template) -> None:
    store = MemoryStore()
    read(sugar, store, 200, 0, "drift")
    assert total(sugar, store) == Fraction("0.3")
    seen = [read(sugar, store, 200 + day % 3, day, "drift") for day in range(1, 31)]
    # A false alarm takes noise of about 200 steps at a scale of 40 and 20: seldom, not never.
    assert total(sugar, store) <= 3 * Fraction("0.3")
    before = total(sugar, store)
    assert read(sugar, store, 200 + 30 % 3, 30, "drift") == seen[-1]  # asked again: alike
    assert total(sugar, store) == before
    assert store.verify() == ()


def test_drift_follows_a_value_that_moved(sugar: Template) -> None:
    store = MemoryStore()
    read(sugar, store, 50, 0, "drift")
    # 900 away from 50 at a threshold of 300: the noise would have to be 15 times its scale.
    moved = read(sugar, store, 950, 1, "drift")
    assert abs(moved - 950) < 200
    assert total(sugar, store) == Fraction("0.6")
    guarantee = Guard.resume(sugar, store=store).guarantee()
    assert guarantee.draws_of("glu") == 2
    assert [root.root for root in guarantee.others] == []  # the tests count with their root


def test_drift_after_another_policy_begins_with_a_draw_of_its_own(sugar: Template) -> None:
    store = MemoryStore()
    read(sugar, store, 200, 0, "draw")
    read(sugar, store, 200, 1, "drift")
    assert total(sugar, store) == Fraction("0.5")
    read(sugar, store, 200, 2, "draw")  # the value of day 0 is known and free
    assert total(sugar, store) == Fraction("0.5")


def test_daily_draws_once_for_each_date(sugar: Template) -> None:
    store = MemoryStore()
    first = read(sugar, store, 200, 0, "daily")
    assert read(sugar, store, 700, 0, "daily") == first  # of the same day
    assert total(sugar, store) == Fraction("0.2")
    read(sugar, store, 200, 1, "daily")  # equal readings of two days are two draws
    assert total(sugar, store) == Fraction("0.4")
    assert read(sugar, store, 1, 0, "daily") == first  # the past is answered from the series
    assert total(sugar, store) == Fraction("0.4")


def test_a_cap_ends_a_series(sugar: Template) -> None:
    store = MemoryStore()
    for day in range(10):
        Guard.open(
            sugar,
            values={"glu": 200},
            budget=BUDGET,
            store=store,
            on_change="daily",
            when=START + timedelta(days=day),
        )
    with pytest.raises(BudgetError, match="over its cap"):
        Guard.open(
            sugar,
            values={"glu": 200},
            budget=BUDGET,
            store=store,
            on_change="daily",
            when=START + timedelta(days=10),
        )


def test_following_needs_a_date_and_a_line(sugar: Template) -> None:
    with pytest.raises(BudgetError, match="say of which date"):
        Guard.open(sugar, values={"glu": 1}, budget=1, on_change="drift")
    with pytest.raises(UnknownNameError, match="choice for on_change"):
        Guard.open(sugar, values={"glu": 1}, budget=1, on_change="guess")  # type: ignore[arg-type]
    flag = parse_template(
        'name = "f"\ntitle = "F"\n[roots.sick]\ntype = "boolean"\nseries = true\n'
        '[target]\nname = "t"\nformula = "sick"\n',
        file="f",
    )
    with pytest.raises(BudgetError, match="not a line"):
        Guard.open(flag, values={"sick": True}, budget=1, on_change="drift", when=START)


def test_the_noise_of_a_test_is_keyed_and_follows_its_law() -> None:
    key = bytes(32)
    assert KeyedWords(key, "a").words(20) == KeyedWords(key, "a").words(20)
    assert KeyedWords(key, "a").words(8) != KeyedWords(key, "b").words(8)
    drawn = np.array([_noise(Fraction("0.5"), KeyedWords(key, str(n))) for n in range(3000)])
    b = math.exp(-0.5)
    # P(0) = (1-b)/(1+b); 3000 draws, seven standard errors: false alarm below 1e-11.
    zero = (1 - b) / (1 + b)
    assert abs((drawn == 0).mean() - zero) < 7 * math.sqrt(zero * (1 - zero) / 3000)
    assert abs((drawn > 0).mean() - (drawn < 0).mean()) < 7 / math.sqrt(3000)


def geometric(epsilon: float, reach: int) -> dict[int, float]:
    b = math.exp(-epsilon)
    return {z: (1 - b) / (1 + b) * b ** abs(z) for z in range(-reach, reach + 1)}


def at_least(epsilon: float, limit: float) -> float:
    """P(Z >= limit) for two-sided geometric Z and a whole limit."""
    b = math.exp(-epsilon)
    if limit <= 0:
        return 1 - float(b ** (1 - limit)) / (1 + b)
    return float(b**limit) / (1 + b)


def history_law(
    history: Sequence[int], size: int, epsilon: float, test: DriftTest
) -> Iterator[tuple[tuple[tuple[int, int], ...], float]]:
    """Every possible outcome of a history under drift, with its probability, exactly.

    An outcome says at which readings a draw was made, and what it gave.
    """
    draw = mechanism("geometric", Fraction(str(epsilon)), size)
    points = np.arange(size)
    pmf = np.exp(draw.log_pmf(points[:, None], points[None, :]))
    one, two = float(test.threshold_epsilon), float(test.reading_epsilon) / 2
    thresholds = geometric(one, round(60 / one))

    def rest(at: int) -> Iterator[tuple[tuple[tuple[int, int], ...], float]]:
        for z in range(size):
            drawn = float(pmf[history[at], z])
            gaps = [abs(x - z) for x in history[at + 1 :]]
            # The segment ends at reading k after this one, or never.
            stays = dict(thresholds)
            for k, gap in enumerate(gaps):
                moves = {
                    rho: chance * at_least(two, test.steps + rho - gap)
                    for rho, chance in stays.items()
                }
                ended = sum(moves.values())
                for outcome, chance in rest(at + 1 + k):
                    yield ((at, z), *outcome), drawn * ended * chance
                stays = {rho: chance - moves[rho] for rho, chance in stays.items()}
            yield ((at, z),), drawn * sum(stays.values())

    yield from rest(0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((0, 0, 0), (1, 1, 1)),
        ((0, 2, 1), (1, 1, 2)),
        ((3, 0, 3), (2, 1, 2)),
        ((0, 3, 0), (2, 1, 2)),
    ],
)
def test_the_exact_advantage_over_a_history_keeps_the_printed_bound(
    one: tuple[int, ...], other: tuple[int, ...]
) -> None:
    """Two whole histories: no outcome is likelier under one than the composed epsilon allows."""
    size, epsilon = 4, 0.8
    domain = Domain(lower=0, upper=3, size=size)
    text = TEXT.replace("upper = 999", "upper = 3\ngrid = 4").replace("moved = 300", "moved = 1")
    root = parse_template(text, file="x").roots["glu"]  # type: ignore[index]
    test = DriftTest.of(root, domain, DriftTest.price(Fraction("0.8")))
    first = dict(history_law(one, size, epsilon, test))
    second = dict(history_law(other, size, epsilon, test))
    assert sum(first.values()) == pytest.approx(1, abs=1e-9)
    apart = max(abs(a - b) for a, b in zip(one, other, strict=True))
    advantage = sum(abs(first[o] - second[o]) for o in first) / 2
    segments = max(len(outcome) for outcome in first)
    worst = math.tanh(apart * segments * (epsilon + float(test.epsilon)) / 2)
    assert advantage <= worst
    for outcome, chance in first.items():
        # What was charged by then is what this outcome may tell.
        charged = len(outcome) * (epsilon + float(test.epsilon))
        assert abs(math.log(chance / second[outcome])) <= apart * charged + 1e-6


def test_a_test_without_noise_would_not_keep_the_bound() -> None:
    """A control: with nearly no noise in the test the outcomes give the history away."""
    text = TEXT.replace("upper = 999", "upper = 3\ngrid = 4").replace("moved = 300", "moved = 1")
    root = parse_template(text, file="x").roots["glu"]  # type: ignore[index]
    domain = Domain(lower=0, upper=3, size=4)
    told = DriftTest.of(root, domain, Fraction(40))
    first = dict(history_law((0, 0, 0), 4, 0.8, told))
    second = dict(history_law((1, 1, 1), 4, 0.8, told))
    charged = 0.8 + 0.4
    assert any(
        abs(math.log(max(chance, 1e-300) / max(second[o], 1e-300))) > len(o) * charged + 1e-6
        for o, chance in first.items()
    )


def test_a_session_draws_by_the_law_that_was_enumerated() -> None:
    """How often a moved reading is drawn anew, over 300 people: the law's share, to 1e-6."""
    text = TEXT.replace("upper = 999", "upper = 3\ngrid = 4").replace("moved = 300", "moved = 1")
    template = parse_template(text, file="x")
    law = dict(
        history_law(
            (0, 3),
            4,
            0.8,
            DriftTest.of(
                template.roots["glu"],  # type: ignore[index]
                Domain(lower=0, upper=3, size=4),
                DriftTest.price(Fraction("0.8")),
            ),
        )
    )
    expected = sum(chance for outcome, chance in law.items() if len(outcome) == 2)
    again = 0
    people = 300
    for _ in range(people):
        store = MemoryStore()
        for day, value in enumerate((0, 3)):
            Guard.open(
                template,
                values={"glu": value},
                budget="0.8",
                store=store,
                on_change="drift",
                when=START + timedelta(days=day),
            )
        again += store.ledger(OWNER).draws["glu"] == 2
    error = math.sqrt(expected * (1 - expected) / people)
    assert abs(again / people - expected) < 5 * error


def test_histories_are_all_there() -> None:
    """The enumeration has every outcome: draws at any set of readings that holds the first."""
    text = TEXT.replace("upper = 999", "upper = 1\ngrid = 2").replace("moved = 300", "moved = 1")
    root = parse_template(text, file="x").roots["glu"]  # type: ignore[index]
    test = DriftTest.of(root, Domain(lower=0, upper=1, size=2), Fraction(1))
    outcomes = {
        tuple(at for at, _ in outcome) for outcome, _ in history_law((0, 1, 0), 2, 1.0, test)
    }
    assert outcomes == {
        (0, *later) for n in range(3) for later in itertools.combinations((1, 2), n)
    }


def test_a_test_of_drift_looks_for_a_move_in_grid_steps_and_halves_what_is_paid() -> None:
    root = load_template("fib4").roots[RootName("ast")]
    unsaid, domain = replace(root, moved=None), replace(root.domain, size=51)
    test = DriftTest.of(unsaid, domain, Fraction(1))
    assert test == DriftTest(
        steps=5, threshold_epsilon=Fraction(1, 2), reading_epsilon=Fraction(1, 2)
    )
    assert test.epsilon == 1
    width = root.domain.width
    moved = [replace(root, moved=width * share) for share in (0.001, 0.03, 0.3, 1.0)]
    steps = [DriftTest.of(each, domain, Fraction(1)).steps for each in moved]
    assert steps == [1, 2, 15, 50]


def test_a_test_of_drift_costs_half_a_draw_and_four_micro_epsilon_at_least() -> None:
    prices = {800_000: 400_000, 10: 5, 8: 4, 6: 4, 1: 4}
    found = {micro: DriftTest.price(Fraction(micro, 10**6)) * 10**6 for micro in prices}
    assert found == prices


def test_the_threshold_has_its_own_noise_and_a_reading_twice_as_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[Fraction, list[int]]] = []

    def noise(epsilon: Fraction, source: KeyedWords) -> int:
        asked.append((epsilon, source.words(2)))
        return len(asked)

    monkeypatch.setattr("rootguard.session.series._noise", noise)
    key = b"k" * 32
    test = DriftTest(steps=1, threshold_epsilon=Fraction(1), reading_epsilon=Fraction(3))
    assert test.noises(key, "segment", "reading") == (1, 2)
    assert asked == [
        (Fraction(1), KeyedWords(key, "threshold\x00segment").words(2)),
        (Fraction(3, 2), KeyedWords(key, "reading\x00segment\x00reading").words(2)),
    ]
