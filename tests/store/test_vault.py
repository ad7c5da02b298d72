"""What stands on a store: versions, caps, refinement, tiers, policies, and who was given what."""

import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rootguard import Guard, MemoryStore, Session, load_template
from rootguard.errors import AccessError, BudgetError, PolicyError, PrivateValueError
from rootguard.events import LevelDerived, ProfileErased, RootRefined, ValueReleased
from rootguard.expressions import evaluate
from rootguard.graph import Graph
from rootguard.mechanisms import mechanism, nesting
from rootguard.session import Policy, load_policy, parse_policy
from rootguard.store import Disclosure, Store
from rootguard.values import MICRO, Principal, RootName
from tests.support.cohort import needs_cohort, patients

FIB4 = load_template("fib4")
PERSON = {"age": 54, "ast": 23, "alt": 30, "plt": 220}
OWNER = Principal("owner")
POLICY = parse_policy(
    """
[tiers.clinic]
budget = "2.0"
[tiers.insurer]
budget = "0.6"
[tiers.public]
budget = 0.1
[services.liver]
tier = "clinic"
roots = "*"
formulas = "*"
[services.insurer]
tier = "insurer"
roots = ["age", "plt"]
formulas = ["ast/alt"]
[services.app]
tier = "public"
roots = ["age", "ast"]
formulas = "*"
[services.mute]
tier = "public"
""",
    file="policy.toml",
)


def hush(_: tuple[RootName, ...]) -> None:
    """For patients beyond the public bounds."""


def opened(store: Store, budget: str = "2.0", **options: object) -> Session:
    return Guard.open(FIB4, values=PERSON, budget=budget, store=store, **options)  # type: ignore[arg-type]


def served(store: Store, service: str, policy: Policy = POLICY) -> Session:
    return Guard.serve(FIB4, store=store, policy=policy, service=service)


def test_a_cap_per_root_refuses_before_anything_is_drawn() -> None:
    store = MemoryStore()
    store.set_cap(OWNER, "ast", 100)
    with pytest.raises(BudgetError, match=r"ast .* over its cap of 0\.0001; nothing was drawn"):
        opened(store)
    assert store.events(OWNER) == ()
    assert store.levels(OWNER, RootName("age")) == ()


def test_a_total_cap_counts_every_root_version_and_refinement() -> None:
    store = MemoryStore()
    store.set_cap(OWNER, "", 1_000_000)
    opened(store, "0.9")
    with pytest.raises(BudgetError, match="total"):
        Guard.open(FIB4, values={**PERSON, "ast": 60}, budget="0.9", store=store)
    with pytest.raises(BudgetError, match="total"):
        Guard.refine(FIB4, values=PERSON, budget="1.1", store=store)
    Guard.refine(FIB4, values=PERSON, budget="1.0", store=store)
    store.set_cap(OWNER, "", None)
    Guard.refine(FIB4, values=PERSON, budget="3", store=store)
    assert sum(opened(store).spent().values()) == 3
    assert store.verify() == ()


def test_erasing_a_profile_keeps_what_was_spent() -> None:
    store = MemoryStore()
    before = opened(store, identifiers={"mrn": "4415-8820"}).spent()
    store.erase(OWNER)
    assert store.levels(OWNER, RootName("ast")) == ()
    assert len(store.tokens(OWNER)) == 0
    assert isinstance(store.events(OWNER)[-1], ProfileErased)
    again = opened(store)
    assert {root: 2 * spent for root, spent in before.items()} == again.spent()
    assert store.levels(OWNER, RootName("ast"))[0].sanitized.version == 2
    assert store.verify() == ()


def test_refining_pays_only_the_difference_and_ends_at_the_new_budget() -> None:
    store = MemoryStore()
    opened(store, "0.5")
    refined = Guard.refine(FIB4, values=PERSON, budget="1.3", store=store)
    assert refined.guarantee().total == sum(refined.spent().values()) == Fraction(13, 10)
    for root in PERSON:
        first, second = store.levels(OWNER, RootName(root))
        assert second.sanitized.epsilon > first.sanitized.epsilon
        assert isinstance(second.event, RootRefined)
        gained = second.sanitized.epsilon - first.sanitized.epsilon
        assert second.event.micro_epsilon == gained * MICRO
    assert store.verify() == ()


def test_the_refined_value_is_the_one_that_later_sessions_see() -> None:
    store = MemoryStore()
    opened(store, "0.5")
    with pytest.raises(BudgetError, match="10 times what its first draw cost"):
        Guard.refine(FIB4, values=PERSON, budget="50", store=store)
    for root in PERSON:
        store.set_cap(OWNER, root, 50 * MICRO)
    refined = Guard.refine(FIB4, values=PERSON, budget="50", store=store)
    assert Guard.resume(FIB4, store=store).target() == refined.target()
    assert opened(store).target() == refined.target()
    again = Guard.refine(FIB4, values=PERSON, budget="50", store=store)
    assert again.target() == refined.target()
    assert again.spent() == refined.spent()


def test_refining_a_changed_or_unknown_value_is_refused() -> None:
    store = MemoryStore()
    with pytest.raises(PrivateValueError, match="age, ast, alt, plt"):
        Guard.refine(FIB4, values=PERSON, budget="1", store=store)
    opened(store, "0.5")
    with pytest.raises(PrivateValueError, match="with a value: ast"):
        Guard.refine(FIB4, values={**PERSON, "ast": 24}, budget="1", store=store)


def test_refining_to_less_than_is_held_is_refused_and_other_noise_cannot_be_refined() -> None:
    store = MemoryStore()
    opened(store, "0.5")
    with pytest.raises(BudgetError, match=r"hold epsilon 0\.5 already"):
        Guard.refine(FIB4, values=PERSON, budget="0.4", store=store)
    other = MemoryStore()
    opened(other, "0.5", mechanism="laplace")
    with pytest.raises(BudgetError, match="laplace"):
        Guard.refine(FIB4, values=PERSON, budget="0.9", store=other)


def test_a_refinement_after_another_plan_stays_within_its_budget() -> None:
    store = MemoryStore()
    opened(store, "0.8", allocation="uniform")
    for budget in ("0.9", "0.900001", "1.7"):
        refined = Guard.refine(FIB4, values=PERSON, budget=budget, store=store)
        assert refined.guarantee().total == Fraction(budget)
        assert store.verify() == ()


@needs_cohort
def test_three_refinements_are_as_accurate_as_opening_with_the_whole_budget() -> None:
    """Mean target error over the cohort: both within 4 standard errors (a false alarm in 16,000).

    The control, which stops at the first budget, is told apart.
    """
    epsilon, k = Fraction(1, 10), 4
    target = Graph.of(FIB4).in_roots(FIB4.target.formula)
    errors: dict[str, list[float]] = {"refined": [], "opened": [], "first": []}
    for person in patients("fib4") * 2:
        truth = evaluate(target, person)
        store = MemoryStore()
        steps = [(k + 1) * epsilon, (2 * k + 1) * epsilon, (3 * k + 1) * epsilon]
        session = Guard.open(FIB4, values=person, budget=steps[0], store=store, on_clamp=hush)
        errors["first"].append(abs(session.target() - truth))
        for step in steps[1:]:
            session = Guard.refine(FIB4, values=person, budget=step, store=store)
        errors["refined"].append(abs(session.target() - truth))
        whole = Guard.open(FIB4, values=person, budget=steps[-1], on_clamp=hush)
        errors["opened"].append(abs(whole.target() - truth))
        assert session.guarantee().total == whole.guarantee().total == steps[-1]

    def apart(a: str, b: str) -> float:
        difference = np.array(errors[a]) - np.array(errors[b])
        return float(abs(difference.mean()) / (difference.std() / math.sqrt(len(difference))))

    assert apart("refined", "opened") < 4
    assert apart("first", "opened") > 4


def test_each_service_gets_its_tier_and_the_same_value_for_ever() -> None:
    store = MemoryStore()
    opened(store)
    values = {name: served(store, name).release("age") for name in ("liver", "insurer", "app")}
    for name, value in values.items():
        session = served(store, name)
        assert session.release("age") == value
        (event,) = session.transcript()
        assert isinstance(event, ValueReleased)
        assert event.recipient == name
        assert event.tier == POLICY.services[name].tier
        assert event.rests_on == ("age",)
        told: Any = session.describe()
        assert event.levels == (round(told["roots"]["age"]["epsilon"] * MICRO),)
        # Whatever a service got, what is promised holds if all of them pool what they have.
        assert session.guarantee().total == store.ledger(OWNER).total
    told = [served(store, name).describe() for name in ("app", "insurer", "liver")]
    epsilons = [each["roots"]["age"]["epsilon"] for each in told]
    assert epsilons == sorted(epsilons)
    assert len(set(epsilons)) == 3


def test_tiers_cost_nothing_and_need_no_raw_value() -> None:
    store = MemoryStore()
    spent = opened(store).spent()
    for name in ("app", "insurer", "liver"):
        assert served(store, name).spent() == spent
    assert sum(isinstance(e, LevelDerived) for e in store.events(OWNER)) == 8
    assert store.verify() == ()


def test_a_tier_asked_for_later_fits_between_those_that_exist() -> None:
    store = MemoryStore()
    opened(store)
    order = ("app", "insurer")  # the poorest first, then one between it and the top
    for name in order:
        served(store, name)
    levels = store.levels(OWNER, RootName("age"))
    assert [record.position for record in levels] == [0, 1, 2]
    assert store.verify() == ()


def test_what_the_policy_does_not_allow_is_refused_in_the_same_words() -> None:
    store = MemoryStore()
    opened(store)
    insurer, app, mute = (served(store, name) for name in ("insurer", "app", "mute"))
    insurer.release("age")
    insurer.derive("ast / alt")  # listed as it is, though the roots are not
    app.derive("age * ast")
    words = set()
    for ask in (
        lambda: insurer.release("ast"),
        lambda: insurer.release("fib4"),
        lambda: insurer.derive("age + 1"),
        lambda: insurer.derive("ast / alt + 0"),
        lambda: app.release("plt"),
        lambda: app.derive("plt"),
        lambda: app.derive("age + 0 * plt"),
        lambda: app.target(),
        lambda: mute.release("age"),
        lambda: mute.derive("1"),
        lambda: served(store, "stranger"),
    ):
        with pytest.raises(AccessError) as caught:
            ask()
        words.add(str(caught.value).split("'")[0])
    assert words == {"the policy does not allow this to "}


def test_who_was_given_what_is_written_down_once() -> None:
    store = MemoryStore()
    opened(store)
    for _ in range(3):
        app = served(store, "app")
        app.release("age")
        app.derive("age * ast")
    given = [d for d in store.disclosures(OWNER) if d.service == "app"]
    assert given == [
        Disclosure(service="app", tier="public", root="age", version=1, position=1),
        Disclosure(service="app", tier="public", root="ast", version=1, position=1),
    ]


def adversary(levels: list[tuple[Fraction, int]], size: int) -> int:
    """MAP from nested levels: the finest is the only one that says anything about the truth.

    The joint law is G_high(x, z_n) times kernels that do not involve x; it is multiplied out all
    the same, as an adversary who trusts nobody would.
    """
    ordered = sorted(levels)
    points = np.arange(size)
    high, finest = ordered[-1]
    score = mechanism("geometric", high, size).log_pmf(points, finest)
    for (low, z_low), (up, z_up) in pairwise(ordered):
        score = score + nesting.log_kernel(z_up, z_low, high=up, low=low, size=size)
    best = np.flatnonzero(score >= score.max() - 1e-9)
    return int(best[(len(best) - 1) // 2])


CLOSE_TIERS = parse_policy(
    """
[tiers.a]
budget = "0.40"
[tiers.b]
budget = "0.39"
[tiers.c]
budget = "0.38"
[services.a]
tier = "a"
[services.b]
tier = "b"
[services.c]
tier = "c"
""",
    file="close.toml",
)


@needs_cohort
def test_colluding_services_reconstruct_no_better_than_the_most_trusted() -> None:
    """Over the cohort's ASTs, twice. Pooled tiers give the very estimate of the finest alone.

    The control noises each tier independently at the same levels; there pooling helps, by more
    than 4 standard errors.
    """
    domain = FIB4.roots[RootName("ast")].domain
    points = np.arange(domain.size)
    pooled, finest, control = [], [], []
    generator = np.random.default_rng(2026)
    for person in patients("fib4") * 2:
        truth = domain.nearest(person["ast"])
        store = MemoryStore()
        Guard.open(FIB4, values=person, budget="0.4", store=store, on_clamp=hush)
        for name in CLOSE_TIERS.services:
            served(store, name, CLOSE_TIERS)
        kept = [
            (record.sanitized.epsilon, record.sanitized.index)
            for record in store.levels(OWNER, RootName("ast"))
        ]
        assert len(kept) == 3
        pooled.append(abs(adversary(kept, domain.size) - truth))
        finest.append(abs(adversary([max(kept)], domain.size) - truth))
        score = np.zeros(domain.size)
        for epsilon, _ in kept:
            noise = mechanism("geometric", epsilon, domain.size)
            (seen,) = noise.draw_many(np.array([truth]), generator)
            score += noise.log_pmf(points, int(seen))
        control.append(abs(int(score.argmax()) - truth))
    assert pooled == finest
    gain = np.array(finest) - np.array(control)
    assert gain.mean() > 4 * gain.std() / math.sqrt(len(gain))


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ("[tiers", "", "not TOML"),
        ("", "tiers", "no tier"),
        ("x = 1\n[tiers.a]\nbudget = 1", "x", "unknown key"),
        ("tiers = 3", "tiers", "not a table"),
        ("[tiers]\na = 3", "tiers.a", "not a table"),
        ("[tiers.a]\nbudget = 1\nx = 2", "tiers.a", "nothing else"),
        ("[tiers.a]", "tiers.a", "nothing else"),
        ("[tiers.a]\nbudget = -1", "tiers.a.budget", "above zero"),
        ("[tiers.a]\nbudget = true", "tiers.a.budget", "not a number"),
        ("[tiers.a]\nbudget = 1\n[services.s]\ntier = 'b'", "services.s.tier", "no such tier"),
        ("[tiers.a]\nbudget = 1\n[services.s]", "services.s.tier", "no such tier"),
        ("[tiers.a]\nbudget = 1\n[services.s]\ntier = 'a'\nroot = 1", "services.s.root", "unknown"),
        ("[tiers.a]\nbudget = 1\n[services.s]\ntier = 'a'\nroots = 1", "services.s.roots", "list"),
        (
            "[tiers.a]\nbudget = 1\n[services.s]\ntier = 'a'\nformulas = ['1 +']",
            "services.s.formulas",
            "formula",
        ),
        ("sources = 3", "sources", "not a table"),
        ("[tiers.a]\nbudget = 1\n[sources]\ntool = []", "sources.tool", "unknown key"),
        ("[tiers.a]\nbudget = 1\n[sources]\ntools = 'labs'", "sources.tools", "not a list"),
        ("[tiers.a]\nbudget = 1\n[sources]\ntools = ['*']", "sources.tools", "not a list"),
        ("[tiers.a]\nbudget = 1\n[sources]\ntools = ['']", "sources.tools", "not a list"),
        ("[tiers.a]\nbudget = 1\n[sources]\ntools = [1]", "sources.tools", "not a list"),
    ],
)
def test_a_mistake_in_a_policy_names_file_key_and_remedy(
    text: str, key: str, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(text)
    with pytest.raises(PolicyError) as caught:
        load_policy(file)
    assert caught.value.file == str(file)
    assert caught.value.key == key
    assert words in str(caught.value)
    assert caught.value.remedy
    with pytest.raises(PolicyError, match="cannot be read"):
        load_policy(tmp_path / "nowhere.toml")
