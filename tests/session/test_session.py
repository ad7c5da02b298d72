"""A session answers everything from values that were noised once."""

import gc
import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from types import FunctionType

import pytest

from rootguard import Guard, MemoryStore, Session, load_template
from rootguard.allocation import make_plan
from rootguard.errors import (
    BudgetError,
    ClampedWarning,
    FormulaLimitError,
    FormulaNameError,
    FormulaSyntaxError,
    FormulaUndefinedError,
    IdentifierError,
    NameTakenError,
    NoiseError,
    PlanError,
    PrivateValueError,
    RootGuardError,
    StoreError,
    UnknownNameError,
)
from rootguard.events import PlacesRefused, RequestRefused, ValueReleased
from rootguard.expressions import MAX_LENGTH
from rootguard.graph import Graph
from rootguard.sanitizer import sanitize, seal, select
from rootguard.session.policy import parse_policy
from rootguard.session.session import parsed
from rootguard.store import Record
from rootguard.template import parse_template
from rootguard.values import Principal, Raw, RootName

FIB4 = load_template("fib4")
PERSON = {"age": 54, "ast": 23, "alt": 30, "plt": 220}


def opened(**options: object) -> Session:
    return Guard.open(FIB4, values=PERSON, budget="0.9", **options)  # type: ignore[arg-type]


def test_the_ten_lines_of_the_readme_work() -> None:
    session = opened()
    released = session.release("ast")
    assert released == session.release("ast")
    formula = session.derive("age * ast / (plt * sqrt(alt))")
    assert formula == session.target()
    assert session.risk() in {"low", "indeterminate", "high"}
    assert "per grid step" in str(session.guarantee())


def test_repeats_are_identical_to_the_last_bit_however_they_are_asked() -> None:
    session = opened()
    ast = session.number("ast")
    for _ in range(50):
        assert session.number("ast").hex() == ast.hex()
        assert session.derive("ast").hex() == ast.hex()
        assert session.derive("(ast)").hex() == ast.hex()


def test_the_target_is_the_formula_of_the_released_roots() -> None:
    session = opened()
    age, ast, alt, plt = (session.number(root) for root in ("age", "ast", "alt", "plt"))
    assert session.target() == pytest.approx(age * ast / (plt * alt**0.5), rel=1e-15)


def test_released_values_lie_on_the_grid_within_the_bounds() -> None:
    session = opened()
    for root, declared in FIB4.roots.items():
        value = session.number(root)
        assert declared.domain.lower <= value <= declared.domain.upper
        assert declared.domain.value(declared.domain.nearest(value)) == value


def test_asking_more_costs_nothing() -> None:
    session = opened()
    before = session.spent()
    for number in range(200):
        session.derive(f"ast + {number}")
    assert session.spent() == before
    assert sum(before.values()) == Fraction(9, 10)


def test_a_named_value_may_be_the_parent_of_later_formulas() -> None:
    session = opened()
    ratio = session.derive("ast / alt", name="deritis")
    assert session.derive("deritis * 2") == ratio * 2
    assert session.release("deritis") == ratio
    events = [event for event in session.transcript() if isinstance(event, ValueReleased)]
    assert events[1].rests_on == ("ast", "alt")


def test_a_name_in_use_or_not_a_name_is_refused() -> None:
    session = opened(identifiers={"mrn": "4415-8820"})
    session.derive("ast / alt", name="ratio")
    with pytest.raises(NameTakenError):
        session.derive("ast", name="ratio")
    with pytest.raises(NameTakenError):
        session.derive("ast", name="age")
    for name in ("two words", "sqrt", "__x", "1st", "pi", "mrn", "a + b"):
        with pytest.raises(RootGuardError):
            session.derive("ast", name=name)


def test_a_request_adds_a_node_if_it_has_a_name() -> None:
    session = opened()
    before = len(session.graph.order)
    for _ in range(3):
        session.derive("ast / alt")
        session.derive("ast/alt")
    session.derive("ast / alt + 1")
    assert len(session.graph.order) == before
    session.derive("ast / alt", name="deritis")
    assert [node.name for node in session.graph.order[before:]] == ["deritis"]


def test_the_graph_is_exported_with_what_was_asked() -> None:
    session = opened()
    session.derive("ast / alt", name="deritis")
    nodes = {node["name"]: node for node in json.loads(session.graph.to_json())["nodes"]}
    assert nodes["deritis"]["parents"] == ["alt", "ast"]
    assert nodes["deritis"]["kind"] == "request"
    assert "deritis = ast / alt" in session.graph.to_mermaid()
    assert '"ast" -> "deritis";' in session.graph.to_dot()


@pytest.mark.parametrize(
    ("formula", "error"),
    [
        ("ast / (alt - alt)", FormulaUndefinedError),
        ("log(0 - ast)", FormulaUndefinedError),
        ("sqrt(-age)", FormulaUndefinedError),
        ("height", FormulaNameError),
        ("9**9**9", FormulaLimitError),
        ("(" * 10_000, FormulaLimitError),
        ("__import__('os')", FormulaNameError),
        ("", FormulaSyntaxError),
    ],
)
def test_a_formula_that_cannot_be_answered_is_a_typed_refusal_and_noted(
    formula: str, error: type[RootGuardError]
) -> None:
    session = opened()
    with pytest.raises(error):
        session.derive(formula)
    (event,) = session.transcript()
    assert isinstance(event, RequestRefused)
    assert (event.turn, event.reason) == (1, error.__name__)
    # Declared names are told, and no other word of the formula: it may be anything.
    told = {each.root for each in event.places} if isinstance(event, PlacesRefused) else set()
    assert told <= {"age", "ast", "alt", "plt"}
    assert told == {name for name in ("age", "ast", "alt") if name in formula}


def test_a_formula_may_be_as_long_as_it_is_written_down_and_no_longer() -> None:
    summands = f"{'x' * 63}+" * 30
    rest = MAX_LENGTH - 30 * len(f"{'x' * 63} + ")
    assert len(parsed(summands + "y" * rest)[1]) == MAX_LENGTH
    with pytest.raises(FormulaLimitError, match="text length"):
        parsed(summands + "y" * (rest + 1))


def test_an_unknown_name_is_refused_and_noted() -> None:
    session = opened()
    with pytest.raises(UnknownNameError):
        session.release("income")
    assert isinstance(session.transcript()[0], RequestRefused)


def test_the_transcript_says_what_crossed_in_order() -> None:
    session = opened()
    ast = session.number("ast")
    ratio = session.derive("ast/alt")
    first, second = session.transcript()
    micro = {root: int(epsilon * 10**6) for root, epsilon in session.spent().items()}
    assert first == ValueReleased(
        turn=1,
        name="ast",
        formula="",
        value=ast,
        rests_on=("ast",),
        levels=(micro["ast"],),
        recipient="",
        tier="",
    )
    assert second == ValueReleased(
        turn=2,
        name="q1",
        formula="ast / alt",
        value=ratio,
        rests_on=("ast", "alt"),
        levels=(micro["ast"], micro["alt"]),
        recipient="",
        tier="",
    )


def test_the_budget_may_be_epsilon_times_turns() -> None:
    session = Guard.open(FIB4, values=PERSON, epsilon="0.1", turns=9)
    assert session.guarantee().total == Fraction(9, 10)


@pytest.mark.parametrize(
    "budget",
    [{}, {"budget": 1, "epsilon": 1}, {"epsilon": 1}, {"turns": 3}, {"budget": 0}, {"budget": "x"}],
)
def test_a_malformed_budget_is_refused(budget: dict[str, object]) -> None:
    with pytest.raises(BudgetError):
        Guard.open(FIB4, values=PERSON, **budget)  # type: ignore[arg-type]


def test_missing_strange_and_unusable_values_are_refused_by_name() -> None:
    with pytest.raises(PrivateValueError, match="no value was given for: alt, plt"):
        Guard.open(FIB4, values={"age": 54, "ast": 23}, budget=1)
    with pytest.raises(PrivateValueError, match="finite number is needed for: ast"):
        Guard.open(FIB4, values={**PERSON, "ast": float("nan")}, budget=1)
    with pytest.raises(UnknownNameError, match="weight"):
        Guard.open(FIB4, values={**PERSON, "weight": 80}, budget=1)


def test_the_same_principal_and_value_get_the_same_noise_in_a_later_session() -> None:
    store = MemoryStore()
    first, second = opened(store=store), opened(store=store)
    for root in PERSON:
        assert first.release(root) == second.release(root)
    assert second.spent() == first.spent()
    assert opened(store=store, principal="someone else").spent() == first.spent()


def test_a_changed_value_is_a_new_version_with_its_own_cost() -> None:
    store = MemoryStore()
    before = opened(store=store).spent()
    after = Guard.open(FIB4, values={**PERSON, "ast": 41}, budget="0.9", store=store)
    assert after.spent()["ast"] == 2 * before["ast"]
    assert after.spent()["age"] == before["age"]
    roots = after.describe()["roots"]
    assert isinstance(roots, dict)
    assert roots["ast"]["version"] == 2
    assert roots["age"]["version"] == 1


def test_a_later_plan_does_not_noise_a_root_again() -> None:
    store = MemoryStore()
    first = opened(store=store)
    second = Guard.open(FIB4, values=PERSON, budget="50", store=store)
    assert second.release("ast") == first.release("ast")
    assert second.guarantee().total == first.guarantee().total == Fraction(9, 10)


def test_another_template_sees_the_root_as_it_was_noised() -> None:
    store = MemoryStore()
    vascular, shock = load_template("vascular"), load_template("shock_index")
    first = Guard.open(vascular, values={"sbp": 134, "dbp": 64}, budget=1, store=store)
    second = Guard.open(shock, values={"sbp": 134, "hr": 70}, budget=1, store=store)
    assert second.release("sbp") == first.release("sbp")
    assert sorted(second.spent()) == ["dbp", "hr", "sbp"]


def test_resuming_needs_no_raw_value_and_draws_nothing() -> None:
    store = MemoryStore()
    first = opened(store=store)
    again = Guard.resume(FIB4, store=store)
    assert again.target() == first.target()
    assert again.spent() == first.spent()
    with pytest.raises(PrivateValueError, match="open with a value: wt, ht"):
        Guard.resume(load_template("bmi"), store=store)


def test_racing_openings_of_one_principal_agree_on_one_draw() -> None:
    store = MemoryStore()
    results: list[tuple[float, ...]] = []
    barrier = threading.Barrier(8)

    def open_and_release() -> None:
        barrier.wait()
        session = opened(store=store)
        results.append(tuple(session.number(root) for root in PERSON))

    threads = [threading.Thread(target=open_and_release) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(results)) == 1
    assert len(results) == 8
    assert sum(opened(store=store).spent().values()) == Fraction(9, 10)


def test_two_sessions_without_a_store_draw_independently() -> None:
    values = {opened().release("plt") for _ in range(20)}
    assert len(values) > 1  # all equal with probability below 1e-15


def test_a_computed_root_costs_nothing_and_needs_no_value() -> None:
    template = parse_template(
        """
name = "own"
title = "Weight"
field = "medicine"
description = "A root that is a formula of two others."
sources = ["none"]
[roots.wt]
lower = 30
upper = 200
unit = "kg"
[roots.ht]
lower = 1.2
upper = 2.2
unit = "m"
[roots.bmi]
lower = 10
upper = 60
unit = "kg/m2"
formula = "wt / ht**2"
[target]
name = "score"
formula = "bmi / 25"
unit = "1"
""",
        file="own.toml",
    )
    session = Guard.open(template, values={"wt": 80, "ht": 1.8, "bmi": 24.7}, budget=1)
    wt, ht = session.number("wt"), session.number("ht")
    assert session.release("bmi") == pytest.approx(wt / ht**2, rel=1e-15)
    assert set(session.spent()) == {"wt", "ht"}
    assert Guard.open(template, values={"wt": 80, "ht": 1.8}, budget=1).target() > 0


def test_the_owner_is_told_of_a_clamped_value_and_the_service_is_not() -> None:
    told: list[tuple[str, ...]] = []
    values = {**PERSON, "ast": 5000}
    session = Guard.open(FIB4, values=values, budget=50, on_clamp=told.append)
    assert told == [("ast",)]
    assert session.release("ast") == pytest.approx(272, abs=5)
    assert "clamp" not in json.dumps(session.describe())
    with pytest.warns(ClampedWarning, match="ast") as caught:
        Guard.open(FIB4, values=values, budget=50)
    assert [warning.filename for warning in caught] == ["<rootguard>"]  # no line of the caller's


def test_identifiers_are_released_as_tokens_and_restored_for_the_owner() -> None:
    session = opened(identifiers={"patient": "Ann Smith", "mrn": "4415-8820"})
    name, number = session.release("patient"), session.release("mrn")
    assert isinstance(name, str)
    assert isinstance(number, str)
    assert name != "Ann Smith"
    assert number != "4415-8820"
    assert session.restore(f"Dear {name} ({number}), call 4415-0000.") == (
        "Dear Ann Smith (4415-8820), call 4415-0000."
    )
    assert session.guarantee().identifiers == 2
    with pytest.raises(IdentifierError, match="blank"):
        opened(identifiers={"blank": ""})
    with pytest.raises(IdentifierError, match="ast"):
        opened(identifiers={"ast": "4415-8820"})


def test_the_same_key_gives_the_same_tokens() -> None:
    key = bytes(range(32))
    first = opened(identifiers={"mrn": "4415-8820"}, key=key).release("mrn")
    assert opened(identifiers={"mrn": "4415-8820"}, key=key).release("mrn") == first


def test_a_plan_that_does_not_price_out_draws_nothing() -> None:
    plan = make_plan(FIB4, Fraction(1))
    raws = select(seal(PERSON), Graph.of(FIB4))
    with pytest.raises(PlanError):
        sanitize(replace(plan, budget=Fraction(1, 2)), raws, {})


class Broken:
    """A source that fails while the true index is being noised."""

    def words(self, count: int) -> list[int]:
        raise OSError("no entropy")


def test_a_failed_draw_says_so_and_carries_nothing_along() -> None:
    raws = select(seal(PERSON), Graph.of(FIB4))
    with pytest.raises(NoiseError) as caught:
        sanitize(make_plan(FIB4, Fraction(1)), raws, {}, Broken())
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_a_session_reaches_no_raw_value() -> None:
    session = opened()
    session.target()
    seen: set[int] = set()
    stack: list[object] = [session.__dict__]
    while stack:
        thing = stack.pop()
        if id(thing) in seen or isinstance(thing, type) or type(thing).__name__ == "module":
            continue
        seen.add(id(thing))
        assert not isinstance(thing, Raw)
        if not isinstance(thing, FunctionType):
            stack += gc.get_referents(thing)
    assert len(seen) > 100


def test_only_the_pinned_names_are_public() -> None:
    import rootguard

    assert sorted(rootguard.__all__) == sorted(
        [
            "Guard",
            "AsyncSession",
            "Guarantee",
            "MemoryStore",
            "Person",
            "Plan",
            "Policy",
            "RootGuardError",
            "Session",
            "Store",
            "Template",
            "catalog",
            "hiding_plan",
            "load_policy",
            "load_profile",
            "load_template",
            "make_plan",
            "open_store",
        ]
    )
    for name in rootguard.__all__:
        assert hasattr(rootguard, name)


def test_one_root_by_two_of_its_names_is_refused_by_its_own() -> None:
    alias = FIB4.roots[RootName("ast")].aliases[0]
    with pytest.raises(PrivateValueError, match=r"two values were given for: ast$"):
        Guard.open(FIB4, values={**PERSON, alias: 30}, budget=1)


@pytest.mark.parametrize("amount", [{"budget": 1}, {"epsilon": 1}, {"turns": 1}])
def test_what_to_hide_and_a_budget_are_not_given_together(amount: dict[str, int]) -> None:
    with pytest.raises(BudgetError, match="not both"):
        Guard.open(FIB4, values=PERSON, hide={"age": 5}, **amount)  # type: ignore[arg-type]


class Contended(MemoryStore):
    """A store to which another writer always comes first."""

    busy = False

    def commit(
        self, principal: Principal, draws: Sequence[Record], *, epoch: int | None = None
    ) -> tuple[Record, ...]:
        if not self.busy:
            return super().commit(principal, draws, epoch=epoch)
        return tuple(replace(record, fingerprint=b"other") for record in draws)


def test_whoever_loses_every_race_is_told_and_nothing_is_released() -> None:
    store = Contended()
    opened(store=store)
    policy = parse_policy(
        '[tiers.low]\nbudget = "0.3"\n[services.app]\ntier = "low"\nroots = "*"', file="p.toml"
    )
    store.busy = True
    with pytest.raises(StoreError, match="too many writers"):
        opened(store=store, principal="another")
    with pytest.raises(StoreError, match="too many writers"):
        Guard.refine(FIB4, values=PERSON, budget=5, store=store)
    with pytest.raises(StoreError, match="too many writers"):
        Guard.serve(FIB4, store=store, policy=policy, service="app").release("ast")
    assert not store.disclosures(Principal("owner"))
