"""Roots of every type, in their own form: in, out, and nowhere else."""

from collections.abc import Mapping
from datetime import date, datetime
from fractions import Fraction

import numpy as np
import pytest

from rootguard import Guard
from rootguard.allocation import make_plan, remarks
from rootguard.calibration import Calibration, Level
from rootguard.errors import (
    BudgetError,
    DomainError,
    FormulaError,
    PrivateValueError,
    RootGuardError,
)
from rootguard.expressions import parse
from rootguard.graph import Graph
from rootguard.session import load_policy, promise
from rootguard.session.person import Person
from rootguard.session.profile import parse_profile
from rootguard.store import MemoryStore
from rootguard.template import Template, load_template, parse_template
from rootguard.values import Form, Principal, RootName, days_of
from tests.support.typed_templates import typed_template

TEMPLATE = typed_template("""
[roots.wt]
lower = 30
upper = 200
unit = "kg"
aliases = ["weight"]

[derived.party]
formula = "born + 3652"
type = "date"

[derived.far]
formula = 'region == "far west" and not diabetes'
type = "boolean"

[target]
name = "score"
formula = \"\"\"
2 * female + 3 * diabetes + (3 if region == "far west" else 0) + pain + kids / 2 + wt / 10
+ ("2024-01-01" - born) / 365.25 + (1 if job == "shop" else 0)
\"\"\"
""")
VALUES: Mapping[str, Form] = {
    "female": True,
    "diabetes": "no",
    "region": "South",
    "pain": "much",
    "job": "shop",
    "kids": 3,
    "born": date(1980, 2, 29),
    "wt": 81.5,
}
CERTAIN = 400  # a budget at which no draw differs from the truth (e**-50)


@pytest.fixture(scope="module")
def visit() -> Template:
    return parse_template(TEMPLATE, file="visit.toml")


def test_each_root_is_released_in_its_own_form(visit: Template) -> None:
    session = Guard.open(visit, values=VALUES, budget=CERTAIN, allocation="uniform")
    released = {name: session.release(name) for name in session.names}
    assert released == {
        **VALUES,
        "diabetes": False,
        "region": "south",
        "party": date(1990, 2, 28),
        "far": False,
        "wt": pytest.approx(81.5, abs=0.2),
        "score": pytest.approx(session.target()),
    }
    assert {name: type(value) for name, value in released.items()} == {
        "female": bool,
        "diabetes": bool,
        "region": str,
        "pain": str,
        "job": str,
        "kids": int,
        "born": date,
        "wt": float,
        "party": date,
        "far": bool,
        "score": float,
    }
    assert session.written("diabetes") == "no"
    assert session.written("born") == "1980-02-29"
    assert session.number("female") == 1.0
    assert session.number("born") == days_of(date(1980, 2, 29))


def test_formulas_see_zero_and_one_days_and_compare_words(visit: Template) -> None:
    session = Guard.open(visit, values=VALUES, budget=CERTAIN, allocation="uniform")
    assert session.derive('region == "South"') == 1
    assert session.derive('region != "north" and diabetes < 0.5') == 1
    assert session.derive('pain >= "some"') == 1
    assert session.derive('("1980-03-01" - born) * 2 + female') == 3
    assert session.derive('born < "1990-01-01"') == 1
    with pytest.raises(FormulaError, match="no such answer; use one of north, south, far west"):
        session.derive('region == "east"')
    with pytest.raises(FormulaError, match="quotes"):
        session.derive('wt == "heavy"')


@pytest.mark.parametrize(
    ("root", "forms"),
    [
        ("diabetes", [True, 1, 1.0, "yes", "YES", " y ", "true", "1", np.bool_(True)]),
        ("diabetes", [False, 0, "no", "No", "f", "0", np.bool_(False)]),
        ("region", ["far west", "FAR WEST", " Far West "]),
        ("born", [date(1999, 1, 2), datetime(1999, 1, 2, 12), "1999-01-02", " 1999-01-02"]),
        ("kids", [4, 4.0, np.int64(4)]),
    ],
)
def test_forms_of_one_value_are_one_value(visit: Template, root: str, forms: list[Form]) -> None:
    store = MemoryStore()
    for form in forms:
        values = {**VALUES, root: form}
        Guard.open(visit, values=values, budget=4, store=store)
    assert store.ledger(Principal("owner")).draws[root] == 1


BAD: list[tuple[str, object, str]] = [
    ("diabetes", "maybe-4417", "yes or no is needed for: diabetes"),
    ("diabetes", 4417, "yes or no is needed for: diabetes"),
    ("diabetes", None, "yes or no is needed for: diabetes"),
    ("region", "east-4417", "one of north, south, far west is needed for: region"),
    ("region", 4417, "one of north, south, far west is needed for: region"),
    ("born", "4417-01-02", "a date within its bounds"),
    ("born", date(4417, 1, 1), "a date within its bounds"),
    ("born", "in 4417", "a date within its bounds"),
    ("born", 4417, "a date within its bounds"),
    ("kids", 44.17, "a whole number is needed for: kids"),
    ("kids", True, "a whole number is needed for: kids"),
    ("wt", "4417", "a finite number is needed for: wt"),
]


@pytest.mark.parametrize(("root", "bad", "said"), BAD)
def test_a_value_of_another_type_is_refused_by_name(
    visit: Template, root: str, bad: object, said: str
) -> None:
    store = MemoryStore()
    with pytest.raises(PrivateValueError) as caught:
        Guard.open(visit, values={**VALUES, root: bad}, budget=4, store=store)  # type: ignore[dict-item]
    assert said in str(caught.value)
    assert root in str(caught.value)
    assert "4417" not in str(caught.value)
    assert "44.17" not in str(caught.value)
    assert not store.ledger(Principal("owner")).draws  # nothing was drawn


def test_a_changed_answer_is_a_new_version_and_a_returned_one_is_free(visit: Template) -> None:
    store = MemoryStore()
    price = 0
    for answer in ("north", "south", "north"):
        Guard.open(visit, values={**VALUES, "region": answer}, budget=4, store=store)
        ledger = store.ledger(Principal("owner"))
        price = price or ledger.micro["region"]
    assert store.ledger(Principal("owner")).micro["region"] == 2 * price
    assert store.ledger(Principal("owner")).draws["region"] == 2
    assert store.verify() == ()


def test_levels_of_answers_are_refined_for_the_difference(visit: Template) -> None:
    plain = parse_template(
        TEMPLATE.replace("distance = [[0, 1, 2], [1, 0, 1], [2, 1, 0]]", ""), file="visit.toml"
    )
    store = MemoryStore()
    Guard.open(plain, values=VALUES, budget=2, store=store, allocation="uniform")
    session = Guard.refine(plain, values=VALUES, budget=6, store=store, allocation="uniform")
    assert session.guarantee().total == 6
    assert store.ledger(Principal("owner")).draws["region"] == 1
    assert store.verify() == ()
    # A table of distances has one level.
    other = MemoryStore()
    Guard.open(visit, values=VALUES, budget=2, store=other, allocation="uniform")
    with pytest.raises(BudgetError, match="job was noised with the distances mechanism"):
        Guard.refine(visit, values=VALUES, budget=6, store=other, allocation="uniform")


def test_a_public_root_costs_nothing_and_is_marked(visit: Template) -> None:
    store = MemoryStore()
    session = Guard.open(visit, values=VALUES, budget=1, store=store)
    assert session.release("female") is True
    promised = {root.root: root for root in session.guarantee().roots}
    assert promised["female"].public
    assert "(female): public, released as it was given" in str(session.guarantee())
    assert session.guarantee().to_dict()["roots"]["female"]["public"] is True  # type: ignore[index]
    assert session.guarantee().total == 1
    assert session.guarantee().advantage({"female": 1}) == 1
    assert session.describe()["roots"]["female"]["public"] is True  # type: ignore[index]
    changed = Guard.open(visit, values={**VALUES, "female": "no"}, budget=1, store=store)
    assert changed.release("female") is False
    assert changed.guarantee().total == 1
    assert Guard.resume(visit, store=store).release("female") is False
    assert store.verify() == ()


def test_what_was_public_is_not_taken_for_what_is_to_be_hidden() -> None:
    """And the other way round: each is kept for itself."""
    text = """
name = "t"
title = "T"
[roots.smoker]
type = "boolean"
[roots.age]
lower = 0
upper = 100
[target]
name = "s"
formula = "smoker + age"
"""
    hidden = parse_template(text, file="t")
    public = hidden.with_public("smoker")
    assert public.digest != hidden.digest
    store = MemoryStore()
    Guard.open(public, values={"smoker": True, "age": 50}, budget=1, store=store)
    with pytest.raises(PrivateValueError, match="never noised"):
        Guard.resume(hidden, store=store).release("smoker")
    for change in ("draw", "keep"):
        session = Guard.open(
            hidden,
            values={"smoker": True, "age": 50},
            budget=1,
            store=store,
            on_change=change,
        )
        (smoker,) = (r for r in session.guarantee().roots if r.root == "smoker")
        assert not smoker.public
        assert smoker.mechanism == "randomised-response"
    assert store.ledger(Principal("owner")).micro["smoker"] > 0
    again = Guard.open(public, values={"smoker": True, "age": 50}, budget=1, store=store)
    assert again.release("smoker") is True


def test_a_store_keeps_what_the_answers_are(visit: Template) -> None:
    store = MemoryStore()
    Guard.open(visit, values=VALUES, budget=2, store=store)
    other = parse_template(TEMPLATE.replace('"north", "south"', '"south", "north"'), file="x")
    with pytest.raises(DomainError, match="this store keeps region as 0 to 2 one of north, south"):
        Guard.open(other, values=VALUES, budget=2, store=store, principal="somebody else")


def test_a_tier_gets_answers_at_its_level_and_public_ones_as_they_are(tmp_path: object) -> None:
    from pathlib import Path

    text = """
name = "t"
title = "T"
[roots.smoker]
type = "boolean"
[roots.region]
type = "category"
values = ["a", "b", "c"]
[roots.sex]
type = "boolean"
public = true
[roots.age]
lower = 0
upper = 100
[target]
name = "s"
formula = '30 * smoker + age + (20 if region == "b" else 0) + sex'
"""
    template = parse_template(text, file="t")
    policy_file = Path(str(tmp_path)) / "policy.toml"
    policy_file.write_text(
        '[tiers.low]\nbudget = "0.3"\n[tiers.high]\nbudget = "3"\n'
        '[services.s]\ntier = "low"\nroots = "*"\nformulas = "*"\n'
    )
    policy = load_policy(policy_file)
    store = MemoryStore()
    values: dict[str, Form] = {"smoker": "yes", "region": "b", "sex": "yes", "age": 40}
    Guard.open(template, values=values, budget=3, store=store)
    session = Guard.serve(template, store=store, policy=policy, service="s")
    assert session.release("sex") is True
    assert session.release("region") in ("a", "b", "c")
    assert isinstance(session.release("smoker"), bool)
    assert sum(store.held(Principal("owner"), "s").values()) <= 300_000
    assert store.verify() == ()


def test_a_plan_weighs_answers_by_their_differences(visit: Template) -> None:
    plan = make_plan(visit, Fraction(6))
    assert plan["female"].public
    assert plan["female"].epsilon == 0
    assert sum(share.epsilon for share in plan.shares) == 6
    assert plan["diabetes"].sensitivity == pytest.approx(3)
    assert plan["region"].sensitivity == pytest.approx(2)  # 3 in two pairs of three
    assert plan["diabetes"].expected_error == pytest.approx(
        1 / (1 + np.exp(float(plan["diabetes"].epsilon)))
    )
    promised = str(promise(visit, plan))
    assert "between any two answers" in promised
    assert "of two answers that differ" in promised


def test_flat_at_one_point_is_not_flat() -> None:
    text = """
name = "t"
title = "T"
[roots.region]
lower = 0
upper = 4
grid = 5
[roots.age]
lower = 0
upper = 100
[target]
name = "s"
formula = "(3 if region == 3 else 0) + (1 if age > 65 else 0)"
"""
    plan = make_plan(parse_template(text, file="t"), Fraction(1))
    assert plan["region"].sensitivity > 0
    assert plan["age"].sensitivity > 0
    assert min(share.epsilon for share in plan.shares) > Fraction(1, 100)


def test_a_profile_gives_values_in_their_own_form(visit: Template, tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    (folder / "visit.toml").write_text(TEMPLATE)
    text = """
templates = ["./visit.toml"]
budget = "2"
public = ["job"]
[values]
female = true
diabetes = "no"
region = "north"
born = 1999-12-31
kids = 2
job = "farm"
"""
    profile = parse_profile(text, file=str(folder / "me.toml"))
    person = Person.open(profile, store=MemoryStore())
    assert person.release("female") is True
    assert person.release("job") == "farm"  # public by the profile
    assert person.describe()["roots"]["job"]["values"] == ["office", "shop", "farm"]  # type: ignore[index]
    person.sight("pain", "some")
    assert person.release("pain") in ("none", "some", "much")
    with pytest.raises(PrivateValueError, match="a finite number is needed for: wt"):
        person.sight("wt", "heavy")
    for line, said in {
        'diabetes = "perhaps"': "values.diabetes",
        'region = "east"': "values.region",
        "born = 1800-01-01": "values.born",
    }.items():
        name = line.split()[0]
        lines = [each for each in text.splitlines() if not each.startswith(name)]
        with pytest.raises(RootGuardError) as caught:
            parse_profile("\n".join([*lines, line]), file=str(folder / "me.toml"))
        assert said in str(caught.value)
        assert line.split()[-1].strip('"') not in str(caught.value)


def test_questions_in_words_are_answered_in_the_own_form() -> None:
    text = """
name = "t"
title = "T"
[roots.smoker]
type = "boolean"
[roots.due]
type = "date"
lower = 2020-01-01
upper = 2030-12-31
[target]
name = "s"
formula = "smoker + due"
"""
    template = parse_template(text, file="t")
    values: dict[str, Form] = {"smoker": True, "due": "2024-05-31"}
    session = Guard.open(template, values=values, budget=200, allocation="uniform")
    assert "smoker is yes" in session.answer("What is smoker?").lower()
    assert "due is 2024-05-31" in session.answer("What is due?").lower()


def test_the_graph_and_the_digest_know_types(visit: Template) -> None:
    assert "region == 2" in parse_text(visit)
    same = parse_template(TEMPLATE, file="y")
    assert same.digest == visit.digest
    assert parse_template(TEMPLATE.replace("public = true", ""), file="y").digest != visit.digest
    assert Graph.of(visit).roots[0] == "female"
    assert parse("region == 2") is not None


def parse_text(template: Template) -> str:
    from rootguard.expressions import to_text

    return to_text(template.target.formula)


def test_a_near_chance_answer_is_said_to_be_one() -> None:
    nafld = load_template("nafld")
    (said,) = remarks(make_plan(nafld, Fraction("0.9")))
    assert said.startswith("diabetes would be a coin toss at this budget (right in 50% of cases)")
    assert "make it public, drop it, or spend 1.1 more" in said
    assert remarks(make_plan(nafld.with_public("diabetes"), Fraction("0.9"))) == ()
    assert remarks(make_plan(nafld, Fraction("0.9"), allocation="uniform")) != ()
    assert remarks(make_plan(load_template("fib4"), Fraction("0.1"))) == ()


def test_many_answers_are_not_left_at_the_least_epsilon() -> None:
    """Their error is bent the other way at first: more than two answers are told, or not at all."""
    text = """
name = "t"
title = "T"
[roots.region]
type = "category"
values = ["a", "b", "c", "d", "e", "f", "g", "h"]
[roots.age]
lower = 0
upper = 100
[target]
name = "s"
formula = '(50 if region == "a" or region == "c" else 0) + age / 10'
"""
    plan = make_plan(parse_template(text, file="t"), Fraction(4))
    assert plan["region"].epsilon > 2


def spellings(rng: np.random.Generator, root: str) -> tuple[Form, int]:
    """One of many ways to give an answer, and the place of the answer."""

    def in_any_way(word: str) -> str:
        letters = [c.upper() if rng.random() < 0.5 else c for c in word]
        return " " * int(rng.integers(0, 3)) + "".join(letters) + " " * int(rng.integers(0, 3))

    if root == "smoker":
        place = int(rng.integers(0, 2))
        forms: list[Form] = [bool(place), place, float(place)]
        words = [("no", "n", "false", "f", "0", "off"), ("yes", "y", "true", "t", "1", "on")][place]
        forms += [in_any_way(word) for word in words]
        return forms[int(rng.integers(0, len(forms)))], place
    if root == "region":
        place = int(rng.integers(0, 3))
        return in_any_way(("north", "south", "far west")[place]), place
    place = int(rng.integers(0, 3))
    day = date(2024, 5, 30 + place) if place < 2 else date(2024, 6, 1)
    return (day, f" {day.isoformat()}", datetime(day.year, day.month, day.day, 7))[
        int(rng.integers(0, 3))
    ], place


def test_however_it_is_spelt_a_value_leaves_by_the_mechanism_alone() -> None:
    """1,050 spellings of 350 fresh people: what leaves has the law of the mechanism.

    Chi-square over right and wrong answers of each root, at a false-alarm rate of 1e-6 each.
    """
    text = """
name = "t"
title = "T"
[roots.smoker]
type = "boolean"
[roots.region]
type = "category"
values = ["north", "south", "far west"]
[roots.due]
type = "date"
lower = 2024-05-30
upper = 2024-06-01
[target]
name = "s"
formula = "smoker + region + due"
"""
    template = parse_template(text, file="t")
    plan = make_plan(template, Fraction(3), allocation="uniform")
    rng = np.random.default_rng(5)
    moved: dict[str, list[int]] = {root: [] for root in template.roots}
    expected: dict[str, list[float]] = {root: [] for root in template.roots}
    for _ in range(350):
        given = {str(root): spellings(rng, root) for root in template.roots}
        session = Guard.open(
            template,
            values={root: form for root, (form, _) in given.items()},
            budget=3,
            allocation="uniform",
        )
        for root, (_, place) in given.items():
            domain = template.roots[root].domain  # type: ignore[index]
            stayed = domain.nearest(session.number(root)) == place
            moved[root].append(int(not stayed))
            law = np.exp(plan.noise(root).log_pmf(place, place))
            expected[root].append(1 - float(law))
    for root in template.roots:
        share, variance = sum(expected[root]), sum(p * (1 - p) for p in expected[root])
        assert abs(sum(moved[root]) - share) < 5 * np.sqrt(variance), root


def test_a_calibrated_yes_or_no_follows_its_published_share() -> None:
    """At a budget that tells nothing, the commoner answer is released; at a large one, the own."""
    text = """
name = "t"
title = "T"
[roots.rare]
type = "boolean"
shares = 0.02
[roots.age]
lower = 0
upper = 100
mean = 50
sd = 10
[target]
name = "s"
formula = "10 * rare + age"
"""
    template = parse_template(text, file="t")
    for budget, released in (("0.02", False), ("60", True)):
        session = Guard.open(
            template,
            values={"rare": True, "age": 50},
            budget=budget,
            allocation="uniform",
            calibrate=True,
        )
        assert session.calibrated
        assert session.release("rare") is released


SHARES = """
name = "t"
title = "T"
[roots.region]
type = "category"
values = ["north", "south", "west", "far west"]
shares = [0.05, 0.05, 0.7, 0.2]
[roots.age]
lower = 0
upper = 100
mean = 50
sd = 10
[target]
name = "s"
formula = '(40 if region == "north" else 0) + age'
[[risk]]
label = "low"
below = 80
[[risk]]
label = "high"
worrying = true
"""


def test_a_calibrated_category_is_the_likeliest_answer_under_its_shares() -> None:
    """The posterior's mode, by enumeration: share times e^epsilon for what was drawn."""
    template = parse_template(SHARES, file="t")
    for epsilon in ("0.1", "1", "2", "6"):
        plan = make_plan(template, Fraction(epsilon) * 2, allocation="uniform")
        calibration = Calibration(template, Level.of_plan(plan))
        drawn = np.arange(4)
        noised = {RootName("region"): drawn, RootName("age"): np.full(4, 500)}
        released = calibration.release_many(noised)[RootName("region")]
        assert set(released) <= {0.0, 1.0, 2.0, 3.0}  # an answer, never between two
        mass = 0.98 * np.array([0.05, 0.05, 0.7, 0.2]) + 0.02 / 4
        likely = np.exp(plan.noise("region").log_pmf(drawn[None, :], drawn[:, None]))
        assert released.tolist() == np.argmax(mass * likely, axis=1).tolist()


def test_a_calibrated_category_is_wrong_less_often_and_its_classes_are_counted() -> None:
    template = parse_template(SHARES, file="t")
    plan = make_plan(template, Fraction(3), allocation="uniform")
    calibration = Calibration(template, Level.of_plan(plan))
    rng = np.random.default_rng(4)
    truth = rng.choice(4, 20_000, p=[0.05, 0.05, 0.7, 0.2])
    ages = np.clip(np.rint(rng.normal(500, 100, truth.size)), 0, 999).astype(np.int64)
    noised = {
        RootName("region"): plan.noise("region").draw_many(truth, rng),
        RootName("age"): plan.noise("age").draw_many(ages, rng),
    }
    released = calibration.release_many(noised)[RootName("region")]
    # Of 20,000 people a rate is off by 0.0035 (one deviation); the gain is some 0.2.
    assert (released != truth).mean() < (noised[RootName("region")] != truth).mean() - 0.05
    session = Guard.open(template, values={"region": "west", "age": 50}, budget=3, calibrate=True)
    assert session.calibrated
    assert session.release("region") in ("north", "south", "west", "far west")


def test_a_template_with_a_public_root_is_calibrated_beside_it(visit: Template) -> None:
    session = Guard.open(visit, values=VALUES, budget=4, calibrate=True)
    assert session.calibrated
    assert session.release("female") is VALUES["female"]
    assert session.release("region") in ("north", "south", "far west")
