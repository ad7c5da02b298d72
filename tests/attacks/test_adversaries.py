"""Stronger adversaries: independent noising falls to them, RootGuard stays at its first answer."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from rootguard.advice.crowds import (
    STRATEGIES,
    CrowdNoising,
    CrowdVault,
    Curve,
    Guarding,
    IndependentNoising,
    Strategy,
    attack,
    noising_oracle,
    session_oracle,
)
from rootguard.advice.people import PAPER_TEMPLATES, Cohort, synthetic_cohort
from rootguard.attacks.belief import Belief, PopulationPrior, believe
from rootguard.attacks.derived import (
    amplification,
    function_of,
    interrogate,
    local_amplification,
    pool,
    search,
    textbook,
    visits,
    zoom,
)
from rootguard.attacks.game import best_advantage, play
from rootguard.attacks.joint import formulas, joint, reconstruct
from rootguard.attacks.oracle import (
    Exchange,
    Query,
    QueryLog,
    Terms,
    direct,
    grid,
    snap,
)
from rootguard.errors import RedrawnError
from rootguard.evaluation.cohorts import read_cohort
from rootguard.expressions import evaluate, parse
from rootguard.graph import Graph
from rootguard.mechanisms import MECHANISMS, mechanism
from rootguard.mechanisms.base import Indices
from rootguard.session import Guard
from rootguard.template import load_template
from rootguard.values import Domain, MechanismName, RootName
from tests.support.cohort import FOLDER, needs_cohort

EPSILON = Fraction(1, 10)


@cache
def cohort(template: str, size: int = 25) -> Cohort:
    return synthetic_cohort(load_template(template), size=size)


# By default three: four roots, a product, a quotient.
SOME_TEMPLATES = [
    pytest.param(name, marks=() if name in ("fib4", "homa", "nlr") else pytest.mark.slow)
    for name in PAPER_TEMPLATES
]


@cache
def curve(
    strategy: Strategy, guarding: Guarding, template: str, *, queries: int = 8, size: int = 25
) -> Curve:
    loaded = load_template(template)
    return attack(strategy, guarding, loaded, cohort(template, size), queries=queries)


@pytest.mark.parametrize("template", SOME_TEMPLATES)
def test_zoom_finds_every_root_to_a_thousandth_within_eight_queries(template: str) -> None:
    found = curve("zoom", "independent", template)
    for root in found.estimates:
        medians = found.medians(root)
        assert medians[7] < 0.001
        # Geometric: on average at least a factor of four per query after the first.
        assert medians[7] < medians[0] / 4**7


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("template", SOME_TEMPLATES)
def test_against_rootguard_every_adversary_ends_where_one_answer_does(
    template: str, strategy: Strategy
) -> None:
    queries = 3 if strategy in ("joint", "posterior") else 8
    many = curve(strategy, "rootguard", template, queries=queries)
    once = curve(strategy, "rootguard", template, queries=1)
    for root in many.estimates:
        assert many.factors[root] == 1
        for row in many.estimates[root]:
            assert row.tobytes() == once.estimates[root][0].tobytes()  # to the last digit


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_against_calibrated_releases_too_many_queries_are_worth_one(strategy: Strategy) -> None:
    many = curve(strategy, "calibrated", "homa", queries=3)
    once = curve(strategy, "calibrated", "homa", queries=1)
    for root in many.estimates:
        assert many.factors[root] == 1
        for row in many.estimates[root]:
            assert row.tobytes() == once.estimates[root][0].tobytes()


def test_a_calibrated_answer_is_not_the_noised_one() -> None:
    noised, released = curve("repeat", "rootguard", "homa"), curve("repeat", "calibrated", "homa")
    for root in noised.estimates:
        assert (noised.estimates[root] != released.estimates[root]).any()


@pytest.mark.parametrize("template", ["fib4", "nlr"])
@pytest.mark.parametrize("name", list(MECHANISMS))
def test_the_equality_holds_for_every_mechanism(name: MechanismName, template: str) -> None:
    loaded = load_template(template)
    for strategy in ("zoom", "derived"):
        found = attack(
            strategy, "rootguard", loaded, cohort(template), mechanism=name, queries=5
        )  # fmt: skip
        for estimates in found.estimates.values():
            assert (estimates == estimates[0]).all()


@pytest.mark.parametrize("template", PAPER_TEMPLATES)
def test_the_first_answer_is_the_same_draw_with_and_without_rootguard(template: str) -> None:
    loaded = load_template(template)
    people = cohort(template)
    fresh = CrowdNoising(loaded, people, mechanism="exponential", epsilon=EPSILON, seed=3)
    vault = CrowdVault(loaded, people, mechanism="exponential", epsilon=EPSILON, seed=3)
    for root in fresh.terms.roots:
        question = direct(root, loaded.roots[root].domain)
        first = fresh.ask(question)
        assert (first == vault.ask(question)).all()
        assert (vault.ask(question) == first).all()
        assert not (fresh.ask(question) == first).all()


@pytest.mark.parametrize("template", SOME_TEMPLATES)
def test_derived_questions_beat_direct_ones_at_equal_queries(template: str) -> None:
    loaded = load_template(template)
    plain = curve("repeat", "independent", template, queries=4, size=60)
    steep = curve("derived", "independent", template, queries=4, size=60)
    for root in plain.estimates:
        described = loaded.roots[root]
        asked = search(described, count=3)
        assert max(amplification(described, question) for question in asked) > 2
        assert (steep.wmape(root)[1:] < plain.wmape(root)[1:]).all()
        assert steep.wmape(root)[0] == plain.wmape(root)[0]


def test_a_textbook_function_helps_where_it_is_steep_and_not_where_it_is_flat() -> None:
    """Theorem 2 as reconstruction error: the slope where the person is decides."""
    loaded = load_template("homa")
    root = loaded.roots[RootName("ins")]
    inverse = function_of(root, "1 / ins")
    assert inverse is not None
    assert amplification(root, inverse) == pytest.approx(321.64 / 0.71, rel=0.03)
    errors = {}
    for at in (2.0, 250.0):
        slope = float(local_amplification(root, inverse, np.array([at]))[0])
        assert slope == pytest.approx(321.64 * 0.71 / at**2, rel=0.01)
        people = 200
        crowd = _crowd(cohort("homa"), {"glu": 100.0, "ins": at}, people)
        for name, question in (("direct", direct(root.name, root.domain)), ("inverse", inverse)):
            oracle = CrowdNoising(loaded, crowd, mechanism="geometric", epsilon=EPSILON, seed=1)
            *_, last = interrogate(QueryLog(oracle), root.name, [question], 3)
            errors[at, name] = float(np.abs(last - at).mean())
    assert errors[2.0, "inverse"] < errors[2.0, "direct"] / 10
    assert errors[250.0, "inverse"] > errors[250.0, "direct"]


def _crowd(like: Cohort, values: dict[str, float], people: int) -> Cohort:
    return Cohort(
        template=like.template,
        columns={root: np.full(people, values[root]) for root in like.columns},
        synthetic=True,
        source="one person, many times",
        digest="",
        ids=tuple(str(i) for i in range(people)),
    )


def test_textbook_functions_that_are_not_defined_everywhere_are_left_out() -> None:
    root = load_template("anion_gap").roots
    for described in root.values():
        for question in textbook(described):
            assert question.domain.lower < question.domain.upper
    assert function_of(load_template("homa").roots[RootName("ins")], "1 / (ins - ins)") is None
    assert function_of(load_template("homa").roots[RootName("ins")], "0 * ins") is None


def test_joint_questions_tell_more_about_a_root_than_the_root_alone() -> None:
    for template, root in (("aip", "tg"), ("nlr", "lym")):
        plain = curve("repeat", "independent", template, queries=3, size=30)
        together = curve("joint", "independent", template, queries=3, size=30)
        name = RootName(root)
        assert together.wmape(name)[2] < 0.75 * plain.wmape(name)[2]


def test_pooling_services_and_days_helps_against_fresh_answers_only() -> None:
    loaded = load_template("nlr")
    root = RootName("neu")
    for guarding in (CrowdNoising, CrowdVault):
        oracle = guarding(
            loaded, cohort("nlr", 100), mechanism="geometric", epsilon=EPSILON, seed=0
        )
        services = [QueryLog(oracle) for _ in range(3)]
        for _day in range(2):
            for service, plan in zip(services, visits(oracle, root), strict=True):
                for question in plan:
                    service.ask(question)
        truth = np.asarray(cohort("nlr", 100).columns[root])
        alone = np.abs(believe(services[0], root).median - truth).mean()
        pooled = np.abs(believe(pool(services), root).median - truth).mean()
        if guarding is CrowdNoising:
            assert pool(services).factors(root) == 12
            assert pooled < 0.8 * alone
        else:
            assert pool(services).factors(root) == 1
            assert pooled == alone


def test_knowing_the_population_helps_the_adversary_once_and_no_further() -> None:
    loaded = load_template("homa")
    root = RootName("ins")
    oracle = CrowdVault(
        loaded, cohort("homa", 100), mechanism="exponential", epsilon=EPSILON, seed=0
    )
    told = QueryLog(oracle)
    for name in oracle.terms.roots:
        told.ask(direct(name, loaded.roots[name].domain))
    truth = np.asarray(cohort("homa", 100).columns[root])
    prior = PopulationPrior(loaded, oracle.terms.roots)
    blind = reconstruct(told, np.random.default_rng(1))
    informed = reconstruct(told, np.random.default_rng(1), prior=prior)
    error = {
        "mode": np.abs(believe(told, root).mode - truth).mean(),
        "median": np.abs(blind.median[root] - truth).mean(),
        "informed mean": np.abs(informed.mean[root] - truth).mean(),
        "informed median": np.abs(informed.median[root] - truth).mean(),
    }
    assert error["informed median"] < error["median"]
    assert error["informed mean"] < error["mode"]


def test_a_population_prior_moves_a_root_by_what_its_neighbours_say() -> None:
    loaded = load_template("conicity")
    roots = Graph.of(loaded).roots
    prior = PopulationPrior(loaded, roots)
    mesh = grid(loaded.roots[RootName("waist")].domain)[None, :]
    centre = loaded.centre()
    peaks = []
    for wt in (60.0, 130.0):  # the heavier, the wider
        others = {
            RootName("wt"): np.array([wt]),
            RootName("ht"): np.array([centre[RootName("ht")]]),
        }
        density = prior.log_density(RootName("waist"), mesh, others)
        peaks.append(float(mesh[0, density.argmax()]))
    assert peaks[0] < centre[RootName("waist")] < peaks[1]
    assert loaded.population is not None
    cov = np.array(loaded.population.covariance)
    slope = np.linalg.solve(cov[:2, :2], cov[:2, 2])[0]
    assert peaks[1] - peaks[0] == pytest.approx(70 * slope, abs=0.003)


def test_gibbs_agrees_with_exact_enumeration_on_two_roots() -> None:
    loaded = load_template("tyg")
    oracle = CrowdNoising(
        loaded, cohort("tyg", 3), mechanism="laplace", epsilon=Fraction(1, 20), seed=2
    )
    told = QueryLog(oracle)
    assert len(list(joint(told, 2, lambda: np.random.default_rng(1)))) == 2
    sampled = reconstruct(told, np.random.default_rng(1), sweeps=1000, burn_in=50)
    meshes = {root: grid(loaded.roots[root].domain) for root in oracle.terms.roots}
    tg, glu = (m.ravel() for m in np.meshgrid(*meshes.values(), indexing="ij"))
    for person in range(3):
        answers = [
            Exchange(question=e.question, received=e.received[person : person + 1])
            for e in told.exchanges
        ]
        single = QueryLog(_Silent(oracle.terms), answers)
        score = single.log_likelihood({"tg": tg[None, :], "glu": glu[None, :]})
        weights = np.exp(score - score.max()).reshape(1000, 1000)
        for axis, root in enumerate(oracle.terms.roots):
            margin = weights.sum(axis=1 - axis)
            mean = float(meshes[root] @ margin / margin.sum())
            spread = float(np.sqrt((meshes[root] - mean) ** 2 @ margin / margin.sum()))
            assert abs(float(sampled.mean[root][person]) - mean) < 0.25 * spread


class _Silent:
    """An oracle whose answers are in already."""

    def __init__(self, terms: Terms) -> None:
        self.terms, self.people = terms, 1

    def ask(self, question: Query) -> Indices:
        raise NotImplementedError


def test_a_real_session_gives_the_zoom_nothing_after_its_first_answer() -> None:
    loaded = load_template("fib4")
    person = {"age": 54.0, "ast": 23.0, "alt": 30.0, "plt": 220.0}
    session = Guard.open(loaded, values=person, budget=Fraction(4, 10))
    oracle = session_oracle(session, loaded)
    noising = noising_oracle(IndependentNoising(person, EPSILON), loaded, "geometric")
    for root in oracle.terms.roots:
        told = QueryLog(oracle)
        guarded = [float(estimate[0]) for estimate in zoom(told, root, 8)]
        assert len(set(guarded)) == 1
        assert told.factors(root) == 1
        assert len(told.exchanges) == 8
        *_, fresh = zoom(QueryLog(noising), root, 8)
        assert float(fresh[0]) == pytest.approx(person[root], rel=0.001)


def test_a_cache_that_draws_again_is_noticed_by_the_adversary() -> None:
    loaded = load_template("homa")
    oracle = CrowdNoising(loaded, cohort("homa"), mechanism="geometric", epsilon=EPSILON, seed=0)
    oracle.terms = Terms(
        template=loaded, mechanism="geometric", epsilon=EPSILON, cached=True
    )  # it says so, but draws each time
    told = QueryLog(oracle)
    question = direct(RootName("ins"), loaded.roots[RootName("ins")].domain)
    told.ask(question)
    with pytest.raises(RedrawnError, match="redrawn"):
        told.ask(question)


def test_a_cached_oracle_is_asked_for_roots_before_anything_else() -> None:
    loaded = load_template("homa")
    oracle = CrowdVault(loaded, cohort("homa"), mechanism="geometric", epsilon=EPSILON, seed=0)
    with pytest.raises(RedrawnError, match="first"):
        QueryLog(oracle).ask(formulas(loaded)[0])


def test_a_question_reaches_a_guard_with_its_numbers_written_out() -> None:
    question = Query(
        formula="clip((x - a_) / w_, 0, 1)",
        domain=Domain(lower=0, upper=1),
        parameters={"a_": np.array([1.5, -2.25]), "w_": np.array([0.1, 3.0])},
    )
    assert question.roots == {"x"}
    for person, x in ((0, 1.57), (1, -0.8)):
        text = question.text(person)
        assert "a_" not in text
        exact = question.expected({"x": np.array([[x], [x]])})[person, 0]
        assert question.domain.nearest(evaluate(parse(text), {"x": x})) == exact


def test_snapping_many_values_is_snapping_each() -> None:
    domain = Domain(lower=-3.0, upper=7.5, size=37)
    values = np.concatenate(
        [np.linspace(-5, 9, 5001), grid(domain), grid(domain) + domain.step / 2]
    )
    assert snap(domain, values).tolist() == [domain.nearest(float(v)) for v in values]
    assert snap(domain, np.array([np.nan])).tolist() == [0]
    assert grid(domain).tolist() == [domain.value(i) for i in range(domain.size)]


def test_a_belief_has_the_moments_of_its_density() -> None:
    mesh = np.sort(np.random.default_rng(0).uniform(-6, 6, (1, 20_000)), axis=1)
    belief = Belief.from_scores(mesh, -0.5 * (mesh - 1) ** 2)
    assert float(belief.mean[0]) == pytest.approx(1, abs=0.01)
    assert float(belief.median[0]) == pytest.approx(1, abs=0.01)
    assert float(belief.mode[0]) == pytest.approx(1, abs=0.01)
    assert float(belief.quantile(0.975)[0]) == pytest.approx(2.96, abs=0.02)


@pytest.mark.parametrize("name", list(MECHANISMS))
@pytest.mark.parametrize("template", ["fib4", "homa"])
def test_the_best_distinguisher_stays_below_the_bound_in_the_game(
    template: str, name: MechanismName
) -> None:
    """False-alarm rate per game 2.5 %, but the seed is fixed."""
    loaded = load_template(template)
    rng = np.random.default_rng(5)
    roots = Graph.of(loaded).roots
    noises = {str(root): mechanism(name, EPSILON, 1000) for root in roots}
    left = {str(root): 400 for root in roots}
    for steps in (1, 5, 20):
        right = {root: index + steps for root, index in left.items()}
        once = play(noises, left, right, trials=200_000, generator=rng)
        assert once.lower <= once.bound
        assert once.bound == pytest.approx(np.tanh(len(roots) * 0.1 * steps / 2))
        if steps == 5:  # independent noising, eight answers: the bound of one draw is passed
            often = play(noises, left, right, trials=20_000, generator=rng, draws=8)
            assert often.lower > once.upper
            if name != "exponential":
                assert often.lower > once.bound


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_the_played_advantage_is_the_total_variation_distance(name: MechanismName) -> None:
    noise = mechanism(name, EPSILON, 1000)
    for left, right in ((0, 12), (500, 503)):
        exact = best_advantage(noise, left, right)
        played = play(
            {"x": noise}, {"x": left}, {"x": right},
            trials=400_000, generator=np.random.default_rng(left),
        )  # fmt: skip
        assert played.advantage == pytest.approx(exact, abs=0.008)  # five standard errors
        assert exact <= played.bound
    if name == "geometric":  # at an end the bound is attained
        assert best_advantage(noise, 0, 999) == pytest.approx(1, abs=1e-6)


@pytest.mark.slow
@needs_cohort
@pytest.mark.parametrize("template", PAPER_TEMPLATES)
def test_on_real_patients_zoom_and_derived_do_what_they_do_on_synthetic_ones(
    template: str,
) -> None:
    loaded = load_template(template)
    real = read_cohort(FOLDER, loaded)
    zoomed = attack("zoom", "independent", loaded, real)
    plain = attack("repeat", "independent", loaded, real, queries=4)
    steep = attack("derived", "independent", loaded, real, queries=4)
    for root in zoomed.estimates:
        assert zoomed.medians(root)[7] < 0.001
        assert (steep.wmape(root)[1:] < plain.wmape(root)[1:]).all()
    for strategy in STRATEGIES:
        queries = 2 if strategy in ("joint", "posterior") else 8
        guarded = attack(strategy, "rootguard", loaded, real, queries=queries)
        for estimates in guarded.estimates.values():
            assert (estimates == estimates[0]).all()
