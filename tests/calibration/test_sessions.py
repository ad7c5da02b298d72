"""Sessions whose answers are calibrated: consistent, repeatable, and within the policy."""

from fractions import Fraction

import pytest

from rootguard import Guard, MemoryStore, Session, load_template
from rootguard.calibration import Calibration, Level, make_plan
from rootguard.events import ValueReleased
from rootguard.session import parse_policy, parse_profile
from rootguard.session.person import Person

FIB4 = load_template("fib4")
VALUES = {"age": 66.0, "ast": 12.0, "alt": 10.0, "plt": 170.0}


def opened(store: MemoryStore, *, calibrate: bool) -> Session:
    return Guard.open(FIB4, values=VALUES, budget="0.09", store=store, calibrate=calibrate)


def test_a_calibrated_session_releases_what_calibration_says() -> None:
    store = MemoryStore()
    plain = opened(store, calibrate=False)
    session = Guard.resume(FIB4, store=store, calibrate=True)
    levels = {root: Level.of(value) for root, value in plain._parts[0].sanitized.items()}
    expected = Calibration(FIB4, levels).release(plain._parts[0].sanitized)
    assert {root: session.release(root) for root in session.graph.roots} == expected
    assert any(session.release(root) != plain.release(root) for root in session.graph.roots)


def test_it_says_the_same_for_ever_and_costs_nothing() -> None:
    store = MemoryStore()
    first = opened(store, calibrate=True)
    again = Guard.resume(FIB4, store=store, calibrate=True)
    assert first.target() == again.target() == first.target()
    assert first.spent() == again.spent()
    assert sum(first.spent().values()) == Fraction("0.09")


def test_derived_values_follow_from_the_released_roots() -> None:
    session = opened(MemoryStore(), calibrate=True)
    age, ast, alt, plt = (session.number(name) for name in ("age", "ast", "alt", "plt"))
    assert session.target() == pytest.approx(age * ast / (plt * alt**0.5), rel=1e-12)
    assert session.derive("ast / alt") == ast / alt


def test_a_calibrated_root_tells_of_every_root_and_the_transcript_says_so() -> None:
    store = MemoryStore()
    session = opened(store, calibrate=True)
    session.release("age")
    (event,) = session.transcript()
    assert isinstance(event, ValueReleased)
    assert event.rests_on == session.graph.roots
    plain = opened(store, calibrate=False)
    plain.release("age")
    (event,) = plain.transcript()
    assert isinstance(event, ValueReleased)
    assert event.rests_on == ("age",)


def test_a_service_that_may_not_have_every_root_gets_them_as_they_were_noised() -> None:
    store = MemoryStore()
    opened(store, calibrate=False)
    policy = parse_policy(
        """
        [tiers.clinic]
        budget = "0.09"
        [services.some]
        tier = "clinic"
        roots = ["age"]
        [services.every]
        tier = "clinic"
        roots = "*"
        formulas = "*"
        """,
        file="policy.toml",
    )
    some = Guard.serve(FIB4, store=store, policy=policy, service="some", calibrate=True)
    every = Guard.serve(FIB4, store=store, policy=policy, service="every", calibrate=True)
    assert not some.calibrated
    assert every.calibrated
    assert some.describe()["calibrated"] is False
    step = FIB4.roots[some.graph.roots[0]].domain.step
    assert some.number("age") % step == pytest.approx(18 % step, abs=1e-6)


def test_a_template_without_population_figures_is_answered_as_it_was_noised() -> None:
    bare = load_template("bmi")
    figures = [root for root in bare.roots.values() if root.mean is not None]
    store = MemoryStore()
    values = {str(n): r.domain.lower + r.domain.width / 3 for n, r in bare.roots.items()}
    plain = Guard.open(bare, values=values, budget="0.2", store=store)
    calibrated = Guard.resume(bare, store=store, calibrate=True)
    same = all(plain.release(r) == calibrated.release(r) for r in plain.graph.roots)
    assert same == (not figures)


def test_a_person_is_calibrated_where_the_profile_has_every_root() -> None:
    text = """
    templates = ["fib4", "homa"]
    budget = "0.09"
    calibrate = true
    [values]
    age = 66
    ast = 12
    alt = 10
    plt = 170
    glu = 107
    """
    store = MemoryStore()
    person = Person.open(parse_profile(text, file="me.toml"), store=store)
    person.sight("ins", 9.0)
    plain = Guard.resume(FIB4, store=store)
    homa = Guard.resume(load_template("homa"), store=store)
    assert person.target("fib4") != plain.target()
    assert person.target("homa") == homa.target()


def test_a_population_plan_can_open_a_session() -> None:
    store = MemoryStore()
    session = Guard.open(
        load_template("nlr"),
        values={"neu": 4.5, "lym": 2.6},
        budget="0.1",
        allocation="population",
        calibrate=True,
        store=store,
    )
    assert session.calibrated
    plan = make_plan(load_template("nlr"), Fraction("0.1"), allocation="population")
    assert session.spent() == {share.root: share.epsilon for share in plan.shares}
